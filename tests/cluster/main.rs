//! The chart on a real API server: `cluster HELM PROGRAMS RESOURCES [CHECK...]`, as `tests/cluster/run` calls it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read files and clocks, run tools, and fail by panicking"
)]

mod cases;
mod control_plane;
#[allow(dead_code, reason = "shared with the tests of the runtime, which use all of it")]
#[path = "../runtime/fixture.rs"]
mod fixture;
#[allow(dead_code, reason = "shared with the tests of what is deployed, which use all of it")]
#[path = "../deploy/process.rs"]
mod process;
mod release;
#[allow(dead_code, reason = "shared with the tests against Kafka, which use all of it")]
#[path = "../kafka/support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};

use cases::{DAY_TWO, REFUSED, STEPS, STEPS_OF_A_DEPLOYMENT, STEPS_OF_A_SET};
use control_plane::{Cluster, DRY, JSON, YAML, documents, items, text};
use release::{RELEASE, Run, TWIN, remove};

type Check = (&'static str, fn(&mut Run<'_>));
const CHECKS: [Check; 9] = [
    ("finds_what_is_wrong", finds_what_is_wrong),
    ("installs", installs),
    ("upgrades", upgrades),
    ("day_two", day_two),
    ("kept", kept),
    ("recovers", recovers),
    ("documented", documented),
    ("names", names),
    ("refusals", refusals),
];
/// Kinds of operators that the chart makes, as files of their definitions begin.
const FOREIGN: [&str; 4] = [
    "monitoring.coreos.com_podmonitors",
    "monitoring.coreos.com_servicemonitors",
    "monitoring.coreos.com_prometheusrules",
    "keda.sh_scaledobjects",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [helm, programs, definitions, wanted @ ..] = arguments.as_slice() else {
        println!("needs a control plane: `make test-cluster`");
        return ExitCode::SUCCESS;
    };
    let unknown: Vec<&String> = wanted.iter().filter(|w| !CHECKS.iter().any(|(name, _)| name == w)).collect();
    let known = CHECKS.map(|(name, _)| name).join(", ");
    assert!(unknown.is_empty(), "no check {unknown:?}: {known}");
    let (began, folder) = (Instant::now(), tempfile::tempdir().unwrap());
    let cluster = Cluster::start(Path::new(programs), folder.path());
    let mut run = Run::new(Path::new(helm), &cluster, folder.path());
    prepare(&mut run, Path::new(definitions));
    for (name, check) in CHECKS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name)) {
        let (start, so_far) = (Instant::now(), run.passed);
        check(&mut run);
        println!("{name}: {} held ({} s)", run.passed - so_far, start.elapsed().as_secs());
    }
    let version = programs.rsplit('-').next().unwrap_or_default();
    let figures: Vec<String> = run.figures.iter().map(|(what, n)| format!("{n} {what}")).collect();
    println!("figures: Kubernetes {version}, {}", figures.join(", "));
    let (passed, failed) = (run.passed, run.failed);
    println!("cluster: {passed} passed, {failed} failed, 0 skipped ({} s)", began.elapsed().as_secs());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn prepare(run: &mut Run<'_>, definitions: &Path) {
    let mut files: Vec<_> = std::fs::read_dir(definitions).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if FOREIGN.iter().any(|f| name.starts_with(f)) {
            let definition = std::fs::read_to_string(&file).unwrap();
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let answer = run.cluster.ask("POST", path, Some((YAML, &definition)));
            run.check(answer.status == 201, &name, answer.body);
        }
    }
    let cluster = run.cluster;
    let priority = json!({"metadata": {"name": "agents-high"}, "value": 1000});
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", &priority);
    let class = json!({"metadata": {"name": "gvisor"}, "handler": "runsc"});
    cluster.create("/apis/node.k8s.io/v1/runtimeclasses", &class);
    let served = || {
        let kinds = cluster.discover();
        let wanted = ["PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject"];
        wanted.iter().all(|w| kinds.iter().any(|k| k == w)).then_some(())
    };
    cluster.until(60, served).expect("the kinds of operators are served");
    run.namespace(TWIN);
}

/// The values files of the chart: number, name and text.
fn values() -> Vec<(String, String, String)> {
    let mut all: Vec<_> =
        std::fs::read_dir(fixture::root("helm/sluicegate/ci")).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    let parts = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name[..2].to_owned(), name, std::fs::read_to_string(path).unwrap())
    };
    all.iter().map(parts).collect()
}

fn first() -> String {
    values().remove(0).2
}

