//! Configuration: defaults, one YAML file, then the environment; built, validated, and only then used.
//!
//! Purpose: an operator who made five mistakes reads five lines, each `path: value: what holds`, and
//! repairs them in one go. Place in the journey: before it; nothing here runs once a worker polls.
//!
//! How all problems are found at once: the merged tree is taken apart into its leaves, and each leaf is laid
//! alone over the defaults and deserialised. What fails is that leaf's problem, with serde's own words for
//! types and unknown keys; what passes is kept, and the ranges are checked on the sum of what passed. The
//! structs are the only schema. Environment values have no types of their own: text is tried first, then
//! number, boolean or list, and whichever the target takes is meant.
//!
//! Invariants: an unknown key is an error; a problem never shows the value of a key that is not known or
//! that may hold a secret; secrets are read from files only.
//!
//! Left out: `serde_path_to_error`, which stops at the first problem, and a hand-kept schema, which drifts.

use crate::engine::policy::{PolicySettings, Profile};
use crate::engine::{Engine, Limits, Payload, Problem, Redacted, Settings};
use crate::runtime::settings;
use config::{Environment, FileFormat, ValueKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A length of time: `50ms`, `30s`, `15m`, `24h`, or a number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// A size: `512KiB`, `2GiB`, or a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Everything a file or the environment may say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub kafka: Kafka,
    pub engine: EngineSection,
    pub policy: PolicySettings,
    pub state: State,
    pub worker: Worker,
    pub http: Http,
    pub log: Log,
    /// Fleet names that become metric labels; others count as `_other`.
    pub fleets: BTreeMap<String, Fleet>,
}

/// Brokers, topics, credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kafka {
    /// `host:port,host:port`. `run` needs it.
    pub bootstrap_servers: String,
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
    pub security_protocol: SecurityProtocol,
    pub sasl: Sasl,
    /// PEM file of the authorities that sign the brokers' certificates.
    pub ca_file: Option<PathBuf>,
    /// Raw librdkafka properties, except those that would break a guarantee.
    pub properties: BTreeMap<String, String>,
}

/// Names of the output topics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topics {
    pub verdicts: String,
    pub redacted: String,
    pub deadletters: String,
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
    fn sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
    fn tls(self) -> bool {
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

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sasl {
    pub mechanism: Option<Mechanism>,
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
    pub on_offset_reset: OnOffsetReset,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
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

/// A fleet. In this version its name is a label only.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {}

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
        }
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

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info".into() }
    }
}

/// librdkafka properties that are not for the operator, and why. A name that ends in `*` is a prefix.
pub const DENIED_PROPERTIES: &[(&str, &str)] = &[
    ("enable.auto.commit", "offsets are committed in the transaction"),
    ("enable.auto.offset.store", "offsets are committed in the transaction"),
    ("isolation.level", "inputs and state are read with read_committed"),
    ("transactional.id", "it is <group>-<instance>-<worker>; set kafka.instance"),
    ("enable.idempotence", "transactions need it"),
    ("acks", "transactions need all"),
    ("request.required.acks", "transactions need all"),
    ("max.in.flight*", "order within a partition depends on it"),
    ("group.id", "set kafka.group"),
    ("group.instance.id", "set kafka.instance and kafka.static_membership"),
    ("group.protocol", "the rebalance of the classic protocol is what was verified"),
    ("partition.assignment.strategy", "cooperative-sticky is what was verified"),
    ("auto.offset.reset", "set kafka.start"),
    ("allow.auto.create.topics", "a mistyped topic must be an error; use `sluicegate topics apply`"),
    ("enable.partition.eof", "restore and idleness are told by it"),
    ("message.max.bytes", "it follows from engine.limits"),
    ("message.timeout.ms", "it follows from the transaction"),
    ("delivery.timeout.ms", "it follows from the transaction"),
    ("session.timeout.ms", "set kafka.session_timeout"),
    ("transaction.timeout.ms", "set worker.transaction_timeout"),
    ("socket.timeout.ms", "deadlines of transactional calls depend on it"),
    ("enable.gapless.guarantee", "the worker decides what a lost record means"),
    ("partitioner", "outputs go to the input's partition number"),
    ("bootstrap.servers", "set kafka.bootstrap_servers"),
    ("metadata.broker.list", "set kafka.bootstrap_servers"),
    ("security.protocol", "set kafka.security_protocol"),
    ("sasl.mechanism*", "set kafka.sasl.mechanism"),
    ("sasl.username", "set kafka.sasl.username"),
    ("sasl.password", "secrets come from files: set kafka.sasl.password_file"),
    ("ssl.ca.location", "set kafka.ca_file"),
    ("ssl.key.password", "secrets come from files: use a key file without a password, mounted read-only"),
    ("ssl.key.pem", "secrets come from files: set ssl.key.location"),
    ("ssl.keystore.password", "secrets come from files: use ssl.key.location"),
    ("sasl.oauthbearer.client.secret", "secrets come from files; OAUTHBEARER is not in this version"),
];

