//! Decode: a Kafka record as a CloudEvent, in binary, structured or bare mode.
//!
//! First step of a record's journey. What cannot be read is a [`Reject`] value and goes to the dead-letter
//! topic; nothing here fails otherwise. The event's data is not parsed yet: it is a [`Layer`] with
//! `Step::Data` (a slice of the record, or a decoded JSON string or base64 of a structured event).

use super::json::Value;
use super::layer::Layer;
use super::provider::Provider;
use super::{Input, Limits};
use bumpalo::Bump;

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

/// Decodes one record. `lines`: the input is a line of a file, where a value that looks like a structured
/// event is one without a content type (`check`).
pub fn decode<'r>(_bump: &'r Bump, _input: &Input<'r>, _limits: &Limits) -> Decoded<'r> {
    todo!()
}
