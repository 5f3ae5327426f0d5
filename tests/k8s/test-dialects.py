#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manifests in other systems' dialects, on a real API server: their translation by the webhook, their placement by the
scheduler, and the keys that users read back. The values are from each project's published examples."""

import contextlib
import glob
import os
import re

from cluster import ApiError, Skip, main, open_cluster, skip_all, wait_for
from controller import installed
from manifests import load
from scheduled import Scheduled

SOURCE = os.environ["DIVVY_SOURCE"]
EXAMPLES = os.path.join(SOURCE, "deploy/examples/dialects")
PUBLISHED = os.path.join(SOURCE, "tests/k8s/published")
ALL = (
    "kubeshare,kubeshare2,gemini,gpushare=MiB,gaiagpu,deepomatic=4,hami,wang,nvidia,"
    "kai,volcano,koordinator,timeslicing=4,mig"
)
spaces = {}  # by list of dialects


def space(dialects):
    """A namespace with these dialects, once the webhook knows of it."""
    if dialects not in spaces:
        name = cluster.new_namespace()
        if dialects:
            cluster.patch(f"/api/v1/namespaces/{name}", {"metadata": {"annotations": {"divvy.gpu/dialects": dialects}}})
        spaces[dialects] = name

        def known():
            # A pod that is created while the list changes may be refused: its translation no longer matches the list.
            with contextlib.suppress(ApiError):
                got = cluster.create(pods(name) + "?dryRun=All", pod(annotations={"divvy.gpu/request": "0.1"}))
                return ("divvy.gpu/dialects" in got["metadata"]["annotations"]) == bool(dialects)
            return False

        wait_for(known, f"the webhook knows of {dialects}")
    return spaces[dialects]


def pods(namespace):
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(*containers, init=(), annotations=None, labels=None, name="pod", **spec):
    """Each container is given by its limits."""

    def made(prefix, lists):
        return [
            {"name": f"{prefix}{i}", "image": "none", "resources": {"limits": limits}} for i, limits in enumerate(lists)
        ]

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"containers": made("c", containers or ({},)), "initContainers": made("i", init), **spec},
    }


def number(quantity):
    return int(quantity[:-1]) * 1000 if quantity.endswith("k") else int(quantity)


def asks(milli, mib=None):
    return {"divvy.gpu/slot": 1, "divvy.gpu/milli": milli, **({"divvy.gpu/memory-mib": mib} if mib else {})}


def becomes(dialects, body, *want, init=(), translated=None):
    """Checks each container's limits after the webhook; None: unchanged, without a share."""
    got = cluster.create(pods(space(dialects)) + "?dryRun=All", body)
    for kind, lists in (("containers", want), ("initContainers", init)):
        for asked, container in zip(lists, got["spec"].get(kind) or [], strict=True):
            limits = {k: number(v) for k, v in (container["resources"].get("limits") or {}).items()}
            requests = {k: number(v) for k, v in (container["resources"].get("requests") or {}).items()}
            assert limits == requests == (asked or {}), f"{body}: {container['name']}: {limits}, {requests}"
    annotations = got["metadata"].get("annotations", {})
    assert annotations.get("divvy.gpu/translated-from") == translated, annotations
    is_tenant = any(want) or any(init)
    assert (got["metadata"].get("labels", {}).get("divvy.gpu/tenant") == "true") == is_tenant, got["metadata"]
    assert (got["spec"]["schedulerName"] == "divvy-scheduler") == is_tenant, got["spec"]["schedulerName"]
    # The translated pod, created again in the same namespace, keeps its containers unchanged.
    again = {**got, "metadata": {k: got["metadata"].get(k) for k in ("name", "annotations", "labels")}}
    if is_tenant:
        twice = cluster.create(pods(space(dialects)) + "?dryRun=All", again)
        assert twice["spec"]["containers"] == got["spec"]["containers"]


def refused(dialects, body, sentence):
    try:
        cluster.create(pods(space(dialects)) + "?dryRun=All", body)
    except ApiError as error:
        assert sentence in str(error), f"{sentence!r} is not in: {error}"
        return
    raise AssertionError(f"not refused: {sentence}: {body}")


