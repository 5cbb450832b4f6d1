//! The state: any order of events, undone and done again, committed and restored.
//!
//! The input is operations of three bytes, white space between them left out: what, and two choices. See
//! [`Run::operation`].

use super::{digit, pick};
use bumpalo::Bump;
use sluicegate::engine::event::*;
use sluicegate::engine::json::{JsonLimits, Value, parse};
use sluicegate::engine::layer::Layer;
use sluicegate::engine::state::*;
use sluicegate::engine::verdict::Decision;
use std::collections::BTreeMap;

/// Each operation is done twice and compared in full.
const OPERATIONS: usize = 150;

/// Small, so that everything is met: eviction, forgetting, limits.
const LIMITS: StateLimits = StateLimits {
    call_bytes: 4_000,
    open_calls_per_response: 3,
    open_calls_per_conversation: 4,
    history: 4,
    conversation_bytes: 16_000,
    partition_bytes: 12_000,
    call_ttl_ms: 20,
    conversation_ttl_ms: 200,
    reorder_window_ms: 10,
};

const SLOTS: [Slot; 8] = [
    Slot(0, 0),
    Slot(1, 0),
    Slot(2, 0),
    Slot(0, 1),
    Slot(1, 1),
    Slot::arrival(0),
    Slot::arrival(1),
    Slot(u32::MAX - 1, u32::MAX),
];

