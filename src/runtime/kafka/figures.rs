//! What a producer's statistics are read for; the rest of them, a part for each partition, is skipped.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::runtime::port::Figures;

/// How often a producer says them: seldom, because they are about a kilobyte for each partition that it wrote to.
pub const EVERY: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Statistics {
    msg_size: u64,
    brokers: BTreeMap<String, Broker>,
}

#[derive(Deserialize)]
struct Broker {
    nodeid: i32,
    rtt: Window,
}

/// Since the statistics before, in microseconds.
#[derive(Deserialize)]
struct Window {
    cnt: i64,
    p99: i64,
}

/// The figures in the client's JSON, if they are there.
pub fn read(statistics: &[u8]) -> Option<Figures> {
    let found: Statistics = serde_json::from_slice(statistics).ok()?;
    let mut round_trips = BTreeMap::new();
    // A broker has several entries (by address, by number, as a coordinator); one that was asked nothing says nothing.
    for broker in found.brokers.values().filter(|b| b.nodeid >= 0 && b.rtt.cnt > 0) {
        let p99 = Duration::from_micros(u64::try_from(broker.rtt.p99).unwrap_or(0));
        let slowest = round_trips.entry(broker.nodeid).or_insert(p99);
        *slowest = p99.max(*slowest);
    }
    Some(Figures { queued: found.msg_size, round_trips })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_broker_are_one() {
        let broker = |node: i32, cnt: i64, p99: i64| {
            format!(r#"{{"nodeid":{node},"state":"UP","rtt":{{"min":1,"cnt":{cnt},"p99":{p99}}},"toppars":{{}}}}"#)
        };
        let text = format!(
            r#"{{"name":"p","msg_cnt":3,"msg_size":77,"brokers":{{"a":{},"b":{},"c":{},"d":{},"e":{}}},"topics":{{"t":{{}}}}}}"#,
            broker(-1, 9, 900),
            broker(1, 5, 2_000),
            broker(1, 7, 30_000),
            broker(2, 0, 0),
            broker(3, 1, 400),
        );
        let figures = read(text.as_bytes()).unwrap();
        let round_trips = [(1, 30_000), (3, 400)].map(|(node, micros)| (node, Duration::from_micros(micros)));
        assert_eq!(figures, Figures { queued: 77, round_trips: round_trips.into() });
        assert_eq!(read(b"{}"), None);
        assert_eq!(read(b"\xff"), None);
    }
}
