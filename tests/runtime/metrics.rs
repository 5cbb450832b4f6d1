//! The table of metrics, and what observations become.

use sluicegate::engine::Observation;
use sluicegate::engine::policy::{Mode, Severity};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::verdict::{Checkpoint, Decision};
use sluicegate::engine::wire::EventType;
use sluicegate::runtime::telemetry::{Kind, METRICS, Metrics, OTHER, PREFIX};
use std::collections::BTreeSet;

fn metrics() -> Metrics {
    Metrics::new().expect("the table is sound")
}

fn verdict(fleet: &str, action: Decision) -> Observation {
    Observation::Verdict {
        fleet: fleet.into(),
        provider: Some(Provider::AnthropicMessages),
        checkpoint: Checkpoint::ToolCall,
        decision: Decision::Block,
        action,
        blocked_by: Some("SG08"),
    }
}

#[test]
fn names_are_unique_and_say_their_kind() {
    let names: BTreeSet<&str> = METRICS.iter().map(|m| m.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for m in METRICS {
        assert_eq!(m.name.ends_with("_total"), m.kind == Kind::Counter, "{}", m.name);
        assert_eq!(m.buckets.is_empty(), m.kind != Kind::Histogram, "{}", m.name);
        assert!(m.help.ends_with('.'), "{}", m.name);
        assert!(m.buckets.is_sorted(), "{}", m.name);
        assert!(m.labels.iter().all(|l| l.bound > 0), "{}", m.name);
    }
}

#[test]
fn every_registered_metric_is_in_the_table() {
    let m = metrics();
    m.describe("2.12.1", "default", "sha256:00112233445566778899");
    m.observe(&[
        verdict("support", Decision::Block),
        Observation::Finding { policy: "SG08", severity: Severity::High, mode: Mode::Enforce },
        Observation::ResultSize { provider: None, bytes: 10 },
        Observation::Oversize { fleet: "a".into(), provider: None, action: Decision::Redact, removed: 5 },
        Observation::Assembly { provider: None, outcome: "final", fragments: 3 },
        Observation::Opaque { provider: None, kind: "image" },
        Observation::Event { provider: None, kind: EventType::ModelChunk },
        Observation::DeadLetter { reason: "invalid_json" },
        Observation::Evicted { reason: "ttl" },
    ]);
    let table: BTreeSet<String> = METRICS.iter().map(|t| format!("{PREFIX}{}", t.name)).collect();
    let registered = m.names();
    assert!(registered.len() > 10, "{registered:?}");
    for name in registered {
        assert!(table.contains(&name), "{name} is not in the table");
    }
}

#[test]
fn a_block_counts_as_verdict_and_by_policy() {
    let m = metrics();
    m.observe(&[verdict("support", Decision::Block), verdict("support", Decision::Allow)]);
    let text = m.text();
    for line in [
        r#"sluicegate_verdicts_total{action="block",decision="block",fleet="support",provider="anthropic.messages"} 1"#,
        r#"sluicegate_verdicts_total{action="allow",decision="block",fleet="support",provider="anthropic.messages"} 1"#,
        r#"sluicegate_blocks_total{fleet="support",policy="SG08"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn labels_are_bounded_and_the_overflow_is_counted() {
    let m = metrics();
    for n in 0..40 {
        m.observe(&[verdict(&format!("fleet-{n}"), Decision::Block)]);
    }
    let text = m.text();
    let fleets = text.lines().filter(|l| l.starts_with("sluicegate_blocks_total{")).count();
    assert_eq!(fleets, 33, "{text}");
    assert!(text.contains(&format!(r#"sluicegate_blocks_total{{fleet="{OTHER}",policy="SG08"}} 8"#)), "{text}");
    assert!(text.contains(r#"sluicegate_label_overflow_total{label="fleet"} 16"#), "{text}");
    // A closed label takes nothing that is not in its list.
    m.record_outcomes.inc(["invented"]);
    assert!(m.text().contains(&format!(r#"record_outcomes_total{{outcome="{OTHER}"}} 1"#)));
}
