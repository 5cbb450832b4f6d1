//! Network reads as records: a raw stream cut anywhere gives the same calls as the whole.

use crate::support::{Partition, engine, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Emission, Engine, To};

const CHUNK: &str = "io.sluicegate.model.chunk.v1";

type Headers<'a> = Vec<(&'a str, Option<&'a [u8]>)>;

fn headers<'a>(kind: &'a str, provider: Option<&'a str>) -> Headers<'a> {
    let mut headers: Headers<'_> = vec![
        ("content-type", Some(b"text/event-stream")),
        ("ce_specversion", Some(b"1.0")),
        ("ce_id", Some(b"e")),
        ("ce_source", Some(b"/s")),
        ("ce_type", Some(kind.as_bytes())),
        ("ce_responseid", Some(b"r-1")),
    ];
    headers.extend(provider.map(|name| ("ce_provider", Some(name.as_bytes()))));
    headers
}

/// Two calls, text beyond ASCII and an escape, over every kind of line end.
fn stream() -> String {
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "content": []}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "note", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"text\": \"grüß"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": " dich \\ud83d"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "\\ude00\"}"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_2", "name": "note", "input": {}}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let ends = ["\n", "\r\n", "\r"];
    let mut text = String::from("\u{feff}: hello\n\n");
    for (n, event) in events.iter().enumerate() {
        let end = ends[n % 3];
        text += &format!("event: {}{end}data: {event}{end}{end}", event["type"].as_str().unwrap_or_default());
    }
    text
}

fn outcome(emissions: &[Emission]) -> Vec<(Value, Value, Value, Value)> {
    let calls = emissions.iter().filter(|e| e.to == To::Redacted);
    let records: Vec<Value> = calls.map(crate::support::body).collect();
    verdicts(emissions)
        .into_iter()
        .map(|v| {
            let record = records.iter().find(|r| r["call_id"] == v["subject"]["call_id"]);
            let arguments = record.map_or(Value::Null, |r| r["arguments"].clone());
            (v["subject"]["call_id"].clone(), v["action"].clone(), v["findings"][0]["rule"].clone(), arguments)
        })
        .collect()
}

fn feed(engine: &Engine, provider: Option<&str>, parts: &[&[u8]]) -> Vec<Emission> {
    let mut partition = Partition::new(engine);
    let mut all = Vec::new();
    for part in parts {
        all.extend(partition.feed_record(Some(b"c"), &headers(CHUNK, provider), Some(part)));
        // Nothing but entries is remembered from record to record.
        let mut restored = PartitionState::new();
        partition.state.entries(&mut |key, value| restored.restore(key, value).expect("its own entries"));
        restored.restored().expect("whole");
        restored.begin();
        partition.state = restored;
    }
    let closed = headers("io.sluicegate.model.closed.v1", provider);
    all.extend(partition.feed_record(Some(b"c"), &closed, None));
    all
}

#[test]
fn a_stream_cut_anywhere_gives_the_same_calls() {
    let engine = engine(Profile::Standard);
    let text = stream();
    let whole = outcome(&feed(&engine, Some("anthropic.messages"), &[text.as_bytes()]));
    let expected = json!([
        ["toolu_1", "allow", "not_observed", {"text": "grüß dich 😀"}],
        ["toolu_2", "allow", "not_observed", {}],
    ]);
    assert_eq!(json!(whole), expected);
    for at in 0..=text.len() {
        let (head, tail) = text.as_bytes().split_at(at);
        let given = outcome(&feed(&engine, Some("anthropic.messages"), &[head, tail]));
        assert_eq!(
            given,
            whole,
            "cut at {at}: {:?}",
            String::from_utf8_lossy(head).chars().rev().take(20).collect::<String>()
        );
    }
    for size in [1, 2, 3, 7, 64, 500] {
        let parts: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(outcome(&feed(&engine, Some("anthropic.messages"), &parts)), whole, "reads of {size} bytes");
    }
    let lines: Vec<&[u8]> = text.as_bytes().split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(outcome(&feed(&engine, Some("anthropic.messages"), &lines)), whole, "a line a record");
    // The provider is that of the beginning.
    let at = text.find("content_block_start").expect("it is there") + 4;
    let (head, tail) = text.as_bytes().split_at(at);
    assert_eq!(outcome(&feed(&engine, None, &[head, tail])), whole, "no provider");
}

