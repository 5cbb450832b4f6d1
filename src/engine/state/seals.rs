//! What providers sign of their responses: kept as digests, so that an echo can be compared with it.

use super::conversation::Seal;
use super::session::Session;
use crate::engine::event::Slot;

/// Signed parts kept of one response.
const SEALS: usize = 64;

impl Session<'_> {
    /// The call at this place was signed. The latest word holds.
    pub fn seal_call(&mut self, exchange: u32, slot: Slot, seal: [u8; 16], required: bool) {
        self.end_loan();
        let slot = self.latest_arrival(exchange, slot);
        let Some(n) = self.latest(exchange, slot) else { return };
        self.require(exchange, required);
        if self.call(n).is_some_and(|call| call.seal != Some(seal)) {
            self.edit_facts(n, |call| call.seal = Some(seal));
        }
    }

    /// A part that is no call was signed. One that has an id may be stated several times, with another cipher each
    /// time: any of them is the provider's. Of one that has none the latest word holds.
    pub fn seal_part(&mut self, exchange: u32, (slot, id): (Slot, Option<[u8; 16]>), seal: [u8; 16], required: bool) {
        self.end_loan();
        let Some(known) = self.conversation().exchanges.get(&exchange) else { return };
        let numbered = !slot.is_arrival();
        let slot = match numbered {
            false => Slot(known.arrivals, slot.1),
            true => slot,
        };
        let of_id = known.seals.iter().find(|other| id.is_some() && other.id == id);
        // The list at the end of a response may number its items anew.
        let slot = of_id.map_or(slot, |other| other.slot);
        let seal = Some(seal);
        if known.seals.iter().any(|other| (other.slot, other.id, other.seal) == (slot, id, seal)) {
            return;
        }
        self.require(exchange, required);
        self.tally(exchange, |e| {
            let replaces = |other: &&mut Seal| numbered && id.is_none() && other.id.is_none() && other.slot == slot;
            let kept = e.seals.len();
            match e.seals.iter_mut().find(replaces) {
                Some(other) => other.seal = seal,
                None if kept < SEALS => e.seals.push(Seal { slot, id, seal, thought: [0; 2] }),
                None => e.seals_omitted = true,
            }
        });
    }

    /// More of the text that stands with the part at this place; `add` is what it does to the text's digest.
    pub fn thought(&mut self, exchange: u32, slot: Slot, add: impl FnOnce([u64; 2]) -> [u64; 2]) {
        self.tally(exchange, |e| {
            let kept = e.seals.len();
            match e.seals.iter_mut().find(|other| other.id.is_none() && other.slot == slot) {
                Some(other) => other.thought = add(other.thought),
                None if kept < SEALS => e.seals.push(Seal { slot, id: None, seal: None, thought: add([0; 2]) }),
                None => e.seals_omitted = true,
            }
        });
    }

    fn require(&mut self, exchange: u32, required: bool) {
        if required && self.conversation().exchanges.get(&exchange).is_some_and(|e| !e.seals_required) {
            self.tally(exchange, |e| e.seals_required = true);
        }
    }
}
