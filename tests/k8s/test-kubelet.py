#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""src/kubelet with a real kubelet: slots are offered, allocated and refused; restarts of either side do no harm.

The peer is tests/programs/kubelet-plugin.c."""

import glob
import os
import signal
import subprocess
import time

from cluster import NODE_OF_OURS, START_S, Skip, main, open_cluster, skip_all, wait_for

SLOTS = 14  # more than all pods here use, so that no test waits for a pod's end
RESOURCE = "divvy.gpu/slot"
PROGRAM = os.path.join(os.environ["DIVVY_BUILD"], "tests/programs/kubelet-plugin")
CDI_MINOR = 29  # kubelets pass CDI names to the runtime since this version by default
STAYS = (
    "cat /run/divvy/granted; echo slot $DIVVY_SLOT by $DIVVY_BY_CDI; trap 'exit 0' TERM; while :; do sleep 0.1; done"
)


def start_plugin(name="plugin"):
    slots = os.path.join(cluster.dir, "slots")
    os.makedirs(slots, exist_ok=True)
    names = os.path.join(cluster.node.dir, "cdi")
    cluster.run(name, cluster.node.kubelet_dir, slots, str(SLOTS), names, program=PROGRAM)


def sockets():
    return set(glob.glob(os.path.join(cluster.node.kubelet_dir, "device-plugins/divvy-*.sock")))


def events(word, name="plugin"):
    """[(time of day, text)] of the plugin's lines that begin with this word."""
    with open(os.path.join(cluster.dir, "log", name + ".log"), encoding="utf-8") as f:
        lines = [line.split(maxsplit=2) for line in f]
    return [(float(line[0]), line[2].strip()) for line in lines if len(line) == 3 and line[1] == word]


def wait_events(word, n, name="plugin"):
    wait_for(lambda: len(events(word, name)) >= n, f"{name} says '{word}' {n} times", START_S)
    return events(word, name)


def node_status():
    return cluster.get(f"/api/v1/nodes/{cluster.node_name}")["status"]


def heartbeats(n):
    """The node's statuses until the kubelet has written n more of them."""

    def beat():
        return next(c["lastHeartbeatTime"] for c in status["conditions"] if c["type"] == "Ready")

    seen, found, end = set(), [], time.monotonic() + START_S
    while len(seen) <= n:
        assert time.monotonic() < end, "the kubelet reports nothing"
        status = node_status()
        seen.add(beat())
        found.append(int(status["allocatable"].get(RESOURCE, "0")))
        time.sleep(0.05)
    return found


def wait_offered():
    """Waits for the slots in a status that the kubelet begins to write from now on."""
    wait_for(lambda: heartbeats(2)[-1] == SLOTS, f"{SLOTS} slots are offered", START_S)


def slot_pod(name, script=STAYS, containers=1):
    wish = {"resources": {"limits": {RESOURCE: "1"}}}
    pod = cluster.shell_pod(name, script, container=wish)
    first = pod["spec"]["containers"][0]
    pod["spec"]["containers"] += [{**first, "name": f"more{i}"} for i in range(1, containers)]
    cluster.create(f"/api/v1/namespaces/{cluster.namespace}/pods", pod)


def log_of(name, container="main"):
    return cluster.get(f"/api/v1/namespaces/{cluster.namespace}/pods/{name}/log?container={container}")


def read_grant(name, container="main"):
    """The slot of a running container, from the file in its folder."""
    wait_for(lambda: log_of(name, container).count("\n") >= 2, f"pod {name} has printed its slot", START_S)
    granted, env = map(str.rstrip, log_of(name, container).splitlines()[:2])
    space, pod, its, slot = granted.split()
    assert (space, pod, its) == (cluster.namespace, name, container), granted
    assert env == f"slot {slot} by {slot if cluster.minor >= CDI_MINOR else ''}".rstrip(), env
    return slot


def is_untouched(before):
    now = cluster.pod(before["metadata"]["name"])["status"]
    was = before["status"]["containerStatuses"][0]
    assert now["phase"] == "Running", now
    assert now["containerStatuses"][0]["restartCount"] == was["restartCount"] == 0, now
    assert now["containerStatuses"][0]["containerID"] == was["containerID"], now


def slots_are_offered():
    start_plugin()
    wait_events("known", 1)
    wait_offered()


def a_container_has_its_slot_at_its_start():
    slot_pod("one")
    cluster.wait_for_pod("one", "Running")
    # The plugin prefers the last slot; kubelets ask for a preference since 1.19.
    assert read_grant("one") == max(f"slot-{i}" for i in range(SLOTS))


def each_container_has_its_own_slot():
    slot_pod("two", containers=2)
    cluster.wait_for_pod("two", "Running")
    slots = {read_grant("one"), read_grant("two"), read_grant("two", "more1")}
    assert len(slots) == 3, slots


