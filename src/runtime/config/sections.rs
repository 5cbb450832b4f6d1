//! The sections of the file, with their defaults. These structs are the only schema: what they do not name is an
//! unknown key. Invariant: no secret stands in them, only the files that hold one.

use super::units::{Size, Time};
use crate::engine::policy::{FleetTrust, PolicySettings};
use crate::engine::{Limits, Payload, Redacted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Everything a file or the environment may say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub kafka: Kafka,
    pub engine: EngineSection,
    pub policy: PolicySettings,
    pub state: State,
    pub pins: Pins,
    pub worker: Worker,
    pub http: Http,
    pub log: Log,
    pub reload: Reload,
    pub break_glass: BreakGlass,
    pub canary: Canary,
    /// The fleets, by name. None: one policy holds for all, and the first 32 names seen become metric labels. Named:
    /// a record is of a fleet only where this permits it; any other claim is judged as `default`, said with
    /// `fleet_not_permitted`, and counted as `_other`.
    pub fleets: BTreeMap<String, FleetTrust>,
}

/// Brokers, topics, credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kafka {
    /// `host:port,host:port`. `run` needs it.
    pub bootstrap_servers: String,
    /// The consumer group; instances of one group share the partitions. An input topic is for one group: its state is that group's.
    pub group: String,
    /// Names this process among its group; part of `transactional.id`. Default: the host name.
    pub instance: Option<String>,
    /// Static group membership: only where `instance` survives a restart (a StatefulSet).
    pub static_membership: bool,
    /// Input topics. `run` needs at least one.
    pub inputs: Vec<String>,
    pub topics: Topics,
    /// Where a group without offsets begins. Counts for the first run only.
    pub start: Start,
    /// How long `run` keeps trying to reach the brokers before it gives up with exit code 4.
    pub startup_timeout: Time,
    /// How long the group waits for a member that went silent.
    pub session_timeout: Time,
    /// How the brokers are spoken to.
    pub security_protocol: SecurityProtocol,
    pub sasl: Sasl,
    /// PEM file of the authorities that sign the brokers' certificates.
    pub ca_file: Option<PathBuf>,
    /// Raw librdkafka properties, except those that would break a guarantee.
    pub properties: BTreeMap<String, String>,
}

/// Names of the output topics, and of those that hold decisions on tool definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topics {
    /// Where verdicts go.
    pub verdicts: String,
    /// Where copies go that are safe to use, and the records of calls.
    pub redacted: String,
    /// Where records go that cannot be read.
    pub deadletters: String,
    /// Where definitions of tools go that nobody decided on.
    pub pin_sightings: String,
    /// Decisions on definitions of tools: one partition, compacted. Operators write it, every instance reads it.
    pub pins: String,
    /// Who decided what, when and why.
    pub pins_audit: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    #[default]
    Earliest,
    Latest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecurityProtocol {
    #[default]
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl SecurityProtocol {
    /// librdkafka's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Ssl => "ssl",
            Self::SaslPlaintext => "sasl_plaintext",
            Self::SaslSsl => "sasl_ssl",
        }
    }
    pub(super) fn sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
    pub(super) fn tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }
}

/// The mechanisms that this build's librdkafka has without system libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

impl Mechanism {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Credentials of a SASL protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sasl {
    /// The SASL mechanism; needed where the protocol has SASL.
    pub mechanism: Option<Mechanism>,
    /// The SASL user.
    pub username: Option<String>,
    /// A file that holds the password; a line end behind it is not part of it.
    pub password_file: Option<PathBuf>,
}

/// The pure engine's bounds and its key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSection {
    /// 32 bytes, or 64 hexadecimal digits: the key of all keyed digests, the same on every instance.
    pub fingerprint_key_file: Option<PathBuf>,
    pub limits: Limits,
    pub redacted: Redacted,
    /// What a dead letter keeps of a record's value: it may hold secrets and hostile text.
    pub dead_letter_payload: Payload,
}

