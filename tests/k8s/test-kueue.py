#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kueue's own controller beside divvy: fractions of a GPU count in Kueue's quotas, and divvy leaves pods alone that Kueue holds.
Queues, policy and configuration are those of deploy/kueue. The node has two GPUs and no kubelet."""

import contextlib
import os

import yaml

from cluster import ApiError, Skip, built, main, open_cluster, skip_all, wait_for
from controller import installed
from kueue import API, Kueue, amount_of
from manifests import load
from scheduled import Scheduled

DEPLOY = os.path.join(os.environ["DIVVY_SOURCE"], "deploy/kueue")
TEAM = "team-a"  # the namespace and the queue of deploy/kueue/queues.yaml
GATED = "kueue.x-k8s.io/admission"
QUEUE = {"kueue.x-k8s.io/queue-name": TEAM}
POLICY_BINDING = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/charge-jobs.divvy.gpu"
MILLI, MIB = "divvy.gpu/milli", "divvy.gpu/memory-mib"


def text_of(name):
    with open(os.path.join(DEPLOY, name), encoding="utf-8") as f:
        return f.read()


def jobs(name="", namespace=TEAM):
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" + (f"/{name}" if name else "")


def pods(name="", namespace=TEAM):
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def template(annotations, containers=("main",), init=(), resources=None):
    """annotations: requested keys without their domain, or whole keys; resources: limits of each container."""
    keys = {k if "/" in k else f"divvy.gpu/{k}": v for k, v in annotations.items()}

    def made(names):
        return [{"name": n, "image": "none", "resources": {"limits": resources or {}}} for n in names]

    spec = {"containers": made(containers), "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    if init:
        spec["initContainers"] = made(init)
    return {"metadata": {"annotations": keys}, "spec": spec}


def job(name, annotations, count=1, labels=None, **more):
    body = {"parallelism": count, "completions": count, "template": template(annotations, **more)}
    return {"metadata": {"name": name, "labels": {**QUEUE, **(labels or {})}}, "spec": body}


def create(name, annotations, count=1, namespace=TEAM, **more):
    return cluster.create(jobs(namespace=namespace), job(name, annotations, count, **more))


def pods_of(name, namespace=TEAM):
    return cluster.get(pods(namespace=namespace) + f"?labelSelector=batch.kubernetes.io/job-name={name}")["items"]


def is_suspended(name, namespace=TEAM):
    return cluster.get(jobs(name, namespace))["spec"].get("suspend", False)


def runs(name, count=1, namespace=TEAM):
    """Waits until all pods of the Job have a device, and returns the pods."""

    def placed():
        got = pods_of(name, namespace)
        return len(got) == count and all(p["spec"].get("nodeName") for p in got)

    wait_for(placed, f"{count} pods of {name} have a node", 60)
    got = pods_of(name, namespace)
    for pod in got:
        assert pod["metadata"]["annotations"]["divvy.gpu/devices"].startswith("main=GPU-n1-"), pod["metadata"]
    return got


def waits(name, sentence):
    """Waits until Kueue says why the Job waits. The Job is suspended and has no pod then."""

    def said():
        for condition in ((kueue.workload(TEAM, name) or {}).get("status") or {}).get("conditions") or []:
            if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                return sentence in condition["message"]
        return False

    wait_for(said, f"{name} waits: {sentence}", 60)
    assert is_suspended(name) and not pods_of(name), name


def is_charged(name, **amounts):
    want = {f"divvy.gpu/{k.replace('_', '-')}": v for k, v in amounts.items()}
    wait_for(lambda: kueue.charged(TEAM, name) is not None, f"{name} is admitted", 60)
    got = kueue.charged(TEAM, name)
    assert got == want, f"{name}: {got}, not {want}"


def removed(*names, namespace=TEAM):
    """Deletes Jobs, and waits until the queue counts nothing of them."""
    for name in names:
        cluster.delete(jobs(name, namespace) + "?propagationPolicy=Background")

    def gone():
        return not any(pods_of(n, namespace) or kueue.workload(namespace, n) for n in names)

    wait_for(gone, f"{names} are gone", 60)


def queue_is_empty():
    wait_for(lambda: not any(kueue.used(TEAM).values()), "the queue is empty", 60)


# ---- which resources Kueue sees


def annotations_alone_are_not_charged():
    """The reason for the policy, which is not there yet."""
    create("free", {"request": "0.5"})
    runs("free")
    is_charged("free")
    removed("free")


def resources_of_the_template_are_charged():
    create("by-hand", {"request": "0.5", "memory": "4Gi"}, resources={MILLI: "500", MIB: "4096"})
    runs("by-hand")
    is_charged("by-hand", milli=500, memory_mib=4096)
    removed("by-hand")
    with contextlib.suppress(ApiError):  # refused already, if the API server asks divvy about templates
        create("too-little", {"request": "0.5"}, resources={MILLI: "100"})
        raise AssertionError("a template that names less than the request is accepted")


def acts():
    """Does the policy write into templates?"""
    return MILLI in resources_in(cluster.create(jobs() + "?dryRun=All", job("try", {"request": "0.5"})), "main")


def policy_writes_what_the_webhook_writes():
    """The policy reads requests as divvy does: the templates of Jobs get what the webhook writes into pods of these templates."""
    cluster.apply(text_of("charge-jobs.yaml"))
    wait_for(acts, "the policy acts", 60)
    for case in CASES:
        made = cluster.create(jobs() + "?dryRun=All", job("case", **case))
        pod = {"metadata": {**template(**case)["metadata"], "name": "case"}, "spec": template(**case)["spec"]}
        pod = cluster.create(pods() + "?dryRun=All", pod)
        names = [*case.get("containers", ("main",)), *case.get("init", ())]
        got = {name: resources_in(made, name) for name in names}
        want = {name: resources_in(pod, name) for name in names}
        assert got == want, f"{case}: the policy writes {got}, and the webhook {want}"
        assert any(want.values()), case


def resources_in(obj, name):
    """divvy's resources of a container that quotas count. Limits and requests are equal."""
    spec = obj["spec"].get("template", obj)["spec"]
    container = next(c for c in [*spec["containers"], *spec.get("initContainers", [])] if c["name"] == name)
    limits, requests = (
        {k: amount_of(v) for k, v in (container["resources"].get(w) or {}).items() if k in (MILLI, MIB) and v != "0"}
        for w in ("limits", "requests")
    )
    assert limits == requests, container
    return limits


