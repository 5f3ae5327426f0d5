#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The device's own trace shows the requested shares, and `divvy set` changes them at run time."""

import json
import os
import subprocess

from rig import SPIN, USAGE, Rig, main, wait_for
from tap import fairly, patience


def measured(rig, *tenants):
    done = subprocess.run(
        [USAGE, "--dir", os.path.join(rig.dir, "sim"), "--json", "--tolerance=1000", *tenants],
        env=rig.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {t["name"]: t["got"] for t in json.loads(done.stdout)["tenants"]}


def the_trace_shows_the_requested_shares():
    def look():
        with Rig() as rig:
            args = ("--kernel-us=500", "--duration=6")
            a = rig.spin("a", "--request", "0.7", "--memory", "10%", args=args)
            b = rig.spin("b", "--request", "0.3", "--memory", "10%", args=args)
            assert a.wait(patience()) == 0 and b.wait(patience()) == 0
            got = measured(rig, f"a:{a.pid}:0.7", f"b:{b.pid}:0.3")
        # Relative to the time in use: on a busy machine the simulated device may idle.
        ran = got["a"] + got["b"]
        return None if ran > 0.5 and abs(got["a"] / ran - 0.7) < 0.02 else got

    fairly(look)


def set_changes_a_running_tenant():
    with Rig() as rig:
        rig.spin("a", "--request", "0.2", "--memory", "10%")
        wait_for(lambda: rig.got("a") > 950, "a tenant alone gets the device")
        out = rig.divvy("set", "a", "--limit", "0.5").stdout
        assert "limit 0.5" in out, out
        wait_for(lambda: 450 < rig.got("a") < 550, "the tenant's use follows the new limit")
        rig.spin("b", "--request", "0.2", "--memory", "10%")
        assert rig.json("set", "a", "--request", "0.4", "-o", "json")["spec"]["request_permille"] == 400
        assert rig.divvy("set", "a", "--limit", "0.4").returncode == 0
        wait_for(
            lambda: 350 < rig.got("a") < 450 and rig.got("b") > 550, "the other tenant gets the rest of the device"
        )
        assert rig.divvy("set", "a", "--name", "c").returncode == 0
        assert rig.tenant("c") and not rig.tenant("a")


def memory_is_a_quota():
    with Rig() as rig:
        done = rig.divvy(
            "run", "--request", "0.2", "--memory", "2Gi", "--quiet", "--", SPIN, "--count=10", "--memory=1024"
        )
        assert done.returncode == 0, done.stderr
        done = rig.divvy(
            "run", "--request", "0.2", "--memory", "2Gi", "--quiet", "--", SPIN, "--count=10", "--memory=3072"
        )
        assert done.returncode == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in done.stderr, done.stderr


main(the_trace_shows_the_requested_shares, set_changes_a_running_tenant, memory_is_a_quota)
