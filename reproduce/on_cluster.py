#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures for experiments on a real Kubernetes of one node, with divvy as it ships and simulated devices (tests/k8s). It
is a process of its own, since tests/k8s has modules of the same names (node.py). One cluster serves all requests.

usage: on_cluster.py [--slowly]
Each line of the input is one request. The answer is a JSON object a line, as soon as it is known, and an empty line:
  starts NUMBERS ROUNDS
    Creates pods at once: ordinary ones without a device (ordinary), ordinary ones with a plugin's device (native), and
    shared ones. Where divvy has to acquire a device, ten at most and no native ones. {"owner", "kind", "n", "round", "ms",
    "last_ms", "node_ms"}: ms from the POST of a pod to its program, the median and the last, and the median to its node.
  queue BURSTS ROUNDS, or queue:SECONDS for files that need so long, instead of five seconds
    Files for deploy/examples/file-queue: {"burst", "request", "round", "seconds", "first_s", "at_once", "zero_s", "left"}
  service SECONDS ROUNDS
    A load of so long for deploy/examples/autoscaling, FASTER times as fast as in the example, or with --slowly as fast:
    {"service", "round", "answered", "answered_all", "answers", "p99_s", "granted_s", "loaded_s", "left", "grow_s",
    "shrink_s", "granted": [[s, devices], ...]}; granted_s and loaded_s are device-seconds, of all the time and of the time
    with a load.
Exit status 77: no cluster is possible here; a sentence on stderr gives the reason."""

import concurrent.futures
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("DIVVY_SOURCE", str(ROOT))
os.environ.setdefault("DIVVY_BUILD", str(ROOT / "build"))
sys.path[:0] = [str(ROOT / "tests/k8s"), str(ROOT / "tests")]

import shipped  # noqa: E402
from cluster import NODE_OF_OURS, SKIP, Skip, open_cluster, wait_for  # noqa: E402
from manifests import DEPLOY  # noqa: E402
from plugin import await_offered, start_plugin  # noqa: E402
from service import FASTER, KERNEL_MS, SHARE as FIFTH, Service, import_worker, sync  # noqa: E402
from starts import Kind, Starts, keep_one_there  # noqa: E402

ENDED_BY = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
TIMES = {1: 3, 10: 3}  # measurements a round, for few pods at once
ACQUIRE_MAX = 10  # pods at once, if divvy has to acquire a device
NATIVES, NATIVE = 128, "example.com/gpu"  # devices of a plugin that has nothing to do with divvy
DEVICES = "2xH200-141Gi"  # 64 slots each, so none of a hundred pods waits for a slot
SETTLE_S = 2  # the kubelet works for so long after a container's end
QUEUES_DEVICES = "8xH200-141Gi"
QUEUE = ROOT / "deploy/examples/file-queue/file-queue"
# Each file needs a fifth of the device for FILE_S seconds.
FILE_S, KERNELS_PER_S = 5, 40
WORK = "[spin, --kernel-us=5000, --sync-every=1, --burst-on=20, --burst-off=80, --count={}, --quiet]"
SHARE, WHOLE = "0.25", "1"
LEFT_S = 60  # wait at most so long for the removal of ended pods
# The service gets a load of half a device. The experiment looks at the service from BEFORE_S before
# the load until as long after the load as the load lasted.
LOAD = 0.5
PEAK = 4  # replicas of a fifth: so many serve half a device at seven tenths of their shares
SERVICES_DEVICES = "3xH200-141Gi"
BEFORE_S = 10
LEASE_S = (
    10  # between two renewals of a daemon's Lease if nothing changes; each round's load begins elsewhere in this time
)
LOOKS_S = 0.25
ANSWERED_S = 5  # the load counts as answered if the part ANSWERED is, for ANSWERED_S
ANSWERED = 0.95


def say(**row):
    print(json.dumps(row), flush=True)


class Site:
    """The cluster and divvy on it, for one experiment after the other. Each experiment finds it as the first one did."""

    def __init__(self, cluster, faster):
        self.cluster, self.faster = cluster, faster
        self.daemon = self.pool = None

    def open(self, devices):
        """Gives divvy these devices, and the experiment a namespace of its own."""
        if self.daemon is None:
            self.daemon = shipped.install(self.cluster, devices)
        else:
            self.clear()
        if self.pool:
            self.pool.give_back()
            self.pool = None
        self.daemon.change_devices(devices)
        self.cluster.namespace = self.cluster.new_namespace()
        return self.cluster, self.daemon

    def offer_to_others(self):
        self.pool = Pool(self.cluster, self.daemon)
        return self.pool

    def namespaces(self):
        names = (item["metadata"]["name"] for item in self.cluster.get("/api/v1/namespaces")["items"])
        return [name for name in names if name.startswith("divvy-test-")]

    def clear(self):
        """Removes what the experiment before has created."""
        for name in self.namespaces():
            self.cluster.delete(f"/api/v1/namespaces/{name}")
        wait_for(lambda: not self.namespaces(), "what was measured is gone", 300)
        wait_for(lambda: not self.daemon.status().get("tenants"), "nobody has a share", 300)


# ---- pods that start


class Pool:
    """The node's devices as those of another plugin. divvy has none of them until a pod asks."""

    def __init__(self, cluster, daemon):
        self.cluster, self.daemon = cluster, daemon
        devices = daemon.devices()
        cluster.kubectl("label", "--overwrite", "node", cluster.node_name, "divvy.gpu/owner=pool")
        cluster.patch(f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}", {"spec": {"pool": {"policy": "onDemand"}}})
        wait_for(lambda: daemon.status().get("owner") == "pool", "the node is one of the pool", 300)
        start_plugin(cluster, "nvidia.com/gpu", devices)
        await_offered(cluster, "nvidia.com/gpu", len(devices), 300)
        self.await_none()

    def give_back(self):
        """Makes divvy the owner of the devices again."""
        self.cluster.patch(f"/apis/divvy.gpu/v1/gpunodes/{self.cluster.node_name}", {"spec": {"pool": None}})
        self.cluster.kubectl("label", "--overwrite", "node", self.cluster.node_name, "divvy.gpu/owner=divvy")
        self.cluster.kill("fake-plugin")
        self.cluster.restart("kubelet")  # otherwise the kubelet keeps that plugin's devices for five minutes

    def await_none(self):
        """Waits until divvy has no device. divvy's own wait before it returns idle devices is not measured, nor is the
        kubelet's work after a pod's end."""
        pods = f"/api/v1/namespaces/{shipped.SYSTEM}/pods?labelSelector=app.kubernetes.io/name=divvy-placeholder"
        self.cluster.request("DELETE", pods)
        wait_for(
            lambda: {d["owner"] for d in self.daemon.status().get("devices") or []} == {"native"},
            "divvy has no device",
            300,
        )
        time.sleep(SETTLE_S)


