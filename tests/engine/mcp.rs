//! MCP messages through the whole engine: calls, answers by what was asked, lists, cancellations.

use crate::support::{self, Partition, body, files, header, lines, settings, shared, trusting as engine, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Emission, Engine, Input, Observation, OnBlock, Out, Outcome, To};

/// One conversation, fed message by message.
struct Connection<'e> {
    engine: &'e Engine,
    state: PartitionState,
    out: Out,
    offset: i64,
    server: &'static str,
}

/// What one record gave.
#[derive(Debug)]
struct Gave {
    outcome: Outcome,
    emissions: Vec<Emission>,
    opaque: Vec<&'static str>,
}

impl<'e> Connection<'e> {
    fn new(engine: &'e Engine) -> Self {
        let mut state = PartitionState::new();
        state.begin();
        Self { engine, state, out: Out::default(), offset: 0, server: "docs" }
    }
    /// As the server of another name.
    fn of(&mut self, server: &'static str) -> &mut Self {
        self.server = server;
        self
    }
    fn client(&mut self, data: Value) -> Gave {
        self.send(Some("client"), &data.to_string())
    }
    fn server(&mut self, data: Value) -> Gave {
        self.send(Some("server"), &data.to_string())
    }
    fn send(&mut self, direction: Option<&str>, data: &str) -> Gave {
        let mut attributes = vec![("ce_mcpserver", self.server)];
        attributes.extend(direction.map(|side| ("ce_direction", side)));
        self.put("mcp.message", &attributes, data)
    }
    /// Without a word of who sent it.
    fn unsaid(&mut self, data: Value) -> Gave {
        self.send(None, &data.to_string())
    }
    /// A host's event, of the server that is named.
    fn host(&mut self, kind: &str, server: Option<&str>, data: Value) -> Gave {
        let attributes: Vec<_> = server.map(|server| ("ce_mcpserver", server)).into_iter().collect();
        self.put(kind, &attributes, &data.to_string())
    }
    fn model(&mut self, kind: &str, response: &str, data: Value) -> Gave {
        self.put(kind, &[("ce_provider", "openai.chat"), ("ce_responseid", response)], &data.to_string())
    }
    fn put(&mut self, kind: &str, attributes: &[(&str, &str)], data: &str) -> Gave {
        let kind = format!("io.sluicegate.{kind}.v1");
        let mut headers: Vec<(&str, Option<&[u8]>)> = vec![
            ("ce_id", Some(b"e")),
            ("ce_source", Some(b"s")),
            ("ce_specversion", Some(b"1.0")),
            ("ce_type", Some(kind.as_bytes())),
            ("ce_conversation", Some(b"talk")),
        ];
        headers.extend(attributes.iter().map(|(name, value)| (*name, Some(value.as_bytes()))));
        let input = Input {
            topic: "t",
            partition: 0,
            offset: self.offset,
            timestamp: Some(self.offset),
            key: Some(b"talk"),
            headers: &headers,
            value: Some(data.as_bytes()),
        };
        self.offset += 1;
        let outcome = self.engine.step(&mut self.state, &input, &mut self.out);
        let opaque = self.out.observations.iter().filter_map(|o| match o {
            Observation::Opaque { kind, provider, .. } => {
                assert_eq!(*provider, Some(Provider::Mcp));
                Some(*kind)
            }
            _ => None,
        });
        Gave { outcome, opaque: opaque.collect(), emissions: self.out.emissions.clone() }
    }
}

impl Gave {
    fn verdicts(&self) -> Vec<Value> {
        verdicts(&self.emissions)
    }
    /// The only verdict, as `checkpoint tool call_id action rules`.
    fn line(&self) -> String {
        let verdicts = self.verdicts();
        let [verdict] = &verdicts[..] else { panic!("{verdicts:#?}") };
        line(verdict)
    }
    fn silent(&self) -> bool {
        self.emissions.is_empty() && self.outcome == Outcome::Passed
    }
    /// The data of the only record on the redacted topic.
    fn record(&self) -> Value {
        let records: Vec<&Emission> = self.emissions.iter().filter(|e| e.to == To::Redacted).collect();
        let [record] = records[..] else { panic!("{} records", records.len()) };
        body(record)
    }
    fn records(&self) -> usize {
        self.emissions.iter().filter(|e| e.to == To::Redacted).count()
    }
}

fn line(verdict: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let quiet = ["not_observed", "no_schema"];
    let rules: Vec<&str> = verdict["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|f| f["rule"].as_str())
        .filter(|rule| !quiet.contains(rule))
        .collect();
    let subject = &verdict["subject"];
    format!(
        "{} {} {} {} [{}]",
        text(&verdict["checkpoint"]),
        text(&subject["tool"]),
        text(&subject["call_id"]),
        text(&verdict["action"]),
        rules.join(",")
    )
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let id: Value = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn request(id: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})
}

fn result(id: impl Into<Value>, result: Value) -> Value {
    let id: Value = id.into();
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn text(id: impl Into<Value>, text: &str) -> Value {
    result(id, json!({"content": [{"type": "text", "text": text}]}))
}

fn notice(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn tool(name: &str, required: &str) -> Value {
    let schema = json!({"type": "object", "properties": {required: {"type": "string"}}, "required": [required]});
    json!({"name": name, "description": "d", "inputSchema": schema})
}

fn listed(c: &mut Connection<'_>, id: u64, tools: Value) {
    assert!(c.client(request(id, "tools/list")).silent());
    let gave = c.server(result(id, json!({"tools": tools})));
    // Nobody approved them: what is listed is a fact all the same.
    assert!(gave.verdicts().iter().all(|verdict| verdict["checkpoint"] == "tool_definitions"));
}

#[test]
fn a_call_is_final_at_once_and_its_answer_is_its_result() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let gave = c.client(call(3, "find", json!({"q": "x"})));
    assert_eq!(gave.line(), "tool_call find 3 allow []");
    let record = gave.record();
    assert_eq!((&record["call_id"], &record["tool"], &record["server"]), (&json!("3"), &json!("find"), &json!("docs")));
    assert_eq!((&record["executor"], &record["arguments"]), (&json!("client"), &json!({"q": "x"})));
    let answer = text(3, "found");
    let gave = c.server(answer.clone());
    assert_eq!(gave.line(), "tool_result find 3 allow []");
    assert_eq!(gave.verdicts()[0]["subject"]["server"], "docs");
    assert_eq!(gave.verdicts()[0]["content_bytes"], 5);
    assert_eq!(gave.record(), answer, "a copy is always published");
    let copy = gave.emissions.iter().find(|e| e.to == To::Redacted).unwrap();
    assert_eq!(header(copy, "ce_sgaction"), Some("allow"));
    assert_eq!(header(copy, "ce_id"), gave.verdicts()[0]["verdict_id"].as_str());
}

#[test]
fn arguments_that_are_missing_are_an_empty_object() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "now"}});
    let gave = c.client(bare);
    assert_eq!(gave.record()["arguments"], json!({}));
    // One that asks for no answer would be run by a lax server.
    let gave = c.client(json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "now"}}));
    assert_eq!(gave.line(), "tool_call now - allow []");
}

#[test]
fn ids_are_numbered_by_type_side_and_server() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "number", json!({})));
    c.client(call("1", "string", json!({})));
    // The server asks under the same id; its own answer is not the client's.
    assert!(c.server(request(1, "roots/list")).silent());
    c.of("other").client(call(1, "elsewhere", json!({})));
    // Out of order.
    assert_eq!(c.server(text(1, "a")).line(), "tool_result elsewhere 1 allow []");
    c.of("docs");
    assert_eq!(c.server(text("1", "b")).line(), "tool_result string 1 allow []");
    assert!(c.client(result(1, json!({"roots": []}))).emissions.is_empty());
    assert_eq!(c.server(text(1, "c")).line(), "tool_result number 1 allow []");
}

