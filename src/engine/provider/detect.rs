//! Detect: provider and event type told from a value's shape, where no attribute says them.
//!
//! A guess that is wrong would judge by the wrong rules, so a shape that two providers share, or that has marks
//! of two, is not guessed: `None`, and the record is a dead letter that says so.
//!
//! | provider | chunk | whole response | request |
//! |---|---|---|---|
//! | `openai.responses` | `type` of `response.*`, `keepalive`, `error` flat or numbered | `object: response`; `output[]` beside `status` | `input` and `model` |
//! | `openai.chat` | `object: chat.completion.chunk`; `choices[]` with `delta`, or empty beside an `id` | `object: chat.completion`; `choices[]` with `message` | `messages[]` with marks of Chat |
//! | `xai.chat` | as above, where `model` begins with `grok` | as above | as above |
//! | `anthropic.messages` | `type` of its events, `error` nested | `type: message` | `messages[]` with marks of Messages |
//! | `gemini.generate_content` | `candidates`, `promptFeedback`, `usageMetadata` beside `modelVersion` or `responseId`, `error` with `code` and `status` | as a chunk | `contents[]` |
//! | `gemini.live` | `serverContent`, `setupComplete`, `toolCall`, `toolCallCancellation`, `goAway` | | `setup`, `clientContent`, `realtimeInput`, `toolResponse`, also in snake case |
//! | `mcp` | `jsonrpc`, one message or a batch | | |
//!
//! - Marks of Chat: `tools[].function`, the roles `tool`, `function` and `developer`, `tool_calls`; of Messages:
//!   `tools[].input_schema`, blocks `tool_use` and `tool_result`, `anthropic_version`. They outweigh the
//!   model's name, which outweighs `system`, the role `system` and options that only one of both has.
//! - An object with `jsonrpc` is MCP whatever else it holds, since a server writes the rest of its message; so is
//!   a batch with such an object anywhere in it.
//! - Any other array is what the events in it are, if they agree; so are the server-sent events of one record.
//! - `xai.responses` is never told: its events name no model, and to judge one stream by two names would be
//!   worse than to judge it as `openai.responses`, which is stricter (what xAI runs itself is taken for the
//!   client's).
//! - An error body `{"error":{…}}` of OpenAI's shape is of four providers: not told.

use super::{Provider, for_each_event, type_of};
use crate::engine::envelope::{Envelope, EventType};
use crate::engine::json::{JsonLimits, Kind, Value};
use bumpalo::Bump;

/// Tells provider and event type of bare data by its shape; host events have no provider. `None`: not known.
pub fn detect(data: Value<'_>) -> Option<(Option<Provider>, EventType)> {
    let is_rpc = |value: Value<'_>| value.get("jsonrpc").is_some();
    match data.kind() {
        Kind::Array if data.items().any(is_rpc) => Some((Some(Provider::Mcp), EventType::McpMessage)),
        Kind::Array => {
            // A server writes the rest of its messages, so one of them makes a batch whatever else is in it.
            if data.items().any(|item| item.get("jsonrpc").is_some()) {
                return Some((Some(Provider::Mcp), EventType::McpMessage));
            }
            let mut told = Told::default();
            data.items().for_each(|item| told.add(detect_one(item)));
            told.agreed().filter(|(_, kind)| *kind == EventType::ModelChunk)
        }
        _ => detect_one(data),
    }
}

/// The provider of an event that names none, from its data. `None` also where the data cannot be read.
pub fn detect_provider<'r>(bump: &'r Bump, envelope: &Envelope<'r>, limits: JsonLimits) -> Option<Provider> {
    let mut told = Told::default();
    let mut each = |value: Value<'r>| told.add(detect_one(value));
    for_each_event(bump, envelope.data?, limits, Some(&mut &[][..]), &mut each);
    told.agreed()?.0
}

/// What several values are: the first that is known, unless another is of another provider.
#[derive(Default)]
struct Told {
    first: Option<(Option<Provider>, EventType)>,
    disagree: bool,
}

impl Told {
    fn add(&mut self, found: Option<(Option<Provider>, EventType)>) {
        let Some(found) = found else { return };
        let first = self.first.get_or_insert(found);
        self.disagree |= first.0 != found.0;
    }
    fn agreed(self) -> Option<(Option<Provider>, EventType)> {
        self.first.filter(|_| !self.disagree)
    }
}

