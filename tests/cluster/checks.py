"""The chart on a real API server: `checks.py HELM PROGRAMS RESOURCES [CHECK...]`, as `run` calls it."""

import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from cluster import Cluster, documents
from release import CHART, RELEASE, Run

CASES = {path.name[:2]: path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
FIRST = CASES["01"]
# Kinds of operators that the chart makes, as files of their definitions begin.
FOREIGN = (
    "monitoring.coreos.com_podmonitors", "monitoring.coreos.com_servicemonitors",
    "monitoring.coreos.com_prometheusrules", "keda.sh_scaledobjects",
)
PARALLEL = "workload: {podManagementPolicy: Parallel}\n"

# What an operator changes on the second day, all at once.
DAY_TWO = """
image: {tag: 0.2.0, pullPolicy: Always}
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
"""

# Steps between kinds of one thing: Kubernetes merges what it is sent into what it has, and may keep too much.
STEPS = {
    "StatefulSet": [
        "workload: {updateStrategy: {type: OnDelete}}",
        "workload: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}",
        "workload: {updateStrategy: {type: OnDelete}}",
        "config: {kafka: {static_membership: true}}",
    ],
    "Deployment": [
        "workload: {updateStrategy: {type: Recreate}}",
        "workload: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 50%}}}",
        "workload: {updateStrategy: {type: Recreate}}",
    ],
    "both": [
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
        "topologySpread: {constraints: [{maxSkew: 2, topologyKey: kubernetes.io/hostname, "
        "whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]}",
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
    ],
}

REFUSED = [
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
]


def kind_of(path):
    return "Deployment" if "kind: Deployment" in path.read_text() else "StatefulSet"


def installs(run):
    """Each values file: installed under the restricted standard, read back, its pods made, taken away again."""
    for number, path in CASES.items():
        space = run.namespace(f"in-case-{number}")
        before = set(run.cluster.objects(space))
        if not run.does("install", space, path, to=path.name):
            continue
        run.same(space, run.fresh(path), path.name)
        _, manifest, _ = run.helm("get", "manifest", RELEASE, namespace=space)
        for document in documents(manifest):
            kind, name, where = run.cluster.place(document, space)
            live = run.cluster.get(where)
            # Applied over itself, what was rendered changes nothing: the server holds it, field by field.
            status, again = run.cluster.ask("PATCH", where, document, "application/apply-patch+yaml", dryRun="All",
                                            fieldManager="check", force="true", fieldValidation="Strict")
            warned = run.cluster.warnings
            for item in (live, again):
                if isinstance(item, dict):
                    for key in ("managedFields", "resourceVersion"):
                        item.get("metadata", {}).pop(key, None)
            run.count("objects read back")
            run.check(status == 200 and live == again and not warned, f"{space}: {kind}/{name} is what was rendered",
                      f"{status} {str(again)[:300] if status != 200 else ''} {warned}")
        _, hooks, _ = run.helm("get", "hooks", RELEASE, namespace=space)
        for document in documents(hooks):
            kind, name, where = run.cluster.place(document, space)
            status, item = run.cluster.ask("POST", where.rsplit("/", 1)[0], document, "application/yaml",
                                           dryRun="All", fieldValidation="Strict")
            run.count("pods of `helm test` admitted in dry runs")
            run.check(status == 201 and not run.cluster.warnings, f"{space}: {kind}/{name} of `helm test`",
                      f"{status} {item} {run.cluster.warnings}")
        _, pods = run.settled(space)
        run.count("pods admitted", len(pods))
        token = "automountToken: true" in path.read_text()
        for pod in pods:
            mounted = any(v["name"].startswith("kube-api-access") for v in pod["spec"]["volumes"])
            run.check(mounted == token, f"{space}: {pod['metadata']['name']} has a token only where it is asked for")
        if any(key.startswith("Job/") for key in run.own(space)):
            made = run.cluster.until("the pod of the Job", lambda: [
                k for k, i in run.cluster.objects(space).items()
                if k.startswith("Pod/") and i["metadata"]["labels"]["app.kubernetes.io/component"] == "topics"])
            run.count("pods admitted", len(made))
        rights_of(run, space, pods[0]["spec"]["serviceAccountName"] if pods else "default")
        run.uninstalls(space, before)


def rights_of(run, space, account):
    """What the account may do is what any account may, and that is nothing."""
    def rules(name):
        review = {"spec": {"namespace": space}}
        status, answer = run.cluster.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review,
                                         as_user=f"system:serviceaccount:{space}:{name}")
        return status, {k: sorted(map(str, v)) for k, v in answer["status"].items() if isinstance(v, list)}
    given = rules(account)
    run.check(given[0] == 201 and given == rules("made-up"), f"{space}: {account} has no rights of its own", given)
    for method, path in (("GET", "secrets"), ("GET", "configmaps"), ("GET", "pods"), ("POST", "pods")):
        body = {"metadata": {"name": "x"}} if method == "POST" else None
        status, _ = run.cluster.ask(method, f"/api/v1/namespaces/{space}/{path}", body,
                                    as_user=f"system:serviceaccount:{space}:{account}")
        run.check(status == 403, f"{space}: {account} may not {method} {path}", status)


