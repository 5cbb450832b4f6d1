//! `run`: the service. Workers judge on their own threads; this thread serves signals and HTTP.
//!
//! The listener answers before the brokers do, so that probes can tell a slow start from a dead process. The
//! first SIGTERM or SIGINT drains, the second aborts what is open and ends with exit code 3.

use super::style::Style;
use super::{Exit, Failure, Global, engine};
use crate::engine::{Limits, Settings as EngineSettings};
use crate::runtime::admin::{self, Admin, Facts, Health};
use crate::runtime::canary::{self, Canary};
use crate::runtime::config::{Config, Need};
use crate::runtime::current::Current;
use crate::runtime::engine_judge::EngineJudge;
use crate::runtime::environment::EnvironmentError;
use crate::runtime::kafka::follow::Follower;
use crate::runtime::kafka::topics::{self, Cluster};
use crate::runtime::logs::init_logs;
use crate::runtime::reload::{self, Reloader, Source};
use crate::runtime::reporter::Reporter;
use crate::runtime::settings::Settings;
use crate::runtime::telemetry::{Metrics, float};
use crate::runtime::worker::{Ended, Stop, Telemetry};
use crate::runtime::{kafka, service};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

#[derive(clap::Args)]
pub struct Args {}

/// librdkafka's default of `max.poll.interval.ms`.
const MAX_POLL: Duration = Duration::from_secs(300);

pub fn run(global: &Global, _args: &Args) -> Result<Exit, Failure> {
    let source = global.source();
    let config = source.load(Need::Run).map_err(|p| Failure::problems(&p))?;
    init_logs(&config.log, Style::new(global, &std::io::stderr()).on());
    let mut settings = config.settings().map_err(|p| Failure::problems(&[p]))?;
    let engine_settings = global.settings(&config, "")?;
    settings.key_id = engine_settings.key_id();
    // Policies are compiled once before the brokers are asked: a mistake in them is no environment error.
    let checked = engine(engine_settings.clone())?;
    let metrics = new_metrics()?;
    reload::loaded(&metrics, &engine_settings.policy);
    reload::said(&config.break_glass);
    for (role, at) in kafka::certificates::expiries(&settings) {
        metrics.certificate_expiry.set([role], float(at));
    }
    metrics.describe(&kafka::tap::version(), &engine_settings.policy.bundle, checked.policy_digest());
    let max_poll = settings.properties.get("max.poll.interval.ms").and_then(|v| v.parse().ok());
    let health = Arc::new(Health::new(settings.workers, max_poll.map_or(MAX_POLL, Duration::from_millis)));
    let facts = facts(&settings, &engine_settings, checked.policy_digest());
    let admin =
        Arc::new(Admin { health: Arc::clone(&health), metrics: Arc::clone(&metrics), facts: Arc::clone(&facts) });

    let service = Service {
        engine: engine_settings,
        max_state: config.state.max_bytes.map(|s| s.0),
        limits: config.engine.limits.clone(),
        metrics,
        health: Arc::clone(&health),
        started: Arc::default(),
        stop: Arc::default(),
        settings,
        reload: (source, config.clone(), facts),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Said(Exit::Environment, format!("no thread runtime: {e}")))?;
    runtime.block_on(supervise(&config, admin, service))
}

/// # Errors
/// The table of metrics is wrong, which a test rules out.
pub fn new_metrics() -> Result<Arc<Metrics>, Failure> {
    let metrics = Metrics::new().map_err(|e| Failure::Said(Exit::Environment, format!("metrics: {e}")))?;
    Ok(Arc::new(metrics))
}

fn facts(settings: &Settings, engine: &EngineSettings, digest: &str) -> Arc<Facts> {
    Facts::new(vec![
        ("group", settings.group.clone()),
        ("instance", settings.instance.clone()),
        ("inputs", settings.inputs.join(", ")),
        ("profile", engine.policy.profile.name().to_owned()),
        ("policy_bundle", engine.policy.bundle.clone()),
        ("policy_digest", digest.to_owned()),
        ("librdkafka", kafka::tap::version()),
    ])
}

/// What the service thread needs.
struct Service {
    settings: Settings,
    engine: EngineSettings,
    limits: Limits,
    max_state: Option<u64>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    /// The workers run: from here on a signal must drain.
    started: Arc<AtomicBool>,
    stop: Arc<Stop>,
    /// Where the configuration is read again from, what it says now, and where that is shown.
    reload: (Source, Config, Arc<Facts>),
}

