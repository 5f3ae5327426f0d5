#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the nodes that src/kuberules finds feasible for a pod with those that kube-scheduler finds.

The test makes random clusters and pods (fit_world.py) on a real API server without kubelets or a controller manager.
The real kube-scheduler gets the test's extender. For each pod kube-scheduler sends the extender the nodes that have
passed all of its own filters. The extender accepts none, so no pod is ever bound. A pod without a feasible node gets
its condition and never reaches the extender. build/tests/programs/fit gets the same objects, as the API server serves
them.

The scheduler sees new objects only after a moment. So a pod with a difference is made again when all is still, and
again after a longer pause. Only a difference that stays to the end counts.

Known differences, which the random pods leave out:
- kube-scheduler 1.20 panics if a pod is nominated to a node that the node affinity of a spread pod excludes. divvy
  does not count the nominated pod there (World.spare).
- Since 1.27 kube-scheduler leaves its filter InterPodAffinity out for a pod without such terms of its own if no bound
  pod's anti-affinity selects the pod. The anti-affinity of nominated pods then does not count. divvy always counts
  the anti-affinity of nominated pods, so that no pod takes their place (World.spare gives each pod a term of its own).
- kube-scheduler 1.36 reads a namespaceSelector with the operator DoesNotExist as one that selects all namespaces, which
  1.37 does not. divvy selects the namespaces without the label in each release.
- Since 1.25 kube-scheduler reports an error for a volume azureDisk of a kind other than Managed, for which no CSI driver
  exists. divvy counts such a volume, which no kubelet mounts, like one of the kind Managed.
- Of two free volumes of equal size kube-scheduler takes either, by the order of a hash table. divvy takes the first
  by name. With several claims in one pod the choice decides whether a node fits, so no two random volumes are of equal
  size.
- Newer releases of kube-scheduler count a volume that is still attached to a node (VolumeAttachment) although no pod on
  the node uses it any more; divvy counts it in each release. If the new pod wants this volume, kube-scheduler counts it
  twice. The random clusters have no VolumeAttachments.

