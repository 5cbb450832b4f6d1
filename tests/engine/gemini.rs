//! Gemini through the whole engine: what ends a call, streamed arguments, sessions, and what results become.

use crate::support::{Partition, body, engine, files, header, lines, shared, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::{Dialect, Profile, SchemaCache};
use sluicegate::engine::{Emission, Outcome, To};

const CHUNK: &str = "io.sluicegate.model.chunk.v1";
const CLOSED: &str = "io.sluicegate.model.closed.v1";
const REQUEST: &str = "io.sluicegate.model.request.v1";
const RESPONSE: &str = "io.sluicegate.model.response.v1";
const RESULT: &str = "io.sluicegate.tool.result.v1";
const STARTED: &str = "io.sluicegate.tool.started.v1";
const GENERATE: &str = "gemini.generate_content";
const LIVE: &str = "gemini.live";

/// Feeds records of one conversation and gives what came out.
struct Talk<'e> {
    partition: Partition<'e>,
    all: Vec<Emission>,
}

impl<'e> Talk<'e> {
    fn new(engine: &'e sluicegate::engine::Engine) -> Self {
        Self { partition: Partition::new(engine), all: Vec::new() }
    }
    fn say(&mut self, kind: &str, provider: &str, data: &str) -> Vec<Emission> {
        let headers: Vec<(&str, Option<&[u8]>)> = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", "e-1"),
            ("ce_source", "/fleet/a"),
            ("ce_type", kind),
            ("ce_provider", provider),
        ]
        .iter()
        .map(|(name, value)| (*name, Some(value.as_bytes())))
        .collect();
        let out = self.partition.feed_record(Some(b"c-1"), &headers, Some(data.as_bytes()));
        self.all.extend(out.clone());
        out
    }
    fn chunk(&mut self, data: &Value) -> Vec<Emission> {
        self.say(CHUNK, GENERATE, &data.to_string())
    }
    /// `name arguments` of the calls that may run.
    fn calls(&self) -> Vec<String> {
        calls(&self.all)
    }
    /// Why calls were cut.
    fn cuts(&self) -> Vec<String> {
        rules(&self.all, "tool_call", "cut_call")
    }
}

fn calls(emissions: &[Emission]) -> Vec<String> {
    let records = emissions.iter().filter(|e| header(e, "ce_type") == Some("io.sluicegate.tool.call.v1"));
    records
        .filter(|e| header(e, "ce_sgaction") == Some("allow"))
        .map(body)
        .map(|record| {
            let text = record.get("arguments").map(Value::to_string).or(record["input"].as_str().map(str::to_owned));
            format!("{} {}", record["tool"].as_str().unwrap_or("-"), text.unwrap_or_default())
        })
        .collect()
}

/// The labels of a rule's findings at a checkpoint, or its name where it has none.
fn rules(emissions: &[Emission], checkpoint: &str, rule: &str) -> Vec<String> {
    let verdicts = verdicts(emissions).into_iter().filter(|v| v["checkpoint"] == checkpoint);
    let findings = verdicts.flat_map(|v| v["findings"].as_array().cloned().unwrap_or_default());
    findings.filter(|f| f["rule"] == rule).map(|f| f["evidence"]["label"].as_str().unwrap_or(rule).to_owned()).collect()
}

fn parts(parts: Value, reason: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}});
    if let Some(reason) = reason {
        candidate["finishReason"] = reason.into();
    }
    json!({"candidates": [candidate], "responseId": "r-1", "modelVersion": "test-model"})
}

fn call(name: &str, args: Value) -> Value {
    json!({"functionCall": {"name": name, "args": args}})
}

#[test]
fn only_stop_lets_a_call_run() {
    let engine = engine(Profile::Standard);
    for (reason, cut) in [
        (Some("STOP"), None),
        (Some("MAX_TOKENS"), Some("max_tokens")),
        (Some("SAFETY"), Some("content_filter")),
        (Some("MODEL_ARMOR"), Some("content_filter")),
        (Some("UNEXPECTED_TOOL_CALL"), Some("failed")),
        (Some("MALFORMED_FUNCTION_CALL"), Some("failed")),
        (Some("TOO_MANY_TOOL_CALLS"), Some("failed")),
        (Some("OTHER"), Some("ended_otherwise")),
        (Some("stop"), Some("ended_otherwise")),
        (None, Some("transport_closed")),
    ] {
        for (kind, later) in [(RESPONSE, false), (CHUNK, false), (CHUNK, true)] {
            let mut talk = Talk::new(&engine);
            let calls = json!([call("f", json!({"a": 1})), call("f", json!({"a": 2}))]);
            talk.say(kind, GENERATE, &parts(calls, reason.filter(|_| !later)).to_string());
            if later {
                talk.chunk(&parts(json!([{"text": ""}]), reason));
            }
            talk.say(CLOSED, GENERATE, "");
            match cut {
                None => assert_eq!(talk.calls(), ["f {\"a\":1}", "f {\"a\":2}"], "{reason:?}"),
                Some(cut) => {
                    assert_eq!(talk.calls(), [""; 0], "{reason:?}");
                    assert_eq!(talk.cuts(), [cut, cut], "{reason:?} {kind} later={later}");
                }
            }
        }
    }
}

