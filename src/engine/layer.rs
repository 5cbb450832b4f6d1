//! Layers: a record as a stack of encodings, each of which maps decoded ranges back to source ranges.
//!
//! A record is bytes; inside it may stand a JSON string, inside that server-sent events, inside one of
//! them JSON again. Every decoded text is a [`Layer`] that knows where it came from, so a finding can be
//! located (`at`) and an edit made in the innermost text can be lowered to byte ranges of the record.
//! Nothing is ever re-serialised: bytes outside an edit stay identical.
//!
//! Decoded strings are WTF-8: a lone surrogate escape (`\ud83d`) becomes its three-byte form, so that two
//! halves which stand in two fragments can be joined again, and offsets stay exact.
//!
//! Mapping tables are not stored. A layer keeps only its source span and its codec; the source is walked
//! again in the rare case that a range must be mapped.
//!
//! Invariants: a layer's bytes are what its codec makes of its source; layers form a tree under one root;
//! [`splice()`] changes no byte outside the lowered edits, and what it cannot lower exactly it refuses.
//!
//! Left out: a layer for compressed bytes (none of the wire formats carries them).

mod base64;
pub(in crate::engine) mod json_string;
mod merge;
mod splice;
pub(in crate::engine) mod sse;

use bumpalo::Bump;
use std::fmt;
use std::ops::Range;

/// A text and where it came from. Allocated in the step's arena, referred to by `&'r Layer<'r>`. `Debug`
/// shows no text.
pub struct Layer<'r> {
    /// The decoded bytes of this layer (WTF-8 for JSON strings, raw bytes for base64).
    pub bytes: &'r [u8],
    /// The span of the parent that this layer decodes, quotes of a JSON string included; `None` for the record.
    pub source: Option<Span<'r>>,
    /// How `source` becomes `bytes`.
    pub codec: Codec,
    /// The step that `at` shows for this layer, `None` where it shows none (the record, the envelope).
    pub step: Step,
}

/// How a layer's source is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Codec {
    /// The record itself, or a part of the parent taken as it stands.
    Slice,
    /// A JSON string literal, quotes included.
    JsonString,
    /// The `data:` lines of one server-sent event, joined with `\n`; the source is the whole event.
    SseData,
    /// Standard or URL-safe base64, padding optional; the source is the text without quotes.
    Base64,
}

/// What a layer is called in a verdict's `at` list (`CONTRACT`: `data`, `arguments`, `sse`, `json`, `base64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Shows nothing: the record, or the structured envelope around `data`.
    Hidden,
    /// The event's data.
    Data,
    /// The assembled arguments of a call.
    Arguments,
    /// The text between events and the nth event of a stream.
    Sse { event: u32 },
    /// JSON inside a string or an event.
    Json,
    /// Bytes decoded from base64.
    Base64,
}

/// A byte range of a layer's decoded bytes.
#[derive(Debug, Clone, Copy)]
pub struct Span<'r> {
    pub layer: &'r Layer<'r>,
    pub start: u32,
    pub end: u32,
}

impl<'r> Span<'r> {
    pub fn bytes(&self) -> &'r [u8] {
        &self.layer.bytes[self.start as usize..self.end as usize]
    }
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Why a layer could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerError {
    /// Not valid in the codec, at this offset of the source span.
    Invalid { at: u32 },
}

