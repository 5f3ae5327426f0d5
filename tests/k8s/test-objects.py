#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy's custom resources on a real API server: the objects that it accepts, and those that it refuses with a message."""

import copy
import json
import os
import pathlib
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import ApiError, Skip, main, open_cluster, skip_all, wait_for  # noqa: E402
from manifests import CRDS, DEPLOY, crds, define_crds, load  # noqa: E402

FIRST = pathlib.Path(HERE) / "crds-first.yaml"  # the definitions that were stored first
GROUP = "divvy.gpu/v1"
KINDS = {"SharePod": "sharepods", "GPUNode": "gpunodes", "GPUPolicy": "gpupolicies"}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
UUID = "GPU-5a1f9a52-0f3c-4b6e-9d5c-0123456789ab"
TENANT = {
    "podUID": "9f1",
    "namespace": "a",
    "pod": "p",
    "container": "main",
    "slot": "s-0",
    "devices": [UUID],
    "request": 300,
    "limit": 600,
    "memoryBytes": [4 << 30],
    "epoch": 7,
}


def path_of(kind, name="", part=""):
    where = f"namespaces/{cluster.namespace}/" if kind == "SharePod" else ""
    return f"/apis/{GROUP}/{where}{KINDS[kind]}" + (f"/{name}" if name else "") + (f"/{part}" if part else "")


def thing(kind, spec, name="thing", **more):
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec, **more}


def share_pod(**spec):
    return {"request": 0.5, "template": TEMPLATE, **spec}


def try_spec(kind, spec):
    return cluster.create(path_of(kind) + "?dryRun=All", thing(kind, spec))


# (kind, spec) that the API server must accept, in the order of FIELDS of deploy/generate; values are text as in
# annotations, or numbers as in YAML.
GOOD = [
    *(
        ("SharePod", share_pod(request=v))
        for v in (0.5, "0.5", 0.001, "0.001", "0.500000", 1, "1", "1.0", 1.0, 2, "16", "16.0", "0.010", "0.1")
    ),
    *(("SharePod", share_pod(limit=v)) for v in (0.5, "0.75", 1, "1")),
    *(("SharePod", share_pod(count=v)) for v in (1, 16)),
    *(
        ("SharePod", share_pod(memory=v))
        for v in (
            1,
            8388608000,
            "1",
            "4Gi",
            "1.5Gi",
            "141GiB",
            "500M",
            "25%",
            "12.5%",
            "100%",
            "0.1%",
            "0.5Gi",
            "2k",
            "2K",
        )
    ),
    *(("SharePod", share_pod(memoryPolicy=v)) for v in ("fail", "wait", "swap")),
    *(("SharePod", share_pod(**{"class": v})) for v in ("latency", "standard", "opportunistic")),
    *(("SharePod", share_pod(priority=v)) for v in (0, 100)),
    *(("SharePod", share_pod(model=v)) for v in ("H200", "A100,V100", "!T4", "=NVIDIA H200", "x" * 255)),
    ("SharePod", share_pod(device=UUID)),
    ("SharePod", share_pod(affinity="a", antiAffinity="space/b", exclusion="x" * 63)),
    ("SharePod", share_pod(preferredAntiAffinity="space/b")),
    ("SharePod", share_pod(exclusion="")),
    ("SharePod", share_pod(group="g" * 253, groupSize=65536, groupThreshold=0.2)),
    *(("SharePod", share_pod(groupThreshold=v)) for v in ("0.2", 1, "1.0", 0.001)),
    *(("SharePod", share_pod(mode=v)) for v in ("auto", "exclusive", "local", "remote")),
    *(("SharePod", share_pod(network=v)) for v in ("10Gbps", "50us", "10Gbps,50us", "1.5ms,2.5Gbps")),
    ("SharePod", share_pod(containers=["main", "side"])),
    ("GPUNode", {}),
    ("GPUNode", {"cordoned": [{"uuid": UUID, "reason": "ECC"}, {"uuid": "MIG-GPU-1/2/0"}]}),
    ("GPUNode", {"cleared": [{"uuid": UUID, "timeAdded": "2026-11-29T16:45:15Z"}]}),
    *(("GPUNode", {"overcommit": {"memory": v}}) for v in (1.5, "1.5", 1, 16)),
    *(("GPUNode", {"pool": {"policy": v, "reserve": 2}}) for v in ("onDemand", "reservation", "hybrid")),
    *(("GPUNode", {"simulate": v}) for v in ("2xH200-141Gi", "2xH200-141Gi,1xTest-1Gi", "1xT4")),
    ("GPUPolicy", {}),
    (
        "GPUPolicy",
        {
            "namespaces": ["a", "b"],
            "namespaceSelector": {
                "matchLabels": {"team": "a"},
                "matchExpressions": [{"key": "x", "operator": "In", "values": ["y"]}],
            },
        },
    ),
    *(("GPUPolicy", {"totalShare": v}) for v in (0, 2.5, "2.5", 1000)),
    *(("GPUPolicy", {"deviceTaints": {"eviction": v, "graceSeconds": 60}}) for v in ("Never", "NoExecute", "Any")),
    ("GPUPolicy", {"deviceTaints": {"eviction": "Any"}}),
    ("GPUPolicy", {"totalMemory": "1Ti", "highestPriority": 60, "classes": ["standard", "opportunistic"]}),
    ("GPUPolicy", {"queue": {"guaranteedShare": "6", "weight": 60, "graceSeconds": 30}}),
    (
        "GPUPolicy",
        {
            "queue": {
                "name": "ml",
                "parent": "org",
                "limitShare": 8.5,
                "podSelector": {"matchLabels": {"a": "b"}},
                "models": [{"model": "A100", "guaranteedShare": 1, "limitShare": "2.5"}, {"model": "H100"}],
            }
        },
    ),
    (
        "GPUPolicy",
        {
            "overcommit": {"share": 1.5, "memory": "2"},
            "remote": "denied",
            "models": ["A100"],
            "labelSpaces": ["common"],
            "dialects": ["hami", "kubeshare", "gpushare=MiB"],
        },
    ),
]

