#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/ applied to a real cluster: the objects that it makes, and the rights of its accounts."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import restricted  # noqa: E402
from cluster import ApiError, Skip, main, open_cluster, patience, skip_all, unique, wait_for  # noqa: E402
from manifests import DEPLOY, base, differences, index, load, overlay, pod_spec  # noqa: E402

SYSTEM, LEASES = "divvy-system", "divvy-node-lease"
GROUPS = {
    "Namespace": "/api/v1",
    "ServiceAccount": "/api/v1",
    "Service": "/api/v1",
    "Secret": "/api/v1",
    "ConfigMap": "/api/v1",
    "ResourceQuota": "/api/v1",
    "PriorityClass": "/apis/scheduling.k8s.io/v1",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1",
    "Deployment": "/apis/apps/v1",
    "DaemonSet": "/apis/apps/v1",
}
PLURALS = {"PriorityClass": "priorityclasses"}
SHARE_POD = {
    "apiVersion": "divvy.gpu/v1",
    "kind": "SharePod",
    "spec": {"request": 0.5, "template": {"spec": {"containers": [{"name": "c", "image": "none"}]}}},
}


def path_of(obj_key):
    kind, namespace, name = obj_key
    group = (
        f"/apis/{cluster.api_version(kind)}"
        if kind == "PodDisruptionBudget"
        else GROUPS.get(kind)
        or (
            "/apis/admissionregistration.k8s.io/v1"
            if kind.endswith("WebhookConfiguration")
            else "/apis/rbac.authorization.k8s.io/v1"
        )
    )
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{group}{where}/{PLURALS.get(kind, kind.lower() + 's')}/{name}"


def refused(code, call, *args, **kw):
    try:
        call(*args, **kw)
    except ApiError as error:
        assert error.code == code, error
        return str(error)
    raise AssertionError(f"not refused with {code}")


def bare_pod(name, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "none"}],
        },
    }


# ---- rendered manifests


def kustomize_renders_the_files_unchanged():
    assert not list(differences(base(), index(load(cluster.kubectl("kustomize", str(DEPLOY)))))), "deploy/"
    assert not list(differences(base(), index(load(cluster.kubectl("kustomize", str(DEPLOY / "base")))))), "base/"


def kustomize_warns_about_nothing():
    folders = sorted(p.parent for p in DEPLOY.rglob("kustomization.yaml"))
    assert DEPLOY / "overlays/extender" in folders, folders
    for path in folders:
        code, _, err = cluster.kubectl("kustomize", str(path), check=False)
        assert code == 0 and not err, (path, err)


def overlay_for_tests_differs_in_nothing_else():
    # Renders the repository's overlay, without the values that a test adds.
    made = index(load(cluster.kubectl("kustomize", str(DEPLOY / "overlays/test"))))
    shipped = base()
    found = {f"{k[2]}: {d}" for k in {*made, *shipped} for d in differences(shipped.get(k, {}), made.get(k, {}))}
    host, port = (
        "{'name': 'KUBERNETES_SERVICE_%s', 'value': '%s'}" % v for v in (("HOST", "127.0.0.1"), ("PORT", "6443"))
    )
    wanted = set()
    for name, container in (("divvy-scheduler", "scheduler"), ("divvy-controller", "controller"), ("divvyd", "divvyd")):
        wanted |= {
            f"{name}: spec.template.spec.hostNetwork: None != True",
            f"{name}: spec.template.spec.containers.{container}.env.KUBERNETES_SERVICE_HOST: None != {host}",
            f"{name}: spec.template.spec.containers.{container}.env.KUBERNETES_SERVICE_PORT: None != {port}",
        }
        if name != "divvyd":
            wanted.add(f"{name}: spec.replicas: 2 != 1")
    assert found == wanted, (found - wanted, wanted - found)


def overlay_for_claims_differs_in_nothing_else():
    made, shipped = index(load(cluster.kubectl("kustomize", str(DEPLOY / "overlays/dra")))), base()
    added = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        n = len(shipped[kind, "", "divvy"]["webhooks"])
        added += made[kind, "", "divvy"]["webhooks"][n:]
        made[kind, "", "divvy"]["webhooks"] = made[kind, "", "divvy"]["webhooks"][:n]
    names = ["claims.mutate.divvy.gpu", "claims.divvy.gpu", "claimtemplates.divvy.gpu", "deviceclasses.divvy.gpu"]
    assert [h["name"] for h in added] == names, added
    for hook in added:
        assert {g for r in hook["rules"] for g in r["apiGroups"]} == {"resource.k8s.io"} and hook["matchConditions"]
    classes = {("DeviceClass", f"{name}.divvy.gpu") for name in ("share", "gpu", "mig")}
    driver = {(kind, "divvyd-dra") for kind in ("DaemonSet", "ClusterRole", "ClusterRoleBinding")}
    driver |= {(f"ValidatingAdmissionPolicy{kind}", "divvyd-slices") for kind in ("", "Binding")}
    assert {(k[0], k[2]) for k in {*made} - {*shipped}} == classes | driver, made.keys()
    plugin, driver = pod_spec(shipped["DaemonSet", "divvy-system", "divvyd"]), pod_spec(
        made["DaemonSet", "divvy-system", "divvyd-dra"]
    )
    assert driver["containers"][0]["args"] == [*plugin["containers"][0]["args"], "--dra", "--rolling"], driver
    mount, changed = "containers.divvyd.volumeMounts.", [d.split(":")[0] for d in differences(plugin, driver)]
    assert changed.pop(0).startswith("affinity.nodeAffinity."), changed
    assert changed == [
        "containers.divvyd.args",
        mount + "plugin",
        mount + "plugins-registry",
        "volumes.plugin",
        "volumes.plugins-registry",
    ], changed
    role, deployment = (
        made["ClusterRole", "", "divvy-controller"],
        made["Deployment", "divvy-system", "divvy-controller"],
    )
    verbs = ["create", "list", "watch", "delete"]
    right = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaimtemplates"], "verbs": verbs}
    assert role["rules"].pop() == right and pod_spec(deployment)["containers"][0]["args"].pop() == "--claims"
    found = [f"{k[2]}: {d}" for k in shipped for d in differences(shipped[k], made[k])]
    assert not found, found


