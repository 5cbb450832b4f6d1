//! Records a second end to end on Apache Kafka: produced, judged, committed.
//!
//! `cargo bench --bench end_to_end`. One broker, one worker, eight partitions, topics with one replica, broker
//! and service on the same machine. `floor` runs a judge that only counts: what is left is the runtime's cost.
//! Figures are in `docs/performance.md`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench reads clocks, and fails by panicking"
)]

#[path = "../tests/kafka/support/mod.rs"]
#[allow(dead_code, reason = "the bench uses a part of the harness")]
mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::{Engine, Settings as EngineSettings};
use sluicegate::runtime::judge::Judge;
use sluicegate::runtime::kafka::topics;
use sluicegate::runtime::service;
use sluicegate::runtime::settings::Settings;
use sluicegate::runtime::worker::{Stop, Telemetry};

use support::client::{create_topic, eventually};
use support::counting::Counting;
use support::{broker, unique};

const PARTITIONS: i32 = 8;

#[derive(Default)]
struct Meter {
    records: AtomicU64,
    transactions: AtomicU64,
    commits: Mutex<Vec<Duration>>,
    latency: Mutex<Vec<i64>>,
}

impl Telemetry for Meter {
    fn committed(&self, _worker: u32, records: u64, took: Duration) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.transactions.fetch_add(1, Ordering::Relaxed);
        lock(&self.commits).push(took);
    }
    fn latency(&self, _worker: u32, ms: i64) {
        lock(&self.latency).push(ms);
    }
}

fn lock<T>(values: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    values.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One record: conversation, `type`, data.
struct Record(String, &'static str, Vec<u8>);

/// Streams of 64 argument fragments each, many at a time.
fn deltas(records: usize) -> Vec<Record> {
    const CHUNK: &str = "io.sluicegate.model.chunk.v1";
    const PER_STREAM: usize = 69;
    const AT_A_TIME: usize = 400;
    let event = |stream: usize, step: usize| -> String {
        match step {
            0 => format!(r#"{{"type":"message_start","message":{{"id":"msg_{stream}","type":"message","role":"assistant","content":[]}}}}"#),
            1 => format!(r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"toolu_{stream}","name":"search","input":{{}}}}}}"#),
            2 => r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\""}}"#.to_owned(),
            65 => r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"}"}}"#.to_owned(),
            66 => r#"{"type":"content_block_stop","index":0}"#.to_owned(),
            67 => r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#.to_owned(),
            68 => r#"{"type":"message_stop"}"#.to_owned(),
            _ => r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"an argument of the usual length, "}}"#.to_owned(),
        }
    };
    let mut all = Vec::with_capacity(records);
    for group in 0.. {
        for step in 0..PER_STREAM {
            for stream in group * AT_A_TIME..(group + 1) * AT_A_TIME {
                if all.len() == records {
                    return all;
                }
                all.push(Record(format!("c-{stream}"), CHUNK, event(stream, step).into_bytes()));
            }
        }
    }
    all
}

/// Raw tool results with text of this size.
fn results(records: usize, size: usize) -> Vec<Record> {
    let text = "a line of text as a tool prints it, of the usual length\\n".repeat(size / 57 + 1);
    let result = |n: usize| format!(r#"{{"call_id":"toolu_{n}","tool":"search","outcome":"ok","content":"{text}"}}"#);
    (0..records)
        .map(|n| Record(format!("c-{}", n % 4000), "io.sluicegate.tool.result.v1", result(n).into_bytes()))
        .collect()
}

fn world(bootstrap: &str) -> Settings {
    let input = unique("events");
    let mut settings = Settings::new(bootstrap, unique("group"), &[&input]);
    settings.verdicts = unique("verdicts");
    settings.redacted = unique("redacted");
    settings.deadletters = unique("deadletters");
    create_topic(bootstrap, &input, PARTITIONS, &[]);
    let cluster = topics::inspect(&settings).expect("the cluster");
    topics::apply(&settings, &topics::plan(&settings, &cluster), 1).expect("topics");
    settings
}

fn producer(settings: &Settings) -> BaseProducer {
    ClientConfig::new()
        .set("bootstrap.servers", &settings.bootstrap)
        .set("enable.idempotence", "true")
        .create()
        .expect("a producer")
}

/// Sends records and waits until they are acknowledged.
fn produce(producer: &BaseProducer, settings: &Settings, records: &[Record]) {
    for (n, Record(conversation, kind, value)) in records.iter().enumerate() {
        let headers = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", "1"),
            ("ce_source", "/bench"),
            ("ce_type", kind),
            ("ce_provider", "anthropic.messages"),
        ];
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: Some(*value) }));
        let partition =
            conversation.bytes().fold(0_u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into())) % PARTITIONS as u32;
        let mut record = BaseRecord::to(&settings.inputs[0])
            .partition(partition as i32)
            .key(conversation.as_bytes())
            .payload(value.as_slice())
            .headers(headers);
        while let Err((_, back)) = producer.send(record) {
            producer.poll(Duration::from_millis(5));
            record = back;
        }
        if n % 1000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(Duration::from_secs(120)).expect("acknowledged");
}

/// CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn percentile<T: Ord + Copy + Default>(values: &Mutex<Vec<T>>, of: usize) -> T {
    let mut values = lock(values).clone();
    values.sort_unstable();
    values.get(values.len() * of / 100).copied().unwrap_or_default()
}

/// Judges records that are all there already, then a trickle, and prints what it took.
fn measure<J: Judge>(name: &str, bootstrap: &str, judge: J, records: &[Record]) {
    let settings = world(bootstrap);
    let producer = producer(&settings);
    produce(&producer, &settings, records);
    let (meter, stop) = (Arc::new(Meter::default()), Arc::new(Stop::default()));
    let (inner, telemetry, own) = (Arc::clone(&stop), Arc::clone(&meter), settings.clone());
    let before = cpu();
    let thread = std::thread::spawn(move || service::run(own, Arc::new(judge), telemetry, inner));
    assert!(eventually(Duration::from_secs(60), || meter.records.load(Ordering::Relaxed) > 0), "it starts");
    let (began, first) = (Instant::now(), meter.records.load(Ordering::Relaxed));
    while meter.records.load(Ordering::Relaxed) < records.len() as u64 {
        assert!(began.elapsed() < Duration::from_secs(300), "it ends");
        std::thread::sleep(Duration::from_millis(2));
    }
    let (took, used) = (began.elapsed(), cpu().saturating_sub(before));
    let count = (records.len() as u64 - first) as f64;
    let bytes: usize = records.iter().map(|r| r.2.len()).sum();
    let share = count / records.len() as f64;
    println!(
        "{name:<12} {:>8.0} records/s {:>7.1} MB/s {:>6.1} us CPU a record, {} transactions, commit p50 {:.1} ms p99 {:.1} ms",
        count / took.as_secs_f64(),
        bytes as f64 * share / 1e6 / took.as_secs_f64(),
        used.as_secs_f64() * 1e6 / records.len() as f64,
        meter.transactions.load(Ordering::Relaxed),
        percentile(&meter.commits, 50).as_secs_f64() * 1e3,
        percentile(&meter.commits, 99).as_secs_f64() * 1e3,
    );
    lock(&meter.latency).clear();
    for piece in records.chunks(1).take(300) {
        produce(&producer, &settings, piece);
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    println!(
        "{:<12} record to commit, one at a time: p50 {} ms p99 {} ms",
        "",
        percentile(&meter.latency, 50),
        percentile(&meter.latency, 99),
    );
    stop.request();
    let ended = thread.join();
    assert!(matches!(ended, Ok(Ok(_))), "it ends well: {ended:?}");
}

fn engine() -> Engine {
    Engine::new(EngineSettings::local(Profile::Standard)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn main() {
    let Some(broker) = broker() else { return };
    let bootstrap = &broker.bootstrap;
    measure("floor", bootstrap, Counting::default(), &deltas(300_000));
    measure("deltas", bootstrap, engine(), &deltas(300_000));
    measure("results 2k", bootstrap, engine(), &results(60_000, 2 << 10));
    measure("results 20k", bootstrap, engine(), &results(10_000, 20 << 10));
}
