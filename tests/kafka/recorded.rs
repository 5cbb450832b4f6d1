//! Recorded traffic through the real binary on Apache Kafka: what a `read_committed` reader sees equals what
//! `check` prints for the same events, also when instances are killed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;

use crate::support::broker;
use crate::support::client::{eventually, read_committed};
use crate::support::world::World;

const EVENTS: usize = 100_000;
const PARTITIONS: i32 = 8;
const PROVIDERS: [&str; 8] = [
    "anthropic.messages",
    "gemini.generate_content",
    "gemini.live",
    "mcp",
    "openai.chat",
    "openai.responses",
    "xai.chat",
    "xai.responses",
];

/// One record: its conversation, and the structured event.
type Record = (String, Vec<u8>);

/// `None` after saying so; in CI the recordings must be there.
fn corpus() -> Option<PathBuf> {
    let base = std::env::var_os("SLUICEGATE_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = base.join("corpus/recorded");
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "CI must have the recorded traffic at ../shared/corpus");
    println!("SKIPPED: recorded traffic is not at ../shared/corpus");
    None
}

/// Copies of every recorded conversation under fresh names, interleaved so that many streams are open at once.
fn traffic(corpus: &Path) -> Vec<Record> {
    let mut conversations: Vec<Vec<Value>> = Vec::new();
    for provider in PROVIDERS {
        let mut files: Vec<PathBuf> = std::fs::read_dir(corpus.join(provider))
            .expect("recordings")
            .map(|entry| entry.expect("entry").path())
            .collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a recording");
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            conversations.push(lines.map(|line| Value::String(line.to_owned())).collect());
        }
    }
    let per_copy: usize = conversations.iter().map(Vec::len).sum();
    let copies = EVENTS.div_ceil(per_copy);
    let mut records = Vec::with_capacity(copies * per_copy);
    for copy in 0..copies {
        for group in conversations.chunks(48) {
            let longest = group.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..longest {
                for event in group.iter().filter_map(|conversation| conversation.get(line)) {
                    records.push(renamed(event.as_str().expect("a line"), copy));
                }
            }
        }
    }
    records
}

/// The line with another conversation id; every other byte stands.
fn renamed(line: &str, copy: usize) -> Record {
    let event: Value = serde_json::from_str(line).expect("a recorded event");
    let old = event["conversation"].as_str().expect("recordings name their conversation");
    let new = format!("{copy}-{old}");
    let member = format!("\"conversation\":{}", Value::String(old.to_owned()));
    assert!(line.contains(&member), "the member is spelled as expected");
    let line = line.replacen(&member, &format!("\"conversation\":{}", Value::String(new.clone())), 1);
    (new, line.into_bytes())
}

impl World {
    /// What `check` says of these records: the verdicts, and the values of redacted records.
    fn expected(&self, records: &[Record]) -> Judged {
        let file = self.folder.path().join("events.jsonl");
        let mut out = std::io::BufWriter::new(std::fs::File::create(&file).expect("a file"));
        for (_, value) in records {
            out.write_all(value).and_then(|()| out.write_all(b"\n")).expect("written");
        }
        out.flush().expect("written");
        drop(out);
        let checked = self
            .command("check")
            .args(["--format", "json", "--fail-on", "never"])
            .arg(&file)
            .stderr(Stdio::inherit())
            .output()
            .expect("check");
        assert!(checked.status.success(), "check: {}", checked.status);
        let mut judged = Judged::default();
        for line in checked.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            let emission: Value = serde_json::from_slice(line).expect("an emission");
            match emission["to"].as_str() {
                Some("verdicts") => judged.verdict(emission["value"].clone()),
                Some("redacted") => judged.redacted(emission["value"].as_str().expect("text").as_bytes()),
                Some("sightings") => judged.sighting(emission["value"].clone()),
                other => panic!("recorded traffic gives no {other:?}"),
            }
        }
        judged
    }

    fn both(&self) -> Judged {
        let mut judged = Judged::default();
        for record in read_committed(&self.bootstrap, &self.verdicts) {
            judged.verdict(serde_json::from_str(&record.text()).expect("a verdict"));
        }
        for record in read_committed(&self.bootstrap, &self.redacted) {
            judged.redacted(record.text().as_bytes());
        }
        for record in read_committed(&self.bootstrap, &self.sightings) {
            judged.sighting(serde_json::from_str(&record.text()).expect("a sighting"));
        }
        judged
    }

    /// Produces in order; `pause` between pieces spreads it over time.
    fn produce(&self, records: &[Record], pause: Duration) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("enable.idempotence", "true")
            .set("compression.type", "lz4")
            .create()
            .expect("a producer");
        for piece in records.chunks(1000) {
            for (conversation, value) in piece {
                let mut hasher = DefaultHasher::new();
                conversation.hash(&mut hasher);
                let partition = (hasher.finish() % PARTITIONS as u64) as i32;
                let kind = Header { key: "content-type", value: Some("application/cloudevents+json") };
                let mut record = BaseRecord::to(&self.input)
                    .partition(partition)
                    .key(conversation.as_bytes())
                    .payload(value.as_slice())
                    .headers(OwnedHeaders::new().insert(kind));
                while let Err((error, back)) = producer.send(record) {
                    assert_eq!(error.rdkafka_error_code(), Some(rdkafka::types::RDKafkaErrorCode::QueueFull));
                    producer.poll(Duration::from_millis(5));
                    record = back;
                }
            }
            producer.poll(Duration::ZERO);
            std::thread::sleep(pause);
        }
        producer.flush(Duration::from_secs(60)).expect("everything is acknowledged");
    }

    /// Waits until as many verdicts are there, then compares.
    fn compare(&self, expected: &Judged) {
        let enough = || read_committed(&self.bootstrap, &self.verdicts).len() >= expected.total();
        let arrived = eventually(Duration::from_secs(180), enough);
        let seen = self.both();
        let missing = difference(&expected.verdicts, &seen.verdicts);
        let beyond = difference(&seen.verdicts, &expected.verdicts);
        assert!(
            arrived && missing.is_empty() && beyond.is_empty(),
            "{} verdicts expected, {} seen, {} missing, {} beyond; first missing {:?}; first beyond {:?}",
            expected.total(),
            seen.total(),
            missing.len(),
            beyond.len(),
            missing.first(),
            beyond.first(),
        );
        assert_eq!(difference(&expected.redacted, &seen.redacted), Vec::<&String>::new(), "missing redacted records");
        assert_eq!(difference(&seen.redacted, &expected.redacted), Vec::<&String>::new(), "redacted records beyond");
        assert!(!expected.sightings.is_empty(), "the recorded traffic lists tools");
        assert_eq!(seen.sightings, expected.sightings, "sightings");
    }
}

