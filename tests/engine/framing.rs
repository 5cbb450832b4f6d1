//! However a stream is cut into records, framed as server-sent events, or its arguments cut into pieces: the
//! same calls come out, or none that is final.

use crate::support::{Partition, body, engine, header, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Emission, Engine, To};

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";

/// Two calls whose texts have every kind of character and escape.
const TEXTS: [&str; 2] = [r#"{"text":"é€😀 \ud83d\ude00 \u00e9 \" \\ \n"}"#, r#"{"text":"b","n":[1,{}]}"#];

/// What Gemini's calls are made of: the value of one string.
const VALUES: [&str; 2] = ["é€😀 \" \\ \n", "b"];

fn ids(provider: Provider) -> [&'static str; 2] {
    match provider {
        Provider::AnthropicMessages => ["toolu_1", "toolu_2"],
        Provider::XaiResponses => {
            ["call-00000000-0000-4000-8000-000000000001-0", "call-00000000-0000-4000-8000-000000000001-1"]
        }
        _ => ["call_1", "call_2"],
    }
}

/// The text, or for Gemini the string, that is streamed for a call.
fn text(provider: Provider, call: usize) -> &'static str {
    if provider == Provider::GeminiGenerateContent { VALUES[call] } else { TEXTS[call] }
}

/// UTF-16 units as a JSON string. Halves of pairs stand as escapes.
fn literal(units: &[u16]) -> String {
    let mut out = String::from("\"");
    for unit in char::decode_utf16(units.iter().copied()) {
        match unit {
            Ok('"') => out.push_str("\\\""),
            Ok('\\') => out.push_str("\\\\"),
            Ok('\n') => out.push_str("\\n"),
            Ok(c) => out.push(c),
            Err(half) => out.push_str(&format!("\\u{:04x}", half.unpaired_surrogate())),
        }
    }
    out.push('"');
    out
}

/// A stream as its events: both calls opened, their pieces in this order, both closed, and the ending last.
/// Where calls follow on one another, the order of pieces is theirs.
fn stream(provider: Provider, pieces: &[(usize, String)]) -> Vec<String> {
    let mut events: Vec<String> = Vec::new();
    // `@` stands for a piece that only JSON text can hold.
    let mut push = |event: Value, piece: &str| events.push(event.to_string().replace("\"@\"", piece));
    let whole = |call: usize| literal(&text(provider, call).encode_utf16().collect::<Vec<u16>>());
    let ids = ids(provider);
    match provider {
        Provider::AnthropicMessages => {
            push(
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": []}}),
                "",
            );
            for (n, id) in ids.iter().enumerate() {
                push(
                    json!({"type": "content_block_start", "index": n, "content_block": {"type": "tool_use", "id": id, "name": "f", "input": {}}}),
                    "",
                );
            }
            for (n, piece) in pieces {
                push(
                    json!({"type": "content_block_delta", "index": n, "delta": {"type": "input_json_delta", "partial_json": "@"}}),
                    piece,
                );
            }
            (0..2).for_each(|n| push(json!({"type": "content_block_stop", "index": n}), ""));
            push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}), "");
            push(json!({"type": "message_stop"}), "");
        }
        Provider::OpenAiResponses | Provider::XaiResponses => {
            let item = |n: usize, status: &str| json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": ids[n], "name": "f", "arguments": "@", "status": status});
            push(
                json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}}),
                "",
            );
            for n in 0..2 {
                push(
                    json!({"type": "response.output_item.added", "output_index": n, "item": item(n, "in_progress")}),
                    "\"\"",
                );
            }
            for (n, piece) in pieces {
                push(json!({"type": "response.function_call_arguments.delta", "output_index": n, "delta": "@"}), piece);
            }
            for n in 0..2 {
                push(
                    json!({"type": "response.function_call_arguments.done", "output_index": n, "arguments": "@"}),
                    &whole(n),
                );
                push(
                    json!({"type": "response.output_item.done", "output_index": n, "item": item(n, "completed")}),
                    &whole(n),
                );
            }
            push(
                json!({"type": "response.completed", "response": {"id": "resp_1", "object": "response", "status": "completed", "output": []}}),
                "",
            );
        }
        Provider::OpenAiChat | Provider::XaiChat => {
            let chunk = |delta: Value, finish: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            let call = |n: usize| json!({"index": n, "id": ids[n], "type": "function", "function": {"name": "f", "arguments": ""}});
            push(
                chunk(json!({"role": "assistant", "content": null, "tool_calls": [call(0), call(1)]}), Value::Null),
                "",
            );
            for (n, piece) in pieces {
                let piece_of = json!({"tool_calls": [{"index": n, "function": {"arguments": "@"}}]});
                push(chunk(piece_of, Value::Null), piece);
            }
            push(chunk(json!({}), json!("tool_calls")), "");
        }
        _ => {
            let chunk = |call: Value| json!({"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}, "index": 0}], "responseId": "r1"});
            for (n, id) in ids.iter().enumerate() {
                push(chunk(json!({"name": "f", "id": id, "willContinue": true})), "");
                for (_, piece) in pieces.iter().filter(|(call, _)| *call == n) {
                    let leaf = json!({"jsonPath": "$.text", "stringValue": "@", "willContinue": true});
                    push(chunk(json!({"partialArgs": [leaf], "willContinue": true})), piece);
                }
                push(
                    chunk(json!({"partialArgs": [{"jsonPath": "$.text", "stringValue": ""}], "willContinue": true})),
                    "",
                );
                push(chunk(json!({})), "");
            }
            push(
                json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0, "finishReason": "STOP"}], "responseId": "r1"}),
                "",
            );
        }
    }
    events
}

