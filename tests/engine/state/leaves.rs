//! Leaves of a streamed argument object: what goes in comes out, and what means no object is refused.

use super::script::*;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::StateLimits;
use sluicegate::engine::state::leaves::{Leaf, Malformed, assemble, push, size};

/// WTF-8 of UTF-16 units, each on its own: halves of surrogate pairs stay halves.
fn wtf8(units: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    for unit in units {
        match char::from_u32((*unit).into()) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.extend([0xED, 0x80 | (unit >> 6 & 0x3F) as u8, 0x80 | (unit & 0x3F) as u8]),
        }
    }
    out
}

fn name(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match plain {
        true => format!(".{name}"),
        // JSON's escapes are those of a name in double quotes.
        false => format!("[{}]", json!(name)),
    }
}

/// The leaves of a value, strings in pieces of at most `step` units.
fn flatten(value: &Value, path: &str, step: usize, log: &mut Vec<u8>) {
    let path_bytes = path.as_bytes();
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| flatten(member, &format!("{path}{}", name(key)), step, log));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(item, &format!("{path}[{at}]"), step, log));
        }
        Value::String(text) => {
            let units: Vec<u16> = text.encode_utf16().collect();
            for piece in units.chunks(step) {
                push(log, path_bytes, Leaf::Text { text: &wtf8(piece), more: true });
            }
            push(log, path_bytes, Leaf::Text { text: b"", more: false });
        }
        Value::Number(number) => push(log, path_bytes, Leaf::Number(number.to_string().as_bytes())),
        Value::Bool(value) => push(log, path_bytes, Leaf::Bool(*value)),
        Value::Null => push(log, path_bytes, Leaf::Null),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a😀\"\\\\\u{1}]{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..5).prop_map(Value::from),
            members(inner).prop_map(Value::Object)
        ]
    })
}

fn members(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let key = prop_oneof!["[a-z]{1,3}", any::<String>(), "['\"\\\\.\\[\\]$ 😀]{0,5}"];
    prop::collection::btree_map(key, inner, 1..5).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn any_object_comes_back(object in members(value()), step in 1..5usize, cuts in prop::collection::vec(any::<prop::sample::Index>(), 8)) {
        let mut log = Vec::new();
        flatten(&Value::Object(object.clone()), "$", step, &mut log);
        let text = assemble(&log).expect("leaves of an object");
        prop_assert_eq!(serde_json::from_slice::<Value>(&text).expect("JSON"), Value::Object(object));
        // A log that breaks off, or is not one, is refused or is an object.
        for cut in cuts {
            if let Ok(text) = assemble(&log[..cut.index(log.len())]) {
                prop_assert!(serde_json::from_slice::<Value>(&text).is_ok());
            }
        }
    }

    #[test]
    fn any_bytes_are_a_value(log in prop::collection::vec(any::<u8>(), 0..64), path in ".{0,12}") {
        let _ = assemble(&log);
        let mut log = Vec::new();
        push(&mut log, format!("${path}").as_bytes(), Leaf::Null);
        prop_assert_eq!(log.len(), size(format!("${path}").as_bytes(), Leaf::Null));
        if let Ok(text) = assemble(&log) {
            prop_assert!(serde_json::from_slice::<Value>(&text).is_ok());
        }
    }
}

fn of(leaves: &[(&str, Leaf<'_>)]) -> Result<String, Malformed> {
    let mut log = Vec::new();
    leaves.iter().for_each(|(path, leaf)| push(&mut log, path.as_bytes(), *leaf));
    assemble(&log).map(|text| String::from_utf8(text).unwrap())
}

fn text(text: &str) -> Leaf<'_> {
    Leaf::Text { text: text.as_bytes(), more: false }
}

fn more(text: &str) -> Leaf<'_> {
    Leaf::Text { text: text.as_bytes(), more: true }
}

