//! Server-sent events: the framing of a raw stream, undone as a layer.
//!
//! Place in the journey: a chunk that is `text/event-stream` becomes its events here, before a provider
//! file reads each event's data as JSON. Framing follows the WHATWG HTML standard ("Interpreting an event
//! stream"): CR, LF and CRLF end lines, a byte order mark at the start is skipped, lines that start with a
//! colon are comments, one space behind a field's colon is not part of its value.
//!
//! One departure: a last event whose data are whole but for its blank line is delivered, where a browser drops
//! it as incomplete. A guard must see what a client with a laxer parser would see.
//!
//! Invariants: every byte is looked at a fixed number of times; the events' sources do not overlap; an event
//! without a `data` line is not delivered and not counted. Fields `id` and `retry` are transport matters and
//! not read.

use crate::engine::layer::sse::{Lines, field};
use crate::engine::layer::{Layer, Span, Step};
use bumpalo::Bump;

/// The byte order mark.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One delivered event.
#[derive(Debug, Clone, Copy)]
pub struct SseEvent<'r> {
    /// Its number among the delivered events of the layer, from 0.
    pub index: u32,
    /// The last `event` field, `None` if it is absent or empty (the type is then `message`).
    pub event_name: Option<&'r [u8]>,
    /// The data lines joined with `\n`; the layer's step carries the index.
    pub data: &'r Layer<'r>,
    /// Its blank line was seen. If not, its rest may come in the next record.
    pub ended: bool,
}

/// The events of a stream, in order.
///
/// An event takes 48 bytes of the arena, eight times its shortest form (`data\n\n`); a caller that bounds
/// events takes no more than it wants.
pub fn events<'r>(bump: &'r Bump, layer: &'r Layer<'r>) -> Events<'r> {
    let start = if layer.bytes.starts_with(BOM) { 3 } else { 0 };
    Events { bump, layer, lines: Lines::new(layer.bytes, start), index: 0 }
}

/// Where a text is not whole lines of a stream: a host cut it elsewhere, so part of an event is missing. `any`:
/// events were found in it. That their data are whole JSON is for the caller to see.
///
/// - A last line without its end that may still become a `data` line, or is one without a value.
/// - A field that a laxer reader takes for `data`.
/// - Text in which nothing is an event, a comment or a known field.
pub(super) fn torn(bytes: &[u8], any: bool) -> Option<u32> {
    let start = if bytes.starts_with(BOM) { 3 } else { 0 };
    Lines::new(bytes, start)
        .find(|line| {
            let text = &bytes[line.start..line.end];
            let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
            let divided = name.len() < text.len();
            let value = text.get(name.len() + 1..).unwrap_or_default();
            let ended = line.next > line.end;
            match name {
                b"data" => !ended && value.trim_ascii().is_empty(),
                b"event" | b"id" | b"retry" => !ended && !divided,
                b"" => false,
                name if name.trim_ascii().is_empty() => !any && divided,
                name => !any || !ended || name.trim_ascii().eq_ignore_ascii_case(b"data"),
            }
        })
        .map(|line| line.start as u32)
}

/// Where the last event begins if its blank line is still to come; the length of the text if none is.
pub(super) fn unfinished(bytes: &[u8]) -> usize {
    let mut start = 0;
    for line in Lines::new(bytes, 0) {
        if line.is_blank() {
            start = line.next;
        }
    }
    start
}

/// Whether a text may be the beginning of an event: whole lines of known fields, and a last one that may
/// become such a line.
pub(super) fn may_go_on(bytes: &[u8]) -> bool {
    const FIELDS: [&[u8]; 5] = [b"data", b"event", b"id", b"retry", b""];
    Lines::new(bytes, if bytes.starts_with(BOM) { 3 } else { 0 }).all(|line| {
        let text = &bytes[line.start..line.end];
        let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
        let divided = name.len() < text.len();
        let unended = line.next == line.end && !divided;
        let begins = |field: &&[u8]| field.starts_with(name) || line.start == 0 && BOM.starts_with(name);
        if unended { FIELDS.iter().any(begins) } else { FIELDS.contains(&name) }
    })
}

/// Whether the beginning of an event that never went on has lost nothing: it holds no data yet.
pub(super) fn is_idle(bytes: &[u8]) -> bool {
    Lines::new(bytes, 0).all(|line| {
        let name = bytes[line.start..line.end].split(|byte| *byte == b':').next().unwrap_or_default();
        !b"data".starts_with(name) || name.is_empty() && line.end > line.start
    })
}

/// Whether a text is a stream that holds nothing: comments, and fields beside empty data, as servers send them to
/// keep a connection alive.
pub fn is_quiet(bytes: &[u8]) -> bool {
    let mut any = false;
    let start = if bytes.starts_with(BOM) { 3 } else { 0 };
    let quiet = Lines::new(bytes, start).all(|line| {
        let text = &bytes[line.start..line.end];
        any |= !text.is_empty();
        match text.split(|byte| *byte == b':').next().unwrap_or_default() {
            b"data" => text.get(5..).unwrap_or_default().trim_ascii().is_empty(),
            name => matches!(name, b"" | b"event" | b"id" | b"retry"),
        }
    });
    quiet && any
}

/// Whether the next record begins a line although the last one was not ended: a host that publishes lines or events
/// drops their ends, and no name and no comment goes on like a field.
pub(super) fn begins_anew(beginning: &[u8], next: &[u8]) -> bool {
    const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    let last = Lines::new(beginning, 0).last();
    let note = last.is_some_and(|line| {
        let text = &beginning[line.start..line.end];
        line.next == line.end && text.contains(&b':') && !text.starts_with(b"data")
    });
    note && FIELDS.iter().any(|field| next.starts_with(field))
}

/// See [`events`].
pub struct Events<'r> {
    bump: &'r Bump,
    layer: &'r Layer<'r>,
    lines: Lines<'r>,
    index: u32,
}

impl<'r> Iterator for Events<'r> {
    type Item = SseEvent<'r>;
    fn next(&mut self) -> Option<SseEvent<'r>> {
        let bytes = self.layer.bytes;
        loop {
            let first = self.lines.find(|line| !line.is_blank())?;
            let mut name = None;
            let mut has_data = false;
            let mut end = first.next;
            let mut ended = false;
            let mut line = Some(first);
            while let Some(current) = line {
                end = current.next;
                if current.is_blank() {
                    ended = true;
                    break;
                }
                has_data |= field(bytes, current, b"data").is_some();
                if let Some((start, end)) = field(bytes, current, b"event") {
                    name = Some(&bytes[start..end]).filter(|name| !name.is_empty());
                }
                line = self.lines.next();
            }
            if !has_data {
                continue;
            }
            let source = Span { layer: self.layer, start: first.start as u32, end: end as u32 };
            let index = self.index;
            let data = Layer::sse_data(self.bump, source, Step::Sse { event: index })?;
            self.index += 1;
            return Some(SseEvent { index, event_name: name, data, ended });
        }
    }
}