def overlay_for_the_extender_differs_in_nothing_else():
    made = index(load(cluster.kubectl("kustomize", str(DEPLOY / "overlays/extender"))))
    shipped = base()
    found = {f"{k[2]}: {d}" for k in {*made, *shipped} for d in differences(shipped.get(k, {}), made.get(k, {}))}
    added = {
        n: pod_spec(made["Deployment", "divvy-system", n])["containers"][0]["args"][
            len(pod_spec(base()["Deployment", "divvy-system", n])["containers"][0]["args"]) :
        ]
        for n in ("divvy-scheduler", "divvy-controller")
    }
    folder = "/etc/divvy/extender"
    assert added == {
        "divvy-scheduler": [
            f"--tls-cert={folder}/tls.crt",
            f"--tls-key={folder}/tls.key",
            f"--client-ca={folder}/ca.crt",
        ],
        "divvy-controller": ["--scheduler-name=default-scheduler"],
    }, added
    assert {d.split(": ")[0] + ": " + d.split(": ")[1] for d in found} == {
        "divvy-controller: spec.template.spec.containers.controller.args",
        "divvy-scheduler: spec.replicas",
        "divvy-scheduler: spec.template.spec.containers.scheduler.args",
        "divvy-scheduler: spec.template.spec.containers.scheduler.volumeMounts.extender",
        "divvy-scheduler: spec.template.spec.volumes.extender",
    }, found


# ---- applied manifests


def versions():
    return {
        k: cluster.get(path_of(k))["metadata"]["resourceVersion"]
        for k in base()
        if k[0] not in ("Deployment", "DaemonSet", "ResourceQuota", "Secret", "ConfigMap")
    }


def generations():
    """The server counts changes of an object's spec."""
    return {k: cluster.get(path_of(k))["metadata"].get("generation") for k in base()}


def specs():
    return {k: cluster.get(path_of(k))["spec"] for k in base() if k[0] in ("Deployment", "DaemonSet")}


def apply(*more):
    return cluster.kubectl("apply", *more, "-k", str(folder), timeout=patience(120))


def deploy_applies_to_an_empty_cluster():
    """In one go: definitions, namespaces and their objects."""
    apply("--server-side")
    for obj_key in base():
        assert cluster.exists(path_of(obj_key)), obj_key
    for name in ("sharepods", "gpunodes", "gpupolicies"):
        wait_for(lambda n=name: cluster.exists(f"/apis/divvy.gpu/v1/{n}"), f"{name} are served")
    # The server stores our fields with the values of the files.
    for obj_key, obj in base().items():
        if obj_key[0].endswith("WebhookConfiguration"):
            got = cluster.get(path_of(obj_key))
            for hook, there in zip(obj["webhooks"], got["webhooks"]):
                assert there["failurePolicy"] == hook["failurePolicy"], there
                assert there["rules"] == hook["rules"], there


@contextlib.contextmanager
def bundle():
    """Sets the webhooks' authority, as the controller does."""
    patched = []
    for obj_key in base():
        if obj_key[0].endswith("WebhookConfiguration"):
            hooks = [{"name": h["name"], "clientConfig": {"caBundle": PEM}} for h in base()[obj_key]["webhooks"]]
            cluster.patch(path_of(obj_key) + "?fieldManager=divvy-controller", {"webhooks": hooks}, "strategic")
            patched.append(obj_key)
    yield
    for obj_key in patched:
        for hook in cluster.get(path_of(obj_key))["webhooks"]:
            assert hook["clientConfig"]["caBundle"] == PEM, f"{obj_key}: {hook['name']} has lost its caBundle"


PEM = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"


def a_second_apply_changes_nothing():
    before, spec = versions(), specs()
    apply("--server-side")
    assert versions() == before, {k for k in before if versions()[k] != before[k]}
    assert specs() == spec


