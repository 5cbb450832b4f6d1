//! The line level of server-sent events (WHATWG HTML, "Interpreting an event stream") and the codec of one
//! event's data: its `data:` lines joined with `\n`.
//!
//! Everything is linear in the bytes. An event's source is looked at alone: it starts at a line start behind
//! any byte order mark and ends at its blank line or at the end of the stream.

use super::splice::Change;
use bumpalo::Bump;
use bumpalo::collections::Vec as BumpVec;

/// A line: its content, and where the next one starts (behind CR, LF or CRLF).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub start: usize,
    pub end: usize,
    pub next: usize,
}

impl Line {
    pub fn is_blank(&self) -> bool {
        self.start == self.end
    }
}

/// The lines of a text. A last line without an end is a line, the nothing behind a last end is none.
#[derive(Debug, Clone)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;
    fn next(&mut self) -> Option<Line> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let start = self.at;
        let (end, next) = match memchr::memchr2(b'\r', b'\n', rest) {
            None => (self.bytes.len(), self.bytes.len()),
            Some(offset) => {
                let end = start + offset;
                let crlf = self.bytes[end] == b'\r' && self.bytes.get(end + 1) == Some(&b'\n');
                (end, end + 1 + usize::from(crlf))
            }
        };
        self.at = next;
        Some(Line { start, end, next })
    }
}

/// How a field's name and value are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Divider {
    /// No colon: the whole line is the name, the value is empty.
    None,
    Colon,
    ColonSpace,
}

/// The offset at which the value of the field `name` starts in a line, if that is the line's field.
fn value_of(line: &[u8], name: &[u8]) -> Option<(usize, Divider)> {
    match line.strip_prefix(name)? {
        [] => Some((name.len(), Divider::None)),
        [b':', b' ', ..] => Some((name.len() + 2, Divider::ColonSpace)),
        [b':', ..] => Some((name.len() + 1, Divider::Colon)),
        _ => None,
    }
}

/// The value of the field `name` as offsets of the text that the line was taken from.
pub(crate) fn field(bytes: &[u8], line: Line, name: &[u8]) -> Option<(usize, usize)> {
    let (offset, _) = value_of(&bytes[line.start..line.end], name)?;
    Some((line.start + offset, line.end))
}

/// A `data` line of an event.
#[derive(Debug, Clone, Copy)]
struct Data {
    line: Line,
    /// Where its value starts.
    value: usize,
    divider: Divider,
}

fn data_lines(event: &[u8]) -> impl Iterator<Item = Data> {
    Lines::new(event, 0).take_while(|line| !line.is_blank()).filter_map(|line| {
        let (offset, divider) = value_of(&event[line.start..line.end], b"data")?;
        Some(Data { line, value: line.start + offset, divider })
    })
}

/// The data of an event; `None` if it has no data line.
pub(crate) fn decode(event: &[u8]) -> Option<Vec<u8>> {
    let mut lines = data_lines(event);
    let first = lines.next()?;
    let mut out = event[first.value..first.line.end].to_vec();
    for data in lines {
        out.push(b'\n');
        out.extend_from_slice(&event[data.value..data.line.end]);
    }
    Some(out)
}

/// The data of an event in the arena, borrowed if it is one line.
pub(super) fn decode_in<'r>(bump: &'r Bump, event: &'r [u8]) -> Option<&'r [u8]> {
    let mut lines = data_lines(event);
    let first = lines.next()?;
    let text = &event[first.value..first.line.end];
    let Some(second) = lines.next() else {
        return Some(text);
    };
    let mut out = BumpVec::with_capacity_in(event.len(), bump);
    out.extend_from_slice_copy(text);
    for data in std::iter::once(second).chain(lines) {
        out.push(b'\n');
        out.extend_from_slice_copy(&event[data.value..data.line.end]);
    }
    Some(out.into_bump_slice())
}

/// Finds decoded offsets, asked for in rising order, among an event's data lines.
struct Locator {
    lines: Vec<Data>,
    current: usize,
    decoded: usize,
}

impl Locator {
    fn new(event: &[u8]) -> Self {
        Self { lines: data_lines(event).collect(), current: 0, decoded: 0 }
    }

    /// The data line that holds the offset, and the offset's place in the event. The end of a line comes
    /// before the `\n` that joins it to the next.
    fn locate(&mut self, offset: usize) -> Option<(usize, usize)> {
        loop {
            let data = self.lines.get(self.current)?;
            let inside = offset.checked_sub(self.decoded)?;
            let len = data.line.end - data.value;
            if inside <= len {
                return Some((self.current, data.value + inside));
            }
            self.decoded += len + 1;
            self.current += 1;
        }
    }
}

/// The range of the event that a decoded range stands in, lines between its data lines included.
pub(super) fn locate(event: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let mut locator = Locator::new(event);
    Some((locator.locate(start)?.1, locator.locate(end)?.1))
}

/// Lowers changes (in order, apart from each other) to the event's bytes. A line end in a replacement
/// becomes a further `data: ` line. `None` where that is not exact: a carriage return cannot be carried,
/// and a removed line end must not take another field or a comment with it.
pub(super) fn lower(event: &[u8], changes: &[Change]) -> Option<Vec<Change>> {
    let mut locator = Locator::new(event);
    let any_end = Lines::new(event, 0).find(|line| line.next > line.end);
    let mut lowered = Vec::with_capacity(changes.len());
    for change in changes {
        let (first, start) = locator.locate(change.start)?;
        let (last, end) = locator.locate(change.end)?;
        let crossed = locator.lines.get(first..=last)?;
        let unbroken = crossed.windows(2).all(|pair| pair[0].line.next == pair[1].line.start);
        if !unbroken || change.with.contains(&b'\r') {
            return None;
        }
        let (head, tail) = (crossed.first()?, crossed.last()?);
        let line_end = match (head.line.next > head.line.end, any_end) {
            (true, _) => &event[head.line.end..head.line.next],
            (false, Some(line)) => &event[line.end..line.next],
            (false, None) => b"\n",
        };
        // The byte that will stand first in the value, if the change touches the value's start.
        let follows = change.with.first().or_else(|| event[end..tail.line.end].first());
        let mut with = Vec::with_capacity(change.with.len() + 8);
        match (start == head.value, head.divider, follows) {
            (true, Divider::None, Some(_)) => with.extend_from_slice(b": "),
            // A first space would be taken for the divider's.
            (true, Divider::Colon, Some(b' ')) => with.push(b' '),
            _ => {}
        }
        for (n, text) in change.with.split(|&byte| byte == b'\n').enumerate() {
            if n > 0 {
                with.extend_from_slice(line_end);
                with.extend_from_slice(b"data: ");
            }
            with.extend_from_slice(text);
        }
        lowered.push(Change { start, end, with });
    }
    Some(lowered)
}
