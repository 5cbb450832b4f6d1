//! The listener: probes answer what they are asked, and nothing can be changed.

use sluicegate::runtime::admin::{self, Admin, Facts, Health, Phase};
use sluicegate::runtime::telemetry::Metrics;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

struct Server {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

fn server() -> Server {
    let health = Arc::new(Health::new(1, Duration::from_secs(300)));
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let facts = Facts::new(vec![("group", "<b>".to_owned())]);
    let admin = Arc::new(Admin { health: Arc::clone(&health), metrics: Arc::clone(&metrics), facts });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("tokio");
    let (listener, address) = runtime.block_on(admin::bind("127.0.0.1:0")).expect("loopback");
    runtime.spawn(admin::serve(listener, admin, std::future::pending()));
    Server { health, metrics, address, _runtime: runtime }
}

impl Server {
    /// Status and body.
    fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("writes");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("reads");
        let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
    }
    fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path)
    }
    /// One worker that joined and reads one partition.
    fn live(&self) {
        self.health.polled(0, true);
        self.health.joined(0, true);
        self.health.phase("agent.events", 3, Some(Phase::Live));
    }
}

#[test]
fn a_fresh_process_lives_and_is_not_ready() {
    let s = server();
    assert_eq!(s.get("/livez").0, 200);
    assert_eq!(s.get("/startupz").0, 503);
    let (status, body) = s.get("/readyz");
    assert_eq!(status, 503);
    assert!(body.contains("not in the consumer group"), "{body}");
}

#[test]
fn restored_and_joined_is_ready() {
    let s = server();
    s.live();
    s.health.phase("agent.events", 4, Some(Phase::Restoring));
    assert_eq!((s.get("/startupz").0, s.get("/readyz").0), (503, 503));
    s.health.phase("agent.events", 4, Some(Phase::Live));
    assert_eq!((s.get("/startupz").0, s.get("/readyz").0), (200, 200));
    // A later restore makes it not ready, and not unstarted.
    s.health.phase("agent.events", 5, Some(Phase::Restoring));
    assert_eq!((s.get("/startupz").0, s.get("/readyz").0, s.get("/livez").0), (200, 503, 200));
}

#[test]
fn a_paused_partition_names_the_command_that_repairs_it() {
    let s = server();
    s.live();
    s.health.phase("agent.events", 7, Some(Phase::Parked));
    s.health.narrow("agent.events", "topic n.verdicts has 1 partition, input agent.events has 8".into());
    s.health.narrow("other.events", "topic n.other has 1 partition, input other.events has 8".into());
    let (status, body) = s.get("/readyz");
    assert_eq!(status, 503);
    assert!(body.contains("agent.events/7") && body.contains("sluicegate topics apply"), "{body}");
    assert!(body.contains("topic n.verdicts has 1 partition") && !body.contains("n.other"), "{body}");
    let (_, verbose) = s.get("/readyz?verbose");
    let verbose: serde_json::Value = serde_json::from_str(&verbose).expect("JSON");
    assert_eq!(verbose["partitions"][1]["phase"], "paused");
    assert_eq!(verbose["ok"], false);
}

#[test]
fn decisions_that_are_not_confirmed_make_it_not_ready() {
    let s = server();
    s.live();
    let pins = Arc::new(sluicegate::runtime::pins::Pins::default());
    s.health.follow(Arc::clone(&pins), Duration::from_millis(200));
    let (status, body) = s.get("/readyz");
    assert!(status == 503 && body.contains("last complete never") && body.contains("pins topic"), "{body}");
    pins.is_current();
    assert_eq!(s.get("/readyz").0, 200);
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!((s.get("/readyz").0, s.get("/livez").0), (503, 200));
}

#[test]
fn a_broker_that_is_away_fails_readiness_only() {
    let s = server();
    s.live();
    s.health.polled(0, false);
    assert_eq!((s.get("/readyz").0, s.get("/livez").0), (503, 200));
}

#[test]
fn connected_to_no_broker_is_not_ready() {
    let s = server();
    s.live();
    s.health.connected(0, 3);
    assert_eq!(s.get("/readyz").0, 200);
    s.health.connected(0, 0);
    let (status, body) = s.get("/readyz");
    assert!(
        status == 503 && body.contains("no broker reachable since 2") && body.contains("kafka.bootstrap_servers"),
        "{body}"
    );
    assert_eq!(s.get("/livez").0, 200);
    assert!(s.get("/metrics").1.contains("sluicegate_kafka_connected_brokers 0"));
}

