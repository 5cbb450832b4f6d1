//! The command line, run as a user runs it: exit codes, output, pipes.

use crate::fixture::{root, run, sample, sluicegate, text};
use serde_json::Value;
use std::process::Stdio;

/// One verdict as `call checkpoint decision rules`.
fn verdicts(stdout: &[u8]) -> Vec<String> {
    text(stdout)
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).expect("one object a line"))
        .filter(|e| e["to"] == "verdicts")
        .map(|e| {
            let v = &e["value"];
            let rules: Vec<&str> =
                v["findings"].as_array().into_iter().flatten().filter_map(|f| f["rule"].as_str()).collect();
            let of = |v: &Value| v.as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {}",
                of(&v["subject"]["call_id"]),
                of(&v["checkpoint"]),
                of(&v["decision"]),
                rules.join(",")
            )
        })
        .collect()
}

#[test]
fn check_judges_the_sample_and_exits_by_its_findings() {
    let output = run(&["check", "--format", "json", "-"], sample().as_bytes());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found = verdicts(&output.stdout);
    for expected in [
        "toolu_01Lyon tool_call allow ",
        "toolu_01OsloW tool_call allow ",
        "toolu_01OsloT tool_call allow ",
        "toolu_01Tick tool_call allow ",
        "toolu_01Mail tool_call block cut_call",
        "toolu_01Chat tool_call block invalid_json",
        "call_01Q tool_call allow ",
        "call_01L tool_call allow ",
        "call_01N tool_call allow ",
        "call_01C tool_call block cut_call",
        "call_01S tool_call block schema_mismatch",
        "call_01U tool_call block unknown_tool",
        "call_01E tool_start block started_before_final",
    ] {
        assert_eq!(found.iter().filter(|v| *v == expected).count(), 1, "{expected}\n{found:#?}");
    }
}

#[test]
fn fail_on_decides_the_exit_code() {
    for (limit, code) in [("block", 1), ("redact", 1), ("never", 0)] {
        let output = run(&["check", "--fail-on", limit, "-"], sample().as_bytes());
        assert_eq!(output.status.code(), Some(code), "{limit}");
    }
    let clean: String = sample().lines().take(17).map(|l| format!("{l}\n")).collect();
    assert_eq!(run(&["check", "-"], clean.as_bytes()).status.code(), Some(0));
}

