#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvyd on a real kubelet: pods get exactly their assigned shares."""

import contextlib
import datetime
import itertools
import os
import signal
import socket
import ssl
import subprocess
import threading
import time

from cluster import NODE_OF_OURS, Skip, main, open_cluster, skip_all, wait_for
from divvyd import (
    BUILD,
    DIVVY,
    GIB,
    IMAGE,
    Daemon,
    bind,
    create_pod,
    delete_pod,
    events_of,
    given,
    install,
    make_image,
    run_pod,
    wait_for_pod,
)
from plugin import start_plugin
from tap import alive, fairly, patience


DEVICES = 4  # for tests that run at the same time; the others use the first
SLOTS = 64 * DEVICES
CDI_MINOR = 29  # kubelets pass CDI names to the runtime since this version by default


def device(n=0):
    return daemon.devices()[n : n + 1]


def a_node_reports_its_devices():
    daemon.await_ready()
    status = daemon.status()
    assert len(status["devices"]) == DEVICES, status
    for each in status["devices"]:
        assert (each["model"], each["simulated"], each["health"]) == ("NVIDIA H200", True, "Healthy"), each
    assert status["slots"] == {"total": SLOTS, "used": 0} and status["owner"] == "divvy", status
    wait_for(lambda: daemon.slots_offered() == SLOTS, f"the kubelet offers {SLOTS} slots")
    lease = cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases/{cluster.node_name}")
    assert lease["spec"]["leaseDurationSeconds"] == 40, lease


