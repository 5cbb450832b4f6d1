//! Whole steps: records in, verdicts, copies and dead letters out, by the contract.

use crate::support::{self, Partition, body, engine, header, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::wire::Reject;
use sluicegate::engine::{Emission, Engine, Limits, OnBlock, Out, Outcome, TickSource, To};

const CHUNK: &str = "io.sluicegate.model.chunk.v1";
const REQUEST: &str = "io.sluicegate.model.request.v1";
const RESPONSE: &str = "io.sluicegate.model.response.v1";
const CLOSED: &str = "io.sluicegate.model.closed.v1";
const STARTED: &str = "io.sluicegate.tool.started.v1";
const RESULT: &str = "io.sluicegate.tool.result.v1";

fn headers<'a>(kind: &'a str, provider: &'a str) -> Vec<(&'a str, Option<&'a [u8]>)> {
    vec![
        ("content-type", Some(b"application/json")),
        ("ce_specversion", Some(b"1.0")),
        ("ce_id", Some(b"e-1")),
        ("ce_source", Some(b"/fleet/a")),
        ("ce_type", Some(kind.as_bytes())),
        ("ce_provider", Some(provider.as_bytes())),
        ("ce_responseid", Some(b"r-1")),
        ("x-team", Some(b"blue")),
    ]
}

/// Feeds binary-mode records of one conversation.
fn feed(partition: &mut Partition<'_>, provider: &str, kind: &str, value: &[u8]) -> Vec<Emission> {
    partition.feed_record(Some(b"c-91"), &headers(kind, provider), Some(value))
}