#[test]
fn json_lines_have_the_contracts_shape() {
    let output = run(&["check", "--format", "json", "--topic", "agent.events", "-"], sample().as_bytes());
    for line in text(&output.stdout).lines() {
        let e: Value = serde_json::from_str(line).expect("JSON");
        let members: Vec<&String> = e.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["headers", "key", "to", "value"]);
        match e["to"].as_str() {
            Some("verdicts") => {
                assert_eq!(e["value"]["source"]["topic"], "agent.events");
                let id = e["value"]["verdict_id"].as_str().expect("an id");
                assert!(id.starts_with("local/agent.events/0/"), "{id}");
            }
            Some("redacted" | "deadletters" | "sightings") => {
                assert!(e["value"].is_string() || e["value"]["base64"].is_string())
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn bytes_that_are_no_text_become_a_dead_letter_in_base64() {
    let output = run(&["check", "--format", "json", "-"], b"\xff\xfe{\n");
    let line: Value = serde_json::from_str(&text(&output.stdout)).expect("one line");
    assert_eq!(line["to"], "deadletters");
    assert_eq!(line["value"]["base64"], "//57");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn files_have_their_own_state_and_partition() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("events.jsonl");
    std::fs::write(&file, sample()).expect("written");
    let name = file.to_str().expect("a name");
    let output = run(&["check", "--format", "json", name, name], b"");
    let lines: Vec<Value> = text(&output.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let of = |n: i64| lines.iter().filter(|e| e["value"]["source"]["partition"] == n).count();
    assert!(of(0) > 20);
    assert_eq!(of(0), of(1));
}

#[test]
fn raw_streams_are_read_with_a_provider() {
    let stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"stop_reason\":null}}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_raw\",\"name\":\"f\",\"input\":{}}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n\
        event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
    let end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let arguments = ["check", "--format", "json", "--provider", "anthropic.messages", "-"];
    let whole = run(&arguments, format!("{stream}{end}").as_bytes());
    let found = verdicts(&whole.stdout);
    assert!(found.iter().any(|v| v.starts_with("toolu_raw tool_call allow")), "{found:?} {}", text(&whole.stderr));
    // The file ends, so the stream does: an unfinished call is cut.
    let cut = verdicts(&run(&arguments, stream.as_bytes()).stdout);
    assert!(cut.iter().any(|v| v.starts_with("toolu_raw tool_call block cut_call")), "{cut:?}");
}

#[test]
fn idle_calls_expire_only_with_now() {
    let open: String = sample().lines().take(10).map(|l| format!("{l}\n")).collect();
    let without = verdicts(&run(&["check", "--format", "json", "-"], open.as_bytes()).stdout);
    assert!(!without.iter().any(|v| v.contains("tool_call")), "{without:?}");
    let arguments = ["check", "--format", "json", "--now", "2036-01-01T00:00:00Z", "-"];
    let with = verdicts(&run(&arguments, open.as_bytes()).stdout);
    assert!(with.iter().any(|v| v == "toolu_01Lyon tool_call block cut_call"), "{with:?}");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let events = sample().repeat(200);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("events.jsonl");
    std::fs::write(&file, events).expect("written");
    let mut child = sluicegate(&["check", "--format", "json", file.to_str().expect("a name")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn usage_errors_exit_with_2_and_say_what_to_do() {
    for (arguments, said) in [
        (vec!["check"], "FILE"),
        (vec!["check", "/nowhere/events.jsonl"], "/nowhere/events.jsonl"),
        (vec!["check", "--provider", "acme", "-"], "anthropic.messages"),
        (vec!["demo", "--once", "--listen", "nowhere"], "--listen"),
        (vec!["demo", "--once", "--listen", "192.0.2.1:1"], "--listen"),
        (vec!["check", "--now", "soon", "-"], "2026-01-01T00:00:00Z"),
        (vec!["policies", "SG99"], "SG01"),
        (vec!["validate", "--config", "/nowhere.yaml"], "no such file"),
        (vec!["frobnicate"], "frobnicate"),
    ] {
        let output = run(&arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn validate_takes_the_minimal_configuration() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    let file = root("tests/runtime/minimal.yaml");
    let arguments = ["validate", "--config", file.to_str().expect("a name")];
    let output = sluicegate(&arguments).env("SLUICEGATE__ENGINE__FINGERPRINT_KEY_FILE", &key).output().expect("runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("ok: group sluicegate, 1 input topic, profile standard"));

    std::fs::write(&key, "too short").expect("written");
    let output = sluicegate(&arguments).env("SLUICEGATE__ENGINE__FINGERPRINT_KEY_FILE", &key).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("64 hexadecimal digits"), "{}", text(&output.stderr));
}

/// Whoever owns the policies keeps them in a file of their own.
#[test]
fn later_configuration_files_win_key_by_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("written");
        path.to_str().expect("a name").to_owned()
    };
    let key = file("key", &"0f".repeat(32));
    let service = file(
        "service.yaml",
        &format!(
            "kafka: {{bootstrap_servers: 'b:9092', group: first, inputs: [e]}}\nengine: {{fingerprint_key_file: {key}}}\npolicy: {{bundle: kept, profile: strict}}\n"
        ),
    );
    let policy = file("policy.yaml", "kafka: {group: second}\npolicy: {profile: monitor}\n");
    let output = run(&["validate", "--config", &service, "--config", &policy], b"");
    let said = text(&output.stdout);
    assert!(said.starts_with("ok: group second, 1 input topic, profile monitor"), "{said}{}", text(&output.stderr));

    // Whatever is wrong with any of them is said of each by its name.
    let broken = [file("a.yaml", "kafka: ["), file("b.yaml", "}"), file("c.yaml", "log: {level: info}")];
    let arguments: Vec<&str> =
        ["validate"].into_iter().chain(broken.iter().flat_map(|b| ["--config", b.as_str()])).collect();
    let said = text(&run(&arguments, b"").stderr);
    assert!(said.contains("a.yaml: not YAML") && said.contains("b.yaml: not YAML"), "{said}");
    assert!(!said.contains("c.yaml"), "{said}");
}

/// What could not be judged is never silent.
#[test]
fn check_says_what_it_could_not_judge() {
    let event = |provider: &str, kind: &str, data: &str| {
        format!(
            r#"{{"specversion":"1.0","id":"1","source":"/t","type":"io.sluicegate.{kind}","provider":"{provider}","conversation":"c","datacontenttype":"application/json",{data}}}"#
        )
    };
    let whole = event("xai.chat", "model.response.v1", r#""data":{"object":"chat.completion","choices":[]}"#);
    let broken = event("anthropic.messages", "model.response.v1", r#""data_base64":"e25v""#);
    for (lines, said, summary, code) in [
        ("tail -f app.log\n".to_owned(), vec!["-:1: invalid_json"], "1 record: 1 dead letter", 1),
        (format!("{whole}\n{broken}\n"), vec!["-:2: undecodable_data"], "1 with undecodable data", 1),
    ] {
        let output = run(&["check", "-"], lines.as_bytes());
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(said.iter().all(|s| err.contains(s)) && err.contains("not judged: 1 "), "{lines}: {err}");
        assert!(out.contains(summary), "{lines}: {out}");
        assert_eq!(output.status.code(), Some(code), "{lines}: {err}");
        assert_eq!(run(&["check", "--fail-on", "never", "-"], lines.as_bytes()).status.code(), Some(0));
    }
}

/// Problems of the policies are listed although the key cannot be read, and a broken file is named.
#[test]
fn validate_lists_all_problems_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gate.yaml");
    let said = |text_of_file: &str| {
        std::fs::write(&file, text_of_file).expect("written");
        let output = run(&["validate", "--config", file.to_str().expect("a name")], b"");
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let all = said(
        "kafka: {bootstrap_servers: 'b:9092', inputs: [e]}\nengine: {fingerprint_key_file: /nowhere/key}\npolicy: {policies: {SG99: {}}}\n",
    );
    assert!(all.contains("engine.fingerprint_key_file") && all.contains("SG99"), "{all}");
    let broken = said("kafka: [\n");
    assert!(broken.contains("gate.yaml"), "{broken}");
}

/// A file of policies alone is read as what it is, and says so.
#[test]
fn validate_takes_policies_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("policies.yaml");
    let said = |text_of_file: &str| {
        std::fs::write(&file, text_of_file).expect("written");
        let output = run(&["validate", "--config", file.to_str().expect("a name")], b"");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = said("policy: {profile: strict}\nfleets: {support: {}}\n");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("ok: policies alone") && out.contains("profile strict"), "{out}");
    let (code, _, err) = said("policy: {policies: {SG04: {mode: maybe}}}\n");
    assert_eq!(code, Some(2));
    assert!(err.contains("SG04.mode") && err.contains("policies alone") && !err.contains("kafka.bootstrap"), "{err}");
    for service in ["policy: {profile: strict}\nkafka: {group: g}\n", "policy: {profile: strict}\nkafak: {}\n", ""] {
        let (code, _, err) = said(service);
        assert_eq!(code, Some(2), "{service}");
        assert!(err.contains("kafka.bootstrap_servers") && !err.contains("policies alone"), "{service}: {err}");
    }
}

#[test]
fn policies_lists_all_and_shows_one() {
    let list = text(&run(&["policies"], b"").stdout);
    for code in ["SG01", "SG04", "SG08"] {
        assert!(list.contains(code), "{list}");
        let page = run(&["policies", code], b"");
        assert!(page.status.success());
        let page = text(&page.stdout);
        for part in ["What it checks", "Why it matters", "Violates", "Holds", "Options", "Source", "Rules", "strict"] {
            assert!(page.lines().any(|l| l.contains(part)), "{code} lacks {part}: {page}");
        }
    }
}

#[test]
fn colour_only_when_asked_or_on_a_terminal() {
    let plain = run(&["policies"], b"");
    assert!(!plain.stdout.contains(&0x1b));
    let coloured = run(&["--color", "always", "policies"], b"");
    assert!(coloured.stdout.contains(&0x1b));
}

#[test]
fn run_without_a_broker_ends_with_4_and_names_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    let output = sluicegate(&["run"])
        .env("SLUICEGATE__ENGINE__FINGERPRINT_KEY_FILE", &key)
        .env("SLUICEGATE__KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
        .env("SLUICEGATE__KAFKA__INPUTS", "agent.events")
        .env("SLUICEGATE__KAFKA__STARTUP_TIMEOUT", "1s")
        .env("SLUICEGATE__HTTP__LISTEN", "127.0.0.1:0")
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("127.0.0.1:1"), "{}", text(&output.stderr));
}

/// The main job, as a user starts it.
#[test]
fn demo_once_shows_every_kind() {
    let output = run(&["demo", "--once", "--listen", "127.0.0.1:0"], b"");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}\n{}", text(&output.stderr));
    for expected in [
        "proves nothing about exactly-once",
        "SG08 cut_call (max_tokens)",
        "SG04 invalid_json",
        "SG04 schema_mismatch",
        "SG04 unknown_tool",
        "SG08 started_before_final",
        "SG01 oversize_result",
        "SG02 stack_trace",
        "SG05 active_content",
        "SG11 credential",
        "SG12 ",
        "SG15 started_despite_block",
        "dead letter",
        "records judged",
        "/metrics",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in\n{shown}");
    }
    assert!(!output.stdout.contains(&0x1b), "colour without a terminal");
    example_gives_a_verdict(&shown);
}

/// What the demo tells people to produce is judged, exactly as it is printed.
fn example_gives_a_verdict(shown: &str) {
    let (_, rest) = shown.split_once("echo '").expect("an example");
    let (data, command) = rest.split_once('\'').expect("its end");
    let command = command.split("  read ").next().expect("the command");
    let mut event = serde_json::json!({"data": serde_json::from_str::<Value>(data).expect("JSON")});
    for header in command.split("-H ce_").skip(1) {
        let (name, value) = header.split_whitespace().next().and_then(|h| h.split_once('=')).expect("name=value");
        event[name] = value.into();
    }
    event["conversation"] = "my-conversation".into();
    let output = run(&["check", "--format", "json", "-"], format!("{event}\n").as_bytes());
    let found = verdicts(&output.stdout);
    assert!(found.len() == 1 && found[0].starts_with("call_1 tool_call "), "{found:?} {}", text(&output.stderr));
}

/// A raw stream of each streaming provider: its name, and its events.
fn streams() -> Vec<(&'static str, Vec<&'static str>)> {
    let responses = vec![
        r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"note","arguments":"","status":"in_progress"}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":"{\"text\":\"gr\u00fc"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":"\u00dfe\"}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":0,"item_id":"fc_1","arguments":"{\"text\":\"grüße\"}"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"note","arguments":"{\"text\":\"grüße\"}","status":"completed"}}"#,
        r#"{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","output":[]}}"#,
    ];
    let chat = vec![
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"note","arguments":""}}]},"finish_reason":null}]}"#,
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"text\":\"grü"}}]},"finish_reason":null}]}"#,
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ße\"}"}}]},"finish_reason":null}]}"#,
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    ];
    vec![
        (
            "anthropic.messages",
            vec![
                r#"{"type":"message_start","message":{"id":"msg_1","content":[]}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"note","input":{}}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"text\":\"grü"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"ße\"}"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
                r#"{"type":"message_stop"}"#,
            ],
        ),
        (
            "gemini.generate_content",
            vec![
                r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"note","willContinue":true}}]},"index":0}],"responseId":"g1"}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.text","stringValue":"grü","willContinue":true}],"willContinue":true}}]},"index":0}],"responseId":"g1"}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.text","stringValue":"ße"}],"willContinue":true}}]},"index":0}],"responseId":"g1"}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{}}]},"finishReason":"STOP","index":0}],"responseId":"g1"}"#,
            ],
        ),
        ("openai.chat", chat.clone()),
        ("openai.responses", responses.clone()),
        ("xai.chat", chat),
        ("xai.responses", responses),
    ]
}

