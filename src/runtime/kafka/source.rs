//! The consumer of one worker, as a [`Source`].
//!
//! The rebalance callback runs inside `poll` on the worker's thread and only stores the event. Assigned partitions
//! are first accepted with an empty list, which completes the rebalance, and added when their state is restored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message};
use rdkafka::statistics::{Broker, Statistics};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaRespErr;

use crate::runtime::environment::EnvironmentError;
use crate::runtime::port::{Inbound, PartitionId, PortError, Record, Source};
use crate::runtime::settings::{Settings, Start};

/// How many headers fit on the stack.
const FEW: usize = 24;
/// How often an end that could belong to several topics is looked up at the broker.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long [`Source::serve`] may wait for what the client has to say.
const SERVE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Shared {
    events: VecDeque<Inbound>,
    /// What the client was told to read; anything else may not be taken from it again.
    started: BTreeSet<PartitionId>,
    /// Something was taken from the client since it was last seen to have nothing to say. It takes that for the answer
    /// to a rebalance that it has not told of yet, and says no more that the assignment was lost.
    stopped: bool,
    /// Where a log ends, and how many records before that were not fetched yet.
    ends: BTreeMap<PartitionId, (i64, i64)>,
    brokers: Option<usize>,
    dark: Dark,
    /// Partitions of input topics.
    widths: BTreeMap<u16, i32>,
    queued: Option<u64>,
}

/// How long the client has had no broker, by the time of its own statistics: they may wait to be looked at.
#[derive(Default)]
struct Dark {
    /// Microseconds of the client's clock.
    since: Option<i64>,
    lasted: Duration,
}

impl Dark {
    fn seen(&mut self, brokers: usize, at: i64) {
        self.since = if brokers > 0 { None } else { self.since.or(Some(at)) };
        self.lasted = self.since.map_or(Duration::ZERO, |since| {
            Duration::from_micros(u64::try_from(at.saturating_sub(since)).unwrap_or(0))
        });
    }
}

struct Context {
    inputs: Vec<String>,
    closing: AtomicBool,
    shared: Mutex<Shared>,
}

impl Context {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, topic: &str, partition: i32) -> Option<PartitionId> {
        let topic = self.inputs.iter().position(|t| t == topic)?;
        Some(PartitionId { topic: u16::try_from(topic).ok()?, partition })
    }

    fn name(&self, at: PartitionId) -> &str {
        self.inputs.get(usize::from(at.topic)).map_or("", String::as_str)
    }

    fn ids(&self, list: &TopicPartitionList) -> Vec<PartitionId> {
        list.elements().iter().filter_map(|e| self.id(e.topic(), e.partition())).collect()
    }

    fn list(&self, parts: &[PartitionId]) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(parts.len());
        for &at in parts {
            list.add_partition(self.name(at), at.partition);
        }
        list
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        super::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        super::log_error(&error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        // A broker has several entries (by address, by number, as the group's coordinator); its number is the same.
        let up = statistics
            .brokers
            .values()
            .filter(|b| b.nodeid >= 0 && matches!(b.state.as_str(), "UP" | "UPDATE"))
            .map(|b| b.nodeid);
        let up = up.collect::<BTreeSet<_>>().len();
        if up > 0 {
            super::outage::over();
        }
        // The group's coordinator has a connection of its own, over which nothing else is asked.
        let own = |b: &&Broker| b.source != "logical" && matches!(b.state.as_str(), "UP" | "UPDATE");
        let reached = statistics.brokers.values().filter(own).count();
        let mut shared = self.shared();
        shared.brokers = Some(up);
        shared.dark.seen(reached, statistics.ts);
        // All partitions are fetched into one queue, whose size each of them gives for its own.
        let all = statistics.topics.values().flat_map(|t| t.partitions.values());
        shared.queued = Some(all.map(|p| p.fetchq_size).max().unwrap_or(0));
        for (topic, partitions) in &statistics.topics {
            for partition in partitions.partitions.values().filter(|p| p.desired && p.ls_offset >= 0) {
                if let Some(at) = self.id(topic, partition.partition) {
                    let unfetched = (partition.ls_offset - partition.next_offset).max(0);
                    shared.ends.insert(at, (partition.ls_offset, unfetched));
                }
            }
            let known = partitions.partitions.values().filter(|p| p.partition >= 0 && !p.unknown).count();
            if let (Some(at), Ok(known @ 1..)) = (self.id(topic, 0), i32::try_from(known)) {
                shared.widths.insert(at.topic, known);
            }
        }
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let assign = what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        let parts = self.ids(list);
        if self.closing.load(Ordering::Acquire) {
            let mut shared = self.shared();
            let mine: Vec<_> = parts.into_iter().filter(|p| shared.started.remove(p)).collect();
            drop(shared);
            let _ = if assign {
                consumer.incremental_assign(&TopicPartitionList::new())
            } else {
                consumer.incremental_unassign(&self.list(&mine))
            };
            return;
        }
        let event = match assign {
            true => Inbound::Assign(parts),
            false if consumer.assignment_lost() || self.shared().stopped => Inbound::Lost(parts),
            false => Inbound::Revoke(parts),
        };
        let mut shared = self.shared();
        shared.stopped = false;
        shared.events.push_back(event);
    }
}

