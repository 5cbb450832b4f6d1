//! Plain clients beside the worker: a producer of events and a reader of outputs, for `demo` and its kin.
//!
//! Neither belongs to the group. The reader assigns itself every partition and commits nothing.

use super::source::client_error;
use super::whole::Reports;
use super::{Quiet, client};
use crate::runtime::environment::EnvironmentError;
use crate::runtime::settings::Settings;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::time::Duration;

/// librdkafka's version.
pub fn version() -> String {
    rdkafka::util::get_rdkafka_version().1
}

/// An idempotent producer, as a fleet would use it.
pub struct Feed(BaseProducer<Reports>);

impl Feed {
    /// # Errors
    /// The client refuses its settings.
    pub fn new(settings: &Settings) -> Result<Self, EnvironmentError> {
        let mut config = client(settings);
        config.set("enable.idempotence", "true").set("linger.ms", "1").set("partitioner", "murmur2_random");
        config.set("message.max.bytes", settings.sizes.output.to_string());
        config.create_with_context(Reports::default()).map(Self).map_err(|e| client_error(&e))
    }

    /// Queues one record; its key decides the partition.
    ///
    /// # Errors
    /// The queue is full, or the record too large.
    pub fn send(
        &self,
        topic: &str,
        key: &str,
        headers: &[(&str, &str)],
        value: Option<&[u8]>,
    ) -> Result<(), EnvironmentError> {
        let mut list = OwnedHeaders::new();
        for (name, value) in headers {
            list = list.insert(Header { key: name, value: Some(*value) });
        }
        let mut record = BaseRecord::<str, [u8]>::to(topic).key(key).headers(list);
        if let Some(value) = value {
            record = record.payload(value);
        }
        self.0.send(record).map_err(|(e, _)| failed("produce", topic, &e))?;
        self.0.poll(Duration::ZERO);
        Ok(())
    }

    /// Waits until every record is acknowledged.
    ///
    /// # Errors
    /// Some were not in time, or not at all.
    pub fn flush(&self, limit: Duration) -> Result<(), EnvironmentError> {
        let settled = self.0.flush(limit).and_then(|()| self.0.context().settled());
        settled.map(drop).map_err(|e| failed("produce", "the records", &e))
    }
}

/// One record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub value: Option<Vec<u8>>,
}

/// A `read_committed` reader of whole topics, from their beginning.
pub struct Tap(BaseConsumer<Quiet>);

impl Tap {
    /// # Errors
    /// A topic's partitions cannot be told.
    pub fn new(settings: &Settings, topics: &[&str]) -> Result<Self, EnvironmentError> {
        let mut config = client(settings);
        config.set("group.id", format!("{}-tap", settings.group)).set("enable.auto.commit", "false");
        config.set("isolation.level", "read_committed").set("fetch.wait.max.ms", "20");
        let consumer: BaseConsumer<Quiet> = config.create_with_context(Quiet).map_err(|e| client_error(&e))?;
        let mut list = TopicPartitionList::new();
        for topic in topics {
            let found = consumer.fetch_metadata(Some(topic), Duration::from_secs(10));
            let found = found.map_err(|e| failed("read", topic, &e))?;
            for partition in found.topics().iter().flat_map(|t| t.partitions()) {
                list.add_partition_offset(topic, partition.id(), Offset::Beginning)
                    .map_err(|e| failed("read", topic, &e))?;
            }
        }
        consumer.assign(&list).map_err(|e| failed("read", "the topics", &e))?;
        Ok(Self(consumer))
    }

    /// The next record within `wait`. Errors pass: the client goes on by itself.
    pub fn next(&self, wait: Duration) -> Option<Seen> {
        let record = self.0.poll(wait)?.ok()?;
        let headers = record.headers().map_or_else(Vec::new, |all| {
            all.iter().map(|h| (h.key.to_owned(), h.value.unwrap_or_default().to_vec())).collect()
        });
        Some(Seen {
            topic: record.topic().to_owned(),
            partition: record.partition(),
            offset: record.offset(),
            key: record.key().map(<[u8]>::to_vec),
            headers,
            value: record.payload().map(<[u8]>::to_vec),
        })
    }
}

fn failed(what: &str, topic: &str, error: &KafkaError) -> EnvironmentError {
    EnvironmentError::new(
        "kafka_client",
        format!("could not {what} {topic}: {error}"),
        "check that the broker is up, that the topic exists, and that this principal may use it",
    )
}
