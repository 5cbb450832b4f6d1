//! What a terminal would obey: control sequences, raw and spelled, and characters that turn the order of a line.
//!
//! A terminal that prints a text also runs it: it moves the cursor over what was said before, sets the title, writes
//! the clipboard (OSC 52), shows one address and opens another (OSC 8). Raw sequences begin with the character ESC
//! or one of the C1 controls. Spelled ones (`\x1b[`, `\u001b]`, `\033`, `\e[`, `^[[`) become raw where a shell or a
//! template decodes them.
//!
//! Invariants: ranges are in order, apart from each other, and lie on character boundaries; a text whose raw ranges
//! were taken out holds none; a text whose spelled ranges were replaced by [`MARK`] holds none.
//!
//! Left out: marks of direction that overrule nothing (U+200E, U+200F, U+061C), which right-to-left texts need; a
//! lone carriage return, which progress bars need.

use std::ops::Range;

/// What stands for a spelled sequence: the symbol for ESC. It cannot become a part of another.
pub const MARK: &str = "\u{241b}";

/// What a raw control is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// A control sequence, or a control character that is no white space.
    Escape,
    /// An embedding, override or isolate of direction.
    Bidi,
}

/// Every raw control of a text.
pub fn raw(text: &str) -> Vec<(Control, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let next = |n: usize| bytes.get(at + n).copied().unwrap_or_default();
        let (control, end) = match byte {
            0x1b => (Control::Escape, sequence(bytes, at + 1)),
            0x00..=0x08 | 0x0e..=0x1f | 0x7f => (Control::Escape, at + 1),
            // A next line (U+0085) is white space.
            0xc2 if matches!(next(1), 0x80..=0x9f) && next(1) != 0x85 => (Control::Escape, c1(bytes, next(1), at + 2)),
            0xe2 if (next(1) == 0x80 && matches!(next(2), 0xaa..=0xae))
                || (next(1) == 0x81 && matches!(next(2), 0xa6..=0xa9)) =>
            {
                (Control::Bidi, at + 3)
            }
            _ => {
                at += 1;
                continue;
            }
        };
        found.push((control, at..end));
        at = end;
    }
    found
}

/// Every spelled control sequence of a text.
pub fn spelled(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(ahead) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| matches!(b, b'\\' | b'^'))) {
        at += ahead;
        match spelled_sequence(bytes, at) {
            Some(end) => {
                found.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

/// The end of the control sequence or control character that begins at this byte, raw or spelled. A NUL is none.
pub fn sequence_at(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        0x1b => Some(sequence(bytes, at + 1)),
        0x01..=0x08 | 0x0e..=0x1f | 0x7f => Some(at + 1),
        0xc2 => match bytes.get(at + 1)? {
            0x85 => None,
            kind @ 0x80..=0x9f => Some(c1(bytes, *kind, at + 2)),
            _ => None,
        },
        b'\\' | b'^' => spelled_sequence(bytes, at),
        _ => None,
    }
}

/// The next byte from here on where a sequence may begin; most texts have none, so blocks are passed over.
pub fn may_begin(bytes: &[u8], at: usize) -> Option<usize> {
    let begins = |byte: &u8| {
        let is_space = (*byte == 0) | ((*byte >= 0x09) & (*byte <= 0x0d));
        let is_control = (*byte < 0x20) & !is_space;
        is_control | (*byte == 0x7f) | (*byte == 0xc2) | (*byte == b'\\') | (*byte == b'^')
    };
    let rest = bytes.get(at..)?;
    let blocks = rest.chunks_exact(32).take_while(|block| !block.iter().fold(false, |any, byte| any | begins(byte)));
    let passed = 32 * blocks.count();
    Some(at + passed + rest.get(passed..)?.iter().position(begins)?)
}

/// The text without its raw controls of these kinds.
pub fn without_raw(text: &str, escapes: bool, bidi: bool) -> String {
    let wanted = |control: &Control| match control {
        Control::Escape => escapes,
        Control::Bidi => bidi,
    };
    let found = raw(text).into_iter().filter(|(control, _)| wanted(control)).map(|(_, range)| range);
    replaced(text, found, "")
}

/// The text with its spelled sequences made visible.
pub fn without_spelled(text: &str) -> String {
    replaced(text, spelled(text).into_iter(), MARK)
}

fn replaced(text: &str, ranges: impl Iterator<Item = Range<usize>>, with: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(with);
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// The end of what begins behind an ESC (ECMA-48).
fn sequence(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'[') => csi(bytes, at + 1),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => string(bytes, at + 1),
        Some(0x20..=0x2f) => {
            let end = run(bytes, at, 0x20..=0x2f);
            end + usize::from(bytes.get(end).is_some_and(|b| matches!(b, 0x30..=0x7e)))
        }
        Some(0x30..=0x7e) => at + 1,
        _ => at,
    }
}

fn c1(bytes: &[u8], kind: u8, at: usize) -> usize {
    match kind {
        0x9b => csi(bytes, at),
        0x90 | 0x98 | 0x9d..=0x9f => string(bytes, at),
        _ => at,
    }
}

fn csi(bytes: &[u8], at: usize) -> usize {
    let end = run(bytes, run(bytes, at, 0x30..=0x3f), 0x20..=0x2f);
    end + usize::from(bytes.get(end).is_some_and(|b| matches!(b, 0x40..=0x7e)))
}

/// Behind the terminator of a control string; its beginning where none ends it before another control does.
fn string(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (0x07, _) => return at + 1,
            (0x1b, Some(b'\\')) | (0xc2, Some(0x9c)) => return at + 2,
            (0x1b | 0x18 | 0x1a, _) | (0xc2, Some(0x80..=0x9f)) => return start,
            _ => at += 1,
        }
    }
    start
}

