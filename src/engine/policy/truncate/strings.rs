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
    let start = before_escape(text, floor(text, head));
    let end = behind_escape(text, ceil(text, text.len().saturating_sub(tail))).max(start);
    let with = marker(&text[start..end], text.len(), rest, reserved);
    Edit::new(span(layer, start, end), with.into_bytes())
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
    let start = before_escape(text, start);
    let end = behind_escape(text, end).max(start);
    let with = marker(&text[start..end], text.len(), Rest::Lines, reserved);
    Some(vec![Edit::new(span(layer, start, end), with.into_bytes())])
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

/// Where the escape begins that `at` stands within, or `at`: text that holds JSON must go on holding it.
fn before_escape(text: &[u8], at: usize) -> usize {
    escape_around(text, at).map_or(at, |(start, _)| start)
}

/// Where that escape ends, or `at`.
fn behind_escape(text: &[u8], at: usize) -> usize {
    escape_around(text, at).map_or(at, |(_, end)| ceil(text, end))
}

/// The escape that has bytes on both sides of `at`: backslashes, as many as its depth makes of one, and what they
/// stand before; two that are the halves of one character are one.
fn escape_around(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut near = (1..=ESCAPE).filter_map(|back| at.checked_sub(back));
    let (start, end) = escape(text, near.find(|place| text.get(*place) == Some(&b'\\'))?);
    let behind = || escape(text, end).1;
    let is_high = is_half(text, end, HIGH) && text.get(end) == Some(&b'\\') && is_half(text, behind(), LOW);
    if end <= at && !(end == at && is_high) {
        return None;
    }
    let before = start.checked_sub(ESCAPE).filter(|place| text.get(*place) == Some(&b'\\'));
    let before = before.filter(|_| is_half(text, end, LOW) && is_half(text, start, HIGH));
    Some((before.map_or(start, |place| escape(text, place).0), if is_high { behind() } else { end }))
}

/// The escape that a backslash at `place` belongs to.
fn escape(text: &[u8], place: usize) -> (usize, usize) {
    let is_backslash = |byte: &&u8| **byte == b'\\';
    let before = text.get(..place).unwrap_or_default().iter().rev().take_while(is_backslash).count();
    let run = place + text.get(place..).unwrap_or_default().iter().take_while(is_backslash).count();
    let rest = text.get(run..).unwrap_or_default();
    let digits = rest.iter().skip(1).take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let length = if rest.first() == Some(&b'u') && digits == 4 { 5 } else { 1 };
    (place - before, (run + length).min(text.len()))
}

/// Bytes of `\u0041`.
const ESCAPE: usize = 6;
/// The halves of a character beyond the first plane.
const HIGH: std::ops::RangeInclusive<u32> = 0xD800..=0xDBFF;
const LOW: std::ops::RangeInclusive<u32> = 0xDC00..=0xDFFF;

/// Whether the escape that ends at `end` is of this half.
fn is_half(text: &[u8], end: usize, half: std::ops::RangeInclusive<u32>) -> bool {
    let unit =
        end.checked_sub(ESCAPE - 1).and_then(|from| text.get(from..end)).and_then(|unit| unit.strip_prefix(b"u"));
    let code = unit.and_then(|digits| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
    code.is_some_and(|code| half.contains(&code))
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
