#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links with an RDMA adapter at each side, which is a library that takes libibverbs' place: long copies go over it,
arrive, and end with it; and a side without one has TLS for all."""

import contextlib
import os
import signal
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from far import Far, descendants, serve  # noqa: E402
from rig import Rig, main, patience, wait_for  # noqa: E402

CALLER, COPIER, ADAPTER = map(os.path.abspath, sys.argv[1:4])
WISH = ("--request", "0.2", "--memory", "4Gi")
USED = "bulk data goes over RDMA"
GONE = "CUDA_ERROR_DEVICE_UNAVAILABLE"


class Adapters:
    """Both sides have one. The daemon and the simulated device have been started before."""

    def __init__(self, rig):
        self.folder = os.path.join(rig.dir, "verbs")
        self.file = os.path.join(self.folder, "bytes")
        os.mkdir(self.folder)
        os.symlink(ADAPTER, os.path.join(self.folder, "libibverbs.so.1"))
        with open(self.file, "wb") as f:
            f.write(bytes(8))
        rig.env.update(LD_LIBRARY_PATH=self.folder, FAKE_VERBS=self.folder, DIVVY_LOG="debug")

    def carried(self):
        with open(self.file, "rb") as f:
            return struct.unpack("=Q", f.read(8))[0]


def copies(rig, name, here=None, there=None):
    before = dict(rig.env)
    rig.env.update(there or {})
    server, invitation = serve(rig, name, *WISH)
    rig.env = before
    child = Far(rig, **(here or {})).run(invitation, COPIER, "4", "3", "1")
    out, err = child.communicate(timeout=patience(280))
    assert child.returncode == 0 and out == "right\n", (name, child.returncode, out, err)
    assert server.wait(patience()) == 0
    wait_for(lambda: not rig.tenant(name), f"{name} is gone")
    return server.stderr.read()


def long_copies_go_over_it():
    with Rig() as rig:
        adapters = Adapters(rig)
        said = copies(rig, "with")
        assert USED in said, (said, adapters.carried())
        assert adapters.carried() > 32 << 20, adapters.carried()


def a_side_without_one_has_tls():
    with Rig() as rig:
        adapters = Adapters(rig)
        for n, (here, there) in enumerate(((None, "off"), ("off", None), ("other0", None), (None, "other0"))):
            sides = [side and {"DIVVY_REMOTE_VERBS": side} for side in (here, there)]
            said = copies(rig, f"without-{n}", *sides)
            assert USED not in said, said
        assert adapters.carried() == 0


def its_end_is_the_sessions():
    """The side of the device is killed while a copy goes over it."""
    with Rig() as rig:
        adapters = Adapters(rig)
        server, invitation = serve(rig, "ends", *WISH)
        child = Far(rig).run(invitation, CALLER, "copy-in")
        assert child.stdout.readline() == "going\n"
        wait_for(lambda: adapters.carried() > 8 << 20, "a copy is on its way")
        for pid in (server.pid, *descendants(server.pid)):
            with contextlib.suppress(ProcessLookupError):  # they end with their parent
                os.kill(pid, signal.SIGKILL)
        out, err = child.communicate(timeout=patience())
        assert child.returncode == 1 and GONE in out, (child.returncode, out, err)
        wait_for(lambda: not rig.tenant("ends"), "its tenant is gone")


main(long_copies_go_over_it, a_side_without_one_has_tls, its_end_is_the_sessions)
