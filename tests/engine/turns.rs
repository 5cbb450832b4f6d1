//! Requests whose history is not as the provider's API takes it, and recorded ones that it took.

use crate::support::{Partition, engine, files, lines, shared, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use std::collections::BTreeMap;

const POLICIES: [&str; 3] = ["SG03", "SG09", "SG10"];

/// One event of a conversation, as a line.
pub(crate) fn line(provider: &str, kind: &str, id: &str, data: &Value) -> Vec<u8> {
    let kind = format!("io.sluicegate.{kind}.v1");
    let mut event = json!({"specversion": "1.0", "id": "e", "source": "/fleet/t", "type": kind, "provider": provider,
        "conversation": "c-1", "data": data});
    if !id.is_empty() {
        event["responseid"] = json!(id);
    }
    event.to_string().into_bytes()
}

/// Findings of the policies of this suite: rule and effect, in order, of every verdict.
pub(crate) fn findings(verdicts: &[Value]) -> Vec<(String, String)> {
    let all = verdicts.iter().flat_map(|v| v["findings"].as_array().cloned().unwrap_or_default());
    let own = all.filter(|f| f["policy"].as_str().is_some_and(|code| POLICIES.contains(&code)));
    own.map(|f| (text(&f["rule"]), text(&f["effect"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What is found in one request, alone in its conversation.
fn found(profile: Profile, provider: &str, data: &Value) -> Vec<(String, String)> {
    let engine = engine(profile);
    let mut partition = Partition::new(&engine);
    findings(&verdicts(&partition.feed(&line(provider, "model.request", "1", data))))
}

fn blocking(provider: &str, data: &Value) -> Vec<String> {
    let found = found(Profile::Standard, provider, data).into_iter();
    found.filter(|(_, effect)| effect == "block").map(|(rule, _)| rule).collect()
}

pub(crate) fn anthropic(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 9, "messages": messages})
}

pub(crate) fn used(ids: &[&str]) -> Value {
    let used = ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "lookup", "input": {}}));
    json!({"role": "assistant", "content": used.collect::<Vec<_>>()})
}

pub(crate) fn given(ids: &[&str]) -> Value {
    let given = ids.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "open"}));
    json!({"role": "user", "content": given.collect::<Vec<_>>()})
}

pub(crate) fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

#[test]
fn anthropic_results_stand_right_behind_their_turn() {
    let go = || said("user", "go on");
    let server = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let ran = |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    let cases: Vec<(&str, Value, &[&str])> = vec![
        ("answered", json!([go(), used(&["a", "b"]), given(&["b", "a"])]), &[]),
        ("answered in two messages", json!([go(), used(&["a", "b"]), given(&["a"]), given(&["b"])]), &[]),
        ("two turns in a row, answered at once", json!([go(), used(&["a"]), used(&["b"]), given(&["a", "b"])]), &[]),
        ("the system speaks between", json!([go(), used(&["a"]), said("system", "x"), given(&["a"])]), &[]),
        ("one is missing", json!([go(), used(&["a", "b"]), given(&["a"])]), &["missing_result"]),
        ("none came", json!([go(), used(&["a"]), said("user", "and?")]), &["missing_result"]),
        ("nothing behind", json!([go(), used(&["a"])]), &["missing_result"]),
        ("nobody asked", json!([go(), said("assistant", "ok"), given(&["a"])]), &["orphan_result"]),
        ("twice", json!([go(), used(&["a"]), given(&["a", "a"])]), &["duplicate_answer"]),
        ("late", json!([go(), used(&["a"]), go(), said("assistant", "ok"), given(&["a"])]), &["wrong_position"]),
        (
            "apart",
            json!([go(), used(&["a", "b"]), given(&["a"]), said("assistant", "ok"), given(&["b"])]),
            &["split_results"],
        ),
        (
            "said by the model",
            json!([go(), assistant(json!([used(&["a"])["content"][0], given(&["a"])["content"][0]]))]),
            &["wrong_role", "missing_result"],
        ),
        ("asked by the user", json!([json!({"role": "user", "content": used(&["a"])["content"]})]), &["wrong_role"]),
        (
            "an id of another kind",
            json!([go(), used(&["a b"]), given(&["a b"])]),
            &["invalid_id", "invalid_id", "missing_result"],
        ),
        ("an id twice", json!([go(), used(&["a", "a"]), given(&["a"])]), &["invalid_id"]),
        ("a server tool", json!([go(), assistant(json!([server("srvtoolu_1"), ran("srvtoolu_1")])), go()]), &[]),
        ("paused", json!([go(), assistant(json!([server("srvtoolu_1")]))]), &[]),
        (
            "paused, and gone on",
            json!([go(), assistant(json!([server("srvtoolu_1")])), assistant(json!([ran("srvtoolu_1")])), go()]),
            &[],
        ),
        (
            "deferred",
            json!([
                go(),
                assistant(json!([server("srvtoolu_1"), used(&["a"])["content"][0]])),
                given(&["a"]),
                assistant(json!([ran("srvtoolu_1")])),
                go()
            ]),
            &[],
        ),
        (
            "never came",
            json!([go(), assistant(json!([server("srvtoolu_1")])), go(), said("assistant", "ok"), go()]),
            &["missing_result"],
        ),
        ("ran unasked", json!([go(), assistant(json!([ran("srvtoolu_1")])), go()]), &["orphan_result"]),
        ("a server's id", json!([go(), assistant(json!([server("toolu_1"), ran("toolu_1")])), go()]), &["invalid_id"]),
        ("ran by the user", json!([go(), json!({"role": "user", "content": [ran("srvtoolu_1")]})]), &["wrong_role"]),
        (
            "text first",
            json!([
                go(),
                used(&["a"]),
                json!({"role": "user", "content": [{"type": "text", "text": "x"}, given(&["a"])["content"][0]]})
            ]),
            &["results_not_first"],
        ),
        (
            "text behind",
            json!([
                go(),
                used(&["a"]),
                json!({"role": "user", "content": [given(&["a"])["content"][0], {"type": "text", "text": "x"}]})
            ]),
            &[],
        ),
    ];
    for (name, messages, expected) in cases {
        let found = blocking("anthropic.messages", &anthropic(messages));
        assert_eq!(sorted(&found), sorted(expected), "{name}");
    }
}

