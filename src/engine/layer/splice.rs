//! Lowering: edits of any layers become changes of the root's bytes.
//!
//! Layers are taken innermost first. All changes of one layer are settled (sorted, equal ones made one,
//! overlapping ones refused) and lowered together by its codec, then they are changes of its parent. Every
//! lowering is checked: the parent's new bytes must decode to this layer's new bytes, or the edit is
//! [`NotExact`]. The codecs need not prove what they do, and cases such as two surrogate halves that would
//! meet, or a comment that would become data, need no rule of their own.
//!
//! Left out: mapping tables made while decoding. Most layers are never edited, and a walk over one string
//! costs less than a table for all of them.

use super::{Codec, Edit, Layer, NotExact, Span, base64, json_string, sse};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A replacement of a byte range of one text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    pub start: usize,
    pub end: usize,
    pub with: Vec<u8>,
}

impl Change {
    /// The same change in a text that starts `by` bytes before.
    fn moved_up(mut self, by: usize) -> Self {
        self.start += by;
        self.end += by;
        self
    }
    /// The same change in a text that starts `by` bytes behind; `by` is at most its start.
    pub fn moved_down(&self, by: usize) -> Self {
        Self { start: self.start - by, end: self.end - by, with: self.with.clone() }
    }
}

/// The text with settled changes made.
pub(super) fn apply(bytes: &[u8], changes: &[Change]) -> Vec<u8> {
    let added: usize = changes.iter().map(|change| change.with.len()).sum();
    let mut out = Vec::with_capacity(bytes.len() + added);
    let mut at = 0;
    for change in changes {
        out.extend_from_slice(&bytes[at..change.start]);
        out.extend_from_slice(&change.with);
        at = change.end;
    }
    out.extend_from_slice(&bytes[at..]);
    out
}

/// Changes in order, equal ones made one. Two different insertions at one place are refused like an
/// overlap: the result would depend on the order in which they were reported.
fn settle(mut changes: Vec<Change>, len: usize) -> Result<Vec<Change>, NotExact> {
    changes.sort_unstable();
    changes.dedup();
    let in_bounds = changes.iter().all(|change| change.start <= change.end && change.end <= len);
    let apart = changes.windows(2).all(|pair| {
        let (left, right) = (&pair[0], &pair[1]);
        left.end <= right.start && (left.start, left.end) != (right.start, right.end)
    });
    (in_bounds && apart).then_some(changes).ok_or(NotExact)
}

/// Makes one change of those that touch. Settled changes only.
fn join_touching(changes: Vec<Change>) -> Vec<Change> {
    let mut joined: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes {
        match joined.last_mut() {
            Some(last) if last.end == change.start => {
                last.end = change.end;
                last.with.extend_from_slice(&change.with);
            }
            _ => joined.push(change),
        }
    }
    joined
}

/// The same bytes in the layer of which theirs is a part as it stands.
fn unsliced<'r>(span: Span<'r>, root: &'r Layer<'r>) -> Span<'r> {
    let mut span = span;
    while let (Codec::Slice, Some(source), false) =
        (span.layer.codec, span.layer.source, std::ptr::eq(span.layer, root))
    {
        span = Span { layer: source.layer, start: span.start + source.start, end: span.end + source.start };
    }
    span
}

/// Where a layer stands below the root: its sources and codecs, outermost first. Layers that were made
/// twice from the same source have the same place.
type Place = Vec<(u32, u32, Codec)>;

fn place<'r>(layer: &'r Layer<'r>, root: &'r Layer<'r>) -> Result<Place, NotExact> {
    let mut place = Place::new();
    let mut layer = layer;
    while !std::ptr::eq(layer, root) {
        let source = unsliced(layer.source.ok_or(NotExact)?, root);
        place.push((source.start, source.end, layer.codec));
        layer = source.layer;
    }
    place.reverse();
    Ok(place)
}

struct Group<'r> {
    layer: &'r Layer<'r>,
    changes: Vec<Change>,
    /// Changes of layers below it whose codecs wrote more than was asked for.
    rewritten: Vec<Change>,
}

impl<'r> Group<'r> {
    fn new(layer: &'r Layer<'r>) -> Self {
        Self { layer, changes: Vec::new(), rewritten: Vec::new() }
    }
}

/// How changes of one text become changes that stand apart: those that were asked for, and those of which a codec
/// wrote more than that.
pub(super) type Settle<'f> = &'f dyn Fn(&[u8], Vec<Change>, Vec<Change>) -> Result<Vec<Change>, NotExact>;

/// Changes that meet are refused.
pub(super) fn strictly(text: &[u8], mut changes: Vec<Change>, rewritten: Vec<Change>) -> Result<Vec<Change>, NotExact> {
    changes.extend(rewritten);
    settle(changes, text.len())
}

/// See [`super::splice()`].
pub(super) fn splice<'r>(root: &'r Layer<'r>, edits: &[Edit<'r>], settle: Settle<'_>) -> Result<Vec<u8>, NotExact> {
    Ok(apply(root.bytes, &lowered(root, edits, settle)?))
}

/// See [`super::merge_span()`].
pub(super) fn splice_span<'r>(span: Span<'r>, edits: &[Edit<'r>], settle: Settle<'_>) -> Result<Vec<u8>, NotExact> {
    let (start, end) = (span.start as usize, span.end as usize);
    let changes = lowered(span.layer, edits, settle)?;
    if changes.iter().any(|change| change.start < start || change.end > end) {
        return Err(NotExact);
    }
    let changes: Vec<Change> = changes.iter().map(|change| change.moved_down(start)).collect();
    Ok(apply(span.bytes(), &changes))
}

