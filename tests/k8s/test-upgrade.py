#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy as it ships is upgraded, downgraded and uninstalled while pods use their shares: none of them is affected.

The simulated devices do not belong to divvyd here: like real ones they exist whether it runs or not."""

import io
import json
import os
import subprocess
import tarfile
import time

import shipped
from cluster import NODE_OF_OURS, Skip, is_chroot, main, open_cluster, patience, skip_all, wait_for
from divvyd import BUILD, DIVVY
from shipped import PROGRAMS, SYSTEM

DEVICES = "2xH200-141Gi"
NEWER = "0.1.1"
ABSENT_S = 15  # longer than programs wait for a lost daemon


def pods(name=""):
    return f"/api/v1/namespaces/{cluster.namespace}/pods" + (f"/{name}" if name else "")


def make(name, **keys):
    cluster.create(
        pods(),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {f"divvy.gpu/{k}": v for k, v in keys.items()}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": PROGRAMS, "command": ["spin", "--kernel-us=500"]}],
            },
        },
    )
    cluster.wait_for_pod(name, "Running")
    wait_for(lambda: at_work(name), f"{name} uses its device")


def at_work(*names):
    """Waits until the programs are registered with the running daemon."""
    listed = daemon.listed()
    processes = [listed.get(n, {}).get("processes") for n in names]
    return all(p and not p[0]["orphan"] for p in processes)


def containers(*names):
    """The containers' ids: a restarted container has another id."""
    found = [cluster.pod(n)["status"]["containerStatuses"][0] for n in names]
    return [(c["containerID"], c["restartCount"], bool(c["state"].get("running"))) for c in found]


def library_of(name):
    """The library file that its program has mapped."""
    pid = daemon.listed()[name]["processes"][0]["pid"]
    with open(f"/proc/{pid}/map_files/" + mapped(pid), "rb") as f:
        return os.fstat(f.fileno()).st_ino


def mapped(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        return next(line.split()[0] for line in f if "libdivvy-cuda" in line or line.endswith("libcuda.so.1\n"))


def replaced(*words, running):
    """Waits until another daemon has taken over and the running pods continue."""
    before, uid = containers(*running), daemon_pod()["metadata"]["uid"]
    cluster.kubectl("-n", SYSTEM, *words)
    cluster.kubectl(
        "-n",
        SYSTEM,
        "rollout",
        "status",
        "daemonset/divvyd",
        f"--timeout={shipped.START_S}s",
        timeout=shipped.START_S + 10,
    )
    assert daemon_pod()["metadata"]["uid"] != uid, "the daemon's pod was not replaced"
    wait_for(lambda: daemon.answers() and at_work(*running), "all programs have registered with the new daemon", 60)
    used = {n: daemon.used(n) for n in running}
    wait_for(lambda: all(daemon.used(n) > used[n] for n in running), "all programs use their devices")
    assert containers(*running) == before, (containers(*running), before)


def daemon_pod():
    found = cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector=app.kubernetes.io%2Fname%3Ddivvyd")["items"]
    return next(p for p in found if not p["metadata"].get("deletionTimestamp"))


def a_bundle_needs_only_the_daemons_image():
    """On the node in its daemon's image, which has no other program; on the cluster where kubectl is used."""
    if not is_chroot():
        said = cluster.kubectl("-n", SYSTEM, "exec", "daemonset/divvyd", "--", "divvy", "doctor")
        assert "preload: works" in said and "Sharing works here." in said and "usage" not in said, said
        said = cluster.kubectl("-n", SYSTEM, "exec", "daemonset/divvyd", "--", "divvy", "doctor", "--bundle", "-")
        with tarfile.open(fileobj=io.BytesIO(said.encode())) as tar:
            assert "README.txt" in [os.path.basename(m.name) for m in tar.getmembers()], said
    path = os.path.join(cluster.dir, "bundle.tar")
    subprocess.run(
        [DIVVY, "doctor", "--bundle", path, "--kubeconfig", cluster.kubeconfig],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=patience(120),
    )
    with tarfile.open(path) as tar:
        files = {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers()}
    for pod in cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]:
        name = pod["metadata"]["name"]
        assert f"{name.split('-')[0]}" in files[f"cluster/logs/{name}.log"], files.keys()
    assert json.loads(files["cluster/gpunodes.json"])[0]["metadata"]["name"] == cluster.node_name


