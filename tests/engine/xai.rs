//! What xAI does differently, through the whole engine.

use crate::support::{Partition, engine, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;

fn judge(provider: &str, records: &[(&str, Value)]) -> Vec<String> {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let mut found = Vec::new();
    for (kind, data) in records {
        let kind = format!("io.sluicegate.model.{kind}.v1");
        let line = json!({"specversion": "1.0", "id": "e", "source": "s", "type": kind, "provider": provider,
            "conversation": "c", "responseid": "r", "data": data});
        found.extend(verdicts(&partition.feed(line.to_string().as_bytes())));
    }
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let rules = |v: &Value| {
        let findings = v["findings"].as_array().into_iter().flatten().filter(|f| f["effect"] == "block");
        findings.map(|f| format!(" {}", text(&f["rule"]))).collect::<String>()
    };
    let shown = |v: &Value| {
        let subject = &v["subject"];
        let (id, tool, by) = (text(&subject["call_id"]), text(&subject["tool"]), text(&subject["executor"]));
        format!("{id} {tool} {by} {}{}", text(&v["action"]), rules(v))
    };
    found.iter().filter(|v| v["checkpoint"] == "tool_call").map(shown).collect()
}

fn done(index: u32, item: Value) -> (&'static str, Value) {
    ("chunk", json!({"type": "response.output_item.done", "output_index": index, "item": item}))
}

fn custom(id: &str, name: &str) -> Value {
    json!({"type": "custom_tool_call", "id": format!("ctc_{id}"), "call_id": id, "name": name, "input": "{}",
        "status": "completed"})
}

/// Only what bears both marks of xAI is taken for its own: the rest is the client's, and held to the request.
#[test]
fn x_search_is_told_by_id_and_name() {
    let tools = json!([{"type": "x_search"}, {"type": "custom", "name": "x_user_search"}]);
    let response = json!({"id": "11111111-0000", "status": "completed", "output": []});
    let records = [
        ("request", json!({"model": "m", "input": "hi", "tools": tools})),
        ("chunk", json!({"type": "response.created", "response": {"id": "11111111-0000", "output": []}})),
        done(0, custom("xs_call_1", "x_keyword_search")),
        done(1, custom("call_2", "x_keyword_search")),
        done(2, custom("xs_call_3", "run_shell")),
        done(3, custom("call_4", "x_user_search")),
        ("chunk", json!({"type": "response.completed", "response": response})),
    ];
    let expected = [
        "xs_call_1 x_keyword_search provider allow",
        "call_2 x_keyword_search client block unknown_tool",
        "xs_call_3 run_shell client block unknown_tool",
        "call_4 x_user_search client allow",
    ];
    assert_eq!(judge("xai.responses", &records), expected);
}

/// The text of a custom call is done long before its item, with other items in between; one delta is a whole text.
#[test]
fn items_interleave() {
    let at = |kind: &str, index: u32, name: &str, value: Value| {
        ("chunk", json!({"type": format!("response.{kind}"), "output_index": index, name: value}))
    };
    let function = |status: &str, text: &str| {
        json!({"type": "function_call", "id": "fc_1", "call_id": "call-1-0",
        "name": "send", "arguments": text, "status": status})
    };
    let begun = json!({"type": "custom_tool_call", "id": "ctc_0", "call_id": "xs_call_0", "name": "view_image",
        "input": "", "status": "in_progress"});
    let text = json!("{}");
    let records = [
        ("chunk", json!({"type": "response.created", "response": {"id": "1", "output": []}})),
        at("output_item.added", 0, "item", begun),
        at("custom_tool_call_input.delta", 0, "delta", text.clone()),
        at("custom_tool_call_input.done", 0, "input", text.clone()),
        at("output_item.added", 1, "item", function("in_progress", "")),
        at("function_call_arguments.delta", 1, "delta", text.clone()),
        at("function_call_arguments.done", 1, "arguments", text),
        at("output_item.done", 1, "item", function("completed", "{}")),
        done(0, custom("xs_call_0", "view_image")),
        ("chunk", json!({"type": "response.completed", "response": {"id": "1", "status": "completed"}})),
    ];
    let expected = ["xs_call_0 view_image provider allow", "call-1-0 send client allow"];
    assert_eq!(judge("xai.responses", &records), expected);
}

/// Empty call ids are none: items that bear them do not collide.
#[test]
fn empty_ids_do_not_collide() {
    let code = |id: &str| {
        json!({"type": "code_interpreter_call", "id": id, "call_id": "", "name": "code_execution",
        "arguments": "{\"code\":\"1\"}", "status": "completed",
        "outputs": [{"type": "logs", "logs": "{\"stdout\":\"1\"}"}]})
    };
    let search = json!({"type": "x_search_call", "id": "xs_3", "call_id": "", "name": "x_search", "arguments": "{}"});
    let body =
        json!({"id": "1", "object": "response", "status": "completed", "output": [code("fc_1"), code("fc_2"), search]});
    let expected = ["fc_1 code_execution provider allow", "fc_2 code_execution provider allow"];
    assert_eq!(judge("xai.responses", &[("response", body)]), expected);
    assert_eq!(judge("xai.responses", &[("response", json!({"code": "c", "error": "m"}))]), [""; 0]);
}

#[test]
fn chat_sends_whole_calls() {
    let chunk = |delta: Value, finish: Value| {
        ("chunk", json!({"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let call = |index: u32, id: &str| {
        json!({"index": index, "id": id, "type": "function",
        "function": {"name": "send", "arguments": "{}"}})
    };
    let records = [
        chunk(json!({"reasoning_content": "r"}), Value::Null),
        chunk(json!({"tool_calls": [call(0, "a"), call(1, "b")]}), Value::Null),
        chunk(json!({}), json!("tool_calls")),
        ("chunk", json!({"id": "1", "choices": [], "usage": {}})),
    ];
    assert_eq!(judge("xai.chat", &records), ["a send client allow", "b send client allow"]);
}