def fields_that_the_controller_fills_in_stay():
    secret = path_of(("Secret", SYSTEM, "divvy-controller-tls"))
    authority = [path_of((kind, SYSTEM, "divvy-remote-authority")) for kind in ("Secret", "ConfigMap")]
    with bundle():
        cluster.patch(secret, {"stringData": {"tls.crt": "mine"}})
        cluster.patch(authority[0], {"stringData": {"ca.crt": "mine"}})
        cluster.patch(authority[1], {"data": {"ca.crt": "mine"}})
        apply("--server-side")
    for path in (secret, *authority):
        assert cluster.get(path)["data"], f"{path} has lost its certificate"


def client_side_apply_does_the_same():
    """Client-side apply is kubectl's default. Here it follows a server-side apply, as people mix both."""
    before = specs()
    secret = path_of(("Secret", SYSTEM, "divvy-controller-tls"))
    with bundle():
        apply()
        objects = generations()
        again = [line for line in apply().splitlines() if line.strip()]
    # kubectl replaces the whole selector of a PodDisruptionBudget of policy/v1, with the same one.
    changed = [line for line in again if not line.endswith(" unchanged")]
    assert again and all(line.startswith("poddisruptionbudget.policy/") for line in changed), changed
    assert generations() == objects
    assert cluster.get(secret)["data"]
    for kind in ("Secret", "ConfigMap"):
        assert cluster.get(path_of((kind, SYSTEM, "divvy-remote-authority")))["data"]
    assert specs() == before, list(differences(*({str(k): v for k, v in s.items()} for s in (before, specs()))))


# ---- rights

