#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node whose GPUs belong to another device plugin: divvy takes whole GPUs from it by placeholders, and gives them back.

All parts are real except the other plugin's devices, which have the UUIDs of simulated ones: kubelet, both schedulers,
controller, divvyd. A native pod and a tenant never share a device."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from api import ApiError  # noqa: E402
from cluster import NODE_OF_OURS, Skip, main, open_cluster, patience, skip_all, wait_for  # noqa: E402
from controller import PROGRAM as CONTROLLER  # noqa: E402
from controller import SYSTEM, installed  # noqa: E402
from divvyd import IMAGE, Daemon, bound_account, delete_pod, events_of, image_of, make_image, wait_for_pod  # noqa: E402
from plugin import start_plugin  # noqa: E402
from scheduled import Scheduled  # noqa: E402

PLACEHOLDER_IMAGE = "local/divvy-controller:1"
SLOTS = 128  # of both devices
# The kubelet retries a pod that was deleted during its start, or whose containers failed, after a minute at the earliest.
KUBELET_S = 200
world = {}
SPEC = "/apis/divvy.gpu/v1/gpunodes/"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def placeholders():
    """Placeholders that are not terminating."""
    items = cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector=app.kubernetes.io/name=divvy-placeholder")
    return [p for p in items["items"] if not p["metadata"].get("deletionTimestamp")]


def held():
    """{uuid: placeholder} of devices that accept tenants"""
    return {d["uuid"]: d["placeholder"] for d in daemon.status().get("devices") or [] if d["owner"] == "pool"}


def natives():
    """Devices that the kubelet has given to pods of the other plugin, placeholders included."""
    with open(
        os.path.join(cluster.node.kubelet_dir, "device-plugins/kubelet_internal_checkpoint"), encoding="utf-8"
    ) as f:
        entries = json.load(f)["Data"]["PodDeviceEntries"] or []
    found = {}
    for e in entries:
        if e["ResourceName"] == "nvidia.com/gpu":
            ids = e["DeviceIDs"]
            found.setdefault(e["PodUID"], []).extend(ids if isinstance(ids, list) else sum(ids.values(), []))
    return found


def native(name, devices=1, **spec):
    limits = {"nvidia.com/gpu": str(devices)}
    cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "command": ["/bin/spin"],
                        "args": ["--help"],
                        "resources": {"limits": limits},
                    }
                ],
                **spec,
            },
        },
    )


def shared(name, request, seconds=600, restart="Never"):
    cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {"divvy.gpu/request": request, "divvy.gpu/memory": "4Gi"}},
            "spec": {
                "restartPolicy": restart,
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "args": ["--kernel-us=500", f"--duration={seconds}"],
                    }
                ],
            },
        },
    )


def device_of(name):
    return daemon.tenant(name)["devices"][0]


def alone_on_its_device(tenant):
    """(uuid, placeholder), when divvy has no other device: only divvyd knows a placeholder before it is reported."""
    uuid = device_of(tenant)
    wait_for(
        lambda: len(placeholders()) == 1 and list(held()) == [uuid], "divvy has only the tenant's device", KUBELET_S
    )
    return uuid, held()[uuid]


class Offers:
    """The node's offers while a test watches them: {(slots, milli)}."""

    def __init__(self):
        self.seen, self.ready = set(), threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()
        assert self.ready.wait(patience())

    def watch(self):
        with contextlib.suppress(OSError):  # the cluster is shut down
            while True:  # a server ends each watch after some time
                with cluster.watch(
                    "/api/v1/nodes", timeout=patience(1800), fieldSelector=f"metadata.name={cluster.node_name}"
                ) as events:
                    self.ready.set()
                    for event in events:
                        have = event["object"].get("status", {}).get("allocatable")
                        if have:  # else a bookmark
                            self.seen.add((have.get("divvy.gpu/slot"), have.get("divvy.gpu/milli")))


def at_first_divvy_owns_no_device():
    wait_for(
        lambda: {d["owner"] for d in daemon.status().get("devices") or []} == {"native"}, "divvy owns none", KUBELET_S
    )
    assert daemon.status()["owner"] == "pool"
    assert daemon.condition("OwnerConflict")["status"] == "False"
    assert not placeholders()


