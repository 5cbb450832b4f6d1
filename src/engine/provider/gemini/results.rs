//! Outputs: those of the client's functions, and those of tools that Gemini ran.

use super::super::{Translated, named};
use super::{field, list};
use crate::engine::event::{Event, Failure, Name, Part, ResultItem, ResultShape};
use crate::engine::json::{Kind, Value};

/// A result of which only its parts are known.
fn result<'r>(shape: ResultShape, item: Value<'r>, tool: Name<'r>, parts: Vec<Part<'r>>) -> ResultItem<'r> {
    ResultItem { parts, tool, ..ResultItem::new(shape, item) }
}

/// The value as the model reads it.
fn read<'r>(value: Option<Value<'r>>, parts: &mut Vec<Part<'r>>) {
    match value {
        Some(text) if text.kind() == Kind::String => parts.push(Part::Text(text)),
        Some(value) if !value.is_null() => parts.push(Part::Json(value)),
        _ => {}
    }
}

/// `functionResponse`: an object of the tool's own making, and media beside it.
pub(in crate::engine::provider) fn function_response<'r>(item: Value<'r>, out: &mut Translated<'r>) -> ResultItem<'r> {
    let content = field(item, "response", out);
    let mut parts = Vec::new();
    read(content, &mut parts);
    for value in list(item, "parts", out) {
        let data = field(value, "inlineData", out).is_some();
        parts.push(match data || field(value, "fileData", out).is_some() {
            true => Part::Media { value, kind: "media" },
            false => Part::Opaque { value, kind: "part" },
        });
    }
    let said = |name: &str| content.and_then(|content| content.get(name)).filter(|value| !value.is_null());
    let answered = said("output").or(said("result")).is_some();
    let (failure, failure_value) = match (said("error"), answered) {
        (Some(error), false) => (Failure::Failed, Some(error)),
        (None, true) => (Failure::Ok, None),
        // Both, or an answer of its own form: the convention is not used.
        _ => (Failure::Unsaid, None),
    };
    let tool = named(item, "name").map_or(Name::None, Name::Wire);
    ResultItem {
        content,
        call_id: named(item, "id"),
        failure,
        failure_value,
        ..result(ResultShape::GeminiResponse, item, tool, parts)
    }
}

/// `codeExecutionResult`, `toolResponse`. `None`: it is none.
pub(super) fn of_provider<'r>(kind: &str, item: Value<'r>, out: &mut Translated<'r>) -> Option<ResultItem<'r>> {
    if item.kind() != Kind::Object {
        return None;
    }
    let mut parts = Vec::new();
    let code = kind == "codeExecutionResult";
    let content = field(item, if code { "output" } else { "response" }, out);
    read(content, &mut parts);
    let tool = match field(item, "toolType", out).filter(|name| name.kind() == Kind::String) {
        _ if code => Name::Implied("code_execution"),
        Some(name) => Name::Wire(name),
        None => Name::None,
    };
    let outcome = field(item, "outcome", out).filter(|_| code);
    let failure = match outcome {
        None => Failure::Unsaid,
        Some(outcome) if outcome.is("OUTCOME_OK") => Failure::Ok,
        Some(_) => Failure::Failed,
    };
    Some(ResultItem {
        content,
        call_id: named(item, "id"),
        failure,
        failure_value: outcome,
        ..result(ResultShape::Server, item, tool, parts)
    })
}

/// What a search found: titles and addresses, passages, and the page to show with them.
pub(super) fn grounding<'r>(holder: Value<'r>, out: &mut Translated<'r>) {
    let Some(item) = field(holder, "groundingMetadata", out).filter(|item| item.kind() == Kind::Object) else { return };
    let mut parts = Vec::new();
    for chunk in list(item, "groundingChunks", out) {
        let sources = ["web", "retrievedContext", "maps"].map(|kind| field(chunk, kind, out));
        let mut known = false;
        for source in sources.into_iter().flatten() {
            known = true;
            for name in ["uri", "title", "domain", "text"] {
                parts.extend(field(source, name, out).filter(|text| text.kind() == Kind::String).map(Part::Text));
            }
            for name in ["ragChunk", "placeAnswerSources"] {
                parts.extend(field(source, name, out).map(Part::Json));
            }
        }
        if !known {
            parts.push(Part::Opaque { value: chunk, kind: "part" });
        }
    }
    if let Some(entry) = field(item, "searchEntryPoint", out) {
        read(field(entry, "renderedContent", out), &mut parts);
    }
    say("google_search", item, parts, Failure::Unsaid, out);
}

/// Pages that were fetched, by their addresses.
pub(super) fn fetched<'r>(holder: Value<'r>, out: &mut Translated<'r>) {
    let Some(item) = field(holder, "urlContextMetadata", out).filter(|item| item.kind() == Kind::Object) else {
        return;
    };
    let mut parts = Vec::new();
    let mut failed = false;
    for page in list(item, "urlMetadata", out) {
        read(field(page, "retrievedUrl", out), &mut parts);
        failed |=
            field(page, "urlRetrievalStatus", out).is_some_and(|status| !status.is("URL_RETRIEVAL_STATUS_SUCCESS"));
    }
    say("url_context", item, parts, if failed { Failure::Failed } else { Failure::Unsaid }, out);
}

fn say<'r>(tool: &'static str, item: Value<'r>, parts: Vec<Part<'r>>, failure: Failure, out: &mut Translated<'r>) {
    if !parts.is_empty() {
        let result = ResultItem { failure, ..result(ResultShape::Server, item, Name::Implied(tool), parts) };
        out.events.push(Event::ServerResult { result, closes: false });
    }
}
