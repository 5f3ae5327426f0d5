#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy-controller on a real API server: the webhook through the shipped manifests, SharePods, nodes."""

import base64
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import injector  # noqa: E402
from cluster import ApiError, Skip, alive, main, open_cluster, patience, skip_all, unique, wait_for  # noqa: E402,F401
from controller import SYSTEM, Controller, installed  # noqa: E402

G = "/apis/divvy.gpu/v1"
MATCH_CONDITIONS = 28  # API servers since this minor version ask the webhook only about pods with a share


def refused(call, *args, says, **kw):
    try:
        call(*args, **kw)
    except ApiError as error:
        assert says in str(error), f"{says!r} is not in: {error}"
        return str(error)
    raise AssertionError(f"not refused: {says}")


def pods(namespace=None):
    return f"/api/v1/namespaces/{namespace or cluster.namespace}/pods"


def pod(name, annotations=None, limits=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": "none", "resources": {"limits": limits or {}}}], **spec},
    }


def annotations_of(obj):
    return {k: v for k, v in obj["metadata"].get("annotations", {}).items() if "divvy.gpu/" in k}


def resources_of(obj, container=0):
    return obj["spec"]["containers"][container]["resources"]


def kubectl_apply(obj):
    """kubectl's exit status and the text that a user reads."""
    path = os.path.join(cluster.dir, "apply.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(obj, f)
    done = subprocess.run(
        [cluster.kubectl_path, "--kubeconfig", cluster.kubeconfig, "apply", "-n", cluster.namespace, "-f", path],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def editor():
    """An account with the rights of a namespace's users."""
    name = unique("edit")
    cluster.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{cluster.namespace}/rolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}],
        },
    )
    who = cluster.service_account(cluster.namespace, name)
    wait_for(lambda: who.may("create", "pods", namespace=cluster.namespace), "the editor may write pods")
    wait_for(
        lambda: who.may("create", "sharepods", group="divvy.gpu", namespace=cluster.namespace), "... and SharePods"
    )
    return who


# ---- the webhook


def a_pods_share_is_translated():
    got = cluster.create(pods(), pod("share", {"divvy.gpu/request": "0.3", "divvy.gpu/memory": "4Gi"}, {"cpu": "1"}))
    assert got["metadata"]["labels"]["divvy.gpu/tenant"] == "true", got["metadata"]
    assert got["spec"]["schedulerName"] == "divvy-scheduler"
    want = {"divvy.gpu/slot": "1", "divvy.gpu/milli": "300", "divvy.gpu/memory-mib": "4096"}
    assert resources_of(got)["limits"] == {"cpu": "1", **want}, resources_of(got)
    assert {k: v for k, v in resources_of(got)["requests"].items() if "divvy" in k} == want
    plain = cluster.create(pods(), pod("plain"))
    assert plain["spec"]["schedulerName"] == "default-scheduler" and "labels" not in plain["metadata"]


def a_translated_pod_may_be_created_again():
    """Controllers and people create a pod again from `kubectl get -o yaml`."""
    got = cluster.pod("share")
    again = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": got["spec"],
        "metadata": {
            "name": "share2",
            "labels": got["metadata"]["labels"],
            "annotations": got["metadata"]["annotations"],
        },
    }
    made = cluster.create(pods(), again)
    assert resources_of(made) == resources_of(got)


def kubectl_shows_the_webhooks_message():
    code, text = kubectl_apply(pod("bad", {"divvy.gpu/request": "1.5"}))
    assert code and "above 1, expected a whole number" in text, text
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"divvy.gpu/reqest": "0.5"}},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    selector = {"matchLabels": {"a": "b"}}
    for kind, version, spec in (
        ("Deployment", "apps/v1", {"selector": selector, "template": template}),
        ("StatefulSet", "apps/v1", {"selector": selector, "serviceName": "s", "template": template}),
        ("DaemonSet", "apps/v1", {"selector": selector, "template": template}),
        ("ReplicaSet", "apps/v1", {"selector": selector, "template": template}),
        ("Job", "batch/v1", {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}}),
        (
            "CronJob",
            cluster.api_version("CronJob"),
            {
                "schedule": "0 0 1 1 *",
                "jobTemplate": {
                    "spec": {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}}
                },
            },
        ),
    ):
        code, text = kubectl_apply({"apiVersion": version, "kind": kind, "metadata": {"name": "bad"}, "spec": spec})
        assert code and "did you mean request?" in text, f"{kind}: {text}"


def a_deployments_pods_are_translated():
    ns = cluster.new_namespace()
    cluster.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"annotations": {"divvy.gpu/dialects": "hami,nvidia"}}})
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}},
                }
            ]
        },
    }

    def made():
        return cluster.get(pods(ns))["items"]

    # API servers learn of the namespace's change later. A pod created meanwhile may be refused, as nothing translated it.
    def known():
        with contextlib.suppress(ApiError):
            got = cluster.create(pods(ns) + "?dryRun=All", {**pod("try"), "spec": template["spec"]})
            return "divvy.gpu/tenant" in got["metadata"].get("labels", {})
        return False

    wait_for(known, "the dialects are known")
    cluster.create(
        f"/apis/apps/v1/namespaces/{ns}/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        },
    )
    wait_for(made, "the deployment has made a pod")
    got = made()[0]
    assert annotations_of(got) == {
        "divvy.gpu/dialects": "hami,nvidia",
        "divvy.gpu/translated-from": "main/nvidia.com/gpu=1,main/nvidia.com/gpumem=3000",
    }
    assert set(resources_of(got)["limits"]) == {"divvy.gpu/slot", "divvy.gpu/milli", "divvy.gpu/memory-mib"}
    assert resources_of(got)["limits"]["divvy.gpu/memory-mib"] == "3k"
    assert got["spec"]["schedulerName"] == "divvy-scheduler"
    wait_for(lambda: event_of(got, "Translated"), "an Event says that it was translated")


