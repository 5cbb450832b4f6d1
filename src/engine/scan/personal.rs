//! Personal data in a text: numbers that carry a check digit or a strict form, and addresses.
//!
//! Invariants: one pass of one expression without backtracking, so linear; a number is reported only where its
//! check digits hold or its punctuation is that of its kind, since plain digits are everywhere.
//!
//! Left out: names, postal addresses and dates of birth, which no format tells from other words.

use regex::bytes::{Captures, Regex};
use std::sync::LazyLock;

/// One piece of personal data: bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Personal {
    /// Of [`KINDS`].
    pub kind: &'static str,
    pub start: usize,
    pub end: usize,
}

pub const KINDS: [&str; 9] = ["card", "iban", "email", "phone", "us-ssn", "es-dni", "fr-nir", "br-cpf", "uk-nino"];

#[expect(clippy::expect_used, reason = "the expression is a constant, and every test of this file builds it")]
static FORMS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?-u)\b(?:",
        r"(?P<iban>[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?)",
        r"|(?P<email>[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24})",
        r"|(?P<ssn>[0-9]{3}-[0-9]{2}-[0-9]{4})",
        r"|(?P<cpf>[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2})",
        r"|(?P<nir>[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]) ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2})",
        r"|(?P<card>[2-6][0-9]{3}(?:[ -]?[0-9]{4}){3}|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})",
        r"|(?P<dni>[XYZ]?[0-9]{7,8}-?[A-Z])",
        r"|(?P<nino>[A-CEGHJ-PR-TW-Z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D])",
        r")\b",
        r"|(?P<phone>(?:\+[1-9][0-9]{0,2}|\(\+[1-9][0-9]{0,2}\))[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?[0-9]{2,4}(?:[ .-]?[0-9]{2,4}){1,4}\b",
        r"|\([2-9][0-9]{2}\) ?[2-9][0-9]{2}-[0-9]{4}\b)",
    ))
    .expect("the expression is valid")
});

/// The personal data of a text, in order.
pub fn find(text: &[u8]) -> Vec<Personal> {
    FORMS.captures_iter(text).filter_map(|hit| verify(text, &hit)).collect()
}

fn verify(text: &[u8], hit: &Captures<'_>) -> Option<Personal> {
    type Check = fn(&[u8]) -> bool;
    const GROUPS: [(&str, &str, Check); 9] = [
        ("iban", "iban", is_iban),
        ("email", "email", is_person),
        ("ssn", "us-ssn", is_ssn),
        ("cpf", "br-cpf", is_cpf),
        ("nir", "fr-nir", is_nir),
        ("card", "card", is_card),
        ("dni", "es-dni", is_dni),
        ("nino", "uk-nino", |_| true),
        ("phone", "phone", is_phone),
    ];
    let (kind, found, check) =
        GROUPS.iter().find_map(|(group, kind, check)| Some((*kind, hit.name(group)?, *check)))?;
    // A part of a longer number or name is none.
    let joined = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/' | b'='));
    let before = found.start().checked_sub(1).and_then(|at| text.get(at));
    let apart = !joined(before) && (kind == "email" || !joined(text.get(found.end())));
    let other = match kind {
        "email" => is_remote(text.get(found.end()..).unwrap_or_default()),
        _ => in_uuid(text, found.start(), found.end()),
    };
    (apart && !other && check(found.as_bytes())).then_some(Personal { kind, start: found.start(), end: found.end() })
}

/// Whether an address is not that of a repository's server, where everybody is one user.
fn is_person(text: &[u8]) -> bool {
    let user = text.split(|b| *b == b'@').next().unwrap_or_default();
    ![&b"git"[..], b"hg", b"svn"].iter().any(|known| user.eq_ignore_ascii_case(known))
}

/// A path on the machine follows, as `scp` and `rsync` write it.
fn is_remote(behind: &[u8]) -> bool {
    behind.starts_with(b":/") || behind.starts_with(b":~/")
}

/// Whether a number is a part of a UUID.
fn in_uuid(text: &[u8], start: usize, end: usize) -> bool {
    const LENGTH: usize = 36;
    let part = |b: &&u8| b.is_ascii_hexdigit() || **b == b'-';
    let before = text.get(..start).unwrap_or_default().iter().rev().take(LENGTH).take_while(part).count();
    let behind = text.get(end..).unwrap_or_default().iter().take(LENGTH).take_while(part).count();
    let whole = text.get(start - before..end + behind).unwrap_or_default();
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    whole.len() == LENGTH && whole.iter().enumerate().all(|(at, b)| (*b == b'-') == is_dash(at))
}

fn digits(text: &[u8]) -> Vec<u32> {
    text.iter().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0')).collect()
}

/// Luhn's check digit, and not one digit throughout.
fn is_card(text: &[u8]) -> bool {
    let digits = digits(text);
    let double = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits.iter().rev().enumerate().map(|(at, d)| if at % 2 == 1 { double(*d) } else { *d }).sum();
    sum.is_multiple_of(10) && digits.iter().any(|d| Some(d) != digits.first())
}