const IDS: [&str; 5] = [r#""""#, r#""a""#, r#""b""#, r#""c""#, "null"];

const TEXTS: [&str; 12] = [
    r#""""#,
    r#""{\"a\":""#,
    r#""1}""#,
    r#""{}""#,
    r#""{\"a\":1}""#,
    r#""\ud83d""#,
    r#""\ude00""#,
    "{}",
    r#"{"a":1}"#,
    r#"{ "a" : 1 }"#,
    "null",
    "[1,2]",
];

const PATHS: [&str; 8] = [
    r#""$.a""#,
    r#""$.a.b""#,
    r#""$.a[0]""#,
    r#""$.a[1].b""#,
    r#""$['a b']""#,
    r#""$.x[1000000000]""#,
    r#""$""#,
    r#""nothing""#,
];

const LEAVES: [&str; 5] = [r#""x""#, r#""""#, "1.5", "true", "null"];

const FORMS: [Form; 3] = [Form::JsonText, Form::JsonValue, Form::FreeText];

const EXECUTORS: [Executor; 2] = [Executor::Client, Executor::Provider];

const STATUSES: [ItemStatus; 3] = [ItemStatus::Complete, ItemStatus::Suspended, ItemStatus::Incomplete];

const FATES: [Fate; 5] = [
    Fate::Final,
    Fate::Carry,
    Fate::Cut(CutReason::MaxTokens),
    Fate::Cut(CutReason::Paused),
    Fate::Cut(CutReason::EndedOtherwise),
];

const REASONS: [CutReason; 3] = [CutReason::Failed, CutReason::Undecodable, CutReason::Gap];

const PARTS: [ExchangePart; 4] =
    [ExchangePart::ResponseStart, ExchangePart::ResponsePart, ExchangePart::ResponseRest, ExchangePart::Request];

pub fn run(data: &[u8]) {
    let mut run = Run::default();
    run.state.begin();
    let bytes: Vec<u8> = data.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    for operation in bytes.chunks(3).take(OPERATIONS) {
        match operation[0] {
            b'!' => run.commit(),
            b'?' => run.roll_back(),
            _ => run.twice(operation),
        }
    }
    run.commit();
}

/// What a state answers, for comparing two of them.
#[derive(Debug, PartialEq, Default)]
struct Answers {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    stats: Stats,
    due: Vec<ConvKey>,
}

fn answers(state: &PartitionState) -> Answers {
    let mut entries = BTreeMap::new();
    state.entries(&mut |key, value| {
        entries.insert(key.clone(), value.expect("a live entry has a value").to_vec());
    });
    Answers { entries, stats: state.stats(), due: state.due(i64::MAX, u32::MAX, &LIMITS) }
}

#[derive(Default)]
struct Run {
    state: PartitionState,
    changelog: BTreeMap<Vec<u8>, Vec<u8>>,
    committed: Answers,
    offset: i64,
    /// Which conversation, exchange and provider the next events are of.
    conversation: usize,
    host: usize,
    provider: usize,
    part: usize,
}

impl Run {
    /// Does an operation, undoes it, and does it again.
    fn twice(&mut self, operation: &[u8]) {
        self.offset += 1;
        let before = answers(&self.state);
        self.state.savepoint();
        self.operation(operation);
        let after = answers(&self.state);
        self.state.rollback_to_savepoint();
        assert_eq!(answers(&self.state), before, "an operation is not undone");
        self.operation(operation);
        assert_eq!(answers(&self.state), after, "an operation gives something else the second time");
    }

    /// Commits: what was written and a restore of it give the state.
    fn commit(&mut self) {
        let mut last: Option<Vec<u8>> = None;
        let changelog = &mut self.changelog;
        self.state.writes(&mut |key, value| {
            assert!(last.as_ref().is_none_or(|last| last < key), "writes are in key order");
            last = Some(key.clone());
            match value {
                Some(value) => drop(changelog.insert(key.clone(), value.to_vec())),
                None => assert!(changelog.remove(key).is_some(), "a tombstone for what was never written"),
            }
        });
        self.state.accept();
        let now = answers(&self.state);
        assert_eq!(self.changelog, now.entries, "what was written is not what there is");
        let mut restored = PartitionState::new();
        for (key, value) in &self.changelog {
            restored.restore(key, Some(value)).expect("an entry of our own");
        }
        restored.restored().expect("entries of our own");
        assert_eq!(answers(&restored), now, "a restore gives something else");
        self.state = restored;
        self.committed = now;
        self.state.begin();
    }

    fn roll_back(&mut self) {
        self.state.rollback();
        assert_eq!(answers(&self.state), self.committed, "a transaction is not undone");
        self.state.begin();
    }

    fn operation(&mut self, operation: &[u8]) {
        let (a, b) = (operation.get(1), operation.get(2));
        match operation[0] {
            b'c' => (self.conversation, self.host) = (digit(a) % 4, digit(b) % 3),
            b'p' => (self.provider, self.part) = (digit(a) % 8, digit(b) % 4),
            b'x' => self.state.remove(ConvKey(digit(a) as u128 % 4)),
            b't' => self.tick(digit(a) as i64 * 10),
            _ => self.event(operation[0], a, b),
        }
    }

    fn tick(&mut self, later: i64) {
        let now = self.offset * 10 + later;
        for key in self.state.due(now, 2, &LIMITS) {
            let mut session = self.state.open_due(key, &LIMITS).expect("what is due is there");
            let mut ready = Vec::new();
            session.cut_idle(now - 20, &mut ready);
            settle(&mut session, &ready);
            let idle = session.conversation().head.clock + 200 <= now;
            drop(session);
            if idle {
                self.state.remove(key);
            }
        }
    }

    fn event(&mut self, kind: u8, a: Option<&u8>, b: Option<&u8>) {
        let bump = Bump::new();
        let value = |text: &'static str| {
            let layer = Layer::record(&bump, text.as_bytes());
            parse(&bump, layer, JsonLimits::default()).expect("a value of the tables")
        };
        let args = |byte: Option<&u8>| {
            let text = value(pick(&TEXTS, byte));
            if text.raw().starts_with(b"\"") { Args::Text(text) } else { Args::Raw(text) }
        };
        let call = || facts(pick(&SLOTS, a), digit(b), &value, &args);
        let choice = |byte: Option<&u8>| (digit(byte) as u32 % 3).checked_sub(1);
        let event = match kind {
            b'B' => Event::Begin { id: Some(value(pick(&IDS, a))), again: digit(b) % 2 == 1 },
            b'O' => Event::Open(call()),
            b'A' => {
                let text = value(pick(&TEXTS[..7], b));
                Event::Append { slot: pick(&SLOTS, a), part: digit(b) as u32 / 7 % 2, text }
            }
            b'L' => {
                let (path, leaf) = (value(pick(&PATHS, b)), value(LEAVES[digit(b) / 8 % LEAVES.len()]));
                let leaf = match leaf.raw() {
                    [b'"', ..] => LeafValue::Text(leaf),
                    [b't', ..] => LeafValue::Bool(true),
                    [b'f', ..] => LeafValue::Bool(false),
                    [b'n', ..] => LeafValue::Null,
                    _ => LeafValue::Number(leaf),
                };
                Event::Leaf { slot: pick(&SLOTS, a), path, value: leaf, more: digit(b) % 2 == 1 }
            }
            b'R' => Event::Restate { slot: pick(&SLOTS, a), args: args(b) },
            b'C' => Event::Close { slot: pick(&SLOTS, a), status: pick(&STATUSES, b) },
            b'I' | b'J' => Event::Item { call: call(), status: pick(&STATUSES, b), listed: kind == b'J' },
            b'S' => Event::Stop(Stop { client: pick(&FATES, a), provider: pick(&FATES, b), choice: None }),
            b's' => Event::Stop(Stop { client: pick(&FATES, a), provider: Fate::Final, choice: choice(b) }),
            b'E' => Event::End { choice: choice(a) },
            b'X' => Event::Error { reason: pick(&REASONS, a) },
            b'T' => Event::Closed,
            b'K' => Event::Cancel { id: value(pick(&IDS, a)) },
            b'V' => Event::ServerResult { result: result(value(pick(&IDS, a))), closes: digit(b) % 2 == 1 },
            _ => return,
        };
        let at = At { offset: self.offset, time: self.offset * 10 };
        let (key, name) = (ConvKey(self.conversation as u128), [self.conversation as u8]);
        let named = || Head { name: name.to_vec(), ..Head::default() };
        let mut session = self.state.open(key, at, &LIMITS, &named);
        let host = ["r-1", "r-2"].get(self.host.wrapping_sub(1)).map(|id| id.as_bytes());
        let (provider, part) = (Provider::ALL[self.provider], PARTS[self.part]);
        let (exchange, _) = session.exchange(Want { host_id: host, payload_id: None, provider, part, at });
        let mut ready = Vec::new();
        session.absorb(exchange, &event, at, &LIMITS, &mut ready);
        settle(&mut session, &ready);
    }
}

/// Judges what ended, once.
fn settle(session: &mut Session<'_>, ready: &[Ready]) {
    for Ready::Call(n) in ready {
        let call = &session.conversation().calls[n];
        assert!(!call.is_open() && call.action.is_none(), "a call is judged when it ended, and once");
        assert!(call.text.len() as u64 <= LIMITS.call_bytes);
        session.settle(*n, [1; 32], None, Decision::Allow);
    }
}

fn facts<'r>(
    slot: Slot,
    n: usize,
    value: &impl Fn(&'static str) -> Value<'r>,
    args: &impl Fn(Option<&u8>) -> Args<'r>,
) -> CallFacts<'r> {
    let id = value(IDS[n % IDS.len()]);
    let byte = (n % TEXTS.len()) as u8 + b'0';
    CallFacts {
        slot,
        id: (!id.is_null()).then_some(id),
        item_id: (n % 7 == 1).then(|| value(IDS[n / 7 % 4])),
        name: if n % 6 == 5 { Name::None } else { Name::Wire(value(IDS[n / 3 % 4])) },
        namespace: (n % 11 == 3).then(|| value(IDS[1])),
        server: (n % 11 == 4).then(|| value(IDS[2])),
        executor: EXECUTORS[n / 2 % 2],
        form: FORMS[n / 4 % 3],
        args: if n % 3 == 2 { Args::Absent } else { args(Some(&byte)) },
        item: id,
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
