//! Two running instances under load and faults, a real Prometheus that scrapes them, and every expression that a
//! dashboard or an alert has.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::x509::X509;
use sluicegate::runtime::telemetry::{Kind, METRICS, Metric, PREFIX};

use super::grafana::{Dashboard, Panel, policy_change};
use super::load::{Sample, many_fleets};
use super::prometheus::{Answer, Prometheus, promtool, tools};
use super::svg::Picture;
use super::{alerts, dashboards};
use crate::files::root;
use crate::support::client::eventually;
use crate::support::free_port;
use crate::support::world::{Instance, World, get, producer, send_by};

const PARTITIONS: i32 = 4;

/// What a panel was answered: for each of its queries, its series.
pub type Answers = Vec<Vec<Answer>>;

#[test]
fn promtool_likes_the_rules_and_every_alert_fires_and_is_silent() {
    let Some(tools) = tools() else { return };
    let said = promtool(tools, &["check", "rules", "alerts.yaml"], "").unwrap_or_else(|e| panic!("{e}"));
    println!("{}", said.trim());
    let said = promtool(tools, &["test", "rules", "alerts_test.yaml"], "").unwrap_or_else(|e| panic!("{e}"));
    let all: usize = alerts::groups().iter().map(|(_, alerts)| alerts.len()).sum();
    println!("figures: {all} alerts fire and are silent: {}", said.trim().lines().last().unwrap_or_default().trim());
}

