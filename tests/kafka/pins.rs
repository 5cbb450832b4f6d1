//! Decisions on tool definitions across instances: made by the command, acted on by all, sightings exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::broker;
use crate::support::client::{create_topic, delete_topic, eventually};
use crate::support::world::{Event, Instance, World, producer, send_by};

const PARTITIONS: i32 = 6;

/// A server's list in a conversation of its own: what the client asks, and the answer.
fn list(number: u64, partition: i32) -> [Event; 2] {
    let conversation = format!("talk-{number}");
    let asks = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let tool = |name: &str, says: &str| json!({"name": name, "description": says, "inputSchema": {"type": "object"}});
    let tools = [tool("search", "Searches.\u{1b}[2J"), tool("fetch", "Fetches.")];
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}});
    [("client", asks), ("server", answer)].map(|(side, data)| {
        let mut event = Event::new("mcp.message", &conversation, &format!("{conversation}-{side}"), &data);
        event.headers.retain(|(name, _)| name != "ce_provider");
        event.headers.push(("ce_mcpserver".into(), "docs".into()));
        event.headers.push(("ce_direction".into(), side.into()));
        event.at(partition)
    })
}

/// Lists on every partition, again and again, until it is told to stop.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Traffic {
    fn start(world: &World, every: Duration) -> Traffic {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let (bootstrap, input) = (world.bootstrap.clone(), world.input.clone());
        let thread = std::thread::spawn(move || {
            let producer = producer(&bootstrap);
            let mut number = 0;
            while !ends.load(Ordering::Acquire) {
                let round: Vec<Event> = (0..PARTITIONS)
                    .flat_map(|partition| {
                        number += 1;
                        list(number, partition)
                    })
                    .collect();
                send_by(&producer, &input, &round);
                count.store(number, Ordering::Release);
                std::thread::sleep(every);
            }
        });
        Traffic { stop, sent, thread: Some(thread) }
    }

    /// How many lists there were.
    fn finish(mut self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
        self.sent.load(Ordering::Acquire)
    }
}

/// The partitions that an instance judges now.
fn live(instance: &Instance) -> BTreeSet<i64> {
    let body: Value = serde_json::from_str(&instance.get("/readyz?verbose").1).unwrap_or_default();
    let parts = body["partitions"].as_array().cloned().unwrap_or_default();
    parts.iter().filter(|p| p["phase"] == "live").filter_map(|p| p["partition"].as_i64()).collect()
}

/// Waits until the instances share all partitions; gives who has which.
fn shared(instances: &[&Instance]) -> Vec<BTreeSet<i64>> {
    let mut parts = Vec::new();
    let settled = eventually(Duration::from_secs(60), || {
        parts = instances.iter().map(|i| live(i)).collect();
        let all: BTreeSet<i64> = parts.iter().flatten().copied().collect();
        let each = parts.iter().all(|p| !p.is_empty());
        each && all.len() == PARTITIONS as usize && parts.iter().map(BTreeSet::len).sum::<usize>() == all.len()
    });
    assert!(settled, "the partitions are not shared: {parts:?}");
    parts
}

