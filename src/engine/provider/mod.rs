//! Translate: provider wire shapes become events of the one vocabulary. Stateless.
//!
//! The providers are a closed set: an enum and one `match`. Each file documents *wire shapes read*, *how a
//! call is addressed*, *what ends a call* and *oddities*.
//!
//! Framing is the same for all of them and lives here: a chunk is one event, an array of them, or raw
//! server-sent events; a provider file sees one JSON value at a time. A text that begins like JSON is JSON
//! whatever its content type says, because no server-sent event can begin so. Nothing is dropped without a
//! trace: text that is neither gives `undecodable`, a value that means nothing gives `Opaque` with a kind
//! from a closed list.
//!
//! A response record and a chunk go through the same function per value, so that a whole body sent as a
//! chunk, or a stream sent as a response, is judged too.

pub mod anthropic;
mod detect;
pub mod fields;
pub mod host;
pub mod openai;
mod skeleton;
pub mod sse;

pub use detect::{detect, detect_provider};

use super::envelope::content::event_stream;
use super::envelope::{Envelope, EventType};
pub use super::event::Provider;
use super::event::{CutReason, Event};
use super::json::{self, JsonError, JsonErrorKind, JsonLimits, Kind, Value};
use super::layer::Layer;
use bumpalo::Bump;
use bumpalo::collections::Vec as BumpVec;
use std::borrow::Cow;

/// What translating one record gave.
#[derive(Debug)]
pub struct Translated<'r> {
    /// In the step's arena: a fragment of a stream costs no allocation here.
    pub events: BumpVec<'r, Event<'r>>,
    /// The data, or one event of the stream in it, is not JSON: the first error and its layer. Events before
    /// it stand; the response's open calls are cut.
    pub undecodable: Option<(&'r Layer<'r>, JsonError)>,
    /// A member of the wire structure that stands twice: parsers would read two different messages. Values from
    /// there on are not read.
    pub ambiguous: Option<Value<'r>>,
    /// The payload's own response id, when it names one.
    pub response_id: Option<Value<'r>>,
    /// The provider's own conversation or session id, when it names one.
    pub conversation: Option<Value<'r>>,
}

impl<'r> Translated<'r> {
    /// Nothing yet.
    pub fn new(bump: &'r Bump) -> Self {
        Self {
            events: BumpVec::new_in(bump),
            undecodable: None,
            ambiguous: None,
            response_id: None,
            conversation: None,
        }
    }
}

/// Translates a record's data. Chunks may be one event, an array of them, or raw `text/event-stream`
/// (told by the text not beginning like JSON). A provider that this build does not read gives no events.
pub fn translate<'r>(
    bump: &'r Bump,
    envelope: &Envelope<'r>,
    provider: Provider,
    limits: JsonLimits,
) -> Translated<'r> {
    let mut out = Translated::new(bump);
    match (envelope.kind, envelope.data) {
        (EventType::ModelClosed, _) => out.events.push(Event::Closed),
        (EventType::ModelRequest, Some(data)) if provider.supported() => match json::parse(bump, data, limits) {
            Ok(body) => request(provider, body, envelope.history_from, &mut out),
            Err(error) => out.undecodable = Some((data, error)),
        },
        (EventType::ModelResponse | EventType::ModelChunk, Some(data)) if provider.supported() => {
            let mut each = |value| response(provider, value, &mut out);
            let undecodable = for_each_event(bump, data, envelope.content_type, limits, &mut each);
            out.undecodable = undecodable;
            if envelope.http_status.is_some_and(|status| status >= 400) {
                failed(&mut out);
            }
        }
        (EventType::ToolStarted | EventType::ToolResult, Some(data)) => match json::parse(bump, data, limits) {
            // What a tool returned is content at any depth.
            Ok(body) if is_clear(body, &["content"], &mut out) => host::event(envelope.kind, body, &mut out),
            Ok(_) => {}
            Err(error) => out.undecodable = Some((data, error)),
        },
        _ => {}
    }
    out
}

/// The host says that this is an error body: whatever it is, nothing of it may be acted on. A proxy's error
/// page need not be JSON.
fn failed(out: &mut Translated<'_>) {
    out.undecodable = None;
    out.events.retain(|event| !matches!(event, Event::Opaque { .. }));
    let told = |event: &Event<'_>| matches!(event, Event::Error { .. });
    if !out.events.iter().any(told) {
        let reason = CutReason::Failed;
        out.events.push(Event::Error { reason });
    }
}