/// The changes of the root that make these edits, settled. Each layer is walked once, however many edits it holds.
pub(super) fn lowered<'r>(
    root: &'r Layer<'r>,
    edits: &[Edit<'r>],
    settle: Settle<'_>,
) -> Result<Vec<Change>, NotExact> {
    let mut groups: BTreeMap<(usize, Place), Group<'r>> = BTreeMap::new();
    for Edit { span, with, .. } in edits {
        let span = unsliced(*span, root);
        let place = place(span.layer, root)?;
        let change = Change { start: span.start as usize, end: span.end as usize, with: with.clone() };
        groups.entry((place.len(), place)).or_insert_with(|| Group::new(span.layer)).changes.push(change);
    }
    while let Some(((depth, mut place), Group { layer, changes, rewritten })) = groups.pop_last() {
        let changes = settle(layer.bytes, changes, rewritten)?;
        let Some(source) = layer.source.filter(|_| depth > 0) else {
            return Ok(changes);
        };
        let source = unsliced(source, root);
        let lowered = lower(layer, source, changes).ok_or(NotExact)?;
        place.pop();
        let outer = groups.entry((depth - 1, place)).or_insert_with(|| Group::new(source.layer));
        match layer.codec {
            Codec::Slice | Codec::JsonString => outer.changes.extend(lowered),
            Codec::SseData | Codec::Base64 => outer.rewritten.extend(lowered),
        }
    }
    Ok(Vec::new())
}

/// The changes of the parent that make settled changes of a layer.
fn lower(layer: &Layer<'_>, source: Span<'_>, changes: Vec<Change>) -> Option<Vec<Change>> {
    let text = source.bytes();
    let changes = match layer.codec {
        Codec::Slice | Codec::JsonString => changes,
        Codec::SseData | Codec::Base64 => join_touching(changes),
    };
    let lowered = match layer.codec {
        Codec::Slice => changes.clone(),
        Codec::JsonString => lower_json_string(text, &changes)?,
        Codec::SseData => sse::lower(text, &changes)?,
        Codec::Base64 => base64::lower(text, layer.bytes, &changes),
    };
    let new_text = apply(text, &lowered);
    if decode(layer.codec, &new_text)? != apply(layer.bytes, &changes) {
        return None;
    }
    Some(lowered.into_iter().map(|change| change.moved_up(source.start as usize)).collect())
}

fn lower_json_string(text: &[u8], changes: &[Change]) -> Option<Vec<Change>> {
    let mut locator = json_string::Locator::new(text);
    let mut lowered = Vec::with_capacity(changes.len());
    for change in changes {
        let start = locator.locate(change.start)?;
        let end = locator.locate(change.end)?;
        lowered.push(Change { start, end, with: json_string::escape_text(&change.with)? });
    }
    Some(lowered)
}

fn decode(codec: Codec, text: &[u8]) -> Option<Cow<'_, [u8]>> {
    match codec {
        Codec::Slice => Some(Cow::Borrowed(text)),
        Codec::JsonString => {
            json_string::check(text, true).ok()?;
            Some(Cow::Owned(json_string::decode(text)))
        }
        Codec::SseData => sse::decode(text).map(Cow::Owned),
        Codec::Base64 => base64::decode(text).map(Cow::Owned),
    }
}

/// See [`super::map_range()`].
pub(super) fn map_range<'r>(span: Span<'r>, root: &'r Layer<'r>) -> Option<(usize, usize)> {
    let mut layer = span.layer;
    let (mut start, mut end) = (span.start as usize, span.end as usize);
    if start > end || end > layer.bytes.len() {
        return None;
    }
    while !std::ptr::eq(layer, root) {
        let source = layer.source?;
        let text = source.bytes();
        (start, end) = match layer.codec {
            Codec::Slice => (start, end),
            Codec::JsonString => {
                let mut locator = json_string::Locator::new(text);
                (locator.locate(start)?, locator.locate(end)?)
            }
            Codec::SseData => sse::locate(text, start, end)?,
            Codec::Base64 => base64::locate(text, layer.bytes.len(), start, end),
        };
        start += source.start as usize;
        end += source.start as usize;
        layer = source.layer;
    }
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::super::{Step, can_merge};
    use super::*;
    use bumpalo::Bump;
    use json_string::{Pieces, WALKED, escape_text};

    /// A result can make many edits of one long text: what they cost together must not be their product.
    #[test]
    fn many_edits_of_one_text_cost_one_walk() {
        const COUNT: u32 = 500;
        let bump = Bump::new();
        let inner = r#""\"\\\"\\""#;
        let escaped = escape_text(inner.repeat(COUNT as usize).as_bytes()).unwrap_or_default();
        let literal = [b"\"", &*escaped, b"\""].concat();
        let record = Layer::record(&bump, &literal);
        let layer = |span| Layer::json_string(&bump, span, Step::Json).unwrap_or(record);
        let text = layer(record.span());
        let len = inner.len() as u32;
        let edits: Vec<Edit<'_>> = (0..COUNT)
            .map(|n| layer(Span { layer: text, start: n * len, end: (n + 1) * len }))
            .map(|string| Edit::new(Span { layer: string, start: 1, end: 3 }, b"x".to_vec()))
            .collect();
        WALKED.set(0);
        assert!(can_merge(record, &edits, &|_| false));
        let pieces = Pieces::new(&literal).count() + COUNT as usize * Pieces::new(inner.as_bytes()).count();
        assert!((1..=pieces).contains(&WALKED.get()), "{} of {pieces}", WALKED.get());
    }
}
