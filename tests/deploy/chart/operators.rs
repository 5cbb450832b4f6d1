//! Kinds of operators, field by field: no schema of Kubernetes knows them. And what scales and what is stopped.

use super::render::{
    CHART, DASHBOARD, all, copy, items, kind, name, of_kind, one, own_containers, pod, text, with, workload,
};
use super::{tools, yaml};
use crate::files::{read, root};
use serde_json::{Value, json};
use sluicegate::runtime::config::Time;
use sluicegate::runtime::telemetry;
use std::collections::BTreeSet;

/// The fields of an object, which must be among those that its CRD has.
fn fields(value: &Value, known: &[&str]) {
    for (key, _) in value.as_object().expect("an object") {
        assert!(known.contains(&key.as_str()), "{key} is not among {known:?}");
    }
}

/// The metric whose samples an expression reads is one of ours.
fn known_metric(expression: &str) {
    let start = expression.find("sluicegate_").unwrap_or_else(|| panic!("{expression}: no metric of ours"));
    let rest = &expression[start + "sluicegate_".len()..];
    let metric: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    assert!(telemetry::reference().contains(&format!("| `{metric}` |")), "{metric} is not in docs/metrics.md");
}

/// Fewest and most pods of a scaler; partitions and threads that bound them.
fn bounded(case: &super::render::Rendered, least: &Value, most: &Value) {
    let (least, most) = (least.as_i64().expect("a number"), most.as_i64().expect("a number"));
    let partitions = case.values["inputPartitions"].as_i64().expect("partitions");
    let threads = case.values.pointer("/config/worker/count").and_then(Value::as_i64).unwrap_or(1);
    assert!(1 <= least && least <= most && most * threads <= partitions, "{}: {least} {most}", case.file);
    assert!(workload(&case.objects)["spec"]["replicas"].is_null(), "{}: two that say how many", case.file);
}

#[test]
fn keda_scales_on_our_lag_and_never_to_nothing() {
    let Some(all) = all() else { return };
    let mut seen = 0;
    for case in all {
        for object in of_kind(&case.objects, "ScaledObject") {
            seen += 1;
            assert_eq!(object["apiVersion"], "keda.sh/v1alpha1");
            let spec = &object["spec"];
            let known = [
                "scaleTargetRef",
                "pollingInterval",
                "minReplicaCount",
                "maxReplicaCount",
                "fallback",
                "advanced",
                "triggers",
            ];
            // `idleReplicaCount` is not among them: nobody would see the lag.
            fields(spec, &known);
            bounded(case, &spec["minReplicaCount"], &spec["maxReplicaCount"]);
            fields(&spec["advanced"], &["restoreToOriginalReplicaCount", "horizontalPodAutoscalerConfig"]);
            behaves(&spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]);
            let triggers: Vec<&Value> = items(spec, "/triggers").collect();
            assert!(!triggers.is_empty());
            for trigger in triggers {
                fields(trigger, &["type", "metricType", "metadata", "authenticationRef"]);
                // The operator takes text only.
                assert!(trigger["metadata"].as_object().expect("metadata").values().all(Value::is_string), "{trigger}");
                if trigger["type"] == "prometheus" {
                    fields(&trigger["metadata"], &["serverAddress", "query", "threshold", "ignoreNullValues"]);
                    assert_eq!(trigger["metricType"], "Value");
                    assert_eq!(trigger["metadata"]["ignoreNullValues"], "false");
                    let query = text(trigger, "/metadata/query");
                    known_metric(query);
                    assert!(query.contains("namespace=\"agents\"") && !query.contains("{{"), "{query}");
                }
            }
        }
    }
    assert_eq!(seen, 2);
    let Some(helm) = tools::helm() else { return };
    let values =
        "inputPartitions: 9\nautoscaling: {enabled: true, engine: keda, keda: {serverAddress: 'http://p:9090'}}\n";
    let objects = with(helm, &root(CHART), values).expect("it renders");
    let query = text(one(&objects, "ScaledObject"), "/spec/triggers/0/metadata/query");
    let expected = r#"max(sluicegate_consumer_lag_seconds{namespace="agents",pod=~"gate-sluicegate-.*"})"#;
    assert_eq!(query, expected);
    assert!(of_kind(&objects, "HorizontalPodAutoscaler").is_empty());
}

