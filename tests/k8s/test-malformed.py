#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Malformed objects on an API server with divvy's webhook, controller and scheduler. The server or the webhook refuses them
with a message; stored ones are reported or ignored. After each of them the same processes serve another pod."""

import json
import os

from cluster import ApiError, Skip, main, open_cluster, skip_all, wait_for
from controller import SYSTEM, installed
from scheduled import GPU, NODE_LEASES, Scheduled

SOURCE = os.environ["DIVVY_SOURCE"]
MIB = "x" * (1 << 20)
TEXTS = (
    "½",
    "０.５",
    "\u202e5.0",
    "0.5\u0000",
    "\U0001f4a5" * 64,
    "é" * 4096,
    "a\nb",
    "\x1b[2J",
    "%s%n",
    "1e400",
    "-0",
    "9" * 400,
    "NaN",
    "0x1p-1",
    "",
    " ",
)
KEYS = (
    "request",
    "limit",
    "memory",
    "count",
    "class",
    "priority",
    "memory-policy",
    "mode",
    "network",
    "group-size",
    "group-threshold",
    "container",
)
counted = 0


def name_of(prefix):
    global counted
    counted += 1
    return f"{prefix}-{counted}"


def pods(name=""):
    return f"/api/v1/namespaces/{cluster.namespace}/pods" + (f"/{name}" if name else "")


def share_pods(name="", group="divvy.gpu"):
    return f"/apis/{group}/v1/namespaces/{cluster.namespace}/sharepods" + (f"/{name}" if name else "")


def pod(name, annotations=None, containers=({},), labels=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"containers": [{"name": f"c{i}", "image": "none", **c} for i, c in enumerate(containers)], **spec},
    }


def all_serve():
    """The processes are the same, and serve a new pod: translated, placed, and its SharePod's pod created."""
    assert (cluster.pid("divvy-controller"), rig.processes[0].pid) == before, "the controller has ended"
    assert rig.processes[0].poll() is None, "the scheduler has ended"
    name = name_of("well")
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    cluster.create(
        share_pods(),
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "SharePod",
            "metadata": {"name": name},
            "spec": {"request": "0.1", "template": template},
        },
    )
    wait_for(lambda: cluster.exists(pods(name)), f"{name} has its pod")
    wait_for(lambda: cluster.get(pods(name))["spec"].get("nodeName"), f"{name} is bound")
    cluster.delete(share_pods(name))
    cluster.delete(pods(name), grace_s=0)


def gone(*paths):
    for path in paths:
        cluster.delete(path, grace_s=0)


def refused(call, *args, says=()):
    """Refused by the server or the webhook, in a readable message with one of these words."""
    try:
        made = call(*args)
    except ApiError as error:
        assert 400 <= error.code < 500, error
        text = str(error)
        assert len(text) < 4096 and any(w in text for w in says), f"{says}: {text[:1000]}"
        return text
    raise AssertionError(f"taken: {str(made)[:500]}")


# ---- Pods


def invalid_values_are_refused():
    for key in KEYS:
        for text in TEXTS:
            annotations = {"divvy.gpu/request": "0.5", f"divvy.gpu/{key}": text}
            try:
                cluster.create(pods() + "?dryRun=All", pod("text", annotations))
            except ApiError as error:
                assert (
                    error.code == 400 and "denied the request" in str(error) and key in str(error)
                ), f"{key} {text!r}: {error}"
            else:
                assert (key, text) == ("mode", "") or key == "class" or text in ("-0",), f"taken: {key} {text!r}"
    all_serve()


def huge_annotations_are_refused():
    """The webhook sees them before the server checks their size."""
    for key in ("divvy.gpu/request", "divvy.gpu/group", "other/thing", "a.divvy.gpu/request"):
        refused(
            cluster.create,
            pods(),
            pod("large", {"divvy.gpu/request": "0.1", key: MIB}),
            says=("metadata.annotations", key),
        )
    refused(
        cluster.create,
        pods(),
        pod("many", {f"c{i}.divvy.gpu/request": "0.1" for i in range(20000)}),
        says=("containers", "divvy.gpu/request", "annotations"),
    )
    # A pod without a request for a GPU may have annotations of the largest size that the server accepts.
    name = name_of("full")
    cluster.create(pods(), pod(name, {"other/thing": "½" * 120000}, schedulerName="divvy-scheduler"))
    rig.bound(name)
    gone(pods(name))
    all_serve()


