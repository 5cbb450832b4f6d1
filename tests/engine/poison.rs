//! Losses in an open response: whatever was lost, the call that it may have been a part of never becomes final.
//!
//! Every case is a stream in which one record between two deltas is not what it should be. Without that record
//! the call would still assemble, with other arguments than the model's.

use crate::support::{Partition, body, engine, header, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::{Emission, Engine, Limits, Outcome, To};

const CHUNK: &str = "io.sluicegate.model.chunk.v1";
const REQUEST: &str = "io.sluicegate.model.request.v1";
const RESPONSE: &str = "io.sluicegate.model.response.v1";
const RESULT: &str = "io.sluicegate.tool.result.v1";
const ANTHROPIC: &str = "anthropic.messages";
const OPENAI: &str = "openai.responses";
const KEY: &[u8] = b"c-1";

/// A record of the conversation `c-1`.
#[derive(Clone)]
struct Record {
    key: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
    value: Vec<u8>,
}

impl Record {
    fn new(kind: &str, provider: &str, value: impl Into<Vec<u8>>) -> Self {
        let pairs = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", "e-1"),
            ("ce_source", "/fleet/a"),
            ("ce_type", kind),
            ("ce_provider", provider),
        ];
        let headers = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        Self { key: Some(KEY.to_vec()), headers, value: value.into() }
    }
    fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }
    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }
    fn keyless(mut self) -> Self {
        self.key = None;
        self
    }
    /// The same, with nothing in the headers but this.
    fn bare(mut self, headers: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        self.headers = headers.iter().map(owned).collect();
        self
    }
    fn feed(&self, partition: &mut Partition<'_>) -> Vec<Emission> {
        let headers: Vec<(&str, Option<&[u8]>)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), Some(value.as_slice()))).collect();
        partition.feed_record(self.key.as_deref(), &headers, Some(&self.value))
    }
}

fn chunk(provider: &str, value: impl Into<Vec<u8>>) -> Record {
    Record::new(CHUNK, provider, value)
}

fn sse(text: &str) -> Record {
    chunk(ANTHROPIC, text).with("content-type", "text/event-stream")
}

/// A stream with one call: what stands before the lost record, and what behind it.
fn stream(provider: &str) -> (Vec<Value>, Vec<Value>) {
    let anthropic = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}});
    let openai = |text: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": text});
    let call = |arguments: &str, status: &str| json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments, "status": status});
    match provider {
        ANTHROPIC => (
            vec![
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": []}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t_1", "name": "f", "input": {}}}),
                anthropic("{\"a\":1"),
            ],
            vec![
                anthropic("}"),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ],
        ),
        _ => (
            vec![
                json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": call("", "in_progress")}),
                openai("{\"a\":1"),
            ],
            vec![
                openai("}"),
                json!({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_1", "arguments": "{\"a\":1}"}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": call("{\"a\":1}", "completed")}),
                json!({"type": "response.completed", "response": {"id": "resp_1", "object": "response", "status": "completed", "output": [call("{\"a\":1}", "completed")]}}),
            ],
        ),
    }
}

struct Ran {
    /// What the lost record itself gave.
    of_loss: Vec<Emission>,
    outcome: Outcome,
    all: Vec<Emission>,
}

fn run(engine: &Engine, provider: &str, responseid: Option<&str>, lost: &[Record]) -> Ran {
    let mut partition = Partition::new(engine);
    let mut all = Vec::new();
    let mut of_loss = Vec::new();
    let named = |record: Record| match responseid {
        Some(id) if !record.headers.iter().all(|(name, _)| name == "content-type") => record.with("ce_responseid", id),
        _ => record,
    };
    let mut feed = |value: &Value, partition: &mut Partition<'_>| {
        all.extend(named(chunk(provider, value.to_string())).feed(partition));
    };
    let (before, behind) = stream(provider);
    before.iter().for_each(|value| feed(value, &mut partition));
    let mut outcome = Outcome::Passed;
    for record in lost {
        of_loss.extend(named(record.clone()).feed(&mut partition));
        outcome = *partition.outcomes.last().expect("an outcome");
    }
    behind.iter().for_each(|value| feed(value, &mut partition));
    all.extend(of_loss.iter().cloned());
    Ran { of_loss, outcome, all }
}