/// What to do where changelog and offsets disagree, and how much memory state may take.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// What to do where the group's offsets lie before what the changelog says.
    pub on_offset_reset: OnOffsetReset,
    /// What to do where the changelog is behind the offsets, or empty.
    pub on_loss: OnLoss,
    /// Memory for all conversations of an instance; divided by the number of input partitions, all of which
    /// one instance may have to hold. Unset: `engine.limits.partition_bytes` holds for each.
    pub max_bytes: Option<Size>,
}

/// The group's offsets were reset to before what the changelog says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnOffsetReset {
    #[default]
    Refuse,
    ReplayFresh,
}

/// The changelog is behind the offsets, or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    #[default]
    Refuse,
    StartEmpty,
}

/// Decisions on definitions of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pins {
    /// An instance that could not confirm for so long that it knows all decisions is not ready; it goes on judging
    /// by those that it knows. 5s to 1h.
    pub stale_after: Time,
}

/// Worker threads and their transactions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Worker {
    /// Threads, each a group member with its own producer.
    pub count: u32,
    /// No transaction is committed sooner than this after the last, unless nothing else is to do.
    pub commit_min: Time,
    /// A transaction is committed at the latest after this.
    pub commit_interval: Time,
    /// How long the broker waits for a transaction of a worker that went silent.
    pub transaction_timeout: Time,
    /// How long SIGTERM lets a worker finish.
    pub drain_timeout: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// `address:port`; an empty text serves nothing.
    pub listen: String,
}

/// When the files are read again. `SIGHUP` reads them at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reload {
    /// Look whether the files changed, also where a link in their path leads elsewhere (a mounted ConfigMap).
    pub watch: bool,
    /// How often. 100ms to 10m.
    pub interval: Time,
}

/// A hostile result that every instance sends to itself and must see blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Canary {
    /// It writes to the input topics, as the fleet `_canary`, and reads the verdicts: grant Write and Read for it. Its
    /// records are in no metric of fleets.
    pub enabled: bool,
    /// How often. 1s to 1h.
    pub interval: Time,
}

/// Turns enforcement into monitoring everywhere, for a while. Said in the log, in `break_glass_active` and by an alert.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakGlass {
    /// When it ends by itself: RFC 3339, such as `2030-01-31T18:00:00Z`, at most 24 hours ahead.
    pub until: Option<String>,
    /// Who decided.
    pub by: Option<String>,
    /// Why: an incident's number, a sentence.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// How log lines are written.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,sluicegate=debug`.
    pub level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    #[default]
    Human,
    Json,
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            bootstrap_servers: String::new(),
            group: "sluicegate".into(),
            instance: None,
            static_membership: false,
            inputs: Vec::new(),
            topics: Topics::default(),
            start: Start::default(),
            startup_timeout: Time(Duration::from_secs(30)),
            session_timeout: Time(Duration::from_secs(30)),
            security_protocol: SecurityProtocol::default(),
            sasl: Sasl::default(),
            ca_file: None,
            properties: BTreeMap::new(),
        }
    }
}

impl Default for Topics {
    fn default() -> Self {
        Self {
            verdicts: "sluicegate.verdicts".into(),
            redacted: "sluicegate.redacted".into(),
            deadletters: "sluicegate.deadletters".into(),
            pin_sightings: "sluicegate.pin-sightings".into(),
            pins: "sluicegate.pins".into(),
            pins_audit: "sluicegate.pins.audit".into(),
        }
    }
}

impl Default for Pins {
    fn default() -> Self {
        Self { stale_after: Time(Duration::from_secs(30)) }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            count: 1,
            commit_min: Time(Duration::from_millis(10)),
            commit_interval: Time(Duration::from_millis(50)),
            transaction_timeout: Time(Duration::from_secs(15)),
            drain_timeout: Time(Duration::from_secs(25)),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: "0.0.0.0:9464".into() }
    }
}

impl Default for Reload {
    fn default() -> Self {
        Self { watch: true, interval: Time(Duration::from_secs(2)) }
    }
}

impl Default for Canary {
    fn default() -> Self {
        Self { enabled: false, interval: Time(Duration::from_secs(60)) }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info".into() }
    }
}
