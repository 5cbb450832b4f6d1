//! What people read: the README, the notes after an installation, the chart's own facts.

use super::render::{CHART, LATEST, cases, copy, name, template};
use super::values::described;
use super::{tools, yaml};
use crate::files::{fresh, read, root, shell};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const START: &str = "<!-- values -->\n";
const END: &str = "<!-- /values -->\n";

/// The table of values, a table for each part.
fn table() -> String {
    let mut out = String::from(START);
    out.push_str("Made from `values.yaml`; do not edit.\n\n| value | default | |\n|---|---|---|\n");
    for (path, default, said) in described() {
        // A default that holds described values is shown with them.
        let shown = if path == "config" || path == "policy" { "see below".into() } else { format!("`{default}`") };
        let _ = writeln!(out, "| `{path}` | {} | {} |", shown.replace('|', "\\|"), said.replace('|', "\\|"));
    }
    out.push_str(END);
    out
}

#[test]
fn the_readme_is_fresh() {
    let path = format!("{CHART}/README.md");
    let readme = read(root(&path));
    let (before, rest) = readme.split_once(START).expect("the marker");
    let (_, after) = rest.split_once(END).expect("the end's marker");
    fresh(&path, &format!("{before}{}{after}", table()));
}

/// Values that the README writes in its text, and files that it names, exist.
#[test]
fn the_readme_names_what_exists() {
    let readme = read(root(CHART).join("README.md"));
    let prose = readme.split_once(START).expect("the marker").0;
    let values: BTreeSet<String> = described().into_iter().map(|(path, ..)| path).collect();
    let mut named = 0;
    for quoted in prose.split('`').skip(1).step_by(2) {
        let path = quoted.split([':', '=']).next().unwrap_or_default();
        let top = path.split('.').next().unwrap_or_default();
        let a_value = path.contains('.') && values.iter().any(|v| v.split('.').next() == Some(top));
        let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c));
        if a_value && plain {
            named += 1;
            let known = values.contains(path) || path.starts_with("config.");
            assert!(
                known
                    || values.iter().any(|v| v.starts_with(&format!("{path}.")) || path.starts_with(&format!("{v}."))),
                "{path} is no value"
            );
        }
    }
    assert!(named > 15, "{named}");
    let templates = read(root(CHART).join("templates/_pod.tpl")) + &read(root(CHART).join("templates/_helpers.tpl"));
    let paths = prose.lines().filter_map(|l| l.strip_prefix("| `/etc/sluicegate/")).filter_map(|l| l.split('`').next());
    let paths: Vec<&str> = paths.collect();
    assert_eq!(paths.len(), 7, "{paths:?}");
    for path in paths {
        let folder = path.rsplit_once('/').expect("a folder").0;
        assert!(templates.contains(&format!("mountPath: /etc/sluicegate/{folder}\n")), "{path}");
    }
    let listed: BTreeSet<&str> =
        readme.lines().filter_map(|l| l.strip_prefix("| [`")).filter_map(|l| l.split('`').next()).collect();
    let files: BTreeSet<String> = cases().iter().map(|c| super::render::file_name(c)).collect();
    assert_eq!(listed, files.iter().map(String::as_str).collect(), "the table of examples");
}

/// The first example of the README renders as it stands.
#[test]
fn the_example_of_the_readme_renders() {
    let Some(helm) = tools::helm() else { return };
    let readme = read(root(CHART).join("README.md"));
    let example = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), example).expect("written");
    template(helm, &root(CHART), LATEST, &[file.path()]).expect("it renders");
}

/// The notes name commands that exist, and objects that were made.
#[test]
fn the_notes_name_the_next_command() {
    let Some(helm) = tools::helm() else { return };
    let chart = copy();
    // `helm template` does not print the notes, and `helm install` wants a cluster.
    let notes = "notes: |\n  {{- include (print .Template.BasePath \"/NOTES.txt\") . | nindent 2 }}\n";
    std::fs::write(chart.path().join("templates/zz-notes.yaml"), notes).expect("written");
    for path in cases() {
        let text = template(helm, chart.path(), LATEST, &[&path]).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let objects = yaml::documents(&text);
        let said = objects.iter().find_map(|o| o["notes"].as_str()).expect("notes");
        assert!(!said.contains("<no value>") && !said.contains("%!"), "{said}");
        let tested = objects.iter().any(|o| o["kind"] == "Pod");
        assert_eq!(said.contains("helm test gate -n agents --logs"), tested, "{path:?}: {said}");
        let set = super::render::workload(&objects);
        let kind = set["kind"].as_str().expect("a kind").to_lowercase();
        assert!(said.contains(&format!("kubectl -n agents rollout status {kind}/{}", name(set))), "{said}");
        let monitored = objects.iter().any(|o| o["kind"] == "PodMonitor" || o["kind"] == "ServiceMonitor");
        assert_eq!(said.contains("Nothing scrapes the pods"), !monitored, "{said}");
        let commands = shell::commands(&format!("```\n{said}\n```\n"));
        assert!(commands.len() == 2 && commands[0].in_a_pod && !commands[1].in_a_pod, "{said}");
        for command in commands {
            assert_eq!(command.refused(), None, "{}", command.line);
            assert!(command.has("--config"), "{}", command.line);
        }
    }
}

#[test]
fn the_chart_has_the_version_of_the_binary() {
    let chart = yaml::document(&read(root(CHART).join("Chart.yaml")));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"), "chart and binary are released together");
    assert_eq!(chart["apiVersion"], "v2");
    let license = read(root("Cargo.toml"));
    let license = license.lines().find_map(|l| l.strip_prefix("license = ")).expect("a license");
    assert_eq!(chart["annotations"]["artifacthub.io/license"], license.trim_matches('"'));
}
