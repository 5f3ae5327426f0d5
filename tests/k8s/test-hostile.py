#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by a namespace's user who has only the usual rights.

All of divvy runs as installed, with its own accounts. Users have the cluster role "edit" in a namespace of their own, and a
profile "restricted" applies to their pods."""

import contextlib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import restricted  # noqa: E402
from cluster import NODE_OF_OURS, ApiError, Skip, main, open_cluster, skip_all, unique, wait_for  # noqa: E402
from controller import SYSTEM, installed  # noqa: E402
from divvyd import DIVVY, IMAGE, Daemon, bound_account, make_image  # noqa: E402
from scheduled import PROGRAM as SCHEDULER  # noqa: E402
from tap import stat_of  # noqa: E402

G, RBAC = "/apis/divvy.gpu/v1", "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases"
USER = 1000  # of pods
# Kubernetes has had ephemeral containers by default since 1.23, and no gate since 1.27.
EPHEMERAL = ["--feature-gates=EphemeralContainers=true"] if restricted.is_by_policy() else []


def refused(call, *args, says="", **kw):
    try:
        call(*args, **kw)
    except ApiError as error:
        assert says in str(error), f"{says!r} is not in: {error}"
        return str(error)
    raise AssertionError(f"not refused: {args} {says}")


def refused_in_time(call, path, body, says):
    """Refused, with retries: after two seconds without an answer the webhook lets requests pass. Dry runs only."""
    seen = {}

    def said():
        try:
            seen["last"] = call(path + "?dryRun=All", body)
        except ApiError as error:
            seen["last"] = error
        return says in str(seen["last"])

    try:
        wait_for(said, says)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen['last']}") from None


def pods(namespace, name=""):
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


class User:
    """A user with a namespace."""

    def __init__(self, prefix):
        self.space = cluster.new_namespace(prefix, **restricted.labels())
        name = unique("user")
        self.subjects = [{"kind": "ServiceAccount", "name": name, "namespace": self.space}]
        self.account = cluster.service_account(self.space, name)
        for role in ("edit", "restricted-pods"):
            cluster.create(
                f"{RBAC}/namespaces/{self.space}/rolebindings",
                {
                    "metadata": {"name": role},
                    "subjects": self.subjects,
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                },
            )
        wait_for(lambda: self.may("sharepods", "divvy.gpu") and self.may("pods"), "the user has these rights")

    def may(self, resource, group="", verb="create", subresource=""):
        return self.account.may(verb, resource, group=group, subresource=subresource, namespace=self.space)

    def pod(self, name, annotations=None, args=("--kernel-us=500",), *, env=None, container=None, labels=None, **spec):
        """A pod that satisfies the restricted profile."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "args": list(args),
                        "env": [{"name": k, "value": v} for k, v in (env or {}).items()],
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                        **(container or {}),
                    }
                ],
                **spec,
            },
        }

    def shell(self, name, script, annotations=None):
        image, pull = cluster.shell_image()
        return self.pod(
            name,
            annotations,
            container={"image": image, "imagePullPolicy": pull, "args": [], "command": ["sh", "-c", script]},
        )

    def create(self, pod):
        return self.account.create(pods(self.space), pod)

    def patch(self, name, body, kind="merge"):
        return self.account.patch(pods(self.space, name), body, kind)

    def running(self, name):
        """The pod runs and has registered: returns its process from the daemon's list."""
        with self.here():
            cluster.wait_for_pod(name, "Running")
        return wait_for(lambda: daemon.listed().get(name, {}).get("processes"), f"{name} has registered")[0]

    def ended(self, name):
        """Waits for the pod's end and returns its output."""
        cluster.wait_for_pod(name, "Succeeded", "Failed", namespace=self.space)
        return cluster.log_of(name, self.space)

    def delete(self, *names):
        for name in names:
            cluster.delete(pods(self.space, name), grace_s=0)
        wait_for(lambda: not set(names) & set(daemon.listed()), "the grants have ended")

    @contextlib.contextmanager
    def here(self):
        mine, cluster.namespace = cluster.namespace, self.space
        try:
            yield
        finally:
            cluster.namespace = mine


