//! What a worker tells, as metrics and health.

use super::admin::{Health, Phase};
use super::canary;
use super::judge::{Input, Observation, Out, Outcome, To};
use super::port::{Cause, PartitionId};
use super::settings::Settings;
use super::telemetry::{Metrics, float};
use super::worker::{PhaseKind, Telemetry};
use crate::engine::verdict::Checkpoint;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What counts only if the open transaction commits. A worker is a thread, so it stands in a thread local.
#[derive(Debug, Default)]
struct Pending {
    /// The record's timestamp and its verdict's lane.
    latencies: Vec<(i64, &'static str)>,
    /// Records and bytes by output.
    produced: [(u64, u64); 4],
}

impl Pending {
    /// An expiry has no timestamp: its latency says nothing, since what it waited for never came.
    fn take(&mut self, timestamp: Option<i64>, out: &Out) {
        for o in &out.observations {
            if let (Some(timestamp), Observation::Verdict { checkpoint, .. }) = (timestamp, o) {
                let call = matches!(checkpoint, Checkpoint::ToolCall | Checkpoint::ToolStart);
                self.latencies.push((timestamp, if call { "call" } else { "result" }));
            }
        }
        self.produced(out);
    }

    fn produced(&mut self, out: &Out) {
        for emission in &out.emissions {
            let (records, bytes) = match emission.to {
                To::Verdicts => &mut self.produced[0],
                To::Redacted => &mut self.produced[1],
                To::DeadLetters => &mut self.produced[2],
                To::Sightings => &mut self.produced[3],
            };
            *records += 1;
            *bytes += (emission.key.as_ref().map_or(0, Vec::len) + emission.value.as_ref().map_or(0, Vec::len)) as u64;
        }
    }
}

thread_local! {
    static PENDING: RefCell<Pending> = RefCell::default();
}

/// See the module.
pub struct Reporter {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    inputs: Vec<String>,
    outputs: [String; 4],
    assigned: Mutex<BTreeMap<PartitionId, Assigned>>,
    /// Bytes that wait inside the clients of workers.
    queued: Mutex<BTreeMap<(&'static str, u32), u64>>,
    /// Round trips to brokers, by worker.
    round_trips: Mutex<BTreeMap<u32, BTreeMap<i32, Duration>>>,
}

/// What is told of a partition that is assigned.
#[derive(Debug, Default)]
struct Assigned {
    /// How old the last record read is where others wait, in milliseconds.
    age: i64,
    stalled: bool,
}

impl Reporter {
    pub fn new(metrics: &Arc<Metrics>, health: &Arc<Health>, settings: &Settings) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            health: Arc::clone(health),
            inputs: settings.inputs.clone(),
            outputs: settings.outputs().map(str::to_owned),
            assigned: Mutex::default(),
            queued: Mutex::default(),
            round_trips: Mutex::default(),
        }
    }

    /// The partition of a topic that is furthest behind.
    fn lag_seconds(&self, topic: u16, assigned: &BTreeMap<PartitionId, Assigned>) {
        let ms = assigned.iter().filter(|(at, _)| at.topic == topic).map(|(_, a)| a.age).max().unwrap_or(0);
        let age = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        self.metrics.consumer_lag_seconds.set([self.input(topic)], age.as_secs_f64());
    }

    fn count_stalled(&self, topic: u16, assigned: &BTreeMap<PartitionId, Assigned>) {
        let n = assigned.iter().filter(|(at, a)| at.topic == topic && a.stalled).count();
        self.metrics.stalled_partitions.set([self.input(topic)], float(n as u64));
    }

    /// What waited for the transaction to commit.
    fn count_pending(&self) {
        let m = &self.metrics;
        let now = wall();
        PENDING.with_borrow_mut(|p| {
            for (timestamp, lane) in p.latencies.drain(..) {
                let ms = u64::try_from(now - timestamp).unwrap_or(0);
                m.end_to_end_latency.observe([lane], Duration::from_millis(ms).as_secs_f64());
            }
            for (topic, (records, bytes)) in self.outputs.iter().zip(std::mem::take(&mut p.produced)) {
                if records > 0 {
                    m.records_produced.add([topic], records);
                    m.record_bytes_produced.add([topic], bytes);
                }
            }
        });
    }

    fn topic(&self, at: PartitionId) -> &str {
        self.input(at.topic)
    }

