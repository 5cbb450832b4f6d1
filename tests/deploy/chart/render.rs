//! Rendering, and ways through what was rendered.

use super::{tools, yaml};
use crate::files::{read, root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub const CHART: &str = "helm/sluicegate";
pub const RELEASE: &str = "gate";
pub const NAMESPACE: &str = "agents";
pub const LATEST: &str = "1.37.0";

/// A values file and what the chart makes of it.
pub struct Rendered {
    pub file: String,
    pub values: Value,
    pub objects: Vec<Value>,
}

/// The values files of `ci/`, in order.
pub fn cases() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root(CHART).join("ci")).expect("the folder ci");
    let mut files: Vec<PathBuf> = folder.flatten().map(|e| e.path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{files:?}");
    files
}

/// The file's name.
pub fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// What Helm renders, or why it refuses.
pub fn template(helm: &Path, chart: &Path, version: &str, files: &[&Path]) -> Result<String, String> {
    let mut command = Command::new(helm);
    command.args(["template", RELEASE]).arg(chart).args(["--namespace", NAMESPACE, "--kube-version", version]);
    for file in files {
        command.arg("--values").arg(file);
    }
    let output = command.env("KUBECONFIG", "/dev/null").output().expect("Helm starts");
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("UTF-8")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Every case, rendered once. `None`: no Helm, which was said.
pub fn all() -> Option<&'static [Rendered]> {
    static ALL: OnceLock<Vec<Rendered>> = OnceLock::new();
    let helm = tools::helm()?;
    Some(ALL.get_or_init(|| {
        let one = |path: PathBuf| {
            let text = template(helm, &root(CHART), LATEST, &[&path]).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            Rendered { file: file_name(&path), values: yaml::document(&read(&path)), objects: yaml::documents(&text) }
        };
        cases().into_iter().map(one).collect()
    }))
}

/// The chart rendered with the first case and this text of values over it.
pub fn with(helm: &Path, chart: &Path, values: &str) -> Result<Vec<Value>, String> {
    let over = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(over.path(), values).expect("written");
    let first = cases().remove(0);
    template(helm, chart, LATEST, &[&first, over.path()]).map(|text| yaml::documents(&text))
}

/// Why Helm refuses these values.
pub fn refusal(helm: &Path, values: &str) -> String {
    match with(helm, &root(CHART), values) {
        Ok(_) => panic!("not refused: {values}"),
        Err(said) => said,
    }
}

/// A copy of the chart that a test may change, with alerts and a dashboard of its own.
pub fn copy() -> tempfile::TempDir {
    fn copied(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("a folder").flatten() {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if from.is_dir() {
                copied(&from, &to);
            } else {
                std::fs::copy(&from, &to).expect("copied");
            }
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    copied(&root(CHART), folder.path());
    for place in ["files", "dashboards"] {
        std::fs::create_dir_all(folder.path().join(place)).expect("a folder");
    }
    for old in std::fs::read_dir(folder.path().join("dashboards")).expect("dashboards").flatten() {
        std::fs::remove_file(old.path()).expect("removed");
    }
    std::fs::write(folder.path().join("files/alerts.yaml"), ALERTS).expect("alerts");
    std::fs::write(folder.path().join("dashboards/1-overview.json"), DASHBOARD).expect("a dashboard");
    folder
}

const ALERTS: &str = r#"groups:
  - name: first
    rules:
      - record: sluicegate:rate
        expr: sum(rate(sluicegate_verdicts_total[5m]))
      - alert: SluicegateLabelOverflow
        expr: absent(up{job="sluicegate"})
        labels: {severity: page}
      - alert: Slow
        expr: sluicegate_consumer_lag_seconds > 60
        for: 5m
        labels: {severity: ticket, area: lag}
        annotations: {summary: "{{ $labels.topic }} is {{ $value }} s behind", runbook_url: deploy/runbooks/Slow.md}
  - name: second
    rules:
      - alert: SluicegateLabelOverflow
        expr: "1"
"#;
pub const DASHBOARD: &str = "{\n  \"title\": \"{{ not a template }}\",\n  \"uid\": \"a\"\n}\n";

/// The text at a pointer, empty where there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list at a pointer; none where there is none.
pub fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

pub fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub fn of_kind<'a>(objects: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    objects.iter().filter(|o| kind(o) == wanted).collect()
}

/// The one object of that kind.
pub fn one<'a>(objects: &'a [Value], wanted: &str) -> &'a Value {
    let found = of_kind(objects, wanted);
    assert_eq!(found.len(), 1, "{wanted}");
    found[0]
}

/// The StatefulSet or the Deployment.
pub fn workload(objects: &[Value]) -> &Value {
    let found: Vec<&Value> = objects.iter().filter(|o| ["StatefulSet", "Deployment"].contains(&kind(o))).collect();
    assert_eq!(found.len(), 1, "workloads");
    found[0]
}

/// A pod, or the pod of a template: its labels and its spec.
pub fn pod(object: &Value) -> Option<(&Value, &Value)> {
    let at = match kind(object) {
        "Pod" => object,
        "StatefulSet" | "Deployment" | "Job" | "DaemonSet" | "ReplicaSet" => object.pointer("/spec/template")?,
        "CronJob" => object.pointer("/spec/jobTemplate/spec/template")?,
        _ => return None,
    };
    Some((at.pointer("/metadata/labels")?, at.pointer("/spec")?))
}

/// Init containers and containers of a pod.
pub fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    items(spec, "/initContainers").chain(items(spec, "/containers"))
}

/// The containers of the chart, not those that a values file adds.
pub fn own_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    containers(spec).filter(|c| ["sluicegate", "validate", "topics", "apply"].contains(&text(c, "/name")))
}
