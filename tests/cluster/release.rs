//! A release of the chart in a namespace: what Helm does, and what then stands there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::control_plane::{Cluster, DRY, YAML, documents, items, text};
use crate::fixture::root;

pub const RELEASE: &str = "gate";
/// Where what values would make of nothing is tried.
pub const TWIN: &str = "twin-of-all";

pub type Objects = BTreeMap<String, Value>;

pub struct Run<'a> {
    pub cluster: &'a Cluster,
    pub passed: u32,
    pub failed: u32,
    pub figures: Vec<(String, u32)>,
    helm: PathBuf,
    folder: PathBuf,
    files: u32,
}

/// How Helm ended: well or not, what it printed, and what it said beside.
pub struct Done {
    pub well: bool,
    pub out: String,
    pub said: String,
}

impl<'a> Run<'a> {
    pub fn new(helm: &Path, cluster: &'a Cluster, folder: &Path) -> Run<'a> {
        let (helm, folder) = (helm.to_owned(), folder.to_owned());
        Run { cluster, passed: 0, failed: 0, figures: Vec::new(), helm, folder, files: 0 }
    }

    pub fn check(&mut self, holds: bool, what: &str, detail: impl std::fmt::Display) -> bool {
        if holds {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("FAILED {what}: {}", detail.to_string().chars().take(1_500).collect::<String>());
        }
        holds
    }

    pub fn count(&mut self, what: &str, number: usize) {
        let number = u32::try_from(number).unwrap();
        match self.figures.iter_mut().find(|(known, _)| known == what) {
            Some((_, so_far)) => *so_far += number,
            None => self.figures.push((what.to_owned(), number)),
        }
    }

    pub fn helm(&self, namespace: &str, arguments: &[&str]) -> Done {
        let mut command = Command::new(&self.helm);
        command.args(arguments).args(["--namespace", namespace]).env("KUBECONFIG", &self.cluster.kubeconfig);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, &self.folder);
        }
        let done = command.output().expect("helm");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Done { well: done.status.success(), out: text(&done.stdout), said: text(&done.stderr).trim().to_owned() }
    }

    /// `helm VERB RELEASE CHART` with values as text.
    pub fn with(&mut self, namespace: &str, verb: &str, release: &str, values: &[&str], more: &[&str]) -> Done {
        let chart = root("helm/sluicegate").display().to_string();
        let mut arguments = vec![verb.to_owned(), release.to_owned(), chart];
        for text in values {
            self.files += 1;
            let path = self.folder.join(format!("values-{}.yaml", self.files));
            std::fs::write(&path, text).unwrap();
            arguments.extend(["--values".to_owned(), path.display().to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.helm(namespace, &arguments)
    }

    /// `helm install` or `helm upgrade`, which must be accepted without a warning.
    pub fn does(&mut self, verb: &str, namespace: &str, values: &[&str], to: &str) -> bool {
        let more: &[&str] = if verb == "upgrade" { &["--history-max", "0"] } else { &[] };
        let done = self.with(namespace, verb, RELEASE, values, more);
        self.count(&format!("{verb}s"), 1);
        let accepted = self.check(done.well, &format!("{namespace}: {verb} {to}"), &done.said);
        let silent = done.said.is_empty() || !done.well;
        self.check(silent, &format!("{namespace}: {verb} {to} without a warning"), &done.said);
        accepted
    }

    pub fn rolls_back(&mut self, namespace: &str, from: &str) {
        let done = self.helm(namespace, &["rollback", RELEASE, "1", "--history-max", "0"]);
        self.count("rollbacks", 1);
        self.check(done.well && done.said.is_empty(), &format!("{namespace}: rollback from {from}"), &done.said);
        let history = self.history(namespace);
        let last = history.last().cloned().unwrap_or_default();
        let told = (text(&last, "status"), text(&last, "description"));
        let holds = told == ("deployed", "Rollback to 1");
        self.check(holds, &format!("{namespace}: history after {from}"), &last);
    }

    pub fn history(&self, namespace: &str) -> Vec<Value> {
        let told = self.helm(namespace, &["history", RELEASE, "--output", "json"]).out;
        serde_json::from_str(&told).unwrap_or_default()
    }

    /// A new namespace under the restricted standard.
    pub fn namespace(&self, name: &str) -> String {
        let level = json!({"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"});
        self.cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": name, "labels": level}}));
        let account = json!({"metadata": {"name": "our-account"}});
        self.cluster.create(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account);
        let furnished = || {
            let found = self.cluster.objects(name);
            let wanted = ["ServiceAccount/default", "ConfigMap/kube-root-ca.crt"];
            wanted.iter().all(|w| found.contains_key(*w)).then_some(())
        };
        self.cluster.until(90, furnished).expect("a new namespace is furnished");
        name.to_owned()
    }

    pub fn keys(&self, namespace: &str) -> BTreeSet<String> {
        self.cluster.objects(namespace).into_keys().collect()
    }

    /// What Helm put there, as it was asked for; the name of the namespace is taken out.
    pub fn own(&self, namespace: &str) -> Objects {
        // What controllers make of it bears its annotations, and an owner.
        let ours = |item: &Value| {
            let meta = &item["metadata"];
            meta["annotations"]["meta.helm.sh/release-name"] == RELEASE && meta["ownerReferences"].is_null()
        };
        let all = self.cluster.objects(namespace).into_iter().filter(|(_, item)| ours(item));
        all.map(|(key, item)| (key, plain(item, namespace))).collect()
    }

    /// What these values make where nothing was: each object created, and not kept, by the server.
    pub fn fresh(&mut self, values: &[&str]) -> Objects {
        let done = self.with(TWIN, "template", RELEASE, values, &["--no-hooks", "--kube-version", "1.37.2"]);
        assert!(done.well, "{}", done.said);
        let mut made = Objects::new();
        for document in &documents(&done.out) {
            let (key, all, _) = self.cluster.place(document, TWIN);
            let answer = self.cluster.ask("POST", &format!("{all}{DRY}"), Some((YAML, document)));
            self.count("strict creations in dry runs", 1);
            let holds = answer.status == 201 && answer.warnings.is_empty();
            self.check(holds, &format!("{key} is made strictly"), format!("{} {:?}", answer.body, answer.warnings));
            if answer.status == 201 {
                made.insert(key, plain(answer.body, TWIN));
            }
        }
        made
    }

    /// Object by object what a first installation would be; and no object more.
    pub fn same(&mut self, namespace: &str, mut expected: Objects, what: &str) {
        let mut found = self.own(namespace);
        let [there, wanted] = [&found, &expected].map(|o| o.keys().cloned().collect::<BTreeSet<_>>());
        let other: Vec<_> = there.symmetric_difference(&wanted).collect();
        self.check(other.is_empty(), &format!("{namespace}: objects after {what}"), format!("{other:?}"));
        // Whoever scales says how many.
        let scaled = wanted.iter().any(|k| k.starts_with("HorizontalPodAutoscaler/") || k.starts_with("ScaledObject/"));
        for key in there.intersection(&wanted) {
            let (Some(found), Some(expected)) = (found.get_mut(key), expected.get_mut(key)) else { continue };
            if scaled && ["StatefulSet", "Deployment"].contains(&text(found, "kind")) {
                remove(&mut found["spec"], &["replicas"]);
                remove(&mut expected["spec"], &["replicas"]);
            }
            self.count("objects compared", 1);
            let differences = differences(found, expected, "");
            self.check(found == expected, &format!("{namespace}: {key} after {what}"), differences);
        }
    }

    /// The controller has seen the workload and made its pods: its revision, and the pods.
    pub fn settled(&mut self, namespace: &str) -> (String, Vec<Value>) {
        let look = || settled(&self.cluster.objects(namespace));
        let Some(found) = self.cluster.until(60, look) else {
            let events = self.cluster.get(&format!("/api/v1/namespaces/{namespace}/events"));
            let said = items(&events, "items").iter().rev().find(|e| e["type"] == "Warning").cloned();
            self.check(false, &format!("{namespace}: the pods are made"), said.unwrap_or_default());
            return Default::default();
        };
        found
    }

    pub fn uninstalls(&mut self, namespace: &str, before: &BTreeSet<String>, left: &[&str]) {
        let done = self.helm(namespace, &["uninstall", RELEASE]);
        self.count("uninstalls", 1);
        self.check(done.well && done.said.is_empty(), &format!("{namespace}: uninstall"), &done.said);
        let wanted: BTreeSet<String> = before.iter().cloned().chain(left.iter().map(|&l| l.to_owned())).collect();
        let gone = self.cluster.until(60, || (self.keys(namespace) == wanted).then_some(())).is_some();
        let keys = self.keys(namespace);
        let other: Vec<_> = keys.symmetric_difference(&wanted).collect();
        self.check(gone, &format!("{namespace}: what an uninstallation leaves"), format!("{other:?}"));
    }
}

fn settled(objects: &Objects) -> Option<(String, Vec<Value>)> {
    let of = |kinds: &[&str]| {
        let is = |key: &str| kinds.iter().any(|kind| key.split('/').next() == Some(*kind));
        objects.iter().filter(|(key, _)| is(key)).map(|(_, item)| item).cloned().collect::<Vec<_>>()
    };
    let mut works = of(&["StatefulSet", "Deployment"]);
    works.retain(|w| w["metadata"]["deletionTimestamp"].is_null());
    let [work] = works.as_slice() else { return None };
    let component = |pod: &Value| pod["metadata"]["labels"]["app.kubernetes.io/component"] == "service";
    let pods: Vec<Value> = of(&["Pod"]).into_iter().filter(component).collect();
    let all = work["spec"]["replicas"].as_u64().is_some_and(|n| pods.len() as u64 >= n);
    let seen = work["status"]["observedGeneration"] == work["metadata"]["generation"];
    if !seen || pods.is_empty() || !(all || work["spec"]["podManagementPolicy"] == "OrderedReady") {
        return None;
    }
    if work["kind"] == "StatefulSet" {
        return Some((text(&work["status"], "updateRevision").to_owned(), pods));
    }
    let revision = |item: &Value| item["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone();
    let now = revision(work);
    let set = of(&["ReplicaSet"]).into_iter().find(|set| revision(set) == now)?;
    Some((text(&set["metadata"]["labels"], "pod-template-hash").to_owned(), pods))
}

pub fn remove(from: &mut Value, names: &[&str]) {
    if let Value::Object(table) = from {
        names.iter().for_each(|name| drop(table.remove(*name)));
    }
}

fn retain(from: &mut Value, keep: impl Fn(&str) -> bool) {
    if let Value::Object(table) = from {
        table.retain(|name, _| keep(name));
    }
}

/// What was asked for, and defaults: no identity, no history, no state, no mark of Helm.
fn plain(mut item: Value, namespace: &str) -> Value {
    let kind = text(&item, "kind").to_owned();
    remove(&mut item, &["status"]);
    let added = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
    remove(&mut item["metadata"], &added);
    if kind == "Service" && item["spec"]["clusterIP"] != "None" {
        remove(&mut item["spec"], &["clusterIP", "clusterIPs"]);
    }
    if kind == "Job" {
        // The controller's mark, which it makes anew for each Job.
        for labels in ["/metadata/labels", "/spec/template/metadata/labels", "/spec/selector/matchLabels"] {
            if let Some(labels) = item.pointer_mut(labels) {
                retain(labels, |name| !name.ends_with("controller-uid") && !name.ends_with("job-name"));
            }
        }
    }
    let meta = &mut item["metadata"];
    let ours = !text(&meta["labels"], "helm.sh/chart").is_empty();
    if let Some(notes) = meta.get_mut("annotations") {
        let state = ["deployment.kubernetes.io/revision", "batch.kubernetes.io/job-tracking"];
        retain(notes, |name| !name.starts_with("meta.helm.sh/") && !state.contains(&name));
    }
    // An object of the operator's own, which Helm marks.
    if let Some(labels) = meta.get_mut("labels").filter(|_| !ours) {
        remove(labels, &["app.kubernetes.io/managed-by"]);
    }
    if let Value::Object(meta) = meta {
        meta.retain(|name, value| {
            !(["annotations", "labels"].contains(&name.as_str()) && *value == Value::Object(Map::new()))
        });
    }
    serde_json::from_str(&item.to_string().replace(namespace, "NAMESPACE")).unwrap()
}

/// The first few places where two objects differ.
fn differences(found: &Value, expected: &Value, path: &str) -> String {
    let below: Vec<String> = match (found, expected) {
        _ if found == expected => return String::new(),
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            names
                .iter()
                .map(|n| differences(&found[n.as_str()], &expected[n.as_str()], &format!("{path}/{n}")))
                .collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().map(|(n, (a, b))| differences(a, b, &format!("{path}/{n}"))).collect()
        }
        _ => return format!("{path} is {found}, not {expected}"),
    };
    below.into_iter().filter(|text| !text.is_empty()).take(5).collect::<Vec<_>>().join("; ")
}
