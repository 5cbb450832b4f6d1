//! Telemetry: logs and metrics, each named in one place.
//!
//! The table [`METRICS`] is the written specification: name, kind, help, labels with their bounds, buckets.
//! The handles of [`Metrics`] are made from it, so a metric that is not in the table cannot exist, and
//! `docs/metrics.md` is generated from it. Closed labels list their values; an open label (`fleet`, `topic`,
//! `partition`, `kind`) takes as many values as its bound and folds the rest into `_other`, counted. All metrics
//! share the values of `fleet`, so that a fleet has the same name in each.
//!
//! A metric stands in the table only if something fills it: a dashboard must not be built on zeros.
//!
//! No label and no log line holds text from outside: the engine's [`Observation`]s cannot carry any.

use crate::engine::Observation;
use crate::engine::policy::{Mode, Severity};
use crate::engine::provider::Provider;
use crate::engine::verdict::Decision;
use crate::engine::wire::EventType;
use crate::runtime::port::Cause;
use prometheus::core::Collector;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

/// What every metric's name begins with.
pub const PREFIX: &str = "sluicegate_";
/// The value that stands for all beyond a label's bound.
pub const OTHER: &str = "_other";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A label and how many values it may take.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    pub name: &'static str,
    pub bound: usize,
    /// Its values where they are a closed set.
    pub values: &'static [&'static str],
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Without [`PREFIX`].
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub labels: &'static [Label],
    /// Upper bounds, for histograms.
    pub buckets: &'static [f64],
}

const fn closed(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, bound: values.len(), values }
}

const fn open(name: &'static str, bound: usize) -> Label {
    Label { name, bound, values: &[] }
}

/// OpenTelemetry's advice for messaging.
const TIME: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
const STEP_TIME: &[f64] = &[1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0];
const BYTES: &[f64] = &[1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];
const COUNTS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0];

const TOPIC: Label = open("topic", 8);
const PARTITION: Label = open("partition", 64);
const FLEET: Label = open("fleet", 32);
const POLICY: Label = open("policy", 24);
const PROVIDER: Label = closed(
    "provider",
    &[
        "openai.responses",
        "openai.chat",
        "anthropic.messages",
        "xai.responses",
        "xai.chat",
        "gemini.generate_content",
        "gemini.live",
        "mcp",
        "unknown",
    ],
);
/// Why a producer was replaced: another took its name, or a cause of [`Cause::LABELS`].
const REBUILDS: [&str; 7] = ["fenced", "generation", "too_large", "timeout", "transport", "denied", "other"];
const DECISION: Label = closed("decision", &["allow", "redact", "block"]);
const ACTION: Label = closed("action", &["allow", "redact", "block"]);

/// Declares the table and the handles made from it.
macro_rules! metrics {
    ($($field:ident: $kind:ident $name:literal [$($label:expr),*] $buckets:expr, $help:literal;)*) => {
        /// The metrics by the names of their handles: what dashboards and alerts are made from.
        #[allow(non_upper_case_globals, reason = "the field's own name, so that table and handles read alike")]
        pub mod table {
            use super::*;
            $(#[doc = $help] pub static $field: Metric = Metric {
                name: $name, kind: Kind::$kind, help: $help, labels: &[$($label),*], buckets: $buckets,
            };)*
        }
        /// Every metric, in the order of the journey.
        pub static METRICS: &[&Metric] = &[$(&table::$field),*];
        /// The handles.
        pub struct Metrics {
            registry: Registry,
            $(#[doc = $help] pub $field: $kind,)*
        }
        impl Metrics {
            /// # Errors
            /// The table names a metric twice, or one the client library refuses.
            pub fn new() -> Result<Metrics, prometheus::Error> {
                let registry = Registry::new();
                let overflow = IntCounterVec::new(opts(&table::label_overflow), &["label"])?;
                for label in METRICS.iter().flat_map(|m| m.labels).filter(|l| l.values.is_empty()) {
                    overflow.with_label_values(&[label.name]);
                }
                let common = Common { registry, overflow, fleets: Arc::default() };
                Ok(Metrics { $($field: $kind::new(&table::$field, &common)?,)* registry: common.registry })
            }
        }
    };
}

