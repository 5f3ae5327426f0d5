#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Argo Workflows and KServe, whose controllers make the pods of with/*.yaml, and a pod as JupyterHub writes it.

The container that uses the GPU gets the share. Other containers come from the controllers, and from webhooks such as Istio's
and Vault's."""

import contextlib
import os

import yaml
from cluster import Skip, main, open_cluster, skip_all, wait_for
from controller import installed
from injector import injector
from scheduled import Scheduled
from systems import Finisher, start_argo, start_kserve

HERE = os.path.dirname(os.path.abspath(__file__))
CONTAINER = "kubectl.kubernetes.io/default-container"
WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/{}/workflows"
SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"


def objects(name):
    with open(os.path.join(HERE, "with", name + ".yaml"), encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


started = {}


def system(start):
    """Starts another system's controller for the first test that needs it. Skip: the system has not been built."""
    if start not in started:
        started[start] = start(cluster)
    return started[start]


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


def limits(pod, kind="containers"):
    """{container: its limits of divvy's resources}"""
    own = {c["name"]: c.get("resources", {}).get("limits") or {} for c in pod["spec"].get(kind) or []}
    return {name: {k: v for k, v in found.items() if k.startswith("divvy.gpu/")} for name, found in own.items()}


def has_share(name, container, milli, *others):
    """Checks the pod's devices, and that the other containers are there and have no part of them."""
    assert rig.devices(name).startswith(container + "=GPU-"), rig.devices(name)
    pod = rig.get(name)
    shares = limits(pod)
    assert set(others) == set(shares) - {container}, shares
    assert shares.pop(container)["divvy.gpu/milli"] == milli, pod["spec"]
    assert not any(shares.values()), shares
    assert not any(limits(pod, "initContainers").values()), limits(pod, "initContainers")
    return pod


def all_is_free():
    rig.pod("all", {"request": "1"})
    rig.bound("all")
    rig.gone("all")


def pods_of(key, value):
    """The names of the pods with this label or annotation."""
    found = [p["metadata"] for p in cluster.get(rig.path())["items"]]
    return [m["name"] for m in found if value in (m.get("labels", {}).get(key), m.get("annotations", {}).get(key))]


def the_pod_of(key, value):
    wait_for(lambda: pods_of(key, value), f"{value} has a pod", 120)
    (name,) = pods_of(key, value)
    return name


# ---- Argo Workflows


def step(name):
    return the_pod_of("workflows.argoproj.io/node-name", name)


def ends_well(*pods):
    """Does the kubelet's part: the pods' containers have ended."""
    for name in pods:
        cluster.patch(rig.path(name) + "/status", {"status": {"phase": "Succeeded"}})


def workflow(name):
    return cluster.get(f"{WORKFLOWS.format(rig.namespace)}/{name}").get("status") or {}


def succeeds(name):
    """Waits for the workflow's end, and removes it with its pods."""
    wait_for(lambda: workflow(name).get("phase") == "Succeeded", f"{name} succeeds", 120)
    cluster.delete(f"{WORKFLOWS.format(rig.namespace)}/{name}")
    wait_for(lambda: not pods_of("workflows.argoproj.io/workflow", name), f"the pods of {name} are gone", 120)


def argo_steps_get_their_share_beside_wait():
    """Each step begins when the pods before it have ended, which then hold no device although they remain."""
    system(start_argo)
    for webhooks in ({}, {"istio": istio, "vault": vault}):
        more = ["istio-proxy", "vault-agent"] if webhooks else []
        with injected(**webhooks) if webhooks else contextlib.nullcontext():
            cluster.create(WORKFLOWS.format(rig.namespace), objects("argo")[0])
            first = rig.get(step("train[0].prepare"))
            assert sorted(names(first)) == sorted(["wait", "main", *more]), names(first)
            assert not any(limits(first).values()), limits(first)
            ends_well(first["metadata"]["name"])
            second = has_share(step("train[1].fit"), "main", "600", "wait", "cache", *more)
            assert names(second, "initContainers") == ["init"], second["spec"]
            ends_well(second["metadata"]["name"])
            third = has_share(step("train[2].score"), "infer", "600", "wait", "report", *more)
            ends_well(third["metadata"]["name"])
        succeeds("train")
    all_is_free()


def a_workflow_says_why_its_step_waits():
    system(start_argo)
    rig.pod("block", {"request": "0.5"})
    rig.bound("block")
    cluster.create(WORKFLOWS.format(rig.namespace), objects("argo")[0])
    ends_well(step("train[0].prepare"))
    pod = step("train[1].fit")

    def said():
        nodes = {n["name"]: n for n in (workflow("train").get("nodes") or {}).values()}
        node = nodes["train[1].fit"]
        return node["phase"] == "Pending" and "0/1 nodes: 1 no GPU with 0.6 free" in node.get("message", "")

    wait_for(said, "the workflow has divvy's message", 120)
    rig.gone("block")
    has_share(pod, "main", "600", "wait", "cache")
    ends_well(pod)
    ends_well(step("train[2].score"))
    succeeds("train")


def argo_pods_of_a_group_start_together():
    system(start_argo)
    rig.pod("block", {"request": "0.5"})
    rig.bound("block")
    cluster.create(WORKFLOWS.format(rig.namespace), objects("argo")[1])
    halves = [step("pair[0].half(0:left)"), step("pair[0].half(1:right)")]
    for name in halves:
        rig.waits(name, f"group {rig.namespace}/pair: 1 of 2 pods fit, 2 are needed")
    assert not any(rig.get(name)["spec"].get("nodeName") for name in halves), halves
    rig.gone("block")
    for name in halves:
        has_share(name, "main", "500", "wait")
    ends_well(*halves)
    succeeds("pair")
    all_is_free()


# ---- KServe

SERVICE = "serving.kserve.io/inferenceservice"


def predictor(service):
    return the_pod_of("app", f"isvc.{service}-predictor")


def ends(path, service):
    cluster.delete(path)
    wait_for(lambda: not pods_of(SERVICE, service), f"the pods of {service} are gone", 120)


def autoscalers():
    """The targets of the autoscalers that KServe has made."""
    path = f"/apis/autoscaling/v2/namespaces/{rig.namespace}/horizontalpodautoscalers"
    return [a["spec"]["scaleTargetRef"]["name"] for a in cluster.get(path)["items"]]


def kserve_predictors_get_their_share_beside_agent_and_modelcar():
    """By annotations of the predictor the transformer gets no share."""
    kserve = system(start_kserve)
    services = SERVICES.format(rig.namespace)
    for webhooks in ({}, {"istio": istio}):
        more = ["istio-proxy"] if webhooks else []
        with injected(**webhooks) if webhooks else contextlib.nullcontext():
            for body in objects("kserve")[:2]:
                kserve.apply(services, body, "the InferenceService")
            iris = has_share(predictor("iris"), "kserve-container", "300", "agent", *more)
            assert names(iris, "initContainers") == ["storage-initializer"], iris["spec"]
            transformer = rig.get(the_pod_of("app", "isvc.iris-transformer"))
            assert not any(limits(transformer).values()), limits(transformer)
            has_share(predictor("lily"), "kserve-container", "300", "modelcar", *more)
            wait_for(lambda: autoscalers() == ["lily-predictor"], "only lily has an autoscaler of KServe", 60)
        for service in ("iris", "lily"):
            ends(f"{services}/{service}", service)
    all_is_free()


def pods_of_knative_get_their_share_beside_queue_proxy():
    """Knative makes the Deployment, and KServe's webhook adds its containers to the pods."""
    system(start_kserve)
    body = objects("kserve")[2]
    cluster.create(DEPLOYMENTS.format(rig.namespace), body)
    rose = has_share(the_pod_of(SERVICE, "rose"), "kserve-container", "300", "queue-proxy", "agent")
    assert names(rose, "initContainers") == ["storage-initializer"], rose["spec"]
    ends(f"{DEPLOYMENTS.format(rig.namespace)}/{body['metadata']['name']}", "rose")
    all_is_free()


# ---- JupyterHub


def a_notebook_gets_its_share_beside_sidecars():
    for webhooks in ({}, {"istio": istio, "vault": vault}):
        more = ("istio-proxy", "vault-agent") if webhooks else ()
        with injected(**webhooks) if webhooks else contextlib.nullcontext():
            cluster.create(rig.path(), objects("jupyterhub")[0])
            has_share("jupyter-ada", "notebook", "250", "sync", *more)
        rig.gone("jupyter-ada")
    all_is_free()


TESTS = [
    argo_steps_get_their_share_beside_wait,
    a_workflow_says_why_its_step_waits,
    argo_pods_of_a_group_start_together,
    kserve_predictors_get_their_share_beside_agent_and_modelcar,
    pods_of_knative_get_their_share_beside_queue_proxy,
    a_notebook_gets_its_share_beside_sidecars,
]

try:
    with (
        open_cluster("kcm") as cluster,
        installed(cluster) as controller,
        Scheduled(cluster) as rig,
        Finisher(cluster, cluster.namespace),
    ):
        rig.start()
        rig.node("n1", "A100", **{"divvy.gpu/milli": "1000", "divvy.gpu/memory-mib": "16384"})
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