#[test]
fn an_answer_that_nothing_waits_for_is_blocked() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    // Nothing of the client was seen: the answer is judged without its request.
    assert_eq!(c.server(text(9, "x")).line(), "tool_result - 9 allow [request_unseen]");
    c.client(call(1, "find", json!({})));
    let gave = c.server(text(2, "forged"));
    assert_eq!(gave.line(), "tool_result - 2 block [response_unasked]");
    let withheld = json!({"code": -32603, "message": "[TOOL ERROR] output withheld by policy SG00"});
    assert_eq!(gave.record(), json!({"jsonrpc": "2.0", "id": 2, "error": withheld}));
    assert_eq!(c.server(text("1", "other type")).line(), "tool_result - 1 block [response_unasked]");
    assert_eq!(c.server(text(1, "first")).line(), "tool_result find 1 allow []");
    let gave = c.server(result(1, json!({"content": [], "structuredContent": {"a": 1}, "_meta": {"m": 1}})));
    assert_eq!(gave.line(), "tool_result find 1 block [response_repeated]");
    let content = json!([{"type": "text", "text": "[TOOL ERROR] output withheld by policy SG00"}]);
    assert_eq!(gave.record()["result"], json!({"content": content, "isError": true}));
    // An error may say that it does not know what it answers.
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m"}});
    assert_eq!(c.server(error).line(), "tool_result - - allow [request_unseen]");
    let gave = c.server(json!({"jsonrpc": "2.0", "result": {"content": []}}));
    assert_eq!(gave.line(), "tool_result - - block [response_unasked]");
    // The client may ask under an old id again.
    c.client(call(1, "again", json!({})));
    assert_eq!(c.server(text(1, "new")).line(), "tool_result again 1 allow []");
}

#[test]
fn what_was_cancelled_has_no_answer() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "find", json!({})));
    // The server takes back its own requests only.
    let taken = notice("notifications/cancelled", json!({"requestId": 1}));
    assert_eq!(c.server(taken.clone()).opaque, ["mcp_cancel"]);
    assert!(c.client(taken.clone()).silent());
    assert_eq!(c.server(text(1, "late")).line(), "tool_result find 1 block [response_cancelled]");
    c.client(call(2, "find", json!({})));
    c.server(text(2, "x"));
    let late = notice("notifications/cancelled", json!({"requestId": 2}));
    assert_eq!(c.client(late).opaque, ["mcp_cancel"], "it was answered already");
}

#[test]
fn an_answer_is_read_by_what_was_asked() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "find", json!({})));
    // A list in answer to a call is that call's output, and declares nothing.
    let gave = c.server(result(1, json!({"tools": [tool("evil", "a")]})));
    assert_eq!(gave.line(), "tool_result find 1 allow []");
    assert_eq!(gave.verdicts()[0]["complete"], false);
    assert_eq!(gave.verdicts()[0]["not_inspected"][0]["kind"], "member");
    assert_eq!(c.client(call(2, "evil", json!({}))).line(), "tool_call evil 2 allow []");
    // Content in answer to a list is no output.
    c.client(request(3, "tools/list"));
    assert_eq!(c.server(text(3, "x")).opaque, ["mcp_answer"]);
    for (id, method, answer) in [
        (4, "resources/read", json!({"contents": [{"uri": "u:1", "text": "inside"}]})),
        (5, "prompts/get", json!({"messages": [{"role": "user", "content": {"type": "text", "text": "inside"}}]})),
        (6, "tasks/result", json!({"content": [{"type": "text", "text": "inside"}]})),
    ] {
        assert!(c.client(request(id, method)).silent());
        let gave = c.server(result(id, answer));
        assert_eq!(gave.line(), format!("tool_result {method} {id} allow []"));
        assert_eq!(gave.verdicts()[0]["complete"], true);
        assert_eq!(gave.records(), 1);
    }
}

#[test]
fn calls_are_held_against_the_servers_latest_list() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let misfit = |id: u64| call(id, "find", json!({"q": 7}));
    let block = |id: u64| format!("tool_call find {id} block [schema_mismatch]");
    assert_eq!(c.client(misfit(1)).line(), "tool_call find 1 allow []", "nothing was listed");
    listed(&mut c, 2, json!([tool("find", "q")]));
    assert_eq!(c.client(misfit(3)).line(), block(3));
    assert_eq!(c.client(call(4, "find", json!({"q": "x"}))).line(), "tool_call find 4 allow []");
    assert_eq!(c.client(call(5, "gone", json!({}))).line(), "tool_call gone 5 block [unknown_tool]");
    // Another server's list is its own.
    assert_eq!(c.of("other").client(call(5, "find", json!({}))).line(), "tool_call find 5 allow []");
    c.of("docs");
    // Stale: what it declares still holds, what it does not may have come.
    assert!(c.server(notice("notifications/tools/list_changed", json!({}))).silent());
    assert_eq!(c.client(misfit(6)).line(), "tool_call find 6 block [schema_mismatch,stale_list]");
    assert_eq!(c.client(call(7, "gone", json!({}))).line(), "tool_call gone 7 block [stale_list]");
    listed(&mut c, 8, json!([tool("gone", "a")]));
    assert_eq!(c.client(call(9, "gone", json!({}))).line(), "tool_call gone 9 block [schema_mismatch]");
    assert_eq!(c.client(call(10, "find", json!({}))).line(), "tool_call find 10 block [unknown_tool]");
    // The same list again is fresh again.
    c.server(notice("notifications/tools/list_changed", json!({})));
    listed(&mut c, 11, json!([tool("gone", "a")]));
    assert_eq!(c.client(call(12, "find", json!({}))).line(), "tool_call find 12 block [unknown_tool]");
    // One that was not asked for changes nothing, and is blocked.
    let gave = c.server(result(40, json!({"tools": [tool("find", "x")]})));
    assert_eq!(gave.line(), "tool_result - 40 block [response_unasked]");
    assert_eq!(c.client(call(13, "find", json!({}))).line(), "tool_call find 13 block [unknown_tool]");
    listed(&mut c, 14, json!([]));
    assert_eq!(c.client(call(15, "gone", json!({}))).line(), "tool_call gone 15 block [unknown_tool]");
}

#[test]
fn pages_of_a_list_add_up() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let page = |id: u64, cursor: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"cursor": cursor}});
    c.client(request(1, "tools/list"));
    c.server(result(1, json!({"tools": [tool("one", "a")], "nextCursor": "2"})));
    assert_eq!(c.client(call(2, "two", json!({}))).line(), "tool_call two 2 allow []", "more may come");
    c.client(page(3, "2"));
    c.server(result(3, json!({"tools": [tool("two", "a")]})));
    let mut check = |id: u64, tool: &str, rule: &str| {
        let gave = c.client(call(id, tool, json!({})));
        assert_eq!(gave.line(), format!("tool_call {tool} {id} block [{rule}]"));
    };
    check(4, "one", "schema_mismatch");
    check(5, "two", "schema_mismatch");
    check(6, "three", "unknown_tool");
    // The first page alone is another list than both.
    listed(&mut c, 7, json!([tool("one", "a")]));
    assert_eq!(c.client(call(8, "two", json!({}))).line(), "tool_call two 8 block [unknown_tool]");
}

#[test]
fn a_call_that_waits_for_input_goes_on() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let asks = json!({"resultType": "input_required", "requestState": "opaque",
        "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "m"}}}});
    let retry = |id: u64, tool: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments,
            "inputResponses": {"k": {}}, "requestState": "opaque"}})
    };
    assert_eq!(c.client(call(1, "book", json!({"a": 1}))).line(), "tool_call book 1 allow []");
    let gave = c.server(result(1, asks.clone()));
    assert!(gave.emissions.is_empty());
    assert_eq!(gave.opaque, ["mcp_input_required"]);
    assert!(c.client(retry(2, "book", json!({"a": 1}))).silent(), "one logical call has one verdict");
    assert_eq!(c.server(text(1, "x")).line(), "tool_result book 1 block [response_repeated]");
    assert!(c.server(result(2, asks.clone())).emissions.is_empty());
    assert!(c.client(retry(3, "book", json!({"a": 1}))).silent());
    assert_eq!(c.server(text(3, "done")).line(), "tool_result book 3 allow []");
    // Nothing waits any more, so these are calls of their own; so is one with other arguments.
    assert_eq!(c.client(retry(4, "book", json!({"a": 1}))).line(), "tool_call book 4 allow []");
    c.server(result(4, asks.clone()));
    assert_eq!(c.client(retry(5, "book", json!({"a": 2}))).line(), "tool_call book 5 allow []");
    assert_eq!(c.client(retry(6, "cancel", json!({"a": 1}))).line(), "tool_call cancel 6 allow []");
    assert_eq!(c.client(call(7, "book", json!({"a": 1}))).line(), "tool_call book 7 allow []", "no retry");
}

