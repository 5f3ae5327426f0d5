#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy-scheduler on a real API server, with its own account."""

import datetime
import os
import re
import signal
import ssl
import urllib.error
import urllib.request

from cluster import Skip, free_port, main, open_cluster, patience, skip_all, wait_for
from fault_proxy import GateProxy, VersionProxy
from refuser import NAME as REFUSER, REASON, Refuser
from scheduled import Scheduled


PORT = free_port()


def a_share_is_bound():
    rig.node("n1", "A100", "A100")
    rig.pod("share", {"request": "0.3"})
    pod = rig.bound("share")
    assert pod["spec"]["nodeName"] == "n1"
    given = {k: v for k, v in pod["metadata"]["annotations"].items() if k.startswith("divvy.gpu/")}
    device = given.pop("divvy.gpu/devices")
    assert device in ("main=GPU-n1-0", "main=GPU-n1-1"), device
    assert given == {
        "divvy.gpu/request": "0.3",
        "divvy.gpu/granted-request": "main=0.3",
        "divvy.gpu/granted-limit": "main=1",
        "divvy.gpu/granted-memory": f"main={16 * 1024 * 3 // 10 // 2 * 2}Mi",
        "divvy.gpu/granted-memory-policy": "main=fail",
        "divvy.gpu/granted-class": "main=standard",
        "divvy.gpu/granted-priority": "main=50",
        "divvy.gpu/granted-mode": "main=local",
        "divvy.gpu/epoch": "0",
    }, given
    wait_for(lambda: rig.events("share", "Scheduled"), "an Event")


def a_pod_that_fits_nowhere_gets_one_event():
    rig.pod("large", {"request": "0.5", "model": "H100"})
    rig.waits("large", "0/1 nodes: 1 with another model than H100; the cluster has model A100")
    assert rig.condition("large")["reason"] == "Unschedulable"
    needs = rig.condition("large", "divvy.gpu/NeedsDevice")
    assert (needs["status"], needs["reason"]) == ("True", "NoDeviceFits"), needs
    wait_for(lambda: rig.events("large", "FailedScheduling"), "an Event")
    # A pod that comes and goes is an event that does not help "large".
    rig.pod("small", {"request": "0.1"})
    rig.bound("small")
    rig.gone("small")
    events = rig.events("large", "FailedScheduling")
    assert len(events) == 1 and events[0]["count"] == 1, events
    said = events[0]["message"]
    assert rig.says(said, "0/1 nodes: 1 with another model than H100; the cluster has model A100"), said
    rig.node("n2", "H100")
    assert rig.devices("large") == "main=GPU-n2-0"
    rig.gone("large")
    rig.remove_node("n2")


def a_misspelt_key_is_reported():
    rig.pod("misspelt", {"request": "0.5", "requets": "0.5"})
    rig.waits("misspelt", "did you mean request?")
    assert not rig.condition("misspelt", "divvy.gpu/NeedsDevice")
    rig.gone("misspelt")


def containers_have_a_spec_each():
    rig.pod("two", {"main.divvy.gpu/request": "0.25", "side.divvy.gpu/request": "0.125"}, containers=("main", "side"))
    assert rig.given("two", "granted-request") == "main=0.25 side=0.125"
    assert rig.devices("two").startswith("main=GPU-n1-")
    rig.gone("two")


def a_restart_forgets_nothing():
    """Bound pods count again, by the API server's objects alone."""
    rig.pod("half", {"request": "0.6"})
    first = rig.devices("half")
    rig.kill(rig.processes[0])
    rig.start()
    rig.pod("other", {"request": "0.6"})
    assert rig.devices("other") != first
    rig.pod("third", {"request": "0.6"})
    rig.waits("third", "0/1 nodes: 1 no GPU with 0.6 free")
    rig.gone("half", "other", "third")


def a_cordoned_device_gets_no_pod():
    cluster.patch("/apis/divvy.gpu/v1/gpunodes/n1", {"spec": {"cordoned": [{"uuid": "GPU-n1-0"}]}})
    rig.pod("large", {"request": "0.8"})
    device = rig.devices("large")
    assert device == "main=GPU-n1-1", device
    rig.pod("another", {"request": "0.8"})
    rig.waits("another", "0/1 nodes: 1 ")
    cluster.patch("/apis/divvy.gpu/v1/gpunodes/n1", {"spec": {"cordoned": []}})
    rig.gone("share")
    assert rig.devices("another") == "main=GPU-n1-0"
    rig.gone("large", "another")


