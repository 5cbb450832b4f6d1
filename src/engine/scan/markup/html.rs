//! HTML: what its tags are, and the same without those that are not on the list.
//!
//! Two readers of one standard: html5ever's tokenizer says which tags, attributes and addresses stand in a text, and
//! ammonia, which is built on the same tokenizer, makes the text without what is not allowed. If every token is on
//! the list nothing has to go, because none of the elements on it changes how what follows is read (no raw text, no
//! foreign content, no tables of states): what the tokens say is what a browser builds. Comments and a document's
//! frame (`html`, `head`, `title`) do nothing and stand.
//!
//! Invariant: both use [`attribute`], so what ammonia leaves is what the inventory finds harmless.
//!
//! Bounds, each for a cost that grows faster than the text: attributes of one tag (compared pairwise), open elements
//! (searched for every tag), open formatting (repeated in every paragraph), tags (moved one by one out of tables).

use super::link::{self, Hosts, Target};
use super::{Harm, HarmSet, Harms, harm_of, without_controls};
use crate::engine::scan::terminal;
use ammonia::Builder;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

const MAX_ATTRIBUTES: u32 = 1024;
const MAX_DEPTH: u32 = 512;
const MAX_TAGS: u32 = 1 << 15;
const MAX_REPEATED: u64 = 1 << 18;
/// Bytes of a link's text that are read.
pub const LINK_TEXT: usize = 512;

/// Elements that may stand.
const ELEMENTS: &[&str] = &[
    "a",
    "abbr",
    "acronym",
    "address",
    "article",
    "aside",
    "b",
    "bdi",
    "big",
    "blockquote",
    "br",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "data",
    "dd",
    "del",
    "details",
    "dfn",
    "dir",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "font",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "main",
    "mark",
    "menu",
    "nav",
    "ol",
    "p",
    "pre",
    "q",
    "rb",
    "rp",
    "rt",
    "rtc",
    "ruby",
    "s",
    "samp",
    "section",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "time",
    "tr",
    "tt",
    "u",
    "ul",
    "var",
    "wbr",
    "picture",
    "search",
    "nobr",
];
/// A document's frame: it does nothing, and does not outlive a sanitiser.
const FRAME: &[&str] = &["body", "head", "html", "meta", "title"];
/// Elements that load something by being there.
const LOADING: &[&str] = &["audio", "bgsound", "embed", "image", "link", "source", "track", "video"];
/// Elements that run, submit, embed, restyle, or change how what follows is read.
const ACTIVE: &[&str] = &[
    "applet",
    "area",
    "base",
    "basefont",
    "blink",
    "button",
    "canvas",
    "dialog",
    "fieldset",
    "form",
    "frame",
    "frameset",
    "iframe",
    "input",
    "keygen",
    "map",
    "marquee",
    "math",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "optgroup",
    "option",
    "param",
    "plaintext",
    "portal",
    "script",
    "select",
    "style",
    "svg",
    "template",
    "textarea",
];
/// Elements whose content goes with them: it is no text for a reader.
const WITH_CONTENT: &[&str] =
    &["script", "style", "title", "template", "iframe", "noembed", "noframes", "noscript", "xmp", "portal"];
/// Attributes that may stand on any element; `aria-*` too.
const ATTRIBUTES: &[&str] = &[
    "abbr",
    "align",
    "alt",
    "bgcolor",
    "border",
    "cellpadding",
    "cellspacing",
    "char",
    "charoff",
    "charset",
    "cite",
    "class",
    "clear",
    "color",
    "cols",
    "colspan",
    "compact",
    "content",
    "datetime",
    "decoding",
    "dir",
    "face",
    "frame",
    "headers",
    "height",
    "hreflang",
    "hspace",
    "itemprop",
    "itemscope",
    "itemtype",
    "lang",
    "loading",
    "nowrap",
    "open",
    "property",
    "rel",
    "reversed",
    "role",
    "rowspan",
    "rules",
    "scope",
    "size",
    "span",
    "start",
    "summary",
    "target",
    "title",
    "translate",
    "type",
    "valign",
    "value",
    "width",
];
/// Attributes that load or report.
const LOADING_ATTRIBUTES: &[&str] =
    &["background", "dynsrc", "imagesrcset", "longdesc", "lowsrc", "manifest", "ping", "poster", "srcset"];
