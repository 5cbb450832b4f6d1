//! OpenAI Responses (`POST /v1/responses`), and what speaks like it.
//!
//! # Wire shapes read
//! Streams: `response.created`, `output_item.added` and `.done`; `.delta` and `.done` of the arguments, input, code,
//! commands and diffs of function, custom, MCP, code interpreter, shell and patch calls; the endings. Whole
//! bodies: the response object, with and without `object` and `status`; error bodies `{"error":{…}}`. Items
//! (`items.rs`, `results.rs`): all calls, outputs, tool lists and searches, programs. Requests (`request.rs`):
//! `input` as text or items, `tools[]`, late definitions.
//!
//! # How a call is addressed
//! By `output_index`, `(output_index, 0)`, never by `item_id`: Copilot's proxy sends another one with every
//! event. In a whole body by its place in `output[]`. The correlating id is `call_id`, else the item's own.
//!
//! # What ends a call
//! `*_arguments.done` and its kin restate and close; `output_item.done` is authoritative and says the item's
//! `status`; `response.completed`, `.incomplete`, `.failed`, `.cancelled` or `error` end the response. The
//! item's end marker is sent for cut text too. A result inside the response (`mcp_call.output`) does not make
//! its call final: only a completed response does.
//!
//! # Oddities
//! - `response.completed` may list no items although some were streamed, or number them anew: they are sent as
//!   `listed`. Results and tool lists are taken from `output_item.done` (or a whole body) only, not from the
//!   list again.
//! - `in_progress` at `output_item.done` of a call whose `caller` is a program: the program is suspended, the
//!   arguments are whole.
//! - `tool_search_call` has another `call_id` in `added` than in `done`: the first is not read.
//! - `shell_call_command.*` and `apply_patch_call_operation_diff.*` stream pieces of what the item restates as
//!   an object: pieces, no text of the call.
//! - `error` comes nested and flat, alone or before `response.failed`.
//! - A refusal is a part of a message, and the response is `completed`: its calls are cut.
//! - Annotations of a message repeat titles and addresses of what was searched; they are opaque, and counted
//!   once, where the message is done.
//! - `computer_call` has `action` or `actions`; with both, what would be run cannot be told.
//! - A body that is `queued` or `in_progress` is a look at a response in the background: its items are not
//!   read, the finished body brings them.
//! - Chat chunks under this provider's name (Azure DeepSeek) are opaque.

use super::super::{
    Translated, member, named, object, opaque, position, position_if_any, resembles, string, type_of, unclear,
    unknown_event,
};
use super::items::{added, item, refused};
use crate::engine::event::{Args, CutReason, Event, Fate, ItemStatus, Slot, Stop};
use crate::engine::json::{Kind, Value};

/// The types of events by which calls are made and ended.
const EVENTS: [&str; 19] = [
    "error",
    "response.apply_patch_call_operation_diff.delta",
    "response.cancelled",
    "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
    "response.completed",
    "response.created",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.failed",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.incomplete",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.shell_call_command.delta",
];

/// One event of a stream, or a whole body.
pub(in crate::engine::provider) fn response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    match &*type_of(value) {
        "response.output_text.delta" => {
            if string(value, "delta").is_none() {
                unclear(value, out);
            }
        }
        "response.function_call_arguments.delta"
        | "response.custom_tool_call_input.delta"
        | "response.mcp_call_arguments.delta"
        | "response.code_interpreter_call_code.delta"
        | "response.apply_patch_call_operation_diff.delta"
        | "response.shell_call_command.delta" => append(value, out),
        "response.function_call_arguments.done" | "response.mcp_call_arguments.done" => {
            restate(value, "arguments", out);
        }
        "response.custom_tool_call_input.done" => restate(value, "input", out),
        "response.code_interpreter_call_code.done" => restate(value, "code", out),
        "response.output_item.added" => match place(value) {
            Some((slot, opened)) => added(opened, slot, out),
            None => unclear(value, out),
        },
        "response.output_item.done" => match place(value) {
            Some((slot, done)) => item(done, slot, false, out),
            None => unclear(value, out),
        },
        "response.created" => {
            let response = member(value, "response");
            if let Some(response) = response.filter(|response| response.kind() != Kind::Object) {
                return unclear(response, out);
            }
            let id = response.and_then(|response| named(response, "id"));
            remember(response, out);
            out.events.push(Event::Begin { id, again: false });
        }
        "response.completed" => terminal(member(value, "response"), Ending::Completed, out),
        "response.incomplete" => terminal(member(value, "response"), Ending::Incomplete, out),
        "response.failed" => terminal(member(value, "response"), Ending::Failed, out),
        "response.cancelled" => terminal(member(value, "response"), Ending::Cancelled, out),
        "response.refusal.delta" | "response.refusal.done" => refused(out),
        "error" => error(CutReason::Failed, out),
        "" if value.get("type").is_none() => whole(value, out),
        kind if is_quiet(kind) => {}
        // A piece of an item that is no call means nothing; of a call it is text that is lost.
        kind if kind.starts_with("response.") && kind.ends_with(".delta") && slot(value).is_some() => {
            match resembles(kind, &EVENTS) {
                true => unclear(value, out),
                false => opaque(value, "delta", out),
            }
        }
        kind => unknown_event(kind, value, &EVENTS, out),
    }
}