def preferred_anti_affinity_holds_while_devices_are_free():
    wish = {"request": "0.3", "preferred-anti-affinity": "x"}
    for name in ("one", "two", "three"):
        rig.pod(name, wish)
        rig.bound(name)
    assert {rig.devices("one"), rig.devices("two")} == {"main=GPU-n1-0", "main=GPU-n1-1"}
    wait_for(
        lambda: any(
            "main beside 1 tenant that preferred-anti-affinity 'x' would keep apart" in e["message"]
            for e in rig.events("three", "Scheduled")
        ),
        "the Event says whom it is beside",
    )
    assert not any("beside" in e["message"] for e in rig.events("two", "Scheduled"))
    # A new scheduler counts the bound pods too.
    rig.kill(rig.processes[0])
    rig.start()
    rig.pod("four", wish)
    assert rig.devices("four") != rig.devices("three")
    rig.gone("one", "two", "three", "four")


def member(name, request, size, threshold="1"):
    rig.pod(name, {"request": request, "group": "g", "group-size": str(size), "group-threshold": threshold})


def a_group_starts_together():
    member("m1", "0.8", 3, "0.7")
    rig.waits("m1", "1 of 3 pods exist, 2 are needed")
    wait_for(lambda: rig.events("m1", "GroupWaiting"), "an Event")
    member("m2", "0.8", 3, "0.7")
    assert {rig.devices("m1"), rig.devices("m2")} == {"main=GPU-n1-0", "main=GPU-n1-1"}
    assert rig.given("m1", "granted-group") == "g=2"
    member("m3", "0.8", 3, "0.7")
    rig.waits("m3", "no GPU with 0.8 free")
    rig.gone("m1")
    assert rig.devices("m3")
    rig.gone("m2", "m3")


def pod_groups(group, version):
    """The project's definition, as far as divvy reads it."""
    cluster.define(
        {
            "metadata": {
                "name": f"podgroups.{group}",
                "annotations": {
                    "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
                },
            },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {
                    "kind": "PodGroup",
                    "listKind": "PodGroupList",
                    "plural": "podgroups",
                    "singular": "podgroup",
                },
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "properties": {
                                            "minMember": {"type": "integer", "format": "int32"},
                                            "queue": {"type": "string"},
                                            "priorityClassName": {"type": "string"},
                                            "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
                                        },
                                    },
                                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            }
                        },
                    }
                ],
            },
        }
    )
    return f"/apis/{group}/{version}/namespaces/{cluster.namespace}/podgroups"


def a_controllers_group_starts_together(key, where, group, version):
    """The scheduler runs already and finds the definition by itself."""
    rig.pod(
        "w1",
        {"request": "0.8", **({key: "job"} if where == "annotations" else {})},
        labels={key: "job"} if where == "labels" else None,
    )
    rig.waits("w1", f"group {cluster.namespace}/job: PodGroup job of {group} does not exist; create it")
    path = pod_groups(group, version)
    cluster.create(
        path,
        {"apiVersion": f"{group}/{version}", "kind": "PodGroup", "metadata": {"name": "job"}, "spec": {"minMember": 3}},
    )
    rig.waits("w1", "1 of 3 pods exist, 3 are needed")
    rig.pod(
        "w2",
        {"request": "0.8", **({key: "job"} if where == "annotations" else {})},
        labels={key: "job"} if where == "labels" else None,
    )
    rig.waits("w2", "2 of 3 pods exist, 3 are needed")
    cluster.patch(f"{path}/job", {"spec": {"minMember": 2}})
    assert {rig.devices("w1"), rig.devices("w2")} == {"main=GPU-n1-0", "main=GPU-n1-1"}
    rig.gone("w1", "w2")
    cluster.delete(f"{path}/job")


def scheduler_plugins_groups_start_together():
    """Kubeflow's trainer and KubeRay label their pods like this."""
    a_controllers_group_starts_together("scheduling.x-k8s.io/pod-group", "labels", "scheduling.x-k8s.io", "v1alpha1")


def volcanos_groups_start_together():
    """Volcano's jobs, and Kubeflow's and KubeRay's with it, annotate their pods like this."""
    a_controllers_group_starts_together(
        "scheduling.k8s.io/group-name", "annotations", "scheduling.volcano.sh", "v1beta1"
    )


