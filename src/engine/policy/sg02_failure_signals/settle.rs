//! What goes out of a failed text, until nothing of its kind is left in it.
//!
//! Taking lines out brings together what stood apart, and that may be a trace, or a path with a space in it. So what
//! was left is looked at again, and the edits are those of the original. Without that a copy would be changed once
//! more wherever it is judged again.
//!
//! Bound: [`ROUNDS`]; a text that has not come to rest by then is gone as a whole.

use super::boundary;
use crate::engine::scan::internal::{self, Kind};
use crate::engine::scan::traces;

/// How often what was left is looked at.
const ROUNDS: u32 = 8;
const TRACE: &[u8] = b"[stack trace]";

/// What goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub traces: bool,
    pub paths: bool,
    pub hosts: bool,
    /// Of the output of a diagnostic tool only traces go, with what stands in their heads.
    pub diagnostic: bool,
    /// Bytes of a trace's head that stay.
    pub keep: usize,
}

/// A range of a text, and what stands in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub start: usize,
    pub end: usize,
    pub with: Vec<u8>,
}

/// A piece of what is left: bytes, and where they stood, if they did.
struct Piece {
    from: Option<usize>,
    bytes: Vec<u8>,
}

/// The changes of a text, in order and apart.
pub(super) fn changes(text: &[u8], wanted: Wanted) -> Vec<Change> {
    let mut left = vec![Piece { from: Some(0), bytes: text.to_vec() }];
    for _ in 0..ROUNDS {
        let now: Vec<u8> = left.iter().flat_map(|piece| piece.bytes.iter().copied()).collect();
        let found = once(&now, wanted);
        if found.is_empty() {
            return between(&left, text.len());
        }
        left = without(left, &found);
    }
    vec![Change { start: 0, end: text.len(), with: TRACE.to_vec() }]
}

/// What one look finds.
fn once(text: &[u8], wanted: Wanted) -> Vec<Change> {
    let traces = if wanted.traces { traces::find(text) } else { Vec::new() };
    let mut all = Vec::new();
    let mut put = |start, end, with: &[u8]| {
        if start < end {
            all.push(Change { start, end, with: with.to_vec() });
        }
    };
    let head = |trace: &traces::Trace| {
        let (start, end) = (trace.head.0.clamp(trace.start, trace.end), trace.head.1.clamp(trace.start, trace.end));
        (start, boundary(text, end.min(start.saturating_add(wanted.keep))))
    };
    for trace in &traces {
        match head(trace) {
            (start, end) if start < end => {
                put(trace.start, start, b"");
                put(end, trace.end, b"");
            }
            _ => put(trace.start, trace.end, TRACE),
        }
    }
    if wanted.diagnostic && traces.is_empty() {
        return Vec::new();
    }
    for found in internal::find(text) {
        let (goes, name): (bool, &[u8]) = match found.kind {
            Kind::Path => (wanted.paths, b"[path]"),
            Kind::Host => (wanted.hosts, b"[host]"),
        };
        let next = traces.partition_point(|trace| trace.end <= found.start);
        // What stands in a trace that is reduced is the trace's.
        let goes = match traces.get(next).filter(|trace| trace.start <= found.start) {
            Some(trace) => head(trace).0 <= found.start && found.end <= head(trace).1,
            None => goes && !wanted.diagnostic,
        };
        if goes {
            put(found.start, found.end, name);
        }
    }
    all.sort_by_key(|change| (change.start, change.end));
    // One that reaches into the next leaves that to the next look.
    let mut end = 0;
    all.retain(|change| {
        let apart = change.start >= end;
        end = if apart { change.end } else { end };
        apart
    });
    all
}

/// Pieces with changes made, which are ranges of their bytes.
fn without(pieces: Vec<Piece>, changes: &[Change]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    let mut changes = changes.iter().peekable();
    let mut at = 0;
    for piece in pieces {
        let (start, end) = (at, at + piece.bytes.len());
        while at < end {
            let Some(change) = changes.peek() else { break };
            if change.start > at {
                let to = change.start.min(end);
                out.push(part(&piece, start, at, to));
                at = to;
                continue;
            }
            if change.start == at {
                out.push(Piece { from: None, bytes: change.with.clone() });
            }
            at = change.end.min(end).max(at);
            if change.end <= end {
                changes.next();
            } else {
                break;
            }
        }
        // What is left of the piece, unless a change goes on into the next one.
        if at < end {
            out.push(part(&piece, start, at, end));
            at = end;
        }
    }
    out
}

fn part(piece: &Piece, start: usize, from: usize, to: usize) -> Piece {
    Piece {
        from: piece.from.map(|place| place + from - start),
        bytes: piece.bytes.get(from - start..to - start).unwrap_or_default().to_vec(),
    }
}

/// What changed of a text of which these pieces are left.
fn between(pieces: &[Piece], length: usize) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    let (mut at, mut with) = (0, Vec::new());
    let mut close = |at: &mut usize, until: usize, with: &mut Vec<u8>| {
        if *at < until || !with.is_empty() {
            all.push(Change { start: *at, end: until, with: std::mem::take(with) });
        }
        *at = until;
    };
    for piece in pieces.iter().filter(|piece| !piece.bytes.is_empty()) {
        match piece.from {
            Some(from) => {
                close(&mut at, from, &mut with);
                at = from + piece.bytes.len();
            }
            None => with.extend_from_slice(&piece.bytes),
        }
    }
    close(&mut at, length, &mut with);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Wanted = Wanted { traces: true, paths: true, hosts: true, diagnostic: false, keep: 2048 };

    fn left(text: &str) -> String {
        let mut out = String::new();
        let mut at = 0;
        for change in changes(text.as_bytes(), ALL) {
            assert!(at <= change.start && change.start <= change.end, "{change:?}");
            out.push_str(&text[at..change.start]);
            out.push_str(&String::from_utf8(change.with).unwrap());
            at = change.end;
        }
        out + &text[at..]
    }

    #[test]
    fn what_is_left_is_left_alone() {
        for (text, wanted) in [
            ("plain", "plain"),
            ("ERROR: x\nLINE 1: a\nLINE 2: b\nLINE 3: c", "ERROR: x"),
            ("open /home/a/b.py: no\nat 10.0.0.5:80 x", "open [path]: no\nat [host] x"),
            ("E: /srv/a/b\n\tat a.b.C.d(C.java:1)\n\tat a.b.C.e(C.java:2)\ndone", "E: [path]\ndone"),
            ("E\n    at f (/srv/x.js:1:2)\n    at g (/srv/y.js:1:2)\nLINE 2: x\nLINE 3: y", "E"),
        ] {
            assert_eq!(left(text), wanted, "{text}");
            assert_eq!(left(wanted), wanted);
        }
    }

    #[test]
    fn pieces_are_taken_apart_where_they_meet() {
        let pieces = vec![
            Piece { from: Some(0), bytes: b"abc".to_vec() },
            Piece { from: None, bytes: b"[x]".to_vec() },
            Piece { from: Some(5), bytes: b"defg".to_vec() },
        ];
        let change = |start, end, with: &[u8]| Change { start, end, with: with.to_vec() };
        let left = without(pieces, &[change(1, 2, b""), change(5, 7, b"-"), change(10, 10, b"+")]);
        let now: Vec<u8> = left.iter().flat_map(|piece| piece.bytes.clone()).collect();
        assert_eq!(String::from_utf8(now).unwrap(), "ac[x-efg");
        let all = between(&left, 9);
        assert_eq!(all, [change(1, 2, b""), change(3, 6, b"[x-")]);
    }
}
