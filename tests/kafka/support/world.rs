//! The real binary in a world of its own: topics, a configuration file, a key, and processes that are ended with it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;

use super::client::{Seen, create_topic, eventually, read_committed};
use super::unique;

/// Topics, a configuration file and a key.
pub struct World {
    pub folder: tempfile::TempDir,
    pub bootstrap: String,
    pub group: String,
    pub input: String,
    pub verdicts: String,
    pub redacted: String,
    pub deadletters: String,
    pub sightings: String,
    pub pins: String,
    pub audit: String,
    /// What every command gets in its environment.
    pub set: Vec<(&'static str, String)>,
}

/// A record of the input topic.
pub struct Event {
    pub partition: i32,
    pub key: String,
    pub headers: Vec<(String, String)>,
    pub value: Vec<u8>,
}

impl Event {
    /// In binary mode, of one conversation that is its key.
    pub fn new(kind: &str, conversation: &str, id: &str, value: &Value) -> Event {
        let kind = format!("io.sluicegate.{kind}.v1");
        let headers = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", id),
            ("ce_source", "/test"),
            ("ce_type", &kind),
            ("ce_provider", "anthropic.messages"),
            ("ce_conversation", conversation),
        ];
        let headers = headers.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        Event { partition: 0, key: conversation.to_owned(), headers, value: value.to_string().into_bytes() }
    }

    /// A tool's raw output.
    pub fn result(conversation: &str, tool: &str, content: &str) -> Event {
        let data = serde_json::json!({"call_id": "toolu_1", "tool": tool, "outcome": "ok", "content": content});
        Event::new("tool.result", conversation, conversation, &data)
    }

    pub fn at(self, partition: i32) -> Event {
        Event { partition, ..self }
    }
}

impl World {
    /// Its topics made by `topics apply`.
    pub fn new(bootstrap: &str, partitions: i32) -> World {
        let world = World::bare(bootstrap, partitions, &[]);
        world.apply();
        world
    }

    /// The input topic alone.
    pub fn bare(bootstrap: &str, partitions: i32, input: &[(&str, &str)]) -> World {
        let world = World {
            folder: tempfile::tempdir().expect("a folder"),
            bootstrap: bootstrap.to_owned(),
            group: unique("group"),
            input: unique("events"),
            verdicts: unique("verdicts"),
            redacted: unique("redacted"),
            deadletters: unique("deadletters"),
            sightings: unique("sightings"),
            pins: unique("pins"),
            audit: unique("audit"),
            set: Vec::new(),
        };
        create_topic(bootstrap, &world.input, partitions, input);
        world.write();
        world
    }

    /// Writes the configuration again, for a name that a test changed.
    pub fn write(&self) {
        let key = self.folder.path().join("key");
        std::fs::write(&key, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff").expect("a key");
        let config = format!(
            "kafka:\n  bootstrap_servers: {}\n  group: {}\n  inputs: [{}]\n  session_timeout: 6s\n  \
             topics: {{verdicts: {}, redacted: {}, deadletters: {}, pin_sightings: {}, pins: {}, pins_audit: {}}}\n\
             engine:\n  fingerprint_key_file: {}\n\
             worker: {{transaction_timeout: 6s, drain_timeout: 5s}}\nhttp:\n  listen: 127.0.0.1:0\n",
            self.bootstrap,
            self.group,
            self.input,
            self.verdicts,
            self.redacted,
            self.deadletters,
            self.sightings,
            self.pins,
            self.audit,
            key.display(),
        );
        std::fs::write(self.config(), config).expect("a configuration");
    }

    pub fn apply(&self) {
        let made = self.command("topics").arg("apply").output().expect("topics apply");
        assert!(made.status.success(), "topics apply: {}", String::from_utf8_lossy(&made.stderr));
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("sluicegate.yaml")
    }

    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        command.arg("--config").arg(self.config()).arg(name).stdin(Stdio::null());
        command.envs(self.set.iter().map(|(name, value)| (*name, value)));
        command
    }

    pub fn instance(&self, name: &str) -> Instance {
        let log = self.folder.path().join(format!("{name}-{}.log", unique("log")));
        let file = std::fs::File::create(&log).expect("a log");
        let child = self
            .command("run")
            .env("SLUICEGATE__KAFKA__INSTANCE", name)
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("an instance");
        Instance { child, log }
    }

