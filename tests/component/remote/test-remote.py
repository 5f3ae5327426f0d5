#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`divvy run --remote local`: the worker is the tenant, and what it may do holds for the program."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from rig import SPIN, USAGE, Rig, alive, main, refused, wait_for  # noqa: E402
from tap import Skip  # noqa: E402


def workers(rig, name):
    return [p["pid"] for p in rig.tenant(name).get("processes", [])]


def shares_hold_beside_a_local_tenant():
    with Rig() as rig:
        args = ("--kernel-us=500", "--duration=6")
        children = {
            "a": rig.spin("a", "--request", "0.3", "--memory", "10%", "--remote", "local", args=args),
            "b": rig.spin("b", "--request", "0.3", "--memory", "10%", "--remote", "local", args=args),
            "c": rig.spin("c", "--request", "0.4", "--memory", "10%", args=args),
        }
        asked = {"a": 0.3, "b": 0.3, "c": 0.4}
        pids = {name: workers(rig, name)[0] for name in asked}
        for child in children.values():
            assert child.wait(60) == 0, child.communicate()
        done = subprocess.run(
            [USAGE, "--dir", os.path.join(rig.dir, "sim"), "--json", "--tolerance=1000",
             *(f"{name}:{pids[name]}:{asked[name]}" for name in asked)],
            env=rig.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        got = {t["name"]: t["got"] for t in json.loads(done.stdout)["tenants"]}
        ran = sum(got.values())
        for name, share in asked.items():
            assert abs(got[name] / ran - share) < 0.02, got


def memory_is_a_quota():
    with Rig() as rig:
        def run(mib):
            return rig.divvy("run", "--request", "0.2", "--memory", "2Gi", "--quiet", "--remote", "local", "--",
                             SPIN, "--count=10", f"--memory={mib}")
        assert run(1024).returncode == 0
        done = run(3072)
        assert done.returncode == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in done.stderr, done.stderr


def the_program_holds_nothing_of_the_tenant():
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.2", "--quiet", "--remote", "local", "--", "env")
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        assert "DIVVY_TENANT" not in env and "DIVVY_SOCKET" not in env, env
        assert env["LD_PRELOAD"].endswith("/libdivvy-remote.so"), env
        # Its path is gone with the server.
        wait_for(lambda: not os.path.exists(env["DIVVY_REMOTE"]), "the server has ended")


def a_killed_worker_is_an_error_and_nobody_elses():
    with Rig() as rig:
        other = rig.spin("other", "--request", "0.3", "--remote", "local")
        child = rig.spin("victim", "--request", "0.3", "--remote", "local")
        os.kill(workers(rig, "victim")[0], signal.SIGKILL)
        assert child.wait(60) == 1, child.communicate()
        assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in child.stderr.read()
        assert other.poll() is None and len(workers(rig, "other")) == 1


def a_killed_program_frees_everything():
    with Rig() as rig:
        child = rig.spin("p", "--request", "0.3", "--remote", "local", args=("--memory=1024", "--duration=120"))
        worker = workers(rig, "p")[0]
        child.kill()
        child.wait()
        wait_for(lambda: not alive(worker), "the worker has ended")
        wait_for(lambda: not rig.tenant("p"), "the tenant is gone")
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "its memory is free")
        wait_for(lambda: not [f for f in os.listdir(rig.dir) if f.startswith("remote-")], "no socket is left")


def no_network_is_needed():
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        raise Skip("no rights to make a network namespace")
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.3", "--quiet", "--remote", "local", "--", "unshare", "--net", SPIN,
                         "--count=10")
        assert done.returncode == 0 and json.loads(done.stdout)["kernels"] == 10, done


def another_place_is_refused_in_words():
    with Rig(daemon=False) as rig:
        refused(rig.divvy("run", "--request", "0.2", "--remote", "far.example", "--", "true"), 125,
                "--remote 'far.example'", "local")
        refused(rig.divvy("run", "--request", "0.2", "--remote", "local", "--container", "docker", "--", "run",
                          "image"), 125, "--remote", "--container")


main(shares_hold_beside_a_local_tenant, memory_is_a_quota, the_program_holds_nothing_of_the_tenant,
     a_killed_worker_is_an_error_and_nobody_elses, a_killed_program_frees_everything,
     no_network_is_needed, another_place_is_refused_in_words)