def compare(owner, kinds, numbers, rounds, settle):
    """Measures the starts of each kind of pod. settle() waits after each measurement."""
    for i in range(rounds):
        for n in numbers:
            for kind in kinds if i % 2 else reversed(kinds):
                times, last = [], []
                for _ in range(TIMES.get(n, 1) if rounds > 1 else 1):
                    started = kind.create(n)
                    times += started
                    last.append(max(ms for ms, _ in started))
                    kind.clear()
                    settle()
                ms, node_ms = (statistics.median(of) for of in zip(*times))
                say(owner=owner, kind=kind.label, n=n, round=i, ms=ms, last_ms=statistics.median(last), node_ms=node_ms)


def starts(site, numbers, rounds):
    cluster, daemon = site.open(DEVICES)
    pods = Starts(cluster, daemon)
    start_plugin(cluster, NATIVE, NATIVES, "native-plugin")
    await_offered(cluster, NATIVE, NATIVES, 300)
    kinds = [
        Kind(pods, "ordinary", cluster.new_namespace(**{"divvy.gpu/admission": "ignore"})),
        Kind(pods, "shared", cluster.namespace, {"divvy.gpu/request": "0.01", "divvy.gpu/memory": "64Mi"}),
        Kind(pods, "native", cluster.new_namespace(**{"divvy.gpu/admission": "ignore"}), limits={NATIVE: "1"}),
    ]
    there = {f"there-{i}": device for i, device in enumerate(daemon.devices())}
    for name, device in there.items():
        keep_one_there(cluster, device, name)
    for kind in kinds:  # the first pod of an image takes longer
        kind.create(1)
        kind.clear()
    compare("divvy", kinds, numbers, rounds, lambda: None)
    for name in there:
        cluster.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{name}", grace_s=0)
    cluster.kill("native-plugin")
    wait_for(lambda: not daemon.status().get("tenants"), "nobody has a share", 300)
    few = [n for n in numbers if n <= ACQUIRE_MAX]
    compare("pool", kinds[:2], few, rounds, site.offer_to_others().await_none)


