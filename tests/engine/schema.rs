//! Schemas of tools: what is accepted, what is refused, and that nothing hostile costs time or I/O.

use serde_json::{Value, json};
use sluicegate::engine::policy::SchemaCache;

fn flaw(schema: &Value) -> Option<&'static str> {
    SchemaCache::default().get(schema.to_string().as_bytes(), false).flaw()
}

fn violations(schema: &Value, instance: &Value) -> Vec<(String, &'static str)> {
    let compiled = SchemaCache::default().get(schema.to_string().as_bytes(), false);
    assert_eq!(compiled.flaw(), None, "{schema}");
    let bytes = instance.to_string().len();
    compiled.violations(instance, bytes, 16).into_iter().map(|v| (v.pointer, v.keyword)).collect()
}

#[test]
fn schemas_that_cannot_be_used() {
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"properties": {"a": deep}});
    }
    let doubling: serde_json::Map<String, Value> = (0..40)
        .map(|n| {
            (
                format!("a{n}"),
                json!({"allOf": [{"$ref": format!("#/$defs/a{}", n + 1)}, {"$ref": format!("#/$defs/a{}", n + 1)}]}),
            )
        })
        .chain([("a40".to_owned(), json!({"type": "string"}))])
        .collect();
    let cases = [
        (json!({"$ref": "https://example.com/schema.json"}), "reference"),
        (json!({"$ref": "file:///etc/passwd"}), "reference"),
        (json!({"properties": {"a": {"$ref": "http://169.254.169.254/latest"}}}), "reference"),
        (json!({"$ref": "#/$defs/missing"}), "reference"),
        (json!({"$ref": "#"}), "cyclic"),
        (
            json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            "cyclic",
        ),
        (json!({"$defs": doubling, "properties": {"x": {"$ref": "#/$defs/a0"}}}), "too_complex"),
        (json!({"$dynamicRef": "#node"}), "unsupported"),
        (json!({"properties": {"a": {"$id": "https://example.com/a", "type": "string"}}}), "unsupported"),
        (json!({"type": "OBJECT"}), "invalid"),
        (json!({"type": 12}), "invalid"),
        (json!({"pattern": "(a"}), "pattern"),
        (json!({"pattern": "a".repeat(5000)}), "pattern"),
        (json!({"description": "x".repeat(300_000)}), "too_large"),
        (deep, "malformed"),
    ];
    for (schema, wanted) in cases {
        let text = schema.to_string();
        assert_eq!(flaw(&schema), Some(wanted), "{}", &text[..text.len().min(120)]);
    }
    assert_eq!(SchemaCache::default().get(b"{\"type\":", false).flaw(), Some("malformed"));
}

#[test]
fn dialects() {
    // `items` as a list is 2020-12's `prefixItems`, and `dependencies` is gone from there.
    let pair = json!([1, "x"]);
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]});
    assert_eq!(violations(&old, &pair), [("/0".to_owned(), "type")]);
    let new = json!({"prefixItems": [{"type": "string"}]});
    assert_eq!(violations(&new, &pair), [("/0".to_owned(), "type")]);
    let unstated = json!({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "string"}]});
    assert_eq!(violations(&unstated, &pair), []);
}

/// A schema without `$schema` is of 2020-12; one of a draft that nobody knows is not guessed at.
#[test]
fn every_draft_by_its_name() {
    let boolean = json!({"maximum": 5, "exclusiveMaximum": true});
    let number = json!({"exclusiveMaximum": 5, "const": 4});
    let together = json!({"dependentRequired": {"a": ["b"]}});
    let cases = [
        ("http://json-schema.org/draft-04/schema#", &boolean, json!(5), "exclusiveMaximum"),
        ("http://json-schema.org/draft-06/schema#", &number, json!(4), ""),
        ("http://json-schema.org/draft-06/schema#", &number, json!(3), "const"),
        ("http://json-schema.org/draft-07/schema", &number, json!(3), "const"),
        // A keyword that came later asserts nothing.
        ("http://json-schema.org/draft-07/schema#", &together, json!({"a": 1}), ""),
        ("https://json-schema.org/draft/2019-09/schema", &together, json!({"a": 1}), "required"),
        ("https://json-schema.org/draft/2020-12/schema", &together, json!({"a": 1}), "required"),
        ("", &together, json!({"a": 1}), "required"),
    ];
    for (draft, schema, instance, wanted) in cases {
        let mut schema = schema.clone();
        if !draft.is_empty() {
            schema["$schema"] = json!(draft);
        }
        let keywords: Vec<&str> = violations(&schema, &instance).into_iter().map(|(_, keyword)| keyword).collect();
        assert_eq!(keywords.concat(), wanted, "{schema} {instance}");
    }
    assert_eq!(flaw(&json!({"$schema": "https://schemas.example/own", "type": "object"})), Some("reference"));
}

#[test]
fn formats_assert_only_if_asked() {
    let schema = json!({"format": "ipv4"}).to_string();
    let cache = SchemaCache::default();
    assert!(cache.get(schema.as_bytes(), false).accepts(&json!("no")));
    assert!(!cache.get(schema.as_bytes(), true).accepts(&json!("no")));
    assert_eq!(cache.len(), 2);
}

