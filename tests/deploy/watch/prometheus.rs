//! A real Prometheus: found or fetched, run as a process of this test, asked over HTTP.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::files::root;
use crate::support::client::eventually;
use crate::support::free_port;

/// `prometheus` and `promtool`.
pub struct Tools {
    pub prometheus: PathBuf,
    pub promtool: PathBuf,
}

/// The tools; `None` where they cannot be had, which CI does not allow.
pub fn tools() -> Option<&'static Tools> {
    static TOOLS: OnceLock<Result<Tools, String>> = OnceLock::new();
    match TOOLS.get_or_init(find) {
        Ok(tools) => Some(tools),
        Err(reason) if std::env::var("CI").is_ok_and(|v| v == "true") => panic!("no Prometheus: {reason}"),
        Err(reason) => {
            println!("SKIPPED: {reason}");
            None
        }
    }
}

/// Those of the machine, else Debian's package, unpacked below `target`: it is not installed, so no service starts.
fn find() -> Result<Tools, String> {
    let at = |folder: &Path| {
        let tools = Tools { prometheus: folder.join("prometheus"), promtool: folder.join("promtool") };
        (tools.prometheus.is_file() && tools.promtool.is_file()).then_some(tools)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(tools) = std::env::split_paths(&path).find_map(|folder| at(&folder)) {
        return Ok(tools);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools/prometheus");
    let inside = folder.join("usr/bin");
    if let Some(tools) = at(&inside) {
        return Ok(tools);
    }
    // Made beside it and moved, so that it is there whole or not at all.
    let made = folder.with_extension(std::process::id().to_string());
    std::fs::create_dir_all(&made).map_err(|e| e.to_string())?;
    let download = || run(Command::new("apt-get").args(["download", "-q", "prometheus"]).current_dir(&made));
    // A machine that was just made has no lists of packages.
    download().or_else(|_| run(Command::new("apt-get").args(["update", "-q"])).and_then(|()| download()))?;
    let files = std::fs::read_dir(&made).map_err(|e| e.to_string())?;
    let package = files.flatten().map(|f| f.path()).find(|p| p.extension().is_some_and(|e| e == "deb"));
    let package = package.ok_or("apt-get left no package")?;
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&made))?;
    // Another process may have been faster.
    let moved = std::fs::rename(&made, &folder);
    if moved.is_err() {
        let _ = std::fs::remove_dir_all(&made);
    }
    at(&inside).ok_or_else(|| "Debian's package has no prometheus and promtool".to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("prometheus is not installed, and {name}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("prometheus is not installed, and {name} failed: {}", said.lines().last().unwrap_or_default()))
}

/// A command of promtool: all that it said, if it liked what it was given.
pub fn promtool(tools: &Tools, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(&tools.promtool)
        .args(arguments)
        .current_dir(root("helm/sluicegate/files"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).map_err(|e| e.to_string())?;
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// A running Prometheus; ended with this.
pub struct Prometheus {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

/// The labels of a series and its values at times.
#[derive(Clone)]
pub struct Answer {
    pub labels: BTreeMap<String, String>,
    pub points: Vec<(f64, f64)>,
}

impl Prometheus {
    /// Scrapes these every second, and knows the rules.
    pub fn start(tools: &Tools, targets: &[String]) -> Prometheus {
        let folder = tempfile::Builder::new().prefix("prometheus-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let targets = serde_json::to_string(targets).unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: [{:?}]\n\
             scrape_configs:\n  - job_name: sluicegate\n    static_configs: [{{targets: {targets}}}]\n",
            root("helm/sluicegate/files/alerts.yaml"),
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new(&tools.prometheus)
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let prometheus = Prometheus { child, address, folder };
        let ready = || get(&prometheus.address, "/-/ready").is_ok_and(|(status, _)| status == 200);
        assert!(eventually(Duration::from_secs(60), ready), "Prometheus does not start\n{}", prometheus.log());
        prometheus
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// `data` of an answer of the API.
    pub fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let mut query = String::new();
        for (name, value) in parameters {
            let value: String =
                percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).collect();
            let _ = write!(query, "{}{name}={value}", if query.is_empty() { '?' } else { '&' });
        }
        let (_, body) = get(&self.address, &format!("/api/v1/{path}{query}"))?;
        let answer: Value = serde_json::from_str(&body).map_err(|e| format!("{e}: {body}"))?;
        if answer["status"] == "success" { Ok(answer["data"].clone()) } else { Err(answer["error"].to_string()) }
    }

    /// The expression at one time.
    pub fn at(&self, expr: &str, time: f64) -> Result<Vec<Answer>, String> {
        Ok(answers(&self.api("query", &[("query", expr), ("time", &time.to_string())])?))
    }

    /// The expression at each second from one time to another.
    pub fn through(&self, expr: &str, from: f64, to: f64) -> Result<Vec<Answer>, String> {
        let (from, to) = (from.to_string(), to.to_string());
        Ok(answers(&self.api("query_range", &[("query", expr), ("start", &from), ("end", &to), ("step", "1")])?))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- prometheus\n{}", self.log());
        }
    }
}

fn answers(data: &Value) -> Vec<Answer> {
    let point = |p: &Value| Some((p[0].as_f64()?, p[1].as_str()?.parse().ok()?));
    let series = data["result"].as_array().cloned().unwrap_or_default();
    let one = |s: &Value| Answer {
        labels: serde_json::from_value(s["metric"].clone()).unwrap_or_default(),
        points: match &s["values"] {
            Value::Array(values) => values.iter().filter_map(point).collect(),
            _ => point(&s["value"]).into_iter().collect(),
        },
    };
    series.iter().map(one).collect()
}

/// HTTP/1.0: the whole answer, and then the end.
fn get(address: &str, path: &str) -> Result<(u16, String), String> {
    let mut stream = TcpStream::connect(address).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(|e| e.to_string())?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: x\r\n\r\n").map_err(|e| e.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|e| e.to_string())?;
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or("no status")?;
    Ok((status, answer.split_once("\r\n\r\n").ok_or("no body")?.1.to_owned()))
}
