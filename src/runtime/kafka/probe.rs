//! A record sent and what comes of it: the client of the canary.
//!
//! Outside the group and outside transactions. Invariant: every call ends within the time it is given.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext, PurgeConfig};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::source::client_error;
use super::{Quiet, client, log, log_error, reader};
use crate::runtime::environment::EnvironmentError;
use crate::runtime::settings::Settings;

/// How long one question to the brokers may take.
const ANSWER: Duration = Duration::from_secs(5);

/// A record to send.
pub struct Sent<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub key: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub value: &'a str,
}

/// One producer and one consumer of its own.
pub struct Probe {
    producer: BaseProducer<Acks>,
    acks: Receiver<Result<i64, String>>,
    consumer: BaseConsumer<Quiet>,
}

impl Probe {
    /// # Errors
    /// The client refuses its settings.
    pub fn new(settings: &Settings) -> Result<Probe, EnvironmentError> {
        let (tell, acks) = channel();
        let name = format!("sluicegate-{}-canary", settings.instance);
        let mut config = client(settings);
        config.set("client.id", &name).set("enable.idempotence", "true");
        config.set("message.timeout.ms", "10000").set("linger.ms", "0");
        let producer = config.create_with_context(Acks(Mutex::new(tell))).map_err(|e| client_error(&e))?;
        let mut config = reader(settings);
        config.set("client.id", &name).set("statistics.interval.ms", "0");
        let consumer = config.create_with_context(Quiet).map_err(|e| client_error(&e))?;
        Ok(Probe { producer, acks, consumer })
    }

    /// The offset behind the last record.
    ///
    /// # Errors
    /// The brokers do not answer, or not to us.
    pub fn end(&self, topic: &str, partition: i32) -> Result<i64, String> {
        self.consumer.fetch_watermarks(topic, partition, ANSWER).map(|(_, end)| end).map_err(said)
    }

    /// The offset that the record got.
    ///
    /// # Errors
    /// It was not acknowledged in time, or refused.
    pub fn send(&self, record: &Sent<'_>, until: Instant) -> Result<i64, String> {
        // What an earlier one was told too late is of no use.
        while self.acks.try_recv().is_ok() {}
        let with =
            |all: OwnedHeaders, (name, value): &(&str, &str)| all.insert(Header { key: name, value: Some(*value) });
        let headers = record.headers.iter().fold(OwnedHeaders::new(), with);
        let sent = BaseRecord::to(record.topic).partition(record.partition).key(record.key).payload(record.value);
        self.producer.send(sent.headers(headers)).map_err(|(e, _)| said(e))?;
        while Instant::now() < until {
            self.producer.poll(Duration::from_millis(50));
            if let Ok(told) = self.acks.try_recv() {
                return told;
            }
        }
        self.producer.purge(PurgeConfig::default().queue().inflight());
        Err("no broker took the record".to_owned())
    }

    /// Reads committed records from an offset on, by key and value, until one is found or `go_on` is false.
    ///
    /// # Errors
    /// The partition cannot be read.
    pub fn find<T>(
        &self,
        topic: &str,
        partition: i32,
        from: i64,
        go_on: &dyn Fn() -> bool,
        look: &dyn Fn(&[u8], &[u8]) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let mut parts = TopicPartitionList::new();
        parts.add_partition_offset(topic, partition, Offset::Offset(from)).map_err(said)?;
        self.consumer.assign(&parts).map_err(said)?;
        let mut found = None;
        while found.is_none() && go_on() {
            if let Some(Ok(message)) = self.consumer.poll(Duration::from_millis(100)) {
                found = look(message.key().unwrap_or_default(), message.payload().unwrap_or_default());
            }
        }
        self.consumer.unassign().map_err(said)?;
        Ok(found)
    }
}

fn said(error: KafkaError) -> String {
    error.to_string()
}

/// Where a record went, as the broker acknowledged it.
struct Acks(Mutex<Sender<Result<i64, String>>>);

impl ClientContext for Acks {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log(level, facility, text);
    }
    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ProducerContext for Acks {
    type DeliveryOpaque = ();
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let told = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(error.to_string()),
        };
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(told);
    }
}
