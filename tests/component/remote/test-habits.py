#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Habits of programs that a driver must bear, with --remote local and over a link: many threads,
graphs made again and again, closed descriptors, ignored signals, forks. A program that waits for no
answer notices its worker's death, too."""

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
    """Starts the program. Its stdin and stdout are pipes to this test."""
    if place == "near":
        argv = [*before, DIVVY, "run", "--quiet", "--name", NAME, *WISH, "--remote", "local", "--", *argv]
        return rig.talk(argv, env)
    _, invitation = serve(rig, NAME, *WISH)
    return rig.talk([*before, DIVVY, "run", "--remote", invitation, "--", *argv], {**Far(rig).env, **(env or {})})


def says(place, *argv, env=None, before=()):
    """All output of the program; checks that nothing is left after it."""
    with Rig() as rig:
        child = begin(rig, place, *argv, env=env, before=before)
        out, err = child.communicate(timeout=patience(280))
        assert child.returncode == 0, (place, child.returncode, out, err)
        wait_for(lambda: not rig.tenant(NAME), f"{place}: the tenant is removed")
    return out


def a_program_may_have_many_threads():
    for place in PLACES:
        out = says(place, *HABITS, "threads", "150")
        assert out == "0 of 150 failed\n", (place, out)


def rss_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) >> 10 for line in f if line.startswith("VmRSS:"))


def grows_by_less(mib, place, *habit):
    """Checks that the worker's memory grows by less than `mib` MiB from the end of the warm-up to the
    end of a second run."""
    with Rig() as rig:
        child = begin(rig, place, *HABITS, *habit)
        assert child.stdout.readline() == "warm\n", child.communicate()
        (worker,) = workers(rig, NAME)
        before = rss_mib(worker)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n", child.communicate()
        grown = rss_mib(worker) - before
        assert grown < mib, (place, habit, before, grown)
        child.communicate("\n", timeout=patience())


def destroyed_graphs_leave_no_memory():
    """Each graph needs 16 MiB in the worker while it exists."""
    for place in PLACES:
        grows_by_less(100, place, "captures", "15")


def destroyed_objects_free_the_handles_of_their_parts():
    """Keeping the handles of 200 parts a round would leave 10 MiB or more."""
    for of in ("graph", "library", "module"):
        grows_by_less(4, "near", "parts", of, "1000")


def memory_that_graphs_keep_is_limited():
    """Graphs may keep 8 GiB of the device machine's memory. Destroying a graph frees its part."""
    out = says("far", *HABITS, "hoards", "200", env={"DIVVY_REMOTE_SYNC": "1"})
    assert out == "128 CUDA_ERROR_OUT_OF_MEMORY\nCUDA_SUCCESS\n", out


def a_program_that_only_posts_notices_its_workers_death():
    for place in PLACES:
        for what in ("memset", "host"):
            with Rig() as rig:
                child = begin(rig, place, *HABITS, "posts", what)
                assert child.stdout.readline() == "begun\n", child.communicate()
                (worker,) = workers(rig, NAME)
                os.kill(worker, signal.SIGKILL)
                out, err = child.communicate(timeout=patience())
                assert out == GONE + "\n", (place, what, out, err)


def a_program_may_close_unknown_descriptors():
    for place in PLACES:
        assert says(place, *HABITS, "closes") == "failed\n", place


def a_child_inherits_files_with_reused_numbers():
    for place in PLACES:
        assert says(place, *HABITS, "forks_after_closing") == "0\n", place


def new_threads_get_an_error_after_the_workers_death():
    for delay_ms in (0, 1, 3, 10, 30):
        with Rig() as rig:
            child = begin(rig, "near", *HABITS, "late_threads")
            assert child.stdout.readline() == "begun\n", child.communicate()
            (worker,) = workers(rig, NAME)
            os.kill(worker, signal.SIGKILL)
            time.sleep(delay_ms / 1000)
            out, err = child.communicate("\n", timeout=patience())
            assert (child.returncode, out.split()) == (0, [GONE] * 3), (delay_ms, child.returncode, out, err)


def freed_addresses_are_reused():
    assert int(says("near", *HABITS, "cycles", "8000")) < 20


def total_memory_follows_a_changed_limit():
    for place in PLACES:
        with Rig() as rig:
            child = begin(rig, place, *HABITS, "total")
            assert child.stdout.readline() == "2048\n", child.communicate()
            done = rig.divvy("set", NAME, "--memory", "8Gi")
            assert done.returncode == 0, done.stderr
            out, _ = child.communicate("\n\n", timeout=patience())
            assert out == "8192\n", (place, out)


def forked_children_can_call_nvml():
    for place in PLACES:
        assert says(place, *HABITS, "forks", "20") == "0 of 20 hung\n", place


def a_parent_may_ignore_sigchld():
    """The parent may ignore SIGCHLD, and every process that it starts inherits this setting."""
    deaf = ("sh", "-c", "trap '' CHLD; exec \"$@\"", "sh")
    for place in PLACES:
        assert says(place, "echo", "here", before=deaf) == "here\n", place
    with Rig() as rig:
        server, invitation = serve(rig, NAME, *WISH, before=deaf)
        child = Far(rig).run(invitation, "true")
        assert child.wait(patience()) == 0 and server.wait(patience()) == 0
        wait_for(lambda: not rig.tenant(NAME), "the tenant is removed")


def helpers_do_not_inherit_the_programs_files():
    """No helper process inherits the program's open file."""
    with Rig() as rig:
        path = os.path.join(rig.dir, "mine")
        child = begin(
            rig, "near", "sh", "-c", "echo; exec sleep 60", before=("sh", "-c", f'exec 9> {path}; exec "$@"', "sh")
        )
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
        wait_for(lambda: not alive(child.pid) or child.poll() is not None, "the program has ended")


def the_programs_own_preloads_stay():
    for place in PLACES:
        out = says(place, "sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": "libm.so.6"})
        assert "libdivvy-remote.so" in out and out.endswith(":libm.so.6\n"), (place, out)


main(
    a_program_may_have_many_threads,
    destroyed_graphs_leave_no_memory,
    destroyed_objects_free_the_handles_of_their_parts,
    memory_that_graphs_keep_is_limited,
    a_program_that_only_posts_notices_its_workers_death,
    a_program_may_close_unknown_descriptors,
    a_child_inherits_files_with_reused_numbers,
    new_threads_get_an_error_after_the_workers_death,
    freed_addresses_are_reused,
    total_memory_follows_a_changed_limit,
    forked_children_can_call_nvml,
    a_parent_may_ignore_sigchld,
    helpers_do_not_inherit_the_programs_files,
    the_programs_own_preloads_stay,
)
