//! Ways to make a client run other arguments than those that were judged, or to get a call past unseen: each was
//! found by taking streams apart, and stands for its kind.

use crate::support::{Partition, body, engine, header, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::{Emission, Engine, To};

const CHAT: &str = "openai.chat";
const GEMINI: &str = "gemini.generate_content";

struct Wire<'e> {
    partition: Partition<'e>,
    all: Vec<Emission>,
    sent: u32,
}

impl<'e> Wire<'e> {
    fn new(engine: &'e Engine) -> Self {
        Self { partition: Partition::new(engine), all: Vec::new(), sent: 0 }
    }
    /// One record; `data` as text, since some of it is not JSON.
    fn send(&mut self, provider: &str, kind: &str, response: Option<&str>, data: &str) -> &mut Self {
        self.numbered(provider, kind, response, data, None)
    }
    fn numbered(
        &mut self,
        provider: &str,
        kind: &str,
        response: Option<&str>,
        data: &str,
        n: Option<&str>,
    ) -> &mut Self {
        self.sent += 1;
        let (id, kind) = (format!("e{}", self.sent), format!("io.sluicegate.{kind}.v1"));
        let mut headers: Vec<(&str, Option<&[u8]>)> = vec![
            ("ce_specversion", Some(b"1.0")),
            ("ce_id", Some(id.as_bytes())),
            ("ce_source", Some(b"/s")),
            ("ce_type", Some(kind.as_bytes())),
            ("ce_provider", Some(provider.as_bytes())),
        ];
        headers.extend(response.map(|id| ("ce_responseid", Some(id.as_bytes()))));
        headers.extend(n.map(|n| ("ce_sequence", Some(n.as_bytes()))));
        let value = (kind != "io.sluicegate.model.closed.v1").then_some(data.as_bytes());
        self.all.extend(self.partition.feed_record(Some(b"c"), &headers, value));
        self
    }
    fn chunk(&mut self, provider: &str, data: &Value) -> &mut Self {
        self.send(provider, "model.chunk", Some("r"), &data.to_string())
    }
    /// Tool calls that may run: tool and arguments.
    fn run(&self) -> Vec<(Value, Value)> {
        let calls = self.all.iter().filter(|e| e.to == To::Redacted);
        let calls = calls.filter(|e| header(e, "ce_type") == Some("io.sluicegate.tool.call.v1")).map(body);
        calls.map(|call| (call["tool"].clone(), call["arguments"].clone())).collect()
    }
    /// Action and first rule of the verdicts on calls.
    fn calls(&self) -> Vec<String> {
        let calls = verdicts(&self.all).into_iter().filter(|v| v["checkpoint"] == "tool_call");
        calls
            .map(|v| {
                let findings = v["findings"].as_array().cloned().unwrap_or_default();
                let block = findings.iter().find(|f| f["effect"] == "block").cloned().unwrap_or_default();
                let label = block["evidence"]["label"].as_str().map_or(String::new(), |label| format!("({label})"));
                let rule = block["rule"].as_str().unwrap_or("-");
                format!("{} {rule}{label}", v["action"].as_str().unwrap_or_default())
            })
            .collect()
    }
}