/// The calls that `check` lets run: action and record of each.
fn calls(arguments: &[&str], input: &str) -> Vec<(serde_json::Value, serde_json::Value)> {
    let output = run(arguments, input.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>();
    let records = lines.iter().filter(|line: &&serde_json::Value| line["to"] == "redacted");
    let records = records.map(|line| serde_json::from_str::<serde_json::Value>(line["value"].as_str().expect("text")));
    records.map(|record| record.expect("a call")).map(|r| (r["tool"].clone(), r["arguments"].clone())).collect()
}

/// The raw stream of each streaming provider as a file, and the same events as one record, a record each, and a
/// record a line: the same calls.
#[test]
fn check_reads_the_raw_stream_of_every_provider() {
    let expected = vec![(serde_json::json!("note"), serde_json::json!({"text": "grüße"}))];
    for (provider, events) in streams() {
        let raw: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let raw = if provider.ends_with("chat") { format!("{raw}data: [DONE]\n\n") } else { raw };
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("response.sse");
        std::fs::write(&file, &raw).expect("written");
        let file = file.to_str().expect("a name");
        let said = calls(&["check", "--format", "json", "--provider", provider, file], "");
        assert_eq!(said, expected, "{provider}: a file");
        let record = |n: usize, data: serde_json::Value, media: &str| {
            let event = serde_json::json!({"specversion": "1.0", "id": n.to_string(), "source": "/t", "type": "io.sluicegate.model.chunk.v1",
                "provider": provider, "conversation": "c", "responseid": "r", "datacontenttype": media, "data": data});
            format!("{event}\n")
        };
        let stream = |texts: Vec<&str>| -> String {
            texts.into_iter().enumerate().map(|(n, text)| record(n, text.into(), "text/event-stream")).collect()
        };
        let each: String = events
            .iter()
            .enumerate()
            .map(|(n, event)| record(n, serde_json::from_str(event).expect("JSON"), "application/json"))
            .collect();
        let array = format!("[{}]", events.join(","));
        let array = record(0, serde_json::from_str(&array).expect("JSON"), "application/json");
        let arguments = ["check", "--format", "json", "-"];
        assert_eq!(calls(&arguments, &each), expected, "{provider}: a record an event");
        assert_eq!(calls(&arguments, &array), expected, "{provider}: an array");
        assert_eq!(calls(&arguments, &stream(vec![&raw])), expected, "{provider}: one record");
        assert_eq!(calls(&arguments, &stream(raw.split_inclusive('\n').collect())), expected, "{provider}: lines");
        let at = raw.find("text").expect("it is there");
        assert_eq!(calls(&arguments, &stream(vec![&raw[..at], &raw[at..]])), expected, "{provider}: two reads");
    }
}

/// Nothing judged is never silent, whatever the reason.
#[test]
fn check_tells_nothing_to_judge_from_nothing_judged() {
    let listed = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read","inputSchema":{"type":"object","required":["path"]}}]}}"#;
    let mcp = format!(
        "{}\n{listed}\n{}\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{}}}"#
    );
    let live = concat!(
        r#"{"setup":{"model":"m","tools":[{"functionDeclarations":[{"name":"book","parameters":{"type":"OBJECT","required":["n"]}}]}]}}"#,
        "\n",
        r#"{"toolCall":{"functionCalls":[{"id":"f1","name":"book","args":{}}]}}"#,
        "\n"
    );
    let unknown = r#"{"specversion":"1.0","id":"1","source":"/t","type":"io.sluicegate.model.respnse.v1","data":{}}"#;
    let message = r#"{"type":"message_stop"}"#;
    let raw = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let cases: [(&[&str], &str, &str, i32); 8] = [
        (&["--provider", "mcp"], &mcp, "withheld_tool", 1),
        (&["--provider", "gemini.live"], live, "schema_mismatch", 1),
        (&["--provider", "gemini.generate_content"], message, "another provider's?", 1),
        (&["--provider", "openai.chat"], raw, "another provider's?", 1),
        (&["--provider", "openai.chat"], "", "-: empty; there is nothing to judge in it", 1),
        (&[], "", "-: empty; there is nothing to judge in it", 1),
        (&[], unknown, "-:1: unknown_type", 0),
        (&[], "data: {}\n", "raw traffic (SSE, a body over several lines) needs --provider", 1),
    ];
    for (options, input, said, code) in cases {
        let arguments = [&["check"], options, &["-"]].concat();
        let output = run(&arguments, input.as_bytes());
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(all.contains(said), "{options:?} {input}: {all}");
        assert_eq!(output.status.code(), Some(code), "{options:?} {input}: {all}");
    }
    let page = run(&["policies", "sg00"], b"");
    assert!(text(&page.stdout).contains("text_behind_end"), "{}", text(&page.stdout));
}

const SCOPED: &str = "fleets: {support: {topics: [agent.*]}}\npolicy:\n  policies: {SG01: {options: {max_bytes: 2048}}}\n  \
    overrides:\n    mail:\n      match: {fleet: support, tool: '*_mail'}\n      \
    policies: {SG01: {mode: monitor, rules: {hard_limit: allow}, options: {max_bytes: 4096}}}\n";

/// The cells of the line that begins with this setting, of the first policy that has it.
fn setting<'t>(page: &'t str, name: &str) -> Vec<&'t str> {
    let line = page.lines().find(|line| line.split_whitespace().next() == Some(name));
    line.unwrap_or_else(|| panic!("{name}\n{page}")).split_whitespace().skip(1).collect()
}

