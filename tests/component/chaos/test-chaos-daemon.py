#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed under load, at random and at its own system calls, and replaced by another while
programs run, start and end: none of them dies or hangs, shares come back, the books are right."""

import os
import signal
import subprocess
import time

from machine import CHAOS, DIVVYD, Machine, SKIP, SPIN, fairly, kill, patience, run, seed_of, soaking, survived, wait_for

TIMES = 100 if soaking() else 10
ALIVE_MAX = 24
STEPPER = os.path.join(CHAOS, "stepper")

rng = seed_of("daemon")


def load(m, memory="4Gi"):
    """Three tenants of 0.5, 0.3 and 0.2: one of two processes, one that allocates and waits, one that pauses."""
    a = m.create("a", request="0.5", limit="0.5", memory=memory)
    b = m.create("b", request="0.3", limit="0.3", memory=memory)
    c = m.create("c", request="0.2", limit="0.2", memory=memory)
    return [a, b, c], [
        a.spin("--memory=100", kernel_us=1000),
        a.spin("--memory=50", "--streams=3", kernel_us=200),
        b.spin("--sync-every=4", kernel_us=700),
        c.spin("--memory=7", kernel_us=50),
    ]


def all_registered(m, tenants, spins):
    listed = {p["pid"] for t in m.tenants() for p in t["processes"] if not p["orphan"] and p["command"] == "spin"}
    return all(s.pid in listed for s in spins)


def all_is_well(m, tenants, spins):
    for s in spins:
        assert s.poll() is None, f"{s.args} has died: {s.returncode}: {s.communicate()}"
    wait_for(lambda: all_registered(m, tenants, spins), "all have registered again")
    m.goes_on(*[s.pid for s in spins], more=5)
    m.books_are_right()


def shares_are_right(m, spins):
    """Of time, in the device's trace, by tenant; a coarse look: the benches have the fine one."""
    pids = [s.pid for s in spins]
    # The device's switches between the first one's two processes are in its time, but are no kernels.
    wanted = ((390, 550), (250, 350), (150, 250))

    def look():
        got = m.shares([pids[:2], pids[2:3], pids[3:]], 2)
        wrong = [(round(g), w) for g, w in zip(got, wanted) if not w[0] <= g <= w[1]]
        return wrong and f"shares (got, possible): {wrong}"
    fairly(look, 4)  # what the device was used for while nobody governed it is still being made up for


def killed_at_random_under_load():
    with Machine() as m:
        tenants, spins = load(m)
        all_is_well(m, tenants, spins)
        for _ in range(TIMES):
            time.sleep(rng.random() * 0.15)
            m.kill_daemon()
            time.sleep(rng.choice([0, 0, 0.05, 0.3, 1.3]))
            m.start()
            all_is_well(m, tenants, spins)
        shares_are_right(m, spins)
        for s in spins:
            s.send_signal(signal.SIGTERM)
        for s in spins:
            survived(s)
        m.books_are_right()
        assert all(t.used() == 0 for t in tenants)


def killed_at_its_system_calls():
    """While it starts, takes over, registers and grants."""
    if subprocess.run([STEPPER, "1", "0", "/bin/true"], capture_output=True, check=False).returncode == SKIP:
        print("# tracing is not allowed here")
        return
    with Machine() as m:
        tenants, spins = load(m)
        all_is_well(m, tenants, spins)
        for n in range(TIMES):
            with open(os.path.join(m.dir, "test.log"), "ab") as log:
                point = rng.randrange(1, 400)
                m.kill_daemon()
                m.daemon = subprocess.Popen([DIVVYD, "--simulate", m.simulate], env=m.env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
            # from its first calls on, or when it has served for a moment
            time.sleep(rng.choice([0, 0.002, 0.02, 0.2]))
            comer = tenants[n % 3].start(SPIN, "--count=30", "--kernel-us=100", registered=False)
            done = subprocess.run([STEPPER, "attach", str(point), str(m.daemon.pid)], capture_output=True, text=True,
                                  check=False, timeout=patience())
            assert done.returncode == 0, done.stderr
            m.daemon.wait(patience())
            m.start()
            survived(comer)
            all_is_well(m, tenants, spins)
        shares_are_right(m, spins)


def programs_come_and_go_meanwhile():
    """Registered just before, during and after the daemon's death: each gets through all its work."""
    with Machine(simulate="1xH200-141Gi") as m:  # with room for ALIVE_MAX programs
        tenants, spins = load(m, "40Gi")
        running = []
        for _ in range(TIMES):
            for _ in range(3):
                while len([child for child in running if child.poll() is None]) >= ALIVE_MAX:
                    survived(running.pop(0))
                running.append(rng.choice(tenants).start(SPIN, f"--count={rng.randrange(1, 60)}", "--kernel-us=200",
                                                         f"--memory={rng.randrange(1, 200)}", registered=False))
                time.sleep(rng.random() * 0.01)
            m.kill_daemon()
            m.start()
            if rng.random() < 0.5:
                victim = tenants[1].spin("--memory=20", registered=False)
                time.sleep(rng.random() * 0.02)
                kill(victim)
        for child in running:
            survived(child)
        all_is_well(m, tenants, spins)


def clients_die_while_it_is_gone():
    with Machine() as m:
        tenants, spins = load(m)
        for _ in range(max(2, TIMES // 3)):
            victim = tenants[0].spin("--memory=200", kernel_us=2000)
            m.kill_daemon()
            kill(victim)
            m.start()
            all_is_well(m, tenants, spins)


def killed_while_one_waits_for_memory():
    """It goes on waiting, and gets the memory from the next daemon."""
    with Machine() as m:
        a, b = [m.create(name, request="0.3", memory="9Gi", memory_policy="wait") for name in "ab"]
        for _ in range(max(2, TIMES // 3)):
            has = a.spin("--memory=8400", kernel_us=300)
            m.goes_on(has.pid, more=3)
            waits = b.spin("--memory=8400", kernel_us=300)
            time.sleep(rng.random() * 0.1)
            m.kill_daemon()
            time.sleep(rng.choice([0, 0.3]))
            m.start()
            wait_for(lambda: len(b.pids()) == 1 and len(a.pids()) == 1, "both have registered again")
            m.goes_on(has.pid, more=3)
            time.sleep(rng.random() * 0.3)
            assert waits.poll() is None, waits.communicate()
            kill(has)
            m.goes_on(waits.pid, more=3)
            kill(waits)
            m.books_are_right()


def replaced_under_load():
    with Machine() as m:
        tenants, spins = load(m)
        all_is_well(m, tenants, spins)
        for _ in range(TIMES):
            old = m.daemon
            m.start("--replace")
            assert old.wait(patience()) == 0, "the one that was replaced ends well"
            all_is_well(m, tenants, spins)
        shares_are_right(m, spins)


def a_graceful_end_is_survived_too():
    with Machine() as m:
        tenants, spins = load(m)
        for _ in range(max(2, TIMES // 3)):
            m.stop()
            m.goes_on(*[s.pid for s in spins], more=3)
            m.start()
            all_is_well(m, tenants, spins)


tests = [killed_at_random_under_load, killed_at_its_system_calls, programs_come_and_go_meanwhile,
         clients_die_while_it_is_gone,
         killed_while_one_waits_for_memory, replaced_under_load, a_graceful_end_is_survived_too]
run(*tests)