def event_of(obj, reason):
    items = cluster.get(f"/api/v1/namespaces/{obj['metadata']['namespace']}/events")["items"]
    found = [e for e in items if e["reason"] == reason and e["involvedObject"]["name"] == obj["metadata"]["name"]]
    return found and found[0]


def only_the_scheduler_writes_assigned_keys():
    user = editor()
    given = {"divvy.gpu/devices": "main=GPU-1", "divvy.gpu/granted-limit": "main=1"}
    refused(user.create, pods(), pod("thief", {"divvy.gpu/request": "0.3", **given}), says="only divvy's scheduler")
    refused(user.create, pods(), pod("thief", {"divvy.gpu/request": "0.3"}, nodeName="n1"), says="spec.nodeName")
    refused(
        user.create,
        pods(),
        pod("thief", {"divvy.gpu/request": "0.3", "divvy.gpu/dialects": "nvidia"}),
        says="divvy writes it",
    )
    refused(user.create, pods(), pod("thief", limits={"divvy.gpu/slot": "1"}), says="divvy writes it")
    user.create(pods(), pod("honest", {"divvy.gpu/request": "0.3"}))
    mine = pods() + "/honest"
    refused(user.patch, mine, {"metadata": {"annotations": given}}, says="only divvy's scheduler")
    refused(user.patch, mine, {"metadata": {"labels": {"divvy.gpu/tenant": None}}}, says="divvy.gpu/tenant")
    refused(user.patch, mine, {"metadata": {"annotations": {"divvy.gpu/limit": "0.1"}}}, says="limit")
    user.patch(mine, {"metadata": {"annotations": {"divvy.gpu/limit": "0.6"}}})
    refused(user.patch, mine + "/status", {"metadata": {"annotations": given}}, says="403")
    # An administrator may write the status, and still must not write these annotations. The webhook
    # checks the account, not the path.
    refused(cluster.patch, mine + "/status", {"metadata": {"annotations": given}}, says="only divvy's scheduler")
    scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
    scheduler.patch(mine + "/status", {"metadata": {"annotations": given}}, "strategic")
    assert annotations_of(cluster.get(mine))["divvy.gpu/devices"] == "main=GPU-1"
    refused(user.patch, mine, {"metadata": {"annotations": {"divvy.gpu/devices": None}}}, says="only divvy's scheduler")


def a_bound_pod_keeps_its_place():
    node = unique("node")
    cluster.fake_node(node, **{"divvy.gpu/slot": "64", "divvy.gpu/milli": "1000"})
    cluster.create(pods(), pod("bound", {"divvy.gpu/request": "0.3"}))
    scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
    scheduler.create(
        pods() + "/bound/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "bound", "annotations": {"divvy.gpu/devices": "main=GPU-1", "divvy.gpu/epoch": "1"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        },
    )
    assert annotations_of(cluster.pod("bound"))["divvy.gpu/epoch"] == "1"
    for key, value in (("count", "2"), ("model", "T4"), ("affinity", "x"), ("mode", "remote")):
        refused(cluster.patch, pods() + "/bound", {"metadata": {"annotations": {"divvy.gpu/" + key: value}}}, says=key)
    cluster.patch(pods() + "/bound", {"metadata": {"annotations": {"divvy.gpu/class": "latency"}}})


def admission_enforces_policies():
    ns = cluster.new_namespace()
    cluster.create(
        G + "/gpupolicies",
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "GPUPolicy",
            "metadata": {"name": "poor"},
            "spec": {"namespaces": [ns], "classes": ["opportunistic"]},
        },
    )

    def held():
        try:
            cluster.create(pods(ns) + "?dryRun=All", pod("p", {"divvy.gpu/request": "0.3"}))
            return False
        except ApiError as error:
            return "class standard" in str(error) and error.code == 403

    wait_for(held, "the policy is known")
    cluster.create(pods(ns), pod("p", {"divvy.gpu/request": "0.3", "divvy.gpu/class": "opportunistic"}))
    cluster.delete(G + "/gpupolicies/poor")


def daemon_of(node):
    """The account of a divvyd on the node: its token names a pod, and the pod names the node."""
    daemon = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": unique("divvyd")},
        "spec": {
            "serviceAccountName": "divvyd",
            "nodeName": node,
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "none"}],
        },
    }
    made = cluster.create(pods(SYSTEM), daemon)
    answer = cluster.create(
        f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/divvyd/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": 3607,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": made["metadata"]["name"],
                    "uid": made["metadata"]["uid"],
                },
            },
        },
    )
    return cluster.account(unique("divvyd"), token=answer["status"]["token"], namespace=SYSTEM)


