#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the start of a shared pod with that of a plain one: from the first byte of the POST to the first instruction of the
container's program, which reports its CLOCK_MONOTONIC over a socket. All pods have the same image and node. The plain pod goes
through kube-scheduler and never meets divvy. The shared pod goes through divvy as it ships, onto a device that others use. A
third kind is plain too, but has a device of a plugin that does nothing (fake-plugin): it shows the kubelet's own cost of
devices. Pods start one after the other, in turns; then many at once.
usage: bench-start.py [--pods N] [--at-once N] [--rounds N] [--quick] [--out FILE]
Appends one object a line to FILE."""

import statistics
import sys

import shipped
from api_load import Used
from cluster import NODE_OF_OURS, SKIP, Skip, open_cluster, skip_all
from plugin import await_offered, start_plugin
from results import Results
from starts import Kind, Starts, keep_one_there

GOAL = "<= 1.10"
DEVICE = "example.com/device"
PLUGINS = 64  # number of fake plugins


def median(kind, which=0):
    return statistics.median(t[which] for t in kind.times)


def show(metric, goal, kind, plain, n):
    RESULTS.add(
        metric,
        median(kind) / median(plain),
        goal,
        n,
        f"{kind.label} {median(kind):.0f} ms, of which to its node {median(kind, 1):.0f}; "
        f"plain {median(plain):.0f} ms and {median(plain, 1):.0f}",
    )


def take_turns(kinds, rounds, at_once, n_warm=0):
    """Gives each kind two turns a round, so that other load of the machine meets all kinds."""
    for kind in kinds:
        kind.times, kind.writes = [], {}
    for i in range(rounds):
        for kind in (*kinds, *reversed(kinds)):
            used = Used(kind.cluster)
            times = kind.create(at_once)
            for key, n in used.writes().items():
                kind.writes[key] = kind.writes.get(key, 0) + n
            kind.clear()
            kind.times += times if i >= n_warm else []


def show_writes(shared, plain):
    """Writes to the API server from the creation of a pod to the start of its program. Leases are renewed with or without pods."""
    each = {}
    for kind, sign in ((shared, 1), (plain, -1)):
        for key, n in kind.writes.items():
            if not key.endswith(" leases"):
                each[key] = each.get(key, 0) + sign * n / len(kind.times)
    parts = sorted(((n, key) for key, n in each.items() if n > 0.05), reverse=True)
    RESULTS.add(
        "kube.start_writes_50",
        sum(each.values()),
        "",
        len(shared.times),
        "writes of a shared pod beyond those of a plain one: " + ", ".join(f"{key} {n:.2f}" for n, key in parts),
    )


def measure(plain, plugin, shared):
    if RESULTS.wants("kube.start_ratio_p50"):
        take_turns([plain, shared], ARGS.pods // 2 + 1, 1, n_warm=1)
        show("kube.start_ratio_p50", GOAL, shared, plain, len(shared.times))
    if RESULTS.wants("kube.start_ratio_50", "kube.start_plugin_ratio_50", "kube.start_writes_50"):
        take_turns([plain, plugin, shared], ARGS.rounds, ARGS.at_once)
        show("kube.start_ratio_50", GOAL, shared, plain, len(shared.times))
        show("kube.start_plugin_ratio_50", "", plugin, plain, len(plugin.times))
        show_writes(shared, plain)


RESULTS = Results(("--pods", 20, 4), ("--at-once", 50, 10), ("--rounds", 2, 1))
ARGS = RESULTS.args
if not RESULTS.wants(
    "kube.start_ratio_p50", "kube.start_ratio_50", "kube.start_plugin_ratio_50", "kube.start_writes_50"
):
    sys.exit()

try:
    with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS, alone=True) as cluster:
        daemon = shipped.install(cluster, "1xH200-141Gi")
        starts = Starts(cluster, daemon)
        device = daemon.devices()[0]
        keep_one_there(cluster, device)
        start_plugin(cluster, DEVICE, PLUGINS)
        await_offered(cluster, DEVICE, PLUGINS)
        alone = cluster.new_namespace(**{"divvy.gpu/admission": "ignore"})
        measure(
            Kind(starts, "plain", alone),
            Kind(starts, "plugin", alone, limits={DEVICE: "1"}),
            Kind(
                starts,
                "shared",
                cluster.namespace,
                {"divvy.gpu/request": "0.01", "divvy.gpu/memory": "64Mi", "divvy.gpu/device": device},
            ),
        )
except Skip as reason:
    skip_all(reason, SKIP)
