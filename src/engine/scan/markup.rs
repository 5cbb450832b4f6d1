//! Markup: what a text would do to whoever is shown it, and the same text without that.
//!
//! Place in the journey: whoever judges what people see asks [`inspect`] what stands in a text and, where something
//! has to go, [`sanitise`] for the text without it. Both read the text as its reader would: HTML by the parser of a
//! browser, Markdown by a CommonMark parser, plain text and terminals by their control sequences.
//!
//! Whether something has to go is decided by what matters (elements, attributes, addresses, controls), not by
//! comparing bytes: a sanitiser normalises harmless markup too, and harmless markup stands as it is.
//!
//! A text is read twice: as it stands, and without the characters that nobody sees (controls, marks of direction,
//! characters of no width), because a reader, or whoever cleans the text, may leave them out, and what they hold apart
//! joins then.
//!
//! Invariants: [`sanitise`] gives a text in which [`inspect`] finds nothing of what was to go, so that a second pass
//! changes nothing: it goes on until that is so, and a text that yields something new [`PASSES`] times is shown as
//! its own source. It may arm what was not to go: whoever asks for only some kinds inspects what comes out. Work is bounded: [`Harm::TooComplex`] is said before a parser that would not end in time is asked.
//!
//! Left out: style sheets (every one goes, because a property can hide, cover or load), and what a reader's own
//! program makes of plain words, such as links in bare addresses.

pub mod html;
pub mod link;
pub mod markdown;

use super::terminal::{self, Control};
use html::Inventory;
use link::Hosts;
use std::ops::Range;

/// Times that a text is taken apart before it is shown as its source.
const PASSES: usize = 12;

/// What a text can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Harm {
    /// An element or attribute that runs, submits, embeds, restyles or collides with the page.
    ActiveContent,
    /// Something that is loaded when the text is shown.
    AutoLoading,
    /// An address that runs code, reads files, or is none.
    DangerousLink,
    /// A link that says that it leads elsewhere than it does.
    MisleadingLink,
    /// A control sequence of terminals.
    TerminalEscape,
    /// A character that turns the order of a line.
    BidiControl,
    /// Markup that would do one of the above if plain text were taken for HTML.
    RawHtml,
    /// More than a parser can be asked to take apart.
    TooComplex,
}

impl Harm {
    pub const ALL: [Harm; 8] = [
        Harm::ActiveContent,
        Harm::AutoLoading,
        Harm::DangerousLink,
        Harm::MisleadingLink,
        Harm::TerminalEscape,
        Harm::BidiControl,
        Harm::RawHtml,
        Harm::TooComplex,
    ];
}

/// Kinds of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HarmSet(u8);

impl HarmSet {
    pub const ALL: HarmSet = HarmSet(u8::MAX);
    pub fn add(&mut self, harm: Harm) {
        self.0 |= 1 << harm as u8;
    }
    pub fn has(self, harm: Harm) -> bool {
        self.0 & (1 << harm as u8) != 0
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn with(self, other: HarmSet) -> HarmSet {
        HarmSet(self.0 | other.0)
    }
    pub fn without(self, other: HarmSet) -> HarmSet {
        HarmSet(self.0 & !other.0)
    }
    fn meets(self, other: HarmSet) -> bool {
        self.0 & other.0 != 0
    }
}

/// What was found: how often of each kind, and where the first of it stands, if that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Harms {
    counts: [u64; 8],
    first: [Option<(usize, usize)>; 8],
}

impl Harms {
    pub fn add(&mut self, harm: Harm, at: Option<Range<usize>>) {
        self.more(harm, 1, at.map(|range| (range.start, range.end)));
    }
    pub fn count(&self, harm: Harm) -> u64 {
        self.counts.get(harm as usize).copied().unwrap_or_default()
    }
    pub fn first(&self, harm: Harm) -> Option<(usize, usize)> {
        self.first.get(harm as usize).copied().flatten()
    }
    pub fn kinds(&self) -> HarmSet {
        let mut kinds = HarmSet::default();
        Harm::ALL.into_iter().filter(|harm| self.count(*harm) > 0).for_each(|harm| kinds.add(harm));
        kinds
    }
    /// Takes over what was found in a part of this text.
    pub fn merge(&mut self, part: &Harms, at: &Range<usize>) {
        let place = Some((at.start, at.end));
        Harm::ALL.into_iter().for_each(|harm| self.more(harm, part.count(harm), place));
    }
    /// Takes over what another reading of this text found of one kind.
    pub fn take(&mut self, harm: Harm, other: &Harms) {
        self.more(harm, other.count(harm), other.first(harm));
    }
    /// Takes over the kinds that only a reading of a changed text found: they have no place in this one.
    fn join(&mut self, other: &Harms) {
        for harm in Harm::ALL {
            if self.count(harm) == 0 {
                self.more(harm, other.count(harm), None);
            }
        }
    }
    fn more(&mut self, harm: Harm, found: u64, at: Option<(usize, usize)>) {
        let ix = harm as usize;
        if let (Some(count), Some(first)) = (self.counts.get_mut(ix), self.first.get_mut(ix)) {
            if *count == 0 && found > 0 {
                *first = at;
            }
            *count += found;
        }
    }
}