/// Elements that the parser closes by itself.
const SELF_ENDING: &[&str] = &[
    "p", "li", "dd", "dt", "tr", "td", "th", "tbody", "thead", "tfoot", "rp", "rt", "rb", "rtc", "caption", "col",
    "colgroup", "body", "head", "html", "option",
];
const VOID: &[&str] =
    &["area", "base", "br", "col", "embed", "hr", "img", "image", "input", "link", "meta", "source", "track", "wbr"];
/// Elements that are opened again in every block behind the one that they were left open in.
const FORMATTING: &[&str] =
    &["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u", "abbr"];

/// What a piece of HTML holds.
#[derive(Debug, Default)]
pub struct Inventory {
    /// What does harm by itself.
    pub harms: Harms,
    /// Elements and attributes that are not on the list and that nothing is known of.
    pub strange: u64,
    /// Addresses of links whose text says otherwise, or that are disguised.
    pub misleading: BTreeSet<String>,
    /// The piece ends inside a tag, a comment or raw text: what follows would be read as a part of it.
    pub ends_inside: bool,
    /// The address of a link that is still open at the end.
    pub open_link: Option<String>,
    /// A link that was opened elsewhere ends here.
    pub closes_link: bool,
}

/// What the text would do.
pub fn inspect(text: &str, hosts: &Hosts) -> Harms {
    if is_too_complex(text) {
        let mut harms = Harms::default();
        harms.add(Harm::TooComplex, None);
        return harms;
    }
    Inventory::of(text, hosts).into_harms()
}

/// The text without what is in `remove`; what is not on the list always goes.
pub fn sanitise(text: &str, hosts: &Hosts, remove: HarmSet) -> String {
    let misleading = match remove.has(Harm::MisleadingLink) {
        true => Inventory::of(text, hosts).misleading,
        false => BTreeSet::new(),
    };
    let hosts = hosts.clone();
    let mut builder = Builder::empty();
    builder
        .tags(ELEMENTS.iter().copied().collect())
        .clean_content_tags(WITH_CONTENT.iter().copied().collect())
        .generic_attributes(ATTRIBUTES.iter().copied().collect())
        .generic_attribute_prefixes(HashSet::from(["aria-"]))
        .tag_attributes([("a", HashSet::from(["href"])), ("img", HashSet::from(["src"]))].into())
        .url_schemes(HashSet::from([
            "data", "ftp", "ftps", "geo", "http", "https", "irc", "ircs", "magnet", "mailto", "news", "nntp", "sip",
            "sms", "tel", "urn", "webcal", "xmpp",
        ]))
        .link_rel(None)
        .attribute_filter(move |element, name, value| {
            let goes = match attribute(element, name, value, &hosts) {
                Verdict::Harm(Harm::ActiveContent) | Verdict::Strange => true,
                Verdict::Harm(harm) => remove.has(harm),
                Verdict::Fine => name == "href" && misleading.contains(value),
            };
            (!goes).then_some(Cow::Borrowed(value))
        });
    without_controls(&builder.clean(text).to_string(), remove)
}

