//! Cutting an output to a bound, so that what is left says what is missing.
//!
//! A text keeps its head and its tail around a marker that names the bytes and lines left out. A JSON text
//! stays JSON: its longest strings are cut first, then the tails of arrays and objects give way to a
//! `"_truncated"` entry with counts; only where not even that fits is it cut as text. No summary is invented.
//!
//! Place in the journey: policies turn the edits into redactions; [`splice`] encodes them. Every edit is a span
//! of the innermost layer, so bytes outside stay identical.
//!
//! Invariants, each a property in `tests/engine/truncate.rs`: the result is at most `cap` bytes (or the shortest
//! marker, where that is longer); what is at or under the cap is left alone, hence cutting twice is cutting once;
//! JSON stays JSON; no character, escape or surrogate pair is cut; what is kept is the original's, and a marker
//! stands wherever something was left out; no address (`uri`, `url`, `href`, `src`) is cut.
//!
//! Sizes are counted where the bound holds: for text in decoded bytes, for a JSON value in its bytes as they
//! stand. Left out: cutting inside JSON that stands in a string of the JSON (it is cut as a string).

mod json;
mod strings;

use super::super::json::{JsonLimits, Kind, Value, parse};
use super::super::layer::{Edit, Layer, Span, Step, splice};
use bumpalo::Bump;

/// Below this many bytes a marker with counts has no room.
pub(super) const LEAST: usize = 96;
/// What a text can be cut to at least: the shortest marker.
pub const LEAST_TEXT: usize = strings::MINIMAL.len();
/// What a JSON value can be cut to at least: an array that says that it was cut.
pub const LEAST_VALUE: usize = 21;

/// How to cut.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// Bytes that may stay, the marker included.
    pub cap: usize,
    /// The head's part of what stays, percent; the rest is the tail's.
    pub head_percent: u32,
}

impl Bound {
    fn of(self, cap: usize) -> Self {
        Self { cap, ..self }
    }
    /// Bytes for head and tail beside a marker of this length.
    fn split(self, marker: usize) -> (usize, usize) {
        let room = self.cap.saturating_sub(marker);
        let head = (room as u64 * u64::from(self.head_percent.min(100)) / 100) as usize;
        (head, room - head)
    }
}

/// The edits that cut a text, as its layer has it decoded. None if it is short enough.
pub fn text<'r>(bump: &'r Bump, layer: &'r Layer<'r>, bound: Bound) -> Vec<Edit<'r>> {
    let bound = bound.of(bound.cap.max(LEAST_TEXT));
    if layer.bytes.len() <= bound.cap {
        return Vec::new();
    }
    match container(bump, layer) {
        Some(root) => json::document(bump, root, bound).unwrap_or_else(|| {
            let rest = match root.kind() {
                Kind::Array => strings::Rest::Items(root.items().count()),
                _ => strings::Rest::Keys(root.members().count()),
            };
            vec![strings::plain(layer, bound, rest)]
        }),
        None => vec![strings::plain(layer, bound, strings::Rest::Lines)],
    }
}

/// The edits that cut a JSON value so that its bytes as they stand are at most `cap`.
/// The value stays one JSON value, an object an object and an array an array; a string that holds JSON goes on
/// holding JSON.
pub fn value<'r>(bump: &'r Bump, value: Value<'r>, bound: Bound) -> Vec<Edit<'r>> {
    let bound = bound.of(bound.cap.max(LEAST_VALUE));
    if value.span().len() <= bound.cap {
        return Vec::new();
    }
    match value.kind() {
        Kind::Array | Kind::Object => json::tree(bump, value, bound),
        Kind::String => json_in_string(bump, value, bound).or_else(|| strings::literal(bump, value, bound)),
        _ => None,
    }
    .unwrap_or_else(|| {
        let with = strings::stand_in(value.span().len(), bound.cap, value.kind());
        vec![Edit::new(value.span(), with)]
    })
}

/// Like [`value()`], where every value must keep its type: only long strings are cut. `None` if that is not enough.
pub fn typed<'r>(bump: &'r Bump, value: Value<'r>, bound: Bound) -> Option<Vec<Edit<'r>>> {
    if value.span().len() <= bound.cap { Some(Vec::new()) } else { json::strings_of(bump, value, bound) }
}