/// Each call's text cut at these units.
fn pieces(provider: Provider, cuts: [&[usize]; 2]) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (call, cuts) in cuts.into_iter().enumerate() {
        let units: Vec<u16> = text(provider, call).encode_utf16().collect();
        let ends = cuts.iter().copied().chain([units.len()]);
        let mut from = 0;
        for end in ends {
            all.push((call, literal(&units[from..end.min(units.len())])));
            from = end.min(units.len());
        }
    }
    all
}

struct Run<'e> {
    provider: Provider,
    partition: Partition<'e>,
    said: Vec<String>,
    fed: usize,
}

impl<'e> Run<'e> {
    fn new(engine: &'e Engine, provider: Provider) -> Self {
        Self { provider, partition: Partition::new(engine), said: Vec::new(), fed: 0 }
    }
    /// Feeds a chunk, or with no data the closing.
    fn feed(&mut self, media: &str, data: Option<&[u8]>, sequence: Option<usize>) {
        let kind = if data.is_some() { "io.sluicegate.model.chunk.v1" } else { "io.sluicegate.model.closed.v1" };
        let id = sequence.unwrap_or(self.fed).to_string();
        let mut headers: Vec<(&str, Option<&[u8]>)> = vec![
            ("ce_specversion", Some(b"1.0")),
            ("ce_id", Some(id.as_bytes())),
            ("ce_source", Some(b"/framing")),
            ("ce_type", Some(kind.as_bytes())),
            ("ce_provider", Some(self.provider.name().as_bytes())),
        ];
        if data.is_some() {
            headers.push(("content-type", Some(media.as_bytes())));
        }
        if sequence.is_some() {
            headers.push(("ce_sequence", Some(id.as_bytes())));
        }
        self.fed += 1;
        let emissions = self.partition.feed_record(Some(b"c-1"), &headers, data);
        for verdict in verdicts(&emissions).iter().filter(|v| v["checkpoint"] == "tool_call") {
            let of_verdict =
                |e: &&Emission| e.to == To::Redacted && header(e, "ce_sgverdictid") == verdict["verdict_id"].as_str();
            let record = emissions.iter().find(of_verdict).map(body).unwrap_or_default();
            let (id, action) = (&verdict["subject"]["call_id"], &verdict["action"]);
            self.said.push(format!("{id} {action} {} {}", record["arguments"], record["arguments_sha256"]));
        }
    }
    fn chunks<'d>(mut self, media: &str, records: impl IntoIterator<Item = &'d [u8]>) -> Vec<String> {
        records.into_iter().for_each(|data| self.feed(media, Some(data), None));
        self.feed("", None, None);
        self.said.sort();
        self.said
    }
}

