//! The life of a partition in a worker: assigned, restored or parked, read, and given back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Ended, IDLE_WAIT, Live, Phase, PhaseKind, Worker, open};
use crate::runtime::environment::EnvironmentError;
use crate::runtime::judge::Judge;
use crate::runtime::port::{Cause, Clock, Ledger, PartitionId, PortError, Ready, Restore, Source};

/// How long a question about the width of the output topics may take.
const ASK: Duration = Duration::from_secs(5);
/// How long the lag of parked partitions may take to find out; it is only told.
const BACKLOG: Duration = Duration::from_secs(1);

impl<J, S, L, C, R> Worker<J, S, L, C, R>
where
    J: Judge,
    S: Source,
    L: Ledger<Membership = S::Membership>,
    C: Clock,
    R: Restore<J::State>,
{
    pub(super) fn assigned(&mut self, parts: &[PartitionId]) -> Result<(), Ended> {
        self.log_rebalance("assign", parts);
        self.ports.source.accept(parts).map_err(|e| self.dead(&e))?;
        let mut widths = BTreeMap::new();
        for &at in parts {
            let width = *widths.entry(at.topic).or_insert_with(|| self.width(at.topic));
            if at.partition < width { self.restore(at)? } else { self.park(at, width) }
        }
        Ok(())
    }

    /// How many partitions every topic has that a partition of this input writes to; zero where nobody says.
    fn width(&mut self, topic: u16) -> i32 {
        (0..3).find_map(|_| self.ports.source.writable(topic, ASK).ok()).unwrap_or(0)
    }

    /// Commits what is open, so that the next owner begins where this one ended; then gives the partitions back.
    pub(super) fn revoked(&mut self, parts: &[PartitionId]) -> Result<(), Ended> {
        self.log_rebalance("revoke", parts);
        if self.batch.open {
            self.settle()?;
        }
        self.forget(parts);
        self.ports.source.release(parts).map_err(|e| self.dead(&e))
    }

    /// The partitions belong to others already: what is open may not be committed.
    pub(super) fn lost(&mut self, parts: &[PartitionId]) -> Result<(), Ended> {
        self.log_rebalance("lost", parts);
        self.forget(parts);
        if self.batch.open {
            self.give_up(Cause::Generation("the assignment was lost".into()))?;
        }
        self.ports.source.release(parts).map_err(|e| self.dead(&e))
    }

    pub(super) fn forget(&mut self, parts: &[PartitionId]) {
        for &at in parts {
            if let Some(Phase::Restoring { .. }) = self.phases.remove(&at) {
                self.ports.restore.cancel(at);
            }
            self.telemetry.phase(at, None);
        }
    }

    /// Asks for the state of a partition, which is not read until it is there.
    pub(super) fn restore(&mut self, at: PartitionId) -> Result<(), Ended> {
        self.tickets += 1;
        self.telemetry.phase(at, Some(PhaseKind::Restoring));
        self.phases.insert(at, Phase::Restoring { ticket: self.tickets, since: self.ports.clock.now() });
        if self.settings.durable {
            self.ports.restore.request(at, self.tickets);
            return Ok(());
        }
        let topic = self.settings.inputs.get(usize::from(at.topic)).map_or("", String::as_str);
        let state = self.judge.open(topic, at.partition);
        self.restored(at, Ready { state, offset: 0, tick: 0, first: false, stale: Vec::new() })?;
        self.start(at)
    }

    pub(super) fn finish_restores(&mut self) -> Result<(), Ended> {
        let mut answers = Vec::new();
        while let Some((at, ticket, answer)) = self.ports.restore.ready() {
            match self.phases.get(&at) {
                Some(Phase::Restoring { ticket: asked, since }) if *asked == ticket => {
                    self.telemetry.restored(at, self.ports.clock.now().saturating_sub(*since));
                }
                _ => continue,
            }
            answers.push((at, ticket, answer.map_err(Ended::Environment)?));
        }
        if answers.is_empty() {
            return Ok(());
        }
        self.bury(&answers.iter().map(|(at, ..)| *at).collect::<Vec<_>>())?;
        let mut restored = Vec::new();
        for (at, ticket, ready) in answers {
            // What was buried may have cost the assignment.
            if matches!(self.phases.get(&at), Some(Phase::Restoring { ticket: asked, .. }) if *asked == ticket) {
                self.restored(at, ready)?;
                restored.push(at);
            }
        }
        let first = |at: &PartitionId| matches!(self.phases.get(at), Some(Phase::Live(live)) if live.first);
        if restored.iter().any(first) {
            // Before the first poll: what arrives while we are down later must not be skipped.
            self.settle()?;
        }
        restored.into_iter().try_for_each(|at| self.start(at))
    }

    /// Takes the state over; a beginning is written down with the next commit.
    fn restored(&mut self, at: PartitionId, ready: Ready<J::State>) -> Result<(), Ended> {
        let Ready { state, offset, tick, first, stale } = ready;
        let mut live = Live {
            state,
            next: offset,
            committed: offset,
            tick,
            newest: 0,
            last: None,
            at_end: false,
            touched: false,
            first,
            stale,
            waits: None,
        };
        let opened = if first { open(&mut self.ports.ledger, &self.ports.clock, &mut self.batch) } else { Ok(()) };
        if first {
            super::touch(&*self.judge, &mut live);
        }
        self.telemetry.phase(at, Some(PhaseKind::Live));
        self.phases.insert(at, Phase::Live(Box::new(live)));
        opened.or_else(|cause| self.give_up(cause))
    }

    /// Reads a partition whose beginning is committed.
    fn start(&mut self, at: PartitionId) -> Result<(), Ended> {
        match self.phases.get(&at) {
            Some(Phase::Live(live)) if !live.first => {
                let next = live.next;
                self.ports.source.start(at, next).map_err(|e| self.dead(&e))
            }
            _ => Ok(()),
        }
    }

    fn park(&mut self, at: PartitionId, width: i32) {
        let topic = self.settings.inputs.get(usize::from(at.topic)).map_or("", String::as_str);
        let narrow = self.ports.source.narrow(at.topic);
        tracing::error!(
            event = "partition.parked",
            topic,
            partition = at.partition,
            writable = width,
            why = narrow.as_deref().unwrap_or("the partitions of its outputs are not known yet"),
            repair = "run `sluicegate topics apply`",
        );
        if let Some(why) = narrow {
            self.telemetry.narrow(at.topic, &why);
        }
        self.telemetry.phase(at, Some(PhaseKind::Parked));
        self.phases.insert(at, Phase::Parked { seen: None });
    }

    /// Partitions that waited for a wider output topic are taken up once the producer has seen it too.
    pub(super) fn look_at_outputs(&mut self) -> Result<(), Ended> {
        let now = self.ports.clock.now();
        let refresh = self.settings.metadata_refresh;
        if now < self.last_look + refresh / 2 || self.batch.open {
            return Ok(());
        }
        self.last_look = now;
        let parked: Vec<_> =
            self.phases.iter().filter(|(_, p)| matches!(p, Phase::Parked { .. })).map(|(at, _)| *at).collect();
        if !parked.is_empty() {
            for (at, records) in self.ports.source.backlog(&parked, BACKLOG) {
                self.telemetry.lag(at, records, 0);
            }
        }
        let mut widths = BTreeMap::new();
        for at in parked {
            let width = *widths.entry(at.topic).or_insert_with(|| self.width(at.topic));
            let Some(Phase::Parked { seen }) = self.phases.get_mut(&at) else {
                continue;
            };
            match *seen {
                _ if at.partition >= width => *seen = None,
                None => *seen = Some(now),
                Some(since) if now >= since + refresh => {
                    tracing::info!(event = "partition.unparked", partition = at.partition);
                    self.restore(at)?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Finishes the batch of a worker that was asked to end.
    pub(super) fn drain(&mut self) -> Ended {
        if self.stop.forced() {
            return Ended::Forced;
        }
        match if self.batch.open { self.settle() } else { Ok(()) } {
            Ok(()) => Ended::Drained,
            Err(ended) => ended,
        }
    }

    /// Aborts what is open and leaves the group.
    pub(super) fn leave(&mut self, ended: &Ended) {
        if self.batch.open {
            let _ = self.ports.ledger.abort(Cause::Other("the worker ends".into()), IDLE_WAIT * 20);
        }
        let parts: Vec<_> = self.phases.keys().copied().collect();
        self.forget(&parts);
        if let Err(error) = self.ports.source.stop(&parts) {
            tracing::debug!(event = "worker.stop", error = %error);
        }
        self.ports.source.close();
        tracing::info!(event = "worker.ended", worker = self.number, ended = ended.name());
    }

    pub(super) fn log_rebalance(&self, kind: &'static str, parts: &[PartitionId]) {
        tracing::info!(event = "group.rebalance", worker = self.number, kind, partitions = parts.len());
        self.telemetry.rebalanced(self.number, kind, parts.len());
    }

    /// A source that refuses a change of its assignment cannot be trusted any more.
    pub(super) fn dead(&self, error: &PortError) -> Ended {
        tracing::error!(event = "worker.fatal", worker = self.number, error = %error);
        Ended::Environment(EnvironmentError::new(
            "client_dead",
            error.to_string(),
            "restart the process; the message names the cause",
        ))
    }
}
