//! The real binary on Apache Kafka: large and unreadable records, signals, refusals, metrics; and the demo's broker
//! with a client that is not ours.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate::runtime::telemetry::{Kind, METRICS, Metric, PREFIX};

use crate::support::broker::Broker;
use crate::support::client::{Seen, create_topic, eventually, read_committed, widen};
use crate::support::world::{Event, World, get, noise, seconds, send, sum};
use crate::support::{broker, unique};

const MIB: usize = 1 << 20;

fn header<'a>(record: &'a Seen, name: &str) -> &'a str {
    let found = record.headers.iter().find(|(n, _)| n == name);
    found.map_or("", |(_, value)| std::str::from_utf8(value).unwrap())
}

fn of_offset(verdicts: &[Value], offset: i64) -> Vec<&Value> {
    verdicts.iter().filter(|v| v["source"]["offset"] == offset).collect()
}

/// Action, and the rules of its findings.
fn short(verdict: &Value) -> (String, BTreeSet<String>) {
    let rules = verdict["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap().to_owned());
    (verdict["action"].as_str().unwrap().to_owned(), rules.collect())
}

fn has(verdict: &Value, action: &str, rule: &str) -> bool {
    let (found, rules) = short(verdict);
    found == action && rules.contains(rule)
}

/// A request of 5 MiB: text, and three results of which one is too large to be let through and one too long.
fn large_request(conversation: &str) -> Event {
    let calls: Vec<Value> = (0..3)
        .map(|n| json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "read_file", "input": {}}))
        .collect();
    let contents = [noise(5 * MIB / 2), noise(200 << 10), "short".to_owned()];
    let results: Vec<Value> = contents
        .iter()
        .enumerate()
        .map(|(n, content)| json!({"type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": content}))
        .collect();
    let body = json!({
        "model": "claude", "max_tokens": 100,
        "tools": [{"name": "read_file", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": noise(5 * MIB / 2)},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
        ],
    });
    Event::new("model.request", conversation, conversation, &body)
}

