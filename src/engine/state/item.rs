//! Items: what opens, describes and closes a call.
//!
//! A call's place decides which one an item speaks of while a stream runs: item ids rotate behind some
//! proxies, and one backend changes a call id between an item's begin and its end. The final list of a
//! response object is different: it may renumber items, so there ids come first.

use super::assembly::{attribute, marks_ends, opened};
use super::conversation::{Call, CallStatus, TextSource};
use super::session::Session;
use super::store::{clip, id_hash};
use super::{At, Ready};
use crate::engine::Millis;
use crate::engine::event::{Args, CallFacts, Form, ItemStatus, Name, Slot};
use crate::engine::json::Value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// What an event says of a call's attributes; empty where it is silent.
struct Attributes {
    id: Vec<u8>,
    item_id: Vec<u8>,
    name: Vec<u8>,
    namespace: Vec<u8>,
    server: Vec<u8>,
}

impl Attributes {
    fn of(facts: &CallFacts<'_>) -> Self {
        let text = |value: Option<Value<'_>>| value.map(attribute).unwrap_or_default();
        Self {
            id: text(facts.id),
            item_id: text(facts.item_id),
            name: match facts.name {
                Name::Wire(name) => attribute(name),
                Name::Implied(name) => name.as_bytes().to_vec(),
                Name::None => Vec::new(),
            },
            namespace: text(facts.namespace),
            server: text(facts.server),
        }
    }
    /// Whether describing the call by these would change it.
    fn adds_to(&self, call: &Call, overwrite: bool) -> bool {
        let adds = |new: &Vec<u8>, old: &[u8]| !new.is_empty() && (old.is_empty() || overwrite && new != old);
        let optional = |old: &Option<Vec<u8>>| old.clone().unwrap_or_default();
        adds(&self.id, &call.id)
            || adds(&self.item_id, &call.item_id)
            || adds(&self.name, &call.name)
            || adds(&self.namespace, &optional(&call.namespace))
            || adds(&self.server, &optional(&call.server))
    }
    /// Whether they are another call's: the correlating ids differ. One type of call has another id at its end
    /// than at its beginning.
    fn another(&self, call: &Call) -> bool {
        let search = self.name == TOOL_SEARCH && call.name == TOOL_SEARCH && call.form == Form::JsonValue;
        !agree(&self.id, &call.id) && !search
    }
    /// Whether they say of the same call that it is something else. Item ids rotate, so they do not count.
    fn contradict(&self, call: &Call, facts: &CallFacts<'_>) -> bool {
        let optional = |old: &Option<Vec<u8>>, new: &[u8]| old.as_ref().is_none_or(|old| agree(old, new));
        let named = agree(&call.name, &self.name)
            && optional(&call.namespace, &self.namespace)
            && optional(&call.server, &self.server);
        let kind = call.orphan || call.executor == facts.executor && call.form == facts.form;
        !named || !kind
    }
    fn describe(self, call: &mut Call, overwrite: bool) {
        let set = |old: &mut Vec<u8>, new: Vec<u8>| {
            if !new.is_empty() && (overwrite || old.is_empty()) {
                *old = new;
            }
        };
        set(&mut call.id, self.id);
        set(&mut call.item_id, self.item_id);
        set(&mut call.name, self.name);
        for (old, new) in [(&mut call.namespace, self.namespace), (&mut call.server, self.server)] {
            if !new.is_empty() && (overwrite || old.is_none()) {
                *old = Some(new);
            }
        }
    }
}

/// A call as its first event shows it.
fn fresh(exchange: u32, facts: &CallFacts<'_>, attributes: Attributes, at: At, conflict: bool) -> Call {
    let mut call = Call::new(exchange, facts.slot, opened(at));
    attributes.describe(&mut call, true);
    Call { executor: facts.executor, form: facts.form, conflict, ..call }
}

/// Two ids that do not contradict each other.
pub(super) fn agree(a: &[u8], b: &[u8]) -> bool {
    a.is_empty() || b.is_empty() || a == b
}

/// The call whose id differs between its events (`provider-formats` §2.3).
const TOOL_SEARCH: &[u8] = b"tool_search";

/// Calls of one item id that are looked at.
const ALIKE: usize = 8;

