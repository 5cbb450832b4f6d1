//! What several suites need: an engine, a run over lines, and the emissions as JSON.
#![allow(dead_code, reason = "each suite uses its part")]

use serde_json::Value;
use sluicegate::engine::policy::{OnePolicy, Profile};
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Emission, Engine, Input, Observation, Out, Outcome, Redacted, Settings, To};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub fn settings(profile: Profile) -> Settings {
    Settings {
        redacted: Redacted { provider_calls: true, ..Redacted::default() },
        trust_event_time: true,
        lines: true,
        ..Settings::local(profile)
    }
}

pub fn engine(profile: Profile) -> Engine {
    Engine::new(settings(profile)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// As if an operator had approved what servers list at first.
pub fn trusting(profile: Profile) -> Engine {
    let mut settings = settings(profile);
    let options = [("trust_first".to_owned(), Value::Bool(true))].into_iter().collect();
    settings.policy.policies.insert("SG06".to_owned(), OnePolicy { options, ..OnePolicy::default() });
    Engine::new(settings).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// One partition of one engine, fed line by line as `check` does.
pub struct Partition<'e> {
    engine: &'e Engine,
    pub state: PartitionState,
    out: Out,
    offset: i64,
    pub outcomes: Vec<Outcome>,
    /// What was not understood, by kind.
    pub opaque: BTreeMap<&'static str, u64>,
}

impl<'e> Partition<'e> {
    pub fn new(engine: &'e Engine) -> Self {
        let mut state = PartitionState::new();
        state.begin();
        Self { engine, state, out: Out::default(), offset: 0, outcomes: Vec::new(), opaque: BTreeMap::new() }
    }

    /// What the last record made countable.
    pub fn observations(&self) -> &[Observation] {
        &self.out.observations
    }

    pub fn feed(&mut self, line: &[u8]) -> Vec<Emission> {
        self.feed_record(None, &[], Some(line))
    }

    pub fn feed_record(
        &mut self,
        key: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
        value: Option<&[u8]>,
    ) -> Vec<Emission> {
        let input = Input { topic: "check", partition: 0, offset: self.offset, timestamp: None, key, headers, value };
        self.offset += 1;
        self.outcomes.push(self.engine.step(&mut self.state, &input, &mut self.out));
        for seen in &self.out.observations {
            if let Observation::Opaque { kind, count, .. } = seen {
                *self.opaque.entry(kind).or_default() += count;
            }
        }
        crate::schemas::hold(&self.out.emissions);
        self.out.emissions.clone()
    }
}

/// The verdicts among emissions.
pub fn verdicts(emissions: &[Emission]) -> Vec<Value> {
    emissions.iter().filter(|e| e.to == To::Verdicts).map(body).collect()
}

pub fn body(emission: &Emission) -> Value {
    let bytes = emission.value.as_deref().unwrap_or(b"null");
    serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(bytes)))
}

pub fn header<'a>(emission: &'a Emission, name: &str) -> Option<&'a str> {
    let (_, value) = emission.headers.iter().find(|(n, _)| n == name)?;
    std::str::from_utf8(value).ok()
}

/// The folder with recorded traffic, beside the checkout or where `SLUICEGATE_SHARED` says. `None` after
/// saying so; in CI its absence is a failure.
pub fn shared(folder: &str) -> Option<PathBuf> {
    let base = std::env::var_os("SLUICEGATE_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = base.join(folder);
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "CI must have the recorded traffic at ../shared/{folder}");
    println!("SKIPPED: recorded traffic is not at ../shared/{folder}");
    None
}

/// The files of a folder in order.
pub fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    files
}

/// A file's lines that hold something.
pub fn lines(path: &std::path::Path) -> Vec<Vec<u8>> {
    let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty()).map(<[u8]>::to_vec).collect()
}
