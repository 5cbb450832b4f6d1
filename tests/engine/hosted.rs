//! SG06 where no server is asked by its client: lists that providers ask for, definitions that a history brings, and
//! calls of what was blocked in either.

use crate::pins::{Talk, approved, decide, definitions, engine, key, offered, request, said, sightings, tool};
use crate::support::verdicts;
use serde_json::{Value, json};
use sluicegate::engine::To;
use sluicegate::engine::pins::PinTable;
use sluicegate::engine::pins::record::Standing;

fn hosted(tools: &[Value]) -> Value {
    json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": tools})
}

fn response(item: &Value) -> Value {
    json!({"id": "resp_1", "object": "response", "status": "completed", "output": [item]})
}

#[test]
fn a_providers_list_is_told_and_blocks_the_request_that_repeats_it() {
    let search = json!({"name": "search", "description": "Searches.", "input_schema": {"type": "object"}});
    let item = hosted(std::slice::from_ref(&search));
    let repeats = json!({"model": "m", "input": [{"role": "user", "content": "x"}, item]});
    for provider in ["openai.responses", "xai.responses"] {
        let none = engine(PinTable::default(), json!({}));
        let mut talk = Talk::new(&none);
        let gave = talk.model("model.response", provider, &response(&item));
        assert_eq!(definitions(&gave), "block unpinned_tool=none");
        assert!(!gave.iter().any(|e| e.to == To::Redacted), "nothing of a response is published");
        assert_eq!(verdicts(&gave)[0]["subject"]["executor"], "provider");
        assert_eq!(sightings(&gave).len(), 1);
        let gave = talk.model("model.request", provider, &repeats);
        assert_eq!(
            (definitions(&gave), said(&gave, "model_request")),
            (String::new(), "block definitions_withheld=-".into())
        );
        // A response that nobody saw: the request's is the first sight.
        let gave = Talk::new(&none).model("model.request", provider, &repeats);
        assert_eq!(definitions(&gave), "block unpinned_tool=none");
        let pinned = engine(approved("docs", std::slice::from_ref(&search)), json!({}));
        let mut talk = Talk::new(&pinned);
        assert_eq!(definitions(&talk.model("model.response", provider, &response(&item))), "allow");
        assert_eq!(said(&talk.model("model.request", provider, &repeats), "model_request"), "allow");
    }
}

/// A tool as a hosted list spells it.
fn listed(description: &str) -> Value {
    json!({"name": "send", "description": description, "input_schema": {"type": "object"}})
}

fn called() -> Value {
    json!({"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "send", "arguments": "{\"q\":\"a\"}",
        "status": "completed", "output": "sent"})
}

fn asked() -> Value {
    json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "docs", "name": "send",
        "arguments": "{\"q\":\"a\"}"})
}

fn responded(items: &[Value]) -> Value {
    json!({"id": "resp_1", "object": "response", "status": "completed", "output": items})
}

const HOSTS: [&str; 2] = ["openai.responses", "xai.responses"];
const WITHHELD: &str = "block withheld_tool=-";

/// Its list was blocked, and declared what it lists all the same: for calls of the response that brought it, or of
/// that which answers a request that repeats it.
#[test]
fn a_provider_calls_what_was_blocked() {
    let none = engine(PinTable::default(), json!({}));
    for provider in HOSTS {
        for call in [called(), asked()] {
            let mut talk = Talk::new(&none);
            let gave = talk.model("model.response", provider, &responded(&[hosted(&[listed("Sends.")]), call.clone()]));
            assert_eq!((&*definitions(&gave), &*said(&gave, "tool_call")), ("block unpinned_tool=none", WITHHELD));
            // Streamed, the items come one by one.
            let done =
                |at: u32, item: Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
            let stream = [
                json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
                done(0, hosted(&[listed("Sends.")])),
                done(1, call.clone()),
                json!({"type": "response.completed", "response": responded(&[])}),
            ];
            // Also where its beginning was not seen.
            for from in 0..2 {
                let mut talk = Talk::new(&none);
                let gave: Vec<_> =
                    stream[from..].iter().flat_map(|event| talk.model("model.chunk", provider, event)).collect();
                assert_eq!((&*definitions(&gave), &*said(&gave, "tool_call")), ("block unpinned_tool=none", WITHHELD));
            }
            // The host sent a request that was blocked for the list in it.
            let mut talk = Talk::new(&none);
            let repeats = json!({"model": "m", "input": [hosted(&[listed("Sends.")])]});
            let gave = talk.model("model.request", provider, &repeats);
            assert_eq!(said(&gave, "model_request"), "block definitions_withheld=-");
            let gave = talk.model("model.response", provider, &responded(&[call]));
            assert_eq!(said(&gave, "tool_call"), WITHHELD);
        }
    }
}

