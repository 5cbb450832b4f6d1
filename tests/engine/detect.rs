//! Provider and kind of bare data: one row a shape, and recorded traffic with its attributes covered.

use crate::support::{files, lines, shared};
use bumpalo::Bump;
use sluicegate::engine::envelope::EventType;
use sluicegate::engine::json::{JsonLimits, parse};
use sluicegate::engine::layer::Layer;
use sluicegate::engine::provider::{Provider, detect};
use std::collections::BTreeMap;

/// `provider kind`, `host kind`, or `-`.
fn told(text: &str) -> String {
    let bump = Bump::new();
    let layer = Layer::record(&bump, text.as_bytes());
    let Ok(value) = parse(&bump, layer, JsonLimits::default()) else { return "unreadable".to_owned() };
    match detect(value) {
        None => "-".to_owned(),
        Some((provider, kind)) => format!("{} {}", provider.map_or("host", Provider::name), word(kind)),
    }
}

fn word(kind: EventType) -> &'static str {
    match kind {
        EventType::ModelRequest => "request",
        EventType::ModelResponse => "response",
        EventType::ModelChunk => "chunk",
        EventType::ToolStarted => "started",
        EventType::ToolResult => "result",
        EventType::McpMessage => "message",
        EventType::ModelClosed | EventType::Render | EventType::Unknown => "other",
    }
}