def pods_with_thousands_of_containers_do_no_harm():
    for asked in ({"divvy.gpu/request": "0.1"}, {}):
        text = refused(cluster.create, pods(), pod("many", asked, [{}] * 3000), says=("containers: the pod has 257",))
        assert "denied the request" in text, text
    name = name_of("many")
    cluster.create(pods(), pod(name, {f"c{i}.divvy.gpu/request": "0.01" for i in range(64)}, [{}] * 64))
    rig.bound(name)
    gone(pods(name))
    refused(
        cluster.create, pods(), pod("twice", {"divvy.gpu/request": "0.1"}, [{"name": "c"}] * 2), says=("Duplicate", "c")
    )
    all_serve()


def pods_with_fields_of_wrong_types_do_no_harm():
    for body in (
        {"metadata": {"annotations": {"divvy.gpu/request": 0.5}}},
        {"metadata": {"annotations": ["a"]}},
        {"metadata": {"labels": {"divvy.gpu/tenant": True}}},
        {"spec": "none"},
        {"spec": {"containers": {}}},
    ):
        whole = pod("types")
        for part, value in body.items():
            whole[part] = {**whole[part], **value} if isinstance(value, dict) else value
        refused(cluster.create, pods(), whole, says=("unmarshal", "cannot", "expect", "ReadString", "decode"))
    for resource in ("nvidia.com/gpumem", "nvidia.com/gpu", "divvy.gpu/slot", "divvy.gpu/milli"):
        for value in ("9223372036854775807", "1e18", "-1", "0.0001", "9" * 300, "1Ei"):
            path = pods() + "?dryRun=All"
            try:
                got = cluster.create(path, pod("huge", containers=[{"resources": {"limits": {resource: value}}}]))
                assert resource.startswith("nvidia") and not got["metadata"].get("labels"), got
            except ApiError as error:
                assert error.code in (400, 422) and (
                    "divvy writes it" in str(error)
                    or value[:20] in str(error)
                    or "must be" in str(error)
                    or "quantit" in str(error)
                ), error
    all_serve()


def huge_names_and_volumes_do_no_harm():
    """Of a pod for divvy's scheduler. (With a few thousand, a patch takes this server longer than its own time limit.)"""
    name = name_of("wide")
    cluster.create(
        pods(),
        pod(
            name,
            labels={f"k{i}": "v" * 63 for i in range(1000)},
            schedulerName="divvy-scheduler",
            tolerations=[{"key": f"t{i}", "operator": "Exists"} for i in range(100)],
            volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(100)],
            nodeSelector={f"s{i}": "v" for i in range(100)},
        ),
    )
    rig.waits(name, "0/1 nodes: 1 ")
    gone(pods(name))
    value = "½" * 10 if cluster.minor < 25 else "v" * 63  # newer servers refuse selectors that match no label
    terms = [
        {
            "labelSelector": {"matchExpressions": [{"key": f"k{i}", "operator": "In", "values": [value]}]},
            "topologyKey": "kubernetes.io/hostname",
        }
        for i in range(1000)
    ]
    cluster.create(
        pods(),
        pod(
            name,
            {"divvy.gpu/request": "0.1"},
            affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        ),
    )
    rig.waits(name, "affinity")
    gone(pods(name))
    all_serve()


