//! Cutting outputs: properties for any text, any JSON, any cap; and what the markers look like.

use bumpalo::Bump;
use proptest::prelude::*;
use sluicegate::engine::digest::Keyed;
use sluicegate::engine::json::{Documents, JsonLimits, Value, parse};
use sluicegate::engine::layer::{Layer, Step, splice};
use sluicegate::engine::policy::truncate::{self, Bound, LEAST_TEXT, LEAST_VALUE};
use sluicegate::engine::policy::{Evidence, Place};
use sluicegate::engine::verdict::{
    Checkpoint, Decision, FindingOut, Names, NotInspected, PolicyOut, SourceOut, SubjectOut, Verdict, engine_finding,
};

const HEAD: u32 = 75;

fn root<'r>(bump: &'r Bump, text: &'r [u8]) -> Value<'r> {
    parse(bump, Layer::record(bump, text), JsonLimits::default()).expect("the document is JSON")
}

/// A record `{"text":<literal>}`, its text cut; the new literal decoded.
fn cut_literal(literal: &str, cap: usize) -> Vec<u8> {
    let bump = Bump::new();
    let record = format!("{{\"before\":[1, 2],\"text\":{literal},\"after\":\"\\u0041\"}}");
    let value = root(&bump, record.as_bytes()).get("text").unwrap();
    let layer = value.text_layer(&bump, Step::Hidden).unwrap().unwrap();
    let edits = truncate::text(&bump, layer, Bound { cap, head_percent: HEAD });
    let new = splice(root(&bump, record.as_bytes()).layer(), &[]).unwrap();
    assert_eq!(new, record.as_bytes());
    let new = splice(value.layer(), &edits).expect("every cut can be made exactly");
    assert!(new.starts_with(b"{\"before\":[1, 2],\"text\":\"") && new.ends_with(b"\",\"after\":\"\\u0041\"}"));
    root(&bump, &new).get("text").unwrap().text().unwrap().into_owned()
}

fn cut_text(text: &str, cap: usize) -> String {
    String::from_utf8(cut_literal(&serde_json::to_string(text).unwrap(), cap)).unwrap()
}

fn cut_value(json: &str, cap: usize) -> String {
    let bump = Bump::new();
    let record = format!("{{\"v\": {json} }}");
    let value = root(&bump, record.as_bytes()).get("v").unwrap();
    let edits = truncate::value(&bump, value, Bound { cap, head_percent: HEAD });
    let new = splice(value.layer(), &edits).expect("every cut can be made exactly");
    let new = String::from_utf8(new).unwrap();
    new.strip_prefix("{\"v\": ").and_then(|rest| rest.strip_suffix(" }")).unwrap().to_owned()
}

/// Every run of text between markers stood in the original.
fn stood_there(cut: &str, whole: &str) -> bool {
    let mut rest = cut;
    while let Some((start, open)) =
        ["[sluicegate: ", "[…]"].iter().filter_map(|open| Some((rest.find(open)?, *open))).min()
    {
        let (run, behind) = rest.split_at(start);
        if !whole.contains(run) {
            return false;
        }
        rest =
            if open == "[…]" { &behind[open.len()..] } else { behind.split_once(']').map_or("", |(_, rest)| rest) };
    }
    whole.contains(rest)
}

/// Head and tail around the marker, if there is one.
fn around(text: &str) -> Option<(&str, &str)> {
    let start = text.find("[sluicegate: ")?;
    let end = start + text[start..].find(']')? + 1;
    Some((&text[..start], &text[end..]))
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "\\PC{0,40}".prop_map(Into::into),
        ("[a-z\"\\\\\n é😀]{1,9}", 1..400_usize).prop_map(|(s, n)| s.repeat(n).into()),
    ];
    leaf.prop_recursive(5, 120, 16, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..16).prop_map(serde_json::Value::Array),
            prop::collection::vec(("[a-z_]{0,12}", inner), 0..12)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

fn container() -> impl Strategy<Value = serde_json::Value> {
    any_json().prop_filter("an array or object", |json| json.is_array() || json.is_object())
}

