#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Karpenter, with the provider that its own tests use: it adds nodes for pods that wait for a share, and removes empty ones.

Karpenter, API server, controller manager and kube-scheduler are the real programs. The provider's nodes have no kubelet, so the
test writes what a kubelet and divvyd would write."""

import glob
import json
import os

from cluster import ApiError, Skip, built, main, open_cluster, own_minor, skip_all, wait_for
from controller import SYSTEM, installed
from scheduled import GPU, Scheduled

KARPENTER = "/apis/karpenter.sh/v1"
TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/divvy"
SOURCE = os.environ["DIVVY_SOURCE"]
OWN_PODS = f"/api/v1/namespaces/{SYSTEM}/pods"


def instance(name, price, **resources):
    """A type of machine of the provider."""
    offering = {
        "Price": price,
        "Available": True,
        "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
        ],
    }
    return {
        "name": name,
        "offerings": [offering],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "110", **resources},
    }


def start_karpenter():
    """Without leader election, as the administrator."""
    folder = built("with-karpenter")
    source = os.path.join(folder, "source/sigs.k8s.io/karpenter/kwok")
    for path in sorted(glob.glob(f"{source}/**/*.yaml", recursive=True)):
        cluster.kubectl("apply", "--server-side", "-f", path)
    for path in (
        "karpenter.sh/v1/nodepools",
        "karpenter.sh/v1alpha1/nodeoverlays",
        "karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
    ):
        wait_for(lambda p=path: cluster.exists(f"/apis/{p}"), f"{path} are served", 60)
    types = os.path.join(cluster.dir, "instance-types.json")
    with open(types, "w", encoding="utf-8") as f:
        json.dump(
            [
                instance("one-gpu", 1.0),
                instance("one-gpu-pool", 1.0, **{"nvidia.com/gpu": "1"}),
                instance("plain", 0.1),
            ],
            f,
        )
    cluster.keeper.ask(
        "start",
        name="karpenter",
        log=os.path.join(cluster.dir, "log/karpenter.log"),
        env={"PATH": os.environ["PATH"], "KUBECONFIG": cluster.kubeconfig, "SYSTEM_NAMESPACE": "kube-system"},
        argv=[
            os.path.join(folder, "bin/kwok"),
            f"--instance-types-file-path={types}",
            "--disable-leader-election=true",
            "--metrics-port=0",
            "--health-probe-port=0",
            "--feature-gates=NodeOverlay=true",
            "--log-level=debug",
        ],
    )


def node_pool(name, owner, kind):
    cluster.create(
        f"{KARPENTER}/nodepools",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {
                "template": {
                    "metadata": {"labels": {"divvy.gpu/owner": owner}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "any"},
                        "expireAfter": "Never",
                        "requirements": [
                            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [kind]},
                        ],
                        "startupTaints": [{"key": TAINT, "value": "starting", "effect": "NoSchedule"}],
                    },
                },
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
            },
        },
    )


def overlay():
    """Karpenter's NodeOverlay of docs/with/karpenter.md, for the instance types of this test."""
    cluster.create(
        "/apis/karpenter.sh/v1alpha1/nodeoverlays",
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "divvy"},
            "spec": {
                "requirements": [
                    {
                        "key": "node.kubernetes.io/instance-type",
                        "operator": "In",
                        "values": ["one-gpu", "one-gpu-pool"],
                    }
                ],
                "capacity": {"divvy.gpu/slot": "64", "divvy.gpu/milli": "1000", "divvy.gpu/memory-mib": "16384"},
            },
        },
    )


def share(name, request="0.3", **spec):
    """A pod as its user writes it: the webhook adds the resources."""
    cluster.create(
        f"/api/v1/namespaces/{rig.namespace}/pods",
        {
            "metadata": {"name": name, "annotations": {"divvy.gpu/request": request, "divvy.gpu/memory": "4Gi"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "none"}], **spec},
        },
    )


def claims():
    return {c["metadata"]["name"]: c for c in cluster.get(f"{KARPENTER}/nodeclaims")["items"]}


def nodes():
    """The provider's nodes: {name: node}"""
    items = cluster.get("/api/v1/nodes?labelSelector=karpenter.sh/nodepool")["items"]
    return {n["metadata"]["name"]: n for n in items}


def nominated(name):
    """The NodeClaim on which Karpenter expects the pod."""
    said = [e["message"] for e in rig.events(name, "Nominated")]
    return said[-1].split("nodeclaim/")[1].split(",")[0] if said and "nodeclaim/" in said[-1] else None


def is_initialized(claim):
    conditions = claims()[claim].get("status", {}).get("conditions", [])
    return any(c["type"] == "Initialized" and c["status"] == "True" for c in conditions)


def the_node():
    return wait_for(lambda: len(nodes()) == 1 and list(nodes())[0], "Karpenter adds one node", 120)


def kubelet_is_ready(name, **resources):
    """The kubelet has registered, before divvyd runs: the node has none of divvy's resources."""
    none = {"divvy.gpu/slot": None, "divvy.gpu/milli": None, "divvy.gpu/memory-mib": None}
    machine = {"cpu": "8", "memory": "16Gi", "pods": "110", **none, **resources}
    ready = {"type": "Ready", "status": "True", "reason": "MadeUp", "message": "has no kubelet"}
    status = {"capacity": machine, "allocatable": machine, "conditions": [ready], "phase": "Running"}
    cluster.patch(f"/api/v1/nodes/{name}/status", {"status": status}, "strategic")
    wait_for(lambda: takes_off(name, "node.kubernetes.io/not-ready"), "the node is ready", 60)


