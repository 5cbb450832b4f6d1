//! `demo`: the main job with nothing installed.
//!
//! A broker inside the process, sample traffic of every provider sent by an ordinary producer, the service's own
//! worker and engine, and a reader that draws the verdicts as they come. Only the broker is not the real thing,
//! and it says so. `demo/events.jsonl` holds the traffic, one structured CloudEvent a line; it is sent in binary
//! mode, which is what fleets should use. With `--bootstrap` that traffic goes to other brokers, whose service judges it.

mod traffic;

use super::run::{Signals, exit, new_metrics};
use super::style::{Cell, Columns, Style, Tone, table};
use super::{Exit, Failure, Global, check, engine};
use crate::runtime::admin::{self, Admin, Facts, Health};
use crate::runtime::config::{LogFormat, Need, Time};
use crate::runtime::current::Current;
use crate::runtime::embedded::Embedded;
use crate::runtime::engine_judge::EngineJudge;
use crate::runtime::environment::EnvironmentError;
use crate::runtime::kafka::tap::{Feed, Seen, Tap, version};
use crate::runtime::logs::init_logs;
use crate::runtime::reporter::Reporter;
use crate::runtime::service;
use crate::runtime::settings::Settings;
use crate::runtime::telemetry::Metrics;
use crate::runtime::worker::{Ended, Stop, Telemetry};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// End when all sample events are judged
    #[arg(long)]
    once: bool,
    /// Where metrics and the page are served; a free port of loopback if it is taken
    #[arg(long, default_value = "127.0.0.1:9464", value_name = "ADDRESS:PORT")]
    listen: String,
    /// Only send the sample to these brokers, where a service judges it: to the first of kafka.inputs, or agent.events
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["once", "listen"])]
    bootstrap: Option<String>,
    /// Send it again and again, such as every 10s
    #[arg(long, value_name = "TIME", value_parser = time, requires = "bootstrap")]
    every: Option<Time>,
}

fn time(text: &str) -> Result<Time, String> {
    let time: Time = serde_json::from_value(text.into()).map_err(|e| e.to_string())?;
    if time.0 < Duration::from_secs(1) { Err("must be at least 1s".into()) } else { Ok(time) }
}

const EVENTS: &str = include_str!("demo/events.jsonl");
const TOPIC: &str = "agent.events";
const PARTITIONS: i32 = 4;
/// A response with one tool call: whoever produces it sees its verdict.
const EXAMPLE: &str = concat!(
    r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","#,
    r#""content":[{"type":"tool_use","id":"call_1","name":"my_tool","input":{"city":"Lyon"}}]}"#,
);
/// How long the sample may take with `--once`.
const LIMIT: Duration = Duration::from_secs(90);

/// What the conversations of the sample show, in the order of the file.
const SCENES: &[(&str, &str)] = &[
    ("weather-desk", "streamed, run, answered"),
    ("travel-desk", "parallel calls"),
    ("ticket-desk", "no arguments, raw SSE"),
    ("mail-desk", "cut by max_tokens"),
    ("chat-desk", "invalid JSON"),
    ("research-pair", "parallel, interleaved"),
    ("research-list", "no arguments"),
    ("research-cut", "cut by max_output_tokens"),
    ("research-schema", "schema mismatch"),
    ("research-unknown", "undeclared tool"),
    ("shop-pair", "parallel, Chat chunks"),
    ("shop-merged", "two calls under one index"),
    ("grok-chat", "whole call in one chunk"),
    ("grok-search", "search run by the provider"),
    ("menu-stream", "leaf by leaf"),
    ("menu-cut", "cut by MAX_TOKENS"),
    ("phone-desk", "live session"),
    ("files-mcp", "tools/call over MCP"),
    ("ops-early", "started too early"),
    ("ops-logs", "oversize result"),
    ("ops-history", "oversize result in a request"),
    ("vault-read", "a key in an output"),
    ("page-trap", "instructions in a web page"),
    ("job-failed", "a stack trace in a failure"),
    ("report-view", "a script in what is shown"),
    ("pay-anyway", "started despite its block"),
    ("ops-broken", "not an event"),
];