#[test]
fn order_and_spelling_are_kept() {
    let number = |spelling: &'static str| Leaf::Number(spelling.as_bytes());
    let found = of(&[
        ("$.z[0].b", number("1.50")),
        ("$.a", more("x")),
        ("$.z[0]['a']", number("1e2")),
        ("$.a", text("\"\n")),
        (r#"$["q\"\u00e9\ud83d\ude00"]"#, Leaf::Bool(false)),
        (r"$['it\'s\/\\\t']", Leaf::Null),
        ("$.2-é", text("")),
    ]);
    let expected = r#"{"z":[{"b":1.50,"a":1e2}],"a":"x\"\u000a","q\"é😀":false,"it's/\\\u0009":null,"2-é":""}"#;
    assert_eq!(found.as_deref(), Ok(expected));
    assert_eq!(assemble(b"").as_deref(), Ok(&b"{}"[..]));
    // Half of a surrogate pair stays one.
    let mut log = Vec::new();
    push(&mut log, b"$.a", Leaf::Text { text: &[0xED, 0xA0, 0xBD], more: false });
    assert_eq!(assemble(&log).as_deref(), Ok(&br#"{"a":"\ud83d"}"#[..]));
}

#[test]
fn what_means_no_object_is_refused() {
    let one = |path: &str| of(&[(path, Leaf::Null)]);
    for path in [
        "",
        "a",
        "$",
        "$.",
        "$a",
        "$..a",
        "$.*",
        "$.a[",
        "$.a[]",
        "$.a[-1]",
        "$.a[00]",
        "$.a[1]",
        "$.a[1000000000]",
        "$.a[99999999999999999999999]",
        "$.a[?@.b]",
        "$.a[0:1]",
        "$.a['b'",
        "$.a['b",
        "$.a['b'x]",
        "$['\\x']",
        "$['\\ud83d']",
        "$['\\ud83d\\u0041']",
        "$['\\u+041']",
        "$['\\",
        "$[0]",
        "$.a b",
        "$.a.b ",
    ] {
        assert_eq!(one(path), Err(Malformed), "{path}");
    }
    for leaves in [
        vec![("$.a", Leaf::Null), ("$.a", Leaf::Null)],
        vec![("$.a", text("x")), ("$.a", text("y"))],
        vec![("$.a", more("x"))],
        vec![("$.a", more("x")), ("$.a", Leaf::Null)],
        vec![("$.a", more("x")), ("$.a.b", Leaf::Null)],
        vec![("$.a.b", Leaf::Null), ("$.a", Leaf::Null)],
        vec![("$.a.b", Leaf::Null), ("$.a[0]", Leaf::Null)],
        vec![("$.a[0]", Leaf::Null), ("$.a.b", Leaf::Null)],
        vec![("$.a[0]", Leaf::Null), ("$.a[2]", Leaf::Null)],
    ] {
        assert_eq!(of(&leaves), Err(Malformed), "{leaves:?}");
    }
    let deep = |depth: usize| one(&format!("${}", ".a".repeat(depth)));
    assert!(deep(128).is_ok() && deep(129).is_err());
}

/// The largest log that a call may have, of many members, of many pieces, of many levels.
#[test]
fn time_is_linear_in_the_log() {
    let big = 768 << 10;
    let fill = |leaf: &dyn Fn(usize) -> (String, Leaf<'static>)| {
        let mut log = Vec::new();
        let mut n = 0;
        while log.len() < big {
            let (path, leaf) = leaf(n);
            push(&mut log, path.as_bytes(), leaf);
            n += 1;
        }
        log
    };
    let pieces = Leaf::Text { text: b"x", more: true };
    let logs = [
        fill(&|n| (format!("$.k{n}"), Leaf::Null)),
        fill(&|n| (format!("$.a[{n}]"), Leaf::Null)),
        fill(&|_| ("$.a".into(), pieces)),
        fill(&|n| (format!("$.k{n}{}", ".a".repeat(120)), Leaf::Null)),
    ];
    let ok = logs.map(|log| assemble(&log).is_ok());
    assert_eq!(ok, [true, true, false, true]);
}

const OPEN: &str = r#"["open","next",{"name":"f","form":"value"}]"#;
const CLOSE: &str = r#"["close","next"]"#;
const STOP: &str = r#"["stop","final","final",0]"#;
const END: &str = r#"["end"]"#;

#[track_caller]
fn check_leaves(script: &[&str], expected: &[&str]) {
    check_as(Provider::GeminiGenerateContent, &LIMITS, script, expected);
}

/// Each of them also with a rollback behind every event, and with a restore.
#[test]
fn calls_of_leaves() {
    let a = r#"["leaf","next","$.a","x","more"]"#;
    let end = r#"["leaf","next","$.a",""]"#;
    let pair = [r#"["leaf","next","$.b[0]","\ud83d","more"]"#, r#"["leaf","next","$.b[0]","\ude00"]"#];
    check_leaves(&[OPEN, a, a, end, pair[0], pair[1], CLOSE, STOP, END], &[r#"- f final {"a":"xx","b":["😀"]}"#]);
    check_leaves(&[OPEN, CLOSE, OPEN, a, end, CLOSE, STOP, END], &["- f final -", r#"- f final {"a":"x"}"#]);
    check_leaves(&[OPEN, a, OPEN, CLOSE, STOP, END], &["- f superseded -", "- f final -"]);
    check_leaves(&[OPEN, a, end, STOP, END], &["- f item_incomplete -"]);
    check_leaves(&[OPEN, a, CLOSE, STOP, END], &["- f undecodable -"]);
    check_leaves(&[OPEN, a, end, CLOSE, r#"["closed"]"#], &["- f transport_closed -"]);
    check_leaves(&[a, end, CLOSE, STOP, END], &["- - orphan -"]);
    check_leaves(&[OPEN, a, end, CLOSE, a, STOP, END], &[r#"- f final {"a":"x"} !conflict"#]);
    check_leaves(&[OPEN, r#"["append","next","text"]"#, CLOSE, STOP, END], &["- f item_incomplete -"]);
}

#[test]
fn leaves_are_bounded_like_text() {
    let limits = StateLimits { call_bytes: 200, ..LIMITS };
    let leaf = format!(r#"["leaf","next","$.a","{}","more"]"#, "x".repeat(90));
    let script = [OPEN, &leaf, &leaf, &leaf, CLOSE, STOP, END];
    check_as(Provider::GeminiGenerateContent, &limits, &script, &["- f limit -"]);
    // What is short as leaves may be long as JSON.
    let leaf = format!(r#"["leaf","next","$.a","{}"]"#, "\\u0001".repeat(90));
    check_as(Provider::GeminiGenerateContent, &limits, &[OPEN, &leaf, CLOSE, STOP, END], &["- f limit -"]);
}

#[test]
fn a_call_is_taken_back() {
    let item = |id: &str| format!(r#"["item","next",{{"id":"{id}","name":"f","form":"value","raw":{{}}}}]"#);
    let script = [&item("a"), r#"["cancel","a"]"#, &item("b"), r#"["stop","final","carry"]"#, END, r#"["cancel","b"]"#];
    for way in [Way::Once, Way::Restored, Way::Undone] {
        let (out, state) = run(way, Provider::GeminiLive, &LIMITS, &script);
        assert_eq!(out, ["a f cancelled {}", "b f final {}"]);
        let conversation = state.get(KEY).expect("the conversation");
        let marked: Vec<bool> = conversation.calls.values().map(|call| call.cancelled).collect();
        assert_eq!(marked, [false, true], "{way:?}");
    }
}