def kubernetes_groups_start_together():
    """A pod's field names the PodGroup, as the Job controller does with its gate on."""
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{cluster.namespace}/podgroups"
    if not cluster.exists(path):
        raise Skip("the API server serves no PodGroups")
    group = {"schedulingGroup": {"podGroupName": "train"}}
    rig.pod("w1", {"request": "0.8"}, **group)
    rig.waits("w1", f"group {cluster.namespace}/train: PodGroup train of scheduling.k8s.io does not exist; create it")
    cluster.create(
        path,
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        },
    )
    rig.waits("w1", "1 of 3 pods exist, 3 are needed")
    rig.pod("w2", {"request": "0.8"}, **group)
    rig.waits("w2", "2 of 3 pods exist, 3 are needed")
    cluster.patch(f"{path}/train", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    assert {rig.devices("w1"), rig.devices("w2")} == {"main=GPU-n1-0", "main=GPU-n1-1"}
    assert rig.given("w1", "granted-group") == "train=2"
    rig.gone("w1", "w2")
    cluster.delete(f"{path}/train")


def a_watch_moves_to_the_version_that_is_served():
    """An upgrade of the API server can remove a version of an API while the scheduler runs."""
    groups = "/apis/scheduling.k8s.io/{}/namespaces/" + cluster.namespace + "/podgroups"
    if not cluster.exists(groups.format("v1beta1")):
        raise Skip("the API server serves no PodGroups")

    def make(version, name):
        cluster.create(
            groups.format(version),
            {
                "apiVersion": f"scheduling.k8s.io/{version}",
                "kind": "PodGroup",
                "metadata": {"name": name},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
            },
        )

    rig.node("n4", "A100")
    make("v1beta1", "old")
    make("v1beta1", "gone")
    for name in ("old", "gone"):
        rig.pod(name, {"request": "0.1"}, schedulingGroup={"podGroupName": name})
        rig.waits(name, "1 of 3 pods exist, 3 are needed")
    # One object goes before the scheduler can see it.
    rig.processes[0].send_signal(signal.SIGSTOP)
    cluster.delete(groups.format("v1beta1") + "/gone")
    cluster.patch(groups.format("v1beta1") + "/gone", {"metadata": {"finalizers": None}})
    command = cluster.commands["kube-apiserver"]
    command[:] = [c.replace("v1beta1=true", "v1beta1=false,scheduling.k8s.io/v1alpha3=true") for c in command]
    cluster.restart("kube-apiserver")
    rig.processes[0].send_signal(signal.SIGCONT)
    assert not cluster.exists(groups.format("v1beta1"))
    make("v1alpha3", "new")
    rig.pod("new", {"request": "0.1"}, schedulingGroup={"podGroupName": "new"})
    rig.waits("new", "1 of 3 pods exist, 3 are needed")
    rig.waits("gone", "PodGroup gone of scheduling.k8s.io does not exist")
    cluster.patch(f"{groups.format('v1alpha3')}/old", {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})
    rig.bound("old")
    rig.gone("old", "gone", "new")
    rig.remove_node("n4")


def the_rules_follow_an_upgrade():
    """Since 1.27 a node fits although it lacks a resource, if the pod does not request that resource."""
    rig.kill(rig.processes[0])
    rig.node("n5", "A100", labels={"room": "u"}, cpu="1")
    much = {"requests": {"cpu": "2"}}
    rig.pod("much", resources=much, schedulerName="none", nodeName="n5", labels={"divvy.gpu/tenant": "false"})
    with VersionProxy(rig.account, os.path.join(cluster.dir, "version"), seed=1) as proxy:
        proxy.minor = 26
        scheduler = rig.start("--kubeconfig", proxy.kubeconfig)
        rig.pod("a", {"request": "0.1"}, resources={"requests": {"memory": "1Mi"}}, nodeSelector={"room": "u"})
        rig.waits("a", "1 too little cpu")
        proxy.minor = 27
        rig.bound("a")
        rig.stop(scheduler)
    rig.start()
    rig.gone("a", "much")
    rig.remove_node("n5")


# No version of the API server serves PodGroups by default.
POD_GROUP_ARGS = {
    "kube-apiserver": ["--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"]
}


def init_containers_use_the_main_containers_capacity():
    asked = {"prepare.divvy.gpu/request": "0.9", "main.divvy.gpu/request": "0.4"}
    rig.pod("first", asked, initContainers=[{"name": "prepare", "image": "none"}])
    assert rig.given("first", "granted-request") == "prepare=0.9 main=0.4"
    device = rig.devices("first").split()
    assert device[0].split("=")[1] == device[1].split("=")[1], device
    rig.pod("second", asked, initContainers=[{"name": "prepare", "image": "none"}])
    assert rig.devices("second") != rig.devices("first")
    rig.pod("rest", {"request": "0.2"})
    rig.waits("rest", "no GPU with 0.2 free")
    rig.gone("first", "second", "rest")


def a_pod_of_lower_priority_is_evicted():
    budgets = f"/apis/{cluster.api_version('PodDisruptionBudget')}/namespaces/{cluster.namespace}/poddisruptionbudgets"
    cluster.create(
        budgets,
        {
            "apiVersion": cluster.api_version("PodDisruptionBudget"),
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}},
        },
    )
    rig.pod("low", {"request": "2", "priority": "10"}, labels={"app": "low"})
    rig.bound("low")
    rig.pod("high", {"request": "0.5", "priority": "90"})
    rig.waits("high", "no GPU with 0.5 free; a PodDisruptionBudget forbids the evictions that it needs")
    assert "deletionTimestamp" not in rig.get("low")["metadata"]
    cluster.delete(f"{budgets}/b")
    wait_for(lambda: rig.get("high")["status"].get("nominatedNodeName") == "n1", "a nomination")
    wait_for(lambda: rig.get("low")["metadata"].get("deletionTimestamp"), "an eviction")
    # The preemption fails: the node must stay open to other pods.
    cluster.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    wait_for(lambda: rig.events("low", "Preempted"), "an Event")
    assert not rig.get("high")["spec"].get("nodeName")
    rig.gone("low")
    rig.waits("high", "0/1 nodes: 1 cordoned")
    assert "nominatedNodeName" not in rig.get("high")["status"]
    cluster.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": None}})
    assert rig.devices("high")
    rig.gone("high")


