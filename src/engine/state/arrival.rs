//! Calls that the wire gives no place: they are numbered in the order of their arrival.
//!
//! Gemini numbers none, and each of its calls is over when the next one opens. Servers that speak like Chat may
//! leave the number out; there, calls have no end marker either, and an id or nothing tells where a piece belongs.

use super::Ready;
use super::assembly::{attribute, marks_ends};
use super::conversation::{Call, CallStatus, TextSource};
use super::item::agree;
use super::session::Session;
use crate::engine::event::{CallFacts, CutReason, Executor, ItemStatus, Slot};
use crate::engine::json::Value;

/// Numbers that are looked through for a choice's latest call.
const LATEST: usize = 128;

impl Session<'_> {
    /// The place of a call that opens where the wire numbers none. Calls of such a response follow on one
    /// another: what was not closed before the next one opens is void, where calls have end markers. Where they
    /// have none, an id that the choice has already is the same call's.
    pub(super) fn next_arrival(
        &mut self,
        exchange: u32,
        slot: Slot,
        id: Option<Value<'_>>,
        ready: &mut Vec<Ready>,
    ) -> Slot {
        let Some(known) = self.conversation().exchanges.get(&exchange).filter(|_| slot.is_arrival()) else {
            return slot;
        };
        let place = Slot(known.arrivals, slot.1);
        if !marks_ends(known.provider) {
            let id = id.map(attribute).filter(|id| !id.is_empty());
            let same = id.and_then(|id| self.of_choice(exchange, slot.1, &id)).and_then(|n| self.call(n));
            if let Some(call) = same {
                return call.slot;
            }
        } else {
            self.end_arrival(exchange, slot, ready);
        }
        self.tally(exchange, |e| e.arrivals = e.arrivals.saturating_add(1));
        place
    }
    /// The place of the open call that this one goes on with: code that the provider runs comes in pieces, each
    /// of which looks like the first.
    pub(super) fn continued(&self, exchange: u32, facts: &CallFacts<'_>) -> Option<Slot> {
        if !facts.slot.is_arrival() || facts.executor != Executor::Provider {
            return None;
        }
        let call = self.latest(exchange, self.latest_arrival(exchange, facts.slot)).and_then(|n| self.call(n))?;
        let id = facts.id.map(attribute).unwrap_or_default();
        let same = call.executor == facts.executor && call.form == facts.form && !call.orphan;
        (same && call.status == CallStatus::Open && agree(&call.id, &id)).then_some(call.slot)
    }
    /// Where calls are numbered by arrival, a whole call of which no value was said has no arguments.
    pub(super) fn without_arguments(&mut self, n: u32) {
        if self.call(n).is_some_and(|c| c.is_open() && !c.orphan && c.source == TextSource::None) {
            self.edit_progress(n, |call| call.source = TextSource::Restated);
        }
    }
    /// The place of the latest call of a choice where the wire numbers none; the next free one if there is none.
    pub(super) fn latest_arrival(&self, exchange: u32, slot: Slot) -> Slot {
        let Some(known) = self.conversation().exchanges.get(&exchange).filter(|_| slot.is_arrival()) else {
            return slot;
        };
        let earlier = (0..known.arrivals).rev().take(LATEST).map(|at| Slot(at, slot.1));
        let mut there = earlier.filter(|at| self.latest(exchange, *at).is_some());
        there.next().unwrap_or(Slot(known.arrivals, slot.1))
    }
    /// Another call opens: the latest one is over.
    fn end_arrival(&mut self, exchange: u32, slot: Slot, ready: &mut Vec<Ready>) {
        let last = self.latest_arrival(exchange, slot);
        let last = self.latest(exchange, last).and_then(|n| Some((n, self.call(n)?)));
        match last.filter(|(_, call)| call.status == CallStatus::Open) {
            // Code that the provider runs has no end marker: what comes behind it is one.
            Some((n, call)) if call.executor == Executor::Provider => {
                let time = call.touched;
                self.close(n, ItemStatus::Complete, time);
            }
            Some((n, call)) => {
                let reason = if call.orphan { CutReason::Orphan } else { CutReason::Superseded };
                self.finish(n, CallStatus::Cut(reason), ready);
            }
            None => {}
        }
    }
    /// The call of a choice, in the response's present run, that has this id.
    pub(super) fn of_choice(&self, exchange: u32, choice: u32, id: &[u8]) -> Option<u32> {
        let run = self.conversation().exchanges.get(&exchange)?.run;
        let here = |c: &Call| c.exchange == exchange && c.slot.1 == choice && c.id == *id;
        self.calls_by_id(id).find(|(n, c)| *n >= run && here(c)).map(|(n, _)| n)
    }
    /// Where a piece without a place belongs: to the latest call that has none either. Where all calls have one,
    /// it may belong to any, unless it is empty.
    pub(super) fn piece_arrival(&mut self, exchange: u32, slot: Slot, empty: bool) -> Slot {
        let Some(known) = self.conversation().exchanges.get(&exchange).filter(|_| slot.is_arrival()) else {
            return slot;
        };
        if known.arrivals > 0 || marks_ends(known.provider) {
            return self.latest_arrival(exchange, slot);
        }
        if empty {
            return slot;
        }
        for n in self.open_calls(exchange) {
            if self.call(n).is_some_and(|c| c.slot.1 == slot.1 && !c.orphan) {
                self.edit_progress(n, |call| call.conflict = true);
            }
        }
        slot
    }
}

/// Whether a JSON text ends inside a string, an object or an array.
pub(super) fn breaks_off(text: &[u8]) -> bool {
    let (mut depth, mut string, mut escaped) = (0_i64, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = string,
            b'"' => string = !string,
            b'{' | b'[' if !string => depth += 1,
            b'}' | b']' if !string => depth -= 1,
            _ => {}
        }
    }
    string || depth > 0
}
