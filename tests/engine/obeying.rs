//! What hosts do with verdicts: each transcript, and the bypasses that are found and counted in it.

use crate::support::{Partition, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::{OnePolicy, Profile};
use sluicegate::engine::{Engine, Input, Limits, Observation, Out, Settings, state::PartitionState};

fn line(kind: &str, data: Value) -> Vec<u8> {
    let event = json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": "anthropic.messages", "conversation": "c", "responseid": "r", "fleet": "support", "data": data});
    event.to_string().into_bytes()
}

fn small(profile: Profile, window: u64) -> Settings {
    let settings = settings(profile);
    let limits = Limits { reorder_window_ms: window, ..settings.limits.clone() };
    let mut settings = Settings { limits, ..settings };
    let options = json!({"max_bytes": 1024, "block_bytes": 4096}).as_object().cloned().unwrap();
    settings.policy.policies.insert("SG01".into(), OnePolicy { options, ..OnePolicy::default() });
    settings
}

fn request(results: &[(&str, &str)]) -> Vec<u8> {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
    let result = |(id, text): &(&str, &str)| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    if !results.is_empty() {
        messages.push(json!({"role": "user", "content": results.iter().map(result).collect::<Vec<_>>()}));
    }
    line("model.request", json!({"tools": [{"name": "f", "input_schema": schema}], "messages": messages}))
}

fn called(input: Value) -> Vec<u8> {
    let call = json!({"type": "tool_use", "id": "t1", "name": "f", "input": input});
    line(
        "model.response",
        json!({"type": "message", "role": "assistant", "content": [call], "stop_reason": "tool_use"}),
    )
}

fn started() -> Vec<u8> {
    line("tool.started", json!({"call_id": "t1"}))
}

fn host(outcome: &str, content: &str) -> Vec<u8> {
    line("tool.result", json!({"call_id": "t1", "outcome": outcome, "content": content}))
}

/// Checkpoint, rule, effect, and the place of what SG15 finds.
fn found(engine: &Engine, lines: &[Vec<u8>]) -> Vec<String> {
    let mut partition = Partition::new(engine);
    let all: Vec<Value> = lines.iter().flat_map(|line| verdicts(&partition.feed(line))).collect();
    let mut found = Vec::new();
    for verdict in &all {
        for f in verdict["findings"].as_array().unwrap().iter().filter(|f| f["policy"] == "SG15") {
            let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
            let place = text(&f["at"][0]["pointer"]);
            found.push(format!("{} {} {} {place}", text(&verdict["checkpoint"]), text(&f["rule"]), text(&f["effect"])));
        }
    }
    found
}

#[test]
fn what_obeys_is_not_found_and_what_does_not_is() {
    let engine = Engine::new(small(Profile::Standard, 0)).unwrap();
    let wide = "line\n".repeat(400);
    let huge = "x".repeat(5000);
    let (bad, good) = (json!({}), json!({"q": "a"}));
    let despite = |at: &str| format!("{at} started_despite_block block -");
    let forwarded = |rule: &str| format!("model_request {rule} block /messages/1/content/0");
    let unseen = "tool_result not_observed allow -".to_owned();
    let cases: Vec<(&str, Vec<Vec<u8>>, Vec<String>)> = vec![
        ("obeys", vec![request(&[]), called(bad.clone()), request(&[("t1", "[TOOL ERROR] no")])], vec![unseen.clone()]),
        ("starts", vec![request(&[]), called(bad.clone()), started()], vec![despite("tool_start")]),
        (
            "starts and answers",
            vec![request(&[]), called(bad.clone()), started(), host("ok", "a")],
            vec![despite("tool_start"), despite("tool_result")],
        ),
        ("says that it failed", vec![request(&[]), called(bad.clone()), host("error", "no")], vec![unseen.clone()]),
        (
            "answers in a request",
            vec![request(&[]), called(bad), request(&[("t1", "done")])],
            vec![despite("tool_result"), unseen.clone()],
        ),
        (
            "the blocked output",
            vec![request(&[]), called(good.clone()), started(), host("ok", &huge), request(&[("t1", &huge)])],
            vec![forwarded("blocked_result_forwarded")],
        ),
        (
            "the output before its redaction",
            vec![request(&[]), called(good.clone()), started(), host("ok", &wide), request(&[("t1", &wide)])],
            vec![forwarded("unredacted_result_forwarded")],
        ),
        (
            "the same of another call, of which nothing was told",
            vec![request(&[]), called(good.clone()), started(), host("ok", &wide), request(&[("t2", &wide)])],
            vec![],
        ),
        (
            "only the source was added",
            vec![request(&[]), called(good.clone()), started(), host("ok", "a"), request(&[("t1", "a")])],
            vec![],
        ),
        (
            "the request told of it first",
            vec![request(&[]), called(good.clone()), started(), request(&[("t1", &wide)]), request(&[("t1", &wide)])],
            vec![],
        ),
        (
            "the request told of it first, then the host",
            vec![
                request(&[]),
                called(good),
                started(),
                request(&[("t1", &wide)]),
                host("ok", &wide),
                request(&[("t1", &wide)]),
            ],
            vec![forwarded("unredacted_result_forwarded")],
        ),
    ];
    for (name, lines, expected) in cases {
        assert_eq!(found(&engine, &lines), expected, "{name}");
    }
}

#[test]
fn a_start_ahead_of_its_verdict_is_said_and_blocks_in_strict() {
    let lines = [request(&[]), started(), called(json!({"q": "a"}))];
    for (profile, effect) in [(Profile::Standard, "allow"), (Profile::Strict, "block")] {
        let engine = Engine::new(small(profile, 2000)).unwrap();
        assert_eq!(found(&engine, &lines), [format!("tool_start started_before_verdict {effect} -")]);
        let waits = [request(&[]), called(json!({"q": "a"})), started()];
        assert_eq!(found(&engine, &waits), Vec::<String>::new());
        // A blocked call is the graver matter.
        let blocked = [request(&[]), started(), called(json!({}))];
        assert_eq!(found(&engine, &blocked), ["tool_start started_despite_block block -"]);
    }
}

#[test]
fn under_monitor_nothing_was_withheld_so_nothing_is_a_bypass() {
    let engine = Engine::new(small(Profile::Monitor, 0)).unwrap();
    let huge = "x".repeat(5000);
    let lines = [request(&[]), called(json!({})), started(), host("ok", &huge), request(&[("t1", &huge)])];
    assert_eq!(found(&engine, &lines), Vec::<String>::new());
}

#[test]
fn bypasses_are_counted_by_fleet_and_kind() {
    let engine = Engine::new(small(Profile::Standard, 0)).unwrap();
    let mut state = PartitionState::new();
    state.begin();
    let mut out = Out::default();
    let mut seen = Vec::new();
    for (offset, value) in [request(&[]), called(json!({})), started()].iter().enumerate() {
        let input = Input {
            topic: "t",
            partition: 0,
            offset: offset as i64,
            timestamp: None,
            key: None,
            headers: &[],
            value: Some(value),
        };
        engine.step(&mut state, &input, &mut out);
        seen.extend(out.observations.iter().filter(|o| matches!(o, Observation::Bypass { .. })).cloned());
    }
    assert_eq!(seen, [Observation::Bypass { fleet: "support".into(), kind: "started_despite_block" }]);
}
