//! AsyncAPI 3.0: every topic as a channel, who sends and who receives.
//!
//! Partitions and settings are those that `topics apply` makes for one input, so that the page cannot promise what
//! the command does not do. Schemas of messages are references to the files beside it.

use super::{DOCUMENTS, Document, described, input, yaml};
use crate::engine::wire::EventType;
use crate::runtime::kafka::topics::{self, Action, Cluster};
use crate::runtime::settings::{Settings, state_topic};
use serde_json::{Map, Value, json};

/// Partitions of the input in the description.
const PARTITIONS: i32 = 12;
const INPUT: &str = "agent.events";

/// The document as YAML.
pub fn document() -> String {
    let settings = Settings::new("localhost:9092", "sluicegate", &[INPUT]);
    let value = json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Sluicegate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Topics, records and their order. Verdicts, redacted records and dead letters carry the key of \
                            their input record and go to its partition number; a reader of committed records sees each \
                            verdict once. Made by `sluicegate schema asyncapi`.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"kafka": {
            "host": "localhost:9092",
            "protocol": "kafka",
            "description": "Your brokers.",
        }},
        "channels": channels(&settings),
        "operations": operations(),
        "components": {"messages": messages(), "schemas": {"event-headers": input::headers()}},
    });
    yaml::document(&value)
}

/// A channel: its name, its topic, the messages on it, and what it is for.
struct Channel(&'static str, String, Vec<String>, &'static str);

fn table(settings: &Settings) -> Vec<Channel> {
    let one = |name: &str| vec![name.to_owned()];
    let inputs = || EventType::all().map(message_of).collect::<Vec<_>>();
    let redacted = inputs().into_iter().chain(one("tool.call")).collect();
    vec![
        Channel(
            "input",
            INPUT.to_owned(),
            inputs(),
            "What fleets publish. Their own topic: one idempotent producer per conversation, the conversation as key.",
        ),
        Channel("verdicts", settings.verdicts.clone(), one("verdict"), "What was decided."),
        Channel(
            "redacted",
            settings.redacted.clone(),
            redacted,
            "Copies that are safe to use, told from raw records by the attributes sgaction and sgverdictid, and the \
             records of calls that may run.",
        ),
        Channel(
            "deadletters",
            settings.deadletters.clone(),
            one("deadletter"),
            "What could not be read, with key, value, headers and timestamp as they came. May hold secrets.",
        ),
        Channel(
            "state",
            state_topic(INPUT),
            one("state"),
            "Changelog of the conversations of one input; one writer a partition. For Sluicegate alone.",
        ),
        Channel("pins", settings.pins.clone(), one("pin"), "Decisions on tool definitions, written by operators."),
        Channel(
            "pin-sightings",
            settings.sightings.clone(),
            one("pin-sighting"),
            "Definitions that nobody decided on, written by the service.",
        ),
        Channel("pins-audit", settings.pins_audit.clone(), one("pin-audit"), "Who decided what, when and why."),
    ]
}

fn message_of(kind: EventType) -> String {
    kind.name().trim_start_matches("io.sluicegate.").trim_end_matches(".v1").to_owned()
}

fn channels(settings: &Settings) -> Value {
    let topics = [(INPUT.to_owned(), PARTITIONS)].into_iter().collect();
    let plans = topics::plan(settings, &Cluster { id: String::new(), brokers: 3, topics });
    let mut out = Map::new();
    for Channel(name, topic, messages, about) in table(settings) {
        let plan = plans.iter().find(|plan| plan.name == topic);
        let partitions = match plan.map(|plan| plan.action) {
            Some(Action::Create { partitions }) => partitions,
            _ => PARTITIONS,
        };
        let mut kafka = json!({"topic": topic, "partitions": partitions, "bindingVersion": "0.5.0"});
        if let Some(plan) = plan {
            let setting = |(name, value): &(&'static str, String)| {
                let value = match (*name, value.parse::<i64>()) {
                    ("cleanup.policy", _) => json!([value]),
                    (_, Ok(number)) => json!(number),
                    _ => json!(value),
                };
                ((*name).to_owned(), value)
            };
            kafka["topicConfiguration"] = Value::Object(plan.configs.iter().map(setting).collect());
        }
        let messages: Map<String, Value> = messages
            .into_iter()
            .map(|message| (message.clone(), json!({"$ref": format!("#/components/messages/{message}")})))
            .collect();
        let channel =
            json!({"address": topic, "description": about, "messages": messages, "bindings": {"kafka": kafka}});
        out.insert(name.to_owned(), channel);
    }
    Value::Object(out)
}

