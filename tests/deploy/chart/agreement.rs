//! Names, ports, paths and selectors of objects that refer to one another.

use super::render::{
    CHART, NAMESPACE, Rendered, all, containers, items, kind, name, of_kind, one, own_containers, pod, text, workload,
};
use crate::files::{read, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a `matchLabels` selects these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().expect("labels");
    assert!(!wanted.is_empty(), "a selector that takes everything");
    wanted.iter().all(|(k, v)| labels[k] == *v)
}

fn pods(case: &Rendered) -> Vec<(&Value, &Value, &Value)> {
    case.objects.iter().filter_map(|o| pod(o).map(|(labels, spec)| (o, labels, spec))).collect()
}

/// The ports that a pod names.
fn named_ports(spec: &Value) -> BTreeMap<&str, i64> {
    let ports = containers(spec).flat_map(|c| items(c, "/ports"));
    ports.map(|p| (text(p, "/name"), p["containerPort"].as_i64().expect("a port"))).collect()
}

/// The service's pods and no others are behind services, budgets and monitors; all of the release are behind the
/// network policy.
#[test]
fn selectors_take_the_pods_that_they_mean() {
    let Some(all) = all() else { return };
    let mut seen = BTreeSet::new();
    for case in all {
        for object in &case.objects {
            let (at, every) = match kind(object) {
                "Service" => ("/spec/selector", false),
                "StatefulSet" | "Deployment" | "PodDisruptionBudget" | "PodMonitor" => {
                    ("/spec/selector/matchLabels", false)
                }
                "NetworkPolicy" => ("/spec/podSelector/matchLabels", true),
                _ => continue,
            };
            seen.insert(kind(object));
            let selector = object.pointer(at).expect("a selector");
            for (of, labels, _) in pods(case) {
                let expected = every || of == workload(&case.objects);
                assert_eq!(selects(selector, labels), expected, "{} {} {}", case.file, kind(object), name(of));
            }
        }
        let spread = items(workload(&case.objects), "/spec/template/spec/topologySpreadConstraints");
        let labels = pod(workload(&case.objects)).expect("a pod").0;
        for constraint in spread {
            assert!(selects(&constraint["labelSelector"]["matchLabels"], labels), "{}", case.file);
        }
    }
    let kinds = "Deployment NetworkPolicy PodDisruptionBudget PodMonitor Service StatefulSet";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(" "), kinds);
}

/// A ServiceMonitor that took the headless service too would scrape every pod twice.
#[test]
fn a_service_monitor_takes_one_service() {
    let Some(all) = all() else { return };
    let mut seen = 0;
    for case in all {
        for monitor in of_kind(&case.objects, "ServiceMonitor") {
            seen += 1;
            let selector = &monitor["spec"]["selector"]["matchLabels"];
            let services = of_kind(&case.objects, "Service");
            let taken: Vec<&&Value> = services.iter().filter(|s| selects(selector, &s["metadata"]["labels"])).collect();
            assert_eq!(taken.len(), 1, "{}", case.file);
            let port = text(monitor, "/spec/endpoints/0/port");
            assert!(items(taken[0], "/spec/ports").any(|p| p["name"] == port), "{}", case.file);
        }
    }
    assert!(seen > 0);
}

