//! The envelope: what a record says of its event beside the data.
//!
//! Made by `wire`, read by `provider` and `judge`; it knows neither.

pub(in crate::engine) mod content;

pub use content::event_stream;

use super::event::Provider;
use super::json::Value;
use super::layer::Layer;

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
    /// Every known type.
    pub fn all() -> impl Iterator<Item = EventType> {
        Self::NAMES.into_iter().map(|(kind, _)| kind)
    }
    /// The value of `type`; empty for an unknown one.
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
    pub fn from_name(name: &str) -> EventType {
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map_or(EventType::Unknown, |(kind, _)| kind)
    }
    /// Whether a name is a known one but for case and white space: a mistake, and no type of somebody else's.
    pub(in crate::engine) fn resembles_one(name: &str) -> bool {
        Self::NAMES.into_iter().any(|(_, known)| known.eq_ignore_ascii_case(name.trim()))
    }
    /// Whether a record of this type says nothing without a value.
    pub(in crate::engine) fn needs_data(self) -> bool {
        !matches!(self, EventType::ModelClosed | EventType::Unknown)
    }
    /// Whether a record of this type speaks in a provider's format.
    pub(in crate::engine) fn has_provider(self) -> bool {
        matches!(self, EventType::ModelRequest | EventType::ModelResponse | EventType::ModelChunk)
    }
}
