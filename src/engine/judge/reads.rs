//! Network reads: a raw stream that a host publishes as it came, cut at any byte.
//!
//! What a record leaves unfinished goes on in the response's next one. That holds only where the content type
//! says `text/event-stream`, and the conversation is known without looking into the data. A last event that is
//! whole but for its blank line is delivered at once: hosts that part a stream at blank lines drop them.

use super::Run;
use crate::engine::envelope::{Envelope, EventType, event_stream};
use crate::engine::event::{CutReason, Provider};
use crate::engine::layer::sse::{Lines, decode, field};
use crate::engine::layer::{Layer, Step};
use crate::engine::state::{Conversation, Exchange, ResponseState, Session};
use bumpalo::Bump;

/// Bytes kept of an unfinished event: with them the exchange's entry stays below 64 KiB. What is longer is lost.
const REST_BYTES: usize = 48 << 10;

/// How a record stands in a raw stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Read<'r> {
    /// The exchange whose unfinished event it goes on with.
    pub goes_on: Option<u32>,
    /// The exchange whose unfinished event is lost, since this is no part of it.
    pub breaks: Option<u32>,
    /// What it leaves unfinished itself.
    pub rest: &'r [u8],
}

impl<'r> Run<'_, 'r> {
    /// Keeps what a chunk left unfinished. Without room for it, it is lost.
    pub(super) fn keep_rest(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        exchange: Option<u32>,
        rest: &[u8],
    ) {
        let Some(n) = exchange else { return };
        if matches!(envelope.kind, EventType::ModelChunk | EventType::ModelClosed) && !session.set_rest(n, rest) {
            self.lost(session, envelope, exchange, CutReason::Limit);
        }
    }
}

/// Whether a record is the first sight of a response, too short to show its beginning.
pub(super) fn begins(session: &Session<'_>, provider: Option<Provider>, read: &Read<'_>) -> bool {
    let open = |e: &Exchange| e.host_id.is_none() && Some(e.provider) == provider && e.response == ResponseState::Open;
    !read.rest.is_empty() && read.goes_on.is_none() && !session.conversation().exchanges.values().any(open)
}

/// Puts a chunk behind what its response left unfinished, and takes off what it leaves itself.
pub(super) fn join<'r>(
    bump: &'r Bump,
    known: Option<&Conversation>,
    envelope: Envelope<'r>,
) -> (Envelope<'r>, Read<'r>) {
    let id = envelope.response_id.map(str::as_bytes);
    let mut exchanges = known.into_iter().flat_map(|known| known.exchanges.iter().rev());
    let open = exchanges.find(|(_, e)| {
        !e.rest.is_empty() && e.host_id.as_deref() == id && envelope.provider.is_none_or(|given| given == e.provider)
    });
    let Some(data) = envelope.data.filter(|_| envelope.kind == EventType::ModelChunk) else {
        return (envelope, Read::default());
    };
    if !event_stream(envelope.content_type) {
        let breaks = open.filter(|(_, e)| is_piece(&e.rest)).map(|(n, _)| *n);
        return (envelope, Read { breaks, ..Read::default() });
    }
    let bytes: &'r [u8] = match open {
        None => data.bytes,
        Some((_, e)) => {
            let between: &[u8] = if begins_anew(&e.rest, data.bytes) { b"\n" } else { b"" };
            bump.alloc_slice_copy(&[&e.rest, between, data.bytes].concat())
        }
    };
    let end = finished(bytes);
    let end = if bytes.len() - end > REST_BYTES { bytes.len() } else { end };
    let (whole, rest) = bytes.split_at(end);
    let provider = envelope.provider.or(open.map(|(_, e)| e.provider));
    let data = match (open, rest) {
        (None, []) => Some(data),
        _ => (!whole.is_empty()).then(|| Layer::slice(bump, Layer::record(bump, whole).span(), Step::Data)),
    };
    (Envelope { data, provider, ..envelope }, Read { goes_on: open.map(|(n, _)| *n), breaks: None, rest })
}

/// Where what is unfinished begins: an event without its blank line, unless its data are whole.
fn finished(bytes: &[u8]) -> usize {
    let mark = if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let (mut start, mut named) = (mark, false);
    let mut last = None;
    for line in Lines::new(bytes, mark) {
        last = Some(line);
        if line.is_blank() {
            (start, named) = (line.next, false);
        } else {
            named |= field(bytes, line, b"event").is_some();
        }
    }
    let Some(last) = last.filter(|_| start < bytes.len()) else { return bytes.len() };
    let goes_on = match decode(&bytes[start..]) {
        Some(data) => !is_whole(&data),
        // Comments alone say nothing.
        None => named || last.next == last.end,
    };
    if goes_on { start } else { bytes.len() }
}

fn is_whole(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    data == b"[DONE]" || !data.is_empty() && serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}

/// Whether a part of an event's data, or of what may become its data, is in there.
fn is_piece(rest: &[u8]) -> bool {
    decode(rest).is_some() || !ends_in_a_note(rest)
}

/// Whether the last line is a name, a comment, or another field that is not data.
fn ends_in_a_note(rest: &[u8]) -> bool {
    let last = Lines::new(rest, 0).last();
    last.is_some_and(|line| {
        let text = &rest[line.start..line.end];
        line.next > line.end || text.contains(&b':') && field(rest, line, b"data").is_none()
    })
}

/// Whether the next record begins a line: a host that publishes lines drops their ends, and no name and no
/// comment goes on like a field.
fn begins_anew(rest: &[u8], next: &[u8]) -> bool {
    const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    ends_in_a_note(rest) && !rest.ends_with(b"\n") && FIELDS.iter().any(|field| next.starts_with(field))
}
