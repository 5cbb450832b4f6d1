//! What kind of change lies between two definitions of a tool.
//!
//! Servers drift all the time and mean no harm (`provider-formats` §7.3): a change is named by its classes, so
//! that an operator can let harmless ones pass without looking, and sees at once which are not. Text that a model
//! reads is one class wherever it stands: a parameter that is added with a description both widens the schema
//! and brings new text.
//!
//! Invariant: two definitions whose digests differ differ by at least one class. What is not understood is
//! `schema` or `other`, never nothing.

use super::canonical::{HINTS, INPUTS, OTHER, OUTPUTS, SCHEMA, TEXT, TITLE, canonical, function, part_of};
use crate::engine::json::{Kind, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A class of change, the most serious first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The approved definition is not at hand, or too little of it.
    Unclassified,
    /// Text that a model reads: descriptions at any depth, examples, texts among values.
    Description,
    /// Hints of the server about what the tool does (`readOnlyHint`).
    #[serde(alias = "hint-flipped")]
    HintFlipped,
    /// The schema accepts calls that it did not.
    #[serde(alias = "schema-widened")]
    SchemaWidened,
    /// It refuses calls that it accepted.
    #[serde(alias = "schema-narrowed")]
    SchemaNarrowed,
    /// Another schema, of which neither can be said.
    #[serde(alias = "schema-changed")]
    SchemaChanged,
    /// `icons`, `_meta`, `execution`, and what is not known.
    Other,
    Title,
    Added,
    /// It is not listed any more.
    Removed,
}

impl Change {
    pub const ALL: [Change; 10] = [
        Change::Unclassified,
        Change::Description,
        Change::HintFlipped,
        Change::SchemaWidened,
        Change::SchemaNarrowed,
        Change::SchemaChanged,
        Change::Other,
        Change::Title,
        Change::Added,
        Change::Removed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Change::Unclassified => "unclassified",
            Change::Description => "description",
            Change::HintFlipped => "hint_flipped",
            Change::SchemaWidened => "schema_widened",
            Change::SchemaNarrowed => "schema_narrowed",
            Change::SchemaChanged => "schema_changed",
            Change::Other => "other",
            Change::Title => "title",
            Change::Added => "added",
            Change::Removed => "removed",
        }
    }

    /// By its name; hyphens count as underscores.
    pub fn from_name(name: &str) -> Option<Change> {
        let name = name.trim().replace('-', "_");
        Self::ALL.into_iter().find(|change| change.name() == name)
    }

    /// What digests of parts tell where the earlier definition is not at hand.
    pub fn of_parts(old: &[[u8; 8]; 5], new: &[[u8; 8]; 5]) -> BTreeSet<Change> {
        let class = [
            (TEXT, Change::Description),
            (TITLE, Change::Title),
            (SCHEMA, Change::SchemaChanged),
            (HINTS, Change::HintFlipped),
            (OTHER, Change::Other),
        ];
        let differ = class.into_iter().filter(|(part, _)| old.get(*part) != new.get(*part));
        let mut found: BTreeSet<Change> = differ.map(|(_, change)| change).collect();
        if found.is_empty() {
            found.insert(Change::Unclassified);
        }
        found
    }
}

/// The classes of change from `old` to `new`, and where each shows in `new`.
pub fn changes<'n>(old: Value<'_>, new: Value<'n>) -> Vec<(Change, Value<'n>)> {
    let mut found = Found { at: new, list: Vec::new() };
    let (old, new) = (function(old), function(new));
    let mut seen = BTreeSet::new();
    for (name, value) in new.members() {
        let text = name.str().unwrap_or_default();
        if !seen.insert(text.clone()) {
            found.at(value).add(Change::Other);
        } else {
            member(&mut found, &text, old.get(&text), Some(value));
        }
    }
    for (name, value) in old.members() {
        let text = name.str().unwrap_or_default();
        if new.get(&text).is_none() {
            found.at = new;
            member(&mut found, &text, Some(value), None);
        }
    }
    if found.list.is_empty() && canonical(old) != canonical(new) {
        found.at(new).add(Change::Other);
    }
    found.list.sort_by_key(|(change, _)| *change);
    found.list
}

