//! Order between producers: a start that overtakes what makes its call final waits for it, a short time.

use crate::support::{Partition, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Engine, Limits, Out, Settings, TickSource, To};

const NOW: i64 = 1_767_225_600_000;
const WINDOW: u64 = 2000;

fn engine(window: u64) -> Engine {
    let settings = settings(Profile::Standard);
    let limits = Limits { reorder_window_ms: window, ..settings.limits.clone() };
    Engine::new(Settings { limits, ..settings }).expect("the settings hold")
}

fn time(ms: u64) -> String {
    format!("2026-01-01T00:{:02}:{:02}.{:03}Z", ms / 60_000, ms / 1000 % 60, ms % 1000)
}

fn line(at: u64, kind: &str, data: Value) -> Vec<u8> {
    let event = json!({"specversion": "1.0", "id": format!("e{at}"), "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": "anthropic.messages", "conversation": "c", "responseid": "r", "time": time(at), "data": data});
    event.to_string().into_bytes()
}

fn request(at: u64) -> Vec<u8> {
    let tool = json!({"name": "send_mail", "input_schema": {"type": "object"}});
    line(at, "model.request", json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}))
}

fn opening(at: u64) -> [Vec<u8>; 3] {
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "send_mail", "input": {}});
    [
        line(at, "model.chunk", json!({"type": "message_start", "message": {"id": "msg_1", "content": []}})),
        line(at, "model.chunk", json!({"type": "content_block_start", "index": 0, "content_block": block})),
        line(at, "model.chunk", json!({"type": "content_block_stop", "index": 0})),
    ]
}

fn ending(at: u64, reason: &str) -> [Vec<u8>; 2] {
    [
        line(at, "model.chunk", json!({"type": "message_delta", "delta": {"stop_reason": reason}})),
        line(at, "model.chunk", json!({"type": "message_stop"})),
    ]
}

fn started(at: u64, id: &str) -> Vec<u8> {
    line(at, "tool.started", json!({"call_id": id, "tool": "send_mail"}))
}

/// The verdicts on starts: id, action, first rule.
fn starts(verdicts: &[Value]) -> Vec<(String, String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let starts = verdicts.iter().filter(|v| v["checkpoint"] == "tool_start");
    starts.map(|v| (text(&v["verdict_id"]), text(&v["action"]), text(&v["findings"][0]["rule"]))).collect()
}

fn row(id: &str, action: &str, rule: &str) -> Vec<(String, String, String)> {
    vec![(format!("local/check/0/{id}/tool_start/0"), action.into(), rule.into())]
}

/// Feeds lines; the verdicts on starts by the line that gave them.
fn run(engine: &Engine, lines: &[Vec<u8>]) -> Vec<Vec<(String, String, String)>> {
    let mut partition = Partition::new(engine);
    lines.iter().map(|line| starts(&verdicts(&partition.feed(line)))).collect()
}

fn joined(parts: &[&[Vec<u8>]]) -> Vec<Vec<u8>> {
    parts.concat()
}

#[test]
fn an_early_start_waits_for_the_ending() {
    let engine = engine(WINDOW);
    let good = ("tool_use", "allow", "started_before_verdict");
    for (reason, action, rule) in [good, ("max_tokens", "block", "acted_on_incomplete")] {
        // Ahead of the ending, ahead of the whole response.
        let ahead = joined(&[&[request(0)], &opening(10), &[started(20, "toolu_1")], &ending(30, reason)]);
        let given = run(&engine, &ahead);
        assert_eq!(given[4], [], "{reason}: it waits");
        assert_eq!(given[6], row("4", action, rule), "{reason}");
        let first = joined(&[&[request(0), started(5, "toolu_1")], &opening(10), &ending(30, reason)]);
        let given = run(&engine, &first);
        assert_eq!(given[1], [], "{reason}: it waits for a call that is not there yet");
        assert_eq!(given[6], row("1", action, rule), "{reason}");
    }
}

