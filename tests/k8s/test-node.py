#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real kubelet: pods run from the local image, and what the kubelet offers to device plugins is there."""

import contextlib
import os
import socket
import stat
import subprocess
import sys

from cluster import HERE, Skip, alive, main, open_cluster, skip_all, wait_for
import node as node_module


def create(pod):
    cluster.create(f"/api/v1/namespaces/{cluster.namespace}/pods", pod)


def a_pod_runs_and_says_how_it_ended():
    create(cluster.shell_pod("speaks", "echo hello from $(id -u); exit 7"))
    pod = cluster.wait_for_pod("speaks", "Failed", "Succeeded")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (pod["status"]["phase"], ended["exitCode"]) == ("Failed", 7), pod["status"]
    assert cluster.log_of("speaks") == "hello from 0\n"


def a_pod_has_limits_a_network_and_its_account():
    script = "cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; ip -4 -o addr show eth0;" \
             " cat /proc/self/cgroup; trap 'exit 0' TERM; while :; do sleep 0.1; done"
    create(cluster.shell_pod("lives", script, container={
        "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}}}))
    pod = cluster.wait_for_pod("lives", "Running")
    wait_for(lambda: "kubepods" in cluster.log_of("lives"), "the pod has told its cgroup")
    text = cluster.log_of("lives")
    assert text.startswith(cluster.namespace + "\n") and pod["status"]["podIP"] in text, text
    assert f"pod{pod['metadata']['uid']}" in text, text
    out = cluster.kubectl("-n", cluster.namespace, "exec", "lives", "--", "sh", "-c", "echo inside")
    assert out == "inside\n", out
    cluster.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/lives")
    wait_for(lambda: not cluster.exists(f"/api/v1/namespaces/{cluster.namespace}/pods/lives"), "the pod is gone")


def device_plugins_can_register():
    cluster.only_own("looking into the kubelet's folder")
    for name in ("device-plugins/kubelet.sock", "pod-resources/kubelet.sock"):
        path = os.path.join(cluster.node.kubelet_dir, name)
        wait_for(lambda p=path: os.path.exists(p), f"{name} is there")
        assert stat.S_ISSOCK(os.stat(path).st_mode), path
        cluster.node.enter("test", "-S", "/var/lib/kubelet/" + name)


def pods_outlive_kubelet_and_containerd():
    cluster.only_own("killing the kubelet")
    create(cluster.shell_pod("stays", "trap 'exit 0' TERM; while :; do sleep 0.1; done"))
    before = cluster.wait_for_pod("stays", "Running")["status"]["containerStatuses"][0]
    for name in ("kubelet", "containerd"):
        old = cluster.pid(name)
        cluster.restart(name)
        assert cluster.pid(name) != old
    after = cluster.pod("stays")["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0), after


def a_pod_reaches_the_api_server():
    """At the address that it is told; from its own network and from the node's."""
    script = "nc -w 20 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo reached"
    for name, on_host in (("asks", False), ("asks-too", True)):
        create(cluster.shell_pod(name, script, hostNetwork=on_host))
        cluster.wait_for_pod(name, "Succeeded")
        assert cluster.log_of(name) == "reached\n"


def leftovers():
    """What of a node is on the machine."""
    found = [p for p in cluster.node.made if os.path.exists(p)]
    groups = [os.path.join(point, node_module.GROUP) for trees in node_module.cgroup_trees() for point in trees]
    found += filter(os.path.exists, groups)
    if os.path.exists("/sys/class/net/" + node_module.BRIDGE):
        found.append(node_module.BRIDGE)
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        found += [line for line in f if "divvy-k8s" in line]
    for path, value in cluster.node.saved.items():
        with open(path, encoding="ascii") as f:
            now = f.read()
        if now != value:
            found.append(f"{path}: {now} instead of {value}")
    return found


def nothing_is_left_of_a_node():
    cluster.only_own("ending the cluster")
    create(cluster.shell_pod("last", "while :; do sleep 0.1; done"))
    cluster.wait_for_pod("last", "Running")
    assert leftovers(), "while it runs there is something"
    cluster.__exit__(None, None, None)
    with without_other_nodes():
        assert not leftovers(), leftovers()
    assert not os.path.exists(cluster.dir)


def nothing_is_left_when_the_test_is_killed():
    cluster.only_own("killing a test")
    script = f"""
import sys
sys.path.insert(0, {HERE!r})
from cluster import open_cluster
with open_cluster("kcm", "node") as c:
    c.create(f"/api/v1/namespaces/{{c.namespace}}/pods", c.shell_pod("last", "sleep 1000", nodeName=c.node_name))
    c.wait_for_pod("last", "Running")
    print(c.dir, c.keeper.process.pid, file=sys.stderr, flush=True)
    sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             stdout=subprocess.DEVNULL)
    folder, keeper = child.stderr.readline().split()
    assert leftovers() and alive(int(keeper))
    child.kill()
    child.wait()
    child.stdin.close()
    child.stderr.close()
    wait_for(lambda: not alive(int(keeper)), "the keeper ends")
    with without_other_nodes():
        assert not leftovers(), leftovers()
    assert not os.path.exists(folder)


@contextlib.contextmanager
def without_other_nodes():
    with socket.socket(socket.AF_UNIX) as lock:
        def ours():
            try:
                lock.bind(node_module.LOCK)
                return True
            except OSError:
                return False
        wait_for(ours, "nobody else has a node", node_module.LOCK_S)
        yield


try:
    with open_cluster("kcm", "sched", "node") as cluster:
        main(a_pod_runs_and_says_how_it_ended, a_pod_has_limits_a_network_and_its_account,
             a_pod_reaches_the_api_server, device_plugins_can_register, pods_outlive_kubelet_and_containerd, nothing_is_left_of_a_node,
             nothing_is_left_when_the_test_is_killed)
except Skip as reason:
    skip_all(reason)
