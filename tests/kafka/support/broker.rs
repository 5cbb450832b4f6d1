//! One Apache Kafka broker (KRaft, combined roles) from Maven artifacts, started with the machine's Java.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::free_port;

/// As in `pom.xml`.
const VERSION: &str = "4.3.1";

pub struct Broker {
    pub bootstrap: String,
    /// The listener that wants SASL PLAIN: user `gate` and `sluicegate-<role>` for each role, password `secret`, at
    /// first without any permission.
    pub sasl: String,
    controller: u16,
    child: Child,
    libraries: PathBuf,
    directory: PathBuf,
    guard: Child,
}

impl Broker {
    /// Starts a broker on free loopback ports and waits until it answers.
    pub fn start() -> Result<Broker, String> {
        Broker::start_with("")
    }

    /// The same with more lines for its properties.
    pub fn start_with(more: &str) -> Result<Broker, String> {
        let (client, controller, sasl) = (free_port(), free_port(), free_port());
        Broker::format(client, sasl, controller, &["--standalone"], |data| {
            format!("{}{more}\n", settings(client, controller, sasl, data))
        })
    }

    /// A second broker of the same cluster, without the controller's role.
    pub fn second(&self, more: &str) -> Result<Broker, String> {
        let (client, controller, sasl) = (free_port(), self.controller, free_port());
        Broker::format(client, sasl, controller, &["--no-initial-controllers"], |data| {
            let all = settings(client, controller, sasl, data);
            let lines = all.lines().map(|line| match line.split_once('=') {
                Some(("process.roles", _)) => "process.roles=broker".to_owned(),
                Some(("node.id", _)) => "node.id=2".to_owned(),
                Some((name @ ("listeners" | "advertised.listeners"), all)) => {
                    format!("{name}={}", all.rsplit_once(',').map_or(all, |(kept, _)| kept))
                }
                _ => line.to_owned(),
            });
            lines.chain([more.to_owned(), String::new()]).collect::<Vec<_>>().join("\n")
        })
    }

    fn format(
        client: u16,
        sasl: u16,
        controller: u16,
        how: &[&str],
        properties: impl FnOnce(&Path) -> String,
    ) -> Result<Broker, String> {
        let libraries = libraries()?;
        let directory = tempfile::Builder::new().prefix("sluicegate-kafka-").tempdir().map_err(text)?.keep();
        let lines = properties(&directory);
        let properties = directory.join("server.properties");
        fs::write(&properties, lines).map_err(text)?;
        fs::write(directory.join("log4j2.xml"), LOGGING).map_err(text)?;
        let output = java(&libraries, &directory)
            .args(["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"])
            .arg(&properties)
            .args(how)
            .output()
            .map_err(text)?;
        if !output.status.success() {
            return Err(format!("storage format failed: {}", String::from_utf8_lossy(&output.stdout)));
        }
        let mut guard = guard(&directory)?;
        let child = spawn(&libraries, &directory, &mut guard)?;
        let bootstrap = format!("127.0.0.1:{client}");
        let sasl = format!("127.0.0.1:{sasl}");
        let mut broker = Broker { bootstrap, sasl, controller, child, libraries, directory, guard };
        broker.wait()?;
        Ok(broker)
    }

    /// Ends the broker with a signal and starts it again with its data.
    pub fn restart(&mut self, signal: &str, pause: Duration) {
        self.signal(signal);
        self.child.wait().unwrap();
        std::thread::sleep(pause);
        self.child = spawn(&self.libraries, &self.directory, &mut self.guard).unwrap();
        self.wait().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    fn wait(&mut self) -> Result<(), String> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("log_level", "0")
            .create()
            .map_err(text)?;
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the broker ended with {status}\n{}", self.log_tail()));
            }
            if consumer.fetch_metadata(None, Duration::from_millis(500)).is_ok_and(|m| !m.brokers().is_empty()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("the broker did not answer\n{}", self.log_tail()))
    }

    /// The last lines of the broker's log, for a failed test.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.directory.join("broker.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("broker log in {}:\n{}", self.directory.display(), self.log_tail());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.guard.wait();
    }
}

/// Statics are not dropped at exit, and a killed test drops nothing: a shell holds the read end of a pipe to this
/// process, and ends the last broker it was told of, by its own process id, when the pipe closes.
fn guard(directory: &Path) -> Result<Child, String> {
    let script = format!(
        "while read p; do pid=$p; done; [ -n \"$pid\" ] && kill -9 $pid 2>/dev/null; rm -rf '{}'",
        directory.display()
    );
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(text)
}

fn spawn(libraries: &Path, directory: &Path, guard: &mut Child) -> Result<Child, String> {
    let log = fs::File::options().create(true).append(true).open(directory.join("broker.log")).map_err(text)?;
    let child = java(libraries, directory)
        .arg("kafka.Kafka")
        .arg(directory.join("server.properties"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(text)?)
        .stderr(log)
        .spawn()
        .map_err(text)?;
    if let Some(pipe) = &mut guard.stdin {
        writeln!(pipe, "{}", child.id()).map_err(text)?;
    }
    Ok(child)
}

/// The broker's jars, fetched once for all test runs.
fn libraries() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let libraries = target.join(format!("kafka-libs-{VERSION}"));
    for tool in ["java", "mvn"] {
        let found = Command::new(tool).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if tool == "mvn" && libraries.join("complete").exists() {
            continue;
        }
        if !found.is_ok_and(|status| status.success()) {
            return Err(format!("{tool} is not installed"));
        }
    }
    if libraries.join("complete").exists() {
        return Ok(libraries);
    }
    let output = Command::new("mvn")
        .args(["-q", "-B", "-ntp", "-f"])
        .arg(root.join("tests/kafka/pom.xml"))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", libraries.display()))
        .output()
        .map_err(text)?;
    if !output.status.success() {
        return Err(format!("mvn could not fetch the broker: {}", String::from_utf8_lossy(&output.stdout)));
    }
    fs::write(libraries.join("complete"), VERSION).map_err(text)?;
    Ok(libraries)
}

fn java(libraries: &Path, directory: &Path) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true"])
        .arg(format!("-Dlog4j2.configurationFile={}", directory.join("log4j2.xml").display()))
        .arg("-cp")
        .arg(format!("{}/*", libraries.display()))
        .current_dir(directory);
    java
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

const LOGGING: &str = r#"<Configuration status="ERROR"><Appenders><Console name="c"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="c"/></Root></Loggers></Configuration>"#;

/// Without the replication lines, groups and transactions would wait for replicas that never come.
fn settings(client: u16, controller: u16, sasl: u16, directory: &Path) -> String {
    let data = directory.join("data");
    let roles = ["service", "gate", "host", "reviewer", "producer", "admin"];
    let roles = roles.map(|role| format!("user_sluicegate-{role}=\"secret\"")).join(" ");
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{client},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{client},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_gate=\"secret\" {roles};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=false
log.dirs={}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
min.insync.replicas=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.cleaner.backoff.ms=500
log.cleaner.min.cleanable.ratio=0.01
log.segment.bytes=16777216
num.network.threads=2
num.io.threads=2
",
        data.display()
    )
}