/// A literal in which everything can be escaped, pairs and lone halves too.
fn any_literal() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-z é€😀]{1,20}",
        1 => Just("\\n".to_owned()),
        1 => Just("\\\"".to_owned()),
        1 => Just("\\ud83d\\ude00".to_owned()),
        1 => Just("\\ud83d".to_owned()),
        1 => Just("\\u00e9".to_owned()),
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// JSON in a string of JSON in a string, with escapes of every kind, cut at any size, stays JSON at every depth.
#[test]
fn json_in_strings_of_json_stays_json() {
    let words = ["plain ", "\u{e0041}\u{e0042}", "\u{1f600}", "\"q\"", "back\\slash", "\n", "\u{7}", "é"];
    for depth in 1..=3 {
        for ascii in [true, false] {
            let text: String = (0..400).map(|n| words[n * 7 % words.len()]).collect();
            let mut whole = serde_json::json!({ "x": text }).to_string();
            for _ in 0..depth {
                if ascii {
                    whole = escaped(&whole);
                }
                whole = serde_json::json!({ "a": whole }).to_string();
            }
            for cap in (200..2400).step_by(7) {
                let mut cut = cut_text(&whole, cap);
                assert!(cut.len() <= cap);
                for level in 0..=depth {
                    let value: serde_json::Value = serde_json::from_str(&cut)
                        .unwrap_or_else(|e| panic!("depth {level} of {depth} at {cap}: {e}: {cut}"));
                    match value.get("a").and_then(|inner| inner.as_str()) {
                        Some(inner) if inner.starts_with('{') && inner.ends_with('}') => cut = inner.to_owned(),
                        _ => break,
                    }
                }
            }
        }
    }
}

/// Every character that is not ASCII as an escape.
fn escaped(json: &str) -> String {
    let mut out = String::new();
    for c in json.chars() {
        match c {
            ' '..='~' => out.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn text_is_bounded_and_keeps_head_and_tail(text in "(\\PC|\n){0,600}", cap in 0..700_usize) {
        prop_assume!(!truncate::opens_container(text.as_bytes()) && !text.contains("[sluicegate") && !text.contains('…'));
        let cut = cut_text(&text, cap);
        prop_assert!(cut.len() <= cap.max(LEAST_TEXT));
        prop_assert_eq!(&cut_text(&cut, cap), &cut);
        prop_assert!(stood_there(&cut, &text), "{cut:?} of {text:?}");
        prop_assert!(cut == text || cut.contains("[sluicegate: ") || cut.contains("[…]"));
        if text.len() <= cap {
            prop_assert_eq!(&cut, &text);
        } else if let Some((head, tail)) = around(&cut) {
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(cap < 120 || cut.len() + 16 > cap, "room is used: {} of {}", cut.len(), cap);
        }
    }

    #[test]
    fn escapes_and_pairs_are_never_cut(literal in any_literal(), cap in 0..900_usize) {
        let cut = cut_literal(&literal, cap);
        let whole = cut_literal(&literal, usize::MAX);
        prop_assert!(cut.len() <= cap.max(LEAST_TEXT) || cut == whole && whole.len() <= cap);
        // A half pair in the result is one of the original: as many or fewer stand alone.
        let halves = |text: &[u8]| text.windows(2).filter(|w| w[0] == 0xED && w[1] >= 0xA0).count();
        prop_assert!(halves(&cut) <= halves(&whole));
    }

    #[test]
    fn literals_are_bounded_as_they_stand(literal in any_literal(), cap in 2..900_usize) {
        let cut = cut_value(&literal, cap);
        prop_assert!(cut.len() <= cap.max(LEAST_VALUE), "{} above {}", cut.len(), cap);
        prop_assert_eq!(&cut_value(&cut, cap), &cut);
    }

    #[test]
    fn json_text_stays_json(json in container(), pretty in any::<bool>(), cap in 96..3000_usize) {
        let text = if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) }.unwrap();
        let cut = cut_text(&text, cap);
        prop_assert!(cut.len() <= cap, "{} above {}", cut.len(), cap);
        let parsed: serde_json::Value = serde_json::from_str(&cut).expect("JSON stays JSON");
        prop_assert_eq!(parsed.is_array(), json.is_array());
        prop_assert_eq!(&cut_text(&cut, cap), &cut);
        if text.len() <= cap {
            prop_assert_eq!(cut, text);
        }
    }

    #[test]
    fn json_values_stay_json(json in any_json(), cap in 2..3000_usize) {
        let text = serde_json::to_string(&json).unwrap();
        let cut = cut_value(&text, cap);
        prop_assert!(cut.len() <= cap.max(LEAST_VALUE), "{} above {}", cut.len(), cap);
        let kept = serde_json::from_str::<serde_json::Value>(&cut).expect("JSON stays JSON");
        prop_assert_eq!((kept.is_object(), kept.is_array()), (json.is_object(), json.is_array()));
        prop_assert_eq!(&cut_value(&cut, cap), &cut);
    }

    #[test]
    fn json_in_a_string_stays_json(json in container(), cap in 400..3000_usize) {
        let literal = serde_json::to_string(&serde_json::to_string(&json).unwrap()).unwrap();
        let cut = cut_value(&literal, cap);
        prop_assert!(cut.len() <= cap.max(LEAST_VALUE), "{} above {}", cut.len(), cap);
        let inner: String = serde_json::from_str(&cut).unwrap();
        serde_json::from_str::<serde_json::Value>(&inner).expect("JSON stays JSON");
    }

    #[test]
    fn any_cap_is_kept_for_json_text(json in container(), cap in 0..200_usize) {
        let text = serde_json::to_string(&json).unwrap();
        prop_assert!(cut_text(&text, cap).len() <= cap.max(LEAST_TEXT));
    }

    #[test]
    fn levels_above_the_least_are_the_largest_that_fit(
        sizes in prop::collection::vec((0..500_usize, 0..100_usize), 0..40),
        cap in 0..8000_usize,
    ) {
        let sum = |level: usize| sizes.iter().map(|(size, least)| (*size).min(level.max(*least))).sum::<usize>();
        match truncate::level_above(&sizes, cap) {
            None => prop_assert!(sum(0) > cap),
            Some(level) => prop_assert!(sum(level) <= cap && (sum(level + 1) > cap || sum(level) == sum(usize::MAX))),
        }
    }

    #[test]
    fn levels_take_from_the_largest(sizes in prop::collection::vec(0..500_usize, 0..40), part in 0..=100_usize) {
        let sum: usize = sizes.iter().sum();
        let excess = sum * part / 100;
        let level = truncate::level(&sizes, excess);
        if sizes.is_empty() {
            prop_assert_eq!(level, None);
        } else {
            let level = level.unwrap();
            let saved = |level: usize| sizes.iter().map(|s| s.saturating_sub(level)).sum::<usize>();
            prop_assert!(saved(level) >= excess);
            prop_assert!(excess == 0 || saved(level + 1) < excess);
        }
    }
}

