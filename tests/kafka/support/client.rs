//! Plain clients for the tests: topics, producers, and a reader of everything committed.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// A record of an output topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub value: Option<Vec<u8>>,
    pub timestamp: i64,
}

impl Seen {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

fn wait<T>(call: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(call)
}

fn admin(bootstrap: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap()
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(Duration::from_secs(20))).operation_timeout(Some(Duration::from_secs(20)))
}

pub fn create_topic(bootstrap: &str, name: &str, partitions: i32, configs: &[(&str, &str)]) {
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for (key, value) in configs {
        topic = topic.set(key, value);
    }
    let results = wait(async { admin(bootstrap).create_topics([&topic], &options()).await }).unwrap();
    results[0].as_ref().unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    let shown = || {
        let metadata = consumer.fetch_metadata(None, Duration::from_secs(5));
        metadata.is_ok_and(|m| m.topics().iter().any(|t| t.name() == name && !t.partitions().is_empty()))
    };
    assert!(eventually(Duration::from_secs(20), shown), "{name} does not appear");
}

pub fn delete_topic(bootstrap: &str, name: &str) {
    let results = wait(async { admin(bootstrap).delete_topics(&[name], &options()).await }).unwrap();
    results[0].as_ref().unwrap_or_else(|e| panic!("{name}: {e:?}"));
}

pub fn widen(bootstrap: &str, name: &str, partitions: usize) {
    let wider = NewPartitions::new(name, partitions);
    let results = wait(async { admin(bootstrap).create_partitions([&wider], &options()).await }).unwrap();
    results[0].as_ref().unwrap_or_else(|e| panic!("{name}: {e:?}"));
}

/// An idempotent producer.
pub struct Feed(BaseProducer);

impl Feed {
    pub fn new(bootstrap: &str) -> Feed {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .create()
            .unwrap();
        Feed(producer)
    }

    /// Produces `(partition, key, value)` and waits for the acknowledgements.
    pub fn produce<'a>(&self, topic: &str, records: impl IntoIterator<Item = &'a (i32, String, String)>) {
        for (partition, key, value) in records {
            let mut record = BaseRecord::to(topic).partition(*partition).key(key).payload(value);
            while let Err((error, again)) = self.0.send(record) {
                assert!(matches!(error, KafkaError::MessageProduction(_)), "{error}");
                self.0.poll(Duration::from_millis(5));
                record = again;
            }
        }
        let until = Instant::now() + Duration::from_secs(180);
        while self.0.in_flight_count() > 0 {
            assert!(Instant::now() < until, "records were not acknowledged");
            let _ = self.0.flush(Duration::ZERO);
            self.0.poll(Duration::from_millis(1));
        }
    }
}

pub fn produce<'a>(bootstrap: &str, topic: &str, records: impl IntoIterator<Item = &'a (i32, String, String)>) {
    Feed::new(bootstrap).produce(topic, records);
}

/// Everything in a topic that a `read_committed` reader sees, up to the end as it is now.
pub fn read_committed(bootstrap: &str, topic: &str) -> Vec<Seen> {
    read(bootstrap, topic, "read_committed")
}

/// Everything, also what was aborted.
pub fn read_uncommitted(bootstrap: &str, topic: &str) -> Vec<Seen> {
    read(bootstrap, topic, "read_uncommitted")
}

fn read(bootstrap: &str, topic: &str, isolation: &str) -> Vec<Seen> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "reader")
        .set("isolation.level", isolation)
        .set("enable.partition.eof", "true")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "20")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(20)).unwrap();
    let mut open: Vec<i32> = metadata.topics()[0].partitions().iter().map(|p| p.id()).collect();
    let mut list = TopicPartitionList::new();
    for &p in &open {
        list.add_partition_offset(topic, p, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let mut seen = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while !open.is_empty() {
        assert!(Instant::now() < until, "{topic}: no end in partitions {open:?}");
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(record)) => seen.push(Seen {
                partition: record.partition(),
                offset: record.offset(),
                key: record.key().map(<[u8]>::to_vec),
                headers: record.headers().map_or_else(Vec::new, |h| {
                    h.iter().map(|h| (h.key.to_owned(), h.value.unwrap_or_default().to_vec())).collect()
                }),
                value: record.payload().map(<[u8]>::to_vec),
                timestamp: record.timestamp().to_millis().unwrap_or(-1),
            }),
            Some(Err(KafkaError::PartitionEOF(p))) => open.retain(|&o| o != p),
            Some(Err(error)) => panic!("{topic}: {error}"),
        }
    }
    seen
}

/// Sets a group's offset while nobody is in it.
pub fn set_offset(bootstrap: &str, group: &str, topic: &str, partition: i32, offset: i64) {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).set("group.id", group).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    consumer.commit(&list, rdkafka::consumer::CommitMode::Sync).unwrap();
}

/// Polls until `done` or the deadline; true if it became so.
pub fn eventually(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    done()
}