def fraction(prefix, request, limit, memory, key="gpu_mem", **more):
    return {
        f"{prefix}/gpu_request": request,
        f"{prefix}/gpu_limit": limit,
        f"{prefix}/{key}": memory,
        **{f"{prefix}/{k}": v for k, v in more.items()},
    }


# ---- translation by the webhook


def divvys_own_at_admission():
    own = {"divvy.gpu/request": "0.25", "divvy.gpu/count": "2", "divvy.gpu/memory": "4Gi"}
    becomes("", pod({}, {}, annotations=own), asks(500, 8192), None)
    becomes(
        "", pod({}, init=({},), annotations={**own, "i0.divvy.gpu/request": "1"}), asks(500, 8192), init=[asks(1000)]
    )
    refused("", pod(annotations={"divvy.gpu/reqest": "0.5"}), "did you mean request?")
    becomes("", pod(annotations=fraction("kubeshare", "0.5", "1.0", "1024")), None)


def kubeshare_at_admission():
    full = fraction("kubeshare", "0.5", "1.0", "1073741824", sched_affinity="red")
    full |= {"kubeshare/sched_anti-affinity": "green", "kubeshare/sched_exclusion": "blue"}
    becomes("kubeshare", pod(annotations=full), asks(500, 1024))
    becomes("kubeshare", pod(annotations=fraction("kubeshare", "0.5", "1.0", "3145728000")), asks(500, 3000))
    pinned = fraction("kubeshare", "0.5", "1.0", "1073741824", GPUID="abcde")
    becomes("kubeshare", pod(annotations=pinned, nodeSelector={"kubernetes.io/hostname": "n1"}), asks(500, 1024))
    refused("kubeshare", pod(annotations=pinned), "kubeshare/GPUID 'abcde': spec.nodeName is missing")
    refused(
        "kubeshare",
        pod(annotations={"kubeshare/gpu_request": "0.5", "kubeshare/gpu_limit": "1.0"}),
        "kubeshare/gpu_mem is missing",
    )
    refused("kubeshare", pod(annotations=fraction("kubeshare", "0.5", "0.4", "1")), "expected 0.5 to 1")


def kubeshare2_at_admission():
    def asked(**labels):
        return pod(labels={f"sharedgpu/{k}": v for k, v in labels.items()}, schedulerName="kubeshare-scheduler")

    becomes("kubeshare2", asked(gpu_request="0.5", gpu_limit="1.0", gpu_model="NVIDIA-GeForce-GTX-1080"), asks(500))
    becomes(
        "kubeshare2",
        asked(
            gpu_request="0.5",
            gpu_limit="1.0",
            group_name="a",
            group_headcount="5",
            group_threshold="0.2",
            priority="100",
        ),
        asks(500),
    )
    becomes(
        "kubeshare2",
        asked(gpu_request="2.0", gpu_limit="2.0", priority="100", group_name="imagenet50-1", min_available="2"),
        asks(2000),
    )
    refused("kubeshare2", asked(gpu_request="0.5"), "sharedgpu/gpu_limit is missing")
    refused("kubeshare2", asked(gpu_request="1.5", gpu_limit="1.5"), "above 1, both must be the same whole number")


def gemini_at_admission():
    becomes("gemini", pod(annotations=fraction("gemini", "0.4", "0.7", "1073741824")), asks(400, 1024))
    refused("gemini", pod(annotations=fraction("gemini", "0.4", "0.7", "1", gpu_memory="1")), "keep one of the two")


def gpushare_at_admission():
    becomes("gpushare=MiB", pod({"aliyun.com/gpu-mem": "8138"}), asks(1, 8138), translated="c0/aliyun.com/gpu-mem=8138")
    becomes(
        "gpushare",
        pod({"aliyun.com/gpu-mem": "2", "aliyun.com/gpu-count": "1"}, {"aliyun.com/gpu-mem": "1"}),
        asks(1, 2048),
        asks(1, 1024),
        translated="c0/aliyun.com/gpu-mem=2,c0/aliyun.com/gpu-count=1,c1/aliyun.com/gpu-mem=1",
    )
    refused("gpushare", pod({"aliyun.com/gpu-mem": "2", "aliyun.com/gpu-count": "2"}), "gpu-mem counts one device")