def slots_are_offered_before_a_device_is_taken():
    """The kubelet reports new devices only every few seconds: a waiting pod would wait for that, too."""
    wait_for(
        lambda: cluster.get(f"/api/v1/nodes/{cluster.node_name}")["status"]["allocatable"].get("divvy.gpu/milli")
        == "2k"
        and daemon.slots_offered() == SLOTS,
        "all are offered",
    )
    world["offers"] = Offers()


def a_device_is_taken_when_a_pod_waits():
    native("native")
    wait_for(lambda: natives(), "the native pod has a device", KUBELET_S)
    shared("one", "0.5")
    wait_for_pod(cluster, "one", "Running")
    assert len(placeholders()) == 1 and list(held()) == [device_of("one")]
    theirs = natives()[cluster.pod("native")["metadata"]["uid"]]
    assert device_of("one") not in theirs, theirs
    shared("two", "0.4")
    wait_for_pod(cluster, "two", "Running")
    assert device_of("two") == device_of("one") and len(placeholders()) == 1


def a_native_pod_is_no_unmanaged_process():
    """divvyd's audits report an unmanaged process on a device of divvy, and none on a device of the other plugin."""
    ours = device_of("one")
    native_device = next(u for u in daemon.devices() if u != ours)
    with daemon.stranger(native_device) as allowed, daemon.stranger(ours) as stranger:
        wait_for(
            lambda: any(
                f"process {stranger.pid} (spin) uses device {ours}" in m
                for m in events_of(cluster, cluster.node_name).get("UnmanagedProcess", [])
            ),
            "an Event names the unmanaged process",
            KUBELET_S,
        )
        told = events_of(cluster, cluster.node_name)["UnmanagedProcess"]
        assert allowed.poll() is None and not any(native_device in m for m in told), told
        wait_for(lambda: "1 unmanaged process" in daemon.condition("Audited").get("message", ""), "a condition, too")
    wait_for(
        lambda: daemon.condition("Audited")["status"] == "True",
        "the audit finds no unmanaged process any more",
        KUBELET_S,
    )


