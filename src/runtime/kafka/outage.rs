//! What is said while brokers are away: the first line of each kind, then a line now and then, with a count.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often one kind of line is repeated at most.
const EVERY: Duration = Duration::from_secs(30);
/// Kinds are the client's facilities and error codes, which are few.
const KINDS: usize = 256;

#[derive(Debug, Default)]
struct Kind {
    said: Option<Instant>,
    held_back: u64,
}

#[derive(Debug, Default)]
struct Lines {
    kinds: BTreeMap<String, Kind>,
    /// Since when no broker answers.
    away: Option<Instant>,
}

impl Lines {
    /// How many lines of this kind were held back since the last one; `None`: this one is held back too.
    fn due(&mut self, kind: &str, now: Instant) -> Option<u64> {
        if !self.kinds.contains_key(kind) && self.kinds.len() >= KINDS {
            self.kinds.clear();
        }
        let known = self.kinds.entry(kind.to_owned()).or_default();
        if known.said.is_some_and(|at| now.saturating_duration_since(at) < EVERY) {
            known.held_back += 1;
            return None;
        }
        known.said = Some(now);
        Some(std::mem::take(&mut known.held_back))
    }
}

static LINES: Mutex<Option<Lines>> = Mutex::new(None);

fn lines() -> MutexGuard<'static, Option<Lines>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`Lines::due`], for the process.
pub(crate) fn due(kind: &str) -> Option<u64> {
    lines().get_or_insert_default().due(kind, Instant::now())
}

/// No broker answers; says so, with how long.
pub(crate) fn down(reason: &str) {
    let (due, away) = {
        let mut lines = lines();
        let lines = lines.get_or_insert_default();
        let now = Instant::now();
        (lines.due("all brokers down", now), now.saturating_duration_since(*lines.away.get_or_insert(now)))
    };
    if let Some(repeated) = due {
        tracing::warn!(event = "kafka.brokers_down", seconds = away.as_secs(), reason, repeated);
    }
}

/// A broker answers.
pub(crate) fn over() {
    let away = {
        let mut lines = lines();
        let away = lines.as_mut().and_then(|l| l.away.take());
        if away.is_some() {
            // What comes next is news again.
            *lines = None;
        }
        away
    };
    if let Some(away) = away {
        tracing::info!(event = "kafka.recovered", seconds = away.elapsed().as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::{EVERY, Lines};
    use std::time::{Duration, Instant};

    #[test]
    fn the_first_of_each_kind_then_one_now_and_then_with_a_count() {
        let (mut lines, start) = (Lines::default(), Instant::now());
        assert_eq!(lines.due("a", start), Some(0));
        assert_eq!(lines.due("b", start), Some(0));
        for ms in 1..=40 {
            assert_eq!(lines.due("a", start + Duration::from_millis(ms)), None);
        }
        assert_eq!(lines.due("a", start + EVERY), Some(40));
        assert_eq!(lines.due("a", start + EVERY * 2), Some(0));
    }
}
