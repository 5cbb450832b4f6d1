//! The canary sees its own block, and says when it does not.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::broker;
use crate::support::client::eventually;
use crate::support::world::{Event, Instance, World};

fn rounds(instance: &Instance, result: &str) -> u64 {
    let line = format!("sluicegate_canary_verdicts_total{{result=\"{result}\"}} ");
    let text = instance.get("/metrics").1;
    text.lines().find_map(|l| l.strip_prefix(&line)).map_or(0, |n| n.parse().unwrap())
}

#[test]
fn the_canary_is_blocked_and_is_heard_when_it_is_not() {
    let Some(broker) = broker() else { return };
    let world = World::new(&broker.bootstrap, 3);
    let base = std::fs::read_to_string(world.config()).unwrap();
    let write = |more: &str| {
        let own =
            "canary: {enabled: true, interval: 1s}\nreload: {interval: 100ms}\nfleets: {support: {sources: [/test]}}\n";
        let next = world.folder.path().join("next");
        std::fs::write(&next, format!("{base}{own}{more}")).unwrap();
        std::fs::rename(next, world.config()).unwrap();
    };
    write("");
    let instance = world.instance("a");
    let long = Duration::from_secs(60);
    let own = || world.judged().into_iter().filter(|v| v["fleet"] == "_canary").collect::<Vec<_>>();
    let partitions = || own().iter().map(|v| v["source"]["partition"].as_i64().unwrap()).collect::<BTreeSet<i64>>();
    let each = || rounds(&instance, "blocked") >= 3 && partitions().len() == 3;
    assert!(eventually(long, each), "each partition in turn: {:?}\n{}", partitions(), instance.log());

    // It is a record like any other, and none of a fleet's.
    world.send(&[Event::result("talk", "fetch", "done")]);
    assert!(eventually(long, || instance.metric("verdicts_total") > 0.0), "{}", instance.log());
    let text = instance.get("/metrics").1;
    assert!((instance.metric("verdicts_total") - 1.0).abs() < 1e-9, "{text}");
    let others: Vec<_> = world.judged().into_iter().filter(|v| v["fleet"] != "_canary").collect();
    let found: usize = others.iter().map(|v| v["findings"].as_array().unwrap().len()).sum();
    for (name, count) in [("blocks_total", 0), ("findings_total", found), ("result_size_bytes_count", others.len())] {
        assert_eq!(instance.metric(name) as usize, count, "{name}\n{text}");
    }
    assert!(!text.contains("fleet=\"_canary\""), "a fleet that is none\n{text}");
    let own = own();
    assert!(own.len() >= 3 && own.iter().all(|v| v["action"] == "block"), "{own:?}");
    let rules = own.iter().flat_map(|v| v["findings"].as_array().unwrap().iter().map(|f| f["rule"].clone()));
    assert!(!rules.clone().any(|rule| rule == "fleet_not_permitted"), "{:?}", rules.collect::<Vec<_>>());
    assert_eq!(instance.get("/readyz").0, 200);

    // Somebody has the policy observe, then switches it off, then repairs it.
    write("policy: {policies: {SG12: {mode: monitor}}}\n");
    assert!(eventually(long, || rounds(&instance, "observed") >= 2), "{}", instance.log());
    assert_eq!(instance.get("/readyz").0, 200);
    write("policy: {policies: {SG12: {mode: \"off\"}}}\n");
    assert!(eventually(long, || rounds(&instance, "passed") >= 3), "{}", instance.log());
    let (status, said) = instance.get("/readyz");
    assert!(status == 503 && said.contains("not blocked") && said.contains("policies --effective"), "{status} {said}");
    assert!(instance.log().contains("canary.verdict"));
    write("");
    assert!(eventually(long, || instance.get("/readyz").0 == 200), "{}", instance.log());
    assert_eq!(rounds(&instance, "missing"), 0, "{}", instance.log());
    instance.drain();
}