fn run(bytes: &[u8], at: usize, of: std::ops::RangeInclusive<u8>) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|b| !of.contains(b)).unwrap_or(rest.len())
}

/// How ESC is spelled here: its length, and whether it can hardly mean anything else.
fn spelled_escape(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    const SPELLINGS: [(&[u8], bool); 7] = [
        (b"\\x1b", true),
        (b"\\u001b", true),
        (b"\\u{1b}", true),
        (b"\\033", true),
        (b"\\U0000001b", true),
        (b"\\e", false),
        (b"^[", false),
    ];
    let rest = bytes.get(at..)?;
    let spelt = |known: &[u8]| rest.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
    SPELLINGS.into_iter().find(|(known, _)| spelt(known)).map(|(known, sure)| (known.len(), sure))
}

fn spelled_sequence(bytes: &[u8], at: usize) -> Option<usize> {
    let (length, sure) = spelled_escape(bytes, at)?;
    let behind = at + length;
    let unsure = if sure { Some(behind) } else { None };
    match bytes.get(behind) {
        Some(b'[') => {
            let end = run(bytes, behind + 1, 0x30..=0x3f);
            let is_final = bytes.get(end).is_some_and(u8::is_ascii_alphabetic);
            // `^[[:alpha:]` is a pattern.
            let class = bytes.get(behind + 1) == Some(&b':');
            if is_final && (sure || !class) { Some(end + 1) } else { unsure }
        }
        Some(b']') => {
            let number = run(bytes, behind + 1, b'0'..=b'9');
            let is_command = number > behind + 1 && bytes.get(number) == Some(&b';');
            if is_command { Some(spelled_string(bytes, number)) } else { unsure }
        }
        Some(b'P' | b'_' | b'^' | b'X') if sure => Some(spelled_string(bytes, behind + 1)),
        _ => unsure,
    }
}

