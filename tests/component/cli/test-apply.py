#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gemini's resource configuration: divvy makes tenants from the file and follows its changes."""

import os

from rig import SPIN, Rig, main, patience, refused, wait_for


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
        wait_for(
            lambda: rig.tenant("ns/c") and not rig.tenant("ns/b"),
            "a new line makes a tenant, and a removed line removes its tenant",
        )
        assert rig.divvy("apply", "-f", path, "--stop").returncode == 0
        wait_for(lambda: not rig.tenant("ns/a"), "the file's tenants are removed")


def the_daemon_follows_a_file_with_a_relative_path():
    with Rig(daemon=False) as rig:
        path = write(rig, "a 0.5 0.8 1073741824")
        rig.start("--apply", os.path.relpath(path))
        write(rig, "b 0.3 0.6 1073741824")
        wait_for(lambda: rig.tenant("b") and not rig.tenant("a"), "the file is followed")
        assert rig.divvy("apply", "-f", path, "--stop").returncode == 0
        wait_for(lambda: not rig.tenant("b"), "the file's tenants are removed")


def a_changed_line_can_change_the_class():
    """A request of 0 means opportunistic. The daemon stores it as 0.001, so only the class may
    change."""
    with Rig() as rig:
        path = write(rig, "a 0.001 0.8 1073741824")
        assert rig.divvy("apply", "-f", path, "--once").returncode == 0
        assert rig.tenant("a")["spec"]["class"] == "standard"
        write(rig, "a 0 0.8 1073741824")
        assert "changed" in rig.divvy("apply", "-f", path, "--once").stdout
        spec = rig.tenant("a")["spec"]
        assert (spec["class"], spec["priority"], spec["request_permille"]) == ("opportunistic", 0, 1), spec
        assert "same" in rig.divvy("apply", "-f", path, "--once").stdout
        write(rig, "a 0.001 0.8 1073741824")
        assert "changed" in rig.divvy("apply", "-f", path, "--once").stdout
        assert rig.tenant("a")["spec"]["class"] == "standard"


def tenants_of_a_file_read_once_can_be_removed():
    with Rig() as rig:
        path = write(rig, "a 0.5 0.8 1073741824", "b 0.5 0.8 1073741824")
        assert rig.divvy("apply", "-f", path, "--once").returncode == 0
        assert rig.divvy("remove", "a").returncode == 0
        assert not rig.tenant("a") and rig.tenant("b")
        refused(rig.divvy("remove", "a"), 1, "tenant a: no such tenant")
        assert rig.divvy("why", "b").stdout.splitlines()[1].endswith("loads libdivvy-cuda.so.")
        assert "removed" in rig.divvy("apply", "-f", path, "--stop").stdout
        assert rig.json("ps", "-o", "json") == []
        # After a restart the daemon does not follow the file, but the tenants exist.
        assert rig.divvy("apply", "-f", path).returncode == 0
        rig.stop()
        rig.start()
        assert rig.divvy("apply", "-f", path, "--stop").returncode == 0
        assert rig.json("ps", "-o", "json") == []


def a_program_learns_that_its_tenant_was_removed():
    with Rig() as rig:
        child = rig.spin("a", "--request", "0.5", "--memory", "10%", "--quiet")
        assert rig.divvy("remove", "a").returncode == 0
        line = child.stderr.readline()
        assert "this program has lost its GPU" in line and "removed" in line, line
        # The next launch fails, as with a remote GPU; nobody has to kill the program.
        assert child.wait(patience()) == 1
        assert "DEVICE_UNAVAILABLE" in child.stderr.read()


def a_program_can_join_a_tenant_of_the_file():
    with Rig() as rig:
        path = write(rig, "a 0.5 0.8 4294967296")
        secret = rig.json("apply", "-f", path, "-o", "json")[0]["secret"]
        probe = rig.divvy("run", "--request", "0.1", "--memory", "10%", "--quiet", "--", "env").stdout
        env = dict(line.split("=", 1) for line in probe.splitlines() if line.startswith(("DIVVY_", "LD_PRE")))
        env["DIVVY_TENANT"] = secret
        rig.env.update(env)
        child = rig.spawn(SPIN, "--duration=60")
        wait_for(
            lambda: any(p["pid"] == child.pid for p in rig.tenant("a")["processes"]),
            "the program is a process of tenant a",
        )
        rig.env.pop("LD_PRELOAD")


def an_invalid_file_is_not_followed():
    with Rig() as rig:
        path = write(rig, "a half")
        assert rig.divvy("apply", "-f", path).returncode == 1
        done = rig.divvy("apply", "-f", path, "--stop")
        assert done.returncode == 1 and "does not follow" in done.stderr, done
        write(rig, "a 0.5 0.8 1073741824")
        assert rig.divvy("apply", "-f", path).returncode == 0
        os.unlink(path)
        assert rig.divvy("apply", "-f", path, "--stop").returncode == 0, "--stop works although the file is removed"
        wait_for(lambda: not rig.tenant("a"), "the file's tenants are removed")


def an_invalid_line_is_refused_with_its_client():
    with Rig() as rig:
        path = write(rig, "fine 0.5 0.8 1073741824", "greedy 0.9 1.0 1073741824")
        done = rig.divvy("apply", "-f", path)
        assert done.returncode == 1 and "greedy" in done.stderr and "0.9" in done.stderr, done
        with open(path, "wb") as f:
            f.write(b"\xff\xfe clients\n")
        done = rig.divvy("apply", "-f", path)
        assert done.returncode == 1 and "line 1" in done.stderr and "number of clients" in done.stderr, done
        assert rig.tenant("fine") and not rig.tenant("greedy")


main(
    clients_become_tenants_and_the_file_is_followed,
    the_daemon_follows_a_file_with_a_relative_path,
    a_changed_line_can_change_the_class,
    tenants_of_a_file_read_once_can_be_removed,
    a_program_learns_that_its_tenant_was_removed,
    a_program_can_join_a_tenant_of_the_file,
    an_invalid_file_is_not_followed,
    an_invalid_line_is_refused_with_its_client,
)