fn chat(id: &str, calls: Value, finish: Option<&str>) -> Value {
    json!({"id": id, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": finish}]})
}

fn piece(id: Option<&str>, name: Option<&str>, text: &str) -> Value {
    let mut call = json!({"index": 0, "function": {"arguments": text}});
    if let Some(id) = id {
        call["id"] = id.into();
    }
    if let Some(name) = name {
        call["function"]["name"] = name.into();
    }
    json!([call])
}

fn chat_request(tools: &[&str]) -> String {
    let tools: Vec<Value> = tools
        .iter()
        .map(|n| json!({"type": "function", "function": {"name": n, "parameters": {"type": "object"}}}))
        .collect();
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": tools}).to_string()
}

/// A first piece that is lost, and what makes the rest look whole: a client joins them.
#[test]
fn what_looks_whole_behind_a_loss_is_not() {
    let engine = engine(Profile::Standard);
    let head = chat("r0", piece(Some("c1"), Some("f"), "{\"cmd\":\"rm -rf /\",\"x\":"), None).to_string();
    let unread = [
        head.replacen("\"tool_calls\"", "\"toolCalls\":null,\"tool_calls\"", 1),
        head.replacen("\"index\":0", "\"index\":0.0", 1),
        head.replacen("\"finish_reason\":null", "\"finish_reason\":NaN", 1),
        head.replacen("\"object\"", "\"deep\":".to_owned().as_str(), 1),
        format!("{head}{}", " ".repeat(9 << 20)),
    ];
    let rest = |wire: &mut Wire<'_>| {
        wire.chunk(CHAT, &chat("r0", piece(Some("c1"), Some("f"), "{}"), None));
        wire.chunk(CHAT, &chat("r0", json!([]), Some("tool_calls")));
    };
    for text in &unread {
        let mut wire = Wire::new(&engine);
        wire.send(CHAT, "model.request", Some("r"), &chat_request(&["f"]));
        wire.send(CHAT, "model.chunk", Some("r"), text);
        rest(&mut wire);
        assert_eq!(wire.run(), [], "{}", &text[..text.len().min(300)]);
        assert!(wire.calls().iter().all(|call| call.starts_with("block")), "{:?}", wire.calls());
    }
    // A gap in the numbers, before anything of the response was seen.
    let mut wire = Wire::new(&engine);
    wire.numbered(CHAT, "model.request", Some("r"), &chat_request(&["f"]), Some("1"));
    wire.numbered(
        CHAT,
        "model.chunk",
        Some("r"),
        &chat("r0", piece(Some("c1"), Some("f"), "{}"), None).to_string(),
        Some("3"),
    );
    wire.chunk(CHAT, &chat("r0", json!([]), Some("tool_calls")));
    assert_eq!(wire.run(), []);
    // The next response is whole again.
    wire.send(CHAT, "model.request", Some("r2"), &chat_request(&["f"]));
    let next = chat("r1", piece(Some("c2"), Some("f"), "{}"), Some("tool_calls"));
    wire.send(CHAT, "model.chunk", Some("r2"), &next.to_string());
    assert_eq!(wire.run(), [(json!("f"), json!({}))]);
}

/// A response with an open call is forgotten for many others, and goes on.
#[test]
fn a_forgotten_response_does_not_begin_anew() {
    let engine = engine(Profile::Standard);
    let mut wire = Wire::new(&engine);
    wire.chunk(CHAT, &chat("r0", piece(Some("c1"), Some("f"), "{\"cmd\":\"rm\",\"x\":"), None));
    for n in 0..80 {
        let other = chat(&format!("o{n}"), piece(Some("c1"), Some("f"), "{"), None);
        wire.send(CHAT, "model.chunk", Some(&format!("h{n}")), &other.to_string());
    }
    wire.chunk(CHAT, &chat("r0", piece(Some("c1"), Some("f"), "{}"), Some("tool_calls")));
    assert_eq!(wire.run(), []);
}

/// Where the mark of a loss could get lost itself: behind an ending, under another id, before the response is known.
#[test]
fn a_loss_outlasts_endings_and_ids() {
    let engine = engine(Profile::Standard);
    let unread = chat("r0", piece(Some("c1"), Some("f"), "{\"cmd\":\"rm\",\"x\":"), None).to_string();
    let unread = unread.replace("\"finish_reason\":null", "\"finish_reason\":NaN");
    assert!(unread.contains("NaN"));
    let whole = |id: &str| chat(id, piece(Some("c1"), Some("f"), "{}"), Some("tool_calls"));
    // Another choice has ended; the next pieces come under another id.
    for id in ["r0", "r1"] {
        let mut wire = Wire::new(&engine);
        wire.send(CHAT, "model.request", Some("r"), &chat_request(&["f"]));
        wire.chunk(CHAT, &json!({"id": "r0", "object": "chat.completion.chunk", "choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": (id == "r0").then_some("stop")}]}));
        wire.send(CHAT, "model.chunk", Some("r"), &unread).chunk(CHAT, &whole(id));
        assert_eq!(wire.run(), [], "{id}");
    }
    // The numbers leave out what may have begun the response that this is the first sight of.
    let mut wire = Wire::new(&engine);
    wire.numbered(CHAT, "model.request", Some("r"), &chat_request(&["f"]), Some("1"));
    wire.numbered(CHAT, "model.chunk", Some("new"), &whole("r9").to_string(), Some("4"));
    assert_eq!(wire.run(), []);
}

