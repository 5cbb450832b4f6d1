//! Edits of several policies that meet in one text: by table, and as properties over random sets of them.

use super::edit;
use bumpalo::Bump;
use proptest::prelude::*;
use sluicegate::engine::layer::{Edit, Layer, NotExact, Step, can_merge, merge, splice};

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok_and(|v| v.is_array() || v.is_object())
}

type Asked = (usize, usize, &'static str);

fn merged(text: &str, asked: &[Asked]) -> Result<String, NotExact> {
    let bump = Bump::new();
    let record = Layer::record(&bump, text.as_bytes());
    let edits: Vec<Edit<'_>> = asked.iter().map(|(start, end, with)| edit(record, *start, *end, with)).collect();
    let out = merge(record, &edits, &is_json);
    assert_eq!(out.is_ok(), can_merge(record, &edits, &is_json));
    out.map(|out| String::from_utf8(out).unwrap())
}

#[test]
fn what_becomes_of_edits_that_meet() {
    let text = "0123456789abcdefghij";
    let table: [(&str, &[Asked], &str); 12] = [
        ("apart", &[(2, 4, "X"), (6, 8, "Y")], "01X45Y89abcdefghij"),
        ("touching", &[(2, 4, "X"), (4, 6, "Y")], "01XY6789abcdefghij"),
        ("equal", &[(2, 4, "X"), (2, 4, "X")], "01X456789abcdefghij"),
        ("one place, two texts", &[(2, 4, "Y"), (2, 4, "X")], "01XY456789abcdefghij"),
        ("inside", &[(2, 12, "X"), (4, 6, "Y")], "01Xcdefghij"),
        ("inside, at an end", &[(2, 12, "X"), (2, 6, "Y"), (10, 12, "Z")], "01Xcdefghij"),
        ("overlapping", &[(6, 12, "Y"), (2, 8, "X")], "01XYcdefghij"),
        ("a chain", &[(2, 5, "X"), (4, 7, "Y"), (6, 9, "Z"), (5, 6, "W")], "01XYZ9abcdefghij"),
        ("a label that begins inside", &[(2, 8, "X"), (5, 5, "<"), (12, 12, ">")], "01X<89ab>cdefghij"),
        ("a label around", &[(2, 8, "X"), (2, 2, "<"), (8, 8, ">")], "01<X>89abcdefghij"),
        ("insertions at one place", &[(3, 3, "b"), (3, 3, "a"), (3, 3, "b")], "012ab3456789abcdefghij"),
        ("both label's ends inside", &[(2, 8, "X"), (4, 4, "<"), (6, 6, ">")], "01X<>89abcdefghij"),
    ];
    for (what, asked, want) in table {
        assert_eq!(merged(text, asked).as_deref(), Ok(want), "{what}");
    }
    assert_eq!(merged(text, &[(2, 21, "X"), (3, 4, "Y")]), Err(NotExact), "out of bounds");
}

#[test]
fn what_repeats_its_text_hides_nothing_in_it() {
    let text = "a <b>secret-token-1</b> and more of it";
    let sanitised: Asked = (0, 38, "a secret-token-1 and more of it");
    assert_eq!(merged(text, &[sanitised, (5, 19, "[secret]")]).as_deref(), Ok("a [secret] and more of it"));
    // What is gone already need not be found.
    let emptied: Asked = (0, 38, "a  and more of it");
    assert_eq!(merged(text, &[emptied, (5, 19, "[secret]")]).as_deref(), Ok("a  and more of it"));
    // In another spelling it would stay.
    let spelled: Asked = (0, 38, "a secret-&#116;oken-1 secret-token and more of it");
    assert_eq!(merged(text, &[spelled, (5, 19, "[secret]")]), Err(NotExact));
    for meets in [(5, 5, "label"), (30, 34, "X"), (5, 38, "X")] {
        let most: Asked = (0, 37, "a secret-token-1 and more of i");
        assert_eq!(merged(text, &[most, meets]), Err(NotExact), "{meets:?}");
    }
    // Alone it stands.
    assert_eq!(merged(text, &[sanitised]).as_deref(), Ok("a secret-token-1 and more of it"));
}

#[test]
fn json_stays_json() {
    let text = r#"{"a":[1,22,333],"b":"xyz"}"#;
    // A wrapper of which one half would be dropped.
    assert_eq!(merged(text, &[(8, 15, "4]"), (11, 11, "{\"v\":"), (16, 16, "}")]), Err(NotExact));
    // Both halves are.
    let both = merged(text, &[(8, 14, "4"), (11, 11, "{\"v\":"), (13, 13, "}")]);
    assert_eq!(both.as_deref(), Ok(r#"{"a":[1,4],"b":"xyz"}"#));
    // Two elements without a comma between.
    assert_eq!(merged(text, &[(6, 10, "\"x\""), (8, 14, "8")]), Err(NotExact));
    assert_eq!(merged(text, &[(6, 10, "7,"), (8, 14, "8")]).as_deref(), Ok(r#"{"a":[7,8],"b":"xyz"}"#));
    // Members that two policies add.
    let added = merged(text, &[(25, 25, ",\"d\":1"), (25, 25, ",\"c\":1")]);
    assert_eq!(added.as_deref(), Ok(r#"{"a":[1,22,333],"b":"xyz","c":1,"d":1}"#));
    assert_eq!(merged("{}", &[(1, 1, "\"d\":1"), (1, 1, "\"c\":1")]), Err(NotExact));
}

/// A fence whose opening is cut away with what stood behind it, in a string: it opens behind the cut.
#[test]
fn a_label_in_a_string_moves_behind_the_cut() {
    let text = r#"{"a":"one \"two\" three four","b":[1,"five"]}"#;
    let three = text.find("three").unwrap();
    let (open, close) = ((three, three, "<"), (three + 10, three + 10, ">"));
    let cut = merged(text, &[(8, three + 6, "…"), open, close]);
    assert_eq!(cut.as_deref(), Ok(r#"{"a":"on…<four>","b":[1,"five"]}"#));
    // Both are within the cut.
    let cut = merged(text, &[(8, three + 10, "…"), open, (three + 5, three + 5, ">")]);
    assert_eq!(cut.as_deref(), Ok(r#"{"a":"on…<>","b":[1,"five"]}"#));
    // The cut takes the string with it, and both.
    let end = text.find("},").map_or(text.len() - 1, |at| at);
    let cut = merged(text, &[(5, end, "0"), open, close]);
    assert_eq!(cut.as_deref(), Ok(r#"{"a":0}"#));
    // A string behind another cut.
    let five = text.find("five").unwrap();
    let cut = merged(text, &[(8, three + 6, "…"), open, (five, five + 2, "-"), (five + 1, five + 1, "<"), close]);
    assert_eq!(cut.as_deref(), Ok(r#"{"a":"on…<four>","b":[1,"-<ve"]}"#));
}

#[test]
fn edits_of_layers_below_meet_their_parents() {
    let bump = Bump::new();
    let text = r#"{"k":"see c2VjcmV0LXRva2VuLTEyMzQ1Njc4 there"}"#;
    let record = Layer::record(&bump, text.as_bytes());
    let json = Layer::json_string(&bump, super::Span { layer: record, start: 5, end: 45 }, Step::Json).unwrap();
    let base = Layer::base64(&bump, super::Span { layer: json, start: 4, end: 32 }, Step::Base64);
    let base = base.unwrap();
    assert_eq!(base.bytes, b"secret-token-12345678");
    let mask = edit(base, 0, 12, "[x]");
    let done = |edits: &[Edit<'_>]| merge(record, edits, &is_json).map(|out| String::from_utf8(out).unwrap());
    // Inside what is taken away as a whole.
    let whole = edit(json, 3, 33, "…");
    assert_eq!(done(&[mask.clone(), whole]).as_deref(), Ok(r#"{"k":"see…there"}"#));
    // A codec wrote these symbols: half of them cannot go.
    assert_eq!(done(&[mask.clone(), edit(json, 12, 34, "…")]), Err(NotExact));
    // The string itself gives way to null.
    assert_eq!(done(&[mask, edit(record, 5, 45, "null")]).as_deref(), Ok(r#"{"k":null}"#));
    // The same text by way of a slice is the same text.
    let slice = Layer::slice(&bump, super::Span { layer: record, start: 5, end: 45 }, Step::Hidden);
    let again = Layer::json_string(&bump, slice.span(), Step::Json).unwrap();
    let edits = [edit(json, 0, 10, "X"), edit(again, 5, 12, "Y")];
    assert_eq!(splice(record, &edits), Err(NotExact));
    assert_eq!(done(&edits).as_deref(), Ok(r#"{"k":"XYLXRva2VuLTEyMzQ1Njc4 there"}"#));
}

/// Every character of the text is another one, and none of them stands in a replacement.
fn letters(count: u32) -> Vec<char> {
    (0..count).filter_map(|n| char::from_u32(0x4E00 + n)).collect()
}

fn arb_asked(len: usize) -> impl Strategy<Value = Vec<(usize, usize, String)>> {
    let one = (0..=len, 0..=len, "[a-z<>]{0,6}");
    let one = one.prop_map(|(a, b, with)| (a.min(b), a.max(b), with));
    let short = (0..len, 0..4usize, "[a-z<>]{0,6}").prop_map(move |(a, n, with)| (a, (a + n).min(len), with));
    prop::collection::vec(prop_oneof![one, short], 0..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_order_does_not_matter_and_nothing_replaced_is_left(
        asked in arb_asked(24),
        turn in 0..7usize,
        json in any::<bool>(),
    ) {
        let letters = letters(24);
        let text: String = letters.iter().collect();
        let text = if json { serde_json::json!({"k": [text]}).to_string() } else { text };
        let bump = Bump::new();
        let record = Layer::record(&bump, text.as_bytes());
        let layer = match json {
            true => Layer::json_string(&bump, super::Span { layer: record, start: 6, end: text.len() as u32 - 2 }, Step::Json).unwrap(),
            false => record,
        };
        let edits: Vec<Edit<'_>> = asked.iter().map(|(start, end, with)| edit(layer, start * 3, end * 3, with)).collect();
        let out = merge(record, &edits, &is_json).unwrap();
        let mut turned = edits.clone();
        turned.rotate_left(turn.min(edits.len()));
        prop_assert_eq!(&out, &merge(record, &turned, &is_json).unwrap());
        turned.reverse();
        prop_assert_eq!(&out, &merge(record, &turned, &is_json).unwrap());
        if let Ok(strict) = splice(record, &edits) {
            prop_assert_eq!(&out, &strict);
        }
        prop_assert!(!json || is_json(&out));
        let out = String::from_utf8(out).unwrap();
        for (at, letter) in letters.iter().enumerate() {
            let replaced = asked.iter().any(|(start, end, _)| (*start..*end).contains(&at));
            prop_assert_eq!(out.contains(*letter), !replaced, "{}", at);
        }
    }

    /// Values of a document, each replaced, wrapped or extended by somebody.
    #[test]
    fn a_document_stays_one_or_is_refused(picks in prop::collection::vec((0..9usize, 0..4u8), 1..5), turn in 0..5usize) {
        let text = r#"{"a":[1,{"b":"x"},[2,3]],"c":{"d":null}}"#;
        // Spans of values in it.
        let values = [(0, 40), (5, 24), (6, 7), (8, 17), (13, 16), (18, 23), (19, 20), (21, 22), (29, 39)];
        let bump = Bump::new();
        let record = Layer::record(&bump, text.as_bytes());
        let mut edits = Vec::new();
        for (value, kind) in picks {
            let (start, end) = values[value];
            match kind {
                0 => edits.push(edit(record, start, end, "{\"r\":0}")),
                1 => edits.extend([edit(record, start, start, "{\"w\":"), edit(record, end, end, "}")]),
                2 => edits.push(edit(record, start, end, "\"short\"")),
                _ => edits.extend([edit(record, start, start, "[\"f\","), edit(record, end, end, "]")]),
            }
        }
        let out = merge(record, &edits, &is_json);
        let turn = turn.min(edits.len());
        edits.rotate_left(turn);
        prop_assert_eq!(&out, &merge(record, &edits, &is_json));
        if let Ok(out) = out {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok(), "{}", String::from_utf8_lossy(&out));
        }
    }
}
