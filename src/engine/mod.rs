//! The engine: pure and total. It reads no clock, does no I/O, holds no lock, spawns nothing, logs nothing.
//!
//! One record's journey: [`wire`] decodes the envelope, [`provider`] translates the body into [`event`]s,
//! [`state`] absorbs them and says what became judgeable, [`policy`] looks and reports, [`verdict`] decides,
//! [`redact`] turns edits into bytes. [`Engine::step`] is all of that.

pub mod decision;
pub mod digest;
pub mod envelope;
pub mod event;
pub mod json;
mod judge;
pub mod layer;
pub mod pins;
pub mod policy;
pub mod provider;
pub mod redact;
pub mod scan;
pub mod state;
pub mod verdict;
pub mod wire;

use bumpalo::Bump;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// One record, borrowed from the consumer.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
    /// The Kafka timestamp; `None` where none exists (`check`).
    pub timestamp: Option<Millis>,
    pub key: Option<&'a [u8]>,
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    pub value: Option<&'a [u8]>,
}

/// Where an emission goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum To {
    Verdicts,
    Redacted,
    DeadLetters,
    /// Definitions of tools that nobody decided on.
    Sightings,
}

/// One output record. It carries the input's key and goes to the input's partition number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emission {
    pub to: To,
    pub key: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub value: Option<Vec<u8>>,
    /// Dead letters keep the original's; `None`: the producer's.
    pub timestamp: Option<Millis>,
}

impl Emission {
    /// Bytes on the wire as Kafka counts a record, headers included, rounded up.
    pub fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(k, v)| k.len() + v.len() + 10).sum();
        self.key.as_ref().map_or(0, Vec::len) + self.value.as_ref().map_or(0, Vec::len) + headers + 64
    }
}

/// How a record ended. The sum over outcomes equals the records consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It gave at least one verdict.
    Judged,
    /// It gave none: a delta, an unknown type, a duplicate.
    Passed,
    Rejected(wire::Reject),
}

/// Whether a tick has more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    None,
    Some,
}

/// Bounds of everything that grows with input. Each is a finding or a metric when it is met.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// A record's key and value, bytes.
    pub record_bytes: u64,
    /// Argument text of one open call, bytes.
    pub call_bytes: u64,
    /// All emissions of one step, bytes, headers counted.
    pub output_bytes: u64,
    /// One verdict, bytes; the rest of its findings is counted under `findings_omitted`.
    pub verdict_bytes: u64,
    /// One record of the redacted topic as its `max.message.bytes` allows, bytes.
    pub redacted_record_bytes: u64,
    /// One record of the dead-letter topic, bytes.
    pub deadletter_record_bytes: u64,
    /// Calls of one response that may be open at once; more are cut.
    pub open_calls_per_response: u32,
    /// Calls of one conversation that may be open at once.
    pub open_calls_per_conversation: u32,
    /// Settled calls, and results, remembered per conversation.
    pub history: u32,
    /// State of one conversation, bytes.
    pub conversation_bytes: u64,
    /// State of one partition, bytes; the least recently used conversation goes first.
    pub partition_bytes: u64,
    /// Nesting of a record's JSON.
    pub json_depth: u32,
    /// Values and names in one JSON document.
    pub json_nodes: u32,
    /// `model.closed` missing: an open call is cut after this idle time, milliseconds.
    pub call_ttl_ms: u64,
    /// A conversation without a record for this long is forgotten, milliseconds.
    pub conversation_ttl_ms: u64,
    /// How long a tool's start waits for the end of its call's response where two producers may have swapped them,
    /// milliseconds. 0: it is judged at once.
    pub reorder_window_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes: 8 << 20,
            call_bytes: 768 << 10,
            output_bytes: 16 << 20,
            verdict_bytes: 64 << 10,
            redacted_record_bytes: 1_000_000,
            deadletter_record_bytes: 1_000_000,
            open_calls_per_response: 128,
            open_calls_per_conversation: 64 * 4,
            history: 1024,
            conversation_bytes: 4 << 20,
            partition_bytes: 256 << 20,
            json_depth: 128,
            json_nodes: 1 << 20,
            call_ttl_ms: 15 * 60 * 1000,
            conversation_ttl_ms: 24 * 60 * 60 * 1000,
            reorder_window_ms: 2000,
        }
    }
}

/// What a step gives. One value is used for all steps of a worker; its buffers are reused.
#[derive(Debug, Default)]
pub struct Out {
    pub emissions: Vec<Emission>,
    /// What happened, for metrics: bounded in number per step, never text from outside.
    pub observations: Vec<Observation>,
    /// Compiled schemas, kept from record to record.
    schemas: policy::SchemaCache,
    /// Compiled policies of scopes, kept from record to record.
    variants: policy::Variants,
    bump: Bump,
}

