#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One side falls silent while its connections stay open: it is stopped, or the network accepts data
and delivers nothing. The other side notices, the program gets an error, and nothing is left."""

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
PAUSE_S = 28  # SECURE_PEER_MS and a margin
SETTLE_S = 3  # enough for a side that counted the pause as silence to give up
WISH = ("--request", "0.05", "--memory", "1Gi")


def joined_by(program):
    """Returns the pids of the program's links, which are no descendants of this test."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().decode(errors="replace").split("\0")
            if words[0].endswith("divvy-remote-link") and words[1] == "join" and words[3] == str(program):
                found.append(int(pid))
    return found


class Running:
    """A program in a call, over its own simulated network."""

    def __init__(self, rig, call):
        self.rig, self.call = rig, call
        self.server, invitation = serve(rig, call, *WISH)
        self.shim = Shim(rig, invitation)
        self.child = Far(rig).run(self.shim.invitation, CALLER, call)
        assert self.child.stdout.readline() == "going\n", call
        (self.worker,) = workers(rig, call)
        self.link = stat_of(self.worker).parent

    def fails(self):
        assert self.child.wait(patience()) == 1, self.call
        out, err = self.child.communicate()
        assert out.count(GONE) == 3, (self.call, out, err)

    def is_freed(self):
        assert self.server.wait(patience()) is not None
        wait_for(lambda: not alive(self.worker) and not alive(self.link), f"{self.call}: worker and link have ended")
        wait_for(lambda: not self.rig.tenant(self.call), f"{self.call}'s tenant is removed")


def send_all(pids, sig):
    """Ignores processes that have exited: a child exits once it has passed its connection on."""
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


def a_stopped_link_of_the_device_is_noticed():
    def stop(one):
        assert one.link in descendants(one.server.pid), one.call
        os.kill(one.link, signal.SIGSTOP)

    after(("synchronise", "copy-in", "copy-out", "wait-long"), stop)


def a_stopped_link_of_the_program_is_noticed():
    def stop(one):
        # The link has two processes: the listener for all of the program's processes, and its child
        # for the session.
        both = joined_by(one.child.pid)
        (child,) = (pid for pid in both if stat_of(pid).parent in both)
        os.kill(child, signal.SIGSTOP)

    after(("launch", "copy-out", "wait-long"), stop)


def a_stopped_machine_is_noticed():
    """Stops the whole other side, like a machine that hangs. The program gets an error; the stopped
    side notices after it has continued."""

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


def a_pause_of_both_sides_ends_nothing():
    """Stops both sides, like a paused virtual machine, for longer than the allowed silence: nothing
    ends."""

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


def a_network_that_delivers_nothing_is_noticed():
    after(
        ("synchronise", "copy-in", "copy-out", "copy-later", "wait-long", "threads"), lambda one: one.shim.say("stall")
    )


def an_idle_or_stopped_program_is_not_silent():
    """Neither an idle program nor a stopped one counts as silent: its link sends the signs of
    life."""
    with Rig() as rig:
        one, idle = Running(rig, "synchronise"), Running(rig, "wait-long")
        os.kill(one.child.pid, signal.SIGSTOP)
        swallowed = Running(rig, "copy-in")
        swallowed.shim.say("stall")
        # If the two other programs counted as silent, they would have failed by this time, too.
        swallowed.fails()
        swallowed.is_freed()
        for other in (one, idle):
            assert other.child.poll() is None and workers(rig, other.call) == [other.worker] and alive(other.link)
            other.child.kill()
            other.child.communicate()
            other.is_freed()


main(
    a_stopped_link_of_the_device_is_noticed,
    a_stopped_link_of_the_program_is_noticed,
    a_stopped_machine_is_noticed,
    a_pause_of_both_sides_ends_nothing,
    a_network_that_delivers_nothing_is_noticed,
    an_idle_or_stopped_program_is_not_silent,
)
