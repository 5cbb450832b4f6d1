//! What stands inside a word and parts none for whoever sees it: markup of a line, colours of a terminal, the end of
//! a line behind a hyphen.

/// Elements that stand in a line of text. Others end the word before them.
const INLINE: [&str; 31] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "label",
    "mark", "nobr", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var", "wbr",
];
/// Bytes of a tag that are looked at.
const TAG: usize = 80;
/// Bytes of a colour that are looked at.
const COLOUR: usize = 32;
/// Pieces that follow one another.
const MOST: usize = 8;

/// Bytes at the start that part no word: colours and markup between letters.
pub(super) fn within(before: &str, text: &str) -> usize {
    if !before.ends_with(char::is_alphanumeric) {
        return 0;
    }
    let mut at = 0;
    for _ in 0..MOST {
        let rest = text.get(at..).unwrap_or_default();
        match tag(rest).max(colour(rest)) {
            0 => break,
            len => at += len,
        }
    }
    let goes_on = text.get(at..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    if goes_on { at } else { 0 }
}

/// Bytes of white space with one end of a line, between a hyphen behind a letter and the letter where it goes on.
pub(super) fn parted(before: &str, text: &str) -> usize {
    let is_parted = before.strip_suffix('-').is_some_and(|word| word.ends_with(char::is_alphabetic));
    if !is_parted {
        return 0;
    }
    let line = text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or_default();
    let next = line.trim_start_matches([' ', '\t']);
    if next.starts_with(char::is_alphabetic) { text.len() - next.len() } else { 0 }
}

/// Bytes of a sequence that colours, or clears a line to its end.
pub(super) fn colour(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    let numbers = rest.bytes().take(COLOUR).take_while(|b| matches!(b, b'0'..=b'9' | b';' | b':')).count();
    match rest.as_bytes().get(numbers) {
        Some(b'm' | b'K') => numbers + 3,
        _ => 0,
    }
}

/// Bytes of a tag of a line, or of a comment without a word. What may hide something is none.
fn tag(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'<') {
        return 0;
    }
    let Some(end) = bytes.iter().take(TAG).position(|b| *b == b'>') else { return 0 };
    let inner = text.get(1..end).unwrap_or_default();
    let is_joint = match inner.strip_prefix("!--") {
        Some(comment) => {
            comment == "-" || comment.strip_suffix("--").is_some_and(|said| !said.contains(char::is_alphanumeric))
        }
        None => {
            let named = inner.strip_prefix('/').unwrap_or(inner);
            let name = named.split([' ', '/']).next().unwrap_or_default();
            let hides = ["style", "hidden", "color", "size"].iter().any(|word| contains(named, word));
            !hides && INLINE.iter().any(|inline| inline.eq_ignore_ascii_case(name))
        }
    };
    if is_joint { end + 1 } else { 0 }
}

fn contains(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}
