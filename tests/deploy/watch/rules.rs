//! `alerts.yaml` and `alerts_test.yaml`, written from the alerts and the objectives.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::alerts::{Alert, full, groups};
use super::case::Case;
use super::{RUNBOOKS, healthy, slo};

const HEAD: &str =
    "# Made from the table of metrics by `UPDATE=1 cargo test --release --test deploy -- fresh`; do not edit.\n";

/// A scalar of YAML: JSON's strings are such.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

pub fn alerts() -> String {
    let mut out = format!("{HEAD}groups:\n  - name: sluicegate-recorded\n    interval: 30s\n    rules:\n");
    for (name, expr) in slo::records() {
        let _ = writeln!(out, "      - record: {name}\n        expr: |-\n          {}", expr.text);
    }
    for (group, alerts) in groups() {
        let _ = writeln!(out, "  - name: {group}\n    rules:");
        for alert in alerts {
            rule(&mut out, &alert);
        }
    }
    out
}

fn rule(out: &mut String, alert: &Alert) {
    let name = full(alert.name);
    let _ = writeln!(out, "      - alert: {name}\n        expr: |-\n          {}", alert.expr.text);
    let _ =
        writeln!(out, "        for: {}\n        labels:\n          severity: {}", alert.hold, alert.severity.name());
    let _ = writeln!(out, "        annotations:\n          summary: {}", quoted(alert.summary));
    let _ = writeln!(out, "          runbook_url: {}", quoted(&format!("{RUNBOOKS}{name}.md")));
}

pub fn tests() -> String {
    let mut out = format!("{HEAD}rule_files: [alerts.yaml]\nevaluation_interval: 1m\ntests:\n");
    for alert in groups().into_iter().flat_map(|(_, alerts)| alerts) {
        for case in [&alert.fires, &alert.silent] {
            test(&mut out, &alert, case);
        }
    }
    quiet(&mut out);
    out
}

/// In a healthy world no alert fires.
fn quiet(out: &mut String) {
    let _ = writeln!(out, "  - name: a healthy day is silent\n    interval: 1m\n    input_series:");
    for (series, values) in healthy::series() {
        let _ = writeln!(out, "      - series: {}\n        values: {}", quoted(&series), quoted(&values));
    }
    let _ = writeln!(out, "    alert_rule_test:");
    for alert in groups().into_iter().flat_map(|(_, alerts)| alerts) {
        let _ = writeln!(out, "      - {{eval_time: 3h, alertname: {}, exp_alerts: []}}", full(alert.name));
    }
}

/// `docs/alerts.md`.
pub fn page() -> String {
    let mut out = String::from(
        "# Alerts\n\nMade from the alerts' own table by `UPDATE=1 cargo test --release --test deploy -- fresh`; do not edit. \
         The rules are `helm/sluicegate/files/alerts.yaml`; `alerts_test.yaml` beside it shows when each fires and when \
         not. `page` wakes somebody, `ticket` waits for the day, `info` is for the dashboard. What the objective is: \
         [slo.md](slo.md).\n",
    );
    for (group, alerts) in groups() {
        let heading = group.trim_start_matches("sluicegate-");
        let _ = writeln!(out, "\n## {}{}\n", heading[..1].to_uppercase(), &heading[1..]);
        let _ = writeln!(out, "| alert | severity | after | says |\n|---|---|---|---|");
        for alert in alerts {
            let (name, hold) = (full(alert.name), if alert.hold == "0m" { "at once" } else { alert.hold });
            let says = plain(alert.summary);
            let _ = writeln!(out, "| [{name}](../{RUNBOOKS}{name}.md) | {} | {hold} | {says} |", alert.severity.name());
        }
    }
    out
}

/// `{{ $labels.fleet }}` reads as _fleet_.
fn plain(summary: &str) -> String {
    let mut parts = summary.split("{{ $labels.");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (label, rest) = part.split_once(" }}").unwrap();
        let _ = write!(out, "_{label}_{rest}");
    }
    out
}

fn test(out: &mut String, alert: &Alert, case: &Case) {
    let name = full(alert.name);
    let does = if case.fires.is_some() { "fires" } else { "is silent" };
    let _ = writeln!(out, "  - name: {}\n    interval: 1m", quoted(&format!("{name} {does}: {}", case.says)));
    let _ = writeln!(out, "    input_series:");
    for (series, values) in &case.series {
        let _ = writeln!(out, "      - series: {}\n        values: {}", quoted(series), quoted(values));
    }
    let _ = writeln!(out, "    alert_rule_test:\n      - eval_time: {}\n        alertname: {name}", case.at);
    let Some(labels) = &case.fires else {
        let _ = writeln!(out, "        exp_alerts: []");
        return;
    };
    let _ = writeln!(out, "        exp_alerts:\n          - exp_labels:");
    let severity = BTreeMap::from([("severity".to_owned(), alert.severity.name().to_owned())]);
    let mut summary = alert.summary.to_owned();
    for (label, value) in labels.iter().chain(&severity) {
        let _ = writeln!(out, "              {label}: {}", quoted(value));
        summary = summary.replace(&format!("{{{{ $labels.{label} }}}}"), value);
    }
    assert!(!summary.contains("$labels"), "{name}: the summary names a label that the alert does not have");
    let _ = writeln!(out, "            exp_annotations:\n              summary: {}", quoted(&summary));
    let _ = writeln!(out, "              runbook_url: {}", quoted(&format!("{RUNBOOKS}{name}.md")));
}