/// The label with which the stream's call was cut; panics where it was let through or never answered.
fn cut_label(ran: &Ran, name: &str) -> String {
    let records = ran.all.iter().filter(|e| header(e, "ce_type") == Some("io.sluicegate.tool.call.v1")).count();
    assert_eq!(records, 0, "{name}: a call was published");
    let verdicts = verdicts(&ran.all);
    let calls: Vec<&Value> =
        verdicts.iter().filter(|v| v["checkpoint"] == "tool_call" && v["subject"]["call_id"].is_string()).collect();
    assert_eq!(calls.len(), 1, "{name}: {calls:?}");
    assert_eq!(calls[0]["action"], "block", "{name}");
    let findings = calls[0]["findings"].as_array().cloned().unwrap_or_default();
    let cut = findings.iter().find(|f| f["rule"] == "cut_call").unwrap_or_else(|| panic!("{name}: {findings:?}"));
    cut["evidence"]["label"].as_str().unwrap_or_default().to_owned()
}

fn strict_limits() -> Engine {
    let limits = Limits { record_bytes: 4096, json_depth: 16, ..Limits::default() };
    let settings = sluicegate::engine::Settings { limits, ..settings(Profile::Standard) };
    Engine::new(settings).unwrap_or_else(|problems| panic!("{problems:?}"))
}

#[test]
fn the_streams_are_good_without_a_loss() {
    let engine = engine(Profile::Standard);
    for provider in [ANTHROPIC, OPENAI] {
        let ran = run(&engine, provider, Some("r-1"), &[]);
        let verdicts = verdicts(&ran.all);
        assert_eq!(verdicts.len(), 1, "{verdicts:?}");
        let published = ran.all.iter().find(|e| e.to == To::Redacted).map(body).expect("a call");
        assert_eq!(published["arguments"], json!({"a": 1}));
    }
}

#[test]
fn a_rejected_record_cuts_the_open_calls_of_its_conversation() {
    let engine = strict_limits();
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#;
    let good = || chunk(ANTHROPIC, delta);
    let structured = |attributes: &str| {
        let value = format!(
            r#"{{"specversion":"1.0","id":"1","source":"/a","type":"{CHUNK}","provider":"{ANTHROPIC}",{attributes}"data":{delta}}}"#
        );
        chunk(ANTHROPIC, value).bare(&[("content-type", "application/cloudevents+json")])
    };
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let cases: Vec<(&str, Record, &str)> = vec![
        ("httpstatus", good().with("ce_httpstatus", "abc"), "bad_attribute"),
        ("sequence", good().with("ce_sequence", "-1"), "bad_attribute"),
        ("not utf-8", good().with("ce_agent", [0xff]), "bad_attribute"),
        ("too long", good().with("ce_agent", "a".repeat(2000)), "bad_attribute"),
        ("two values", good().with("CE_Agent", "x").with("ce_agent", "y"), "bad_attribute"),
        ("type with space", good().with("ce_type", format!("{CHUNK} ")), "bad_attribute"),
        ("type in capitals", good().with("ce_type", CHUNK.to_uppercase()), "bad_attribute"),
        ("no id", good().without("ce_id"), "missing_attribute"),
        ("no source", good().without("ce_source"), "missing_attribute"),
        ("no specversion", good().without("ce_specversion"), "missing_attribute"),
        ("specversion", good().with("ce_specversion", "0.3"), "unsupported_spec_version"),
        ("provider", good().with("ce_provider", "anthropic"), "unknown_provider"),
        ("content type", good().with("content-type", "application/octet-stream"), "unsupported_content_type"),
        ("charset", good().with("content-type", "application/json; charset=utf-16"), "unsupported_content_type"),
        ("avro", good().with("content-type", "application/cloudevents+avro"), "unsupported_content_type"),
        ("empty", chunk(ANTHROPIC, ""), "empty_value"),
        ("no provider to tell", chunk(ANTHROPIC, "{\"x\":1}").without("ce_provider"), "unknown_provider"),
        ("by header", good().with("ce_conversation", "c-1").with("ce_httpstatus", "abc").keyless(), "bad_attribute"),
        (
            "by header in capitals",
            good().with("CE_CONVERSATION", "c-1").with("ce_httpstatus", "x").keyless(),
            "bad_attribute",
        ),
        (
            "two conversations",
            good().with("CE_conversation", "c-2").with("ce_conversation", "c-1").keyless(),
            "bad_attribute",
        ),
        ("unreadable conversation", good().with("ce_conversation", [0xff]), "bad_attribute"),
        (
            "structured, cut",
            {
                let mut r = structured("");
                r.value.truncate(80);
                r
            },
            "invalid_json",
        ),
        ("structured attribute", structured("\"httpstatus\":\"abc\","), "bad_attribute"),
        (
            "structured attribute, no key",
            structured("\"conversation\":\"c-1\",\"httpstatus\":\"abc\",").keyless(),
            "bad_attribute",
        ),
        ("structured, too deep", structured(&format!("\"x\":{deep},")), "too_deep"),
        (
            "structured, too deep, no key",
            structured(&format!("\"conversation\":\"c-1\",\"x\":{deep},")).keyless(),
            "too_deep",
        ),
        (
            "structured base64",
            {
                let mut r = structured("\"data_base64\":\"*\",");
                r.value = String::from_utf8_lossy(&r.value).replace("\"data\":", "\"other\":").into_bytes();
                r
            },
            "invalid_base64",
        ),
        (
            "structured list",
            {
                let mut r = structured("");
                r.value = b"[]".to_vec();
                r
            },
            "not_an_event",
        ),
        ("bare", chunk(ANTHROPIC, "{\"type\":\"content_block_delta \"}").bare(&[]), "not_an_event"),
        ("bare, cut", chunk(ANTHROPIC, "{\"type\":").bare(&[]), "invalid_json"),
    ];
    for (name, record, reason) in cases {
        let ran = run(&engine, ANTHROPIC, None, std::slice::from_ref(&record));
        assert!(
            matches!(ran.outcome, Outcome::Rejected(reject) if reject.label() == reason),
            "{name}: {:?}",
            ran.outcome
        );
        assert_eq!(ran.of_loss[0].to, To::DeadLetters, "{name}");
        assert_eq!(cut_label(&ran, name), "undecodable", "{name}");
        let verdict = &verdicts(&ran.of_loss)[0];
        assert_eq!(verdict["verdict_id"], "local/check/0/1/tool_call/expired-0", "{name}: the opening record's id");
    }
    // Another conversation's loss is none of this one's.
    let other = good().with("ce_conversation", "c-2").with("ce_httpstatus", "abc");
    let ran = run(&engine, ANTHROPIC, None, &[other]);
    assert_eq!(verdicts(&ran.all).iter().filter(|v| v["action"] == "allow").count(), 1);
}

