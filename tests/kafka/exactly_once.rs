//! What a `read_committed` reader sees equals the failure-free run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::runtime::environment::EnvironmentError;
use sluicegate::runtime::service;
use sluicegate::runtime::settings::Settings;
use sluicegate::runtime::worker::{Ended, NoTelemetry, Stop, Telemetry};

use crate::support::client::{Feed, eventually, produce, read_committed, read_uncommitted};
use crate::support::counting::{Counting, expected};
use crate::support::process::{Instance, Kill, Kills};
use crate::support::{broker, client, unique};

/// Settings with topics of their own, made by `topics apply`.
pub fn world(bootstrap: &str, partitions: i32) -> Settings {
    let input = unique("events");
    let mut settings = Settings::new(bootstrap, unique("group"), &[&input]);
    settings.verdicts = unique("verdicts");
    settings.redacted = unique("redacted");
    settings.deadletters = unique("deadletters");
    settings.sightings = unique("sightings");
    settings.pins = unique("pins");
    settings.pins_audit = unique("audit");
    settings.session_timeout = Duration::from_secs(6);
    settings.transaction_timeout = Duration::from_secs(6);
    settings.startup_timeout = Duration::from_secs(10);
    client::create_topic(bootstrap, &input, partitions, &[]);
    let cluster = service_topics::inspect(&settings).unwrap();
    let plans = service_topics::plan(&settings, &cluster);
    service_topics::apply(&settings, &plans, 1).unwrap();
    settings
}

use sluicegate::runtime::kafka::topics as service_topics;

/// The service on threads of this process.
pub struct Running {
    stop: Arc<Stop>,
    thread: std::thread::JoinHandle<Result<Ended, EnvironmentError>>,
}

impl Running {
    pub fn start(settings: &Settings) -> Running {
        Running::told(settings, Arc::new(NoTelemetry))
    }

    pub fn told(settings: &Settings, telemetry: Arc<dyn Telemetry>) -> Running {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(std::env::var("RUST_LOG").unwrap_or_else(|_| "info,rdkafka=off".to_owned()))
            .with_test_writer()
            .try_init();
        let stop = Arc::new(Stop::default());
        let (settings, inner) = (settings.clone(), Arc::clone(&stop));
        let thread =
            std::thread::spawn(move || service::run(settings, Arc::new(Counting::default()), telemetry, inner));
        Running { stop, thread }
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    pub fn finish(self) -> Result<Ended, EnvironmentError> {
        self.stop.request();
        self.thread.join().unwrap()
    }

    /// Waits for it to end by itself.
    pub fn ended(self, limit: Duration) -> Result<Ended, EnvironmentError> {
        assert!(eventually(limit, || self.thread.is_finished()), "it goes on");
        self.thread.join().unwrap()
    }
}

/// `count` records over the partitions: keys stay in their partition, every third record waits for its next.
pub fn traffic(count: usize, partitions: i32, keys: usize) -> Vec<(i32, String, String)> {
    (0..count)
        .map(|i| {
            let key = i % keys;
            let partition = i32::try_from(key).unwrap() % partitions;
            let value = if (i / keys) % 3 == 1 { format!("open:{i}") } else { format!("v{i}") };
            (partition, format!("k{key}"), value)
        })
        .collect()
}

/// The expected verdicts by partition, in order.
pub fn expectation(records: &[(i32, String, String)]) -> BTreeMap<i32, Vec<String>> {
    let mut by_partition: BTreeMap<i32, Vec<(&str, &str)>> = BTreeMap::new();
    for (partition, key, value) in records {
        by_partition.entry(*partition).or_default().push((key, value));
    }
    by_partition.into_iter().map(|(p, records)| (p, expected(records))).collect()
}

pub fn seen(bootstrap: &str, topic: &str) -> BTreeMap<i32, Vec<String>> {
    let mut by_partition: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for record in read_committed(bootstrap, topic) {
        by_partition.entry(record.partition).or_default().push(record.text());
    }
    by_partition
}

/// Waits for all outputs, then compares both output topics with the expectation.
pub fn check(settings: &Settings, records: &[(i32, String, String)], limit: Duration) {
    let expected = expectation(records);
    let total: usize = expected.values().map(Vec::len).sum();
    let count = || read_committed(&settings.bootstrap, &settings.verdicts).len();
    eventually(limit, || count() >= total);
    for topic in [&settings.verdicts, &settings.redacted] {
        let seen = seen(&settings.bootstrap, topic);
        for (partition, lines) in &expected {
            let found = seen.get(partition).map_or(&[][..], Vec::as_slice);
            let first = lines.iter().zip(found).position(|(a, b)| a != b);
            assert!(
                first.is_none() && lines.len() == found.len(),
                "{topic} [{partition}]: {} expected, {} found, first difference at {first:?}: {:?} {:?}",
                lines.len(),
                found.len(),
                first.map(|i| &lines[i]),
                first.map(|i| &found[i]),
            );
        }
    }
}

#[test]
fn a_plain_run_equals_the_expectation() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 4);
    let records = traffic(20_000, 4, 97);
    produce(&broker.bootstrap, &settings.inputs[0], &records);
    let began = Instant::now();
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(60));
    println!("20000 records in {:?}, start-up included", began.elapsed());
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

#[test]
fn a_restart_goes_on_with_its_state() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 2);
    let records = traffic(3_000, 2, 11);
    for part in records.chunks(1_000) {
        let running = Running::start(&settings);
        produce(&broker.bootstrap, &settings.inputs[0], part);
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(running.finish(), Ok(Ended::Drained));
    }
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(30));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