FIT_SEED, FIT_ROUNDS: seed of the first random world, and number of worlds. The fields of a world depend on the
release of Kubernetes (DIVVY_K8S; fit_world.py).
"""
import collections
import concurrent.futures
import json
import os
import subprocess
import threading
import time

import kube_scheduler
from cluster import main, open_cluster, own_minor, wait_for
from fit_world import NAMESPACE_LABELS, NAMESPACES, OVERHEAD, PRIORITIES, SINCE, World
from json_server import JsonServer

BUILD = os.environ["DIVVY_BUILD"]
SEED = int(os.environ.get("FIT_SEED", "1"))
ROUNDS = int(os.environ.get("FIT_ROUNDS", "5"))
SETTLE_S = 1.0  # time for the scheduler to see new objects; a difference is then checked again
PAUSES_S = (2, 5, 15)
WORKERS = 6

# Rules of fit-why.def that random pods must meet, so that the comparison covers them.
RULES = {
    "AFFINITY",
    "ANTI_AFFINITY",
    "CLAIM_ELSEWHERE",
    "CLAIM_TOPOLOGY",
    "CLAIM_VOLUME",
    "CORDONED",
    "DISK",
    "NODE_AFFINITY",
    "PODS",
    "PORT",
    "REPELLED",
    "RESOURCE",
    "SPREAD_LABEL",
    "SPREAD_SKEW",
    "TAINT",
    "VOLUME_COUNT",
    "VOLUME_NODE",
    "VOLUME_ZONE",
}

# Further rules: (field of fit_world.SINCE, rule).
NEW_RULES = {("declaredFeatures", "FEATURE"), ("missingDrivers", "VOLUME_DRIVER")}

# Feature gates that are off by default: (field of fit_world.SINCE, gate of the API server and of kube-scheduler).
GATES = [
    ("comparisons", "TaintTolerationComparisonOperators"),
    ("declaredFeatures", "UserNamespacesHostNetworkSupport"),
    ("mountOptions", "VolumeBindMountOptions"),
]

# kind: (path of the list, whether it is namespaced)
PATHS = {
    "node": ("/api/v1/nodes", False),
    "pod": ("/api/v1/pods", True),
    "namespace": ("/api/v1/namespaces", False),
    "persistentvolume": ("/api/v1/persistentvolumes", False),
    "persistentvolumeclaim": ("/api/v1/persistentvolumeclaims", True),
    "storageclass": ("/apis/storage.k8s.io/v1/storageclasses", False),
    "csinode": ("/apis/storage.k8s.io/v1/csinodes", False),
    "csidriver": ("/apis/storage.k8s.io/v1/csidrivers", False),
}


class Extender:
    """Records the nodes that it gets for each pod, by uid, and accepts none of them."""

    def __init__(self):
        self.seen = {}
        self.server = JsonServer("127.0.0.1", self.take_none)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take_none(self, args):
        args = {k.lower(): v for k, v in args.items()}  # releases differ in the case of keys
        names = args.get("nodenames") or []
        self.seen[args["pod"]["metadata"]["uid"]] = sorted(names)
        return {"nodenames": [], "failedNodes": {n: "not today" for n in names}}


class Api:
    """Many requests at once, each worker with a connection of its own that stays open."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.local = threading.local()
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)

    def ask(self, method, path, body=None, content=None, missing_ok=False):
        if not hasattr(self.local, "connection"):
            self.local.connection = self.cluster.connect()
        response = self.cluster.send(self.local.connection, method, path, body, content)
        answer = json.loads(response.read())
        if response.status >= 400 and not (missing_ok and response.status == 404):
            raise AssertionError(f"{method} {path}: {answer.get('message')}: {json.dumps(body)[:2000]}")
        return answer

    def each(self, function, items):
        return list(self.pool.map(function, items))

    def path(self, kind, obj, under=""):
        base, is_namespaced = PATHS[kind]
        if is_namespaced:
            base = base.replace("/v1/", f"/v1/namespaces/{obj['metadata']['namespace']}/")
        return f"{base}{under}"

    def make(self, item):
        """The object with its status; deleted at once where it only waits for its finalizer."""
        kind, obj = item
        obj = dict(obj)
        deleted, phase = obj.pop("deleted", False), obj.pop("phase", None)
        status = {**obj.get("status", {}), **({"phase": phase} if phase else {})}
        self.ask("POST", self.path(kind, obj), obj)
        name = obj["metadata"]["name"]
        if status and kind != "node":
            self.ask(
                "PATCH", self.path(kind, obj, f"/{name}/status"), {"status": status}, "application/merge-patch+json"
            )
        if deleted:
            self.ask("DELETE", self.path(kind, obj, f"/{name}"), {"gracePeriodSeconds": 0})

    def list(self, kind):
        return self.ask("GET", PATHS[kind][0])["items"]

    def clear(self, kind):
        for obj in self.list(kind):
            if obj["metadata"].get("finalizers"):
                self.ask(
                    "PATCH",
                    self.path(kind, obj, "/" + obj["metadata"]["name"]),
                    {"metadata": {"finalizers": None}},
                    "application/merge-patch+json",
                    missing_ok=True,
                )
        if kind == "namespace":
            return
        for ns in NAMESPACES if PATHS[kind][1] else [None]:
            path = self.path(kind, {"metadata": {"namespace": ns}})
            self.ask("DELETE", path, {"gracePeriodSeconds": 0})
        wait_for(lambda: not self.list(kind), f"every {kind} is gone")


def gates(minor):
    names = [gate for field, gate in GATES if minor >= SINCE[field]]
    return ["--feature-gates=" + ",".join(n + "=true" for n in names)] if names else []


