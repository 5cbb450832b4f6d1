//! What a step costs: streamed fragments, structured events, tool results of two sizes; and whether a long
//! argument costs more a byte than a short one.
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

mod support;

use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher};
use sluicegate::engine::{Engine, Limits};
use std::time::{Duration, Instant};
use support::{CHUNK, Feed, RESULT, STREAMS, Stream, engine, prose, texts, without};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
    if std::env::args().skip(1).all(|argument| argument.starts_with('-') || argument == "linearity") {
        linearity();
    }
}

const DELTAS: usize = 1000;

/// A thousand argument fragments of one call, each a value of 214 bytes with ten headers.
#[divan::bench(args = STREAMS.iter().map(|stream| stream.provider))]
fn deltas(bencher: Bencher<'_, '_>, provider: &'static str) {
    let (engine, stream) = (engine(Limits::default()), Stream::of(provider));
    let delta = stream.sized(214);
    bencher
        .counter(ItemsCount::new(DELTAS))
        .counter(BytesCount::new(DELTAS * delta.len()))
        .with_inputs(|| {
            let mut feed = Feed::new(&engine, stream.provider);
            for record in stream.before {
                feed.record(CHUNK, record.as_bytes());
            }
            feed
        })
        .bench_local_refs(|feed| {
            for _ in 0..DELTAS {
                feed.record(CHUNK, &delta);
            }
        });
}

/// A thousand fragments in structured events of 800 bytes.
#[divan::bench(args = STREAMS.iter().map(|stream| stream.provider))]
fn structured(bencher: Bencher<'_, '_>, provider: &'static str) {
    let (engine, stream) = (engine(Limits::default()), Stream::of(provider));
    let around = |data: &str| {
        format!(
            r#"{{"specversion":"1.0","id":"6f1c1c9e-0000-4000-8000-000000000001","source":"/fleet/bench","type":"{CHUNK}","datacontenttype":"application/json","time":"2026-01-01T00:00:00Z","provider":"{provider}","conversation":"c-1","responseid":"r-1","fleet":"bench","agent":"agent-1","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","data":{data}}}"#
        )
    };
    let event = around(stream.fragment);
    let event = event.replace('@', &prose(800 - (event.len() - 1))).into_bytes();
    bencher
        .counter(ItemsCount::new(DELTAS))
        .counter(BytesCount::new(DELTAS * event.len()))
        .with_inputs(|| {
            let mut feed = Feed::new(&engine, stream.provider);
            for record in stream.before {
                feed.structured(around(record).as_bytes());
            }
            feed
        })
        .bench_local_refs(|feed| {
            for _ in 0..DELTAS {
                feed.structured(&event);
            }
        });
}

/// Raw tool results, judged, published as safe copies. The argument is the size of the content.
#[divan::bench(args = [2 << 10, 20 << 10])]
fn tool_results(bencher: Bencher<'_, '_>, size: usize) {
    const RESULTS: usize = 100;
    let engine = engine(Limits::default());
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
    feed_all(bencher, &engine, &results);
}

/// The same with texts as tools return them: `kind bytes`, and ` secret` where one line holds a password.
#[divan::bench(args = contents())]
fn tool_contents(bencher: Bencher<'_, '_>, content: &str) {
    const RESULTS: usize = 20;
    let engine = engine(Limits::default());
    let mut words = content.split(' ');
    let (kind, size) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
    let text = texts::text(kind, size, words.next().is_some());
    let results: Vec<Vec<u8>> = (0..RESULTS).map(|n| result(&format!("toolu_{n}"), &text)).collect();
    feed_all(bencher, &engine, &results);
}

/// One of each kind, 20 KiB, clean, with a policy switched off: what is saved is what it costs.
#[divan::bench(args = ["none", "SG01", "SG02", "SG11", "SG12", "SG11 SG12", "all"])]
fn tool_results_without(bencher: Bencher<'_, '_>, off: &str) {
    let codes: Vec<String> = match off {
        "all" => (1..=15).map(|n| format!("SG{n:02}")).collect(),
        codes => codes.split(' ').filter(|code| *code != "none").map(str::to_owned).collect(),
    };
    let engine = without(&codes);
    let results: Vec<Vec<u8>> =
        texts::KINDS.iter().map(|kind| result("toolu_1", &texts::text(kind, 20 << 10, false))).collect();
    feed_all(bencher, &engine, &results);
}

