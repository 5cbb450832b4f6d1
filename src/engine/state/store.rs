//! One conversation as it is stored: its entries, and what is computed from them.
//!
//! Every index here is a function of the entries alone, and each entry's contribution can be taken out and
//! put in independently of the others. So undoing an entry undoes its indexes, and a restore rebuilds them.
//! Sizes are counted from lengths, never from capacities, for the same reason.

use super::ConvKey;
use super::conversation::{Call, Conversation, Exchange, Head, Piece, ResultFact, Tool, Toolset, Waiting};
use super::rpc::RpcRequest;
use super::seen::Seen;
use crate::engine::Millis;
use crate::engine::event::Slot;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Longest id or name that is kept as it stands, bytes.
const NAME_BYTES: usize = 512;

/// An id or a name as it is kept: one that is longer than 512 bytes becomes its head and its SHA-256, so two
/// different ones stay different and an entry stays small. Look-ups go through the same function.
pub fn clip(text: &[u8]) -> Cow<'_, [u8]> {
    if text.len() <= NAME_BYTES {
        return Cow::Borrowed(text);
    }
    let mut kept = text[..NAME_BYTES - 32].to_vec();
    kept.extend_from_slice(&Sha256::digest(text));
    Cow::Owned(kept)
}

/// The key is a keyed hash already.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u128(&mut self, n: u128) {
        self.0 = (n >> 64) as u64 ^ n as u64;
    }
}

pub(super) type ByKey<T> = std::collections::HashMap<ConvKey, T, BuildHasherDefault<KeyHasher>>;

/// Bytes and calls, of one conversation or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub bytes: u64,
    pub open: u64,
    /// See [`Call::awaits_result`].
    pub unanswered: u64,
}

impl Totals {
    /// Replaces one conversation's share.
    pub fn swap(&mut self, old: Totals, new: Totals) {
        self.bytes = (self.bytes + new.bytes).saturating_sub(old.bytes);
        self.open = (self.open + new.open).saturating_sub(old.open);
        self.unanswered = (self.unanswered + new.unanswered).saturating_sub(old.unanswered);
    }
}

/// Where a conversation stands in the partition's orders: by offset for eviction, by time for expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub offset: i64,
    pub clock: Millis,
    /// The longest idle open call's last event.
    pub idle: Option<Millis>,
    /// When the first start that waits came.
    pub waiting: Option<Millis>,
}

#[derive(Default)]
pub(super) struct Stored {
    pub conversation: Conversation,
    pub index: Index,
    /// Its place as the partition's orders have it; they are brought up to date when a transaction ends.
    pub placed: Option<(ConvKey, Place)>,
    /// Touched in the running transaction.
    pub dirty: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub bytes: u64,
    /// Open calls: exchange, number.
    pub open: BTreeSet<(u32, u32)>,
    /// Open calls of each exchange, definitions of each toolset: how many.
    pub open_in: BTreeMap<u32, usize>,
    pub unanswered: u64,
    pub tools_in: BTreeMap<u32, usize>,
    /// Bytes of definitions: of requests, and of those that came late.
    pub defined: [u64; 2],
    pub by_slot: BTreeSet<(u32, Slot, u32)>,
    pub by_id: BTreeSet<(u64, u32)>,
    /// By the item's own id.
    pub by_item: BTreeSet<(u64, u32)>,
    /// Definitions: toolset, hash of the name, number.
    pub tools: BTreeSet<(u32, u64, u32)>,
    /// Calls that were judged.
    pub judged: BTreeSet<u32>,
    pub results: BTreeSet<([u8; 16], [u8; 16], u32)>,
}

/// A call's contribution to the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    exchange: u32,
    slot: Slot,
    id: Option<u64>,
    item: Option<u64>,
    open: bool,
    unanswered: bool,
    judged: bool,
    bytes: u64,
}

pub(super) fn id_hash(id: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(id);
    hasher.finish()
}

fn one_less(counts: &mut BTreeMap<u32, usize>, of: u32) {
    if let Some(count) = counts.get_mut(&of) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&of);
        }
    }
}

/// Of what a definition is called by.
pub(super) fn tool_hash(tool: &Tool) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&(&tool.server, &tool.namespace, &tool.name), &mut hasher);
    hasher.finish()
}

fn some_len(text: &Option<Vec<u8>>) -> u64 {
    text.as_ref().map_or(0, |t| t.len() as u64)
}

pub(super) fn head_bytes(head: &Head) -> u64 {
    let names = head.name.len() + head.fleet.len() + head.agent.len();
    let waiting: usize = head.waiting.iter().map(Waiting::bytes).sum();
    512 + (names + waiting) as u64 + some_len(&head.record_key) + 48 * head.sources.len() as u64
}

