//! Secrets that no prefix begins: keys in PEM, tokens in parts, passwords in addresses, headers.

use super::tokens::Set;
use super::{Family, Secret, Verify, is_boundary, is_placeholder, is_random, keywords};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;

pub(super) static SHAPES: &[(&str, Verify)] = &[
    ("-----BEGIN ", pem),
    ("-----END ", pem_end),
    ("identified by ", keywords::identified),
    ("eyJ", jwt),
    ("://", userinfo),
    ("bearer ", bearer),
    ("basic ", basic),
    (":AA", telegram),
    (".atlasv1.", terraform),
    ("-us", mailchimp),
    ("Q~", azure_client),
    ("JQQJ99", azure_api),
    ("AZDO", azure_devops),
    ("AccountKey=", azure_account),
    ("SharedAccessKey=", azure_account),
    ("sig=", azure_signature),
    ("hooks.slack.com/services/", slack_webhook),
    ("/api/webhooks/", discord_webhook),
    ("webhook.office.com/webhookb2/", teams_webhook),
];

pub(super) const KINDS: &[&str] = &[
    "private-key",
    "jwt",
    "url-password",
    "connection-password",
    "bearer-token",
    "basic-auth",
    "telegram-bot-token",
    "terraform-token",
    "mailchimp-api-key",
    "azure-client-secret",
    "azure-api-key",
    "azure-devops-token",
    "azure-account-key",
    "azure-sas",
    "slack-webhook",
    "discord-webhook",
    "teams-webhook",
];

/// The longest header of a JWT that is decoded.
const JWT_HEADER: usize = 2048;

fn rest(text: &[u8], at: usize) -> &[u8] {
    text.get(at..).unwrap_or_default()
}

fn run(text: &[u8], at: usize, most: usize, set: Set) -> usize {
    rest(text, at).iter().take(most + 1).take_while(|byte| set.has(**byte)).count()
}

/// The longest run that ends before `at`.
fn run_back(text: &[u8], at: usize, most: usize, set: Set) -> usize {
    text.get(..at).unwrap_or_default().iter().rev().take(most + 1).take_while(|byte| set.has(**byte)).count()
}

/// A private key in PEM, its lines of BEGIN and END included; also with its line ends escaped. One that is cut
/// goes as far as its lines do.
fn pem(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    if text.get(start..end) != Some(b"-----BEGIN ".as_slice()) {
        return;
    }
    let label = rest(text, end);
    let length =
        label.iter().take(64).take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ').count();
    let name = label.get(..length).unwrap_or_default();
    let is_private = name.ends_with(b"PRIVATE KEY") || name.ends_with(b"PRIVATE KEY BLOCK");
    if !is_private || label.get(length..length + 5) != Some(b"-----") {
        return;
    }
    let body = end + length + 5;
    let stop = memmem::find(rest(text, body), b"-----").map_or(text.len(), |at| body + at);
    let marker = rest(text, stop);
    if marker.starts_with(b"-----END ") {
        let symbols = text.get(body..stop).unwrap_or_default().iter().filter(|byte| Set::Base64.has(**byte)).count();
        let tail = rest(marker, 9);
        let tail =
            tail.iter().take(64).take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ').count();
        let dashes = run_of_dashes(rest(marker, 9 + tail));
        if symbols >= 40 && !is_placeholder(text.get(body..stop).unwrap_or_default()) {
            found.push(Secret::sure("private-key", Family::PrivateKey, start, stop + 9 + tail + dashes));
        }
        return;
    }
    let body_end = body + lines(text.get(body..stop).unwrap_or_default());
    if body_end - body >= 40 {
        found.push(Secret::sure("private-key", Family::PrivateKey, start, body_end));
    }
}

