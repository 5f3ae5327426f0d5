#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JobSet, LeaderWorkerSet, KubeRay and Kubeflow Trainer beside divvy: their controllers make the pods of with/*.yaml."""

import os

import yaml
from cluster import Skip, main, open_cluster, skip_all, wait_for
from controller import installed
from scheduled import Scheduled
from systems import Finisher, Systems

HERE = os.path.dirname(os.path.abspath(__file__))
JOBSET, LWS = "sigs.k8s.io/jobset/config/components", "sigs.k8s.io/lws/config"
TRAINER, RAY = "github.com/kubeflow/trainer/v2/manifests/base", "github.com/ray-project/kuberay/ray-operator/config"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
LEADER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets"
RAY_CLUSTERS = "/apis/ray.io/v1/namespaces/{}/rayclusters"
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainingruntimes"
TRAIN_JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs"
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups"


# ---- the controllers


def settings(group, port, **more):
    """A configuration file's content; the three controllers have the same fields."""
    return {
        "apiVersion": f"config.{group}/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": systems.address, "port": port},
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        **more,
    }


def start_jobset():
    port = systems.port()
    systems.define(JOBSET, "crd/bases")
    own = settings("jobset.x-k8s.io", port, internalCertManagement={"enable": False})
    own["webhook"]["certDir"] = systems.certificates("jobset")
    systems.start("jobset", "jobset", "--config", systems.write("jobset", own))
    label = "jobset.sigs.k8s.io/jobset-name"
    systems.webhooks("jobset-", port, JOBSET, "webhook/manifests.yaml", pods_with=label)


def start_lws():
    port = systems.port()
    systems.define(LWS, "crd/bases")
    own = settings("lws.x-k8s.io", port, internalCertManagement={"enable": False})
    own["webhook"]["certDir"] = systems.certificates("lws")
    systems.start("lws", "cmd", "--config", systems.write("lws", own), "--leader-elect=false")
    label = "leaderworkerset.sigs.k8s.io/name"
    systems.webhooks("lws-", port, LWS, "webhook/manifests.yaml", pods_with=label)


def start_kuberay():
    systems.define(RAY, "crd/bases")
    quiet = ("--metrics-addr=0", "--health-probe-bind-address=0", "--enable-leader-election=false")
    systems.start("kuberay", "ray-operator", *quiet)


def start_trainer():
    systems.define("sigs.k8s.io/scheduler-plugins/config/crd/bases")
    systems.define(TRAINER, "crds")
    own = settings("trainer.kubeflow.org", systems.port(), certManagement={"enable": False})
    systems.start("trainer", "trainer-controller-manager", "--config", systems.write("trainer", own))


# ---- helpers


