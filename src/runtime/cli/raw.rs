//! Raw provider traffic in a file, as events.

use crate::engine::event::Provider;
use serde_json::Value;

/// What a raw body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Raw {
    pub name: &'static str,
    pub sse: bool,
}

const REQUEST: Raw = Raw { name: "io.sluicegate.model.request.v1", sse: false };
const RESPONSE: Raw = Raw { name: "io.sluicegate.model.response.v1", sse: false };
const CHUNK: Raw = Raw { name: "io.sluicegate.model.chunk.v1", sse: false };
const CLOSED: Raw = Raw { name: "io.sluicegate.model.closed.v1", sse: false };
const MESSAGE: Raw = Raw { name: "io.sluicegate.mcp.message.v1", sse: false };

/// A file of raw traffic as events: one JSON body, one JSON event a line, or an SSE stream; a stream ends with
/// its closing, since the file does. An empty file is none.
pub(super) fn events(provider: Provider, bytes: &[u8]) -> Vec<(Raw, &[u8])> {
    if bytes.trim_ascii().is_empty() {
        return Vec::new();
    }
    let closes = provider != Provider::Mcp;
    if let Ok(whole) = serde_json::from_slice::<Value>(bytes) {
        let kind = kind(provider, &whole);
        let closing = (kind == CHUNK).then_some((CLOSED, &b""[..]));
        return [(kind, bytes)].into_iter().chain(closing).collect();
    }
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|l| !l.is_empty()).collect();
    let parsed: Option<Vec<Value>> = lines.iter().map(|l| serde_json::from_slice(l).ok()).collect();
    let stream = Raw { sse: true, ..if closes { CHUNK } else { MESSAGE } };
    let mut events = match parsed {
        Some(values) => lines.iter().zip(&values).map(|(l, v)| (kind(provider, v), *l)).collect(),
        None => vec![(stream, bytes)],
    };
    if closes {
        events.push((CLOSED, b""));
    }
    events
}

fn kind(provider: Provider, body: &Value) -> Raw {
    let has = |names: &[&str]| names.iter().any(|n| body.get(n).is_some());
    match provider {
        Provider::Mcp => return MESSAGE,
        Provider::GeminiLive => {
            const CLIENT: [&str; 7] = [
                "clientContent",
                "client_content",
                "realtimeInput",
                "realtime_input",
                "setup",
                "toolResponse",
                "tool_response",
            ];
            return if has(&CLIENT) { REQUEST } else { CHUNK };
        }
        _ => {}
    }
    if body.is_array() {
        CHUNK
    } else if has(&["messages", "input", "contents"]) && !has(&["output", "choices", "candidates"]) {
        REQUEST
    } else if body["type"] == "message" || body["object"] == "response" || body["object"] == "chat.completion" {
        RESPONSE
    } else if body["type"].is_string() || body["object"] == "chat.completion.chunk" {
        CHUNK
    } else {
        RESPONSE
    }
}
