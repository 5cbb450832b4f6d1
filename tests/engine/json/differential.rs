//! Properties against serde_json: the same texts accepted, the same strings, numbers and paths found.

use super::LIMITS;
use bumpalo::Bump;
use proptest::prelude::*;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use sluicegate::engine::json::{Kind, Segment, Value, parse, path_at};
use sluicegate::engine::layer::Layer;

/// A document as serde_json reads it, with what its `Value` loses: order, duplicates, number spelling.
#[derive(Debug)]
enum Tree {
    Leaf(String),
    /// Also the decoded text, `None` where serde_json refuses the string.
    Text(Option<String>),
    Array(Vec<Tree>),
    Object(Vec<(Option<String>, Tree)>),
}

struct Pairs(Vec<(Box<RawValue>, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Pairs;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(V)
    }
}

fn tree(raw: &RawValue) -> Tree {
    let text = raw.get();
    let string = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    match text.as_bytes()[0] {
        b'"' => Tree::Text(string(raw)),
        b'[' => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap();
            Tree::Array(items.iter().map(|item| tree(item)).collect())
        }
        b'{' => {
            let Pairs(pairs) = serde_json::from_str(text).unwrap();
            Tree::Object(pairs.iter().map(|(key, value)| (string(key), tree(value))).collect())
        }
        _ => Tree::Leaf(text.to_owned()),
    }
}

fn assert_same_string(value: Value<'_>, text: &Option<String>) {
    assert_eq!(value.str().as_deref(), text.as_deref());
    assert_eq!(value.has_lone_surrogate(), text.is_none());
    if let Some(text) = text {
        assert!(value.is(text));
        assert!(!value.is(&format!("{text}x")));
        assert_eq!(value.text().unwrap(), text.as_bytes());
    }
}

fn assert_same(value: Value<'_>, tree: &Tree, path: &mut Vec<Segment<'_>>) {
    assert_eq!(value.path(), *path);
    let span = value.span();
    assert_eq!(path_at(value.root(), span.start, span.end), *path);
    match tree {
        Tree::Leaf(raw) => assert_eq!(value.raw(), raw.as_bytes()),
        Tree::Text(text) => assert_same_string(value, text),
        Tree::Array(trees) => {
            assert_eq!(value.kind(), Kind::Array);
            let items: Vec<_> = value.items().collect();
            assert_eq!(items.len(), trees.len());
            for (n, (item, tree)) in items.into_iter().zip(trees).enumerate() {
                path.push(Segment::Index(n as u32));
                assert_same(item, tree, path);
                path.pop();
            }
        }
        Tree::Object(trees) => {
            assert_eq!(value.kind(), Kind::Object);
            let members: Vec<_> = value.members().collect();
            assert_eq!(members.len(), trees.len());
            for ((key, item), (name, tree)) in members.into_iter().zip(trees) {
                assert_same_string(key, name);
                assert_eq!(item.key().unwrap().span().start, key.span().start);
                path.push(Segment::Name(key.text().unwrap().into_owned().into()));
                assert_eq!(key.path(), *path);
                assert_eq!(path_at(value.root(), key.span().start, key.span().end), *path);
                assert_same(item, tree, path);
                path.pop();
                if let Some(name) = name {
                    let last = value.members().filter(|(key, _)| key.is(name)).last();
                    let last = last.map(|(_, value)| value.span().start);
                    assert_eq!(value.get(name).map(|value| value.span().start), last);
                }
            }
        }
    }
}

/// True if serde_json refuses a well-formed document for a reason of its own.
fn refused_by_serde(root: Value<'_>) -> bool {
    root.walk().any(|(value, _)| {
        let number = std::str::from_utf8(value.raw()).ok().filter(|_| value.kind() == Kind::Number);
        let infinite = number.is_some_and(|text| text.parse::<f64>().unwrap().is_infinite());
        let deep = value.path().len() >= 127 && matches!(value.kind(), Kind::Array | Kind::Object);
        value.has_lone_surrogate() || infinite || deep
    })
}

fn compare(bytes: &[u8]) {
    let bump = Bump::new();
    let layer = Layer::record(&bump, bump.alloc_slice_copy(bytes));
    let ours = parse(&bump, layer, LIMITS);
    let theirs = serde_json::from_slice::<serde_json::Value>(bytes);
    match ours {
        Err(_) => assert!(theirs.is_err(), "only serde_json accepts {bytes:?}"),
        Ok(root) => {
            assert_eq!(theirs.is_err(), refused_by_serde(root), "{theirs:?}");
            let raw: &RawValue = serde_json::from_slice(bytes).unwrap();
            assert_same(root, &tree(raw), &mut Vec::new());
        }
    }
}

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