#[test]
fn a_failed_call_is_a_result() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "find", json!({})));
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such", "data": {"k": "v"}}});
    let gave = c.server(error.clone());
    assert_eq!(gave.line(), "tool_result find 1 allow []");
    assert_eq!(gave.verdicts()[0]["content_bytes"], 16);
    assert_eq!(gave.record(), error);
    c.client(call(2, "find", json!({})));
    let gave = c.server(result(2, json!({"content": [{"type": "text", "text": "no"}], "isError": true})));
    assert_eq!(gave.line(), "tool_result find 2 allow []");
}

#[test]
fn output_is_cut_within_the_message() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "read", json!({})));
    let long = "line\n".repeat(20_000);
    let gave = c.server(result(
        1,
        // What the server says of limits raises none.
        json!({"content": [{"type": "text", "text": long}], "_meta": {"max_bytes": 9_000_000, "anthropic/maxResultSizeChars": 500_000}}),
    ));
    assert_eq!(gave.line(), "tool_result read 1 redact [oversize_result]");
    let copy = gave.record();
    let kept = copy["result"]["content"][0]["text"].as_str().unwrap();
    assert!(kept.len() <= 65_536 && kept.contains("[sluicegate: "), "{}", kept.len());
    assert_eq!(
        (&copy["jsonrpc"], &copy["id"], &copy["result"]["_meta"]["max_bytes"]),
        (&json!("2.0"), &json!(1), &json!(9_000_000))
    );
    // The structured twin is cut too, in its strings: a client holds it against the tool's schema.
    c.client(call(2, "read", json!({})));
    let twin = |body: &str| json!({"content": [], "structuredContent": {"rows": [1, 2], "body": body, "uri": "u:1"}});
    let gave = c.server(result(2, twin(&long)));
    assert_eq!(gave.line(), "tool_result read 2 redact [oversize_result]");
    let copy = gave.record();
    let kept = copy["result"]["structuredContent"]["body"].as_str().unwrap();
    assert!(kept.len() < 65_536 && kept.contains("[sluicegate: "));
    assert_eq!(copy["result"], twin(kept));
    // What no string can be cut from is withheld: a shorter list would pass for the whole.
    c.client(call(3, "read", json!({})));
    let rows: Vec<u32> = (0..40_000).collect();
    let gave = c.server(result(3, json!({"content": [], "structuredContent": {"rows": rows}})));
    assert_eq!(gave.line(), "tool_result read 3 block [uncuttable_result,oversize_result]");
    assert_eq!(gave.record()["result"]["isError"], true);
}

#[test]
fn a_blocked_output_is_an_error_or_withheld() {
    let big = json!({"content": [{"type": "text", "text": "x".repeat(3 << 20)}], "structuredContent": {"a": 1}});
    for (on_block, records) in [(OnBlock::ErrorForm, 1), (OnBlock::Withhold, 0)] {
        let mut settings = settings(Profile::Standard);
        settings.redacted.on_block = Some(on_block);
        let engine = Engine::new(settings).unwrap();
        let mut c = Connection::new(&engine);
        c.client(call(1, "read", json!({})));
        let gave = c.server(result(1, big.clone()));
        assert_eq!(gave.line(), "tool_result read 1 block [hard_limit]");
        assert_eq!(gave.records(), records);
        if records == 1 {
            let content = json!([{"type": "text", "text": "[TOOL ERROR] output withheld by policy SG01"}]);
            assert_eq!(gave.record(), result(1, json!({"content": content, "isError": true})));
        }
    }
}

#[test]
fn a_batch_is_its_messages_with_one_copy() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let gave = c.client(json!([call(1, "a", json!({})), call(2, "b", json!({})), request(3, "tools/list")]));
    let lines: Vec<String> = gave.verdicts().iter().map(line).collect();
    assert_eq!(lines, ["tool_call a 1 allow []", "tool_call b 2 allow []"]);
    let log = notice("notifications/message", json!({"level": "info", "data": "d"}));
    let gave = c.server(json!([text(2, "B"), log, text(7, "forged"), text(1, "A")]));
    let lines: Vec<String> = gave.verdicts().iter().map(line).collect();
    let expected = ["tool_result b 2 allow []", "tool_result - 7 block [response_unasked]", "tool_result a 1 allow []"];
    assert_eq!(lines, expected);
    let copy = gave.record();
    assert_eq!((&copy[0], &copy[3]), (&text(2, "B"), &text(1, "A")));
    assert_eq!(copy[2]["error"]["code"], -32603);
    // The copy carries what nobody looked into, and the verdict says so.
    assert_eq!(gave.verdicts()[1]["not_inspected"][0]["kind"], "mcp_log");
    assert_eq!(gave.opaque, ["mcp_log"]);
}

#[test]
fn a_batch_of_which_one_is_withheld_is_withheld() {
    let mut settings = settings(Profile::Standard);
    settings.redacted.on_block = Some(OnBlock::Withhold);
    let engine = Engine::new(settings).unwrap();
    let mut c = Connection::new(&engine);
    c.client(call(1, "a", json!({})));
    let gave = c.server(json!([text(1, "A"), text(2, "forged")]));
    let lines: Vec<String> = gave.verdicts().iter().map(line).collect();
    assert_eq!(lines, ["tool_result a 1 block [results_withheld]", "tool_result - 2 block [response_unasked]"]);
    assert_eq!(gave.records(), 0);
}

#[test]
fn what_is_no_message_is_blocked_by_its_envelope() {
    let engine = engine(Profile::Standard);
    for data in [
        "",
        "[]",
        "7",
        "{}",
        "{\"jsonrpc\":\"2.0\",",
        "not json",
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call "}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{"content":[]}},{"jsonrpc":"2.0"}]"#,
    ] {
        let mut c = Connection::new(&engine);
        c.client(call(1, "a", json!({})));
        let gave = c.send(Some("server"), data);
        if data.is_empty() {
            assert_eq!(gave.outcome, Outcome::Rejected(sluicegate::engine::wire::Reject::EmptyValue));
            continue;
        }
        assert_eq!(gave.line(), "tool_result - - block [undecodable]", "{data}");
        assert_eq!(gave.records(), 0);
        // Nothing of such a record stands.
        assert_eq!(c.server(text(1, "x")).line(), "tool_result a 1 allow []", "{data}");
    }
    // A block that cannot be read blocks its result alone.
    let mut c = Connection::new(&engine);
    c.client(call(1, "a", json!({})));
    let gave = c.server(result(1, json!({"content": [{"type": "Text", "text": "x"}]})));
    assert_eq!(gave.line(), "tool_result a 1 block [undecodable]");
    assert_eq!(gave.record()["result"]["isError"], true);
}

#[test]
fn what_a_client_garbled_may_have_been_a_call() {
    let engine = engine(Profile::Standard);
    let gave = Connection::new(&engine).send(Some("client"), "{");
    assert_eq!(gave.line(), "tool_call - - block [undecodable]");
}

/// Every message of the golden files, cut anywhere and with any value in place of another: no panic, no dead
/// letter, and what breaks off is blocked.
#[test]
fn broken_messages_are_judged() {
    let engine = engine(Profile::Strict);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/golden/mcp");
    let mut messages = 0;
    for path in files(&folder) {
        let text = std::fs::read_to_string(&path).unwrap();
        let data = text.split("--- lines\n").nth(1).unwrap().split("--- events").next().unwrap();
        let mut c = Connection::new(&engine);
        for message in data.lines().filter(|line| line.starts_with(['{', '['])) {
            messages += 1;
            for side in [Some("client"), Some("server"), None] {
                c.client(json!([call(1, "f", json!({})), request(2, "tools/list"), request(3, "resources/read")]));
                let whole = c.send(side, message);
                assert!(!matches!(whole.outcome, Outcome::Rejected(_)), "{message}");
                for at in (1..message.len()).step_by(7) {
                    let gave = c.send(side, &message[..at]);
                    assert!(gave.line().ends_with("block [undecodable]"), "{}", &message[..at]);
                }
            }
            for (at, byte) in message.bytes().enumerate().filter(|(_, b)| b",:[{".contains(b)) {
                let end = message[at + 1..].find([',', '}', ']']).map_or(message.len(), |n| at + 1 + n);
                let key = if byte == b'{' { "\"result\":" } else { "" };
                for value in ["null", "7", "\"\\ud800\"", "[[]]", "{\"type\":[]}"] {
                    let gave = c.send(Some("server"), &format!("{}{key}{value}{}", &message[..=at], &message[end..]));
                    assert!(!matches!(gave.outcome, Outcome::Rejected(_)), "{message} at {at}");
                }
            }
        }
    }
    assert!(messages > 60, "{messages}");
}