def make_card(speed):
    """sysfs files of a network card and of its RDMA device."""
    files = {
        "class/net/eth0/type": "1",
        "class/net/eth0/operstate": "up",
        "class/net/eth0/speed": speed,
        "class/net/eth0/device/vendor": "0x15b3",
        "class/infiniband/mlx5_0/device/vendor": "0x15b3",
        "class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
        "class/infiniband/mlx5_0/ports/1/rate": "25 Gb/sec (1X EDR)",
        "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0": "eth0",
    }
    for name, text in files.items():
        path = os.path.join(SYS, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(text + "\n")


def networks():
    """{name: (kind, capacity, free, link)}"""
    return {
        n["name"]: (n["kind"], n["capacityMbps"], n["freeMbps"], n.get("link"))
        for n in daemon.status()["network"]["devices"]
    }


def a_node_reports_its_networks():
    wait_for(
        lambda: networks() == {"eth0": ("host", 10000, 10000, None), "mlx5_0": ("rdma", 25000, 25000, "eth0")},
        "GPUNode has both network devices",
    )
    make_card("25000")
    keys = {
        **given(device(), request="0.1", memory="1Gi", epoch="7"),
        "divvy.gpu/granted-mode": "main=remote",
        "divvy.gpu/remote-node": "main=elsewhere",
        "divvy.gpu/granted-network": "main=mlx5_0,ib0,4Gbps",
    }
    run_pod(cluster, "afar", (), keys)
    wait_for(
        lambda: networks() == {"eth0": ("host", 25000, 21000, None), "mlx5_0": ("rdma", 25000, 21000, "eth0")},
        "the remote pod's bandwidth is reserved",
        90,
    )
    refused("afar", "node elsewhere does not serve its devices to other nodes")
    wait_for(lambda: networks()["eth0"][2] == 25000, "the bandwidth is free again", 60)


def two_pods_have_their_shares():
    uuid = device()
    # Long kernels: the tenants keep their shares on a busy machine, which delays short kernels.
    args = ("--kernel-us=2000", "--duration=25")
    looks = itertools.count(1)

    def look():
        nth = next(looks)
        low, high = f"low-{nth}", f"high-{nth}"
        for name, share in ((low, "0.3"), (high, "0.7")):
            run_pod(cluster, name, args, given(uuid, request=share))
        for name in (low, high):
            wait_for_pod(cluster, name, "Running")
        wait_for(
            lambda: all(t["processes"] for t in daemon.listed().values()) and len(daemon.listed()) == 2,
            "both programs have registered",
        )
        wait_for(lambda: {f"{low}/main", f"{high}/main"} <= set(daemon.tenants()), "GPUNode has both tenants")
        tenants = daemon.tenants()
        assert tenants[f"{low}/main"]["request"] == 300, tenants
        assert tenants[f"{high}/main"]["memoryBytes"] == [8 * GIB], tenants
        time.sleep(11)
        shares, ran = daemon.shares(**{low: 0.3, high: 0.7})
        print(f"# of {ran:.2f}: {shares}")
        for name in (low, high):
            wait_for_pod(cluster, name, "Succeeded")
        wait_for(lambda: not daemon.tenants(), "both grants have ended")
        assert "Granted" in events_of(cluster, low)
        # If other tests keep one tenant off the processor, the other tenant uses its device time. The
        # tolerance includes that.
        return None if ran > 0.5 and abs(shares[low] - 0.3) < 0.02 + 0.3 * (1 - min(ran, 1)) else (shares, ran)

    fairly(look, 2)


def a_slow_disk_keeps_the_container_waiting_and_nobody_else():
    """The files of a slot are new at its first use: the kubelet is answered when they are on the disk."""
    with open(DISK, "w", encoding="utf-8"):
        pass
    try:
        run_pod(cluster, "patient", ("--count=1",), given(device()))
        wait_for(lambda: os.path.exists(DISK + ".waits"), "the slow disk gets a write")
        for _ in range(3):
            subprocess.run(
                [DIVVY, "ps", "--socket", os.path.join(daemon.runtime, "divvyd.sock")],
                check=True,
                capture_output=True,
                timeout=patience(5),
            )
        assert "patient/main" not in daemon.tenants(), daemon.tenants()
        assert cluster.pod("patient")["status"]["phase"] == "Pending", cluster.pod("patient")["status"]
    finally:
        os.remove(DISK)
    wait_for_pod(cluster, "patient", "Succeeded")
    wait_for(lambda: not daemon.tenants(), "the grant has ended")


def a_pod_cannot_exceed_its_memory_quota():
    """A pod that allocates beyond its quota gets the error, and its neighbour goes on."""
    uuid = device()
    run_pod(cluster, "good", ("--kernel-us=500", "--memory=4096"), given(uuid, memory="6Gi"))
    wait_for_pod(cluster, "good", "Running")
    run_pod(cluster, "greedy", ("--kernel-us=500", "--memory=4096"), given(uuid, memory="2Gi"))
    wait_for_pod(cluster, "greedy", "Failed")
    assert "CUDA_ERROR_OUT_OF_MEMORY" in cluster.log_of("greedy")
    wait_for(lambda: events_of(cluster, "greedy").get("OverMemory"), "an Event reports the refused allocation")
    said = events_of(cluster, "greedy")["OverMemory"][0]
    assert "container main: allocation refused: quota 2" in said and uuid[0] in said, said
    assert "OverMemory" not in events_of(cluster, "good")
    wait_for(lambda: "greedy/main" not in daemon.tenants(), "the grant of greedy has ended")
    before = daemon.used("good")
    wait_for(lambda: daemon.used("good") > before, "the program of good continues")
    assert cluster.pod("good")["status"]["phase"] == "Running"
    stop_pod("good")


def stop_pod(*names):
    for name in names:
        delete_pod(cluster, name)
    wait_for(lambda: not any(f"{name}/main" in daemon.tenants() for name in names), "the grants have ended")


def refused(name, why):
    """The pod's container does not start, and an Event gives the reason."""
    wait_for(lambda: any(why in m for m in events_of(cluster, name).get("GrantRefused", [])), f"{name}: {why}", 60)
    assert f"{name}/main" not in daemon.tenants()
    for status in cluster.pod(name)["status"].get("containerStatuses", []):
        assert "waiting" in status["state"], status
    delete_pod(cluster, name, grace_s=0)


def an_impossible_grant_is_refused_with_a_message():
    uuid = device(1)
    run_pod(cluster, "most", ("--kernel-us=500",), given(uuid, request="0.9", memory="8Gi", epoch="7"))
    wait_for_pod(cluster, "most", "Running")
    run_pod(cluster, "much", (), given(uuid, request="0.2", epoch="7"))
    run_pod(cluster, "large", (), given(uuid, request="0.1", memory="140Gi", epoch="7"))
    run_pod(cluster, "old", (), given(uuid, request="0.1", epoch="6"))
    run_pod(cluster, "strange", (), given(["GPU-0"], request="0.1", epoch="7"))
    run_pod(cluster, "nothing", (), {})
    run_pod(cluster, "other", (), given(uuid, container="side", request="0.1", epoch="7"))
    refused("old", "older than 7")
    refused("strange", "no device GPU-0")
    refused("other", "container 'main' has no assigned devices")
    refused("much", "0.1 free")
    refused("large", "free for quotas")
    refused("nothing", "the pod has no assigned devices")
    assert daemon.status()["epoch"] == 7
    stop_pod("most")


def pods_of_exempt_namespaces_get_no_slot():
    space = cluster.new_namespace(**{"divvy.gpu/admission": "ignore"})
    mine, cluster.namespace = cluster.namespace, space
    try:
        run_pod(cluster, "alone", (), given(device(), epoch="5"))
        refused("alone", "divvy.gpu/admission=ignore")
    finally:
        cluster.namespace = mine


def a_resize_takes_effect_while_the_pod_runs():
    uuid = device()
    run_pod(cluster, "changes", ("--kernel-us=2000",), given(uuid, request="0.2", limit="0.4", epoch="5"))
    wait_for_pod(cluster, "changes", "Running")
    wait_for(lambda: 350 < daemon.got("changes") < 450, "the pod gets its limit")
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/changes/status"
    new = given(uuid, request="0.3", limit="0.7", memory="9Gi", epoch="6", granted_class="latency")
    began = time.monotonic()
    cluster.patch(path, {"metadata": {"annotations": new}}, "strategic")
    wait_for(lambda: daemon.tenant("changes")["limit"] == 700, "GPUNode shows the new limit")
    print(f"# confirmed after {time.monotonic() - began:.2f} s")
    tenant = daemon.tenant("changes")
    assert (tenant["request"], tenant["memoryBytes"], tenant["class"], tenant["epoch"]) == (
        300,
        [9 * GIB],
        "latency",
        6,
    ), tenant
    wait_for(lambda: 650 < daemon.got("changes") < 750, "the pod gets the new limit")
    cluster.patch(path, {"metadata": {"annotations": given(["GPU-0"], request="0.3", epoch="6")}}, "strategic")
    wait_for(lambda: "no device GPU-0" in daemon.tenant("changes").get("note", ""), "a note names the wrong device")
    assert daemon.tenant("changes")["limit"] == 700
    assert "GrantDiffers" in events_of(cluster, "changes")
    cluster.patch(path, {"metadata": {"annotations": new}}, "strategic")
    wait_for(lambda: "note" not in daemon.tenant("changes"), "the note is gone")
    stop_pod("changes")


def a_container_that_starts_again_keeps_its_tenant():
    run_pod(cluster, "again", ("--kernel-us=500", "--duration=1"), given(device(2), epoch="7"), restartPolicy="Always")
    wait_for(
        lambda: cluster.pod("again")["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) > 0,
        "the container has restarted",
    )
    first = daemon.listed()["again"]["id"]
    wait_for(
        lambda: cluster.pod("again")["status"]["containerStatuses"][0]["restartCount"] > 1,
        "the container has restarted once more",
        90,
    )
    assert daemon.listed()["again"]["id"] == first
    stop_pod("again")


def restart_of(name):
    return (cluster.pod(name)["status"].get("containerStatuses") or [{}])[0].get("restartCount", 0)


def a_container_that_its_rules_restart_keeps_its_tenant():
    """The pods' own policy is Never. The container's rule or policy restarts it alone, or with all others."""
    if cluster.minor < 36:
        raise Skip("kubelets restart all containers of a pod by a rule since Kubernetes 1.36")
    ended = {"exitCodes": {"operator": "In", "values": [0]}}
    fields = {
        "by-rule": {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", **ended}]},
        "by-policy": {"restartPolicy": "Always"},
        "all": {"restartPolicy": "Never", "restartPolicyRules": [{"action": "RestartAllContainers", **ended}]},
    }
    for name, more in fields.items():
        run_pod(
            cluster,
            name,
            ("--kernel-us=500", "--duration=1"),
            given(device(2), request="0.1", memory="1Gi", epoch="7"),
            container=more,
        )
    wait_for(lambda: all(restart_of(name) > 0 for name in fields), "the containers have restarted", 120)
    ids = {name: daemon.listed()[name]["id"] for name in fields}
    used = {name: daemon.used(name) for name in fields}
    wait_for(lambda: all(restart_of(name) > 1 for name in fields), "the containers have restarted once more", 180)
    assert {name: daemon.listed()[name]["id"] for name in fields} == ids
    wait_for(lambda: all(daemon.used(name) > used[name] for name in fields), "the programs compute", 120)
    stop_pod(*fields)


def a_killed_daemon_finds_its_tenants_again():
    uuid = device()
    for name, share in (("stays", "0.3"), ("goes", "0.6")):
        run_pod(cluster, name, ("--kernel-us=500",), given(uuid, request=share, epoch="7"))
    for name in ("stays", "goes"):
        wait_for_pod(cluster, name, "Running")
    wait_for(lambda: all(p["processes"] for p in daemon.listed().values()), "both have registered")
    before = daemon.listed()
    cluster.kill("divvyd")
    delete_pod(cluster, "goes", grace_s=0)
    daemon.start()
    wait_for(lambda: "goes/main" not in daemon.tenants(), "the grant of the deleted pod has ended")
    daemon.await_ready()
    after = daemon.listed()
    assert after["stays"]["id"] == before["stays"]["id"] and "goes" not in after, after
    wait_for(
        lambda: daemon.listed()["stays"]["processes"] and not daemon.listed()["stays"]["processes"][0]["orphan"],
        "the program has registered again",
    )
    used = daemon.used("stays")
    wait_for(lambda: daemon.used("stays") > used, "the program continues")
    assert daemon.status()["epoch"] == 7
    assert cluster.pod("stays")["status"]["containerStatuses"][0]["restartCount"] == 0
    # The restarted daemon still counts the grant of "stays", so a second pod with 0.8 of the device is refused.
    run_pod(cluster, "twice", (), given(uuid, request="0.8", epoch="7"))
    refused("twice", "0.7 free")
    stop_pod("stays")


def accounted():
    """The namespace's accounts, by day: requested, granted and used time."""
    rows = [a for a in daemon.status().get("accounts") or [] if a["namespace"] == cluster.namespace]
    return tuple(sum(a[f"{k}Milliseconds"] for a in rows) for k in ("requested", "granted", "used"))


def accounts_continue_after_a_restart():
    """divvyd writes accounts once a minute, by now those of earlier tests. A kill loses seconds at most."""
    run_pod(cluster, "counted", ("--kernel-us=500",), given(device(), request="0.5", epoch="7"))
    wait_for_pod(cluster, "counted", "Running")
    wait_for(lambda: all(accounted()), "the namespace has accounts", 120)
    before = accounted()
    assert before[0] >= before[1], f"asked {before[0]}, granted {before[1]}"
    cluster.kill("divvyd")
    daemon.start()
    daemon.await_ready()
    wait_for(lambda: accounted() != before, "the accounts grow after the restart", 120)
    after = accounted()
    assert all(now >= was for now, was in zip(after, before)), (before, after)
    wait_for(lambda: all(now > was for now, was in zip(accounted(), before)), "all three accounts have grown", 120)
    stop_pod("counted")


def environment_of(name):
    """The environment of the pod's program."""
    process = wait_for(lambda: daemon.listed()[name]["processes"], f"{name} has registered")[0]
    with open(f"/proc/{process['pid']}/environ", encoding="utf-8") as f:
        return dict(pair.split("=", 1) for pair in f.read().split("\0") if pair)


def mount_options(name, place):
    """The options of a mount of the pod's program."""
    process = daemon.listed()[name]["processes"][0]
    with open(f"/proc/{process['pid']}/mountinfo", encoding="utf-8") as f:
        return next(set(words[5].split(",")) for words in map(str.split, f) if words[4] == place)


def cdi_files():
    return {n for n in os.listdir(os.path.join(cluster.node.dir, "cdi")) if n.startswith("divvy.gpu-slot_")}


def the_runtime_resolves_the_slots_cdi_name():
    """Kubelets that drop CDI names give the container the mounts alone, which are enough for it."""
    run_pod(cluster, "named", ("--kernel-us=500",), given(device(1), request="0.2", memory="2Gi", epoch="7"))
    wait_for_pod(cluster, "named", "Running")
    name = f"divvy.gpu-slot_{daemon.tenant('named')['slot']}.json"
    assert name in cdi_files(), cdi_files()
    found, options = environment_of("named"), mount_options("named", "/run/divvy-sim")
    resolved = cluster.minor >= CDI_MINOR
    assert found.get("DIVVY_DEVICES") == (device(1)[0] if resolved else None), found
    assert (found["DIVVY_SIM"], found["DIVVY_DRIVER"]) == ("/run/divvy-sim", "/opt/divvy/driver"), found
    # Only the CDI file's mount has these options.
    assert {"nosuid", "nodev"} <= options or not resolved, options
    stop_pod("named")
    wait_for(lambda: name not in cdi_files(), "the slot's CDI file is removed")


def a_container_gets_its_dialects_variables():
    """The variables of the dialect's own device plugin, and no neighbour's, although Allocate names no pod."""
    pods = {
        "hami": (
            "hami",
            "main/nvidia.com/gpumem=3000,main/nvidia.com/gpucores=20",
            "3000Mi",
            {"CUDA_DEVICE_MEMORY_LIMIT_0": "3000m", "CUDA_DEVICE_SM_LIMIT": "20"},
        ),
        "gpushare": (
            "gpushare",
            "main/aliyun.com/gpu-mem=2",
            "2Gi",
            {
                "ALIYUN_COM_GPU_MEM_IDX": "0",
                "ALIYUN_COM_GPU_MEM_POD": "2",
                "ALIYUN_COM_GPU_MEM_CONTAINER": "2",
                "ALIYUN_COM_GPU_MEM_DEV": str(daemon.status()["devices"][0]["memoryBytes"] // GIB),
            },
        ),
    }
    told = os.path.getsize(daemon.log)
    named = {k for _, _, _, want in pods.values() for k in want}
    pods["silent"] = ("", "", "2Gi", {})
    for name, (dialect, foreign, memory, _) in pods.items():
        run_pod(
            cluster,
            name,
            ("--kernel-us=500",),
            {
                **given(device(), request="0.2", memory=memory, epoch="7"),
                "divvy.gpu/dialects": dialect,
                "divvy.gpu/translated-from": foreign,
            },
        )
    for name, (*_, want) in pods.items():
        wait_for_pod(cluster, name, "Running")
        found = environment_of(name)
        assert {k: v for k, v in found.items() if k in named} == want, (name, found)
    stop_pod(*pods)
    with open(daemon.log, "rb") as f:
        f.seek(told)
        assert b"allocated without the variables" not in f.read()


def shared(name, memory="100Gi"):
    run_pod(
        cluster,
        name,
        ("--kernel-us=500",),
        given(device(), request="0.1", memory=memory, epoch="7", granted_memory_policy="wait"),
    )


def memory_overcommit_follows_the_policies():
    """The overcommit factor applies to tenants with memory policy wait, and the next daemon keeps their grants."""
    path = f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}"
    shared("alone")
    wait_for_pod(cluster, "alone", "Running")
    shared("unasked")
    refused("unasked", "memory 100Gi")
    stop_pod("alone")
    cluster.create(
        "/apis/divvy.gpu/v1/gpupolicies",
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "GPUPolicy",
            "metadata": {"name": "twice"},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
                "overcommit": {"memory": 2},
            },
        },
    )
    cluster.patch(
        f"/api/v1/namespaces/{cluster.namespace}",
        {"metadata": {"labels": {"kubernetes.io/metadata.name": cluster.namespace}}},
    )  # newer API servers set this label
    for name in ("one", "two"):
        shared(name)
        wait_for_pod(cluster, name, "Running")
    shared("three")
    refused("three", "memory 100Gi")
    cluster.patch(path, {"spec": {"overcommit": {"memory": 3}}})
    wait_for(
        lambda: daemon.status().get("observedGeneration") == cluster.get(path)["metadata"]["generation"],
        "divvyd has read the new spec",
    )
    shared("four")
    wait_for_pod(cluster, "four", "Running")
    cluster.patch(path, {"spec": {"overcommit": None}})
    cluster.kill("divvyd")
    daemon.start()
    daemon.await_ready()
    wait_for(
        lambda: all(daemon.listed().get(n, {}).get("processes") for n in ("one", "two", "four")),
        "all three programs have registered again",
        60,
    )
    cluster.delete("/apis/divvy.gpu/v1/gpupolicies/twice")
    stop_pod("one", "two", "four")


def another_pods_process_is_refused():
    """A process in another pod's cgroup connects to the socket of this pod's slot, and divvyd refuses it."""
    run_pod(cluster, "owner", ("--kernel-us=500",), given(device(), epoch="7"))
    wait_for_pod(cluster, "owner", "Running")
    slot = daemon.tenant("owner")["slot"]
    said = daemon.spin_by(slot)
    assert "is in no pod's cgroup" in said, said
    stop_pod("owner")


def cordoned_devices_take_no_new_tenant():
    path = f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}"
    cluster.patch(path, {"spec": {"cordoned": [{"uuid": u, "reason": "test"} for u in daemon.devices()]}})
    wait_for(lambda: daemon.slots_offered() == 0, "no slot is offered")
    assert "CordonUnknown" not in events_of(cluster, cluster.node_name)
    cluster.patch(path, {"spec": {"cordoned": [{"uuid": "GPU-0"}]}})
    wait_for(
        lambda: any("names device GPU-0," in m for m in events_of(cluster, cluster.node_name).get("CordonUnknown", [])),
        "an Event says that the node has no such device",
    )
    cluster.patch(path, {"spec": {"cordoned": None}})
    wait_for(lambda: daemon.slots_offered() == SLOTS, "all slots are offered again")