#[test]
fn no_arguments_are_an_empty_object() {
    let engine = engine(Profile::Standard);
    let mut talk = Talk::new(&engine);
    talk.chunk(&parts(
        json!([{"functionCall": {"name": "a"}}, {"function_call": {"name": "b", "args": {}, "id": ""}}]),
        Some("STOP"),
    ));
    assert_eq!(talk.calls(), ["a {}", "b {}"]);
    // Cut off, it is no call without arguments.
    let mut talk = Talk::new(&engine);
    talk.chunk(&parts(json!([{"functionCall": {"name": "a"}}]), Some("MAX_TOKENS")));
    assert_eq!((talk.calls().len(), talk.cuts()), (0, vec!["max_tokens".to_owned()]));
}

#[test]
fn candidates_end_one_by_one() {
    let engine = engine(Profile::Standard);
    let mut talk = Talk::new(&engine);
    let candidate = |index: u32, parts: Value, reason: Option<&str>| json!({"index": index, "content": {"parts": parts}, "finishReason": reason});
    let chunk = |candidates: Vec<Value>| json!({"candidates": candidates, "responseId": "r-1"});
    talk.chunk(&chunk(vec![
        candidate(0, json!([call("f", json!({"a": 0}))]), None),
        candidate(1, json!([call("f", json!({"a": 1}))]), Some("MAX_TOKENS")),
    ]));
    assert_eq!(talk.cuts(), ["max_tokens"]);
    talk.chunk(&chunk(vec![candidate(2, json!([call("f", json!({"a": 2}))]), Some("STOP"))]));
    talk.chunk(&chunk(vec![candidate(0, json!([]), Some("STOP"))]));
    talk.say(CLOSED, GENERATE, "");
    assert_eq!(talk.calls(), ["f {\"a\":2}", "f {\"a\":0}"]);
    assert_eq!(talk.cuts().len(), 1);
}

#[test]
fn errors_and_blocked_prompts_end_everything() {
    let engine = engine(Profile::Standard);
    let error = json!({"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}});
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "r-1"});
    let open = parts(json!([call("f", json!({}))]), None);
    let stop = parts(json!([]), Some("STOP"));
    for (end, reason) in [(&error, "failed"), (&blocked, "content_filter")] {
        let mut talk = Talk::new(&engine);
        talk.chunk(&open);
        talk.chunk(end);
        talk.chunk(&stop);
        assert_eq!((talk.calls().len(), talk.cuts()), (0, vec![reason.to_owned()]));
        // The same as an array of chunks.
        let mut talk = Talk::new(&engine);
        talk.chunk(&json!([open, end, stop]));
        assert_eq!((talk.calls().len(), talk.cuts()), (0, vec![reason.to_owned()]));
    }
}

/// A turn of streamed arguments: what stands in `functionCall`, in order.
fn stream(pieces: &[Value], reason: Option<&str>) -> (Vec<String>, Vec<String>) {
    let engine = engine(Profile::Standard);
    let mut talk = Talk::new(&engine);
    for (at, piece) in pieces.iter().enumerate() {
        let last = at + 1 == pieces.len();
        talk.chunk(&parts(json!([{ "functionCall": piece }]), reason.filter(|_| last)));
    }
    talk.say(CLOSED, GENERATE, "");
    (talk.calls(), talk.cuts())
}

fn opener(name: &str) -> Value {
    json!({"name": name, "willContinue": true})
}

fn leaves(leaves: Value, more: bool) -> Value {
    match more {
        true => json!({"partialArgs": leaves, "willContinue": true}),
        false => json!({"partialArgs": leaves}),
    }
}