def upgrades(run):
    """One release through all values files, also from each to the next: forward, back to the first, forward again."""
    space = run.namespace("in-upgrades")
    run.does("install", space, FIRST, to=FIRST.name)
    first, (revision, _) = run.own(space), run.settled(space)
    # A StatefulSet's order of pods is for good; `kept` tries that.
    expected = {number: [path, PARALLEL] if number == "12" else [path] for number, path in CASES.items()}
    for number, path in list(CASES.items())[1:]:
        wanted = run.fresh(*expected[number])
        run.does("upgrade", space, *expected[number], to=path.name)
        run.same(space, wanted, path.name)
        run.settled(space)
        run.rolls_back(space, path.name)
        run.same(space, first, f"the rollback from {path.name}")
        run.check(run.settled(space)[0] == revision, f"{space}: the pods' revision after the rollback from {path.name}")
        run.does("upgrade", space, *expected[number], to=f"{path.name} again")
        run.same(space, wanted, f"{path.name} again")
    run.uninstalls(space, {"ServiceAccount/default", "ServiceAccount/our-account", "ConfigMap/kube-root-ca.crt"})


def day_two(run):
    """All that operators change later, at once and step by step, and back."""
    for kind in ("StatefulSet", "Deployment"):
        space = run.namespace(f"in-day-two-{kind.lower()}")
        base = f"workload: {{kind: {kind}}}\n"
        run.does("install", space, FIRST, base)
        first, (revision, _) = run.own(space), run.settled(space)
        for step in [DAY_TWO, *STEPS[kind], *STEPS["both"]]:
            what = f"{kind}, {step.strip().splitlines()[0][:70]}"
            wanted = run.fresh(FIRST, base, step)
            run.count("steps")
            run.does("upgrade", space, FIRST, base, step, to=what)
            run.same(space, wanted, what)
            if step == DAY_TWO:
                run.check(run.settled(space)[0] != revision, f"{space}: the pods are replaced")
                run.rolls_back(space, "the second day")
                run.same(space, first, "the rollback from the second day")
                run.check(run.settled(space)[0] == revision, f"{space}: the pods' revision is the first again")
                run.does("upgrade", space, FIRST, base, step, to=what)
                run.same(space, wanted, what)
        run.rolls_back(space, "all steps")
        run.same(space, first, "the rollback from all steps")
        run.check(run.settled(space)[0] == revision, f"{space}: the pods' revision after all steps")


def kept(run):
    """What Kubernetes never changes: refused with nothing touched, and the way around it that the README tells."""
    ordered = "workload: {podManagementPolicy: OrderedReady}\n"
    named = "fullnameOverride: gate\n"
    for name, base, change, message in (
        ("order", "", ordered, "workload.podManagementPolicy: StatefulSet gate-sluicegate keeps Parallel"),
        ("set", named, "nameOverride: other", "nameOverride: the selector of StatefulSet gate cannot be changed"),
        ("deployment", named + "workload: {kind: Deployment}\n", "nameOverride: other",
         "nameOverride: the selector of Deployment gate cannot be changed: it has the name sluicegate"),
    ):
        space = run.namespace(f"in-kept-{name}")
        run.does("install", space, FIRST, base)
        before = run.own(space)
        values = run.values(FIRST, base, change, "policy: {profile: strict}")
        code, _, said = run.helm("upgrade", RELEASE, CHART, *values, namespace=space)
        run.count("refused upgrades")
        run.check(code != 0 and message in said, f"{space}: the chart refuses {change}", said)
        run.check(run.own(space) == before, f"{space}: nothing is touched by {change}")
        _, history, _ = run.helm("history", RELEASE, "--output", "json", namespace=space)
        run.check(len(json.loads(history)) == 1, f"{space}: there is no failed revision", history)
    space = "in-kept-order"
    _, pods = run.settled(space)
    where = f"/apis/apps/v1/namespaces/{space}/statefulsets/gate-sluicegate"
    status, _ = run.cluster.ask("DELETE", where, {"propagationPolicy": "Orphan"})
    run.check(status == 200, "the StatefulSet is deleted, its pods are left", status)
    run.cluster.until("it is gone", lambda: run.cluster.ask("GET", where)[0] == 404)
    run.does("upgrade", space, FIRST, ordered, to="another order")
    run.same(space, run.fresh(FIRST, ordered), "another order")
    owner = run.cluster.get(where)["metadata"]["uid"]

    def adopted():
        items = run.cluster.objects(space).items()
        now = {i["metadata"]["uid"] for k, i in items if k.startswith("Pod/")
               and [o["uid"] for o in i["metadata"].get("ownerReferences", [])] == [owner]}
        return now == {pod["metadata"]["uid"] for pod in pods}
    run.check(run.cluster.until("the pods are taken over", adopted), "the pods are the same")
    code, _, said = run.helm("rollback", RELEASE, 1, namespace=space)
    run.check(code != 0 and "immutable" in said, "Kubernetes refuses the rollback over it", said)
    run.does("upgrade", space, FIRST, ordered, to="the present again")
    run.same(space, run.fresh(FIRST, ordered), "the present again")