def a_daemon_writes_only_its_own_node():
    node, other = unique("node"), unique("node")
    for name in (node, other):
        cluster.create(G + "/gpunodes", {"apiVersion": "divvy.gpu/v1", "kind": "GPUNode", "metadata": {"name": name}})
    plain = cluster.service_account(SYSTEM, "divvyd")
    refused(plain.patch, f"{G}/gpunodes/{node}/status", {"status": {"epoch": 1}}, says="names no pod")
    who = daemon_of(node)
    who.patch(f"{G}/gpunodes/{node}/status", {"status": {"epoch": 1}})
    refused(who.patch, f"{G}/gpunodes/{other}/status", {"status": {"epoch": 1}}, says="of that node only")
    leases = "/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "x"}}
    who.create(leases, {**lease, "metadata": {"name": node}})
    refused(who.create, leases, {**lease, "metadata": {"name": other}}, says="of that node only")


# ---- SharePods


def share_pods():
    return f"{G}/namespaces/{cluster.namespace}/sharepods"


def share_pod(name, **spec):
    return {
        "apiVersion": "divvy.gpu/v1",
        "kind": "SharePod",
        "metadata": {"name": name},
        "spec": {
            "request": 0.3,
            "limit": 0.6,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "none"}]},
            },
            **spec,
        },
    }


def status_of(name):
    return cluster.get(f"{share_pods()}/{name}").get("status") or {}


def condition(status, kind):
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


def its_pods(name):
    return [
        p
        for p in cluster.get(pods())["items"]
        if any(o["kind"] == "SharePod" and o["name"] == name for o in p["metadata"].get("ownerReferences", []))
    ]


def exists(name):
    return cluster.exists(f"{pods()}/{name}")


def a_share_pod_becomes_a_pod():
    code, text = kubectl_apply(share_pod("s1"))
    assert code == 0, text
    wait_for(lambda: exists("s1"), "its pod is there", 30)
    got = cluster.pod("s1")
    assert annotations_of(got) == {"divvy.gpu/request": "0.3", "divvy.gpu/limit": "0.6"}, annotations_of(got)
    assert got["metadata"]["labels"] == {"app": "s1", "divvy.gpu/tenant": "true"}
    assert got["metadata"]["ownerReferences"][0]["controller"] is True
    wait_for(lambda: status_of("s1").get("podUID") == got["metadata"]["uid"], "its status names the pod", 30)
    status = status_of("s1")
    assert status["phase"] == "Pending" and status["requested"] == "0.3-0.6", status
    assert (
        condition(status, "Accepted")["status"] == "True" and condition(status, "PodCreated")["status"] == "True"
    ), status


def the_status_shows_the_nodes_grant():
    node, uid = unique("node"), cluster.pod("s1")["metadata"]["uid"]
    cluster.fake_node(node, labels={"divvy.gpu/owner": "divvy"}, **{"divvy.gpu/slot": "64"})
    wait_for(lambda: cluster.exists(f"{G}/gpunodes/{node}"), "the node has its GPUNode", 30)
    assert cluster.get(f"{G}/gpunodes/{node}")["metadata"]["ownerReferences"][0]["kind"] == "Node"
    cluster.patch(
        f"{G}/gpunodes/{node}/status",
        {
            "status": {
                "devices": [
                    {"uuid": "GPU-1", "index": 0, "model": "T4", "memoryBytes": 16 << 30, "health": "Healthy"},
                    {"uuid": "GPU-2", "index": 1, "model": "T4", "memoryBytes": 16 << 30, "health": "Unhealthy"},
                ]
            }
        },
    )

    def capacity():
        got = cluster.get(f"/api/v1/nodes/{node}")["status"]
        return got["capacity"].get("divvy.gpu/milli") == "1k" and got["allocatable"].get("divvy.gpu/memory-mib") == str(
            16 << 10
        )

    wait_for(capacity, "the node has its capacity", 30)
    scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
    scheduler.create(
        pods() + "/s1/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "s1", "annotations": {"divvy.gpu/devices": "main=GPU-1"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        },
    )
    cluster.patch(
        f"{G}/gpunodes/{node}/status",
        {
            "status": {
                "tenants": [
                    {
                        "podUID": uid,
                        "namespace": cluster.namespace,
                        "pod": "s1",
                        "container": "main",
                        "slot": "0",
                        "devices": ["GPU-1"],
                        "request": 300,
                        "limit": 600,
                        "memoryBytes": [4 << 30],
                        "epoch": 1,
                    }
                ]
            }
        },
    )
    cluster.patch(pods() + "/s1/status", {"status": {"phase": "Running"}})

    def shown():
        status = status_of("s1")
        return (
            status.get("phase") == "Running"
            and status.get("device") == "GPU-1"
            and status.get("granted", {}).get("share") == "0.3-0.6"
            and condition(status, "Granted").get("status") == "True"
        )

    wait_for(shown, "the SharePod shows its share", 30)
    assert status_of("s1")["granted"]["memory"] == "4Gi" and status_of("s1")["nodeName"] == node
    table = cluster.kubectl("get", "dsp", "-n", cluster.namespace, "--cache-dir", os.path.join(cluster.dir, "fresh"))
    assert all(word in table for word in ("GPU-1", "0.3-0.6", "4Gi", "Running")), table


