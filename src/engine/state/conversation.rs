//! What is remembered of one conversation: facts, so that a reload judges anew.
//!
//! Names and ids are text from outside: bytes here, never shown as they stand.

use crate::engine::Millis;
use crate::engine::event::{CutReason, Executor, Form, ItemStatus, Slot, Stop, ToolFamily};
use crate::engine::provider::Provider;
use crate::engine::verdict::Decision;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One conversation. Entries are numbered from one counter in the head, so numbers order by first sight.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    pub head: Head,
    pub exchanges: BTreeMap<u32, Exchange>,
    pub calls: BTreeMap<u32, Call>,
    pub results: BTreeMap<u32, ResultFact>,
    pub toolsets: BTreeMap<u32, Toolset>,
    pub tools: BTreeMap<u32, Tool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    /// The conversation's name as it was given.
    pub name: Vec<u8>,
    /// The Kafka key of its first record: the key of verdicts that no record gives (expiry).
    pub record_key: Option<Vec<u8>>,
    pub fleet: Vec<u8>,
    pub agent: Vec<u8>,
    /// The largest timestamp among its records.
    pub clock: Millis,
    pub last_offset: i64,
    /// The next entry number.
    pub next: u32,
    /// A request of it was seen.
    pub request_seen: bool,
    /// Its beginning was not seen, or it was evicted before.
    pub partial: bool,
    /// `tool.started` events were seen.
    pub starts_seen: bool,
    /// The `not_observed` codes already said, one bit a policy number.
    pub said: u32,
}

/// One request and its response, by the host's exchange id or the payload's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// The `responseid` attribute.
    pub host_id: Option<Vec<u8>>,
    /// The response's own id.
    pub payload_id: Option<Vec<u8>>,
    pub provider: Provider,
    pub request_seen: bool,
    /// Part of the history is kept elsewhere (`previous_response_id`).
    pub elsewhere: bool,
    /// The tool definitions in force, by toolset number.
    pub toolset: Option<u32>,
    pub response: ResponseState,
    /// The last stated ending, not yet confirmed by the terminal marker.
    pub stop: Option<Stop>,
    pub opened: Opened,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseState {
    /// None of it was seen.
    Awaited,
    Open,
    Ended,
}

/// The record in which something was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Opened {
    pub offset: i64,
    pub time: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallStatus {
    Open,
    Closed(ItemStatus),
    Final,
    Cut(CutReason),
}

/// What the text is made of so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextSource {
    None,
    /// The value the call was opened with (`{}` placeholders included): the first non-empty delta replaces it.
    Initial,
    Deltas,
    /// The provider restated the whole.
    Restated,
}

/// A call, open or settled. `text` is empty once it is settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub exchange: u32,
    pub slot: Slot,
    /// The correlating id, empty if none.
    pub id: Vec<u8>,
    pub item_id: Vec<u8>,
    pub name: Vec<u8>,
    pub namespace: Option<Vec<u8>>,
    pub server: Option<Vec<u8>>,
    pub executor: Executor,
    pub form: Form,
    pub status: CallStatus,
    pub source: TextSource,
    /// Deltas and the restated value differ.
    pub conflict: bool,
    /// It outgrew `limits.call_bytes`; text beyond is not kept.
    pub overflow: bool,
    /// The text is the raw bytes of a JSON value.
    pub raw: bool,
    pub fragments: u32,
    pub opened: Opened,
    /// The assembled text, WTF-8 (raw bytes if `raw`). Kept outside the entry's own encoding, in pages.
    #[serde(skip)]
    pub text: Vec<u8>,
    /// Text of the part that is being streamed in pieces (shell commands), previews only.
    pub part: u32,
    // --- once settled
    pub sha256: Option<[u8; 32]>,
    pub bytes: u64,
    pub action: Option<Decision>,
    pub started: bool,
    pub answered: bool,
}

/// What later rules need of a result that was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultFact {
    /// Keyed digest of its call id (empty id included).
    pub call_id: [u8; 16],
    /// Keyed digest of the raw content bytes.
    pub content: [u8; 16],
    /// First bytes of the policy digest it was judged under.
    pub policy: [u8; 8],
    pub clean: bool,
    pub action: Decision,
    pub first_seen: Millis,
}

/// A set of tool definitions, as one request carried it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolset {
    /// Keyed digest over the raw bytes of all its definitions.
    pub digest: [u8; 16],
    /// Definitions that could not be kept (too many, too large).
    pub omitted: u32,
}

/// One definition of a toolset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub toolset: u32,
    pub name: Vec<u8>,
    pub namespace: Option<Vec<u8>>,
    pub server: Option<Vec<u8>>,
    pub family: ToolFamily,
    /// The JSON Schema as it stood, `None` where there is none.
    pub schema: Option<Vec<u8>>,
    /// The schema was too large to keep.
    pub schema_omitted: bool,
}