pub struct KafkaSource {
    consumer: Option<BaseConsumer<Context>>,
    context: Arc<Context>,
    settings: Arc<Settings>,
    worker: u32,
    /// What the worker was told that it has.
    held: BTreeSet<PartitionId>,
    /// The worker was told that it lost what a former client had; this one knows nothing of it.
    orphaned: bool,
    /// Partition numbers whose end was reported while several topics have them, and when it was last looked up.
    unclear: BTreeMap<i32, Option<Instant>>,
    positions: BTreeMap<PartitionId, i64>,
    /// Which topics are narrower than an input, when that was last asked.
    narrow: BTreeMap<u16, Option<String>>,
}

impl KafkaSource {
    pub fn new(settings: &Arc<Settings>, worker: u32) -> Result<Self, EnvironmentError> {
        let context =
            Context { inputs: settings.inputs.clone(), closing: AtomicBool::new(false), shared: Mutex::default() };
        let consumer: BaseConsumer<Context> =
            super::member(settings, worker).create_with_context(context).map_err(|e| client_error(&e))?;
        let inputs: Vec<&str> = settings.inputs.iter().map(String::as_str).collect();
        consumer.subscribe(&inputs).map_err(|e| client_error(&e))?;
        let context = Arc::clone(consumer.context());
        Ok(Self {
            consumer: Some(consumer),
            context,
            settings: Arc::clone(settings),
            worker,
            held: BTreeSet::new(),
            orphaned: false,
            unclear: BTreeMap::new(),
            positions: BTreeMap::new(),
            narrow: BTreeMap::new(),
        })
    }

    fn consumer(&self) -> Result<&BaseConsumer<Context>, PortError> {
        self.consumer.as_ref().ok_or_else(|| PortError::Fatal("the consumer is closed".into()))
    }

    /// A client that lost all brokers for good is given up for a new one ([`super::patience`]). What it had is lost,
    /// and the first that the worker is told.
    fn look_after(&mut self, dark: Duration) -> Result<(), PortError> {
        if dark < super::patience(&self.settings) || self.context.closing.load(Ordering::Acquire) {
            return Ok(());
        }
        let fresh = Self::new(&self.settings, self.worker).map_err(|e| PortError::Fatal(e.to_string()))?;
        super::replaced("member", dark);
        let mut old = std::mem::replace(self, fresh);
        // Held until the worker is told, also where this client is given up before.
        self.held = std::mem::take(&mut old.held);
        if !self.held.is_empty() {
            self.orphaned = true;
            self.context.shared().events.push_back(Inbound::Lost(self.held.iter().copied().collect()));
        }
        super::retire(old);
        Ok(())
    }

    /// Notes what the worker is told.
    fn told(&mut self, event: Inbound) -> Inbound {
        match &event {
            Inbound::Assign(parts) => self.held.extend(parts),
            Inbound::Revoke(parts) | Inbound::Lost(parts) => self.held.retain(|at| !parts.contains(at)),
            _ => {}
        }
        event
    }

