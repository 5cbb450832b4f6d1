//! What is lost makes nothing final.
//!
//! A stream is its events without a gap: an event that could not be read, or not understood, may have held a
//! part of any call that was open then. Those calls are cut, with a verdict, whatever comes behind. Which calls
//! that are depends on how much of the record is known: its response, its conversation, or nothing.

use super::Run;
use super::call::executor_name;
use super::expiry::settle_due;
use super::publish::Draft;
use crate::engine::event::{CutReason, Event};
use crate::engine::json::Value;
use crate::engine::policy::{Evidence, Finding, Place};
use crate::engine::provider::Provider;
use crate::engine::state::{Call, CallStatus, PartitionState, Ready, ResponseState, Session};
use crate::engine::verdict::{Checkpoint, Decision, SubjectOut, engine_finding};
use crate::engine::wire::{self, Envelope, EventType, Mode};
use crate::engine::{Engine, Input, Observation, Out, TickSource, provider};
use bumpalo::Bump;

/// Whether pieces of a call came that name no response, where none is open that goes without a name: whichever
/// response they belong to has lost them.
pub(super) fn is_stray(session: &Session<'_>, exchange: u32, offset: i64, events: &[Event<'_>]) -> bool {
    let begins = |event: &Event<'_>| matches!(event, Event::Begin { .. });
    let piece = |event: &Event<'_>| {
        matches!(event, Event::Append { .. } | Event::Leaf { .. } | Event::Restate { .. } | Event::Close { .. })
    };
    let made_here = session.conversation().exchanges.get(&exchange).is_some_and(|e| e.opened.offset == offset);
    made_here && events.iter().any(piece) && !events.iter().any(begins)
}

/// Whether an event stands at the place of a call that is still open.
pub(super) fn is_of_call(session: &Session<'_>, exchange: u32, event: Value<'_>) -> bool {
    let slot = provider::place_of(event);
    let here = |call: &Call| call.exchange == exchange && call.is_open() && Some(call.slot) == slot;
    session.conversation().calls.values().any(here)
}

/// A record that could not be read may have held a part of any call that is open in its conversation: none of
/// them may become final without it. The verdicts' ids are those of an expiry, since no event gives them.
pub(super) fn lost_record(engine: &Engine, bump: &Bump, state: &mut PartitionState, input: &Input<'_>, out: &mut Out) {
    let settings = &engine.settings;
    let options = wire::DecodeOptions { limits: &settings.limits, lines: settings.lines };
    let cut = |session: &mut Session<'_>, ready: &mut Vec<Ready>| session.cut_all(CutReason::Undecodable, ready);
    for name in wire::conversations(bump, input, options) {
        let key = engine.keyed.conversation(&name);
        let now = input.timestamp.or_else(|| state.get(key).map(|known| known.head.clock)).unwrap_or(0);
        let source = TickSource { topic: input.topic, partition: input.partition, now };
        settle_due(engine, bump, state, key, source, out, &cut);
    }
}

impl<'a, 'r> Run<'a, 'r> {
    /// A part of a response in another provider's name than the one which is being read under that id: one of
    /// the names is wrong, and the part is lost to the other.
    pub(super) fn foreign(&mut self, session: &mut Session<'_>, id: Option<&[u8]>, provider: Provider) {
        let Some(id) = id else { return };
        let exchanges = session.conversation().exchanges.iter();
        let other = exchanges.filter(|(_, e)| e.host_id.as_deref() == Some(id) && e.provider != provider);
        let other: Vec<u32> = other.map(|(n, _)| *n).collect();
        let mut ready = Vec::new();
        for n in other {
            session.cut_exchange(n, CutReason::Undecodable, &mut ready);
        }
        self.ended(session, ready);
    }

    /// Records of the conversation are missing, by their numbers.
    pub(super) fn missed(&mut self, session: &mut Session<'_>) {
        self.out.observations.push(Observation::Undecodable { provider: self.origin.provider });
        let mut ready = Vec::new();
        session.cut_all(CutReason::Gap, &mut ready);
        self.ended(session, ready);
    }

