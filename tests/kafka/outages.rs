//! The broker goes away: outcomes become unknown, and nothing is lost or repeated.

use std::time::Duration;

use sluicegate::runtime::worker::Ended;

use crate::exactly_once::{Running, check, traffic, world};
use crate::support::broker::Broker;

use crate::support::client::{Feed, eventually, produce, read_committed, read_uncommitted};

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
    let (bootstrap, input, all) = (broker.bootstrap.clone(), settings.inputs[0].clone(), records.clone());
    let feeder = std::thread::spawn(move || {
        let feed = Feed::new(&bootstrap);
        for part in all.chunks(100) {
            feed.produce(&input, part);
            std::thread::sleep(Duration::from_millis(60));
        }
    });
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
    let running = Running::start(&settings);
    produce(&broker.bootstrap, &settings.inputs[0], before);
    let open = || {
        let all = read_uncommitted(&broker.bootstrap, &settings.verdicts).len();
        all > read_committed(&broker.bootstrap, &settings.verdicts).len()
    };
    assert!(eventually(Duration::from_secs(30), open), "no transaction is seen open");
    second.signal("STOP");
    std::thread::sleep(settings.transaction_timeout + Duration::from_secs(6));
    second.signal("CONT");
    produce(&broker.bootstrap, &settings.inputs[0], after);
    check(&settings, &records, Duration::from_secs(90));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

fn run_once(bootstrap: &str) {
    let settings = world(bootstrap, 1);
    let records = traffic(10, 1, 1);
    let running = Running::start(&settings);
    produce(bootstrap, &settings.inputs[0], &records);
    check(&settings, &records, Duration::from_secs(30));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}