impl<'r> Layer<'r> {
    /// The record: the outermost layer.
    pub fn record(bump: &'r Bump, bytes: &'r [u8]) -> &'r Layer<'r> {
        bump.alloc(Layer { bytes, source: None, codec: Codec::Slice, step: Step::Hidden })
    }
    /// A text assembled from decoded fragments: an outermost layer too. Like the strings it was made of it
    /// may hold lone surrogates in three bytes, and JSON in it is scanned with them allowed.
    pub fn assembled(bump: &'r Bump, bytes: &'r [u8], step: Step) -> &'r Layer<'r> {
        bump.alloc(Layer { bytes, source: None, codec: Codec::JsonString, step })
    }
    /// The whole of this layer.
    pub fn span(&'r self) -> Span<'r> {
        Span { layer: self, start: 0, end: self.bytes.len() as u32 }
    }
    /// A part of a layer taken as it stands (the `data` member of a structured event).
    pub fn slice(bump: &'r Bump, source: Span<'r>, step: Step) -> &'r Layer<'r> {
        bump.alloc(Layer { bytes: source.bytes(), source: Some(source), codec: Codec::Slice, step })
    }
    /// Decodes a JSON string literal (quotes included). Borrows where nothing is escaped.
    ///
    /// # Errors
    /// The source is not exactly one literal, or not UTF-8 (surrogates in three bytes pass if it lies in
    /// the text of another JSON string).
    pub fn json_string(bump: &'r Bump, source: Span<'r>, step: Step) -> Result<&'r Layer<'r>, LayerError> {
        match json_string::check(source.bytes(), source.layer.is_wtf8()) {
            Ok(escaped) => Ok(Self::checked_json_string(bump, source, escaped, step)),
            Err(at) => Err(LayerError::Invalid { at: at as u32 }),
        }
    }

    /// Decodes a literal that the scanner has accepted.
    pub(super) fn checked_json_string(bump: &'r Bump, source: Span<'r>, escaped: bool, step: Step) -> &'r Layer<'r> {
        let literal = source.bytes();
        let bytes = if escaped { json_string::decode_in(bump, literal) } else { &literal[1..literal.len() - 1] };
        bump.alloc(Layer { bytes, source: Some(source), codec: Codec::JsonString, step })
    }

    /// The data of one server-sent event: its `data:` lines joined with `\n`. The source starts at a line
    /// start (behind a byte order mark) and ends with the event; a blank line ends it at the latest.
    /// Borrows where there is one data line. `None` if there is none.
    pub fn sse_data(bump: &'r Bump, source: Span<'r>, step: Step) -> Option<&'r Layer<'r>> {
        let bytes = sse::decode_in(bump, source.bytes())?;
        Some(bump.alloc(Layer { bytes, source: Some(source), codec: Codec::SseData, step }))
    }

    /// Decodes base64 text: standard or URL-safe, padded or not, no white space.
    ///
    /// # Errors
    /// A byte outside the alphabet (the two are not mixed), misplaced padding, an impossible length.
    pub fn base64(bump: &'r Bump, source: Span<'r>, step: Step) -> Result<&'r Layer<'r>, LayerError> {
        let bytes = base64::decode_in(bump, source.bytes()).map_err(|at| LayerError::Invalid { at: at as u32 })?;
        Ok(bump.alloc(Layer { bytes, source: Some(source), codec: Codec::Base64, step }))
    }

    /// True if lone surrogates may stand in the bytes in their three-byte form.
    pub fn is_wtf8(&self) -> bool {
        self.codec == Codec::JsonString
    }
}

impl fmt::Debug for Layer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer")
            .field("len", &self.bytes.len())
            .field("codec", &self.codec)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// The steps of `at` that lead to a layer, outermost first, hidden ones left out.
pub fn steps(layer: &Layer<'_>) -> Vec<Step> {
    let sources = std::iter::successors(Some(layer), |layer| Some(layer.source?.layer));
    let mut steps: Vec<Step> = sources.map(|layer| layer.step).filter(|step| *step != Step::Hidden).collect();
    steps.reverse();
    steps
}

/// The range of `root` in which a span of a layer below it stands.
///
/// The range is exact, except that base64 widens it to whole groups, and that a range over several `data:`
/// lines holds the lines between them. `None` if an end of the span lies inside an escape or a character,
/// or if the layer does not descend from `root`.
pub fn map_range<'r>(span: Span<'r>, root: &'r Layer<'r>) -> Option<Range<u32>> {
    splice::map_range(span, root).map(|(start, end)| start as u32..end as u32)
}

/// One replacement: the decoded bytes of `span` become `with` (in the terms of that layer, so text for a
/// JSON string layer, JSON for a JSON document).
#[derive(Debug, Clone)]
pub struct Edit<'r> {
    pub span: Span<'r>,
    pub with: Vec<u8>,
    /// The code of the policy that asked for it; none: it is the engine's own.
    pub by: Option<&'static str>,
}

impl<'r> Edit<'r> {
    pub fn new(span: Span<'r>, with: Vec<u8>) -> Self {
        Self { span, with, by: None }
    }
}

/// An edit that cannot be made exactly: it cuts an escape or a character, two edits overlap, or a codec
/// cannot carry the replacement. The action becomes `block`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotExact;

/// Lowers edits of any layers to the record and splices them in one pass. `root` is the layer whose new
/// bytes are wanted (the record; or an assembled text, whose layer has no source either).
/// Edits are in any order; equal edits are one; overlapping ones are [`NotExact`]. Edits may touch; an
/// empty span is an insertion, and two different insertions at one place overlap.
///
/// # Errors
/// [`NotExact`], also for an edit of a layer that does not descend from `root`.
pub fn splice<'r>(root: &'r Layer<'r>, edits: &[Edit<'r>]) -> Result<Vec<u8>, NotExact> {
    splice::splice(root, edits, &splice::strictly)
}

/// Like [`splice()`], for edits of which none knows of the others: those that meet in a layer are merged, by the
/// rule at the head of `layer/merge.rs`. `is_json` tells an array or object from other text.
///
/// # Errors
/// [`NotExact`], also where a merge could keep a byte that somebody replaced, or break JSON.
pub fn merge<'r>(
    root: &'r Layer<'r>,
    edits: &[Edit<'r>],
    is_json: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, NotExact> {
    splice::splice(root, edits, &|text, changes, rewritten| merge::settle(text, changes, rewritten, is_json))
}

/// The bytes of a span with the edits that stand within it, of its layer or of layers below, merged.
///
/// # Errors
/// As for [`merge`], and if an edit reaches out of the span.
pub fn merge_span<'r>(
    span: Span<'r>,
    edits: &[Edit<'r>],
    is_json: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, NotExact> {
    splice::splice_span(span, edits, &|text, changes, rewritten| merge::settle(text, changes, rewritten, is_json))
}

/// Whether edits of layers below `layer` can be merged and made exactly, as far as `layer`'s own bytes. All are
/// lowered in one pass, so that many edits of one long text cost what one does.
pub fn can_merge<'r>(layer: &'r Layer<'r>, edits: &[Edit<'r>], is_json: &dyn Fn(&[u8]) -> bool) -> bool {
    splice::lowered(layer, edits, &|text, changes, rewritten| merge::settle(text, changes, rewritten, is_json)).is_ok()
}

/// The outermost layer around this one.
pub fn root<'r>(layer: &'r Layer<'r>) -> &'r Layer<'r> {
    let mut layer = layer;
    while let Some(source) = layer.source {
        layer = source.layer;
    }
    layer
}