pub(super) fn exchange_bytes(exchange: &Exchange) -> u64 {
    let parts = exchange.choices.len() + exchange.settled.ranges();
    let seals = 64 * exchange.seals.len() as u64;
    272 + some_len(&exchange.host_id) + some_len(&exchange.payload_id) + 16 * parts as u64 + seals
}

pub(super) fn call_bytes(call: &Call) -> u64 {
    let names = call.id.len() + call.item_id.len() + call.name.len() + call.text.len();
    512 + names as u64 + some_len(&call.namespace) + some_len(&call.server)
}

const RESULT_BYTES: u64 = 192;
const TOOLSET_BYTES: u64 = 64;
const REQUEST_BYTES: u64 = 128;

pub(super) fn tool_bytes(tool: &Tool) -> u64 {
    160 + tool.name.len() as u64 + some_len(&tool.namespace) + some_len(&tool.server) + some_len(&tool.schema)
}

pub(super) fn piece_bytes(piece: &Piece) -> u64 {
    96 + (piece.response.len() + piece.bytes.len()) as u64
}

impl Mark {
    pub fn of(call: &Call) -> Self {
        let id = call.effective_id();
        let item = &call.item_id;
        Self {
            exchange: call.exchange,
            slot: call.slot,
            id: (!id.is_empty()).then(|| id_hash(id)),
            item: (!item.is_empty()).then(|| id_hash(item)),
            open: call.is_open(),
            unanswered: call.awaits_result(),
            judged: call.action.is_some(),
            bytes: call_bytes(call),
        }
    }
}

impl Index {
    /// Replaces a call's contribution.
    pub fn call(&mut self, n: u32, old: Option<Mark>, new: Option<Mark>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.bytes -= old.bytes;
            self.unanswered -= u64::from(old.unanswered);
            self.by_slot.remove(&(old.exchange, old.slot, n));
            if self.open.remove(&(old.exchange, n)) {
                one_less(&mut self.open_in, old.exchange);
            }
            self.judged.remove(&n);
            if let Some(id) = old.id {
                self.by_id.remove(&(id, n));
            }
            if let Some(item) = old.item {
                self.by_item.remove(&(item, n));
            }
        }
        if let Some(new) = new {
            self.bytes += new.bytes;
            self.unanswered += u64::from(new.unanswered);
            self.by_slot.insert((new.exchange, new.slot, n));
            if new.open {
                self.open.insert((new.exchange, n));
                *self.open_in.entry(new.exchange).or_default() += 1;
            }
            if new.judged {
                self.judged.insert(n);
            }
            if let Some(id) = new.id {
                self.by_id.insert((id, n));
            }
            if let Some(item) = new.item {
                self.by_item.insert((item, n));
            }
        }
    }
    fn tool(&mut self, placed: (u32, u64, u32)) {
        self.tools.insert(placed);
        *self.tools_in.entry(placed.0).or_default() += 1;
    }
    pub fn resize(&mut self, old: u64, new: u64) {
        self.bytes = self.bytes - old + new;
    }
}

/// Entries that only count by their size.
trait Sized64 {
    fn size(&self) -> u64;
}
impl Sized64 for Exchange {
    fn size(&self) -> u64 {
        exchange_bytes(self)
    }
}
impl Sized64 for Piece {
    fn size(&self) -> u64 {
        piece_bytes(self)
    }
}
impl Sized64 for Tool {
    fn size(&self) -> u64 {
        tool_bytes(self)
    }
}
impl Sized64 for Toolset {
    fn size(&self) -> u64 {
        TOOLSET_BYTES
    }
}

impl Sized64 for RpcRequest {
    fn size(&self) -> u64 {
        REQUEST_BYTES
    }
}

impl Sized64 for Seen {
    fn size(&self) -> u64 {
        self.bytes()
    }
}

fn set<T: Sized64>(map: &mut BTreeMap<u32, T>, index: &mut Index, n: u32, new: Option<T>) -> Option<T> {
    let size = new.as_ref().map_or(0, Sized64::size);
    let old = match new {
        Some(new) => map.insert(n, new),
        None => map.remove(&n),
    };
    index.resize(old.as_ref().map_or(0, Sized64::size), size);
    old
}

