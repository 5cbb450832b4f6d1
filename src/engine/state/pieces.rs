//! The beginning of a stream's event whose rest is still to come: a host may publish network reads as they
//! are, cut anywhere.
//!
//! It is kept in pieces, one entry each, so that a long one costs a transaction what came in it, and a read
//! costs what it brings.

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

/// What is known of a beginning without looking into it.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    pub provider: Provider,
    pub bytes: usize,
    pub last: Option<u8>,
}

impl Conversation {
    fn pieces_of<'c>(&'c self, response: Option<&[u8]>) -> impl Iterator<Item = (u32, &'c Piece)> + use<'c> {
        let id = clip(response.unwrap_or_default()).into_owned();
        self.pieces.iter().filter(move |(_, piece)| piece.response == id).map(|(n, piece)| (*n, piece))
    }

    /// Whether a beginning of this response's stream is kept. Without an id: of the one that has none.
    pub fn begun(&self, response: Option<&[u8]>) -> Option<Begun> {
        if self.pieces.is_empty() {
            return None;
        }
        let mut begun: Option<Begun> = None;
        for (_, piece) in self.pieces_of(response) {
            let bytes = begun.map_or(0, |b| b.bytes) + piece.bytes.len();
            begun = Some(Begun { provider: piece.provider, bytes, last: piece.bytes.last().copied() });
        }
        begun
    }

    /// What is kept of this response's stream.
    pub fn beginning(&self, response: Option<&[u8]>) -> Vec<u8> {
        self.pieces_of(response).flat_map(|(_, piece)| piece.bytes.iter().copied()).collect()
    }
}

impl Session<'_> {
    /// A part of a stream is lost: what was begun before it must not go on behind it.
    pub(super) fn forget_beginnings(&mut self) {
        self.end_loan();
        let pieces: Vec<u32> = self.conversation().pieces.keys().copied().collect();
        self.drop_pieces(pieces);
    }

    fn drop_pieces(&mut self, pieces: Vec<u32>) {
        for n in pieces {
            let prior = self.stored.set_piece(n, None).map(Box::new);
            self.log.push(self.key, Undo::Piece(n, prior));
        }
    }

    /// Keeps `text` as the beginning that this response's stream goes on from, in place of what was kept; empty:
    /// nothing is kept. False if there is no room, and then nothing is kept.
    pub fn keep_beginning(&mut self, response: Option<&[u8]>, provider: Provider, text: &[u8]) -> bool {
        self.end_loan();
        let own = self.conversation().pieces_of(response).map(|(n, _)| n).collect();
        self.drop_pieces(own);
        self.grow_beginning(response, provider, text)
    }

    /// Adds to what is kept. False if there is no room, and then nothing is kept any more.
    pub fn grow_beginning(&mut self, response: Option<&[u8]>, provider: Provider, text: &[u8]) -> bool {
        self.end_loan();
        if text.is_empty() {
            return true;
        }
        let own: Vec<(u32, usize)> =
            self.conversation().pieces_of(response).map(|(n, piece)| (n, piece.bytes.len())).collect();
        let length: usize = own.iter().map(|(_, length)| length).sum::<usize>() + text.len();
        let held = self.stored.index.bytes + text.len() as u64;
        let pieces = self.conversation().pieces.values().map(|piece| &piece.response);
        let others = pieces.collect::<std::collections::BTreeSet<_>>().len();
        // A call's text and the rest of the conversation need room beside it.
        let room = length as u64 <= self.limits.conversation_bytes / 2
            && held <= self.limits.conversation_bytes
            && (!own.is_empty() || others < RESPONSES);
        if !room {
            self.drop_pieces(own.into_iter().map(|(n, _)| n).collect());
            return false;
        }
        let mut text = text;
        if let Some((n, length)) = own.last().filter(|(_, length)| *length < PIECE)
            && let Some(piece) = self.conversation().pieces.get(n)
        {
            let (more, rest) = text.split_at(text.len().min(PIECE - length));
            let longer = Piece { bytes: [&piece.bytes, more].concat(), ..piece.clone() };
            let prior = self.stored.set_piece(*n, Some(longer)).map(Box::new);
            self.log.push(self.key, Undo::Piece(*n, prior));
            text = rest;
        }
        let id = clip(response.unwrap_or_default()).into_owned();
        for bytes in text.chunks(PIECE) {
            let n = self.number();
            self.log.push(self.key, Undo::Piece(n, None));
            self.stored.set_piece(n, Some(Piece { response: id.clone(), provider, bytes: bytes.to_vec() }));
        }
        true
    }
}
