//! A request's history as policies see it: what stands where, in document order.

use crate::engine::event::{CallFacts, Party, Provider, Standing};
use crate::engine::json::Value;
use std::collections::HashSet;

/// One item of a request's history.
#[derive(Debug, Clone, Copy)]
pub struct TurnView<'r> {
    pub at: Standing<'r>,
    pub kind: TurnKind<'r>,
    /// Keyed digest of what the provider signed of it, in the open tool loop.
    pub seal: Option<[u8; 16]>,
    /// Digest of the text that is signed with it, as the state keeps it.
    pub thought: [u64; 2],
    /// It is signed with one of the placeholders that Gemini takes in place of a signature.
    pub placeholder: bool,
    /// Keyed digest of a signed item's own id.
    pub id: Option<[u8; 16]>,
    /// Keyed digest of a call's name and arguments as values, where calls are signed.
    pub said: Option<[u8; 16]>,
}

impl<'r> TurnView<'r> {
    /// One of which nothing is digested yet.
    pub fn new(at: Standing<'r>, kind: TurnKind<'r>) -> Self {
        Self { at, kind, seal: None, thought: [0; 2], placeholder: false, id: None, said: None }
    }
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

/// Where the open tool loop begins: behind what a person said last. Earlier turns are over, and providers leave out
/// or ignore what was signed of them.
pub fn open_loop(turns: &[TurnView<'_>], provider: Provider) -> usize {
    let result = |turn: &&TurnView<'_>| matches!(turn.kind, TurnKind::Result(_));
    // Anthropic reads a run of user messages as one, and what stands beside results in it does not end the loop.
    let merged = provider == Provider::AnthropicMessages;
    let answers: HashSet<u32> = turns.iter().filter(|_| merged).filter(result).map(|turn| turn.at.group).collect();
    let ends = |turn: &TurnView<'_>| match turn.kind {
        TurnKind::User(value) => match provider {
            // Media beside results are a part of them.
            Provider::GeminiGenerateContent => value.get("text").is_some_and(|text| text.raw().len() > 2),
            _ => turn.at.party == Party::User && !answers.contains(&turn.at.group),
        },
        _ => false,
    };
    turns.iter().rposition(ends).map_or(0, |at| at + 1)
}