#[test]
fn each_shape() {
    let rows = [
        (r#"{"type":"response.created","response":{"id":"resp_1"}}"#, "openai.responses chunk"),
        (r#"{"type":"keepalive","sequence_number":3}"#, "openai.responses chunk"),
        (r#"{"type":"error","code":"x","message":"m"}"#, "openai.responses chunk"),
        (r#"{"type":"error","sequence_number":3,"error":{"code":"x"}}"#, "openai.responses chunk"),
        (r#"{"id":"resp_1","object":"response","status":"completed","output":[]}"#, "openai.responses response"),
        (r#"{"id":"r","status":"completed","output":[]}"#, "openai.responses response"),
        (r#"{"model":"gpt-x","input":"hi"}"#, "openai.responses request"),
        (
            r#"{"id":"9d6f2c1e-0000-4000-8000-000000000000","object":"response","model":"grok-9","status":"completed","output":[]}"#,
            "openai.responses response",
        ),
        (r#"{"id":"c","object":"chat.completion.chunk","model":"gpt-x","choices":[]}"#, "openai.chat chunk"),
        (r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{}}]}"#, "openai.chat chunk"),
        (r#"{"id":"","object":"","model":"","choices":[],"prompt_filter_results":[]}"#, "openai.chat chunk"),
        (r#"{"id":"c","object":"chat.completion","choices":[{"message":{}}]}"#, "openai.chat response"),
        (r#"{"id":"c","choices":[{"message":{}}]}"#, "openai.chat response"),
        (r#"{"id":"c","object":"text_completion","choices":[{"text":"a"}]}"#, "-"),
        (r#"{"id":"c","object":"chat.completion.chunk","model":"grok-9","choices":[]}"#, "xai.chat chunk"),
        (r#"{"id":"c","object":"chat.completion","model":"grok-9","choices":[]}"#, "xai.chat response"),
        (r#"{"model":"grok-9","messages":[]}"#, "xai.chat request"),
        (r#"{"model":"x-ai/grok-9","messages":[{"role":"tool"}]}"#, "openai.chat request"),
        (r#"{"model":"gpt-x","messages":[{"role":"user","content":"x"}]}"#, "openai.chat request"),
        (r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[]}]}"#, "openai.chat request"),
        (r#"{"model":"m","messages":[{"role":"system","content":"x"}]}"#, "openai.chat request"),
        (r#"{"model":"claude-x","messages":[{"role":"tool","content":"x"}]}"#, "openai.chat request"),
        (r#"{"model":"m","messages":[],"tools":[{"type":"function","function":{}}]}"#, "openai.chat request"),
        (r#"{"type":"message_start","message":{}}"#, "anthropic.messages chunk"),
        (r#"{"type":"ping"}"#, "anthropic.messages chunk"),
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#, "anthropic.messages chunk"),
        (r#"{"type":"message","role":"assistant","content":[],"stop_reason":null}"#, "anthropic.messages response"),
        (r#"{"model":"claude-x","messages":[]}"#, "anthropic.messages request"),
        (r#"{"model":"m","system":"s","messages":[]}"#, "anthropic.messages request"),
        (r#"{"model":"m","messages":[],"tools":[{"name":"f","input_schema":{}}]}"#, "anthropic.messages request"),
        (
            r#"{"model":"gpt-x","messages":[{"role":"user","content":[{"type":"tool_result"}]}]}"#,
            "anthropic.messages request",
        ),
        // Marks of both, or of neither.
        (r#"{"model":"m","messages":[{"role":"tool"},{"role":"user","content":[{"type":"tool_use"}]}]}"#, "-"),
        (r#"{"model":"m","system":"s","messages":[{"role":"system"}]}"#, "-"),
        (r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#, "-"),
        (r#"{"candidates":[]}"#, "gemini.generate_content chunk"),
        (r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, "gemini.generate_content chunk"),
        (r#"{"usageMetadata":{},"modelVersion":"g"}"#, "gemini.generate_content chunk"),
        (r#"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}"#, "gemini.generate_content chunk"),
        (r#"[{"candidates":[]},{"error":{"code":500,"status":"INTERNAL"}}]"#, "gemini.generate_content chunk"),
        (r#"{"contents":[{"parts":[]}]}"#, "gemini.generate_content request"),
        (r#"{"serverContent":{"turnComplete":true}}"#, "gemini.live chunk"),
        (r#"{"setupComplete":{}}"#, "gemini.live chunk"),
        (r#"{"toolCall":{"functionCalls":[]}}"#, "gemini.live chunk"),
        (r#"{"toolCallCancellation":{"ids":["a"]}}"#, "gemini.live chunk"),
        (r#"{"goAway":{"timeLeft":"9s"}}"#, "gemini.live chunk"),
        (r#"{"setup":{"model":"m"}}"#, "gemini.live request"),
        (r#"{"client_content":{"turns":[]}}"#, "gemini.live request"),
        (r#"{"toolResponse":{"functionResponses":[]}}"#, "gemini.live request"),
        (r#"{"tool_response":{"function_responses":[]}}"#, "gemini.live request"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, "mcp message"),
        (r#"{"result":{},"id":1,"jsonrpc":"2.0"}"#, "mcp message"),
        (r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"x"}]"#, "mcp message"),
        // What a server puts beside its message makes it nobody else's.
        (r#"[{"candidates":[]},{"jsonrpc":"2.0","id":1,"result":{}}]"#, "mcp message"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"type":"message_stop","candidates":[]}"#, "mcp message"),
        // Values of one record that are not of one provider.
        (r#"[{"type":"ping"},{"type":"response.created"}]"#, "-"),
        (r#"[{"type":"novel"},{"type":"response.created"}]"#, "openai.responses chunk"),
        (r#"[{"model":"gpt-x","input":"hi"}]"#, "-"),
        // An error body that four providers write.
        (r#"{"error":{"message":"m","type":"invalid_request_error","code":null}}"#, "-"),
        (r#"{"error":"no key","code":"unauthenticated"}"#, "-"),
        (r#"{"call_id":"c","content":"x"}"#, "host result"),
        (r#"{"call_id":"c","tool":"t"}"#, "host started"),
        (r#"{"anything":1}"#, "-"),
        (r#"["[DONE]"]"#, "-"),
        ("7", "-"),
    ];
    for (text, expected) in rows {
        assert_eq!(told(text), expected, "{text}");
    }
}

/// No recording is taken for another provider's, but xAI's Responses for OpenAI's.
#[test]
fn recorded_traffic_is_not_mistaken() {
    let Some(corpus) = shared("corpus") else { return };
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    for path in files(&corpus.join("recorded")).iter().flat_map(|folder| files(folder)) {
        for (n, line) in lines(&path).iter().enumerate() {
            let event: serde_json::Value = serde_json::from_slice(line).unwrap();
            let (provider, Some(data)) = (event["provider"].as_str().unwrap_or_default(), event.get("data")) else {
                continue;
            };
            if data.is_string() {
                continue;
            }
            let text = told(&data.to_string());
            let found = text.split(' ').next().unwrap_or_default().to_owned();
            // One deployment speaks Chat where Responses were asked for; the attribute says what was asked.
            let chat = data["object"] == "chat.completion.chunk" && found == "openai.chat";
            let xai = (provider, &*found) == ("xai.responses", "openai.responses");
            let right = found == "-" || found == provider || chat || xai;
            *counts.entry((provider.to_owned(), found)).or_insert(0) += 1;
            if !right {
                wrong.push(format!("{} {n}: {text}", path.display()));
            }
        }
    }
    for ((provider, found), n) in &counts {
        println!("{provider}: {n} told as {found}");
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}
