//! The recorded corpus: every line is read, and the calls that the recordings state come out.
//!
//! Its place is `SLUICEGATE_SHARED`, else `../shared` beside the repository. Without it these tests say
//! SKIPPED; CI may not skip them.

use crate::describe::describe;
use bumpalo::Bump;
use sluicegate::engine::event::{Args, CallFacts, Event, Executor, Fate, ItemStatus, Slot, Stop, Turn};
use sluicegate::engine::json::{JsonLimits, Value};
use sluicegate::engine::provider::{Provider, Translated, translate};
use sluicegate::engine::wire::{DecodeOptions, Decoded, Envelope, decode};
use sluicegate::engine::{Input, Limits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PROVIDERS: [Provider; 7] = [
    Provider::AnthropicMessages,
    Provider::OpenAiChat,
    Provider::OpenAiResponses,
    Provider::XaiChat,
    Provider::XaiResponses,
    Provider::GeminiGenerateContent,
    Provider::GeminiLive,
];

fn corpus() -> Option<PathBuf> {
    let shared = match std::env::var_os("SLUICEGATE_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    let corpus = shared.join("corpus");
    if corpus.join("recorded").is_dir() {
        return Some(corpus);
    }
    println!("SKIPPED: no recorded corpus at {}", corpus.display());
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "CI must have the corpus");
    None
}

/// The recordings of both providers, by name.
fn files(corpus: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for provider in PROVIDERS {
        let dir = corpus.join("recorded").join(provider.name());
        files.extend(std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.sort();
    files
}

/// Decodes and translates every line of a recording.
fn each_record(path: &Path, then: &mut dyn FnMut(usize, &Envelope<'_>, Translated<'_>)) {
    let limits = Limits::default();
    let options = DecodeOptions { limits: &limits, lines: true };
    for (n, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
        let bump = Bump::new();
        let input = Input {
            topic: "t",
            partition: 0,
            offset: n as i64,
            timestamp: None,
            key: None,
            headers: &[],
            value: Some(line.as_bytes()),
        };
        let envelope = match decode(&bump, &input, options) {
            Decoded::Event(envelope) => envelope,
            other => panic!("{}:{n}: {other:?}", path.display()),
        };
        let provider = envelope.provider.unwrap();
        let found = translate(&bump, &envelope, provider, &[], JsonLimits::default());
        then(n, &envelope, found);
    }
}

#[test]
fn every_line_is_understood() {
    let Some(corpus) = corpus() else { return };
    let mut opaque: BTreeMap<(Provider, &'static str, String), u32> = BTreeMap::new();
    let mut events: BTreeMap<String, u32> = BTreeMap::new();
    let (mut records, mut undecodable) = (0, Vec::new());
    for path in files(&corpus) {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        each_record(&path, &mut |n, envelope, found| {
            records += 1;
            if found.undecodable.is_some() {
                undecodable.push((file.clone(), n));
            }
            for event in &found.events {
                let line = describe(event);
                let word = line.split(' ').next().unwrap().to_owned();
                *events.entry(word).or_default() += 1;
                let (value, kind): (Value<'_>, _) = match event {
                    Event::Opaque { value, kind } => (*value, *kind),
                    Event::Turn { turn: Turn::Opaque { value, kind }, .. } => (*value, *kind),
                    _ => continue,
                };
                let label = ["type", "object"].into_iter().find_map(|key| value.get(key));
                let label = label.and_then(|label| label.str()).unwrap_or_default();
                let key = (envelope.provider.unwrap(), kind, label.into_owned());
                *opaque.entry(key).or_default() += 1;
            }
        });
    }
    println!("{records} records, events {events:?}");
    println!("opaque {opaque:?}");
    let wrapper = "vercel-ai__openai_responses_parallel-tool-call-wrapper.1.stream.jsonl";
    let text = "pydantic-ai__models_test_openai_test_text_response.jsonl";
    let malformed = [(text.to_owned(), 1), (wrapper.to_owned(), 0), (wrapper.to_owned(), 5)];
    assert_eq!(undecodable, malformed, "malformed in the recording itself");
    // What repeats text of results that were judged, what another provider's wire shapes are here, and a tool and
    // a part that nobody knows of a gateway's own test of what it passes through.
    let made_up =
        |provider: Provider, kind| provider == Provider::GeminiGenerateContent && matches!(kind, "part" | "tool");
    let known = |kind: &str, label: &str| {
        matches!(kind, "annotation" | "citation") || kind == "event" && label.starts_with("chat.completion")
    };
    let strange: Vec<_> = opaque
        .iter()
        .filter(|((provider, kind, label), n)| !(known(kind, label) || made_up(*provider, *kind) && **n == 1))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// A call as the simplest reader of events would keep it: no limits, no conflicts.
#[derive(Debug, Clone, Default)]
struct Call {
    id: String,
    name: String,
    provider_run: bool,
    /// The value it was opened with, until a delta comes.
    initial: bool,
    text: String,
    complete: bool,
    /// Whether it may be acted on, once that is known.
    settled: Option<bool>,
}

impl Call {
    fn learn(&mut self, facts: &CallFacts<'_>) {
        if let Some(id) = facts.id.or(facts.item_id) {
            self.id = id.str().unwrap().into_owned();
        }
        self.name = crate::describe::name(facts.name);
        self.provider_run = facts.executor == Executor::Provider;
        self.set(facts.args);
    }
    fn set(&mut self, args: Args<'_>) {
        self.text = match args {
            Args::Absent => return,
            Args::Text(value) => String::from_utf8(value.text().unwrap().into_owned()).unwrap(),
            Args::Raw(value) => String::from_utf8(value.raw().to_vec()).unwrap(),
        };
    }
}

/// The calls of one exchange.
#[derive(Default)]
struct Response {
    calls: BTreeMap<Slot, Call>,
    /// Calls that were numbered by their arrival.
    arrivals: u32,
    stop: Option<Stop>,
    /// Calls have no end marker: they are whole if the response ends well and their text is JSON.
    unmarked: bool,
}

impl Response {
    /// The next place, where the wire numbers none.
    fn next(&mut self, slot: Slot) -> Slot {
        if !slot.is_arrival() {
            return slot;
        }
        self.arrivals += 1;
        Slot(self.arrivals - 1, slot.1)
    }
    fn latest(&self, slot: Slot) -> Slot {
        if slot.is_arrival() { Slot(self.arrivals.saturating_sub(1), slot.1) } else { slot }
    }
    fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Open(facts) => {
                let slot = self.next(facts.slot);
                let call = self.calls.entry(slot).or_default();
                call.learn(facts);
                call.initial = true;
                call.complete = self.unmarked;
            }
            Event::Append { slot, text, .. } => {
                let slot = self.latest(*slot);
                let call = self.calls.get_mut(&slot).expect("a delta belongs to a call");
                let text = text.str().unwrap();
                if call.initial && !text.is_empty() {
                    call.text.clear();
                    call.initial = false;
                }
                call.text.push_str(&text);
            }
            Event::Restate { slot, args } => self.calls.entry(*slot).or_default().set(*args),
            Event::Close { slot, status } => {
                let slot = self.latest(*slot);
                if let Some(call) = self.calls.get_mut(&slot) {
                    call.complete = *status != ItemStatus::Incomplete;
                }
            }
            Event::Item { call: facts, status, listed } => {
                let id = facts.id.or(facts.item_id).and_then(|id| id.str());
                let known = |(_, call): &(&Slot, &Call)| Some(call.id.as_str()) == id.as_deref();
                let found = self.calls.iter().find(known).map(|(slot, _)| *slot);
                let slot = found.filter(|_| *listed).unwrap_or_else(|| self.next(facts.slot));
                let call = self.calls.entry(slot).or_default();
                call.learn(facts);
                call.complete = *status != ItemStatus::Incomplete;
            }
            Event::ServerResult { result, closes: true } => {
                let id = result.call_id.and_then(|id| id.str());
                let mut calls = self.calls.values_mut();
                if let Some(call) = calls.find(|call| Some(call.id.as_str()) == id.as_deref()) {
                    call.settled = Some(true);
                }
            }
            Event::Stop(stop) => self.stop = Some(*stop),
            Event::End { .. } => self.end(),
            Event::Error { .. } | Event::Closed => self.cut(),
            _ => {}
        }
    }
    fn end(&mut self) {
        let Some(stop) = self.stop else {
            return self.cut();
        };
        for call in self.calls.values_mut().filter(|call| call.settled.is_none()) {
            let fate = match call.provider_run {
                true => stop.provider,
                false => stop.client,
            };
            call.settled = match fate {
                Fate::Final if self.unmarked => Some(call.complete && !parsed(&call.text).is_string()),
                Fate::Final => Some(call.complete),
                Fate::Cut(_) => Some(false),
                Fate::Carry => None,
            };
        }
    }
    fn cut(&mut self) {
        for call in self.calls.values_mut() {
            call.settled.get_or_insert(false);
        }
    }
}

/// Text as JSON where it is JSON, else as it stands.
fn parsed(text: &str) -> serde_json::Value {
    match text.trim() {
        "" => serde_json::json!({}),
        text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

#[test]
fn stated_calls_come_out() {
    let Some(corpus) = corpus() else { return };
    let (mut finals, mut cuts, mut wrong) = (0, 0, Vec::new());
    for path in files(&corpus) {
        let provider = path.parent().unwrap().file_name().unwrap();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let stated = corpus.join("expected").join(provider).join(format!("{stem}.json"));
        let Ok(stated) = std::fs::read_to_string(stated) else {
            continue;
        };
        let stated: Vec<serde_json::Value> = serde_json::from_str(&stated).unwrap();
        let mut responses: BTreeMap<u64, Response> = BTreeMap::new();
        each_record(&path, &mut |_, envelope, found| {
            let exchange = envelope.response_id.unwrap().parse().unwrap();
            let response = responses.entry(exchange).or_default();
            response.unmarked = matches!(envelope.provider, Some(Provider::OpenAiChat | Provider::XaiChat));
            found.events.iter().for_each(|event| response.see(event));
            if found.undecodable.is_some() {
                response.cut();
            }
        });
        for exchange in &stated {
            if Provider::from_name(exchange["provider"].as_str().unwrap())
                .is_none_or(|provider| !PROVIDERS.contains(&provider))
            {
                continue;
            }
            let response = &responses[&exchange["exchange"].as_u64().unwrap()];
            for call in exchange["calls"].as_array().unwrap() {
                // The client's own ids, and a call that the client wrote into the history itself.
                let gemini = call["type"] == "functionCall";
                if call["call_id"].as_str().is_some_and(|id| id.starts_with("auto_load_")) {
                    continue;
                }
                let id =
                    ["call_id", "item_id"].into_iter().find_map(|key| call[key].as_str().filter(|id| !id.is_empty()));
                let matching = |found: &&Call| {
                    let named = call["name"].as_str();
                    (gemini || id.is_none_or(|id| found.id == id))
                        && named.is_none_or(|name| found.name.trim_matches(['"', '=']) == name)
                        && found.provider_run == (call["executor"] == "provider")
                        && match &call["arguments"] {
                            serde_json::Value::String(text) => parsed(text) == parsed(&found.text),
                            other => *other == parsed(&found.text),
                        }
                };
                let found = response.calls.values().find(matching);
                let is_final = call["final"] == true;
                match found {
                    Some(found) if found.settled == Some(is_final) => {
                        finals += u32::from(is_final);
                        cuts += u32::from(!is_final);
                    }
                    _ => wrong.push(format!("{stem}: {call}\n  {:?}", response.calls)),
                }
            }
        }
    }
    println!("{finals} final calls and {cuts} others as stated");
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    assert!(finals > 300 && cuts > 5, "the corpus states more than that");
}
