//! A JSON value without its spelling, for digests: writers that read a document and write it again sort its members
//! (Go, serde_json), leave a fraction of zero out (JavaScript), or escape what needs no escape (Python).

use super::{Kind, Value};

/// Stands for a quote: no byte of a decoded string.
const QUOTE: u8 = 0xff;
/// From here on not every integer is a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Members in order of their names, strings decoded, no blanks; integers as their digits, other numbers as doubles.
/// Depth is bounded by the scanner's.
pub fn canonical(value: Value<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.span().len());
    write(value, &mut out);
    out
}

fn write(value: Value<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        Kind::Null | Kind::Bool => out.extend_from_slice(value.raw()),
        Kind::Number => number(value.raw(), out),
        Kind::String => string(&value.text().unwrap_or_default(), out),
        Kind::Array => {
            out.push(b'[');
            for item in value.items() {
                write(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        Kind::Object => {
            out.push(b'{');
            let mut members: Vec<_> =
                value.members().map(|(name, value)| (name.text().unwrap_or_default(), value)).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            for (name, value) in members {
                string(&name, out);
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(QUOTE);
    out.extend_from_slice(text);
    out.push(QUOTE);
}

fn number(raw: &[u8], out: &mut Vec<u8>) {
    if raw != b"-0" && raw.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) {
        out.extend_from_slice(raw);
        return;
    }
    let double = std::str::from_utf8(raw).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    if double.fract() == 0.0 && double.abs() < EXACT {
        // Minus zero is zero; the cast is exact below 2^53.
        out.extend_from_slice((double as i64).to_string().as_bytes());
    } else {
        out.push(b'#');
        out.extend_from_slice(&double.to_bits().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::json::{JsonLimits, parse};
    use crate::engine::layer::Layer;
    use bumpalo::Bump;
    use proptest::prelude::*;

    fn of(text: &str) -> Vec<u8> {
        let bump = Bump::new();
        let layer = Layer::record(&bump, bump.alloc_slice_copy(text.as_bytes()));
        canonical(parse(&bump, layer, JsonLimits::default()).unwrap())
    }

    #[test]
    fn spelling_alone_makes_no_difference() {
        for (a, b) in [
            (r#"{"a":["\u00e9\/<",1.0],"b":2}"#, "{ \"b\" : 2, \"a\" : [\n\"é/\\u003c\" , 1 ] }\n"),
            (r#"[" a  b "]"#, r#"[ " a  b " ]"#),
            (r#"["\ud83d\ude00\ud83d"]"#, r#"["😀\uD83D"]"#),
            ("[1e2,-0,0.50]", "[100,0,0.5]"),
            (r#"{"a":1e300}"#, r#"{"a":10e299}"#),
        ] {
            assert_eq!(of(a), of(b), "{a} {b}");
        }
    }

    #[test]
    fn what_it_says_does() {
        for (a, b) in [
            (r#"["a b"]"#, r#"["ab"]"#),
            (r#"["a","b"]"#, r#"["a\",\"b"]"#),
            (r#"[1,2]"#, "[12]"),
            ("[[1],2]", "[[1,2]]"),
            (r#"{"a":"1"}"#, r#"{"a":1}"#),
            (r#"{"a":null}"#, "{}"),
            (r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":1,"c":2}}"#),
            ("[1,2]", "[2,1]"),
            ("[9007199254740993]", "[9007199254740992]"),
            (r#""true""#, "true"),
            ("[]", "{}"),
        ] {
            assert_ne!(of(a), of(b), "{a} {b}");
        }
    }

    fn document() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![any::<String>().prop_map(Value::from), any::<i32>().prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let object = prop::collection::btree_map(any::<String>(), inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                object.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn escaped(c: char) -> String {
        let mut units = [0; 2];
        match c.is_ascii() {
            true => c.to_string(),
            false => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
        }
    }

    proptest! {
        #[test]
        fn any_document_in_any_spelling(value in document(), other in document()) {
            let compact = value.to_string();
            let ascii: String = compact.chars().map(escaped).collect();
            prop_assert_eq!(of(&compact), of(&serde_json::to_string_pretty(&value).unwrap()));
            prop_assert_eq!(of(&compact), of(&ascii));
            prop_assert_eq!(of(&compact) == of(&other.to_string()), value == other);
        }
    }
}
