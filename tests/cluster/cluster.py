"""A control plane on loopback, and what is asked of it."""

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import time
from urllib.parse import quote, urlencode

TOKEN = "of-this-run-only"
CONTROLLERS = (
    "deployment-controller,disruption-controller,garbage-collector-controller,job-controller,namespace-controller,"
    "replicaset-controller,root-ca-certificate-publisher-controller,serviceaccount-controller,statefulset-controller"
)


def free_ports(count):
    with contextlib.ExitStack() as open_until_all_are_known:
        sockets = [open_until_all_are_known.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Cluster:
    """Starts etcd, the API server and the controllers; `close` ends them, and no others."""

    def __init__(self, programs, folder):
        self.programs, self.folder, self.processes, self.connection = programs, folder, [], None
        try:
            self.begin()
        except BaseException:
            self.close()
            raise

    def begin(self):
        client, peer, self.port = free_ports(3)
        key = self.path("accounts.key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        with open(self.path("tokens.csv"), "w") as file:
            file.write(f"{TOKEN},operator,operator,system:masters\n")
        etcd, own = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self.start("etcd", f"--data-dir={self.path('data')}", f"--listen-client-urls={etcd}", "--unsafe-no-fsync",
                   f"--advertise-client-urls={etcd}", f"--listen-peer-urls={own}", "--log-level=error",
                   f"--initial-advertise-peer-urls={own}", f"--initial-cluster=default={own}")
        self.start("kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
                   "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--authorization-mode=RBAC",
                   f"--cert-dir={self.path('certificates')}", "--service-cluster-ip-range=10.96.0.0/20",
                   f"--token-auth-file={self.path('tokens.csv')}", "--service-account-issuer=https://cluster.test",
                   f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}")
        self.authority = self.path("certificates/apiserver.crt")
        self.until("the API server is ready", self.is_ready, 240)
        self.kubeconfig = self.path("kubeconfig")
        with open(self.kubeconfig, "w") as file:
            json.dump({
                "apiVersion": "v1", "kind": "Config", "current-context": "it",
                "clusters": [{"name": "it", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                        "certificate-authority": self.authority}}],
                "users": [{"name": "it", "user": {"token": TOKEN}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            }, file)
        self.start("kube-controller-manager", f"--kubeconfig={self.kubeconfig}", f"--controllers={CONTROLLERS}",
                   "--leader-elect=false", "--secure-port=0", f"--service-account-private-key-file={key}",
                   f"--root-ca-file={self.authority}")
        self.kinds = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, name, *arguments):
        with open(self.path(f"{name}.log"), "w") as log:
            process = subprocess.Popen([os.path.join(self.programs, name), *arguments], stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, cwd=self.folder)
        self.processes.append((name, process))

    def close(self):
        for _, process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def is_ready(self):
        try:
            return self.ask("GET", "/readyz")[0] == 200 and self.ask("GET", "/api/v1/namespaces/default")[0] == 200
        except (OSError, http.client.HTTPException):
            self.connection = None
            return False

    def until(self, what, holds, seconds=90):
        """Waits, with a limit; what `holds` answers is answered."""
        end = time.monotonic() + seconds
        while True:
            answer = holds()
            if answer:
                return answer
            for name, process in self.processes:
                if process.poll() is not None:
                    with open(self.path(f"{name}.log")) as log:
                        raise SystemExit(f"{name} ended: {log.read()[-3000:]}")
            if time.monotonic() > end:
                raise TimeoutError(what)
            time.sleep(0.3)

    def ask(self, method, path, body=None, kind="application/json", as_user=None, **query):
        """Status and answer. `body` is YAML or JSON text, or what becomes JSON."""
        if self.connection is None:
            context = ssl.create_default_context(cafile=self.authority)
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json", "Content-Type": kind}
        if as_user:
            headers["Impersonate-User"] = as_user
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        url = f"{path}?{urlencode(query)}" if query else path
        try:
            self.connection.request(method, url, body.encode() if body else None, headers)
            response = self.connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise
        self.warnings = response.headers.get_all("Warning") or []
        if response.status == 429:
            # A kind that was just defined: not yet.
            time.sleep(0.5)
            return self.ask(method, path, body, kind, as_user, **query)
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def get(self, path):
        status, answer = self.ask("GET", path)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {answer}")
        return answer

    def create(self, api, resource, namespace, body):
        status, answer = self.ask("POST", self.collection(api, resource, namespace), body)
        if status not in (200, 201):
            raise RuntimeError(f"{resource}: {status} {answer}")
        return answer

    @staticmethod
    def collection(api, resource, namespace=None):
        start = f"/api/{api}" if "/" not in api else f"/apis/{api}"
        return f"{start}/namespaces/{namespace}/{resource}" if namespace else f"{start}/{resource}"

    def discover(self):
        """Every namespaced kind: (apiVersion, kind) to its resource. Preferred versions only."""
        self.kinds = {}
        groups = [g["preferredVersion"]["groupVersion"] for g in self.get("/apis")["groups"]]
        for api in ["v1", *groups]:
            status, answer = self.ask("GET", f"/api/{api}" if api == "v1" else f"/apis/{api}")
            # A group may be named before it is served.
            for resource in answer["resources"] if status == 200 else []:
                if resource["namespaced"] and "/" not in resource["name"] and "list" in resource["verbs"]:
                    self.kinds[(api, resource["kind"])] = resource["name"]
        return self.kinds

    def objects(self, namespace):
        """All that stands in a namespace, by `Kind/name`; events aside."""
        found = {}
        for (api, kind), resource in self.kinds.items():
            if kind != "Event":
                for item in self.get(self.collection(api, resource, namespace))["items"]:
                    item.update(apiVersion=api, kind=kind)
                    found[f"{kind}/{item['metadata']['name']}"] = item
        return found

    def place(self, document, namespace):
        """Kind, name, and the path of a rendered object."""
        api = re.search(r"^apiVersion: *(\S+)", document, re.M)[1].strip("'\"")
        kind = re.search(r"^kind: *(\S+)", document, re.M)[1]
        name = re.search(r"^metadata:\n(?:  .*\n)*?  name: *(\S+)", document, re.M)[1].strip("'\"")
        path = self.collection(api, self.kinds[(api, kind)], namespace)
        return kind, name, f"{path}/{quote(name)}"


def documents(text):
    """The objects of a manifest, as text."""
    parts = re.split(r"^---\s*$", text, flags=re.M)
    return [part for part in parts if re.search(r"^kind:", part, re.M)]


def without_what_servers_add(item):
    """What was asked for, and defaults: no identity, no history, no state."""
    item = json.loads(json.dumps(item))
    item.pop("status", None)
    meta = item["metadata"]
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"):
        meta.pop(key, None)
    meta.get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    spec = item.get("spec", {})
    if item["kind"] == "Service" and spec.get("clusterIP") != "None":
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    if item["kind"] == "Job":
        # The controller's mark, which it makes anew for each Job.
        for labels in (meta.get("labels", {}), spec["template"]["metadata"].get("labels", {}),
                       spec.get("selector", {}).get("matchLabels", {})):
            for key in [k for k in labels if k.endswith("controller-uid") or k.endswith("job-name")]:
                labels.pop(key)
        meta.get("annotations", {}).pop("batch.kubernetes.io/job-tracking", None)
    return item
