# SPDX-License-Identifier: Apache-2.0
"""What tests of a GPU on another machine share: both sides on this one, and a proxy between them."""

import os
import select
import socket
import subprocess
import threading

from rig import DIVVY

BACKLOG = 64
PIECE = 65536


def workers(rig, name):
    return [p["pid"] for p in rig.tenant(name).get("processes", [])]


class Far:
    """A program's side: a runtime folder of its own, and no daemon."""

    def __init__(self, rig, **env):
        self.env = {**rig.env, "DIVVY_RUNTIME_DIR": os.path.join(rig.dir, "far"), **env}
        self.children = rig.children

    def run(self, place, *argv, options=(), before=(), stdin=subprocess.DEVNULL):
        child = subprocess.Popen([*before, DIVVY, "run", "--remote", place, *options, "--", *argv], env=self.env,
                                 stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.children.append(child)
        return child


def serve(rig, name, *wish, listen="127.0.0.1:0", before=()):
    """The child, and the invitation that it has printed."""
    child = rig.spawn(*before, DIVVY, "serve", "--listen", listen, "--name", name, *wish)
    return child, child.stdout.readline().strip()


class Proxy:
    """Between the two sides; cuts a connection after so many bytes of one way."""

    def __init__(self, invitation):
        place, key = invitation.split("/")
        host, port = place.rsplit(":", 1)
        self.to = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.invitation = f"127.0.0.1:{self.listener.getsockname()[1]}/{key}"
        self.first, self.later = None, None
        self.threads = [threading.Thread(target=self.accept)]

    def cut_now(self, way, after):
        self.first = (way, after)

    def cut_later(self, way, after):
        """The connections behind the first."""
        self.later = (way, after)

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        # A listener that is shut down ends its accept().
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
            cut = self.later if number else self.first
            number += 1
            self.threads.append(threading.Thread(target=self.carry, args=(near, cut)))
            self.threads[-1].start()

    def carry(self, near, cut):
        with near, socket.create_connection(self.to) as far:
            ways = {near: ("up", far), far: ("down", near)}
            seen = {"up": 0, "down": 0}
            while True:
                for sock in select.select(list(ways), [], [])[0]:
                    way, to = ways[sock]
                    try:
                        data = sock.recv(PIECE)
                        if cut and cut[0] == way:
                            data = data[:cut[1] - seen[way]]
                        to.sendall(data)
                    except ConnectionError:
                        return
                    seen[way] += len(data)
                    if not data or (cut and cut[0] == way and seen[way] >= cut[1]):
                        return