def assigned_keys_written_by_a_user_have_no_effect():
    """Assigned keys, which only the scheduler writes, added to a pod later: they have no effect."""
    name = name_of("thief")
    cluster.create(pods(), pod(name, nodeName="n1"))
    keys = {"devices": "GPU-n1-0,GPU-n1-1", "granted-request": "1", "granted-limit": "1", "granted-memory": "16Gi,16Gi"}
    cluster.patch(
        pods(name),
        {
            "metadata": {
                "annotations": {
                    **{f"divvy.gpu/{k}": f"c0={v}" for k, v in keys.items()},
                    "divvy.gpu/epoch": "99",
                    "divvy.gpu/request": "1",
                }
            }
        },
    )
    whole = name_of("whole")
    cluster.create(pods(), pod(whole, {"divvy.gpu/request": "2"}))
    rig.bound(whole)
    gone(pods(whole), pods(name))
    # Keys that a user adds later do not count, whether or not the user has set divvy's label.
    late, own = name_of("late"), name_of("late")
    for one, labels in ((late, {}), (own, {"divvy.gpu/tenant": "true"})):
        cluster.create(pods(), pod(one, labels=labels, schedulerName="divvy-scheduler", nodeSelector={"no": "where"}))
    cluster.patch(pods(late), {"metadata": {"annotations": {"divvy.gpu/request": "1"}}})
    rig.waits(late, "label divvy.gpu/tenant=true is missing")
    refused(
        cluster.patch,
        pods(own),
        {"metadata": {"annotations": {"divvy.gpu/request": "1"}}},
        says=("cannot request a share after",),
    )
    gone(pods(late), pods(own))
    all_serve()


def malformed_assigned_keys_do_no_harm():
    """Written by the scheduler's own account, as a broken scheduler might: the next scheduler reads them."""
    scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
    good = {"devices": "c0=GPU-n1-0", "granted-request": "c0=0.1", "granted-limit": "c0=1", "granted-memory": "c0=1Gi"}
    for key, value in (
        ("devices", "c0=" + "GPU-n1-0," * 10000),
        ("devices", "½=½"),
        ("granted-request", "c0=" + "9" * 1000),
        ("granted-memory", "c0=1Ei"),
        ("granted-memory", "c0=-1"),
        ("epoch", "-1"),
        ("epoch", "9" * 40),
        ("granted-group", "g=" + "9" * 30),
        ("devices", "c0=\u0000"),
        ("granted-limit", "=" * 10000),
    ):
        name = name_of("given")
        cluster.create(pods(), pod(name, {"divvy.gpu/request": "0.1"}, nodeSelector={"no": "where"}))
        keys = {f"divvy.gpu/{k}": v for k, v in {**good, "epoch": "1", key: value}.items()}
        scheduler.create(
            pods(name) + "/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "annotations": keys},
                "target": {"kind": "Node", "name": "n1"},
            },
        )
        gone(pods(name))
    all_serve()


# ---- SharePods


def deep(levels, kind):
    inner = "1"
    for _ in range(levels):
        inner = f"[{inner}]" if kind == "list" else f'{{"a":{inner}}}'
    return inner


def templates_that_no_pod_can_have_are_stored():
    """A template is stored unchanged, whatever its content: only its pod can be refused.

    (Kubernetes 1.20 takes longer than its own time limit for twenty nested objects, without divvy.)"""
    whole = json.dumps(
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "SharePod",
            "metadata": {"name": "NAME"},
            "spec": {
                "request": "0.1",
                "template": {"spec": {"containers": [{"name": "main", "image": "none"}], "odd": "ODD"}},
            },
        }
    )
    for odd in (
        "1e20",
        "-1e300",
        "123456789012345678901234567890",
        "9223372036854775808",
        '"\\u0000"',
        '"\\ud800"',
        '{"\\u0000":1}',
        deep(500, "list"),
        deep(3000, "list"),
        deep(8, "object"),
        json.dumps("½" * 100000),
        json.dumps(["x"] * 50000),
        "null",
    ):
        name = name_of("odd")
        try:
            cluster.create(share_pods(), whole.replace('"ODD"', odd).replace("NAME", name))
        except ApiError as error:
            assert error.code in (400, 422, 500), f"{odd[:80]}: {error}"
            continue
        all_serve()
        gone(share_pods(name), pods(name))
    all_serve()


