#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Node groups of size zero: the nodes that an autoscaler adds for pods that wait for parts of a GPU.

The rules are those of Kubernetes' cluster-autoscaler, as a model (`Autoscaler`): which pods are a reason to add nodes, which of
them fit on present or starting nodes, and how many nodes of a template the rest needs. Webhook, controller and scheduler are
divvy's own; nodes start in the steps of real nodes."""

import os

from cluster import Skip, main, open_cluster, skip_all, unique, wait_for
from controller import installed
from scheduled import GIB, GPU, Scheduled

TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/divvy"
STARTUP = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
EXPENDABLE = -10  # pods of a lower priority are no reason to add nodes
SOURCE = os.environ["DIVVY_SOURCE"]
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 1000, "m": 0.001}


def number(quantity):
    for unit, factor in UNITS.items():
        if str(quantity).endswith(unit):
            return float(quantity[: -len(unit)]) * factor
    return float(quantity)


def requests_of(pod):
    total = {"pods": 1}
    for container in pod["spec"]["containers"]:
        for name, amount in (container["resources"].get("requests") or {}).items():
            total[name] = total.get(name, 0) + number(amount)
    return total


def take(free, pod):
    """Does the pod fit? Then it takes its part of the free resources."""
    asked = requests_of(pod)
    if any(free.get(name, 0) < amount for name, amount in asked.items()):
        return False
    for name, amount in asked.items():
        free[name] -= amount
    return True


class Autoscaler:
    """One node group with `size` requested nodes; `template` gives the resources of a new node."""

    def __init__(self, template):
        self.template = template
        self.size = 0
        self.nodes = []  # registered nodes

    def is_starting(self, node):
        ready = next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")
        return ready != "True" or any(t["key"].startswith(STARTUP) for t in node["spec"].get("taints") or [])

    def free_on(self, node, pods):
        free = {name: number(amount) for name, amount in node["status"]["allocatable"].items()}
        for pod in pods:
            if pod["spec"].get("nodeName") == node["metadata"]["name"]:
                assert take(free, pod), pod
        return free

    def look(self):
        """One pass of its loop: the number of further nodes that it requests."""
        pods = cluster.get(f"/api/v1/namespaces/{rig.namespace}/pods")["items"]
        waiting = [p for p in pods if is_unschedulable(p) and p["spec"].get("priority", 0) >= EXPENDABLE]
        there = [n for n in (cluster.get(f"/api/v1/nodes/{name}") for name in self.nodes) if not self.is_starting(n)]
        free = [self.free_on(n, pods) for n in there]
        # Requested nodes that have not started count with the template's resources.
        free += [dict(self.template) for _ in range(self.size - len(there))]
        waiting = [p for p in waiting if not any(take(f, p) for f in free)]
        added = []
        for pod in waiting:
            if any(take(f, pod) for f in added):
                continue
            fresh = dict(self.template)
            if take(fresh, pod):  # otherwise no node of the group would help
                added.append(fresh)
        self.size += len(added)
        return len(added)


def is_unschedulable(pod):
    return any(
        c["type"] == "PodScheduled" and c["status"] == "False" and c["reason"] == "Unschedulable"
        for c in pod["status"].get("conditions") or []
    ) and not pod["spec"].get("nodeName")


def template(devices=1, memory_gib=16, **more):
    """The group's description of its nodes, as in docs/node-groups.md."""
    return {
        "cpu": 8,
        "memory": 16 * GIB,
        "pods": 110,
        "divvy.gpu/slot": 64 * devices,
        "divvy.gpu/milli": 1000 * devices,
        "divvy.gpu/memory-mib": memory_gib * 1024 * devices,
        **more,
    }


def fraction(name, request="0.3", **spec):
    """A pod as its user writes it: the webhook adds the resources."""
    path = f"/api/v1/namespaces/{rig.namespace}/pods"
    cluster.create(
        path,
        {
            "metadata": {"name": name, "annotations": {"divvy.gpu/request": request, "divvy.gpu/memory": "4Gi"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "none"}], **spec},
        },
    )


def registers(group, tainted=True):
    """The node's kubelet registers, before divvyd runs."""
    name = unique("grown")
    cluster.fake_node(name, labels={"divvy.gpu/owner": "divvy"})
    if tainted:
        cluster.patch(
            f"/api/v1/nodes/{name}",
            {
                "spec": {
                    "taints": [
                        {"key": TAINT, "value": "starting", "effect": "NoSchedule"},
                        {"key": "team", "value": "a", "effect": "PreferNoSchedule"},
                    ]
                }
            },
        )
    group.nodes.append(name)
    return name


