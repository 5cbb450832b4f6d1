//! Whole topics read once, and records written with an answer for each: for commands, outside the group.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::source::client_error;
use super::{Quiet, client, is_denied, log, log_error, reader};
use crate::runtime::environment::EnvironmentError;
use crate::runtime::settings::Settings;

/// A record: partition, offset, key and value.
pub struct Record<'a> {
    pub partition: i32,
    pub offset: i64,
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// Gives every record of a topic, each partition in its order, up to the ends that are found.
///
/// # Errors
/// The topic is not there, may not be read, or not to its end within the start-up time.
pub fn read(settings: &Settings, topic: &str, on: &mut dyn FnMut(Record<'_>)) -> Result<(), EnvironmentError> {
    let mut config = reader(settings);
    config.set("client.id", format!("sluicegate-{}-review", settings.instance)).set("statistics.interval.ms", "0");
    let consumer: BaseConsumer<Quiet> = config.create_with_context(Quiet).map_err(|e| client_error(&e))?;
    let failed = |error: &KafkaError| {
        EnvironmentError::new(
            "topic_unread",
            format!("topic {topic} could not be read: {error}"),
            "check the brokers, and that this principal may Read and Describe the topic",
        )
    };
    let metadata = consumer.fetch_metadata(Some(topic), settings.startup_timeout).map_err(|e| failed(&e))?;
    let found = metadata.topics().iter().find(|t| t.name() == topic);
    let partitions: Vec<i32> = found.into_iter().flat_map(|t| t.partitions()).map(|p| p.id()).collect();
    if partitions.is_empty() {
        let what = format!("topic {topic} does not exist, or this principal may not see it");
        return Err(EnvironmentError::new("topic_missing", what, "run `sluicegate topics apply`, or grant Describe"));
    }
    let mut list = TopicPartitionList::new();
    for partition in &partitions {
        list.add_partition_offset(topic, *partition, Offset::Beginning).map_err(|e| failed(&e))?;
    }
    consumer.assign(&list).map_err(|e| failed(&e))?;
    let mut open: BTreeSet<i32> = partitions.into_iter().collect();
    let mut until = Instant::now() + settings.startup_timeout;
    while !open.is_empty() {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) => {
                until = Instant::now() + settings.startup_timeout;
                // What comes behind the end that was told is another reading's.
                if open.contains(&record.partition()) {
                    let key = record.key().unwrap_or_default();
                    on(Record { partition: record.partition(), offset: record.offset(), key, value: record.payload() });
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.remove(&partition);
            }
            // The client asks for its group's coordinator, although nothing here is of a group: that a role may not
            // use the group says nothing of the topic.
            Some(Err(error))
                if error.rdkafka_error_code() == Some(Code::GroupAuthorizationFailed) && Instant::now() < until => {}
            Some(Err(error)) if error.rdkafka_error_code().is_some_and(is_denied) => return Err(failed(&error)),
            Some(Err(error)) if Instant::now() >= until => return Err(failed(&error)),
            _ if Instant::now() >= until => {
                let limit = settings.startup_timeout.as_secs_f32();
                let what = format!("topic {topic} was not read to its end: nothing came for {limit} s");
                return Err(EnvironmentError::new(
                    "topic_unread",
                    what,
                    "check the brokers, or raise kafka.startup_timeout",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What became of the records.
#[derive(Default)]
pub(super) struct Reports(Mutex<(Option<i64>, Option<KafkaError>)>);

impl Reports {
    /// The largest offset of those that were taken.
    ///
    /// # Errors
    /// The last one of those that were not.
    pub(super) fn settled(&self) -> Result<Option<i64>, KafkaError> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            (_, Some(error)) => Err(error.clone()),
            (offset, None) => Ok(*offset),
        }
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log(level, facility, text);
    }
    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(record) => seen.0 = seen.0.max(Some(record.offset())),
            Err((error, _)) => seen.1 = Some(error.clone()),
        }
    }
}

/// Writes keys and values to partition 0 and waits for all of them. Gives the largest offset.
///
/// # Errors
/// One of them was not acknowledged.
pub fn write(
    settings: &Settings,
    topic: &str,
    records: &[(Vec<u8>, Option<Vec<u8>>)],
) -> Result<i64, EnvironmentError> {
    let failed = |error: &KafkaError| {
        EnvironmentError::new(
            "topic_unwritten",
            format!("topic {topic} did not take the record: {error}"),
            "check the brokers, and that this principal may Write and Describe the topic; what was decided stands in \
         `sluicegate pins list --all`",
        )
    };
    let mut config = client(settings);
    config.set("enable.idempotence", "true").set("linger.ms", "0");
    config.set("message.timeout.ms", settings.startup_timeout.as_millis().to_string());
    let producer: BaseProducer<Reports> =
        config.create_with_context(Reports::default()).map_err(|e| client_error(&e))?;
    for (key, value) in records {
        let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).key(key);
        if let Some(value) = value {
            record = record.payload(value);
        }
        producer.send(record).map_err(|(error, _)| failed(&error))?;
        producer.poll(Duration::ZERO);
    }
    producer.flush(settings.startup_timeout + Duration::from_secs(1)).map_err(|e| failed(&e))?;
    producer.context().settled().map(|offset| offset.unwrap_or(-1)).map_err(|e| failed(&e))
}