/// A streamable response carries a message as an event.
#[test]
fn a_message_in_a_stream_is_edited_there() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "f", json!({})));
    let stream = format!("event: message\ndata: {}\n\ndata: {}\n\n", notice("x", json!({})), text(2, "forged"));
    let gave = c.send(Some("server"), &stream);
    assert_eq!(gave.line(), "tool_result - 2 block [response_unasked]");
    let copy = gave.emissions.iter().find(|e| e.to == To::Redacted).unwrap();
    let copy = String::from_utf8(copy.value.clone().unwrap()).unwrap();
    let (kept, changed) = stream.rsplit_once("data: ").unwrap();
    assert!(copy.starts_with(kept) && !copy.contains("forged") && copy.contains("[TOOL ERROR]"), "{copy} {changed}");
}

#[test]
fn nobody_takes_what_a_server_asks_for_a_call() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let gave = c.server(call(1, "find", json!({})));
    assert_eq!(gave.line(), "tool_result - - block [undecodable]");
    assert_eq!(gave.records(), 0);
}

#[test]
fn other_text_is_counted_by_kind() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    for (kind, message) in [
        ("mcp_sampling", request(1, "sampling/createMessage")),
        ("mcp_elicitation", request(2, "elicitation/create")),
        ("mcp_request", request(3, "x/unheard")),
        ("mcp_log", notice("notifications/message", json!({"data": "d"}))),
        ("mcp_progress", notice("notifications/progress", json!({"message": "m"}))),
        ("mcp_notification", notice("notifications/unheard", json!({}))),
    ] {
        let gave = c.server(message);
        assert_eq!(gave.opaque, [kind]);
        assert!(gave.emissions.is_empty() && gave.outcome == Outcome::Passed);
    }
    assert!(c.server(notice("notifications/progress", json!({"progress": 1}))).opaque.is_empty());
    c.client(request(4, "resources/list"));
    assert_eq!(c.server(result(4, json!({"resources": []}))).opaque, ["mcp_answer"]);
    assert_eq!(c.client(result(1, json!({}))).opaque, ["mcp_answer"]);
    assert_eq!(c.client(result(99, json!({}))).opaque, ["mcp_unasked", "mcp_answer"]);
}

#[test]
fn who_said_it_follows_from_what_is_said() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let mut say = |data: Value| c.send(None, &data.to_string());
    assert_eq!(say(call(1, "find", json!({}))).line(), "tool_call find 1 allow []");
    assert_eq!(say(text(1, "x")).line(), "tool_result find 1 allow []");
    say(request(2, "sampling/createMessage"));
    // The client's answer, it seems; but it may be the server's, to what was asked unseen.
    let gave = say(result(2, json!({"role": "assistant"})));
    assert_eq!(gave.line(), "tool_result - 2 allow []");
    assert_eq!(gave.opaque, ["mcp_direction"]);
    // Both wait under one id: it is judged, and said that this is a guess.
    say(call(3, "find", json!({})));
    say(request(3, "roots/list"));
    let gave = say(text(3, "x"));
    assert_eq!(gave.line(), "tool_result find 3 allow []");
    assert_eq!(gave.opaque, ["mcp_direction"]);
    assert_eq!(say(request(4, "ping")).opaque, ["mcp_direction"]);
    say(call(5, "find", json!({})));
    assert!(say(notice("notifications/cancelled", json!({"requestId": 5}))).silent());
    assert_eq!(say(text(5, "x")).line(), "tool_result find 5 block [response_cancelled]");
}

#[test]
fn servers_do_not_push_out_what_others_wait_for() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "find", json!({})));
    c.of("noisy");
    let gave: Vec<Gave> = (0..400).map(|id| c.server(request(id, "ping"))).collect();
    assert!(gave.iter().any(|gave| gave.opaque == ["mcp_forgotten"]));
    assert_eq!(c.of("docs").server(text(1, "x")).line(), "tool_result find 1 allow []");
}

#[test]
fn versions_need_no_handshake() {
    let engine = support::engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let with =
        |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    assert!(c.client(with(1, "server/discover", json!({"_meta": meta}))).silent());
    assert!(c.server(result(1, json!({"supportedVersions": ["2026-07-28"], "resultType": "complete"}))).silent());
    let gave = c.client(with(2, "tools/call", json!({"name": "f", "_meta": meta})));
    assert_eq!(gave.line(), "tool_call f 2 allow []");
    for structured in [json!([1, 2]), json!("text"), json!(7), json!(null)] {
        let gave =
            c.server(result(2, json!({"content": [], "structuredContent": structured, "resultType": "complete"})));
        assert_eq!(gave.line(), "tool_result f 2 allow []");
        assert_eq!(gave.verdicts()[0]["complete"], true);
        c.client(with(2, "tools/call", json!({"name": "f", "_meta": meta})));
    }
    // An older client beside it.
    assert!(c.client(with(3, "initialize", json!({"protocolVersion": "2024-11-05"}))).silent());
    let gave = c.server(result(3, json!({"protocolVersion": "2024-11-05", "instructions": "i"})));
    assert_eq!(gave.line(), "tool_definitions - - block [changed_instructions]");
}

#[test]
fn an_exchange_with_a_server_is_no_models() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let mut feed = |line: Value| verdicts(&partition.feed(line.to_string().as_bytes()));
    let envelope = |kind: &str, data: Value| {
        json!({"specversion": "1.0", "id": "e", "source": "s", "type": format!("io.sluicegate.{kind}.v1"),
            "conversation": "c", "mcpserver": "docs", "data": data})
    };
    feed(envelope("mcp.message", request(1, "tools/list")));
    feed(envelope("mcp.message", result(1, json!({"tools": []}))));
    // The response of a model whose request was not seen is not held to a server's list.
    let mut response = envelope(
        "model.response",
        json!({"id": "m", "type": "message", "role": "assistant", "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}),
    );
    response["provider"] = json!("anthropic.messages");
    let found = feed(response);
    assert_eq!(line(&found[0]), "tool_call f t1 allow []");
}

#[test]
fn calls_of_several_servers_are_several_calls() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let mut keys = std::collections::BTreeSet::new();
    for server in ["one", "two", "three"] {
        // A connection that was made anew counts from the beginning again.
        for _ in 0..2 {
            let gave = c.of(server).client(call(1, "f", json!({})));
            assert_eq!(gave.record()["idempotency_key"], gave.verdicts()[0]["idempotency_key"]);
            keys.insert(gave.record()["idempotency_key"].to_string());
        }
    }
    assert_eq!(keys.len(), 6);
}

/// A tap that sees requests and MCP messages, but no response of the model, cannot say that a call is unknown.
#[test]
fn calls_of_a_client_are_no_response_of_the_model() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let mut feed = |kind: &str, data: Value| {
        let line = json!({"specversion": "1.0", "id": "e", "source": "s", "type": format!("io.sluicegate.{kind}.v1"),
            "provider": "anthropic.messages", "conversation": "c", "mcpserver": "docs", "data": data});
        verdicts(&partition.feed(line.to_string().as_bytes()))
    };
    feed("model.request", json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}));
    feed("mcp.message", call(1, "f", json!({})));
    let found = feed("tool.started", json!({"call_id": "t1", "tool": "g"}));
    assert_eq!(line(&found[0]), "tool_start g t1 allow []");
}

#[test]
fn a_servers_list_outlasts_a_models_turns() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let mut feed_of = |server: &str, kind: &str, id: usize, data: Value| {
        let line = json!({"specversion": "1.0", "id": "e", "source": "s", "type": format!("io.sluicegate.{kind}.v1"),
            "provider": "anthropic.messages", "conversation": "c", "mcpserver": server, "responseid": id.to_string(), "data": data});
        verdicts(&partition.feed(line.to_string().as_bytes()))
    };
    for server in ["docs", "other"] {
        feed_of(server, "mcp.message", 0, request(1, "tools/list"));
        feed_of(server, "mcp.message", 0, result(1, json!({"tools": [tool("find", "q")]})));
        feed_of(server, "mcp.message", 0, call(2, "find", json!({"q": "x"})));
    }
    let mut feed = |kind: &str, id: usize, data: Value| feed_of("docs", kind, id, data);
    for turn in 1..100 {
        feed(
            "model.request",
            turn,
            json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}),
        );
        let answer = json!({"id": format!("m{turn}"), "type": "message", "role": "assistant", "stop_reason": "end_turn", "content": []});
        feed("model.response", turn, answer);
    }
    let found = feed("mcp.message", 0, call(3, "find", json!({})));
    assert_eq!(line(&found[0]), "tool_call find 3 block [schema_mismatch]");
}

