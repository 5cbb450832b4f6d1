//! The read-only listener: metrics, probes, version, and a page for people.
//!
//! [`Health`] is what workers tell and probes read. The probes answer different questions: `/livez` whether a
//! restart could help (a stuck poll loop, a dead client; never a broker that is away), `/startupz` whether the
//! first assignment was restored, `/readyz` whether this instance judges what it was assigned. Nothing can be
//! changed here, and nothing shown holds input.

use crate::runtime::canary::Round;
use crate::runtime::listener;
use crate::runtime::pins::Pins;
use crate::runtime::telemetry::{Metrics, float};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a worker may stand still before its broker counts as away.
const ANSWER: Duration = Duration::from_secs(5);
/// After how many rounds that fail in a row the canary counts as failed.
const CANARY_ROUNDS: u32 = 3;

/// What a partition that was assigned does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Restoring,
    Live,
    /// Not read: an output topic has too few partitions.
    Parked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub phase: Phase,
    /// Records not judged yet, as far as known.
    pub lag: Option<i64>,
}

#[derive(Debug, Default)]
struct WorkerHealth {
    /// Milliseconds after the start.
    polled: AtomicU64,
    joined: AtomicBool,
    can_commit: AtomicBool,
    /// When its open transaction began, in milliseconds after the start, plus one; 0: none is open.
    opened: AtomicU64,
    /// Brokers it is connected to, plus one; 0: not known yet.
    brokers: AtomicUsize,
    /// Since when there is none, in milliseconds after the start, plus one; 0: there is one.
    away: AtomicU64,
}

/// What the workers tell and the probes read.
#[derive(Debug)]
pub struct Health {
    started: Instant,
    poll_limit: Duration,
    workers: Vec<WorkerHealth>,
    /// By worker: why it cannot commit, as far as its broker said.
    waits: Mutex<BTreeMap<u32, String>>,
    parts: Mutex<BTreeMap<(String, i32), Part>>,
    /// By input: which topics are too narrow for it.
    narrow: Mutex<BTreeMap<String, String>>,
    /// The decisions on tools that are followed, and how old they may be.
    pins: Mutex<Option<(Arc<Pins>, Duration)>>,
    /// Rounds of the canary in a row that did not end in its block, and how the last one ended.
    canary: Mutex<(u32, Option<Round>)>,
    fatal: Mutex<Option<String>>,
    draining: AtomicBool,
    /// Latched when the first assignment was restored.
    up: AtomicBool,
}

/// One check of a probe.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    pub check: &'static str,
    pub ok: bool,
    /// Why not, and what repairs it.
    pub reason: Option<String>,
}

impl Health {
    /// `max_poll` is `max.poll.interval.ms`: half of it, at least a minute, without a poll fails `/livez`.
    pub fn new(workers: u32, max_poll: Duration) -> Self {
        Self {
            started: Instant::now(),
            poll_limit: (max_poll / 2).max(Duration::from_secs(60)),
            workers: (0..workers).map(|_| WorkerHealth::default()).collect(),
            waits: Mutex::default(),
            parts: Mutex::default(),
            narrow: Mutex::default(),
            pins: Mutex::default(),
            canary: Mutex::default(),
            fatal: Mutex::default(),
            draining: AtomicBool::new(false),
            up: AtomicBool::new(false),
        }
    }

