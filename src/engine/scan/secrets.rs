//! Secrets in a text: credentials, private keys and passwords, by their published formats or by what they are
//! assigned to.
//!
//! One automaton looks for literal anchors (prefixes, infixes, names); what it hits is verified by hand around the
//! hit. A checksum that fits settles a question; where none exists, or where it does not fit, a value has to look
//! random, so that documentation and placeholders stay as they are. Colours and other sequences of a terminal are
//! looked through.
//!
//! Invariants: ranges hold the secret alone, not its name, and are in order and apart; what is found in a text is
//! what is found in it after redaction, so that a second pass finds nothing new; an anchor costs a bounded number
//! of steps or those of a run that no other anchor of its kind can begin in.
//!
//! Left out: names and numbers of people (`personal`), and values without a known format that stand without a
//! name beside them.

mod keywords;
mod labels;
mod shapes;
mod tokens;

use super::escapes::Plain;
use super::literals::Literals;
use std::sync::LazyLock;
use tokens::Token;

/// What a secret lets its finder do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// A value that somebody chose.
    Password,
    /// A value that a service issued.
    Credential,
    PrivateKey,
}

/// One secret in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Secret {
    /// Of a closed list: [`kinds`].
    pub kind: &'static str,
    pub family: Family,
    /// Bytes of the text, the value alone.
    pub start: usize,
    pub end: usize,
    /// Hundredths of a bit per byte (Shannon) of a value that only its name gives away; [`Secret::SURE`] where its
    /// own format does.
    pub bits: u16,
}

impl Secret {
    /// The value of `bits` where the format speaks for itself.
    pub const SURE: u16 = u16::MAX;

    fn sure(kind: &'static str, family: Family, start: usize, end: usize) -> Self {
        Self { kind, family, start, end, bits: Self::SURE }
    }

    /// Enough of it looks random, by the bounds that hold unless an operator sets others.
    pub fn is_likely(&self) -> bool {
        self.bits >= if self.family == Family::Password { 150 } else { 300 }
    }

    /// A stronger claim names what two overlap in.
    fn weight(&self) -> (Family, u16) {
        (self.family, self.bits)
    }
}

/// Rounds in which what was found is blanked and looked around.
const ROUNDS: usize = 4;

/// How a secret is looked for at an anchor: the text, the anchor's range, and what was found.
type Verify = fn(&[u8], usize, usize, &mut Vec<Secret>);

enum Anchor {
    Token(&'static Token),
    Shape(Verify),
    /// A part of a name that values are assigned to.
    Name,
}

struct Anchors {
    literals: Literals,
    /// By literal.
    anchors: Vec<Anchor>,
}

static ANCHORS: LazyLock<Anchors> = LazyLock::new(Anchors::new);

impl Anchors {
    #[expect(clippy::expect_used, reason = "the patterns are constants, and every test of this file builds them")]
    fn new() -> Self {
        let mut literals = Vec::new();
        let mut anchors = Vec::new();
        let mut add = |literal: &'static str, anchor| {
            literals.push(literal);
            anchors.push(anchor);
        };
        tokens::TOKENS.iter().for_each(|token| add(token.prefix, Anchor::Token(token)));
        shapes::SHAPES.iter().for_each(|(literal, verify)| add(literal, Anchor::Shape(*verify)));
        keywords::ANCHORS.iter().for_each(|literal| add(literal, Anchor::Name));
        let literals = Literals::new(literals, true).expect("a few hundred short literals fit a table");
        Self { literals, anchors }
    }
}

/// The secrets of a text. `member`: the name of the member whose value it is, for values that only their name
/// gives away.
pub fn find(text: &[u8], member: Option<&[u8]>) -> Vec<Secret> {
    let mut found = look(text, member);
    if found.is_empty() {
        return found;
    }
    // What stood beside a secret may be one by itself when that is gone.
    let mut left = text.to_vec();
    for _ in 1..ROUNDS {
        for secret in &found {
            if let Some(range) = left.get_mut(secret.start..secret.end) {
                range.fill(0);
            }
        }
        let more = look(&left, member);
        if more.is_empty() {
            break;
        }
        found.extend(more);
        merge(&mut found);
    }
    found
}

/// Whether there is any; cheap for short texts.
pub fn has_any(text: &[u8]) -> bool {
    !look(text, None).is_empty()
}

