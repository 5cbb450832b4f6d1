//! What is remembered of one conversation: facts, so that a reload judges anew.
//!
//! Names and ids are text from outside: bytes here, never shown as they stand.

use super::rpc::RpcRequest;
use super::seen::Seen;
use crate::engine::Millis;
use crate::engine::decision::Decision;
use crate::engine::event::Provider;
use crate::engine::event::{CutReason, Executor, Fate, Form, ItemStatus, Slot, Stop, ToolFamily};
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
    pub pieces: BTreeMap<u32, Piece>,
    pub requests: BTreeMap<u32, RpcRequest>,
    pub seen: BTreeMap<u32, Seen>,
}

/// A part of a stream's event whose end is still to come, in order of its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The `responseid` attribute, empty if there is none.
    pub response: Vec<u8>,
    pub provider: Provider,
    pub bytes: Vec<u8>,
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
    /// The sources of numbered records, the least recently used first.
    pub sources: Vec<Source>,
    /// Starts that came ahead of what makes their call final, in order.
    pub waiting: Vec<Waiting>,
    /// Calls of its MCP clients so far. Nothing sets it back, so that no two of them share a key.
    pub rpc_calls: u32,
}

/// A `tool.started` that is not judged yet: its record, as far as its verdict needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub call_id: Vec<u8>,
    pub offset: i64,
    /// The record's time: it waits from then on.
    pub time: Millis,
    pub event_id: Vec<u8>,
    /// CloudEvents `time`.
    pub event_time: Option<Millis>,
    pub traceparent: Vec<u8>,
    pub tracestate: Vec<u8>,
    /// The `mcpserver` attribute, empty if there is none.
    pub server: Vec<u8>,
    /// The event's data.
    pub data: Vec<u8>,
    /// One of this id came before it.
    pub again: bool,
}

impl Waiting {
    /// What it takes to remember it, bytes.
    pub(super) fn bytes(&self) -> usize {
        let names = self.event_id.len() + self.traceparent.len() + self.tracestate.len();
        128 + self.call_id.len() + names + self.server.len() + self.data.len()
    }
}

/// The last record of a source that numbers its records. Digests, not text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub source: [u8; 16],
    pub number: u64,
    pub id: [u8; 16],
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
    /// `request_seen`, `elsewhere` and the tools are those of an earlier exchange of the conversation: no
    /// request of its own was seen.
    pub inherited: bool,
    /// The tool definitions in force, by toolset number.
    pub toolset: Option<u32>,
    /// Definitions that arrived inside its response, by the number of a toolset of their own. None of them has
    /// the name of one in `toolset`.
    pub late: Option<u32>,
    pub response: ResponseState,
    /// The response ended by an error that the provider reported.
    pub failed: bool,
    /// A part of it is lost, and why: what was open then is cut.
    pub lost: Option<CutReason>,
    /// The last stated ending, the strictest if there were several, not yet confirmed by the terminal marker.
    pub stop: Option<Stop>,
    /// Chat: the last stated ending of each choice that named itself, in order of choice.
    pub choices: Vec<Stop>,
    /// Calls of the response's present run are numbered from here; a restarted response raises it, so its
    /// slots are free again.
    pub run: u32,
    /// Calls of the present run that were refused: over a limit, or behind the end. Only the first of them have
    /// entries.
    pub refused: u32,
    /// Calls of the present run that were numbered by their arrival.
    pub arrivals: u32,
    /// Places of the present run whose calls ended and have no entry any more.
    pub settled: Slots,
    /// MCP: the least number that its client gave a request, 0 where the connection's beginning was seen. Requests
    /// of lesser numbers may have been made before anybody looked.
    pub seen_from: Option<u64>,
    /// MCP: a request of its client's that was still waiting had to be forgotten.
    pub forgot: bool,
    pub opened: Opened,
    /// Parts of the present run that the provider signed, other than calls, in order of arrival.
    pub seals: Vec<Seal>,
    /// The provider refuses the next request without them.
    pub seals_required: bool,
    /// There were more than are kept.
    pub seals_omitted: bool,
}

/// A part of a response that its provider signed or encrypted. Keyed digests, not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Where it stands among the response's items; where the wire numbers calls only by their arrival, the number
    /// of the call before which it stands.
    pub slot: Slot,
    /// Of the part's own id, if it has one.
    pub id: Option<[u8; 16]>,
    /// `None`: not signed yet, or not at all.
    pub seal: Option<[u8; 16]>,
    /// Of the text that is signed with it, in a form that does not depend on where it was cut.
    pub thought: [u64; 2],
}

/// Places, as ranges in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slots(Vec<(Slot, Slot)>);

/// Ranges kept apart; with more, everything between the first and the last place counts as in.
const RANGES: usize = 64;

