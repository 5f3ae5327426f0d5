# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests with a GPU on another machine: both sides run here, with a proxy between
them."""

import contextlib
import os
import select
import socket
import subprocess
import threading

from rig import BUILD, DIVVY
from tap import patience, stat_of

BACKLOG = 64
PIECE = 65536


def workers(rig, name):
    return [p["pid"] for p in rig.tenant(name).get("processes", [])]


def descendants(pid):
    """Returns the pids of all descendants of the process."""
    parent = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parent[int(entry)] = stat_of(entry).parent
    found, new = [], {pid}
    while new:
        new = {child for child, above in parent.items() if above in new}
        found += new
    return found


class Far:
    """The program's side: it has its own runtime folder, and no daemon."""

    def __init__(self, rig, **env):
        self.env = {**rig.env, "DIVVY_RUNTIME_DIR": os.path.join(rig.dir, "far"), **env}
        self.children = rig.children

    def run(self, place, *argv, options=(), before=(), stdin=subprocess.DEVNULL):
        child = subprocess.Popen(
            [*before, DIVVY, "run", "--remote", place, *options, "--", *argv],
            env=self.env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child


def serve(rig, name, *wish, listen="127.0.0.1:0", before=()):
    """Starts divvy serve. Returns the child and the invitation that it printed."""
    child = rig.spawn(*before, DIVVY, "serve", "--listen", listen, "--name", name, *wish)
    return child, child.stdout.readline().strip()


class Shim:
    """A network between both sides, which a test can degrade: tests/programs/link-shim."""

    def __init__(self, rig, invitation, *words):
        place, key = invitation.split("/")
        self.child = subprocess.Popen(
            [os.path.join(BUILD, "tests/programs/link-shim"), place, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        rig.children.append(self.child)
        self.invitation = f"127.0.0.1:{self.child.stdout.readline().strip()}/{key}"

    def say(self, word):
        self.child.stdin.write(word + "\n")
        self.child.stdin.flush()

    def end(self):
        self.child.communicate("quit\n", timeout=patience())


class Proxy:
    """A proxy between both sides. Cuts a connection after some bytes in one direction, and keeps the
    first bytes that the program's side sends on each connection."""

    def __init__(self, invitation):
        place, key = invitation.split("/")
        host, port = place.rsplit(":", 1)
        self.to = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.invitation = f"127.0.0.1:{self.listener.getsockname()[1]}/{key}"
        self.first, self.later, self.one = None, None, {}
        self.heads = {}
        self.threads = [threading.Thread(target=self.accept)]

    def cut_now(self, way, after):
        self.first = (way, after)

    def cut_later(self, way, after):
        """Cuts every connection but the first."""
        self.later = (way, after)

    def cut_one(self, number, way, after):
        """Cuts one connection, counted from 0."""
        self.one[number] = (way, after)

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        # Shutting the listener down ends its accept().
        self.listener.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.listener.close()

    def accept(self):
        number = 0
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            cut = self.one.get(number) or (self.later if number else self.first)
            self.threads.append(threading.Thread(target=self.carry, args=(near, cut, number)))
            self.threads[-1].start()
            number += 1

    def carry(self, near, cut, number):
        with near, socket.create_connection(self.to) as far:
            ways = {near: ("up", far), far: ("down", near)}
            seen = {"up": 0, "down": 0}
            while True:
                for sock in select.select(list(ways), [], [])[0]:
                    way, to = ways[sock]
                    try:
                        data = sock.recv(PIECE)
                        if way == "up":
                            self.heads.setdefault(number, data)
                        if cut and cut[0] == way:
                            data = data[: cut[1] - seen[way]]
                        to.sendall(data)
                    except ConnectionError:
                        return
                    seen[way] += len(data)
                    if not data or (cut and cut[0] == way and seen[way] >= cut[1]):
                        return