    fn take_started(&self, parts: &[PartitionId]) -> Vec<PartitionId> {
        let mut shared = self.context.shared();
        parts.iter().copied().filter(|p| shared.started.remove(p)).collect()
    }

    /// The client says only the partition's number; with several inputs the broker is asked which topic ended.
    fn ended(&mut self, partition: i32) -> Inbound {
        let candidates: Vec<_> =
            self.context.shared().started.iter().copied().filter(|p| p.partition == partition).collect();
        match candidates.as_slice() {
            [] => Inbound::Idle,
            [one] => Inbound::End(*one),
            _ => {
                self.unclear.entry(partition).or_insert(None);
                Inbound::Idle
            }
        }
    }

    fn look_up_ends(&mut self) -> Result<(), PortError> {
        let due = |at: &Option<Instant>| at.is_none_or(|at| at.elapsed() >= ASK_AGAIN);
        let Some(partition) = self.unclear.iter().find(|(_, at)| due(at)).map(|(p, _)| *p) else {
            return Ok(());
        };
        let candidates: Vec<_> =
            self.context.shared().started.iter().copied().filter(|p| p.partition == partition).collect();
        let mut all = true;
        for at in candidates {
            let end = self.consumer()?.fetch_watermarks(self.context.name(at), partition, Duration::from_secs(1));
            match (end, self.positions.get(&at)) {
                (Ok((_, high)), Some(next)) if *next >= high => {
                    self.context.shared().events.push_back(Inbound::End(at));
                }
                _ => all = false,
            }
        }
        match all {
            true => self.unclear.remove(&partition),
            false => self.unclear.insert(partition, Some(Instant::now())),
        };
        Ok(())
    }
}

impl Source for KafkaSource {
    type Membership = ConsumerGroupMetadata;

