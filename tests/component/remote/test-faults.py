#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process of a remote session ends or the connection breaks: the program's next call fails, and
the device keeps nothing of the program. Over shared memory and over a link."""

import os
import signal
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from far import Far, Proxy, serve, workers  # noqa: E402
from rig import SPIN, Rig, alive, main, patience, wait_for  # noqa: E402

CALLER = sys.argv[1]
GONE = "CUDA_ERROR_DEVICE_UNAVAILABLE"
CALLS = (
    "launch",
    "synchronise",
    "copy-in",
    "copy-out",
    "copy-later",
    "allocate",
    "load",
    "host-function",
    "record",
    "graph",
    "threads",
    "wait-long",
    "wait-for-host",
)
PLACES = ("local", "link")
# Two lists of (place, call). Each list has each call once, and half of the calls at each place. A call
# that runs at one place in the first list runs at the other place in the second list.
MIXED = [[(PLACES[(i + half) % 2], call) for i, call in enumerate(CALLS)] for half in (0, 1)]
WISH = ("--request", "0.05", "--memory", "1Gi")


class Remote:
    """A program with a remote device, and the processes of its session."""

    def __init__(self, rig, name, place, *argv):
        self.rig, self.name, self.server = rig, name, None
        if place == "link":
            self.server, invitation = serve(rig, name, *WISH)
            self.child = Far(rig).run(invitation, *argv)
        else:
            self.child = rig.run("--name", name, *WISH, "--quiet", "--remote", "local", "--", *argv)
        said = self.child.stdout.readline()
        assert said == "going\n", (name, said, self.child.communicate())
        self.worker = next(iter(workers(rig, name)), None)  # None if the worker has finished already.

    def fails(self):
        """Checks that the call and all following calls fail with GONE."""
        out, err = self.child.communicate(timeout=patience())
        said = [line.split(": ")[1] for line in out.splitlines()]
        assert self.child.returncode == 1 and said == [GONE] * 3, (self.name, self.child.returncode, out, err)

    def is_freed(self):
        wait_for(lambda: self.worker is None or not alive(self.worker), f"{self.name}'s worker has ended")
        wait_for(lambda: not self.rig.tenant(self.name), f"{self.name}'s tenant is removed")
        assert not self.server or self.server.wait(patience()) is not None


def a_program_ends_with_its_last_thread():
    """The first thread exits before the last one; the library's own threads do not count."""
    with Rig() as rig:
        for place in PLACES:
            one = Remote(rig, place, place, CALLER, "leave")
            # Text after the first line is in the file's buffer, which communicate() does not read.
            out, err = one.child.stdout.read(), one.child.stderr.read()
            assert one.child.wait(patience()) == 0 and out == "done\n", (place, one.child.returncode, out, err)
            one.is_freed()
        device_is_empty(rig)


def device_is_empty(rig):
    wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "the device's memory is free")
    wait_for(lambda: not [f for f in os.listdir(rig.dir) if f.startswith("remote-")], "no socket is left")


def at_each_call(cases, fault, ends):
    """Causes the fault in all calls at once. The program `beside`, which has its own worker, goes on."""
    with Rig() as rig:
        beside = rig.spin("beside", "--request", "0.05", "--memory", "1Gi", "--remote", "local")
        running = [Remote(rig, f"{place}-{call}", place, CALLER, call) for place, call in cases]
        for one in running:
            assert one.child.poll() is None, (
                one.name,
                one.child.returncode,
                one.child.communicate(),
                one.worker and alive(one.worker),
                one.server and one.server.poll(),
            )
        for one in running:
            fault(one)
        for one in running:
            ends(one)
            one.is_freed()
        assert beside.poll() is None, (beside.returncode, beside.communicate())
        assert len(workers(rig, "beside")) == 1, rig.tenant("beside")
        rig.end(beside)
        device_is_empty(rig)


def each_call_fails_after_its_worker_is_killed():
    at_each_call(MIXED[0], lambda one: os.kill(one.worker, signal.SIGKILL), Remote.fails)


