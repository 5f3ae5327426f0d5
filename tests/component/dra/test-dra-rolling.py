#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rolling upgrade of a node's DRA driver: two divvyd for a while, as a DaemonSet with maxSurge starts them, and a kubelet that
sends requests all the time to the driver that it has registered last."""

import contextlib
import os
import signal
import socket
import threading

from dra_rig import DraRig, main, patience, wait_for


class Kubelet:
    """For `with`: registers each socket of the registry as it comes, and asks for one claim after another."""

    def __init__(self, rig):
        self.rig, self.registered, self.refused, self.n = rig, {}, [], 0
        self.is_over, self.registering = threading.Event(), threading.Lock()
        self.claim = rig.claim("rolling", 300, "8Gi")
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self.follow, self.ask)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_for(lambda: self.n > 3, "the first requests")
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def follow(self):
        registry = self.rig.path["kubelet/plugins_registry"]
        while not self.is_over.wait(0.05):
            there = {os.path.join(registry, name) for name in self.rig.sockets("kubelet/plugins_registry")}
            for path in list(self.registered):
                if path not in there:
                    del self.registered[path]
            for path in there - set(self.registered):
                # A kubelet uses a driver before it tells the driver so. A socket may be that of a driver that ends.
                with self.registering, contextlib.suppress(AssertionError, IndexError):
                    self.registered[path] = self.rig.register(at=path)[1]

    def newest(self):
        """The socket of the driver that was registered last; None: no driver is registered."""
        with self.registering:
            endpoints = list(self.registered.values())
        return endpoints[-1] if endpoints else None

    def ask(self):
        while not self.is_over.is_set():
            endpoint = self.newest()
            if not endpoint:
                self.is_over.wait(0.02)
                self.refused += ["no driver is registered"] if self.n else []
                continue
            for verb in ("prepare", "unprepare"):
                refusal = self.request(verb, endpoint)
                self.refused += [refusal] if refusal else []
            self.n += 1

    def request(self, verb, endpoint):
        """Asks as a kubelet, which is connected before it chooses the driver. A connection made here may come after the end
        of a driver that another one has replaced meanwhile."""
        while True:
            refusal = self.rig.ask(verb, *self.claim, at=endpoint)[1]
            newer = self.newest()
            if newer in (None, endpoint) or not any(w in refusal for w in ("connect to", "no driver there")):
                return refusal
            endpoint = newer

    def goes_on(self, more=5):
        before = self.n
        wait_for(lambda: self.n >= before + more, "further requests")


def probe(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(patience())
        s.connect(path)
        s.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return int(s.makefile("rb").read().split()[1])


def health(rig, name):
    return os.path.join(rig.dir, name)


def options(rig, name):
    """Each pod has its own port for probes."""
    return "--rolling", "--listen", "127.0.0.1:0", "--health-listen", "unix:" + health(rig, name)


def an_upgrade_leaves_no_gap():
    with DraRig() as rig:
        rig.stop()
        rig.start(*options(rig, "old"))
        old = rig.daemon
        rig.children.append(old)
        kept = rig.claim("kept", 100, "1Gi")
        rig.ask_ok("prepare", *kept)
        with Kubelet(rig) as kubelet:
            rig.daemon = rig.spawn_daemon(*options(rig, "new"))
            wait_for(lambda: "standing by" in rig.log(), "the old daemon stands by")
            kubelet.goes_on()
            wait_for(lambda: len(kubelet.registered) == 1, "one driver is registered")
            assert old.poll() is None and probe(health(rig, "old")) == 200
            wait_for(lambda: probe(health(rig, "new")) == 200, "the new daemon is ready")
            old.send_signal(signal.SIGTERM)  # the DaemonSet deletes the old pod
            assert old.wait(patience()) == 0, rig.log()
            kubelet.goes_on()
        assert not kubelet.refused, kubelet.refused
        assert [c["name"] for c in rig.checkpoint()] == ["kept"], rig.checkpoint()
        rig.is_consistent()


def a_failed_upgrade_gives_the_node_back():
    """The new divvyd ends, and its pod does not come again: the old one serves again."""
    with DraRig() as rig:
        rig.stop()
        rig.start(*options(rig, "old"))
        old = rig.daemon
        kept = rig.claim("kept", 100, "1Gi")
        rig.ask_ok("prepare", *kept)
        new = rig.spawn_daemon(*options(rig, "new"))
        rig.children.append(new)
        wait_for(lambda: "standing by" in rig.log(), "the old daemon stands by")
        wait_for(lambda: rig.divvy("ps").returncode == 0, "the new daemon serves")
        new.kill()
        new.wait(patience())
        wait_for(lambda: rig.divvy("ps").returncode == 0, "the old daemon serves again")
        assert old.poll() is None
        wait_for(lambda: rig.sockets("kubelet/plugins_registry"), "the driver can be registered")
        assert [t["pod"]["claim"] for t in rig.tenants()] == ["kept"], rig.tenants()
        rig.ask_ok("unprepare", *kept)
        assert rig.is_empty()


main(an_upgrade_leaves_no_gap, a_failed_upgrade_gives_the_node_back)