pub fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    if let Some(bootstrap) = &args.bootstrap {
        return traffic::run(global, bootstrap, args.every);
    }
    let listen: std::net::SocketAddr = args.listen.parse().map_err(|_| {
        Failure::usage(format!("--listen {:?}: must be address:port, such as 127.0.0.1:9464", args.listen))
    })?;
    let mut config = global.load(Need::Engine)?;
    if config.log.level == "info" && config.log.format == LogFormat::Human {
        config.log.level = "warn".into();
    }
    init_logs(&config.log, Style::new(global, &io::stderr()).on());
    let embedded = Embedded::start()?;
    let mut settings = Settings::new("", "sluicegate-demo", &[TOPIC]);
    embedded.prepare(&mut settings, PARTITIONS)?;

    let mut engine_settings = global.settings(&config, "demo")?;
    engine_settings.group.clone_from(&settings.group);
    // One producer sends the sample, so nothing in it can overtake.
    engine_settings.limits.reorder_window_ms = 0;
    let bundle = engine_settings.policy.bundle.clone();
    let engine = engine(engine_settings)?;
    let metrics = new_metrics()?;
    metrics.describe(&version(), &bundle, engine.policy_digest());
    let health = Arc::new(Health::new(settings.workers, Duration::from_secs(300)));
    let facts = Facts::new(vec![
        ("group", settings.group.clone()),
        ("inputs", TOPIC.to_owned()),
        ("brokers", settings.bootstrap.clone()),
        ("note", "the embedded broker does not prove exactly-once".to_owned()),
    ]);
    let admin = Arc::new(Admin { health: Arc::clone(&health), metrics: Arc::clone(&metrics), facts });

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Said(Exit::Environment, format!("no thread runtime: {e}")))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let (listener, address) = runtime.block_on(async {
        // A port that is taken is no reason to show nothing.
        let bound = match admin::bind(&args.listen).await {
            Err(_) if listen.ip().is_loopback() => admin::bind("127.0.0.1:0").await,
            bound => bound,
        };
        bound.map_err(|e| Failure::usage(e.replace("http.listen", "--listen")))
    })?;
    runtime.spawn(admin::serve(listener, admin, std::future::pending()));
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let seen = Arc::clone(&interrupted);
    runtime.spawn(async move {
        signals.next().await;
        seen.store(true, Ordering::Release);
    });

    let stop = Arc::new(Stop::default());
    let service = start(
        &settings,
        EngineJudge { current: Arc::new(Current::new(engine)), pins: Arc::default(), metrics: Arc::clone(&metrics) },
        &health,
        &stop,
    )?;
    let show =
        Show { style: Style::new(global, &io::stdout()), once: args.once, settings: &settings, metrics: &metrics };
    let shown = show.all(&address.to_string(), &service, &interrupted);
    health.drain();
    stop.request();
    let ended = service.join().unwrap_or_else(|_| {
        Err(EnvironmentError::new(
            "worker_panic",
            "the service thread panicked",
            "report the line event=\"panic\" above",
        ))
    });
    // The worker's own end says more than what the reader missed because of it.
    let exit = exit(ended?)?;
    shown?;
    Ok(exit)
}

type Service = JoinHandle<Result<Ended, EnvironmentError>>;

fn start(settings: &Settings, judge: EngineJudge, health: &Arc<Health>, stop: &Arc<Stop>) -> Result<Service, Failure> {
    let reporter: Arc<dyn Telemetry> = Arc::new(Reporter::new(&judge.metrics, health, settings));
    let (settings, stop) = (settings.clone(), Arc::clone(stop));
    std::thread::Builder::new()
        .name("service".into())
        .spawn(move || service::run(settings, Arc::new(judge), reporter, stop))
        .map_err(|e| Failure::Said(Exit::Environment, format!("no thread could be started: {e}")))
}

/// What is drawn.
struct Show<'a> {
    style: Style,
    once: bool,
    settings: &'a Settings,
    metrics: &'a Metrics,
}

const HEAD: [&str; 6] = ["conversation", "call, tool", "checkpoint", "decision", "action", "rules"];
const WIDTHS: [usize; 6] = [44, 32, 13, 8, 11, 0];

