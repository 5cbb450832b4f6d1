//! Bringing a partition's state back from its changelog, by position records.
//!
//! Every transaction writes, next to the entries that changed, one [`Position`] a partition whose offset it
//! commits. So the state that belongs to the committed offset O is complete when the changelog, read committed,
//! was read to its end and the last position equals O. A position beyond O, or one where nothing is committed:
//! the group was reset. An end below O that lasts longer than any transaction can: state was lost. Both are
//! refused unless a setting decides otherwise, because either would judge with the wrong history.
//!
//! Left out: "the last record seen has offset end - 1", which hangs for ever on a trailing transaction marker;
//! and the last stable offset alone, which an older open transaction holds back below records that count.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

pub use position::{Decision, FORMAT, POSITION_KEY, Position, decide};

use super::environment::EnvironmentError;
use super::judge::Judge;
use super::kafka::source::{client_error, offset_of};
use super::kafka::{Quiet, patience, reader, replaced, retire};
use super::port::{PartitionId, Ready, Restore};
use super::settings::{OnLoss, OnReset, Settings, Start, state_topic};
use super::worker::Telemetry;
use position::is_key_id;

mod position;

type Answer<S> = (PartitionId, u64, Result<Ready<S>, EnvironmentError>);

enum Ask<S> {
    Restore { at: PartitionId, ticket: u64, from: u32, reply: Sender<Answer<S>> },
    Cancel { at: PartitionId, from: u32 },
}

/// The one restore consumer of a process, on its own thread.
pub struct Restorer<J: Judge> {
    asks: Sender<Ask<J::State>>,
    thread: Option<JoinHandle<()>>,
}

fn consumer(settings: &Settings) -> Result<BaseConsumer<Quiet>, EnvironmentError> {
    let mut config = reader(settings);
    config.set("client.id", format!("sluicegate-{}-restore", settings.instance));
    let queue = (settings.sizes.entry * 256).max(32 << 20);
    config.set("queued.max.messages.kbytes", (queue >> 10).to_string());
    // Look-ups share the connection with fetches, and would wait behind them at the end of a partition.
    config.set("fetch.wait.max.ms", "10");
    config.create_with_context(Quiet).map_err(|e| client_error(&e))
}

/// A worker's end of the [`Restorer`].
pub struct Desk<S> {
    worker: u32,
    asks: Sender<Ask<S>>,
    reply: Sender<Answer<S>>,
    answers: Receiver<Answer<S>>,
}

impl<J: Judge> Restorer<J> {
    pub fn start(
        settings: &Arc<Settings>,
        judge: &Arc<J>,
        telemetry: &Arc<dyn Telemetry>,
    ) -> Result<Self, EnvironmentError> {
        let (asks, inbox) = channel();
        let desk = Work {
            consumer: consumer(settings)?,
            answered: Instant::now(),
            settings: Arc::clone(settings),
            judge: Arc::clone(judge),
            inbox,
            open: BTreeMap::new(),
            states: settings.inputs.iter().map(|i| state_topic(i)).collect(),
            keep_keys: settings.on_offset_reset == OnReset::ReplayFresh || settings.on_loss == OnLoss::StartEmpty,
            telemetry: Arc::clone(telemetry),
            told: u64::MAX,
            replayed: 0,
        };
        let thread = std::thread::Builder::new().name("restore".into()).spawn(move || desk.run()).map_err(|e| {
            EnvironmentError::new("threads", format!("no thread could be started: {e}"), "check the process limits")
        })?;
        Ok(Self { asks, thread: Some(thread) })
    }

    pub fn desk(&self, worker: u32) -> Desk<J::State> {
        let (reply, answers) = channel();
        Desk { worker, asks: self.asks.clone(), reply, answers }
    }