# (The webhook, not the schema, refuses a number that is too fine.)
NOT_SHARES = (
    0,
    "0",
    "",
    0.0005,
    "0.0005",
    "0.3005",
    -1,
    "-0.5",
    "half",
    "0.5 ",
    " 0.5",
    "+0.5",
    ".5",
    "1e-1",
    17,
    "17",
    "1.5",
    1e300,
    "0.5%",
    True,
    [0.5],
    {"value": 0.5},
    [],
    {},
    "0" * 10000,
    "½",
)
# (kind, spec, the field that the message must name)
BAD = [
    *(("SharePod", share_pod(request=v), "spec.request") for v in NOT_SHARES),
    ("SharePod", {"template": TEMPLATE}, "spec.request"),
    *(("SharePod", share_pod(limit=v), "spec.limit") for v in NOT_SHARES),
    *(("SharePod", share_pod(count=v), "spec.count") for v in (0, 17, -1, 1.5, "2", 1 << 62, True, [1])),
    *(
        ("SharePod", share_pod(memory=v), "spec.memory")
        for v in (
            0,
            -1,
            "",
            "0",
            "0Gi",
            "0%",
            "0.05%",
            "101%",
            "100.1%",
            "4gi",
            "4 Gi",
            "Gi",
            "-4Gi",
            "lots",
            1.5,
            True,
            [1],
            {"bytes": 1},
            "9" * 100,
        )
    ),
    *(("SharePod", share_pod(memoryPolicy=v), "spec.memoryPolicy") for v in ("", "Fail", "swop", 1)),
    *(("SharePod", share_pod(**{"class": v}), "spec.class") for v in ("", "Latency", "gold", 1)),
    *(("SharePod", share_pod(priority=v), "spec.priority") for v in (-1, 101, "50", 0.5)),
    *(("SharePod", share_pod(model=v), "spec.model") for v in ("", "x" * 256, "a\nb", "日本", "a\u0000b")),
    *(("SharePod", share_pod(device=v), "spec.device") for v in ("", "x" * 256, "\x1b[2J", 7)),
    *(
        ("SharePod", share_pod(**{f: "x" * 64}), f"spec.{f}")
        for f in ("affinity", "antiAffinity", "preferredAntiAffinity", "exclusion")
    ),
    *(
        ("SharePod", share_pod(**{f: ""}), f"spec.{f}")
        for f in ("affinity", "antiAffinity", "preferredAntiAffinity", "group")
    ),
    ("SharePod", share_pod(affinity=["a"]), "spec.affinity"),
    ("SharePod", share_pod(group="g" * 254), "spec.group"),
    *(("SharePod", share_pod(groupSize=v), "spec.groupSize") for v in (0, 65537, "5")),
    *(("SharePod", share_pod(groupThreshold=v), "spec.groupThreshold") for v in (0, 1.001, "1.5", 2, True)),
    *(("SharePod", share_pod(mode=v), "spec.mode") for v in ("", "Local", "cloud")),
    *(
        ("SharePod", share_pod(network=v), "spec.network")
        for v in ("", "10", "10GBps", "50", "10Gbps,", ",50us", "10Gbps,5Gbps", "1us," * 20)
    ),
    *(
        ("SharePod", share_pod(containers=v), "spec.containers")
        for v in (["Main"], ["a", "a"], ["c%d" % n for n in range(65)], "main", [""])
    ),
    ("SharePod", {"request": 0.5}, "spec.template"),
    ("SharePod", share_pod(template={}), "spec.template.spec"),
    ("SharePod", share_pod(template={"spec": {}}), "spec.template.spec.containers"),
    ("SharePod", share_pod(template={"spec": {"containers": []}}), "spec.template.spec.containers"),
    ("SharePod", share_pod(template={"spec": {"containers": [{"image": "x"}]}}), "spec.template.spec.containers"),
    ("SharePod", share_pod(template={"spec": {"containers": [{"name": "c"}] * 257}}), "spec.template.spec.containers"),
    ("SharePod", share_pod(template={"metadata": {"labels": {"a": 1}}, **TEMPLATE}), "spec.template.metadata.labels.a"),
    ("SharePod", share_pod(template="a pod"), "spec.template"),
    *(
        ("GPUNode", {"cordoned": v}, "spec.cordoned")
        for v in (
            [{}],
            [{"uuid": ""}],
            [{"uuid": "a b"}],
            [{"uuid": "x" * 64}],
            [{"uuid": UUID}] * 2,
            [{"uuid": UUID, "reason": "x" * 257}],
            {"uuid": UUID},
        )
    ),
    *(("GPUNode", {"overcommit": {"memory": v}}, "spec.overcommit.memory") for v in (0, 0.5, 17, "x", "1.0005", True)),
    *(
        ("GPUNode", {"cleared": v}, "spec.cleared")
        for v in ([{"uuid": UUID}], [{"uuid": UUID, "timeAdded": "today"}], [{"timeAdded": "2026-11-29T16:45:15Z"}])
    ),
    ("GPUNode", {"pool": {"policy": "always"}}, "spec.pool.policy"),
    ("GPUNode", {"pool": {"reserve": -1}}, "spec.pool.reserve"),
    *(("GPUNode", {"simulate": v}, "spec.simulate") for v in ("", "H200", "2x", "2xH200;reboot", "2xH200-141Gi,")),
    ("GPUPolicy", {"namespaces": ["A"]}, "spec.namespaces"),
    ("GPUPolicy", {"namespaces": ["a", "a"]}, "spec.namespaces"),
    (
        "GPUPolicy",
        {"namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}},
        "spec.namespaceSelector.matchExpressions",
    ),
    ("GPUPolicy", {"classes": []}, "spec.classes"),
    ("GPUPolicy", {"classes": ["gold"]}, "spec.classes"),
    ("GPUPolicy", {"highestPriority": 101}, "spec.highestPriority"),
    *(("GPUPolicy", {"totalShare": v}, "spec.totalShare") for v in (-1, "x", "0.0005", 1000.5, True, [])),
    *(("GPUPolicy", {"totalMemory": v}, "spec.totalMemory") for v in ("25%", 0, "much")),
    ("GPUPolicy", {"queue": {"guaranteedShare": -1}}, "spec.queue.guaranteedShare"),
    ("GPUPolicy", {"queue": {"weight": 0}}, "spec.queue.weight"),
    ("GPUPolicy", {"queue": {"graceSeconds": 86401}}, "spec.queue.graceSeconds"),
    ("GPUPolicy", {"queue": {"name": "a/b"}}, "spec.queue.name"),
    ("GPUPolicy", {"queue": {"limitShare": "much"}}, "spec.queue.limitShare"),
    ("GPUPolicy", {"queue": {"models": [{"limitShare": 1}]}}, "spec.queue.models"),
    ("GPUPolicy", {"queue": {"models": [{"model": "A"}, {"model": "A"}]}}, "spec.queue.models"),
    ("GPUPolicy", {"overcommit": {"share": 0.9}}, "spec.overcommit.share"),
    *(
        ("GPUPolicy", {"deviceTaints": v}, "spec.deviceTaints")
        for v in ({}, {"eviction": "PreferNoSchedule"}, {"graceSeconds": 5}, {"eviction": "Any", "graceSeconds": 86401})
    ),
    ("GPUPolicy", {"remote": "maybe"}, "spec.remote"),
    ("GPUPolicy", {"models": [""]}, "spec.models"),
    ("GPUPolicy", {"labelSpaces": ["a/b"]}, "spec.labelSpaces"),
    ("GPUPolicy", {"dialects": ["klingon"]}, "spec.dialects"),
]
DEVICE = {"uuid": UUID, "index": 0, "model": "NVIDIA H200", "memoryBytes": 141 << 30, "health": "Healthy"}
PEER = {
    "name": "gpu-7",
    "roundTripMicroseconds": 180,
    "bitsPerSecond": 9400000000,
    "measuredAt": "2026-01-02T03:04:05Z",
}
NETWORK = {"name": "ens1f0", "kind": "host", "capacityMbps": 25000}
# (kind, status, the field that the message must name; "" for a valid status). The writer of a
# status must avoid duplicate entries, because Kubernetes 1.20 does not refuse duplicates.
STATUS = [
    (
        "GPUNode",
        {
            "epoch": 7,
            "owner": "divvy",
            "deviceCount": 1,
            "observedGeneration": 1,
            "devices": [
                {
                    **DEVICE,
                    "numa": -1,
                    "owner": "divvy",
                    "simulated": True,
                    "links": [{"uuid": "GPU-2", "kind": "nvlink"}],
                }
            ],
            "slots": {"total": 64, "used": 1},
            "tenants": [{**TENANT, "class": "latency", "mode": "local"}],
            "versions": {"divvyd": "0.1.0", "wire": 2, "driver": "550.54"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Serving",
                    "message": "2 devices",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }
            ],
        },
        "",
    ),
    ("GPUNode", {"devices": [{**DEVICE, "health": "fine"}]}, "status.devices.health"),
    # Fields with the names of this release and of the one before.
    *(
        (
            "GPUNode",
            {
                "devices": [{**DEVICE, "health": health}],
                "accounts": [
                    {
                        "day": "2026-01-01",
                        "namespace": "a",
                        "grantedMilliseconds": 1,
                        "usedMilliseconds": 1,
                        **{name: 1 for name in names},
                    }
                ],
            },
            "",
        )
        for health, names in (
            ("Lost", ("requestedMilliseconds", "askedMilliseconds")),
            ("Gone", ("askedMilliseconds",)),
        )
    ),
    (
        "GPUNode",
        {
            "accounts": [
                {
                    "day": "2026-01-01",
                    "namespace": "a",
                    "grantedMilliseconds": 1,
                    "usedMilliseconds": 1,
                    "requestedMilliseconds": -1,
                }
            ]
        },
        "status.accounts.requestedMilliseconds",
    ),
    ("GPUNode", {"devices": [{**DEVICE, "memoryBytes": -1}]}, "status.devices.memoryBytes"),
    ("GPUNode", {"tenants": [{k: v for k, v in TENANT.items() if k != "slot"}]}, "status.tenants.slot"),
    *(
        ("GPUNode", {"tenants": [{**TENANT, f: v}]}, f"status.tenants.{f}")
        for f, v in (
            ("request", 0),
            ("request", 1001),
            ("request", 0.3),
            ("limit", "1"),
            ("devices", []),
            ("devices", ["x"] * 17),
            ("epoch", -1),
            ("container", ""),
            ("class", "gold"),
            ("mode", "auto"),
        )
    ),
    ("GPUNode", {"slots": {"total": 8193, "used": 0}}, "status.slots.total"),
    ("GPUNode", {"conditions": [{"type": "Ready", "status": "yes"}]}, "status.conditions.status"),
    ("GPUNode", {"owner": "me"}, "status.owner"),
    (
        "GPUNode",
        {
            "network": {
                "devices": [
                    NETWORK,
                    {"name": "mlx5_0:2", "kind": "rdma", "link": "ens1f0", "capacityMbps": 25000, "freeMbps": 0},
                ]
            },
            "remote": {"address": "[fd00::7]:7007"},
        },
        "",
    ),
    *(
        ("GPUNode", {"network": {"devices": [{**NETWORK, f: v}]}}, f"status.network.devices.{f}")
        for f, v in (
            ("name", ""),
            ("name", "a b"),
            ("name", "a,b"),
            ("name", "x" * 64),
            ("kind", "token ring"),
            ("capacityMbps", 0),
            ("capacityMbps", "fast"),
            ("capacityMbps", 1000000001),
            ("freeMbps", -1),
            ("link", "a/b"),
        )
    ),
    ("GPUNode", {"network": {"devices": [{"name": "a", "kind": "host"}]}}, "status.network.devices.capacityMbps"),
    ("GPUNode", {"network": {"peers": [PEER, {**PEER, "name": "gpu-8", "bitsPerSecond": 1}]}}, ""),
    *(
        ("GPUNode", {"network": {"peers": [{**PEER, f: v}]}}, f"status.network.peers.{f}")
        for f, v in (
            ("name", ""),
            ("name", "x" * 254),
            ("roundTripMicroseconds", 0),
            ("roundTripMicroseconds", 1000000001),
            ("roundTripMicroseconds", "fast"),
            ("bitsPerSecond", 0),
            ("bitsPerSecond", 10**15 + 1),
            ("measuredAt", "noon"),
        )
    ),
    ("GPUNode", {"network": {"peers": [{"name": "a", "roundTripMicroseconds": 1}]}}, "status.network.peers.measuredAt"),
    ("GPUNode", {"remote": {}}, "status.remote.address"),
    (
        "SharePod",
        {
            "phase": "Running",
            "device": UUID,
            "requested": "0.3-0.6",
            "asked": "0.3-0.6",
            "used": "0.29",
            "got": "0.29",
            "podName": "p",
            "devices": [UUID],
            "granted": {"share": "0.3-0.6", "memory": "4Gi", "request": 300, "limit": 600, "memoryBytes": 4 << 30},
        },
        "",
    ),
    ("SharePod", {"phase": "Sleeping"}, "status.phase"),
    ("SharePod", {"granted": {"request": 1001}}, "status.granted.request"),
    ("SharePod", {"devices": ["x"] * 17}, "status.devices"),
    (
        "GPUPolicy",
        {"namespaceCount": 1, "namespaces": [{"name": "a", "tenants": 1, "share": 300, "memoryBytes": 1 << 30}]},
        "",
    ),
    ("GPUPolicy", {"namespaces": [{"share": 1}]}, "status.namespaces.name"),
    ("GPUPolicy", {"queues": [{"name": "a", "guaranteed": 1000, "used": 1200, "borrowed": 200, "waiting": 1}]}, ""),
    ("GPUPolicy", {"queues": [{"name": "a", "borrowed": -1}]}, "status.queues.borrowed"),
]