CASES = [
    {"annotations": {"request": "0.5"}},
    {"annotations": {"request": "0.125", "memory": "1Gi"}},
    {"annotations": {"request": "0.001", "memory": "1"}},
    {"annotations": {"request": "0.29", "memory": "1.5KB"}},
    {"annotations": {"request": "0.57", "memory": "1000K"}},
    {"annotations": {"request": "0.999", "memory": "3GiB"}},
    {"annotations": {"request": "0.50", "memory": "1.5Gi"}},
    {"annotations": {"request": "0.3", "memory": "500M"}},
    {"annotations": {"request": "0.3", "memory": "25%"}},
    {"annotations": {"request": "1", "memory": "4096"}},
    {"annotations": {"request": "2"}},
    {"annotations": {"request": "2", "memory": "1Gi"}},
    {"annotations": {"request": "1.0", "memory": "1Gi"}},
    {"annotations": {"request": "16"}},
    {"annotations": {"request": "0.25", "count": "3", "memory": "1Gi"}},
    {"annotations": {"request": "0.5"}, "containers": ("main", "beside")},
    {"annotations": {"request": "0.5", "container": "beside"}, "containers": ("main", "beside")},
    {"annotations": {"request": "0.5", "container": "main, beside"}, "containers": ("main", "beside")},
    {"annotations": {"request": "0.5", "container": "first"}, "init": ("first",)},
    {
        "annotations": {"request": "0.5", "kubectl.kubernetes.io/default-container": "beside"},
        "containers": ("main", "beside"),
    },
    {
        "annotations": {"request": "0.5", "kubectl.kubernetes.io/default-container": "absent"},
        "containers": ("main", "beside"),
    },
    {
        "annotations": {"request": "0.5", "kubectl.kubernetes.io/default-logs-container": "beside"},
        "containers": ("main", "beside"),
    },
    {"annotations": {"beside.divvy.gpu/request": "0.25"}, "containers": ("main", "beside")},
    {
        "annotations": {"request": "0.5", "count": "2", "memory": "1Gi", "beside.divvy.gpu/request": "0.25"},
        "containers": ("main", "beside"),
    },
    {
        "annotations": {"request": "0.5", "count": "2", "main.divvy.gpu/count": "3", "main.divvy.gpu/memory": "2Gi"},
        "containers": ("main", "beside"),
    },
    {
        "annotations": {"request": "0.5", "first.divvy.gpu/request": "1", "first.divvy.gpu/memory": "2Gi"},
        "init": ("first",),
    },
]


def policy_overrides_other_amounts():
    create("cheap", {"request": "0.5"}, resources={MILLI: "1"})
    is_charged("cheap", milli=500)
    runs("cheap")
    removed("cheap")