/// Whether the value's wire structure can be read in one way only; if not, it is said and nothing is read on.
fn is_clear<'r>(value: Value<'r>, content: &[&str], out: &mut Translated<'r>) -> bool {
    if out.ambiguous.is_none() {
        out.ambiguous = skeleton::ambiguous(value, content);
    }
    out.ambiguous.is_none()
}

fn request<'r>(provider: Provider, body: Value<'r>, history_from: Option<u64>, out: &mut Translated<'r>) {
    if !is_clear(body, &[], out) {
        return;
    }
    let elsewhere = history_from.is_some_and(|from| from > 0);
    match provider {
        Provider::AnthropicMessages => anthropic::request(body, elsewhere, out),
        Provider::OpenAiResponses => openai::request::request(body, elsewhere, out),
        _ => {}
    }
}

/// One value of a response: a stream's event, or a whole body.
fn response<'r>(provider: Provider, value: Value<'r>, out: &mut Translated<'r>) {
    if !is_clear(value, &[], out) {
        return;
    }
    match provider {
        Provider::AnthropicMessages => anthropic::response(value, out),
        Provider::OpenAiResponses => openai::responses::response(value, out),
        _ => {}
    }
}

/// Calls `each` for every event in the data, in order, until one cannot be decoded.
fn for_each_event<'r>(
    bump: &'r Bump,
    data: &'r Layer<'r>,
    content_type: Option<&str>,
    limits: JsonLimits,
    each: &mut dyn FnMut(Value<'r>),
) -> Option<(&'r Layer<'r>, JsonError)> {
    let start = data.bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if start.is_none() || done_marker(data.bytes) {
        return None;
    }
    if matches!(start, Some(b'{' | b'[' | b'"')) {
        return match json::parse(bump, data, limits) {
            Ok(value) => {
                deliver(value, each);
                None
            }
            Err(error) => Some((data, error)),
        };
    }
    let mut any = false;
    for event in sse::events(bump, data) {
        any = true;
        if done_marker(event.data.bytes) || event.data.bytes.trim_ascii().is_empty() {
            continue;
        }
        match json::parse(bump, event.data, limits) {
            Ok(value) => deliver(value, each),
            Err(error) => return Some((event.data, error)),
        }
    }
    let kind = JsonErrorKind::Syntax;
    (!any && !event_stream(content_type) && !only_fields(data.bytes)).then_some((data, JsonError { at: 0, kind }))
}

fn deliver<'r>(value: Value<'r>, each: &mut dyn FnMut(Value<'r>)) {
    let event = |value: &Value<'r>| !value.is("[DONE]");
    match value.kind() {
        Kind::Array => value.items().filter(event).for_each(each),
        _ => Some(value).filter(event).into_iter().for_each(each),
    }
}

fn done_marker(bytes: &[u8]) -> bool {
    bytes.trim_ascii() == b"[DONE]"
}

/// A stream's text without data: comments, `event:` or `retry:` lines. Anything else (an error page) is not one.
fn only_fields(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    bytes.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.trim_ascii().is_empty()).all(|line| {
        let fields: [&[u8]; 5] = [b":", b"event:", b"id:", b"retry:", b"data"];
        fields.iter().any(|field| line.starts_with(field))
    })
}

// What provider files share.

/// A member that is there and not null.
pub(crate) fn member<'r>(value: Value<'r>, name: &str) -> Option<Value<'r>> {
    value.get(name).filter(|member| !member.is_null())
}

/// A member that is a string and not empty: ids and names count only then.
pub(crate) fn named<'r>(value: Value<'r>, name: &str) -> Option<Value<'r>> {
    value.get(name).filter(|member| member.kind() == Kind::String && member.raw().len() > 2)
}

/// A member that is a string.
pub(crate) fn string<'r>(value: Value<'r>, name: &str) -> Option<Value<'r>> {
    value.get(name).filter(|member| member.kind() == Kind::String)
}

/// The value of `type`, empty where there is none. Borrows, since no known type needs an escape.
pub(crate) fn type_of(value: Value<'_>) -> Cow<'_, str> {
    value.get("type").and_then(|name| name.str()).unwrap_or_default()
}

pub(crate) fn position(value: Value<'_>, name: &str) -> Option<u32> {
    value.get(name)?.u64()?.try_into().ok()
}

pub(crate) fn opaque<'r>(value: Value<'r>, kind: &'static str, out: &mut Translated<'r>) {
    out.events.push(Event::Opaque { value, kind });
}