fn events(engine: &Engine, provider: Provider, events: &[String]) -> Vec<String> {
    Run::new(engine, provider).chunks(JSON, events.iter().map(String::as_bytes))
}

/// What every other way must give: each call's text in one piece, one record an event.
fn plain(engine: &Engine, provider: Provider) -> Vec<String> {
    let said = events(engine, provider, &stream(provider, &pieces(provider, [&[], &[]])));
    assert!(said.len() == 2 && said.iter().all(|call| call.contains("\"allow\" {")), "{provider:?}: {said:?}");
    said
}

/// A stream as server-sent events: line end, what stands before an event, and whether its data has two lines.
fn raw(provider: Provider, events: &[String], (end, before, halves): (&str, &str, bool)) -> String {
    let mut out = String::new();
    for event in events {
        // Half of a pair is not JSON to every parser.
        let named =
            serde_json::from_str::<Value>(event).ok().and_then(|event| Some(event["type"].as_str()?.to_owned()));
        let kind = named.unwrap_or_else(|| "message".to_owned());
        let before = before.replace("NAME", &kind).replace('\n', end);
        let data = match halves {
            true => format!("data: {{{end}data:{}", &event[1..]),
            false => format!("data: {event}"),
        };
        out.push_str(&format!("{before}{data}{end}{end}"));
    }
    if matches!(provider, Provider::OpenAiChat | Provider::XaiChat) {
        out.push_str(&format!("data: [DONE]{end}{end}"));
    }
    out
}

fn framed_in_any_way(provider: Provider) {
    let engine = engine(Profile::Standard);
    let expected = plain(&engine, provider);
    let stream = stream(provider, &pieces(provider, [&[3, 9], &[5]]));
    let array = format!("[{}]", stream.join(","));
    assert_eq!(Run::new(&engine, provider).chunks(JSON, [array.as_bytes()]), expected, "{provider:?}: an array");
    for end in ["\n", "\r\n", "\r"] {
        for before in ["", ": ping\n\n", "event: NAME\n", ":\nid: 7\nretry: 1\n"] {
            for halves in [false, true] {
                let text = raw(provider, &stream, (end, before, halves));
                let whole = Run::new(&engine, provider).chunks(SSE, [text.as_bytes()]);
                assert_eq!(whole, expected, "{provider:?}: {end:?} {before:?} {halves}");
                let marked = format!("\u{feff}{text}");
                assert_eq!(
                    Run::new(&engine, provider).chunks(SSE, [marked.as_bytes()]),
                    expected,
                    "{provider:?}: a mark"
                );
                let blank = format!("{end}{end}");
                let records: Vec<&str> = text.split_inclusive(&blank).collect();
                let each = Run::new(&engine, provider).chunks(SSE, records.iter().map(|r| r.as_bytes()));
                assert_eq!(each, expected, "{provider:?}: an event a record, {end:?} {before:?} {halves}");
                // A host that parts the stream at blank lines may drop them.
                let bare = records.iter().map(|r| r.trim_end().as_bytes()).filter(|r| !r.is_empty());
                let each = Run::new(&engine, provider).chunks(SSE, bare);
                assert_eq!(each, expected, "{provider:?}: a bare event a record, {end:?} {before:?} {halves}");
            }
        }
        let lines = raw(provider, &stream, (end, "event: NAME\n", false));
        let each = lines.split(end).filter(|line| !line.is_empty()).map(str::as_bytes);
        assert_eq!(Run::new(&engine, provider).chunks(SSE, each), expected, "{provider:?}: a line a record");
    }
}

