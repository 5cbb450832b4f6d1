//! What a call means, whatever its id and however its arguments are spelt.
//!
//! Two calls of one tool whose arguments are one value, see [`canonical`], may be one intent that was retried, or
//! two: a hint, never a proof (`field-bugs` 39 and 40).
//!
//! Invariant: one walk over the value and one sort a level; what is very long has no digest.

use crate::engine::digest::{Keyed, Role, short};
use crate::engine::json::{Value, canonical};
use crate::engine::state::Call;

/// The longest arguments that have a digest, bytes as they stand.
const MOST_BYTES: usize = 256 << 10;

/// Keyed digest of a call's tool and canonical arguments.
pub fn digest(keyed: &Keyed, call: &Call, arguments: Value<'_>) -> Option<[u8; 16]> {
    if arguments.span().len() > MOST_BYTES {
        return None;
    }
    let text = canonical(arguments);
    let (namespace, server) = (call.namespace.as_deref(), call.server.as_deref());
    let parts = [&call.name, namespace.unwrap_or_default(), server.unwrap_or_default(), &text];
    Some(short(keyed.digest(Role::Content, &parts)))
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
        assert_eq!(one, of("t", r#" { "a" : null , "b" : [ 1.0 , { "x" : "a" } ] } "#));
        for (tool, other) in [
            ("u", r#"{"b":[1,{"x":"a"}],"a":null}"#),
            ("t", r#"{"b":[1.5,{"x":"a"}],"a":null}"#),
            ("t", r#"{"b":[{"x":"a"},1],"a":null}"#),
            ("t", r#"{"b":[1,{"x":"a"}]}"#),
        ] {
            assert_ne!(one, of(tool, other), "{other}");
        }
        assert_eq!(of("t", &format!("\"{}\"", "x".repeat(MOST_BYTES))), None);
    }
}