#[test]
fn it_waits_no_longer_than_the_window() {
    let engine = engine(WINDOW);
    // The conversation's own clock moves on.
    let late = joined(&[&[request(0)], &opening(10), &[started(20, "toolu_1")], &ending(20 + WINDOW, "tool_use")]);
    let given = run(&engine, &late);
    assert_eq!(given[5], row("4", "block", "started_before_final"));
    assert_eq!(given.concat().len(), 1, "once");
    // Nothing more comes: the tick does.
    let mut partition = Partition::new(&engine);
    for line in joined(&[&[request(0)], &opening(10), &[started(20, "toolu_1")]]) {
        partition.feed(&line);
    }
    let mut out = Out::default();
    let mut tick = |state: &mut PartitionState, now: u64| {
        let source = TickSource { topic: "check", partition: 0, now: NOW + now as i64 };
        engine.tick(state, source, 100, &mut out);
        starts(&verdicts(&out.emissions))
    };
    assert_eq!(tick(&mut partition.state, 19 + WINDOW), []);
    partition.state.accept();
    partition.state.begin();
    assert_eq!(tick(&mut partition.state, 20 + WINDOW), row("4", "block", "started_before_final"));
    partition.state.rollback();
    assert_eq!(
        tick(&mut partition.state, 20 + WINDOW),
        row("4", "block", "started_before_final"),
        "again behind a rollback"
    );
    partition.state.accept();
    assert_eq!(tick(&mut partition.state, 30 + WINDOW), [], "once");
}

#[test]
fn without_a_window_and_without_hope_it_is_judged_at_once() {
    let early = joined(&[&[request(0)], &opening(10), &[started(20, "toolu_1")], &ending(30, "tool_use")]);
    let given = run(&engine(0), &early);
    assert_eq!(given[4], row("4", "block", "started_before_final"));
    // Of a conversation whose beginning was not seen nothing can be expected.
    let given = run(&engine(WINDOW), &[started(0, "toolu_9")]);
    assert_eq!(given[0], row("0", "allow", "not_observed"));
    // There is room for few; the rest is judged at once.
    let many: Vec<Vec<u8>> = (0..20).map(|n| started(20, &format!("toolu_x{n}"))).collect();
    let given = run(&engine(WINDOW), &joined(&[&[request(0)], &opening(10), &many]));
    let at_once = given.iter().filter(|starts| !starts.is_empty()).count();
    assert_eq!(at_once, 12);
    let large = line(20, "tool.started", json!({"call_id": "toolu_1", "pad": "x".repeat(5000)}));
    let given = run(&engine(WINDOW), &joined(&[&[request(0)], &opening(10), &[large]]));
    assert_eq!(given[4], row("4", "block", "started_before_final"));
}

#[test]
fn a_start_that_waits_survives_a_restore() {
    let engine = engine(WINDOW);
    let mut partition = Partition::new(&engine);
    for line in joined(&[&[request(0)], &opening(10), &[started(20, "toolu_1")]]) {
        partition.feed(&line);
    }
    let mut restored = PartitionState::new();
    partition.state.writes(&mut |key, value| restored.restore(key, value).expect("its own entries"));
    restored.restored().expect("whole");
    restored.begin();
    partition.state = restored;
    let given: Vec<_> =
        ending(30, "tool_use").iter().flat_map(|line| starts(&verdicts(&partition.feed(line)))).collect();
    assert_eq!(given, row("4", "allow", "started_before_verdict"));
}

/// Found by fuzzing: two members that are added to nothing stand apart.
#[test]
fn the_error_form_of_an_empty_result_is_json() {
    let engine = engine(0);
    let empty = line(20, "tool.result", json!({}));
    let early = joined(&[&[request(0)], &opening(10), &[empty]]);
    let mut partition = Partition::new(&engine);
    let copies: Vec<_> = early.iter().flat_map(|line| partition.feed(line)).filter(|e| e.to == To::Redacted).collect();
    let data = crate::support::body(&copies[0])["data"].clone();
    let text = "[TOOL ERROR] output withheld by policy SG08";
    assert_eq!(data, json!({"content": text, "outcome": "error"}));
}