def a_refused_binding_frees_its_place():
    """Another system's webhook refuses the preemptor: pods that fit run, and both pods report the reason."""
    milli = {"limits": {"divvy.gpu/milli": "600"}, "requests": {"divvy.gpu/milli": "600"}}
    rig.node("n3", "H100", labels={"room": "z"}, **{"divvy.gpu/milli": "1000"})
    there = {"nodeSelector": {"room": "z"}, "resources": milli}
    rig.pod("b0", {"request": "0.6", "priority": "10"}, **there)
    rig.bound("b0")
    with Refuser(cluster, "a") as refuser:
        rig.pod("a", {"request": "0.6", "priority": "60"}, **there)
        wait_for(lambda: rig.get("a")["status"].get("nominatedNodeName") == "n3", "a nomination")
        wait_for(lambda: rig.get("b0")["metadata"].get("deletionTimestamp"), "an eviction")
        rig.pod("b1", {"request": "0.6", "priority": "10"}, **there)
        rig.waits("b1", "0/")
        rig.gone("b0")
        assert rig.bound("b1")["spec"]["nodeName"] == "n3"
        said = rig.waits("a", REASON)["message"]
        assert REFUSER in said and "403" in said and "/api/v1" not in said, said
        assert rig.condition("a")["reason"] == "SchedulerError", rig.condition("a")
        wait_for(lambda: "nominatedNodeName" not in rig.get("a")["status"], "no node is reserved")
        wait_for(
            lambda: any(REASON in e["message"] for e in rig.events("a", "FailedScheduling")), "an Event of the pod"
        )
        wait_for(
            lambda: any(REASON in e["message"] for e in rig.events("b1", "ReservationReleased")),
            "an Event of the pod that waited",
        )
        rig.waits("a", "no GPU with 0.6 free; the API server refused the Binding to n3: ")
        assert "deletionTimestamp" not in rig.get("b1")["metadata"]
        # The webhook refuses no Bindings any more.
        refuser.refused.clear()
        rig.gone("b1")
        rig.bound("a")
        assert [allowed for name, allowed in refuser.asked if name == "a"][-1]
    rig.gone("a")
    rig.remove_node("n3")


def a_running_pod_is_changed():
    rig.pod("live", {"request": "0.3"})
    rig.bound("live")
    cluster.patch(rig.path("live"), {"metadata": {"annotations": {"divvy.gpu/limit": "0.5"}}})
    wait_for(lambda: rig.given("live", "granted-limit") == "main=0.5", "the new limit is granted")
    wait_for(lambda: (rig.condition("live", "divvy.gpu/Granted") or {}).get("status") == "True", "a condition")
    rig.pod("rest", {"request": "2"})
    rig.waits("rest", "0/1 nodes: 1 ")
    rig.gone("rest")
    rig.pod("beside", {"request": "0.7"})
    rig.pod("beside2", {"request": "1"})
    rig.bound("beside"), rig.bound("beside2")
    cluster.patch(rig.path("live"), {"metadata": {"annotations": {"divvy.gpu/request": "0.4"}}})
    wait_for(lambda: rig.condition("live", "divvy.gpu/Granted")["reason"] == "ResizeRejected", "a refusal")
    assert rig.given("live", "granted-request") == "main=0.3"
    rig.gone("live", "beside", "beside2")


def policies_limit_a_namespace():
    cluster.create(
        "/apis/divvy.gpu/v1/gpupolicies",
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "GPUPolicy",
            "metadata": {"name": "limits"},
            "spec": {"namespaces": [cluster.namespace], "totalShare": "0.5", "classes": ["standard"]},
        },
    )
    wait_for(
        lambda: cluster.get("/apis/divvy.gpu/v1/gpupolicies/limits").get("status"), "the scheduler has read the policy"
    )
    rig.pod("class", {"request": "0.1", "class": "latency"})
    rig.waits("class", "policy limits: main: class latency is not allowed")
    rig.pod("much", {"request": "0.6"})
    rig.waits("much", "policy limits: the namespace has 0 of 0.5 GPUs, 0.6 requested")
    cluster.delete("/apis/divvy.gpu/v1/gpupolicies/limits")
    rig.bound("class"), rig.bound("much")
    rig.gone("class", "much")


