//! Decode: a Kafka record as a CloudEvent, in binary, structured or bare mode.
//!
//! First step of a record's journey. What cannot be read is a [`Reject`] value and goes to the dead-letter
//! topic; nothing here fails otherwise. The event's data is not parsed yet: it is a [`Layer`] with
//! `Step::Data` (a slice of the record, or a decoded JSON string or base64 of a structured event).
//!
//! By the CNCF Kafka protocol binding 1.0: the `content-type` header decides between structured and binary
//! mode; `ce_` header values are UTF-8 and not percent-encoded (the HTTP binding's are); header names are
//! compared without case, because brokers' clients differ. A header that stands twice with different values
//! has no meaning of its own and is refused. `null` members of a structured event count as absent, numbers
//! and booleans as their text.
//!
//! Left out: batches (`application/cloudevents-batch+json`) and Avro, which no producer of ours writes.

mod attributes;

pub use super::envelope::{Envelope, EventType, Mode};

use super::envelope::content::{json_type, media_type, readable, starts_with};
use super::json::{self, JsonErrorKind, JsonLimits, Kind, Value};
use super::layer::{Layer, LayerError, Step};
use super::provider;
use super::{Input, Limits};
use attributes::{Attributes, attribute, once, text};
use bumpalo::Bump;
use std::borrow::Cow;

/// What a structured envelope adds to the depth of its data.
const ENVELOPE_DEPTH: u32 = 2;
/// What a structured envelope may add to the nodes of its data.
const ENVELOPE_NODES: u32 = 256;
/// Longer than the longest attribute name that is read (`datacontenttype`).
const ATTRIBUTE_NAME_BYTES: usize = 16;

/// The media type of raw server-sent events.
const STREAM: &str = "text/event-stream";

/// A record that cannot be read at all: the reason label of the dead letter and of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reject {
    /// No value (a tombstone) where an event must have one.
    EmptyValue,
    /// Neither CloudEvent nor a known bare shape.
    NotAnEvent,
    /// The structured envelope or the data is not JSON.
    InvalidJson,
    TooDeep,
    TooManyNodes,
    /// A required attribute is missing, not a string, or too long.
    MissingAttribute,
    BadAttribute,
    UnsupportedSpecVersion,
    /// Neither the attribute nor the shape tells the provider.
    UnknownProvider,
    NoConversation,
    /// A content type this build does not read.
    UnsupportedContentType,
    /// `data_base64` that is not base64.
    InvalidBase64,
    /// A panic inside the engine, caught at its boundary.
    EnginePanic,
}

/// What decoding gives: an event, or why not. `Oversize` is judged by its envelope alone.
#[derive(Debug)]
pub enum Decoded<'r> {
    Event(Envelope<'r>),
    /// The record is over `limits.record_bytes`. The envelope holds what the headers say (binary mode), with no data.
    Oversize(Envelope<'r>),
    Reject(Reject),
}

/// What decoding needs of the settings.
#[derive(Debug, Clone, Copy)]
pub struct DecodeOptions<'a> {
    pub limits: &'a Limits,
    /// The input is a line of a file (`check`): a value that looks like a structured event is one without a
    /// content type.
    pub lines: bool,
}

impl Reject {
    pub const ALL: [Reject; 13] = [
        Self::EmptyValue,
        Self::NotAnEvent,
        Self::InvalidJson,
        Self::TooDeep,
        Self::TooManyNodes,
        Self::MissingAttribute,
        Self::BadAttribute,
        Self::UnsupportedSpecVersion,
        Self::UnknownProvider,
        Self::NoConversation,
        Self::UnsupportedContentType,
        Self::InvalidBase64,
        Self::EnginePanic,
    ];
    /// The reason label of the dead letter and of the metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::EmptyValue => "empty_value",
            Self::NotAnEvent => "not_an_event",
            Self::InvalidJson => "invalid_json",
            Self::TooDeep => "too_deep",
            Self::TooManyNodes => "too_many_nodes",
            Self::MissingAttribute => "missing_attribute",
            Self::BadAttribute => "bad_attribute",
            Self::UnsupportedSpecVersion => "unsupported_spec_version",
            Self::UnknownProvider => "unknown_provider",
            Self::NoConversation => "no_conversation",
            Self::UnsupportedContentType => "unsupported_content_type",
            Self::InvalidBase64 => "invalid_base64",
            Self::EnginePanic => "engine_panic",
        }
    }
}

