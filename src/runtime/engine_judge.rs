//! The engine as the worker's judge: one partition's state with its own buffers, its observations counted.
//!
//! The engine stays free of metrics and the worker free of the engine; this is where both meet. What a step
//! observed is counted at once. What only counts when the transaction commits (latency, records produced) waits
//! in the worker thread's [`Pending`] for the [`Reporter`](super::reporter::Reporter).

use super::judge;
use super::reporter::{Pending, pending};
use super::telemetry::{Metrics, float};
use crate::engine::state::{PartitionState, Stats};
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
    out: Out,
    topic: String,
    partition: i32,
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

    /// Hands the emissions over and counts what was observed.
    fn hand_over(&mut self, timestamp: Option<i64>, to: &mut judge::Out) {
        self.metrics.observe(&self.out.observations);
        pending(|p| {
            p.judged(timestamp, &self.out.observations);
            for emission in &self.out.emissions {
                p.produced(index(emission.to), emission.key.as_deref(), emission.value.as_deref());
            }
        });
        to.emissions.extend(self.out.emissions.drain(..).map(|e| judge::Emission {
            to: match e.to {
                To::Verdicts => judge::To::Verdicts,
                To::Redacted => judge::To::Redacted,
                To::DeadLetters => judge::To::DeadLetters,
            },
            key: e.key,
            headers: e.headers,
            value: e.value,
            timestamp: e.timestamp,
        }));
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

impl judge::Judge for EngineJudge {
    type State = Partition;

    fn open(&self, topic: &str, partition: i32) -> Partition {
        Partition {
            state: PartitionState::new(),
            out: Out::default(),
            topic: topic.to_owned(),
            partition,
            counted: Stats::default(),
            metrics: Arc::clone(&self.metrics),
        }
    }

    fn begin(&self, state: &mut Partition) {
        state.state.begin();
    }

    fn step(&self, state: &mut Partition, input: &judge::Input<'_>, out: &mut judge::Out) -> judge::Outcome {
        let input = Input {
            topic: input.topic,
            partition: input.partition,
            offset: input.offset,
            timestamp: input.timestamp,
            key: input.key,
            headers: input.headers,
            value: input.value,
        };
        let outcome = self.engine.step(&mut state.state, &input, &mut state.out);
        state.hand_over(input.timestamp, out);
        match outcome {
            Outcome::Judged => judge::Outcome::Judged,
            Outcome::Passed => judge::Outcome::Passed,
            Outcome::Rejected(_) => {
                for o in &state.out.observations {
                    if let Observation::DeadLetter { reason } = o {
                        self.metrics.decode_failures.inc([input.topic, reason]);
                    }
                }
                judge::Outcome::Rejected
            }
        }
    }

    fn tick(&self, state: &mut Partition, now: i64, budget: u32, out: &mut judge::Out) -> bool {
        let Partition { state: conversations, out: buffer, topic, partition, .. } = state;
        let source = TickSource { topic, partition: *partition, now };
        let remaining = self.engine.tick(conversations, source, budget, buffer);
        // An expiry's latency says nothing: what it waited for never came.
        state.hand_over(None, out);
        remaining == Remaining::Some
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
        state.state.restore(key, value).map_err(|e| format!("{e:?}"))
    }
}