#[test]
fn a_lost_read_makes_nothing_final() {
    let engine = engine(Profile::Standard);
    let text = stream();
    let parts: Vec<&[u8]> = text.as_bytes().chunks(40).collect();
    for lost in 0..parts.len() {
        let mut left = parts.clone();
        let gone = left.remove(lost);
        let given = outcome(&feed(&engine, Some("anthropic.messages"), &left));
        for (id, action, _, arguments) in &given {
            let whole = match id.as_str() {
                Some("toolu_1") => json!({"text": "grüß dich 😀"}),
                _ => json!({}),
            };
            let right = action == "block" || *arguments == whole;
            assert!(right, "without read {lost}: {given:?} {:?}", String::from_utf8_lossy(gone));
        }
    }
}

#[test]
fn a_loss_forgets_what_was_begun() {
    let engine = engine(Profile::Standard);
    let begin = [
        json!({"type": "message_start", "message": {"id": "msg_1", "content": []}}).to_string(),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "pay"}}).to_string(),
    ];
    let item = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_2","name":"pay","input":{"to":"ada","amount":1000}}}"#;
    let end = [
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let sse = |events: &[&str]| events.iter().map(|e| format!("data: {e}\n\n")).collect::<String>();
    let (head, tail) = item.split_at(item.find("000").expect("digits"));
    let first = format!("{}data: {head}", sse(&[&begin[0], &begin[1]]));
    let last = format!("{tail}\n\n{}", sse(&end));
    // What stood between them does not come.
    let gap = |number: &'static str| {
        let mut all = headers(CHUNK, Some("anthropic.messages"));
        all.push(("ce_sequence", Some(number.as_bytes())));
        all
    };
    let mut partition = Partition::new(&engine);
    let mut all = partition.feed_record(Some(b"c"), &gap("1"), Some(first.as_bytes()));
    all.extend(partition.feed_record(Some(b"c"), &gap("3"), Some(last.as_bytes())));
    assert!(verdicts(&all).iter().all(|v| v["action"] == "block"), "{:?}", verdicts(&all));
    assert!(!verdicts(&all).is_empty());
    assert_eq!(partition.state.stats().open_calls, 0);
    // A record that cannot be read at all.
    let mut partition = Partition::new(&engine);
    let own = headers(CHUNK, Some("anthropic.messages"));
    let mut all = partition.feed_record(Some(b"c"), &own, Some(first.as_bytes()));
    let broken: Headers<'_> = vec![("ce_specversion", Some(b"9"))];
    all.extend(partition.feed_record(Some(b"c"), &broken, Some(b"0")));
    all.extend(partition.feed_record(Some(b"c"), &own, Some(last.as_bytes())));
    let said = verdicts(&all);
    assert!(!said.is_empty() && said.iter().all(|v| v["action"] == "block"), "{said:?}");
}

#[test]
fn a_beginning_is_bounded() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let own = headers(CHUNK, Some("anthropic.messages"));
    let open = stream();
    let open = &open[..open.find("event: content_block_stop").expect("it is there")];
    partition.feed_record(Some(b"c"), &own, Some(open.as_bytes()));
    let mut said = Vec::new();
    let mut most = 0;
    for n in 0..100 {
        let part = match n {
            0 => format!("data: {{\"type\":\"ping\",\"pad\":\"{}", "x".repeat(40_000)),
            _ => "x".repeat(40_000),
        };
        said.extend(verdicts(&partition.feed_record(Some(b"c"), &own, Some(part.as_bytes()))));
        most = most.max(partition.state.stats().bytes);
    }
    assert_eq!(said.len(), 1, "the open call is cut once: {said:?}");
    assert_eq!(said[0]["findings"][0]["evidence"]["label"], "undecodable");
    assert!(most < 2_300_000, "{most} bytes were kept");
    let mut largest = 0;
    partition.state.entries(&mut |_, value| largest = largest.max(value.map_or(0, <[u8]>::len)));
    assert!(largest < 64 << 10, "an entry of {largest} bytes");
}
