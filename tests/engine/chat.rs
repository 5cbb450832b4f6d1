//! Chat Completions through the whole engine: each deviation of compatible servers (`provider-formats` §3.3 and
//! §3.4), and what becomes of its calls.

use crate::support::{Partition, body, engine, header, verdicts};
use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::{Emission, Engine, Input, Observation, Out, Outcome, To};

const CHUNK: &str = "io.sluicegate.model.chunk.v1";
const RESPONSE: &str = "io.sluicegate.model.response.v1";
const REQUEST: &str = "io.sluicegate.model.request.v1";
const CLOSED: &str = "io.sluicegate.model.closed.v1";

fn line(kind: &str, response: &str, data: &Value) -> Vec<u8> {
    let mut line = json!({"specversion": "1.0", "id": "e", "source": "s", "type": kind, "provider": "openai.chat",
        "conversation": "c", "data": data});
    if !response.is_empty() {
        line["responseid"] = json!(response);
    }
    if kind == CLOSED {
        line["data"].take();
    }
    line.to_string().into_bytes()
}

/// The verdicts on calls, one line each: id, tool, action, and the arguments or else the rules.
fn judged(emissions: &[Emission]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let records = emissions.iter().filter(|e| e.to == To::Redacted);
    let records: Vec<(&str, Value)> =
        records.map(|e| (header(e, "ce_sgverdictid").unwrap_or_default(), body(e))).collect();
    let calls = verdicts(emissions).into_iter().filter(|v| v["checkpoint"] == "tool_call");
    calls
        .map(|verdict| {
            let subject = &verdict["subject"];
            let record = records.iter().find(|(id, _)| verdict["verdict_id"] == *id).map(|(_, record)| record);
            let arguments = record.map(|r| ["arguments", "input"].into_iter().find_map(|k| r.get(k)));
            let shown = match arguments {
                Some(arguments) => arguments.map(Value::to_string).unwrap_or_default(),
                None => {
                    let findings = verdict["findings"].as_array().into_iter().flatten();
                    let rules = findings.filter(|f| f["effect"] == "block").map(|f| {
                        let label = f["evidence"]["label"].as_str();
                        format!("{}{}", text(&f["rule"]), label.map_or(String::new(), |l| format!("({l})")))
                    });
                    rules.collect::<Vec<_>>().join("+")
                }
            };
            format!("{} {} {} {shown}", text(&subject["call_id"]), text(&subject["tool"]), text(&verdict["action"]))
        })
        .collect()
}

fn run_as(response: &str, records: &[(&str, Value)]) -> Vec<String> {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let emissions: Vec<Emission> =
        records.iter().flat_map(|(kind, data)| partition.feed(&line(kind, response, data))).collect();
    judged(&emissions)
}

fn run(records: &[(&str, Value)]) -> Vec<String> {
    let found = run_as("r", records);
    // By the payload's own id it is the same.
    assert_eq!(run_as("", records), found, "{records:?}");
    found
}

/// A chunk of the first choice.
fn chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn calls(calls: Value) -> Value {
    chunk(json!({"tool_calls": calls}), Value::Null)
}

fn open(index: u32, id: &str, name: &str, text: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": text}})
}

fn more(index: u32, text: &str) -> Value {
    json!({"index": index, "function": {"arguments": text}})
}

fn done() -> Value {
    chunk(json!({}), json!("tool_calls"))
}

#[track_caller]
fn stream(chunks: Vec<Value>, expected: &[&str]) {
    let mut records: Vec<(&str, Value)> = chunks.into_iter().map(|data| (CHUNK, data)).collect();
    records.push((CHUNK, json!("[DONE]")));
    records.push((CLOSED, Value::Null));
    assert_eq!(run(&records), expected);
}

