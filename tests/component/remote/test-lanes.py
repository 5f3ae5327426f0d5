#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The connections of a session. Each byte arrives at its place, even if connections overtake each
other. The end of one connection ends the session. A connection without the session's key cannot
join."""

import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from far import Far, Proxy, Shim, serve, workers  # noqa: E402
from rig import Rig, alive, main, patience, wait_for  # noqa: E402

CALLER, COPIER = sys.argv[1:3]
WISH = ("--request", "0.2", "--memory", "4Gi")
GONE = "CUDA_ERROR_DEVICE_UNAVAILABLE"
# Connection 0 redeems the invitation; connection 1 is the session's first.
FIRST, FURTHER = 1, 2
OPENING = b"DVBK"


def copies(rig, network, rounds=2, threads=3, seed=1):
    """Runs the copier over a network that the shim degrades by the words of `network`, and checks the
    copier's result."""
    name = f"at-{seed}"
    server, invitation = serve(rig, name, *WISH)
    shim = Shim(rig, invitation, *network)
    child = Far(rig).run(shim.invitation, COPIER, str(rounds), str(threads), str(seed))
    out, err = child.communicate(timeout=patience(280))
    assert child.returncode == 0 and out == "right\n", (network, seed, child.returncode, out, err)
    assert server.wait(patience()) == 0
    wait_for(lambda: not rig.tenant(name), f"tenant {name} is removed")
    shim.end()


def copies_are_right_if_connections_overtake_each_other():
    with Rig() as rig:
        for seed, network in enumerate(
            (
                ("delay=0",),
                ("skew=20000",),
                ("sway=5000",),
                ("delay=300", "sway=30000", "rate=2000", "lame=300"),
                ("sway=2000", "lame=200"),
            )
        ):
            copies(rig, network, seed=seed)


def new_threads_reuse_the_lanes_of_exited_threads():
    """Each new thread gets the lane of a thread that has just exited."""
    with Rig() as rig:
        child = rig.run("--name", "near", *WISH, "--quiet", "--remote", "local", "--", COPIER, "30", "4", "7")
        out, err = child.communicate(timeout=patience(280))
        assert child.returncode == 0 and out == "right\n", (out, err)
        copies(rig, ("sway=300",), rounds=8, threads=6)


def copies_in_flight_may_exceed_the_workers_buffers():
    """The worker's buffers for copies are bounded. A copy that waits for a buffer blocks no copy
    that has a buffer."""
    with Rig() as rig:
        copies(rig, (), rounds=3, threads=16, seed=5)


def the_end_of_any_connection_ends_the_session():
    with Rig() as rig:
        for number, way, after in (
            (FURTHER, "up", 3 << 20),
            (FURTHER + 1, "up", 300000),
            (FURTHER, "down", 3 << 20),
            (FURTHER + 1, "down", 300000),
            (FIRST, "up", 20000),
            (FURTHER + 1, "up", 300),
        ):
            name = f"{number}-{way}-{after}"
            server, invitation = serve(rig, name, *WISH)
            with Proxy(invitation) as proxy:
                proxy.cut_one(number, way, after)
                child = Far(rig).run(proxy.invitation, CALLER, "copy-in" if way == "up" else "copy-out")
                out, err = child.communicate(timeout=patience())
                assert child.returncode == 1 and "CUDA_ERROR" in out, (name, child.returncode, out, err)
                assert server.wait(patience()) == 0
            wait_for(lambda n=name: not rig.tenant(n), f"tenant {name} is removed")
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "the device's memory is free")


def is_ended(sock):
    """True if the connection closes without an answer, not even a TLS record."""
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


def a_connection_without_the_key_cannot_join():
    """The session's name crosses the network in the clear. A peer that knows only the name gets no
    answer."""
    with Rig() as rig:
        server, invitation = serve(rig, "far", *WISH)
        with Proxy(invitation) as proxy:
            child = Far(rig).run(proxy.invitation, CALLER, "copy-in")
            assert child.stdout.readline() == "going\n"
            (worker,) = workers(rig, "far")
            seen = [head for number, head in sorted(proxy.heads.items()) if number >= FURTHER]
            assert len(seen) >= 2 and {len(head) >= 20 and head[:4] == OPENING for head in seen} == {True}, seen
            assert len({head[:20] for head in seen}) == 1, seen
            for text in (seen[0][:20], OPENING + bytes(16), OPENING[:2] + bytes(18), seen[0], OPENING):
                with socket.create_connection(proxy.to, timeout=patience()) as stranger:
                    stranger.sendall(text)
                    if len(text) < 20:
                        stranger.shutdown(socket.SHUT_WR)
                    assert is_ended(stranger), text
            assert child.poll() is None and workers(rig, "far") == [worker]
            child.kill()
            child.communicate()
            assert server.wait(patience()) == 0
        wait_for(lambda: not alive(worker), "the worker has ended")


main(
    copies_are_right_if_connections_overtake_each_other,
    new_threads_reuse_the_lanes_of_exited_threads,
    copies_in_flight_may_exceed_the_workers_buffers,
    the_end_of_any_connection_ends_the_session,
    a_connection_without_the_key_cannot_join,
)
