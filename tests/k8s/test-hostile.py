#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a namespace's user tries who has no more rights than they need.

All of divvy runs as it is installed, with its own accounts; users have the cluster role "edit" in a namespace of
their own, and their pods are held to a PodSecurityPolicy that is the restricted profile.
"""

import contextlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import ApiError, Skip, main, open_cluster, skip_all, unique, wait_for  # noqa: E402
from controller import SYSTEM, installed  # noqa: E402
from divvyd import IMAGE, Daemon, bound_account, make_image  # noqa: E402
from scheduled import PROGRAM as SCHEDULER  # noqa: E402

G, RBAC = "/apis/divvy.gpu/v1", "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases"
USER = 1000  # of pods
PLUGINS = "--enable-admission-plugins=NodeRestriction,PodSecurityPolicy"
RESTRICTED = {"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {
    "name": "restricted", "annotations": {
        "seccomp.security.alpha.kubernetes.io/allowedProfileNames": "runtime/default"}},
    "spec": {"privileged": False, "allowPrivilegeEscalation": False, "requiredDropCapabilities": ["ALL"],
             "volumes": ["configMap", "emptyDir", "projected", "secret", "downwardAPI", "persistentVolumeClaim"],
             "hostNetwork": False, "hostIPC": False, "hostPID": False, "readOnlyRootFilesystem": False,
             "runAsUser": {"rule": "MustRunAsNonRoot"}, "seLinux": {"rule": "RunAsAny"},
             "supplementalGroups": {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]},
             "fsGroup": {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]}}}

# For whoever has all rights anyway: the pod whose token divvyd has here.
ANYTHING = {"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "anything"},
            "spec": {"privileged": True, "volumes": ["*"], "runAsUser": {"rule": "RunAsAny"}, "seLinux": {"rule": "RunAsAny"},
                     "supplementalGroups": {"rule": "RunAsAny"}, "fsGroup": {"rule": "RunAsAny"}}}


def refused(call, *args, says="", **kw):
    try:
        call(*args, **kw)
    except ApiError as error:
        assert says in str(error), f"{says!r} is not in: {error}"
        return str(error)
    raise AssertionError(f"not refused: {args} {says}")


def pods(namespace, name=""):
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


class User:
    """Somebody with a namespace."""

    def __init__(self, prefix):
        self.space = cluster.new_namespace(prefix)
        name = unique("user")
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": self.space}]
        self.account = cluster.service_account(self.space, name)
        for role in ("edit", "restricted-pods"):
            cluster.create(f"{RBAC}/namespaces/{self.space}/rolebindings", {
                "metadata": {"name": role}, "subjects": subjects,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
        wait_for(lambda: self.may("sharepods", "divvy.gpu") and self.may("pods"), "the user has these rights")

    def may(self, resource, group="", verb="create"):
        return self.account.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "namespace": self.space}}})["status"]["allowed"]

    def pod(self, name, annotations=None, args=("--kernel-us=500",), *, env=None, container=None, labels=None, **spec):
        """As the restricted profile wants it."""
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name, "annotations": annotations or {}, "labels": labels or {}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
                     "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER,
                                         "seccompProfile": {"type": "RuntimeDefault"}},
                     "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "args": list(args),
                                     "env": [{"name": k, "value": v} for k, v in (env or {}).items()],
                                     "securityContext": {"allowPrivilegeEscalation": False,
                                                         "capabilities": {"drop": ["ALL"]}}, **(container or {})}],
                     **spec}}

    def shell(self, name, script, annotations=None):
        image, pull = cluster.shell_image()
        return self.pod(name, annotations, container={"image": image, "imagePullPolicy": pull, "args": [],
                                                      "command": ["sh", "-c", script]})

    def create(self, pod):
        return self.account.create(pods(self.space), pod)

    def patch(self, name, body, kind="merge"):
        return self.account.patch(pods(self.space, name), body, kind)

    def running(self, name):
        """It runs, and has registered: its process as the daemon lists it."""
        with self.here():
            cluster.wait_for_pod(name, "Running")
        return wait_for(lambda: daemon.listed().get(name, {}).get("processes"), f"{name} has registered")[0]

    def ended(self, name):
        """What it has printed."""
        cluster.wait_for_pod(name, "Succeeded", "Failed", namespace=self.space)
        return cluster.log_of(name, self.space)

    def delete(self, *names):
        for name in names:
            cluster.delete(pods(self.space, name), grace_s=0)
        wait_for(lambda: not set(names) & set(daemon.listed()), "what they had is given back")

    @contextlib.contextmanager
    def here(self):
        mine, cluster.namespace = cluster.namespace, self.space
        try:
            yield
        finally:
            cluster.namespace = mine


# ---- the rules of the house

def the_policy_is_in_force():
    for worse, why in (({"hostPID": True}, "hostPID"), ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "hostPath")):
        refused(alice.create, alice.pod("worse", **worse), says="PodSecurityPolicy")
    root = alice.pod("root")
    root["spec"]["containers"][0]["securityContext"]["privileged"] = True
    refused(alice.create, root, says="rivileged")


def a_share_needs_no_privilege():
    made = alice.create(alice.pod("modest", {"divvy.gpu/request": "0.3", "divvy.gpu/memory": "2Gi"}))
    assert made["metadata"]["annotations"]["kubernetes.io/psp"] == "restricted", made["metadata"]
    process = alice.running("modest")
    with open(f"/proc/{process['pid']}/status", encoding="ascii") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f)
    assert status["Uid"].split() == [str(USER)] * 4 and int(status["CapEff"], 16) == 0, status
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    used = daemon.used("modest")
    wait_for(lambda: daemon.used("modest") > used, "its kernels run")
    alice.delete("modest")


def links_and_numa_nodes_are_told():
    first, second = daemon.status()["devices"]
    assert first["links"] == [{"uuid": second["uuid"], "kind": "nvlink"}] and first["numa"] == 0, first
    assert second["links"] == [{"uuid": first["uuid"], "kind": "nvlink"}], second


# ---- what is written into objects

def a_pod_cannot_be_made_with_what_divvy_gives():
    uuid, node = daemon.devices()[0], cluster.node_name
    request = {"divvy.gpu/request": "0.1"}
    for key, value in (("devices", f"main={uuid}"), ("granted-request", "main=1"), ("granted-memory", "main=100Gi"),
                       ("granted-class", "main=latency"), ("granted-group", "g=1"), ("granted-anything", "x"),
                       ("epoch", "99"), ("remote-node", "main=n")):
        refused(alice.create, alice.pod("thief", {**request, f"divvy.gpu/{key}": value}), says="only divvy's scheduler")
        refused(alice.create, alice.pod("thief", {f"divvy.gpu/{key}": value}), says="only divvy's scheduler")
    refused(alice.create, alice.pod("thief", {**request, "divvy.gpu/translated-from": "main/nvidia.com/gpu=8"}),
            says="divvy writes it")
    refused(alice.create, alice.pod("thief", {**request, "divvy.gpu/dialects": "nvidia"}), says="divvy writes it")
    refused(alice.create, alice.pod("thief", request, nodeName=node), says="spec.nodeName")
    for resource in ("slot", "milli", "memory-mib", "anything"):
        limits = {"resources": {"limits": {f"divvy.gpu/{resource}": "1"}}}
        refused(alice.create, alice.pod("thief", container=limits), says="divvy writes it")


def a_pod_on_a_node_without_asking_gets_nothing():
    """nodeName goes past every scheduler: such a pod has no slot, and so nothing of divvy's."""
    pod = alice.shell("past", "ls /run/divvy /run/divvy-sim /opt/divvy /etc/ld.so.preload; ls /dev")
    pod["spec"]["nodeName"] = cluster.node_name
    alice.create(pod)
    said = alice.ended("past")
    assert said.count("No such file") == 4 and "nvidia" not in said, said