/// A world whose input takes 8 MiB, and whose policy lets the tool `export` give 8 MiB.
fn large_world(bootstrap: &str) -> World {
    let mut world = World::bare(bootstrap, 1, &[("max.message.bytes", "8388608")]);
    let tools = r#"{"export": {"max_bytes": 8388608, "block_bytes": 8388608}}"#;
    world.set.push(("SLUICEGATE__POLICY__POLICIES__SG01__OPTIONS", format!(r#"{{"tools": {tools}}}"#)));
    world
}

/// Every shape of large record, then a small one. The verdicts, and how long the large ones took.
fn judge_large(world: &World) -> Vec<Value> {
    let events = [
        Event::result("large-export", "export", &noise(5 * MIB)),
        Event::result("large-log", "log", &noise(5 * MIB)),
        large_request("large-request"),
        Event::result("small", "log", "done"),
    ];
    assert!(events[..3].iter().all(|e| e.value.len() > 5 * MIB));
    world.send(&events);
    let began = Instant::now();
    let instance = world.instance("0");
    let verdicts = world.judged_to(3, &instance);
    println!("{} records of 5 MiB judged {:.1} s after the start", events.len() - 1, seconds(began));
    // It goes on with what comes later, and nothing comes twice.
    world.send(&[Event::result("later", "log", "done")]);
    let later = world.judged_to(4, &instance);
    let ids: BTreeSet<&str> = later.iter().map(|v| v["verdict_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), later.len(), "a verdict was repeated");
    assert_eq!(later.len(), verdicts.len() + 1);
    let committed = instance.metric("transactions_total{outcome=\"committed\"}");
    assert_eq!(committed as u64, instance.metric("transaction_records_count") as u64);
    instance.drain();
    verdicts
}

#[test]
fn records_of_5_mib_are_judged_and_their_copies_published() {
    let Some(broker) = broker() else { return };
    let world = large_world(&broker.bootstrap);
    world.apply();
    let verdicts = judge_large(&world);
    assert!(has(of_offset(&verdicts, 0)[0], "redact", "missing_provenance"), "{verdicts:#?}");
    assert!(has(of_offset(&verdicts, 1)[0], "block", "hard_limit"), "{verdicts:#?}");
    let request = of_offset(&verdicts, 2);
    let checkpoints: Vec<&str> = request.iter().map(|v| v["checkpoint"].as_str().unwrap()).collect();
    assert_eq!(checkpoints, ["tool_result", "tool_result", "tool_result", "model_request"]);
    assert!(has(request[0], "block", "hard_limit") && has(request[1], "redact", "oversize_result"), "{request:#?}");
    assert_eq!(short(request[3]).0, "redact");

    let copies = world.seen(&world.redacted);
    let copy =
        |conversation: &str| copies.iter().find(|c| c.key.as_deref() == Some(conversation.as_bytes())).expect("a copy");
    let sizes = |c: &Seen| c.value.as_ref().map_or(0, Vec::len);
    let export: Value = serde_json::from_str(&copy("large-export").text()).expect("JSON");
    assert_eq!(export["content"]["content"], noise(5 * MIB), "only what was added differs");
    assert!(sizes(copy("large-log")) < 1024, "a blocked result is replaced by its error form");
    let request: Value = serde_json::from_str(&copy("large-request").text()).expect("JSON");
    assert_eq!(request["messages"][0]["content"], noise(5 * MIB / 2), "what was not edited is untouched");
    assert_eq!(request["messages"][2]["content"][0]["is_error"], true);
    assert!(sizes(copy("large-request")) < 3 * MIB);
    assert_eq!(world.seen(&world.deadletters), []);
}

/// The same on topics as Kafka makes them: a copy that does not fit is withheld, and said.
#[test]
fn copies_beyond_the_topics_limit_are_withheld_and_kept_as_dead_letters() {
    let Some(broker) = broker() else { return };
    let world = large_world(&broker.bootstrap);
    for topic in [&world.verdicts, &world.redacted, &world.deadletters] {
        create_topic(&broker.bootstrap, topic, 1, &[]);
    }
    world.apply();
    let verdicts = judge_large(&world);
    assert!(has(of_offset(&verdicts, 0)[0], "block", "output_too_large"), "{verdicts:#?}");
    // The error form is small, so it is published here too.
    assert!(has(of_offset(&verdicts, 1)[0], "block", "hard_limit"), "{verdicts:#?}");
    assert!(has(of_offset(&verdicts, 2)[3], "block", "output_too_large"), "{verdicts:#?}");
    let published = world.seen(&world.redacted);
    let published: Vec<_> = published.iter().map(|r| String::from_utf8(r.key.clone().unwrap()).unwrap()).collect();
    assert_eq!(published, ["large-log", "small", "later"]);
    let letters = world.seen(&world.deadletters);
    let about: Vec<&str> = letters.iter().map(|l| header(l, "sluicegate_dlq_offset")).collect();
    assert_eq!(about, ["0", "2"]);
    for letter in &letters {
        assert_eq!(header(letter, "sluicegate_dlq_reason"), "output_too_large");
        assert_eq!(letter.value.as_ref().map(Vec::len), Some(64 << 10), "its first 64 KiB");
        assert!(header(letter, "sluicegate_dlq_value_bytes").parse::<usize>().unwrap() > 2 * MIB);
        assert_eq!(header(letter, "sluicegate_dlq_value_hmac").len(), 64);
        assert_eq!(header(letter, "ce_conversation"), String::from_utf8_lossy(letter.key.as_ref().unwrap()));
    }
}

#[test]
fn what_is_no_event_is_kept_byte_for_byte_and_what_is_too_large_is_blocked() {
    let Some(broker) = broker() else { return };
    let mut world = World::bare(&broker.bootstrap, 1, &[("max.message.bytes", "8388608")]);
    world.set.push(("SLUICEGATE__ENGINE__LIMITS__RECORD_BYTES", MIB.to_string()));
    world.apply();
    let mut random: Vec<u8> = noise(5_000).into_bytes();
    random.iter_mut().enumerate().for_each(|(n, byte)| *byte = byte.wrapping_mul(31).wrapping_add((n % 251) as u8));
    random[0] = 0xff;
    let bytes = |key: &str, value: Vec<u8>| Event {
        partition: 0,
        key: key.to_owned(),
        headers: vec![("x-trace".to_owned(), "kept".to_owned())],
        value,
    };
    let large = noise(2 * MIB);
    world.send(&[
        bytes("random", random.clone()),
        Event::result("oversize", "log", &large),
        bytes("oversize-random", large.into_bytes()),
        Event::result("small", "log", "done"),
    ]);
    let instance = world.instance("0");
    let verdicts = world.judged_to(3, &instance);
    let oversize = of_offset(&verdicts, 1);
    assert!(oversize.len() == 1 && has(oversize[0], "block", "record_too_large"), "{verdicts:#?}");
    assert_eq!(oversize[0]["checkpoint"], "tool_result");
    // Without an envelope too: what it is cannot be told, so it is a call that must not run.
    let unknown = of_offset(&verdicts, 2);
    assert!(unknown.len() == 1 && has(unknown[0], "block", "record_too_large"), "{verdicts:#?}");
    assert_eq!(verdicts.len(), 3, "{verdicts:#?}");

    let letters = world.seen(&world.deadletters);
    let [letter] = letters.as_slice() else { panic!("one dead letter, not {}", letters.len()) };
    assert_eq!(header(letter, "sluicegate_dlq_offset"), "0");
    assert_eq!(letter.value.as_deref(), Some(random.as_slice()));
    assert_eq!(letter.key.as_deref(), Some(&b"random"[..]));
    assert_eq!(header(letter, "x-trace"), "kept");
    for (name, expected) in [
        ("stage", "decode"),
        ("topic", &world.input),
        ("partition", "0"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("attempt", "1"),
    ] {
        assert_eq!(header(letter, &format!("sluicegate_dlq_{name}")), expected, "{name}");
    }
    assert!(!header(letter, "sluicegate_dlq_reason").is_empty());
    instance.drain();
}

#[test]
fn sigterm_drains_and_a_second_one_forces() {
    if broker().is_none() {
        return;
    }
    // One of its own, because it is stopped.
    let broker = Broker::start().unwrap();
    let world = World::new(&broker.bootstrap, 1);
    world.send(&[Event::result("first", "log", "done")]);
    let first = world.instance("0");
    world.judged_to(0, &first);
    first.drain();
    let mut second = world.instance("0");
    const RECORDS: i64 = 20_000;
    let events: Vec<Event> = (0..RECORDS).map(|n| Event::result(&format!("c{n}"), "log", "done")).collect();
    world.send(&events);
    let began = || world.seen(&world.verdicts).len() > 1;
    assert!(eventually(Duration::from_secs(30), began), "{}", second.log());
    // What it drains cannot be committed now.
    broker.signal("STOP");
    second.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    second.signal("TERM");
    let code = second.ended(Duration::from_secs(30));
    println!("the second SIGTERM ended it after {:.1} s", seconds(began));
    broker.signal("CONT");
    assert_eq!(code, Some(3), "{}", second.log());
    // What was open is aborted, and judged once by the next.
    let third = world.instance("0");
    let verdicts = world.judged_to(RECORDS, &third);
    let ids: BTreeSet<&str> = verdicts.iter().map(|v| v["verdict_id"].as_str().unwrap()).collect();
    assert_eq!((verdicts.len(), ids.len()), (20_001, 20_001));
    third.drain();
}

#[test]
fn missing_topics_and_brokers_end_with_4_and_say_what_to_do() {
    let Some(broker) = broker() else { return };
    let mut world = World::bare(&broker.bootstrap, 1, &[]);
    world.set.push(("SLUICEGATE__KAFKA__STARTUP_TIMEOUT", "2s".to_owned()));
    let (code, said) = world.refused();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&world.verdicts) && said.contains("sluicegate topics apply"), "{said}");

    let verify = |world: &World| {
        let output = world.command("topics").arg("verify").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = verify(&world);
    assert!(code == Some(4) && said.contains(&world.verdicts) && said.contains("sluicegate topics apply"), "{said}");

    world.apply();
    assert_eq!(verify(&world).0, Some(0));
    world.verdicts = unique("nowhere");
    world.write();
    let (code, said) = world.refused();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("topic {} does not exist", world.verdicts)), "{said}");
    assert!(said.contains("sluicegate topics apply"), "{said}");

    world.input = unique("nothing");
    world.write();
    let (code, said) = world.refused();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("input topic {} does not exist", world.input)), "{said}");
    assert!(said.contains("sluicegate topics apply"), "{said}");
    let plan = world.command("topics").arg("plan").output().unwrap();
    assert_eq!(plan.status.code(), Some(4));
    let (code, said) = verify(&world);
    assert!(code == Some(4) && said.contains(&format!("input topic {} does not exist", world.input)), "{said}");

    world.bootstrap = "127.0.0.1:1".to_owned();
    world.write();
    let (code, said) = world.refused();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("no broker of 127.0.0.1:1 answered") && said.contains("kafka.bootstrap_servers"), "{said}");
}

