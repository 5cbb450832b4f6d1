//! State: what a partition remembers of its conversations, journalled per transaction.
//!
//! State is entries: `(conversation, kind, n)`. Every change goes through a [`Session`], which first pushes
//! what undoes it (`journal`). [`PartitionState::rollback`] undoes them (argument text by truncation),
//! [`PartitionState::accept`] forgets them, [`PartitionState::writes`] encodes each touched entry once. A
//! restore feeds the same bytes back: `restore(writes(s)) == s`.
//!
//! Nothing here reads a clock; a conversation's time is the largest Kafka timestamp among its own records.
//! Policies get a [`Conversation`] by shared reference and cannot change it.
//!
//! Invariants: indexes, byte counts and the orders of eviction and expiry are functions of the entries, so a
//! rollback or a restore gives the same ones; eviction goes by record offset, never by map order or by where
//! a transaction began.

mod arrival;
pub mod assembly;
mod changelog;
pub mod codec;
pub mod conversation;
mod exchange;
mod item;
mod journal;
pub mod leaves;
mod order;
mod pieces;
mod refused;
mod rpc;
mod seals;
mod seen;
mod sequence;
mod session;
mod store;
mod tools;
mod waiting;

pub use codec::{StateError, StateKey};
pub use conversation::{
    Call, CallStatus, Conversation, Exchange, Head, Opened, Piece, ResponseState, ResultFact, Seal, Slots, Source,
    TextSource, Tool, Toolset, Waiting,
};
pub use exchange::{ExchangePart, Want};
pub use pieces::Begun;
pub use rpc::{RpcRequest, RpcStatus};
pub use seen::{Listed, OwnTools, Seen, ServerSeen};
pub use sequence::Sequence;
pub use session::Session;
pub use store::clip;

use super::Millis;
use changelog::Restore;
use journal::{Log, Undo};
use order::Orders;
use store::{ByKey, Stored, Totals};

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
    /// Calls that a client may run, and whose result has not come.
    pub unanswered: u64,
    pub bytes: u64,
}

/// Something that became judgeable while an event was absorbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// The call with this number ended: its status is `Final` or `Cut`. Its text is still there; the engine
    /// judges it, then calls [`Session::settle`].
    Call(u32),
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
    pub reorder_window_ms: u64,
}

/// The state of one input partition.
#[derive(Default)]
pub struct PartitionState {
    conversations: ByKey<Stored>,
    log: Log,
    orders: Orders,
    totals: Totals,
    restore: Restore,
}

/// Figures only: state holds text from outside.
impl std::fmt::Debug for PartitionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PartitionState").field(&self.stats()).finish()
    }
}

