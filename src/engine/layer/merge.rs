//! Edits of several policies that meet in one text become edits that stand apart.
//!
//! Policies do not know of one another: one cuts the middle of a text in which another masks a token and a third
//! puts a label around a sentence. The rule, for the changes of one layer, those of layers below it included:
//! - Equal changes are one. Changes that only touch stand as they are.
//! - A replacement inside a larger one is dropped: what it takes away goes with the larger one. Replacements that
//!   overlap otherwise become one, of all they cover, by their new texts in order of place.
//! - Insertions at one place stand one behind the other, in order of their bytes. An insertion inside a
//!   replacement moves behind it, so that a label still stands before what is left of its sentence. In JSON that is
//!   so within a string; elsewhere it would be half of a value, and is dropped.
//! - A replacement that repeats eight bytes of what it replaces (sanitised markup) takes away nothing for others:
//!   what they replace inside it is looked for in its new text and replaced there. Where that leaves a part of
//!   it, or they meet otherwise, the whole is [`NotExact`]. So it is for bytes that a codec had to write anew.
//! - JSON stays JSON: where more than dropping was done, a text that was an array or object must still be one, or
//!   the whole is [`NotExact`].
//!
//! Invariants, each a property in `tests/engine/layer/merge.rs`: the result does not depend on the order of the
//! edits; no byte of a range that somebody replaced is left; JSON stays JSON.
//!
//! Left out: asking policies what they meant. That a text is shorter than the sum of its edits asked for is safe;
//! a kept byte might not be.

use super::NotExact;
use super::splice::{Change, apply};
use std::collections::HashSet;

/// Bytes of a replaced text by which its new text is known to repeat it.
const WINDOW: usize = 8;
/// Replacements that are looked for in another's new text; each costs a walk over it.
const MOST_INSIDE: usize = 64;

/// Tells an array or object from other text.
pub(super) type IsJson<'f> = &'f dyn Fn(&[u8]) -> bool;

/// A change, and whether a codec wrote more of it anew than was asked for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    change: Change,
    rewritten: bool,
}

impl Piece {
    fn is_insertion(&self) -> bool {
        self.change.start == self.change.end
    }
    fn range(&self) -> (usize, usize) {
        (self.change.start, self.change.end)
    }
    /// Its new text repeats of the old.
    fn repeats(&self, text: &[u8]) -> bool {
        self.rewritten || shares(&self.change.with, replaced(text, &self.change))
    }
}

/// Changes of one text, in order and apart. `rewritten` are those of which a codec wrote more than was asked for.
pub(super) fn settle(
    text: &[u8],
    changes: Vec<Change>,
    rewritten: Vec<Change>,
    is_json: IsJson<'_>,
) -> Result<Vec<Change>, NotExact> {
    let piece = |rewritten| move |change| Piece { change, rewritten };
    let mut pieces: Vec<Piece> = changes.into_iter().map(piece(false)).collect();
    pieces.extend(rewritten.into_iter().map(piece(true)));
    pieces.sort_unstable();
    pieces.dedup_by(|a, b| a.change == b.change);
    if !pieces.iter().all(|piece| piece.change.start <= piece.change.end && piece.change.end <= text.len()) {
        return Err(NotExact);
    }
    let apart = pieces.windows(2).all(|pair| match pair {
        [left, right] => left.change.end <= right.change.start && left.range() != right.range(),
        _ => true,
    });
    if apart {
        return Ok(pieces.into_iter().map(|piece| piece.change).collect());
    }
    let json = is_json(text);
    let (merged, mixed) = merge(text, pieces, json)?;
    if json && mixed && !is_json(&apply(text, &merged)) {
        return Err(NotExact);
    }
    Ok(merged)
}

