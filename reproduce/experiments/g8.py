# SPDX-License-Identifier: Apache-2.0
"""Gemini's idle holder: a program that pauses beside one that never does."""

import statistics

from draw import Axis, Line, lines, matrix
from judge import estimate, largest, ratios
from node import SETTLE_S, busy

WORKS_MS = (10, 30, 100, 300)  # work before each pause: the turn that the program would like
PAUSE_MS = 60
PAUSES_MS = (6, 20, PAUSE_MS, 200)  # of the map
BOUND = 0.05  # goals.yaml's
POLICIES = {"share": "divvy", "gemini": "Gemini's order"}


def idle(world, policy, works_ms, seconds, pause_ms=PAUSE_MS):
    """The part of the time in which no kernel ran. One of the two programs always had kernels to run."""
    with world.node(policy=policy) as node:
        node.start("steady", ("--request", "0.5", "--memory", "10%"), f"--duration={seconds}")
        rounds = int(1000 * seconds / (2 * works_ms + pause_ms))  # it works half as fast as alone
        node.launch(
            "pauses",
            ("--request", "0.5", "--memory", "10%"),
            world.build / "bench/requests",
            "burst",
            str(rounds),
            str(works_ms),
            str(pause_ms),
        )
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(ran["steady"][-1][1], ran["pauses"][-1][1])
    return 1 - sum(busy(intervals, begin, end) for intervals in ran.values()) / (end - begin)


def run(world):
    seconds = 3 if world.quick else 5
    got = {policy: {} for policy in POLICIES}
    for policy in POLICIES:
        for works_ms in world.few(WORKS_MS):
            world.note(f"{policy}, {works_ms} ms")
            got[policy][works_ms] = [idle(world, policy, works_ms, seconds) for _ in range(world.seeds)]
    cells = []
    pauses = world.few(PAUSES_MS)
    for pause_ms in pauses:
        world.note(f"divvy, pauses of {pause_ms} ms")
        cells.append(
            [
                statistics.mean(got["share"][works_ms])
                if pause_ms == PAUSE_MS
                else idle(world, "share", works_ms, seconds, pause_ms)
                for works_ms in got["share"]
            ]
        )
    mean = {
        policy: [sum(values) / len(values) for values in zip(*by_length.values())] for policy, by_length in got.items()
    }
    world.measure(idle=largest(got["share"].values()), of_gemini=ratios(mean["share"], mean["gemini"]))
    world.draw(
        lines(
            "G8: idle though somebody waits",
            f"one works, then pauses {PAUSE_MS} ms, again and again; the other never pauses",
            Axis("ms of work before each pause", 8, 400, log=True),
            Axis("part of the time without a kernel", 0, 0.1, percent=True),
            [
                Line(words, [(x, *estimate(v)[:2]) for x, v in got[policy].items()], dashed=policy != "share")
                for policy, words in POLICIES.items()
            ],
            bands=[(BOUND, "holds")],
        )
    )
    world.draw(
        matrix(
            "G8: the same for other pauses",
            f"divvy, part of the time without a kernel; one run each, those of {PAUSE_MS} ms the mean of all",
            [f"{works_ms} ms" for works_ms in got["share"]],
            [f"pauses of {pause_ms} ms" for pause_ms in pauses],
            [[(f"{100 * value:.2f} %", min(1, value / BOUND), value <= BOUND) for value in row] for row in cells],
            "work before each pause",
        ),
        "map",
    )