impl Session<'_> {
    /// A call is opened. The same id, or none, at an open slot only describes it further (some proxies repeat
    /// the id on every chunk); another id is another call, which takes the slot. So is one that reopens what was
    /// closed as something else.
    pub(super) fn open_call(&mut self, exchange: u32, facts: &CallFacts<'_>, at: At, ready: &mut Vec<Ready>) {
        let mut attributes = Attributes::of(facts);
        let mut conflict = false;
        if let Some(n) = self.latest(exchange, facts.slot) {
            self.join_name(n, &mut attributes);
        }
        if let Some(n) = self.latest(exchange, facts.slot)
            && let Some(call) = self.call(n)
        {
            let another = attributes.another(call);
            let differs = another || attributes.contradict(call, facts);
            let other = differs || other_text(call, facts.args);
            match call.status {
                // Another id on what is a piece by its place, as some servers write with every one: whose it is
                // cannot be told, so the call that clients add it to is none.
                CallStatus::Open if another && attributes.name.is_empty() && !self.ends_marked(exchange) => {
                    return self.edit_progress(n, |call| call.conflict = true);
                }
                CallStatus::Open if !another => {
                    let initial = matches!(call.source, TextSource::None | TextSource::Initial);
                    self.describe(n, attributes, facts, false);
                    self.edit_progress(n, |call| {
                        call.touched = call.touched.max(at.time);
                        call.conflict |= other;
                    });
                    if initial {
                        self.initial(n, facts.args, ready);
                    }
                    return;
                }
                CallStatus::Closed(_) if !other => return,
                CallStatus::Final | CallStatus::Cut(_) if !differs => return,
                _ => conflict = self.displace(n, another) || self.repeats(exchange, facts.slot, &attributes.id),
            }
        }
        let call = fresh(exchange, facts, attributes, at, conflict);
        if let Some(n) = self.admit(exchange, Call { fragments: 1, ..call }, ready) {
            self.initial(n, facts.args, ready);
        }
    }

    fn ends_marked(&self, exchange: u32) -> bool {
        self.conversation().exchanges.get(&exchange).is_none_or(|e| marks_ends(e.provider))
    }

    /// Where calls have no end markers a name may come in pieces, until there are arguments: the piece goes from
    /// the attributes into the name.
    fn join_name(&mut self, n: u32, attributes: &mut Attributes) {
        let Some(call) = self.call(n).filter(|c| c.status == CallStatus::Open && !c.orphan) else { return };
        let exchange = self.conversation().exchanges.get(&call.exchange);
        let pieces = exchange.is_some_and(|e| !marks_ends(e.provider)) && call.source == TextSource::None;
        if !pieces || attributes.another(call) || call.name.is_empty() || agree(&call.name, &attributes.name) {
            return;
        }
        let name = clip(&[&call.name[..], &attributes.name].concat()).into_owned();
        attributes.name.clear();
        self.edit_facts(n, |call| call.name = name);
    }

    /// Whether a call that takes another one's place has the id of one before: which of the two is added to
    /// cannot be told then, so both are in conflict.
    fn repeats(&mut self, exchange: u32, slot: Slot, id: &[u8]) -> bool {
        let Some(n) = self.of_choice(exchange, slot.1, id).filter(|_| !id.is_empty()) else { return false };
        if self.is_open(n) {
            self.edit_progress(n, |call| call.conflict = true);
        }
        true
    }

    /// A call loses its slot to one that contradicts it. Gives whether both are in conflict: not where streams
    /// without end markers put several calls under one index.
    fn displace(&mut self, n: u32, another: bool) -> bool {
        let exchange = self.call(n).and_then(|c| self.conversation().exchanges.get(&c.exchange));
        let conflict = !another || exchange.is_none_or(|e| marks_ends(e.provider));
        if conflict && self.is_open(n) {
            self.edit_progress(n, |call| call.conflict = true);
        }
        conflict
    }

    /// The authoritative item. `how`: its status, and whether it stands in the response object's final list. Gives
    /// the call if it has ended with another text than this.
    pub(super) fn item(
        &mut self,
        exchange: u32,
        facts: &CallFacts<'_>,
        how: (ItemStatus, bool),
        at: At,
        ready: &mut Vec<Ready>,
    ) -> Option<u32> {
        let (status, listed) = how;
        let attributes = Attributes::of(facts);
        let found = if listed { self.listed(exchange, facts, &attributes) } else { self.latest(exchange, facts.slot) };
        let known = found.and_then(|n| {
            let call = self.call(n)?;
            let another = attributes.another(call);
            Some((n, call.is_open(), another, another || attributes.contradict(call, facts)))
        });
        let n = match known {
            Some((n, false, _, false)) => {
                return self.call(n).filter(|call| ended_otherwise(call, facts.args)).map(|_| n);
            }
            Some((n, true, false, differs)) => {
                self.describe(n, attributes, facts, !listed);
                if differs {
                    self.edit_progress(n, |call| call.conflict = true);
                }
                n
            }
            other => {
                let conflict = other.is_some_and(|(n, _, another, _)| self.displace(n, another));
                let call = fresh(exchange, facts, attributes, at, conflict);
                self.admit(exchange, call, ready)?
            }
        };
        let whole = !matches!(facts.args, Args::Absent);
        self.edit_progress(n, |call| {
            call.fragments = call.fragments.saturating_add(1);
            call.touched = call.touched.max(at.time);
        });
        if whole {
            let orphan = self.call(n).is_some_and(|c| c.orphan);
            // The pieces of such a value are previews.
            if orphan && facts.form == Form::JsonValue {
                self.replace(n, &[], TextSource::None, false);
            }
            self.restate(n, facts.args, ready);
            if orphan {
                self.edit_progress(n, |call| call.orphan = false);
            }
        }
        self.close(n, status, at.time);
        None
    }

    /// The call that a listed item is: the one at its slot with its id, the one with its id, the one with its
    /// item id, or the nameless one at its slot that is of its kind.
    fn listed(&self, exchange: u32, facts: &CallFacts<'_>, attributes: &Attributes) -> Option<u32> {
        let run = self.conversation().exchanges.get(&exchange)?.run;
        let at_slot = self.latest(exchange, facts.slot).and_then(|n| Some((n, self.call(n)?)));
        let id = &attributes.id;
        if let Some((n, call)) = at_slot
            && !id.is_empty()
            && call.id == *id
        {
            return Some(n);
        }
        let here = |c: &Call| c.exchange == exchange;
        let by_id = self.calls_by_id(id).find(|(n, c)| *n >= run && here(c) && c.id == *id);
        if let Some((n, _)) = by_id {
            return Some(n);
        }
        if !attributes.item_id.is_empty() {
            let hash = id_hash(&attributes.item_id);
            let same = |c: &Call| here(c) && c.item_id == attributes.item_id && agree(&c.id, id);
            let alike = self.stored.index.by_item.range((hash, run)..=(hash, u32::MAX)).rev().take(ALIKE);
            let by_item = alike.map(|(_, n)| *n).find(|n| self.call(*n).is_some_and(same));
            if by_item.is_some() {
                return by_item;
            }
        }
        let (n, call) = at_slot?;
        let kind = call.orphan
            || call.executor == facts.executor && call.form == facts.form && agree(&call.name, &attributes.name);
        (kind && agree(&call.id, id)).then_some(n)
    }

    fn describe(&mut self, n: u32, attributes: Attributes, facts: &CallFacts<'_>, overwrite: bool) {
        let Some(call) = self.call(n) else { return };
        let kind = overwrite || call.orphan;
        let changes = kind && (call.executor != facts.executor || call.form != facts.form);
        if changes || attributes.adds_to(call, overwrite) {
            self.edit_facts(n, |call| {
                attributes.describe(call, overwrite);
                if kind {
                    call.executor = facts.executor;
                    call.form = facts.form;
                }
            });
        }
    }

    /// The value a call is opened with: kept until the first delta or a restated value replaces it.
    fn initial(&mut self, n: u32, args: Args<'_>, ready: &mut Vec<Ready>) {
        let Some((text, raw)) = bytes(args).filter(|(text, _)| !text.is_empty()) else { return };
        if !self.fits(n, text.len()) {
            self.overflow(n, text.len() as u64, ready);
            return;
        }
        self.replace(n, &text, TextSource::Initial, raw);
    }

    pub(super) fn fits(&self, n: u32, length: usize) -> bool {
        let length = length as u64;
        let held = self.call(n).map_or(0, |c| c.text.len() as u64);
        let others = self.stored.index.bytes.saturating_sub(held);
        length <= self.limits.call_bytes && others + length <= self.limits.conversation_bytes
    }

    /// The whole value is stated again. It wins; if it differs from what was streamed or stated before, both
    /// cannot be right.
    pub(super) fn restate(&mut self, n: u32, args: Args<'_>, ready: &mut Vec<Ready>) {
        let Some(call) = self.call(n) else { return };
        let Some((text, raw)) = bytes(args) else { return };
        // Pieces whose beginning was not seen say nothing against a whole that ends in them.
        let rest = call.orphan && call.source == TextSource::Deltas && text.ends_with(&call.text);
        let equal = rest || same_text((&call.text, call.raw), (&text, raw));
        let conflict = match call.source {
            TextSource::Deltas | TextSource::Restated => !equal,
            TextSource::Leaves => true,
            // What stood there at the start is a placeholder, but nothing is less than something.
            TextSource::Initial => {
                let stood = call.form != Form::JsonValue && !placeholder(&call.text);
                text.is_empty() && !call.raw || stood && !equal
            }
            TextSource::None => false,
        };
        if !self.fits(n, text.len()) {
            self.overflow(n, text.len() as u64, ready);
            return;
        }
        if call.text[..] == text[..] && call.raw == raw {
            if call.source != TextSource::Restated {
                self.edit_progress(n, |call| call.source = TextSource::Restated);
            }
            return;
        }
        self.replace(n, &text, TextSource::Restated, raw);
        if conflict {
            self.edit_progress(n, |call| call.conflict = true);
        }
    }

    /// The item's end marker. An item that once said it is incomplete stays so.
    pub(super) fn close(&mut self, n: u32, status: ItemStatus, time: Millis) {
        if !self.is_open(n) {
            return;
        }
        self.edit_progress(n, |call| {
            call.touched = call.touched.max(time);
            if call.status != CallStatus::Closed(ItemStatus::Incomplete) {
                call.status = CallStatus::Closed(status);
            }
        });
    }
}

