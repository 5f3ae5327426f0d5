#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods of Argo Workflows, KServe and JupyterHub as their controllers write them (with/*.yaml). The container that uses the GPU
gets the share, beside the containers that the controllers and webhooks such as Istio's and Vault's inject."""

import contextlib
import os

import yaml
from cluster import Skip, main, open_cluster, skip_all, wait_for
from controller import installed
from injector import injector
from scheduled import Scheduled
from systems import Finisher

HERE = os.path.dirname(os.path.abspath(__file__))
CONTAINER = "kubectl.kubernetes.io/default-container"


def objects(name):
    with open(os.path.join(HERE, "with", name + ".yaml"), encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


# ---- what other webhooks inject, as a JSON Patch


def names(pod, kind="containers"):
    return [c["name"] for c in pod["spec"].get(kind) or []]


def added(name, at="-"):
    return {"op": "add", "path": f"/spec/containers/{at}", "value": {"name": name, "image": "none"}}


def istio(pod):
    """Puts the proxy first, and names the container that was first unless the pod names one."""
    if "istio-proxy" in names(pod):
        return []
    annotations = {CONTAINER: names(pod)[0], **(pod["metadata"].get("annotations") or {})}
    return [added("istio-proxy", 0), {"op": "add", "path": "/metadata/annotations", "value": annotations}]


def vault(pod):
    """Puts the agent first, and names no container."""
    return [] if "vault-agent" in names(pod) else [added("vault-agent", 0)]


def kserve(pod):
    if "agent" in names(pod):
        return []
    first = {"op": "add", "path": "/spec/initContainers", "value": [{"name": "storage-initializer", "image": "none"}]}
    return [first, added("agent")]


# ---- helpers


@contextlib.contextmanager
def injected(**webhooks):
    """Runs the webhooks for the namespace of the test's pods, and waits until all of them work."""
    with contextlib.ExitStack() as stack:
        for name, patch in webhooks.items():
            stack.enter_context(injector(cluster, name, controller.address, patch=patch))
        space = f"/api/v1/namespaces/{rig.namespace}"
        cluster.patch(space, {"metadata": {"labels": {name: "on" for name in webhooks}}})
        probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}

        def work():
            made = cluster.create(rig.path() + "?dryRun=All", probe)
            return len(names(made)) == len(webhooks) + 1

        wait_for(work, f"{', '.join(webhooks)} inject containers", 60)
        yield
        cluster.patch(space, {"metadata": {"labels": {name: None for name in webhooks}}})


def has_share(name, container, milli, *others):
    """Checks the pod's devices, and that the other containers are there and have no part of them."""
    assert rig.devices(name).startswith(container + "=GPU-"), rig.devices(name)
    pod = rig.get(name)
    assert set(others) < set(names(pod)), names(pod)
    limits = {c["name"]: c.get("resources", {}).get("limits") or {} for c in pod["spec"]["containers"]}
    assert limits.pop(container)["divvy.gpu/milli"] == milli
    assert not any(key.startswith("divvy.gpu/") for own in limits.values() for key in own), limits
    inits = pod["spec"].get("initContainers") or []
    assert not any("limits" in c.get("resources", {}) for c in inits), inits


def all_is_free():
    rig.pod("all", {"request": "1"})
    rig.bound("all")
    rig.gone("all")


def pods_of(label, value):
    found = [p for p in cluster.get(rig.path())["items"] if p["metadata"].get("labels", {}).get(label) == value]
    return [p["metadata"]["name"] for p in found]


# ---- the tests


def argo_steps_get_their_share_beside_wait():
    for others in ({}, {"istio": istio}, {"vault": vault}):
        with injected(**others) if others else contextlib.nullcontext():
            step, container_set = objects("argo")
            cluster.create(rig.path(), step)
            cluster.create(rig.path(), container_set)
            has_share("train-step", "main", "500", "wait", "cache")
            has_share("train-set", "fit", "500", "wait", "score")
        rig.gone("train-step", "train-set")
    all_is_free()


def kserve_pods_get_their_share_beside_agent_and_queue_proxy():
    deployments = f"/apis/apps/v1/namespaces/{rig.namespace}/deployments"
    with injected(kserve=kserve, istio=istio):
        for body in objects("kserve"):
            cluster.create(deployments, body)
        for service, others in (("iris", ("agent", "istio-proxy")), ("rose", ("queue-proxy", "agent", "istio-proxy"))):
            label = "serving.kserve.io/inferenceservice"
            wait_for(lambda s=service, k=label: pods_of(k, s), f"{service} has a pod", 60)
            has_share(pods_of(label, service)[0], "kserve-container", "300", *others)
    for body in objects("kserve"):
        cluster.delete(f"{deployments}/{body['metadata']['name']}")
    all_is_free()


def a_notebook_gets_its_share_beside_sidecars():
    for others in ({}, {"istio": istio, "vault": vault}):
        with injected(**others) if others else contextlib.nullcontext():
            cluster.create(rig.path(), objects("jupyterhub")[0])
            has_share("jupyter-ada", "notebook", "250", "sync")
        rig.gone("jupyter-ada")
    all_is_free()


TESTS = [
    argo_steps_get_their_share_beside_wait,
    kserve_pods_get_their_share_beside_agent_and_queue_proxy,
    a_notebook_gets_its_share_beside_sidecars,
]

try:
    with (
        open_cluster("kcm", own="it plays the webhooks of other systems") as cluster,
        installed(cluster) as controller,
        Scheduled(cluster) as rig,
        Finisher(cluster, cluster.namespace),
    ):
        rig.start()
        rig.node("n1", "A100", **{"divvy.gpu/milli": "1000", "divvy.gpu/memory-mib": "16384"})
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
