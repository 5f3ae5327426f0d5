# SPDX-License-Identifier: Apache-2.0
"""Many nodes without machines: their objects as the kubelet and divvyd write them, and those daemons' later writes.

`Requests` drives the program kube-requests, which keeps many requests in flight. In paths and bodies @i is a node's or pod's
number, @g that number divided by 8, and @t the time."""

import json
import os
import subprocess

from cluster import patience, wait_for
from scheduled import BUILD, GIB, GPU, NODE_LEASES

PROGRAM = os.path.join(BUILD, "tests/k8s/kube/kube-requests")
DEVICES = 8
SLOTS = 64 * DEVICES
LEASE_EACH_S = 10  # as in src/node/node-lease.c
GANG = 8  # GROUP of kube-requests.c


class Requests:
    def __init__(self, account):
        self.process = subprocess.Popen(
            [PROGRAM],
            env={**os.environ, "KUBECONFIG": account.kubeconfig},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, *words):
        self.process.stdin.write(" ".join(w if isinstance(w, str) else json.dumps(w) for w in words) + "\n")

    def post(self, path, body, first=0, n=1):
        self.say("POST json", first, n, path, body)

    def patch(self, path, body, first=0, n=1, kind="merge"):
        self.say("PATCH", kind, first, n, path, body)

    def delete(self, path, first=0, n=1):
        self.say("DELETE json", first, n, path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def renew(self, path, body, n, each_s):
        self.say("renew", 0, n, each_s, path, body)
        self.process.stdin.flush()

    def sync(self):
        """Waits for all requests; none may have failed. Returns their number."""
        self.say("sync")
        self.process.stdin.flush()
        word, sent, failed = self.process.stdout.readline().split() or ("", 0, 0)
        assert word == "done" and failed == "0", f"{failed} of {sent} requests failed"
        return int(sent)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(patience()) == 0


def condition(kind, status, reason):
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"kubelet says {reason}",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def node():
    """A Node, as a kubelet registers it, with ten images."""
    amounts = {
        "cpu": "128",
        "memory": "1024Gi",
        "pods": "250",
        "ephemeral-storage": "2Ti",
        "divvy.gpu/slot": str(SLOTS),
    }
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n@i",
            "labels": {
                "kubernetes.io/hostname": "n@i",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": "zone-1",
                "divvy.gpu/owner": "divvy",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                *(condition(kind, "False", "KubeletHasSufficient" + kind) for kind in pressures),
                condition("Ready", "True", "KubeletReady"),
            ],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n@i"}],
            "images": [
                {"names": [f"registry.example/team/image-{k}:1.2.3"], "sizeBytes": 10**9 + k} for k in range(10)
            ],
        },
    }


def device(index):
    """One entry of GPUNode.status.devices; all devices of the node are joined by NVLink."""
    return {
        "uuid": f"GPU-8c1f@i-{index}",
        "index": index,
        "model": "NVIDIA H100 80GB HBM3",
        "memoryBytes": 80 * GIB,
        "simulated": False,
        "health": "Healthy",
        "owner": "divvy",
        "numa": index // 4,
        "links": [{"uuid": f"GPU-8c1f@i-{k}", "kind": "nvlink"} for k in range(DEVICES) if k != index],
    }


CONDITIONS = (
    ("Ready", "True", "Serving"),
    ("OwnerConflict", "False", "None"),
    ("HostNamespaces", "True", "Shared"),
    ("Audited", "True", "Clean"),
    ("HostMemoryReachable", "False", "None"),
    ("DevicesMissing", "False", "None"),
    ("RuntimeInsecure", "False", "None"),
)


def gpu_node_status():
    """GPUNode.status as src/node/node-status.c writes it on a node without tenants."""
    return {
        "observedGeneration": 1,
        "epoch": 0,
        "owner": "divvy",
        "deviceCount": DEVICES,
        "devices": [device(i) for i in range(DEVICES)],
        "slots": {"total": SLOTS, "used": 0},
        "tenants": [],
        "versions": {"divvyd": "0.1.0", "wire": 4, "driver": "570.86.15"},
        "conditions": [
            {"type": t, "status": s, "reason": r, "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for t, s, r in CONDITIONS
        ],
        "network": {"devices": [{"name": "eth0", "kind": "host", "capacityMbps": 100000, "freeMbps": 100000}]},
    }


def lease():
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n@i", "namespace": "divvy-node-lease"},
        "spec": {"holderIdentity": "divvyd-n@i", "leaseDurationSeconds": 40, "renewTime": "@t"},
    }


