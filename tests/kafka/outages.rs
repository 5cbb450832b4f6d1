//! The broker goes away: outcomes become unknown, and nothing is lost or repeated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use sluicegate::runtime::port::PartitionId;
use sluicegate::runtime::settings::Settings;
use sluicegate::runtime::worker::{Ended, Telemetry};

use crate::exactly_once::{Running, check, traffic, world};
use crate::support::broker::Broker;

use crate::support::client::{Feed, eventually, produce, read_committed, read_uncommitted};
use crate::support::process::Instance;
use crate::support::unique;
use crate::support::world::{Event, World};

/// A broker of its own, because it is stopped and restarted while records are judged.
#[test]
fn a_broker_that_stalls_or_restarts_costs_time_only() {
    if crate::support::broker().is_none() {
        return;
    }
    let mut broker = Broker::start().unwrap();
    let settings = world(&broker.bootstrap, 4);
    let records = traffic(40_000, 4, 97);
    let running = Running::start(&settings);
    let feeder = feeding(&settings, &records);
    let some = || !read_committed(&broker.bootstrap, &settings.verdicts).is_empty();
    assert!(eventually(Duration::from_secs(30), some));
    // Longer than the transaction timeout: the coordinator aborts what was open when it wakes.
    broker.signal("STOP");
    std::thread::sleep(Duration::from_secs(9));
    broker.signal("CONT");
    std::thread::sleep(Duration::from_secs(4));
    // Shorter: calls in flight are answered late.
    broker.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    broker.signal("CONT");
    std::thread::sleep(Duration::from_secs(3));
    broker.restart("TERM", Duration::from_secs(1));
    std::thread::sleep(Duration::from_secs(4));
    broker.restart("KILL", Duration::from_secs(3));
    feeder.join().unwrap();
    check(&settings, &records, Duration::from_secs(90));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

/// A transaction that the coordinator aborts while a partition has no leader ends without a marker there, and what
/// it wrote stays open in the log: the next commit of the same producer must not show it.
#[test]
fn what_is_aborted_while_partitions_have_no_leader_stays_hidden() {
    if crate::support::broker().is_none() {
        return;
    }
    let broker = Broker::start_with("broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500").unwrap();
    // Offsets and transactions get their topics on the first broker.
    run_once(&broker.bootstrap);
    let second = broker.second("broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500").unwrap();
    let mut settings = world(&broker.bootstrap, 4);
    // Long transactions, so that one is open when the broker stalls.
    settings.commit_min = Duration::from_secs(3);
    settings.commit_interval = Duration::from_secs(3);
    let records = traffic(4_000, 4, 97);
    let (before, after) = records.split_at(2_000);
    let told = Arc::new(Told::default());
    let running = Running::told(&settings, Arc::clone(&told) as Arc<dyn Telemetry>);
    produce(&broker.bootstrap, &settings.inputs[0], before);
    let open = || {
        // What a producer begins with has no value.
        let all = read_uncommitted(&broker.bootstrap, &settings.verdicts);
        let written = all.iter().filter(|record| record.value.is_some()).count();
        written > read_committed(&broker.bootstrap, &settings.verdicts).len()
    };
    assert!(eventually(Duration::from_secs(30), open), "no transaction is seen open");
    second.signal("STOP");
    // What nobody can commit is shown as lag, and why.
    told.clear();
    let shown = || told.lags.lock().unwrap().iter().any(|(records, ms)| *records > 0 && *ms > 0);
    assert!(eventually(settings.transaction_timeout + Duration::from_secs(60), shown), "no lag is shown");
    let why = told.why.lock().unwrap().join("\n");
    assert!(why.contains("could not be aborted yet: "), "{why}");
    second.signal("CONT");
    produce(&broker.bootstrap, &settings.inputs[0], after);
    check(&settings, &records, Duration::from_secs(90));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

/// What the worker told of its lag (records and milliseconds) and of why it waits.
#[derive(Default)]
struct Told {
    lags: Mutex<Vec<(i64, i64)>>,
    why: Mutex<Vec<String>>,
}

impl Told {
    fn clear(&self) {
        self.lags.lock().unwrap().clear();
    }
}

impl Telemetry for Told {
    fn lag(&self, _at: PartitionId, records: i64, ms: i64) {
        self.lags.lock().unwrap().push((records, ms));
    }
    fn waits(&self, _worker: u32, why: &str) {
        self.why.lock().unwrap().push(why.to_owned());
        self.clear();
    }
}

/// The same where the process that wrote died: its successor settles what it left. Offsets that stay pending would
/// keep everybody from the partition for good, and records would show with the first commit.
#[test]
fn what_a_dead_process_left_open_is_settled_by_the_next() {
    if crate::support::broker().is_none() {
        return;
    }
    let quick = "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500";
    let broker = Broker::start_with(quick).unwrap();
    let second = broker.second(quick).unwrap();
    run_once(&broker.bootstrap);
    let mut settings = world(&broker.bootstrap, 2);
    assert!(leaders(&broker.bootstrap, &settings.verdicts).contains(&2));
    // Offsets on the second broker, the coordinator of transactions on the first.
    let offsets = leaders(&broker.bootstrap, "__consumer_offsets");
    let transactions = leaders(&broker.bootstrap, "__transaction_state");
    let fits = |(group, instance): &(String, String)| {
        let id = format!("{group}-{instance}-0");
        offsets[place(group, offsets.len())] == 2 && transactions[place(&id, transactions.len())] == 1
    };
    // Of one instance the two places may be even or odd together, and the leaders take turns.
    let mut names = (0..1_000).map(|n| (format!("group-{n}"), (n % 10).to_string()));
    (settings.group, settings.instance) =
        names.find(fits).unwrap_or_else(|| panic!("offsets on {offsets:?}, transactions on {transactions:?}"));
    let left = begun(&settings, &settings.transactional_id(0), "4000");
    for topic in [&settings.verdicts, &settings.redacted] {
        for partition in 0..2 {
            left.send(BaseRecord::<(), str>::to(topic).partition(partition).payload("left")).unwrap();
        }
    }
    left.flush(Duration::from_secs(20)).unwrap();
    pend(&settings, &left);
    second.signal("STOP");
    std::thread::sleep(Duration::from_secs(10));
    second.signal("CONT");
    drop(left);
    let records = traffic(1_000, 2, 7);
    produce(&broker.bootstrap, &settings.inputs[0], &records);
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(60));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

/// A client that found no broker for long may never find one again, so it is given up for a new one: the member of the
/// group, which has lost its partitions by then, and the reader of the decisions on tools. Nothing shows of it but the
/// line in the log.
#[test]
fn clients_that_lose_all_brokers_are_replaced() {
    if crate::support::broker().is_none() {
        return;
    }
    let broker = Broker::start().unwrap();
    let mut world = World::new(&broker.bootstrap, 2);
    world.set.push(("SLUICEGATE__CANARY__ENABLED", "true".to_owned()));
    world.set.push(("SLUICEGATE__CANARY__INTERVAL", "2s".to_owned()));
    let result = |n: i64| Event::result(&format!("conversation-{n}"), "t", "text").at(0);
    let instance = world.instance("a");
    world.send(&[result(0), result(1)]);
    world.judged_to(0, &instance);
    broker.signal("STOP");
    let members = || instance.log().matches("client=\"member\"").count();
    // One that was replaced while the brokers are away is replaced again.
    assert!(eventually(Duration::from_secs(60), || members() >= 2), "{}", instance.log());
    broker.signal("CONT");
    assert!(instance.log().contains("client=\"pins\""), "{}", instance.log());
    let ready = || instance.get("/readyz").0 == 200;
    assert!(eventually(Duration::from_secs(60), ready), "{}\n{}", instance.get("/readyz").1, instance.log());
    let (replaced, blocked) = (members(), instance.metric("canary_verdicts_total{result=\"blocked\"}"));
    world.send((2..40).map(result).collect::<Vec<_>>().iter());
    let all = || {
        let judged = world.judged().into_iter().filter(|v| v["subject"]["tool"] == "t").count();
        let again = instance.metric("canary_verdicts_total{result=\"blocked\"}");
        assert!(judged <= 40, "a verdict came twice");
        judged == 40 && again > blocked
    };
    assert!(eventually(Duration::from_secs(60), all), "{}", instance.log());
    assert_eq!(members(), replaced, "the new one stays\n{}", instance.log());
    instance.drain();
}

/// Whoever was away for so long that others own its partitions does not ask what became of them: their owner may
/// have a transaction open there at every moment, and offsets are told only where none is.
#[test]
fn partitions_that_others_own_are_not_waited_for() {
    let Some(broker) = crate::support::broker() else { return };
    let mut settings = world(&broker.bootstrap, 1);
    let records = traffic(400, 1, 7);
    let (before, after) = records.split_at(300);
    produce(&broker.bootstrap, &settings.inputs[0], before);
    // Slow enough that a transaction is open nearly always.
    settings.properties.insert("test.step.ms".to_owned(), "20".to_owned());
    let mut away = Instance::start(&settings);
    settings.properties.clear();
    let some = || !read_committed(&broker.bootstrap, &settings.verdicts).is_empty();
    assert!(eventually(Duration::from_secs(20), some), "{}", away.log());
    away.signal("STOP");
    std::thread::sleep(settings.session_timeout + Duration::from_secs(4));
    // The offsets of the partition are as they were, and not stable while this is open.
    let owner = begun(&settings, &unique("owner"), "60000");
    pend(&settings, &owner);
    away.signal("CONT");
    let left = || away.log().contains("kind=\"lost\"");
    assert!(eventually(Duration::from_secs(40), left), "{}", away.log());
    owner.abort_transaction(Duration::from_secs(20)).unwrap();
    produce(&broker.bootstrap, &settings.inputs[0], after);
    check(&settings, &records, Duration::from_secs(60));
    away.signal("TERM");
    let ended = away.wait(Duration::from_secs(20)).unwrap_or_else(|| panic!("{}", away.log()));
    assert_eq!(ended.code(), Some(0), "{}", away.log());
}

/// Produces a hundred records every 60 ms.
fn feeding(settings: &Settings, records: &[(i32, String, String)]) -> std::thread::JoinHandle<()> {
    let (bootstrap, input, all) = (settings.bootstrap.clone(), settings.inputs[0].clone(), records.to_vec());
    std::thread::spawn(move || {
        let feed = Feed::new(&bootstrap);
        for part in all.chunks(100) {
            feed.produce(&input, part);
            std::thread::sleep(Duration::from_millis(60));
        }
    })
}

/// A transaction of somebody else.
fn begun(settings: &Settings, id: &str, timeout_ms: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.bootstrap).set("transactional.id", id);
    let producer: BaseProducer = config.set("transaction.timeout.ms", timeout_ms).create().unwrap();
    producer.init_transactions(Duration::from_secs(20)).unwrap();
    producer.begin_transaction().unwrap();
    producer
}

/// Makes the offset of partition 0 part of it: nobody is told what is committed there while it is open.
fn pend(settings: &Settings, producer: &BaseProducer) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.bootstrap).set("group.id", &settings.group);
    let member: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&settings.inputs[0], 0, Offset::Offset(0)).unwrap();
    let who = member.group_metadata().unwrap();
    producer.send_offsets_to_transaction(&list, &who, Duration::from_secs(20)).unwrap();
}

/// The leader of each partition.
fn leaders(bootstrap: &str, topic: &str) -> Vec<i32> {
    let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(20)).unwrap();
    let mut partitions: Vec<_> = metadata.topics()[0].partitions().iter().map(|p| (p.id(), p.leader())).collect();
    partitions.sort_unstable();
    partitions.into_iter().map(|(_, leader)| leader).collect()
}

/// Where Kafka keeps what belongs to a name: Java's hash of it without its sign, over the partitions.
fn place(name: &str, partitions: usize) -> usize {
    let hash = name.encode_utf16().fold(0_i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.unsigned_abs() as usize % partitions
}

fn run_once(bootstrap: &str) {
    let settings = world(bootstrap, 1);
    let records = traffic(10, 1, 1);
    let running = Running::start(&settings);
    produce(bootstrap, &settings.inputs[0], &records);
    check(&settings, &records, Duration::from_secs(30));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}