def a_device_without_a_placeholder_takes_no_tenant():
    """On a node of the pool, although the node offers slots all the time."""
    path = f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}"
    cluster.patch(path, {"spec": {"pool": {"policy": "onDemand"}}})
    wait_for(lambda: {d["owner"] for d in daemon.status()["devices"]} == {"native"}, "no device is divvy's")
    run_pod(cluster, "early", ("--kernel-us=500",), given(device(), epoch="7"))
    wait_for(
        lambda: any("no placeholder holds it" in m for m in events_of(cluster, "early").get("GrantRefused", [])),
        "an Event reports the refused pod",
        60,
    )
    assert daemon.slots_offered() == SLOTS and "early/main" not in daemon.tenants(), daemon.tenants()
    assert cluster.pod("early")["status"]["phase"] == "Pending", cluster.pod("early")
    cluster.patch(path, {"spec": {"pool": None}})
    wait_for_pod(cluster, "early", "Running")
    stop_pod("early")


def only_authorized_accounts_get_metrics():
    run_pod(cluster, "counts", ("--kernel-us=500",), given(device(1), epoch="7"))
    wait_for_pod(cluster, "counts", "Running")
    assert daemon.http("/healthz") == (200, "ok\n")
    assert daemon.http("/readyz") == (200, "ok\n")
    assert daemon.http("/metrics")[0] == 401 and daemon.http("/metrics", "nonsense")[0] == 401
    nobody = cluster.service_account(cluster.namespace, "nobody")
    assert daemon.http("/metrics", nobody.token)[0] == 403
    reader = cluster.service_account(
        cluster.namespace, "reader", cluster_rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    )
    status, text = daemon.http("/metrics", reader.token)
    labels = f'namespace="{cluster.namespace}",pod="counts",container="main"'
    assert status == 200 and labels in text, (status, text)
    dcgm = f'container="main",namespace="{cluster.namespace}",pod="counts"'
    lines = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_FB_USED{") and dcgm in line]
    assert len(lines) == 1 and device(1)[0] in lines[0] and f'Hostname="{cluster.node_name}"' in lines[0], text
    listed = daemon.divvy("ps")
    assert f"{cluster.namespace}/counts" in listed, listed
    stop_pod("counts")


def idle_clients_do_not_block_probes():
    """Clients hold all connections of the page's port, silent or with half a greeting; two begin handshakes without end."""
    address = (cluster.slot.address, daemon.port)
    is_over = threading.Event()

    def shake():
        while not is_over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(address, timeout=patience()) as s:
                tls = ssl.create_default_context()
                tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
                tls.wrap_socket(s).close()

    def is_page_answered():
        with contextlib.suppress(OSError):
            return daemon.http("/healthz") == (200, "ok\n")
        return False

    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(address, timeout=patience())) for _ in range(80)]
        for s in held[::2]:
            with contextlib.suppress(OSError):
                s.sendall(bytes.fromhex("160301"))
        shakers = [threading.Thread(target=shake) for _ in range(2)]
        stack.callback(lambda: [t.join() for t in shakers])
        stack.callback(is_over.set)
        for thread in shakers:
            thread.start()
        for path, status, text in [("/healthz", 200, "ok\n"), ("/readyz", 200, "ok\n")] * 20 + [
            ("/metrics", 404, None)
        ]:
            answer = daemon.probe(path)
            assert answer[0] == status and text in (None, answer[1]), (path, answer)
        wait_for(is_page_answered, "the page answers while idle clients hold connections", 120)
    wait_for(is_page_answered, "the page answers after the idle clients have gone", 120)