/// A private key whose beginning is cut off: whole lines of base64 before its END, the first of them cut anywhere.
fn pem_end(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    let label = rest(text, end);
    let length =
        label.iter().take(64).take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ').count();
    let name = label.get(..length).unwrap_or_default();
    if text.get(start..end) != Some(b"-----END ".as_slice()) || !name.ends_with(b"PRIVATE KEY") {
        return;
    }
    let mut from = start;
    let mut at = start;
    let mut symbols = 0;
    loop {
        let before = text.get(..at).unwrap_or_default();
        at = match before {
            [rest @ .., b'\\', b'n' | b'r'] => rest.len(),
            [rest @ .., b'\n' | b'\r' | b' ' | b'\t'] => rest.len(),
            _ => {
                // The letter of an escaped line end is no symbol.
                let run = before.iter().rev().take_while(|byte| Set::Base64.has(**byte)).count();
                let escaped = text.get(..at - run).is_some_and(|text| text.ends_with(b"\\"));
                let line = run - usize::from(escaped && run > 0);
                if line == 0 || (line < 16 && symbols > 0 && line < at) {
                    break;
                }
                symbols += line;
                from = at - line;
                from
            }
        };
    }
    let body = text.get(from..start).unwrap_or_default();
    if symbols >= 40 && !is_placeholder(body) {
        let dashes = run_of_dashes(rest(label, length));
        found.push(Secret::sure("private-key", Family::PrivateKey, from, end + length + dashes));
    }
}

fn run_of_dashes(text: &[u8]) -> usize {
    text.iter().take(5).take_while(|byte| **byte == b'-').count()
}

/// How far lines of base64 go.
fn lines(body: &[u8]) -> usize {
    let mut end = 0;
    let mut at = 0;
    while at < body.len() {
        let gap = match rest(body, at) {
            [b'\\', b'n' | b'r', ..] => 2,
            [b, ..] if b.is_ascii_whitespace() => 1,
            _ => 0,
        };
        if gap > 0 {
            at += gap;
            continue;
        }
        let symbols = rest(body, at).iter().take_while(|byte| Set::Base64.has(**byte)).count();
        let last = at + symbols == body.len() || body.get(at + symbols - symbols.min(1)) == Some(&b'=');
        if symbols == 0 || (symbols < 16 && !last) {
            break;
        }
        at += symbols;
        end = at;
    }
    end
}

/// A JSON Web Token: three parts (five if encrypted), of which the first decodes to an object with `alg`.
fn jwt(text: &[u8], start: usize, _end: usize, found: &mut Vec<Secret>) {
    if text.get(start..start + 3) != Some(b"eyJ".as_slice()) || !is_boundary(text, start) {
        return;
    }
    if text.get(..start).and_then(<[u8]>::last) == Some(&b'-') {
        return;
    }
    let header = run(text, start, JWT_HEADER, Set::Url);
    let mut end = start + header;
    if header > JWT_HEADER || text.get(end) != Some(&b'.') {
        return;
    }
    let Ok(json) = URL_SAFE_NO_PAD.decode(text.get(start..end).unwrap_or_default()) else { return };
    let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(&json) else { return };
    if !object.contains_key("alg") {
        return;
    }
    let mut parts = 1;
    while parts < 5 && text.get(end) == Some(&b'.') {
        let part = rest(text, end + 1).iter().take_while(|byte| Set::Url.has(**byte)).count();
        if part == 0 && parts > 2 {
            break;
        }
        end += 1 + part;
        parts += 1;
    }
    if parts >= 3 && end - start >= header + 20 {
        found.push(Secret::sure("jwt", Family::Credential, start, end));
    }
}

/// `scheme://user:password@host`: the password.
fn userinfo(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    let scheme = run_back(text, start, 24, Set::Dash);
    if scheme == 0 {
        return;
    }
    let outside = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'<>\\`".contains(byte);
    let authority = rest(text, end);
    let length = authority.iter().position(outside).unwrap_or(authority.len());
    let authority = authority.get(..length).unwrap_or_default();
    let Some(at) = memchr::memrchr(b'@', authority) else { return };
    let user = authority.get(..at).unwrap_or_default();
    let Some(colon) = memchr::memchr(b':', user) else { return };
    let password = user.get(colon + 1..).unwrap_or_default();
    if password.len() < 3 || is_placeholder(password) || keywords::is_common_word(password) {
        return;
    }
    let scheme = text.get(start - scheme..start).unwrap_or_default().to_ascii_lowercase();
    let web = [b"http".as_slice(), b"https", b"ftp", b"ftps", b"sftp", b"ssh", b"git", b"ws", b"wss", b"socks5"];
    let kind = if web.contains(&scheme.as_slice()) { "url-password" } else { "connection-password" };
    found.push(Secret::sure(kind, Family::Password, end + colon + 1, end + at));
}