#[test]
fn partitions_beyond_the_outputs_wait_until_topics_apply() {
    let Some(broker) = broker() else { return };
    let mut world = World::new(&broker.bootstrap, 1);
    let refresh = "SLUICEGATE__KAFKA__PROPERTIES__TOPIC_METADATA_REFRESH_INTERVAL_MS";
    world.set.push((refresh, "2000".to_owned()));
    widen(&broker.bootstrap, &world.input, 3);
    let events: Vec<Event> = (0..30).map(|n| Event::result(&format!("c{n}"), "log", "done").at(n % 3)).collect();
    assert!(eventually(Duration::from_secs(20), || read_committed_width(&world) == 3));
    world.send(&events);
    let instance = world.instance("0");
    assert!(eventually(Duration::from_secs(60), || world.judged().len() >= 10), "{}", instance.log());
    let (status, said) = instance.get("/readyz");
    assert_eq!(status, 503, "{said}");
    assert!(said.contains(&format!("{}/1, {}/2", world.input, world.input)), "{said}");
    assert!(said.contains("sluicegate topics apply"), "{said}");
    assert_eq!(instance.get("/livez").0, 200);
    assert_eq!(sum(&instance.get("/metrics").1, "partitions_paused") as u64, 2);
    // The partition that has its outputs goes on.
    world.send(&[Event::result("more", "log", "done")]);
    assert!(eventually(Duration::from_secs(20), || world.judged().len() == 11));

    world.apply();
    assert!(eventually(Duration::from_secs(60), || world.judged().len() == 31), "{}", instance.log());
    assert!(eventually(Duration::from_secs(10), || instance.get("/readyz").0 == 200), "{}", instance.get("/readyz").1);
    let partitions: Vec<(i32, Value)> = world
        .seen(&world.verdicts)
        .iter()
        .map(|r| (r.partition, serde_json::from_str::<Value>(&r.text()).unwrap()["source"]["partition"].clone()))
        .collect();
    assert!(partitions.iter().all(|(of, source)| json!(of) == *source), "a verdict is in its record's partition");
    instance.drain();
}