#[test]
fn an_oversize_record_cuts_what_it_may_have_been_a_part_of() {
    let engine = strict_limits();
    let text = "x".repeat(5000);
    let delta =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}});
    let event =
        json!({"specversion": "1.0", "id": "1", "source": "/a", "type": CHUNK, "provider": ANTHROPIC, "data": delta});
    let big = || chunk(ANTHROPIC, delta.to_string());
    let structured = || chunk(ANTHROPIC, event.to_string()).bare(&[("content-type", "application/cloudevents+json")]);
    let cases = [
        ("binary", big()),
        ("binary without provider", big().without("ce_provider")),
        ("binary, other provider", big().with("ce_provider", OPENAI)),
        ("binary response", Record::new(RESPONSE, ANTHROPIC, delta.to_string())),
        ("structured", structured()),
        ("bare", big().bare(&[])),
    ];
    for (name, record) in cases {
        for id in [None, Some("r-1")] {
            let ran = run(&engine, ANTHROPIC, id, std::slice::from_ref(&record));
            assert_eq!(ran.outcome, Outcome::Judged, "{name}");
            assert_eq!(cut_label(&ran, name), "limit", "{name} {id:?}");
            let said = verdicts(&ran.of_loss);
            let large = said.iter().filter(|v| v["findings"][0]["rule"] == "record_too_large").count();
            assert_eq!(large, 1, "{name}: {said:?}");
        }
    }
    let ran = run(&engine, ANTHROPIC, None, &[structured().keyless()]);
    assert!(matches!(ran.outcome, Outcome::Rejected(reject) if reject.label() == "no_conversation"));
}