/// The request repeats what was approved, and the response lists something else under the same name.
#[test]
fn a_provider_lists_another_tool_than_the_request_repeats() {
    let engine = engine(approved("docs", &[listed("Sends.")]), json!({}));
    let repeats = json!({"model": "m", "input": [hosted(&[listed("Sends.")])]});
    for provider in HOSTS {
        let calls = |items: &[Value]| {
            let mut talk = Talk::new(&engine);
            assert_eq!(said(&talk.model("model.request", provider, &repeats), "model_request"), "allow");
            said(&talk.model("model.response", provider, &responded(items)), "tool_call")
        };
        assert_eq!(calls(&[called()]).trim(), "allow");
        assert_eq!(calls(&[hosted(&[listed("Sends.")]), called()]).trim(), "allow");
        assert_eq!(calls(&[hosted(&[listed("Sends, and copies.")]), called()]), WITHHELD);
    }
}

/// In `monitor` nothing is withheld, and an approval ends it.
#[test]
fn what_was_withheld_can_be_called_once_it_is_approved() {
    let mut engine = engine(PinTable::default(), json!({}));
    let repeats = json!({"model": "m", "input": [hosted(&[listed("Sends.")])]});
    let mut state = {
        let mut talk = Talk::new(&engine);
        talk.model("model.request", "openai.responses", &repeats);
        let gave = talk.model("model.response", "openai.responses", &responded(&[called()]));
        assert_eq!(said(&gave, "tool_call"), WITHHELD);
        talk.into_state()
    };
    let mut table = PinTable::default();
    decide(&mut table, key("docs", &listed("Sends.")), Standing::Approved, &listed("Sends."));
    engine.set_pins(std::sync::Arc::new(table));
    state.accept();
    state.begin();
    let mut talk = Talk::with_state(&engine, state);
    assert_eq!(said(&talk.model("model.request", "openai.responses", &repeats), "model_request"), "allow");
    let gave = talk.model("model.response", "openai.responses", &responded(&[called()]));
    assert_eq!(said(&gave, "tool_call").trim(), "allow");
}

/// A way into a request: what it is called, whose it is, and a request with a tool of that name and description.
type Way<'w> = (&'w str, &'w str, &'w dyn Fn(&str, &str) -> Value);

