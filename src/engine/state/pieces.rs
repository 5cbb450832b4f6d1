//! The beginning of a stream's event whose rest is still to come: a host may publish network reads as they
//! are, cut anywhere.
//!
//! It is kept in pieces, one entry each, so that a long one costs a transaction what came in it.

use super::Conversation;
use super::conversation::Piece;
use super::journal::Undo;
use super::session::Session;
use super::store::clip;
use crate::engine::event::Provider;

/// The longest piece, bytes: an entry stays below 64 KiB.
const PIECE: usize = 48 << 10;
/// Responses of one conversation of which a beginning is kept.
const RESPONSES: usize = 8;

impl Conversation {
    /// What is kept of this response's stream, and whose it is. Without an id: of the one that has none.
    pub fn beginning(&self, response: Option<&[u8]>) -> Option<(Provider, Vec<u8>)> {
        if self.pieces.is_empty() {
            return None;
        }
        let id = clip(response.unwrap_or_default());
        let mut own = self.pieces.values().filter(|piece| piece.response == *id).peekable();
        let provider = own.peek()?.provider;
        Some((provider, own.flat_map(|piece| piece.bytes.iter().copied()).collect()))
    }
}

impl Session<'_> {
    /// A part of a stream is lost: what was begun before it must not go on behind it.
    pub(super) fn forget_beginnings(&mut self) {
        self.end_loan();
        let pieces: Vec<u32> = self.conversation().pieces.keys().copied().collect();
        for n in pieces {
            let prior = self.stored.set_piece(n, None).map(Box::new);
            self.log.push(self.key, Undo::Piece(n, prior));
        }
    }

    /// Keeps `text` as the beginning that this response's stream goes on from; empty: nothing is kept. What was
    /// kept before is kept on if `text` begins with it. False if there is no room, and then nothing is kept.
    pub fn keep_beginning(&mut self, response: Option<&[u8]>, provider: Provider, text: &[u8]) -> bool {
        self.end_loan();
        let id = clip(response.unwrap_or_default()).into_owned();
        let pieces = &self.conversation().pieces;
        let own: Vec<u32> = pieces.iter().filter(|(_, piece)| piece.response == id).map(|(n, _)| *n).collect();
        let known: Vec<u8> = own.iter().filter_map(|n| pieces.get(n)).flat_map(|p| p.bytes.clone()).collect();
        let responses = pieces.values().map(|piece| &piece.response).collect::<std::collections::BTreeSet<_>>().len();
        let grows = !known.is_empty() && text.starts_with(&known);
        let added = if grows { &text[known.len()..] } else { text };
        let held = self.stored.index.bytes + added.len() as u64;
        let room = text.len() as u64 <= self.limits.call_bytes
            && held <= self.limits.conversation_bytes
            && (!own.is_empty() || responses < RESPONSES);
        if !grows || !room {
            for n in own {
                let prior = self.stored.set_piece(n, None).map(Box::new);
                self.log.push(self.key, Undo::Piece(n, prior));
            }
        }
        if !room {
            return text.is_empty();
        }
        for bytes in added.chunks(PIECE) {
            let n = self.number();
            self.log.push(self.key, Undo::Piece(n, None));
            self.stored.set_piece(n, Some(Piece { response: id.clone(), provider, bytes: bytes.to_vec() }));
        }
        true
    }
}