def volumes_are_provisioned_for_waiting_pods():
    cluster.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "late"}, "provisioner": "test.example/late", "volumeBindingMode": "WaitForFirstConsumer"},
    )
    claims = f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims"
    cluster.create(
        claims,
        {
            "metadata": {"name": "v"},
            "spec": {
                "storageClassName": "late",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    rig.pod("stores", {"request": "0.3"}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}])
    wait_for(
        lambda: (cluster.get(f"{claims}/v")["metadata"].get("annotations") or {}).get(
            "volume.kubernetes.io/selected-node"
        )
        == "n1",
        "the claim has a node",
    )
    assert not rig.get("stores")["spec"].get("nodeName")
    # The test acts as the provisioner and the volume controller.
    cluster.create(
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": "pv"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "hostPath": {"path": "/nowhere"},
                "claimRef": {
                    "namespace": cluster.namespace,
                    "name": "v",
                    "uid": cluster.get(f"{claims}/v")["metadata"]["uid"],
                },
            },
        },
    )
    cluster.patch(
        f"{claims}/v",
        {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}},
    )
    assert rig.devices("stores")
    rig.gone("stores")


def a_volume_counts_until_it_is_detached():
    """No pod uses the first volume any more, but the node can attach only one, and this one still is."""
    storage, driver = "/apis/storage.k8s.io/v1", "disks.example"
    claims = f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims"
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disks"}
    rig.node("n6", "A100", labels={"disks": "one"})
    limit = {"name": driver, "nodeID": "n6", "topologyKeys": [], "allocatable": {"count": 1}}
    cluster.create(f"{storage}/csinodes", {"metadata": {"name": "n6"}, "spec": {"drivers": [limit]}})
    request = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "disk-new"}
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = cluster.create(claims, {"metadata": {"name": "disk-new", "annotations": done}, "spec": request})
    bound = {"namespace": cluster.namespace, "name": "disk-new", "uid": claim["metadata"]["uid"]}
    for name, more in (("disk-old", {}), ("disk-new", {"claimRef": bound})):
        csi = {"driver": driver, "volumeHandle": name}
        spec = {**common, "capacity": {"storage": "1Gi"}, "csi": csi, **more}
        cluster.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    old = {"attacher": driver, "nodeName": "n6", "source": {"persistentVolumeName": "disk-old"}}
    cluster.create(f"{storage}/volumeattachments", {"metadata": {"name": "old"}, "spec": old})
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "disk-new"}}
    rig.pod("disk", {"request": "0.3"}, volumes=[volume], nodeSelector={"disks": "one"})
    rig.waits("disk", f"no room for one more volume of {driver}")
    cluster.delete(f"{storage}/volumeattachments/old")
    assert rig.devices("disk") == "main=GPU-n6-0"
    rig.gone("disk")
    cluster.delete(f"{storage}/csinodes/n6")
    rig.remove_node("n6")


def only_the_leader_decides():
    """The epoch grows with each leader, and only the leader writes."""
    for process in list(rig.processes):
        rig.stop(process)
    first = rig.start("--leader-elect")
    rig.pod("e1", {"request": "0.1"})
    assert rig.given("e1", "epoch") == "0"
    rig.start("--leader-elect")
    rig.stop(first)  # the scheduler releases the Lease
    rig.pod("e2", {"request": "0.1"})
    assert rig.given("e2", "epoch") == "1", rig.given("e2", "epoch")
    wait_for(lambda: rig.given("e1", "epoch") == "1", "the new leader writes its epoch to e1, which has not started")
    # divvy is installed again. The Lease was deleted with its namespace, but the nodes remember the epoch.
    for process in list(rig.processes):
        rig.stop(process)
    cluster.delete("/apis/coordination.k8s.io/v1/namespaces/divvy-system/leases/divvy-scheduler")
    rig.status("n1", epoch=7)
    rig.start("--leader-elect")
    rig.pod("e3", {"request": "0.1"})
    assert rig.given("e3", "epoch") == "8", rig.given("e3", "epoch")
    wait_for(
        lambda: {rig.given(n, "epoch") for n in ("e1", "e2")} == {"8"}, "the new leader writes its epoch to e1 and e2"
    )
    rig.gone("e1", "e2", "e3")


