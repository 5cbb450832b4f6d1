//! Literals in a text, all of them in one walk.
//!
//! An automaton that goes from byte to byte waits at each for its table. So the text is walked at [`LANES`] places at
//! once, window by window: each lane begins as far before its part as the longest literal reaches back, and its state
//! then knows every literal that can end in the part.
//!
//! Invariants: hits are told as the overlapping search of `aho_corasick` tells them, in order of their ends and the
//! longest first (a test compares them); what is kept at a time is bounded by the window.

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::{Builder, DFA};
use std::ops::Range;

/// Places that are walked at once.
const LANES: usize = 4;
/// Bytes of a lane's part at most.
const STEP: usize = 2 << 10;

/// A set of literals, compiled.
pub struct Literals {
    dfa: DFA,
    start: StateID,
    /// Bytes by which a lane begins before its part.
    ahead: usize,
}

impl Literals {
    /// `None` where they are too many or too long for a table.
    pub fn new<P: AsRef<[u8]>>(literals: impl IntoIterator<Item = P>, ignore_case: bool) -> Option<Self> {
        let dfa = Builder::new().ascii_case_insensitive(ignore_case).prefilter(false).build(literals).ok()?;
        let start = dfa.start_state(Anchored::No).ok()?;
        let ahead = dfa.max_pattern_len().saturating_sub(1);
        Some(Self { dfa, start, ahead })
    }

    /// Of the table, bytes.
    pub fn memory_usage(&self) -> usize {
        self.dfa.memory_usage()
    }

    /// Whether any stands in a text.
    pub fn is_in(&self, text: &[u8]) -> bool {
        let mut any = false;
        self.find(text, |_, _| any = true);
        any
    }

    /// Tells which literal stands where, by its place among those that were given.
    pub fn find(&self, text: &[u8], mut found: impl FnMut(usize, Range<usize>)) {
        let mut hits: [Vec<(StateID, usize)>; LANES] = Default::default();
        let (mut state, mut at) = (self.start, 0);
        loop {
            let rest = text.get(at..).unwrap_or_default();
            let step = (rest.len() / LANES).min(STEP);
            if step <= 2 * self.ahead {
                for (ix, byte) in rest.iter().enumerate() {
                    state = self.dfa.next_state(Anchored::No, state, *byte);
                    if self.dfa.is_match(state) {
                        self.tell(state, at + ix + 1, &mut found);
                    }
                }
                return;
            }
            let part = |lane: usize, from: usize| rest.get(lane * step - from..(lane + 1) * step).unwrap_or_default();
            let before = |lane: usize| part(lane, self.ahead).get(..self.ahead).unwrap_or_default();
            // The first lane goes on where the last one ended.
            let [_, b, c, d] =
                self.walk([self.start; LANES], [before(1), before(1), before(2), before(3)], |_, _, _| {});
            let parts = [part(0, 0), part(1, 0), part(2, 0), part(3, 0)];
            let states = self.walk([state, b, c, d], parts, |lane, ix, state| {
                if let Some(hits) = hits.get_mut(lane) {
                    hits.push((state, at + lane * step + ix + 1));
                }
            });
            for (state, end) in hits.iter_mut().flat_map(|hits| hits.drain(..)) {
                self.tell(state, end, &mut found);
            }
            [.., state] = states;
            at += LANES * step;
        }
    }

    /// Walks parts of the same length, and says in which lane behind which byte a literal ended.
    #[inline(always)]
    fn walk(
        &self,
        states: [StateID; LANES],
        parts: [&[u8]; LANES],
        mut ended: impl FnMut(usize, usize, StateID),
    ) -> [StateID; LANES] {
        let next = |state, byte: &u8| self.dfa.next_state(Anchored::No, state, *byte);
        let is_match = |state| self.dfa.is_match(state);
        let ([mut a, mut b, mut c, mut d], [p, q, r, s]) = (states, parts);
        for (ix, (((p, q), r), s)) in p.iter().zip(q).zip(r).zip(s).enumerate() {
            (a, b, c, d) = (next(a, p), next(b, q), next(c, r), next(d, s));
            if is_match(a) | is_match(b) | is_match(c) | is_match(d) {
                let lanes = [a, b, c, d].into_iter().enumerate().filter(|(_, state)| is_match(*state));
                lanes.for_each(|(lane, state)| ended(lane, ix, state));
            }
        }
        [a, b, c, d]
    }

    fn tell(&self, state: StateID, end: usize, found: &mut impl FnMut(usize, Range<usize>)) {
        for ix in 0..self.dfa.match_len(state) {
            let literal = self.dfa.match_pattern(state, ix);
            found(literal.as_usize(), end - self.dfa.pattern_len(literal)..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aho_corasick::AhoCorasick;

    /// Every length around the borders of lanes and windows, with literals on and over them.
    #[test]
    fn lanes_tell_what_one_walk_tells() {
        let literals = ["key", "monkey", "ke", "aa", "aaaaaaaa", "a sentence of some words", "Y"];
        let found = |text: &[u8]| {
            let mut found = Vec::new();
            Literals::new(literals, true).unwrap().find(text, |literal, at| found.push((literal, at.start, at.end)));
            found
        };
        let one = AhoCorasick::builder().ascii_case_insensitive(true).build(literals).unwrap();
        let expected = |text: &[u8]| {
            let all = one.find_overlapping_iter(text);
            all.map(|at| (at.pattern().as_usize(), at.start(), at.end())).collect::<Vec<_>>()
        };
        for piece in ["monKEY ", "a", "A sentence of some words, ", "keke", "nothing of it "] {
            for length in
                (0..400).chain(LANES * STEP - 9..LANES * STEP + 400).chain(3 * LANES * STEP..3 * LANES * STEP + 9)
            {
                let text: Vec<u8> = piece.bytes().cycle().take(length).collect();
                assert_eq!(found(&text), expected(&text), "{piece:?} {length}");
            }
        }
    }
}