def a_killed_placeholder_comes_back():
    name = placeholders()[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{SYSTEM}/pods/{name}"
    cluster.wait_for_pod(name, "Running", namespace=SYSTEM)
    os.kill(pid_of(name), signal.SIGKILL)

    def restarted():
        status = cluster.get(path)["status"]["containerStatuses"][0]
        return status["restartCount"] == 1 and "running" in status["state"]

    wait_for(restarted, "the kubelet has restarted the container", KUBELET_S)
    assert list(held().values()) == [name]
    for tenant in ("one", "two"):
        before = daemon.used(tenant)
        wait_for(lambda t=tenant, b=before: daemon.used(t) > b, f"{tenant} has not noticed")


def pid_of(placeholder):
    """The pid of its program."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            if b"--placeholder" not in words:
                continue
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = f.read().split(b"\0")
        except OSError:
            continue
        if b"POD_NAME=" + placeholder.encode() in env:
            return int(pid)
    raise AssertionError(f"{placeholder} has no process")


def a_deleted_placeholder_waits_for_its_tenants():
    """Deletes a placeholder gracefully, as a drain of its node does."""
    name = placeholders()[0]["metadata"]["name"]
    cluster.delete(f"/api/v1/namespaces/{SYSTEM}/pods/{name}")
    wait_for(lambda: not held(), "the device takes no new tenants")
    delete_pod(cluster, "two")
    wait_for(lambda: "two/main" not in daemon.tenants(), "the first tenant has ended")
    before = daemon.used("one")
    wait_for(lambda: daemon.used("one") > before, "the second tenant continues")
    assert cluster.exists(f"/api/v1/namespaces/{SYSTEM}/pods/{name}")
    shared("three", "0.5")
    delete_pod(cluster, "one")
    wait_for(
        lambda: not cluster.exists(f"/api/v1/namespaces/{SYSTEM}/pods/{name}"), "the placeholder is deleted", KUBELET_S
    )
    wait_for_pod(cluster, "three", "Running")
    # The controller may have created another placeholder before this placeholder's device was free.
    # The other one is given back.
    wait_for(lambda: len(placeholders()) == 1, "one placeholder is left", KUBELET_S)
    assert name not in held().values(), (name, held())


def a_force_deleted_placeholder_ends_its_tenants():
    """divvyd ends the placeholder's tenants, so that no pod of the other plugin finds a tenant on its device."""
    name, uuid = placeholders()[0]["metadata"]["name"], device_of("three")
    cluster.delete(f"/api/v1/namespaces/{SYSTEM}/pods/{name}", grace_s=0)
    wait_for(lambda: "three/main" not in daemon.tenants(), "divvyd has ended the tenant's processes", 30)
    wait_for(lost, "an Event says so", 30)
    wait_for(
        lambda: not cluster.exists(f"/api/v1/namespaces/{cluster.namespace}/pods/three"),
        "the tenant's pod is deleted",
        KUBELET_S,
    )
    assert name not in held().values(), (held(), uuid)


def an_idle_device_is_given_back():
    shared("brief", "0.5", seconds=1)
    wait_for_pod(cluster, "brief", "Succeeded")
    wait_for(lambda: not placeholders() and not held(), "the device is returned", KUBELET_S)


def a_reserved_device_is_ready():
    cluster.patch(SPEC + cluster.node_name, {"spec": {"pool": {"policy": "reservation", "reserve": 1}}})
    wait_for(lambda: len(held()) == 1, "the pool has a device before any pod asks", KUBELET_S)
    shared("ready", "1")
    wait_for_pod(cluster, "ready", "Running")
    delete_pod(cluster, "native")
    cluster.patch(SPEC + cluster.node_name, {"spec": {"pool": {"policy": "onDemand", "reserve": 0}}})
    delete_pod(cluster, "ready")
    wait_for(lambda: not placeholders() and not held(), "on demand again, the device is returned", KUBELET_S)


def is_leaving(placeholder):
    return cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{placeholder}")["metadata"].get("deletionTimestamp")


def hybrid_keeps_one_idle_device():
    cluster.patch(SPEC + cluster.node_name, {"spec": {"pool": {"policy": "hybrid", "reserve": 1}}})
    for name in ("left", "right"):
        shared(name, "0.8")
        wait_for_pod(cluster, name, "Running")
    assert len(held()) == 2, held()
    for name in ("left", "right"):
        delete_pod(cluster, name)
    wait_for(
        lambda: len(placeholders()) == 1 and len(held()) == 1, "the devices beyond the reserve are returned", KUBELET_S
    )


def an_evicted_placeholder_waits_for_its_tenants():
    (kept,) = held().values()
    shared("evicted", "0.5")
    wait_for_pod(cluster, "evicted", "Running")
    assert held()[device_of("evicted")] == kept, (held(), kept)
    cluster.create(
        f"/api/v1/namespaces/{SYSTEM}/pods/{kept}/eviction",
        {"apiVersion": cluster.api_version("Eviction"), "kind": "Eviction", "metadata": {"name": kept}},
    )
    assert is_leaving(kept)
    before = daemon.used("evicted")
    wait_for(lambda: daemon.used("evicted") > before, "the tenant continues")
    delete_pod(cluster, "evicted")
    wait_for(lambda: not placeholders() and not held(), "the placeholder has ended", KUBELET_S)
    cluster.patch(SPEC + cluster.node_name, {"spec": {"pool": {"policy": "onDemand", "reserve": 0}}})


def a_preempted_placeholder_waits_for_its_tenants():
    """Only the system's own pods can preempt; they wait as well."""
    shared("last", "0.5")
    wait_for_pod(cluster, "last", "Running")
    name = held()[device_of("last")]
    native("critical", 2, priorityClassName="system-node-critical")
    wait_for(lambda: is_leaving(name), "the placeholder is terminating", KUBELET_S)
    before = daemon.used("last")
    wait_for(lambda: daemon.used("last") > before, "the tenant continues")
    assert not cluster.pod("critical")["spec"].get("nodeName") and not cluster.pod("last")["metadata"].get(
        "deletionTimestamp"
    )
    delete_pod(cluster, "last")
    wait_for(lambda: cluster.pod("critical")["spec"].get("nodeName"), "the preemptor is placed", KUBELET_S)
    wait_for(
        lambda: len(natives().get(cluster.pod("critical")["metadata"]["uid"], [])) == 2,
        "the preemptor has both devices",
        KUBELET_S,
    )
    assert not held(), held()
    delete_pod(cluster, "critical")
    wait_for(
        lambda: not cluster.exists(f"/api/v1/namespaces/{cluster.namespace}/pods/critical"),
        "the preemptor is deleted",
        KUBELET_S,
    )


def a_placeholder_obeys_a_signal_sent_before_its_start():
    """A container's first process receives only signals that it handles: an earlier signal would be lost."""
    name, path = "told-early", f"/api/v1/namespaces/{SYSTEM}/pods"
    log = os.path.join(cluster.dir, "told-early.log")
    cluster.create(
        path,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeName": "nowhere",
                "terminationGracePeriodSeconds": 600,
                "containers": [{"name": "main", "image": IMAGE}],
            },
        },
    )
    cluster.delete(f"{path}/{name}")
    kubeconfig = cluster.service_account(SYSTEM, "divvy-placeholder").kubeconfig
    with open(log, "w", encoding="utf-8") as out, subprocess.Popen(
        [CONTROLLER, "--placeholder", f"--kubeconfig={kubeconfig}"],
        stderr=out,
        env={"POD_NAME": name, "NODE_NAME": cluster.node_name, "PATH": os.environ["PATH"]},
    ) as program:
        try:
            wait_for(lambda: "asked to exit" in read(log), "the placeholder has received the signal")
            assert program.poll() is None, read(log)
            cluster.patch(f"{path}/{name}", {"metadata": {"annotations": {"divvy.gpu/released": "true"}}})
            assert program.wait(patience()) == 0, read(log)
        finally:
            program.kill()
            cluster.delete(f"{path}/{name}", grace_s=0)