/// Whether a tag, wherever one is taken to begin, has more attributes than are compared with each other.
///
/// Which `<` opens a tag depends on what stands before it, so all of them are followed at once, each state with the
/// largest number of attributes that leads to it: too many may be counted, never too few.
pub fn is_too_complex(text: &str) -> bool {
    const BETWEEN: usize = 0;
    const NAME: usize = 1;
    const AFTER_NAME: usize = 2;
    const BEFORE_VALUE: usize = 3;
    const UNQUOTED: usize = 4;
    const SINGLE: usize = 5;
    const DOUBLE: usize = 6;
    const TAG: usize = 7;
    let mut states: [Option<u32>; 8] = [None; 8];
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if states.iter().any(Option::is_some) {
            let mut next: [Option<u32>; 8] = [None; 8];
            for (state, count) in states.iter().enumerate().filter_map(|(state, count)| Some((state, (*count)?))) {
                let space = byte.is_ascii_whitespace() || *byte == b'/';
                let (to, count) = match (state, byte) {
                    (SINGLE, b'\'') | (DOUBLE, b'"') => (BETWEEN, count),
                    (SINGLE | DOUBLE, _) => (state, count),
                    (_, b'>') => continue,
                    (BEFORE_VALUE, b'"') => (DOUBLE, count),
                    (BEFORE_VALUE, b'\'') => (SINGLE, count),
                    (BEFORE_VALUE, _) if byte.is_ascii_whitespace() => (BEFORE_VALUE, count),
                    (BEFORE_VALUE, _) => (UNQUOTED, count),
                    (UNQUOTED, _) if byte.is_ascii_whitespace() => (BETWEEN, count),
                    (UNQUOTED, _) => (UNQUOTED, count),
                    (TAG | BETWEEN, _) if space => (BETWEEN, count),
                    (TAG, _) => (TAG, count),
                    (NAME | AFTER_NAME, b'=') => (BEFORE_VALUE, count),
                    (NAME, b'/') | (AFTER_NAME, b'/') => (BETWEEN, count),
                    (NAME | AFTER_NAME, _) if space => (AFTER_NAME, count),
                    (NAME, _) => (NAME, count),
                    _ => (NAME, count + 1),
                };
                if count > MAX_ATTRIBUTES {
                    return true;
                }
                if let Some(slot) = next.get_mut(to) {
                    *slot = (*slot).max(Some(count));
                }
            }
            states = next;
        }
        let opens = |n: usize| bytes.get(at + n).is_some_and(u8::is_ascii_alphabetic);
        if *byte == b'<' && (opens(1) || bytes.get(at + 1) == Some(&b'/') && opens(2)) {
            states[TAG] = states[TAG].max(Some(0));
        }
    }
    false
}

/// What an attribute of an allowed element is.
enum Verdict {
    Fine,
    /// Not on the list.
    Strange,
    Harm(Harm),
}

fn attribute(element: &str, name: &str, value: &str, hosts: &Hosts) -> Verdict {
    let loads = |target: &Target| match target {
        Target::Inline => false,
        Target::Host(host) => !hosts.allow(host),
        _ => true,
    };
    match (element, name) {
        ("a", "href") => {
            let link = link::read(value);
            match link.target {
                Target::Dangerous | Target::Inline => Verdict::Harm(Harm::DangerousLink),
                _ if link.disguised => Verdict::Harm(Harm::MisleadingLink),
                _ => Verdict::Fine,
            }
        }
        ("img", "src") => match loads(&link::read(value).target) {
            true => Verdict::Harm(Harm::AutoLoading),
            false => Verdict::Fine,
        },
        ("meta", "http-equiv") => Verdict::Harm(Harm::ActiveContent),
        ("meta", "name") | ("html", "xmlns" | "prefix" | "version") => Verdict::Fine,
        (_, "cite") => match link::read(value).target {
            Target::Dangerous => Verdict::Harm(Harm::DangerousLink),
            _ => Verdict::Fine,
        },
        (_, "style") => {
            let value = value.to_ascii_lowercase();
            let loads = ["url(", "image(", "image-set(", "@import", "\\"].iter().any(|part| value.contains(part));
            Verdict::Harm(if loads { Harm::AutoLoading } else { Harm::ActiveContent })
        }
        (_, name) if LOADING_ATTRIBUTES.contains(&name) => Verdict::Harm(Harm::AutoLoading),
        (_, name) if ATTRIBUTES.contains(&name) || name.starts_with("aria-") => Verdict::Fine,
        (_, name) if name.starts_with("on") || name == "srcdoc" || name == "formaction" => {
            Verdict::Harm(Harm::ActiveContent)
        }
        _ => Verdict::Strange,
    }
}