fn cut_anywhere(provider: Provider) {
    let engine = engine(Profile::Standard);
    let expected = plain(&engine, provider);
    for call in 0..2 {
        for at in 0..=text(provider, call).encode_utf16().count() {
            let cut = [at];
            let cuts: [&[usize]; 2] = if call == 0 { [&cut, &[]] } else { [&[], &cut] };
            let found = events(&engine, provider, &stream(provider, &pieces(provider, cuts)));
            assert_eq!(found, expected, "{provider:?}: call {call} cut at {at}");
        }
        let every: Vec<usize> = (0..text(provider, call).encode_utf16().count()).collect();
        let cuts: [&[usize]; 2] = if call == 0 { [&every, &[]] } else { [&[], &every] };
        let found = events(&engine, provider, &stream(provider, &pieces(provider, cuts)));
        assert_eq!(found, expected, "{provider:?}: call {call} a unit a piece");
    }
}

fn interleaved(provider: Provider) {
    let engine = engine(Profile::Standard);
    let expected = plain(&engine, provider);
    let all = pieces(provider, [&[2, 9], &[4, 9]]);
    let mut orders = 0;
    // Which of six places the first call's three pieces take.
    for places in (0u32..64).filter(|places| places.count_ones() == 3) {
        let (mut first, mut second) = (all[..3].iter(), all[3..].iter());
        let order: Vec<(usize, String)> = (0..6)
            .map(|n| if places & (1 << n) == 0 { second.next() } else { first.next() }.unwrap().clone())
            .collect();
        assert_eq!(events(&engine, provider, &stream(provider, &order)), expected, "{provider:?}: {places:06b}");
        orders += 1;
    }
    assert_eq!(orders, 20);
}

fn said_twice(provider: Provider) {
    let engine = engine(Profile::Standard);
    let expected = plain(&engine, provider);
    let stream = stream(provider, &pieces(provider, [&[3], &[5]]));
    let mut run = Run::new(&engine, provider);
    for (n, event) in stream.iter().enumerate() {
        for _ in 0..2 {
            run.feed(JSON, Some(event.as_bytes()), Some(n));
        }
    }
    assert_eq!(run.chunks(JSON, []), expected, "{provider:?}");
}

fn without_its_tail(provider: Provider) {
    let engine = engine(Profile::Standard);
    let stream = stream(provider, &pieces(provider, [&[3], &[5]]));
    for end in 0..stream.len() {
        let said = events(&engine, provider, &stream[..end]);
        assert!(said.iter().all(|call| call.contains("\"block\"")), "{provider:?}: {end}: {said:?}");
        let text = raw(provider, &stream[..end], ("\n", "", false)).replace("data: [DONE]\n\n", "");
        let whole = Run::new(&engine, provider).chunks(SSE, [text.as_bytes()]);
        assert_eq!(whole, said, "{provider:?}: {end} of the raw stream");
    }
}

/// What a host read from the network, cut at any byte, or every so many: the same calls.
fn read_from_the_network(provider: Provider) {
    let engine = engine(Profile::Standard);
    let expected = plain(&engine, provider);
    let stream = stream(provider, &pieces(provider, [&[3, 9], &[5]]));
    let text = raw(provider, &stream, ("\n", "event: NAME\n", false));
    for at in 1..text.len() {
        let (first, rest) = text.as_bytes().split_at(at);
        assert_eq!(Run::new(&engine, provider).chunks(SSE, [first, rest]), expected, "{provider:?}: at {at}");
    }
    for framing in [("\r\n", ": a:b\nid: 1:2\nevent: NAME\n", true), ("\r", "event: NAME\n", false)] {
        let text = raw(provider, &stream, framing);
        for size in [1, 2, 3, 7, 64, 200, 1400] {
            let reads = text.as_bytes().chunks(size);
            assert_eq!(Run::new(&engine, provider).chunks(SSE, reads), expected, "{provider:?}: reads of {size}");
        }
    }
}