/// A server's tool came into a request by another way than its `tools[]`, and no pin was asked.
#[test]
fn a_servers_tool_has_its_pin_wherever_a_request_defines_it() {
    let (search, send) = (tool("search", "Searches."), tool("send", "Sends."));
    let engine = engine(approved("docs", std::slice::from_ref(&search)), json!({}));
    let function = |name: &str, description: &str| json!({"type": "function", "name": name, "description": description, "parameters": {"type": "object"}});
    let flat = |name: &str, description: &str| json!({"name": name, "description": description, "input_schema": {"type": "object"}});
    let responses = |item: Value| json!({"model": "m", "input": [{"role": "user", "content": "x"}, item]});
    let found = |tools: Value| {
        let search = json!({"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {},
            "status": "completed"});
        let output = json!({"type": "tool_search_output", "call_id": "s1", "execution": "client",
            "status": "completed", "tools": tools});
        json!({"model": "m", "tools": [{"type": "tool_search", "execution": "client"}],
            "input": [{"role": "user", "content": "x"}, search, output]})
    };
    let added = |tool: Value| {
        json!({"model": "m", "messages": [{"role": "user", "content": "x"},
            {"role": "system", "content": [{"type": "tool_addition", "tool": tool}]}]})
    };
    let more = |tools: Value| json!({"type": "additional_tools", "role": "developer", "tools": tools});
    let held = |name: &str, description: &str| {
        let mut body = added(json!({"type": "tool_reference", "tool_name": name}));
        let mut own = flat(name, description);
        own["defer_loading"] = json!(true);
        body["tools"] = json!([own]);
        body
    };
    let own = |tools: Value| json!({"model": "m", "input": "x", "tools": tools});
    let ways: [Way<'_>; 7] = [
        ("own", "openai.responses", &|n, d| own(json!([function(n, d)]))),
        ("additional_tools", "openai.responses", &|n, d| responses(more(json!([function(n, d)])))),
        ("namespace", "openai.responses", &|n, d| {
            responses(more(json!([{"type": "namespace", "name": "m", "tools": [function(n, d)]}])))
        }),
        ("tool_search_output", "xai.responses", &|n, d| found(json!([function(n, d)]))),
        ("tool_addition", "anthropic.messages", &|n, d| added(flat(n, d))),
        ("tool_reference", "anthropic.messages", &held),
        ("chat", "openai.chat", &|n, d| request(&[offered(n, d)])),
    ];
    for (way, provider, body) in ways {
        let mut talk = Talk::new(&engine);
        let ask = |talk: &mut Talk<'_>, name: &str, description: &str| {
            let gave = talk.model("model.request", provider, &body(name, description));
            assert!(sightings(&gave).is_empty(), "{way}");
            said(&gave, "model_request")
        };
        assert_eq!(ask(&mut talk, "mcp__docs__send", "Sends."), "allow", "{way}: of no server that was seen");
        talk.list("docs", json!([search, send]));
        assert_eq!(ask(&mut talk, "mcp__docs__search", "Searches."), "allow", "{way}");
        assert_eq!(ask(&mut talk, "mcp__docs__send", "Sends."), "block unpinned_tool=none", "{way}");
        assert_eq!(ask(&mut talk, "other", "Sends."), "allow", "{way}: another tool");
    }
    // A host that sends it all the same gets no call of it.
    let mut talk = Talk::new(&engine);
    talk.list("docs", json!([search, send]));
    for (name, expected) in [("mcp__docs__send", WITHHELD), ("mcp__docs__search", "allow")] {
        let tools = [offered("mcp__docs__send", "Sends."), offered("mcp__docs__search", "Searches.")];
        talk.model("model.request", "openai.chat", &request(&tools));
        let call = json!({"id": format!("c_{name}"), "type": "function",
            "function": {"name": name, "arguments": "{}"}});
        let body = json!({"id": format!("r_{name}"), "object": "chat.completion", "choices": [{"index": 0,
            "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call]}}]});
        assert_eq!(said(&talk.model("model.response", "openai.chat", &body), "tool_call").trim(), expected, "{name}");
    }
}

/// A search's output repeats a tool of the request with fewer members: that is no change of it.
#[test]
fn what_a_history_brings_is_no_change_of_the_agents_own_tools() {
    let engine = engine(approved("docs", &[tool("search", "Searches.")]), json!({}));
    let mut talk = Talk::new(&engine);
    talk.list("docs", json!([tool("search", "Searches.")]));
    let own = json!({"type": "function", "name": "find", "description": "Finds.", "parameters": {"type": "object"},
        "defer_loading": true});
    let mut found = own.clone();
    found.as_object_mut().unwrap().remove("defer_loading");
    let output = json!({"type": "tool_search_output", "call_id": "s1", "execution": "client", "status": "completed",
        "tools": [found]});
    let search = json!({"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {},
        "status": "completed"});
    let body = json!({"model": "m", "input": [search, output], "tools": [{"type": "tool_search"}, own]});
    for _ in 0..2 {
        assert_eq!(said(&talk.model("model.request", "openai.responses", &body), "model_request"), "allow");
    }
}