/// How a text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Html,
    Markdown,
    Text,
    Terminal,
}

/// What the text would do, as it stands or without what nobody sees.
pub fn inspect(shown: Shown, text: &str, hosts: &Hosts) -> Harms {
    let mut harms = look(shown, text, hosts);
    if harms.count(Harm::TooComplex) == 0
        && let Some(bare) = bare(text)
    {
        harms.join(&look(shown, &bare, hosts));
    }
    harms
}

/// The text without the characters that nobody sees, if it has any.
fn bare(text: &str) -> Option<String> {
    let plain = terminal::without_raw(text, true, true);
    let out = match plain.is_ascii() {
        true => plain,
        false => plain.chars().filter(|c| !link::is_invisible(*c)).collect(),
    };
    (out.len() < text.len()).then_some(out)
}

fn look(shown: Shown, text: &str, hosts: &Hosts) -> Harms {
    match shown {
        Shown::Html => html::inspect(text, hosts),
        Shown::Markdown => markdown::inspect(text, hosts),
        Shown::Text => {
            let mut harms = controls(text);
            if let Some(at) = raw_html(text, hosts) {
                harms.add(Harm::RawHtml, Some(at));
            }
            harms
        }
        Shown::Terminal => controls(text),
    }
}

/// The text without what is in `remove`. Nothing of [`Harm::TooComplex`] is taken apart: it is shown as its source.
pub fn sanitise(shown: Shown, text: &str, hosts: &Hosts, remove: HarmSet) -> String {
    settle(shown, text, hosts, remove).0
}

/// Like [`sanitise`], with what the text that came out would do: nothing of `remove`, but what was inert may be armed.
pub fn settle(shown: Shown, text: &str, hosts: &Hosts, remove: HarmSet) -> (String, Harms) {
    let mut out = text.to_owned();
    for _ in 0..PASSES {
        let mut harms = look(shown, &out, hosts);
        if harms.count(Harm::TooComplex) > 0 {
            break;
        }
        if harms.kinds().meets(remove) {
            out = once(shown, &out, hosts, remove);
            continue;
        }
        let Some(bare) = bare(&out) else { return (out, harms) };
        let joined = look(shown, &bare, hosts);
        if joined.count(Harm::TooComplex) == 0 && !joined.kinds().meets(remove) {
            harms.join(&joined);
            return (out, harms);
        }
        out = bare;
    }
    (source(shown, text), Harms::default())
}

fn once(shown: Shown, text: &str, hosts: &Hosts, remove: HarmSet) -> String {
    match shown {
        Shown::Html => html::sanitise(text, hosts, remove),
        Shown::Markdown => markdown::sanitise(text, hosts, remove),
        Shown::Text | Shown::Terminal => {
            let mut out = without_controls(text, remove);
            if remove.has(Harm::TerminalEscape) {
                out = terminal::without_spelled(&out);
            }
            match shown == Shown::Text && remove.has(Harm::RawHtml) && raw_html(&out, hosts).is_some() {
                true => without_tags(&out),
                false => out,
            }
        }
    }
}

