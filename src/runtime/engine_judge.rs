//! The engine as the worker's judge, with the size of its state counted.
//!
//! The engine stays free of metrics; a partition adds what it holds to the gauges after each commit, and takes
//! it away when it is dropped.

use super::current::Current;
use super::judge::{Input, Judge, Out, Outcome, Remaining, TickSource};
use super::pins::Pins;
use super::telemetry::{Metrics, float};
use crate::engine::Engine;
use crate::engine::state::{PartitionState, Stats};
use std::sync::Arc;

/// See the module.
pub struct EngineJudge {
    /// A partition takes the newest when its transaction begins.
    pub current: Arc<Current>,
    /// Decisions on tools; taken in the same way.
    pub pins: Arc<Pins>,
    pub metrics: Arc<Metrics>,
}

/// One partition's state.
pub struct Partition {
    state: PartitionState,
    /// With the decisions that hold in its transaction.
    engine: Engine,
    /// Which of [`Current`] that engine is.
    version: u64,
    /// What this partition has added to the gauges.
    counted: Stats,
    metrics: Arc<Metrics>,
}

impl Partition {
    fn count(&mut self, stats: Stats) {
        let delta = |now: u64, then: u64| float(now) - float(then);
        self.metrics.conversations_open.add([], delta(stats.conversations, self.counted.conversations));
        self.metrics.assemblies_open.add([], delta(stats.open_calls, self.counted.open_calls));
        self.metrics.unanswered_calls.add([], delta(stats.unanswered, self.counted.unanswered));
        self.metrics.state_bytes.add([], delta(stats.bytes, self.counted.bytes));
        self.counted = stats;
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.count(Stats::default());
    }
}

impl Judge for EngineJudge {
    type State = Partition;

    fn open(&self, topic: &str, partition: i32) -> Partition {
        let (engine, version) = self.current.newest();
        let state = Judge::open(&engine, topic, partition);
        Partition { state, engine, version, counted: Stats::default(), metrics: Arc::clone(&self.metrics) }
    }
    fn begin(&self, state: &mut Partition) {
        if state.version != self.current.version() {
            (state.engine, state.version) = self.current.newest();
        }
        let newest = self.pins.newest();
        if !Arc::ptr_eq(state.engine.pins(), &newest) {
            state.engine.set_pins(newest);
        }
        state.state.begin();
    }
    fn step(&self, state: &mut Partition, input: &Input<'_>, out: &mut Out) -> Outcome {
        state.engine.step(&mut state.state, input, out)
    }
    fn tick(&self, state: &mut Partition, source: TickSource<'_>, budget: u32, out: &mut Out) -> Remaining {
        state.engine.tick(&mut state.state, source, budget, out)
    }
    fn writes(&self, state: &Partition, put: &mut dyn FnMut(&[u8], Option<&[u8]>)) {
        Judge::writes(&state.engine, &state.state, put);
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
        Judge::restore(&state.engine, &mut state.state, key, value)
    }
    fn restored(&self, state: &mut Partition) -> Result<(), String> {
        Judge::restored(&state.engine, &mut state.state)?;
        let stats = state.state.stats();
        state.count(stats);
        Ok(())
    }
}
