#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the rate of Bindings of divvy-scheduler with that of a program that does nothing but bind, with as many concurrent
requests. Both use the same API server, in turns. A watch times both, from the first bound pod to the last.
usage: bench-bind.py [--pods N] [--rounds N] [--quick] [--out FILE]: appends one object a line to FILE"""

import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

from cluster import SKIP, Skip, open_cluster, patience, skip_all, wait_for
from results import Results
from scheduled import BUILD, Scheduled

BARE = os.path.join(BUILD, "tests/k8s/kube/kube-bind")
AT_A_TIME = 100
NODES = 20
METRIC = "kube.bind_ratio"


class Times:
    """The time at which a watch shows each pod of a selector as bound."""

    def __init__(self, label):
        self.label, self.bound = label, {}
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.ready.wait(patience())

    def run(self):
        path = f"/api/v1/namespaces/{cluster.namespace}/pods"
        version = cluster.get(path + "?" + urllib.parse.urlencode({"labelSelector": f"run={self.label}"}))
        version = version["metadata"]["resourceVersion"]
        with cluster.watch(
            path, timeout=patience(600), labelSelector=f"run={self.label}", resourceVersion=version
        ) as events:
            self.ready.set()
            for event in events:
                o = event["object"]
                name = o["metadata"].get("name")
                if o.get("spec", {}).get("nodeName") and name not in self.bound:
                    self.bound[name] = time.monotonic()
                if len(self.bound) == ARGS.pods:
                    return

    def rate(self):
        self.thread.join(patience(600))
        assert len(self.bound) == ARGS.pods, f"{len(self.bound)} of {ARGS.pods} are bound"
        times = sorted(self.bound.values())
        return (len(times) - 1) / (times[-1] - times[0])


def make(label, scheduler):
    names = [f"{label}-{i}" for i in range(ARGS.pods)]
    for name in names:
        rig.pod(name, {"request": "0.1"}, labels={"run": label}, schedulerName=scheduler)
    return names


def clear(label):
    cluster.request(
        "DELETE",
        rig.path() + f"?labelSelector=run%3D{label}",
        {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0},
    )
    wait_for(lambda: not cluster.get(rig.path() + f"?labelSelector=run%3D{label}")["items"], "they are gone", 120)


def bare(n):
    names = make(f"bare-{n}", "nobody")
    times = Times(f"bare-{n}")
    subprocess.run(
        [BARE, cluster.namespace, str(AT_A_TIME), str(NODES)],
        input="\n".join(names) + "\n",
        text=True,
        env={**os.environ, "KUBECONFIG": rig.account.kubeconfig},
        check=True,
        timeout=patience(600),
    )
    rate = times.rate()
    clear(f"bare-{n}")
    return rate


def ours(n):
    make(f"ours-{n}", "divvy-scheduler")
    times = Times(f"ours-{n}")
    process = rig.start("--log", "warn")
    rate = times.rate()
    rig.stop(process)
    clear(f"ours-{n}")
    return rate


RESULTS = Results(("--pods", 600, 200), ("--rounds", 7, 1))
ARGS = RESULTS.args
if not RESULTS.wants(METRIC):
    sys.exit()

try:
    with open_cluster() as cluster:
        cluster.only_own("made-up nodes")
        with Scheduled(cluster) as rig:
            for i in range(NODES):
                rig.node(f"n{i}", *["A100"] * 8, cpu="1000", memory="1000Gi", pods="1000")
            pairs = []
            for i in range(ARGS.rounds):
                pairs.append((bare(i), ours(i)))
                print(f"# bare {pairs[-1][0]:.0f} pods/s, divvy-scheduler {pairs[-1][1]:.0f} pods/s", flush=True)
    ratio = statistics.median(o / b for b, o in pairs)
    RESULTS.add(
        METRIC,
        ratio,
        ">= 0.85",
        ARGS.rounds,
        f"{ARGS.pods} pods, {AT_A_TIME} at a time: {statistics.median(o for _, o in pairs):.0f} pods/s, "
        f"bare {statistics.median(b for b, _ in pairs):.0f}",
    )
except Skip as reason:
    skip_all(reason, SKIP)
