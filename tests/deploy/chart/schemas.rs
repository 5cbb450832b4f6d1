//! Every object against the schemas of Kubernetes, with unknown fields refused.

use super::render::{CHART, all, cases, file_name, kind, template, workload};
use super::{tools, yaml};
use crate::files::{read, root};
use jsonschema::{Retrieve, Uri, Validator};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The versions that the chart is rendered for: from the least that `Chart.yaml` takes.
const VERSIONS: [&str; 9] = ["1.29.0", "1.30.0", "1.31.0", "1.32.0", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0"];
/// Kinds of operators, which the tests of `operators` hold.
const FOREIGN: [&str; 4] = ["PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject"];
const DEFINITIONS: &str = "https://kubernetes.io/api/_definitions.json";

struct Schemas {
    definitions: Value,
    compiled: BTreeMap<(String, String), Validator>,
}

/// Answers for the one file that is referred to.
struct Definitions(Value);

impl Retrieve for Definitions {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        match uri.as_str() {
            DEFINITIONS => Ok(self.0.clone()),
            other => Err(format!("{other} is not a schema of Kubernetes").into()),
        }
    }
}

impl Schemas {
    fn of(folder: &Path, version: &str) -> Schemas {
        let file = folder.join(format!("v{version}-local-strict/_definitions.json"));
        Schemas { definitions: serde_json::from_str(&read(file)).expect("JSON"), compiled: BTreeMap::new() }
    }

    /// What is wrong with an object.
    fn problems(&mut self, object: &Value) -> Vec<String> {
        let (group, version) = match object["apiVersion"].as_str().unwrap_or_default().split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", object["apiVersion"].as_str().unwrap_or_default()),
        };
        let key = (object["apiVersion"].to_string(), kind(object).to_owned());
        if !self.compiled.contains_key(&key) {
            let wanted = json!({ "group": group, "version": version, "kind": kind(object) });
            let known = self.definitions["$defs"].as_object().expect("definitions").iter().find(|(_, schema)| {
                schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|all| all.contains(&wanted))
            });
            let Some((definition, _)) = known else { return vec![format!("no schema of {key:?}")] };
            let schema = json!({ "$ref": format!("{DEFINITIONS}#/$defs/{definition}") });
            let options = jsonschema::options().with_retriever(Definitions(self.definitions.clone()));
            self.compiled.insert(key.clone(), options.build(&schema).expect("a schema"));
        }
        self.compiled[&key].iter_errors(object).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }
}

#[test]
fn every_object_fits_the_schemas_of_kubernetes() {
    let (Some(helm), Some(folder)) = (tools::helm(), tools::schemas()) else { return };
    let (mut validated, mut foreign, mut wrong) = (0, 0, Vec::new());
    for version in VERSIONS {
        let mut schemas = Schemas::of(folder, version);
        for path in cases() {
            let text = template(helm, &root(CHART), version, &[&path]).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            for object in yaml::documents(&text) {
                if FOREIGN.contains(&kind(&object)) {
                    foreign += 1;
                    continue;
                }
                validated += 1;
                let problems = schemas.problems(&object);
                wrong.extend(problems.iter().map(|p| format!("{version} {} {}: {p}", file_name(&path), kind(&object))));
            }
        }
    }
    println!(
        "figures: {} values files x {} versions of Kubernetes: {validated} objects validated, {foreign} of other kinds",
        cases().len(),
        VERSIONS.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(validated > 900, "{validated}");
    let manifest = yaml::document(&read(root(CHART).join("Chart.yaml")));
    assert_eq!(manifest["kubeVersion"], format!(">={}-0", VERSIONS[0]), "the least version is the first of these");
    let minor = |version: &str| version.trim_end_matches(".0").to_owned();
    let said = format!("Helm 3.22 for Kubernetes {} to {}", minor(VERSIONS[0]), minor(VERSIONS[VERSIONS.len() - 1]));
    assert!(read(root(CHART).join("README.md")).contains(&said) && tools::HELM.starts_with("v3.22."), "{said}");
}

/// What the schemas must find, or the test above shows nothing.
#[test]
fn the_schemas_find_what_is_wrong() {
    let (Some(all), Some(folder)) = (all(), tools::schemas()) else { return };
    let set = workload(&all[0].objects);
    for version in VERSIONS {
        let mut schemas = Schemas::of(folder, version);
        assert_eq!(schemas.problems(set), Vec::<String>::new());
        for (at, value) in [
            ("/spec/replicas", json!("two")),
            ("/spec/template/spec/containers/0/resources", json!({ "request": {} })),
            ("/spec/template/spec/containers/0/readinessProbe/httpGet/port", Value::Null),
            ("/spec/serviceName", json!(1)),
            ("/spec/template/spec/volumes/0", json!({ "name": "a", "configmap": {} })),
        ] {
            let mut broken = set.clone();
            *broken.pointer_mut(at).expect("a field") = value;
            assert_ne!(schemas.problems(&broken), Vec::<String>::new(), "{version} {at}");
        }
        let unknown = json!({ "apiVersion": "apps/v1", "kind": "Statefulset" });
        assert_eq!(schemas.problems(&unknown).len(), 1);
    }
}

#[test]
fn helm_lint_finds_nothing() {
    let Some(helm) = tools::helm() else { return };
    for path in cases() {
        let mut lint = Command::new(helm);
        lint.args(["lint", "--strict", "--kube-version", "1.37.0", "--values"]).arg(&path).arg(root(CHART));
        let output = lint.output().expect("Helm starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !said.contains("[WARNING]"), "{}: {said}", file_name(&path));
    }
}
