#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Node groups that grow from zero and shrink, by the rules of Kubernetes' cluster-autoscaler.

cluster-autoscaler asks the filters of kube-scheduler whether a pod fits on a node, and so does this test: a kube-scheduler in a
cluster of its own, without divvy, places copies of pods on copies of nodes (`Filters`). The other rules are a model
(`Autoscaler`): which pods are a reason to add nodes, how many nodes of a template the rest needs, and which pods of a node need
another place before the node can be removed. Webhook, controller and scheduler are divvy's own; nodes start in the steps of real
nodes."""

import os

from cluster import Cluster, Skip, main, open_cluster, skip_all, unique, wait_for
from controller import SYSTEM, installed
from scheduled import GIB, GPU, Scheduled

TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/divvy"
STARTUP = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
EXPENDABLE = -10  # pods of a lower priority are no reason to add nodes, and need no other place
LIKE_DAEMON = "cluster-autoscaler.kubernetes.io/daemonset-pod"
SOURCE = os.environ["DIVVY_SOURCE"]
PLACE = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")


class Filters:
    """kube-scheduler's filters, in a cluster that has only the nodes and pods of one question."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.path = f"/api/v1/namespaces/{cluster.namespace}/pods"

    def put(self, pod, **spec):
        """A copy of the pod with the fields that decide where it fits."""
        containers = [
            {"name": c["name"], "image": "none", "resources": c.get("resources") or {}}
            for c in pod["spec"]["containers"]
        ]
        kept = {key: pod["spec"][key] for key in PLACE if pod["spec"].get(key)}
        name = unique("copy")
        self.cluster.create(
            self.path,
            {
                "metadata": {"name": name, "labels": pod["metadata"].get("labels") or {}},
                "spec": {**kept, "containers": containers, "terminationGracePeriodSeconds": 0, **spec},
            },
        )
        return name

    def place(self, pod):
        """The node on which the filters let the pod fit, beside all pods so far; None: on none."""
        name, seen = self.put(pod), {}

        def is_decided():
            seen["pod"] = self.cluster.get(f"{self.path}/{name}")
            return seen["pod"]["spec"].get("nodeName") or is_unschedulable(seen["pod"])

        wait_for(is_decided, "kube-scheduler decides", 60)
        if is_unschedulable(seen["pod"]):
            self.cluster.delete(f"{self.path}/{name}", grace_s=0)
        return seen["pod"]["spec"].get("nodeName")

    def add_node(self, node):
        labels = {k: v for k, v in node["metadata"]["labels"].items() if k != "kubernetes.io/hostname"}
        taints = [t for t in node["spec"].get("taints") or [] if not t["key"].startswith(STARTUP)]
        self.cluster.fake_node(node["metadata"]["name"], labels=labels, **node["status"]["allocatable"])
        self.cluster.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": taints}})

    def remove_node(self, node):
        self.cluster.delete(f"/api/v1/nodes/{node['metadata']['name']}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in (self.path, "/api/v1/nodes"):
            for item in self.cluster.get(path)["items"]:
                self.cluster.delete(f"{path}/{item['metadata']['name']}", grace_s=0)
            wait_for(lambda p=path: not self.cluster.get(p)["items"], "the question's objects are removed")


class Autoscaler:
    """One node group with `size` requested nodes; `template` gives the resources of a new node."""

    def __init__(self, template):
        self.template = template
        self.size = 0
        self.nodes = []  # registered nodes

    def is_starting(self, node):
        ready = next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")
        return ready != "True" or any(t["key"].startswith(STARTUP) for t in node["spec"].get("taints") or [])

    def fresh(self):
        """A node as the template describes it."""
        return {
            "metadata": {"name": unique("template"), "labels": {"divvy.gpu/owner": "divvy"}},
            "spec": {},
            "status": {"allocatable": {name: str(amount) for name, amount in self.template.items()}},
        }

    def look(self):
        """One pass of its loop: the number of further nodes that it requests."""
        pods = cluster.get(f"/api/v1/namespaces/{rig.namespace}/pods")["items"]
        waiting = [p for p in pods if is_unschedulable(p) and p["spec"].get("priority", 0) >= EXPENDABLE]
        there = [n for n in (cluster.get(f"/api/v1/nodes/{name}") for name in self.nodes) if not self.is_starting(n)]
        with Filters(simulator) as filters:
            # Requested nodes that have not started count with the template's resources.
            for node in [*there, *(self.fresh() for _ in range(self.size - len(there)))]:
                filters.add_node(node)
            for pod in pods:
                if pod["spec"].get("nodeName") in self.nodes:
                    filters.put(pod, nodeName=pod["spec"]["nodeName"])
            waiting = [p for p in waiting if not filters.place(p)]
            added = 0
            while waiting:
                node = self.fresh()
                filters.add_node(node)
                rest = [p for p in waiting if not filters.place(p)]
                if len(rest) == len(waiting):  # no node of the group would help
                    break
                waiting, added = rest, added + 1
        self.size += added
        return added

    def can_remove(self, name):
        """May it remove the node, once its pods have moved? Pods of DaemonSets, and pods that say so, need no other place."""
        pods = [p for p in cluster.get("/api/v1/pods")["items"] if p["spec"].get("nodeName")]
        others = [cluster.get(f"/api/v1/nodes/{n}") for n in self.nodes if n != name]
        with Filters(simulator) as filters:
            for node in others:
                filters.add_node(node)
            for pod in pods:
                if any(pod["spec"]["nodeName"] == node["metadata"]["name"] for node in others):
                    filters.put(pod, nodeName=pod["spec"]["nodeName"])
            moving = [p for p in pods if p["spec"]["nodeName"] == name and not is_like_daemon(p)]
            return all(filters.place(p) for p in moving)


def is_like_daemon(pod):
    owners = [o["kind"] for o in pod["metadata"].get("ownerReferences") or [] if o.get("controller")]
    return owners == ["DaemonSet"] or (pod["metadata"].get("annotations") or {}).get(LIKE_DAEMON) == "true"


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


def registers(group, tainted=True, owner="divvy", **resources):
    """The node's kubelet registers, before divvyd runs."""
    name = unique("grown")
    cluster.fake_node(name, labels={"divvy.gpu/owner": owner}, **resources)
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
    rig.has_slots(node)
    assert group.look() == 0, "a node with slots triggers a second node"
    rig.divvyd_serves(node)
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
    rig.has_slots(node)
    rig.divvyd_serves(node)
    wait_for(lambda: taints_of(node) == ["team"], "the controller removes the startup taint", 60)
    other = registers(group)
    rig.has_slots(other)
    wait_for(lambda: cluster.exists(f"{GPU}/gpunodes/{other}"), "the controller makes the GPUNode", 60)
    rig.bound("late")
    # By now the controller has seen both nodes.
    assert TAINT in taints_of(other)
    leave(group, "late")


def bind(pod, node):
    """As kube-scheduler would."""
    name = pod["metadata"]["name"]
    cluster.create(
        f"/api/v1/namespaces/{SYSTEM}/pods/{name}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        },
    )


def own_pods(name):
    return cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector=app.kubernetes.io/name={name}")["items"]


def daemon_on(node):
    """The DaemonSet controller makes divvyd's pod for the node, and the test binds the pod."""
    there = wait_for(
        lambda: [p for p in own_pods("divvyd") if f"'values': ['{node}']" in str(p["spec"]["affinity"])],
        "divvyd's pod is made",
        60,
    )
    bind(there[0], node)
    assert is_like_daemon(there[0]), there[0]["metadata"]


def a_node_is_removed_when_its_shares_fit_elsewhere():
    group = Autoscaler(template())
    for name in ("a", "b"):
        node = registers(group)
        rig.has_slots(node)
        rig.divvyd_serves(node)
        daemon_on(node)
        wait_for(lambda n=node: taints_of(n) == ["team"], "the startup taint is removed", 60)
        fraction(name, request="0.6", nodeSelector={"kubernetes.io/hostname": node})
        assert rig.bound(name)["spec"]["nodeName"] == node
    first, second = group.nodes
    assert not group.can_remove(first) and not group.can_remove(second), "0.6 and 0.6 do not fit on one GPU"
    rig.gone("a")
    assert group.can_remove(first), "divvyd keeps an empty node"
    leave(group, "b")


def a_reserved_device_keeps_no_node():
    """Its placeholder fits nowhere else. Before the placeholder is bound, it is no pod of a DaemonSet, which adds no node."""
    group = Autoscaler(template())
    node = registers(group, owner="pool", **{"nvidia.com/gpu": "1"})
    rig.has_slots(node)
    rig.divvyd_serves(node, owner="pool")
    cluster.patch(f"{GPU}/gpunodes/{node}", {"spec": {"pool": {"policy": "reservation", "reserve": 1}}})
    wait_for(lambda: own_pods("divvy-placeholder"), "the controller makes a placeholder", 60)
    (pod,) = own_pods("divvy-placeholder")
    assert not is_like_daemon(pod), pod["metadata"]
    bind(pod, node)
    daemon_on(node)
    wait_for(lambda: is_like_daemon(own_pods("divvy-placeholder")[0]), "the controller marks the bound placeholder", 60)
    assert own_pods("divvy-placeholder")[0]["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert group.can_remove(node)
    leave(group)


try:
    with open_cluster("kcm") as cluster, Cluster("sched") as simulator:
        with installed(cluster, args=["--placeholder-image=none"]), Scheduled(cluster) as rig:
            cluster.kubectl("apply", "-f", os.path.join(SOURCE, "deploy/startup-taint.yaml"))
            rig.start()
            main(
                fractions_add_one_node,
                without_the_taint_the_autoscaler_adds_too_many,
                a_template_without_the_resources_adds_no_node,
                the_autoscaler_adds_as_many_nodes_as_the_shares_need,
                opportunistic_pods_add_no_node,
                a_node_that_is_not_ready_keeps_the_taint,
                a_node_is_removed_when_its_shares_fit_elsewhere,
                a_reserved_device_keeps_no_node,
            )
except Skip as reason:
    skip_all(reason)
