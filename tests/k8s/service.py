# SPDX-License-Identifier: Apache-2.0
"""A service of shared pods under Kubernetes' own autoscaler: deploy/examples/autoscaling, with a program that answers requests
(tests/programs/worker), and the requests."""

import contextlib
import os
import queue
import random
import select
import socket
import threading
import time

import shipped
from api import ApiError
from cluster import wait_for
from divvyd import BUILD, libraries_of
from manifests import DEPLOY

IMAGE = "worker"
KERNEL_MS = 20  # device time of a request
SHARE = "0.2"
WAIT_S = 300
# By default the autoscaler looks every 15 s, and the example service may shrink after 60 s. The tests divide
# both times by FASTER.
FASTER = 5
LOOKS_S, SHRINKS_AFTER_S = 15, 60


def sync(faster=FASTER):
    """The controller manager's option for the autoscaler's period."""
    return [f"--horizontal-pod-autoscaler-sync-period={LOOKS_S / faster:g}s"]


WAIT = 4  # most requests that wait for a pod


class Load:
    """Poisson arrivals that all pods of a service serve. The load does not wait for the pods: a request that finds the queue
    full is lost."""

    def __init__(self, address, seed=1):
        self.socket = socket.create_server((address, 0))
        self.address, self.port = self.socket.getsockname()
        self.random = random.Random(seed)
        self.per_s = 0
        self.made = 0
        self.is_over = False
        self.answers = []  # (when it came, seconds until it was answered)
        self.waiting = queue.Queue(maxsize=WAIT)
        for work in (self.make, self.accept):
            threading.Thread(target=work, daemon=True).start()

    def make(self):
        due = time.monotonic()
        while not self.is_over:
            if not self.per_s:
                time.sleep(0.01)
                due = time.monotonic()
                continue
            due += self.random.expovariate(self.per_s)
            time.sleep(max(0, due - time.monotonic()))
            if self.per_s:
                self.made += 1
                with contextlib.suppress(queue.Full):
                    self.waiting.put_nowait(due)

    def accept(self):
        with contextlib.suppress(OSError):  # it is closed
            while not self.is_over:
                connection, _ = self.socket.accept()
                threading.Thread(target=self.give, args=(connection,), daemon=True).start()

    def close(self):
        """Ends the load."""
        self.is_over = True
        with self.socket, contextlib.suppress(OSError):
            socket.create_connection((self.address, self.port)).close()  # wakes accept()

    def give(self, connection):
        """Sends requests to one pod until the pod closes its connection; a pod sends answers only."""
        with connection, contextlib.suppress(OSError):
            while not select.select([connection], [], [], 0)[0]:
                try:
                    came = self.waiting.get(timeout=1)
                except queue.Empty:
                    continue
                connection.sendall(b"x")
                if not connection.recv(1):
                    return
                self.answers.append((came, time.monotonic() - came))


def import_worker(cluster):
    ptx = os.path.join(shipped.SOURCE, "src/simgpu/kernels.ptx")
    driver = libraries_of(os.path.join(BUILD, "src/simgpu/libcuda.so.1"))
    shipped.import_image(
        cluster,
        IMAGE,
        {"/bin/worker": os.path.join(BUILD, "tests/programs/worker"), ptx: ptx, **{path: path for path in driver}},
    )


class Service:
    """The Deployment and its autoscaler."""

    def __init__(self, cluster, daemon, name="answers-many", share=SHARE, faster=FASTER, at_least=1):
        self.cluster, self.daemon, self.name, self.share, self.faster, self.least = (
            cluster,
            daemon,
            name,
            share,
            faster,
            at_least,
        )
        self.load = Load(cluster.node.seat.address)

    def apply(self):
        """Applies both and waits until the service serves and the autoscaler reads its usage."""
        self.cluster.kubectl("apply", "-f", str(DEPLOY / "external-metrics.yaml"))
        self.cluster.apply(
            shipped.example(
                "autoscaling/service",
                version=("autoscaling/v2", self.cluster.api_version("HorizontalPodAutoscaler")),
                name=("answers-many", self.name),
                share=(f'"{SHARE}"', f'"{self.share}"'),
                image=(f"image: {shipped.PROGRAMS}", f"image: {IMAGE}:{shipped.VERSION}"),
                program=(
                    "command: [spin, --burst-on=20, --burst-off=80, --quiet]",
                    f'command: [worker, "{self.load.address}", "{self.load.port}", "{KERNEL_MS * 1000}"]',
                ),
                least=("minReplicas: 1", f"minReplicas: {self.least}"),
                at_once=(
                    "stabilizationWindowSeconds: 60",
                    f"stabilizationWindowSeconds: {SHRINKS_AFTER_S // self.faster}",
                ),
                ends_at_once=("      containers:", "      terminationGracePeriodSeconds: 1\n      containers:"),
            ),
            namespace=self.cluster.namespace,
        )
        wait_for(self.is_measured, "the metrics are served", WAIT_S)
        self.await_replicas(lambda n: n == self.least, "as many as at least are ready")
        wait_for(lambda: self.milli("divvy_gpu_used") == 0, "the usage is measured, and is 0", WAIT_S)
        wait_for(self.is_read, "the autoscaler reads the metric", WAIT_S)

    def is_measured(self):
        """Does the API server serve the metrics? It needs a moment to find them."""
        try:
            self.metric("divvy_gpu_used")
        except ApiError:
            return False
        return True

    def is_read(self):
        conditions = {c["type"]: c for c in self.autoscaler()["status"].get("conditions") or []}
        return conditions.get("ScalingActive", {}).get("status") == "True"

    def deployment(self):
        return self.cluster.get(f"/apis/apps/v1/namespaces/{self.cluster.namespace}/deployments/{self.name}")

    def autoscaler(self):
        version = self.cluster.api_version("HorizontalPodAutoscaler")
        return self.cluster.get(
            f"/apis/{version}/namespaces/{self.cluster.namespace}/horizontalpodautoscalers/{self.name}"
        )

    def ready(self):
        return self.deployment()["status"].get("readyReplicas", 0)

    def shares(self):
        """The device share, in thousandths, of each pod that has one."""
        return [t["request"] for t in self.daemon.status().get("tenants") or [] if t["pod"].startswith(self.name + "-")]

    def metric(self, name):
        items = self.cluster.get(
            f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{self.cluster.namespace}/{name}"
            f"?labelSelector=app%3D{self.name}"
        )["items"]
        return items[0]["value"] if items else None

    def milli(self, name):
        text = self.metric(name)
        return -1 if text is None else int(text[:-1]) if text.endswith("m") else 1000 * int(text)

    def await_replicas(self, fits, words):
        try:
            wait_for(lambda: fits(self.ready()), words, WAIT_S)
        except AssertionError as error:
            said = {
                name: self.metric(name) for name in ("divvy_gpu_used", "divvy_gpu_utilization", "divvy_gpu_granted")
            }
            raise AssertionError(f"{error}: {self.ready()} are ready, {said}, {self.autoscaler()['status']}") from None
