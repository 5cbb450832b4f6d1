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
pub mod gemini;
pub mod host;
pub mod mcp;
pub mod openai;
mod skeleton;
pub mod sse;
pub mod xai;

pub use detect::{detect, detect_provider};

use super::envelope::{Envelope, EventType};
pub use super::event::Provider;
use super::event::{CutReason, Event, ResultItem, ResultShape, Slot};
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
    /// A value of the wire structure that cannot be read in one way only, and the engine's rule that says why:
    /// a member that stands twice, or a known event with members that are none of its own. Nothing of its
    /// event stands but a beginning, and events from there on are not read.
    pub unclear: Option<(Value<'r>, &'static str)>,
    /// Server-sent events: the beginning of one whose rest is still to come.
    pub rest: &'r [u8],
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
            unclear: None,
            rest: &[],
            response_id: None,
            conversation: None,
        }
    }
}

/// Translates a record's data. Chunks may be one event, an array of them, or raw `text/event-stream`
/// (told by the text not beginning like JSON). `beginning`: the `rest` of the response's last record.
pub fn translate<'r>(
    bump: &'r Bump,
    envelope: &Envelope<'r>,
    provider: Provider,
    beginning: &[u8],
    limits: JsonLimits,
) -> Translated<'r> {
    let mut out = Translated::new(bump);
    match (envelope.kind, envelope.data) {
        (EventType::ModelClosed, _) => out.events.push(Event::Closed),
        (EventType::ModelRequest, Some(data)) => match json::parse(bump, data, limits) {
            Ok(body) => request(provider, body, envelope.history_from, &mut out),
            Err(error) => out.undecodable = Some((data, error)),
        },
        (EventType::ModelResponse | EventType::ModelChunk, Some(data)) => {
            let mut rest: &'r [u8] = &[];
            let mut each = |value| response(provider, value, &mut out);
            let undecodable = match joined(bump, beginning, data, is_stream(envelope), limits) {
                Joined::Whole(data) => for_each_event(bump, data, limits, Some(&mut rest), &mut each),
                // What was begun never went on.
                Joined::Lost => Some((data, syntax(0))),
            };
            out.undecodable = undecodable;
            if envelope.kind == EventType::ModelChunk {
                out.rest = rest;
            } else if !rest.is_empty() {
                out.undecodable = out.undecodable.or(Some((data, syntax(data.bytes.len() as u32))));
            }
            if envelope.http_status.is_some_and(|status| status >= 400) {
                failed(&mut out);
            }
        }
        (EventType::McpMessage, Some(data)) => {
            let sender = mcp::direction(envelope);
            let undecodable =
                for_each_event(bump, data, limits, None, &mut |value| mcp::message(value, sender, &mut out));
            out.undecodable = undecodable;
        }
        (EventType::ToolStarted | EventType::ToolResult | EventType::Render, Some(data)) => {
            match json::parse(bump, data, limits) {
                // What a tool returned is content at any depth.
                Ok(body) if is_clear(body, &["content"], &mut out) => host::event(envelope, body, &mut out),
                Ok(_) => {}
                Err(error) => out.undecodable = Some((data, error)),
            }
        }
        _ => {}
    }
    out
}

/// The host says that this is an error body: whatever it is, nothing of it may be acted on, however much it
/// looks like an answer. A proxy's error page need not be JSON.
fn failed(out: &mut Translated<'_>) {
    let reason = CutReason::Failed;
    (out.undecodable, out.unclear) = (None, None);
    out.events.clear();
    out.events.push(Event::Error { reason });
}

/// Whether the value's wire structure can be read in one way only; if not, it is said and nothing is read on.
fn is_clear<'r>(value: Value<'r>, content: &[&str], out: &mut Translated<'r>) -> bool {
    if out.unclear.is_none() {
        out.unclear = skeleton::ambiguous(value, content).map(|value| (value, "ambiguous_members"));
    }
    out.unclear.is_none()
}

/// Members of this provider's wire whose objects are content, beside those of all.
fn content_of(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::GeminiGenerateContent | Provider::GeminiLive => &gemini::CONTENT,
        _ => &[],
    }
}

fn request<'r>(provider: Provider, body: Value<'r>, history_from: Option<u64>, out: &mut Translated<'r>) {
    if !is_clear(body, content_of(provider), out) {
        return;
    }
    let elsewhere = history_from.is_some_and(|from| from > 0);
    match provider {
        Provider::AnthropicMessages => anthropic::request(body, elsewhere, out),
        Provider::OpenAiResponses => openai::request::request(body, elsewhere, out),
        Provider::OpenAiChat => openai::chat::request(body, elsewhere, out),
        Provider::XaiResponses => xai::responses_request(body, elsewhere, out),
        Provider::XaiChat => xai::chat_request(body, elsewhere, out),
        Provider::GeminiGenerateContent => gemini::request(body, elsewhere, out),
        Provider::GeminiLive => gemini::live::request(body, elsewhere, out),
        Provider::Mcp => opaque(body, "event", out),
    }
}