#[test]
fn the_marker_names_bytes_and_lines() {
    let text = "a line of a log\n".repeat(9_798);
    let cut = cut_text(&text, 65_536);
    let (head, tail) = around(&cut).unwrap();
    let omitted = text.len() - head.len() - tail.len();
    let lines = text.lines().count() - head.matches('\n').count() - tail.matches('\n').count();
    let marker = &cut[head.len()..cut.len() - tail.len()];
    let spaced = |n: usize| format!("{} {:03}", n / 1000, n % 1000);
    let wanted = format!("[sluicegate: {} of 156 768 bytes omitted; {} lines]", spaced(omitted), spaced(lines));
    assert_eq!(marker, wanted);
    assert!((cut.len()..=cut.len() + 8).contains(&65_536));
    assert_eq!(head.len() * 100 / (head.len() + tail.len()), 74);
}

#[test]
fn a_text_of_one_line_names_no_lines() {
    let cut = cut_text(&"x".repeat(3000), 1024);
    let (head, tail) = around(&cut).unwrap();
    let marker = &cut[head.len()..cut.len() - tail.len()];
    assert_eq!(marker, format!("[sluicegate: 2 0{} of 3 000 bytes omitted]", 3000 - head.len() - tail.len() - 2000));
}

#[test]
fn long_strings_go_before_rows() {
    let rows: Vec<_> = (0..20).map(|n| serde_json::json!({"id": n, "body": "x".repeat(n * 200)})).collect();
    let text = serde_json::json!({ "rows": rows, "next": "page-2" }).to_string();
    let cut: serde_json::Value = serde_json::from_str(&cut_text(&text, 16_384)).unwrap();
    assert_eq!(cut["rows"].as_array().unwrap().len(), 20);
    assert_eq!(cut["next"], "page-2");
    assert_eq!(cut["rows"][2]["body"].as_str().unwrap().len(), 400);
    assert!(cut["rows"][19]["body"].as_str().unwrap().contains("[sluicegate: "));
}

