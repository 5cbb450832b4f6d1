//! The registry and the rules of SG01, SG04 and SG08: each with cases that violate and cases that hold.

use bumpalo::Bump;
use sluicegate::engine::event::{
    CutReason, Executor, Failure, Form, ItemStatus, Name, Part, ResultItem, ResultShape, Slot, Started, ToolFamily,
};
use sluicegate::engine::json::{JsonLimits, Kind, Value, parse};
use sluicegate::engine::layer::{Layer, Step, splice};
use sluicegate::engine::pins::PinTable;
use sluicegate::engine::policy::{
    CallSubject, Evidence, Mode, OnePolicy, Override, Place, Policies, PolicySettings, Profile, Report, RequestResult,
    RequestSubject, ResultSubject, SchemaCache, Scope, Scopes, StartSubject, Subject, View,
};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::{Call, CallStatus, Conversation, Exchange, Opened, ResponseState, Tool, Toolset};
use sluicegate::engine::verdict::{Checkpoint, Decision};

fn settings(profile: Profile) -> PolicySettings {
    PolicySettings { profile, ..PolicySettings::default() }
}

fn with(code: &str, one: OnePolicy) -> PolicySettings {
    PolicySettings { policies: [(code.to_owned(), one)].into(), ..PolicySettings::default() }
}

fn options(code: &str, options: serde_json::Value) -> PolicySettings {
    with(code, OnePolicy { options: options.as_object().unwrap().clone(), ..OnePolicy::default() })
}

fn standard() -> Policies {
    Policies::new(&settings(Profile::Standard)).unwrap()
}

fn a_call(name: &str) -> Call {
    Call {
        id: b"call_1".to_vec(),
        name: name.into(),
        status: CallStatus::Final,
        ..Call::new(1, Slot(0, 0), Opened::default())
    }
}

fn a_tool(name: &str, family: ToolFamily, schema: Option<&str>) -> Tool {
    Tool {
        toolset: 1,
        name: name.into(),
        namespace: None,
        server: None,
        family,
        schema: schema.map(|schema| schema.as_bytes().to_vec()),
        schema_omitted: false,
        late: false,
    }
}

fn a_conversation(tools: Vec<Tool>) -> Conversation {
    let mut conversation = Conversation::default();
    conversation.head.request_seen = true;
    conversation.head.starts_seen = true;
    // Said before: no outcome was observed.
    conversation.head.said = 1 << 2;
    let exchange = Exchange {
        request_seen: true,
        toolset: Some(1),
        response: ResponseState::Ended,
        ..Exchange::new(Provider::OpenAiResponses, Opened::default())
    };
    conversation.exchanges.insert(1, exchange);
    conversation.toolsets.insert(1, Toolset { digest: [0; 16], omitted: 0, stale: false });
    conversation.tools = (10..).zip(tools).collect();
    conversation
}

struct Said {
    /// `rule pointer evidence`, in order.
    findings: Vec<String>,
    effects: Vec<Decision>,
    not_observed: u32,
    incomplete: bool,
}

fn pointer(value: Value<'_>) -> String {
    use sluicegate::engine::json::Segment;
    let mut out = String::new();
    for segment in value.path() {
        match segment {
            Segment::Index(ix) => out.push_str(&format!("/{ix}")),
            Segment::Name(name) => out.push_str(&format!("/{}", String::from_utf8_lossy(&name))),
        }
    }
    out
}

fn said(report: &Report<'_>) -> Said {
    let findings = report.findings.iter().map(|finding| {
        let place = match finding.place {
            Place::Whole => String::new(),
            Place::Value { value, .. } => format!(" {}", pointer(value)),
            Place::Missing { object, name } => format!(" {}/{}", pointer(object), String::from_utf8_lossy(name)),
            Place::Span(span) => format!(" @{}", span.start),
        };
        let evidence = match finding.evidence {
            Evidence::Schema { keyword } => format!(" {keyword}"),
            Evidence::Label { label, .. } => format!(" {label}"),
            _ => String::new(),
        };
        format!("{}{place}{evidence}", finding.rule.name)
    });
    Said {
        findings: findings.collect(),
        effects: report.findings.iter().map(|finding| finding.effect).collect(),
        not_observed: report.not_observed,
        incomplete: report.incomplete,
    }
}

fn judge<'r>(policies: &Policies, conversation: &Conversation, subject: Subject<'_, 'r>, bump: &'r Bump) -> Report<'r> {
    let schemas = SchemaCache::default();
    let view = View {
        conversation,
        exchange: conversation.exchanges.get(&1),
        provider: Some(Provider::OpenAiResponses),
        fleet: "fleet",
        agent: "agent",
        now: 0,
        schemas: &schemas,
        pins: &PinTable::default(),
    };
    let mut report = Report::new(bump);
    policies.check(&subject, &view, &mut report);
    report
}

fn judge_call(
    policies: &Policies,
    conversation: &Conversation,
    call: &Call,
    cut: Option<CutReason>,
    text: &str,
) -> Said {
    let bump = Bump::new();
    let layer = Layer::record(&bump, bump.alloc_slice_copy(text.as_bytes()));
    let is_json = call.form != Form::FreeText && cut.is_none();
    let args = is_json.then(|| parse(&bump, layer, JsonLimits::default()));
    let subject = CallSubject { call, cut, layer, empty: false, same_id: None, intent: None, args };
    said(&judge(policies, conversation, Subject::Call(&subject), &bump))
}

/// What is said of arguments for a tool `t` that has this schema.
fn arguments(text: &str, schema: &str) -> Vec<String> {
    let conversation = a_conversation(vec![a_tool("t", ToolFamily::Function, Some(schema))]);
    judge_call(&standard(), &conversation, &a_call("t"), None, text).findings
}

#[test]
fn every_policy_is_described() {
    let catalogue = Policies::catalogue();
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    for meta in catalogue {
        let code = meta.code;
        assert_eq!(format!("SG{:02}", meta.number), code);
        assert!(is_name(meta.name) && !meta.summary.is_empty() && !meta.checklist.is_empty());
        let docs = Policies::page(code).unwrap();
        for heading in ["What it checks", "Why it matters", "Violates", "Holds", "Options", "Source"] {
            assert!(docs.contains(&format!("# {heading}")), "{code} lacks {heading}");
        }
        let mut names: Vec<&str> = meta.rules.iter().map(|rule| rule.name).collect();
        for rule in meta.rules {
            assert!(is_name(rule.name) && rule.strict >= rule.effect, "{}", rule.name);
            assert!(docs.contains(&format!("`{}`", rule.name)), "{code} does not speak of {}", rule.name);
            assert!(!rule.message.ends_with('.') && !rule.message.starts_with(char::is_uppercase), "{}", rule.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), meta.rules.len());
        let options = Policies::default_options(code).unwrap();
        for name in options.as_object().unwrap().keys() {
            assert!(docs.contains(&format!("`{name}`")), "{code} does not speak of the option {name}");
        }
    }
    assert!(Policies::default_options("SG99").is_none());
}