impl Out {
    pub fn clear(&mut self) {
        self.emissions.clear();
        self.observations.clear();
    }
}

/// A fact for the metrics. Labels are closed sets, but `fleet`: see [`Settings::fleet_labels`].
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// A verdict was made.
    Verdict {
        fleet: String,
        provider: Option<provider::Provider>,
        checkpoint: verdict::Checkpoint,
        decision: verdict::Decision,
        action: verdict::Decision,
        /// The first policy whose finding blocks, when `action` is block.
        blocked_by: Option<&'static str>,
    },
    Finding {
        policy: &'static str,
        severity: policy::Severity,
        mode: policy::Mode,
    },
    /// A tool output's size before policies, bytes.
    ResultSize {
        provider: Option<provider::Provider>,
        bytes: u64,
    },
    /// A result over the cap, and bytes taken out.
    Oversize {
        fleet: String,
        provider: Option<provider::Provider>,
        action: verdict::Decision,
        removed: u64,
    },
    /// A copy was published in which a policy changed so many places.
    Redacted {
        policy: &'static str,
        spans: u64,
    },
    /// A host did what a verdict does not allow: the rule that says so.
    Bypass {
        fleet: String,
        kind: &'static str,
    },
    /// An assembly ended: `final`, or a cut reason's label.
    Assembly {
        provider: Option<provider::Provider>,
        outcome: &'static str,
        fragments: u32,
    },
    Opaque {
        provider: Option<provider::Provider>,
        kind: &'static str,
        count: u64,
    },
    /// Data that is not JSON, inside a record whose envelope could be read.
    Undecodable {
        provider: Option<provider::Provider>,
    },
    Event {
        provider: Option<provider::Provider>,
        kind: wire::EventType,
    },
    DeadLetter {
        reason: &'static str,
    },
    /// Definitions or instructions of a server that are not the pinned ones.
    DefinitionsChanged {
        fleet: String,
        count: u64,
    },
    /// A conversation was evicted or expired.
    Evicted {
        reason: &'static str,
    },
}

/// What an engine is made of. Everything here is data; files were read by the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub limits: Limits,
    pub policy: policy::PolicySettings,
    pub redacted: Redacted,
    pub dead_letter_payload: Payload,
    /// Secret for keyed digests, the same on all instances.
    pub fingerprint_key: [u8; 32],
    /// First eight characters of the cluster id: the first part of every id.
    pub cluster: String,
    /// The consumer group: the `source` of verdicts is `/sluicegate/<group>`.
    pub group: String,
    /// CloudEvents `time` stands for a missing Kafka timestamp (`check`).
    pub trust_event_time: bool,
    /// Inputs are lines of a file: a value that looks like a structured event is one (`check`).
    pub lines: bool,
    /// Where a claimed fleet is believed, by its name. None: one policy holds for all, and the name is a label only.
    pub fleets: std::collections::BTreeMap<String, policy::FleetTrust>,
    /// Fleet names that are metric labels; others are `_other`, apart from `default`. Empty: every name is one, as
    /// an identifier is shown; whoever counts bounds how many.
    pub fleet_labels: Vec<String>,
}

impl Settings {
    /// What `check` and `demo` start from: a zero key, no cluster, defaults elsewhere.
    pub fn local(profile: policy::Profile) -> Self {
        Self {
            limits: Limits { reorder_window_ms: 0, ..Limits::default() },
            policy: policy::PolicySettings { profile, bundle: "default".to_owned(), ..Default::default() },
            redacted: Redacted::default(),
            dead_letter_payload: Payload::default(),
            fingerprint_key: [0; 32],
            cluster: "local".to_owned(),
            group: "check".to_owned(),
            trust_event_time: false,
            lines: false,
            fleets: std::collections::BTreeMap::new(),
            fleet_labels: Vec::new(),
        }
    }

    /// Tells fingerprint keys apart and gives nothing of them away: twelve hex digits of a keyed hash.
    pub fn key_id(&self) -> String {
        let id = digest::Keyed::new(self.fingerprint_key).masked(b"fingerprint key");
        id.trim_start_matches('~').to_owned()
    }
}

/// What is published on the redacted topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redacted {
    /// Records of calls that the provider runs, too.
    pub provider_calls: bool,
    /// Requests are published only when changed, or always.
    pub publish: Publish,
    /// A blocked result is replaced by the provider's error form, or withheld.
    /// `None`: `withhold` in the profile `strict`, else `error_form`.
    pub on_block: Option<OnBlock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Publish {
    #[default]
    Changed,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBlock {
    #[default]
    ErrorForm,
    Withhold,
}

/// What a dead letter keeps of the record's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    #[default]
    Full,
    /// A keyed digest and the size.
    Hash,
    None,
}

