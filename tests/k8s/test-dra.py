#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvyd as DRA driver on a real kubelet: kube-scheduler allocates claims, and divvyd gives their pods exactly these shares."""

import itertools
import json
import os
import signal
import time

import kube_scheduler
from claims import API, example
from cluster import NODE_OF_OURS, Skip, main, open_cluster, own_minor, skip_all, wait_for
from divvyd import GIB, IMAGE, Daemon, bound_account, delete_pod, events_of, install, make_image, wait_for_pod
from dra import (
    OLDEST,
    SLICES,
    checkpoint,
    claims_path,
    create_claim,
    install_driver,
    published,
    share,
    slices,
    tenants,
    whole,
)
from tap import fairly


def make_claim(name, *requests, **devices):
    create_claim(cluster, name, *requests, **devices)


def container(args, name="main", claims=({"name": "gpu"},)):
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": list(args),
        "resources": {"claims": list(claims)},
    }


def run_pod(name, args, claim=None, containers=None, **spec):
    """A pod of kube-scheduler with that claim, by default the claim of its own name."""
    return cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "resourceClaims": [{"name": "gpu", "resourceClaimName": claim or name}],
                "containers": containers or [container(args)],
                **spec,
            },
        },
    )


def remove(*names):
    """Deletes pods with the claims of their names, and waits until divvyd has no tenant of theirs."""
    for name in names:
        delete_pod(cluster, name)
    for name in names:
        wait_for(
            lambda n=name: not cluster.exists(f"/api/v1/namespaces/{cluster.namespace}/pods/{n}"), f"{name} is gone"
        )
        if cluster.exists(claims_path(cluster, name)):
            cluster.delete(claims_path(cluster, name))
    wait_for(lambda: not tenants_of(*names), "their tenants have ended")


def tenants_of(*names):
    return [t for t in tenants(daemon) if t["pod"]["name"] in names]


# ---- slices


def the_node_publishes_its_devices():
    wait_for(lambda: len(published(cluster)) == 4, "the pool has two devices for each GPU", 60)
    daemon.await_ready()
    uuid = daemon.devices()[0][4:].lower()
    device = published(cluster)["share-" + uuid]
    assert device["allowMultipleAllocations"] and device["attributes"]["model"]["string"] == "NVIDIA H200", device
    assert device["attributes"]["simulated"]["bool"], device
    assert device["capacity"]["share"]["value"] == "1k", device
    assert published(cluster)["gpu-" + uuid]["consumesCounters"] == device["consumesCounters"], device
    status = daemon.status()
    assert status["owner"] == "dra" and status["slots"] == {"total": 0, "used": 0}, status
    owner = slices(cluster)[0]["metadata"]["ownerReferences"][0]
    assert owner["kind"] == "Node" and owner["name"] == cluster.node_name, owner


def removed_slices_come_back():
    generation = slices(cluster)[0]["spec"]["pool"]["generation"]
    cluster.delete(SLICES + "/" + slices(cluster)[1]["metadata"]["name"])
    wait_for(
        lambda: len(published(cluster)) == 4 and slices(cluster)[0]["spec"]["pool"]["generation"] > generation,
        "the slices are complete in a new generation",
        60,
    )