#[test]
fn policies_effective_says_what_holds_and_where_it_comes_from() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("scoped.yaml");
    std::fs::write(&file, SCOPED).expect("written");
    let file = file.to_str().expect("a name");
    let page = |arguments: &[&str]| {
        let output = run(&[&["--config", file, "policies"], arguments].concat(), b"");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let base = page(&["--effective"]);
    assert_eq!(setting(&base, "overrides"), ["none"]);
    assert_eq!(setting(&base, "profile"), ["standard", "(from", "policy.profile)"]);
    assert_eq!(setting(&base, "mode"), ["enforce", "profile", "standard"]);
    assert_eq!(setting(&base, "options.max_bytes"), ["2048", "policy.policies.SG01.options.max_bytes"]);
    assert_eq!(setting(&base, "options.block_bytes"), ["2097152", "default"]);
    for code in ["SG01 ", "SG04 ", "SG08 ", "SG15 "] {
        assert!(base.lines().any(|line| line.starts_with(code)), "{code}\n{base}");
    }
    let mail = page(&["sg01", "--effective", "--fleet", "support", "--tool", "send_mail"]);
    assert_eq!(setting(&mail, "overrides"), ["mail"]);
    assert_eq!(setting(&mail, "mode"), ["monitor", "policy.overrides.mail.policies.SG01.mode"]);
    assert_eq!(setting(&mail, "rules.hard_limit"), ["allow", "policy.overrides.mail.policies.SG01.rules.hard_limit"]);
    assert_eq!(setting(&mail, "rules.too_deep"), ["block", "profile", "standard"]);
    assert_eq!(setting(&mail, "options.max_bytes"), ["4096", "policy.overrides.mail.policies.SG01.options.max_bytes"]);
    assert!(!mail.contains("SG04"), "{mail}");
    assert_ne!(setting(&mail, "digest"), setting(&base, "digest"));
    let strict = page(&["--effective", "--profile", "strict"]);
    assert_eq!(setting(&strict, "profile"), ["strict", "(from", "--profile)"]);
    // The catalogue and a page take the configuration too.
    assert!(page(&[]).lines().any(|line| line.starts_with("code") && line.contains("mode")));
    assert_eq!(setting(&page(&["SG01"]), "options.max_bytes"), ["2048", "policy.policies.SG01.options.max_bytes"]);
    for (arguments, said) in [
        (&["--fleet", "support"][..], "--effective"),
        (&["--effective", "--fleet", "suport"], "no fleet \"suport\"; fleets has support"),
        (&["--effective", "SG99"], "no policy \"SG99\""),
    ] {
        let output = run(&[&["--config", file, "policies"], arguments].concat(), b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{said}\n{}", text(&output.stderr));
    }
    std::fs::write(file, "policy: {profile: loud}\n").expect("written");
    assert_eq!(run(&["--config", file, "policies"], b"").status.code(), Some(2));
}

/// The topics of a fleet count where the lines stand for a topic.
#[test]
fn check_believes_a_fleet_on_any_topic_unless_it_is_told_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("scoped.yaml");
    std::fs::write(&file, SCOPED).expect("written");
    let config = file.to_str().expect("a name");
    let support: String =
        sample().lines().filter(|l| l.contains("\"fleet\":\"support\"")).map(|l| format!("{l}\n")).collect();
    for (topic, said) in [(None, false), (Some("agent.events"), false), (Some("check"), true)] {
        let topic = topic.map_or(vec![], |topic| vec!["--topic", topic]);
        let arguments = [&["--config", config, "check", "--format", "json"], topic.as_slice(), &["-"]].concat();
        let found = verdicts(&run(&arguments, support.as_bytes()).stdout);
        assert!(!found.is_empty());
        assert_eq!(found.iter().any(|v| v.contains("fleet_not_permitted")), said, "{topic:?} {found:#?}");
    }
}
