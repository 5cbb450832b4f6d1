//! xAI: Responses and Chat, by what differs from OpenAI's.
//!
//! # Wire shapes read
//! Chat is read as OpenAI's (`openai/chat.rs`). Responses are read as OpenAI's (`openai/responses.rs`), and then:
//! sub-tools of X search, which come as `custom_tool_call`; `x_search_call` and its kin; `web_search_call` and
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
//! - `code_interpreter_call` without `code`: the call's text is `arguments`. The pieces of its code are another
//!   spelling of that, so the item alone says what ran. Its `outputs[].logs` are JSON in a string, read as text, and
//!   for `exit_code` and `command_timed_out`.
//! - `web_search_call`, `x_search_call`, `view_image_call`, `view_x_video_call` and `code_execution_call` are what
//!   was looked for or run, and what came of it: `arguments` is read with the rest.
//! - An error body is `{"code":…,"error":"…"}`.

use super::{Translated, member, named, openai, string, type_of};
use crate::engine::event::{
    Args, CallFacts, Event, Executor, Failure, Name, Part, ResultItem, ResultShape, ToolDef, ToolFamily, Turn,
};
use crate::engine::json::{self, JsonLimits, Kind, Value};
use crate::engine::layer::Step;
use bumpalo::Bump;

/// What X search runs.
const X_SEARCH: [&str; 6] =
    ["view_image", "view_x_video", "x_keyword_search", "x_semantic_search", "x_thread_fetch", "x_user_search"];

/// Tools of xAI's own that OpenAI does not have.
const TOOLS: [&str; 5] = ["code_execution", "collections_search", "view_image", "view_x_video", "x_search"];

/// Items of theirs, and the names that such calls bear.
const ITEMS: [(&str, &str); 4] = [
    ("code_execution_call", "code_execution"),
    ("view_image_call", "view_image"),
    ("view_x_video_call", "view_x_video"),
    ("x_search_call", "x_search"),
];

pub(super) fn responses_request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    openai::request::request(body, elsewhere, out);
    out.events.iter_mut().for_each(adapt);
}

pub(super) fn responses_response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    if is_quiet(&type_of(value)) {
        return;
    }
    let before = out.events.len();
    openai::responses::response(value, out);
    let bump = out.events.bump();
    out.events.iter_mut().skip(before).for_each(adapt);
    out.events.iter_mut().skip(before).for_each(|event| logs(bump, event));
}

pub(super) fn chat_request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    openai::chat::request(body, elsewhere, out);
}

pub(super) fn chat_response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    openai::chat::response(value, out);
}

/// Marks of a call's progress, and code that the item restates.
fn is_quiet(kind: &str) -> bool {
    let Some((item, mark)) = kind.strip_prefix("response.").and_then(|kind| kind.split_once('.')) else { return false };
    match item {
        "code_interpreter_call" => mark == "executing",
        "code_interpreter_call_code" => matches!(mark, "delta" | "done"),
        _ => own(item).is_some() && mark != "delta",
    }
}

/// The name of what one of xAI's own items calls.
fn own(kind: &str) -> Option<&'static str> {
    ITEMS.into_iter().find(|(known, _)| kind == *known).map(|(_, name)| name)
}

/// What OpenAI's reader made of an item, by what it is here.
fn adapt(event: &mut Event<'_>) {
    match event {
        Event::Open(call) | Event::Item { call, .. } => adapt_call(call),
        Event::Turn { turn: Turn::Call(call), .. } => adapt_call(call),
        Event::ServerResult { result, .. } if type_of(result.item) == "web_search_call" => {
            result.parts.extend(string(result.item, "arguments").map(Part::Text));
        }
        Event::Opaque { value, kind: "item" } => {
            if let Some(name) = own(&type_of(*value)) {
                *event = Event::ServerResult { result: server_item(name, *value), closes: false };
            }
        }
        Event::Turn { turn, .. } => {
            if let Turn::Opaque { value, kind: "item" } = *turn
                && own(&type_of(value)).is_some()
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

/// Logs of code are JSON in a string: how the code ended stands in there.
fn logs<'r>(bump: &'r Bump, event: &mut Event<'r>) {
    let Event::ServerResult { result, .. } = event else { return };
    if type_of(result.item) != "code_interpreter_call" || result.failure == Failure::Failed {
        return;
    }
    let code = result.parts.iter().find_map(|part| {
        let Part::Text(logs) = part else { return None };
        let layer = logs.text_layer(bump, Step::Json)?.ok()?;
        let said = json::parse(bump, layer, JsonLimits::default()).ok()?;
        let timed_out = said.get("command_timed_out").and_then(|flag| flag.bool()) == Some(true);
        let failed = said.get("exit_code").and_then(|code| code.i64()).is_some_and(|code| code != 0);
        [(timed_out, "timeout"), (failed, "exit_code")].into_iter().find(|(is, _)| *is).map(|(_, code)| code)
    });
    if code.is_some() {
        result.failure = Failure::Failed;
        result.error_code = code;
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

fn server_item<'r>(name: &'static str, item: Value<'r>) -> ResultItem<'r> {
    let action = member(item, "action");
    let outputs = item.get("outputs").into_iter().flat_map(|outputs| outputs.items());
    let strings = action.into_iter().chain(outputs).flat_map(|holder| holder.members()).map(|(_, value)| value);
    let found = strings.filter(|value| value.kind() == Kind::String).chain(string(item, "arguments"));
    ResultItem {
        content: action,
        parts: found.map(Part::Text).collect(),
        call_id: named(item, "call_id").or_else(|| named(item, "id")),
        tool: Name::Implied(name),
        ..ResultItem::new(ResultShape::Server, item)
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