    /// The poll loop ran; `can_commit` is false while the worker has no usable producer.
    pub fn polled(&self, worker: u32, can_commit: bool) {
        if let Some(w) = self.worker(worker) {
            w.polled.store(millis(self.started.elapsed()), Ordering::Relaxed);
            w.can_commit.store(can_commit, Ordering::Relaxed);
        }
        if can_commit {
            lock(&self.waits).remove(&worker);
        }
    }
    /// Why the worker's last transaction did not commit, or why it has no usable producer.
    pub fn waits(&self, worker: u32, why: &str) {
        lock(&self.waits).insert(worker, why.to_owned());
    }
    /// The age of the worker's open transaction.
    pub fn transaction(&self, worker: u32, open: Option<Duration>) {
        if let Some(w) = self.worker(worker) {
            let began = open.map_or(0, |age| millis(self.started.elapsed().saturating_sub(age)) + 1);
            w.opened.store(began, Ordering::Relaxed);
        }
    }
    /// How many brokers the worker is connected to.
    pub fn connected(&self, worker: u32, brokers: usize) {
        if let Some(w) = self.worker(worker) {
            w.brokers.store(brokers + 1, Ordering::Relaxed);
            if brokers > 0 {
                w.away.store(0, Ordering::Relaxed);
            } else {
                let now = millis(self.started.elapsed()) + 1;
                let _ = w.away.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
    pub fn joined(&self, worker: u32, joined: bool) {
        if let Some(w) = self.worker(worker) {
            w.joined.store(joined, Ordering::Relaxed);
        }
    }
    /// `None`: the partition is not ours any more.
    pub fn phase(&self, topic: &str, partition: i32, phase: Option<Phase>) {
        let mut parts = lock(&self.parts);
        match phase {
            None => drop(parts.remove(&(topic.to_owned(), partition))),
            Some(phase) => {
                let lag = parts.get(&(topic.to_owned(), partition)).and_then(|p| p.lag);
                parts.insert((topic.to_owned(), partition), Part { phase, lag });
            }
        }
    }
    /// Why partitions of this input are parked.
    pub fn narrow(&self, topic: &str, why: String) {
        lock(&self.narrow).insert(topic.to_owned(), why);
    }
    pub fn lag(&self, topic: &str, partition: i32, records: i64) {
        if let Some(part) = lock(&self.parts).get_mut(&(topic.to_owned(), partition)) {
            part.lag = Some(records);
        }
    }
    /// Whose decisions on tools count, and how long they may be unconfirmed.
    pub fn follow(&self, pins: Arc<Pins>, limit: Duration) {
        *lock(&self.pins) = Some((pins, limit));
    }
    /// A round of the canary ended.
    pub fn canary(&self, round: Round) {
        let mut canary = lock(&self.canary);
        let well = matches!(round, Round::Blocked | Round::Observed);
        *canary = (if well { 0 } else { canary.0.saturating_add(1) }, Some(round));
    }
    /// The partitions that are judged.
    pub fn live_parts(&self) -> Vec<(String, i32)> {
        let parts = lock(&self.parts);
        parts.iter().filter(|(_, p)| p.phase == Phase::Live).map(|(at, _)| at.clone()).collect()
    }
    /// A client is dead; the process is about to end.
    pub fn fatal(&self, why: impl Into<String>) {
        *lock(&self.fatal) = Some(why.into());
    }
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
    pub fn parts(&self) -> BTreeMap<(String, i32), Part> {
        lock(&self.parts).clone()
    }
    pub fn poll_age(&self) -> Duration {
        let oldest = self.workers.iter().map(|w| w.polled.load(Ordering::Relaxed)).min().unwrap_or(0);
        self.started.elapsed().saturating_sub(Duration::from_millis(oldest))
    }

    fn worker(&self, n: u32) -> Option<&WorkerHealth> {
        self.workers.get(usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn check_poll(&self) -> Check {
        let age = self.poll_age();
        let reason = (age > self.poll_limit).then(|| {
            format!(
                "a worker did not poll for {} s (limit {} s); restart the process",
                age.as_secs(),
                self.poll_limit.as_secs()
            )
        });
        check("poll", reason)
    }
    fn check_fatal(&self) -> Check {
        check("fatal", lock(&self.fatal).as_ref().map(|why| format!("{why}; the process ends")))
    }
    /// One round may be lost to a broker that is being restarted.
    fn check_canary(&self) -> Check {
        let (failed, last) = *lock(&self.canary);
        let last = last.filter(|_| failed >= CANARY_ROUNDS).map(|round| match round {
            Round::Missing => format!(
                "the last {failed} hostile results that this instance sent to itself got no verdict; see the log for \
                 canary.verdict"
            ),
            _ => format!(
                "the last {failed} hostile results that this instance sent to itself were not blocked: check the policies \
                 that hold: `sluicegate policies --effective --fleet _canary --tool sluicegate_canary`, with the files \
                 that `run` was given as --config"
            ),
        });
        check("canary", last)
    }
    fn check_group(&self) -> Check {
        let joined = self.workers.iter().any(|w| w.joined.load(Ordering::Relaxed));
        check("group", (!joined).then(|| "not in the consumer group yet; see the log for broker errors".into()))
    }
    fn check_restore(&self) -> Check {
        let n = lock(&self.parts).values().filter(|p| p.phase == Phase::Restoring).count();
        check(
            "restore",
            (n > 0).then(|| {
                let are = if n == 1 { "partition is" } else { "partitions are" };
                format!("{n} {are} being restored from the changelog; wait")
            }),
        )
    }
    fn check_broker(&self) -> Check {
        // A loop that stands still waits for a broker to answer: it can hear of nothing else meanwhile.
        let waits = self.started() && self.poll_age() > ANSWER;
        let reason = if let Some(since) = self.away() {
            let at = SystemTime::now().checked_sub(self.started.elapsed().saturating_sub(since));
            let seconds = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_secs());
            let since = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or(0)).unwrap_or_default();
            Some(format!("no broker reachable since {since}: check the brokers and kafka.bootstrap_servers"))
        } else if waits {
            Some(format!(
                "no broker answers a worker for {} s: check the brokers and kafka.bootstrap_servers",
                self.poll_age().as_secs()
            ))
        } else {
            None
        };
        check("broker", reason)
    }
    fn check_commit(&self) -> Check {
        let unable = self.workers.iter().zip(0..).find(|(w, _)| !w.can_commit.load(Ordering::Relaxed));
        let reason = unable.map(|(_, worker)| match lock(&self.waits).get(&worker) {
            Some(why) => format!("a worker cannot commit, and judges nothing meanwhile: {why}"),
            None => {
                "a worker cannot commit, and judges nothing meanwhile; see the log for transaction.undone".to_owned()
            }
        });
        check("commit", reason)
    }
    /// Since when a worker is connected to no broker, after the start.
    fn away(&self) -> Option<Duration> {
        let ms = self.workers.iter().filter_map(|w| w.away.load(Ordering::Relaxed).checked_sub(1)).min();
        ms.map(Duration::from_millis)
    }
    /// Whether every worker's loop ran once.
    fn started(&self) -> bool {
        self.workers.iter().all(|w| w.polled.load(Ordering::Relaxed) > 0)
    }
    /// The fewest brokers that a worker is connected to; `None` before any worker knows.
    fn brokers(&self) -> Option<usize> {
        self.workers.iter().filter_map(|w| w.brokers.load(Ordering::Relaxed).checked_sub(1)).min()
    }
    /// The age of the oldest open transaction.
    fn transaction_age(&self) -> Duration {
        let opened = self.workers.iter().filter_map(|w| w.opened.load(Ordering::Relaxed).checked_sub(1)).min();
        opened.map_or(Duration::ZERO, |ms| self.started.elapsed().saturating_sub(Duration::from_millis(ms)))
    }
    fn check_partitions(&self) -> Check {
        let parked: Vec<String> = lock(&self.parts)
            .iter()
            .filter(|(_, p)| p.phase == Phase::Parked)
            .map(|((topic, n), _)| format!("{topic}/{n}"))
            .collect();
        let narrow: Vec<String> = {
            let parts = lock(&self.parts);
            let waits = |topic: &str| parts.iter().any(|((t, _), p)| t == topic && p.phase == Phase::Parked);
            lock(&self.narrow).iter().filter(|(topic, _)| waits(topic)).map(|(_, why)| why.clone()).collect()
        };
        let why = match narrow.is_empty() {
            true => "an output or state topic has fewer partitions than the input".to_owned(),
            false => narrow.join("; "),
        };
        let reason = format!("paused: {}: {why}: run `sluicegate topics apply`", parked.join(", "));
        check("partitions", (!parked.is_empty()).then_some(reason))
    }

    /// A decision that was made must be known here.
    fn check_pins(&self) -> Check {
        let followed = lock(&self.pins).clone();
        let reason = followed.and_then(|(pins, limit)| {
            let age = pins.age();
            let late = age.is_none_or(|age| age > limit);
            let since = age.map_or_else(|| "never".to_owned(), |age| format!("{} s ago", age.as_secs()));
            late.then(|| {
                format!(
                    "decisions on tools were last complete {since} (pins.stale_after {} s); check the brokers and Read \
                     on the pins topic",
                    limit.as_secs()
                )
            })
        });
        check("pins", reason)
    }

    /// Whether a restart could help.
    pub fn live(&self) -> Vec<Check> {
        vec![self.check_poll(), self.check_fatal()]
    }
    /// Whether the first assignment was restored.
    pub fn startup(&self) -> Vec<Check> {
        if self.up.load(Ordering::Relaxed) {
            return vec![check("group", None)];
        }
        let checks = vec![self.check_group(), self.check_restore()];
        if checks.iter().all(|c| c.ok) {
            self.up.store(true, Ordering::Relaxed);
        }
        checks
    }
    /// Whether this instance judges what it was assigned.
    pub fn ready(&self) -> Vec<Check> {
        let mut checks = vec![
            self.check_poll(),
            self.check_group(),
            self.check_restore(),
            self.check_broker(),
            self.check_commit(),
            self.check_partitions(),
            self.check_pins(),
            self.check_canary(),
            self.check_fatal(),
        ];
        if self.draining.load(Ordering::Relaxed) {
            checks.push(check("draining", Some("the process is ending".into())));
        }
        checks
    }

    /// Brings the gauges that follow from health up to date.
    pub fn publish(&self, metrics: &Metrics) {
        for c in self.ready().iter().filter(|c| c.check != "draining") {
            metrics.health.set([c.check], if c.ok { 1.0 } else { 0.0 });
        }
        metrics.poll_age.set([], self.poll_age().as_secs_f64());
        metrics.transaction_open.set([], self.transaction_age().as_secs_f64());
        if let Some(brokers) = self.brokers() {
            metrics.connected_brokers.set([], float(brokers as u64));
        }
        let parts = self.parts();
        let count = |phase| float(parts.values().filter(|p| p.phase == phase).count() as u64);
        metrics.partitions_paused.set(["restore"], count(Phase::Restoring));
        metrics.partitions_paused.set(["output_partitions"], count(Phase::Parked));
    }
}

fn check(check: &'static str, reason: Option<String>) -> Check {
    Check { check, ok: reason.is_none(), reason }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the listener shows.
pub struct Admin {
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub facts: Arc<Facts>,
}

/// What `/version` and the page say beside the version: name and value.
#[derive(Debug, Default)]
pub struct Facts(Mutex<Vec<(&'static str, String)>>);

impl Facts {
    pub fn new(facts: Vec<(&'static str, String)>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(facts)))
    }
    pub fn set(&self, name: &'static str, value: &str) {
        let mut facts = lock(&self.0);
        match facts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, held)) => value.clone_into(held),
            None => facts.push((name, value.to_owned())),
        }
    }
    fn all(&self) -> Vec<(&'static str, String)> {
        lock(&self.0).clone()
    }
}

/// Serves until `stop` is done.
pub async fn serve(listener: tokio::net::TcpListener, admin: Arc<Admin>, stop: impl Future<Output = ()> + Send) {
    listener::serve(listener, router(admin), stop).await;
}

/// Binds the address of `http.listen`.
///
/// # Errors
/// The address is in use or not ours; the text says what to set.
pub async fn bind(listen: &str) -> Result<(tokio::net::TcpListener, SocketAddr), String> {
    let failed = |e: std::io::Error| format!("http.listen: {listen}: {e}; set http.listen to a free address:port");
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// The routes; also used by tests.
pub fn router(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/startupz", get(startupz))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "no such page; see /") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "this listener only answers GET")
        })
        .with_state(admin)
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    admin.health.publish(&admin.metrics);
    let suppressed = &admin.metrics.log_events_suppressed;
    suppressed.add([], crate::runtime::logs::suppressed().saturating_sub(suppressed.get([])));
    typed("text/plain; version=0.0.4; charset=utf-8", admin.metrics.text())
}

async fn livez(State(admin): State<Arc<Admin>>, query: RawQuery) -> Response {
    probe(&admin, &admin.health.live(), &query)
}

async fn startupz(State(admin): State<Arc<Admin>>, query: RawQuery) -> Response {
    probe(&admin, &admin.health.startup(), &query)
}

async fn readyz(State(admin): State<Arc<Admin>>, query: RawQuery) -> Response {
    probe(&admin, &admin.health.ready(), &query)
}

async fn version(State(admin): State<Arc<Admin>>) -> Response {
    let mut facts = serde_json::Map::new();
    facts.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    for (name, value) in admin.facts.all() {
        facts.insert(name.into(), value.into());
    }
    typed("application/json", serde_json::Value::Object(facts).to_string())
}

/// Plain text for probes; with `?verbose`, every check and partition as JSON.
fn probe(admin: &Admin, checks: &[Check], RawQuery(query): &RawQuery) -> Response {
    let failed: Vec<&str> = checks.iter().filter_map(|c| c.reason.as_deref()).collect();
    let status = if failed.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if query.as_deref().is_some_and(|q| q.split('&').any(|p| p == "verbose" || p.starts_with("verbose="))) {
        let parts: Vec<_> = admin
            .health
            .parts()
            .into_iter()
            .map(|((topic, partition), p)| {
                json!({"topic": topic, "partition": partition, "phase": phase(p.phase), "lag": p.lag})
            })
            .collect();
        let body = json!({"ok": failed.is_empty(), "checks": checks, "partitions": parts});
        return (status, typed("application/json", body.to_string())).into_response();
    }
    if failed.is_empty() {
        return typed("text/plain; charset=utf-8", "ok\n".into());
    }
    problem(status, &failed.join("\n"))
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Restoring => "restoring",
        Phase::Live => "live",
        Phase::Parked => "paused",
    }
}

/// RFC 9457.
fn problem(status: StatusCode, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("error");
    let body = json!({"title": title, "status": status.as_u16(), "detail": detail});
    (status, typed("application/problem+json", body.to_string())).into_response()
}

fn typed(content_type: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], body).into_response()
}

