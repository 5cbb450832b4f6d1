//! What people are shown: verdicts and copies of render events, and of results that say how they are shown.

use crate::support::{Partition, body, engine, header, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::scan::markup::link::Hosts;
use sluicegate::engine::scan::markup::{self, Harm, HarmSet, Shown};
use sluicegate::engine::{Emission, Engine, OnBlock, To};

const RENDER: &str = "io.sluicegate.render.v1";
const RESULT: &str = "io.sluicegate.tool.result.v1";

fn feed(partition: &mut Partition<'_>, kind: &str, more: &[(&str, &str)], data: &Value) -> Vec<Emission> {
    let text = data.to_string();
    let base = [("ce_specversion", "1.0"), ("ce_id", "e-1"), ("ce_source", "/fleet/a"), ("ce_type", kind)];
    let headers: Vec<(&str, Option<&[u8]>)> =
        base.iter().chain(more).map(|(name, value)| (*name, Some(value.as_bytes()))).collect();
    partition.feed_record(Some(b"c-91"), &headers, Some(text.as_bytes()))
}

fn shown(engine: &Engine, data: &Value) -> Vec<Emission> {
    feed(&mut Partition::new(engine), RENDER, &[], data)
}

fn copies(emissions: &[Emission]) -> Vec<&Emission> {
    emissions.iter().filter(|e| e.to == To::Redacted).collect()
}

fn rules(verdict: &Value) -> Vec<&str> {
    verdict["findings"].as_array().into_iter().flatten().filter_map(|f| f["rule"].as_str()).collect()
}

#[test]
fn what_is_shown_gets_a_verdict_and_a_copy() {
    let engine = engine(Profile::Standard);
    let cases = [
        ("html", "<p onclick=x()>a</p>", "active_content", "<p>a</p>"),
        ("markdown", "a ![b](https://x.example/?q=1) c", "auto_loading_resource", "a b c"),
        ("text", "a <script>b</script>", "raw_html_in_text", "a &lt;script>b&lt;/script>"),
        ("terminal", "\u{1b}]52;c;QQ==\u{7}a", "terminal_escape", "a"),
    ];
    for (format, content, rule, safe) in cases {
        let data = json!({"format": format, "content": content, "call_id": "call_1", "note": "stays"});
        let all = shown(&engine, &data);
        let found = verdicts(&all);
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0]["checkpoint"], &found[0]["action"]), (&json!("render"), &json!("redact")));
        assert_eq!(found[0]["verdict_id"], "local/check/0/0/render/0");
        assert_eq!(found[0]["subject"]["call_id"], "call_1");
        assert_eq!(found[0]["content_bytes"], content.len());
        assert_eq!(rules(&found[0]), [rule]);
        assert_eq!(found[0]["findings"][0]["at"], json!([{"in": "data", "pointer": "/content"}]));
        let copies = copies(&all);
        assert_eq!(header(copies[0], "ce_sgaction"), Some("redact"));
        let copy = body(copies[0]);
        assert_eq!(copy, json!({"format": format, "content": safe, "call_id": "call_1", "note": "stays"}));
        // What was made safe is safe.
        let again = shown(&engine, &copy);
        assert_eq!(verdicts(&again)[0]["action"], "allow");
        assert_eq!(body(self::copies(&again)[0]), copy);
    }
}

#[test]
fn harmless_content_keeps_its_bytes() {
    let engine = engine(Profile::Standard);
    let text = r#"{ "format":"html", "content":"<p class=x>\u0061<br\/>" }"#;
    let headers = [
        ("ce_specversion", Some(&b"1.0"[..])),
        ("ce_id", Some(b"e-1")),
        ("ce_source", Some(b"/fleet/a")),
        ("ce_type", Some(RENDER.as_bytes())),
    ];
    let all = Partition::new(&engine).feed_record(Some(b"c"), &headers, Some(text.as_bytes()));
    assert_eq!(verdicts(&all)[0]["decision"], "allow");
    assert_eq!(copies(&all)[0].value.as_deref(), Some(text.as_bytes()));
}