def the_nodes_offers_stayed_constant():
    assert world["offers"].seen == {(str(SLOTS), "2k")}, world["offers"].seen


def a_placeholder_force_deleted_without_divvyd_ends_its_tenants_too():
    shared("four", "0.5")
    wait_for_pod(cluster, "four", "Running")
    uuid, name = alone_on_its_device("four")
    cluster.kill("divvyd")
    cluster.delete(f"/api/v1/namespaces/{SYSTEM}/pods/{name}", grace_s=0)
    native("next", 2)
    wait_for(
        lambda: uuid in natives().get(cluster.pod("next")["metadata"]["uid"], []),
        "a native pod has both devices",
        KUBELET_S,
    )
    daemon.start()
    wait_for(
        lambda: any(uuid in m for m in events_of(cluster, "four").get("PlaceholderLost", [])),
        "the tenant's processes have been ended",
        KUBELET_S,
    )
    wait_for(
        lambda: not cluster.exists(f"/api/v1/namespaces/{cluster.namespace}/pods/four"),
        "the tenant's pod is deleted",
        KUBELET_S,
    )
    delete_pod(cluster, "next")


def stays(name, tenant, seconds=12):
    """Checks that placeholder and tenant stay, for longer than the pool keeps an idle placeholder."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not is_leaving(name), f"{name} is terminating"
        assert cluster.pod(tenant)["status"]["phase"] == "Running", cluster.pod(tenant)["status"]
        time.sleep(1)


def ending_the_pool_takes_no_device_from_tenants():
    """Ends the pool in GPUNode.spec. Then removes divvyd and GPUNode: nothing shows the placeholder's device."""
    shared("five", "0.5")
    wait_for_pod(cluster, "five", "Running")
    _, name = alone_on_its_device("five")
    cluster.patch(SPEC + cluster.node_name, {"spec": {"pool": None}})
    wait_for(lambda: not held(), "the device takes no new tenants", KUBELET_S)
    before = daemon.used("five")
    stays(name, "five")
    assert daemon.status()["owner"] == "pool" and daemon.used("five") > before, daemon.status()
    cluster.kill("divvyd")
    cluster.delete(SPEC + cluster.node_name)
    stays(name, "five")
    # After a deletion by another account the placeholder still waits until the controller marks that no tenant is left.
    cluster.delete(f"/api/v1/namespaces/{SYSTEM}/pods/{name}")
    native("wants", 2)
    time.sleep(5)
    assert cluster.exists(f"/api/v1/namespaces/{SYSTEM}/pods/{name}")
    assert not natives().get(cluster.pod("wants")["metadata"]["uid"]), natives()
    delete_pod(cluster, "five")
    wait_for(
        lambda: not cluster.exists(f"/api/v1/namespaces/{SYSTEM}/pods/{name}"), "the placeholder is deleted", KUBELET_S
    )
    wait_for(
        lambda: len(natives().get(cluster.pod("wants")["metadata"]["uid"], [])) == 2,
        "the native pod has both devices",
        KUBELET_S,
    )
    delete_pod(cluster, "wants")
    cluster.patch(
        SPEC + cluster.node_name, {"spec": {"simulate": daemon.simulate}}
    )  # the controller has created it anew
    daemon.start()
    daemon.await_ready()