/// One value of a response: a stream's event, or a whole body.
fn response<'r>(provider: Provider, value: Value<'r>, out: &mut Translated<'r>) {
    if !is_clear(value, content_of(provider), out) {
        return;
    }
    let before = out.events.len();
    match (provider, value.kind()) {
        (_, Kind::Object) => {}
        _ => return unclear(value, out),
    }
    match provider {
        Provider::AnthropicMessages => anthropic::response(value, out),
        Provider::OpenAiResponses => openai::responses::response(value, out),
        Provider::OpenAiChat => openai::chat::response(value, out),
        Provider::XaiResponses => xai::responses_response(value, out),
        Provider::XaiChat => xai::chat_response(value, out),
        Provider::GeminiGenerateContent => gemini::response(value, out),
        Provider::GeminiLive => gemini::live::response(value, out),
        Provider::Mcp => opaque(value, "event", out),
    }
    if out.unclear.is_some() {
        let begins = matches!(out.events.get(before), Some(Event::Begin { .. }));
        out.events.truncate(before + usize::from(begins));
    }
}

/// A record's data behind the beginning that an earlier one left.
enum Joined<'r> {
    Whole(&'r Layer<'r>),
    Lost,
}

/// Whether the record says that it is a part of a raw stream.
fn is_stream(envelope: &Envelope<'_>) -> bool {
    const STREAM: &str = "text/event-stream";
    let media =
        |text: &str| text.trim_ascii_start().get(..STREAM.len()).is_some_and(|m| m.eq_ignore_ascii_case(STREAM));
    envelope.content_type.is_some_and(media)
}

fn joined<'r>(
    bump: &'r Bump,
    beginning: &[u8],
    data: &'r Layer<'r>,
    is_stream: bool,
    limits: JsonLimits,
) -> Joined<'r> {
    if beginning.is_empty() {
        return Joined::Whole(data);
    }
    // Somebody who publishes JSON does not go on with a stream's bytes.
    let like_json = data.bytes.trim_ascii_start().starts_with(b"{");
    if !is_stream && like_json && json::parse(bump, data, limits).is_ok() {
        return if sse::is_idle(beginning) { Joined::Whole(data) } else { Joined::Lost };
    }
    let mut text = BumpVec::with_capacity_in(beginning.len() + data.bytes.len(), bump);
    text.extend_from_slice_copy(beginning);
    if sse::begins_anew(beginning, data.bytes) {
        text.push(b'\n');
    }
    text.extend_from_slice_copy(data.bytes);
    Joined::Whole(Layer::record(bump, text.into_bump_slice()))
}

/// Calls `each` for every event in the data, in order, until one cannot be decoded. `rest` takes the beginning
/// of a server-sent event whose end is not there; without it, that is undecodable.
fn for_each_event<'r>(
    bump: &'r Bump,
    data: &'r Layer<'r>,
    limits: JsonLimits,
    rest: Option<&mut &'r [u8]>,
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
    let bytes: &'r [u8] = data.bytes;
    let start = sse::unfinished(bytes);
    let mut open = rest.filter(|_| start < bytes.len() && sse::may_go_on(&bytes[start..]));
    let mut any = false;
    for event in sse::events(bump, data) {
        any = true;
        let marker = done_marker(event.data.bytes);
        if !marker && !event.data.bytes.trim_ascii().is_empty() {
            match json::parse(bump, event.data, limits) {
                Ok(value) if says_otherwise(&event, value) => return Some((event.data, syntax(0))),
                Ok(value) => deliver(value, each),
                Err(_) if !event.ended && open.is_some() => continue,
                Err(error) => return Some((event.data, error)),
            }
        } else if !marker {
            continue;
        }
        if !event.ended {
            open = None;
        }
    }
    // An event that is whole but for its blank line was delivered.
    let known = match open {
        Some(rest) => {
            *rest = &bytes[start..];
            &bytes[..start]
        }
        None => bytes,
    };
    sse::torn(known, any).map(|at| (data, syntax(at)))
}

/// Bytes of an event up to which every read is tried: hosts that part a stream at blank lines drop them.
const TRIED: usize = 16 << 10;

/// Whether a record of a raw stream is no more than a further piece of the event that is kept, so that there is
/// nothing to read in it yet: the event is long, and no blank line ends it here. `last`: its last byte so far.
pub fn goes_on(envelope: &Envelope<'_>, kept: usize, last: Option<u8>) -> bool {
    let Some(data) = envelope.data.filter(|_| envelope.kind == EventType::ModelChunk && is_stream(envelope)) else {
        return false;
    };
    let bytes = data.bytes;
    let is_end = |byte: u8| matches!(byte, b'\r' | b'\n');
    let split = last == Some(b'\r') && bytes.first() == Some(&b'\n');
    let at_start = last.is_some_and(is_end) && bytes.first().is_some_and(|byte| is_end(*byte)) && !split;
    let second = split && bytes.get(1).is_some_and(|byte| is_end(*byte));
    let blank = |pair: &[u8]| matches!(pair, b"\n\n" | b"\r\r" | b"\n\r");
    kept + bytes.len() > TRIED && !at_start && !second && !bytes.windows(2).any(blank)
}