# ---- the namespaces' policy


def the_policy_is_in_force():
    for worse, why in (
        ({"hostPID": True}, "hostPID"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "hostPath"),
    ):
        refused(alice.create, alice.pod("worse", **worse), says="PodSecurity")
    root = alice.pod("root")
    root["spec"]["containers"][0]["securityContext"]["privileged"] = True
    refused(alice.create, root, says="rivileged")


def a_share_needs_no_privilege():
    made = alice.create(alice.pod("modest", {"divvy.gpu/request": "0.3", "divvy.gpu/memory": "2Gi"}))
    if restricted.is_by_policy():
        assert made["metadata"]["annotations"]["kubernetes.io/psp"] == "restricted", made["metadata"]
    process = alice.running("modest")
    with open(f"/proc/{process['pid']}/status", encoding="ascii") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f)
    assert status["Uid"].split() == [str(USER)] * 4 and int(status["CapEff"], 16) == 0, status
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    used = daemon.used("modest")
    wait_for(lambda: daemon.used("modest") > used, "the program's kernels run")
    alice.delete("modest")


def the_node_reports_links_and_numa_nodes():
    first, second = daemon.status()["devices"]
    assert first["links"] == [{"uuid": second["uuid"], "kind": "nvlink"}] and first["numa"] == 0, first
    assert second["links"] == [{"uuid": first["uuid"], "kind": "nvlink"}], second


# ---- keys in objects


def a_pod_cannot_be_created_with_assigned_keys():
    uuid, node = daemon.devices()[0], cluster.node_name
    request = {"divvy.gpu/request": "0.1"}
    for key, value in (
        ("devices", f"main={uuid}"),
        ("granted-request", "main=1"),
        ("granted-memory", "main=100Gi"),
        ("granted-class", "main=latency"),
        ("granted-group", "g=1"),
        ("granted-anything", "x"),
        ("epoch", "99"),
        ("remote-node", "main=n"),
        ("granted-network", "main=a,b"),
    ):
        refused(alice.create, alice.pod("thief", {**request, f"divvy.gpu/{key}": value}), says="only divvy's scheduler")
        refused(alice.create, alice.pod("thief", {f"divvy.gpu/{key}": value}), says="only divvy's scheduler")
    refused(
        alice.create,
        alice.pod("thief", {**request, "divvy.gpu/translated-from": "main/nvidia.com/gpu=8"}),
        says="divvy writes it",
    )
    refused(alice.create, alice.pod("thief", {**request, "divvy.gpu/dialects": "nvidia"}), says="divvy writes it")
    refused(alice.create, alice.pod("thief", request, nodeName=node), says="spec.nodeName")
    for resource in ("slot", "milli", "memory-mib", "anything"):
        limits = {"resources": {"limits": {f"divvy.gpu/{resource}": "1"}}}
        refused(alice.create, alice.pod("thief", container=limits), says="divvy writes it")


def a_pod_with_nodename_gets_no_share():
    """nodeName goes past every scheduler: such a pod has no slot, and so no share."""
    pod = alice.shell("past", "ls /run/divvy /run/divvy-sim /opt/divvy /etc/ld.so.preload; ls /dev")
    pod["spec"]["nodeName"] = cluster.node_name
    alice.create(pod)
    said = alice.ended("past")
    assert said.count("No such file") == 4 and "nvidia" not in said, said


def a_label_alone_makes_no_tenant():
    pod = alice.shell("label", "true")
    pod["metadata"]["labels"]["divvy.gpu/tenant"] = "true"
    pod["spec"]["nodeName"] = cluster.node_name
    made = alice.create(pod)
    assert "divvy.gpu/slot" not in made["spec"]["containers"][0].get("resources", {}).get("limits", {}), made["spec"]
    alice.ended("label")
    assert "label" not in daemon.listed()