def an_idle_node_writes_no_slice():
    """divvyd compares devices and slices every few seconds, and renews its Lease every ten."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases/{cluster.node_name}"
    before = [s["metadata"]["resourceVersion"] for s in slices(cluster)]
    for _ in range(2):
        renewed = cluster.get(lease)["spec"]["renewTime"]
        wait_for(lambda r=renewed: cluster.get(lease)["spec"]["renewTime"] != r, "divvyd renews its Lease", 60)
    assert [s["metadata"]["resourceVersion"] for s in slices(cluster)] == before, slices(cluster)


# ---- shares


def two_claims_have_their_shares():
    """kube-scheduler places claims of 300 and 700 milli on one device, and divvyd enforces both."""
    args = ("--kernel-us=2000", "--duration=25")
    looks = itertools.count(1)

    def look():
        nth = next(looks)
        low, high = f"low-{nth}", f"high-{nth}"
        for name, milli in ((low, 300), (high, 700)):
            make_claim(name, share(milli))
            run_pod(name, args)
        for name in (low, high):
            wait_for_pod(cluster, name, "Running")
        wait_for(
            lambda: len(tenants(daemon)) == 2 and all(t["processes"] for t in tenants(daemon)),
            "both programs have registered",
        )
        found = {t["pod"]["name"]: t for t in tenants(daemon)}
        assert found[low]["devices"][0]["uuid"] == found[high]["devices"][0]["uuid"], found
        assert found[low]["spec"]["request_permille"] == 300 and found[low]["pod"]["claim"] == low, found
        told = daemon.tenant(high, "gpu")
        assert told["memoryBytes"] == [8 * GIB] and told["claim"] == high, told
        time.sleep(11)
        shares, ran = daemon.shares(**{low: 0.3, high: 0.7})
        print(f"# of {ran:.2f}: {shares}")
        for name in (low, high):
            wait_for_pod(cluster, name, "Succeeded")
        assert "Granted" in events_of(cluster, low)
        remove(low, high)
        # As in test-divvyd.py: what one tenant cannot use for want of a processor, the other one uses.
        return None if ran > 0.5 and abs(shares[low] - 0.3) < 0.02 + 0.3 * (1 - min(ran, 1)) else (shares, ran)

    fairly(look, 2)


# ---- enforcement


def memory_above_the_quota_is_refused():
    make_claim("good", share(200, "6Gi"))
    make_claim("greedy", share(200, "2Gi"))
    run_pod("good", ("--kernel-us=500", "--memory=4096"))
    wait_for_pod(cluster, "good", "Running")
    run_pod("greedy", ("--kernel-us=500", "--memory=4096"))
    wait_for_pod(cluster, "greedy", "Failed")
    assert "CUDA_ERROR_OUT_OF_MEMORY" in cluster.log_of("greedy")
    before = daemon.used("good")
    wait_for(lambda: daemon.used("good") > before, "the program of the other claim continues")
    remove("good", "greedy")


def sixteen_claims_run_on_one_device():
    names = [f"many-{i}" for i in range(16)]
    for name in names:
        make_claim(name, share(60, "4Gi", selectors=of_device(0)))
        run_pod(name, ("--kernel-us=500",))
    for name in names:
        wait_for_pod(cluster, name, "Running")
    wait_for(lambda: len([t for t in tenants_of(*names) if t["processes"]]) == 16, "all have registered", 60)
    assert len({t["devices"][0]["uuid"] for t in tenants_of(*names)}) == 1, tenants(daemon)
    remove(*names)


def of_device(n):
    return [{"cel": {"expression": f'device.attributes["divvy.gpu"].uuid == "{daemon.devices()[n]}"'}}]


def waits(name, why):
    """The pod is not scheduled, and its condition has the text."""

    def condition():
        found = cluster.pod(name)["status"].get("conditions") or []
        return next((c for c in found if c["type"] == "PodScheduled" and c["status"] == "False"), {})

    wait_for(lambda: why in condition().get("message", ""), f"{name} waits", 60)


def a_whole_device_and_a_share_never_meet():
    """Two devices: a share of one, so a whole one is the other, and a second whole one does not exist."""
    make_claim("part", share(10, "1Gi"))
    run_pod("part", ("--kernel-us=500",))
    wait_for_pod(cluster, "part", "Running")
    for name in ("all", "none"):
        make_claim(name, whole())
    run_pod("all", ("--kernel-us=500",))
    wait_for_pod(cluster, "all", "Running")
    found = {t["pod"]["name"]: t for t in tenants_of("part", "all")}
    assert found["all"]["spec"]["exclusive"] and not found["part"]["spec"]["exclusive"], found
    assert found["all"]["devices"][0]["uuid"] != found["part"]["devices"][0]["uuid"], found
    run_pod("none", ())
    waits("none", "cannot allocate all claims")
    remove("part")
    wait_for_pod(cluster, "none", "Running", "Succeeded")
    remove("all", "none")


def containers_share_a_claim_and_requests_do_not():
    """Two containers of one request are one tenant; a second request is another tenant."""
    make_claim("both", share(200, name="one"), share(300, name="two"))
    args = ("--kernel-us=500",)
    run_pod(
        "both",
        (),
        containers=[
            container(args, "first", [{"name": "gpu", "request": "one"}]),
            container(args, "second", [{"name": "gpu", "request": "one"}]),
            container(args, "third", [{"name": "gpu", "request": "two"}]),
        ],
    )
    wait_for_pod(cluster, "both", "Running")
    wait_for(lambda: sum(len(t["processes"]) for t in tenants_of("both")) == 3, "all three have registered")
    found = {t["pod"]["container"]: t for t in tenants_of("both")}
    assert {name: len(t["processes"]) for name, t in found.items()} == {"one": 2, "two": 1}, found
    assert found["two"]["spec"]["request_permille"] == 300, found
    remove("both")


def a_claim_of_two_pods_is_one_tenant():
    make_claim("shared", share(200))
    for name in ("pod-a", "pod-b"):
        run_pod(name, ("--kernel-us=500",), claim="shared")
    for name in ("pod-a", "pod-b"):
        wait_for_pod(cluster, name, "Running")
    wait_for(lambda: [len(t["processes"]) for t in tenants_of("pod-a", "pod-b")] == [2], "both are in one tenant")
    first = tenants_of("pod-a", "pod-b")[0]["pod"]["name"]
    remove(first)
    assert len(tenants(daemon)) == 1, tenants(daemon)  # the other pod still uses the claim, and has its tenant now
    remove("pod-a", "pod-b")
    wait_for(lambda: not tenants(daemon), "the tenant has ended with its last pod")
    cluster.delete(claims_path(cluster, "shared"))


def two_halves_are_one_tenant_of_two_devices():
    constraint = {"requests": ["gpu"], "distinctAttribute": "divvy.gpu/uuid"}
    make_claim("halves", share(500, count=2), constraints=[constraint])
    run_pod("halves", ("--kernel-us=500",))
    wait_for_pod(cluster, "halves", "Running")
    found = tenants_of("halves")
    assert len(found) == 1 and {d["uuid"] for d in found[0]["devices"]} == set(daemon.devices()), found
    remove("halves")


# ---- restarts


def a_killed_divvyd_keeps_its_claims():
    for name in ("stays", "goes"):
        make_claim(name, share(300))
        run_pod(name, ("--kernel-us=500",))
        wait_for_pod(cluster, name, "Running")
    wait_for(lambda: all(t["processes"] for t in tenants_of("stays", "goes")), "both have registered")
    before = tenants_of("stays")[0]["id"]
    cluster.kill("divvyd")
    delete_pod(cluster, "goes")
    daemon.start("--dra")
    daemon.await_ready()
    wait_for(lambda: not tenants_of("goes"), "the kubelet unprepares the claim of the deleted pod", 90)
    assert tenants_of("stays")[0]["id"] == before, tenants(daemon)
    wait_for(
        lambda: tenants_of("stays")[0]["processes"] and not tenants_of("stays")[0]["processes"][0]["orphan"],
        "the program has registered again",
    )
    assert [c["name"] for c in checkpoint(daemon)] == ["stays"], checkpoint(daemon)
    remove("stays", "goes")


def a_reboot_restores_claims():
    """divvyd's state and the CDI files are gone, as after a restart of the machine. The kubelet holds the claim for prepared,
    so it does not ask again."""
    make_claim("reboots", share(300))
    run_pod("reboots", ("--kernel-us=500", "--duration=5"), restartPolicy="Always")
    wait_for_pod(cluster, "reboots", "Running")
    cluster.kill("divvyd")
    daemon.cut_power()
    cluster.node.enter("find", daemon.cdi_dir, "-name", "divvy.gpu-*", "-delete")
    daemon.start("--dra")
    daemon.await_ready()
    assert tenants_of("reboots"), tenants(daemon)
    count = cluster.pod("reboots")["status"]["containerStatuses"][0]["restartCount"]
    wait_for(
        lambda: cluster.pod("reboots")["status"]["containerStatuses"][0]["restartCount"] > count
        and tenants_of("reboots")[0]["processes"],
        "the container starts again with its share",
        120,
    )
    remove("reboots")


def a_restarted_kubelet_finds_the_driver():
    make_claim("through", share(300))
    run_pod("through", ("--kernel-us=500",))
    wait_for_pod(cluster, "through", "Running")
    cluster.restart("kubelet")
    wait_for(lambda: len(published(cluster)) == 4, "the slices that the starting kubelet has removed are back", 90)
    make_claim("later", share(300))
    run_pod("later", ("--kernel-us=500",))
    wait_for_pod(cluster, "later", "Running")
    assert cluster.pod("through")["status"]["containerStatuses"][0]["restartCount"] == 0
    remove("through", "later")
    wait_for(lambda: not checkpoint(daemon), "no claim is prepared any more")


def a_cordoned_device_is_tainted():
    gpunode = f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}"
    cluster.patch(gpunode, {"spec": {"cordoned": [{"uuid": daemon.devices()[0], "reason": "test"}]}})
    wait_for(
        lambda: sum("taints" in d for d in published(cluster).values()) == 2, "both forms of the device have the taint"
    )
    make_claim("cordoned", share(10, "1Gi", selectors=of_device(0)))
    run_pod("cordoned", ())
    waits("cordoned", "cannot allocate all claims")
    cluster.patch(gpunode, {"spec": {"cordoned": None}})
    wait_for_pod(cluster, "cordoned", "Running", "Succeeded")
    remove("cordoned")


def prepare_failures():
    """Messages of pods whose claims could not be prepared at once."""
    events = cluster.get(f"/api/v1/namespaces/{cluster.namespace}/events")["items"]
    return [e["message"] for e in events if e["reason"] == "FailedPrepareDynamicResources"]


def an_upgrade_leaves_no_gap():
    """Two divvyd on the node, as a DaemonSet with maxSurge has them. Pods start all the time, and none has to wait."""
    cluster.kill("divvyd")
    daemon.start("--dra", "--rolling")
    daemon.await_ready()
    make_claim("before", share(100))
    run_pod("before", ("--kernel-us=500",))
    wait_for_pod(cluster, "before", "Running")
    before, failures = tenants_of("before")[0]["id"], len(prepare_failures())
    after = daemon.beside("divvyd-after")
    names = [f"during-{n}" for n in range(6)]
    for n, name in enumerate(names):
        make_claim(name, share(100))
        run_pod(name, ("--kernel-us=500",))
        if n == 1:
            after.start("--dra", "--rolling")
    wait_for(lambda: "standing by" in open(daemon.log, encoding="utf-8").read(), "the old divvyd stands by", 60)
    for name in names:
        wait_for_pod(cluster, name, "Running")
    assert tenants_of("before")[0]["id"] == before, tenants(daemon)
    cluster.kill("divvyd", signal.SIGTERM)  # the old pod is deleted
    make_claim("after", share(100))
    run_pod("after", ("--kernel-us=500",))
    wait_for_pod(cluster, "after", "Running")
    assert len(prepare_failures()) == failures, prepare_failures()
    assert len(published(cluster)) == 4, published(cluster)
    remove("before", "after", *names)
    cluster.kill("divvyd-after")
    daemon.start("--dra")
    daemon.await_ready()


def a_pod_deleted_by_force_gives_its_share_back():
    """Its object is gone at once, so its claim is free for others while its container still runs."""
    claim = share(700)
    cluster.create(
        f"{API}/namespaces/{cluster.namespace}/resourceclaimtemplates",
        {"metadata": {"name": "forced"}, "spec": {"spec": {"devices": {"requests": [claim]}}}},
    )
    with_template = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "forced"}]}
    for nth in range(3):
        name = f"forced-{nth}"
        run_pod(name, ("--kernel-us=500",), **with_template)
        wait_for_pod(cluster, name, "Running")
        wait_for(lambda n=name: tenants_of(n) and tenants_of(n)[0]["processes"], "the program has registered")
        cluster.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{name}", grace_s=0)
    wait_for(lambda: not tenants(daemon) and not checkpoint(daemon), "all tenants have ended", 90)


# ---- examples


def as_here(obj):
    """An example's object for this cluster: the image that the node has, whose entry point is spin."""
    for c in obj["spec"].get("containers") or []:
        c.update(image=IMAGE, imagePullPolicy="Never", args=c.pop("command")[1:])
    return obj