    fn input(&self, topic: u16) -> &str {
        self.inputs.get(usize::from(topic)).map_or("", String::as_str)
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wall() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

impl Telemetry for Reporter {
    fn stepped(&self, input: &Input<'_>, outcome: Outcome, out: &Out, took: Duration) {
        let m = &self.metrics;
        let bytes = input.key.map_or(0, <[u8]>::len) + input.value.map_or(0, <[u8]>::len);
        m.records_consumed.inc([input.topic]);
        m.record_bytes_consumed.add([input.topic], bytes as u64);
        m.record_outcomes.inc([match outcome {
            Outcome::Judged => "judged",
            Outcome::Passed => "passed",
            Outcome::Rejected(_) => "rejected",
        }]);
        m.stage_duration.observe(["step"], took.as_secs_f64());
        if canary::is(input) {
            return PENDING.with_borrow_mut(|p| p.produced(out));
        }
        if let Outcome::Rejected(_) = outcome {
            for o in &out.observations {
                if let Observation::DeadLetter { reason } = o {
                    m.decode_failures.inc([input.topic, reason]);
                }
            }
        }
        m.observe(&out.observations);
        PENDING.with_borrow_mut(|p| p.take(input.timestamp, out));
    }

    fn ticked(&self, _at: PartitionId, out: &Out) {
        self.metrics.observe(&out.observations);
        PENDING.with_borrow_mut(|p| p.take(None, out));
    }

    fn committed(&self, _worker: u32, records: u64, took: Duration) {
        let m = &self.metrics;
        m.transactions.inc(["committed"]);
        m.transaction_duration.observe([], took.as_secs_f64());
        m.stage_duration.observe(["commit"], took.as_secs_f64());
        m.transaction_records.observe([], float(records));
        self.count_pending();
    }

    fn undone(&self, _worker: u32, outcome: &'static str, cause: &Cause) {
        self.metrics.transactions.inc([outcome]);
        self.metrics.transaction_aborts.inc([cause.label()]);
        if outcome == "aborted" {
            PENDING.with_borrow_mut(|p| *p = Pending::default());
        }
    }

    fn rebuilt(&self, _worker: u32, reason: &'static str, committed: bool) {
        self.metrics.producer_rebuilds.inc([reason]);
        if committed {
            self.count_pending();
        }
        PENDING.with_borrow_mut(|p| *p = Pending::default());
    }

    fn rebalanced(&self, worker: u32, kind: &'static str, _parts: usize) {
        self.metrics.rebalances.inc([kind]);
        if kind == "assign" {
            self.health.joined(worker, true);
        } else if kind == "lost" {
            self.health.joined(worker, false);
        }
    }

    fn restored(&self, _at: PartitionId, took: Duration) {
        self.metrics.restore_duration.observe([], took.as_secs_f64());
    }

    fn phase(&self, at: PartitionId, phase: Option<PhaseKind>) {
        let topic = self.topic(at);
        self.health.phase(
            topic,
            at.partition,
            phase.map(|p| match p {
                PhaseKind::Restoring => Phase::Restoring,
                PhaseKind::Live => Phase::Live,
                PhaseKind::Parked => Phase::Parked,
            }),
        );
        let mut assigned = lock(&self.assigned);
        match phase {
            Some(_) => assigned.entry(at).or_default().stalled = false,
            None => {
                assigned.remove(&at);
                self.metrics.consumer_lag_records.remove([topic, &at.partition.to_string()]);
            }
        }
        let n = assigned.keys().filter(|p| p.topic == at.topic).count();
        self.metrics.assigned_partitions.set([topic], float(n as u64));
        self.lag_seconds(at.topic, &assigned);
        self.count_stalled(at.topic, &assigned);
    }

    fn narrow(&self, topic: u16, why: &str) {
        self.health.narrow(self.input(topic), why.to_owned());
    }

    fn stalled(&self, at: PartitionId, stalled: bool) {
        let mut assigned = lock(&self.assigned);
        let known = assigned.get_mut(&at).filter(|known| known.stalled != stalled);
        if let Some(known) = known {
            known.stalled = stalled;
            self.count_stalled(at.topic, &assigned);
        }
    }

    fn partitions(&self, topic: u16, partitions: i32) {
        self.metrics.topic_partitions.set([self.input(topic)], f64::from(partitions));
    }

    fn queued(&self, worker: u32, client: &'static str, bytes: u64) {
        let mut queued = lock(&self.queued);
        queued.insert((client, worker), bytes);
        let all = queued.iter().filter(|((of, _), _)| *of == client).map(|(_, bytes)| bytes).sum();
        self.metrics.queue_bytes.set([client], float(all));
    }

    fn round_trips(&self, worker: u32, p99: &BTreeMap<i32, Duration>) {
        let mut all = lock(&self.round_trips);
        let before = all.insert(worker, p99.clone()).unwrap_or_default();
        for broker in before.keys().chain(p99.keys()) {
            let slowest = all.values().filter_map(|of| of.get(broker)).max();
            let label = [&*broker.to_string()];
            match slowest {
                Some(slowest) => self.metrics.broker_rtt.set(label, slowest.as_secs_f64()),
                None => self.metrics.broker_rtt.remove(label),
            }
        }
    }

    fn lag(&self, at: PartitionId, records: i64, ms: i64) {
        let lag = float(u64::try_from(records).unwrap_or(0));
        self.metrics.consumer_lag_records.set([self.topic(at), &at.partition.to_string()], lag);
        self.health.lag(self.topic(at), at.partition, records);
        let mut assigned = lock(&self.assigned);
        if let Some(known) = assigned.get_mut(&at) {
            known.age = ms;
        }
        self.lag_seconds(at.topic, &assigned);
    }

    fn alive(&self, worker: u32, ready: bool, open: Option<Duration>) {
        self.health.polled(worker, ready);
        self.health.transaction(worker, open);
    }

    fn waits(&self, worker: u32, why: &str) {
        self.health.waits(worker, why);
    }

    fn connected(&self, worker: u32, brokers: usize) {
        self.health.connected(worker, brokers);
    }

    fn replayed(&self, records: u64) {
        self.metrics.restored_records.add([], records);
    }

    fn restoring(&self, records: u64) {
        self.metrics.restore_remaining.set([], float(records));
    }
}
