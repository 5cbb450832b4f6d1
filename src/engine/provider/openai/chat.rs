//! OpenAI Chat Completions (`POST /v1/chat/completions`), and servers that speak like it.
//!
//! # Wire shapes read
//! Chunks (`choices[].delta`) and whole bodies (`choices[].message`): `tool_calls[]` of functions and custom
//! tools, the legacy `function_call`, `refusal`, `finish_reason`; error bodies, `{"error":…}` in a chunk or in
//! a choice. Requests (`request.rs`): `messages[]`, `tools[]`, the legacy `functions[]`. What else a message
//! holds (`content`, `audio`, `reasoning_content`, `reasoning_details`, `annotations`) is no call and is not read.
//!
//! # How a call is addressed
//! By `(tool_calls[].index, choices[].index)`; in a whole body by the place in `tool_calls[]`. Without `index`
//! by order of arrival within the choice: what has another id, or no id and a name, is the next call, the rest
//! adds to the latest. `function_call` has a place of its own, since a choice has one at most. A choice without
//! index is the first.
//!
//! # What ends a call
//! The `finish_reason` of its choice, and nothing before it: no call has an end marker. `stop`, `tool_calls`
//! and `function_call` let it run; `length`, `content_filter` and all others cut it, so does a refusal. A whole
//! body without `finish_reason` cuts too. `[DONE]` says nothing. An error cuts all choices.
//!
//! # Oddities
//! - Whole call in one chunk, several calls in a chunk, `index` missing, a first index of 1.
//! - Every parallel call under index 0: another id is another call. The id repeated, or `""`, on later chunks.
//! - The name in pieces or repeated on later chunks: the state joins it while there are no arguments.
//! - The last chunk brings `finish_reason` and a call's piece without text; an empty piece behind whole text.
//! - `arguments` is `null` (none), an object (its raw bytes), or the text `null`.
//! - `finish_reason` is `""` where others send `null`.
//! - Azure's first chunk has no choices and an empty id; the usage chunk has no choices and comes last.
//! - The whole text so far as `message` beside `delta` (Perplexity) is not read; with calls in it, it is unclear.
//! - Members that a reader who ignores case or punctuation takes for a call's (`toolCalls`) are unclear, so are
//!   a call of two kinds and a message in place of a choice.
//! - `executed_tools` (Groq), run by the provider, are opaque.

mod request;

pub(in crate::engine::provider) use request::{request, result};

use super::super::{Translated, member, named, object, opaque, resembles, string, type_of, unclear, unknown_event};
use crate::engine::event::{Args, CallFacts, CutReason, Event, Executor, Fate, Form, ItemStatus, Name, Slot, Stop};
use crate::engine::json::{Kind, Value};

/// The number of a choice's `function_call` among its calls.
const LEGACY: u32 = u32::MAX - 1;

/// One chunk, or a whole body.
pub(in crate::engine::provider) fn response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    if misspelt(value, &["choices", "error"]) {
        return unclear(value, out);
    }
    let said = value.get("choices");
    let choices = said.filter(|choices| !choices.is_null());
    let failed = member(value, "error").is_some()
        || value.get("object").is_some_and(|object| object.is("error"))
        || object(value, "x_groq").is_some_and(|groq| member(groq, "error").is_some());
    let id = named(value, "id");
    if id.is_some() {
        out.response_id = id;
    }
    if said.is_none() {
        let calls = ["delta", "message"].into_iter().any(|name| object(value, name).is_some());
        return match () {
            () if failed => error(out),
            () if calls || value.get("tool_calls").is_some() => unclear(value, out),
            () => unknown_event(&type_of(value), value, &[], out),
        };
    }
    out.events.push(Event::Begin { id, again: false });
    if let Some(choices) = choices.filter(|choices| choices.kind() != Kind::Array) {
        return unclear(choices, out);
    }
    if failed {
        error(out);
    }
    for entry in choices.into_iter().flat_map(|choices| choices.items()) {
        choice(entry, out);
    }
    let is_whole = value.get("object").is_some_and(|object| object.is("chat.completion"));
    if is_whole && choices.is_none_or(|choices| choices.items().next().is_none()) {
        out.events.push(Event::End { choice: None });
    }
}