/// Decodes one record.
pub fn decode<'r>(bump: &'r Bump, input: &Input<'r>, options: DecodeOptions<'_>) -> Decoded<'r> {
    match decode_record(bump, input, options) {
        Ok(decoded) => decoded,
        Err(reject) => Decoded::Reject(reject),
    }
}

/// The conversations that a record which cannot be read may belong to: what its envelope names, as far as
/// that can be read, in the order in which [`Envelope`] would be asked; all of them where it names several.
/// A part of each may be missing with it.
pub fn conversations<'r>(bump: &'r Bump, input: &Input<'r>, options: DecodeOptions<'_>) -> Vec<Cow<'r, [u8]>> {
    let header = |wanted: &str| {
        let named = input.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut values: Vec<Cow<'r, [u8]>> = named.filter_map(|(_, value)| *value).map(Cow::Borrowed).collect();
        values.retain(|value| !value.is_empty());
        values.dedup();
        values
    };
    // Depth costs the scanner nothing; nodes cost memory.
    let limits = JsonLimits { depth: u32::MAX, nodes: options.limits.json_nodes.saturating_add(ENVELOPE_NODES) };
    let value = input.value.filter(|_| !oversize(input, options.limits) && header("ce_specversion").is_empty());
    let root = value.and_then(|value| json::parse(bump, Layer::record(bump, value), limits).ok());
    let structured = root.filter(|root| root.get("specversion").is_some() || root.get("source").is_some());
    let said = |name: &str| {
        let mut values = header(&format!("ce_{name}"));
        let members = structured.into_iter().flat_map(|root| root.members());
        values.extend(members.filter(|(key, _)| key.is(name)).filter_map(|(_, value)| match value.kind() {
            Kind::Bool | Kind::Number => Some(Cow::Borrowed(value.raw())),
            _ => value.text().filter(|text| !text.is_empty()),
        }));
        values
    };
    let mut named = said("conversation");
    // A record with too many values is not parsed; its envelope's own members are found all the same.
    if named.is_empty() && root.is_none() {
        named.extend(value.and_then(|value| top_member(value, b"conversation")).map(Cow::Borrowed));
    }
    let readable = |name: &Cow<'_, [u8]>| text(name).is_ok();
    if named.len() == 1 && named.iter().all(readable) {
        return named;
    }
    let key = input.key.filter(|key| !key.is_empty()).map(Cow::Borrowed);
    let mut found: Vec<_> = named.into_iter().chain(key).collect();
    if found.is_empty() {
        found = said("responseid");
    }
    found
}

/// A member of a JSON object whose value is a string without escapes, found by its place alone: nothing is kept of
/// the rest, and what follows a syntax error is not looked at.
fn top_member<'r>(text: &'r [u8], wanted: &[u8]) -> Option<&'r [u8]> {
    let (mut depth, mut at, mut name, mut found) = (0_u32, 0, None, None);
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => name = None,
            b'"' => {
                let start = at + 1;
                let mut end = start;
                while *text.get(end)? != b'"' {
                    end += 1 + usize::from(text[end] == b'\\');
                }
                at = end;
                let inside = text.get(start..end)?;
                match name {
                    _ if depth != 1 => {}
                    None => name = Some(inside),
                    Some(name) if name == wanted && !inside.contains(&b'\\') => found = Some(inside),
                    Some(_) => {}
                }
            }
            _ => {}
        }
        at += 1;
    }
    found.filter(|found| !found.is_empty())
}

