//! Generated pages are fresh, and the README says nothing that is not so.

use crate::fixture::{root, run, text};
use sluicegate::engine::wire::EventType;
use sluicegate::runtime::config::{self, Need};
use sluicegate::runtime::telemetry;
use std::collections::{BTreeSet, HashMap};

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

/// Every event that is logged without `debug` stands in the table of `docs/operating.md`, and no other does.
#[test]
fn the_table_of_log_events_is_whole() {
    let page = std::fs::read_to_string(root("docs/operating.md")).expect("the page");
    let section = page.split("\n## ").find(|s| s.starts_with("Logs\n")).expect("the section");
    let cells = section.lines().filter(|l| l.starts_with("| `")).filter_map(|l| l.split('|').nth(1));
    let told: BTreeSet<String> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|w| *w != "event")
        .map(str::to_owned)
        .collect();
    let (mut logged, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for path in crate::commands::files("src/runtime", ".rs") {
        let text = std::fs::read_to_string(root(&path)).expect("a file");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (at, _) in code.match_indices("event = \"") {
            let name = code[at..].split('"').nth(1).expect("a name").to_owned();
            let level = |l: &&str| code[..at].rfind(&format!("{l}!("));
            let last = ["trace", "debug", "info", "warn", "error"].into_iter().max_by_key(level).expect("a level");
            if ["trace", "debug"].contains(&last) {
                quiet.insert(name)
            } else {
                logged.insert(name)
            };
        }
    }
    // The hook writes this one by itself, since a panic may hold the lock of the log.
    logged.insert("panic".to_owned());
    assert!(logged.len() > 35, "{logged:?}");
    let missing: Vec<&String> = logged.difference(&told).collect();
    let gone: Vec<&String> = told.iter().filter(|name| !logged.contains(*name) && !quiet.contains(*name)).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not in the table: {missing:?}; in no code: {gone:?}");
}
