//! The JSON string codec: where a literal ends, what it decodes to, and where a decoded offset stands in it.
//!
//! A literal is walked as [`Pieces`]: runs that decode to themselves, and units (one escape, or a surrogate
//! pair) that decode to one character. Decoding, comparing, mapping offsets and looking for lone surrogates
//! are loops over the same pieces, so they cannot disagree about what an escape means.
//!
//! Invariant: the pieces of a literal follow each other without gaps, and none joins or splits a character
//! differently than the decoded text does. A high and a low surrogate that meet become one character, also
//! when one of them is an escape and the other stands in the source in its three-byte form.

mod check;

use bumpalo::Bump;
use check::{find_special, special_bits};

pub(crate) use check::{Flaw, check, literal_end, utf8_flaw};

/// The surrogate that stands at `at` in its three-byte form.
fn surrogate(bytes: &[u8], at: usize) -> Option<u32> {
    match bytes.get(at..at + 3)? {
        &[0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF] => {
            Some(0xD000 | (u32::from(second & 0x3F) << 6) | u32::from(third & 0x3F))
        }
        _ => None,
    }
}

/// The code unit of the escape at `at` and the length of the escape; `None` if none stands there.
#[inline]
fn escape(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    if bytes.get(at) != Some(&b'\\') {
        return None;
    }
    match *bytes.get(at + 1)? {
        b'u' => {
            let digits = bytes.get(at + 2..at + 6)?;
            let unit = digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))?;
            Some((unit, 6))
        }
        second => match SHORT[usize::from(second)] {
            0 => None,
            byte => Some((u32::from(byte), 2)),
        },
    }
}

fn is_high(unit: u32) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn is_low(unit: u32) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// A stretch of a literal, in offsets of the literal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub start: usize,
    pub end: usize,
    unit: Option<Unit>,
}

/// A character that is spelt with escapes.
#[derive(Debug, Clone, Copy)]
struct Unit {
    bytes: [u8; 4],
    len: u8,
}

impl Unit {
    /// Generalised UTF-8: surrogates are encoded like any other code point.
    #[inline]
    fn new(code: u32) -> Self {
        let tail = |shift: u32| 0x80 | (code >> shift & 0x3F) as u8;
        let (bytes, len) = match code {
            0..0x80 => ([code as u8, 0, 0, 0], 1),
            0x80..0x800 => ([0xC0 | (code >> 6) as u8, tail(0), 0, 0], 2),
            0x800..0x1_0000 => ([0xE0 | (code >> 12) as u8, tail(6), tail(0), 0], 3),
            _ => ([0xF0 | (code >> 18 & 0x07) as u8, tail(12), tail(6), tail(0)], 4),
        };
        Self { bytes, len }
    }
}

impl Piece {
    /// What the piece decodes to.
    #[inline]
    pub fn decoded<'a>(&'a self, literal: &'a [u8]) -> &'a [u8] {
        match &self.unit {
            Some(unit) => &unit.bytes[..usize::from(unit.len)],
            None => &literal[self.start..self.end],
        }
    }
}

/// The pieces of a checked literal, quotes left out.
pub(crate) struct Pieces<'a> {
    literal: &'a [u8],
    at: usize,
}

impl<'a> Pieces<'a> {
    pub fn new(literal: &'a [u8]) -> Self {
        Self { literal: &literal[..literal.len().saturating_sub(1)], at: 1 }
    }

    #[inline]
    fn unit(&self, code: u32, end: usize) -> Piece {
        Piece { start: self.at, end, unit: Some(Unit::new(code)) }
    }

    #[inline]
    fn piece(&self) -> Option<Piece> {
        let body = self.literal;
        if *body.get(self.at)? == b'\\' {
            return Some(self.escape());
        }
        // In a checked literal nothing but escapes is special.
        let stop = find_special(body, self.at);
        match stop >= self.at + 3 && body[stop - 3] == 0xED {
            true => Some(self.run_before_a_surrogate(stop)),
            false => Some(self.run(stop)),
        }
    }

