//! Detect: provider and event type told from a value's shape, where no attribute says them.
//!
//! A guess that is wrong would judge by the wrong rules, so a shape that two providers share is not
//! guessed: `None`. Providers that this build does not read are told too, so that their records pass and
//! are counted. xAI's Responses look exactly like OpenAI's and are taken for them.

use super::{Provider, for_each_event, type_of};
use crate::engine::envelope::{Envelope, EventType};
use crate::engine::json::{JsonLimits, Kind, Value};
use bumpalo::Bump;

/// Tells provider and event type of bare data by its shape; host events have no provider. `None`: not known.
pub fn detect(data: Value<'_>) -> Option<(Option<Provider>, EventType)> {
    if data.kind() == Kind::Array {
        let first = data.items().find(|item| item.kind() == Kind::Object)?;
        return detect(first).filter(|(_, kind)| matches!(kind, EventType::ModelChunk | EventType::McpMessage));
    }
    if data.kind() != Kind::Object {
        return None;
    }
    if let Some(found) = by_type(data).or_else(|| by_object(data)) {
        return Some((Some(found.0), found.1));
    }
    let has = |name| data.get(name).is_some();
    if has("jsonrpc") {
        return Some((Some(Provider::Mcp), EventType::McpMessage));
    }
    if has("call_id") && (has("content") || has("outcome")) {
        return Some((None, EventType::ToolResult));
    }
    if has("call_id") && (has("tool") || has("idempotency_key") || has("arguments_sha256")) {
        return Some((None, EventType::ToolStarted));
    }
    if has("candidates") || has("promptFeedback") || has("usageMetadata") && has("responseId") {
        return Some((Some(Provider::GeminiGenerateContent), EventType::ModelChunk));
    }
    const SERVER: [&str; 5] = ["goAway", "serverContent", "setupComplete", "toolCall", "toolCallCancellation"];
    if SERVER.into_iter().any(has) {
        return Some((Some(Provider::GeminiLive), EventType::ModelChunk));
    }
    by_request(data).map(|provider| (Some(provider), EventType::ModelRequest))
}

/// The provider of an event that names none, from its data. `None` also where the data cannot be read.
pub fn detect_provider<'r>(bump: &'r Bump, envelope: &Envelope<'r>, limits: JsonLimits) -> Option<Provider> {
    let mut found = None;
    let mut each = |value: Value<'r>| {
        if found.is_none() {
            found = detect(value).and_then(|(provider, _)| provider);
        }
    };
    for_each_event(bump, envelope.data?, limits, &mut each);
    found
}

fn by_type(data: Value<'_>) -> Option<(Provider, EventType)> {
    let kind = type_of(data);
    let has = |name| data.get(name).is_some();
    Some(match &*kind {
        "message" if has("role") && has("stop_reason") => (Provider::AnthropicMessages, EventType::ModelResponse),
        "message_start"
        | "message_delta"
        | "message_stop"
        | "content_block_start"
        | "content_block_delta"
        | "content_block_stop"
        | "ping" => (Provider::AnthropicMessages, EventType::ModelChunk),
        "error" if has("sequence_number") || !has("error") => (Provider::OpenAiResponses, EventType::ModelChunk),
        "error" => (Provider::AnthropicMessages, EventType::ModelChunk),
        "keepalive" => (Provider::OpenAiResponses, EventType::ModelChunk),
        kind if kind.starts_with("response.") => (Provider::OpenAiResponses, EventType::ModelChunk),
        _ => return None,
    })
}

fn by_object(data: Value<'_>) -> Option<(Provider, EventType)> {
    let object = data.get("object").and_then(|object| object.str());
    Some(match object.as_deref() {
        Some("response") => (Provider::OpenAiResponses, EventType::ModelResponse),
        Some("chat.completion") => (Provider::OpenAiChat, EventType::ModelResponse),
        Some("chat.completion.chunk") => (Provider::OpenAiChat, EventType::ModelChunk),
        Some(_) => return None,
        None if is_array(data, "output") && data.get("status").is_some() => {
            (Provider::OpenAiResponses, EventType::ModelResponse)
        }
        None => return None,
    })
}

fn by_request(data: Value<'_>) -> Option<Provider> {
    let has = |name| data.get(name).is_some();
    if is_array(data, "contents") {
        return Some(Provider::GeminiGenerateContent);
    }
    const CLIENT: [&str; 7] = [
        "clientContent",
        "client_content",
        "realtimeInput",
        "realtime_input",
        "setup",
        "toolResponse",
        "tool_response",
    ];
    if CLIENT.into_iter().any(|name| data.get(name).is_some_and(|value| value.kind() == Kind::Object)) {
        return Some(Provider::GeminiLive);
    }
    if has("input") && has("model") {
        return Some(Provider::OpenAiResponses);
    }
    let messages = data.get("messages").filter(|m| m.kind() == Kind::Array)?;
    let tools = data.get("tools");
    let any_tool = |name: &str| tools.is_some_and(|tools| tools.items().any(|tool| tool.get(name).is_some()));
    let any_role = |role: &str| {
        let is = |message: Value<'_>| message.get("role").is_some_and(|r| r.is(role));
        messages.items().any(is)
    };
    let any_block = messages.items().any(|message| {
        let blocks = message.get("content").into_iter().flat_map(|c| c.items());
        let mut kinds = blocks.map(type_of);
        kinds.any(|kind| matches!(&*kind, "tool_use" | "tool_result"))
    });
    let claude = data.get("model").is_some_and(|model| model.raw().starts_with(b"\"claude"));
    if claude || has("system") || has("anthropic_version") || any_tool("input_schema") || any_block {
        return Some(Provider::AnthropicMessages);
    }
    let chat = any_tool("function") || any_role("tool") || any_role("system") || any_role("developer");
    (chat || has("max_completion_tokens")).then_some(Provider::OpenAiChat)
}

fn is_array(data: Value<'_>, name: &str) -> bool {
    data.get(name).is_some_and(|value| value.kind() == Kind::Array)
}