def lost():
    return sorted(events_of(cluster, cluster.node_name).get("PlaceholderLost", []))


def a_slow_kubelet_ends_no_tenant():
    """While the kubelet does not tell a new divvyd the devices' owners, the owners stay the same."""
    shared("six", "0.5")
    wait_for_pod(cluster, "six", "Running")
    alone_on_its_device("six")
    ours = held()
    kubelet = cluster.pid("kubelet")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        cluster.kill("divvyd")
        daemon.start()
        wait_for(daemon.answers, "divvyd answers", KUBELET_S)
        wait_for(
            lambda: daemon.condition("Ready")["status"] == "False",
            "divvyd has reported that the node is not ready",
            KUBELET_S,
        )
        time.sleep(3)  # the controller would have acted by now
        assert {d.get("placeholder") for d in daemon.status()["devices"]} >= set(ours.values()), daemon.status()[
            "devices"
        ]
        assert not cluster.pod("six")["metadata"].get("deletionTimestamp"), events_of(cluster, "six")
    finally:
        os.kill(kubelet, signal.SIGCONT)
    wait_for(lambda: held() == ours, "the device is divvy's", KUBELET_S)
    before = daemon.used("six")
    wait_for(lambda: daemon.used("six") > before, "the tenant computes", KUBELET_S)
    delete_pod(cluster, "six")
    wait_for(lambda: not placeholders() and not held(), "the device is returned", KUBELET_S)


def told(name):
    """The pod's output; empty while a kubelet that has just started does not know the pod yet."""
    try:
        return cluster.log_of(name)
    except ApiError as e:
        if e.code != 404:
            raise
        return ""


def restarted_pods_are_rejected(uuids):
    """Kubelets since Kubernetes 1.25 ask for devices before any plugin can have registered."""

    def rejected(name):
        status = cluster.pod(name)["status"]
        return status["phase"] == "Failed" and status.get("reason") == "UnexpectedAdmissionError"

    for name in ("stays", "beside"):
        wait_for(lambda name=name: rejected(name), f"{name} is rejected", KUBELET_S)
    wait_for(lambda: not placeholders(), "the controller deletes the rejected placeholder", KUBELET_S)
    daemon.start()
    wait_for(daemon.answers, "divvyd answers again", KUBELET_S)
    start_plugin(cluster, "nvidia.com/gpu", uuids)
    shared("after", "0.4")
    wait_for(lambda: cluster.pod("after")["status"]["phase"] == "Running", "a new pod runs", KUBELET_S)
    wait_for(lambda: list(held()) == [device_of("after")], "another placeholder has its device", KUBELET_S)
    for name in ("stays", "ends", "after", "beside"):
        delete_pod(cluster, name)
    wait_for(lambda: not placeholders() and not held(), "the device is given back", KUBELET_S)


