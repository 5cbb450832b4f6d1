//! What stands inside a result block: the texts that the model reads, in document order.

use super::super::{member, string, type_of};
use crate::engine::event::{Address, Failure, Part};
use crate::engine::json::{Kind, Value};

/// The parts of a `tool_result`'s or a server tool's `content`: a string, a list of blocks, or one object.
pub(super) fn parts(content: Option<Value<'_>>) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    if let Some(content) = content {
        add(content, &mut parts);
    }
    parts
}

/// Where a server tool went: pages that a search found, and what was fetched.
pub(super) fn addresses(content: Option<Value<'_>>) -> Vec<Address<'_>> {
    let one = content.into_iter().filter(|content| content.kind() == Kind::Object);
    let found = one.chain(content.into_iter().flat_map(|content| content.items()));
    let urls = found.filter_map(|result| match &*type_of(result) {
        "web_search_result" | "web_fetch_result" => string(result, "url"),
        _ => None,
    });
    urls.map(Address::plain).collect()
}

/// The content of a block that is new to this build, as one value.
pub(super) fn whole(content: Option<Value<'_>>) -> Vec<Part<'_>> {
    match content {
        Some(content) if content.kind() == Kind::String => vec![Part::Text(content)],
        Some(content) if !content.is_null() => vec![Part::Json(content)],
        _ => Vec::new(),
    }
}

/// `is_error`, where it stands.
pub(super) fn flag(item: Value<'_>) -> (Failure, Option<Value<'_>>) {
    let value = item.get("is_error");
    let failure = match value.and_then(|flag| flag.bool()) {
        Some(true) => Failure::Failed,
        Some(false) => Failure::Ok,
        None => Failure::Unsaid,
    };
    (failure, value)
}

/// The error code of a server tool's error object, `other` where it is new.
pub(super) fn error_code(error: Value<'_>) -> &'static str {
    const CODES: [&str; 19] = [
        "execution_time_exceeded",
        "file_not_found",
        "invalid_tool_input",
        "max_uses_exceeded",
        "model_not_found",
        "output_file_too_large",
        "overloaded",
        "prompt_too_long",
        "query_too_long",
        "request_too_large",
        "string_not_found",
        "too_many_requests",
        "unavailable",
        "unsupported_content_type",
        "url_not_accessible",
        "url_not_allowed",
        "url_not_in_prior_context",
        "url_too_long",
        "container_expired",
    ];
    let code = error.get("error_code");
    let known = CODES.into_iter().find(|known| code.is_some_and(|code| code.is(known)));
    known.unwrap_or("other")
}

/// Depth is bounded by the document's.
fn add<'r>(value: Value<'r>, parts: &mut Vec<Part<'r>>) {
    match value.kind() {
        Kind::Null => return,
        Kind::String => return parts.push(Part::Text(value)),
        Kind::Array => return value.items().for_each(|item| add(item, parts)),
        Kind::Bool | Kind::Number => return parts.push(Part::Json(value)),
        Kind::Object => {}
    }
    let (texts, encrypted, nested): (&[&str], &str, &str) = match &*type_of(value) {
        "text" | "advisor_result" => (&["text"], "", ""),
        "tool_reference" => (&["tool_name"], "", ""),
        "image" => return media(value, "image", parts),
        "document" => return document(value, parts),
        "code_execution_output" | "bash_code_execution_output" | "container_upload" => {
            return media(value, "file", parts);
        }
        "search_result" => (&["source", "title"], "", "content"),
        "web_search_result" => (&["url", "title"], "encrypted_content", ""),
        "web_fetch_result" => (&["url"], "", "content"),
        "code_execution_result" | "bash_code_execution_result" => (&["stdout", "stderr"], "", "content"),
        "encrypted_code_execution_result" => (&["stderr"], "encrypted_stdout", "content"),
        "text_editor_code_execution_view_result" => (&[], "", "content"),
        "text_editor_code_execution_str_replace_result" => (&[], "", "lines"),
        "text_editor_code_execution_create_result" => (&[], "", ""),
        "tool_search_tool_search_result" => (&[], "", "tool_references"),
        "advisor_redacted_result" => (&[], "encrypted_content", ""),
        kind if kind.ends_with("_error") => (&["error_message"], "", ""),
        _ => {
            let kind = "part";
            return parts.push(Part::Opaque { value, kind });
        }
    };
    for text in texts.iter().filter_map(|name| member(value, name)) {
        // Text that is none is not what its type says.
        parts.push(match text.kind() {
            Kind::String => Part::Text(text),
            _ => Part::Opaque { value: text, kind: "part" },
        });
    }
    if let Some(cited) = member(value, "citations").filter(|list| list.items().next().is_some()) {
        parts.push(Part::Json(cited));
    }
    if let Some(value) = string(value, encrypted) {
        let kind = "encrypted";
        parts.push(Part::Opaque { value, kind });
    }
    if let Some(nested) = value.get(nested) {
        add(nested, parts);
    }
}

fn media<'r>(value: Value<'r>, kind: &'static str, parts: &mut Vec<Part<'r>>) {
    parts.push(Part::Media { value, kind });
}

/// A document's source is text, a list of blocks, or something that is not text (base64, a URL, a file).
fn document<'r>(value: Value<'r>, parts: &mut Vec<Part<'r>>) {
    for name in ["title", "context"] {
        parts.extend(string(value, name).map(Part::Text));
    }
    let source = value.get("source");
    let nested = source.and_then(|source| match &*type_of(source) {
        "text" => source.get("data"),
        "content" => source.get("content"),
        _ => None,
    });
    match nested {
        Some(nested) => add(nested, parts),
        None => media(value, "document", parts),
    }
}
