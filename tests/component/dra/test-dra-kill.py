#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvyd as DRA driver is killed after each of its system calls that change something, in any of its threads, while it serves a
request. The next divvyd has all of the claim or nothing, and serves the same request."""

import itertools
import subprocess

from dra_rig import CLAIMS, SKIPPED, STEPPER, DraRig, Skip, main, patience

POINTS_MAX = 200  # far more than there are, so that a request that never ends its steps is found


def killed(rig, point, *words):
    """Kills divvyd at that point, at the latest after the request: was the request answered?"""
    stepper = subprocess.Popen(
        [STEPPER, "changes", str(point), str(rig.daemon.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if stepper.stdout.readline() != "tracing\n":
        _, err = stepper.communicate(timeout=patience())
        if stepper.returncode == SKIPPED:
            raise Skip("tracing is not allowed here")
        raise AssertionError(err)
    refusal = rig.ask(*words)[1]
    rig.daemon.kill()
    rig.daemon.wait(patience())
    _, err = stepper.communicate(timeout=patience())
    assert not stepper.returncode, err
    return not refusal


def each_point(rig, before, request, after):
    """Tries all points of the request, each with its own divvyd."""
    for point in itertools.count(1):
        before()
        was_answered = killed(rig, point, *request)
        rig.start()
        rig.is_consistent()
        after(was_answered)
        if was_answered:
            break
        assert point < POINTS_MAX, "the request has no end"
    print(f"# {point} points", flush=True)
    assert point > 5, "the request was not stepped through"


def prepare():
    with DraRig() as rig:
        claim = rig.claim("killed", 300, "8Gi")

        def after(was_answered):
            assert not was_answered or len(rig.checkpoint()) == 1, rig.checkpoint()
            rig.ask_ok("prepare", *claim)
            assert len(rig.tenants()) == 1, rig.tenants()
            rig.ask_ok("unprepare", *claim)
            assert rig.is_empty()

        each_point(rig, lambda: None, ("prepare", *claim), after)


def unprepare():
    with DraRig() as rig:
        claim = rig.claim("ended", 300, "8Gi")

        def after(was_answered):
            assert not was_answered or rig.is_empty()
            rig.ask_ok("unprepare", *claim)
            assert rig.is_empty()

        each_point(rig, lambda: rig.ask_ok("prepare", *claim), ("unprepare", *claim), after)


def prepare_of_other_devices():
    """The claim was allocated anew. The next divvyd has its old devices, its new ones, or none."""
    with DraRig("2xH200-141Gi") as rig:
        claim = rig.claim("moved", 300, "8Gi")
        (result,) = rig.api.store.get(f"{CLAIMS}/moved")["status"]["allocation"]["devices"]["results"]

        def allocate(n):
            moved = {**result, "device": rig.device(n=n)}
            rig.api.store.update(f"{CLAIMS}/moved", {"status": {"allocation": {"devices": {"results": [moved]}}}})

        def before():
            allocate(0)
            rig.ask_ok("prepare", *claim)
            assert [t["devices"][0]["uuid"] for t in rig.tenants()] == [rig.uuid(0)], rig.tenants()
            allocate(1)

        def after(was_answered):
            where = [t["devices"][0]["uuid"] for t in rig.tenants()]
            assert len(where) < 2 and (not was_answered or where == [rig.uuid(1)]), where
            rig.ask_ok("prepare", *claim)
            assert [t["devices"][0]["uuid"] for t in rig.tenants()] == [rig.uuid(1)], rig.tenants()

        each_point(rig, before, ("prepare", *claim), after)


def two_requests_of_one_claim():
    """A claim with two tenants has both of them or none."""
    with DraRig() as rig:
        claim = rig.claim("pair", 300, "8Gi")
        (first,) = rig.api.store.get(f"{CLAIMS}/pair")["status"]["allocation"]["devices"]["results"]
        second = {**first, "request": "second", "shareID": "22222222-0f22-4f8a-a2bd-000000000000"}
        rig.api.store.update(f"{CLAIMS}/pair", {"status": {"allocation": {"devices": {"results": [first, second]}}}})

        def after(_):
            assert len(rig.tenants()) in (0, 2), rig.tenants()
            rig.ask_ok("prepare", *claim)
            assert len(rig.tenants()) == 2, rig.tenants()
            rig.ask_ok("unprepare", *claim)
            assert rig.is_empty()

        each_point(rig, lambda: None, ("prepare", *claim), after)


main(prepare, unprepare, prepare_of_other_devices, two_requests_of_one_claim)
