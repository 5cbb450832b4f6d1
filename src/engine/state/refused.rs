//! Calls that are over a limit, and places whose calls are over.
//!
//! A response may name more calls than are kept. The first of those are cut one by one, each with a verdict;
//! the rest are counted. A call whose entry is gone leaves its place behind, so that what still comes for it
//! does not make a second call with a second verdict.

use super::Ready;
use super::conversation::{Call, CallStatus, ResponseState};
use super::session::Session;
use crate::engine::event::{CutReason, Slot};

/// Refused calls of one response that are cut one by one.
const REFUSED: u32 = 1024;

impl Session<'_> {
    /// Adds a call; `None` if it ended at once: over a limit, or fragments that nothing can end any more, or at
    /// a place that is settled.
    pub(super) fn admit(&mut self, exchange: u32, call: Call, ready: &mut Vec<Ready>) -> Option<u32> {
        let known = self.conversation().exchanges.get(&exchange)?;
        if known.settled.contains(call.slot) && self.latest(exchange, call.slot).is_none() {
            if !call.orphan {
                self.tally(exchange, |e| e.refused = e.refused.saturating_add(1));
            }
            return None;
        }
        let index = &self.stored.index;
        let here = index.open_in.get(&exchange).copied().unwrap_or(0);
        let full = here >= self.limits.open_calls_per_response as usize
            || index.open.len() >= self.limits.open_calls_per_conversation as usize;
        let over = known.provider.has_choices() && known.has_ended(call.slot.1);
        let late = call.orphan && (known.response == ResponseState::Ended || over);
        let reason = match (late, full) {
            (true, _) => CutReason::Orphan,
            (_, true) => CutReason::Limit,
            _ => return Some(self.add_call(call)),
        };
        let counted = known.refused >= REFUSED;
        self.tally(exchange, |e| {
            e.refused = e.refused.saturating_add(1);
            if counted {
                e.settled.add(call.slot);
            }
        });
        if !counted {
            let n = self.add_call(call);
            self.finish(n, CallStatus::Cut(reason), ready);
        }
        None
    }

    /// The entry of a call that was judged goes. While its response runs its place stays settled.
    pub(super) fn forget(&mut self, n: u32) -> Option<Call> {
        let (exchange, slot): (u32, Slot) = self.call(n).map(|c| (c.exchange, c.slot))?;
        let known = self.conversation().exchanges.get(&exchange);
        if known.is_some_and(|e| n >= e.run && e.response != ResponseState::Ended) {
            self.tally(exchange, |e| e.settled.add(slot));
        }
        self.stored.set_call(n, None)
    }
}
