#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Habits of programs that a driver bears, near (--remote local) and over a link: many threads, graphs that are made
again and again, descriptors that are closed, signals that are ignored, forks; and a worker that is gone is noticed by
who waits for nothing."""

import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../cli"))

from far import Far, serve, workers  # noqa: E402
from rig import DIVVY, Rig, alive, main, patience, wait_for  # noqa: E402

WISH = ("--request", "0.2", "--memory", "2Gi")
GONE = "CUDA_ERROR_DEVICE_UNAVAILABLE"
HABITS = (sys.executable, os.path.join(HERE, "habits.py"))
NAME = "habit"
PLACES = ("near", "far")


def begin(rig, place, *argv, before=(), env=None):
    """The program, whose stdin and stdout are ours."""
    if place == "near":
        argv = [*before, DIVVY, "run", "--quiet", "--name", NAME, *WISH, "--remote", "local", "--", *argv]
        return rig.talk(argv, env)
    _, invitation = serve(rig, NAME, *WISH)
    return rig.talk([*before, DIVVY, "run", "--remote", invitation, "--", *argv], {**Far(rig).env, **(env or {})})


def says(place, *argv, env=None, before=()):
    """All that the program prints, and that nothing is left of it afterwards."""
    with Rig() as rig:
        child = begin(rig, place, *argv, env=env, before=before)
        out, err = child.communicate(timeout=patience(280))
        assert child.returncode == 0, (place, child.returncode, out, err)
        wait_for(lambda: not rig.tenant(NAME), f"{place}: its tenant is gone")
    return out


def many_threads():
    for place in PLACES:
        out = says(place, *HABITS, "threads", "150")
        assert out == "0 of 150 failed\n", (place, out)


def rss_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) >> 10 for line in f if line.startswith("VmRSS:"))


def grows_by_less(mib, place, *habit):
    """The worker, from when the habit is warm until it has done the same again."""
    with Rig() as rig:
        child = begin(rig, place, *HABITS, *habit)
        assert child.stdout.readline() == "warm\n", child.communicate()
        worker, = workers(rig, NAME)
        before = rss_mib(worker)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n", child.communicate()
        grown = rss_mib(worker) - before
        assert grown < mib, (place, habit, before, grown)
        child.communicate("\n", timeout=patience())


def graphs_leave_nothing():
    """Each needs 16 MiB of the worker's while it is there."""
    for place in PLACES:
        grows_by_less(100, place, "captures", "15")


def what_ends_takes_its_parts_along():
    """As numbers of 200 parts a round are kept, 10 MiB or more would be left."""
    for of in ("graph", "library", "module"):
        grows_by_less(4, "near", "parts", of, "1000")


def a_hoarder_is_told_so():
    """8 GiB of the other machine's memory are the most that its graphs keep there; what they had is free again."""
    out = says("far", *HABITS, "hoards", "200", env={"DIVVY_REMOTE_SYNC": "1"})
    assert out == "128 CUDA_ERROR_OUT_OF_MEMORY\nCUDA_SUCCESS\n", out


def who_waits_for_nothing_hears_of_the_end():
    for place in PLACES:
        for what in ("memset", "host"):
            with Rig() as rig:
                child = begin(rig, place, *HABITS, "posts", what)
                assert child.stdout.readline() == "begun\n", child.communicate()
                worker, = workers(rig, NAME)
                os.kill(worker, signal.SIGKILL)
                out, err = child.communicate(timeout=patience())
                assert out == GONE + "\n", (place, what, out, err)


def descriptors_are_closed():
    for place in PLACES:
        assert says(place, *HABITS, "closes") == "failed\n", place


def what_it_opened_instead_is_its_childs():
    for place in PLACES:
        assert says(place, *HABITS, "forks_after_closing") == "0\n", place


def threads_that_come_too_late_are_told():
    for delay_ms in (0, 1, 3, 10, 30):
        with Rig() as rig:
            child = begin(rig, "near", *HABITS, "late_threads")
            assert child.stdout.readline() == "begun\n", child.communicate()
            worker, = workers(rig, NAME)
            os.kill(worker, signal.SIGKILL)
            time.sleep(delay_ms / 1000)
            out, err = child.communicate("\n", timeout=patience())
            assert (child.returncode, out.split()) == (0, [GONE] * 3), (delay_ms, child.returncode, out, err)


def addresses_are_given_back():
    assert int(says("near", *HABITS, "cycles", "8000")) < 20


def memory_is_as_it_is_now():
    for place in PLACES:
        with Rig() as rig:
            child = begin(rig, place, *HABITS, "total")
            assert child.stdout.readline() == "2048\n", child.communicate()
            done = rig.divvy("set", NAME, "--memory", "8Gi")
            assert done.returncode == 0, done.stderr
            out, _ = child.communicate("\n\n", timeout=patience())
            assert out == "8192\n", (place, out)


def children_ask_nvml():
    for place in PLACES:
        assert says(place, *HABITS, "forks", "20") == "0 of 20 hung\n", place


def children_are_ignored():
    """What starts us may ignore their ends, and all that is started inherits that."""
    deaf = ("sh", "-c", "trap '' CHLD; exec \"$@\"", "sh")
    for place in PLACES:
        assert says(place, "echo", "here", before=deaf) == "here\n", place
    with Rig() as rig:
        server, invitation = serve(rig, NAME, *WISH, before=deaf)
        child = Far(rig).run(invitation, "true")
        assert child.wait(patience()) == 0 and server.wait(patience()) == 0
        wait_for(lambda: not rig.tenant(NAME), "its tenant is gone")


def a_lock_is_the_programs_alone():
    """No helper has what the program has open."""
    with Rig() as rig:
        path = os.path.join(rig.dir, "mine")
        child = begin(rig, "near", "sh", "-c", "echo; exec sleep 60", before=("sh", "-c", f"exec 9> {path}; exec \"$@\"", "sh"))
        child.stdout.readline()
        have = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if any(os.readlink(f"/proc/{pid}/fd/{fd}") == path for fd in os.listdir(f"/proc/{pid}/fd")):
                    have.append(int(pid))
            except OSError:
                continue
        assert have == [child.pid], (have, child.pid)
        child.terminate()
        wait_for(lambda: not alive(child.pid) or child.poll() is not None, "it has ended")


def its_own_libraries_stay():
    for place in PLACES:
        out = says(place, "sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": "libm.so.6"})
        assert "libdivvy-remote.so" in out and out.endswith(":libm.so.6\n"), (place, out)


main(many_threads, graphs_leave_nothing, what_ends_takes_its_parts_along, a_hoarder_is_told_so,
     who_waits_for_nothing_hears_of_the_end, descriptors_are_closed, what_it_opened_instead_is_its_childs,
     threads_that_come_too_late_are_told, addresses_are_given_back, memory_is_as_it_is_now, children_ask_nvml,
     children_are_ignored, a_lock_is_the_programs_alone, its_own_libraries_stay)
