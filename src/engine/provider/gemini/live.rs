//! Gemini Live (`BidiGenerateContent`), a message at a time.
//!
//! # Wire shapes read
//! The server's `toolCall`, `toolCallCancellation`, `serverContent`, `goAway` and `error`; the client's `setup`,
//! `clientContent`, `realtimeInput` and `toolResponse` (as requests). Names in camel case or in snake case. Parts,
//! contents and tools are those of `generateContent`.
//!
//! # How a call is addressed
//! By its arrival; `id` always stands there and is what cancellations and results name.
//!
//! # What ends a call
//! `toolCall` is final by itself: it is a response of its own, and its calls come whole. A later
//! `toolCallCancellation` takes a call back. Code that Gemini runs ends with its turn (`turnComplete`).
//!
//! # Oddities
//! - One connection is one exchange. Only `setup` names tools; all other messages of the client add to a
//!   history that is elsewhere.
//! - A call may get several results, all but the last with `willContinue`.
//! - `goAway` and `interrupted` cut what Gemini still runs; the client's calls were final before.
//! - Sound and its transcripts are not read.

use super::super::{Translated, opaque, unclear};
use super::request::{beside, contents, head, push};
use super::{error, field, list, other, parts, results};
use crate::engine::event::{CutReason, Event, Fate, Party, Slot, Stop, Turn};
use crate::engine::json::{Kind, Value};

/// The server's messages that bring nothing.
const QUIET: [&str; 5] =
    ["sessionResumptionUpdate", "setupComplete", "usageMetadata", "voiceActivity", "voiceActivityDetectionSignal"];
const LOUD: [&str; 5] = ["error", "goAway", "serverContent", "toolCall", "toolCallCancellation"];

pub(in crate::engine::provider) fn request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    if body.kind() != Kind::Object {
        return opaque(body, "event", out);
    }
    let setup = field(body, "setup", out);
    out.events.push(Event::RequestBegin { body, elsewhere: elsewhere || setup.is_none() });
    let mut known = setup.is_some();
    if let Some(setup) = setup {
        head(setup, out);
    }
    if let Some(content) = field(body, "clientContent", out) {
        known = true;
        contents(field(content, "turns", out), out);
    }
    if let Some(input) = field(body, "realtimeInput", out) {
        known = true;
        push(beside(input, Party::User), Turn::User(input), out);
    }
    if let Some(response) = field(body, "toolResponse", out) {
        known = true;
        for item in list(response, "functionResponses", out) {
            let result = results::function_response(item, out);
            push(beside(item, Party::User), Turn::Result(result), out);
        }
    }
    if !known {
        push(beside(body, Party::Unknown), Turn::Opaque { value: body, kind: "message" }, out);
    }
    out.events.push(Event::RequestEnd);
}

pub(in crate::engine::provider) fn response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    let loud = LOUD.map(|name| field(value, name, out));
    let [failed, leaving, content, calls, cancelled] = loud;
    if loud.iter().all(Option::is_none) {
        return other(value, &QUIET, &LOUD, out);
    }
    if let Some(calls) = calls {
        begin(out);
        for call in list(calls, "functionCalls", out) {
            parts::function_call(call, Slot::arrival(0), out);
        }
        end(Fate::Final, Fate::Carry, out);
    }
    if let Some(cancelled) = cancelled {
        match cancelled.get("ids").filter(|ids| ids.kind() == Kind::Array) {
            Some(ids) => out.events.extend(ids.items().map(|id| Event::Cancel { id })),
            None => unclear(cancelled, out),
        }
    }
    if let Some(content) = content {
        self::content(content, out);
    }
    if failed.is_some() || leaving.is_some() {
        error(CutReason::Failed, out);
    }
}

fn begin(out: &mut Translated<'_>) {
    out.events.push(Event::Begin { id: None, again: false });
}

fn end(client: Fate, provider: Fate, out: &mut Translated<'_>) {
    out.events.push(Event::Stop(Stop { client, provider, choice: None }));
    out.events.push(Event::End { choice: None });
}

fn drop_signed(from: usize, out: &mut Translated<'_>) {
    let kept: Vec<Event<'_>> =
        out.events.drain(from..).filter(|event| !matches!(event, Event::Signed { .. })).collect();
    out.events.extend(kept);
}

/// What the model says in its turn: sound and text, and what Gemini itself runs.
fn content<'r>(content: Value<'r>, out: &mut Translated<'r>) {
    if content.kind() != Kind::Object {
        return unclear(content, out);
    }
    if let Some(turn) = field(content, "modelTurn", out) {
        let before = out.events.len();
        parts::of_content(turn, 0, out);
        // Its history is kept by the connection: nothing comes back.
        drop_signed(before, out);
        // Most messages are sound, of which nothing begins.
        if out.events.len() > before {
            out.events.insert(before, Event::Begin { id: None, again: false });
        }
    }
    results::grounding(content, out);
    results::fetched(content, out);
    let says =
        |name: &str, out: &mut Translated<'r>| field(content, name, out).is_some_and(|said| said.bool() != Some(false));
    // A call that stands in a turn is no `toolCall`: nothing says that it may run.
    let client = Fate::Cut(CutReason::EndedOtherwise);
    if says("interrupted", out) {
        end(client, client, out);
    } else if says("turnComplete", out) {
        end(client, Fate::Final, out);
    }
}