impl Stored {
    pub fn new(head: Head) -> Self {
        let mut stored = Self::default();
        stored.index.bytes = head_bytes(&head);
        stored.conversation.head = head;
        stored
    }
    pub fn totals(&self) -> Totals {
        let Index { bytes, unanswered, .. } = self.index;
        Totals { bytes, open: self.index.open.len() as u64, unanswered }
    }
    pub fn place(&self) -> Place {
        let calls = &self.conversation.calls;
        let open = self.index.open.iter().filter_map(|(_, n)| calls.get(n));
        Place {
            offset: self.conversation.head.last_offset,
            clock: self.conversation.head.clock,
            idle: open.map(|call| call.touched).min(),
            waiting: self.conversation.head.waiting.iter().map(|start| start.time).min(),
        }
    }
    pub fn set_head(&mut self, head: Head) -> Head {
        self.index.resize(head_bytes(&self.conversation.head), head_bytes(&head));
        std::mem::replace(&mut self.conversation.head, head)
    }
    pub fn set_exchange(&mut self, n: u32, new: Option<Exchange>) -> Option<Exchange> {
        set(&mut self.conversation.exchanges, &mut self.index, n, new)
    }
    pub fn set_toolset(&mut self, n: u32, new: Option<Toolset>) -> Option<Toolset> {
        set(&mut self.conversation.toolsets, &mut self.index, n, new)
    }
    pub fn set_request(&mut self, n: u32, new: Option<RpcRequest>) -> Option<RpcRequest> {
        set(&mut self.conversation.requests, &mut self.index, n, new)
    }
    pub fn set_seen(&mut self, n: u32, new: Option<Seen>) -> Option<Seen> {
        set(&mut self.conversation.seen, &mut self.index, n, new)
    }
    pub fn set_tool(&mut self, n: u32, new: Option<Tool>) -> Option<Tool> {
        let place = |tool: &Tool| (tool.toolset, tool_hash(tool), n);
        let placed = new.as_ref().map(place);
        let old = set(&mut self.conversation.tools, &mut self.index, n, new);
        if let Some(tool) = self.conversation.tools.get(&n) {
            self.index.defined[usize::from(tool.late)] += tool_bytes(tool);
        }
        if let Some(old) = &old {
            self.index.defined[usize::from(old.late)] -= tool_bytes(old);
            self.index.tools.remove(&place(old));
            one_less(&mut self.index.tools_in, old.toolset);
        }
        if let Some(placed) = placed {
            self.index.tool(placed);
        }
        old
    }
    pub fn set_piece(&mut self, n: u32, new: Option<Piece>) -> Option<Piece> {
        set(&mut self.conversation.pieces, &mut self.index, n, new)
    }
    pub fn set_result(&mut self, n: u32, new: Option<ResultFact>) -> Option<ResultFact> {
        if let Some(new) = &new {
            self.index.results.insert((new.call_id, new.content, n));
            self.index.bytes += RESULT_BYTES;
        }
        let old = match new {
            Some(new) => self.conversation.results.insert(n, new),
            None => self.conversation.results.remove(&n),
        };
        if let Some(old) = &old {
            if !self.conversation.results.get(&n).is_some_and(|r| r.call_id == old.call_id && r.content == old.content)
            {
                self.index.results.remove(&(old.call_id, old.content, n));
            }
            self.index.bytes -= RESULT_BYTES;
        }
        old
    }
    pub fn set_call(&mut self, n: u32, new: Option<Call>) -> Option<Call> {
        let mark = new.as_ref().map(Mark::of);
        let old = match new {
            Some(new) => self.conversation.calls.insert(n, new),
            None => self.conversation.calls.remove(&n),
        };
        self.index.call(n, old.as_ref().map(Mark::of), mark);
        old
    }
    /// Changes a call in place and keeps the index true.
    pub fn edit_call<T>(&mut self, n: u32, edit: impl FnOnce(&mut Call) -> T) -> Option<T> {
        let call = self.conversation.calls.get_mut(&n)?;
        let old = Mark::of(call);
        let out = edit(call);
        self.index.call(n, Some(old), Some(Mark::of(call)));
        Some(out)
    }
    /// Computes every index anew.
    pub fn reindex(&mut self) {
        let conversation = &self.conversation;
        let mut index = Index {
            bytes: head_bytes(&conversation.head)
                + conversation.exchanges.values().map(exchange_bytes).sum::<u64>()
                + conversation.toolsets.len() as u64 * TOOLSET_BYTES
                + conversation.tools.values().map(tool_bytes).sum::<u64>()
                + conversation.pieces.values().map(piece_bytes).sum::<u64>()
                + conversation.results.len() as u64 * RESULT_BYTES
                + conversation.requests.len() as u64 * REQUEST_BYTES
                + conversation.seen.values().map(Seen::bytes).sum::<u64>(),
            ..Index::default()
        };
        for (n, call) in &conversation.calls {
            index.call(*n, None, Some(Mark::of(call)));
        }
        for (n, tool) in &conversation.tools {
            index.defined[usize::from(tool.late)] += tool_bytes(tool);
            index.tool((tool.toolset, tool_hash(tool), *n));
        }
        for (n, fact) in &conversation.results {
            index.results.insert((fact.call_id, fact.content, *n));
        }
        self.index = index;
    }
}