def the_examples_run():
    """Each example runs on real slices, and divvyd has a tenant for each of its requests."""
    wanted = {
        "share": [300],
        "two-containers": [500],
        "two-requests": [100, 400],
        "two-devices": [500],
        "first-available": [500],
        "whole-gpu": [1000, 1000],
    }
    for name, shares in wanted.items():
        space = cluster.new_namespace()
        objects = [as_here(o) for o in example(name)]
        cluster.kubectl("apply", "-n", space, "-f", "-", stdin="\n---\n".join(json.dumps(o) for o in objects))
        pods = [o["metadata"]["name"] for o in objects if o["kind"] == "Pod"]
        for pod in pods:
            path = f"/api/v1/namespaces/{space}/pods/{pod}"
            wait_for(lambda p=path: cluster.get(p)["status"].get("phase") == "Running", f"{name}: {pod} runs", 90)
        wait_for(lambda p=pods: all(t["processes"] for t in tenants_of(*p)), f"the programs of {name} have registered")
        found = sorted(t["spec"]["request_permille"] for t in tenants_of(*pods))
        assert found == shares, (name, tenants_of(*pods))
        for pod in pods:
            cluster.delete(f"/api/v1/namespaces/{space}/pods/{pod}", grace_s=1)
        wait_for(lambda p=pods: not tenants_of(*p), f"the tenants of {name} have ended", 60)


