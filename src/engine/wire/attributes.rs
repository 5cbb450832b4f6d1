//! Attributes: the texts of an envelope, from headers or members, and what holds of them.

use super::{Envelope, EventType, Mode, Reject, blank};
use crate::engine::event::Provider;
use crate::engine::json::{Kind, Value};
use crate::engine::layer::Layer;
use bumpalo::Bump;
use std::borrow::Cow;

/// The longest attribute that is read, bytes.
const ATTRIBUTE_BYTES: usize = 1024;

/// The attributes as texts, before they are checked.
#[derive(Default)]
pub(super) struct Attributes<'r> {
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
    pub(super) fn slot(&mut self, name: &str) -> Option<&mut Option<&'r str>> {
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
    pub(super) fn check(self, mode: Mode, record: &'r Layer<'r>) -> Result<Envelope<'r>, Reject> {
        let required = |value: Option<&'r str>| match value {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(Reject::MissingAttribute),
        };
        if required(self.specversion)? != "1.0" {
            return Err(Reject::UnsupportedSpecVersion);
        }
        let type_name = required(self.kind)?;
        let kind = EventType::from_name(type_name);
        if kind == EventType::Unknown && EventType::resembles_one(type_name) {
            return Err(Reject::BadAttribute);
        }
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

/// An attribute of a structured event.
pub(super) fn attribute<'r>(bump: &'r Bump, value: Value<'r>) -> Result<Option<&'r str>, Reject> {
    match value.kind() {
        Kind::Null => Ok(None),
        Kind::Bool | Kind::Number => text(value.raw()).map(Some),
        Kind::String => match value.str().ok_or(Reject::BadAttribute)? {
            Cow::Borrowed(plain) => text(plain.as_bytes()).map(Some),
            Cow::Owned(decoded) => text(bump.alloc_str(&decoded).as_bytes()).map(Some),
        },
        Kind::Array | Kind::Object => Err(Reject::BadAttribute),
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, Reject> {
    if bytes.len() > ATTRIBUTE_BYTES {
        return Err(Reject::BadAttribute);
    }
    std::str::from_utf8(bytes).map_err(|_| Reject::BadAttribute)
}

/// Sets what must not be said twice in two ways.
pub(super) fn once<'r>(slot: &mut Option<&'r str>, value: &'r str) -> Result<(), Reject> {
    match slot.replace(value) {
        Some(before) if before != value => Err(Reject::BadAttribute),
        _ => Ok(()),
    }
}

pub(super) fn present(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

pub(super) fn decimal(value: &str) -> Result<u64, Reject> {
    match value.bytes().all(|byte| byte.is_ascii_digit()) {
        true => value.parse().map_err(|_| Reject::BadAttribute),
        false => Err(Reject::BadAttribute),
    }
}