def a_grant_ends_when_the_kubelet_no_longer_lists_the_pod():
    """Even if divvyd hears nothing of the pod: the API server is down when the pod ends."""
    run_pod(cluster, "unheard", ("--kernel-us=500", "--duration=8"), given(device(), epoch="7"))
    wait_for_pod(cluster, "unheard", "Running")
    cluster.freeze("kube-apiserver")
    try:
        wait_for(lambda: not daemon.listed()["unheard"]["processes"], "its program has ended", 60)
        assert cluster.pid("divvyd")
    finally:
        cluster.thaw("kube-apiserver")
    wait_for(lambda: "unheard/main" not in daemon.tenants(), "the pod's grant has ended", 60)


def another_plugin_owns_the_nodes_gpus():
    start_plugin(cluster, "nvidia.com/gpu", 2)
    wait_for(lambda: daemon.condition("OwnerConflict").get("status") == "True", "the conflict is seen", 60)
    status = daemon.status()
    assert status["owner"] == "none" and status["devices"][0]["owner"] == "native", status
    assert daemon.condition("Ready")["reason"] == "OwnerConflict"
    wait_for(lambda: daemon.slots_offered() == 0, "no slot is offered")
    wait_for(lambda: "OwnerConflict" in events_of(cluster, cluster.node_name), "an Event reports the conflict")
    cluster.kill("fake-plugin")
    cluster.restart("kubelet")  # a kubelet counts a lost plugin for five minutes more
    wait_for(lambda: daemon.is_ready() and daemon.slots_offered() == SLOTS, "divvy owns the devices again", 60)


