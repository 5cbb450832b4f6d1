//! What SG07 finds where something comes twice, where the examples of its page leave something open.

use crate::pins;
use crate::support::{Partition, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::pins::PinTable;
use sluicegate::engine::pins::record::Standing;
use sluicegate::engine::policy::{Mode, OnePolicy, Policies, PolicySettings, Profile};
use sluicegate::engine::{Engine, Limits, Settings, To};
use std::sync::Arc;

fn engine(profile: Profile, options: Value) -> Engine {
    let mut settings = settings(profile);
    let options = options.as_object().cloned().unwrap();
    settings.policy.policies.insert("SG07".into(), OnePolicy { options, ..OnePolicy::default() });
    // The requests below hold outputs alone.
    for code in ["SG09", "SG10"] {
        settings.policy.policies.insert(code.into(), OnePolicy { mode: Some(Mode::Off), ..OnePolicy::default() });
    }
    let limits = Limits { reorder_window_ms: 60_000, ..settings.limits.clone() };
    Engine::new(Settings { limits, ..settings }).unwrap()
}

fn event(kind: &str, response: &str, second: u32, data: Value) -> Vec<u8> {
    let time = format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60);
    let event = json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": "openai.chat", "conversation": "c", "responseid": response, "time": time, "data": data});
    event.to_string().into_bytes()
}

fn host(data: Value) -> Vec<u8> {
    event("tool.result", "r", 0, data)
}

fn request(results: &[(&str, &str)]) -> Vec<u8> {
    let result = |(id, text): &(&str, &str)| json!({"role": "tool", "tool_call_id": id, "content": text});
    let messages: Vec<Value> = results.iter().map(result).collect();
    event("model.request", "q", 0, json!({ "messages": messages }))
}

/// A response with calls of `f`: id and arguments.
fn response(name: &str, second: u32, calls: &[(&str, &str)]) -> Vec<u8> {
    let call = |(id, arguments): &(&str, &str)| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    let calls: Vec<Value> = calls.iter().map(call).collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let choices = json!([{"index": 0, "finish_reason": "tool_calls", "message": message}]);
    event("model.response", name, second, json!({"id": name, "object": "chat.completion", "choices": choices}))
}

fn asked(name: &str) -> Vec<u8> {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    event("model.request", name, 0, json!({"messages": [], "tools": [tool]}))
}

/// What SG07 finds, by record.
fn judge(engine: &Engine, lines: &[Vec<u8>]) -> Vec<String> {
    let mut partition = Partition::new(engine);
    let mut found = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        for verdict in verdicts(&partition.feed(line)) {
            for f in verdict["findings"].as_array().unwrap().iter().filter(|f| f["policy"] == "SG07") {
                let rule = f["rule"].as_str().filter(|rule| *rule != "not_observed");
                found.extend(rule.map(|rule| format!("{n} {rule} {}", f["effect"].as_str().unwrap())));
            }
        }
    }
    found
}

fn found(lines: &[Vec<u8>]) -> Vec<String> {
    judge(&engine(Profile::Standard, json!({})), lines)
}

#[test]
fn an_id_of_an_earlier_response() {
    let lines = [asked("r1"), response("r1", 0, &[("a", "{}")]), asked("r2"), response("r2", 0, &[("a", "{\"x\":1}")])];
    assert_eq!(found(&lines), ["3 duplicate_call_id allow"]);
    let strict = judge(&engine(Profile::Strict, json!({})), &lines);
    assert!(strict.contains(&"3 duplicate_call_id block".to_owned()), "{strict:?}");
    let within = [asked("r1"), response("r1", 0, &[("a", "{\"x\":1}"), ("a", "{\"x\":2}"), ("b", "{\"x\":2}")])];
    assert_eq!(found(&within), ["1 duplicate_call_id block"]);
}

/// The second is not run, and what is done for the first is no bypass.
#[test]
fn a_block_that_is_repeated_whole() {
    let twice = response("r1", 0, &[("a", "{}"), ("a", "{}")]);
    let start = event("tool.started", "r1", 0, json!({"call_id": "a", "tool": "f"}));
    let answer = host(json!({"call_id": "a", "tool": "f", "outcome": "ok", "content": {"source": "s", "content": 1}}));
    let lines =
        [asked("r1"), twice, start.clone(), answer, request(&[("a", "{\"source\":\"s\",\"content\":1}")]), start];
    let engine = engine(Profile::Standard, json!({}));
    let mut partition = Partition::new(&engine);
    let mut blocks = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        for verdict in verdicts(&partition.feed(line)) {
            let blocking = verdict["findings"].as_array().unwrap().iter().filter(|f| f["effect"] == "block");
            blocks.extend(blocking.map(|f| format!("{n} {}", f["rule"].as_str().unwrap())));
        }
    }
    assert_eq!(blocks, ["1 duplicate_call_id", "5 duplicate_start"]);
}