/// What Sluicegate does with each channel, by its own view; operators' writes go through `sluicegate pins`.
fn operations() -> Value {
    let all = [
        ("judge", "receive", "input", "Every record is judged once."),
        ("publishVerdict", "send", "verdicts", "One for every subject that became judgeable."),
        ("publishRedacted", "send", "redacted", "Safe copies, and records of calls."),
        ("setAside", "send", "deadletters", "What cannot be read."),
        ("keepState", "send", "state", "Changed entries, in the transaction of the records that changed them."),
        ("restoreState", "receive", "state", "Read when a partition is assigned."),
        ("sight", "send", "pin-sightings", "Definitions of tools that wait for review."),
        ("followPins", "receive", "pins", "Read to its end before anything is judged, and followed."),
        ("decide", "send", "pins", "By `sluicegate pins approve` and `reject`."),
        ("audit", "send", "pins-audit", "By the same commands, before the decision."),
        ("review", "receive", "pin-sightings", "By `sluicegate pins list`, `show` and `diff`."),
    ];
    let operation = |(name, action, channel, about): (&str, &str, &str, &str)| {
        let channel = json!({"$ref": format!("#/channels/{channel}")});
        (name.to_owned(), json!({"action": action, "channel": channel, "summary": about}))
    };
    Value::Object(all.into_iter().map(operation).collect())
}

fn messages() -> Value {
    let mut out = Map::new();
    for kind in EventType::all() {
        let headers = json!({"$ref": "#/components/schemas/event-headers"});
        let mut message = json!({"name": kind.name(), "contentType": content_type(kind), "headers": headers});
        message["summary"] = json!(summary(kind));
        if let Some(data) = input::data(kind) {
            message["payload"] = data;
        }
        out.insert(message_of(kind), message);
    }
    let referred = |name: &str| DOCUMENTS.iter().find(|d| d.name == name).map(Document::file).unwrap_or_default();
    let ours = [
        ("verdict", "verdict", "io.sluicegate.verdict.v1", true),
        ("tool.call", "tool-call", "io.sluicegate.tool.call.v1", true),
        ("pin", "pin", "pin", false),
        ("pin-sighting", "pin-sighting", "pin-sighting", false),
        ("pin-audit", "pin-audit", "pin-audit", false),
    ];
    for (message, schema, name, event) in ours {
        let payload = json!({"$ref": format!("./schemas/{}", referred(schema))});
        let mut one = json!({"name": name, "contentType": "application/json", "payload": payload});
        if event {
            one["headers"] = json!({"$ref": "#/components/schemas/event-headers"});
        }
        out.insert(message.to_owned(), one);
    }
    let headers = json!({"$ref": format!("./schemas/{}", referred("deadletter"))});
    let anything = described(json!({}), "The value of the record that could not be read");
    out.insert("deadletter".into(), json!({"name": "deadletter", "headers": headers, "payload": anything}));
    let binary = json!({"name": "state", "contentType": "application/octet-stream",
        "summary": "Binary entries of one version; no interface"});
    out.insert("state".into(), binary);
    Value::Object(out)
}

fn content_type(kind: EventType) -> &'static str {
    if kind == EventType::ModelChunk { "text/event-stream" } else { "application/json" }
}

fn summary(kind: EventType) -> &'static str {
    match kind {
        EventType::ModelRequest => "The request body about to be sent",
        EventType::ModelResponse => "A whole response body",
        EventType::ModelChunk => {
            "A piece of a stream: raw server-sent events, or one event as JSON, or an array of them"
        }
        EventType::ModelClosed => "The transport of the response ended; without data",
        EventType::ToolStarted => "The host began to run a tool",
        EventType::ToolResult => "Raw tool output, before it is put into a request",
        EventType::Render => "About to be shown to a person",
        EventType::McpMessage => "One JSON-RPC message, or a batch",
        EventType::Unknown => "",
    }
}
