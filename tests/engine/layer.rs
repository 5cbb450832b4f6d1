//! Layers: decoding, mapping, splicing; by table for each codec and as properties over random nestings.

#[path = "layer/codecs.rs"]
mod codecs;
#[path = "layer/merge.rs"]
mod merge;
#[path = "layer/nesting.rs"]
mod nesting;
#[path = "layer/sse.rs"]
mod sse;

use sluicegate::engine::layer::{Edit, Layer, Span};

/// An edit of a range of a layer.
fn edit<'r>(layer: &'r Layer<'r>, start: usize, end: usize, with: impl AsRef<[u8]>) -> Edit<'r> {
    let (start, end) = (start as u32, end as u32);
    Edit::new(Span { layer, start, end }, with.as_ref().to_vec())
}

/// A text with edits made, given in order.
fn edited(text: &[u8], edits: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    for (start, end, with) in edits {
        out.extend_from_slice(&text[at..*start]);
        out.extend_from_slice(with);
        at = *end;
    }
    out.extend_from_slice(&text[at..]);
    out
}
