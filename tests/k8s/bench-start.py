#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
How much later a shared pod starts than a plain one: from the first byte of the POST to the first instruction of its
container's program, which says over a socket what CLOCK_MONOTONIC then was. All are of the same image on the same
node; the plain one goes through kube-scheduler and never meets divvy, the shared one through divvy as it ships, onto a
device that others use; and a third kind is plain, too, but has a device of a plugin that does nothing (fake-plugin),
which is what the kubelet alone takes longer with devices. One after the other, taking turns; then many at once.
usage: bench-start.py [--pods N] [--at-once N] [--rounds N] [--quick] [--out FILE]: one object a line is added to FILE
"""

import concurrent.futures
import json
import os
import socket
import statistics
import sys
import threading
import time

import shipped
from cluster import SKIP, Skip, open_cluster, skip_all, wait_for
from divvyd import BUILD
from node import ADDRESS
from results import Results

GOAL = "<= 1.10"
POSTS = 8  # connections, when many are created at once
IMAGE = "say-start"
SAY = os.path.join(BUILD, "tests/programs/say-start")
FAKE_PLUGIN = os.path.join(BUILD, "tests/k8s/fake-plugin")
DEVICES = {"example.com/device": "1"}


class Starts:
    """What the programs say: {pod's name: CLOCK_MONOTONIC in ns}."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ADDRESS, 0))
        self.port = self.socket.getsockname()[1]
        self.at = {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            name, at = self.socket.recv(512).decode().split()
            self.at[name] = int(at)


class Bound:
    """When a watch saw that a pod has a node: where the time goes."""

    def __init__(self, space):
        self.space, self.at = space, {}
        self.ready = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()
        assert self.ready.wait(60)

    def watch(self):
        with cluster.watch(f"/api/v1/namespaces/{self.space}/pods", timeout=1800) as events:
            self.ready.set()
            for event in events:
                o = event["object"]
                if o.get("spec", {}).get("nodeName"):
                    self.at.setdefault(o["metadata"]["name"], time.monotonic_ns())


class Kind:
    """Pods that are made alike."""

    def __init__(self, label, space, annotations=None, limits=None):
        self.label, self.space, self.annotations, self.limits = label, space, annotations or {}, limits or {}
        self.bound = Bound(space)
        self.made = 0
        self.times = []  # (ms to the start, ms to the node)

    def path(self, name=""):
        return f"/api/v1/namespaces/{self.space}/pods" + (f"/{name}" if name else "")

    def pod(self):
        self.made += 1
        name = f"{self.label}-{self.made}"
        return name, json.dumps({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": self.annotations},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [
                {"name": "main", "image": f"{IMAGE}:{shipped.VERSION}", "args": [name, ADDRESS, str(starts.port)],
                 "resources": {"limits": self.limits}}]}})

    def post(self, connection, pod):
        """When the first byte went."""
        began = time.monotonic_ns()
        response = cluster.send(connection, "POST", self.path(), pod)
        text = response.read()
        assert response.status == 201, text
        return began

    def clear(self):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        cluster.request("DELETE", self.path() + "?labelSelector=keep!=yes", body)
        wait_for(lambda: not [p for p in cluster.get(self.path())["items"] if not p["metadata"].get("labels", {}).get("keep")],
                 "they are gone", 300)
        wait_for(lambda: len(daemon.status().get("tenants") or []) <= 1, "what they had is given back", 300)

    def create(self, n):
        """[(ms to the start, ms to the node)] of n pods created at once."""
        pods = [self.pod() for _ in range(n)]
        connections = [cluster.connect() for _ in range(min(n, POSTS))]
        for connection in connections:
            connection.connect()

        def share(which):
            return [(name, self.post(connections[which], pod)) for name, pod in pods[which::len(connections)]]

        with concurrent.futures.ThreadPoolExecutor(len(connections)) as pool:
            began = dict(sum(pool.map(share, range(len(connections))), []))
        wait_for(lambda: all(name in starts.at and name in self.bound.at for name in began), "all have started", 600)
        for connection in connections:
            connection.close()
        return [((starts.at[name] - at) / 1e6, (self.bound.at[name] - at) / 1e6) for name, at in began.items()]


def median(kind, which=0):
    return statistics.median(t[which] for t in kind.times)


def show(metric, goal, kind, plain, n):
    RESULTS.add(metric, median(kind) / median(plain), goal, n,
                f"{kind.label} {median(kind):.0f} ms, of which to its node {median(kind, 1):.0f}; "
                f"plain {median(plain):.0f} ms and {median(plain, 1):.0f}")


def take_turns(kinds, rounds, at_once, n_warm=0):
    """Of a round each kind has two turns, so that what else the machine does meets all."""
    for kind in kinds:
        kind.times = []
    for i in range(rounds):
        for kind in (*kinds, *reversed(kinds)):
            times = kind.create(at_once)
            kind.clear()
            kind.times += times if i >= n_warm else []


def measure(plain, plugin, shared):
    if RESULTS.wants("kube.start_ratio_p50"):
        take_turns([plain, shared], ARGS.pods // 2 + 1, 1, n_warm=1)
        show("kube.start_ratio_p50", GOAL, shared, plain, len(shared.times))
    if RESULTS.wants("kube.start_ratio_50", "kube.start_plugin_ratio_50"):
        take_turns([plain, plugin, shared], ARGS.rounds, ARGS.at_once)
        show("kube.start_ratio_50", GOAL, shared, plain, len(shared.times))
        show("kube.start_plugin_ratio_50", "", plugin, plain, len(plugin.times))


def keep_one_there(device):
    """The device is shared already."""
    cluster.create(f"/api/v1/namespaces/{cluster.namespace}/pods", {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "there", "labels": {"keep": "yes"}, "annotations": {
            "divvy.gpu/request": "0.1", "divvy.gpu/device": device}},
        "spec": {"containers": [{"name": "main", "image": shipped.PROGRAMS, "command": ["sleep", "infinity"]}]}})
    cluster.wait_for_pod("there", "Running")


RESULTS = Results(("--pods", 20, 4), ("--at-once", 50, 10), ("--rounds", 2, 1))
ARGS = RESULTS.args
if not RESULTS.wants("kube.start_ratio_p50", "kube.start_ratio_50", "kube.start_plugin_ratio_50"):
    sys.exit()

try:
    with open_cluster("kcm", "sched", "node", own=True) as cluster:
        daemon = shipped.install(cluster, "1xH200-141Gi")
        shipped.import_image(cluster, IMAGE, {"/bin/say-start": SAY}, ["/bin/say-start"])
        starts = Starts()
        device = daemon.devices()[0]
        keep_one_there(device)
        cluster.keeper.ask("start", name="fake-plugin", env={}, log=daemon.log + ".fake", argv=[
            *cluster.node.inside(), FAKE_PLUGIN, "/var/lib/kubelet/device-plugins", *DEVICES, "64"])
        node = f"/api/v1/nodes/{cluster.node_name}"
        wait_for(lambda: cluster.get(node)["status"]["allocatable"].get(*DEVICES) == "64",
                 "the node has the plugin's devices", 60)
        alone = cluster.new_namespace(**{"divvy.gpu/admission": "ignore"})
        measure(Kind("plain", alone), Kind("plugin", alone, limits=DEVICES),
                Kind("shared", cluster.namespace, {"divvy.gpu/request": "0.01", "divvy.gpu/memory": "64Mi",
                                                   "divvy.gpu/device": device}))
except Skip as reason:
    skip_all(reason, SKIP)
