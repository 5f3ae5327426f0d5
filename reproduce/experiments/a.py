# SPDX-License-Identifier: Apache-2.0
"""GaiaGPU's experiments: overhead alone, 0.3 beside 0.7 with small and large grids, and the soft limit."""

from alone import overheads, spinning
from draw import Axis, Line, bars, lines
from judge import estimate
from node import SETTLE_S, TooBusy, busy, curve

# Steps are as long as those of these trainings on a present device. Each program runs for 2 s.
KINDS = {
    "MNIST": ("--kernel-us=50", "--sync-every=20", "--count=40000"),
    "CIFAR-10": ("--kernel-us=500", "--sync-every=20", "--count=4000"),
    "AlexNet": ("--kernel-us=4000", "--sync-every=10", "--count=500"),
}
SHARES = {"small": 0.3, "large": 0.7}
GRIDS = {"4 blocks": 4, "4,096 blocks": 4096}
USED = 0.95  # of the device: idle time counts as used from here on
LOOK_S = 0.1


def partition(world, grid, lasts_s):
    """({name: share received}, when each program ran)"""
    with world.node() as node:
        for name, share in SHARES.items():
            node.start(
                name,
                ("--request", str(share), "--limit", str(share), "--memory", "10%"),
                f"--blocks={grid}",
                f"--duration={lasts_s}",
            )
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(intervals[-1][1] for intervals in ran.values())
    return {name: busy(intervals, begin, end) / (end - begin) for name, intervals in ran.items()}, ran


def soft_limit(world):
    """(seconds from the end of one program until the other, which may use all, does so; when each program ran)"""
    with world.node() as node:
        node.start("stays", ("--request", "0.3", "--limit", "1", "--memory", "10%"), "--duration=4")
        node.start("leaves", ("--request", "0.7", "--memory", "10%"), "--duration=2")
        ran = node.finish()
    left, end, at = ran["leaves"][-1][1], ran["stays"][-1][1], 0.0
    while busy(ran["stays"], left + at, left + at + LOOK_S) < USED * LOOK_S:
        at += 0.001
        if left + at + LOOK_S > end:
            raise TooBusy("what was left idle was never used: the machine is too busy to tell")
    return at, ran


def run(world):
    overhead = overheads(world, spinning(world, KINDS))
    off, rises, got = [], [], {grid: [] for grid in GRIDS}
    for i in range(world.seeds):
        for grid, blocks in GRIDS.items():
            world.note(f"0.3 beside 0.7, {grid}, run {i + 1} of {world.seeds}")
            got[grid].append(partition(world, blocks, 3 if world.quick else 5)[0])
        off.append(max(abs(got[grid][i][name] - share) for grid in GRIDS for name, share in SHARES.items()))
        world.note(f"soft limit, run {i + 1} of {world.seeds}")
        rise, ran = soft_limit(world)
        rises.append(rise)
    world.measure(
        overhead=[sum(values) / len(values) for values in zip(*overhead.values())], partition=off, soft_limit_s=rises
    )
    world.draw(
        bars(
            "A: time with divvy against without, alone",
            "request = limit = 1",
            Axis("time against no library", 0, 1.4),
            list(overhead),
            ["divvy"],
            [[(1 + estimate(v).mean, estimate(v).half)] for v in overhead.values()],
            bands=[(1.01015, "GaiaGPU's mean")],
        )
    )
    world.draw(
        bars(
            "A: 0.3 beside 0.7",
            "request = limit, kernels of 1 ms",
            Axis("share of the device", 0, 1, percent=True),
            list(GRIDS),
            [f"set to {share}" for share in SHARES.values()],
            [[estimate([g[name] for g in values])[:2] for name in SHARES] for values in got.values()],
            bands=[(share, f"{share}") for share in SHARES.values()],
        ),
        "partition",
    )
    begin, end = min(v[0][0] for v in ran.values()), ran["stays"][-1][1]
    world.draw(
        lines(
            "A: what is left idle",
            "0.3 to 1 beside 0.7, which leaves; windows of 0.2 s; the last run",
            Axis("seconds", 0, end - begin),
            Axis("share of the device", 0, 1, percent=True),
            [Line(name, curve(v, begin, end, 0.2, 0.02), marks=False) for name, v in ran.items()],
        ),
        "soft",
    )