#[test]
fn streamed_arguments() {
    let more = |path: &str, text: &str| json!({"jsonPath": path, "stringValue": text, "willContinue": true});
    let last = |path: &str| json!({"jsonPath": path, "stringValue": ""});
    let number = |path: &str, n: f64| json!({"jsonPath": path, "numberValue": n});
    let close = json!({});
    let cases: Vec<(Vec<Value>, Vec<&str>, Vec<&str>)> = vec![
        // Closed by the empty object, which also bears the finish reason.
        (
            vec![
                opener("f"),
                leaves(json!([more("$.city", "Bo")]), true),
                json!({"willContinue": true}),
                leaves(json!([more("$.city", "ston"), last("$.city")]), true),
                close.clone(),
            ],
            vec![r#"f {"city":"Boston"}"#],
            vec![],
        ),
        // Closed by the last leaves; an opener with leaves; a call without arguments among them.
        (
            vec![
                opener("f"),
                leaves(json!([number("$.l[0].n", 0.5), number("$.l[1].n", 2.0)]), false),
                json!({"name": "g", "partialArgs": [{"json_path": "$['a b']", "bool_value": true}]}),
                json!({"name": "h"}),
                opener("i"),
                leaves(json!([{"jsonPath": "$.x", "nullValue": "NULL_VALUE"}]), true),
                close.clone(),
                opener("j"),
                close.clone(),
            ],
            vec![r#"f {"l":[{"n":0.5},{"n":2.0}]}"#, r#"g {"a b":true}"#, "h {}", r#"i {"x":null}"#, "j {}"],
            vec![],
        ),
        // Another call opens, or the turn ends, while one is open.
        (
            vec![opener("f"), leaves(json!([number("$.a", 1.0)]), true), json!({"name": "g"})],
            vec!["g {}"],
            vec!["superseded"],
        ),
        (vec![opener("f"), leaves(json!([number("$.a", 1.0)]), true)], vec![], vec!["item_incomplete"]),
        // Pieces of nothing.
        (vec![leaves(json!([number("$.a", 1.0)]), true), close.clone()], vec![], vec!["orphan"]),
        (vec![leaves(json!([number("$.a", 1.0)]), true), opener("f"), close.clone()], vec!["f {}"], vec!["orphan"]),
        // No object.
        (vec![opener("f"), leaves(json!([number("$.a[1000000000]", 1.0)]), false)], vec![], vec!["undecodable"]),
        (
            vec![opener("f"), leaves(json!([number("$.a", 1.0), number("$.a.b", 1.0)]), false)],
            vec![],
            vec!["undecodable"],
        ),
        (vec![opener("f"), leaves(json!([more("$.a", "cut")]), false)], vec![], vec!["undecodable"]),
        // Two values, or none.
        (
            vec![opener("f"), leaves(json!([{"jsonPath": "$.a", "stringValue": "", "numberValue": 1}]), false)],
            vec![],
            vec!["undecodable"],
        ),
        (vec![opener("f"), leaves(json!([{"jsonPath": "$.a"}]), false)], vec![], vec!["undecodable"]),
    ];
    for (pieces, run, cut) in cases {
        let (calls, cuts) = stream(&pieces, Some("STOP"));
        assert_eq!(
            (calls, cuts),
            (run.iter().map(|s| (*s).to_owned()).collect(), cut.iter().map(|s| (*s).to_owned()).collect()),
            "{pieces:?}"
        );
        // Whatever it would become, it does not without a good ending.
        assert!(stream(&pieces, None).0.is_empty(), "{pieces:?}");
        assert!(stream(&pieces, Some("MAX_TOKENS")).0.is_empty(), "{pieces:?}");
    }
}

/// Leaves behind the end of their call: what is meant cannot be told.
#[test]
fn leaves_behind_the_end_are_a_conflict() {
    let leaf = json!([{"jsonPath": "$.a", "numberValue": 1}]);
    for first in [json!({"name": "f", "args": {"a": 1}}), json!({"name": "f", "partialArgs": leaf})] {
        let engine = engine(Profile::Standard);
        let mut talk = Talk::new(&engine);
        talk.chunk(&parts(
            json!([{ "functionCall": first }, {"functionCall": leaves(leaf.clone(), false)}]),
            Some("STOP"),
        ));
        assert_eq!(talk.calls(), [""; 0]);
        assert_eq!(rules(&talk.all, "tool_call", "args_mismatch").len(), 1);
    }
}

#[test]
fn streamed_arguments_are_bounded() {
    let mut settings = crate::support::settings(Profile::Standard);
    settings.limits.call_bytes = 64 << 10;
    let engine = sluicegate::engine::Engine::new(settings).unwrap();
    let mut talk = Talk::new(&engine);
    talk.chunk(&parts(json!([{"functionCall": opener("f")}]), None));
    for _ in 0..100 {
        let piece = json!([{"jsonPath": "$.a", "stringValue": "x".repeat(1000), "willContinue": true}]);
        talk.chunk(&parts(json!([{"functionCall": leaves(piece, true)}]), None));
    }
    assert_eq!(talk.cuts(), ["limit"]);
    assert!(talk.partition.state.stats().bytes < 8 << 10);
}

#[test]
fn unclear_parts_make_nothing_final() {
    let engine = engine(Profile::Standard);
    for part in [
        json!({"functionCall": {"name": "f", "args": "{}"}}),
        json!({"functionCall": {"args": {}}}),
        json!({"functionCall": {"name": 7, "args": {}}}),
        json!({"functionCall": {"name": "f"}, "function_call": {"name": "g"}}),
        json!({"functioncall": {"name": "f", "args": {}}}),
        json!({"functionCall": {"name": "f", "args": {"a": 1}, "willContinue": true}}),
        json!({"functionCall": {"name": "f", "willContinue": "true"}}),
        json!({"functionCall": []}),
        json!("text"),
    ] {
        let mut talk = Talk::new(&engine);
        talk.chunk(&parts(json!([call("open", json!({}))]), None));
        talk.chunk(&parts(json!([part]), Some("STOP")));
        talk.chunk(&parts(json!([]), Some("STOP")));
        assert_eq!(talk.calls(), [""; 0], "{part}");
        assert_eq!(talk.cuts(), ["undecodable"], "{part}");
    }
    // A kind of part that is new, and side fields without a payload, disturb nothing.
    let mut talk = Talk::new(&engine);
    let new = json!([call("f", json!({})), {"hologram": {}}, {"thoughtSignature": "QUJD"}, {}]);
    talk.chunk(&parts(new, Some("STOP")));
    assert_eq!(talk.calls(), ["f {}"]);
}

#[test]
fn code_that_google_runs() {
    let engine = engine(Profile::Off);
    let code = |text: &str| json!({"executableCode": {"language": "PYTHON", "code": text}});
    let done = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4\n"}});
    let mut talk = Talk::new(&engine);
    talk.chunk(&parts(json!([code("print(")]), None));
    talk.chunk(&parts(json!([code("2+2)")]), None));
    talk.chunk(&parts(json!([done]), None));
    talk.chunk(&parts(json!([code("print(5)")]), Some("STOP")));
    talk.chunk(&parts(json!([done]), Some("STOP")));
    assert_eq!(talk.calls(), ["code_execution print(2+2)", "code_execution print(5)"]);
    // Pieces that bear different ids are different programs; a call behind code closes it.
    let mut talk = Talk::new(&engine);
    let with = |id: &str| json!({"executableCode": {"code": id, "id": id}});
    talk.chunk(&parts(json!([with("a"), with("b"), call("f", json!({}))]), Some("STOP")));
    assert_eq!(talk.calls(), ["code_execution a", "code_execution b", "f {}"]);
}

/// Whatever is lost between the pieces of a call, it does not become one without it.
#[test]
fn a_lost_chunk_makes_nothing_final() {
    let engine = engine(Profile::Standard);
    let leaf = |path: &str| {
        parts(json!([{"functionCall": leaves(json!([{"jsonPath": path, "numberValue": 1}]), true)}]), None)
    };
    let open = parts(json!([{"functionCall": opener("f")}]), None);
    let close = parts(json!([{"functionCall": {}}]), Some("STOP"));
    let run = |lost: &str| {
        let mut talk = Talk::new(&engine);
        for chunk in [&open, &leaf("$.a")] {
            talk.chunk(chunk);
        }
        if !lost.is_empty() {
            talk.say(CHUNK, GENERATE, lost);
        }
        for chunk in [&leaf("$.c"), &close] {
            talk.chunk(chunk);
        }
        (talk.calls().len(), talk.cuts())
    };
    assert_eq!(run(""), (1, vec![]));
    for lost in [
        "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.b\"",
        "[{\"candidates\":[]},7]",
        "{\"candidates\":[{\"content\":[]}]}",
        "{\"candidates\":[],\"candidates\":[]}",
        "{\"Candidates\":[]}",
    ] {
        assert_eq!(run(lost), (0, vec!["undecodable".to_owned()]), "{lost}");
    }
}

/// Functions that computer use brings are not in the request.
#[test]
fn functions_that_a_tool_brings_are_not_undeclared() {
    let engine = engine(Profile::Standard);
    for (tool, unknown) in [("computerUse", 0), ("computer_use", 0), ("googleSearch", 1)] {
        let mut talk = Talk::new(&engine);
        talk.say(REQUEST, GENERATE, &json!({"contents": [], "tools": [{tool: {}}]}).to_string());
        talk.chunk(&parts(json!([call("click_at", json!({"x": 1}))]), Some("STOP")));
        assert_eq!(rules(&talk.all, "tool_call", "unknown_tool").len(), unknown, "{tool}");
    }
}

const SCHEMA: &str = r#"{"type":"OBJECT","properties":{"type":{"type":"STRING","enum":["a","b"],"nullable":true},
 "list":{"type":"ARRAY","items":{"type":"INTEGER"},"minItems":"1"}},"required":["list"]}"#;

