#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service of shared pods grows and shrinks with its load: Kubernetes' own autoscaler, what divvyd has measured."""

import os
import queue
import socket
import threading
import time

import shipped
from api import ApiError
from cluster import Skip, main, open_cluster, skip_all, wait_for
from divvyd import BUILD, libraries_of
from manifests import DEPLOY
from shipped import SYSTEM, example

WORKER = os.path.join(BUILD, "tests/programs/worker")
IMAGE = "worker"
KERNEL_MS = 20
NAME = "answers-many"
WAIT_S = 300
SYNC = "--horizontal-pod-autoscaler-sync-period=3s"


class Load:
    """Requests that all of a service's pods take from; who asks for more than they do waits for none of them."""

    def __init__(self):
        self.socket = socket.create_server((cluster.node.seat.address, 0))
        self.address, self.port = self.socket.getsockname()
        self.per_s = 0
        self.waiting = queue.Queue(maxsize=4)
        for work in (self.make, self.accept):
            threading.Thread(target=work, daemon=True).start()

    def make(self):
        while True:
            time.sleep(1 / self.per_s if self.per_s else 0.05)
            if self.per_s:
                try:
                    self.waiting.put_nowait(1)
                except queue.Full:
                    pass

    def accept(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.give, args=(connection,), daemon=True).start()

    def give(self, connection):
        with connection:
            try:
                while True:
                    self.waiting.get()
                    connection.sendall(b"x")
                    if not connection.recv(1):
                        return
            except OSError:
                return


def deployment():
    return cluster.get(f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/{NAME}")


def autoscaler():
    return cluster.get(f"/apis/autoscaling/v2beta2/namespaces/{cluster.namespace}/horizontalpodautoscalers/{NAME}")


def ready():
    return deployment()["status"].get("readyReplicas", 0)


def metric(name):
    items = cluster.get(f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{cluster.namespace}/{name}"
                        f"?labelSelector=app%3D{NAME}")["items"]
    return items[0]["value"] if items else None


def milli(name):
    text = metric(name)
    return -1 if text is None else int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def is_served():
    """The API server takes a moment to know where the metrics are."""
    try:
        metric("divvy_gpu_used")
    except ApiError:
        return False
    return True


def await_replicas(fits, words):
    try:
        wait_for(lambda: fits(ready()), words, WAIT_S)
    except AssertionError as error:
        said = {name: metric(name) for name in ("divvy_gpu_used", "divvy_gpu_utilization", "divvy_gpu_granted")}
        raise AssertionError(f"{error}: {ready()} are ready, {said}, {autoscaler()['status']}") from None


def the_example_is_one_idle_pod_at_first():
    cluster.kubectl("apply", "-f", str(DEPLOY / "external-metrics.yaml"))
    cluster.apply(example("autoscaling/service", version=("autoscaling/v2", "autoscaling/v2beta2"), image=(
        "image: divvy-programs:0.1.0", f"image: {IMAGE}:{shipped.VERSION}"), program=(
            "command: [spin, --burst-on=20, --burst-off=80, --quiet]",
            f'command: [worker, "{load.address}", "{load.port}", "{KERNEL_MS * 1000}"]'), at_once=(
                "stabilizationWindowSeconds: 60", "stabilizationWindowSeconds: 10"), ends_at_once=(
                    "      containers:", "      terminationGracePeriodSeconds: 1\n      containers:")), namespace=cluster.namespace)
    wait_for(is_served, "the metrics are served", WAIT_S)
    await_replicas(lambda n: n == 1, "one is ready")
    wait_for(lambda: milli("divvy_gpu_used") == 0, "it is measured, and uses nothing", WAIT_S)
    assert metric("divvy_gpu_granted") == "200m", metric("divvy_gpu_granted")

    def is_known():
        conditions = {c["type"]: c for c in autoscaler()["status"].get("conditions") or []}
        return conditions.get("ScalingActive", {}).get("status") == "True"
    wait_for(is_known, "the autoscaler reads it", WAIT_S)


def with_a_load_it_grows():
    """Of half a device in all: each pod may use a fifth of one, and seven tenths of that are wished for."""
    load.per_s = 0.5 * 1000 / KERNEL_MS
    await_replicas(lambda n: n >= 3, "three pods share the load")
    assert milli("divvy_gpu_granted") >= 600, metric("divvy_gpu_granted")
    # They are enough: it neither runs to its bound nor back.
    wait_for(lambda: 400 <= milli("divvy_gpu_used") <= 600, "the load is done, and no more", WAIT_S)
    assert ready() <= 5, autoscaler()["status"]
    # A pod that comes just now is granted before it is ready.
    wait_for(lambda: [t["request"] for t in daemon.status()["tenants"]] == [200] * ready(), "each has its fifth", WAIT_S)


def without_one_it_shrinks():
    load.per_s = 0
    await_replicas(lambda n: n == 1, "one is left")
    wait_for(lambda: len(daemon.status().get("tenants") or []) == 1, "the others' shares are given back", WAIT_S)
    wait_for(lambda: milli("divvy_gpu_used") == 0, "it uses nothing", WAIT_S)


def who_is_silent_is_no_reason_to_shrink():
    """A node whose daemon says nothing: not known is not idle, and more pods than the load needs stay."""
    cluster.kubectl("-n", SYSTEM, "patch", "daemonset", "divvyd", "-p",
                    '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"x"}}}}}')
    wait_for(lambda: metric("divvy_gpu_utilization") is None, "nothing is known any more", WAIT_S)
    assert metric("divvy_gpu_granted") == "200m", metric("divvy_gpu_granted")
    cluster.kubectl("-n", cluster.namespace, "scale", "deployment", NAME, "--replicas=3")
    time.sleep(20)  # six looks of the autoscaler's, and twice what it waits before it shrinks
    assert deployment()["spec"]["replicas"] == 3, autoscaler()["status"]


try:
    with open_cluster("kcm", "sched", "node", own=True, args={"kube-controller-manager": [SYNC]}) as cluster:
        daemon = shipped.install(cluster, "1xH200-141Gi")
        ptx = os.path.join(shipped.SOURCE, "src/sim/kernels.ptx")
        driver = libraries_of(os.path.join(BUILD, "src/sim/libcuda.so.1"))
        shipped.import_image(cluster, IMAGE, {"/bin/worker": WORKER, ptx: ptx, **{path: path for path in driver}})
        load = Load()
        main(the_example_is_one_idle_pod_at_first, with_a_load_it_grows, without_one_it_shrinks,
             who_is_silent_is_no_reason_to_shrink)
except Skip as reason:
    skip_all(reason)
