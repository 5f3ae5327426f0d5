#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy as it ships on a real kubelet with simulated GPUs: from applied objects to the shares of programs."""

import json

import shipped
from cluster import NODE_OF_OURS, Skip, main, open_cluster, skip_all, wait_for
from divvyd import GIB
from shipped import PROGRAMS, SYSTEM, example

DEVICES = 6


def pods(name=""):
    return f"/api/v1/namespaces/{cluster.namespace}/pods" + (f"/{name}" if name else "")


def make(name, *args, **asked):
    """A pod that runs spin with these arguments and keys; memory_policy is divvy.gpu/memory-policy."""
    keys = {"divvy.gpu/" + k.replace("_", "-"): v for k, v in asked.items()}
    return cluster.create(
        pods(),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": keys},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": PROGRAMS, "command": ["spin", *args]}],
            },
        },
    )


def apply(name, /, **replaced):
    cluster.apply(example(name, **replaced), namespace=cluster.namespace)


def running(*names):
    for name in names:
        cluster.wait_for_pod(name, "Running")


def registered(*names):
    """Waits until the programs of these pods use a device."""
    running(*names)
    wait_for(lambda: all(daemon.listed().get(n, {}).get("processes") for n in names), f"{names} use their devices")


def devices_of(name, container="main"):
    """The devices that the daemon has granted, equal to those of the pod's assigned keys."""
    granted = daemon.tenant(name, container)["devices"]
    said = cluster.pod(name)["metadata"]["annotations"]["divvy.gpu/devices"]
    assert f"{container}={','.join(granted)}" in said.split(), (said, granted)
    return granted


def remove(*names):
    for name in names:
        cluster.delete(pods(name), grace_s=1)
    wait_for(
        lambda: not any(t["pod"] in names for t in daemon.status().get("tenants") or []), "the pods' grants have ended"
    )


def the_shipped_pods_run():
    """The pods use their own accounts and images; only the overlay differs from other clusters."""
    found = cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
    names = {p["metadata"]["labels"]["app.kubernetes.io/name"]: p for p in found}
    assert set(names) == {"divvy-scheduler", "divvy-controller", "divvyd"}, names
    for name, pod in names.items():
        assert pod["spec"]["serviceAccountName"] == name, pod["spec"]
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0, pod["status"]
    assert daemon.condition("HostNamespaces")["status"] == "True", daemon.condition("HostNamespaces")


def labels_of_the_node_describe_its_devices():
    """The table of docs/reference/nodes.md; the controller writes the labels through the node's status."""
    path = f"/api/v1/nodes/{cluster.node_name}"
    expected = {
        "divvy.gpu/device-model": "NVIDIA-H200",
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "divvy.gpu/device-count": str(DEVICES),
        "nvidia.com/gpu.count": str(DEVICES),
    }
    wait_for(lambda: expected.items() <= cluster.get(path)["metadata"]["labels"].items(), "the node has the labels", 60)
    meta = cluster.get(path)["metadata"]
    version = daemon.status()["versions"]["driver"]
    assert (
        meta["labels"]["divvy.gpu/driver-version"] == meta["labels"]["nvidia.com/cuda.driver-version.full"] == version
    )
    assert meta["labels"]["divvy.gpu/device-memory-mib"] == meta["labels"]["nvidia.com/gpu.memory"], meta["labels"]
    written = dict(pair.split("=") for pair in meta["annotations"]["divvy.gpu/labels"].split(","))
    assert expected.items() <= written.items() <= meta["labels"].items(), meta


def a_pod_beyond_its_memory_fails_and_its_neighbour_goes_on():
    uuid = daemon.devices()[0]
    make("good", "--kernel-us=500", "--memory=4096", request="0.3", memory="6Gi", device=uuid)
    registered("good")
    make("greedy", "--kernel-us=500", "--memory=4096", request="0.3", memory="2Gi", device=uuid)
    cluster.wait_for_pod("greedy", "Failed")
    assert "CUDA_ERROR_OUT_OF_MEMORY" in cluster.log_of("greedy"), cluster.log_of("greedy")
    assert devices_of("good") == [uuid]
    used = daemon.used("good")
    wait_for(lambda: daemon.used("good") > used, "the program of good continues")
    status = cluster.pod("good")["status"]
    assert status["phase"] == "Running" and status["containerStatuses"][0]["restartCount"] == 0, status
    remove("good", "greedy")