G, C, N = "divvy.gpu", "coordination.k8s.io", {"namespace": "elsewhere"}
POD_GROUPS = ["scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io", "scheduling.volcano.sh"]
GANGS = [(g, "podgroups") for g in POD_GROUPS] + [("jobset.x-k8s.io", "jobsets"), ("ray.io", "rayclusters")]
STORAGE, ADMISSION = {"group": "storage.k8s.io"}, {"group": "admissionregistration.k8s.io", "name": "divvy"}
STORAGE_KINDS = ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments")
DEVICES = {"group": "resource.k8s.io"}
READ, CSR = "get list watch", {"group": "certificates.k8s.io"}
EVERYBODY = [
    ("create patch", "events", N),
    ("create patch", "events", {"group": "events.k8s.io", **N}),
    ("create", "tokenreviews", {"group": "authentication.k8s.io"}),
    ("create", "subjectaccessreviews", {"group": "authorization.k8s.io"}),
]
# (verbs, resource/subresource, {group, namespace, name}): all rights that the manifests give
MUST = {
    "divvy-scheduler": [
        *EVERYBODY,
        *((READ, r, {}) for r in ("pods", "nodes", "namespaces", "services", "replicationcontrollers")),
        ("create", "pods/binding", N),
        ("patch", "pods/status", N),
        ("create", "pods/eviction", N),
        (READ, "poddisruptionbudgets", {"group": "policy"}),
        *((READ, r, {"group": "apps"}) for r in ("replicasets", "statefulsets")),
        *((READ, r, STORAGE) for r in STORAGE_KINDS),
        *((READ + " patch", r, {}) for r in ("persistentvolumes", "persistentvolumeclaims")),
        *((READ, r, DEVICES) for r in ("resourceslices", "deviceclasses", "devicetaintrules")),
        (READ + " patch", "resourceclaims", DEVICES),
        *(("patch", f"resourceclaims/{part}", DEVICES) for part in ("status", "binding")),
        *((READ, resource, {"group": group}) for group, resource in GANGS),
        *((READ, r, {"group": G}) for r in ("gpunodes", "gpupolicies")),
        ("patch", "gpupolicies/status", {"group": G}),
        ("create", "leases", {"group": C, "namespace": SYSTEM}),
        ("get patch update", "leases", {"group": C, "namespace": SYSTEM, "name": "divvy-scheduler"}),
        (READ, "leases", {"group": C, "namespace": LEASES}),
    ],
    "divvy-controller": [
        *EVERYBODY,
        (READ, "sharepods", {"group": G}),
        ("patch", "sharepods/status", {"group": G, **N}),
        ("update", "sharepods/finalizers", {"group": G, **N}),
        (READ + " patch", "sharepods", {"group": "kubeshare.nthu"}),
        ("patch", "sharepods/status", {"group": "kubeshare.nthu", **N}),
        ("update", "sharepods/finalizers", {"group": "kubeshare.nthu", **N}),
        (READ + " create patch delete", "pods", N),
        ("create", "pods/eviction", N),
        (READ, "nodes", {}),
        ("patch", "nodes/status", {}),
        (READ, "namespaces", {}),
        ("patch", "namespaces", {"name": "kube-system"}),
        (READ + " create", "gpunodes", {"group": G}),
        (READ, "gpupolicies", {"group": G}),
        (READ + " patch", "mutatingwebhookconfigurations", ADMISSION),
        (READ + " patch", "validatingwebhookconfigurations", ADMISSION),
        (
            READ + " patch",
            "apiservices",
            {"group": "apiregistration.k8s.io", "name": "v1beta1.external.metrics.k8s.io"},
        ),
        (READ, "configmaps", {"namespace": "kube-system", "name": "extension-apiserver-authentication"}),
        (READ + " patch", "secrets", {"namespace": SYSTEM, "name": "divvy-controller-tls"}),
        *(
            (READ + " patch", r, {"namespace": SYSTEM, "name": "divvy-remote-authority"})
            for r in ("secrets", "configmaps")
        ),
        (READ + " delete", "certificatesigningrequests", CSR),
        *(("patch", f"certificatesigningrequests/{s}", CSR) for s in ("approval", "status")),
        ("approve sign", "signers", {**CSR, "name": "divvy.gpu/remote"}),
        ("create", "leases", {"group": C, "namespace": SYSTEM}),
        ("get patch update", "leases", {"group": C, "namespace": SYSTEM, "name": "divvy-controller"}),
        (READ, "leases", {"group": C, "namespace": LEASES}),
    ],
    "divvyd": [
        *EVERYBODY,
        (READ, "pods", {}),
        ("get", "namespaces", {"name": "a"}),
        (READ, "gpunodes", {"group": G}),
        (READ, "gpupolicies", {"group": G}),
        ("patch", "gpunodes/status", {"group": G, "name": "node1"}),
        ("create get patch update", "leases", {"group": C, "namespace": LEASES, "name": "node1"}),
        ("create get", "certificatesigningrequests", {**CSR, "name": "a"}),
        (READ, "configmaps", {"namespace": SYSTEM, "name": "divvy-remote-authority"}),
        ("list", "resourceslices", {"group": "resource.k8s.io"}),
    ],
}
ALL = "get list watch create update patch delete deletecollection"
WRITE = "create update patch delete deletecollection"
NOBODY = [  # rights that no account of divvy has
    (ALL, "secrets", N),
    (ALL, "secrets", {"namespace": "kube-system"}),
    (ALL, "configmaps", N),
    ("create", "pods/exec", N),
    ("create get", "pods/attach", N),
    ("create", "serviceaccounts/token", N),
    (WRITE, "clusterroles", {"group": "rbac.authorization.k8s.io"}),
    (WRITE, "rolebindings", {"group": "rbac.authorization.k8s.io", **N}),
    ("impersonate", "users", {}),
    (WRITE, "nodes", {}),
    ("create get", "nodes/proxy", {}),
    (WRITE, "customresourcedefinitions", {"group": "apiextensions.k8s.io"}),
    (WRITE, "gpupolicies", {"group": G}),
    ("create update patch delete", "deployments", {"group": "apps", **N}),
    ("update patch deletecollection", "certificatesigningrequests", CSR),
    ("update", "certificatesigningrequests/approval", CSR),
    *(
        ("approve sign", "signers", {**CSR, "name": s})
        for s in ("kubernetes.io/kube-apiserver-client", "divvy.gpu/another")
    ),
    ("update patch", "mutatingwebhookconfigurations", {"group": "admissionregistration.k8s.io", "name": "another"}),
    (WRITE, "leases", {"group": C, "namespace": "kube-node-lease"}),
    ("delete update", "persistentvolumeclaims", N),
]
MUST_NOT = {
    "divvy-scheduler": [
        ("create update patch delete", "pods", N),
        (WRITE, "gpunodes", {"group": G}),
        ("patch update", "gpunodes/status", {"group": G}),
        (ALL, "sharepods", {"group": G}),
        (ALL, "secrets", {"namespace": SYSTEM}),
        (WRITE, "leases", {"group": C, "namespace": LEASES}),
        ("patch update", "leases", {"group": C, "namespace": SYSTEM, "name": "divvy-controller"}),
        ("patch", "nodes/status", {}),
        (ALL, "certificatesigningrequests", CSR),
        ("get", "configmaps", {"namespace": SYSTEM, "name": "divvy-remote-authority"}),
    ],
    "divvy-controller": [
        ("create", "pods/binding", N),
        ("update patch", "pods/status", N),
        ("update", "pods", N),
        ("update patch", "gpunodes/status", {"group": G}),
        ("update patch delete", "gpunodes", {"group": G}),
        ("update patch", "gpupolicies/status", {"group": G}),
        ("create delete update patch", "sharepods", {"group": G, **N}),
        ("patch update", "namespaces", {"name": "default"}),
        ("get", "secrets", {"namespace": SYSTEM, "name": "another"}),
        ("create delete", "secrets", {"namespace": SYSTEM}),
        ("create", "certificatesigningrequests", CSR),
        ("get", "configmaps", {"namespace": SYSTEM, "name": "another"}),
        ("get patch", "apiservices", {"group": "apiregistration.k8s.io", "name": "v1beta1.metrics.k8s.io"}),
        ("create delete update", "apiservices", {"group": "apiregistration.k8s.io"}),
        ("get", "configmaps", {"namespace": "kube-system", "name": "another"}),
        ("patch", "leases", {"group": C, "namespace": SYSTEM, "name": "divvy-scheduler"}),
        (WRITE, "leases", {"group": C, "namespace": LEASES}),
    ],
    "divvyd": [
        (WRITE, "pods", N),
        ("create", "pods/binding", N),
        ("patch update", "pods/status", N),
        ("create", "pods/eviction", N),
        (WRITE, "gpunodes", {"group": G}),
        ("update", "gpunodes/status", {"group": G}),
        (ALL, "sharepods", {"group": G, **N}),
        (ALL, "secrets", {"namespace": SYSTEM}),
        (ALL, "leases", {"group": C, "namespace": SYSTEM}),
        ("list watch", "namespaces", {}),
        ("get list patch", "nodes", {"name": "node1"}),
        ("delete", "leases", {"group": C, "namespace": LEASES}),
        ("list", "leases", {"group": C, "namespace": LEASES}),
        ("list watch delete", "certificatesigningrequests", CSR),
        ("patch update", "certificatesigningrequests/approval", CSR),
        ("patch update", "certificatesigningrequests/status", CSR),
        ("approve sign", "signers", {**CSR, "name": "divvy.gpu/remote"}),
        ("patch update create delete", "configmaps", {"namespace": SYSTEM, "name": "divvy-remote-authority"}),
        ("get", "configmaps", {"namespace": SYSTEM, "name": "another"}),
    ],
}