# ---- hostile pods


def a_cdi_name_in_an_annotation_gives_nothing():
    """A pod without a claim names the device of another pod's claim, as annotations of the runtime could."""
    make_claim("owner", share(300))
    run_pod("owner", ("--kernel-us=500",))
    wait_for_pod(cluster, "owner", "Running")
    slot = tenants_of("owner")[0]["pod"]["slot"]
    cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "metadata": {"name": "thief", "annotations": {"cdi.k8s.io/thief": f"divvy.gpu/slot={slot}"}},
            "spec": {"restartPolicy": "Never", "containers": [container(("--count=1",), claims=())]},
        },
    )
    wait_for_pod(cluster, "thief", "Failed")
    assert len(tenants_of("owner")[0]["processes"]) == 1, tenants(daemon)
    remove("owner")
    delete_pod(cluster, "thief")


# ---- faults of devices


def health_of(name):
    """[(resource, health)] in the status of the pod's only container."""
    (status,) = cluster.pod(name)["status"].get("containerStatuses") or [{}]
    resources = status.get("allocatedResourcesStatus") or []
    return [(r["name"], h["health"]) for r in resources for h in r.get("resources") or []]


def a_lost_device_is_tainted_and_unhealthy():
    """The taint has the effect NoExecute, so Kubernetes evicts pods whose claims do not tolerate it."""
    tolerations = [{"operator": "Exists"}]  # the Xid that reports the loss is a taint of its own
    make_claim("tolerant", share(100, selectors=of_device(1), tolerations=tolerations))
    make_claim("strict", share(100, selectors=of_device(1)))
    for name in ("tolerant", "strict"):
        run_pod(name, ("--kernel-us=500",), restartPolicy="Always")
        wait_for_pod(cluster, name, "Running")
    wait_for(lambda: health_of("tolerant") == [("claim:gpu", "Healthy")], "the pod's status has the health", 60)
    with open(os.path.join(daemon.runtime, "sim/faults"), "w", encoding="ascii") as f:
        f.write("lost device=1 after=1\n")
    os.kill(daemon.engine(), signal.SIGHUP)  # the engine reads its settings again
    wait_for(
        lambda: sum("divvy.gpu/lost" in str(d.get("taints")) for d in published(cluster).values()) == 2,
        "both forms of the device have the taint",
        60,
    )
    wait_for(lambda: health_of("tolerant") == [("claim:gpu", "Unhealthy")], "the pod's status has the fault", 60)
    strict = f"/api/v1/namespaces/{cluster.namespace}/pods/strict"
    wait_for(lambda: not cluster.exists(strict), "the pod without the toleration is evicted", 90)
    remove("tolerant")