#[test]
fn arguments_are_held_against_googles_schemas() {
    let engine = engine(Profile::Standard);
    let request = |schema: &str, key: &str| {
        format!(
            r#"{{"contents":[{{"role":"user","parts":[{{"text":"hi"}}]}}],
             "tools":[{{"functionDeclarations":[{{"name":"f","{key}":{schema}}}]}},{{"googleSearch":{{}}}}]}}"#
        )
    };
    let lower = SCHEMA.to_ascii_lowercase().replace("minitems", "min_items");
    let json_schema = r#"{"type":"object","properties":{"type":{"enum":["a","b",null]},"list":{"type":"array","minItems":1,"items":{"type":"integer"}}},"required":["list"]}"#;
    for (schema, key) in [
        (SCHEMA, "parameters"),
        (&*lower, "parameters"),
        (json_schema, "parametersJsonSchema"),
        (json_schema, "parameters_json_schema"),
    ] {
        for (args, fits) in [
            (json!({"list": [1, 2], "type": "a"}), true),
            (json!({"list": [1], "type": null}), true),
            (json!({"list": []}), false),
            (json!({"list": ["x"]}), false),
            (json!({"list": [1], "type": "c"}), false),
            (json!({}), false),
        ] {
            let mut talk = Talk::new(&engine);
            talk.say(REQUEST, GENERATE, &request(schema, key));
            talk.say(RESPONSE, GENERATE, &parts(json!([call("f", args.clone())]), Some("STOP")).to_string());
            assert_eq!(talk.calls().len(), usize::from(fits), "{schema} {args}");
            assert_eq!(rules(&talk.all, "tool_call", "bad_schema"), [""; 0], "{schema}");
        }
    }
    let mut talk = Talk::new(&engine);
    talk.say(REQUEST, GENERATE, &request(SCHEMA, "parameters"));
    talk.say(RESPONSE, GENERATE, &parts(json!([call("g", json!({}))]), Some("STOP")).to_string());
    assert_eq!(rules(&talk.all, "tool_call", "unknown_tool").len(), 1);
}