def a_node_without_divvys_label_has_no_capacity():
    node = unique("node")
    cluster.fake_node(node, labels={"divvy.gpu/owner": "divvy"}, **{"divvy.gpu/slot": "64"})
    wait_for(lambda: cluster.exists(f"{G}/gpunodes/{node}"), "the node has its GPUNode", 30)
    cluster.patch(
        f"{G}/gpunodes/{node}/status",
        {
            "status": {
                "devices": [{"uuid": "GPU-3", "index": 0, "model": "T4", "memoryBytes": 16 << 30, "health": "Healthy"}]
            }
        },
    )

    def milli():
        status = cluster.get(f"/api/v1/nodes/{node}")["status"]
        return [status[key].get("divvy.gpu/milli") for key in ("capacity", "allocatable")]

    wait_for(lambda: milli() == ["1k", "1k"], "the node has its capacity", 30)
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"divvy.gpu/owner": None}}})
    wait_for(lambda: milli() == [None, None], "the node has no capacity any more", 30)


def devices_of_another_plugin_count_in_a_pool():
    """Devices of a pool's node count, whether divvy has taken them or not."""
    node, gib = unique("node"), 1 << 30
    cluster.fake_node(node, labels={"divvy.gpu/owner": "pool"}, **{"divvy.gpu/slot": "64"})
    wait_for(lambda: cluster.exists(f"{G}/gpunodes/{node}"), "the node has its GPUNode", 30)

    def say(owner, *owners):
        cluster.patch(
            f"{G}/gpunodes/{node}/status",
            {
                "status": {
                    "owner": owner,
                    "devices": [
                        {
                            "uuid": f"GPU-{node}-{i}",
                            "index": i,
                            "model": "T4",
                            "memoryBytes": 16 * gib,
                            "health": "Healthy",
                            "owner": o,
                        }
                        for i, o in enumerate(owners)
                    ],
                }
            },
        )

    def have():
        status = cluster.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]
        return status.get("divvy.gpu/milli"), status.get("divvy.gpu/held")

    say("pool", "native", "native")
    wait_for(lambda: have() == ("2k", "0"), "both devices count", 30)
    say("pool", "native", "pool")
    wait_for(lambda: have() == ("2k", "1"), "both devices count, and one is taken", 30)
    say("none", "native", "native")
    wait_for(lambda: have() == ("0", None), "a node outside the pool has no capacity", 30)


def told(name, reason, space="default"):
    return [
        e["message"]
        for e in cluster.get(f"/api/v1/namespaces/{space}/events")["items"]
        if e["involvedObject"]["name"] == name and e["reason"] == reason
    ]


def an_event_reports_a_label_that_contradicts_the_spec():
    node = unique("node")
    cluster.fake_node(node, labels={"divvy.gpu/owner": "pool"}, **{"divvy.gpu/slot": "64"})
    wait_for(lambda: cluster.exists(f"{G}/gpunodes/{node}"), "the node has its GPUNode", 30)
    assert not told(node, "PoolMismatch")
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"divvy.gpu/owner": "divvy"}}})
    wait_for(lambda: any("label to pool" in text for text in told(node, "PoolMismatch")), "an Event says so", 30)
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"divvy.gpu/owner": "pool"}}})
    cluster.patch(f"{G}/gpunodes/{node}", {"spec": {"pool": None}})
    wait_for(
        lambda: any("set spec.pool.policy" in text for text in told(node, "PoolMismatch")),
        "an Event reports the pool's label without spec.pool",
        30,
    )
    cluster.delete(f"/api/v1/nodes/{node}")


def an_event_reports_an_unknown_owner_label():
    node = unique("node")
    cluster.fake_node(node, labels={"divvy.gpu/owner": "pol"}, **{"divvy.gpu/slot": "64"})
    wait_for(lambda: any("owner=pol is unknown" in text for text in told(node, "OwnerUnknown")), "an Event says so", 30)
    assert not cluster.exists(f"{G}/gpunodes/{node}")
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"divvy.gpu/owner": "pool"}}})
    wait_for(lambda: cluster.exists(f"{G}/gpunodes/{node}"), "with the right label the node has its GPUNode", 30)
    cluster.delete(f"/api/v1/nodes/{node}")


def a_waiting_pod_learns_of_a_refused_placeholder():
    node, quotas = unique("node"), f"/api/v1/namespaces/{SYSTEM}/resourcequotas"
    cluster.fake_node(node, labels={"divvy.gpu/owner": "pool"}, **{"divvy.gpu/slot": "64"})
    wait_for(lambda: cluster.exists(f"{G}/gpunodes/{node}"), "the node has its GPUNode", 30)
    cluster.create(pods(), pod("waits", {"divvy.gpu/request": "0.5"}))
    cluster.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})

    def bounds():
        try:
            cluster.create(pods(SYSTEM) + "?dryRun=All", pod("probe"))
        except ApiError as error:
            return "quota" in str(error)
        return False

    try:
        wait_for(bounds, "the quota is known")
        cluster.patch(
            pods() + "/waits/status",
            {
                "status": {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/1 nodes: 1 with GPUs still owned by another device plugin",
                        },
                        {"type": "divvy.gpu/NeedsDevice", "status": "True", "reason": "NoDeviceFits"},
                    ]
                }
            },
        )
        wait_for(
            lambda: any("quota" in text for text in told("waits", "PlaceholderRefused", cluster.namespace)),
            "an Event says that the quota refuses the placeholder",
            60,
        )
    finally:
        cluster.delete(pods() + "/waits", grace_s=0)
        cluster.delete(f"{quotas}/none")
        cluster.delete(f"/api/v1/nodes/{node}")