metrics! {
    build_info: Gauge "build_info" [open("version", 1), open("revision", 1), open("librdkafka", 1)] &[],
        "Build facts as labels; the value is always 1.";
    config_info: Gauge "config_info" [open("policy_bundle", 1), open("policy_sha256", 1)] &[],
        "Active policy bundle and the first 12 hexadecimal digits of its digest; the value is always 1.";
    config_reloads: Counter "config_reloads_total" [closed("result", &["applied", "rejected"])] &[],
        "Times that the files were read again and differed: applied, or rejected and the last good ones kept.";
    config_last_reload: Gauge "config_last_reload_timestamp_seconds" [] &[],
        "Unix time when what holds was loaded.";
    config_last_reload_successful: Gauge "config_last_reload_successful" [] &[],
        "1 while what the files say holds; 0 while it was rejected and the last good ones are kept.";
    break_glass_active: Gauge "break_glass_active" [] &[],
        "1 while break_glass turns enforcement into monitoring.";
    canary_verdicts: Counter "canary_verdicts_total" [closed("result", &["blocked", "observed", "passed", "missing"])] &[],
        "Hostile results that this instance sent to itself, by what its verdict did: anything but blocked needs a look.";
    health: Gauge "health" [closed("check", &["poll", "group", "restore", "broker", "commit", "partitions", "pins", "canary", "fatal"])] &[],
        "Health checks that feed /readyz and /livez: 1 passing, 0 failing.";
    records_consumed: Counter "records_consumed_total" [TOPIC] &[],
        "Kafka records read under read_committed; a record read again after an abort counts again.";
    record_bytes_consumed: Counter "record_bytes_consumed_total" [TOPIC] &[],
        "Key plus value bytes of records read.";
    record_outcomes: Counter "record_outcomes_total" [closed("outcome", &["judged", "passed", "rejected"])] &[],
        "How records ended; the sum equals records_consumed_total.";
    events: Counter "events_total" [PROVIDER, closed("event_type", &[
        "model_request", "model_response", "model_chunk", "model_closed", "tool_started", "tool_result", "render",
        "mcp_message", "unknown",
    ])] &[],
        "Agent events understood, by provider wire format and event type.";
    decode_failures: Counter "decode_failures_total" [TOPIC, open("reason", 16)] &[],
        "Records that could not be decoded into an event.";
    undecodable: Counter "undecodable_data_total" [PROVIDER] &[],
        "Records whose envelope could be read and whose data is not JSON; the response's open calls are cut.";
    opaque: Counter "opaque_parts_total" [PROVIDER, open("kind", 64)] &[],
        "Items, blocks and parts that were passed without inspection, by wire type.";
    end_to_end_latency: Histogram "end_to_end_latency_seconds" [closed("lane", &["call", "result"])] TIME,
        "Input record timestamp to commit of the transaction that carries its verdict.";
    stage_duration: Histogram "stage_duration_seconds" [closed("stage", &["step", "commit"])] STEP_TIME,
        "Time spent on one record by the engine (step) and on one transaction's end (commit).";
    assemblies_open: Gauge "assemblies_open" [] &[],
        "Tool-argument streams being reassembled.";
    assemblies: Counter "assemblies_total" [PROVIDER, open("outcome", 20)] &[],
        "Argument streams that ended: final, or the reason why they were cut.";
    assembly_fragments: Histogram "assembly_fragments" [] COUNTS,
        "Delta fragments per argument stream that ended.";
    conversations_open: Gauge "conversations_open" [] &[],
        "Conversations held in state.";
    state_bytes: Gauge "state_bytes" [] &[],
        "Estimated bytes of conversation state in memory.";
    state_evictions: Counter "state_evictions_total" [open("reason", 4)] &[],
        "Conversations that left the state, by reason.";
    verdicts: Counter "verdicts_total" [FLEET, PROVIDER, DECISION, ACTION] &[],
        "Verdicts: what the policies ask for (decision) and what was done (action).";
    blocks: Counter "blocks_total" [FLEET, POLICY] &[],
        "Tool calls or results blocked, by the first policy that blocks.";
    findings: Counter "findings_total" [
        POLICY, closed("severity", &["low", "medium", "high", "critical"]), closed("mode", &["enforce", "monitor"])
    ] &[],
        "Policy findings, those of monitor mode included.";
    bypasses: Counter "bypasses_total" [FLEET, closed("kind", &[
        "started_despite_block", "started_before_verdict", "blocked_result_forwarded", "unredacted_result_forwarded",
    ])] &[],
        "What hosts did against a verdict, or without waiting for one.";
    tool_description_changes: Counter "tool_description_changes_total" [FLEET] &[],
        "Definitions of tools, or instructions of servers, that are not the pinned ones; one a class of change.";
    oversize_results: Counter "oversize_results_total" [FLEET, PROVIDER, ACTION] &[],
        "Tool results over the byte cap.";
    oversize_bytes_removed: Counter "oversize_bytes_removed_total" [FLEET] &[],
        "Bytes left out of tool results over the cap.";
    redactions: Counter "redactions_total" [POLICY] &[],
        "Places that policies changed in published copies: replaced, cut, fenced or marked. What stands for a block is in blocks_total.";
    unanswered_calls: Gauge "unanswered_tool_calls" [] &[],
        "Tool calls held in state that a client may run, and whose result has not come.";
    result_size: Histogram "result_size_bytes" [PROVIDER] BYTES,
        "Tool result size before policies.";
    records_produced: Counter "records_produced_total" [TOPIC] &[],
        "Records of committed transactions, state aside.";
    record_bytes_produced: Counter "record_bytes_produced_total" [TOPIC] &[],
        "Key plus value bytes of records of committed transactions, state aside.";
    dlq_records: Counter "dlq_records_total" [closed("stage", &["decode", "judge", "redact", "publish"]), open("reason", 16)] &[],
        "Records sent to the dead-letter topic.";
    transactions: Counter "transactions_total" [closed("outcome", &["committed", "aborted", "fenced", "abandoned"])] &[],
        "Kafka transactions by how they ended; abandoned: the end stayed unknown, so the producer was replaced and the committed offsets decided.";
    transaction_aborts: Counter "transaction_aborts_total" [closed("cause", &Cause::LABELS)] &[],
        "Transactions whose commit was not confirmed, by cause.";
    transaction_duration: Histogram "transaction_duration_seconds" [] TIME,
        "Time a worker spent on ending a transaction.";
    transaction_records: Histogram "transaction_records" [] COUNTS,
        "Input records per committed transaction.";
    transaction_open: Gauge "transaction_open_seconds" [] &[],
        "Age of the oldest open transaction; it holds back every read_committed reader of the outputs.";
    producer_rebuilds: Counter "producer_rebuilds_total" [closed("reason", &REBUILDS)] &[],
        "Transactional producers destroyed and rebuilt: fenced by another, or the cause that left a transaction's end unknown.";
    assigned_partitions: Gauge "assigned_partitions" [TOPIC] &[],
        "Input partitions assigned to this instance.";
    topic_partitions: Gauge "topic_partitions" [TOPIC] &[],
        "Partitions of each input topic, as brokers tell them.";
    stalled_partitions: Gauge "stalled_partitions" [TOPIC] &[],
        "Partitions that are read, where records wait and none was committed for 30 s.";
    consumer_lag_records: Gauge "consumer_lag_records" [TOPIC, PARTITION] &[],
        "Last stable offset minus position; owned partitions only.";
    consumer_lag_seconds: Gauge "consumer_lag_seconds" [TOPIC] &[],
        "While records wait: age of the last record read, of the partition furthest behind; 0 when all are read.";
    partitions_paused: Gauge "partitions_paused" [closed("reason", &["restore", "output_partitions"])] &[],
        "Assigned partitions that are not read: their state is being restored, or an output topic has too few partitions.";
    rebalances: Counter "rebalances_total" [closed("event", &["assign", "revoke", "lost"])] &[],
        "Rebalances by event.";
    poll_age: Gauge "poll_age_seconds" [] &[],
        "Seconds since the slowest worker's poll loop last ran.";
    restore_duration: Histogram "restore_duration_seconds" [] TIME,
        "Assignment to state restored, per partition.";
    restore_remaining: Gauge "restore_remaining_records" [] &[],
        "Changelog offsets still to be read before the partitions under restore are judged.";
    restored_records: Counter "restored_records_total" [] &[],
        "Changelog records that were read back.";
    connected_brokers: Gauge "kafka_connected_brokers" [] &[],
        "Brokers that a worker's consumer is connected to; of several workers the fewest.";
    broker_rtt: Gauge "kafka_broker_rtt_seconds" [open("broker", 32)] &[],
        "p99 of the requests of producers to a broker in the last 10 s, by its node id; of several workers the slowest. None: nothing was asked.";
    queue_bytes: Gauge "kafka_queue_bytes" [closed("client", &["consumer", "producer"])] &[],
        "Bytes that wait inside the Kafka clients, of all workers: fetched and not read yet, or not acknowledged yet.";
    certificate_expiry: Gauge "tls_certificate_expiry_timestamp_seconds" [closed("role", &["kafka_ca", "kafka_client"])] &[],
        "Unix time when a certificate ends that the clients were given as a PEM file at the start; of a bundle the first end.";
    log_events_suppressed: Counter "log_events_suppressed_total" [] &[],
        "Log lines left out because their place wrote too many.";
    label_overflow: Counter "label_overflow_total" [open("label", 16)] &[],
        "Label values folded into _other because their bound was reached.";
}