/// A piece of an event that does not go on as it should is lost, and what it may have been a part of is cut.
fn read_with_a_hole(provider: Provider) {
    let engine = engine(Profile::Standard);
    let stream = stream(provider, &pieces(provider, [&[3, 9], &[5]]));
    let text = raw(provider, &stream, ("\n", "", false));
    let piece = stream.iter().position(|event| event.contains("\\\"text")).unwrap_or(stream.len() / 2);
    let at: usize = stream[..piece].iter().map(|event| event.len() + "data: \n\n".len()).sum::<usize>() + 20;
    let (first, rest) = text.as_bytes().split_at(at);
    let blocked = |said: &[String], what: &str| {
        assert!(
            !said.is_empty() && said.iter().any(|call| call.contains("\"block\"")),
            "{provider:?}: {what}: {said:?}"
        );
    };
    // A byte is missing; another record came between; the numbers have a gap.
    blocked(&Run::new(&engine, provider).chunks(SSE, [first, &rest[1..]]), "a byte");
    let mut run = Run::new(&engine, provider);
    run.feed(SSE, Some(first), None);
    run.feed(JSON, Some(stream[piece].as_bytes()), None);
    blocked(&run.chunks(SSE, [rest]), "between");
    let mut run = Run::new(&engine, provider);
    run.feed(SSE, Some(first), Some(1));
    run.feed(SSE, Some(rest), Some(3));
    blocked(&run.chunks(SSE, []), "a gap");
    // An event longer than what is kept of one.
    let long = format!("data: {{\"a\":\"{}", "x".repeat(2_200_000));
    let reads = [&text.as_bytes()[..at - 20], long.as_bytes(), b"\"}\n\n", &text.as_bytes()[at - 20..]];
    blocked(&Run::new(&engine, provider).chunks(SSE, reads), "a long one");
}

/// Half an event survives what the rest of the state does: an aborted transaction, and a restore.
#[test]
fn half_an_event_is_state() {
    let engine = engine(Profile::Standard);
    let provider = Provider::AnthropicMessages;
    let expected = plain(&engine, provider);
    let text = raw(provider, &stream(provider, &pieces(provider, [&[3, 9], &[5]])), ("\n", "", false));
    let third = text.len() / 3;
    let (first, rest) = text.as_bytes().split_at(third);
    let (second, last) = rest.split_at(third);
    let mut run = Run::new(&engine, provider);
    run.feed(SSE, Some(first), None);
    run.partition.state.accept();
    run.partition.state.begin();
    run.feed(SSE, Some(second), None);
    run.partition.state.rollback();
    run.partition.state.begin();
    run.feed(SSE, Some(second), None);
    run.partition.state.accept();
    let mut restored = PartitionState::new();
    run.partition.state.entries(&mut |key, value| restored.restore(key, value).unwrap());
    restored.restored().unwrap();
    restored.begin();
    run.partition.state = restored;
    assert_eq!(run.chunks(SSE, [last]), expected);
}

fn all_of(provider: Provider) {
    framed_in_any_way(provider);
    cut_anywhere(provider);
    interleaved(provider);
    said_twice(provider);
    without_its_tail(provider);
    read_from_the_network(provider);
    read_with_a_hole(provider);
}

#[test]
fn anthropic_messages() {
    all_of(Provider::AnthropicMessages);
}

#[test]
fn openai_responses() {
    all_of(Provider::OpenAiResponses);
}

#[test]
fn xai_responses() {
    all_of(Provider::XaiResponses);
}

#[test]
fn openai_chat() {
    all_of(Provider::OpenAiChat);
}

#[test]
fn xai_chat() {
    all_of(Provider::XaiChat);
}

#[test]
fn gemini_generate_content() {
    all_of(Provider::GeminiGenerateContent);
}