def recovers(run):
    """An upgrade that only Kubernetes refuses, half done: the way back that the README tells, and why."""
    space = run.namespace("in-recovers")
    refused = ("networkPolicy: {enabled: true}\ncommonLabels: {a: b}\npolicy: {profile: strict}\n"
               "tolerations: [{key: a, operator: Equals}]\n")
    mended = refused.replace("Equals", "Equal")
    before = set(run.cluster.objects(space))

    def half_done(verb):
        code, _, said = run.helm(verb, RELEASE, CHART, *run.values(FIRST, refused), namespace=space)
        run.count("upgrades refused by the server")
        run.check(code != 0 and "tolerations[0].operator" in said, f"{space}: Kubernetes refuses the {verb}", said)
        run.check("NetworkPolicy/gate-sluicegate" in run.own(space), f"{space}: part of the {verb} is done")
    half_done("install")
    run.does("upgrade", space, FIRST, mended, to="mended values, after a failed installation")
    run.same(space, run.fresh(FIRST, mended), "mended values, after a failed installation")
    run.uninstalls(space, before)
    run.does("install", space, FIRST)
    first = run.own(space)
    half_done("upgrade")
    run.rolls_back(space, "a failed upgrade")
    run.same(space, first, "the rollback from a failed upgrade")
    half_done("upgrade")
    run.does("upgrade", space, FIRST, mended, to="mended values")
    run.same(space, run.fresh(FIRST, mended), "mended values")
    run.rolls_back(space, "mended values")
    run.same(space, first, "the rollback from mended values")
    half_done("upgrade")
    run.does("upgrade", space, FIRST, "replicaCount: 3", to="other values")
    run.check("NetworkPolicy/gate-sluicegate" in run.own(space), "an upgrade to other values keeps what was added")


def documented(run):
    """What else the README says happens: the switch to autoscaling, and what an uninstallation leaves."""
    space = run.namespace("in-documented")
    before = set(run.cluster.objects(space))
    run.does("install", space, FIRST, "replicaCount: 5")
    run.does("upgrade", space, FIRST, "inputPartitions: 9\nautoscaling: {enabled: true}", to="autoscaling")
    found = run.own(space)["StatefulSet/gate-sluicegate"]["spec"]["replicas"]
    run.check(found == 1, "without a number there is one pod, until the autoscaler acts", found)
    # Nothing runs the pod, so that the test does not end; it is admitted.
    run.helm("test", RELEASE, "--timeout", "3s", namespace=space)
    run.check("Pod/gate-sluicegate-test" in run.cluster.objects(space), "the pod of `helm test` is admitted")
    run.uninstalls(space, before, left=["Pod/gate-sluicegate-test"])
    run.cluster.ask("DELETE", f"/api/v1/namespaces/{space}/pods", labelSelector="app.kubernetes.io/component=test")
    run.cluster.until("it is gone", lambda: set(run.cluster.objects(space)) == before)
    run.check(True, "its label finds the pod of `helm test`")


def names(run):
    """Releases with every name that Helm takes."""
    values = "topicsJob: {enabled: true}\ndashboards: {enabled: true}\npodMonitor: {enabled: true}\n"
    for number, release in enumerate(("g" * 53, "a.release.with.dots", "sluicegate", "7-gates", f"{'a.' * 26}b")):
        space = run.namespace(f"in-names-{number}")
        before = set(run.cluster.objects(space))
        code, _, said = run.helm("install", release, CHART, *run.values(FIRST, values), namespace=space)
        run.count("installs")
        if run.check(code == 0 and not said.strip(), f"a release {release}", said):
            _, pods = run.settled(space)
            run.count("pods admitted", len(pods))
            run.check(len(pods) == 2, f"a release {release} has its pods")
            code, _, said = run.helm("uninstall", release, namespace=space)
            run.cluster.until("it is gone", lambda: set(run.cluster.objects(space)) == before)


