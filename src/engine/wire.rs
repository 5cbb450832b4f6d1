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

use super::json::{self, JsonErrorKind, JsonLimits, Kind, Value};
use super::layer::{Layer, LayerError, Step};
use super::provider::{self, Provider};
use super::{Input, Limits};
use bumpalo::Bump;

/// The longest attribute that is read, bytes.
const ATTRIBUTE_BYTES: usize = 1024;
/// What a structured envelope adds to the depth of its data.
const ENVELOPE_DEPTH: u32 = 2;
/// What a structured envelope may add to the nodes of its data.
const ENVELOPE_NODES: u32 = 256;

/// How the record carries its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Attributes in `ce_*` headers, the value is the data.
    Binary,
    /// `content-type: application/cloudevents+json`, or (in `check`) a value that is such an event.
    Structured,
    /// Neither: provider and kind are told from the shape.
    Bare,
}

/// The known values of `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    ModelRequest,
    ModelResponse,
    ModelChunk,
    ModelClosed,
    ToolStarted,
    ToolResult,
    Render,
    McpMessage,
    /// Passes, counted.
    Unknown,
}

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

/// A decoded envelope. Attribute texts borrow from the record or the arena.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'r> {
    pub mode: Mode,
    pub id: &'r str,
    pub source: &'r str,
    pub kind: EventType,
    /// `type` as it stands; empty in bare mode.
    pub type_name: &'r str,
    /// `None` where the attribute is absent and the shape must tell; resolved before `translate`.
    pub provider: Option<Provider>,
    pub conversation: Option<&'r str>,
    pub fleet: Option<&'r str>,
    pub agent: Option<&'r str>,
    pub response_id: Option<&'r str>,
    pub sequence: Option<u64>,
    pub time: Option<&'r str>,
    pub traceparent: Option<&'r str>,
    pub tracestate: Option<&'r str>,
    pub mcp_server: Option<&'r str>,
    pub direction: Option<&'r str>,
    pub call_id: Option<&'r str>,
    pub tool: Option<&'r str>,
    pub display: Option<&'r str>,
    pub history_from: Option<u64>,
    pub http_status: Option<u16>,
    pub content_type: Option<&'r str>,
    /// The record's own layer (the structured envelope when structured).
    pub record: &'r Layer<'r>,
    /// The parsed structured envelope, whose members a redacted copy splices.
    pub structured: Option<Value<'r>>,
    /// The event's data, `None` where there is none.
    pub data: Option<&'r Layer<'r>>,
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

impl EventType {
    const NAMES: [(EventType, &'static str); 8] = [
        (EventType::ModelRequest, "io.sluicegate.model.request.v1"),
        (EventType::ModelResponse, "io.sluicegate.model.response.v1"),
        (EventType::ModelChunk, "io.sluicegate.model.chunk.v1"),
        (EventType::ModelClosed, "io.sluicegate.model.closed.v1"),
        (EventType::ToolStarted, "io.sluicegate.tool.started.v1"),
        (EventType::ToolResult, "io.sluicegate.tool.result.v1"),
        (EventType::Render, "io.sluicegate.render.v1"),
        (EventType::McpMessage, "io.sluicegate.mcp.message.v1"),
    ];
    /// The value of `type`; empty for an unknown one.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .into_iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| name)
    }
    pub fn from_name(name: &str) -> EventType {
        Self::NAMES
            .into_iter()
            .find(|(_, known)| *known == name)
            .map_or(EventType::Unknown, |(kind, _)| kind)
    }
    /// Whether a record of this type says nothing without a value.
    fn needs_data(self) -> bool {
        !matches!(self, EventType::ModelClosed | EventType::Unknown)
    }
    /// Whether a record of this type speaks in a provider's format.
    fn has_provider(self) -> bool {
        matches!(
            self,
            EventType::ModelRequest | EventType::ModelResponse | EventType::ModelChunk
        )
    }
}

impl Reject {
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

fn decode_record<'r>(
    bump: &'r Bump,
    input: &Input<'r>,
    options: DecodeOptions<'_>,
) -> Result<Decoded<'r>, Reject> {
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
        provider: Some(provider),
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

