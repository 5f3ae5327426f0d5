#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvyd on a real kubelet: pods get what was given to them, and nothing else."""

import time

from cluster import Skip, main, open_cluster, skip_all, wait_for
from divvyd import (GIB, Daemon, events_of, given, install, make_image, run_pod,
                    wait_for_pod)


def a_node_says_what_it_has():
    daemon.await_ready()
    status = daemon.status()
    device = status["devices"][0]
    assert (device["model"], device["simulated"], device["health"]) == ("NVIDIA H200", True, "Healthy"), device
    assert status["slots"] == {"total": 64, "used": 0} and status["owner"] == "divvy", status
    wait_for(lambda: daemon.slots_offered() == 64, "the kubelet offers 64 slots")
    lease = cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases/{cluster.node_name}")
    assert lease["spec"]["leaseDurationSeconds"] == 40, lease


def two_pods_have_their_shares():
    uuid = daemon.devices()
    args = ("--kernel-us=500", "--duration=10")
    for name, share in (("low", "0.3"), ("high", "0.7")):
        run_pod(cluster, name, args, given(uuid, request=share))
    for name in ("low", "high"):
        wait_for_pod(cluster, name, "Running")
    wait_for(lambda: all(t["processes"] for t in daemon.listed().values()) and len(daemon.listed()) == 2,
             "both have registered")
    tenants = daemon.tenants()
    assert tenants["low/main"]["request"] == 300 and tenants["high/main"]["memoryBytes"] == [8 * GIB], tenants
    time.sleep(6)
    shares, ran = daemon.shares(low=0.3, high=0.7)
    print(f"# of {ran:.2f}: {shares}")
    assert ran > 0.5 and abs(shares["low"] - 0.3) < 0.02, (shares, ran)
    for name in ("low", "high"):
        wait_for_pod(cluster, name, "Succeeded")
    wait_for(lambda: not daemon.tenants(), "what they had is given back")
    assert "Granted" in events_of(cluster, "low")


try:
    with open_cluster("kcm", "node", own=True) as cluster:
        install(cluster)
        make_image(cluster)
        daemon = Daemon(cluster)
        daemon.make_gpu_node()
        daemon.start()
        main(a_node_says_what_it_has, two_pods_have_their_shares)
except Skip as reason:
    skip_all(reason)