/// What a command needs of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The engine alone: `check`, `demo`.
    Engine,
    /// Brokers and topics too: `topics`.
    Kafka,
    /// All that `run` needs.
    Run,
}

/// Reads defaults, `file` and `SLUICEGATE__…` of `env`.
///
/// # Errors
/// Every problem of the file and the environment, in order of path.
pub fn load(file: Option<&Path>, env: HashMap<String, String>, need: Need) -> Result<Config, Vec<Problem>> {
    let text = match file {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|e| {
            vec![problem("--config", format!("{}: {}; give the path of a YAML file", path.display(), reason(&e)))]
        })?,
    };
    from_text(&text, env, need)
}

/// As [`load`], with the file's text.
///
/// # Errors
/// Every problem, in order of path.
pub fn from_text(text: &str, env: HashMap<String, String>, need: Need) -> Result<Config, Vec<Problem>> {
    let tree = merged(text, env)?;
    let mut leaves = Vec::new();
    flatten(&tree, &mut Vec::new(), &mut leaves);
    let mut problems = BTreeMap::new();
    let defaults = serde_json::to_value(Config::default()).map_err(|e| vec![problem("defaults", e.to_string())])?;
    let mut sum = defaults.clone();
    for (path, leaf, from_env) in leaves {
        match fitting(&defaults, &path, &leaf, from_env) {
            Ok(value) => put(&mut sum, &path, value),
            Err(error) => {
                let (path, text) = unfit(&path, &leaf, &error);
                problems.entry(path).or_insert(text);
            }
        }
    }
    let config: Config = serde_json::from_value(sum).map_err(|e| vec![problem("configuration", e.to_string())])?;
    for p in config.check(need) {
        problems.entry(p.path).or_insert(p.problem);
    }
    if problems.is_empty() {
        return Ok(config);
    }
    Err(problems.into_iter().map(|(path, problem)| Problem { path, problem }).collect())
}