#[test]
fn googles_schemas_become_json_schemas() {
    let cache = SchemaCache::default();
    for (schema, fits, not) in [
        (
            json!({"type": "STRING", "nullable": true, "enum": ["a"]}),
            vec![json!("a"), json!(null)],
            vec![json!("b"), json!(1)],
        ),
        (json!({"type": "INTEGER", "nullable": false}), vec![json!(1)], vec![json!(null), json!("1")]),
        (
            json!({"any_of": [{"type": "NUMBER"}, {"type": "OBJECT", "nullable": true}]}),
            vec![json!(1), json!(null)],
            vec![json!("a")],
        ),
        (
            json!({"type": "STRING", "min_length": "2", "maxLength": "3"}),
            vec![json!("ab")],
            vec![json!("a"), json!("abcd")],
        ),
        (json!({"type": "TYPE_UNSPECIFIED"}), vec![json!(1), json!("a")], vec![]),
        (json!({"type": ["STRING", "null"]}), vec![json!("a"), json!(null)], vec![json!(1)]),
        // Names of properties, values of `enum` and defaults are no keywords.
        (
            json!({"type": "OBJECT", "properties": {"nullable": {"type": "BOOLEAN"}, "min_items": {"enum": ["STRING"]}}, "default": {"type": "X"}}),
            vec![json!({"nullable": true, "min_items": "STRING"})],
            vec![json!({"nullable": 1}), json!({"min_items": "string"})],
        ),
        (
            json!({"type": "OBJECT", "defs": {"n": {"type": "INTEGER"}}, "properties": {"a": {"ref": "#/defs/n"}}}),
            vec![json!({"a": 1})],
            vec![json!({"a": "1"})],
        ),
        (
            json!({"type": "ARRAY", "items": {"type": "ARRAY", "items": {"type": "STRING"}}}),
            vec![json!([["a"]])],
            vec![json!([[1]])],
        ),
    ] {
        let compiled = cache.get_in(Dialect::Gemini, schema.to_string().as_bytes(), false);
        assert_eq!(compiled.flaw(), None, "{schema}");
        assert!(fits.iter().all(|value| compiled.accepts(value)), "{schema}");
        assert!(!not.iter().any(|value| compiled.accepts(value)), "{schema}");
    }
    // The same bytes in another dialect are another schema.
    let schema = br#"{"type":"string","nullable":true}"#;
    assert!(!cache.get(schema, false).accepts(&json!(null)));
    assert!(cache.get_in(Dialect::Gemini, schema, false).accepts(&json!(null)));
}

