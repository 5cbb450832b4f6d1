//! Peak memory of the engine alone, on inputs made to need much.
//!
//! `cargo bench --bench memory --no-default-features`. A counting allocator; the figures are bytes allocated above
//! what was allocated before the first record, so the record's own bytes are not among them. A reallocation counts
//! with the difference. `standard` are the default limits; `wide` are limits far above them, some beyond what
//! the configuration takes. Figures are in `docs/performance.md`.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "an allocator is unsafe code; a bench reads clocks and fails by panicking"
)]

mod support;

use sluicegate::engine::{Limits, Outcome};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use support::{CHUNK, Feed, RESULT, engine};

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn grow(by: usize) {
    PEAK.fetch_max(HELD.fetch_add(by, Relaxed) + by, Relaxed);
}

// SAFETY: all is passed on to the system's allocator; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD.fetch_sub(layout.size(), Relaxed);
        grow(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOC: Counting = Counting;

const LARGE: usize = 64 << 20;
const DEPTH: usize = 100_000;
const CALLS: usize = 10_000;
const LEAVES: usize = 100_000;

fn wide() -> Limits {
    Limits {
        record_bytes: 2 * LARGE as u64,
        call_bytes: 2 * LARGE as u64,
        output_bytes: 8 * LARGE as u64,
        redacted_record_bytes: 2 * LARGE as u64,
        deadletter_record_bytes: 2 * LARGE as u64,
        open_calls_per_response: 1 << 16,
        open_calls_per_conversation: 1 << 16,
        conversation_bytes: 4 * LARGE as u64,
        partition_bytes: 8 * LARGE as u64,
        json_depth: 2 * DEPTH as u32,
        json_nodes: 1 << 24,
        ..Limits::default()
    }
}

/// Feeds records under both sets of limits and prints a line for each.
fn measure(name: &str, provider: &'static str, kind: &str, records: &[String]) {
    for (limits, settings) in [("standard", Limits::default()), ("wide", wide())] {
        let engine = engine(settings);
        let before = HELD.load(Relaxed);
        PEAK.store(before, Relaxed);
        let began = Instant::now();
        let mut feed = Feed::new(&engine, provider);
        let mut outcomes = [0_u32; 3];
        for record in records {
            match feed.record(kind, record.as_bytes()) {
                Outcome::Judged => outcomes[0] += 1,
                Outcome::Passed => outcomes[1] += 1,
                Outcome::Rejected(_) => outcomes[2] += 1,
            }
        }
        let took = began.elapsed();
        let (peak, held) = (PEAK.load(Relaxed) - before, HELD.load(Relaxed) - before);
        feed.commit();
        let state = feed.state.stats().bytes;
        drop(feed);
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let input: usize = records.iter().map(String::len).sum();
        let [judged, passed, rejected] = outcomes;
        println!(
            "{name:<36} {limits:<8} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.0}  {judged}/{passed}/{rejected}",
            mib(input),
            mib(peak),
            mib(held),
            mib(state as usize),
            took.as_secs_f64() * 1e3,
        );
    }
}

fn result(content: &str) -> String {
    format!(r#"{{"call_id":"toolu_1","tool":"search","outcome":"ok","content":{content}}}"#)
}

fn leaf(path: &str) -> String {
    format!(r#"{{"jsonPath":"{path}","numberValue":1}}"#)
}

fn partial(leaves: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"plan","partialArgs":[{leaves}],"willContinue":true}}}}]}}}}],"responseId":"g-1"}}"#
    )
}

const GEMINI_END: &str =
    r#"{"candidates":[{"content":{"parts":[{"functionCall":{}}]},"finishReason":"STOP"}],"responseId":"g-1"}"#;

fn main() {
    println!(
        "{:<36} {:<8} {:>8} {:>8} {:>8} {:>8} {:>8}  judged/passed/rejected",
        "case", "limits", "in MiB", "peak MiB", "held MiB", "state", "ms"
    );
    let (anthropic, gemini) = ("anthropic.messages", "gemini.generate_content");
    let numbers = |bytes: usize| result(&format!("[{}1]", "1,".repeat(bytes / 2)));
    let line = "a line of a tool's output that goes on for a while\\n";
    let text = line.repeat(LARGE / line.len());
    measure("result of 64 MiB, text", anthropic, RESULT, &[result(&format!("\"{text}\""))]);
    measure("result of 64 MiB, numbers", anthropic, RESULT, &[numbers(LARGE)]);
    // What the default limit of a record still lets in.
    let within = line.repeat((7 << 20) / line.len());
    measure("result of 7 MiB, text", anthropic, RESULT, &[result(&format!("\"{within}\""))]);
    measure("result of 7 MiB, numbers", anthropic, RESULT, &[numbers(7 << 20)]);
    measure("result of 1.9 MiB, numbers", anthropic, RESULT, &[numbers((19 << 20) / 10)]);
    let argument = format!(
        r#"{{"type":"message","id":"m","role":"assistant","stop_reason":"tool_use","content":[{{"type":"tool_use","id":"t","name":"write","input":{{"text":"{text}"}}}}]}}"#
    );
    measure("argument of 64 MiB", anthropic, "io.sluicegate.model.response.v1", &[argument]);
    drop(text);
    let nested = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    measure("result of depth 100 000", anthropic, RESULT, &[result(&nested)]);
    let argument = format!(
        r#"{{"type":"message","id":"m","role":"assistant","stop_reason":"tool_use","content":[{{"type":"tool_use","id":"t","name":"write","input":{{"a":{nested}}}}}]}}"#
    );
    measure("argument of depth 100 000", anthropic, "io.sluicegate.model.response.v1", &[argument]);

    let mut calls = vec![r#"{"type":"message_start","message":{"id":"m","role":"assistant","content":[]}}"#.to_owned()];
    calls.extend((0..CALLS).map(|n| {
        format!(r#"{{"type":"content_block_start","index":{n},"content_block":{{"type":"tool_use","id":"t_{n}","name":"f","input":{{}}}}}}"#)
    }));
    for piece in ["{\\\"a\\\":", "\\\"some text of a call\\\"", "}"] {
        calls.extend((0..CALLS).map(|n| {
            format!(r#"{{"type":"content_block_delta","index":{n},"delta":{{"type":"input_json_delta","partial_json":"{piece}"}}}}"#)
        }));
    }
    calls.extend((0..CALLS).map(|n| format!(r#"{{"type":"content_block_stop","index":{n}}}"#)));
    calls.push(r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#.to_owned());
    calls.push(r#"{"type":"message_stop"}"#.to_owned());
    measure("10 000 interleaved calls", anthropic, CHUNK, &calls);

    let end = || GEMINI_END.to_owned();
    measure("leaf $.x[1000000000]", gemini, CHUNK, &[partial(&leaf("$.x[1000000000]")), end()]);
    let leaves: Vec<String> = (0..LEAVES).map(|n| leaf(&format!("$.list[{n}].amount"))).collect();
    measure("100 000 leaves in one record", gemini, CHUNK, &[partial(&leaves.join(",")), end()]);
    let mut each = vec![partial(&leaves[0])];
    each.extend(leaves[1..].iter().map(|leaf| partial(leaf).replace(r#""name":"plan","#, "")));
    each.push(end());
    measure("100 000 leaves in as many records", gemini, CHUNK, &each);
}