STAGE_S = 14  # divvyd compares every 10 s


def its_door_stays(pod, tenant):
    """The tenant socket stays for as long as the stage's program runs."""
    door = os.path.join(daemon.dir, "state/slots", tenant["slot"], "divvyd.sock")
    pid = wait_for(lambda: daemon.listed()[pod]["processes"], f"{pod} has registered")[0]["pid"]
    while alive(pid):
        assert os.path.exists(door) or not alive(pid), door
        time.sleep(0.2)


def an_init_container_passes_its_slot_on():
    slot = {"limits": {"divvy.gpu/slot": "1"}, "requests": {"divvy.gpu/slot": "1"}}
    uuid = device(2)[0]
    keys = {
        f"divvy.gpu/{k}": f"first={v} main={w}"
        for k, v, w in (
            ("devices", uuid, uuid),
            ("granted-request", "0.8", "0.4"),
            ("granted-limit", "1", "1"),
            ("granted-memory", "2Gi", "3Gi"),
        )
    }
    run_pod(
        cluster,
        "stages",
        ("--kernel-us=500",),
        {**keys, "divvy.gpu/epoch": "7"},
        initContainers=[
            {
                "name": "first",
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": [f"--duration={STAGE_S}"],
                "resources": slot,
            }
        ],
    )
    tenant = daemon.tenant("stages", "first")
    assert tenant["request"] == 800, tenant
    # A running tenant stays on its device, although an administrator cordons the device.
    path = f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}"
    cluster.patch(path, {"spec": {"cordoned": [{"uuid": uuid}]}})
    # The tenant socket stays, although the kubelet's list, with which divvyd compares, gives the slot to another container.
    its_door_stays("stages", tenant)
    wait_for_pod(cluster, "stages", "Running")
    wait_for(lambda: "stages/main" in daemon.tenants(), "GPUNode has the tenant")
    tenants = daemon.tenants()
    assert "stages/first" not in tenants and tenants["stages/main"]["request"] == 400, tenants
    granted = [m for m in events_of(cluster, "stages")["Granted"]]
    assert len(granted) == 2, granted
    cluster.patch(path, {"spec": {"cordoned": None}})
    stop_pod("stages")
    wait_for(lambda: daemon.slots_offered() == SLOTS, "all slots are offered again")