impl Slots {
    pub fn contains(&self, slot: Slot) -> bool {
        let at = self.0.partition_point(|(from, _)| *from <= slot);
        at.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, to)| slot <= *to)
    }
    pub fn ranges(&self) -> usize {
        self.0.len()
    }
    pub(super) fn add(&mut self, slot: Slot) {
        if self.contains(slot) {
            return;
        }
        let next = |s: Slot| Slot(s.0.saturating_add(1), s.1);
        let at = self.0.partition_point(|(from, _)| *from <= slot);
        let after = self.0.get(at).copied().filter(|(from, _)| *from == next(slot));
        let before = at.checked_sub(1).and_then(|at| self.0.get_mut(at)).filter(|(_, to)| next(*to) == slot);
        let to = after.map_or(slot, |(_, to)| to);
        match (before, after) {
            (Some(before), None) => before.1 = to,
            (Some(before), Some(_)) => {
                before.1 = to;
                self.0.remove(at);
            }
            (None, Some(_)) => self.0[at].0 = slot,
            (None, None) => self.0.insert(at, (slot, slot)),
        }
        if self.0.len() > RANGES
            && let (Some(first), Some(last)) = (self.0.first(), self.0.last())
        {
            self.0 = vec![(first.0, last.1)];
        }
    }
}

impl Exchange {
    /// An exchange of which nothing is known yet.
    pub fn new(provider: Provider, opened: Opened) -> Self {
        Self {
            host_id: None,
            payload_id: None,
            provider,
            request_seen: false,
            elsewhere: false,
            inherited: false,
            toolset: None,
            late: None,
            response: ResponseState::Awaited,
            failed: false,
            lost: None,
            stop: None,
            choices: Vec::new(),
            run: 0,
            refused: 0,
            arrivals: 0,
            settled: Slots::default(),
            seen_from: None,
            forgot: false,
            opened,
            seals: Vec::new(),
            seals_required: false,
            seals_omitted: false,
        }
    }
    /// The stated ending that speaks of this slot: the stricter of its choice's and the whole response's.
    pub fn stop_of(&self, slot: Slot) -> Option<Stop> {
        let own = self.choices.iter().find(|s| s.choice == Some(slot.1)).copied();
        match (own, self.stop) {
            (Some(own), Some(whole)) => Some(stricter(own, whole)),
            (own, whole) => own.or(whole),
        }
    }
    /// A copy without what may be long.
    pub(super) fn bare(&self) -> Self {
        Self {
            host_id: None,
            payload_id: None,
            choices: Vec::new(),
            settled: Slots::default(),
            seals: Vec::new(),
            seals_required: self.seals_required,
            seals_omitted: self.seals_omitted,
            provider: self.provider,
            request_seen: self.request_seen,
            elsewhere: self.elsewhere,
            inherited: self.inherited,
            toolset: self.toolset,
            late: self.late,
            response: self.response,
            failed: self.failed,
            lost: self.lost,
            stop: self.stop,
            run: self.run,
            refused: self.refused,
            arrivals: self.arrivals,
            seen_from: self.seen_from,
            forgot: self.forgot,
            opened: self.opened,
        }
    }
    /// How this choice, or the whole response, ended was said.
    pub fn has_ended(&self, choice: u32) -> bool {
        self.stop.is_some() || self.choices.iter().any(|s| s.choice == Some(choice))
    }
    /// Its own request was seen and has no response yet.
    pub fn is_unanswered(&self) -> bool {
        self.request_seen && !self.inherited && self.response == ResponseState::Awaited
    }
}