def a_label_makes_no_tenant():
    pod = alice.shell("label", "true")
    pod["metadata"]["labels"]["divvy.gpu/tenant"] = "true"
    pod["spec"]["nodeName"] = cluster.node_name
    made = alice.create(pod)
    assert "divvy.gpu/slot" not in made["spec"]["containers"][0].get("resources", {}).get("limits", {}), made["spec"]
    alice.ended("label")
    assert "label" not in daemon.listed()


def a_running_pod_cannot_be_given_more():
    alice.create(alice.pod("runs", {"divvy.gpu/request": "0.2", "divvy.gpu/limit": "0.4", "divvy.gpu/memory": "2Gi"}))
    alice.running("runs")
    before = daemon.tenants()["runs/main"]
    for key, value in (("devices", "main=GPU-1"), ("granted-limit", "main=1"), ("granted-memory", "main=99Gi"),
                       ("granted-group", "g=1"), ("epoch", "99")):
        refused(alice.patch, "runs", {"metadata": {"annotations": {f"divvy.gpu/{key}": value}}}, says="only divvy's scheduler")
    for key in ("devices", "granted-limit", "epoch"):
        refused(alice.patch, "runs", {"metadata": {"annotations": {f"divvy.gpu/{key}": None}}}, says="only divvy's scheduler")
    refused(alice.patch, "runs", {"metadata": {"labels": {"divvy.gpu/tenant": None}}}, says="divvy.gpu/tenant")
    refused(alice.patch, "runs", {"metadata": {"annotations": {"divvy.gpu/count": "2"}}}, says="count")
    refused(alice.patch, "runs", {"spec": {"containers": [{"name": "main", "resources": {"limits": {"divvy.gpu/slot": "2"}}}]}},
            "strategic")
    mine = pods(alice.space, "runs")
    for path, body in ((mine + "/status", {"metadata": {"annotations": {"divvy.gpu/granted-limit": "main=1"}}}),
                       (mine + "/status", {"status": {"phase": "Succeeded"}}),
                       (mine + "/ephemeralcontainers", {"ephemeralContainers": [{"name": "e", "image": IMAGE}]}),
                       (f"{G}/gpunodes/{cluster.node_name}", {"spec": {"overcommit": {"memory": 4}}}),
                       (f"{G}/gpunodes/{cluster.node_name}/status", {"status": {"tenants": []}}),
                       (f"/api/v1/nodes/{cluster.node_name}", {"metadata": {"labels": {"divvy.gpu/owner": None}}}),
                       (f"/api/v1/namespaces/{alice.space}", {"metadata": {"labels": {"divvy.gpu/admission": "ignore"}}}),
                       (f"/api/v1/namespaces/{alice.space}", {"metadata": {"annotations": {"divvy.gpu/dialects": "hami"}}})):
        refused(alice.account.patch, path, body, says="403")
    refused(alice.account.create, mine + "/binding", {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "runs", "annotations": {"divvy.gpu/granted-limit": "main=1"}},
        "target": {"kind": "Node", "name": cluster.node_name}}, says="403")
    after = daemon.tenants()["runs/main"]
    assert after == before, (before, after)
    alice.delete("runs")


