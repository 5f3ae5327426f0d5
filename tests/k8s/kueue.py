# SPDX-License-Identifier: Apache-2.0
"""Kueue on a test's cluster: its own controller, installed from its own manifests.

The controller runs beside the cluster, and has exactly the rights of its manifests' service account. API servers reach it as a
pod: through its Service, at an address of this machine. The test's part of the configuration is added to the one that Kueue
ships."""

import base64
import os
import urllib.request

import yaml

from cluster import built, free_port, patience, wait_for
from controller import own_address
from manifests import load

SYSTEM = "kueue-system"
ACCOUNT = "kueue-controller-manager"
SERVICE = "kueue-webhook-service"
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/kueue-webhook-server-cert"
API = "/apis/kueue.x-k8s.io/v1beta2"
# The controller is no pod here, and nobody reads its API for pending workloads.
LEFT_OUT = ("APIService", "Deployment")


class Kueue:
    def __init__(self, cluster, **configuration):
        self.cluster = cluster
        cluster.claim_path(f"/api/v1/namespaces/{SYSTEM}")
        self.folder = built("with-kueue")
        self.address = own_address()
        self.port, self.health = free_port(self.address), free_port(self.address)
        self.log = os.path.join(cluster.dir, "log", "kueue.log")
        self.certificates = os.path.join(cluster.dir, "kueue")
        os.makedirs(self.certificates, exist_ok=True)
        shipped = self.install()
        self.configuration = os.path.join(self.certificates, "configuration.yaml")
        with open(self.configuration, "w", encoding="utf-8") as f:
            yaml.safe_dump({**shipped, **self.own_configuration(), **configuration}, f)
        self.account = cluster.service_account(SYSTEM, ACCOUNT)

    def own_configuration(self):
        return {
            "health": {"healthProbeBindAddress": f"{self.address}:{self.health}"},
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": self.address, "port": self.port, "certDir": self.certificates},
        }

    def install(self):
        """Applies the manifests, and returns the configuration that they contain."""
        source = os.path.join(self.folder, "source/sigs.k8s.io/kueue/config/default")
        objects = [o for o in load(self.cluster.kubectl("kustomize", source)) if o["kind"] not in LEFT_OUT]
        (service,) = (o for o in objects if o["kind"] == "Service" and o["metadata"]["name"] == SERVICE)
        del service["spec"]["selector"]
        subset = {"addresses": [{"ip": self.address}], "ports": [{"port": self.port}]}
        metadata = {"name": SERVICE, "namespace": SYSTEM}
        objects.append({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]})
        text = yaml.safe_dump_all(objects)
        self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text, timeout=patience(120))
        for name in ("workloads", "clusterqueues", "localqueues", "resourceflavors", "workloadpriorityclasses"):
            wait_for(lambda n=name: self.cluster.exists(f"{API}/{n}"), f"{name} are served", 60)
        maps = [o for o in objects if o["kind"] == "ConfigMap" and "controller_manager_config.yaml" in o["data"]]
        return yaml.safe_load(maps[0]["data"]["controller_manager_config.yaml"])

    def start(self):
        argv = [
            os.path.join(self.folder, "bin/kueue"),
            f"--config={self.configuration}",
            f"--kubeconfig={self.account.kubeconfig}",
            "--feature-gates=VisibilityOnDemand=false",
            "--zap-log-level=3",
        ]
        env = {"PATH": os.environ["PATH"]}
        self.cluster.keeper.ask("start", name="kueue", argv=argv, log=self.log, env=env)
        wait_for(
            lambda: "tls.crt" in (self.cluster.get(SECRET).get("data") or {}), "Kueue has made its certificate", 120
        )
        self.mount_certificate()
        wait_for(self.ready, "Kueue is ready", 120)

    def empty(self, *namespaces):
        """Removes the namespaces and all queues while Kueue runs, because Kueue takes its finalizers off them. Without that, the
        definitions of a cluster that stays could not be deleted."""
        paths = [f"/api/v1/namespaces/{name}" for name in namespaces]
        for kind in ("clusterqueues", "resourceflavors"):
            paths += [f"{API}/{kind}/{o['metadata']['name']}" for o in self.cluster.get(f"{API}/{kind}")["items"]]
        for path in paths:
            self.cluster.delete(path)
        for path in paths:
            wait_for(lambda p=path: not self.cluster.exists(p), f"{path} is deleted", 120)

    def mount_certificate(self):
        """Does the kubelet's part: Kueue waits until its Secret is in its folder."""
        data = self.cluster.get(SECRET)["data"]
        for name in ("ca.crt", "tls.key", "tls.crt"):
            path = os.path.join(self.certificates, name)
            with open(path + ".new", "wb") as f:
                f.write(base64.b64decode(data[name]))
            os.rename(path + ".new", path)

    def ready(self):
        assert self.cluster.pid("kueue"), f"Kueue has ended: {self.tail()}"
        try:
            with urllib.request.urlopen(f"http://{self.address}:{self.health}/readyz", timeout=patience(10)) as answer:
                return answer.status == 200
        except OSError:
            return False

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()[-3000:]

    def workload(self, namespace, owner):
        """The Workload that Kueue made for the Job or pod of that name, or None."""
        for item in self.cluster.get(f"{API}/namespaces/{namespace}/workloads")["items"]:
            if owner in [o["name"] for o in item["metadata"].get("ownerReferences") or []]:
                return item
        return None

    def charged(self, namespace, owner):
        """The resources that the queue is charged for a Job or pod: {name: amount}, or None while it waits."""
        admission = ((self.workload(namespace, owner) or {}).get("status") or {}).get("admission")
        if not admission:
            return None
        usage = {}
        for assigned in admission["podSetAssignments"]:
            for name, amount in (assigned.get("resourceUsage") or {}).items():
                usage[name] = usage.get(name, 0) + amount_of(amount)
        return usage

    def used(self, queue):
        """What the ClusterQueue counts as used: {name: amount}."""
        flavors = self.cluster.get(f"{API}/clusterqueues/{queue}")["status"].get("flavorsUsage") or []
        return {r["name"]: amount_of(r.get("total", 0)) for f in flavors for r in f["resources"]}


def amount_of(quantity):
    text = str(quantity)
    for unit, factor in (("k", 1000), ("Ki", 1024), ("Mi", 1 << 20)):
        if text.endswith(unit):
            return int(text[: -len(unit)]) * factor
    return int(text)
