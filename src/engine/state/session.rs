//! One conversation, open for changes by one record.
//!
//! Every change pushes its undo first and keeps the indexes true behind it. A `&mut` entry that is handed out
//! (`head`, `exchange_mut`, `call_mut`) is a loan: its undo is pushed before, its size and index are brought up
//! to date at the session's next call or its end.

use super::conversation::{Call, Conversation, Exchange, Head, ResultFact};
use super::journal::{Log, Undo};
use super::store::{Mark, Stored, Totals, clip, exchange_bytes, head_bytes, id_hash};
use super::{At, ConvKey, StateLimits};
use crate::engine::decision::Decision;
use crate::engine::event::{Executor, Slot};

/// One conversation, open for changes by one record. Reads go through [`Session::conversation`].
pub struct Session<'s> {
    pub(super) key: ConvKey,
    pub(super) stored: &'s mut Stored,
    pub(super) log: &'s mut Log,
    totals: &'s mut Totals,
    before: Totals,
    pub(super) limits: StateLimits,
    evicted: u32,
    loan: Option<Loan>,
    head_saved: bool,
}

/// What was handed out, and what it counted for then.
enum Loan {
    Head(u64),
    Exchange(u32, u64),
    Call(u32, Mark),
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.end_loan();
        self.totals.swap(self.before, self.stored.totals());
    }
}

impl<'s> Session<'s> {
    pub(super) fn new(
        key: ConvKey,
        stored: &'s mut Stored,
        log: &'s mut Log,
        totals: &'s mut Totals,
        limits: StateLimits,
        evicted: u32,
    ) -> Self {
        let before = stored.totals();
        Self { key, stored, log, totals, before, limits, evicted, loan: None, head_saved: false }
    }
    pub fn conversation(&self) -> &Conversation {
        &self.stored.conversation
    }
    /// Conversations that were evicted to make room for this one.
    pub fn evicted(&self) -> u32 {
        self.evicted
    }
    /// Head changes.
    pub fn head(&mut self) -> &mut Head {
        self.end_loan();
        let head = &mut self.stored.conversation.head;
        if !std::mem::replace(&mut self.head_saved, true) {
            self.log.push(self.key, Undo::Head(Box::new(head.clone())));
        }
        self.loan = Some(Loan::Head(head_bytes(head)));
        head
    }
    pub fn exchange_mut(&mut self, n: u32) -> Option<&mut Exchange> {
        self.end_loan();
        let exchange = self.stored.conversation.exchanges.get_mut(&n)?;
        self.log.push(self.key, Undo::Exchange(n, Some(Box::new(exchange.clone()))));
        self.loan = Some(Loan::Exchange(n, exchange_bytes(exchange)));
        Some(exchange)
    }
    /// A call's attributes. Its text is not to be changed through this: it is undone by its length.
    pub fn call_mut(&mut self, n: u32) -> Option<&mut Call> {
        self.end_loan();
        let call = self.stored.conversation.calls.get_mut(&n)?;
        self.log.push(self.key, Undo::Facts(n, Box::new(call.without_text())));
        self.loan = Some(Loan::Call(n, Mark::of(call)));
        Some(call)
    }
    /// Remembers a judged result; the oldest beyond `history` is forgotten.
    pub fn note_result(&mut self, fact: ResultFact) {
        self.end_loan();
        let n = self.number();
        self.log.push(self.key, Undo::Result(n, None));
        self.stored.set_result(n, Some(fact));
        while self.stored.conversation.results.len() as u64 > u64::from(self.limits.history) {
            let Some(&oldest) = self.stored.conversation.results.keys().next() else { break };
            let prior = self.stored.set_result(oldest, None).map(Box::new);
            self.log.push(self.key, Undo::Result(oldest, prior));
        }
    }
    /// The latest judgement of that content under that call id.
    pub fn result(&self, call_id: &[u8; 16], content: &[u8; 16]) -> Option<&ResultFact> {
        let range = (*call_id, *content, 0)..=(*call_id, *content, u32::MAX);
        let (_, _, n) = self.stored.index.results.range(range).next_back()?;
        self.stored.conversation.results.get(n)
    }
    /// Results of that call id, in order of their first sight; of very many, some.
    pub fn results_of(&self, call_id: &[u8; 16]) -> Vec<(u32, &ResultFact)> {
        const MOST: usize = 256;
        let range = (*call_id, [0; 16], 0)..=(*call_id, [u8::MAX; 16], u32::MAX);
        let numbers = self.stored.index.results.range(range).take(MOST).map(|(.., n)| *n);
        let mut found: Vec<(u32, &ResultFact)> =
            numbers.filter_map(|n| Some((n, self.stored.conversation.results.get(&n)?))).collect();
        found.sort_unstable_by_key(|(n, _)| *n);
        found
    }
    /// The latest call of that id: its correlating id, or the item's own where it has none (empty ids never
    /// match).
    pub fn call_by_id(&self, id: &[u8]) -> Option<(u32, &Call)> {
        self.calls_by_id(id).next()
    }
    /// All calls of that id, latest first.
    pub fn calls_by_id(&self, id: &[u8]) -> impl Iterator<Item = (u32, &Call)> {
        let id = clip(id).into_owned();
        let hash = id_hash(&id);
        let found = self.stored.index.by_id.range((hash, 0)..=(hash, u32::MAX)).rev();
        let calls = &self.stored.conversation.calls;
        found
            .filter_map(|(_, n)| Some((*n, calls.get(n)?)))
            .filter(move |(_, call)| !id.is_empty() && call.effective_id() == id)
    }
    /// The client's calls without an id of the wire, of the latest response that has such calls, in order.
    pub fn without_ids(&self) -> impl Iterator<Item = (u32, &Call)> {
        let nameless = |call: &&Call| call.id.is_empty() && call.executor == Executor::Client;
        let of = move |exchange: u32| {
            let places = (exchange, Slot(0, 0), 0)..=(exchange, Slot(u32::MAX, u32::MAX), u32::MAX);
            let calls = self.stored.index.by_slot.range(places).map(|(_, _, n)| *n);
            calls.filter_map(move |n| Some((n, self.stored.conversation.calls.get(&n).filter(nameless)?)))
        };
        let exchanges = self.stored.conversation.exchanges.keys().rev();
        let latest = exchanges.copied().find(|exchange| of(*exchange).next().is_some());
        latest.into_iter().flat_map(of)
    }
    /// Gives a call without an id the one by which its host names it.
    pub fn adopt(&mut self, n: u32, id: &[u8]) {
        self.end_loan();
        if !id.is_empty() {
            let id = clip(id).into_owned();
            self.edit_facts(n, |call| call.item_id = id);
        }
    }
    /// After judging: remembers digest, size and action, and lets the text go. The oldest settled calls beyond
    /// `history` are forgotten.
    pub fn settle(&mut self, n: u32, sha256: [u8; 32], intent: Option<[u8; 16]>, action: Decision) {
        self.end_loan();
        let Some(call) = self.stored.conversation.calls.get(&n).filter(|c| !c.is_open()) else {
            return;
        };
        let bytes = if call.overflow { call.bytes } else { call.text.len() as u64 };
        let settled = Call { sha256: Some(sha256), intent, bytes, action: Some(action), ..call.without_text() };
        let prior = self.stored.set_call(n, Some(settled)).map(Box::new);
        self.log.push(self.key, Undo::Call(n, prior));
        while self.stored.index.judged.len() as u64 > u64::from(self.limits.history) {
            let Some(&oldest) = self.stored.index.judged.first() else { break };
            let prior = self.forget(oldest).map(Box::new);
            self.log.push(self.key, Undo::Call(oldest, prior));
        }
    }