/// The text as its own source, which does nothing.
fn source(shown: Shown, text: &str) -> String {
    let plain = bare(text).unwrap_or_else(|| text.to_owned());
    match shown {
        Shown::Html => escaped(&plain),
        Shown::Markdown => {
            let longest = plain.split(|c| c != '`').map(str::len).max().unwrap_or_default();
            let fence = "`".repeat(longest.max(2) + 1);
            format!("{fence}\n{plain}\n{fence}\n")
        }
        Shown::Text | Shown::Terminal => without_tags(&terminal::without_spelled(&plain)),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Control sequences and bidi controls, raw and spelled.
fn controls(text: &str) -> Harms {
    let mut harms = raw_controls(text);
    for range in terminal::spelled(text) {
        harms.add(Harm::TerminalEscape, Some(range));
    }
    harms
}

fn raw_controls(text: &str) -> Harms {
    let mut harms = Harms::default();
    for (control, range) in terminal::raw(text) {
        harms.add(harm_of(control), Some(range));
    }
    harms
}

fn harm_of(control: Control) -> Harm {
    match control {
        Control::Escape => Harm::TerminalEscape,
        Control::Bidi => Harm::BidiControl,
    }
}

fn without_controls(text: &str, remove: HarmSet) -> String {
    terminal::without_raw(text, remove.has(Harm::TerminalEscape), remove.has(Harm::BidiControl))
}

/// The first tag of a plain text that does something where the text is taken for HTML.
fn raw_html(text: &str, hosts: &Hosts) -> Option<Range<usize>> {
    let first = tags(text).next()?;
    // Words for what a command takes, and as tags without an attribute nothing that sends or loads.
    let read = text.replace("<form>", " ").replace("<input>", " ");
    let does_harm = html::is_too_complex(text) || {
        let Inventory { harms, .. } = Inventory::of(&read, hosts);
        let known = [Harm::ActiveContent, Harm::AutoLoading, Harm::DangerousLink, Harm::TooComplex];
        known.into_iter().any(|harm| harms.count(harm) > 0)
    };
    does_harm.then(|| first..first + 1)
}

/// Where tags, comments and declarations open.
fn tags(text: &str) -> impl Iterator<Item = usize> + '_ {
    let opens = |at: usize| text.as_bytes().get(at + 1).is_some_and(|b| b.is_ascii_alphabetic() || b"/!?".contains(b));
    text.match_indices('<').map(|(at, _)| at).filter(move |at| opens(*at))
}

fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for tag in tags(text) {
        out.push_str(text.get(at..tag).unwrap_or_default());
        out.push_str("&lt;");
        at = tag + 1;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sanitised text, checked to be as harmless as it should be and to sanitise to itself.
    pub(super) fn safe(shown: Shown, text: &str, hosts: &Hosts) -> String {
        let harms = inspect(shown, text, hosts);
        let out = sanitise(shown, text, hosts, HarmSet::ALL);
        assert_eq!(harms.kinds().is_empty(), out == text, "{text:?} became {out:?}, {harms:?}");
        assert!(inspect(shown, &out, hosts).kinds().is_empty(), "{out:?}: {:?}", inspect(shown, &out, hosts));
        assert_eq!(sanitise(shown, &out, hosts, HarmSet::ALL), out);
        out
    }

    #[test]
    fn plain_text() {
        let hosts = Hosts::default();
        let cases = [
            ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
            ("a <img src=https://a.example/x> b", "a &lt;img src=https://a.example/x> b"),
            ("\u{1b}[1mbold\u{1b}[0m \\x1b[31m", "bold ␛"),
            ("a\u{202e}b", "ab"),
            (
                "<form><input type=image src=https://a.example/x>",
                "&lt;form>&lt;input type=image src=https://a.example/x>",
            ),
            ("<form> <scr<form>ipt>", "<form> <scr<form>ipt>"),
        ];
        for (text, wanted) in cases {
            assert_eq!(safe(Shown::Text, text, &hosts), wanted);
        }
        for text in [
            "if a < b && b > c",
            "Vec<String> and <T>",
            "<b>bold</b>",
            "a <-- b",
            "usage: foo <form> <input>",
            "<thinking>no</thinking>",
        ] {
            assert_eq!(safe(Shown::Text, text, &hosts), text);
        }
        assert_eq!(safe(Shown::Terminal, "<script> \u{1b}]8;;https://a.example\u{7}b", &hosts), "<script> b");
    }

    #[test]
    fn only_what_was_asked_for_is_removed() {
        let mut remove = HarmSet::default();
        remove.add(Harm::BidiControl);
        let text = "\u{1b}[1ma\u{202e}b";
        assert_eq!(sanitise(Shown::Terminal, text, &Hosts::default(), remove), "\u{1b}[1mab");
    }

    #[test]
    fn a_source_does_nothing() {
        let hosts = Hosts::default();
        let text = "```\n![x](https://a.example/x)\n<script>`````\u{1b}[1m";
        for shown in [Shown::Html, Shown::Markdown, Shown::Text, Shown::Terminal] {
            let out = source(shown, text);
            assert!(inspect(shown, &out, &hosts).kinds().is_empty(), "{shown:?} {out:?}");
        }
    }
}
