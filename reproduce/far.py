# SPDX-License-Identifier: Apache-2.0
"""Programs whose device is over a network: a real server and worker behind a link that delays and limits its bytes as asked
(tests/programs/link-shim). Also, which network placement chooses."""

import json
import subprocess
from typing import NamedTuple

from node import spawn


class Network(NamedTuple):
    name: str
    kind: str  # as `divvy sim` names it
    latency_us: float  # one way
    gbit: float


NETWORKS = (Network("overlay", "overlay", 200, 3), Network("host", "host", 50, 9), Network("RDMA", "direct", 5, 40))

WISH = ("--request", "0.5", "--limit", "1", "--memory", "10%")

# A device on one node, and cores on another one; {networks} are the networks of both nodes.
SPEC = """nodes:
  - {{name: a, devices: 1, cpu: {cpu}}}
  - {{name: b, cpu: {far_cpu}}}
networks:
{networks}tasks:
  - {{request: {request}, cpu: {cores}, duration: 100s}}
"""


CORES = 4  # of a program


def decided(place, networks, cpu=1, request="0.5", far_cpu=8):
    """Placement's decision for a program, if `cpu` cores are free on the device's node and `far_cpu` on the other node."""
    both = "".join(
        f"  - {{node: {node}, kind: {n.kind}, bandwidth: {n.gbit:g}Gbps, latency: {n.latency_us:g}us}}\n"
        for n in networks
        for node in ("a", "b")
    )
    return place.one(
        "default", SPEC.format(networks=both, cpu=cpu, request=request, cores=CORES, far_cpu=far_cpu), "--mode", "drop"
    )["decisions"][0]


class Far:
    """A server for one program, and the link to it. `wish` has the options with which `divvy run` uses the server."""

    def __init__(self, node, network, wish=WISH):
        self.children = []
        invitation = self.start(node, node.build / "src/cli/divvy", "serve", "--listen", "127.0.0.1:0", *wish)
        place, key = invitation.split("/")
        port = self.start(
            node,
            node.build / "tests/programs/link-shim",
            place,
            f"delay={int(network.latency_us)}",
            f"rate={int(network.gbit * 1000)}",
        )
        self.wish = ("--remote", f"127.0.0.1:{port}/{key}")

    def start(self, node, *command):
        """Starts a process and returns its first line."""
        child = spawn(
            command, env=node.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.children.append(child)
        line = child.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{command[0].name} ended with {child.wait()}: {child.stderr.read().strip()}")
        return line

    def sent_bytes(self):
        """(bytes to the device's node, bytes back) on the link so far."""
        link = self.children[-1]
        link.stdin.write("count\n")
        link.stdin.flush()
        return tuple(map(int, link.stdout.readline().split()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.terminate()
            child.communicate()


def launched(node, wish, *command):
    return spawn(
        [node.build / "src/cli/divvy", "run", "--quiet", *wish, "--", *command],
        env=node.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(node, wish, *options):
    """A program (tests/programs/spin) with these options of `divvy run`."""
    return launched(node, wish, node.build / "tests/programs/spin", *options)


def said(child):
    """All that the program prints until its end."""
    words, error = child.communicate()
    if child.returncode:
        raise RuntimeError(f"{' '.join(map(str, child.args))} ended with {child.returncode}: {error.strip()}")
    return words


def told(child):
    return json.loads(said(child))


def use(child):
    """The part of the program's time in which its kernels ran."""
    answer = told(child)
    return answer["kernel_ns"] / answer["elapsed_ns"]


def seconds(node, wish, options):
    """Seconds that the program takes for its kernels."""
    return told(started(node, wish, *options))["elapsed_ns"] / 1e9


def loop_seconds(node, wish, steps):
    """Seconds for that many steps of a training, each of 200 kernels, two waits, 1 MiB in and 1 MiB out
    (bench/remote-load)."""
    words = said(launched(node, wish, node.build / "bench/remote-load", str(steps), "steps"))
    return steps * float(dict(line.split() for line in words.splitlines())["loop_ms"]) / 1000