/// As Grafana fills in the variables: all of everything, scraped and drawn each second.
fn filled(expr: &str, range: f64) -> String {
    let expr = expr.replace("$__rate_interval", "4s").replace("$__range", &format!("{range:.0}s"));
    let expr = expr.replace("\"$job\"", "\".*\"").replace("\"$instance\"", "\".*\"").replace("\"$fleet\"", "\".*\"");
    assert!(!expr.contains('$'), "{expr}");
    expr
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

struct Run {
    prometheus: Prometheus,
    from: f64,
    to: f64,
    instances: Vec<(Instance, String)>,
    /// Its folder holds the logs.
    _world: World,
    /// How pictures call what this run had to give a name of its own.
    names: Vec<(String, String)>,
}

/// Starts instance `n` at an address of its own.
fn start(world: &mut World, n: usize, port: u16) -> (Instance, String) {
    let address = format!("127.0.0.1:{port}");
    world.set.retain(|(name, _)| *name != "SLUICEGATE__HTTP__LISTEN");
    world.set.push(("SLUICEGATE__HTTP__LISTEN", address.clone()));
    (world.instance(&n.to_string()), address)
}

fn wait(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

/// Load, a rollout, an outage, and more fleets than a label takes.
fn scenario() -> Option<Run> {
    let tools = tools()?;
    // No other test here uses it, so it may be stopped.
    let broker = crate::support::broker()?;
    let mut world = World::bare(&broker.bootstrap, PARTITIONS, &[]);
    // Something that is asked for and not done, and conversations that end.
    world.set.push(("SLUICEGATE__POLICY__POLICIES__SG04__MODE", "monitor".to_owned()));
    world.set.push(("SLUICEGATE__ENGINE__LIMITS__CONVERSATION_TTL_MS", "8000".to_owned()));
    // The brokers speak plain text, so nobody asks for it; that it ends is told all the same.
    let certificate = world.folder.path().join("client.pem");
    std::fs::write(&certificate, for_days(90)).unwrap();
    let properties = serde_json::json!({"ssl.certificate.location": certificate});
    world.set.push(("SLUICEGATE__KAFKA__PROPERTIES", properties.to_string()));
    world.set.push(("SLUICEGATE__CANARY__ENABLED", "true".to_owned()));
    world.set.push(("SLUICEGATE__CANARY__INTERVAL", "1s".to_owned()));
    world.apply();
    let ports = [free_port(), free_port()];
    let mut instances = vec![start(&mut world, 0, ports[0]), start(&mut world, 1, ports[1])];
    let targets: Vec<String> = ports.iter().map(|p| format!("127.0.0.1:{p}")).collect();
    let prometheus = Prometheus::start(tools, &targets);
    let stop = Arc::new(AtomicBool::new(false));
    let feeder = feed(&broker.bootstrap, &world.input, &stop);
    let flows = |prometheus: &Prometheus| {
        let judged = prometheus.at(&format!("sum(rate({PREFIX}verdicts_total[5s]))"), now()).unwrap_or_default();
        judged.first().is_some_and(|a| a.points[0].1 > 0.0)
    };
    assert!(eventually(Duration::from_secs(60), || flows(&prometheus)), "{}", instances[0].0.log());
    let from = now();
    wait(15);
    // A rollout of one.
    instances.remove(1).0.drain();
    wait(3);
    instances.push(start(&mut world, 1, ports[1]));
    wait(10);
    // An outage longer than the transaction's timeout: commits are not confirmed, producers are replaced.
    broker.signal("STOP");
    wait(9);
    broker.signal("CONT");
    wait(12);
    // A second process under a name that is taken: they fence each other, and whoever is fenced too often ends.
    let (mut twin, _) = start(&mut world, 1, free_port());
    eventually(Duration::from_secs(30), || seen(&prometheus, "producer_rebuilds_total"));
    twin.signal("TERM");
    twin.ended(Duration::from_secs(20));
    if instances[1].0.ended(Duration::ZERO).is_some() {
        instances[1] = start(&mut world, 1, ports[1]);
    }
    wait(4);
    for (configuration, seconds) in rewritten(&world) {
        replace(&world, &configuration);
        wait(seconds);
    }
    ask_often(&instances[0].0);
    let left_out = || seen(&prometheus, "log_events_suppressed_total");
    assert!(eventually(Duration::from_secs(20), left_out), "{}", instances[0].0.log());
    stop.store(true, Ordering::Release);
    feeder.join().unwrap();
    world.send(&many_fleets(PARTITIONS));
    let overflowed = || seen(&prometheus, "label_overflow_total");
    assert!(eventually(Duration::from_secs(60), overflowed), "{}", instances[0].0.log());
    wait(3);
    let names = [
        (&targets[0], "sluicegate-0"),
        (&targets[1], "sluicegate-1"),
        (&world.input, "agent.events"),
        (&world.verdicts, "sluicegate.verdicts"),
        (&world.redacted, "sluicegate.redacted"),
        (&world.deadletters, "sluicegate.deadletters"),
        (&world.sightings, "sluicegate.pin-sightings"),
    ];
    let names = names.map(|(is, name)| (is.clone(), name.to_owned())).to_vec();
    Some(Run { prometheus, from, to: now(), instances, names, _world: world })
}

/// Whoever asks for the configuration to be read in a loop gets an answer in the log each time, up to a bound.
fn ask_often(instance: &Instance) {
    for _ in 0..120 {
        instance.signal("HUP");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A certificate that ends so many days from now.
fn for_days(days: u32) -> Vec<u8> {
    let key = PKey::generate_ed25519().unwrap();
    let mut made = X509::builder().unwrap();
    made.set_pubkey(&key).unwrap();
    made.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    made.set_not_after(&Asn1Time::days_from_now(days).unwrap()).unwrap();
    made.sign(&key, MessageDigest::null()).unwrap();
    made.build().to_pem().unwrap()
}

/// Another bundle, a mistake, a broken glass, and how it was; how long each holds.
fn rewritten(world: &World) -> [(String, u64); 4] {
    let base = std::fs::read_to_string(world.config()).unwrap();
    let until = SystemTime::now() + Duration::from_secs(3600);
    let seconds = until.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let until = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    let glass = format!("break_glass: {{until: \"{until}\", by: ada, reason: a test}}\n");
    [
        (format!("{base}policy: {{bundle: spring}}\n"), 4),
        (format!("{base}policy: {{bundle: [\n"), 4),
        (format!("{base}{glass}"), 6),
        (base, 4),
    ]
}

/// As editors do it: whole, or not at all.
fn replace(world: &World, configuration: &str) {
    let next = world.folder.path().join("next");
    std::fs::write(&next, configuration).unwrap();
    std::fs::rename(next, world.config()).unwrap();
}

fn feed(bootstrap: &str, topic: &str, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (bootstrap, topic, stop) = (bootstrap.to_owned(), topic.to_owned(), Arc::clone(stop));
    std::thread::spawn(move || {
        let (sample, producer) = (Sample::read(), producer(&bootstrap));
        for n in 0.. {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let events = sample.round(n, PARTITIONS);
            // In pieces, so that the load is even.
            for part in events.chunks(events.len().div_ceil(8)) {
                send_by(&producer, &topic, part);
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    })
}

/// Whether a counter has counted.
fn seen(prometheus: &Prometheus, name: &str) -> bool {
    let found = prometheus.at(&format!("sum({PREFIX}{name}) > 0"), now());
    found.is_ok_and(|answers| !answers.is_empty())
}

impl Run {
    fn answer(&self, panel: &Panel) -> Result<Answers, String> {
        let range = self.to - self.from;
        let one = |expr: &str| {
            // Zero for nothing at all would prove nothing.
            let expr = filled(expr, range);
            let expr = expr.trim_end_matches(" or vector(0)");
            if panel.instant() {
                self.prometheus.at(expr, self.to)
            } else {
                self.prometheus.through(expr, self.from, self.to)
            }
        };
        panel.targets.iter().map(|(expr, _)| one(&expr.text)).collect()
    }

    /// The answers to each panel of a dashboard; those without data are named.
    fn dashboard(&self, dashboard: &Dashboard, empty: &mut Vec<String>) -> Vec<Answers> {
        let mut all = Vec::new();
        for panel in dashboard.panels() {
            let answers = self.answer(panel).unwrap_or_else(|e| panic!("{}: {e}", panel.title));
            for ((expr, _), answer) in panel.targets.iter().zip(&answers) {
                if !answer.iter().any(|a| a.points.iter().any(|(_, v)| v.is_finite())) {
                    empty.push(format!("{} / {}: {}", dashboard.file, panel.title, expr.text));
                }
            }
            all.push(answers);
        }
        all
    }

    /// Every metric of the table says something.
    fn metrics(&self) {
        // What counts must have counted; a gauge may well be zero.
        let there = |m: &&&Metric| {
            let (part, least) = match m.kind {
                Kind::Histogram => ("_count", 1.0),
                Kind::Counter => ("", 1.0),
                Kind::Gauge => ("", f64::NEG_INFINITY),
            };
            let sum = format!("sum({PREFIX}{}{part})", m.name);
            let answers = self.prometheus.through(&sum, self.from, self.to).unwrap();
            answers.iter().flat_map(|a| &a.points).any(|p| p.1 >= least)
        };
        let seen = METRICS.iter().filter(there).count();
        println!("figures: metrics registered and seen: {seen}/{}", METRICS.len());
        let missing: Vec<&str> = METRICS.iter().filter(|m| !there(m)).map(|m| m.name).collect();
        assert!(missing.is_empty(), "unseen: {missing:?}");
    }

    fn alerts(&self) {
        let rules = self.prometheus.api("rules", &[]).unwrap();
        let groups = rules["groups"].as_array().unwrap();
        for rule in groups.iter().flat_map(|g| g["rules"].as_array().unwrap()) {
            assert_eq!(rule["health"], "ok", "{rule:#}");
        }
        let all: Vec<_> = alerts::groups().into_iter().flat_map(|(_, alerts)| alerts).collect();
        for alert in &all {
            let answer = self.prometheus.at(&alert.expr.text, self.to);
            assert!(answer.is_ok(), "{}: {}", alert.name, answer.err().unwrap_or_default());
        }
        println!("figures: alert expressions evaluated: {}/{}", all.len(), all.len());
        let fired = self.prometheus.through("ALERTS", self.from, self.to).unwrap();
        let name = |a: &Answer| (a.labels["alertstate"] == "firing").then(|| a.labels["alertname"].clone());
        let fired: BTreeSet<String> = fired.iter().filter_map(name).collect();
        println!("figures: fired: {}", fired.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
        let expected =
            ["Bypassed", "ToolDescriptionsChanged", "DataNotJson", "LabelOverflow", "ReloadRejected", "BreakGlass"];
        for name in expected {
            assert!(fired.contains(&alerts::full(name)), "{name} did not fire: {fired:?}");
        }
    }
}

#[test]
fn panels_and_alerts_answer_on_a_real_prometheus() {
    let Some(run) = scenario() else { return };
    run.metrics();
    let mut empty = Vec::new();
    let dashboards = dashboards::all();
    for dashboard in &dashboards {
        let answers = run.dashboard(dashboard, &mut empty);
        println!("figures: {}: {} panels", dashboard.file, answers.len());
        if std::env::var_os("UPDATE").is_some() {
            let picture = Picture::new(run.from, run.to, &run.names).dashboard(dashboard, &answers);
            let folder = root("docs/dashboards");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{}.svg", dashboard.file)), picture).unwrap();
        }
    }
    let queries: usize = dashboards.iter().flat_map(Dashboard::panels).map(|p| p.targets.len()).sum();
    println!("figures: queries of panels with data: {}/{queries}", queries - empty.len());
    assert!(empty.is_empty(), "no data:\n{}", empty.join("\n"));
    run.prometheus.through(&filled(&policy_change().text, 60.0), run.from, run.to).unwrap();
    run.alerts();
    let (status, text) = get(&run.instances[0].1, "/metrics");
    assert_eq!(status, 200);
    let said = promtool(tools().unwrap(), &["check", "metrics"], &text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(said.trim(), "");
    println!("figures: promtool check metrics: nothing to say about {} lines", text.lines().count());
    for (instance, _) in run.instances {
        instance.drain();
    }
}