#[test]
fn an_intent_is_repeated_within_the_window_only() {
    let lines = |second| {
        let first = response("r1", 0, &[("a", "{\"x\":1,\"y\":[2]}")]);
        [asked("r1"), first, asked("r2"), response("r2", second, &[("b", "{ \"y\": [2], \"x\": 1 }")])]
    };
    assert_eq!(found(&lines(600)), ["3 repeated_intent allow"]);
    assert_eq!(found(&lines(601)), [""; 0]);
    let off = engine(Profile::Standard, json!({"window_seconds": 0}));
    assert_eq!(judge(&off, &lines(1)), [""; 0]);
}

#[test]
fn what_the_gate_put_in_place_is_the_same_output() {
    let engine = engine(Profile::Standard, json!({}));
    for (outcome, content) in [
        ("ok", json!("open")),
        ("ok", json!("x".repeat(70_000))),
        ("ok", json!("x".repeat(3 << 20))),
        ("error", json!("no door at /home/app/door")),
    ] {
        let host = host(json!({"call_id": "a", "outcome": outcome, "content": content}));
        // Its host gives the model the content of its copy, as it stands.
        let copies = Partition::new(&engine).feed(&host);
        let copy = copies.iter().find(|e| e.to == To::Redacted).and_then(|e| e.value.clone()).unwrap();
        let copy = String::from_utf8(copy).unwrap();
        let (_, raw) = copy.split_once("\"content\":").unwrap();
        let (raw, _) = raw.rsplit_once(",\"outcome\":").unwrap();
        let text = if raw.starts_with('"') { serde_json::from_str(raw).unwrap() } else { raw.to_owned() };
        // Also with the prefix by which a failure is said.
        let plain = text.trim_start_matches("[TOOL ERROR] ");
        for text in [text.clone(), format!("[TOOL ERROR] {plain}")] {
            let said = judge(&engine, &[host.clone(), request(&[("a", &text)])]);
            assert_eq!(said, [""; 0], "{}", &text[..40]);
        }
        let said = judge(&engine, &[host.clone(), request(&[("a", "something else")])]);
        assert_eq!(said, ["1 rewritten_result allow"]);
    }
}

/// Hosts read JSON and write it again, each in its own spelling.
#[test]
fn json_that_is_spelt_anew_is_the_same_output() {
    let engine = engine(Profile::Standard, json!({}));
    for content in [json!({"name": "é/<", "rows": [1, 2.50, null]}), json!([{"text": "x".repeat(70_000)}, "é"])] {
        let told = |content: &str| {
            let text = host(json!({"call_id": "a", "outcome": "ok", "content": "CONTENT"}));
            String::from_utf8(text).unwrap().replace("\"CONTENT\"", content).into_bytes()
        };
        let plain = told(&content.to_string());
        let copies = Partition::new(&engine).feed(&plain);
        let copy = copies.iter().find(|e| e.to == To::Redacted).and_then(|e| e.value.clone()).unwrap();
        let copy = serde_json::from_slice::<Value>(&copy).unwrap()["data"]["content"].clone();
        for value in [&content, &copy] {
            let pretty = serde_json::to_string_pretty(value).unwrap();
            let escaped = pretty.replace('é', "\\u00E9").replace('/', "\\/");
            for text in [pretty, escaped] {
                let said = judge(&engine, &[plain.clone(), told(&text), request(&[("a", &text)])]);
                assert_eq!(said, ["1 duplicate_result allow"], "{}", &text[..text.len().min(300)]);
            }
        }
        let other = content.to_string().replace('é', "e");
        assert_eq!(judge(&engine, &[plain.clone(), told(&other)]), ["1 conflicting_result block"]);
    }
}

#[test]
fn answers_within_one_request() {
    assert_eq!(found(&[request(&[("a", "1"), ("b", "2")])]), [""; 0]);
    assert_eq!(found(&[request(&[("a", "1"), ("a", "1")])]), ["0 duplicate_result allow"]);
    assert_eq!(found(&[request(&[("a", "1"), ("a", "2")])]), ["0 conflicting_result block"]);
    // An id that a later call has again.
    let call = json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let answer = |text: &str| json!({"role": "tool", "tool_call_id": "a", "content": text});
    let messages = json!([call, answer("1"), call, answer("2")]);
    assert_eq!(found(&[event("model.request", "q", 0, json!({ "messages": messages }))]), [""; 0]);
    // Gemini says that more is to come.
    let part = |n: u32, more: bool| json!({"functionResponse": {"id": "a", "name": "f", "response": {"output": n}, "willContinue": more}});
    let gemini = |parts: Value| {
        let mut event: Value = serde_json::from_slice(&event("model.request", "q", 0, json!({}))).unwrap();
        event["provider"] = json!("gemini.generate_content");
        event["data"] = json!({"contents": [{"role": "user", "parts": parts}]});
        event.to_string().into_bytes()
    };
    assert_eq!(found(&[gemini(json!([part(1, true), part(2, false)]))]), [""; 0]);
    assert_eq!(found(&[gemini(json!([part(1, false), part(2, false)]))]), ["0 conflicting_result block"]);
}

