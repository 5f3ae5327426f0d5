#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gemini's resource configuration: tenants out of it, followed when it changes."""

import os

from rig import SPIN, Rig, main, wait_for


def write(rig, *lines):
    path = os.path.join(rig.dir, "resource-config.txt")
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write("\n".join((str(len(lines)), *lines)) + "\n")
    os.rename(path + ".new", path)
    return path


def clients_become_tenants_and_the_file_is_followed():
    with Rig() as rig:
        path = write(rig, "ns/a 0.5 0.8 1073741824", "ns/b 0.2 1.0 1073741824")
        out = rig.divvy("apply", "-f", path)
        assert out.returncode == 0 and "ns/a" in out.stdout and "created" in out.stdout, out
        spec = rig.tenant("ns/a")["spec"]
        assert (spec["request_permille"], spec["limit_permille"], spec["memory_bytes"]) == (500, 800, 1 << 30)
        write(rig, "ns/a 0.3 0.6 1073741824", "ns/c 0.1 1.0 1073741824")
        wait_for(lambda: rig.tenant("ns/a")["spec"]["request_permille"] == 300, "a changed line takes effect")
        wait_for(lambda: rig.tenant("ns/c") and not rig.tenant("ns/b"), "lines come and go")
        assert rig.divvy("apply", "-f", path, "--stop").returncode == 0
        wait_for(lambda: not rig.tenant("ns/a"), "its tenants are removed")


def a_program_becomes_such_a_tenants():
    with Rig() as rig:
        path = write(rig, "a 0.5 0.8 4294967296")
        secret = rig.json("apply", "-f", path, "-o", "json")[0]["secret"]
        probe = rig.divvy("run", "--request", "0.1", "--memory", "10%", "--quiet", "--", "env").stdout
        env = dict(line.split("=", 1) for line in probe.splitlines() if line.startswith(("DIVVY_", "LD_PRE")))
        env["DIVVY_TENANT"] = secret
        rig.env.update(env)
        child = rig.spawn(SPIN, "--duration=60")
        wait_for(lambda: any(p["pid"] == child.pid for p in rig.tenant("a")["processes"]), "it is a's")
        rig.env.pop("LD_PRELOAD")


def a_bad_line_is_refused_by_name():
    with Rig() as rig:
        path = write(rig, "fine 0.5 0.8 1073741824", "greedy 0.9 1.0 1073741824")
        done = rig.divvy("apply", "-f", path)
        assert done.returncode == 1 and "greedy" in done.stderr and "0.9" in done.stderr, done
        assert rig.tenant("fine") and not rig.tenant("greedy")


main(clients_become_tenants_and_the_file_is_followed, a_program_becomes_such_a_tenants,
     a_bad_line_is_refused_by_name)