impl PartitionState {
    pub fn new() -> Self {
        Self::default()
    }
    /// Starts a transaction: what changes from here on can be undone. Changes that were neither accepted nor
    /// rolled back belong to it.
    pub fn begin(&mut self) {
        self.log.mark = self.log.ops.len();
    }
    /// Every entry touched since `begin`, encoded; `None` is a tombstone. In key order.
    pub fn writes(&self, put: &mut dyn FnMut(&StateKey, Option<&[u8]>)) {
        changelog::writes(&self.log, &self.conversations, put);
    }
    /// The whole state as entries, in key order: what an empty changelog would need to hold.
    pub fn entries(&self, put: &mut dyn FnMut(&StateKey, Option<&[u8]>)) {
        changelog::entries(&self.conversations, put);
    }
    /// The transaction is committed: priors are forgotten.
    pub fn accept(&mut self) {
        for (_, undo) in self.log.ops.drain(..) {
            if let Undo::Removed(stored) = undo
                && let Some(place) = stored.placed
            {
                self.orders.forget(place);
            }
        }
        self.log.mark = 0;
        self.orders.accept(&mut self.conversations);
    }
    /// The transaction is void: everything since `begin` is undone.
    pub fn rollback(&mut self) {
        self.log.undo(0, &mut self.conversations, &mut self.totals);
        self.orders.rollback(&mut self.conversations);
    }
    /// One changelog record, in log order, before the first transaction. Call [`restored`](Self::restored)
    /// behind the last.
    ///
    /// # Errors
    /// The record is not one that this build wrote or can read.
    pub fn restore(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StateError> {
        self.restore.apply(&mut self.conversations, key, value)
    }
    /// Ends a restore: joins texts, rebuilds indexes and counts.
    ///
    /// # Errors
    /// [`StateError::Incomplete`] if a conversation's head or a part of a call's text never came.
    pub fn restored(&mut self) -> Result<(), StateError> {
        let restore = std::mem::take(&mut self.restore);
        restore.finish(&mut self.conversations)?;
        self.totals = Totals::default();
        self.orders = Orders::default();
        for (key, stored) in &mut self.conversations {
            stored.reindex();
            self.totals.swap(Totals::default(), stored.totals());
            self.orders.place(*key, stored);
        }
        Ok(())
    }
    pub fn stats(&self) -> Stats {
        let Totals { bytes, open, unanswered } = self.totals;
        Stats { conversations: self.conversations.len() as u64, open_calls: open, unanswered, bytes }
    }
    pub fn get(&self, key: ConvKey) -> Option<&Conversation> {
        self.conversations.get(&key).map(|s| &s.conversation)
    }
    /// A savepoint inside the transaction, for a record that must be undone alone (a panic in the engine).
    pub fn savepoint(&mut self) {
        self.log.mark = self.log.ops.len();
    }
    /// Undoes what was changed since the last `savepoint`.
    pub fn rollback_to_savepoint(&mut self) {
        let mark = self.log.mark;
        self.log.undo(mark, &mut self.conversations, &mut self.totals);
        self.orders.rewind();
    }
    /// Opens a conversation for one record: creates it if new (`named` gives its name and key; it is partial
    /// until a request with whole history begins it), advances its clock and offset, and makes room in the
    /// byte budget by evicting the least recently used ones (by record offset), whose number is in the session.
    pub fn open(&mut self, key: ConvKey, at: At, limits: &StateLimits, named: &dyn Fn() -> Head) -> Session<'_> {
        let mut evicted = 0;
        while self.totals.bytes > limits.partition_bytes {
            let Some(oldest) = self.orders.oldest(&self.conversations, key) else { break };
            self.remove(oldest);
            evicted += 1;
        }
        let Self { conversations, log, orders, totals, .. } = self;
        let stored = match conversations.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let stored = Stored::new(fresh_head(named(), at));
                totals.swap(Totals::default(), stored.totals());
                log.push(key, Undo::Created);
                entry.insert(stored)
            }
        };
        orders.touch(key, stored);
        let mut session = Session::new(key, stored, log, totals, *limits, evicted);
        session.advance(at);
        session
    }
    /// The conversation that must go to make room for `keep`, least recently used first. Its open calls deserve
    /// a verdict before [`remove`](Self::remove); `open` evicts without one.
    pub fn to_evict(&mut self, keep: ConvKey, limits: &StateLimits) -> Option<ConvKey> {
        if self.totals.bytes <= limits.partition_bytes {
            return None;
        }
        self.orders.oldest(&self.conversations, keep)
    }
    /// Conversations whose deadline is at or before `now`, oldest first, at most `budget`: either one with open
    /// calls that are idle for `call_ttl_ms`, or a whole one idle for `conversation_ttl_ms`.
    pub fn due(&self, now: Millis, budget: u32, limits: &StateLimits) -> Vec<ConvKey> {
        self.orders.due(&self.conversations, now, budget, limits)
    }
    /// Opens a due conversation for its expiry, without advancing its clock.
    pub fn open_due(&mut self, key: ConvKey, limits: &StateLimits) -> Option<Session<'_>> {
        let Self { conversations, log, orders, totals, .. } = self;
        let stored = conversations.get_mut(&key)?;
        orders.touch(key, stored);
        orders.ticked(key);
        Some(Session::new(key, stored, log, totals, *limits, 0))
    }
    /// Drops a conversation with tombstones for all its entries.
    pub fn remove(&mut self, key: ConvKey) {
        if let Some(stored) = self.conversations.remove(&key) {
            self.totals.swap(stored.totals(), Totals::default());
            self.log.push(key, Undo::Removed(Box::new(stored)));
        }
    }
}

/// Longest Kafka key that is kept for verdicts which no record gives, bytes.
const RECORD_KEY_BYTES: usize = 16 << 10;

fn fresh_head(named: Head, at: At) -> Head {
    let kept = |text: Vec<u8>| match clip(&text) {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(clipped) => clipped,
    };
    Head {
        name: kept(named.name),
        fleet: kept(named.fleet),
        agent: kept(named.agent),
        record_key: named.record_key.filter(|key| key.len() <= RECORD_KEY_BYTES),
        clock: at.time,
        last_offset: at.offset,
        partial: true,
        ..named
    }
}