/// Feeds tool results to an engine, each time from the beginning.
fn feed_all(bencher: Bencher<'_, '_>, engine: &Engine, results: &[Vec<u8>]) {
    let bytes: usize = results.iter().map(Vec::len).sum();
    bencher
        .counter(ItemsCount::new(results.len()))
        .counter(BytesCount::new(bytes))
        .with_inputs(|| Feed::new(engine, "anthropic.messages"))
        .bench_local_refs(|feed| {
            for result in results {
                feed.record(RESULT, result);
            }
        });
}

fn result(id: &str, text: &str) -> Vec<u8> {
    let result = serde_json::json!({"call_id": id, "tool": "search", "outcome": "ok", "content": text});
    result.to_string().into_bytes()
}

fn contents() -> Vec<String> {
    let mut all = Vec::new();
    for kind in texts::KINDS {
        for size in [2 << 10, 20 << 10] {
            all.extend(["", " secret"].map(|secret| format!("{kind} {size}{secret}")));
        }
    }
    all
}

/// Argument text of one run, bytes.
const TEXT: usize = 4 << 20;
const SHORT: usize = 4 << 10;
/// What a fragment brings: 4 MiB in 40 000 of them.
const FRAGMENT: usize = TEXT / 40_000;

/// The same text as one argument of 4 MiB and as arguments of 4 KiB: streamed, committed every thousand records
/// with its entries encoded, ended, judged. Both in turns; the fastest of each counts.
fn linearity() {
    let limits = Limits { call_bytes: 8 << 20, conversation_bytes: 16 << 20, ..Limits::default() };
    let engine = engine(limits);
    println!("\nlinearity: nanoseconds a byte of argument text, fastest of 7; verdicts of calls");
    for stream in &STREAMS {
        let (mut long, mut short) = (Duration::MAX, Duration::MAX);
        let mut verdicts = (0, 0);
        for _ in 0..7 {
            let (one, many) = (streamed(&engine, stream, TEXT), streamed(&engine, stream, SHORT));
            (long, short) = (long.min(one.0), short.min(many.0));
            verdicts = (one.1, many.1);
        }
        let each = |time: Duration| time.as_secs_f64() * 1e9 / TEXT as f64;
        println!(
            "{:<24} 4 MiB {:>6.2}  4 KiB {:>6.2}  ratio {:.2}  {} of 1, {} of {}",
            stream.provider,
            each(long),
            each(short),
            long.as_secs_f64() / short.as_secs_f64(),
            verdicts.0,
            verdicts.1,
            TEXT / SHORT,
        );
    }
}

/// The time to stream 4 MiB as arguments of that size, and the verdicts that gave.
fn streamed(engine: &Engine, stream: &Stream, call: usize) -> (Duration, u64) {
    // Every call is of a response of its own.
    let other = |record: &[u8], n: usize| {
        let text = String::from_utf8_lossy(record).into_owned();
        let renamed = ["msg_1", "resp_1", "chatcmpl-1", "g-1"]
            .iter()
            .fold(text, |text, id| text.replace(&format!("\"{id}\""), &format!("\"{}{n}\"", &id[..id.len() - 1])));
        renamed.into_bytes()
    };
    let of = |n: usize| {
        let all = |records: &[&str]| records.iter().map(|record| other(record.as_bytes(), n)).collect::<Vec<_>>();
        (all(stream.before), other(&stream.with(FRAGMENT), n), all(stream.behind))
    };
    let responses = [of(1), of(2)];
    let mut feed = Feed::new(engine, stream.provider);
    (feed.transaction, feed.writes) = (1000, true);
    let began = Instant::now();
    for (before, fragment, behind) in responses.iter().cycle().take(TEXT / call) {
        for record in before {
            feed.record(CHUNK, record);
        }
        for _ in 0..call / FRAGMENT {
            feed.record(CHUNK, fragment);
        }
        for record in behind {
            feed.record(CHUNK, record);
        }
    }
    feed.commit();
    (began.elapsed(), feed.verdicts)
}
