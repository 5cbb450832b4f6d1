//! Generated pages are fresh, and the README says nothing that is not so.

use crate::fixture::{root, run, text};
use sluicegate::runtime::config::{self, Need};
use sluicegate::runtime::telemetry;
use std::collections::HashMap;

/// `UPDATE=1 cargo test` rewrites the page.
fn fresh(path: &str, expected: &str) {
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
