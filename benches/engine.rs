//! What a step costs: streamed deltas, and tool results of two sizes.
//!
//! `cargo bench --bench engine --no-default-features`. One core. Items are records, bytes are record values;
//! allocations are counted. Figures are in `docs/performance.md`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read files and clocks, and fail by panicking"
)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Engine, Input, Out, Settings};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

fn engine() -> Engine {
    Engine::new(Settings::local(Profile::Standard)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A stream of records, fed in order to one partition.
struct Feed<'e> {
    engine: &'e Engine,
    state: PartitionState,
    out: Out,
    offset: i64,
    provider: &'static str,
}

impl<'e> Feed<'e> {
    fn new(engine: &'e Engine, provider: &'static str) -> Self {
        let mut state = PartitionState::new();
        state.begin();
        Self { engine, state, out: Out::default(), offset: 0, provider }
    }

    fn record(&mut self, kind: &str, value: &[u8]) {
        let headers: [(&str, Option<&[u8]>); 7] = [
            ("content-type", Some(b"application/json")),
            ("ce_specversion", Some(b"1.0")),
            ("ce_id", Some(b"e-1")),
            ("ce_source", Some(b"/fleet/bench")),
            ("ce_type", Some(kind.as_bytes())),
            ("ce_provider", Some(self.provider.as_bytes())),
            ("ce_responseid", Some(b"r-1")),
        ];
        let input = Input {
            topic: "agent.events",
            partition: 0,
            offset: self.offset,
            timestamp: Some(1_767_225_600_000 + self.offset),
            key: Some(b"c-1"),
            headers: &headers,
            value: Some(value),
        };
        self.offset += 1;
        self.engine.step(&mut self.state, &input, &mut self.out);
        divan::black_box(&self.out);
        if self.offset % 64 == 0 {
            self.state.accept();
            self.state.begin();
        }
    }
}

const CHUNK: &str = "io.sluicegate.model.chunk.v1";
const DELTAS: usize = 1000;

/// A thousand argument fragments of one Anthropic call.
#[divan::bench]
fn anthropic_deltas(bencher: Bencher<'_, '_>) {
    let engine = engine();
    let delta = br#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"an argument of the usual length, "}}"#;
    bencher
        .counter(ItemsCount::new(DELTAS))
        .counter(BytesCount::new(DELTAS * delta.len()))
        .with_inputs(|| {
            let mut feed = Feed::new(&engine, "anthropic.messages");
            feed.record(CHUNK, br#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[]}}"#);
            feed.record(CHUNK, br#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"search","input":{}}}"#);
            feed
        })
        .bench_local_refs(|feed| {
            for _ in 0..DELTAS {
                feed.record(CHUNK, delta);
            }
        });
}

/// A thousand argument fragments of one Chat call, padded as OpenAI pads them.
#[divan::bench]
fn chat_deltas(bencher: Bencher<'_, '_>) {
    let engine = engine();
    let delta = br#"{"id":"chatcmpl-CFQ1","object":"chat.completion.chunk","created":1,"model":"gpt","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"an argument of the usual length, "}}]},"logprobs":null,"finish_reason":null}],"obfuscation":"k3hT9sQ"}"#;
    bencher
        .counter(ItemsCount::new(DELTAS))
        .counter(BytesCount::new(DELTAS * delta.len()))
        .with_inputs(|| {
            let mut feed = Feed::new(&engine, "openai.chat");
            feed.record(CHUNK, br#"{"id":"chatcmpl-CFQ1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"search","arguments":""}}]},"finish_reason":null}]}"#);
            feed
        })
        .bench_local_refs(|feed| {
            for _ in 0..DELTAS {
                feed.record(CHUNK, delta);
            }
        });
}

/// A thousand argument fragments of one Responses call, padded as OpenAI pads them.
#[divan::bench]
fn responses_deltas(bencher: Bencher<'_, '_>) {
    let engine = engine();
    let delta = br#"{"type":"response.function_call_arguments.delta","sequence_number":7,"item_id":"fc_68c2e6f7b72c8193ba1f552552c8dc92","output_index":0,"delta":"an argument of the usual length, ","obfuscation":"k3hT9sQ"}"#;
    bencher
        .counter(ItemsCount::new(DELTAS))
        .counter(BytesCount::new(DELTAS * delta.len()))
        .with_inputs(|| {
            let mut feed = Feed::new(&engine, "openai.responses");
            feed.record(CHUNK, br#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}"#);
            feed.record(CHUNK, br#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"search","arguments":"","status":"in_progress"}}"#);
            feed
        })
        .bench_local_refs(|feed| {
            for _ in 0..DELTAS {
                feed.record(CHUNK, delta);
            }
        });
}

/// Raw tool results, judged, published as safe copies. The argument is the size of the content.
#[divan::bench(args = [2 << 10, 20 << 10])]
fn tool_results(bencher: Bencher<'_, '_>, size: usize) {
    const RESULTS: usize = 100;
    let engine = engine();
    let results: Vec<Vec<u8>> = (0..RESULTS)
        .map(|n| {
            let line =
                format!("row {n}: \\\"name\\\": \\\"a value of some length\\\", and a line of text that goes on\\n");
            let mut content = line.repeat(size / line.len() + 1);
            // Cut in front of an escape, so that the string stays whole.
            while content.len() > size || content.ends_with('\\') {
                content.pop();
            }
            format!(r#"{{"call_id":"toolu_{n}","tool":"search","outcome":"ok","content":"{content}"}}"#).into_bytes()
        })
        .collect();
    let bytes: usize = results.iter().map(Vec::len).sum();
    bencher
        .counter(ItemsCount::new(RESULTS))
        .counter(BytesCount::new(bytes))
        .with_inputs(|| Feed::new(&engine, "anthropic.messages"))
        .bench_local_refs(|feed| {
            for result in &results {
                feed.record("io.sluicegate.tool.result.v1", result);
            }
        });
}