/// Every kind that [`find`] can give, in order.
pub fn kinds() -> Vec<&'static str> {
    let tokens = tokens::TOKENS.iter().map(|token| token.kind);
    let mut kinds: Vec<&str> =
        tokens.chain(shapes::KINDS.iter().copied()).chain(keywords::KINDS.iter().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// The text as it stands, and as it is read where a terminal's sequences stand in it. What is found around a
/// sequence holds it.
fn look(text: &[u8], member: Option<&[u8]>) -> Vec<Secret> {
    let mut found = pass(text, member);
    if let Some(plain) = Plain::of(text) {
        found.extend(pass(&plain.bytes, member).into_iter().map(|secret| {
            let (start, end) = plain.back(secret.start, secret.end);
            Secret { start, end, ..secret }
        }));
        merge(&mut found);
    }
    found
}

fn pass(text: &[u8], member: Option<&[u8]>) -> Vec<Secret> {
    let mut found = Vec::new();
    if let Some(member) = member {
        keywords::of_member(text, member, &mut found);
    }
    // The end of the last name that was looked at: several anchors may stand in one name.
    let mut named = 0;
    ANCHORS.literals.find(text, |literal, at| match ANCHORS.anchors.get(literal) {
        Some(Anchor::Token(token)) => tokens::verify(text, at.start, token, &mut found),
        Some(Anchor::Shape(verify)) => verify(text, at.start, at.end, &mut found),
        Some(Anchor::Name) => keywords::assigned(text, (at.start, at.end), &mut named, &mut found),
        None => {}
    });
    merge(&mut found);
    found
}

/// Puts them in order; those that overlap become one, named by the stronger claim.
fn merge(found: &mut Vec<Secret>) {
    found.sort_by_key(|secret| (secret.start, secret.end));
    let mut merged: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found.drain(..) {
        match merged.last_mut() {
            Some(last) if secret.start < last.end => {
                let (start, end) = (last.start, last.end.max(secret.end));
                let stronger = if secret.weight() > last.weight() { secret } else { *last };
                *last = Secret { start, end, ..stronger };
            }
            _ => merged.push(secret),
        }
    }
    *found = merged;
}

/// Whether something may begin here that is a word of its own: behind no letter, digit or `_`, unless those are
/// an escape's (`\n`, `%3D`, `\u003d`).
fn is_boundary(text: &[u8], at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let Some(last) = before.last() else { return true };
    if !last.is_ascii_alphanumeric() && *last != b'_' {
        return true;
    }
    let hex = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] if hex(&[*a, *b]) => true,
        [.., b'\\', b'u', a, b, c, d] => hex(&[*a, *b, *c, *d]),
        _ => false,
    }
}

/// Shannon's entropy, hundredths of a bit per byte.
fn entropy(value: &[u8]) -> u16 {
    let mut counts = [0u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let all = value.len() as f64;
    let bits: f64 = counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / all).map(|p| -p * p.log2()).sum();
    (bits * 100.0) as u16
}

/// Whether a value stands for a secret in documentation, a template or a redacted text, and is none.
fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: [&[u8]; 16] = [
        b"example",
        b"xxxx",
        b"****",
        b"....",
        b"placeholder",
        b"changeme",
        b"change_me",
        b"change-me",
        b"redacted",
        b"your_",
        b"your-",
        b"yourpass",
        b"[secret:",
        b"${",
        b"{{",
        b"dummy",
    ];
    let mut counts = [false; 256];
    value.iter().for_each(|byte| counts[usize::from(*byte)] = true);
    let distinct = counts.iter().filter(|seen| **seen).count();
    let lower = value.to_ascii_lowercase();
    let has = |word: &&[u8]| memchr::memmem::find(&lower, word).is_some();
    distinct <= 3
        || value.contains(&0)
        || value.windows(3).any(|three| three == "…".as_bytes())
        || matches!(value, [b'<', .., b'>'] | [b'{', .., b'}'] | [b'%', .., b'%'] | [b'$', ..] | [b'[', .., b']'])
        || WORDS.iter().any(has)
}

/// Whether a value is made of words (`some-words-like-these-2`), as names and slugs are.
fn is_words(value: &[u8]) -> bool {
    let mut words = 0;
    let mut letters = 0;
    for word in value.split(|byte| !byte.is_ascii_alphanumeric()) {
        let lower = word.iter().all(u8::is_ascii_lowercase);
        let upper = word.iter().all(u8::is_ascii_uppercase);
        let title = word.split_first().is_some_and(|(_, rest)| rest.iter().all(u8::is_ascii_lowercase));
        if word.len() >= 2 && (lower || upper || title) && word.iter().all(u8::is_ascii_alphabetic) {
            words += 1;
            letters += word.len();
        }
    }
    words >= 2 && letters * 2 >= value.len()
}

/// Whether a value looks like one that a machine drew: digits among letters, no words, no placeholder.
fn is_random(value: &[u8], least: u16) -> bool {
    value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && entropy(value) >= least
        && !is_words(value)
        && !is_placeholder(value)
}

#[cfg(test)]
mod tests;
