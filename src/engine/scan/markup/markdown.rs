//! Markdown: read by a CommonMark parser, and changed in its source where something has to go.
//!
//! A picture becomes its alternative text, a link its text, a tag nothing, an HTML block its sanitised form. The
//! rest of the source stays as it is, byte for byte.
//!
//! Readers differ in what they support, and what is code to one is a picture to another (a bar in a code span ends
//! the cell of a table). So the text is read twice, plain and with GitHub's extensions, and both must find nothing.
//!
//! Left out: extensions that hide (mathematics, front matter): where they are not supported, what stands in them is
//! shown, so it is read.

use super::html::{self, Inventory, LINK_TEXT, says_otherwise};
use super::link::{self, Hosts, Target};
use super::{Harm, HarmSet, Harms, harm_of, raw_controls, without_controls};
use crate::engine::scan::terminal;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// What the text would do.
pub fn inspect(text: &str, hosts: &Hosts) -> Harms {
    let [plain, extended] = dialects();
    let mut harms = read(text, extended, hosts, HarmSet::default()).harms;
    let other = read(text, plain, hosts, HarmSet::default()).harms;
    // What both find counts once.
    for harm in Harm::ALL {
        if harms.count(harm) == 0 {
            harms.take(harm, &other);
        }
    }
    let raw = raw_controls(text);
    [Harm::TerminalEscape, Harm::BidiControl].into_iter().for_each(|harm| harms.take(harm, &raw));
    harms
}

/// The text without what is in `remove`, as far as one pass goes.
pub fn sanitise(text: &str, hosts: &Hosts, remove: HarmSet) -> String {
    let plain = without_controls(text, remove);
    for options in dialects() {
        let edits = read(&plain, options, hosts, remove).edits;
        if !edits.is_empty() {
            return apply(&plain, edits);
        }
    }
    plain
}

fn dialects() -> [Options; 2] {
    let github = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM;
    [Options::empty(), github]
}

fn apply(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, with) in edits {
        if range.start < at {
            continue;
        }
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(&with);
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// One reading of a text.
struct Reading<'a> {
    source: &'a str,
    hosts: &'a Hosts,
    remove: HarmSet,
    harms: Harms,
    edits: Vec<(Range<usize>, String)>,
    /// Links and pictures around the place that is being read.
    open: Vec<Open>,
    /// A link that was opened by a tag: where the tag stands, its address, the text since.
    by_tag: Option<(Range<usize>, String, String)>,
    /// An HTML block: where it stands, and its lines.
    block: Option<(Range<usize>, String)>,
}

struct Open {
    is_picture: bool,
    range: Range<usize>,
    address: String,
    /// What stands between its brackets.
    inner: Option<Range<usize>>,
    text: String,
}

fn read<'a>(source: &'a str, options: Options, hosts: &'a Hosts, remove: HarmSet) -> Reading<'a> {
    let mut reading = Reading {
        source,
        hosts,
        remove,
        harms: Harms::default(),
        edits: Vec::new(),
        open: Vec::new(),
        by_tag: None,
        block: None,
    };
    for (event, range) in Parser::new_ext(source, options).into_offset_iter() {
        reading.event(event, range);
    }
    reading.end_tag_link();
    reading
}

