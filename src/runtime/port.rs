//! What the worker asks of a log: a [`Source`] that it reads as a member of a group, a [`Ledger`] that it writes
//! in transactions, and a [`Clock`]. Three adapters are meant: Kafka, the embedded broker, a simulation.
//!
//! Two choices carry the rest. A rebalance is a value that `poll` returns, answered by a call of the worker
//! ([`Source::accept`], [`Source::release`]), so that no work happens in callbacks. And a partition that was
//! assigned is not read until [`Source::start`] says from where: a restore needs no pause, an abort is
//! [`Source::stop`] and `start`, and a partition that must wait is simply not started.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::judge::To;

/// An input partition; `topic` is the index in [`super::settings::Settings::inputs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    pub topic: u16,
    pub partition: i32,
}

/// A record in the client's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub at: PartitionId,
    pub offset: i64,
    pub timestamp: Option<i64>,
    pub key: Option<&'a [u8]>,
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    pub value: Option<&'a [u8]>,
}

/// What a poll brought; a record went to the callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    Record,
    /// Every record of the partition that is visible now was delivered.
    End(PartitionId),
    Assign(Vec<PartitionId>),
    Revoke(Vec<PartitionId>),
    /// The group gave them to others already: what is uncommitted must not be committed.
    Lost(Vec<PartitionId>),
    Idle,
}

/// The offset of the next record, by partition.
pub type Positions = BTreeMap<PartitionId, i64>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortError {
    /// May pass: no broker, a timeout.
    Transient(String),
    /// Wants a permission.
    Denied(String),
    /// The client is dead, and with it the process.
    Fatal(String),
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient(why) | Self::Denied(why) | Self::Fatal(why) => f.write_str(why),
        }
    }
}

pub trait Source {
    /// Proof of membership in the group's generation, which a commit carries.
    type Membership;

    fn poll(&mut self, wait: Duration, on_record: &mut dyn FnMut(Record<'_>)) -> Result<Inbound, PortError>;
    /// Keeps the membership alive while nothing may be read; events wait for the next `poll`.
    fn serve(&mut self);
    /// Takes a [`Inbound::Lost`] that waits, for whoever must know it before the next `poll`.
    fn take_lost(&mut self) -> Option<Vec<PartitionId>>;
    /// Answers [`Inbound::Assign`].
    fn accept(&mut self, parts: &[PartitionId]) -> Result<(), PortError>;
    /// Answers [`Inbound::Revoke`] and [`Inbound::Lost`].
    fn release(&mut self, parts: &[PartitionId]) -> Result<(), PortError>;
    fn start(&mut self, at: PartitionId, offset: i64) -> Result<(), PortError>;
    /// Stops reading; records in flight are dropped. Partitions that were not started are skipped.
    fn stop(&mut self, parts: &[PartitionId]) -> Result<(), PortError>;
    fn membership(&self) -> Result<Self::Membership, PortError>;
    /// Stable committed offsets, `None` where there is none.
    fn committed(
        &mut self,
        parts: &[PartitionId],
        limit: Duration,
    ) -> Result<BTreeMap<PartitionId, Option<i64>>, PortError>;
    /// How many partitions all output topics and the state topic have at least, by input topic.
    fn writable(&mut self, topic: u16, limit: Duration) -> Result<i32, PortError>;
    /// The last known end of the log as a `read_committed` reader sees it.
    fn end(&self, at: PartitionId) -> Option<i64>;
    /// Which topics made [`Source::writable`] smaller than the input when it was last asked, for people.
    fn narrow(&self, _topic: u16) -> Option<String> {
        None
    }
    /// How many records wait in partitions that are not read, as far as the broker says so within `limit`.
    fn backlog(&mut self, _parts: &[PartitionId], _limit: Duration) -> Vec<(PartitionId, i64)> {
        Vec::new()
    }
    /// How many brokers it is connected to, as far as known.
    fn brokers(&self) -> Option<usize>;
    /// Records before [`Source::end`] that the client has still to fetch, as far as known.
    fn unfetched(&self, _at: PartitionId) -> Option<i64> {
        None
    }
    /// How many partitions an input topic has, as far as known.
    fn partitions(&self, _topic: u16) -> Option<i32> {
        None
    }
    /// Bytes that wait inside the client, as far as known.
    fn queued(&self) -> Option<u64> {
        None
    }
    /// Leaves the group, or only stops with a static member id; the worker released everything before.
    fn close(&mut self);
}

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Output(To),
    /// The changelog of the input topic.
    State(u16),
}

#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    pub target: Target,
    pub partition: i32,
    pub key: Option<&'a [u8]>,
    pub headers: &'a [(String, Vec<u8>)],
    pub value: Option<&'a [u8]>,
    pub timestamp: Option<i64>,
}