def templates_with_requests_of_their_own_are_refused():
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    for metadata, spec, says in (
        ({"annotations": {"divvy.gpu/devices": "main=GPU-n1-0"}}, {}, ("only divvy's scheduler",)),
        ({"annotations": {"divvy.gpu/request": "1"}}, {}, ("request",)),
        ({"annotations": {"divvy.gpu/granted-limit": "main=1"}}, {}, ("only divvy's scheduler",)),
        ({}, {"nodeName": "n1"}, ("nodeName",)),
        ({}, {"containers": [{"name": f"c{i}", "image": "none"} for i in range(256)]}, ()),
        (
            {},
            {"containers": [{"name": "main", "image": "none", "resources": {"limits": {"divvy.gpu/slot": "9"}}}]},
            ("divvy writes it",),
        ),
        ({"labels": {"divvy.gpu/tenant": "false"}}, {}, ()),
        ({"namespace": SYSTEM, "name": "other"}, {}, ()),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}], "finalizers": ["a/b"]},
            {},
            (),
        ),
    ):
        name = name_of("more")
        body = {
            "apiVersion": "divvy.gpu/v1",
            "kind": "SharePod",
            "metadata": {"name": name},
            "spec": {"request": "0.1", "template": {"metadata": metadata, "spec": {**template["spec"], **spec}}},
        }
        if says:
            refused(cluster.create, share_pods(), body, says=says)
            continue
        try:
            cluster.create(share_pods(), body)
        except ApiError as error:
            assert error.code in (400, 403, 422), error
            continue
        all_serve()
        assert not cluster.exists(f"/api/v1/namespaces/{SYSTEM}/pods/other")
        gone(share_pods(name), pods(name))
    text = refused(
        cluster.create,
        share_pods(),
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "SharePod",
            "metadata": {"name": "large", "annotations": {"a": MIB}},
            "spec": {"request": "0.1", "template": template},
        },
        says=("annotations",),
    )
    assert "Too long" in text or "must have at most" in text, text
    all_serve()


def malformed_kubeshare_objects_do_no_harm():
    """Their definition keeps every field."""
    cluster.kubectl("apply", "--server-side", "-k", os.path.join(SOURCE, "deploy/kubeshare"))
    wait_for(lambda: cluster.exists("/apis/kubeshare.nthu/v1/sharepods"), "KubeShare's SharePods are served", 60)
    cluster.patch(
        f"/api/v1/namespaces/{cluster.namespace}", {"metadata": {"annotations": {"divvy.gpu/dialects": "kubeshare"}}}
    )
    good = {"containers": [{"name": "c", "image": "none"}]}
    for annotations, spec, status in (
        ({"kubeshare/gpu_request": "½"}, good, None),
        ({"kubeshare/gpu_request": "0.5", "kubeshare/gpu_mem": "9" * 100}, good, None),
        ({"kubeshare/gpu_request": "0.5", "kubeshare/GPUID": "x" * 5000}, good, None),
        ({}, "none", None),
        ({}, [], None),
        ({}, {"containers": "none"}, None),
        ({}, {"containers": [{}] * 3000}, None),
        ({}, {"containers": [[[[]]]]}, None),
        ({}, {"containers": [{"name": ["c"]}], "nodeName": {"a": 1}}, None),
        ({"kubeshare/gpu_request": "0.1"}, good, "text"),
        (
            {"kubeshare/gpu_request": "0.1"},
            good,
            {"PodStatus": [1], "BoundDeviceID": {"a": 1e20}, "PodManagerPort": "x"},
        ),
    ):
        name = name_of("theirs")
        body = {
            "apiVersion": "kubeshare.nthu/v1",
            "kind": "SharePod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": spec,
            **({"status": status} if status else {}),
        }
        try:
            cluster.create(share_pods(group="kubeshare.nthu"), body)
        except ApiError as error:
            assert error.code in (400, 422) and len(str(error)) < 4096, error
            continue
        all_serve()
        gone(share_pods(name, "kubeshare.nthu"), pods(name))
    cluster.patch(
        f"/api/v1/namespaces/{cluster.namespace}", {"metadata": {"annotations": {"divvy.gpu/dialects": None}}}
    )
    all_serve()


# ---- objects that other programs write


