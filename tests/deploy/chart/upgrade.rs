//! What an upgrade may not change, and what must make it replace pods.

use super::render::{CHART, LATEST, cases, copy, items, kind, name, of_kind, pod, template, text, with, workload};
use super::tools;
use crate::files::{read, root};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Fields that Kubernetes refuses to change, by object.
fn immutable(objects: &[Value]) -> BTreeMap<String, Value> {
    let of = |object: &Value| match kind(object) {
        "StatefulSet" => Some(json!([
            object["spec"]["selector"],
            object["spec"]["serviceName"],
            object["spec"]["podManagementPolicy"],
            object["spec"]["volumeClaimTemplates"],
        ])),
        "Deployment" => Some(object["spec"]["selector"].clone()),
        "Service" => Some(object["spec"]["clusterIP"].clone()),
        _ => None,
    };
    objects.iter().filter_map(|o| Some((format!("{} {}", kind(o), name(o)), of(o)?))).collect()
}

const NEXT: &str = "image: {tag: 9.9.9}\ncommonLabels: {team: other}\nreplicaCount: 5\npodLabels: {a: b}\nhttp: {port: 9999}\n\
                    config: {kafka: {group: other}}\npolicy: {profile: strict}\npodMonitor: {enabled: true}\n";

#[test]
fn selectors_are_stable() {
    let Some(helm) = tools::helm() else { return };
    let next = copy();
    let manifest = next.path().join("Chart.yaml");
    let text = read(&manifest)
        .replace("version: 0.1.0", "version: 9.9.9")
        .replace("appVersion: \"0.1.0\"", "appVersion: \"9.9.9\"");
    assert!(text.contains("version: 9.9.9") && text.contains("appVersion: \"9.9.9\""));
    std::fs::write(&manifest, text).expect("written");
    for kind in ["StatefulSet", "Deployment"] {
        let of = format!("workload: {{kind: {kind}}}\n");
        let before = with(helm, &root(CHART), &of).expect("it renders");
        let after = with(helm, next.path(), &format!("{of}{NEXT}")).expect("it renders");
        assert_eq!(immutable(&before), immutable(&after), "{kind}");
        // And what they are today stays so in all versions to come.
        let expected = json!({ "matchLabels": {
            "app.kubernetes.io/name": "sluicegate",
            "app.kubernetes.io/instance": "gate",
            "app.kubernetes.io/component": "service",
        }});
        assert_eq!(workload(&before)["spec"]["selector"], expected);
    }
}

/// Helm takes names with dots, of up to 53 characters; Services and pods take neither.
#[test]
fn every_name_of_a_release_makes_names_of_objects() {
    let Some(helm) = tools::helm() else { return };
    for release in ["a.release.with.dots", &"g".repeat(53), &format!("{}b", "a.".repeat(26)), "my.sluicegate"] {
        let mut command = Command::new(helm);
        command.args(["template", release, "--kube-version", LATEST]).arg(root(CHART)).arg("--values").arg(&cases()[0]);
        let output = command.args(["--set", "topicsJob.enabled=true"]).output().expect("Helm starts");
        assert!(output.status.success(), "{release}: {}", String::from_utf8_lossy(&output.stderr));
        let objects = super::yaml::documents(&String::from_utf8(output.stdout).expect("UTF-8"));
        for object in &objects {
            let name = name(object);
            assert!(!name.contains('.') && !name.ends_with('-') && name.len() <= 63, "{release}: {name}");
        }
        let selector = workload(&objects)["spec"]["selector"]["matchLabels"].clone();
        assert_eq!(selector["app.kubernetes.io/instance"], release, "the label is the release's name");
    }
}

