//! HTML: what its tags are, and the same without those that are not on the list.
//!
//! Two readers of one standard: html5ever's tokenizer says which tags, attributes and addresses stand in a text, and
//! ammonia, which is built on the same tokenizer, makes the text without what is not allowed. If every token is on
//! the list nothing has to go, because none of the elements on it changes how what follows is read (no raw text, no
//! foreign content, no tables of states): what the tokens say is what a browser builds. Comments and a document's
//! frame (`html`, `head`, `title`) do nothing and stand.
//!
//! Invariant: both use `attribute`, so what ammonia leaves is what the inventory finds harmless.
//!
//! Bounds, each for a cost that grows faster than the text: attributes of one tag (compared pairwise), open elements
//! (searched for every tag), open formatting (repeated in every paragraph), tags (moved one by one out of tables).

mod allowed;

pub use allowed::is_too_complex;

use super::link::{self, Hosts};
use super::{Harm, HarmSet, Harms, harm_of, raw_controls, without_controls};
use crate::engine::scan::terminal;
use allowed::{
    ACTIVE, ATTRIBUTES, ELEMENTS, FORMATTING, FRAME, LOADING, SELF_ENDING, VOID, Verdict, WITH_CONTENT, attribute,
};
use ammonia::Builder;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

const MAX_DEPTH: u32 = 512;
const MAX_TAGS: u32 = 1 << 15;
const MAX_REPEATED: u64 = 1 << 18;
/// Bytes of a link's text that are read.
pub const LINK_TEXT: usize = 512;

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
    let mut harms = Inventory::of(text, hosts).into_harms();
    // Also where it is no text for a browser: in titles, comments and raw text.
    let raw = raw_controls(text);
    for harm in [Harm::TerminalEscape, Harm::BidiControl] {
        if harms.count(harm) == 0 {
            harms.take(harm, &raw);
        }
    }
    harms
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

impl Inventory {
    /// Reads the tags of a text. Whoever calls has asked [`is_too_complex`].
    ///
    /// What stands in a `noscript` is raw text for a browser that runs scripts and markup for one that does not; a
    /// text that holds one is read both ways.
    pub fn of(text: &str, hosts: &Hosts) -> Inventory {
        Inventory::of_tag(text, hosts).unwrap_or_else(|| Inventory::of_text(text, hosts))
    }

    /// One tag that is a name and nothing else. In Markdown every tag is a text of its own, and making a tokenizer for
    /// five bytes costs a hundred times what reading them does.
    fn of_tag(text: &str, hosts: &Hosts) -> Option<Inventory> {
        const LONGEST: usize = 32;
        let inner = text.strip_prefix('<')?.strip_suffix('>')?;
        let (name, closes) = inner.strip_prefix('/').map_or((inner, false), |name| (name, true));
        let plain = name.len() <= LONGEST && name.bytes().all(|b| b.is_ascii_alphanumeric());
        if !plain || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.eq_ignore_ascii_case("noscript") {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let mut reading = Reading::new(hosts, false);
        match closes {
            true => reading.end(&name),
            false => {
                let (kind, name) = (TagKind::StartTag, name.into());
                let (self_closing, attrs, had_duplicate_attributes) = (false, Vec::new(), false);
                let tag = Tag { kind, name, self_closing, attrs, had_duplicate_attributes };
                let _: TokenSinkResult<()> = reading.start(&tag);
            }
        }
        Some(Inventory { ends_inside: reading.raw, ..reading.found })
    }

    fn of_text(text: &str, hosts: &Hosts) -> Inventory {
        let (mut found, has_noscript) = Inventory::read(text, hosts, false);
        if has_noscript {
            let (other, _) = Inventory::read(text, hosts, true);
            for harm in Harm::ALL {
                if found.harms.count(harm) == 0 {
                    found.harms.take(harm, &other.harms);
                }
            }
            found.strange = found.strange.max(other.strange);
            found.misleading.extend(other.misleading);
            found.ends_inside |= other.ends_inside;
            found.open_link = found.open_link.or(other.open_link);
            found.closes_link |= other.closes_link;
        }
        found
    }

    fn read(text: &str, hosts: &Hosts, scripting: bool) -> (Inventory, bool) {
        #[cfg(test)]
        tests::READ.with(|read| read.set(read.get() + 1));
        let sink = Sink { reading: RefCell::new(Reading::new(hosts, scripting)) };
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
        (Inventory { ends_inside, ..reading.found }, reading.has_noscript)
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
    /// Scripts run, so that the content of `noscript` is raw text.
    scripting: bool,
    has_noscript: bool,
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
    fn new(hosts: &'h Hosts, scripting: bool) -> Self {
        Self {
            hosts,
            found: Inventory::default(),
            link: None,
            tags: 0,
            depth: 0,
            formatting: 0,
            repeated: 0,
            scripting,
            has_noscript: false,
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
        self.has_noscript |= name == "noscript";
        let kind = match name {
            "noscript" if self.scripting => RawKind::Rawtext,
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
    use std::cell::Cell;

    thread_local! {
        /// Texts that a tokenizer was made for.
        pub(super) static READ: Cell<u32> = const { Cell::new(0) };
    }

    /// A tag by itself is what the tokenizer makes of it.
    #[test]
    fn a_tag_by_itself_is_read_alike() {
        let raw = ["title", "textarea", "style", "xmp", "iframe", "noembed", "noframes", "script", "plaintext"];
        let all = [ELEMENTS, ACTIVE, FORMATTING, FRAME, LOADING, SELF_ENDING, VOID, WITH_CONTENT];
        let names = all.iter().flat_map(|names| names.iter().copied()).chain(raw).chain(["x1", "SVG", "Script", "bdo"]);
        let hosts = Hosts::default();
        for text in names.flat_map(|name| [format!("<{name}>"), format!("</{name}>")]) {
            let quick = Inventory::of_tag(&text, &hosts);
            let slow = Inventory::of_text(&text, &hosts);
            assert!(quick.is_none_or(|quick| format!("{quick:?}") == format!("{slow:?}")), "{text} {slow:?}");
        }
        for text in ["<a b>", "<1>", "</>", "<>", "<!-->", "<noscript>", "<x-y>", "<b/>", "<b"] {
            assert!(Inventory::of_tag(text, &hosts).is_none(), "{text}");
        }
    }

    /// Markdown made of tags costs no tokenizer for each.
    #[test]
    fn many_tags_need_no_tokenizer() {
        let hosts = Hosts::default();
        for text in ["<svg>", "</svg>", "<b>", "<script>"] {
            READ.with(|read| read.set(0));
            super::super::inspect(Shown::Markdown, &format!("a {}", text.repeat(1000)), &hosts);
            super::super::sanitise(Shown::Markdown, &format!("a {}", text.repeat(1000)), &hosts, HarmSet::ALL);
            assert!(READ.with(Cell::get) < 10, "{text}: {}", READ.with(Cell::get));
        }
    }

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
    fn a_noscript_is_read_in_both_ways() {
        for text in [
            "<noscript><!--</noscript><img src=https://a.example>-->",
            "<noscript><img src=https://a.example></noscript>",
            "<noscript><title></noscript><img src=https://a.example></title>",
        ] {
            assert!(inspect(text, &Hosts::default()).count(Harm::AutoLoading) > 0, "{text}");
            assert!(!clean(text).contains("src"), "{text}");
        }
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
}