def malformed_gpunodes_do_no_harm():
    """A daemon's account writes nonsense: the schema rejects some of it; the rest affects that node alone."""
    uuid = "GPU-n2-0"
    rig.node("n2", "A100")
    device = {"uuid": uuid, "index": 0, "model": "A100", "memoryBytes": 16 << 30, "health": "Healthy", "owner": "divvy"}
    tenant = {
        "podUID": "u",
        "namespace": "a",
        "pod": "p",
        "container": "main",
        "slot": "s-0",
        "devices": [uuid],
        "request": 300,
        "limit": 600,
        "memoryBytes": [1],
        "epoch": 7,
    }
    path = f"{GPU}/gpunodes/n2"
    for status in (
        {"devices": [device] * 64},
        {"devices": [{**device, "uuid": "x"}]},
        {"devices": [{**device, "uuid": "GPU-n1-0"}]},
        {"devices": [{**device, "memoryBytes": (1 << 63) - 1}] * 2},
        {"devices": [{**device, "model": "½" * 80}]},
        {"devices": [{**device, "links": [{"uuid": "GPU-x", "kind": "nvlink"}] * 1000}]},
        {"tenants": [tenant] * 4000},
        {"tenants": [{**tenant, "devices": ["GPU-n1-0"] * 16, "memoryBytes": [1 << 62] * 16}]},
        {"slots": {"total": 0, "used": 8192}},
        {"epoch": (1 << 63) - 1},
        {"conditions": [{"type": "x" * 300, "status": "True"}]},
    ):
        try:
            cluster.patch(path + "/status", {"status": status})
        except ApiError as error:
            assert error.code == 422 and "status." in str(error), error
            continue
        all_serve()
    cluster.patch(
        "/api/v1/nodes/n2/status", {"status": {"allocatable": {"divvy.gpu/slot": "9223372036854775807"}}}, "strategic"
    )
    for measured in ("½", "x" * 100000, "u/main=" + "9" * 400 + ":1", "u/main=-1:-1", "\u0000"):
        cluster.patch(f"{NODE_LEASES}/n2", {"metadata": {"annotations": {"divvy.gpu/measured": measured}}})
    cluster.patch(
        f"{NODE_LEASES}/n2",
        {"spec": {"renewTime": "9999-12-31T23:59:59.999999Z", "leaseDurationSeconds": (1 << 31) - 1}},
    )
    all_serve()
    rig.remove_node("n2")
    all_serve()


def malformed_policies_and_groups_do_no_harm():
    for spec in (
        {"namespaceSelector": {"matchExpressions": [{"key": "½", "operator": "Exists"}]}},
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        {"namespaces": ["nobody"], "queue": {"name": "q", "parent": "q"}},
        {
            "namespaces": ["nobody"],
            "queue": {"name": "a", "parent": "nowhere", "guaranteedShare": 1000, "limitShare": 0},
        },
        {"namespaces": [f"n{i}" for i in range(5000)]},
        {"namespaces": ["nobody"], "models": ["x" * 63] * 300},
    ):
        name = name_of("policy")
        try:
            cluster.create(
                f"{GPU}/gpupolicies",
                {"apiVersion": "divvy.gpu/v1", "kind": "GPUPolicy", "metadata": {"name": name}, "spec": spec},
            )
        except ApiError as error:
            assert error.code == 422 and "spec." in str(error), error
            continue
        all_serve()
        gone(f"{GPU}/gpupolicies/{name}")
    for group, version in (("scheduling.x-k8s.io", "v1alpha1"), ("scheduling.volcano.sh", "v1beta1")):
        cluster.define(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": f"podgroups.{group}",
                    "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
                },
                "spec": {
                    "group": group,
                    "scope": "Namespaced",
                    "names": {"plural": "podgroups", "kind": "PodGroup"},
                    "versions": [
                        {
                            "name": version,
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            },
                        }
                    ],
                },
            }
        )
        path = f"/apis/{group}/{version}/namespaces/{cluster.namespace}/podgroups"
        wait_for(lambda p=path: cluster.exists(p), f"{group} is served", 60)
        for least in ("two", -1, 1e20, [[]], {"a": 1}, 1 << 62, 0.5, None, "½"):
            name = name_of("group")
            cluster.create(
                path,
                {
                    "apiVersion": f"{group}/{version}",
                    "kind": "PodGroup",
                    "metadata": {"name": name},
                    "spec": {"minMember": least},
                    "status": least,
                },
            )
        cluster.create(
            path, {"apiVersion": f"{group}/{version}", "kind": "PodGroup", "metadata": {"name": "none"}, "spec": "½"}
        )
        member = name_of("member")
        labels = {"scheduling.x-k8s.io/pod-group": "none"} if group == "scheduling.x-k8s.io" else {}
        keys = {} if labels else {"scheduling.k8s.io/group-name": "none"}
        cluster.create(pods(), pod(member, {"divvy.gpu/request": "0.1", **keys}, labels=labels))
        rig.bound(member)  # a PodGroup without a number makes no pod wait
        gone(pods(member))
        all_serve()


