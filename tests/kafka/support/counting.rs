//! A judge whose right answer is arithmetic: it numbers the records of each key.
//!
//! The n-th record of a key gives one verdict `key:n:value`. State that is lost, applied twice or rolled back
//! wrongly shows as a gap or a repetition in the numbers. A value `open:…` is buffered in state and gives nothing;
//! `close:…` gives the buffered values joined, so that state spans records and transactions.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate::runtime::judge::{Emission, Input, Judge, Out, Outcome, Remaining, TickSource, To};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub count: u64,
    pub buffered: Vec<String>,
}

#[derive(Debug, Default)]
pub struct State {
    pub slots: BTreeMap<Vec<u8>, Slot>,
    prior: BTreeMap<Vec<u8>, Option<Slot>>,
    changed: BTreeSet<Vec<u8>>,
}

#[derive(Default)]
pub struct Counting {
    /// Time that a step takes, for tests that need a batch under way.
    pub step_time: std::time::Duration,
}

fn encode(slot: &Slot) -> Vec<u8> {
    format!("{}\n{}", slot.count, slot.buffered.join("\n")).into_bytes()
}

fn decode(bytes: &[u8]) -> Option<Slot> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (count, rest) = text.split_once('\n')?;
    let buffered = rest.split('\n').filter(|s| !s.is_empty()).map(str::to_owned).collect();
    Some(Slot { count: count.parse().ok()?, buffered })
}

impl Judge for Counting {
    type State = State;

    fn open(&self, _topic: &str, _partition: i32) -> State {
        State::default()
    }

    fn begin(&self, state: &mut State) {
        assert!(state.prior.is_empty() && state.changed.is_empty(), "begin inside a transaction");
    }

    fn step(&self, state: &mut State, input: &Input<'_>, out: &mut Out) -> Outcome {
        out.clear();
        if !self.step_time.is_zero() {
            std::thread::sleep(self.step_time);
        }
        let key = input.key.unwrap_or_default().to_vec();
        let value = String::from_utf8_lossy(input.value.unwrap_or_default()).into_owned();
        let before = state.slots.get(&key).cloned();
        state.prior.entry(key.clone()).or_insert(before);
        state.changed.insert(key.clone());
        let slot = state.slots.entry(key.clone()).or_default();
        slot.count += 1;
        if value.starts_with("open:") {
            slot.buffered.push(value);
            return Outcome::Passed;
        }
        let held = std::mem::take(&mut slot.buffered).join("+");
        let text = format!("{}:{}:{held}{value}", String::from_utf8_lossy(&key), slot.count);
        let source = format!("{}/{}", input.partition, input.offset);
        for to in [To::Verdicts, To::Redacted] {
            out.emissions.push(Emission {
                to,
                key: Some(key.clone()),
                headers: vec![("source".to_owned(), source.clone().into_bytes())],
                value: Some(text.clone().into_bytes()),
                timestamp: None,
            });
        }
        Outcome::Judged
    }

    fn tick(&self, _state: &mut State, _source: TickSource<'_>, _budget: u32, out: &mut Out) -> Remaining {
        out.clear();
        Remaining::None
    }

    fn writes(&self, state: &State, put: &mut dyn FnMut(&[u8], Option<&[u8]>)) {
        for key in &state.changed {
            let mut name = b"slot/".to_vec();
            name.extend_from_slice(key);
            let value = state.slots.get(key).map(encode);
            put(&name, value.as_deref());
        }
    }

    fn accept(&self, state: &mut State) {
        state.prior.clear();
        state.changed.clear();
    }

    fn rollback(&self, state: &mut State) {
        for (key, slot) in std::mem::take(&mut state.prior) {
            match slot {
                Some(slot) => state.slots.insert(key, slot),
                None => state.slots.remove(&key),
            };
        }
        state.changed.clear();
    }

    fn restore(&self, state: &mut State, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let key = key.strip_prefix(b"slot/").ok_or("a key without its prefix")?.to_vec();
        match value {
            None => state.slots.remove(&key),
            Some(value) => state.slots.insert(key, decode(value).ok_or("a damaged slot")?),
        };
        Ok(())
    }
}

/// What a failure-free run emits for these records, by `partition/offset` of the input.
pub fn expected<'a>(records: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let (judge, mut state, mut out) = (Counting::default(), State::default(), Out::default());
    let mut lines = Vec::new();
    for (offset, (key, value)) in records.into_iter().enumerate() {
        let input = Input {
            topic: "",
            partition: 0,
            offset: i64::try_from(offset).unwrap(),
            timestamp: None,
            key: Some(key.as_bytes()),
            headers: &[],
            value: Some(value.as_bytes()),
        };
        judge.step(&mut state, &input, &mut out);
        let verdicts = out.emissions.iter().filter(|e| e.to == To::Verdicts);
        lines.extend(verdicts.map(|e| String::from_utf8(e.value.clone().unwrap()).unwrap()));
    }
    lines
}
