# SPDX-License-Identifier: Apache-2.0
"""KubeGPU's flow of decisions: one request to the engine for each leaf, and the reason of its decision."""

from typing import NamedTuple

from draw import matrix


# One node has a device and four cores, the other sixteen cores and no device; both are in one rack.
NODES = ("{name: a, devices: 1, cpu: 4, memory: 16Gi, rack: r}", "{name: b, cpu: 16, rack: r}")
FAR = ("{name: a, devices: 1, cpu: 4, memory: 16Gi, rack: r}", "{name: b, cpu: 16, rack: s}")
THREE = (*FAR, "{name: c, cpu: 16, rack: r}")
HOST, OVERLAY, DIRECT = (
    "bandwidth: 9Gbps, latency: 50us",
    "bandwidth: 3Gbps, latency: 200us",
    "bandwidth: 40Gbps, latency: 5us",
)
SHARE, WHOLE, BIG, BIG_WHOLE = (
    "request: 0.5, cpu: 1",
    "request: 1, cpu: 1",
    "request: 0.5, cpu: 8",
    "request: 1, cpu: 8",
)


class Leaf(NamedTuple):
    """The decision on the last task counts. The other tasks come before it."""

    name: str
    tasks: tuple
    outcome: str
    says: str
    networks: tuple = (("a", "host", HOST), ("b", "host", HOST))
    nodes: tuple = NODES


NEARNESS = ("refused", "queued", "remote", "local", "exclusive")


def ends(*kinds):
    """Networks of these kinds at both ends."""
    return tuple((node, kind, speed) for kind, speed in kinds for node in ("a", "b"))


MODES = (
    Leaf("whole device", (WHOLE,), "exclusive", "exclusive: 1 whole device on a"),
    Leaf("share, fits", (SHARE,), "local", "local: 0.5 of 1 device on a"),
    Leaf("share, not together", (BIG,), "remote", "remote: runs on b, device on a"),
    Leaf("whole, not together", (BIG_WHOLE,), "remote", "remote: runs on b, device on a"),
    Leaf("nothing free", (WHOLE, SHARE), "queued", "queued, neither together nor over the network: "),
    Leaf("exclusive asked", (WHOLE + ", mode: exclusive",), "exclusive", "exclusive: 1 whole device on a"),
    Leaf("exclusive asked, of a share", (SHARE + ", mode: exclusive",), "refused", "exclusive"),
    Leaf(
        "exclusive asked, half taken", (SHARE, WHOLE + ", mode: exclusive"), "queued", "queued, exclusive was asked: "
    ),
    Leaf("local asked", (SHARE + ", mode: local",), "local", "local: 0.5 of 1 device on a, as asked"),
    Leaf("local asked, not together", (BIG + ", mode: local",), "queued", "queued, local was asked: "),
    Leaf(
        "remote asked, fits here",
        (SHARE + ", mode: remote",),
        "remote",
        "remote, as asked: devices and tenant are on a",
    ),
    Leaf("remote asked", (BIG + ", mode: remote",), "remote", "remote: runs on b, device on a"),
    Leaf("remote asked, nothing free", (WHOLE, BIG + ", mode: remote"), "queued", "queued, remote was asked: "),
)
WAYS = (
    Leaf(
        "all three kinds",
        (BIG,),
        "remote",
        "over RDMA or SR-IOV",
        ends(("overlay", OVERLAY), ("host", HOST), ("direct", DIRECT)),
    ),
    Leaf("no RDMA", (BIG,), "remote", "over the host's network", ends(("overlay", OVERLAY), ("host", HOST))),
    Leaf("an overlay only", (BIG,), "remote", "over an overlay network", ends(("overlay", OVERLAY))),
    Leaf(
        "RDMA at one end only",
        (BIG,),
        "remote",
        "over the host's network",
        (*ends(("host", HOST)), ("a", "direct", DIRECT)),
    ),
    Leaf(
        "no kind at both ends",
        (BIG,),
        "queued",
        "(no network of one kind at both ends): ",
        (("a", "direct", DIRECT), ("b", "host", HOST)),
    ),
    Leaf(
        "same rack first",
        (BIG,),
        "remote",
        "runs on c, device on a over the host's network, 1 hop,",
        (("a", "host", HOST), ("b", "host", HOST), ("c", "host", HOST)),
        THREE,
    ),
    Leaf("another rack", (BIG,), "remote", "2 hops", nodes=FAR),
    Leaf(
        "less load first",
        (BIG + ", network: 1Gbps", "request: 0.2, cpu: 8, network: 1Gbps"),
        "remote",
        "runs on c",
        (("a", "host", HOST), ("b", "host", HOST), ("c", "host", HOST)),
        (*NODES, "{name: c, cpu: 16, rack: r}"),
    ),
    Leaf(
        "latency bound, not RDMA",
        (BIG + ", network: 150us",),
        "remote",
        "over the host's network",
        ends(("direct", "bandwidth: 40Gbps, latency: 500us"), ("host", HOST)),
    ),
    Leaf("latency bound, none keeps it", (BIG + ", network: 20us",), "queued", "at both ends, 20 us)"),
    Leaf(
        "bandwidth used up",
        ("request: 0.3, cpu: 8, network: 5Gbps", "request: 0.3, cpu: 8, network: 5Gbps"),
        "queued",
        "at both ends, 5000 Mbit/s)",
    ),
)


def spec(leaf):
    parts = (
        "nodes:",
        *(f"  - {node}" for node in leaf.nodes),
        "networks:",
        *(f"  - {{node: {node}, kind: {kind}, {speed}}}" for node, kind, speed in leaf.networks),
        "tasks:",
        *(f"  - {{{task}, duration: 100s}}" for task in leaf.tasks),
    )
    return "\n".join(parts) + "\n"


def ask(place, leaf):
    """(outcome, reason)"""
    try:
        last = place.one("default", spec(leaf), "--mode", "drop")["decisions"][-1]
    except RuntimeError as e:
        return "refused", str(e).rsplit("mode ", 1)[-1]
    return last["outcome"], last["why"]


def run(world):
    agreed = 0
    for leaves, title, part in (
        (MODES, "U6: the mode, leaf by leaf", ""),
        (WAYS, "U6: the way over the network, leaf by leaf", "ways"),
    ):
        cells = []
        for leaf in leaves:
            outcome, why = ask(world.place, leaf)
            fine = outcome == leaf.outcome and leaf.says in why
            agreed += fine
            shown = why if len(why) < 96 else why.split(": ", 1)[0] + ": ..."
            cells.append([(shown, NEARNESS.index(outcome) / len(NEARNESS), fine)])
        world.draw(
            matrix(
                title,
                "one request for each; framed where not as the flow has it; the darker, the nearer the device",
                ["what is decided, and why"],
                [leaf.name for leaf in leaves],
                cells,
                "",
            ),
            part,
        )
    world.measure(leaves=agreed / (len(MODES) + len(WAYS)))
