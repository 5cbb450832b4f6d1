//! The whole engine on a sequence of records.
//!
//! The input is records, divided by a line `%%`. The first line of each has a byte for what it is, one for its
//! provider and one for its attributes, see [`Run::record`]; the rest is its value. The last byte of the first
//! record's line chooses the engine.

use super::{digit, pick, split};
use sluicegate::engine::pins::record::Sighting;
use sluicegate::engine::policy::Profile;
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::{PartitionState, StateLimits};
use sluicegate::engine::wire::EventType;
use sluicegate::engine::{
    Emission, Engine, Input, Limits, Out, Outcome, Publish, Redacted, Remaining, Settings, TickSource, To,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Text that a corpus plants in arguments, results, names and attributes: no identifier, so no verdict may show it.
const MARKER: &[u8] = b"<planted text>";

const RECORDS: usize = 60;

const KINDS: [EventType; 9] = [
    EventType::ModelRequest,
    EventType::ModelResponse,
    EventType::ModelChunk,
    EventType::ModelClosed,
    EventType::ToolStarted,
    EventType::ToolResult,
    EventType::Render,
    EventType::McpMessage,
    EventType::Unknown,
];

/// As deployed, and one that meets every limit.
fn engines() -> &'static [Engine; 2] {
    static ENGINES: OnceLock<[Engine; 2]> = OnceLock::new();
    ENGINES.get_or_init(|| {
        let standard = Settings { lines: true, trust_event_time: true, ..Settings::local(Profile::Standard) };
        let limits = Limits {
            record_bytes: 2 << 10,
            call_bytes: 256,
            output_bytes: 64 << 10,
            verdict_bytes: 4 << 10,
            redacted_record_bytes: 4 << 10,
            open_calls_per_response: 2,
            open_calls_per_conversation: 3,
            history: 2,
            conversation_bytes: 4 << 10,
            partition_bytes: 8 << 10,
            json_depth: 8,
            json_nodes: 200,
            call_ttl_ms: 1_000,
            conversation_ttl_ms: 60_000,
            ..Limits::default()
        };
        let redacted = Redacted { provider_calls: true, publish: Publish::All, on_block: None };
        let strict = Settings { limits, redacted, ..Settings::local(Profile::Strict) };
        [standard, strict].map(|settings| Engine::new(settings).expect("settings that hold"))
    })
}

pub fn run(data: &[u8]) {
    let engine = &engines()[digit(split(data, b"\n").0.last()) % 2];
    let mut run = Run {
        engine,
        state: PartitionState::new(),
        out: Out::default(),
        changelog: BTreeMap::new(),
        offset: 0,
        time: 1_767_225_600_000,
    };
    run.state.begin();
    let mut rest = Some(data);
    for _ in 0..RECORDS {
        let Some(record) = rest else { break };
        let (record, behind) = split(record, b"\n%%\n");
        run.record(record);
        rest = behind;
    }
    run.tick(i64::MAX / 2);
    run.commit();
    assert_eq!(run.state.stats().conversations, 0, "everything expires");
}

struct Run<'e> {
    engine: &'e Engine,
    state: PartitionState,
    out: Out,
    changelog: BTreeMap<Vec<u8>, Vec<u8>>,
    offset: i64,
    time: i64,
}

