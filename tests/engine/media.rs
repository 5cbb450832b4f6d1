//! Files in tool outputs: verdicts and copies, in the shapes in which hosts, servers and providers write them.

use crate::support::{Partition, body, engine, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::{OnePolicy, Policies, PolicySettings, Profile};
use sluicegate::engine::{Emission, Engine, To};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
const PDF: &str = "JVBERi0xLjQKJcOkCjIgMCBvYmoKPDw+Pgo=";
/// `<svg xmlns="http://www.w3.org/2000/svg"></svg>`
const SVG: &str = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjwvc3ZnPg==";
const RESULT: &str = "tool.result";
const REQUEST: &str = "model.request";

fn feed(partition: &mut Partition<'_>, provider: &str, kind: &str, data: &Value) -> Vec<Emission> {
    let event = json!({"specversion": "1.0", "id": "e", "source": "/fleet/a", "conversation": "c-1", "provider": provider,
        "type": format!("io.sluicegate.{kind}.v1"), "data": data});
    partition.feed(event.to_string().as_bytes())
}

/// Rules of SG13 with their effects and labels, over every verdict.
fn said(emissions: &[Emission]) -> Vec<String> {
    let verdicts = verdicts(emissions);
    let findings = verdicts.iter().flat_map(|verdict| verdict["findings"].as_array().cloned().unwrap_or_default());
    let ours = findings.filter(|finding| finding["policy"] == "SG13");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ours.map(|f| format!("{} {} {}", word(&f["rule"]), word(&f["effect"]), word(&f["evidence"]["label"]))).collect()
}

fn host(engine: &Engine, content: &Value) -> Vec<Emission> {
    let data = json!({"call_id": "call_1", "tool": "shot", "content": {"source": "s", "content": content}});
    feed(&mut Partition::new(engine), "openai.responses", RESULT, &data)
}

fn with(options: Value, profile: Profile) -> Engine {
    let mut settings = settings(profile);
    let Value::Object(options) = options else { panic!("options are an object") };
    settings.policy.policies.insert("SG13".to_owned(), OnePolicy { options, ..OnePolicy::default() });
    Engine::new(settings).unwrap_or_else(|problems| panic!("{problems:?}"))
}

#[test]
fn raw_output_holds_files_in_any_shape() {
    let engine = engine(Profile::Standard);
    let url = |kind: &str, data: &str| format!("data:{kind};base64,{data}");
    let shapes = |kind: &str, data: &str| {
        vec![
            json!([{"type": "text", "text": "see"}, {"type": "image", "mimeType": kind, "data": data}]),
            json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": kind, "blob": data}}),
            json!([{"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}]),
            json!([{"type": "document", "source": {"type": "base64", "media_type": kind, "data": data}}]),
            json!([{"type": "input_image", "image_url": url(kind, data)}]),
            json!({"type": "image_url", "image_url": {"url": url(kind, data)}}),
            json!([{"type": "input_file", "file_data": url(kind, data), "filename": "a"}]),
            json!([{"type": "file", "file": {"file_data": url(kind, data)}}]),
            json!({"parts": [{"inlineData": {"mimeType": kind, "data": data}}]}),
            json!({"parts": [{"inline_data": {"mime_type": kind, "data": data}}]}),
        ]
    };
    for shape in shapes("image/png", PNG) {
        assert_eq!(said(&host(&engine, &shape)), ["media_not_allowed allow png"], "{shape}");
    }
    for shape in shapes("image/png", PDF) {
        let all = host(&engine, &shape);
        assert_eq!(said(&all), ["type_mismatch block pdf", "media_not_allowed allow pdf"], "{shape}");
        let copy = all.iter().find(|e| e.to == To::Redacted).map(body).unwrap_or_default();
        assert_eq!(copy["data"]["content"], "[TOOL ERROR] output withheld by policy SG13", "{shape}");
    }
    // Data of a tool's own that only look like it.
    for shape in [
        json!({"type": "file", "data": "not base64", "name": "a"}),
        json!({"data": PNG}),
        json!({"type": "image", "data": {"rows": 1}}),
        json!({"mimeType": "image/png", "size": 3}),
        json!({"mimeType": "video/mp4", "url": "https://example.com/a.mp4"}),
        json!({"mimeType": "text/plain", "data": "the door is open"}),
        json!({"type": "image", "data": "/a/path.png"}),
        json!({"format": "pdf", "data": "the door is open"}),
        json!([{"type": "file", "name": "a.zip", "url": "https://example.com/a.zip"}]),
        json!(format!("see data:image/png;base64,{PDF}")),
    ] {
        assert_eq!(said(&host(&engine, &shape)), Vec::<String>::new(), "{shape}");
    }
}

#[test]
fn data_that_cannot_be_read_are_not_what_they_declare() {
    let engine = engine(Profile::Standard);
    for url in [
        "data:image/png;base64,%iVBORw0KGgoAAAAN",
        "data:image/png,abc",
        "data:image/png",
        "DATA:image/png;BASE64,aGVsbG8=",
        "data:image/png;base64,iVBO%Rw0KGgoAAAAN",
        "data:image/png;base64,",
        "data:image/png;base64,!!!",
        "data:image/png;base64,iV",
        "data:application/pdf;base64,====",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB!!!!",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB=AAA",
    ] {
        let found = said(&host(&engine, &json!([{"type": "input_image", "image_url": url}])));
        assert!(found.iter().any(|said| said.contains(" block ")), "{url}: {found:?}");
    }
    for url in [
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB",
        "data:image/png;base64,iVBORw0K GgoAAAAN\nSUhEUgAAAAEAAAAB==",
        "data:text/plain;base64,",
        "data:text/plain;base64,YQ==",
    ] {
        let found = said(&host(&engine, &json!([{"type": "input_image", "image_url": url}])));
        assert!(!found.iter().any(|said| said.contains(" block ")), "{url}: {found:?}");
    }
    // Text in another encoding: nobody here can read it, so it is no text.
    let latin = json!([{"type": "input_file", "file_data": "data:text/plain;base64,Z3L832U="}]);
    assert_eq!(said(&host(&engine, &latin)), ["media_not_allowed block other"]);
    // Text at first, something else behind the part that tells a type.
    let late = format!("{}AAAA", "YWFh".repeat(70_000));
    let late = json!([{"type": "input_file", "file_data": format!("data:text/plain;base64,{late}//79")}]);
    assert_eq!(said(&host(&engine, &late)), ["media_not_allowed block other"]);
}

#[test]
fn many_files_in_one_object_take_no_long_time() {
    let mut block = r#"{"type":"image""#.to_owned();
    block.extend((0..60_000).map(|_| r#","data":"iVBORw0KGgoAAAAN""#));
    block.push_str(r#","mimeType":"image/png"}"#);
    let message = format!(
        r#"{{"specversion":"1.0","id":"e","source":"/a","type":"io.sluicegate.mcp.message.v1","provider":"mcp",
        "conversation":"c","mcpserver":"s","direction":"server",
        "data":{{"jsonrpc":"2.0","id":1,"result":{{"content":[{block}]}}}}}}"#
    );
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    partition.feed(
        br#"{"specversion":"1.0","id":"d","source":"/a","type":"io.sluicegate.mcp.message.v1","provider":"mcp",
        "conversation":"c","mcpserver":"s","direction":"client",
        "data":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}}"#,
    );
    let all = partition.feed(message.as_bytes());
    assert!(verdicts(&all).iter().any(|verdict| verdict["action"] == "block"));
}

fn anthropic(blocks: &Value) -> Value {
    json!({"model": "m", "max_tokens": 9, "tools": [{"name": "shot", "input_schema": {"type": "object"}}], "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "shot", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": blocks}]}]})
}