fn opts(metric: &Metric) -> Opts {
    Opts::new(format!("{PREFIX}{}", metric.name), metric.help)
}

/// The values that an open label has taken.
type Values = Arc<RwLock<BTreeSet<String>>>;

/// What the handles of all metrics share.
struct Common {
    registry: Registry,
    overflow: IntCounterVec,
    fleets: Values,
}

/// Keeps open labels within their bounds.
struct Bounds {
    metric: &'static Metric,
    seen: Vec<Values>,
    overflow: IntCounterVec,
}

impl Bounds {
    fn new(metric: &'static Metric, common: &Common) -> Self {
        let values = |l: &Label| if l.name == FLEET.name { Arc::clone(&common.fleets) } else { Arc::default() };
        Self { metric, seen: metric.labels.iter().map(values).collect(), overflow: common.overflow.clone() }
    }

    /// What was seen counts no more.
    fn forget(&self) {
        for seen in &self.seen {
            seen.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn names(&self) -> Vec<&'static str> {
        self.metric.labels.iter().map(|l| l.name).collect()
    }

    /// The values with everything beyond a bound replaced. Most metrics have at most four labels.
    fn apply<'v, const N: usize>(&self, mut values: [&'v str; N]) -> [&'v str; N] {
        debug_assert_eq!(N, self.metric.labels.len(), "{}", self.metric.name);
        for ((label, seen), value) in self.metric.labels.iter().zip(&self.seen).zip(&mut values) {
            if !self.admits(label, seen, value) {
                *value = OTHER;
                self.overflow.with_label_values(&[label.name]).inc();
            }
        }
        values
    }

    fn admits(&self, label: &Label, seen: &RwLock<BTreeSet<String>>, value: &str) -> bool {
        if !label.values.is_empty() {
            return label.values.contains(&value);
        }
        if value == OTHER || seen.read().unwrap_or_else(PoisonError::into_inner).contains(value) {
            return true;
        }
        let mut seen = seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < label.bound {
            seen.insert(value.to_owned());
            return true;
        }
        false
    }
}