impl Config {
    /// What cannot hold although every value has the right type.
    fn check(&self, need: Need) -> Vec<Problem> {
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
        if let Ok(settings) = self.engine_settings("", None)
            && let Err(problems) = Engine::new(settings)
        {
            p.extend(problems.into_iter().map(placed));
        }
        if self.fleets.len() > 32 {
            p.push(problem("fleets", format!("{} names: at most 32 become labels", self.fleets.len())));
        }
        for name in self.fleets.keys() {
            if !plain_name(name, 128) {
                p.push(problem(
                    "fleets",
                    format!("{name:?}: must be at most 128 letters, digits, dots, underscores, hyphens"),
                ));
            }
        }
        p
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
                "missing: make one with `head -c 32 /dev/urandom > key` and give all instances the same file",
            ));
        }
        let mut seen = BTreeSet::new();
        let outputs = [
            ("kafka.topics.verdicts", &k.topics.verdicts),
            ("kafka.topics.redacted", &k.topics.redacted),
            ("kafka.topics.deadletters", &k.topics.deadletters),
        ];
        let inputs = k.inputs.iter().map(|t| ("kafka.inputs", t));
        for (path, topic) in inputs.chain(outputs) {
            if !plain_name(topic, 230) {
                p.push(problem(
                    path,
                    format!("{topic:?}: a topic is at most 230 letters, digits, dots, underscores, hyphens"),
                ));
            }
            if !seen.insert(topic) {
                p.push(problem(path, format!("{topic:?}: named twice; inputs and outputs are different topics")));
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
        for (name, value) in [("call_ttl_ms", l.call_ttl_ms), ("conversation_ttl_ms", l.conversation_ttl_ms)] {
            if value < 1000 {
                p.push(problem(&format!("engine.limits.{name}"), format!("{value}: must be at least 1000")));
            }
        }
    }

    /// The key of all keyed digests; 32 zero bytes without a file.
    ///
    /// # Errors
    /// The file cannot be read, or holds neither 32 bytes nor 64 hexadecimal digits.
    pub fn fingerprint_key(&self) -> Result<[u8; 32], Problem> {
        let Some(file) = &self.engine.fingerprint_key_file else {
            return Ok([0; 32]);
        };
        let path = "engine.fingerprint_key_file";
        let bytes = std::fs::read(file).map_err(|e| problem(path, format!("{}: {}", file.display(), reason(&e))))?;
        if let Ok(key) = <[u8; 32]>::try_from(bytes.as_slice()) {
            return Ok(key);
        }
        let text = bytes.trim_ascii();
        let digits: Option<Vec<u8>> =
            text.iter().map(|b| (*b as char).to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let key: Option<[u8; 32]> = digits
            .filter(|d| d.len() == 64)
            .and_then(|d| d.chunks_exact(2).map(|c| c[0] << 4 | c[1]).collect::<Vec<u8>>().try_into().ok());
        key.ok_or_else(|| {
            problem(
                path,
                format!("{}: {} bytes: must hold 32 bytes or 64 hexadecimal digits", file.display(), bytes.len()),
            )
        })
    }

    /// The SASL password, if a file is named.
    ///
    /// # Errors
    /// The file cannot be read as text.
    pub fn password(&self) -> Result<Option<String>, Problem> {
        let Some(file) = &self.kafka.sasl.password_file else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(file)
            .map_err(|e| problem("kafka.sasl.password_file", format!("{}: {}", file.display(), reason(&e))))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The engine's settings. `cluster` is the first eight characters of the cluster id.
    ///
    /// # Errors
    /// The fingerprint key cannot be read.
    pub fn engine_settings(&self, cluster: &str, profile: Option<Profile>) -> Result<Settings, Problem> {
        let mut policy = self.policy.clone();
        if let Some(profile) = profile {
            policy.profile = profile;
        }
        if policy.bundle.is_empty() {
            policy.bundle = "default".into();
        }
        Ok(Settings {
            limits: self.engine.limits.clone(),
            policy,
            redacted: self.engine.redacted,
            dead_letter_payload: self.engine.dead_letter_payload,
            fingerprint_key: self.fingerprint_key()?,
            cluster: cluster.into(),
            group: self.kafka.group.clone(),
            trust_event_time: false,
            lines: false,
            fleet_labels: self.fleets.keys().cloned().collect(),
        })
    }
}

impl Config {
    /// What the worker and its Kafka adapter need, for a file that was checked for [`Need::Kafka`].
    ///
    /// # Errors
    /// The password file cannot be read.
    pub fn settings(&self) -> Result<settings::Settings, Problem> {
        let (k, w, l) = (&self.kafka, &self.worker, &self.engine.limits);
        let mut properties = k.properties.clone();
        let mut set = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                properties.insert(name.into(), value.into());
            }
        };
        if k.security_protocol != SecurityProtocol::Plaintext {
            set("security.protocol", Some(k.security_protocol.name()));
        }
        set("sasl.mechanism", k.sasl.mechanism.map(Mechanism::name));
        set("sasl.username", k.sasl.username.as_deref());
        set("sasl.password", self.password()?.as_deref());
        set("ssl.ca.location", k.ca_file.as_ref().and_then(|f| f.to_str()));
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let inputs: Vec<&str> = k.inputs.iter().map(String::as_str).collect();
        let base = settings::Settings::new(k.bootstrap_servers.clone(), k.group.clone(), &inputs);
        Ok(settings::Settings {
            instance: k.instance.clone().unwrap_or_else(host_name),
            workers: w.count,
            static_membership: k.static_membership,
            verdicts: k.topics.verdicts.clone(),
            redacted: k.topics.redacted.clone(),
            deadletters: k.topics.deadletters.clone(),
            start: match k.start {
                Start::Earliest => settings::Start::Earliest,
                Start::Latest => settings::Start::Latest,
            },
            on_offset_reset: match self.state.on_offset_reset {
                OnOffsetReset::Refuse => settings::OnReset::Refuse,
                OnOffsetReset::ReplayFresh => settings::OnReset::ReplayFresh,
            },
            on_loss: match self.state.on_loss {
                OnLoss::Refuse => settings::OnLoss::Refuse,
                OnLoss::StartEmpty => settings::OnLoss::StartEmpty,
            },
            commit_min: w.commit_min.0,
            commit_interval: w.commit_interval.0,
            transaction_timeout: w.transaction_timeout.0,
            session_timeout: k.session_timeout.0,
            startup_timeout: k.startup_timeout.0,
            drain_timeout: w.drain_timeout.0,
            sizes: settings::Sizes {
                record: size(l.record_bytes),
                output: size(l.output_bytes),
                verdict: size(l.verdict_bytes),
                ..base.sizes
            },
            properties,
            ..base
        })
    }
}

