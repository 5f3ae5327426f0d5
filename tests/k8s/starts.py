# SPDX-License-Identifier: Apache-2.0
"""Time from the first byte of a pod's POST to the first instruction of its program, which reports it over a socket
(tests/programs/say-start)."""

import concurrent.futures
import contextlib
import json
import os
import socket
import threading
import time

import shipped
from cluster import patience, wait_for
from divvyd import BUILD

POSTS = 8  # connections, when many are created at once
IMAGE = "say-start"
SAY = os.path.join(BUILD, "tests/programs/say-start")


class Starts:
    """The programs' reports: {pod's name: CLOCK_MONOTONIC in ns}."""

    def __init__(self, cluster, daemon):
        self.cluster, self.daemon = cluster, daemon
        shipped.import_image(cluster, IMAGE, {"/bin/say-start": SAY}, ["/bin/say-start"])
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((cluster.node.seat.address, 0))
        self.address, self.port = self.socket.getsockname()
        self.at = {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            name, at = self.socket.recv(512).decode().split()
            self.at[name] = int(at)


class Bound:
    """When a watch showed that a pod has a node: splits the time."""

    def __init__(self, cluster, space):
        self.cluster, self.space, self.at = cluster, space, {}
        self.ready = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()
        assert self.ready.wait(patience())

    def watch(self):
        with contextlib.suppress(OSError):  # the cluster has ended
            while True:  # a server ends each watch after some time
                with self.cluster.watch(f"/api/v1/namespaces/{self.space}/pods", timeout=patience(1800)) as events:
                    self.ready.set()
                    for event in events:
                        o = event["object"]
                        if o.get("spec", {}).get("nodeName"):
                            self.at.setdefault(o["metadata"]["name"], time.monotonic_ns())


class Kind:
    """Pods that are made alike."""

    def __init__(self, starts, label, space, annotations=None, limits=None):
        self.starts, self.cluster, self.daemon = starts, starts.cluster, starts.daemon
        self.label, self.space, self.annotations, self.limits = label, space, annotations or {}, limits or {}
        self.bound = Bound(self.cluster, space)
        self.made = 0
        self.times = []  # (ms to the start, ms to the node)

    def path(self, name=""):
        return f"/api/v1/namespaces/{self.space}/pods" + (f"/{name}" if name else "")

    def pod(self):
        """Many pods at once may make the runtime lose a sandbox before its container is in it; the kubelet then makes another
        one."""
        self.made += 1
        name = f"{self.label}-{self.made}"
        return name, json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "annotations": self.annotations},
                "spec": {
                    "restartPolicy": "OnFailure",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {
                            "name": "main",
                            "image": f"{IMAGE}:{shipped.VERSION}",
                            "args": [name, self.starts.address, str(self.starts.port)],
                            "resources": {"limits": self.limits},
                        }
                    ],
                },
            }
        )

    def post(self, connection, pod):
        """Creates a pod; returns the time of the first byte."""
        began = time.monotonic_ns()
        response = self.cluster.send(connection, "POST", self.path(), pod)
        text = response.read()
        assert response.status == 201, text
        return began

    def clear(self):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        self.cluster.request("DELETE", self.path() + "?labelSelector=keep!=yes", body)
        wait_for(
            lambda: not [
                p for p in self.cluster.get(self.path())["items"] if not p["metadata"].get("labels", {}).get("keep")
            ],
            "the pods are deleted",
            300,
        )
        wait_for(
            lambda: not any(self.is_ours(t) for t in self.daemon.status().get("tenants") or []),
            "the pods' grants have ended",
            300,
        )
        wait_for(self.is_torn_down, "the kubelet has removed the pods", 300)

    def is_ours(self, tenant):
        return tenant["namespace"] == self.space and tenant["pod"].startswith(self.label + "-")

    def is_torn_down(self):
        """Has the kubelet cleaned up? An object deleted without grace vanishes at once, and the kubelet works for seconds
        more."""
        node = self.cluster.node
        pods = self.cluster.get("/api/v1/pods?fieldSelector=spec.nodeName=" + node.name)["items"]
        there = {p["metadata"]["uid"] for p in pods}
        return set(os.listdir(os.path.join(node.kubelet_dir, "pods"))) <= there

    def held_up(self, names):
        """The state of the first pod that has not started."""
        late = [name for name in names if name not in self.starts.at or name not in self.bound.at]
        events = f"/api/v1/namespaces/{self.space}/events?fieldSelector=involvedObject.name={late[0]}"
        return (
            f"{len(late)} of {len(names)}, {late[0]}: {json.dumps(self.cluster.get(self.path(late[0]))['status'])}, "
            + "; ".join(f"{e['reason']}: {e['message']}" for e in self.cluster.get(events)["items"])
        )

    def create(self, n):
        """[(ms to the start, ms to the node)] of n pods created at once."""
        pods = [self.pod() for _ in range(n)]
        connections = [self.cluster.connect() for _ in range(min(n, POSTS))]
        for connection in connections:
            connection.connect()

        def share(which):
            return [(name, self.post(connections[which], pod)) for name, pod in pods[which :: len(connections)]]

        with concurrent.futures.ThreadPoolExecutor(len(connections)) as pool:
            began = dict(sum(pool.map(share, range(len(connections))), []))
        try:
            wait_for(
                lambda: all(name in self.starts.at and name in self.bound.at for name in began), "all have started", 600
            )
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.held_up(began)}") from None
        for connection in connections:
            connection.close()
        return [((self.starts.at[name] - at) / 1e6, (self.bound.at[name] - at) / 1e6) for name, at in began.items()]


def keep_one_there(cluster, device, name="there"):
    """Keeps another pod on the device, so that it is shared already."""
    cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {"keep": "yes"},
                "annotations": {"divvy.gpu/request": "0.1", "divvy.gpu/device": device},
            },
            "spec": {"containers": [{"name": "main", "image": shipped.PROGRAMS, "command": ["sleep", "infinity"]}]},
        },
    )
    cluster.wait_for_pod(name, "Running")
