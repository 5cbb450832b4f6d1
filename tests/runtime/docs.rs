//! Generated pages are fresh, and the README says nothing that is not so.

use crate::fixture::{root, run, text};
use sluicegate::engine::wire::EventType;
use sluicegate::runtime::config::{self, Need};
use sluicegate::runtime::telemetry;
use std::collections::HashMap;

/// `UPDATE=1 cargo test` rewrites the page.
pub fn fresh(path: &str, expected: &str) {
    let file = root(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, expected).expect("the page is written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, expected, "{path} is stale: run `UPDATE=1 cargo test --release --test runtime`");
}

#[test]
fn the_metrics_page_is_fresh() {
    fresh("docs/metrics.md", &telemetry::reference());
}

/// Every type of event, every field of a verdict and of a finding, every member of a call's record.
#[test]
fn the_events_page_names_what_is_published() {
    let page = std::fs::read_to_string(root("docs/events.md")).expect("the page");
    let kinds = "model.request model.response model.chunk model.closed tool.started tool.result mcp.message render";
    for kind in kinds.split(' ').map(|kind| format!("io.sluicegate.{kind}.v1")) {
        assert!(EventType::from_name(&kind) != EventType::Unknown && page.contains(&kind), "{kind}");
    }
    let body = r#"{"id":"m","type":"message","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":1}}]}"#;
    let output = run(&["check", "--format", "json", "--provider", "anthropic.messages", "-"], body.as_bytes());
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let verdict = &lines[0]["value"];
    let finding = &verdict["findings"][0];
    let call: serde_json::Value = serde_json::from_str(lines[1]["value"].as_str().expect("text")).expect("a call");
    let fields = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for field in [fields(verdict), fields(&call)].concat() {
        // The subject's members stand in words, as do a finding's.
        let said = page.contains(&format!("`{field}`")) || field == "executor";
        assert!(said, "docs/events.md does not name {field}");
    }
    for field in fields(finding).iter().filter(|field| *field != "name") {
        assert!(page.contains(field.as_str()), "docs/events.md does not name {field} of a finding");
    }
}

/// The README's configuration file is the fixture, word for word.
#[test]
fn the_readme_shows_the_minimal_configuration() {
    let readme = std::fs::read_to_string(root("README.md")).expect("README");
    let fixture = std::fs::read_to_string(root("tests/runtime/minimal.yaml")).expect("fixture");
    assert!(readme.contains(&format!("```yaml\n{fixture}```")), "README.md lacks tests/runtime/minimal.yaml");
    let mut expected = config::from_text(&fixture, HashMap::new(), Need::Kafka).expect_err("the key file is elsewhere");
    expected.retain(|p| p.path != "engine.fingerprint_key_file");
    assert_eq!(expected, []);
}

/// Every `sluicegate …` of the README is a command with options that exist.
#[test]
fn the_commands_of_the_readme_exist() {
    let readme = std::fs::read_to_string(root("README.md")).expect("README");
    let mut commands = 0;
    for line in readme.lines() {
        let Some(command) = line.strip_prefix("cargo run --release -- ").or(line.strip_prefix("sluicegate ")) else {
            continue;
        };
        let command = command.split(" #").next().unwrap_or(command);
        let mut words: Vec<&str> = command.split_whitespace().collect();
        words.push("--help");
        let output = run(&words, b"");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        commands += 1;
    }
    assert!(commands >= 5, "only {commands} commands were found");
}