struct Found<'n> {
    at: Value<'n>,
    list: Vec<(Change, Value<'n>)>,
}

impl<'n> Found<'n> {
    fn at(&mut self, value: Value<'n>) -> &mut Self {
        self.at = value;
        self
    }
    /// Each class once, where it shows first.
    fn add(&mut self, change: Change) {
        if !self.list.iter().any(|(known, _)| *known == change) {
            self.list.push((change, self.at));
        }
    }
}

fn same(old: Option<Value<'_>>, new: Option<Value<'_>>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => canonical(old) == canonical(new),
        (None, None) => true,
        _ => false,
    }
}

/// One member of a definition.
fn member<'n>(found: &mut Found<'n>, name: &str, old: Option<Value<'_>>, new: Option<Value<'n>>) {
    if same(old, new) {
        return;
    }
    found.at = new.unwrap_or(found.at);
    match part_of(name) {
        Some(TEXT) => found.add(Change::Description),
        Some(TITLE) => found.add(Change::Title),
        Some(HINTS) => {
            let title = |value: Option<Value<'_>>| value.and_then(|v| v.get("title")).map(canonical);
            let rest = |value: Option<Value<'_>>| {
                let members = value.into_iter().flat_map(|v| v.members());
                let rest = members.filter(|(name, _)| !name.is("title"));
                rest.map(|(name, value)| (canonical(name), canonical(value))).collect::<BTreeSet<_>>()
            };
            let (titles, rests) = (title(old) != title(new), rest(old) != rest(new));
            if titles {
                found.add(Change::Title);
            }
            // Equal in both, yet not the same: it is no object.
            if rests || !titles {
                found.add(Change::HintFlipped);
            }
        }
        Some(SCHEMA) if INPUTS.contains(&name) || OUTPUTS.contains(&name) => schema(found, old, new),
        _ => found.add(Change::Other),
    }
}

/// Members of a schema that hold schemas by name, one schema, and text.
const NAMED: [&str; 5] = ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
const NESTED: [&str; 5] = ["items", "contains", "propertyNames", "additionalItems", "unevaluatedItems"];
const TEXTS: [&str; 6] = ["description", "title", "examples", "example", "$comment", "deprecated"];
/// Larger values accept more, and less.
const AT_MOST: [&str; 5] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
const AT_LEAST: [&str; 5] = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];

/// Two schemas at one place.
fn schema<'n>(found: &mut Found<'n>, old: Option<Value<'_>>, new: Option<Value<'n>>) {
    if same(old, new) {
        return;
    }
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) if old.kind() == Kind::Object && new.kind() == Kind::Object => (old, new),
        (old, new) => {
            if let Some(new) = new {
                found.at(new);
                if has_text(new) {
                    found.add(Change::Description);
                }
            }
            return found.add(match (rank(old), rank(new)) {
                (before, after) if before < after => Change::SchemaWidened,
                (before, after) if before > after => Change::SchemaNarrowed,
                _ => Change::SchemaChanged,
            });
        }
    };
    let before = found.at;
    for (name, value) in new.members() {
        let text = name.str().unwrap_or_default();
        found.at(value);
        keyword(found, &text, (old, new), (old.get(&text), Some(value)));
    }
    found.at(before);
    for (name, value) in old.members() {
        let text = name.str().unwrap_or_default();
        if new.get(&text).is_none() {
            keyword(found, &text, (old, new), (Some(value), None));
        }
    }
    found.at(before);
}

/// How much a schema accepts that is absent, a boolean or an object.
fn rank(schema: Option<Value<'_>>) -> u8 {
    match schema {
        None => 2,
        Some(value) => match value.bool() {
            Some(true) => 2,
            Some(false) => 0,
            None => 1,
        },
    }
}