def keys_written_after_creation_are_ignored():
    """Keys written later, on pods that were created without a share, take no other tenant's capacity."""
    uuids = ",".join(daemon.devices())
    given = {"devices": uuids, "granted-request": "1", "granted-limit": "1", "granted-memory": "100Gi,100Gi"}
    thief = alice.shell("thief", "sleep 1000")
    thief["spec"]["nodeName"] = cluster.node_name
    alice.create(thief)
    alice.patch(
        "thief",
        {
            "metadata": {
                "annotations": {
                    **{f"divvy.gpu/{k}": f"main={v}" for k, v in given.items()},
                    "divvy.gpu/epoch": "99",
                    "divvy.gpu/request": "2",
                }
            }
        },
    )
    bob.create(bob.pod("whole", {"divvy.gpu/request": "2"}))
    bob.running("whole")
    assert "thief" not in daemon.listed()
    bob.delete("whole")
    alice.delete("thief")


def a_running_pod_cannot_be_given_more():
    alice.create(alice.pod("runs", {"divvy.gpu/request": "0.2", "divvy.gpu/limit": "0.4", "divvy.gpu/memory": "2Gi"}))
    alice.running("runs")
    before = daemon.tenant("runs")
    for key, value in (
        ("devices", "main=GPU-1"),
        ("granted-limit", "main=1"),
        ("granted-memory", "main=99Gi"),
        ("granted-group", "g=1"),
        ("epoch", "99"),
    ):
        refused(
            alice.patch,
            "runs",
            {"metadata": {"annotations": {f"divvy.gpu/{key}": value}}},
            says="only divvy's scheduler",
        )
    for key in ("devices", "granted-limit", "epoch"):
        refused(
            alice.patch,
            "runs",
            {"metadata": {"annotations": {f"divvy.gpu/{key}": None}}},
            says="only divvy's scheduler",
        )
    refused(alice.patch, "runs", {"metadata": {"labels": {"divvy.gpu/tenant": None}}}, says="divvy.gpu/tenant")
    refused(alice.patch, "runs", {"metadata": {"annotations": {"divvy.gpu/count": "2"}}}, says="count")
    refused(
        alice.patch,
        "runs",
        {"spec": {"containers": [{"name": "main", "resources": {"limits": {"divvy.gpu/slot": "2"}}}]}},
        "strategic",
    )
    mine = pods(alice.space, "runs")
    for path, body in (
        (mine + "/status", {"metadata": {"annotations": {"divvy.gpu/granted-limit": "main=1"}}}),
        (mine + "/status", {"status": {"phase": "Succeeded"}}),
        (mine + "/ephemeralcontainers", {"ephemeralContainers": [{"name": "e", "image": IMAGE}]}),
        (f"{G}/gpunodes/{cluster.node_name}", {"spec": {"overcommit": {"memory": 4}}}),
        (f"{G}/gpunodes/{cluster.node_name}/status", {"status": {"tenants": []}}),
        (f"/api/v1/nodes/{cluster.node_name}", {"metadata": {"labels": {"divvy.gpu/owner": None}}}),
        (f"/api/v1/namespaces/{alice.space}", {"metadata": {"labels": {"divvy.gpu/admission": "ignore"}}}),
        (f"/api/v1/namespaces/{alice.space}", {"metadata": {"annotations": {"divvy.gpu/dialects": "hami"}}}),
    ):
        refused(alice.account.patch, path, body, says="403")
    refused(
        alice.account.create,
        mine + "/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "runs", "annotations": {"divvy.gpu/granted-limit": "main=1"}},
            "target": {"kind": "Node", "name": cluster.node_name},
        },
        says="403",
    )
    after = daemon.tenant("runs")
    assert after == before, (before, after)
    alice.delete("runs")


def a_user_cannot_read_other_tenants_figures():
    for path in (
        pods(bob.space),
        pods(bob.space, "victim"),
        f"{G}/gpunodes",
        f"{G}/gpunodes/{cluster.node_name}",
        f"{G}/gpupolicies",
        f"{G}/namespaces/{bob.space}/sharepods",
        LEASES,
        f"/api/v1/namespaces/{SYSTEM}/secrets",
        f"/api/v1/namespaces/{SYSTEM}/secrets/divvy-controller-tls",
    ):
        refused(alice.account.get, path, says="403")
    token = alice.account.token
    assert daemon.http("/metrics", token)[0] == 403
    victim = cluster.get(pods(bob.space, "victim"))["metadata"]["uid"]
    for path in ("/metrics", "/events/", f"/history/{victim}/main", "/session"):
        assert controller.get(path, token=token)[0] == 403 and controller.get(path)[0] == 401, path
    for path in (f"{LEASES}/{cluster.node_name}", f"{G}/gpunodes/{cluster.node_name}"):
        refused(alice.account.request, "DELETE", path, says="403")