def an_upgrade_disturbs_no_tenant():
    """... whose libraries are other files: running programs keep their mapped files, new ones get the new files."""
    uuid = daemon.devices()[0]
    make("first", request="0.3", limit="0.5", memory="2Gi", device=uuid)
    make("beside", request="0.5", memory="2Gi", device=uuid)
    library = library_of("first")
    shipped.make_newer_divvyd(cluster, NEWER)
    replaced("set", "image", "daemonset/divvyd", f"divvyd=divvyd:{NEWER}", running=("first", "beside"))
    assert library_of("first") == library, "the running program's library was replaced"
    make("second", request="0.2", memory="2Gi", device=uuid)
    assert library_of("second") != library, "the new program has the old library"


def a_downgrade_works():
    replaced("rollout", "undo", "daemonset/divvyd", running=("first", "beside", "second"))


def the_other_parts_are_replaced():
    """Pods wait meanwhile or are refused; running ones are not affected, and the next one is placed."""
    before = containers("first", "beside", "second")
    cluster.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/divvy-controller", "deployment/divvy-scheduler")
    shipped.await_workloads(cluster)
    make("third", request="0.5", memory="2Gi")
    assert containers("first", "beside", "second") == before


def last_kernel_ns(pid):
    """When its last kernel began, on the monotonic clock."""
    done = subprocess.run(
        [os.path.join(BUILD, "src/simgpu/divvy-simctl"), "--dir", sim, "--json", "--last", "2s", "trace"],
        capture_output=True,
        text=True,
        check=True,
    )
    begun = [r["start_ns"] for r in map(json.loads, done.stdout.splitlines()) if r["pid"] == pid]
    return max(begun, default=0)


def pods_run_on_after_uninstalling():
    """The webhook is removed first; in the end no part of divvy runs, and pods with a share continue without it."""
    names = ("first", "beside", "second", "third")
    before = containers(*names)
    pids = [daemon.listed()[n]["processes"][0]["pid"] for n in names]
    subprocess.run(
        [os.path.join(os.environ["DIVVY_SOURCE"], "deploy/uninstall")],
        check=True,
        timeout=patience(300),
        stdout=subprocess.DEVNULL,
        env={**os.environ, "KUBECTL": f"{cluster.kubectl_path} --kubeconfig {cluster.kubeconfig}"},
    )
    assert not cluster.exists(f"/api/v1/namespaces/{SYSTEM}"), "divvy's namespace is there"
    gone = time.monotonic_ns()
    for pid in pids:
        wait_for(
            lambda p=pid: last_kernel_ns(p) > gone + ABSENT_S * 1_000_000_000,
            "the program continues without a daemon",
            120,
        )
    assert containers(*names) == before, (containers(*names), before)
    for name in names:
        cluster.delete(pods(name), grace_s=1)
    # If a container ends while the kubelet kills it, the kubelet sees an error and retries within 90 s.
    wait_for(lambda: not cluster.get(pods())["items"], "the kubelet deletes the pods", 200)
    cluster.create(
        pods(),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "after"},
            "spec": {"containers": [{"name": "main", "image": PROGRAMS, "command": ["sleep", "inf"]}]},
        },
    )
    cluster.wait_for_pod("after", "Running")


TESTS = [
    a_bundle_needs_only_the_daemons_image,
    an_upgrade_disturbs_no_tenant,
    a_downgrade_works,
    the_other_parts_are_replaced,
    pods_run_on_after_uninstalling,
]

try:
    with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS) as cluster:
        sim = shipped.plug_in(cluster, DEVICES)
        daemon = shipped.install(cluster, DEVICES)
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
