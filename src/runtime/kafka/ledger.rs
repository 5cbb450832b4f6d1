//! The transactional producer of one worker, as a [`Ledger`].
//!
//! Every call has a deadline. A call that timed out, and a commit during which the client reported a transport
//! error, is [`Commit::Indefinite`] even when it returned well: librdkafka repeats EndTxn inside, and without
//! KIP-890 a late one can end the next transaction. An abort after either is as doubtful: a produce request that is
//! still on its way would join the next transaction of the same epoch.
//!
//! An abort is not always the end of what was written. Apache Kafka 4.3 writes no marker to a partition that has no
//! leader when the coordinator completes a transaction (it takes the topic for deleted), as after a stall of a whole
//! cluster; the records stay open in the log, and the next commit of the same producer id shows them. Hence
//! [`Ledger::bury`]: one more transaction over the same partitions, written, acknowledged and aborted. Offsets that
//! were left so would stay unstable for ever, and nobody could take the partition up: every new producer begins with
//! an aborted transaction that holds an offset of the group.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{figures, is_denied, is_fenced, is_generation, is_transport};
use crate::runtime::port::{Cause, Commit, Figures, Ledger, PortError, Positions, Publish, Target};
use crate::runtime::settings::{Settings, state_topic};

/// How long an acknowledgement is waited for at first, and at most, before it is looked for again.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LAST_PAUSE: Duration = Duration::from_millis(5);
/// How many records are queued between two looks at the delivery reports.
const SERVE_EVERY: u32 = 256;

#[derive(Default)]
struct Reports {
    /// A transport error was reported since the transaction began.
    transport: AtomicBool,
    /// The first record that was not delivered.
    failure: Mutex<Option<Cause>>,
    figures: Mutex<Option<Figures>>,
}

struct Context(Arc<Reports>);

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        super::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        super::log_error(&error, reason);
        if error.rdkafka_error_code().is_some_and(is_transport) {
            self.0.transport.store(true, Ordering::Release);
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if let Some(found) = figures::read(statistics) {
            *self.0.figures.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        let Err((error, record)) = result else { return };
        let cause = match error.rdkafka_error_code() {
            // What an abort purges was not refused.
            Some(Code::PurgeQueue | Code::PurgeInflight) => return,
            Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize) => {
                Cause::TooLarge { topic: record.topic().to_owned(), bytes: record.payload_len() + record.key_len() }
            }
            Some(code) if is_transport(code) => Cause::Transport(error.to_string()),
            Some(code) if is_denied(code) => Cause::Denied(format!("{}: {error}", record.topic())),
            Some(code) if is_fenced(code) => Cause::Fenced(format!("{}: {error}", record.topic())),
            _ => Cause::Other(format!("{} [{}]: {error}", record.topic(), record.partition())),
        };
        self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause);
    }
}

pub struct KafkaLedger {
    /// `None` between the loss of one producer and the success of the next.
    producer: Option<BaseProducer<Context>>,
    reports: Arc<Reports>,
    settings: Arc<Settings>,
    states: Vec<String>,
    worker: u32,
    queued: u32,
    /// Where records went since the last commit: what [`Ledger::bury`] covers.
    written: BTreeSet<(Target, i32)>,
    /// A record was not taken because the transaction had failed. It is never committed.
    doomed: bool,
}

impl KafkaLedger {
    /// The producer itself is made by the first [`Ledger::rebuild`], which fences a predecessor.
    pub fn new(settings: &Arc<Settings>, worker: u32) -> Self {
        Self {
            producer: None,
            reports: Arc::default(),
            settings: Arc::clone(settings),
            states: settings.inputs.iter().map(|t| state_topic(t)).collect(),
            worker,
            queued: 0,
            written: BTreeSet::new(),
            doomed: false,
        }
    }

    fn topic(&self, target: Target) -> &str {
        match target {
            Target::Output(to) => self.settings.output(to),
            Target::State(topic) => self.states.get(usize::from(topic)).map_or("", String::as_str),
        }
    }

    fn producer(&self) -> Result<&BaseProducer<Context>, Cause> {
        self.producer.as_ref().ok_or_else(|| Cause::Other("there is no producer".into()))
    }

