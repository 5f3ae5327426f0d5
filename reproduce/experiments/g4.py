# SPDX-License-Identifier: Apache-2.0
"""Gemini's comparison with static shares: pairs that idle for part of their time."""

from draw import Axis, Line, lines
from judge import estimate, ratios
from node import SETTLE_S, busy

IDLE = (0, 0.25, 0.5, 0.75)
PERIODS_MS = (2000, 1400)  # not the same, so that they meet in every phase

WHY = ("What one leaves idle the other uses, up to its limit; a static share stays idle. Nothing is known of the programs "
       "beforehand. Both pause at times of their own, so that some of the idle time is both's, and lost to both.")


def work(world, idle, limit, seed, seconds):
    """The part of the time in which the device worked for a pair that pauses for that part of theirs."""
    with world.node() as node:
        for i, name in enumerate(("first", "second")):
            on, off = round(PERIODS_MS[i] * (1 - idle)), round(PERIODS_MS[i] * idle)
            bursts = (f"--burst-on={on}", f"--burst-off={off}") if idle else ()
            node.start(name, ("--request", "0.5", "--limit", str(limit), "--memory", "10%"),
                       f"--duration={seconds}", f"--seed={2 * seed + i + 1}", *bursts)
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = begin + seconds - 2 * PERIODS_MS[0] / 1000 - 2 * SETTLE_S
    return sum(busy(intervals, begin, end) for intervals in ran.values()) / (end - begin)


def run(world):
    seconds = 7 if world.quick else 14
    gains = {}
    for idle in world.few(IDLE):
        static, elastic = [], []
        for seed in range(world.seeds):
            world.note(f"{100 * idle:g} % idle, run {seed + 1} of {world.seeds}")
            static.append(work(world, idle, 0.5, seed, seconds))
            elastic.append(work(world, idle, 1, seed, seconds))
        gains[idle] = ratios(elastic, static)
    world.measure(gain=gains[0.5], none_lost=gains[0])
    world.draw(lines("G4: elastic against static shares", "two programs of request 0.5 that pause; static: limit 0.5",
                     Axis("part of the time in which each pauses", 0, 0.8, percent=True),
                     Axis("work done against static shares", 0, 2.2),
                     [Line("divvy", [(idle, *estimate(v)[:2]) for idle, v in gains.items()])],
                     bands=[(1, "static shares")]))
