//! Every message of `validate.yaml` is reached, names the value to change, and stands beside all others.

use super::render::{CHART, refusal, with};
use super::tools;
use crate::files::{read, root};
use std::path::Path;

/// Values over the first case, and how the message begins that they cause.
const REFUSED: [(&str, &str); 67] = [
    ("image: {repository: ''}", "image.repository: missing: set it to where you pushed the image"),
    ("config: {kafka: {bootstrap_servers: ' '}}", "config.kafka.bootstrap_servers: missing: set it to host:port"),
    ("config: {kafka: {inputs: []}}", "config.kafka.inputs: missing: list the topics"),
    (
        "fingerprintKey: {existingSecret: ''}",
        "fingerprintKey.existingSecret: missing: make one with `kubectl -n agents create secret generic sluicegate-fingerprint --from-literal=fingerprint.key=$(openssl rand -hex 32)`",
    ),
    ("sasl: {mechanism: PLAIN, existingSecret: s}", "sasl.username: missing: sasl.mechanism PLAIN needs it"),
    ("sasl: {mechanism: PLAIN, username: u}", "sasl.existingSecret: missing: sasl.mechanism PLAIN needs it"),
    ("sasl: {username: u}", "sasl.mechanism: missing: without it"),
    (
        "sasl: {mechanism: PLAIN, username: u, existingSecret: s}\ntopicsJob: {sasl: {username: a}}",
        "topicsJob.sasl.existingSecret: missing: the Job's user",
    ),
    (
        "sasl: {mechanism: PLAIN, username: u, existingSecret: s}\ntopicsJob: {sasl: {existingSecret: a}}",
        "topicsJob.sasl.username: missing: the Job's user",
    ),
    (
        "topicsJob: {sasl: {username: a, existingSecret: s}}",
        "sasl.mechanism: missing: topicsJob.sasl would not be used",
    ),
    ("topicsJob: {tls: {client: {existingSecret: a}}}", "tls.client.existingSecret: missing: topicsJob.tls.client"),
    (
        "tls: {enabled: true, ca: {existingSecret: a, existingConfigMap: b}}",
        "tls.ca: set existingSecret or existingConfigMap",
    ),
    ("tls: {client: {existingSecret: a}}", "tls.enabled: false: set it to true"),
    (
        "config: {kafka: {properties: {isolation.level: read_uncommitted}}}",
        "config.kafka.properties.isolation.level: not allowed: inputs and state are read with read_committed",
    ),
    (
        "config: {kafka: {properties: {max.in.flight.requests.per.connection: 9}}}",
        "config.kafka.properties.max.in.flight.requests.per.connection: not allowed: order",
    ),
    (
        "workload: {kind: Deployment}\nconfig: {kafka: {static_membership: true}}",
        "config.kafka.static_membership: needs workload.kind StatefulSet",
    ),
    (
        "config: {worker: {drain_timeout: 40000}}",
        "config.worker.drain_timeout: 40000: must not exceed config.kafka.session_timeout (30s)",
    ),
    ("terminationGracePeriodSeconds: 59", "terminationGracePeriodSeconds: 59: must be at least 60: "),
    (
        "terminationGracePeriodSeconds: 159\nconfig: {worker: {transaction_timeout: 2m}}",
        "terminationGracePeriodSeconds: 159: must be at least 165: ",
    ),
    ("autoscaling: {enabled: true}", "inputPartitions: missing: autoscaling needs the number"),
    (
        "inputPartitions: 11\nconfig: {worker: {count: 2}}\nautoscaling: {enabled: true}",
        "autoscaling.maxReplicas: 6 pods of 2 threads (config.worker.count) are more than the 11 partitions",
    ),
    ("inputPartitions: 3\nreplicaCount: 4", "replicaCount: 4 pods of 1 threads"),
    (
        "inputPartitions: 9\nautoscaling: {enabled: true, minReplicas: 7}",
        "autoscaling.minReplicas: 7: must not exceed autoscaling.maxReplicas (6)",
    ),
    (
        "inputPartitions: 9\nautoscaling: {enabled: true, engine: keda}",
        "autoscaling.keda.serverAddress: missing: the address of the Prometheus",
    ),
    ("resources: {limits: {memory: 1.5Gi}}", "resources.limits.memory: 1.5Gi: must be a whole number with a unit"),
    (
        "inputPartitions: 200",
        "inputPartitions: 200: each gets 2147483 bytes of state, less than one conversation may take (4194304)",
    ),
    ("resources: {requests: {memory: 2Gi}}", "resources.requests.memory: 2Gi: must not exceed resources.limits.memory"),
    ("resources: {requests: {cpu: 1.5}, limits: {cpu: 1400m}}", "resources.requests.cpu: 1.5: must not exceed"),
    ("test: {resources: {limits: {cpu: 0.04}}}", "test.resources.requests.cpu: 50m: must not exceed test.resources"),
    ("probes: {startup: {failureThreshold: 600}}", "probes.startup: replaces the whole probe: give it httpGet"),
    ("probes: {readiness: {periodSeconds: 30}}", "probes.readiness: replaces the whole probe: give it httpGet"),
    (
        "workload: {kind: Deployment, updateStrategy: {type: OnDelete}}",
        "workload.updateStrategy: type OnDelete: a Deployment has RollingUpdate and Recreate",
    ),
    (
        "workload: {updateStrategy: {type: Recreate}}",
        "workload.updateStrategy: type Recreate: a StatefulSet has RollingUpdate and OnDelete",
    ),
    (
        "workload: {updateStrategy: {rollingUpdate: {maxSurge: 1}}}",
        "workload.updateStrategy: rollingUpdate.maxSurge: that of a StatefulSet has maxUnavailable and partition",
    ),
    (
        "workload: {kind: Deployment, updateStrategy: {rollingUpdate: {partition: 1}}}",
        "workload.updateStrategy: rollingUpdate.partition: that of a Deployment has maxUnavailable and maxSurge",
    ),
    (
        "workload: {updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}}",
        "workload.updateStrategy: rollingUpdate: not with type OnDelete",
    ),
    ("podDisruptionBudget: {maxUnavailable: 0%}", "podDisruptionBudget.maxUnavailable: 0 would block every drain"),
    ("podMonitor: {enabled: true}\nserviceMonitor: {enabled: true}", "serviceMonitor.enabled: the PodMonitor scrapes"),
    ("service: {enabled: false}\nserviceMonitor: {enabled: true}", "service.enabled: false: a ServiceMonitor needs it"),
    (
        "existingConfigMap: {name: a}\nnetworkPolicy: {enabled: true}",
        "networkPolicy.brokerPorts: missing: with existingConfigMap",
    ),
    ("breakGlass: {until: '2030-01-31T18:00:00Z', reason: r}", "breakGlass.by: missing: until, by and reason"),
    ("breakGlass: {until: '2030-01-31T18:00:00Z', by: a, reason: ' '}", "breakGlass.reason: missing: until, by"),
    ("breakGlass: {by: a, reason: r}", "breakGlass.until: missing: until, by and reason"),
    ("breakGlass: {until: soon, by: a, reason: r}", "breakGlass.until: soon: must be a time of RFC 3339"),
    ("extraEnv: [{name: SLUICEGATE__KAFKA__INSTANCE, value: a}]", "extraEnv: SLUICEGATE__KAFKA__INSTANCE is the pod's"),
    (
        "sasl: {mechanism: PLAIN, username: u, existingSecret: s}\n\
         topicsJob: {enabled: true, sasl: {username: a, existingSecret: s}}\n\
         extraEnv: [{name: SLUICEGATE__KAFKA__SASL__USERNAME, value: b}]",
        "extraEnv: SLUICEGATE__KAFKA__SASL__USERNAME: would not hold for the job",
    ),
    ("extraEnv: [{name: Sluicegate__kafka__instance, value: a}]", "extraEnv: SLUICEGATE__KAFKA__INSTANCE is the pod's"),
    (
        "config: {kafka: {inputs: [sluicegate.verdicts]}}",
        "config.kafka.inputs: \"sluicegate.verdicts\": also what config.kafka.topics.verdicts says",
    ),
    (
        "config: {kafka: {inputs: [a], topics: {pins: a}}}",
        "config.kafka.inputs: \"a\": also what config.kafka.topics.pins says: inputs and outputs",
    ),
    ("config: {kafka: {inputs: [a, a]}}", "config.kafka.inputs: \"a\": stands there twice"),
    ("config: {fleets: {_canary: {}}}", "config: fleets._canary: the name of the canary's own fleet"),
    (
        "config: {kafka: {bootstrap_servers: 'a:70000,[::1]:9092,c'}}",
        "config.kafka.bootstrap_servers: \"a:70000\": a port is a number from 1 to 65535",
    ),
    ("resources: {limits: {memory: -1}}", "resources.limits.memory: -1: must be a whole number with a unit"),
    ("resources: {requests: {memory: -1Gi}}", "resources.requests.memory: -1Gi: must not be negative"),
    ("config: {kafka: {inputs: [sluicegate.pins.audit]}}", "config.kafka.inputs: \"sluicegate.pins.audit\": also what"),
    (
        "existingConfigMap: {name: gate-sluicegate}",
        "existingConfigMap.name: gate-sluicegate: the name of a ConfigMap that",
    ),
    (
        "existingPolicyConfigMap: {name: gate-sluicegate-policy}",
        "existingPolicyConfigMap.name: gate-sluicegate-policy: the name of a ConfigMap that",
    ),
    (
        "existingPolicyConfigMap: {name: a}\nbreakGlass: {until: '2030-01-31T18:00:00Z', by: a, reason: r}",
        "breakGlass.until: would not be used: with existingPolicyConfigMap",
    ),
    ("extraVolumes: [{emptyDir: {}}]", "extraVolumes: a volume without a name"),
    ("extraVolumes: [{name: config, emptyDir: {}}]", "extraVolumes: \"config\": the pod has a volume of that name"),
    (
        "extraVolumeMounts: [{name: nosuch, mountPath: /tmp}]",
        "extraVolumeMounts: \"nosuch\": no volume has that name: add it to extraVolumes",
    ),
    (
        "extraVolumeMounts: [{name: policy, mountPath: /etc/sluicegate/config/}]",
        "extraVolumeMounts: \"/etc/sluicegate/config\": something is mounted there already",
    ),
    ("extraInitContainers: [{image: a}]", "extraInitContainers: a container needs a name and an image"),
    ("extraContainers: [{name: a}]", "extraContainers: a container needs a name and an image"),
    (
        "extraContainers: [{name: sluicegate, image: a}]",
        "extraContainers: \"sluicegate\": the pod has a container of that name already",
    ),
    (
        "extraInitContainers: [{name: a, image: a}]\nextraContainers: '[{name: a, image: b}]'",
        "extraContainers: \"a\": the pod has a container of that name already",
    ),
    (
        "extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: ConfigMap}]",
        "extraObjects: entry 1: an object needs apiVersion, kind and metadata.name",
    ),
];