impl Reading<'_> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        if !matches!(event, Event::End(_))
            && let Some(open) = self.open.last_mut()
        {
            let inner = open.inner.get_or_insert(range.clone());
            *inner = inner.start.min(range.start)..inner.end.max(range.end);
        }
        match event {
            Event::Start(Tag::Link { link_type, dest_url, .. }) => self.begin(false, range, link_type, &dest_url),
            Event::Start(Tag::Image { link_type, dest_url, .. }) => self.begin(true, range, link_type, &dest_url),
            Event::End(TagEnd::Link | TagEnd::Image) => self.finish(),
            Event::Start(Tag::HtmlBlock) => self.block = Some((range, String::new())),
            Event::End(TagEnd::HtmlBlock) => self.html_block(),
            Event::Html(html) => match &mut self.block {
                Some((_, block)) => block.push_str(&html),
                None => self.inline_html(&html, range),
            },
            Event::InlineHtml(html) => self.inline_html(&html, range),
            Event::Text(text) | Event::Code(text) => self.text(&text, range),
            Event::SoftBreak | Event::HardBreak => self.said(" "),
            _ => {}
        }
    }

    fn begin(&mut self, is_picture: bool, mut range: Range<usize>, kind: LinkType, address: &str) {
        // The parser leaves the empty brackets of `[text][]` out.
        if kind == LinkType::Collapsed && self.source.get(range.end..).is_some_and(|rest| rest.starts_with("[]")) {
            range.end += 2;
        }
        self.open.push(Open { is_picture, range, address: address.to_owned(), inner: None, text: String::new() });
    }

    fn said(&mut self, text: &str) {
        let tag = self.by_tag.as_mut().map(|(_, _, said)| said);
        for said in self.open.last_mut().map(|open| &mut open.text).into_iter().chain(tag) {
            said.extend(text.chars().take(LINK_TEXT.saturating_sub(said.len())));
        }
    }

    fn text(&mut self, text: &str, range: Range<usize>) {
        self.said(text);
        // Raw ones are found in the source; these are spelled as entities.
        let entity = self.source.get(range.clone()).is_some_and(|source| source.starts_with('&'));
        let controls = if entity { terminal::raw(text) } else { Vec::new() };
        for (control, _) in &controls {
            self.harms.add(harm_of(*control), Some(range.clone()));
        }
        if controls.iter().any(|(control, _)| self.remove.has(harm_of(*control))) {
            self.edits.push((range, without_controls(text, self.remove)));
        }
    }

    fn finish(&mut self) {
        let Some(open) = self.open.pop() else { return };
        if let Some(around) = self.open.last_mut() {
            around.text.extend(open.text.chars().take(LINK_TEXT.saturating_sub(around.text.len())));
        }
        let link = link::read(&open.address);
        let harm = match (open.is_picture, &link.target) {
            (true, Target::Inline) => None,
            (true, Target::Host(host)) if self.hosts.allow(host) => None,
            (true, _) => Some(Harm::AutoLoading),
            (false, Target::Dangerous | Target::Inline) => Some(Harm::DangerousLink),
            (false, _) if link.disguised || says_otherwise(&open.address, &open.text) => Some(Harm::MisleadingLink),
            (false, _) => None,
        };
        let Some(harm) = harm else { return };
        self.harms.add(harm, Some(open.range.clone()));
        if self.remove.has(harm) {
            match open.inner {
                Some(inner) => {
                    self.edits.push((open.range.start..inner.start, String::new()));
                    self.edits.push((inner.end..open.range.end, String::new()));
                }
                None => self.edits.push((open.range, String::new())),
            }
        }
    }

    fn inline_html(&mut self, html: &str, range: Range<usize>) {
        let Some(found) = self.inventory(html, &range) else { return };
        if found.closes_link || found.open_link.is_some() {
            self.end_tag_link();
        }
        if self.has_to_go(&found) {
            self.edits.push((range.clone(), String::new()));
        } else if let Some(address) = found.open_link.clone() {
            self.by_tag = Some((range.clone(), address, String::new()));
        }
        self.count(found, &range);
    }

    fn html_block(&mut self) {
        let Some((range, html)) = self.block.take() else { return };
        let Some(found) = self.inventory(&html, &range) else { return };
        if self.has_to_go(&found) {
            let mut safe = html::sanitise(&html, self.hosts, self.remove);
            // Inside a quote or a list, every further line would need its mark.
            if self.source.get(range.clone()) != Some(html.as_str()) {
                safe = safe.trim_end().replace('\n', " ");
            }
            if html.ends_with('\n') && !safe.ends_with('\n') {
                safe.push('\n');
            }
            self.edits.push((range.clone(), safe));
        }
        self.count(found, &range);
    }

    /// What the HTML holds; `None` where nobody can tell in time.
    fn inventory(&mut self, html: &str, range: &Range<usize>) -> Option<Inventory> {
        if html::is_too_complex(html) {
            self.harms.add(Harm::TooComplex, Some(range.clone()));
            return None;
        }
        Some(Inventory::of(html, self.hosts))
    }

    fn has_to_go(&self, found: &Inventory) -> bool {
        let unlisted = found.strange > 0 || found.ends_inside;
        let kinds = found.harms.kinds();
        unlisted && self.remove.has(Harm::ActiveContent)
            || Harm::ALL.into_iter().any(|harm| kinds.has(harm) && self.remove.has(harm))
    }

    fn count(&mut self, found: Inventory, range: &Range<usize>) {
        if found.ends_inside {
            self.harms.add(Harm::ActiveContent, Some(range.clone()));
        }
        self.harms.merge(&found.into_harms(), range);
    }

    fn end_tag_link(&mut self) {
        let Some((range, address, text)) = self.by_tag.take() else { return };
        if says_otherwise(&address, &text) {
            self.harms.add(Harm::MisleadingLink, Some(range.clone()));
            if self.remove.has(Harm::MisleadingLink) {
                self.edits.push((range, String::new()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Shown, tests::safe};
    use super::*;

    fn clean(text: &str) -> String {
        safe(Shown::Markdown, text, &Hosts::default())
    }

    #[test]
    fn harmless_text_keeps_its_bytes() {
        for text in [
            "# Title\n\n* one\n* [two](https://a.example/x \"t\")\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
            "`![x](https://a.example)` and\n\n    <script>\n\n```html\n<img src=x>\n```\n",
            "a<br>b <sub>2</sub> <!-- note -->\n\n<details>\n<summary>x</summary>\n\ntext\n\n</details>\n",
            "[bank.com](https://www.bank.com) <https://a.example> <me@bank.com> [x][y]\n\n[y]: https://a.example\n",
            "1 < 2 \\![x](y)",
            "![x](data:image/png;base64,iVBORw0KGgo=)",
            r"echo -e '\x1b[31m'",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn what_has_to_go_goes_and_the_text_stays() {
        let cases = [
            ("a ![b *c*](https://x.example/?q=1) d", "a b *c* d"),
            ("![](https://x.example)", ""),
            ("![b][r] ![r][] ![r]\n\n[r]: https://x.example\n", "b r r\n\n[r]: https://x.example\n"),
            ("![a ![b](https://x.example) c](https://y.example)", "a b c"),
            ("[![b](https://x.example)](https://y.example)", "[b](https://y.example)"),
            ("[b](javascript:alert(1))", "b"),
            ("[b](java&#115;cript&colon;alert(1))", "b"),
            ("[b](<\u{1}javascript:x>)", "b"),
            ("[b](data:text/html,x) [c](file:///x) <vbscript:x>", "b c vbscript:x"),
            ("[bank.com](https://evil.com)", "bank.com"),
            ("[**bank**.com](https://evil.com) [x](https://a@evil.com)", "**bank**.com x"),
            ("<a href=https://evil.com>bank.com</a>", "bank.com</a>"),
            ("a <script>b</script> c", "a b</script> c"),
            ("a <b onclick=x>b</b>", "a b</b>"),
            ("a <img src=https://x.example> c", "a  c"),
            ("<div onclick=x>b</div>\n\nc", "<div>b</div>\n\nc"),
            ("<script>\nx\n</script>\nc", "\nc"),
            ("> <script>\n> x\n> </script>\nc", "> \nc"),
            ("a&#x202e;b \u{202e}\u{1b}[1mc", "ab c"),
        ];
        for (text, wanted) in cases {
            assert_eq!(clean(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_one_reader_takes_for_code_another_shows() {
        let text = "| a | b |\n|---|---|\n| `x | ![y](https://x.example) ` |\n";
        assert!(!clean(text).contains("![y]"));
        let text = "$a ![y](https://x.example) $";
        assert_eq!(clean(text), "$a y $");
    }

    #[test]
    fn what_is_taken_apart_does_not_join_anew() {
        for text in [
            "![![a](https://x.example)](https://y.example)![b](z)](https://w.example)",
            "[![[a](javascript:x)](https://x.example)](javascript:y)",
            "<scr<script>ipt>alert(1)</script>",
            "<div><scr<script></script>ipt>x</div>",
            "![a]<script>(https://x.example)",
            "!<script></script>[a](https://x.example)",
            "<div title=\"\n\n\"><img src=x onerror=y>",
        ] {
            clean(text);
        }
    }
}