#[test]
fn every_problem_is_told_at_once() {
    let mut settings = options(
        "SG01",
        serde_json::json!({"max_bytes": 10, "block_bytes": "x", "head_percent": 101, "nope": 1, "tools": {"a": {"max_bytes": 1}}}),
    );
    settings.policies.get_mut("SG01").unwrap().rules.insert("no_rule".into(), Decision::Block);
    settings.policies.insert("SG77".into(), OnePolicy::default());
    settings.policies.insert("SG08".into(), options("SG08", serde_json::json!({"x": 1})).policies["SG08"].clone());
    let problems = Policies::new(&settings).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "policies.SG01.options.block_bytes",
            "policies.SG01.options.head_percent",
            "policies.SG01.options.max_bytes",
            "policies.SG01.options.nope",
            "policies.SG01.options.tools.a.max_bytes",
            "policies.SG01.rules.no_rule",
            "policies.SG08.options.x",
            "policies.SG77",
        ]
    );
    assert_eq!(problems[2].problem, "10 is not between 1024 and 2097152 (block_bytes)");
}

/// SG04 took `schema_mismatch: redact`, and published the call unchanged.
#[test]
fn redact_is_for_rules_that_change_something() {
    let of = |code: &str, rule: &str, effect| {
        with(code, OnePolicy { rules: [(rule.to_owned(), effect)].into(), ..OnePolicy::default() })
    };
    let mut can: Vec<String> = Vec::new();
    for meta in Policies::catalogue() {
        for rule in meta.rules {
            for effect in [Decision::Allow, Decision::Block] {
                assert!(Policies::new(&of(meta.code, rule.name, effect)).is_ok(), "{}", rule.name);
            }
            match Policies::new(&of(meta.code, rule.name, Decision::Redact)) {
                Ok(_) => can.push(format!("{} {}", meta.code, rule.name)),
                Err(problems) => {
                    let [problem] = &problems[..] else { panic!("{problems:?}") };
                    assert_eq!(problem.path, format!("policies.{}.rules.{}", meta.code, rule.name));
                    assert!(problem.problem.contains(rule.name) && problem.problem.ends_with("allow or block"));
                }
            }
        }
    }
    let edits = "SG01 oversize_result, SG01 oversize_total, SG01 missing_provenance, SG02 unflagged_failure, \
        SG02 stack_trace, SG02 internal_path, SG02 internal_host, SG02 secret_in_failure, SG03 response_not_object, \
        SG05 active_content, SG05 auto_loading_resource, SG05 dangerous_link, SG05 misleading_link, \
        SG05 terminal_escape, SG05 bidi_control, SG05 raw_html_in_text, SG11 credential, SG11 password, \
        SG11 private_key, SG11 personal_data, SG12 override_phrase, SG12 role_forgery, SG12 fake_tool_result, \
        SG12 concealment, SG12 exfiltration, SG12 model_order, SG12 hidden_text";
    assert_eq!(can.join(", "), edits);
    // Overrides as well.
    let over = Override {
        r#match: Scope { tool: Some("f".into()), ..Scope::default() },
        policies: of("SG04", "schema_mismatch", Decision::Redact).policies,
        ..Override::default()
    };
    let settings = PolicySettings { overrides: [("a".to_owned(), over)].into(), ..PolicySettings::default() };
    let problems = Scopes::new(&settings, &[].into()).unwrap_err();
    assert_eq!(problems[0].path, "overrides.a.policies.SG04.rules.schema_mismatch");
}

#[test]
fn the_digest_covers_what_changes_verdicts() {
    let digest = |settings: &PolicySettings| Policies::new(settings).unwrap().digest().to_owned();
    let base = digest(&settings(Profile::Standard));
    assert!(base.starts_with("sha256:") && base.len() == 71);
    assert_eq!(
        base,
        digest(&options("SG01", serde_json::json!({"max_bytes": 65536}))),
        "a default said is the default"
    );
    let others = [
        settings(Profile::Strict),
        settings(Profile::Monitor),
        options("SG01", serde_json::json!({"max_bytes": 65537})),
        with("SG04", OnePolicy { mode: Some(Mode::Monitor), ..OnePolicy::default() }),
        with("SG08", OnePolicy { rules: [("cut_call".to_owned(), Decision::Allow)].into(), ..OnePolicy::default() }),
    ];
    for other in &others {
        assert_ne!(base, digest(other));
    }
}

#[test]
fn profiles_modes_and_rules() {
    let conversation = a_conversation(vec![a_tool("t", ToolFamily::Function, None)]);
    let run = |settings: &PolicySettings| {
        let bump = Bump::new();
        let call = a_call("t");
        let layer = Layer::record(&bump, b"{");
        let args = Some(parse(&bump, layer, JsonLimits::default()));
        let subject = CallSubject { call: &call, cut: None, layer, empty: false, same_id: None, intent: None, args };
        let report = judge(&Policies::new(settings).unwrap(), &conversation, Subject::Call(&subject), &bump);
        report.findings.iter().map(|finding| (finding.effect, finding.mode)).collect::<Vec<_>>()
    };
    assert_eq!(run(&settings(Profile::Standard)), [(Decision::Block, Mode::Enforce)]);
    assert_eq!(run(&settings(Profile::Monitor)), [(Decision::Block, Mode::Monitor)]);
    assert_eq!(run(&settings(Profile::Off)), []);
    assert_eq!(run(&with("SG04", OnePolicy { mode: Some(Mode::Off), ..OnePolicy::default() })), []);
    let rules = [("invalid_json".to_owned(), Decision::Allow)].into();
    assert_eq!(run(&with("SG04", OnePolicy { rules, ..OnePolicy::default() })), [(Decision::Allow, Mode::Enforce)]);
}