fn sorted<T: AsRef<str>>(rules: &[T]) -> Vec<&str> {
    let mut rules: Vec<&str> = rules.iter().map(AsRef::as_ref).collect();
    rules.sort_unstable();
    rules
}

#[test]
fn responses_are_answered_before_the_next_turn() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "lookup", "arguments": "{}"});
    let out = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "open"});
    let user = || said("user", "go on");
    let model = || said("assistant", "ok");
    let long = "c".repeat(65);
    let cases: Vec<(&str, Value, &[&str])> = vec![
        ("answered", json!([user(), call("a"), call("b"), out("b"), out("a")]), &[]),
        ("one by one", json!([user(), call("a"), out("a"), call("b"), out("b"), user()]), &[]),
        ("a user speaks between", json!([user(), call("a"), user(), out("a")]), &[]),
        ("missing", json!([user(), call("a"), call("b"), out("a")]), &["missing_result"]),
        ("orphan", json!([user(), out("a")]), &["orphan_result"]),
        ("twice", json!([user(), call("a"), out("a"), out("a")]), &["duplicate_answer"]),
        ("before its call", json!([user(), out("a"), call("a")]), &["wrong_position"]),
        ("behind the next turn", json!([user(), call("a"), user(), model(), user(), out("a")]), &["wrong_position"]),
        ("apart", json!([user(), call("a"), call("b"), out("a"), model(), out("b")]), &["split_results"]),
        ("a long id", json!([user(), call(&long), out(&long)]), &["invalid_id", "invalid_id", "missing_result"]),
        (
            "a local shell",
            json!([user(), {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {}, "status": "completed"},
            {"type": "local_shell_call_output", "id": "lsh_1", "output": "open"}]),
            &[],
        ),
        (
            "run by the provider",
            json!([user(), {"type": "mcp_call", "id": "mcp_1", "name": "x", "arguments": "{}", "server_label": "s", "output": "open"}, user()]),
            &[],
        ),
        (
            "a program",
            json!([user(), {"type": "program", "id": "cm_1", "call_id": "p", "code": "f()"},
            {"type": "function_call", "call_id": "a", "name": "lookup", "arguments": "{}", "caller": {"type": "program", "caller_id": "p"}},
            out("a"), {"type": "program_output", "id": "cmo_1", "call_id": "p", "result": "1"}]),
            &[],
        ),
        (
            "a search for tools",
            json!([user(), {"type": "tool_search_call", "id": "tsc_1", "call_id": null, "execution": "client", "arguments": {}},
            {"type": "tool_search_output", "call_id": null, "execution": "client", "tools": []}]),
            &[],
        ),
        (
            "an approval",
            json!([user(), {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}", "server_label": "s"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true}]),
            &[],
        ),
    ];
    for (name, input, expected) in cases {
        let found = blocking("openai.responses", &json!({"model": "m", "input": input}));
        assert_eq!(sorted(&found), sorted(expected), "{name}");
    }
    let search = json!({"type": "custom_tool_call", "call_id": "xs_call_1", "id": "ctc_1", "name": "x_keyword_search", "input": "{}"});
    assert!(blocking("xai.responses", &json!({"input": [user(), search, user()]})).is_empty(), "xAI ran it");
    assert!(
        blocking("xai.responses", &json!({"input": [user(), call(&long), out(&long)]})).is_empty(),
        "no such bound"
    );
}

#[test]
fn chat_results_stand_directly_behind_the_calls() {
    let calls = |ids: &[&str]| {
        let calls = ids
            .iter()
            .map(|id| json!({"id": id, "type": "function", "function": {"name": "lookup", "arguments": "{}"}}));
        json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()})
    };
    let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "open"});
    let user = || said("user", "go on");
    let cases: Vec<(&str, Value, &[&str])> = vec![
        ("answered", json!([user(), calls(&["a", "b"]), tool("b"), tool("a"), user()]), &[]),
        ("two turns", json!([user(), calls(&["a"]), tool("a"), calls(&["b"]), tool("b")]), &[]),
        ("an id again in a later turn", json!([user(), calls(&["a"]), tool("a"), calls(&["a"]), tool("a")]), &[]),
        ("missing", json!([user(), calls(&["a", "b"]), tool("a")]), &["missing_result"]),
        ("missing, and the user goes on", json!([user(), calls(&["a"]), user()]), &["missing_result"]),
        ("orphan", json!([user(), tool("a")]), &["orphan_result"]),
        ("twice", json!([user(), calls(&["a"]), tool("a"), tool("a")]), &["duplicate_answer"]),
        ("the user between", json!([user(), calls(&["a"]), user(), tool("a")]), &["wrong_position"]),
        ("apart", json!([user(), calls(&["a", "b"]), tool("a"), user(), tool("b")]), &["split_results"]),
        (
            "called by the user",
            json!([{"role": "user", "content": "x", "tool_calls": calls(&["a"])["tool_calls"]}]),
            &["wrong_role"],
        ),
        (
            "without an id",
            json!([user(), calls(&["a"]), {"role": "tool", "content": "open"}]),
            &["invalid_id", "missing_result"],
        ),
        (
            "the older form",
            json!([user(), {"role": "assistant", "function_call": {"name": "lookup", "arguments": "{}"}}, {"role": "function", "name": "lookup", "content": "open"}]),
            &[],
        ),
    ];
    for provider in ["openai.chat", "xai.chat"] {
        for (name, messages, expected) in &cases {
            let found = blocking(provider, &json!({"model": "m", "messages": messages}));
            assert_eq!(sorted(&found), sorted(expected), "{name} for {provider}");
        }
    }
}