/// The host's name: a pod's name under Kubernetes.
fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    let name: String =
        text.trim().chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    if name.is_empty() { "0".into() } else { name }
}

/// Directives that the logger takes. It would read a mistyped level as a module's name, and log nothing.
fn is_level(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    text.split(',').all(|d| d.contains(['=', '[']) || LEVELS.contains(&d.trim().to_ascii_lowercase().as_str()))
        && tracing_subscriber::EnvFilter::try_new(text).is_ok()
}

/// The reason why a librdkafka property is not for the operator.
pub fn denied(property: &str) -> Option<&'static str> {
    DENIED_PROPERTIES
        .iter()
        .find(|(name, _)| match name.strip_suffix('*') {
            Some(prefix) => property.starts_with(prefix),
            None => property == *name,
        })
        .map(|(_, why)| *why)
}

/// `path: problem`, one a line.
pub fn listed(problems: &[Problem]) -> String {
    let mut out = String::new();
    for p in problems {
        let _ = writeln!(out, "  {}: {}", p.path, p.problem);
    }
    out
}

/// File and environment as one tree.
fn merged(text: &str, env: HashMap<String, String>) -> Result<Tree, Vec<Problem>> {
    let mut tree = Tree::Table(BTreeMap::new());
    let file = config::Config::builder()
        .add_source(config::File::from_str(text, FileFormat::Yaml))
        .add_source(Environment::with_prefix("SLUICEGATE").prefix_separator("__").separator("__").source(Some(env)))
        .build()
        .map_err(|e| vec![problem("--config", format!("not YAML: {e}"))])?;
    let table = config::Source::collect(&file).map_err(|e| vec![problem("--config", format!("not YAML: {e}"))])?;
    for (key, value) in table {
        tree.insert(key, Tree::from(value));
    }
    tree.renamed();
    Ok(tree)
}

/// A merged value and where it came from.
#[derive(Debug)]
enum Tree {
    Leaf(Value, bool),
    Table(BTreeMap<String, Tree>),
}

impl Tree {
    fn from(value: config::Value) -> Tree {
        let from_env = value.origin().is_some_and(|o| o.contains("environment"));
        match value.kind {
            ValueKind::Table(table) => Tree::Table(table.into_iter().map(|(k, v)| (k, Tree::from(v))).collect()),
            kind => Tree::Leaf(plain(kind), from_env),
        }
    }

    fn insert(&mut self, key: String, value: Tree) {
        if let Tree::Table(table) = self {
            table.insert(key, value);
        }
    }

    fn child(&mut self, key: &str) -> Option<&mut Tree> {
        match self {
            Tree::Table(table) => table.get_mut(key),
            Tree::Leaf(..) => None,
        }
    }

    /// Names that an environment variable cannot spell: policy codes are upper case, properties have dots.
    fn renamed(&mut self) {
        let respell = |at: Option<&mut Tree>, spell: fn(&str) -> String| {
            if let Some(Tree::Table(table)) = at {
                *table = std::mem::take(table).into_iter().map(|(k, v)| (spell(&k), v)).collect();
            }
        };
        respell(self.child("policy").and_then(|t| t.child("policies")), str::to_uppercase);
        respell(self.child("kafka").and_then(|t| t.child("properties")), |k| k.replace('_', "."));
    }
}

fn plain(kind: ValueKind) -> Value {
    match kind {
        ValueKind::Nil => Value::Null,
        ValueKind::Boolean(b) => b.into(),
        ValueKind::I64(n) => n.into(),
        ValueKind::U64(n) => n.into(),
        ValueKind::I128(n) => i64::try_from(n).map_or_else(|_| n.to_string().into(), Value::from),
        ValueKind::U128(n) => u64::try_from(n).map_or_else(|_| n.to_string().into(), Value::from),
        ValueKind::Float(f) => f.into(),
        ValueKind::String(s) => s.into(),
        ValueKind::Table(t) => t.into_iter().map(|(k, v)| (k, plain(v.kind))).collect::<Map<_, _>>().into(),
        ValueKind::Array(a) => a.into_iter().map(|v| plain(v.kind)).collect::<Vec<_>>().into(),
    }
}

fn flatten(tree: &Tree, path: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, Value, bool)>) {
    match tree {
        Tree::Leaf(value, from_env) => leaves.push((path.clone(), value.clone(), *from_env)),
        // An empty table may stand where a map is meant (`fleets: {support: {}}`).
        Tree::Table(table) if table.is_empty() && !path.is_empty() => {
            leaves.push((path.clone(), Value::Object(Map::new()), false));
        }
        Tree::Table(table) => {
            for (key, value) in table {
                path.push(key.clone());
                flatten(value, path, leaves);
                path.pop();
            }
        }
    }
}