def gaiagpu_at_admission():
    core, memory = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
    becomes(
        "gaiagpu",
        pod({core: "50", memory: "30"}, annotations={core + "-limit": "50"}),
        asks(500, 7680),
        translated=f"c0/{core}=50,c0/{memory}=30",
    )
    becomes("gaiagpu", pod({core: "200", memory: "60"}), asks(2000), translated=f"c0/{core}=200,c0/{memory}=60")
    refused("gaiagpu", pod({core: "150", memory: "1"}), "values above 100 are whole devices")
    refused("gaiagpu", pod({core: "20"}), f"{memory} is missing")


def deepomatic_at_admission():
    shared = "deepomatic.com/shared-gpu"
    becomes("deepomatic", pod({shared: "1"}), asks(10), translated=f"c0/{shared}=1")
    becomes("deepomatic=4", pod({shared: "1"}), asks(250), translated=f"c0/{shared}=1")
    refused("deepomatic=4", pod({shared: "5"}), "expected 0 to 4")


def hami_at_admission():
    def of(**resources):
        return {f"nvidia.com/{k.replace('_', '-')}": v for k, v in resources.items()}

    becomes(
        "hami",
        pod(of(gpu="2", gpumem="3000", gpucores="30"), schedulerName="hami-scheduler"),
        asks(600, 6000),
        translated="c0/nvidia.com/gpu=2,c0/nvidia.com/gpumem=3000,c0/nvidia.com/gpucores=30",
    )
    becomes(
        "hami",
        pod(of(gpu="2", gpumem_percentage="50", gpucores="30")),
        asks(600),
        translated="c0/nvidia.com/gpu=2,c0/nvidia.com/gpumem-percentage=50,c0/nvidia.com/gpucores=30",
    )
    for key, value in (
        ("use-gputype", "A100,V100"),
        ("nouse-gputype", "1080, 2080"),
        ("use-gpuuuid", "GPU-123456"),
        ("nouse-gpuuuid", "GPU-123456"),
    ):
        becomes(
            "hami",
            pod(of(gpu="2"), annotations={f"nvidia.com/{key}": value}),
            asks(2),
            translated="c0/nvidia.com/gpu=2",
        )
    becomes(
        "hami",
        pod(of(gpu="1", gpumem="100"), {}, init=(of(gpu="1", gpumem="50"),)),
        asks(1, 100),
        None,
        init=[asks(1, 50)],
        translated="i0/nvidia.com/gpu=1,i0/nvidia.com/gpumem=50,c0/nvidia.com/gpu=1,c0/nvidia.com/gpumem=100",
    )
    refused("hami", pod(of(gpu="1", gpumem="1", gpumem_percentage="50")), "keep one of the two")
    refused("hami", pod(of(gpu="1", gpucores="101")), "nvidia.com/gpucores 101: expected 0 to 100")


def wang_at_admission():
    asked = fraction(
        "gpushare", "0.4", "0.5", "8388608000", key="gpu_memory", resource_priority="2", taskid="default/virtualpod1"
    )
    becomes("wang", pod(annotations=asked), asks(400, 8000))
    refused("wang", pod(annotations={**asked, "gpushare/resource_priority": "3"}), "gpushare/resource_priority '3'")


def nvidia_at_admission():
    becomes("nvidia", pod({"nvidia.com/gpu": "1"}), asks(1000), translated="c0/nvidia.com/gpu=1")
    becomes("nvidia", pod({"nvidia.com/gpu": "8"}), asks(8000), translated="c0/nvidia.com/gpu=8")
    refused("nvidia", pod({"nvidia.com/gpu": "17"}), "expected 0 to 16")