#[test]
fn lone_surrogates_do_not_move_what_is_changed() {
    let engine = engine(Profile::Standard);
    let text = r#"{"format":"markdown","content":"\ud83d \u00e9![b](https://x.example) \ude00\u001b[1m"}"#;
    let headers = [
        ("ce_specversion", Some(&b"1.0"[..])),
        ("ce_id", Some(b"e-1")),
        ("ce_source", Some(b"/fleet/a")),
        ("ce_type", Some(RENDER.as_bytes())),
    ];
    let all = Partition::new(&engine).feed_record(Some(b"c"), &headers, Some(text.as_bytes()));
    let copy = String::from_utf8(copies(&all)[0].value.clone().unwrap()).unwrap();
    assert!(!copy.contains("x.example") && !copy.contains("u001b"), "{copy}");
    assert!(verdicts(&all)[0]["action"] == "redact");
}

#[test]
fn what_cannot_be_judged_is_not_shown() {
    let engine = engine(Profile::Standard);
    for data in [
        json!({"format": "pdf", "content": "x"}),
        json!({"format": 1, "content": "x"}),
        json!({"content": "x"}),
        json!({"format": "html"}),
        json!({"format": "html", "content": ["x"]}),
        json!(["x"]),
    ] {
        let all = shown(&engine, &data);
        let found = verdicts(&all);
        assert_eq!((found.len(), copies(&all).len()), (1, 0), "{data}");
        assert_eq!((&found[0]["checkpoint"], &found[0]["action"]), (&json!("render"), &json!("block")), "{data}");
        assert_eq!(rules(&found[0]), ["undecodable"], "{data}");
    }
}

#[test]
fn what_is_blocked_is_replaced_by_a_note() {
    let content = "<div>".repeat(1000);
    let data = json!({"format": "html", "content": content});
    let all = shown(&engine(Profile::Standard), &data);
    assert_eq!(rules(&verdicts(&all)[0]), ["unbounded_markup"]);
    assert_eq!(header(copies(&all)[0], "ce_sgaction"), Some("block"));
    assert_eq!(body(copies(&all)[0])["content"], "[content withheld by policy SG05]");
    let mut settings = settings(Profile::Standard);
    settings.redacted.on_block = Some(OnBlock::Withhold);
    let withholding = Engine::new(settings).unwrap();
    let all = shown(&withholding, &data);
    assert_eq!((verdicts(&all).len(), copies(&all).len()), (1, 0));
}

#[test]
fn profiles_of_what_is_shown() {
    let data = json!({"format": "html", "content": "<script>x</script>"});
    let all = shown(&engine(Profile::Monitor), &data);
    let verdict = &verdicts(&all)[0];
    assert_eq!((&verdict["decision"], &verdict["action"]), (&json!("redact"), &json!("allow")));
    assert_eq!(body(copies(&all)[0]), data);
    assert!(shown(&engine(Profile::Off), &data).is_empty());
}

#[test]
fn a_format_may_stand_in_the_envelope() {
    let engine = engine(Profile::Standard);
    let data = json!({"content": "<script>x</script>y"});
    let all = feed(&mut Partition::new(&engine), RENDER, &[("ce_display", "html"), ("ce_callid", "call_7")], &data);
    assert_eq!(body(copies(&all)[0])["content"], "y");
    assert_eq!(verdicts(&all)[0]["subject"]["call_id"], "call_7");
}

#[test]
fn results_that_people_see() {
    let engine = engine(Profile::Standard);
    let content = json!({"source": "web", "content": {"rows": ["a ![b](https://x.example) c"], "n": 1}});
    let data = json!({"call_id": "call_1", "tool": "t", "outcome": "ok", "content": content});
    let display = |value| feed(&mut Partition::new(&engine), RESULT, &[("ce_display", value)], &data);
    let all = display("markdown");
    assert!(rules(&verdicts(&all)[0]).contains(&"auto_loading_resource"));
    let copy = body(copies(&all)[0]);
    assert_eq!(copy["content"], json!({"source": "web", "content": {"rows": ["a b c"], "n": 1}}));
    let again = feed(&mut Partition::new(&engine), RESULT, &[("ce_display", "markdown")], &copy);
    assert_eq!(verdicts(&again)[0]["action"], "allow");
    // Nobody sees it: it is text for the model.
    let all = feed(&mut Partition::new(&engine), RESULT, &[], &data);
    assert_eq!(verdicts(&all)[0]["action"], "allow");
    // Nobody knows how it is seen.
    let all = display("hologram");
    assert_eq!(rules(&verdicts(&all)[0]), ["undecodable"]);
    assert_eq!(copies(&all).len(), 0);
}

