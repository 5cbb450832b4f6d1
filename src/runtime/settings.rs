//! What the worker, its adapters and the restore need to know, already validated.

use std::collections::BTreeMap;
use std::time::Duration;

use super::judge::To;

/// Where a group without committed offsets begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Earliest,
    Latest,
}

/// What to do where the group's offset lies before the state, or was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReset {
    Refuse,
    /// Judge the range again with empty state.
    ReplayFresh,
}

/// What to do where the state lies before the group's offset, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    Refuse,
    /// Go on at the offset with empty state; every conversation is partial.
    StartEmpty,
}

/// Sizes in bytes that Kafka's own limits must agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The largest input record that is judged.
    pub record: usize,
    /// All that one step may emit.
    pub output: usize,
    /// The largest verdict.
    pub verdict: usize,
    /// The largest state entry.
    pub entry: usize,
    /// Input and output bytes after which a batch is committed at once.
    pub batch: usize,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub bootstrap: String,
    pub group: String,
    /// Under which fingerprint key state is written, see [`crate::engine::Settings::key_id`]. Empty: not known.
    pub key_id: String,
    /// Unique among the instances of the group; names the transactional ids.
    pub instance: String,
    pub workers: u32,
    /// With `instance` a stable name (a StatefulSet): the member id survives a restart.
    pub static_membership: bool,
    pub inputs: Vec<String>,
    pub verdicts: String,
    pub redacted: String,
    pub deadletters: String,
    /// Definitions that nobody decided on.
    pub sightings: String,
    /// Operators' decisions on them, and who made which.
    pub pins: String,
    pub pins_audit: String,
    /// How long an instance may be without word that it knows all decisions, and still be ready.
    pub pins_stale: Duration,
    pub start: Start,
    pub on_offset_reset: OnReset,
    pub on_loss: OnLoss,
    pub commit_min: Duration,
    pub commit_interval: Duration,
    pub transaction_timeout: Duration,
    pub session_timeout: Duration,
    pub startup_timeout: Duration,
    pub drain_timeout: Duration,
    /// How soon a changed partition count is noticed.
    pub metadata_refresh: Duration,
    pub sizes: Sizes,
    /// False on the embedded broker: no restore, no size check, from the beginning.
    pub durable: bool,
    /// Raw librdkafka properties, without those of [`super::config::DENIED_PROPERTIES`].
    pub properties: BTreeMap<String, String>,
}

impl Settings {
    /// The defaults of the documentation for these inputs.
    pub fn new(bootstrap: impl Into<String>, group: impl Into<String>, inputs: &[&str]) -> Self {
        Self {
            bootstrap: bootstrap.into(),
            group: group.into(),
            key_id: String::new(),
            instance: "0".into(),
            workers: 1,
            static_membership: false,
            inputs: inputs.iter().map(|&t| t.to_owned()).collect(),
            verdicts: "sluicegate.verdicts".into(),
            redacted: "sluicegate.redacted".into(),
            deadletters: "sluicegate.deadletters".into(),
            sightings: "sluicegate.pin-sightings".into(),
            pins: "sluicegate.pins".into(),
            pins_audit: "sluicegate.pins.audit".into(),
            pins_stale: Duration::from_secs(30),
            start: Start::Earliest,
            on_offset_reset: OnReset::Refuse,
            on_loss: OnLoss::Refuse,
            commit_min: Duration::from_millis(10),
            commit_interval: Duration::from_millis(50),
            transaction_timeout: Duration::from_secs(15),
            session_timeout: Duration::from_secs(30),
            startup_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(25),
            metadata_refresh: Duration::from_secs(30),
            sizes: Sizes { record: 8 << 20, output: 16 << 20, verdict: 64 << 10, entry: 64 << 10, batch: 32 << 20 },
            durable: true,
            properties: BTreeMap::new(),
        }
    }

    pub fn output(&self, to: To) -> &str {
        match to {
            To::Verdicts => &self.verdicts,
            To::Redacted => &self.redacted,
            To::DeadLetters => &self.deadletters,
            To::Sightings => &self.sightings,
        }
    }

    /// The transactional id of one worker.
    pub fn transactional_id(&self, worker: u32) -> String {
        format!("{}-{}-{worker}", self.group, self.instance)
    }
    /// The output topics: verdicts, redacted records, dead letters, sightings.
    pub fn outputs(&self) -> [&str; 4] {
        [&self.verdicts, &self.redacted, &self.deadletters, &self.sightings]
    }
}

/// The changelog of an input topic.
pub fn state_topic(input: &str) -> String {
    format!("{input}.sluicegate.state")
}