def kai_at_admission():
    def asked(*containers, init=(), **annotations):
        return pod(
            *containers,
            init=init,
            annotations={k.replace("_", "-"): v for k, v in annotations.items()},
            labels={"kai.scheduler/queue": "default-queue"},
            schedulerName="kai-scheduler",
        )

    becomes("kai", asked(gpu_fraction="0.5"), asks(500))
    becomes("kai", asked(gpu_memory="2000", gpu_fraction_num_devices="2"), asks(2, 4000))
    becomes("kai", asked({}, {}, gpu_fraction="0.5", gpu_fraction_container_name="c1"), None, asks(500))
    parts = {"nvidia.com/container.c0.gpu-memory.request": "4Gi", "nvidia.com/container.c0.gpu-memory.limit": "8Gi"}
    becomes("kai", pod(annotations=parts, schedulerName="runai-scheduler"), asks(1, 8192))
    refused("kai", asked(gpu_fraction="1"), "gpu-fraction '1': expected 0.001 to 0.999")
    refused("kai", asked(gpu_fraction="0.5", gpu_memory="2000"), "keep one of the two")
    refused("kai", asked({"nvidia.com/gpu": "1"}, gpu_fraction="0.5"), "nvidia.com/gpu beside a part of a device")
    # Without the dialect the keys mean nothing to divvy, and the scheduler stays.
    got = cluster.create(pods(space("")) + "?dryRun=All", asked(gpu_fraction="0.5"))
    assert got["spec"]["schedulerName"] == "kai-scheduler" and "resources" in got["spec"]["containers"][0], got["spec"]


def volcano_at_admission():
    def of(**resources):
        return {f"volcano.sh/{k.replace('_', '-')}": v for k, v in resources.items()}

    becomes(
        "volcano",
        pod(of(vgpu_number="2", vgpu_memory="3000", vgpu_cores="50"), schedulerName="volcano"),
        asks(1000, 6000),
        translated="c0/volcano.sh/vgpu-number=2,c0/volcano.sh/vgpu-memory=3000,c0/volcano.sh/vgpu-cores=50",
    )
    becomes("volcano=1024", pod(of(vgpu_memory="2")), asks(1, 2048), translated="c0/volcano.sh/vgpu-memory=2")
    becomes("volcano", pod(of(gpu_memory="1024")), asks(1, 1024), translated="c0/volcano.sh/gpu-memory=1024")
    refused("volcano", pod(of(vgpu_number="1"), annotations={"volcano.sh/vgpu-mode": "mig"}), "expected hami-core")
    refused("volcano", pod(of(vgpu_core="1")), "did you mean volcano.sh/vgpu-cores?")


def koordinator_at_admission():
    def of(**resources):
        return {f"koordinator.sh/{k.replace('_', '-')}": v for k, v in resources.items()}

    becomes("koordinator", pod(of(gpu="200")), asks(2000), translated="c0/koordinator.sh/gpu=200")
    becomes(
        "koordinator",
        pod({**of(gpu_core="60", gpu_memory="8Gi"), "koordinator.sh/gpu.shared": "2"}, schedulerName="koord-scheduler"),
        asks(600, 8192),
        translated="c0/koordinator.sh/gpu-core=60,c0/koordinator.sh/gpu-memory=8589934592,"
        "c0/koordinator.sh/gpu.shared=2",
    )
    refused("koordinator", pod(of(gpu="150")), "values above 100 are whole devices")
    refused("koordinator", pod(of(gpu_core="50")), "koordinator.sh/gpu-memory-ratio is missing")


def timeslicing_and_mig_at_admission():
    becomes("timeslicing=10", pod({"nvidia.com/gpu.shared": "1"}), asks(100), translated="c0/nvidia.com/gpu.shared=1")
    refused("timeslicing=10", pod({"nvidia.com/gpu.shared": "11"}), "expected 0 to 10")
    instance = "nvidia.com/mig-1g.10gb"
    becomes("mig", pod({instance: "1"}), asks(142, 9537), translated=f"c0/{instance}=1")
    becomes("mig", pod({"nvidia.com/mig-7g.80gb": "1"}), asks(1000), translated="c0/nvidia.com/mig-7g.80gb=1")
    refused("mig", pod({"nvidia.com/mig-9g.10gb": "1"}), "unknown profile")
    refused("mig", pod({instance: "1", "nvidia.com/mig-2g.20gb": "1"}), "a container has one kind of instance")
    # Without their dialects both belong to NVIDIA's device plugin.
    for resource in ("nvidia.com/gpu.shared", instance):
        got = cluster.create(pods(space("nvidia")) + "?dryRun=All", pod({resource: "1"}))
        assert got["spec"]["containers"][0]["resources"]["limits"] == {resource: "1"}, got["spec"]


