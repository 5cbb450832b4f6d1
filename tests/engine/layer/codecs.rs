//! Each codec alone.

use super::{edit, edited};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use bumpalo::Bump;
use proptest::prelude::*;
use sluicegate::engine::json::{JsonLimits, parse};
use sluicegate::engine::layer::{Layer, LayerError, NotExact, Span, Step, map_range, splice, steps};

fn literal<'r>(bump: &'r Bump, source: &'r [u8]) -> (&'r Layer<'r>, &'r Layer<'r>) {
    let record = Layer::record(bump, source);
    (record, Layer::json_string(bump, record.span(), Step::Json).unwrap())
}

/// `source` is a literal; the edit is made in its decoded text.
fn check(source: &str, (start, end, with): (usize, usize, &[u8]), expected: Result<&str, NotExact>) {
    let bump = Bump::new();
    let (record, text) = literal(&bump, source.as_bytes());
    let found = splice(record, &[edit(text, start, end, with)]);
    let found = found.as_deref().map(|bytes| std::str::from_utf8(bytes).unwrap()).map_err(|e| *e);
    assert_eq!(found, expected, "{source} {start}..{end} {:?}", String::from_utf8_lossy(with));
}

#[test]
fn edits_of_a_json_string() {
    check(r#""abc""#, (1, 2, b"x"), Ok(r#""axc""#));
    check(r#""abc""#, (0, 3, b""), Ok(r#""""#));
    check(r#""""#, (0, 0, b"x"), Ok(r#""x""#));
    check(r#""a\u0062c""#, (2, 3, b"x"), Ok(r#""a\u0062x""#));
    check(r#""a\nc""#, (1, 2, b"\r\n\t\x08\x0c\x01\x1f\x7f/"), Ok("\"a\\r\\n\\t\\b\\f\\u0001\\u001f\x7f/c\""));
    check(r#""a""#, (1, 1, "\"\\é\u{2028}😀".as_bytes()), Ok("\"a\\\"\\\\é\u{2028}😀\""));
    check(r#""\ud83d\ude00!""#, (4, 5, b"?"), Ok(r#""\ud83d\ude00?""#));
    check(r#""\ud83d\ude00!""#, (0, 4, b""), Ok(r#""!""#));
    // A lone surrogate counts as three bytes and is written as an escape.
    check(r#""\ud83dx""#, (3, 4, b"y"), Ok(r#""\ud83dy""#));
    check(r#""x""#, (0, 1, b"\xED\xA0\xBD"), Ok(r#""\ud83d""#));
}

#[test]
fn edits_that_cut_a_unit_are_not_exact() {
    for offset in 1..4 {
        check(r#""\ud83d\ude00""#, (offset, offset, b""), Err(NotExact));
        check(r#""😀""#, (offset, 4, b"x"), Err(NotExact));
    }
    for offset in 1..3 {
        check(r#""\ud83d""#, (0, offset, b"x"), Err(NotExact));
        check(r#""\u20ac""#, (offset, 3, b"x"), Err(NotExact));
        check(r#""€""#, (offset, 3, b"x"), Err(NotExact));
    }
    check(r#""\u00e9""#, (1, 2, b""), Err(NotExact));
    // The text cannot be carried.
    check(r#""a""#, (0, 1, b"\xFF"), Err(NotExact));
    check(r#""a""#, (0, 1, b"\xC3"), Err(NotExact));
    // Halves that would meet and become another character.
    check(r#""\ud83dx\ude00""#, (3, 4, b""), Err(NotExact));
    check(r#""x\ude00""#, (0, 1, b"\xED\xA0\xBD"), Err(NotExact));
    // Out of bounds.
    check(r#""a""#, (0, 2, b""), Err(NotExact));
    check(r#""abc""#, (2, 1, b""), Err(NotExact));
}

#[test]
fn several_edits() {
    let bump = Bump::new();
    let (record, text) = literal(&bump, br#""a\nb\tc""#);
    let ok = |edits: &[_]| splice(record, edits).map(|bytes| String::from_utf8(bytes).unwrap());
    let (x, y) = (edit(text, 0, 1, "x"), edit(text, 4, 5, "y"));
    assert_eq!(ok(&[]).unwrap(), r#""a\nb\tc""#);
    assert_eq!(ok(&[y.clone(), x.clone(), y.clone()]).unwrap(), r#""x\nb\ty""#);
    assert_eq!(ok(&[x.clone(), edit(text, 1, 2, "")]).unwrap(), r#""xb\tc""#, "adjacent");
    assert_eq!(ok(&[x.clone(), edit(text, 0, 0, "<"), edit(text, 1, 1, ">")]).unwrap(), r#""<x>\nb\tc""#);
    assert_eq!(ok(&[x.clone(), edit(text, 0, 2, "x")]), Err(NotExact));
    assert_eq!(ok(&[x.clone(), edit(text, 0, 1, "z")]), Err(NotExact));
    assert_eq!(ok(&[edit(text, 1, 1, "1"), edit(text, 1, 1, "2")]), Err(NotExact));
    assert_eq!(ok(&[edit(text, 0, 3, "1"), edit(text, 1, 1, "2")]), Err(NotExact));
    // The same place, addressed in two layers: the same text decoded twice, and the record itself.
    let twin = Layer::json_string(&bump, record.span(), Step::Json).unwrap();
    assert_eq!(ok(&[x.clone(), edit(twin, 0, 1, "x"), edit(record, 1, 2, "x")]).unwrap(), r#""x\nb\tc""#);
    assert_eq!(ok(&[x, edit(twin, 0, 1, "z")]), Err(NotExact));
    // A layer from elsewhere.
    let (_, stranger) = literal(&bump, br#""abc""#);
    assert_eq!(ok(&[edit(stranger, 0, 1, "x")]), Err(NotExact));
    assert_eq!(map_range(stranger.span(), record), None);
    assert_eq!(map_range(text.span(), record), Some(1..8));
    assert_eq!(map_range(Span { layer: text, start: 2, end: 1 }, record), None);
}

#[test]
fn literals_that_are_none() {
    for (source, at) in [
        (&b""[..], 0),
        (b"x", 0),
        (b"\"", 1),
        (b"\"a", 2),
        (b"\"a\"b", 3),
        (b"\"a\"\"", 3),
        (b"\"\\x\"", 2),
        (b"\"\n\"", 1),
        (b"\"\xED\xA0\x80\"", 1),
    ] {
        let bump = Bump::new();
        let record = Layer::record(&bump, source);
        let found = Layer::json_string(&bump, record.span(), Step::Json);
        assert_eq!(found.err(), Some(LayerError::Invalid { at }), "{source:?}");
    }
}

#[test]
fn steps_name_what_is_shown() {
    let bump = Bump::new();
    let record = Layer::record(&bump, br#"{"data":"data: \"eA==\""}"#);
    let json = Span { layer: record, start: 8, end: 24 };
    let data = Layer::json_string(&bump, json, Step::Data).unwrap();
    let event = Layer::sse_data(&bump, data.span(), Step::Sse { event: 0 }).unwrap();
    let text = Layer::json_string(&bump, event.span(), Step::Json).unwrap();
    let bytes = Layer::base64(&bump, text.span(), Step::Base64).unwrap();
    assert_eq!(bytes.bytes, b"x");
    assert_eq!(steps(bytes), [Step::Data, Step::Sse { event: 0 }, Step::Json, Step::Base64]);
    assert_eq!(steps(record), []);
    assert_eq!(map_range(bytes.span(), record), Some(17..21));
    assert_eq!(map_range(bytes.span(), data), Some(7..11));
    let out = splice(record, &[edit(bytes, 1, 1, "yz")]).unwrap();
    assert_eq!(out, br#"{"data":"data: \"eHl6\""}"#);
}

/// Halves of a pair that two fragments brought, one of which never came.
#[test]
fn an_assembled_text_is_a_root_of_its_own() {
    let bump = Bump::new();
    let root = Layer::assembled(&bump, b"{\"a\":\"\xED\xA0\xBDx\"}", Step::Arguments);
    let value = parse(&bump, root, JsonLimits::default()).unwrap().get("a").unwrap();
    assert!(value.has_lone_surrogate());
    let text = value.text_layer(&bump, Step::Json).unwrap().unwrap();
    assert_eq!(text.bytes, b"\xED\xA0\xBDx");
    assert_eq!(steps(text), [Step::Arguments, Step::Json]);
    let out = splice(root, &[edit(text, 3, 4, "y")]).unwrap();
    assert_eq!(out, b"{\"a\":\"\xED\xA0\xBDy\"}");
}

#[test]
fn base64_texts() {
    for (source, bytes) in [
        ("", Some(&b""[..])),
        ("YQ==", Some(b"a")),
        ("YQ", Some(b"a")),
        ("YWI=", Some(b"ab")),
        ("YWJj", Some(b"abc")),
        ("+/+/", Some(b"\xFB\xFF\xBF")),
        ("-_-_", Some(b"\xFB\xFF\xBF")),
        ("YR==", Some(b"a")),
        ("+/-_", None),
        ("Y", None),
        ("YWJjY", None),
        ("Y=Q=", None),
        ("YQ==YQ==", None),
        ("YQ===", None),
        ("YW Jj", None),
        ("YWJj\n", None),
        ("Yé==", None),
    ] {
        let bump = Bump::new();
        let record = Layer::record(&bump, source.as_bytes());
        let found = Layer::base64(&bump, record.span(), Step::Base64);
        assert_eq!(found.ok().map(|layer| layer.bytes), bytes, "{source}");
    }
}

#[test]
fn edits_of_base64() {
    for (source, edits, expected) in [
        ("YWJjZGVm", &[(1, 2, "x")][..], "YXhjZGVm"),
        ("YWJjZGVm", &[(1, 2, "x"), (2, 3, "y")], "YXh5ZGVm"),
        ("YWJjZGVm", &[(0, 1, "x"), (2, 4, "yz")], "eGJ5emVm"),
        ("YWJjZGVm", &[(3, 3, "abc")], "YWJjYWJjZGVm"),
        ("YWJjZGVm", &[(0, 3, "")], "ZGVm"),
        ("YWJjZGVm", &[(0, 1, "")], "YmNkZWY="),
        ("-_-_YWI", &[(3, 4, "x")], "-_-_eGI"),
        ("-_-_YWI=", &[(3, 4, "xxx")], "-_-_eHh4Yg=="),
        ("YWJjZA", &[(0, 1, "x")], "eGJjZA"),
        ("YWJjZB==", &[(0, 1, "x")], "eGJjZB=="),
        ("YWJjZA==", &[(4, 4, "e")], "YWJjZGU="),
        ("YWJj", &[(0, 3, "")], ""),
        ("", &[(0, 0, "a")], "YQ=="),
    ] {
        let bump = Bump::new();
        let record = Layer::record(&bump, source.as_bytes());
        let layer = Layer::base64(&bump, record.span(), Step::Base64).unwrap();
        let edits: Vec<_> = edits.iter().map(|&(start, end, with)| edit(layer, start, end, with)).collect();
        let found = String::from_utf8(splice(record, &edits).unwrap()).unwrap();
        assert_eq!(found, expected, "{source}");
    }
}

/// A spelling of a UTF-16 text as a JSON literal, one choice of escape per code unit.
pub(super) fn spell(units: &[u16], how: &[u8]) -> Vec<u8> {
    let mut out = String::from("\"");
    let mut n = 0;
    let choice = |n: usize| {
        if how.is_empty() { 0 } else { how[n % how.len()] }
    };
    for unit in char::decode_utf16(units.iter().copied()) {
        n += 1;
        let mut push = |unit: u16| match choice(n) % 2 {
            0 => out.push_str(&format!("\\u{unit:04x}")),
            _ => out.push_str(&format!("\\u{unit:04X}")),
        };
        match unit {
            Err(lone) => push(lone.unpaired_surrogate()),
            Ok(char) if choice(n) % 5 == 4 => {
                char.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| push(unit));
            }
            Ok('/') if choice(n) % 2 == 0 => out.push_str("\\/"),
            Ok(char @ ('"' | '\\')) => out.extend(['\\', char]),
            Ok('\n') => out.push_str("\\n"),
            Ok('\r') => out.push_str("\\r"),
            Ok('\t') => out.push_str("\\t"),
            Ok(char) if char < ' ' => push(char as u16),
            Ok(char) => out.push(char),
        }
    }
    out.push('"');
    out.into_bytes()
}

/// The text in generalised UTF-8.
fn wtf8(units: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    for unit in char::decode_utf16(units.iter().copied()) {
        match unit {
            Ok(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let unit = lone.unpaired_surrogate();
                let tail = |shift: u16| 0x80 | (unit >> shift & 0x3F) as u8;
                out.extend([0xE0 | (unit >> 12) as u8, tail(6), tail(0)]);
            }
        }
    }
    out
}

fn arb_units() -> impl Strategy<Value = Vec<u16>> {
    let piece = prop_oneof![
        Just(vec![0xD83D]),
        Just(vec![0xDE00]),
        Just(vec![0xD83D, 0xDE00]),
        any::<char>().prop_map(|char| char.encode_utf16(&mut [0; 2]).to_vec()),
        "[a-z\"\\\\/\n\t\u{1}é€]{0,12}".prop_map(|text| text.encode_utf16().collect()),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Every offset of a text is either the start of a character, and an edit there is exact, or is not.
    #[test]
    fn every_offset_of_a_json_string(units in arb_units(), how: Vec<u8>) {
        let source = spell(&units, &how);
        let expected = wtf8(&units);
        let bump = Bump::new();
        let (record, text) = literal(&bump, &source);
        prop_assert_eq!(text.bytes, &expected[..]);
        for offset in 0..=expected.len() {
            let boundary = expected.get(offset).is_none_or(|byte| byte & 0xC0 != 0x80);
            let span = Span { layer: text, start: offset as u32, end: offset as u32 };
            prop_assert_eq!(map_range(span, record).is_some(), boundary);
            let found = splice(record, &[edit(text, offset, offset, "\"é\n")]);
            prop_assert_eq!(found.is_ok(), boundary);
            if let Ok(found) = found {
                let (_, again) = literal(&bump, bump.alloc_slice_copy(&found));
                let wanted = edited(&expected, &[(offset, offset, "\"é\n".into())]);
                prop_assert_eq!(again.bytes, &wanted[..]);
            }
        }
    }

    /// JSON in a string: halves in three bytes and halves as escapes join alike in the text and in the map.
    #[test]
    fn a_literal_in_a_string(units in arb_units(), how: Vec<u8>, raw in any::<u64>()) {
        let mut inner = vec![u16::from(b'"')];
        for (n, &unit) in units.iter().enumerate() {
            match unit {
                0x22 | 0x5C => inner.extend([0x5C, unit]),
                0..0x20 => inner.extend(format!("\\u{unit:04x}").encode_utf16()),
                // A half stands as itself or as an escape, whatever its neighbour does.
                0xD800..0xE000 if raw >> (n % 64) & 1 == 0 => inner.extend(format!("\\u{unit:04x}").encode_utf16()),
                _ => inner.push(unit),
            }
        }
        inner.push(u16::from(b'"'));
        let source = spell(&inner, &how);
        let expected = wtf8(&units);
        let bump = Bump::new();
        let (record, outer) = literal(&bump, &source);
        let text = Layer::json_string(&bump, outer.span(), Step::Json).unwrap();
        prop_assert_eq!(text.bytes, &expected[..]);
        for offset in 0..=expected.len() {
            let boundary = expected.get(offset).is_none_or(|byte| byte & 0xC0 != 0x80);
            prop_assert_eq!(splice(record, &[edit(text, offset, offset, "x")]).is_ok(), boundary);
        }
    }

    #[test]
    fn base64_decodes_to_the_edited_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        style in 0..4usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..5)), 0..5),
    ) {
        let source = match style {
            0 => STANDARD.encode(&bytes),
            1 => STANDARD_NO_PAD.encode(&bytes),
            2 => URL_SAFE.encode(&bytes),
            _ => URL_SAFE_NO_PAD.encode(&bytes),
        };
        let mut at: Vec<_> = cuts.iter().map(|(at, _)| at.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut edits: Vec<_> = at.chunks_exact(2).zip(&cuts)
            .map(|(range, (_, with))| (range[0], range[1], with.clone()))
            .collect();
        edits.dedup_by_key(|(start, end, _)| (*start, *end));
        let bump = Bump::new();
        let record = Layer::record(&bump, source.as_bytes());
        let layer = Layer::base64(&bump, record.span(), Step::Base64).unwrap();
        let given: Vec<_> = edits.iter().map(|(start, end, with)| edit(layer, *start, *end, with)).collect();
        let found = splice(record, &given).unwrap();
        let again = Layer::record(&bump, &found);
        let again = Layer::base64(&bump, again.span(), Step::Base64).unwrap();
        prop_assert_eq!(again.bytes, &edited(&bytes, &edits)[..]);
        if let Some((start, ..)) = edits.first() {
            let keep = start / 3 * 4;
            prop_assert_eq!(&found[..keep], &source.as_bytes()[..keep]);
        }
    }
}
