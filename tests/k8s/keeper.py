#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parent of all processes of a test cluster, so that none of them outlives the test.

The test starts a keeper and sends it requests over a socket, one JSON object a packet, one answer each. On request, or after
the test's end for any reason, the keeper kills its children and their descendants (orphans become its children: it is their
subreaper). Then it runs the registered undos, newest first. It signals only children that it has not reaped, so never another
process with a reused pid. If the keeper itself is killed, the kernel kills the parts, and the next node's start cleans up.

usage: keeper.py FD     of a SOCK_SEQPACKET socket; other inherited descriptors stay open till the end"""
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tap import patience  # noqa: E402

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PACKET_MAX = 1 << 16
FOLDERS_LOCK = "\0divvy-k8s-folders"
MARK = ".divvy-k8s-"  # prefix of the marks that users leave in a mount point they made
LIBC = ctypes.CDLL(None)


def children():
    """The children of this process, which has one thread."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as f:
        return [int(pid) for pid in f.read().split()]


# ---- actions to undo at the end: a function for each kind


def undo_tree(path):
    shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


@contextlib.contextmanager
def folders_to_itself():
    """A lock: no other keeper on this machine makes or removes mount points meanwhile."""
    with socket.socket(socket.AF_UNIX) as lock:
        end = time.monotonic() + patience()
        while True:
            try:
                lock.bind(FOLDERS_LOCK)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        yield


def undo_folder(path, mark):
    """Removes a mount point that a keeper made, if this was its last user and it is empty. (Other mounts inside would vanish
    with it.)"""
    with folders_to_itself():
        for undo, what in (os.unlink, mark), (os.rmdir, path):
            with contextlib.suppress(OSError):
                undo(what)
    return not os.path.lexists(mark)


def undo_controllers(path, value):
    """Resets the controllers of cgroups below `path`, except those that others use by now."""
    with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as f:
        f.write(value)
    return True


def undo_link(name):
    if os.path.exists(f"/sys/class/net/{name}"):
        subprocess.run(["ip", "link", "del", name], stdin=subprocess.DEVNULL, check=False, timeout=patience())
    return not os.path.exists(f"/sys/class/net/{name}")


def undo_cgroup(path):
    """Kills all processes in the cgroup tree and removes the tree; every process in it is ours."""
    end = time.monotonic() + patience()
    while os.path.isdir(path) and time.monotonic() < end:
        for parent, _, _ in os.walk(path, topdown=False):
            with contextlib.suppress(OSError):
                with open(os.path.join(parent, "cgroup.procs"), encoding="ascii") as f:
                    for pid in f.read().split():
                        os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.rmdir(parent)
        time.sleep(0.02)
    return not os.path.isdir(path)


UNDO = {
    "tree": undo_tree,
    "folder": undo_folder,
    "controllers": undo_controllers,
    "link": undo_link,
    "cgroup": undo_cgroup,
}


class Keeper:
    def __init__(self, sock):
        self.sock = sock
        self.pids = {}  # of parts that live, by name
        self.exits = {}  # how ended parts exited: a code, or minus a signal
        self.undo = []
        self.held = {}  # sockets whose only purpose is their name, as locks
        self.ended = False

    def start(self, name, argv, log, env):
        if name in self.pids:
            raise ValueError(f"{name} runs already")

        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        with open(log, "ab") as out:
            child = subprocess.Popen(
                argv,
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=prepare,
            )
        child.returncode = 0  # it is reaped below, not by this object
        self.pids[name] = child.pid
        self.exits.pop(name, None)
        return {"pid": child.pid}

    def signal(self, name, sig):
        """Signals a part that has not been reaped, so never another process."""
        if name in self.pids:
            os.kill(self.pids[name], sig)
        return {"pid": self.pids.get(name)}

    def status(self, name):
        return {"pid": self.pids.get(name), "exit": self.exits.get(name)}

    def add_undo(self, kind, args):
        if kind not in UNDO:
            raise ValueError(f"undo {kind}: one of {', '.join(UNDO)}")
        self.undo.append((kind, args))
        return {}

    @staticmethod
    def tidy(kind, args):
        """Undoes now an action of a killed keeper."""
        return {"done": UNDO[kind](*args)}

    def hold(self, address):
        """Binds a socket to that name until the end: a lock that no crash leaves behind."""
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(address)
        except OSError:
            lock.close()
            return {"held": False}
        self.held[address] = lock
        return {"held": True}

    def release(self, address):
        self.held.pop(address).close()
        return {}

    def make_folder(self, path, number):
        """Makes a mount point; returns whether it did not exist before. number: this user's among those who may use the folder
        at the same time; it names this user's mark in the folder."""
        mark = os.path.join(path, f"{MARK}{number}")
        with folders_to_itself():
            if os.path.isdir(path) and not any(name.startswith(MARK) for name in os.listdir(path)):
                return {"made": False}
            self.add_undo("folder", [path, mark])
            os.makedirs(path, exist_ok=True)
            with open(mark, "w", encoding="ascii"):
                pass
        return {"made": True}

    def end(self):
        """Removes everything; returns what could not be removed."""
        self.ended = True
        stop = time.monotonic() + patience()
        while time.monotonic() < stop:
            self.reap()
            left = children()
            if not left:
                break
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        wrong = [f"process {pid}" for pid in children()]
        for kind, args in reversed(self.undo):
            try:
                done = UNDO[kind](*args)
            except (OSError, subprocess.SubprocessError) as error:
                done = False
                args = [*args, str(error)]
            if not done:
                wrong.append(f"{kind} {' '.join(args)}")
        return {"left": wrong}

    def reap(self):
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                for name in [n for n, p in self.pids.items() if p == pid]:
                    del self.pids[name]
                    self.exits[name] = os.waitstatus_to_exitcode(status)

    def answer(self, packet):
        request = json.loads(packet)
        todo = {
            "start": self.start,
            "signal": self.signal,
            "status": self.status,
            "undo": self.add_undo,
            "tidy": self.tidy,
            "hold": self.hold,
            "release": self.release,
            "folder": self.make_folder,
            "end": self.end,
        }[request.pop("do")]
        try:
            return todo(**request)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return {"error": str(error)}

    def serve(self, wakeup):
        """Serves until the test ends."""
        while not self.ended:
            readable, _, _ = select.select([self.sock, wakeup], [], [])
            if wakeup in readable:
                signals = os.read(wakeup, 512)
                if bytes([signal.SIGTERM]) in signals:
                    break
            self.reap()
            if self.sock not in readable:
                continue
            packet = self.sock.recv(PACKET_MAX)
            if not packet:
                break
            self.sock.send(json.dumps(self.answer(packet)).encode())


def main():
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer)
    for sig in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, lambda *_: None)  # not ignored, since children would inherit that
    keeper = Keeper(socket.socket(fileno=int(sys.argv[1])))
    try:
        keeper.serve(reader)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the test died between a request and its answer
    finally:
        if not keeper.ended:
            keeper.end()


if __name__ == "__main__":
    main()
