//! Following the decisions on tool definitions: read before anything is judged, then for as long as the process runs.
//!
//! One consumer of its own, outside the group, reads the one partition of the pins topic from its beginning to its
//! end, and goes on. Invariants: nothing is judged before the topic was read to its end once; a topic that has to be
//! read anew (it was made anew, or cut) replaces the table only once it was read to its end. When the end was last
//! reached is told, and too long ago makes the instance not ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::source::client_error;
use super::{Quiet, patience, reader, replaced, retire};
use crate::engine::pins::PinTable;
use crate::runtime::environment::EnvironmentError;
use crate::runtime::pins::Pins;
use crate::runtime::settings::Settings;

/// The only partition.
const PARTITION: i32 = 0;
/// How long one poll waits; also how soon the end is noticed.
const POLL: Duration = Duration::from_millis(100);
/// Records that are taken at once at most.
const BURST: usize = 10_000;
/// How often the topic's end is asked for.
const LOOK: Duration = Duration::from_secs(2);
/// How long that may take.
const ANSWER: Duration = Duration::from_secs(2);

/// The thread that reads the topic; ends when it is dropped.
pub struct Follower {
    pub pins: Arc<Pins>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Reads the topic to its end, then follows it. `stop` ends the first reading early.
    ///
    /// # Errors
    /// The topic cannot be read to its end within the start-up time, or has not one partition.
    pub fn start(settings: &Settings, stopped: &dyn Fn() -> bool) -> Result<Self, EnvironmentError> {
        let mut reading = Reading::new(settings)?;
        let until = Instant::now() + settings.startup_timeout;
        reading.one_partition(ANSWER.min(settings.startup_timeout))?;
        while !reading.at_end {
            if stopped() {
                break;
            }
            if Instant::now() >= until {
                let what = match &reading.last_error {
                    Some(why) => format!("topic {} was not read to its end: {why}", settings.pins),
                    None => format!(
                        "topic {} was not read to its end within {} s",
                        settings.pins,
                        settings.startup_timeout.as_secs_f32()
                    ),
                };
                let repair = "grant Read on the topic, or raise kafka.startup_timeout; nothing is judged before every \
                              decision on tools is known";
                return Err(EnvironmentError::new("pins_unread", what, repair));
            }
            reading.turn();
        }
        tracing::info!(
            event = "pins.read",
            topic = settings.pins,
            decisions = reading.table.len(),
            unreadable = reading.unreadable,
            offset = reading.table.offset().unwrap_or(-1),
        );
        let (pins, stop) = (Arc::clone(&reading.pins), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("pins".into()).spawn(move || {
            while !ends.load(Ordering::Acquire) {
                reading.turn();
            }
        });
        let thread = thread.map_err(|e| {
            EnvironmentError::new("threads", format!("no thread could be started: {e}"), "check the process limits")
        })?;
        Ok(Self { pins, stop, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Reading {
    consumer: BaseConsumer<Quiet>,
    topic: String,
    pins: Arc<Pins>,
    table: PinTable,
    unreadable: u64,
    /// Records were folded in that nobody was given yet.
    fresh: bool,
    /// Everything that was there was read; until then nobody is given the table.
    at_end: bool,
    /// The offset behind the last record that was read, or the end of the log where it was reached.
    reached: i64,
    /// The end was told, and not asked for since.
    ended: bool,
    looked: Option<Instant>,
    /// When a broker last told the end.
    answered: Instant,
    last_error: Option<String>,
    settings: Settings,
}

fn consumer(settings: &Settings) -> Result<BaseConsumer<Quiet>, EnvironmentError> {
    let mut config = reader(settings);
    config.set("client.id", format!("sluicegate-{}-pins", settings.instance));
    // A decision that was made must not wait for others.
    config.set("fetch.wait.max.ms", "50").set("statistics.interval.ms", "0");
    config.create_with_context(Quiet).map_err(|e| client_error(&e))
}

impl Reading {
    fn new(settings: &Settings) -> Result<Self, EnvironmentError> {
        let mut reading = Self {
            consumer: consumer(settings)?,
            topic: settings.pins.clone(),
            pins: Arc::default(),
            table: PinTable::default(),
            unreadable: 0,
            fresh: false,
            at_end: false,
            reached: 0,
            ended: false,
            looked: None,
            answered: Instant::now(),
            last_error: None,
            settings: settings.clone(),
        };
        reading.begin().map_err(|e| client_error(&e))?;
        Ok(reading)
    }

    /// An order of decisions needs one partition.
    fn one_partition(&self, limit: Duration) -> Result<(), EnvironmentError> {
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), limit);
        let found = metadata.ok().and_then(|m| m.topics().first().map(|t| t.partitions().len()));
        match found {
            Some(n) if n > 1 => Err(EnvironmentError::new(
                "pins_partitions",
                format!("topic {} has {n} partitions: decisions on tools have no order then", self.topic),
                "make it anew with one partition (`sluicegate topics apply`), and decide again",
            )),
            _ => Ok(()),
        }
    }

    /// From the beginning, into an empty table.
    fn begin(&mut self) -> Result<(), KafkaError> {
        self.table = PinTable::default();
        (self.unreadable, self.reached) = (0, 0);
        (self.fresh, self.at_end, self.ended) = (true, false, false);
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(&self.topic, PARTITION, Offset::Beginning)?;
        self.consumer.assign(&list)
    }

    /// One wait and what it leads to: what comes together is given on together.
    fn turn(&mut self) {
        let mut wait = POLL;
        for _ in 0..BURST {
            let polled = match self.consumer.poll(wait) {
                None => break,
                Some(Ok(record)) => {
                    let offset = record.offset();
                    let key = record.key().unwrap_or_default();
                    let result = self.table.apply(offset, key, record.payload());
                    self.reached = self.reached.max(offset + 1);
                    self.fresh = true;
                    result.map_err(|error| (offset, error))
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    (self.at_end, self.ended) = (true, true);
                    self.looked = None;
                    Ok(())
                }
                Some(Err(error)) => {
                    self.failed(&error);
                    break;
                }
            };
            if let Err((offset, error)) = polled {
                self.unreadable += 1;
                tracing::warn!(event = "pins.unreadable", topic = self.topic, offset, error = %error);
            }
            wait = Duration::ZERO;
        }
        if self.at_end && self.fresh {
            self.fresh = false;
            self.pins.set(&self.table, self.unreadable);
        }
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.look();
        }
    }

    /// Asks how far the topic goes. A marker at its end is no record, so the end counts as reached where it was told.
    fn look(&mut self) {
        self.looked = Some(Instant::now());
        match self.consumer.fetch_watermarks(&self.topic, PARTITION, ANSWER) {
            Ok((_, high)) if high < self.reached => {
                self.answered = Instant::now();
                tracing::warn!(event = "pins.anew", topic = self.topic, "the topic is shorter than it was");
                self.anew();
            }
            Ok((_, high)) => {
                self.answered = Instant::now();
                if std::mem::take(&mut self.ended) {
                    self.reached = self.reached.max(high);
                }
                if self.at_end && self.reached >= high {
                    self.last_error = None;
                    self.pins.is_current();
                }
            }
            Err(error) => {
                self.say(&error);
                self.look_after();
            }
        }
    }

    /// A client that finds no broker for long is given up for a new one.
    fn look_after(&mut self) {
        let without = self.answered.elapsed();
        if without < patience(&self.settings) {
            return;
        }
        if let Ok(fresh) = consumer(&self.settings) {
            replaced("pins", without);
            retire(std::mem::replace(&mut self.consumer, fresh));
            self.answered = Instant::now();
            self.anew();
        }
    }

    fn failed(&mut self, error: &KafkaError) {
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                tracing::warn!(event = "pins.anew", topic = self.topic, error = %error);
                self.anew();
            }
            _ => self.say(error),
        }
    }

    fn anew(&mut self) {
        if let Err(error) = self.begin() {
            self.say(&error);
        }
    }

    /// Each reason once, until all is well again.
    fn say(&mut self, error: &KafkaError) {
        let why = error.to_string();
        if self.last_error.as_ref() != Some(&why) {
            tracing::warn!(event = "pins.waiting", topic = self.topic, error = why);
            self.last_error = Some(why);
        }
    }
}
