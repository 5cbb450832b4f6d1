//! Values that only a name gives away: `password=…`, `"api_key": "…"`, a member's own name.
//!
//! A name alone says little: `max_tokens`, `next_page_token` and `password: string` are everywhere. So the name has
//! to end in the word, words that make another thing of it are excluded, and the value has to look like one that
//! was chosen (passwords) or drawn (all others).

use super::{Family, Secret, entropy, is_placeholder, is_random, labels};
use percent_encoding::percent_decode;
use std::borrow::Cow;

/// Parts of names, looked for without case.
pub(super) static ANCHORS: &[&str] =
    &["passw", "passphrase", "pass", "pwd", "secret", "token", "key", "credential", "authorization"];

pub(super) const KINDS: &[&str] = &["password", "api-key", "access-token", "secret-key", "secret", "aws-secret-key"];

/// The longest name, and the longest value.
const NAME: usize = 64;
const VALUE: usize = 512;
/// The shortest value that stands in quotes or as a member.
const SHORTEST: usize = 6;
/// The least entropy of a drawn value, hundredths of a bit per byte.
const LEAST: u16 = 300;

/// A value that is assigned to a name: `hit` is a part of the name. `named`: the end of the last name looked at.
pub(super) fn assigned(text: &[u8], hit: (usize, usize), named: &mut usize, found: &mut Vec<Secret>) {
    if hit.0 < *named {
        return;
    }
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let before = text.get(..hit.0).unwrap_or_default().iter().rev().take(NAME).take_while(is_name).count();
    let after = text.get(hit.1..).unwrap_or_default().iter().take(NAME).take_while(is_name).count();
    let (start, end) = (hit.0 - before, hit.1 + after);
    *named = end;
    let name = text.get(start..end).unwrap_or_default();
    let last = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let of_name = kind_of(last).map(|kind| (kind, start));
    let Some((kind, start)) = of_name.or_else(|| of_words(text, start, end)) else { return };
    if let Some((at, quote)) = separator(text, (start, end)) {
        if quote.is_none() && text.get(at..at + VALUE).is_some_and(|rest| !rest.iter().any(is_outside)) {
            // All of it is one word: names in it are no names.
            *named = at + VALUE;
        }
        if let Some((from, to)) = value_at(text, at, quote, kind) {
            let value = text.get(from..to).unwrap_or_default();
            if push(kind, name, value, (from, to), quote.is_some(), found) {
                return;
            }
        }
    }
    for behind in labels::behind(text, (start, end), kind) {
        let range = (behind.start, behind.end);
        let value = text.get(range.0..range.1).unwrap_or_default();
        let decoded = if behind.encoded { percent_decode(value).into() } else { Cow::Borrowed(value) };
        if push(kind, name, &decoded, range, behind.quoted, found) {
            return;
        }
    }
}

/// `IDENTIFIED BY 'value'`, of SQL.
pub(super) fn identified(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    if let Some(behind) = labels::identified(text, start, end) {
        let value = text.get(behind.start..behind.end).unwrap_or_default();
        push("password", b"password", value, (behind.start, behind.end), behind.quoted, found);
    }
}

/// A name of two words, the second of which stands here: `API Key:`; and where it begins.
fn of_words(text: &[u8], start: usize, end: usize) -> Option<(&'static str, usize)> {
    if !text.get(start..end)?.eq_ignore_ascii_case(b"key") {
        return None;
    }
    let before = text.get(..start)?.strip_suffix(b" ")?;
    let length = before.iter().rev().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let start = before.len() - length;
    Some((kind_of(text.get(start..end)?)?, start))
}

fn is_outside(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'`,;&<>(){}[]|\\".contains(byte)
}

/// The range of the value that begins here, up to its quote or as far as a word goes.
pub(super) fn value_at(text: &[u8], at: usize, quote: Option<u8>, kind: &str) -> Option<(usize, usize)> {
    let rest = text.get(at..).unwrap_or_default();
    let rest = rest.get(..VALUE + 1).unwrap_or(rest);
    let length = match quote {
        Some(quote) => rest.iter().position(|byte| *byte == quote || matches!(byte, b'\n' | b'\\' | 0)),
        None => Some(rest.iter().position(is_outside).unwrap_or(rest.len())),
    };
    let length = length.filter(|length| *length <= VALUE)?;
    // What goes on is code, or was found by itself.
    if quote.is_none() && matches!(rest.get(length), Some(b'(' | b'[' | b'{' | 0)) {
        return None;
    }
    let mut value = rest.get(..length).unwrap_or_default();
    if quote.is_none() {
        while let [shorter @ .., b'.' | b'!' | b'?' | b':'] = value {
            value = shorter;
        }
        // A sign at the end of a chosen value belongs to it, unless it ends a sentence.
        if kind == "password" && rest.get(..length).is_some_and(|whole| whole.ends_with(b"!")) {
            value = rest.get(..length).unwrap_or_default();
        }
    }
    Some((at, at + value.len()))
}