# {file: (dialect, {container: its limits of divvy})}
EXAMPLES_OF_OTHERS = {
    "kai-gpu-sharing.yaml": ("kai", {"gpu-workload": asks(500)}),
    "kai-gpu-memory.yaml": ("kai", {"gpu-workload": asks(1, 2000)}),
    "kai-gpu-sharing-init-container.yaml": ("kai", {"gpu-init": asks(500)}),
    "kai-gpu-sharing-non-default-container.yaml": ("kai", {"gpu-workload": asks(500)}),
    "volcano-vgpu-case01.yml": ("volcano", {"pod1-ctr": asks(1, 1024)}),
    "volcano-vgpu-case02.yml": ("volcano", {"pod1-ctr": asks(1, 10240)}),
    "volcano-vgpu-deployment.yaml": ("volcano", {"resnet101-container": asks(1, 16384)}),
    "koordinator-gpu-share-with-hami.yaml": ("koordinator", {"curlimage": asks(500)}),
}


def shares_of(spec):
    """The limits of divvy by container, after a check that no resource of another system is left."""
    found = {}
    for container in spec.get("initContainers", []) + spec["containers"]:
        limits = container["resources"].get("limits", {})
        assert not [name for name in limits if "/" in name and not name.startswith("divvy.gpu/")], limits
        ours = {name: number(value) for name, value in limits.items() if name.startswith("divvy.gpu/")}
        found |= {container["name"]: ours} if ours else {}
    return found


def published_manifests_are_translated():
    """The projects' own files, unchanged but for the namespace."""
    assert sorted(os.listdir(PUBLISHED)) == sorted([*EXAMPLES_OF_OTHERS, "README.md"])
    for name, (dialects, want) in EXAMPLES_OF_OTHERS.items():
        with open(os.path.join(PUBLISHED, name), encoding="utf-8") as f:
            (body,) = load(f.read())
        if body["kind"] == "Deployment":
            body = {"apiVersion": "v1", "kind": "Pod", **body["spec"]["template"]}
            body["metadata"]["name"] = "of-a-deployment"
        body["metadata"].pop("namespace", None)
        got = cluster.create(pods(space(dialects)) + "?dryRun=All", body)
        assert shares_of(got["spec"]) == want, (name, got["spec"])
        assert got["spec"]["schedulerName"] == "divvy-scheduler", (name, got["spec"]["schedulerName"])


