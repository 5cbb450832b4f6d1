//! State: what a partition remembers of its conversations, journalled per transaction.
//!
//! State is entries: `(conversation, kind, n)`. Every change goes through a [`Session`], which keeps an
//! entry's prior value on first touch. [`PartitionState::rollback`] puts the priors back (argument text by
//! truncation), [`PartitionState::accept`] forgets them, [`PartitionState::writes`] encodes each touched
//! entry once. A restore feeds the same bytes back: `restore(writes(s)) == s`.
//!
//! Nothing here reads a clock; a conversation's time is the largest Kafka timestamp among its own records.
//! Policies get a [`Conversation`] by shared reference and cannot change it.

pub mod assembly;
pub mod codec;
pub mod conversation;

pub use codec::{StateError, StateKey};
pub use conversation::{
    Call, CallStatus, Conversation, Exchange, Head, Opened, ResponseState, ResultFact, Tool, Toolset,
};

use super::Millis;

/// A conversation's name under a keyed 128-bit hash (SipHash-2-4-128 under the fingerprint key).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConvKey(pub u128);

/// Where and when the record stands that is being absorbed.
#[derive(Debug, Clone, Copy)]
pub struct At {
    pub offset: i64,
    /// The record's Kafka timestamp, or the event time in `check`.
    pub time: Millis,
}

/// Figures for gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub conversations: u64,
    pub open_calls: u64,
    pub bytes: u64,
}

/// Something that became judgeable while an event was absorbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// The call with this number ended: its status is `Final` or `Cut`. Its text is still there; the engine
    /// judges it, then calls [`Session::settle`].
    Call(u32),
}

/// The state of one input partition.
#[derive(Debug, Default)]
pub struct PartitionState {
    // private: conversations, journal, least-recently-used and deadline indexes, byte count, encode buffer
    conversations: std::collections::HashMap<ConvKey, Conversation>,
}

/// How many of what a partition may hold.
#[derive(Debug, Clone, Copy)]
pub struct StateLimits {
    pub call_bytes: u64,
    pub open_calls_per_response: u32,
    pub open_calls_per_conversation: u32,
    pub history: u32,
    pub conversation_bytes: u64,
    pub partition_bytes: u64,
    pub call_ttl_ms: u64,
    pub conversation_ttl_ms: u64,
}

impl PartitionState {
    pub fn new() -> Self {
        Self::default()
    }
    /// Starts a transaction: from here on priors are kept.
    pub fn begin(&mut self) {
        todo!()
    }
    /// Every entry touched since `begin`, encoded; `None` is a tombstone. In key order.
    pub fn writes(&self, _put: &mut dyn FnMut(&StateKey, Option<&[u8]>)) {
        todo!()
    }
    /// The transaction is committed: priors are forgotten.
    pub fn accept(&mut self) {
        todo!()
    }
    /// The transaction is void: everything since `begin` is undone.
    pub fn rollback(&mut self) {
        todo!()
    }
    /// One changelog record, in log order. Call [`restored`](Self::restored) behind the last.
    pub fn restore(&mut self, _key: &[u8], _value: Option<&[u8]>) -> Result<(), StateError> {
        todo!()
    }
    /// Rebuilds indexes and counts after a restore.
    pub fn restored(&mut self) {
        todo!()
    }
    pub fn stats(&self) -> Stats {
        todo!()
    }
    pub fn get(&self, key: ConvKey) -> Option<&Conversation> {
        self.conversations.get(&key)
    }
    /// A savepoint inside the transaction, for a record that must be undone alone (a panic in the engine).
    pub fn savepoint(&mut self) {
        todo!()
    }
    /// Undoes what was changed since the last `savepoint`.
    pub fn rollback_to_savepoint(&mut self) {
        todo!()
    }
    /// Opens a conversation for one record: creates it if new (`named` gives its name and key), advances its
    /// clock and offset, and makes room in the byte budget by evicting the least recently used ones (by
    /// record offset), whose number and reason are in the session.
    pub fn open(&mut self, _key: ConvKey, _at: At, _limits: &StateLimits, _named: &dyn Fn() -> Head) -> Session<'_> {
        todo!()
    }
    /// Conversations whose deadline is at or before `now`, oldest first, at most `budget`: either one with open
    /// calls that are idle for `call_ttl_ms`, or a whole one idle for `conversation_ttl_ms`.
    pub fn due(&self, _now: Millis, _budget: u32, _limits: &StateLimits) -> Vec<ConvKey> {
        todo!()
    }
    /// Opens a due conversation for its expiry, without advancing its clock.
    pub fn open_due(&mut self, _key: ConvKey, _limits: &StateLimits) -> Option<Session<'_>> {
        todo!()
    }
    /// Drops a conversation with tombstones for all its entries.
    pub fn remove(&mut self, _key: ConvKey) {
        todo!()
    }
}

