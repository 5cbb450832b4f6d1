//! What SG02 does with outputs of failed tools, where the examples of its page leave something open.

use crate::support::{Partition, body, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::{Mode, OnePolicy, Policies, PolicySettings, Profile};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::{Engine, Settings, To};

const TRACE: &str = "Traceback (most recent call last):\n  File \"/home/app/run.py\", line 2, in main\n    raise E\n";

fn engine(profile: Profile, options: Value) -> Engine {
    let mut settings = settings(profile);
    let options = options.as_object().cloned().unwrap();
    settings.policy.policies.insert("SG02".into(), OnePolicy { options, ..OnePolicy::default() });
    // The requests below hold outputs alone.
    for code in ["SG09", "SG10"] {
        settings.policy.policies.insert(code.into(), OnePolicy { mode: Some(Mode::Off), ..OnePolicy::default() });
    }
    Engine::new(Settings { ..settings }).unwrap()
}

fn line(provider: Provider, kind: &str, data: Value) -> Vec<u8> {
    let side = if data.get("method").is_some() { "client" } else { "server" };
    let event = json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": provider.name(), "conversation": "c", "direction": side, "mcpserver": "files", "data": data});
    event.to_string().into_bytes()
}

/// What SG02 finds in the last record, and the data of its copy (its own where there is none).
fn judge(engine: &Engine, lines: &[Vec<u8>]) -> (Vec<String>, Value) {
    let mut partition = Partition::new(engine);
    let mut last = Vec::new();
    for line in lines {
        last = partition.feed(line);
    }
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let mut found = Vec::new();
    for verdict in verdicts(&last) {
        for f in verdict["findings"].as_array().unwrap().iter().filter(|f| f["policy"] == "SG02") {
            let label = &f["evidence"]["label"];
            found.push(format!("{} {} {}", text(&f["rule"]), text(&f["effect"]), text(label)));
        }
    }
    let copy = last.iter().find(|e| e.to == To::Redacted).map(body);
    let own: Value = serde_json::from_slice(lines.last().unwrap()).unwrap();
    (found, copy.unwrap_or(own)["data"].clone())
}

/// The output of a call that its host said to have failed, in a request.
fn forwarded(provider: Provider, content: Value, request: Value) -> (Vec<String>, Value) {
    let host = line(provider, "tool.result", json!({"call_id": "a", "outcome": "error", "content": content}));
    let engine = engine(Profile::Standard, json!({}));
    let (found, copy) = judge(&engine, &[host.clone(), line(provider, "model.request", request)]);
    // The copy is found to be well.
    let (again, same) = judge(&engine, &[host, line(provider, "model.request", copy.clone())]);
    assert!(again.iter().all(|finding| !finding.contains("redact")), "{again:?}");
    assert_eq!(copy, same);
    (found, copy)
}

#[test]
fn a_flag_is_added_by_each_providers_means() {
    let anthropic = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
    let responses = |item: Value| json!({"input": [item]});
    let chat = |content: Value| json!({"messages": [{"role": "tool", "tool_call_id": "a", "content": content}]});
    let gemini = |response: Value| json!({"contents": [{"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "f", "response": response}}]}]});
    let cases = [
        (
            Provider::AnthropicMessages,
            anthropic(json!({"type": "tool_result", "tool_use_id": "a", "content": "no row", "is_error": false})),
            anthropic(json!({"type": "tool_result", "tool_use_id": "a", "content": "no row", "is_error": true})),
        ),
        (
            Provider::AnthropicMessages,
            anthropic(json!({"type": "tool_result", "tool_use_id": "a"})),
            anthropic(json!({"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": "[TOOL ERROR]"})),
        ),
        (
            Provider::OpenAiResponses,
            responses(
                json!({"type": "function_call_output", "call_id": "a", "output": [{"type": "input_image", "image_url": "https://a.example/x.png"}, {"type": "input_text", "text": "no row"}]}),
            ),
            responses(
                json!({"type": "function_call_output", "call_id": "a", "output": [{"type": "input_image", "image_url": "https://a.example/x.png"}, {"type": "input_text", "text": "[TOOL ERROR] no row"}]}),
            ),
        ),
        (
            Provider::XaiResponses,
            responses(
                json!({"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "", "stderr": "no row"}]}),
            ),
            responses(
                json!({"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "", "stderr": "no row", "outcome": {"type": "exit", "exit_code": 1}}]}),
            ),
        ),
        (
            Provider::OpenAiResponses,
            responses(
                json!({"type": "apply_patch_call_output", "call_id": "a", "status": "completed", "output": "no row"}),
            ),
            responses(
                json!({"type": "apply_patch_call_output", "call_id": "a", "status": "failed", "output": "no row"}),
            ),
        ),
        (Provider::OpenAiChat, chat(json!("no row")), chat(json!("[TOOL ERROR] no row"))),
        (Provider::XaiChat, chat(json!("")), chat(json!("[TOOL ERROR] "))),
        (Provider::OpenAiChat, chat(json!([])), chat(json!([{"type": "text", "text": "[TOOL ERROR]"}]))),
        (
            Provider::GeminiGenerateContent,
            gemini(json!({"output": {"row": null}})),
            gemini(json!({"error": {"row": null}})),
        ),
        (
            Provider::GeminiGenerateContent,
            gemini(json!({"row": 1, "output": "x"})),
            gemini(json!({"error": {"row": 1, "output": "x"}})),
        ),
        (Provider::GeminiGenerateContent, gemini(json!({})), gemini(json!({"error": {}}))),
    ];
    for (provider, request, want) in cases {
        let (found, copy) = forwarded(provider, json!("no row"), request);
        assert_eq!(found, ["unflagged_failure redact host"], "{want}");
        assert_eq!(copy, want);
    }
}

/// Anthropic refuses an error whose content is empty (SG02 made `{"content":"","is_error":true}`).
#[test]
fn an_anthropic_error_has_a_text() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        (json!({"content": ""}), json!("[TOOL ERROR]")),
        (json!({"content": " \n"}), json!("[TOOL ERROR] \n")),
        (json!({"content": []}), json!([text("[TOOL ERROR]")])),
        (json!({"content": null}), json!("[TOOL ERROR]")),
        (json!({"content": [text("")]}), json!([text("[TOOL ERROR]")])),
        (json!({"content": [text(""), text(" ")]}), json!([text("[TOOL ERROR]"), text(" ")])),
        (json!({}), json!("[TOOL ERROR]")),
        (json!({"content": [text(""), text("no row")]}), json!([text(""), text("no row")])),
        (json!({"content": "no row"}), json!("no row")),
    ];
    for (own, content) in cases {
        for flag in [None, Some(json!(false)), Some(json!(null))] {
            let mut block = json!({"type": "tool_result", "tool_use_id": "a"});
            let members = block.as_object_mut().unwrap();
            members.extend(own.as_object().unwrap().clone());
            members.extend(flag.map(|flag| ("is_error".to_owned(), flag)));
            let request = json!({"messages": [{"role": "user", "content": [block]}]});
            let (found, copy) = forwarded(Provider::AnthropicMessages, json!(""), request);
            assert_eq!(found, ["unflagged_failure redact host"], "{own}");
            let block = &copy["messages"][0]["content"][0];
            assert_eq!((&block["content"], &block["is_error"]), (&content, &json!(true)), "{own}");
        }
    }
}

/// Anthropic refuses the flag beside an image.
#[test]
fn where_no_flag_can_be_added_it_is_only_said() {
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}});
    let block = json!({"type": "tool_result", "tool_use_id": "a", "content": [image]});
    let request = json!({"messages": [{"role": "user", "content": [block]}]});
    let (found, copy) = forwarded(Provider::AnthropicMessages, json!("no row"), request.clone());
    assert_eq!((found, copy), (vec!["unflagged_failure allow host".to_owned()], request));
}

#[test]
fn an_mcp_failure_is_known_in_the_request() {
    let mcp = |data| line(Provider::Mcp, "mcp.message", data);
    let call =
        mcp(json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "read", "arguments": {}}}));
    let answer = |failed: bool| {
        let content = json!([{"type": "text", "text": "no row"}]);
        mcp(json!({"jsonrpc": "2.0", "id": 7, "result": {"content": content, "isError": failed}}))
    };
    let request = |tool: &str, text: &str| {
        let call = json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": tool, "arguments": "{}"}}]});
        let messages = json!([call, {"role": "tool", "tool_call_id": "a", "content": text}]);
        line(Provider::OpenAiChat, "model.request", json!({ "messages": messages }))
    };
    let engine = engine(Profile::Standard, json!({}));
    let run = |failed, tool, text| judge(&engine, &[call.clone(), answer(failed), request(tool, text)]).0;
    assert_eq!(run(true, "mcp__files__read", "no row"), ["unflagged_failure redact mcp"]);
    assert_eq!(run(true, "read", "[TOOL ERROR] no row"), [""; 0]);
    for (failed, tool, text) in [(false, "read", "no row"), (true, "write", "no row"), (true, "read", "a row")] {
        assert_eq!(run(failed, tool, text), ["not_observed allow no_outcome"], "{failed} {tool} {text}");
    }
}

#[test]
fn a_failure_that_is_sent_again_is_flagged_again() {
    let provider = Provider::OpenAiChat;
    let host = line(provider, "tool.result", json!({"call_id": "a", "outcome": "error", "content": "no row"}));
    let messages = json!([{"role": "tool", "tool_call_id": "a", "content": "no row"}]);
    let request = line(provider, "model.request", json!({ "messages": messages }));
    let engine = engine(Profile::Standard, json!({}));
    let (found, copy) = judge(&engine, &[host, request.clone(), request]);
    assert_eq!(found, [""; 0], "said once");
    assert_eq!(copy["messages"][0]["content"], "[TOOL ERROR] no row");
}

fn failed(profile: Profile, options: Value, tool: &str, text: &str) -> (Vec<String>, String) {
    let data = json!({"call_id": "a", "tool": tool, "outcome": "error", "source": "s", "content": text});
    let (found, copy) = judge(&engine(profile, options), &[line(Provider::OpenAiChat, "tool.result", data)]);
    let content = &copy["content"];
    (found, content["content"].as_str().or(content.as_str()).unwrap_or_default().to_owned())
}

#[test]
fn diagnostic_output_keeps_its_traces() {
    let text = format!("{TRACE}E: at /srv/app/x.py, 10.0.0.1");
    let said = |effect: &str| vec![format!("stack_trace {effect} python")];
    let whole = text.clone();
    let first_line = "E: at [path], [host]".to_owned();
    for (profile, tool, options, want) in [
        (Profile::Standard, "bash", json!({}), (said("allow"), whole.clone())),
        (Profile::Standard, "my_pytest_run", json!({}), (said("allow"), whole.clone())),
        (Profile::Standard, "ours", json!({"output_is_diagnostic": ["o*s"]}), (said("allow"), whole)),
        (Profile::Standard, "ours", json!({}), (said("redact"), first_line.clone())),
        (Profile::Strict, "bash", json!({}), (said("redact"), first_line)),
    ] {
        assert_eq!(failed(profile, options, tool, &text), want, "{tool}");
    }
    let (found, left) = failed(Profile::Standard, json!({}), "bash", "password=n0t-r3al-at-all in /srv/app/x");
    assert_eq!(found, ["secret_in_failure redact password"]);
    assert_eq!(left, "password=[secret:password:1] in /srv/app/x");
}

#[test]
fn a_first_line_is_bounded_and_what_stands_beside_a_trace_is_not() {
    let beside = "ü".repeat(3000);
    let text = format!("{beside}\n{TRACE}E: {}\n{beside}", "ä".repeat(600));
    let (found, left) = failed(Profile::Standard, json!({"keep_bytes": 256}), "f", &text);
    assert_eq!(found, ["stack_trace redact python"]);
    assert_eq!(left, format!("{beside}\nE: {}\n{beside}", "ä".repeat(126)));
}

/// A secret in frames goes with them; one in the first line is replaced there.
#[test]
fn edits_of_other_policies_meet() {
    let text = format!("{TRACE}    login(password=\"n0t-r3al-either\")\nE: password=n0t-r3al-at-all at /srv/app/x.py");
    let (found, left) = failed(Profile::Standard, json!({}), "f", &text);
    assert_eq!(left, "E: password=[secret:password:2] at [path]");
    assert_eq!(found, ["secret_in_failure redact password", "stack_trace redact python"]);
}

#[test]
fn results_of_the_providers_own_tools_are_only_told() {
    let error = format!("{TRACE}E: at /srv/app/x.py");
    let item =
        json!({"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "arguments": "{}", "error": error});
    let response = json!({"id": "r", "status": "completed", "output": [item]});
    let lines = [line(Provider::OpenAiResponses, "model.response", response)];
    let (found, _) = judge(&engine(Profile::Strict, json!({})), &lines);
    assert_eq!(found, ["stack_trace allow python", "internal_path allow -"]);
}

#[test]
fn options_have_bounds() {
    let options = json!({"keep_bytes": 1, "output_is_diagnostic": ["", "a"]}).as_object().cloned().unwrap();
    let one = OnePolicy { options, ..OnePolicy::default() };
    let settings = PolicySettings { policies: [("SG02".to_owned(), one)].into(), ..PolicySettings::default() };
    let problems = Policies::new(&settings).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["policies.SG02.options.keep_bytes", "policies.SG02.options.output_is_diagnostic.0"]);
}

#[test]
fn detectors_take_one_walk() {
    use sluicegate::engine::scan::{internal, traces};
    let pieces = [
        "Traceback (most recent call last):\n",
        "  at x\n",
        "\tat com.example.A.b(A.java:1)\n",
        "goroutine 1 [running]:\n",
        "stack backtrace:\n",
        "#0 0x1 in a\n",
        "[SQL: x\n",
        "thread 'a' panicked at x:\n",
        "a:1:in `b'\n",
        "ORA-06512: at\n",
        "LINE 1: x\n",
        "/home/a ",
        "@/x",
        "=/x",
        "~",
        "~/",
        ":",
        "a.",
        "a:1 ",
        "C:/",
        "\\\\a",
        "file:///",
    ];
    for piece in pieces {
        let text = piece.repeat(400_000 / piece.len());
        assert!(traces::find(text.as_bytes()).windows(2).all(|two| two[0].end <= two[1].start), "{piece}");
        assert!(internal::find(text.as_bytes()).windows(2).all(|two| two[0].end <= two[1].start), "{piece}");
    }
}

/// What failed outputs are made of, in any order.
const PIECES: [&str; 30] = [
    "ERROR: relation does not exist",
    "LINE 1: select * from a",
    "LINE 2: where b",
    "            ^",
    "DETAIL: Key (id)=(7) is not there.",
    "Traceback (most recent call last):",
    "  File \"/home/app/run.py\", line 2, in main",
    "    raise E",
    "ValueError: no such row",
    "java.lang.IllegalStateException: closed",
    "\tat com.example.A.b(A.java:10)",
    "Caused by: java.io.IOException: /srv/data/x",
    "\t... 3 more",
    "TypeError: x is no function",
    "    at f (/srv/app/x.js:1:2)",
    "    at Object.<anonymous> (/srv/app/y.js:3:4)",
    "panic: runtime error",
    "goroutine 1 [running]:",
    "main.main()",
    "\t/go/src/app/main.go:7 +0x1d",
    "thread 'main' panicked at src/main.rs:2:5:",
    "stack backtrace:",
    "   0: std::panicking::begin",
    "             at /rustc/1/library/std/src/panicking.rs:1:2",
    "#0 /srv/app/index.php(3): run()",
    "[SQL: select 1]",
    "could not connect to db-01.internal:5432",
    "C:\\Program Files\\A B\\c.dll",
    "10.0.0.5:80 refused",
    "",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]
    /// A copy is left alone wherever it is judged again, whatever stood beside what was taken out of it.
    #[test]
    fn a_copy_of_a_failed_output_is_not_changed_again(
        picked in proptest::collection::vec(0..PIECES.len(), 1..14),
        ends in proptest::prelude::any::<bool>(),
        diagnostic in proptest::prelude::any::<bool>(),
    ) {
        let mut text = picked.iter().map(|ix| PIECES[*ix]).collect::<Vec<_>>().join("\n");
        if ends {
            text.push('\n');
        }
        let options = if diagnostic { json!({"output_is_diagnostic": ["run"]}) } else { json!({}) };
        let profile = if diagnostic { Profile::Strict } else { Profile::Standard };
        let engine = engine(profile, options);
        let event = |content: &Value| {
            line(Provider::OpenAiChat, "tool.result", json!({"call_id": "a", "tool": "run", "outcome": "error", "content": content}))
        };
        let (_, copy) = judge(&engine, &[event(&json!(text))]);
        let (again, same) = judge(&engine, &[event(&copy["content"])]);
        let changes: Vec<&String> = again.iter().filter(|finding| finding.contains(" redact ")).collect();
        proptest::prop_assert!(changes.is_empty(), "{:?} of {:?} from {:?}", changes, copy, text);
        proptest::prop_assert_eq!(&copy["content"], &same["content"]);
    }
}