    /// Ends the thread; every desk must be gone before.
    pub fn finish(self) {
        let Self { asks, thread } = self;
        drop(asks);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl<S> Restore<S> for Desk<S> {
    fn request(&mut self, at: PartitionId, ticket: u64) {
        // A restorer that is gone shows as an answer that never comes; the service ends it with the process.
        let _ = self.asks.send(Ask::Restore { at, ticket, from: self.worker, reply: self.reply.clone() });
    }

    fn cancel(&mut self, at: PartitionId) {
        let _ = self.asks.send(Ask::Cancel { at, from: self.worker });
    }

    fn ready(&mut self) -> Option<Answer<S>> {
        self.answers.try_recv().ok()
    }
}

/// One partition under restore.
struct Open<S> {
    ticket: u64,
    from: u32,
    reply: Sender<Answer<S>>,
    state: S,
    /// Known once the stable offset was fetched; `None` inside: there is none.
    committed: Option<Option<i64>>,
    last: Option<Position>,
    keys: HashSet<Vec<u8>>,
    at_end: bool,
    since: Instant,
    /// When the last entry came.
    progress: Instant,
    entries: u64,
    broken: Option<String>,
    /// The next changelog offset, and where it ended when the restore began.
    next: i64,
    end: i64,
}

impl<S> Open<S> {
    fn new(ticket: u64, from: u32, reply: Sender<Answer<S>>, empty: S) -> Self {
        Self {
            ticket,
            from,
            reply,
            state: empty,
            committed: None,
            last: None,
            keys: HashSet::new(),
            at_end: false,
            since: Instant::now(),
            progress: Instant::now(),
            entries: 0,
            broken: None,
            next: 0,
            end: 0,
        }
    }

    /// As if nothing had been read yet.
    fn begin(&mut self, empty: S) {
        let since = self.since;
        *self = Self::new(self.ticket, self.from, self.reply.clone(), empty);
        self.since = since;
    }
}

struct Work<J: Judge> {
    consumer: BaseConsumer<Quiet>,
    /// When a broker last answered something, or the first partition was asked for.
    answered: Instant,
    settings: Arc<Settings>,
    judge: Arc<J>,
    inbox: Receiver<Ask<J::State>>,
    open: BTreeMap<PartitionId, Open<J::State>>,
    states: Vec<String>,
    /// Whether a setting may lead to a state that is not used, whose keys must then be deleted.
    keep_keys: bool,
    telemetry: Arc<dyn Telemetry>,
    /// What was last told to remain; nothing yet at first.
    told: u64,
    /// Records read since that was told.
    replayed: u64,
}

impl<J: Judge> Work<J> {
    fn run(mut self) {
        self.tell();
        loop {
            if self.open.is_empty() {
                match self.inbox.recv_timeout(Duration::from_millis(500)) {
                    Ok(ask) => self.take(ask),
                    Err(RecvTimeoutError::Timeout) => {
                        let _ = self.consumer.poll(Duration::ZERO);
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            while let Ok(ask) = self.inbox.try_recv() {
                self.take(ask);
            }
            self.look_after();
            self.fetch_offsets();
            self.read();
            self.settle();
            self.tell();
        }
    }

    /// A client that finds no broker for long is given up for a new one, which reads from the beginning.
    fn look_after(&mut self) {
        let without = self.answered.elapsed();
        let Some(&at) = self.open.keys().next() else { return };
        if without < patience(&self.settings) {
            return;
        }
        // Offsets that are not stable yet take long too, and restores that only wait have nothing to be told.
        if self.answers(at) {
            self.answered = Instant::now();
            return;
        }
        if let Ok(fresh) = consumer(&self.settings) {
            replaced("restore", without);
            retire(std::mem::replace(&mut self.consumer, fresh));
            self.answered = Instant::now();
            for (at, open) in &mut self.open {
                let input = self.settings.inputs.get(usize::from(at.topic)).map_or("", String::as_str);
                open.begin(self.judge.open(input, at.partition));
            }
        }
    }

    fn tell(&mut self) {
        let left = |o: &Open<J::State>| if o.at_end { 0 } else { u64::try_from(o.end - o.next).unwrap_or(0) };
        let remaining = self.open.values().map(left).sum();
        if remaining != self.told {
            self.told = remaining;
            self.telemetry.restoring(remaining);
        }
        if self.replayed > 0 {
            self.telemetry.replayed(std::mem::take(&mut self.replayed));
        }
    }

    fn take(&mut self, ask: Ask<J::State>) {
        match ask {
            Ask::Cancel { at, from } => {
                if self.open.get(&at).is_some_and(|o| o.from == from) {
                    self.close(at);
                }
            }
            Ask::Restore { at, ticket, from, reply } => {
                if self.open.contains_key(&at) {
                    self.close(at);
                }
                if self.open.is_empty() {
                    self.answered = Instant::now();
                }
                let input = self.settings.inputs.get(usize::from(at.topic)).map_or("", String::as_str);
                self.open.insert(at, Open::new(ticket, from, reply, self.judge.open(input, at.partition)));
            }
        }
    }

    fn close(&mut self, at: PartitionId) -> Option<Open<J::State>> {
        let open = self.open.remove(&at)?;
        if open.committed.is_some() {
            let mut list = TopicPartitionList::with_capacity(1);
            list.add_partition(self.states.get(usize::from(at.topic)).map_or("", String::as_str), at.partition);
            if let Err(error) = self.consumer.incremental_unassign(&list) {
                tracing::warn!(event = "restore.unassign", partition = at.partition, error = %error);
            }
        }
        Some(open)
    }

    /// The stable fetch waits at the broker until no pending transaction can move the offset, so it comes first:
    /// what the changelog lacks then is only a marker on its way.
    fn fetch_offsets(&mut self) {
        // Two topics' partitions of one number are not read together, see `ended`.
        let mut busy: BTreeSet<i32> =
            self.open.iter().filter(|(_, o)| o.committed.is_some()).map(|(at, _)| at.partition).collect();
        let waiting = self.open.iter().filter(|(_, o)| o.committed.is_none()).map(|(at, _)| *at);
        let fresh: Vec<_> = waiting.filter(|at| busy.insert(at.partition)).collect();
        if fresh.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::with_capacity(fresh.len());
        for at in &fresh {
            list.add_partition(&self.settings.inputs[usize::from(at.topic)], at.partition);
        }
        let answer = match self.consumer.committed_offsets(list, Duration::from_secs(5)) {
            Ok(answer) => {
                self.answered = Instant::now();
                answer
            }
            Err(error) => {
                tracing::info!(event = "restore.offsets_wait", error = %error);
                std::thread::sleep(Duration::from_millis(100));
                return;
            }
        };
        let mut read = TopicPartitionList::new();
        for element in answer.elements() {
            let Some(topic) = self.settings.inputs.iter().position(|i| i == element.topic()) else {
                continue;
            };
            let at = PartitionId { topic: u16::try_from(topic).unwrap_or(0), partition: element.partition() };
            if element.error().is_err() {
                continue;
            }
            if let Some(open) = self.open.get_mut(&at)
                && read.add_partition_offset(&self.states[topic], at.partition, Offset::Beginning).is_ok()
            {
                open.committed = Some(offset_of(element.offset()));
            }
        }
        self.look_for_ends(&fresh);
        if let Err(error) = self.consumer.incremental_assign(&read) {
            tracing::warn!(event = "restore.assign", error = %error);
            for at in fresh {
                if let Some(open) = self.open.get_mut(&at) {
                    open.committed = None;
                }
            }
        }
    }

    /// Only for the gauge of what remains: a broker that does not answer is not waited for.
    fn look_for_ends(&mut self, fresh: &[PartitionId]) {
        for at in fresh {
            let Some(open) = self.open.get_mut(at).filter(|o| o.committed.is_some()) else { continue };
            let state = self.states.get(usize::from(at.topic)).map_or("", String::as_str);
            match self.consumer.fetch_watermarks(state, at.partition, Duration::from_millis(500)) {
                Ok((low, high)) => (open.next, open.end) = (low, high),
                Err(_) => return,
            }
        }
    }

    fn read(&mut self) {
        let until = Instant::now() + Duration::from_millis(50);
        while Instant::now() < until {
            match self.consumer.poll(Duration::from_millis(5)) {
                None => return,
                Some(Ok(record)) => {
                    self.answered = Instant::now();
                    let Some(topic) = self.states.iter().position(|s| s == record.topic()) else {
                        continue;
                    };
                    let at = PartitionId { topic: u16::try_from(topic).unwrap_or(0), partition: record.partition() };
                    let Some(open) = self.open.get_mut(&at) else {
                        continue;
                    };
                    open.at_end = false;
                    open.progress = Instant::now();
                    open.next = record.offset() + 1;
                    self.replayed += 1;
                    let key = record.key().unwrap_or_default();
                    apply(&*self.judge, self.keep_keys, open, key, record.payload());
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => self.ended(partition),
                Some(Err(error)) => {
                    tracing::debug!(event = "restore.error", error = %error);
                    if error.rdkafka_error_code() == Some(Code::TopicAuthorizationFailed) {
                        self.denied(&error);
                    }
                    return;
                }
            }
        }
    }

    /// What may not be read would look as if it were lost once it was waited for.
    fn denied(&mut self, error: &KafkaError) {
        let all: Vec<PartitionId> = self.open.keys().copied().collect();
        for at in all {
            let Some(open) = self.close(at) else { continue };
            let error = EnvironmentError::new(
                "kafka_denied",
                format!("the changelog could not be read: {error}"),
                format!("grant this principal Read and Describe on {}", self.states.join(", ")),
            );
            let _ = open.reply.send((at, open.ticket, Err(error)));
        }
    }

    /// The client says only the number, which is enough: of each number one partition is read at a time.
    fn ended(&mut self, partition: i32) {
        for (at, open) in &mut self.open {
            if at.partition == partition && open.committed.is_some() {
                open.at_end = true;
            }
        }
    }

    fn settle(&mut self) {
        let patience = self.settings.transaction_timeout * 2;
        let mut done = Vec::new();
        for (&at, open) in &self.open {
            let Some(committed) = open.committed else {
                continue;
            };
            let waited = open.progress.elapsed() > patience && self.answers(at);
            let decision = match open.broken {
                Some(_) => Decision::Use,
                None => decide(committed, open.last.as_ref().map(|p| p.next_offset), open.at_end, waited),
            };
            if decision != Decision::Wait {
                done.push((at, decision));
            }
        }
        for (at, decision) in done {
            let Some(open) = self.close(at) else { continue };
            let (ticket, reply) = (open.ticket, open.reply.clone());
            let answer = self.conclude(at, open, &decision);
            let _ = reply.send((at, ticket, answer));
        }
    }

    /// A broker that does not answer now has not answered while we waited either.
    fn answers(&self, at: PartitionId) -> bool {
        let topic = &self.states[usize::from(at.topic)];
        self.consumer.fetch_watermarks(topic, at.partition, Duration::from_secs(1)).is_ok()
    }

    fn conclude(
        &self,
        at: PartitionId,
        open: Open<J::State>,
        decision: &Decision,
    ) -> Result<Ready<J::State>, EnvironmentError> {
        let input = self.settings.inputs[usize::from(at.topic)].as_str();
        let place = format!("{input} [{}]", at.partition);
        if let Some(why) = open.broken {
            return Err(unreadable(&place, &why));
        }
        let committed = open.committed.flatten();
        tracing::info!(
            event = "restore.done",
            topic = input,
            partition = at.partition,
            entries = open.entries,
            offset = committed,
            decision = decision.name(),
            ms = u64::try_from(open.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
        let empty = |offset, first, keys: HashSet<Vec<u8>>| {
            let stale: BTreeSet<_> = keys.into_iter().collect();
            let state = self.judge.open(input, at.partition);
            Ready { state, offset, tick: 0, first, stale: stale.into_iter().collect() }
        };
        match decision {
            Decision::Use | Decision::Wait => {
                let mut state = open.state;
                self.judge.restored(&mut state).map_err(|why| unreadable(&place, &why))?;
                let (tick, key) = open.last.map_or((0, String::new()), |p| (p.tick, p.key));
                if ![&key, &self.settings.key_id].contains(&&String::new()) && key != self.settings.key_id {
                    tracing::warn!(
                        event = "state.other_key",
                        topic = input,
                        partition = at.partition,
                        written = if is_key_id(&key) { key.as_str() } else { "no key id" },
                        now = self.settings.key_id,
                        what = "the state was written under another engine.fingerprint_key_file: open conversations \
                                begin anew, and what was seen before is not recognised",
                        repair = "give all instances the same key; after a replacement it is said until a partition has new records",
                    );
                }
                Ok(Ready { state, offset: committed.unwrap_or(0), tick, first: false, stale: Vec::new() })
            }
            Decision::First => Ok(empty(self.beginning(input, at)?, true, open.keys)),
            Decision::Reset if self.settings.on_offset_reset == OnReset::ReplayFresh => {
                let offset = match committed {
                    Some(offset) => offset,
                    None => self.beginning(input, at)?,
                };
                tracing::warn!(event = "state.replay_fresh", topic = input, partition = at.partition, offset);
                Ok(empty(offset, true, open.keys))
            }
            Decision::Lost if self.settings.on_loss == OnLoss::StartEmpty => {
                let offset = committed.unwrap_or(0);
                tracing::warn!(event = "state.start_empty", topic = input, partition = at.partition, offset);
                Ok(empty(offset, true, open.keys))
            }
            Decision::Reset => Err(EnvironmentError::new(
                "offset_reset",
                format!(
                    "the offset of group {} for {place} is {}, but its state is at {}: the group was reset",
                    self.settings.group,
                    committed.map_or("not committed".to_owned(), |o| o.to_string()),
                    open.last.as_ref().map_or(0, |p| p.next_offset),
                ),
                "if another group reads this input, give this one inputs of its own: the state of an input is of one \
                 group; else set the offset back, or set state.on_offset_reset: replay_fresh to judge from there with \
                 empty state",
            )),
            Decision::Lost => Err(EnvironmentError::new(
                "state_lost",
                format!(
                    "the offset of group {} for {place} is {}, but {} ends at {}: state was lost",
                    self.settings.group,
                    committed.unwrap_or(0),
                    state_topic(input),
                    open.last.as_ref().map_or("nothing".to_owned(), |p| p.next_offset.to_string()),
                ),
                "restore the state topic, or set state.on_loss: start_empty to go on with partial conversations",
            )),
        }
    }

    /// `start`, resolved to an offset.
    fn beginning(&self, input: &str, at: PartitionId) -> Result<i64, EnvironmentError> {
        let until = Instant::now() + self.settings.startup_timeout;
        loop {
            match self.consumer.fetch_watermarks(input, at.partition, Duration::from_secs(5)) {
                Ok((low, high)) => {
                    return Ok(if self.settings.start == Start::Earliest { low } else { high });
                }
                Err(error) if Instant::now() >= until => {
                    return Err(EnvironmentError::new(
                        "kafka_unreachable",
                        format!("the ends of {input} [{}] are unknown: {error}", at.partition),
                        "check the broker and the Describe permission on the input topic",
                    ));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }
}

fn unreadable(place: &str, why: &str) -> EnvironmentError {
    EnvironmentError::new(
        "state_unreadable",
        format!("the state of {place} cannot be read: {why}"),
        "run the release that wrote it, or decide with state.on_loss: start_empty after deleting the state topic",
    )
}

fn apply<J: Judge>(judge: &J, keep: bool, open: &mut Open<J::State>, key: &[u8], value: Option<&[u8]>) {
    open.entries += 1;
    if key == POSITION_KEY {
        match value.map(serde_json::from_slice::<Position>) {
            None => open.last = None,
            Some(Ok(position)) if position.format == FORMAT => open.last = Some(position),
            Some(Ok(position)) => open.broken = Some(format!("position format {} is unknown", position.format)),
            Some(Err(_)) => open.broken = Some("a position entry is damaged".to_owned()),
        }
        return;
    }
    match value {
        _ if !keep => false,
        Some(_) => open.keys.insert(key.to_vec()),
        None => open.keys.remove(key),
    };
    if let Err(why) = judge.restore(&mut open.state, key, value) {
        open.broken.get_or_insert(why);
    }
}
