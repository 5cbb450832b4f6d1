//! The engine as the worker's judge: one partition's state, what the engine observes of it counted.
//!
//! The engine stays free of metrics and the worker free of the engine; this is where both meet. What a step
//! observed is counted at once. What only counts when the transaction commits (latency, records produced) waits
//! in the worker thread's [`Pending`] for the [`Reporter`](super::reporter::Reporter).

use super::judge::Judge;
use super::reporter::{Pending, pending};
use super::telemetry::{Metrics, float};
use crate::engine::state::{PartitionState, StateError, Stats};
use crate::engine::verdict::Checkpoint;
use crate::engine::{Engine, Input, Observation, Out, Outcome, Remaining, TickSource, To};
use std::sync::Arc;

/// See the module.
pub struct EngineJudge {
    pub engine: Arc<Engine>,
    pub metrics: Arc<Metrics>,
}

/// One partition's state.
pub struct Partition {
    state: PartitionState,
    /// What this partition has added to the gauges.
    counted: Stats,
    metrics: Arc<Metrics>,
}

impl Partition {
    fn count(&mut self, stats: Stats) {
        let delta = |now: u64, then: u64| float(now) - float(then);
        self.metrics.conversations_open.add([], delta(stats.conversations, self.counted.conversations));
        self.metrics.assemblies_open.add([], delta(stats.open_calls, self.counted.open_calls));
        self.metrics.state_bytes.add([], delta(stats.bytes, self.counted.bytes));
        self.counted = stats;
    }
}

impl EngineJudge {
    /// Counts what was observed.
    fn count(&self, timestamp: Option<i64>, out: &Out) {
        self.metrics.observe(&out.observations);
        pending(|p| {
            p.judged(timestamp, &out.observations);
            for emission in &out.emissions {
                p.produced(index(emission.to), emission.key.as_deref(), emission.value.as_deref());
            }
        });
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.count(Stats::default());
    }
}

/// The place of an output in [`Pending`].
fn index(to: To) -> usize {
    match to {
        To::Verdicts => 0,
        To::Redacted => 1,
        To::DeadLetters => 2,
    }
}

impl Pending {
    fn judged(&mut self, timestamp: Option<i64>, observations: &[Observation]) {
        let Some(timestamp) = timestamp else { return };
        for o in observations {
            if let Observation::Verdict { checkpoint, .. } = o {
                let call = matches!(checkpoint, Checkpoint::ToolCall | Checkpoint::ToolStart);
                self.latency(timestamp, if call { "call" } else { "result" });
            }
        }
    }
}

impl Judge for EngineJudge {
    type State = Partition;

    fn open(&self, _topic: &str, _partition: i32) -> Partition {
        Partition { state: PartitionState::new(), counted: Stats::default(), metrics: Arc::clone(&self.metrics) }
    }

    fn begin(&self, state: &mut Partition) {
        state.state.begin();
    }

    fn step(&self, state: &mut Partition, input: &Input<'_>, out: &mut Out) -> Outcome {
        let outcome = self.engine.step(&mut state.state, input, out);
        self.count(input.timestamp, out);
        if matches!(outcome, Outcome::Rejected(_)) {
            for o in &out.observations {
                if let Observation::DeadLetter { reason } = o {
                    self.metrics.decode_failures.inc([input.topic, reason]);
                }
            }
        }
        outcome
    }

    fn tick(&self, state: &mut Partition, source: TickSource<'_>, budget: u32, out: &mut Out) -> Remaining {
        let remaining = self.engine.tick(&mut state.state, source, budget, out);
        // An expiry's latency says nothing: what it waited for never came.
        self.count(None, out);
        remaining
    }

    fn writes(&self, state: &Partition, put: &mut dyn FnMut(&[u8], Option<&[u8]>)) {
        state.state.writes(&mut |key, value| put(key, value));
    }

    fn accept(&self, state: &mut Partition) {
        state.state.accept();
        let stats = state.state.stats();
        state.count(stats);
    }

    fn rollback(&self, state: &mut Partition) {
        state.state.rollback();
    }

    fn restore(&self, state: &mut Partition, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        state.state.restore(key, value).map_err(said)
    }

    fn restored(&self, state: &mut Partition) -> Result<(), String> {
        state.state.restored().map_err(said)?;
        let stats = state.state.stats();
        state.count(stats);
        Ok(())
    }
}

fn said(error: StateError) -> String {
    match error {
        StateError::UnknownVersion { found } => format!("its format {found} is unknown to this release"),
        error => format!("{error:?}"),
    }
}