def jobs(name=""):
    return f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs" + (f"/{name}" if name else "")


def workers(job):
    return cluster.get(pods() + f"?labelSelector=job-name%3D{job}")["items"]


def a_gang_job(threshold, seconds):
    """The example job, on one device with room for two of the five members at a time."""
    apply(
        "gang-job",
        threshold=('"0.2"', f'"{threshold}"'),
        one=(
            "        divvy.gpu/group: train",
            f"        divvy.gpu/group: train\n        divvy.gpu/device: {daemon.devices()[1]}",
        ),
        short=("--duration=60", f"--duration={seconds}"),
    )


def a_job_starts_when_a_fifth_of_it_fits():
    a_gang_job("0.2", 4)
    most = 0

    def ended():
        nonlocal most
        mine = [t for t in daemon.status().get("tenants") or [] if t["pod"].startswith("train-")]
        assert all(t["devices"] == [daemon.devices()[1]] and t["request"] == 500 for t in mine), mine
        most = max(most, len(mine))
        return cluster.get(jobs("train"))["status"].get("succeeded") == 5

    wait_for(ended, "all five workers have ended well", 300)
    assert most == 2, f"{most} at a time"
    cluster.delete(jobs("train") + "?propagationPolicy=Background")
    wait_for(lambda: not workers("train"), "its pods are gone")


def a_job_waits_while_too_few_members_fit():
    """Three of five must start together, and two fit: none starts."""
    a_gang_job("0.6", 4)

    def told():
        mine = workers("train")
        said = [c["message"] for p in mine for c in p["status"].get("conditions") or [] if c["type"] == "PodScheduled"]
        return len(said) == 5 and all("2 of 5 pods fit, 3 are needed" in text for text in said)

    wait_for(told, "the conditions of all five pods give the reason")
    assert not any(p["spec"].get("nodeName") for p in workers("train"))
    cluster.delete(jobs("train") + "?propagationPolicy=Background")
    wait_for(lambda: not workers("train"), "its pods are gone")


