#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/demo-remote succeeds, also as another user, and fails with the gate off. It leaves
nothing behind, even after an interrupt."""

import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from demos import Demo, tried  # noqa: E402
from rig import BUILD, SOURCE, main  # noqa: E402
from tap import Skip, skip_all  # noqa: E402

OWN = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"]
NOBODY = 65534


def works(argv, **popen):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, **popen).returncode == 0


def check(out, demo):
    assert "simulated" in out and "0 files; driver: 0 files" in out and "no daemon runs here" in out, out
    assert "far-a" in out and "OFF BY" in out and "Each got what it was given" in out, out
    assert os.listdir(demo.tmp.name) == [], os.listdir(demo.tmp.name)


def a_share_is_held_over_the_network():
    tried("demo-remote", check)


def a_user_without_rights_can_run_it():
    if os.geteuid():
        raise Skip("is one already")
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    if not works([*OWN, "--user", "--map-root-user", "true"], **who):
        raise Skip("no user namespaces for everybody")
    if not works(
        ["test", "-x", os.path.join(BUILD, "src/cli/divvy"), "-a", "-x", os.path.join(SOURCE, "scripts")],
        cwd="/",
        **who,
    ):
        raise Skip("this checkout is not for others to read")
    tried("demo-remote", check, **who)


def it_fails_with_the_gate_off():
    with Demo("demo-remote", env={"DIVVY_GATE": "off"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as demo:
        out, _ = demo.process.communicate()
        assert demo.process.returncode == 1 and "more than 2 points off" in out, out


def an_interrupt_cleans_up():
    with Demo("demo-remote", stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as demo:
        while "last second" not in (line := demo.process.stdout.readline()):
            assert line
        demo.process.send_signal(signal.SIGTERM)
        demo.process.communicate()
        assert demo.process.returncode == 143 and os.listdir(demo.tmp.name) == []


if not shutil.which("ip"):
    skip_all("ip is not installed")
if not works([*OWN, "true"]) and not works([*OWN, "--user", "--map-root-user", "true"]):
    skip_all("no rights to make namespaces")
main(
    a_share_is_held_over_the_network,
    a_user_without_rights_can_run_it,
    it_fails_with_the_gate_off,
    an_interrupt_cleans_up,
)
