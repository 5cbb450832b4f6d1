//! The configuration file: closed, with the settings of each policy by its own rules and options.

use super::docs::{Field, Source};
use super::trace;
use super::{described, document, object, one_of, or_null};
use crate::engine::decision::Decision;
use crate::engine::policy::{MAX_OVERRIDES, Meta, Mode, Policies};
use crate::runtime::config::{Config, DENIED_PROPERTIES};
use serde_json::{Map, Value, json};

/// Fleets that become labels.
const MAX_FLEETS: usize = 32;

pub fn schema() -> Value {
    let docs = Source::read();
    let mut root = trace::of::<Config>(&docs);
    trace::add_defaults(&mut root, &serde_json::to_value(Config::default()).unwrap_or_default());
    let about = docs.of("PolicySettings", "policies");
    let policies = || described(json!({"$ref": "#/$defs/policies"}), about);
    put(&mut root, "/properties/policy/properties/policies", policies());
    let overrides = "/properties/policy/properties/overrides";
    put(&mut root, &format!("{overrides}/additionalProperties/properties/policies"), policies());
    put(&mut root, &format!("{overrides}/maxProperties"), json!(MAX_OVERRIDES));
    put(&mut root, &format!("{overrides}/additionalProperties/required"), json!(["match"]));
    let sets = json!([{"required": ["profile"]}, {"required": ["policies"]}]);
    put(&mut root, &format!("{overrides}/additionalProperties/anyOf"), sets);
    put(&mut root, &format!("{overrides}/additionalProperties/properties/match/minProperties"), json!(1));
    put(&mut root, "/properties/fleets/maxProperties", json!(MAX_FLEETS));
    let properties = "/properties/kafka/properties/properties";
    put(&mut root, &format!("{properties}/additionalProperties"), json!({"type": ["string", "number", "boolean"]}));
    put(&mut root, &format!("{properties}/propertyNames"), json!({"not": {"pattern": denied()}}));
    may_be_empty(&mut root, 2);
    root["$defs"] = json!({ "policies": policies_of(&docs) });
    document(
        "config",
        "Sluicegate configuration",
        "The file that --config names, as YAML. Each key can also be set from the environment, as in \
         SLUICEGATE__KAFKA__GROUP. Ranges, and what belongs together, are checked by `sluicegate validate`.",
        root,
    )
}

/// Sets what stands at a pointer, if the place of it is there.
fn put(root: &mut Value, pointer: &str, value: Value) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(members)) = root.pointer_mut(parent) {
        members.insert(name.to_owned(), value);
    }
}

/// A section with nothing under it reads as null: its defaults hold.
fn may_be_empty(schema: &mut Value, depth: u32) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut().filter(|p| p["type"] == "object") {
        *property = or_null(property.take());
        if depth > 1 {
            may_be_empty(property, depth - 1);
        }
    }
}

/// The names of librdkafka's properties that an operator may not set.
fn denied() -> String {
    let names: Vec<String> = DENIED_PROPERTIES
        .iter()
        .map(|(name, _)| name.replace('.', "\\."))
        .map(|name| name.strip_suffix('*').map_or_else(|| format!("{name}$"), str::to_owned))
        .collect();
    format!("^({})", names.join("|"))
}

fn policies_of(docs: &Source) -> Value {
    let all: Map<String, Value> =
        Policies::catalogue().iter().map(|meta| (meta.code.to_owned(), policy(meta, docs))).collect();
    json!({"type": "object", "properties": all, "additionalProperties": false})
}

fn policy(meta: &Meta, docs: &Source) -> Value {
    let mut docs = docs.clone();
    let page = Policies::page(meta.code).unwrap_or_default();
    let mut options = trace::by(&docs, |trace| Policies::read_options(meta.code, trace));
    let names: Vec<String> = options["properties"].as_object().map(|p| p.keys().cloned().collect()).unwrap_or_default();
    let said = |name: String| Field { doc: said_of(&page, &name), name, kind: String::new() };
    docs.structs.insert("Options".into(), names.into_iter().map(said).collect());
    // Once more, with what the page says of each.
    options = trace::by(&docs, |trace| Policies::read_options(meta.code, trace));
    trace::add_defaults(&mut options, &Policies::default_options(meta.code).unwrap_or_default());
    if let Some(tools) =
        options.pointer_mut("/properties/tools/items").filter(|items| items.get("properties").is_some())
    {
        tools["required"] = json!(["tool"]);
    }
    let effects = [Decision::Allow, Decision::Redact, Decision::Block].map(Decision::name);
    let rules: Map<String, Value> =
        meta.rules.iter().map(|rule| (rule.name.to_owned(), described(one_of(&effects), rule.message))).collect();
    let modes = [Mode::Enforce, Mode::Monitor, Mode::Off].map(|mode| serde_json::to_value(mode).unwrap_or_default());
    let mut schema = object(vec![
        super::perhaps("mode", docs.of("OnePolicy", "mode"), or_null(json!({"type": "string", "enum": modes}))),
        super::perhaps(
            "rules",
            docs.of("OnePolicy", "rules"),
            json!({"type": "object", "properties": rules, "additionalProperties": false}),
        ),
        super::perhaps("options", docs.of("OnePolicy", "options"), options),
    ]);
    schema["additionalProperties"] = json!(false);
    described(schema, &format!("{}: {}", meta.name, meta.summary))
}

/// What a policy's page says of an option: the item of its list that names it.
fn said_of(page: &str, option: &str) -> String {
    let list = page.split("\n# Options\n").nth(1).and_then(|rest| rest.split("\n# ").next()).unwrap_or_default();
    let mut items: Vec<String> = Vec::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match (line.strip_prefix("- "), items.last_mut()) {
            (Some(first), _) => items.push(first.to_owned()),
            (None, Some(item)) => {
                item.push(' ');
                item.push_str(line);
            }
            (None, None) => {}
        }
    }
    let name = format!("`{option}`");
    let named = items.iter().find(|item| item.starts_with(&name)).or(items.iter().find(|item| item.contains(&name)));
    named.cloned().unwrap_or_default()
}