#[test]
fn text_in_files_is_read_as_text_is() {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let engine = with(json!({"tools": {"shot": {"allowed_types": ["svg", "text"]}}}), Profile::Standard);
    let secret = format!("{}-{}", "glpat", "abcdefghij0123456789");
    for (kind, text) in [
        ("text/plain", format!("the token is {secret} and stays")),
        ("image/svg+xml", format!("<svg><desc>{secret}</desc></svg>")),
    ] {
        let block =
            json!({"type": "document", "source": {"type": "base64", "media_type": kind, "data": encode(&text)}});
        let mut partition = Partition::new(&engine);
        let all = feed(&mut partition, "anthropic.messages", REQUEST, &anthropic(&json!([block])));
        assert_eq!(said(&all), Vec::<String>::new());
        let found = verdicts(&all);
        let result = found.iter().find(|v| v["checkpoint"] == "tool_result").unwrap();
        assert!(result["findings"].as_array().unwrap().iter().any(|f| f["policy"] == "SG11"), "{result}");
        assert_eq!((&result["not_inspected"], &result["complete"]), (&json!([]), &json!(true)));
        let copy = all.iter().find(|e| e.to == To::Redacted).map(body).unwrap();
        let data = copy["data"]["messages"][2]["content"][0]["content"][0]["source"]["data"].as_str().unwrap();
        let data = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        let data = String::from_utf8(data).unwrap();
        assert!(!data.contains(&secret) && data.contains("[secret:"), "{data}");
        // What was made safe is safe.
        let again = feed(&mut Partition::new(&engine), "anthropic.messages", REQUEST, &copy["data"]);
        assert!(verdicts(&again).iter().all(|v| v["action"] == "allow"), "{again:?}");
    }
}

