//! Calls of a choice: where they have neither end marker nor, sometimes, a place.

use super::conversation::Call;
use super::session::Session;
use crate::engine::event::Slot;

impl Session<'_> {
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
        if known.arrivals > 0 {
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
