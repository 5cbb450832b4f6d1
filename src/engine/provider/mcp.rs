//! MCP: JSON-RPC messages in both directions, of the protocol versions 2024-11-05 to 2026-07-28.
//!
//! # Wire shapes read
//! One message, or an array of them (a batch, legal in 2025-03-26 only; read whatever the version), or the
//! events of a streamable response. A request has `method` and `id`, a notification `method` alone, an answer
//! `result` or `error`. The version is not asked for: handshakes may be missing (2026-07-28 has none, older
//! servers answer without), and one server may speak two versions, so every message is read by its own shape.
//! Of requests, `tools/call` is a call; of answers see [`answer`]. Notifications that matter are
//! `notifications/cancelled` and `notifications/tools/list_changed`. Text that reaches a model by other ways
//! (sampling, elicitation, progress, logs) is opaque, each with a kind of its own.
//!
//! # How a call is addressed
//! By the JSON-RPC id, within its conversation, server (`mcpserver`) and asking side (`direction`): both sides
//! number independently, and `1` is not `"1"`. Who sent a message is said by `direction`; where that is
//! missing, by what only one side may say (`tools/call`, `sampling/createMessage`). Then a request does not take
//! the place of a call that waits under its id, and an answer that may be a tool's is judged as one.
//!
//! # What ends a call
//! A `tools/call` is whole and thereby final at once; one without an id too, since a lax server would run it.
//! Its answer is a result, unless `resultType` is `input_required` and nothing stands beside what that needs
//! (clients that do not know it read the rest): then the client sends the call again with `inputResponses` or
//! `requestState`, which is the same call going on.
//!
//! # Oddities
//! - `arguments` may be missing, which is `{}`; `null` stands as it is.
//! - `error` may stand beside a `result` as null.
//! - `result` and `error` in one message, or `method` beside either, could be read in two ways: unclear. So is a
//!   known method misspelt, and a `tools/call` that the server sends or that has no name.
//! - A member that is a known one in another case (`Result`, `Arguments`, `Tools`, a tool's `Description`) is what some readers take for it: unclear.
//! - What cannot be read, or is over the size limit, while a client waits for its server's list may be that list: until
//!   another one is read, the server declares no tool.
//! - Events without data keep a stream alive: nothing.
//! - An answer may come again as it was, when a stream is resumed.
//! - An error may have no id, or null: it answers something, nobody knows what.
//! - `jsonrpc` may be missing or stand last.
//! - A notification of progress without a `message` says nothing to a model.

pub mod answer;

use super::{Translated, is_clear, member, named, object, resembles, unclear};
use crate::engine::envelope::Envelope;
use crate::engine::event::{Event, Method, Rpc, RpcSays, Side};
use crate::engine::json::{Kind, Value};

/// Members below which everything is content: what a server or a tool wrote, schemas, what is opaque.
const CONTENT: [&str; 7] =
    ["_meta", "arguments", "data", "inputSchema", "outputSchema", "requestState", "structuredContent"];

/// Methods by which something is decided: none of them may hide behind another spelling.
const DECISIVE: [&str; 7] = [
    "tools/call",
    "tools/list",
    "resources/read",
    "prompts/get",
    "tasks/result",
    "notifications/cancelled",
    "notifications/tools/list_changed",
];

/// Who sent the record, by its attribute.
pub fn direction(envelope: &Envelope<'_>) -> Option<Side> {
    let said = envelope.direction?.trim();
    [("client", Side::Client), ("server", Side::Server)]
        .into_iter()
        .find_map(|(name, side)| said.eq_ignore_ascii_case(name).then_some(side))
}

/// One message of a record that `sender` sent.
pub(super) fn message<'r>(item: Value<'r>, sender: Option<Side>, out: &mut Translated<'r>) {
    if !is_clear(item, &CONTENT, out) {
        return;
    }
    match read(item, sender) {
        Some(rpc) => out.events.push(Event::Rpc(rpc)),
        None => unclear(item, out),
    }
}

fn read(item: Value<'_>, sender: Option<Side>) -> Option<Rpc<'_>> {
    let has_id = matches!(item.get("id").map(|id| id.kind()), Some(Kind::String | Kind::Number));
    let id = item.get("id").filter(|_| has_id);
    let disguised =
        |(name, _): (Value<'_>, Value<'_>)| in_another_case(name, ["id", "method", "params", "result", "error"]);
    if item.kind() != Kind::Object || id.is_none() && member(item, "id").is_some() || item.members().any(disguised) {
        return None;
    }
    if item.get("result").is_some_and(lists_in_disguise) {
        return None;
    }
    let (from, says) = match (item.get("method"), item.get("result"), item.get("error")) {
        (Some(method), None, None) => said(item, &method.str()?, id.is_some(), sender)?,
        (None, Some(result), None) => (sender, RpcSays::Result(result)),
        (None, Some(result), Some(error)) if error.is_null() => (sender, RpcSays::Result(result)),
        (None, None, Some(error)) if !error.is_null() => (sender, RpcSays::Error(error)),
        _ => return None,
    };
    Some(Rpc { item, from, id, says })
}

/// A list of tools, or a server's instructions, of which readers that ignore case take another part than the rest.
fn lists_in_disguise(result: Value<'_>) -> bool {
    const LISTED: [&str; 3] = ["tools", "instructions", "nextCursor"];
    const TOOL: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];
    let disguised = |value: Value<'_>, known: &[&'static str]| {
        value.kind() == Kind::Object && value.members().any(|(name, _)| in_another_case(name, known.iter().copied()))
    };
    let tools = result.get("tools").filter(|tools| tools.kind() == Kind::Array);
    disguised(result, &LISTED) || tools.into_iter().flat_map(|tools| tools.items()).any(|tool| disguised(tool, &TOOL))
}