#[test]
fn starts_that_wait_and_starts_with_a_key() {
    let called = [asked("r1"), response("r1", 0, &[("a", "{}")])];
    let start =
        |key: &str| event("tool.started", "r1", 0, json!({"call_id": "a", "tool": "f", "idempotency_key": key}));
    let lines = |starts: &[Vec<u8>]| [&called[..], starts].concat();
    assert_eq!(found(&lines(&[start(""), start("")])), ["3 duplicate_start block"]);
    assert_eq!(found(&lines(&[start("k"), start("k")])), ["3 duplicate_start allow"]);
    // Both came ahead of their call.
    let early = [asked("r1"), start(""), start(""), response("r1", 0, &[("a", "{}")])];
    assert_eq!(found(&early), ["3 duplicate_start block"]);
    let options = json!({"side_effecting": ["f"]});
    let said = judge(&engine(Profile::Standard, options), &lines(&[start("")]));
    assert_eq!(said, ["2 missing_idempotency_key block"]);
}

/// Hints of a server mark its tools once an operator approved them, and lift nothing.
#[test]
fn an_approved_hint_asks_for_a_key() {
    let (changes, reads) = (json!({"readOnlyHint": false}), json!({"destructiveHint": true, "readOnlyHint": true}));
    for (hints, standing, marks) in [
        (changes.clone(), Standing::Approved, true),
        (json!({"destructiveHint": true}), Standing::Approved, true),
        (json!({"destructiveHint": true, "idempotentHint": false}), Standing::Approved, true),
        (changes, Standing::Rejected, false),
        (reads, Standing::Approved, false),
        (json!({"readOnlyHint": false, "idempotentHint": true}), Standing::Approved, false),
        (json!({"destructiveHint": "true"}), Standing::Approved, false),
        (json!({}), Standing::Approved, false),
    ] {
        let mut send = pins::tool("send", "Sends.");
        send["annotations"] = hints.clone();
        let mut table = PinTable::default();
        pins::decide(&mut table, pins::key("docs", &send), standing, &send);
        let engine = pins::engine(table, json!({"trust_first": true}));
        let mut talk = pins::Talk::new(&engine);
        talk.list("docs", json!([send]));
        talk.client("docs", "tools/call", json!({"name": "send", "arguments": {"q": "a"}}));
        let mut start = |server: &str, data: Value| {
            let gave = talk.put("tool.started", &[("ce_mcpserver", server)], &data);
            let found = verdicts(&gave)
                .iter()
                .flat_map(|v| v["findings"].as_array().unwrap().clone())
                .find(|f| f["rule"] == "missing_idempotency_key");
            found.map(|f| f["evidence"]["label"].clone())
        };
        let expected = marks.then(|| json!("approved_hint"));
        assert_eq!(start("docs", json!({"call_id": "2", "tool": "send"})), expected, "{hints}");
        assert_eq!(start("docs", json!({"call_id": "9", "tool": "send"})), expected, "{hints}: a call that nobody saw");
        assert_eq!(start("docs", json!({"call_id": "8", "tool": "send", "idempotency_key": "k"})), None);
        assert_eq!(start("other", json!({"call_id": "7", "tool": "send"})), None, "another server's");
    }
    // The operator's list holds whatever a hint says.
    let mut send = pins::tool("send", "Sends.");
    send["annotations"] = json!({"readOnlyHint": true, "idempotentHint": true});
    let mut engine = engine(Profile::Standard, json!({"side_effecting": ["send"]}));
    engine.set_pins(Arc::new(pins::approved("docs", &[send])));
    let gave = pins::Talk::new(&engine).put(
        "tool.started",
        &[("ce_mcpserver", "docs")],
        &json!({"call_id": "1", "tool": "send"}),
    );
    let found = verdicts(&gave)[0]["findings"].as_array().unwrap().clone();
    assert!(found.iter().any(|f| f["rule"] == "missing_idempotency_key"), "{found:?}");
}

#[test]
fn options_have_bounds() {
    let options = json!({"window_seconds": 86_401, "side_effecting": ["x".repeat(129)]}).as_object().cloned().unwrap();
    let one = OnePolicy { options, ..OnePolicy::default() };
    let settings = PolicySettings { policies: [("SG07".to_owned(), one)].into(), ..PolicySettings::default() };
    let problems = Policies::new(&settings).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["policies.SG07.options.side_effecting.0", "policies.SG07.options.window_seconds"]);
}