#[test]
fn an_open_transaction_ages_until_it_ends() {
    let s = server();
    let age = || -> f64 {
        let text = s.get("/metrics").1;
        let line = text.lines().find_map(|l| l.strip_prefix("sluicegate_transaction_open_seconds "));
        line.and_then(|v| v.parse().ok()).expect("a value")
    };
    assert_eq!(age(), 0.0);
    s.health.transaction(0, Some(Duration::ZERO));
    std::thread::sleep(Duration::from_millis(30));
    assert!((0.02..10.0).contains(&age()), "it ages although the worker says nothing");
    s.health.transaction(0, None);
    assert_eq!(age(), 0.0);
}

#[test]
fn a_dead_client_fails_all() {
    let s = server();
    s.live();
    s.health.fatal("fenced by another instance");
    let (status, body) = s.get("/livez");
    assert_eq!(status, 503);
    assert!(body.contains("fenced by another instance"), "{body}");
    assert_eq!(s.get("/readyz").0, 503);
}

#[test]
fn draining_is_not_ready() {
    let s = server();
    s.live();
    s.health.drain();
    assert_eq!((s.get("/readyz").0, s.get("/livez").0), (503, 200));
}

#[test]
fn metrics_carry_health_and_lag() {
    let s = server();
    s.live();
    s.health.phase("agent.events", 4, Some(Phase::Restoring));
    s.metrics.records_consumed.inc(["agent.events"]);
    let (status, body) = s.get("/metrics");
    assert_eq!(status, 200);
    for line in [
        r#"sluicegate_health{check="restore"} 0"#,
        r#"sluicegate_health{check="poll"} 1"#,
        r#"sluicegate_partitions_paused{reason="restore"} 1"#,
        r#"sluicegate_records_consumed_total{topic="agent.events"} 1"#,
    ] {
        assert!(body.contains(line), "{line}\n{body}");
    }
}

#[test]
fn the_page_escapes_and_loads_nothing() {
    let s = server();
    s.live();
    let (status, body) = s.get("/");
    assert_eq!(status, 200);
    assert!(body.contains("&lt;b&gt;") && !body.contains("<b>"), "{body}");
    assert!(!body.contains("src=") && !body.contains("http://") && !body.contains("<script"), "{body}");
}

#[test]
fn only_get_and_only_these_pages() {
    let s = server();
    assert_eq!(s.get("/version").0, 200);
    let (status, body) = s.get("/nowhere");
    assert_eq!(status, 404);
    assert!(body.contains("\"status\":404"), "{body}");
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(s.ask(method, "/metrics").0, 405, "{method}");
    }
}

/// Reads until the other side ends the connection: `Some` where it did within 30 s.
fn ended(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => None,
        _ => Some(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// More connections than may be open, which never say what they want: probes are answered meanwhile, and all of them
/// are closed, those that said nothing, half a header, or one request and no more.
#[test]
fn half_open_connections_do_not_keep_probes_from_their_answer() {
    let s = server();
    let asked = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut held: Vec<TcpStream> = (0..300)
        .map(|n| {
            let mut stream = TcpStream::connect(s.address).expect("connects");
            // One that made room for another may be closed already.
            let _ = stream.write_all(["", "GET /livez HTTP/1.1\r\nhost:", asked][n % 3].as_bytes());
            if n % 50 == 0 {
                assert_eq!(s.get("/livez").0, 200, "with {n} held");
            }
            stream
        })
        .collect();
    assert_eq!((s.get("/livez").0, s.get("/metrics").0), (200, 200));
    for (n, stream) in held.iter_mut().enumerate() {
        let answer = ended(stream).unwrap_or_else(|| panic!("{n} is still open"));
        assert!(answer.is_empty() || n % 3 == 2 && answer.starts_with("HTTP/1.1 200"), "{n}: {answer}");
    }
    assert_eq!(s.get("/livez").0, 200);
}

/// A process without a free descriptor goes on, and answers.
#[test]
#[cfg(target_os = "linux")]
fn without_free_descriptors_the_listener_goes_on() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback").port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -n 90; exec \"$0\" demo --listen \"$1\"", env!("CARGO_BIN_EXE_sluicegate")]);
    command.arg(address.to_string()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut demo = command.spawn().expect("it starts");
    let up = (0..300).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        TcpStream::connect(address).is_ok()
    });
    let held: Vec<_> = (0..100).map_while(|_| TcpStream::connect(address).ok()).collect();
    let answered = TcpStream::connect(address).ok().and_then(|mut stream| {
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
        ended(&mut stream)
    });
    let running = demo.try_wait().expect("a child").is_none();
    let _ = demo.kill();
    let _ = demo.wait();
    assert!(up && running, "{up} {running}");
    assert_eq!(held.len(), 100);
    assert!(answered.as_deref().is_some_and(|a| a.starts_with("HTTP/1.1 200")), "{answered:?}");
}