def has_slots(name):
    slots = {"divvy.gpu/slot": "64"}
    cluster.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": slots, "allocatable": slots}}, "strategic")


def divvyd_serves(name):
    wait_for(lambda: cluster.exists(f"{GPU}/gpunodes/{name}"), "the controller makes the GPUNode", 60)
    rig.lease(name)
    rig.status(
        name,
        owner="divvy",
        deviceCount=1,
        slots={"total": 64, "used": 0},
        conditions=[
            {"type": "Ready", "status": "True", "reason": "Serving", "lastTransitionTime": "2026-01-02T03:04:05Z"}
        ],
        devices=[
            {
                "uuid": f"GPU-{name}",
                "index": 0,
                "model": "T4",
                "memoryBytes": 16 * GIB,
                "health": "Healthy",
                "owner": "divvy",
            }
        ],
    )


def taints_of(name):
    return [t["key"] for t in cluster.get(f"/api/v1/nodes/{name}")["spec"].get("taints") or []]


def all_wait(*names):
    for name in names:
        rig.waits(name, "")


def leave(group, *pods):
    rig.gone(*pods)
    for name in group.nodes:
        rig.remove_node(name)


def fractions_add_one_node():
    """From none; no step of the node's start triggers a second node, and in the end all pods run on it."""
    group, names = Autoscaler(template()), ("f1", "f2", "f3")
    for name in names:
        fraction(name)
    all_wait(*names)
    assert group.look() == 1 and group.look() == 0
    node = registers(group)
    assert group.look() == 0, "a registered node that has yet to start triggers a second node"
    has_slots(node)
    assert group.look() == 0, "a node with slots triggers a second node"
    divvyd_serves(node)
    wait_for(lambda: taints_of(node) == ["team"], "the startup taint is taken off, and no other", 60)
    assert {rig.bound(name)["spec"]["nodeName"] for name in names} == {node}
    assert group.look() == 0 and group.size == 1
    leave(group, *names)


def without_the_taint_the_autoscaler_adds_too_many():
    """The purpose of the taint: no pod fits on a node without slots."""
    group = Autoscaler(template())
    fraction("early")
    all_wait("early")
    assert group.look() == 1
    registers(group, tainted=False)
    assert group.look() == 1
    leave(group, "early")


def a_template_without_the_resources_adds_no_node():
    """A group whose template has no slots and shares does not help."""
    fraction("alone")
    all_wait("alone")
    for missing in ("divvy.gpu/slot", "divvy.gpu/milli", "divvy.gpu/memory-mib"):
        said = template()
        del said[missing]
        assert Autoscaler(said).look() == 0, missing
    assert Autoscaler(template()).look() == 1
    rig.gone("alone")


def the_autoscaler_adds_as_many_nodes_as_the_shares_need():
    group, names = Autoscaler(template()), [f"n{i}" for i in range(5)]
    for name in names:
        fraction(name, request="0.4")
    all_wait(*names)
    assert group.look() == 3 and group.look() == 0
    rig.gone(*names)


def opportunistic_pods_add_no_node():
    group = Autoscaler(template())
    fraction("spare", priorityClassName="divvy-opportunistic")
    all_wait("spare")
    assert group.look() == 0
    rig.gone("spare")


def a_node_that_is_not_ready_keeps_the_taint():
    group = Autoscaler(template())
    fraction("late")
    all_wait("late")
    assert group.look() == 1
    node = registers(group)
    has_slots(node)
    divvyd_serves(node)
    wait_for(lambda: taints_of(node) == ["team"], "the controller removes the startup taint", 60)
    other = registers(group)
    has_slots(other)
    wait_for(lambda: cluster.exists(f"{GPU}/gpunodes/{other}"), "the controller makes the GPUNode", 60)
    rig.bound("late")
    # By now the controller has seen both nodes.
    assert TAINT in taints_of(other)
    leave(group, "late")


try:
    with open_cluster("kcm", own=True) as cluster:
        cluster.only_own("made-up nodes")
        with installed(cluster), Scheduled(cluster) as rig:
            cluster.kubectl("apply", "-f", os.path.join(SOURCE, "deploy/startup-taint.yaml"))
            rig.start()
            main(
                fractions_add_one_node,
                without_the_taint_the_autoscaler_adds_too_many,
                a_template_without_the_resources_adds_no_node,
                the_autoscaler_adds_as_many_nodes_as_the_shares_need,
                opportunistic_pods_add_no_node,
                a_node_that_is_not_ready_keeps_the_taint,
            )
except Skip as reason:
    skip_all(reason)