/// The beginning of an event for which there was no room.
pub fn unkept<'r>(bump: &'r Bump) -> (&'r Layer<'r>, JsonError) {
    (Layer::record(bump, &[]), syntax(0))
}

fn syntax(at: u32) -> JsonError {
    JsonError { at, kind: JsonErrorKind::Syntax }
}

/// Whether the stream calls the event something else than its data does: clients go by one or by the other.
/// `message` is what an event without a name is called.
fn says_otherwise(event: &sse::SseEvent<'_>, value: Value<'_>) -> bool {
    let Some(name) = event.event_name.filter(|name| *name != b"message") else { return false };
    let kind = value.get("type").filter(|kind| kind.kind() == Kind::String);
    kind.and_then(|kind| kind.text()).is_some_and(|kind| *kind != *name)
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

/// The slot that an event names by its wire position, whatever else it is.
pub(super) fn place_of(value: Value<'_>) -> Option<Slot> {
    ["index", "output_index"].into_iter().find_map(|name| position(value, name)).map(|at| Slot(at, 0))
}

/// A result that stands for itself, read as its shape is: a copy's, to know what it says. `None` for shapes that
/// only mean something where they stand.
pub fn reread<'r>(bump: &'r Bump, shape: ResultShape, item: Value<'r>) -> Option<ResultItem<'r>> {
    match shape {
        ResultShape::AnthropicToolResult => Some(anthropic::tool_result(item)),
        ResultShape::ResponsesOutput | ResultShape::PlainOutput | ResultShape::ShellOutput => {
            openai::request::result(item)
        }
        ResultShape::ChatTool => Some(openai::chat::result(item)),
        ResultShape::GeminiResponse => Some(gemini::function_response(item, &mut Translated::new(bump))),
        ResultShape::McpResult => Some(mcp::answer::of_call(item)),
        ResultShape::Host => Some(host::result(item)),
        ResultShape::TypedOutput | ResultShape::McpAnswer | ResultShape::Server => None,
    }
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

/// Known by its type and not readable as that: what it would have said is lost, so whoever waits for it
/// must not act. The first one stands.
pub(crate) fn unclear<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    out.unclear.get_or_insert((value, "undecodable"));
}

/// A member that is a position where it stands.
pub(crate) fn position_if_any(value: Value<'_>, name: &str) -> Option<u32> {
    match value.get(name) {
        None => Some(0),
        Some(_) => position(value, name),
    }
}

/// A member that is an object.
pub(crate) fn object<'r>(value: Value<'r>, name: &str) -> Option<Value<'r>> {
    value.get(name).filter(|member| member.kind() == Kind::Object)
}

/// A type is one of these but for its case, its punctuation or the white space around it. A laxer reader
/// takes it for the known one; this engine must not pass it by as an unknown one.
pub(crate) fn resembles(kind: &str, known: &[&str]) -> bool {
    /// Two letters beyond ASCII are taken for theirs by who ignores case.
    fn letters(text: &str) -> impl Iterator<Item = char> {
        text.chars().filter_map(|letter| match letter {
            '\u{17F}' => Some('s'),
            '\u{212A}' => Some('k'),
            other => other.is_ascii_alphanumeric().then_some(other.to_ascii_lowercase()),
        })
    }
    // Asked of every member of some chunks. Known names begin with an ASCII letter; two of them are folded to one.
    let first = kind.bytes().next().filter(u8::is_ascii_alphabetic).map(|byte| byte.to_ascii_lowercase());
    let may_be = |known: &str| first.is_none() || known.bytes().next().map(|b| b.to_ascii_lowercase()) == first;
    known.iter().any(|known| may_be(known) && letters(kind).eq(letters(known)))
}

/// An event whose type is none of the `known` ones: opaque, unless it is a known one misspelt or has the shape
/// of a piece of a call.
pub(crate) fn unknown_event<'r>(kind: &str, value: Value<'r>, known: &[&str], out: &mut Translated<'r>) {
    let placed = value.get("index").or_else(|| value.get("output_index")).is_some();
    let named = value.get("type").is_none_or(|name| name.kind() == Kind::String && name.str().is_some());
    match !named || placed && value.get("delta").is_some() || resembles(kind, known) {
        true => unclear(value, out),
        false => opaque(value, "event", out),
    }
}

/// An item or block whose type is none of the `known` ones. What has no type, or a known one misspelt, could be
/// a call.
pub(crate) fn unknown_item<'r>(
    kind: &str,
    value: Value<'r>,
    label: &'static str,
    known: &[&str],
    out: &mut Translated<'r>,
) {
    match kind.is_empty() || resembles(kind, known) {
        true => unclear(value, out),
        false => opaque(value, label, out),
    }
}