def a_stopped_leader_writes_nothing_after_its_lease():
    """A leader is stopped for longer than its Lease, with a pod to place when it continues."""
    for process in list(rig.processes):
        rig.stop(process)
    first = rig.start("--leader-elect")
    rig.pod("s1", {"request": "0.1"})
    epoch = int(rig.given("s1", "epoch"))
    first.send_signal(signal.SIGSTOP)
    rig.start("--leader-elect")
    rig.pod("s2", {"request": "0.1"})
    assert int(rig.given("s2", "epoch")) == epoch + 1
    # When the leader continues, all events since its stop arrive at once.
    rig.pod("s3", {"request": "0.1"}, schedulerName="nobody")
    first.send_signal(signal.SIGCONT)
    names = [f"s{i}" for i in range(4, 24)]
    for name in names:
        rig.pod(name, {"request": "0.05"})
    assert {rig.given(n, "epoch") for n in names} == {str(epoch + 1)}
    rig.gone("s1", "s2", "s3", *names)


def log_of():
    with open(os.path.join(cluster.dir, "log/divvy-scheduler.log"), encoding="utf-8", errors="replace") as f:
        return f.read()


def decides_and_cannot_send(proxy):
    """The leader's epoch; None if the proxy also cut the watch's connection, as on a slow machine: then nothing has changed."""
    rig.pod("before", {"request": "0.1", "model": "L4"})
    epoch = int(rig.given("before", "epoch"))
    said, held = len(log_of()), proxy.n_held
    proxy.is_shut = True
    wait_for(lambda: proxy.n_held > held, "the proxy has cut the connection and holds the next one")
    rig.pod("decided", {"request": "0.7", "model": "L4", "priority": "10"})
    try:
        wait_for(lambda: "/decided: to node late" in log_of()[said:], "the scheduler has decided", 5)
    except AssertionError:
        proxy.is_shut = False
        rig.gone("before", "decided")
        return None
    return epoch


def a_former_leader_does_not_send_old_bindings():
    """A leader hears of a pod, decides, and cannot send the Binding. It is stopped; another scheduler leads and gives the
    device to another pod. When the first continues and gets its connection, its Binding is no longer right."""
    for process in list(rig.processes):
        rig.stop(process)
    rig.node("late", "L4")
    said = len(log_of())
    with GateProxy(rig.account, os.path.join(cluster.dir, "gate"), seed=1) as proxy:
        first = rig.start("--leader-elect", "--kubeconfig", proxy.kubeconfig)
        for _ in range(5):
            epoch = decides_and_cannot_send(proxy)
            if epoch is not None:
                break
        assert epoch is not None, "in five tries the scheduler never heard of the pod"
        first.send_signal(signal.SIGSTOP)
        rig.pod("instead", {"request": "0.7", "model": "L4", "priority": "90"})
        rig.start("--leader-elect")
        assert int(rig.given("instead", "epoch")) == epoch + 1
        rig.waits("decided", "no GPU with 0.7 free")
        proxy.is_shut = False
        first.send_signal(signal.SIGCONT)
        # The log shows the error of the last try, whatever ended the tries.
        wait_for(
            lambda: re.search(r"/decided: POST .*/binding: ", log_of()[said:]),
            "the former leader has given up its Binding",
        )
        assert not rig.get("decided")["spec"].get("nodeName")
        # By now the former leader knows the present state, and continues without leading.
        rig.gone("instead")
        assert int(rig.given("decided", "epoch")) == epoch + 1
        rig.stop(first)
    rig.gone("before", "decided")
    rig.remove_node("late")


