//! Reassembly: events of a response become calls.
//!
//! A slot maps to the latest call opened there in the response's present run. A call that lost its slot to
//! another (all parallel calls under index 0) stays open and is settled like the rest at the end; where items
//! have end markers, two calls at one slot contradict each other. Nothing
//! becomes final before the response's own terminal marker; what each ending means is the provider's to say
//! ([`Fate`]), what the calls then are is decided here.
//!
//! Text is WTF-8. Two halves of a surrogate pair that stand in two fragments are joined, so it does not matter
//! where the provider cut.

use super::arrival::breaks_off;
use super::conversation::{Call, CallStatus, Exchange, Opened, ResponseState, Slots, TextSource, stricter};
use super::journal::{Progress, Undo};
use super::session::Session;
use super::store::clip;
use super::{At, Ready, StateLimits};
use crate::engine::Millis;
use crate::engine::event::Provider;
use crate::engine::event::{
    Args, CallFacts, CutReason, Event, Executor, Fate, Form, ItemStatus, ResultItem, Slot, Stop,
};
use crate::engine::json::{Kind, Value};
use std::borrow::Cow;

/// Choices of one response whose endings are kept apart.
const CHOICES: usize = 128;

/// Chat streams have no end marker per call: there, the response's ending is all there is.
pub(super) fn marks_ends(provider: Provider) -> bool {
    !matches!(provider, Provider::OpenAiChat | Provider::XaiChat)
}

/// An id or a name as it is kept; null and anything that has no text is empty.
pub(super) fn attribute(value: Value<'_>) -> Vec<u8> {
    kept(value).into_owned()
}