fn answered(response: &Value, media: &Value) -> String {
    let answer = json!({"functionResponse": {"name": "f", "response": response, "parts": media}});
    json!({"contents": [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f"}, "thoughtSignature": "QUJD/+=="}]},
        {"role": "function", "parts": [answer]},
    ]})
    .to_string()
}

/// Whatever is done to a result, what is published is a request whose `response` is an object.
#[test]
fn edited_results_stay_objects() {
    let engine = engine(Profile::Standard);
    for (response, action) in [
        (json!({"output": "x".repeat(200_000)}), "redact"),
        (json!({"rows": (0..40_000).collect::<Vec<u32>>()}), "redact"),
        (json!({"output": "x".repeat(3 << 20)}), "block"),
    ] {
        let media =
            json!([{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"}}]);
        let mut talk = Talk::new(&engine);
        let out = talk.say(REQUEST, GENERATE, &answered(&response, &media));
        let verdict = verdicts(&out).into_iter().find(|v| v["checkpoint"] == "tool_result").expect("a verdict");
        assert_eq!(verdict["action"], action);
        let copy = out.iter().find(|e| e.to == To::Redacted).map(body).expect("a copy");
        assert_eq!(copy["contents"][1]["parts"][0]["thoughtSignature"], "QUJD/+==");
        let edited = &copy["contents"][2]["parts"][0]["functionResponse"]["response"];
        assert!(edited.is_object() && edited.to_string().len() < 70_000);
        if action == "block" {
            assert!(edited["error"].as_str().is_some_and(|text| text.starts_with("[TOOL ERROR]")));
            assert_eq!(copy["contents"][2]["parts"][0]["functionResponse"]["parts"], json!([]));
        }
    }
}

/// Setup with one tool, then whatever the client says; the session has no exchange id.
fn session<'e>(engine: &'e sluicegate::engine::Engine) -> Talk<'e> {
    let mut talk = Talk::new(engine);
    let setup = r#"{"setup":{"model":"models/test","tools":[{"functionDeclarations":[
        {"name":"f","parameters":{"type":"OBJECT","properties":{"a":{"type":"INTEGER"}},"required":["a"]}}]}]}}"#;
    talk.say(REQUEST, LIVE, setup);
    talk.say(CHUNK, LIVE, r#"{"setupComplete":{}}"#);
    for _ in 0..3 {
        talk.say(REQUEST, LIVE, r#"{"realtimeInput":{"audio":{"data":"AAAA","mimeType":"audio/pcm"}}}"#);
    }
    talk
}

fn tool_call(id: &str, args: &str) -> String {
    format!(r#"{{"toolCall":{{"functionCalls":[{{"name":"f","args":{args},"id":"{id}"}}]}}}}"#)
}

#[test]
fn live_calls_are_final_at_once_and_held_to_the_setup() {
    let engine = engine(Profile::Standard);
    let mut talk = session(&engine);
    assert_eq!(calls(&talk.say(CHUNK, LIVE, &tool_call("c1", r#"{"a":1}"#))), [r#"f {"a":1}"#]);
    talk.say(REQUEST, LIVE, r#"{"tool_response":{"function_responses":[{"id":"c1","name":"f","response":{"output":1},"willContinue":true}]}}"#);
    talk.say(
        REQUEST,
        LIVE,
        r#"{"toolResponse":{"functionResponses":[{"id":"c1","name":"f","response":{"output":2}}]}}"#,
    );
    assert_eq!(verdicts(&talk.all).iter().filter(|v| v["action"] == "block").count(), 0);
    let out = talk.say(CHUNK, LIVE, &tool_call("c2", "{}"));
    assert_eq!((calls(&out).len(), rules(&out, "tool_call", "schema_mismatch").len()), (0, 1));
    // Nothing is cut by the socket's end.
    talk.say(CLOSED, LIVE, "");
    assert_eq!(talk.cuts(), [""; 0]);
}

#[test]
fn a_cancelled_call_must_not_be_acted_on() {
    let engine = engine(Profile::Standard);
    let answer = r#"{"toolResponse":{"functionResponses":[{"id":"c1","name":"f","response":{"output":1}}]}}"#;
    let acts = [
        (STARTED, r#"{"call_id":"c1","tool":"f"}"#, "tool_start"),
        (RESULT, r#"{"call_id":"c1","outcome":"ok","content":"x"}"#, "tool_result"),
        (REQUEST, answer, "tool_result"),
    ];
    for (kind, data, checkpoint) in acts {
        for cancelled in ["c1", "c9"] {
            let mut talk = session(&engine);
            talk.say(CHUNK, LIVE, &tool_call("c1", r#"{"a":1}"#));
            let out = talk.say(CHUNK, LIVE, &json!({"toolCallCancellation": {"ids": [cancelled]}}).to_string());
            assert!(verdicts(&out).is_empty());
            let out = talk.say(kind, LIVE, data);
            let found = rules(&out, checkpoint, "acted_on_cancelled");
            assert_eq!(found.len(), usize::from(cancelled == "c1"), "{kind} {cancelled}");
            let blocked = verdicts(&out).iter().any(|v| v["checkpoint"] == checkpoint && v["action"] == "block");
            assert_eq!(blocked, cancelled == "c1", "{kind}");
        }
    }
}

/// Recordings of which nothing else states the calls: written by hand from the wire facts.
#[test]
fn recorded_streams_of_leaves_and_live_calls() {
    let Some(corpus) = shared("corpus") else { return };
    let table: &[(&str, &str, &[&str])] = &[
        (
            GENERATE,
            "stream-tool-call-arguments.stream",
            &[r#"getWeather {"location":"Boston"}"#, r#"getWeather {"location":"San Francisco"}"#],
        ),
        (
            GENERATE,
            "stream-tool-call-array-arguments-missing-terminal",
            &[
                r#"writeItems {"operations":[{"action":"add","description":"Fresh red apple","itemid":"apple_001","price":0.5},{"action":"add","description":"Ripe yellow banana","itemid":"banana_001","price":0.3}]}"#,
            ],
        ),
        (LIVE, "test_tool_call_round", &[r#"record_reading {"qbf_note":"steady","zqx_measurement":5}"#]),
        (LIVE, "asap_enqueue_waits", &["queue_followup {}"]),
        (LIVE, "google_ws_test_text_in_audio_out", &[]),
    ];
    let engine = engine(Profile::Off);
    for (provider, name, expected) in table {
        let found = files(&corpus.join("recorded").join(provider));
        let path = found.iter().find(|path| path.to_string_lossy().contains(name)).expect("the recording");
        let mut partition = Partition::new(&engine);
        let all: Vec<Emission> = lines(path).iter().flat_map(|line| partition.feed(line)).collect();
        assert_eq!(calls(&all), *expected, "{name}");
    }
    // The longest: ten ingredients of two strings, a name, ten steps in pieces.
    let path = files(&corpus.join("recorded").join(GENERATE));
    let path = path.iter().find(|path| path.to_string_lossy().contains("arguments-nested.1")).expect("the recording");
    let mut partition = Partition::new(&engine);
    let all: Vec<Emission> = lines(path).iter().flat_map(|line| partition.feed(line)).collect();
    let record = all.iter().find(|e| header(e, "ce_type") == Some("io.sluicegate.tool.call.v1")).map(body);
    let recipe = &record.expect("one call")["arguments"]["recipe"];
    assert_eq!(
        (&recipe["name"], &recipe["ingredients"][9]),
        (&json!("Lasagna"), &json!({"amount": "1/2 tsp", "name": "Pepper"}))
    );
    let sizes = ["ingredients", "steps"].map(|name| recipe[name].as_array().map_or(0, Vec::len));
    assert_eq!(sizes, [10, 10]);
    assert_eq!(recipe["steps"][1], "Cook lasagna noodles according to package directions, drain and set aside.");
    assert_eq!(recipe["steps"][4], "In a 9x13 baking dish, spread a thin layer of meat sauce.");
}

/// A record may end very many candidates: each costs its own size, not the exchange's.
#[test]
fn many_candidates_in_one_record() {
    let engine = engine(Profile::Standard);
    let candidate = |index: u32| json!({"index": index, "content": {}, "finishReason": "STOP"});
    let body = |many: u32| json!({"candidates": (0..many).map(candidate).collect::<Vec<_>>()}).to_string();
    let mut talk = Talk::new(&engine);
    assert!(talk.say(RESPONSE, GENERATE, &body(8_000)).is_empty());
    talk.chunk(&parts(json!([call("f", json!({}))]), Some("STOP")));
    assert_eq!(talk.calls(), ["f {}"]);
}

/// Golden records with any value put in the place of another: judged or refused, never a panic.
#[test]
fn mangled_records_are_judged() {
    let engine = engine(Profile::Strict);
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/golden/gemini");
    let mut fed = 0;
    for path in files(&golden) {
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = text.split_once("--- lines\n").unwrap();
        let (data, _) = rest.split_once("--- events").unwrap();
        let attribute = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let (kind, provider) = (attribute("ce_type: "), attribute("ce_provider: "));
        let mut talk = Talk::new(&engine);
        for line in data.lines() {
            for (at, _) in line.bytes().enumerate().filter(|(_, byte)| b":[".contains(byte)) {
                let end = line[at + 1..].find([',', '}', ']']).map_or(line.len(), |n| at + 1 + n);
                for value in ["null", "7", "\"\\ud800\"", "{}", "[[]]", "{\"functionCall\":{}}", "\"$.a\""] {
                    talk.say(kind, provider, &format!("{}{value}{}", &line[..=at], &line[end..]));
                    talk.all.clear();
                    fed += 1;
                }
            }
        }
        let panicked =
            |outcome: &Outcome| matches!(outcome, Outcome::Rejected(reject) if reject.label() == "engine_panic");
        assert!(!talk.partition.outcomes.iter().any(panicked), "{}", path.display());
    }
    assert!(fed > 1_000);
}

/// Sessions are recorded as one exchange each, with a closing behind every turn.
#[test]
fn recorded_sessions_are_let_through() {
    let Some(corpus) = shared("corpus") else { return };
    let engine = engine(Profile::Standard);
    let (mut judged, mut requests) = (0, 0);
    for path in files(&corpus.join("recorded").join(LIVE)) {
        let mut partition = Partition::new(&engine);
        let all: Vec<Emission> = lines(&path).iter().flat_map(|line| partition.feed(line)).collect();
        for verdict in verdicts(&all) {
            assert_eq!(verdict["action"], "allow", "{}: {verdict}", path.display());
            judged += 1;
            requests += usize::from(verdict["checkpoint"] == "model_request");
        }
    }
    assert!(judged > requests && requests > 5, "{judged} {requests}");
}

/// Found by fuzzing: what is no object has no error form, so the request that holds it is withheld.
#[test]
fn an_answer_that_is_no_object_is_not_made_one() {
    let engine = crate::support::engine(sluicegate::engine::policy::Profile::Standard);
    let event = |kind: &str, data: serde_json::Value| {
        let event = serde_json::json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
            "provider": "gemini.live", "conversation": "c", "responseid": "r", "data": data});
        event.to_string().into_bytes()
    };
    let mut partition = crate::support::Partition::new(&engine);
    let call = serde_json::json!({"functionCall": {"name": "f", "willContinue": true}});
    let lines = [
        event("model.request", serde_json::json!({"setup": {"model": "m"}})),
        event("model.chunk", serde_json::json!({"serverContent": {"modelTurn": {"parts": [call]}}})),
        event("model.chunk", serde_json::json!({"serverContent": {"turnComplete": true}})),
        event("model.request", serde_json::json!({"toolResponse": {"functionResponses": ["content"]}})),
    ];
    let all: Vec<_> = lines.iter().flat_map(|line| partition.feed(line)).collect();
    for copy in all.iter().filter(|e| e.to == sluicegate::engine::To::Redacted) {
        crate::support::body(copy);
    }
}
