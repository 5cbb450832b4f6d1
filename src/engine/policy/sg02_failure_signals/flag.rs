//! The flag of a failure, added to an output by its provider's means.

use super::super::results::ERROR_PREFIX;
use crate::engine::event::{Name, Part, ResultItem, ResultShape};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Edit, Span};

/// Gemini's `error` and its `output` or `result`, side by side.
pub(super) fn says_both(response: Value<'_>) -> bool {
    let said = |name: &str| response.get(name).is_some_and(|value| !value.is_null());
    said("error") && (said("output") || said("result"))
}

/// What adds the flag; `None` where this output can carry none.
pub(super) fn edits<'r>(result: &ResultItem<'r>) -> Option<Vec<Edit<'r>>> {
    if result.item.kind() != Kind::Object {
        return None;
    }
    match result.shape {
        ResultShape::AnthropicToolResult => {
            // The API takes nothing but text beside the flag.
            let texts = result.parts.iter().all(|part| matches!(part, Part::Text(_)));
            texts.then(|| anthropic(result))
        }
        ResultShape::PlainOutput if matches!(result.tool, Name::Implied("apply_patch")) => {
            Some(vec![set(result.item, result.failure_value, "status", "\"failed\"")])
        }
        ResultShape::ResponsesOutput | ResultShape::PlainOutput => prefix(result.content?, "input_text"),
        ResultShape::ChatTool => prefix(result.content?, "text"),
        ResultShape::ShellOutput => {
            let last = result.content?.items().filter(|entry| entry.kind() == Kind::Object).last()?;
            let outcome = "{\"type\":\"exit\",\"exit_code\":1}";
            Some(vec![set(last, last.get("outcome"), "outcome", outcome)])
        }
        ResultShape::GeminiResponse => gemini(result.content?),
        ResultShape::McpResult => Some(vec![set(result.item, result.failure_value, "isError", "true")]),
        ResultShape::McpAnswer | ResultShape::Host | ResultShape::TypedOutput | ResultShape::Server => None,
    }
}

/// The flag, and a text where there is none: the API refuses an error without content.
fn anthropic<'r>(result: &ResultItem<'r>) -> Vec<Edit<'r>> {
    let flag = |value: &str| set(result.item, result.failure_value, "is_error", value);
    let Some(content) = result.item.get("content") else {
        return vec![flag(&format!("true,\"content\":\"{ERROR_PREFIX}\""))];
    };
    let text = || format!("\"{ERROR_PREFIX}\"");
    let is_blank = |value: &Value<'_>| value.text().is_some_and(|text| text.trim_ascii().is_empty());
    let begin = |value: Value<'r>, with| insert(value, value.span().start + 1, with);
    let said = match content.kind() {
        Kind::Null => Some(Edit::new(content.span(), text().into_bytes())),
        Kind::String => is_blank(&content).then(|| begin(content, ERROR_PREFIX.to_owned())),
        Kind::Array => match content.items().next() {
            None => Some(begin(content, format!("{{\"type\":\"text\",\"text\":{}}}", text()))),
            Some(_) => {
                let texts = || content.items().filter_map(|part| part.get("text"));
                let first = texts().next().filter(|_| texts().all(|text| is_blank(&text)));
                first.map(|first| begin(first, ERROR_PREFIX.to_owned()))
            }
        },
        _ => None,
    };
    std::iter::once(flag("true")).chain(said).collect()
}

fn insert<'r>(value: Value<'r>, at: u32, with: String) -> Edit<'r> {
    Edit::new(Span { start: at, end: at, ..value.span() }, with.into_bytes())
}

/// Replaces a member's value, or adds the member.
fn set<'r>(object: Value<'r>, value: Option<Value<'r>>, name: &str, with: &str) -> Edit<'r> {
    match value {
        Some(value) => Edit::new(value.span(), with.as_bytes().to_vec()),
        None => {
            let comma = if object.members().next().is_some() { "," } else { "" };
            insert(object, object.span().end.saturating_sub(1), format!("{comma}\"{name}\":{with}"))
        }
    }
}

/// The prefix before the first text, or as a text of its own.
fn prefix<'r>(content: Value<'r>, kind: &str) -> Option<Vec<Edit<'r>>> {
    let begin = |text: Value<'r>| vec![insert(text, text.span().start + 1, format!("{ERROR_PREFIX} "))];
    match content.kind() {
        Kind::String => Some(begin(content)),
        Kind::Array => {
            let mut texts = content.items().filter_map(|part| part.get("text"));
            let first = texts.find(|text| text.kind() == Kind::String && text.span().len() > 2);
            first.map(begin).or_else(|| {
                let comma = if content.items().next().is_some() { "," } else { "" };
                let block = format!("{{\"type\":\"{kind}\",\"text\":\"{ERROR_PREFIX}\"}}{comma}");
                Some(vec![insert(content, content.span().start + 1, block)])
            })
        }
        _ => None,
    }
}

/// `{"output": …}` becomes `{"error": …}`; any other object goes into one.
fn gemini(response: Value<'_>) -> Option<Vec<Edit<'_>>> {
    if response.kind() != Kind::Object {
        return None;
    }
    let mut members = response.members();
    if let (Some((name, _)), None) = (members.next(), members.next())
        && (name.is("output") || name.is("result"))
    {
        return Some(vec![Edit::new(name.span(), b"\"error\"".to_vec())]);
    }
    let span = response.span();
    Some(vec![insert(response, span.start, "{\"error\":".to_owned()), insert(response, span.end, "}".to_owned())])
}