/// Of two stated endings, for each executor the one that lets less happen; of two alike, the first.
pub(super) fn stricter(first: Stop, second: Stop) -> Stop {
    let rank = |fate: Fate| match fate {
        Fate::Final => 0,
        Fate::Carry => 1,
        Fate::Cut(_) => 2,
    };
    let of = |a: Fate, b: Fate| if rank(b) > rank(a) { b } else { a };
    Stop { client: of(first.client, second.client), provider: of(first.provider, second.provider), ..first }
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
    /// Leaves of an object: a log of them, until the call ends ([`leaves`](super::leaves)).
    Leaves,
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
    /// Two events contradict each other. Its text: deltas and the restated value, two restated values, or a
    /// delta that came behind either. What it is: id, name, namespace, server, executor, form. Its place:
    /// another call stands there.
    pub conflict: bool,
    /// It outgrew `limits.call_bytes`; text beyond is not kept.
    pub overflow: bool,
    /// The text is the raw bytes of a JSON value.
    pub raw: bool,
    /// Fragments came before anything opened it. Only a whole item behind them makes it a call.
    pub orphan: bool,
    /// The provider took it back when it was final already: nothing may act on it any more.
    pub cancelled: bool,
    /// Left open by its response's ending: a later exchange may bring its result.
    pub carried: bool,
    pub fragments: u32,
    pub opened: Opened,
    /// The time of the last record that spoke of it.
    pub touched: Millis,
    /// The assembled text, WTF-8 (raw bytes if `raw`). Kept outside the entry's own encoding, in pages.
    #[serde(skip)]
    pub text: Vec<u8>,
    /// The part whose text came last (shell commands). Such text is a preview: its size counts, the item's
    /// value is what is judged.
    pub part: u32,
    /// Bytes of previews.
    pub preview: u64,
    // --- once settled
    pub sha256: Option<[u8; 32]>,
    /// Keyed digest of tool and canonical arguments: what calls of other ids that mean the same have too.
    pub intent: Option<[u8; 16]>,
    pub bytes: u64,
    pub action: Option<Decision>,
    pub started: bool,
    pub answered: bool,
    /// Keyed digest of what the provider signed it with.
    pub seal: Option<[u8; 16]>,
    /// Keyed digest of its name and arguments as values, where the provider signs calls.
    pub said: Option<[u8; 16]>,
}

impl Call {
    /// A call of which only the place is known.
    pub fn new(exchange: u32, slot: Slot, opened: Opened) -> Self {
        Self {
            exchange,
            slot,
            id: Vec::new(),
            item_id: Vec::new(),
            name: Vec::new(),
            namespace: None,
            server: None,
            executor: Executor::Client,
            form: Form::JsonText,
            status: CallStatus::Open,
            source: TextSource::None,
            conflict: false,
            overflow: false,
            raw: false,
            orphan: false,
            cancelled: false,
            carried: false,
            fragments: 0,
            opened,
            touched: opened.time,
            text: Vec::new(),
            part: 0,
            preview: 0,
            sha256: None,
            intent: None,
            bytes: 0,
            action: None,
            started: false,
            answered: false,
            seal: None,
            said: None,
        }
    }
    /// What the call is found by: its correlating id, or the item's own where there is none.
    pub fn effective_id(&self) -> &[u8] {
        if self.id.is_empty() { &self.item_id } else { &self.id }
    }
    /// Neither final nor cut.
    pub fn is_open(&self) -> bool {
        matches!(self.status, CallStatus::Open | CallStatus::Closed(_))
    }
    /// A client may run it, and no result came yet.
    pub fn awaits_result(&self) -> bool {
        let may_run = self.action.is_some_and(|action| action < Decision::Block) && !self.cancelled;
        may_run && self.status == CallStatus::Final && self.executor == Executor::Client && !self.answered
    }
    /// A copy of everything but the text.
    pub(super) fn without_text(&self) -> Self {
        Self {
            exchange: self.exchange,
            slot: self.slot,
            id: self.id.clone(),
            item_id: self.item_id.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            server: self.server.clone(),
            text: Vec::new(),
            executor: self.executor,
            form: self.form,
            status: self.status,
            source: self.source,
            conflict: self.conflict,
            overflow: self.overflow,
            raw: self.raw,
            orphan: self.orphan,
            cancelled: self.cancelled,
            carried: self.carried,
            fragments: self.fragments,
            opened: self.opened,
            touched: self.touched,
            part: self.part,
            preview: self.preview,
            sha256: self.sha256,
            intent: self.intent,
            bytes: self.bytes,
            action: self.action,
            started: self.started,
            answered: self.answered,
            seal: self.seal,
            said: self.said,
        }
    }
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
    /// Keyed digest of the content of its redacted or error-form copy, as that copy is read wherever it is put.
    /// `None`: there is none, or its shape is not read apart.
    pub copy: Option<[u8; 16]>,
    /// What the copy that was made of its host's own event leaves out: nothing (`allow`, also where text was only
    /// added), parts of the text, or all of it. A request carries results as they are until its copy is sent, so
    /// what stands in one leaves this as it was.
    pub withheld: Decision,
    /// Its host gave it in an event of its own (`tool.result`).
    pub from_host: bool,
    /// Whether it says that its tool failed; `None`: it says neither.
    pub failed: Option<bool>,
    /// The call that it answers, if that was known.
    pub call: Option<u32>,
}

/// A set of tool definitions, as one request carried it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolset {
    /// Keyed digest over the raw bytes of all its definitions.
    pub digest: [u8; 16],
    /// Definitions that could not be kept (too many, too large).
    pub omitted: u32,
    /// Who made them said that they are others now, and they have not been listed since.
    pub stale: bool,
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
    /// It arrived inside the conversation or a response, not in a request's own list.
    pub late: bool,
}
