#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What experiments measure on a real Kubernetes of one node, with divvy as it ships and simulated devices
(tests/k8s); one JSON object a line, as soon as it is known. A process of its own: the modules of tests/k8s have
names of their own.

usage: on_cluster.py starts NUMBERS ROUNDS
         pods created at once: {"owner", "kind", "n", "round", "ms"}, ms from their POST to their program
       on_cluster.py queue BURSTS ROUNDS
         files for deploy/examples/file-queue: {"burst", "request", "round", "seconds", "first_s", "left"}
Exit status: 77 no cluster can be had here, and a sentence on stderr says why."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("DIVVY_SOURCE", str(ROOT))
os.environ.setdefault("DIVVY_BUILD", str(ROOT / "build"))
sys.path[:0] = [str(ROOT / "tests/k8s"), str(ROOT / "tests")]

import shipped  # noqa: E402
from cluster import SKIP, Skip, open_cluster, wait_for  # noqa: E402
from starts import Kind, Starts, keep_one_there  # noqa: E402

SINGLES = 3  # of pods one at a time
PLUGIN = "tests/k8s/fake-plugin"
QUEUE = ROOT / "deploy/examples/file-queue/file-queue"
# A fifth of the device for five seconds: a second of its time, as much for each file.
WORK = "[spin, --kernel-us=5000, --sync-every=1, --burst-on=20, --burst-off=80, --count=200, --quiet]"
SHARE, WHOLE = "0.25", "1"
LEFT_S = 60  # in which what has ended may still be taken away


def say(**row):
    print(json.dumps(row), flush=True)


# ---- pods that start

class Pool:
    """The node's devices as another plugin's, of which divvy has none while nobody asks."""

    def __init__(self, cluster, daemon):
        self.cluster, self.daemon = cluster, daemon
        devices = daemon.devices()
        cluster.kubectl("label", "--overwrite", "node", cluster.node_name, "divvy.gpu/owner=pool")
        cluster.patch(f"/apis/divvy.gpu/v1/gpunodes/{cluster.node_name}", {"spec": {"pool": {"policy": "onDemand"}}})
        wait_for(lambda: daemon.status().get("owner") == "pool", "the node is one of the pool", 300)
        cluster.keeper.ask("start", name="fake-plugin", env={}, log=daemon.log + ".fake", argv=[
            *cluster.node.inside(), os.path.join(os.environ["DIVVY_BUILD"], PLUGIN), "/var/lib/kubelet/device-plugins",
            "nvidia.com/gpu", ",".join(devices)])
        self.await_none()

    def await_none(self):
        pods = f"/api/v1/namespaces/{shipped.SYSTEM}/pods?labelSelector=app.kubernetes.io/name=divvy-placeholder"
        wait_for(lambda: not self.cluster.get(pods)["items"] and {
            d["owner"] for d in self.daemon.status().get("devices") or []} == {"native"}, "divvy has no device", 300)


def compare(owner, kinds, numbers, rounds, settle):
    """settle: what is waited for after each."""
    for i in range(rounds):
        for n in numbers:
            for kind in kinds if i % 2 else reversed(kinds):
                times = []
                for _ in range(SINGLES if n == 1 else 1):
                    times += [ms for ms, _ in kind.create(n)]
                    kind.clear()
                    settle()
                say(owner=owner, kind=kind.label, n=n, round=i, ms=statistics.median(times))


def starts(numbers, rounds):
    with open_cluster("kcm", "sched", "node", own=True, alone=True) as cluster:
        daemon = shipped.install(cluster, "1xH200-141Gi")
        pods = Starts(cluster, daemon)
        kinds = [Kind(pods, "ordinary", cluster.new_namespace(**{"divvy.gpu/admission": "ignore"})),
                 Kind(pods, "shared", cluster.namespace, {"divvy.gpu/request": "0.01", "divvy.gpu/memory": "64Mi"})]
        keep_one_there(cluster, daemon.devices()[0])
        for kind in kinds:  # the first of an image takes longer
            kind.create(1)
            kind.clear()
        compare("divvy", kinds, numbers, rounds, lambda: None)
        cluster.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/there", grace_s=0)
        wait_for(lambda: not daemon.status().get("tenants"), "nobody has a share", 300)
        pool = Pool(cluster, daemon)
        compare("pool", kinds, numbers, rounds, pool.await_none)


# ---- files that come

class Folder:
    """Where files come, and the Jobs that are made of them."""

    def __init__(self, cluster, daemon):
        self.cluster, self.daemon = cluster, daemon
        self.path = pathlib.Path(cluster.dir, "files")
        self.path.mkdir()
        self.n = 0

    def job(self, request):
        path = pathlib.Path(self.cluster.dir, f"job-{request}.yaml")
        path.write_text(shipped.example("file-queue/job", share=('"0.2"', f'"{request}"'), memory=(
            "        divvy.gpu/memory: 4Gi\n", ""), work=("[spin, --duration=5]", WORK), volume=(
                "persistentVolumeClaim: {claimName: files}", f"hostPath: {{path: {self.path}}}")), encoding="utf-8")
        return path

    def first_use(self, began, ret):
        """When the first program had its device."""
        while "end" not in ret and "at" not in ret:
            if any(t["processes"] for t in self.daemon.listed().values()):
                ret["at"] = time.monotonic() - began
            time.sleep(0.05)

    def left(self):
        """Containers, and shares of devices."""
        pods = self.cluster.get(f"/api/v1/namespaces/{self.cluster.namespace}/pods")["items"]
        return len(pods) + len(self.daemon.status().get("tenants") or [])

    def burst(self, n, request):
        env = {**os.environ, "KUBECONFIG": self.cluster.kubeconfig, "HOME": self.cluster.dir,
               "PATH": os.path.dirname(self.cluster.kubectl_path) + ":" + os.environ["PATH"]}
        job, seen = self.job(request), {}
        command = [sys.executable, QUEUE, self.path, job, "--namespace", self.cluster.namespace, "--every=0.5"]
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as watcher:
            try:
                time.sleep(2)  # it runs, and finds nothing
                began = time.monotonic()
                looker = threading.Thread(target=self.first_use, args=(began, seen))
                looker.start()
                for _ in range(n):
                    self.n += 1
                    hidden = self.path / f".{self.n}"
                    hidden.touch()
                    hidden.rename(self.path / str(self.n))
                wait_for(lambda: len(list((self.path / "done").iterdir())) == self.n, "all files are done", 3600)
                seconds = time.monotonic() - began
                seen["end"] = True
                looker.join()
                end = time.monotonic() + LEFT_S
                while self.left() and time.monotonic() < end:
                    time.sleep(0.2)
                left = self.left()
            finally:
                watcher.terminate()
        return {"seconds": seconds, "first_s": seen["at"], "left": left}


def files(bursts, rounds):
    with open_cluster("kcm", "sched", "node", own=True, alone=True) as cluster:
        daemon = shipped.install(cluster, "8xH200-141Gi")
        folder = Folder(cluster, daemon)
        for i in range(rounds):
            for n in bursts:
                for request in (SHARE, WHOLE) if i % 2 else (WHOLE, SHARE):
                    say(burst=n, request=request, round=i, **folder.burst(n, request))


COMMANDS = {"starts": starts, "queue": files}

if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    try:
        COMMANDS[sys.argv[1]]([int(n) for n in sys.argv[2].split(",")], int(sys.argv[3]))
    except Skip as why:
        print(f"no cluster can be had here: {why}", file=sys.stderr)
        sys.exit(SKIP)
