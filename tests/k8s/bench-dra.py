#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvyd as DRA driver on the real API server and kubelet.

Pod starts: from the first byte of the POST to the first instruction of the program, as in bench-start.py. A pod with a claim of
divvy's shipped driver is compared with the same pod with a claim of a driver that does nothing (tests/programs/dra-nothing), in
turns, then many at once. Both claims come from templates, and kube-scheduler allocates both.

Node: the time of NodePrepareResources beside 64 tenants, by requests as a kubelet sends them, with the same requests to the
driver that does nothing before and after. What an idle node writes. What slices with 5,000 devices of other nodes cost divvyd
and the schedulers.
usage: bench-dra.py [--pods N] [--at-once N] [--rounds N] [--cycles N] [--devices N] [--quick] [--out FILE]
Appends one object a line to FILE."""

import json
import os
import statistics
import sys
import tempfile
import time

import claims
import kube_scheduler
import shipped
from api_load import Used, memory_mib, written
from cluster import NODE_OF_OURS, SKIP, Skip, open_cluster, own_minor, patience, skip_all, wait_for
from divvyd import BUILD, Daemon, bound_account, install
from dra import OLDEST, SLICES, claims_path, create_claim, install_driver, published, share
from manifests import overlay_of_claims
from results import Results
from scheduled import Scheduled
from starts import Kind, Starts

NOTHING = "nothing.example.com"
DRIVER = os.path.join(BUILD, "tests/programs/dra-nothing")
ASK = os.path.join(BUILD, "tests/programs/dra-kubelet")
PLUGINS = "/var/lib/kubelet/plugins"
TENANTS = 64
IDLE_S = 60
EACH = 8  # devices of a node
STARTS = ("kube.dra_start_ratio_p50", "kube.dra_start_ratio_50")
NODE = ("kube.dra_prepare_ms_p99", "kube.dra_prepare_ms_p50", "kube.dra_idle_writes")
SCALE = (
    "kube.dra_5000_divvyd_mib",
    "kube.dra_5000_scheduler_mib",
    "kube.dra_5000_kube_scheduler_mib",
    "kube.dra_writes",
)


# ---- the driver that does nothing


def start_nothing(cluster):
    """Its slice is the test's: it knows nothing of devices. A kubelet removes no slice of a registered driver."""
    cluster.keeper.ask(
        "start",
        name="dra-nothing",
        log=os.path.join(cluster.dir, "log", "dra-nothing.log"),
        env={"PATH": os.environ["PATH"]},
        argv=[*cluster.node.inside(), DRIVER, NOTHING, "/var/lib/kubelet"],
    )
    time.sleep(3)  # the kubelet registers it, and would remove slices of an unknown driver
    devices = [{"name": f"d{n}"} for n in range(128)]
    pool = {"name": "nothing", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": NOTHING, "nodeName": cluster.node_name, "pool": pool, "devices": devices}
    cluster.create(SLICES, {"metadata": {"name": "nothing"}, "spec": spec})
    selector = {"cel": {"expression": f'device.driver == "{NOTHING}"'}}
    cluster.create(
        "/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": "nothing"}, "spec": {"selectors": [selector]}}
    )


# ---- starts


class ClaimKind(Kind):
    """Pods with a claim of a template."""

    def __init__(self, starts, label, space, request):
        super().__init__(starts, label, space)
        self.cluster.create(
            f"/apis/resource.k8s.io/v1/namespaces/{space}/resourceclaimtemplates",
            {"metadata": {"name": label}, "spec": {"spec": {"devices": {"requests": [request]}}}},
        )

    def pod(self):
        name, text = super().pod()
        pod = json.loads(text)
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": self.label}]
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        return name, json.dumps(pod)


def median(kind, which=0):
    return statistics.median(t[which] for t in kind.times)


def take_turns(kinds, rounds, at_once, n_warm=0):
    """Gives each kind two turns a round, so that other load of the machine meets both kinds."""
    for kind in kinds:
        kind.times = []
    for i in range(rounds):
        for kind in (*kinds, *reversed(kinds)):
            times = kind.create(at_once)
            kind.clear()
            kind.times += times if i >= n_warm else []