class Bench:
    """A cluster whose scheduler reports its feasible nodes to the test."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.api = Api(cluster)
        self.extender = Extender()
        kube_scheduler.start(
            cluster,
            {"urlPrefix": self.extender.url, "filterVerb": "filter", "nodeCacheCapable": True},
            plugins={"postFilter": {"disabled": [{"name": "*"}]}},
            args=gates(cluster.minor),
        )
        for ns, labels in zip(NAMESPACES, NAMESPACE_LABELS):
            cluster.create("/api/v1/namespaces", {"metadata": {"name": ns, "labels": labels}})
        for name, value in PRIORITIES.items():
            cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
        cluster.create(
            "/apis/node.k8s.io/v1/runtimeclasses",
            {
                "metadata": {"name": "fit-heavy"},
                "handler": "x",
                "overhead": {"podFixed": OVERHEAD},
                "scheduling": {"tolerations": [{"key": "maint", "operator": "Exists"}]},
            },
        )

    def ask_real(self, pods):
        """{key: nodes} of those pods, by the real scheduler."""
        self.api.each(lambda p: self.api.make(("pod", p)), pods)
        keys = {key(p) for p in pods}
        found = {}

        def all_told():
            for pod in self.api.list("pod"):
                if key(pod) not in keys:
                    continue
                uid = pod["metadata"]["uid"]
                tried = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
                if tried:
                    found[key(pod)] = self.extender.seen.get(uid, [])
            return len(found) == len(keys)

        wait_for(all_told, "the scheduler has tried every pod", 300)
        return found

    def ask_ours(self, keys):
        told = {"minor": self.cluster.minor, "objects": {k: self.api.list(k) for k in PATHS}, "pods": sorted(keys)}
        done = subprocess.run(
            [os.path.join(BUILD, "tests/programs/fit")],
            input=json.dumps(told),
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, f"fit: exit status {done.returncode}"
        return json.loads(done.stdout)

    def fill(self, world):
        kinds = list(dict.fromkeys(k for k, _ in world.objects))
        for kind in kinds:
            self.api.each(self.api.make, [o for o in world.objects if o[0] == kind])
        time.sleep(SETTLE_S)
        if world.nominated:
            pods = [p for p, _ in world.nominated]
            self.ask_real(pods)
            for pod, node in world.nominated:
                self.api.ask(
                    "PATCH",
                    self.api.path("pod", pod, f"/{pod['metadata']['name']}/status"),
                    {"status": {"nominatedNodeName": node}},
                    "application/merge-patch+json",
                )
            time.sleep(SETTLE_S)

    def compare(self, pods):
        real = self.ask_real(pods)
        ours = self.ask_ours(real)
        return real, ours, [p for p in pods if real[key(p)] != sorted(ours[key(p)]["nodes"])]

    def run_again(self, pods, pause_s):
        for pod in pods:
            self.api.ask("DELETE", self.api.path("pod", pod, "/" + pod["metadata"]["name"]), {"gracePeriodSeconds": 0})
        time.sleep(pause_s)
        return self.compare(pods)

    def clear(self):
        for kind in PATHS:
            self.api.clear(kind)


def key(pod):
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def show(world, pod, real, ours):
    """Prints one difference, with the objects that explain it."""
    mine = ours["nodes"]
    print(f"# seed {world.seed}, {key(pod)}: {json.dumps(pod['spec'])}")
    for node in sorted(set(real) ^ set(mine)):
        print(
            f"#   {node}: kube-scheduler {'fits' if node in real else 'does not fit'}; "
            f"ours {ours['not'].get(node, 'fits')}"
        )
    print(f"#   ours: {ours['why']}", flush=True)


def run_round(bench, seed, rules):
    """(pods compared, pods with some but not all nodes feasible, pods with none, differences). Counts the rules by which nodes
    were refused."""
    world = World(seed, bench.cluster.minor)
    bench.fill(world)
    real, ours, different = bench.compare(world.queries)
    n_nodes = len(world.node_names)
    some = sum(0 < len(n) < n_nodes for n in real.values())
    none = sum(not n for n in real.values())
    for answer in ours.values():
        rules.update(answer["rules"] or ["the pod as a whole"])
    for pause_s in PAUSES_S if different else ():
        if different:
            real_again, ours_again, different = bench.run_again(different, pause_s)
    for pod in different:
        show(world, pod, real_again[key(pod)], ours_again[key(pod)])
    bench.clear()
    return len(real), some, none, len(different)


def feasible_nodes_equal_those_of_kube_scheduler():
    # Without a controller manager nothing removes finalizers or taints.
    plugins = "--disable-admission-plugins=StorageObjectInUseProtection,TaintNodesByCondition"
    args = {"kube-apiserver": [plugins, *gates(own_minor())]}
    with open_cluster("api", args=args, own="it changes the API server's options") as cluster:
        bench = Bench(cluster)
        total, rules = [0, 0, 0, 0], collections.Counter()
        began = time.monotonic()
        for n in range(ROUNDS):
            total = [a + b for a, b in zip(total, run_round(bench, SEED + n, rules))]
        print(
            f"# {total[0]} pods in {ROUNDS} clusters of random nodes, {total[1]} with some nodes feasible and some "
            f"not, {total[2]} with none, {total[3]} differences, {time.monotonic() - began:.0f} s"
        )
        print("# nodes refused by: " + ", ".join(f"{k} {n}" for k, n in rules.most_common()))
        assert not total[3], f"{total[3]} pods on whose nodes the two differ"
        # A test in which all or no nodes are feasible would prove nothing.
        assert total[1] > total[0] / 3, "the random pods are too hard or too easy"
        expected = RULES | {rule for field, rule in NEW_RULES if bench.cluster.minor >= SINCE[field]}
        assert not expected - set(rules), f"rules that were never in question: {', '.join(expected - set(rules))}"


if __name__ == "__main__":
    main(feasible_nodes_equal_those_of_kube_scheduler)
