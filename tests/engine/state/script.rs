//! A script is lines of JSON arrays, one event each; a check runs it and compares what became of the calls.
//!
//! `["begin", id?, "again"?]`, `["open", slot, {facts}]`, `["append", slot, text, part?]`,
//! `["leaf", slot, path, value, "more"?]`, `["cancel", call id]`, `["restate", slot, {"text"|"raw": …}]`, `["close", slot, status]`, `["item", slot, {facts}, status]`,
//! `["listed", …]`, `["answered", call id]`, `["stop", client, provider, choice?]`, `["end"]`,
//! `["error", reason]`, `["closed"]`, and `["exchange", n]`: what follows belongs to the nth exchange.

use bumpalo::Bump;
use sluicegate::engine::event::*;
use sluicegate::engine::json::{JsonLimits, Kind, Value, parse};
use sluicegate::engine::layer::Layer;
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::*;
use sluicegate::engine::verdict::Decision;
use std::collections::BTreeMap;

pub const KEY: ConvKey = ConvKey(7);

pub const LIMITS: StateLimits = StateLimits {
    call_bytes: 20_000,
    open_calls_per_response: 8,
    open_calls_per_conversation: 12,
    history: 64,
    conversation_bytes: 1 << 20,
    partition_bytes: 1 << 24,
    call_ttl_ms: 1_000,
    reorder_window_ms: 10,
    conversation_ttl_ms: 60_000,
};

const REASONS: [CutReason; 14] = [
    CutReason::MaxTokens,
    CutReason::ContentFilter,
    CutReason::Refused,
    CutReason::Failed,
    CutReason::Paused,
    CutReason::EndedOtherwise,
    CutReason::ItemIncomplete,
    CutReason::TransportClosed,
    CutReason::Expired,
    CutReason::Superseded,
    CutReason::Cancelled,
    CutReason::Orphan,
    CutReason::Undecodable,
    CutReason::Limit,
];

pub fn document<'r>(bump: &'r Bump, text: &str) -> Value<'r> {
    let layer = Layer::record(bump, bump.alloc_slice_copy(text.as_bytes()));
    parse(bump, layer, JsonLimits::default()).unwrap_or_else(|e| panic!("{e:?} in {text}"))
}

fn word(value: Option<Value<'_>>) -> String {
    value.and_then(|v| v.str()).map(|s| s.into_owned()).unwrap_or_default()
}

fn reason(label: &str) -> CutReason {
    REASONS.into_iter().find(|r| r.label() == label).unwrap_or_else(|| panic!("no reason {label}"))
}

fn fate(label: &str) -> Fate {
    match label {
        "final" => Fate::Final,
        "carry" => Fate::Carry,
        other => Fate::Cut(reason(other)),
    }
}

fn status(label: &str) -> ItemStatus {
    match label {
        "" | "complete" => ItemStatus::Complete,
        "suspended" => ItemStatus::Suspended,
        "incomplete" => ItemStatus::Incomplete,
        other => panic!("no status {other}"),
    }
}

fn slot(value: Value<'_>) -> Slot {
    if value.is("next") {
        return Slot::arrival(0);
    }
    let mut pair = value.items().filter_map(|v| v.u64());
    match value.u64() {
        Some(n) => Slot(n as u32, 0),
        None => Slot(pair.next().unwrap_or(0) as u32, pair.next().unwrap_or(0) as u32),
    }
}

fn args<'r>(facts: Value<'r>) -> Args<'r> {
    match (facts.get("text"), facts.get("raw")) {
        (Some(text), _) => Args::Text(text),
        (_, Some(raw)) => Args::Raw(raw),
        _ => Args::Absent,
    }
}

fn facts<'r>(at: Value<'r>, item: Value<'r>) -> CallFacts<'r> {
    CallFacts {
        slot: slot(at),
        id: item.get("id"),
        item_id: item.get("item_id"),
        name: item.get("name").map_or(Name::None, Name::Wire),
        namespace: item.get("namespace"),
        server: item.get("server"),
        executor: if word(item.get("run")) == "provider" { Executor::Provider } else { Executor::Client },
        form: match word(item.get("form")).as_str() {
            "value" => Form::JsonValue,
            "free" => Form::FreeText,
            _ => Form::JsonText,
        },
        args: args(item),
        item,
    }
}