#[test]
fn bare_messages_and_batches_are_told_by_their_shape() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    for (data, verdict) in [
        (call(1, "f", json!({})), "tool_call f 1 allow []"),
        (json!([{"id": 1}, call(2, "g", json!({}))]), "tool_result - - block [undecodable]"),
        // A server may write what looks like another provider's.
        (
            json!({"object": "response", "jsonrpc": "2.0", "id": 1, "result": {"content": []}}),
            "tool_result f 1 allow []",
        ),
    ] {
        let emissions = partition.feed_record(Some(b"k"), &[], Some(data.to_string().as_bytes()));
        assert_eq!(line(&verdicts(&emissions)[0]), verdict);
    }
}

/// No text of a server reaches a verdict: names of its schemas neither.
#[test]
fn a_servers_names_are_not_shown() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    listed(&mut c, 1, json!([tool("find", "readtheprivatekey")]));
    let gave = c.client(call(2, "find", json!({"readtheprivatekey": 7})));
    let verdict = gave.verdicts()[0].to_string();
    assert!(verdict.contains("schema_mismatch") && !verdict.contains("readtheprivatekey"), "{verdict}");
}

#[test]
fn state_that_was_restored_knows_what_was_asked() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    listed(&mut c, 1, json!([tool("find", "q")]));
    c.client(call(2, "find", json!({"q": "x"})));
    let mut state = PartitionState::new();
    c.state.entries(&mut |key, value| state.restore(key, value).unwrap());
    state.restored().unwrap();
    state.begin();
    c.state = state;
    assert_eq!(c.client(call(3, "find", json!({}))).line(), "tool_call find 3 block [schema_mismatch]");
    assert_eq!(c.server(text(2, "x")).line(), "tool_result find 2 allow []");
    assert_eq!(c.server(text(2, "y")).line(), "tool_result find 2 block [response_repeated]");
}

/// Text that no output may have.
fn long() -> String {
    "line\n".repeat(20_000)
}

#[test]
fn what_stands_beside_a_request_for_input_is_a_result() {
    let engine = engine(Profile::Standard);
    let content = json!([{"type": "text", "text": long()}]);
    for (method, tool, member, value, rule) in [
        ("tools/call", "find", "content", content.clone(), "redact [oversize_result]"),
        ("tools/call", "find", "structuredContent", json!({"a": [long()]}), "redact [oversize_result]"),
        ("tools/call", "find", "toolResult", json!(long()), "redact [oversize_result]"),
        ("tools/call", "find", "Content", content.clone(), "block [undecodable]"),
        ("tools/call", "find", "unheard", json!("x"), "allow []"),
        (
            "resources/read",
            "resources/read",
            "contents",
            json!([{"uri": "u:1", "text": long()}]),
            "redact [oversize_result]",
        ),
        (
            "prompts/get",
            "prompts/get",
            "messages",
            json!([{"role": "user", "content": content[0]}]),
            "redact [oversize_result]",
        ),
        ("tasks/result", "tasks/result", "content", content.clone(), "redact [oversize_result]"),
    ] {
        let mut c = Connection::new(&engine);
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "find", "arguments": {}}});
        c.client(asked.clone());
        let asks = json!({"resultType": "input_required", "inputRequests": {}, "requestState": "s", "_meta": {}});
        assert!(c.server(result(1, asks.clone())).emissions.is_empty(), "{method}: nothing but a request for input");
        c.client(asked);
        let mut both = asks;
        both[member] = value;
        let gave = c.server(result(1, both));
        assert_eq!(gave.line(), format!("tool_result {tool} 1 {rule}"), "{method} {member}");
        // What it asks for is text too.
        let kinds = gave.verdicts()[0]["not_inspected"].as_array().unwrap().len();
        assert!(kinds >= 2, "{method} {member}: {kinds}");
    }
}

#[test]
fn a_request_of_unsaid_origin_takes_no_calls_place() {
    let engine = engine(Profile::Standard);
    let cancel = notice("notifications/cancelled", json!({"requestId": 1}));
    let others = ["tools/list", "resources/list", "initialize", "ping", "sampling/createMessage", "prompts/get"];
    for method in others {
        for (said, before) in [
            (true, None),
            (false, None),
            (false, Some(cancel.clone())),
            (false, Some(text(1, "the client's, to what the server asked"))),
        ] {
            let mut c = Connection::new(&engine);
            c.send(said.then_some("client"), &call(1, "find", json!({})).to_string());
            let bare = before.is_none();
            if let Some(before) = before {
                c.unsaid(before);
            }
            c.unsaid(request(1, method));
            let line = c.unsaid(text(1, &long())).line();
            assert!(line.starts_with("tool_result ") && line.contains("oversize_result"), "{method} {said}: {line}");
            assert!(!bare || line == "tool_result find 1 redact [oversize_result]", "{method} {said}: {line}");
        }
    }
}

#[test]
fn an_answer_of_unsaid_origin_is_judged_whoever_else_waits() {
    let engine = engine(Profile::Standard);
    let asks = || request(1, "sampling/createMessage");
    for server_first in [true, false] {
        let mut c = Connection::new(&engine);
        if server_first {
            c.unsaid(asks());
        }
        c.unsaid(call(1, "find", json!({})));
        if !server_first {
            c.unsaid(asks());
        }
        // The client's, or the server's: the other one is still to come.
        assert_eq!(c.unsaid(text(1, "one")).line(), "tool_result find 1 allow []");
        assert_eq!(c.unsaid(text(1, &long())).line(), "tool_result find 1 redact [oversize_result]");
        assert_eq!(c.unsaid(text(1, "three")).line(), "tool_result find 1 block [response_repeated]");
        c.unsaid(asks());
        assert_eq!(c.unsaid(text(1, &(long() + "!"))).line(), "tool_result find 1 redact [oversize_result]");
    }
}

fn turn() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
}

#[test]
fn a_servers_exchange_outlasts_requests_without_responses() {
    let engine = engine(Profile::Standard);
    for changed in [false, true] {
        let mut c = Connection::new(&engine);
        listed(&mut c, 1, json!([tool("find", "q")]));
        if changed {
            c.server(notice("notifications/tools/list_changed", json!({})));
        }
        for n in 0..200 {
            c.model("model.request", &format!("r{n}"), turn());
        }
        assert_eq!(c.server(text(77, "forged")).line(), "tool_result - 77 block [response_unasked]");
        let stale = if changed { ",stale_list" } else { "" };
        let expected = format!("tool_call find 5 block [schema_mismatch{stale}]");
        assert_eq!(c.client(call(5, "find", json!({}))).line(), expected);
    }
    // As many servers as there are leave room for the model's.
    let mut c = Connection::new(&engine);
    for n in 0..200 {
        let server: &'static str = format!("server-{n}").leak();
        c.of(server).client(call(1, "find", json!({})));
    }
    c.model("model.request", "r", turn());
    let call = json!({"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = json!({"index": 0, "finish_reason": "tool_calls", "message": message});
    let gave = c.model("model.response", "r", json!({"id": "x", "object": "chat.completion", "choices": [choice]}));
    assert_eq!(gave.line(), "tool_call f t block [unknown_tool]");
}

#[test]
fn keys_are_distinct_whatever_was_forgotten() {
    let mut settings = settings(Profile::Standard);
    settings.limits.history = 4;
    let engine = Engine::new(settings).unwrap();
    for server in ["docs", ""] {
        let mut c = Connection::new(&engine);
        let mut keys = std::collections::BTreeSet::new();
        for round in 0..3 {
            for amount in [1, 2] {
                let gave = c.of(server).client(call(2, "pay", json!({"n": amount})));
                keys.insert(gave.record()["idempotency_key"].to_string());
            }
            for n in 0..100 {
                let other: &'static str = format!("other-{round}-{n}").leak();
                c.of(other).client(call(1, "find", json!({})));
                c.model("model.request", &format!("r{round}-{n}"), turn());
            }
        }
        assert_eq!(keys.len(), 6, "{server}");
        // A conversation that was forgotten counts anew; another call has another key all the same.
        let mut again = Connection::new(&engine);
        let gave = again.of(server).client(call(2, "pay", json!({"n": 3})));
        assert!(keys.insert(gave.record()["idempotency_key"].to_string()), "{server}");
    }
}

#[test]
fn a_side_that_asks_much_forgets_its_own() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.of("busy").client(request(1, "initialize"));
    for id in 0..260 {
        c.server(request(id, "ping"));
    }
    c.of("docs").client(request(1, "initialize"));
    c.server(result(1, json!({})));
    for id in 2..40 {
        c.client(call(id, "find", json!({})));
    }
    for id in 2..40 {
        assert_eq!(c.server(text(id, "fine")).line(), format!("tool_result find {id} allow []"));
    }
    assert_eq!(c.server(text(99, "forged")).line(), "tool_result - 99 block [response_unasked]");
}

#[test]
fn an_answer_to_what_was_forgotten_is_judged() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(request(0, "initialize"));
    // What is settled goes first.
    for id in 1..300 {
        c.client(call(id, "find", json!({})));
        c.server(text(id, "x"));
    }
    assert_eq!(c.server(text(999, "forged")).line(), "tool_result - 999 block [response_unasked]");
    let gave: Vec<Gave> = (300..557).map(|id| c.client(call(id, "find", json!({})))).collect();
    assert!(gave.last().unwrap().opaque.contains(&"mcp_forgotten"));
    assert_eq!(c.server(text(300, &long())).line(), "tool_result - 300 redact [oversize_result,request_unseen]");
    assert_eq!(c.server(text(301, "x")).line(), "tool_result find 301 allow []");
    // What kind of output it is cannot be told any more.
    for (id, member, value) in [
        (303, "contents", json!([{"uri": "u:1", "text": long()}])),
        (304, "messages", json!([{"role": "user", "content": {"type": "text", "text": long()}}])),
        (305, "structuredContent", json!([long()])),
    ] {
        c.client(call(id + 1000, "find", json!({})));
        let gave = c.server(result(id - 2, json!({member: value})));
        assert!(gave.line().contains("redact [oversize_result,request_unseen]"), "{}", gave.line());
    }
    // Of another server nothing was forgotten.
    c.of("other").client(call(1, "find", json!({})));
    assert_eq!(c.server(text(9, "forged")).line(), "tool_result - 9 block [response_unasked]");
    // Nobody says who asks for a list now: it may be what the server writes over a call that was forgotten.
    c.of("docs").unsaid(request(302, "tools/list"));
    c.server(text(302, "x"));
    c.unsaid(request(299, "tools/list"));
    assert_eq!(c.unsaid(text(299, &long())).line(), "tool_result - 299 redact [oversize_result]");
}

