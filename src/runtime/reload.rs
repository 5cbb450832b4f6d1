//! Reading the configuration again while the process runs.
//!
//! The files are read whole, checked as at the start, and compiled on this thread; then the engine is swapped, and
//! each partition takes it when its next transaction begins. What cannot change in a running process is refused by
//! name, and nothing of such a file is taken over: half a configuration is none that anybody wrote. Whatever is
//! wrong, the last good one holds.
//!
//! Files are compared by their bytes, so a link that leads elsewhere (a mounted ConfigMap) is a change, and one that
//! was only touched is none. `break_glass` ends by the clock, without anybody reading anything.

use super::admin::Facts;
use super::config::{self, BreakGlass, Config, Need};
use super::current::Current;
use super::environment::EnvironmentError;
use super::logs;
use super::telemetry::Metrics;
use crate::engine::policy::{PolicySettings, Profile};
use crate::engine::{Engine, Problem, Settings};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the configuration comes from: the same files, environment and flags every time.
#[derive(Debug, Clone)]
pub struct Source {
    /// A later file wins.
    pub files: Vec<PathBuf>,
    pub env: HashMap<String, String>,
    /// `--profile`
    pub profile: Option<Profile>,
}

impl Source {
    /// # Errors
    /// Every problem of file and environment.
    pub fn load(&self, need: Need) -> Result<Config, Vec<Problem>> {
        config::load(&self.files, self.env.clone(), need)
    }

    /// The bytes of the files; one that cannot be read is equal to none that can.
    fn bytes(&self) -> Vec<Option<Vec<u8>>> {
        self.files.iter().map(|file| config::read(file).ok()).collect()
    }
}

/// What may differ from the configuration that the process was started with, as paths; everything below them too.
pub const HOT: [&str; 7] =
    ["policy", "fleets", "engine.redacted", "engine.dead_letter_payload", "log.level", "reload", "break_glass"];

/// Reads again when it is told to, or sees a change.
pub struct Reloader {
    pub source: Source,
    /// What holds.
    pub config: Config,
    /// Of the engine that the process was started with, fitted to the cluster: what is not [`HOT`] stays.
    pub settings: Settings,
    pub current: Arc<Current>,
    pub metrics: Arc<Metrics>,
    pub facts: Arc<Facts>,
    /// What the files say now was refused.
    rejected: bool,
}

impl Reloader {
    /// `config` is what the process was started with.
    pub fn new(
        source: Source,
        config: Config,
        settings: Settings,
        current: Arc<Current>,
        metrics: Arc<Metrics>,
        facts: Arc<Facts>,
    ) -> Self {
        let mut made = Self { source, config, settings, current, metrics, facts, rejected: false };
        made.reject(false);
        made
    }

    fn reject(&mut self, rejected: bool) {
        self.rejected = rejected;
        self.metrics.config_last_reload_successful.set([], if rejected { 0.0 } else { 1.0 });
    }

    /// On a thread of its own, for as long as the other end of `asked` lives.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(self, asked: Receiver<()>) -> Result<(), EnvironmentError> {
        let thread = std::thread::Builder::new().name("reload".into()).spawn(move || self.run(&asked));
        thread.map(drop).map_err(|e| {
            EnvironmentError::new("threads", format!("no thread could be started: {e}"), "check the process limits")
        })
    }

    /// Each message is a request to read at once.
    fn run(mut self, asked: &Receiver<()>) {
        let mut seen: Option<Vec<Option<Vec<u8>>>> = None;
        let mut open = self.config.break_glass.left().is_some();
        loop {
            let interval = self.config.reload.interval.0;
            let wait = self.config.break_glass.left().map_or(interval, |left| left.min(interval));
            let asked = match asked.recv_timeout(wait) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if asked || self.config.reload.watch {
                let found = Some(self.source.bytes());
                // The first look compares with what the process was started with.
                if asked || found != seen {
                    seen = found;
                    self.read(asked);
                }
            }
            let left = self.config.break_glass.left().is_some();
            if open && !left {
                self.close();
            }
            open = left;
        }
    }

    fn read(&mut self, asked: bool) {
        match self.source.load(Need::Run).and_then(|config| self.compiled(config)) {
            Ok(None) => {
                if self.rejected {
                    self.reject(false);
                    self.facts.set("reload", "the files are as what holds again");
                    tracing::info!(event = "config.reload.withdrawn", what = "the files are as what holds again");
                } else if asked {
                    tracing::info!(event = "config.unchanged");
                }
            }
            Ok(Some((config, engine))) => {
                let (old, log) = (std::mem::replace(&mut self.config, config), &self.config.log);
                if old.log.level != log.level {
                    logs::set_level(&log.level);
                }
                self.swap(engine);
                self.reject(false);
                self.metrics.config_reloads.inc(["applied"]);
                self.facts.set("reload", "applied");
                tracing::info!(
                    event = "config.reload.applied",
                    policy_digest = self.current.newest().0.policy_digest()
                );
                if self.config.break_glass != old.break_glass {
                    said(&self.config.break_glass);
                }
                if self.config.break_glass.left().is_none() && old.break_glass.left().is_some() {
                    over();
                }
            }
            Err(problems) => {
                self.reject(true);
                self.metrics.config_reloads.inc(["rejected"]);
                let n = problems.len();
                self.facts.set("reload", &format!("rejected, {n} problems, see the log; the last good one holds"));
                let problems = config::listed(&problems);
                tracing::error!(
                    event = "config.reload.rejected",
                    problems = problems.trim(),
                    repair = "repair the file; what was loaded before holds",
                );
            }
        }
    }

    /// The engine of another configuration; none where it is the same.
    fn compiled(&self, config: Config) -> Result<Option<(Config, Engine)>, Vec<Problem>> {
        if config == self.config {
            return Ok(None);
        }
        let fixed = fixed(&self.config, &config);
        if !fixed.is_empty() {
            let problem =
                |path| Problem { path, problem: "changed: needs a restart, so nothing was taken over".into() };
            return Err(fixed.into_iter().map(problem).collect());
        }
        let engine = engine(&self.settings, &config, self.source.profile)?;
        Ok(Some((config, engine)))
    }

    fn swap(&self, engine: Engine) {
        self.metrics.describe_policy(&engine.settings().policy.bundle, engine.policy_digest());
        self.facts.set("profile", engine.settings().policy.profile.name());
        self.facts.set("policy_bundle", &engine.settings().policy.bundle);
        self.facts.set("policy_digest", engine.policy_digest());
        loaded(&self.metrics, &engine.settings().policy);
        self.current.set(engine);
    }

    /// The time of `break_glass` is over.
    fn close(&self) {
        match engine(&self.settings, &self.config, self.source.profile) {
            Ok(engine) => {
                self.swap(engine);
                over();
            }
            // It was compiled before, with nothing else different.
            Err(problems) => tracing::error!(event = "break_glass.stuck", problems = config::listed(&problems)),
        }
    }
}