/// Reads of a stream without the ends of its lines, and another record between two.
#[test]
fn a_record_between_two_reads_loses_what_was_begun() {
    let engine = engine(Profile::Standard);
    let head = format!("data: {}\n\n", chat("r0", piece(Some("c1"), Some("f"), "{\"cmd\":\"rm -rf /"), None));
    let middle = format!("data: {}\n\n", chat("r0", piece(None, None, " --dry-run"), None));
    let end = format!("data: {}\n\n", chat("r0", piece(None, None, "\"}"), Some("tool_calls")));
    let stream = |wire: &mut Wire<'_>, text: &str| {
        let headers: Vec<(&str, Option<&[u8]>)> = vec![
            ("content-type", Some(b"text/event-stream")),
            ("ce_specversion", Some(b"1.0")),
            ("ce_id", Some(b"e")),
            ("ce_source", Some(b"/s")),
            ("ce_type", Some(b"io.sluicegate.model.chunk.v1")),
            ("ce_provider", Some(b"openai.chat")),
            ("ce_responseid", Some(b"r")),
        ];
        let emissions = wire.partition.feed_record(Some(b"c"), &headers, Some(text.as_bytes()));
        wire.all.extend(emissions);
    };
    // A blank line without its end is a blank line, and no loss.
    let mut wire = Wire::new(&engine);
    for text in [head.trim_end(), "", middle.trim_end(), "", end.trim_end(), ""] {
        stream(&mut wire, text);
    }
    assert_eq!(wire.run(), [(json!("f"), json!({"cmd": "rm -rf / --dry-run"}))]);
    // A JSON record while an event is unfinished: what was begun is lost before the record is read.
    let mut wire = Wire::new(&engine);
    stream(&mut wire, &head[..head.len() - 40]);
    wire.chunk(CHAT, &chat("r0", piece(Some("c1"), Some("f"), "{}"), Some("tool_calls")));
    assert_eq!(wire.run(), []);
}