/// ISO 13616: the first four symbols moved to the end, letters as two digits, modulo 97 is 1.
fn is_iban(text: &[u8]) -> bool {
    let symbols: Vec<u8> = text.iter().copied().filter(|b| *b != b' ').collect();
    if !(15..=34).contains(&symbols.len()) {
        return false;
    }
    let (head, tail) = symbols.split_at(4);
    let value = |symbol: &u8| match symbol {
        b'0'..=b'9' => u32::from(symbol - b'0'),
        other => u32::from(other - b'A') + 10,
    };
    let step = |left: u32, symbol: &u8| {
        let value = value(symbol);
        (left * if value > 9 { 100 } else { 10 } + value) % 97
    };
    tail.iter().chain(head).fold(0, step) == 1
}

fn is_phone(text: &[u8]) -> bool {
    (8..=15).contains(&digits(text).len())
}

/// No area 000, 666 or from 900, no group 00, no number 0000; and none of those printed in advertisements.
fn is_ssn(text: &[u8]) -> bool {
    let number = |part: &[u8]| part.iter().fold(0u32, |n, b| n * 10 + u32::from(b - b'0'));
    let parts: Vec<u32> = text.split(|b| *b == b'-').map(number).collect();
    let [area, group, serial] = parts[..] else { return false };
    !matches!(area, 0 | 666 | 900..) && group != 0 && serial != 0 && (area, group, serial) != (78, 5, 1120)
}

fn is_cpf(text: &[u8]) -> bool {
    let digits = digits(text);
    let sum = |n: usize| {
        let sum: u32 = digits.iter().take(n).zip((2..=n as u32 + 1).rev()).map(|(d, weight)| d * weight).sum();
        match sum % 11 {
            0 | 1 => 0,
            rest => 11 - rest,
        }
    };
    digits.len() == 11
        && digits.iter().any(|d| Some(d) != digits.first())
        && digits.get(9) == Some(&sum(9))
        && digits.get(10) == Some(&sum(10))
}

/// The last two digits are 97 less the rest's remainder.
fn is_nir(text: &[u8]) -> bool {
    let digits = digits(text);
    let number = |digits: &[u32]| digits.iter().fold(0u64, |n, d| n * 10 + u64::from(*d));
    digits.split_at_checked(13).is_some_and(|(number_of, key)| 97 - number(number_of) % 97 == number(key))
}

/// The letter is that of the number's remainder by 23; `X`, `Y`, `Z` count as 0, 1, 2.
fn is_dni(text: &[u8]) -> bool {
    const LETTERS: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let first = match text.first() {
        Some(b'X') => Some(0),
        Some(b'Y') => Some(1),
        Some(b'Z') => Some(2),
        _ => None,
    };
    let digits = digits(text);
    if digits.len() != if first.is_some() { 7 } else { 8 } {
        return false;
    }
    let number = first.iter().chain(&digits).fold(0u32, |n, d| n * 10 + d);
    text.last() == LETTERS.get((number % 23) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_numbers_and_addresses() {
        for (text, kind) in [
            ("pay with 4111 1111 1111 1111 now", Some("card")),
            ("4111111111111111", Some("card")),
            ("3782-822463-10005", Some("card")),
            ("4111 1111 1111 1112", None),
            ("0x4111111111111111", None),
            ("DE89 3704 0044 0532 0130 00", Some("iban")),
            ("GB82WEST12345698765432", Some("iban")),
            ("GB82WEST12345698765433", None),
            ("write to jane.doe+x@mail.example.org, please", Some("email")),
            ("user@localhost", None),
            ("git@github.com:a/b", None),
            ("ssh://git@git.example.org/a", None),
            ("deploy@files.example.org:/srv/app", None),
            ("jane@mail.example.org:secret", Some("email")),
            ("gitta@mail.example.org", Some("email")),
            ("41111111-1111-1111-1111-111111111111", None),
            ("{41111111-1111-1111-1111-111111111111}", None),
            ("card-4111-1111-1111-1111", Some("card")),
            ("call +44 20 7946 0958", Some("phone")),
            ("call (212) 555-0134", Some("phone")),
            ("+1", None),
            ("SSN 219-09-9999", Some("us-ssn")),
            ("666-09-9999", None),
            ("12345678Z", Some("es-dni")),
            ("12345678A", None),
            ("X1234567L", Some("es-dni")),
            ("529.982.247-25", Some("br-cpf")),
            ("529.982.247-26", None),
            ("QQ 12 34 56 C", None),
            ("AB 12 34 56 C", Some("uk-nino")),
            ("version 1.2.3, 2024-01-01, 10.0.0.1, 1700000000000", None),
        ] {
            assert_eq!(find(text.as_bytes()).first().map(|p| p.kind), kind, "{text}");
        }
        let nir = b"2550814168025";
        let rest = nir.iter().fold(0u64, |n, b| n * 10 + u64::from(b - b'0')) % 97;
        let text = format!("{} {:02}", String::from_utf8_lossy(nir), 97 - rest);
        assert_eq!(find(text.as_bytes()).first().map(|p| p.kind), Some("fr-nir"), "{text}");
    }
}