/// A Job cannot be changed: what changes it changes its name.
#[test]
fn a_job_is_never_changed() {
    let Some(helm) = tools::helm() else { return };
    let job = |values: &str| {
        let objects = with(helm, &root(CHART), &format!("topicsJob: {{enabled: true, replication: 1}}\n{values}"));
        let objects = objects.expect("it renders");
        let job = of_kind(&objects, "Job")[0];
        (name(job).to_owned(), job["spec"]["template"]["spec"].clone())
    };
    let first = job("");
    assert_eq!(first, job("replicaCount: 3\n"), "what does not concern it leaves it");
    let changes = [
        "config: {kafka: {group: other}}\n",
        "image: {tag: 9.9.9}\n",
        "extraVolumes: [{name: a, emptyDir: {}}]\n",
        "extraEnv: [{name: A, value: b}]\n",
        "existingConfigMap: {name: other}\n",
        "test: {resources: {limits: {memory: 1Gi}}}\n",
    ];
    for change in changes {
        let next = job(change);
        assert_ne!(next.0, first.0, "{change}");
        assert!(next.1 != first.1 || change.contains("kafka"), "{change}: the pod is another");
    }
}

/// A changed configuration replaces the pods; what does not concern them does not.
#[test]
fn checksums_follow_the_configuration() {
    let Some(helm) = tools::helm() else { return };
    let sums = |values: &str| {
        let values = format!("policyReload: roll\n{values}");
        let objects = with(helm, &root(CHART), &values).expect("it renders");
        let set = workload(&objects).clone();
        let of = |what: &str| text(&set, &format!("/spec/template/metadata/annotations/checksum~1{what}")).to_owned();
        (of("config"), of("policy"))
    };
    let first = sums("");
    assert_eq!((first.0.len(), first.1.len()), (64, 64));
    let group = sums("config: {kafka: {group: other}}\n");
    assert!(group.0 != first.0 && group.1 == first.1);
    let policy = sums("policy: {profile: strict}\n");
    assert!(policy.0 == first.0 && policy.1 != first.1);
    let open = sums("breakGlass: {until: '2030-01-31T18:00:00Z', by: ada, reason: INC-1}\n");
    assert!(open.0 == first.0 && open.1 != first.1);
    // By default the pods read the mounted file again.
    let objects = with(helm, &root(CHART), "policy: {profile: strict}\n").expect("it renders");
    assert_eq!(text(&workload(&objects).clone(), "/spec/template/metadata/annotations/checksum~1policy"), "");
    // Memory and listener reach the file too.
    assert_ne!(sums("resources: {limits: {memory: 2Gi}}\n").0, first.0);
    assert_eq!(sums("replicaCount: 4\n"), first);
    assert_eq!(sums("existingConfigMap: {name: a}\n").0, "", "what it holds is not known");
    assert_eq!(sums("existingPolicyConfigMap: {name: a}\n").1, "");
}

/// What is packed has all that rendering needs.
#[test]
fn the_package_renders_the_same() {
    let Some(helm) = tools::helm() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut package = Command::new(helm);
    let output = package.arg("package").arg(root(CHART)).arg("--destination").arg(folder.path()).output();
    assert!(output.expect("Helm starts").status.success());
    let archive = folder.path().join(format!("sluicegate-{}.tgz", env!("CARGO_PKG_VERSION")));
    for path in cases() {
        let of = |chart: &Path| template(helm, chart, LATEST, &[&path]).expect("it renders");
        assert_eq!(of(&archive), of(&root(CHART)), "{path:?}");
    }
    let denied = "config: {kafka: {properties: {acks: '1'}}}\n";
    let Err(said) = with(helm, &archive, denied) else { panic!("the package lacks the list of refused properties") };
    assert!(said.contains("config.kafka.properties.acks: not allowed"), "{said}");
}

/// Everything that is rendered twice is the same: no time, no chance.
#[test]
fn rendering_is_reproducible() {
    let Some(helm) = tools::helm() else { return };
    let again = || with(helm, &root(CHART), "topicsJob: {enabled: true}\n").expect("it renders");
    let first = again();
    assert_eq!(first, again());
    let (_, spec) = pod(workload(&first)).expect("a pod");
    assert!(items(spec, "/containers").count() == 1);
}