#[test]
fn gemini_answers_are_as_many_as_the_calls() {
    let calls = |ids: &[&str]| {
        let calls = ids.iter().map(|id| match id.split_once('/') {
            Some((name, id)) => json!({"functionCall": {"name": name, "id": id, "args": {}}}),
            None => json!({"functionCall": {"name": id, "args": {}}}),
        });
        json!({"role": "model", "parts": calls.collect::<Vec<_>>()})
    };
    let answers = |role: &str, ids: &[&str]| {
        let answers = ids.iter().map(|id| match id.split_once('/') {
            Some((name, id)) => json!({"functionResponse": {"name": name, "id": id, "response": {"result": 1}}}),
            None => json!({"functionResponse": {"name": id, "response": {"result": 1}}}),
        });
        json!({"role": role, "parts": answers.collect::<Vec<_>>()})
    };
    let user = || json!({"role": "user", "parts": [{"text": "go on"}]});
    let model = || json!({"role": "model", "parts": [{"text": "ok"}]});
    let cases: Vec<(&str, Value, &[&str])> = vec![
        ("answered", json!([user(), calls(&["f", "g"]), answers("user", &["f", "g"])]), &[]),
        ("by the older role", json!([user(), calls(&["f"]), answers("function", &["f"])]), &[]),
        ("with ids of the client's own", json!([user(), calls(&["f", "f"]), answers("user", &["f/1", "f/2"])]), &[]),
        ("by id", json!([user(), calls(&["f/1", "f/2"]), answers("user", &["f/1", "f/2"])]), &[]),
        ("two contents in a row", json!([user(), calls(&["f"]), calls(&["g"]), answers("user", &["f", "g"])]), &[]),
        ("missing", json!([user(), calls(&["f", "f"]), answers("user", &["f"])]), &["missing_result"]),
        ("none", json!([user(), calls(&["f"]), user()]), &["missing_result"]),
        ("one too many", json!([user(), calls(&["f"]), answers("user", &["f", "f"])]), &["orphan_result"]),
        (
            "of another function",
            json!([user(), calls(&["f"]), answers("user", &["g"])]),
            &["orphan_result", "missing_result"],
        ),
        (
            "an id twice",
            json!([user(), calls(&["f/1", "f/2"]), answers("user", &["f/1", "f/1"])]),
            &["duplicate_answer", "missing_result"],
        ),
        ("nobody asked", json!([answers("user", &["f"])]), &["orphan_result"]),
        (
            "late",
            json!([user(), calls(&["f"]), user(), model(), answers("user", &["f"])]),
            &["missing_result", "wrong_position"],
        ),
        (
            "said by the model",
            json!([user(), calls(&["f"]), answers("model", &["f"]), user()]),
            &["wrong_role", "missing_result"],
        ),
        ("asked by the user", json!([{"role": "user", "parts": [{"functionCall": {"name": "f"}}]}]), &["wrong_role"]),
    ];
    for (name, contents, expected) in cases {
        let found = blocking("gemini.generate_content", &json!({"contents": contents}));
        assert_eq!(sorted(&found), sorted(expected), "{name}");
    }
}