#[test]
fn a_known_event_that_cannot_be_understood_cuts_its_response() {
    let engine = engine(Profile::Standard);
    let anthropic = [
        r#"{"type":"content_block_delta","index":"0","delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":0.0,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":-1,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":4294967296,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":null,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":{"b":2}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":null}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta ","partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"Input_JSON_delta","json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_patch","patch":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":["input_json_delta"],"partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"partial_json":",\"b\":2"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":",\"b\":2"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":null}"#,
        r#"{"type":"content_block_delta","index":0}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}"#,
        r#"{"type":"content_block_delta ","index":0}"#,
        r#"{"type":"Content_Block_Delta","index":0}"#,
        r#"{"type":"contentBlockDelta"}"#,
        r#"{"type":"content_block_delta\u0000"}"#,
        r#"{"type":"content_block_patch","index":0,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#,
        r#"{"type":7}"#,
        r#"{"type":null,"index":0}"#,
        r#"{"type":"content_block_start","index":"1","content_block":{"type":"tool_use","id":"t_2","name":"g","input":{}}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":[]}"#,
        r#"{"type":"content_block_start","index":1}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"Tool_use","id":"t_2","name":"g","input":{}}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"id":"t_2","name":"g","input":{}}}"#,
        r#"{"type":"content_block_stop","index":"0"}"#,
        r#"{"type":"message_start","message":"msg_1"}"#,
        r#"{"type":"message_delta","delta":["max_tokens"]}"#,
        r#"[{"type":"ping"},{"type":"content_block_delta","index":0}]"#,
        r"[7]",
        r"[null]",
        r#""content_block_delta""#,
    ];
    let openai = [
        r#"{"type":"response.function_call_arguments.delta","output_index":"0","delta":",\"b\":2"}"#,
        r#"{"type":"response.function_call_arguments.delta","delta":",\"b\":2"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":{"b":2}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0}"#,
        r#"{"type":"response.function_call_arguments.delta ","output_index":0,"delta":",\"b\":2"}"#,
        r#"{"type":"response.functionCallArguments.delta","output_index":0,"delta":",\"b\":2"}"#,
        r#"{"type":"response.tool_arguments.delta","output_index":0,"delta":",\"b\":2"}"#,
        r#"{"type":"response.mcp_call.arguments.delta","output_index":0,"delta":",\"b\":2"}"#,
        r#"{"type":"tool_arguments","output_index":0,"delta":",\"b\":2"}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"delta":7}"#,
        r#"{"type":"response.shell_call_command.delta","output_index":1,"command_index":"x","delta":"ls"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":{"a":1}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":"function_call"}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"Function_Call","call_id":"c2","name":"g"}}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":[]}"#,
        r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"}}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"call_id":"c2","name":"g","arguments":"{}"}}"#,
        r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":{"0":{}}}}"#,
        r#"{"type":"response.completed","response":{"id":"resp_1","status":["incomplete"]}}"#,
        r#"{"type":"response.completed","response":"resp_1"}"#,
        r#"{"type":"Response.Incomplete","response":{"id":"resp_1"}}"#,
        r#"{"type":"response.created","response":[]}"#,
    ];
    for (provider, cases) in [(ANTHROPIC, anthropic.as_slice()), (OPENAI, openai.as_slice())] {
        for case in cases {
            for id in [None, Some("r-1")] {
                let ran = run(&engine, provider, id, &[chunk(provider, *case)]);
                assert_eq!(cut_label(&ran, case), "undecodable", "{case}");
            }
        }
    }
    // A piece that lost the name of its response is a piece that its response lost.
    let piece =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#;
    let mut partition = Partition::new(&engine);
    let (before, behind) = stream(ANTHROPIC);
    let named = |value: &Value| chunk(ANTHROPIC, value.to_string()).with("ce_responseid", "r-1");
    let mut all: Vec<Emission> = before.iter().flat_map(|value| named(value).feed(&mut partition)).collect();
    let of_loss = chunk(ANTHROPIC, piece).feed(&mut partition);
    all.extend(of_loss.iter().cloned());
    all.extend(behind.iter().flat_map(|value| named(value).feed(&mut partition)));
    assert_eq!(cut_label(&Ran { of_loss, outcome: Outcome::Judged, all }, piece), "undecodable");
    // In the name of a provider that is not read at all, the response's id tells.
    let ran = run(&engine, ANTHROPIC, Some("r-1"), &[chunk("xai.chat", anthropic[9])]);
    assert_eq!(cut_label(&ran, "xai.chat"), "undecodable");
    // Under another provider's name the same delta is no event at all: the response it belongs to has lost it.
    let delta = anthropic[9];
    for id in [None, Some("r-1")] {
        let ran = run(&engine, ANTHROPIC, id, &[chunk(OPENAI, delta)]);
        assert_eq!(cut_label(&ran, delta), "undecodable");
    }
}

