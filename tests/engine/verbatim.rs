//! What providers sign of the model's turns, and how it comes back.

use crate::support::{Partition, engine, files, lines, shared, verdicts};
use crate::turns::{anthropic, findings, line, said};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use std::collections::BTreeMap;

/// What SG03 says of a request behind these records, by kind and data.
fn found(provider: &str, records: &[(&str, Value)], request: &Value) -> Vec<(String, String)> {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    for (n, (kind, data)) in records.iter().enumerate() {
        let id = format!("{}", if *kind == "model.chunk" { 0 } else { n });
        partition.feed(&line(provider, kind, &id, data));
    }
    let last = verdicts(&partition.feed(&line(provider, "model.request", "last", request)));
    let own = last.iter().flat_map(|v| v["findings"].as_array().cloned().unwrap_or_default());
    let own: Vec<Value> = own.filter(|finding| finding["policy"] == "SG03").collect();
    findings(&[json!({ "findings": own })])
}

fn rules(provider: &str, records: &[(&str, Value)], request: &Value) -> Vec<String> {
    found(provider, records, request).into_iter().map(|(rule, effect)| format!("{rule} {effect}")).collect()
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn redacted(data: &str) -> Value {
    json!({"type": "redacted_thinking", "data": data})
}

fn used(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "lookup", "input": {}})
}

fn given(id: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "open"}]})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn message(id: &str, content: Value) -> (&'static str, Value) {
    let data = json!({"type": "message", "id": id, "role": "assistant", "content": content, "stop_reason": "tool_use"});
    ("model.response", data)
}

#[test]
fn anthropic_thinking_comes_back_as_it_was() {
    let go = || said("user", "go on");
    let response = || message("m1", json!([thinking("hm", "c2ln"), redacted("QUJD"), used("t1")]));
    let echo = |content: Value| anthropic(json!([go(), assistant(content), given("t1")]));
    let cases: Vec<(&str, Value, &[&str])> = vec![
        ("as it was", json!([thinking("hm", "c2ln"), redacted("QUJD"), used("t1")]), &[]),
        (
            "with an empty text",
            json!([thinking("hm", "c2ln"), redacted("QUJD"), {"type": "text", "text": ""}, used("t1")]),
            &[],
        ),
        ("without thinking", json!([used("t1")]), &["missing_signature block"]),
        ("without the hidden part", json!([thinking("hm", "c2ln"), used("t1")]), &["missing_signature block"]),
        (
            "without its signature",
            json!([{"type": "thinking", "thinking": "hm"}, redacted("QUJD"), used("t1")]),
            &["missing_signature block"],
        ),
        (
            "another signature",
            json!([thinking("hm", "b3Ro"), redacted("QUJD"), used("t1")]),
            &["altered_signature block"],
        ),
        ("another text", json!([thinking("ha", "c2ln"), redacted("QUJD"), used("t1")]), &["altered_signature block"]),
        (
            "another hidden part",
            json!([thinking("hm", "c2ln"), redacted("REVG"), used("t1")]),
            &["altered_signature block"],
        ),
        ("in another order", json!([redacted("QUJD"), thinking("hm", "c2ln"), used("t1")]), &["reordered_parts block"]),
        ("behind the call", json!([used("t1"), thinking("hm", "c2ln"), redacted("QUJD")]), &["reordered_parts block"]),
    ];
    for (name, content, expected) in cases {
        assert_eq!(rules("anthropic.messages", &[response()], &echo(content)), expected, "{name}");
    }
    // In two messages of the model's.
    let split = anthropic(json!([
        go(),
        assistant(json!([thinking("hm", "c2ln"), redacted("QUJD")])),
        assistant(json!([used("t1")])),
        given("t1")
    ]));
    assert_eq!(rules("anthropic.messages", &[response()], &split), [""; 0]);
    // A turn that is over: the API leaves its thinking out.
    let over = anthropic(json!([go(), assistant(json!([used("t1")])), given("t1"), said("assistant", "ok"), go()]));
    assert_eq!(rules("anthropic.messages", &[response()], &over), [""; 0]);
    // Thinking is off now.
    let mut off = echo(json!([used("t1")]));
    off["thinking"] = json!({"type": "disabled"});
    assert_eq!(rules("anthropic.messages", &[response()], &off), ["tolerated_difference allow"]);
    // An earlier step of the same loop.
    let second = message("m2", json!([thinking("well", "d2VsbA"), used("t2")]));
    let loops = |first: Value| {
        let then = assistant(json!([thinking("well", "d2VsbA"), used("t2")]));
        anthropic(json!([go(), assistant(first), given("t1"), then, given("t2")]))
    };
    let both = [response(), second];
    let whole = json!([thinking("hm", "c2ln"), redacted("QUJD"), used("t1")]);
    assert_eq!(rules("anthropic.messages", &both, &loops(whole)), [""; 0]);
    assert_eq!(rules("anthropic.messages", &both, &loops(json!([used("t1")]))), ["missing_signature block"]);
    // The response was not seen.
    let unseen = echo(json!([thinking("hm", "c2ln"), used("t1")]));
    assert_eq!(rules("anthropic.messages", &[], &unseen), ["not_observed allow"]);
    let bare = echo(json!([{"type": "thinking", "thinking": "hm"}, used("t1")]));
    assert_eq!(rules("anthropic.messages", &[], &bare), ["missing_signature block"]);
}