/// The attributes as texts, before they are checked.
#[derive(Default)]
struct Attributes<'r> {
    id: Option<&'r str>,
    source: Option<&'r str>,
    specversion: Option<&'r str>,
    kind: Option<&'r str>,
    datacontenttype: Option<&'r str>,
    provider: Option<&'r str>,
    conversation: Option<&'r str>,
    fleet: Option<&'r str>,
    agent: Option<&'r str>,
    response_id: Option<&'r str>,
    sequence: Option<&'r str>,
    time: Option<&'r str>,
    traceparent: Option<&'r str>,
    tracestate: Option<&'r str>,
    mcp_server: Option<&'r str>,
    direction: Option<&'r str>,
    call_id: Option<&'r str>,
    tool: Option<&'r str>,
    display: Option<&'r str>,
    history_from: Option<&'r str>,
    http_status: Option<&'r str>,
}

impl<'r> Attributes<'r> {
    /// The place of an attribute that this build reads.
    fn slot(&mut self, name: &str) -> Option<&mut Option<&'r str>> {
        Some(match name {
            "id" => &mut self.id,
            "source" => &mut self.source,
            "specversion" => &mut self.specversion,
            "type" => &mut self.kind,
            "datacontenttype" => &mut self.datacontenttype,
            "provider" => &mut self.provider,
            "conversation" => &mut self.conversation,
            "fleet" => &mut self.fleet,
            "agent" => &mut self.agent,
            "responseid" => &mut self.response_id,
            "sequence" => &mut self.sequence,
            "time" => &mut self.time,
            "traceparent" => &mut self.traceparent,
            "tracestate" => &mut self.tracestate,
            "mcpserver" => &mut self.mcp_server,
            "direction" => &mut self.direction,
            "callid" => &mut self.call_id,
            "tool" => &mut self.tool,
            "display" => &mut self.display,
            "historyfrom" => &mut self.history_from,
            "httpstatus" => &mut self.http_status,
            _ => return None,
        })
    }
    fn check(self, mode: Mode, record: &'r Layer<'r>) -> Result<Envelope<'r>, Reject> {
        let required = |value: Option<&'r str>| match value {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(Reject::MissingAttribute),
        };
        if required(self.specversion)? != "1.0" {
            return Err(Reject::UnsupportedSpecVersion);
        }
        let type_name = required(self.kind)?;
        let kind = EventType::from_name(type_name);
        let provider = match (kind, self.provider) {
            (EventType::McpMessage, _) => Some(Provider::Mcp),
            (_, None) => None,
            (_, Some(name)) => match Provider::from_name(name) {
                None if kind.has_provider() => return Err(Reject::UnknownProvider),
                known => known,
            },
        };
        let history_from = self.history_from.map(decimal).transpose()?;
        let http_status = self.http_status.map(decimal).transpose()?;
        Ok(Envelope {
            id: required(self.id)?,
            source: required(self.source)?,
            kind,
            type_name,
            provider,
            conversation: present(self.conversation),
            fleet: present(self.fleet),
            agent: present(self.agent),
            response_id: present(self.response_id),
            sequence: self.sequence.map(decimal).transpose()?,
            time: present(self.time),
            traceparent: present(self.traceparent),
            tracestate: present(self.tracestate),
            mcp_server: present(self.mcp_server),
            direction: present(self.direction),
            call_id: present(self.call_id),
            tool: present(self.tool),
            display: present(self.display),
            history_from,
            http_status: http_status.map(|status| u16::try_from(status).unwrap_or(u16::MAX)),
            content_type: present(self.datacontenttype),
            ..blank(mode, record)
        })
    }
}

fn binary<'r>(
    input: &Input<'r>,
    record: &'r Layer<'r>,
    content_type: Option<&'r str>,
) -> Result<Envelope<'r>, Reject> {
    let mut attributes = Attributes::default();
    for (name, value) in input.headers {
        let (true, Some(value)) = (starts_with(name, "ce_"), value) else {
            continue;
        };
        // `starts_with` compared ASCII, so the cut is at a character.
        if let Some(slot) = attributes.slot(&name[3..].to_ascii_lowercase()) {
            once(slot, text(value)?)?;
        }
    }
    let envelope = attributes.check(Mode::Binary, record)?;
    Ok(Envelope {
        content_type: content_type.or(envelope.content_type),
        ..envelope
    })
}