/// Each values file: installed under the restricted standard, read back, its pods made, taken away again.
fn installs(run: &mut Run<'_>) {
    for (number, name, values) in values() {
        let space = run.namespace(&format!("in-case-{number}"));
        let before = run.keys(&space);
        if !run.does("install", &space, &[&values], &name) {
            continue;
        }
        let wanted = run.fresh(&[&values]);
        run.same(&space, wanted, &name);
        let manifest = run.helm(&space, &["get", "manifest", RELEASE]).out;
        for document in &documents(&manifest) {
            let (key, _, path) = run.cluster.place(document, &space);
            let mut live = run.cluster.get(&path);
            // Applied over itself, what was rendered changes nothing: the server holds it, field by field.
            let apply = format!("{path}{DRY}&fieldManager=check&force=true");
            let mut again = run.cluster.ask("PATCH", &apply, Some(("application/apply-patch+yaml", document)));
            for item in [&mut live, &mut again.body] {
                remove(&mut item["metadata"], &["managedFields", "resourceVersion"]);
            }
            run.count("objects read back", 1);
            let holds = again.status == 200 && live == again.body && again.warnings.is_empty();
            let detail = format!("{} {:?}", again.body, again.warnings);
            run.check(holds, &format!("{space}: {key} is what was rendered"), detail);
        }
        let hooks = run.helm(&space, &["get", "hooks", RELEASE]).out;
        for document in &documents(&hooks) {
            let (key, all, _) = run.cluster.place(document, &space);
            let made = run.cluster.ask("POST", &format!("{all}{DRY}"), Some((YAML, document)));
            run.count("pods of `helm test` admitted in dry runs", 1);
            let holds = made.status == 201 && made.warnings.is_empty();
            run.check(holds, &format!("{space}: {key} of `helm test`"), format!("{} {:?}", made.body, made.warnings));
        }
        let (_, pods) = run.settled(&space);
        run.count("pods admitted", pods.len());
        let token = values.contains("automountToken: true");
        for pod in &pods {
            let mounted = items(&pod["spec"], "volumes").iter().any(|v| text(v, "name").starts_with("kube-api-access"));
            let pod = text(&pod["metadata"], "name");
            run.check(mounted == token, &format!("{space}: {pod} has a token only where it is asked for"), mounted);
        }
        if run.own(&space).keys().any(|key| key.starts_with("Job/")) {
            let topics = |(key, item): (&String, &Value)| {
                key.starts_with("Pod/") && item["metadata"]["labels"]["app.kubernetes.io/component"] == "topics"
            };
            let made =
                || Some(run.cluster.objects(&space).iter().filter(|pod| topics(*pod)).count()).filter(|n| *n > 0);
            let made = run.cluster.until(90, made).expect("the pod of the Job");
            run.count("pods admitted", made);
        }
        let account = pods.first().map_or("default", |pod| text(&pod["spec"], "serviceAccountName"));
        rights_of(run, &space, account);
        run.uninstalls(&space, &before, &[]);
    }
}