#[test]
fn anthropic_thinking_is_streamed_in_pieces() {
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let piece = |text: &str| delta(json!({"type": "thinking_delta", "thinking": text}));
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "m1", "type": "message", "role": "assistant", "content": []}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
    ];
    events.extend(["l", "ook ", "na", "ïve 😀"].map(piece));
    events.extend([
        delta(json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": used("t1")}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]);
    let echo = |text: &str| {
        anthropic(json!([said("user", "x"), assistant(json!([thinking(text, "c2ln"), used("t1")])), given("t1")]))
    };
    // One by one, and all in one record.
    let one_by_one: Vec<(&str, Value)> = events.iter().map(|event| ("model.chunk", event.clone())).collect();
    for records in [one_by_one, vec![("model.chunk", json!(events))]] {
        assert_eq!(rules("anthropic.messages", &records, &echo("look naïve 😀")), [""; 0]);
        assert_eq!(rules("anthropic.messages", &records, &echo("look naïve 😁")), ["altered_signature block"]);
    }
}

fn fc(name: &str, args: &Value, seal: &str) -> Value {
    let mut part = json!({"functionCall": {"name": name, "args": args}});
    if !seal.is_empty() {
        part["thoughtSignature"] = json!(seal);
    }
    part
}

fn fr(name: &str) -> Value {
    json!({"functionResponse": {"name": name, "response": {"result": "open"}}})
}

fn content(role: &str, parts: &[Value]) -> Value {
    json!({"role": role, "parts": parts})
}

fn candidate(id: &str, model: &str, parts: &[Value]) -> (&'static str, Value) {
    let data = json!({"responseId": id, "modelVersion": model, "candidates": [
        {"index": 0, "finishReason": "STOP", "content": content("model", parts)}]});
    ("model.response", data)
}

#[test]
fn gemini_signatures_come_back_beside_their_calls() {
    const GEMINI: &str = "gemini.generate_content";
    let (a, b) = (json!({"q": "a"}), json!({"q": "b"}));
    let response = |model: &str| candidate("r1", model, &[fc("lookup", &a, "c2ln"), fc("lookup", &b, "")]);
    let echo = |parts: &[Value]| {
        json!({"contents": [content("user", &[json!({"text": "go on"})]), content("model", parts),
            content("user", &[fr("lookup"), fr("lookup")])]})
    };
    let inside = json!({"functionCall": {"name": "lookup", "args": a, "thought_signature": "c2ln"}});
    let cases: Vec<(&str, Vec<Value>, &[&str])> = vec![
        ("as it was", vec![fc("lookup", &a, "c2ln"), fc("lookup", &b, "")], &[]),
        ("args spelt anew", vec![fc("lookup", &json!({"q": "\u{61}"}), "c2ln"), fc("lookup", &b, "")], &[]),
        (
            "a copy of it as well",
            vec![fc("lookup", &a, "c2ln"), fc("lookup", &b, "c2ln")],
            &["tolerated_difference allow"],
        ),
        ("without", vec![fc("lookup", &a, ""), fc("lookup", &b, "")], &["missing_signature block"]),
        ("another", vec![fc("lookup", &a, "b3Ro"), fc("lookup", &b, "")], &["altered_signature block"]),
        (
            "on the other",
            vec![fc("lookup", &a, ""), fc("lookup", &b, "c2ln")],
            &["missing_signature block", "moved_signature block"],
        ),
        ("in the call", vec![inside, fc("lookup", &b, "")], &["moved_signature block"]),
        ("the other first", vec![fc("lookup", &b, ""), fc("lookup", &a, "c2ln")], &["reordered_parts block"]),
        (
            "other arguments",
            vec![fc("lookup", &json!({"q": "c"}), "c2ln"), fc("lookup", &b, "")],
            &["altered_call block"],
        ),
        ("another name", vec![fc("search", &a, "c2ln"), fc("lookup", &b, "")], &["altered_call block"]),
        (
            "a placeholder",
            vec![fc("lookup", &a, "skip_thought_signature_validator"), fc("lookup", &b, "")],
            &["synthetic_signature allow"],
        ),
    ];
    for (name, parts, expected) in cases {
        let mut said = rules(GEMINI, &[response("gemini-3-pro")], &echo(&parts));
        said.sort();
        assert_eq!(said, expected, "{name}");
        // What Gemini 2 signs it does not ask for.
        let said = rules(GEMINI, &[response("gemini-2.5-flash")], &echo(&parts));
        assert!(said.iter().all(|rule| rule.ends_with(" allow")), "{name}: {said:?}");
    }
    // Standard base64 for the URL-safe one.
    let response = candidate("r1", "gemini-3-pro", &[fc("lookup", &a, "-_-_QQ")]);
    let re_encoded = json!({"contents": [content("user", &[json!({"text": "go on"})]),
        content("model", &[fc("lookup", &a, "+/+/QQ==")]), content("user", &[fr("lookup")])]});
    assert_eq!(rules(GEMINI, &[response], &re_encoded), [""; 0]);
    // The same call in each step, each signed: every step needs its own.
    let steps = [
        candidate("r1", "gemini-3-pro", &[fc("lookup", &a, "c3RlcDE")]),
        candidate("r2", "gemini-3-pro", &[fc("lookup", &a, "c3RlcDI")]),
    ];
    let history = |first: &str, second: &str| {
        json!({"contents": [content("user", &[json!({"text": "go on"})]), content("model", &[fc("lookup", &a, first)]),
            content("user", &[fr("lookup")]), content("model", &[fc("lookup", &a, second)]), content("user", &[fr("lookup")])]})
    };
    assert_eq!(rules(GEMINI, &steps, &history("c3RlcDE", "c3RlcDI")), [""; 0]);
    assert_eq!(rules(GEMINI, &steps, &history("", "c3RlcDI")), ["missing_signature block"]);
    assert_eq!(rules(GEMINI, &steps, &history("c3RlcDE", "")), ["missing_signature block"]);
    // Which model reads it is known, which wrote it is not.
    let mut unseen = history("", "c3RlcDI");
    assert_eq!(rules(GEMINI, &[], &unseen), ["not_observed allow"]);
    unseen["model"] = json!("models/gemini-3-flash-preview");
    assert_eq!(rules(GEMINI, &[], &unseen), ["missing_signature block", "not_observed allow"]);
    let mut unsigned = history("", "");
    assert_eq!(rules(GEMINI, &[], &unsigned), ["not_observed allow"]);
    unsigned["model"] = json!("gemini-2.5-pro");
    assert_eq!(rules(GEMINI, &[], &unsigned), [""; 0]);
    // Streamed: the signature stands on the piece that opens the call.
    let chunk = |parts: Value| json!({"responseId": "r1", "modelVersion": "gemini-3-pro", "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]});
    let stream = [
        chunk(json!([{"functionCall": {"name": "lookup", "willContinue": true}, "thoughtSignature": "c2ln"}])),
        chunk(
            json!([{"functionCall": {"partialArgs": [{"jsonPath": "$.q", "stringValue": "a"}], "willContinue": true}}]),
        ),
        chunk(json!([{"functionCall": {}}])),
        json!({"responseId": "r1", "modelVersion": "gemini-3-pro", "candidates": [{"index": 0, "finishReason": "STOP"}]}),
    ];
    let stream: Vec<(&str, Value)> = stream.into_iter().map(|chunk| ("model.chunk", chunk)).collect();
    let one = |args: &Value, seal: &str| json!({"contents": [content("user", &[json!({"text": "go on"})]), content("model", &[fc("lookup", args, seal)]), content("user", &[fr("lookup")])]});
    assert_eq!(rules(GEMINI, &stream, &one(&a, "c2ln")), [""; 0]);
    assert_eq!(rules(GEMINI, &stream, &one(&a, "")), ["missing_signature block"]);
    assert_eq!(rules(GEMINI, &stream, &one(&b, "c2ln")), ["altered_call block"]);
}

#[test]
fn gemini_answers_stand_together() {
    const GEMINI: &str = "gemini.generate_content";
    let none = json!({});
    let asked = || content("model", &[fc("a", &none, ""), fc("b", &none, "")]);
    let go = || content("user", &[json!({"text": "go on"})]);
    let apart = |answers: Vec<Value>| {
        let mut contents = vec![go(), asked()];
        contents.extend(answers);
        json!({ "contents": contents, "model": "gemini-2.5-pro" })
    };
    let split = ["split_parallel_answers block"];
    assert_eq!(rules(GEMINI, &[], &apart(vec![content("user", &[fr("a"), fr("b")])])), [""; 0]);
    assert_eq!(rules(GEMINI, &[], &apart(vec![content("user", &[fr("a")]), content("user", &[fr("b")])])), split);
    assert_eq!(rules(GEMINI, &[], &apart(vec![content("user", &[fr("b"), fr("a")])])), split);
    // The model's turn may be written as two.
    let two = json!({"model": "gemini-2.5-pro", "contents": [go(), content("model", &[fc("a", &none, "")]),
        content("model", &[fc("b", &none, "")]), content("user", &[fr("a"), fr("b")])]});
    assert_eq!(rules(GEMINI, &[], &two), [""; 0]);
}

/// What is no object becomes one, and the copy of the copy is the copy.
#[test]
fn gemini_responses_are_objects() {
    let engine = engine(Profile::Standard);
    for (response, wrapped) in
        [(json!("open"), true), (json!([1, 2]), true), (json!(7), true), (json!({"a": 1}), false)]
    {
        let answer = json!({"functionResponse": {"name": "a", "response": response}});
        let request = json!({"model": "gemini-2.5-pro", "contents": [content("user", &[json!({"text": "go on"})]),
            content("model", &[fc("a", &json!({}), "")]), content("user", &[answer])]});
        let mut partition = Partition::new(&engine);
        let emissions = partition.feed(&line("gemini.generate_content", "model.request", "1", &request));
        let copy = emissions.iter().find(|e| e.to == sluicegate::engine::To::Redacted);
        assert_eq!(copy.is_some(), wrapped, "{response}");
        let Some(copy) = copy else { continue };
        let copy: Value = serde_json::from_slice(copy.value.as_deref().unwrap()).unwrap();
        let copy = copy.get("data").cloned().unwrap_or(copy);
        assert_eq!(copy["contents"][2]["parts"][0]["functionResponse"]["response"], json!({ "result": response }));
        let mut partition = Partition::new(&engine);
        let again = partition.feed(&line("gemini.generate_content", "model.request", "1", &copy));
        assert!(again.iter().all(|e| e.to != sluicegate::engine::To::Redacted), "{response}");
    }
}

#[test]
fn encrypted_reasoning_comes_back_as_it_was() {
    let reasoning =
        |id: &str, seal: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": seal});
    let call = |id: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "lookup", "arguments": "{}", "status": "completed"});
    let out = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "open"});
    let go = || said("user", "go on");
    for provider in ["openai.responses", "xai.responses"] {
        let openai = provider.starts_with("openai");
        let response = || {
            (
                "model.response",
                json!({"object": "response", "id": "resp_1", "status": "completed", "output": [reasoning("rs_1", "c2ln"), call("c1")]}),
            )
        };
        let bare = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        let nameless = json!({"type": "reasoning", "summary": [], "encrypted_content": "c2ln"});
        let cases: Vec<(&str, Value, &[&str])> = vec![
            ("as it was", json!([go(), reasoning("rs_1", "c2ln"), call("c1"), out("c1")]), &[]),
            ("without its id", json!([go(), nameless, call("c1"), out("c1")]), &[]),
            ("changed", json!([go(), reasoning("rs_1", "b3Ro"), call("c1"), out("c1")]), &["altered_signature block"]),
            (
                "under another id",
                json!([go(), reasoning("rs_2", "b3Ro"), call("c1"), out("c1")]),
                &["altered_signature block"],
            ),
            ("left out", json!([go(), call("c1"), out("c1")]), &["tolerated_difference allow"]),
            ("kept by the provider", json!([go(), bare, call("c1"), out("c1")]), &["tolerated_difference allow"]),
            (
                "behind its call",
                json!([go(), call("c1"), reasoning("rs_1", "c2ln"), call("c2"), out("c1"), out("c2")]),
                &["reordered_parts block"],
            ),
            (
                "over",
                json!([go(), reasoning("rs_1", "b3Ro"), call("c1"), out("c1"), said("assistant", "ok"), go()]),
                &[],
            ),
        ];
        for (name, input, expected) in cases {
            let request = json!({"model": "m", "store": false, "input": input});
            assert_eq!(rules(provider, &[response()], &request), expected, "{provider}: {name}");
        }
        // The item that it led to is gone.
        let alone = json!({"model": "m", "input": [go(), reasoning("rs_1", "c2ln"), go()]});
        let alone_in_loop = json!({"model": "m", "input": [go(), reasoning("rs_1", "c2ln"), out("c1")]});
        assert_eq!(rules(provider, &[response()], &alone), [""; 0], "{provider}: a turn that is over");
        let expected: &[&str] = if openai { &["reordered_parts block"] } else { &[] };
        assert_eq!(rules(provider, &[response()], &alone_in_loop), expected, "{provider}");
        // Streamed: the cipher of the item that is done is the one, also where its beginning had another.
        let stream = [
            json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": reasoning("rs_1", "Zmlyc3Q")}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning("rs_1", "c2ln")}),
            json!({"type": "response.output_item.added", "output_index": 1, "item": call("c1")}),
            json!({"type": "response.output_item.done", "output_index": 1, "item": call("c1")}),
            json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}),
        ];
        let stream: Vec<(&str, Value)> = stream.into_iter().map(|event| ("model.chunk", event)).collect();
        let echo = |seal: &str| json!({"model": "m", "input": [go(), reasoning("rs_1", seal), call("c1"), out("c1")]});
        assert_eq!(rules(provider, &stream, &echo("c2ln")), [""; 0]);
        assert_eq!(rules(provider, &stream, &echo("b3Ro")), ["altered_signature block"]);
    }
}

