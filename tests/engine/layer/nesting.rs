//! Random nestings: a text is wrapped up to four times, edited where it stands innermost, and read again.

use super::codecs::spell;
use super::{edit, edited};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use bumpalo::Bump;
use proptest::prelude::*;
use sluicegate::engine::json::{JsonLimits, Value, parse};
use sluicegate::engine::layer::{Codec, Layer, NotExact, Step, map_range, splice};
use sluicegate::engine::provider::sse::events;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A string in a JSON document.
    Text,
    /// The member of an envelope, taken as it stands.
    Slice,
    /// The second event of a stream.
    Stream,
    Base64,
}

#[derive(Debug, Clone)]
struct Wrap {
    kind: Kind,
    style: usize,
    spelling: Vec<u8>,
}

/// Wraps a text. Where it cannot be wrapped that way it becomes a string in a document.
fn wrap(text: Vec<u8>, inner: Option<Kind>, wrap: &Wrap) -> (Vec<u8>, Kind) {
    let is_document = matches!(inner, Some(Kind::Text | Kind::Slice));
    match wrap.kind {
        Kind::Slice if is_document => {
            let envelope = [&b"{\"specversion\":\"1.0\",\"data\": "[..], &text, b" ,\"x\":0}\n"];
            (envelope.concat(), Kind::Slice)
        }
        Kind::Stream if !text.contains(&b'\r') => (stream(&text, wrap.style), Kind::Stream),
        Kind::Base64 => (base64(&text, wrap.style).into_bytes(), Kind::Base64),
        _ => {
            let units: Vec<u16> = String::from_utf8(text).unwrap().encode_utf16().collect();
            let literal = spell(&units, &wrap.spelling);
            let start = b"{\"id\":\"\\u0061\",\n\"list\": [1, {\"v\":".as_slice();
            ([start, &literal, b"}],\n\n\"w\":\"ta\\u0069l\", \"n\":1.0e1}"].concat(), Kind::Text)
        }
    }
}

fn base64(bytes: &[u8], style: usize) -> String {
    match style % 4 {
        0 => STANDARD.encode(bytes),
        1 => STANDARD_NO_PAD.encode(bytes),
        2 => URL_SAFE.encode(bytes),
        _ => URL_SAFE_NO_PAD.encode(bytes),
    }
}

fn stream(text: &[u8], style: usize) -> Vec<u8> {
    let end = ["\n", "\r", "\r\n"][style % 3];
    let mut out = format!(": hello{end}event: first{end}data: {{}}{end}{end}{end}event:second{end}");
    for line in std::str::from_utf8(text).unwrap().split('\n') {
        let divider = match style / 3 % 2 {
            0 if line.is_empty() => "",
            0 if !line.starts_with(' ') => ":",
            _ => ": ",
        };
        out.extend(["data", divider, line, end]);
    }
    if style < 6 {
        out.extend(["id: 9", end, end, "data: last", end, end]);
    }
    out.into_bytes()
}

fn document<'r>(bump: &'r Bump, layer: &'r Layer<'r>) -> Value<'r> {
    parse(bump, layer, JsonLimits::default()).unwrap()
}

/// Undoes one wrapping.
fn open<'r>(bump: &'r Bump, layer: &'r Layer<'r>, kind: Kind) -> &'r Layer<'r> {
    match kind {
        Kind::Text => {
            let list = document(bump, layer).get("list").unwrap();
            let value = list.items().nth(1).unwrap().get("v").unwrap();
            value.text_layer(bump, Step::Json).unwrap().unwrap()
        }
        Kind::Slice => Layer::slice(bump, document(bump, layer).get("data").unwrap().span(), Step::Data),
        Kind::Stream => events(bump, layer).nth(1).unwrap().data,
        Kind::Base64 => Layer::base64(bump, layer.span(), Step::Base64).unwrap(),
    }
}

/// The innermost text, and the one that stands beside it in the innermost document.
fn open_all<'r>(bump: &'r Bump, record: &'r Layer<'r>, kinds: &[Kind]) -> (&'r Layer<'r>, Option<&'r Layer<'r>>) {
    let (mut layer, mut beside) = (record, None);
    for &kind in kinds.iter().rev() {
        if kind == Kind::Text {
            let tail = document(bump, layer).get("w").unwrap();
            beside = Some(tail.text_layer(bump, Step::Json).unwrap().unwrap());
        }
        layer = open(bump, layer, kind);
    }
    (layer, beside)
}

