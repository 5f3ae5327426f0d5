#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster of many nodes with 8 devices each, on a real API server: what it does to divvy-scheduler, divvy-controller and the
API server. The nodes have no machines: fleet.py writes what their kubelets and divvyd would write, Leases included.

Rounds of three turns bind equal numbers of waiting pods: a program that only binds, divvy-scheduler (a fifth of the pods in
gangs, four queues), and kube-scheduler with plain pods. Each scheduler is stopped while its pods are made, so that all of them
wait at once. All pods stay.
usage: bench-scale.py [--nodes N] [--pods N] [--at-once N] [--quick] [--out FILE]: appends one object a line to FILE"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

import fleet
import kube_scheduler
from api_load import Used, memory_mib
from cluster import SKIP, Skip, open_cluster, patience, skip_all, wait_for
from controller import installed
from results import Results
from scheduled import BUILD, GPU, PROGRAM

BARE = os.path.join(BUILD, "tests/k8s/kube/kube-bind")
AT_A_TIME = 100  # Bindings in flight, as in divvy-scheduler
FULL_NODES = 5000
IDLE_S = 30
WHY = 20  # pods that fit nowhere
KINDS = ("bare", "divvy", "kube")


# ---- pods


class Bound:
    """A watch of the pods with a label: when each was seen with a node, and the pod."""

    def __init__(self, label, n):
        self.label, self.n, self.at, self.pods = label, n, {}, {}
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.ready.wait(patience())

    def run(self):
        """A busy server ends the watch of a slow client, which then continues where it was."""
        query = {"labelSelector": f"run={self.label}"}
        listed = cluster.get(PODS + "?" + urllib.parse.urlencode({**query, "limit": 1}))
        version = listed["metadata"]["resourceVersion"]
        while len(self.at) < self.n:
            with cluster.watch(PODS, timeout=patience(600), resourceVersion=version, **query) as events:
                self.ready.set()
                for event in events:
                    assert event["type"] != "ERROR", event
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.see(event["object"])
                    if len(self.at) == self.n:
                        return

    def see(self, pod):
        name = pod["metadata"].get("name")
        if pod.get("spec", {}).get("nodeName") and name not in self.at:
            self.at[name], self.pods[name] = time.monotonic(), pod

    def rate(self):
        self.thread.join(patience(600))
        assert len(self.at) == self.n, f"{len(self.at)} of {self.n} pods of {self.label} are bound"
        times = sorted(self.at.values())
        return (self.n - 1) / (times[-1] - times[0])


def pod(label, scheduler, annotations=None, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{label}-@i", "labels": {"run": label, **labels}, "annotations": annotations or {}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/team/worker:1.2.3",
                    "env": [{"name": f"SETTING_{k}", "value": f"value number {k}"} for k in range(12)],
                    "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
                }
            ],
        },
    }


def make_pods(kind, label, n):
    """n pods LABEL-0, ...; a fifth of divvy's are in gangs of 8, and the others are in four queues."""
    if kind != "divvy":
        requests.post(PODS, pod(label, {"bare": "nobody", "kube": "default-scheduler"}[kind]), n=n)
    else:
        n_gangs = n // 5 // fleet.GANG * fleet.GANG
        share = {"divvy.gpu/request": "0.25", "divvy.gpu/memory": "8Gi"}
        gang = {**share, "divvy.gpu/group": f"{label}-g@g", "divvy.gpu/group-size": str(fleet.GANG)}
        requests.post(PODS, pod(label, "divvy-scheduler", gang), n=n_gangs)
        each = (n - n_gangs) // 4
        for q in range(4):
            first = n_gangs + q * each
            n_here = each if q < 3 else n - first
            requests.post(PODS, pod(label, "divvy-scheduler", share, queue=f"q{q}"), first, n_here)
    requests.sync()


def make_queues():
    for q in range(4):
        spec = {
            "namespaces": [cluster.namespace],
            "queue": {
                "name": f"q{q}",
                "podSelector": {"matchLabels": {"queue": f"q{q}"}},
                "guaranteedShare": min(NODES, 1000),
            },
        }
        cluster.create(
            f"{GPU}/gpupolicies",
            {"apiVersion": "divvy.gpu/v1", "kind": "GPUPolicy", "metadata": {"name": f"queue-{q}"}, "spec": spec},
        )


def let_fleet_write():
    """The hooks for Leases and GPUNodes check that a divvyd writes only its own node's objects. The fleet has one account for all
    nodes, and that account's writes pass without the hooks. For its own Lease the API server asks no hook of any divvyd.
    """
    cluster.patch(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/divvy",
        {"webhooks": [{"$patch": "delete", "name": name} for name in ("leases.divvy.gpu", "gpunodes.divvy.gpu")]},
        "strategic",
    )


