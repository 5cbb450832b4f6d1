//! The Kafka adapter: client settings, and what an error of the client means.
//!
//! [`source`] reads as a member of the group, [`ledger`] writes in transactions, [`topics`] checks and creates
//! topics. One consumer and one producer belong to one worker thread. Not used: `StreamConsumer` and split
//! partition queues, whose lost wake-ups stall for ever; the consumer's stored offsets; automatic anything.

pub mod certificates;
mod figures;
pub mod follow;
pub mod ledger;
mod outage;
pub mod probe;
pub mod source;
pub mod tap;
pub mod topics;
pub mod whole;

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::port::Clock;
use super::settings::Settings;

/// Why the client does not take a property, in its own words.
pub fn refused(name: &str, value: &str) -> Option<String> {
    let error = ClientConfig::new().set(name, value).create_native_config().err()?;
    match error {
        KafkaError::ClientConfig(_, why, ..) => Some(why),
        error => Some(error.to_string()),
    }
}

/// What all clients share.
pub fn client(settings: &Settings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("client.id", format!("sluicegate-{}", settings.instance));
    config.set("topic.metadata.refresh.interval.ms", millis(settings.metadata_refresh));
    config.set("socket.keepalive.enable", "true");
    config.set("reconnect.backoff.max.ms", "2000");
    for (key, value) in &settings.properties {
        config.set(key, value);
    }
    config.set("bootstrap.servers", &settings.bootstrap);
    config.set("allow.auto.create.topics", "false");
    config.set("socket.timeout.ms", millis(settings.transaction_timeout.min(Duration::from_secs(10))));
    config
}

/// A consumer's queues follow from the largest record: four of them, at least 16 MiB.
pub fn reader(settings: &Settings) -> ClientConfig {
    let mut config = client(settings);
    let queue = (settings.sizes.record / 1024 * 4).max(16 << 10);
    let defaults = [
        ("fetch.wait.max.ms", "100".to_owned()),
        ("fetch.queue.backoff.ms", "20".to_owned()),
        ("queued.max.messages.kbytes", queue.to_string()),
        ("fetch.max.bytes", (queue << 10).to_string()),
        ("receive.message.max.bytes", ((queue << 10) + settings.sizes.output + (1 << 20)).to_string()),
    ];
    for (key, value) in defaults {
        if !settings.properties.contains_key(key) {
            config.set(key, value);
        }
    }
    config.set("statistics.interval.ms", "2000");
    config.set("group.id", &settings.group);
    config.set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false");
    config.set("isolation.level", "read_committed");
    config.set("enable.partition.eof", "true");
    config.set("auto.offset.reset", "error");
    config
}

/// The group member of one worker.
pub fn member(settings: &Settings, worker: u32) -> ClientConfig {
    let mut config = reader(settings);
    config.set("group.protocol", "classic");
    config.set("partition.assignment.strategy", "cooperative-sticky");
    config.set("session.timeout.ms", millis(settings.session_timeout));
    if !settings.properties.contains_key("heartbeat.interval.ms") {
        config.set("heartbeat.interval.ms", millis((settings.session_timeout / 5).min(Duration::from_secs(3))));
    }
    if settings.static_membership {
        config.set("group.instance.id", format!("{}-{worker}", settings.instance));
    }
    config
}

/// The transactional producer of one worker.
pub fn producer(settings: &Settings, worker: u32) -> ClientConfig {
    let mut config = client(settings);
    let queue = (settings.sizes.batch + settings.sizes.output * 2) / 1024;
    let defaults = [
        ("linger.ms", "5".to_owned()),
        ("batch.size", "1000000".to_owned()),
        ("compression.type", "lz4".to_owned()),
        ("queue.buffering.max.kbytes", queue.to_string()),
        ("queue.buffering.max.messages", "1000000".to_owned()),
    ];
    for (key, value) in defaults {
        if !settings.properties.contains_key(key) {
            config.set(key, value);
        }
    }
    config.set("statistics.interval.ms", millis(figures::EVERY));
    config.set("transactional.id", settings.transactional_id(worker));
    config.set("transaction.timeout.ms", millis(settings.transaction_timeout));
    config.set("message.timeout.ms", millis(settings.transaction_timeout));
    config.set("message.max.bytes", (settings.sizes.output + (64 << 10)).to_string());
    config
}

fn millis(d: Duration) -> String {
    d.as_millis().to_string()
}

/// True for what tells that an answer may have been lost on the way.
pub(crate) fn is_transport(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::MessageTimedOut
            | Code::NetworkException
            | Code::Resolve
    )
}

/// True for what ends a client for good: another took its name, or it broke its own invariants.
pub(crate) fn is_fenced(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
}

/// True for what only an operator can repair.
pub(crate) fn is_denied(code: Code) -> bool {
    matches!(
        code,
        Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::UnsupportedSASLMechanism
            | Code::SSL
    )
}

/// The group moved on without this member.
pub(crate) fn is_generation(code: Code) -> bool {
    matches!(
        code,
        Code::IllegalGeneration
            | Code::UnknownMemberId
            | Code::RebalanceInProgress
            | Code::FencedInstanceId
            | Code::StaleMemberEpoch
            | Code::FencedMemberEpoch
    )
}

/// The client's log goes to ours: the facility and librdkafka's own text, which names brokers and topics only.
pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, text: &str) {
    let serious = match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => true,
        RDKafkaLogLevel::Warning => false,
        _ => return tracing::debug!(event = "kafka.client", facility, text),
    };
    let Some(repeated) = outage::due(facility) else {
        return tracing::debug!(event = "kafka.client", facility, text);
    };
    if serious {
        tracing::warn!(event = "kafka.client", facility, text, repeated);
    } else {
        tracing::info!(event = "kafka.client", facility, text, repeated);
    }
}

/// Errors of the client as a whole. The end of a partition comes this way too, and is none.
pub(crate) fn log_error(error: &KafkaError, reason: &str) {
    match error.rdkafka_error_code() {
        Some(Code::PartitionEOF) => {}
        Some(Code::AllBrokersDown) => outage::down(reason),
        code => match outage::due(&format!("{code:?}")) {
            Some(repeated) => tracing::info!(event = "kafka.error", error = %error, reason, repeated),
            None => tracing::debug!(event = "kafka.error", error = %error, reason),
        },
    }
}

/// How long a client may be without any broker before it is given up for a new one.
///
/// librdkafka 2.12.1 can lose its last broker for good: one that metadata lacks for a moment (the only broker, fenced
/// after a stall; all but the first that come back after an outage) is struck off, is never done with while something
/// still refers to it, and is nevertheless the one that is chosen for the next connection. A new client knows the
/// bootstrap addresses only. While brokers are really away it is as well off as the old one was, and the group has
/// given up the member by then.
pub(crate) fn patience(settings: &Settings) -> Duration {
    settings.session_timeout.max(Duration::from_secs(10))
}

/// Says that a client was given up.
pub(crate) fn replaced(client: &'static str, without: Duration) {
    tracing::warn!(event = "kafka.client_replaced", client, seconds = without.as_secs());
}

/// Ends a client on a thread of its own: whether one without brokers can be ended soon is not known.
pub(crate) fn retire(client: impl Send + 'static) {
    // Without a thread it is ended here.
    let _ = std::thread::Builder::new().name("retired".into()).spawn(move || drop(client));
}

/// A context that only logs.
pub(crate) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log(level, facility, text);
    }
    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl rdkafka::consumer::ConsumerContext for Quiet {}

/// The machine's clocks.
pub struct SystemClock(Instant);

impl SystemClock {
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
    fn wall(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