# ---- programs on the node

LIES = {
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "DIVVY_TENANT": "ab" * 16,
    "DIVVY_DEVICES": "all",
    "DIVVY_DRIVER": "/opt/divvy/driver",
    "LD_LIBRARY_PATH": "/opt/divvy/driver",
}
# Two ways past the interception libraries. The audit finds both programs.
PAST = {
    "absent": {"DIVVY_ABSENT": "open", "DIVVY_SOCKET": "/nowhere"},
    "driver": {"LD_PRELOAD": "/opt/divvy/driver/libcuda.so.1"},
}
FINDS = """
echo run: $(ls /run/divvy)
for f in /run/divvy/x /run/divvy-sim/x /opt/divvy/x /opt/divvy/libdivvy-cuda.so /etc/ld.so.preload; do
    (echo x >>$f) 2>&1 && echo wrote $f; (rm $f && echo removed $f) 2>&1; done
for d in /sys/fs/cgroup /sys/fs/cgroup/*; do (mkdir $d/pod && echo made $d) 2>&1; done
mount -t tmpfs none /run/divvy 2>&1 && echo mounted
echo dev: $(ls /dev)
echo processes: $(ls -d /proc/[0-9]* | wc -l)
"""


def pids_of(pod):
    """The pids of the pod's processes on the node."""
    uid = cluster.get(pods(alice.space, pod))["metadata"]["uid"]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
            if uid in f.read():
                yield int(pid)


def process_of(pod):
    return daemon.listed()[pod]["processes"][0]["pid"]


def registered(pod):
    return {p["pid"] for p in daemon.listed()[pod]["processes"]}


def socket_of(pod):
    return daemon.door(daemon.tenant(pod)["slot"])


@contextlib.contextmanager
def intruder(socket, like, *options, wrap=()):
    """(pid, the daemon's answer)"""
    argv = [*wrap, sys.executable, os.path.join(HERE, "intruder.py"), socket, str(like), *options]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.pid, json.loads(process.stdout.readline() or "{}")
        finally:
            process.stdin.close()


def attackers_and_a_victim_start():
    """Starts them on one device; they go on during the other tests."""
    device = {"divvy.gpu/device": daemon.devices()[0]}
    bob.create(bob.pod("victim", {"divvy.gpu/request": "0.3", "divvy.gpu/memory": "8Gi", **device}))
    small = {"divvy.gpu/request": "0.05", "divvy.gpu/memory": "1Gi", **device}
    alice.create(alice.pod("env", small, env=LIES))
    alice.create(alice.pod("plain", small))
    alice.create(alice.pod("second", small, ("--device=1", "--count=1"), env=LIES))
    alice.create(alice.pod("greedy", small, ("--memory=2048", "--count=1"), env=LIES))
    for name, env in PAST.items():
        alice.create(alice.pod(name, small, env=env))
    alice.create(alice.shell("finds", FINDS, small))
    bob.running("victim")
    for name in ("env", "plain"):
        alice.running(name)
    before["victim"] = daemon.tenant("victim")
    before["used"] = daemon.used("victim")


def environment_variables_give_a_program_no_more():
    assert [d["uuid"] for d in daemon.listed()["env"]["devices"]] == daemon.devices()[:1], daemon.listed()["env"]
    for name, says in (("second", "device"), ("greedy", "out_of_memory")):
        said = alice.ended(name)
        assert says in said.lower() and cluster.get(pods(alice.space, name))["status"]["phase"] == "Failed", said


