//! What people are shown: verdicts and copies of render events, and of results that say how they are shown.

use crate::support::{Partition, body, engine, header, settings, verdicts};
use proptest::prelude::*;
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

/// The copy of a text, and the rules that its verdict names; the copy's own copy is the same, without a finding.
fn judged(engine: &Engine, format: &str, content: &str) -> (String, Vec<String>) {
    let all = shown(engine, &json!({"format": format, "content": content}));
    let verdict = verdicts(&all).remove(0);
    let copy = body(copies(&all)[0]);
    let safe = copy["content"].as_str().unwrap().to_owned();
    if verdict["action"] != "block" {
        let again = shown(engine, &copy);
        let second = &verdicts(&again)[0];
        assert_eq!(second["action"], "allow", "{format} {content:?} became {safe:?}, {second}");
        assert_eq!(body(copies(&again)[0]), copy, "{format} {content:?}");
    }
    (safe, rules(&verdict).into_iter().map(str::to_owned).collect())
}

#[test]
fn what_is_taken_out_arms_nothing() {
    const ACTIVE: &str = "active_content";
    const LOADS: &str = "auto_loading_resource";
    const ESCAPE: &str = "terminal_escape";
    let engine = engine(Profile::Standard);
    let cases: [(&str, &str, &str, &[&str]); 25] = [
        // Behind an HTML block that goes, Markdown begins.
        (
            "markdown",
            "<form>\n![a](https://x.example/?q=1)\n[b](javascript:c)\n</form>",
            "\na\nb\n",
            &[ACTIVE, LOADS, "dangerous_link"],
        ),
        ("markdown", "<script></script>![a](https://x.example)", "a", &[ACTIVE, LOADS]),
        ("markdown", "<iframe></iframe>\n![a](https://x.example)", "\na", &[ACTIVE, LOADS]),
        ("markdown", "<style></style>[bank.com](https://evil.com)", "bank.com", &[ACTIVE, "misleading_link"]),
        ("markdown", "</div>\n[bank.com](https://evil.com)<script>", "\nbank.com", &[ACTIVE, "misleading_link"]),
        (
            "markdown",
            "<form>\n```\n</form>\n![a](https://x.example)\n```",
            "\n```\n\n![a](https://x.example)\n```",
            &[ACTIVE],
        ),
        // What held a tag or an address apart.
        ("markdown", "<scr\0ipt>alert(1)</script>", "", &[ACTIVE, ESCAPE]),
        ("markdown", "<im\u{202e}g src=https://x.example>", "<img>", &[LOADS, "bidi_control"]),
        ("markdown", "!\u{1b}[0m[a](https://x.example)", "a", &[LOADS, ESCAPE]),
        ("markdown", "[a](java\u{1b}[0mscript:b)", "a", &["dangerous_link", ESCAPE]),
        ("markdown", "\u{1b}]0;`\u{7}<img src=x onerror=a>`", "`", &[ACTIVE, LOADS, ESCAPE]),
        ("markdown", "!&#x202e;[a](https://x.example)", "a", &[LOADS, "bidi_control"]),
        ("markdown", "a <im\u{200b}g src=https://x.example>", "a ", &[LOADS]),
        ("text", "<\u{202e}img src=x onerror=a>", "&lt;img src=x onerror=a>", &["bidi_control", "raw_html_in_text"]),
        ("text", "<scr\0ipt>a</script>", "&lt;script>a&lt;/script>", &[ESCAPE, "raw_html_in_text"]),
        ("text", "<scr\u{200b}ipt>a", "&lt;script>a", &["raw_html_in_text"]),
        ("text", "\u{1b}]0;<!--\u{7}<img src=x onerror=a>", "&lt;img src=x onerror=a>", &[ESCAPE, "raw_html_in_text"]),
        ("text", "\\x1\u{202e}b[31mred", "␛red", &[ESCAPE, "bidi_control"]),
        ("terminal", "\\x1\u{202e}b[31mred", "␛red", &[ESCAPE, "bidi_control"]),
        ("terminal", "\\x1\u{200b}b[31mred", "␛red", &[ESCAPE]),
        // Read in one way with scripts, in another without.
        ("html", "<noscript><!--</noscript><img src=https://x.example>-->", "<img>--&gt;", &[ACTIVE, LOADS]),
        // Controls where a browser finds no text.
        ("html", "<textarea>\u{202e}cod.exe", "cod.exe", &[ACTIVE, "bidi_control"]),
        ("html", "<textarea>\u{1b}]8;;x\u{7}</textarea>", "", &[ACTIVE, ESCAPE]),
        ("html", "<title>\u{1b}[2J</title>x", "x", &[ESCAPE]),
        ("html", "<!-- \u{202e} -->x", "x", &["bidi_control"]),
    ];
    let mut wrong = Vec::new();
    for (format, content, wanted, named) in cases {
        let (safe, rules) = judged(&engine, format, content);
        if safe != wanted || rules != named {
            wrong.push(format!("{content:?} became {safe:?}, {rules:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_armed_is_judged_by_its_own_rule() {
    let mut settings = settings(Profile::Standard);
    let rules = [("auto_loading_resource".to_owned(), sluicegate::engine::decision::Decision::Block)].into();
    settings.policy.policies.insert(
        "SG05".to_owned(),
        sluicegate::engine::policy::OnePolicy { rules, ..sluicegate::engine::policy::OnePolicy::default() },
    );
    let engine = Engine::new(settings).unwrap();
    let (safe, _) = judged(&engine, "markdown", "<script></script>![a](https://x.example)");
    assert_eq!(safe, "[content withheld by policy SG05]");
}

/// Pieces of markup, whole and broken, and what stands between.
const HOSTILE: [&str; 84] = [
    "<script>",
    "</script>",
    "<form>",
    "</form>",
    "<iframe>",
    "</iframe>",
    "<style>",
    "</style>",
    "<noscript>",
    "</noscript>",
    "<textarea>",
    "</textarea>",
    "<title>",
    "</title>",
    "<xmp>",
    "</xmp>",
    "<plaintext>",
    "<template>",
    "</template>",
    "<svg>",
    "</svg>",
    "<math>",
    "<mtext>",
    "<select>",
    "<option>",
    "<table>",
    "</table>",
    "<td>",
    "<div>",
    "</div>",
    "<b>",
    "</b>",
    "<p onclick=x>",
    "<!--",
    "-->",
    "<!-->",
    "<![CDATA[",
    "]]>",
    "<?x",
    "?>",
    "<",
    ">",
    "<im",
    "g src=https://x.example>",
    "<img src=x onerror=y>",
    "<img alt='",
    "<img alt=\"",
    "'>",
    "\">",
    "<a href=https://evil.com>",
    "bank.com",
    "</a>",
    "<a href='java&#10;script:x'>",
    "![",
    "!",
    "[",
    "]",
    "(https://x.example)",
    "(javascript:x)",
    "![a](https://x.example)",
    "[bank.com](https://evil.com)",
    "[r]",
    "\n\n[r]: https://x.example\n",
    "<https://a.example>",
    "`",
    "```\n",
    "~~~\n",
    "\\",
    "> ",
    "- ",
    "    ",
    "| a |\n|---|\n",
    "\0",
    "\u{202e}",
    "&#x202e;",
    "&#27;",
    "\u{200b}",
    "\u{1b}[0m",
    "\u{1b}]0;",
    "\u{7}",
    "\u{9b}",
    "\\x1",
    "b[31m",
    "\\e",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sanitised_is_stable(
        pieces in proptest::collection::vec((0..HOSTILE.len(), 0..8_usize), 0..14),
        shown in 0..4_usize,
    ) {
        let between = ["", "", "", "", " ", "\n", "\n\n", "x"];
        let text: String = pieces.iter().map(|(piece, gap)| [HOSTILE[*piece], between[*gap]].concat()).collect();
        let shown = [Shown::Html, Shown::Markdown, Shown::Text, Shown::Terminal][shown];
        let hosts = Hosts::default();
        let found = markup::inspect(shown, &text, &hosts).kinds();
        let safe = markup::sanitise(shown, &text, &hosts, HarmSet::ALL);
        let left = markup::inspect(shown, &safe, &hosts);
        prop_assert!(left.kinds().is_empty(), "{:?} became {:?}: {:?}", text, safe, left);
        prop_assert_eq!(markup::sanitise(shown, &safe, &hosts, HarmSet::ALL), safe.clone());
        prop_assert!(!found.is_empty() || safe == text);
        let format = ["html", "markdown", "text", "terminal"][shown as usize];
        judged(&engine(Profile::Standard), format, &text);
    }
}