def the_status_shows_the_nodes_measurements():
    """The Lease of the node's daemon gives the figures; the controller does not write small changes."""
    status = status_of("s1")
    leases = "/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases"
    key = f"{status['podUID']}/main"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": status["nodeName"], "annotations": {"divvy.gpu/measured": f"{key}=312:1024"}},
        "spec": {"holderIdentity": "x"},
    }
    who = daemon_of(status["nodeName"])
    who.create(leases, lease)
    wait_for(lambda: status_of("s1").get("used") == "0.312", "the SharePod shows the measured share", 60)
    table = cluster.kubectl("get", "dsp", "-n", cluster.namespace, "--cache-dir", os.path.join(cluster.dir, "fresh"))
    assert "0.312" in table, table
    version = cluster.get(share_pods() + "/s1")["metadata"]["resourceVersion"]
    for measured in (315, 308, 450):
        who.patch(
            f"{leases}/{status['nodeName']}",
            {"metadata": {"annotations": {"divvy.gpu/measured": f"{key}={measured}:1024"}}},
        )
    seen = []
    with cluster.watch(
        share_pods(), timeout=patience(), resourceVersion=version, fieldSelector="metadata.name=s1"
    ) as events:
        while not seen or seen[-1] != "0.45":
            event = next(events)
            if event["type"] == "MODIFIED":
                seen.append(event["object"]["status"]["used"])
    assert set(seen) <= {"0.312", "0.45"}, seen


def a_change_reaches_the_running_pod():
    before = cluster.pod("s1")["metadata"]["uid"]
    cluster.patch(share_pods() + "/s1", {"spec": {"limit": "0.8"}})
    wait_for(lambda: annotations_of(cluster.pod("s1")).get("divvy.gpu/limit") == "0.8", "the pod has the new limit", 30)
    assert cluster.pod("s1")["metadata"]["uid"] == before
    cluster.patch(share_pods() + "/s1", {"spec": {"count": 2}})
    wait_for(
        lambda: condition(status_of("s1"), "Granted").get("reason") == "ResizeRejected",
        "the SharePod reports the rejected change",
        30,
    )
    assert "count" in condition(status_of("s1"), "Granted")["message"], status_of("s1")
    cluster.patch(share_pods() + "/s1", {"spec": {"count": None}})
    wait_for(
        lambda: condition(status_of("s1"), "Granted").get("reason") == "Granted",
        "the SharePod reports its grant again",
        30,
    )


def bad_share_pods_are_refused_with_a_message():
    spec = share_pod("s2", limit=0.2)
    code, text = kubectl_apply(spec)
    assert code and "limit" in text, text
    bad = share_pod("s2")
    bad["spec"]["template"]["metadata"]["annotations"] = {"divvy.gpu/request": "0.9"}
    code, text = kubectl_apply(bad)
    assert code and "the spec says '0.3'" in text, text


def a_refused_change_shows_only_the_reason():
    """The SharePod's own webhook would refuse the change, so another webhook refuses the pod's change."""
    server = injector.Server(
        controller.address, cluster.pki.sign("denies", "denies", alternatives=f"IP:{controller.address}"), lambda _: []
    )
    server.denial = "limits change on Mondays"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(cluster.pki.ca, "rb") as f:
        authority = base64.b64encode(f.read()).decode()
    configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    cluster.create(
        configurations,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "denies"},
            "webhooks": [
                {
                    "name": "denies.example.com",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "objectSelector": {"matchLabels": {"app": "s1"}},
                    "clientConfig": {
                        "url": f"https://{controller.address}:{server.server_port}/",
                        "caBundle": authority,
                    },
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
                    ],
                }
            ],
        },
    )

    def denied():
        try:
            cluster.patch(pods() + "/s1?dryRun=All", {"metadata": {"annotations": {"a": "b"}}})
        except ApiError:
            return True
        return False

    try:
        wait_for(denied, "the webhook is asked")
        cluster.patch(share_pods() + "/s1", {"spec": {"limit": "0.9"}})
        wait_for(
            lambda: condition(status_of("s1"), "Granted").get("reason") == "ResizeRejected",
            "the SharePod reports the rejected change",
        )
        assert condition(status_of("s1"), "Granted")["message"] == "limits change on Mondays", status_of("s1")
    finally:
        cluster.delete(f"{configurations}/denies")
        server.shutdown()
        server.server_close()
    cluster.patch(share_pods() + "/s1", {"spec": {"limit": "0.8"}})
    wait_for(
        lambda: condition(status_of("s1"), "Granted").get("status") == "True", "the SharePod reports its grant again"
    )


def a_share_pod_leaves_another_pod_of_its_name_alone():
    cluster.create(pods(), pod("s3"))
    uid = cluster.pod("s3")["metadata"]["uid"]
    cluster.create(share_pods(), share_pod("s3"))
    wait_for(lambda: its_pods("s3"), "its pod has another name", 30)
    assert [p["metadata"]["name"][:3] for p in its_pods("s3")] == ["s3-"]
    assert cluster.pod("s3")["metadata"]["uid"] == uid


def a_restarted_controller_makes_no_second_pod():
    controller.kill()
    cluster.kill_uid = cluster.pod("s1")["metadata"]["uid"]
    refused(cluster.create, pods(), pod("late", {"divvy.gpu/request": "0.3"}), says="pods.mutate.divvy.gpu")
    if cluster.minor >= MATCH_CONDITIONS:
        cluster.create(pods() + "?dryRun=All", pod("without-share"))
    else:
        refused(cluster.create, pods(), pod("without-share"), says="pods.mutate.divvy.gpu")
    # The system's pods and divvy's own do not need the webhook.
    cluster.create(pods("kube-system") + "?dryRun=All", pod("system"))
    cluster.create(pods(SYSTEM) + "?dryRun=All", pod("own"))
    cluster.patch(pods() + "/s1/status", {"status": {"message": "alive"}})
    controller.start()
    cluster.create(share_pods(), share_pod("s4"))
    wait_for(lambda: exists("s4"), "the restarted controller creates the pod of s4", 60)
    assert len(its_pods("s1")) == 1 and cluster.pod("s1")["metadata"]["uid"] == cluster.kill_uid
    assert len(its_pods("s3")) == 1 and len(its_pods("s4")) == 1


