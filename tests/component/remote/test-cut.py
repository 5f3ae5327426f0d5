#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network between the machines of a remote device goes down silently: both sides notice. Runs
in namespaces of this test, which end with it."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from far import Far, workers  # noqa: E402
from rig import DIVVY, Rig, alive, main, wait_for  # noqa: E402
from tap import patience, skip_all  # noqa: E402

CALLER = os.path.abspath(sys.argv[1])
OWN = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
INSIDE = "DIVVY_TEST_INSIDE"
HERE, THERE = "192.0.2.1", "192.0.2.2"
GONE = "CUDA_ERROR_DEVICE_UNAVAILABLE"


def ip(*args):
    subprocess.run(["ip", *args], check=True, stdin=subprocess.DEVNULL)


def net_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


class Machines:
    """This machine, with the device, and another one behind a pair of veth devices."""

    def __enter__(self):
        self.other = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        wait_for(lambda: net_of(self.other.pid) != net_of("self"), "the other machine")
        ip("link", "add", "gpu", "type", "veth", "peer", "name", "app", "netns", str(self.other.pid))
        ip("address", "add", f"{HERE}/30", "dev", "gpu")
        ip("link", "set", "gpu", "up")
        for args in (
            ["address", "add", f"{THERE}/30", "dev", "app"],
            ["link", "set", "app", "up"],
            ["link", "set", "lo", "up"],
        ):
            subprocess.run([*self.there(), "ip", *args], check=True, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.other.kill()
        self.other.wait()

    def there(self):
        return ["nsenter", f"--net=/proc/{self.other.pid}/ns/net"]


def both_sides_notice_a_cut_network():
    with Machines() as machines, Rig() as rig:
        children, served = [], []
        for call in ("synchronise", "copy-out", "wait-long"):
            server = rig.spawn(DIVVY, "serve", "--listen", f"{HERE}:0", "--name", call, "--request", "0.1")
            invitation = server.stdout.readline().strip()
            child = Far(rig).run(invitation, CALLER, call, before=machines.there())
            assert child.stdout.readline() == "going\n", child.communicate()
            children.append((call, child))
            served.append((call, server, workers(rig, call)[0]))
        ip("link", "set", "gpu", "down")
        for call, child in children:
            out, err = child.communicate(timeout=patience(120))
            assert child.returncode == 1 and f"{call}: {GONE}" in out, (call, child.returncode, out, err)
        for call, server, worker in served:
            assert server.wait(patience(120)) == 0
            wait_for(lambda pid=worker: not alive(pid), f"{call}'s worker has ended")
            wait_for(lambda name=call: not rig.tenant(name), f"{call}'s tenant is removed")
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "the device's memory is free")


if os.environ.pop(INSIDE, None):
    main(both_sides_notice_a_cut_network)
if not shutil.which("ip"):
    skip_all("ip is not installed")
for own in (OWN, [*OWN, "--user", "--map-root-user"]):
    if not subprocess.run([*own, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        os.environ[INSIDE] = "1"
        os.execvp(own[0], [*own, sys.executable, *sys.argv])
skip_all("no rights to make namespaces")