# ---- files that come


class Folder:
    """The folder of the files, and the Jobs that the queue makes of them."""

    def __init__(self, cluster, daemon, seconds):
        self.cluster, self.daemon = cluster, daemon
        self.work = WORK.format(round(seconds * KERNELS_PER_S))
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="files-", dir=cluster.dir))
        self.n = 0

    def job(self, request):
        path = pathlib.Path(self.cluster.dir, f"job-{request}.yaml")
        path.write_text(
            shipped.example(
                "file-queue/job",
                share=('"0.2"', f'"{request}"'),
                memory=("        divvy.gpu/memory: 4Gi\n", ""),
                work=("[spin, --duration=5]", self.work),
                volume=("persistentVolumeClaim: {claimName: files}", f"hostPath: {{path: {self.path}}}"),
            ),
            encoding="utf-8",
        )
        return path

    def use(self, began, ret):
        """Writes into ret: when the first program had its device, and how many had one at once."""
        while "end" not in ret:
            n = sum(bool(t["processes"]) for t in self.daemon.listed().values())
            if n and "at" not in ret:
                ret["at"] = time.monotonic() - began
            ret["most"] = max(n, ret.get("most", 0))
            time.sleep(0.5 if "at" in ret else 0.05)

    def left(self):
        """The number of containers and of shares of devices."""
        pods = self.cluster.get(f"/api/v1/namespaces/{self.cluster.namespace}/pods")["items"]
        return len(pods) + len(self.daemon.status().get("tenants") or [])

    def burst(self, n, request):
        env = {
            **os.environ,
            "KUBECONFIG": self.cluster.kubeconfig,
            "HOME": self.cluster.dir,
            "PATH": os.path.dirname(self.cluster.kubectl_path) + ":" + os.environ["PATH"],
        }
        job, seen = self.job(request), {}
        command = [sys.executable, QUEUE, self.path, job, "--namespace", self.cluster.namespace, "--every=0.5"]
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as watcher:
            try:
                time.sleep(2)  # let the queue run without a file
                began = time.monotonic()
                looker = threading.Thread(target=self.use, args=(began, seen))
                looker.start()
                try:
                    for _ in range(n):
                        self.n += 1
                        hidden = self.path / f".{self.n}"
                        hidden.touch()
                        hidden.rename(self.path / str(self.n))
                    wait_for(lambda: len(list((self.path / "done").iterdir())) == self.n, "all files are done", 3600)
                    seconds = time.monotonic() - began
                finally:
                    seen["end"] = True
                    looker.join()
                left, zero_s = self.left(), 0.0
                while left and zero_s < LEFT_S:
                    time.sleep(0.2)
                    left, zero_s = self.left(), time.monotonic() - began - seconds
            finally:
                watcher.terminate()
        return {"seconds": seconds, "first_s": seen["at"], "at_once": seen["most"], "zero_s": zero_s, "left": left}


def files(site, bursts, rounds, seconds=FILE_S):
    folder = Folder(*site.open(QUEUES_DEVICES), float(seconds))
    for i in range(rounds):
        for n in bursts:
            for request in (SHARE, WHOLE) if i % 2 else (WHOLE, SHARE):
                say(burst=n, request=request, round=i, **folder.burst(n, request))


# ---- a service that grows and shrinks


class Look(NamedTuple):
    """One look at a service, `at` seconds after its load began: its shares, its ready replicas, the requests so far."""

    at: float
    shares: list
    ready: int
    made: int


def made_between(looks, begin, end):
    within = [x.made for x in looks if begin <= x.at <= end]
    return within[-1] - within[0]


def answered_between(answers, begin, end):
    """Seconds that the requests took which came in that time."""
    return [took for came, took in answers if begin <= came <= end]


def part_answered(looks, answers, begin, end):
    return min(1.0, len(answered_between(answers, begin, end)) / max(1, made_between(looks, begin, end)))


def grown_at(looks, answers, load_s):
    """When all of the load was answered for the first time, after ANSWERED_S. If that never happened: load_s."""
    return next(
        (
            x.at
            for x in looks
            if ANSWERED_S <= x.at <= load_s and part_answered(looks, answers, x.at - ANSWERED_S, x.at) >= ANSWERED
        ),
        load_s,
    )


