//! Calls without an id: which of them a start or a result means.

use crate::support::{Partition, engine, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;

fn line(kind: &str, response: &str, data: Value) -> Vec<u8> {
    let event = json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": "gemini.generate_content", "conversation": "c", "responseid": response, "data": data});
    event.to_string().into_bytes()
}

fn tools() -> Value {
    let declared = |name: &str| json!({"name": name, "parameters": {"type": "OBJECT"}});
    json!([{"functionDeclarations": [declared("look"), declared("book")]}])
}

fn request(response: &str, contents: Value) -> Vec<u8> {
    line("model.request", response, json!({"contents": contents, "tools": tools()}))
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

fn calls(names: &[&str]) -> Vec<Value> {
    names.iter().enumerate().map(|(n, name)| json!({"functionCall": {"name": name, "args": {"n": n}}})).collect()
}

fn answers(of: &[(&str, Value)]) -> Value {
    let part = |(name, response): &(&str, Value)| json!({"functionResponse": {"name": name, "response": response}});
    json!({"role": "user", "parts": of.iter().map(part).collect::<Vec<_>>()})
}

fn response(response: &str, names: &[&str], reason: &str) -> Vec<u8> {
    let content = json!({"role": "model", "parts": calls(names)});
    line("model.response", response, json!({"candidates": [{"content": content, "finishReason": reason}]}))
}

fn started(id: Option<&str>, tool: &str) -> Vec<u8> {
    line("tool.started", "r1", json!({"call_id": id, "tool": tool}))
}

/// Checkpoint, action and first rule that blocks of each verdict but those on calls and requests.
fn said(lines: &[Vec<u8>]) -> Vec<(String, String, String)> {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let all: Vec<Value> = lines.iter().flat_map(|line| verdicts(&partition.feed(line))).collect();
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let of = |v: &Value| {
        let findings = v["findings"].as_array().cloned().unwrap_or_default();
        let rule = findings.iter().find(|f| f["effect"] == "block").map_or("-".to_owned(), |f| text(&f["rule"]));
        (text(&v["checkpoint"]), text(&v["action"]), rule)
    };
    let of_interest = |v: &&Value| matches!(v["checkpoint"].as_str(), Some("tool_start" | "tool_result"));
    all.iter().filter(of_interest).map(of).collect()
}

fn row(checkpoint: &str, action: &str, rule: &str) -> (String, String, String) {
    (checkpoint.into(), action.into(), rule.into())
}

#[test]
fn a_host_names_calls_by_ids_of_its_own() {
    let begin = || vec![request("r1", json!([user("go")])), response("r1", &["look", "look", "book"], "STOP")];
    let mut lines = begin();
    for (id, tool) in [("h1", "look"), ("h2", "look"), ("h3", "book")] {
        lines.push(started(Some(id), tool));
    }
    assert_eq!(said(&lines), vec![row("tool_start", "allow", "-"); 3]);
    // Without an id too.
    let mut lines = begin();
    lines.extend([started(None, "look"), started(None, "book")]);
    assert_eq!(said(&lines), vec![row("tool_start", "allow", "-"); 2]);
    // Every call has its host's id now: another one is nobody's.
    let mut lines = begin();
    for (id, tool) in [("h1", "look"), ("h2", "look"), ("h3", "book"), ("h4", "book")] {
        lines.push(started(Some(id), tool));
    }
    assert_eq!(said(&lines)[3], row("tool_start", "block", "started_before_final"));
}

#[test]
fn a_call_that_was_cut_is_recognised_without_an_id() {
    let cut = |lines: &[Vec<u8>]| {
        let mut all = vec![request("r1", json!([user("go")])), response("r1", &["look", "book"], "MAX_TOKENS")];
        all.extend_from_slice(lines);
        said(&all)
    };
    assert_eq!(cut(&[started(Some("h1"), "book")]), [row("tool_start", "block", "acted_on_incomplete")]);
    let turn = json!({"role": "model", "parts": calls(&["look", "book"])});
    let answered = answers(&[("look", json!({"output": "a"})), ("book", json!({"error": "not run"}))]);
    // One answer says that nothing was run; the other one does not.
    let given = cut(&[request("r2", json!([user("go"), turn, answered]))]);
    let expected = [row("tool_result", "block", "acted_on_incomplete"), row("tool_result", "allow", "-")];
    assert_eq!(given, expected);
}

#[test]
fn answers_stand_in_order_over_the_merged_turn() {
    // The turn is split over two model contents and answered in one; the earlier turn's answers come along.
    let turn = |names: &[&str]| json!({"role": "model", "parts": calls(names)});
    let first = answers(&[("look", json!({"output": "1"}))]);
    let both = answers(&[("look", json!({"output": "2"})), ("look", json!({"output": "3"}))]);
    let lines = [
        request("r1", json!([user("go")])),
        response("r1", &["look"], "STOP"),
        request("r2", json!([user("go"), turn(&["look"]), first])),
        response("r2", &["look", "look"], "SAFETY"),
        request("r3", json!([user("go"), turn(&["look"]), first, turn(&["look"]), turn(&["look"]), both])),
    ];
    let given = said(&lines);
    let blocked = row("tool_result", "block", "acted_on_incomplete");
    assert_eq!(given, [row("tool_result", "allow", "-"), blocked.clone(), blocked]);
}

#[test]
fn a_digest_tells_calls_of_one_tool_apart() {
    let sha = |text: &str| {
        use sha2::{Digest, Sha256};
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let start = |id: &str, n: u32| {
        let text = format!("{{\"n\":{n}}}");
        line("tool.started", "r1", json!({"call_id": id, "tool": "look", "arguments_sha256": sha(&text)}))
    };
    let begin = [request("r1", json!([user("go")])), response("r1", &["look", "look"], "STOP")];
    let lines = [&begin[..], &[start("h2", 1), start("h1", 0)]].concat();
    assert_eq!(said(&lines), vec![row("tool_start", "allow", "-"); 2]);
}