async fn page(State(admin): State<Arc<Admin>>) -> Response {
    let mut response = typed("text/html; charset=utf-8", html(&admin));
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// The console page: no script, no asset from elsewhere.
fn html(admin: &Admin) -> String {
    let mut out = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <meta http-equiv=refresh content=5><title>Sluicegate</title><style>body{font:15px/1.5 system-ui;margin:2rem auto;\
         max-width:60rem;padding:0 1rem;color-scheme:light dark}table{border-collapse:collapse;margin:.5rem 0 1.5rem}\
         td,th{text-align:left;padding:.2rem 1.2rem .2rem 0;border-bottom:1px solid #8884;vertical-align:top}\
         .n{text-align:right}.bad{color:#c33}.ok{color:#283}</style>",
    );
    let _ = write!(out, "<h1>Sluicegate {}</h1><table>", env!("CARGO_PKG_VERSION"));
    for (name, value) in admin.facts.all() {
        let _ = write!(out, "<tr><th>{}<td>{}", escaped(name), escaped(&value));
    }
    out.push_str("</table><h2>Checks</h2><table>");
    for c in admin.health.ready() {
        let (class, text) = if c.ok { ("ok", "passing") } else { ("bad", "failing") };
        let reason = escaped(c.reason.as_deref().unwrap_or(""));
        let _ = write!(out, "<tr><td>{}<td class={class}>{text}<td>{reason}", c.check);
    }
    out.push_str("</table><h2>Partitions</h2><table><tr><th>topic<th>partition<th>phase<th class=n>records behind");
    for ((topic, n), part) in admin.health.parts() {
        let lag = part.lag.map_or_else(|| "?".into(), |l| l.to_string());
        let _ = write!(out, "<tr><td>{}<td>{n}<td>{}<td class=n>{lag}", escaped(&topic), phase(part.phase));
    }
    out.push_str("</table><h2>Verdicts</h2><table><tr><th>series<th class=n>count");
    for line in admin.metrics.text().lines() {
        let counted = ["verdicts_total{", "blocks_total{", "record_outcomes_total{", "dlq_records_total{"];
        if let Some(line) = line.strip_prefix("sluicegate_")
            && counted.iter().any(|c| line.starts_with(c))
            && let Some((series, value)) = line.rsplit_once(' ')
        {
            let _ = write!(out, "<tr><td>{}<td class=n>{}", escaped(series), escaped(value));
        }
    }
    out.push_str(
        "</table><p><a href=/metrics>/metrics</a> <a href='/readyz?verbose'>/readyz</a> <a href=/version>/version</a>",
    );
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