fn keyword<'n>(
    found: &mut Found<'n>,
    name: &str,
    (old_schema, new_schema): (Value<'_>, Value<'n>),
    (old, new): (Option<Value<'_>>, Option<Value<'n>>),
) {
    if same(old, new) {
        return;
    }
    match name {
        _ if TEXTS.contains(&name) => found.add(Change::Description),
        _ if NAMED.contains(&name) => named(found, name, (old_schema, new_schema), (old, new)),
        "required" => sets(found, old, new, Change::SchemaNarrowed, Change::SchemaWidened),
        "enum" => {
            for item in new.into_iter().flat_map(|new| new.items()).filter(|item| is_prose(*item)) {
                let added = !old.into_iter().flat_map(|old| old.items()).any(|known| same(Some(known), Some(item)));
                if added {
                    found.at(item).add(Change::Description);
                }
            }
            match (old, new) {
                (Some(_), Some(_)) => sets(found, old, new, Change::SchemaWidened, Change::SchemaNarrowed),
                (None, _) => found.add(Change::SchemaNarrowed),
                (_, None) => found.add(Change::SchemaWidened),
            }
        }
        "type" => match (old, new) {
            (None, _) => found.add(Change::SchemaNarrowed),
            (_, None) => found.add(Change::SchemaWidened),
            _ => sets(found, old, new, Change::SchemaWidened, Change::SchemaNarrowed),
        },
        _ if AT_MOST.contains(&name) => bound(found, old, new, false),
        _ if AT_LEAST.contains(&name) => bound(found, old, new, true),
        "additionalProperties" | "unevaluatedProperties" => schema(found, old, new),
        _ if NESTED.contains(&name) => schema(found, old, new),
        "anyOf" | "oneOf" | "allOf" => alternatives(found, name == "allOf", old, new),
        "pattern" | "format" | "multipleOf" | "const" | "uniqueItems" | "not" => {
            if let Some(new) = new.filter(|new| has_text(*new) || is_prose(*new)) {
                found.at(new).add(Change::Description);
            }
            found.add(match (old, new) {
                (None, _) => Change::SchemaNarrowed,
                (_, None) => Change::SchemaWidened,
                _ => Change::SchemaChanged,
            });
        }
        _ => {
            if let Some(new) = new.filter(|new| has_text(*new) || is_prose(*new)) {
                found.at(new).add(Change::Description);
            }
            found.add(Change::SchemaChanged);
        }
    }
}

/// Schemas by name.
fn named<'n>(
    found: &mut Found<'n>,
    keyword: &str,
    (old_schema, new_schema): (Value<'_>, Value<'n>),
    (old, new): (Option<Value<'_>>, Option<Value<'n>>),
) {
    let requires = |schema: Value<'_>, name: &str| {
        schema.get("required").is_some_and(|required| required.items().any(|item| item.is(name)))
    };
    let properties = keyword == "properties";
    for (name, value) in new.into_iter().flat_map(|new| new.members()) {
        let text = name.str().unwrap_or_default();
        match old.and_then(|old| old.get(&text)) {
            Some(before) => schema(found.at(value), Some(before), Some(value)),
            None => {
                found.at(value);
                if has_text(value) || is_prose(name) {
                    found.add(Change::Description);
                }
                let closed = old_schema.get("additionalProperties").is_some_and(|more| more.bool() == Some(false));
                match () {
                    () if !properties => found.add(Change::SchemaChanged),
                    // What was accepted as any other member has a schema now.
                    () if requires(new_schema, &text) && !closed => found.add(Change::SchemaNarrowed),
                    () => found.add(Change::SchemaWidened),
                }
            }
        }
    }
    for (name, _) in old.into_iter().flat_map(|old| old.members()) {
        let text = name.str().unwrap_or_default();
        if new.and_then(|new| new.get(&text)).is_none() {
            found.add(if properties { Change::SchemaNarrowed } else { Change::SchemaChanged });
        }
    }
    // Only the order of names that stand twice can differ still.
    if old.is_some_and(|old| old.kind() != Kind::Object) || new.is_some_and(|new| new.kind() != Kind::Object) {
        found.add(Change::SchemaChanged);
    }
}