/// Verdicts and redacted values with how often each was seen.
#[derive(Default)]
struct Judged {
    verdicts: BTreeMap<String, usize>,
    redacted: BTreeMap<String, usize>,
    sightings: BTreeMap<String, usize>,
}

impl Judged {
    /// Its place is its id, so `verdict_id` and what `source` says of the place differ from run to run.
    fn verdict(&mut self, mut verdict: Value) {
        let event_id = verdict["source"]["event_id"].take();
        verdict["source"] = event_id;
        verdict["verdict_id"] = Value::Null;
        *self.verdicts.entry(verdict.to_string()).or_default() += 1;
    }

    /// Where and when it was seen differs from run to run.
    fn sighting(&mut self, sighting: Value) {
        let mut sighting = match sighting {
            Value::String(text) => serde_json::from_str(&text).expect("JSON"),
            other => other,
        };
        sighting["seen"] = Value::Null;
        *self.sightings.entry(sighting.to_string()).or_default() += 1;
    }

    fn redacted(&mut self, value: &[u8]) {
        let value: Value = serde_json::from_slice(value).expect("JSON");
        let mut value = value;
        if let Some(event) = value.as_object_mut().filter(|event| event.contains_key("specversion")) {
            event.remove("id");
            event.remove("sgverdictid");
        }
        *self.redacted.entry(value.to_string()).or_default() += 1;
    }

    fn total(&self) -> usize {
        self.verdicts.values().sum()
    }
}

fn difference<'a>(these: &'a BTreeMap<String, usize>, those: &BTreeMap<String, usize>) -> Vec<&'a String> {
    these.iter().filter(|(text, n)| those.get(*text).copied().unwrap_or(0) < **n).map(|(text, _)| text).collect()
}

#[test]
fn verdicts_on_kafka_equal_those_of_check() {
    let (Some(corpus), Some(broker)) = (corpus(), broker()) else { return };
    let world = World::new(&broker.bootstrap, PARTITIONS);
    let records = traffic(&corpus);
    let expected = world.expected(&records);
    world.produce(&records, Duration::ZERO);
    let began = Instant::now();
    let instance = world.instance("0");
    world.compare(&expected);
    println!(
        "{} records, {} verdicts equal, {} redacted records equal, {:?} from start to compared",
        records.len(),
        expected.total(),
        expected.redacted.values().sum::<usize>(),
        began.elapsed(),
    );
    instance.drain();
}

#[test]
fn verdicts_are_the_same_when_instances_are_killed() {
    let (Some(corpus), Some(broker)) = (corpus(), broker()) else { return };
    let world = World::new(&broker.bootstrap, PARTITIONS);
    let records = traffic(&corpus);
    let expected = world.expected(&records);
    let mut random = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
    std::thread::scope(|scope| {
        let mut instances = [Some(world.instance("0")), Some(world.instance("1"))];
        let feeder = scope.spawn(|| world.produce(&records, Duration::from_millis(150)));
        for round in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_millis(3_000 + (random >> 33) % 3_000));
            let victim = round % 2;
            // Dropping kills with SIGKILL and reaps; then another process takes its name.
            instances[victim] = None;
            instances[victim] = Some(world.instance(["0", "1"][victim]));
        }
        feeder.join().expect("the feeder");
        world.compare(&expected);
        println!(
            "{} records, 3 kills, {} verdicts equal, {} redacted records equal",
            records.len(),
            expected.total(),
            expected.redacted.values().sum::<usize>(),
        );
        for instance in instances.into_iter().flatten() {
            instance.drain();
        }
    });
}