def a_malformed_namespace_affects_only_its_pods():
    """A list of dialects that is invalid: only pods of that namespace are refused, with a message."""
    space = cluster.new_namespace()
    cluster.patch(
        f"/api/v1/namespaces/{space}",
        {"metadata": {"annotations": {"divvy.gpu/dialects": "½," * 10000, "a": "\u0000"}}},
    )

    def told():
        try:
            cluster.create(f"/api/v1/namespaces/{space}/pods?dryRun=All", pod("p", {"divvy.gpu/request": "0.1"}))
        except ApiError as error:
            return "divvy.gpu/dialects" in str(error)
        return False

    wait_for(told, "the refusal of a pod names the faulty list")
    cluster.create(f"/api/v1/namespaces/{space}/pods?dryRun=All", pod("p"))
    all_serve()


def malformed_reviews_do_no_harm():
    """A client that reaches the webhook's port sends reviews that no API server would send."""
    for body in (
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff" * 1000,
        b"{" * 100000,
        b'{"a":' * 3000,
        MIB.encode(),
        json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "x"}}).encode(),
        json.dumps(
            {
                "kind": "AdmissionReview",
                "apiVersion": "admission.k8s.io/v1",
                "request": {"uid": "x", "operation": "CREATE", "namespace": 7, "object": {"metadata": [], "spec": 7}},
            }
        ).encode(),
        json.dumps(
            {
                "kind": "AdmissionReview",
                "apiVersion": "admission.k8s.io/v1",
                "request": {"uid": "½" * 5000, "userInfo": "x"},
            }
        ).encode(),
    ):
        for path in (
            "/mutate/pods",
            "/validate/pods",
            "/validate/templates",
            "/validate/objects",
            "/validate/gpunodes",
            "/validate/leases",
            "/nothing",
            "/../etc/passwd",
        ):
            status = controller.ask("POST", path, controller.port, body)[0]
            assert status in (200, 400, 404, 413), (path, body[:100], status)
    all_serve()


TESTS = [
    invalid_values_are_refused,
    huge_annotations_are_refused,
    pods_with_thousands_of_containers_do_no_harm,
    pods_with_fields_of_wrong_types_do_no_harm,
    huge_names_and_volumes_do_no_harm,
    assigned_keys_written_by_a_user_have_no_effect,
    malformed_assigned_keys_do_no_harm,
    templates_that_no_pod_can_have_are_stored,
    templates_with_requests_of_their_own_are_refused,
    malformed_kubeshare_objects_do_no_harm,
    malformed_gpunodes_do_no_harm,
    malformed_policies_and_groups_do_no_harm,
    a_malformed_namespace_affects_only_its_pods,
    malformed_reviews_do_no_harm,
]

try:
    with open_cluster("kcm") as cluster, installed(cluster) as controller, Scheduled(cluster) as rig:
        rig.start()
        rig.node("n1", "A100", "A100", **{"divvy.gpu/milli": "2000", "divvy.gpu/memory-mib": str(2 * 16384)})
        before = (cluster.pid("divvy-controller"), rig.processes[0].pid)
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
