//! Provenance: whether an output names its source, and the wrapper that does.

use super::super::results::tool_name;
use super::super::truncate;
use super::super::{Evidence, Place, Report, ResultSubject};
use super::MISSING_PROVENANCE;
use crate::engine::decision::Decision;
use crate::engine::event::{Failure, Name, Part, ResultItem, ResultShape};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Edit, Span, Step};
use crate::engine::scan::{injection, secrets};
use crate::engine::state::Call;
use memchr::memmem;

/// What is put around a content value.
pub(super) struct Wrapper<'r> {
    pub content: Value<'r>,
    prefix: Vec<u8>,
}

impl<'r> Wrapper<'r> {
    /// Bytes added, prefix and suffix.
    pub fn len(&self) -> usize {
        self.prefix.len() + 1
    }

    /// Two insertions: the value between them stands as it is, or is edited by others.
    pub fn edits(self) -> [Edit<'r>; 2] {
        let span = self.content.span();
        let at = |offset| Span { start: offset, end: offset, ..span };
        [Edit::new(at(span.start), self.prefix), Edit::new(at(span.end), b"}".to_vec())]
    }
}

/// Reports missing provenance; gives the wrapper if the result is to be wrapped.
pub(super) fn check<'r>(
    subject: &ResultSubject<'_, 'r>,
    max_bytes: usize,
    report: &mut Report<'r>,
) -> Option<Wrapper<'r>> {
    let result = subject.result;
    let content = result.content.filter(|content| !content.is_null())?;
    let place = Place::Value { value: content, range: None };
    match result.shape {
        ResultShape::Host => {
            if is_own_error(result, content) || carries(content, report) {
                return None;
            }
            let wants = report.find(&MISSING_PROVENANCE, place, Evidence::None);
            (wants == Decision::Redact).then(|| Wrapper { content, prefix: prefix(subject, max_bytes) })
        }
        ResultShape::AnthropicToolResult
        | ResultShape::ResponsesOutput
        | ResultShape::ChatTool
        | ResultShape::GeminiResponse => {
            if is_unattributed(result, content, report) {
                report.find_at_most(&MISSING_PROVENANCE, Decision::Allow, place, Evidence::None);
            }
            None
        }
        // Typed by the provider or the protocol: what they are says where they come from.
        ResultShape::ShellOutput
        | ResultShape::PlainOutput
        | ResultShape::TypedOutput
        | ResultShape::McpResult
        | ResultShape::McpAnswer
        | ResultShape::Server => None,
    }
}

/// What the gate puts in place of an output that it withholds, and nothing more.
fn is_own_error(result: &ResultItem<'_>, content: Value<'_>) -> bool {
    const WITHHELD: &[u8] = b"[TOOL ERROR] output withheld by policy SG";
    // Ordinary output is not decoded for this.
    if result.failure != Failure::Failed || content.kind() != Kind::String || content.span().len() > 64 {
        return false;
    }
    let text = content.text();
    let number = text.as_deref().and_then(|text| text.strip_prefix(WITHHELD));
    number.is_some_and(|n| n.len() == 2 && n.iter().all(u8::is_ascii_digit))
}

/// Some text of the result does not name its source. Blocks of a type that carries a source do.
fn is_unattributed<'r>(result: &ResultItem<'r>, content: Value<'r>, report: &Report<'r>) -> bool {
    const SOURCED: [&str; 3] = ["search_result", "document", "tool_reference"];
    let is_sourced = |block: Value<'r>| block.get("type").is_some_and(|kind| SOURCED.iter().any(|s| kind.is(s)));
    if content.kind() == Kind::Array && content.items().all(is_sourced) {
        return false;
    }
    result.parts.iter().any(|part| match part {
        Part::Text(value) | Part::Json(value) => !carries(*value, report),
        Part::Media { .. } | Part::Opaque { .. } => false,
    })
}

