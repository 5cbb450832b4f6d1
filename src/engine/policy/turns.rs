//! A request's history as policies see it: what stands where, in document order.

use crate::engine::event::{CallFacts, Standing};
use crate::engine::json::Value;

/// One item of a request's history.
#[derive(Debug, Clone, Copy)]
pub struct TurnView<'r> {
    pub at: Standing<'r>,
    pub kind: TurnKind<'r>,
}

/// What it is.
#[derive(Debug, Clone, Copy)]
pub enum TurnKind<'r> {
    /// An echoed call.
    Call(CallFacts<'r>),
    /// A client's result: its place among the results of the subject.
    Result(usize),
    /// The result of a tool that the provider ran.
    Ran {
        item: Value<'r>,
        call_id: Option<Value<'r>>,
    },
    /// What the model said: text, reasoning.
    Model(Value<'r>),
    /// What a person or the application said, media included.
    User(Value<'r>),
    System(Value<'r>),
    /// Not understood.
    Opaque {
        value: Value<'r>,
        kind: &'static str,
    },
}
