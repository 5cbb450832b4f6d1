//! What a worker tells of its clients, and which partitions it calls stalled.

use std::time::Duration;

use super::{Live, Phase, Worker};
use crate::runtime::judge::Judge;
use crate::runtime::port::{Clock, Ledger, Restore, Source};

/// How long records may wait in a partition that is read, without a commit, before it is stalled.
const STALL_AFTER: Duration = Duration::from_secs(30);

impl<J, S, L, C, R> Worker<J, S, L, C, R>
where
    J: Judge,
    S: Source,
    L: Ledger<Membership = S::Membership>,
    C: Clock,
    R: Restore<J::State>,
{
    /// What is known only now and then is told again each time, which changes nothing.
    pub(super) fn tell(&self) {
        let (source, told, number) = (&self.ports.source, &self.telemetry, self.number);
        if let Some(brokers) = source.brokers() {
            told.connected(number, brokers);
        }
        if let Some(bytes) = source.queued() {
            told.queued(number, "consumer", bytes);
        }
        if let Some(figures) = self.ports.ledger.figures() {
            told.queued(number, "producer", figures.queued);
            told.round_trips(number, &figures.round_trips);
        }
        for topic in (0..self.settings.inputs.len()).filter_map(|n| u16::try_from(n).ok()) {
            if let Some(partitions) = source.partitions(topic) {
                told.partitions(topic, partitions);
            }
        }
    }

    /// Also while a producer is waited for, when nothing else of a partition is told.
    pub(super) fn look_for_stalls(&mut self) {
        let Self { ports, phases, telemetry, .. } = self;
        let now = ports.clock.now();
        for (&at, phase) in phases {
            if let Phase::Live(live) = phase {
                telemetry.stalled(at, live.stalled(now, ports.source.end(at), ports.source.unfetched(at)));
            }
        }
    }
}

impl<S> Live<S> {
    /// Whether records wait, and none was committed for a while. `end` is that of the log, `unfetched` what the client
    /// has still to fetch up to it.
    ///
    /// At the end of a log a transaction's marker stands behind the last record and is never read, so there only what
    /// the client has not fetched waits.
    pub(super) fn stalled(&mut self, now: Duration, end: Option<i64>, unfetched: Option<i64>) -> bool {
        let idle = self.at_end && self.next == self.committed;
        let waits = if idle { unfetched.unwrap_or(0) > 0 } else { end.unwrap_or(0).max(self.next) > self.committed };
        let since = self.waits.filter(|(committed, _)| *committed == self.committed);
        self.waits = waits.then(|| since.unwrap_or((self.committed, now)));
        self.waits.is_some_and(|(_, since)| now.saturating_sub(since) >= STALL_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    fn live(at_end: bool, next: i64, committed: i64) -> Live<()> {
        Live {
            state: (),
            next,
            committed,
            tick: 0,
            newest: 0,
            last: None,
            at_end,
            touched: false,
            first: false,
            stale: Vec::new(),
            waits: None,
        }
    }

    /// Looks once a second, and gives the second at which it was stalled first.
    fn first(live: &mut Live<()>, end: i64, unfetched: i64, mut each: impl FnMut(u64, &mut Live<()>)) -> Option<u64> {
        (0..120).find(|second| {
            each(*second, live);
            live.stalled(Duration::from_secs(*second), Some(end), Some(unfetched))
        })
    }

    #[test]
    fn a_partition_is_stalled_when_records_wait_and_none_is_committed() {
        let still = |_: u64, _: &mut Live<()>| {};
        assert_eq!(first(&mut live(false, 5, 5), 9, 4, still), Some(30), "nothing is read");
        assert_eq!(first(&mut live(true, 9, 5), 9, 0, still), Some(30), "what was read is not committed");
        assert_eq!(first(&mut live(true, 9, 9), 12, 3, still), Some(30), "the client stopped fetching at the end");
        assert_eq!(first(&mut live(true, 9, 9), 10, 0, still), None, "only a marker stands behind the last record");
        assert_eq!(first(&mut live(false, 5, 5), 5, 0, still), None, "there is none");
        assert!(!live(false, 5, 5).stalled(ZERO, None, None), "not known");
    }

    #[test]
    fn a_commit_begins_the_wait_anew() {
        let slow = |second: u64, live: &mut Live<()>| {
            if second.is_multiple_of(20) && second < 60 {
                live.next += 1;
                live.committed += 1;
            }
        };
        assert_eq!(first(&mut live(false, 5, 5), 99, 50, slow), Some(70));
        let again = |_: u64, live: &mut Live<()>| live.next = if live.next == 7 { 5 } else { 7 };
        assert_eq!(first(&mut live(false, 5, 5), 99, 50, again), Some(30), "the same records again and again");
        let mut idle = live(true, 9, 9);
        assert!(!idle.stalled(ZERO, Some(9), Some(0)));
        idle.at_end = false;
        let later = |seconds: u64| Duration::from_secs(3600 + seconds);
        assert!(!idle.stalled(later(0), Some(12), Some(3)), "an hour without records is no wait");
        assert!(!idle.stalled(later(29), Some(12), Some(3)));
        assert!(idle.stalled(later(30), Some(12), Some(3)));
    }
}
