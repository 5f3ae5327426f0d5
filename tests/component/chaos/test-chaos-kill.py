#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at every point that somebody else can have seen, in every phase of a program's life: another
process of its tenant and another tenant go on, and the books are those of the living right afterwards."""

import os
import subprocess
import time

from machine import CHAOS, Machine, SKIP, SPIN, kill, patience, run, reap, seed_of, skip_all, soaking, wait_for

PHASES = "register context reserve small free launch synchronise destroy".split()
STEPPER = os.path.join(CHAOS, "stepper")
VICTIM = os.path.join(CHAOS, "victim")
POINTS = 1 << 20 if soaking() else 12  # of a phase; more are sampled
SLOW = {"context": 4, "destroy": 4}  # there a life takes seconds, instruction by instruction
KILLS = 200 if soaking() else 25

rng = seed_of("kill")


def step(tenant, phase, point):
    """One life of the victim; how many points it has passed."""
    child = subprocess.Popen([STEPPER, str(PHASES.index(phase) + 1), str(point), VICTIM],
                             env=tenant.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    tenant.machine.children.append(child)
    out, err = child.communicate(timeout=patience(600))
    tenant.machine.children.remove(child)
    assert child.returncode == 0, f"{phase}/{point}: exit {child.returncode}: {out}{err}"
    return int(out.split()[-1])


def sample(phase, points):
    most = POINTS if soaking() else SLOW.get(phase, POINTS)
    if points <= most:
        return range(1, points + 1)
    return sorted(rng.sample(range(1, points + 1), most))


def killed_in(phase):
    def test():
        with Machine() as m:
            mine = m.create("mine", request="0.4", memory="1Gi")
            keeper = mine.spin("--memory=32", "--sync-every=5", kernel_us=200)
            other = m.create("other", request="0.4").spin(kernel_us=300)
            m.goes_on(keeper.pid, other.pid)
            m.books_are_right()
            held = mine.used()
            points = step(mine, phase, 0)
            assert points > 0
            m.books_are_right()
            for point in sample(phase, points):
                step(mine, phase, point)
                m.goes_on(keeper.pid, other.pid, more=3)
                try:
                    m.books_are_right()
                    wait_for(lambda: mine.used() == held, f"the counter is back at {held}, not {mine.used()}")
                except AssertionError as e:
                    raise AssertionError(f"{phase}: killed at point {point} of {points}: {e}") from e
            print(f"# {phase}: {points} points")
    test.__name__ = f"killed_at_the_points_of_{phase}"
    return test


def waiters_are_killed():
    """With the gate closed to them: their wish must go with them."""
    with Machine() as m:
        first = m.create("first", request="0.5", limit="0.5").spin(kernel_us=1000)
        second = m.create("second", request="0.1", limit="0.1")
        for _ in range(KILLS // 5):
            waiter = second.spin(kernel_us=1000)
            wait_for(lambda: second.now()["devices"][0]["wants"], "it waits at its limit")
            kill(waiter)
            m.goes_on(first.pid, more=3)
            m.books_are_right()
        wait_for(lambda: not second.now()["devices"][0]["wants"], "nobody wants any more")


def has_device(tenant):
    """Its gate is open, or its kernel still runs: a long one is a turn by itself, and the gate closes behind it."""
    now = tenant.now()
    device = now["devices"][0]
    return device["holds"] or (device["why"] == "drain" and device["why_tenant"] == now["id"])


def holders_are_killed():
    """In the middle of a long kernel; what had waited for it goes on."""
    with Machine() as m:
        other = m.create("other", request="0.5").spin(kernel_us=500)
        holder = m.create("holder", request="0.5")
        for _ in range(KILLS // 5):
            child = holder.spin(kernel_us=rng.choice([50, 5000, 30000]))
            m.goes_on(child.pid, more=2)
            wait_for(lambda: has_device(holder), "it holds the token")
            kill(child)
            m.goes_on(other.pid, more=3)
            m.books_are_right()


def who_waits_for_memory():
    """Three want more than half of the device: the one that has it, or one that waits, is killed."""
    with Machine() as m:
        tenants = [m.create(f"t{i}", request="0.3", memory="9Gi", memory_policy="wait") for i in range(2)]
        for _ in range(KILLS // 8):
            has = tenants[0].spin("--memory=8400", kernel_us=300)
            m.goes_on(has.pid, more=3)
            waits = [tenants[1].start(SPIN, "--memory=8400", "--kernel-us=300", "--duration=7000") for _ in range(2)]
            first = waits.pop(0)
            time.sleep(rng.random() * 0.05)
            kill(first)  # it waits, or is about to: its place is not kept for it
            kill(has)
            m.goes_on(waits[0].pid, more=3)
            kill(waits[0])
            m.books_are_right()


def a_tenant_that_is_removed_makes_room():
    """Its processes end with it; who waits for what they had is told, though the tenant's book is gone by then."""
    with Machine() as m:
        for _ in range(3):
            first, next_one = [m.create(name, request="0.3", memory="9Gi", memory_policy="wait") for name in "ab"]
            has = first.spin("--memory=8400", kernel_us=300)
            m.goes_on(has.pid, more=3)
            waits = next_one.spin("--memory=8400", kernel_us=300)
            wait_for(lambda t=next_one: t.pids(), "it has registered")
            time.sleep(rng.random() * 0.1)
            has.kill()
            first.remove()  # before the daemon has asked the device what the dead one holds
            has.wait()
            m.goes_on(waits.pid, more=3)
            kill(waits)
            next_one.remove()


def many_are_killed_at_random():
    with Machine() as m:
        tenants = [m.create(f"t{i}", request="0.25", memory="2Gi") for i in range(3)]
        steady = m.create("steady", request="0.2").spin(kernel_us=400)
        living = []
        for _ in range(KILLS):
            m.kernels()  # before the ring has come round
            while len(living) < 5:
                tenant = rng.choice(tenants)
                living.append(tenant.spin(f"--memory={rng.randrange(1, 600)}", f"--streams={rng.randrange(1, 5)}",
                                          f"--sync-every={rng.choice([0, 3])}", kernel_us=rng.choice([20, 700, 4000]),
                                          registered=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            with_delay = rng.random() * 0.05
            if rng.random() < 0.7:
                try:
                    living[-1].wait(with_delay)
                except subprocess.TimeoutExpired:
                    pass
            kill(living.pop(rng.randrange(len(living))))
        m.goes_on(steady.pid)
        for child in living:
            kill(child)
        reap()
        m.books_are_right()
        m.goes_on(steady.pid)
        assert all(t.used() == 0 for t in tenants)


if subprocess.run([STEPPER, "1", "0", "/bin/true"], capture_output=True, check=False).returncode == SKIP:
    skip_all("tracing is not allowed here")
tests = [killed_in(p) for p in PHASES] + [waiters_are_killed, holders_are_killed, who_waits_for_memory,
                                             a_tenant_that_is_removed_makes_room, many_are_killed_at_random]
run(*tests)