fn read_committed_width(world: &World) -> usize {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    let consumer: BaseConsumer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", &world.bootstrap).create().unwrap();
    let metadata = consumer.fetch_metadata(Some(&world.input), Duration::from_secs(5)).unwrap();
    metadata.topics()[0].partitions().len()
}

/// Metrics that say nothing in a run without faults, restarts, a canary, certificates, or another configuration.
const SILENT: [&str; 11] = [
    "restored_records_total",
    "tls_certificate_expiry_timestamp_seconds",
    "config_reloads_total",
    "log_events_suppressed_total",
    "canary_verdicts_total",
    "undecodable_data_total",
    "opaque_parts_total",
    "state_evictions_total",
    "transaction_aborts_total",
    "producer_rebuilds_total",
    "label_overflow_total",
];

#[test]
fn metrics_of_a_running_instance_add_up() {
    let Some(broker) = broker() else { return };
    let world = World::new(&broker.bootstrap, 1);
    let instance = world.instance("0");
    let mut events: Vec<Event> = (0..20).map(|n| Event::result(&format!("c{n}"), "log", "done")).collect();
    events.push(Event::result("long", "log", &noise(100 << 10)));
    events.push(cut_call("cut"));
    // A call that is blocked, and that its host runs all the same.
    events.push(ambiguous_call("twice"));
    events.push(Event::new("tool.started", "twice", "started", &json!({"call_id": "toolu_twice", "tool": "log"})));
    events.extend(rug_pull("docs"));
    events.push(Event { partition: 0, key: "k".into(), headers: Vec::new(), value: vec![0xff, 0xfe] });
    events.push(Event::new("model.closed", "nothing-open", "x", &Value::Null));
    events.push(Event::result("last", "log", "done"));
    world.send(&events);
    let verdicts = world.judged_to(i64::try_from(events.len()).unwrap() - 1, &instance);
    // Statistics of the client come every few seconds; a series that is not there yet sums to nothing, too.
    let told = || {
        let (_, text) = instance.get("/metrics");
        text.contains(&format!("\n{PREFIX}consumer_lag_records{{"))
            && sum(&text, "consumer_lag_records") == 0.0
            && sum(&text, "kafka_connected_brokers") == 1.0
            && text.contains(&format!("\n{PREFIX}kafka_broker_rtt_seconds{{"))
    };
    assert!(eventually(Duration::from_secs(20), told), "{}", instance.get("/metrics").1);
    let (status, text) = instance.get("/metrics");
    assert_eq!(status, 200);
    let count = |name: &str| sum(&text, name) as usize;
    assert_eq!(count("records_consumed_total"), events.len(), "{text}");
    assert_eq!(count("record_outcomes_total"), events.len(), "{text}");
    assert_eq!(count("verdicts_total"), verdicts.len(), "{text}");
    let blocked = verdicts.iter().filter(|v| v["action"] == "block").count();
    assert!(blocked > 0 && count("blocks_total") == blocked, "{blocked} blocked\n{text}");
    assert_eq!(count("oversize_results_total"), 1, "{text}");
    assert!(count("oversize_bytes_removed_total") > 30_000, "{text}");
    assert_eq!(count("dlq_records_total"), world.seen(&world.deadletters).len(), "{text}");
    let produced =
        [&world.verdicts, &world.redacted, &world.deadletters, &world.sightings].map(|t| world.seen(t).len());
    assert_eq!(count("records_produced_total"), produced.iter().sum::<usize>(), "{text}");
    for name in ["consumer_lag_seconds", "restore_remaining_records", "transaction_open_seconds", "partitions_paused"] {
        assert!(text.contains(&format!("\n{PREFIX}{name}")), "{name} is not told\n{text}");
        assert_eq!(count(name), 0, "{name}\n{text}");
    }
    // A counter may be there at zero, which is no source.
    let told = |m: &Metric| match m.kind {
        Kind::Counter => sum(&text, m.name) > 0.0,
        _ => text.lines().any(|l| l.starts_with(&format!("{PREFIX}{}", m.name))),
    };
    for metric in METRICS.iter().filter(|m| !SILENT.contains(&m.name)) {
        assert!(told(metric), "{} has no source\n{text}", metric.name);
    }
    let (status, said) = instance.get("/readyz");
    assert_eq!(status, 200, "{said}");
    instance.drain();
}