def a_process_is_known_by_its_cgroup():
    pod = cluster.pod("one")
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    info = cluster.node.ctr("task", "ls").stdout
    pid = next(line.split()[1] for line in info.splitlines() if line.startswith(container))
    done = subprocess.run([PROGRAM, "--cgroup", pid], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [pod["metadata"]["uid"], container], (done.stdout, pod["metadata"]["uid"], container)
    done = subprocess.run([PROGRAM, "--cgroup", str(os.getpid())], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "in no pod" in done.stderr, done


def a_refusal_keeps_a_container_from_starting():
    slot_pod("refused", "echo it ran")
    said = f"pod {cluster.namespace}/refused is not granted 30 % of a GPU"

    def is_said():
        of_pod = [
            e["message"]
            for e in cluster.get(f"/api/v1/namespaces/{cluster.namespace}/events")["items"]
            if e["involvedObject"].get("name") == "refused"
        ]
        return any(said in message for message in of_pod + [str(cluster.pod("refused")["status"])])

    wait_for(is_said, "the refusal's sentence is in an event or in the pod's status", START_S)
    status = cluster.pod("refused")["status"]
    for container in status.get("containerStatuses", []):
        state = {**container.get("state", {}), **container.get("lastState", {})}
        assert "running" not in state, status
        assert "startedAt" not in state.get("terminated", {}) or not state["terminated"]["startedAt"], status


def the_plugin_registers_again_after_a_kubelet_restart():
    before = cluster.pod("one")
    for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        n = len(events("known"))
        cluster.restart("kubelet", sig)
        at = wait_events("known", n + 1)[n][0]
        made = os.stat(os.path.join(cluster.node.kubelet_dir, "device-plugins/kubelet.sock")).st_mtime
        print(f"# the devices are asked for {at - made:.3f} s after the kubelet's socket was made")
        wait_offered()
        is_untouched(before)
    slot_pod("after-kubelet")
    cluster.wait_for_pod("after-kubelet", "Running")
    assert read_grant("after-kubelet") != read_grant("one")


def a_restart_of_the_plugin_does_no_harm():
    before = cluster.pod("one")
    for sig in (signal.SIGTERM, signal.SIGKILL):
        cluster.kill("plugin", sig)
        if sig == signal.SIGTERM:
            assert cluster.keeper.ask("status", name="plugin")["exit"] == 0
        # The test waits until the kubelet has noticed the plugin's end: only then the plugin's return proves anything.
        wait_for(lambda: 0 in heartbeats(1), "no slot is offered meanwhile", START_S)
        is_untouched(before)
        n = len(events("known"))
        began = time.time()
        start_plugin()
        at = wait_events("known", n + 1)[n][0]
        print(f"# the devices are asked for {at - began:.3f} s after the plugin's start")
        wait_offered()
        is_untouched(before)
        name = f"after-plugin-{int(sig)}"
        slot_pod(name)
        cluster.wait_for_pod(name, "Running")
        assert read_grant(name) != read_grant("one")


def the_kubelet_sees_end_and_restart_of_a_plugin_at_once():
    """The kubelet does not run meanwhile. It may refuse the new plugin, or close its stream with the old one's."""
    before = cluster.pod("one")
    for i in range(3):
        n = len(events("known"))
        cluster.freeze("kubelet")
        cluster.kill("plugin")
        old = sockets()
        start_plugin()
        wait_for(lambda o=old: sockets() - o, "the new plugin listens", START_S)
        cluster.thaw("kubelet")
        wait_events("known", n + 1)
        wait_offered()
        assert len(sockets()) == 1, sockets()
        is_untouched(before)
        slot_pod(f"after-both-{i}")
        cluster.wait_for_pod(f"after-both-{i}", "Running")


def a_second_plugin_takes_over():
    """Which one serves the pods meanwhile is the kubelet's choice. When one ends, the other serves all."""
    before = cluster.pod("one")
    start_plugin("successor")
    wait_events("known", 1, "successor")
    cluster.kill("plugin", signal.SIGTERM)
    wait_for(lambda: len(sockets()) == 1, "the first plugin has removed its socket")
    wait_offered()
    is_untouched(before)
    slot_pod("after-all")
    cluster.wait_for_pod("after-all", "Running")
    # The kubelet retries the refused pod for ever, so starts of that pod may follow the start of
    # "after-all".
    assert any(said.endswith(f" {cluster.namespace}/after-all/main") for _, said in events("start", "successor"))


try:
    with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS) as cluster:
        main(
            slots_are_offered,
            a_container_has_its_slot_at_its_start,
            each_container_has_its_own_slot,
            a_process_is_known_by_its_cgroup,
            a_refusal_keeps_a_container_from_starting,
            the_plugin_registers_again_after_a_kubelet_restart,
            a_restart_of_the_plugin_does_no_harm,
            the_kubelet_sees_end_and_restart_of_a_plugin_at_once,
            a_second_plugin_takes_over,
        )
except Skip as reason:
    skip_all(reason)
