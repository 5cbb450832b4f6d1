//! Two instances on a good day, with the small faults that every day has.

use sluicegate::runtime::telemetry::table as m;

use super::case::{raw, sample};

const B: (&str, &str) = ("instance", "b:9464");
const TOPIC: (&str, &str) = ("topic", "agent.events");
const FLEET: (&str, &str) = ("fleet", "support");
const ANTHROPIC: (&str, &str) = ("provider", "anthropic.messages");

pub fn series() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for instance in [("instance", "a:9464"), B] {
        let of = |metric, part, labels: &[(&str, &str)], values| {
            sample(metric, part, &[labels, &[instance]].concat(), values)
        };
        let verdicts = |decision, action, values| {
            of(&m::verdicts, "", &[FLEET, ANTHROPIC, ("decision", decision), ("action", action)], values)
        };
        all.extend([
            raw("up", &[instance, ("job", "sluicegate")], "1x200"),
            of(&m::build_info, "", &[("version", "0.1.0"), ("revision", "r"), ("librdkafka", "2")], "1x200"),
            of(&m::config_info, "", &[("policy_bundle", "b"), ("policy_sha256", "aa")], "1x200"),
            of(&m::records_consumed, "", &[TOPIC], "0+6000x200"),
            of(&m::end_to_end_latency, "_count", &[("lane", "result")], "0+10000x200"),
            of(&m::end_to_end_latency, "_bucket", &[("lane", "result"), ("le", "1")], "0+9996x200"),
            of(&m::consumer_lag_seconds, "", &[TOPIC], "0 0 1 0x200"),
            of(&m::assigned_partitions, "", &[TOPIC], "1x200"),
            of(&m::topic_partitions, "", &[TOPIC], "2x200"),
            of(&m::stalled_partitions, "", &[TOPIC], "0x60 1 0x140"),
            of(&m::certificate_expiry, "", &[("role", "kafka_ca")], "31536000x200"),
            of(&m::connected_brokers, "", &[], "3x60 2x10 3x130"),
            of(&m::poll_age, "", &[], "0.05x200"),
            of(&m::transaction_open, "", &[], "0.02x200"),
            of(&m::restore_remaining, "", &[], "4000 0x200"),
            of(&m::partitions_paused, "", &[("reason", "output_partitions")], "0x200"),
            of(&m::partitions_paused, "", &[("reason", "restore")], "1 0x200"),
            of(&m::transactions, "", &[("outcome", "committed")], "0+600x200"),
            of(&m::transactions, "", &[("outcome", "aborted")], "0+1x200"),
            of(&m::rebalances, "", &[("event", "assign")], "1x60 2x140"),
            of(&m::rebalances, "", &[("event", "revoke")], "0x60 1x140"),
            of(&m::dlq_records, "", &[("stage", "decode"), ("reason", "invalid_json")], "0x50 1x150"),
            of(&m::state_evictions, "", &[("reason", "ttl")], "0+5x200"),
            of(&m::assemblies, "", &[ANTHROPIC, ("outcome", "final")], "0+900x200"),
            of(&m::assemblies, "", &[ANTHROPIC, ("outcome", "max_tokens")], "0+40x200"),
            of(&m::assemblies, "", &[ANTHROPIC, ("outcome", "expired")], "0+2x200"),
            of(&m::oversize_results, "", &[FLEET, ANTHROPIC, ("action", "redact")], "0+10x200"),
            of(&m::blocks, "", &[FLEET, ("policy", "SG08")], "0+20x200"),
            of(&m::canary_verdicts, "", &[("result", "blocked")], "0+1x200"),
            of(&m::canary_verdicts, "", &[("result", "missing")], "0x60 1x140"),
            of(&m::break_glass_active, "", &[], "0x200"),
            of(&m::config_last_reload_successful, "", &[], "1x200"),
            of(&m::config_reloads, "", &[("result", "applied")], "0x30 1x170"),
            of(&m::config_reloads, "", &[("result", "rejected")], "0x200"),
            verdicts("allow", "allow", "0+2000x200"),
            verdicts("redact", "redact", "0+30x200"),
            verdicts("block", "block", "0+20x200"),
        ]);
        for check in m::health.labels[0].values {
            all.push(of(&m::health, "", &[("check", check)], "1x60 0 1x140"));
        }
    }
    all.push(sample(&m::consumer_lag_records, "", &[TOPIC, ("partition", "0")], "0 40 0x200"));
    all.push(sample(&m::consumer_lag_records, "", &[TOPIC, ("partition", "1"), B], "0 20 0x200"));
    all
}
