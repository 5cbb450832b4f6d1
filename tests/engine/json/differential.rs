//! Properties against serde_json; what is compared stands with the fuzz target, which compares the same.

use super::LIMITS;
use crate::fuzz::json::compare;
use bumpalo::Bump;
use proptest::prelude::*;
use sluicegate::engine::json::{Value, parse, path_at};
use sluicegate::engine::layer::Layer;

fn arb_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
        "[a-z\"\\\\\n é€😀]{0,80}".prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::hash_map("[a-c\"\\\\é]{0,3}", inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Texts that are nearly JSON: tokens in a row.
fn arb_tokens() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        " ",
        "\n",
        "\"",
        "\"a\"",
        "\"\\ud83d",
        "\\ude00\"",
        "\\u00",
        "1",
        "-",
        "0",
        ".5",
        "e",
        "E+2",
        "1e999",
        "null",
        "true",
        "fals",
        "e",
        "\"é\"",
        "\u{1}",
        "{\"a\":",
        "},",
    ]);
    prop::collection::vec(token, 0..14).prop_map(|tokens| tokens.concat().into_bytes())
}

fn mutate(mut bytes: Vec<u8>, mutations: &[(usize, u8, u8)]) -> Vec<u8> {
    for &(at, how, byte) in mutations {
        let at = at % (bytes.len() + 1);
        match how % 5 {
            0 => bytes.insert(at, byte),
            1 if at < bytes.len() => bytes[at] = byte,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            _ => {
                let tail = bytes[at..].to_vec();
                let keep = usize::from(byte) % (tail.len() + 1);
                bytes.splice(at..at, tail[..keep].iter().copied());
            }
        }
    }
    bytes
}

fn arb_byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(b"\"\\[]{},:0123u-.eE ntf\xED\xA0\x80".to_vec())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn agrees_on_serialised_values(value in arb_json(), pretty: bool) {
        let text = match pretty {
            true => serde_json::to_vec_pretty(&value).unwrap(),
            false => serde_json::to_vec(&value).unwrap(),
        };
        compare(&text);
    }

    #[test]
    fn agrees_on_mutations(
        value in arb_json(),
        mutations in prop::collection::vec((any::<usize>(), any::<u8>(), arb_byte()), 1..4),
    ) {
        compare(&mutate(serde_json::to_vec(&value).unwrap(), &mutations));
    }

    #[test]
    fn agrees_on_tokens(text in arb_tokens()) {
        compare(&text);
    }

    #[test]
    fn agrees_on_bytes(text in prop::collection::vec(arb_byte(), 0..24)) {
        compare(&text);
    }

    /// Strings of every length and alignment, special bytes anywhere.
    #[test]
    fn agrees_on_long_strings(pad in 0..40usize, len in 0..200usize, at in 0..200usize, byte in arb_byte()) {
        let mut text = " ".repeat(pad).into_bytes();
        text.push(b'"');
        text.extend(std::iter::repeat_n(b'x', len));
        text.insert(pad + 1 + at % (len + 1), byte);
        text.extend_from_slice(b"\"");
        compare(&text);
    }

    #[test]
    fn path_at_is_the_innermost_value(value in arb_json(), a: prop::sample::Index, b: prop::sample::Index) {
        let text = serde_json::to_vec(&value).unwrap();
        let bump = Bump::new();
        let root = parse(&bump, Layer::record(&bump, &text), LIMITS).unwrap();
        let (a, b) = (a.index(text.len() + 1) as u32, b.index(text.len() + 1) as u32);
        let (start, end) = (a.min(b), a.max(b));
        let holds = |value: &Value<'_>| value.span().start <= start && end <= value.span().end;
        let innermost = root.walk().map(|(value, _)| value).filter(holds).last().unwrap_or(root);
        prop_assert_eq!(path_at(root, start, end), innermost.path());
    }
}
