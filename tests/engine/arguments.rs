//! SG04 in the whole engine: what the operator says of tools, wrappers, Google's dialect.

use crate::support::{Partition, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::decision::Decision;
use sluicegate::engine::policy::{Mode, OnePolicy, Profile};
use sluicegate::engine::{Engine, To};

fn with(one: OnePolicy) -> Engine {
    let mut settings = settings(Profile::Standard);
    settings.policy.policies.insert("SG04".into(), one);
    let trusts = json!({"trust_first": true}).as_object().cloned().unwrap();
    settings.policy.policies.insert("SG06".into(), OnePolicy { options: trusts, ..OnePolicy::default() });
    Engine::new(settings).unwrap()
}

fn knowing(tools: Value) -> OnePolicy {
    OnePolicy { options: json!({ "tools": tools }).as_object().cloned().unwrap(), ..OnePolicy::default() }
}

fn event(kind: &str, provider: &str, data: &Value) -> Vec<u8> {
    json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": provider, "conversation": "c", "data": data})
    .to_string()
    .into_bytes()
}

fn function(name: &str, schema: Value) -> Value {
    json!({"type": "function", "name": name, "parameters": schema})
}

fn called(name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": name, "arguments": arguments, "status": "completed"})
}

/// The verdict on one call of OpenAI's; `tools`: what the request declares, if one was seen.
fn judged(engine: &Engine, tools: Option<Value>, item: Value) -> Value {
    let mut partition = Partition::new(engine);
    if let Some(tools) = tools {
        let request = json!({"model": "m", "tools": tools, "input": [{"role": "user", "content": "go on"}]});
        partition.feed(&event("model.request", "openai.responses", &request));
    }
    let response = json!({"id": "resp_1", "object": "response", "status": "completed", "output": [item]});
    let all = verdicts(&partition.feed(&event("model.response", "openai.responses", &response)));
    all.into_iter().find(|verdict| verdict["checkpoint"] == "tool_call").unwrap()
}

/// `rule label pointer range: effect` of SG04, without remarks on code.
fn found(verdict: &Value) -> Vec<String> {
    let all = verdict["findings"].as_array().into_iter().flatten();
    let own = all.filter(|finding| finding["policy"] == "SG04" && finding["rule"] != "model_code");
    own.map(|finding| {
        let text = |value: &Value| value.as_str().map(|text| format!(" {text}")).unwrap_or_default();
        let pointer = finding["at"].as_array().and_then(|at| at.last()).map(|at| text(&at["pointer"]));
        let word = ["label", "keyword"].map(|name| text(&finding["evidence"][name])).concat();
        let range = finding.get("range").filter(|range| !range.is_null()).map(|range| format!(" {range}"));
        format!(
            "{}{word}{}{}: {}",
            finding["rule"].as_str().unwrap(),
            pointer.unwrap_or_default(),
            range.unwrap_or_default(),
            finding["effect"].as_str().unwrap()
        )
    })
    .collect()
}

#[test]
fn the_operators_schema_holds_beside_the_requests() {
    let schema = json!({"required": ["q"], "properties": {"q": {"maxLength": 3}}});
    let engine = with(knowing(json!([{"tool": "find", "schema": schema}])));
    let own =
        || Some(json!([function("find", json!({"properties": {"q": {"type": "string"}, "n": {"type": "integer"}}}))]));
    let cases = [
        (own(), r#"{"q":"abc","n":1}"#, vec![]),
        (
            own(),
            r#"{"q":"abcd","n":"x"}"#,
            vec!["schema_mismatch maxLength /q: block", "schema_mismatch type /n: block"],
        ),
        // Known to the operator is not declared.
        (Some(json!([])), r#"{"q":"abc"}"#, vec!["unknown_tool: block"]),
    ];
    for (tools, arguments, wanted) in cases {
        assert_eq!(found(&judged(&engine, tools, called("find", arguments))), wanted, "{arguments}");
    }
    // Without a request the check is made all the same, and the verdict is complete.
    let unseen = judged(&engine, None, called("find", r#"{"q":"abcd"}"#));
    assert_eq!((unseen["decision"].as_str(), unseen["complete"].as_bool()), (Some("block"), Some(true)), "{unseen}");
    assert!(!found(&unseen).iter().any(|f| f.starts_with("not_observed") || f.starts_with("no_schema")), "{unseen}");
    let other = judged(&engine, None, called("other", "{}"));
    assert_eq!(found(&other), ["not_observed no_request: allow", "no_schema no_request: allow"]);
    // A definition without a schema.
    let bare =
        judged(&with(OnePolicy::default()), Some(json!([{"type": "function", "name": "now"}])), called("now", "{}"));
    assert_eq!(found(&bare), ["no_schema definition: allow"]);
    let bare = judged(
        &with(knowing(json!([{"tool": "now", "schema": {"type": "object"}}]))),
        Some(json!([{"type": "function", "name": "now"}])),
        called("now", "{}"),
    );
    assert_eq!(found(&bare), Vec::<String>::new());
}

#[test]
fn parameters_that_the_operator_named() {
    let properties = json!({"path": {}, "pages": {"items": {"properties": {"url": {}}}}, "names": {}, "q": {}});
    let tools = || Some(json!([function("t", json!({"properties": properties}))]));
    let parameters =
        json!({"path": "path", "/pages/*/url": "url", "names": "shell", "/q/0": "sql", "/q/1": "template"});
    let engine = with(knowing(json!([{"tool": "t", "parameters": parameters}])));
    let cases = [
        (r#"{"path":"a/b.txt","pages":[{"url":"https://example.com/"}],"names":["a"],"q":["a","b","'{{"]}"#, vec![]),
        (r#"{"path":"a/../../b"}"#, vec!["path_traversal parent /path [2,4]: allow"]),
        (r#"{"path":"ä/../b"}"#, vec!["path_traversal parent /path [3,5]: allow"]),
        (r#"{"path":"%2e%2e/b"}"#, vec!["path_traversal encoded /path: allow"]),
        (
            r#"{"pages":[{"url":"https://example.com/"},{"url":"http://169.254.169.254/"}]}"#,
            vec!["internal_url metadata /pages/1/url: allow"],
        ),
        (
            r#"{"names":["a",{"b":["x;y"]}],"q":["1'","{{x}}"]}"#,
            vec![
                "template_expression braces /q/1 [0,2]: allow",
                "sql_metacharacters quote /q/0 [1,2]: allow",
                "shell_metacharacters separator /names/1/~HASH/0 [1,2]: allow",
            ],
        ),
    ];
    for (arguments, mut wanted) in cases {
        let mut found: Vec<String> = found(&judged(&engine, tools(), called("t", arguments)))
            .into_iter()
            .map(|text| match text.split_once("/~0") {
                Some((before, behind)) => format!("{before}/~HASH{}", behind.get(12..).unwrap_or_default()),
                None => text,
            })
            .collect();
        found.sort();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{arguments}");
    }
    // Of two members of one name both are read, whatever else is said of them.
    let twice = found(&judged(&engine, tools(), called("t", r#"{"path":"a","path":"../b"}"#)));
    assert!(twice.iter().any(|f| f.starts_with("path_traversal parent")), "{twice:?}");
    // What was found shows nothing of the text.
    let verdict = judged(&engine, tools(), called("t", r#"{"path":"../0c0ffee"}"#));
    assert!(!verdict.to_string().contains("0c0ffee"));
}

#[test]
fn one_text_as_a_whole() {
    let engine = with(knowing(json!([{"tool": "run", "parameters": {"": "shell"}, "enforce": true}])));
    let tools = || Some(json!([{"type": "custom", "name": "run"}]));
    let item = |input: &str| json!({"type": "custom_tool_call", "id": "ctc", "call_id": "c1", "name": "run", "input": input, "status": "completed"});
    assert_eq!(found(&judged(&engine, tools(), item("ls"))), Vec::<String>::new());
    let found = found(&judged(&engine, tools(), item("ls; id")));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("shell_metacharacters separator") && found[0].ends_with("block"), "{found:?}");
}

#[test]
fn enforcing_is_for_a_tool() {
    let tools = || Some(json!([function("a", json!({})), function("b", json!({}))]));
    let entries = json!([{"tool": "a", "parameters": {"p": "path"}, "enforce": true}, {"tool": "b", "parameters": {"p": "path"}}]);
    let action = |one: OnePolicy, tool: &str| {
        let verdict = judged(&with(one), tools(), called(tool, r#"{"p":"../x"}"#));
        (verdict["action"].as_str().unwrap().to_owned(), found(&verdict).len())
    };
    let is = |action: &str| (action.to_owned(), 1);
    assert_eq!(action(knowing(entries.clone()), "a"), is("block"));
    assert_eq!(action(knowing(entries.clone()), "b"), is("allow"));
    let raised =
        OnePolicy { rules: [("path_traversal".to_owned(), Decision::Block)].into(), ..knowing(entries.clone()) };
    assert_eq!(action(raised, "b"), is("block"));
    let watching = OnePolicy { mode: Some(Mode::Monitor), ..knowing(entries) };
    assert_eq!(action(watching, "a"), is("allow"));
    // Another server's tool of that name is another tool.
    let elsewhere = json!([{"tool": "a", "server": "files", "parameters": {"p": "path"}, "enforce": true}]);
    assert_eq!(action(knowing(elsewhere), "a"), ("allow".to_owned(), 0));
}

#[test]
fn a_servers_tool() {
    let engine =
        with(knowing(json!([{"tool": "read", "server": "files", "parameters": {"p": "path"}, "enforce": true}])));
    let action = |server: &str| {
        let mut partition = Partition::new(&engine);
        let message = |side: &str, data: Value| {
            let mut event: Value = serde_json::from_slice(&event("mcp.message", "mcp", &data)).unwrap();
            event["direction"] = json!(side);
            event["mcpserver"] = json!(server);
            event.to_string().into_bytes()
        };
        partition.feed(&message("client", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})));
        let list = json!({"tools": [{"name": "read", "inputSchema": {"type": "object"}}]});
        partition.feed(&message("server", json!({"jsonrpc": "2.0", "id": 1, "result": list})));
        let params = json!({"name": "read", "arguments": {"p": "../x"}});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let all = verdicts(&partition.feed(&message("client", call)));
        all.iter().find(|v| v["checkpoint"] == "tool_call").unwrap()["action"].clone()
    };
    assert_eq!((action("files"), action("mail")), (json!("block"), json!("allow")));
}

#[test]
fn every_way_to_hide_calls() {
    let tools = || {
        Some(json!([
            function("send", json!({"required": ["to"]})),
            function("declared_batch", json!({"type": "object"}))
        ]))
    };
    let engine = with(OnePolicy::default());
    let bad = json!({"to_whom": 1});
    let inner = |list: &str, recipient: &str, parameters: &str| {
        json!({list: [{recipient: "send", parameters: bad}, {recipient: "functions.gone", parameters: {}}]}).to_string()
    };
    let wanted = |list: &str, recipient: &str| {
        vec![
            "wrapped_calls: block".to_owned(),
            "schema_mismatch required: block".to_owned(),
            format!("unknown_tool /{list}/1/{recipient}: block"),
        ]
    };
    // Names in pointers are hashed here: what the request does not declare is not shown.
    let plain = |found: Vec<String>| -> Vec<String> {
        let words = |f: &str| if f.contains("schema_") { 2 } else { 1 };
        let short = |f: &str| f.split([' ', ':']).take(words(f)).collect::<Vec<_>>().join(" ");
        found.iter().map(|f| short(f)).collect()
    };
    for (name, list, recipient, parameters) in [
        ("multi_tool_use.parallel", "tool_uses", "recipient_name", "parameters"),
        ("multi_tool_use_parallel", "tool_uses", "recipient_name", "parameters"),
        ("parallel", "tool_uses", "recipient_name", "parameters"),
        ("anything", "tool_uses", "recipient_name", "parameters"),
        ("batch_tool", "invocations", "name", "arguments"),
        ("batch", "calls", "tool_name", "input"),
        ("parallel_tool_calls", "tool_calls", "name", "arguments"),
    ] {
        let arguments = inner(list, recipient, parameters);
        let said = found(&judged(&engine, tools(), called(name, &arguments)));
        assert_eq!(plain(said), plain(wanted(list, recipient)), "{name}");
    }
    let rules = |name: &str, arguments: Value, tools: Option<Value>| {
        plain(found(&judged(&engine, tools, called(name, &arguments.to_string()))))
    };
    // Arguments as JSON in a string, as `tool_calls` have them, and a wrapper in a wrapper.
    let text = json!({"tool_calls": [{"function": {"name": "send", "arguments": bad.to_string()}}]});
    assert_eq!(rules("parallel", text, tools()), ["wrapped_calls", "schema_mismatch required"]);
    let broken = json!({"tool_calls": [{"function": {"name": "send", "arguments": "{\"to\":1}{}"}}]});
    assert_eq!(rules("parallel", broken, tools()), ["wrapped_calls", "merged_calls"]);
    let within = json!({"tool_uses": [{"recipient_name": "multi_tool_use.parallel",
        "parameters": {"tool_uses": [{"recipient_name": "functions.send", "parameters": bad}]}}]});
    assert_eq!(rules("multi_tool_use.parallel", within, tools()), ["wrapped_calls", "schema_mismatch required"]);
    // Bounded.
    let many: Vec<Value> = (0..100).map(|n| json!({"recipient_name": format!("t{n}"), "parameters": {}})).collect();
    assert_eq!(rules("multi_tool_use", json!({"tool_uses": many}), tools()).len(), 17);
    // What is no wrapper: a declared tool, and one of which nothing is known but a common name.
    let list = json!({"calls": [{"name": "send", "arguments": {}}]});
    assert_eq!(rules("declared_batch", list.clone(), tools()), Vec::<String>::new());
    assert!(!rules("batch", list.clone(), None).contains(&"wrapped_calls".to_owned()));
    assert_eq!(rules("make_plan", list, tools()), ["unknown_tool"]);
}

#[test]
fn what_is_inside_is_held_against_the_operators_words() {
    let schema = json!({"properties": {"p": {"maxLength": 4}}});
    let engine = with(knowing(json!([{"tool": "t", "schema": schema, "parameters": {"p": "path"}, "enforce": true}])));
    let arguments = json!({"tool_uses": [{"recipient_name": "functions.t", "parameters": {"p": "../../x"}}]});
    let verdict = judged(&engine, None, called("multi_tool_use.parallel", &arguments.to_string()));
    let mut rules: Vec<&str> =
        verdict["findings"].as_array().unwrap().iter().filter_map(|f| f["rule"].as_str()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["not_observed", "path_traversal", "schema_mismatch", "wrapped_calls"]);
}

#[test]
fn entries_that_cannot_be() {
    let mut settings = settings(Profile::Standard);
    let parameters: serde_json::Map<String, Value> = (0..65).map(|n| (format!("p{n}"), json!("path"))).collect();
    let tools = json!([
        {"tool": "a", "schema": {"type": 12}},
        {"tool": "", "schema": {"$ref": "https://schemas.example/x"}},
        {"tool": "b", "schema": [], "parameters": parameters},
        {"tool": "b", "schema": {"description": "x".repeat(300_000)}},
        {"tool": "b", "server": "s", "schema": {"$ref": "#"}},
    ]);
    settings.policy.policies.insert("SG04".into(), knowing(tools));
    let problems = Engine::new(settings).err().unwrap();
    let said: Vec<String> = problems
        .iter()
        .map(|p| format!("{} {}", p.path.trim_start_matches("policies.SG04.options."), p.problem))
        .collect();
    let tells = |path: &str, text: &str| said.iter().any(|s| s.contains(path) && s.contains(text));
    for (path, text) in [
        ("tools.0.schema", "invalid at /type (12 is none of array, boolean"),
        ("tools.1.tool", "0 bytes are not between 1 and 256"),
        ("tools.1.schema", "it cannot be used: reference"),
        ("tools.2.schema", "a schema is an object"),
        ("tools.2.parameters", "65 parameters are not between 0 and 64"),
        ("tools.3.tool", "one entry says all of a tool"),
        ("tools.3.schema", "are more than 262144"),
        ("tools.4.schema", "cyclic (a $ref leads back"),
    ] {
        assert!(tells(path, text), "{path} {text}: {said:#?}");
    }
    assert_eq!(said.len(), 8, "{said:#?}");
    let mut settings = crate::support::settings(Profile::Standard);
    settings.policy.policies.insert("SG04".into(), knowing(json!([{"tool": "a", "parameters": {"p": "phone"}}])));
    assert_eq!(Engine::new(settings).err().unwrap().len(), 1);
}

/// Whoever wrote a schema reads where it is wrong, and why.
#[test]
fn a_schema_that_cannot_be_used_is_explained() {
    let cases = [
        (json!({"properties": {"a": {"type": "strin"}}}), "at /properties/a/type (\"strin\" is none of array, boolean"),
        (json!({"required": "a"}), "at /required (\"a\" is not of type"),
        (json!({"properties": {"a": {"minLength": -1}}}), "at /properties/a/minLength (-1 is less than"),
        (
            json!({"properties": {"a/b": {"pattern": "("}}}),
            "at /properties/a~1b/pattern (\"(\" is no regular expression)",
        ),
        (json!({"properties": {"a": {"$ref": "https://schemas.example/x"}}}), "schemas.example/x"),
        (json!({"$defs": {"a": {"$dynamicRef": "#a"}}}), "unsupported ($dynamicRef"),
        (json!({"enum": ["x".repeat(300)], "type": {"a": "y".repeat(300)}}), "at /type ("),
    ];
    for (schema, wanted) in cases {
        let mut settings = settings(Profile::Standard);
        settings.policy.policies.insert("SG04".into(), knowing(json!([{"tool": "a", "schema": schema}])));
        let problems = Engine::new(settings).err().unwrap();
        assert_eq!(problems.len(), 1, "{schema}: {problems:?}");
        assert!(problems[0].problem.contains(wanted) && problems[0].problem.len() < 400, "{schema}: {problems:?}");
    }
}

/// `parameters` of Gemini's declarations is a message of Google's own.
#[test]
fn googles_dialect() {
    let schema = json!({"type": "OBJECT", "required": ["seats"], "properties": {
        "seats": {"type": "INTEGER", "nullable": true, "minimum": 1},
        "tags": {"type": "ARRAY", "max_items": "2", "items": {"type": "STRING", "enum": ["a", "b"], "format": "enum"}},
        "type": {"type": "STRING", "nullable": true, "maxLength": "3"},
        "when": {"any_of": [{"type": "STRING"}, {"type": "NUMBER"}]},
        "free": {"type": "TYPE_UNSPECIFIED"}},
        "propertyOrdering": ["seats", "tags"]});
    let engine = with(OnePolicy::default());
    let say = |provider: &str, args: Value| {
        let mut partition = Partition::new(&engine);
        let declared = json!([{"functionDeclarations": [{"name": "book", "parameters": schema}]}]);
        let call = json!({"id": "c", "name": "book", "args": args});
        let (request, kind, response) = match provider {
            "gemini.live" => (
                json!({"setup": {"model": "models/m", "tools": declared}}),
                "model.chunk",
                json!({"toolCall": {"functionCalls": [call]}}),
            ),
            _ => (
                json!({"contents": [{"role": "user", "parts": [{"text": "go on"}]}], "tools": declared}),
                "model.response",
                json!({"responseId": "r", "candidates": [{"index": 0, "finishReason": "STOP",
                    "content": {"role": "model", "parts": [{"functionCall": call}]}}]}),
            ),
        };
        partition.feed(&event("model.request", provider, &request));
        let all = verdicts(&partition.feed(&event(kind, provider, &response)));
        found(all.iter().find(|v| v["checkpoint"] == "tool_call").unwrap())
    };
    for provider in ["gemini.generate_content", "gemini.live"] {
        for holds in [
            json!({"seats": 2}),
            json!({"seats": null, "type": null, "tags": ["a"], "when": 1, "free": [1]}),
            json!({"seats": 2.0, "type": "abc"}),
        ] {
            assert_eq!(say(provider, holds.clone()), Vec::<String>::new(), "{provider} {holds}");
        }
        for (args, wanted) in [
            (json!({}), "schema_mismatch required /seats: block"),
            (json!({"seats": null, "tags": ["a", "b", "a"]}), "schema_mismatch maxItems /tags: block"),
            (json!({"seats": null, "tags": ["c"]}), "schema_mismatch enum /tags/0: block"),
            (json!({"seats": null, "type": "abcd"}), "schema_mismatch anyOf /type: block"),
            (json!({"seats": "2"}), "schema_mismatch anyOf /seats: block"),
            (json!({"seats": null, "when": true}), "schema_mismatch anyOf /when: block"),
        ] {
            assert_eq!(say(provider, args.clone()), [wanted], "{provider} {args}");
        }
    }
}

#[test]
fn hostile_parameters_are_walked_once() {
    use sluicegate::engine::scan::parameters::{Kind, find};
    for piece in ["../", "%252e", "....//", "http://", "or a", "union ", "{{", "${", "{_", "。", "%", "[", "1."] {
        let text = piece.repeat(200_000 / piece.len());
        for kind in [Kind::Path, Kind::Url, Kind::Sql, Kind::Shell, Kind::Template] {
            for text in [text.clone(), format!("http://{text}")] {
                let mut labels: Vec<_> = find(kind, &text).iter().map(|found| found.label).collect();
                let all = labels.len();
                labels.dedup();
                assert_eq!(labels.len(), all, "{piece}: one entry for each label");
            }
        }
    }
}

/// A token that the formats know, as no service would issue it.
fn token() -> String {
    ["gh", "p_", &"a1B2c3D4e5F6".repeat(3)].concat()
}

/// What a placeholder leaves of a call is held against every check again: a call that passed as a whole, and does not
/// as it would be run, is blocked, and says by which rule.
#[test]
fn what_redactions_leave_must_pass_as_the_whole_did() {
    let tool = |schema: Value| Some(json!([function("find", json!({"properties": {"q": schema}}))]));
    let entry = |entry: Value| vec![entry];
    let any = || tool(json!({"type": "string"}));
    let cases: Vec<(&str, Option<Value>, Vec<Value>, String, &str)> = vec![
        ("pattern", tool(json!({"pattern": "^ghp_"})), vec![], token(), "block schema_mismatch"),
        ("minLength", tool(json!({"minLength": 40})), vec![], token(), "block schema_mismatch"),
        ("enum", tool(json!({"enum": [token()]})), vec![], token(), "block schema_mismatch"),
        ("not", tool(json!({"not": {"pattern": "^\\[secret"}})), vec![], token(), "block schema_mismatch"),
        (
            "operator's schema",
            any(),
            entry(json!({"tool": "find", "schema": {"properties": {"q": {"pattern": "^ghp_"}}}})),
            token(),
            "block schema_mismatch",
        ),
        (
            "a kind of parameter",
            any(),
            entry(json!({"tool": "find", "parameters": {"q": "shell"}, "enforce": true})),
            token(),
            "block shell_metacharacters",
        ),
        (
            "a kind that is only told",
            any(),
            entry(json!({"tool": "find", "parameters": {"q": "shell"}})),
            token(),
            "redact",
        ),
        ("fits", any(), vec![], token(), "redact"),
        ("fits a pattern", tool(json!({"pattern": "^x "})), vec![], format!("x {}", token()), "redact"),
        ("no tool known", None, vec![], token(), "redact"),
    ];
    for (name, tools, entries, text, wanted) in cases {
        let engine = with(knowing(json!(entries)));
        let verdict = judged(&engine, tools, called("find", &json!({"q": text}).to_string()));
        let all = verdict["findings"].as_array().unwrap();
        let unfit = all.iter().find(|finding| finding["rule"] == "redaction_unfit");
        let label = unfit.map(|unfit| format!(" {}", unfit["evidence"]["label"].as_str().unwrap())).unwrap_or_default();
        assert_eq!(format!("{}{label}", verdict["action"].as_str().unwrap()), wanted, "{name}");
    }
    let watched = with(OnePolicy { mode: Some(Mode::Monitor), ..OnePolicy::default() });
    let verdict = judged(&watched, tool(json!({"minLength": 40})), called("find", &json!({"q": token()}).to_string()));
    assert_eq!((&verdict["decision"], &verdict["action"]), (&json!("block"), &json!("redact")));
}

/// A blocked call has no record, and a host that starts it goes against the verdict.
#[test]
fn a_call_that_redaction_breaks_is_not_published() {
    let engine = with(OnePolicy::default());
    let mut partition = Partition::new(&engine);
    let tools = json!([function("find", json!({"properties": {"q": {"minLength": 40}}}))]);
    let request = json!({"model": "m", "tools": tools, "input": [{"role": "user", "content": "go on"}]});
    partition.feed(&event("model.request", "openai.responses", &request));
    let item = called("find", &json!({"q": token()}).to_string());
    let response = json!({"id": "resp_1", "object": "response", "status": "completed", "output": [item]});
    let emissions = partition.feed(&event("model.response", "openai.responses", &response));
    assert!(emissions.iter().all(|emission| emission.to == To::Verdicts), "{emissions:?}");
    let started = verdicts(&partition.feed(&event("tool.started", "openai.responses", &json!({"call_id": "c1"}))));
    let rules: Vec<&str> =
        started[0]["findings"].as_array().unwrap().iter().filter_map(|f| f["rule"].as_str()).collect();
    assert!(rules.contains(&"started_despite_block"), "{rules:?}");
}