    /// Brings the size and the index of what was handed out up to date.
    pub(super) fn end_loan(&mut self) {
        let c = &self.stored.conversation;
        match self.loan.take() {
            None => {}
            Some(Loan::Head(old)) => self.stored.index.resize(old, head_bytes(&c.head)),
            Some(Loan::Exchange(n, old)) => {
                let new = c.exchanges.get(&n).map_or(0, exchange_bytes);
                self.stored.index.resize(old, new);
            }
            Some(Loan::Call(n, old)) => {
                let new = c.calls.get(&n).map(Mark::of);
                self.stored.index.call(n, Some(old), new);
            }
        }
    }
    /// Moves clock and offset on to the record's.
    pub(super) fn advance(&mut self, at: At) {
        self.save_clock();
        let head = &mut self.stored.conversation.head;
        head.clock = head.clock.max(at.time);
        head.last_offset = head.last_offset.max(at.offset);
    }
    fn save_clock(&mut self) {
        let head = &self.stored.conversation.head;
        let (clock, last_offset, next) = (head.clock, head.last_offset, head.next);
        self.log.push(self.key, Undo::Clock { clock, last_offset, next });
    }
    /// The next entry number.
    pub(super) fn number(&mut self) -> u32 {
        self.save_clock();
        let next = &mut self.stored.conversation.head.next;
        let n = *next;
        *next = n.saturating_add(1);
        n
    }
    pub(super) fn add_call(&mut self, call: Call) -> u32 {
        let n = self.number();
        self.log.push(self.key, Undo::Call(n, None));
        self.stored.set_call(n, Some(call));
        n
    }
    /// Changes what [`Progress`](super::journal::Progress) covers, nothing else.
    pub(super) fn edit_progress(&mut self, n: u32, edit: impl FnOnce(&mut Call)) {
        if let Some(call) = self.stored.conversation.calls.get(&n) {
            self.log.push_text(self.key, n, call);
            self.stored.edit_call(n, edit);
        }
    }
    /// Changes anything but the text.
    pub(super) fn edit_facts(&mut self, n: u32, edit: impl FnOnce(&mut Call)) {
        if let Some(call) = self.stored.conversation.calls.get(&n) {
            self.log.push(self.key, Undo::Facts(n, Box::new(call.without_text())));
            self.stored.edit_call(n, edit);
        }
    }
    /// Changes an exchange many times in a row for the price of one undo.
    pub(super) fn tally(&mut self, n: u32, edit: impl FnOnce(&mut Exchange)) {
        self.end_loan();
        if let Some(exchange) = self.stored.conversation.exchanges.get_mut(&n) {
            self.log.push_exchange(self.key, n, exchange);
            let old = exchange_bytes(exchange);
            edit(exchange);
            self.stored.index.resize(old, exchange_bytes(exchange));
        }
    }
    pub(super) fn edit_exchange(&mut self, n: u32, edit: impl FnOnce(&mut Exchange)) {
        if let Some(exchange) = self.exchange_mut(n) {
            edit(exchange);
            self.end_loan();
        }
    }
}
