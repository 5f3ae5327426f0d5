#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service of shared pods grows and shrinks with its load: Kubernetes' own autoscaler, what divvyd has measured."""

import time

import shipped
from cluster import Skip, main, open_cluster, skip_all, wait_for
from service import KERNEL_MS, WAIT_S, Service, import_worker, sync


def the_example_is_one_idle_pod_at_first():
    service.apply()
    assert service.metric("divvy_gpu_granted") == "200m", service.metric("divvy_gpu_granted")


def with_a_load_it_grows():
    """Of half a device in all: each pod may use a fifth of one, and seven tenths of that are wished for."""
    service.load.per_s = 0.5 * 1000 / KERNEL_MS
    service.await_replicas(lambda n: n >= 3, "three pods share the load")
    assert service.milli("divvy_gpu_granted") >= 600, service.metric("divvy_gpu_granted")
    # They are enough: it neither runs to its bound nor back.
    wait_for(lambda: 400 <= service.milli("divvy_gpu_used") <= 600, "the load is done, and no more", WAIT_S)
    assert service.ready() <= 5, service.autoscaler()["status"]
    # A pod that comes just now is granted before it is ready.
    wait_for(lambda: service.shares() == [200] * service.ready(), "each has its fifth", WAIT_S)


def without_one_it_shrinks():
    service.load.per_s = 0
    service.await_replicas(lambda n: n == 1, "one is left")
    wait_for(lambda: len(service.shares()) == 1, "the others' shares are given back", WAIT_S)
    wait_for(lambda: service.milli("divvy_gpu_used") == 0, "it uses nothing", WAIT_S)


def who_is_silent_is_no_reason_to_shrink():
    """A node whose daemon says nothing: not known is not idle, and more pods than the load needs stay."""
    cluster.kubectl("-n", shipped.SYSTEM, "patch", "daemonset", "divvyd", "-p",
                    '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"x"}}}}}')
    wait_for(lambda: service.metric("divvy_gpu_utilization") is None, "nothing is known any more", WAIT_S)
    assert service.metric("divvy_gpu_granted") == "200m", service.metric("divvy_gpu_granted")
    cluster.kubectl("-n", cluster.namespace, "scale", "deployment", service.name, "--replicas=3")
    time.sleep(20)  # six looks of the autoscaler's, and twice what it waits before it shrinks
    assert service.deployment()["spec"]["replicas"] == 3, service.autoscaler()["status"]


try:
    with open_cluster("kcm", "sched", "node", own=True, args={"kube-controller-manager": sync()}) as cluster:
        service = Service(cluster, shipped.install(cluster, "1xH200-141Gi"))
        import_worker(cluster)
        main(the_example_is_one_idle_pod_at_first, with_a_load_it_grows, without_one_it_shrinks,
             who_is_silent_is_no_reason_to_shrink)
except Skip as reason:
    skip_all(reason)
