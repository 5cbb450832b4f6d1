//! The broker goes away: outcomes become unknown, and nothing is lost or repeated.

use std::time::Duration;

use sluicegate::runtime::worker::Ended;

use crate::exactly_once::{Running, check, traffic, world};
use crate::support::broker::Broker;

use crate::support::client::Feed;

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
    let feed = Feed::new(&broker.bootstrap);
    let mut parts = records.chunks(500);
    let mut some = |n: usize| {
        for part in parts.by_ref().take(n) {
            feed.produce(&settings.inputs[0], part);
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    some(20);
    // Longer than the transaction timeout: the coordinator aborts what was open when it wakes.
    broker.signal("STOP");
    std::thread::sleep(Duration::from_secs(9));
    broker.signal("CONT");
    some(20);
    // Shorter: calls in flight are answered late.
    broker.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    broker.signal("CONT");
    some(20);
    broker.restart("TERM", Duration::from_secs(1));
    some(10);
    broker.restart("KILL", Duration::from_secs(3));
    some(usize::MAX);
    check(&settings, &records, Duration::from_secs(90));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}