/// Two sets of values, each a list or one alone.
fn sets(found: &mut Found<'_>, old: Option<Value<'_>>, new: Option<Value<'_>>, more: Change, less: Change) {
    let set = |value: Option<Value<'_>>| -> BTreeSet<Vec<u8>> {
        match value {
            Some(value) if value.kind() == Kind::Array => value.items().map(canonical).collect(),
            other => other.map(canonical).into_iter().collect(),
        }
    };
    let (old, new) = (set(old), set(new));
    if new.difference(&old).next().is_some() {
        found.add(more);
    }
    if old.difference(&new).next().is_some() {
        found.add(less);
    }
    if old == new {
        found.add(Change::SchemaChanged);
    }
}

fn bound(found: &mut Found<'_>, old: Option<Value<'_>>, new: Option<Value<'_>>, at_least: bool) {
    let number = |value: Value<'_>| std::str::from_utf8(value.raw()).ok()?.parse::<f64>().ok();
    let change = match (old, new) {
        (None, _) => Change::SchemaNarrowed,
        (_, None) => Change::SchemaWidened,
        (Some(old), Some(new)) => match (number(old), number(new)) {
            (Some(old), Some(new)) if old == new => Change::SchemaChanged,
            (Some(old), Some(new)) if (new > old) != at_least => Change::SchemaWidened,
            (Some(_), Some(_)) => Change::SchemaNarrowed,
            _ => Change::SchemaChanged,
        },
    };
    found.add(change);
}

/// Lists of schemas. Those at equal places are compared where the lists are of equal length.
fn alternatives<'n>(found: &mut Found<'n>, all: bool, old: Option<Value<'_>>, new: Option<Value<'n>>) {
    let (more, less) = match all {
        true => (Change::SchemaNarrowed, Change::SchemaWidened),
        false => (Change::SchemaWidened, Change::SchemaNarrowed),
    };
    let (Some(old_list), Some(new_list)) = (old, new) else {
        if let Some(new) = new.filter(|new| has_text(*new)) {
            found.at(new).add(Change::Description);
        }
        return found.add(if new.is_some() { Change::SchemaNarrowed } else { Change::SchemaWidened });
    };
    if old_list.items().count() == new_list.items().count() {
        for (old, new) in old_list.items().zip(new_list.items()) {
            schema(found.at(new), Some(old), Some(new));
        }
        return;
    }
    let known: BTreeSet<Vec<u8>> = old_list.items().map(canonical).collect();
    for item in new_list.items().filter(|item| !known.contains(&canonical(*item)) && has_text(*item)) {
        found.at(item).add(Change::Description);
    }
    sets(found, old, new, more, less);
}

/// Whether text stands in a schema that a model reads as such.
fn has_text(value: Value<'_>) -> bool {
    value.walk().any(|(inner, is_key)| match is_key {
        true => TEXTS.iter().any(|text| inner.is(text)),
        false => is_prose(inner),
    })
}