def a_program_killed_in_any_call_leaves_nothing():
    def ends(one):
        assert one.child.wait(patience()) == -signal.SIGKILL
        one.child.communicate()

    at_each_call(MIXED[1], lambda one: one.child.kill(), ends)


def a_restarted_daemon_is_not_noticed():
    with Rig() as rig:
        running = [Remote(rig, place, place, CALLER, "synchronise") for place in PLACES]
        rig.stop(signal.SIGKILL)
        rig.start()
        wait_for(
            lambda: all(workers(rig, one.name) == [one.worker] for one in running), "both workers are registered again"
        )
        for one in running:
            assert one.child.poll() is None
            one.child.kill()
            one.child.communicate()
            one.is_freed()


def a_message_cut_anywhere_is_an_error():
    """The connection is cut after some bytes up or down: in the handshake, in a note, in a frame,
    or in the middle of a large copy."""
    with Rig() as rig:
        for way, cuts in {"up": (1, 300, 900, 1500, 5000, 700001), "down": (1, 700, 1300, 2500, 500001)}.items():
            for cut in cuts:
                name = f"{way}-{cut}"
                server, invitation = serve(rig, name, *WISH)
                with Proxy(invitation) as proxy:
                    # The first connection redeems the invitation; later connections belong to
                    # processes.
                    proxy.cut_later(way, cut)
                    call = "copy-in" if way == "up" else "copy-out"
                    child = Far(rig).run(proxy.invitation, CALLER, call)
                    out, err = child.communicate(timeout=patience())
                    assert child.returncode == 1 and "CUDA_ERROR" in out, (name, child.returncode, out, err)
                assert server.wait(patience()) == 0
                wait_for(lambda n=name: not rig.tenant(n), f"tenant {name} is removed")
        device_is_empty(rig)


def an_invitation_survives_a_cut_join():
    with Rig() as rig:
        server, invitation = serve(rig, "far", *WISH)
        with Proxy(invitation) as proxy:
            proxy.cut_now("up", 20)
            child = Far(rig).run(proxy.invitation, "true")
            assert child.wait(patience()) == 125, child.communicate()
            child.communicate()
        child = Far(rig).run(invitation, SPIN, "--count=3", "--kernel-us=10")
        assert child.wait(patience()) == 0, child.communicate()
        child.communicate()
        assert server.wait(patience()) == 0


def silent_connections_do_not_delay_a_program():
    """Opens more silent connections than the server keeps. The server must not wait for them in turn."""
    with Rig() as rig:
        server, invitation = serve(rig, "far", *WISH)
        host, port = invitation.split("/")[0].split(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(40)]
        child = Far(rig).run(invitation, SPIN, "--kernel-us=500", "--duration=120")
        wait_for(lambda: workers(rig, "far"), "the program has a worker")
        # More connections meanwhile; beyond 64 the server closes the oldest.
        strangers += [socket.create_connection((host, int(port))) for _ in range(60)]
        wait_for(lambda: ended(strangers[0]), "the server closes the oldest silent connection")
        child.kill()
        child.communicate()
        assert server.wait(patience()) == 0
        for stranger in strangers:
            stranger.close()


def ended(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def one_invitation_admits_one_program():
    with Rig() as rig:
        server, invitation = serve(rig, "far", *WISH)
        children = []
        start = threading.Barrier(4)

        def go():
            start.wait()
            children.append(Far(rig).run(invitation, "sleep", "300"))

        threads = [threading.Thread(target=go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_for(lambda: sum(child.poll() is None for child in children) == 1, "all but one are refused")
        for child in children:
            assert child.poll() in (None, 125)
            child.kill()
            child.communicate()
        assert server.wait(patience()) == 0


main(
    each_call_fails_after_its_worker_is_killed,
    a_program_killed_in_any_call_leaves_nothing,
    a_restarted_daemon_is_not_noticed,
    a_message_cut_anywhere_is_an_error,
    an_invitation_survives_a_cut_join,
    a_program_ends_with_its_last_thread,
    silent_connections_do_not_delay_a_program,
    one_invitation_admits_one_program,
)