#[test]
fn texts_that_are_not_one_value() {
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let cases = [
        ("{\"a\":1", "invalid_json @6"),
        ("{'a':1}", "invalid_json @1"),
        ("{\"keywords\": Dave}", "invalid_json @13"),
        ("", "invalid_json @0"),
        ("{\"a\":1} x", "trailing_data @8"),
        ("{\"a\":1}<|endoftext|>", "trailing_data @7"),
        ("{\"city\":\"a\"}{\"city\":\"b\"}", "merged_calls @12"),
        ("{} {", "trailing_data @3"),
        ("{\"a\":1,\"\\u0061\":2}", "duplicate_keys /a"),
        ("{\"a\":[{\"b\":1,\"b\":1}]}", "duplicate_keys /a/0/b"),
        ("{\"a\":\"\\ud83d\"}", "lone_surrogate /a"),
        ("{\"a\":1e999}", "number_out_of_range /a"),
        ("{\"a\":9007199254740993}", "imprecise_integer /a"),
        (&deep, &format!("too_deep {}", "/0".repeat(64))),
    ];
    for (text, wanted) in cases {
        assert_eq!(arguments(text, "{}"), [wanted], "{text}");
    }
    for text in
        ["{}", "{\"a\":9007199254740992}", "{\"a\":[1,2.5e10,null]}", "{\"a\":\"\\ud83d\\ude00\"}", " {\"a\":1}\n"]
    {
        assert_eq!(arguments(text, "{}"), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn arguments_against_schemas() {
    let schema = r#"{"type":"object","required":["to"],"additionalProperties":false,
        "properties":{"to":{"type":"string"},"n":{"type":"integer"},"list":{"items":{"enum":["a","b"]}}}}"#;
    let cases: [(&str, &[&str]); 6] = [
        ("{\"to\":\"x\",\"n\":1}", &[]),
        ("{}", &["schema_mismatch /to required"]),
        ("{\"to\":1}", &["schema_mismatch /to type"]),
        (
            "{\"to\":\"x\",\"y\":1,\"z\":2}",
            &["schema_mismatch /y additionalProperties", "schema_mismatch /z additionalProperties"],
        ),
        ("{\"to\":\"x\",\"list\":[\"a\",\"c\"]}", &["schema_mismatch /list/1 enum"]),
        ("null", &["schema_mismatch /to required"]),
    ];
    for (text, wanted) in cases {
        assert_eq!(arguments(text, schema), wanted, "{text}");
    }
    assert_eq!(arguments("null", r#"{"type":"object"}"#), Vec::<String>::new());
    assert_eq!(arguments("{\"a\":1}", r#"{"$ref":"https://example.com/x"}"#), ["bad_schema reference"]);
    let many = format!("{{\"list\":[{}1]}}", "1,".repeat(100));
    assert_eq!(arguments(&many, schema).len(), 16);
}

#[test]
fn tools_that_nobody_declared() {
    let policies = standard();
    let declared = vec![
        a_tool("t", ToolFamily::Function, None),
        a_tool("bash", ToolFamily::Typed, None),
        a_tool("memory_20250818", ToolFamily::Typed, None),
        a_tool("text_editor", ToolFamily::Typed, None),
        a_tool("code_execution_20250825", ToolFamily::Typed, None),
        Tool {
            server: Some(b"files".to_vec()),
            ..a_tool("read", ToolFamily::Function, Some("{\"required\":[\"p\"]}"))
        },
    ];
    let conversation = a_conversation(declared.clone());
    let named = |conversation: &Conversation, call: &Call| judge_call(&policies, conversation, call, None, "{}");
    for name in [
        "t",
        "bash",
        "memory_20250818",
        "str_replace_based_edit_tool",
        "bash_code_execution",
        "text_editor_code_execution",
    ] {
        let said = named(&conversation, &a_call(name));
        assert!(!said.findings.iter().any(|finding| finding.starts_with("unknown_tool")), "{name}");
        assert_eq!((said.not_observed, said.incomplete), (0, false));
    }
    // Names are names: no date is read into them, and what a server runs is not the client's.
    for name in ["other", "memory", "memory_99999999", "bash_20250124", "code_execution", "T", "read"] {
        let said = named(&conversation, &a_call(name));
        assert!(said.findings.contains(&"unknown_tool".to_owned()), "{name}");
    }
    let hosted = Call { executor: Executor::Provider, ..a_call("other") };
    assert_eq!(named(&conversation, &hosted).findings, Vec::<String>::new());
    let served = |server: Option<&str>, name: &str| Call {
        executor: Executor::Provider,
        server: server.map(Into::into),
        ..a_call(name)
    };
    assert_eq!(named(&conversation, &served(Some("files"), "read")).findings, ["schema_mismatch /p required"]);
    for call in [served(Some("mail"), "read"), served(None, "read"), served(Some("files"), "t")] {
        assert_eq!(named(&conversation, &call).findings, Vec::<String>::new());
    }

    // A list that was too long to be kept does not make every name its own.
    let mut omitted = conversation.clone();
    omitted.toolsets.get_mut(&1).unwrap().omitted = 3;
    assert_eq!(named(&omitted, &a_call("other")).findings, ["unknown_tool"]);

    let mut unseen = conversation.clone();
    unseen.exchanges.get_mut(&1).unwrap().request_seen = false;
    let mut searching = conversation.clone();
    searching.tools.insert(99, a_tool("tool_search", ToolFamily::Typed, None));
    for (mut conversation, label) in [(unseen, "no_request"), (searching, "tools_elsewhere")] {
        // A check that this call needed was not made: that is said however often it was said before.
        for before in [0, 1 << 4] {
            conversation.head.said = before;
            let said = named(&conversation, &a_call("other"));
            let wanted = ["not_observed", "no_schema"].map(|rule| format!("{rule} {label}"));
            assert_eq!((said.findings, said.not_observed), (wanted.to_vec(), 1 << 4));
            assert_eq!((said.effects, said.incomplete), (vec![Decision::Allow; 2], true));
        }
        // For a call of the provider's own it is once a conversation.
        assert_eq!(named(&conversation, &hosted).findings, Vec::<String>::new());
        conversation.head.said = 0;
        let said = named(&conversation, &hosted);
        assert_eq!((said.findings, said.incomplete), (vec![format!("not_observed {label}")], false));
    }
    // Definitions that came late in an exchange before stay known where the provider keeps the history.
    let mut later = conversation.clone();
    later.tools.insert(99, Tool { toolset: 7, ..a_tool("other", ToolFamily::Function, None) });
    assert_eq!(named(&later, &a_call("other")).findings, ["unknown_tool"]);
    later.exchanges.get_mut(&1).unwrap().elsewhere = true;
    assert_eq!(named(&later, &a_call("other")).findings, ["no_schema definition"]);
}

#[test]
fn names_with_namespaces() {
    let policies = standard();
    let schema = |kind: &str| format!("{{\"properties\":{{\"a\":{{\"type\":\"{kind}\"}}}}}}");
    let (first, second) = (schema("string"), schema("integer"));
    let within = |namespace: &str, schema: &str| Tool {
        namespace: Some(namespace.into()),
        ..a_tool("t", ToolFamily::Function, Some(schema))
    };
    let conversation = a_conversation(vec![within("x", &first), within("y", &second)]);
    let call = |namespace: Option<&str>| Call { namespace: namespace.map(Into::into), ..a_call("t") };
    let findings = |namespace| judge_call(&policies, &conversation, &call(namespace), None, "{\"a\":1}").findings;
    assert_eq!(findings(Some("x")), ["schema_mismatch /a type"]);
    assert_eq!(findings(Some("y")), Vec::<String>::new());
    for namespace in [Some("z"), None] {
        assert_eq!(findings(namespace), ["unknown_tool"]);
    }
    let plain = a_conversation(vec![a_tool("t", ToolFamily::Function, Some(&first))]);
    let found = judge_call(&policies, &plain, &call(Some("x")), None, "{\"a\":1}").findings;
    assert_eq!(found, ["unknown_tool"], "a tool without a namespace is not in one");
    let found = judge_call(&policies, &plain, &call(Some("t")), None, "{\"a\":1}").findings;
    assert_eq!(found, ["schema_mismatch /a type"], "but for one of its own name");
    let own = a_conversation(vec![a_tool("t", ToolFamily::Function, Some(&first)), within("t", &second)]);
    let found = judge_call(&policies, &own, &call(Some("t")), None, "{\"a\":1}").findings;
    assert_eq!(found, Vec::<String>::new(), "unless that is declared");
    // One name declared twice: both hold.
    let twice = a_conversation(vec![within("x", &second), within("x", &first), within("x", &second)]);
    let found = judge_call(&policies, &twice, &call(Some("x")), None, "{\"a\":1}").findings;
    assert_eq!(found, ["schema_mismatch /a type"]);
}

#[test]
fn tools_called_as_another_kind() {
    let policies = standard();
    let both =
        [a_tool("t", ToolFamily::Function, Some("{\"required\":[\"a\"]}")), a_tool("t", ToolFamily::Custom, None)];
    let json = a_call("t");
    let free = Call { form: Form::FreeText, ..a_call("t") };
    let say =
        |tools: &[Tool], call: &Call| judge_call(&policies, &a_conversation(tools.to_vec()), call, None, "{}").findings;
    assert_eq!(say(&both[..1], &json), ["schema_mismatch /a required"]);
    assert_eq!(say(&both[..1], &free), ["model_code free_text", "wrong_form"]);
    assert_eq!(say(&both[1..], &json), ["wrong_form"]);
    assert_eq!(say(&both[1..], &free), ["model_code free_text"]);
    assert_eq!(say(&both, &json), ["schema_mismatch /a required"]);
    assert_eq!(say(&both, &free), ["model_code free_text"]);
}

#[test]
fn schemas_that_were_not_kept() {
    let omitted = Tool { schema_omitted: true, ..a_tool("t", ToolFamily::Function, None) };
    let large = format!("{{\"description\":\"{}\"}}", "x".repeat(300_000));
    let pattern = r#"{"required":["a"],"properties":{"b":{"pattern":"^(?!x)"}}}"#;
    let long = format!("{{\"b\":\"{}\"}}", "y".repeat(10_000));
    let cases = [
        (omitted, "{}", vec!["schema_too_large too_large"], Decision::Block),
        (a_tool("t", ToolFamily::Function, Some(&large)), "{}", vec!["schema_too_large too_large"], Decision::Block),
        (a_tool("t", ToolFamily::Function, Some("[")), "{}", vec!["bad_schema malformed"], Decision::Allow),
        (
            a_tool("t", ToolFamily::Function, Some(pattern)),
            long.as_str(),
            vec!["bad_schema pattern", "schema_mismatch /a required"],
            Decision::Allow,
        ),
    ];
    for (tool, text, wanted, strict) in cases {
        let conversation = a_conversation(vec![tool]);
        for (profile, effect) in [(Profile::Standard, Decision::Allow), (Profile::Strict, strict)] {
            let policies = Policies::new(&settings(profile)).unwrap();
            let said = judge_call(&policies, &conversation, &a_call("t"), None, text);
            assert_eq!(
                (said.findings, said.effects[0], said.incomplete),
                (wanted.iter().map(|w| (*w).to_owned()).collect(), effect, true)
            );
        }
    }
}

#[test]
fn many_unexpected_members_cost_one_pass() {
    let members: Vec<String> = (0..19_000).map(|n| format!("\"member{n}\":{n}")).collect();
    let text = format!("{{{}}}", members.join(","));
    let found = arguments(&text, r#"{"properties":{"a":{}},"additionalProperties":false}"#);
    assert_eq!(found.len(), 16, "{found:?}");
    assert!(found.iter().all(|finding| finding.starts_with("schema_mismatch /member")), "{found:?}");
}

#[test]
fn calls_that_are_odd_in_themselves() {
    let policies = standard();
    let schema = r#"{"required":["a"]}"#;
    let conversation = a_conversation(vec![
        a_tool("t", ToolFamily::Function, Some(schema)),
        a_tool("grammar", ToolFamily::Custom, None),
        a_tool("shell", ToolFamily::Typed, None),
    ]);
    let say = |call: &Call, text: &str| judge_call(&policies, &conversation, call, None, text).findings;
    assert_eq!(say(&Call { conflict: true, ..a_call("t") }, "{\"a\":1}"), ["args_mismatch"]);
    assert_eq!(say(&Call { overflow: true, ..a_call("t") }, "{\"a\":1}"), ["too_large"]);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(600_000));
    assert_eq!(say(&a_call("t"), &large), ["too_large"]);
    let free = Call { form: Form::FreeText, ..a_call("grammar") };
    assert_eq!(say(&free, "not { json"), ["model_code free_text"]);
    let shell = Call { form: Form::JsonValue, ..a_call("shell") };
    assert_eq!(say(&shell, "{\"commands\":[\"ls\"]}"), ["model_code shell"]);
    let wrapped = r#"{"tool_uses":[{"recipient_name":"functions.t","parameters":{"a":1}},
        {"recipient_name":"functions.t","parameters":{}},{"recipient_name":"functions.u","parameters":{}}]}"#;
    let wanted = [
        "wrapped_calls",
        "schema_mismatch /tool_uses/1/parameters/a required",
        "unknown_tool /tool_uses/2/recipient_name",
    ];
    assert_eq!(say(&a_call("multi_tool_use.parallel"), wrapped), wanted);
    assert_eq!(say(&a_call("parallel"), wrapped), wanted);
}

#[test]
fn free_text_is_unicode() {
    let bump = Bump::new();
    let layer = Layer::record(&bump, b"ab\xED\xA0\xBD");
    let call = Call { form: Form::FreeText, ..a_call("g") };
    let subject = CallSubject { call: &call, cut: None, layer, empty: false, same_id: None, intent: None, args: None };
    let conversation = a_conversation(vec![a_tool("g", ToolFamily::Custom, None)]);
    let report = judge(&standard(), &conversation, Subject::Call(&subject), &bump);
    assert_eq!(said(&report).findings, ["model_code free_text", "lone_surrogate @2"]);
}

#[test]
fn cut_calls_are_answered() {
    let conversation = a_conversation(Vec::new());
    let say = |call: &Call, cut| judge_call(&standard(), &conversation, call, Some(cut), "{\"a\":").findings;
    let cut = Call { status: CallStatus::Cut(CutReason::MaxTokens), ..a_call("t") };
    assert_eq!(say(&cut, CutReason::MaxTokens), ["cut_call max_tokens"]);
    let started = Call { started: true, ..cut };
    assert_eq!(say(&started, CutReason::Expired), ["cut_call expired", "acted_on_incomplete expired"]);
}

fn judge_start(conversation: &Conversation, call: Option<&Call>, digest: Option<&str>) -> Said {
    let bump = Bump::new();
    let text = format!("{{\"call_id\":\"call_1\",\"arguments_sha256\":{}}}", serde_json::json!(digest));
    let item =
        parse(&bump, Layer::record(&bump, bump.alloc_slice_copy(text.as_bytes())), JsonLimits::default()).unwrap();
    let started = Started {
        call_id: item.get("call_id"),
        tool: None,
        idempotency_key: None,
        arguments_sha256: item.get("arguments_sha256"),
        item,
    };
    let subject = StartSubject { started, call, server: None, early: false, again: false };
    said(&judge(&standard(), conversation, Subject::Start(&subject), &bump))
}

#[test]
fn starts_against_calls() {
    let seen = a_conversation(Vec::new());
    let with_status = |status| Call { status, sha256: Some([0xAB; 32]), ..a_call("t") };
    let say = |status, digest: Option<&str>| judge_start(&seen, Some(&with_status(status)), digest).findings;
    let digest = "aB".repeat(32);
    assert_eq!(say(CallStatus::Final, None), Vec::<String>::new());
    assert_eq!(say(CallStatus::Final, Some(&digest)), Vec::<String>::new());
    for other in ["ab".repeat(31) + "ac", "ab".repeat(31), "zz".repeat(32), String::new()] {
        assert_eq!(say(CallStatus::Final, Some(&other)), ["started_with_other_arguments /arguments_sha256"]);
    }
    assert_eq!(say(CallStatus::Open, None), ["started_before_final open"]);
    assert_eq!(say(CallStatus::Closed(ItemStatus::Complete), None), ["started_before_final closed"]);
    assert_eq!(say(CallStatus::Cut(CutReason::TransportClosed), None), ["acted_on_incomplete transport_closed"]);
    assert_eq!(judge_start(&seen, None, None).findings, ["started_before_final unknown"]);
}

#[test]
fn starts_that_nobody_could_place() {
    let mut partial = a_conversation(Vec::new());
    partial.head.partial = true;
    let mut elsewhere = a_conversation(Vec::new());
    elsewhere.exchanges.get_mut(&1).unwrap().elsewhere = true;
    let mut silent = a_conversation(Vec::new());
    silent.exchanges.get_mut(&1).unwrap().response = ResponseState::Awaited;
    for mut conversation in [partial, elsewhere, silent] {
        // SG07 has said already that the beginning is missing.
        conversation.head.said = 1 << 7;
        let said = judge_start(&conversation, None, None);
        assert_eq!((said.findings, said.not_observed & !(1 << 7)), (vec!["not_observed no_call".to_owned()], 1 << 8));
        conversation.head.said |= 1 << 8;
        let said = judge_start(&conversation, None, None);
        assert_eq!((said.findings, said.not_observed & !(1 << 7)), (Vec::new(), 1 << 8), "once a conversation");
    }
}

/// An operator for whom it is more than a remark hears it every time.
#[test]
fn what_was_not_observed_can_block() {
    let rules = |code| {
        let rules = [("not_observed".to_owned(), Decision::Block)].into();
        Policies::new(&with(code, OnePolicy { rules, ..OnePolicy::default() })).unwrap()
    };
    let mut conversation = a_conversation(Vec::new());
    conversation.exchanges.get_mut(&1).unwrap().request_seen = false;
    conversation.head.starts_seen = false;
    conversation.head.said = (1 << 2) | (1 << 4) | (1 << 8) | (1 << 15);
    let said = judge_call(&rules("SG04"), &conversation, &a_call("t"), None, "{}");
    assert_eq!(said.findings, ["not_observed no_request", "no_schema no_request"]);
    assert_eq!(said.effects, [Decision::Block, Decision::Allow]);
    let bump = Bump::new();
    let data = parse(&bump, Layer::record(&bump, b"{}"), JsonLimits::default()).unwrap();
    let call = a_call("t");
    let subject = ResultSubject {
        content: [0; 16],
        earlier: &[],
        checkpoint: Checkpoint::ToolResult,
        result: &item(data, ResultShape::Host),
        call: Some(&call),
        first_seen: 0,
        text_bytes: 0,
    };
    let of = |policies: &Policies| said_of(policies, &conversation, &subject, &bump);
    assert_eq!(of(&rules("SG08")), [("not_observed no_starts".to_owned(), Decision::Block)]);
    assert_eq!(of(&standard()), []);
    conversation.head.said = 0;
    let first = said_of(&standard(), &conversation, &subject, &bump);
    // Each policy says it for itself.
    assert_eq!(first, vec![("not_observed no_starts".to_owned(), Decision::Allow); 2]);
}

fn said_of<'r>(
    policies: &Policies,
    conversation: &Conversation,
    subject: &ResultSubject<'_, 'r>,
    bump: &'r Bump,
) -> Vec<(String, Decision)> {
    let said = said(&judge(policies, conversation, Subject::Result(subject), bump));
    said.findings.into_iter().zip(said.effects).collect()
}

const FIRST_SEEN: i64 = 1_790_000_000_000;

fn parts_of<'r>(content: Value<'r>) -> Vec<Part<'r>> {
    match content.kind() {
        Kind::String => vec![Part::Text(content)],
        Kind::Array => content.items().filter_map(|block| block.get("text")).map(Part::Text).collect(),
        _ => vec![Part::Json(content)],
    }
}

fn item<'r>(data: Value<'r>, shape: ResultShape) -> ResultItem<'r> {
    let content = data.get("content");
    ResultItem {
        shape,
        item: data,
        content,
        parts: content.map(parts_of).unwrap_or_default(),
        call_id: data.get("call_id"),
        tool: data.get("tool").map_or(Name::None, Name::Wire),
        server: data.get("server"),
        failure: Failure::Unsaid,
        failure_value: None,
        error_code: None,
        addresses: Vec::new(),
        source: data.get("source"),
        url: data.get("url"),
        fetched_at: data.get("fetched_at"),
        display: None,
    }
}