/// Up at once, down slowly: each step is a rebalance.
fn behaves(behavior: &Value) {
    let quiet = behavior["scaleDown"]["stabilizationWindowSeconds"].as_i64().expect("a window");
    assert!(quiet >= 600, "{behavior}");
}

#[test]
fn the_autoscaler_scales_on_our_lag() {
    let Some(all) = all() else { return };
    let mut seen = 0;
    for case in all {
        for object in of_kind(&case.objects, "HorizontalPodAutoscaler") {
            seen += 1;
            bounded(case, &object["spec"]["minReplicas"], &object["spec"]["maxReplicas"]);
            behaves(&object["spec"]["behavior"]);
            for metric in items(object, "/spec/metrics") {
                let named = text(metric, "/pods/metric/name").to_owned() + text(metric, "/external/metric/name");
                known_metric(&named);
            }
        }
    }
    assert_eq!(seen, 2);
}

#[test]
fn monitors_have_the_fields_of_the_operator() {
    let Some(all) = all() else { return };
    let mut seen = BTreeSet::new();
    for case in all {
        for object in &case.objects {
            let (list, values) = match kind(object) {
                "PodMonitor" => ("podMetricsEndpoints", &case.values["podMonitor"]),
                "ServiceMonitor" => ("endpoints", &case.values["serviceMonitor"]),
                _ => continue,
            };
            seen.insert(kind(object));
            assert_eq!(object["apiVersion"], "monitoring.coreos.com/v1");
            let spec = &object["spec"];
            let further: Vec<&str> =
                values["spec"].as_object().into_iter().flatten().map(|(k, _)| k.as_str()).collect();
            fields(spec, &[&["namespaceSelector", "selector", list], further.as_slice()].concat());
            assert_eq!(spec["namespaceSelector"], json!({ "matchNames": ["agents"] }));
            let endpoints: Vec<&Value> = items(spec, &format!("/{list}")).collect();
            assert_eq!(endpoints.len(), 1);
            for (key, value) in [("interval", &values["interval"]), ("scrapeTimeout", &values["scrapeTimeout"])] {
                assert_eq!(&endpoints[0][key], value, "{}", case.file);
            }
            // Alerts and dashboards go by the job: each release is one of its own, whatever else is relabelled.
            let relabelled: Vec<&Value> = items(endpoints[0], "/relabelings").collect();
            assert_eq!(relabelled[0], &json!({ "targetLabel": "job", "replacement": "agents/gate-sluicegate" }));
            assert!(relabelled[1..].iter().copied().eq(items(values, "/endpoint/relabelings")), "{}", case.file);
            for (key, value) in values["endpoint"].as_object().expect("further fields") {
                assert!(key == "relabelings" || &endpoints[0][key] == value, "{}: {key}", case.file);
            }
            assert_eq!(object["metadata"]["labels"]["release"], "prometheus");
        }
    }
    assert_eq!(seen.len(), 2);
}

/// From a file of alerts that this test knows.
#[test]
fn alerts_get_labels_and_can_be_left_out() {
    let Some(helm) = tools::helm() else { return };
    let chart = copy();
    let values = "prometheusRule: {enabled: true, labels: {release: p}, runbookBaseUrl: 'https://git.example.com/gate/', additionalRuleLabels: {team: agents, severity: all}, \
                  disabledAlerts: [SluicegateLabelOverflow]}\n";
    let values = format!("{values}dashboards: {{enabled: true}}\n");
    let objects = with(helm, chart.path(), &values).expect("it renders");
    let map = of_kind(&objects, "ConfigMap").into_iter().find(|m| name(m) == "gate-sluicegate-dashboard-1-overview");
    let map = map.expect("a dashboard");
    assert_eq!(text(map, "/data/1-overview.json"), DASHBOARD);
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let rule = one(&objects, "PrometheusRule");
    assert_eq!(rule["apiVersion"], "monitoring.coreos.com/v1");
    assert_eq!(rule["metadata"]["labels"]["release"], "p");
    let expected = json!([{
        "name": "first",
        "rules": [
            { "record": "sluicegate:rate", "expr": "sum(rate(sluicegate_verdicts_total[5m]))" },
            {
                "alert": "Slow", "expr": "sluicegate_consumer_lag_seconds > 60", "for": "5m",
                "labels": { "severity": "all", "team": "agents", "area": "lag" },
                // Templates of Prometheus are not Helm's.
                "annotations": {
                    "summary": "{{ $labels.topic }} is {{ $value }} s behind",
                    "runbook_url": "https://git.example.com/gate/deploy/runbooks/Slow.md",
                },
            },
        ],
    }]);
    assert_eq!(rule["spec"]["groups"], expected);
}