/// An object, or a string that holds one, with `source` and `content`.
fn carries<'r>(value: Value<'r>, report: &Report<'r>) -> bool {
    let object = match value.kind() {
        Kind::Object => value,
        Kind::String if truncate::may_hold_container(value) && may_name_source(value) => {
            let Some(Ok(layer)) = value.text_layer(report.bump(), Step::Json) else { return false };
            match truncate::container(report.bump(), layer) {
                Some(object) => object,
                None => return false,
            }
        }
        _ => return false,
    };
    let source = object.get("source").and_then(|source| source.text());
    source.is_some_and(|source| !source.is_empty()) && object.get("content").is_some()
}

/// Whether a member of that name can stand in a string, by its bytes as they stand: letters may be spelled as escapes.
fn may_name_source(value: Value<'_>) -> bool {
    ["source", "\\u"].iter().any(|sign| memmem::find(value.raw(), sign.as_bytes()).is_some())
}

/// `{"source":…,"tool":…,"url":…,"fetched_at":…,"content":`. Texts of the event stand as they stood; what would take
/// too much of the bound, or would bring a model what other policies take out, is left out.
fn prefix(subject: &ResultSubject<'_, '_>, max_bytes: usize) -> Vec<u8> {
    let result = subject.result;
    let within = |value: Option<Value<'_>>, most: usize| -> Option<Vec<u8>> {
        let value = value.filter(|value| value.kind() == Kind::String && value.span().len() > 2)?;
        (value.span().len() <= most && is_harmless(&value.text()?)).then(|| value.raw().to_vec())
    };
    let named = |name: &Vec<u8>| name.len() <= max_bytes / 8 && is_harmless(name);
    let tool = tool(result, subject.call).filter(named);
    let source = within(result.source, max_bytes / 8)
        .or_else(|| server(result, subject.call).map(|name| prefixed("mcp:", &name)))
        .filter(named)
        .or_else(|| tool.as_ref().map(|name| prefixed("tool:", name)))
        .unwrap_or_else(|| b"\"tool:unknown\"".to_vec());
    let fetched_at = within(result.fetched_at, 64).unwrap_or_else(|| {
        let first_seen = jiff::Timestamp::from_millisecond(subject.first_seen).unwrap_or_default();
        format!("\"{first_seen}\"").into_bytes()
    });
    let mut out = b"{".to_vec();
    let members = [
        ("source", Some(source)),
        ("tool", tool),
        ("url", within(result.url, max_bytes / 4)),
        ("fetched_at", Some(fetched_at)),
    ];
    for (name, text) in members {
        if let Some(text) = text {
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            out.extend_from_slice(&text);
            out.push(b',');
        }
    }
    out.extend_from_slice(b"\"content\":");
    out
}

/// Nothing in it is a secret, or an order to the model.
fn is_harmless(text: &[u8]) -> bool {
    !secrets::has_any(text) && injection::find(text).is_empty()
}

/// The tool's name as a JSON string.
fn tool(result: &ResultItem<'_>, call: Option<&Call>) -> Option<Vec<u8>> {
    match result.tool {
        Name::Wire(name) if name.kind() == Kind::String && name.span().len() > 2 => Some(name.raw().to_vec()),
        _ => tool_name(result, call).map(|name| quoted(&name)),
    }
}

/// The server's name as a JSON string.
fn server(result: &ResultItem<'_>, call: Option<&Call>) -> Option<Vec<u8>> {
    let wire = result.server.filter(|name| name.kind() == Kind::String && name.span().len() > 2);
    match wire {
        Some(name) => Some(name.raw().to_vec()),
        None => call.and_then(|call| call.server.as_deref()).map(quoted),
    }
}

/// A JSON string with this text before its own.
fn prefixed(before: &str, string: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(before.len() + string.len());
    out.push(b'"');
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(string.get(1..).unwrap_or(b"\""));
    out
}

fn quoted(text: &[u8]) -> Vec<u8> {
    serde_json::Value::String(String::from_utf8_lossy(text).into_owned()).to_string().into_bytes()
}
