//! `wire::decode` and what it falls back on.
//!
//! The input is headers, `name: value` a line (`name` alone: a header without a value; `key: …`: the record's
//! key), a blank line, the value.

use super::split;
use bumpalo::Bump;
use sluicegate::engine::layer::{map_range, root};
use sluicegate::engine::wire::{DecodeOptions, Decoded, Envelope, EventType, Mode, conversations, decode};
use sluicegate::engine::{Input, Limits};

pub fn run(data: &[u8]) {
    let limits = Limits { record_bytes: 4096, json_depth: 16, json_nodes: 256, ..Limits::default() };
    let (head, value) = split(data, b"\n\n");
    let mut headers: Vec<(&str, Option<&[u8]>)> = Vec::new();
    for line in head.split(|byte| *byte == b'\n') {
        let (name, value) = split(line, b": ");
        headers.extend(std::str::from_utf8(name).ok().map(|name| (name, value)));
    }
    let key = headers.iter().find(|(name, _)| *name == "key").and_then(|(_, value)| *value);
    let input = Input { topic: "t", partition: 0, offset: 0, timestamp: None, key, headers: &headers, value };
    for lines in [false, true] {
        let bump = Bump::new();
        let options = DecodeOptions { limits: &limits, lines };
        let large = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) > 4096;
        match decode(&bump, &input, options) {
            Decoded::Event(envelope) => {
                assert!(!large, "a record over the limit is read");
                event(&envelope, value.unwrap_or_default());
            }
            Decoded::Oversize(envelope) => assert!(large && envelope.data.is_none()),
            Decoded::Reject(reject) => assert_ne!(reject.label(), "engine_panic"),
        }
        let named = conversations(&bump, &input, options);
        assert!(named.iter().all(|name| !name.is_empty()), "a conversation without a name");
    }
}

fn event(envelope: &Envelope<'_>, value: &[u8]) {
    assert_eq!(envelope.record.bytes, value);
    if envelope.mode != Mode::Bare {
        assert!(!envelope.id.is_empty() && !envelope.source.is_empty() && !envelope.type_name.is_empty());
    }
    assert_eq!(envelope.structured.is_some(), envelope.mode == Mode::Structured);
    let Some(data) = envelope.data else {
        assert!(
            matches!(envelope.kind, EventType::ModelClosed | EventType::Unknown),
            "{:?} without data",
            envelope.kind
        );
        return;
    };
    assert!(!data.bytes.is_empty() && std::ptr::eq(root(data), envelope.record));
    let place = map_range(data.span(), envelope.record).expect("data stand somewhere in the record");
    if envelope.mode != Mode::Structured {
        assert_eq!((place.start as usize, place.end as usize), (0, value.len()));
    }
}
