#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of a pod that attacks a daemon's socket which its container does not mount.
usage: intruder.py SOCKET PID [--below NAMES] [--uid N] [--secret HEX] [--started TICKS] [--lend PID] [--times N]
It joins the cgroups of PID, or makes cgroups NAMES below them, becomes that user, sends HELLO and prints the daemon's answer. With --lend a child in the cgroups of that PID sends
HELLO over its parent's connection; with --times it opens that many connections and sends nothing. It stays until its stdin
ends."""

import argparse
import json
import os
import resource
import socket
import struct
import sys

HELLO, WELCOME, REFUSED, ABI = 1, 2, 3, 1
HEAD = struct.Struct("<IHHIi")
REST = struct.Struct("<II16sQiI32s")


def cgroups_of(pid):
    """The folders of a process's cgroups in all trees."""
    trees = {}
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for line in f:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split()
            if kind in ("cgroup", "cgroup2"):
                for name in [""] if kind == "cgroup2" else options.split(","):
                    trees[name] = before.split()[4]
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
        for line in f:
            _, names, path = line.rstrip("\n").split(":", 2)
            tree = trees.get(names.split(",")[0])
            if tree:
                yield tree + path


def join(pid, below):
    """Joins cgroups; returns the folders that it made. It skips a version 1 cgroup whose controller needs settings first."""
    made = []
    for folder in set(cgroups_of(pid)):
        for name in below.split("/") if below else ():
            folder = os.path.join(folder, name)
            os.mkdir(folder)
            made.append(folder)
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if os.path.exists(os.path.join(folder, setting)):
                    with open(os.path.join(os.path.dirname(folder), setting), encoding="ascii") as f:
                        value = f.read()
                    with open(os.path.join(folder, setting), "w", encoding="ascii") as f:
                        f.write(value)
        with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as f:
            f.write("0")
    return made


def hello(connection, secret, started):
    rest = REST.pack(0, ABI, bytes.fromhex(secret), started, 0, 0, b"somebody else")
    connection.send(HEAD.pack(HEAD.size + len(rest), HELLO, ABI, 1, 0) + rest)
    answer, fds, _, _ = socket.recv_fds(connection, 1 << 16, 64)
    kind = HEAD.unpack_from(answer)[1]
    if kind == REFUSED:
        return {"refused": answer[HEAD.size :].split(b"\0")[0].decode()}
    assert kind == WELCOME, kind
    return {"tenant": struct.unpack_from("<Q", answer, HEAD.size)[0], "pages": len(fds)}


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    return connection


def main(args):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A change of folder first: after setresuid() the folders above the socket may be closed to the process.
    os.chdir(os.path.dirname(args.socket))
    path = os.path.basename(args.socket)
    made = join(args.pid, args.below)
    if args.uid:
        os.setresuid(args.uid, args.uid, args.uid)
    connections = [connect(path) for _ in range(args.times)]
    answer = {"connections": len(connections)} if args.times > 1 else None
    if args.lend and not os.fork():
        join(args.lend, "")
        print(json.dumps(hello(connections[0], args.secret, args.started)), flush=True)
        sys.stdin.read()
        os._exit(0)
    if not args.lend:
        answer = answer or hello(connections[0], args.secret, args.started)
        print(json.dumps(answer), flush=True)
    sys.stdin.read()
    if made:
        join(os.getppid(), "")
    for folder in reversed(made):
        os.rmdir(folder)


PARSER = argparse.ArgumentParser()
PARSER.add_argument("socket")
PARSER.add_argument("pid", type=int)
PARSER.add_argument("--below", default="")
PARSER.add_argument("--uid", type=int, default=0)
PARSER.add_argument("--secret", default="00" * 16)
PARSER.add_argument("--started", type=int, default=0)
PARSER.add_argument("--lend", type=int)
PARSER.add_argument("--times", type=int, default=1)
main(PARSER.parse_args())
