//! Text that a person who reviews it does not see, and a model reads.
//!
//! Characters of no width, of the tag block and of direction, variation selectors that carry bytes, comments of
//! HTML, terminal escapes, and text behind so much white space that no window shows it. What scripts need is
//! not hidden: a joiner between letters of Indic or Arabic scripts or within an emoji, one selector behind a
//! character that has variants. (Shapes: `provider-formats` §12, item 4.)

use memchr::memmem;

/// What hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hidden {
    TagCharacters,
    ZeroWidth,
    Bidi,
    VariationSelectors,
    HtmlComment,
    TerminalEscape,
    Whitespace,
}

impl Hidden {
    pub fn label(self) -> &'static str {
        match self {
            Hidden::TagCharacters => "tag_characters",
            Hidden::ZeroWidth => "zero_width",
            Hidden::Bidi => "bidi",
            Hidden::VariationSelectors => "variation_selectors",
            Hidden::HtmlComment => "html_comment",
            Hidden::TerminalEscape => "terminal_escape",
            Hidden::Whitespace => "whitespace",
        }
    }
}

/// White space, without letters between, behind which nobody looks: bytes, and lines.
const WIDE: usize = 120;
const LINES: usize = 12;

/// Every hidden range of a text (WTF-8), in order of its beginning.
pub fn find(text: &[u8]) -> Vec<(Hidden, usize, usize)> {
    let mut found = Vec::new();
    comments(text, &mut found);
    spaces(text, &mut found);
    if !text.is_ascii() || text.contains(&0x1b) {
        characters(text, &mut found);
    }
    found.sort_by_key(|(_, start, _)| *start);
    found
}

fn comments(text: &[u8], found: &mut Vec<(Hidden, usize, usize)>) {
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| memmem::find(rest, b"<!--")).map(|start| at + start) {
        let end = text.get(start..).and_then(|rest| memmem::find(rest, b"-->"));
        let end = end.map_or(text.len(), |end| start + end + 3);
        found.push((Hidden::HtmlComment, start, end));
        at = end.max(start + 4);
    }
}

fn spaces(text: &[u8], found: &mut Vec<(Hidden, usize, usize)>) {
    let mut at = 0;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let run = rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(rest.len());
        let lines = rest.iter().take(run).filter(|b| **b == b'\n').count();
        // What nothing follows hides nothing.
        if (run >= WIDE || lines >= LINES) && run < rest.len() {
            found.push((Hidden::Whitespace, at, at + run));
        }
        let next = rest.iter().skip(run).position(u8::is_ascii_whitespace).map_or(rest.len(), |word| run + word);
        at += next.max(1);
    }
}

fn characters(text: &[u8], found: &mut Vec<(Hidden, usize, usize)>) {
    let mut before: Option<char> = None;
    let mut start = 0;
    let first = found.len();
    for chunk in text.utf8_chunks() {
        let mut chars = chunk.valid().char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let after = chars.peek().map(|(_, c)| *c);
            if let Some(kind) = kind(before, c, after) {
                let (from, to) = (start + at, start + at + c.len_utf8());
                match found.get_mut(first..).and_then(|own| own.last_mut()) {
                    Some((known, _, end)) if *known == kind && *end == from => *end = to,
                    _ => found.push((kind, from, to)),
                }
            }
            before = Some(c);
        }
        start += chunk.valid().len() + chunk.invalid().len();
    }
}

fn kind(before: Option<char>, c: char, after: Option<char>) -> Option<Hidden> {
    Some(match c {
        '\u{e0000}'..='\u{e007f}' => Hidden::TagCharacters,
        '\u{200c}' | '\u{200d}' => {
            let needs = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !is_format(c));
            if needs(before) && needs(after) {
                return None;
            }
            Hidden::ZeroWidth
        }
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}' | '\u{00ad}' | '\u{034f}' => Hidden::ZeroWidth,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => Hidden::ZeroWidth,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{061c}' => Hidden::Bidi,
        '\u{fe00}'..='\u{fe0f}' => {
            let varies = |c: char| !c.is_ascii() && !is_format(c) || c.is_ascii_digit() || matches!(c, '#' | '*');
            if before.is_some_and(varies) {
                return None;
            }
            Hidden::VariationSelectors
        }
        '\u{e0100}'..='\u{e01ef}' => {
            let ideograph =
                |c: char| ('\u{3400}'..='\u{9fff}').contains(&c) || ('\u{20000}'..='\u{3ffff}').contains(&c);
            if before.is_some_and(ideograph) {
                return None;
            }
            Hidden::VariationSelectors
        }
        '\u{1b}' | '\u{9b}' => Hidden::TerminalEscape,
        _ => return None,
    })
}

/// Characters that are none of their own.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        | '\u{fe00}'..='\u{fe0e}' | '\u{e0000}'..='\u{e01ef}')
}

/// Marks that stand on the letter before them.
pub(super) fn is_combining(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<(&'static str, &str)> {
        find(text.as_bytes()).into_iter().map(|(kind, start, end)| (kind.label(), &text[start..end])).collect()
    }

    #[test]
    fn what_is_hidden_is_found() {
        assert_eq!(labels("a<!-- b -->c<!-- d"), [("html_comment", "<!-- b -->"), ("html_comment", "<!-- d")]);
        assert_eq!(labels("a\u{e0041}\u{e0042}b"), [("tag_characters", "\u{e0041}\u{e0042}")]);
        assert_eq!(labels("ab\u{200b}c"), [("zero_width", "\u{200b}")]);
        assert_eq!(labels("a\u{200d}b"), [("zero_width", "\u{200d}")]);
        assert_eq!(labels("a\u{202e}b"), [("bidi", "\u{202e}")]);
        assert_eq!(labels("a\u{fe01}"), [("variation_selectors", "\u{fe01}")]);
        assert_eq!(labels("☺\u{fe01}\u{fe02}"), [("variation_selectors", "\u{fe02}")]);
        assert_eq!(labels("☺\u{e0101}"), [("variation_selectors", "\u{e0101}")]);
        assert_eq!(labels("a\u{1b}[8mb"), [("terminal_escape", "\u{1b}")]);
        let wide = format!("a{}b", " ".repeat(120));
        assert_eq!(labels(&wide), [("whitespace", &wide[1..121])]);
        let long = format!("a{}b", "\n".repeat(12));
        assert_eq!(labels(&long), [("whitespace", &long[1..13])]);
        let both = "x<!-- a\u{200b}b -->";
        assert_eq!(labels(both), [("html_comment", "<!-- a\u{200b}b -->"), ("zero_width", "\u{200b}")]);
    }

    #[test]
    fn what_scripts_need_is_not() {
        for text in [
            "plain",
            "👩\u{200d}🚀 ❤\u{fe0f}",
            "می\u{200c}خواهم",
            "1\u{fe0f}\u{20e3}",
            "क\u{94d}\u{200d}ष",
            "葛\u{e0100}",
            "a\n\nb",
            "x    \n",
        ] {
            assert_eq!(labels(text), [], "{text:?}");
        }
        let trailing = format!("a{}", "\n".repeat(40));
        assert_eq!(labels(&trailing), []);
    }

    #[test]
    fn halves_of_surrogates_do_not_stop_it() {
        let text = [&b"a"[..], &[0xED, 0xA0, 0xBD], "\u{200b}".as_bytes()].concat();
        assert_eq!(find(&text), [(Hidden::ZeroWidth, 4, 7)]);
    }
}