/// A response that ended inside its call.
fn cut_call(conversation: &str) -> Event {
    let call = json!({"type": "tool_use", "id": "toolu_cut", "name": "log", "input": {}});
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "content": [call], "stop_reason": "max_tokens",
    });
    Event::new("model.response", conversation, conversation, &body)
}

/// A server that lists a tool, and then describes it otherwise.
fn rug_pull(conversation: &str) -> Vec<Event> {
    let message = |side: &str, data: Value| {
        let mut event = Event::new("mcp.message", conversation, &format!("{side}-{data}"), &data);
        event.headers.retain(|(name, _)| name != "ce_provider");
        event.headers.push(("ce_direction".into(), side.into()));
        event
    };
    let list = |id: u64, says: &str| {
        let tools = [json!({"name": "find", "description": says, "inputSchema": {"type": "object"}})];
        let asks = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}});
        [message("client", asks), message("server", answer)]
    };
    [list(1, "Finds."), list(2, "Sends.")].into_iter().flatten().collect()
}

/// A final call whose arguments have a member twice.
fn ambiguous_call(conversation: &str) -> Event {
    let call = json!({"type": "tool_use", "id": "toolu_twice", "name": "log", "input": {"a": 1, "b": 2}});
    let body = json!({
        "id": "msg_2", "type": "message", "role": "assistant", "content": [call], "stop_reason": "tool_use",
    });
    let event = Event::new("model.response", conversation, conversation, &body);
    let value = String::from_utf8(event.value).unwrap().replace("\"b\"", "\"a\"").into_bytes();
    Event { value, ..event }
}

