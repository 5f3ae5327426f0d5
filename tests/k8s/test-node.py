#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real kubelet: pods run from the local image, and the kubelet's sockets for device plugins exist."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import types
import unittest.mock

from cluster import HERE, Keeper, Skip, alive, main, open_cluster, skip_all, unique, wait_for
import node as node_module
from keeper import MARK


def create(pod):
    cluster.create(f"/api/v1/namespaces/{cluster.namespace}/pods", pod)


def a_pod_runs_and_reports_its_exit():
    create(cluster.shell_pod("speaks", "echo hello from $(id -u); exit 7"))
    pod = cluster.wait_for_pod("speaks", "Failed", "Succeeded")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (pod["status"]["phase"], ended["exitCode"]) == ("Failed", 7), pod["status"]
    assert cluster.log_of("speaks") == "hello from 0\n"


def a_pod_has_limits_a_network_and_an_account():
    script = (
        "cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; ip -4 -o addr show eth0;"
        " cat /proc/self/cgroup; trap 'exit 0' TERM; while :; do sleep 0.1; done"
    )
    create(cluster.shell_pod("lives", script, container={"resources": {"limits": {"cpu": "100m", "memory": "32Mi"}}}))
    pod = cluster.wait_for_pod("lives", "Running")
    wait_for(lambda: "kubepods" in cluster.log_of("lives"), "the pod has printed its cgroup")
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
        wait_for(lambda p=path: os.path.exists(p), f"the kubelet has made {name}")
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
    """At the address in the pod's environment; from the pod's own network and from the node's."""
    script = "nc -w 20 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo reached"
    for name, on_host in (("asks", False), ("asks-too", True)):
        create(cluster.shell_pod(name, script, hostNetwork=on_host))
        cluster.wait_for_pod(name, "Succeeded")
        assert cluster.log_of(name) == "reached\n"


def leftovers(seat, folder):
    """Remains, on the machine, of a node with that seat and folder: another node may have another seat."""
    found = []
    for place in filter(os.path.isdir, cluster.node.made):
        names = os.listdir(place)
        if not names or f"{MARK}{seat.number}" in names:
            found.append(place)
    groups = [os.path.join(point, seat.group) for trees in node_module.cgroup_trees() for point in trees]
    found += filter(os.path.exists, [*groups, folder])
    if os.path.exists("/sys/class/net/" + seat.bridge):
        found.append(seat.bridge)
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        found += [line for line in f if folder in line]
    return found


def assert_nothing_left(seat, folder):
    """Checks for remains; if another node has taken the seat at once, after that node's end."""
    if leftovers(seat, folder):
        with node_module.held(node_module.TURN), node_module.held(seat.lock):
            assert not leftovers(seat, folder), leftovers(seat, folder)


def an_ended_node_leaves_nothing_behind():
    cluster.only_own("ending the cluster")
    create(cluster.shell_pod("last", "while :; do sleep 0.1; done"))
    cluster.wait_for_pod("last", "Running")
    assert leftovers(cluster.node.seat, cluster.dir), "a running node leaves no trace that the test could find"
    cluster.__exit__(None, None, None)
    assert_nothing_left(cluster.node.seat, cluster.dir)


def a_node_has_its_own_kernel_settings():
    cluster.only_own("looking into the node")
    settings = node_module.settings()
    with open(f"/proc/{cluster.pid('mounts')}/mountinfo", encoding="utf-8") as f:
        mounted = {line.split()[4] for line in f}
    assert settings and set(settings) <= mounted, set(settings) - mounted
    assert (
        cluster.node.enter("cat", "/proc/sys/vm/overcommit_memory").stdout.strip() == "1"
    ), "the node does not see the kubelet's own setting"


def the_last_node_removes_the_mount_points():
    with tempfile.TemporaryDirectory() as folder:
        place, other = os.path.join(folder, "made/place"), os.path.join(folder, "other")
        os.mkdir(other)
        keepers = [Keeper(os.path.join(folder, "log")) for _ in range(2)]
        for number, keeper in enumerate(keepers):
            assert keeper.ask("folder", path=place, number=number)["made"]
            assert not keeper.ask("folder", path=other, number=number)["made"]
        keepers[0].end()
        assert os.listdir(place) == [MARK + "1"], os.listdir(place)
        keepers[1].end()
        assert not os.path.exists(place) and os.path.exists(other)


def a_killed_test_leaves_no_node_behind():
    cluster.only_own("killing a test")
    script = f"""
import sys
sys.path.insert(0, {HERE!r})
from cluster import open_cluster
with open_cluster("kcm", "node") as c:
    c.create(f"/api/v1/namespaces/{{c.namespace}}/pods", c.shell_pod("last", "sleep 1000", nodeName=c.node_name))
    c.wait_for_pod("last", "Running")
    print(c.dir, c.keeper.process.pid, c.node.seat.number, file=sys.stderr, flush=True)
    sys.stdin.read()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
    )
    folder, keeper, number = child.stderr.readline().split()
    seat = node_module.SEATS[int(number)]
    assert leftovers(seat, folder) and alive(int(keeper))
    child.kill()
    child.wait()
    child.stdin.close()
    child.stderr.close()
    wait_for(lambda: not alive(int(keeper)), "the keeper ends")
    assert_nothing_left(seat, folder)


def is_held(name):
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(name)
            return False
        except OSError:
            return True


def a_measuring_test_gets_the_machine_for_itself():
    """This test makes its own two seats, so that other tests' nodes do not matter."""
    name = unique("seats")
    seats = [types.SimpleNamespace(lock=f"\0{name}-{n}") for n in range(2)]
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.multiple(
        node_module, SEATS=seats, TURN=f"\0{name}-turn"
    ):

        def come(alone):
            keeper = Keeper(os.path.join(folder, "log"))
            node = node_module.Node(types.SimpleNamespace(node_name="", dir="", keeper=keeper), alone)
            thread = threading.Thread(target=node.take_seat)
            thread.start()
            return node, keeper, thread

        first, its_keeper, thread = come(False)
        thread.join()
        measures, measures_keeper, measures_thread = come(True)
        wait_for(lambda: is_held(node_module.TURN), "the measuring test waits for the other nodes")
        last, last_keeper, last_thread = come(False)
        assert first.seat == seats[0] and not measures.seat and not last.seat
        its_keeper.end()
        measures_thread.join()
        assert measures.seat and not last.seat
        measures_keeper.end()
        last_thread.join()
        assert last.seat
        last_keeper.end()


try:
    with open_cluster("kcm", "sched", "node") as cluster:
        main(
            a_pod_runs_and_reports_its_exit,
            a_pod_has_limits_a_network_and_an_account,
            a_pod_reaches_the_api_server,
            device_plugins_can_register,
            pods_outlive_kubelet_and_containerd,
            a_node_has_its_own_kernel_settings,
            an_ended_node_leaves_nothing_behind,
            a_killed_test_leaves_no_node_behind,
            the_last_node_removes_the_mount_points,
            a_measuring_test_gets_the_machine_for_itself,
        )
except Skip as reason:
    skip_all(reason)
