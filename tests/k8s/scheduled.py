# SPDX-License-Identifier: Apache-2.0
"""divvy-scheduler on a test's cluster: with its own account and the shipped rights; nodes and GPUs are fake."""

import contextlib
import datetime
import os
import subprocess
import threading

from cluster import ApiError, patience, wait_for

BUILD = os.environ["DIVVY_BUILD"]
BASE = os.path.join(os.environ["DIVVY_SOURCE"], "deploy/base")
PROGRAM = os.path.join(BUILD, "src/scheduler/divvy-scheduler")
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
GPU = "/apis/divvy.gpu/v1"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases"
GIB = 1 << 30


def documents(name, *kinds):
    """The documents of a manifest that have one of these kinds."""
    with open(os.path.join(BASE, name), encoding="utf-8") as f:
        texts = f.read().split("\n---\n")
    return [t for t in texts if not kinds or any(f"\nkind: {k}\n" in f"\n{t}\n" for k in kinds)]


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Scheduled:
    """A cluster with divvy's definitions, nodes with live daemons, and schedulers to start."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.namespace = cluster.namespace  # namespace of the pods
        self.nodes = {}  # name: whether its daemon renews its Lease
        self.processes = []
        self.ends = threading.Event()
        cluster.claim()
        for space in ("divvy-system", "divvy-node-lease"):
            cluster.create_once("/api/v1/namespaces", {"metadata": {"name": space}})
        cluster.apply(*documents("crds.yaml"), *documents("scheduler.yaml", *RIGHTS))
        for kind in ("gpunodes", "gpupolicies"):
            wait_for(lambda k=kind: cluster.exists(f"{GPU}/{k}"), f"{kind} are served")
        self.account = cluster.service_account("divvy-system", "divvy-scheduler")
        self.heart = threading.Thread(target=self.beat)
        self.heart.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.set()  # first, since a thread that beats on would keep the test from ending
        self.heart.join()
        for process in list(self.processes):
            self.stop(process)

    def beat(self):
        while not self.ends.wait(5):
            for name, lives in list(self.nodes.items()):
                if lives:
                    with contextlib.suppress(ApiError, OSError):  # it is being removed
                        self.cluster.patch(f"{NODE_LEASES}/{name}", {"spec": {"renewTime": now()}})

    # ---- the program

    def start(self, *options):
        log = open(os.path.join(self.cluster.dir, "log", "divvy-scheduler.log"), "ab")
        with log:
            process = subprocess.Popen(
                [PROGRAM, "--kubeconfig", self.account.kubeconfig, "--log", "debug", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def stop(self, process):
        self.processes.remove(process)
        if process.poll() is None:
            process.terminate()
        code = process.wait(patience())
        assert code == 0, f"divvy-scheduler has ended with {code}"

    def kill(self, process):
        self.processes.remove(process)
        process.kill()
        process.wait()

    # ---- nodes

    def lease(self, name):
        self.cluster.create_once(
            NODE_LEASES,
            {
                "metadata": {"name": name},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()},
            },
        )
        self.nodes[name] = True

    def node(self, name, *models, bytes_each=16 * GIB, labels=None, **resources):
        """A node with one GPU of each model: GPU-name-0, ..."""
        owner = {"divvy.gpu/owner": "divvy"} if models else {}
        self.cluster.fake_node(
            name, labels={**owner, **(labels or {})}, **{"divvy.gpu/slot": str(64 * len(models)), **resources}
        )
        if not models:
            return
        self.lease(name)
        self.cluster.create_once(
            f"{GPU}/gpunodes",
            {  # a running controller may have created it
                "apiVersion": "divvy.gpu/v1",
                "kind": "GPUNode",
                "metadata": {"name": name},
            },
        )
        self.status(
            name,
            owner="divvy",
            deviceCount=len(models),
            slots={"total": 64 * len(models), "used": 0},
            devices=[
                {
                    "uuid": f"GPU-{name}-{i}",
                    "index": i,
                    "model": model,
                    "memoryBytes": bytes_each,
                    "health": "Healthy",
                    "owner": "divvy",
                }
                for i, model in enumerate(models)
            ],
        )

    def has_slots(self, name):
        """As a kubelet of a node reports them after divvyd has registered there."""
        slots = {"divvy.gpu/slot": "64"}
        self.cluster.patch(
            f"/api/v1/nodes/{name}/status", {"status": {"capacity": slots, "allocatable": slots}}, "strategic"
        )

    def divvyd_serves(self, name, owner="divvy"):
        """What divvyd writes on a node that somebody else has made, with one GPU."""
        wait_for(lambda: self.cluster.exists(f"{GPU}/gpunodes/{name}"), "the controller makes the GPUNode", 60)
        self.lease(name)
        self.status(
            name,
            owner=owner,
            deviceCount=1,
            slots={"total": 64, "used": 0},
            conditions=[
                {"type": "Ready", "status": "True", "reason": "Serving", "lastTransitionTime": "2026-01-02T03:04:05Z"}
            ],
            devices=[
                {
                    "uuid": f"GPU-{name}",
                    "index": 0,
                    "model": "T4",
                    "memoryBytes": 16 * GIB,
                    "health": "Healthy",
                    "owner": "divvy" if owner == "divvy" else "native",
                }
            ],
        )

    def status(self, name, **status):
        self.cluster.patch(f"{GPU}/gpunodes/{name}/status", {"status": status})

    def remove_node(self, name):
        self.nodes.pop(name, None)
        for path in (f"/api/v1/nodes/{name}", f"{GPU}/gpunodes/{name}", f"{NODE_LEASES}/{name}"):
            self.cluster.delete(path)

    # ---- pods

    def path(self, name=""):
        return f"/api/v1/namespaces/{self.namespace}/pods" + (f"/{name}" if name else "")

    def pod(self, name, annotations=None, *, containers=("main",), resources=None, labels=None, **spec):
        """Annotations are requested keys without their prefix, or whole keys; the label is the webhook's."""
        keys = {k if "/" in k else f"divvy.gpu/{k}": v for k, v in (annotations or {}).items()}
        return self.cluster.create(
            self.path(),
            {
                "metadata": {
                    "name": name,
                    "annotations": keys,
                    "labels": {"divvy.gpu/tenant": "true", **(labels or {})},
                },
                "spec": {
                    "schedulerName": "divvy-scheduler",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": c, "image": "none", "resources": resources or {}} for c in containers],
                    **spec,
                },
            },
        )

    def get(self, name):
        return self.cluster.get(self.path(name))

    def bound(self, name):
        """Waits until the pod has a node, and returns the pod."""
        seen = {}

        def there():
            seen["pod"] = self.get(name)
            return seen["pod"]["spec"].get("nodeName")

        try:
            wait_for(there, f"{name} is bound", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen['pod']['status']}") from None
        return seen["pod"]

    def given(self, name, key):
        return self.bound(name)["metadata"]["annotations"].get(f"divvy.gpu/{key}")

    def devices(self, name):
        return self.given(name, "devices")

    def condition(self, name, kind="PodScheduled"):
        for c in self.get(name)["status"].get("conditions") or []:
            if c["type"] == kind:
                return c
        return None

    def says(self, message, sentence):
        """Does the message have the sentence? The cluster of KUBECONFIG may have further nodes, which divvy counts, too."""
        count, nodes, reasons = sentence.partition(" nodes: ")
        if self.cluster.own or not nodes:
            return sentence in message
        # A mere number of nodes says nothing there.
        return f"{count.partition('/')[0]}/" in message and (reasons.strip().isdecimal() or reasons in message)

    def waits(self, name, sentence):
        """Waits until the pod's condition has that message."""
        seen = {}

        def said():
            seen["c"] = self.condition(name)
            return seen["c"] and seen["c"]["status"] == "False" and self.says(seen["c"]["message"], sentence)

        try:
            wait_for(said, f"{name} waits: {sentence}", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen['c']} {self.get(name)['spec'].get('nodeName')}") from None
        return seen["c"]

    def events(self, name, reason=None):
        items = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        return [e for e in items if e["involvedObject"].get("name") == name and reason in (None, e["reason"])]

    def gone(self, *names):
        """Deletes pods, as the kubelet does after their containers have ended."""
        for name in names:
            self.cluster.delete(self.path(name), grace_s=0)
        wait_for(lambda: not any(self.cluster.exists(self.path(n)) for n in names), "they are gone")
