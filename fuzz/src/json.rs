//! The scanner against serde_json: the same texts accepted, the same strings, numbers and paths found.
//!
//! The input is the text. Where the two differ is written at the head of `engine/json`.

use bumpalo::Bump;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use sluicegate::engine::json::{JsonLimits, Kind, Segment, Value, parse, path_at};
use sluicegate::engine::layer::Layer;

const LIMITS: JsonLimits = JsonLimits { depth: 128, nodes: 1 << 20 };

/// Longer texts show nothing new, and a path for every value of a deep one takes long.
const LONGEST: usize = 16 << 10;

/// The member name by which serde_json passes raw values to itself.
const SERDE_OWN: &str = "$serde_json::private::RawValue";

pub fn run(data: &[u8]) {
    if data.len() <= LONGEST {
        compare(data);
    }
}

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

pub fn compare(bytes: &[u8]) {
    let bump = Bump::new();
    let layer = Layer::record(&bump, bump.alloc_slice_copy(bytes));
    let ours = parse(&bump, layer, LIMITS);
    let theirs = serde_json::from_slice::<serde_json::Value>(bytes);
    match ours {
        Err(_) => assert!(theirs.is_err(), "only serde_json accepts {bytes:?}"),
        Ok(root) if root.walk().any(|(value, _)| value.is(SERDE_OWN)) => {}
        Ok(root) => {
            assert_eq!(theirs.is_err(), refused_by_serde(root), "{theirs:?}");
            let raw: &RawValue = serde_json::from_slice(bytes).unwrap();
            assert_same(root, &tree(raw), &mut Vec::new());
        }
    }
}