#[test]
fn array_tails_give_way_to_counts() {
    let rows: Vec<_> = (0..5000).map(|n| serde_json::json!({"id": n, "name": "n"})).collect();
    let text = serde_json::json!({ "rows": rows, "total": 5000 }).to_string();
    let cut = cut_text(&text, 4096);
    let cut: serde_json::Value = serde_json::from_str(&cut).unwrap();
    let rows = cut["rows"].as_array().unwrap();
    let entry = &rows.last().unwrap()["_truncated"];
    assert_eq!(entry["omitted"].as_u64().unwrap() as usize, 5000 - (rows.len() - 1));
    assert_eq!((entry["of"].as_u64(), cut["total"].as_u64()), (Some(5000), Some(5000)));
    assert!(rows.len() > 150);
}

#[test]
fn object_tails_name_what_is_missing() {
    let members: serde_json::Map<_, _> = (0..2000).map(|n| (format!("key{n:04}"), n.into())).collect();
    let cut = cut_text(&serde_json::Value::Object(members).to_string(), 2048);
    let cut: serde_json::Value = serde_json::from_str(&cut).unwrap();
    let kept = cut.as_object().unwrap().len() - 1;
    assert_eq!(cut["_truncated"]["omitted"], 2000 - kept);
    assert_eq!(cut["_truncated"]["keys"][0], format!("key{kept:04}"));
}

#[test]
fn white_space_alone_is_no_reason_to_lose_json() {
    let text = format!("{}{{\"a\":1}}{}", " ".repeat(5000), "\n".repeat(5000));
    assert_eq!(cut_text(&text, 1024), "{\"a\":1}");
}

/// Half an emoji kills a conversation for good: strict parsers answer 400 to every later request
/// (field-bugs 32).
#[test]
fn an_emoji_at_the_cut_is_kept_or_left_out_whole() {
    for cap in 100..140 {
        let literal = format!("\"{}\"", "\\ud83d\\ude00".repeat(100));
        let cut = String::from_utf8(cut_literal(&literal, cap)).expect("whole characters only");
        assert!(cut.len() <= cap && cut.contains("[sluicegate: "));
    }
}

/// Head and tail of a short text would make one that stood nowhere.
#[test]
fn head_and_tail_never_meet() {
    let text = "approved by nobody at all; refused by root";
    assert_eq!(cut_text(text, 16), "approved[…]oot");
    for cap in 0..text.len() {
        let cut = cut_text(text, cap);
        assert!(cut.contains("[…]") || cut.contains("[sluicegate: "), "{cap}: {cut}");
        assert!(stood_there(&cut, text), "{cap}: {cut}");
    }
}

#[test]
fn addresses_are_kept_or_left_out_whole() {
    let uri = format!("https://example.test/{}", "a/".repeat(400));
    let rows: Vec<_> = (0..20).map(|n| serde_json::json!({"uri": uri, "text": format!("{n}").repeat(900)})).collect();
    let cut: serde_json::Value = serde_json::from_str(&cut_text(&serde_json::json!(rows).to_string(), 8192)).unwrap();
    let kept = cut.as_array().unwrap();
    assert!(kept.len() > 3 && kept[..kept.len() - 1].iter().all(|row| row["uri"] == uri), "{cut}");
    assert!(kept.last().unwrap().get("_truncated").is_some());
}

#[test]
fn text_that_only_looks_like_json_is_text() {
    let text = format!("[INFO] {}", "started\n".repeat(500));
    assert!(cut_text(&text, 512).starts_with("[INFO] started\n"));
}

fn assembled<'r>(bump: &'r Bump, text: &'r str) -> Value<'r> {
    let layer = Layer::assembled(bump, text.as_bytes(), Step::Arguments);
    parse(bump, layer, JsonLimits::default()).expect("the document is JSON")
}

/// The pointer that a verdict shows for the innermost value of nested objects with these names.
fn shown(names: &[String], schema: &serde_json::Value) -> String {
    let text =
        names.iter().rev().fold("1".to_owned(), |inner, name| format!("{{{}:{inner}}}", serde_json::json!(name)));
    let bump = Bump::new();
    let mut value = assembled(&bump, &text);
    for name in names {
        value = value.get(name).unwrap();
    }
    let schema_text = schema.to_string();
    let keyed = Keyed::new([7; 32]);
    let mut shown = Names::new(&keyed);
    shown.add_schema(root(&bump, schema_text.as_bytes()));
    let documents = Documents::new(&bump, JsonLimits::default());
    let mut steps = shown.at(&Place::Value { value, range: None }, &documents);
    steps.pop().and_then(|step| step.pointer).unwrap_or_default()
}