fn register(registry: &Registry, collector: &(impl Collector + Clone + 'static)) -> Result<(), prometheus::Error> {
    registry.register(Box::new(collector.clone()))
}

/// A counter of the table.
pub struct Counter {
    vec: IntCounterVec,
    bounds: Bounds,
}

impl Counter {
    fn new(metric: &'static Metric, common: &Common) -> Result<Self, prometheus::Error> {
        let bounds = Bounds::new(metric, common);
        // The overflow counter is the one that all bounds share.
        let vec = if metric.name == table::label_overflow.name {
            common.overflow.clone()
        } else {
            IntCounterVec::new(opts(metric), &bounds.names())?
        };
        // From zero on: Prometheus takes the first value of a series for no increase.
        match metric.labels {
            [] => drop(vec.with_label_values::<&str>(&[])),
            [label] => label.values.iter().for_each(|value| drop(vec.with_label_values(&[value]))),
            _ => {}
        }
        register(&common.registry, &vec)?;
        Ok(Self { vec, bounds })
    }
    pub fn add<const N: usize>(&self, labels: [&str; N], by: u64) {
        self.vec.with_label_values(&self.bounds.apply(labels)).inc_by(by);
    }
    pub fn inc<const N: usize>(&self, labels: [&str; N]) {
        self.add(labels, 1);
    }
    pub fn get<const N: usize>(&self, labels: [&str; N]) -> u64 {
        self.vec.with_label_values(&self.bounds.apply(labels)).get()
    }
}

/// A gauge of the table.
pub struct Gauge {
    vec: GaugeVec,
    bounds: Bounds,
}

impl Gauge {
    fn new(metric: &'static Metric, common: &Common) -> Result<Self, prometheus::Error> {
        let bounds = Bounds::new(metric, common);
        let vec = GaugeVec::new(opts(metric), &bounds.names())?;
        register(&common.registry, &vec)?;
        Ok(Self { vec, bounds })
    }
    pub fn set<const N: usize>(&self, labels: [&str; N], value: f64) {
        self.vec.with_label_values(&self.bounds.apply(labels)).set(value);
    }
    pub fn add<const N: usize>(&self, labels: [&str; N], value: f64) {
        self.vec.with_label_values(&self.bounds.apply(labels)).add(value);
    }
    /// The one series that it has.
    pub fn only<const N: usize>(&self, labels: [&str; N], value: f64) {
        self.vec.reset();
        self.bounds.forget();
        self.set(labels, value);
    }
    /// Takes a series away: the partition is not ours any more.
    pub fn remove<const N: usize>(&self, labels: [&str; N]) {
        let _ = self.vec.remove_label_values(&labels);
    }
}

/// A histogram of the table.
pub struct Histogram {
    vec: HistogramVec,
    bounds: Bounds,
}

impl Histogram {
    fn new(metric: &'static Metric, common: &Common) -> Result<Self, prometheus::Error> {
        let bounds = Bounds::new(metric, common);
        let options = HistogramOpts { common_opts: opts(metric), buckets: metric.buckets.to_vec() };
        let vec = HistogramVec::new(options, &bounds.names())?;
        register(&common.registry, &vec)?;
        Ok(Self { vec, bounds })
    }
    pub fn observe<const N: usize>(&self, labels: [&str; N], value: f64) {
        self.vec.with_label_values(&self.bounds.apply(labels)).observe(value);
    }
    /// The sum of what was observed.
    pub fn sum<const N: usize>(&self, labels: [&str; N]) -> f64 {
        self.vec.with_label_values(&self.bounds.apply(labels)).get_sample_sum()
    }
}

impl Metrics {
    /// Sets what never changes while the process runs.
    pub fn describe(&self, librdkafka: &str, bundle: &str, digest: &str) {
        let revision = option_env!("SLUICEGATE_REVISION").unwrap_or("unknown");
        self.build_info.set([env!("CARGO_PKG_VERSION"), revision, librdkafka], 1.0);
        self.describe_policy(bundle, digest);
    }

    /// The policies that hold now, in place of those that held before.
    pub fn describe_policy(&self, bundle: &str, digest: &str) {
        let hex = digest.trim_start_matches("sha256:");
        self.config_info.only([bundle, hex.get(..12).unwrap_or(hex)], 1.0);
    }

    /// Names of all registered metrics that have a series.
    pub fn names(&self) -> Vec<String> {
        self.registry.gather().iter().map(|f| f.name().to_owned()).collect()
    }

    /// The exposition text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Only a writer can fail here, and a `String` does not.
        let _ = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text);
        text
    }

    /// Counts what the engine observed in one step.
    pub fn observe(&self, observations: &[Observation]) {
        for o in observations {
            self.observe_one(o);
        }
    }

    fn observe_one(&self, observation: &Observation) {
        match observation {
            Observation::Verdict { fleet, provider: p, checkpoint: _, decision, action, blocked_by } => {
                self.verdicts.inc([fleet, provider(*p), decision.name(), action.name()]);
                if *action == Decision::Block {
                    self.blocks.inc([fleet, blocked_by.unwrap_or("SG00")]);
                }
            }
            Observation::Finding { policy, severity: s, mode } => {
                let mode = if *mode == Mode::Monitor { "monitor" } else { "enforce" };
                self.findings.inc([policy, severity(*s), mode]);
            }
            Observation::ResultSize { provider: p, bytes } => {
                self.result_size.observe([provider(*p)], float(*bytes));
            }
            Observation::Redacted { policy, spans } => self.redactions.add([policy], *spans),
            Observation::Bypass { fleet, kind } => self.bypasses.inc([fleet, *kind]),
            Observation::Oversize { fleet, provider: p, action, removed } => {
                self.oversize_results.inc([fleet, provider(*p), action.name()]);
                self.oversize_bytes_removed.add([fleet], *removed);
            }
            Observation::Assembly { provider: p, outcome, fragments } => {
                self.assemblies.inc([provider(*p), outcome]);
                self.assembly_fragments.observe([], f64::from(*fragments));
            }
            Observation::Opaque { provider: p, kind, count } => self.opaque.add([provider(*p), kind], *count),
            Observation::Undecodable { provider: p } => self.undecodable.inc([provider(*p)]),
            Observation::Event { provider: p, kind } => self.events.inc([provider(*p), event_type(*kind)]),
            Observation::DeadLetter { reason } => self.dlq_records.inc([stage(reason), reason]),
            Observation::DefinitionsChanged { fleet, count } => self.tool_description_changes.add([fleet], *count),
            Observation::Evicted { reason } => self.state_evictions.inc([reason]),
        }
    }
}