def created(path, body):
    """Repeats a creation: API servers keep a connection to a silent webhook until a request on it has timed out."""

    def so():
        try:
            return bool(cluster.create_once(path, body)) or True
        except ApiError as error:
            assert "failed calling webhook" in str(error), error
            return False

    wait_for(so, "the webhook answers", 90)


def a_second_controller_takes_over():
    """Both answer the webhook, one reconciles; the second continues where the first was killed or stopped."""
    second = Controller(cluster, "divvy-controller-2")
    second.start()
    second.serve_here(controller)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/divvy-controller"
    assert cluster.get(lease)["spec"]["holderIdentity"] == "divvy-controller"
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for name in ("s1", "s3") for p in its_pods(name)}
    cluster.freeze("divvy-controller")
    second.serve_here()
    created(share_pods(), share_pod("s6"))
    wait_for(lambda: exists("s6"), "the second has taken over", 90)
    assert cluster.get(lease)["spec"]["holderIdentity"] == "divvy-controller-2"
    # The first controller continues, and sees that another one leads.
    cluster.thaw("divvy-controller")
    wait_for(controller.ready, "the first is back", 60)
    controller.serve_here(second)
    cluster.send_signal("divvy-controller-2", signal.SIGTERM)
    controller.serve_here()
    created(share_pods(), share_pod("s7"))
    wait_for(lambda: exists("s7"), "the first has taken over again", 60)
    wait_for(lambda: not cluster.pid("divvy-controller-2"), "the second controller has exited after SIGTERM", 30)
    assert len(its_pods("s6")) == 1 and len(its_pods("s7")) == 1
    assert before == {p["metadata"]["name"]: p["metadata"]["uid"] for name in ("s1", "s3") for p in its_pods(name)}


def a_share_pod_is_deleted_with_its_pod_and_made_again():
    cluster.delete(share_pods() + "/s4")
    wait_for(lambda: not exists("s4"), "its pod is gone", 60)
    cluster.create(share_pods(), share_pod("s5"))
    wait_for(lambda: exists("s5"), "its pod is there", 30)
    uid = cluster.pod("s5")["metadata"]["uid"]
    cluster.delete(pods() + "/s5", grace_s=0)
    wait_for(lambda: exists("s5") and cluster.pod("s5")["metadata"]["uid"] != uid, "a lost pod is made again", 30)


def fail(path, name, reason="UnexpectedAdmissionError"):
    """Writes the pod's status as a kubelet does that rejects the pod after the restart of its node."""
    cluster.patch(
        f"{path}/{name}/status",
        {
            "status": {
                "phase": "Failed",
                "reason": reason,
                "message": "Pod was rejected: Allocate failed due to no healthy devices present",
            }
        },
    )


def replaced(path, name, uid):
    """The next pod of that name, when it is there."""

    def there():
        # One read of all pods: between two reads of this pod the controller may delete it.
        uids = [p["metadata"]["uid"] for p in cluster.get(path)["items"] if p["metadata"]["name"] == name]
        return uids and uids != [uid]

    wait_for(there, "another pod has followed", 60)
    return cluster.get(f"{path}/{name}")


def another_pod_follows_one_that_its_node_has_ended():
    cluster.create(share_pods(), share_pod("s8"))
    wait_for(lambda: exists("s8"), "its pod is there", 30)
    first = cluster.pod("s8")
    assert "divvy.gpu/replaced-pods" not in annotations_of(first), first
    fail(pods(), "s8")
    second = replaced(pods(), "s8", first["metadata"]["uid"])
    assert annotations_of(second)["divvy.gpu/replaced-pods"] == "1", second
    wait_for(
        lambda: any(
            "UnexpectedAdmissionError: Pod was rejected" in text
            for text in told("s8", "PodReplaced", cluster.namespace)
        ),
        "an Event says why",
        30,
    )
    # A pod that fails at once has no successor for 20 s.
    fail(pods(), "s8")
    wait_for(
        lambda: condition(status_of("s8"), "PodCreated").get("reason") == "BackOff",
        "the status says that another pod will follow",
        30,
    )
    assert status_of("s8")["phase"] == "Pending", status_of("s8")
    third = replaced(pods(), "s8", second["metadata"]["uid"])
    assert annotations_of(third)["divvy.gpu/replaced-pods"] == "2", third
    wait_for(lambda: status_of("s8").get("podUID") == third["metadata"]["uid"], "the status names the new pod", 30)
    assert len(its_pods("s8")) == 1


def another_pod_follows_a_deleted_one_with_a_final_phase():
    """Kubelets since Kubernetes 1.27 write such a phase; a finalizer keeps the pod until the controller has seen it."""
    path, uid = pods() + "/s8", cluster.pod("s8")["metadata"]["uid"]
    cluster.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    cluster.delete(path, grace_s=0)
    cluster.patch(path + "/status", {"status": {"phase": "Succeeded"}})
    wait_for(
        lambda: condition(status_of("s8"), "PodCreated").get("reason") == "Terminating",
        "the status says that the pod is terminating",
        30,
    )
    assert status_of("s8")["phase"] == "Pending", status_of("s8")
    cluster.patch(path, {"metadata": {"finalizers": None}})
    replaced(pods(), "s8", uid)


