//! The base64 codec: the standard and the URL-safe alphabet (not mixed), padding optional.
//!
//! Bits that the last symbol carries too many are ignored, as most decoders do: a guard that refused them
//! would see less than the reader it guards. White space is refused.

use super::splice::{Change, apply};
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, Engine};
use base64::{DecodeError, DecodeSliceError};
use bumpalo::Bump;

/// Three bytes are four symbols.
const BYTES: usize = 3;
const SYMBOLS: usize = 4;

fn engine(alphabet: &Alphabet, padding: bool) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_encode_padding(padding);
    GeneralPurpose::new(alphabet, config)
}

fn is_url_safe(text: &[u8]) -> bool {
    memchr::memchr2(b'-', b'_', text).is_some()
}

/// The engine that wrote `text`, as far as that shows. Where the text gives no hint it is the common form
/// of its alphabet: standard with padding, URL-safe without.
fn engine_of(text: &[u8]) -> GeneralPurpose {
    if is_url_safe(text) {
        engine(&URL_SAFE, text.ends_with(b"="))
    } else {
        engine(&STANDARD, text.len().is_multiple_of(SYMBOLS))
    }
}

/// The decoded bytes in the arena. The error is the offending offset.
pub(super) fn decode_in<'r>(bump: &'r Bump, text: &[u8]) -> Result<&'r [u8], usize> {
    let out = bump.alloc_slice_fill_copy(base64::decoded_len_estimate(text.len()), 0);
    match engine_of(text).decode_slice(text, out) {
        Ok(len) => Ok(&out[..len]),
        Err(DecodeSliceError::DecodeError(error)) => Err(offset_of(error, text)),
        Err(DecodeSliceError::OutputSliceTooSmall) => Err(text.len()),
    }
}

/// The decoded bytes.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    engine_of(text).decode(text).ok()
}

fn offset_of(error: DecodeError, text: &[u8]) -> usize {
    match error {
        DecodeError::InvalidByte(offset, _) => offset,
        DecodeError::InvalidLastSymbol { offset, .. } => offset,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
    }
}

/// The symbols that hold a decoded range, whole groups at both ends.
pub(super) fn locate(text: &[u8], decoded_len: usize, start: usize, end: usize) -> (usize, usize) {
    (start / BYTES * SYMBOLS, symbols_end(text, decoded_len, end.next_multiple_of(BYTES)))
}

/// Where the group that ends at a decoded offset ends; the last group may be short or padded.
fn symbols_end(text: &[u8], decoded_len: usize, end: usize) -> usize {
    if end >= decoded_len { text.len() } else { end / BYTES * SYMBOLS }
}

/// Lowers changes (in order, apart from each other) to the text: each is widened to whole groups, those
/// that meet in a group become one, and one that shifts what follows runs to the end of the text.
pub(super) fn lower(text: &[u8], decoded: &[u8], changes: &[Change]) -> Vec<Change> {
    let engine = engine_of(text);
    let mut lowered = Vec::new();
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let start = first.start / BYTES * BYTES;
        let mut end = start;
        let mut taken = 0;
        let mut shift = 0;
        // A change joins while it meets the widened range, or while that does not end on a whole group.
        while let Some(change) = rest.get(taken) {
            if taken > 0 && shift == 0 && change.start / BYTES * BYTES >= end {
                break;
            }
            end = end.max(change.end.next_multiple_of(BYTES)).min(decoded.len());
            // Compared modulo a group; both lengths are below 2^32.
            shift = (shift + change.with.len() + 2 * (change.end - change.start)) % BYTES;
            taken += 1;
        }
        if shift != 0 {
            end = decoded.len();
        }
        let (inside, behind) = rest.split_at(taken);
        rest = behind;
        let inside: Vec<Change> = inside.iter().map(|change| change.moved_down(start)).collect();
        let plain = apply(&decoded[start..end], &inside);
        lowered.push(Change {
            start: start / BYTES * SYMBOLS,
            end: symbols_end(text, decoded.len(), end),
            with: engine.encode(plain).into_bytes(),
        });
    }
    lowered
}
