//! Anthropic Messages (`POST /v1/messages`).
//!
//! # Wire shapes read
//! Streams: `message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`,
//! `message_delta`, `message_stop`, `ping`, `error`. Whole bodies: `type: "message"`, `type: "error"`.
//! Requests: `system`, `tools[]`, `messages[]` with calls, results, thinking, media, documents; read by
//! `anthropic/request.rs`, results' content by `anthropic/content.rs`.
//!
//! # How a call is addressed
//! By its content block's `index` in the message, `(index, 0)`; in a whole body (and in
//! `message_start.message.content`) by its place in `content[]`. A server tool's result names its call by
//! `tool_use_id`, possibly in a later message than the call's.
//!
//! # What ends a call
//! `content_block_stop` closes it. `stop_reason` says how the response ends and `message_stop` that it did.
//! `tool_use` lets every call be acted on; `end_turn` and `stop_sequence` only those that the provider runs;
//! `pause_turn` leaves those open for the next message. A server tool's result block proves that its call was
//! run with the arguments as they stand, whatever the ending.
//!
//! # Oddities
//! - `input` is an object, streamed as JSON text: the form is `JsonText` in both cases, and `Args` says which.
//!   The block's own `input` stands only if no non-empty delta follows (Kimi, calls made from code execution).
//! - `message_start.message.content` may hold finished blocks for which no block events follow (programmatic
//!   tool calling).
//! - `content_block_stop` names no kind, so text blocks are closed too; a close of what is no call means nothing.
//! - `message_delta` may come with usage alone, or twice.
//! - A client call beside `end_turn` was run by the provider's own code: it is cut, not final.
//! - A second `message_start` in one stream (a gateway's retry) is a `Begin` like any other; the state knows
//!   that a response was open.
//! - Citations repeat text of results that had a verdict: they are opaque, and counted. `thinking` and `compaction`
//!   are what the model keeps for itself; of signed thinking, digests are kept.

mod content;
mod request;

pub(super) use request::{request, tool_result};

use super::{
    Translated, member, named, object, opaque, position, resembles, string, type_of, unclear, unknown_event,
    unknown_item,
};
use crate::engine::event::{
    Args, CallFacts, CutReason, Event, Executor, Failure, Fate, Form, ItemStatus, Name, ResultItem, ResultShape, Slot,
    Stop,
};
use crate::engine::json::{Kind, Value};

/// The types of events and bodies.
const EVENTS: [&str; 9] = [
    "content_block_delta",
    "content_block_start",
    "content_block_stop",
    "error",
    "message",
    "message_delta",
    "message_start",
    "message_stop",
    "ping",
];
const DELTAS: [&str; 6] =
    ["citations_delta", "compaction_delta", "input_json_delta", "signature_delta", "text_delta", "thinking_delta"];
const CALLS: [&str; 3] = ["mcp_tool_use", "server_tool_use", "tool_use"];

/// One event of a stream, or a whole body.
pub(super) fn response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    match &*type_of(value) {
        "content_block_delta" => delta(value, out),
        "content_block_start" => match (position(value, "index"), object(value, "content_block")) {
            (Some(index), Some(item)) => block(item, Slot(index, 0), true, out),
            _ => unclear(value, out),
        },
        "content_block_stop" => match position(value, "index") {
            Some(index) => out.events.push(Event::Close { slot: Slot(index, 0), status: ItemStatus::Complete }),
            None => unclear(value, out),
        },
        "message_start" => match object(value, "message") {
            Some(message) => begin(message, out),
            None => unclear(value, out),
        },
        "message_delta" => match value.get("delta") {
            Some(delta) if delta.kind() == Kind::Object => stop(delta, out),
            Some(delta) if !delta.is_null() => unclear(delta, out),
            _ => {}
        },
        "message_stop" => out.events.push(Event::End { choice: None }),
        "ping" => {}
        "message" => {
            begin(value, out);
            out.events.push(Event::End { choice: None });
        }
        "error" => error(out),
        "" if value.get("error").is_some_and(|e| e.kind() == Kind::Object) => error(out),
        kind => unknown_event(kind, value, &EVENTS, out),
    }
}

fn error(out: &mut Translated<'_>) {
    let reason = CutReason::Failed;
    out.events.push(Event::Error { reason });
}

fn delta<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    let (Some(index), Some(delta)) = (position(value, "index"), object(value, "delta")) else {
        return unclear(value, out);
    };
    let kind = type_of(delta);
    let text = match &*kind {
        "text_delta" => "text",
        "thinking_delta" => "thinking",
        "citations_delta" => return opaque(delta, "citation", out),
        "compaction_delta" => return,
        "signature_delta" => {
            if let Some(seal) = named(delta, "signature") {
                signed(Slot(index, 0), seal, out);
            }
            return;
        }
        "input_json_delta" => "partial_json",
        _ if kind.is_empty() || delta.get("partial_json").is_some() || resembles(&kind, &DELTAS) => {
            return unclear(delta, out);
        }
        // Of a block that is no call it means nothing; of a call it is text that is lost.
        _ => return opaque(value, "delta", out),
    };
    match string(delta, text) {
        Some(text) if kind == "input_json_delta" => {
            out.events.push(Event::Append { slot: Slot(index, 0), part: 0, text });
        }
        Some(text) if kind == "thinking_delta" => out.events.push(Event::Thought { slot: Slot(index, 0), text }),
        Some(_) => {}
        None => unclear(delta, out),
    }
}