def renewal():
    """The merge patch by which divvyd renews the Lease of an idle node."""
    patch = lease()
    patch["metadata"]["annotations"] = {"divvy.gpu/measured": None}
    return patch


class Fleet:
    """n nodes n0, n1, ... with GPUs, whose Leases are renewed."""

    def __init__(self, cluster, requests, n):
        self.cluster, self.requests, self.n = cluster, requests, n
        self.tenants = {}  # node: entries of its GPUNode.status.tenants

    def make(self):
        """Creates the objects in the order in which a node gets them."""
        to = self.requests
        to.post("/api/v1/nodes", node(), n=self.n)
        to.sync()
        wait_for(self.has_gpu_nodes, "the controller has made the GPUNodes", 600)
        to.patch(f"{GPU}/gpunodes/n@i/status", {"status": gpu_node_status()}, n=self.n)
        to.post(NODE_LEASES, lease(), n=self.n)
        to.sync()
        self.renew()

    def has_gpu_nodes(self):
        listed = self.cluster.get(f"{GPU}/gpunodes?limit=1")
        return len(listed["items"]) + listed["metadata"].get("remainingItemCount", 0) >= self.n

    def renew(self, each_s=LEASE_EACH_S):
        """Renews each Lease once in each_s seconds; 0: no more."""
        self.requests.renew(f"{NODE_LEASES}/n@i", renewal(), self.n if each_s else 0, each_s or 1)

    def start_pods(self, path, label, n):
        """The kubelets' patches of the pods LABEL-0, ... that now run."""
        ready = [
            {"type": t, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for t in ("Initialized", "Ready", "ContainersReady")
        ]
        running = {"startedAt": "2026-01-01T00:00:00Z"}
        main = {
            "name": "main",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "image": "registry.example/team/worker:1.2.3",
            "imageID": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "containerID": "containerd://0123456789abcdef0123456789abcdef",
            "state": {"running": running},
        }
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": ready, "containerStatuses": [main]}
        self.requests.patch(f"{path}/{label}-@i/status", {"status": status}, n=n, kind="strategic")

    def grant(self, pods):
        """The divvyd's patches of GPUNode.status for these bound pods."""
        touched = set()
        for pod in pods:
            name, keys = pod["spec"]["nodeName"], pod["metadata"]["annotations"]
            self.tenants.setdefault(name, []).append(tenant(pod, keys, len(self.tenants.get(name, []))))
            touched.add(name)
        for name in touched:
            status = {"tenants": self.tenants[name], "slots": {"total": SLOTS, "used": len(self.tenants[name])}}
            self.requests.patch(f"{GPU}/gpunodes/{name}/status", {"status": status})


UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def amount(text):
    """Bytes of a quantity such as 8Gi."""
    return int(text[:-2]) * UNITS[text[-2:]] if text[-2:] in UNITS else int(text)


def tenant(pod, keys, slot):
    """An entry of GPUNode.status.tenants; assigned keys with their default value may be absent."""

    def given(key, default=""):
        return keys.get(f"divvy.gpu/{key}", "main=" + default).partition("=")[2]

    return {
        "podUID": pod["metadata"]["uid"],
        "namespace": pod["metadata"]["namespace"],
        "pod": pod["metadata"]["name"],
        "container": "main",
        "slot": f"slot-{slot}",
        "devices": given("devices").split(","),
        "request": round(1000 * float(given("granted-request"))),
        "limit": round(1000 * float(given("granted-limit", "1"))),
        "memoryBytes": [amount(m) for m in given("granted-memory").split(",")],
        "memoryPolicy": given("granted-memory-policy", "fail"),
        "class": given("granted-class", "standard"),
        "priority": int(given("granted-priority", "50")),
        "mode": given("granted-mode", "local"),
        "epoch": int(keys.get("divvy.gpu/epoch", "0")),
    }
