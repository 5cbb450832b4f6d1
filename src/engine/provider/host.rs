//! Host events: what the program that runs the agent says itself.
//!
//! # Wire shapes read
//! `io.sluicegate.tool.started.v1`: `{"call_id","tool"?,"idempotency_key"?,"arguments_sha256"?}`.
//! `io.sluicegate.tool.result.v1`: `{"call_id","tool"?,"outcome":"ok"|"error","source"?,"url"?,"fetched_at"?,
//! "content": any JSON}`; the attribute `display` says how people will see it.
//! `io.sluicegate.render.v1`: `{"format":"html"|"markdown"|"text"|"terminal","content": string, "call_id"?}`; where
//! `format` is missing, the attribute `display` stands for it.
//!
//! # How a call is addressed
//! By `call_id`. Where the data has none, the engine takes the attribute `callid`.
//!
//! # What ends a call
//! Nothing here: a host cannot make a call final.
//!
//! # Oddities
//! `content` is a string that the model will read as text, or any other JSON that it will read as it stands.
//! An `outcome` other than `ok` and `error` says nothing. Other members are not looked into, and listed where they
//! hold more than a word. What is shown in a way that is none of the four, or is no string, is not judged: it is
//! blocked as undecodable.

use super::{Translated, member, named, opaque, unclear};
use crate::engine::envelope::{Envelope, EventType};
use crate::engine::event::{Event, Failure, Format, Name, Part, Rendered, ResultItem, ResultShape, Started};
use crate::engine::json::{Kind, Value};

/// What a result's data holds.
const MEMBERS: [&str; 7] = ["call_id", "content", "fetched_at", "outcome", "source", "tool", "url"];
/// The longest value of another member that is a mark and no text, bytes.
const WORD_BYTES: usize = 128;

pub(super) fn event<'r>(envelope: &Envelope<'r>, body: Value<'r>, out: &mut Translated<'r>) {
    if body.kind() != Kind::Object {
        return opaque(body, "event", out);
    }
    let display = envelope.display.map(Format::from_name);
    let event = match envelope.kind {
        EventType::ToolStarted => Some(Event::Started(started(body))),
        EventType::Render => rendered(body, display.flatten()).map(Event::Rendered),
        // Shown, and nobody knows how.
        _ if display == Some(None) => None,
        _ => Some(Event::HostResult(ResultItem { display: display.flatten(), ..result(body) })),
    };
    match event {
        Some(event) => out.events.push(event),
        None => unclear(body, out),
    }
}

/// The data of a `render`, `None` if it does not say what is shown, and how.
fn rendered(body: Value<'_>, display: Option<Format>) -> Option<Rendered<'_>> {
    let format = match member(body, "format") {
        Some(format) => Format::from_name(&format.str()?),
        None => display,
    };
    let content = body.get("content").filter(|content| content.kind() == Kind::String)?;
    Some(Rendered { format: format?, content, call_id: named(body, "call_id") })
}

/// The data of a `tool.started`.
pub fn started(body: Value<'_>) -> Started<'_> {
    Started {
        call_id: named(body, "call_id"),
        tool: named(body, "tool"),
        idempotency_key: named(body, "idempotency_key"),
        arguments_sha256: named(body, "arguments_sha256"),
        item: body,
    }
}

pub(super) fn result(body: Value<'_>) -> ResultItem<'_> {
    let content = body.get("content");
    let read = content.filter(|content| !content.is_null()).map(|content| match content.kind() {
        Kind::String => Part::Text(content),
        _ => Part::Json(content),
    });
    // More than a word, in a place that nobody looks into.
    let strange = |name: Value<'_>, value: Value<'_>| {
        !MEMBERS.iter().any(|known| name.is(known)) && value.span().len() > WORD_BYTES
    };
    let beside = body.members().filter(|(name, value)| strange(*name, *value));
    let beside = beside.map(|(_, value)| Part::Opaque { value, kind: "member" });
    let outcome = body.get("outcome");
    let says = |word| outcome.is_some_and(|outcome| outcome.is(word));
    ResultItem {
        content,
        parts: read.into_iter().chain(beside).collect(),
        call_id: named(body, "call_id"),
        tool: named(body, "tool").map_or(Name::None, Name::Wire),
        failure: match (says("ok"), says("error")) {
            (true, _) => Failure::Ok,
            (_, true) => Failure::Failed,
            _ => Failure::Unsaid,
        },
        failure_value: outcome,
        source: member(body, "source"),
        url: member(body, "url"),
        fetched_at: member(body, "fetched_at"),
        ..ResultItem::new(ResultShape::Host, body)
    }
}
