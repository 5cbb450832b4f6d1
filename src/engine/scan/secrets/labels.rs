//! Names and values that no plain `name=value` joins: pairs of members, SQL, Dockerfiles, encoded forms, marked up
//! labels, values on a line of their own.
//!
//! Each shape is read from the end of the name, over a bounded distance.

use super::keywords::{opened, value_at};

/// Where a value stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behind {
    pub start: usize,
    pub end: usize,
    /// Its end is marked.
    pub quoted: bool,
    /// Percent-encoded.
    pub encoded: bool,
}

type Shape = fn(&[u8], (usize, usize), &str) -> Option<Behind>;

const SHAPES: [Shape; 9] = [pair, percent, entity, emphasis, element, next_line, cell, sql, spaced];

/// The values that a name may have besides the one behind a separator.
pub(super) fn behind<'a>(
    text: &'a [u8],
    name: (usize, usize),
    kind: &'a str,
) -> impl Iterator<Item = Behind> + use<'a> {
    SHAPES.into_iter().filter_map(move |shape| shape(text, name, kind))
}

fn rest(text: &[u8], at: usize) -> &[u8] {
    text.get(at..).unwrap_or_default()
}

fn before(text: &[u8], at: usize) -> &[u8] {
    text.get(..at).unwrap_or_default()
}

fn over(text: &[u8], at: usize, most: usize, wanted: &[u8]) -> usize {
    at + rest(text, at).iter().take(most).take_while(|byte| wanted.contains(byte)).count()
}

fn over_back<'a>(text: &'a [u8], most: usize, wanted: &[u8]) -> &'a [u8] {
    let count = text.iter().rev().take(most).take_while(|byte| wanted.contains(byte)).count();
    text.get(..text.len() - count).unwrap_or_default()
}

