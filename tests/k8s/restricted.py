# SPDX-License-Identifier: Apache-2.0
"""The profile "restricted" for pods: by PodSecurityPolicy until Kubernetes 1.24, by Pod Security admission since 1.25."""

import contextlib
import os

from cluster import Skip, own_minor

ADMISSION_SINCE = 25
POLICIES = "/apis/policy/v1beta1/podsecuritypolicies"
LABEL = "pod-security.kubernetes.io/enforce"


def is_by_policy():
    if os.environ.get("KUBECONFIG"):
        return False  # the admission plugin for it is off by default
    try:
        return own_minor() < ADMISSION_SINCE
    except Skip:  # open_cluster() says so
        return False


def api_server_args():
    """The API server's arguments, for open_cluster."""
    return ["--enable-admission-plugins=NodeRestriction,PodSecurityPolicy"] if is_by_policy() else []


def policy(name, **spec):
    return {
        "apiVersion": "policy/v1beta1",
        "kind": "PodSecurityPolicy",
        "metadata": {"name": name, "annotations": {"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "*"}},
        "spec": spec,
    }


def make_policies(cluster):
    """Once for each cluster. Accounts that have all rights may use the policy `anything`."""
    if not is_by_policy():
        return
    ranges = {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]}
    restricted = policy(
        "restricted",
        privileged=False,
        allowPrivilegeEscalation=False,
        requiredDropCapabilities=["ALL"],
        volumes=["configMap", "emptyDir", "projected", "secret", "downwardAPI", "persistentVolumeClaim"],
        hostNetwork=False,
        hostIPC=False,
        hostPID=False,
        runAsUser={"rule": "MustRunAsNonRoot"},
        seLinux={"rule": "RunAsAny"},
        supplementalGroups=ranges,
        fsGroup=ranges,
    )
    restricted["metadata"]["annotations"][
        "seccomp.security.alpha.kubernetes.io/allowedProfileNames"
    ] = "runtime/default"
    anything = policy(
        "anything",
        privileged=True,
        volumes=["*"],
        hostNetwork=True,
        hostPID=True,
        hostIPC=True,
        allowedCapabilities=["*"],
        **{name: {"rule": "RunAsAny"} for name in ("runAsUser", "seLinux", "supplementalGroups", "fsGroup")},
    )
    for one in (restricted, anything):
        cluster.create(POLICIES, one)


def use_rule():
    """The rule by which an account may create restricted pods."""
    return {
        "apiGroups": ["policy"],
        "resources": ["podsecuritypolicies"],
        "resourceNames": ["restricted"],
        "verbs": ["use"],
    }


def labels():
    """Labels of a new namespace that restrict its pods."""
    return {} if is_by_policy() else {LABEL: "restricted"}


@contextlib.contextmanager
def enforced(cluster, namespace):
    """Restricts the pods of the namespace; a PodSecurityPolicy restricts the accounts that have use_rule() everywhere."""
    path = f"/api/v1/namespaces/{namespace}"
    if not cluster.own and cluster.minor < ADMISSION_SINCE:
        raise Skip("API servers before 1.25 restrict pods by an option, which the cluster of KUBECONFIG lacks")
    if not is_by_policy():
        cluster.patch(path, {"metadata": {"labels": {LABEL: "restricted"}}})
    try:
        yield
    finally:
        if not is_by_policy():
            cluster.patch(path, {"metadata": {"labels": {LABEL: None}}})
