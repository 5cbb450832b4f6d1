//! Outputs: those of the client's functions, and those of tools that Gemini ran.

use super::super::{Translated, named};
use super::{field, list};
use crate::engine::event::{Address, Event, Failure, Name, Part, ResultItem, ResultShape};
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
        error_code: outcome.filter(|_| failure == Failure::Failed).map(code_of),
        ..result(ResultShape::Server, item, tool, parts)
    })
}

/// How code ended that did not end well.
fn code_of(outcome: Value<'_>) -> &'static str {
    const CODES: [(&str, &str); 2] =
        [("OUTCOME_DEADLINE_EXCEEDED", "deadline_exceeded"), ("OUTCOME_FAILED", "outcome_failed")];
    CODES.into_iter().find(|(known, _)| outcome.is(known)).map_or("other", |(_, code)| code)
}

/// What a search found: titles and addresses, passages, and the page to show with them.
pub(super) fn grounding<'r>(holder: Value<'r>, out: &mut Translated<'r>) {
    let Some(item) = field(holder, "groundingMetadata", out).filter(|item| item.kind() == Kind::Object) else { return };
    let (mut parts, mut addresses) = (Vec::new(), Vec::new());
    for chunk in list(item, "groundingChunks", out) {
        let sources = ["web", "retrievedContext", "maps"].map(|kind| field(chunk, kind, out));
        let mut known = false;
        // A corpus of the operator's own has addresses of its own kind.
        for source in [sources[0], sources[2]].into_iter().flatten() {
            let Some(value) = field(source, "uri", out).filter(|uri| uri.kind() == Kind::String) else { continue };
            let text = |name: &str, out: &mut Translated<'r>| {
                field(source, name, out).filter(|text| text.kind() == Kind::String)
            };
            let redirects = value.str().is_some_and(|uri| uri.starts_with(REDIRECT));
            let site = if redirects { text("domain", out).or_else(|| text("title", out)) } else { None };
            addresses.push(Address { value, site, code: None });
        }
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
    say("google_search", item, (parts, addresses), out);
}

/// Pages that were fetched, by their addresses.
pub(super) fn fetched<'r>(holder: Value<'r>, out: &mut Translated<'r>) {
    let Some(item) = field(holder, "urlContextMetadata", out).filter(|item| item.kind() == Kind::Object) else {
        return;
    };
    let (mut parts, mut addresses) = (Vec::new(), Vec::new());
    for page in list(item, "urlMetadata", out) {
        let address = field(page, "retrievedUrl", out);
        read(address, &mut parts);
        let code = field(page, "urlRetrievalStatus", out).and_then(retrieval);
        if let Some(value) = address.filter(|address| address.kind() == Kind::String) {
            addresses.push(Address { value, site: None, code });
        }
    }
    say("url_context", item, (parts, addresses), out);
}

/// Addresses of Google's own that lead to the page which a search found.
const REDIRECT: &str = "https://vertexaisearch.cloud.google.com/";

/// How a page was read that was not read well.
fn retrieval(status: Value<'_>) -> Option<&'static str> {
    const CODES: [(&str, &str); 3] = [
        ("URL_RETRIEVAL_STATUS_ERROR", "retrieval_error"),
        ("URL_RETRIEVAL_STATUS_PAYWALL", "retrieval_paywall"),
        ("URL_RETRIEVAL_STATUS_UNSAFE", "retrieval_unsafe"),
    ];
    if status.is("URL_RETRIEVAL_STATUS_SUCCESS") {
        return None;
    }
    Some(CODES.into_iter().find(|(known, _)| status.is(known)).map_or("other", |(_, code)| code))
}

fn say<'r>(tool: &'static str, item: Value<'r>, found: (Vec<Part<'r>>, Vec<Address<'r>>), out: &mut Translated<'r>) {
    let (parts, addresses) = found;
    if !parts.is_empty() {
        let failed = addresses.iter().any(|address| address.code.is_some());
        let failure = if failed { Failure::Failed } else { Failure::Unsaid };
        let result = ResultItem { failure, addresses, ..result(ResultShape::Server, item, Name::Implied(tool), parts) };
        out.events.push(Event::ServerResult { result, closes: false });
    }
}
