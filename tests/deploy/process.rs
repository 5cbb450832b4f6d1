//! Processes under test, what they answer, and topics for them.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(90);

/// A process. It is ended with its test, by its own id.
pub struct Running {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let log = tempfile::NamedTempFile::new().unwrap();
        let file = log.reopen().unwrap();
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Running { child, log }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// Asks until the answer holds.
    pub fn get(&mut self, port: u16, path: &str, holds: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + LIMIT;
        let mut last = String::new();
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it ended with {status}\n{}", self.log());
            }
            last = get(port, path).unwrap_or_default();
            if holds(&last) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{path}: {last}\n{}", self.log());
    }

    /// SIGTERM, and how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        let status = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
        self.end()
    }

    /// Waits for its own end.
    pub fn end(&mut self) -> ExitStatus {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it does not end\n{}", self.log());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200")
}

/// The sum of a counter over its labels.
pub fn sum(metrics: &str, name: &str) -> f64 {
    let lines = metrics.lines().filter(|l| l.starts_with(name));
    lines.filter_map(|l| l.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

pub fn create(bootstrap: &str, topic: &str, partitions: i32) {
    let admin: AdminClient<DefaultClientContext> =
        rdkafka::ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    let topic = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let made = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}