/// A member that is a known one but for its case: some readers take it for that.
fn in_another_case<'n>(name: Value<'_>, known: impl IntoIterator<Item = &'n str>) -> bool {
    let text = name.text().unwrap_or_default();
    known.into_iter().any(|known| text.eq_ignore_ascii_case(known.as_bytes()) && *text != *known.as_bytes())
}

/// What a request or a notification says, and who says it.
fn said<'r>(item: Value<'r>, method: &str, asks: bool, sender: Option<Side>) -> Option<(Option<Side>, RpcSays<'r>)> {
    if resembles(method, &DECISIVE) && !DECISIVE.contains(&method) {
        return None;
    }
    let from = sender.or_else(|| only_sender(method));
    let client = from == Some(Side::Client);
    let request = |method| RpcSays::Request { method, kind: None };
    let says = match method {
        "tools/call" if client => call(item)?,
        // Nobody may take what a server asks for a call of the model's.
        "tools/call" => return None,
        "tools/list" if asks && client => {
            let goes_on = object(item, "params").and_then(|params| member(params, "cursor")).is_some();
            request(if goes_on { Method::ListPage } else { Method::List })
        }
        "resources/read" if asks && client => request(Method::Read),
        "prompts/get" if asks && client => request(Method::Prompt),
        "tasks/result" if asks && client => request(Method::Task),
        "initialize" | "server/discover" if asks && client => request(Method::Hello),
        "notifications/cancelled" if !asks => match object(item, "params").and_then(|p| member(p, "requestId")) {
            Some(request) => RpcSays::Cancelled { request },
            // 2025-11-25 lets it speak of a task instead.
            None => RpcSays::Notice { kind: Some("mcp_cancel") },
        },
        "notifications/tools/list_changed" if !asks && !client => RpcSays::ToolsChanged,
        _ if asks => RpcSays::Request { method: Method::Other, kind: asked(method, from) },
        _ => RpcSays::Notice { kind: noticed(item, method) },
    };
    Some((from, says))
}

/// The side that alone may send this.
fn only_sender(method: &str) -> Option<Side> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| method.starts_with(prefix));
    let client =
        ["tools/", "resources/", "prompts/", "completion/", "logging/", "initialize", "server/", "subscriptions/"];
    let server = ["sampling/", "elicitation/", "roots/", "notifications/message", "notifications/tools/"];
    match method {
        "notifications/initialized" | "notifications/roots/list_changed" => Some(Side::Client),
        "notifications/resources/updated" | "notifications/resources/list_changed" => Some(Side::Server),
        "notifications/prompts/list_changed" | "notifications/elicitation/complete" => Some(Side::Server),
        "tasks/result" => Some(Side::Client),
        _ if starts(&client) => Some(Side::Client),
        _ if starts(&server) => Some(Side::Server),
        _ => None,
    }
}

/// What of a request nobody looks into; `None` where it has no text of a server.
fn asked(method: &str, from: Option<Side>) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("mcp_sampling"),
        "elicitation/create" => Some("mcp_elicitation"),
        "ping" | "roots/list" => None,
        // What the client asks for it wrote itself.
        "resources/list"
        | "resources/templates/list"
        | "prompts/list"
        | "completion/complete"
        | "logging/setLevel"
        | "resources/subscribe"
        | "resources/unsubscribe"
        | "subscriptions/listen"
        | "tasks/get"
        | "tasks/list"
        | "tasks/cancel"
            if from != Some(Side::Server) =>
        {
            None
        }
        _ => Some("mcp_request"),
    }
}

fn noticed(item: Value<'_>, method: &str) -> Option<&'static str> {
    let says = || object(item, "params").and_then(|params| member(params, "message")).is_some();
    match method {
        "notifications/progress" => says().then_some("mcp_progress"),
        "notifications/message" => Some("mcp_log"),
        "notifications/initialized"
        | "notifications/roots/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated"
        | "notifications/prompts/list_changed" => None,
        _ => Some("mcp_notification"),
    }
}

fn call(item: Value<'_>) -> Option<RpcSays<'_>> {
    let params = object(item, "params")?;
    if params.members().any(|(name, _)| in_another_case(name, ["name", "arguments"])) {
        return None;
    }
    let again = ["inputResponses", "requestState"].iter().any(|name| member(params, name).is_some());
    Some(RpcSays::Call { name: named(params, "name")?, arguments: params.get("arguments"), again })
}