def plain(message):
    """The message without indices of lists."""
    return "".join(c for c in message if c not in "[]0123456789")


def all_definitions_are_established_and_structural():
    for crd in crds():
        got = cluster.get(f"{CRDS}/{crd['metadata']['name']}")
        conditions = {c["type"]: c for c in got["status"]["conditions"]}
        assert conditions["Established"]["status"] == "True", conditions
        assert conditions["NamesAccepted"]["status"] == "True", conditions
        assert conditions.get("NonStructuralSchema", {"status": "False"})["status"] == "False", conditions
        assert got["spec"]["preserveUnknownFields"] is False if "preserveUnknownFields" in got["spec"] else True


def good_objects_are_stored_unchanged():
    for kind, spec in GOOD:
        try:
            got = try_spec(kind, spec)
        except ApiError as error:
            raise AssertionError(f"{kind} {spec}: {error}") from None
        assert got["spec"] == spec, (kind, spec, got["spec"])


def bad_objects_are_refused_with_a_message():
    for kind, spec, field in BAD:
        try:
            got = try_spec(kind, spec)
        except ApiError as error:
            assert error.code in (400, 422), (kind, spec, error)
            assert plain(field) in plain(str(error)), (kind, field, str(error)[:600])
            continue
        raise AssertionError(f"taken: {kind} {str(got['spec'])[:200]} for {str(spec)[:200]}")


