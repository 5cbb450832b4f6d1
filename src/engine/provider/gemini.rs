//! Gemini `generateContent` and `streamGenerateContent`, as AI Studio and Vertex speak it.
//!
//! # Wire shapes read
//! Chunks and whole bodies, which are the same object: `candidates[]` with `content.parts[]`, `finishReason`,
//! `groundingMetadata` and `urlContextMetadata`; `promptFeedback`; `error`. Parts (`parts.rs`, `results.rs`): all
//! calls, code, media, and what Google ran. Requests (`request.rs`): `contents`, `systemInstruction`, `tools`. Every
//! name in camel case or in snake case. A body may be an array of chunks. Live is read by `live.rs`.
//!
//! # How a call is addressed
//! By nothing: calls have no position, and a part's index repeats in every chunk. They are numbered by their
//! arrival in their candidate, `Slot::arrival(index)`. `id` is an attribute that most calls lack.
//!
//! # What ends a call
//! A whole `functionCall` part is closed. Streamed arguments are closed by the part without `willContinue`.
//! The candidate's `finishReason` ends all of its calls: `STOP` well, everything else cuts them, also a call
//! that could be parsed (`UNEXPECTED_TOOL_CALL`). Code that Gemini runs is closed by what comes behind it.
//!
//! # Oddities
//! - `args` may be missing: no arguments.
//! - Streamed arguments: `{name, willContinue}` opens, `partialArgs` add leaves, `{willContinue}` alone is a
//!   sign of life, `{}` closes; the last leaves may close too. A piece names no call, and none that does is read.
//! - `executableCode` may come in pieces, each a part of its own.
//! - A candidate may go on behind its `STOP` (several rounds of code execution).
//! - A part may have a side field and no payload; a payload written twice, or two of them, is not clear.
//! - `promptFeedback.blockReason` ends everything: there are no candidates then.
//! - `citationMetadata` and `groundingSupports` repeat the model's own text and are not read.

pub(super) mod live;
mod parts;
mod request;
mod results;

pub(super) use request::request;
pub(super) use results::function_response;

use super::{Translated, opaque, position, resembles, unclear};
use crate::engine::event::{CutReason, Event, Fate, Stop, gemini_generation};
use crate::engine::json::{Kind, Value};

/// Members whose objects are content: what a tool or a schema's author wrote may repeat names.
pub(super) const CONTENT: [&str; 10] = [
    "labels",
    "parametersJsonSchema",
    "parameters_json_schema",
    "response",
    "responseJsonSchema",
    "responseSchema",
    "response_json_schema",
    "response_schema",
    "customMetadata",
    "custom_metadata",
];

/// Members of a chunk, without those that bring something.
const QUIET: [&str; 6] = ["createTime", "modelStatus", "modelVersion", "promptFeedback", "responseId", "usageMetadata"];
const LOUD: [&str; 2] = ["candidates", "error"];

/// Whether `name` is this one, in camel case as given, or in snake case.
fn is_spelt(name: &[u8], camel: &str) -> bool {
    // Asked of every member of every chunk: most are told by a look.
    if name == camel.as_bytes() {
        return true;
    }
    if name.first() != camel.as_bytes().first() || !name.contains(&b'_') {
        return false;
    }
    let snake = camel.bytes().flat_map(|byte| {
        let upper = byte.is_ascii_uppercase();
        [upper.then_some(b'_'), Some(byte.to_ascii_lowercase())].into_iter().flatten()
    });
    snake.eq(name.iter().copied())
}

fn spells(name: Value<'_>, camel: &str) -> bool {
    // Snake case has an underscore; anything else has an escape.
    let other = |byte: &u8| matches!(byte, b'_' | b'\\');
    name.is(camel) || name.raw().iter().any(other) && name.text().is_some_and(|name| is_spelt(&name, camel))
}

/// Whether an object has a member that is one of these but for its case or punctuation.
fn misspelt(object: Value<'_>, known: &[&str]) -> bool {
    object.members().any(|(name, _)| {
        let name = name.text().unwrap_or_default();
        !known.iter().any(|known| is_spelt(&name, known)) && resembles(&String::from_utf8_lossy(&name), known)
    })
}

