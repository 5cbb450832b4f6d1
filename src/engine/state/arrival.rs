//! Calls without a place on the wire, and arguments that come leaf by leaf.
//!
//! Where the wire numbers no calls they are numbered by their arrival in their choice. Gemini's follow on one
//! another: what adds to a call means the latest, and what is open when the next one begins is over. Servers that
//! speak like Chat may leave the number out; there, calls have no end marker either, and an id or nothing tells
//! where a piece belongs.

use super::assembly::{attribute, marks_ends, opened};
use super::conversation::{Call, CallStatus, TextSource};
use super::item::agree;
use super::leaves::{self, Leaf};
use super::session::Session;
use super::{At, Ready};
use crate::engine::event::{CallFacts, CutReason, Executor, ItemStatus, LeafValue, Slot};
use crate::engine::json::Value;
use std::borrow::Cow;

/// Calls that are looked back at for the latest of a choice.
const BACK: usize = 128;

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
        // What else comes without a place goes on with the first such piece.
        if empty || self.latest(exchange, slot).is_some() {
            return slot;
        }
        for n in self.open_calls(exchange) {
            if self.call(n).is_some_and(|c| c.slot.1 == slot.1 && !c.orphan && !c.conflict) {
                self.edit_progress(n, |call| call.conflict = true);
            }
        }
        slot
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
        if self.call(n).is_some_and(|c| c.is_open() && !c.orphan && c.preview == 0 && c.source == TextSource::None) {
            self.edit_progress(n, |call| call.source = TextSource::Restated);
        }
    }
    /// The provider takes a call back. One that is still open is cut; one that was final is marked, since a
    /// host may have been told that it may run.
    pub(super) fn cancel(&mut self, id: &[u8], ready: &mut Vec<Ready>) {
        // An MCP client's call may have the same id.
        let found = self.calls_by_id(id).find(|(_, call)| call.server.is_none());
        let Some((n, status)) = found.map(|(n, call)| (n, call.status)) else { return };
        match status {
            CallStatus::Open | CallStatus::Closed(_) => self.finish(n, CallStatus::Cut(CutReason::Cancelled), ready),
            CallStatus::Final => self.edit_facts(n, |call| call.cancelled = true),
            CallStatus::Cut(_) => {}
        }
    }
    /// The place of the latest call of a choice where the wire numbers none; the next free one if there is none.
    pub(super) fn latest_arrival(&self, exchange: u32, slot: Slot) -> Slot {
        let Some(known) = self.conversation().exchanges.get(&exchange).filter(|_| slot.is_arrival()) else {
            return slot;
        };
        let (run, next) = (known.run, known.arrivals);
        let places = (exchange, Slot(0, 0), 0)..(exchange, Slot(next, 0), 0);
        let back = self.stored.index.by_slot.range(places).rev().take(BACK);
        let mut there = back.filter(|(_, at, n)| at.1 == slot.1 && *n >= run).map(|(_, at, _)| *at);
        there.next().unwrap_or(Slot(next, slot.1))
    }

    // --- leaves

    /// A leaf of an argument object joins the log of the call that is open; without one it is an orphan.
    pub(super) fn leaf(
        &mut self,
        exchange: u32,
        slot: Slot,
        (path, value, more): (Value<'_>, LeafValue<'_>, bool),
        at: At,
        ready: &mut Vec<Ready>,
    ) -> Option<u32> {
        let place = self.latest_arrival(exchange, slot);
        let n = match self.latest(exchange, place) {
            Some(n) if self.is_open(n) => n,
            Some(late) => return Some(late),
            None => {
                let slot = self.next_arrival(exchange, slot, None, ready);
                let orphan = Call { orphan: true, ..Call::new(exchange, slot, opened(at)) };
                self.admit(exchange, orphan, ready)?
            }
        };
        let (path, text) = (path.text().unwrap_or_default(), text_of(value).unwrap_or_default());
        let leaf = match value {
            LeafValue::Text(_) => Leaf::Text { text: &text, more },
            LeafValue::Number(number) => Leaf::Number(number.raw()),
            LeafValue::Bool(value) => Leaf::Bool(value),
            LeafValue::Null => Leaf::Null,
        };
        let call = self.stored.conversation.calls.get_mut(&n)?;
        self.log.push_text(self.key, n, call);
        call.fragments = call.fragments.saturating_add(1);
        call.touched = call.touched.max(at.time);
        // Behind an end marker or a whole value, or in what takes no leaves: what is meant cannot be told.
        let takes = matches!(call.source, TextSource::None | TextSource::Leaves);
        let client = call.executor == Executor::Client;
        if call.status != CallStatus::Open || !takes || !client {
            call.conflict = true;
            return None;
        }
        let before = call.text.len() as u64;
        let added = leaves::size(&path, leaf) as u64;
        let held = self.stored.index.bytes + added;
        if before + added > self.limits.call_bytes || held > self.limits.conversation_bytes {
            self.overflow(n, before + added, ready);
            return None;
        }
        call.source = TextSource::Leaves;
        leaves::push(&mut call.text, &path, leaf);
        self.stored.index.resize(before, before + added);
        None
    }
    /// Leaves become the object that they mean; a call whose leaves mean none must not run.
    pub(super) fn assembled(&mut self, n: u32, status: CallStatus) -> CallStatus {
        let Some(call) = self.call(n).filter(|call| call.source == TextSource::Leaves) else { return status };
        let built = (status == CallStatus::Final).then(|| leaves::assemble(&call.text));
        let status = match &built {
            Some(Ok(text)) if !self.fits(n, text.len()) => CallStatus::Cut(CutReason::Limit),
            Some(Err(_)) => CallStatus::Cut(CutReason::Undecodable),
            Some(Ok(_)) | None => status,
        };
        match built.and_then(Result::ok).filter(|_| status == CallStatus::Final) {
            Some(text) => self.replace(n, &text, TextSource::Restated, true),
            None => self.replace(n, &[], TextSource::None, false),
        }
        status
    }
}

fn text_of<'r>(value: LeafValue<'r>) -> Option<Cow<'r, [u8]>> {
    match value {
        LeafValue::Text(text) => text.text(),
        LeafValue::Number(_) | LeafValue::Bool(_) | LeafValue::Null => None,
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