def ask_https(path, token=None):
    """Code and text; the program's certificate is its own."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(
        f"https://127.0.0.1:{PORT}{path}", headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=patience(30), context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def only_authorized_accounts_get_metrics():
    rig.start("--listen", f"127.0.0.1:{PORT}")
    wait_for(lambda: answers("/healthz"), "the scheduler serves")
    assert ask_https("/healthz") == (200, "ok\n")
    wait_for(lambda: ask_https("/readyz") == (200, "ok\n"), "the scheduler is ready")
    assert ask_https("/metrics")[0] == 401
    assert ask_https("/metrics", "no-such-token")[0] == 401
    nobody = cluster.service_account(cluster.namespace, "nobody")
    assert ask_https("/metrics", nobody.token)[0] == 403
    reader = cluster.service_account(
        cluster.namespace, "reader", cluster_rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    )
    code, text = ask_https("/metrics", reader.token)
    assert code == 200 and "divvy_scheduler_decisions_total" in text, (code, text)


def answers(path):
    try:
        return ask_https(path)[0]
    except OSError:
        return None


QUEUED = {"a": (6, 24), "b": (4, 40)}  # guaranteed GPUs, jobs of half a GPU


def policy_of(name):
    return cluster.get(f"/apis/divvy.gpu/v1/gpupolicies/team-{name}")


def team_pods(name):
    return cluster.get(f"/api/v1/namespaces/team-{name}/pods")["items"]


def running(name):
    return [p for p in team_pods(name) if p["spec"].get("nodeName") and "deletionTimestamp" not in p["metadata"]]


def submit(name):
    rig.namespace = f"team-{name}"
    for i in range(QUEUED[name][1]):
        rig.pod(f"job-{i}", {"request": "0.5"})
    rig.namespace = cluster.namespace


def have_ended(pods):
    """Ends pods, as the kubelet does."""
    for pod in pods:
        meta = pod["metadata"]
        cluster.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", grace_s=0)


def shares_are(a, b):
    """Waits for these shares, in halves of a GPU; evicted pods terminate."""

    def there():
        have_ended(p for name in "ab" for p in team_pods(name) if "deletionTimestamp" in p["metadata"])
        return (len(running("a")), len(running("b"))) == (a, b)

    wait_for(there, f"{a} and {b} run", 120)


def status_says(name, **amounts):
    def there():
        queues = (policy_of(name).get("status") or {}).get("queues") or [{}]
        return amounts.items() <= queues[0].items()

    wait_for(there, f"the status of {name} says {amounts}", 60)


def two_namespaces_share_60_to_40():
    for process in list(rig.processes):
        rig.stop(process)
    rig.remove_node("n1")
    rig.node("q1", *["A100"] * 10)
    for name, (guaranteed, _) in QUEUED.items():
        cluster.create("/api/v1/namespaces", {"metadata": {"name": f"team-{name}"}})
        cluster.create(
            "/apis/divvy.gpu/v1/gpupolicies",
            {
                "apiVersion": "divvy.gpu/v1",
                "kind": "GPUPolicy",
                "metadata": {"name": f"team-{name}"},
                "spec": {
                    "namespaces": [f"team-{name}"],
                    "queue": {"guaranteedShare": guaranteed, "weight": guaranteed * 10, "graceSeconds": 5},
                },
            },
        )
    rig.start()
    submit("b")
    wait_for(lambda: len(running("b")) == 20, "queue b uses all devices", 120)
    status_says("b", guaranteed=4000, used=10000, borrowed=6000, waiting=20)
    rig.namespace = "team-b"
    rig.waits("job-39", "queue team-b has 10 devices, 6 of them borrowed, and 0 are idle to borrow")
    rig.namespace = cluster.namespace
    began = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    submit("a")
    wait_for(
        lambda: [p for p in team_pods("b") if "deletionTimestamp" in p["metadata"]], "a pod of queue b is evicted", 60
    )
    leaving = [p for p in team_pods("b") if "deletionTimestamp" in p["metadata"]]
    assert all(
        datetime.datetime.fromisoformat(p["metadata"]["deletionTimestamp"].replace("Z", "+00:00")) - began
        >= datetime.timedelta(seconds=5 - 1)
        for p in leaving
    ), (began, leaving)
    shares_are(12, 8)
    wait_for(
        lambda: any(e["reason"] == "Reclaimed" for e in cluster.get("/api/v1/namespaces/team-b/events")["items"]),
        "an Event",
    )
    status_says("a", guaranteed=6000, used=6000, borrowed=0, waiting=12)
    valid = policy_of("a")["status"]["conditions"][0]
    assert (valid["type"], valid["status"], valid["reason"]) == ("Valid", "True", "Valid"), valid
    # Jobs of both queues end; while both have waiting jobs, each keeps its part.
    for _ in range(3):
        have_ended(running("a")[:3] + running("b")[:1])
        shares_are(12, 8)
    # Queue b may use again what queue a does not need.
    have_ended(p for p in team_pods("a") if not p["spec"].get("nodeName"))
    have_ended(running("a")[:6])
    wait_for(lambda: (len(running("a")), len(running("b"))) == (6, 14), "b borrows", 60)
    for name in QUEUED:
        have_ended(team_pods(name))
        cluster.delete(f"/apis/divvy.gpu/v1/gpupolicies/team-{name}")


ETHERNET = {"name": "eth0", "kind": "host", "capacityMbps": 10000}
INFINIBAND = {"name": "mlx5_0", "kind": "rdma", "capacityMbps": 40000}


def client(name, *networks):
    """A node with a live daemon, with slots and no GPU."""
    rig.node(name, labels={"room": "y"}, **{"divvy.gpu/slot": "64"})
    rig.lease(name)
    cluster.create(
        "/apis/divvy.gpu/v1/gpunodes", {"apiVersion": "divvy.gpu/v1", "kind": "GPUNode", "metadata": {"name": name}}
    )
    rig.status(name, owner="divvy", deviceCount=0, slots={"total": 64, "used": 0}, network={"devices": list(networks)})


def serves(name, *networks):
    rig.status(name, remote={"address": "10.0.0.1:7007"}, network={"devices": list(networks)})


def measured(name, **peers):
    """Measurements, in microseconds, of the node's daemon."""
    rig.status(
        name,
        network={
            "peers": [
                {"name": n, "roundTripMicroseconds": us, "measuredAt": "2026-01-02T03:04:05Z"}
                for n, us in peers.items()
            ]
        },
    )