/// The half of a history that the provider keeps is known where its response was seen.
#[test]
fn the_half_that_is_kept_elsewhere_is_looked_up() {
    let engine = engine(Profile::Standard);
    let call = |id: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "lookup", "arguments": "{}", "status": "completed"});
    let response =
        json!({"id": "resp_1", "object": "response", "status": "completed", "output": [call("a"), call("b")]});
    let out = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "open"});
    let next = |items: Value| json!({"model": "m", "previous_response_id": "resp_1", "input": items});
    let tools = json!([{"type": "function", "name": "lookup", "parameters": {"type": "object"}}]);
    let run = |items: Value| {
        let mut partition = Partition::new(&engine);
        let provider = "openai.responses";
        partition.feed(&line(provider, "model.request", "1", &json!({"model": "m", "input": "x", "tools": tools})));
        partition.feed(&line(provider, "model.response", "1", &response));
        findings(&verdicts(&partition.feed(&line(provider, "model.request", "2", &next(items)))))
    };
    let rule = |name: &str, effect: &str| (name.to_owned(), effect.to_owned());
    assert_eq!(run(json!([out("a"), out("b")])), []);
    assert_eq!(run(json!([out("a")])), [rule("missing_result", "block")]);
    assert_eq!(run(json!([said("user", "and?")])), [rule("missing_result", "block"), rule("missing_result", "block")]);
    assert_eq!(run(json!([out("a"), out("b"), out("z")])), [rule("not_observed", "allow")]);
    // Of a conversation that nobody saw nothing is said, once.
    let mut partition = Partition::new(&engine);
    let mut ask = || {
        findings(&verdicts(&partition.feed(&line("openai.responses", "model.request", "2", &next(json!([out("a")]))))))
    };
    assert_eq!(ask(), [rule("not_observed", "allow")]);
    assert_eq!(ask(), []);
}

/// Providers of recorded requests.
const PROVIDERS: [&str; 7] = [
    "anthropic.messages",
    "openai.responses",
    "openai.chat",
    "xai.responses",
    "xai.chat",
    "gemini.generate_content",
    "gemini.live",
];

/// What the providers took is not blocked for its shape.
#[test]
fn recorded_requests_are_paired_and_pure() {
    let Some(corpus) = shared("corpus") else { return };
    let standard = engine(Profile::Standard);
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    let mut blocked = Vec::new();
    let (mut requests, mut results) = (0, 0);
    for provider in PROVIDERS {
        for path in files(&corpus.join("recorded").join(provider)) {
            let mut partition = Partition::new(&standard);
            for (n, line) in lines(&path).iter().enumerate() {
                let verdicts = verdicts(&partition.feed(line));
                requests += verdicts.iter().filter(|v| v["checkpoint"] == "model_request").count();
                results += verdicts.iter().filter(|v| v["checkpoint"] == "tool_result").count();
                for (rule, effect) in findings(&verdicts) {
                    if effect == "block" {
                        blocked.push(format!("{}:{n}: {rule}", path.display()));
                    }
                    *said.entry(format!("{provider} {rule} {effect}")).or_default() += 1;
                }
            }
        }
    }
    println!("{requests} requests and {results} results judged; {said:?}");
    assert!(blocked.is_empty(), "{}", blocked.join("\n"));
    assert!(requests > 400 && results > 300, "the corpus holds more than that");
}

