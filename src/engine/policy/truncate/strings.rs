//! Cutting texts and string literals, and the markers.

use super::{Bound, span};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::json_string::Pieces;
use crate::engine::layer::{Edit, Layer, Step};
use bumpalo::Bump;

/// What a marker counts beside bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rest {
    /// Line ends in what is left out, if any.
    Lines,
    /// The length of the array that the text is.
    Items(usize),
    /// The members of the object that the text is.
    Keys(usize),
}

const SHORT: &str = "[sluicegate: cut]";
/// Where not even that has room, and never less: head and tail would make a text that stood nowhere.
pub(super) const MINIMAL: &str = "[…]";

/// The marker for this much left out, as far as there is room for what it says.
fn marker(omitted: &[u8], of: usize, rest: Rest, cap: usize) -> String {
    let mut text = format!("[sluicegate: {} of {} bytes omitted", grouped(omitted.len()), grouped(of));
    match rest {
        Rest::Lines => match memchr::memchr_iter(b'\n', omitted).count() {
            0 => {}
            1 => text.push_str("; 1 line"),
            lines => text.push_str(&format!("; {} lines", grouped(lines))),
        },
        Rest::Items(items) => text.push_str(&format!("; array of {}", grouped(items))),
        Rest::Keys(keys) => text.push_str(&format!("; object of {} keys", grouped(keys))),
    }
    text.push(']');
    if text.len() <= cap {
        return text;
    }
    if SHORT.len() <= cap { SHORT } else { MINIMAL }.to_owned()
}

/// Digits in groups of three, with spaces.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (ix, digit) in digits.chars().enumerate() {
        if ix > 0 && (digits.len() - ix).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Cuts the text of a layer that is longer than the cap.
pub(super) fn plain<'r>(layer: &'r Layer<'r>, bound: Bound, rest: Rest) -> Edit<'r> {
    let text = layer.bytes;
    // The longest marker there can be: what is left out is a part of the whole.
    let reserved = marker(text, text.len(), rest, bound.cap).len();
    let (head, tail) = bound.split(reserved);
    let start = floor(text, head);
    let end = ceil(text, text.len().saturating_sub(tail)).max(start);
    let with = marker(&text[start..end], text.len(), rest, reserved);
    Edit { span: span(layer, start, end), with: with.into_bytes() }
}

/// Cuts a string literal so that its bytes, quotes and escapes included, are at most the cap.
/// `None` if the cap is below two bytes.
pub(super) fn literal<'r>(bump: &'r Bump, value: Value<'r>, bound: Bound) -> Option<Vec<Edit<'r>>> {
    let raw = value.raw();
    let inside = bound.of(bound.cap.checked_sub(2)?);
    let layer = value.text_layer(bump, Step::Hidden)?.ok()?;
    let text = layer.bytes;
    let reserved = marker(text, text.len(), Rest::Lines, inside.cap).len();
    let (head, tail) = inside.split(reserved);
    // Offsets in the literal up to which the head may go, and from which on the tail may begin.
    let (head, tail) = (1 + head, raw.len() - 1 - tail.min(raw.len() - 2));
    let (mut start, mut end) = (0, text.len());
    let mut decoded = 0;
    for piece in Pieces::new(raw) {
        let len = piece.decoded(raw).len();
        // Only a run decodes to as many bytes as it has: it can be cut between characters.
        let is_run = len == piece.end - piece.start;
        if piece.end <= head {
            start = decoded + len;
        } else if piece.start <= head && is_run {
            start = decoded + floor(&raw[piece.start..piece.end], head - piece.start);
        }
        if piece.start >= tail {
            end = decoded;
            break;
        }
        if piece.end > tail && is_run {
            end = decoded + ceil(&raw[piece.start..piece.end], tail - piece.start);
            break;
        }
        decoded += len;
    }
    let end = end.max(start);
    let with = marker(&text[start..end], text.len(), Rest::Lines, reserved);
    Some(vec![Edit { span: span(layer, start, end), with: with.into_bytes() }])
}

/// A JSON value of the same kind in place of one that cannot be cut; of another only where a number is too long.
pub(super) fn stand_in(of: usize, cap: usize, kind: Kind) -> Vec<u8> {
    let (open, close) = match kind {
        Kind::Object => ("{\"_truncated\":", "}"),
        Kind::Array => ("[{\"_truncated\":", "}]"),
        _ => ("", ""),
    };
    let full = format!("{open}\"[sluicegate: {0} of {0} bytes omitted]\"{close}", grouped(of));
    match kind {
        _ if full.len() <= cap => full,
        Kind::Object | Kind::Array => format!("{open}true{close}"),
        _ => format!("\"{SHORT}\""),
    }
    .into_bytes()
}

/// The largest character boundary up to `at`.
fn floor(text: &[u8], at: usize) -> usize {
    let mut at = at.min(text.len());
    while at > 0 && at < text.len() && text[at] & 0xC0 == 0x80 {
        at -= 1;
    }
    at
}

/// The smallest character boundary from `at` on.
fn ceil(text: &[u8], at: usize) -> usize {
    let mut at = at.min(text.len());
    while at < text.len() && text[at] & 0xC0 == 0x80 {
        at += 1;
    }
    at
}