#[test]
fn what_is_only_unknown_costs_no_call() {
    let engine = engine(Profile::Standard);
    let cases = [
        (ANTHROPIC, r#"{"type":"ping"}"#),
        (ANTHROPIC, r#"{"type":"message_note","text":"x"}"#),
        (ANTHROPIC, r#"{"type":"message_delta","usage":{"output_tokens":1}}"#),
        (ANTHROPIC, r#"{"type":"content_block_start","index":1,"content_block":{"type":"hologram"}}"#),
        (ANTHROPIC, r#"{"type":"content_block_delta","index":1,"delta":{"type":"hologram_delta","pixels":"x"}}"#),
        (OPENAI, r#"{"type":"response.hologram.delta","output_index":1,"delta":"x"}"#),
        (OPENAI, r#"{"type":"response.hologram.started","output_index":1}"#),
        (OPENAI, r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"hologram"}}"#),
        (OPENAI, r#"{"type":"response.mcp_call.in_progress","output_index":1,"item_id":"m"}"#),
    ];
    for (provider, case) in cases {
        let ran = run(&engine, provider, Some("r-1"), &[chunk(provider, case)]);
        let verdicts = verdicts(&ran.all);
        assert_eq!((verdicts.len(), &verdicts[0]["action"]), (1, &json!("allow")), "{case}");
    }
}

#[test]
fn whole_bodies_that_cannot_be_understood_are_blocked() {
    let engine = engine(Profile::Standard);
    let cases = [
        (
            ANTHROPIC,
            r#"{"type":"message","id":"m","role":"assistant","stop_reason":"tool_use","content":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
        ),
        (
            ANTHROPIC,
            r#"{"type":"message","id":"m","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t","name":"f","input":{}},{"type":"Tool_Use","id":"u","name":"f","input":{}}]}"#,
        ),
        (
            ANTHROPIC,
            r#"{"type":"message","id":"m","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t","name":"f","input":{}},"x"]}"#,
        ),
        (OPENAI, r#"{"object":"response","id":"r","status":"completed","output":{"type":"function_call"}}"#),
        (
            OPENAI,
            r#"{"object":"response","id":"r","status":1,"output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}"#,
        ),
        (
            OPENAI,
            r#"{"object":"response","id":"r","status":"completed","output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call "}]}"#,
        ),
    ];
    for (provider, case) in cases {
        let mut partition = Partition::new(&engine);
        let all = Record::new(RESPONSE, provider, case).feed(&mut partition);
        let verdicts = verdicts(&all);
        assert_eq!(verdicts.len(), 1, "{case}: {verdicts:?}");
        assert_eq!(verdicts[0]["findings"][0]["rule"], "undecodable", "{case}");
        assert_eq!((&verdicts[0]["action"], all.len()), (&json!("block"), 1), "{case}");
    }
}

#[test]
fn a_raw_stream_that_is_cut_inside_a_line_loses_an_event() {
    let engine = engine(Profile::Standard);
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":",\"b\":2"}}"#;
    let whole = format!("event: content_block_delta\ndata: {delta}\n\n");
    // Every cut before the end of the data; behind it the event is whole.
    for at in 1..whole.len() - 2 {
        for end in ["\n", "\r", "\r\n"] {
            let text = whole.replace('\n', end);
            let Some(at) = (at < text.len() - 2 * end.len()).then_some(at) else { continue };
            let (one, two) = text.split_at(at);
            let ran = run(&engine, ANTHROPIC, None, &[sse(one), sse(two)]);
            let name = format!("{one:?} | {two:?}");
            // A cut in the name of the event leaves its data whole.
            let harmless = verdicts(&ran.all).iter().any(|v| v["action"] == "allow");
            if harmless {
                let published = ran.all.iter().find(|e| e.to == To::Redacted).map(body).expect("a call");
                assert_eq!(published["arguments"], json!({"a": 1, "b": 2}), "{name}");
            } else {
                assert_eq!(cut_label(&ran, &name), "undecodable", "{name}");
            }
        }
    }
    let cuts: &[&str] = &[
        "event: content_block_delta\ndata",
        "da",
        "ta: {\"type\":\"ping\"}\n\n",
        "data:",
        "data: ",
        "garbage\n\n",
        "event: ping\ndata: {\"type\":\"ping\"}\n\nda",
        "Data: {\"type\":\"content_block_delta\"}\n\ndata: {\"type\":\"ping\"}\n\n",
        " data: {\"type\":\"content_block_delta\"}\n\ndata: {\"type\":\"ping\"}\n\n",
        "<html>bad gateway</html>",
        "event: content_block_delta\ndata: {\"type\":\"ping\"}\n\n",
        "event: ping\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    ];
    for cut in cuts {
        let ran = run(&engine, ANTHROPIC, None, &[sse(cut)]);
        assert_eq!(cut_label(&ran, cut), "undecodable", "{cut:?}");
    }
    let whole: &[&str] = &[
        ": comment\n\n",
        ":",
        ": comment",
        "retry: 3000\n\n",
        "event: ping\rdata: {\"type\":\"ping\"}\r\r",
        "event: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\n",
        "event: ping\ndata: {\"type\":\"ping\"}",
        "data: {\"type\":\ndata: \"ping\"}\n\n",
        "data: [DONE]\n\n",
        "data: [DONE]",
        "data:\n\n",
        "event: message\ndata: {\"type\":\"ping\"}\n\n",
        "\u{feff}: hi\ndata: {\"type\":\"ping\"}\n\n",
        "\n\n",
    ];
    for text in whole {
        let ran = run(&engine, ANTHROPIC, None, &[sse(text)]);
        let verdicts = verdicts(&ran.all);
        assert_eq!((verdicts.len(), &verdicts[0]["action"]), (1, &json!("allow")), "{text:?}");
    }
}

#[test]
fn an_error_status_makes_nothing_final() {
    let engine = engine(Profile::Standard);
    let body = r#"{"type":"message","id":"m","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t_9","name":"f","input":{}}]}"#;
    let response = r#"{"object":"response","id":"r","status":"completed","output":[{"type":"function_call","call_id":"c_9","name":"f","arguments":"{}"}]}"#;
    for (provider, body) in [(ANTHROPIC, body), (OPENAI, response)] {
        for status in ["400", "500", "99999999"] {
            for kind in [CHUNK, RESPONSE] {
                let record = Record::new(kind, provider, body).with("ce_httpstatus", status);
                let ran = run(&engine, provider, Some("r-1"), std::slice::from_ref(&record));
                assert_eq!(cut_label(&ran, status), "failed");
                let mut partition = Partition::new(&engine);
                let all = record.feed(&mut partition);
                assert!(all.is_empty(), "{all:?}");
            }
        }
    }
}

#[test]
fn of_two_endings_the_worse_one_holds() {
    let engine = engine(Profile::Standard);
    for (reason, label) in [
        ("max_tokens", "max_tokens"),
        ("refusal", "refused"),
        ("end_turn", "ended_otherwise"),
        ("pause_turn", "paused"),
    ] {
        let said = json!({"type": "message_delta", "delta": {"stop_reason": reason}}).to_string();
        let ran = run(&engine, ANTHROPIC, Some("r-1"), &[chunk(ANTHROPIC, said)]);
        assert_eq!(cut_label(&ran, reason), label);
    }
    let same = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}).to_string();
    let ran = run(&engine, ANTHROPIC, Some("r-1"), &[chunk(ANTHROPIC, same)]);
    assert_eq!(verdicts(&ran.all)[0]["action"], "allow");
}

#[test]
fn nothing_in_a_history_is_passed_by_unsaid() {
    let engine = engine(Profile::Standard);
    let anthropic = |messages: Value| json!({"model": "claude", "max_tokens": 9, "messages": messages});
    let user = |content: Value| anthropic(json!([{"role": "user", "content": content}]));
    let openai = |input: Value| json!({"model": "gpt", "input": input});
    let text = "hidden ".repeat(10);
    // The body, and what is said: an item that is listed, or a result that has a verdict of its own.
    let cases: Vec<(&str, Value, &str)> = vec![
        (ANTHROPIC, user(json!({"type": "tool_result", "tool_use_id": "t", "content": text})), "message"),
        (ANTHROPIC, user(json!(7)), "message"),
        (ANTHROPIC, user(json!([text])), "block"),
        (ANTHROPIC, user(json!([{"type": "text", "text": {"a": text}}])), "block"),
        (ANTHROPIC, anthropic(json!({"role": "user", "content": text})), "message"),
        (ANTHROPIC, user(json!([{"type": "web_search_tool_result", "tool_use_id": "s", "content": text}])), "result"),
        (ANTHROPIC, user(json!([{"type": "x_tool_result", "content": text}])), "result"),
        (
            ANTHROPIC,
            anthropic(
                json!([{"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": "s", "content": text}]}]),
            ),
            "ran",
        ),
        (OPENAI, openai(json!({"type": "function_call_output", "call_id": "c", "output": text})), "item"),
        (
            OPENAI,
            openai(json!([{"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": text}])),
            "ran",
        ),
        (OPENAI, openai(json!([{"type": "program_output", "call_id": "c", "result": text}])), "ran"),
        (
            OPENAI,
            openai(
                json!([{"type": "code_interpreter_call", "id": "c", "code": "1", "outputs": [{"type": "logs", "logs": text}]}]),
            ),
            "ran",
        ),
        (
            OPENAI,
            openai(
                json!([{"type": "tool_search_output", "call_id": "c", "execution": "server", "tools": [], "text": text}]),
            ),
            "server_result",
        ),
        (OPENAI, openai(json!([{"type": "mcp_list_tools", "server_label": "s", "tools": [], "error": text}])), "ran"),
        (OPENAI, openai(json!([{"type": "file_search_call", "id": "f", "results": [{"text": text}]}])), "ran"),
        (
            OPENAI,
            openai(
                json!([{"role": "user", "content": [{"type": "function_call_output", "call_id": "c", "output": text}]}]),
            ),
            "part",
        ),
        (OPENAI, openai(json!([{"role": "user", "content": [{"type": "input_text", "text": {"a": text}}]}])), "part"),
        (
            OPENAI,
            openai(json!([{"role": "user", "content": {"type": "function_call_output", "output": text}}])),
            "message",
        ),
        (
            OPENAI,
            openai(
                json!([{"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}, "note": text}]}]),
            ),
            "result",
        ),
        (
            OPENAI,
            openai(
                json!([{"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0, "note": text}}]}]),
            ),
            "result",
        ),
    ];
    for (provider, body, said) in cases {
        let mut partition = Partition::new(&engine);
        let all = verdicts(&Record::new(REQUEST, provider, body.to_string()).feed(&mut partition));
        let request = all.iter().find(|v| v["checkpoint"] == "model_request").expect("a verdict");
        if said == "result" {
            let result = all.iter().find(|v| v["checkpoint"] == "tool_result");
            assert!(result.is_some(), "{body}: {all:?}");
            let listed = result.is_some_and(|r| r["complete"] == false);
            let shell = body.to_string().contains("shell_call_output");
            assert!(listed || !shell, "{body}: {all:?}");
        } else if said == "ran" {
            let result = all.iter().find(|v| v["checkpoint"] == "server_result");
            assert!(result.is_some_and(|r| r["content_bytes"].as_u64() >= Some(70)), "{body}: {all:?}");
            assert_eq!(request["complete"], true, "{body}");
        } else {
            assert_eq!(request["complete"], false, "{body}");
            let kinds: Vec<&str> =
                request["not_inspected"].as_array().into_iter().flatten().filter_map(|n| n["kind"].as_str()).collect();
            assert!(kinds.contains(&said), "{body}: {kinds:?}");
        }
    }
}

#[test]
fn a_copy_has_one_identity_however_the_input_spelt_its_own() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let event =
        json!({"call_id": "t", "tool": "read_file", "outcome": "ok", "content": "x".repeat(100_000)}).to_string();
    let record = Record::new(RESULT, ANTHROPIC, event)
        .without("ce_id")
        .with("CE_ID", "e-1")
        .with("Ce_SgVerdictId", "forged")
        .with("CE_SGACTION", "allow");
    let all = record.feed(&mut partition);
    let copy = all.iter().find(|e| e.to == To::Redacted).expect("a copy");
    for name in ["ce_id", "ce_sgaction", "ce_sgverdictid"] {
        let values: Vec<&[u8]> = copy
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
            .collect();
        assert_eq!(values.len(), 1, "{name}");
        assert!(values[0] != b"forged" && values[0] != b"e-1", "{name}");
    }
}