    /// A run to `stop`, at least a byte long.
    #[inline]
    fn run(&self, stop: usize) -> Piece {
        Piece { start: self.at, end: stop.max(self.at + 1), unit: None }
    }

    /// A run whose last three bytes may be a high surrogate that the escape behind it completes.
    fn run_before_a_surrogate(&self, stop: usize) -> Piece {
        let half = stop - 3;
        let high = surrogate(self.literal, half).filter(|&unit| is_high(unit));
        let low = escape(self.literal, stop).filter(|&(unit, _)| is_low(unit));
        match high.zip(low) {
            Some((high, (low, len))) if half == self.at => self.unit(pair(high, low), stop + len),
            Some(_) => self.run(half),
            None => self.run(stop),
        }
    }

    #[inline]
    fn escape(&self) -> Piece {
        let body = self.literal;
        match escape(body, self.at) {
            Some((unit, len)) if is_high(unit) => {
                let end = self.at + len;
                let second = escape(body, end).or_else(|| Some((surrogate(body, end)?, 3)));
                match second.filter(|&(low, _)| is_low(low)) {
                    Some((low, len)) => self.unit(pair(unit, low), end + len),
                    None => self.unit(unit, end),
                }
            }
            Some((unit, len)) => self.unit(unit, self.at + len),
            // A checked literal holds no such backslash.
            None => self.run(self.at),
        }
    }
}

fn pair(high: u32, low: u32) -> u32 {
    0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)
}

impl Iterator for Pieces<'_> {
    type Item = Piece;
    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let piece = self.piece()?;
        self.at = piece.end;
        Some(piece)
    }
}

/// The decoded text in the arena.
pub(crate) fn decode_in<'r>(bump: &'r Bump, literal: &[u8]) -> &'r [u8] {
    let out = bump.alloc_slice_fill_copy(literal.len(), 0);
    let len = decode_into(literal, out);
    &out[..len]
}

/// The decoded text.
pub(crate) fn decode(literal: &[u8]) -> Vec<u8> {
    let mut out = vec![0; literal.len()];
    let len = decode_into(literal, &mut out);
    out.truncate(len);
    out
}

/// Decodes into a buffer at least as long as the literal and returns the decoded length.
///
/// This says the same as the pieces do (a test compares them), at a third of the cost: code in a string
/// holds an escape every few bytes, so words are copied while they are searched.
fn decode_into(literal: &[u8], out: &mut [u8]) -> usize {
    let mut pieces = Pieces::new(literal);
    let body = pieces.literal;
    let (mut at, mut len) = (1, 0);
    loop {
        while let Some(word) = body.get(at..).and_then(|rest| rest.first_chunk::<8>())
            && let Some(target) = out.get_mut(len..).and_then(|rest| rest.first_chunk_mut::<8>())
        {
            *target = *word;
            let hits = special_bits(u64::from_le_bytes(*word));
            let clean = if hits == 0 { 8 } else { (hits.trailing_zeros() / 8) as usize };
            at += clean;
            len += clean;
            if hits != 0 {
                break;
            }
        }
        match body.get(at) {
            None => return len,
            Some(b'\\') => match SHORT[usize::from(body.get(at + 1).copied().unwrap_or(0))] {
                0 => {
                    let half = at >= 4 && body[at - 3] == 0xED;
                    pieces.at = if half { at - 3 } else { at };
                    let before = at - pieces.at;
                    let piece = match half {
                        true => pieces.run_before_a_surrogate(at),
                        false => pieces.escape(),
                    };
                    if piece.end <= at {
                        // No half was completed: the run has been copied, the escape stands alone.
                        pieces.at = at;
                        let unit = pieces.escape();
                        len = put(out, len, unit.decoded(literal));
                        at = unit.end;
                    } else {
                        len = put(out, len - before, piece.decoded(literal));
                        at = piece.end;
                    }
                }
                byte => {
                    out[len] = byte;
                    len += 1;
                    at += 2;
                }
            },
            Some(&byte) => {
                out[len] = byte;
                len += 1;
                at += 1;
            }
        }
    }
}