fn decode_record<'r>(bump: &'r Bump, input: &Input<'r>, options: DecodeOptions<'_>) -> Result<Decoded<'r>, Reject> {
    let value = input.value.unwrap_or_default();
    let oversize = oversize(input, options.limits);
    let record = Layer::record(bump, if oversize { &[] } else { value });
    let content_type = content_type_header(input)?;
    let mode = mode(input, content_type)?;
    if mode == Mode::Binary {
        let envelope = binary(input, record, content_type)?;
        if oversize {
            return Ok(Decoded::Oversize(envelope));
        }
        let data = (!value.is_empty()).then(|| Layer::slice(bump, record.span(), Step::Data));
        // A line of a raw stream may be a blank one, without its end.
        let blank = input.value.is_some() && data.is_none() && envelope.kind == EventType::ModelChunk;
        if blank && envelope.content_type.is_some_and(|text| media_type(text).eq_ignore_ascii_case(STREAM)) {
            return Ok(Decoded::Event(envelope));
        }
        return finish(Envelope { data, ..envelope });
    }
    if oversize {
        return Ok(Decoded::Oversize(blank(mode, record)));
    }
    if value.is_empty() {
        return Err(Reject::EmptyValue);
    }
    let limits = JsonLimits {
        depth: options.limits.json_depth.saturating_add(ENVELOPE_DEPTH),
        nodes: options.limits.json_nodes.saturating_add(ENVELOPE_NODES),
    };
    let root = json::parse(bump, record, limits).map_err(|error| match error.kind {
        JsonErrorKind::TooDeep => Reject::TooDeep,
        JsonErrorKind::TooManyNodes => Reject::TooManyNodes,
        _ => Reject::InvalidJson,
    })?;
    let looks = options.lines && root.get("specversion").is_some() && root.get("type").is_some();
    if mode == Mode::Structured || looks {
        return structured(bump, record, root).and_then(finish);
    }
    let (provider, kind) = provider::detect(root).ok_or(Reject::NotAnEvent)?;
    Ok(Decoded::Event(Envelope {
        kind,
        provider,
        data: Some(Layer::slice(bump, record.span(), Step::Data)),
        ..blank(Mode::Bare, record)
    }))
}

/// Offsets inside a record are 32 bits wide, so a limit above that holds no further.
fn oversize(input: &Input<'_>, limits: &Limits) -> bool {
    let bytes = input.key.map_or(0, <[u8]>::len) + input.value.map_or(0, <[u8]>::len);
    bytes as u64 > limits.record_bytes.min(u64::from(u32::MAX))
}

fn content_type_header<'r>(input: &Input<'r>) -> Result<Option<&'r str>, Reject> {
    let mut found = None;
    for (name, value) in input.headers {
        if name.eq_ignore_ascii_case("content-type")
            && let Some(value) = value
        {
            once(&mut found, text(value)?)?;
        }
    }
    Ok(found)
}

fn mode(input: &Input<'_>, content_type: Option<&str>) -> Result<Mode, Reject> {
    let media = content_type.map_or("", media_type);
    if starts_with(media, "application/cloudevents") {
        let known = media.eq_ignore_ascii_case("application/cloudevents+json");
        return match known && readable(content_type) {
            true => Ok(Mode::Structured),
            false => Err(Reject::UnsupportedContentType),
        };
    }
    let binary = input.headers.iter().any(|(name, _)| starts_with(name, "ce_"));
    Ok(if binary { Mode::Binary } else { Mode::Bare })
}

/// An envelope of which nothing is known.
fn blank<'r>(mode: Mode, record: &'r Layer<'r>) -> Envelope<'r> {
    Envelope {
        mode,
        id: "",
        source: "",
        kind: EventType::Unknown,
        type_name: "",
        provider: None,
        conversation: None,
        fleet: None,
        agent: None,
        response_id: None,
        sequence: None,
        time: None,
        traceparent: None,
        tracestate: None,
        mcp_server: None,
        direction: None,
        call_id: None,
        tool: None,
        display: None,
        history_from: None,
        http_status: None,
        content_type: None,
        record,
        structured: None,
        data: None,
    }
}