def ten_init_containers_get_their_own_grants_in_one_slot():
    """The kubelet's list has none of the init containers; the last one outlasts the time between two comparisons."""
    slot = {"limits": {"divvy.gpu/slot": "1"}, "requests": {"divvy.gpu/slot": "1"}}
    uuid, names = device(2)[0], [f"i{n}" for n in range(10)]
    keys = {
        f"divvy.gpu/{k}": " ".join(f"{name}={v(n)}" for n, name in enumerate(names))
        for k, v in (
            ("devices", lambda n: uuid),
            ("granted-request", lambda n: f"0.{n + 1:02}"),
            ("granted-limit", lambda n: "1"),
            ("granted-memory", lambda n: f"{n + 1}Gi"),
        )
    }
    times = [["--count=1"]] * 9 + [[f"--duration={STAGE_S}"]]
    run_pod(
        cluster,
        "prepares",
        (),
        {**keys, "divvy.gpu/epoch": "7"},
        initContainers=[
            {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "args": args, "resources": slot}
            for name, args in zip(names, times)
        ],
        containers=[{"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "args": ["--help"]}],
    )
    wait_for(lambda: "prepares/i9" in daemon.tenants(), "the last init container has its own grant", 60)
    tenant = daemon.tenant("prepares", "i9")
    assert tenant["request"] == 100, tenant
    its_door_stays("prepares", tenant)
    wait_for_pod(cluster, "prepares", "Succeeded")
    granted = events_of(cluster, "prepares")["Granted"]
    assert [f"container {name}: {(n + 1) / 100:g} of" for n, name in enumerate(names)] == sorted(
        m[: m.index(" of") + 3] for m in granted
    ), granted
    wait_for(
        lambda: not any(t.startswith("prepares/") for t in daemon.tenants()), "the init containers' grants have ended"
    )
    stop_pod("prepares")


def in_group(name, annotations, namespace=None):
    """A member of a group that needs two, as the webhook and the scheduler leave it."""
    keys = {**annotations, "divvy.gpu/granted-group": "g=2"}
    run_pod(cluster, name, ("--kernel-us=500",), keys, labels={"divvy.gpu/tenant": "true"}, namespace=namespace)


def no_member_starts_before_enough_are_bound():
    keys = given(device(3), request="0.2", memory="1Gi", epoch="7")
    # A pod of another namespace with the group's name is no member; a pod without a node is no member yet.
    other = cluster.new_namespace()
    in_group("stranger", keys, namespace=other)
    in_group("first", keys)
    create_pod(cluster, "second", ("--kernel-us=500",), labels={"divvy.gpu/tenant": "true"})
    wait_for(
        lambda: any(
            "1 of its pods are bound, 2 must be bound" in m for m in events_of(cluster, "first").get("GrantRefused", [])
        ),
        "it is said what it waits for",
        90,
    )
    for status in cluster.pod("first")["status"].get("containerStatuses", []):
        assert "waiting" in status["state"], status
    assert "first/main" not in daemon.tenants()
    bind(cluster, "second", {**keys, "divvy.gpu/granted-group": "g=2"})
    for name in ("first", "second"):
        wait_for_pod(cluster, name, "Running")
    assert "stranger/main" not in daemon.tenants()
    # A late member starts alone, and a started member goes on alone.
    in_group("third", keys)
    wait_for_pod(cluster, "third", "Running")
    stop_pod("second", "third")
    assert "first/main" in daemon.tenants()
    in_group("fourth", keys)
    wait_for_pod(cluster, "fourth", "Running")
    stop_pod("first", "fourth")
    delete_pod(cluster, "stranger", grace_s=0, namespace=other)


def a_pod_needs_no_privilege():
    """The kubelet's mounts, seen from within: read-only, and without files of other slots."""
    run_pod(cluster, "seen", ("--kernel-us=500",), given(device(3), epoch="7"))
    wait_for_pod(cluster, "seen", "Running")
    wait_for(lambda: daemon.listed()["seen"]["processes"], "it has registered")
    pid = daemon.listed()["seen"]["processes"][0]["pid"]
    root = f"/proc/{pid}/root"
    assert sorted(os.listdir(root + "/run/divvy")) == ["divvyd.sock"]
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
        mounts = [line.split() for line in f]
    ours = {m[4]: m[5].split(",") for m in mounts if m[3].startswith(daemon.dir) or daemon.dir[4:] in m[3]}
    assert set(ours) == {"/run/divvy", "/run/divvy-sim", "/opt/divvy", "/etc/ld.so.preload"}, ours
    assert all("ro" in options for options in ours.values()), ours
    stop_pod("seen")


def a_restarted_kubelet_gets_the_slots_at_once():
    run_pod(cluster, "through", ("--kernel-us=500",), given(device(), epoch="7"))
    wait_for_pod(cluster, "through", "Running")
    cluster.restart("kubelet")
    wait_for(lambda: daemon.slots_offered() == SLOTS, "the slots are offered again")
    assert daemon.tenant("through")
    assert cluster.pod("through")["status"]["containerStatuses"][0]["restartCount"] == 0
    stop_pod("through")


RENEW_S = 10
SHARE_STEP = 50  # permille; MEASURED_SHARE_STEP of src/spec/measured.h
MEMORY_STEP = 64 << 20


class Leases:
    """Every version of the node's Lease while this is open, from a watch: `seen` has (time, measurements) of each write."""

    def __init__(self):
        self.path = "/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases"
        self.seen, self.ends = [], False
        self.thread = threading.Thread(target=self.run)

    def add(self, lease):
        at = datetime.datetime.fromisoformat(lease["spec"]["renewTime"].replace("Z", "+00:00"))
        if not self.seen or at > self.seen[-1][0]:
            self.seen.append((at, lease["metadata"].get("annotations", {}).get("divvy.gpu/measured", "")))
        return lease["metadata"]["resourceVersion"]

    def run(self):
        version = self.add(cluster.get(f"{self.path}/{cluster.node_name}"))
        while not self.ends:
            with cluster.watch(
                self.path,
                fieldSelector=f"metadata.name={cluster.node_name}",
                resourceVersion=version,
                timeoutSeconds="5",
            ) as events:
                for event in events:
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "MODIFIED":
                        self.add(event["object"])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()

    def gaps(self, begin=0):
        """(seconds since the write before, measurements of that write, measurements now) of each write from an index."""
        seen = self.seen[begin:]
        return [((b[0] - a[0]).total_seconds(), a[1], b[1]) for a, b in zip(seen, seen[1:])]


def differs(before, now):
    """Whether a change is large enough for a write before the next renewal. The daemon measures once to decide and
    again to write, so that a hundredth of a step may be missing."""

    def values(text):
        return {
            name: [tuple(map(int, device.split(":"))) for device in devices.split(",")]
            for name, devices in (word.split("=") for word in text.split())
        }

    before, now = values(before), values(now)
    if list(before) != list(now):
        return True
    return any(
        abs(a[0] - b[0]) >= SHARE_STEP - 5 or abs(a[1] - b[1]) >= max(MEMORY_STEP, max(a[1], b[1]) // 8) * 0.99
        for name in now
        for a, b in zip(before[name], now[name])
    )


def what_has_changed_is_reported_before_the_next_renewal():
    """An idle node writes each 10 s, by its own clock; a load that comes or goes is news. The machine's other work may
    change a tenant's load at any time, so each early write is compared with the one before."""
    assert not daemon.tenants(), daemon.tenants()
    with Leases() as leases:
        wait_for(lambda: leases.seen and not leases.seen[-1][1], "the Lease has no measurements")
        idle = len(leases.seen) - 1
        wait_for(lambda: len(leases.gaps(idle)) >= 3, "three renewals", 120)
        assert all(gap >= RENEW_S for gap, _, _ in leases.gaps(idle)), leases.gaps(idle)

        begin = len(leases.seen) - 1
        run_pod(cluster, "news", ("--kernel-us=500",), given(device(), request="0.5", epoch="7"))
        wait_for(
            lambda: any(gap < RENEW_S and "/main=" in now for gap, _, now in leases.gaps(begin)), "an early write", 120
        )
        wait_for(lambda: sum(gap for gap, _, _ in leases.gaps(begin)) > 60, "a minute of writes", 120)
        gaps = leases.gaps(begin)
        for gap, before, now in gaps:
            assert gap >= RENEW_S or differs(before, now), f"no news after {gap} s: {before} -> {now}"
        # divvyd writes the Lease no more often than its budget allows, however the load changes: 10
        # writes at once, one each 5 s, and renewals.
        seconds = sum(gap for gap, _, _ in gaps)
        assert len(gaps) <= 10 + seconds / 5 + seconds / RENEW_S + 1, gaps

        assert any(stops_early(leases) for _ in range(3)), leases.gaps()


def stops_early(leases):
    """Whether a write before the next renewal reported the end of the pod, which may also coincide with a renewal."""
    if not daemon.tenants():
        run_pod(cluster, "news", ("--kernel-us=500",), given(device(), request="0.5", epoch="7"))
        wait_for(lambda: "/main=" in leases.seen[-1][1], "the Lease has measurements")
    end = len(leases.seen) - 1
    stop_pod("news")
    wait_for(lambda: not leases.seen[-1][1], "the Lease has no measurements", 120)
    return any(gap < RENEW_S for gap, _, _ in leases.gaps(end))


FEWER = 2  # of the devices


def power_cycle(simulate):
    """The machine starts again, with another number of devices."""
    cluster.kill("divvyd")
    daemon.cut_power()
    cluster.patch(f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}", {"spec": {"simulate": simulate}})
    daemon.start("--sys-dir", SYS)
    daemon.await_ready()


def restarts_of(name):
    status = cluster.pod(name)["status"].get("containerStatuses", [{}])[0]
    return status.get("restartCount", 0) if "running" in status.get("state", {}) else -1


def slots_in_use_stay_when_devices_are_missing():
    """Pods keep devices that still exist, whatever number the kubelet has given to their slot."""
    high = None
    for i in range(24):
        run_pod(
            cluster,
            f"high{i}",
            ("--kernel-us=500",),
            given(device(), request="0.01", memory="1Gi", epoch="7"),
            restartPolicy="Always",
        )
        wait_for_pod(cluster, f"high{i}", "Running")
        if int(daemon.tenant(f"high{i}")["slot"]) >= 64 * FEWER:
            high = f"high{i}"
            break
        stop_pod(f"high{i}")
    assert high, "the kubelet gives low numbers alone"
    slot = daemon.tenant(high)["slot"]
    uuid = daemon.devices()[3]
    run_pod(
        cluster,
        "lost",
        ("--kernel-us=500",),
        given([uuid], request="0.01", memory="1Gi", epoch="7"),
        restartPolicy="Always",
    )
    wait_for_pod(cluster, "lost", "Running")
    power_cycle(f"{FEWER}xH200-141Gi")
    wait_for(lambda: restarts_of(high) > 0, "the container runs again", 180)
    assert daemon.tenant(high)["slot"] == slot
    wait_for(lambda: daemon.slots_offered() >= 64 * FEWER + 1, "the pod's slot is offered")
    assert daemon.slots_offered() <= 64 * FEWER + 2, "too many other slots are offered"
    wait_for(
        lambda: any(f"no device {uuid}" in m for m in events_of(cluster, "lost").get("GrantRefused", [])),
        "an Event names the missing device",
        180,
    )
    stop_pod(high, "lost")
    wait_for(lambda: daemon.slots_offered() == 64 * FEWER, "the slot is no longer offered after the pod's end", 60)
    power_cycle(f"{DEVICES}xH200-141Gi")
    wait_for(lambda: daemon.slots_offered() == SLOTS, "all slots are offered again")


def missing_devices_are_reported():
    """A device that GPUNode.status listed did not come back; simulated devices come and go freely."""
    assert daemon.condition("DevicesMissing")["status"] == "False", daemon.condition("DevicesMissing")
    gone = "GPU-11111111-2222-3333-4444-555555555555"
    path = f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}"
    cluster.kill("divvyd")
    cluster.patch(
        f"{path}/status",
        {"status": {"devices": [{"uuid": gone, "index": 0, "model": "A100", "memoryBytes": GIB, "health": "Healthy"}]}},
    )
    daemon.start("--sys-dir", SYS)
    wait_for(
        lambda: daemon.condition("DevicesMissing").get("status") == "True",
        "the condition reports the missing device",
        60,
    )
    daemon.await_ready()  # the others serve
    assert daemon.condition("DevicesMissing")["reason"] == "DevicesMissing", daemon.status()
    assert gone in daemon.condition("DevicesMissing")["message"], daemon.status()
    assert daemon.status()["missingDevices"] == [{"uuid": gone}], daemon.status()
    wait_for(
        lambda: any(gone in m for m in events_of(cluster, cluster.node_name).get("DevicesMissing", [])), "an Event"
    )
    # The next daemon still reports the device, until an administrator cordons it.
    cluster.kill("divvyd")
    daemon.start("--sys-dir", SYS)
    daemon.await_ready()
    assert daemon.condition("DevicesMissing")["status"] == "True", daemon.status()
    cluster.patch(path, {"spec": {"cordoned": [{"uuid": gone}]}})
    wait_for(
        lambda: daemon.condition("DevicesMissing")["status"] == "False",
        "a cordoned device is not reported as missing",
        60,
    )
    cluster.patch(path, {"spec": {"cordoned": None}})
    wait_for(
        lambda: daemon.condition("DevicesMissing")["status"] == "True", "the device is reported as missing again", 60
    )
    # Now the node has no device at all.
    cluster.kill("divvyd")
    daemon.cut_power()
    cluster.patch(path, {"spec": {"simulate": None}})
    daemon.start("--sys-dir", SYS)
    wait_for(lambda: daemon.condition("Ready").get("reason") == "DevicesMissing", "the node is not ready", 60)
    # After an administrator deletes the GPUNode, the device does not come back, also for the running divvyd.
    cluster.delete(path)
    cluster.create(
        "/apis/divvy.gpu/v1/gpunodes",
        {"apiVersion": "divvy.gpu/v1", "kind": "GPUNode", "metadata": {"name": cluster.node_name}, "spec": {}},
    )
    wait_for(lambda: daemon.condition("DevicesMissing").get("status") == "False", "the device is forgotten", 60)
    assert "missingDevices" not in daemon.status(), daemon.status()
    assert daemon.condition("Ready").get("reason") != "DevicesMissing", daemon.status()
    cluster.kill("divvyd")
    cluster.patch(path, {"spec": {"simulate": daemon.simulate}})
    daemon.start("--sys-dir", SYS)
    daemon.await_ready()
    assert daemon.condition("DevicesMissing")["status"] == "False", daemon.status()


def an_unreachable_driver_is_reported():
    """divvyd reports the loss of any file that programs load, and of the socket to which they connect."""
    drivers = (os.path.join(daemon.dir, "state/lib", name, "driver/libcuda.so.1") for name in daemon.libraries())
    driver = next(path for path in drivers if os.path.exists(path))
    os.rename(driver, driver + ".away")
    wait_for(lambda: daemon.condition("Ready").get("reason") == "DriverUnreachable", "the node is not ready", 60)
    assert daemon.condition("Ready")["status"] == "False", daemon.condition("Ready")
    wait_for(lambda: events_of(cluster, cluster.node_name).get("DriverUnreachable"), "an Event")
    os.rename(driver + ".away", driver)
    daemon.await_ready()


def library_in(name):
    """The library that its program finds: the file's inode and size, and whether it is mapped."""
    process = wait_for(lambda: daemon.listed()[name]["processes"], f"{name} has registered")[0]
    path = f"/proc/{process['pid']}/root/opt/divvy/libdivvy-cuda.so"
    found = os.stat(path)
    with open(f"/proc/{process['pid']}/maps", encoding="utf-8") as f:
        mapped = {int(line.split()[4]) for line in f if line.rstrip().endswith("libdivvy-cuda.so")}
    assert mapped == {found.st_ino}, (mapped, found)
    return found.st_ino, found.st_size, process["pid"]


def an_upgrade_changes_nothing_for_running_tenants():
    """Another divvyd with other libraries replaces the first while tenants run."""
    run_pod(cluster, "old", ("--kernel-us=500",), given(device(), request="0.3", epoch="7"), restartPolicy="Always")
    wait_for_pod(cluster, "old", "Running")
    inode, size, pid = library_in("old")
    first = daemon.libraries()
    assert len(first) == 1, first
    cluster.kill("divvyd", signal.SIGTERM)
    daemon.hooks = daemon.newer_hooks()
    daemon.start()
    wait_for(daemon.answers, "the new divvyd answers")
    daemon.await_ready()
    wait_for(
        lambda: daemon.listed()["old"]["processes"] and not daemon.listed()["old"]["processes"][0]["orphan"],
        "the program has registered again",
    )
    used = daemon.used("old")
    wait_for(lambda: daemon.used("old") > used, "the program continues")
    assert library_in("old") == (inode, size, pid)
    run_pod(cluster, "new", ("--kernel-us=500",), given(device(), request="0.3", epoch="7"))
    wait_for_pod(cluster, "new", "Running")
    assert library_in("new")[1] == size + len("a newer version")
    # The container restarts with the mounts that the kubelet got when the pod came.
    os.kill(pid, signal.SIGKILL)
    wait_for(
        lambda: any(not p["orphan"] and p["pid"] != pid for p in daemon.listed()["old"]["processes"]),
        "its container has started again",
        90,
    )
    wait_for(lambda: len(daemon.listed()["old"]["processes"]) == 1, "the former process is gone")
    assert library_in("old")[:2] == (inode, size)
    both = daemon.libraries()
    assert len(both) == 2 and first < both, both
    stop_pod("old")
    wait_for(lambda: daemon.libraries() == both - first, "the old version is removed after its last pod", 60)
    library_in("new")
    stop_pod("new")


def an_event_reports_an_unmanaged_process():
    """A program of the host uses a device without a grant."""
    wait_for(lambda: daemon.condition("Audited").get("status") == "True", "it is clean", 90)
    with daemon.stranger() as process:
        wait_for(
            lambda: any(
                f"process {process.pid} (spin) uses device {daemon.devices()[0]} but belongs to no tenant" in m
                for m in events_of(cluster, cluster.node_name).get("UnmanagedProcess", [])
            ),
            "an Event says so",
            90,
        )
        wait_for(
            lambda: "1 unmanaged process" in daemon.condition("Audited").get("message", ""), "a condition, too", 90
        )
        assert daemon.condition("Audited")["reason"] == "UnmanagedProcesses", daemon.condition("Audited")
    wait_for(
        lambda: daemon.condition("Audited")["status"] == "True", "the audit finds no unmanaged process any more", 90
    )


def fail_device(line):
    with open(os.path.join(daemon.runtime, "sim/faults"), "w", encoding="ascii") as f:
        f.write(line + "\n")
    os.kill(daemon.engine(), signal.SIGHUP)  # the engine reads its settings again


def a_device_error_closes_the_device():
    """An Xid that programs cause does not close it; running tenants go on in both cases."""
    uuid = device(1)
    reader = cluster.service_account(
        cluster.namespace, "xid-reader", cluster_rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    )
    run_pod(cluster, "stays", ("--kernel-us=500",), given(uuid, epoch="7"))
    wait_for_pod(cluster, "stays", "Running")

    def told(n, xid):
        lines = [line for line in daemon.http("/metrics", reader.token)[1].splitlines() if uuid[0] in line]
        return all(
            any(line.startswith(name + "{") and line.endswith(f" {value}") for line in lines)
            for name, value in (("divvy_device_xids_total", n), ("divvy_device_xid", xid))
        )

    fail_device("xid device=1 code=31 at=1ms")
    wait_for(lambda: told(1, 0), "a program's is counted", 60)
    assert daemon.status()["devices"][1]["health"] == "Healthy", daemon.status()["devices"][1]
    fail_device("xid device=1 code=62 at=1ms")
    wait_for(lambda: daemon.status()["devices"][1]["health"] == "Unhealthy", "the device is unhealthy", 60)
    assert (
        daemon.status()["devices"][1]["reason"]
        == "had Xid 62 (internal micro-controller halt), which no program causes"
    ), daemon.status()["devices"][1]
    assert told(2, 62), daemon.http("/metrics", reader.token)[1]
    wait_for(lambda: daemon.slots_offered() == SLOTS - 64, "its slots are not offered")
    for name in (cluster.node_name, "stays"):
        wait_for(
            lambda n=name: any(
                f"device {uuid[0]} had Xid 62" in m for m in events_of(cluster, n).get("DeviceUnhealthy", [])
            ),
            f"{name} has an Event about the Xid",
            30,
        )
    assert cluster.pod("stays")["status"]["phase"] == "Running"
    run_pod(cluster, "nobody", (), given(uuid, epoch="7"))
    refused("nobody", "had Xid 62")
    stop_pod("stays", "nobody")


def a_lost_device_is_reported():
    run_pod(cluster, "hurt", ("--kernel-us=500",), given(device(), epoch="7"))
    wait_for_pod(cluster, "hurt", "Running")
    fail_device("lost device=0 after=1")
    wait_for(lambda: daemon.status()["devices"][0]["health"] == "Lost", "the device is gone", 60)
    wait_for(lambda: daemon.slots_offered() <= SLOTS - 127, "its slots are not offered")
    assert [d["health"] for d in daemon.status()["devices"]][2:] == ["Healthy"] * (DEVICES - 2), daemon.status()
    for name in (cluster.node_name, "hurt"):
        wait_for(
            lambda n=name: any(device()[0] in m for m in events_of(cluster, n).get("DeviceLost", [])),
            f"{name}: an Event reports the lost device",
            30,
        )
    wait_for_pod(cluster, "hurt", "Failed")
    assert "CUDA_ERROR_" in cluster.log_of("hurt"), cluster.log_of("hurt")
    run_pod(cluster, "late", (), given(device(), epoch="7"))
    refused("late", "is lost")


def sweep():
    """Ends the pods of a failed test, and its changes of the GPUNode."""
    cluster.patch(f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}", {"spec": {"cordoned": None, "pool": None}})
    for pod in cluster.get(f"/api/v1/namespaces/{cluster.namespace}/pods")["items"]:
        delete_pod(cluster, pod["metadata"]["name"], grace_s=0)
    if not cluster.pid("divvyd"):
        daemon.start()
    wait_for(lambda: not daemon.tenants(), "the grants of the failed test have ended")


try:
    with open_cluster("kcm", "node", own=NODE_OF_OURS) as cluster:
        install(cluster)
        make_image(cluster)
        daemon = Daemon(cluster, simulate=f"{DEVICES}xH200-141Gi")
        daemon.make_gpu_node()
        SYS = os.path.join(cluster.dir, "sys")
        make_card("10000")
        DISK = os.path.join(cluster.dir, "disk")
        daemon.start(
            "--sys-dir", SYS, LD_PRELOAD=os.path.join(BUILD, "tests/programs/slow-disk.so"), DIVVY_TEST_DISK=DISK
        )
        main(
            a_node_reports_its_devices,
            a_node_reports_its_networks,
            a_slow_disk_keeps_the_container_waiting_and_nobody_else,
            two_pods_have_their_shares,
            a_pod_cannot_exceed_its_memory_quota,
            pods_of_exempt_namespaces_get_no_slot,
            a_resize_takes_effect_while_the_pod_runs,
            (
                an_impossible_grant_is_refused_with_a_message,
                a_container_that_starts_again_keeps_its_tenant,
                a_container_that_its_rules_restart_keeps_its_tenant,
                no_member_starts_before_enough_are_bound,
                an_event_reports_an_unmanaged_process,
            ),
            a_killed_daemon_finds_its_tenants_again,
            accounts_continue_after_a_restart,
            the_runtime_resolves_the_slots_cdi_name,
            a_container_gets_its_dialects_variables,
            memory_overcommit_follows_the_policies,
            (
                another_pods_process_is_refused,
                only_authorized_accounts_get_metrics,
                an_init_container_passes_its_slot_on,
                ten_init_containers_get_their_own_grants_in_one_slot,
                a_pod_needs_no_privilege,
            ),
            idle_clients_do_not_block_probes,
            cordoned_devices_take_no_new_tenant,
            a_device_without_a_placeholder_takes_no_tenant,
            a_grant_ends_when_the_kubelet_no_longer_lists_the_pod,
            a_restarted_kubelet_gets_the_slots_at_once,
            what_has_changed_is_reported_before_the_next_renewal,
            slots_in_use_stay_when_devices_are_missing,
            missing_devices_are_reported,
            an_unreachable_driver_is_reported,
            an_upgrade_changes_nothing_for_running_tenants,
            another_plugin_owns_the_nodes_gpus,
            a_device_error_closes_the_device,
            a_lost_device_is_reported,
            after_failure=sweep,
        )
except Skip as reason:
    skip_all(reason)
