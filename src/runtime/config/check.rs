//! What cannot hold although every value has the right type: each problem names path, value and limit.

use super::properties::denied;
use super::{Config, Need, placed, plain_name, problem, reason};
use crate::engine::policy::sets_nothing;
use crate::engine::{Engine, Problem};
use crate::runtime::canary;
use crate::runtime::kafka::refused;
use crate::runtime::settings::state_topic;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// How far ahead `break_glass.until` may lie.
const MOST_BREAK_GLASS: Duration = Duration::from_secs(24 * 3600);

impl Config {
    /// What cannot hold although every value has the right type.
    pub(super) fn check(&self, need: Need) -> Vec<Problem> {
        let mut p = Vec::new();
        self.check_kafka(need, &mut p);
        self.check_worker(&mut p);
        self.check_limits(&mut p);
        if !self.http.listen.is_empty() && self.http.listen.parse::<std::net::SocketAddr>().is_err() {
            p.push(problem(
                "http.listen",
                format!("{:?}: must be address:port, such as 0.0.0.0:9464, or empty", self.http.listen),
            ));
        }
        if !is_level(&self.log.level) {
            p.push(problem(
                "log.level",
                format!(
                    "{:?}: must be error, warn, info, debug, trace, or directives such as info,sluicegate=debug",
                    self.log.level
                ),
            ));
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(600)).contains(&self.reload.interval.0) {
            p.push(problem("reload.interval", format!("{}: must be 100ms to 10m", self.reload.interval)));
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.canary.interval.0) {
            p.push(problem("canary.interval", format!("{}: must be 1s to 1h", self.canary.interval)));
        }
        self.check_break_glass(&mut p);
        // A key that cannot be read hides no problem of the policies.
        if let Err(problems) = Engine::new(self.engine_settings_with([0; 32], "", None)) {
            p.extend(problems.into_iter().map(placed));
        }
        let blank = self.policy.policies.iter().filter(|(code, own)| sets_nothing(code, own));
        p.extend(blank.map(|(code, _)| {
            problem(&format!("policy.policies.{code}"), "sets nothing: give it mode, rules or options")
        }));
        if self.fleets.len() > 32 {
            p.push(problem("fleets", format!("{} names: at most 32 become labels", self.fleets.len())));
        }
        for (name, trust) in &self.fleets {
            if name == canary::FLEET {
                p.push(problem(&format!("fleets.{name}"), "reserved for the canary: choose another name"));
            }
            let inputs = &self.kafka.inputs;
            if !inputs.is_empty() && !inputs.iter().any(|topic| trust.of_topic(topic)) {
                p.push(problem(
                    &format!("fleets.{name}.topics"),
                    format!("{:?}: none of kafka.inputs ({}) is among them", trust.topics, inputs.join(", ")),
                ));
            }
            if !plain_name(name, 128) {
                p.push(problem(
                    "fleets",
                    format!("{name:?}: must be at most 128 letters, digits, dots, underscores, hyphens"),
                ));
            }
        }
        p
    }

    /// Whoever opens it says until when, who and why.
    fn check_break_glass(&self, p: &mut Vec<Problem>) {
        let b = &self.break_glass;
        let set = [("until", &b.until), ("by", &b.by), ("reason", &b.reason)];
        if set.iter().all(|(_, value)| value.is_none()) {
            return;
        }
        for (name, value) in set {
            if value.as_ref().is_none_or(|value| value.trim().is_empty()) {
                p.push(problem(&format!("break_glass.{name}"), "missing: until, by and reason belong together"));
            }
        }
        let Some(text) = &b.until else { return };
        match b.ends() {
            None => p.push(problem(
                "break_glass.until",
                format!("{text:?}: must be a time of RFC 3339, such as 2030-01-31T18:00:00Z"),
            )),
            Some(ends) if ends > SystemTime::now() + MOST_BREAK_GLASS => p.push(problem(
                "break_glass.until",
                format!("{text:?}: at most 24 hours ahead; move it on when that is not enough"),
            )),
            Some(_) => {}
        }
    }

