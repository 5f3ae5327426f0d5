#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the checker of faults by histories with one bug each: it finds exactly that bug, and none in the good history."""

import copy
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from checker import GANG_S, GIB, problems  # noqa: E402
from tap import main  # noqa: E402

DEVICES = {"GPU-0": 16 * GIB, "GPU-1": 16 * GIB}


def pod(name, *, uid=None, keys=None, node=None, phase="Pending", owner=None, labels=None, started=False, **metadata):
    obj = {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": uid or "u-" + name,
            "labels": labels or {},
            "annotations": {f"divvy.gpu/{k.replace('_', '-')}": v for k, v in (keys or {}).items()},
            **metadata,
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase},
    }
    if owner:
        obj["metadata"]["ownerReferences"] = [{"kind": "SharePod", "name": owner, "uid": "u-" + owner}]
    if started:
        obj["status"]["containerStatuses"] = [{"restartCount": 0, "state": {"running": {}}}]
    return obj


def given(device="GPU-0", request="0.5", memory="4Gi", **more):
    keys = {
        "devices": device,
        "granted_request": request,
        "granted_memory": memory,
        **{"granted_" + k: v for k, v in more.items()},
    }
    return {k: f"main={v}" for k, v in keys.items()}


def share_pod(name, phase="Running", **metadata):
    return {
        "kind": "SharePod",
        "metadata": {"name": name, "namespace": "n", "uid": "u-" + name, **metadata},
        "status": {"phase": phase},
    }


def line(what, pod_name, daemon=1, device="GPU-0", request=500, memory=4 * GIB, slot="0", mode="local", **more):
    return {
        "what": what,
        "daemon": daemon,
        "podUID": "u-" + pod_name,
        "namespace": "n",
        "pod": pod_name,
        "container": "main",
        "slot": slot,
        "devices": [device],
        "request": request,
        "limit": 1000,
        "memoryBytes": [memory],
        "mode": mode,
        "epoch": 1,
        **more,
    }


GANG = {"group": "g", "group_size": "3", "group_threshold": "0.6"}  # 2 are needed


def good_history():
    """Two pods share a device, one ends and another takes its place; a gang; a SharePod whose pod is replaced."""
    return [
        (0, "ADDED", pod("a")),
        (1, "MODIFIED", pod("a", keys=given(), node="x")),
        (2, "ADDED", pod("b", keys=given(memory="12Gi"), node="x", phase="Running", started=True)),
        (3, "MODIFIED", pod("a", keys=given(), node="x", phase="Succeeded")),
        (4, "ADDED", pod("c", keys=given(), node="x", phase="Running", labels={"chaos": "steady"}, started=True)),
        (5, "ADDED", pod("m1", keys=GANG)),
        (5, "ADDED", pod("m2", keys=GANG)),
        (5, "ADDED", pod("m3", keys=GANG)),
        (6, "MODIFIED", pod("m1", keys={**GANG, **given("GPU-1", "0.3")}, node="x")),
        (6, "MODIFIED", pod("m2", keys={**GANG, **given("GPU-1", "0.3")}, node="x")),
        (7, "MODIFIED", pod("m1", keys={**GANG, **given("GPU-1", "0.3")}, node="x", phase="Running", started=True)),
        (8, "ADDED", share_pod("s")),
        (8, "ADDED", pod("s", owner="s")),
        (9, "MODIFIED", pod("s", owner="s", deletionTimestamp="now")),
        (9, "ADDED", pod("s-2", owner="s")),
        (9, "DELETED", pod("s", owner="s", deletionTimestamp="now")),
        (9 + 2 * GANG_S, "ADDED", pod("late")),
    ]


def good_grants():
    return [
        line("granted", "a"),
        line("granted", "b", memory=12 * GIB, slot="1"),
        line("ended", "a"),
        line("granted", "c"),
        line("changed", "c", request=400),
        line("kept", "b", daemon=2, memory=12 * GIB, slot="1"),
        line("kept", "c", daemon=2, request=400),
        line("ended", "b", daemon=2, slot="1"),
        line("granted", "d", daemon=2, request=600, slot="1"),
    ]


def a_good_history_has_no_fault():
    found = problems(good_history(), good_grants(), DEVICES, now=1000)
    assert not found, found


def finds(text, history=(), grants=(), now=None, after=None, away=()):
    """Adds a bug to the good history and checks that the checker reports that bug alone."""
    found = problems(
        [*(good_history() if after is None else after), *history], [*good_grants(), *grants], DEVICES, now, away
    )
    assert len(found) == 1 and text in found[0], found


def the_scheduler_assigns_a_device_twice():
    finds(
        "GPU-0 is given 1500/1000",
        [(200, "ADDED", pod("d", keys=given(memory="0"), node="x"))],
        after=[e for e in good_history() if e[0] != 3 and e[2]["metadata"]["name"] != "c"],
    )
    finds("GPU-0 is given 1001/1000", [(200, "ADDED", pod("d", keys=given(request="0.001", memory="0"), node="x"))])


