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

/// The first member of the skeleton that stands twice in one object.
pub(super) fn ambiguous<'r>(root: Value<'r>, content: &[&str]) -> Option<Value<'r>> {
    let mut waiting = vec![root];
    while let Some(value) = waiting.pop() {
        match value.kind() {
            Kind::Object => {
                if let Some(again) = repeated(value) {
                    return Some(again);
                }
                let holds = |value: &Value<'r>| matches!(value.kind(), Kind::Object | Kind::Array);
                for (name, value) in value.members().filter(|(_, value)| holds(value)) {
                    let skipped = value.kind() == Kind::Object && CONTENT.iter().any(|known| name.is(known))
                        || content.iter().any(|known| name.is(known));
                    if !skipped {
                        waiting.push(value);
                    }
                }
            }
            Kind::Array => waiting.extend(value.items().filter(|v| matches!(v.kind(), Kind::Object | Kind::Array))),
            _ => {}
        }
    }
    None
}

fn repeated<'r>(object: Value<'r>) -> Option<Value<'r>> {
    let few: Vec<Value<'r>> = object.members().take(FEW + 1).map(|(name, _)| name).collect();
    if few.len() <= FEW {
        let same = |a: &Value<'r>, b: &Value<'r>| {
            a.raw() == b.raw() || (is_escaped(a) || is_escaped(b)) && a.text() == b.text()
        };
        return few.iter().enumerate().find(|(at, name)| few[..*at].iter().any(|b| same(name, b))).map(|(_, v)| *v);
    }
    let mut seen = std::collections::HashSet::new();
    object.members().map(|(name, _)| name).find(|name| !seen.insert(name.text().unwrap_or_default()))
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