def shrunk_at(looks, load_s):
    """Seconds from the end of the load until one share was left. If that never happened: the time until the last look."""
    return max((x.at - load_s for x in looks if x.at > load_s and len(x.shares) > 1), default=0.0)


def device_seconds(granted):
    return sum((b[0] - a[0]) * a[1] for a, b in zip(granted, granted[1:]))


def summary(service, looks, answers, load_s):
    granted = [(x.at, sum(x.shares) / 1000) for x in looks]
    late = sorted(answered_between(answers, load_s / 2, load_s))
    return {
        "service": service.name,
        "granted": granted,
        "answered": part_answered(looks, answers, load_s / 2, load_s),
        "answered_all": part_answered(looks, answers, 0, load_s),
        "answers": len(answered_between(answers, 0, load_s)),
        "p99_s": late[int(0.99 * len(late))] if late else load_s,
        "granted_s": device_seconds(granted),
        "loaded_s": device_seconds([(at, n) for at, n in granted if 0 <= at <= load_s]),
        "left": abs(looks[-1].ready - 1) + abs(len(looks[-1].shares) - looks[-1].ready),
        "grow_s": grown_at(looks, answers, load_s),
        "shrink_s": shrunk_at(looks, load_s),
    }


def episode(services, load_s, seed, later_s):
    """All services get the same load at once, on devices of their own. A daemon reports a change below MEASURED_SHARE_STEP
    only when it renews its Lease. Without later_s each load would begin equally long after such a report."""
    for service in services:
        wait_for(
            lambda s=service: len(s.shares()) == s.ready() == s.least and s.milli("divvy_gpu_used") == 0,
            "it is idle",
            300,
        )
        service.load.random.seed(seed)
        service.load.answers.clear()
    time.sleep(later_s)
    began = time.monotonic() + BEFORE_S
    looks = {service: [] for service in services}
    for end, devices in ((0, 0), (load_s, LOAD), (2 * load_s, 0)):
        for service in services:
            service.load.per_s = devices * 1000 / KERNEL_MS
        while time.monotonic() - began < end:
            for service in services:
                looks[service].append(
                    Look(time.monotonic() - began, service.shares(), service.ready(), service.load.made)
                )
            time.sleep(LOOKS_S)
    return [
        summary(service, looks[service], [(came - began, took) for came, took in service.load.answers], load_s)
        for service in services
    ]


def grows(site, seconds, rounds):
    cluster, daemon = site.open(SERVICES_DEVICES)
    import_worker(cluster)
    # Once for all services, which apply their objects at the same time.
    cluster.kubectl("apply", "-f", str(DEPLOY / "external-metrics.yaml"))
    services = [
        Service(cluster, daemon, "on-shares", FIFTH, site.faster),
        Service(cluster, daemon, "on-whole", WHOLE, site.faster),
        Service(cluster, daemon, "static", FIFTH, site.faster, at_least=PEAK),
    ]
    with concurrent.futures.ThreadPoolExecutor(len(services)) as at_once:
        list(at_once.map(Service.apply, services))
    for i in range(rounds):
        for load_s in seconds:
            for row in episode(services, load_s, seed=i, later_s=LEASE_S * i / rounds):
                say(round=i, **row)
    for service in services:
        service.load.close()


COMMANDS = {"starts": starts, "queue": files, "service": grows}


def leave(*_):
    """On a signal: ends as if the input had ended, so that the cluster is cleaned up."""
    for sign in ENDED_BY:
        signal.signal(sign, signal.SIG_IGN)
    sys.exit(0)


def serve(faster):
    with open_cluster(
        "kcm", "sched", "node", own=NODE_OF_OURS, alone=True, args={"kube-controller-manager": sync(faster)}
    ) as cluster:
        site = Site(cluster, faster)
        for line in sys.stdin:
            what, numbers, rounds = line.split()
            what, *more = what.split(":")
            COMMANDS[what](site, [int(n) for n in numbers.split(",")], int(rounds), *more)
            print(flush=True)


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--slowly"]):
        sys.exit(__doc__)
    for each in ENDED_BY:
        signal.signal(each, leave)
    try:
        serve(1 if sys.argv[1:] else FASTER)
    except Skip as why:
        print(f"no cluster can be had here: {why}", file=sys.stderr)
        sys.exit(SKIP)
