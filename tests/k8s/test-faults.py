#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Xid errors and lost devices on a real node: taints, Events, evictions that a policy requires, and the device's return.
The daemon runs through all tests without a restart."""

import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import NODE_OF_OURS, Skip, main, open_cluster, patience, skip_all, wait_for  # noqa: E402
from divvyd import IMAGE, Daemon, install, make_image  # noqa: E402
from scheduled import BUILD, GPU, Scheduled  # noqa: E402

KUBECTL = os.path.join(BUILD, "src/kubectl/kubectl-divvy")
SPIN = ("--kernel-us=500",)
SPACE = "evicting"  # namespace with a policy that evicts
world = {}


def template(keys, restart="Never"):
    slot = {"divvy.gpu/slot": "1"}
    return {
        "metadata": {
            "labels": {"divvy.gpu/tenant": "true", "app": "moves"},
            "annotations": {f"divvy.gpu/{k}": v for k, v in keys.items()},
        },
        "spec": {
            "schedulerName": "divvy-scheduler",
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "args": list(SPIN),
                    "resources": {"limits": slot, "requests": slot},
                }
            ],
        },
    }


def create_pod(name, namespace=None, **keys):
    pod = template({"request": "0.2", "memory": "8Gi", **keys})
    pod["metadata"]["name"] = name
    pod["metadata"]["labels"].pop("app")
    cluster.create(f"/api/v1/namespaces/{namespace or cluster.namespace}/pods", pod)


def create_deployment():
    cluster.create(
        f"/apis/apps/v1/namespaces/{SPACE}/deployments",
        {
            "metadata": {"name": "moves"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "moves"}},
                "template": template({"request": "0.2", "memory": "8Gi"}, restart="Always"),
            },
        },
    )


def evicting_pods():
    """Pods of the Deployment that are not terminating."""
    items = cluster.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
    return [p for p in items if not p["metadata"].get("deletionTimestamp") and p["status"]["phase"] == "Running"]


def device_of(pod):
    return (pod["metadata"].get("annotations") or {}).get("divvy.gpu/devices", "").partition("=")[2]


def events(name, reason, namespace=None):
    found = []
    for space in (namespace or cluster.namespace, "default"):
        found += cluster.get(f"/api/v1/namespaces/{space}/events")["items"]
    return [e["message"] for e in found if e["involvedObject"].get("name") == name and e["reason"] == reason]


def device(uuid):
    return next(d for d in daemon.status()["devices"] if d["uuid"] == uuid)


def taints(uuid):
    return [f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in device(uuid).get("taints") or []]


def fail_device(uuid, line):
    """Makes the device fail, or return, by a line of the faults file."""
    kind, _, rest = line.partition(" ")
    with open(os.path.join(daemon.runtime, "sim/faults"), "w", encoding="ascii") as f:
        f.write(f"{kind} device={device(uuid)['index']} at=1ms {rest}\n")
    os.kill(daemon.engine(), signal.SIGHUP)  # the engine reads its settings again


def kubectl(*args):
    done = subprocess.run(
        [KUBECTL, *args, "--kubeconfig", cluster.kubeconfig],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


def two_pods_share_a_device():
    cluster.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    cluster.create(
        f"{GPU}/gpupolicies",
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "GPUPolicy",
            "metadata": {"name": "leave"},
            "spec": {"namespaces": [SPACE], "deviceTaints": {"eviction": "NoExecute"}},
        },
    )
    create_deployment()
    wait_for(evicting_pods, "the Deployment's pod runs", 120)
    world["first"] = evicting_pods()[0]
    world["uuid"] = device_of(world["first"])
    create_pod("stays", device=world["uuid"])
    cluster.wait_for_pod("stays", "Running")
    assert taints(world["uuid"]) == [], device(world["uuid"])
    world["pid"] = cluster.pid("divvyd")


def a_lost_device_gets_a_taint_and_events():
    uuid = world["uuid"]
    fail_device(uuid, "lost")
    wait_for(lambda: "divvy.gpu/lost=:NoExecute" in taints(uuid), "the device has the taint", 60)
    lost = device(uuid)
    assert lost["health"] == "Lost" and all(t["timeAdded"] for t in lost["taints"]), lost
    first = world["first"]["metadata"]["name"]
    for name, namespace in ((cluster.node_name, None), ("stays", None), (first, SPACE)):
        wait_for(
            lambda n=name, s=namespace: any(uuid in m for m in events(n, "DeviceLost", s)),
            f"{name} has the Event DeviceLost",
            60,
        )


def the_policy_evicts_the_pods_of_its_namespace():
    uuid, first = world["uuid"], world["first"]["metadata"]
    wait_for(
        lambda: any("policy leave requires the eviction" in m for m in events(first["name"], "DeviceTainted", SPACE)),
        "an Event gives the reason of the eviction",
        60,
    )
    wait_for(
        lambda: any(p["metadata"]["uid"] != first["uid"] for p in evicting_pods()),
        "another pod of the Deployment runs",
        120,
    )
    assert {device_of(p) for p in evicting_pods()} == set(daemon.devices()) - {uuid}, evicting_pods()
    assert not events("stays", "DeviceTainted"), "a pod without such a policy was evicted"
    assert not cluster.pod("stays")["metadata"].get("deletionTimestamp"), cluster.pod("stays")


def a_tainted_device_gets_no_new_pod():
    uuid = world["uuid"]
    create_pod("waits", device=uuid)
    rig.waits("waits", "1 unhealthy")
    shown = kubectl("top", "--once")
    assert "Lost: is lost: the driver cannot reach it any more; taint divvy.gpu/" in shown, shown
    assert "unhealthy" in kubectl("why", "waits", "--namespace", cluster.namespace)


def the_device_returns_without_a_restart_of_divvyd():
    uuid = world["uuid"]
    fail_device(uuid, "reset")
    # divvyd looks for a lost device after pauses that double up to 5 minutes.
    wait_for(lambda: device(uuid)["health"] == "Healthy", "the device is healthy", 330)
    assert taints(uuid) == [], device(uuid)
    cluster.wait_for_pod("waits", "Running")
    assert device_of(cluster.pod("waits")) == uuid, cluster.pod("waits")
    wait_for(
        lambda: any(uuid in m for m in events(cluster.node_name, "DeviceHealthy")), "an Event reports the return", 30
    )
    assert cluster.pid("divvyd") == world["pid"], "divvyd has restarted"


def an_xid_of_a_program_only_concerns_its_pod():
    uuid = world["uuid"]
    create_pod("beside", device=uuid)
    cluster.wait_for_pod("beside", "Running")
    pid = daemon.listed()["beside"]["processes"][0]["pid"]
    fail_device(uuid, f"xid code=31 pid={pid}")
    wait_for(
        lambda: any(
            f"container main caused Xid 31 (GPU memory page fault) on device {uuid}" in m
            for m in events("beside", "XidError")
        ),
        "the pod has the Event",
        60,
    )
    assert not events("waits", "XidError") and not events(cluster.node_name, "XidError")
    assert device(uuid)["health"] == "Healthy" and not taints(uuid), device(uuid)
    assert [cluster.pod(n)["status"]["phase"] for n in ("beside", "waits")] == ["Running"] * 2


def an_administrator_clears_an_xid():
    """As with drivers that do not say when a device needs no reset any more."""
    uuid = world["uuid"]
    fail_device(uuid, "xid code=48")
    wait_for(lambda: taints(uuid) == ["divvy.gpu/xid=48:NoExecute"], "the device has the taint", 60)
    assert "had Xid 48 (double bit ECC error)" in device(uuid)["reason"], device(uuid)
    row = next(line for line in kubectl("ps", "--namespace", cluster.namespace).splitlines() if "beside" in line)
    assert row.rstrip().endswith("Running, device Unhealthy"), row
    assert kubectl("clear-gpu", uuid).endswith("cleared\n")
    wait_for(lambda: device(uuid)["health"] == "Healthy" and not taints(uuid), "the taint is removed", 60)
    fail_device(uuid, "xid code=95")
    wait_for(lambda: taints(uuid) == ["divvy.gpu/xid=95:NoExecute"], "a later Xid adds a taint again", 60)
    assert kubectl("clear-gpu", uuid).endswith("cleared\n")
    wait_for(lambda: not taints(uuid), "the taint is removed again", 60)
    assert cluster.pid("divvyd") == world["pid"], "divvyd has restarted"


try:
    with open_cluster("kcm", "node", own=NODE_OF_OURS) as cluster:
        install(cluster)
        make_image(cluster)
        daemon = Daemon(cluster, simulate="2xH200-141Gi")
        daemon.make_gpu_node()
        with Scheduled(cluster) as rig:
            daemon.start()
            daemon.await_ready()
            rig.start()
            main(
                two_pods_share_a_device,
                a_lost_device_gets_a_taint_and_events,
                the_policy_evicts_the_pods_of_its_namespace,
                a_tainted_device_gets_no_new_pod,
                the_device_returns_without_a_restart_of_divvyd,
                an_xid_of_a_program_only_concerns_its_pod,
                an_administrator_clears_an_xid,
            )
except Skip as reason:
    skip_all(reason)
