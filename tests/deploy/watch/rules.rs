//! `alerts.yaml` and `alerts_test.yaml`, written from the alerts and the objectives.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::alerts::{Alert, full, groups};
use super::case::Case;
use super::{RUNBOOKS, slo};

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