/// The members that hold what providers sign.
const SEALS: [&str; 4] = ["thoughtSignature", "thought_signature", "signature", "encrypted_content"];

/// The last seal of a document, changed or taken out. Whether there was one.
fn tamper(value: &mut Value, with: Option<&str>) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().rev().any(|item| tamper(item, with)),
        Value::Object(members) => {
            for name in SEALS {
                if members.get(name).is_some_and(|seal| seal.as_str().is_some_and(|seal| seal.len() > 40)) {
                    match with {
                        Some(with) => members.insert(name.to_owned(), json!(with)),
                        None => members.remove(name),
                    };
                    return true;
                }
            }
            members.values_mut().rev().any(|member| tamper(member, with))
        }
        _ => false,
    }
}

/// Recorded requests that providers took, with the last signature changed, or without it.
#[test]
fn a_recorded_signature_that_is_tampered_with_is_found() {
    let Some(corpus) = shared("corpus") else { return };
    let standard = engine(Profile::Standard);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let other = "QUJD".repeat(30);
    for provider in ["anthropic.messages", "openai.responses", "xai.responses", "gemini.generate_content"] {
        for path in files(&corpus.join("recorded").join(provider)) {
            let lines = lines(&path);
            for with in [Some(other.as_str()), None] {
                let mut partition = Partition::new(&standard);
                for line in &lines {
                    let mut event: Value = serde_json::from_slice(line).unwrap_or_default();
                    let is_request = event["type"] == "io.sluicegate.model.request.v1";
                    let list = if provider == "gemini.generate_content" {
                        "contents"
                    } else if provider == "anthropic.messages" {
                        "messages"
                    } else {
                        "input"
                    };
                    if !is_request || !event["data"].get_mut(list).is_some_and(|list| tamper(list, with)) {
                        partition.feed(line);
                        continue;
                    }
                    let said = verdicts(&partition.feed(event.to_string().as_bytes()));
                    let own = findings(&said).into_iter().map(|(rule, effect)| format!("{rule} {effect}"));
                    let own: Vec<String> =
                        own.filter(|rule| !rule.starts_with("mixed") && !rule.starts_with("empty")).collect();
                    let what = if with.is_some() { "changed" } else { "taken out" };
                    *seen.entry(format!("{provider} {what}: {}", own.join(", "))).or_default() += 1;
                }
            }
        }
    }
    for (what, count) in &seen {
        println!("{count} {what}");
    }
    let of = |what: &str| seen.iter().filter(|(key, _)| key.starts_with(what)).map(|(_, n)| n).sum::<usize>();
    for (what, least) in [
        ("anthropic.messages changed: altered_signature block", 1),
        ("anthropic.messages taken out: missing_signature block", 1),
        ("gemini.generate_content changed: altered_signature block", 15),
        ("gemini.generate_content taken out: missing_signature block", 10),
        ("openai.responses changed: altered_signature block", 15),
        ("xai.responses changed: altered_signature block", 5),
    ] {
        assert!(of(what) >= least, "{what}: {seen:?}");
    }
}
