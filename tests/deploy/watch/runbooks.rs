//! A runbook for each alert, in which every metric, setting, panel, command and log event exists.

use std::collections::BTreeSet;

use super::alerts::{full, groups};
use super::expr::known;
use super::{RUNBOOKS, dashboards};
use crate::files::root;

/// Programs of others that a runbook may name.
const OTHERS: [&str; 5] = ["kubectl", "helm", "curl", "kafka-transactions.sh", "openssl"];
const HEADINGS: [&str; 4] = ["Means", "Look first", "Do", "Undo"];
const SECTIONS: [&str; 12] = [
    "kafka",
    "engine",
    "policy",
    "state",
    "worker",
    "http",
    "log",
    "pins",
    "fleets",
    "reload",
    "break_glass",
    "canary",
];

fn runbooks() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(root(RUNBOOKS)).unwrap();
    let mut all: Vec<(String, String)> = folder
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    // What holds for all of them.
    all.retain(|(name, _)| name != "README.md");
    all.sort();
    all
}

#[test]
fn every_alert_has_its_runbook() {
    let expected: BTreeSet<String> =
        groups().iter().flat_map(|(_, alerts)| alerts).map(|a| format!("{}.md", full(a.name))).collect();
    let all = runbooks();
    let found: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(found, expected);
    for (name, text) in &all {
        let headings: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("## ")).collect();
        assert_eq!(headings, HEADINGS, "{name}");
        assert_eq!(text.lines().next(), Some(format!("# {}", name.trim_end_matches(".md")).as_str()));
    }
    println!("figures: {} runbooks for {} alerts", all.len(), expected.len());
}

/// What stands between two of these, in lines that are not code.
fn between<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|p| p.lines().flat_map(|l| l.split(mark).skip(1).step_by(2).collect::<Vec<_>>())).collect()
}

#[test]
fn runbooks_name_what_exists() {
    let mut wrong = Vec::new();
    let panels: BTreeSet<String> = dashboards::all()
        .iter()
        .flat_map(|d| {
            let name = d.title.rsplit(" / ").next().unwrap().to_owned();
            d.panels().map(move |p| format!("{name} / {}", p.title)).collect::<Vec<_>>()
        })
        .collect();
    let settings = std::fs::read_to_string(root("docs/configuration.md")).unwrap();
    let source = sources();
    let (mut commands, mut named) = (BTreeSet::new(), 0);
    for (file, text) in runbooks() {
        for word in between(&text, "`") {
            named += 1;
            commands.extend(command(word).map(|c| (file.clone(), c.to_owned())));
            if !is_known(word, &settings, &source) {
                wrong.push(format!("{file}: `{word}`"));
            }
        }
        for panel in between(&text, "**") {
            named += 1;
            if !panels.contains(panel) {
                wrong.push(format!("{file}: no panel **{panel}**"));
            }
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            named += 1;
            if !root(RUNBOOKS).join(link).exists() {
                wrong.push(format!("{file}: {link}"));
            }
        }
        for line in text.split("```").skip(1).step_by(2).flat_map(str::lines).filter(|l| !l.is_empty() && *l != "sh") {
            commands.insert((file.clone(), line.to_owned()));
        }
    }
    for (file, line) in &commands {
        let program = line.split_whitespace().next().unwrap();
        // Its arguments are parsed with those of all pages (`tests/runtime/commands.rs`).
        if program != "sluicegate" && !OTHERS.contains(&program) {
            wrong.push(format!("{file}: {line}"));
        }
    }
    println!("figures: {named} names and {} commands of runbooks looked up", commands.len());
    assert!(wrong.is_empty(), "not there:\n{}", wrong.join("\n"));
}

fn command(word: &str) -> Option<&str> {
    let first = word.split(' ').next()?;
    (word.contains(' ') && (first == "sluicegate" || OTHERS.contains(&first))).then_some(word)
}

/// Metrics, header names, settings and log events are looked up; other words are plain words.
fn is_known(word: &str, settings: &str, source: &str) -> bool {
    if let Some(event) = word.strip_prefix("event=") {
        let event = event.trim_matches('"');
        return source.contains(&format!("event = \"{event}\"")) || source.contains(&format!("\"{event}\""));
    }
    if word.starts_with("sluicegate_") {
        let name = word.split('{').next().unwrap_or(word);
        return known(name).is_some()
            || source.contains(name.trim_start_matches("sluicegate_dlq_")) && name.contains("_dlq_");
    }
    let section = word.split('.').next().unwrap_or_default();
    let setting = word.contains('.') && SECTIONS.contains(&section) && !word.contains([' ', '/', '=']);
    if !setting {
        return true;
    }
    let generic: Vec<&str> = word.split('.').map(|part| if part.starts_with("SG") { "<name>" } else { part }).collect();
    let key = generic.join(".");
    [format!("| `{key}` |"), format!("## `{key}"), format!("## `{key}.<name>`")].iter().any(|k| settings.contains(k))
}

/// All code of the runtime and the engine.
fn sources() -> String {
    fn walk(folder: &std::path::Path, into: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                into.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut all = String::new();
    walk(&root("src"), &mut all);
    all
}
