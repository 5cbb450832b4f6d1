//! Instances of the service as processes of their own, so that a test can kill them.
//!
//! The test binary runs itself again with one test filter, `instance`, and the settings in the environment.

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluicegate::runtime::settings::Settings;

use super::client::Feed;

/// What a process needs to know; the same variables in the parent and in the child.
const PREFIX: &str = "SLUICEGATE_TEST_";

pub struct Instance {
    child: Child,
    pub lines: Arc<Mutex<Vec<String>>>,
}

impl Instance {
    pub fn start(settings: &Settings) -> Instance {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["instance::instance", "--exact", "--nocapture", "--test-threads=1", "--ignored"])
            .env(format!("{PREFIX}BOOTSTRAP"), &settings.bootstrap)
            .env(format!("{PREFIX}GROUP"), &settings.group)
            .env(format!("{PREFIX}INSTANCE"), &settings.instance)
            .env(format!("{PREFIX}STEP_MS"), settings.properties.get("test.step.ms").map_or("0", String::as_str))
            .env(format!("{PREFIX}STATIC"), settings.static_membership.to_string())
            .env(format!("{PREFIX}INPUT"), settings.inputs.join(","))
            .env(format!("{PREFIX}OUTPUTS"), settings.outputs().join(","))
            .env(format!("{PREFIX}PINS"), [settings.pins.as_str(), settings.pins_audit.as_str()].join(","))
            .env(format!("{PREFIX}SESSION_MS"), settings.session_timeout.as_millis().to_string())
            .env(format!("{PREFIX}TRANSACTION_MS"), settings.transaction_timeout.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (into, from) = (Arc::clone(&lines), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                into.lock().unwrap().push(line);
            }
        });
        Instance { child, lines }
    }

    pub fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- instance\n{}", self.log());
        }
    }
}

/// How an instance is hurt.
pub enum Kill {
    /// SIGKILL, and another process takes its name.
    Kill,
    /// SIGSTOP for this long, then SIGCONT: a zombie.
    Stop(Duration),
}

/// A run of several instances of one group that are hurt in turn, while records come in.
pub struct Kills {
    pub instances: usize,
    pub rounds: usize,
    /// How long to wait before each.
    pub between: Range<Duration>,
}

/// The instances after it.
pub struct Survivors(Vec<Instance>);

impl Kills {
    /// Feeds `records` for as long as the rounds take, and at least until they are all in.
    pub fn run(&self, settings: &Settings, records: &[(i32, String, String)], how: &Kill) -> Survivors {
        let start = |n: usize| Instance::start(&Settings { instance: n.to_string(), ..settings.clone() });
        let mut instances: Vec<Instance> = (0..self.instances).map(start).collect();
        let (bootstrap, input, all) = (settings.bootstrap.clone(), settings.inputs[0].clone(), records.to_vec());
        let stopped = if let Kill::Stop(time) = how { *time } else { Duration::ZERO };
        let pieces = 200;
        let pause = (self.between.end + stopped) * u32::try_from(self.rounds).unwrap() / pieces;
        let feeder = std::thread::spawn(move || {
            let feed = Feed::new(&bootstrap);
            for part in all.chunks(all.len().div_ceil(usize::try_from(pieces).unwrap())) {
                feed.produce(&input, part);
                std::thread::sleep(pause);
            }
        });
        let mut random = u64::from(std::process::id()) | 1;
        for round in 0..self.rounds {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let spread = u64::try_from((self.between.end - self.between.start).as_millis()).unwrap().max(1);
            std::thread::sleep(self.between.start + Duration::from_millis((random >> 33) % spread));
            let victim = round % self.instances;
            match how {
                Kill::Kill => {
                    instances.remove(victim).kill();
                    instances.insert(victim, start(victim));
                }
                Kill::Stop(time) => {
                    instances[victim].signal("STOP");
                    std::thread::sleep(*time);
                    instances[victim].signal("CONT");
                }
            }
        }
        feeder.join().unwrap();
        Survivors(instances)
    }
}

impl Survivors {
    /// All of them still run, and end well.
    pub fn drain(mut self) {
        for instance in &mut self.0 {
            instance.signal("TERM");
            let code = instance.wait(Duration::from_secs(20)).and_then(|s| s.code());
            assert_eq!(code, Some(0), "{}", instance.log());
        }
    }

    pub fn logs(&self) -> Vec<String> {
        self.0.iter().map(Instance::log).collect()
    }
}

/// How long each step of the child takes; given as the property `test.step.ms`, which does not reach the client.
pub fn step_time() -> Duration {
    let value = std::env::var(format!("{PREFIX}STEP_MS")).ok().and_then(|v| v.parse().ok());
    Duration::from_millis(value.unwrap_or(0))
}

/// The settings that the parent gave, in the child.
pub fn settings() -> Option<Settings> {
    let get = |name: &str| std::env::var(format!("{PREFIX}{name}")).ok();
    let millis = |name: &str| get(name).and_then(|v| v.parse().ok()).map(Duration::from_millis);
    let input = get("INPUT")?;
    let inputs: Vec<&str> = input.split(',').collect();
    let mut settings = Settings::new(get("BOOTSTRAP")?, get("GROUP")?, &inputs);
    settings.instance = get("INSTANCE")?;
    settings.static_membership = get("STATIC")? == "true";
    let outputs = get("OUTPUTS")?;
    let mut outputs = outputs.split(',').map(str::to_owned);
    settings.verdicts = outputs.next()?;
    settings.redacted = outputs.next()?;
    settings.deadletters = outputs.next()?;
    settings.sightings = outputs.next()?;
    let pins = get("PINS")?;
    let (pins, audit) = pins.split_once(',')?;
    (settings.pins, settings.pins_audit) = (pins.to_owned(), audit.to_owned());
    settings.session_timeout = millis("SESSION_MS")?;
    settings.transaction_timeout = millis("TRANSACTION_MS")?;
    Some(settings)
}