/// The texts of the messages: what stands between placeholders.
fn messages() -> Vec<String> {
    let file = read(root(CHART).join("templates/validate.yaml"));
    let appended = file.split("{{- $p = append $p ").skip(1);
    appended
        .map(|rest| {
            let text = rest.split('"').nth(1).expect("a text");
            text.split('%')
                .max_by_key(|part| part.len())
                .expect("a part")
                .trim_start_matches(['s', 'd', 'v', 'q'])
                .to_owned()
        })
        .collect()
}

fn lines(helm: &Path, values: &str) -> Vec<String> {
    let said = refusal(helm, values);
    let inside = said.lines().skip_while(|l| !l.contains("to repair in the values:")).skip(1);
    inside.take_while(|l| l.starts_with("  ")).map(|l| l.trim().to_owned()).collect()
}

#[test]
fn every_message_is_reached_alone_and_names_a_value() {
    let Some(helm) = tools::helm() else { return };
    let mut reached = Vec::new();
    for (values, expected) in REFUSED {
        let found = lines(helm, values);
        assert_eq!(found.len(), 1, "{values}: {found:#?}");
        assert!(found[0].starts_with(expected), "{values}: {}\nshould begin with\n{expected}", found[0]);
        reached.extend(found);
    }
    let messages = messages();
    assert!(messages.len() > 20, "{messages:#?}");
    for message in &messages {
        assert!(reached.iter().any(|line| line.contains(message.as_str())), "no case reaches {message:?}");
    }
    let known = read(root(CHART).join("values.yaml"));
    for line in &reached {
        let path = line.split(": ").next().expect("a path");
        let last = path.split('.').next_back().expect("a key");
        let named = known.contains(&format!("{last}:")) || path.starts_with("config.kafka.properties.");
        assert!(named, "{path} is no value");
    }
    println!("figures: {} messages, {} cases", messages.len(), REFUSED.len());
}

