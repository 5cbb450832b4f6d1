//! The worker: one thread that reads, judges, publishes and commits the partitions it was given.
//!
//! **Exactly once.** A transaction holds the emissions of a batch, the state entries that changed, one position
//! entry for each partition that was touched, and the offsets of the same partitions. State changes only in
//! memory until then: `accept` after a commit, `rollback` and reading again after an abort. Where the end of a
//! transaction is unknown, the producer is replaced, which settles it, and the committed offsets say how it went.
//! No transaction commits without the offsets of every partition it wrote for, also when only a tick wrote:
//! the offsets are what carries the group's generation.
//!
//! **When to commit.** When nothing is ready and `commit_min` passed since the last commit ended, at
//! `commit_interval` after the batch's first record, or when the batch has `sizes.batch` bytes.
//!
//! One turn of the loop is [`Worker::turn`], so that a simulation can drive it. Nothing in it waits without a
//! deadline.

mod outcome;
mod partitions;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::environment::EnvironmentError;
use super::judge::{Input, Judge, Out, Outcome, Remaining, TickSource};
use super::port::{
    Cause, Clock, Commit, Inbound, Ledger, PartitionId, PortError, Publish, Record, Restore, Source, Target,
};
use super::restore::{FORMAT, POSITION_KEY, Position};
pub use super::settings::Settings;

/// How long a poll may wait when nothing is under way; also how soon a stop is noticed.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// How often idle conversations are looked for.
const TICK_EVERY: Duration = Duration::from_secs(1);
/// How many expiries a tick may do in one partition.
const TICK_BUDGET: u32 = 1_000;

/// How often passing errors of the client are logged at most.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// After how many failed transactions in a row a worker does not count as ready.
const UNREADY_AFTER: u32 = 3;