/// The same call again behind its end, with other arguments, by whatever shape.
#[test]
fn other_arguments_behind_the_end_take_the_verdict_back() {
    let engine = engine(Profile::Standard);
    let body = |text: &str| {
        let calls = json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}}]);
        json!({"id": "r0", "object": "chat.completion", "choices": [{"index": 0, "message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}).to_string()
    };
    let twice = |second: &str| {
        let mut wire = Wire::new(&engine);
        wire.send(CHAT, "model.response", Some("r"), &body("{\"a\":1}"));
        wire.send(CHAT, "model.response", Some("r"), &body(second));
        wire.calls()
    };
    assert_eq!(twice("{\"a\":1}"), ["allow -"]);
    assert_eq!(twice("{\"a\":2}"), ["allow -", "block text_behind_end"]);
    let leaf = |value: &str, more: Value| {
        let part =
            json!({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": value}], "willContinue": true}});
        let mut candidate = json!({"content": {"parts": [part]}, "index": 0});
        candidate.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        json!({"responseId": "g", "candidates": [candidate]})
    };
    let mut wire = Wire::new(&engine);
    let opener = json!({"functionCall": {"name": "f", "willContinue": true}});
    wire.chunk(GEMINI, &json!({"responseId": "g", "candidates": [{"content": {"parts": [opener]}}]}));
    wire.chunk(GEMINI, &leaf("x", json!({})));
    wire.chunk(GEMINI, &json!({"responseId": "g", "candidates": [{"content": {"parts": [{"functionCall": {}}]}, "finishReason": "STOP"}]}));
    wire.chunk(GEMINI, &leaf("y", json!({})));
    assert_eq!(wire.calls(), ["allow -", "block text_behind_end"]);
}

/// A record with too many values names its conversation all the same: what it was a part of is cut.
#[test]
fn a_record_that_is_not_parsed_cuts_its_conversation() {
    let engine = engine(Profile::Standard);
    let event = |data: Value| {
        json!({"data": data, "specversion": "1.0", "id": "e", "source": "/s", "type": "io.sluicegate.model.chunk.v1", "provider": CHAT,
            "conversation": "c", "responseid": "r"})
        .to_string()
    };
    let mut partition = Partition::new(&engine);
    let mut all = partition.feed(event(chat("r0", piece(Some("c1"), Some("f"), "{\"a\":1"), None)).as_bytes());
    let mut dense = chat("r0", piece(None, None, ",\"cmd\":\"rm\""), None);
    dense["pad"] = vec![1; 1_100_000].into();
    all.extend(partition.feed(event(dense).as_bytes()));
    all.extend(partition.feed(event(chat("r0", piece(None, None, "}"), Some("tool_calls"))).as_bytes()));
    let actions: Vec<Value> = verdicts(&all).into_iter().map(|v| v["action"].clone()).collect();
    assert!(!actions.is_empty() && actions.iter().all(|action| action == "block"), "{actions:?}");
}

/// Another response's id in the middle of one, under one id of the host's: a client that goes by places joins them.
#[test]
fn two_responses_in_one_are_none() {
    let engine = engine(Profile::Standard);
    let mut wire = Wire::new(&engine);
    wire.send(CHAT, "model.request", Some("r"), &chat_request(&["f"]));
    wire.chunk(CHAT, &chat("r0", piece(Some("c1"), Some("f"), "{\"x\":"), None));
    wire.chunk(CHAT, &chat("r1", piece(Some("c1"), Some("f"), "{}"), None));
    wire.chunk(CHAT, &chat("r1", json!([]), Some("tool_calls")));
    assert_eq!(wire.run(), []);
    // Once the first is over, the host tries again.
    let mut wire = Wire::new(&engine);
    wire.chunk(CHAT, &chat("r0", piece(Some("c1"), Some("f"), "{\"x\":"), None));
    wire.send(CHAT, "model.closed", Some("r"), "");
    wire.chunk(CHAT, &chat("r1", piece(Some("c1"), Some("f"), "{}"), Some("tool_calls")));
    assert_eq!(wire.run(), [(json!("f"), json!({}))]);
}

/// The model's side chooses a response's own id: one that was used before switches nothing off.
#[test]
fn an_id_that_comes_again_is_a_new_response() {
    let engine = engine(Profile::Standard);
    let whole = |id: &str, call: &str, text: &str, finish: &str| {
        let calls = json!([{"id": call, "type": "function", "function": {"name": "f", "arguments": text}}]);
        json!({"id": id, "object": "chat.completion", "choices": [{"index": 0, "message": {"tool_calls": calls}, "finish_reason": finish}]}).to_string()
    };
    for (first, tools, expected) in [
        ("tool_calls", &["f"][..], vec!["allow -", "allow -"]),
        // Its own request does not declare the tool any more.
        ("tool_calls", &["g"], vec!["allow -", "block unknown_tool"]),
        // How the first one ended is not how the second one does.
        ("length", &["f"], vec!["block cut_call(max_tokens)", "allow -"]),
    ] {
        let mut wire = Wire::new(&engine);
        wire.send(CHAT, "model.request", None, &chat_request(&["f"]));
        wire.send(CHAT, "model.response", None, &whole("same", "c1", "{\"a\":1}", first));
        wire.send(CHAT, "model.request", None, &chat_request(tools));
        wire.send(CHAT, "model.response", None, &whole("same", "c1", "{\"a\":2}", "tool_calls"));
        assert_eq!(wire.calls(), expected, "{first} {tools:?}");
    }
    let gemini = |name: &str| {
        json!({"responseId": "same", "candidates": [{"content": {"parts": [{"functionCall": {"name": name, "args": {}}}]}, "finishReason": "STOP"}]}).to_string()
    };
    let request = |name: &str| {
        json!({"contents": [], "tools": [{"functionDeclarations": [{"name": name, "parameters": {"type": "OBJECT"}}]}]})
            .to_string()
    };
    let mut wire = Wire::new(&engine);
    wire.send(GEMINI, "model.request", None, &request("f"));
    wire.send(GEMINI, "model.chunk", None, &gemini("f"));
    wire.send(GEMINI, "model.request", None, &request("g"));
    wire.send(GEMINI, "model.chunk", None, &gemini("f"));
    assert_eq!(wire.calls(), ["allow -", "block unknown_tool"]);
}

/// A fresh id with every piece: clients go by the place, so no call is made of what has none of its text.
#[test]
fn an_id_on_every_piece_makes_no_call_without_arguments() {
    let engine = engine(Profile::Standard);
    let mut wire = Wire::new(&engine);
    wire.chunk(CHAT, &chat("r0", piece(Some("t1"), Some("f"), ""), None));
    wire.chunk(CHAT, &chat("r0", piece(Some("t2"), None, "{\"a\":"), None));
    wire.chunk(CHAT, &chat("r0", piece(Some("t3"), None, "1}"), None));
    wire.chunk(CHAT, &chat("r0", json!([]), Some("tool_calls")));
    assert_eq!(wire.run(), []);
    assert!(
        !wire.calls().is_empty() && wire.calls().iter().all(|call| call.starts_with("block")),
        "{:?}",
        wire.calls()
    );
}

/// What a reader who ignores case takes for another member.
#[test]
fn a_member_in_another_case_is_not_passed_by() {
    let engine = engine(Profile::Standard);
    let whole = |part: Value, finish: Value| {
        let mut candidate = json!({"content": {"parts": [part]}, "finishReason": "STOP", "index": 0});
        candidate.as_object_mut().expect("an object").extend(finish.as_object().cloned().unwrap_or_default());
        json!({"responseId": "g", "candidates": [candidate]})
    };
    let call = |more: Value| {
        let mut call = json!({"name": "f", "args": {}});
        call.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        json!({"functionCall": call})
    };
    for chunk in [
        whole(call(json!({"Args": {"cmd": "rm"}})), json!({})),
        whole(call(json!({"PartialArgs": [{"jsonPath": "$.a", "numberValue": 1}]})), json!({})),
        whole(call(json!({"WillContinue": true})), json!({})),
        whole(call(json!({})), json!({"FinishReason": "SAFETY"})),
    ] {
        let mut wire = Wire::new(&engine);
        wire.chunk(GEMINI, &chunk).send(GEMINI, "model.closed", Some("r"), "");
        assert_eq!(wire.run(), [], "{chunk}");
        assert_eq!(wire.calls(), ["block undecodable"], "{chunk}");
    }
    let opener = json!({"functionCall": {"name": "f", "willContinue": true}});
    let leaf = json!({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x", "StringValue": "y"}]}});
    let mut wire = Wire::new(&engine);
    wire.chunk(GEMINI, &json!({"responseId": "g", "candidates": [{"content": {"parts": [opener]}}]}));
    wire.chunk(GEMINI, &whole(leaf, json!({})));
    assert_eq!(wire.run(), []);
    let long_s = chat("r0", piece(Some("c"), Some("f"), "{}"), Some("tool_calls")).to_string();
    let long_s = long_s.replacen("\"arguments\"", "\"argument\u{17F}\":\"{\\\"a\\\":1}\",\"arguments\"", 1);
    let mut wire = Wire::new(&engine);
    wire.send(CHAT, "model.chunk", Some("r"), &long_s);
    assert_eq!((wire.run(), wire.calls()), (vec![], vec!["block undecodable".to_owned()]));
}

/// A call in a chunk that cannot be read has no verdict of its own: the chunk has one, once a response.
#[test]
fn an_unreadable_chunk_is_answered() {
    let engine = engine(Profile::Standard);
    let mut wire = Wire::new(&engine);
    let call = chat("r0", json!([{"index": "0", "id": "c", "function": {"name": "f", "arguments": "{}"}}]), None);
    wire.chunk(CHAT, &call).chunk(CHAT, &call).chunk(CHAT, &chat("r0", json!([]), Some("tool_calls")));
    assert_eq!((wire.run(), wire.calls()), (vec![], vec!["block undecodable".to_owned()]));
    let item = json!({"type": "response.output_item.done", "output_index": "0", "item": {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": "{}"}});
    let mut wire = Wire::new(&engine);
    wire.chunk("openai.responses", &item);
    assert_eq!(wire.calls(), ["block undecodable"]);
}

/// Responses whose chunks bear their ids do not take one another's place.
#[test]
fn responses_side_by_side_are_told_by_their_ids() {
    let engine = engine(Profile::Standard);
    let mut wire = Wire::new(&engine);
    wire.send(CHAT, "model.request", None, &chat_request(&["f"]));
    for (id, text) in [("a", "{\"n\""), ("b", "{\"n\""), ("a", ":1}"), ("b", ":2}")] {
        let first = text.starts_with('{');
        let calls = piece(first.then_some(id), first.then_some("f"), text);
        wire.send(CHAT, "model.chunk", None, &chat(id, calls, None).to_string());
    }
    for id in ["a", "b"] {
        wire.send(CHAT, "model.chunk", None, &chat(id, json!([]), Some("tool_calls")).to_string());
    }
    assert_eq!(wire.run(), [(json!("f"), json!({"n": 1})), (json!("f"), json!({"n": 2}))]);
    let named: Vec<Value> = verdicts(&wire.all).into_iter().map(|v| v["response_id"].clone()).collect();
    assert_eq!(named, [Value::Null, "a".into(), "b".into()], "each verdict names its response");
}

/// What names the response and what ends its call in one record.
#[test]
fn a_verdict_names_the_response_that_its_record_begins() {
    let engine = engine(Profile::Standard);
    let message = json!({"id": "msg_9", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]});
    let gemini = json!({"responseId": "g9", "candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}]});
    for (provider, data, id) in [("anthropic.messages", message, "msg_9"), (GEMINI, gemini, "g9")] {
        let mut wire = Wire::new(&engine);
        wire.send(provider, "model.response", None, &data.to_string());
        assert_eq!(verdicts(&wire.all)[0]["response_id"], id, "{provider}");
    }
}

/// Work grows with what comes, not with what is open: counted in changes of state, since no test measures time.
#[test]
fn pieces_and_endings_cost_what_they_bring() {
    let engine = engine(Profile::Standard);
    let mut wire = Wire::new(&engine);
    let open: Vec<Value> = (0..120)
        .map(|n| json!({"index": n, "id": format!("c{n}"), "function": {"name": "f", "arguments": "{"}}))
        .collect();
    wire.chunk(CHAT, &chat("r0", json!(open), None));
    let pieces: Vec<Value> = (0..20_000).map(|_| json!({"function": {"arguments": "1"}})).collect();
    wire.chunk(CHAT, &chat("r0", json!(pieces), None));
    let choices: Vec<Value> = (1..50_000).map(|n| json!({"index": n, "delta": {}, "finish_reason": "stop"})).collect();
    wire.chunk(CHAT, &json!({"id": "r0", "object": "chat.completion.chunk", "choices": choices}));
    assert_eq!(wire.partition.state.stats().open_calls, 121);
    let closes = vec![json!({"functionCall": {}}); 20_000];
    let opened: Vec<Value> = (0..120).map(|_| json!({"functionCall": {"name": "f", "args": {}}})).collect();
    let mut wire = Wire::new(&engine);
    wire.chunk(GEMINI, &json!({"responseId": "g", "candidates": [{"index": 0, "content": {"parts": opened}}]}));
    wire.chunk(GEMINI, &json!({"responseId": "g", "candidates": [{"index": 1, "content": {"parts": closes}}]}));
    wire.chunk(GEMINI, &json!({"responseId": "g", "candidates": [{"index": 0, "finishReason": "STOP"}]}));
    assert_eq!(wire.run().len(), 120);
}

/// One that lists very much leaves room for the rest of its conversation.
#[test]
fn a_hostile_list_takes_no_room_from_others() {
    let engine = engine(Profile::Standard);
    let mut wire = Wire::new(&engine);
    let schema = json!({"type": "object", "description": "x".repeat(50_000)});
    let listed: Vec<Value> = (0..90).map(|n| json!({"name": format!("t{n}"), "inputSchema": schema})).collect();
    wire.send("mcp", "mcp.message", None, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string());
    wire.send("mcp", "mcp.message", None, &json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": listed}}).to_string());
    wire.send(CHAT, "model.request", Some("r"), &chat_request(&["f"]));
    wire.chunk(CHAT, &chat("r0", piece(Some("c"), Some("f"), "{\"a\":1}"), Some("tool_calls")));
    assert_eq!(wire.run(), [(json!("f"), json!({"a": 1}))]);
    // An agent that declares other tools with every request does not run out of room.
    let mut wire = Wire::new(&engine);
    for n in 0..60 {
        let response = format!("r{n}");
        let tool = json!({"name": "f", "parameters": {"type": "object", "description": format!("{n} {}", "x".repeat(55_000))}});
        let tools = vec![json!({"type": "function", "function": tool})];
        let request = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": tools});
        wire.send(CHAT, "model.request", Some(&response), &request.to_string());
        let whole = chat(&response, piece(Some("c"), Some("f"), "{}"), Some("tool_calls"));
        wire.send(CHAT, "model.chunk", Some(&response), &whole.to_string());
    }
    assert!(wire.calls().iter().all(|call| call == "allow -"), "{:?}", wire.calls());
}

/// What an MCP server lists is not what a model may call.
#[test]
fn a_server_declares_nothing_for_the_model() {
    let engine = engine(Profile::Standard);
    let responses = "openai.responses";
    for server in ["", "files"] {
        let mut wire = Wire::new(&engine);
        let request = |more: Value| {
            let mut body = json!({"model": "m", "input": "hi", "tools": [{"type": "function", "name": "ok", "parameters": {"type": "object"}}]});
            body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            body.to_string()
        };
        let answer = |id: &str, output: Value| {
            json!({"id": id, "object": "response", "status": "completed", "output": output}).to_string()
        };
        wire.send(responses, "model.request", Some("r1"), &request(json!({})));
        wire.send(responses, "model.response", Some("r1"), &answer("a", json!([])));
        for message in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "delete_all", "inputSchema": {"type": "object"}}]}}),
        ] {
            let event = json!({"specversion": "1.0", "id": "m", "source": "/s", "type": "io.sluicegate.mcp.message.v1", "provider": "mcp",
                "conversation": "c", "mcpserver": server, "data": message});
            wire.all.extend(wire.partition.feed(event.to_string().as_bytes()));
        }
        wire.send(responses, "model.request", Some("r2"), &request(json!({"previous_response_id": "a"})));
        let call = json!([{"type": "function_call", "id": "i", "call_id": "k", "name": "delete_all", "arguments": "{}", "status": "completed"}]);
        wire.send(responses, "model.response", Some("r2"), &answer("b", call));
        assert_eq!(wire.calls(), ["block unknown_tool"], "server {server:?}");
    }
}
