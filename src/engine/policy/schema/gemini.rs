//! Gemini's dialect: an OpenAPI subset, as JSON Schema.
//!
//! `parameters` of a function declaration is a message of Google's own: types in upper case, `nullable`,
//! bounds that may be strings (64-bit integers in JSON), names that may be in snake case. Applied to a
//! schema that is JSON Schema already (`parametersJsonSchema`), the translation changes nothing but `nullable`,
//! which JSON Schema does not have.
//!
//! Only places where a schema stands are looked at: a property may be called `type`, a default may be anything.

use super::survey::{CHILD, CHILD_LISTS, CHILD_MAPS, SELF, SELF_LISTS, SELF_MAPS};
use serde_json::{Map, Number, Value};

/// Keywords that Google spells in another way, or in snake case, and as JSON Schema spells them.
const SNAKE: [(&str, &str); 12] = [
    ("additional_properties", "additionalProperties"),
    ("any_of", "anyOf"),
    ("exclusive_maximum", "exclusiveMaximum"),
    ("exclusive_minimum", "exclusiveMinimum"),
    ("max_items", "maxItems"),
    ("max_length", "maxLength"),
    ("max_properties", "maxProperties"),
    ("min_items", "minItems"),
    ("min_length", "minLength"),
    ("min_properties", "minProperties"),
    ("prefix_items", "prefixItems"),
    ("ref", "$ref"),
];
const BOUNDS: [&str; 6] = ["maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
const DEFINITIONS: [&str; 3] = ["$defs", "definitions", "defs"];

/// The schema in JSON Schema's words. Recursive: the parser bounds the depth.
pub(super) fn translated(schema: Value) -> Value {
    let Value::Object(members) = schema else { return schema };
    let mut nullable = false;
    let mut out = Map::new();
    for (name, value) in members {
        let name = SNAKE.iter().find(|(snake, _)| *snake == name).map_or(name, |(_, known)| (*known).to_owned());
        match &*name {
            "nullable" if value.is_boolean() => nullable = value == Value::Bool(true),
            "type" => out.extend(kind(value).map(|kind| (name, kind))),
            bound if BOUNDS.contains(&bound) => {
                out.insert(name, whole(value));
            }
            place => {
                let value = inner(place, value);
                out.insert(name, value);
            }
        }
    }
    let mut schema = Value::Object(out);
    if nullable {
        schema = serde_json::json!({ "anyOf": [{ "type": "null" }, schema] });
    }
    schema
}

/// The value of a keyword, where schemas stand in it.
fn inner(keyword: &str, value: Value) -> Value {
    let is = |known: &[&str]| known.contains(&keyword);
    match value {
        Value::Object(map) if is(CHILD_MAPS) || is(SELF_MAPS) || is(&DEFINITIONS) => {
            Value::Object(map.into_iter().map(|(name, schema)| (name, translated(schema))).collect())
        }
        Value::Array(list) if is(CHILD_LISTS) || is(SELF_LISTS) => {
            Value::Array(list.into_iter().map(translated).collect())
        }
        schema @ Value::Object(_) if is(CHILD) || is(SELF) => translated(schema),
        other => other,
    }
}

/// A type in lower case. `TYPE_UNSPECIFIED` says nothing.
fn kind(value: Value) -> Option<Value> {
    match value {
        Value::String(name) => {
            let lower = name.to_ascii_lowercase();
            match TYPES.contains(&&*lower) {
                true => Some(lower.into()),
                false => (lower != "type_unspecified").then(|| name.into()),
            }
        }
        Value::Array(names) => Some(Value::Array(names.into_iter().filter_map(kind).collect())),
        other => Some(other),
    }
}

/// A whole number, also where it is a string.
fn whole(value: Value) -> Value {
    match value.as_str().and_then(|text| text.parse::<u64>().ok()) {
        Some(number) => Value::Number(Number::from(number)),
        None => value,
    }
}