def no_pod_follows_one_that_runs_once():
    once = share_pod("s9")
    once["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    late = share_pod("s10")
    late["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 60
    for name, body, reason in (("s9", once, "Evicted"), ("s10", late, "DeadlineExceeded")):
        cluster.create(share_pods(), body)
        wait_for(lambda name=name: exists(name), "its pod is there", 30)
        uid = cluster.pod(name)["metadata"]["uid"]
        fail(pods(), name, reason)
        wait_for(lambda name=name: status_of(name).get("phase") == "Failed", "the SharePod has failed", 30)
        assert cluster.pod(name)["metadata"]["uid"] == uid
        cluster.delete(f"{pods()}/{name}", grace_s=0)
    # The controller handles s11 after both deletions.
    cluster.create(share_pods(), share_pod("s11"))
    wait_for(lambda: exists("s11"), "the next SharePod has its pod", 30)
    assert not exists("s9") and not exists("s10")


def a_kubeshare_pod_is_reconciled_in_place():
    ns = cluster.new_namespace()
    cluster.kubectl("create", "-f", os.path.join(os.environ["DIVVY_SOURCE"], "deploy/kubeshare/crd.yaml"))
    path = f"/apis/kubeshare.nthu/v1/namespaces/{ns}/sharepods"
    wait_for(lambda: cluster.exists(path), "KubeShare's SharePods are served", 60)
    body = {
        "apiVersion": "kubeshare.nthu/v1",
        "kind": "SharePod",
        "metadata": {
            "name": "k1",
            "annotations": {
                "kubeshare/gpu_request": "0.5",
                "kubeshare/gpu_limit": "1.0",
                "kubeshare/gpu_mem": "1073741824",
            },
        },
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    cluster.create(path, body)

    def told_off(name):
        return [
            e["message"]
            for e in cluster.get(f"/api/v1/namespaces/{ns}/events")["items"]
            if e["reason"] == "DialectOff" and e["involvedObject"]["name"] == name
        ]

    wait_for(
        lambda: any("is '', without kubeshare" in text for text in told_off("k1")),
        "an Event says that the namespace does not list kubeshare",
        60,
    )
    # Gemini's users wrote SharePods of the same kind as KubeShare's, with Gemini's annotations.
    cluster.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"annotations": {"divvy.gpu/dialects": "gemini"}}})
    gemini = {
        **body,
        "metadata": {
            "name": "g1",
            "annotations": {"gemini/gpu_request": "0.5", "gemini/gpu_limit": "1.0", "gemini/gpu_mem": "1073741824"},
        },
    }
    cluster.create(path, gemini)
    # divvy ignores a SharePod that KubeShare serves.
    cluster.create(
        path, {**body, "metadata": {**body["metadata"], "name": "theirs"}, "status": {"PodPhase": "Running"}}
    )
    wait_for(
        lambda: any("is 'gemini', without kubeshare" in text for text in told_off("g1")),
        "an Event says that the namespace lists only gemini",
        60,
    )
    assert not told_off("theirs"), told_off("theirs")
    for name in ("g1", "theirs"):
        cluster.delete(f"{path}/{name}")
    cluster.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"annotations": {"divvy.gpu/dialects": "kubeshare"}}})
    wait_for(lambda: cluster.exists(pods(ns) + "/k1"), "its pod is there", 90)
    got = cluster.get(pods(ns) + "/k1")
    assert resources_of(got)["limits"] == {
        "divvy.gpu/slot": "1",
        "divvy.gpu/milli": "500",
        "divvy.gpu/memory-mib": "1024",
    }, got
    wait_for(
        lambda: (cluster.get(path + "/k1").get("status") or {}).get("PodObjectMeta", {}).get("name") == "k1",
        "its status is filled",
        30,
    )
    assert cluster.get(path + "/k1")["status"]["PodStatus"]["phase"] == "Pending"
    fail(pods(ns), "k1")
    got = replaced(pods(ns), "k1", got["metadata"]["uid"])
    wait_for(
        lambda: cluster.get(path + "/k1")["status"].get("PodObjectMeta", {}).get("uid") == got["metadata"]["uid"],
        "its status is the new pod's",
        30,
    )
    # k2's namespace has no annotation divvy.gpu/dialects, so it lists no dialect, and k2 gets no pod there
    # yet. k3's namespace lists kubeshare.
    later, old = cluster.new_namespace(), {**body, "metadata": {**body["metadata"], "name": "k2"}}
    cluster.create(path.replace(ns, later), old)
    cluster.create(path, {**old, "metadata": {**old["metadata"], "name": "k3"}})
    wait_for(lambda: cluster.exists(pods(ns) + "/k3"), "the controller has created k3's pod, which came after k2", 30)
    assert not cluster.exists(pods(later) + "/k2")
    cluster.patch(f"/api/v1/namespaces/{later}", {"metadata": {"annotations": {"divvy.gpu/dialects": "kubesahre"}}})
    wait_for(
        lambda: event_of(cluster.get(path.replace(ns, later) + "/k2"), "UnknownDialect"),
        "an Event reports the unknown dialect",
        30,
    )
    cluster.patch(f"/api/v1/namespaces/{later}", {"metadata": {"annotations": {"divvy.gpu/dialects": "kubeshare"}}})
    wait_for(
        lambda: cluster.exists(pods(later) + "/k2"),
        "the controller creates k2's pod once the namespace lists kubeshare",
        30,
    )