fn provider(p: Option<Provider>) -> &'static str {
    p.map_or("unknown", Provider::name)
}

/// The label of a severity, in metrics and tables.
pub fn severity(s: Severity) -> &'static str {
    match s {
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
}

fn event_type(kind: EventType) -> &'static str {
    match kind {
        EventType::ModelRequest => "model_request",
        EventType::ModelResponse => "model_response",
        EventType::ModelChunk => "model_chunk",
        EventType::ModelClosed => "model_closed",
        EventType::ToolStarted => "tool_started",
        EventType::ToolResult => "tool_result",
        EventType::Render => "render",
        EventType::McpMessage => "mcp_message",
        EventType::Unknown => "unknown",
    }
}

/// Where on the journey a record was given up; the same as the header `sluicegate_dlq_stage`.
fn stage(reason: &str) -> &'static str {
    match reason {
        "output_too_large" => "redact",
        "engine_panic" => "judge",
        _ => "decode",
    }
}

/// Metrics are doubles; above 2^53 the last digits do not matter.
#[expect(clippy::cast_precision_loss, reason = "a metric's value is a double")]
pub fn float(n: u64) -> f64 {
    n as f64
}

/// `docs/metrics.md`.
pub fn reference() -> String {
    let mut out = String::from(
        "# Metrics\n\nGenerated from the table in `src/runtime/telemetry.rs`; `UPDATE=1 cargo test` rewrites it. All names \
         begin with `sluicegate_`. An open label takes as many values as its bound; the rest counts as `_other`.\n\n\
         | metric | kind | labels (bound) | most series | meaning |\n|---|---|---|---:|---|\n",
    );
    for m in METRICS {
        let labels: Vec<String> = m.labels.iter().map(|l| format!("`{}` ({})", l.name, l.bound)).collect();
        let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
        let combinations: usize =
            m.labels.iter().map(|l| if l.values.is_empty() { l.bound + 1 } else { l.bound }).product();
        let series = combinations * if m.kind == Kind::Histogram { m.buckets.len() + 3 } else { 1 };
        let kind = format!("{:?}", m.kind).to_lowercase();
        let _ = writeln!(out, "| `{}` | {kind} | {labels} | {series} | {} |", m.name, m.help);
    }
    out.push_str("\n## Values of closed labels\n\n| label | values |\n|---|---|\n");
    let closed: BTreeSet<(&str, Vec<&str>)> = METRICS
        .iter()
        .flat_map(|m| m.labels)
        .filter(|l| !l.values.is_empty())
        .map(|l| (l.name, l.values.to_vec()))
        .collect();
    for (name, values) in closed {
        let _ = writeln!(out, "| `{name}` | {} |", values.join(", "));
    }
    out
}