    fn check_kafka(&self, need: Need, p: &mut Vec<Problem>) {
        let k = &self.kafka;
        if need != Need::Engine && k.bootstrap_servers.trim().is_empty() {
            p.push(problem("kafka.bootstrap_servers", "missing: set it to host:port of one or more brokers"));
        }
        if need != Need::Engine && k.inputs.is_empty() {
            p.push(problem("kafka.inputs", "missing: list the topics that agents publish to"));
        }
        if need == Need::Run && self.engine.fingerprint_key_file.is_none() {
            p.push(problem(
                "engine.fingerprint_key_file",
                "missing: make one with `head -c 32 /dev/urandom > fingerprint.key` and give all instances the same file",
            ));
        }
        let mut seen = BTreeSet::new();
        let outputs = [
            ("kafka.topics.verdicts", &k.topics.verdicts),
            ("kafka.topics.redacted", &k.topics.redacted),
            ("kafka.topics.deadletters", &k.topics.deadletters),
            ("kafka.topics.pin_sightings", &k.topics.pin_sightings),
            ("kafka.topics.pins", &k.topics.pins),
            ("kafka.topics.pins_audit", &k.topics.pins_audit),
        ];
        // Each input has a changelog, which is nobody else's topic.
        let states: BTreeSet<String> = k.inputs.iter().map(|input| state_topic(input)).collect();
        let inputs = k.inputs.iter().map(|t| ("kafka.inputs", t));
        for (path, topic) in inputs.chain(outputs) {
            if !plain_name(topic, 230) {
                p.push(problem(
                    path,
                    format!("{topic:?}: a topic is at most 230 letters, digits, dots, underscores, hyphens"),
                ));
            }
            if states.contains(topic) {
                p.push(problem(path, format!("{topic:?}: is the changelog of an input; choose another name")));
            }
            if !seen.insert(topic) {
                p.push(problem(path, format!("{topic:?}: named twice; inputs and outputs are different topics")));
            }
        }
        for broker in k.bootstrap_servers.split(',').filter(|_| !k.bootstrap_servers.trim().is_empty()) {
            let broker = broker.trim();
            // Without a port it is Kafka's own; an address of IPv6 has colons within its brackets.
            let (host, port) = match broker.rsplit_once(':') {
                Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().unwrap_or(0)),
                _ => (broker, 9092),
            };
            if host.is_empty() || host.contains('/') || port == 0 {
                p.push(problem(
                    "kafka.bootstrap_servers",
                    format!("{broker:?}: must be host:port, several with commas between them"),
                ));
            }
        }
        if k.instance.as_ref().is_some_and(|name| name.trim().is_empty()) {
            p.push(problem("kafka.instance", "empty: name this process, or leave it out for the host's name"));
        }
        for (name, value) in &k.properties {
            if denied(name).is_none()
                && let Some(why) = refused(name, value)
            {
                p.push(problem(&format!("kafka.properties.{name}"), why));
            }
        }
        if k.group.is_empty() || k.group.len() > 128 {
            p.push(problem("kafka.group", format!("{:?}: must have 1 to 128 bytes", k.group)));
        }
        if k.startup_timeout.0 < Duration::from_secs(1) {
            p.push(problem("kafka.startup_timeout", format!("{}: must be at least 1s", k.startup_timeout)));
        }
        if k.static_membership && k.instance.is_none() {
            p.push(problem(
                "kafka.instance",
                "missing: static_membership needs a name that survives a restart, such as a StatefulSet's pod name",
            ));
        }
        for (name, what) in [
            ("mechanism", k.sasl.mechanism.is_some()),
            ("username", k.sasl.username.is_some()),
            ("password_file", k.sasl.password_file.is_some()),
        ] {
            if k.security_protocol.sasl() && !what {
                p.push(problem(
                    &format!("kafka.sasl.{name}"),
                    format!("missing: security_protocol {} needs it", k.security_protocol.name()),
                ));
            }
            if !k.security_protocol.sasl() && what {
                p.push(problem(
                    &format!("kafka.sasl.{name}"),
                    format!(
                        "unused: security_protocol {} does not authenticate; set sasl_ssl or sasl_plaintext",
                        k.security_protocol.name()
                    ),
                ));
            }
        }
        if k.ca_file.is_some() && !k.security_protocol.tls() {
            p.push(problem(
                "kafka.ca_file",
                format!(
                    "unused: security_protocol {} does not encrypt; set ssl or sasl_ssl",
                    k.security_protocol.name()
                ),
            ));
        }
        for name in k.properties.keys() {
            if let Some(why) = denied(name) {
                p.push(problem(&format!("kafka.properties.{name}"), format!("not allowed: {why}")));
            }
        }
        for (path, file) in [("kafka.sasl.password_file", &k.sasl.password_file), ("kafka.ca_file", &k.ca_file)] {
            if let Some(file) = file
                && let Err(e) = std::fs::read(file)
            {
                p.push(problem(path, format!("{}: {}", file.display(), reason(&e))));
            }
        }
        if let Err(e) = self.fingerprint_key() {
            p.push(e);
        }
    }

    fn check_worker(&self, p: &mut Vec<Problem>) {
        let w = &self.worker;
        if !(1..=64).contains(&w.count) {
            p.push(problem("worker.count", format!("{}: must be 1 to 64", w.count)));
        }
        if w.commit_interval.0.is_zero() || w.commit_interval.0 > Duration::from_secs(10) {
            p.push(problem("worker.commit_interval", format!("{}: must be 1ms to 10s", w.commit_interval)));
        }
        if w.commit_min > w.commit_interval {
            p.push(problem(
                "worker.commit_min",
                format!("{}: must not exceed worker.commit_interval ({})", w.commit_min, w.commit_interval),
            ));
        }
        let (low, high) = (Duration::from_secs(1), Duration::from_secs(15 * 60));
        if w.transaction_timeout.0 < low
            || w.transaction_timeout.0 > high
            || w.transaction_timeout.0 < w.commit_interval.0 * 4
        {
            p.push(problem("worker.transaction_timeout", format!("{}: must be 1s to 15m (the brokers' transaction.max.timeout.ms) and at least four commit intervals", w.transaction_timeout)));
        }
        let session = self.kafka.session_timeout;
        if session.0 < Duration::from_secs(6) || session.0 > Duration::from_secs(30 * 60) {
            p.push(problem(
                "kafka.session_timeout",
                format!(
                    "{session}: must be 6s to 30m, as the brokers' group.min and group.max.session.timeout.ms allow"
                ),
            ));
        }
        let stale = self.pins.stale_after;
        if stale.0 < Duration::from_secs(5) || stale.0 > Duration::from_secs(3600) {
            p.push(problem("pins.stale_after", format!("{stale}: must be 5s to 1h")));
        }
        if w.drain_timeout > session {
            p.push(problem(
                "worker.drain_timeout",
                format!(
                    "{}: must not exceed kafka.session_timeout ({session}), or others take over what is being drained",
                    w.drain_timeout
                ),
            ));
        }
    }

    fn check_limits(&self, p: &mut Vec<Problem>) {
        let l = &self.engine.limits;
        let ranges: [(&str, u64, u64, u64); 13] = [
            ("record_bytes", l.record_bytes, 1 << 10, 64 << 20),
            ("call_bytes", l.call_bytes, 1 << 10, 64 << 20),
            ("output_bytes", l.output_bytes, 64 << 10, 256 << 20),
            ("verdict_bytes", l.verdict_bytes, 4 << 10, 900_000),
            ("redacted_record_bytes", l.redacted_record_bytes, 4 << 10, 64 << 20),
            ("deadletter_record_bytes", l.deadletter_record_bytes, 128 << 10, 64 << 20),
            ("open_calls_per_response", l.open_calls_per_response.into(), 1, 1 << 16),
            ("open_calls_per_conversation", l.open_calls_per_conversation.into(), 1, 1 << 16),
            ("history", l.history.into(), 1, 1 << 16),
            ("conversation_bytes", l.conversation_bytes, 64 << 10, 256 << 20),
            ("partition_bytes", l.partition_bytes, 1 << 20, 1 << 40),
            ("json_depth", l.json_depth.into(), 8, 512),
            ("json_nodes", l.json_nodes.into(), 1 << 10, 1 << 24),
        ];
        for (name, value, low, high) in ranges {
            if value < low || value > high {
                p.push(problem(&format!("engine.limits.{name}"), format!("{value}: must be {low} to {high}")));
            }
        }
        if l.conversation_bytes > l.partition_bytes {
            p.push(problem(
                "engine.limits.conversation_bytes",
                format!("{}: must not exceed partition_bytes ({})", l.conversation_bytes, l.partition_bytes),
            ));
        }
        if l.reorder_window_ms > 60_000 {
            p.push(problem(
                "engine.limits.reorder_window_ms",
                format!("{}: must be at most 60000", l.reorder_window_ms),
            ));
        }
        for (name, value) in [("call_ttl_ms", l.call_ttl_ms), ("conversation_ttl_ms", l.conversation_ttl_ms)] {
            if value < 1000 {
                p.push(problem(&format!("engine.limits.{name}"), format!("{value}: must be at least 1000")));
            }
        }
    }
}

/// Directives that the logger takes. It would read a mistyped level as a module's name, and log nothing.
fn is_level(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    text.split(',').all(|d| d.contains(['=', '[']) || LEVELS.contains(&d.trim().to_ascii_lowercase().as_str()))
        && tracing_subscriber::EnvFilter::try_new(text).is_ok()
}