/// The same, where it is only compared: every chunk of some streams names its response.
fn kept(value: Value<'_>) -> Cow<'_, [u8]> {
    match (value.kind(), value.text()) {
        (Kind::String, Some(Cow::Borrowed(text))) => clip(text),
        (Kind::String, Some(Cow::Owned(text))) => Cow::Owned(clip(&text).into_owned()),
        (Kind::String | Kind::Null, _) => Cow::default(),
        _ => clip(value.raw()),
    }
}

impl Session<'_> {
    /// Absorbs one event of a response (all events from `Begin` to `Closed`); what ended is pushed to `ready`
    /// in slot order. Events that concern requests and host events are not for this method. Gives the call behind
    /// whose end text came.
    pub fn absorb(
        &mut self,
        exchange: u32,
        event: &Event<'_>,
        at: At,
        limits: &StateLimits,
        ready: &mut Vec<Ready>,
    ) -> Option<u32> {
        self.end_loan();
        self.limits = *limits;
        let known = self.conversation().exchanges.get(&exchange)?;
        let content = match event {
            Event::Open(call) | Event::Item { call, .. } => Some(call.slot),
            Event::Append { slot, .. } | Event::Leaf { slot, .. } | Event::Restate { slot, .. } => Some(*slot),
            _ => None,
        };
        // A choice that comes behind another one's ending is as open as that one was.
        let begins = content.is_some_and(|slot| match known.response {
            ResponseState::Awaited => true,
            ResponseState::Open => false,
            ResponseState::Ended => known.provider.has_choices() && !known.failed && !known.has_ended(slot.1),
        });
        if begins {
            self.tally(exchange, |e| e.response = ResponseState::Open);
        }
        match event {
            Event::Append { slot, part, text } => {
                let slot = self.piece_arrival(exchange, *slot, text.raw().len() <= 2);
                return self.append(exchange, slot, *part, *text, at, ready);
            }
            Event::Leaf { slot, path, value, more } => {
                return self.leaf(exchange, *slot, (*path, *value, *more), at, ready);
            }
            Event::Begin { id, again } => {
                let id = id.map(kept).filter(|id| !id.is_empty());
                self.begin_response(exchange, id.as_deref(), *again, ready);
            }
            Event::Open(facts) => {
                let slot = self.continued(exchange, facts);
                let slot = slot.unwrap_or_else(|| self.next_arrival(exchange, facts.slot, facts.id, ready));
                self.open_call(exchange, &CallFacts { slot, ..*facts }, at, ready);
            }
            Event::Restate { slot, args } => {
                let slot = self.piece_arrival(exchange, *slot, matches!(args, Args::Absent));
                return self.restate_slot(exchange, slot, *args, at, ready);
            }
            Event::Close { slot: place, status } => {
                let slot = self.latest_arrival(exchange, *place);
                if let Some(n) = self.latest(exchange, slot).filter(|n| self.is_open(*n)) {
                    if place.is_arrival() {
                        self.without_arguments(n);
                    }
                    self.close(n, *status, at.time);
                }
            }
            Event::Item { call, status, listed } => {
                let slot = self.next_arrival(exchange, call.slot, call.id, ready);
                let late = self.item(exchange, &CallFacts { slot, ..*call }, (*status, *listed), at, ready);
                if late.is_some() {
                    return late;
                }
                if let Some(n) = self.latest(exchange, slot).filter(|_| call.slot.is_arrival()) {
                    self.without_arguments(n);
                }
            }
            Event::ServerResult { result, closes: true } => self.server_result(result, at, ready),
            Event::Stop(stop) => self.stop(exchange, *stop),
            Event::End { choice } => self.end(exchange, *choice, ready),
            Event::Cancel { id } => self.cancel(&attribute(*id), ready),
            Event::Error { reason } => {
                let ended = self.response(exchange) == Some(ResponseState::Ended);
                self.fail(exchange, *reason, ready);
                if !ended {
                    self.edit_exchange(exchange, |e| e.failed = true);
                }
            }
            Event::Closed => {
                if self.response(exchange) != Some(ResponseState::Ended) {
                    self.fail(exchange, CutReason::TransportClosed, ready);
                } else {
                    // Late calls behind an ending have no other end than this one.
                    self.cut_where(exchange, CutReason::TransportClosed, |c| !c.carried, ready);
                }
            }
            Event::ServerResult { closes: false, .. }
            | Event::RequestBegin { .. }
            | Event::Tool(_)
            | Event::Listed(_)
            | Event::Signed { .. }
            | Event::Thought { .. }
            | Event::Turn { .. }
            | Event::RequestEnd
            | Event::Started(_)
            | Event::HostResult(_)
            | Event::Rendered(_)
            | Event::Rpc(_)
            | Event::Opaque { .. } => {}
        }
        None
    }

    /// Cuts every open call of the exchange for this reason.
    pub fn cut_exchange(&mut self, exchange: u32, reason: CutReason, ready: &mut Vec<Ready>) {
        self.end_loan();
        self.forget_beginnings();
        self.cut_where(exchange, reason, |_| true, ready);
        self.mark_lost(exchange, reason);
    }

    /// Cuts every open call of the conversation whose last event is no later than `idle_since`.
    pub fn cut_idle(&mut self, idle_since: Millis, ready: &mut Vec<Ready>) {
        self.cut_open(CutReason::Expired, idle_since, ready);
    }

    /// Cuts every open call of the conversation: it has to go.
    pub fn cut_all(&mut self, reason: CutReason, ready: &mut Vec<Ready>) {
        self.forget_beginnings();
        self.cut_open(reason, Millis::MAX, ready);
        let exchanges: Vec<u32> = self.conversation().exchanges.keys().copied().collect();
        exchanges.into_iter().for_each(|exchange| self.mark_lost(exchange, reason));
    }

    /// A part of a response is lost. Where the pieces of a call are told by their places alone (see `fate`), nothing
    /// shows that one is missing: no call of that response is whole any more, whatever comes behind.
    fn mark_lost(&mut self, exchange: u32, reason: CutReason) {
        let Some(known) = self.conversation().exchanges.get(&exchange) else { return };
        // A response all of whose chunks look alike may go on behind an ending.
        let over = known.response == ResponseState::Ended && !known.provider.has_choices();
        if known.lost.is_none() && !over {
            self.edit_exchange(exchange, |e| e.lost = Some(reason));
        }
    }

    fn cut_open(&mut self, reason: CutReason, idle_since: Millis, ready: &mut Vec<Ready>) {
        self.end_loan();
        let exchanges: std::collections::BTreeSet<u32> =
            self.stored.index.open.iter().map(|(exchange, _)| *exchange).collect();
        for exchange in exchanges {
            self.cut_where(exchange, reason, |c| c.touched <= idle_since, ready);
        }
    }

    // --- calls by place

    /// The latest call at a slot of the response's present run.
    pub(super) fn latest(&self, exchange: u32, slot: Slot) -> Option<u32> {
        let run = self.conversation().exchanges.get(&exchange)?.run;
        let range = (exchange, slot, run)..=(exchange, slot, u32::MAX);
        self.stored.index.by_slot.range(range).next_back().map(|(_, _, n)| *n)
    }
    pub(super) fn call(&self, n: u32) -> Option<&Call> {
        self.stored.conversation.calls.get(&n)
    }
    pub(super) fn is_open(&self, n: u32) -> bool {
        self.call(n).is_some_and(Call::is_open)
    }
    pub(super) fn response(&self, exchange: u32) -> Option<ResponseState> {
        self.conversation().exchanges.get(&exchange).map(|e| e.response)
    }
    /// The exchange's open calls in slot order.
    pub(super) fn open_calls(&self, exchange: u32) -> Vec<u32> {
        let open = self.stored.index.open.range((exchange, 0)..=(exchange, u32::MAX));
        let mut calls: Vec<_> = open.filter_map(|(_, n)| Some((self.call(*n)?.slot, *n))).collect();
        calls.sort_unstable();
        calls.into_iter().map(|(_, n)| n).collect()
    }

    // --- endings

    /// The call has ended: nothing changes it any more but its judgement.
    pub(super) fn finish(&mut self, n: u32, status: CallStatus, ready: &mut Vec<Ready>) {
        let status = self.assembled(n, status);
        self.edit_progress(n, |call| call.status = status);
        ready.push(Ready::Call(n));
    }
    fn cut_where(&mut self, exchange: u32, reason: CutReason, which: impl Fn(&Call) -> bool, ready: &mut Vec<Ready>) {
        for n in self.open_calls(exchange) {
            if self.call(n).is_some_and(&which) {
                self.finish(n, CallStatus::Cut(reason), ready);
            }
        }
    }
    fn fail(&mut self, exchange: u32, reason: CutReason, ready: &mut Vec<Ready>) {
        self.cut_where(exchange, reason, |c| !c.carried, ready);
        if self.response(exchange) != Some(ResponseState::Ended) {
            self.edit_exchange(exchange, |e| e.response = ResponseState::Ended);
        }
    }
    fn begin_response(&mut self, exchange: u32, id: Option<&[u8]>, again: bool, ready: &mut Vec<Ready>) {
        let Some(known) = self.conversation().exchanges.get(&exchange) else { return };
        let other = id.is_some() && known.payload_id.is_some() && id != known.payload_id.as_deref();
        // Every chunk of such a response begins it: only another id is another response.
        let repeats = known.provider.has_choices();
        // A client that goes by places alone joins what both say.
        let open = repeats && known.response == ResponseState::Open;
        let spliced = open && other && !self.open_calls(exchange).is_empty();
        let restart = match known.response {
            ResponseState::Awaited => false,
            ResponseState::Open => again || other,
            ResponseState::Ended => other || !repeats,
        };
        let unnamed = id.is_some() && known.payload_id.is_none();
        let goes_on = known.response == ResponseState::Open || known.response == ResponseState::Ended && repeats;
        if goes_on && !restart && !(unnamed && known.response == ResponseState::Open) {
            return;
        }
        if restart {
            self.cut_where(exchange, CutReason::Superseded, |c| !c.carried, ready);
        }
        let next = self.conversation().head.next;
        self.edit_exchange(exchange, |e| {
            e.response = ResponseState::Open;
            e.failed = false;
            if id.is_some() {
                e.payload_id = id.map(<[u8]>::to_vec);
            }
            if restart {
                e.run = next;
                e.stop = None;
                e.choices.clear();
                e.refused = 0;
                e.settled = Slots::default();
                e.seals.clear();
                (e.seals_required, e.seals_omitted) = (false, false);
                e.arrivals = 0;
                e.lost = match (spliced, open) {
                    (true, _) => Some(CutReason::Superseded),
                    // What was lost of an open response may have been a part of what comes under the next id.
                    (false, true) => e.lost,
                    (false, false) => None,
                };
            }
        });
    }
    fn stop(&mut self, exchange: u32, stop: Stop) {
        self.tally(exchange, |e| match stop.choice {
            None => e.stop = Some(e.stop.map_or(stop, |known| stricter(known, stop))),
            Some(choice) => match e.choices.binary_search_by_key(&Some(choice), |s| s.choice) {
                Ok(at) => e.choices[at] = stricter(e.choices[at], stop),
                Err(at) if e.choices.len() < CHOICES => e.choices.insert(at, stop),
                // Too many to keep apart: without a word on how they end, they are cut.
                Err(_) => {}
            },
        });
    }
    /// One choice ended, or all of them: the response is over when none of its calls is open any more.
    fn end(&mut self, exchange: u32, choice: Option<u32>, ready: &mut Vec<Ready>) {
        let Some(known) = self.conversation().exchanges.get(&exchange) else { return };
        // A record may end very many choices: those without calls cost a look.
        let of_choice = |call: &Call| choice.is_none_or(|choice| choice == call.slot.1);
        let open = self.stored.index.open.range((exchange, 0)..=(exchange, u32::MAX));
        let open = open.filter_map(|(_, n)| self.call(*n)).filter(|call| !call.carried);
        let (mut here, mut left) = (false, false);
        for call in open {
            here |= of_choice(call);
            left |= !of_choice(call);
        }
        let known = Exchange { choices: if here { known.choices.clone() } else { Vec::new() }, ..known.bare() };
        for n in if here { self.open_calls(exchange) } else { Vec::new() } {
            let Some(call) = self.call(n).filter(|c| !c.carried && of_choice(c)) else { continue };
            match fate(&known, call) {
                Fate::Final => self.finish(n, CallStatus::Final, ready),
                Fate::Cut(reason) => self.finish(n, CallStatus::Cut(reason), ready),
                Fate::Carry => self.edit_progress(n, |call| call.carried = true),
            }
        }
        if known.response != ResponseState::Ended && !left {
            self.tally(exchange, |e| e.response = ResponseState::Ended);
        }
    }
    fn server_result(&mut self, result: &ResultItem<'_>, at: At, ready: &mut Vec<Ready>) {
        let Some(id) = result.call_id.map(attribute).filter(|id| !id.is_empty()) else { return };
        let open = |c: &Call| c.executor == Executor::Provider && c.is_open();
        let Some(n) = self.calls_by_id(&id).find(|(_, c)| open(c)).map(|(n, _)| n) else { return };
        self.edit_progress(n, |call| {
            call.answered = true;
            call.touched = call.touched.max(at.time);
        });
        let Some(call) = self.call(n) else { return };
        let whole = match call.status {
            CallStatus::Closed(ItemStatus::Complete | ItemStatus::Suspended) => true,
            CallStatus::Open => call.source == TextSource::Restated,
            _ => false,
        };
        if whole && !call.orphan && !placeholder(call) {
            self.finish(n, CallStatus::Final, ready);
        }
    }

    // --- text

    /// Gives whether the text was lost.
    fn append(
        &mut self,
        exchange: u32,
        slot: Slot,
        part: u32,
        text: Value<'_>,
        at: At,
        ready: &mut Vec<Ready>,
    ) -> Option<u32> {
        let piece = text.text()?;
        let n = match self.latest(exchange, slot) {
            Some(n) if self.is_open(n) => n,
            None if !piece.is_empty() => {
                let orphan = Call { orphan: true, ..Call::new(exchange, slot, opened(at)) };
                self.admit(exchange, orphan, ready)?
            }
            late => return late.filter(|_| !piece.is_empty()),
        };
        self.add_text(n, part, &piece, at, ready);
        None
    }
    fn add_text(&mut self, n: u32, part: u32, piece: &[u8], at: At, ready: &mut Vec<Ready>) {
        let Some(call) = self.stored.conversation.calls.get_mut(&n) else { return };
        self.log.push_text(self.key, n, call);
        call.fragments = call.fragments.saturating_add(1);
        call.touched = call.touched.max(at.time);
        if piece.is_empty() {
            return;
        }
        if part > 0 || call.form == Form::JsonValue {
            call.part = part;
            call.preview = call.preview.saturating_add(piece.len() as u64);
            return;
        }
        if call.source == TextSource::Initial {
            self.replace(n, &[], TextSource::Deltas, false);
        }
        let Some(call) = self.stored.conversation.calls.get_mut(&n) else { return };
        // Text behind an end marker or behind the restated whole: which of the two is meant cannot be told.
        call.conflict |= call.status != CallStatus::Open || call.source == TextSource::Restated;
        if call.source == TextSource::Restated {
            return;
        }
        let before = call.text.len() as u64;
        let length = before + piece.len() as u64;
        let held = self.stored.index.bytes + piece.len() as u64;
        if length > self.limits.call_bytes || held > self.limits.conversation_bytes {
            self.overflow(n, length, ready);
            return;
        }
        call.source = TextSource::Deltas;
        match joined(&call.text, piece) {
            None => call.text.extend_from_slice(piece),
            Some((tail, whole)) => {
                let progress = Progress::of(call);
                let len = call.text.len();
                self.log.push(self.key, Undo::Text { n, progress, len, tail: Some(tail) });
                call.text.truncate(len - tail.len());
                call.text.extend_from_slice(&whole);
                call.text.extend_from_slice(&piece[3..]);
            }
        }
        self.stored.index.resize(before, call.text.len() as u64);
    }
    /// Replaces the text; the old one moves into the journal.
    pub(super) fn replace(&mut self, n: u32, text: &[u8], source: TextSource, raw: bool) {
        let Some(call) = self.stored.conversation.calls.get_mut(&n) else { return };
        let progress = Progress::of(call);
        let old = std::mem::replace(&mut call.text, text.to_vec());
        call.source = source;
        call.raw = raw;
        self.stored.index.resize(old.len() as u64, text.len() as u64);
        self.log.push(self.key, Undo::Replaced { n, progress, text: old });
    }
    /// The call is over a limit: its text goes, and it ends at once.
    pub(super) fn overflow(&mut self, n: u32, length: u64, ready: &mut Vec<Ready>) {
        self.replace(n, &[], TextSource::None, false);
        self.edit_progress(n, |call| {
            call.overflow = true;
            call.bytes = length;
        });
        self.finish(n, CallStatus::Cut(CutReason::Limit), ready);
    }
    /// Gives whether the value was lost. One that repeats what an ended call had is not told apart.
    fn restate_slot(
        &mut self,
        exchange: u32,
        slot: Slot,
        args: Args<'_>,
        at: At,
        ready: &mut Vec<Ready>,
    ) -> Option<u32> {
        if matches!(args, Args::Absent) {
            return None;
        }
        let n = match self.latest(exchange, slot) {
            Some(n) if self.is_open(n) => n,
            Some(late) => return Some(late),
            None => {
                let orphan = Call { orphan: true, ..Call::new(exchange, slot, opened(at)) };
                self.admit(exchange, orphan, ready)?
            }
        };
        // One command of a shell call, the diff of a patch: a preview of the item's value.
        let preview = match (self.call(n).map(|c| c.form), args) {
            (Some(Form::JsonValue), Args::Text(text)) => Some(text.text().map_or(0, |t| t.len() as u64)),
            _ => None,
        };
        self.edit_progress(n, |call| {
            call.fragments = call.fragments.saturating_add(1);
            call.touched = call.touched.max(at.time);
            call.preview = call.preview.max(preview.unwrap_or(0));
        });
        if preview.is_none() {
            self.restate(n, args, ready);
        }
        None
    }
}

