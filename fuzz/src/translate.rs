//! Every provider and every kind of event on the same data.
//!
//! The input is the data. How a stream is framed must not matter: an object alone, the only one of an array and
//! the data of a server-sent event give the same events.

use super::describe::lines;
use bumpalo::Bump;
use sluicegate::engine::json::JsonLimits;
use sluicegate::engine::layer::{map_range, root};
use sluicegate::engine::provider::{Provider, detect_provider, translate};
use sluicegate::engine::wire::{DecodeOptions, Decoded, EventType, decode};
use sluicegate::engine::{Input, Limits};

const FRAMED: [EventType; 2] = [EventType::ModelResponse, EventType::ModelChunk];
const PLAIN: [EventType; 2] = [EventType::ModelRequest, EventType::McpMessage];
const OF_THE_HOST: [EventType; 3] = [EventType::ToolStarted, EventType::ToolResult, EventType::ModelClosed];

pub fn run(data: &[u8]) {
    for provider in Provider::ALL {
        for kind in PLAIN {
            said(provider, kind, data);
        }
        for kind in FRAMED {
            framed(provider, kind, data);
        }
    }
    for kind in OF_THE_HOST {
        said(Provider::AnthropicMessages, kind, data);
    }
}

/// What a translation says, and whether all of it could be read.
struct Said {
    lines: Vec<String>,
    whole: bool,
}

fn framed(provider: Provider, kind: EventType, data: &[u8]) {
    let alone = said(provider, kind, data);
    if data.first() != Some(&b'{') || data.contains(&b'\r') || data.contains(&b'\n') {
        return;
    }
    let stream = said(provider, kind, &[b"data: ", data, b"\n\n"].concat());
    let array = said(provider, kind, &[b"[", data, b"]"].concat());
    assert_eq!(alone.whole, stream.whole, "{provider:?} {kind:?}");
    if alone.whole {
        assert_eq!(alone.lines, stream.lines, "{provider:?} {kind:?} as a stream");
    }
    // An array is one deeper and one larger.
    if alone.whole && array.whole {
        assert_eq!(alone.lines, array.lines, "{provider:?} {kind:?} in an array");
    }
}

fn said(provider: Provider, kind: EventType, data: &[u8]) -> Said {
    let bump = Bump::new();
    let headers: [(&str, Option<&[u8]>); 5] = [
        ("ce_id", Some(b"1")),
        ("ce_source", Some(b"/t")),
        ("ce_specversion", Some(b"1.0")),
        ("ce_type", Some(kind.name().as_bytes())),
        ("ce_provider", Some(provider.name().as_bytes())),
    ];
    let value = Some(data);
    let input = Input { topic: "t", partition: 0, offset: 0, timestamp: None, key: None, headers: &headers, value };
    let limits = Limits::default();
    let Decoded::Event(envelope) = decode(&bump, &input, DecodeOptions { limits: &limits, lines: false }) else {
        assert!(data.is_empty(), "attributes that are well formed");
        return Said { lines: Vec::new(), whole: false };
    };
    detect_provider(&bump, &envelope, JsonLimits::default());
    let translated = translate(&bump, &envelope, provider, &[], JsonLimits::default());
    if let Some((value, _)) = translated.unclear {
        assert!(std::ptr::eq(root(value.layer()), envelope.record));
        assert!(map_range(value.span(), envelope.record).is_some());
    }
    Said { whole: translated.undecodable.is_none(), lines: lines(&translated) }
}
