//! The JSON scanner against serde_json, and by table where the two are meant to differ.

use bumpalo::Bump;
use proptest::prelude::*;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use sluicegate::engine::json::{
    JsonError, JsonErrorKind, JsonLimits, Kind, Segment, Value, parse, parse_prefix, path_at,
};
use sluicegate::engine::layer::{Layer, Step};

const LIMITS: JsonLimits = JsonLimits { depth: 128, nodes: 1 << 20 };

fn check(input: &[u8], expected: Result<Kind, (u32, JsonErrorKind)>) {
    let bump = Bump::new();
    let layer = Layer::record(&bump, bump.alloc_slice_copy(input));
    let found = parse(&bump, layer, LIMITS).map(|value| value.kind()).map_err(|JsonError { at, kind }| (at, kind));
    assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(input));
}

#[test]
fn offences_by_place_and_kind() {
    use JsonErrorKind::*;
    for (input, at, kind) in [
        (&b""[..], 0, Truncated),
        (b" \t\r\n", 4, Truncated),
        (b"[", 1, Truncated),
        (b"[1", 2, Truncated),
        (b"[1,", 3, Truncated),
        (b"{\"a", 3, Truncated),
        (b"{\"a\"", 4, Truncated),
        (b"{\"a\":", 5, Truncated),
        (b"{\"a\":1,", 7, Truncated),
        (b"nul", 3, Truncated),
        (b"-", 1, Truncated),
        (b"1.", 2, Truncated),
        (b"1e+", 3, Truncated),
        (b"\"\\", 2, Truncated),
        (b"\"\\u12", 5, Truncated),
        (b"\"caf\xC3", 5, Truncated),
        (b"nuln", 3, Syntax),
        (b"[1,]", 3, Syntax),
        (b"{,}", 1, Syntax),
        (b"{\"a\":1,}", 7, Syntax),
        (b"{\"a\" 1}", 5, Syntax),
        (b"{1:1}", 1, Syntax),
        (b"[1}", 2, Syntax),
        (b"{\"a\":1]", 6, Syntax),
        (b"01", 1, Syntax),
        (b"[-01]", 3, Syntax),
        (b"+1", 0, Syntax),
        (b".5", 0, Syntax),
        (b"1.e3", 2, Syntax),
        (b"[1.]", 3, Syntax),
        (b"'a'", 0, Syntax),
        (b"NaN", 0, Syntax),
        (b"\"a\nb\"", 2, Syntax),
        (b"\"0123456789abcdef0123456789abcdef0123456789abcdef\x1f\"", 49, Syntax),
        (b"\"\\x\"", 2, Syntax),
        (b"\"\\u12g4\"", 5, Syntax),
        (b"\xEF\xBB\xBF{}", 0, Syntax),
        (b"\x0C1", 0, Syntax),
        ("\u{a0}1".as_bytes(), 0, Syntax),
        (b"\xFF", 0, Utf8),
        (b"\"\xFF\"", 1, Utf8),
        (b"\"\xC0\x80\"", 1, Utf8),
        (b"\"\xED\xA0\xBD\"", 1, Utf8),
        (b"\"\xF5\x80\x80\x80\"", 1, Utf8),
        (b"[\"\xE2\x82\",]", 2, Utf8),
        (b"[1,,\"\xFF\"]", 3, Syntax),
        (b"{} x", 3, Trailing),
        (b"1 2", 2, Trailing),
        (b"{}\xFF", 2, Trailing),
        (b"{}\x00", 2, Trailing),
    ] {
        check(input, Err((at, kind)));
    }
    for (input, kind) in [
        (&b" null "[..], Kind::Null),
        (b"true", Kind::Bool),
        (b"-0", Kind::Number),
        (b"1E-07", Kind::Number),
        (b"\"\x7F\"", Kind::String),
        (b"[ ]", Kind::Array),
        (b"{\n}", Kind::Object),
    ] {
        check(input, Ok(kind));
    }
}

