//! `check --pins`: decisions on tools from a file.

use crate::fixture::{run, text};
use serde_json::{Value, json};
use sluicegate::engine::digest::sha256;
use sluicegate::engine::pins::record::{DecisionRecord, Key, Line, Standing};

/// A definition in canonical form.
const SEARCH: &str = r#"{"description":"Searches.","inputSchema":{"type":"object"},"name":"search"}"#;

/// A line as `pins export` writes it.
fn line(offset: Option<i64>, standing: Option<Standing>) -> String {
    let digest = sha256(SEARCH.as_bytes());
    let key = Key { server: b"docs".into(), capabilities: None, name: Some(b"search".into()), digest };
    let record = |standing| DecisionRecord::new(key.clone(), standing, Some(SEARCH.into()));
    format!("{}\n", Line { offset, decision: standing.map(record), key: key.clone() }.encode())
}

/// A server's list, asked for and given.
fn listed() -> String {
    let event = |id: &str, direction: &str, data: Value| {
        json!({"specversion": "1.0", "id": id, "source": "/a", "type": "io.sluicegate.mcp.message.v1",
            "provider": "mcp", "conversation": "c", "mcpserver": "docs", "direction": direction, "data": data})
    };
    let tools = serde_json::from_str::<Value>(SEARCH).expect("it is there");
    let asks = event("1", "client", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let answers = event("2", "server", json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tools]}}));
    format!("{asks}\n{answers}\n")
}

/// Runs `check --pins` on a file of that text: exit code, the list's rules and offset of decisions, standard error.
fn check(pins: &str) -> (Option<i32>, Option<(String, Value)>, String) {
    let folder = tempfile::tempdir().expect("it is there");
    let path = folder.path().join("pins.jsonl");
    std::fs::write(&path, pins).expect("it is there");
    let output =
        run(&["check", "--format", "json", "--pins", path.to_str().expect("it is there"), "-"], listed().as_bytes());
    let verdicts = text(&output.stdout)
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).expect("it is there"))
        .collect::<Vec<_>>();
    let verdict = verdicts.iter().map(|e| &e["value"]).find(|v| v["checkpoint"] == "tool_definitions");
    let said = |v: &Value| {
        let findings = v["findings"].as_array().expect("it is there");
        let rules: Vec<String> =
            findings.iter().map(|f| format!("{}={}", f["rule"], f["evidence"]["label"]).replace('"', "")).collect();
        (rules.join(" "), v["policy"]["pins_offset"].clone())
    };
    (output.status.code(), verdict.map(said), text(&output.stderr).to_owned())
}

#[test]
fn check_judges_by_the_decisions_of_a_file() {
    use Standing::{Approved, Rejected};
    for (pins, code, rules, offset) in [
        (String::new(), 1, "unpinned_tool=none", json!(null)),
        (line(Some(7), Some(Approved)), 0, "", json!(7)),
        (line(None, Some(Approved)) + "\n", 0, "", json!(0)),
        (line(Some(7), Some(Approved)) + &line(Some(9), Some(Rejected)), 1, "unpinned_tool=rejected", json!(9)),
        (line(Some(7), Some(Approved)) + &line(None, None), 1, "unpinned_tool=none", json!(8)),
    ] {
        let expected = (Some(code), Some((rules.to_owned(), offset)));
        let (code, said, error) = check(&pins);
        assert_eq!((code, said), expected, "{pins}{error}");
    }
}

#[test]
fn a_line_that_is_no_decision_is_named() {
    let good = line(Some(3), Some(Standing::Approved));
    for (bad, says) in [
        ("nothing\n".to_owned(), "line 2: its value is not a decision"),
        (good.clone(), "line 2: its offset is not behind that of the record before it"),
        (good.replace("\"v\":1", "\"v\":2").replace("\"offset\":3", "\"offset\":4"), "line 2: its format is unknown"),
    ] {
        let (code, said, error) = check(&(good.clone() + &bad));
        assert_eq!((code, said), (Some(2), None), "{error}");
        assert!(error.contains(says), "{error}");
    }
    let output = run(&["check", "--pins", "/nowhere/pins.jsonl", "-"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/pins.jsonl"), "{}", text(&output.stderr));
}