try:
    if own_minor() < OLDEST:
        raise Skip(f"needs Kubernetes 1.{OLDEST}")
    with open_cluster("kcm", "node", own=NODE_OF_OURS) as cluster:
        install(cluster)
        make_image(cluster)
        install_driver(cluster)
        kube_scheduler.start(cluster)
        daemon = Daemon(cluster, simulate="2xH200-141Gi", account=bound_account(cluster))
        daemon.make_gpu_node()
        daemon.start("--dra")
        main(
            the_node_publishes_its_devices,
            removed_slices_come_back,
            an_idle_node_writes_no_slice,
            two_claims_have_their_shares,
            memory_above_the_quota_is_refused,
            sixteen_claims_run_on_one_device,
            a_whole_device_and_a_share_never_meet,
            containers_share_a_claim_and_requests_do_not,
            a_claim_of_two_pods_is_one_tenant,
            two_halves_are_one_tenant_of_two_devices,
            a_killed_divvyd_keeps_its_claims,
            a_reboot_restores_claims,
            a_restarted_kubelet_finds_the_driver,
            a_cordoned_device_is_tainted,
            an_upgrade_leaves_no_gap,
            a_pod_deleted_by_force_gives_its_share_back,
            the_examples_run,
            a_cdi_name_in_an_annotation_gives_nothing,
            a_lost_device_is_tainted_and_unhealthy,
        )
except Skip as reason:
    skip_all(reason)