def statuses_are_checked():
    for kind, status, field in STATUS:
        name = "status-of"
        spec = share_pod() if kind == "SharePod" else {}
        cluster.create(path_of(kind), thing(kind, spec, name))
        try:
            got = cluster.patch(path_of(kind, name, "status"), {"status": status})
            assert not field, f"taken: {kind} {status}"
            assert got["status"] == status, (got["status"], status)
        except ApiError as error:
            assert field and error.code == 422, (kind, status, error)
            assert plain(field) in plain(str(error)), (field, error)
        finally:
            cluster.delete(path_of(kind, name))


def only_the_subresource_writes_a_status():
    for kind, spec, status, edit in (
        ("SharePod", share_pod(), {"phase": "Running"}, {"limit": 0.75}),
        ("GPUNode", {}, {"epoch": 3}, {"simulate": "1xT4"}),
        ("GPUPolicy", {}, {"namespaceCount": 1}, {"remote": "denied"}),
    ):
        made = cluster.create(path_of(kind), thing(kind, spec, "a", status=status))
        assert "status" not in made and made["metadata"]["generation"] == 1, made
        got = cluster.patch(path_of(kind, "a"), {"status": status, "spec": edit})
        assert "status" not in got and got["spec"] == {**spec, **edit} and got["metadata"]["generation"] == 2, got
        got = cluster.patch(path_of(kind, "a", "status"), {"status": status, "spec": spec})
        assert got["status"] == status and got["spec"] == {**spec, **edit}, got
        assert got["metadata"]["generation"] == 2, got
        cluster.delete(path_of(kind, "a"))