/// Shows since when what holds does, and whether anything is enforced.
pub fn loaded(metrics: &Metrics, policy: &PolicySettings) {
    metrics.break_glass_active.set([], if policy.break_glass { 1.0 } else { 0.0 });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    metrics.config_last_reload.set([], now.as_secs_f64());
    // An alert on the increase of a counter needs the zero that it rises from.
    for result in ["applied", "rejected"] {
        metrics.config_reloads.add([result], 0);
    }
}

/// The engine of a configuration, where everything that is not [`HOT`] is as in `base`.
///
/// # Errors
/// Every setting that cannot hold.
pub fn engine(base: &Settings, config: &Config, profile: Option<Profile>) -> Result<Engine, Vec<Problem>> {
    let made = config.engine_settings_with(base.fingerprint_key, &base.cluster, profile);
    Engine::new(Settings { limits: base.limits.clone(), ..made })
        .map_err(|problems| problems.into_iter().map(config::placed).collect())
}

/// Says that enforcement is off, and by whom; or that it is on again.
pub fn said(b: &BreakGlass) {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    match (b.left(), b.until.is_some()) {
        (Some(left), _) => tracing::warn!(
            event = "break_glass.opened",
            until = text(&b.until),
            by = text(&b.by),
            reason = text(&b.reason),
            seconds = left.as_secs(),
            what = "nothing is enforced: policies observe",
        ),
        (None, true) => tracing::warn!(event = "break_glass.over", until = text(&b.until), what = "it has no effect"),
        (None, false) => {}
    }
}

fn over() {
    tracing::warn!(event = "break_glass.over", what = "policies are enforced again");
}

/// Paths that differ and are not [`HOT`].
fn fixed(old: &Config, new: &Config) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let value = |config| serde_json::to_value(config).unwrap_or_default();
    differing("", &value(old), &value(new), &mut found);
    let hot = |path: &String| {
        HOT.iter().any(|h| path.strip_prefix(h).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    found.retain(|path| !hot(path));
    found
}

fn differing(path: &str, old: &Value, new: &Value, found: &mut BTreeSet<String>) {
    let (Value::Object(a), Value::Object(b)) = (old, new) else {
        if old != new {
            found.insert(path.to_owned());
        }
        return;
    };
    for name in a.keys().chain(b.keys()) {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        differing(&below, a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_named() {
        let old = Config::default();
        let mut new = Config::default();
        new.kafka.group = "another".into();
        new.engine.limits.json_depth = 9;
        new.kafka.properties.insert("fetch.min.bytes".into(), "2".into());
        new.log.level = "debug".into();
        new.policy.bundle = "b".into();
        new.engine.redacted.provider_calls = true;
        let names: Vec<String> = fixed(&old, &new).into_iter().collect();
        assert_eq!(names, ["engine.limits.json_depth", "kafka.group", "kafka.properties.fetch.min.bytes"]);
        assert!(fixed(&old, &old.clone()).is_empty());
    }

    #[test]
    fn every_hot_path_is_one_of_the_file() {
        let config = serde_json::to_value(Config::default()).unwrap();
        for path in HOT {
            let found = path.split('.').try_fold(&config, |at, name| at.get(name));
            assert!(found.is_some(), "{path}");
        }
    }
}