/// Two instances over one group, one of them killed at random moments with state open, and started again.
#[test]
fn kills_lose_nothing_and_repeat_nothing() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 4);
    let records = traffic(60_000, 4, 97);
    let kills = Kills { instances: 2, rounds: 3, between: Duration::from_millis(3_000)..Duration::from_millis(4_500) };
    let survivors = kills.run(&settings, &records, &Kill::Kill);
    check(&settings, &records, Duration::from_secs(90));
    let all = read_uncommitted(&broker.bootstrap, &settings.verdicts).len();
    let visible = read_committed(&broker.bootstrap, &settings.verdicts).len();
    println!("aborted verdicts hidden from readers: {}", all - visible);
    survivors.drain();
}

/// An instance stopped for longer than its session and transaction, and then continued: its transaction must fail.
#[test]
fn a_zombie_commits_nothing() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 4);
    let records = traffic(60_000, 4, 97);
    let kills = Kills { instances: 2, rounds: 2, between: Duration::from_millis(2_000)..Duration::from_millis(3_000) };
    let survivors = kills.run(&settings, &records, &Kill::Stop(Duration::from_secs(9)));
    check(&settings, &records, Duration::from_secs(90));
    let undone: Vec<String> = survivors
        .logs()
        .iter()
        .flat_map(|log| log.lines())
        .filter(|l| l.contains("transaction."))
        .map(str::to_owned)
        .collect();
    println!("transactions of zombies that were undone: {undone:#?}");
    survivors.drain();
}

#[test]
fn sigterm_finishes_the_batch_and_leaves() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 2);
    let records = traffic(5_000, 2, 13);
    let mut instance = Instance::start(&settings);
    let (bootstrap, input, all) = (broker.bootstrap.clone(), settings.inputs[0].clone(), records.clone());
    let feeder = std::thread::spawn(move || {
        let feed = Feed::new(&bootstrap);
        for part in all.chunks(50) {
            feed.produce(&input, part);
        }
    });
    let some = || !read_committed(&broker.bootstrap, &settings.verdicts).is_empty();
    assert!(eventually(Duration::from_secs(20), some), "{}", instance.log());
    let began = Instant::now();
    instance.signal("TERM");
    let status = instance.wait(Duration::from_secs(20)).unwrap_or_else(|| panic!("{}", instance.log()));
    println!("exit after {:?}", began.elapsed());
    assert_eq!(status.code(), Some(0), "{}", instance.log());
    assert!(instance.log().contains("ended: Ok(Drained)"), "{}", instance.log());
    feeder.join().unwrap();
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(30));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

#[test]
fn a_second_signal_aborts_at_once() {
    let Some(broker) = broker() else { return };
    let mut settings = world(&broker.bootstrap, 1);
    let records = traffic(60, 1, 5);
    produce(&broker.bootstrap, &settings.inputs[0], &records);
    settings.properties.insert("test.step.ms".to_owned(), "700".to_owned());
    let mut instance = Instance::start(&settings);
    settings.properties.clear();
    let some = || !read_uncommitted(&broker.bootstrap, &settings.verdicts).is_empty();
    assert!(eventually(Duration::from_secs(20), some), "{}", instance.log());
    instance.signal("TERM");
    instance.signal("TERM");
    std::thread::sleep(Duration::from_millis(50));
    instance.signal("TERM");
    let status = instance.wait(Duration::from_secs(20)).unwrap_or_else(|| panic!("{}", instance.log()));
    assert_eq!(status.code(), Some(3), "{}", instance.log());
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(30));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

/// Two workers in one process, two input topics that share partition numbers.
#[test]
fn workers_and_topics_divide_the_work() {
    let Some(broker) = broker() else { return };
    let mut settings = world(&broker.bootstrap, 3);
    let second = unique("events");
    client::create_topic(&broker.bootstrap, &second, 2, &[]);
    settings.inputs.push(second);
    settings.workers = 2;
    let plans = service_topics::plan(&settings, &service_topics::inspect(&settings).unwrap());
    service_topics::apply(&settings, &plans, 1).unwrap();
    let (first, other) = (traffic(2_000, 3, 12), traffic(1_000, 2, 8));
    let running = Running::start(&settings);
    produce(&broker.bootstrap, &settings.inputs[0], &first);
    produce(&broker.bootstrap, &settings.inputs[1], &other);
    let sorted = |lines: &mut BTreeMap<i32, Vec<String>>| lines.values_mut().for_each(|l| l.sort());
    let mut expected = expectation(&first);
    for (partition, lines) in expectation(&other) {
        expected.entry(partition).or_default().extend(lines);
    }
    sorted(&mut expected);
    let total: usize = expected.values().map(Vec::len).sum();
    let now = || {
        let mut seen = seen(&broker.bootstrap, &settings.verdicts);
        sorted(&mut seen);
        seen
    };
    assert!(eventually(Duration::from_secs(40), || now().values().map(Vec::len).sum::<usize>() >= total));
    assert_eq!(now(), expected);
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

/// Two processes with one name fence each other: one gives way, and what is committed is right all the same.
#[test]
fn twins_fence_each_other_until_one_gives_way() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 4);
    let records = traffic(20_000, 4, 40);
    let twins = [Running::start(&settings), Running::start(&settings)];
    let feed = Feed::new(&broker.bootstrap);
    for part in records.chunks(200) {
        feed.produce(&settings.inputs[0], part);
        std::thread::sleep(Duration::from_millis(100));
    }
    let ends: Vec<_> = twins
        .into_iter()
        .filter_map(|twin| {
            if twin.is_over() {
                Some(twin.finish())
            } else {
                assert_eq!(twin.finish(), Ok(Ended::Drained));
                None
            }
        })
        .collect();
    assert!(!ends.is_empty(), "no twin gave way");
    for end in ends {
        assert!(matches!(&end, Ok(Ended::Environment(e)) if e.code == "producer_fenced"), "{end:?}");
    }
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(60));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}