/// A string that is more than a word.
fn is_prose(value: Value<'_>) -> bool {
    value.text().is_some_and(|text| text.iter().any(|b| b.is_ascii_whitespace() || !b.is_ascii()) || text.len() > 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::json::{JsonLimits, parse};
    use crate::engine::layer::Layer;
    use bumpalo::Bump;

    fn classes(old: &str, new: &str) -> String {
        let bump = Bump::new();
        let value = |json: &str| {
            let layer = Layer::record(&bump, bump.alloc_slice_copy(json.as_bytes()));
            parse(&bump, layer, JsonLimits::default()).unwrap()
        };
        changes(value(old), value(new)).iter().map(|(c, _)| c.name()).collect::<Vec<_>>().join(" ")
    }

    fn tool(schema: &str) -> String {
        format!(r#"{{"name":"f","inputSchema":{schema}}}"#)
    }

    #[test]
    fn changes_of_schemas_have_their_classes() {
        let a = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#;
        for (old, new, expected) in [
            (a, a, ""),
            (a, r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, "schema_widened"),
            (a, r#"{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a"]}"#, "schema_widened"),
            (
                a,
                r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"description":"put the key here"}},"required":["a"]}"#,
                "description schema_widened",
            ),
            (
                a,
                r#"{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a","b"]}"#,
                "schema_narrowed",
            ),
            (a, r#"{"type":"object","properties":{},"required":["a"]}"#, "schema_narrowed"),
            (
                a,
                r#"{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}"#,
                "schema_widened",
            ),
            (
                a,
                r#"{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}"#,
                "schema_widened schema_narrowed",
            ),
            (
                a,
                r#"{"type":"object","properties":{"a":{"type":"string","title":"x"}},"required":["a"]}"#,
                "description",
            ),
            (
                a,
                r#"{"type":"object","properties":{"a":{"type":"string","default":"x"}},"required":["a"]}"#,
                "schema_changed",
            ),
            (
                a,
                r#"{"type":"object","properties":{"a":{"type":"string","default":"read it first"}},"required":["a"]}"#,
                "description schema_changed",
            ),
            (r#"{"maximum":3}"#, r#"{"maximum":4}"#, "schema_widened"),
            (r#"{"minLength":3}"#, r#"{"minLength":4}"#, "schema_narrowed"),
            (r#"{"maximum":3}"#, r#"{"maximum":3.0}"#, "schema_changed"),
            (r#"{"enum":["a"]}"#, r#"{"enum":["a","b"]}"#, "schema_widened"),
            (r#"{"enum":["a"]}"#, r#"{"enum":["a","b c"]}"#, "description schema_widened"),
            (r#"{"enum":["a","b"]}"#, r#"{"enum":["b","a"]}"#, "schema_changed"),
            (r#"{"additionalProperties":false}"#, "{}", "schema_widened"),
            ("{}", r#"{"additionalProperties":{"type":"string"}}"#, "schema_narrowed"),
            (r#"{"anyOf":[{"type":"string"}]}"#, r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "schema_widened"),
            (r#"{"allOf":[{"type":"string"}]}"#, r#"{"allOf":[{"type":"string"},{"minLength":1}]}"#, "schema_narrowed"),
            (r#"{"items":{"maxLength":2}}"#, r#"{"items":{"maxLength":3}}"#, "schema_widened"),
            (r##"{"$ref":"#/a"}"##, r##"{"$ref":"#/b"}"##, "schema_changed"),
        ] {
            assert_eq!(classes(&tool(old), &tool(new)), expected, "{old} to {new}");
        }
    }

    #[test]
    fn changes_of_other_members_have_theirs() {
        for (old, new, expected) in [
            (r#"{"name":"f"}"#, r#"{"name":"f","description":"x"}"#, "description"),
            (r#"{"name":"f","title":"x"}"#, r#"{"name":"f"}"#, "title"),
            (r#"{"name":"f"}"#, r#"{"name":"f","annotations":{"title":"x"}}"#, "title"),
            (
                r#"{"name":"f","annotations":{"destructiveHint":true}}"#,
                r#"{"name":"f","annotations":{"readOnlyHint":true}}"#,
                "hint_flipped",
            ),
            (r#"{"name":"f","annotations":1}"#, r#"{"name":"f","annotations":2}"#, "hint_flipped"),
            (r#"{"name":"f"}"#, r#"{"name":"f","icons":[]}"#, "other"),
            (r#"{"name":"f"}"#, r#"{"name":"f","name":"f"}"#, "other"),
            (r#"{"name":"f"}"#, r#"{"name":"f","outputSchema":{"description":"x"}}"#, "description schema_narrowed"),
            ("1", "2", "other"),
        ] {
            assert_eq!(classes(old, new), expected, "{old} to {new}");
        }
    }

    #[test]
    fn names_go_through() {
        for change in Change::ALL {
            assert_eq!(Change::from_name(change.name()), Some(change));
            assert_eq!(serde_json::json!(change), change.name());
        }
        for change in Change::ALL {
            for name in [change.name().to_owned(), change.name().replace('_', "-")] {
                assert_eq!(Change::from_name(&name), Some(change));
                assert_eq!(serde_json::from_value::<Change>(name.into()).unwrap(), change);
            }
        }
        assert_eq!(Change::from_name("all"), None);
    }
}
