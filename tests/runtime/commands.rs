//! Every command that a page, a runbook or a message names would be taken by the program as it stands.

use crate::fixture::root;
use crate::shell::{Found, commands};
use std::collections::BTreeSet;
use std::path::Path;

const RUNBOOKS: &str = "deploy/runbooks/";

/// All files below a folder whose name ends so, by their path from the root of the checkout.
pub fn files(folder: &str, end: &str) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = Path::new(folder).join(entry.file_name()).to_str().expect("UTF-8").to_owned();
        match entry.file_type().expect("a type").is_dir() {
            true => all.extend(files(&path, end)),
            false if path.ends_with(end) => all.push(path),
            false => {}
        }
    }
    all.sort();
    all
}

/// The text of a page. In a template the files of the configuration stand for what names them.
fn text(path: &str) -> String {
    let text = std::fs::read_to_string(root(path)).expect("a page");
    if !path.ends_with("NOTES.txt") {
        return text;
    }
    let mut parts = text.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once("}}").expect("the end of an action");
        let stands = if inside.contains("sluicegate.configArgs") { "--config FILE" } else { "" };
        out.push_str(stands);
        out.push_str(rest);
    }
    // What it shows to copy stands in no block.
    format!("{out}\n```\n{out}\n```\n")
}

fn pages() -> Vec<String> {
    let mut all: Vec<String> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned).into();
    for (folder, end) in [("docs", ".md"), ("deploy", ".md"), ("helm", "README.md"), ("helm", "NOTES.txt")] {
        all.extend(files(folder, end));
    }
    all
}

/// What is wrong with it as something to copy.
fn lacks(found: &Found, path: &str) -> Option<&'static str> {
    let runbook = path.starts_with(RUNBOOKS);
    // A name of a command in a table is no line to copy.
    let copied = found.fenced || (runbook && found.line.contains("sluicegate"));
    let decides = found.is(&["pins", "approve"]) || found.is(&["pins", "reject"]);
    let named = ["--tool", "--instructions", "--digest", "--class", "--all"].iter().any(|o| found.has(o));
    // Whoever decides or makes topics is not the service, and has a file of his own.
    let reviewer = found.is(&["pins"]);
    let admin = found.is(&["topics", "apply"]);
    match copied {
        true if found.needs_config() && !found.has("--config") => Some("no --config: it would speak of the defaults"),
        true if decides && !named => Some("does not say which definitions are meant"),
        true if decides && !found.has("--by") => Some("no --by: where $USER is not set it fails"),
        true if found.in_a_pod && (reviewer || admin) => Some("in a pod it runs as the service, which may not do that"),
        true if runbook && reviewer && !found.has("reviewer.yaml") => Some("not with the reviewer's file"),
        true if runbook && admin && !found.has("admin.yaml") => Some("not with the admin's file"),
        _ => None,
    }
}

#[test]
fn commands_of_every_page_are_taken() {
    let (mut wrong, mut fenced, mut all, mut seen) = (Vec::new(), 0, 0, BTreeSet::new());
    for path in pages() {
        for found in commands(&text(&path)) {
            (all, fenced) = (all + 1, fenced + usize::from(found.fenced));
            seen.extend(found.words.first().cloned());
            let why = found.refused().or_else(|| lacks(&found, &path).map(str::to_owned));
            wrong.extend(why.map(|why| format!("{path}: {}: {why}", found.line)));
        }
    }
    println!("figures: {all} commands of {} pages parsed, {fenced} of them to copy", pages().len());
    assert!(wrong.is_empty(), "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(fenced > 35 && all > 100, "{fenced} of {all}");
    let named = ["check", "demo", "pins", "policies", "run", "schema", "topics", "validate"];
    for name in named {
        assert!(seen.contains(name), "no page shows {name}");
    }
}

/// Messages of the program name commands too.
#[test]
fn commands_of_messages_are_taken() {
    let mut messages = 0;
    for path in files("src/runtime", ".rs").into_iter().chain(files("helm/sluicegate/templates", ".yaml")) {
        for line in std::fs::read_to_string(root(&path)).expect("a file").lines() {
            let quoted = line.split('`').filter(|part| part.starts_with("sluicegate "));
            for part in quoted {
                let found = commands(&format!("`{part}`"));
                messages += found.len();
                let refused = found.iter().find_map(Found::refused);
                assert!(refused.is_none(), "{path}: {part}: {refused:?}");
            }
        }
    }
    assert!(messages > 10, "{messages}");
}

/// What the look-up itself takes and refuses.
#[test]
fn what_is_no_command_is_told() {
    for (page, refused) in [
        ("`sluicegate pins approve`", false),
        ("`check --pins`", false),
        ("`pins diff --server S`", false),
        ("`run` it", false),
        ("`sluicegate pins approve ID`", true),
        ("`sluicegate pins diff ID`", true),
        ("`pins nothing`", true),
        ("`topics plan --wide`", true),
        ("```\nsluicegate pins diff --config a.yaml\n```", true),
        ("```\n$ kubectl exec P -- sluicegate pins approve --all --server S --reason 'a b' > x # y\n```", false),
        ("```\nsluicegate topics apply \\\n  --replication none\n```", true),
    ] {
        let found = commands(page);
        assert_eq!(found.iter().any(|f| f.refused().is_some()), refused, "{page}");
    }
    let lost = |page: &str| commands(page).iter().filter_map(|f| lacks(f, "deploy/runbooks/A.md")).count();
    for (page, n) in [
        ("`sluicegate validate`", 1),
        ("`sluicegate policies SG12`", 0),
        ("`sluicegate policies --effective --fleet f`", 1),
        ("`kubectl exec POD -- sluicegate topics apply --config admin.yaml`", 1),
        ("`sluicegate topics apply --config admin.yaml`", 0),
        ("`sluicegate --config reviewer.yaml pins approve --server S --all --reason R`", 1),
        ("`sluicegate --config reviewer.yaml pins approve --server S --reason R --by B`", 1),
        ("`sluicegate --config reviewer.yaml pins approve --server S --all --reason R --by B`", 0),
    ] {
        assert_eq!(lost(page), n, "{page}");
    }
}
