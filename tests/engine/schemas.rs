//! Whatever the engine says in any test of this suite is what the published schemas say.
//!
//! The schemas are open, since readers ignore what they do not know; here they are closed, so that nothing is
//! published that no schema names.

use crate::support::{body, header};
use serde_json::{Map, Value, json};
use sluicegate::engine::{Emission, To};
use std::cell::Cell;

const FILES: [&str; 4] = [
    include_str!("../../deploy/schemas/verdict.schema.json"),
    include_str!("../../deploy/schemas/tool-call.schema.json"),
    include_str!("../../deploy/schemas/deadletter.schema.json"),
    include_str!("../../deploy/schemas/pin-sighting.schema.json"),
];

thread_local! {
    static COMPILED: [jsonschema::Validator; 4] = FILES.map(|text| {
        let mut schema: Value = serde_json::from_str(text).expect("JSON");
        close(&mut schema);
        jsonschema::validator_for(&schema).expect("a schema")
    });
    static HELD: Cell<[u64; 4]> = const { Cell::new([0; 4]) };
}

/// Refuses members that are not named, wherever a schema leaves them open.
fn close(schema: &mut Value) {
    if let Value::Object(members) = schema {
        if members.contains_key("properties") && !members.contains_key("additionalProperties") {
            members.insert("additionalProperties".into(), json!(false));
        }
        members.iter_mut().filter(|(name, _)| *name != "oneOf").for_each(|(_, value)| close(value));
    }
    if let Value::Array(items) = schema {
        items.iter_mut().for_each(close);
    }
}

/// # Panics
/// An emission is not what its schema says.
pub fn hold(emissions: &[Emission]) {
    for emission in emissions {
        let (which, value) = match emission.to {
            To::Verdicts => (0, body(emission)),
            To::Redacted if header(emission, "ce_type") == Some("io.sluicegate.tool.call.v1") => {
                let bytes = emission.value.as_deref().unwrap_or_default();
                match serde_json::from_slice(bytes) {
                    Ok(value) => (1, value),
                    // Half of a surrogate pair is carried as it came, and this reader takes none.
                    Err(_) => {
                        assert!(String::from_utf8_lossy(bytes).contains("\\ud"), "{}", String::from_utf8_lossy(bytes));
                        continue;
                    }
                }
            }
            To::Redacted => continue,
            To::DeadLetters => {
                // Headers that came with the record are its own.
                let ours = emission.headers.iter().filter(|(name, _)| name.starts_with("sluicegate_dlq_"));
                let text = |value: &[u8]| Value::from(String::from_utf8_lossy(value).into_owned());
                (2, ours.map(|(name, value)| (name.clone(), text(value))).collect::<Map<_, _>>().into())
            }
            To::Sightings => (3, body(emission)),
        };
        HELD.with(|held| {
            let mut counts = held.get();
            counts[which] += 1;
            held.set(counts);
        });
        COMPILED.with(|all| {
            let wrong: Vec<String> =
                all[which].iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(wrong.is_empty(), "{}\n{value:#}", wrong.join("\n"));
        });
    }
}

/// How many of each kind this thread held against their schemas.
fn held() -> [u64; 4] {
    HELD.with(Cell::get)
}

#[test]
fn each_kind_is_held_against_its_schema() {
    let engine = crate::support::engine(sluicegate::engine::policy::Profile::Standard);
    let mut partition = crate::support::Partition::new(&engine);
    let response = json!({"id": "m", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]});
    let event = json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "io.sluicegate.model.response.v1",
        "conversation": "c", "provider": "anthropic.messages", "data": response});
    let listed = json!({"specversion": "1.0", "id": "2", "source": "/t", "type": "io.sluicegate.mcp.message.v1",
        "conversation": "d", "mcpserver": "docs", "direction": "server",
        "data": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "f", "inputSchema": {"type": "object"}}]}}});
    let asked = json!({"specversion": "1.0", "id": "0", "source": "/t", "type": "io.sluicegate.mcp.message.v1",
        "conversation": "d", "mcpserver": "docs", "direction": "client",
        "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}});
    for line in [event, asked, listed] {
        partition.feed(line.to_string().as_bytes());
    }
    partition.feed(b"no event");
    assert!(held().iter().all(|count| *count > 0), "{:?}", held());
}

/// The closed schemas refuse what the engine would not say.
#[test]
fn the_schemas_refuse() {
    let good = json!({"call_id": "a", "tool": "f", "executor": "client", "response_id": null, "arguments": {},
        "arguments_sha256": "0".repeat(64), "idempotency_key": "0".repeat(32)});
    let holds = |value: &Value| COMPILED.with(|all| all[1].is_valid(value));
    assert!(holds(&good));
    let refused =
        [("executor", json!("nobody")), ("arguments_sha256", json!("x")), ("extra", json!(1)), ("input", json!("x"))];
    for (name, value) in refused {
        let mut bad = good.clone();
        bad[name] = value;
        assert!(!holds(&bad), "{name}");
    }
    let mut bad = good.clone();
    bad.as_object_mut().expect("an object").remove("tool");
    assert!(!holds(&bad), "a required member is missing");
}