/// From the chart's own files, whatever they hold.
#[test]
fn own_alerts_and_dashboards_are_rendered_whole() {
    let Some(all) = all() else { return };
    let case = all.iter().find(|c| c.file.starts_with("10-")).expect("the case");
    let alerts = root(CHART).join("files/alerts.yaml");
    let file = if alerts.exists() { yaml::document(&read(&alerts)) } else { Value::Null };
    let named = |groups: &Value| -> Vec<String> {
        let rules = groups.as_array().into_iter().flatten().flat_map(|g| items(g, "/rules"));
        rules.map(|r| text(r, "/alert").to_owned() + text(r, "/record")).collect()
    };
    let mut expected = named(&file["groups"]);
    expected.retain(|name| name != "SluicegateLabelOverflow");
    let rule = one(&case.objects, "PrometheusRule");
    assert_eq!(named(&rule["spec"]["groups"]), expected);
    for group in items(rule, "/spec/groups") {
        fields(group, &["name", "interval", "rules", "labels"]);
        for rule in items(group, "/rules") {
            fields(rule, &["alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"]);
        }
    }
    let maps: Vec<&Value> =
        of_kind(&case.objects, "ConfigMap").into_iter().filter(|m| name(m).contains("-dashboard-")).collect();
    let mut files = 0;
    for entry in std::fs::read_dir(root(CHART).join("dashboards")).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let map = maps.iter().find(|m| m["data"][&file].is_string()).unwrap_or_else(|| panic!("{file}"));
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(parse(text(map, &format!("/data/{file}"))), parse(&read(entry.path())), "{file}");
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "2");
        assert_eq!(map["metadata"]["annotations"]["grafana_folder"], "Sluicegate");
        files += 1;
    }
    assert_eq!(maps.len(), files);
    println!("figures: {} rules, {files} dashboards", expected.len());
}

/// SIGTERM may take drain, transaction and leaving the group; where only one pod is, nothing holds up a drain.
#[test]
fn a_pod_has_time_to_end_and_a_node_can_be_drained() {
    let Some(all) = all() else { return };
    for case in all {
        let set = workload(&case.objects);
        let (_, spec) = pod(set).expect("a pod");
        let grace = spec["terminationGracePeriodSeconds"].as_u64().expect("a grace period");
        if let Some(map) =
            of_kind(&case.objects, "ConfigMap").iter().find_map(|m| m["data"]["sluicegate.yaml"].as_str())
        {
            let worker = yaml::document(map)["worker"].clone();
            let seconds = |key: &str| serde_json::from_value::<Time>(worker[key].clone()).expect("a time").0.as_secs();
            let needs = seconds("drain_timeout") + seconds("transaction_timeout") + 20;
            assert!(grace >= needs, "{}: {grace} < {needs}", case.file);
        }
        let scaler = case.objects.iter().find(|o| ["HorizontalPodAutoscaler", "ScaledObject"].contains(&kind(o)));
        let least = match scaler {
            Some(s) => s["spec"]["minReplicas"].as_i64().or(s["spec"]["minReplicaCount"].as_i64()),
            None => set["spec"]["replicas"].as_i64(),
        };
        let wanted = case.values.pointer("/podDisruptionBudget/enabled") != Some(&false.into()) && least > Some(1);
        let budgets = of_kind(&case.objects, "PodDisruptionBudget");
        assert_eq!(budgets.len(), usize::from(wanted), "{}", case.file);
        for budget in budgets {
            assert!(budget["spec"]["minAvailable"].is_null() && !budget["spec"]["maxUnavailable"].is_null());
        }
        let own = own_containers(spec).next().expect("a container");
        assert!(own["resources"]["limits"]["cpu"].is_null(), "{}: throttling is lag", case.file);
        let instance = items(own, "/env").find(|e| e["name"] == "SLUICEGATE__KAFKA__INSTANCE").expect("a name");
        assert_eq!(text(instance, "/valueFrom/fieldRef/fieldPath"), "metadata.name");
    }
}
