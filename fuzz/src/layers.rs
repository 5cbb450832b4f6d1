//! Layers: a text that stands in others is edited, and read again.
//!
//! The input is a line of steps from the record to the text (`j` JSON string, `b` base64, `s0` data of the first
//! server-sent event, `d0` first string of a document, `m0` first value of one as it stands), a line with two
//! bytes for a range of the text and its replacement, and the record.

use super::{digit, split};
use bumpalo::Bump;
use sluicegate::engine::json::{JsonLimits, Kind, Value, parse};
use sluicegate::engine::layer::{Edit, Layer, Span, Step, map_range, root, splice, steps};
use sluicegate::engine::provider::sse::events;

pub fn run(data: &[u8]) {
    let (path, rest) = split(data, b"\n");
    let (edit, record) = split(rest.unwrap_or_default(), b"\n");
    let (path, record) = (way(path), record.unwrap_or_default());
    let bump = Bump::new();
    let record = Layer::record(&bump, record);
    let Some(leaf) = open(&bump, record, &path) else { return };
    assert!(std::ptr::eq(root(leaf), record) && steps(leaf).len() <= path.len());
    assert_eq!(splice(record, &[]).as_deref(), Ok(record.bytes));
    assert!(map_range(leaf.span(), record).is_some(), "the whole of a layer stands somewhere");

    let place = |byte: Option<&u8>| digit(byte) % (leaf.bytes.len() + 1);
    let (a, b) = (place(edit.first()), place(edit.get(1)));
    let (start, end, with) = (a.min(b), a.max(b), edit.get(2..).unwrap_or_default());
    let span = Span { layer: leaf, start: start as u32, end: end as u32 };
    let range = map_range(span, record);
    let change = Edit::new(span, with.to_vec());
    let Ok(spliced) = splice(record, &[change.clone(), change]) else { return };
    let range = range.expect("what was spliced has a place");
    assert!(spliced.starts_with(&record.bytes[..range.start as usize]), "bytes before the edit changed");
    // Within base64 everything behind may move.
    if path.iter().all(|(step, _)| *step != b'b') {
        assert!(spliced.ends_with(&record.bytes[range.end as usize..]), "bytes behind the edit changed");
    }
    if reads_back(&path) {
        let again = Layer::record(&bump, bump.alloc_slice_copy(&spliced));
        let edited = [&leaf.bytes[..start], with, &leaf.bytes[end..]].concat();
        let leaf = open(&bump, again, &path).expect("the text can still be reached");
        assert_eq!(leaf.bytes, edited);
    }
}

fn way(path: &[u8]) -> Vec<(u8, usize)> {
    let steps = path.iter().enumerate().filter(|(_, step)| b"jbsdm".contains(step));
    steps.map(|(at, step)| (*step, digit(path.get(at + 1)))).take(6).collect()
}

/// Whether an edit leaves the way to the text open: a value taken as it stands may stop being one.
fn reads_back(path: &[(u8, usize)]) -> bool {
    path.iter()
        .zip(path.iter().skip(1).map(|(step, _)| *step).chain([b' ']))
        .all(|((step, _), next)| *step != b'm' || b"jdm".contains(&next))
}

fn open<'r>(bump: &'r Bump, layer: &'r Layer<'r>, path: &[(u8, usize)]) -> Option<&'r Layer<'r>> {
    path.iter().try_fold(layer, |layer, (step, n)| match step {
        b'j' => Layer::json_string(bump, layer.span(), Step::Json).ok(),
        b'b' => Layer::base64(bump, layer.span(), Step::Base64).ok(),
        b's' => events(bump, layer).nth(*n).map(|event| event.data),
        b'd' => {
            let text = |value: &Value<'r>| value.kind() == Kind::String;
            values(bump, layer)?.filter(text).nth(*n)?.text_layer(bump, Step::Json)?.ok()
        }
        _ => values(bump, layer)?.nth(*n).map(|value| Layer::slice(bump, value.span(), Step::Data)),
    })
}

/// The values of a document, names left out.
fn values<'r>(bump: &'r Bump, layer: &'r Layer<'r>) -> Option<impl Iterator<Item = Value<'r>>> {
    let document = parse(bump, layer, JsonLimits::default()).ok()?;
    Some(document.walk().filter(|(_, is_key)| !is_key).map(|(value, _)| value))
}