def refusals(run):
    """Wrong values are refused by the chart, and nothing is left behind."""
    space = run.namespace("in-refusals")
    before = set(run.cluster.objects(space))
    for values, message in REFUSED:
        code, _, said = run.helm("install", RELEASE, CHART, *run.values(FIRST, values), namespace=space)
        run.count("refused installations")
        run.check(code != 0 and message in said, f"{values} is refused", said)
        run.check(set(run.cluster.objects(space)) == before, f"{values} leaves nothing")


def finds_what_is_wrong(run):
    """What these checks must find, or they show nothing."""
    space = run.namespace("in-wrong")
    values = "containerSecurityContext: {allowPrivilegeEscalation: true}"
    code, _, said = run.helm("install", RELEASE, CHART, *run.values(FIRST, values), namespace=space)
    run.check(code == 0 and "would violate PodSecurity" in said, "a warning of the server is seen", said)
    try:
        run.cluster.until("refused pods", lambda: any(
            "violates PodSecurity" in e["message"]
            for e in run.cluster.get(f"/api/v1/namespaces/{space}/events")["items"]), 60)
        run.check(not any(k.startswith("Pod/") for k in run.cluster.objects(space)), "such pods are not admitted")
    except TimeoutError:
        run.check(False, "such pods are refused")
    before = run.own(space)
    status, _ = run.cluster.ask("PATCH", f"/apis/apps/v1/namespaces/{space}/statefulsets/gate-sluicegate",
                                {"spec": {"template": {"metadata": {"annotations": {"left": "over"}}}}},
                                "application/merge-patch+json")
    found = [key for key, item in run.own(space).items() if item != before[key]]
    run.check(status == 200 and found == ["StatefulSet/gate-sluicegate"], "what an upgrade leaves over", found)
    for body in ("data: {}\ndatas: {}", "data: {}\ndata: {}", "data: {a: 1}"):
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n{body}\n"
        status, _ = run.cluster.ask("POST", f"/api/v1/namespaces/{space}/configmaps", text, "application/yaml",
                                    dryRun="All", fieldValidation="Strict")
        run.check(status in (400, 422), f"{body!r} is refused", status)
    for kind, resource, version in (("PodMonitor", "podmonitors", "monitoring.coreos.com/v1"),
                                    ("ScaledObject", "scaledobjects", "keda.sh/v1alpha1")):
        text = f"apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: x\nspec:\n  madeUp: 1\n"
        status, _ = run.cluster.ask("POST", f"/apis/{version}/namespaces/{space}/{resource}", text,
                                    "application/yaml", dryRun="All", fieldValidation="Strict")
        run.check(status in (400, 422), f"a {kind} with a field that it has not", status)


CHECKS = [finds_what_is_wrong, installs, upgrades, day_two, kept, recovers, documented, names, refusals]


def prepare(run, definitions):
    for path in sorted(Path(definitions).glob("*.yaml")):
        if path.name.startswith(FOREIGN):
            status, answer = run.cluster.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                                             path.read_text(), "application/yaml")
            run.check(status == 201, path.name, answer)
    run.cluster.create("scheduling.k8s.io/v1", "priorityclasses", None,
                       {"metadata": {"name": "agents-high"}, "value": 1000})
    run.cluster.create("node.k8s.io/v1", "runtimeclasses", None, {"metadata": {"name": "gvisor"}, "handler": "runsc"})
    run.cluster.until("the kinds of operators are served",
                      lambda: {"PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject"}
                      <= {kind for _, kind in run.cluster.discover()}, 60)
    run.namespace("twin-of-all")


def main(helm, programs, definitions, *wanted):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    names = [check.__name__ for check in CHECKS]
    if unknown := set(wanted) - set(names):
        raise SystemExit(f"no check {sorted(unknown)}: {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        cluster = None
        try:
            cluster = Cluster(programs, folder)
            run = Run(helm, cluster, folder)
            prepare(run, definitions)
            for check in CHECKS:
                if not wanted or check.__name__ in wanted:
                    start, so_far = time.monotonic(), run.passed
                    check(run)
                    seconds = time.monotonic() - start
                    print(f"{check.__name__}: {run.passed - so_far} held ({seconds:.0f} s)", flush=True)
        finally:
            if cluster:
                cluster.close()
    version = Path(programs).name.rsplit("-", 1)[-1]
    print("figures: " + ", ".join([f"Kubernetes {version}", *(f"{n} {what}" for what, n in run.figures.items())]))
    print(f"cluster: {run.passed} passed, {run.failed} failed, 0 skipped ({time.monotonic() - began:.0f} s)")
    sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