# ---- the schedulers


class Divvy:
    """divvy-scheduler with the shipped rights."""

    def __init__(self):
        self.account = cluster.service_account("divvy-system", "divvy-scheduler")
        self.process = None

    def start(self):
        with open(os.path.join(cluster.dir, "log", "divvy-scheduler.log"), "ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--kubeconfig", self.account.kubeconfig, "--log", "info"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        if self.process:
            self.process.terminate()
            assert self.process.wait(patience()) == 0
            self.process = None


def hold(kind, is_held):
    """Stops the scheduler of that kind, or lets it continue."""
    if kind == "divvy":
        divvy.process.send_signal(signal.SIGSTOP if is_held else signal.SIGCONT)
    elif kind == "kube":
        (cluster.freeze if is_held else cluster.thaw)("kube-scheduler")


def bind_bare(label, n):
    subprocess.run(
        [BARE, cluster.namespace, str(AT_A_TIME), str(NODES)],
        input="".join(f"{label}-{i}\n" for i in range(n)),
        text=True,
        env={**os.environ, "KUBECONFIG": divvy.account.kubeconfig},
        check=True,
        timeout=patience(600),
    )


def turn(kind, label, n):
    """Binds n pods of that kind; returns pods/s and the API server's processor time of a pod in ms."""
    hold(kind, True)
    try:
        make_pods(kind, label, n)
        bound = Bound(label, n)
        used = Used(cluster, api=cluster.pid("kube-apiserver"), divvy=divvy.pid)
    finally:
        hold(kind, False)
    if kind == "bare":
        bind_bare(label, n)
    rate = bound.rate()
    cpu = used.cpu()
    nodes.start_pods(PODS, label, n)
    if kind == "divvy":
        nodes.grant(bound.pods.values())
    requests.sync()
    return rate, 1000 * cpu["api"] / n, 1000 * cpu["divvy"] / n


def take_turns(rounds, at_once):
    rates = {kind: [] for kind in KINDS}
    for i in range(rounds):
        for kind in KINDS:
            rates[kind].append(turn(kind, f"{kind}-{i}", at_once))
        print(
            f"# {(i + 1) * 3 * at_once} pods: "
            + ", ".join(
                f"{kind} {rates[kind][-1][0]:.0f} pods/s (API server {rates[kind][-1][1]:.1f} ms a pod)"
                for kind in KINDS
            )
            + f"; MiB: scheduler {memory_mib(divvy.pid):.0f}, controller {memory_mib(cluster.pid(controller.name)):.0f}, "
            f"API server {memory_mib(cluster.pid('kube-apiserver'), 'VmRSS'):.0f}",
            flush=True,
        )
    return rates


# ---- single questions


def first_binding(name):
    """Seconds from the start of a scheduler to the Binding of a pod that waits."""
    divvy.stop()
    cluster.create(
        PODS, json.loads(json.dumps(pod(name, "divvy-scheduler", {"divvy.gpu/request": "0.1"})).replace("@i", "0"))
    )
    bound, began = Bound(name, 1), time.monotonic()
    divvy.start()
    bound.thread.join(patience(600))
    return bound.at[f"{name}-0"] - began


def has_reason(pod):
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def why(n):
    """(divvy-scheduler's processor time, the whole time), in ms, until each of n pods that fit nowhere has the condition that says
    why."""
    path = f"{PODS}?" + urllib.parse.urlencode({"labelSelector": "run=why"})
    used = Used(cluster, scheduler=divvy.pid)
    body = pod("why", "divvy-scheduler", {"divvy.gpu/request": "0.1", "divvy.gpu/model": "none-such"})
    requests.post(PODS, body, n=n)
    requests.sync()
    wait_for(lambda: all(has_reason(p) for p in cluster.get(path)["items"]), "all pods have their reason", 300)
    ms = 1000 * used.cpu()["scheduler"] / n, 1000 * used.seconds() / n
    requests.delete(f"{PODS}/why-@i", n=n)
    requests.sync()
    return ms


def idle(seconds):
    """Nothing happens: what the API server does, per second."""
    used = Used(
        cluster, api=cluster.pid("kube-apiserver"), scheduler=divvy.pid, controller=cluster.pid(controller.name)
    )
    time.sleep(seconds)  # the measured time
    took, cpu, writes = used.seconds(), used.cpu(), used.writes()
    return {name: s / took for name, s in cpu.items()}, {key: n / took for key, n in writes.items()}


# ---- the results


def add(name, value, goal, n, detail):
    """The goals are for a cluster of full size."""
    is_full = NODES >= FULL_NODES
    RESULTS.add(f"scale.{name}" if is_full else f"scale.{name}.{NODES}", value, goal if is_full else "", n, detail)


def show_rates(rates, at_once):
    median = {kind: statistics.median(r[0] for r in rates[kind]) for kind in KINDS}
    ratio = statistics.median(d[0] / b[0] for d, b in zip(rates["divvy"], rates["bare"]))
    n, what = len(rates["divvy"]), f"{NODES} nodes, {at_once} pods at once"
    add("bind_ratio", ratio, ">= 0.8", n, f"{what}: {median['divvy']:.0f} pods/s, bare {median['bare']:.0f}")
    for kind in KINDS:
        add(f"{kind}_pods_s", median[kind], "", n, what)
        api_ms = statistics.median(r[1] for r in rates[kind])
        add(f"{kind}_api_ms", api_ms, "", n, "the API server's processor time of a pod, until it is bound")
    add(
        "decide_ms", statistics.median(r[2] for r in rates["divvy"]), "", n, "divvy-scheduler's processor time of a pod"
    )


def show_idle():
    with_leases, writes = idle(IDLE_S)
    nodes.renew(0)
    without, _ = idle(IDLE_S)
    nodes.renew()
    leases = writes.get("PATCH leases", 0)
    detail = ", ".join(f"{key} {60 * n / NODES:.2f}" for key, n in sorted(writes.items(), key=lambda w: -w[1])[:3])
    add("idle_writes", 60 * leases / NODES, "", 1, f"writes a node and minute: {detail}")
    add(
        "idle_api_percent", 100 * (with_leases["api"] - without["api"]), "", 1, "of one processor, for the Leases alone"
    )
    add("idle_scheduler_percent", 100 * with_leases["scheduler"], "", 1, "of one processor")
    add("idle_controller_percent", 100 * with_leases["controller"], "", 1, "of one processor")


def show_memory():
    add("scheduler_rss_mib", memory_mib(divvy.pid), "<= 400", 1, f"at most, with {ARGS.pods} pods")
    add("controller_rss_mib", memory_mib(cluster.pid(controller.name)), "<= 300", 1, f"at most, with {ARGS.pods} pods")
    for part in ("kube-apiserver", "etcd", "kube-scheduler"):
        add(f"{part.replace('-', '_')}_rss_mib", memory_mib(cluster.pid(part)), "", 1, "at most")


def measure():
    at_once = min(ARGS.at_once, max(ARGS.pods // 3, 1))
    make_queues()
    divvy.start()
    rates = take_turns(max(ARGS.pods // (3 * at_once), 1), at_once)
    show_rates(rates, at_once)
    show_memory()
    cpu_ms, all_ms = why(WHY)
    add(
        "why_ms",
        cpu_ms,
        "<= 200",
        WHY,
        f"divvy-scheduler's processor time of a pod that fits nowhere; in all {all_ms:.0f} ms",
    )
    show_idle()
    add(
        "restart_s",
        statistics.median(first_binding(f"first-{i}") for i in range(3)),
        "<= 10",
        3,
        "to the first Binding",
    )


signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the programs
RESULTS = Results(("--nodes", FULL_NODES, 100), ("--pods", 30000, 600), ("--at-once", 1000, 200))
ARGS = RESULTS.args
NODES = ARGS.nodes
PARTS_ARGS = {
    # Without the controller of the nodes' life cycle nothing would remove the taint of a new node.
    "kube-apiserver": ["--disable-admission-plugins=TaintNodesByCondition"],
    "etcd": ["--quota-backend-bytes=8589934592"],
    # The API server finds the webhook by the EndpointSlice that the first controller makes. Other controllers would only be load.
    "kube-controller-manager": ["--controllers=endpointslice-mirroring-controller,serviceaccount-controller"],
}

try:
    with open_cluster("kcm", own="it measures the cluster's programs", args=PARTS_ARGS) as cluster:
        PODS = f"/api/v1/namespaces/{cluster.namespace}/pods"
        with installed(cluster) as controller, contextlib.ExitStack() as ends:
            divvy = Divvy()
            ends.callback(divvy.stop)
            requests = fleet.Requests(cluster)
            ends.callback(requests.process.kill)
            nodes = fleet.Fleet(cluster, requests, NODES)
            let_fleet_write()
            began = time.monotonic()
            nodes.make()
            print(f"# {NODES} nodes made in {time.monotonic() - began:.0f} s", flush=True)
            kube_scheduler.start(cluster, percentage=0)
            measure()
            requests.end()
except Skip as reason:
    skip_all(reason, SKIP)
