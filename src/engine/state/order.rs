//! The orders of a partition's conversations: which is evicted next, which is due.
//!
//! The sets hold places as of the last commit and are brought up to date once a transaction, for the
//! conversations it touched. Inside the transaction those are looked at one by one, so answers are always
//! those of the present entries. Updating the sets at every record would cost more than absorbing a delta.

use super::store::{ByKey, Place, Stored};
use super::{ConvKey, StateLimits};
use crate::engine::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

#[derive(Default)]
pub(super) struct Orders {
    by_offset: BTreeSet<(i64, ConvKey)>,
    by_clock: BTreeSet<(Millis, ConvKey)>,
    by_idle: BTreeSet<(Millis, ConvKey)>,
    by_waiting: BTreeSet<(Millis, ConvKey)>,
    /// Touched in the running transaction; may repeat a key that was removed and made anew.
    touched: Vec<ConvKey>,
    /// Touched without a record, so that its offset is not among the newest.
    ticked: Vec<ConvKey>,
    /// Everything up to here was evicted in the running transaction.
    evicted: Option<(i64, ConvKey)>,
}

fn ttl(ms: u64) -> Millis {
    Millis::try_from(ms).unwrap_or(Millis::MAX)
}

/// A conversation that stands where the sets have it.
fn settled(conversations: &ByKey<Stored>, key: ConvKey) -> bool {
    conversations.get(&key).is_some_and(|s| !s.dirty)
}

impl Orders {
    pub fn touch(&mut self, key: ConvKey, stored: &mut Stored) {
        if !std::mem::replace(&mut stored.dirty, true) {
            self.touched.push(key);
        }
    }
    pub fn ticked(&mut self, key: ConvKey) {
        self.ticked.push(key);
    }
    /// Puts a conversation where its entries say.
    pub fn place(&mut self, key: ConvKey, stored: &mut Stored) {
        let place = stored.place();
        self.by_offset.insert((place.offset, key));
        self.by_clock.insert((place.clock, key));
        if let Some(idle) = place.idle {
            self.by_idle.insert((idle, key));
        }
        if let Some(since) = place.waiting {
            self.by_waiting.insert((since, key));
        }
        stored.placed = Some((key, place));
        stored.dirty = false;
    }
    pub fn forget(&mut self, (key, place): (ConvKey, Place)) {
        self.by_offset.remove(&(place.offset, key));
        self.by_clock.remove(&(place.clock, key));
        if let Some(idle) = place.idle {
            self.by_idle.remove(&(idle, key));
        }
        if let Some(since) = place.waiting {
            self.by_waiting.remove(&(since, key));
        }
    }
    pub fn accept(&mut self, conversations: &mut ByKey<Stored>) {
        for key in std::mem::take(&mut self.touched) {
            if let Some(stored) = conversations.get_mut(&key).filter(|s| s.dirty) {
                if let Some(placed) = stored.placed {
                    self.forget(placed);
                }
                self.place(key, stored);
            }
        }
        self.end();
    }
    pub fn rollback(&mut self, conversations: &mut ByKey<Stored>) {
        for key in std::mem::take(&mut self.touched) {
            if let Some(stored) = conversations.get_mut(&key) {
                stored.dirty = false;
            }
        }
        self.end();
    }
    fn end(&mut self) {
        self.ticked.clear();
        self.rewind();
    }
    /// Evictions may have been undone.
    pub fn rewind(&mut self) {
        self.evicted = None;
    }

    /// The least recently used conversation but `keep`.
    pub fn oldest(&mut self, conversations: &ByKey<Stored>, keep: ConvKey) -> Option<ConvKey> {
        let from = self.evicted.map_or(Bound::Unbounded, Bound::Excluded);
        let clean = self.by_offset.range((from, Bound::Unbounded));
        let clean = clean.copied().find(|(_, key)| *key != keep && settled(conversations, *key));
        // What a record touched is newer than all that none did.
        let moved = if clean.is_some() { &self.ticked } else { &self.touched };
        let offset = |key: &ConvKey| {
            let stored = conversations.get(key).filter(|_| *key != keep)?;
            Some((stored.conversation.head.last_offset, *key))
        };
        let moved = moved.iter().filter_map(offset).min();
        if clean.is_some() && moved.is_none_or(|moved| Some(moved) > clean) {
            self.evicted = clean;
            return clean.map(|(_, key)| key);
        }
        moved.map(|(_, key)| key)
    }

    pub fn due(&self, conversations: &ByKey<Stored>, now: Millis, budget: u32, limits: &StateLimits) -> Vec<ConvKey> {
        let (call, whole) = (ttl(limits.call_ttl_ms), ttl(limits.conversation_ttl_ms));
        let start = ttl(limits.reorder_window_ms);
        let mut due = BTreeMap::<ConvKey, Millis>::new();
        let mut note = |key: ConvKey, deadline: Millis| {
            let known = due.entry(key).or_insert(deadline);
            *known = deadline.min(*known);
        };
        for (order, ttl) in [(&self.by_idle, call), (&self.by_clock, whole), (&self.by_waiting, start)] {
            let last = (now.saturating_sub(ttl), ConvKey(u128::MAX));
            let clean = order.range(..=last).filter(|(_, key)| settled(conversations, *key));
            for (since, key) in clean.take(budget as usize) {
                note(*key, since.saturating_add(ttl));
            }
        }
        for key in &self.touched {
            let Some(stored) = conversations.get(key).filter(|s| s.dirty) else { continue };
            let place = stored.place();
            let idle = place.idle.map(|since| since.saturating_add(call));
            let waiting = place.waiting.map(|since| since.saturating_add(start));
            for deadline in idle.into_iter().chain(waiting).chain([place.clock.saturating_add(whole)]) {
                if deadline <= now {
                    note(*key, deadline);
                }
            }
        }
        let mut due: Vec<_> = due.into_iter().map(|(key, deadline)| (deadline, key)).collect();
        due.sort_unstable();
        due.truncate(budget as usize);
        due.into_iter().map(|(_, key)| key).collect()
    }
}