/// A demo on its own port; ended when dropped.
struct Demo {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Demo {
    fn start() -> Demo {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(["demo", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (into, from) = (Arc::clone(&said), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                into.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Demo { child, said }
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// The value behind a name of its introduction.
    fn names(&self, name: &str) -> String {
        let said = self.said();
        let line = said.lines().find_map(|l| l.trim_start().strip_prefix(name)).unwrap_or_default();
        line.trim().to_owned()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- demo\n{}", self.said());
        }
    }
}

#[test]
fn a_foreign_producer_gets_a_verdict_from_the_demo() {
    let mut demo = Demo::start();
    assert!(eventually(Duration::from_secs(60), || demo.said().contains("produce events of your own")));
    let bootstrap = demo.names("brokers");
    let mut event = Event::result("foreign-1", "mine", &noise(70 << 10));
    event.headers.push(("ce_fleet".to_owned(), "visitors".to_owned()));
    send(&bootstrap, "agent.events", &[event]);
    let mine = || {
        let all = read_committed(&bootstrap, "sluicegate.verdicts");
        all.iter().map(|r| serde_json::from_str::<Value>(&r.text()).unwrap()).find(|v| v["conversation"] == "foreign-1")
    };
    assert!(eventually(Duration::from_secs(20), || mine().is_some()));
    let verdict = mine().unwrap();
    assert!(has(&verdict, "redact", "oversize_result"), "{verdict:#}");
    assert_eq!(verdict["subject"]["tool"], "mine");
    let address = demo.names("metrics").trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
    let (_, metrics) = get(&address, "/metrics");
    assert!(metrics.contains(r#"verdicts_total{action="redact",decision="redact",fleet="visitors""#), "{metrics}");
    assert!(eventually(Duration::from_secs(5), || demo.said().contains("foreign-1")), "it draws the verdict too");
    let sent = Command::new("kill").arg("-INT").arg(demo.child.id().to_string()).status().unwrap();
    assert!(sent.success());
    assert!(eventually(Duration::from_secs(20), || demo.child.try_wait().unwrap().is_some()));
    assert_eq!(demo.child.try_wait().unwrap().and_then(|s| s.code()), Some(0));
}
