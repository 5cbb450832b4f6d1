//! What steps make countable: whose edits a published copy carries, and which calls have no result.

use crate::support::{Partition, body, engine, settings};
use serde_json::{Value, json};
use sluicegate::engine::policy::{OnePolicy, Profile};
use sluicegate::engine::{Emission, Engine, Observation, OnBlock, Settings, To};
use std::collections::BTreeMap;

fn line(kind: &str, data: &Value) -> Vec<u8> {
    let event = json!({
        "specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": "anthropic.messages", "conversation": "c", "data": data,
    });
    event.to_string().into_bytes()
}

fn output(content: &str) -> Vec<u8> {
    line("tool.result", &json!({"call_id": "t1", "tool": "log", "outcome": "ok", "content": content}))
}

/// A request in which these are the outputs of calls `t0`, `t1` and so on.
fn request(contents: &[&str]) -> Vec<u8> {
    let calls =
        (0..contents.len()).map(|n| json!({"type": "tool_use", "id": format!("t{n}"), "name": "log", "input": {}}));
    let results = contents.iter().enumerate();
    let results =
        results.map(|(n, text)| json!({"type": "tool_result", "tool_use_id": format!("t{n}"), "content": text}));
    let messages = json!([
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": calls.collect::<Vec<_>>()},
        {"role": "user", "content": results.collect::<Vec<_>>()},
    ]);
    let tools = json!([{"name": "log", "input_schema": {"type": "object"}}]);
    line("model.request", &json!({"model": "m", "max_tokens": 9, "tools": tools, "messages": messages}))
}

/// A made-up token of a service, another one for each number.
fn token(n: usize) -> String {
    format!("{}-{}{n}a", "glpat", "kR4t7Wq2Zx9Lm3Vb8N")
}

/// Places by policy that the step told of.
fn redacted(partition: &Partition<'_>) -> BTreeMap<&'static str, u64> {
    let one = |o: &Observation| match o {
        Observation::Redacted { policy, spans } => Some((*policy, *spans)),
        _ => None,
    };
    let all: Vec<_> = partition.observations().iter().filter_map(one).collect();
    let by: BTreeMap<_, _> = all.iter().copied().collect();
    assert_eq!(by.len(), all.len(), "each policy once a step: {all:?}");
    by
}

fn copies(emissions: &[Emission]) -> Vec<Value> {
    emissions.iter().filter(|e| e.to == To::Redacted).map(body).collect()
}

/// With a small cap, so that an output is cut.
fn capped(profile: Profile) -> Settings {
    let mut settings = settings(profile);
    let options = json!({"max_bytes": 1024, "block_bytes": 4096}).as_object().cloned().unwrap();
    settings.policy.policies.insert("SG01".into(), OnePolicy { options, ..OnePolicy::default() });
    settings
}

#[test]
fn a_copy_tells_whose_edits_it_carries() {
    let engine = Engine::new(capped(Profile::Standard)).unwrap();
    let told = |content: &str| {
        let mut partition = Partition::new(&engine);
        let copies = copies(&partition.feed(&output(content)));
        assert_eq!(copies.len(), 1);
        (copies[0].to_string(), redacted(&partition))
    };
    assert_eq!(told(&format!("first {} then {} end", token(1), token(2))).1.get("SG11"), Some(&2));
    assert_eq!(told("nothing to see").1.get("SG11"), None);
    let (copy, by) = told(&"word ".repeat(400));
    assert!(copy.contains("[sluicegate: ") && by.get("SG01").is_some_and(|spans| *spans >= 1), "{copy} {by:?}");
}

#[test]
fn a_request_tells_the_edits_of_its_results_each_time_that_it_carries_them() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let (one, two) = (token(1), token(2));
    let sent = request(&[&format!("a {one}"), "plain", &format!("b {one} and {two}")]);
    for _ in 0..2 {
        let copy = copies(&partition.feed(&sent));
        let text = copy[0].to_string();
        assert!(!text.contains(&one) && !text.contains(&two), "{text}");
        assert_eq!(redacted(&partition).get("SG11"), Some(&3));
    }
}

#[test]
fn without_a_copy_nothing_is_told() {
    let secret = format!("key {}", token(1));
    let watching = engine(Profile::Monitor);
    let mut partition = Partition::new(&watching);
    partition.feed(&output(&secret));
    assert_eq!(redacted(&partition), BTreeMap::new(), "monitor");

    let mut settings = capped(Profile::Standard);
    settings.redacted.on_block = Some(OnBlock::Withhold);
    let withholds = Engine::new(settings).unwrap();
    let engine = Engine::new(capped(Profile::Standard)).unwrap();
    let too_long = format!("{secret} {}", "word ".repeat(2000));
    for (engine, published) in [(&withholds, 0), (&engine, 1)] {
        let mut partition = Partition::new(engine);
        assert_eq!(copies(&partition.feed(&output(&too_long))).len(), published);
        assert_eq!(redacted(&partition), BTreeMap::new(), "what stands for a block is no policy's edit");
    }
    let mut settings = capped(Profile::Standard);
    settings.limits.redacted_record_bytes = 64;
    let narrow = Engine::new(settings).unwrap();
    let mut partition = Partition::new(&narrow);
    assert_eq!(copies(&partition.feed(&output(&secret))), [] as [Value; 0]);
    assert_eq!(redacted(&partition), BTreeMap::new(), "the copy did not fit");
}

/// A response with these calls.
fn response(calls: &[(&str, &str)], stop: &str) -> Vec<u8> {
    let calls =
        calls.iter().map(|(id, input)| format!(r#"{{"type":"tool_use","id":"{id}","name":"log","input":{input}}}"#));
    let calls = calls.collect::<Vec<_>>().join(",");
    let head = r#"{"specversion":"1.0","id":"e","source":"/s","type":"io.sluicegate.model.response.v1","#;
    let data =
        format!(r#"{{"id":"msg_1","type":"message","role":"assistant","stop_reason":"{stop}","content":[{calls}]}}"#);
    format!(r#"{head}"provider":"anthropic.messages","conversation":"c","data":{data}}}"#).into_bytes()
}

#[test]
fn calls_that_may_run_wait_for_their_results() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let waits = |partition: &Partition<'_>| partition.state.stats().unanswered;
    partition.feed(&response(&[("t0", "{}"), ("t1", r#"{"a":1}"#), ("t2", r#"{"a":2}"#)], "tool_use"));
    assert_eq!(waits(&partition), 3);
    partition.feed(&output("done"));
    assert_eq!(waits(&partition), 2, "one was answered by its host");
    partition.feed(&output("done"));
    assert_eq!(waits(&partition), 2, "a second answer is not another call's");
    partition.feed(&request(&["x", "done", "y"]));
    assert_eq!(waits(&partition), 0, "a request has them all");

    let mut partition = Partition::new(&engine);
    partition.feed(&response(&[("t0", r#"{"a":1,"a":2}"#)], "tool_use"));
    assert_eq!(waits(&partition), 0, "a blocked call may not run");
    partition.feed(&response(&[("t9", "{}")], "max_tokens"));
    assert_eq!(waits(&partition), 0, "nor one that was cut");
}