/// Also says whether something stands there that no single change asked for.
fn merge(text: &[u8], pieces: Vec<Piece>, json: bool) -> Result<(Vec<Change>, bool), NotExact> {
    let mut mixed = false;
    let (insertions, mut replacements): (Vec<Piece>, Vec<Piece>) = pieces.into_iter().partition(Piece::is_insertion);
    // The largest first, so that what stands inside it comes behind it.
    replacements.sort_by(|a, b| (a.change.start, b.change.end).cmp(&(b.change.start, a.change.end)));
    let mut clusters: Vec<(usize, Vec<Piece>)> = Vec::new();
    for piece in replacements {
        match clusters.last_mut() {
            Some((end, cluster)) if piece.change.start < *end => {
                *end = piece.change.end.max(*end);
                cluster.push(piece);
            }
            _ => clusters.push((piece.change.end, vec![piece])),
        }
    }
    let mut merged = Vec::with_capacity(clusters.len() + insertions.len());
    let mut insertions = insertions.into_iter().peekable();
    let mut strings = Strings { text, at: 0, open: false };
    for (end, cluster) in clusters {
        let start = cluster.first().map_or(end, |piece| piece.change.start);
        while let Some(piece) = insertions.next_if(|piece| piece.change.start <= start) {
            mixed |= insert(&mut merged, piece.change);
        }
        let mut inside = Vec::new();
        while let Some(piece) = insertions.next_if(|piece| piece.change.start < end) {
            inside.push(piece.change);
        }
        let (change, united) = unite(text, cluster, (start, end), !inside.is_empty())?;
        mixed |= united || !inside.is_empty();
        merged.push(change);
        let moves = !inside.is_empty() && (!json || strings.is_within_one(start, end));
        for change in inside.into_iter().filter(|_| moves) {
            insert(&mut merged, Change { start: end, end, with: change.with });
        }
    }
    for piece in insertions {
        mixed |= insert(&mut merged, piece.change);
    }
    Ok((merged, mixed))
}

/// A walk over JSON that tells strings from what stands around them; each byte is looked at once.
struct Strings<'t> {
    text: &'t [u8],
    at: usize,
    open: bool,
}

impl Strings<'_> {
    /// Whether a range lies within one string. Ranges are asked for in order.
    fn is_within_one(&mut self, start: usize, end: usize) -> bool {
        self.walk(start);
        let open = self.open;
        open && !self.walk(end)
    }

    /// Goes on to a place; whether a string began or ended on the way.
    fn walk(&mut self, to: usize) -> bool {
        let mut met = false;
        while self.at < to {
            match self.text.get(self.at) {
                Some(b'\\') if self.open => self.at += 1,
                Some(b'"') => {
                    self.open = !self.open;
                    met = true;
                }
                _ => {}
            }
            self.at += 1;
        }
        met
    }
}

/// Adds an insertion; one at the same place stands behind the one before it. Says whether there was one.
fn insert(merged: &mut Vec<Change>, change: Change) -> bool {
    match merged.last_mut() {
        Some(last) if (last.start, last.end) == (change.start, change.end) => {
            last.with.extend(change.with);
            true
        }
        _ => {
            merged.push(change);
            false
        }
    }
}

/// One change for replacements that overlap, and whether it is none of them. `torn`: somebody inserts into them.
fn unite(text: &[u8], cluster: Vec<Piece>, range: (usize, usize), torn: bool) -> Result<(Change, bool), NotExact> {
    let mut kept: Vec<Piece> = Vec::new();
    let mut inside: Vec<Piece> = Vec::new();
    let mut end = 0;
    let alone = cluster.len() == 1 && !torn;
    for piece in cluster {
        let same = kept.last().is_some_and(|last| last.range() == piece.range());
        if piece.change.end <= end && !same {
            inside.push(piece);
        } else {
            end = piece.change.end;
            kept.push(piece);
        }
    }
    if !alone && kept.iter().any(|piece| piece.repeats(text)) {
        return match &kept[..] {
            [only] if !torn && !only.rewritten => Ok((replace_inside(text, only.change.clone(), &inside)?, true)),
            _ => Err(NotExact),
        };
    }
    let united = kept.len() > 1;
    let with = kept.into_iter().flat_map(|piece| piece.change.with).collect();
    Ok((Change { start: range.0, end: range.1, with }, united))
}

/// A change whose new text repeats the old, with what others replace inside it replaced there.
fn replace_inside(text: &[u8], mut outer: Change, inside: &[Piece]) -> Result<Change, NotExact> {
    if inside.len() > MOST_INSIDE {
        return Err(NotExact);
    }
    for piece in inside {
        let old = replaced(text, &piece.change);
        if old.len() < WINDOW || piece.repeats(text) {
            return Err(NotExact);
        }
        outer.with = replace_all(&outer.with, old, &piece.change.with);
        if shares(&outer.with, old) {
            return Err(NotExact);
        }
    }
    Ok(outer)
}

fn replaced<'t>(text: &'t [u8], change: &Change) -> &'t [u8] {
    text.get(change.start..change.end).unwrap_or_default()
}

/// Whether the texts have [`WINDOW`] bytes in a row in common. The first is the one that is kept in memory.
fn shares(short: &[u8], long: &[u8]) -> bool {
    if short.len() < WINDOW || long.len() < WINDOW {
        return false;
    }
    let windows: HashSet<&[u8]> = short.windows(WINDOW).collect();
    long.windows(WINDOW).any(|window| windows.contains(window))
}

fn replace_all(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        match rest.strip_prefix(old) {
            Some(behind) => {
                out.extend_from_slice(new);
                rest = behind;
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}
