//! The history of a request: its items, and where they stand.

use super::{CallFacts, ResultItem};
use crate::engine::json::Value;

/// One item of a request's history.
#[derive(Debug, Clone)]
pub enum Turn<'r> {
    /// An echoed call: its id and arguments as the client sends them back.
    Call(CallFacts<'r>),
    /// A tool's output that the client puts before the model.
    Result(ResultItem<'r>),
    /// A result of a provider-run tool echoed in the history, with what it says: judged where the conversation
    /// did not judge it before.
    Ran(ResultItem<'r>),
    /// One that is not read: listed as not inspected.
    ServerResult {
        item: Value<'r>,
        call_id: Option<Value<'r>>,
    },
    /// What the model said: text, reasoning.
    Model(Value<'r>),
    User(Value<'r>),
    System(Value<'r>),
    Opaque {
        value: Value<'r>,
        kind: &'static str,
    },
}

/// Who speaks in a message of a request, by the role that it states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    Model,
    User,
    /// Chat's `tool` and `function`.
    Tool,
    System,
    /// None of these, or nobody said it.
    Unknown,
}

/// Where an item of a request's history stands.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'r> {
    /// Numbers the merged runs of messages of one role.
    pub group: u32,
    /// Numbers the messages: Gemini's contents, the items of Responses.
    pub message: u32,
    pub party: Party,
    /// The whole block, part or item.
    pub whole: Value<'r>,
    /// What the provider signed or encrypted of it, if that stands where it belongs: `signature`, `data`,
    /// `thoughtSignature`, `encrypted_content`.
    pub seal: Option<Value<'r>>,
}

/// The generation that a Gemini model's name states: 3 and later refuse a turn whose first call lacks its signature.
pub fn gemini_generation(model: Value<'_>) -> Option<u32> {
    let model = model.str().unwrap_or_default();
    let version = model.rsplit('/').next().and_then(|name| name.strip_prefix("gemini-"))?;
    version.split(|c: char| !c.is_ascii_digit()).next().and_then(|major| major.parse().ok())
}
