//! What a call means, whatever its id and however its arguments are spelt.
//!
//! Canonical arguments are the JSON value with members in order of their names, strings decoded, numbers as their
//! text, and no white space. Two calls of one tool whose canonical arguments are equal may be one intent that was
//! retried, or two: a hint, never a proof (`field-bugs` 39 and 40).
//!
//! Invariant: one walk over the value and one sort a level; what is very long or deep has no digest.

use crate::engine::digest::{Keyed, Role, short};
use crate::engine::json::{Kind, Value};
use crate::engine::state::Call;
use std::borrow::Cow;

/// The longest arguments that have a digest, bytes as they stand.
const MOST_BYTES: usize = 256 << 10;
/// The deepest.
const MOST_DEPTH: u32 = 64;

/// Keyed digest of a call's tool and canonical arguments.
pub fn digest(keyed: &Keyed, call: &Call, arguments: Value<'_>) -> Option<[u8; 16]> {
    if arguments.span().len() > MOST_BYTES {
        return None;
    }
    let mut text = Vec::with_capacity(arguments.span().len());
    write(arguments, &mut text, MOST_DEPTH)?;
    let (namespace, server) = (call.namespace.as_deref(), call.server.as_deref());
    let parts = [&call.name, namespace.unwrap_or_default(), server.unwrap_or_default(), &text];
    Some(short(keyed.digest(Role::Content, &parts)))
}

fn write(value: Value<'_>, out: &mut Vec<u8>, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match value.kind() {
        Kind::Null | Kind::Bool | Kind::Number => out.extend_from_slice(value.raw()),
        Kind::String => string(&value.text().unwrap_or_default(), out),
        Kind::Array => {
            out.push(b'[');
            for item in value.items() {
                write(item, out, depth)?;
                out.push(b',');
            }
            out.push(b']');
        }
        Kind::Object => {
            let mut members: Vec<(Cow<'_, [u8]>, Value<'_>)> =
                value.members().map(|(name, value)| (name.text().unwrap_or_default(), value)).collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            out.push(b'{');
            for (name, value) in members {
                string(&name, out);
                write(value, out, depth)?;
                out.push(b',');
            }
            out.push(b'}');
        }
    }
    Some(())
}

/// A length before its text leaves nothing to escape.
fn string(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text.len().to_string().as_bytes());
    out.push(b'"');
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::event::Slot;
    use crate::engine::json::{JsonLimits, parse};
    use crate::engine::layer::Layer;
    use crate::engine::state::Opened;
    use bumpalo::Bump;

    fn of(tool: &str, json: &str) -> Option<[u8; 16]> {
        let bump = Bump::new();
        let layer = Layer::record(&bump, bump.alloc_slice_copy(json.as_bytes()));
        let call = Call { name: tool.into(), ..Call::new(0, Slot(0, 0), Opened::default()) };
        digest(&Keyed::new([7; 32]), &call, parse(&bump, layer, JsonLimits::default()).ok()?)
    }

    #[test]
    fn spelling_does_not_count_and_everything_else_does() {
        let one = of("t", r#"{"b":[1,{"x":"\u0061"}],"a":null}"#);
        assert!(one.is_some());
        assert_eq!(one, of("t", r#" { "a" : null , "b" : [ 1 , { "x" : "a" } ] } "#));
        for (tool, other) in [
            ("u", r#"{"b":[1,{"x":"a"}],"a":null}"#),
            ("t", r#"{"b":[1.0,{"x":"a"}],"a":null}"#),
            ("t", r#"{"b":[{"x":"a"},1],"a":null}"#),
            ("t", r#"{"b":[1,{"x":"a"}]}"#),
        ] {
            assert_ne!(one, of(tool, other), "{other}");
        }
        assert_eq!(of("t", &"[".repeat(70)), None);
        assert_eq!(of("t", &format!("{}1{}", "[".repeat(70), "]".repeat(70))), None);
    }
}