/// The operator repairs all of it in one go.
#[test]
fn all_problems_are_told_at_once() {
    let Some(helm) = tools::helm() else { return };
    let values = "image: {repository: ''}\nconfig: {kafka: {inputs: []}}\nsasl: {mechanism: PLAIN}\n\
                  podDisruptionBudget: {maxUnavailable: 0}\n";
    let found = lines(helm, values);
    assert_eq!(found.len(), 5, "{found:#?}");
}

/// What is no mistake is not refused.
#[test]
fn what_is_fine_is_not_refused() {
    let Some(helm) = tools::helm() else { return };
    for values in [
        "terminationGracePeriodSeconds: 60",
        "config: {worker: {drain_timeout: 30s}}\nterminationGracePeriodSeconds: 65",
        "inputPartitions: 102",
        "inputPartitions: 2\nreplicaCount: 2",
        "inputPartitions: 2\nconfig: {state: {max_bytes: 8MiB}}",
        "resources: {limits: {memory: null}}\ninputPartitions: 5000",
        "resources: {limits: {memory: 1073741824}}",
        "config: {kafka: {properties: {fetch.min.bytes: 1}}}",
        "existingConfigMap: {name: a}\nconfig: {kafka: {inputs: [], bootstrap_servers: ''}}",
        "replicaCount: 1",
        "resources: {requests: {memory: 1Gi, cpu: 1}, limits: {cpu: 1000m}}",
        "resources: {requests: {memory: 1073741824, cpu: 0.5}, limits: {memory: 1Gi, cpu: 500m}}",
        "probes: {readiness: {exec: {command: [a]}}, liveness: {tcpSocket: {port: http}}, startup: {grpc: {port: 1}}}",
        "workload: {updateStrategy: {type: OnDelete}}",
        "workload: {updateStrategy: {rollingUpdate: {partition: 1, maxUnavailable: 2}}}",
        "workload: {kind: Deployment, updateStrategy: {type: Recreate}}",
        "workload: {kind: Deployment, updateStrategy: {rollingUpdate: {maxSurge: 50%, maxUnavailable: 0}}}",
    ] {
        with(helm, &root(CHART), values).unwrap_or_else(|e| panic!("{values}: {e}"));
    }
}

/// No text of a value becomes YAML: whatever a template puts on a line is quoted, JSON, or made by `toYaml`.
#[test]
fn every_value_on_a_line_is_quoted() {
    let folder = root(CHART).join("templates");
    let mut seen = 0;
    for path in [folder.clone(), folder.join("tests")].iter().flat_map(|f| std::fs::read_dir(f).expect("a folder")) {
        let path = path.expect("an entry").path();
        if !path.is_file() || path.ends_with("NOTES.txt") {
            continue;
        }
        let text = read(&path);
        for line in text.lines().map(str::trim).filter(|l| !l.starts_with("{{") && l.contains("{{ ")) {
            seen += 1;
            let safe = ["quote ", "toJson ", "int64 ", "nindent ", "sluicegate.endpoint", "{{ base $path }}"];
            let made = path.ends_with("_helpers.tpl") && line.starts_with("{{");
            assert!(made || safe.iter().any(|s| line.contains(s)), "{}: {line}", path.display());
        }
    }
    assert!(seen > 40, "{seen}");
}