fn error(out: &mut Translated<'_>) {
    let reason = CutReason::Failed;
    out.events.push(Event::Error { reason });
}

fn choice<'r>(choice: Value<'r>, out: &mut Translated<'r>) {
    let Some(index) = index(choice).map(Option::unwrap_or_default) else {
        return unclear(choice, out);
    };
    if misspelt(choice, &["delta", "error", "finish_reason", "message"]) {
        return unclear(choice, out);
    }
    let whole = match (member(choice, "delta"), member(choice, "message")) {
        (Some(_), Some(message)) if message.kind() != Kind::Object || holds_calls(message) => {
            return unclear(choice, out);
        }
        (Some(delta), _) => {
            said(delta, index, false, out);
            false
        }
        (None, Some(message)) => {
            said(message, index, true, out);
            true
        }
        (None, None) => false,
    };
    let finished = match member(choice, "finish_reason") {
        Some(reason) if reason.kind() != Kind::String => return unclear(reason, out),
        Some(reason) => fate(&reason.str().unwrap_or_default()),
        None => None,
    };
    let failed = member(choice, "error").map(|_| Fate::Cut(CutReason::Failed));
    if let Some(fate) = failed.or(finished) {
        stop(index, fate, out);
    }
    if whole || failed.or(finished).is_some() {
        out.events.push(Event::End { choice: Some(index) });
    }
}

/// Whether a message that is said beside its last piece has more than text.
fn holds_calls(message: Value<'_>) -> bool {
    const KNOWN: [&str; 2] = ["function_call", "tool_calls"];
    misspelt(message, &KNOWN) || KNOWN.iter().any(|name| member(message, name).is_some())
}

/// What a choice's ending means; `None` where the word is empty.
fn fate(reason: &str) -> Option<Fate> {
    Some(match reason {
        "" => return None,
        "stop" | "tool_calls" | "function_call" => Fate::Final,
        "length" => Fate::Cut(CutReason::MaxTokens),
        "content_filter" => Fate::Cut(CutReason::ContentFilter),
        "error" => Fate::Cut(CutReason::Failed),
        _ => Fate::Cut(CutReason::EndedOtherwise),
    })
}

fn stop(choice: u32, fate: Fate, out: &mut Translated<'_>) {
    out.events.push(Event::Stop(Stop { client: fate, provider: fate, choice: Some(choice) }));
}

/// What the model said: a piece of it, or the whole message.
fn said<'r>(message: Value<'r>, choice: u32, whole: bool, out: &mut Translated<'r>) {
    if message.kind() != Kind::Object || misspelt(message, &["function_call", "refusal", "tool_calls"]) {
        return unclear(message, out);
    }
    let calls = member(message, "tool_calls");
    if let Some(calls) = calls.filter(|calls| calls.kind() != Kind::Array) {
        return unclear(calls, out);
    }
    for (entry, place) in calls.into_iter().flat_map(|calls| calls.items()).zip(0..) {
        let slot = match index(entry) {
            Some(_) if whole => Slot(place, choice),
            Some(Some(index)) => Slot(index, choice),
            Some(None) => Slot::arrival(choice),
            None => return unclear(entry, out),
        };
        match call(entry, slot) {
            Some(facts) => shown(facts, whole, out),
            None => return unclear(entry, out),
        }
    }
    if let Some(body) = member(message, "function_call") {
        match function(body, body, Slot(LEGACY, choice)) {
            Some(facts) => shown(facts, whole, out),
            None => return unclear(body, out),
        }
    }
    if let Some(tools) = member(message, "executed_tools") {
        opaque(tools, "item", out);
    }
    match member(message, "refusal") {
        Some(refusal) if refusal.kind() != Kind::String => unclear(refusal, out),
        Some(_) if named(message, "refusal").is_some() => stop(choice, Fate::Cut(CutReason::Refused), out),
        _ => {}
    }
}

