//! Ways around a verdict that do not work: what a model, a tool server or a proxy may write so that a call is
//! allowed although it differs from what was declared, or from what a client would run. Each scenario is a list
//! of records of one conversation; the last call in it must be blocked by the named rule.

use crate::support::{Partition, engine, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;

const REQUEST: &str = "io.sluicegate.model.request.v1";
const CHUNK: &str = "io.sluicegate.model.chunk.v1";

/// Provider, `responseid` (none if empty), `type`, data.
type Record = (&'static str, &'static str, &'static str, Value);

fn schema() -> Value {
    json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false})
}

fn anthropic_request(id: &'static str) -> Record {
    let tools = json!([{"name": "f", "input_schema": schema()}]);
    (
        "anthropic.messages",
        id,
        REQUEST,
        json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools}),
    )
}

fn openai_request(id: &'static str, schema: Value) -> Record {
    let tools = json!([{"type": "function", "name": "f", "parameters": schema}]);
    ("openai.responses", id, REQUEST, json!({"model": "m", "input": "x", "tools": tools}))
}

fn anthropic(id: &'static str, events: Vec<Value>) -> Vec<Record> {
    events.into_iter().map(|event| ("anthropic.messages", id, CHUNK, event)).collect()
}

fn openai(id: &'static str, events: Vec<Value>) -> Vec<Record> {
    events.into_iter().map(|event| ("openai.responses", id, CHUNK, event)).collect()
}

fn start(id: &str) -> Value {
    json!({"type": "message_start", "message": {"id": id, "type": "message", "role": "assistant", "content": []}})
}

fn block(name: &str, text: &str) -> Vec<Value> {
    vec![
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t1", "name": name, "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}})
}

fn call(name: &str, text: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name, "arguments": text, "status": "completed"})
}

fn done(item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": 0, "item": item})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": output}})
}

/// Typed tools of the provider's own.
fn openai_typed(id: &'static str, tools: Value) -> Record {
    ("openai.responses", id, REQUEST, json!({"model": "m", "input": "x", "tools": tools}))
}

/// The output of a tool search.
fn found() -> Value {
    json!({"type": "tool_search_output", "id": "tso_1", "call_id": "c0", "execution": "server", "status": "completed",
        "tools": [{"type": "function", "name": "late", "parameters": schema()}]})
}

fn judge(records: &[Record]) -> Vec<Value> {
    let mut found = judge_all(records);
    found.retain(|v| v["checkpoint"] == "tool_call");
    found
}

fn judge_all(records: &[Record]) -> Vec<Value> {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let mut found = Vec::new();
    for (n, (provider, id, kind, data)) in records.iter().enumerate() {
        let mut line = json!({"specversion": "1.0", "id": format!("e{n}"), "source": "s", "type": kind,
            "provider": provider, "conversation": "c", "data": data});
        if !id.is_empty() {
            line["responseid"] = json!(id);
        }
        found.extend(verdicts(&partition.feed(line.to_string().as_bytes())));
    }
    found
}

