//! End-to-end figures with the counting judge, which costs next to nothing: the floor of what the runtime costs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluicegate::runtime::service;
use sluicegate::runtime::worker::{Ended, Stop, Telemetry};

use crate::exactly_once::world;
use crate::support::broker;
use crate::support::client::{Feed, eventually};
use crate::support::counting::Counting;

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
        self.commits.lock().unwrap().push(took);
    }
    fn latency(&self, _worker: u32, ms: i64) {
        self.latency.lock().unwrap().push(ms);
    }
}

/// CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn median<T: Ord + Copy>(values: &Mutex<Vec<T>>, of: usize) -> Option<T> {
    let mut values = values.lock().unwrap().clone();
    values.sort();
    values.get(values.len() * of / 100).copied()
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 8);
    let total = 300_000;
    let filler = "x".repeat(480);
    let records: Vec<_> = (0..total)
        .map(|i| {
            (
                i % 8,
                format!("k{}", i % 800),
                if i % 4 == 0 { format!("v{i}{filler}") } else { format!("open:{}", i % 10) },
            )
        })
        .collect();
    Feed::new(&broker.bootstrap).produce(&settings.inputs[0], &records);
    let (meter, stop) = (Arc::new(Meter::default()), Arc::new(Stop::default()));
    let (inner, telemetry, s) = (Arc::clone(&stop), Arc::clone(&meter), settings.clone());
    let before = cpu();
    let thread = std::thread::spawn(move || service::run(s, Arc::new(Counting::default()), telemetry, inner));
    assert!(eventually(Duration::from_secs(60), || meter.records.load(Ordering::Relaxed) > 0));
    let (began, first) = (Instant::now(), meter.records.load(Ordering::Relaxed));
    while meter.records.load(Ordering::Relaxed) < u64::try_from(total).unwrap() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (took, used) = (began.elapsed(), cpu() - before);
    let count = meter.records.load(Ordering::Relaxed) - first;
    println!(
        "throughput: {:.0} records/s, {:.1} us of process CPU a record, {} transactions, commit p50 {:?} p99 {:?}",
        f64::from(u32::try_from(count).unwrap()) / took.as_secs_f64(),
        used.as_secs_f64() * 1e6 / f64::from(total),
        meter.transactions.load(Ordering::Relaxed),
        median(&meter.commits, 50),
        median(&meter.commits, 99),
    );
    meter.latency.lock().unwrap().clear();
    meter.commits.lock().unwrap().clear();
    let feed = Feed::new(&broker.bootstrap);
    for i in 0..1_000 {
        feed.produce(&settings.inputs[0], &[(i % 8, format!("k{i}"), "v".to_owned())]);
        std::thread::sleep(Duration::from_millis(4));
    }
    std::thread::sleep(Duration::from_millis(300));
    println!(
        "one record every ~5 ms: oldest record of a batch to commit p50 {:?} ms p99 {:?} ms; commit p50 {:?} p99 {:?}",
        median(&meter.latency, 50),
        median(&meter.latency, 99),
        median(&meter.commits, 50),
        median(&meter.commits, 99),
    );
    stop.request();
    assert_eq!(thread.join().unwrap(), Ok(Ended::Drained));
}
