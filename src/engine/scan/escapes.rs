//! A text as it is read: without what a terminal obeys, and with the way back to the bytes.
//!
//! `grep --color` and `jq -C` put colours around and into what they print. A reader sees the words, and so must what
//! looks for words.
//!
//! Invariants: every byte of the plain text is one of the text, in order; a range of it goes back to a range that
//! begins and ends with the same bytes and holds whole sequences.
//!
//! Left out: NUL, which stands for what was found already.

use super::terminal;

/// A text without its control sequences, raw and spelled.
pub struct Plain {
    pub bytes: Vec<u8>,
    /// Where pieces begin, in the plain text and in the text, in order.
    pieces: Vec<(usize, usize)>,
}

impl Plain {
    /// Nothing if the text holds no sequence.
    pub fn of(text: &[u8]) -> Option<Self> {
        let mut plain: Option<Self> = None;
        // The beginning of the piece that goes on.
        let mut from = 0;
        let mut at = 0;
        while let Some(begin) = terminal::may_begin(text, at) {
            at = begin;
            let Some(end) = terminal::sequence_at(text, at) else {
                at += 1;
                continue;
            };
            let plain = plain.get_or_insert_with(|| Self { bytes: Vec::with_capacity(text.len()), pieces: Vec::new() });
            plain.piece(text, from, at);
            at = end;
            from = end;
        }
        let mut plain = plain?;
        plain.piece(text, from, text.len());
        Some(plain)
    }

    fn piece(&mut self, text: &[u8], from: usize, to: usize) {
        if from < to {
            self.pieces.push((self.bytes.len(), from));
            self.bytes.extend_from_slice(text.get(from..to).unwrap_or_default());
        }
    }

    /// A range of the plain text that is not empty, as one of the text.
    pub fn back(&self, start: usize, end: usize) -> (usize, usize) {
        (self.place(start), self.place(end.saturating_sub(1)) + 1)
    }

    fn place(&self, at: usize) -> usize {
        let ix = self.pieces.partition_point(|(plain, _)| *plain <= at);
        let piece = ix.checked_sub(1).and_then(|ix| self.pieces.get(ix));
        piece.map_or(at, |(plain, text)| text + (at - plain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_back_to_the_bytes() {
        let text = b"a\x1b[1mbc\\u001b[0md\x1b]0;t\x07";
        let plain = Plain::of(text).unwrap();
        assert_eq!(plain.bytes, b"abcd");
        assert_eq!(plain.back(0, 1), (0, 1));
        assert_eq!(plain.back(1, 3), (5, 7));
        assert_eq!(plain.back(0, 4), (0, 17));
        assert!(Plain::of(b"no \\ such ^ thing \xc2\xa0").is_none());
        assert!(Plain::of(b"\x1b[0m").unwrap().bytes.is_empty());
    }

    #[test]
    fn hostile_texts_take_linear_time() {
        for piece in ["\x1b]", "\\x1b]0;", "\u{9d}", "\\x1b[", "^[]1;", "\x1b[0mx"] {
            let text = piece.repeat(100_000);
            assert!(Plain::of(text.as_bytes()).is_some_and(|plain| plain.bytes.len() < text.len()));
        }
    }
}