def mounted_files_cannot_be_changed():
    said = alice.ended("finds")
    for line in said.splitlines():
        assert not line.startswith(("wrote", "removed", "made", "mounted")), said
    lines = dict(
        line.split(": ", 1) for line in said.splitlines() if line.startswith(("run: ", "dev: ", "processes: "))
    )
    assert lines["run"] == "divvyd.sock" and "nvidia" not in lines["dev"] and int(lines["processes"]) < 10, said


def another_tenants_socket_refuses_attackers():
    """The attacker reaches the socket, but its cgroup shows its pod."""
    env = cluster.get(pods(alice.space, "env"))["metadata"]["uid"]
    victim = cluster.get(pods(bob.space, "victim"))["metadata"]["uid"]
    inner = f"kubepods/besteffort/pod{victim}/{'ab' * 32}"
    for options in ((), ("--uid", str(USER)), ("--below", inner), ("--below", f"pod{victim}"), ("--secret", "cd" * 16)):
        with intruder(socket_of("victim"), process_of("env"), *options) as (_, said):
            assert (
                f"belongs to pod {bob.space}/victim, and process " in said["refused"]
                and f"to pod {env}" in said["refused"]
            ), said
    with intruder(socket_of("victim"), os.getpid()) as (_, said):
        assert "is in no pod's cgroup" in said["refused"], said
    with intruder(os.path.join(daemon.runtime, "divvyd.sock"), process_of("env"), "--uid", str(USER)) as (_, said):
        assert f"belongs to pod {env}; pods must use the socket in their container" in said["refused"], said
    for command in (["ps"], ["set", str(daemon.listed()["victim"]["id"]), "--request=0.01"], ["remove", "victim"]):
        done = subprocess.run(
            [DIVVY, *command, "--socket", socket_of("env")], capture_output=True, text=True, check=False
        )
        assert done.returncode and "divvy's commands use" in done.stderr, done


def processes_cannot_claim_another_identity():
    """At their own socket: false claims, a passed connection and new cgroups do not help."""
    mine, others = registered("env"), registered("victim")
    victim = cluster.get(pods(bob.space, "victim"))["metadata"]["uid"]
    started = str(stat_of(process_of("victim")).started)
    for options, wrap in (
        (("--started", started, "--uid", "12345", "--secret", "ab" * 16), ()),
        (("--below", f"kubepods/besteffort/pod{victim}/{'ab' * 32}"), ()),
        (("--lend", str(process_of("victim"))), ()),
        ((), ("unshare", "--pid", "--fork")),
    ):
        with intruder(socket_of("env"), process_of("env"), *options, wrap=wrap) as (pid, said):
            assert said["tenant"] == daemon.listed()["env"]["id"], said
            new = registered("env") - mine
            assert len(new) == 1 and (wrap or new == {pid}) and registered("victim") == others, (
                pid,
                new,
                registered("victim"),
            )
        wait_for(lambda: registered("env") == mine, "the attacker's process is gone")


def one_tenants_connections_do_not_block_others():
    """The limits are per tenant; pods' users share only the user's name."""
    with contextlib.ExitStack() as stack:
        for name in ("env", "plain", *PAST):
            said = stack.enter_context(
                intruder(socket_of(name), process_of("env"), "--uid", str(USER), "--times", "2300")
            )[1]
            assert said["connections"] == 2300, said
        said = stack.enter_context(intruder(socket_of("victim"), process_of("victim"), "--uid", str(USER)))[1]
        assert said.get("tenant") == daemon.listed()["victim"]["id"], said