fn detect_one(data: Value<'_>) -> Option<(Option<Provider>, EventType)> {
    if data.kind() != Kind::Object {
        return None;
    }
    let has = |name| data.get(name).is_some();
    if has("jsonrpc") {
        return Some((Some(Provider::Mcp), EventType::McpMessage));
    }
    let model = by_type(data).or_else(|| responses(data)).or_else(|| chat(data)).or_else(|| gemini(data));
    if let Some((provider, kind)) = model {
        return Some((Some(provider), kind));
    }
    if has("call_id") && (has("content") || has("outcome")) {
        return Some((None, EventType::ToolResult));
    }
    if has("call_id") && (has("tool") || has("idempotency_key") || has("arguments_sha256")) {
        return Some((None, EventType::ToolStarted));
    }
    by_request(data).map(|provider| (Some(provider), EventType::ModelRequest))
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

fn responses(data: Value<'_>) -> Option<(Provider, EventType)> {
    let named = data.get("object").is_some_and(|object| object.is("response"));
    let old = data.get("object").is_none() && is_array(data, "output") && data.get("status").is_some();
    (named || old).then_some((Provider::OpenAiResponses, EventType::ModelResponse))
}

fn chat(data: Value<'_>) -> Option<(Provider, EventType)> {
    let provider = if has_model(data, &["grok"]) { Provider::XaiChat } else { Provider::OpenAiChat };
    let object = data.get("object").and_then(|object| object.str());
    let first = data.get("choices").and_then(|choices| choices.items().next());
    let within = |name| first.is_some_and(|choice| choice.get(name).is_some());
    let kind = match object.as_deref() {
        Some("chat.completion") => EventType::ModelResponse,
        Some("chat.completion.chunk") => EventType::ModelChunk,
        // Some servers leave it out, or empty.
        None | Some("") if within("delta") => EventType::ModelChunk,
        None | Some("") if within("message") => EventType::ModelResponse,
        None | Some("") if is_array(data, "choices") && first.is_none() && data.get("id").is_some() => {
            EventType::ModelChunk
        }
        _ => return None,
    };
    Some((provider, kind))
}

fn gemini(data: Value<'_>) -> Option<(Provider, EventType)> {
    let is_object = |name: &str| data.get(name).is_some_and(|value| value.kind() == Kind::Object);
    let has = |name| data.get(name).is_some();
    let any = |names: &[&str]| names.iter().any(|name| is_object(name));
    if any(&["serverContent", "setupComplete", "toolCall", "toolCallCancellation", "goAway"]) {
        return Some((Provider::GeminiLive, EventType::ModelChunk));
    }
    let sent = ["setup", "clientContent", "client_content", "realtimeInput", "realtime_input"];
    if any(&sent) || any(&["toolResponse", "tool_response"]) {
        return Some((Provider::GeminiLive, EventType::ModelRequest));
    }
    let error = data.get("error").filter(|_| type_of(data).is_empty());
    let failed = error.is_some_and(|error| {
        let status = error.get("status").is_some_and(|status| status.kind() == Kind::String);
        status && error.get("code").is_some_and(|code| code.kind() == Kind::Number)
    });
    let usage = is_object("usageMetadata") && (has("modelVersion") || has("responseId"));
    let body = has("candidates") || is_object("promptFeedback") || usage || failed;
    body.then_some((Provider::GeminiGenerateContent, EventType::ModelChunk))
}

fn by_request(data: Value<'_>) -> Option<Provider> {
    let has = |name: &&str| data.get(name).is_some();
    if is_array(data, "contents") {
        return Some(Provider::GeminiGenerateContent);
    }
    if has(&"input") && has(&"model") {
        return Some(Provider::OpenAiResponses);
    }
    let messages = data.get("messages").filter(|m| m.kind() == Kind::Array)?;
    let tools = data.get("tools");
    let any_tool = |name: &str| tools.is_some_and(|tools| tools.items().any(|tool| tool.get(name).is_some()));
    let any_role = |roles: &[&str]| {
        let is = |message: Value<'_>| message.get("role").is_some_and(|r| roles.iter().any(|role| r.is(role)));
        messages.items().any(is)
    };
    let any_block = messages.items().any(|message| {
        let blocks = message.get("content").into_iter().flat_map(|c| c.items());
        let mut kinds = blocks.map(type_of);
        kinds.any(|kind| matches!(&*kind, "tool_use" | "tool_result"))
    });
    let calls = messages.items().any(|message| message.get("tool_calls").is_some());
    let chat = any_tool("function") || any_role(&["tool", "function", "developer"]) || calls;
    let anthropic = any_tool("input_schema") || any_block || has(&"anthropic_version");
    const ANTHROPIC: [&str; 3] = ["mcp_servers", "stop_sequences", "system"];
    const CHAT: [&str; 6] =
        ["functions", "logprobs", "max_completion_tokens", "n", "response_format", "stream_options"];
    let is_anthropic = match (anthropic, chat) {
        (true, true) => return None,
        (false, false) => match has_model(data, &["claude"]) {
            true => true,
            false if has_model(data, &["gpt-", "chatgpt-", "o1", "o3", "o4", "grok"]) => false,
            false => match (ANTHROPIC.iter().any(has), CHAT.iter().any(has) || any_role(&["system"])) {
                (true, false) => true,
                (false, true) => false,
                _ => return None,
            },
        },
        (anthropic, _) => anthropic,
    };
    Some(match is_anthropic {
        true => Provider::AnthropicMessages,
        false if has_model(data, &["grok"]) => Provider::XaiChat,
        false => Provider::OpenAiChat,
    })
}

/// The model's name begins so. Behind a router (`x-ai/grok-…`) the wire is the router's.
fn has_model(data: Value<'_>, names: &[&str]) -> bool {
    let model = data.get("model").and_then(|model| model.str()).unwrap_or_default();
    names.iter().any(|name| model.starts_with(name))
}

fn is_array(data: Value<'_>, name: &str) -> bool {
    data.get(name).is_some_and(|value| value.kind() == Kind::Array)
}