#[test]
fn wrapping_and_sanitising_go_together() {
    let engine = engine(Profile::Standard);
    let data = json!({"call_id": "c", "tool": "t", "content": "<p>a<script>x</script>"});
    let all = feed(&mut Partition::new(&engine), RESULT, &[("ce_display", "html")], &data);
    let copy = body(copies(&all)[0]);
    assert_eq!((&copy["content"]["source"], &copy["content"]["content"]), (&json!("tool:t"), &json!("<p>a</p>")));
    let again = feed(&mut Partition::new(&engine), RESULT, &[("ce_display", "html")], &copy);
    assert_eq!(verdicts(&again)[0]["action"], "allow");
}

#[test]
fn a_rule_that_only_reports_leaves_what_it_found() {
    let mut settings = settings(Profile::Standard);
    let rules = [("auto_loading_resource".to_owned(), sluicegate::engine::decision::Decision::Allow)].into();
    settings.policy.policies.insert(
        "SG05".to_owned(),
        sluicegate::engine::policy::OnePolicy { rules, ..sluicegate::engine::policy::OnePolicy::default() },
    );
    let engine = Engine::new(settings).unwrap();
    let data = json!({"format": "markdown", "content": "![a](https://x.example) [b](javascript:x)"});
    let all = shown(&engine, &data);
    assert_eq!(body(copies(&all)[0])["content"], "![a](https://x.example) b");
    assert_eq!(self::rules(&verdicts(&all)[0]).len(), 2);
}

#[test]
fn hostile_markup_is_refused() {
    let hosts = Hosts::default();
    let many = |n: usize, piece: &dyn Fn(usize) -> String| (0..n).map(piece).collect::<String>();
    let hostile = [
        "<div>".repeat(100_000),
        "<b>".repeat(100_000),
        "<table>".repeat(100_000),
        format!("<p {}>", many(200_000, &|n| format!("a{n} "))),
        format!("<!-- <a x=\" --><p {}>", many(200_000, &|n| format!("a{n}/"))),
        format!("{}{}", many(256, &|n| format!("<b class={n}>")), "<p>x</p>".repeat(50_000)),
        format!("<table>{}", "<b>x</b>".repeat(100_000)),
    ];
    for text in &hostile {
        assert!(markup::inspect(Shown::Html, text, &hosts).count(Harm::TooComplex) > 0, "{}", &text[..20]);
    }
    // What is just within bounds is still taken apart.
    let within = [
        format!("{}<script>", "<div>".repeat(500)),
        format!("<table>{}<script>", "<b>x</b>".repeat(16_000)),
        format!("{}<script>", "<i x=\">".repeat(20)),
        format!("<p {}>", many(1000, &|n| format!("a{n} "))).repeat(30),
    ];
    for text in &within {
        assert!(!markup::sanitise(Shown::Html, text, &hosts, HarmSet::ALL).contains("<script"));
    }
}

#[test]
fn hostile_text_is_taken_apart() {
    let hosts = Hosts::default();
    for text in [
        "![".repeat(100_000),
        format!("{}a{}", "![".repeat(5_000), "](https://x.example)".repeat(5_000)),
        ">".repeat(50_000),
        "<b>".repeat(100_000),
        "<div\n".repeat(50_000),
        "[a](".repeat(100_000),
        "`".repeat(100_000),
        "<a href=https://evil.com>bank.com".repeat(10_000),
    ] {
        let out = markup::sanitise(Shown::Markdown, &text, &hosts, HarmSet::ALL);
        assert!(markup::inspect(Shown::Markdown, &out, &hosts).kinds().is_empty(), "{}", &text[..10]);
    }
}