fn starts(text: &[u8], at: usize, with: &str) -> bool {
    text.get(at..at + with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
}

fn ends(text: &[u8], with: &str) -> bool {
    let start = text.len().checked_sub(with.len());
    start.and_then(|at| text.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(with.as_bytes()))
}

/// The value that begins here, with or without quotes.
fn plain(text: &[u8], at: usize, kind: &str) -> Option<Behind> {
    let (at, quote) = opened(text, at);
    let (start, end) = value_at(text, at, quote, kind)?;
    Some(Behind { start, end, quoted: quote.is_some(), encoded: false })
}

/// The value that begins here and ends its line.
fn whole_line(text: &[u8], at: usize, kind: &str) -> Option<Behind> {
    let found = plain(text, at, kind)?;
    let end = over(text, over(text, found.end, 2, b"\"'`"), 8, b" \t*\r");
    matches!(rest(text, end), [] | [b'\n', ..] | [b'\\', b'n' | b'r', ..]).then_some(found)
}

/// `name: X` and `value: Y` beside each other, as members, lines or attributes; `name="X">Y<`.
fn pair(text: &[u8], (start, end): (usize, usize), kind: &str) -> Option<Behind> {
    let ahead = over_back(over_back(before(text, start), 2, b"\\\"'"), 4, b" \t");
    let (b':' | b'=', ahead) = ahead.split_last()? else { return None };
    let ahead = over_back(over_back(ahead, 4, b" \t"), 2, b"\\\"'");
    if !["name", "key", "variable"].iter().any(|label| ends(ahead, label)) {
        return None;
    }
    let quoted = over(text, end, 2, b"\\\"'");
    if quoted > end && text.get(quoted) == Some(&b'>') {
        return plain(text, quoted + 1, kind).filter(|found| text.get(found.end) == Some(&b'<'));
    }
    let at = over(text, quoted, 40, b" \t\r\n,;");
    let at = over(text, at, 2, b"\\\"'");
    if !starts(text, at, "value") || at == quoted {
        return None;
    }
    let at = over(text, over(text, at + 5, 2, b"\\\"'"), 4, b" \t");
    let (b':' | b'=') = text.get(at)? else { return None };
    plain(text, over(text, at + 1, 8, b" \t"), kind)
}

/// `name%3Dvalue`, `%22name%22%3A%22value%22`.
fn percent(text: &[u8], (_, end): (usize, usize), _: &str) -> Option<Behind> {
    let skip = |at: usize, code: &str| if starts(text, at, code) { at + 3 } else { at };
    let at = skip(end, "%22");
    if !starts(text, at, "%3d") && !starts(text, at, "%3a") {
        return None;
    }
    let start = skip(skip(at + 3, "%20"), "%22");
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~!*+%$/@".contains(byte);
    let run = rest(text, start).iter().take(512).take_while(|byte| inside(byte)).count();
    let stops = ["%26", "%22", "%27", "%20", "%2c", "%3b", "%0a", "%0d", "%7d"];
    let is_stop = |at: usize| text.get(at) == Some(&b'%') && stops.iter().any(|code| starts(text, at, code));
    let length = (start..start + run).find(|at| is_stop(*at)).map_or(run, |at| at - start);
    Some(Behind { start, end: start + length, quoted: length < run, encoded: true })
}

const QUOTES: [&str; 5] = ["&quot;", "&#34;", "&#x22;", "&#39;", "&apos;"];

/// `&quot;name&quot;: &quot;value&quot;`.
fn entity(text: &[u8], (_, end): (usize, usize), _: &str) -> Option<Behind> {
    let quote = |at: usize| QUOTES.iter().find(|quote| starts(text, at, quote)).map(|quote| at + quote.len());
    let at = over(text, quote(end).unwrap_or(end), 4, b" \t");
    let (b':' | b'=') = text.get(at)? else { return None };
    let start = quote(over(text, at + 1, 8, b" \t"))?;
    let run = rest(text, start).iter().take(512).take_while(|b| !matches!(b, b'\n' | b'<' | b'"' | 0)).count();
    let length = (0..run).find(|at| text.get(start + at) == Some(&b'&') && quote(start + at).is_some())?;
    Some(Behind { start, end: start + length, quoted: true, encoded: false })
}

/// `**name:** value`, `**name**: value`.
fn emphasis(text: &[u8], (start, end): (usize, usize), kind: &str) -> Option<Behind> {
    if before(text, start).last() != Some(&b'*') {
        return None;
    }
    let stars = over(text, end, 3, b"*");
    let at = over(text, stars, 4, b" \t");
    let (b':' | b'=') = text.get(at)? else { return None };
    let at = if stars == end { over(text, at + 1, 3, b"*") } else { at + 1 };
    plain(text, over(text, at, 8, b" \t"), kind)
}

/// `<b>name:</b> value`, `<td>name</td><td>value</td>`.
fn element(text: &[u8], (start, end): (usize, usize), kind: &str) -> Option<Behind> {
    if before(text, start).last() != Some(&b'>') {
        return None;
    }
    let mut at = over(text, end, 4, b" \t:=");
    for tags in 0..6 {
        let after = over(text, at, 40, b" \t\r\n:=");
        if text.get(after) != Some(&b'<') {
            return if tags > 0 { plain(text, after, kind) } else { None };
        }
        let length = rest(text, after).iter().take(80).position(|byte| *byte == b'>')?;
        at = after + length + 1;
    }
    None
}

/// `name:` and the value on the next line, further in; also as a block of YAML.
fn next_line(text: &[u8], (_, end): (usize, usize), kind: &str) -> Option<Behind> {
    let at = over(text, over(text, end, 3, b"\"'`*"), 4, b" \t");
    let b':' = text.get(at)? else { return None };
    let at = over(text, over(text, over(text, at + 1, 4, b" \t*"), 2, b"|>-"), 4, b" \t\r");
    let b'\n' = text.get(at)? else { return None };
    let line = over(text, at + 1, 64, b" \t");
    if line == at + 1 { None } else { whole_line(text, line, kind) }
}

/// `| name | value |`.
fn cell(text: &[u8], (start, end): (usize, usize), kind: &str) -> Option<Behind> {
    let marks = b" \t*`";
    if over_back(before(text, start), 16, marks).last() != Some(&b'|') {
        return None;
    }
    let at = over(text, end, 64, marks);
    let b'|' = text.get(at)? else { return None };
    let found = plain(text, over(text, at + 1, 64, b" \t*"), kind)?;
    let at = over(text, found.end, 64, marks);
    matches!(rest(text, at), [] | [b'|' | b'\n' | b'\r', ..]).then_some(found)
}

/// `PASSWORD 'value'`, `mysql_native_password BY 'value'`.
fn sql(text: &[u8], (_, end): (usize, usize), kind: &str) -> Option<Behind> {
    if kind != "password" || text.get(end) != Some(&b' ') {
        return None;
    }
    let at = over(text, end, 4, b" ");
    let at = if starts(text, at, "by ") { over(text, at + 3, 4, b" ") } else { at };
    let (b'\'' | b'"') = text.get(at)? else { return None };
    plain(text, at, kind)
}

/// `ENV name value`, `setenv name value`, and netrc's `password value` behind a login.
fn spaced(text: &[u8], (start, end): (usize, usize), kind: &str) -> Option<Behind> {
    if text.get(end) != Some(&b' ') {
        return None;
    }
    let line = before(text, start);
    let line = line.get(line.len().saturating_sub(200)..).unwrap_or_default();
    let is_netrc = || {
        let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        text.get(start..end) == Some(b"password") && has(b"machine ") && has(b"login ")
    };
    if ["ENV ", "setenv ", "SetEnv "].iter().any(|word| line.ends_with(word.as_bytes())) || is_netrc() {
        return plain(text, over(text, end, 8, b" "), kind);
    }
    None
}

/// `IDENTIFIED BY 'value'`: `at` is behind it.
pub(super) fn identified(text: &[u8], start: usize, at: usize) -> Option<Behind> {
    let line = before(text, start);
    let line = line.get(line.len().saturating_sub(200)..).unwrap_or_default().to_ascii_lowercase();
    if !line.ends_with(b" ")
        || ![b"user ".as_slice(), b"role "].iter().any(|w| memchr::memmem::find(&line, w).is_some())
    {
        return None;
    }
    plain(text, over(text, at, 4, b" "), "password")
}
