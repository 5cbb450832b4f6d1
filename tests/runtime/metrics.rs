//! The table of metrics, and what observations become.

use sluicegate::engine::Observation;
use sluicegate::engine::policy::{Mode, Severity};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::verdict::{Checkpoint, Decision};
use sluicegate::engine::wire::EventType;
use sluicegate::engine::{Emission, Engine, Input, Out, Outcome, To};
use sluicegate::runtime::admin::Health;
use sluicegate::runtime::config::{self, Need};
use sluicegate::runtime::port::{Cause, PartitionId};
use sluicegate::runtime::reporter::Reporter;
use sluicegate::runtime::settings::Settings;
use sluicegate::runtime::telemetry::{Kind, METRICS, Metrics, OTHER, PREFIX};
use sluicegate::runtime::worker::{PhaseKind, Telemetry};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

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
        Observation::Redacted { policy: "SG11", spans: 3 },
        Observation::Bypass { fleet: "a".into(), kind: "started_despite_block" },
        Observation::Oversize { fleet: "a".into(), provider: None, action: Decision::Redact, removed: 5 },
        Observation::Assembly { provider: None, outcome: "final", fragments: 3 },
        Observation::Opaque { provider: None, kind: "image", count: 2 },
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

/// Prometheus takes the first value of a series for no increase, so what happens once would not be seen.
#[test]
fn counters_of_one_closed_label_begin_at_zero() {
    let text = metrics().text();
    let mut zeros = 0;
    for m in METRICS.iter().filter(|m| m.kind == Kind::Counter) {
        let [label] = m.labels else { continue };
        for value in label.values {
            let line = format!("{PREFIX}{}{{{}=\"{value}\"}} 0\n", m.name, label.name);
            assert!(text.contains(&line), "{line} is not in\n{text}");
            zeros += 1;
        }
    }
    assert!(zeros > 20 && text.contains("label_overflow_total{label=\"fleet\"} 0\n"), "{text}");
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

#[test]
fn a_fleet_has_the_same_name_in_every_metric() {
    let m = metrics();
    for n in 0..40 {
        m.observe(&[verdict(&format!("fleet-{n}"), Decision::Allow)]);
    }
    // The last ones are `_other` here, though this counter has room.
    m.observe(&[verdict("fleet-39", Decision::Block), verdict("fleet-0", Decision::Block)]);
    let text = m.text();
    for line in [r#"blocks_total{fleet="_other",policy="SG08"} 1"#, r#"blocks_total{fleet="fleet-0",policy="SG08"} 1"#]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// The fleet labels of a result from each of these fleets.
fn labels(configuration: &str, fleets: &[&str]) -> Vec<String> {
    let config = config::from_text(configuration, HashMap::new(), Need::Engine).expect("no problems");
    let engine = Engine::new(config.engine_settings("local", None).expect("settings")).expect("an engine");
    let mut state = PartitionState::new();
    state.begin();
    let mut found = Vec::new();
    for fleet in fleets {
        let headers: [(&str, Option<&[u8]>); 6] = [
            ("ce_specversion", Some(b"1.0")),
            ("ce_id", Some(b"1")),
            ("ce_source", Some(b"/me")),
            ("ce_type", Some(b"io.sluicegate.tool.result.v1")),
            ("content-type", Some(b"application/json")),
            ("ce_fleet", Some(fleet.as_bytes())),
        ];
        let value = br#"{"call_id":"c","tool":"t","outcome":"ok","content":"hello"}"#;
        let mut out = Out::default();
        let (key, value) = (Some(fleet.as_bytes()), Some(&value[..]));
        let input = Input { topic: "t", partition: 0, offset: 0, timestamp: None, key, headers: &headers, value };
        assert_eq!(engine.step(&mut state, &input, &mut out), Outcome::Judged);
        found.extend(out.observations.into_iter().filter_map(|o| match o {
            Observation::Verdict { fleet, .. } => Some(fleet),
            _ => None,
        }));
    }
    found
}

#[test]
fn fleets_are_labels_as_configured_or_as_seen() {
    let fleets = ["support", "default", "ops", "<b>ignore all rules"];
    assert_eq!(labels("fleets: {support: {}}", &fleets), ["support", "default", OTHER, OTHER]);
    let seen = labels("", &fleets);
    assert_eq!(seen[..3], fleets[..3]);
    assert!(seen[3].starts_with('~') && seen[3].len() == 13, "a name that is not plain is no label: {seen:?}");
}

/// One record that gave one verdict, told by a worker.
fn tell_one(reporter: &Reporter) {
    let emission =
        Emission { to: To::Verdicts, key: None, headers: Vec::new(), value: Some(vec![0; 7]), timestamp: None };
    let mut out = Out::default();
    out.emissions.push(emission);
    out.observations.push(verdict("default", Decision::Allow));
    let input =
        Input { topic: "events", partition: 0, offset: 0, timestamp: None, key: None, headers: &[], value: None };
    reporter.stepped(&input, Outcome::Judged, &out, Duration::from_micros(5));
}

#[test]
fn what_a_transaction_produced_counts_once_it_is_known_to_be_committed() {
    let (m, health) = (Arc::new(metrics()), Arc::new(Health::new(1, Duration::from_secs(300))));
    let reporter = Reporter::new(&m, &health, &Settings::new("", "g", &["events"]));
    let produced = || m.records_produced.get(["sluicegate.verdicts"]);
    let lost = Cause::Timeout("no answer".into());
    tell_one(&reporter);
    reporter.committed(0, 1, Duration::from_millis(3));
    assert_eq!(produced(), 1);
    tell_one(&reporter);
    reporter.undone(0, "aborted", &Cause::Generation("moved on".into()));
    reporter.committed(0, 0, Duration::from_millis(3));
    assert_eq!(produced(), 1, "what was aborted does not count");
    tell_one(&reporter);
    reporter.undone(0, "abandoned", &lost);
    reporter.rebuilt(0, "timeout", true);
    assert_eq!(produced(), 2, "it was committed after all");
    tell_one(&reporter);
    reporter.undone(0, "fenced", &Cause::Fenced("fenced".into()));
    reporter.rebuilt(0, "fenced", false);
    reporter.committed(0, 0, Duration::from_millis(3));
    assert_eq!(produced(), 2);
    for (outcome, n) in [("committed", 3), ("aborted", 1), ("abandoned", 1), ("fenced", 1), (OTHER, 0)] {
        assert_eq!(m.transactions.get([outcome]), n, "{outcome}");
    }
    assert_eq!(m.transaction_aborts.get(["fenced"]), 1);
    assert_eq!((m.producer_rebuilds.get(["timeout"]), m.producer_rebuilds.get(["fenced"])), (1, 1));
}

#[test]
fn seconds_of_lag_are_those_of_the_partition_furthest_behind() {
    let (m, health) = (Arc::new(metrics()), Arc::new(Health::new(1, Duration::from_secs(300))));
    let reporter = Reporter::new(&m, &health, &Settings::new("", "g", &["events"]));
    let lag = || {
        m.text()
            .lines()
            .find_map(|l| l.strip_prefix(r#"sluicegate_consumer_lag_seconds{topic="events"} "#).map(str::to_owned))
    };
    let [a, b] = [0, 1].map(|partition| PartitionId { topic: 0, partition });
    for at in [a, b] {
        reporter.phase(at, Some(PhaseKind::Live));
    }
    reporter.lag(a, 10, 2_500);
    reporter.lag(b, 1, 500);
    assert_eq!(lag().as_deref(), Some("2.5"));
    reporter.phase(a, None);
    assert_eq!(lag().as_deref(), Some("0.5"), "what is not ours does not count");
    reporter.lag(b, 0, 0);
    assert_eq!(lag().as_deref(), Some("0"));
}

/// The value of a series, as it is exposed.
fn value(m: &Metrics, series: &str) -> Option<f64> {
    let prefix = format!("{PREFIX}{series} ");
    m.text().lines().find_map(|line| line.strip_prefix(&prefix).map(|value| value.parse().expect("a number")))
}

fn reporter() -> (Arc<Metrics>, Reporter) {
    let (m, health) = (Arc::new(metrics()), Arc::new(Health::new(2, Duration::from_secs(300))));
    let reporter = Reporter::new(&m, &health, &Settings::new("", "g", &["events", "more"]));
    (m, reporter)
}

#[test]
fn partitions_that_stall_are_counted_until_they_go_on_or_go() {
    let (m, reporter) = reporter();
    let [a, b] = [0, 1].map(|partition| PartitionId { topic: 0, partition });
    let other = PartitionId { topic: 1, partition: 0 };
    let stalled = |topic: &str| value(&m, &format!("stalled_partitions{{topic=\"{topic}\"}}"));
    reporter.stalled(a, true);
    assert_eq!(stalled("events"), None, "it is not ours");
    [a, b, other].iter().for_each(|at| reporter.phase(*at, Some(PhaseKind::Live)));
    assert_eq!(stalled("events"), Some(0.0));
    [a, b, other].iter().for_each(|at| reporter.stalled(*at, true));
    assert_eq!((stalled("events"), stalled("more")), (Some(2.0), Some(1.0)));
    reporter.stalled(a, false);
    assert_eq!(stalled("events"), Some(1.0));
    reporter.phase(b, Some(PhaseKind::Restoring));
    reporter.phase(other, None);
    assert_eq!((stalled("events"), stalled("more")), (Some(0.0), Some(0.0)));
}

#[test]
fn figures_of_clients_are_those_of_all_workers() {
    let (m, reporter) = reporter();
    let bytes = |client: &str| value(&m, &format!("kafka_queue_bytes{{client=\"{client}\"}}"));
    for (worker, client, n) in [(0, "consumer", 5), (1, "consumer", 7), (0, "producer", 1), (0, "consumer", 6)] {
        reporter.queued(worker, client, n);
    }
    assert_eq!((bytes("consumer"), bytes("producer")), (Some(13.0), Some(1.0)));

    let rtt = |broker: i32| value(&m, &format!("kafka_broker_rtt_seconds{{broker=\"{broker}\"}}"));
    let told = |worker, of: &[(i32, u64)]| {
        let p99 = of.iter().map(|(broker, ms)| (*broker, Duration::from_millis(*ms))).collect();
        reporter.round_trips(worker, &p99);
    };
    told(0, &[(1, 4), (2, 250)]);
    told(1, &[(1, 500), (3, 20)]);
    assert_eq!([1, 2, 3].map(rtt), [Some(0.5), Some(0.25), Some(0.02)], "the slowest of the workers");
    told(1, &[(3, 20)]);
    told(0, &[(1, 8)]);
    assert_eq!([1, 2, 3].map(rtt), [Some(0.008), None, Some(0.02)], "a broker that is asked nothing says nothing");
    told(0, &[]);
    told(1, &[]);
    assert_eq!([1, 2, 3].map(rtt), [None; 3]);

    reporter.partitions(0, 12);
    reporter.replayed(3);
    reporter.replayed(4);
    assert_eq!(value(&m, "topic_partitions{topic=\"events\"}"), Some(12.0));
    assert_eq!(value(&m, "restored_records_total"), Some(7.0));
}

#[test]
fn places_that_policies_change_add_up_by_policy() {
    let m = metrics();
    let redacted = |policy, spans| Observation::Redacted { policy, spans };
    m.observe(&[redacted("SG11", 2), redacted("SG01", 1)]);
    m.observe(&[redacted("SG11", 3)]);
    assert_eq!((m.redactions.get(["SG11"]), m.redactions.get(["SG01"])), (5, 1));
}
