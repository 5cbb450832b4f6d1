//! Entries as bytes: changelog keys and values.
//!
//! A key is `kind (1 byte), conversation (16), number (4), page (4)`, numbers big-endian, so keys order. A
//! value is one version byte and the entry in postcard; a text page is the version byte and the bytes. A
//! call's entry carries the length of its text, so that a missing page shows at the end of a restore.
//!
//! Kind `0xFF` is the worker's (positions) and refused here, like any other kind that is not ours.

use super::ConvKey;
use super::conversation::{Call, Conversation, Exchange, Head, Piece, ResultFact, Tool, Toolset};
use super::rpc::RpcRequest;
use super::seen::Seen;
use serde::{Deserialize, Serialize};

/// A changelog record key: version-free, ordered by kind, conversation, number, page.
pub type StateKey = Vec<u8>;

/// Why a changelog record cannot be read. Never started empty instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// A format this build does not know.
    UnknownVersion {
        found: u8,
    },
    BadKey,
    BadValue,
    /// The log ended, and a conversation's head or a page of a call's text is missing.
    Incomplete,
}

/// The version this build writes.
const VERSION: u8 = 5;

/// Bytes of argument text in one entry.
pub(super) const PAGE: usize = 4096;

/// Bytes of a tool's schema beyond which it is not kept: an entry stays below 64 KiB.
pub(super) const SCHEMA_BYTES: usize = 60 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    Head = 1,
    Exchange = 2,
    Call = 3,
    Text = 4,
    Result = 5,
    Toolset = 6,
    Tool = 7,
    Piece = 8,
    Rpc = 9,
    Seen = 10,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [Kind; 10] = [
            Kind::Head,
            Kind::Exchange,
            Kind::Call,
            Kind::Text,
            Kind::Result,
            Kind::Toolset,
            Kind::Tool,
            Kind::Piece,
            Kind::Rpc,
            Kind::Seen,
        ];
        ALL.into_iter().find(|k| *k as u8 == byte)
    }
}

/// Where an entry belongs. Orders as its bytes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub kind: Kind,
    pub key: ConvKey,
    pub n: u32,
    pub page: u32,
}

impl Place {
    pub fn new(kind: Kind, key: ConvKey, n: u32) -> Self {
        Self { kind, key, n, page: 0 }
    }
    pub fn encode(self, out: &mut StateKey) {
        out.clear();
        out.push(self.kind as u8);
        out.extend_from_slice(&self.key.0.to_be_bytes());
        out.extend_from_slice(&self.n.to_be_bytes());
        out.extend_from_slice(&self.page.to_be_bytes());
    }
    pub fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let bytes: &[u8; 25] = bytes.try_into().map_err(|_| StateError::BadKey)?;
        let (kind, rest) = (bytes[0], &bytes[1..]);
        let kind = Kind::from_byte(kind).ok_or(StateError::BadKey)?;
        let (key, rest) = rest.split_at(16);
        let (n, page) = rest.split_at(4);
        let number = |b: &[u8]| b.iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
        let place = Self {
            kind,
            key: ConvKey(key.iter().fold(0u128, |n, b| n << 8 | u128::from(*b))),
            n: number(n),
            page: number(page),
        };
        let paged = place.page == 0 || kind == Kind::Text;
        let numbered = place.n == 0 || kind != Kind::Head;
        (paged && numbered).then_some(place).ok_or(StateError::BadKey)
    }
}

/// An entry as it was read.
pub(super) enum Entry {
    Head(Head),
    Exchange(Exchange),
    Call { call: Call, text: u64 },
    Page(Vec<u8>),
    Result(ResultFact),
    Toolset(Toolset),
    Tool(Tool),
    Piece(Piece),
    Rpc(RpcRequest),
    Seen(Seen),
}

fn put<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Option<()> {
    // Writing these types into a vector has no way to fail. Were it ever to, the value is empty, which a
    // restore refuses.
    *out = postcard::to_extend(value, std::mem::take(out)).unwrap_or_default();
    Some(())
}

/// Encodes the live entry at `place`; `None` if there is none. Text pages have a function of their own.
pub(super) fn encode(conversation: &Conversation, place: Place, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    out.push(VERSION);
    let n = &place.n;
    match place.kind {
        Kind::Head => put(&conversation.head, out),
        Kind::Exchange => put(conversation.exchanges.get(n)?, out),
        Kind::Call => {
            let call = conversation.calls.get(n)?;
            put(&(call.text.len() as u64, call), out)
        }
        Kind::Text => {
            let start = place.page as usize * PAGE;
            let text = &conversation.calls.get(n)?.text;
            let end = text.len().min(start + PAGE);
            out.extend_from_slice(text.get(start..end).filter(|page| !page.is_empty())?);
            Some(())
        }
        Kind::Result => put(conversation.results.get(n)?, out),
        Kind::Toolset => put(conversation.toolsets.get(n)?, out),
        Kind::Tool => put(conversation.tools.get(n)?, out),
        Kind::Piece => put(conversation.pieces.get(n)?, out),
        Kind::Rpc => put(conversation.requests.get(n)?, out),
        Kind::Seen => put(conversation.seen.get(n)?, out),
    }
}

fn take<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, StateError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(StateError::BadValue),
    }
}

pub(super) fn decode(kind: Kind, value: &[u8]) -> Result<Entry, StateError> {
    let (&version, bytes) = value.split_first().ok_or(StateError::BadValue)?;
    if version != VERSION {
        return Err(StateError::UnknownVersion { found: version });
    }
    Ok(match kind {
        Kind::Head => Entry::Head(take(bytes)?),
        Kind::Exchange => Entry::Exchange(take(bytes)?),
        Kind::Call => {
            let (text, call) = take(bytes)?;
            Entry::Call { call, text }
        }
        Kind::Text if bytes.is_empty() || bytes.len() > PAGE => return Err(StateError::BadValue),
        Kind::Text => Entry::Page(bytes.to_vec()),
        Kind::Result => Entry::Result(take(bytes)?),
        Kind::Toolset => Entry::Toolset(take(bytes)?),
        Kind::Tool => Entry::Tool(take(bytes)?),
        Kind::Piece => Entry::Piece(take(bytes)?),
        Kind::Rpc => Entry::Rpc(take(bytes)?),
        Kind::Seen => Entry::Seen(take(bytes)?),
    })
}