#[test]
fn host_events_of_equal_ids_mean_the_call_that_fits() {
    use sha2::{Digest, Sha256};
    let engine = engine(Profile::Standard);
    let sha = |text: &str| Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let (one, two) = (sha(r#"{"p":1}"#), sha(r#"{"p":2}"#));
    let mut c = Connection::new(&engine);
    c.of("a").client(call(1, "find", json!({"p": 1})));
    c.of("b").client(call(1, "find", json!({"p": 2})));
    c.of("b").client(call(1, "read", json!({"p": 2})));
    let start = |tool: &str, sha: &str| json!({"call_id": "1", "tool": tool, "arguments_sha256": sha});
    for (server, tool, sha, expected) in [
        (Some("a"), "find", &one, "tool_start find 1 allow []"),
        (Some("b"), "find", &two, "tool_start find 1 allow []"),
        (Some("b"), "read", &two, "tool_start read 1 allow []"),
        (Some("a"), "find", &two, "tool_start find 1 block [started_with_other_arguments,duplicate_start]"),
        (Some("b"), "find", &one, "tool_start find 1 block [started_with_other_arguments,duplicate_start]"),
        // Without a server the arguments tell.
        (None, "find", &one, "tool_start find 1 block [duplicate_start]"),
        (None, "find", &two, "tool_start find 1 block [duplicate_start]"),
    ] {
        let gave = c.host("tool.started", server, start(tool, sha));
        assert_eq!(gave.line(), expected, "{server:?}");
        if let (Some(server), true) = (server, expected.contains("allow")) {
            assert_eq!(gave.verdicts()[0]["subject"]["server"], server);
        }
    }
    let answer = |tool: &str| json!({"call_id": "1", "tool": tool, "outcome": "ok", "content": "x"});
    let gave = c.host("tool.result", Some("a"), answer("find"));
    assert_eq!(gave.verdicts()[0]["subject"]["server"], "a");
}

#[test]
fn what_may_mean_a_cut_call_is_blocked() {
    let engine = engine(Profile::Standard);
    let cut = |c: &mut Connection<'_>| {
        let call = json!({"id": "1", "type": "function", "function": {"name": "rm", "arguments": "{}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let choice = json!({"index": 0, "finish_reason": "length", "message": message});
        c.model("model.request", "r", turn());
        c.model("model.response", "r", json!({"id": "x", "object": "chat.completion", "choices": [choice]}));
    };
    let start = |tool: Option<&str>| json!({"call_id": "1", "tool": tool});
    let answer = |tool: Option<&str>| json!({"call_id": "1", "tool": tool, "outcome": "ok", "content": "x"});
    for cut_first in [true, false] {
        for (other, tool, server, blocked) in [
            ("other", Some("rm"), None, true),
            ("other", Some("rm"), Some("docs"), true),
            ("other", None, None, true),
            ("rm", Some("rm"), None, true),
            ("other", Some("other"), None, false),
            ("other", Some("other"), Some("docs"), false),
        ] {
            let mut c = Connection::new(&engine);
            if cut_first {
                cut(&mut c);
            }
            c.client(call("1", other, json!({})));
            if !cut_first {
                cut(&mut c);
            }
            for gave in [c.host("tool.started", server, start(tool)), c.host("tool.result", server, answer(tool))] {
                let line = gave.line();
                assert_eq!(line.contains("block [acted_on_incomplete"), blocked, "{other} {tool:?} {server:?}: {line}");
            }
            // A request of the model's names its own calls only.
            let message = json!({"role": "tool", "tool_call_id": "1", "content": "y"});
            let gave = c.model("model.request", "r2", json!({"model": "m", "messages": [message]}));
            let lines: Vec<String> = gave.verdicts().iter().map(line).collect();
            assert!(lines.iter().any(|l| l.starts_with("tool_result rm 1 block [acted_on_incomplete")), "{lines:?}");
        }
    }
}

#[test]
fn members_that_are_no_marks_are_not_inspected() {
    let engine = engine(Profile::Standard);
    let word = "x".repeat(200);
    let block = |name: &str, value: &Value| {
        let mut block = json!({"type": "resource_link", "uri": "u:1", "name": "n"});
        block[name] = value.clone();
        json!({"content": [block]})
    };
    let top = |name: &str, value: &Value| {
        let mut result = json!({"content": []});
        result[name] = value.clone();
        result
    };
    let check = |method: &str, answer: Value, name: &str, listed: bool| {
        let mut c = Connection::new(&engine);
        c.client(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "f"}}));
        let verdicts = c.server(answer.clone()).verdicts();
        let [verdict] = &verdicts[..] else { panic!("{answer}") };
        let found = verdict["not_inspected"].as_array().unwrap().len();
        assert_eq!((found, verdict["complete"] == true), (usize::from(listed), !listed), "{name} {answer}");
    };
    for (value, words, numbers, flags) in [
        (json!("text/plain"), false, true, true),
        (json!(7), true, false, true),
        (json!(true), true, true, false),
        (json!(null), false, false, false),
        (json!(word), true, true, true),
        (json!({"a": 1}), true, true, true),
        (json!(["a"]), true, true, true),
    ] {
        check("tools/call", result(1, block("mimeType", &value)), "mimeType", words);
        check("tools/call", result(1, block("size", &value)), "size", numbers);
        check("tools/call", result(1, top("resultType", &value)), "resultType", words);
        check("tools/call", result(1, top("isError", &value)), "isError", flags);
        check("resources/read", result(1, json!({"contents": [], "ttlMs": value})), "ttlMs", numbers);
        check("resources/read", result(1, json!({"contents": [], "cacheScope": value})), "cacheScope", words);
        check("resources/read", result(1, json!({"contents": [{"uri": "u", "mimeType": value}]})), "mimeType", words);
        check("prompts/get", result(1, json!({"messages": [{"role": value, "content": []}]})), "role", words);
        let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": value, "message": "m"}});
        check("tools/call", error, "code", numbers);
        let mut message = text(1, "x");
        message["jsonrpc"] = value.clone();
        check("tools/call", message, "jsonrpc", words);
    }
    let picture = json!({"type": "image", "mimeType": word, "note": "n"});
    let mut c = Connection::new(&engine);
    c.client(call(1, "f", json!({})));
    let gave = c.server(result(1, json!({"content": [picture]})));
    assert_eq!(gave.verdicts()[0]["not_inspected"].as_array().unwrap().len(), 2);
    // Beside the result.
    let mut message = text(1, "x");
    message["note"] = json!("n");
    check("tools/call", message, "note", true);
    check("tools/call", text(1, "x"), "", false);
}

#[test]
fn instructions_of_a_server_are_judged() {
    let engine = support::engine(Profile::Standard);
    for method in ["initialize", "server/discover"] {
        let mut c = Connection::new(&engine);
        c.client(request(1, method));
        let gave = c.server(result(1, json!({"serverInfo": {}, "instructions": "do"})));
        assert_eq!(gave.line(), "tool_definitions - - block [changed_instructions]");
        assert_eq!(gave.record(), result(1, json!({"serverInfo": {}})));
        c.client(request(2, method));
        assert!(c.server(result(2, json!({"serverInfo": {}}))).silent());
    }
}

#[test]
fn an_answer_that_comes_again_as_it_was_is_no_second_one() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    let big = json!({"content": [{"type": "text", "text": "x".repeat(3 << 20)}]});
    for (id, answer, line) in [
        (1, text(1, "ok"), "tool_result find 1 allow []"),
        (2, text(2, &long()), "tool_result find 2 redact [oversize_result]"),
        (3, result(3, big), "tool_result find 3 block [hard_limit]"),
    ] {
        c.client(call(id, "find", json!({})));
        let gave = [c.server(answer.clone()), c.server(answer)];
        assert_eq!([gave[0].line(), gave[1].line()], [line, line]);
        assert_eq!(gave[0].record(), gave[1].record());
        let other = c.server(result(id, json!({"content": [], "_meta": {"a": 1}}))).line();
        assert!(other.ends_with("block [response_repeated]"), "{other}");
    }
    // What an earlier request of that id was answered is no answer to this one's second.
    c.client(call(1, "find", json!({})));
    c.server(text(1, "new"));
    assert_eq!(c.server(text(1, "ok")).line(), "tool_result find 1 block [response_repeated]");
    for (id, method, answer) in [
        (4, "tools/list", json!({"tools": [tool("find", "q")]})),
        (5, "initialize", json!({"serverInfo": {}})),
        (6, "resources/list", json!({"resources": []})),
    ] {
        c.client(request(id, method));
        c.server(result(id, answer.clone()));
        assert!(c.server(result(id, answer)).emissions.is_empty(), "{method}");
        let gave = c.server(text(id, "x"));
        assert_eq!(gave.line(), format!("tool_result - {id} block [response_repeated]"));
    }
    let asks = result(7, json!({"resultType": "input_required", "requestState": "s"}));
    c.client(call(7, "find", json!({"q": "x"})));
    for _ in 0..2 {
        assert_eq!(c.server(asks.clone()).opaque, ["mcp_input_required"]);
    }
    c.client(json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call",
        "params": {"name": "find", "arguments": {"q": "x"}, "requestState": "s"}}));
    assert!(c.server(asks).emissions.is_empty());
    assert_eq!(c.server(text(8, "x")).line(), "tool_result find 8 allow []");
}

