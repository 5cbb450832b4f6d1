//! Every value is described, has a case that sets it, changes what is rendered, and is known to the schema.

use super::render::{CHART, RELEASE, all, cases, copy, refusal};
use super::{tools, yaml};
use crate::files::{read, root};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The described values of `values.yaml`, in order: path, default, description.
pub fn described() -> Vec<(String, Value, String)> {
    let text = read(root(CHART).join("values.yaml"));
    let values = yaml::document(&text);
    let (mut found, mut open, mut about): (Vec<_>, Vec<(usize, String)>, Option<String>) = Default::default();
    for line in text.lines() {
        let inner = line.trim_start();
        let indent = line.len() - inner.len();
        if let Some(said) = inner.strip_prefix("# -- ") {
            about = Some(said.to_owned());
            continue;
        }
        let Some((key, _)) = inner.split_once(':').filter(|(k, _)| !k.contains([' ', '#', '"'])) else { continue };
        while open.last().is_some_and(|(at, _)| *at >= indent) {
            open.pop();
        }
        open.push((indent, key.to_owned()));
        if let Some(said) = about.take() {
            let path: Vec<&str> = open.iter().map(|(_, key)| key.as_str()).collect();
            let default = values.pointer(&format!("/{}", path.join("/"))).cloned();
            found.push((path.join("."), default.unwrap_or_else(|| panic!("{path:?}")), said));
        }
    }
    assert!(found.len() > 100, "{}", found.len());
    found
}

fn leaves(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value.as_object() {
        Some(map) if !map.is_empty() => {
            map.iter()
                .for_each(|(k, v)| leaves(v, &if path.is_empty() { k.clone() } else { format!("{path}.{k}") }, into));
        }
        _ => drop(into.insert(path.to_owned())),
    }
}

#[test]
fn every_value_is_described() {
    let mut all = BTreeSet::new();
    leaves(&yaml::document(&read(root(CHART).join("values.yaml"))), "", &mut all);
    let described = described();
    let mut seen = BTreeSet::new();
    for (path, _, said) in &described {
        assert!(seen.insert(path), "{path} twice");
        assert!(said.ends_with('.') && said.len() > 8, "{path}: {said}");
    }
    for leaf in all {
        let within = |path: &str| leaf == path || leaf.starts_with(&format!("{path}."));
        assert!(described.iter().any(|(path, ..)| within(path)), "{leaf} is not described");
    }
}

/// A file's values without one of them; `None` where they do not set it.
fn without(values: &Value, path: &str) -> Option<Value> {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let parents = if parents.is_empty() { String::new() } else { format!("/{}", parents.replace('.', "/")) };
    let mut rest = values.clone();
    rest.pointer_mut(&parents)?.as_object_mut()?.remove(last)?;
    Some(rest)
}

/// For each value there is a case that renders differently, or not at all, when the value is taken out of it.
#[test]
fn every_value_is_used() {
    let Some(helm) = tools::helm() else { return };
    let chart = copy();
    let render = |values: &Value| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), values.to_string()).expect("written");
        super::render::template(helm, chart.path(), super::render::LATEST, &[file.path()])
    };
    let files: Vec<Value> = cases().iter().map(|path| yaml::document(&read(path))).collect();
    let full: BTreeMap<usize, String> =
        files.iter().enumerate().map(|(n, values)| (n, render(values).expect("it renders"))).collect();
    let (mut renders, mut unset, mut unused) = (0, Vec::new(), Vec::new());
    for (path, ..) in described().into_iter().filter(|(path, ..)| !["config"].contains(&path.as_str())) {
        let mut set = false;
        let used = files.iter().enumerate().any(|(n, values)| {
            let Some(rest) = without(values, &path) else { return false };
            (set, renders) = (true, renders + 1);
            render(&rest).map_or(true, |text| text != full[&n])
        });
        match (set, used) {
            (false, _) => unset.push(path),
            (true, false) => unused.push(path),
            (true, true) => {}
        }
    }
    println!("figures: {} described values, each used ({renders} renders)", described().len());
    assert!(unset.is_empty() && unused.is_empty(), "no case sets {unset:#?}\nnothing uses {unused:#?}");
}

fn places(values: &Value, path: &str, into: &mut Vec<String>) {
    for (key, value) in values.as_object().into_iter().flatten() {
        let path = format!("{path}/{key}");
        places(value, &path, into);
        into.push(path);
    }
}