/// `Bearer` and a token that looks like one.
fn bearer(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    if !is_boundary(text, start) {
        return;
    }
    let symbol = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    let mut length = rest(text, end).iter().take(8192).take_while(|byte| symbol(byte)).count();
    while length > 0 && matches!(text.get(end + length - 1), Some(b'.')) {
        length -= 1;
    }
    let token = text.get(end..end + length).unwrap_or_default();
    if length >= 16 && is_random(token, 280) {
        found.push(Secret::sure("bearer-token", Family::Credential, end, end + length));
    }
}

/// `Basic` and base64 of a user and a password.
fn basic(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    if !is_boundary(text, start) {
        return;
    }
    let length = run(text, end, 1024, Set::Base64);
    if !(8..=1024).contains(&length) {
        return;
    }
    let token = text.get(end..end + length).unwrap_or_default();
    let decoded = STANDARD.decode(token).or_else(|_| STANDARD_NO_PAD.decode(token));
    let Ok(decoded) = decoded else { return };
    let Some(colon) = memchr::memchr(b':', &decoded) else { return };
    let printable = std::str::from_utf8(&decoded).is_ok_and(|text| !text.chars().any(char::is_control));
    let password = decoded.get(colon + 1..).unwrap_or_default();
    if printable && !password.is_empty() && !(is_placeholder(password) || keywords::is_common_word(password)) {
        found.push(Secret::sure("basic-auth", Family::Password, end, end + length));
    }
}

/// A bot's number, a colon, and 35 symbols that begin with `AA`.
fn telegram(text: &[u8], start: usize, _end: usize, found: &mut Vec<Secret>) {
    let digits = text.get(..start).unwrap_or_default().iter().rev().take(11).take_while(|b| b.is_ascii_digit()).count();
    let length = run(text, start + 1, 35, Set::Url);
    let body = text.get(start + 1..start + 1 + length).unwrap_or_default();
    let before = text.get(..start - digits).unwrap_or_default();
    let apart = is_boundary(text, start - digits) || before.ends_with(b"bot");
    if (8..=10).contains(&digits) && length == 35 && body.starts_with(b"AA") && apart && !is_placeholder(body) {
        found.push(Secret::sure("telegram-bot-token", Family::Credential, start - digits, start + 36));
    }
}

fn terraform(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    let id = run_back(text, start, 14, Set::Alnum);
    let length = run(text, end, 80, Set::Url);
    if id == 14 && (60..=80).contains(&length) && !is_placeholder(text.get(end..end + length).unwrap_or_default()) {
        found.push(Secret::sure("terraform-token", Family::Credential, start - id, end + length));
    }
}

/// 32 hex digits and a data centre.
fn mailchimp(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    let digits = rest(text, end).iter().take(3).take_while(|b| b.is_ascii_digit()).count();
    let key = run_back(text, start, 32, Set::Hex);
    let value = text.get(start - key..start).unwrap_or_default();
    if (1..=2).contains(&digits) && key == 32 && is_boundary(text, start - 32) && is_random(value, 250) {
        found.push(Secret::sure("mailchimp-api-key", Family::Credential, start - 32, end + digits));
    }
}

/// Three symbols and a digit, `Q~`, and 31 to 34 symbols.
fn azure_client(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    let symbol = |byte: &u8| Set::Dotted.has(*byte) || *byte == b'~';
    let before = text.get(start.saturating_sub(4)..start).unwrap_or_default();
    let length = rest(text, end).iter().take(35).take_while(|byte| symbol(byte)).count();
    let exact = text.get(start..end) == Some(b"Q~");
    let shaped = before.len() == 4 && before.iter().all(symbol) && before.last().is_some_and(u8::is_ascii_digit);
    let value = text.get(start - before.len()..end + length).unwrap_or_default();
    if exact && shaped && (31..=34).contains(&length) && is_boundary(text, start - 4) && is_random(value, 300) {
        found.push(Secret::sure("azure-client-secret", Family::Credential, start - 4, end + length));
    }
}