#[test]
fn a_tools_list_decides_first() {
    let engine = with(
        json!({"allowed_types": ["zip"], "tools": {"shot": {"allowed_types": ["svg"], "max_bytes": 1024}}}),
        Profile::Strict,
    );
    let result = |tool: &str, kind: &str, data: &str| {
        let content = json!({"source": "s", "content": [{"type": "image", "mimeType": kind, "data": data}]});
        let data = json!({"call_id": "call_1", "tool": tool, "content": content});
        said(&feed(&mut Partition::new(&engine), "openai.responses", RESULT, &data))
    };
    assert_eq!(result("shot", "image/svg+xml", SVG), Vec::<String>::new());
    assert_eq!(result("shot", "image/png", PNG), ["media_not_allowed block png"]);
    assert_eq!(result("shot", "application/zip", "UEsDBAoA"), ["media_not_allowed block zip"]);
    assert_eq!(result("empty", "application/zip", "UEsDBAoA"), Vec::<String>::new());
    assert_eq!(result("other", "image/png", PNG), ["media_not_allowed block png"]);
    assert_eq!(result("shot", "image/svg+xml", &format!("PHN2Zz4g{}", "ICAg".repeat(400))), ["media_too_large block "]);
}

#[test]
fn what_stands_elsewhere_is_said_once() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let pdf = json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}});
    let file = json!({"type": "image", "source": {"type": "file", "file_id": "file_1"}});
    let all = feed(&mut partition, "anthropic.messages", REQUEST, &anthropic(&json!([pdf, file])));
    let wanted = ["media_not_allowed allow unknown", "not_observed allow elsewhere", "media_not_allowed allow unknown"];
    let mut found = said(&all);
    found.sort();
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let other = json!([{"type": "image", "source": {"type": "url", "url": "https://example.com/b"}}]);
    let again = feed(&mut partition, "anthropic.messages", REQUEST, &anthropic(&other));
    assert_eq!(said(&again), ["media_not_allowed allow unknown"]);
    // What it declares is judged all the same.
    let clip = json!({"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "clip", "response": {"result": 1},
        "parts": [{"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/c.mp4"}}]}}]}]});
    let all = feed(&mut Partition::new(&engine), "gemini.generate_content", REQUEST, &clip);
    assert!(said(&all).contains(&"media_not_allowed block mp4".to_owned()), "{:?}", said(&all));
}