/// An entry whose lines are all commented out is a null. It is refused with its place, or means nothing; no template
/// fails over it.
#[test]
fn a_null_at_any_place_is_refused_or_means_nothing() {
    let Some(helm) = tools::helm() else { return };
    let chart = copy();
    let files: Vec<Value> = cases().iter().map(|path| yaml::document(&read(path))).collect();
    let mut all = Vec::new();
    places(&yaml::document(&read(root(CHART).join("values.yaml"))), "", &mut all);
    let (mut named, mut rendered, mut unclear) = (0, 0, Vec::new());
    for (number, path) in all.iter().enumerate() {
        // One case each, another one for every place.
        let mut values = files[number % files.len()].clone();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let mut at = &mut values;
        for part in &parts {
            at = &mut at[*part];
        }
        *at = Value::Null;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), values.to_string()).expect("written");
        match super::render::template(helm, chart.path(), super::render::LATEST, &[file.path()]) {
            Ok(text) => {
                rendered += 1;
                if text.contains("<nil>") || text.contains("<no value>") {
                    unclear.push(path.clone());
                }
            }
            Err(said) => {
                named += 1;
                let last = parts.last().expect("a part");
                let clear = said.contains("missing propert") || said.contains("to repair in the values");
                if !(clear && said.contains(last)) {
                    unclear.push(format!("{path}: {said}"));
                }
            }
        }
    }
    println!("figures: a null at {} places: {named} named, {rendered} without effect", all.len());
    assert!(unclear.is_empty(), "{unclear:#?}");
    assert!(named > 80 && rendered > 60, "{named} {rendered}");
}

fn refused(helm: &Path, values: &Value) -> String {
    refusal(helm, &values.to_string())
}

/// A mistyped key is refused in each of the chart's own objects.
#[test]
fn a_mistyped_key_is_refused() {
    let Some(helm) = tools::helm() else { return };
    let schema: Value = serde_json::from_str(&read(root(CHART).join("values.schema.json"))).expect("JSON");
    let mut closed = vec![String::new()];
    let mut open = vec![(String::new(), &schema)];
    while let Some((path, at)) = open.pop() {
        let at = match at["$ref"].as_str() {
            Some(reference) => schema.pointer(reference.trim_start_matches('#')).expect("a definition"),
            None => at,
        };
        for (key, inner) in at["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let target = if inner["$ref"].is_null() {
                inner
            } else {
                schema.pointer(&inner["$ref"].as_str().expect("a reference")[1..]).expect("a definition")
            };
            // Labels and annotations have names of their own.
            if target["additionalProperties"] == false && target["patternProperties"].is_null() {
                closed.push(path.clone());
            }
            open.push((path, target));
        }
    }
    assert!(closed.len() > 30, "{closed:#?}");
    // All at once: each is named.
    let mut values = json!({});
    for path in &closed {
        let mut at = &mut values;
        for part in path.split('.').filter(|p| !p.is_empty()) {
            at = &mut at[part];
        }
        at["mistyped"] = json!(true);
    }
    let said = refused(helm, &values);
    let places = said.matches("'mistyped' not allowed").count();
    assert_eq!(places, closed.len(), "{said}");
    println!("figures: {places} closed objects");
}