/// Where base64 stands around an innermost text, an edit may change all symbols from its own to the last.
fn may_change<'r>(mut layer: &'r Layer<'r>, record: &'r Layer<'r>) -> Option<u32> {
    let mut end = None;
    while let Some(source) = layer.source {
        if layer.codec == Codec::Base64 {
            end = Some(map_range(source, record).unwrap().end);
        }
        layer = source.layer;
    }
    end
}

fn arb_wrap() -> impl Strategy<Value = Wrap> {
    let kind = prop_oneof![
        3 => Just(Kind::Text),
        2 => Just(Kind::Slice),
        2 => Just(Kind::Stream),
        1 => Just(Kind::Base64),
    ];
    let spelling = prop::collection::vec(any::<u8>(), 0..8);
    (kind, 0..12usize, spelling).prop_map(|(kind, style, spelling)| Wrap { kind, style, spelling })
}

fn arb_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c \"\\\\/\n\t\u{1}é€😀]{0,24}", "(\r|\n| |x|\u{2028}|:|data: ){0,6}", any::<String>(),]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2500))]

    #[test]
    fn an_edit_changes_the_innermost_text_and_nothing_else(
        text in arb_text(),
        wraps in prop::collection::vec(arb_wrap(), 1..=4),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), arb_text()), 0..7),
        reversed: bool,
        also_beside: bool,
    ) {
        let (mut bytes, mut kinds) = (text.clone().into_bytes(), Vec::new());
        for layer in &wraps {
            let (wrapped, kind) = wrap(bytes, kinds.last().copied(), layer);
            bytes = wrapped;
            kinds.push(kind);
        }
        let bump = Bump::new();
        let record = Layer::record(&bump, &bytes);
        let (leaf, beside) = open_all(&bump, record, &kinds);
        prop_assert_eq!(leaf.bytes, text.as_bytes());
        prop_assert_eq!(splice(record, &[]).unwrap(), &bytes[..]);

        let boundaries: Vec<_> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
        let mut at: Vec<_> = cuts.iter().map(|(index, _)| *index.get(&boundaries)).collect();
        at.sort_unstable();
        let mut edits: Vec<_> = at.chunks_exact(2).zip(&cuts)
            .map(|(range, (_, with))| (range[0], range[1], with.clone().into_bytes()))
            .collect();
        edits.dedup_by_key(|(start, end, _)| (*start, *end));
        let mut given: Vec<_> = edits.iter().map(|(start, end, with)| edit(leaf, *start, *end, with)).collect();
        let beside = beside.filter(|_| also_beside);
        given.extend(beside.map(|layer| edit(layer, 1, 3, "\"\n")));
        if reversed {
            given.reverse();
        }

        let spliced = splice(record, &given);
        let carriage_return = edits.iter().any(|(.., with)| with.contains(&b'\r'));
        if kinds[0] == Kind::Stream && carriage_return {
            prop_assert_eq!(spliced, Err(NotExact));
            return Ok(());
        }
        let spliced = spliced.unwrap();
        let again = Layer::record(&bump, bump.alloc_slice_copy(&spliced));
        let (new_leaf, new_beside) = open_all(&bump, again, &kinds);
        prop_assert_eq!(new_leaf.bytes, &edited(text.as_bytes(), &edits)[..]);
        if beside.is_some() {
            prop_assert_eq!(new_beside.unwrap().bytes, b"t\"\nl");
        }

        // Outside the ranges the bytes stand as they stood, in order.
        let mut ranges: Vec<_> = given.iter().map(|edit| map_range(edit.span, record).unwrap()).collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        let Some(first) = ranges.first() else { return Ok(()) };
        let start = first.start as usize;
        prop_assert_eq!(&spliced[..start], &bytes[..start]);
        let base64_end = given.iter().filter_map(|edit| may_change(edit.span.layer, record)).max();
        let end = ranges.last().unwrap().end.max(base64_end.unwrap_or(0)) as usize;
        prop_assert!(spliced.ends_with(&bytes[end..]));
        if base64_end.is_none() {
            let mut rest = &spliced[start..];
            for gap in ranges.windows(2) {
                let kept = &bytes[gap[0].end as usize..gap[1].start as usize];
                let at = (0..=rest.len()).find(|&at| rest[at..].starts_with(kept));
                rest = &rest[at.unwrap() + kept.len()..];
            }
        }
    }
}