/// Where the results of a request stand: the list, and the place in it.
fn places(provider: &str, data: &Value) -> Vec<(String, usize)> {
    let list = |pointer: &str| data.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let within = |outer: &str, inner: &str, is: &dyn Fn(&Value) -> bool| {
        let mut found = Vec::new();
        for i in 0..list(outer).len() {
            let pointer = format!("{outer}/{i}/{inner}");
            let own =
                list(&pointer).into_iter().enumerate().filter(|(_, item)| is(item)).map(|(j, _)| (pointer.clone(), j));
            found.extend(own.collect::<Vec<_>>());
        }
        found
    };
    let of = |outer: &str, is: &dyn Fn(&Value) -> bool| {
        let own = list(outer).into_iter().enumerate().filter(|(_, item)| is(item)).map(|(i, _)| (outer.to_owned(), i));
        own.collect::<Vec<_>>()
    };
    match provider {
        "anthropic.messages" => within("/messages", "content", &|b| b["type"] == "tool_result"),
        "gemini.generate_content" => {
            within("/contents", "parts", &|p| !p["functionResponse"].is_null() || !p["function_response"].is_null())
        }
        "openai.chat" | "xai.chat" => of("/messages", &|m| m["role"] == "tool"),
        _ => of("/input", &|i| matches!(i["type"].as_str(), Some("function_call_output" | "custom_tool_call_output"))),
    }
}

/// A recorded request with one result taken out, doubled, or put under another id is refused, each by its rule.
#[test]
fn a_recorded_request_that_is_tampered_with_is_refused() {
    let Some(corpus) = shared("corpus") else { return };
    let mut tried: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for provider in PROVIDERS {
        for path in files(&corpus.join("recorded").join(provider)) {
            for line in lines(&path) {
                let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                let kept = ["previous_response_id", "conversation", "cachedContent"]
                    .iter()
                    .any(|name| !event["data"][name].is_null());
                let own = event["provider"] == provider && event["type"] == "io.sluicegate.model.request.v1";
                if !own || kept || event["historyfrom"].is_string() {
                    continue;
                }
                let data = &event["data"];
                let Some((list, at)) = places(provider, data).pop() else { continue };
                let change = |edit: &dyn Fn(&mut Vec<Value>)| {
                    let mut data = data.clone();
                    data.pointer_mut(&list).and_then(Value::as_array_mut).into_iter().for_each(edit);
                    data
                };
                let changed: [(&str, Value, &[&str]); 3] = [
                    (
                        "taken out",
                        change(&|list| match provider {
                            // A content without parts is none.
                            "gemini.generate_content" => list[at] = json!({"text": "and?"}),
                            _ => drop(list.remove(at)),
                        }),
                        &["missing_result"],
                    ),
                    (
                        "doubled",
                        change(&|list| list.insert(at, list[at].clone())),
                        &["duplicate_answer", "orphan_result"],
                    ),
                    (
                        "renamed",
                        change(&|list| {
                            for name in ["tool_use_id", "tool_call_id", "call_id"] {
                                if let Some(id) = list[at].get_mut(name) {
                                    *id = json!("call_nobody_made");
                                }
                            }
                            for name in ["functionResponse", "function_response"] {
                                if let Some(response) = list[at].get_mut(name) {
                                    response["name"] = json!("nobody");
                                    response.as_object_mut().into_iter().for_each(|r| drop(r.remove("id")));
                                }
                            }
                        }),
                        &["orphan_result"],
                    ),
                ];
                for (how, data, rules) in changed {
                    *tried.entry((provider, how)).or_default() += 1;
                    let found = blocking(provider, &data);
                    if !found.iter().any(|rule| rules.contains(&rule.as_str())) {
                        wrong.push(format!("{}: {how}: {found:?}", path.display()));
                    }
                }
            }
        }
    }
    println!("{tried:?}");
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}
