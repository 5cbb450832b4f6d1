//! xAI: Responses and Chat, by what differs from OpenAI's.
//!
//! # Wire shapes read
//! Chat is read as OpenAI's (`openai/chat.rs`). Responses are read as OpenAI's (`openai/responses.rs`), and then:
//! sub-tools of X search, which come as `custom_tool_call`; `x_search_call`; `web_search_call` and
//! `code_interpreter_call` with `name` and `arguments`; the definitions of xAI's own tools.
//!
//! # How a call is addressed
//! As in OpenAI's formats. An empty `call_id` counts as none, so such items go by their own ids.
//!
//! # What ends a call
//! As in OpenAI's formats; there is no `[DONE]` behind Responses.
//!
//! # Oddities
//! - A `custom_tool_call` is xAI's own, and run by it, where its `call_id` begins with `xs_call_` and its name is
//!   a known sub-tool's. A model chooses the name but not the id, so neither one will do alone: what is taken for
//!   the provider's is not held to be the client's to run. Every other one is the client's, and one that no
//!   request declared is blocked.
//! - Of a custom call the one delta is the whole text, and its `done` may come long before the item's.
//! - `code_interpreter_call` without `code`: the call's text is `arguments`. Its `outputs[].logs` are JSON in a
//!   string and are read as text.
//! - `web_search_call` and `x_search_call` are what was looked for and found: `arguments` is read with the rest.
//! - An error body is `{"code":…,"error":"…"}`.

use super::{Translated, member, named, openai, string, type_of};
use crate::engine::event::{
    Args, CallFacts, Event, Executor, Failure, Name, Part, ResultItem, ResultShape, ToolDef, ToolFamily, Turn,
};
use crate::engine::json::{Kind, Value};

/// What X search runs.
const X_SEARCH: [&str; 6] =
    ["view_image", "view_x_video", "x_keyword_search", "x_semantic_search", "x_thread_fetch", "x_user_search"];

/// Tools of xAI's own that OpenAI does not have.
const TOOLS: [&str; 3] = ["code_execution", "collections_search", "x_search"];

pub(super) fn responses_request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    openai::request::request(body, elsewhere, out);
    out.events.iter_mut().for_each(adapt);
}

pub(super) fn responses_response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    // Marks of its progress.
    if type_of(value).strip_prefix("response.x_search_call.").is_some_and(|mark| mark != "delta") {
        return;
    }
    let before = out.events.len();
    openai::responses::response(value, out);
    out.events.iter_mut().skip(before).for_each(adapt);
}

pub(super) fn chat_request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    openai::chat::request(body, elsewhere, out);
}

pub(super) fn chat_response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    openai::chat::response(value, out);
}

/// What OpenAI's reader made of an item, by what it is here.
fn adapt(event: &mut Event<'_>) {
    match event {
        Event::Open(call) | Event::Item { call, .. } => adapt_call(call),
        Event::Turn { turn: Turn::Call(call), .. } => adapt_call(call),
        Event::ServerResult { result, .. } if type_of(result.item) == "web_search_call" => {
            result.parts.extend(string(result.item, "arguments").map(Part::Text));
        }
        Event::Opaque { value, kind: "item" } if type_of(*value) == "x_search_call" => {
            *event = Event::ServerResult { result: x_search(*value), closes: false };
        }
        Event::Turn { turn, .. } => {
            if let Turn::Opaque { value, kind: "item" } = *turn
                && type_of(value) == "x_search_call"
            {
                *turn = Turn::Model(value);
            }
        }
        Event::Opaque { value, kind: "tool" } => {
            let kind = type_of(*value);
            if let Some(name) = TOOLS.into_iter().find(|known| kind == *known) {
                *event = Event::Tool(definition(name, *value));
            }
        }
        _ => {}
    }
}

fn adapt_call(call: &mut CallFacts<'_>) {
    match &*type_of(call.item) {
        "custom_tool_call" if is_x_search(call) => call.executor = Executor::Provider,
        "code_interpreter_call" if matches!(call.args, Args::Absent) => {
            call.args = match member(call.item, "arguments") {
                Some(text) if text.kind() == Kind::String => Args::Text(text),
                value => value.map_or(Args::Absent, Args::Raw),
            };
            if let Some(name) = named(call.item, "name") {
                call.name = Name::Wire(name);
            }
        }
        _ => {}
    }
}

fn is_x_search(call: &CallFacts<'_>) -> bool {
    let Name::Wire(name) = call.name else { return false };
    let made_by_xai = call.id.and_then(|id| id.str()).is_some_and(|id| id.starts_with("xs_call_"));
    made_by_xai && X_SEARCH.iter().any(|known| name.is(known))
}

fn x_search(item: Value<'_>) -> ResultItem<'_> {
    let action = member(item, "action");
    let strings = action.into_iter().flat_map(|action| action.members()).map(|(_, value)| value);
    let found = strings.filter(|value| value.kind() == Kind::String).chain(string(item, "arguments"));
    ResultItem {
        shape: ResultShape::Server,
        item,
        content: action,
        parts: found.map(Part::Text).collect(),
        call_id: named(item, "call_id").or_else(|| named(item, "id")),
        tool: Name::Implied("x_search"),
        server: None,
        failure: Failure::Unsaid,
        failure_value: None,
        error_code: None,
        source: None,
        url: None,
        fetched_at: None,
    }
}

fn definition<'r>(name: &'static str, item: Value<'r>) -> ToolDef<'r> {
    ToolDef {
        name: Name::Implied(name),
        namespace: None,
        server: None,
        family: ToolFamily::Typed,
        schema: None,
        item,
        late: false,
    }
}
