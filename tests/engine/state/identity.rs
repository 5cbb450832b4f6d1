//! What a call is, is said once: events that contradict each other never end clean, and no call vanishes.

use super::script::*;
use sluicegate::engine::provider::Provider;

const STOP: &str = r#"["stop","final","final"]"#;
const END: &str = r#"["end"]"#;

/// A script's name, its lines without the ending, and what the calls became.
type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

fn all(cases: &[Case<'_>]) {
    for (name, lines, expected) in cases {
        let script: Vec<&str> = lines.iter().copied().chain([STOP, END]).collect();
        for way in [Way::Once, Way::Restored, Way::Undone] {
            let (out, _) = run(way, Provider::AnthropicMessages, &LIMITS, &script);
            assert_eq!(out, *expected, "{name} {way:?}");
        }
    }
}

#[test]
fn contradictions_are_conflicts() {
    all(&[
        (
            "another name at the end",
            &[
                r#"["open",0,{"id":"c1","name":"danger"}]"#,
                r#"["append",0,"{}"]"#,
                r#"["item",0,{"id":"c1","name":"safe","text":"{}"}]"#,
            ],
            &["c1 safe final {} !conflict"],
        ),
        (
            "another name in the final list",
            &[
                r#"["item",0,{"id":"c1","name":"safe","text":"{}"}]"#,
                r#"["listed",0,{"id":"c1","name":"danger","text":"{}"}]"#,
            ],
            &["c1 safe final {} !conflict"],
        ),
        (
            "another name in a renumbered final list",
            &[
                r#"["item",3,{"item_id":"i1","name":"safe","text":"{}"}]"#,
                r#"["listed",0,{"item_id":"i1","name":"danger","text":"{}"}]"#,
            ],
            &["i1 safe final {} !conflict"],
        ),
        (
            "two ends of two calls in one slot",
            &[r#"["item",0,{"id":"c1","name":"f","text":"1"}]"#, r#"["item",0,{"id":"c2","name":"f","text":"2"}]"#],
            &["c1 f final 1 !conflict", "c2 f final 2 !conflict"],
        ),
        (
            "another id at the end",
            &[r#"["open",0,{"id":"c1","name":"danger"}]"#, r#"["item",0,{"id":"c2","name":"safe","text":"2"}]"#],
            &["c1 danger item_incomplete - !conflict", "c2 safe final 2 !conflict"],
        ),
        (
            "opened twice under two names",
            &[
                r#"["open",0,{"id":"c1","name":"safe","raw":{}}]"#,
                r#"["open",0,{"id":"c1","name":"danger","raw":{}}]"#,
                r#"["close",0]"#,
            ],
            &["c1 safe final {} !conflict"],
        ),
        (
            "opened twice with two inputs",
            &[
                r#"["open",0,{"id":"c1","name":"f","raw":{"x":1}}]"#,
                r#"["open",0,{"id":"c1","name":"f","raw":{"x":2}}]"#,
                r#"["close",0]"#,
            ],
            &[r#"c1 f final {"x":2} !conflict"#],
        ),
        (
            "reopened with another input",
            &[
                r#"["open",0,{"id":"c1","name":"f","raw":{"x":1}}]"#,
                r#"["close",0]"#,
                r#"["open",0,{"id":"c1","name":"f","raw":{"x":2}}]"#,
                r#"["close",0]"#,
            ],
            &[r#"c1 f final {"x":1} !conflict"#, r#"c1 f final {"x":2} !conflict"#],
        ),
        (
            "reopened without arguments before, with arguments now",
            &[
                r#"["open",0,{"id":"c1","name":"f","raw":{}}]"#,
                r#"["close",0]"#,
                r#"["open",0,{"id":"c1","name":"f","raw":{"x":2}}]"#,
                r#"["close",0]"#,
            ],
            &["c1 f final {} !conflict", r#"c1 f final {"x":2} !conflict"#],
        ),
        (
            "reopened and streamed anew",
            &[
                r#"["open",0,{"id":"c1","name":"f","raw":{}}]"#,
                r#"["append",0,"1"]"#,
                r#"["close",0]"#,
                r#"["open",0,{"id":"c1","name":"f","raw":{}}]"#,
                r#"["append",0,"2"]"#,
                r#"["close",0]"#,
            ],
            &["c1 f final 12 !conflict"],
        ),
        (
            "a call of message_start, then another at its place",
            &[
                r#"["item",0,{"id":"c1","name":"f","raw":{"x":1}}]"#,
                r#"["open",0,{"id":"c2","name":"g","raw":{}}]"#,
                r#"["close",0]"#,
            ],
            &[r#"c1 f final {"x":1} !conflict"#, "c2 g final {} !conflict"],
        ),
        (
            "pieces without a beginning, then another whole",
            &[r#"["append",0,"{\"x\":1}"]"#, r#"["item",0,{"id":"a","name":"f","text":"{\"x\":2}"}]"#],
            &[r#"a f final {"x":2} !conflict"#],
        ),
        (
            "a whole without a beginning, then another whole",
            &[r#"["restate",0,{"text":"1"}]"#, r#"["item",0,{"id":"a","name":"f","text":"21"}]"#],
            &["a f final 21 !conflict"],
        ),
        (
            "another whole value than the one it was opened with",
            &[r#"["open",0,{"id":"a","name":"f","text":"1"}]"#, r#"["item",0,{"id":"a","name":"f","text":"2"}]"#],
            &["a f final 2 !conflict"],
        ),
        (
            "another executor",
            &[r#"["open",0,{"id":"a","name":"f","run":"provider"}]"#, r#"["item",0,{"id":"a","name":"f","text":"2"}]"#],
            &["a f final 2 !conflict"],
        ),
        (
            "another form",
            &[r#"["open",0,{"id":"a","name":"f","form":"free"}]"#, r#"["item",0,{"id":"a","name":"f","text":"2"}]"#],
            &["a f final 2 !conflict"],
        ),
        (
            "another server",
            &[
                r#"["open",0,{"id":"a","name":"f","server":"s"}]"#,
                r#"["item",0,{"id":"a","name":"f","server":"t","text":"2"}]"#,
            ],
            &["a f final 2 !conflict"],
        ),
        (
            "another namespace",
            &[
                r#"["item",0,{"id":"a","name":"f","namespace":"n","text":"2"}]"#,
                r#"["listed",0,{"id":"a","name":"f","namespace":"m","text":"2"}]"#,
            ],
            &["a f final 2 !conflict"],
        ),
    ]);
}

#[test]
fn what_was_not_said_before_is_no_contradiction() {
    all(&[
        (
            "name, namespace and id come with the end",
            &[
                r#"["open",0,{"item_id":"i"}]"#,
                r#"["item",0,{"item_id":"j","id":"a","name":"f","namespace":"n","server":"s","text":"1"}]"#,
                r#"["listed",0,{"item_id":"k","id":"a","name":"f","text":"1"}]"#,
            ],
            &["a f final 1"],
        ),
        (
            "repeated as it is",
            &[
                r#"["open",0,{"id":"a","name":"f","raw":{"x":1}}]"#,
                r#"["close",0]"#,
                r#"["open",0,{"id":"a","name":"f","raw":{"x": 1}}]"#,
                r#"["close",0]"#,
            ],
            &[r#"a f final {"x":1}"#],
        ),
        (
            "the middle of a stream, then its whole",
            &[
                r#"["append",0,"1}"]"#,
                r#"["restate",0,{"text":"{\"x\":1}"}]"#,
                r#"["item",0,{"id":"a","name":"f","text":"{\"x\":1}"}]"#,
            ],
            &[r#"a f final {"x":1}"#],
        ),
    ]);
}

/// What comes behind the end under another name or id is another call: it has no end but the transport's.
#[test]
fn another_call_behind_the_end_does_not_vanish() {
    let script = [
        r#"["item",0,{"id":"a","name":"f","text":"1"}]"#,
        STOP,
        END,
        r#"["open",0,{"id":"a","name":"danger"}]"#,
        r#"["closed"]"#,
    ];
    check(&script, &["a f final 1", "a danger transport_closed - !conflict"]);
}

#[test]
fn of_several_endings_the_strictest_counts() {
    let cut = r#"["stop","max_tokens","carry"]"#;
    let item = r#"["item",0,{"id":"a","name":"f","text":"1"}]"#;
    let server = r#"["item",1,{"id":"s","name":"g","run":"provider","text":"1"}]"#;
    for script in [[item, server, cut, STOP, END], [item, server, STOP, cut, END]] {
        let closed: Vec<&str> = script.iter().copied().chain([r#"["closed"]"#]).collect();
        check(&closed, &["a f max_tokens 1"]);
    }
    let whole = r#"["stop","refused","refused"]"#;
    let choice = r#"["stop","final","final",0]"#;
    for script in [[item, choice, whole, END], [item, whole, choice, END]] {
        check(&script, &["a f refused 1"]);
    }
}

/// Streams without end markers: names in pieces, calls without a place, texts that break off.
#[test]
fn what_has_no_end_marker_is_put_together() {
    let name = |id: &str, name: &str| format!(r#"["open",0,{{"id":"{id}","name":"{name}"}}]"#);
    let text = |text: &str| format!(r#"["append",0,"{text}"]"#);
    let (get, set, one) = (name("a", "get_"), name("", "it"), text("1"));
    let arrives = |id: &str, name: &str| format!(r#"["open",[4294967295,0],{{"id":"{id}","name":"{name}"}}]"#);
    let piece = |text: &str| format!(r#"["append",[4294967295,0],"{text}"]"#);
    let cases: [(&str, Vec<String>, &[&str]); 10] = [
        ("joined", vec![get.clone(), set.clone(), one.clone()], &["a get_it final 1"]),
        ("repeated", vec![get.clone(), get.clone(), one.clone(), get.clone()], &["a get_ final 1"]),
        ("late", vec![get.clone(), one.clone(), set.clone()], &["a get_ final 1 !conflict"]),
        ("another id", vec![get.clone(), name("b", "it")], &["a get_ final -", "b it final -"]),
        ("breaks off", vec![get.clone(), text("{[]")], &["a get_ item_incomplete {[]"]),
        (
            "arrivals",
            vec![arrives("a", "f"), piece("1"), arrives("b", "f"), piece("2")],
            &["a f final 1", "b f final 2"],
        ),
        ("the same", vec![arrives("a", "f"), piece("1"), arrives("a", ""), piece("2")], &["a f final 12"]),
        (
            "an earlier one",
            vec![arrives("a", "f"), arrives("b", "f"), arrives("a", ""), piece("2")],
            &["a f final -", "b f final 2"],
        ),
        ("no place", vec![get.clone(), piece("1")], &["a get_ final - !conflict", "- - orphan 1"]),
        ("nothing", vec![get, piece("")], &["a get_ final -"]),
    ];
    for (case, mut lines, expected) in cases {
        lines.extend([STOP.to_owned(), END.to_owned()]);
        let script: Vec<&str> = lines.iter().map(String::as_str).collect();
        for way in [Way::Once, Way::Restored, Way::Undone] {
            assert_eq!(run(way, Provider::OpenAiChat, &LIMITS, &script).0, expected, "{case} {way:?}");
        }
    }
}

/// Far more calls than are kept: each is cut once, whatever comes for it later, and beyond a number they are
/// only counted.
#[test]
fn calls_beyond_the_limit_are_cut_once_and_then_counted() {
    let count = 3_000;
    let mut lines = Vec::new();
    for slot in 0..count {
        lines.push(format!(r#"["open",{slot},{{"id":"c{slot}","item_id":"i{slot}","name":"f","raw":{{}}}}]"#));
        lines.push(format!(r#"["append",{slot},"{{}}"]"#));
        lines.push(format!(r#"["close",{slot}]"#));
    }
    for slot in 0..count {
        lines.push(format!(r#"["item",{slot},{{"id":"c{slot}","item_id":"i{slot}","name":"f","text":"{{}}"}}]"#));
    }
    lines.extend([STOP.to_owned(), END.to_owned()]);
    let script: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (out, state) = run(Way::Once, Provider::OpenAiResponses, &LIMITS, &script);
    let mut ids: Vec<&str> = out.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(ids.len(), 8 + 1024);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8 + 1024, "no call has two endings");
    let c = state.get(KEY).unwrap();
    let exchange = c.exchanges.values().next().unwrap();
    assert!(exchange.refused >= count - 8 && exchange.settled.ranges() < 4, "{exchange:?}");
    assert!(c.calls.len() <= LIMITS.history as usize);
}