impl Inventory {
    /// Reads the tags of a text. Whoever calls has asked [`is_too_complex`].
    pub fn of(text: &str, hosts: &Hosts) -> Inventory {
        let sink = Sink { reading: RefCell::new(Reading::new(hosts)) };
        let tokenizer = Tokenizer::new(sink, TokenizerOpts { discard_bom: false, ..TokenizerOpts::default() });
        let feed = |text: &str| {
            let input = BufferQueue::default();
            input.push_back(StrTendril::from(text));
            // A script does not run here: the tokenizer goes on behind it.
            while let html5ever::TokenizerResult::Script(()) = tokenizer.feed(&input) {}
        };
        feed(text);
        // Where this is no text of its own, what follows would not be either.
        tokenizer.sink.reading.borrow_mut().tail = false;
        feed("\nx");
        let ends_inside = {
            let reading = tokenizer.sink.reading.borrow();
            !reading.tail || reading.raw
        };
        tokenizer.sink.reading.borrow_mut().over = true;
        tokenizer.end();
        let mut reading = tokenizer.sink.reading.into_inner();
        reading.found.open_link = reading.link.as_ref().map(|(address, _)| address.clone());
        reading.end_link();
        Inventory { ends_inside, ..reading.found }
    }

    /// All that has to go.
    pub fn into_harms(self) -> Harms {
        let mut harms = self.harms;
        harms.more(Harm::ActiveContent, self.strange, None);
        harms
    }
}

struct Sink<'h> {
    reading: RefCell<Reading<'h>>,
}

struct Reading<'h> {
    hosts: &'h Hosts,
    found: Inventory,
    link: Option<(String, String)>,
    tags: u32,
    depth: u32,
    formatting: u32,
    repeated: u64,
    /// Inside an element whose content is raw text.
    raw: bool,
    /// Text came.
    tail: bool,
    /// What comes now is not the text's own, or is not needed.
    over: bool,
}

impl TokenSink for Sink<'_> {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut reading = self.reading.borrow_mut();
        if reading.over {
            return TokenSinkResult::Continue;
        }
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return reading.start(&tag),
            Token::TagToken(tag) => reading.end(&tag.name),
            Token::CharacterTokens(text) => {
                reading.tail = true;
                if !reading.raw {
                    reading.text(&text);
                }
            }
            Token::CommentToken(_) | Token::DoctypeToken(_) => reading.count(),
            Token::NullCharacterToken | Token::EOFToken | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

impl<'h> Reading<'h> {
    fn new(hosts: &'h Hosts) -> Self {
        Self {
            hosts,
            found: Inventory::default(),
            link: None,
            tags: 0,
            depth: 0,
            formatting: 0,
            repeated: 0,
            raw: false,
            tail: false,
            over: false,
        }
    }

    fn harm(&mut self, harm: Harm) {
        self.found.harms.add(harm, None);
        // Nobody asks for the rest.
        self.over |= harm == Harm::TooComplex;
    }

    fn count(&mut self) {
        self.tags += 1;
        if self.tags == MAX_TAGS {
            self.harm(Harm::TooComplex);
        }
    }

