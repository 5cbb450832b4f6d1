//! How a transaction ended, and what follows for the state in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Batch, Ended, Phase, Worker};
use crate::runtime::environment::EnvironmentError;
use crate::runtime::judge::{Judge, To};
use crate::runtime::port::{Cause, Clock, Commit, Ledger, PartitionId, PortError, Positions, Restore, Source, Target};

/// How long one attempt to make a producer or to fetch offsets may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// How long the lag may be asked for while nothing can be committed.
const LOOK: Duration = Duration::from_secs(1);
/// How many times a minute another producer may take our name before we give way.
const FENCED_MAX: usize = 3;

impl<J, S, L, C, R> Worker<J, S, L, C, R>
where
    J: Judge,
    S: Source,
    L: Ledger<Membership = S::Membership>,
    C: Clock,
    R: Restore<J::State>,
{
    /// The first producer, within the start-up time: it fences what a predecessor left open.
    pub(super) fn first_producer(&mut self) -> Result<(), Ended> {
        let until = self.ports.clock.now() + self.settings.startup_timeout;
        loop {
            let who = self.ports.source.membership();
            let made = who.and_then(|who| self.ports.ledger.rebuild(&who, ATTEMPT.min(self.settings.startup_timeout)));
            match made {
                Ok(()) => return Ok(()),
                Err(_) if self.stop.draining() => return Err(Ended::Drained),
                Err(PortError::Transient(why)) if self.ports.clock.now() < until => {
                    tracing::warn!(event = "producer.waiting", worker = self.number, error = why);
                    self.pause(Duration::from_millis(200))?;
                }
                Err(error) => return Err(producer_error(error.to_string())),
            }
        }
    }

    /// What earlier processes of our name left open in the outputs of these partitions, as they may have where they
    /// died while brokers were away. Once a partition: later on the producer knows what it wrote.
    pub(super) fn bury(&mut self, parts: &[PartitionId]) -> Result<(), Ended> {
        let fresh: Vec<PartitionId> = parts.iter().copied().filter(|at| !self.buried.contains(at)).collect();
        if fresh.is_empty() || !self.settings.durable {
            return Ok(());
        }
        if self.batch.open {
            self.settle()?;
        }
        let outputs = [To::Verdicts, To::Redacted, To::DeadLetters, To::Sightings];
        let written = |at: &PartitionId| outputs.map(Target::Output).into_iter().chain([Target::State(at.topic)]);
        let all: Vec<(Target, i32)> = fresh.iter().flat_map(|at| written(at).map(|to| (to, at.partition))).collect();
        let buried = self.ports.source.membership().and_then(|who| self.ports.ledger.bury(&all, &who, ATTEMPT));
        self.buried.extend(fresh);
        match buried {
            Ok(()) => Ok(()),
            Err(PortError::Denied(why)) if !self.committed => Err(Ended::Environment(denied(&why))),
            // The ledger knows what is left, and the new producer waits for it.
            Err(error) => self.undo(Commit::Indefinite(Cause::Other(error.to_string()))),
        }
    }

    pub(super) fn accept(&mut self, began: Duration) {
        for phase in self.phases.values_mut() {
            if let Phase::Live(live) = phase
                && live.touched
            {
                self.judge.accept(&mut live.state);
                live.committed = live.next;
                live.stale = Vec::new();
                live.first = false;
                live.touched = false;
            }
        }
        let now = self.ports.clock.now();
        self.telemetry.committed(self.number, self.batch.records, now.saturating_sub(began));
        if let Some(oldest) = self.batch.oldest {
            self.telemetry.latency(self.number, self.ports.clock.wall() - oldest);
        }
        self.batch = Batch::default();
        self.last_commit = now;
        self.committed = true;
        self.failures = 0;
    }

    /// Aborts the open transaction and reads its records again.
    pub(super) fn give_up(&mut self, cause: Cause) -> Result<(), Ended> {
        let commit = match self.batch.open {
            true => self.ports.ledger.abort(cause, self.settings.transaction_timeout),
            // The transaction could not even begin.
            false if matches!(cause, Cause::Fenced(_)) => Commit::Fenced(cause),
            false => Commit::Indefinite(cause),
        };
        self.undo(commit)
    }

    /// Everything but `Done`.
    pub(super) fn undo(&mut self, commit: Commit) -> Result<(), Ended> {
        let (cause, outcome) = match &commit {
            Commit::Done => return Ok(()),
            Commit::Aborted(cause) => (cause, "aborted"),
            Commit::Indefinite(cause) => (cause, "abandoned"),
            Commit::Fenced(cause) => (cause, "fenced"),
        };
        tracing::warn!(
            event = "transaction.undone", worker = self.number, outcome, cause = cause.label(), error = %cause,
            records = self.batch.records,
        );
        self.telemetry.undone(self.number, outcome, cause);
        self.telemetry.waits(self.number, &cause.to_string());
        if let Cause::TooLarge { topic, bytes } = cause {
            let error = EnvironmentError::new(
                "output_too_large",
                format!(
                    "a batch for topic {topic} was refused as too large; the record that was told of has {bytes} bytes"
                ),
                format!(
                    "raise max.message.bytes of {topic}: it bounds a whole batch, as compressed, and a batch has up to \
                     kafka.properties batch.size bytes (1000000), or one record; or lower batch.size, \
                     engine.limits.redacted_record_bytes and engine.limits.verdict_bytes"
                ),
            );
            return Err(Ended::Environment(error));
        }
        if let Cause::Denied(why) = cause
            && !self.committed
        {
            return Err(Ended::Environment(denied(why)));
        }
        self.failures = self.failures.saturating_add(1);
        match &commit {
            Commit::Fenced(_) => {
                let now = self.ports.clock.now();
                // The broker fences too what was open for too long, and says the same.
                let late = self.late(now);
                self.fenced.retain(|at| now.saturating_sub(*at) < Duration::from_secs(60));
                self.say_fenced(late);
                if !late {
                    self.fenced.push(now);
                }
                if self.fenced.len() >= FENCED_MAX {
                    return Err(Ended::Environment(EnvironmentError::new(
                        "producer_fenced",
                        format!("another process uses transactional.id {}", self.transactional_id()),
                        "give each instance its own kafka.instance, or stop the other one",
                    )));
                }
                // Two that fence each other in step would never find out who stays.
                let jitter = u64::try_from(self.ports.clock.wall()).unwrap_or(0) % 500;
                self.pause(Duration::from_millis(jitter))?;
                self.settle_unknown("fenced")?;
            }
            Commit::Indefinite(cause) => {
                let reason = cause.label();
                self.settle_unknown(reason)?;
            }
            _ => self.roll_back()?,
        }
        self.batch = Batch::default();
        self.last_commit = self.ports.clock.now();
        // An abort that repeats is not helped by haste.
        let pause = Duration::from_millis(20) * (1 << self.failures.min(6));
        if self.failures > 1 { self.pause(pause) } else { Ok(()) }
    }

    fn transactional_id(&self) -> String {
        self.settings.transactional_id(self.number)
    }

    /// The transaction was open for longer than its timeout.
    fn late(&self, now: Duration) -> bool {
        self.batch.open && now.saturating_sub(self.batch.since) >= self.settings.transaction_timeout
    }

    fn say_fenced(&self, late: bool) {
        // One line a minute of another process.
        if !late && !self.fenced.is_empty() {
            return;
        }
        let (worker, id) = (self.number, self.transactional_id());
        if late {
            tracing::error!(
                event = "producer.fenced",
                worker,
                "a transaction of {id} was open for longer than worker.transaction_timeout, and the broker ended it: \
                 look for a process that was stopped or starved"
            );
        } else {
            tracing::error!(
                event = "producer.fenced",
                worker,
                "another process uses transactional.id {id}: give each instance its own kafka.instance"
            );
        }
    }

    /// A new producer settles what the old one left; then the committed offsets say how it went.
    fn settle_unknown(&mut self, reason: &'static str) -> Result<(), Ended> {
        let mine: Vec<PartitionId> = self.phases.keys().copied().collect();
        self.ports.source.stop(&mine).map_err(|e| self.dead(&e))?;
        let (committed, done) = loop {
            match self.rebuilt() {
                Ok(found) => break found,
                Err(error @ PortError::Fatal(_)) => return Err(self.dead(&error)),
                // Nothing can be finished; what is open ends with the transaction's timeout.
                Err(_) if self.stop.draining() => return Err(Ended::Forced),
                Err(PortError::Denied(why)) if !self.committed => return Err(Ended::Environment(denied(&why))),
                Err(error) => {
                    tracing::warn!(event = "producer.waiting", worker = self.number, %error);
                    self.telemetry.alive(self.number, false, None);
                    self.telemetry.waits(self.number, &error.to_string());
                    self.tell_waiting();
                    self.look_for_stalls();
                    self.pause(Duration::from_millis(500))?;
                }
            }
        };
        tracing::info!(event = "transaction.resolved", worker = self.number, reason, committed = done);
        self.telemetry.rebuilt(self.number, reason, done || !self.settings.durable);
        let (mut again, mut started) = (Vec::new(), Vec::new());
        for (&at, phase) in &mut self.phases {
            let Phase::Live(live) = phase else { continue };
            if live.touched {
                let found = committed.get(&at).copied().flatten();
                live.touched = false;
                // The embedded broker forgets offsets; what it was given it shows.
                if done || !self.settings.durable {
                    self.judge.accept(&mut live.state);
                    live.committed = live.next;
                    live.stale = Vec::new();
                    live.first = false;
                } else if found == Some(live.committed) && !live.first {
                    self.judge.rollback(&mut live.state);
                    live.next = live.committed;
                } else {
                    again.push(at);
                    continue;
                }
            }
            live.at_end = false;
            started.push((at, live.next));
        }
        for (at, next) in started {
            self.ports.source.start(at, next).map_err(|e| self.dead(&e))?;
        }
        for at in again {
            self.restore(at)?;
        }
        Ok(())
    }

    /// The lag of partitions that are not read meanwhile: as the broker says, or else what was read and is not
    /// committed.
    fn tell_waiting(&mut self) {
        let parts: Vec<PartitionId> = self.phases.keys().copied().collect();
        let told: BTreeMap<PartitionId, i64> = self.ports.source.backlog(&parts, LOOK).into_iter().collect();
        let wall = self.ports.clock.wall();
        for (&at, phase) in &self.phases {
            let Phase::Live(live) = phase else { continue };
            let records = told.get(&at).copied().unwrap_or(live.next - live.committed).max(0);
            let age = live.last.filter(|_| records > 0).map_or(0, |last| (wall - last).max(0));
            self.telemetry.lag(at, records, age);
        }
    }

    /// The committed offsets, and whether they say that the transaction was committed. One that was not is buried
    /// before anything else is written. Without touched partitions (the assignment was lost) nothing was committed.
    fn rebuilt(&mut self) -> Result<(BTreeMap<PartitionId, Option<i64>>, bool), PortError> {
        let who = self.ports.source.membership()?;
        self.ports.ledger.rebuild(&who, ATTEMPT)?;
        self.ports.source.serve();
        self.leave_lost()?;
        let touched: Positions = self
            .phases
            .iter()
            .filter_map(|(at, phase)| match phase {
                Phase::Live(live) if live.touched => Some((*at, live.next)),
                _ => None,
            })
            .collect();
        let parts: Vec<PartitionId> = touched.keys().copied().collect();
        let committed = match parts.is_empty() {
            true => BTreeMap::new(),
            false => self.ports.source.committed(&parts, ATTEMPT)?,
        };
        let done =
            !touched.is_empty() && touched.iter().all(|(at, next)| committed.get(at).copied().flatten() == Some(*next));
        if !done {
            self.ports.ledger.bury(&[], &who, ATTEMPT)?;
        }
        Ok((committed, done))
    }

    /// Offsets of partitions that others own are not waited for: they are told only while their owner has no
    /// transaction open, which may be hardly ever.
    fn leave_lost(&mut self) -> Result<(), PortError> {
        while let Some(parts) = self.ports.source.take_lost() {
            self.log_rebalance("lost", &parts);
            self.forget(&parts);
            self.ports.source.release(&parts)?;
        }
        Ok(())
    }

    /// The transaction is certainly aborted: forget what it changed, and read its records again.
    fn roll_back(&mut self) -> Result<(), Ended> {
        let (mut again, mut started) = (Vec::new(), Vec::new());
        for (&at, phase) in &mut self.phases {
            let Phase::Live(live) = phase else { continue };
            if !live.touched {
                continue;
            }
            if live.first {
                again.push(at);
                continue;
            }
            self.judge.rollback(&mut live.state);
            live.touched = false;
            live.at_end = false;
            live.next = live.committed;
            started.push((at, live.committed));
        }
        for (at, next) in started {
            let moved = self.ports.source.stop(&[at]).and_then(|()| self.ports.source.start(at, next));
            moved.map_err(|e| self.dead(&e))?;
        }
        for at in again {
            self.restore(at)?;
        }
        Ok(())
    }

    /// Sleeps in small steps, serving the membership; ends early when the process is forced to stop.
    pub(super) fn pause(&mut self, time: Duration) -> Result<(), Ended> {
        let until = self.ports.clock.now() + time;
        loop {
            if self.stop.forced() {
                return Err(Ended::Forced);
            }
            let left = until.saturating_sub(self.ports.clock.now());
            if left.is_zero() {
                return Ok(());
            }
            self.ports.clock.sleep(left.min(Duration::from_millis(50)));
        }
    }
}

fn producer_error(why: String) -> Ended {
    Ended::Environment(EnvironmentError::new(
        "producer_init",
        format!("the transactional producer could not start: {why}"),
        "check that the broker is up, that this principal may Write and Describe the transactional id, and that \
         the transaction coordinator has its replicas (transaction.state.log.replication.factor)",
    ))
}

pub(super) fn denied(why: &str) -> EnvironmentError {
    EnvironmentError::new(
        "kafka_denied",
        format!("the broker does not permit it: {why}"),
        "grant this principal Read and Describe on inputs and state topics, Write, Describe and DescribeConfigs on \
         outputs and state topics, Read and Describe on the group, Write and Describe on the transactional id",
    )
}
