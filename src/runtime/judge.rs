//! The seam between the worker and the engine: what the worker needs of whoever judges records.
//!
//! The worker is generic over [`Judge`] so that its own tests can run a judge whose right answer is
//! plain arithmetic; the service runs the [`Engine`].

use crate::engine::state::{PartitionState, StateError};
pub use crate::engine::{Emission, Engine, Input, Observation, Out, Outcome, Remaining, TickSource, To};

/// A judge keeps one state a partition. A transaction on a state is `begin`, any number of `step` and `tick`,
/// then `writes` and `accept`, or `rollback`, which leaves the state as it was at `begin`.
pub trait Judge: Send + Sync + 'static {
    type State: Send + 'static;

    fn open(&self, topic: &str, partition: i32) -> Self::State;
    fn begin(&self, state: &mut Self::State);
    /// Clears `out` first.
    fn step(&self, state: &mut Self::State, input: &Input<'_>, out: &mut Out) -> Outcome;
    /// Expires what is idle at `source.now`. Clears `out` first.
    fn tick(&self, state: &mut Self::State, source: TickSource<'_>, budget: u32, out: &mut Out) -> Remaining;
    /// Every entry that changed since `begin`; `None` deletes.
    fn writes(&self, state: &Self::State, put: &mut dyn FnMut(&[u8], Option<&[u8]>));
    fn accept(&self, state: &mut Self::State);
    fn rollback(&self, state: &mut Self::State);
    /// One entry as `writes` gave it; the error names what is wrong with it, without its content.
    fn restore(&self, state: &mut Self::State, key: &[u8], value: Option<&[u8]>) -> Result<(), String>;
    /// Called behind the last entry of a restore that is used; an error as in `restore`.
    fn restored(&self, _state: &mut Self::State) -> Result<(), String> {
        Ok(())
    }
}

impl Judge for Engine {
    type State = PartitionState;

    fn open(&self, _topic: &str, _partition: i32) -> PartitionState {
        PartitionState::new()
    }
    fn begin(&self, state: &mut PartitionState) {
        state.begin();
    }
    fn step(&self, state: &mut PartitionState, input: &Input<'_>, out: &mut Out) -> Outcome {
        Engine::step(self, state, input, out)
    }
    fn tick(&self, state: &mut PartitionState, source: TickSource<'_>, budget: u32, out: &mut Out) -> Remaining {
        Engine::tick(self, state, source, budget, out)
    }
    fn writes(&self, state: &PartitionState, put: &mut dyn FnMut(&[u8], Option<&[u8]>)) {
        state.writes(&mut |key, value| put(key, value));
    }
    fn accept(&self, state: &mut PartitionState) {
        state.accept();
    }
    fn rollback(&self, state: &mut PartitionState) {
        state.rollback();
    }
    fn restore(&self, state: &mut PartitionState, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        state.restore(key, value).map_err(said)
    }
    fn restored(&self, state: &mut PartitionState) -> Result<(), String> {
        state.restored().map_err(said)
    }
}

fn said(error: StateError) -> String {
    match error {
        StateError::UnknownVersion { found } => format!("its format {found} is unknown to this release"),
        error => format!("{error:?}"),
    }
}
