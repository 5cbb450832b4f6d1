//! Decoding: the three modes of a record, and every reason to refuse one.

use bumpalo::Bump;
use sluicegate::engine::envelope::event_stream;
use sluicegate::engine::layer::Step;
use sluicegate::engine::provider::Provider;
use sluicegate::engine::wire::{DecodeOptions, Decoded, Envelope, EventType, Mode, Reject, decode};
use sluicegate::engine::{Input, Limits};

type Headers<'a> = [(&'a str, Option<&'a [u8]>)];
/// A header changed, the value, and what comes of it.
type Case<'a> = ((&'a str, Option<&'a [u8]>), Option<&'a [u8]>, &'a str);

const STRUCTURED: &Headers<'static> = &[("content-type", Some(b"application/cloudevents+json; charset=UTF-8"))];

fn input<'a>(headers: &'a Headers<'a>, value: Option<&'a [u8]>) -> Input<'a> {
    Input { topic: "t", partition: 0, offset: 0, timestamp: None, key: Some(b"k"), headers, value }
}

fn with<T>(headers: &Headers<'_>, value: Option<&[u8]>, lines: bool, then: impl FnOnce(Decoded<'_>) -> T) -> T {
    let bump = Bump::new();
    let limits = Limits { record_bytes: 4096, json_depth: 8, ..Limits::default() };
    let options = DecodeOptions { limits: &limits, lines };
    then(decode(&bump, &input(headers, value), options))
}

/// What an event is, as one line.
fn show(decoded: Decoded<'_>) -> String {
    let data = |e: &Envelope<'_>| {
        e.data.map_or("-".into(), |data| {
            assert_eq!(data.step, Step::Data);
            String::from_utf8_lossy(data.bytes).into_owned()
        })
    };
    match decoded {
        Decoded::Event(e) => format!("{:?} {:?} {}/{} {}", e.mode, e.kind, e.source, e.id, data(&e)),
        Decoded::Oversize(e) => {
            format!("oversize {:?} {:?} {:?}", e.mode, e.kind, e.data.is_some())
        }
        Decoded::Reject(reject) => format!("{reject:?}"),
    }
}

/// The required headers with one changed, left out (`None`) or added.
fn binary(change: (&str, Option<&[u8]>), value: Option<&[u8]>) -> String {
    let chunk: &[u8] = b"io.sluicegate.model.chunk.v1";
    let mut headers: Vec<(&str, Option<&[u8]>)> = vec![
        ("ce_id", Some(b"7")),
        ("ce_source", Some(b"/h")),
        ("ce_specversion", Some(b"1.0")),
        ("ce_type", Some(chunk)),
    ];
    headers.retain(|(name, _)| *name != change.0);
    headers.push(change);
    with(&headers, value, false, show)
}

#[test]
fn binary_mode() {
    let data = Some(&b"{}"[..]);
    let long = vec![b'x'; 1025];
    let none = ("other", Some(&b"x"[..]));
    let cases: &[Case<'_>] = &[
        (none, data, "Binary ModelChunk /h/7 {}"),
        (none, Some(b"not json yet"), "Binary ModelChunk /h/7 not json yet"),
        (none, None, "EmptyValue"),
        (none, Some(b""), "EmptyValue"),
        (("ce_id", None), data, "MissingAttribute"),
        (("ce_id", Some(b"")), data, "MissingAttribute"),
        (("ce_source", None), data, "MissingAttribute"),
        (("ce_type", None), data, "MissingAttribute"),
        (("ce_specversion", None), data, "MissingAttribute"),
        (("ce_specversion", Some(b"0.3")), data, "UnsupportedSpecVersion"),
        (("ce_id", Some(&long)), data, "BadAttribute"),
        (("ce_id", Some(b"\xff")), data, "BadAttribute"),
        // No percent-decoding in the Kafka binding.
        (("ce_id", Some(b"a%20b")), data, "Binary ModelChunk /h/a%20b {}"),
        // A header that is said twice, in two ways or in one.
        (("CE_ID", Some(b"8")), data, "BadAttribute"),
        (("CE_ID", Some(b"7")), data, "Binary ModelChunk /h/7 {}"),
        (("ce_provider", Some(b"acme.chat")), data, "UnknownProvider"),
        (("ce_sequence", Some(b"0007")), data, "Binary ModelChunk /h/7 {}"),
        (("ce_sequence", Some(b"seven")), data, "BadAttribute"),
        (("ce_sequence", Some(b"+7")), data, "BadAttribute"),
        (("ce_novel", Some(&long)), data, "Binary ModelChunk /h/7 {}"),
        (("ce_type", Some(b"com.example.other")), None, "Binary Unknown /h/7 -"),
        (("ce_type", Some(b"io.sluicegate.model.closed.v1")), None, "Binary ModelClosed /h/7 -"),
        (("content-type", Some(b"text/event-stream")), data, "Binary ModelChunk /h/7 {}"),
        (("content-type", Some(b"application/avro")), data, "UnsupportedContentType"),
        (("content-type", Some(b"application/json; charset=utf-16")), data, "UnsupportedContentType"),
        (("content-type", Some(b"application/cloudevents+avro")), data, "UnsupportedContentType"),
        (("content-type", Some(b"application/cloudevents-batch+json")), data, "UnsupportedContentType"),
    ];
    for (change, value, expected) in cases {
        assert_eq!(binary(*change, *value), *expected, "{}", change.0);
    }
}