/// Whether a call that was judged has another text than is said again behind its end. Values that are no text may
/// be written in another way and be the same.
fn ended_otherwise(call: &Call, args: Args<'_>) -> bool {
    let Some((text, false)) = bytes(args) else { return false };
    let empty = call.form != Form::FreeText && text.iter().all(u8::is_ascii_whitespace);
    let text: &[u8] = if empty { b"{}" } else { &text };
    call.sha256.is_some_and(|judged| judged[..] != Sha256::digest(text)[..])
}

/// The argument text of a value, and whether it is a raw one.
fn bytes<'r>(args: Args<'r>) -> Option<(Cow<'r, [u8]>, bool)> {
    match args {
        Args::Absent => None,
        Args::Text(value) => value.text().map(|text| (text, false)),
        Args::Raw(value) => Some((Cow::Borrowed(value.raw()), true)),
    }
}

/// An argument text that may stand for one that is still to come.
fn placeholder(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    text.is_empty() || text == b"{}"
}

/// Whether the value with which a call is opened again is not the one that it has.
fn other_text(call: &Call, args: Args<'_>) -> bool {
    let Some((text, raw)) = bytes(args).filter(|(text, _)| !placeholder(text)) else { return false };
    let unsaid = call.status == CallStatus::Open && placeholder(&call.text);
    !unsaid && !same_text((&call.text, call.raw), (&text, raw))
}

/// Raw JSON values are the same if they differ in white space between tokens only.
fn same_text((a, a_raw): (&[u8], bool), (b, b_raw): (&[u8], bool)) -> bool {
    a == b || (a_raw || b_raw) && tokens(a).eq(tokens(b))
}

/// The bytes of a JSON text without white space outside strings.
fn tokens(text: &[u8]) -> impl Iterator<Item = u8> {
    let (mut string, mut escaped) = (false, false);
    text.iter().copied().filter(move |&byte| {
        if !string {
            string = byte == b'"';
            return !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        }
        string = escaped || byte != b'"';
        escaped = !escaped && byte == b'\\';
        true
    })
}
