//! Cutting a JSON tree: long strings first, then tails of arrays and objects.

use super::{Bound, LEAST, level, span, strings};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::Edit;
use bumpalo::Bump;

/// Strings are not cut below this many bytes; what is still too much goes with the tails.
pub(super) const LEAST_STRING: usize = 256;
/// Members whose text is cut with its object or not at all: half an address is another address.
const ADDRESSES: [&str; 4] = ["href", "src", "uri", "url"];
/// Bytes for the entry that stands for a tail, comma and counts included.
const ENTRY: usize = 80;
/// Bytes for names of members left out, where there is room for them.
const NAMES: usize = 320;
const MAX_NAMES: usize = 8;
const MAX_NAME: usize = 36;

/// Cuts a text that is one JSON document, white space around it included.
pub(super) fn document<'r>(bump: &'r Bump, root: Value<'r>, bound: Bound) -> Option<Vec<Edit<'r>>> {
    let (layer, body) = (root.layer(), root.span());
    let space = layer.bytes.len() - body.len();
    let mut edits = Vec::new();
    let mut cap = bound.cap;
    if space <= cap / 4 {
        cap -= space;
    } else {
        let around = [span(layer, 0, body.start as usize), span(layer, body.end as usize, layer.bytes.len())];
        edits.extend(around.into_iter().filter(|s| !s.is_empty()).map(|span| Edit::new(span, Vec::new())));
    }
    if body.len() > cap {
        edits.extend(tree(bump, root, bound.of(cap))?);
    }
    Some(edits)
}

/// Cuts an array or object that is longer than the cap. `None` if the cap has no room for counts.
pub(super) fn tree<'r>(bump: &'r Bump, root: Value<'r>, bound: Bound) -> Option<Vec<Edit<'r>>> {
    if bound.cap < LEAST {
        return None;
    }
    let leaves: Vec<Value<'r>> = long_strings(root).collect();
    let sizes: Vec<usize> = leaves.iter().map(|leaf| leaf.span().len()).collect();
    let string_cap = level(&sizes, root.span().len() - bound.cap).unwrap_or(0).max(LEAST_STRING);
    let mut saved = vec![(0, 0)];
    let mut sum = 0;
    for leaf in &leaves {
        sum += leaf.span().len().saturating_sub(string_cap);
        saved.push((leaf.span().start, sum));
    }
    let mut tails = Tails { saved, edits: Vec::new() };
    tails.fit(root, bound.cap);
    let mut edits = tails.edits;
    edits.sort_by_key(|edit| edit.span.start);
    let kept = |leaf: &Value<'_>| {
        let behind = edits.partition_point(|edit| edit.span.start <= leaf.span().start);
        behind.checked_sub(1).is_none_or(|ix| edits[ix].span.end <= leaf.span().start)
    };
    let long = leaves.iter().filter(|leaf| leaf.span().len() > string_cap && kept(leaf));
    let strings: Vec<Edit<'r>> =
        long.filter_map(|leaf| strings::literal(bump, *leaf, bound.of(string_cap))).flatten().collect();
    edits.extend(strings);
    Some(edits)
}

/// The strings that can be cut.
pub(super) fn long_strings<'r>(root: Value<'r>) -> impl Iterator<Item = Value<'r>> {
    let is_address = |value: &Value<'r>| value.key().is_some_and(|key| ADDRESSES.iter().any(|name| key.is(name)));
    let strings = root.walk().filter(|(value, is_key)| !is_key && value.kind() == Kind::String);
    strings.map(|(value, _)| value).filter(move |value| value.span().len() > LEAST_STRING && !is_address(value))
}

/// Cuts nothing but strings. `None` if what is left is longer than the cap.
pub(super) fn strings_of<'r>(bump: &'r Bump, root: Value<'r>, bound: Bound) -> Option<Vec<Edit<'r>>> {
    let leaves: Vec<Value<'r>> = long_strings(root).collect();
    let sizes: Vec<usize> = leaves.iter().map(|leaf| leaf.span().len()).collect();
    let level = level(&sizes, root.span().len() - bound.cap).filter(|level| *level >= LEAST_STRING)?;
    let long = leaves.into_iter().filter(|leaf| leaf.span().len() > level);
    Some(long.filter_map(|leaf| strings::literal(bump, leaf, bound.of(level))).flatten().collect())
}