impl Show<'_> {
    fn all(&self, address: &str, service: &Service, interrupted: &AtomicBool) -> Result<(), Failure> {
        self.introduce(address)?;
        let samples = traffic::samples()?;
        traffic::send(&Feed::new(self.settings)?, TOPIC, &samples)?;
        self.say(&format!(
            "{} sample events are sent; the worker joins its group, which takes a few seconds",
            samples.len()
        ))?;
        let tap = Tap::new(self.settings, &[&self.settings.verdicts, &self.settings.deadletters])?;
        let columns = Columns::fixed(&WIDTHS);
        self.say(&format!("\n{}", columns.head(self.style, &HEAD)))?;
        let (began, mut counts) = (Instant::now(), BTreeMap::<String, u64>::new());
        let (mut shown, mut finished) = (0, false);
        while !interrupted.load(Ordering::Acquire) && !service.is_finished() {
            if let Some(record) = tap.next(Duration::from_millis(50)) {
                shown += 1;
                let cells = self.cells(&record, &mut counts);
                self.say(&columns.line(self.style, &cells))?;
                continue;
            }
            let judged = self.metrics.transaction_records.sum([]) >= float(samples.len());
            if !finished && judged && shown >= self.emitted() {
                finished = true;
                self.summarise(samples.len(), &counts)?;
                if !self.once {
                    self.say("\nproduce events of your own (see above); Ctrl-C ends the demo")?;
                }
            }
            if finished && self.once {
                return Ok(());
            }
            if self.once && began.elapsed() > LIMIT {
                return Err(Failure::Said(
                    Exit::Environment,
                    format!(
                        "the sample was not judged within {} s\n  run again with SLUICEGATE__LOG__LEVEL=info to see why",
                        LIMIT.as_secs()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Verdicts and dead letters of committed transactions.
    fn emitted(&self) -> u64 {
        let topics = [&self.settings.verdicts, &self.settings.deadletters];
        topics.iter().map(|t| self.metrics.records_produced.get([t.as_str()])).sum()
    }

    fn introduce(&self, address: &str) -> Result<(), Failure> {
        let s = self.settings;
        let bold = |text: &str| self.style.paint(Tone::Head, text);
        self.say(&format!(
            "{} {}: an embedded broker, sample agent traffic, and the service's own worker.\n\
             {}\n\n\
             \x20 brokers   {}\n\
             \x20 input     {TOPIC}, {PARTITIONS} partitions\n\
             \x20 outputs   {}\n\
             \x20 page      http://{address}/\n\
             \x20 metrics   http://{address}/metrics\n\
             \x20 produce   echo '{EXAMPLE}' | \\\n\
             \x20             kcat -P -b {} -t {TOPIC} -k my-conversation -H ce_specversion=1.0 -H ce_id=1 -H ce_source=/me \\\n\
             \x20             -H ce_type=io.sluicegate.model.response.v1 -H ce_provider=anthropic.messages\n\
             \x20 read      kcat -C -b {} -t {}\n",
            bold("Sluicegate"),
            env!("CARGO_PKG_VERSION"),
            self.style.paint(
                Tone::Warn,
                "The embedded broker speaks Kafka's protocol but ignores isolation levels and transactional offsets:\n\
                 it shows the journey and proves nothing about exactly-once. The tests on Apache Kafka do that."
            ),
            s.bootstrap,
            s.outputs().join(", "),
            s.bootstrap,
            s.bootstrap,
            s.verdicts,
        ))
    }

    fn cells(&self, record: &Seen, counts: &mut BTreeMap<String, u64>) -> Vec<Cell> {
        let value = record.value.as_deref().and_then(|v| serde_json::from_slice::<Value>(v).ok()).unwrap_or_default();
        if record.topic == self.settings.deadletters {
            *counts.entry("dead letter".into()).or_default() += 1;
            let reason = record.headers.iter().find(|(n, _)| n == "sluicegate_dlq_reason");
            let reason = reason.map_or_else(String::new, |(_, v)| String::from_utf8_lossy(v).into_owned());
            let (dead, none) = (Cell(Tone::Bad, "dead letter".into()), || Cell::from("-"));
            return vec![self.origin(record), none(), none(), none(), dead, reason.into()];
        }
        *counts.entry(value["action"].as_str().unwrap_or("-").to_owned()).or_default() += 1;
        let mut cells = vec![self.scene(value["conversation"].as_str().unwrap_or("-"))];
        cells.extend(check::verdict_cells(&value));
        cells
    }

    fn scene(&self, conversation: &str) -> Cell {
        let scene = SCENES.iter().find(|(c, _)| *c == conversation).map(|(_, scene)| *scene);
        scene.map_or_else(|| conversation.into(), |scene| format!("{conversation} ({scene})").into())
    }

    /// A dead letter by its record's key, or by its place where it has none.
    fn origin(&self, record: &Seen) -> Cell {
        let key: String = String::from_utf8_lossy(record.key.as_deref().unwrap_or_default())
            .chars()
            .filter(|c| c.is_ascii_graphic())
            .take(WIDTHS[0])
            .collect();
        if !key.is_empty() {
            return self.scene(&key);
        }
        let of = |name: &str| {
            let found = record.headers.iter().find(|(n, _)| n == name);
            found.map_or_else(|| "-".into(), |(_, v)| String::from_utf8_lossy(v).into_owned())
        };
        format!("{TOPIC}/{} offset {}", of("sluicegate_dlq_partition"), of("sluicegate_dlq_offset")).into()
    }

    fn summarise(&self, records: usize, counts: &BTreeMap<String, u64>) -> Result<(), Failure> {
        let order = ["allow", "redact", "block", "dead letter"];
        let rows: Vec<Vec<Cell>> = order
            .iter()
            .map(|what| {
                let n = counts.get(*what).copied().unwrap_or(0);
                vec![Cell(super::style::decision_tone(what), (*what).to_owned()), n.to_string().into()]
            })
            .collect();
        let verdicts: u64 = order[..3].iter().filter_map(|o| counts.get(*o)).sum();
        self.say(&format!(
            "\n{} judged, {}\n{}",
            check::count(records as u64, "record"),
            check::count(verdicts, "verdict"),
            table(self.style, &["action", "count"], &rows).trim_end()
        ))
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()?;
        Ok(())
    }
}

fn float(n: usize) -> f64 {
    crate::runtime::telemetry::float(n as u64)
}