def check_reviews(who, rows, allowed, name):
    for verbs, resource, where in rows:
        resource, _, subresource = resource.partition("/")
        for verb in verbs.split():
            if verb == "create" and not subresource:
                where = {k: v for k, v in where.items() if k != "name"}
            got = who.may(verb, resource, subresource=subresource, **where)
            assert got is allowed, f"{name} {'may not' if allowed else 'may'} {verb} {resource}/{subresource} {where}"


def accounts():
    return {name: cluster.service_account(SYSTEM, name) for name in MUST}


def each_account_has_the_rights_that_it_needs():
    for name, who in accounts().items():
        check_reviews(who, MUST[name], True, name)


def each_account_lacks_the_rights_that_it_must_not_have():
    for name, who in accounts().items():
        check_reviews(who, NOBODY + MUST_NOT[name], False, name)


def no_account_has_an_unlisted_right():
    """A right that neither list names is too much."""
    for name, rows in MUST.items():
        asked = {(where.get("group", ""), resource, verb) for verbs, resource, where in rows for verb in verbs.split()}
        given = {
            (group, resource, verb)
            for obj in base().values()
            if obj["kind"] in ("Role", "ClusterRole") and obj["metadata"]["name"] == name
            for rule in obj["rules"]
            for group in rule.get("apiGroups", [])
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert given == asked, (name, given ^ asked)


def the_scheduler_writes_bindings_and_status_only():
    """The contract relies on this: annotations come with a Binding, and later through the status subresource."""
    without_webhooks()
    scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
    node = unique("node")
    # No pod of the manifests may come to this node, on which none could end.
    cluster.create("/api/v1/nodes", {"metadata": {"name": node}, "spec": {"unschedulable": True}})
    path = f"/api/v1/namespaces/{cluster.namespace}/pods"
    cluster.create(path, bare_pod("tenant", annotations={"divvy.gpu/request": "0.3"}))
    scheduler.create(
        path + "/tenant/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "tenant", "annotations": {"divvy.gpu/devices": "c=GPU-1", "divvy.gpu/epoch": "1"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        },
    )
    got = scheduler.patch(
        path + "/tenant/status",
        {
            "metadata": {"annotations": {"divvy.gpu/granted-limit": "c=600", "divvy.gpu/epoch": "2"}},
            "status": {"conditions": [{"type": "divvy.gpu/Granted", "status": "True", "reason": "Granted"}]},
        },
        "strategic",
    )
    annotations = {k: v for k, v in got["metadata"]["annotations"].items() if "divvy.gpu" in k}
    assert annotations == {
        "divvy.gpu/request": "0.3",
        "divvy.gpu/devices": "c=GPU-1",
        "divvy.gpu/epoch": "2",
        "divvy.gpu/granted-limit": "c=600",
    }, annotations
    assert got["spec"]["nodeName"] == node
    assert any(c["type"] == "divvy.gpu/Granted" for c in got["status"]["conditions"])
    # The status subresource does not change the spec, and no other path is open.
    got = scheduler.patch(
        path + "/tenant/status", {"spec": {"containers": [{"name": "c", "image": "another"}]}}, "strategic"
    )
    assert got["spec"]["containers"][0]["image"] == "none"
    refused(403, scheduler.patch, path + "/tenant", {"metadata": {"annotations": {"a": "b"}}})
    refused(403, scheduler.delete, path + "/tenant")
    scheduler.create(
        path + "/tenant/eviction",
        {
            "apiVersion": cluster.api_version("Eviction"),
            "kind": "Eviction",
            "metadata": {"name": "tenant"},
            "deleteOptions": {"gracePeriodSeconds": 0},
        },
    )


def a_token_names_its_pod():
    """The webhook learns a daemon's node from the pod in its token: Kubernetes adds the pod to bound tokens."""
    without_webhooks()
    pods = f"/api/v1/namespaces/{SYSTEM}/pods"
    node = unique("node")
    daemon = bare_pod(unique("divvyd"))
    daemon["spec"] |= {"serviceAccountName": "divvyd", "nodeName": node}
    made = cluster.create(pods, daemon)
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    answer = cluster.create(
        f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/divvyd/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": 3607,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
            },
        },
    )
    token = answer["status"]["token"]

    def user():
        return cluster.create(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}},
        )["status"]

    said = user()
    assert said["user"]["username"] == f"system:serviceaccount:{SYSTEM}:divvyd", said
    assert said["user"]["extra"]["authentication.kubernetes.io/pod-name"] == [name], said
    assert said["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [uid], said
    # The token becomes invalid when its pod is deleted.
    cluster.delete(f"{pods}/{name}", grace_s=0)
    wait_for(lambda: not user().get("authenticated"), "the token of a pod that is gone is refused")


@contextlib.contextmanager
def namespace_user(role):
    """A user with one of the cluster's own roles in our namespace."""
    name = unique(role)
    cluster.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{cluster.namespace}/rolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}],
        },
    )
    yield cluster.service_account(cluster.namespace, name)