    fn poll(&mut self, wait: Duration, on_record: &mut dyn FnMut(Record<'_>)) -> Result<Inbound, PortError> {
        if !self.unclear.is_empty() {
            self.look_up_ends()?;
        }
        let (dark, waiting) = {
            let mut shared = self.context.shared();
            (shared.dark.lasted, shared.events.pop_front())
        };
        if let Some(event) = waiting {
            return Ok(self.told(event));
        }
        self.look_after(dark)?;
        let consumer = self.consumer.as_ref().ok_or_else(|| PortError::Fatal("the consumer is closed".into()))?;
        // The client waits for whole milliseconds, and the wrapper turns in circles for what is left.
        let wait = Duration::from_millis(u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX));
        match consumer.poll(wait) {
            None => {
                let mut shared = self.context.shared();
                // Without a wait the client looks at one event only.
                shared.stopped &= wait.is_zero();
                let event = shared.events.pop_front().unwrap_or(Inbound::Idle);
                drop(shared);
                Ok(self.told(event))
            }
            Some(Ok(message)) => {
                let Some(at) = self.context.id(message.topic(), message.partition()) else {
                    return Ok(Inbound::Idle);
                };
                self.positions.insert(at, message.offset() + 1);
                let mut few = [("", None); FEW];
                let mut many = Vec::new();
                let headers = match message.headers() {
                    None => &[][..],
                    Some(all) if all.count() <= FEW => {
                        let readable = few.iter_mut().zip(headers(all)).map(|(slot, header)| *slot = header).count();
                        &few[..readable]
                    }
                    Some(all) => {
                        many.extend(headers(all));
                        many.as_slice()
                    }
                };
                on_record(Record {
                    at,
                    offset: message.offset(),
                    timestamp: message.timestamp().to_millis(),
                    key: message.key(),
                    headers,
                    value: message.payload(),
                });
                Ok(Inbound::Record)
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(self.ended(partition)),
            Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                Err(PortError::Fatal(format!("the consumer died: {code}")))
            }
            Some(Err(error)) => {
                if let Some((code, why)) = self.consumer()?.client().fatal_error() {
                    return Err(PortError::Fatal(format!("the consumer died: {code}: {why}")));
                }
                match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                        Err(PortError::Fatal(format!(
                            "the next offset of the group is no longer in its input topic: {error}"
                        )))
                    }
                    Some(code) if super::is_denied(code) => Err(PortError::Denied(error.to_string())),
                    _ => Err(PortError::Transient(error.to_string())),
                }
            }
        }
    }

    fn serve(&mut self) {
        let Ok(consumer) = self.consumer() else { return };
        // One event a call, unless it may wait: what the group says stands behind statistics and errors.
        let until = Instant::now() + SERVE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(Ok(message)) = consumer.poll(left) {
                // Nothing is started while only serving; what slips through is read again after the next start.
                tracing::debug!(event = "kafka.unexpected_record", partition = message.partition());
            }
            if left.is_zero() || !self.context.shared().events.is_empty() {
                break;
            }
        }
        // What hinders it the next poll says.
        let dark = self.context.shared().dark.lasted;
        let _ = self.look_after(dark);
    }

    fn take_lost(&mut self) -> Option<Vec<PartitionId>> {
        let waiting = self.context.shared().events.pop_front()?;
        if !matches!(waiting, Inbound::Lost(_)) {
            self.context.shared().events.push_front(waiting);
            return None;
        }
        match self.told(waiting) {
            Inbound::Lost(parts) => Some(parts),
            _ => None,
        }
    }

    fn accept(&mut self, _parts: &[PartitionId]) -> Result<(), PortError> {
        self.consumer()?.incremental_assign(&TopicPartitionList::new()).map_err(assignment_error)
    }

    fn release(&mut self, parts: &[PartitionId]) -> Result<(), PortError> {
        if std::mem::take(&mut self.orphaned) {
            return Ok(());
        }
        let mine = self.take_started(parts);
        self.consumer()?.incremental_unassign(&self.context.list(&mine)).map_err(assignment_error)
    }

    fn start(&mut self, at: PartitionId, offset: i64) -> Result<(), PortError> {
        if self.context.shared().started.contains(&at) {
            return Ok(());
        }
        let mut list = TopicPartitionList::with_capacity(1);
        let from = if self.settings.durable { Offset::Offset(offset) } else { Offset::Beginning };
        list.add_partition_offset(self.context.name(at), at.partition, from)
            .map_err(|e| PortError::Fatal(e.to_string()))?;
        self.consumer()?.incremental_assign(&list).map_err(assignment_error)?;
        self.positions.insert(at, offset);
        self.context.shared().started.insert(at);
        Ok(())
    }

    fn stop(&mut self, parts: &[PartitionId]) -> Result<(), PortError> {
        let mine = self.take_started(parts);
        if mine.is_empty() {
            return Ok(());
        }
        self.context.shared().stopped = true;
        self.consumer()?.incremental_unassign(&self.context.list(&mine)).map_err(assignment_error)
    }

    fn membership(&self) -> Result<ConsumerGroupMetadata, PortError> {
        self.consumer()?.group_metadata().ok_or_else(|| PortError::Transient("not a member of the group".into()))
    }

    fn committed(
        &mut self,
        parts: &[PartitionId],
        limit: Duration,
    ) -> Result<BTreeMap<PartitionId, Option<i64>>, PortError> {
        let answer = self
            .consumer()?
            .committed_offsets(self.context.list(parts), limit)
            .map_err(|e| PortError::Transient(e.to_string()))?;
        let mut found = BTreeMap::new();
        for element in answer.elements() {
            element.error().map_err(|e| PortError::Transient(e.to_string()))?;
            if let Some(at) = self.context.id(element.topic(), element.partition()) {
                found.insert(at, offset_of(element.offset()));
            }
        }
        Ok(found)
    }

    fn writable(&mut self, topic: u16, limit: Duration) -> Result<i32, PortError> {
        let input = self.context.name(PartitionId { topic, partition: 0 }).to_owned();
        let input = input.as_str();
        let mut least = i32::MAX;
        let mut counts = Vec::new();
        let state = crate::runtime::settings::state_topic(input);
        for name in self.settings.outputs().into_iter().chain(self.settings.durable.then_some(state.as_str())) {
            let metadata = self
                .consumer()?
                .fetch_metadata(Some(name), limit)
                .map_err(|e| PortError::Transient(format!("{name}: {e}")))?;
            let count = metadata.topics().iter().find(|t| t.name() == name).map_or(0, |t| t.partitions().len());
            least = least.min(i32::try_from(count).unwrap_or(i32::MAX));
            counts.push((name.to_owned(), count));
        }
        let has = self.consumer()?.fetch_metadata(Some(input), limit).ok();
        let has = has.and_then(|m| m.topics().first().map(|t| t.partitions().len())).unwrap_or(0);
        if let Ok(has @ 1..) = i32::try_from(has) {
            self.context.shared().widths.insert(topic, has);
        }
        let topics: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count < has)
            .map(|(name, n)| format!("topic {name} has {n} partition{}", if *n == 1 { "" } else { "s" }))
            .collect();
        let why = (!topics.is_empty()).then(|| format!("{}, input {input} has {has}", topics.join(", ")));
        self.narrow.insert(topic, why);
        Ok(least)
    }

    fn narrow(&self, topic: u16) -> Option<String> {
        self.narrow.get(&topic).cloned().flatten()
    }

    fn backlog(&mut self, parts: &[PartitionId], limit: Duration) -> Vec<(PartitionId, i64)> {
        let until = Instant::now() + limit;
        let Ok(committed) = self.committed(parts, limit) else { return Vec::new() };
        let earliest = self.settings.start == Start::Earliest;
        let mut found = Vec::new();
        for &at in parts {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(consumer) = self.consumer() else { break };
            if left.is_zero() {
                break;
            }
            let Ok((low, high)) = consumer.fetch_watermarks(self.context.name(at), at.partition, left) else { break };
            let begin = if earliest { low } else { high };
            let next = committed.get(&at).copied().flatten().unwrap_or(begin);
            found.push((at, (high - next).max(0)));
        }
        found
    }

    fn end(&self, at: PartitionId) -> Option<i64> {
        self.context.shared().ends.get(&at).map(|(end, _)| *end)
    }

    fn unfetched(&self, at: PartitionId) -> Option<i64> {
        self.context.shared().ends.get(&at).map(|(_, unfetched)| *unfetched)
    }

    fn partitions(&self, topic: u16) -> Option<i32> {
        self.context.shared().widths.get(&topic).copied()
    }

    fn queued(&self) -> Option<u64> {
        self.context.shared().queued
    }

    fn brokers(&self) -> Option<usize> {
        self.context.shared().brokers
    }

    fn close(&mut self) {
        self.context.closing.store(true, Ordering::Release);
        // Events that nobody will answer any more would keep the close waiting.
        let waiting: Vec<_> = self.context.shared().events.drain(..).collect();
        for event in waiting {
            let _ = match event {
                Inbound::Assign(parts) => self.accept(&parts),
                Inbound::Revoke(parts) | Inbound::Lost(parts) => self.release(&parts),
                _ => Ok(()),
            };
        }
        self.consumer = None;
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        if self.consumer.is_some() {
            self.close();
        }
    }
}

/// The headers of a record. The wrapper unwraps a name as UTF-8, which a hostile producer need not write: that must
/// not end the worker. Such a name reads as the replacement character and ends the list, so that one record costs
/// one panic at most.
fn headers<H: Headers>(all: &H) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    let mut readable = true;
    (0..all.count()).map_while(move |index| {
        if !readable {
            return None;
        }
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| all.try_get(index)));
        readable = matches!(found, Ok(Some(_)));
        Some(found.ok().flatten().map_or(("\u{fffd}", None), |h| (h.key, h.value)))
    })
}

pub(crate) fn offset_of(offset: Offset) -> Option<i64> {
    match offset {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

fn assignment_error(error: KafkaError) -> PortError {
    PortError::Fatal(format!("the assignment could not be changed: {error}"))
}

pub(crate) fn client_error(error: &KafkaError) -> EnvironmentError {
    EnvironmentError::new(
        "kafka_client",
        format!("the Kafka client could not be made: {error}"),
        "correct the setting of kafka.properties, kafka.sasl or kafka.ca_file that the message is about",
    )
}
