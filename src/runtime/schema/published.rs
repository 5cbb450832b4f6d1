//! What is published: verdicts, records of calls, dead letters, and the records of pins.
//!
//! Beside `engine/verdict.rs`, `engine/judge/call.rs` and `publish.rs`, `engine/pins/record.rs` and `cli/pins.rs`, which
//! write them. Scales that a reader has to switch on are closed; names that a later version may add to are examples.

use super::{Member, always, among, count, document, list, object, one_of, or_null, pattern, perhaps, text};
use crate::engine::decision::{Checkpoint, Decision};
use crate::engine::event::Provider;
use crate::engine::pins::Change;
use crate::engine::pins::record::Standing;
use crate::engine::wire::Reject;
use serde_json::{Value, json};

pub fn verdict() -> Value {
    let checkpoints = Checkpoint::ALL.map(Checkpoint::name);
    let providers = Provider::ALL.map(Provider::name);
    document(
        "verdict",
        "io.sluicegate.verdict.v1",
        "What was decided about one subject. Readers ignore members that they do not know. No text from outside stands \
         in it: identifiers that are not plain are keyed hashes.",
        object(vec![
            always("verdict_id", "The same in every replay", verdict_id()),
            always("checkpoint", "Where in an agent's loop", among(&checkpoints)),
            always("decision", "What the policies ask for", scale()),
            always("action", "What was done, after each policy's mode; a host acts by this one", scale()),
            always("complete", "False where a part was not looked into", json!({"type": "boolean"})),
            always("subject", "", subject()),
            always("provider", "The wire format; null where nothing tells it", or_null(among(&providers))),
            always("fleet", "", shown()),
            always("agent", "", shown()),
            always("conversation", "The unit of order and state", or_null(shown())),
            always("response_id", "", or_null(shown())),
            always("findings", "The strongest first", list(finding())),
            perhaps("findings_omitted", "Findings that had no room", count()),
            always("not_inspected", "Parts that no policy looked into", list(part())),
            perhaps("not_inspected_omitted", "Parts that had no room", count()),
            always("content_hmac", "What was judged, as a keyed digest", or_null(hex(64))),
            always("content_bytes", "Its size", count()),
            always("idempotency_key", "Of a call: the same for the same call", or_null(hex(32))),
            always("policy", "The settings that judged it", settings()),
            always("source", "The record that it is about", source()),
            always("engine", "The version that judged it", text()),
        ]),
    )
}

/// What is decided, the weakest first.
fn scale() -> Value {
    one_of(&[Decision::Allow, Decision::Redact, Decision::Block].map(Decision::name))
}

fn verdict_id() -> Value {
    let checkpoints = Checkpoint::ALL.map(Checkpoint::name).join("|");
    pattern(&format!("^[^/]*/[^/]+/[0-9]+/[0-9]+/({checkpoints})/(expired-)?[0-9]+$"))
}

/// An identifier as it is shown.
fn shown() -> Value {
    pattern("^([A-Za-z0-9_.:/@-]{0,128}|~[0-9a-f]{12})$")
}

fn hex(digits: usize) -> Value {
    pattern(&format!("^[0-9a-f]{{{digits}}}$"))
}

fn sha256() -> Value {
    pattern("^sha256:[0-9a-f]{64}$")
}

fn executor() -> Value {
    one_of(&["client", "provider"])
}

fn subject() -> Value {
    object(vec![
        always("call_id", "", or_null(shown())),
        always("tool", "", or_null(shown())),
        always("server", "The MCP server", or_null(shown())),
        always("executor", "Who runs it", or_null(executor())),
    ])
}

fn settings() -> Value {
    object(vec![
        always("bundle", "", text()),
        always("digest", "Of the settings that hold for its subject", sha256()),
        always("pins_offset", "The latest decision on tool definitions that was known", or_null(count())),
    ])
}

fn source() -> Value {
    object(vec![
        always("topic", "", text()),
        always("partition", "", count()),
        always("offset", "", count()),
        always("event_id", "", or_null(shown())),
        always("time", "The record's timestamp", or_null(json!({"type": "string", "format": "date-time"}))),
    ])
}

fn finding() -> Value {
    let range = json!({"type": ["array", "null"], "items": count(), "minItems": 2, "maxItems": 2});
    object(vec![
        always("policy", "SG00 is the engine itself", pattern("^SG[0-9]{2}$")),
        always("name", "The policy's name", text()),
        always("rule", "`sluicegate policies CODE` explains it", pattern("^[a-z0-9_]+$")),
        always("severity", "", one_of(&["low", "medium", "high", "critical"])),
        always("mode", "", one_of(&["enforce", "monitor"])),
        always("effect", "What it asks for", scale()),
        always("at", "Where, outermost step first; empty: the subject as a whole", at()),
        always("range", "UTF-8 bytes of the decoded string of the last step", range),
        always("message", "A fixed text", text()),
        always("evidence", "Sizes, counts, kinds and keywords", evidence()),
    ])
}

fn evidence() -> Value {
    or_null(object(vec![
        always("kind", "", text()),
        perhaps("found", "", count()),
        perhaps("limit", "", count()),
        perhaps("count", "", count()),
        perhaps("at", "A byte offset", count()),
        perhaps("keyword", "Of a JSON Schema", text()),
        perhaps("label", "Of a closed list", text()),
    ]))
}

