# SPDX-License-Identifier: Apache-2.0
"""Gemini's prediction of bursts: how much of a program's work lies behind the end of its turn."""

import pathlib
import sys

from draw import Axis, Line, lines
from node import SETTLE_S

KINDS = ("periodic", "bimodal", "drifting")
TURN_MS = 30  # the longest turn of divvy
OVERRUN_MS = 1
PROGRAM = pathlib.Path(__file__).parent.parent / "program.py"


def behind(world, policy, kind, seconds, seed):
    """Milliseconds behind its end, for each turn of the program with bursts."""
    with world.node(policy=policy) as node:
        node.start("steady", ("--request", "0.5", "--memory", "10%"), f"--duration={seconds + 0.5}")
        node.launch(
            "bursts",
            ("--request", "0.5", "--memory", "10%"),
            sys.executable,
            PROGRAM,
            "bursts",
            kind,
            str(seconds),
            str(seed),
        )
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(intervals[-1][1] for intervals in ran.values())
    turns, last = [], None
    for at, until, name in sorted(
        (b, e, name) for name, intervals in ran.items() for b, e in intervals if begin <= b and e <= end
    ):
        if name == "bursts":
            turns = turns[:-1] + [(turns[-1][0], until)] if last == name else turns + [(at, until)]
        last = name
    return [max(0.0, 1000 * (e - b) - TURN_MS) for b, e in turns]


def overrun(turns):
    return sum(ms > OVERRUN_MS for ms in turns) / len(turns)


def run(world):
    seconds = 4 if world.quick else 8
    over = {kind: [] for kind in KINDS}
    p99, worst, of_gemini = [], [], []
    for seed in range(world.seeds):
        runs = {policy: {} for policy in ("share", "gemini")}
        for kind in KINDS:
            for policy, by_kind in runs.items():
                world.note(f"{kind}, {policy}, run {seed + 1} of {world.seeds}")
                by_kind[kind] = sorted(behind(world, policy, kind, seconds, seed))
            over[kind] += runs["share"][kind]
        p99.append(max(turns[int(0.99 * len(turns))] for turns in runs["share"].values()))
        worst.append(max(map(overrun, runs["share"].values())))
        of_gemini.append(sum(map(overrun, runs["share"].values())) / sum(map(overrun, runs["gemini"].values())))
    world.measure(overuse_p99_ms=p99, overrun=worst, overrun_of_gemini=of_gemini)
    world.draw(
        lines(
            "G3: what lies behind a turn's end",
            "four kernels, a wait and a pause, beside a program that never pauses; all turns",
            Axis("ms behind the end", 0, 20),
            Axis("part of the turns", 0, 1, percent=True),
            [
                Line(
                    kind,
                    [(x / 4, sum(v <= x / 4 for v in over[kind]) / len(over[kind])) for x in range(81)],
                    marks=False,
                )
                for kind in KINDS
            ],
        )
    )