pub fn event<'r>(line: Value<'r>) -> Event<'r> {
    let part: Vec<Value<'r>> = line.items().collect();
    let at = |n: usize| part.get(n).copied();
    let nth = |n: usize| at(n).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(line.raw())));
    match word(at(0)).as_str() {
        "begin" => Event::Begin { id: at(1), again: word(at(2)) == "again" },
        "open" => Event::Open(facts(nth(1), nth(2))),
        "append" => {
            Event::Append { slot: slot(nth(1)), text: nth(2), part: at(3).and_then(|v| v.u64()).unwrap_or(0) as u32 }
        }
        "leaf" => Event::Leaf {
            slot: slot(nth(1)),
            path: nth(2),
            value: match nth(3).kind() {
                Kind::String => LeafValue::Text(nth(3)),
                Kind::Number => LeafValue::Number(nth(3)),
                Kind::Bool => LeafValue::Bool(nth(3).bool().unwrap_or_default()),
                _ => LeafValue::Null,
            },
            more: word(at(4)) == "more",
        },
        "cancel" => Event::Cancel { id: nth(1) },
        "restate" => Event::Restate { slot: slot(nth(1)), args: args(nth(2)) },
        "close" => Event::Close { slot: slot(nth(1)), status: status(&word(at(2))) },
        kind @ ("item" | "listed") => {
            Event::Item { call: facts(nth(1), nth(2)), status: status(&word(at(3))), listed: kind == "listed" }
        }
        "answered" => Event::ServerResult { result: result(nth(1)), closes: true },
        "stop" => Event::Stop(Stop {
            client: fate(&word(at(1))),
            provider: fate(&word(at(2))),
            choice: at(3).and_then(|v| v.u64()).map(|n| n as u32),
        }),
        "end" => Event::End { choice: None },
        "error" => Event::Error { reason: reason(&word(at(1))) },
        "closed" => Event::Closed,
        other => panic!("no event {other}"),
    }
}

fn result(id: Value<'_>) -> ResultItem<'_> {
    ResultItem {
        shape: ResultShape::Server,
        item: id,
        content: None,
        parts: Vec::new(),
        call_id: Some(id),
        tool: Name::None,
        server: None,
        failure: Failure::Unsaid,
        failure_value: None,
        error_code: None,
        addresses: Vec::new(),
        source: None,
        url: None,
        fetched_at: None,
        display: None,
    }
}

/// One call's end in one line: `id/name final|reason text !flags`.
pub fn line(call: &Call) -> String {
    let text = |t: &[u8]| if t.is_empty() { "-".to_owned() } else { String::from_utf8_lossy(t).into_owned() };
    let ended = match call.status {
        CallStatus::Final => "final",
        CallStatus::Cut(reason) => reason.label(),
        CallStatus::Open => "open",
        CallStatus::Closed(_) => "closed",
    };
    let mut out = format!("{} {} {ended} {}", text(call.effective_id()), text(&call.name), text(&call.text));
    if call.conflict {
        out.push_str(" !conflict");
    }
    out
}

pub fn dump(state: &PartitionState) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    state.entries(&mut |key, value| {
        let value = value.unwrap_or_else(|| panic!("a live entry has a value"));
        assert!(value.len() + key.len() <= 64 << 10, "an entry exceeds 64 KiB");
        all.insert(key.clone(), value.to_vec());
    });
    all
}