/// What [`typed()`] can cut a value to at least.
pub fn least_typed(value: Value<'_>) -> usize {
    value.span().len() - json::long_strings(value).map(|leaf| leaf.span().len() - json::LEAST_STRING).sum::<usize>()
}

/// The marker that stands for parts of a result.
pub fn parts_marker(omitted: usize, of: usize, bytes: usize) -> String {
    let [omitted, of, bytes] = [omitted, of, bytes].map(strings::grouped);
    format!("[sluicegate: {omitted} of {of} parts omitted; {bytes} bytes]")
}

/// The array or object that a text is, if it is one.
pub fn container<'r>(bump: &'r Bump, layer: &'r Layer<'r>) -> Option<Value<'r>> {
    opens_container(layer.bytes).then(|| parse(bump, layer, JsonLimits::default()).ok()).flatten()
}

/// Whether a text's first byte that is not white space opens an array or object.
pub fn opens_container(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    matches!(first, Some(b'{' | b'['))
}

/// Whether a string can hold an array or object, told by its first bytes as they stand: what begins with an
/// escape may.
pub fn may_hold_container(value: Value<'_>) -> bool {
    let text = value.raw().get(1..).unwrap_or_default();
    let first = text.iter().find(|byte| **byte != b' ');
    value.kind() == Kind::String && matches!(first, Some(b'{' | b'[' | b'\\'))
}

/// The bound `level` for which sizes, each cut to it, shrink by at least `excess` together: the largest give
/// way first. `None` if they cannot.
pub fn level(sizes: &[usize], excess: usize) -> Option<usize> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_usize;
    for (ix, size) in sizes.iter().enumerate() {
        sum += size;
        let Some(kept) = sum.checked_sub(excess) else { continue };
        let level = kept / (ix + 1);
        if level >= sizes.get(ix + 1).copied().unwrap_or(0) {
            return Some(level);
        }
    }
    None
}

/// The largest bound for which sizes, each cut to it but none below its own least, are at most `cap` together.
/// `None` if the least are too much.
pub fn level_above(sizes: &[(usize, usize)], cap: usize) -> Option<usize> {
    let fits = |level: usize| {
        let sizes = sizes.iter().map(|(size, least)| (*size).min(level.max(*least)));
        sizes.fold(0, usize::saturating_add) <= cap
    };
    if !fits(0) {
        return None;
    }
    let (mut low, mut high) = (0, sizes.iter().map(|(size, _)| *size).max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Some(low)
}

/// Cuts JSON inside a string. Its bound holds for the escaped form, whose size is only known afterwards, so
/// the inner bound is searched for: first in proportion, then by halving.
fn json_in_string<'r>(bump: &'r Bump, value: Value<'r>, bound: Bound) -> Option<Vec<Edit<'r>>> {
    let whole = Layer::slice(bump, value.span(), Step::Hidden);
    let layer = Layer::json_string(bump, whole.span(), Step::Json).ok()?;
    let root = container(bump, layer)?;
    let most = bound.cap.checked_sub(2)?.min(layer.bytes.len() - 1);
    let (mut low, mut high) = (LEAST, most);
    let (mut inner, mut best) = (most, None);
    for _ in 0..12 {
        let edits = json::document(bump, root, bound.of(inner))?;
        let size = splice(whole, &edits).ok()?.len();
        if size <= bound.cap {
            (best, low) = (Some(edits), inner + 1);
        } else {
            high = inner - 1;
        }
        if inner == most && size > bound.cap {
            let scaled = inner as u64 * bound.cap as u64 / size as u64;
            inner = (scaled as usize).clamp(LEAST, high.max(LEAST));
        } else if low > high || (best.is_some() && high - low < bound.cap / 16) {
            break;
        } else {
            inner = low + (high - low) / 2;
        }
    }
    best
}

fn span<'r>(layer: &'r Layer<'r>, start: usize, end: usize) -> Span<'r> {
    Span { layer, start: start as u32, end: end as u32 }
}