def the_node_restarts_while_tenants_run():
    shared("stays", "0.5", restart="Always")
    shared("ends", "0.4")
    native("beside")
    for name in ("stays", "ends"):
        wait_for_pod(cluster, name, "Running")
    wait_for(
        lambda: cluster.pod("beside")["metadata"]["uid"] in natives(), "a native pod has the other device", KUBELET_S
    )
    alone_on_its_device("stays")
    ours, uuids, theirs, lost_before = held(), daemon.devices(), natives(), lost()
    assert device_of("stays") == device_of("ends") and list(ours) == [device_of("stays")], ours
    before = daemon.used("stays")
    wait_for(lambda: daemon.used("stays") > before, "the tenant computes")
    for part in ("divvyd", "fake-plugin"):
        cluster.kill(part)
    daemon.cut_power()
    cluster.node.cut_power()
    cluster.node.boot()
    if cluster.minor >= 25:
        restarted_pods_are_rejected(uuids)
        return
    wait_for(
        lambda: "no GPU for this program: divvyd does not answer" in told("stays"),
        "the kubelet restarts the container before divvyd runs, and the program has no device",
        KUBELET_S,
    )
    daemon.start()
    wait_for(daemon.answers, "divvyd answers again", KUBELET_S)
    start_plugin(cluster, "nvidia.com/gpu", uuids)
    wait_for(
        lambda: cluster.pod("ends")["status"]["phase"] == "Failed", "the pod with restartPolicy Never has failed", 120
    )
    wait_for(lambda: daemon.got("stays") > 0, "the restarted container computes", 180)
    assert device_of("stays") in ours, (device_of("stays"), ours)
    wait_for(lambda: held() == ours, "the placeholder still has its device", KUBELET_S)
    assert natives() == theirs, (natives(), theirs)
    assert lost() == lost_before, lost()
    wait_for(lambda: list(daemon.tenants()) == ["stays/main"], "the grant of the failed pod has ended", KUBELET_S)
    shared("after", "0.4")
    wait_for_pod(cluster, "after", "Running")
    assert device_of("after") in ours, (device_of("after"), ours)
    for name in ("stays", "ends", "after", "beside"):
        delete_pod(cluster, name)
    wait_for(lambda: not placeholders() and not held(), "the device is returned", KUBELET_S)


try:
    with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS) as cluster:
        with installed(cluster, args=[f"--placeholder-image={PLACEHOLDER_IMAGE}"]), Scheduled(cluster) as rig:
            make_image(cluster)
            image_of(cluster, PLACEHOLDER_IMAGE, CONTROLLER)
            daemon = Daemon(cluster, simulate="2xH200-141Gi", account=bound_account(cluster))
            daemon.make_gpu_node(pool={"policy": "onDemand"})
            cluster.patch(f"/api/v1/nodes/{cluster.node_name}", {"metadata": {"labels": {"divvy.gpu/owner": "pool"}}})
            rig.start()
            daemon.start()
            daemon.await_ready()
            start_plugin(cluster, "nvidia.com/gpu", daemon.devices())
            main(
                at_first_divvy_owns_no_device,
                slots_are_offered_before_a_device_is_taken,
                a_device_is_taken_when_a_pod_waits,
                a_native_pod_is_no_unmanaged_process,
                a_killed_placeholder_comes_back,
                a_deleted_placeholder_waits_for_its_tenants,
                a_force_deleted_placeholder_ends_its_tenants,
                an_idle_device_is_given_back,
                a_reserved_device_is_ready,
                hybrid_keeps_one_idle_device,
                an_evicted_placeholder_waits_for_its_tenants,
                a_preempted_placeholder_waits_for_its_tenants,
                the_nodes_offers_stayed_constant,
                a_placeholder_obeys_a_signal_sent_before_its_start,
                a_placeholder_force_deleted_without_divvyd_ends_its_tenants_too,
                ending_the_pool_takes_no_device_from_tenants,
                a_slow_kubelet_ends_no_tenant,
                the_node_restarts_while_tenants_run,
            )
except Skip as reason:
    skip_all(reason)
