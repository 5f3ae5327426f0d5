#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service of shared pods grows and shrinks with its load: Kubernetes' own autoscaler with divvyd's measurements."""

import time

import shipped
from cluster import Skip, main, open_cluster, skip_all, wait_for
from service import KERNEL_MS, WAIT_S, Service, import_worker, sync


def the_example_starts_with_one_idle_pod():
    service.apply()
    assert service.metric("divvy_gpu_granted") == "200m", service.metric("divvy_gpu_granted")


def the_service_grows_with_its_load():
    """The load needs half a device. Each pod may use a fifth of one, and the autoscaler aims at seven tenths of that."""
    service.load.per_s = 0.5 * 1000 / KERNEL_MS
    service.await_replicas(lambda n: n >= 3, "three pods share the load")
    assert service.milli("divvy_gpu_granted") >= 600, service.metric("divvy_gpu_granted")
    # The present pods are enough: their number neither grows to the maximum nor falls back.
    wait_for(lambda: 400 <= service.milli("divvy_gpu_used") <= 600, "the load is done, and no more", WAIT_S)
    assert service.ready() <= 5, service.autoscaler()["status"]
    # A new pod gets its grant before it is ready.
    wait_for(lambda: service.shares() == [200] * service.ready(), "each ready pod has a fifth of the device", WAIT_S)


def the_service_shrinks_without_load():
    service.load.per_s = 0
    service.await_replicas(lambda n: n == 1, "one is left")
    wait_for(lambda: len(service.shares()) == 1, "the deleted pods' shares are free", WAIT_S)
    wait_for(lambda: service.milli("divvy_gpu_used") == 0, "the service's usage is 0", WAIT_S)


def a_silent_daemon_does_not_shrink_the_service():
    """A node whose daemon is silent: unknown usage is not idle, so that more pods than the load needs stay."""
    cluster.kubectl(
        "-n",
        shipped.SYSTEM,
        "patch",
        "daemonset",
        "divvyd",
        "-p",
        '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"x"}}}}}',
    )
    wait_for(lambda: service.metric("divvy_gpu_utilization") is None, "the utilization is unknown", WAIT_S)
    assert service.metric("divvy_gpu_granted") == "200m", service.metric("divvy_gpu_granted")
    cluster.kubectl("-n", cluster.namespace, "scale", "deployment", service.name, "--replicas=3")
    time.sleep(20)  # six looks of the autoscaler, and twice its wait before it shrinks
    assert service.deployment()["spec"]["replicas"] == 3, service.autoscaler()["status"]


try:
    with open_cluster(
        "kcm",
        "sched",
        "node",
        own="it changes the controller manager's options",
        args={"kube-controller-manager": sync()},
    ) as cluster:
        service = Service(cluster, shipped.install(cluster, "1xH200-141Gi"))
        import_worker(cluster)
        main(
            the_example_starts_with_one_idle_pod,
            the_service_grows_with_its_load,
            the_service_shrinks_without_load,
            a_silent_daemon_does_not_shrink_the_service,
        )
except Skip as reason:
    skip_all(reason)