/// A setting that cannot hold: where, what, and the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `policies.SG01.options.max_bytes`
    pub path: String,
    pub problem: String,
}

/// The engine: compiled settings, and the pins that hold. A clone shares both; other pins are another engine.
#[derive(Clone)]
pub struct Engine {
    settings: Arc<Settings>,
    scopes: Arc<policy::Scopes>,
    keyed: digest::Keyed,
    pins: Arc<pins::PinTable>,
}

impl Engine {
    /// # Errors
    /// Every setting that cannot hold, with its path.
    pub fn new(settings: Settings) -> Result<Engine, Vec<Problem>> {
        let scopes = policy::Scopes::new(&settings.policy, &settings.fleets)?;
        let keyed = digest::Keyed::new(settings.fingerprint_key);
        let (settings, scopes) = (Arc::new(settings), Arc::new(scopes));
        Ok(Engine { settings, scopes, keyed, pins: Arc::default() })
    }
    /// Decides by these pins from the next step on. A worker changes them between two transactions only.
    pub fn set_pins(&mut self, pins: Arc<pins::PinTable>) {
        self.pins = pins;
    }
    pub fn pins(&self) -> &Arc<pins::PinTable> {
        &self.pins
    }
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// `sha256:…` over all policy settings, those of overrides too. A verdict's `policy.digest` is that of the
    /// settings which hold for its subject.
    pub fn policy_digest(&self) -> &str {
        self.scopes.digest()
    }
    /// What holds for somebody, and where each setting comes from.
    pub fn effective(&self, who: &policy::Who<'_>) -> policy::Effective<'_> {
        self.scopes.effective(who)
    }
    fn on_block(&self, profile: policy::Profile) -> OnBlock {
        match (self.settings.redacted.on_block, profile) {
            (Some(chosen), _) => chosen,
            (None, policy::Profile::Strict) => OnBlock::Withhold,
            (None, _) => OnBlock::ErrorForm,
        }
    }
    /// Judges one record. Total: never panics, blocks, logs or reads a clock. Clears `out` first.
    pub fn step(&self, state: &mut state::PartitionState, input: &Input<'_>, out: &mut Out) -> Outcome {
        out.clear();
        state.savepoint();
        let bump = std::mem::take(&mut out.bump);
        // A defect in the engine must not take the partition down: the record becomes a dead letter and the
        // state is as if it had not been read.
        let judged = catch_unwind(AssertUnwindSafe(|| judge::record(self, &bump, state, input, out)));
        out.bump = emptied(bump);
        judged.unwrap_or_else(|_| {
            state.rollback_to_savepoint();
            judge::panicked(self, state, input, out)
        })
    }
    /// Expires idle calls and conversations up to `now`, at most `budget` of them. Emissions carry the key of
    /// their conversation's first record. Clears `out` first.
    pub fn tick(
        &self,
        state: &mut state::PartitionState,
        source: TickSource<'_>,
        budget: u32,
        out: &mut Out,
    ) -> Remaining {
        out.clear();
        state.savepoint();
        let bump = std::mem::take(&mut out.bump);
        let done = catch_unwind(AssertUnwindSafe(|| judge::tick(self, &bump, state, source, budget, out)));
        out.bump = emptied(bump);
        done.unwrap_or_else(|_| {
            state.rollback_to_savepoint();
            out.clear();
            Remaining::None
        })
    }
}

/// What an arena may keep for the next step, bytes.
const ARENA_BYTES: usize = 8 << 20;

/// An arena for the next step. One large record must not hold its memory for good.
fn emptied(mut bump: Bump) -> Bump {
    bump.reset();
    if bump.allocated_bytes() > ARENA_BYTES { Bump::new() } else { bump }
}

/// Which partition a tick is for, and the time it is given.
#[derive(Debug, Clone, Copy)]
pub struct TickSource<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub now: Millis,
}

impl From<&Limits> for state::StateLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            call_bytes: limits.call_bytes,
            open_calls_per_response: limits.open_calls_per_response,
            open_calls_per_conversation: limits.open_calls_per_conversation,
            history: limits.history,
            conversation_bytes: limits.conversation_bytes,
            partition_bytes: limits.partition_bytes,
            call_ttl_ms: limits.call_ttl_ms,
            conversation_ttl_ms: limits.conversation_ttl_ms,
            reorder_window_ms: limits.reorder_window_ms,
        }
    }
}
