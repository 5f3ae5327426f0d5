#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon with the next wire version takes over while programs run, and later a daemon with the
version before. Programs with either library run on and keep their shares."""

import os
import signal
import subprocess

from machine import (
    DIVVYD_BEFORE,
    HOOK_BEFORE,
    HOOKS,
    Machine,
    fairly,
    kill,
    run,
    survived,
    wait_for,
)
from rig import BUILD, DIVVYD, patience

SIMCTL = os.path.join(BUILD, "src/simgpu/divvy-simctl")
BEFORE = {"LD_PRELOAD": ":".join([HOOK_BEFORE, *HOOKS[1:]])}


def replace(m, program):
    """Upgrades like an administrator: stops the daemon, then starts the next program."""
    m.stop()
    m.program = program
    m.start()


def versions(m):
    """The highest wire version that the daemon speaks."""
    with m.peer() as peer:
        return peer.ask(cmd="ping")["abi"]


def all_run(m, *spins):
    def registered():
        return {p["pid"] for t in m.tenants() for p in t["processes"] if not p["orphan"]}

    for s in spins:
        assert s.poll() is None, f"{s.args} has died: {s.returncode}: {s.communicate()}"
    wait_for(lambda: registered() >= {s.pid for s in spins}, "all programs have registered again")
    m.goes_on(*[s.pid for s in spins])
    m.books_are_right()


def have_their_shares(m, low, high):
    """
    In the device's own trace no tenant exceeds its limit, and `high` gets more than `low`, unlike without a daemon. How
    near each comes to its limit also depends on the processors; the benches measure that.
    """

    def look():
        got = m.shares([[low.pid], [high.pid]], 2)
        return (
            ""
            if got[0] < 340 and got[1] < 640 and got[1] > 1.4 * got[0] > 0
            else f"shares: {got}, of at most 300 and 600"
        )

    fairly(look, 6)  # first the arbiter compensates for use without a daemon


def start(m):
    low = m.create("low", request="0.3", limit="0.3", memory="1Gi")
    high = m.create("high", request="0.6", limit="0.6", memory="1Gi")
    return low, high


def old_programs_run_on_under_a_new_daemon():
    with Machine(env={"DIVVY_SIM_LIBS": os.path.join(BUILD, "src/simgpu")}) as m:
        replace(m, DIVVYD_BEFORE)
        assert versions(m) == 1
        low, high = start(m)
        spins = [low.spin("--memory=100", env=BEFORE), high.spin("--memory=50", env=BEFORE)]
        all_run(m, *spins)
        replace(m, DIVVYD)
        assert versions(m) == 2
        all_run(m, *spins)
        have_their_shares(m, *spins)
        # Old programs can still reserve memory, and new programs can start beside them.
        newer = high.spin("--memory=20")
        all_run(m, *spins, newer)
        kill(newer)
        for s in spins:
            s.send_signal(signal.SIGTERM)
            survived(s)
        m.books_are_right()
        assert low.used() == high.used() == 0


def new_programs_run_on_under_an_old_daemon():
    with Machine(env={"DIVVY_SIM_LIBS": os.path.join(BUILD, "src/simgpu")}) as m:
        low, high = start(m)
        spins = [low.spin("--memory=100"), high.spin("--memory=50", env=BEFORE)]
        all_run(m, *spins)
        replace(m, DIVVYD_BEFORE)
        assert versions(m) == 1 and m.divvy("ps").returncode == 0
        all_run(m, *spins)
        have_their_shares(m, *spins)
        late = low.spin()  # a library of the next version that registers with the old daemon
        all_run(m, *spins, late)
        replace(m, DIVVYD)
        all_run(m, *spins, late)


def old_and_new_daemons_take_over_from_each_other():
    """divvyd --replace: one daemon serves at any time."""
    with Machine(env={"DIVVY_SIM_LIBS": os.path.join(BUILD, "src/simgpu")}) as m:
        for program, speaks in ((DIVVYD_BEFORE, 1), (DIVVYD, 2), (DIVVYD_BEFORE, 1)):
            last, m.program = m.daemon, program
            m.start("--replace")
            last.wait(patience())
            wait_for(lambda s=speaks: versions(m) == s, "the new daemon serves")


def other_wire_versions_are_refused_with_a_reason():
    with Machine(env={"DIVVY_SIM_LIBS": os.path.join(BUILD, "src/simgpu")}) as m:
        tenant = m.create("one")
        for version, hello_version in ((0, 0), (3, 2)):
            with m.peer() as peer:
                peer.hello(tenant.secret, abi=version)
                kind, status, body, _ = peer.receive()
                text = body.split(b"\0")[0].decode()
                assert kind == "REFUSED" and status, (kind, status)
                assert f"protocol version {version}; expected version 1 or 2" in text, text
                assert peer.version == hello_version, peer.version
        # Clients of both versions register, each in its own version.
        for version in (1, 2):
            with m.peer() as peer:
                peer.hello(tenant.secret, abi=version)
                assert peer.receive()[0] == "WELCOME" and peer.version == version


def only_new_clients_get_the_message_about_a_lost_device():
    with Machine(env={"DIVVY_SIM_LIBS": os.path.join(BUILD, "src/simgpu")}) as m:
        tenant = m.create("one", memory="1Gi")
        with m.peer() as old, m.peer() as new:
            for peer, version in ((old, 1), (new, 2)):
                peer.hello(tenant.secret, abi=version)
                assert peer.receive()[0] == "WELCOME"
            spin = tenant.spin()
            m.goes_on(spin.pid)
            faults = os.path.join(m.dir, "lost")
            with open(faults, "w", encoding="ascii") as f:
                f.write("lost device=0 after=1\n")
            subprocess.run([SIMCTL, "--dir", m.sim, "faults", faults], check=True)
            said = ""
            while not said.endswith("is lost: the driver cannot reach it any more"):
                kind, _, body, _ = new.receive()
                said = body[8:].split(b"\0")[0].decode() if kind == "SAY" else ""
                # A message about an Xid error may come first.
                assert kind and (not said or said.startswith("device GPU-")), (kind, said)
            old.socket.setblocking(False)
            while True:
                try:
                    kind = old.receive()[0]
                except BlockingIOError:
                    break
                assert kind not in ("SAY", None), kind


run(
    old_programs_run_on_under_a_new_daemon,
    new_programs_run_on_under_an_old_daemon,
    old_and_new_daemons_take_over_from_each_other,
    other_wire_versions_are_refused_with_a_reason,
    only_new_clients_get_the_message_about_a_lost_device,
)