/// The value of a member of this name.
pub(super) fn of_member(text: &[u8], member: &[u8], found: &mut Vec<Secret>) {
    let value = text.trim_ascii();
    // What [`push`] never keeps: most members are told by that, and their names need not be read.
    let is_value = (SHORTEST..=VALUE).contains(&value.len()) && !value.iter().any(u8::is_ascii_whitespace);
    if !is_value || member.len() > 2 * NAME {
        return;
    }
    let Some(kind) = kind_of(member) else { return };
    let start = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    push(kind, member, value, (start, start + value.len()), true, found);
}

/// Keeps the value of this range if it looks like one, and answers whether.
fn push(
    kind: &'static str,
    name: &[u8],
    value: &[u8],
    (start, end): (usize, usize),
    quoted: bool,
    found: &mut Vec<Secret>,
) -> bool {
    let holds = match kind {
        "password" => is_chosen(value, if quoted { SHORTEST } else { 8 }),
        _ => is_drawn(value, kind),
    };
    if !holds {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let says = |word: &[u8]| memchr::memmem::find(&lower, word).is_some();
    let symbols = value.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
    let aws = value.len() == 40 && symbols && (says(b"aws") || says(b"secret_access") || says(b"secretaccess"));
    let (kind, family, bits) = match kind {
        "password" => (kind, Family::Password, entropy(value)),
        _ if aws => ("aws-secret-key", Family::Credential, Secret::SURE),
        _ => (kind, Family::Credential, entropy(value)),
    };
    found.push(Secret { kind, family, start, end, bits });
    true
}

/// Where the value of a name begins, and the quote that ends it.
fn separator(text: &[u8], (start, end): (usize, usize)) -> Option<(usize, Option<u8>)> {
    let byte = |at: usize| text.get(at).copied();
    let mut at = end;
    let skip = |at: &mut usize, most: usize, wanted: &[u8]| {
        let from = *at;
        while *at < from + most && byte(*at).is_some_and(|b| wanted.contains(&b)) {
            *at += 1;
        }
    };
    let before = start.checked_sub(1).and_then(byte);
    match byte(at) {
        // An element's text.
        Some(b'>') if before == Some(b'<') => return Some((at + 1, None)),
        // An option's value.
        Some(b' ') if text.get(..end).is_some_and(|t| t.get(start..).is_some_and(|name| name.starts_with(b"--"))) => {
            skip(&mut at, 1, b" ");
            return Some(opened(text, at)).filter(|(at, _)| byte(*at) != Some(b'-'));
        }
        _ => {}
    }
    skip(&mut at, 3, b"\\\"'`]");
    skip(&mut at, 8, b" \t");
    match (byte(at)?, byte(at + 1)) {
        (b'=', Some(b'=')) => return None,
        (b'=', Some(b'>')) | (b':', Some(b'=')) => at += 2,
        // Our own placeholder is no assignment.
        (b':', _) if before == Some(b'[') && text.get(start..end) == Some(b"secret") => return None,
        (b'=' | b':', _) => at += 1,
        _ => return None,
    }
    skip(&mut at, 8, b" \t");
    Some(opened(text, at))
}

/// Behind an opening quote, if there is one.
pub(super) fn opened(text: &[u8], mut at: usize) -> (usize, Option<u8>) {
    let quote = |at: usize| text.get(at).copied().filter(|b| matches!(b, b'"' | b'\'' | b'`'));
    if text.get(at) == Some(&b'\\') && quote(at + 1).is_some() {
        at += 1;
    }
    quote(at).map_or((at, None), |q| (at + 1, Some(q)))
}

/// What kind of value a name is of, by its last words.
fn kind_of(name: &[u8]) -> Option<&'static str> {
    const OTHER: &[&str] = &[
        "next",
        "page",
        "pagination",
        "continu",
        "cursor",
        "sync",
        "csrf",
        "xsrf",
        "max",
        "min",
        "num",
        "count",
        "total",
        "input",
        "output",
        "prompt",
        "completion",
        "stop",
        "pad",
        "eos",
        "bos",
        "mask",
        "special",
        "progress",
        "cancel",
        "idempot",
        "design",
        "public",
        "publish",
        "resum",
        "start",
        "limit",
        "budget",
        "usage",
        "cache",
        "foreign",
        "primary",
        "sort",
        "partition",
        "shard",
        "type",
        "test_id",
        "thought",
    ];
    if name.len() > 2 * NAME {
        return None;
    }
    // Letters and digits in lower case, with one space where a new word begins.
    let mut words = String::with_capacity(name.len() + 8);
    let mut last = b' ';
    for byte in name {
        let starts = byte.is_ascii_uppercase() && (last.is_ascii_lowercase() || last.is_ascii_digit());
        if (!byte.is_ascii_alphanumeric() || starts) && !words.ends_with(' ') && !words.is_empty() {
            words.push(' ');
        }
        if byte.is_ascii_alphanumeric() {
            words.push(char::from(byte.to_ascii_lowercase()));
        }
        last = *byte;
    }
    let words = words.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let words = words.strip_suffix(" value").unwrap_or(words);
    // Most names end in none of these words, and that is seen sooner than that none of the others stands in them.
    kind_of_words(words).filter(|_| !OTHER.iter().any(|other| words.contains(other)))
}