/// A message as far as it is known: at the start of a stream usually without content or ending.
fn begin<'r>(message: Value<'r>, out: &mut Translated<'r>) {
    let id = named(message, "id");
    if id.is_some() {
        out.response_id = id;
    }
    out.events.push(Event::Begin { id, again: false });
    let content = member(message, "content");
    if let Some(content) = content.filter(|content| content.kind() != Kind::Array) {
        return unclear(content, out);
    }
    for (item, index) in content.into_iter().flat_map(|content| content.items()).zip(0..) {
        block(item, Slot(index, 0), false, out);
    }
    stop(message, out);
}

/// `stop_reason`, where there is one.
fn stop<'r>(holder: Value<'r>, out: &mut Translated<'r>) {
    let Some(reason) = holder.get("stop_reason").filter(|reason| !reason.is_null()) else {
        return;
    };
    let reason = reason.str().unwrap_or_default();
    let (client, provider) = match &*reason {
        "tool_use" => (Fate::Final, Fate::Final),
        "end_turn" | "stop_sequence" => (Fate::Cut(CutReason::EndedOtherwise), Fate::Final),
        "pause_turn" => (Fate::Cut(CutReason::Paused), Fate::Carry),
        reason => {
            let cut = Fate::Cut(match reason {
                "max_tokens" | "model_context_window_exceeded" => CutReason::MaxTokens,
                "compaction" => CutReason::Paused,
                "refusal" => CutReason::Refused,
                _ => CutReason::EndedOtherwise,
            });
            (cut, cut)
        }
    };
    out.events.push(Event::Stop(Stop { client, provider, choice: None }));
}

/// One content block of a response: opened by a stream, or finished.
fn block<'r>(item: Value<'r>, slot: Slot, streamed: bool, out: &mut Translated<'r>) {
    let kind = type_of(item);
    if let Some(call) = call(&kind, item, slot) {
        out.events.push(match streamed {
            true => Event::Open(call),
            false => Event::Item { call, status: ItemStatus::Complete, listed: false },
        });
    } else if is_server_result(&kind, item) {
        let result = server_result(&kind, item);
        let closes = true;
        out.events.push(Event::ServerResult { result, closes });
    } else {
        match &*kind {
            "text" => {
                let citations = item.get("citations").into_iter().flat_map(|list| list.items());
                citations.for_each(|citation| opaque(citation, "citation", out));
            }
            "thinking" | "redacted_thinking" => {
                named(item, "thinking").into_iter().for_each(|text| out.events.push(Event::Thought { slot, text }));
                let name = if kind == "thinking" { "signature" } else { "data" };
                named(item, name).into_iter().for_each(|seal| signed(slot, seal, out));
            }
            "compaction" | "fallback" => {}
            "container_upload" => opaque(item, "file", out),
            _ => unknown_item(&kind, item, "block", &CALLS, out),
        }
    }
}

fn signed<'r>(slot: Slot, seal: Value<'r>, out: &mut Translated<'r>) {
    out.events.push(Event::Signed { slot, of_call: false, seal, id: None, required: true });
}

/// The call that a block is, in a response or echoed in a request.
fn call<'r>(kind: &str, item: Value<'r>, slot: Slot) -> Option<CallFacts<'r>> {
    let executor = match kind {
        "tool_use" => Executor::Client,
        "server_tool_use" | "mcp_tool_use" => Executor::Provider,
        _ => return None,
    };
    Some(CallFacts {
        slot,
        id: named(item, "id"),
        item_id: None,
        name: named(item, "name").map_or(Name::None, Name::Wire),
        namespace: None,
        server: named(item, "server_name"),
        executor,
        form: Form::JsonText,
        args: item.get("input").map_or(Args::Absent, Args::Raw),
        item,
    })
}

/// Whether a block is the result of a tool that the provider ran. A type that is new to this build counts
/// too, since it names its call: better looked at whole than passed by.
fn is_server_result(kind: &str, item: Value<'_>) -> bool {
    kind.ends_with("_tool_result") && named(item, "tool_use_id").is_some()
}

fn server_result<'r>(kind: &str, item: Value<'r>) -> ResultItem<'r> {
    let content = item.get("content");
    let known = match kind {
        "web_search_tool_result" => Some(Name::Implied("web_search")),
        "web_fetch_tool_result" => Some(Name::Implied("web_fetch")),
        "code_execution_tool_result" => Some(Name::Implied("code_execution")),
        "bash_code_execution_tool_result" => Some(Name::Implied("bash_code_execution")),
        "text_editor_code_execution_tool_result" => Some(Name::Implied("text_editor_code_execution")),
        "advisor_tool_result" => Some(Name::Implied("advisor")),
        // Their calls bear a name of their own.
        "tool_search_tool_result" | "mcp_tool_result" => Some(Name::None),
        _ => None,
    };
    let error = content.filter(|content| type_of(*content).ends_with("_error"));
    let (failure, failure_value) = match error {
        Some(error) => (Failure::Failed, error.get("error_code")),
        None => content::flag(item),
    };
    ResultItem {
        content,
        parts: match known {
            Some(_) => content::parts(content),
            None => content::whole(content),
        },
        call_id: named(item, "tool_use_id"),
        tool: known.unwrap_or(Name::None),
        failure,
        failure_value,
        error_code: error.map(content::error_code),
        addresses: content::addresses(content),
        ..ResultItem::new(ResultShape::Server, item)
    }
}