    fn block(&mut self) {
        let before = self.repeated;
        self.repeated += u64::from(self.formatting);
        if before <= MAX_REPEATED && self.repeated > MAX_REPEATED {
            self.harm(Harm::TooComplex);
        }
    }

    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        self.count();
        if FORMATTING.contains(&name) {
            self.formatting += 1;
        } else {
            self.block();
        }
        if !VOID.contains(&name) && !SELF_ENDING.contains(&name) {
            self.depth += 1;
            if self.depth == MAX_DEPTH {
                self.harm(Harm::TooComplex);
            }
        }
        match name {
            "bdo" => self.harm(Harm::BidiControl),
            _ if ELEMENTS.contains(&name) || FRAME.contains(&name) => {}
            _ if LOADING.contains(&name) => self.harm(Harm::AutoLoading),
            _ if ACTIVE.contains(&name) => self.harm(Harm::ActiveContent),
            _ => self.found.strange += 1,
        }
        for attr in &tag.attrs {
            self.attribute(name, &attr.name.local, &attr.value);
        }
        if name == "a" {
            self.end_link();
            let href = tag.attrs.iter().find(|attr| &*attr.name.local == "href");
            self.link = href.map(|attr| (attr.value.to_string(), String::new()));
        }
        self.raw_text(name)
    }

    fn attribute(&mut self, element: &str, name: &str, value: &str) {
        match attribute(element, name, value, self.hosts) {
            Verdict::Fine => {}
            Verdict::Strange => self.found.strange += 1,
            Verdict::Harm(harm) => {
                self.harm(harm);
                if harm == Harm::MisleadingLink {
                    self.found.misleading.insert(value.to_owned());
                }
            }
        }
        self.controls(value);
    }

    /// How the content of an element is read.
    fn raw_text(&mut self, name: &str) -> TokenSinkResult<()> {
        let kind = match name {
            "title" | "textarea" => RawKind::Rcdata,
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => RawKind::Rawtext,
            "script" => RawKind::ScriptData,
            "plaintext" => {
                self.raw = true;
                return TokenSinkResult::Plaintext;
            }
            _ => return TokenSinkResult::Continue,
        };
        self.raw = true;
        TokenSinkResult::RawData(kind)
    }

    fn end(&mut self, name: &str) {
        self.raw = false;
        self.count();
        match FORMATTING.contains(&name) {
            true => self.formatting = self.formatting.saturating_sub(1),
            false => self.block(),
        }
        if !VOID.contains(&name) && !SELF_ENDING.contains(&name) {
            self.depth = self.depth.saturating_sub(1);
        }
        if name == "a" {
            self.found.closes_link |= self.link.is_none();
            self.end_link();
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, shown)) = &mut self.link {
            shown.extend(text.chars().take(LINK_TEXT.saturating_sub(shown.len())));
        }
        self.controls(text);
    }

    fn controls(&mut self, text: &str) {
        for (control, _) in terminal::raw(text) {
            self.harm(harm_of(control));
        }
    }

    fn end_link(&mut self) {
        let Some((address, text)) = self.link.take() else { return };
        if says_otherwise(&address, &text) && self.found.misleading.insert(address) {
            self.harm(Harm::MisleadingLink);
        }
    }
}

/// Whether a link's text shows another host than its target.
pub fn says_otherwise(address: &str, text: &str) -> bool {
    link::shown(text).is_some_and(|shown| link::misleads(&shown, &link::read(address).target))
}

#[cfg(test)]
mod tests {
    use super::super::{Shown, tests::safe};
    use super::*;
    use std::time::Instant;

    fn clean(text: &str) -> String {
        safe(Shown::Html, text, &Hosts::default())
    }