fn kind_of_words(words: &str) -> Option<&'static str> {
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| words.ends_with(suffix));
    let last = words.rsplit(' ').next().unwrap_or_default();
    if ends(&["password", "passwd", "passphrase", "passwort"]) || matches!(last, "pwd" | "pass" | "pw") {
        return Some("password");
    }
    if ends(&["api key", "apikey"]) {
        return Some("api-key");
    }
    if ends(&["token", "authorization"]) {
        return Some("access-token");
    }
    if ends(&["secret", "secrets", "credential", "credentials"]) {
        return Some("secret");
    }
    const KEYS: &[&str] = &[
        "access",
        "secret",
        "private",
        "auth",
        "account",
        "encryption",
        "signing",
        "master",
        "service",
        "admin",
        "application",
        "app",
        "consumer",
        "hmac",
        "webhook",
        "sas",
        "license",
    ];
    let of_key = last.strip_suffix("key").map(|rest| match rest {
        "" => words.strip_suffix(" key").unwrap_or_default().rsplit(' ').next().unwrap_or_default(),
        glued => glued,
    });
    of_key.filter(|word| KEYS.iter().any(|key| word.ends_with(key))).map(|_| "secret-key")
}

/// Words that stand for a password in documentation.
pub(super) fn is_common_word(value: &[u8]) -> bool {
    const WORDS: &[&[u8]] = &[
        b"password",
        b"passwd",
        b"pass",
        b"pwd",
        b"pw",
        b"secret",
        b"token",
        b"user",
        b"username",
        b"mypassword",
        b"mysecret",
        b"mysecretpassword",
        b"none",
        b"null",
        b"true",
        b"false",
        b"undefined",
        b"string",
        b"required",
        b"optional",
        b"pass123",
        b"password123",
        b"user123",
        b"p@ssw0rd",
        b"12345",
        b"123456",
    ];
    let lower = value.to_ascii_lowercase();
    WORDS.contains(&lower.as_slice())
}

/// Whether a value is a path, an address, or a name in code.
fn is_reference(value: &[u8]) -> bool {
    let path = value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"~/")
        || value.get(1..3) == Some(b":\\");
    let name = |part: &[u8]| {
        part.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
            && part.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    let parts = value.split(|byte| *byte == b'.').count();
    let dotted = (2..=6).contains(&parts) && value.len() <= 64 && value.split(|byte| *byte == b'.').all(name);
    path || dotted || memchr::memmem::find(value, b"://").is_some()
}

/// Whether a value looks like a password: letters with digits or signs, or digits alone.
fn is_chosen(value: &[u8], least: usize) -> bool {
    if !(least..=128).contains(&value.len()) || value.iter().any(|b| b.is_ascii_whitespace() || b.is_ascii_control()) {
        return false;
    }
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    let digit = value.iter().any(u8::is_ascii_digit);
    let sign = value.iter().any(|b| b"!@#$%^&*+=?".contains(b));
    let digits = value.iter().all(u8::is_ascii_digit);
    (letter && (digit || sign) || digits) && !is_reference(value) && !is_placeholder(value) && !is_common_word(value)
}

/// Whether a value looks like one that a machine drew.
fn is_drawn(value: &[u8], kind: &str) -> bool {
    let symbol = |b: &u8| b.is_ascii_alphanumeric() || b"-_+/=.~:%!@#$^*".contains(b);
    (16..=VALUE).contains(&value.len())
        && value.iter().all(symbol)
        && is_random(value, LEAST)
        && !is_reference(value)
        && !(kind == "access-token" && is_uuid(value))
}

fn is_uuid(value: &[u8]) -> bool {
    let groups: Vec<usize> = value.split(|byte| *byte == b'-').map(<[u8]>::len).collect();
    groups == [8, 4, 4, 4, 12] && value.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-')
}