/// Why a transaction did not commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The group's generation moved on: the partitions may be somebody else's by now.
    Generation(String),
    /// A record is larger than its topic allows; trying again gives the same.
    TooLarge {
        topic: String,
        bytes: usize,
    },
    Timeout(String),
    Transport(String),
    /// A permission is missing.
    Denied(String),
    /// Another producer has our transactional id.
    Fenced(String),
    Other(String),
}

impl Cause {
    /// Every value of [`Cause::label`].
    pub const LABELS: [&str; 7] = ["generation", "too_large", "timeout", "transport", "denied", "fenced", "other"];

    /// A label with a closed set of values.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Generation(_) => "generation",
            Self::TooLarge { .. } => "too_large",
            Self::Timeout(_) => "timeout",
            Self::Transport(_) => "transport",
            Self::Denied(_) => "denied",
            Self::Fenced(_) => "fenced",
            Self::Other(_) => "other",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generation(why)
            | Self::Timeout(why)
            | Self::Transport(why)
            | Self::Denied(why)
            | Self::Fenced(why)
            | Self::Other(why) => f.write_str(why),
            Self::TooLarge { topic, bytes } => {
                write!(f, "a record of {bytes} bytes is larger than the topic {topic} allows")
            }
        }
    }
}

/// How a transaction ended. An unknown end is a value, not an error to retry: only a rebuilt producer and the
/// committed offsets tell (a late EndTxn of the old one could otherwise end the next transaction).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    Done,
    Aborted(Cause),
    Indefinite(Cause),
    Fenced(Cause),
}

/// What the client of a [`Ledger`] says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that wait inside it.
    pub queued: u64,
    /// By a broker's number the p99 of what it was asked lately, if anything.
    pub round_trips: BTreeMap<i32, Duration>,
}

pub trait Ledger {
    type Membership;

    fn begin(&mut self) -> Result<(), Cause>;
    /// Queues a record of the open transaction; blocks while the queue is full, up to a deadline.
    fn publish(&mut self, record: Publish<'_>) -> Result<(), Cause>;
    /// Serves delivery reports, without waiting.
    fn serve(&mut self);
    /// Waits until every record is acknowledged, then commits them and the offsets.
    fn commit(&mut self, at: &Positions, who: &Self::Membership, limit: Duration) -> Commit;
    /// `Aborted` when it is certain.
    fn abort(&mut self, cause: Cause, limit: Duration) -> Commit;
    /// Replaces the producer: fences the old one, aborts what it left open, the offsets too. One attempt.
    fn rebuild(&mut self, who: &Self::Membership, limit: Duration) -> Result<(), PortError>;
    /// Called with a new producer: what its predecessors wrote there, and what was written since the last commit, is
    /// aborted for certain afterwards, wherever the broker forgot to. What is given is kept until it succeeds. One
    /// attempt; no transaction may be open.
    fn bury(&mut self, at: &[(Target, i32)], who: &Self::Membership, limit: Duration) -> Result<(), PortError>;
    /// As far as known.
    fn figures(&self) -> Option<Figures> {
        None
    }
}

pub trait Clock {
    /// Monotonic.
    fn now(&self) -> Duration;
    /// Milliseconds since the epoch.
    fn wall(&self) -> i64;
    fn sleep(&self, time: Duration);
}

/// What a finished restore hands over.
pub struct Ready<S> {
    pub state: S,
    /// Where to read from.
    pub offset: i64,
    pub tick: i64,
    /// Must be committed before the first record is read.
    pub first: bool,
    /// Keys to delete in that first transaction: what was left of a state that is not used.
    pub stale: Vec<Vec<u8>>,
}

/// Restores partitions in the background; answers come in any order.
pub trait Restore<S> {
    /// `ticket` comes back with the answer, so that an answer for an earlier assignment can be told.
    fn request(&mut self, at: PartitionId, ticket: u64);
    fn cancel(&mut self, at: PartitionId);
    fn ready(&mut self) -> Option<(PartitionId, u64, Result<Ready<S>, super::environment::EnvironmentError>)>;
}
