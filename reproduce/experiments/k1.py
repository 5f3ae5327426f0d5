# SPDX-License-Identifier: Apache-2.0
"""KubeShare's inference service: how much of its device it uses, against the rate of its clients."""

import pathlib
import sys

from draw import Axis, Line, lines
from judge import estimate
from node import SETTLE_S, busy

REQUESTS_MS = (20, 50)
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PROGRAM = pathlib.Path(__file__).parent.parent / "program.py"


def perform(world, ms, seconds, seed):
    """{(ms a request, load): (demand, use)}"""
    with world.node(devices=f"{len(LOADS)}xH200-141Gi") as node:
        for i, load in enumerate(LOADS):
            node.launch(
                f"at-{load}",
                ("--request", "1", "--memory", "10%", "--device", str(i)),
                sys.executable,
                PROGRAM,
                "serve",
                str(load),
                str(ms),
                str(seconds),
                str(len(LOADS) * seed + i),
            )
        ran = node.finish()
        came = {load: [float(line) for line in node.said(f"at-{load}")] for load in LOADS}
    got = {}
    for load in LOADS:
        begin = came[load][0] + SETTLE_S
        end = begin + seconds - 2 * SETTLE_S
        asked = sum(begin <= at < end for at in came[load]) * ms / 1000
        got[ms, load] = asked / (end - begin), busy(ran[f"at-{load}"], begin, end) / (end - begin)
    return got


def run(world):
    seconds = 7 if world.quick else 25
    runs = []
    for seed in range(world.seeds):
        runs.append({})
        for ms in REQUESTS_MS:
            world.note(f"run {seed + 1} of {world.seeds}, requests of {ms} ms")
            runs[-1].update(perform(world, ms, seconds, seed))
    world.measure(
        from_demand=[max(abs(use - asked) for (_, load), (asked, use) in got.items() if load <= 0.8) for got in runs],
        saturated=[min(got[ms, 1.0][1] for ms in REQUESTS_MS) for got in runs],
    )
    world.draw(
        lines(
            "K1: use of the device against the clients' rate",
            f"requests of {' or '.join(map(str, REQUESTS_MS))} ms by Poisson, {seconds} s",
            Axis("part of the device that the rate asks for", 0, 1, percent=True),
            Axis("use of the device", 0, 1, percent=True),
            [
                line
                for ms in REQUESTS_MS
                for line in (
                    Line(
                        f"used, {ms} ms", [(load, *estimate([got[ms, load][1] for got in runs])[:2]) for load in LOADS]
                    ),
                    Line(
                        f"asked for, {ms} ms",
                        [(load, estimate([got[ms, load][0] for got in runs]).mean) for load in LOADS],
                        dashed=True,
                        marks=False,
                    ),
                )
            ],
        )
    )