fn binary<'r>(input: &Input<'r>, record: &'r Layer<'r>, content_type: Option<&'r str>) -> Result<Envelope<'r>, Reject> {
    let mut attributes = Attributes::default();
    for (name, value) in input.headers {
        let (true, Some(value)) = (starts_with(name, "ce_"), value) else {
            continue;
        };
        // `starts_with` compared ASCII, so the cut is at a character.
        let mut lower = [0; ATTRIBUTE_NAME_BYTES];
        let Some(slot) = lower_case(&name[3..], &mut lower).and_then(|name| attributes.slot(name)) else { continue };
        once(slot, text(value)?)?;
    }
    let envelope = attributes.check(Mode::Binary, record)?;
    Ok(Envelope { content_type: content_type.or(envelope.content_type), ..envelope })
}

/// A header's name without case, in `room`; `None` if it is longer than any attribute that is read.
fn lower_case<'a>(name: &str, room: &'a mut [u8; ATTRIBUTE_NAME_BYTES]) -> Option<&'a str> {
    let lower = room.get_mut(..name.len())?;
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}

fn structured<'r>(bump: &'r Bump, record: &'r Layer<'r>, root: Value<'r>) -> Result<Envelope<'r>, Reject> {
    if root.kind() != Kind::Object {
        return Err(Reject::NotAnEvent);
    }
    let mut attributes = Attributes::default();
    let (mut data, mut base64) = (None, None);
    for (key, value) in root.members() {
        let Some(name) = key.str() else { continue };
        match &*name {
            // Parsers differ in which of two equal members they take, so there must be one.
            "data" | "data_base64" => {
                let place = if &*name == "data" { &mut data } else { &mut base64 };
                if place.replace(value).is_some() {
                    return Err(Reject::BadAttribute);
                }
            }
            name => {
                let Some(slot) = attributes.slot(name) else { continue };
                if slot.is_some() {
                    return Err(Reject::BadAttribute);
                }
                *slot = attribute(bump, value)?;
            }
        }
    }
    let envelope = attributes.check(Mode::Structured, record)?;
    let said = |value: &Value<'_>| !value.is_null();
    let data = match (data.filter(said), base64.filter(said)) {
        (Some(_), Some(_)) => return Err(Reject::BadAttribute),
        (None, None) => None,
        (Some(value), None) if value.kind() == Kind::String && !json_type(envelope.content_type) => {
            // The scanner has accepted the literal, so this cannot fail.
            let layer = Layer::json_string(bump, value.span(), Step::Data);
            Some(layer.map_err(|_: LayerError| Reject::InvalidJson)?)
        }
        (Some(value), None) => Some(Layer::slice(bump, value.span(), Step::Data)),
        (None, Some(value)) => Some(base64_data(bump, value)?),
    };
    Ok(Envelope { structured: Some(root), data: data.filter(|data| !data.bytes.is_empty()), ..envelope })
}

fn base64_data<'r>(bump: &'r Bump, value: Value<'r>) -> Result<&'r Layer<'r>, Reject> {
    let literal = value.span();
    if value.kind() != Kind::String {
        return Err(Reject::InvalidBase64);
    }
    // `\/` is a legal spelling of `/`: such a literal is decoded first.
    let span = match literal.bytes().contains(&b'\\') {
        true => Layer::json_string(bump, literal, Step::Hidden).map_err(|_: LayerError| Reject::InvalidBase64)?.span(),
        false => super::layer::Span { start: literal.start + 1, end: literal.end - 1, ..literal },
    };
    Layer::base64(bump, span, Step::Data).map_err(|_: LayerError| Reject::InvalidBase64)
}

/// The last checks, the same for both CloudEvents modes.
fn finish(envelope: Envelope<'_>) -> Result<Decoded<'_>, Reject> {
    if envelope.kind.needs_data() {
        if envelope.data.is_none() {
            return Err(Reject::EmptyValue);
        }
        if !readable(envelope.content_type) {
            return Err(Reject::UnsupportedContentType);
        }
    }
    Ok(Decoded::Event(envelope))
}