def a_later_request_is_charged():
    """The annotations of a suspended Job may change. Its resources follow, or the change is refused."""
    body = job("later", {})
    body["spec"]["suspend"] = True
    body["metadata"]["labels"] = {}
    cluster.create(jobs(), body)
    annotations = {"divvy.gpu/request": "0.25", "divvy.gpu/memory": "1Gi"}
    got = cluster.patch(jobs("later"), {"spec": {"template": {"metadata": {"annotations": annotations}}}})
    assert resources_in(got, "main") == {MILLI: 250, MIB: 1024}, got["spec"]["template"]
    cluster.delete(jobs("later") + "?propagationPolicy=Background")


def a_suspended_jobs_resources_stay_those_of_its_request():
    """The resources of a suspended Job may change: by removing them the user would use a share without quota."""
    body = job("cheaper", {"request": "0.5", "memory": "1Gi", "count": "2"})
    body["spec"]["suspend"] = True
    body["metadata"]["labels"] = {}
    cluster.create(jobs(), body)
    want = {MILLI: 1000, MIB: 2048}
    for limits in ({MILLI: None, MIB: None}, {MILLI: "1", MIB: "1"}):
        container = {"name": "main", "resources": {"limits": limits, "requests": limits}}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        got = cluster.patch(jobs("cheaper"), patch, "strategic")
        assert resources_in(got, "main") == want, got["spec"]["template"]
    gone = {"spec": {"template": {"metadata": {"annotations": {"divvy.gpu/count": None}}}}}
    got = cluster.patch(jobs("cheaper"), gone)
    assert resources_in(got, "main") == {MILLI: 500, MIB: 1024}, got["spec"]["template"]
    cluster.delete(jobs("cheaper") + "?propagationPolicy=Background")


def jobs_older_than_the_policy_can_still_change():
    cluster.delete(POLICY_BINDING)
    wait_for(lambda: not acts(), "the policy does not act", 60)
    create("older", {"request": "0.5"})
    cluster.apply(text_of("charge-jobs.yaml"))
    wait_for(acts, "the policy acts", 60)
    for suspend in (True, False):
        got = cluster.patch(jobs("older"), {"spec": {"suspend": suspend}, "metadata": {"labels": {"a": str(suspend)}}})
        assert not resources_in(got, "main"), got["spec"]["template"]
    removed("older")


def requests_of_another_system_are_charged():
    """By the transformations of deploy/kueue/resources.yaml: the template has that system's resources."""
    cluster.patch(f"/api/v1/namespaces/{TEAM}", {"metadata": {"annotations": {"divvy.gpu/dialects": "gaiagpu"}}})
    create("foreign", {}, count=2, resources={"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"})
    is_charged("foreign", milli=1000, memory_mib=8192)
    for pod in runs("foreign", 2):
        assert resources_in(pod, "main") == {MILLI: 500, MIB: 4096}, pod["spec"]
    removed("foreign")


# ---- quotas


def the_example_job_is_admitted():
    body = load(text_of("job.yaml"))[0]
    body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0  # no kubelet ends the pods
    made = cluster.create(jobs(), body)["metadata"]["name"]
    is_charged(made, milli=1000)
    removed(made)


def a_quota_of_fractions_holds():
    """The quota is two GPUs: four Jobs of half a GPU run, and the fifth waits."""
    queue_is_empty()
    for i in range(4):
        create(f"half-{i}", {"request": "0.5"})
        is_charged(f"half-{i}", milli=500)
    create("half-4", {"request": "0.5"})
    waits("half-4", "insufficient unused quota for divvy.gpu/milli")
    wait_for(lambda: kueue.used(TEAM)[MILLI] == 2000, "Kueue has written the use of the queue", 60)
    for i in range(4):
        (pod,) = runs(f"half-{i}")
    cluster.patch(pods(pod["metadata"]["name"]) + "/status", {"status": {"phase": "Succeeded"}})
    runs("half-4")
    is_charged("half-4", milli=500)
    removed(*[f"half-{i}" for i in range(5)])


def a_gang_is_charged_for_all_its_pods():
    """Six pods of 0.3 are 1800; the next gang of two does not fit, and none of its pods starts."""
    queue_is_empty()
    gang = {"request": "0.3", "group": "one", "group-size": "6"}
    create("gang-one", gang, count=6)
    is_charged("gang-one", milli=1800)
    runs("gang-one", 6)
    create("gang-two", {**gang, "group": "two", "group-size": "2"}, count=2)
    waits("gang-two", "insufficient unused quota for divvy.gpu/milli")
    removed("gang-one")
    runs("gang-two", 2)
    is_charged("gang-two", milli=600)
    removed("gang-two")


# ---- gates and preemption