    /// Data that could not be read, or not in one way only: cuts the response's open calls. A whole body, or a
    /// host event, of which nothing could be judged, is blocked by its envelope.
    pub(super) fn unread(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        exchange: Option<u32>,
        finding: Finding<'r>,
    ) {
        self.out.observations.push(Observation::Undecodable { provider: self.origin.provider });
        let said = self.out.emissions.len();
        let known = exchange.and_then(|n| session.conversation().exchanges.get(&n));
        let known_lost = envelope.kind == EventType::ModelChunk && known.is_some_and(|e| e.lost.is_some());
        if matches!(envelope.kind, EventType::ModelChunk | EventType::ModelResponse) {
            self.lost(session, envelope, exchange, CutReason::Undecodable);
        }
        // The calls that it cuts speak for a chunk. Where there are none, it may itself have held one; of a response
        // that is said once.
        let spoken_for = envelope.kind == EventType::ModelChunk && self.out.emissions.len() > said;
        if !spoken_for && !known_lost && !self.off() {
            self.envelope_verdict(envelope, finding);
        }
    }

    /// Text came for a call that has ended well: whoever reads on has other arguments than those that were
    /// judged. Said once a call.
    pub(super) fn behind_end(&mut self, session: &mut Session<'_>, n: u32) {
        self.out.observations.push(Observation::Undecodable { provider: self.origin.provider });
        let ended = |call: &&Call| call.status == CallStatus::Final && !call.conflict;
        let Some(call) = session.conversation().calls.get(&n).filter(ended) else { return };
        let mut subject = SubjectOut { executor: Some(executor_name(call)), ..SubjectOut::default() };
        let shown = |text: &[u8]| (!text.is_empty()).then(|| self.clean(text));
        (subject.call_id, subject.tool) = (shown(call.effective_id()), shown(&call.name));
        subject.server = call.server.as_deref().map(|server| self.clean(server));
        if let Some(call) = session.call_mut(n) {
            (call.conflict, call.action) = (true, Some(Decision::Block));
        }
        if self.off() {
            return;
        }
        let mut draft = Draft::new(self.next_id(Checkpoint::ToolCall), Checkpoint::ToolCall);
        draft.complete = false;
        draft.subject = subject;
        draft.block("text_behind_end", Evidence::None);
        self.emit(draft);
    }

    pub(super) fn oversize(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        input: &Input<'_>,
        exchange: Option<u32>,
    ) {
        match envelope.kind {
            EventType::ModelChunk | EventType::ModelResponse => {
                self.lost(session, envelope, exchange, CutReason::Limit);
            }
            // Outside binary mode nothing says what it was.
            EventType::Unknown if envelope.mode != Mode::Binary => {
                let mut ready = Vec::new();
                session.cut_all(CutReason::Limit, &mut ready);
                self.ended(session, ready);
            }
            _ => {}
        }
        let found = (input.value.map_or(0, <[u8]>::len) + input.key.map_or(0, <[u8]>::len)) as u64;
        let limit = self.engine.settings.limits.record_bytes;
        let finding = engine_finding("record_too_large", Place::Whole, Evidence::Bytes { found, limit });
        self.envelope_verdict(envelope, finding);
    }

    /// A part of a response is lost: cuts the open calls of the response that it was attributed to, and of
    /// every other that it may have been a part of. That is, those that bear its id under another provider's
    /// name, or without an id all that are open.
    pub(super) fn lost(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        exchange: Option<u32>,
        reason: CutReason,
    ) {
        let id = envelope.response_id.map(str::as_bytes);
        let exchanges = session.conversation().exchanges.iter();
        let meant = exchanges.filter(|(n, e)| match id {
            _ if exchange == Some(**n) => true,
            Some(id) => e.host_id.as_deref() == Some(id),
            None => e.response == ResponseState::Open || e.is_unanswered(),
        });
        let meant: Vec<u32> = meant.map(|(n, _)| *n).collect();
        let mut ready = Vec::new();
        for n in meant {
            session.cut_exchange(n, reason, &mut ready);
        }
        self.ended(session, ready);
    }

    /// Judges the calls that ended.
    pub(super) fn ended(&mut self, session: &mut Session<'_>, ready: impl IntoIterator<Item = Ready>) {
        for Ready::Call(call) in ready {
            self.call(session, call, None);
        }
    }
}