/// One conversation, open for changes by one record. Reads go through [`Session::conversation`].
pub struct Session<'s> {
    // private: &mut PartitionState parts, the current exchange
    _state: &'s mut PartitionState,
}

impl<'s> Session<'s> {
    pub fn conversation(&self) -> &Conversation {
        todo!()
    }
    /// Conversations that were evicted to make room for this one.
    pub fn evicted(&self) -> u32 {
        todo!()
    }
    /// The exchange that this record's events belong to, found or made:
    /// by `host_id` if given; else by the payload's own id; else, for a request, a new one; for a response's
    /// beginning, the latest unanswered request of that provider (`ambiguous` is true if several were); for
    /// later chunks, the latest open response of that provider.
    pub fn exchange(&mut self, _want: Want<'_>) -> (u32, bool) {
        todo!()
    }
    /// Head changes.
    pub fn head(&mut self) -> &mut Head {
        todo!()
    }
    pub fn exchange_mut(&mut self, _n: u32) -> Option<&mut Exchange> {
        todo!()
    }
    pub fn call_mut(&mut self, _n: u32) -> Option<&mut Call> {
        todo!()
    }
    /// Sets the exchange's toolset: the one with this digest if the conversation has it, else a new one made
    /// of `tools()` (called only then). Toolsets no exchange refers to any more are dropped.
    pub fn set_toolset(&mut self, _exchange: u32, _digest: [u8; 16], _tools: &mut dyn FnMut() -> Vec<Tool>) {
        todo!()
    }
    /// Adds late definitions to the exchange's toolset (a copy with the union).
    pub fn add_tools(&mut self, _exchange: u32, _digest: [u8; 16], _tools: Vec<Tool>) {
        todo!()
    }
    /// Remembers a judged result; the oldest beyond `history` is forgotten.
    pub fn note_result(&mut self, _fact: ResultFact) {
        todo!()
    }
    pub fn result(&self, _call_id: &[u8; 16], _content: &[u8; 16]) -> Option<&ResultFact> {
        todo!()
    }
    /// The latest call of that id (empty ids never match).
    pub fn call_by_id(&self, _id: &[u8]) -> Option<(u32, &Call)> {
        todo!()
    }
    /// Absorbs one event of a response (all events from `Begin` to `Closed`); what ended is pushed to `ready`
    /// in slot order. Events that concern requests and host events are not for this method.
    pub fn absorb(
        &mut self,
        _exchange: u32,
        _event: &crate::engine::event::Event<'_>,
        _at: At,
        _limits: &StateLimits,
        _ready: &mut Vec<Ready>,
    ) {
        todo!()
    }
    /// Cuts every open call of the exchange for this reason.
    pub fn cut_exchange(&mut self, _exchange: u32, _reason: crate::engine::event::CutReason, _ready: &mut Vec<Ready>) {
        todo!()
    }
    /// Cuts every open call of the conversation that is idle since before `idle_since`.
    pub fn cut_idle(&mut self, _idle_since: Millis, _ready: &mut Vec<Ready>) {
        todo!()
    }
    /// After judging: remembers digest, size and action, and lets the text go. The oldest settled calls beyond
    /// `history` are forgotten.
    pub fn settle(&mut self, _call: u32, _sha256: [u8; 32], _action: crate::engine::verdict::Decision) {
        todo!()
    }
}

/// How to find an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Want<'a> {
    pub host_id: Option<&'a [u8]>,
    pub payload_id: Option<&'a [u8]>,
    pub provider: crate::engine::provider::Provider,
    pub part: ExchangePart,
    pub at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangePart {
    Request,
    /// A whole response, or the first event of a streamed one.
    ResponseStart,
    /// A later chunk, or the closing.
    ResponseRest,
}