/// Wrong types and values outside of the lists are refused before anything is rendered.
#[test]
fn values_of_the_wrong_kind_are_refused() {
    let Some(helm) = tools::helm() else { return };
    for (values, path) in [
        (json!({ "replicaCount": 0 }), "/replicaCount"),
        (json!({ "replicaCount": "2" }), "/replicaCount"),
        (json!({ "autoscaling": { "minReplicas": 0 } }), "/autoscaling/minReplicas"),
        (json!({ "autoscaling": { "engine": "both" } }), "/autoscaling/engine"),
        (json!({ "workload": { "kind": "DaemonSet" } }), "/workload/kind"),
        (json!({ "image": { "digest": "sha256:1" } }), "/image/digest"),
        (json!({ "sasl": { "mechanism": "GSSAPI" } }), "/sasl/mechanism"),
        (json!({ "http": { "port": 70000 } }), "/http/port"),
        (json!({ "config": { "kafka": { "bootstrapServers": "a:1" } } }), "/config/kafka"),
        (json!({ "config": { "kafka": { "inputs": "agent.events" } } }), "/config/kafka/inputs"),
        (json!({ "config": { "worker": { "drain_timeout": "soon" } } }), "/config/worker/drain_timeout"),
        (json!({ "config": { "state": { "on_loss": "ignore" } } }), "/config/state/on_loss"),
        (json!({ "policy": { "profile": "lenient" } }), "/policy/profile"),
        (json!({ "policy": { "policies": { "SG99": {} } } }), "/policy/policies"),
        (json!({ "policy": { "policies": { "SG01": { "mode": "watch" } } } }), "/policy/policies/SG01/mode"),
        (
            json!({ "policy": { "policies": { "SG01": { "rules": { "hard": "block" } } } } }),
            "/policy/policies/SG01/rules",
        ),
        (
            json!({ "policy": { "policies": { "SG01": { "rules": { "hard_limit": "deny" } } } } }),
            "/policy/policies/SG01/rules/hard_limit",
        ),
        (
            json!({ "policy": { "policies": { "SG01": { "options": { "maxBytes": 1 } } } } }),
            "/policy/policies/SG01/options",
        ),
        (
            json!({ "policy": { "policies": { "SG01": { "options": { "max_bytes": "1" } } } } }),
            "/policy/policies/SG01/options/max_bytes",
        ),
        (json!({ "policy": { "overrides": { "a": { "match": { "flet": "x" } } } } }), "/policy/overrides/a/match"),
        (
            json!({ "policy": { "overrides": { "a": { "policies": { "SG01": { "options": { "a": 1 } } } } } } }),
            "/policy/overrides/a/policies/SG01/options",
        ),
        (json!({ "podMonitor": { "interval": "often" } }), "/podMonitor/interval"),
        (json!({ "stateMemoryPercent": 100 }), "/stateMemoryPercent"),
        (json!({ "nameOverride": "My_Gate" }), "/nameOverride"),
        (json!({ "fullnameOverride": "my.gate" }), "/fullnameOverride"),
        (json!({ "fullnameOverride": "7-gates" }), "/fullnameOverride"),
        (json!({ "commonLabels": { "team": "a b" } }), "/commonLabels/team"),
        (json!({ "commonAnnotations": { "a b": "c" } }), "/commonAnnotations"),
        (json!({ "podLabels": { "bad key!": "c" } }), "/podLabels"),
        (json!({ "podMonitor": { "labels": { "a/b/c": "d" } } }), "/podMonitor/labels"),
        (
            json!({ "prometheusRule": { "additionalRuleLabels": { "a-b": "c" } } }),
            "/prometheusRule/additionalRuleLabels",
        ),
        (json!({ "image": { "tag": "1 0" } }), "/image/tag"),
        (json!({ "image": { "repository": "a b" } }), "/image/repository"),
        (json!({ "serviceAccount": { "name": "My_Account" } }), "/serviceAccount/name"),
        (json!({ "priorityClassName": "High_1" }), "/priorityClassName"),
        (json!({ "runtimeClassName": "g visor" }), "/runtimeClassName"),
        (json!({ "priorityClassName": "x\nhostNetwork: true" }), "/priorityClassName"),
        (json!({ "serviceAccount": { "name": "x\nhostNetwork: true" } }), "/serviceAccount/name"),
        (json!({ "existingPolicyConfigMap": { "key": "a\n- --profile\n- off" } }), "/existingPolicyConfigMap/key"),
        (json!({ "fingerprintKey": { "existingSecret": "a\nb: c" } }), "/fingerprintKey/existingSecret"),
    ] {
        let said = refused(helm, &values);
        assert!(said.contains(&format!("at '{path}'")), "{values}: {said}");
    }
}

/// Under another chart, Helm adds `global`, conditions add `enabled`, and tools add what begins with `x-`.
#[test]
fn it_is_a_good_subchart() {
    let Some(helm) = tools::helm() else { return };
    let parent = tempfile::tempdir().expect("a folder");
    let inside = parent.path().join("charts");
    std::fs::create_dir_all(&inside).expect("a folder");
    let manifest = "apiVersion: v2\nname: fleet\nversion: 1.0.0\ndependencies:\n  - name: sluicegate\n    version: '*'\n    condition: sluicegate.enabled\n";
    std::fs::write(parent.path().join("Chart.yaml"), manifest).expect("written");
    std::os::unix::fs::symlink(root(CHART), inside.join("sluicegate")).expect("a link");
    let first = yaml::document(&read(cases().remove(0)));
    let mut own = first.clone();
    own["enabled"] = json!(true);
    own["x-note"] = json!({ "any": ["thing"] });
    let values = json!({ "global": { "imageRegistry": "mirror.example.com", "cattle": {} }, "sluicegate": own });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), values.to_string()).expect("written");
    let text = super::render::template(helm, parent.path(), super::render::LATEST, &[file.path()]).expect("it renders");
    assert!(text.contains("image: \"mirror.example.com/example.com/sluicegate:0.1.0\""), "{text}");
    assert!(text.contains(&format!("name: \"{RELEASE}-sluicegate\"\n")), "{text}");

    let mut off = values;
    off["sluicegate"]["enabled"] = json!(false);
    std::fs::write(file.path(), off.to_string()).expect("written");
    let text = super::render::template(helm, parent.path(), super::render::LATEST, &[file.path()]).expect("it renders");
    assert_eq!(yaml::documents(&text), Vec::<Value>::new());
}

/// `tpl` reaches everything that says so.
#[test]
fn templates_in_values_are_rendered() {
    let Some(all) = all() else { return };
    for case in all {
        let dashboards = |o: &&Value| !super::render::name(o).contains("-dashboard-");
        for object in case.objects.iter().filter(dashboards).filter(|o| o["kind"] != "PrometheusRule") {
            assert!(!object.to_string().contains("{{"), "{}: {object}", case.file);
        }
    }
    let extras = all.iter().find(|c| c.file.starts_with("12-")).expect("the case");
    let said = Value::Array(extras.objects.clone()).to_string();
    for expected in
        ["\"shard\":\"gate-a\"", "\"release\":\"gate\"", "\"gate-env\"", "\"gate-text\"", "\"args\":[\"gate\"]"]
    {
        assert!(said.contains(expected), "{expected}");
    }
}