#[test]
fn ports_and_paths_are_those_that_the_service_answers_on() {
    let Some(all) = all() else { return };
    let routes = read(root("src/runtime/admin.rs"));
    let route = |path: &str| assert!(routes.contains(&format!(".route(\"{path}\"")), "{path} is not served");
    for case in all {
        let (_, spec) = pod(workload(&case.objects)).expect("a pod");
        let ports = named_ports(spec);
        let container = own_containers(spec).next().expect("a container");
        let wanted = [("startupProbe", "/startupz"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")];
        for (probe, path) in wanted {
            let get = &container[probe]["httpGet"];
            assert_eq!(get["path"], path, "{}", case.file);
            assert!(ports.contains_key(text(get, "/port")), "{}", case.file);
            route(path);
        }
        for object in &case.objects {
            for port in items(object, "/spec/ports").filter(|_| kind(object) == "Service") {
                assert!(ports.contains_key(text(port, "/targetPort")), "{} {}", case.file, name(object));
            }
            for endpoint in items(object, "/spec/podMetricsEndpoints").chain(items(object, "/spec/endpoints")) {
                assert!(ports.contains_key(text(endpoint, "/port")), "{} {}", case.file, name(object));
                assert_eq!((&endpoint["path"], &endpoint["scheme"]), (&"/metrics".into(), &"http".into()));
                route("/metrics");
            }
            if kind(object) == "NetworkPolicy" {
                let port = text(object, "/spec/ingress/0/ports/0/port");
                assert!(ports.contains_key(port), "{}", case.file);
            }
        }
        for config in items_of_config(case) {
            let listen = text(&config, "/http/listen").rsplit(':').next().unwrap_or_default().parse::<i64>();
            assert_eq!(listen.ok(), ports.get("http").copied(), "{}", case.file);
        }
    }
}

fn items_of_config(case: &Rendered) -> Vec<Value> {
    let maps = of_kind(&case.objects, "ConfigMap");
    maps.iter().filter_map(|m| m["data"]["sluicegate.yaml"].as_str()).map(super::yaml::document).collect()
}

/// Every volume is mounted and every mount has its volume; configuration is mounted as directories, and what the
/// arguments name is in them.
#[test]
fn files_that_are_named_are_mounted() {
    let Some(all) = all() else { return };
    let mut arguments = 0;
    for case in all {
        for (object, _, spec) in pods(case) {
            let volumes: BTreeMap<&str, &Value> = items(spec, "/volumes").map(|v| (text(v, "/name"), v)).collect();
            let mut used = BTreeSet::new();
            for container in own_containers(spec) {
                let mut places = BTreeMap::new();
                for mount in items(container, "/volumeMounts") {
                    let volume = volumes.get(text(mount, "/name"));
                    let volume = volume.unwrap_or_else(|| panic!("{} {}: {mount}", case.file, name(object)));
                    assert!(mount["subPath"].is_null(), "{}: a file that would not follow a change", case.file);
                    let ours = text(mount, "/mountPath").starts_with("/etc/sluicegate/");
                    assert!(!ours || mount["readOnly"] == true, "{}: {mount}", case.file);
                    places.insert(text(mount, "/mountPath"), *volume);
                    used.insert(text(mount, "/name"));
                }
                let said: Vec<&str> = items(container, "/args").filter_map(Value::as_str).collect();
                let files: Vec<&str> = said.windows(2).filter(|w| w[0] == "--config").map(|w| w[1]).collect();
                assert_eq!(files.len(), 2, "{}: {said:?}", case.file);
                for file in files {
                    let (folder, key) = file.rsplit_once('/').expect("a path");
                    let map = text(places[folder], "/configMap/name");
                    let own = of_kind(&case.objects, "ConfigMap").into_iter().find(|m| name(m) == map);
                    let there = match own {
                        Some(map) => map["data"][key].is_string(),
                        None => case.values.to_string().contains(&format!("\"{map}\"")),
                    };
                    assert!(there, "{}: {file}", case.file);
                    arguments += 1;
                }
                for config in items_of_config(case) {
                    for path in paths(&config) {
                        let (folder, file) = path.rsplit_once('/').expect("a path");
                        let secret = places.get(folder).unwrap_or_else(|| panic!("{}: {path}", case.file));
                        let keys = items(secret, "/secret/items").chain(items(secret, "/configMap/items"));
                        assert!(keys.map(|k| text(k, "/path")).any(|k| k == file), "{}: {path}", case.file);
                    }
                }
            }
            let all: BTreeSet<&str> = volumes.keys().copied().collect();
            assert_eq!(used, all, "{} {}", case.file, name(object));
        }
    }
    assert!(arguments > 60, "{arguments}");
}

/// Every file that a configuration names.
fn paths(config: &Value) -> Vec<&str> {
    match config {
        Value::String(text) if text.starts_with("/etc/") => vec![text],
        Value::Object(map) => map.values().flat_map(paths).collect(),
        Value::Array(list) => list.iter().flat_map(paths).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn what_refers_by_name_finds_its_object() {
    let Some(all) = all() else { return };
    for case in all {
        let set = workload(&case.objects);
        if kind(set) == "StatefulSet" {
            let services = of_kind(&case.objects, "Service");
            let governing = services.iter().find(|s| s["metadata"]["name"] == set["spec"]["serviceName"]);
            assert_eq!(governing.expect("a governing service")["spec"]["clusterIP"], "None", "{}", case.file);
        }
        for scaler in case.objects.iter().filter(|o| ["HorizontalPodAutoscaler", "ScaledObject"].contains(&kind(o))) {
            let target = &scaler["spec"]["scaleTargetRef"];
            assert_eq!((text(target, "/kind"), text(target, "/name")), (kind(set), name(set)), "{}", case.file);
            assert_eq!(target["apiVersion"], set["apiVersion"], "{}", case.file);
        }
        for (object, _, spec) in pods(case) {
            let account = text(spec, "/serviceAccountName");
            match case.values.pointer("/serviceAccount/create") == Some(&false.into()) {
                true => assert_eq!(account, text(&case.values, "/serviceAccount/name"), "{}", case.file),
                false => {
                    assert_eq!(account, name(one(&case.objects, "ServiceAccount")), "{} {}", case.file, name(object))
                }
            }
        }
    }
}

/// The brokers' ports are open, each once, and a port that is not said is Kafka's.
#[test]
fn the_network_policy_opens_the_ports_of_the_brokers() {
    let Some(all) = all() else { return };
    let mut seen = 0;
    for case in all {
        for policy in of_kind(&case.objects, "NetworkPolicy") {
            seen += 1;
            let ports: Vec<i64> = items(policy, "/spec/egress/1/ports").filter_map(|p| p["port"].as_i64()).collect();
            let expected: &[i64] = match &case.file[..2] {
                "08" => &[9094, 9095, 9092],
                "09" => &[9094, 9095],
                _ => &[9092],
            };
            assert_eq!(ports, expected, "{}", case.file);
            let names = items(policy, "/spec/egress/0/ports").map(|p| (text(p, "/protocol"), p["port"].as_i64()));
            assert_eq!(names.collect::<Vec<_>>(), [("UDP", Some(53)), ("TCP", Some(53))]);
            // A rule without ports would open all of them.
            let rules = || items(policy, "/spec/egress").chain(items(policy, "/spec/ingress"));
            assert!(rules().take(2).all(|rule| items(rule, "/ports").next().is_some()), "{}", case.file);
            assert_eq!(policy["spec"]["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
        }
    }
    assert_eq!(seen, 3);
}

/// Names are labels of DNS, once each, and everything is in the release's namespace.
#[test]
fn names_are_short_and_unique() {
    let Some(all) = all() else { return };
    let Some(helm) = super::tools::helm() else { return };
    let long = "n".repeat(80);
    let far =
        super::render::with(helm, &root(CHART), &format!("fullnameOverride: {long}\ntopicsJob: {{enabled: true}}\n"));
    let far = far.expect("a long name");
    for (file, objects) in all.iter().map(|c| (c.file.as_str(), &c.objects)).chain([("a long name", &far)]) {
        let mut seen = BTreeSet::new();
        for object in objects {
            let name = name(object);
            assert!(seen.insert((kind(object), name)), "{file}: {} {name} twice", kind(object));
            let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            assert!(plain && !name.ends_with('-') && !name.is_empty(), "{file}: {name}");
            // A revision's hash comes behind a workload's name, in a label.
            let room = if ["StatefulSet", "Deployment"].contains(&kind(object)) { 52 } else { 63 };
            assert!(name.len() <= room, "{file}: {name}");
            let own = text(object, "/metadata/labels/app.kubernetes.io~1instance") == "gate";
            assert!(!own || text(object, "/metadata/namespace") == NAMESPACE, "{file}: {name}");
            for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
                assert!(value.as_str().is_some_and(|v| v.len() <= 63), "{file}: {key}");
            }
        }
    }
}
