#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installed tree works where it lies, under DESTDIR and in its prefix. No environment variable has
to name its parts."""

import atexit
import glob
import os
import shutil
import subprocess
import tempfile

import rig
from rig import BUILD, SPIN, Rig, main

STAGE = tempfile.mkdtemp(prefix="divvy-test-stage-")
atexit.register(shutil.rmtree, STAGE)


def installed(pattern):
    found = glob.glob(os.path.join(STAGE, "**", pattern), recursive=True)
    assert len(found) == 1, (pattern, found)
    return found[0]


def everything_is_installed():
    subprocess.run(
        ["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", STAGE],
        check=True,
        capture_output=True,
    )
    for pattern in (
        "bin/divvy",
        "sbin/divvyd",
        "man1/divvy-run.1",
        "man5/tenants.conf.5",
        "man8/divvyd.8",
        "sbin/divvy-scheduler",
        "man8/divvy-scheduler.8",
        "sbin/divvy-controller",
        "man8/divvy-controller.8",
    ):
        installed(pattern)
    # `man PROGRAM` shows that program's page, and `man divvy-COMMAND` that command's, even if a
    # program has the same name.
    pages = {os.path.basename(path)[:-2] for path in glob.glob(os.path.join(STAGE, "**/man?/*.?"), recursive=True)}
    programs = {os.path.basename(path) for path in glob.glob(os.path.join(STAGE, "**/*bin/*"), recursive=True)}
    commands = {
        "divvy-" + line.split()[0]
        for line in subprocess.run(
            [installed("bin/divvy"), "help"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        if line[:2] == "  " and line[2:3].isalpha()
    }
    # kubectl calls the plugin by this name for completions.
    assert os.path.realpath(installed("bin/kubectl_complete-divvy")) == os.path.realpath(installed("bin/kubectl-divvy"))
    programs -= {"kubectl_complete-divvy"}
    assert programs == {
        "divvy",
        "divvyd",
        "divvy-controller",
        "divvy-scheduler",
        "divvy-simctl",
        "kubectl-divvy",
    }, programs
    assert programs <= pages, (programs, pages)
    assert not programs & commands and commands <= pages, (programs, commands)


def unit_file_starts_the_daemon_of_the_prefix():
    with open(installed("lib/systemd/system/divvyd.service"), encoding="utf-8") as f:
        unit = f.read()
    program = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert [STAGE + path for path in program] == [installed("sbin/divvyd")], program
    assert "Type=notify" in unit and "RuntimeDirectory=divvy" in unit


def settings():
    """The unit's settings; a repeated setting has all its values."""
    found = {}
    with open(installed("lib/systemd/system/divvyd.service"), encoding="utf-8") as f:
        for line in f:
            key, sign, value = line.strip().partition("=")
            if sign and not line.startswith("#"):
                found.setdefault(key, []).append(value)
    return found


def systemd_finds_no_fault_in_the_unit():
    unit = os.path.join(STAGE, "divvyd.service")
    with open(installed("lib/systemd/system/divvyd.service"), encoding="utf-8") as f:
        text = f.read()
    with open(unit, "w", encoding="utf-8") as f:
        f.write(text.replace("ExecStart=", f"ExecStart={STAGE}"))
    for key in ("LimitNOFILE", "MemoryMax", "CapabilityBoundingSet", "SystemCallFilter"):
        assert key in settings(), key
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
        )
        # systemd may warn of other units.
        assert "divvyd" not in done.stderr, done.stderr


def the_daemon_serves_with_the_units_capabilities():
    caps = " ".join(settings()["CapabilityBoundingSet"]).lower().replace("cap_", "+").split()
    wrapper = os.path.join(STAGE, "bounded")
    bound = ["setpriv", "--bounding-set", ",".join(["-all", *caps]), "--no-new-privs"]
    if not shutil.which("setpriv") or subprocess.run([*bound, "true"], capture_output=True, check=False).returncode:
        return
    with open(wrapper, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\nexec {" ".join(bound)} {installed("sbin/divvyd")} "$@"\n')
    os.chmod(wrapper, 0o755)
    rig.DIVVY = installed("bin/divvy")
    with Rig(daemon=False) as r:
        r.program = wrapper
        r.start()
        done = r.divvy("run", "--request", "0.5", "--", SPIN, "--count=5")
        assert done.returncode == 0, done.stderr


def a_program_runs_from_the_tree():
    rig.DIVVY = installed("bin/divvy")
    with Rig(daemon=False) as r:
        done = r.divvy("run", "--simulate", "1xTest-1Gi", "--request", "0.5", "--", SPIN, "--count=5")
        assert done.returncode == 0, done.stderr
        env = r.divvy("run", "--request", "0.5", "--quiet", "--dry-run", "--", "true").stdout
        # the simulated driver, both interception libraries, both CUDA runtimes, and the folder of the driver's names
        assert env.count(STAGE + "/") == 6, env


main(
    everything_is_installed,
    unit_file_starts_the_daemon_of_the_prefix,
    systemd_finds_no_fault_in_the_unit,
    the_daemon_serves_with_the_units_capabilities,
    a_program_runs_from_the_tree,
)
