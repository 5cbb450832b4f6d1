//! Cutting a result to a bound so that it stays valid for its provider: long texts first, then whole blocks
//! from the end, which one text block with a marker stands for.
//!
//! Addresses and names are never cut: half of one is another one. JSON that a protocol types (an MCP result's
//! `structuredContent`) gives only of its long strings, so that every value keeps its type.

use super::part_bytes;
use crate::engine::event::{Part, ResultItem, ResultShape};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Edit, Span, Step};
use crate::engine::policy::truncate::{self, Bound, LEAST_TEXT, LEAST_VALUE};
use bumpalo::Bump;

/// Members of a block that are cut with their block or not at all.
const WHOLE: [&str; 8] = ["mimeType", "name", "source", "title", "tool_name", "type", "uri", "url"];
/// A text is cut to this at least, as long as blocks can be left out instead.
const LEAST_PART: usize = 256;
/// Bytes for the marker that stands for blocks.
const NOTICE: usize = 72;
/// What a list of blocks can be cut to at least, where nothing that counts stands beside it.
const LEAST_BLOCKS: usize = 96;

/// A part that counts.
struct Piece<'r> {
    part: Part<'r>,
    size: usize,
    /// What it can be cut to at least.
    least: usize,
}

/// What [`cut()`] can make at least of a result of a request, in bytes of its texts.
pub(super) fn least(result: &ResultItem<'_>) -> usize {
    match block_type(result) {
        Some(_) => LEAST_BLOCKS,
        None => pieces(result, LEAST_TEXT).iter().map(|piece| piece.least).sum(),
    }
}

/// The edits that bring the result's texts to at most the cap. `None`: it cannot be cut and stay valid.
pub(super) fn cut<'r>(bump: &'r Bump, result: &ResultItem<'r>, bound: Bound) -> Option<Vec<Edit<'r>>> {
    let Some((blocks, kind)) = block_type(result) else {
        return to_level(bump, &pieces(result, LEAST_TEXT), bound, result.shape);
    };
    let pieces = pieces(result, LEAST_PART.min(bound.cap / 2));
    to_level(bump, &pieces, bound, result.shape)
        .or_else(|| leave_out(bump, pieces, (blocks, kind), bound, result.shape))
}

/// The list of blocks of which some can be left out, and the type of the text block that can stand for them.
fn block_type<'r>(result: &ResultItem<'r>) -> Option<(Value<'r>, &'static str)> {
    let kind = match result.shape {
        ResultShape::AnthropicToolResult | ResultShape::ChatTool | ResultShape::McpResult => "text",
        ResultShape::ResponsesOutput => "input_text",
        _ => return None,
    };
    result.content.filter(|content| content.kind() == Kind::Array).map(|content| (content, kind))
}

fn pieces<'r>(result: &ResultItem<'r>, least_text: usize) -> Vec<Piece<'r>> {
    let piece = |part: &Part<'r>| {
        let size = part_bytes(part);
        let least = match part {
            Part::Text(value) if is_whole(*value) => size,
            Part::Text(_) => size.min(least_text.max(LEAST_TEXT)),
            Part::Json(value) if is_typed(result.shape) => truncate::least_typed(*value),
            Part::Json(_) => size.min(LEAST_VALUE),
            Part::Media { .. } | Part::Opaque { .. } => return None,
        };
        Some(Piece { part: *part, size, least })
    };
    result.parts.iter().filter_map(piece).collect()
}

fn is_whole(value: Value<'_>) -> bool {
    value.key().is_some_and(|key| WHOLE.iter().any(|name| key.is(name)))
}

/// Whether JSON in such a result has a form that its readers check.
fn is_typed(shape: ResultShape) -> bool {
    matches!(shape, ResultShape::McpResult | ResultShape::McpAnswer)
}

/// Cuts the largest pieces to a common level.
fn to_level<'r>(bump: &'r Bump, pieces: &[Piece<'r>], bound: Bound, shape: ResultShape) -> Option<Vec<Edit<'r>>> {
    let sizes: Vec<(usize, usize)> = pieces.iter().map(|piece| (piece.size, piece.least)).collect();
    let level = truncate::level_above(&sizes, bound.cap)?;
    let mut edits = Vec::new();
    for piece in pieces {
        let bound = Bound { cap: level.max(piece.least), ..bound };
        if piece.size <= bound.cap {
            continue;
        }
        match piece.part {
            Part::Text(value) => edits.extend(truncate::text(bump, value.text_layer(bump, Step::Hidden)?.ok()?, bound)),
            Part::Json(value) if is_typed(shape) => edits.extend(truncate::typed(bump, value, bound)?),
            Part::Json(value) => edits.extend(truncate::value(bump, value, bound)),
            Part::Media { .. } | Part::Opaque { .. } => {}
        }
    }
    Some(edits)
}

/// Leaves out blocks from the end until the least of the others has room.
fn leave_out<'r>(
    bump: &'r Bump,
    pieces: Vec<Piece<'r>>,
    (list, kind): (Value<'r>, &str),
    bound: Bound,
    shape: ResultShape,
) -> Option<Vec<Edit<'r>>> {
    let blocks: Vec<Span<'r>> = list.items().map(|block| block.span()).collect();
    let whole = list.span();
    let (inside, beside): (Vec<Piece<'r>>, Vec<Piece<'r>>) = pieces.into_iter().partition(|piece| {
        let (Part::Text(value) | Part::Json(value)) = piece.part else { return false };
        let span = value.span();
        std::ptr::eq(span.layer, whole.layer) && whole.start <= span.start && span.end <= whole.end
    });
    let room = bound.cap.checked_sub(NOTICE)?;
    let mut used: usize = beside.iter().map(|piece| piece.least).sum();
    let mut rest = inside.into_iter().peekable();
    let mut kept_pieces = beside;
    let mut kept = 0_usize;
    for block in &blocks {
        let mut own = Vec::new();
        while let Some(piece) = rest.next_if(|piece| start_of(piece) < block.end) {
            own.push(piece);
        }
        let least: usize = own.iter().map(|piece| piece.least).sum();
        if used + least > room {
            break;
        }
        used += least;
        kept += 1;
        kept_pieces.extend(own);
    }
    let mut edits = to_level(bump, &kept_pieces, Bound { cap: room, ..bound }, shape)?;
    let last = blocks.last()?;
    let start = match kept.checked_sub(1) {
        Some(ix) => blocks.get(ix)?.end,
        None => blocks.first()?.start,
    };
    let omitted = Span { start, end: last.end, ..whole };
    let marker = truncate::parts_marker(blocks.len() - kept, blocks.len(), omitted.len());
    let comma = if kept > 0 { "," } else { "" };
    let with = format!("{comma}{{\"type\":\"{kind}\",\"text\":\"{marker}\"}}").into_bytes();
    edits.push(Edit::new(omitted, with));
    Some(edits)
}

fn start_of(piece: &Piece<'_>) -> u32 {
    match piece.part {
        Part::Text(value) | Part::Json(value) | Part::Media { value, .. } | Part::Opaque { value, .. } => {
            value.span().start
        }
    }
}
