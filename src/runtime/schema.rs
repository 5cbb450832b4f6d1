//! Schemas: what a configuration, an input and each record that is published look like, as JSON Schema 2020-12, and
//! all channels as one AsyncAPI document.
//!
//! The configuration's schema is asked of the types that read it ([`trace`]); its descriptions are their own
//! documentation, read from their source ([`docs`]). What the engine writes, it writes by hand, so those schemas are
//! tables ([`published`], [`input`]), which tests hold against everything that the engine says of the samples, the
//! examples and recorded traffic. Invariants: a schema of something published names what holds and leaves the rest
//! open, since readers ignore members that they do not know; the configuration's is closed, since an unknown key is
//! an error. The files under `deploy/schemas` are what the commands print, byte for byte.
//!
//! Left out: a derive of schemas, which the engine's types would have to depend on.

pub mod asyncapi;
mod config;
pub mod docs;
mod input;
pub mod published;
mod trace;
mod yaml;

use serde_json::{Value, json};

/// One schema.
pub struct Document {
    /// As the command line has it.
    pub name: &'static str,
    /// What it describes.
    pub about: &'static str,
    make: fn() -> Value,
}

impl Document {
    /// The schema as it is printed: JSON, members in order of their names, a line end at its end.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.value())
    }
    pub fn value(&self) -> Value {
        (self.make)()
    }
    /// Its file under `deploy/schemas`.
    pub fn file(&self) -> String {
        format!("{}.schema.json", self.name)
    }
}

/// Every schema of this build.
pub const DOCUMENTS: [Document; 8] = [
    Document { name: "config", about: "the configuration file", make: config::schema },
    Document { name: "event", about: "an input event in structured mode, or a line of a file", make: input::event },
    Document { name: "verdict", about: "a record of the verdict topic", make: published::verdict },
    Document {
        name: "tool-call",
        about: "the record of a call that may run, on the redacted topic",
        make: published::tool_call,
    },
    Document { name: "deadletter", about: "the headers of a dead letter", make: published::dead_letter },
    Document { name: "pin", about: "an operator's decision on a tool definition", make: published::pin },
    Document { name: "pin-sighting", about: "a definition that nobody decided on", make: published::sighting },
    Document { name: "pin-audit", about: "who decided what, when and why", make: published::audit },
];

/// A schema's head, and what it says.
fn document(name: &str, title: &str, about: &str, mut schema: Value) -> Value {
    if let Value::Object(members) = &mut schema {
        members.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        members.insert("$id".into(), json!(format!("urn:sluicegate:schema:{name}:v1")));
        members.insert("title".into(), json!(title));
        members.insert("description".into(), json!(about));
    }
    schema
}

/// One member of an object.
struct Member(&'static str, bool, Value);

/// A member that always stands there.
fn always(name: &'static str, about: &str, schema: Value) -> Member {
    Member(name, true, described(schema, about))
}

/// A member that may be missing.
fn perhaps(name: &'static str, about: &str, schema: Value) -> Member {
    Member(name, false, described(schema, about))
}

/// An object whose further members are not for this version to know.
fn object(members: Vec<Member>) -> Value {
    let required: Vec<&str> = members.iter().filter(|m| m.1).map(|m| m.0).collect();
    let mut schema = json!({"type": "object"});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["properties"] = Value::Object(members.into_iter().map(|m| (m.0.to_owned(), m.2)).collect());
    schema
}

fn described(mut schema: Value, about: &str) -> Value {
    if let (Value::Object(members), false) = (&mut schema, about.is_empty()) {
        members.insert("description".into(), json!(about));
    }
    schema
}

/// The same, or `null`.
fn or_null(mut schema: Value) -> Value {
    if let Some(kind) = schema.get_mut("type") {
        *kind = match kind.take() {
            Value::Array(mut kinds) => {
                kinds.push(json!("null"));
                Value::Array(kinds)
            }
            kind => json!([kind, "null"]),
        };
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
    schema
}

fn text() -> Value {
    json!({"type": "string"})
}

fn pattern(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

/// A text of which these are known; a later version may have more.
fn among(values: &[&str]) -> Value {
    json!({"type": "string", "examples": values})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}