/// 84 symbols with the mark at the 53rd.
fn azure_api(text: &[u8], start: usize, _end: usize, found: &mut Vec<Secret>) {
    marked(text, (start, 52, 84), b"JQQJ99", "azure-api-key", found);
}

/// 84 symbols with the mark at the 77th.
fn azure_devops(text: &[u8], start: usize, _end: usize, found: &mut Vec<Secret>) {
    marked(text, (start, 76, 84), b"AZDO", "azure-devops-token", found);
}

/// A run of exactly `length` symbols with a mark at its place.
fn marked(
    text: &[u8],
    (start, place, length): (usize, usize, usize),
    mark: &[u8],
    kind: &'static str,
    found: &mut Vec<Secret>,
) {
    let before = run_back(text, start, place, Set::Alnum);
    let after = run(text, start, length - place, Set::Alnum);
    if rest(text, start).starts_with(mark) && before == place && after == length - place {
        found.push(Secret::sure(kind, Family::Credential, start - place, start + after));
    }
}

/// The key of a storage account, a bus, a hub, in its connection string.
fn azure_account(text: &[u8], _start: usize, end: usize, found: &mut Vec<Secret>) {
    let length = run(text, end, 88, Set::Base64);
    let value = text.get(end..end + length).unwrap_or_default();
    if matches!(length, 43..=88) && is_random(value, 300) {
        found.push(Secret::sure("azure-account-key", Family::Credential, end, end + length));
    }
}

/// The signature of a shared access signature: its other members stand near.
fn azure_signature(text: &[u8], start: usize, end: usize, found: &mut Vec<Secret>) {
    let symbol = |byte: &u8| Set::Base64.has(*byte) || *byte == b'%' || *byte == b'-' || *byte == b'_';
    let length = rest(text, end).iter().take(81).take_while(|byte| symbol(byte)).count();
    let value = text.get(end..end + length).unwrap_or_default();
    if !(43..=80).contains(&length) || !matches!(text.get(..start).and_then(<[u8]>::last), Some(b'?' | b'&' | b';')) {
        return;
    }
    let around = text.get(start.saturating_sub(400)..(end + length + 200).min(text.len())).unwrap_or_default();
    let says = |name: &[u8]| memmem::find(around, name).is_some();
    if (says(b"sv=") || says(b"sr=")) && says(b"se=") && is_random(value, 300) {
        found.push(Secret::sure("azure-sas", Family::Credential, end, end + length));
    }
}

fn slack_webhook(text: &[u8], _start: usize, end: usize, found: &mut Vec<Secret>) {
    let symbol = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'/';
    let length = rest(text, end).iter().take(81).take_while(|byte| symbol(byte)).count();
    let value = text.get(end..end + length).unwrap_or_default();
    if (30..=80).contains(&length) && !is_placeholder(value) {
        found.push(Secret::sure("slack-webhook", Family::Credential, end, end + length));
    }
}

fn discord_webhook(text: &[u8], _start: usize, end: usize, found: &mut Vec<Secret>) {
    let id = rest(text, end).iter().take(21).take_while(|b| b.is_ascii_digit()).count();
    let length = run(text, end + id + 1, 100, Set::Url);
    let start = end + id + 1;
    let value = text.get(start..start + length).unwrap_or_default();
    let slash = text.get(end + id) == Some(&b'/');
    if (17..=20).contains(&id) && slash && (60..=100).contains(&length) && !is_placeholder(value) {
        found.push(Secret::sure("discord-webhook", Family::Credential, start, start + length));
    }
}

fn teams_webhook(text: &[u8], _start: usize, end: usize, found: &mut Vec<Secret>) {
    let symbol = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'@');
    let length = rest(text, end).iter().take(301).take_while(|byte| symbol(byte)).count();
    let value = text.get(end..end + length).unwrap_or_default();
    if (100..=300).contains(&length) && !is_placeholder(value) {
        found.push(Secret::sure("teams-webhook", Family::Credential, end, end + length));
    }
}