impl Run<'_> {
    /// First byte: `0` to `8` a kind in binary mode, `9` a structured event, `:` a bare value, `;` a tick, `<` a
    /// commit, `=` a rollback. Second: the provider, `8` none. Third: 1 a response id, 2 a sequence number,
    /// 4 another conversation, 8 an HTTP error, 16 the marker as a conversation's and agent's name, 32 no value.
    fn record(&mut self, record: &[u8]) {
        let (head, value) = split(record, b"\n");
        let (what, flags) = (digit(head.first()), digit(head.get(2)));
        let value = value.filter(|_| flags & 32 == 0);
        match what {
            11 => return self.tick(self.time + digit(head.get(1)) as i64 * 60_000),
            12 => return self.commit(),
            13 => return self.roll_back(),
            _ => {}
        }
        let number = self.offset.to_string();
        let mut headers: Vec<(&str, Option<&[u8]>)> = Vec::new();
        match what {
            9 => headers.push(("content-type", Some(b"application/cloudevents+json"))),
            10 => {}
            _ => {
                headers.extend([
                    ("content-type", Some(b"application/json".as_slice())),
                    ("ce_specversion", Some(b"1.0")),
                    ("ce_id", Some(number.as_bytes())),
                    ("ce_source", Some(b"/fleet/fuzz")),
                    ("ce_type", Some(pick(&KINDS, head.first()).name().as_bytes())),
                ]);
                let provider = Provider::ALL.get(digit(head.get(1)) % 9);
                headers.extend(provider.map(|provider| ("ce_provider", Some(provider.name().as_bytes()))));
            }
        }
        let optional: [(usize, &str, &[u8]); 6] = [
            (1, "ce_responseid", b"r-1"),
            (2, "ce_sequence", number.as_bytes()),
            (4, "ce_conversation", b"c-2"),
            (8, "ce_httpstatus", b"500"),
            (16, "ce_conversation", MARKER),
            (16, "ce_agent", MARKER),
        ];
        if what < 9 {
            headers.extend(
                optional.iter().filter(|(bit, ..)| flags & bit != 0).map(|(_, name, value)| (*name, Some(*value))),
            );
        }
        self.time += 100;
        let input = Input {
            topic: "agent.events",
            partition: 3,
            offset: self.offset,
            timestamp: Some(self.time),
            key: Some(b"c-1"),
            headers: &headers,
            value,
        };
        self.offset += 1;
        let outcome = self.engine.step(&mut self.state, &input, &mut self.out);
        self.check(outcome, value);
    }

    fn check(&self, outcome: Outcome, value: Option<&[u8]>) {
        let sent = |to: To| self.out.emissions.iter().any(move |emission| emission.to == to);
        match outcome {
            Outcome::Judged => assert!(sent(To::Verdicts), "judged without a verdict"),
            Outcome::Passed => assert!(!sent(To::Verdicts), "a verdict of what passed"),
            Outcome::Rejected(reject) => {
                assert_ne!(reject.label(), "engine_panic");
                assert!(sent(To::DeadLetters), "rejected without a dead letter");
            }
        }
        for emission in &self.out.emissions {
            match emission.to {
                To::Verdicts => self.verdict(emission),
                To::Redacted => {
                    let copy = emission.value.as_deref().unwrap_or_default();
                    assert!(
                        copy.is_empty() || is_json(copy) || !value.is_some_and(is_json),
                        "a copy of JSON is no JSON"
                    );
                }
                To::DeadLetters => {
                    let ours = |(name, _): &&(String, Vec<u8>)| name.starts_with("sluicegate_");
                    assert!(
                        !emission.headers.iter().filter(ours).any(|(_, value)| shows(value)),
                        "a reason shows text"
                    );
                }
                To::Sightings => {
                    let (key, value) = (emission.key.as_deref(), emission.value.as_deref());
                    let read = Sighting::decode(key.unwrap_or_default(), value.unwrap_or_default());
                    assert!(read.is_ok(), "a sighting that nobody can read");
                }
            }
        }
        let size: usize = self.out.emissions.iter().map(Emission::size).sum();
        assert!(size as u64 <= 2 * self.engine.settings().limits.output_bytes, "{size} bytes of output");
    }

    fn verdict(&self, emission: &Emission) {
        let value = emission.value.as_deref().expect("a verdict has a value");
        let text = std::str::from_utf8(value).expect("a verdict is text");
        assert!(is_json(value) && text.contains(r#""action":""#), "no verdict: {text}");
        assert!(value.len() as u64 <= self.engine.settings().limits.verdict_bytes, "{} bytes", value.len());
        assert!(!shows(value) && !emission.headers.iter().any(|(_, value)| shows(value)), "a verdict shows text");
    }

    /// Expires all that is due. A panic in a tick is undone, and what was due stays so.
    fn tick(&mut self, now: i64) {
        self.time = self.time.max(now.min(1 << 50));
        for _ in 0..10_000 {
            let source = TickSource { topic: "agent.events", partition: 3, now };
            let remaining = self.engine.tick(&mut self.state, source, 2, &mut self.out);
            self.out.emissions.iter().filter(|emission| emission.to == To::Verdicts).for_each(|e| self.verdict(e));
            if remaining == Remaining::None {
                let limits = StateLimits::from(&self.engine.settings().limits);
                assert!(self.state.due(now, 1, &limits).is_empty(), "a tick left what was due");
                return;
            }
        }
        panic!("a tick never ends");
    }

    /// Commits: what was written and a restore of it give the state.
    fn commit(&mut self) {
        let changelog = &mut self.changelog;
        self.state.writes(&mut |key, value| match value {
            Some(value) => drop(changelog.insert(key.clone(), value.to_vec())),
            None => drop(changelog.remove(key)),
        });
        self.state.accept();
        let mut restored = PartitionState::new();
        for (key, value) in &self.changelog {
            restored.restore(key, Some(value)).expect("an entry of our own");
        }
        restored.restored().expect("entries of our own");
        assert_eq!(entries(&restored), self.changelog, "a restore gives something else");
        assert_eq!(entries(&self.state), self.changelog, "what was written is not what there is");
        assert_eq!(restored.stats(), self.state.stats());
        self.state = restored;
        self.state.begin();
    }

    fn roll_back(&mut self) {
        self.state.rollback();
        assert_eq!(entries(&self.state), self.changelog, "a transaction is not undone");
        self.state.begin();
    }
}

/// Read without keeping anything, which is most of what this target costs.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

fn shows(bytes: &[u8]) -> bool {
    bytes.windows(MARKER.len()).any(|window| window == MARKER)
}

fn entries(state: &PartitionState) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    state.entries(&mut |key, value| {
        entries.insert(key.clone(), value.expect("a live entry has a value").to_vec());
    });
    entries
}