/// Like [`string`], of one line, with its terminator raw or spelled.
fn spelled_string(bytes: &[u8], start: usize) -> usize {
    const BELLS: [&[u8]; 5] = [b"\\x07", b"\\u0007", b"\\007", b"\\a", b"^G"];
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            0x07 => return at + 1,
            b'\n' | b'\r' | 0x1b => return start,
            b'\\' | b'^' => {
                let bell = BELLS.iter().find(|bell| bytes.get(at..).is_some_and(|rest| rest.starts_with(bell)));
                if let Some(bell) = bell {
                    return at + bell.len();
                }
                if let Some((length, _)) = spelled_escape(bytes, at) {
                    let end = at + length;
                    let slashes = run(bytes, end, b'\\'..=b'\\').min(end + 2);
                    return if slashes > end { slashes } else { start };
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_sequences_go_and_their_text_stays() {
        let cases = [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]8;;https://a.example\u{1b}\\text\u{1b}]8;;\u{1b}\\", "text"),
            ("\u{1b}]52;c;ZWNobyBoaQ==\u{7}x", "x"),
            ("\u{1b}]0;title\u{9c}x", "x"),
            ("\u{1b}P1$r0m\u{1b}\\x", "x"),
            ("\u{9b}2Jx\u{9d}0;t\u{7}y", "xy"),
            ("\u{1b}(Bx\u{1b}cy\u{1b}", "xy"),
            ("a\u{8}b\u{0}c\u{7f}", "abc"),
            ("\u{1b}]0;never ended", "0;never ended"),
            ("\u{1b}\u{1b}[1mx", "x"),
            ("abc\u{202e}def\u{2066}g", "abcdefg"),
        ];
        for (text, wanted) in cases {
            assert_eq!(without_raw(text, true, true), wanted, "{text:?}");
            assert_eq!(raw(wanted), [], "{wanted:?}");
        }
        for text in ["tab\tline\r\nnext\u{85}", "\u{200f}שלום", "é — €", "100%"] {
            assert_eq!(raw(text), [], "{text:?}");
        }
    }

    #[test]
    fn each_kind_is_taken_out_by_itself() {
        let text = "\u{1b}[1ma\u{202e}b";
        assert_eq!(without_raw(text, true, false), "a\u{202e}b");
        assert_eq!(without_raw(text, false, true), "\u{1b}[1mab");
    }

    #[test]
    fn spelled_sequences_are_made_visible() {
        let cases = [
            (r"\x1b[31mred\x1B[0m", "␛red␛"),
            (r"\u001b]8;;https://a.example\u001b\\text", "␛text"),
            (r"\u{1b}]52;c;AAAA\x07x", "␛x"),
            (r"\033[2Jx", "␛x"),
            (r"\e[1mx\e]0;t\ay", "␛x␛y"),
            (r"^[[31mx^[]0;t^Gy", "␛x␛y"),
            (r"\x1bx", "␛x"),
            (r"\x1bPq\x1b\\x", "␛x"),
            (r"\x1b]0;a\x1b]0;b", "␛;a␛;b"),
        ];
        for (text, wanted) in cases {
            let out = without_spelled(text);
            assert_eq!(out, wanted, "{text}");
            assert!(spelled(&out).is_empty(), "{out}");
        }
        for text in [r"grep '^[[:space:]]'", r"^[a-z]+$", r"^[^\]]", r"^[]x]", r"C:\etc\everything", r"\end{x}"] {
            assert!(spelled(text).is_empty(), "{text}");
        }
    }

    /// Behind whole blocks and none, for every byte that one begins with.
    #[test]
    fn no_sequence_begins_where_none_may() {
        for behind in ["[0m", "x1b[0m", "\u{7}", "\u{90}x"] {
            for first in 0..=255u8 {
                for before in 0..70 {
                    let text = [&b"plain text\n".repeat(9)[..before], &[first], behind.as_bytes()].concat();
                    let begins = (0..text.len()).find(|at| sequence_at(&text, *at).is_some());
                    let stops = std::iter::successors(may_begin(&text, 0), |at| may_begin(&text, at + 1));
                    assert!(begins.is_none_or(|begins| stops.clone().any(|at| at == begins)), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_joins_to_a_new_sequence() {
        let text = "\\x1\u{1b}[0mb[31m";
        let out = without_spelled(&without_raw(text, true, true));
        assert_eq!(out, MARK);
    }

    #[test]
    fn long_texts_take_linear_time() {
        for piece in ["\u{1b}]", "\\x1b]0;", "\u{9d}", "\\x1b[", "^[]1;"] {
            let text = piece.repeat(200_000);
            let out = without_spelled(&without_raw(&text, true, true));
            assert!(out.len() <= text.len());
        }
    }
}