fn at() -> Value {
    list(object(vec![
        always("in", "The layer", among(&["data", "arguments", "sse", "json", "base64"])),
        perhaps("event", "The number of the event in a stream", count()),
        perhaps("pointer", "RFC 6901", pattern("^(/([^~/]|~[01])*)*$")),
    ]))
}

fn part() -> Value {
    object(vec![always("at", "", at()), always("kind", "", text()), always("reason", "", text())])
}

pub fn tool_call() -> Value {
    let mut schema = object(vec![
        always("call_id", "As the provider has it", or_null(text())),
        always("tool", "", or_null(text())),
        perhaps("namespace", "", text()),
        perhaps("server", "The MCP server", text()),
        always("executor", "Who runs it", executor()),
        always("response_id", "", or_null(text())),
        perhaps("arguments", "JSON, byte for byte as the model wrote it where nothing was redacted", json!({})),
        perhaps("arguments_text", "Arguments that are not JSON", text()),
        perhaps("input", "Free text or code", text()),
        always("arguments_sha256", "Of the argument text as it stands here; what a host compares", hex(64)),
        always("idempotency_key", "The same for the same call", hex(32)),
    ]);
    let one = ["arguments", "arguments_text", "input"].map(|name| json!({"required": [name]}));
    schema["oneOf"] = json!(one);
    document(
        "tool-call",
        "io.sluicegate.tool.call.v1",
        "A call that may run, on the redacted topic. A call without such a record must not run.",
        schema,
    )
}

/// Why a record became a dead letter.
pub fn reasons() -> Vec<&'static str> {
    Reject::ALL.into_iter().map(Reject::label).chain(["output_too_large"]).collect()
}

pub fn dead_letter() -> Value {
    let decimal = || pattern("^[0-9]+$");
    let mut schema = object(vec![
        always("sluicegate_dlq_reason", "Why", among(&reasons())),
        always("sluicegate_dlq_stage", "Where on the journey", among(&["decode", "judge", "redact"])),
        always("sluicegate_dlq_topic", "Of the record", text()),
        always("sluicegate_dlq_partition", "", decimal()),
        always("sluicegate_dlq_offset", "", decimal()),
        always("sluicegate_dlq_version", "Of the engine", text()),
        always("sluicegate_dlq_attempt", "", decimal()),
        perhaps("sluicegate_dlq_value_hmac", "Of the whole value, where not all of it was kept", hex(64)),
        perhaps("sluicegate_dlq_value_bytes", "", decimal()),
    ]);
    schema["additionalProperties"] = text();
    document(
        "deadletter",
        "Headers of a dead letter",
        "Key, value and timestamp are the record's own; beside its own headers stand these, each a text.",
        schema,
    )
}

/// The members by which a record of pins repeats its key.
fn pinned() -> Vec<Member> {
    let client = pattern("^(\\*|sha256:[0-9a-f]{64})$");
    vec![
        always("v", "The format", json!({"type": "integer", "const": 1})),
        always("server", "The MCP server", text()),
        always("client", "`*`, or the digest of what the client declared to be able to", client),
        always("kind", "", one_of(&["tool", "instructions"])),
        always("name", "Of the tool; empty for instructions", text()),
        always("digest", "Of the whole definition in canonical form", sha256()),
    ]
}

fn who() -> Vec<Member> {
    vec![
        always("by", "Who decided", text()),
        always("reason", "Why, as they said", text()),
        always("at", "When, RFC 3339", text()),
    ]
}

fn definition() -> Member {
    always("definition", "The definition; null where it is not at hand", json!({"type": ["object", "string", "null"]}))
}

pub fn pin() -> Value {
    let standing = one_of(&[Standing::Approved, Standing::Rejected].map(Standing::name));
    let own = vec![always("decision", "", standing), definition()];
    document(
        "pin",
        "A decision on a tool definition",
        "The value of a record of the pins topic. Its key is the JSON array [server, client, kind, name, digest]; a record \
         without a value takes the decision back.",
        object([pinned(), own, who()].into_iter().flatten().collect()),
    )
}

pub fn sighting() -> Value {
    let seen = object(vec![
        always("topic", "", text()),
        always("partition", "", count()),
        always("offset", "", count()),
        always("time", "Milliseconds since 1970", json!({"type": "integer"})),
    ]);
    let own = vec![
        always("state", "Whether another definition of that name is approved", one_of(&["unpinned", "changed"])),
        always("seen", "The record that it was seen in", seen),
        always("definition_bytes", "", count()),
        definition(),
    ];
    document(
        "pin-sighting",
        "A definition that nobody decided on",
        "The value of a record of the sightings topic; its key is that of the decision to come.",
        object(pinned().into_iter().chain(own).collect()),
    )
}

pub fn audit() -> Value {
    let changes: Vec<&str> = Change::ALL.into_iter().map(Change::name).collect();
    let own = vec![
        always("decision", "", among(&["approved", "rejected", "withdrawn"])),
        always("was", "How it stood before", among(&["unpinned", "changed", "approved", "rejected"])),
        always("changes", "Classes of change since the approved definition", list(among(&changes))),
    ];
    document(
        "pin-audit",
        "Who decided what, when and why",
        "The value of a record of the audit topic, written before the decision.",
        object([pinned(), own, who()].into_iter().flatten().collect()),
    )
}