def an_event_reports_an_untranslated_pod():
    ns = cluster.new_namespace(**{"divvy.gpu/admission": "ignore"})
    wait_for(lambda: passes(ns), "the webhook ignores the namespace")
    got = cluster.create(pods(ns), pod("past", {"divvy.gpu/request": "0.3"}))
    assert "divvy.gpu/tenant" not in got["metadata"].get("labels", {})
    wait_for(lambda: event_of(got, "Untranslated"), "an Event says that the pod was not translated", 30)


def passes(ns):
    with contextlib.suppress(ApiError):  # one webhook knows of the change, the other does not yet
        got = cluster.create(pods(ns) + "?dryRun=All", pod("past", {"divvy.gpu/request": "0.3"}))
        return "divvy.gpu/tenant" not in got["metadata"].get("labels", {})
    return False


# ---- certificates and metrics


def secret():
    data = cluster.get(f"/api/v1/namespaces/{SYSTEM}/secrets/divvy-controller-tls")["data"]
    return {k: base64.b64decode(v).decode() for k, v in data.items()}


def a_lost_certificate_is_made_again():
    old = secret()
    cluster.patch(
        f"/api/v1/namespaces/{SYSTEM}/secrets/divvy-controller-tls", {"data": {"tls.crt": None, "ca.key": None}}
    )
    wait_for(
        lambda: {"tls.crt", "ca.key"} <= set(secret()) and secret()["tls.crt"] != old["tls.crt"],
        "the controller has made a new certificate and key",
        30,
    )
    assert old["ca.crt"] in secret()["ca.crt"], "the old authority is not trusted any more"
    wait_for(controller.ready, "the controller serves with the new certificate", 30)

    def answers():
        with contextlib.suppress(ApiError):  # API servers learn of the authority a moment later
            return cluster.create(pods() + "?dryRun=All", pod("new"))
        return None

    wait_for(answers, "the webhook answers", 30)


def only_authorized_accounts_get_metrics():
    operator = cluster.service_account(
        cluster.namespace, "metrics", cluster_rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    )
    nobody = cluster.service_account(cluster.namespace, "nobody")
    assert controller.get("/healthz") == (200, "ok\n")
    assert controller.get("/metrics")[0] == 401
    assert controller.get("/metrics", token="nonsense")[0] == 401
    assert controller.get("/metrics", token=nobody.token)[0] == 403
    wait_for(lambda: controller.get("/metrics", token=operator.token)[0] == 200, "the operator may read the metrics")
    text = controller.get("/metrics", token=operator.token)[1]
    assert "divvy_controller_leads 1\n" in text and "divvy_controller_ready 1\n" in text, text


def silent_connections_keep_no_pod_out():
    """More connections than the webhook and the page accept, from several addresses, until the server has cut all of them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    def answers():
        with contextlib.suppress(ApiError, OSError):
            return cluster.create(pods() + "?dryRun=All", pod("beside")) and controller.get("/healthz")[0] == 200
        return False

    with contextlib.ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection((controller.address, port), 60, (f"127.0.0.{2 + i % 3}", 0)))
            for port, n in ((controller.port, 600), (controller.page, 90))
            for i in range(n)
        ]
        wait_for(answers, "a pod can be created, and the page answers, while silent connections are open", 60)
        for one in held:
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b"", "the server has sent data to a silent connection"
        wait_for(answers, "a pod can be created, and the page answers, after the last connection was closed", 60)


TESTS = [
    a_pods_share_is_translated,
    a_translated_pod_may_be_created_again,
    kubectl_shows_the_webhooks_message,
    a_deployments_pods_are_translated,
    only_the_scheduler_writes_assigned_keys,
    a_bound_pod_keeps_its_place,
    admission_enforces_policies,
    a_daemon_writes_only_its_own_node,
    a_share_pod_becomes_a_pod,
    the_status_shows_the_nodes_grant,
    a_node_without_divvys_label_has_no_capacity,
    devices_of_another_plugin_count_in_a_pool,
    an_event_reports_a_label_that_contradicts_the_spec,
    an_event_reports_an_unknown_owner_label,
    a_waiting_pod_learns_of_a_refused_placeholder,
    the_status_shows_the_nodes_measurements,
    a_change_reaches_the_running_pod,
    a_refused_change_shows_only_the_reason,
    bad_share_pods_are_refused_with_a_message,
    a_share_pod_leaves_another_pod_of_its_name_alone,
    a_restarted_controller_makes_no_second_pod,
    a_second_controller_takes_over,
    a_share_pod_is_deleted_with_its_pod_and_made_again,
    another_pod_follows_one_that_its_node_has_ended,
    another_pod_follows_a_deleted_one_with_a_final_phase,
    no_pod_follows_one_that_runs_once,
    a_kubeshare_pod_is_reconciled_in_place,
    an_event_reports_an_untranslated_pod,
    a_lost_certificate_is_made_again,
    only_authorized_accounts_get_metrics,
    silent_connections_keep_no_pod_out,
]

try:
    with open_cluster("kcm") as cluster, installed(cluster, args=["--placeholder-image=none"]) as controller:
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