#[test]
fn structured_mode() {
    let event = |more: &str| {
        format!(r#"{{"specversion":"1.0","id":"7","source":"/h","type":"io.sluicegate.model.chunk.v1"{more}}}"#)
    };
    let cases = [
        (r#","data":{"a":1}"#, r#"Structured ModelChunk /h/7 {"a":1}"#),
        (r#","data":[1, 2]"#, "Structured ModelChunk /h/7 [1, 2]"),
        // With a JSON content type, or none, a string is a JSON value and stays one.
        (r#","data":"[DONE]""#, r#"Structured ModelChunk /h/7 "[DONE]""#),
        (r#","datacontenttype":"application/problem+json","data":"x""#, r#"Structured ModelChunk /h/7 "x""#),
        // With any other it is the text itself.
        (
            r#","datacontenttype":"text/event-stream","data":"data: {\"a\":1}\n\n""#,
            "Structured ModelChunk /h/7 data: {\"a\":1}\n\n",
        ),
        (r#","data_base64":"e30=""#, "Structured ModelChunk /h/7 {}"),
        (r#","data_base64":"Pz8\/""#, "Structured ModelChunk /h/7 ???"),
        (r#","data_base64":"***""#, "InvalidBase64"),
        (r#","data_base64":7"#, "InvalidBase64"),
        (r#","data_base64":"e30=","data":{}"#, "BadAttribute"),
        (r#","data":null"#, "EmptyValue"),
        ("", "EmptyValue"),
        (r#","data":{},"sequence":12,"httpstatus":200"#, "Structured ModelChunk /h/7 {}"),
        (r#","data":{},"sequence":1.5"#, "BadAttribute"),
        (r#","data":{},"agent":{}"#, "BadAttribute"),
        (r#","data":{},"agent":null,"novel":{}"#, "Structured ModelChunk /h/7 {}"),
        (r#","data":{},"agent":"\ud800""#, "BadAttribute"),
        (r#","data":{},"id":null"#, "BadAttribute"),
        (r#","data":{},"id":"again""#, "BadAttribute"),
        (r#","data":{},"data":{}"#, "BadAttribute"),
        (r#","data":{},"fleet":"a","fleet":"a""#, "BadAttribute"),
        (r#","data":[[[[[[[[1]]]]]]]]"#, "Structured ModelChunk /h/7 [[[[[[[[1]]]]]]]]"),
        (r#","data":[[[[[[[[[[[1]]]]]]]]]]]"#, "TooDeep"),
        (r#","data":{"#, "InvalidJson"),
    ];
    for (more, expected) in cases {
        let value = event(more);
        let found = with(STRUCTURED, Some(value.as_bytes()), false, show);
        assert_eq!(found, expected, "{more}");
        // A line of a file needs no content type.
        assert_eq!(with(&[], Some(value.as_bytes()), true, show), expected, "{more}");
    }
    assert_eq!(with(STRUCTURED, Some(b"[]"), false, show), "NotAnEvent");
    assert_eq!(with(STRUCTURED, None, false, show), "EmptyValue");
    let value = event(r#","data":{}"#);
    assert_eq!(with(&[], Some(value.as_bytes()), false, show), "NotAnEvent");
}

#[test]
fn attributes_reach_the_envelope() {
    let value = br#"{"specversion":"1.0","id":"7","source":"/h","type":"io.sluicegate.model.request.v1",
        "provider":"anthropic.messages","conversation":"c","fleet":"f","agent":"a\u0062","responseid":"r",
        "sequence":"00000003","time":"2026-01-01T00:00:00Z","traceparent":"tp","tracestate":"ts","mcpserver":"m",
        "direction":"client","callid":"call","tool":"t","display":"html","historyfrom":4,"httpstatus":"529",
        "datacontenttype":"application/json","data":{}}"#;
    with(STRUCTURED, Some(value), false, |decoded| {
        let Decoded::Event(e) = decoded else { panic!("{decoded:?}") };
        assert_eq!(e.kind, EventType::ModelRequest);
        assert_eq!(e.type_name, EventType::ModelRequest.name());
        assert_eq!(e.provider, Some(Provider::AnthropicMessages));
        let texts = [
            e.conversation,
            e.fleet,
            e.agent,
            e.response_id,
            e.time,
            e.traceparent,
            e.tracestate,
            e.mcp_server,
            e.direction,
            e.call_id,
            e.tool,
            e.display,
            e.content_type,
        ];
        let texts: Vec<&str> = texts.into_iter().map(Option::unwrap).collect();
        assert_eq!(texts.join(" "), "c f ab r 2026-01-01T00:00:00Z tp ts m client call t html application/json");
        assert_eq!((e.sequence, e.history_from, e.http_status), (Some(3), Some(4), Some(529)));
        assert!(e.structured.is_some());
        assert_eq!(e.record.bytes, value);
    });
}

#[test]
fn bare_mode_is_told_by_shape() {
    use EventType::*;
    let known = [
        (r#"{"type":"message_stop"}"#, "anthropic.messages", ModelChunk),
        (r#"[{"type":"ping"}]"#, "anthropic.messages", ModelChunk),
        (r#"{"type":"message","role":"assistant","stop_reason":null}"#, "anthropic.messages", ModelResponse),
        (r#"{"type":"error","error":{"type":"api_error"}}"#, "anthropic.messages", ModelChunk),
        (r#"{"model":"claude-x","messages":[]}"#, "anthropic.messages", ModelRequest),
        (r#"{"messages":[],"tools":[{"input_schema":{}}]}"#, "anthropic.messages", ModelRequest),
        (r#"{"messages":[{"content":[{"type":"tool_result"}]}]}"#, "anthropic.messages", ModelRequest),
        (r#"{"type":"response.created"}"#, "openai.responses", ModelChunk),
        (r#"{"type":"error","sequence_number":2,"error":{}}"#, "openai.responses", ModelChunk),
        (r#"{"object":"response"}"#, "openai.responses", ModelResponse),
        (r#"{"output":[],"status":"completed"}"#, "openai.responses", ModelResponse),
        (r#"{"model":"m","input":"hi"}"#, "openai.responses", ModelRequest),
        (r#"{"object":"chat.completion.chunk"}"#, "openai.chat", ModelChunk),
        (r#"{"messages":[{"role":"tool"}]}"#, "openai.chat", ModelRequest),
        (r#"{"contents":[]}"#, "gemini.generate_content", ModelRequest),
        (r#"{"jsonrpc":"2.0"}"#, "mcp", McpMessage),
        (r#"{"call_id":"c","content":1}"#, "", ToolResult),
        (r#"{"call_id":"c","tool":"t"}"#, "", ToolStarted),
    ];
    for (value, provider, kind) in known {
        with(&[], Some(value.as_bytes()), false, |decoded| {
            let Decoded::Event(e) = decoded else { panic!("{value}: {decoded:?}") };
            assert_eq!((e.mode, e.kind), (Mode::Bare, kind), "{value}");
            assert_eq!(e.provider.map_or("", Provider::name), provider, "{value}");
        });
    }
    // Two providers share these, or none has them.
    for value in ["{}", "7", "[]", r#""x""#, r#"{"messages":[]}"#, r#"{"error":{}}"#] {
        assert_eq!(with(&[], Some(value.as_bytes()), false, show), "NotAnEvent", "{value}");
    }
    assert_eq!(with(&[], Some(b"{"), false, show), "InvalidJson");
    assert_eq!(with(&[], None, false, show), "EmptyValue");
}

/// Judged by its envelope alone: nothing of the value is looked at.
#[test]
fn oversize_records_keep_what_headers_say() {
    let big = vec![b'['; 5000];
    let found = binary(("other", None), Some(&big));
    assert_eq!(found, "oversize Binary ModelChunk false");
    assert_eq!(with(STRUCTURED, Some(&big), false, show), "oversize Structured Unknown false");
    assert_eq!(with(&[], Some(&big), false, show), "oversize Bare Unknown false");
    // The key counts: 4095 and one byte of key are the limit.
    assert_eq!(with(&[], Some(&big[..4095]), false, show), "TooDeep");
    assert_eq!(with(&[], Some(&big[..4096]), false, show), "oversize Bare Unknown false");
}

#[test]
fn names_are_closed_sets() {
    assert_eq!(EventType::from_name("io.sluicegate.render.v1"), EventType::Render);
    assert_eq!(EventType::from_name("io.sluicegate.render.v2"), EventType::Unknown);
    assert_eq!(EventType::Unknown.name(), "");
    assert_eq!(Reject::TooDeep.label(), "too_deep");
    assert!(event_stream(Some("Text/Event-Stream; charset=utf-8")));
    assert!(!event_stream(None));
}