    /// Runs until it ends by itself, which it must: exit code and what it said.
    pub fn refused(&self) -> (Option<i32>, String) {
        let mut instance = self.instance("0");
        let code = instance.ended(Duration::from_secs(40));
        (code, instance.log())
    }

    /// Produces in order, and waits for the acknowledgements.
    pub fn send<'a>(&self, events: impl IntoIterator<Item = &'a Event>) {
        send(&self.bootstrap, &self.input, events);
    }

    pub fn seen(&self, topic: &str) -> Vec<Seen> {
        read_committed(&self.bootstrap, topic)
    }

    /// The verdicts that are committed now.
    pub fn judged(&self) -> Vec<Value> {
        let parsed = |r: &Seen| serde_json::from_str(&r.text()).expect("a verdict is JSON");
        self.seen(&self.verdicts).iter().map(parsed).collect()
    }

    /// The verdicts, once there is one for this offset of partition 0.
    pub fn judged_to(&self, offset: i64, instance: &Instance) -> Vec<Value> {
        let reached = |v: &Value| v["source"]["offset"] == offset && v["source"]["partition"] == 0;
        let arrived = eventually(Duration::from_secs(180), || self.judged().iter().any(reached));
        assert!(arrived, "offset {offset} was not judged\n{}", instance.log());
        self.judged()
    }
}

pub fn send<'a>(bootstrap: &str, topic: &str, events: impl IntoIterator<Item = &'a Event>) {
    send_by(&producer(bootstrap), topic, events);
}

pub fn producer(bootstrap: &str) -> BaseProducer {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("message.max.bytes", "9000000")
        .create()
        .expect("a producer")
}

pub fn send_by<'a>(producer: &BaseProducer, topic: &str, events: impl IntoIterator<Item = &'a Event>) {
    for event in events {
        let mut headers = OwnedHeaders::new();
        for (name, value) in &event.headers {
            headers = headers.insert(Header { key: name, value: Some(value.as_str()) });
        }
        let record = BaseRecord::to(topic).partition(event.partition).key(&event.key).payload(&event.value);
        let sent = producer.send(record.headers(headers));
        sent.map_err(|(error, _)| error).expect("queued");
    }
    producer.flush(Duration::from_secs(60)).expect("everything is acknowledged");
}

/// A process of the service; killed and reaped when it is dropped.
pub struct Instance {
    child: Child,
    log: PathBuf,
}

impl Instance {
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill").success());
    }

    /// The exit code, if it ends within `limit`.
    pub fn ended(&mut self, limit: Duration) -> Option<i32> {
        eventually(limit, || self.child.try_wait().expect("a child").is_some());
        self.child.try_wait().expect("a child").and_then(|status| status.code())
    }

    pub fn drain(mut self) {
        self.signal("TERM");
        let code = self.ended(Duration::from_secs(40));
        assert_eq!(code, Some(0), "SIGTERM\n{}", self.log());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The listener's address, as the log names it.
    fn address(&self) -> String {
        let mut address = None;
        eventually(Duration::from_secs(20), || {
            let log = self.log();
            address = log
                .lines()
                .find(|l| l.contains("http.listening"))
                .and_then(|l| l.rsplit_once("address="))
                .map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default().to_owned());
            address.is_some()
        });
        address.unwrap_or_else(|| panic!("no listener\n{}", self.log()))
    }

    /// Status and body.
    pub fn get(&self, path: &str) -> (u16, String) {
        get(&self.address(), path)
    }

    /// The sum over all series of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        sum(&self.get("/metrics").1, name)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.log());
        }
    }
}

/// Status and body of a GET.
pub fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("reads");
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
}

/// The sum over all series of a metric in an exposition.
pub fn sum(exposition: &str, name: &str) -> f64 {
    let name = format!("sluicegate_{name}");
    let of = |line: &str| {
        let rest = line.strip_prefix(&name)?;
        let value = if rest.starts_with('{') { rest.rsplit_once("} ")?.1 } else { rest.strip_prefix(' ')? };
        value.parse::<f64>().ok()
    };
    exposition.lines().filter_map(of).sum()
}

/// Noise that no compression makes smaller, of printable characters that JSON need not escape.
pub fn noise(bytes: usize) -> String {
    let mut x = 88_172_645_463_325_252_u64;
    let next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        char::from(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."[(x % 64) as usize])
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// Seconds since `began`, for lines that tests print.
pub fn seconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}
