//! A schema without the patterns that only the backtracking engine can express.
//!
//! What comes out accepts everything that the schema accepts, so that a violation of it is one of the schema.
//! Taking a pattern away does that where more matches mean more that is valid. Elsewhere more is taken away:
//! `not` and `if` are left out, `oneOf` becomes `anyOf`, and what depends on which members or items were looked
//! at (`additionalProperties` beside a pattern that names members, `unevaluated*`) goes too. References count as
//! if such a pattern stood behind them.

use super::survey::{CHILD, CHILD_LISTS, CHILD_MAPS, SELF, SELF_LISTS, SELF_MAPS};
use serde_json::{Map, Value};

const DEFINITIONS: &[&str] = &["$defs", "definitions"];

/// The schema without them. Recursive: the parser bounds the depth.
pub(super) fn relaxed(schema: &Value, is_linear: &dyn Fn(&str) -> bool) -> Value {
    let mut schema = schema.clone();
    relax(&mut schema, is_linear);
    schema
}

fn relax(schema: &mut Value, is_linear: &dyn Fn(&str) -> bool) {
    let Value::Object(members) = schema else { return };
    if members.get("pattern").and_then(Value::as_str).is_some_and(|pattern| !is_linear(pattern)) {
        members.remove("pattern");
    }
    relax_names(members, is_linear);
    if members.get("not").is_some_and(|not| is_touched(not, is_linear)) {
        members.remove("not");
    }
    if members.get("if").is_some_and(|condition| is_touched(condition, is_linear)) {
        for name in ["if", "then", "else"] {
            members.remove(name);
        }
    }
    if members.get("oneOf").is_some_and(|list| is_touched(list, is_linear))
        && let Some(list) = members.remove("oneOf")
    {
        let any = serde_json::json!({ "anyOf": list });
        match members.get_mut("allOf").and_then(Value::as_array_mut) {
            Some(all) => all.push(any),
            None => {
                members.insert("allOf".to_owned(), Value::Array(vec![any]));
            }
        }
    }
    if members.get("contains").is_some_and(|item| is_touched(item, is_linear)) {
        members.remove("maxContains");
    }
    for name in ["unevaluatedProperties", "unevaluatedItems"] {
        members.remove(name);
    }
    for name in SELF.iter().chain(CHILD) {
        if let Some(inner) = members.get_mut(*name) {
            relax(inner, is_linear);
        }
    }
    for name in SELF_LISTS.iter().chain(CHILD_LISTS) {
        for inner in members.get_mut(*name).and_then(Value::as_array_mut).into_iter().flatten() {
            relax(inner, is_linear);
        }
    }
    for name in SELF_MAPS.iter().chain(CHILD_MAPS).chain(DEFINITIONS) {
        let map = members.get_mut(*name).and_then(Value::as_object_mut);
        for (_, inner) in map.into_iter().flatten() {
            relax(inner, is_linear);
        }
    }
}

/// Members that a pattern names: without it they would be additional.
fn relax_names(members: &mut Map<String, Value>, is_linear: &dyn Fn(&str) -> bool) {
    let Some(names) = members.get_mut("patternProperties").and_then(Value::as_object_mut) else { return };
    let before = names.len();
    names.retain(|name, _| is_linear(name));
    if names.len() < before {
        members.remove("additionalProperties");
    }
}

/// Whether such a pattern, or a reference, stands anywhere inside. Looks at every value.
fn is_touched(schema: &Value, is_linear: &dyn Fn(&str) -> bool) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| match (name.as_str(), value) {
            ("$ref", _) => true,
            ("pattern", Value::String(pattern)) => !is_linear(pattern),
            ("patternProperties", Value::Object(names)) if names.keys().any(|name| !is_linear(name)) => true,
            ("unevaluatedProperties" | "unevaluatedItems", _) => true,
            _ => is_touched(value, is_linear),
        }),
        Value::Array(items) => items.iter().any(|item| is_touched(item, is_linear)),
        _ => false,
    }
}