#[track_caller]
fn whole(message: Value, finish: Value, expected: &[&str]) {
    let body = json!({"id": "chatcmpl-1", "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}]});
    assert_eq!(run(&[(RESPONSE, body.clone())]), expected);
    // A whole body sent as a chunk is judged too.
    assert_eq!(run(&[(CHUNK, body)]), expected);
}

#[test]
fn pieces_make_one_call() {
    let usage = json!({"id": "chatcmpl-1", "choices": [], "usage": {}});
    let azure = json!({"id": "", "object": "", "choices": [], "prompt_filter_results": []});
    stream(
        vec![
            azure,
            chunk(json!({"role": "assistant", "content": null}), Value::Null),
            calls(json!([open(0, "a", "f", "")])),
            calls(json!([more(0, "{\"x\":")])),
            calls(json!([open(1, "b", "g", "{\"y\"")])),
            calls(json!([more(0, "1}"), more(1, ":2}")])),
            done(),
            usage,
        ],
        &[r#"a f allow {"x":1}"#, r#"b g allow {"y":2}"#],
    );
}

#[test]
fn whole_calls_in_one_chunk() {
    let both = json!([open(1, "a", "f", "{\"x\":1}"), open(2, "b", "f", "{\"x\":1}")]);
    stream(vec![calls(both), done()], &[r#"a f allow {"x":1}"#, r#"b f allow {"x":1}"#]);
}

#[test]
fn without_an_index_order_decides() {
    let open = |id: &str, text: &str| json!({"id": id, "function": {"name": "f", "arguments": text}});
    let more = |text: &str| json!({"function": {"arguments": text}});
    let both = ["a f allow {\"x\":1}", "b f allow {\"x\":2}"];
    stream(vec![calls(json!([open("a", "{\"x\":1}"), open("b", "{\"x\":2}")])), done()], &both);
    let pieces = json!([open("a", "{\"x\""), more(":1}"), open("b", ""), more("{\"x\":2}")]);
    stream(vec![calls(pieces), done()], &both);
    // The id again is the same call; without ids a name is another one.
    let again = json!([open("a", "{\"x\""), open("a", ":1}"), open("b", "{\"x\":2}"), open("a", "")]);
    stream(vec![calls(again), done()], &both);
    let nameless = json!([open("", "{\"x\":1}"), open("", "{\"x\":2}")]);
    stream(vec![calls(nameless), done()], &["- f allow {\"x\":1}", "- f allow {\"x\":2}"]);
    // An index that is left out where it is 0.
    let zero = json!([open("a", "{\"x\":"), self::open(1, "b", "f", "{\"x\":"), more("1}"), self::more(1, "2}")]);
    stream(vec![calls(zero), done()], &both);
    // A piece without a place, where calls have one, may be any one's.
    let piece = vec![calls(json!([self::open(0, "a", "f", "")])), calls(json!([more("{\"x\":1}")])), done()];
    stream(piece, &["a f block args_mismatch", "- - block cut_call(orphan)"]);
    let empty = vec![calls(json!([self::open(0, "a", "f", "{}")])), calls(json!([more("")])), done()];
    stream(empty, &["a f allow {}"]);
}

#[test]
fn one_index_for_all() {
    let chunks = || {
        vec![
            calls(json!([open(0, "a", "f", "{\"x\":"), more(0, "1}")])),
            calls(json!([open(0, "b", "f", ""), more(0, "{\"x\":2}")])),
        ]
    };
    let mut good = chunks();
    good.push(done());
    stream(good, &[r#"a f allow {"x":1}"#, r#"b f allow {"x":2}"#]);
    // Ids again, in between: which one is added to cannot be told.
    let mut mixed = chunks();
    mixed.extend([calls(json!([open(0, "a", "f", "")])), done()]);
    let blocked = [
        "a f block args_mismatch",
        r#"b f allow {"x":2}"#,
        "a f block args_mismatch+duplicate_call_id(other_arguments)",
    ];
    stream(mixed, &blocked);
    // Without ids the texts run together.
    let merged = json!([open(0, "", "f", "{\"x\":1}"), open(0, "", "f", "{\"x\":2}")]);
    stream(vec![calls(merged), done()], &["- f block merged_calls"]);
}

#[test]
fn ids_and_names_repeated_or_in_pieces() {
    let good = [r#"a f_long allow {"x":1}"#];
    let again = json!([open(0, "a", "f_long", "{\"x\":"), open(0, "a", "f_long", "1"), open(0, "", "", "}")]);
    stream(vec![calls(again), done()], &good);
    let pieces = json!([open(0, "a", "f_", ""), open(0, "a", "lo", ""), open(0, "", "ng", "{\"x\":1}")]);
    stream(vec![calls(pieces), done()], &good);
    // Behind the first argument text another name contradicts.
    let late = json!([open(0, "a", "f", "{\"x\":1}"), open(0, "a", "g", "")]);
    stream(vec![calls(late), done()], &["a f block args_mismatch"]);
    // An id that comes late is the call's.
    let late = json!([open(0, "", "f", "{}"), open(0, "a", "", "")]);
    stream(vec![calls(late), done()], &["a f allow {}"]);
}

#[test]
fn arguments_that_are_no_text() {
    let call = |arguments: Value| json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}]);
    stream(vec![calls(call(json!({"x": 1}))), done()], &[r#"a f allow {"x":1}"#]);
    stream(vec![calls(call(json!({"x": 1}))), calls(call(json!({"x": 1}))), done()], &[r#"a f allow {"x":1}"#]);
    stream(vec![calls(call(json!({"x": 1}))), calls(call(json!({"x": 2}))), done()], &["a f block args_mismatch"]);
    let text = calls(json!([more(0, "{\"x\":1}")]));
    stream(vec![calls(call(json!({"x": 1}))), text.clone(), done()], &["a f block args_mismatch"]);
    stream(vec![calls(call(Value::Null)), text, done()], &[r#"a f allow {"x":1}"#]);
    stream(vec![calls(call(Value::Null)), done()], &["a f allow {}"]);
    stream(vec![calls(call(json!("null"))), done()], &["a f allow null"]);
    stream(vec![calls(call(json!([1]))), done()], &["a f allow [1]"]);
}

#[test]
fn a_name_or_an_opening_that_never_came() {
    stream(vec![calls(json!([more(0, "{}")])), done()], &["- - block cut_call(orphan)"]);
    let raw = json!([{"index": 0, "function": {"arguments": {"x": 1}}}]);
    stream(vec![calls(raw), done()], &["- - block cut_call(orphan)"]);
}

#[test]
fn empty_pieces_behind_the_whole_finish_nothing_twice() {
    let call = || calls(json!([open(0, "a", "f", "{\"x\":1}")]));
    let last = chunk(json!({"tool_calls": [more(0, "")]}), json!("tool_calls"));
    stream(vec![call(), last.clone()], &[r#"a f allow {"x":1}"#]);
    stream(vec![call(), calls(json!([more(0, "")])), done(), done(), last], &[r#"a f allow {"x":1}"#]);
    let again = calls(json!([open(0, "a", "f", "")]));
    stream(vec![call(), done(), again], &[r#"a f allow {"x":1}"#]);
}

#[test]
fn legacy_function_call() {
    let piece = |name: Option<&str>, text: &str| match name {
        Some(name) => chunk(json!({"function_call": {"name": name, "arguments": text}}), Value::Null),
        None => chunk(json!({"function_call": {"arguments": text}}), Value::Null),
    };
    let end = || chunk(json!({}), json!("function_call"));
    stream(vec![piece(Some("f"), ""), piece(None, "{\"x\":"), piece(None, "1}"), end()], &[r#"- f allow {"x":1}"#]);
    // Beside a call of the new kind it is another one.
    let beside = vec![calls(json!([open(0, "a", "g", "{}")])), piece(Some("f"), "{\"x\":1}"), end()];
    stream(beside, &["a g allow {}", r#"- f allow {"x":1}"#]);
    whole(json!({"function_call": {"name": "f", "arguments": "{}"}}), json!("function_call"), &["- f allow {}"]);
}

#[test]
fn custom_tools() {
    let call = json!([{"index": 0, "id": "a", "type": "custom", "custom": {"name": "run", "input": "ls \"x"}}]);
    whole(json!({"tool_calls": call}), json!("tool_calls"), &[r#"a run allow "ls \"x""#]);
    stream(vec![calls(call), done()], &[r#"a run allow "ls \"x""#]);
}

#[test]
fn endings() {
    let call = |finish: Value| vec![calls(json!([open(0, "a", "f", "{\"x\":1}")])), chunk(json!({}), finish)];
    for good in ["tool_calls", "stop", "function_call"] {
        stream(call(json!(good)), &[r#"a f allow {"x":1}"#]);
    }
    for (word, reason) in [
        (json!("length"), "max_tokens"),
        (json!("content_filter"), "content_filter"),
        (json!("error"), "failed"),
        (json!("novel"), "ended_otherwise"),
        (Value::Null, "transport_closed"),
        (json!(""), "transport_closed"),
    ] {
        stream(call(word), &[&format!("a f block cut_call({reason})")]);
    }
    // A gateway that calls the token limit a good ending: the text breaks off.
    for text in ["{\"x\":1", "{\"x\":\"a", "[1", "{\"x\":\"\\\"}"] {
        let cut = calls(json!([open(0, "a", "f", text)]));
        stream(vec![cut, done()], &["a f block cut_call(item_incomplete)"]);
    }
    stream(vec![calls(json!([open(0, "a", "f", "")])), done()], &["a f allow {}"]);
}

#[test]
fn a_refusal_lets_no_call_run() {
    let refusal = || chunk(json!({"refusal": "I can"}), Value::Null);
    let call = calls(json!([open(0, "a", "f", "{}")]));
    stream(vec![call, refusal(), refusal(), chunk(json!({}), json!("stop"))], &["a f block cut_call(refused)"]);
    stream(vec![refusal(), chunk(json!({}), json!("stop"))], &[]);
    let message = json!({"refusal": "no", "tool_calls": [open(0, "a", "f", "{}")]});
    whole(message, json!("stop"), &["a f block cut_call(refused)"]);
}

#[test]
fn an_error_in_the_stream_cuts() {
    let call = || calls(json!([open(0, "a", "f", "{}")]));
    for error in [
        json!({"error": {"message": "Tool call validation failed", "code": "tool_use_failed", "failed_generation": "{}"}}),
        json!({"error": {"message": "m"}}),
        json!({"error": "m"}),
        json!({"id": "chatcmpl-1", "choices": [], "x_groq": {"error": "over_capacity"}}),
        json!({"id": "chatcmpl-1", "error": {"code": 502},
            "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "error": {}, "finish_reason": "stop"}]}),
    ] {
        stream(vec![call(), error, done()], &["a f block cut_call(failed)"]);
    }
    let error = json!({"error": {"message": "m"}});
    stream(vec![error.clone()], &[]);
    assert_eq!(run(&[(RESPONSE, error)]), [""; 0]);
    let both = json!({"id": "1", "object": "chat.completion", "error": {"code": 502}, "choices": [{"index": 0,
        "message": {"tool_calls": [open(0, "a", "f", "{}")]}, "finish_reason": "tool_calls"}]});
    assert_eq!(run(&[(RESPONSE, both)]), ["a f block cut_call(failed)"]);
}

#[test]
fn choices_end_apart() {
    let of = |index: u32, delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}]})
    };
    let call = |index: u32, id: &str| of(index, json!({"tool_calls": [open(0, id, "f", "{\"x\":1}")]}), Value::Null);
    let end = |index: u32, word: &str| of(index, json!({}), json!(word));
    let chunks = vec![call(0, "a"), call(1, "b"), call(2, "c"), end(1, "length"), end(0, "stop")];
    let expected = ["b f block cut_call(max_tokens)", r#"a f allow {"x":1}"#, "c f block cut_call(transport_closed)"];
    stream(chunks, &expected);
    // A choice that begins behind the end of the other.
    let chunks = vec![call(0, "a"), end(0, "stop"), call(1, "b"), end(1, "tool_calls")];
    stream(chunks, &[r#"a f allow {"x":1}"#, r#"b f allow {"x":1}"#]);
}

#[test]
fn whole_bodies() {
    let message = |calls: Value| json!({"role": "assistant", "content": null, "tool_calls": calls});
    let two = json!([open(0, "a", "f", "{\"x\":1}"), open(0, "b", "f", "{\"x\":2}")]);
    let good = [r#"a f allow {"x":1}"#, r#"b f allow {"x":2}"#];
    whole(message(two.clone()), json!("tool_calls"), &good);
    let cut = ["a f block cut_call(max_tokens)", "b f block cut_call(max_tokens)"];
    whole(message(two.clone()), json!("length"), &cut);
    whole(message(two), Value::Null, &["a f block cut_call(ended_otherwise)", "b f block cut_call(ended_otherwise)"]);
    whole(
        message(json!([open(0, "a", "f", "{\"x\":")])),
        json!("tool_calls"),
        &["a f block cut_call(item_incomplete)"],
    );
    whole(message(Value::Null), json!("stop"), &[]);
}

/// A chunk that is lost or unclear may have held a part of the call: it never becomes final, though what comes
/// behind repeats its id and would make it whole.
#[test]
fn what_is_lost_or_unclear_cuts() {
    let piece = |entry: Value| chunk(json!({"tool_calls": [entry]}), Value::Null);
    for strange in [
        chunk(json!({"toolCalls": [more(0, "2")]}), Value::Null),
        chunk(json!({"tool_calls": more(0, "2")}), Value::Null),
        chunk(json!("2"), Value::Null),
        chunk(json!({}), json!(["tool_calls"])),
        piece(json!({"index": "0", "function": {"arguments": "2"}})),
        piece(json!({"index": 0.0, "function": {"arguments": "2"}})),
        piece(json!({"index": -1, "function": {"arguments": "2"}})),
        piece(json!({"index": 0, "function": {"Arguments": "2"}})),
        piece(json!({"index": 0, "Function": {"arguments": "2"}})),
        piece(json!({"index": 0, "function": "2"})),
        piece(json!({"index": 0, "arguments": "2"})),
        piece(json!({"index": 0, "function": {"arguments": "2"}, "custom": {"input": "2"}})),
        json!({"id": "chatcmpl-1", "choices": {"index": 0}}),
        json!({"id": "chatcmpl-1", "Choices": []}),
        json!({"id": "chatcmpl-1", "message": {"tool_calls": [more(0, "2")]}}),
        json!("{\"id\":\"chatcmpl-1\",\"choices\":["),
        json!(7),
    ] {
        let open = |text: &str| calls(json!([open(0, "a", "f", text)]));
        let records: Vec<(&str, Value)> =
            [open("{\"x\":"), strange, open("1}"), done()].into_iter().map(|data| (CHUNK, data)).collect();
        assert_eq!(run(&records), ["a f block cut_call(undecodable)"], "{records:?}");
    }
}

/// Text behind the end of its choice changes no verdict, and is counted.
#[test]
fn text_behind_the_end_takes_the_verdict_back() {
    let engine = engine(Profile::Standard);
    let undecodable = |late: Value, said: &[&str]| {
        let mut partition = Partition::new(&engine);
        partition.feed(&line(CHUNK, "r", &calls(json!([open(0, "a", "f", "{\"x\":1}")]))));
        partition.feed(&line(CHUNK, "r", &done()));
        let (found, counted) = observed(&engine, &mut partition, &line(CHUNK, "r", &late));
        assert_eq!(found, said);
        counted
    };
    assert_eq!(undecodable(calls(json!([more(0, "")])), &[]), 0);
    // Whoever reads on has other arguments than those that were allowed.
    let revoked = ["a f block text_behind_end"];
    assert_eq!(undecodable(calls(json!([more(0, "{}")])), &revoked), 1);
    assert_eq!(undecodable(calls(json!([more(0, "{"), more(0, "}")])), &revoked), 2);
    assert_eq!(undecodable(calls(json!([open(0, "a", "f", "{}")])), &revoked), 1);
    assert_eq!(undecodable(calls(json!([{"index": 0, "function": {"arguments": {"x": 2}}}])), &revoked), 1);
}

fn observed(engine: &Engine, partition: &mut Partition<'_>, value: &[u8]) -> (Vec<String>, usize) {
    let mut out = Out::default();
    let input = Input {
        topic: "check",
        partition: 0,
        offset: 99,
        timestamp: None,
        key: None,
        headers: &[],
        value: Some(value),
    };
    let outcome = engine.step(&mut partition.state, &input, &mut out);
    assert!(matches!(outcome, Outcome::Passed | Outcome::Judged));
    let lost = out.observations.iter().filter(|o| matches!(o, Observation::Undecodable { .. })).count();
    (judged(&out.emissions), lost)
}

/// Another call behind the end of its choice is never run.
#[test]
fn a_call_behind_the_end_is_cut() {
    let late = calls(json!([open(1, "b", "f", "{}")]));
    let mut records = vec![(CHUNK, calls(json!([open(0, "a", "f", "{}")]))), (CHUNK, done()), (CHUNK, late)];
    records.push((CLOSED, Value::Null));
    assert_eq!(run_as("r", &records), ["a f allow {}", "b f block cut_call(transport_closed)"]);
}

#[test]
fn definitions_are_found_by_every_shape() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
    let tools = json!([
        {"type": "function", "function": {"name": "f", "parameters": schema}},
        {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}},
    ]);
    let request = json!({"model": "m", "tools": tools, "functions": [{"name": "old", "parameters": schema}],
        "messages": [{"role": "user", "content": "hi"}]});
    let custom = json!({"index": 4, "id": "e", "type": "custom", "custom": {"name": "run", "input": "ls"}});
    let entries = json!([
        open(0, "a", "f", "{\"x\":1}"),
        open(1, "b", "f", "{\"x\":\"1\"}"),
        open(2, "c", "old", "{}"),
        open(3, "d", "novel", "{}"),
        custom,
        open(5, "g", "run", "{}"),
    ]);
    let records = [(REQUEST, request), (CHUNK, calls(entries)), (CHUNK, done())];
    let expected = [
        r#"a f allow {"x":1}"#,
        "b f block schema_mismatch",
        "c old block schema_mismatch",
        "d novel block unknown_tool",
        r#"e run allow "ls""#,
        "g run block wrong_form",
    ];
    assert_eq!(run_as("r", &records), expected);
}

/// The results of a request are judged as the tools' whose calls it echoes, and the copy is bounded in place.
#[test]
fn results_of_a_request() {
    let long = "x".repeat(400_000);
    let request = json!({"model": "m", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [open(0, "a", "f", "{}"), open(1, "b", "g", "{}")]},
        {"role": "tool", "tool_call_id": "a", "content": "short"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": long}]},
        {"role": "function", "name": "old", "content": "o"},
    ]});
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let emissions = partition.feed(&line(REQUEST, "r", &request));
    let found = verdicts(&emissions);
    let of = |n: usize| {
        let results: Vec<&Value> = found.iter().filter(|v| v["checkpoint"] == "tool_result").collect();
        results.get(n).map(|v| (v["subject"]["tool"].clone(), v["subject"]["call_id"].clone(), v["action"].clone()))
    };
    assert_eq!(of(0), Some((json!("f"), json!("a"), json!("allow"))), "{found:?}");
    assert_eq!(of(1), Some((json!("g"), json!("b"), json!("redact"))));
    assert_eq!(of(2), Some((json!("old"), Value::Null, json!("allow"))));
    let copy = emissions.iter().find(|e| e.to == To::Redacted).map(body).expect("a changed request is published");
    let messages = copy.get("messages").or(copy["data"].get("messages")).expect("messages");
    let cut = messages[3]["content"][0]["text"].as_str().expect("a text");
    assert!(cut.len() < 400_000 && messages[2] == request["messages"][2]);
}

/// How a server numbers its calls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Style {
    Numbered,
    /// The id and the name stand in every piece.
    Repeated,
    /// All under index 0.
    Zero,
    Unnumbered,
}

/// The pieces of one call.
fn entries(style: Style, n: usize, text: &str, cuts: &[usize]) -> Vec<Value> {
    let chars: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (chars.len() + 1)).collect();
    cuts.extend([0, chars.len()]);
    cuts.sort_unstable();
    let pieces = cuts.windows(2).map(|cut| chars[cut[0]..cut[1]].iter().collect::<String>());
    let entry = |(at, piece): (usize, String)| {
        let index = if style == Style::Zero { 0 } else { n as u32 };
        let mut entry = match at {
            0 => open(index, &format!("c{n}"), "f", &piece),
            _ if style == Style::Repeated => open(index, &format!("c{n}"), "f", &piece),
            _ => more(index, &piece),
        };
        if style == Style::Unnumbered {
            entry.as_object_mut().and_then(|entry| entry.remove("index"));
        }
        entry
    };
    pieces.enumerate().map(entry).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Wherever texts are cut, however calls interleave and pieces are packed into chunks: the same calls.
    #[test]
    fn cutting_and_packing_do_not_matter(
        style in prop_oneof![Just(Style::Numbered), Just(Style::Repeated), Just(Style::Zero), Just(Style::Unnumbered)],
        texts in prop::collection::vec(("[a\\\\\"{é😀]{0,8}", prop::collection::vec(any::<usize>(), 0..6)), 1..4),
        picks in prop::collection::vec(any::<usize>(), 1..12),
        sizes in prop::collection::vec(1..4usize, 1..6),
    ) {
        let arguments: Vec<Value> = texts.iter().map(|(text, _)| json!({"x": text})).collect();
        let mut queues: Vec<Vec<Value>> = Vec::new();
        for (n, (arguments, (_, cuts))) in arguments.iter().zip(&texts).enumerate() {
            queues.push(entries(style, n, &arguments.to_string(), cuts));
        }
        let mut dealt = Vec::new();
        let mut picks = picks.iter().cycle();
        while queues.iter().any(|queue| !queue.is_empty()) {
            let interleaved = matches!(style, Style::Numbered | Style::Repeated);
            let from = if interleaved { picks.next().copied().unwrap_or(0) } else { 0 };
            let at = (0..queues.len()).map(|i| (from + i) % queues.len()).find(|i| !queues[*i].is_empty());
            dealt.push(queues[at.unwrap_or(0)].remove(0));
        }
        let mut records = Vec::new();
        let mut sizes = sizes.iter().cycle();
        while !dealt.is_empty() {
            let size = sizes.next().copied().unwrap_or(1).min(dealt.len());
            records.push((CHUNK, calls(dealt.drain(..size).collect())));
        }
        records.push((CHUNK, done()));
        let expected: Vec<String> =
            arguments.iter().enumerate().map(|(n, arguments)| format!("c{n} f allow {arguments}")).collect();
        prop_assert_eq!(run(&records), expected);
    }
}