#[test]
fn recursive_schemas_are_decided() {
    let tree = json!({"$defs": {"node": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        "$ref": "#/$defs/node"});
    assert_eq!(violations(&tree, &json!({"name": "a", "children": [{"name": "b"}]})), []);
    assert_eq!(violations(&tree, &json!({"name": "a", "children": [{}]})).len(), 1);
}

/// Alternatives that all lead back to the same place: explaining a failure visits two to the depth.
#[test]
fn recursion_through_alternatives_stays_cheap() {
    let element = json!({"anyOf": [{"$ref": "#/$defs/box"}, {"$ref": "#/$defs/stack"}, {"type": "null"}]});
    let branch = |kind: &str| json!({"type": "object", "properties": {"kind": {"enum": [kind, "any"]}, "child": {"$ref": "#/$defs/element"}}});
    let schema = json!({"$defs": {"element": element, "box": branch("box"), "stack": branch("stack")}, "$ref": "#/$defs/element"});
    let mut instance = json!({"kind": "none"});
    for _ in 0..50 {
        instance = json!({"kind": "any", "child": instance});
    }
    assert_eq!(violations(&schema, &instance).len(), 1);
}

#[test]
fn patterns_cannot_stall() {
    // The linear engine takes any length; the other one only gets short instances.
    let cases = [("^(a+)+$", 50_000), ("^(a|aa)+$", 50_000), ("(?=a)(a+)+$", 8_000), ("^(?!b)(a|a)*$", 8_000)];
    for (pattern, length) in cases {
        let compiled = SchemaCache::default().get(json!({ "pattern": pattern }).to_string().as_bytes(), false);
        assert_eq!(compiled.flaw_for(length), None);
        assert_eq!(compiled.flaw_for(50_000).is_some(), length < 50_000);
        compiled.violations(&json!(format!("{}!", "a".repeat(length))), length + 3, 16);
    }
}

/// Look-around is not in the linear engine, but zod writes it for e-mail addresses.
#[test]
fn look_around_still_asserts() {
    let schema = json!({"pattern": "^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z]+$"});
    assert_eq!(violations(&schema, &json!("a.b@c")), []);
    assert_eq!(violations(&schema, &json!("a..b@c")), [(String::new(), "pattern")]);
}

/// A long instance is not held against look-around, and against everything else all the same.
#[test]
fn look_around_switches_off_nothing_else() {
    let hard = "^(?!x)[a-z]+$";
    let long = "y".repeat(10_000);
    let member = json!({"type": "string", "pattern": hard});
    let cases = [
        // What still blocks.
        (json!({"required": ["a"], "properties": {"b": member}}), json!({"b": long}), vec![("", "required")]),
        (json!({"properties": {"b": member, "c": {"enum": [1]}}}), json!({"b": long, "c": 2}), vec![("/c", "enum")]),
        (json!({"properties": {"b": {"type": "integer", "pattern": hard}}}), json!({"b": long}), vec![("/b", "type")]),
        (
            json!({"additionalProperties": false, "properties": {"b": member}}),
            json!({"b": long, "c": 1}),
            vec![("", "additionalProperties")],
        ),
        (
            json!({"properties": {"pattern": member, "not": member}, "required": ["x"]}),
            json!({"pattern": long}),
            vec![("", "required")],
        ),
        (
            json!({"$defs": {"m": member}, "properties": {"b": {"$ref": "#/$defs/m"}}, "maxProperties": 1}),
            json!({"b": long, "c": 1}),
            vec![("", "maxProperties")],
        ),
        (
            json!({"properties": {"b": {"pattern": "^[a-x]+$"}, "c": member}}),
            json!({"b": long}),
            vec![("/b", "pattern")],
        ),
        // What the pattern alone decides is left open, however it is turned.
        (json!({"properties": {"b": member}}), json!({"b": "x".repeat(10_000)}), vec![]),
        (json!({"properties": {"b": {"not": member}}}), json!({"b": "x".repeat(10_000)}), vec![]),
        (
            json!({"properties": {"b": {"if": member, "then": {"maxLength": 3}}}}),
            json!({"b": "x".repeat(10_000)}),
            vec![],
        ),
        (json!({"properties": {"b": {"oneOf": [member, {"minLength": 3}]}}}), json!({"b": "x".repeat(10_000)}), vec![]),
        (json!({"additionalProperties": false, "patternProperties": {"^(?!x)b": {}}}), json!({"b": long}), vec![]),
        (
            json!({"$defs": {"m": member}, "properties": {"b": {"not": {"$ref": "#/$defs/m"}}}}),
            json!({"b": "x".repeat(10_000)}),
            vec![],
        ),
        (json!({"contains": member, "maxContains": 1}), json!([long, "x"]), vec![]),
    ];
    for (schema, instance, wanted) in cases {
        let compiled = SchemaCache::default().get(schema.to_string().as_bytes(), false);
        assert_eq!((compiled.flaw(), compiled.flaw_for(10_000)), (None, Some("pattern")), "{schema}");
        let wanted: Vec<_> = wanted.into_iter().map(|(at, keyword)| (at.to_owned(), keyword)).collect();
        assert_eq!(violations(&schema, &instance), wanted, "{schema}");
    }
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let cache = SchemaCache::default();
    let schema = |n: u32| json!({ "maximum": n }).to_string();
    let first = cache.get(schema(0).as_bytes(), false);
    for n in 1..700 {
        cache.get(schema(n).as_bytes(), false);
        assert!(std::sync::Arc::ptr_eq(&first, &cache.get(schema(0).as_bytes(), false)));
    }
    assert_eq!(cache.len(), 512);
}

/// The deepest recursion that the bounds allow: every level of the instance goes through every level of the
/// schema that looks at one value. It must fit the stack of an ordinary thread.
#[test]
fn the_deepest_recursion_fits_the_stack() {
    let mut node = json!({"properties": {"a": {"$ref": "#/$defs/node"}}, "items": {"$ref": "#/$defs/node"}});
    for _ in 0..20 {
        node = json!({ "allOf": [node] });
    }
    let schema = json!({"$defs": {"node": node}, "$ref": "#/$defs/node"});
    let mut instance = json!(1);
    for _ in 0..127 {
        instance = json!({ "a": instance });
    }
    assert_eq!(violations(&schema, &instance), []);
}