def a_namespaces_users_may_use_sharepods():
    """The cluster's own roles give the same rights to SharePods as to pods, and none in other namespaces."""
    without_webhooks()
    path = f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods"
    here = {"namespace": cluster.namespace}
    with namespace_user("edit") as editor, namespace_user("view") as viewer:
        wait_for(lambda: editor.may("create", "sharepods", group=G, **here), "divvy-edit joins edit")
        wait_for(lambda: viewer.may("list", "sharepods", group=G, **here), "divvy-view joins view")
        editor.create(path, {**SHARE_POD, "metadata": {"name": "mine"}})
        assert viewer.get(path + "/mine")["spec"]["request"] == 0.5
        refused(403, viewer.patch, path + "/mine", {"spec": {"limit": 0.7}})
        refused(403, editor.patch, path + "/mine/status", {"status": {"phase": "Running"}})
        for who in (editor, viewer):
            check_reviews(
                who,
                [
                    ("get list", "gpunodes", {"group": G}),
                    ("get list", "gpupolicies", {"group": G}),
                    ("patch update", "pods/status", here),
                    ("create", "pods/binding", here),
                    ("create", "bindings", here),
                    ("patch", "namespaces", {"name": cluster.namespace}),
                    ("get list", "sharepods", {"group": G, "namespace": "default"}),
                    ("get list", "leases", {"group": C, "namespace": LEASES}),
                    ("patch", "gpunodes/status", {"group": G}),
                ],
                False,
                "a namespace's user",
            )
        editor.delete(path + "/mine")


def an_operator_runs_nodes_and_policies():
    who = cluster.service_account(cluster.namespace, "operator")
    name = unique("operator")
    cluster.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "divvy-operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": cluster.namespace}],
        },
    )
    cluster.forget_later(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}")
    wait_for(lambda: who.may("create", "gpunodes", group=G), "the binding is known")
    check_reviews(
        who,
        [
            ("create delete patch update list watch", "gpunodes", {"group": G}),
            ("create delete patch update", "gpupolicies", {"group": G}),
            ("list", "sharepods", {"group": G, **N}),
        ],
        True,
        "operator",
    )
    check_reviews(who, [("create", "pods/eviction", N)], True, "operator")
    check_reviews(
        who,
        [
            ("patch update", "gpunodes/status", {"group": G}),
            ("patch", "gpupolicies/status", {"group": G}),
            ("get", "secrets", {"namespace": SYSTEM}),
            ("patch delete create", "pods", N),
        ],
        False,
        "operator",
    )