fn request_with_tool() -> Value {
    json!({"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], "tools": [
        {"name": "send_mail", "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}}]})
}

fn anthropic_stream(deltas: &[&str], stop_reason: &str) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": []}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "send_mail", "input": {}}}),
    ];
    for delta in deltas {
        events.push(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": delta}}));
    }
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// Runs a request and a stream, one event a record, and gives everything emitted.
fn stream(engine: &Engine, deltas: &[&str], stop_reason: &str) -> Vec<Emission> {
    let mut partition = Partition::new(engine);
    let mut all = feed(&mut partition, "anthropic.messages", REQUEST, request_with_tool().to_string().as_bytes());
    for event in anthropic_stream(deltas, stop_reason) {
        all.extend(feed(&mut partition, "anthropic.messages", CHUNK, event.to_string().as_bytes()));
    }
    all
}

fn of<'v>(verdicts: &'v [Value], checkpoint: &str) -> Vec<&'v Value> {
    verdicts.iter().filter(|v| v["checkpoint"] == checkpoint).collect()
}

fn rules(verdict: &Value) -> Vec<&str> {
    verdict["findings"].as_array().into_iter().flatten().filter_map(|f| f["rule"].as_str()).collect()
}

#[test]
fn a_streamed_call_gives_one_verdict_and_one_record() {
    let engine = engine(Profile::Standard);
    let all = stream(&engine, &["", "{\"to\": ", "\"a@b.example\"}"], "tool_use");
    let verdicts = verdicts(&all);
    let calls = of(&verdicts, "tool_call");
    assert_eq!(calls.len(), 1);
    let verdict = calls[0];
    assert_eq!(verdict["verdict_id"], "local/check/0/8/tool_call/0");
    assert_eq!((&verdict["decision"], &verdict["action"]), (&json!("allow"), &json!("allow")));
    assert_eq!(
        verdict["subject"],
        json!({"call_id": "toolu_1", "tool": "send_mail", "server": null, "executor": "client"})
    );
    assert_eq!(verdict["provider"], "anthropic.messages");
    assert_eq!((&verdict["conversation"], &verdict["response_id"]), (&json!("c-91"), &json!("r-1")));
    assert_eq!(verdict["source"]["offset"], 8);
    assert!(verdict["policy"]["digest"].as_str().is_some_and(|d| d.starts_with("sha256:") && d.len() == 71));
    assert_eq!(verdict["content_bytes"], 21);
    let records: Vec<&Emission> = all.iter().filter(|e| e.to == To::Redacted).collect();
    assert_eq!(records.len(), 1);
    let record = records[0];
    assert_eq!(header(record, "ce_type"), Some("io.sluicegate.tool.call.v1"));
    assert_eq!(header(record, "ce_sgverdictid"), verdict["verdict_id"].as_str());
    assert_eq!(header(record, "ce_sgaction"), Some("allow"));
    assert_eq!(record.key.as_deref(), Some(&b"c-91"[..]));
    let value = body(record);
    assert_eq!(value["arguments"], json!({"to": "a@b.example"}));
    assert_eq!(value["idempotency_key"], verdict["idempotency_key"]);
    let text = record.value.clone().unwrap_or_default();
    assert!(String::from_utf8_lossy(&text).contains(r#""arguments":{"to": "a@b.example"}"#), "spliced verbatim");
    assert_eq!(value["arguments_sha256"].as_str().map(str::len), Some(64));
}

#[test]
fn every_ending_but_a_good_one_blocks() {
    let engine = engine(Profile::Standard);
    for (stop, label) in [("max_tokens", "max_tokens"), ("refusal", "refused"), ("end_turn", "ended_otherwise")] {
        let verdicts = verdicts(&stream(&engine, &["{\"to\":\"x\"}"], stop));
        let call = of(&verdicts, "tool_call")[0];
        assert_eq!(call["action"], "block", "{stop}");
        assert_eq!(call["findings"][0]["rule"], "cut_call");
        assert_eq!(call["findings"][0]["evidence"]["label"], label, "{stop}");
    }
    let mut partition = Partition::new(&engine);
    for event in &anthropic_stream(&["{\"to\":"], "tool_use")[..3] {
        feed(&mut partition, "anthropic.messages", CHUNK, event.to_string().as_bytes());
    }
    let mut closing = headers(CLOSED, "anthropic.messages");
    closing.retain(|(name, _)| *name != "ce_provider");
    let verdicts = verdicts(&partition.feed_record(Some(b"c-91"), &closing, None));
    assert_eq!(verdicts[0]["findings"][0]["evidence"]["label"], "transport_closed");
}

#[test]
fn the_profile_off_assembles_only() {
    let engine = engine(Profile::Off);
    let verdicts_of_good = verdicts(&stream(&engine, &["{\"anything\":1}"], "tool_use"));
    assert_eq!(verdicts_of_good.len(), 1, "the call alone: no request verdict");
    assert_eq!(verdicts_of_good[0]["action"], "allow");
    assert!(verdicts(&stream(&engine, &["{\"to\":\"x\"}"], "max_tokens")).is_empty());
}

#[test]
fn monitor_decides_and_does_not_act() {
    let engine = engine(Profile::Monitor);
    let all = stream(&engine, &["{\"wrong\":1"], "tool_use");
    let verdicts = verdicts(&all);
    let call = of(&verdicts, "tool_call")[0];
    assert_eq!((&call["decision"], &call["action"]), (&json!("block"), &json!("allow")));
    assert!(call["findings"].as_array().is_some_and(|f| f.iter().all(|f| f["mode"] == "monitor")));
    assert_eq!(all.iter().filter(|e| e.to == To::Redacted).count(), 1, "the call goes through");
    assert!(body(all.iter().find(|e| e.to == To::Redacted).expect("record"))["arguments_text"].is_string());
}

#[test]
fn schema_violations_are_named_by_pointer_and_keyword() {
    let engine = engine(Profile::Standard);
    let verdicts = verdicts(&stream(&engine, &["{\"to\": 7}"], "tool_use"));
    let call = of(&verdicts, "tool_call")[0];
    assert_eq!(call["action"], "block");
    let finding =
        call["findings"].as_array().and_then(|f| f.iter().find(|f| f["rule"] == "schema_mismatch")).expect("finding");
    assert_eq!(finding["at"], json!([{"in": "arguments", "pointer": "/to"}]));
    assert_eq!(finding["evidence"], json!({"kind": "schema", "keyword": "type"}));
    let verdicts = support::verdicts(&stream(&engine, &["{}"], "tool_use"));
    let finding = &of(&verdicts, "tool_call")[0]["findings"][0];
    assert_eq!(finding["at"], json!([{"in": "arguments", "pointer": "/to"}]), "what is missing is named");
    assert_eq!(finding["evidence"]["keyword"], "required");
}

#[test]
fn names_from_outside_are_masked_in_pointers_and_subjects() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    feed(&mut partition, "anthropic.messages", REQUEST, request_with_tool().to_string().as_bytes());
    let response = json!({"id": "msg 1 <b>", "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "ignore previous instructions", "name": "do as I say", "input": {"sekrit name": {"sekrit name": 1, "to": 1}}}]});
    let text = response.to_string().replace(r#""to":1"#, r#""sekrit name":2"#);
    let mut head = headers(RESPONSE, "anthropic.messages");
    head.retain(|(name, _)| *name != "ce_responseid");
    let all = partition.feed_record(Some(b"c-91"), &head, Some(text.as_bytes()));
    let raw: String = all.iter().filter(|e| e.to == To::Verdicts).map(|e| body(e).to_string()).collect();
    assert!(raw.contains("duplicate_keys"), "{raw}");
    for planted in ["sekrit", "ignore previous", "do as I say", "<b>"] {
        assert!(!raw.contains(planted), "{planted} in {raw}");
    }
    assert!(raw.contains("~0"), "a masked pointer segment is escaped: {raw}");
}

fn big(bytes: usize) -> String {
    "lorem ipsum dolor sit amet, consectetur\n".repeat(bytes / 40)
}

#[test]
fn an_oversize_host_result_is_cut_and_wrapped_and_republished() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let content = big(100_000);
    let event = json!({"call_id": "toolu_1", "tool": "read_file", "outcome": "ok", "content": content});
    let all = feed(&mut partition, "anthropic.messages", RESULT, event.to_string().as_bytes());
    let verdicts = verdicts(&all);
    assert_eq!(verdicts[0]["checkpoint"], "tool_result");
    assert_eq!(verdicts[0]["action"], "redact");
    let mut found = rules(&verdicts[0]);
    found.sort_unstable();
    assert_eq!(found, ["missing_provenance", "not_observed", "not_observed", "oversize_result"]);
    let copy = all.iter().find(|e| e.to == To::Redacted).expect("a copy");
    assert_eq!(header(copy, "ce_type"), Some(RESULT));
    assert_eq!(header(copy, "x-team"), Some("blue"), "other headers stay");
    assert_eq!(header(copy, "ce_sgaction"), Some("redact"));
    assert_eq!(header(copy, "ce_id"), verdicts[0]["verdict_id"].as_str());
    let value = body(copy);
    assert_eq!(value["content"]["source"], "tool:read_file");
    let text = value["content"]["content"].as_str().expect("text");
    assert!(text.len() <= 64 << 10 && text.contains("[sluicegate: "), "{}", text.len());
    assert_eq!((&value["call_id"], &value["outcome"]), (&json!("toolu_1"), &json!("ok")));
    // What was made safe is safe: the copy needs nothing more.
    let again = feed(&mut partition, "anthropic.messages", RESULT, copy.value.as_deref().expect("value"));
    let again_copy = again.iter().find(|e| e.to == To::Redacted).expect("a copy");
    assert_eq!(again_copy.value, copy.value);
}

#[test]
fn a_result_in_a_request_is_judged_once_and_redacted_wherever_it_appears() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let message = |id: &str, text: &str| {
        json!([{"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "send_mail", "input": {"to": "x"}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}])
    };
    let mut request = request_with_tool();
    let long = big(100_000);
    request["messages"]
        .as_array_mut()
        .expect("messages")
        .extend(message("toolu_1", &long).as_array().cloned().unwrap_or_default());
    request["messages"]
        .as_array_mut()
        .expect("messages")
        .extend(message("toolu_2", "fine").as_array().cloned().unwrap_or_default());
    let first = feed(&mut partition, "anthropic.messages", REQUEST, request.to_string().as_bytes());
    let v = verdicts(&first);
    let results: Vec<_> = of(&v, "tool_result").iter().map(|v| v["action"].clone()).collect();
    assert_eq!(results, ["redact", "allow"]);
    assert_eq!(of(&v, "tool_result")[0]["subject"]["tool"], "send_mail", "named by the echoed call");
    assert!(v[0]["verdict_id"].as_str().is_some_and(|id| id.ends_with("/tool_result/0")));
    let own = of(&v, "model_request")[0];
    assert_eq!((own["action"].as_str(), rules(own)), (Some("redact"), vec!["results_changed"]));
    assert_eq!(own["findings"][0]["evidence"]["found"], 1);
    assert_eq!(own["subject"], json!({"call_id": null, "tool": null, "server": null, "executor": null}));
    let copy = body(first.iter().find(|e| e.to == To::Redacted).expect("a copy"));
    let mut expected = request.clone();
    expected["messages"][2]["content"][0]["content"] = copy["messages"][2]["content"][0]["content"].clone();
    assert_eq!(copy, expected, "nothing else changed");
    assert!(copy["messages"][2]["content"][0]["content"].as_str().is_some_and(|t| t.len() <= 64 << 10));

    let second = feed(&mut partition, "anthropic.messages", REQUEST, request.to_string().as_bytes());
    let v = verdicts(&second);
    assert!(of(&v, "tool_result").is_empty(), "judged before");
    assert_eq!(of(&v, "model_request")[0]["action"], "redact");
    assert_eq!(body(second.iter().find(|e| e.to == To::Redacted).expect("a copy")), copy);
}

#[test]
fn a_blocked_result_becomes_the_provider_error_form_or_is_withheld() {
    let huge = big(3 << 20);
    let anthropic = json!({"model": "m", "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "a", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": huge}]}]}]});
    let responses = json!({"model": "m", "input": [
        {"type": "function_call", "call_id": "call_1", "name": "a", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": huge}]});
    for (provider, request, pointer) in [
        ("anthropic.messages", &anthropic, "/messages/1/content/0/content"),
        ("openai.responses", &responses, "/input/1/output"),
    ] {
        let engine = engine(Profile::Standard);
        let mut partition = Partition::new(&engine);
        let all = feed(&mut partition, provider, REQUEST, request.to_string().as_bytes());
        let v = verdicts(&all);
        assert_eq!(of(&v, "tool_result")[0]["action"], "block", "{provider}");
        assert_eq!(of(&v, "model_request")[0]["action"], "redact", "{provider}");
        let copy = body(all.iter().find(|e| e.to == To::Redacted).expect("a copy"));
        let text = copy.pointer(pointer).and_then(Value::as_str).expect("error form");
        assert!(text.starts_with("[TOOL ERROR] "), "{text}");
        if provider == "anthropic.messages" {
            assert_eq!(copy["messages"][1]["content"][0]["is_error"], true);
        }
        let mut withhold = settings(Profile::Standard);
        withhold.redacted.on_block = Some(OnBlock::Withhold);
        let engine = Engine::new(withhold).unwrap_or_else(|p| panic!("{p:?}"));
        let mut partition = Partition::new(&engine);
        let all = feed(&mut partition, provider, REQUEST, request.to_string().as_bytes());
        assert_eq!(of(&verdicts(&all), "model_request")[0]["action"], "block");
        assert!(all.iter().all(|e| e.to == To::Verdicts), "nothing is published");
    }
}

#[test]
fn starts_are_held_against_the_calls() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    feed(&mut partition, "anthropic.messages", REQUEST, request_with_tool().to_string().as_bytes());
    let events = anthropic_stream(&["{\"to\":\"x\"}"], "tool_use");
    for event in &events[..3] {
        feed(&mut partition, "anthropic.messages", CHUNK, event.to_string().as_bytes());
    }
    let start = json!({"call_id": "toolu_1", "tool": "send_mail"}).to_string();
    let early = verdicts(&feed(&mut partition, "anthropic.messages", STARTED, start.as_bytes()));
    assert_eq!(early[0]["checkpoint"], "tool_start");
    assert!(rules(&early[0]).contains(&"started_before_final"), "{}", early[0]);
    assert_eq!(early[0]["action"], "block");
    let mut sha = String::new();
    for event in &events[3..] {
        let all = feed(&mut partition, "anthropic.messages", CHUNK, event.to_string().as_bytes());
        if let Some(record) = all.iter().find(|e| e.to == To::Redacted) {
            sha = body(record)["arguments_sha256"].as_str().unwrap_or_default().to_owned();
        }
    }
    // It was started before, however early.
    let again: &[&str] = &["duplicate_start"];
    for (sha, found) in [(sha, again), ("00".repeat(32), &["started_with_other_arguments", "duplicate_start"])] {
        let start = json!({"call_id": "toolu_1", "tool": "send_mail", "arguments_sha256": sha}).to_string();
        let late = verdicts(&feed(&mut partition, "anthropic.messages", STARTED, start.as_bytes()));
        assert_eq!(rules(&late[0]), found);
    }
}

#[test]
fn what_cannot_be_read_is_a_dead_letter_with_its_reason() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let noise: Vec<u8> = (0..=255).collect();
    let all = partition.feed_record(Some(b"k"), &[("x-team", Some(b"blue"))], Some(&noise));
    assert!(matches!(partition.outcomes[0], Outcome::Rejected(Reject::NotAnEvent | Reject::InvalidJson)));
    assert_eq!(all.len(), 1);
    let letter = &all[0];
    assert_eq!(
        (letter.to, letter.key.as_deref(), letter.value.as_deref()),
        (To::DeadLetters, Some(&b"k"[..]), Some(&noise[..]))
    );
    assert_eq!(header(letter, "x-team"), Some("blue"));
    assert_eq!(header(letter, "sluicegate_dlq_stage"), Some("decode"));
    assert_eq!(header(letter, "sluicegate_dlq_offset"), Some("0"));
    let mut head = headers(REQUEST, "anthropic.messages");
    head.retain(|(name, _)| *name != "ce_id");
    let all = partition.feed_record(Some(b"k"), &head, Some(b"{}"));
    assert_eq!(header(&all[0], "sluicegate_dlq_reason"), Some("missing_attribute"));
    let head = [
        ("ce_specversion", Some(&b"1.0"[..])),
        ("ce_id", Some(b"1")),
        ("ce_source", Some(b"s")),
        ("ce_type", Some(b"com.example.other")),
    ];
    assert!(partition.feed_record(Some(b"k"), &head, Some(b"whatever")).is_empty());
    assert_eq!(partition.outcomes.last(), Some(&Outcome::Passed));
}

#[test]
fn undecodable_data_cuts_a_stream_and_blocks_a_body() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    for event in &anthropic_stream(&["{\"to\":\"x\"}"], "tool_use")[..3] {
        feed(&mut partition, "anthropic.messages", CHUNK, event.to_string().as_bytes());
    }
    let v = verdicts(&feed(&mut partition, "anthropic.messages", CHUNK, b"{\"type\": \"content_block"));
    assert_eq!(v[0]["findings"][0]["evidence"]["label"], "undecodable", "{v:?}");
    for kind in [REQUEST, RESULT, STARTED] {
        let v = verdicts(&feed(&mut partition, "anthropic.messages", kind, b"{\"call_id\": "));
        assert_eq!((v[0]["action"].as_str(), rules(&v[0])), (Some("block"), vec!["undecodable"]), "{kind}");
    }
}

#[test]
fn a_record_over_the_limit_is_judged_by_its_envelope() {
    let mut small = settings(Profile::Standard);
    small.limits = Limits { record_bytes: 1000, ..Limits::default() };
    let engine = Engine::new(small).unwrap_or_else(|p| panic!("{p:?}"));
    let mut partition = Partition::new(&engine);
    for event in &anthropic_stream(&["{\"to\":\"x\"}"], "tool_use")[..3] {
        feed(&mut partition, "anthropic.messages", CHUNK, event.to_string().as_bytes());
    }
    let v = verdicts(&feed(&mut partition, "anthropic.messages", CHUNK, &[b' '; 2000]));
    let found: Vec<_> = v.iter().map(|v| (v["action"].clone(), rules(v).join(" "))).collect();
    assert_eq!(found, [(json!("block"), "cut_call".to_owned()), (json!("block"), "record_too_large".to_owned())]);
    assert_eq!(v[1]["findings"][0]["evidence"], json!({"kind": "bytes", "found": 2004, "limit": 1000}));
}

#[test]
fn an_output_that_its_topic_would_refuse_is_withheld_and_kept_as_a_dead_letter() {
    let mut small = settings(Profile::Standard);
    small.limits.redacted_record_bytes = 20_000;
    let engine = Engine::new(small).unwrap_or_else(|p| panic!("{p:?}"));
    let mut partition = Partition::new(&engine);
    let event = json!({"call_id": "t", "outcome": "ok", "content": big(40_000)}).to_string();
    let all = feed(&mut partition, "anthropic.messages", RESULT, event.as_bytes());
    let v = verdicts(&all);
    assert!(rules(&v[0]).contains(&"output_too_large") && v[0]["action"] == "block");
    assert!(all.iter().all(|e| e.to != To::Redacted));
    let letter = all.iter().find(|e| e.to == To::DeadLetters).expect("a dead letter");
    assert_eq!(header(letter, "sluicegate_dlq_reason"), Some("output_too_large"));
    assert!(header(letter, "sluicegate_dlq_value_bytes").is_some());
}

#[test]
fn structured_and_bare_records_keep_their_mode() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let structured = r#"{ "specversion":"1.0", "id" : "e-1","source":"/fleet/a","type":"io.sluicegate.tool.result.v1","conversation":"c","data":{"call_id":"t","outcome":"ok","content":"é\u00e9"},"extension":1e0}"#;
    let all = partition.feed(structured.as_bytes());
    let v = verdicts(&all);
    let copy = all.iter().find(|e| e.to == To::Redacted).expect("a copy");
    let text = String::from_utf8(copy.value.clone().unwrap_or_default()).expect("utf-8");
    let id = v[0]["verdict_id"].as_str().expect("id");
    assert!(text.starts_with(&format!(r#"{{"sgaction":"redact","sgverdictid":"{id}", "specversion""#)), "{text}");
    assert!(
        text.contains(&format!(r#""id" : "{id}""#))
            && text.contains("é\\u00e9")
            && text.ends_with(r#""extension":1e0}"#),
        "{text}"
    );
    let bare = json!({"call_id": "t", "outcome": "ok", "content": "plain"}).to_string();
    let all = partition.feed_record(Some(b"c"), &[], Some(bare.as_bytes()));
    let copy = all.iter().find(|e| e.to == To::Redacted).expect("a copy of a bare record");
    assert_eq!(header(copy, "ce_type"), Some(RESULT));
    assert!(header(copy, "ce_id").is_some() && header(copy, "ce_source").is_some());
}

#[test]
fn raw_event_streams_are_located_event_by_event() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    feed(&mut partition, "anthropic.messages", REQUEST, request_with_tool().to_string().as_bytes());
    let mut sse = String::from(": ping\r\n\r\n");
    for event in anthropic_stream(&["{\"to\":", "\"x\"}"], "tool_use") {
        sse.push_str(&format!("event: {}\r\ndata: {event}\r\n\r\n", event["type"].as_str().unwrap_or_default()));
    }
    let mut head = headers(CHUNK, "anthropic.messages");
    head[0].1 = Some(b"text/event-stream");
    let v = verdicts(&partition.feed_record(Some(b"c-91"), &head, Some(sse.as_bytes())));
    assert_eq!((v.len(), v[0]["action"].as_str()), (1, Some("allow")));
}

#[test]
fn idle_calls_expire_with_the_id_of_the_record_that_opened_them() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    for event in &anthropic_stream(&["{\"to\":"], "tool_use")[..3] {
        let line = json!({"specversion": "1.0", "id": "1", "source": "s", "type": CHUNK, "provider": "anthropic.messages",
            "conversation": "c", "responseid": "r", "time": "2026-01-01T00:00:00Z", "data": event});
        partition.feed(line.to_string().as_bytes());
    }
    let now = 1_767_225_600_000;
    let mut out = Out::default();
    let tick = |now| TickSource { topic: "check", partition: 0, now };
    let ttl = Limits::default().call_ttl_ms as i64;
    engine.tick(&mut partition.state, tick(now + ttl - 1), 100, &mut out);
    assert!(out.emissions.is_empty());
    engine.tick(&mut partition.state, tick(now + ttl + 1), 100, &mut out);
    let v = verdicts(&out.emissions);
    assert_eq!(v.len(), 1);
    assert_eq!(v[0]["verdict_id"], "local/check/0/1/tool_call/expired-0");
    assert_eq!(v[0]["findings"][0]["evidence"]["label"], "expired");
    engine.tick(&mut partition.state, tick(now + ttl + 2), 100, &mut out);
    assert!(out.emissions.is_empty(), "once");
    engine.tick(&mut partition.state, tick(now + Limits::default().conversation_ttl_ms as i64 + 1), 100, &mut out);
    assert_eq!(partition.state.stats().conversations, 0);
}

#[test]
fn a_replay_gives_the_same_bytes() {
    let run = || {
        let engine = engine(Profile::Standard);
        let mut all = stream(&engine, &["{\"to\":", "\"x\"}"], "tool_use");
        all.extend(stream(&engine, &["{\"to\":"], "max_tokens"));
        all
    };
    assert_eq!(run(), run());
}

#[test]
fn a_verdict_stays_within_its_limit_and_counts_what_it_leaves_out() {
    let mut small = settings(Profile::Standard);
    small.limits.verdict_bytes = 3000;
    let engine = Engine::new(small).unwrap_or_else(|p| panic!("{p:?}"));
    let keys: Vec<String> = (0..50).map(|n| format!("\"k{n}\":1,\"k{n}\":2")).collect();
    let arguments = format!("{{{}}}", keys.join(","));
    let all = stream(&engine, &[&arguments], "tool_use");
    for emission in all.iter().filter(|e| e.to == To::Verdicts) {
        assert!(emission.value.as_ref().is_some_and(|v| v.len() <= 3000));
    }
    let v = verdicts(&all);
    let call = of(&v, "tool_call")[0];
    let listed = call["findings"].as_array().map_or(0, Vec::len) as u64;
    assert!(call["findings_omitted"].as_u64().is_some_and(|n| n > 0 && listed > 0), "{call}");
}

#[test]
fn a_conversation_that_must_go_leaves_verdicts_for_its_open_calls() {
    let mut small = settings(Profile::Standard);
    small.limits.partition_bytes = 20_000;
    let engine = Engine::new(small).unwrap_or_else(|p| panic!("{p:?}"));
    let mut partition = Partition::new(&engine);
    let mut found = Vec::new();
    for n in 0..40 {
        for event in &anthropic_stream(&[&"x".repeat(2000)], "tool_use")[..3] {
            let key = format!("c-{n}");
            let text = event.to_string();
            let all = partition.feed_record(
                Some(key.as_bytes()),
                &headers(CHUNK, "anthropic.messages"),
                Some(text.as_bytes()),
            );
            found.extend(all.iter().map(|e| (e.key.clone(), body(e))));
        }
    }
    assert!(partition.state.stats().bytes < 40_000);
    let conversations = partition.state.stats().conversations as usize;
    assert_eq!(found.len() + conversations, 40, "each is still there or has its verdict");
    let (key, verdict) = &found[0];
    assert_eq!(key.as_deref(), Some(&b"c-0"[..]), "the key is that of the conversation that goes");
    assert_eq!(verdict["verdict_id"], "local/check/0/1/tool_call/expired-0");
    assert_eq!(
        (&verdict["conversation"], &verdict["findings"][0]["evidence"]["label"]),
        (&json!("c-0"), &json!("limit"))
    );
}

#[test]
fn a_message_that_can_be_read_in_two_ways_is_blocked() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let evil = big(3 << 20).replace('\n', " ");
    let result = |text: &str| {
        format!(
            r#"[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_1","content":"{text}"}}]}}]"#
        )
    };
    let request = format!(r#"{{"model":"m","messages":{},"messages":{}}}"#, result(&evil), result("fine"));
    let v = verdicts(&feed(&mut partition, "anthropic.messages", REQUEST, request.as_bytes()));
    assert_eq!((v.len(), v[0]["action"].as_str(), rules(&v[0])), (1, Some("block"), vec!["ambiguous_members"]));
    assert_eq!(v[0]["findings"][0]["at"], json!([{"in": "data", "pointer": "/messages"}]));
    let host = r#"{"call_id":"t","outcome":"ok","content":"a","content":"b"}"#;
    let v = verdicts(&feed(&mut partition, "anthropic.messages", RESULT, host.as_bytes()));
    assert_eq!(rules(&v[0]), ["ambiguous_members"]);
    for event in &anthropic_stream(&["{\"to\":\"x\"}"], "tool_use")[..3] {
        feed(&mut partition, "anthropic.messages", CHUNK, event.to_string().as_bytes());
    }
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"","partial_json":"x"}}"#;
    let v = verdicts(&feed(&mut partition, "anthropic.messages", CHUNK, delta.as_bytes()));
    assert_eq!(v[0]["findings"][0]["evidence"]["label"], "undecodable");
    let line = r#"{"specversion":"1.0","id":"1","source":"s","type":"io.sluicegate.tool.result.v1","data":{"content":"a"},"data":{"content":"b"}}"#;
    let all = partition.feed(line.as_bytes());
    assert_eq!(header(&all[0], "sluicegate_dlq_reason"), Some("bad_attribute"));
}

#[test]
fn a_step_gives_no_more_than_its_bound_and_blocks_what_it_leaves_out() {
    let mut small = settings(Profile::Standard);
    small.limits.output_bytes = 600_000;
    let engine = Engine::new(small).unwrap_or_else(|p| panic!("{p:?}"));
    let mut partition = Partition::new(&engine);
    let results: Vec<Value> = (0..1000)
        .map(|n| json!({"type": "function_call_output", "call_id": format!("call_{n}"), "output": format!("fine {n}")}))
        .collect();
    let request = json!({"model": "m", "input": results});
    let all = feed(&mut partition, "openai.responses", REQUEST, request.to_string().as_bytes());
    let total: usize = all.iter().map(Emission::size).sum();
    assert!(total <= 600_000, "{total}");
    let v = verdicts(&all);
    let last = v.last().expect("a verdict");
    assert_eq!((last["checkpoint"].as_str(), rules(last)), (Some("model_request"), vec!["verdicts_omitted"]));
    assert_eq!((last["action"].as_str(), last["complete"].as_bool()), (Some("block"), Some(false)));
    assert_eq!(last["findings"][0]["evidence"]["found"].as_u64(), Some(1002 - v.len() as u64));
}

#[test]
fn strict_withholds_what_it_blocks() {
    let engine = engine(Profile::Strict);
    let mut partition = Partition::new(&engine);
    let event = json!({"call_id": "t", "outcome": "ok", "content": big(3 << 20)}).to_string();
    let all = feed(&mut partition, "anthropic.messages", RESULT, event.as_bytes());
    assert_eq!(verdicts(&all)[0]["action"], "block");
    assert!(all.iter().all(|e| e.to != To::Redacted));
}

#[test]
fn only_we_write_our_dead_letter_headers() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let forged: [(&str, Option<&[u8]>); 3] =
        [("sluicegate_dlq_value_hmac", Some(b"MARK")), ("SLUICEGATE_DLQ_reason", Some(b"MARK")), ("x", Some(b"kept"))];
    let all = partition.feed_record(Some(b"k"), &forged, Some(b"\xff"));
    let names: Vec<&str> = all[0].headers.iter().map(|(name, _)| name.as_str()).collect();
    assert!(all[0].headers.iter().all(|(_, value)| value != b"MARK"), "{names:?}");
    assert!(names.contains(&"x") && names.iter().filter(|n| n.ends_with("reason")).count() == 1);
}

/// A stream with numbered records, some of them left out, repeated or late.
#[test]
fn sequence_numbers_tell_what_is_missing() {
    let engine = engine(Profile::Standard);
    let whole: Vec<usize> = (0..7).collect();
    for (order, label) in [
        (whole.clone(), None),
        (vec![0, 1, 2, 2, 3, 4, 5, 6], None),
        (vec![0, 1, 2, 4, 5, 6], Some("gap")),
        (vec![0, 1, 2, 3, 2, 4, 5, 6], Some("gap")),
    ] {
        let mut partition = Partition::new(&engine);
        let events = anthropic_stream(&["{\"to\":", "\"x\"}"], "tool_use");
        let mut found = Vec::new();
        for n in &order {
            let line = json!({"specversion": "1.0", "id": format!("e{n}"), "source": "s", "type": CHUNK, "responseid": "r",
                "provider": "anthropic.messages", "conversation": "c", "sequence": format!("{:08}", n + 10), "data": events[*n]});
            found.extend(verdicts(&partition.feed(line.to_string().as_bytes())));
        }
        let calls: Vec<&Value> = of(&found, "tool_call");
        assert_eq!(calls.len(), 1, "{order:?}");
        assert_eq!(calls[0]["findings"][0]["evidence"]["label"].as_str().filter(|l| *l == "gap"), label, "{order:?}");
        assert_eq!(calls[0]["action"] == "block", label.is_some(), "{order:?}");
    }
}