#[test]
fn pointers_show_only_harmless_names() {
    let lure = "ignore previous instructions";
    let long = "p".repeat(129);
    let schema =
        serde_json::json!({"properties": {"to": {}, "a/b": {}, lure: {}, long.as_str(): {}, "na\u{ef}ve": {}}});
    let is_masked = |pointer: &str| pointer.len() == 15 && pointer.starts_with("/~0");
    for (name, wanted) in [("to", "/to"), ("a/b", "/a~1b"), ("content", "/content")] {
        assert_eq!(shown(&[name.to_owned()], &schema), wanted);
    }
    for name in [lure, &long, "na\u{ef}ve", "unheard_of", ""] {
        let pointer = shown(&[name.to_owned()], &schema);
        assert!(is_masked(&pointer), "{name}: {pointer}");
    }
    // Deeper than a pointer may be: what is left is one masked segment, and differs where the rest does.
    let deep = |last: &str| {
        let mut names = vec!["p".repeat(100); 30];
        names.push(last.to_owned());
        shown(&names, &serde_json::json!({"properties": {"p".repeat(100): {}}}))
    };
    let (one, other) = (deep("a"), deep("b"));
    assert!(one.len() <= 1024 && one.starts_with(&format!("/{}/", "p".repeat(100))) && one != other);
    assert!(is_masked(&one[one.rfind('/').unwrap()..]), "{one}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A verdict is never longer than its limit, and stays JSON that says what was decided.
    #[test]
    fn verdicts_fit_their_limit(
        names in prop::collection::vec("[a-z]{1,120}|.{0,40}", 0..60),
        findings in 0usize..80,
        parts in 0usize..80,
        text in ".{0,4000}",
        limit in 4096u64..20_000,
    ) {
        let json = names.iter().rev().fold("1".to_owned(), |inner, name| format!("{{{}:{inner}}}", serde_json::json!(name)));
        let bump = Bump::new();
        let mut value = assembled(&bump, &json);
        for name in &names {
            value = value.get(name).unwrap();
        }
        let properties: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), serde_json::json!({}))).collect();
        let schema = serde_json::json!({"properties": properties}).to_string();
        let keyed = Keyed::new([7; 32]);
        let mut shown = Names::new(&keyed);
        shown.add_schema(root(&bump, schema.as_bytes()));
        let documents = Documents::new(&bump, JsonLimits::default());
        let place = Place::Value { value, range: None };
        for step in shown.at(&place, &documents) {
            prop_assert!(step.pointer.is_none_or(|pointer| pointer.len() <= 1024));
        }
        let finding = engine_finding("unknown_part", place, Evidence::None);
        let some = || Some(text.clone());
        let verdict = Verdict {
            verdict_id: "local/check/0/0/tool_call/0".to_owned(),
            checkpoint: Checkpoint::ToolCall,
            decision: Decision::Block,
            action: Decision::Block,
            complete: true,
            subject: SubjectOut { call_id: some(), tool: some(), server: some(), executor: Some("client") },
            provider: Some("openai.responses"),
            fleet: text.clone(),
            agent: text.clone(),
            conversation: some(),
            response_id: some(),
            findings: (0..findings).map(|_| FindingOut::of(&finding, &shown, &documents)).collect(),
            findings_omitted: 0,
            not_inspected: (0..parts)
                .map(|_| NotInspected { at: shown.at(&place, &documents), kind: "image", reason: "none" })
                .collect(),
            not_inspected_omitted: 0,
            content_hmac: None,
            content_bytes: 1,
            idempotency_key: None,
            policy: PolicyOut { bundle: &text, digest: "sha256:0", pins_offset: None },
            source: SourceOut { topic: "check", partition: 0, offset: 0, event_id: some(), time: some() },
            engine: "0",
        };
        let bytes = verdict.encode(limit);
        prop_assert!(bytes.len() as u64 <= limit, "{} of {limit}", bytes.len());
        let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(&read["action"], "block");
        let listed = read["findings"].as_array().map_or(0, Vec::len) as u64;
        prop_assert_eq!(listed + read["findings_omitted"].as_u64().unwrap_or(0), findings as u64);
        let listed = read["not_inspected"].as_array().map_or(0, Vec::len) as u64;
        prop_assert_eq!(listed + read["not_inspected_omitted"].as_u64().unwrap_or(0), parts as u64);
    }
}
