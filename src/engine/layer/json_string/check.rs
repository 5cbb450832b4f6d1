//! Looking for the end of a literal, and whether a text is one, without decoding it.

use super::surrogate;

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
pub(super) fn find_special(bytes: &[u8], mut at: usize) -> usize {
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
                if block.iter().fold(0, |hits, &byte| hits | special(byte)) != 0 {
                    break;
                }
                at += 32;
            }
        }
    }
    while at < bytes.len() && special(bytes[at]) == 0 {
        at += 1;
    }
    at
}

/// Not zero for a special byte; without branches, so that it vectorises.
#[inline]
fn special(byte: u8) -> u8 {
    u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20)
}

/// The high bit of every byte that is special. Borrows can set bits above a true hit, never below the
/// first one, and only the first is used.
#[inline]
pub(super) fn special_bits(word: u64) -> u64 {
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