def elsewhere(name, request, **asked):
    rig.pod(
        name,
        {"request": request, **asked},
        nodeSelector={"room": "y"},
        resources={"limits": {"divvy.gpu/slot": "1", "divvy.gpu/milli": "100"}},
    )


def a_device_of_another_node_is_given():
    client("c1", ETHERNET, INFINIBAND)
    rig.node("g1", "A100", "A100")
    elsewhere("r1", "0.6", mode="remote", network="4Gbps")
    rig.waits("r1", "mode remote: no node serves its devices over the network")
    elsewhere("r2", "0.6")
    waits = rig.waits("r2", "not selected by the pod's node selector")
    assert "over the network" not in waits["message"], waits
    # A pod that can run on g1 itself gets mode local there, although g1 also serves other nodes.
    serves("g1", ETHERNET)
    rig.gone("r2")
    rig.pod("here", {"request": "0.3"})
    assert rig.given("here", "granted-mode") == "main=local" and rig.given("here", "remote-node") is None
    pod = rig.bound("r1")
    given = {k[len("divvy.gpu/") :]: v for k, v in pod["metadata"]["annotations"].items()}
    assert pod["spec"]["nodeName"] == "c1" and given["devices"].startswith("main=GPU-g1-"), pod
    assert (given["granted-mode"], given["remote-node"], given["granted-network"]) == (
        "main=remote",
        "main=g1",
        "main=eth0,eth0,4Gbps",
    ), given
    wait_for(lambda: rig.events("r1", "Scheduled"), "an Event")
    assert "remote: runs on c1, device on g1 over the host's network" in rig.events("r1", "Scheduled")[0]["message"]


def the_best_network_goes_first_and_runs_out():
    rig.node("g2", "A100")
    serves("g2", INFINIBAND)
    elsewhere("r3", "0.5", network="25Gbps")
    assert rig.given("r3", "granted-network") == "main=mlx5_0,mlx5_0,25Gbps"
    # Both nodes have the share free, but neither network has that bandwidth left.
    elsewhere("r4", "0.3", network="20Gbps")
    rig.waits("r4", "; over the network 0/2 nodes that serve: 2 no network device with 20Gbps free")
    # A new scheduler counts the granted bandwidth too.
    rig.kill(rig.processes[0])
    rig.start()
    elsewhere("r5", "0.3", network="7Gbps")
    assert rig.given("r5", "granted-network") == "main=mlx5_0,mlx5_0,7Gbps"
    elsewhere("r6", "0.3", network="9Gbps")
    rig.waits("r6", "no network device with 9Gbps free")
    elsewhere("r7", "0.1", network="50us")
    rig.waits("r7", "no round trip measured to a node for the pod, at most 50us requested")
    measured("c1", g1=180, g2=250)
    rig.waits("r7", "round trip 180 us to node c1, at most 50 us requested")
    measured("c1", g1=40, g2=250)
    assert rig.given("r7", "remote-node") == "main=g1"
    rig.gone("r3")
    assert rig.given("r4", "granted-network") == "main=mlx5_0,mlx5_0,20Gbps"
    rig.gone("here", *(f"r{i}" for i in (1, 4, 5, 6, 7)))
    for name in ("c1", "g1", "g2"):
        rig.remove_node(name)


TESTS = [
    a_share_is_bound,
    a_pod_that_fits_nowhere_gets_one_event,
    a_misspelt_key_is_reported,
    containers_have_a_spec_each,
    a_restart_forgets_nothing,
    a_cordoned_device_gets_no_pod,
    preferred_anti_affinity_holds_while_devices_are_free,
    a_group_starts_together,
    scheduler_plugins_groups_start_together,
    volcanos_groups_start_together,
    kubernetes_groups_start_together,
    init_containers_use_the_main_containers_capacity,
    a_pod_of_lower_priority_is_evicted,
    a_refused_binding_frees_its_place,
    a_running_pod_is_changed,
    policies_limit_a_namespace,
    a_device_of_another_node_is_given,
    the_best_network_goes_first_and_runs_out,
    volumes_are_provisioned_for_waiting_pods,
    a_volume_counts_until_it_is_detached,
    only_the_leader_decides,
    a_stopped_leader_writes_nothing_after_its_lease,
    a_former_leader_does_not_send_old_bindings,
    only_authorized_accounts_get_metrics,
    two_namespaces_share_60_to_40,
    the_rules_follow_an_upgrade,
    a_watch_moves_to_the_version_that_is_served,  # last: restarts the API server with another version
]

try:
    with open_cluster(optional=(37, POD_GROUP_ARGS)) as cluster:
        with Scheduled(cluster) as rig:
            rig.start()
            main(*TESTS)
except Skip as reason:
    skip_all(reason)