    #[test]
    fn harmless_markup_keeps_its_bytes() {
        for text in [
            "<p class=x>a<br/>b <b>c</b></P>",
            "unclosed <p>one<p>two <li>three",
            "<A HREF='https://a.example/?a=1&b=2' rel=\"x\">a</A>",
            "a < b && c > d &amp; &notanentity",
            "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>t</title></head><body>x</body></html>",
            "<!-- a comment --><table border=1><tr><td align=right>1</table>",
            "<img alt=x src='data:image/png;base64,iVBORw0KGgo='>",
            "<a href=https://www.bank.com>bank.com</a> <a href='/x'>bank.com</a>",
            "<a href='mailto:me@bank.com'>me@bank.com</a>",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn what_has_to_go_goes() {
        let cases = [
            ("<p>a<script>alert(1)</script>b</p>", "<p>ab</p>"),
            ("<p onclick=x()>a</p>", "<p>a</p>"),
            ("<svg/onload=alert(1)>a", "a"),
            ("<iframe src=https://a.example></iframe>b", "b"),
            ("<form action=/x><input name=a>b</form>", "b"),
            ("<img src=https://a.example/t.gif alt=b>", "<img alt=\"b\">"),
            ("<img srcset='https://a.example/x 2x' alt=b>", "<img alt=\"b\">"),
            ("<p style='background:url(https://a.example)'>b</p>", "<p>b</p>"),
            ("<td background=https://a.example>b", "b"),
            ("<link rel=stylesheet href=https://a.example>b", "b"),
            ("<style>@import 'https://a.example'</style>b", "b"),
            ("<video poster=https://a.example/x>b</video>", "b"),
            ("<a href=\"java&#10;script:alert(1)\">b</a>", "<a>b</a>"),
            ("<a href='data:text/html,x'>b</a>", "<a>b</a>"),
            ("<a href=https://evil.com/x><b>bank</b>.com</a>", "<a><b>bank</b>.com</a>"),
            ("<a href=https://bank.com@evil.com>b</a>", "<a>b</a>"),
            ("<meta http-equiv=refresh content='0;url=https://a.example'>b", "b"),
            ("<p id=x name=y data-z=1>b</p>", "<p>b</p>"),
            ("<custom-thing>b</custom-thing>", "b"),
            ("a&#x202e;b\u{1b}[31m", "ab"),
            ("<bdo dir=rtl>abc</bdo>", "abc"),
            ("<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>b", "b"),
        ];
        for (text, wanted) in cases {
            assert_eq!(clean(text), wanted, "{text}");
        }
    }

    #[test]
    fn allowed_hosts_load() {
        let hosts = Hosts::new(&["img.example".to_owned()]);
        let text = "<img src=https://img.example/a.png alt=a>";
        assert_eq!(safe(Shown::Html, text, &hosts), text);
        let text = "<img src=https://img.example/a.png><img src=https://other.example/b.png>";
        assert_eq!(safe(Shown::Html, text, &hosts), "<img src=\"https://img.example/a.png\"><img>");
    }

    #[test]
    fn pieces_know_how_they_end() {
        let piece = |text: &str| Inventory::of(text, &Hosts::default());
        for text in ["<div title=\"x", "<!-- x", "<textarea>x", "<b", "<title>x"] {
            assert!(piece(text).ends_inside, "{text}");
        }
        for text in ["<div title=x>", "x", "<!-- x -->", "", "<b>x</b>", "<title>x</title>"] {
            assert!(!piece(text).ends_inside, "{text}");
        }
        assert_eq!(piece("<a href=/x>y").open_link.as_deref(), Some("/x"));
        assert!(piece("y</a>").closes_link && !piece("<a href=/x>y</a>").closes_link);
    }

    #[test]
    fn hostile_markup_is_refused_in_time() {
        let began = Instant::now();
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
            assert!(inspect(text, &Hosts::default()).count(Harm::TooComplex) > 0, "{}", &text[..20]);
        }
        // What is just within bounds is still taken apart.
        let within = [
            format!("{}<script>", "<div>".repeat(500)),
            format!("<table>{}<script>", "<b>x</b>".repeat(16_000)),
            format!("{}<script>", "<i x=\">".repeat(20)),
            format!("<p {}>", many(1000, &|n| format!("a{n} "))).repeat(30),
        ];
        for text in &within {
            assert!(!clean(text).contains("<script"));
        }
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }
}
