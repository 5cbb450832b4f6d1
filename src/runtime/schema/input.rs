//! What a fleet publishes: the attributes of an event, and the data of the types that are ours.
//!
//! The data of `model.*` and `mcp.message` are the provider's own; `docs/providers.md` says what is read of them.

use super::{Member, always, among, document, object, one_of, or_null, pattern, perhaps, text};
use crate::engine::event::Provider;
use crate::engine::wire::EventType;
use serde_json::{Value, json};

/// A whole number as a text, or as a number in structured mode.
fn number() -> Value {
    json!({"type": ["string", "integer"], "pattern": "^[0-9]+$", "minimum": 0})
}

fn some() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 1024})
}

fn formats() -> Value {
    one_of(&["html", "markdown", "text", "terminal"])
}

/// Every attribute that is read. Those that CloudEvents requires come first.
fn attributes() -> Vec<Member> {
    let providers = Provider::ALL.map(Provider::name);
    let kinds: Vec<&str> = EventType::all().map(EventType::name).collect();
    let optional = |name, about, schema| perhaps(name, about, or_null(schema));
    vec![
        always("specversion", "", json!({"type": "string", "const": "1.0"})),
        always("id", "With `source`, identifies the event", some()),
        always("source", "Who publishes it", some()),
        always("type", "One of those known; others pass, counted", {
            let mut kind = some();
            kind["examples"] = json!(kinds);
            kind
        }),
        optional("datacontenttype", "application/json, or text/event-stream for a piece of the raw stream", text()),
        optional("provider", "The wire format; else told by shape", among(&providers)),
        optional("conversation", "The unit of order and state; else the record key, else an id in the data", some()),
        optional("fleet", "Whose policy applies, where `fleets` permits the claim", some()),
        optional("agent", "", some()),
        optional("responseid", "The exchange: the same on request, response, chunks and closing", some()),
        optional("sequence", "One more with every event of a source in a conversation", number()),
        optional("time", "When it happened; shown, not trusted", json!({"type": "string", "format": "date-time"})),
        optional("traceparent", "W3C trace context, carried to every output", text()),
        optional("tracestate", "", text()),
        optional("mcpserver", "The MCP server's name", some()),
        optional("direction", "Who sent an MCP message", one_of(&["client", "server"])),
        optional("callid", "Of host events whose data do not say it", some()),
        optional("tool", "", some()),
        optional("display", "People will see it, in this form", formats()),
        optional("historyfrom", "Of requests: what stands before this index was sent before", number()),
        optional("httpstatus", "400 and above marks an error body", number()),
    ]
}

/// The data of a type that is ours.
pub fn data(kind: EventType) -> Option<Value> {
    let call = || perhaps("call_id", "The call it is about; else the attribute `callid`", or_null(text()));
    Some(match kind {
        EventType::ToolStarted => object(vec![
            call(),
            perhaps("tool", "", or_null(text())),
            perhaps("idempotency_key", "That of the call's record", or_null(text())),
            perhaps("arguments_sha256", "Of the arguments that it runs on", or_null(pattern("^[0-9a-f]{64}$"))),
        ]),
        EventType::ToolResult => object(vec![
            call(),
            perhaps("tool", "", or_null(text())),
            perhaps("outcome", "", one_of(&["ok", "error"])),
            perhaps("source", "Where the output came from", or_null(text())),
            perhaps("url", "", or_null(text())),
            perhaps("fetched_at", "", or_null(text())),
            always("content", "The raw output: any JSON", json!({})),
        ]),
        EventType::Render => object(vec![
            perhaps("format", "Else the attribute `display`", formats()),
            always("content", "", text()),
            call(),
        ]),
        _ => return None,
    })
}

/// The headers of an event in binary mode: each attribute behind `ce_`, the content type by its own name.
pub fn headers() -> Value {
    let mut schema = object(attributes());
    let named = |name: &str| match name {
        "datacontenttype" => "content-type".to_owned(),
        name => format!("ce_{name}"),
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let all = std::mem::take(properties);
        properties.extend(all.into_iter().map(|(name, mut attribute)| {
            // A header is a text.
            if attribute["type"].is_array() {
                attribute["type"] = json!("string");
                attribute.as_object_mut().map(|a| a.remove("minimum"));
            }
            (named(&name), attribute)
        }));
    }
    schema["required"] = json!(["ce_specversion", "ce_id", "ce_source", "ce_type"]);
    schema
}

pub fn event() -> Value {
    let mut members = attributes();
    members.push(perhaps("data", "The provider's own JSON, or what the type says", json!({})));
    members.push(perhaps("data_base64", "The data, where they are not JSON", text()));
    let mut schema = object(members);
    let ours: Vec<Value> = EventType::all()
        .filter_map(|kind| {
            let data = json!({"properties": {"data": data(kind)?}, "required": ["data"]});
            Some(json!({"if": {"properties": {"type": {"const": kind.name()}}}, "then": data}))
        })
        .collect();
    schema["allOf"] = json!(ours);
    schema["not"] = json!({"required": ["data", "data_base64"]});
    document(
        "event",
        "Input event",
        "A CloudEvent in structured mode, and a line of the files that `check` reads. In binary mode the attributes are \
         headers that begin with `ce_`, and the value is the data.",
        schema,
    )
}