#[test]
fn what_was_asked_before_anybody_looked_may_be_answered() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(7, "find", json!({})));
    assert_eq!(c.server(text(6, &long())).line(), "tool_result - 6 redact [oversize_result,request_unseen]");
    for forged in [json!(8), json!("6"), json!("a"), json!(-1), json!(6.5)] {
        let line = c.server(text(forged.clone(), "x")).line();
        assert!(line.ends_with("block [response_unasked]"), "{forged}: {line}");
    }
    assert_eq!(c.server(text(7, "ok")).line(), "tool_result find 7 allow []");
    c.client(call(3, "find", json!({})));
    assert_eq!(c.server(text(6, "x")).line(), "tool_result - 6 block [response_unasked]");
    // Whose beginning was seen has asked nothing before.
    for hello in ["initialize", "server/discover"] {
        let mut c = Connection::new(&engine);
        c.client(request(5, hello));
        assert_eq!(c.server(text(4, "x")).line(), "tool_result - 4 block [response_unasked]");
    }
}

#[test]
fn an_error_of_null_is_none() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    c.client(call(1, "find", json!({})));
    let answer =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": long()}]}, "error": null});
    assert_eq!(c.server(answer).line(), "tool_result find 1 redact [oversize_result]");
}

#[test]
fn a_stream_that_holds_nothing_gives_nothing() {
    let engine = engine(Profile::Standard);
    for data in ["id: 1\nretry: 3000\ndata: \n\n", ": ping\n\n", ":\n", "event: message\n\n", "\u{feff}: x\r\n"] {
        let mut c = Connection::new(&engine);
        c.client(call(1, "find", json!({})));
        assert!(c.send(Some("server"), data).silent(), "{data:?}");
        assert_eq!(c.server(text(1, "x")).line(), "tool_result find 1 allow []");
    }
    for data in [": ping\n\ndata: {\n\n", "data: 7\n\n", "Data: \n\n", "x\n\n", "data: []\n\n", "\n\n", ": a\n\ndata:"]
    {
        let mut c = Connection::new(&engine);
        let line = c.send(Some("server"), data).line();
        assert_eq!(line, "tool_result - - block [undecodable]", "{data:?}");
    }
}

#[test]
fn parameters_in_another_case_are_unclear() {
    let engine = engine(Profile::Standard);
    for name in ["Name", "NAME", "Arguments", "arGuments"] {
        let mut c = Connection::new(&engine);
        let mut message = call(2, "safe", json!({"x": "1"}));
        message["params"][name] = json!("evil");
        assert_eq!(c.client(message).line(), "tool_call - - block [undecodable]", "{name}");
    }
}

/// Readers that ignore case take the last of two members.
#[test]
fn lists_in_another_case_are_unclear() {
    let engine = engine(Profile::Standard);
    for name in ["Tools", "TOOLS", "Instructions", "NextCursor", "nextcursor"] {
        for others in [json!({"tools": [tool("safe", "q")]}), json!({})] {
            let mut c = Connection::new(&engine);
            c.client(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
            let mut said = others;
            said[name] = json!([tool("evil", "q")]);
            let line = c.server(result(1, said)).line();
            assert!(line.contains("block") && line.contains("undecodable"), "{name}: {line}");
        }
    }
    for name in ["Name", "Title", "DESCRIPTION", "inputschema", "OutputSchema", "Annotations"] {
        let mut c = Connection::new(&engine);
        c.client(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        let mut listed = tool("safe", "q");
        listed[name] = json!("evil");
        let line = c.server(result(1, json!({"tools": [listed]}))).line();
        assert!(line.contains("block") && line.contains("undecodable"), "{name}: {line}");
    }
}

/// Whoever reads it all the same may call what it declares: until another list is read, nothing is declared.
#[test]
fn a_list_that_cannot_be_read_declares_nothing() {
    let engine = engine(Profile::Standard);
    let good = json!({"tools": [tool("find", "q")]});
    let twice = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"find","description":"a","description":"b"}]}}"#;
    let disguised = result(2, json!({"tools": [tool("find", "q")], "Tools": []})).to_string();
    let oversize = result(2, json!({"tools": [], "note": "x".repeat(8 << 20)})).to_string();
    for bad in [twice.to_owned(), disguised, "{\"jsonrpc\":".to_owned(), oversize] {
        let ask = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        let mut c = Connection::new(&engine);
        c.client(ask(1));
        c.server(result(1, good.clone()));
        assert!(c.client(call(5, "find", json!({"q": "x"}))).line().contains("allow"));
        // Nobody waits for a list: it is another answer.
        c.send(Some("server"), &bad);
        assert!(c.client(call(6, "find", json!({"q": "x"}))).line().contains("allow"), "{}", &bad[..9]);
        c.client(ask(2));
        // What the client itself sent is none.
        c.send(Some("client"), "{\"jsonrpc\":");
        assert!(c.client(call(7, "find", json!({"q": "x"}))).line().contains("allow"), "{}", &bad[..9]);
        c.send(Some("server"), &bad);
        assert_eq!(
            c.client(call(8, "find", json!({"q": "x"}))).line(),
            "tool_call find 8 block [unknown_tool]",
            "{}",
            &bad[..9]
        );
        c.client(ask(3));
        c.server(result(3, good.clone()));
        assert!(c.client(call(9, "find", json!({"q": "x"}))).line().contains("allow"), "{}", &bad[..9]);
    }
}

