//! The JSON scanner: by table what it refuses and where, and against serde_json (in `differential`).

#[path = "json/differential.rs"]
mod differential;

use bumpalo::Bump;
use sluicegate::engine::json::{JsonError, JsonErrorKind, JsonLimits, Kind, parse, parse_prefix, path_at};
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
fn a_beginning_is_that_of_the_text() {
    for literal in [
        r#""[TOOL ERROR] no such row""#,
        r#"" \n\t\u005bTOOL ERROR] \ud83d\ude00 no""#,
        r#""  short""#,
        r#""\u00e9\"x""#,
        r#"" \r\n ""#,
        r#""""#,
    ] {
        let bump = Bump::new();
        let layer = Layer::record(&bump, literal.as_bytes());
        let value = parse(&bump, layer, LIMITS).unwrap();
        let text = value.text().unwrap();
        let text = text.trim_ascii_start();
        for length in 0..24 {
            let expected = text.get(..length).unwrap_or(text);
            assert_eq!(value.beginning(length).as_deref(), Some(expected), "{literal} {length}");
        }
    }
    let bump = Bump::new();
    let number = parse(&bump, Layer::record(&bump, b"1"), LIMITS).unwrap();
    assert_eq!(number.beginning(4), None);
}

#[test]
fn surrogates_join_and_stay_apart() {
    for (literal, text, lone) in [
        (r#""\ud83d\ude00""#, "😀".as_bytes(), false),
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
