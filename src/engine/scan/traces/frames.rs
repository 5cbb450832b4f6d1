//! Single frames, by their spelling. Lines come without white space around them.

use super::{Language, contains, position};

/// A line that begins with `at`.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtFrame {
    pub language: Language,
    /// It names a place in a source, as no prose does.
    pub sure: bool,
    /// It looks like a call.
    pub likely: bool,
}

/// Frames of Java, Kotlin, C# and JavaScript.
pub(super) fn at_frame(line: &[u8]) -> Option<AtFrame> {
    let rest = line.strip_prefix(b"at ")?.trim_ascii();
    let frame = |language, sure| Some(AtFrame { language, sure, likely: true });
    let inside = rest.iter().rposition(|b| *b == b'(').and_then(|open| rest.get(open + 1..)).unwrap_or_default();
    let inside = inside.strip_suffix(b")");
    let java = [&b".java:"[..], b".kt:", b".scala:", b".groovy:", b".clj:"];
    if let Some(place) = inside {
        let known = place == b"Native Method" || place == b"Unknown Source" || place.starts_with(b"Unknown Source");
        let source =
            java.iter().any(|source| contains(place, source)) || place.ends_with(b".java") || place.ends_with(b".kt");
        if known || source {
            return frame(Language::Java, true);
        }
    }
    if position(rest, b":line ").is_some_and(|at| rest.get(at + 6).is_some_and(u8::is_ascii_digit)) {
        return frame(Language::CSharp, true);
    }
    let place = inside.unwrap_or(rest);
    let internal = place.starts_with(b"node:") || place == b"native" || place == b"<anonymous>";
    if ends_with_place(place) || (internal && inside.is_some()) {
        return frame(Language::JavaScript, true);
    }
    if rest.starts_with(b"async ") || rest == b"<anonymous>" || rest.starts_with(b"new ") && inside.is_some() {
        return Some(AtFrame { language: Language::JavaScript, sure: false, likely: inside.is_some() });
    }
    // `System.IO.File.Open(String path)`: a dotted name, then parameters.
    let name = rest.split(|b| *b == b'(').next().unwrap_or_default();
    let dotted = name.contains(&b'.') && name.iter().all(|b| b.is_ascii_alphanumeric() || b"._<>`[],+$|~".contains(b));
    let called = rest.contains(&b'(') && dotted;
    called.then_some(AtFrame { language: Language::CSharp, sure: false, likely: true })
}

/// `…:12:5` at the end of a line.
fn ends_with_place(place: &[u8]) -> bool {
    let mut parts = place.rsplit(|b| *b == b':');
    let mut number = || parts.next().is_some_and(|n| !n.is_empty() && n.len() <= 9 && n.iter().all(u8::is_ascii_digit));
    number() && number() && parts.next().is_some_and(|file| !file.is_empty())
}

/// Whose frames begin with `#0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Php,
    Dart,
    C,
}

pub(super) fn hash_frame(line: &[u8]) -> Option<Hash> {
    let rest = line.strip_prefix(b"#")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let rest = rest.get(digits..).filter(|rest| digits > 0 && rest.starts_with(b" "))?.trim_ascii();
    let dart = [&b"(package:"[..], b"(dart:", b"(file:///"];
    if dart.iter().any(|place| contains(rest, place)) {
        return Some(Hash::Dart);
    }
    if rest == b"{main}" || contains(rest, b".php(") || rest.starts_with(b"[internal function]") {
        return Some(Hash::Php);
    }
    let gdb = contains(rest, b" (") && position(rest, b") at ").is_some();
    (rest.starts_with(b"0x") && contains(rest, b" in ") || gdb).then_some(Hash::C)
}

/// `  12: core::panicking::panic`
pub(super) fn is_numbered(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
    (1..=5).contains(&digits) && line.get(digits..).is_some_and(|rest| rest.starts_with(b": "))
}

/// ``from app.rb:12:in `run'``, and the first line without `from`.
pub(super) fn is_ruby_frame(line: &[u8]) -> bool {
    let Some(at) = position(line, b":in ") else { return false };
    let quote = line.get(at + 4).is_some_and(|b| matches!(b, b'`' | b'\''));
    let before = line.get(..at).unwrap_or_default();
    let digits = before.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let colon = before.len().checked_sub(digits + 1).and_then(|at| before.get(at));
    quote && digits > 0 && colon == Some(&b':')
}

/// `run@https://example.com/app.js:12:5`
pub(super) fn is_web_frame(line: &[u8]) -> bool {
    let Some(at) = line.iter().position(|b| *b == b'@') else { return false };
    let place = line.get(at + 1..).unwrap_or_default();
    !line.contains(&b' ') && contains(place, b"://") && ends_with_place(place)
}