#[test]
fn no_way_around_a_verdict() {
    let join = |parts: Vec<Vec<Record>>| parts.concat();
    let then = |head: Vec<Value>, tail: Vec<Value>| [head, tail].concat();
    let look_around = json!({"type": "object", "required": ["path"],
        "properties": {"a": {"type": "string", "pattern": "^(?!evil).*$"}, "path": {"enum": ["/tmp"]}}});
    let padded = format!("{{\"a\":\"x\",\"path\":\"/etc/shadow\"}}{}", " ".repeat(9000));
    let many: Vec<Value> = (0..1100).map(|n| json!({"name": format!("t{n}"), "input_schema": {}})).collect();
    let listed = json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "remote", "tools": many});
    let evil = json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "remote", "tools": [{"name": "evil", "input_schema": {}}]});
    let looser = json!({"type": "additional_tools", "id": "at_1", "role": "developer",
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]});
    let added = |name: &str| {
        json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name, "arguments": "", "status": "in_progress"}})
    };
    let at =
        |index: u32, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let custom = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "f", "input": "rm -rf /", "status": "completed"});
    let refusal = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "refusal", "refusal": "no"}]});
    let failed = json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [],
        "error": {"code": "server_error", "message": "m"}}});
    let cases: Vec<(&str, &str, Vec<Record>)> = vec![
        (
            "a second message_start moves the call away from its request",
            "unknown_tool",
            join(vec![
                vec![anthropic_request("")],
                anthropic("", then(vec![start("m1"), start("m2")], block("g", "{}"))),
            ]),
        ),
        (
            "the response says another exchange id",
            "unknown_tool",
            join(vec![vec![anthropic_request("A")], anthropic("B", then(vec![start("m1")], block("g", "{}")))]),
        ),
        (
            "a tool server lists more tools than are kept",
            "unknown_tool",
            join(vec![
                vec![openai_request("r", schema())],
                openai("r", vec![created(), done(listed), at(1, call("g", "{}")), completed(json!([]))]),
            ]),
        ),
        (
            "a tool server lists the client's tool",
            "unknown_tool",
            join(vec![
                vec![openai_request("r", schema())],
                openai("r", vec![created(), done(evil), at(1, call("evil", "{}")), completed(json!([]))]),
            ]),
        ),
        (
            "a late definition loosens the request's own",
            "schema_mismatch",
            join(vec![
                vec![openai_request("r", schema())],
                openai("r", vec![created(), done(looser), at(1, call("f", "{\"b\":1}")), completed(json!([]))]),
            ]),
        ),
        (
            "white space makes the text too long for a pattern",
            "schema_mismatch",
            join(vec![
                vec![openai_request("r", look_around)],
                openai("r", vec![created(), done(call("f", &padded)), completed(json!([]))]),
            ]),
        ),
        (
            "a function is called as free text",
            "wrong_form",
            join(vec![
                vec![openai_request("r", schema())],
                openai("r", vec![created(), done(custom), completed(json!([]))]),
            ]),
        ),
        (
            "the item at its end has another name than at its start",
            "args_mismatch",
            join(vec![
                vec![openai_request("r", schema())],
                openai("r", vec![created(), added("danger"), done(call("f", "{\"a\":1}")), completed(json!([]))]),
            ]),
        ),
        (
            "the final list has another name than the item",
            "args_mismatch",
            join(vec![
                vec![openai_request("r", schema())],
                openai(
                    "r",
                    vec![created(), done(call("f", "{\"a\":1}")), completed(json!([call("danger", "{\"a\":1}")]))],
                ),
            ]),
        ),
        (
            "the provider's shell, which has an item of its own, is called as a function",
            "wrong_form",
            join(vec![
                vec![openai_typed("r", json!([{"type": "shell", "environment": {"type": "local"}}]))],
                openai("r", vec![created(), done(call("shell", "{\"commands\":[]}")), completed(json!([]))]),
            ]),
        ),
        (
            "behind a tool search, whose output was seen, a name that it did not bring",
            "unknown_tool",
            join(vec![
                vec![openai_typed("r", json!([{"type": "tool_search"}]))],
                openai("r", vec![created(), done(found()), at(1, call("g", "{}")), completed(json!([]))]),
            ]),
        ),
        (
            "a search's output that the client sends does not bring the name either",
            "unknown_tool",
            join(vec![
                vec![(
                    "openai.responses",
                    "r",
                    REQUEST,
                    json!({"model": "m", "input": [found()], "tools": [{"type": "tool_search", "execution": "client"}]}),
                )],
                openai("r", vec![created(), done(call("g", "{}")), completed(json!([]))]),
            ]),
        ),
        (
            "a refusal stands beside the call, and the response is completed",
            "cut_call",
            join(vec![
                vec![openai_request("r", schema())],
                openai("r", vec![created(), done(refusal), at(1, call("f", "{\"a\":1}")), completed(json!([]))]),
            ]),
        ),
        (
            "the response is completed with an error in it",
            "cut_call",
            join(vec![
                vec![openai_request("r", schema())],
                openai("r", vec![created(), done(call("f", "{\"a\":1}")), failed]),
            ]),
        ),
    ];
    let mut passed = Vec::new();
    for (what, rule, records) in cases {
        let found = judge(&records);
        let blocked = found.iter().any(|v| {
            v["action"] == "block" && v["findings"].as_array().is_some_and(|f| f.iter().any(|f| f["rule"] == rule))
        });
        let allowed = found.iter().any(|v| v["action"] != "block");
        if !blocked || allowed {
            passed.push(format!("{what}: {found:?}"));
        }
    }
    assert!(passed.is_empty(), "{}", passed.join("\n"));
    // The same without the trick passes, so that the rules above are what blocks.
    let clean =
        join(vec![vec![anthropic_request("")], anthropic("", then(vec![start("m1")], block("f", "{\"a\":1}")))]);
    assert!(judge(&clean).iter().all(|v| v["action"] == "allow"));
    let searched = join(vec![
        vec![openai_typed("r", json!([{"type": "tool_search"}]))],
        openai("r", vec![created(), done(found()), at(1, call("late", "{\"a\":1}")), completed(json!([]))]),
    ]);
    assert!(judge(&searched).iter().all(|v| v["action"] == "allow" && v["complete"] == true));
    let shell = json!({"type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed",
        "environment": {"type": "local"}, "action": {"commands": ["ls"]}});
    let typed = join(vec![
        vec![openai_typed("r", json!([{"type": "shell", "environment": {"type": "local"}}]))],
        openai("r", vec![created(), done(shell), completed(json!([]))]),
    ]);
    assert!(judge(&typed).iter().all(|v| v["action"] == "allow"));
}

/// A client may write what looks like the output of a tool that the provider ran: what this conversation did
/// not see come from a provider is judged, and what it saw is not judged again.
#[test]
fn an_echoed_server_result_is_judged_once() {
    let text = "t".repeat(100);
    let large = "t".repeat(3 << 20);
    let result = |text: &str| {
        json!({"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content":
        {"type": "web_fetch_result", "url": "https://e.example", "content": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}}})
    };
    let request = |text: &str| {
        let content =
            json!([{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {}}, result(text)]);
        let messages = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": content}, {"role": "user", "content": "y"}]);
        ("anthropic.messages", "", REQUEST, json!({"model": "m", "messages": messages}))
    };
    let fetched = |text: &str| {
        let events = vec![
            start("m1"),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {}}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": result(text)}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ];
        anthropic("", events)
    };
    let said = |records: &[Record]| {
        let all = judge_all(records).into_iter();
        let rows = all.map(|v| format!("{} {}", v["checkpoint"].as_str().unwrap(), v["action"].as_str().unwrap()));
        rows.filter(|row| !row.starts_with("tool_call")).collect::<Vec<_>>()
    };
    let echo = |first: &str, then: &str| [fetched(first), vec![request(then)]].concat();
    assert_eq!(said(&echo(&text, &text)), ["server_result allow", "model_request allow"]);
    assert_eq!(said(&echo(&text, "other")), ["server_result allow", "server_result allow", "model_request allow"]);
    // What the provider gave and was blocked is in the history already; what nobody saw is not sent.
    assert_eq!(said(&echo(&large, &large)), ["server_result block", "model_request allow"]);
    assert_eq!(said(&[request(&large)]), ["server_result block", "model_request block"]);
    assert_eq!(said(&[request(&text), request(&text)]).len(), 3, "once a conversation");
}
