//! Ways out of the directory that a path is meant to stay in.

use super::Finds;
use percent_encoding::percent_decode;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// Encodings inside one another that are undone.
const ROUNDS: usize = 3;

/// Bytes that lenient decoders read as `.`, `/` and `\`, and `%u` escapes, as they stand after one round.
const OVERLONG: [(&[u8], u8); 6] = [
    (&[0xC0, 0xAE], b'.'),
    (&[0xC0, 0xAF], b'/'),
    (&[0xC1, 0x9C], b'\\'),
    (&[0xE0, 0x80, 0xAE], b'.'),
    (&[0xE0, 0x80, 0xAF], b'/'),
    (&[0xE0, 0x81, 0x9C], b'\\'),
];

pub(super) fn find(text: &str, finds: &mut Finds) {
    let bytes = text.as_bytes();
    for (start, end) in parents(bytes) {
        finds.at("parent", start, end);
    }
    for (at, _) in text.match_indices('\0') {
        finds.at("nul", at, at + 1);
    }
    let trimmed = text.trim_start();
    if trimmed.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        finds.whole("scheme");
    }
    if trimmed.starts_with("\\\\") {
        finds.whole("unc");
    }
    if !finds.is_empty() {
        return;
    }
    // What a filter that takes `../` out would put together.
    if text.contains("../") || text.contains("..\\") {
        let filtered = text.replace("../", "").replace("..\\", "");
        if parents(filtered.as_bytes()).next().is_some() {
            finds.whole("nested");
        }
    }
    if text.contains('%') && is_encoded(bytes) {
        finds.whole("encoded");
    }
    if !text.is_ascii() {
        let folded: String = text.nfkc().map(|c| if matches!(c, '∕' | '⁄' | '⧸') { '/' } else { c }).collect();
        if parents(folded.as_bytes()).next().is_some() {
            finds.whole("lookalike");
        }
    }
}

/// Segments that lead to the parent directory.
fn parents(path: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut start = 0;
    path.split(|byte| matches!(byte, b'/' | b'\\')).filter_map(move |segment| {
        let at = start;
        start += segment.len() + 1;
        // A drive; white space that Windows takes off; what some servers take for a parameter.
        let drive =
            if segment.get(1) == Some(&b':') && segment.first().is_some_and(u8::is_ascii_alphabetic) { 2 } else { 0 };
        let name = segment.get(drive..).unwrap_or_default();
        let name = name.split(|byte| *byte == b';').next().unwrap_or_default();
        let at = at + drive + (name.len() - name.trim_ascii_start().len());
        (name.trim_ascii() == b"..").then_some((at, at + 2))
    })
}

/// Whether a way up or a NUL comes out when the text is decoded, once or several times.
fn is_encoded(text: &[u8]) -> bool {
    let mut text = Cow::Borrowed(text);
    for _ in 0..ROUNDS {
        let decoded = decoded(&text);
        if decoded == *text {
            return false;
        }
        if decoded.contains(&0) || parents(&decoded).next().is_some() {
            return true;
        }
        text = Cow::Owned(decoded);
    }
    false
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let bytes: Vec<u8> = percent_decode(&without_u(text)).collect();
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let Some((first, tail)) = rest.split_first() {
        match OVERLONG.iter().find(|(long, _)| rest.starts_with(long)) {
            Some((long, short)) => {
                out.push(*short);
                rest = rest.get(long.len()..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

/// `%u002e` is `.` to some servers.
fn without_u(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let hex = (*first == b'%' && matches!(tail.first(), Some(b'u' | b'U'))).then(|| tail.get(1..5)).flatten();
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32) {
            Some(c) => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = rest.get(6..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}