def unknown_fields_are_kept_in_templates_only():
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"infer.divvy.gpu/request": "0.4"}, "later": {"x": [1]}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "x",
                    "newField": {"deep": [1, {"y": None}, 1.25, "日本"]},
                    "resources": {"limits": {"cpu": "1", "memory": 1 << 40}},
                }
            ],
            "fromTheFuture": [True, 9007199254740993],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
        "also": {"kept": "yes"},
    }
    spec = {**share_pod(template=template), "requst": 1, "granted": {"x": 1}}
    made = cluster.create(path_of("SharePod"), thing("SharePod", spec, "unknown", extra={"a": 1}))
    assert made["spec"] == {"request": 0.5, "template": template}, made["spec"]
    assert "extra" not in made
    # A change of one field keeps all others, also a null inside the template.
    got = cluster.patch(path_of("SharePod", "unknown"), {"spec": {"limit": 0.6}})
    assert got["spec"]["template"] == template, got["spec"]
    cluster.delete(path_of("SharePod", "unknown"))


COLUMNS = {
    "SharePod": (["Name", "Device", "Requested", "Granted", "Used", "Memory", "Phase", "Age"], ["Node", "Pod"]),
    "GPUNode": (
        ["Name", "Owner", "Devices", "Model", "Slots", "Used", "Ready", "Age"],
        ["Version", "Driver", "Remote"],
    ),
    "GPUPolicy": (["Name", "Share", "Memory", "Priority", "Namespaces", "Valid", "Age"], []),
}