def share_pod(name):
    return cluster.get(f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods/{name}")


def drop_share_pod(name):
    cluster.delete(f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods/{name}")
    wait_for(lambda: f"{name}/main" not in daemon.tenants(), f"nothing is left of {name}")


def a_share_pod_is_pinned_to_its_gpu():
    for uuid in (daemon.devices()[4], daemon.devices()[2]):
        apply("sharepod-pinned", uuid=("GPU-00000000-0000-0000-0000-000000000000", uuid))
        wait_for(
            lambda: share_pod("pinned").get("status", {}).get("granted", {}).get("request") == 400, "it is granted"
        )
        registered("pinned")
        assert devices_of("pinned") == [uuid] == share_pod("pinned")["status"]["devices"]
        row = cluster.kubectl("-n", cluster.namespace, "get", "dsp", "pinned").splitlines()[1].split()
        assert uuid in row and row.count("0.4-1") == 2, row  # asked and granted
        # Alone on its device the tenant gets all of it, once it gets a processor, and the column USED shows that.
        wait_for(lambda: float(share_pod("pinned")["status"].get("used", 0)) > 0.8, "the SharePod shows the usage", 300)
        wait_for(
            lambda: share_pod("pinned")["status"]["used"]
            in cluster.kubectl("-n", cluster.namespace, "get", "dsp", "pinned").splitlines()[1].split(),
            "kubectl shows the same usage",
        )
        drop_share_pod("pinned")


def labels_put_tenants_together_or_apart():
    for name in ("affinity", "anti-affinity", "exclusion"):
        apply(name)
    names = ["producer", "consumer", "replica-a", "replica-b", "secret-a", "secret-b"]
    running(*names)
    wait_for(lambda: {f"{n}/main" for n in names} <= set(daemon.tenants()), "all are granted")
    at = {name: devices_of(name)[0] for name in names}
    assert at["producer"] == at["consumer"], at
    assert at["replica-a"] != at["replica-b"], at
    assert not {at["secret-a"], at["secret-b"]} & {at[n] for n in names if not n.startswith("secret")}, at
    # A pod without the exclusion label cannot run on that device, and its condition gives the reason.
    make("stranger", request="0.1", device=at["secret-a"])

    def told():
        conditions = cluster.pod("stranger")["status"].get("conditions") or []
        return any(
            c["type"] == "PodScheduled" and c["status"] == "False" and c["message"].startswith("0/1 nodes: ")
            for c in conditions
        )

    wait_for(told, "the pod without the label is unschedulable")
    remove(*names, "stranger")


def a_latency_pod_is_served_first():
    """The other tenant takes little of its bursts of 20 ms, and uses the rest of the time."""
    one = f"  annotations:\n    divvy.gpu/device: {daemon.devices()[0]}"
    apply("latency", one=("  annotations:", one))
    registered("answers", "fills")
    before = {
        name: (daemon.used(name), daemon.listed()[name]["devices"][0]["waited_ns"]) for name in ("answers", "fills")
    }
    wait_for(lambda: daemon.used("fills") - before["fills"][0] > 4e9, "the opportunistic one gets 4 s of the device")
    found = daemon.listed()
    gets = {name: found[name]["devices"][0]["used_ns"] - before[name][0] for name in before}
    waits = {name: found[name]["devices"][0]["waited_ns"] - before[name][1] for name in before}
    print(f"# used {gets}, waited {waits}")
    assert found["answers"]["spec"]["class"] == "latency" and found["fills"]["spec"]["class"] == "opportunistic"
    assert gets["answers"] > 0.05 * sum(gets.values()), gets
    assert waits["answers"] < waits["fills"], waits
    remove("answers", "fills")


def each_container_has_its_own_spec():
    apply("two-containers")
    running("pipeline")
    wait_for(
        lambda: {"pipeline/decode", "pipeline/infer"} <= set(daemon.tenants()), "both containers have their grants"
    )
    tenants = {k: v for k, v in daemon.tenants().items() if k.startswith("pipeline/")}
    assert set(tenants) == {"pipeline/decode", "pipeline/infer"}, tenants
    assert tenants["pipeline/decode"]["request"] == 100 and tenants["pipeline/infer"]["request"] == 400, tenants
    assert tenants["pipeline/infer"]["memoryBytes"] == [16 * GIB], tenants
    assert tenants["pipeline/decode"]["slot"] != tenants["pipeline/infer"]["slot"]
    listed = [t for t in json.loads(daemon.divvy("ps", "-o", "json")) if t["pod"]["name"] == "pipeline"]
    wait_for(
        lambda: all(
            t["processes"] for t in json.loads(daemon.divvy("ps", "-o", "json")) if t["pod"]["name"] == "pipeline"
        ),
        "both use a device",
    )
    assert len(listed) == 2, listed
    # The third container has no grant and sees no device.
    code, _, _ = cluster.kubectl(
        "-n", cluster.namespace, "exec", "pipeline", "-c", "log", "--", "spin", "--count=1", check=False
    )
    assert code != 0, "a container without a spec uses a GPU"
    remove("pipeline")


def a_program_may_be_kept_from_the_driver():
    """As shipped the node serves its devices also to its own pods: the program uses a worker only."""
    wait_for(lambda: daemon.status().get("remote"), "the node serves its devices", 120)
    apply("remote")
    registered("remote")
    assert daemon.tenant("remote")["mode"] == "remote", daemon.tenants()
    (worker,) = daemon.listed()["remote"]["processes"]
    assert worker["command"] == "spin", worker
    with open(f"/proc/{worker['pid']}/cmdline", encoding="ascii") as f:
        assert "divvy-remote-worker" in f.read()
    with open(f"/proc/{worker['pid']}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f.read().splitlines())
    assert int(status["Uid"].split()[0]) >= 0x7FF00000 and int(status["CapPrm"].strip(), 16) == 0, status
    remove("remote")


def one_pod_is_evicted_for_each_that_preempts():
    """Pods of a lower priority fill every device: each half that is needed evicts one pod, and no other."""
    spin = ["--kernel-us=500", "--burst-on=5", "--burst-off=500"]
    low, high = [f"low-{i}" for i in range(2 * DEVICES)], [f"high-{i}" for i in range(3)]
    for name in low:
        make(name, *spin, request="0.5", memory="1Gi", priority="10")
    running(*low)
    for name in high:
        make(name, *spin, request="0.5", memory="1Gi", priority="90")
    running(*high)
    there = {p["metadata"]["name"]: p for p in cluster.get(pods())["items"]}
    left = [name for name in low if name in there and not there[name]["metadata"].get("deletionTimestamp")]
    assert len(left) == len(low) - len(high), left
    assert all(there[name]["status"]["phase"] == "Running" for name in left), left
    remove(*left, *high)


def a_share_pod_runs_again_after_a_reboot():
    """The kubelet rejects all pods with a slot, because divvyd has not registered yet. Only their owners can replace them."""
    if cluster.minor < 25:
        raise Skip("older kubelets start the containers again, and reject no pod")
    share_pods = f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods"
    containers = [{"name": "main", "image": PROGRAMS, "command": ["spin", "--kernel-us=500"]}]
    for name, policy in (("always", "Always"), ("never", "Never")):
        template = {"spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": containers}}
        spec = {"request": 0.2, "memory": "2Gi", "template": template}
        cluster.create(
            share_pods, {"apiVersion": "divvy.gpu/v1", "kind": "SharePod", "metadata": {"name": name}, "spec": spec}
        )
    make("bare", "--kernel-us=500", request="0.2")
    wait_for(lambda: all(cluster.exists(pods(name)) for name in ("always", "never")), "the SharePods have pods", 60)
    registered("always", "never", "bare")
    first = {name: cluster.pod(name)["metadata"]["uid"] for name in ("always", "never", "bare")}
    cluster.node.cut_power()
    cluster.node.boot()

    def follows():
        items = {p["metadata"]["name"]: p for p in cluster.get(pods())["items"]}
        pod = items.get("always")
        return pod and pod["metadata"]["uid"] != first["always"] and pod["status"]["phase"] == "Running"

    wait_for(follows, "the pod with restartPolicy Always has a successor", 180)
    registered("always")
    for name in ("never", "bare"):
        assert (cluster.pod(name)["metadata"]["uid"], cluster.pod(name)["status"]["phase"]) == (first[name], "Failed")
    wait_for(lambda: share_pod("always")["status"].get("granted", {}).get("request") == 200, "it is granted", 60)
    drop_share_pod("always")
    drop_share_pod("never")
    remove("bare")


TESTS = [
    the_shipped_pods_run,
    labels_of_the_node_describe_its_devices,
    a_pod_beyond_its_memory_fails_and_its_neighbour_goes_on,
    a_job_starts_when_a_fifth_of_it_fits,
    a_job_waits_while_too_few_members_fit,
    a_share_pod_is_pinned_to_its_gpu,
    labels_put_tenants_together_or_apart,
    a_latency_pod_is_served_first,
    a_program_may_be_kept_from_the_driver,
    each_container_has_its_own_spec,
    one_pod_is_evicted_for_each_that_preempts,
    a_share_pod_runs_again_after_a_reboot,
]

try:
    with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS) as cluster:
        daemon = shipped.install(cluster, f"{DEVICES}xH200-141Gi")
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