/// A member that is there and not null, in either spelling. In both, it could be read in two ways.
fn field<'r>(value: Value<'r>, camel: &str, out: &mut Translated<'r>) -> Option<Value<'r>> {
    let mut found = None;
    for (name, member) in value.members().filter(|(_, member)| !member.is_null()) {
        if spells(name, camel) && found.replace(member).is_some() {
            unclear(value, out);
        }
    }
    found
}

/// A member that is a list. A single object stands for a list of one.
fn list<'r>(value: Value<'r>, camel: &str, out: &mut Translated<'r>) -> impl Iterator<Item = Value<'r>> + use<'r> {
    let found = field(value, camel, out);
    let whole = found.filter(|list| list.kind() != Kind::Array);
    if let Some(other) = whole.filter(|one| one.kind() != Kind::Object) {
        unclear(other, out);
    }
    let items = found.filter(|list| list.kind() == Kind::Array).into_iter().flat_map(|list| list.items());
    items.chain(whole.filter(|one| one.kind() == Kind::Object))
}

/// A chunk of a stream, or a whole body.
pub(super) fn response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    let id = field(value, "responseId", out).filter(|id| id.kind() == Kind::String && id.raw().len() > 2);
    if id.is_some() {
        out.response_id = id;
    }
    if field(value, "error", out).is_some() {
        return error(CutReason::Failed, out);
    }
    let blocked = field(value, "promptFeedback", out).and_then(|feedback| field(feedback, "blockReason", out));
    let candidates = field(value, "candidates", out);
    if blocked.is_none() && candidates.is_none() {
        return other(value, &QUIET, &LOUD, out);
    }
    let before = out.events.len();
    out.events.push(Event::Begin { id, again: false });
    if blocked.is_some() {
        return error(CutReason::ContentFilter, out);
    }
    match candidates.filter(|candidates| candidates.kind() == Kind::Array) {
        Some(candidates) => candidates.items().for_each(|candidate| self::candidate(candidate, out)),
        None => unclear(value, out),
    }
    if field(value, "modelVersion", out).and_then(gemini_generation).is_some_and(|major| major < 3) {
        for event in out.events.iter_mut().skip(before) {
            if let Event::Signed { required, .. } = event {
                *required = false;
            }
        }
    }
}

fn error(reason: CutReason, out: &mut Translated<'_>) {
    out.events.push(Event::Error { reason });
}

/// A message that brings nothing: known, or strange.
fn other<'r>(value: Value<'r>, quiet: &[&str], loud: &[&str], out: &mut Translated<'r>) {
    let mut known = false;
    for (name, _) in value.members() {
        let name = name.str().unwrap_or_default();
        known |= quiet.iter().any(|quiet| is_spelt(name.as_bytes(), quiet));
        if !loud.iter().any(|loud| is_spelt(name.as_bytes(), loud)) && resembles(&name, loud) {
            return unclear(value, out);
        }
    }
    if !known {
        opaque(value, "event", out);
    }
}

fn candidate<'r>(candidate: Value<'r>, out: &mut Translated<'r>) {
    let index = match candidate.get("index").filter(|index| !index.is_null()) {
        None => Some(0),
        Some(_) => position(candidate, "index"),
    };
    let (Some(index), Kind::Object) = (index, candidate.kind()) else {
        return unclear(candidate, out);
    };
    if misspelt(candidate, &["content", "finishReason", "index"]) {
        return unclear(candidate, out);
    }
    if let Some(content) = field(candidate, "content", out) {
        match content.kind() {
            Kind::Object => parts::of_content(content, index, out),
            _ => unclear(content, out),
        }
    }
    results::grounding(candidate, out);
    results::fetched(candidate, out);
    let Some(reason) = field(candidate, "finishReason", out) else { return };
    if reason.kind() != Kind::String {
        return unclear(reason, out);
    }
    let fate = fate(&reason.str().unwrap_or_default());
    let choice = Some(index);
    out.events.push(Event::Stop(Stop { client: fate, provider: fate, choice }));
    out.events.push(Event::End { choice });
}

/// What a `finishReason` lets its calls become (only `STOP` ends well).
fn fate(reason: &str) -> Fate {
    Fate::Cut(match reason {
        "STOP" => return Fate::Final,
        "MAX_TOKENS" => CutReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => CutReason::ContentFilter,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE" => CutReason::Failed,
        _ => CutReason::EndedOtherwise,
    })
}
