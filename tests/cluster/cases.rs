//! The values that are tried.

/// What an operator changes on the second day, all at once.
pub const DAY_TWO: &str = r#"image: {tag: 0.2.0, pullPolicy: Always}
imagePullSecrets: [login]
commonLabels: {team: agents}
commonAnnotations: {contact: agents@example.com}
replicaCount: 5
inputPartitions: 12
config:
  kafka:
    bootstrap_servers: kafka-0:9093,kafka-1:9093
    group: gate-blue
    inputs: [agent.events, agent.replays]
    session_timeout: 45s
  worker: {count: 2, drain_timeout: 40s, transaction_timeout: 30s}
  canary: {enabled: false}
  log: {format: human, level: "info,sluicegate=debug"}
policy: {profile: strict, policies: {SG01: {options: {max_bytes: 65536}}}}
breakGlass: {until: "2020-01-31T18:00:00Z", by: ada, reason: over for long}
policyReload: roll
fingerprintKey: {existingSecret: other-keys, key: other.key}
sasl: {mechanism: SCRAM-SHA-512, username: gate, existingSecret: login}
tls: {enabled: true, ca: {existingSecret: authorities}, client: {existingSecret: gate-client}}
http: {port: 9999, address: "::"}
service: {port: 80, annotations: {a: b}}
resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 2Gi}}
stateMemoryPercent: 30
terminationGracePeriodSeconds: 180
workload: {minReadySeconds: 30, revisionHistoryLimit: 2, annotations: {a: b}}
podDisruptionBudget: {maxUnavailable: 25%, unhealthyPodEvictionPolicy: IfHealthyBudget}
topologySpread: {enabled: false}
networkPolicy: {enabled: true, ingressFrom: [{podSelector: {}}]}
podMonitor: {enabled: true, interval: 15s}
prometheusRule: {enabled: true, additionalRuleLabels: {team: agents}}
dashboards: {enabled: true}
topicsJob: {enabled: true, replication: 3}
test: {enabled: false}
serviceAccount: {name: another, annotations: {a: b}}
podAnnotations: {a: "{{ .Release.Name }}"}
podLabels: {a: b}
nodeSelector: {kubernetes.io/arch: amd64}
tolerations: [{key: dedicated, operator: Exists}]
priorityClassName: agents-high
hostAliases: [{ip: 192.0.2.10, hostnames: [kafka]}]
dnsConfig: {options: [{name: ndots, value: "2"}]}
lifecycle: {preStop: {sleep: {seconds: 5}}}
extraArgs: [--profile, monitor]
extraEnv: [{name: A, value: b}]
extraVolumes: [{name: scratch, emptyDir: {}}]
extraVolumeMounts: [{name: scratch, mountPath: /tmp}]
"#;

// Steps between kinds of one thing: Kubernetes merges what it is sent into what it has, and may keep too much.
pub const STEPS_OF_A_SET: [&str; 4] = [
    "workload: {updateStrategy: {type: OnDelete}}",
    "workload: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}",
    "workload: {updateStrategy: {type: OnDelete}}",
    "config: {kafka: {static_membership: true}}",
];
pub const STEPS_OF_A_DEPLOYMENT: [&str; 3] = [
    "workload: {updateStrategy: {type: Recreate}}",
    "workload: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 50%}}}",
    "workload: {updateStrategy: {type: Recreate}}",
];
pub const STEPS: [&str; 29] = [
    "probes: {readiness: {exec: {command: [a]}}, liveness: {tcpSocket: {port: http}}, startup: {grpc: {port: 1}}}",
    "probes: {readiness: {tcpSocket: {port: http}}, liveness: {grpc: {port: 1}}, startup: {exec: {command: [a]}}}",
    "lifecycle: {preStop: {sleep: {seconds: 5}}}",
    "lifecycle: {preStop: {exec: {command: [a]}}, postStart: {exec: {command: [a]}}}",
    "extraVolumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]",
    "extraVolumes: [{name: b, configMap: {name: c}}, {name: a, secret: {secretName: c}}]",
    "extraEnv: [{name: A, value: b}, {name: B, value: c}]",
    "extraEnv: [{name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: A, value: c}]",
    "tls: {enabled: true, ca: {existingSecret: a}}",
    "tls: {enabled: true, ca: {existingConfigMap: a}}",
    "serviceAccount: {create: false}",
    "serviceAccount: {name: another, automountToken: true}",
    "service: {enabled: false}",
    "service: {port: 80}",
    "existingConfigMap: {name: ours}",
    "existingPolicyConfigMap: {name: ours}",
    "topologySpread: {constraints: [{maxSkew: 2, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]}",
    "podSecurityContext: {fsGroup: null, fsGroupChangePolicy: null, supplementalGroups: [1]}",
    "resources: {limits: null}",
    "image: {digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}",
    "inputPartitions: 9\nautoscaling: {enabled: true}",
    "inputPartitions: 9\nautoscaling: {enabled: true, engine: keda, keda: {serverAddress: 'http://p:9090'}}",
    "replicaCount: 1",
    "topicsJob: {enabled: true}",
    "topicsJob: {enabled: true, backoffLimit: 1}",
    "networkPolicy: {enabled: true}",
    "networkPolicy: {enabled: true, brokerPorts: [1, 2], dnsTo: [{namespaceSelector: {}}]}",
    "podMonitor: {enabled: true}",
    "serviceMonitor: {enabled: true}",
];

/// Wrong values, and what is said of them.
pub const REFUSED: [(&str, &str); 15] = [
    ("image: {repository: ''}", "image.repository: missing"),
    ("config: {kafka: {inputs: []}}\nsasl: {mechanism: PLAIN}", "3 to repair in the values"),
    ("config: {kafka: {properties: {acks: '1'}}}", "config.kafka.properties.acks: not allowed"),
    ("terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: 5: must be at least 60"),
    ("workload: {kind: DaemonSet}", "kind"),
    ("replicas: 3", "replicas"),
    ("resources: {limits: {memory: 1.5Gi}}", "resources.limits.memory: 1.5Gi"),
    ("resources: {requests: {memory: 2Gi}}", "resources.requests.memory: 2Gi: must not exceed"),
    ("test: {resources: {limits: {cpu: 20m}}}", "test.resources.requests.cpu: 50m: must not exceed"),
    ("probes: {readiness: {periodSeconds: 30}}", "probes.readiness: replaces the whole probe"),
    ("workload: {kind: Deployment, updateStrategy: {type: OnDelete}}", "a Deployment has RollingUpdate and Recreate"),
    ("workload: {updateStrategy: {rollingUpdate: {maxSurge: 1}}}", "rollingUpdate.maxSurge: that of a StatefulSet has"),
    ("fullnameOverride: My.Gate", "fullnameOverride"),
    ("commonLabels: {team: a b}", "commonLabels"),
    ("serviceAccount: {name: My_Account}", "serviceAccount/name"),
];