def careless_roles_give_no_share():
    """A user gets no share even by rights to add ephemeral containers and to write a pod's status."""
    path = pods(alice.space, "env")
    cluster.create(
        f"{RBAC}/namespaces/{alice.space}/roles",
        {
            "metadata": {"name": "careless"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["pods/ephemeralcontainers", "pods/status"],
                    "verbs": ["get", "patch", "update"],
                }
            ],
        },
    )
    cluster.create(
        f"{RBAC}/namespaces/{alice.space}/rolebindings",
        {
            "metadata": {"name": "careless"},
            "subjects": alice.subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "careless"},
        },
    )
    wait_for(lambda: alice.may("pods", verb="update", subresource="ephemeralcontainers"), "the user has these rights")
    for body in (
        {"annotations": {"divvy.gpu/granted-limit": "main=0.9"}},
        {"annotations": {"divvy.gpu/devices": None}},
    ):
        refused_in_time(alice.account.patch, path + "/status", {"metadata": body}, says="only divvy's scheduler")
    refused_in_time(
        alice.account.patch,
        path + "/status",
        {"metadata": {"labels": {"divvy.gpu/tenant": None}}},
        says="divvy.gpu/tenant",
    )
    image, pull = cluster.shell_image()
    add_ephemeral(
        path,
        {
            "name": "late",
            "image": image,
            "imagePullPolicy": pull,
            "targetContainerName": "main",
            "command": ["sh", "-c", "ls /run/divvy /opt/divvy /run/divvy-sim /etc/ld.so.preload; ls /dev"],
            "env": [{"name": "DIVVY_SOCKET", "value": socket_of("victim")}],
        },
    )
    status = wait_for(
        lambda: [
            s["state"]["terminated"]
            for s in cluster.get(path)["status"].get("ephemeralContainerStatuses") or []
            if "terminated" in s["state"]
        ],
        "the ephemeral container has ended",
    )
    said = cluster.get(path + "/log?container=late")
    assert said.count("No such file") == 4 and "nvidia" not in said, (said, status)


def add_ephemeral(path, container):
    """Servers before 1.23 take the list as an object of its own."""
    if restricted.is_by_policy():
        alice.account.request(
            "PUT",
            path + "/ephemeralcontainers",
            {
                "apiVersion": "v1",
                "kind": "EphemeralContainers",
                "metadata": {"name": "env"},
                "ephemeralContainers": [container],
            },
        )
    else:  # these servers allow a security context, and the profile requires one
        container["securityContext"] = alice.pod("late")["spec"]["containers"][0]["securityContext"]
        alice.account.patch(path + "/ephemeralcontainers", {"spec": {"ephemeralContainers": [container]}}, "strategic")


