//! Digests of what providers sign: of responses for the state, of echoed turns for the policies.
//!
//! Opaque fields are compared decoded: clients write standard base64 where the provider wrote the URL-safe one, or
//! leave the padding out. What is no base64 is compared as it stands. Text that is signed with a part comes in pieces,
//! cut anywhere: its digest is a keyed polynomial over its UTF-16 units, to which pieces can be added.

use super::Run;
use crate::engine::digest::{Keyed, Role, short};
use crate::engine::event::{Args, Event, Executor, Name, Provider};
use crate::engine::json::{Kind, Value, canonical};
use crate::engine::policy::{TurnKind, TurnView, open_loop};
use crate::engine::state::{Call, Session};
use std::borrow::Cow;

/// What Gemini takes in place of a signature, for history that it did not write.
const PLACEHOLDERS: [&[u8]; 2] = [b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go"];

impl<'r> Run<'_, 'r> {
    /// The provider signed a part of its response, or says more of one that it will sign.
    pub(super) fn signed(&self, session: &mut Session<'_>, exchange: Option<u32>, event: &Event<'r>) {
        let Some(exchange) = exchange else { return };
        match *event {
            Event::Signed { slot, of_call: true, seal, required, .. } => {
                session.seal_call(exchange, slot, seal_of(self.keyed(), seal), required);
            }
            Event::Signed { slot, of_call: false, seal, id, required } => {
                let id = id.map(|id| id_of(self.keyed(), id));
                session.seal_part(exchange, (slot, id), seal_of(self.keyed(), seal), required);
            }
            Event::Thought { slot, text } => {
                let units = Units::new(self.keyed());
                session.thought(exchange, slot, |so_far| units.add(so_far, text));
            }
            _ => {}
        }
    }

    /// What a call says, for its echo, where the provider signs calls.
    pub(super) fn echo_of(&self, session: &Session<'_>, call: &Call, args: Option<Value<'_>>) -> Option<[u8; 16]> {
        let provider = session.conversation().exchanges.get(&call.exchange).map(|exchange| exchange.provider);
        let signs = provider == Some(Provider::GeminiGenerateContent) && call.executor == Executor::Client;
        signs.then(|| said(self.keyed(), &call.name, args))
    }

    /// Puts the digests to the turns that the API compares with what it said.
    pub(super) fn sealed(&self, turns: &mut [TurnView<'r>]) {
        let Some(provider) = self.origin.provider else { return };
        let from = open_loop(turns, provider);
        let units = Units::new(self.keyed());
        for (n, turn) in turns.iter_mut().enumerate() {
            let Some(seal) = turn.at.seal else { continue };
            turn.placeholder = provider == Provider::GeminiGenerateContent && is_placeholder(seal);
            if n >= from {
                turn.seal = Some(seal_of(self.keyed(), seal));
                turn.thought = turn.at.whole.get("thinking").map_or([0; 2], |text| units.add([0; 2], text));
            }
        }
        for turn in turns.iter_mut().skip(from) {
            match turn.kind {
                TurnKind::Model(item) if matches!(provider, Provider::OpenAiResponses | Provider::XaiResponses) => {
                    let id = item.get("id").filter(|_| item.get("type").is_some_and(|kind| kind.is("reasoning")));
                    turn.id = id.filter(|id| id.kind() == Kind::String).map(|id| id_of(self.keyed(), id));
                }
                TurnKind::Call(facts) if provider == Provider::GeminiGenerateContent => {
                    let name = match facts.name {
                        Name::Wire(name) => name.text().unwrap_or_default(),
                        Name::Implied(_) | Name::None => Cow::default(),
                    };
                    let args = match facts.args {
                        Args::Raw(args) => Some(args),
                        Args::Text(_) | Args::Absent => None,
                    };
                    turn.said = Some(said(self.keyed(), &name, args));
                }
                _ => {}
            }
        }
    }
}

fn is_placeholder(seal: Value<'_>) -> bool {
    // Signatures are long: most are told by a look.
    if seal.raw().len() > 64 {
        return false;
    }
    let text = seal.text().unwrap_or_default();
    let decoded = decoded(&text).unwrap_or_default();
    PLACEHOLDERS.iter().any(|known| *known == &*text || *known == decoded)
}

/// A keyed polynomial over UTF-16 units, twice, modulo 2^61 - 1.
struct Units([u64; 2]);

impl Units {
    const MODULUS: u64 = (1 << 61) - 1;

    fn new(keyed: &Keyed) -> Self {
        let digest = keyed.digest(Role::Seal, &[b"thought"]);
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        Self([number(&digest[..8]) % Self::MODULUS, number(&digest[8..16]) % Self::MODULUS])
    }

    /// The digest of a text that goes on with this one. Halves of a pair count alone, so it does not matter whether
    /// they stand together.
    fn add(&self, so_far: [u64; 2], text: Value<'_>) -> [u64; 2] {
        let mut sums = so_far;
        let mut unit = |unit: u32| {
            for (sum, key) in sums.iter_mut().zip(self.0) {
                let next = u128::from(*sum) * u128::from(key) + u128::from(unit) + 1;
                *sum = (next % u128::from(Self::MODULUS)) as u64;
            }
        };
        let text = text.text().unwrap_or_default();
        let mut bytes = text.iter().copied();
        while let Some(first) = bytes.next() {
            let more = match first {
                0..=0x7F => 0,
                0x80..=0xDF => 1,
                0xE0..=0xEF => 2,
                _ => 3,
            };
            let lead = u32::from(first) & (0x7F >> (more + u32::from(more > 0)));
            let code = bytes.by_ref().take(more as usize).fold(lead, |code, byte| code << 6 | u32::from(byte & 0x3F));
            match code.checked_sub(0x1_0000) {
                Some(above) => {
                    unit(0xD800 | above >> 10);
                    unit(0xDC00 | above & 0x3FF);
                }
                None => unit(code),
            }
        }
        sums
    }
}

fn seal_of(keyed: &Keyed, seal: Value<'_>) -> [u8; 16] {
    let text = seal.text().unwrap_or_default();
    let bytes = decoded(&text).map_or(text, Cow::Owned);
    short(keyed.digest(Role::Seal, &[b"seal", &bytes]))
}

fn id_of(keyed: &Keyed, id: Value<'_>) -> [u8; 16] {
    short(keyed.digest(Role::Seal, &[b"id", &id.text().unwrap_or_default()]))
}

fn said(keyed: &Keyed, name: &[u8], args: Option<Value<'_>>) -> [u8; 16] {
    let mut stream = keyed.stream(Role::Seal);
    stream.part(b"said");
    stream.part(name);
    // No arguments are none, however that is written.
    stream.part(&args.filter(|args| !args.is_null()).map_or_else(|| b"{}".to_vec(), canonical));
    short(stream.finish())
}

/// Base64 of either alphabet, padded or not; `None` if it is none.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let text = text.get(..text.len() - padding).filter(|_| padding <= 2)?;
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    (text.len() % 4 != 1 && !text.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::json::{JsonLimits, parse};
    use crate::engine::layer::Layer;
    use bumpalo::Bump;

    fn with<T>(text: &str, then: impl FnOnce(Value<'_>) -> T) -> T {
        let bump = Bump::new();
        let layer = Layer::record(&bump, bump.alloc_slice_copy(text.as_bytes()));
        then(parse(&bump, layer, JsonLimits::default()).unwrap_or_else(|e| panic!("{e:?}: {text}")))
    }

    #[test]
    fn a_seal_is_what_it_decodes_to() {
        let keyed = Keyed::new([7; 32]);
        let seal = |text: &str| with(&format!("{text:?}"), |value| seal_of(&keyed, value));
        for (a, b) in [("+/+/", "-_-_"), ("QQ==", "QQ"), ("QUI=", "QUI"), ("c2lnbmVk", "c2lnbmVk")] {
            assert_eq!(seal(a), seal(b), "{a} {b}");
        }
        for (a, b) in [("QQ==", "QUI="), ("skip_thought_signature_validator", "c2lnbmVk"), ("a b", "ab"), ("A", "")] {
            assert_ne!(seal(a), seal(b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_said_is_a_value_not_its_spelling() {
        let keyed = Keyed::new([7; 32]);
        let digest = |text: &str| with(text, |value| said(&keyed, b"f", Some(value)));
        for (a, b) in [
            (r#"{"a":1,"b":"é"}"#, r#"{ "b":"\u00e9", "a":1.0 }"#),
            (r#"{"n":1e2}"#, r#"{"n":100}"#),
            (r#"{"n":-0}"#, r#"{"n":0}"#),
        ] {
            assert_eq!(digest(a), digest(b), "{a} {b}");
        }
        for (a, b) in [
            (r#"{"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":"1"}"#, r#"{"a":1}"#),
            (r#"{"a":[1,[2]]}"#, r#"{"a":[[1],2]}"#),
            (r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":1,"c":2}}"#),
            (r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
        ] {
            assert_ne!(digest(a), digest(b), "{a} {b}");
        }
        assert_eq!(digest("{}"), said(&keyed, b"f", None));
        assert_ne!(said(&keyed, b"f", None), said(&keyed, b"g", None));
    }

    #[test]
    fn a_thought_is_the_same_wherever_it_is_cut() {
        let units = Units::new(&Keyed::new([7; 32]));
        let add = |so_far, text: &str| with(text, |value| units.add(so_far, value));
        let whole = add([0; 2], r#""na\u00efve \ud83d\ude00 z\u0000""#);
        let mut pieces = [0; 2];
        for piece in [r#""na""#, r#""""#, "\"\u{ef}ve \"", r#""\ud83d""#, r#""\ude00 z""#, r#""\u0000""#] {
            pieces = add(pieces, piece);
        }
        assert_eq!(whole, pieces);
        for other in [r#""naive 😀 z\u0000""#, r#""naïve 😀 z""#, r#""\u0000naïve 😀 z""#, r#""naïve 😁 z\u0000""#]
        {
            assert_ne!(whole, add([0; 2], other), "{other}");
        }
    }

    #[test]
    fn placeholders_are_known_plain_and_encoded() {
        for (text, is) in [
            ("skip_thought_signature_validator", true),
            ("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", true),
            ("context_engineering_is_the_way_to_go", true),
            ("c2ln", false),
            ("", false),
        ] {
            assert_eq!(with(&format!("{text:?}"), is_placeholder), is, "{text}");
        }
    }
}