#[test]
fn files_of_tools_that_the_provider_ran() {
    let made = |data: Value| {
        json!({"id": "resp_1", "object": "response", "status": "completed", "output": [
            {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": data}]})
    };
    for (profile, effect) in [(Profile::Standard, "allow"), (Profile::Strict, "block")] {
        let engine = engine(profile);
        let all = feed(&mut Partition::new(&engine), "openai.responses", "model.response", &made(json!(PNG)));
        assert_eq!(said(&all), [format!("media_not_allowed {effect} png")]);
        let verdict = verdicts(&all).into_iter().find(|v| v["checkpoint"] == "server_result").unwrap();
        assert_eq!(verdict["action"], effect);
    }
    // A piece of a picture, too short to tell.
    let all =
        feed(&mut Partition::new(&engine(Profile::Standard)), "openai.responses", "model.response", &made(json!("i")));
    assert!(said(&all).iter().all(|said| said.contains(" allow ")), "{:?}", said(&all));
}

#[test]
fn pictures_of_the_users_beside_tools() {
    let engine = engine(Profile::Standard);
    let picture = json!({"type": "input_image", "image_url": "https://example.com/a.png"});
    let sound = json!({"type": "input_audio", "input_audio": {"format": "wav", "data": "UklGRgAAAABXQVZF"}});
    let request = |parts: Value, tools: Value| {
        let data = json!({"model": "m", "tools": tools, "input": [{"role": "user", "content": parts}]});
        feed(&mut Partition::new(&engine), "openai.responses", REQUEST, &data)
    };
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let all = request(json!([picture, sound, picture]), tools.clone());
    let verdict = &verdicts(&all)[0];
    let ours = verdict["findings"].as_array().unwrap().iter().find(|f| f["policy"] == "SG13").unwrap();
    assert_eq!((&ours["rule"], &ours["evidence"]["found"]), (&json!("user_media_with_tools"), &json!(2)));
    assert_eq!(ours["at"][0]["pointer"], "/input/0/content/0");
    assert_eq!(verdict["action"], "allow");
    assert_eq!(said(&request(json!([picture]), json!([]))), Vec::<String>::new());
    assert_eq!(said(&request(json!([sound]), tools)), Vec::<String>::new());
}

#[test]
fn options_that_cannot_hold_are_all_said() {
    let options = json!({"max_bytes": 1, "max_pixels": 0, "allowed_types": ["png", "image/png"],
        "tools": {"t": {"max_bytes": 99_999_999, "allowed_types": ["bitmap"]}}});
    let Value::Object(options) = options else { return };
    let one = OnePolicy { options, ..OnePolicy::default() };
    let problems =
        Policies::new(&PolicySettings { policies: [("SG13".to_owned(), one)].into(), ..PolicySettings::default() });
    let problems = problems.err().unwrap();
    let paths: Vec<&str> = problems.iter().filter_map(|p| p.path.strip_prefix("policies.SG13.options.")).collect();
    assert_eq!(paths, ["allowed_types.1", "max_bytes", "max_pixels", "tools.t.allowed_types.0", "tools.t.max_bytes"]);
}

/// A program beside `application/octet-stream` was taken for a tool's own data.
#[test]
fn raw_output_with_a_file_of_no_said_type() {
    let engine = crate::support::engine(sluicegate::engine::policy::Profile::Standard);
    let cases = [
        ("mimeType", "application/octet-stream", "f0VMRgIBAQAAAAAAAAAAAA==", "block"),
        ("media_type", "text/plain", "f0VMRgIBAQAAAAAAAAAAAA==", "block"),
        ("content_type", "image/png", "f0VMRgIBAQAAAAAAAAAAAA==", "block"),
        ("mimeType", "application/octet-stream", "aGVsbG8gdGhlcmU=", "redact"),
    ];
    for (name, kind, data, action) in cases {
        let event = serde_json::json!({"specversion": "1.0", "id": "e", "source": "/s", "conversation": "c",
            "type": "io.sluicegate.tool.result.v1",
            "data": {"call_id": "a", "tool": "f", "outcome": "ok", "content": {name: kind, "data": data}}});
        let mut partition = crate::support::Partition::new(&engine);
        let verdicts = crate::support::verdicts(&partition.feed(event.to_string().as_bytes()));
        assert_eq!(verdicts[0]["action"], action, "{name} {kind}: {}", verdicts[0]);
    }
}
