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

import statistics
import sys

import shipped
from cluster import SKIP, Skip, open_cluster, skip_all
from plugin import await_offered, start_plugin
from results import Results
from starts import Kind, Starts, keep_one_there

GOAL = "<= 1.10"
DEVICE = "example.com/device"
PLUGINS = 64  # of those


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


RESULTS = Results(("--pods", 20, 4), ("--at-once", 50, 10), ("--rounds", 2, 1))
ARGS = RESULTS.args
if not RESULTS.wants("kube.start_ratio_p50", "kube.start_ratio_50", "kube.start_plugin_ratio_50"):
    sys.exit()

try:
    with open_cluster("kcm", "sched", "node", own=True, alone=True) as cluster:
        daemon = shipped.install(cluster, "1xH200-141Gi")
        starts = Starts(cluster, daemon)
        device = daemon.devices()[0]
        keep_one_there(cluster, device)
        start_plugin(cluster, DEVICE, PLUGINS)
        await_offered(cluster, DEVICE, PLUGINS)
        alone = cluster.new_namespace(**{"divvy.gpu/admission": "ignore"})
        measure(Kind(starts, "plain", alone), Kind(starts, "plugin", alone, limits={DEVICE: "1"}),
                Kind(starts, "shared", cluster.namespace, {"divvy.gpu/request": "0.01", "divvy.gpu/memory": "64Mi",
                                                           "divvy.gpu/device": device}))
except Skip as reason:
    skip_all(reason, SKIP)