def takes_off(name, key):
    """As the node lifecycle controller, which is off here. Karpenter changes the list of taints at the same time."""
    node = cluster.get(f"/api/v1/nodes/{name}")
    rest = [t for t in node["spec"].get("taints") or [] if t["key"] != key]
    try:
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        cluster.patch(f"/api/v1/nodes/{name}", {"metadata": version, "spec": {"taints": rest}})
    except ApiError as error:
        if error.code != 409:
            raise
        return False
    return True


def divvyd_is_on(name):
    """The DaemonSet controller has made divvyd's pod for the node."""

    def is_there():
        pods = cluster.get(OWN_PODS)["items"]
        return any(p["spec"].get("nodeName") == name and "divvyd" in p["metadata"]["name"] for p in pods)

    wait_for(is_there, f"divvyd's pod is on {name}", 60)


def node_leaves(name):
    """Karpenter removes the node: by then its pods have ended, as nothing else would delete them."""
    wait_for(lambda: name not in nodes() and not claims(), f"Karpenter removes node {name}", 120)
    rig.nodes.pop(name, None)


# ---- the tests


def shares_of_one_gpu_add_one_node():
    """From none. While the node starts, Karpenter adds no other; in the end divvy-scheduler places all pods there."""
    names = ["f1", "f2", "f3"]
    for name in names:
        share(name)
    for name in names:
        rig.waits(name, "")
    node_pool("shares", "divvy", "one-gpu")
    node = the_node()
    claim = wait_for(lambda: nominated("f1"), "Karpenter says where the pod should run", 60)
    kubelet_is_ready(node)
    # Karpenter looks at all pods that wait, also at this one, which no GPU concerns.
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    cluster.create(rig.path(), {"metadata": {"name": "plain"}, "spec": {"containers": containers}})
    wait_for(lambda: nominated("plain") == claim, "Karpenter expects a further pod on the node that starts", 120)
    assert list(claims()) == [claim] and not is_initialized(claim), claims()
    rig.has_slots(node)
    rig.divvyd_serves(node)
    assert {rig.bound(name)["spec"]["nodeName"] for name in (*names, "plain")} == {node}
    wait_for(lambda: is_initialized(claim), "Karpenter sees that the node has started", 60)
    assert TAINT not in [t["key"] for t in nodes()[node]["spec"].get("taints") or []]
    assert list(claims()) == [claim], claims()
    rig.gone("plain")


def an_empty_node_is_removed():
    """A pod that no longer fits adds another node. The first node is removed with its last tenant, although divvyd runs there."""
    (first,) = nodes()
    divvyd_is_on(first)
    share("f4", request="0.5")
    rig.waits("f4", "")
    second = wait_for(lambda: next((n for n in nodes() if n != first), None), "Karpenter adds a second node", 120)
    kubelet_is_ready(second)
    rig.has_slots(second)
    rig.divvyd_serves(second)
    assert rig.bound("f4")["spec"]["nodeName"] == second
    rig.gone("f1", "f2", "f3")
    wait_for(lambda: list(nodes()) == [second] and len(claims()) == 1, "Karpenter removes the empty node", 180)
    rig.nodes.pop(first)
    rig.gone("f4")
    node_leaves(second)


def a_template_without_the_resources_adds_no_node():
    """Without the overlay no instance type has divvy's resources."""
    cluster.delete("/apis/karpenter.sh/v1alpha1/nodeoverlays/divvy")
    share("none")
    wait_for(lambda: rig.events("none", "FailedScheduling"), "Karpenter says why it adds no node", 120)
    assert not claims()
    overlay()
    node = the_node()
    rig.gone("none")
    kubelet_is_ready(node)
    rig.has_slots(node)
    rig.divvyd_serves(node)
    node_leaves(node)


def a_reserved_device_keeps_no_node():
    """A placeholder holds the device of a node of the pool, and Karpenter removes the node when no tenant is left."""
    cluster.delete(f"{KARPENTER}/nodepools/shares")
    node_pool("pool", "pool", "one-gpu-pool")
    share("p1")
    node = the_node()
    kubelet_is_ready(node, **{"nvidia.com/gpu": "1"})
    rig.has_slots(node)
    rig.divvyd_serves(node, owner="pool")
    cluster.patch(f"{GPU}/gpunodes/{node}", {"spec": {"pool": {"policy": "reservation", "reserve": 1}}})

    def holder():
        pods = cluster.get(OWN_PODS + "?labelSelector=app.kubernetes.io/name=divvy-placeholder")["items"]
        return next((p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == node), None)

    name = wait_for(holder, "a placeholder is on the node", 120)
    ready = [{"type": "Ready", "status": "True"}]
    cluster.patch(f"{OWN_PODS}/{name}/status", {"status": {"phase": "Running", "conditions": ready}}, "strategic")
    divvyd_is_on(node)
    rig.gone("p1")
    node_leaves(node)


try:
    if own_minor() < 30:
        raise Skip("Karpenter needs Kubernetes 1.30 or later; set DIVVY_K8S=newest")
    built("with-karpenter")
    with open_cluster("kcm", "sched", own="Karpenter would add made-up nodes for all pending pods") as cluster:
        with installed(cluster, args=["--placeholder-image=none"]), Scheduled(cluster) as rig:
            cluster.kubectl("apply", "-f", os.path.join(SOURCE, "deploy/startup-taint.yaml"))
            start_karpenter()
            cluster.create(
                "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
                {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "any"}},
            )
            overlay()
            for name in ("divvy-controller", "divvy-scheduler"):  # they run beside the cluster
                cluster.patch(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{name}", {"spec": {"replicas": 0}})
            rig.start()
            main(
                shares_of_one_gpu_add_one_node,
                an_empty_node_is_removed,
                a_template_without_the_resources_adds_no_node,
                a_reserved_device_keeps_no_node,
            )
except Skip as reason:
    skip_all(reason)
