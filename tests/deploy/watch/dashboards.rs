//! What the three dashboards show: the promise, the enforcement, the pipeline.

use sluicegate::runtime::telemetry::{Metric, table as m};

use super::expr::{Expr, RANGE, RATE, Series, panel};
use super::grafana::{Dashboard, Draw, Panel};
use super::slo;

pub fn all() -> [Dashboard; 3] {
    [overview(), enforcement(), pipeline()]
}

fn lines(title: &'static str, unit: &'static str, says: &'static str) -> Panel {
    Panel::new(Draw::Lines, title, unit, says)
}
fn stack(title: &'static str, unit: &'static str, says: &'static str) -> Panel {
    Panel::new(Draw::Stack, title, unit, says)
}
fn stat(title: &'static str, unit: &'static str, says: &'static str) -> Panel {
    Panel::new(Draw::Stat, title, unit, says)
}
fn bars(title: &'static str, says: &'static str) -> Panel {
    Panel::new(Draw::Bars, title, "short", says)
}
fn rows(title: &'static str, says: &'static str) -> Panel {
    Panel::new(Draw::Table, title, "short", says)
}

/// What the variable `fleet` chose.
fn fleet(metric: &'static Metric) -> Series {
    panel(metric).of_fleet()
}
fn per_second(metric: &'static Metric, by: &[&'static str]) -> Expr {
    fleet(metric).rate(RATE).sum(by)
}
fn in_range(series: Series, by: &[&'static str]) -> Expr {
    series.increase(RANGE).sum(by)
}
/// Those of which there were some.
fn some_in_range(series: Series, by: &[&'static str]) -> Expr {
    in_range(series, by).above(0.5)
}
fn p(q: f64, metric: &'static Metric, by: &[&'static str]) -> Expr {
    panel(metric).rate(RATE).quantile(q, by)
}

fn overview() -> Dashboard {
    let all = |metric, by: &[&'static str]| panel(metric).rate(RATE).sum(by);
    let ready = panel(&m::health).now().min(&["instance"]).sum(&[]);
    let blocked = panel(&m::verdicts).is("action", "block").rate(RATE).sum(&["fleet"]);
    Dashboard {
        file: "1-overview",
        uid: "sluicegate-overview",
        title: "Sluicegate / Overview",
        says: "Is the promise kept, what is enforced, does it keep up?",
        rows: vec![
            (
                "Is the promise kept?",
                vec![
                    stat(
                        "Verdicts in time (28 d)",
                        "percentunit",
                        "Tool results whose verdict was committed within 1 s of the record's timestamp. Objective: 99.9 %.",
                    )
                    .limits(0.9995, slo::OBJECTIVE)
                    .shows(slo::in_time(panel, "28d"), ""),
                    stat(
                        "Error budget burn (1 h)",
                        "none",
                        "1: the budget of 30 days is used up in 30 days. 14.4: two percent of it went in this hour.",
                    )
                    .limits(1.0, 14.4)
                    .shows(slo::late(panel, "1h").by(slo::BUDGET), ""),
                    stat("Longest wait", "s", "Age of the last record read, of the partition furthest behind; 0: all is read.")
                        .limits(5.0, 60.0)
                        .shows(panel(&m::consumer_lag_seconds).now().max(&[]), ""),
                    stat("Instances ready", "none", "Instances whose checks all pass, as /readyz says.")
                        .shows(ready, ""),
                    stat("Not done, in range", "short", "Verdicts that ask for a block or a redaction which was not done: policies in monitor mode.")
                        .limits(1.0, 1e9)
                        .shows(in_range(panel(&m::verdicts).not("decision", "allow").is("action", "allow"), &[]).or_zero(), ""),
                    stat("Bypasses, in range", "short", "Times that a host acted against a verdict, or did not wait for it.")
                        .limits(1.0, 10.0)
                        .shows(in_range(panel(&m::bypasses), &[]).or_zero(), ""),
                ],
            ),
            (
                "Does enforcement work?",
                vec![
                    stat("Canary blocked (5 min)", "short", "Hostile results that instances sent to themselves and saw blocked. 0 with a canary: look.")
                        .sized(5, 4)
                        .shows(panel(&m::canary_verdicts).is("result", "blocked").increase("5m").sum(&[]), ""),
                    stat("Canary not blocked, in range", "short", "Rounds that ended otherwise: observed, passed, or without a verdict.")
                        .sized(5, 4)
                        .limits(1.0, 10.0)
                        .shows(in_range(panel(&m::canary_verdicts).not("result", "blocked"), &[]), ""),
                    stat("Break-glass", "none", "Instances on which enforcement is turned into monitoring for a while.")
                        .sized(5, 4)
                        .limits(1.0, 1.0)
                        .shows(panel(&m::break_glass_active).now().sum(&[]), ""),
                    stat("Configuration refused", "none", "Instances whose files say something else than what holds.")
                        .sized(5, 4)
                        .limits(1.0, 1.0)
                        .shows(panel(&m::config_last_reload_successful).now().minus_from_one().sum(&[]), ""),
                    stat("Configuration loaded", "s", "How long ago the last of the instances loaded what holds.")
                        .sized(4, 4)
                        .shows(panel(&m::config_last_reload).now().max(&[]).ago(), ""),
                ],
            ),
            (
                "What is enforced?",
                vec![
                    stack("Verdicts by action", "ops", "What was done with calls, results and requests.")
                        .shows(all(&m::verdicts, &["action"]), "{{action}}"),
                    lines("Share of blocked verdicts, by fleet", "percentunit", "The ten fleets with the highest share.")
                        .shows(blocked.per(all(&m::verdicts, &["fleet"])).top(10), "{{fleet}}"),
                    stack("Oversize results by action", "ops", "Tool results over the byte cap: cut (redact), blocked, or only observed (allow).")
                        .shows(all(&m::oversize_results, &["action"]), "{{action}}"),
                    rows("Policies in force", "Instances by policy bundle. More than one row outside of a rollout: they judge differently.")
                        .sized(12, 5)
                        .shows(panel(&m::config_info).now().count(&["policy_bundle", "policy_sha256"]), ""),
                    rows("Versions that run", "Instances by version.")
                        .sized(12, 5)
                        .shows(panel(&m::build_info).now().count(&["version", "revision", "librdkafka"]), ""),
                ],
            ),
            (
                "Does it keep up?",
                vec![
                    lines("Records in and out", "ops", "Read from the input topics, and committed to the outputs.")
                        .shows(all(&m::records_consumed, &["topic"]), "in {{topic}}")
                        .shows(all(&m::records_produced, &["topic"]), "out {{topic}}"),
                    lines("Lag, records", "short", "Records that wait, by topic.")
                        .shows(panel(&m::consumer_lag_records).now().sum(&["topic"]), "{{topic}}"),
                    lines("Lag, seconds", "s", "The partition furthest behind, by topic.")
                        .shows(panel(&m::consumer_lag_seconds).now().max(&["topic"]), "{{topic}}"),
                    lines("Record to verdict", "s", "From the record's timestamp to the commit of its verdict.")
                        .sized(16, 7)
                        .shows(p(0.5, &m::end_to_end_latency, &["lane"]), "p50 {{lane}}")
                        .shows(p(0.99, &m::end_to_end_latency, &["lane"]), "p99 {{lane}}"),
                    lines("Failing checks", "none", "Instances that fail a check of /readyz.")
                        .shows(panel(&m::health).now().minus_from_one().sum(&["check"]), "{{check}}"),
                ],
            ),
        ],
    }
}

fn enforcement() -> Dashboard {
    let decided = fleet(&m::verdicts).not("decision", "allow");
    Dashboard {
        file: "2-enforcement",
        uid: "sluicegate-enforcement",
        title: "Sluicegate / Enforcement",
        says: "What is blocked and cut, what would be, and what hosts do about it.",
        rows: vec![
            (
                "Blocks and oversize results",
                vec![
                    stat("Blocked, in range", "short", "Tool calls, results and requests that were blocked.")
                        .shows(in_range(fleet(&m::blocks), &[]).or_zero(), ""),
                    stat("Oversize, in range", "short", "Tool results over the byte cap.")
                        .shows(in_range(fleet(&m::oversize_results), &[]).or_zero(), ""),
                    stat("Bytes left out, in range", "bytes", "What was cut from results over the cap.")
                        .shows(in_range(fleet(&m::oversize_bytes_removed), &[]).or_zero(), ""),
                    stat("Would be, in range", "short", "Verdicts that ask for a block or a redaction.")
                        .shows(in_range(decided.clone(), &[]).or_zero(), ""),
                    stat("Was, in range", "short", "Verdicts whose block or redaction was done.")
                        .shows(in_range(fleet(&m::verdicts).not("action", "allow"), &[]).or_zero(), ""),
                    stat(
                        "Bypassed, in range",
                        "short",
                        "Times that a host acted against a verdict, or did not wait for it.",
                    )
                    .limits(1.0, 10.0)
                    .shows(in_range(fleet(&m::bypasses), &[]).or_zero(), ""),
                    stack(
                        "Blocks by policy",
                        "ops",
                        "By the first policy that blocks; SG00 is the engine itself: limits, and what cannot be read.",
                    )
                    .shows(per_second(&m::blocks, &["policy"]), "{{policy}}"),
                    stack("Blocks by fleet", "ops", "The fifteen fleets with most blocks.")
                        .shows(per_second(&m::blocks, &["fleet"]).top(15), "{{fleet}}"),
                    stack("Oversize results by fleet", "ops", "The fifteen fleets with most results over the cap.")
                        .shows(per_second(&m::oversize_results, &["fleet"]).top(15), "{{fleet}}"),
                ],
            ),
            (
                "Would be, beside was",
                vec![
                    stack(
                        "Decision: what policies ask for",
                        "ops",
                        "The decision of each verdict, monitor mode included.",
                    )
                    .shows(per_second(&m::verdicts, &["decision"]), "{{decision}}"),
                    stack(
                        "Action: what was done",
                        "ops",
                        "The action of each verdict. Equal to the left: all is enforced.",
                    )
                    .shows(per_second(&m::verdicts, &["action"]), "{{action}}"),
                    rows(
                        "Decision and action, in range",
                        "Verdicts by both; a row in which they differ is monitor mode at work.",
                    )
                    .shows(in_range(fleet(&m::verdicts), &["decision", "action"]), ""),
                    bars(
                        "Findings by policy, in range",
                        "Findings of enforced policies, and of those in monitor mode.",
                    )
                    .sized(8, 9)
                    .shows(some_in_range(panel(&m::findings), &["policy", "mode"]), "{{policy}} {{mode}}"),
                    stack(
                        "Places changed, by policy",
                        "ops",
                        "What policies replaced, cut, fenced or marked in published copies; blocks aside.",
                    )
                    .sized(8, 9)
                    .shows(per_second(&m::redactions, &["policy"]), "{{policy}}"),
                    lines("Findings by severity", "ops", "All policies.")
                        .sized(8, 9)
                        .shows(per_second(&m::findings, &["severity"]), "{{severity}}"),
                ],
            ),
            (
                "Tool results",
                vec![
                    Panel::new(
                        Draw::Heat,
                        "Size of tool results",
                        "bytes",
                        "Before policies; how many fell into each bucket.",
                    )
                    .shows(panel(&m::result_size).increase(RATE).sum(&["le"]), "{{le}}"),
                    lines("Size of tool results, p95", "bytes", "By provider.")
                        .shows(p(0.95, &m::result_size, &["provider"]), "{{provider}}"),
                    lines("Bytes left out", "Bps", "Cut from results over the cap.")
                        .shows(per_second(&m::oversize_bytes_removed, &["fleet"]), "{{fleet}}"),
                ],
            ),
            (
                "Hosts and servers",
                vec![
                    lines(
                        "Bypasses by kind",
                        "ops",
                        "Calls run although blocked or before their verdict, withheld results handed on.",
                    )
                    .shows(per_second(&m::bypasses, &["kind"]), "{{kind}}"),
                    bars("Bypasses by fleet, in range", "Whose hosts they are.")
                        .shows(some_in_range(fleet(&m::bypasses), &["fleet", "kind"]), "{{fleet}} {{kind}}"),
                    lines(
                        "Tool descriptions that changed",
                        "ops",
                        "Definitions, or instructions of servers, that are not the pinned ones.",
                    )
                    .shows(per_second(&m::tool_description_changes, &["fleet"]), "{{fleet}}"),
                ],
            ),
            (
                "What was seen, and what was not",
                vec![
                    stack("Events by type", "ops", "What agents reported.")
                        .shows(per_second(&m::events, &["event_type"]), "{{event_type}}"),
                    stack("Events by provider", "ops", "Wire formats.")
                        .shows(per_second(&m::events, &["provider"]), "{{provider}}"),
                    bars("Parts passed uninspected, in range", "By provider and wire type.")
                        .shows(some_in_range(panel(&m::opaque), &["provider", "kind"]), "{{provider}} {{kind}}"),
                    stack("Argument streams by outcome", "ops", "final, or why they were cut.")
                        .shows(per_second(&m::assemblies, &["outcome"]), "{{outcome}}"),
                    lines("Fragments per argument stream", "short", "p50 and p95.")
                        .shows(p(0.5, &m::assembly_fragments, &[]), "p50")
                        .shows(p(0.95, &m::assembly_fragments, &[]), "p95"),
                    lines(
                        "Data that is not JSON",
                        "ops",
                        "Events whose envelope could be read and whose data could not; open calls are cut.",
                    )
                    .shows(per_second(&m::undecodable, &["provider"]), "{{provider}}"),
                ],
            ),
        ],
    }
}

fn pipeline() -> Dashboard {
    let all = |metric, by: &[&'static str]| panel(metric).rate(RATE).sum(by);
    let now = |metric, by: &[&'static str]| panel(metric).now().sum(by);
    let time = |by: &[&'static str]| panel(&m::stage_duration).sums().rate(RATE).sum(by);
    Dashboard {
        file: "3-pipeline",
        uid: "sluicegate-pipeline",
        title: "Sluicegate / Pipeline",
        says: "Consumer group, transactions, state, records, process.",
        rows: vec![
            (
                "Consumer group",
                vec![
                    stack("Assigned partitions", "short", "By instance; the sum is the number of input partitions.")
                        .shows(now(&m::assigned_partitions, &["instance"]), "{{instance}}"),
                    lines("Lag by partition", "short", "Records that wait.")
                        .shows(now(&m::consumer_lag_records, &["topic", "partition"]), "{{topic}}/{{partition}}"),
                    lines("Lag by instance, seconds", "s", "The partition furthest behind.")
                        .shows(panel(&m::consumer_lag_seconds).now().max(&["instance"]), "{{instance}}"),
                    lines("Paused partitions", "short", "Restoring their state, or without outputs of the same width.")
                        .shows(now(&m::partitions_paused, &["reason"]), "{{reason}}"),
                    lines("Rebalances", "short", "In each step.").shows(
                        panel(&m::rebalances).increase(RATE).sum(&["instance", "event"]),
                        "{{instance}} {{event}}",
                    ),
                    lines(
                        "Age of the last poll",
                        "s",
                        "The slowest worker's loop; it stands still while it waits for a broker.",
                    )
                    .limits(10.0, 60.0)
                    .shows(panel(&m::poll_age).now().max(&["instance"]), "{{instance}}"),
                    lines("Input partitions", "short", "As brokers tell them, and those that have an owner.")
                        .sized(12, 7)
                        .shows(panel(&m::topic_partitions).now().max(&["topic"]), "{{topic}}")
                        .shows(now(&m::assigned_partitions, &["topic"]), "{{topic}} assigned"),
                    lines("Stalled partitions", "short", "Records wait, and none was committed for 30 s.")
                        .sized(12, 7)
                        .shows(now(&m::stalled_partitions, &["instance"]), "{{instance}}"),
                ],
            ),
            (
                "Transactions",
                vec![
                    stack(
                        "Transactions by outcome",
                        "ops",
                        "abandoned: the end stayed unknown and the committed offsets decided.",
                    )
                    .shows(all(&m::transactions, &["outcome"]), "{{outcome}}"),
                    lines("Time to end a transaction", "s", "Commit or abort.")
                        .shows(p(0.5, &m::transaction_duration, &[]), "p50")
                        .shows(p(0.99, &m::transaction_duration, &[]), "p99"),
                    lines("Oldest open transaction", "s", "It holds back every read_committed reader of the outputs.")
                        .limits(5.0, 10.0)
                        .shows(panel(&m::transaction_open).now().max(&["instance"]), "{{instance}}"),
                    lines("Records per transaction", "short", "p50 and p99.")
                        .shows(p(0.5, &m::transaction_records, &[]), "p50")
                        .shows(p(0.99, &m::transaction_records, &[]), "p99"),
                    lines("Commits not confirmed", "ops", "By cause.")
                        .shows(all(&m::transaction_aborts, &["cause"]), "{{cause}}"),
                    bars("Producers rebuilt, in range", "By reason.").shows(
                        some_in_range(panel(&m::producer_rebuilds), &["instance", "reason"]),
                        "{{instance}} {{reason}}",
                    ),
                ],
            ),
            (
                "State",
                vec![
                    stack("Conversations held", "short", "By instance.")
                        .shows(now(&m::conversations_open, &["instance"]), "{{instance}}"),
                    stack("Bytes of state", "bytes", "Estimated, in memory.")
                        .shows(now(&m::state_bytes, &["instance"]), "{{instance}}"),
                    stack("Argument streams open", "short", "Being reassembled.")
                        .shows(now(&m::assemblies_open, &["instance"]), "{{instance}}"),
                    lines(
                        "Conversations dropped",
                        "ops",
                        "ttl: idle for too long. size: the partition's state was full.",
                    )
                    .shows(all(&m::state_evictions, &["reason"]), "{{reason}}"),
                    lines("Restore: records left", "short", "Changelog records before the instance judges.")
                        .shows(now(&m::restore_remaining, &["instance"]), "{{instance}}"),
                    bars("Partitions restored, in range", "By instance.")
                        .shows(some_in_range(panel(&m::restore_duration).counts(), &["instance"]), "{{instance}}"),
                    lines("Restore: records read", "ops", "Changelog records that were read back.")
                        .sized(12, 7)
                        .shows(all(&m::restored_records, &["instance"]), "{{instance}}"),
                    stack("Calls without a result", "short", "Held in state; a client may run them, or runs them.")
                        .sized(12, 7)
                        .shows(now(&m::unanswered_calls, &["instance"]), "{{instance}}"),
                ],
            ),
            (
                "Records",
                vec![
                    stack("Records by outcome", "ops", "judged, passed without anything to judge, rejected.")
                        .shows(all(&m::record_outcomes, &["outcome"]), "{{outcome}}"),
                    lines("Bytes in and out", "Bps", "Keys and values.")
                        .shows(all(&m::record_bytes_consumed, &["topic"]), "in {{topic}}")
                        .shows(all(&m::record_bytes_produced, &["topic"]), "out {{topic}}"),
                    lines("Dead letters", "ops", "By stage and reason.")
                        .shows(all(&m::dlq_records, &["stage", "reason"]), "{{stage}} {{reason}}"),
                    bars("Records not decoded, in range", "By topic and reason.")
                        .shows(some_in_range(panel(&m::decode_failures), &["topic", "reason"]), "{{topic}} {{reason}}"),
                    bars("Labels folded into _other, in range", "Values beyond a label's bound.")
                        .shows(some_in_range(panel(&m::label_overflow), &["label"]), "{{label}}"),
                ],
            ),
            (
                "Process",
                vec![
                    lines(
                        "Share of time by stage",
                        "percentunit",
                        "The engine's step on records, and the end of transactions.",
                    )
                    .shows(time(&["stage"]).per(time(&[])), "{{stage}}"),
                    lines("One record in the engine", "s", "p50 and p99 of a step.")
                        .shows(panel(&m::stage_duration).is("stage", "step").rate(RATE).quantile(0.5, &[]), "p50")
                        .shows(panel(&m::stage_duration).is("stage", "step").rate(RATE).quantile(0.99, &[]), "p99"),
                    stack(
                        "Configuration read again",
                        "short",
                        "Files that differed: applied, or rejected and the last good ones kept.",
                    )
                    .shows(panel(&m::config_reloads).increase(RATE).sum(&["result"]), "{{result}}"),
                    lines("Canary by result", "ops", "Anything but blocked needs a look.")
                        .shows(all(&m::canary_verdicts, &["result"]), "{{result}}"),
                    lines("Log lines left out", "ops", "Places that wrote more than 50 lines in 10 s.")
                        .shows(all(&m::log_events_suppressed, &["instance"]), "{{instance}}"),
                    lines("Connected brokers", "none", "Of several workers the fewest.")
                        .shows(panel(&m::connected_brokers).now().min(&["instance"]), "{{instance}}"),
                    lines(
                        "Round trip to brokers, p99",
                        "s",
                        "What producers ask of a broker; nothing: they asked nothing.",
                    )
                    .shows(panel(&m::broker_rtt).now().max(&["broker"]), "broker {{broker}}"),
                    stack(
                        "Bytes inside Kafka clients",
                        "bytes",
                        "Fetched and not read yet; written and not acknowledged yet.",
                    )
                    .shows(now(&m::queue_bytes, &["client"]), "{{client}}"),
                    Panel::new(
                        Draw::Bars,
                        "Days until certificates end",
                        "d",
                        "Of the files that instances were started with.",
                    )
                    .shows(panel(&m::certificate_expiry).now().min(&["role"]).left().by(86_400.0), "{{role}}"),
                ],
            ),
        ],
    }
}
