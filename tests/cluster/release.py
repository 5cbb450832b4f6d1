"""A release of the chart in a namespace: what Helm does, and what then stands there."""

import json
import os
import subprocess
from pathlib import Path

from cluster import documents, without_what_servers_add

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/sluicegate"
RELEASE = "gate"


class Run:
    def __init__(self, helm, cluster, folder):
        self.helm_program, self.cluster, self.folder = helm, cluster, folder
        self.passed, self.failed, self.figures, self.files = 0, 0, {}, 0
        self.environment = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "HELM_CACHE_HOME": folder,
                            "HELM_CONFIG_HOME": folder, "HELM_DATA_HOME": folder}

    def check(self, holds, what, detail=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {detail}", flush=True)
        return bool(holds)

    def count(self, what, number=1):
        self.figures[what] = self.figures.get(what, 0) + number

    def helm(self, *arguments, namespace):
        command = [self.helm_program, *map(str, arguments), "--namespace", namespace]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, done.stderr

    def values(self, *parts):
        """Arguments for values: files, or text."""
        arguments = []
        for part in parts:
            if isinstance(part, str):
                self.files += 1
                path = os.path.join(self.folder, f"values-{self.files}.yaml")
                Path(path).write_text(part)
                part = path
            arguments += ["--values", part]
        return arguments

    def does(self, verb, namespace, *parts, to=""):
        """`helm install` or `helm upgrade`, which must be accepted without a warning."""
        more = ["--history-max", 0] if verb == "upgrade" else []
        code, _, said = self.helm(verb, RELEASE, CHART, *more, *self.values(*parts), namespace=namespace)
        self.count(f"{verb}s")
        accepted = self.check(code == 0, f"{namespace}: {verb} {to}", said.strip())
        self.check(not said.strip() or code, f"{namespace}: {verb} {to} without a warning", said.strip())
        return accepted

    def rolls_back(self, namespace, what):
        code, _, said = self.helm("rollback", RELEASE, 1, "--history-max", 0, namespace=namespace)
        self.count("rollbacks")
        self.check(code == 0 and not said.strip(), f"{namespace}: rollback from {what}", said.strip())
        code, out, said = self.helm("history", RELEASE, "--output", "json", namespace=namespace)
        last = json.loads(out)[-1] if code == 0 else {}
        told = (last.get("status"), last.get("description"))
        self.check(told == ("deployed", "Rollback to 1"), f"{namespace}: history after {what}", f"{told} {said}")

    def namespace(self, name):
        level = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
        self.cluster.create("v1", "namespaces", None, {"metadata": {"name": name, "labels": level}})
        self.cluster.create("v1", "serviceaccounts", name, {"metadata": {"name": "our-account"}})
        wanted = ("ServiceAccount/default", "ConfigMap/kube-root-ca.crt")
        self.cluster.until("a new namespace is furnished",
                           lambda: all(w in self.cluster.objects(name) for w in wanted))
        return name

    def own(self, namespace):
        """What Helm put there, as it was asked for; the name of the namespace is taken out."""
        found = {}
        for key, item in self.cluster.objects(namespace).items():
            notes = item["metadata"].get("annotations", {})
            # What controllers make of it bears its annotations, and an owner.
            if notes.get("meta.helm.sh/release-name") == RELEASE and "ownerReferences" not in item["metadata"]:
                found[key] = self.plain(item, namespace)
        return found

    def plain(self, item, namespace):
        item = without_what_servers_add(item)
        notes = item["metadata"].get("annotations", {})
        for key in [k for k in notes if k.startswith("meta.helm.sh/")]:
            del notes[key]
        if not notes:
            item["metadata"].pop("annotations", None)
        if not item["metadata"].get("labels", {}).get("helm.sh/chart"):
            # An object of the operator's own, which Helm marks.
            labels = item["metadata"].get("labels", {})
            labels.pop("app.kubernetes.io/managed-by", None)
            if not labels:
                item["metadata"].pop("labels", None)
        return json.loads(json.dumps(item).replace(namespace, "NAMESPACE"))

    def fresh(self, *parts):
        """What these values make where nothing was: each object created, and not kept, by the server."""
        twin = "twin-of-all"
        code, out, said = self.helm("template", RELEASE, CHART, "--no-hooks", "--kube-version", "1.37.2",
                                    *self.values(*parts), namespace=twin)
        if code:
            raise RuntimeError(said)
        made = {}
        for document in documents(out):
            kind, name, path = self.cluster.place(document, twin)
            status, item = self.cluster.ask("POST", path.rsplit("/", 1)[0], document, "application/yaml",
                                            dryRun="All", fieldValidation="Strict")
            self.count("strict creations in dry runs")
            self.check(status == 201 and not self.cluster.warnings, f"{kind}/{name} is made strictly",
                       f"{status} {item} {self.cluster.warnings}")
            if status == 201:
                made[f"{kind}/{name}"] = self.plain(item, twin)
        return made

    def same(self, namespace, expected, what):
        """Object by object what a first installation would be; and no object more."""
        found = self.own(namespace)
        self.check(found.keys() == expected.keys(), f"{namespace}: objects after {what}",
                   f"{sorted(found.keys() ^ expected.keys())}")
        for key in found.keys() & expected.keys():
            if found[key]["kind"] in ("StatefulSet", "Deployment") and self.autoscaled(expected):
                # Whoever scales says how many.
                found[key]["spec"].pop("replicas", None)
                expected[key]["spec"].pop("replicas", None)
            self.count("objects compared")
            self.check(found[key] == expected[key], f"{namespace}: {key} after {what}",
                       differences(found[key], expected[key]))

    @staticmethod
    def autoscaled(objects):
        return any(key.startswith(("HorizontalPodAutoscaler/", "ScaledObject/")) for key in objects)

    def settled(self, namespace):
        """The controller has seen the workload and made its pods. Answers its revision and the pods."""
        def look():
            items = self.cluster.objects(namespace)
            works = [i for k, i in items.items() if k.startswith(("StatefulSet/", "Deployment/"))
                     and not i["metadata"].get("deletionTimestamp")]
            if len(works) != 1:
                return None
            work = works[0]
            status = work.get("status", {})
            pods = [i for k, i in items.items() if k.startswith("Pod/")
                    and i["metadata"]["labels"].get("app.kubernetes.io/component") == "service"]
            if status.get("observedGeneration") != work["metadata"]["generation"]:
                return None
            if len(pods) < work["spec"]["replicas"] and work["spec"].get("podManagementPolicy") != "OrderedReady":
                return None
            if not pods:
                return None
            if work["kind"] == "StatefulSet":
                return status["updateRevision"], pods
            now = work["metadata"].get("annotations", {}).get("deployment.kubernetes.io/revision")
            sets = [i["metadata"]["labels"]["pod-template-hash"] for k, i in items.items()
                    if k.startswith("ReplicaSet/")
                    and i["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == now]
            return (sets[0], pods) if sets else None
        try:
            return self.cluster.until("settled", look, 60)
        except TimeoutError:
            events = self.cluster.get(f"/api/v1/namespaces/{namespace}/events")["items"]
            said = [e["message"] for e in events if e["type"] == "Warning"][-2:]
            self.check(False, f"{namespace}: the pods are made", said)
            return "", []

    def uninstalls(self, namespace, before, left=()):
        code, _, said = self.helm("uninstall", RELEASE, namespace=namespace)
        self.count("uninstalls")
        self.check(code == 0 and not said.strip(), f"{namespace}: uninstall", said)
        wanted = sorted(before | set(left))
        try:
            self.cluster.until("gone", lambda: sorted(self.cluster.objects(namespace)) == wanted, 60)
            self.check(True, "")
        except TimeoutError:
            self.check(False, f"{namespace}: what an uninstallation leaves",
                       sorted(set(self.cluster.objects(namespace)) ^ set(wanted)))


def differences(found, expected, path=""):
    """The first few places where two objects differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        all_keys = sorted(found.keys() | expected.keys())
        nothing = "nothing"
        return "; ".join(filter(None, (differences(found.get(k, nothing), expected.get(k, nothing), f"{path}/{k}")
                                       for k in all_keys)))[:900]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return "; ".join(filter(None, (differences(f, e, f"{path}/{n}")
                                       for n, (f, e) in enumerate(zip(found, expected)))))[:900]
    return "" if found == expected else f"{path} is {str(found)[:200]}, not {str(expected)[:200]}"