def tables_have_their_columns():
    statuses = {kind: status for kind, status, field in reversed(STATUS) if not field}
    specs = {"SharePod": share_pod(), "GPUPolicy": {"totalShare": 2.5, "totalMemory": "1Ti", "highestPriority": 60}}
    wanted = {
        "SharePod": ["shown", UUID, "0.3-0.6", "0.3-0.6", "0.29", "4Gi", "Running"],
        "GPUNode": ["shown", "divvy", 1, "NVIDIA H200", 64, 1, "True"],
        "GPUPolicy": ["shown", "2.5", "1Ti", 60, 1],
    }
    for kind, (columns, wide) in COLUMNS.items():
        cluster.create(path_of(kind), thing(kind, specs.get(kind, {}), "shown"))
        cluster.patch(path_of(kind, "shown", "status"), {"status": statuses[kind]})
        table = cluster.get(path_of(kind, "shown"), headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
        head = [c["name"] for c in table["columnDefinitions"]]
        assert head == columns + wide, head
        cells = table["rows"][0]["cells"]
        assert cells[: len(wanted[kind])] == wanted[kind], cells
    out = cluster.kubectl("get", "dsp", "-n", cluster.namespace).split("\n")
    assert out[0].split() == ["NAME", "DEVICE", "REQUESTED", "GRANTED", "USED", "MEMORY", "PHASE", "AGE"], out
    assert out[1].split()[:7] == wanted["SharePod"], out
    assert "NODE" in cluster.kubectl("get", "sharepod", "-n", cluster.namespace, "-o", "wide")
    assert "shown" in cluster.kubectl("get", "dgn") and "shown" in cluster.kubectl("get", "dgp")
    assert "sharepod.divvy.gpu/shown" in cluster.kubectl("get", "divvy", "-n", cluster.namespace, "-o", "name")
    for kind in COLUMNS:
        cluster.delete(path_of(kind, "shown"))


def kubectl_explains_the_fields():
    """A user's first question: that the field exists and its meaning."""

    def known():
        code, out, _ = cluster.kubectl("explain", "sharepods.spec.memory", "--api-version=divvy.gpu/v1", check=False)
        return code == 0 and "Device memory on each device" in out

    wait_for(known, "kubectl explain knows the schema")


def two_users_can_cordon_independently():
    cluster.create(path_of("GPUNode"), thing("GPUNode", {}, "both"))
    for manager, uuid in (("ann", "GPU-1"), ("bob", "GPU-2"), ("ann", "GPU-1")):
        got = cluster.patch(
            path_of("GPUNode", "both") + f"?fieldManager={manager}",
            json.dumps(thing("GPUNode", {"cordoned": [{"uuid": uuid, "reason": manager}]}, "both")),
            "apply",
        )
    assert {c["uuid"] for c in got["spec"]["cordoned"]} == {"GPU-1", "GPU-2"}, got["spec"]
    got = cluster.patch(
        path_of("GPUNode", "both") + "?fieldManager=bob", json.dumps(thing("GPUNode", {}, "both")), "apply"
    )
    assert got["spec"]["cordoned"] == [{"uuid": "GPU-1", "reason": "ann"}], got["spec"]
    cluster.delete(path_of("GPUNode", "both"))


def a_second_apply_of_an_object_changes_nothing():
    for kind, spec in (
        ("SharePod", share_pod(limit=0.75, memory="4Gi", containers=["main"])),
        ("GPUNode", {"cordoned": [{"uuid": UUID}], "overcommit": {"memory": 1.5}}),
        ("GPUPolicy", {"totalShare": 2.5, "classes": ["standard"]}),
    ):
        versions = set()
        for _ in range(2):
            got = cluster.patch(
                path_of(kind, "twice") + "?fieldManager=ann", json.dumps(thing(kind, spec, "twice")), "apply"
            )
            versions.add(got["metadata"]["resourceVersion"])
            cluster.patch(path_of(kind, "twice", "status"), {"status": {"observedGeneration": 1}})
            got = cluster.get(path_of(kind, "twice"))
            versions.add(got["metadata"]["resourceVersion"])
        # Only two writes changed the object: the first apply, and the status.
        assert len(versions) == 2 and got["spec"] == spec, (versions, got["spec"])
        text = json.dumps(thing(kind, spec, "kubectl"))
        where = ["-n", cluster.namespace]
        assert "created" in cluster.kubectl(*where, "apply", "-f", "-", stdin=text)
        assert "unchanged" in cluster.kubectl(*where, "apply", "-f", "-", stdin=text)
        for name in ("twice", "kubectl"):
            cluster.delete(path_of(kind, name))


def large_nodes_fit():
    """Sixteen devices with every slot in use, in one object."""
    tenants = [
        {
            **TENANT,
            "podUID": f"{n:036x}",
            "namespace": "n" * 63,
            "pod": "p" * 253,
            "slot": f"s-{n}",
            "devices": [UUID],
            "note": "x" * 64,
        }
        for n in range(1024)
    ]
    cluster.create(path_of("GPUNode"), thing("GPUNode", {}, "large"))
    got = cluster.patch(path_of("GPUNode", "large", "status"), {"status": {"tenants": tenants}})
    assert len(got["status"]["tenants"]) == 1024 and len(json.dumps(got)) > 600_000
    cluster.delete(path_of("GPUNode", "large"))


def examples_are_accepted():
    cluster.define(load((DEPLOY / "kubeshare/crd.yaml").read_text())[0])
    objects = [o for p in sorted((DEPLOY / "examples").rglob("*.yaml")) for o in load(p.read_text())]
    for obj in objects:
        if obj["kind"] == "Namespace":
            cluster.create("/api/v1/namespaces", obj)
            cluster.forget_later(f"/api/v1/namespaces/{obj['metadata']['name']}")
    for obj in objects:
        if obj["kind"] == "Namespace":
            continue
        kind = obj["kind"]
        if kind == "HorizontalPodAutoscaler":
            obj["apiVersion"] = cluster.api_version(kind)
        where = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
        if kind not in ("GPUNode", "GPUPolicy"):
            where += f"/namespaces/{obj['metadata'].get('namespace', cluster.namespace)}"
        plural = KINDS.get(kind, kind.lower() + "s")
        obj = copy.deepcopy(obj)
        if kind == "Pod":  # with a service account that no controller makes here
            obj["spec"]["automountServiceAccountToken"] = False
            obj["spec"].pop("priorityClassName", None)
        got = cluster.create(f"{where}/{plural}?dryRun=All", obj)
        for name, value in obj["spec"].items() if kind in KINDS else ():
            assert got["spec"][name] == value, (name, got["spec"])


def kubeshares_objects_are_stored_unchanged():
    path = f"/apis/kubeshare.nthu/v1/namespaces/{cluster.namespace}/sharepods"
    pod = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "x", "some": {"new": "field"}}]}
    made = cluster.create(
        path,
        {
            "apiVersion": "kubeshare.nthu/v1",
            "kind": "SharePod",
            "metadata": {"name": "s", "annotations": {"kubeshare/gpu_request": "0.4"}},
            "spec": pod,
        },
    )
    assert made["spec"] == pod, made
    status = {
        "PodStatus": {"phase": "Running", "podIP": "10.0.0.1"},
        "PodObjectMeta": {"name": "s"},
        "BoundDeviceID": UUID,
        "PodManagerPort": 0,
    }
    got = cluster.patch(path + "/s", {"status": status})
    assert got["status"] == status, got
    # KubeShare's own values of a SharePod that it has not placed.
    empty = {"PodStatus": None, "PodObjectMeta": None, "BoundDeviceID": "", "PodManagerPort": 0}
    cluster.patch(path + "/s", [{"op": "replace", "path": "/status", "value": empty}], "json")
    known = {r["name"]: r for r in cluster.get("/apis/kubeshare.nthu/v1")["resources"]}
    assert known["sharepods"]["shortNames"] == ["shp"], known
    cluster.delete(path + "/s")


