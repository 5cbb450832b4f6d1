//! Characters that end a value and begin something else: in SQL, in a shell, in a template.

use super::Finds;
use regex::Regex;
use std::sync::LazyLock;

/// What needs no metacharacter: a value that is part of a statement becomes more of it.
static CLAUSE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix) \b union \s+ (?: all \s+ | distinct \s+ )? select \b
            | \b (?: or | and ) \s+ (?: not \s+ )? ['\x22(]* \w+ ['\x22)]* \s* [=<>]
            | \b into \s+ (?: out | dump ) file \b
            | \b (?: sleep | benchmark | pg_sleep ) \s* \(
            | \b waitfor \s+ delay \b",
    )
    .ok()
});

/// Members whose names Python reserves for itself, reached through a format string.
static DUNDER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\{[^{}]{0,200}?__[a-z]").ok());

pub(super) fn sql(text: &str, finds: &mut Finds) {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '\'' | '"' | '`' => finds.at("quote", at, at + 1),
            ';' => finds.at("statement", at, at + 1),
            '\\' => finds.at("escape", at, at + 1),
            '\0' => finds.at("nul", at, at + 1),
            '-' if before == '-' => finds.at("comment", at - 1, at + 1),
            '*' if before == '/' => finds.at("comment", at - 1, at + 1),
            // What normalisation or a narrower character set makes of these.
            '\u{ff07}' | '\u{02bc}' | '\u{ff02}' | '\u{ff1b}' | '\u{037e}' => {
                finds.at("lookalike", at, at + c.len_utf8());
            }
            _ => {}
        }
        before = c;
    }
    if let Some(clause) = &*CLAUSE {
        clause.find_iter(text).for_each(|found| finds.at("clause", found.start(), found.end()));
    }
}

/// POSIX shells.
pub(super) fn shell(text: &str, finds: &mut Finds) {
    let bytes = text.as_bytes();
    let is_word_start = |at: usize| at.checked_sub(1).and_then(|at| bytes.get(at)).is_none_or(u8::is_ascii_whitespace);
    for (at, byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        let label = match byte {
            b';' | b'|' | b'&' | b'\n' | b'\r' => "separator",
            b'`' => "substitution",
            b'$' if next.is_some_and(|n| n.is_ascii_alphanumeric() || b"({_@*#?-!'\"".contains(n)) => "substitution",
            b'<' | b'>' => "redirection",
            b'\'' | b'"' | b'\\' => "quote",
            b'*' | b'?' | b'[' => "glob",
            b'{' if bytes.get(at.wrapping_sub(1)) != Some(&b'$') => "glob",
            b'(' | b')' => "group",
            b'~' if is_word_start(at) => "home",
            b'#' if is_word_start(at) => "comment",
            b'-' if bytes.get(..at).is_some_and(|before| before.trim_ascii().is_empty()) && next.is_some() => "option",
            0 => "nul",
            _ => continue,
        };
        finds.at(label, at, at + 1);
    }
}

/// The engines in use: Jinja and its kin, Liquid, ERB, JSP, PHP, EL, OGNL, Thymeleaf, Velocity, Log4j, `str.format`.
pub(super) fn template(text: &str, finds: &mut Finds) {
    let bytes = text.as_bytes();
    for (at, pair) in bytes.windows(2).enumerate() {
        let label = match pair {
            b"{{" => "braces",
            b"{%" | b"{#" => "block",
            b"${" if starts_with(bytes, at + 2, b"jndi:") => "lookup",
            b"${" => "dollar",
            b"#{" => "hash",
            b"*{" => "star",
            b"%{" => "percent",
            b"<%" | b"<?" => "tag",
            b"#s" | b"#i" | b"#f" | b"#e" | b"#p" | b"#m" if is_directive(bytes, at + 1) => "directive",
            _ => continue,
        };
        finds.at(label, at, at + 2);
    }
    if let Some(dunder) = &*DUNDER {
        dunder.find_iter(text).for_each(|found| finds.at("dunder", found.start(), found.end()));
    }
}

fn starts_with(bytes: &[u8], at: usize, word: &[u8]) -> bool {
    bytes.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word))
}

fn is_directive(bytes: &[u8], at: usize) -> bool {
    let words: [&[u8]; 7] = [b"set(", b"if(", b"foreach(", b"evaluate(", b"include(", b"parse(", b"macro("];
    words.iter().any(|word| starts_with(bytes, at, word))
}