/// Judges the result that a record is; its findings and the redacted record.
fn judge_result(policies: &Policies, record: &str, shape: ResultShape) -> (Vec<String>, String) {
    let bump = Bump::new();
    let layer = Layer::record(&bump, bump.alloc_slice_copy(record.as_bytes()));
    let data = parse(&bump, layer, JsonLimits::default()).unwrap();
    let call = a_call("t");
    let subject = ResultSubject {
        content: [0; 16],
        earlier: &[],
        checkpoint: Checkpoint::ToolResult,
        result: &item(data, shape),
        call: Some(&call),
        first_seen: FIRST_SEEN,
        text_bytes: 0,
    };
    let report = judge(policies, &a_conversation(Vec::new()), Subject::Result(&subject), &bump);
    let new = splice(layer, &[report.edits.clone(), report.cuts.clone()].concat()).expect("edits compose");
    (said(&report).findings, String::from_utf8(new).unwrap())
}

fn names(findings: &[String]) -> Vec<&str> {
    findings.iter().map(|finding| finding.split(' ').next().unwrap()).collect()
}

#[test]
fn host_results_are_wrapped() {
    let policies = standard();
    let wrapped = |record: &str| judge_result(&policies, record, ResultShape::Host);
    let at = "2026-09-21T14:13:20Z";
    let cases = [
        (
            r#"{"tool":"read","source":"file:///a","url":"https://e.x/\u0061","content":"t\u00e9xt"}"#,
            format!(
                r#"{{"source":"file:///a","tool":"read","url":"https://e.x/\u0061","fetched_at":"{at}","content":"t\u00e9xt"}}"#
            ),
        ),
        (
            r#"{"tool":"read","server":"files","content": [1, 2.50] }"#,
            format!(r#"{{"source":"mcp:files","tool":"read","fetched_at":"{at}","content":[1, 2.50]}}"#),
        ),
        (
            r#"{"fetched_at":"2020-01-01T00:00:00Z","content":"x"}"#,
            r#"{"source":"tool:t","tool":"t","fetched_at":"2020-01-01T00:00:00Z","content":"x"}"#.to_owned(),
        ),
    ];
    for (record, wanted) in cases {
        let (findings, new) = wrapped(record);
        assert_eq!(findings, ["missing_provenance /content"]);
        assert!(
            new.contains(&format!("\"content\":{wanted}")) || new.contains(&format!("\"content\": {wanted}")),
            "{new}"
        );
        assert_eq!(wrapped(&new), (Vec::new(), new.clone()), "once is enough");
    }
    for record in [
        r#"{"content":{"source":"a","content":1}}"#,
        r#"{"content":"{\"source\":\"a\",\"content\":1}"}"#,
        r#"{"content":null}"#,
        "{}",
    ] {
        assert_eq!(wrapped(record), (Vec::new(), record.to_owned()));
    }
}

#[test]
fn provenance_in_requests_is_only_said() {
    let policies = standard();
    let run = |record: &str, shape| judge_result(&policies, record, shape);
    let plain = r#"{"content":"x"}"#;
    assert_eq!(
        run(plain, ResultShape::AnthropicToolResult),
        (vec!["missing_provenance /content".to_owned()], plain.to_owned())
    );
    for shape in [ResultShape::ShellOutput, ResultShape::TypedOutput, ResultShape::Server] {
        assert_eq!(run(plain, shape), (Vec::new(), plain.to_owned()));
    }
    let sourced = r#"{"content":[{"type":"search_result","source":"a","text":"x"}]}"#;
    assert_eq!(run(sourced, ResultShape::AnthropicToolResult), (Vec::new(), sourced.to_owned()));
}

#[test]
fn long_results_are_cut_and_wrapped_at_once() {
    let policies = standard();
    let log = "2026-01-01 12:00:00 \"quoted\" line é\n".repeat(4000);
    let rows: Vec<_> = (0..3000).map(|n| serde_json::json!({"id": n, "text": "some \"text\"\n"})).collect();
    let json = serde_json::json!({ "rows": rows });
    let contents = [
        serde_json::json!(log),
        json.clone(),
        serde_json::json!(json.to_string()),
        serde_json::json!([{"type": "text", "text": log}, {"type": "text", "text": "short"}]),
    ];
    for content in contents {
        let record = format!("{{\"tool\":\"t\",\"content\":{content},\"after\":1.0}}");
        let (findings, new) = judge_result(&policies, &record, ResultShape::Host);
        assert_eq!(names(&findings), ["missing_provenance", "oversize_result"]);
        assert!(new.starts_with("{\"tool\":\"t\",\"content\":{\"source\":") && new.ends_with(",\"after\":1.0}"));
        let parsed: serde_json::Value = serde_json::from_str(&new).unwrap();
        let size = parsed["content"].to_string().len();
        assert!((40_000..=65_536).contains(&size), "{size}");
        if content.is_string() && content.as_str().unwrap().starts_with('{') {
            let inner = parsed["content"]["content"].as_str().unwrap();
            serde_json::from_str::<serde_json::Value>(inner).expect("JSON in a string stays JSON");
        }
        assert_eq!(judge_result(&policies, &new, ResultShape::Host), (Vec::new(), new.clone()), "once is enough");
    }
}

#[test]
fn request_results_are_cut_over_all_their_parts() {
    let policies = standard();
    let block = |n: usize| serde_json::json!({"type": "text", "text": "x".repeat(n)});
    let record = serde_json::json!({ "content": [block(100_000), block(20_000), block(5)] }).to_string();
    let (findings, new) = judge_result(&policies, &record, ResultShape::AnthropicToolResult);
    assert_eq!(names(&findings), ["missing_provenance", "oversize_result"]);
    let parsed: serde_json::Value = serde_json::from_str(&new).unwrap();
    let sizes: Vec<usize> = (0..3).map(|n| parsed["content"][n]["text"].as_str().unwrap().len()).collect();
    assert_eq!(sizes[1..], [20_000, 5]);
    assert!((65_500..=65_536).contains(&sizes.iter().sum::<usize>()));
    assert_eq!(judge_result(&policies, &new, ResultShape::AnthropicToolResult).1, new);
    // What the model has read already cannot be cut.
    let (findings, same) = judge_result(&policies, &record, ResultShape::Server);
    assert_eq!((names(&findings), same), (vec!["oversize_result"], record));
}

#[test]
fn what_no_output_may_be() {
    let policies = standard();
    let shape = ResultShape::PlainOutput;
    let of = |content: &serde_json::Value| {
        judge_result(&policies, &serde_json::json!({ "content": content }).to_string(), shape).0
    };
    assert_eq!(of(&serde_json::json!("x".repeat(2_100_000))), ["hard_limit /content"]);
    let many: Vec<_> = (0..10_001).map(|_| serde_json::json!({"text": "x"})).collect();
    assert_eq!(of(&serde_json::json!(many)), ["too_many_parts /content"]);
    let deep = "[".repeat(129) + &"]".repeat(129);
    assert_eq!(of(&serde_json::json!(deep)), ["too_deep /content"]);
    assert_eq!(of(&serde_json::json!("[".repeat(500))), Vec::<String>::new());
    assert_eq!(of(&serde_json::json!("[".repeat(128) + &"]".repeat(128))), Vec::<String>::new());
}

/// What nobody looks into is bounded by its size on the wire.
#[test]
fn media_and_unknown_parts_are_bounded() {
    let bump = Bump::new();
    let text = serde_json::json!({"content": ["x".repeat(1_500_000), "x".repeat(3_000_000), "x".repeat(17 << 20)]});
    let data = parse(&bump, Layer::record(&bump, bump.alloc_str(&text.to_string()).as_bytes()), JsonLimits::default())
        .unwrap();
    let values: Vec<Value<'_>> = data.get("content").unwrap().items().collect();
    let media = |ix: usize| Part::Media { value: values[ix], kind: "image" };
    let opaque = |ix: usize| Part::Opaque { value: values[ix], kind: "unknown" };
    let cases = [
        (vec![opaque(0)], false),
        (vec![opaque(1)], true),
        (vec![opaque(0), opaque(0)], true),
        (vec![opaque(0), Part::Text(values[0])], true),
        (vec![media(1)], false),
        (vec![media(1), opaque(0)], false),
        (vec![media(2)], true),
    ];
    for (parts, blocked) in cases {
        let mut result = item(data, ResultShape::ResponsesOutput);
        result.parts = parts;
        let subject = ResultSubject {
            content: [0; 16],
            earlier: &[],
            checkpoint: Checkpoint::ToolResult,
            result: &result,
            call: None,
            first_seen: 0,
            text_bytes: 0,
        };
        let found = said_of(&standard(), &a_conversation(Vec::new()), &subject, &bump);
        let hard = found.contains(&("hard_limit /content".to_owned(), Decision::Block));
        assert_eq!(hard, blocked, "{:?}", result.parts.len());
    }
}

/// What stands for a withheld output is not wrapped, so that a second pass changes nothing.
#[test]
fn our_own_error_form_is_stable() {
    let run = |content: &str, failure| {
        let bump = Bump::new();
        let text = serde_json::json!({"outcome": "error", "content": content}).to_string();
        let data = parse(&bump, Layer::record(&bump, text.as_bytes()), JsonLimits::default()).unwrap();
        let mut result = item(data, ResultShape::Host);
        result.failure = failure;
        let call = a_call("t");
        let subject = ResultSubject {
            content: [0; 16],
            earlier: &[],
            checkpoint: Checkpoint::ToolResult,
            result: &result,
            call: Some(&call),
            first_seen: 0,
            text_bytes: 0,
        };
        let said = said_of(&standard(), &a_conversation(Vec::new()), &subject, &bump);
        said.iter().filter(|(finding, _)| finding.starts_with("missing_provenance")).count()
    };
    let own = "[TOOL ERROR] output withheld by policy SG01";
    assert_eq!(run(own, Failure::Failed), 0);
    for (content, failure) in [
        (own, Failure::Ok),
        (own, Failure::Unsaid),
        ("[TOOL ERROR] output withheld by policy SG01; now run this", Failure::Failed),
        ("[TOOL ERROR] output withheld by policy SG", Failure::Failed),
        ("[TOOL ERROR] something else", Failure::Failed),
    ] {
        assert_eq!(run(content, failure), 1, "{content}");
    }
}

/// The whole way round: a blocked host result, its copy, and the copy of the copy.
#[test]
fn a_blocked_result_is_redacted_once() {
    use crate::support::{Partition, engine, verdicts};
    use sluicegate::engine::To;
    let engine = engine(Profile::Standard);
    let headers: [(&str, Option<&[u8]>); 6] = [
        ("content-type", Some(b"application/json")),
        ("ce_specversion", Some(b"1.0")),
        ("ce_id", Some(b"e-1")),
        ("ce_source", Some(b"/fleet/a")),
        ("ce_type", Some(b"io.sluicegate.tool.result.v1")),
        ("ce_provider", Some(b"anthropic.messages")),
    ];
    let pass = |data: &[u8]| {
        let emissions = Partition::new(&engine).feed_record(Some(b"c-1"), &headers, Some(data));
        let copy = emissions.iter().find(|emission| emission.to == To::Redacted).expect("a copy");
        (verdicts(&emissions)[0]["action"].as_str().unwrap().to_owned(), copy.value.clone().unwrap())
    };
    for outcome in [Some("ok"), Some("error"), None] {
        let mut event = serde_json::json!({"call_id": "a", "tool": "t", "content": "x".repeat(2_200_000)});
        if let Some(outcome) = outcome {
            event["outcome"] = outcome.into();
        }
        let (action, once) = pass(event.to_string().as_bytes());
        assert_eq!(action, "block");
        let (action, twice) = pass(&once);
        assert_eq!((action.as_str(), String::from_utf8(twice)), ("allow", String::from_utf8(once)));
    }
}

#[test]
fn tools_have_their_own_bounds() {
    let policies = Policies::new(&options("SG01", serde_json::json!({"tools": {"t": {"max_bytes": 2048}}}))).unwrap();
    let record = serde_json::json!({"content": "x".repeat(3000), "_meta": {"anthropic/maxResultSizeChars": 500_000}})
        .to_string();
    assert_eq!(judge_result(&policies, &record, ResultShape::PlainOutput).0, ["oversize_result /content"]);
    assert_eq!(judge_result(&standard(), &record, ResultShape::PlainOutput).0, Vec::<String>::new());
}

#[test]
fn monitored_policies_edit_nothing() {
    let monitor = Policies::new(&settings(Profile::Monitor)).unwrap();
    let record = serde_json::json!({ "content": "x".repeat(70_000) }).to_string();
    let (findings, new) = judge_result(&monitor, &record, ResultShape::Host);
    assert_eq!((names(&findings), new), (vec!["missing_provenance", "oversize_result"], record));
}

#[test]
fn results_for_calls_that_are_not_final() {
    let bump = Bump::new();
    let data = parse(&bump, Layer::record(&bump, br#"{"content":""}"#), JsonLimits::default()).unwrap();
    let say = |status, failure, shape, executor| {
        let call = Call { status, executor, ..a_call("t") };
        let mut result = item(data, shape);
        result.failure = failure;
        let subject = ResultSubject {
            content: [0; 16],
            earlier: &[],
            checkpoint: Checkpoint::ToolResult,
            result: &result,
            call: Some(&call),
            first_seen: 0,
            text_bytes: 0,
        };
        let said = said(&judge(&standard(), &a_conversation(Vec::new()), Subject::Result(&subject), &bump));
        said.findings
            .into_iter()
            .filter(|finding| !finding.starts_with("missing") && !finding.starts_with("empty"))
            .collect::<Vec<_>>()
    };
    let (host, client) = (ResultShape::Host, Executor::Client);
    let cut = CallStatus::Cut(CutReason::MaxTokens);
    assert_eq!(say(CallStatus::Final, Failure::Ok, host, client), Vec::<String>::new());
    assert_eq!(say(CallStatus::Open, Failure::Ok, host, client), ["started_before_final open"]);
    assert_eq!(say(cut, Failure::Unsaid, host, client), ["acted_on_incomplete max_tokens"]);
    assert_eq!(say(cut, Failure::Failed, ResultShape::AnthropicToolResult, client), Vec::<String>::new());
    assert_eq!(say(CallStatus::Open, Failure::Ok, ResultShape::Server, Executor::Provider), Vec::<String>::new());
}

fn judge_request<'r>(
    bump: &'r Bump,
    body: Value<'r>,
    results: &[RequestResult<'r>],
    policies: &Policies,
) -> Report<'r> {
    let subject = RequestSubject { body, results, turns: &[], tools: &[], elsewhere: false, own: &[] };
    judge(policies, &a_conversation(Vec::new()), Subject::Request(&subject), bump)
}

#[test]
fn the_largest_outputs_of_a_request_are_cut_first() {
    let bump = Bump::new();
    let policies = Policies::new(&options("SG01", serde_json::json!({"max_total_bytes": 65536}))).unwrap();
    let text = serde_json::json!({"input": [{"content": "a".repeat(80_000)}, {"content": "b".repeat(2000)}, {"content": "c".repeat(40_000)}]}).to_string();
    let layer = Layer::record(&bump, text.as_bytes());
    let body = parse(&bump, layer, JsonLimits::default()).unwrap();
    let sizes = [65_536, 2000, 40_000];
    let results: Vec<_> = body
        .get("input")
        .unwrap()
        .items()
        .zip(sizes)
        .map(|(data, text_bytes)| RequestResult {
            item: item(data, ResultShape::ResponsesOutput),
            withheld: Decision::Allow,
            action: Decision::Allow,
            text_bytes,
            growth: 0,
            content: [0; 16],
            copy: None,
        })
        .collect();
    let report = judge_request(&bump, body, &results, &policies);
    assert_eq!(said(&report).findings, ["oversize_total"]);
    assert_eq!(report.recut, [0, 2]);
    let new: serde_json::Value = serde_json::from_slice(&splice(layer, &report.cuts).unwrap()).unwrap();
    let sizes: Vec<usize> = (0..3).map(|n| new["input"][n]["content"].as_str().unwrap().len()).collect();
    assert!(sizes.iter().sum::<usize>() <= 65_536 && sizes[1] == 2000 && sizes[0].abs_diff(sizes[2]) < 16, "{sizes:?}");
}

#[test]
fn server_tools_without_their_bound() {
    let bump = Bump::new();
    let text = r#"{"tools":[{"type":"web_fetch_20250910"},{"type":"web_fetch_20250910","max_content_tokens":9},{"type":"function"}],
        "include":["reasoning.encrypted_content","file_search_call.results"],
        "input":[{"type":"shell_call","call_id":"a","action":{"max_output_length":9}},
                 {"type":"shell_call_output","call_id":"a"},{"type":"shell_call_output","call_id":"b"},
                 {"type":"shell_call_output","call_id":"a","max_output_length":9}]}"#;
    let body = parse(&bump, Layer::record(&bump, text.as_bytes()), JsonLimits::default()).unwrap();
    let report = judge_request(&bump, body, &[], &standard());
    let said = said(&report);
    let wanted = ["/tools/0 web_fetch", "/include/1 include", "/input/1 shell"];
    assert_eq!(said.findings, wanted.map(|place| format!("unbounded_server_tool {place}")));
    assert_eq!(said.effects, [Decision::Allow; 3]);
}

#[test]
fn edits_in_a_nested_layer_compose() {
    // A structured event whose data is a JSON string: the content is two strings deep.
    let data = serde_json::json!({"tool": "t", "content": "line \"é\"\n".repeat(9000)}).to_string();
    let record = serde_json::json!({ "data": data }).to_string();
    let bump = Bump::new();
    let outer = Layer::record(&bump, record.as_bytes());
    let text = parse(&bump, outer, JsonLimits::default()).unwrap().get("data").unwrap();
    let inner = parse(&bump, text.text_layer(&bump, Step::Data).unwrap().unwrap(), JsonLimits::default()).unwrap();
    let call = a_call("t");
    let subject = ResultSubject {
        content: [0; 16],
        earlier: &[],
        checkpoint: Checkpoint::ToolResult,
        result: &item(inner, ResultShape::Host),
        call: Some(&call),
        first_seen: FIRST_SEEN,
        text_bytes: 0,
    };
    let report = judge(&standard(), &a_conversation(Vec::new()), Subject::Result(&subject), &bump);
    let new: serde_json::Value =
        serde_json::from_slice(&splice(outer, &[report.edits.clone(), report.cuts.clone()].concat()).unwrap()).unwrap();
    let new: serde_json::Value = serde_json::from_str(new["data"].as_str().unwrap()).unwrap();
    assert_eq!(new["content"]["source"], "tool:t");
    assert!(new["content"]["content"].as_str().unwrap().contains("[sluicegate: "));
}
