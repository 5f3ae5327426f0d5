#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at every point that another process can have observed, in every phase of a program's
life. Another process of its tenant and another tenant continue, and the ledger then counts exactly
the living processes."""

import os
import subprocess
import time

from machine import CHAOS, Machine, SKIP, SPIN, kill, patience, run, reap, seed_of, skip_all, soaking, wait_for

PHASES = "register context reserve small free launch synchronise destroy".split()
STEPPER = os.path.join(CHAOS, "stepper")
VICTIM = os.path.join(CHAOS, "victim")
POINTS = 1 << 20 if soaking() else 12  # most points tried in a phase; of more points, a random sample
SLOW = {"context": 4, "destroy": 4}  # single-stepping these phases takes seconds
KILLS = 200 if soaking() else 25

rng = seed_of("kill")


def step(tenant, phase, point):
    """Runs the victim once and returns how many points it has passed."""
    child = subprocess.Popen(
        [STEPPER, str(PHASES.index(phase) + 1), str(point), VICTIM],
        env=tenant.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
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
                    wait_for(lambda: mine.used() == held, f"the ledger counts {held} bytes again, not {mine.used()}")
                except AssertionError as e:
                    raise AssertionError(f"{phase}: killed at point {point} of {points}: {e}") from e
            print(f"# {phase}: {points} points")

    test.__name__ = f"killed_at_the_points_of_{phase}"
    return test


def waiting_programs_are_killed():
    """Programs wait at closed gates. When they are killed, the daemon must drop their requests for
    the token."""
    with Machine() as m:
        first = m.create("first", request="0.5", limit="0.5").spin(kernel_us=1000)
        second = m.create("second", request="0.1", limit="0.1")
        for _ in range(KILLS // 5):
            waiter = second.spin(kernel_us=1000)
            wait_for(lambda: second.now()["devices"][0]["wants"], "the program wants the token")
            kill(waiter)
            m.goes_on(first.pid, more=3)
            m.books_are_right()
        wait_for(lambda: not second.now()["devices"][0]["wants"], "no program of the tenant wants the token")


def has_device(tenant):
    """True if the tenant's gate is open or its kernel still runs: the gate closes behind a long
    kernel."""
    now = tenant.now()
    device = now["devices"][0]
    return device["holds"] or (device["why"] == "drain" and device["why_tenant"] == now["id"])


def programs_that_hold_the_token_are_killed():
    """A program is killed in the middle of a long kernel; a waiting program continues."""
    with Machine() as m:
        other = m.create("other", request="0.5").spin(kernel_us=500)
        holder = m.create("holder", request="0.5")
        for _ in range(KILLS // 5):
            child = holder.spin(kernel_us=rng.choice([50, 5000, 30000]))
            m.goes_on(child.pid, more=2)
            wait_for(lambda: has_device(holder), "the program holds the token")
            kill(child)
            m.goes_on(other.pid, more=3)
            m.books_are_right()


def programs_that_wait_for_memory_are_killed():
    """Three programs need more than half of the device: the holder or a waiting program is
    killed."""
    with Machine() as m:
        tenants = [m.create(f"t{i}", request="0.3", memory="9Gi", memory_policy="wait") for i in range(2)]
        for _ in range(KILLS // 8):
            has = tenants[0].spin("--memory=8400", kernel_us=300)
            m.goes_on(has.pid, more=3)
            waits = [tenants[1].start(SPIN, "--memory=8400", "--kernel-us=300", "--duration=7000") for _ in range(2)]
            first = waits.pop(0)
            time.sleep(rng.random() * 0.05)
            kill(first)  # the killed program's place in the queue must end with it
            kill(has)
            m.goes_on(waits[0].pid, more=3)
            kill(waits[0])
            m.books_are_right()


def a_removed_tenants_memory_goes_to_a_waiting_program():
    """The tenant's processes end with it, and a program that waits for their memory gets it, even
    though the daemon has removed the tenant's ledger."""
    with Machine() as m:
        for _ in range(3):
            first, next_one = [m.create(name, request="0.3", memory="9Gi", memory_policy="wait") for name in "ab"]
            has = first.spin("--memory=8400", kernel_us=300)
            m.goes_on(has.pid, more=3)
            waits = next_one.spin("--memory=8400", kernel_us=300)
            wait_for(lambda t=next_one: t.pids(), "the waiting program has registered")
            time.sleep(rng.random() * 0.1)
            has.kill()
            first.remove()  # before the daemon has asked the device for the dead process's memory
            has.wait()
            m.goes_on(waits.pid, more=3)
            kill(waits)
            next_one.remove()


def many_programs_are_killed_at_random():
    with Machine() as m:
        tenants = [m.create(f"t{i}", request="0.25", memory="2Gi") for i in range(3)]
        steady = m.create("steady", request="0.2").spin(kernel_us=400)
        living = []
        for _ in range(KILLS):
            m.kernels()  # reads the records before the ring overwrites them
            while len(living) < 5:
                tenant = rng.choice(tenants)
                living.append(
                    tenant.spin(
                        f"--memory={rng.randrange(1, 600)}",
                        f"--streams={rng.randrange(1, 5)}",
                        f"--sync-every={rng.choice([0, 3])}",
                        kernel_us=rng.choice([20, 700, 4000]),
                        registered=False,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                )
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
tests = [killed_in(p) for p in PHASES] + [
    waiting_programs_are_killed,
    programs_that_hold_the_token_are_killed,
    programs_that_wait_for_memory_are_killed,
    a_removed_tenants_memory_goes_to_a_waiting_program,
    many_programs_are_killed_at_random,
]
run(*tests)
