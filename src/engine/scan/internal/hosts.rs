//! Names and addresses of a network that is not the public one.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The longest address or name that is read, bytes.
const MOST: usize = 253;
/// How far before a name it is looked for what speaks of a connection.
const NEAR: usize = 64;
/// Names that only a private network has, wherever they stand.
const SURE: [&str; 3] = [".cluster.local", ".home.arpa", ".localdomain"];
/// Names that may mean something else, and count where a connection is spoken of.
const LIKELY: [&str; 7] = [".corp", ".home", ".internal", ".intranet", ".lan", ".local", ".svc"];
const CONNECTS: [&str; 14] = [
    "address",
    "broker",
    "connect",
    "dial",
    "econn",
    "enotfound",
    "getaddrinfo",
    "host",
    "lookup",
    "refused",
    "resolve",
    "server",
    "unreachable",
    "upstream",
];

/// The end of the host that begins here, its port included.
pub(super) fn find(text: &[u8], at: usize) -> Option<usize> {
    address(text, at).or_else(|| name(text, at))
}

/// A private IPv4 or IPv6 address.
pub(super) fn address(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let six = rest.iter().take(46).take_while(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')).count();
    let run = rest.get(..six)?;
    if run.iter().filter(|b| **b == b':').count() > 1 {
        let run = if run.ends_with(b"::") { run } else { run.trim_ascii_end().strip_suffix(b":").unwrap_or(run) };
        let run = run.strip_suffix(b".").unwrap_or(run);
        let address: Option<Ipv6Addr> = std::str::from_utf8(run).ok()?.parse().ok();
        if let Some(address) = address {
            let ends = !text.get(at + run.len()).is_some_and(|b| b.is_ascii_alphanumeric());
            return (ends && is_private_six(address)).then_some(at + run.len());
        }
    }
    let four = rest.iter().take(16).take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    let run = rest.get(..four)?;
    let run = run.strip_suffix(b".").unwrap_or(run);
    let address: Ipv4Addr = std::str::from_utf8(run).ok()?.parse().ok()?;
    let behind = text.get(at + run.len());
    let ends = behind.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'-');
    let versioned = !matches!(behind, Some(b':' | b'/')) && is_version(text.get(..at).unwrap_or_default());
    (ends && is_private(address) && !versioned).then(|| with_port(text, at + run.len()))
}

/// Whether what stands before four numbers makes them those of a release.
fn is_version(before: &[u8]) -> bool {
    const WORDS: [&str; 4] = ["build", "firmware", "release", "version"];
    let between = |b: &u8| matches!(b, b' ' | b'=' | b':' | b'"' | b'\'' | b'(');
    let gap = before.iter().rev().take(4).take_while(|b| between(b)).count();
    let before = before.get(..before.len() - gap).unwrap_or_default();
    let words = before.rsplit(|b| !b.is_ascii_alphabetic());
    gap > 0 && words.take(1).any(|last| WORDS.iter().any(|word| last.eq_ignore_ascii_case(word.as_bytes())))
}

fn is_private(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_private() || address.is_loopback() || address.is_link_local() || (a == 100 && (64..128).contains(&b))
}

fn is_private_six(address: Ipv6Addr) -> bool {
    let first = address.segments().first().copied().unwrap_or_default();
    let mapped = address.to_ipv4_mapped().is_some_and(is_private);
    address.is_loopback() || first & 0xFE00 == 0xFC00 || first & 0xFFC0 == 0xFE80 || mapped
}

/// The end of a port that goes on from here.
fn with_port(text: &[u8], end: usize) -> usize {
    port(text, end).unwrap_or(end)
}

fn port(text: &[u8], end: usize) -> Option<usize> {
    let rest = text.get(end..)?.strip_prefix(b":")?;
    let digits = rest.iter().take(6).take_while(|b| b.is_ascii_digit()).count();
    let ends = rest.get(digits).is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_');
    ((2..=5).contains(&digits) && ends).then_some(end + 1 + digits)
}

fn name(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let length = rest.iter().take(MOST + 1).take_while(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)).count();
    let run = rest.get(..length).filter(|run| run.len() <= MOST)?;
    let run = run.strip_suffix(b".").unwrap_or(run);
    let end = at + run.len();
    let ends_in = |names: &[&str]| {
        names.iter().any(|name| {
            let tail = run.len().checked_sub(name.len()).and_then(|from| run.get(from..));
            run.len() > name.len() && tail.is_some_and(|tail| tail.eq_ignore_ascii_case(name.as_bytes()))
        })
    };
    let port = port(text, end);
    let before = text.get(at.saturating_sub(NEAR)..at).unwrap_or_default();
    let addressed = before.ends_with(b"://") || before.ends_with(b"@") && before_has(before, "://");
    let named = match () {
        () if ends_in(&SURE) => true,
        () if ends_in(&LIKELY) => addressed || port.is_some() || connects(before),
        () if run.eq_ignore_ascii_case(b"localhost") => addressed || port.is_some(),
        // A bare name with a port.
        () if !run.contains(&b'.') => port.is_some() && (addressed || connects(before)) && !is_word(run),
        () => false,
    };
    named.then(|| port.unwrap_or(end))
}

fn connects(before: &[u8]) -> bool {
    // Of this line only.
    let line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
    CONNECTS.iter().any(|word| before_has(line, word))
}

fn before_has(before: &[u8], word: &str) -> bool {
    before.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

/// Words before a colon and a number that are no hosts.
fn is_word(run: &[u8]) -> bool {
    const WORDS: [&str; 14] = [
        "at", "attempt", "char", "code", "col", "column", "error", "errno", "exit", "http", "line", "port", "row",
        "status",
    ];
    let digits = run.iter().all(u8::is_ascii_digit);
    digits || WORDS.iter().any(|word| run.eq_ignore_ascii_case(word.as_bytes()))
}
