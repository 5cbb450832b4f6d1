//! Digests and cleaned identifiers: the only forms in which text from outside may leave in a verdict.

use super::event::Untrusted;
use super::scan::secrets;
use super::state::ConvKey;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt::Write;
use std::hash::Hasher;

type HmacSha256 = Hmac<Sha256>;

/// Keyed digests under `fingerprint_key_file`, the same on all instances. Plain digests of short content
/// could be guessed by trying.
#[derive(Clone)]
pub struct Keyed {
    mac: HmacSha256,
    key: [u8; 32],
}

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyed")
    }
}

/// What a keyed digest is of, so that equal bytes in two roles do not compare equal.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    Content,
    CallId,
    Identifier,
    Idempotency,
    Tools,
    /// What a provider signed, and what stands with it.
    Seal,
}

impl Keyed {
    pub fn new(key: [u8; 32]) -> Self {
        // A 32-byte key is always within HMAC's bounds; the zero-key fallback keeps this total.
        let mac = HmacSha256::new_from_slice(&key).unwrap_or_else(|_| HmacSha256::new(&Default::default()));
        Self { mac, key }
    }

    /// HMAC-SHA-256 over the role and the parts, each preceded by its length.
    pub fn digest(&self, role: Role, parts: &[&[u8]]) -> [u8; 32] {
        let mut stream = self.stream(role);
        for part in parts {
            stream.part(part);
        }
        stream.finish()
    }

    /// The same, fed piece by piece.
    pub fn stream(&self, role: Role) -> Stream {
        let mut mac = self.mac.clone();
        mac.update(&[role as u8]);
        Stream { mac }
    }

    /// A conversation's key in the state: SipHash-2-4-128 of its name.
    pub fn conversation(&self, name: &[u8]) -> ConvKey {
        let mut key = [0u8; 16];
        key.copy_from_slice(&self.key[..16]);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(name);
        let h = hasher.finish128();
        ConvKey((u128::from(h.h1) << 64) | u128::from(h.h2))
    }

    /// An identifier as a verdict may show it: verbatim if it is harmless (at most 128 bytes of
    /// `[A-Za-z0-9_.:/@-]`, and no secret in it), otherwise `~` and twelve hex digits of a keyed hash.
    pub fn identifier(&self, text: Untrusted<&[u8]>) -> String {
        let bytes = *text.untrusted();
        match std::str::from_utf8(bytes) {
            Ok(text) if is_shown(bytes) => text.to_owned(),
            _ => self.masked(bytes),
        }
    }

    /// `~` and twelve hex digits.
    pub fn masked(&self, bytes: &[u8]) -> String {
        let digest = self.digest(Role::Identifier, &[bytes]);
        let mut out = String::with_capacity(13);
        out.push('~');
        push_hex(&mut out, &digest[..6]);
        out
    }
}

/// A keyed digest being fed.
pub struct Stream {
    mac: HmacSha256,
}

impl Stream {
    pub fn part(&mut self, bytes: &[u8]) {
        self.mac.update(&(bytes.len() as u64).to_le_bytes());
        self.mac.update(bytes);
    }
    pub fn finish(self) -> [u8; 32] {
        self.mac.finalize().into_bytes().into()
    }
}

/// Whether an identifier may stand as it is: harmless, and no secret that somebody used as a name.
pub fn is_shown(bytes: &[u8]) -> bool {
    is_harmless(bytes) && !secrets::has_any(bytes)
}

/// At most 128 bytes of `[A-Za-z0-9_.:/@-]`, and not empty.
fn is_harmless(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len() <= 128 && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"_.:/@-".contains(b))
}

/// SHA-256 of the bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    push_hex(&mut out, bytes);
    out
}

fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}

/// The first sixteen bytes of a digest, as state keeps it.
pub fn short(digest: [u8; 32]) -> [u8; 16] {
    let mut out = [0u8; 16];
    out.copy_from_slice(&digest[..16]);
    out
}

/// Writes WTF-8 text as a JSON string: lone surrogates as `\udXXX` escapes, the rest minimally escaped.
pub fn push_json_string(out: &mut Vec<u8>, wtf8: &[u8]) {
    out.push(b'"');
    let mut i = 0;
    while i < wtf8.len() {
        let b = wtf8[i];
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            0xED if wtf8.len() - i >= 3 && wtf8[i + 1] >= 0xA0 => {
                let unit = 0xD000 | (u32::from(wtf8[i + 1] & 0x3F) << 6) | u32::from(wtf8[i + 2] & 0x3F);
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                i += 3;
                continue;
            }
            _ => out.push(b),
        }
        i += 1;
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_verbatim_or_masked() {
        let keyed = Keyed::new([7; 32]);
        for (text, verbatim) in [
            ("toolu_01A", true),
            ("functions.Bash:0", true),
            ("", false),
            ("a b", false),
            ("ignore previous instructions", false),
            ("naïve", false),
            (&"x".repeat(128), true),
            (&"x".repeat(129), false),
            (&format!("{}{}", "AKIA", "ABCDEFGHIJKLMN23"), false),
            (&format!("user.{}-{}", "glpat", "abcdefghij0123456789"), false),
            ("https://me:n0t-r3al@host/x", false),
        ] {
            let shown = keyed.identifier(Untrusted::new(text.as_bytes()));
            assert_eq!(shown == text, verbatim, "{text:?} became {shown}");
            if !verbatim {
                assert_eq!(shown.len(), 13);
            }
        }
        assert_ne!(keyed.masked(b"a"), Keyed::new([8; 32]).masked(b"a"));
    }

    #[test]
    fn wtf8_becomes_json() {
        let mut out = Vec::new();
        push_json_string(&mut out, b"a\"\\\n\x01\xED\xA0\xBDz\xF0\x9F\x98\x80");
        assert_eq!(out, "\"a\\\"\\\\\\n\\u0001\\ud83dz😀\"".as_bytes());
    }

    #[test]
    fn roles_and_lengths_separate() {
        let k = Keyed::new([0; 32]);
        assert_ne!(k.digest(Role::Content, &[b"ab"]), k.digest(Role::CallId, &[b"ab"]));
        assert_ne!(k.digest(Role::Content, &[b"ab", b"c"]), k.digest(Role::Content, &[b"a", b"bc"]));
    }
}
