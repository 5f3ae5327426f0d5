# SPDX-License-Identifier: Apache-2.0
"""Gemini's overhead: seven kinds of program, each alone, with divvy and without."""

from alone import overheads, spinning
from draw import Axis, bars
from judge import estimate, largest

# Each program runs for some seconds, counted from its first kernel, without the start of the process.
KINDS = {
    "training": ("--kernel-us=5000", "--sync-every=4", "--count=500"),
    "small kernels": ("--kernel-us=20", "--count=100000"),
    "inference": ("--kernel-us=2000", "--sync-every=1", "--count=1000"),
    "stencil": ("--kernel-us=200", "--sync-every=20", "--count=10000"),
    "notebook": ("--kernel-us=3000", "--burst-on=30", "--burst-off=30", "--count=500"),
}
REQUESTS = {
    "allocations": ("alloc", "600"),
    "streams": ("streams", "400"),
}  # programs of bench/requests, which are known to cost
TIMES = {"allocations": 40, "streams": 40}  # short runs, many times: the time differs from start to start


def run(world):
    requests = {kind: (world.build / "bench/requests", *rounds) for kind, rounds in REQUESTS.items()}
    overhead = overheads(world, {**spinning(world, KINDS), **requests}, {} if world.quick else TIMES)
    world.measure(overhead=largest(overhead.values()))
    world.draw(
        bars(
            "G1: time with divvy against without, alone",
            "request = limit = 1",
            Axis("time against no library", 0, 1.4),
            list(overhead),
            ["divvy"],
            [[(1 + estimate(v).mean, estimate(v).half)] for v in overhead.values()],
            bands=[(1.05, "Gemini's claim")],
        )
    )