def objects(name):
    with open(os.path.join(HERE, "with", name + ".yaml"), encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


def pods(**labels):
    """{name: pod} of the pods with these labels."""
    items = cluster.get(rig.path())["items"]
    return {
        p["metadata"]["name"]: p
        for p in items
        if all(p["metadata"].get("labels", {}).get(k) == v for k, v in labels.items())
    }


def members(n, **labels):
    wait_for(lambda: len(pods(**labels)) == n, f"{n} pods have {labels}", 120)
    return sorted(pods(**labels))


def all_wait(names, sentence):
    """Waits until each pod's condition has the sentence, and checks that none has a node."""
    for name in names:
        rig.waits(name, sentence)
    assert not any(rig.get(name)["spec"].get("nodeName") for name in names), names


def all_start(names):
    """Waits until the pods have devices, as {pod: devices}."""
    return {name: rig.devices(name) for name in names}


def block():
    """Takes both devices of n2."""
    rig.pod("block", {"request": "2"}, nodeSelector={"kubernetes.io/hostname": "n2"})
    rig.bound("block")


def all_devices_are_free():
    for node in ("n1", "n2"):
        rig.pod(f"all-{node}", {"request": "2"}, nodeSelector={"kubernetes.io/hostname": node})
    for node in ("n1", "n2"):
        rig.bound(f"all-{node}")
    rig.gone("all-n1", "all-n2")


def ends(path, **labels):
    cluster.delete(path)
    wait_for(lambda: not pods(**labels), f"the pods of {path} are gone", 120)
    all_devices_are_free()


# ---- the tests


def a_jobset_starts_whole():
    """The 4 workers wait together until 4 devices are free; the driver is no member."""
    label = {"jobset.sigs.k8s.io/jobset-name": "train"}
    path = JOB_SETS.format(rig.namespace)
    block()
    systems.apply(path, objects("jobset")[0], "the JobSet")
    members(5, **label)
    workers = members(4, **label, **{"jobset.sigs.k8s.io/replicatedjob-name": "workers"})
    all_wait(workers, f"group {rig.namespace}/jobset:train:0: 2 of 4 pods fit, 4 are needed")
    rig.gone("block")
    devices = all_start(workers)
    assert len(set(devices.values())) == 4 and all(d.startswith("worker=GPU-") for d in devices.values()), devices
    assert rig.given(workers[0], "granted-group") == "jobset:train:0=4"


def a_restarted_jobset_starts_whole_again():
    """A pod fails, and JobSet replaces all pods: the new ones are a group of their own."""
    label = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
    failed = members(4, **label)[0]
    cluster.patch(rig.path(failed) + "/status", {"status": {"phase": "Failed"}})
    again = members(4, **label, **{"jobset.sigs.k8s.io/restart-attempt": "1"})
    all_start(again)
    assert rig.given(again[0], "granted-group") == "jobset:train:1=4"
    ends(JOB_SETS.format(rig.namespace) + "/train", **{"jobset.sigs.k8s.io/jobset-name": "train"})


def without_the_key_the_pods_of_a_jobset_start_alone():
    body = objects("jobset")[0]
    del body["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["metadata"]["annotations"][
        "divvy.gpu/group-by"
    ]
    block()
    systems.apply(JOB_SETS.format(rig.namespace), body, "the JobSet")
    label = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
    workers = members(4, **label)
    wait_for(
        lambda: sum(bool(p["spec"].get("nodeName")) for p in pods(**label).values()) == 2, "2 pods have a node", 60
    )
    rig.gone("block")
    all_start(workers)
    ends(JOB_SETS.format(rig.namespace) + "/train", **{"jobset.sigs.k8s.io/jobset-name": "train"})


def each_group_of_a_leaderworkerset_starts_whole():
    """4 pods of 0.6 in groups of 2: with 2 free devices one whole group starts, and the other waits."""
    label = {"leaderworkerset.sigs.k8s.io/name": "serve"}
    block()
    systems.apply(LEADER_SETS.format(rig.namespace), objects("leaderworkerset")[0], "the LeaderWorkerSet")
    members(4, **label)

    def groups():
        """{group: how many of its pods have a node}"""
        found = {}
        for pod in pods(**label).values():
            key = pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-key"]
            found[key] = found.get(key, 0) + bool(pod["spec"].get("nodeName"))
        return found

    wait_for(lambda: sorted(groups().values()) == [0, 2], "one whole group has nodes", 120)
    key = next(k for k, n in groups().items() if not n)
    waiting = members(2, **label, **{"leaderworkerset.sigs.k8s.io/group-key": key})
    all_wait(waiting, f"group {rig.namespace}/leaderworkerset:{key}: 0 of 2 pods fit, 2 are needed")
    rig.gone("block")
    all_start(waiting)
    assert rig.given(waiting[0], "granted-group") == f"leaderworkerset:{key}=2"
    ends(LEADER_SETS.format(rig.namespace) + "/serve", **label)


def a_raycluster_starts_whole():
    """Head and workers wait together; the head's autoscaler gets no share."""
    label = {"ray.io/cluster": "ray"}
    path = RAY_CLUSTERS.format(rig.namespace)
    block()
    systems.apply(path, objects("kuberay")[0], "the RayCluster")
    names = members(4, **label)
    all_wait(names, f"group {rig.namespace}/raycluster:ray: 3 of 4 pods fit, 4 are needed")
    rig.gone("block")
    all_start(names)
    head = members(1, **label, **{"ray.io/node-type": "head"})[0]
    assert len(rig.get(head)["spec"]["containers"]) == 2
    assert rig.devices(head).startswith("ray-head=GPU-"), rig.devices(head)
    worker = members(3, **label, **{"ray.io/node-type": "worker"})[0]
    assert rig.devices(worker).startswith("ray-worker=GPU-"), rig.devices(worker)
    # The scheduler follows the autoscaler, which adds a worker.
    cluster.patch(path + "/ray", [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 4}], "json")
    added = set(members(4, **label, **{"ray.io/node-type": "worker"})) - set(names)
    assert rig.given(added.pop(), "granted-group") == "raycluster:ray=5"
    ends(path + "/ray", **label)