/// Waits for the service or for signals.
async fn supervise(config: &Config, admin: Arc<Admin>, service: Service) -> Result<Exit, Failure> {
    let (stop_http, http_stopped) = oneshot::channel::<()>();
    let mut http = None;
    if !config.http.listen.is_empty() {
        let bound = admin::bind(&config.http.listen).await;
        let (listener, address) = bound.map_err(|e| Failure::Said(Exit::Environment, e))?;
        tracing::info!(event = "http.listening", %address);
        http = Some(tokio::spawn(admin::serve(listener, admin, async {
            let _ = http_stopped.await;
        })));
    }
    let (health, stop, started) =
        (Arc::clone(&service.health), Arc::clone(&service.stop), Arc::clone(&service.started));
    let (report, mut ended) = oneshot::channel();
    let (again, asked) = std::sync::mpsc::channel();
    let mut hangup = hangup()?;
    let thread = std::thread::Builder::new().name("service".into()).spawn(move || {
        let _ = report.send(service.run(asked));
    });
    thread.map_err(|e| Failure::Said(Exit::Environment, format!("no thread could be started: {e}")))?;
    let mut signals = Signals::new()?;
    let result = loop {
        tokio::select! {
            ended = &mut ended => break ended.unwrap_or_else(|_| Err(Failure::Said(
                Exit::Environment,
                "the service thread panicked; restart the process and report the line event=\"panic\" above".into(),
            ))),
            _ = hangup.recv() => drop(again.send(())),
            () = signals.next() => {
                tracing::info!(event = "service.signal", draining = stop.draining());
                health.drain();
                stop.request();
                // Nothing is open before the workers run, and the brokers may never answer.
                if !started.load(Ordering::Acquire) {
                    break Ok(Exit::Fine);
                }
            }
        }
    };
    let _ = stop_http.send(());
    if let Some(http) = http {
        // A client that keeps its connection open must not keep the process.
        let _ = tokio::time::timeout(Duration::from_secs(1), http).await;
    }
    result
}

impl Service {
    fn run(mut self, asked: Receiver<()>) -> Result<Exit, Failure> {
        let cluster = topics::check(&self.settings)?;
        self.fit(&cluster)?;
        let current = Arc::new(Current::new(engine(self.engine.clone())?));
        let stop = Arc::clone(&self.stop);
        let follower = Follower::start(&self.settings, &|| stop.draining())?;
        self.health.follow(Arc::clone(&follower.pins), self.settings.pins_stale);
        let pins = Arc::clone(&follower.pins);
        let judge = Arc::new(EngineJudge { current: Arc::clone(&current), pins, metrics: Arc::clone(&self.metrics) });
        let (source, config, facts) = self.reload;
        let canary = config.canary.enabled.then(|| canary::Parts {
            settings: self.settings.clone(),
            cluster: self.engine.cluster.clone(),
            every: config.canary.interval.0,
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            current: Arc::clone(&current),
        });
        let canary = canary.map(Canary::start).transpose()?;
        let (settings, metrics) = (self.engine, Arc::clone(&self.metrics));
        Reloader::new(source, config, settings, current, metrics, facts).start(asked)?;
        let reporter: Arc<dyn Telemetry> = Arc::new(Reporter::new(&self.metrics, &self.health, &self.settings));
        self.started.store(true, Ordering::Release);
        let ended = service::run_checked(self.settings, &cluster, judge, reporter, self.stop);
        drop((follower, canary));
        if let Ok(Ended::Environment(e)) | Err(e) = &ended {
            self.health.fatal(e.what.clone());
            tracing::error!(event = "service.failed", code = e.code, what = e.what, repair = e.repair);
        }
        exit(ended?)
    }

    /// Takes from the cluster what only it knows: its name, the topics' limits, how many partitions there are.
    fn fit(&mut self, cluster: &Cluster) -> Result<(), EnvironmentError> {
        self.engine.cluster = cluster.id.chars().take(8).collect();
        let limits = topics::message_limits(&self.settings)?;
        let default = Limits::default();
        let fit = |topic: &str, set: u64, default: u64| match limits.get(topic) {
            // Left at its default, the setting follows the topic; set by the operator, it can only be lower.
            Some(limit) => {
                let limit = (*limit as u64).saturating_sub(1024);
                if set == default { limit } else { set.min(limit) }
            }
            None => set,
        };
        let l = &mut self.engine.limits;
        l.redacted_record_bytes =
            fit(&self.settings.redacted, self.limits.redacted_record_bytes, default.redacted_record_bytes);
        l.deadletter_record_bytes =
            fit(&self.settings.deadletters, self.limits.deadletter_record_bytes, default.deadletter_record_bytes);
        if let Some(bytes) = self.max_state {
            let partitions: i32 = self.settings.inputs.iter().filter_map(|i| cluster.topics.get(i)).sum();
            let share = bytes / u64::try_from(partitions.max(1)).unwrap_or(1);
            if share < l.conversation_bytes {
                return Err(EnvironmentError::new(
                    "state_budget",
                    format!(
                        "state.max_bytes gives each of {partitions} partitions {share} bytes, less than one conversation may take"
                    ),
                    format!(
                        "raise state.max_bytes to at least {}",
                        l.conversation_bytes * u64::from(partitions.unsigned_abs())
                    ),
                ));
            }
            l.partition_bytes = share;
        }
        Ok(())
    }
}

/// The exit code of a service that ended.
///
/// # Errors
/// The environment does not allow it to go on.
pub fn exit(ended: Ended) -> Result<Exit, Failure> {
    match ended {
        Ended::Drained => Ok(Exit::Fine),
        Ended::Forced => Ok(Exit::Forced),
        Ended::Environment(e) => Err(e.into()),
    }
}

/// SIGHUP: read the configuration again. Handled from the start, since by default it ends a process.
fn hangup() -> Result<Signal, Failure> {
    signal(SignalKind::hangup()).map_err(|e| Failure::Said(Exit::Environment, format!("signals: {e}")))
}

/// SIGTERM and SIGINT.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// # Errors
    /// The system refuses a handler.
    pub fn new() -> Result<Self, Failure> {
        let handler = |kind| signal(kind).map_err(|e| Failure::Said(Exit::Environment, format!("signals: {e}")));
        Ok(Self { terminate: handler(SignalKind::terminate())?, interrupt: handler(SignalKind::interrupt())? })
    }
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