/// Runs `pins …`: exit code, standard output and standard error.
fn pins(world: &World, args: &[&str]) -> (Option<i32>, String, String) {
    let done = world.command("pins").args(args).env("USER", "ada").output().expect("pins");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

fn decide(world: &World, verb: &str, more: &[&str]) -> i64 {
    let args = [&[verb, "--server", "docs", "--tool", "search", "--reason", "a test", "--json"], more].concat();
    let (code, out, said) = pins(world, &args);
    assert_eq!(code, Some(0), "{said}");
    let one: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    one["offset"].as_i64().unwrap()
}

fn digest(world: &World) -> String {
    let (code, out, said) = pins(world, &["list", "--server", "docs", "--all", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let entries = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let search = entries.into_iter().find(|e| e["name"] == "search").expect("search is listed");
    search["digest"].as_str().unwrap().to_owned()
}

#[test]
fn every_instance_acts_on_a_decision_and_a_kill_loses_and_repeats_nothing() {
    let Some(broker) = broker() else { return };
    let world = World::new(&broker.bootstrap, PARTITIONS);
    let (a, b, c) = (world.instance("a"), world.instance("b"), world.instance("c"));
    shared(&[&a, &b, &c]);
    let traffic = Traffic::start(&world, Duration::from_millis(100));
    assert!(eventually(Duration::from_secs(30), || !world.seen(&world.sightings).is_empty()), "nothing was sighted");

    // Nothing of the server reaches the terminal as it is.
    let (code, out, said) = pins(&world, &["show", "--server", "docs", "--tool", "search"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("Searches.\\u{1b}[2J") && !out.contains('\u{1b}'), "{out}");

    let digest = digest(&world);
    let mut offsets = Vec::new();
    let mut latencies: Vec<(usize, i64)> = Vec::new();
    for round in 0..6 {
        // Who has a partition now does not change during the round.
        let parts = shared(&[&a, &b, &c]);
        let verb = if round % 2 == 0 { "approve" } else { "reject" };
        let offset = decide(&world, verb, &["--digest", &digest]);
        offsets.push((offset, round % 2 == 0));
        let decided = world.seen(&world.pins).iter().find(|r| r.offset == offset).expect("a record").timestamp;
        let mut first: BTreeMap<usize, i64> = BTreeMap::new();
        let all = eventually(Duration::from_secs(30), || {
            for record in world.seen(&world.verdicts) {
                let verdict: Value = serde_json::from_str(&record.text()).unwrap();
                if verdict["policy"]["pins_offset"].as_i64().is_some_and(|o| o >= offset) {
                    let of = |p: &BTreeSet<i64>| p.contains(&i64::from(record.partition));
                    let instance = parts.iter().position(of).unwrap();
                    let took = record.timestamp - decided;
                    first.entry(instance).and_modify(|t| *t = took.min(*t)).or_insert(took);
                }
            }
            first.len() == 3
        });
        assert!(all, "{verb}: only {first:?} acted on it");
        latencies.extend(first);
    }
    for instance in 0..3 {
        let mut of: Vec<i64> = latencies.iter().filter(|(i, _)| *i == instance).map(|(_, t)| *t).collect();
        of.sort_unstable();
        println!(
            "decision to first verdict by it, instance {instance}: median {} ms, worst {} ms",
            of[of.len() / 2],
            of[of.len() - 1]
        );
    }

    // One dies in the middle of it, and another takes its place.
    b.signal("KILL");
    std::thread::sleep(Duration::from_millis(1500));
    let offset = decide(&world, "approve", &["--digest", &digest]);
    offsets.push((offset, true));
    let d = world.instance("b");
    shared(&[&a, &c, &d]);
    let lists = traffic.finish();
    let judged = || world.judged().iter().filter(|v| v["checkpoint"] == "tool_definitions").count();
    let began = Instant::now();
    let done = eventually(Duration::from_secs(90), || judged() as u64 >= lists);
    assert!(done, "{} of {lists} lists judged after {:?}", judged(), began.elapsed());
    for instance in [a, c, d] {
        instance.drain();
    }
    check(&world, lists, &offsets);
}

/// Each list has one verdict, by the decision that it names; each undecided definition of it one sighting.
fn check(world: &World, lists: u64, offsets: &[(i64, bool)]) {
    let verdicts: Vec<Value> = world.judged().into_iter().filter(|v| v["checkpoint"] == "tool_definitions").collect();
    assert_eq!(verdicts.len() as u64, lists);
    let mut expected: BTreeSet<(i64, i64, &str)> = BTreeSet::new();
    for verdict in &verdicts {
        let by = verdict["policy"]["pins_offset"].as_i64().unwrap_or(-1);
        let standing = offsets.iter().rev().find(|(offset, _)| *offset <= by).map(|(_, approved)| *approved);
        let findings = verdict["findings"].as_array().unwrap();
        let labels: Vec<&str> = findings
            .iter()
            .filter(|f| f["rule"] == "unpinned_tool")
            .map(|f| f["evidence"]["label"].as_str().unwrap())
            .collect();
        let wanted: &[&str] = match standing {
            None => &["none", "none"],
            Some(true) => &["none"],
            Some(false) => &["rejected", "none"],
        };
        assert_eq!(labels, wanted, "by {by}: {verdict}");
        let at = |n: &str| verdict["source"][n].as_i64().unwrap();
        expected.insert((at("partition"), at("offset"), "fetch"));
        if standing.is_none() {
            expected.insert((at("partition"), at("offset"), "search"));
        }
    }
    let sightings: Vec<Value> =
        world.seen(&world.sightings).iter().map(|r| serde_json::from_str(&r.text()).unwrap()).collect();
    let places: BTreeSet<(i64, i64, &str)> = sightings
        .iter()
        .map(|s| {
            let at = |n: &str| s["seen"][n].as_i64().unwrap();
            (at("partition"), at("offset"), s["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(places.len(), sightings.len(), "a sighting stands twice");
    assert_eq!(places, expected);
    let audited = world.seen(&world.audit).len();
    assert_eq!(audited, offsets.len(), "an audit record for each decision");
    println!("{lists} lists, {} sightings, each once; {audited} decisions", sightings.len());
}

#[test]
fn without_the_pins_topic_nothing_is_judged() {
    let Some(broker) = broker() else { return };
    let world = World::new(&broker.bootstrap, 1);
    delete_topic(&broker.bootstrap, &world.pins);
    let (code, said) = world.refused();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&world.pins) && said.contains("sluicegate topics apply"), "{said}");
    // Two partitions have no order.
    create_topic(&broker.bootstrap, &world.pins, 2, &[]);
    let (code, said) = world.refused();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("2 partitions"), "{said}");
}

#[test]
fn what_is_decided_before_the_start_holds_from_the_first_record() {
    let Some(broker) = broker() else { return };
    let world = World::new(&broker.bootstrap, 1);
    let first = world.instance("a");
    world.send(&list(1, 0));
    world.judged_to(1, &first);
    first.drain();
    let (code, out, said) = pins(&world, &["approve", "--server", "docs", "--all", "--reason", "first day"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("2 definitions approved"), "{out}");
    let (code, out, _) = pins(&world, &["list"]);
    assert_eq!((code, out.as_str()), (Some(0), "nothing waits for a decision\n"));
    let (code, _, said) = pins(&world, &["approve", "--server", "docs", "--tool", "other", "--reason", "x"]);
    assert_eq!(code, Some(2), "{said}");
    let second = world.instance("a");
    world.send(&list(2, 0));
    let verdicts = world.judged_to(3, &second);
    let verdict = verdicts.iter().find(|v| v["source"]["offset"] == 3).unwrap();
    let blocks = verdict["findings"].as_array().unwrap().iter().filter(|f| f["effect"] == "block").count();
    assert_eq!((verdict["action"].as_str(), blocks), (Some("allow"), 0), "{verdict}");
    assert_eq!(verdict["policy"]["pins_offset"], 1);
    second.drain();
    // One is taken back, and another instance judges by that; `check` says the same of the same records.
    let (code, _, said) = pins(&world, &["reject", "--server", "docs", "--tool", "fetch", "--reason", "no"]);
    assert_eq!(code, Some(0), "{said}");
    let third = world.instance("a");
    world.send(&list(3, 0));
    let verdicts = world.judged_to(5, &third);
    let run = verdicts.iter().find(|v| v["source"]["offset"] == 5).unwrap().clone();
    third.drain();
    let check = checked(&world, &list(3, 0));
    for part in ["decision", "action", "findings", "subject", "checkpoint", "complete", "policy"] {
        assert_eq!(check[part], run[part], "{part}");
    }
    assert_eq!((run["action"].as_str(), run["policy"]["pins_offset"].as_i64()), (Some("block"), Some(2)), "{run}");
}

/// The verdict of `check` on a list, by the decisions that `pins export` gives.
fn checked(world: &World, events: &[Event]) -> Value {
    let (code, exported, said) = pins(world, &["export"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(exported.bytes().all(|b| b == b'\n' || (b' '..0x7f).contains(&b)), "{exported}");
    let (decisions, lines) = (world.folder.path().join("pins.jsonl"), world.folder.path().join("events.jsonl"));
    std::fs::write(&decisions, exported).unwrap();
    let structured = events.iter().map(|event| {
        let mut one = json!({"data": serde_json::from_slice::<Value>(&event.value).unwrap()});
        for (name, value) in event.headers.iter().filter_map(|(n, v)| Some((n.strip_prefix("ce_")?, v))) {
            one[name] = json!(value);
        }
        format!("{one}\n")
    });
    std::fs::write(&lines, structured.collect::<String>()).unwrap();
    let mut command = world.command("check");
    command.args(["--format", "json", "--fail-on", "never", "--pins"]).arg(&decisions).arg(&lines);
    let done = command.output().expect("check");
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let emitted = String::from_utf8(done.stdout).expect("text");
    let all = emitted.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["value"].clone());
    all.into_iter().find(|v| v["checkpoint"] == "tool_definitions").expect("a verdict")
}
