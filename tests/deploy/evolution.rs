//! Within `.v1` schemas only grow: what a reader relied on stays, and what a writer was allowed to send stays allowed.
//!
//! At a release its schemas are copied to `deploy/schemas/released`; from then on every build is compared with them.
//! Until the first one there is nothing to compare with, and only the comparison itself is tested.

use crate::files::root;
use serde_json::{Value, json};
use sluicegate::runtime::schema::DOCUMENTS;
use std::collections::BTreeSet;

/// Who must not be surprised.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    /// Of what is published: everything that may come now could come before.
    Reader,
    /// Of configurations and events: everything that could be sent before may be sent now.
    Writer,
}

fn side(document: &str) -> Side {
    if ["config", "event"].contains(&document) { Side::Writer } else { Side::Reader }
}

fn set(value: Option<&Value>) -> BTreeSet<String> {
    match value {
        Some(Value::Array(all)) => all.iter().map(Value::to_string).collect(),
        Some(one) => [one.to_string()].into(),
        None => BTreeSet::new(),
    }
}

/// What a new schema breaks of an old one, each as a pointer and a reason.
fn breaks(side: Side, old: &Value, new: &Value, at: &str, found: &mut Vec<String>) {
    let (Some(from), Some(to)) = (old.as_object(), new.as_object()) else {
        if old != new {
            found.push(format!("{at}: {old} became {new}"));
        }
        return;
    };
    // Sets of which a reader must know every value, and of which a writer may use every value.
    for key in ["type", "enum"] {
        let (before, now) = (set(from.get(key)), set(to.get(key)));
        let narrower = |a: &BTreeSet<String>, b: &BTreeSet<String>| b.is_empty() || (!a.is_empty() && a.is_subset(b));
        let holds = if side == Side::Reader { narrower(&now, &before) } else { narrower(&before, &now) };
        if !holds {
            found.push(format!("{at}/{key}: {before:?} became {now:?}"));
        }
    }
    let (before, now) = (set(from.get("required")), set(to.get("required")));
    let lost: Vec<&String> = match side {
        Side::Reader => before.difference(&now).collect(),
        Side::Writer => now.difference(&before).collect(),
    };
    if !lost.is_empty() {
        found.push(format!("{at}/required: {lost:?}"));
    }
    for key in ["pattern", "const", "minimum", "maximum", "minItems", "maxItems", "format", "oneOf", "anyOf", "not"] {
        if from.get(key) != to.get(key) {
            found.push(format!("{at}/{key} changed"));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let (Some(before), Some(now)) = (from.get(key), to.get(key)) {
            breaks(side, before, now, &format!("{at}/{key}"), found);
        } else if side == Side::Writer && !from.contains_key(key) && to.contains_key(key) {
            found.push(format!("{at}/{key}: new"));
        }
    }
    for group in ["properties", "$defs"] {
        for (name, before) in from.get(group).and_then(Value::as_object).into_iter().flatten() {
            match to.get(group).and_then(|all| all.get(name)) {
                Some(now) => breaks(side, before, now, &format!("{at}/{group}/{name}"), found),
                None => found.push(format!("{at}/{group}/{name}: gone")),
            }
        }
    }
}

fn between(document: &str, old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    breaks(side(document), old, new, "", &mut found);
    found
}

#[test]
fn schemas_only_grow_since_the_last_release() {
    let folder = root("deploy/schemas/released");
    for document in &DOCUMENTS {
        let Ok(text) = std::fs::read_to_string(folder.join(document.file())) else { continue };
        let old: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(between(document.name, &old, &document.value()), Vec::<String>::new(), "{}", document.name);
    }
}

/// The comparison finds every kind of break, and nothing in what only grows.
#[test]
fn the_comparison_finds_breaks() {
    for document in &DOCUMENTS {
        let old = document.value();
        assert_eq!(between(document.name, &old, &old), Vec::<String>::new());
        let mut grown = old.clone();
        grown["properties"]["made_up"] = json!({"type": "string"});
        assert_eq!(between(document.name, &old, &grown), Vec::<String>::new(), "{}", document.name);
        let gone = between(document.name, &grown, &old);
        assert_eq!(gone, ["/properties/made_up: gone"], "{}", document.name);
        let name = old["properties"].as_object().unwrap().keys().next_back().unwrap().clone();
        let mut other = old.clone();
        other["properties"][&name]["type"] = json!("made up");
        assert!(!between(document.name, &old, &other).is_empty(), "{}: {name}", document.name);
    }
    let with = |required: Value, values: Value| json!({"required": required, "properties": {"a": {"enum": values}}});
    let (small, large) = (with(json!(["a"]), json!(["x"])), with(json!([]), json!(["x", "y"])));
    // A reader loses what is no longer there and meets a value that it does not know; a writer only gains.
    assert_eq!(between("verdict", &small, &large).len(), 2);
    assert_eq!(between("event", &small, &large), Vec::<String>::new());
    assert_eq!(between("verdict", &large, &small), Vec::<String>::new());
    assert_eq!(between("event", &large, &small).len(), 2);
}
