//! The skeleton: the objects whose members mean something on the wire.
//!
//! Parsers differ in which of two equal members they take. Where a message says `messages`, `content` or
//! `type` twice, this engine and the provider could read two different messages, so nothing of it is judged
//! as if it were clear. What a model or a tool wrote (arguments, schemas, raw output) is not skeleton: it may
//! repeat members, and policies look into it where that matters.

use crate::engine::json::{Kind, Value};

/// Members whose objects are content. `input` is wire structure as a list and content as an object.
const CONTENT: [&str; 12] = [
    "action",
    "args",
    "arguments",
    "format",
    "input",
    "input_schema",
    "metadata",
    "operation",
    "output_schema",
    "parameters",
    "schema",
    "structuredContent",
];

/// Members up to this many are compared pair by pair.
const FEW: usize = 12;

/// The first member of the skeleton that stands twice in one object. Recursive: the scanner bounds the depth.
/// Costs no allocation for objects of the usual size, since every fragment of a stream comes through here.
pub(super) fn ambiguous<'r>(value: Value<'r>, content: &[&str]) -> Option<Value<'r>> {
    match value.kind() {
        Kind::Array => value.items().find_map(|item| ambiguous(item, content)),
        Kind::Object => repeated(value).or_else(|| {
            value.members().find_map(|(name, value)| match value.kind() {
                Kind::Object if CONTENT.iter().any(|known| name.is(known)) => None,
                Kind::Object | Kind::Array if content.iter().any(|known| name.is(known)) => None,
                _ => ambiguous(value, content),
            })
        }),
        _ => None,
    }
}

fn repeated<'r>(object: Value<'r>) -> Option<Value<'r>> {
    let names = || object.members().map(|(name, _)| name);
    if names().nth(FEW).is_some() {
        let mut seen = std::collections::HashSet::new();
        return names().find(|name| !seen.insert(name.text().unwrap_or_default()));
    }
    let same =
        |a: &Value<'r>, b: &Value<'r>| a.raw() == b.raw() || (is_escaped(a) || is_escaped(b)) && a.text() == b.text();
    names().enumerate().find(|(at, name)| names().take(*at).any(|before| same(&before, name))).map(|(_, name)| name)
}

fn is_escaped(name: &Value<'_>) -> bool {
    name.raw().contains(&b'\\')
}

#[cfg(test)]
mod tests {
    use super::ambiguous;
    use crate::engine::json::{JsonLimits, parse};
    use crate::engine::layer::Layer;

    #[test]
    fn structure_is_said_once_and_content_may_repeat() {
        let many: String = (0..40).map(|n| format!("\"k{n}\":{n},")).collect();
        for (text, found) in [
            (r#"{"messages":[],"messages":[]}"#, true),
            (r#"{"messages":[{"role":"user","content":[{"type":"a","t\u0079pe":"b"}]}]}"#, true),
            (r#"{"content":[{"type":"tool_use","input":{"a":1,"a":2}}]}"#, false),
            (r#"{"input":[{"type":"a","type":"b"}]}"#, true),
            (r#"{"tools":[{"input_schema":{"type":"object","type":"object"}}]}"#, false),
            (r#"{"delta":{"partial_json":"","partial_json":"x"}}"#, true),
            (r#"{"a":1,"b":1}"#, false),
            (&format!("{{{many}\"k7\":1}}"), true),
            (&format!("{{{many}\"z\":1}}"), false),
        ] {
            let bump = bumpalo::Bump::new();
            let root = parse(&bump, Layer::record(&bump, text.as_bytes()), JsonLimits::default());
            assert_eq!(root.is_ok_and(|root| ambiguous(root, &[]).is_some()), found, "{text}");
        }
    }
}