/// The first spelling of a leaf that the structs take.
fn fitting(defaults: &Value, path: &[String], leaf: &Value, from_env: bool) -> Result<Value, String> {
    let mut spellings = vec![leaf.clone()];
    let property = path.len() == 3 && path[0] == "kafka" && path[1] == "properties";
    match leaf {
        // A section with nothing in it (`kafka:`) reads as null: its defaults hold.
        Value::Null if path.len() < 3 => spellings.insert(0, Value::Object(Map::new())),
        Value::Number(n) if property => spellings.push(n.to_string().into()),
        Value::Bool(b) if property => spellings.push(b.to_string().into()),
        Value::String(text) if from_env => {
            if let Ok(value) = serde_json::from_str(text) {
                spellings.push(value);
            }
            let list: Vec<Value> = text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(Value::from).collect();
            spellings.push(list.into());
        }
        _ => {}
    }
    let mut first = None;
    for spelling in spellings {
        let mut tree = defaults.clone();
        put(&mut tree, path, spelling.clone());
        match serde_json::from_value::<Config>(tree) {
            Ok(_) => return Ok(spelling),
            Err(e) => first = first.or(Some(e.to_string())),
        }
    }
    Err(first.unwrap_or_default())
}

/// Sets a leaf, making tables on the way. A value that is no table gives way to one.
fn put(tree: &mut Value, path: &[String], value: Value) {
    let mut at = tree;
    for key in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(table) = at else { return };
        at = table.entry(key.clone()).or_insert(Value::Null);
    }
    // An empty table adds nothing to a table that is there.
    if !(value == Value::Object(Map::new()) && at.is_object()) {
        *at = value;
    }
}

/// Path and text of a leaf that does not fit.
fn unfit(path: &[String], leaf: &Value, error: &str) -> (String, String) {
    if let Some(rest) = error.strip_prefix("unknown field `")
        && let Some((field, expected)) = rest.split_once('`')
        && let Some(at) = path.iter().position(|p| p == field)
    {
        let expected = expected.trim_start_matches(", ").replace('`', "");
        return (path[..=at].join("."), format!("unknown key: {expected}"));
    }
    let shown = match leaf {
        Value::Object(_) => "a table".into(),
        other => other.to_string(),
    };
    let error = error.replace('`', "");
    (path.join("."), format!("{shown}: {error}"))
}

/// A problem of the engine's settings, where the file has them.
pub fn placed(p: Problem) -> Problem {
    let section = match p.path.split('.').next() {
        Some("policies" | "profile" | "bundle") => "policy.",
        Some("limits" | "redacted") => "engine.",
        _ => "",
    };
    Problem { path: format!("{section}{}", p.path), problem: p.problem }
}

fn problem(path: &str, problem: impl Into<String>) -> Problem {
    Problem { path: path.into(), problem: problem.into() }
}

/// The operating system's words without the error number.
fn reason(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => e.to_string(),
    }
}

fn plain_name(text: &str, most: usize) -> bool {
    !text.is_empty()
        && text.len() <= most
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

const TIME_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A whole number and a unit.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim();
    let factor = if unit.is_empty() { 1 } else { units.iter().find(|(name, _)| *name == unit)?.1 };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The largest unit that divides it.
fn spelled(amount: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, f)| amount >= *f && amount.is_multiple_of(*f)).or(units.last());
    unit.map_or_else(|| amount.to_string(), |(name, f)| format!("{}{name}", amount / f))
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &TIME_UNITS))
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(self.0, &SIZE_UNITS))
    }
}

/// Number or text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Quantity {
    Number(u64),
    Text(String),
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let expected = "must be a time such as 50ms, 30s, 15m, 24h, or a number of milliseconds";
        let ms = match Quantity::deserialize(d).map_err(|_| serde::de::Error::custom(expected))? {
            Quantity::Number(n) => Some(n),
            Quantity::Text(text) => quantity(&text, &TIME_UNITS),
        };
        ms.map(|ms| Time(Duration::from_millis(ms))).ok_or_else(|| serde::de::Error::custom(expected))
    }
}

impl Serialize for Size {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let expected = "must be a size such as 512KiB, 64MiB, 2GiB, or a number of bytes";
        let n = match Quantity::deserialize(d).map_err(|_| serde::de::Error::custom(expected))? {
            Quantity::Number(n) => Some(n),
            Quantity::Text(text) => quantity(&text, &SIZE_UNITS),
        };
        n.map(Size).ok_or_else(|| serde::de::Error::custom(expected))
    }
}