/// Replaces tails until what is left fits. Sizes are those after the strings are cut.
struct Tails<'r> {
    /// Offset of each long string, and the bytes saved by all up to it.
    saved: Vec<(u32, usize)>,
    edits: Vec<Edit<'r>>,
}

impl<'r> Tails<'r> {
    /// Bytes of this range after the strings are cut. No string may straddle its ends.
    fn size(&self, start: u32, end: u32) -> usize {
        let saved = |at: u32| self.saved[self.saved.partition_point(|(start, _)| *start < at).max(1) - 1].1;
        (end - start) as usize - (saved(end) - saved(start))
    }
    fn size_of(&self, value: Value<'r>) -> usize {
        let span = value.span();
        self.size(span.start, span.end)
    }

    /// Makes a container at most `budget` bytes, which is at least [`LEAST`].
    fn fit(&mut self, value: Value<'r>, budget: usize) {
        let size = self.size_of(value);
        if size <= budget {
            return;
        }
        let children: Vec<Value<'r>> = match value.kind() {
            Kind::Object => value.members().map(|(_, member)| member).collect(),
            _ => value.items().collect(),
        };
        // The containers of an object are its substance: they shrink before members go.
        if value.kind() == Kind::Object {
            let inner: Vec<(Value<'r>, usize)> =
                children.iter().filter(|c| is_container(**c)).map(|c| (*c, self.size_of(*c))).collect();
            let sizes: Vec<usize> = inner.iter().map(|(_, size)| *size).collect();
            if let Some(level) = level(&sizes, size - budget).filter(|level| *level >= LEAST) {
                for (child, _) in inner.iter().filter(|(_, size)| *size > level) {
                    self.fit(*child, level);
                }
                return;
            }
        }
        self.cut_tail(value, &children, budget);
    }

    /// Keeps children from the front while they fit and puts counts in place of the rest.
    fn cut_tail(&mut self, value: Value<'r>, children: &[Value<'r>], budget: usize) {
        let whole = value.span();
        let is_object = value.kind() == Kind::Object;
        let names = if is_object && budget >= 4 * NAMES { NAMES } else { 0 };
        let room = budget - 2 - ENTRY - names;
        let (mut used, mut kept, mut end) = (0, 0, whole.start + 1);
        for child in children {
            let span = child.span();
            let before = (span.start - end) as usize;
            let size = self.size_of(*child);
            if child.key().is_some_and(|key| key.is("_truncated")) || used + before > room {
                break;
            }
            let left = room - used - before;
            if size <= left {
                used += before + size;
            } else if is_container(*child) && left / 2 >= LEAST && (is_object || size > budget / 4) {
                self.fit(*child, left / 2);
                used += before + left / 2;
            } else {
                break;
            }
            (kept, end) = (kept + 1, span.end);
        }
        if kept == children.len() {
            return;
        }
        let rest = span(whole.layer, end as usize, whole.end as usize - 1);
        let mut entry = format!(
            "\"_truncated\":{{\"omitted\":{},\"of\":{},\"bytes\":{}",
            children.len() - kept,
            children.len(),
            rest.len()
        )
        .into_bytes();
        if names > 0 {
            add_names(&mut entry, &children[kept..]);
        }
        entry.push(b'}');
        let mut with = Vec::with_capacity(entry.len() + 3);
        if kept > 0 {
            with.push(b',');
        }
        if is_object {
            with.extend_from_slice(&entry);
        } else {
            with.push(b'{');
            with.extend_from_slice(&entry);
            with.push(b'}');
        }
        self.edits.push(Edit::new(rest, with));
    }
}

/// The names of the first members left out, as they stand.
fn add_names(entry: &mut Vec<u8>, omitted: &[Value<'_>]) {
    let names = omitted.iter().filter_map(|member| member.key()).map(|key| key.raw());
    let names: Vec<&[u8]> = names.filter(|name| name.len() <= MAX_NAME).take(MAX_NAMES).collect();
    if !names.is_empty() {
        entry.extend_from_slice(b",\"keys\":[");
        entry.extend_from_slice(&names.join(&b','));
        entry.push(b']');
    }
}

fn is_container(value: Value<'_>) -> bool {
    matches!(value.kind(), Kind::Array | Kind::Object)
}