/// A compacted changelog.
#[derive(Default, Clone)]
pub struct Changelog(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl Changelog {
    pub fn take(&mut self, state: &PartitionState) {
        let mut last: Option<Vec<u8>> = None;
        state.writes(&mut |key, value| {
            assert!(last.as_ref().is_none_or(|l| l < key), "writes are in key order");
            last = Some(key.clone());
            match value {
                Some(value) => {
                    self.0.insert(key.clone(), value.to_vec());
                }
                None => {
                    let known = self.0.remove(key);
                    assert!(known.is_some(), "a tombstone for what was never written");
                }
            }
        });
    }
    pub fn restore(&self) -> PartitionState {
        let mut state = PartitionState::new();
        for (key, value) in &self.0 {
            state.restore(key, Some(value)).unwrap_or_else(|e| panic!("{e:?}"));
        }
        state.restored().unwrap_or_else(|e| panic!("{e:?}"));
        state
    }
}

/// What a state answers, for comparing two of them: entries, figures, deadlines.
pub type Answers = (BTreeMap<Vec<u8>, Vec<u8>>, Stats, Vec<Vec<ConvKey>>);

pub fn answers(state: &PartitionState) -> Answers {
    let due = |now| state.due(now, u32::MAX, &LIMITS);
    (dump(state), state.stats(), vec![due(0), due(1_500), due(2_500), due(60_500), due(i64::MAX)])
}

/// How a script is carried out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    /// One transaction, one session.
    Once,
    /// A transaction and a restore for each event.
    Restored,
    /// Each event is done, undone by the savepoint, done again, undone by a rollback, and done for good.
    Undone,
}

fn exchange(session: &mut Session<'_>, provider: Provider, id: &[u8], at: At) -> u32 {
    let part = ExchangePart::ResponseStart;
    session.exchange(Want { host_id: Some(id), payload_id: None, provider, part, at }).0
}

fn one(
    state: &mut PartitionState,
    provider: Provider,
    host: &[u8],
    event: &Event<'_>,
    at: At,
    limits: &StateLimits,
    out: &mut Vec<String>,
) {
    let mut session = state.open(KEY, at, limits, &Head::default);
    let n = exchange(&mut session, provider, host, at);
    let mut ready = Vec::new();
    session.absorb(n, event, at, limits, &mut ready);
    for Ready::Call(n) in ready {
        out.push(line(&session.conversation().calls[&n]));
        session.settle(n, [1; 32], None, Decision::Allow);
    }
}

pub fn run(way: Way, provider: Provider, limits: &StateLimits, script: &[&str]) -> (Vec<String>, PartitionState) {
    let mut state = PartitionState::new();
    let mut changelog = Changelog::default();
    let (mut out, mut host) = (Vec::new(), b"0".to_vec());
    state.begin();
    for (offset, text) in script.iter().enumerate() {
        let bump = Bump::new();
        let line = document(&bump, text);
        if word(line.items().next()) == "exchange" {
            host = line.items().nth(1).map(|n| n.raw().to_vec()).unwrap_or_default();
            continue;
        }
        let event = event(line);
        let at = At { offset: offset as i64, time: 100 + offset as i64 };
        if way == Way::Undone {
            let before = answers(&state);
            state.begin();
            state.savepoint();
            one(&mut state, provider, &host, &event, at, limits, &mut Vec::new());
            state.rollback_to_savepoint();
            assert_eq!(answers(&state), before, "savepoint: {text}");
            one(&mut state, provider, &host, &event, at, limits, &mut Vec::new());
            state.savepoint();
            one(&mut state, provider, &host, &event, at, limits, &mut Vec::new());
            state.rollback();
            assert_eq!(answers(&state), before, "rollback: {text}");
        }
        one(&mut state, provider, &host, &event, at, limits, &mut out);
        if way == Way::Restored {
            changelog.take(&state);
            state.accept();
            let restored = changelog.restore();
            assert_eq!(answers(&restored), answers(&state), "{text}");
            state = restored;
            state.begin();
        }
        if way == Way::Undone {
            state.accept();
        }
    }
    (out, state)
}

/// Runs a script in every way and compares the lines of the calls that ended, in the order they did.
#[track_caller]
pub fn check_as(provider: Provider, limits: &StateLimits, script: &[&str], expected: &[&str]) {
    for way in [Way::Once, Way::Restored, Way::Undone] {
        let (out, _) = run(way, provider, limits, script);
        assert_eq!(out, expected, "{way:?}");
    }
}

#[track_caller]
pub fn check(script: &[&str], expected: &[&str]) {
    check_as(Provider::OpenAiResponses, &LIMITS, script, expected);
}