def the_scheduler_assigns_more_memory_than_a_device_has():
    finds(f"GPU-0 has {16 * GIB} bytes", [(200, "ADDED", pod("d", keys=given(request="0", memory="1"), node="x"))])


def a_tenant_runs_beside_an_exclusive_one():
    finds(
        "is somebody's alone", [(200, "ADDED", pod("d", keys=given("GPU-1", "0.001", "1", mode="exclusive"), node="x"))]
    )


def the_scheduler_assigns_an_unknown_device():
    finds("no device GPU-9", [(200, "ADDED", pod("d", keys=given("GPU-9"), node="x"))])


def opportunistic_shares_may_exceed_a_device():
    more = [(200, "ADDED", pod("d", keys=given("GPU-1", "0.9", "1Gi", **{"class": "opportunistic"}), node="x"))]
    assert not problems([*good_history(), *more], [], DEVICES)


def a_gang_stays_below_its_threshold():
    one = [(200, "ADDED", pod("h1", keys={**GANG, "group": "h", **given("GPU-1", "0.1", "1Gi")}, node="x"))]
    finds("half placed for more than", [*one, (200 + GANG_S + 1, "ADDED", pod("later"))])
    finds("half placed for more than", one, now=200 + GANG_S + 1)
    assert not problems([*good_history(), *one], [], DEVICES, now=201), "problems before the gang's time is over"
    end = 200 + GANG_S + 1
    assert not problems(
        [*good_history(), *one], [], DEVICES, now=end, away=[(190, 203)]
    ), "problems though no API server ran"
    finds("half placed for more than", one, now=end + 3, away=[(190, 203)])
    assert not problems(
        [*good_history(), *one, (201, "DELETED", one[0][2])], [], DEVICES, now=end
    ), "problems of a deleted pod"


def a_gang_member_starts_below_the_threshold():
    finds(
        "has started while 1 of 2 are bound",
        [
            (
                200,
                "ADDED",
                pod(
                    "h1",
                    keys={**GANG, "group": "h", **given("GPU-1", "0.1", "1Gi")},
                    node="x",
                    phase="Running",
                    started=True,
                ),
            )
        ],
    )


def a_share_pod_has_two_pods():
    finds("has 2 pods: n/s-2, n/s-3", [(200, "ADDED", pod("s-3", owner="s"))])


def a_share_pod_has_no_pod():
    finds("SharePod n/s has no pod", [(200, "DELETED", pod("s-2", owner="s"))])
    finds("SharePod n/t has no pod", [(200, "ADDED", share_pod("t", phase="Pending"))])
    assert not problems([*good_history(), (200, "ADDED", share_pod("t", phase="Succeeded"))], [], DEVICES)


def a_steady_pod_restarts_or_ends():
    gone = copy.deepcopy(good_history()[4][2])
    gone["status"]["containerStatuses"][0]["restartCount"] = 1
    finds("n/c was to run on", [(200, "MODIFIED", gone)])
    finds("n/c was to run on", [(200, "DELETED", good_history()[4][2])])


def the_daemon_grants_more_than_a_device_has():
    finds("divvyd: GPU-0 is given 1001/1000", grants=[line("granted", "e", daemon=2, request=1, memory=0, slot="2")])
    finds("divvyd: GPU-0 has", grants=[line("granted", "e", daemon=2, request=0, memory=13 * GIB, slot="2")])
    finds("divvyd: GPU-0 is given 1600/1000", grants=[line("changed", "c", daemon=2, request=1000)])


def the_daemon_grants_twice():
    finds("is granted twice, in slots 0 and 7", grants=[line("granted", "c", daemon=2, request=400, slot="7")])


def a_restart_loses_a_grant():
    finds(
        "n/c/u-c/main is lost by a restart",
        grants=[
            line("kept", "d", daemon=3, request=600, slot="1"),
            line("granted", "f", daemon=3, request=100, slot="3"),
        ],
    )
    finds("n/c/u-c/main is lost by a restart", grants=[line("kept", "d", daemon=3, request=600, slot="1")])


def a_grant_ends_that_never_began():
    finds("has ended and had nothing", grants=[line("ended", "zz", daemon=2)])


main(
    a_good_history_has_no_fault,
    the_scheduler_assigns_a_device_twice,
    the_scheduler_assigns_more_memory_than_a_device_has,
    a_tenant_runs_beside_an_exclusive_one,
    the_scheduler_assigns_an_unknown_device,
    opportunistic_shares_may_exceed_a_device,
    a_gang_stays_below_its_threshold,
    a_gang_member_starts_below_the_threshold,
    a_share_pod_has_two_pods,
    a_share_pod_has_no_pod,
    a_steady_pod_restarts_or_ends,
    the_daemon_grants_more_than_a_device_has,
    the_daemon_grants_twice,
    a_restart_loses_a_grant,
    a_grant_ends_that_never_began,
)