def divvy_leaves_gated_pods_alone():
    """A plain pod that Kueue holds has the API server's condition and no Event until Kueue takes its gate away."""
    queue_is_empty()
    create("full", {"request": "0.5"}, count=4)
    runs("full", 4)
    body = template({"request": "0.5", "memory": "4Gi"})
    body["metadata"] |= {"name": "gated", "labels": dict(QUEUE)}
    made = cluster.create(pods(), body)
    assert GATED in [g["name"] for g in made["spec"]["schedulingGates"]], made["spec"]
    wait_for(lambda: kueue.workload(TEAM, "gated"), "Kueue knows the pod", 60)
    look_after_the_pod("after")
    got = cluster.get(pods("gated"))
    assert not got["spec"].get("nodeName")
    conditions = {c["type"]: c.get("reason") for c in got["status"].get("conditions") or []}
    assert conditions == {"PodScheduled": "SchedulingGated"}, conditions
    events = cluster.get(f"/api/v1/namespaces/{TEAM}/events?fieldSelector=involvedObject.name=gated")["items"]
    divvys = [
        e for e in events if "divvy" in e.get("reportingComponent", "") + (e.get("source") or {}).get("component", "")
    ]
    assert not divvys, divvys
    removed("full")
    wait_for(lambda: cluster.get(pods("gated"))["spec"].get("nodeName"), "the pod has a node", 60)
    is_charged("gated", milli=500, memory_mib=4096)
    cluster.delete(pods("gated"))
    wait_for(lambda: not cluster.exists(pods("gated")), "the pod is gone", 60)


def pods_of_a_deployment_are_charged():
    """Kueue counts each pod by itself, after divvy's webhook: without resources in the template."""
    queue_is_empty()
    body = template({"request": "0.25", "memory": "1Gi"})
    body["metadata"]["labels"] = {"app": "server"}
    del body["spec"]["restartPolicy"]
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "server"}}, "template": body}
    path = f"/apis/apps/v1/namespaces/{TEAM}/deployments"
    cluster.create(path, {"metadata": {"name": "server", "labels": dict(QUEUE)}, "spec": spec})

    def made():
        return cluster.get(pods() + "?labelSelector=app=server")["items"]

    def placed():
        return len(made()) == 2 and all(p["spec"].get("nodeName") for p in made())

    wait_for(placed, "both pods have a node", 60)
    for pod in made():
        is_charged(pod["metadata"]["name"], milli=250, memory_mib=1024)
    cluster.delete(path + "/server?propagationPolicy=Foreground")
    wait_for(lambda: not made(), "the pods are gone", 60)


def look_after_the_pod(name):
    """Returns once the scheduler has decided about a pod that was created later and that fits nowhere."""
    rig.pod(name, {"request": "0.5", "model": "absent"})
    rig.waits(name, "")
    rig.gone(name)


def preemption_frees_the_share():
    """A Job of higher priority takes the quota; its pods get the devices that the suspended Job's pods had."""
    queue_is_empty()
    for name, value in (("low", 10), ("high", 1000)):
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        cluster.create(f"{API}/workloadpriorityclasses", {**kind, "metadata": {"name": name}, "value": value})
    create("low", {"request": "1"}, count=2, labels={"kueue.x-k8s.io/priority-class": "low"})
    runs("low", 2)
    create("high", {"request": "1"}, count=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    runs("high", 2)
    is_charged("high", milli=2000)
    assert is_suspended("low") and not pods_of("low")
    conditions = {c["type"]: c for c in kueue.workload(TEAM, "low")["status"]["conditions"]}
    assert conditions["Preempted"]["status"] == "True", conditions
    removed("high")
    runs("low", 2)
    removed("low")


TESTS = [
    annotations_alone_are_not_charged,
    resources_of_the_template_are_charged,
    policy_writes_what_the_webhook_writes,
    policy_overrides_other_amounts,
    a_later_request_is_charged,
    a_suspended_jobs_resources_stay_those_of_its_request,
    jobs_older_than_the_policy_can_still_change,
    requests_of_another_system_are_charged,
    the_example_job_is_admitted,
    a_quota_of_fractions_holds,
    a_gang_is_charged_for_all_its_pods,
    divvy_leaves_gated_pods_alone,
    pods_of_a_deployment_are_charged,
    preemption_frees_the_share,
]

try:
    built("with-kueue")
    # The policy needs Kubernetes 1.36.
    with open_cluster("kcm", since=36) as cluster, installed(cluster), Scheduled(cluster) as rig:
        cluster.claim_path(f"/api/v1/namespaces/{TEAM}")
        rig.start()
        rig.node("n1", *["A100"] * 2, **{MILLI: "2000", MIB: str(2 * 16384)})
        kueue = Kueue(cluster, **yaml.safe_load(text_of("resources.yaml")))
        kueue.start()
        cluster.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        wait_for(lambda: cluster.has_account(TEAM), "the namespace has its service account", 60)
        cluster.apply(text_of("queues.yaml"))
        try:
            main(*TESTS)
        finally:
            if not cluster.own:
                kueue.empty(TEAM)
except Skip as reason:
    skip_all(reason)
