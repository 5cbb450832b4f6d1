//! A definition as bytes that do not depend on how it was written, and its digests.
//!
//! Members are ordered by their names, strings are written with as few escapes as JSON allows, numbers stand as
//! they are spelt (two spellings of one number are two texts to a model), arrays keep their order but for the
//! names under `required`, which are a set. White space is gone. A member that stands twice stands twice.

use crate::engine::digest::{push_json_string, sha256};
use crate::engine::json::{Kind, Value};
use std::borrow::Cow;

/// The parts of a definition that have digests of their own, by their place in [`Fingerprint::parts`].
pub const TEXT: usize = 0;
pub const TITLE: usize = 1;
pub const SCHEMA: usize = 2;
pub const HINTS: usize = 3;
pub const OTHER: usize = 4;

/// Members that hold a schema, by the names of MCP, of hosted lists and of requests.
pub const INPUTS: [&str; 5] = ["inputSchema", "input_schema", "parameters", "parametersJsonSchema", "schema"];
pub const OUTPUTS: [&str; 4] = ["outputSchema", "output_schema", "response", "responseJsonSchema"];

/// What tells one definition from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// SHA-256 of the canonical form.
    pub digest: [u8; 32],
    /// Short digests of description, title, schemas, hints, and the rest but the name. That of the schemas is
    /// zero where no parameter is declared.
    pub parts: [[u8; 8]; 5],
}

impl Fingerprint {
    /// Of a tool's definition, or of instructions.
    pub fn of(item: Value<'_>) -> Self {
        let digest = sha256(&canonical(item));
        let mut parts: [Vec<u8>; 5] = Default::default();
        let body = function(item);
        let has_parameters = body.members().any(|(name, schema)| {
            let properties = schema.get("properties");
            INPUTS.iter().any(|known| name.is(known)) && properties.is_some_and(|p| p.members().next().is_some())
        });
        let mut members: Vec<(Cow<'_, [u8]>, Value<'_>)> =
            body.members().map(|(name, value)| (name.text().unwrap_or_default(), value)).collect();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, value) in members {
            let name = std::str::from_utf8(&name).unwrap_or_default();
            match part_of(name) {
                None => {}
                Some(HINTS) => {
                    for (hint, value) in value.members() {
                        let part = if hint.is("title") { TITLE } else { HINTS };
                        push_part(&mut parts, part, &hint.text().unwrap_or_default(), value);
                    }
                }
                Some(part) => push_part(&mut parts, part, name.as_bytes(), value),
            }
        }
        if !has_parameters && let Some(schema) = parts.get_mut(SCHEMA) {
            schema.clear();
        }
        Self { digest, parts: parts.map(|part| if part.is_empty() { [0; 8] } else { brief(&part) }) }
    }
}

/// The part that a member belongs to; the name belongs to none.
pub fn part_of(name: &str) -> Option<usize> {
    Some(match name {
        "name" => return None,
        "description" => TEXT,
        "title" => TITLE,
        "annotations" => HINTS,
        name if INPUTS.contains(&name) || OUTPUTS.contains(&name) => SCHEMA,
        _ => OTHER,
    })
}

fn push_part(parts: &mut [Vec<u8>; 5], part: usize, name: &[u8], value: Value<'_>) {
    let Some(out) = parts.get_mut(part) else { return };
    // Requests name the same members otherwise: a description is compared across them.
    if part != TEXT {
        push_json_string(out, name);
        out.push(b':');
    }
    push(out, value, false);
}

/// The definition proper: Chat nests it.
pub fn function<'r>(item: Value<'r>) -> Value<'r> {
    item.get("function").filter(|inner| inner.kind() == Kind::Object && item.get("name").is_none()).unwrap_or(item)
}

/// The first eight bytes of SHA-256.
pub fn brief(bytes: &[u8]) -> [u8; 8] {
    let mut out = [0; 8];
    out.iter_mut().zip(sha256(bytes)).for_each(|(to, from)| *to = from);
    out
}