/// What serde_json refuses and this scanner accepts, with the reason in the module docs.
#[test]
fn divergences_from_serde_json() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let (most, over) = (deep(127), deep(128));
    for (input, serde_accepts) in [
        (r#""\ud83d""#, false),
        (r#""\ude00\ud83d""#, false),
        (r#"{"\ud83d":1}"#, false),
        ("1e999", false),
        ("-1e999", false),
        ("1e-999", true),
        (r#"{"$serde_json::private::RawValue":"[1"}"#, false),
        (&most, true),
        (&over, false),
    ] {
        let accepted = serde_json::from_str::<serde_json::Value>(input).is_ok();
        assert_eq!(accepted, serde_accepts, "{input}");
        let bump = Bump::new();
        assert!(parse(&bump, Layer::record(&bump, input.as_bytes()), LIMITS).is_ok(), "{input}");
    }
    check(deep(129).as_bytes(), Err((128, JsonErrorKind::TooDeep)));
}

#[test]
fn bombs_end_in_an_error_not_an_overflow() {
    let opens = "[".repeat(100_000);
    let objects = "{\"a\":".repeat(100_000);
    check(opens.as_bytes(), Err((128, JsonErrorKind::TooDeep)));
    check(objects.as_bytes(), Err((128 * 5, JsonErrorKind::TooDeep)));
    let deep = JsonLimits { depth: u32::MAX, nodes: 1 << 20 };
    let bump = Bump::new();
    for text in [&opens, &objects] {
        let error = parse(&bump, Layer::record(&bump, text.as_bytes()), deep).unwrap_err();
        assert_eq!(error, JsonError { at: text.len() as u32, kind: JsonErrorKind::Truncated });
    }
    let balanced = opens.clone() + &"]".repeat(100_000);
    let root = parse(&bump, Layer::record(&bump, balanced.as_bytes()), deep).unwrap();
    let innermost = root.walk().last().unwrap().0;
    assert_eq!(innermost.path().len(), 99_999);
    assert_eq!(path_at(root, 100_000, 100_000).len(), 99_999);
}

#[test]
fn nodes_are_limited() {
    let limits = JsonLimits { depth: 128, nodes: 5 };
    for (text, expected) in [
        ("[1,1,1,1]", None),
        ("[1,1,1,1,1]", Some(9)),
        (r#"{"a":1,"b":2}"#, None),
        (r#"{"a":1,"b":[2]}"#, Some(12)),
        (r#"[{},{},{},{},{}]"#, Some(13)),
    ] {
        let bump = Bump::new();
        let found = parse(&bump, Layer::record(&bump, text.as_bytes()), limits);
        let error = expected.map(|at| JsonError { at, kind: JsonErrorKind::TooManyNodes });
        assert_eq!(found.err(), error, "{text}");
    }
    let bump = Bump::new();
    let none = JsonLimits { depth: 0, nodes: 0 };
    assert!(parse(&bump, Layer::record(&bump, b"1"), none).is_err());
    assert!(parse(&bump, Layer::record(&bump, b"[]"), JsonLimits { depth: 0, nodes: 9 }).is_err());
}

#[test]
fn members_items_and_keys() {
    let text = r#"{"a":1,"b":{"x":[10,{},"s"],"a":7},"\u0061":2,"c":null,"'":"'"}"#;
    let bump = Bump::new();
    let root = parse(&bump, Layer::record(&bump, text.as_bytes()), LIMITS).unwrap();
    let names: Vec<_> = root.members().map(|(key, _)| key.str().unwrap().into_owned()).collect();
    assert_eq!(names, ["a", "b", "a", "c", "'"]);
    assert_eq!(root.get("a").unwrap().u64(), Some(2), "the last one wins");
    assert!(root.get("c").unwrap().is_null());
    assert!(root.get("x").is_none());
    let b = root.get("b").unwrap();
    assert_eq!(b.key().unwrap().raw(), b"\"b\"");
    let x = b.get("x").unwrap();
    let raws: Vec<_> = x.items().map(|item| item.raw()).collect();
    assert_eq!(raws, [&b"10"[..], b"{}", b"\"s\""]);
    assert!(x.items().all(|item| item.key().is_none()));
    assert_eq!((x.members().count(), b.items().count()), (0, 0));
    assert_eq!(x.parent().unwrap().raw(), b.raw());
    assert!(x.items().nth(2).unwrap().is("s"));
    assert!(!x.items().nth(2).unwrap().is("s "));
    assert!(!x.items().next().unwrap().is("10"));
    assert!(root.key().is_none() && root.parent().is_none());
    assert_eq!(b.walk().filter(|(_, key)| *key).count(), 2);
    assert_eq!(x.root().raw(), text.as_bytes());
    assert!(!format!("{root:?} {:?}", root.layer()).contains('\''), "Debug shows no text");
}

#[test]
fn values_that_stand_one_behind_the_other() {
    let text = b" {\"a\":1}[2] 3 \"\xFF";
    let bump = Bump::new();
    let layer = Layer::record(&bump, text);
    let (mut from, mut raws) = (0, Vec::new());
    let error = loop {
        match parse_prefix(&bump, layer, from, LIMITS) {
            Ok((value, end)) => {
                raws.push(value.raw());
                from = end;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(raws, [&b"{\"a\":1}"[..], b"[2]", b"3"]);
    assert_eq!(error, JsonError { at: 15, kind: JsonErrorKind::Utf8 });
    assert!(parse_prefix(&bump, layer, 99, LIMITS).is_err());
}

#[test]
fn surrogates_join_and_stay_apart() {
    for (literal, text, lone) in [
        (r#""\ud83d\ude00""#, &"😀".as_bytes()[..], false),
        (r#""\uD83D\uDE00""#, "😀".as_bytes(), false),
        (r#""\ud83d""#, b"\xED\xA0\xBD", true),
        (r#""\ude00\ud83d""#, b"\xED\xB8\x80\xED\xA0\xBD", true),
        (r#""\ud83d\ud83d\ude00""#, b"\xED\xA0\xBD\xF0\x9F\x98\x80", true),
        (r#""\ud83dx\ude00""#, b"\xED\xA0\xBDx\xED\xB8\x80", true),
        (r#""\ud83d\\ude00""#, b"\xED\xA0\xBD\\ude00", true),
        (r#""퟿\ud7ff\ue000""#, "\u{D7FF}\u{D7FF}\u{E000}".as_bytes(), false),
        (r#""\u0000\u00e9\u20ac\/\b\f\n\r\t\"\\""#, "\0é€/\u{8}\u{c}\n\r\t\"\\".as_bytes(), false),
    ] {
        let bump = Bump::new();
        let value = parse(&bump, Layer::record(&bump, literal.as_bytes()), LIMITS).unwrap();
        assert_eq!(value.text().unwrap(), text, "{literal}");
        assert_eq!(value.has_lone_surrogate(), lone, "{literal}");
        assert_eq!(value.str().is_none(), lone, "{literal}");
        if let Ok(text) = std::str::from_utf8(text) {
            assert!(value.is(text), "{literal}");
        }
    }
}

/// JSON in a JSON string, with halves of pairs that stand in the inner text in three bytes.
#[test]
fn a_string_layer_may_hold_lone_surrogates() {
    for (outer, text, lone) in [
        (r#""{\"a\":\"x\ud83dy\"}""#, &b"x\xED\xA0\xBDy"[..], true),
        (r#""{\"a\":\"\ud83d\\ude00\"}""#, "😀".as_bytes(), false),
        (r#""{\"a\":\"x\ud83d\\ude00\"}""#, "x😀".as_bytes(), false),
        (r#""{\"a\":\"\\ud83d\ude00y\"}""#, "😀y".as_bytes(), false),
        (r#""{\"a\":\"\\ud83d\ud83d\"}""#, b"\xED\xA0\xBD\xED\xA0\xBD", true),
    ] {
        let bump = Bump::new();
        let value = parse(&bump, Layer::record(&bump, outer.as_bytes()), LIMITS).unwrap();
        let layer = value.text_layer(&bump, Step::Json).unwrap().unwrap();
        let inner = parse(&bump, layer, LIMITS).unwrap().get("a").unwrap();
        assert_eq!(inner.text().unwrap(), text, "{outer}");
        assert_eq!(inner.has_lone_surrogate(), lone, "{outer}");
        let again = inner.text_layer(&bump, Step::Json).unwrap().unwrap();
        assert_eq!(again.bytes, text);
    }
    let bump = Bump::new();
    let outer = Layer::record(&bump, br#""[\ud83d]""#);
    let layer = Layer::json_string(&bump, outer.span(), Step::Json).unwrap();
    let error = parse(&bump, layer, LIMITS).unwrap_err();
    assert_eq!(error, JsonError { at: 1, kind: JsonErrorKind::Syntax });
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