def nodes_write_only_about_themselves():
    """Tries writes about this node and another one, with a kubelet's token and with divvyd's."""
    name = cluster.node_name
    cluster.create(
        f"{G}/gpunodes", {"apiVersion": "divvy.gpu/v1", "kind": "GPUNode", "metadata": {"name": "elsewhere"}}
    )
    lease = cluster.create(
        LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "elsewhere"}}
    )
    with open(cluster.kubeconfigs["kubelet"], encoding="utf-8") as f:
        kubelet = cluster.account("kubelet-itself", token=json.load(f)["users"][0]["user"]["token"])
    measured = {"metadata": {"annotations": {"divvy.gpu/measured": "u/main=1:1"}}}
    for node in (name, "elsewhere"):
        for path, body in (
            (f"{G}/gpunodes/{node}", {"spec": {"simulate": "8xH200"}}),
            (f"{G}/gpunodes/{node}/status", {"status": {"epoch": 1}}),
            (f"{LEASES}/{node}", measured),
        ):
            refused(kubelet.patch, path, body, says="403")
    refused(kubelet.get, f"/api/v1/namespaces/{SYSTEM}/secrets/divvy-controller-tls", says="403")
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    for account in ("divvyd", "divvy-controller", "divvy-scheduler"):
        refused(kubelet.create, f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token", token, says="403")
    refused_in_time(
        kubelet.patch,
        pods(bob.space, "victim") + "/status",
        {"metadata": {"annotations": {"divvy.gpu/granted-limit": "main=0.9"}}},
        says="only divvy's scheduler",
    )

    divvyd = daemon.account
    refused(divvyd.patch, f"{G}/gpunodes/elsewhere/status", {"status": {"epoch": 1}}, says="of that node only")
    for body in (measured, {"spec": {"holderIdentity": "x"}}):
        refused_in_time(divvyd.patch, f"{LEASES}/elsewhere", body, says="of that node only")
    refused_in_time(
        lambda path, body: divvyd.request("PUT", path, body), f"{LEASES}/elsewhere", lease, says="of that node only"
    )
    refused_in_time(divvyd.create, LEASES, {**lease, "metadata": {"name": "third"}}, says="of that node only")
    for method, path, body in (
        ("PATCH", f"{G}/gpunodes/{name}", {"spec": {"overcommit": {"memory": 4}}}),
        ("DELETE", f"{G}/gpunodes/elsewhere", None),
        ("DELETE", f"{LEASES}/elsewhere", None),
        ("DELETE", pods(bob.space, "victim"), None),
        ("PATCH", pods(bob.space, "victim"), measured),
        ("PATCH", f"/api/v1/nodes/{name}", measured),
        ("GET", f"/api/v1/namespaces/{SYSTEM}/secrets", None),
    ):
        content = "application/merge-patch+json" if body else None
        refused(divvyd.request, method, path, body, content=content, says="403")
    other = bound_account(cluster, "divvyd-gone")
    cluster.delete(pods(SYSTEM, "divvyd-gone"), grace_s=0)
    wait_for(lambda: not cluster.exists(pods(SYSTEM, "divvyd-gone")), "the token's pod is gone")

    def is_dead():
        try:
            other.get(f"{G}/gpunodes/{name}")
        except ApiError as error:
            return error.code == 401
        return False

    wait_for(is_dead, "the token is refused")
    refused(other.patch, f"{G}/gpunodes/{name}/status", {"status": {"epoch": 99}}, says="40")


def an_event_reports_programs_that_go_past_the_libraries():
    def told():
        events = cluster.get("/api/v1/namespaces/default/events")["items"]
        text = "\n".join(e["message"] for e in events if e["reason"] == "UnmanagedProcess")
        return all(
            registered(name) or any(f"process {pid} (spin) uses" in text for pid in pids_of(name)) for name in PAST
        )

    wait_for(told, "the audit reports the processes that belong to no tenant", 120)


def the_victim_is_unharmed():
    assert daemon.tenant("victim") == before["victim"], (before["victim"], daemon.tenants())
    wait_for(lambda: daemon.used("victim") > before["used"], "the victim's kernels run")
    bob.delete("victim")
    alice.delete("env", "plain", *PAST)


before = {}
TESTS = [
    the_policy_is_in_force,
    a_share_needs_no_privilege,
    the_node_reports_links_and_numa_nodes,
    a_pod_cannot_be_created_with_assigned_keys,
    a_pod_with_nodename_gets_no_share,
    a_label_alone_makes_no_tenant,
    keys_written_after_creation_are_ignored,
    a_running_pod_cannot_be_given_more,
    attackers_and_a_victim_start,
    environment_variables_give_a_program_no_more,
    mounted_files_cannot_be_changed,
    another_tenants_socket_refuses_attackers,
    processes_cannot_claim_another_identity,
    one_tenants_connections_do_not_block_others,
    careless_roles_give_no_share,
    a_user_cannot_read_other_tenants_figures,
    nodes_write_only_about_themselves,
    an_event_reports_programs_that_go_past_the_libraries,
    the_victim_is_unharmed,
]

try:
    with open_cluster(
        "kcm",
        "node",
        own=NODE_OF_OURS,
        args={"kube-apiserver": [*restricted.api_server_args(), *EPHEMERAL], "kubelet": EPHEMERAL},
    ) as cluster, installed(cluster) as controller:
        restricted.make_policies(cluster)
        cluster.create(
            f"{RBAC}/clusterroles", {"metadata": {"name": "restricted-pods"}, "rules": [restricted.use_rule()]}
        )
        make_image(cluster)
        daemon = Daemon(cluster, simulate="2xH200-141Gi", account=bound_account(cluster))
        daemon.make_gpu_node()
        cluster.patch(f"/api/v1/nodes/{cluster.node_name}", {"metadata": {"labels": {"divvy.gpu/owner": "divvy"}}})
        daemon.start()
        scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
        cluster.keeper.ask(
            "start",
            name="divvy-scheduler",
            env={"PATH": os.environ["PATH"]},
            argv=[SCHEDULER, "--kubeconfig", scheduler.kubeconfig, "--log", "debug"],
            log=os.path.join(cluster.dir, "log", "divvy-scheduler.log"),
        )
        daemon.await_ready()
        alice, bob = User("alice"), User("bob")
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