/// See the module.
pub fn canonical(value: Value<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.span().len());
    push(&mut out, value, false);
    out
}

/// Depth is bounded by the scanner's.
fn push(out: &mut Vec<u8>, value: Value<'_>, set: bool) {
    match value.kind() {
        Kind::Null | Kind::Bool | Kind::Number => out.extend_from_slice(value.raw()),
        Kind::String => push_json_string(out, &value.text().unwrap_or_default()),
        Kind::Array => {
            let mut items: Vec<Value<'_>> = value.items().collect();
            if set && items.iter().all(|item| item.kind() == Kind::String) {
                items.sort_by_cached_key(|item| item.text().unwrap_or_default());
            }
            out.push(b'[');
            for (at, item) in items.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                push(out, item, false);
            }
            out.push(b']');
        }
        Kind::Object => {
            let mut members: Vec<(Cow<'_, [u8]>, Value<'_>)> =
                value.members().map(|(name, value)| (name.text().unwrap_or_default(), value)).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            out.push(b'{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                push_json_string(out, &name);
                out.push(b':');
                push(out, value, &*name == b"required");
            }
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::json::{JsonLimits, parse};
    use crate::engine::layer::Layer;
    use bumpalo::Bump;

    fn print(json: &str) -> (String, Fingerprint) {
        let bump = Bump::new();
        let value = parse(&bump, Layer::record(&bump, json.as_bytes()), JsonLimits::default()).unwrap();
        (String::from_utf8(canonical(value)).unwrap(), Fingerprint::of(value))
    }

    #[test]
    fn what_says_the_same_is_the_same() {
        let (text, one) =
            print(r#"{"name":"f","inputSchema":{"required":["b","a"],"properties":{"a":{"minimum":1.0}}}}"#);
        assert_eq!(text, r#"{"inputSchema":{"properties":{"a":{"minimum":1.0}},"required":["a","b"]},"name":"f"}"#);
        let other = r#" {"inputSchema": {"properties":{"\u0061":{"minimum":1.0}},"required":["a","b"]},"name":"f"}"#;
        assert_eq!(print(other).1, one);
        for changed in [
            r#"{"name":"f","inputSchema":{"required":["b","a"],"properties":{"a":{"minimum":1}}}}"#,
            r#"{"name":"f","name":"f","inputSchema":{"required":["b","a"],"properties":{"a":{"minimum":1.0}}}}"#,
            r#"{"name":"f","inputSchema":{"required":["b","a"],"properties":{"a":{"minimum":1.0}}},"icons":[]}"#,
        ] {
            assert_ne!(print(changed).1.digest, one.digest, "{changed}");
        }
        assert_ne!(print(r#"{"enum":["a","b"]}"#).1, print(r#"{"enum":["b","a"]}"#).1);
    }

    #[test]
    fn each_member_has_its_part() {
        let base = print(r#"{"name":"f"}"#).1.parts;
        let changed = |json: &str| {
            let parts = print(json).1.parts;
            (0..5).filter(|at| parts[*at] != base[*at]).collect::<Vec<_>>()
        };
        assert!(changed(r#"{"name":"g"}"#).is_empty());
        assert_eq!(changed(r#"{"name":"f","description":"x"}"#), [TEXT]);
        assert_eq!(changed(r#"{"name":"f","annotations":{"title":"x"}}"#), [TITLE]);
        assert_eq!(changed(r#"{"name":"f","annotations":{"readOnlyHint":true}}"#), [HINTS]);
        assert_eq!(changed(r#"{"name":"f","inputSchema":{"properties":{"a":{}}}}"#), [SCHEMA]);
        assert!(changed(r#"{"name":"f","inputSchema":{"type":"object"}}"#).is_empty(), "no parameter");
        assert_eq!(changed(r#"{"name":"f","_meta":{"a":1}}"#), [OTHER]);
        let nested = r#"{"type":"function","function":{"name":"f","description":"x"}}"#;
        assert_eq!(print(nested).1.parts[TEXT], print(r#"{"name":"f","description":"x"}"#).1.parts[TEXT]);
    }
}