#[test]
fn a_blocked_call_does_not_go_on_unjudged() {
    let engine = engine(Profile::Standard);
    let mut c = Connection::new(&engine);
    listed(&mut c, 1, json!([tool("find", "q")]));
    let block = |id: u64| format!("tool_call find {id} block [schema_mismatch]");
    assert_eq!(c.client(call(2, "find", json!({}))).line(), block(2));
    c.server(result(2, json!({"resultType": "input_required", "requestState": "s"})));
    for id in [3, 4] {
        let retry = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "find", "arguments": {}, "requestState": "s"}});
        assert_eq!(c.client(retry).line(), block(id));
    }
}

/// A recorded file: its calls, each with its tool, arguments and whether it may run, and whether it failed.
type Recorded = (&'static str, &'static [(&'static str, &'static str, bool, bool)]);

const ENTITIES: &str = r#"{"entities":[{"name":"A","entityType":"person","observations":["likes tea"]},{"name":"B","entityType":"org","observations":[]}]}"#;
const RELATIONS: &str = r#"{"relations":[{"from":"A","to":"B","relationType":"works_at"}]}"#;
const OBSERVATIONS: &str = r#"{"observations":[{"entityName":"zzz","contents":["x"]}]}"#;

/// By hand from the recordings: what was asked for, and how it went.
const RECORDED: &[Recorded] = &[
    (
        "local-mcp__git-2026.10.19",
        &[
            ("git_status", r#"{"repo_path":"/srv/gitrepo"}"#, true, false),
            ("git_diff_unstaged", r#"{"repo_path":"/srv/gitrepo"}"#, true, false),
            ("git_log", r#"{"repo_path":"/srv/gitrepo","max_count":3}"#, true, false),
            ("git_show", r#"{"repo_path":"/srv/gitrepo","revision":"HEAD"}"#, true, false),
            ("git_branch", r#"{"repo_path":"/srv/gitrepo","branch_type":"local"}"#, true, false),
            ("git_status", r#"{"repo_path":"/etc"}"#, true, true),
            ("git_checkout", r#"{"repo_path":"/srv/gitrepo","branch_name":"nope"}"#, true, true),
            ("git_log", "{}", false, true),
        ],
    ),
    (
        "local-mcp__git-2026.10.19__proto-2026-07-28",
        &[
            ("git_status", r#"{"repo_path":"/srv/gitrepo"}"#, true, false),
            ("git_show", r#"{"repo_path":"/srv/gitrepo","revision":"HEAD"}"#, true, false),
            ("git_status", r#"{"repo_path":"/etc"}"#, true, true),
            ("git_log", "{}", false, true),
            ("nope", "{}", false, true),
        ],
    ),
    (
        "local-mcp__memory-2025.4.25",
        &[
            ("create_entities", ENTITIES, true, false),
            ("create_relations", RELATIONS, true, false),
            ("read_graph", "{}", true, true),
            ("read_graph", "{}", true, false),
            ("search_nodes", r#"{"query":"tea"}"#, true, false),
            ("open_nodes", r#"{"names":["B"]}"#, true, false),
            ("delete_entities", r#"{"entityNames":["A"]}"#, true, false),
            ("add_observations", OBSERVATIONS, true, true),
        ],
    ),
    (
        "local-mcp__memory-2026.8.31",
        &[
            ("create_entities", ENTITIES, true, false),
            ("create_relations", RELATIONS, true, false),
            ("read_graph", "{}", true, false),
            ("read_graph", "{}", true, false),
            ("search_nodes", r#"{"query":"tea"}"#, true, false),
            ("open_nodes", r#"{"names":["B"]}"#, true, false),
            ("delete_entities", r#"{"entityNames":["A"]}"#, true, false),
            ("add_observations", OBSERVATIONS, true, true),
        ],
    ),
    (
        "local-mcp__sequential-thinking-2026.8.31",
        &[
            (
                "sequentialthinking",
                r#"{"thought":"t1","nextThoughtNeeded":true,"thoughtNumber":1,"totalThoughts":2}"#,
                true,
                false,
            ),
            (
                "sequentialthinking",
                r#"{"thought":"t2","nextThoughtNeeded":false,"thoughtNumber":2,"totalThoughts":2}"#,
                true,
                false,
            ),
            ("sequentialthinking", r#"{"thought":"t"}"#, false, true),
        ],
    ),
    (
        "local-mcp__time-2026.10.19",
        &[
            ("get_current_time", r#"{"timezone":"UTC"}"#, true, false),
            ("convert_time", r#"{"source_timezone":"UTC","time":"10:00","target_timezone":"Asia/Tokyo"}"#, true, false),
            ("get_current_time", r#"{"timezone":"Nope/Zone"}"#, true, true),
            ("get_current_time", "{}", false, true),
            ("nope", "{}", false, true),
        ],
    ),
    (
        "local-mcp__time-2026.10.19__proto-2026-07-28",
        &[
            ("get_current_time", r#"{"timezone":"UTC"}"#, true, false),
            ("get_current_time", r#"{"timezone":"Nope/Zone"}"#, true, true),
            ("nope", "{}", false, true),
        ],
    ),
];

/// The other recordings are snapshots of lists: answers whose requests were not recorded.
const SNAPSHOT_ANSWERS: usize = 22;

#[test]
fn recorded_connections_are_judged_as_they_went() {
    let Some(folder) = shared("corpus/recorded/mcp") else { return };
    let (off, standard) = (engine(Profile::Off), engine(Profile::Standard));
    let (mut read, mut calls, mut results, mut snapshots) = (0, 0, 0, 0);
    for path in files(&folder) {
        read += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let expected = RECORDED.iter().find(|(file, _)| *file == name).map(|(_, calls)| *calls);
        let (mut open, mut judged) = (Partition::new(&off), Partition::new(&standard));
        let (mut seen, mut actions, mut went) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines(&path) {
            let records = open.feed(&line);
            seen.extend(records.iter().filter(|e| e.to == To::Redacted).map(body));
            let emissions = judged.feed(&line);
            for verdict in verdicts(&emissions) {
                match verdict["checkpoint"].as_str() {
                    Some("tool_call") => actions.push(verdict["action"] == "allow"),
                    Some("tool_result") => {
                        // Errors name paths of the machine that they were recorded on.
                        let mut findings = verdict["findings"].as_array().into_iter().flatten();
                        let path = |finding: &Value| finding["rule"] == "internal_path";
                        let well = findings.all(|finding| finding["effect"] == "allow" || path(finding));
                        assert!(well, "{name}: {verdict}");
                        let copy = body(emissions.iter().find(|e| e.to == To::Redacted).unwrap());
                        let failed = copy["data"]["result"]["isError"] == true || copy["data"]["error"].is_object();
                        went.push((verdict["subject"]["tool"].clone(), failed));
                    }
                    Some("tool_definitions") => assert_eq!(verdict["action"], "allow", "{name}: {verdict}"),
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
        let rejected = |o: &Outcome| matches!(o, Outcome::Rejected(_));
        assert!(!open.outcomes.iter().chain(&judged.outcomes).any(rejected), "{name}: a dead letter");
        let Some(expected) = expected else {
            assert!(
                seen.is_empty() && actions.is_empty() && went.iter().all(|(tool, failed)| tool.is_null() && !failed)
            );
            snapshots += went.len();
            continue;
        };
        let seen: Vec<(String, Value)> =
            seen.iter().map(|r| (r["tool"].as_str().unwrap().to_owned(), r["arguments"].clone())).collect();
        let of = |arguments: &str| serde_json::from_str::<Value>(arguments).unwrap();
        let stated: Vec<(String, Value)> = expected.iter().map(|(t, a, ..)| ((*t).to_owned(), of(a))).collect();
        assert_eq!(seen, stated, "{name}");
        assert_eq!(actions, expected.iter().map(|(.., allowed, _)| *allowed).collect::<Vec<_>>(), "{name}");
        let stated: Vec<(Value, bool)> = expected.iter().map(|(t, .., failed)| (json!(t), *failed)).collect();
        assert_eq!(went, stated, "{name}");
        calls += seen.len();
        results += went.len();
    }
    println!("mcp: {read} files, {calls} calls, {results} results, {snapshots} answers without a request");
    assert_eq!((read, snapshots), (18, SNAPSHOT_ANSWERS));
}