/// What a worker tells of itself, on its own thread, and the restore on its: must not block.
pub trait Telemetry: Send + Sync {
    /// One record was judged; `took` is the engine's time.
    fn stepped(&self, _input: &Input<'_>, _outcome: Outcome, _out: &Out, _took: Duration) {}
    /// Emissions of a tick.
    fn ticked(&self, _at: PartitionId, _out: &Out) {}
    /// A transaction committed `records` records in `took`.
    fn committed(&self, _worker: u32, _records: u64, _took: Duration) {}
    /// The oldest record of a committed batch waited this long from its timestamp to the commit.
    fn latency(&self, _worker: u32, _ms: i64) {}
    /// A transaction's commit was not confirmed: it is `aborted`, another producer `fenced` it, or it is `abandoned`,
    /// because how it ended is not known.
    fn undone(&self, _worker: u32, _outcome: &'static str, _cause: &Cause) {}
    /// The producer was replaced for `reason`, a closed set; `committed` says how the transaction ended after all.
    fn rebuilt(&self, _worker: u32, _reason: &'static str, _committed: bool) {}
    /// `kind`: `assign`, `revoke`, `lost`.
    fn rebalanced(&self, _worker: u32, _kind: &'static str, _parts: usize) {}
    fn restored(&self, _at: PartitionId, _took: Duration) {}
    /// What a partition does now; `None`: it is not ours any more.
    fn phase(&self, _at: PartitionId, _phase: Option<PhaseKind>) {}
    /// Which topics are too narrow for this input, of which a partition is parked.
    fn narrow(&self, _topic: u16, _why: &str) {}
    /// Records that wait, and how old the last one read is, in milliseconds; 0 where none waits.
    fn lag(&self, _at: PartitionId, _records: i64, _ms: i64) {}
    /// The loop ran; `ready` is false while the worker cannot commit, `open` is the age of its transaction.
    fn alive(&self, _worker: u32, _ready: bool, _open: Option<Duration>) {}
    /// Why the worker's transaction did not commit, or why it still has no usable producer.
    fn waits(&self, _worker: u32, _why: &str) {}
    /// How many brokers the worker's consumer is connected to.
    fn connected(&self, _worker: u32, _brokers: usize) {}
    /// Bytes that wait inside a client of the worker: its `consumer` or its `producer`.
    fn queued(&self, _worker: u32, _client: &'static str, _bytes: u64) {}
    /// The p99 of what the worker's producer asked of brokers lately, by their numbers.
    fn round_trips(&self, _worker: u32, _p99: &BTreeMap<i32, Duration>) {}
    /// How many partitions an input topic has.
    fn partitions(&self, _topic: u16, _partitions: i32) {}
    /// Whether records wait in a partition that is read, and none of them was committed for a while.
    fn stalled(&self, _at: PartitionId, _stalled: bool) {}
    /// So many changelog records were read.
    fn replayed(&self, _records: u64) {}
    /// Changelog records that the restore has still to read, in all partitions.
    fn restoring(&self, _records: u64) {}
}

/// Tells nothing.
pub struct NoTelemetry;
impl Telemetry for NoTelemetry {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseKind {
    Restoring,
    Live,
    /// An output topic has too few partitions.
    Parked,
}

/// How the process is asked to end; shared by all workers.
#[derive(Debug, Default)]
pub struct Stop(AtomicU8);

impl Stop {
    /// The first call asks to finish the batch, the second to abort it.
    pub fn request(&self) {
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| Some(n.saturating_add(1).min(2)));
    }
    pub fn draining(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
    pub fn forced(&self) -> bool {
        self.0.load(Ordering::Acquire) > 1
    }
}

/// Why a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The batch was committed and the group left.
    Drained,
    /// A second signal came: the batch was aborted. Exit code 3.
    Forced,
    Environment(EnvironmentError),
}

impl Ended {
    /// For logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Forced => "forced",
            Self::Environment(e) => e.code,
        }
    }
}

/// What a worker is made of.
pub struct Ports<S, L, C, R> {
    pub source: S,
    pub ledger: L,
    pub clock: C,
    pub restore: R,
}

/// A partition that is read.
struct Live<S> {
    state: S,
    /// The next offset to judge.
    next: i64,
    /// What is committed in the group.
    committed: i64,
    /// `now` of the last tick.
    tick: i64,
    /// The largest timestamp of a record.
    newest: i64,
    /// The timestamp of the last record read, once there is one.
    last: Option<i64>,
    at_end: bool,
    touched: bool,
    /// The transaction that fixes where it begins is not committed yet, and it is not read.
    first: bool,
    /// Keys to delete with that transaction.
    stale: Vec<Vec<u8>>,
    /// While records wait: what was committed, and since when it is that.
    waits: Option<(i64, Duration)>,
}

enum Phase<S> {
    Restoring {
        ticket: u64,
        since: Duration,
    },
    Live(Box<Live<S>>),
    /// `seen`: since when the output topics are wide enough.
    Parked {
        seen: Option<Duration>,
    },
}

/// The open transaction.
#[derive(Default)]
struct Batch {
    open: bool,
    since: Duration,
    records: u64,
    bytes: usize,
    oldest: Option<i64>,
    failed: Option<Cause>,
}

pub struct Worker<J: Judge, S, L, C, R> {
    number: u32,
    settings: Arc<Settings>,
    judge: Arc<J>,
    telemetry: Arc<dyn Telemetry>,
    stop: Arc<Stop>,
    ports: Ports<S, L, C, R>,
    phases: BTreeMap<PartitionId, Phase<J::State>>,
    batch: Batch,
    out: Out,
    tickets: u64,
    last_commit: Duration,
    last_tick: Duration,
    last_look: Duration,
    /// Partitions in whose outputs nothing of an earlier process of our name is open.
    buried: BTreeSet<PartitionId>,
    /// Rebuilds forced by another producer with our name.
    fenced: Vec<Duration>,
    /// When an error of the client was last logged, and how many were not since then.
    said: Option<(Duration, u64)>,
    failures: u32,
    /// A transaction was committed: from here on a missing permission is waited out, not refused.
    committed: bool,
}

impl<J, S, L, C, R> Worker<J, S, L, C, R>
where
    J: Judge,
    S: Source,
    L: Ledger<Membership = S::Membership>,
    C: Clock,
    R: Restore<J::State>,
{
    pub fn new(
        number: u32,
        settings: &Arc<Settings>,
        judge: &Arc<J>,
        telemetry: &Arc<dyn Telemetry>,
        stop: &Arc<Stop>,
        ports: Ports<S, L, C, R>,
    ) -> Self {
        Self {
            number,
            settings: Arc::clone(settings),
            judge: Arc::clone(judge),
            telemetry: Arc::clone(telemetry),
            stop: Arc::clone(stop),
            ports,
            phases: BTreeMap::new(),
            batch: Batch::default(),
            out: Out::default(),
            tickets: 0,
            last_commit: Duration::ZERO,
            last_tick: Duration::ZERO,
            last_look: Duration::ZERO,
            buried: BTreeSet::new(),
            fenced: Vec::new(),
            said: None,
            failures: 0,
            committed: false,
        }
    }

    /// Makes the producer, then turns until something ends it.
    pub fn run(&mut self) -> Ended {
        let ended = match self.first_producer() {
            Ok(()) => loop {
                if let Some(ended) = self.turn() {
                    break ended;
                }
            },
            Err(ended) => ended,
        };
        self.leave(&ended);
        ended
    }

    /// One poll and what it leads to; `Some` when the worker is done.
    pub fn turn(&mut self) -> Option<Ended> {
        self.try_turn().err()
    }

    fn try_turn(&mut self) -> Result<(), Ended> {
        if self.stop.draining() {
            return Err(self.drain());
        }
        let open = self.batch.open.then(|| self.ports.clock.now().saturating_sub(self.batch.since));
        self.telemetry.alive(self.number, self.failures < UNREADY_AFTER, open);
        self.finish_restores()?;
        self.tick()?;
        self.look_at_outputs()?;
        let wait = self.wait();
        let inbound = self.poll(wait)?;
        if let Some(cause) = self.batch.failed.take() {
            return self.give_up(cause);
        }
        match inbound {
            Inbound::Record => {
                let due = self.batch.since + self.settings.commit_interval;
                if self.batch.open && (self.batch.bytes >= self.settings.sizes.batch || self.ports.clock.now() >= due) {
                    self.settle()?;
                }
            }
            Inbound::Idle => {
                let now = self.ports.clock.now();
                let early = self.last_commit + self.settings.commit_min;
                if self.batch.open && (now >= early || now >= self.batch.since + self.settings.commit_interval) {
                    self.settle()?;
                } else if !self.batch.open {
                    self.ports.ledger.serve();
                }
            }
            Inbound::End(at) => {
                if let Some(Phase::Live(live)) = self.phases.get_mut(&at) {
                    live.at_end = true;
                }
            }
            Inbound::Assign(parts) => self.assigned(&parts)?,
            Inbound::Revoke(parts) => self.revoked(&parts)?,
            Inbound::Lost(parts) => self.lost(&parts)?,
        }
        Ok(())
    }

    /// Zero while more may be ready; else until the open batch may be committed, or a while.
    fn wait(&self) -> Duration {
        if !self.batch.open {
            return if self.phases.values().any(|p| matches!(p, Phase::Restoring { .. })) {
                Duration::from_millis(5)
            } else {
                IDLE_WAIT
            };
        }
        let early = self.last_commit + self.settings.commit_min;
        early.min(self.batch.since + self.settings.commit_interval).saturating_sub(self.ports.clock.now())
    }

    fn poll(&mut self, wait: Duration) -> Result<Inbound, Ended> {
        let Self { ports, phases, batch, out, judge, telemetry, settings, .. } = self;
        let Ports { source, ledger, clock, .. } = ports;
        let mut on_record = |record: Record<'_>| {
            let Some(Phase::Live(live)) = phases.get_mut(&record.at) else {
                return;
            };
            if record.offset < live.next || batch.failed.is_some() {
                return;
            }
            if let Err(cause) = open(ledger, clock, batch) {
                batch.failed = Some(cause);
                return;
            }
            touch(&**judge, live);
            let input = Input {
                topic: settings.inputs.get(usize::from(record.at.topic)).map_or("", String::as_str),
                partition: record.at.partition,
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key,
                headers: record.headers,
                value: record.value,
            };
            let began = clock.now();
            let outcome = judge.step(&mut live.state, &input, out);
            telemetry.stepped(&input, outcome, out, clock.now().saturating_sub(began));
            live.next = record.offset + 1;
            live.at_end = false;
            live.last = record.timestamp.or(live.last);
            if let Some(timestamp) = record.timestamp {
                live.newest = live.newest.max(timestamp);
                batch.oldest = Some(batch.oldest.map_or(timestamp, |o| o.min(timestamp)));
            }
            batch.records += 1;
            batch.bytes += record.value.map_or(0, <[u8]>::len) + record.key.map_or(0, <[u8]>::len) + 64;
            if let Err(cause) = emit(ledger, batch, record.at, out) {
                batch.failed = Some(cause);
            }
        };
        match source.poll(wait, &mut on_record) {
            Ok(inbound) => Ok(inbound),
            Err(PortError::Transient(why)) => {
                let now = self.ports.clock.now();
                match self.said {
                    Some((at, repeated)) if now < at + SAY_EVERY => self.said = Some((at, repeated + 1)),
                    said => {
                        let repeated = said.map_or(0, |(_, n)| n);
                        tracing::info!(event = "kafka.poll", worker = self.number, error = why, repeated);
                        self.said = Some((now, 0));
                    }
                }
                Ok(Inbound::Idle)
            }
            Err(PortError::Denied(why)) if !self.committed => Err(Ended::Environment(outcome::denied(&why))),
            Err(PortError::Denied(why)) => {
                tracing::error!(event = "kafka.denied", worker = self.number, error = why);
                self.failures = self.failures.saturating_add(1);
                self.pause(Duration::from_secs(1))?;
                Ok(Inbound::Idle)
            }
            Err(error @ PortError::Fatal(_)) => Err(self.dead(&error)),
        }
    }

    /// Lets time pass for the partitions that are read.
    fn tick(&mut self) -> Result<(), Ended> {
        let at = self.ports.clock.now();
        if at < self.last_tick + TICK_EVERY {
            return Ok(());
        }
        self.last_tick = at;
        let wall = self.ports.clock.wall();
        self.tell();
        self.look_for_stalls();
        let Self { ports, phases, batch, out, judge, telemetry, settings, .. } = self;
        for (&at, phase) in phases.iter_mut() {
            let Phase::Live(live) = phase else { continue };
            if let Some(end) = ports.source.end(at) {
                // The end is some seconds old, and a record read since then does not wait.
                let records = if live.at_end { 0 } else { (end - live.next).max(0) };
                let age = live.last.filter(|_| records > 0).map_or(0, |last| (wall - last).max(0));
                telemetry.lag(at, records, age);
            }
            // A backlog must not expire calls whose next chunks still wait in it.
            let now = if live.at_end { wall } else { wall.min(live.newest) };
            if now <= live.tick {
                continue;
            }
            let fresh = !live.touched;
            if fresh {
                judge.begin(&mut live.state);
            }
            let topic = settings.inputs.get(usize::from(at.topic)).map_or("", String::as_str);
            let source = TickSource { topic, partition: at.partition, now };
            let more = judge.tick(&mut live.state, source, TICK_BUDGET, out);
            let mut wrote = !out.emissions.is_empty();
            if fresh && !wrote {
                judge.writes(&live.state, &mut |_, _| wrote = true);
            }
            if more == Remaining::None {
                live.tick = now;
            }
            if fresh && !wrote {
                judge.accept(&mut live.state);
                continue;
            }
            live.touched = true;
            telemetry.ticked(at, out);
            let emitted =
                open(&mut ports.ledger, &ports.clock, batch).and_then(|()| emit(&mut ports.ledger, batch, at, out));
            if let Err(cause) = emitted {
                batch.failed = Some(cause);
                break;
            }
        }
        match self.batch.failed.take() {
            Some(cause) => self.give_up(cause),
            None => Ok(()),
        }
    }

    /// Commits the batch: state entries, positions and offsets of every partition that was touched.
    fn settle(&mut self) -> Result<(), Ended> {
        let began = self.ports.clock.now();
        let limit = self.settings.transaction_timeout;
        let written = self.write_state();
        let commit = match written {
            Err(cause) => self.ports.ledger.abort(cause, limit),
            Ok(positions) => match self.ports.source.membership() {
                Err(error) => self.ports.ledger.abort(Cause::Generation(error.to_string()), limit),
                Ok(who) => self.ports.ledger.commit(&positions, &who, limit),
            },
        };
        if commit == Commit::Done {
            self.accept(began);
            return Ok(());
        }
        self.undo(commit)
    }

    fn write_state(&mut self) -> Result<super::port::Positions, Cause> {
        let mut positions = super::port::Positions::new();
        let Self { ports, phases, judge, settings, .. } = self;
        for (&at, phase) in phases.iter() {
            let Phase::Live(live) = phase else { continue };
            if !live.touched {
                continue;
            }
            positions.insert(at, live.next);
            if !settings.durable {
                continue;
            }
            let target = Target::State(at.topic);
            let mut put = |key: &[u8], value: Option<&[u8]>| {
                ports.ledger.publish(Publish {
                    target,
                    partition: at.partition,
                    key: Some(key),
                    headers: &[],
                    value,
                    timestamp: None,
                })
            };
            let mut result = Ok(());
            for key in &live.stale {
                result = result.and_then(|()| put(key, None));
            }
            judge.writes(&live.state, &mut |key, value| {
                if result.is_ok() {
                    result = put(key, value);
                }
            });
            result?;
            let key = settings.key_id.clone();
            let position = Position { format: FORMAT, next_offset: live.next, tick: live.tick, key };
            let value = serde_json::to_vec(&position).map_err(|e| Cause::Other(e.to_string()))?;
            put(POSITION_KEY, Some(&value))?;
        }
        Ok(positions)
    }
}

/// Opens the transaction where none is open.
fn open<L: Ledger, C: Clock>(ledger: &mut L, clock: &C, batch: &mut Batch) -> Result<(), Cause> {
    if batch.open {
        return Ok(());
    }
    ledger.begin()?;
    *batch = Batch { open: true, since: clock.now(), ..Batch::default() };
    Ok(())
}

fn touch<J: Judge>(judge: &J, live: &mut Live<J::State>) {
    if !live.touched {
        judge.begin(&mut live.state);
        live.touched = true;
    }
}

/// Publishes what a step or a tick emitted, to the input's partition number.
fn emit<L: Ledger>(ledger: &mut L, batch: &mut Batch, at: PartitionId, out: &Out) -> Result<(), Cause> {
    for emission in &out.emissions {
        batch.bytes += emission.size();
        ledger.publish(Publish {
            target: Target::Output(emission.to),
            partition: at.partition,
            key: emission.key.as_deref(),
            headers: &emission.headers,
            value: emission.value.as_deref(),
            timestamp: emission.timestamp,
        })?;
    }
    Ok(())
}