fn structured<'r>(
    bump: &'r Bump,
    record: &'r Layer<'r>,
    root: Value<'r>,
) -> Result<Envelope<'r>, Reject> {
    if root.kind() != Kind::Object {
        return Err(Reject::NotAnEvent);
    }
    let mut attributes = Attributes::default();
    let (mut data, mut base64) = (None, None);
    for (key, value) in root.members() {
        let Some(name) = key.str() else { continue };
        match &*name {
            "data" => data = Some(value).filter(|v| !v.is_null()),
            "data_base64" => base64 = Some(value).filter(|v| !v.is_null()),
            name => {
                if let Some(slot) = attributes.slot(name) {
                    *slot = attribute(bump, value)?;
                }
            }
        }
    }
    let envelope = attributes.check(Mode::Structured, record)?;
    let data = match (data, base64) {
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
    Ok(Envelope {
        structured: Some(root),
        data: data.filter(|data| !data.bytes.is_empty()),
        ..envelope
    })
}

fn base64_data<'r>(bump: &'r Bump, value: Value<'r>) -> Result<&'r Layer<'r>, Reject> {
    let literal = value.span();
    if value.kind() != Kind::String {
        return Err(Reject::InvalidBase64);
    }
    // `\/` is a legal spelling of `/`: such a literal is decoded first.
    let span = match literal.bytes().contains(&b'\\') {
        true => Layer::json_string(bump, literal, Step::Hidden)
            .map_err(|_: LayerError| Reject::InvalidBase64)?
            .span(),
        false => super::layer::Span {
            start: literal.start + 1,
            end: literal.end - 1,
            ..literal
        },
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

/// An attribute of a structured event.
fn attribute<'r>(bump: &'r Bump, value: Value<'r>) -> Result<Option<&'r str>, Reject> {
    match value.kind() {
        Kind::Null => Ok(None),
        Kind::Bool | Kind::Number => text(value.raw()).map(Some),
        Kind::String => match value.str().ok_or(Reject::BadAttribute)? {
            std::borrow::Cow::Borrowed(plain) => text(plain.as_bytes()).map(Some),
            std::borrow::Cow::Owned(decoded) => text(bump.alloc_str(&decoded).as_bytes()).map(Some),
        },
        Kind::Array | Kind::Object => Err(Reject::BadAttribute),
    }
}

fn text(bytes: &[u8]) -> Result<&str, Reject> {
    if bytes.len() > ATTRIBUTE_BYTES {
        return Err(Reject::BadAttribute);
    }
    std::str::from_utf8(bytes).map_err(|_| Reject::BadAttribute)
}

/// Sets what must not be said twice in two ways.
fn once<'r>(slot: &mut Option<&'r str>, value: &'r str) -> Result<(), Reject> {
    match slot.replace(value) {
        Some(before) if before != value => Err(Reject::BadAttribute),
        _ => Ok(()),
    }
}

fn present(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

fn decimal(value: &str) -> Result<u64, Reject> {
    match value.bytes().all(|byte| byte.is_ascii_digit()) {
        true => value.parse().map_err(|_| Reject::BadAttribute),
        false => Err(Reject::BadAttribute),
    }
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// A content type without its parameters.
fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// `application/json`, `…+json`, `text/json`, or none, which means JSON.
fn json_type(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let media = media_type(content_type);
    let subtype = media.split('/').nth(1).unwrap_or_default().as_bytes();
    subtype.eq_ignore_ascii_case(b"json")
        || subtype.len() > 5 && subtype[subtype.len() - 5..].eq_ignore_ascii_case(b"+json")
}

/// Whether the content type names text that this build reads: JSON or text, in UTF-8.
fn readable(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let charset = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches('"'))
    });
    let utf8 = charset.is_none_or(|charset| {
        ["utf-8", "utf8", "us-ascii"]
            .iter()
            .any(|known| charset.eq_ignore_ascii_case(known))
    });
    utf8 && (json_type(Some(content_type)) || starts_with(media_type(content_type), "text/"))
}

/// Whether the content type says that the data are server-sent events.
pub fn event_stream(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|t| media_type(t).eq_ignore_ascii_case("text/event-stream"))
}