pub(super) fn opened(at: At) -> Opened {
    Opened { offset: at.offset, time: at.time }
}

/// The value a call was opened with stands in for one that never came: parts of it were streamed, the whole
/// was not.
fn placeholder(call: &Call) -> bool {
    let unsaid = matches!(call.source, TextSource::None | TextSource::Initial);
    let value = call.form == Form::JsonValue && call.source == TextSource::None;
    unsaid && (call.preview > 0 || value)
}

/// What the end of its response makes of an open call.
fn fate(exchange: &Exchange, call: &Call) -> Fate {
    if call.orphan {
        return Fate::Cut(CutReason::Orphan);
    }
    if exchange.failed {
        return Fate::Cut(CutReason::Failed);
    }
    if let Some(reason) = exchange.lost.filter(|_| exchange.provider.has_choices()) {
        return Fate::Cut(reason);
    }
    let fate = exchange.stop_of(call.slot).map(|stop| match call.executor {
        Executor::Client => stop.client,
        Executor::Provider => stop.provider,
    });
    // Code that Gemini runs has no end marker of its own.
    let gemini = matches!(exchange.provider, Provider::GeminiGenerateContent | Provider::GeminiLive);
    let by_provider = gemini && call.executor == Executor::Provider;
    let whole = match call.status {
        CallStatus::Closed(status) => status != ItemStatus::Incomplete,
        _ => !marks_ends(exchange.provider) || call.source == TextSource::Restated || by_provider,
    };
    // A token limit is reported as a good ending by some gateways.
    let cut = || !marks_ends(exchange.provider) && call.form == Form::JsonText && breaks_off(&call.text);
    match fate {
        None => Fate::Cut(CutReason::EndedOtherwise),
        Some(Fate::Final) if !whole || placeholder(call) || cut() => Fate::Cut(CutReason::ItemIncomplete),
        Some(fate) => fate,
    }
}

/// If the text ends in a leading surrogate and the piece begins with a trailing one: the three bytes that go,
/// and the character that both are.
pub(super) fn joined(text: &[u8], piece: &[u8]) -> Option<([u8; 3], [u8; 4])> {
    let tail: [u8; 3] = *text.last_chunk()?;
    let head: [u8; 3] = *piece.first_chunk()?;
    let ([0xED, high @ 0xA0..=0xAF, a], [0xED, low @ 0xB0..=0xBF, b]) = (tail, head) else {
        return None;
    };
    let bits = |middle: u8, last: u8| u32::from(middle & 0x0F) << 6 | u32::from(last & 0x3F);
    let code = 0x1_0000 + (bits(high, a) << 10 | bits(low, b));
    let mut out = [0; 4];
    char::from_u32(code)?.encode_utf8(&mut out);
    Some((tail, out))
}