def a_raycluster_with_a_podgroup_starts_whole():
    """KubeRay makes the PodGroup of its batch scheduler, and names that scheduler in the pods."""
    cluster.kill("kuberay")
    systems.again("kuberay", "--batch-scheduler=scheduler-plugins")
    body = objects("kuberay")[0]
    body["metadata"] = {"name": "gang", "labels": {"ray.io/gang-scheduling-enabled": "true"}}
    for group in (body["spec"]["headGroupSpec"], *body["spec"]["workerGroupSpecs"]):
        del group["template"]["metadata"]["annotations"]["divvy.gpu/group-by"]
    label = {"ray.io/cluster": "gang"}
    block()
    systems.apply(RAY_CLUSTERS.format(rig.namespace), body, "the RayCluster")
    names = members(4, **label)
    all_wait(names, f"group {rig.namespace}/gang: 3 of 4 pods fit, 4 are needed")
    rig.gone("block")
    all_start(names)
    assert all(p["spec"]["schedulerName"] == "divvy-scheduler" for p in pods(**label).values())
    assert cluster.get(POD_GROUPS.format(rig.namespace) + "/gang")["spec"]["minMember"] == 4
    ends(RAY_CLUSTERS.format(rig.namespace) + "/gang", **label)


def a_trainjob_starts_whole():
    """The runtime's podGroupPolicy makes a PodGroup; a TrainJob makes a JobSet, whose pods name the PodGroup."""
    runtime, job = objects("trainer")
    label = {"jobset.sigs.k8s.io/jobset-name": "tune"}
    cluster.create(RUNTIMES.format(rig.namespace), runtime)
    block()
    systems.apply(TRAIN_JOBS.format(rig.namespace), job, "the TrainJob")
    names = members(4, **label)
    all_wait(names, f"group {rig.namespace}/tune: 2 of 4 pods fit, 4 are needed")
    rig.gone("block")
    devices = all_start(names)
    assert len(set(devices.values())) == 4 and all(d.startswith("node=GPU-") for d in devices.values()), devices
    assert rig.given(names[0], "granted-group") == "tune=4"
    ends(TRAIN_JOBS.format(rig.namespace) + "/tune", **label)
    # Trainer takes its finalizer off the runtime. Without that, the definition could not be deleted at the end.
    path = f"{RUNTIMES.format(rig.namespace)}/{runtime['metadata']['name']}"
    cluster.delete(path)
    wait_for(lambda: not cluster.exists(path), "Trainer gives the runtime free", 120)


def a_job_with_a_gang_policy_starts_whole():
    """The Job controller makes the PodGroup, and names it in the pods' spec.schedulingGroup. A plain Job's group starts alone."""
    cluster.only_own("feature gates for Jobs")
    if cluster.minor < 37:
        raise Skip("the Job controller makes PodGroups since Kubernetes 1.37")
    template = {
        "metadata": {"annotations": {"divvy.gpu/request": "1"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
    }
    jobs = f"/apis/batch/v1/namespaces/{rig.namespace}/jobs"
    spec = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": template}
    labels = {"batch.kubernetes.io/job-name": "gang"}
    policy = {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    block()
    cluster.create(jobs, {"metadata": {"name": "gang"}, "spec": {**spec, **policy}})
    names = members(4, **labels)
    assert all(pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods(**labels).values())
    all_wait(names, "2 of 4 pods fit, 4 are needed")
    rig.gone("block")
    assert len(set(all_start(names).values())) == 4
    ends(f"{jobs}/gang?propagationPolicy=Background", **labels)
    cluster.create(jobs, {"metadata": {"name": "plain"}, "spec": {**spec, "parallelism": 5, "completions": 5}})
    labels = {"batch.kubernetes.io/job-name": "plain"}
    members(5, **labels)
    wait_for(lambda: sum("nodeName" in p["spec"] for p in pods(**labels).values()) == 4, "four of five pods start", 120)
    ends(f"{jobs}/plain?propagationPolicy=Background", **labels)


TESTS = [
    a_jobset_starts_whole,
    a_restarted_jobset_starts_whole_again,
    without_the_key_the_pods_of_a_jobset_start_alone,
    each_group_of_a_leaderworkerset_starts_whole,
    a_raycluster_starts_whole,
    a_raycluster_with_a_podgroup_starts_whole,
    a_trainjob_starts_whole,
    a_job_with_a_gang_policy_starts_whole,
]

# With these gates each Job that no other object owns has a PodGroup.
GATES = "--feature-gates=GenericWorkload=true,WorkloadWithJob=true"
ARGS = {
    "kube-apiserver": [GATES, "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"],
    "kube-controller-manager": [GATES],
}

try:
    with open_cluster("kcm", optional=(37, ARGS), since=34) as cluster:
        systems = Systems(cluster, "batch")
        for start in (start_jobset, start_lws, start_kuberay, start_trainer):
            start()
        with installed(cluster), Scheduled(cluster) as rig, Finisher(cluster, cluster.namespace):
            rig.start()
            for node in ("n1", "n2"):
                rig.node(node, "A100", "A100", **{"divvy.gpu/milli": "2000", "divvy.gpu/memory-mib": "32768"})
            main(*TESTS)
except Skip as reason:
    skip_all(reason)