fn put(out: &mut [u8], len: usize, text: &[u8]) -> usize {
    out[len..len + text.len()].copy_from_slice(text);
    len + text.len()
}

/// What an escape of two characters stands for, by its second; 0 for others.
const SHORT: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'b' as usize] = 0x08;
    table[b'f' as usize] = 0x0C;
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table
};

/// The first bytes of the decoded text of a checked literal, behind its leading white space.
pub(crate) fn beginning(literal: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    for piece in Pieces::new(literal) {
        let text = piece.decoded(literal);
        let text = if out.is_empty() { text.trim_ascii_start() } else { text };
        out.extend_from_slice(text.get(..length - out.len()).unwrap_or(text));
        if out.len() == length {
            break;
        }
    }
    out
}

/// True if a checked literal decodes to exactly `text`.
pub(crate) fn decodes_to(literal: &[u8], text: &[u8]) -> bool {
    let mut rest = text;
    for piece in Pieces::new(literal) {
        match rest.strip_prefix(piece.decoded(literal)) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}

/// True if the decoded text of a checked literal holds half of a surrogate pair.
pub(crate) fn has_lone_surrogate(literal: &[u8]) -> bool {
    Pieces::new(literal).any(|piece| {
        let text = piece.decoded(literal);
        memchr::memchr_iter(0xED, text).any(|at| surrogate(text, at).is_some())
    })
}

#[cfg(test)]
thread_local! {
    /// Pieces that locators have walked over.
    pub(super) static WALKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Finds where decoded offsets stand in a literal. Offsets are asked for in rising order, so that many of
/// them cost one walk.
pub(crate) struct Locator<'a> {
    literal: &'a [u8],
    pieces: Pieces<'a>,
    current: Option<Piece>,
    /// The decoded offset at which `current` starts.
    decoded: usize,
}

impl<'a> Locator<'a> {
    pub fn new(literal: &'a [u8]) -> Self {
        let mut pieces = Pieces::new(literal);
        let current = pieces.next();
        Self { literal, pieces, current, decoded: 0 }
    }

    /// The offset in the literal; `None` inside an escape, a pair or a character, and behind the end.
    pub fn locate(&mut self, offset: usize) -> Option<usize> {
        while let Some(piece) = self.current {
            let len = piece.decoded(self.literal).len();
            let inside = offset.checked_sub(self.decoded)?;
            if inside == 0 {
                return Some(piece.start);
            }
            if inside < len {
                let at = piece.start + inside;
                let starts_a_character = self.literal[at] & 0xC0 != 0x80;
                return (piece.unit.is_none() && starts_a_character).then_some(at);
            }
            self.decoded += len;
            self.current = self.pieces.next();
            #[cfg(test)]
            WALKED.set(WALKED.get() + 1);
        }
        (offset == self.decoded).then(|| self.literal.len().saturating_sub(1))
    }
}

/// Escapes a text for the inside of a literal, with as few escapes as JSON allows. Lone surrogates, which
/// stand in the text in three bytes, become `\udXXX`. `None` if the text is not generalised UTF-8.
pub(crate) fn escape_text(text: &[u8]) -> Option<Vec<u8>> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if utf8_flaw(text, true).is_some() {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            0x09 => b't',
            0x0A => b'n',
            0x0C => b'f',
            0x0D => b'r',
            _ => {
                let unit = match byte {
                    0..0x20 => Some(u32::from(byte)),
                    0xED => surrogate(text, at - 1).inspect(|_| at += 2),
                    _ => None,
                };
                match unit {
                    None => out.push(byte),
                    Some(unit) => {
                        out.extend_from_slice(b"\\u");
                        out.extend([12, 8, 4, 0].map(|shift| HEX[(unit >> shift & 0xF) as usize]));
                    }
                }
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    Some(out)
}