/// A call of a whole message, or a piece of one: an id or a name opens or describes it, text adds to it, an
/// object is its whole value.
fn shown<'r>(facts: CallFacts<'r>, whole: bool, out: &mut Translated<'r>) {
    let status = ItemStatus::Complete;
    if whole {
        return out.events.push(Event::Item { call: facts, status, listed: false });
    }
    let slot = facts.slot;
    if facts.id.is_some() || !matches!(facts.name, Name::None) {
        out.events.push(Event::Open(CallFacts { args: Args::Absent, ..facts }));
    }
    match facts.args {
        Args::Text(text) => out.events.push(Event::Append { slot, part: 0, text }),
        args @ Args::Raw(_) => out.events.push(Event::Restate { slot, args }),
        Args::Absent => {}
    }
}

/// A call, or a piece of one; `None` where it cannot be read in one way only.
fn call(entry: Value<'_>, slot: Slot) -> Option<CallFacts<'_>> {
    if misspelt(entry, &["custom", "function", "id", "index"]) {
        return None;
    }
    let kind = type_of(entry);
    match (member(entry, "function"), member(entry, "custom")) {
        (Some(body), None) if kind != "custom" => function(entry, body, slot),
        (None, Some(body)) if kind != "function" => facts(entry, body, ("input", Form::FreeText), slot),
        // Its members may come later, but not stand in the wrong place.
        (None, None) if ["arguments", "input", "name"].iter().all(|name| member(entry, name).is_none()) => {
            let form = if kind == "custom" { Form::FreeText } else { Form::JsonText };
            facts(entry, entry, ("arguments", form), slot)
        }
        _ => None,
    }
}

fn function<'r>(entry: Value<'r>, body: Value<'r>, slot: Slot) -> Option<CallFacts<'r>> {
    facts(entry, body, ("arguments", Form::JsonText), slot)
}

/// `text`: the member that holds the arguments, and what they are.
fn facts<'r>(entry: Value<'r>, body: Value<'r>, text: (&str, Form), slot: Slot) -> Option<CallFacts<'r>> {
    let is_text = |holder, name| member(holder, name).is_none_or(|value| value.kind() == Kind::String);
    let legacy = slot.0 == LEGACY;
    let readable = body.kind() == Kind::Object && !misspelt(body, &["name", text.0]);
    if !readable || !is_text(body, "name") || !legacy && !is_text(entry, "id") {
        return None;
    }
    Some(CallFacts {
        slot,
        id: named(entry, "id").filter(|_| !legacy),
        item_id: None,
        name: named(body, "name").map_or(Name::None, Name::Wire),
        namespace: None,
        server: None,
        executor: Executor::Client,
        form: text.1,
        args: match (string(body, text.0), member(body, text.0)) {
            (Some(text), _) => Args::Text(text),
            (None, Some(value)) => Args::Raw(value),
            (None, None) => Args::Absent,
        },
        item: entry,
    })
}

/// The index of a choice or call, if it has one; `None` where it is none.
fn index(entry: Value<'_>) -> Option<Option<u32>> {
    match member(entry, "index") {
        _ if entry.kind() != Kind::Object => None,
        None => Some(None),
        Some(index) => index.u64().and_then(|at| u32::try_from(at).ok()).filter(|at| *at < LEGACY).map(Some),
    }
}

/// Whether an object has a member that is one of these but for its case or punctuation.
fn misspelt(object: Value<'_>, known: &[&str]) -> bool {
    let strange = |name: Value<'_>| !known.iter().any(|known| name.is(known));
    object.members().any(|(name, _)| strange(name) && name.str().is_none_or(|name| resembles(&name, known)))
}