def a_viewer_reads_the_same_objects_as_the_scheduler():
    """A viewer reads nothing beyond the scheduler's objects, and only the Leases of nodes."""
    who = cluster.service_account(cluster.namespace, "viewer")
    name = unique("viewer")
    subjects = [{"kind": "ServiceAccount", "name": "viewer", "namespace": cluster.namespace}]
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    cluster.create(
        path,
        {
            "metadata": {"name": name},
            "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "divvy-viewer"},
        },
    )
    cluster.forget_later(f"{path}/{name}")
    cluster.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{LEASES}/rolebindings",
        {
            "metadata": {"name": name},
            "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "divvy-viewer"},
        },
    )
    there = {"namespace": LEASES}
    wait_for(
        lambda: who.may("get", "gpunodes", group=G) and who.may("list", "leases", group=C, **there),
        "the bindings are known",
    )
    check_reviews(
        who,
        [("get list watch", r, {"group": G}) for r in ("gpunodes", "gpupolicies")]
        + [
            ("get list watch", r, {})
            for r in ("pods", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims")
        ]
        + [("list", resource, STORAGE) for resource in STORAGE_KINDS]
        + [("list", resource, {"group": group}) for group, resource in GANGS]
        + [("list", r, DEVICES) for r in ("resourceslices", "deviceclasses", "devicetaintrules", "resourceclaims")]
        + [("list", "leases", {"group": C, **there})],
        True,
        "viewer",
    )
    check_reviews(
        who,
        [
            ("list", "leases", {"group": C, "namespace": SYSTEM}),
            ("patch", "leases", {"group": C, **there}),
            ("get list", "secrets", N),
            ("get list", "configmaps", N),
            ("patch", "gpunodes", {"group": G}),
            ("create", "pods/eviction", N),
            ("create", "pods", N),
        ],
        False,
        "viewer",
    )


# ---- while the webhook does not answer


def with_webhooks():
    apply("--server-side", "--force-conflicts")


def without_webhooks():
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        cluster.delete(path_of((kind, "", "divvy")))


def eventually_refused(call):
    """Retries, since the server learns of webhooks by a watch."""

    def so():
        try:
            call()
            return False
        except ApiError as error:
            return error.code == 500 and "webhook" in str(error) and str(error)

    return wait_for(so, "the webhook is asked")


def without_the_controller_only_risky_writes_are_refused():
    without_webhooks()
    pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
    cluster.create(pods, bare_pod("tenant2", labels={"divvy.gpu/tenant": "true"}))
    cluster.create(pods, bare_pod("other"))
    cluster.create(
        "/apis/divvy.gpu/v1/gpunodes", {"apiVersion": "divvy.gpu/v1", "kind": "GPUNode", "metadata": {"name": "n1"}}
    )
    with_webhooks()
    text = eventually_refused(lambda: cluster.create(pods + "?dryRun=All", bare_pod("new")))
    assert "pods.mutate.divvy.gpu" in text, text
    # These writes would bypass divvy, or could not be undone, so the API server refuses them.
    node_status = ("/apis/divvy.gpu/v1/gpunodes/n1/status", {"status": {"epoch": 1}})
    assert "gpunodes.divvy.gpu" in eventually_refused(lambda: cluster.patch(*node_status))
    given = {"metadata": {"annotations": {"divvy.gpu/devices": "c=GPU-1"}}}
    assert "pods.update.divvy.gpu" in eventually_refused(lambda: cluster.patch(pods + "/tenant2", given))
    off = {"metadata": {"labels": {"divvy.gpu/tenant": None}}}
    assert "pods.update.divvy.gpu" in refused(500, cluster.patch, pods + "/tenant2", off)
    share_pods = f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods"
    assert "objects.divvy.gpu" in refused(500, cluster.create, share_pods, {**SHARE_POD, "metadata": {"name": "s"}})
    # The silent webhook blocks no pods without a share, kubelet's status, rollouts, Leases or divvy's own namespaces.
    cluster.patch(pods + "/other", {"metadata": {"annotations": {"a": "b"}}})
    cluster.patch(pods + "/tenant2/status", {"status": {"phase": "Succeeded"}}, "strategic")
    cluster.create(
        f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments?dryRun=All",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
            },
        },
    )
    cluster.create(
        f"/apis/coordination.k8s.io/v1/namespaces/{LEASES}/leases?dryRun=All",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "n1"},
            "spec": {"holderIdentity": "x"},
        },
    )
    own = bare_pod("own")  # as the profile "restricted" demands, which the namespace of Leases enforces
    own["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    own["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    for namespace in (SYSTEM, LEASES):
        cluster.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", own)
    # An administrator can exempt a namespace, as the controller does with the system's own.
    label = {"metadata": {"labels": {"divvy.gpu/admission": "ignore"}}}
    cluster.patch(f"/api/v1/namespaces/{cluster.namespace}", label)

    def passes():
        try:
            return cluster.create(pods + "?dryRun=All", bare_pod("new"))
        except ApiError:
            return None

    wait_for(passes, "a namespace with the label is left alone")
    cluster.patch(f"/api/v1/namespaces/{cluster.namespace}", {"metadata": {"labels": {"divvy.gpu/admission": None}}})
    without_webhooks()


# ---- restrictions of divvy's pods


def shipped_pods_are_restricted_where_they_say_so():
    """The API server's own check admits the pods of scheduler and controller, and refuses divvyd's."""
    without_webhooks()
    maker = cluster.service_account(
        cluster.namespace,
        "maker",
        cluster_rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}, restricted.use_rule()],
    )
    with restricted.enforced(cluster, cluster.namespace):
        check_shipped_pods(maker)


def check_shipped_pods(maker):
    for kind, name in (("Deployment", "divvy-scheduler"), ("Deployment", "divvy-controller"), ("DaemonSet", "divvyd")):
        spec = json.loads(json.dumps(pod_spec(base()[(kind, SYSTEM, name)])))
        spec["serviceAccountName"] = "default"
        spec.pop("priorityClassName")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        path = f"/api/v1/namespaces/{cluster.namespace}/pods?dryRun=All"
        if name == "divvyd":
            text = refused(403, maker.create, path, pod)
            assert "hostPID" in text or "Host PID" in text or "host namespaces" in text, text
            assert "hostPath" in text, text
        else:
            maker.create(path, pod)
            spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
            refused(403, maker.create, path, pod)


# ---- uninstalling


