# SPDX-License-Identifier: Apache-2.0
"""Gemini's foreseeing: what of a program's work lies behind the end of its turn."""

import pathlib
import sys

from draw import Axis, Line, lines
from node import SETTLE_S

KINDS = ("periodic", "bimodal", "drifting")
TURN_MS = 30  # the most that a turn of divvy's may last
PROGRAM = pathlib.Path(__file__).parent.parent / "program.py"

WHY = ("Gemini foresees bursts, up to the next wait, and grants a quota for them; a burst that is longer than foreseen overruns it. divvy "
       "foresees kernels one by one, and lets only so many into the device as should end with the turn. What is always alike is foreseen, "
       "and what drifts nearly so. Of two lengths in random order, which nothing tells apart, several that were taken for short ones can be "
       "in the device when they turn out long, up to the four of a burst. A turn is what the program runs without another's kernel "
       "between, read from the device's trace, while the other, which never pauses, waits; what is beyond 30 ms lies behind its end.")


def behind(world, kind, seconds, seed):
    """Of each turn that the program with bursts had, the milliseconds that lie behind its end."""
    with world.node() as node:
        node.start("steady", ("--request", "0.5", "--memory", "10%"), f"--duration={seconds + 0.5}")
        node.launch("bursts", ("--request", "0.5", "--memory", "10%"), sys.executable, PROGRAM, "bursts", kind, str(seconds), str(seed))
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(intervals[-1][1] for intervals in ran.values())
    turns, last = [], None
    for at, until, name in sorted((b, e, name) for name, intervals in ran.items() for b, e in intervals if begin <= b and e <= end):
        if name == "bursts":
            turns = turns[:-1] + [(turns[-1][0], until)] if last == name else turns + [(at, until)]
        last = name
    return [max(0.0, 1000 * (e - b) - TURN_MS) for b, e in turns]


def run(world):
    seconds = 4 if world.quick else 8
    over = {kind: [] for kind in KINDS}
    p99 = []
    for seed in range(world.seeds):
        worst = 0.0
        for kind in KINDS:
            world.note(f"{kind}, run {seed + 1} of {world.seeds}")
            turns = sorted(behind(world, kind, seconds, seed))
            over[kind] += turns
            worst = max(worst, turns[int(0.99 * len(turns))])
        p99.append(worst)
    world.measure(overuse_p99_ms=p99)
    world.draw(lines("G3: what lies behind a turn's end", "four kernels, a wait and a pause, beside a program that never pauses; all turns",
                     Axis("ms behind the end", 0, 20), Axis("part of the turns", 0, 1, percent=True),
                     [Line(kind, [(x / 4, sum(v <= x / 4 for v in over[kind]) / len(over[kind])) for x in range(81)], marks=False)
                      for kind in KINDS]))
