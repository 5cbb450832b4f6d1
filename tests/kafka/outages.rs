//! The broker goes away: outcomes become unknown, and nothing is lost or repeated.

use std::time::Duration;

use sluicegate::runtime::worker::Ended;

use crate::exactly_once::{Running, check, traffic, world};
use crate::support::broker::Broker;

use crate::support::client::{Feed, eventually, read_committed};

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
