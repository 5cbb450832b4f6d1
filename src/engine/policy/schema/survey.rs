//! What validating against a schema can cost, found before the schema is compiled.
//!
//! Two figures per subschema: *in place* (how many subschemas look at one and the same value: `allOf` and its
//! kin, `$ref`), which must be finite and small, and *whole* (with the subschemas for children), which is
//! infinite for recursive schemas; those can be decided, but their violations are not listed.
//!
//! References are followed where they stay inside the document (`#`, `#/pointer`, `#anchor`). Schemas with
//! embedded resources (`$id` below the root) or dynamic references are refused: no tool needs them, and their
//! targets cannot be told without evaluating.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// Subschemas that may look at one value.
const MAX_IN_PLACE: u64 = 20_000;
/// Levels of in-place nesting; validating recurses once per level of the schema for each of the instance.
const MAX_HEIGHT: u32 = 24;
/// Levels of nesting, references followed.
const MAX_PATH: u32 = 128;
/// Above this, violations are not listed.
const MAX_LISTED: u64 = 50_000;
const MAX_PATTERNS: usize = 256;
const MAX_PATTERN_BYTES: usize = 4096;

pub(super) const SELF: &[&str] = &["not", "if", "then", "else"];
pub(super) const SELF_LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];
pub(super) const SELF_MAPS: &[&str] = &["dependentSchemas", "dependencies"];
pub(super) const CHILD: &[&str] = &[
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "contentSchema",
];
pub(super) const CHILD_LISTS: &[&str] = &["items", "prefixItems"];
pub(super) const CHILD_MAPS: &[&str] = &["properties", "patternProperties"];

/// Whether violations can be listed.
///
/// # Errors
/// Why the schema must not be compiled: a label of a closed set.
pub(super) fn survey(schema: &Value) -> Result<bool, &'static str> {
    let mut anchors = HashMap::new();
    inspect(schema, &mut anchors)?;
    let mut survey = Survey { root: schema, anchors, in_place: HashMap::new(), whole: HashMap::new() };
    let whole = survey.whole(schema, 0)?;
    Ok(whole.is_some_and(|cost| cost <= MAX_LISTED))
}

/// Refuses what cannot be followed and finds the anchors. Looks at every value, since anything may be
/// referred to.
fn inspect<'a>(root: &'a Value, anchors: &mut HashMap<&'a str, &'a Value>) -> Result<(), &'static str> {
    let old = root.get("$schema").and_then(Value::as_str).is_some_and(|uri| uri.contains("draft-04"));
    let mut patterns = 0;
    let mut open = vec![root];
    while let Some(value) = open.pop() {
        let members = match value {
            Value::Object(members) => members,
            Value::Array(items) => {
                open.extend(items);
                continue;
            }
            _ => continue,
        };
        let has = |name: &str| members.get(name).is_some_and(Value::is_string);
        let embedded = !std::ptr::eq(value, root) && (has("$id") || (old && has("id")));
        if embedded || has("$dynamicRef") || has("$recursiveRef") || members.contains_key("$recursiveAnchor") {
            return Err("unsupported");
        }
        if let Some(name) = members.get("$anchor").and_then(Value::as_str) {
            anchors.insert(name, value);
        }
        let own = members.get("pattern").and_then(Value::as_str).into_iter();
        let names = members.get("patternProperties").and_then(Value::as_object);
        for pattern in own.chain(names.into_iter().flat_map(Map::keys).map(String::as_str)) {
            patterns += 1;
            if patterns > MAX_PATTERNS || pattern.len() > MAX_PATTERN_BYTES {
                return Err("pattern");
            }
        }
        open.extend(members.values());
    }
    Ok(())
}

/// A figure that is being computed, or known.
#[derive(Clone, Copy)]
enum Figure<T> {
    Open,
    Known(T),
}

struct Survey<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    /// Cost and height.
    in_place: HashMap<*const Value, Figure<(u64, u32)>>,
    /// `None`: recursive.
    whole: HashMap<*const Value, Figure<Option<u64>>>,
}

impl<'a> Survey<'a> {
    fn target(&self, members: &'a Map<String, Value>) -> Option<&'a Value> {
        let to = members.get("$ref")?.as_str()?;
        let id = self.root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        let fragment = match id.and_then(|id| to.strip_prefix(id)) {
            Some(rest) if !rest.is_empty() => rest.strip_prefix('#')?,
            Some(_) => "",
            None => to.strip_prefix('#')?,
        };
        if fragment.is_empty() {
            return Some(self.root);
        }
        match fragment.starts_with('/') {
            true => self.root.pointer(&percent_decoded(fragment)),
            false => self.anchors.get(fragment).copied(),
        }
    }

    fn neighbours(&self, schema: &'a Value) -> Vec<&'a Value> {
        let Some(members) = schema.as_object() else { return Vec::new() };
        let mut found = under(members, SELF, SELF_LISTS, SELF_MAPS);
        found.extend(self.target(members));
        found
    }

    fn in_place(&mut self, schema: &'a Value, path: u32) -> Result<(u64, u32), &'static str> {
        match self.in_place.get(&std::ptr::from_ref(schema)) {
            Some(Figure::Open) => return Err("cyclic"),
            Some(Figure::Known(known)) => return Ok(*known),
            None => {}
        }
        if path > MAX_PATH {
            return Err("too_deep");
        }
        self.in_place.insert(schema, Figure::Open);
        let (mut cost, mut height) = (1_u64, 1);
        for next in self.neighbours(schema) {
            let (more, levels) = self.in_place(next, path + 1)?;
            cost = cost.saturating_add(more);
            height = height.max(levels + 1);
        }
        if cost > MAX_IN_PLACE || height > MAX_HEIGHT {
            return Err("too_complex");
        }
        self.in_place.insert(schema, Figure::Known((cost, height)));
        Ok((cost, height))
    }

    fn whole(&mut self, schema: &'a Value, path: u32) -> Result<Option<u64>, &'static str> {
        match self.whole.get(&std::ptr::from_ref(schema)) {
            Some(Figure::Open) => return Ok(None),
            Some(Figure::Known(known)) => return Ok(*known),
            None => {}
        }
        if path > MAX_PATH {
            return Err("too_deep");
        }
        self.in_place(schema, path)?;
        self.whole.insert(schema, Figure::Open);
        let mut cost = Some(1_u64);
        let children = schema.as_object().map(|members| under(members, CHILD, CHILD_LISTS, CHILD_MAPS));
        let mut next = self.neighbours(schema);
        next.extend(children.unwrap_or_default());
        for next in next {
            let more = self.whole(next, path + 1)?;
            cost = cost.zip(more).map(|(cost, more)| cost.saturating_add(more));
        }
        self.whole.insert(schema, Figure::Known(cost));
        Ok(cost)
    }
}

/// The subschemas that stand directly, in lists and in maps under these keywords.
fn under<'a>(members: &'a Map<String, Value>, direct: &[&str], lists: &[&str], maps: &[&str]) -> Vec<&'a Value> {
    let mut found: Vec<&Value> =
        direct.iter().filter_map(|name| members.get(*name)).filter(|v| v.is_object()).collect();
    for list in lists.iter().filter_map(|name| members.get(*name)?.as_array()) {
        found.extend(list);
    }
    for map in maps.iter().filter_map(|name| members.get(*name)?.as_object()) {
        found.extend(map.values());
    }
    found
}

fn percent_decoded(fragment: &str) -> String {
    let mut out = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = (first == b'%').then(|| tail.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}
