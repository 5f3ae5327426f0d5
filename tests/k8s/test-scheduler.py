#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy-scheduler on a real API server, with its own account."""

from cluster import Skip, main, open_cluster, skip_all, wait_for
from scheduled import Scheduled


def a_share_is_bound():
    rig.node("n1", "A100", "A100")
    rig.pod("share", {"request": "0.3"})
    pod = rig.bound("share")
    assert pod["spec"]["nodeName"] == "n1"
    given = {k: v for k, v in pod["metadata"]["annotations"].items() if k.startswith("divvy.gpu/")}
    device = given.pop("divvy.gpu/devices")
    assert device in ("main=GPU-n1-0", "main=GPU-n1-1"), device
    assert given == {
        "divvy.gpu/request": "0.3", "divvy.gpu/granted-request": "main=0.3", "divvy.gpu/granted-limit": "main=1",
        "divvy.gpu/granted-memory": f"main={16 * (1 << 30) * 3 // 10}", "divvy.gpu/granted-memory-policy": "main=fail",
        "divvy.gpu/granted-class": "main=standard", "divvy.gpu/granted-priority": "main=50",
        "divvy.gpu/granted-mode": "main=local", "divvy.gpu/epoch": "0"}, given
    wait_for(lambda: rig.events("share", "Scheduled"), "an Event")


def who_fits_nowhere_is_told_once():
    rig.pod("large", {"request": "0.5", "model": "H100"})
    rig.waits("large", "0/1 nodes: 1 model H100 wanted")
    assert rig.condition("large")["reason"] == "Unschedulable"
    wait_for(lambda: rig.events("large", "FailedScheduling"), "an Event")
    # Something happens that does not help.
    rig.pod("small", {"request": "0.1"})
    rig.bound("small")
    rig.gone("small")
    events = rig.events("large", "FailedScheduling")
    assert len(events) == 1 and events[0]["count"] == 1, events
    assert events[0]["message"] == "0/1 nodes: 1 model H100 wanted"
    rig.node("n2", "H100")
    assert rig.devices("large") == "main=GPU-n2-0"
    rig.gone("large")
    rig.remove_node("n2")


def a_wish_that_is_not_understood_is_told():
    rig.pod("misspelt", {"request": "0.5", "requets": "0.5"})
    rig.waits("misspelt", "did you mean request?")
    rig.gone("misspelt")


TESTS = [a_share_is_bound, who_fits_nowhere_is_told_once, a_wish_that_is_not_understood_is_told]

try:
    with open_cluster() as cluster:
        cluster.only_own("made-up nodes")
        with Scheduled(cluster) as rig:
            rig.start()
            main(*TESTS)
except Skip as reason:
    skip_all(reason)