def add_objects_of_claims():
    """Adds the classes of overlays/dra, and a template as the controller creates it; returns their paths."""
    api, name = "/apis/resource.k8s.io/v1", "divvy-share-500-memory-8192mi"
    if not cluster.exists(f"{api}/deviceclasses"):
        return []
    classes = (DEPLOY / "overlays/dra/classes.yaml").read_text()
    cluster.apply(classes)
    templates = f"{api}/namespaces/{cluster.namespace}/resourceclaimtemplates"
    labels = {"app.kubernetes.io/managed-by": "divvy-controller"}
    cluster.create(templates, {"metadata": {"name": name, "labels": labels}, "spec": {"spec": {}}})
    return [f"{templates}/{name}", *(f"{api}/deviceclasses/{o['metadata']['name']}" for o in load(classes))]


def uninstalling_leaves_running_pods():
    """Pods and SharePods stay, and no object needs a webhook any more."""
    without_webhooks()
    path = f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods"
    pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
    owner = cluster.create(path, {**SHARE_POD, "metadata": {"name": "stays"}})
    cluster.create(
        pods,
        bare_pod(
            "stays",
            ownerReferences=[
                {
                    "apiVersion": "divvy.gpu/v1",
                    "kind": "SharePod",
                    "name": "stays",
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ],
        ),
    )
    with_webhooks()
    eventually_refused(lambda: cluster.create(pods + "?dryRun=All", bare_pod("new")))
    cluster.apply((DEPLOY / "external-metrics.yaml").read_text())
    claims = add_objects_of_claims()
    node, keys = unique("labelled"), {"divvy.gpu/device-count": "1", "nvidia.com/gpu.count": "1"}
    forged = {"node-restriction.kubernetes.io/a": "b"}
    cluster.fake_node(node, labels={**keys, **forged, "nvidia.com/gpu.memory": "1"})
    record = ",".join(f"{k}={v}" for k, v in {**forged, **keys}.items())
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"divvy.gpu/labels": record}}})
    policy = cluster.minor >= 36  # Kueue's policy, which the script leaves
    if policy:
        cluster.apply((DEPLOY / "kueue/charge-jobs.yaml").read_text())
    done = subprocess.run(
        [DEPLOY / "uninstall"],
        check=True,
        timeout=patience(300),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KUBECTL": f"{cluster.kubectl_path} --kubeconfig {cluster.kubeconfig}"},
    )
    assert ("kubectl delete -f deploy/kueue/charge-jobs.yaml" in done.stderr) is policy, done.stderr
    if policy:
        cluster.kubectl("delete", "-f", str(DEPLOY / "kueue/charge-jobs.yaml"))
    for obj_key in base():
        stays = obj_key[0] == "CustomResourceDefinition"
        assert cluster.exists(path_of(obj_key)) is stays, obj_key
    for one in claims:
        assert not cluster.exists(one), one
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    assert not cluster.exists(f"{services}/v1beta1.external.metrics.k8s.io") and cluster.exists(
        f"{services}/v1.divvy.gpu"
    )
    metadata = cluster.get(f"/api/v1/nodes/{node}")["metadata"]
    assert "divvy.gpu/labels" not in metadata.get("annotations", {}), metadata
    assert not keys.keys() & metadata["labels"].keys() and forged.items() <= metadata["labels"].items(), metadata
    assert metadata["labels"]["nvidia.com/gpu.memory"] == "1", metadata
    cluster.delete(f"/api/v1/nodes/{node}")
    wait_for(lambda: cluster.create(pods + "?dryRun=All", bare_pod("new")), "no webhook is asked")
    assert cluster.exists(path + "/stays") and cluster.exists(pods + "/stays")
    apply("--server-side")  # divvy can be installed again


TESTS = [
    kustomize_renders_the_files_unchanged,
    kustomize_warns_about_nothing,
    overlay_for_tests_differs_in_nothing_else,
    overlay_for_claims_differs_in_nothing_else,
    overlay_for_the_extender_differs_in_nothing_else,
    deploy_applies_to_an_empty_cluster,
    a_second_apply_changes_nothing,
    fields_that_the_controller_fills_in_stay,
    client_side_apply_does_the_same,
    each_account_has_the_rights_that_it_needs,
    each_account_lacks_the_rights_that_it_must_not_have,
    no_account_has_an_unlisted_right,
    the_scheduler_writes_bindings_and_status_only,
    a_token_names_its_pod,
    a_namespaces_users_may_use_sharepods,
    an_operator_runs_nodes_and_policies,
    a_viewer_reads_the_same_objects_as_the_scheduler,
    without_the_controller_only_risky_writes_are_refused,
    shipped_pods_are_restricted_where_they_say_so,
    uninstalling_leaves_running_pods,
]
ARGS = {"kube-apiserver": restricted.api_server_args()}

try:
    with open_cluster("kcm", args=ARGS) as cluster, tempfile.TemporaryDirectory(
        prefix="divvy-deploy-", dir=cluster.dir
    ) as temporary:
        cluster.claim()
        restricted.make_policies(cluster)
        folder = overlay(cluster, temporary)
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
