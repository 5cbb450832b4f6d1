//! The JSON string codec: where a literal ends, what it decodes to, and where a decoded offset stands in it.
//!
//! A literal is walked as [`Pieces`]: runs that decode to themselves, and units (one escape, or a surrogate
//! pair) that decode to one character. Decoding, comparing, mapping offsets and looking for lone surrogates
//! are loops over the same pieces, so they cannot disagree about what an escape means.
//!
//! Invariant: the pieces of a literal follow each other without gaps, and none joins or splits a character
//! differently than the decoded text does. A high and a low surrogate that meet become one character, also
//! when one of them is an escape and the other stands in the source in its three-byte form.

use bumpalo::Bump;
use bumpalo::collections::Vec as BumpVec;

/// Why a text is no string literal: the offending offset, and whether the text merely ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub at: usize,
    pub truncated: bool,
}

/// The end (behind the closing quote) of the literal whose opening quote stands at `open`, and whether it
/// holds an escape. Bytes from 0x80 on are not looked at: see [`utf8_flaw`].
#[inline]
pub(crate) fn literal_end(bytes: &[u8], open: usize) -> Result<(usize, bool), Flaw> {
    let mut at = find_special(bytes, open + 1);
    let mut escaped = false;
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok((at + 1, escaped)),
            Some(b'\\') => {
                escaped = true;
                at = find_special(bytes, escape_end(bytes, at)?);
            }
            Some(_) => {
                return Err(Flaw { at, truncated: false });
            }
            None => {
                return Err(Flaw { at: bytes.len(), truncated: true });
            }
        }
    }
}

/// The offset of the first quote, backslash or control character from `at` on, or the length.
///
/// Most strings in wire events are short and most bytes stand in a few long ones: a word decides about the
/// former, blocks of 32 bytes (which the compiler turns into vector compares) pass over the latter.
#[inline]
fn find_special(bytes: &[u8], mut at: usize) -> usize {
    let mut words = 0;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let hits = special_bits(u64::from_le_bytes(*word));
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
        words += 1;
        if words == 2 {
            while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<32>()) {
                if block.iter().fold(false, |hit, &byte| hit | is_special(byte)) {
                    break;
                }
                at += 32;
            }
        }
    }
    while at < bytes.len() && !is_special(bytes[at]) {
        at += 1;
    }
    at
}

#[inline]
fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// The high bit of every byte that is special. Borrows can set bits above a true hit, never below the
/// first one, and only the first is used.
#[inline]
fn special_bits(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | (quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash)) & HIGH
}

/// The end of the escape whose backslash stands at `at`.
#[inline]
fn escape_end(bytes: &[u8], at: usize) -> Result<usize, Flaw> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            for digit in at + 2..at + 6 {
                match bytes.get(digit) {
                    Some(byte) if byte.is_ascii_hexdigit() => {}
                    Some(_) => {
                        return Err(Flaw { at: digit, truncated: false });
                    }
                    None => {
                        return Err(Flaw { at: bytes.len(), truncated: true });
                    }
                }
            }
            Ok(at + 6)
        }
        Some(_) => Err(Flaw { at: at + 1, truncated: false }),
        None => Err(Flaw { at: bytes.len(), truncated: true }),
    }
}

/// The first byte that is not UTF-8; `truncated` if a character is merely cut by the end of the text.
/// With `wtf8` a surrogate in its three-byte form passes, anywhere.
pub(crate) fn utf8_flaw(bytes: &[u8], wtf8: bool) -> Option<Flaw> {
    let mut from = 0;
    loop {
        let error = std::str::from_utf8(&bytes[from..]).err()?;
        let at = from + error.valid_up_to();
        if !wtf8 || surrogate(bytes, at).is_none() {
            return Some(Flaw { at, truncated: error.error_len().is_none() });
        }
        from = at + 3;
    }
}

/// Checks that the whole of `literal` is one string literal. The error is the offending offset.
pub(crate) fn check(literal: &[u8], wtf8: bool) -> Result<bool, usize> {
    if literal.first() != Some(&b'"') {
        return Err(0);
    }
    let (end, escaped) = literal_end(literal, 0).map_err(|flaw| flaw.at)?;
    if end != literal.len() {
        return Err(end);
    }
    match utf8_flaw(literal, wtf8) {
        Some(flaw) => Err(flaw.at),
        None => Ok(escaped),
    }
}

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
fn escape(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    if bytes.get(at) != Some(&b'\\') {
        return None;
    }
    let unit = match bytes.get(at + 1)? {
        b'b' => 0x08,
        b'f' => 0x0C,
        b'n' => 0x0A,
        b'r' => 0x0D,
        b't' => 0x09,
        b'u' => {
            let digits = bytes.get(at + 2..at + 6)?;
            let unit = digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))?;
            return Some((unit, 6));
        }
        &byte => u32::from(byte),
    };
    Some((unit, 2))
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

    fn unit(&self, code: u32, end: usize) -> Piece {
        Piece { start: self.at, end, unit: Some(Unit::new(code)) }
    }

    fn piece(&self) -> Option<Piece> {
        let body = self.literal;
        let rest = body.get(self.at..).filter(|rest| !rest.is_empty())?;
        if let Some((unit, len)) = escape(body, self.at) {
            let end = self.at + len;
            if is_high(unit) {
                let second = match escape(body, end) {
                    Some((low, len)) => Some((low, len)),
                    None => surrogate(body, end).map(|low| (low, 3)),
                };
                if let Some((low, len)) = second.filter(|&(low, _)| is_low(low)) {
                    return Some(self.unit(pair(unit, low), end + len));
                }
            }
            return Some(self.unit(unit, end));
        }
        let stop = memchr::memchr(b'\\', rest).map_or(body.len(), |offset| self.at + offset);
        if stop >= self.at + 3
            && let Some(high) = surrogate(body, stop - 3).filter(|&unit| is_high(unit))
            && let Some((low, len)) = escape(body, stop).filter(|&(unit, _)| is_low(unit))
        {
            if stop - 3 == self.at {
                return Some(self.unit(pair(high, low), stop + len));
            }
            return Some(Piece { start: self.at, end: stop - 3, unit: None });
        }
        // `max` only matters for a backslash that starts no escape, which a checked literal does not hold.
        Some(Piece { start: self.at, end: stop.max(self.at + 1), unit: None })
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
    let mut out = BumpVec::with_capacity_in(literal.len(), bump);
    for piece in Pieces::new(literal) {
        out.extend_from_slice_copy(piece.decoded(literal));
    }
    out.into_bump_slice()
}

/// The decoded text.
pub(crate) fn decode(literal: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(literal.len());
    for piece in Pieces::new(literal) {
        out.extend_from_slice(piece.decoded(literal));
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