def show_starts(metric, divvy, nothing):
    RESULTS.add(
        metric,
        median(divvy) / median(nothing),
        "<= 1.10",
        len(divvy.times),
        f"divvy {median(divvy):.0f} ms, of which to its node {median(divvy, 1):.0f}; "
        f"a driver that does nothing {median(nothing):.0f} ms and {median(nothing, 1):.0f}",
    )


def measure_starts():
    with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS, alone=True) as cluster:
        shipped.make_images(cluster)
        with tempfile.TemporaryDirectory(prefix="divvy-deploy-", dir=cluster.dir) as folder:
            folder = str(overlay_of_claims(cluster, folder))
            cluster.kubectl("apply", "--server-side", "-k", folder, timeout=shipped.START_S)
        shipped.await_workloads(cluster)
        node = shipped.example(
            "simulated-node", name=("node1", cluster.node_name), devices=("2xH200-141Gi", "1xH200-141Gi")
        )
        cluster.apply(node)
        cluster.kubectl("label", "node", cluster.node_name, "divvy.gpu/owner=dra")
        wait_for(lambda: len(published(cluster)) == 2, "the node's devices are published", shipped.START_S)
        start_nothing(cluster)
        starts = Starts(cluster, shipped.Shipped(cluster, "1xH200-141Gi"))
        divvy = ClaimKind(starts, "divvy", cluster.new_namespace(), share(10, "64Mi"))
        exactly = {"name": "gpu", "exactly": {"deviceClassName": "nothing"}}
        nothing = ClaimKind(starts, "nothing", cluster.new_namespace(), exactly)
        if RESULTS.wants(STARTS[0]):
            take_turns([nothing, divvy], ARGS.pods // 2 + 1, 1, n_warm=1)
            show_starts(STARTS[0], divvy, nothing)
        if RESULTS.wants(STARTS[1]):
            take_turns([nothing, divvy], ARGS.rounds, ARGS.at_once)
            show_starts(STARTS[1], divvy, nothing)


# ---- the node


def allocated(cluster, name, driver="divvy.gpu", **result):
    """A claim that is allocated and reserved, as kube-scheduler leaves it: the words that name it in a request."""
    claim = create_claim(cluster, name, share(10, "64Mi"))
    results = [{"request": "gpu", "driver": driver, "pool": cluster.node_name, **result}]
    reserved = [{"resource": "pods", "name": name, "uid": "00000000-0000-0000-0000-000000000000"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    cluster.patch(claims_path(cluster, name) + "/status", {"status": status})
    return [cluster.namespace, name, claim["metadata"]["uid"]]


def ask(cluster, driver, *words):
    return cluster.node.enter(ASK, f"{PLUGINS}/{driver}", *words, timeout=patience(600)).stdout


def cycles(cluster, driver, n, claim):
    """Milliseconds of NodePrepareResources: (median, p99, most)."""
    return [int(us) / 1000 for us in ask(cluster, driver, "cycles", str(n), *claim).split()]


def timed_ms(fn):
    began = time.monotonic()
    fn()
    return (time.monotonic() - began) * 1000


def measure_prepare(cluster, daemon):
    part = {
        "device": "share-" + daemon.devices()[0][4:].lower(),
        "shareID": "5a0a9f33-0f22-4f8a-a2bd-000000000000",
        "consumedCapacity": {"share": "10", "memory": "64Mi"},
    }
    for n in range(TENANTS):
        ask(cluster, "divvy.gpu", "prepare", *allocated(cluster, f"tenant-{n}", **part))
    claim, other = allocated(cluster, "cycle", **part), allocated(cluster, "other", NOTHING, device="d0")
    before = cycles(cluster, NOTHING, ARGS.cycles, other)
    p50, p99, most = cycles(cluster, "divvy.gpu", ARGS.cycles, claim)
    after = cycles(cluster, NOTHING, ARGS.cycles, other)
    nothing = [max(pair) for pair in zip(before, after)]
    reads = sorted(timed_ms(lambda: cluster.get(claims_path(cluster, "cycle"))) for _ in range(200))
    detail = (
        f"beside {TENANTS} tenants; most {most:.1f}; just before or after, a driver that does nothing: median "
        f"{nothing[0]:.1f}, p99 {nothing[1]:.1f}; a request to the API server alone: median {reads[100]:.1f}, "
        f"p99 {reads[197]:.1f}; one-minute load {os.getloadavg()[0]:.0f}"
    )
    RESULTS.add(NODE[0], p99, "<= 20", ARGS.cycles, detail)
    RESULTS.add(NODE[1], p50, "", ARGS.cycles, detail)


def measure_idle(cluster):
    time.sleep(10)  # what the start has caused is written
    used = Used(cluster)
    time.sleep(IDLE_S)
    wrote = {
        key: n for key, n in used.writes().items() if any(w in key for w in ("resourceslices", "gpunodes", "events"))
    }
    wrote |= {key: n for key, n in used.writes().items() if "resourceclaims" in key}
    RESULTS.add(NODE[2], sum(wrote.values()), "<= 0", 1, f"slices, claims, GPUNode, Events in {IDLE_S} s: {wrote}")


def measure_devices(cluster, rig):
    """Other nodes' slices, as their divvyd write them."""
    scheduler = rig.start()
    log = os.path.join(cluster.dir, "log/divvy-scheduler.log")
    wait_for(lambda: "first lists" in open(log, encoding="utf-8").read(), "divvy-scheduler has read the cluster", 60)
    pids = {
        "divvyd": cluster.pid("divvyd"),
        "scheduler": scheduler.pid,
        "kube_scheduler": cluster.pid("kube-scheduler"),
    }
    before = {name: memory_mib(pid, "VmRSS") for name, pid in pids.items()}
    n_nodes = ARGS.devices // EACH
    for n in range(n_nodes):
        claims.add_node(cluster, f"many-{n}", "H200", n=EACH)
    time.sleep(10)
    detail = f"{n_nodes} nodes with {EACH} devices each"
    for metric, name in zip(SCALE, pids):
        now = memory_mib(pids[name], "VmRSS")
        RESULTS.add(metric, now - before[name], "", 1, f"MiB more with {detail}; {before[name]:.0f} before")


def measure_node():
    without = {"kube-controller-manager": ["--controllers=*,-resourceclaim-controller"]}
    with open_cluster("kcm", "node", args=without, own=NODE_OF_OURS, alone=True) as cluster:
        install(cluster)
        install_driver(cluster)
        daemon = Daemon(cluster, simulate="1xH200-141Gi", account=bound_account(cluster))
        daemon.make_gpu_node()
        before = written(cluster)
        daemon.start("--dra")
        daemon.await_ready()
        wait_for(lambda: len(published(cluster)) == 2, "the slices are published", 60)
        if RESULTS.wants(SCALE[3]):
            wrote = {k: n - before.get(k, 0) for k, n in written(cluster).items() if "resourceslices" in k}
            RESULTS.add(SCALE[3], sum(wrote.values()), "<= 2", 1, f"writes of slices to publish a node: {wrote}")
        start_nothing(cluster)
        if RESULTS.wants(NODE[2]):
            measure_idle(cluster)
        if RESULTS.wants(*NODE[:2]):
            measure_prepare(cluster, daemon)
        if RESULTS.wants(*SCALE[:3]):
            kube_scheduler.start(cluster)
            with Scheduled(cluster) as rig:
                measure_devices(cluster, rig)


RESULTS = Results(
    ("--pods", 20, 4), ("--at-once", 50, 10), ("--rounds", 2, 1), ("--cycles", 1000, 100), ("--devices", 5000, 160)
)
ARGS = RESULTS.args
if not RESULTS.wants(*STARTS, *NODE, *SCALE):
    sys.exit()

try:
    if own_minor() < OLDEST:
        raise Skip(f"needs Kubernetes 1.{OLDEST}")
    if RESULTS.wants(*NODE, *SCALE):
        measure_node()
    if RESULTS.wants(*STARTS):
        measure_starts()
except Skip as reason:
    skip_all(reason, SKIP)
