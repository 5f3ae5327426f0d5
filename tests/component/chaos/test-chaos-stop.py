#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP for a waiting program, for an idle holder, and for a holder in the middle of a
submission; and a holder that gets a tenth of a processor. The token passes to other programs. After
SIGCONT the program continues."""

import contextlib
import os
import signal
import time

from machine import MIB, Machine, fairly, run, seed_of, soaking, wait_for
from tap import patience, stat_of

TIMES = 60 if soaking() else 6

rng = seed_of("stop")


def freeze(child):
    child.send_signal(signal.SIGSTOP)
    wait_for(lambda: stat_of(child.pid).state == "T", "the program is stopped")


def thaw(child):
    child.send_signal(signal.SIGCONT)
    wait_for(lambda: stat_of(child.pid).state != "T", "the program continues")


def frozen(name, child, m, *others):
    """Checks that other programs continue while `child` is stopped, and that all continue
    afterwards."""
    freeze(child)
    m.goes_on(*[o.pid for o in others])
    m.books_are_right()
    thaw(child)
    m.goes_on(child.pid, *[o.pid for o in others])
    m.books_are_right()


def a_stopped_waiting_program_does_not_block_others():
    with Machine() as m:
        first = m.create("first", request="0.5", limit="0.6").spin(kernel_us=1000)
        second = m.create("second", request="0.1", limit="0.2")
        waiter = second.spin(kernel_us=1000)
        m.goes_on(first.pid, waiter.pid, more=3)
        for _ in range(TIMES):
            wait_for(lambda: second.now()["devices"][0]["wants"], "the program wants the token")
            frozen("waiter", waiter, m, first)


def a_stopped_idle_holder_does_not_block_others():
    """The holder has synchronised and computes on the processor; then another program comes."""
    with Machine() as m:
        holder = m.create("holder", request="0.5").spin("--burst-on=20", "--burst-off=40", kernel_us=1000)
        other = m.create("other", request="0.5")
        for _ in range(max(2, TIMES // 2)):
            m.goes_on(holder.pid, more=2)
            wait_for(lambda: not busy(m, holder.pid), "the holder runs no kernel")
            freeze(holder)
            comer = other.spin(kernel_us=300)
            m.goes_on(comer.pid)
            m.books_are_right()
            thaw(holder)
            m.goes_on(comer.pid, holder.pid)
            comer.kill()
            comer.wait()
            m.books_are_right()


def busy(m, pid):
    before = m.kernels_of(pid)
    time.sleep(0.01)
    return m.kernels_of(pid) != before


def a_stopped_busy_holder_does_not_block_others():
    with Machine() as m:
        holder = m.create("holder", request="0.5").spin("--streams=3", kernel_us=50)
        other = m.create("other", request="0.4").spin(kernel_us=300)
        m.goes_on(holder.pid, other.pid)
        for _ in range(TIMES):
            time.sleep(rng.random() * 0.03)
            frozen("holder", holder, m, other)


def programs_stopped_at_random_do_not_block_others():
    with Machine() as m:
        spins = [
            m.create(f"t{i}", request="0.2").spin(f"--streams={1 + i}", kernel_us=[50, 300, 2000, 9000][i])
            for i in range(4)
        ]
        for _ in range(TIMES):
            who = rng.sample(spins, rng.randrange(1, 4))
            for child in who:
                child.send_signal(signal.SIGSTOP)
            m.goes_on(*[c.pid for c in spins if c not in who], more=5)
            for child in who:
                child.send_signal(signal.SIGCONT)
        m.goes_on(*[c.pid for c in spins])
        m.books_are_right()


def free(m):
    return m.ask(cmd="devices")["devices"][0]["memory_free_bytes"]


def a_stopped_program_of_a_removed_tenant_keeps_its_memory():
    """The daemon grants the program's memory to no other tenant before the program exits, at its
    next launch."""
    with Machine() as m:
        all_of_it = free(m)
        tenant = m.create("removed", request="0.5", memory="8Gi")
        child = tenant.spin("--memory=6000", kernel_us=500)
        m.goes_on(child.pid)
        freeze(child)
        tenant.remove()
        held = sum(m.account().values())
        assert held > 6000 * MIB and free(m) <= all_of_it - held, f"{free(m)} are free, {held} are held"
        with m.peer() as peer:
            answer = peer.ask(cmd="create", name="next", spec={"request": "0.1", "memory": str(all_of_it)})
        assert not answer["ok"] and "free for quotas" in answer["error"], answer
        thaw(child)
        assert child.wait(patience()) == 1
        wait_for(lambda: free(m) == all_of_it, "the removed tenant's memory is free")
        m.create("next", request="0.1", memory=str(all_of_it)).remove()


@contextlib.contextmanager
def a_tenth_of_a_processor(child):
    """A cgroup with 10 ms of each 100 ms; without cgroups, SIGSTOP and SIGCONT in the same
    rhythm."""
    name = f"divvy-test-{os.getpid()}"
    for root, quota, value in (
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000"),
        ("/sys/fs/cgroup", "cpu.max", "10000 100000"),
    ):
        group = os.path.join(root, name)
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(os.path.join(group, quota), "w", encoding="utf-8") as f:
                f.write(value)
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="utf-8") as f:
                f.write(str(child.pid))
        except OSError:
            os.rmdir(group)
            continue
        try:
            yield "cgroup"
        finally:
            child.kill()
            child.wait()
            wait_for(
                lambda: not open(os.path.join(group, "cgroup.procs"), encoding="utf-8").read(), "the cgroup is empty"
            )
            os.rmdir(group)
        return
    yield "signals"


def a_holder_with_a_tenth_of_a_processor_does_not_block_others():
    with Machine() as m:
        other = m.create("other", request="0.5").spin(kernel_us=500)
        holder = m.create("holder", request="0.5").spin("--streams=4", kernel_us=20)
        m.goes_on(other.pid, holder.pid)
        with a_tenth_of_a_processor(holder) as how:
            print(f"# by {how}")
            end = time.monotonic() + (20 if soaking() else 4)
            while time.monotonic() < end:
                if how == "signals":
                    holder.send_signal(signal.SIGSTOP)
                    time.sleep(0.09)
                    holder.send_signal(signal.SIGCONT)
                    time.sleep(0.01)
                m.goes_on(other.pid, more=3)
            m.goes_on(holder.pid, more=3)

            def look():
                """The holder cannot use its half, so the other program gets at least its own
                half."""
                got = m.shares([[other.pid]], 2)[0]
                return "" if got >= 450 else f"the other got {got}/1000 beside a holder that is hardly ever there"

            fairly(look, 3)
            m.books_are_right()


tests = [
    a_stopped_waiting_program_does_not_block_others,
    a_stopped_idle_holder_does_not_block_others,
    a_stopped_busy_holder_does_not_block_others,
    a_stopped_program_of_a_removed_tenant_keeps_its_memory,
    programs_stopped_at_random_do_not_block_others,
    a_holder_with_a_tenth_of_a_processor_does_not_block_others,
]
run(*tests)