def a_definition_of_kubeshares_is_never_overwritten():
    path = f"{CRDS}/sharepods.kubeshare.nthu"
    cluster.patch(
        path, {"metadata": {"annotations": {"whose": "theirs"}}, "spec": {"names": {"shortNames": ["theirs"]}}}
    )
    # A moment later the API server accepts the definition's new short name, and reports that in the
    # status.
    wait_for(lambda: cluster.get(path)["status"]["acceptedNames"]["shortNames"] == ["theirs"], "the names are accepted")
    before = cluster.get(path)
    code, _, err = cluster.kubectl("create", "-k", str(DEPLOY / "kubeshare"), check=False)
    assert code == 1 and "already exists" in err, err
    after = cluster.get(path)
    for part in (lambda o: o["metadata"]["generation"], lambda o: o["metadata"]["annotations"], lambda o: o["spec"]):
        assert part(after) == part(before), after


def fields(schema, at=""):
    for name, node in schema.get("properties", {}).items():
        yield f"{at}.{name}"
        yield from fields(node, f"{at}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], at + "[]")


def objects_of_the_first_version_survive_an_upgrade():
    """The last test, since it defines everything anew."""
    first, now = {c["metadata"]["name"]: c for c in load(FIRST.read_text())}, {c["metadata"]["name"]: c for c in crds()}
    assert set(first) <= set(now), set(first) - set(now)
    for name in now:
        cluster.delete(f"{CRDS}/{name}")
        wait_for(lambda n=name: not cluster.exists(f"{CRDS}/{n}"), f"{name} is gone")
    for crd in first.values():
        cluster.define(crd)
    stored = []
    for kind, spec in GOOD:
        name = f"old-{len(stored)}"
        cluster.create(path_of(kind), thing(kind, spec, name))
        stored.append((kind, name, spec))
    statuses = {kind: status for kind, status, field in reversed(STATUS) if not field}
    seen = set()
    for kind, name, _ in stored:
        if kind not in seen:
            seen.add(kind)
            cluster.patch(path_of(kind, name, "status"), {"status": statuses[kind]})
    before = {(kind, name): cluster.get(path_of(kind, name)) for kind, name, _ in stored}

    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(DEPLOY / "base/crds.yaml"))
    for name, crd in first.items():
        for version in crd["spec"]["versions"]:
            later = {v["name"]: v for v in now[name]["spec"]["versions"]}
            assert later[version["name"]]["served"], f"{name} {version['name']} is no longer served"
            lost = set(fields(version["schema"]["openAPIV3Schema"])) - set(
                fields(later[version["name"]]["schema"]["openAPIV3Schema"])
            )
            assert not lost, f"{name} {version['name']} has lost {lost}"
        wait_for(lambda n=name: cluster.get(f"{CRDS}/{n}")["metadata"]["generation"] >= 1, f"{name} is replaced")
        kept = cluster.get(f"{CRDS}/{name}")
        assert set(kept["status"]["storedVersions"]) <= {v["name"] for v in kept["spec"]["versions"]}, kept["status"]
    for (kind, name), old in before.items():
        got = cluster.get(path_of(kind, name))
        assert (got["spec"], got.get("status")) == (old["spec"], old.get("status")), (old, got)
        # The stored object can still be written.
        cluster.patch(path_of(kind, name), {"metadata": {"labels": {"upgraded": "yes"}}})


TESTS = [
    all_definitions_are_established_and_structural,
    good_objects_are_stored_unchanged,
    bad_objects_are_refused_with_a_message,
    statuses_are_checked,
    only_the_subresource_writes_a_status,
    unknown_fields_are_kept_in_templates_only,
    tables_have_their_columns,
    kubectl_explains_the_fields,
    two_users_can_cordon_independently,
    a_second_apply_of_an_object_changes_nothing,
    large_nodes_fit,
    examples_are_accepted,
    kubeshares_objects_are_stored_unchanged,
    a_definition_of_kubeshares_is_never_overwritten,
    objects_of_the_first_version_survive_an_upgrade,
]

try:
    with open_cluster() as cluster:
        define_crds(cluster)
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