/// Events that bring nothing: status marks, and text of the model's own.
fn is_quiet(kind: &str) -> bool {
    const PREFIXES: [&str; 11] = [
        "response.content_part.",
        "response.output_text.",
        "response.reasoning_summary_part.",
        "response.reasoning_summary_text.",
        "response.reasoning_text.",
        "response.audio",
        "response.web_search_call.",
        "response.file_search_call.",
        "response.image_generation_call.",
        "response.shell_call_output_content.",
        "response.mcp_list_tools.",
    ];
    // Marks of a call's progress; what streams its text is no mark.
    const MARKS: [&str; 2] = ["response.shell_call_command.", "response.mcp_call."];
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| kind.starts_with(prefix));
    matches!(
        kind,
        "response.in_progress"
            | "response.queued"
            | "response.apply_patch_call_operation_diff.done"
            | "response.code_interpreter_call.in_progress"
            | "response.code_interpreter_call.interpreting"
            | "response.code_interpreter_call.completed"
            | "keepalive"
            | "ping"
    ) || begins(&PREFIXES)
        || begins(&MARKS) && !kind.ends_with(".delta")
}

fn slot(value: Value<'_>) -> Option<Slot> {
    Some(Slot(position(value, "output_index")?, 0))
}

fn place(value: Value<'_>) -> Option<(Slot, Value<'_>)> {
    Some((slot(value)?, object(value, "item")?))
}

fn append<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    match (slot(value), position_if_any(value, "command_index"), string(value, "delta")) {
        (Some(slot), Some(part), Some(text)) => out.events.push(Event::Append { slot, part, text }),
        _ => unclear(value, out),
    }
}

/// The whole text once more. Some backends send no `output_item.done`, so this is the call's end marker too.
fn restate<'r>(value: Value<'r>, name: &str, out: &mut Translated<'r>) {
    let (Some(slot), Some(text)) = (slot(value), string(value, name)) else {
        return unclear(value, out);
    };
    let args = Args::Text(text);
    let status = ItemStatus::Complete;
    out.events.push(Event::Restate { slot, args });
    out.events.push(Event::Close { slot, status });
}

/// From best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

/// The response's terminal marker, with the list of its items.
fn terminal<'r>(response: Option<Value<'r>>, said: Ending, out: &mut Translated<'r>) {
    if let Some(response) = response.filter(|response| response.kind() != Kind::Object) {
        return unclear(response, out);
    }
    remember(response, out);
    let Some(body) = response else { return end(None, said, out) };
    let Some(told) = ending(body, out) else { return };
    items(body, true, out);
    // Where the event and the object disagree, the worse holds.
    end(response, said.max(told), out);
}

/// How a response object says that it ended; one that goes on did not end well. `None`: it cannot be read.
fn ending<'r>(body: Value<'r>, out: &mut Translated<'r>) -> Option<Ending> {
    let status = member(body, "status");
    if let Some(status) = status.filter(|status| status.kind() != Kind::String) {
        unclear(status, out);
        return None;
    }
    let status = status.and_then(|status| status.str());
    Some(match status.as_deref() {
        Some("failed") => Ending::Failed,
        Some("cancelled") => Ending::Cancelled,
        _ if member(body, "error").is_some() => Ending::Failed,
        _ if member(body, "incomplete_details").is_some() => Ending::Incomplete,
        // Bodies of before `status` are whole.
        Some("completed") | None => Ending::Completed,
        Some(_) => Ending::Incomplete,
    })
}

fn items<'r>(response: Value<'r>, listed: bool, out: &mut Translated<'r>) {
    let output = member(response, "output");
    if let Some(output) = output.filter(|output| output.kind() != Kind::Array) {
        return unclear(output, out);
    }
    for (entry, index) in output.into_iter().flat_map(|output| output.items()).zip(0..) {
        item(entry, Slot(index, 0), listed, out);
    }
}

fn end<'r>(response: Option<Value<'r>>, ending: Ending, out: &mut Translated<'r>) {
    let fate = match ending {
        Ending::Failed => return error(CutReason::Failed, out),
        Ending::Cancelled => return error(CutReason::Cancelled, out),
        Ending::Completed => Fate::Final,
        Ending::Incomplete => {
            let details = response.and_then(|response| response.get("incomplete_details"));
            let reason = details.and_then(|details| details.get("reason"));
            let reason = reason.and_then(|reason| reason.str());
            Fate::Cut(match reason.as_deref() {
                Some("max_output_tokens") => CutReason::MaxTokens,
                Some("content_filter") => CutReason::ContentFilter,
                _ => CutReason::EndedOtherwise,
            })
        }
    };
    out.events.push(Event::Stop(Stop { client: fate, provider: fate, choice: None }));
    out.events.push(Event::End { choice: None });
}

fn error(reason: CutReason, out: &mut Translated<'_>) {
    out.events.push(Event::Error { reason });
}

/// A response object, or an error body.
fn whole<'r>(body: Value<'r>, out: &mut Translated<'r>) {
    let output = member(body, "output");
    let is_response = body.get("object").is_some_and(|object| object.is("response"));
    let failed = member(body, "error").is_some();
    if !is_response && output.is_none() {
        return match failed {
            true => error(CutReason::Failed, out),
            false => unknown_event("", body, &[], out),
        };
    }
    remember(Some(body), out);
    let id = named(body, "id");
    out.events.push(Event::Begin { id, again: false });
    if body.get("status").is_some_and(|status| status.is("in_progress") || status.is("queued")) {
        return;
    }
    let Some(ending) = ending(body, out) else { return };
    items(body, false, out);
    end(Some(body), ending, out);
}

fn remember<'r>(response: Option<Value<'r>>, out: &mut Translated<'r>) {
    let Some(response) = response else { return };
    if let Some(id) = named(response, "id") {
        out.response_id = Some(id);
    }
    conversation(response, out);
}

/// `conversation`: an id, or an object with one.
pub(super) fn conversation<'r>(holder: Value<'r>, out: &mut Translated<'r>) {
    let object = member(holder, "conversation").and_then(|object| named(object, "id"));
    if let Some(id) = named(holder, "conversation").or(object) {
        out.conversation = Some(id);
    }
}
