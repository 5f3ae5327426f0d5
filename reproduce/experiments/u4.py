# SPDX-License-Identifier: Apache-2.0
"""KubeGPU's race: clients over the network on one device, each with a share, and first come, first served."""

from contextlib import ExitStack

from draw import Axis, Line, lines
from far import NETWORKS, Far, started, use
from judge import estimate, ratios

CLIENTS = (1, 2, 4, 6, 8)
NAMES = {"share": "a share each", "fifo": "no bound"}
HOST = next(network for network in NETWORKS if network.kind == "host")


def jain(speeds):
    return sum(speeds) ** 2 / (len(speeds) * sum(v * v for v in speeds))


def speeds(world, n, policy, duration_s):
    """The part of the device that each of n clients has."""
    share = f"{int(1000 / n) / 1000:g}"
    wish = ("--request", share, "--limit", share) if policy == "share" else ("--request", "0.01", "--limit", "1")
    with world.node(policy=policy) as node, ExitStack() as stack:
        children = []
        for i in range(n):
            far = stack.enter_context(Far(node, HOST, (*wish, "--memory", "5%")))
            children.append(
                started(
                    node,
                    far.wish,
                    f"--duration={duration_s}",
                    "--kernel-us=1000",
                    *(["--sync-every=1"] if i % 2 else []),
                )
            )
        return [use(child) for child in children]


def run(world):
    duration_s = 3 if world.quick else 6
    got = {policy: {} for policy in NAMES}
    for n in world.few(CLIENTS):
        for policy, by_n in got.items():
            by_n[n] = []
            for seed in range(world.seeds):
                world.note(f"{n} clients, {policy}, run {seed + 1} of {world.seeds}")
                by_n[n].append(speeds(world, n, policy, duration_s))
    index = {policy: {n: [jain(v) for v in runs] for n, runs in by_n.items()} for policy, by_n in got.items()}
    world.measure(
        jain=min(index["share"].values(), key=lambda values: estimate(values).mean - estimate(values).half),
        of_unbounded=ratios(*(by_n[CLIENTS[-1]] for by_n in index.values())),
    )
    world.draw(
        lines(
            "U4: clients over the network that race for a device",
            "50 us each way, 9 Gbit/s; kernels of 1 ms; every second client waits for each of its own",
            Axis("clients", 0, 9),
            Axis("Jain's index of their device time", 0, 1.1),
            [Line(NAMES[policy], [(n, *estimate(v)[:2]) for n, v in by_n.items()]) for policy, by_n in index.items()],
        )
    )
    took = {
        (policy, which): [(n, *estimate([1 / which(v) for v in runs])[:2]) for n, runs in by_n.items()]
        for policy, by_n in got.items()
        for which in (min, max)
    }
    top = max(mean + half for points in took.values() for _, mean, half in points)
    world.draw(
        lines(
            "U4: how long they take",
            "until a client has had its kernels run for a second: the slowest and the quickest of those at once",
            Axis("clients", 0, 9),
            Axis("seconds", 0, 1.1 * top),
            [
                Line(f"{NAMES[policy]}, {'slowest' if which is min else 'quickest'}", points, dashed=which is max)
                for (policy, which), points in took.items()
            ],
        ),
        "time",
    )
