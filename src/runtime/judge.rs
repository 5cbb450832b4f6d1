//! The seam between the worker and the engine: what the worker needs of whoever judges records.
//!
//! The worker is generic over [`Judge`] so that its own tests can run a judge whose right answer is
//! plain arithmetic. Nothing here knows Kafka's client.

/// One input record, borrowed from the client's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
    /// Kafka's timestamp in milliseconds since the epoch.
    pub timestamp: Option<i64>,
    pub key: Option<&'a [u8]>,
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    pub value: Option<&'a [u8]>,
}

/// Which of the output topics an emission goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum To {
    Verdicts,
    Redacted,
    DeadLetters,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emission {
    pub to: To,
    pub key: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub value: Option<Vec<u8>>,
    pub timestamp: Option<i64>,
}

/// The outcome of a record, as the worker counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Judged,
    Passed,
    Rejected,
}

/// What a step gives back; its buffers are used again.
#[derive(Debug, Default)]
pub struct Out {
    pub emissions: Vec<Emission>,
}

/// A judge keeps one state a partition. A transaction on a state is `begin`, any number of `step` and `tick`,
/// then `writes` and `accept`, or `rollback`, which leaves the state as it was at `begin`.
pub trait Judge: Send + Sync + 'static {
    type State: Send + 'static;

    fn open(&self, topic: &str, partition: i32) -> Self::State;
    fn begin(&self, state: &mut Self::State);
    fn step(&self, state: &mut Self::State, input: &Input<'_>, out: &mut Out) -> Outcome;
    /// Expires what is idle at `now` (milliseconds since the epoch); true if the budget left some for later.
    fn tick(&self, state: &mut Self::State, now: i64, budget: u32, out: &mut Out) -> bool;
    /// Every entry that changed since `begin`; `None` deletes.
    fn writes(&self, state: &Self::State, put: &mut dyn FnMut(&[u8], Option<&[u8]>));
    fn accept(&self, state: &mut Self::State);
    fn rollback(&self, state: &mut Self::State);
    /// One entry as `writes` gave it; the error names what is wrong with it, without its content.
    fn restore(&self, state: &mut Self::State, key: &[u8], value: Option<&[u8]>) -> Result<(), String>;
}