    fn failure(&self) -> Option<Cause> {
        self.reports.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// `flush` of the wrapper waits in steps of 100 ms; this takes as long as the broker does. Its `poll` turns in
    /// circles for the last millisecond of a wait, and for all of a shorter one, so the waiting is done here.
    fn drain(&self, until: Instant) -> Result<(), Cause> {
        let producer = self.producer()?;
        let (mut pause, mut left) = (FIRST_PAUSE, i32::MAX);
        loop {
            let _ = producer.flush(Duration::ZERO);
            producer.poll(Duration::ZERO);
            let before = std::mem::replace(&mut left, producer.in_flight_count());
            if left == 0 {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Cause::Timeout("outputs were not acknowledged in time".into()));
            }
            // One look takes the reports of one batch.
            if left < before {
                continue;
            }
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(LAST_PAUSE);
        }
    }

    /// Repeats a call that the broker itself asked to repeat.
    fn repeated(
        &self,
        until: Instant,
        call: impl Fn(&BaseProducer<Context>, Duration) -> Result<(), KafkaError>,
    ) -> Result<(), Undone> {
        let producer = self.producer().map_err(Undone::Indefinite)?;
        let mut pause = Duration::from_millis(5);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Undone::Indefinite(Cause::Timeout("the transaction's deadline passed".into())));
            }
            match call(producer, left) {
                Ok(()) => return Ok(()),
                Err(error) => match classify(&error) {
                    None => {
                        std::thread::sleep(pause.min(left));
                        pause = (pause * 2).min(Duration::from_millis(200));
                    }
                    // A dead producer may say only in its fatal error that it was fenced.
                    Some(Undone::Indefinite(cause)) => {
                        return Err(match refused(producer, cause.to_string(), &error) {
                            fenced @ Cause::Fenced(_) => Undone::Fenced(fenced),
                            _ => Undone::Indefinite(cause),
                        });
                    }
                    Some(undone) => return Err(undone),
                },
            }
        }
    }
}

impl Ledger for KafkaLedger {
    type Membership = ConsumerGroupMetadata;

    fn begin(&mut self) -> Result<(), Cause> {
        self.reports.transport.store(false, Ordering::Release);
        let _ = self.failure();
        self.doomed = false;
        let producer = self.producer()?;
        producer.begin_transaction().map_err(|e| refused(producer, e.to_string(), &e))
    }

