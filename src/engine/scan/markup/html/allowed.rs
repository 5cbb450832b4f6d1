//! What HTML may hold: elements, attributes and addresses, and how many attributes a tag may have.

use super::super::Harm;
use super::super::link::{self, Hosts, Target};

/// Attributes of one tag.
const MAX_ATTRIBUTES: u32 = 1024;

/// Elements that may stand.
pub(super) const ELEMENTS: &[&str] = &[
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
pub(super) const FRAME: &[&str] = &["body", "head", "html", "meta", "title"];
/// Elements that load something by being there.
pub(super) const LOADING: &[&str] = &["audio", "bgsound", "embed", "image", "link", "source", "track", "video"];
/// Elements that run, submit, embed, restyle, or change how what follows is read.
pub(super) const ACTIVE: &[&str] = &[
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
pub(super) const WITH_CONTENT: &[&str] =
    &["script", "style", "title", "template", "iframe", "noembed", "noframes", "noscript", "xmp", "portal"];
/// Attributes that may stand on any element; `aria-*` too.
pub(super) const ATTRIBUTES: &[&str] = &[
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
pub(super) const LOADING_ATTRIBUTES: &[&str] =
    &["background", "dynsrc", "imagesrcset", "longdesc", "lowsrc", "manifest", "ping", "poster", "srcset"];
/// Elements that the parser closes by itself.
pub(super) const SELF_ENDING: &[&str] = &[
    "p", "li", "dd", "dt", "tr", "td", "th", "tbody", "thead", "tfoot", "rp", "rt", "rb", "rtc", "caption", "col",
    "colgroup", "body", "head", "html", "option",
];
pub(super) const VOID: &[&str] =
    &["area", "base", "br", "col", "embed", "hr", "img", "image", "input", "link", "meta", "source", "track", "wbr"];
/// Elements that are opened again in every block behind the one that they were left open in.
pub(super) const FORMATTING: &[&str] =
    &["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u", "abbr"];

/// What an attribute of an allowed element is.
pub(super) enum Verdict {
    Fine,
    /// Not on the list.
    Strange,
    Harm(Harm),
}

pub(super) fn attribute(element: &str, name: &str, value: &str, hosts: &Hosts) -> Verdict {
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