/// What the account may do is what any account may, and that is nothing.
fn rights_of(run: &mut Run<'_>, space: &str, account: &str) {
    let review = json!({"spec": {"namespace": space}}).to_string();
    let rules = |name: &str| {
        let user = format!("system:serviceaccount:{space}:{name}");
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let answer = run.cluster.ask_as(Some(&user), "POST", path, Some((JSON, &review)));
        let mut rules = BTreeSet::new();
        for list in ["resourceRules", "nonResourceRules"] {
            rules.extend(items(&answer.body["status"], list).iter().map(|rule| format!("{list} {rule}")));
        }
        (answer.status, rules)
    };
    let (given, made_up) = (rules(account), rules("made-up"));
    let holds = given.0 == 201 && given == made_up;
    run.check(holds, &format!("{space}: {account} has no rights of its own"), format!("{given:?}"));
    for (method, path) in [("GET", "secrets"), ("GET", "configmaps"), ("GET", "pods"), ("POST", "pods")] {
        let body = (method == "POST").then_some((JSON, r#"{"metadata": {"name": "x"}}"#));
        let user = format!("system:serviceaccount:{space}:{account}");
        let path = format!("/api/v1/namespaces/{space}/{path}");
        let answer = run.cluster.ask_as(Some(&user), method, &path, body);
        run.check(answer.status == 403, &format!("{space}: {account} may not {method} {path}"), answer.status);
    }
}

/// One release through all values files, also from each to the next: forward, back to the first, forward again.
fn upgrades(run: &mut Run<'_>) {
    let space = run.namespace("in-upgrades");
    let mut all = values();
    let (_, name, base) = all.remove(0);
    run.does("install", &space, &[&base], &name);
    let (first, (revision, _)) = (run.own(&space), run.settled(&space));
    for (number, name, values) in &all {
        // A StatefulSet's order of pods is for good; `kept` tries that.
        let parallel = if number == "12" { "workload: {podManagementPolicy: Parallel}\n" } else { "" };
        let values = [values.as_str(), parallel];
        let wanted = run.fresh(&values);
        run.does("upgrade", &space, &values, name);
        run.same(&space, wanted.clone(), name);
        run.settled(&space);
        run.rolls_back(&space, name);
        run.same(&space, first.clone(), &format!("the rollback from {name}"));
        let now = run.settled(&space).0;
        run.check(now == revision, &format!("{space}: the pods' revision after the rollback from {name}"), now);
        run.does("upgrade", &space, &values, &format!("{name} again"));
        run.same(&space, wanted, &format!("{name} again"));
    }
    let furnished = ["ServiceAccount/default", "ServiceAccount/our-account", "ConfigMap/kube-root-ca.crt"];
    run.uninstalls(&space, &furnished.map(str::to_owned).into(), &[]);
}

/// All that operators change later, at once and step by step, and back.
fn day_two(run: &mut Run<'_>) {
    let file = first();
    for (kind, steps) in [("StatefulSet", &STEPS_OF_A_SET[..]), ("Deployment", &STEPS_OF_A_DEPLOYMENT[..])] {
        let space = run.namespace(&format!("in-day-two-{}", kind.to_lowercase()));
        let base = format!("workload: {{kind: {kind}}}\n");
        run.does("install", &space, &[&file, &base], "the first values");
        let (first, (revision, _)) = (run.own(&space), run.settled(&space));
        for &step in [DAY_TWO].iter().chain(steps).chain(&STEPS) {
            let what = format!("{kind}, {}", step.lines().next().unwrap_or_default());
            let values = [file.as_str(), &base, step];
            let wanted = run.fresh(&values);
            run.count("steps", 1);
            run.does("upgrade", &space, &values, &what);
            run.same(&space, wanted.clone(), &what);
            if step == DAY_TWO {
                let now = run.settled(&space).0;
                run.check(now != revision, &format!("{space}: the pods are replaced"), now);
                run.rolls_back(&space, "the second day");
                run.same(&space, first.clone(), "the rollback from the second day");
                let now = run.settled(&space).0;
                run.check(now == revision, &format!("{space}: the pods' revision is the first again"), now);
                run.does("upgrade", &space, &values, &what);
                run.same(&space, wanted, &what);
            }
        }
        run.rolls_back(&space, "all steps");
        run.same(&space, first, "the rollback from all steps");
        let now = run.settled(&space).0;
        run.check(now == revision, &format!("{space}: the pods' revision after all steps"), now);
    }
}

/// What Kubernetes never changes: refused with nothing touched, and the way around it that the README tells.
fn kept(run: &mut Run<'_>) {
    let (file, ordered) = (first(), "workload: {podManagementPolicy: OrderedReady}\n");
    let deployment = "fullnameOverride: gate\nworkload: {kind: Deployment}\n";
    for (name, base, change, message) in [
        ("order", "", ordered, "workload.podManagementPolicy: StatefulSet gate-sluicegate keeps Parallel"),
        (
            "set",
            "fullnameOverride: gate\n",
            "nameOverride: other",
            "nameOverride: the selector of StatefulSet gate cannot be changed",
        ),
        (
            "deployment",
            deployment,
            "nameOverride: other",
            "nameOverride: the selector of Deployment gate cannot be changed: it has the name sluicegate",
        ),
    ] {
        let space = run.namespace(&format!("in-kept-{name}"));
        run.does("install", &space, &[&file, base], "the first values");
        let before = run.own(&space);
        let values = [file.as_str(), base, change, "policy: {profile: strict}"];
        let done = run.with(&space, "upgrade", RELEASE, &values, &[]);
        run.count("refused upgrades", 1);
        let refused = !done.well && done.said.contains(message);
        run.check(refused, &format!("{space}: the chart refuses {change}"), &done.said);
        let untouched = run.own(&space) == before;
        run.check(untouched, &format!("{space}: nothing is touched by {change}"), "");
        let history = run.history(&space).len();
        run.check(history == 1, &format!("{space}: there is no failed revision"), history);
    }
    another_order(run, "in-kept-order", &[&file, ordered]);
}

fn another_order(run: &mut Run<'_>, space: &str, values: &[&str]) {
    let cluster = run.cluster;
    let id = |item: &Value| text(&item["metadata"], "uid").to_owned();
    let pods: BTreeSet<String> = run.settled(space).1.iter().map(id).collect();
    let set = format!("/apis/apps/v1/namespaces/{space}/statefulsets/gate-sluicegate");
    let answer = cluster.ask("DELETE", &set, Some((JSON, r#"{"propagationPolicy": "Orphan"}"#)));
    run.check(answer.status == 200, "the StatefulSet is deleted, its pods are left", answer.status);
    cluster.until(90, || (cluster.ask("GET", &set, None).status == 404).then_some(())).expect("it is gone");
    run.does("upgrade", space, values, "another order");
    let wanted = run.fresh(values);
    run.same(space, wanted, "another order");
    let owner = id(&cluster.get(&set));
    let adopted = || {
        let owned =
            |item: &Value| matches!(items(&item["metadata"], "ownerReferences"), [one] if text(one, "uid") == owner);
        let all = cluster.objects(space);
        let now = all.iter().filter(|(key, item)| key.starts_with("Pod/") && owned(item));
        (now.map(|(_, item)| id(item)).collect::<BTreeSet<_>>() == pods).then_some(())
    };
    let adopted = cluster.until(90, adopted).is_some();
    run.check(adopted, "the pods are taken over, and are the same", "");
    let done = run.helm(space, &["rollback", RELEASE, "1"]);
    let refused = !done.well && done.said.contains("immutable");
    run.check(refused, "Kubernetes refuses the rollback over it", &done.said);
    run.does("upgrade", space, values, "the present again");
    let wanted = run.fresh(values);
    run.same(space, wanted, "the present again");
}

/// An upgrade that only Kubernetes refuses, half done: the way back that the README tells, and why.
fn recovers(run: &mut Run<'_>) {
    let (space, file) = (run.namespace("in-recovers"), first());
    let refused = "networkPolicy: {enabled: true}\ncommonLabels: {a: b}\npolicy: {profile: strict}\n\
                   tolerations: [{key: a, operator: Equals}]\n";
    let mended = refused.replace("Equals", "Equal");
    let before = run.keys(&space);
    let half_done = |run: &mut Run<'_>, verb: &str| {
        let done = run.with(&space, verb, RELEASE, &[&file, refused], &[]);
        run.count("upgrades refused by the server", 1);
        let refused = !done.well && done.said.contains("tolerations[0].operator");
        run.check(refused, &format!("{space}: Kubernetes refuses the {verb}"), &done.said);
        let part = run.own(&space).contains_key("NetworkPolicy/gate-sluicegate");
        run.check(part, &format!("{space}: part of the {verb} is done"), "");
    };
    let mended = [file.as_str(), &mended];
    half_done(run, "install");
    run.does("upgrade", &space, &mended, "mended values, after a failed installation");
    let wanted = run.fresh(&mended);
    run.same(&space, wanted, "mended values, after a failed installation");
    run.uninstalls(&space, &before, &[]);
    run.does("install", &space, &[&file], "the first values");
    let first = run.own(&space);
    half_done(run, "upgrade");
    run.rolls_back(&space, "a failed upgrade");
    run.same(&space, first.clone(), "the rollback from a failed upgrade");
    half_done(run, "upgrade");
    run.does("upgrade", &space, &mended, "mended values");
    let wanted = run.fresh(&mended);
    run.same(&space, wanted, "mended values");
    run.rolls_back(&space, "mended values");
    run.same(&space, first, "the rollback from mended values");
    half_done(run, "upgrade");
    run.does("upgrade", &space, &[&file, "replicaCount: 3"], "other values");
    let kept = run.own(&space).contains_key("NetworkPolicy/gate-sluicegate");
    run.check(kept, "an upgrade to other values keeps what was added", "");
}

/// What else the README says happens: the switch to autoscaling, and what an uninstallation leaves.
fn documented(run: &mut Run<'_>) {
    let (space, file) = (run.namespace("in-documented"), first());
    let before = run.keys(&space);
    run.does("install", &space, &[&file, "replicaCount: 5"], "five pods");
    run.does("upgrade", &space, &[&file, "inputPartitions: 9\nautoscaling: {enabled: true}"], "autoscaling");
    let replicas = run.own(&space)["StatefulSet/gate-sluicegate"]["spec"]["replicas"].clone();
    run.check(replicas == 1, "without a number there is one pod, until the autoscaler acts", replicas);
    // Nothing runs the pod, so that the test does not end; it is admitted.
    run.helm(&space, &["test", RELEASE, "--timeout", "3s"]);
    let admitted = run.keys(&space).contains("Pod/gate-sluicegate-test");
    run.check(admitted, "the pod of `helm test` is admitted", "");
    run.uninstalls(&space, &before, &["Pod/gate-sluicegate-test"]);
    let pods = format!("/api/v1/namespaces/{space}/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dtest");
    run.cluster.ask("DELETE", &pods, None);
    let gone = run.cluster.until(90, || (run.keys(&space) == before).then_some(())).is_some();
    run.check(gone, "its label finds the pod of `helm test`", "");
}

/// Releases with every name that Helm takes.
fn names(run: &mut Run<'_>) {
    let file = first();
    let values = "topicsJob: {enabled: true}\ndashboards: {enabled: true}\npodMonitor: {enabled: true}\n";
    let (long, dotted) = ("g".repeat(53), format!("{}b", "a.".repeat(26)));
    for (n, release) in [&long, "a.release.with.dots", "sluicegate", "7-gates", &dotted].into_iter().enumerate() {
        let space = run.namespace(&format!("in-names-{n}"));
        let before = run.keys(&space);
        let done = run.with(&space, "install", release, &[&file, values], &[]);
        run.count("installs", 1);
        if run.check(done.well && done.said.is_empty(), &format!("a release {release}"), &done.said) {
            let pods = run.settled(&space).1.len();
            run.count("pods admitted", pods);
            run.check(pods == 2, &format!("a release {release} has its pods"), pods);
            run.helm(&space, &["uninstall", release]);
            let gone = run.cluster.until(90, || (run.keys(&space) == before).then_some(()));
            gone.unwrap_or_else(|| panic!("{release} is not gone"));
        }
    }
}

/// Wrong values are refused by the chart, and nothing is left behind.
fn refusals(run: &mut Run<'_>) {
    let (space, file) = (run.namespace("in-refusals"), first());
    let before = run.keys(&space);
    for (values, message) in REFUSED {
        let done = run.with(&space, "install", RELEASE, &[&file, values], &[]);
        run.count("refused installations", 1);
        run.check(!done.well && done.said.contains(message), &format!("{values} is refused"), &done.said);
        let nothing = run.keys(&space) == before;
        run.check(nothing, &format!("{values} leaves nothing"), "");
    }
}

/// What these checks must find, or they show nothing.
fn finds_what_is_wrong(run: &mut Run<'_>) {
    let (space, cluster) = (run.namespace("in-wrong"), run.cluster);
    let values = "containerSecurityContext: {allowPrivilegeEscalation: true}";
    let done = run.with(&space, "install", RELEASE, &[&first(), values], &[]);
    let warned = done.well && done.said.contains("would violate PodSecurity");
    run.check(warned, "a warning of the server is seen", &done.said);
    let refused = || {
        let events = cluster.get(&format!("/api/v1/namespaces/{space}/events"));
        items(&events, "items").iter().any(|e| text(e, "message").contains("violates PodSecurity")).then_some(())
    };
    let refused = cluster.until(60, refused).is_some() && !run.keys(&space).iter().any(|k| k.starts_with("Pod/"));
    run.check(refused, "such pods are not admitted", "");
    let before = run.own(&space);
    let set = format!("/apis/apps/v1/namespaces/{space}/statefulsets/gate-sluicegate");
    let left = json!({"spec": {"template": {"metadata": {"annotations": {"left": "over"}}}}}).to_string();
    let answer = cluster.ask("PATCH", &set, Some(("application/merge-patch+json", &left)));
    let found: Vec<String> =
        run.own(&space).into_iter().filter(|(k, v)| before.get(k) != Some(v)).map(|(k, _)| k).collect();
    let holds = answer.status == 200 && found == ["StatefulSet/gate-sluicegate"];
    run.check(holds, "what an upgrade leaves over", format!("{found:?}"));
    for body in ["data: {}\ndatas: {}", "data: {}\ndata: {}", "data: {a: 1}"] {
        let object = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n{body}\n");
        let path = format!("/api/v1/namespaces/{space}/configmaps{DRY}");
        let status = cluster.ask("POST", &path, Some((YAML, &object))).status;
        run.check([400, 422].contains(&status), &format!("{body:?} is refused"), status);
    }
    for (kind, resource, version) in [
        ("PodMonitor", "podmonitors", "monitoring.coreos.com/v1"),
        ("ScaledObject", "scaledobjects", "keda.sh/v1alpha1"),
    ] {
        let object = format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: x\nspec:\n  madeUp: 1\n");
        let path = format!("/apis/{version}/namespaces/{space}/{resource}{DRY}");
        let status = cluster.ask("POST", &path, Some((YAML, &object))).status;
        run.check([400, 422].contains(&status), &format!("a {kind} with a field that it has not"), status);
    }
}