    fn publish(&mut self, record: Publish<'_>) -> Result<(), Cause> {
        self.queued += 1;
        if self.queued >= SERVE_EVERY {
            self.queued = 0;
            self.producer()?.poll(Duration::ZERO);
        }
        self.written.insert((record.target, record.partition));
        let topic = self.topic(record.target);
        let mut queued: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(record.partition);
        queued.key = record.key;
        queued.payload = record.value;
        queued.timestamp = record.timestamp;
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for (key, value) in record.headers {
                headers = headers.insert(Header { key, value: Some(value.as_slice()) });
            }
            queued.headers = Some(headers);
        }
        let producer = self.producer()?;
        let until = Instant::now() + self.settings.transaction_timeout;
        loop {
            match producer.send(queued) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(Code::QueueFull), again)) if Instant::now() < until => {
                    producer.poll(Duration::ZERO);
                    std::thread::sleep(FIRST_PAUSE);
                    queued = again;
                }
                Err((KafkaError::MessageProduction(Code::MessageSizeTooLarge), refused)) => {
                    let bytes = refused.payload.map_or(0, <[u8]>::len) + refused.key.map_or(0, <[u8]>::len);
                    return Err(Cause::TooLarge { topic: topic.to_owned(), bytes });
                }
                // The transaction failed before, and only its end says of what: it can no longer be committed.
                Err((KafkaError::MessageProduction(Code::State), _)) if producer.client().fatal_error().is_none() => {
                    self.doomed = true;
                    return Ok(());
                }
                Err((error, _)) => return Err(refused(producer, format!("{topic}: {error}"), &error)),
            }
        }
    }

    fn serve(&mut self) {
        if let Some(producer) = &self.producer {
            producer.poll(Duration::ZERO);
        }
    }

    fn commit(&mut self, at: &Positions, who: &ConsumerGroupMetadata, limit: Duration) -> Commit {
        let until = Instant::now() + limit;
        if let Err(cause) = self.drain(until) {
            return self.abort(cause, limit);
        }
        if let Some(cause) = self.failure() {
            return self.abort(cause, limit);
        }
        let mut offsets = TopicPartitionList::with_capacity(at.len());
        for (id, next) in at {
            let topic = self.settings.inputs.get(usize::from(id.topic)).map_or("", String::as_str);
            if let Err(error) = offsets.add_partition_offset(topic, id.partition, Offset::Offset(*next)) {
                return self.abort(Cause::Other(error.to_string()), limit);
            }
        }
        let sent = self.repeated(until, |p, left| p.send_offsets_to_transaction(&offsets, who, left));
        if self.doomed {
            let cause = match sent {
                Err(Undone::Aborted(cause)) => cause,
                _ => Cause::Other("the client took no more records for the transaction".into()),
            };
            return self.abort(cause, limit);
        }
        let done = sent.and_then(|()| self.repeated(until, |p, left| p.commit_transaction(left)));
        self.serve();
        match done {
            Ok(()) if self.reports.transport.load(Ordering::Acquire) => {
                Commit::Indefinite(Cause::Transport("a connection failed during the transaction".into()))
            }
            Ok(()) => {
                self.written.clear();
                Commit::Done
            }
            Err(Undone::Aborted(cause)) => self.abort(cause, limit),
            Err(Undone::Indefinite(cause)) => Commit::Indefinite(cause),
            Err(Undone::Fenced(cause)) => Commit::Fenced(cause),
        }
    }

    fn abort(&mut self, cause: Cause, limit: Duration) -> Commit {
        let until = Instant::now() + limit;
        let ended = self.repeated(until, |p, left| p.abort_transaction(left));
        // The reports of purged records.
        self.serve();
        let cause = self.failure().filter(|_| !matches!(cause, Cause::TooLarge { .. })).unwrap_or(cause);
        let lost = matches!(cause, Cause::Timeout(_) | Cause::Transport(_));
        match ended {
            Ok(()) if lost || self.reports.transport.load(Ordering::Acquire) => Commit::Indefinite(cause),
            // What only an operator can repair refuses a burial too.
            Ok(()) if matches!(cause, Cause::Denied(_) | Cause::TooLarge { .. }) => Commit::Aborted(cause),
            Ok(()) if self.bury_for(None, limit).is_err() => Commit::Indefinite(cause),
            Ok(()) => Commit::Aborted(cause),
            Err(Undone::Fenced(why)) => Commit::Fenced(why),
            Err(_) if matches!(cause, Cause::Fenced(_)) => Commit::Fenced(cause),
            Err(_) => Commit::Indefinite(cause),
        }
    }

    fn rebuild(&mut self, who: &ConsumerGroupMetadata, limit: Duration) -> Result<(), PortError> {
        let until = Instant::now() + limit;
        self.producer = None;
        self.reports = Arc::default();
        let producer: BaseProducer<Context> = super::producer(&self.settings, self.worker)
            .create_with_context(Context(Arc::clone(&self.reports)))
            .map_err(|e| PortError::Fatal(e.to_string()))?;
        producer.init_transactions(limit).map_err(|e| init_error(&e))?;
        self.producer = Some(producer);
        if self.settings.durable { self.bury_offsets(who, until) } else { Ok(()) }
    }

    fn bury(&mut self, at: &[(Target, i32)], who: &ConsumerGroupMetadata, limit: Duration) -> Result<(), PortError> {
        self.written.extend(at);
        self.bury_for(Some(who), limit)
    }

    fn figures(&self) -> Option<Figures> {
        self.reports.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl KafkaLedger {
    fn bury_for(&mut self, who: Option<&ConsumerGroupMetadata>, limit: Duration) -> Result<(), PortError> {
        // The embedded broker has no markers to forget.
        if self.written.is_empty() || !self.settings.durable {
            return Ok(());
        }
        let until = Instant::now() + limit;
        self.begin().map_err(unburied)?;
        let written = self.written.clone();
        let published = written.iter().try_for_each(|&(target, partition)| {
            // No reader sees it; compacted topics take no record without a key.
            let key = Some(BURIAL_KEY);
            self.publish(Publish { target, partition, key, headers: &[], value: None, timestamp: None })
        });
        // Every partition has taken a record then, so each has a leader for the marker.
        let taken = published.and_then(|()| self.taken(who, until));
        let ended = self.repeated(until, |p, left| p.abort_transaction(left));
        self.serve();
        taken.map_err(unburied)?;
        match ended {
            Ok(()) if !self.reports.transport.load(Ordering::Acquire) => {
                self.written.clear();
                Ok(())
            }
            Ok(()) => Err(PortError::Transient("a connection failed while a lost transaction was aborted".into())),
            Err(undone) => Err(unburied(undone.cause())),
        }
    }

    /// Waits until every record is acknowledged; a transaction that failed meanwhile says why when it is asked for
    /// more. It is aborted whatever comes.
    fn taken(&mut self, who: Option<&ConsumerGroupMetadata>, until: Instant) -> Result<(), Cause> {
        loop {
            let drained = self.drain(until.min(Instant::now() + Duration::from_millis(500)));
            if let Some(cause) = self.failure() {
                return Err(cause);
            }
            match drained {
                Ok(()) if !self.doomed => return Ok(()),
                Err(cause) if Instant::now() >= until => return Err(cause),
                drained => match who {
                    Some(who) => self.add_offset(who, until)?,
                    None => return drained.and(Err(Cause::Other("the client took no more records".into()))),
                },
            }
        }
    }

    /// A marker for the group's offsets, whatever is pending there.
    fn bury_offsets(&mut self, who: &ConsumerGroupMetadata, until: Instant) -> Result<(), PortError> {
        self.begin().map_err(unburied)?;
        // Whether the group takes the offset does not matter: the partition is part of the transaction by then.
        let _ = self.add_offset(who, until);
        match self.repeated(until, |p, left| p.abort_transaction(left)) {
            // Who was fenced meanwhile learns it from its first transaction.
            Ok(()) | Err(Undone::Fenced(_)) => Ok(()),
            Err(undone) => Err(unburied(undone.cause())),
        }
    }

    /// Any offset: it is never committed.
    fn add_offset(&self, who: &ConsumerGroupMetadata, until: Instant) -> Result<(), Cause> {
        let mut offsets = TopicPartitionList::with_capacity(1);
        let topic = self.settings.inputs.first().map_or("", String::as_str);
        offsets.add_partition_offset(topic, 0, Offset::Offset(0)).map_err(|e| Cause::Other(e.to_string()))?;
        self.repeated(until, |p, left| p.send_offsets_to_transaction(&offsets, who, left)).map_err(Undone::cause)
    }
}

fn unburied(cause: Cause) -> PortError {
    let why = format!("what a lost transaction left could not be aborted yet: {cause}");
    if matches!(cause, Cause::Denied(_)) { PortError::Denied(why) } else { PortError::Transient(why) }
}

/// The key of the records of [`Ledger::bury`].
const BURIAL_KEY: &[u8] = b"aborted";

/// `Fatal` is what waiting does not repair.
fn init_error(error: &KafkaError) -> PortError {
    match error.rdkafka_error_code() {
        Some(Code::InvalidTransactionTimeout) => {
            PortError::Fatal(format!("the broker refuses worker.transaction_timeout: {error}"))
        }
        Some(code) if is_denied(code) => PortError::Fatal(format!("the transactional id may not be used: {error}")),
        _ => PortError::Transient(error.to_string()),
    }
}

/// A call that the client itself refused: a dead producer says only in its fatal error what it died of.
fn refused(producer: &BaseProducer<Context>, why: String, error: &KafkaError) -> Cause {
    let fatal = producer.client().fatal_error().map(|(code, _)| code);
    match fatal.or(error.rdkafka_error_code()) {
        Some(code) if is_fenced(code) => Cause::Fenced(why),
        _ => Cause::Other(why),
    }
}

/// A call that did not work: what it means for the transaction.
enum Undone {
    /// It must be aborted.
    Aborted(Cause),
    Indefinite(Cause),
    Fenced(Cause),
}

impl Undone {
    fn cause(self) -> Cause {
        match self {
            Self::Aborted(cause) | Self::Indefinite(cause) | Self::Fenced(cause) => cause,
        }
    }
}

/// `None`: the broker asked to try again.
fn classify(error: &KafkaError) -> Option<Undone> {
    let why = error.to_string();
    let KafkaError::Transaction(inner) = error else {
        return Some(match error {
            KafkaError::Flush(_) => Undone::Aborted(Cause::Timeout(why)),
            _ => Undone::Indefinite(Cause::Other(why)),
        });
    };
    let code = inner.code();
    let answered = matches!(
        code,
        Code::ConcurrentTransactions
            | Code::CoordinatorLoadInProgress
            | Code::NotCoordinator
            | Code::CoordinatorNotAvailable
    );
    Some(match code {
        _ if is_fenced(code) => Undone::Fenced(Cause::Fenced(why)),
        _ if is_transport(code) => Undone::Indefinite(Cause::Timeout(why)),
        // The broker answered; nothing is on its way any more.
        _ if answered && inner.is_retriable() => return None,
        _ if inner.is_fatal() => Undone::Indefinite(Cause::Other(why)),
        _ if is_denied(code) => Undone::Aborted(Cause::Denied(why)),
        _ if is_generation(code) => Undone::Aborted(Cause::Generation(why)),
        Code::MessageSizeTooLarge => Undone::Aborted(Cause::TooLarge { topic: String::new(), bytes: 0 }),
        _ if inner.txn_requires_abort() => Undone::Aborted(Cause::Other(why)),
        _ => Undone::Indefinite(Cause::Other(why)),
    })
}