def another_tenants_numbers_are_not_theirs():
    bob.create(bob.pod("secret", {"divvy.gpu/request": "0.2"}))
    bob.running("secret")
    for path in (pods(bob.space), pods(bob.space, "secret"), f"{G}/gpunodes", f"{G}/gpunodes/{cluster.node_name}",
                 f"{G}/gpupolicies", f"{G}/namespaces/{bob.space}/sharepods", LEASES,
                 f"/api/v1/namespaces/{SYSTEM}/secrets", f"/api/v1/namespaces/{SYSTEM}/secrets/divvy-controller-tls"):
        refused(alice.account.get, path, says="403")
    token = alice.account.token
    assert daemon.http("/metrics", token)[0] == 403
    assert controller.get("/metrics", token=token)[0] == 403
    for path in (f"{LEASES}/{cluster.node_name}", f"{G}/gpunodes/{cluster.node_name}"):
        refused(alice.account.request, "DELETE", path, says="403")
    bob.delete("secret")


TESTS = [the_policy_is_in_force, a_share_needs_no_privilege, links_and_numa_nodes_are_told,
         a_pod_cannot_be_made_with_what_divvy_gives, a_pod_on_a_node_without_asking_gets_nothing, a_label_makes_no_tenant,
         a_running_pod_cannot_be_given_more, another_tenants_numbers_are_not_theirs]

try:
    with open_cluster("kcm", "node", own=True, args={"kube-apiserver": [PLUGINS]}) as cluster, installed(cluster) as controller:
        for policy in (RESTRICTED, ANYTHING):
            cluster.create("/apis/policy/v1beta1/podsecuritypolicies", policy)
        cluster.create(f"{RBAC}/clusterroles", {"metadata": {"name": "restricted-pods"}, "rules": [
            {"apiGroups": ["policy"], "resources": ["podsecuritypolicies"], "resourceNames": ["restricted"], "verbs": ["use"]}]})
        make_image(cluster)
        daemon = Daemon(cluster, simulate="2xH200-141Gi", account=bound_account(cluster))
        daemon.make_gpu_node()
        cluster.patch(f"/api/v1/nodes/{cluster.node_name}", {"metadata": {"labels": {"divvy.gpu/owner": "divvy"}}})
        daemon.start()
        scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
        cluster.keeper.ask("start", name="divvy-scheduler", env={"PATH": os.environ["PATH"]},
                           argv=[SCHEDULER, "--kubeconfig", scheduler.kubeconfig, "--log", "debug"],
                           log=os.path.join(cluster.dir, "log", "divvy-scheduler.log"))
        daemon.await_ready()
        alice, bob = User("alice"), User("bob")
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
