#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A side that says nothing any more, though its connections stand: stopped, or with a network that takes what is
sent and delivers nothing. The other one finds out by itself, the program is told, and nothing is left."""

import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from far import Far, Shim, descendants, serve, workers  # noqa: E402
from rig import Rig, alive, main, wait_for  # noqa: E402
from tap import patience, stat_of  # noqa: E402

CALLER = sys.argv[1]
GONE = "CUDA_ERROR_DEVICE_UNAVAILABLE"
PAUSE_S = 28  # SECURE_PEER_MS and some more
SETTLE_S = 3  # by then whoever has counted the pause has given up
WISH = ("--request", "0.05", "--memory", "1Gi")


def joined_by(program):
    """The links that follow that program; they are nobody's children."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().decode(errors="replace").split("\0")
            if words[0].endswith("divvy-remote-link") and words[1] == "join" and words[3] == str(program):
                found.append(int(pid))
    return found


class Running:
    """A program in a call, over a network of its own."""

    def __init__(self, rig, call):
        self.rig, self.call = rig, call
        self.server, invitation = serve(rig, call, *WISH)
        self.shim = Shim(rig, invitation)
        self.child = Far(rig).run(self.shim.invitation, CALLER, call)
        assert self.child.stdout.readline() == "going\n", call
        self.worker, = workers(rig, call)
        self.link = stat_of(self.worker).parent

    def fails(self):
        assert self.child.wait(patience()) == 1, self.call
        out, err = self.child.communicate()
        assert out.count(GONE) == 3, (self.call, out, err)

    def is_freed(self):
        assert self.server.wait(patience()) is not None
        wait_for(lambda: not alive(self.worker) and not alive(self.link), f"{self.call}: worker and link have ended")
        wait_for(lambda: not self.rig.tenant(self.call), f"{self.call}'s tenant is gone")


def send_all(pids, sig):
    """A child ends as soon as it has passed its connection on, so it may be gone since the list was made."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)


def after(calls, fault):
    with Rig() as rig:
        running = [Running(rig, call) for call in calls]
        for one in running:
            fault(one)
        for one in running:
            one.fails()
        for one in running:
            one.is_freed()
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "the device's memory is free")


def a_stopped_link_of_the_device():
    def stop(one):
        assert one.link in descendants(one.server.pid), one.call
        os.kill(one.link, signal.SIGSTOP)
    after(("synchronise", "copy-in", "copy-out", "wait-long"), stop)


def a_stopped_link_of_the_program():
    def stop(one):
        # The listener for all of the program's processes, and its child, the session's.
        both = joined_by(one.child.pid)
        child, = (pid for pid in both if stat_of(pid).parent in both)
        os.kill(child, signal.SIGSTOP)
    after(("launch", "copy-out", "wait-long"), stop)


def a_stopped_machine():
    """All of the other side at once, as a machine that hangs: the program is told; who hangs finds out afterwards."""
    def stop(one):
        one.there = [one.server.pid, *descendants(one.server.pid)]
        send_all(one.there, signal.SIGSTOP)
    with Rig() as rig:
        running = [Running(rig, call) for call in ("synchronise", "copy-in", "wait-long")]
        for one in running:
            stop(one)
        for one in running:
            one.fails()
            assert alive(one.worker) and rig.tenant(one.call)
            send_all(reversed(one.there), signal.SIGCONT)
        for one in running:
            one.is_freed()


def a_machine_that_stood_still():
    """Both sides at once, as when a virtual machine is paused: longer than any silence may last, and nothing ends."""
    def everything(one):
        return [one.server.pid, *descendants(one.server.pid), *joined_by(one.child.pid), one.child.pid]
    with Rig() as rig:
        running = [Running(rig, call) for call in ("synchronise", "copy-in", "copy-out", "copy-later", "wait-long")]
        stopped = [pid for one in running for pid in everything(one)]
        send_all(stopped, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        send_all(stopped, signal.SIGCONT)
        time.sleep(SETTLE_S)
        for one in running:
            assert one.child.poll() is None, (one.call, one.child.communicate())
            assert workers(rig, one.call) == [one.worker] and alive(one.link), one.call
            one.child.kill()
            one.child.communicate()
            one.is_freed()


def a_network_that_swallows():
    after(("synchronise", "copy-in", "copy-out", "copy-later", "wait-long", "threads"), lambda one: one.shim.say("stall"))


def a_program_that_does_nothing_is_no_silence():
    """Nor one that has been stopped: it is its link that speaks."""
    with Rig() as rig:
        one, idle = Running(rig, "synchronise"), Running(rig, "wait-long")
        os.kill(one.child.pid, signal.SIGSTOP)
        swallowed = Running(rig, "copy-in")
        swallowed.shim.say("stall")
        # By then the others would have been given up as well.
        swallowed.fails()
        swallowed.is_freed()
        for other in (one, idle):
            assert other.child.poll() is None and workers(rig, other.call) == [other.worker] and alive(other.link)
            other.child.kill()
            other.child.communicate()
            other.is_freed()


main(a_stopped_link_of_the_device, a_stopped_link_of_the_program, a_stopped_machine, a_machine_that_stood_still,
     a_network_that_swallows, a_program_that_does_nothing_is_no_silence)
