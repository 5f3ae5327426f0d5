# SPDX-License-Identifier: Apache-2.0
"""Gemini's overhead: five kinds of program, each alone, with divvy and without."""

from draw import Axis, bars
from judge import estimate, ratios

# Some seconds each; long enough that a start does not matter, which is not in the time anyhow.
KINDS = {
    "training": ("--kernel-us=5000", "--sync-every=4", "--count=500"),
    "small kernels": ("--kernel-us=20", "--count=100000"),
    "inference": ("--kernel-us=2000", "--sync-every=1", "--count=1000"),
    "stencil": ("--kernel-us=200", "--sync-every=20", "--count=10000"),
    "notebook": ("--kernel-us=3000", "--burst-on=30", "--burst-off=30", "--count=500"),
}

WHY = ("A launch costs nanoseconds more, and nobody else wants the device. What is seen here is the machine: the simulated device, "
       "the daemon and the program share its processors. Time is from the first kernel's start to the last one's end.")


def seconds(world, policy, options):
    with world.node(policy=policy) as node:
        node.start("it", ("--request", "1", "--memory", "50%"), *options)
        ran = node.finish()["it"]
    return ran[-1][1] - ran[0][0]


def run(world):
    overhead = {}
    for kind, options in KINDS.items():
        bare, shared = [], []
        for i in range(world.seeds):
            world.note(f"{kind}, pair {i + 1} of {world.seeds}")
            bare.append(seconds(world, None, options))
            shared.append(seconds(world, "share", options))
        overhead[kind] = [r - 1 for r in ratios(shared, bare)]
    world.measure(overhead=max(overhead.values(), key=lambda values: estimate(values).mean))
    world.draw(bars("G1: time with divvy against without, alone", "request = limit = 1",
                    Axis("time against no library", 0, 1.4), list(overhead), ["divvy"],
                    [[(1 + estimate(v).mean, estimate(v).half)] for v in overhead.values()],
                    bands=[(1.05, "Gemini's claim")]))