def mixed_and_contradictory_at_admission():
    theirs = fraction("kubeshare", "0.5", "1.0", "1073741824")
    becomes(ALL, pod(annotations={**theirs, "divvy.gpu/request": "0.5", "divvy.gpu/memory": "1Gi"}), asks(500, 1024))
    refused(
        ALL,
        pod(annotations={**theirs, "divvy.gpu/request": "0.4", "divvy.gpu/memory": "1Gi"}),
        "divvy says 1 x 0.4 limit 1 memory 1Gi standard priority 50, kubeshare says 1 x 0.5",
    )
    refused(
        ALL,
        pod({"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "1", "aliyun.com/gpu-mem": "256"}),
        "gpushare says",
    )
    becomes(
        ALL,
        pod({}, {"nvidia.com/gpumem": "256"}, annotations=theirs),
        asks(500, 1024),
        asks(1, 256),
        translated="c1/nvidia.com/gpumem=256",
    )
    becomes(ALL, pod({}, {}, annotations={**theirs, "divvy.gpu/container": "c1"}), None, asks(500, 1024))
    becomes(
        ALL,
        pod({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5"}),
        asks(1000),
        asks(1, 5),
        translated="c1/nvidia.com/gpu=1,c1/nvidia.com/gpumem=5,c0/nvidia.com/gpu=1",
    )
    refused(
        ALL,
        pod(
            annotations={"divvy.gpu/request": "0.5", "divvy.gpu/group": "h", "divvy.gpu/group-size": "3"},
            labels={"scheduling.x-k8s.io/pod-group": "g"},
        ),
        "the pod is in group 'h' already",
    )
    refused(ALL, pod(annotations={"kubeshare/gpu_reqest": "0.5"}), "did you mean kubeshare/gpu_request?")
    refused(ALL, pod({"koordinator.sh/gpu": "50"}, annotations={"gpu-fraction": "0.5"}), "koordinator says 1 x 0.5")
    becomes(
        ALL,
        pod({"koordinator.sh/gpu": "100"}, {"nvidia.com/gpu.shared": "1"}, {"nvidia.com/mig-1g.10gb": "1"}),
        asks(1000),
        asks(250),
        asks(142, 9537),
        translated="c0/koordinator.sh/gpu=100,c1/nvidia.com/gpu.shared=1,c2/nvidia.com/mig-1g.10gb=1",
    )


# ---- placement by the scheduler, and the keys that users read back


def bound(path):
    def there():
        return cluster.exists(path) and cluster.get(path)["spec"].get("nodeName")

    try:
        wait_for(there, f"{path} is bound", 90)
    except AssertionError as error:
        raise AssertionError(
            f"{error}: {cluster.get(path)['status'] if cluster.exists(path) else 'not there'}"
        ) from None
    return cluster.get(path)


BACK = {
    "deepomatic": {},
    "gaiagpu": {
        "tencent.com/predicate-gpu-idx-0": r"\d",
        "tencent.com/predicate-node": "n1",
        "tencent.com/predicate-time": r"\d{19}",
        "tencent.com/gpu-assigned": "false",
    },
    "gemini": {},
    "gpushare": {
        "ALIYUN_COM_GPU_MEM_IDX": r"\d",
        "ALIYUN_COM_GPU_MEM_POD": "3",
        "ALIYUN_COM_GPU_MEM_DEV": "16",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": r"\d{19}",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
    },
    "hami": {
        "hami.io/vgpu-devices-allocated": r"GPU-n1-\d,NVIDIA,3000,30:;",
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": r"\d{10}",
        "hami.io/bind-time": r"\d{10}",
        "hami.io/bind-phase": "allocating",
    },
    "kai": {"received-resource-type": "Fraction"},
    "koordinator": {
        "scheduling.koordinator.sh/device-allocated": r'\{"gpu":\[\{"minor":\d,"resources":\{'
        r'"koordinator.sh/gpu-core":"30","koordinator.sh/gpu-memory":"4Gi","koordinator.sh/gpu-memory-ratio":"25"\},'
        r'"id":"GPU-n1-\d"\}\]\}',
        "scheduling.koordinator.sh/gpu-minors": r"\d",
        "scheduling.koordinator.sh/bind-timestamp": r"\d{19}",
    },
    "kubeshare": {},
    "kubeshare2": {
        "sharedgpu/gpu_uuid": r"GPU-n1-\d",
        "sharedgpu/gpu_model": "A100",
        "sharedgpu/gpu_mem": "4294967296",
    },
    "mig": {},
    "nvidia": {},
    "timeslicing": {},
    "volcano": {
        "volcano.sh/vgpu-ids-new": r"GPU-n1-\d,NVIDIA,3000,30:",
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": r"\d{10}",
        "volcano.sh/bind-time": r"\d{10}",
        "volcano.sh/bind-phase": "allocating",
    },
    "wang": {},
}


# {dialect: annotations and labels that change once the kubelet reports that the container runs}
RUNS = {
    "kai": {"runai-gpu-group": r"GPU-n1-\d"},
    "gaiagpu": {"tencent.com/gpu-assigned": "true"},
    "gpushare": {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true", "ALIYUN_COM_GPU_MEM_ASSIGN_TIME": r"\d{19}"},
    "hami": {"hami.io/bind-phase": "success"},
    "volcano": {"volcano.sh/bind-phase": "success"},
}


def runs(path, values):
    cluster.patch(path + "/status", {"status": {"phase": "Running"}})

    def said():
        metadata = cluster.get(path)["metadata"]
        found = metadata["annotations"] | metadata.get("labels", {})
        return all(re.fullmatch(pattern, found.get(key, "")) for key, pattern in values.items())

    wait_for(said, f"{path}: {values}", 30)


def examples_run_and_are_read_back():
    cluster.kubectl("apply", "--server-side", "-k", os.path.join(SOURCE, "deploy/kubeshare"))
    wait_for(lambda: cluster.exists("/apis/kubeshare.nthu/v1/sharepods"), "KubeShare's SharePods are served", 60)
    files = sorted(glob.glob(os.path.join(EXAMPLES, "*.yaml")))
    assert [os.path.basename(f)[:-5] for f in files] == sorted(BACK)
    for path in files:
        cluster.kubectl("apply", "-f", path)
        name = os.path.basename(path)[:-5]
        got = bound(pods(f"dialect-{name}") + "/trainer")
        annotations = got["metadata"]["annotations"]
        assert re.fullmatch(r"main=GPU-n1-\d", annotations["divvy.gpu/devices"]), annotations
        for key, pattern in BACK[name].items():
            assert re.fullmatch(pattern, annotations.get(key, "")), f"{name}: {key}: {annotations.get(key)}"
        before = {key: value for key, value in annotations.items() if key not in RUNS.get(name, {})}
        runs(pods(f"dialect-{name}") + "/trainer", RUNS.get(name, {}))
        annotations = cluster.get(pods(f"dialect-{name}") + "/trainer")["metadata"]["annotations"]
        assert {key: annotations.get(key) for key in before} == before, annotations


def a_policy_puts_pods_into_kais_queue():
    """The example of dialect kai: its GPUPolicy selects the label of KAI's queue."""

    def used():
        status = cluster.get("/apis/divvy.gpu/v1/gpupolicies/dialect-kai-default-queue").get("status", {})
        return [(q["name"], q["used"]) for q in status.get("queues", [])]

    wait_for(lambda: used() == [("default-queue", 300)], "the pod of KAI's example uses its queue", 60)


def a_pinned_vgpu_is_placed_on_its_node():
    body = pod(
        name="pinned",
        annotations=fraction("kubeshare", "0.1", "1.0", "1073741824", GPUID="abcde"),
        nodeSelector={"kubernetes.io/hostname": "n1"},
    )
    cluster.create(pods(space("kubeshare")), body)
    first = bound(pods(space("kubeshare")) + "/pinned")
    assert first["spec"]["nodeName"] == "n1"
    body["metadata"]["name"] = "pinned-beside"
    cluster.create(pods(space("kubeshare")), body)
    second = bound(pods(space("kubeshare")) + "/pinned-beside")
    for key in ("divvy.gpu/devices", "kubeshare/GPUID"):
        assert first["metadata"]["annotations"][key] == second["metadata"]["annotations"][key], (first, second)


TESTS = [
    divvys_own_at_admission,
    kubeshare_at_admission,
    kubeshare2_at_admission,
    gemini_at_admission,
    gpushare_at_admission,
    gaiagpu_at_admission,
    deepomatic_at_admission,
    hami_at_admission,
    wang_at_admission,
    nvidia_at_admission,
    kai_at_admission,
    volcano_at_admission,
    koordinator_at_admission,
    timeslicing_and_mig_at_admission,
    published_manifests_are_translated,
    mixed_and_contradictory_at_admission,
    examples_run_and_are_read_back,
    a_policy_puts_pods_into_kais_queue,
    a_pinned_vgpu_is_placed_on_its_node,
]

try:
    with open_cluster("kcm") as cluster, installed(cluster), Scheduled(cluster) as rig:
        rig.start()
        rig.node("n1", *["A100"] * 8, **{"divvy.gpu/milli": "8000", "divvy.gpu/memory-mib": str(8 * 16384)})
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
