# SPDX-License-Identifier: Apache-2.0
"""Gemini's comparison with static shares: groups of two and three that idle for part of their time."""

import random
import time

from draw import Axis, Line, lines
from judge import estimate, ratios
from node import SETTLE_S, busy

IDLE = (0, 0.25, 0.5, 0.75)
PERIODS_MS = (2000, 1400, 1100)  # different, so that all phases meet; a group of n uses the first n
REQUESTS = {2: "0.5", 3: "0.333"}  # by the size of the group
GROUPS = [(n, limit) for n in REQUESTS for limit in ("static", "elastic")]

ROUNDS = 5  # of work and pause, if late work is done later


def wish(n, limit, device):
    return (
        "--request",
        REQUESTS[n],
        "--limit",
        REQUESTS[n] if limit == "static" else "1",
        "--memory",
        "10%",
        "--device",
        str(device),
    )


def work(world, idle, seed, seconds):
    """{(n, limit): the part of the time in which the device worked}, for groups whose programs pause for `idle` of their
    time."""
    with world.node(devices=f"{len(GROUPS)}xH200-141Gi") as node:
        for device, (n, limit) in enumerate(GROUPS):
            for i, period_ms in enumerate(PERIODS_MS[:n]):
                on, off = round(period_ms * (1 - idle)), round(period_ms * idle)
                bursts = (f"--burst-on={on}", f"--burst-off={off}") if idle else ()
                node.start(
                    f"{n}-{limit}-{i}",
                    wish(n, limit, device),
                    f"--duration={seconds}",
                    f"--seed={len(PERIODS_MS) * seed + i + 1}",
                    *bursts,
                )
        ran = node.finish()
    worked = {}
    for n, limit in GROUPS:
        group = [ran[f"{n}-{limit}-{i}"] for i in range(n)]
        begin = max(intervals[0][0] for intervals in group) + SETTLE_S
        end = begin + seconds - 2 * PERIODS_MS[0] / 1000 - 2 * SETTLE_S
        worked[n, limit] = sum(busy(intervals, begin, end) for intervals in group) / (end - begin)
    return worked


def until_done(world, idle, seed, rounds):
    """{limit: (sum of the seconds that both programs took, seconds until both were done)}, of pairs whose late work is done
    later."""
    between = random.Random(seed).uniform(0, PERIODS_MS[0] / 1000)
    pair = [(device, limit) for device, (n, limit) in enumerate(GROUPS) if n == 2]
    with world.node(devices=f"{len(pair)}xH200-141Gi") as node:
        for i, period_ms in enumerate(PERIODS_MS[:2]):
            time.sleep(i * between)
            rounds_of_it = round(rounds * PERIODS_MS[0] / period_ms)  # about as much work for both programs
            for device, limit in pair:
                node.launch(
                    f"{limit}-{i}",
                    wish(2, limit, device),
                    world.build / "bench/requests",
                    "burst",
                    str(rounds_of_it),
                    str(round(period_ms * (1 - idle))),
                    str(round(period_ms * idle)),
                )
        node.wait()
        took = {limit: [int(node.said(f"{limit}-{i}")[-1].split()[1]) / 1e9 for i in range(2)] for _, limit in pair}
        return {limit: (first + second, max(first, between + second)) for limit, (first, second) in took.items()}


def run(world):
    seconds = 7 if world.quick else 14
    gains = {n: {} for n in REQUESTS}
    for idle in world.few(IDLE):
        worked = []
        for seed in range(world.seeds):
            world.note(f"{100 * idle:g} % idle, run {seed + 1} of {world.seeds}")
            worked.append(work(world, idle, seed, seconds))
        for n, by_idle in gains.items():
            by_idle[idle] = ratios([of[n, "elastic"] for of in worked], [of[n, "static"] for of in worked])
    waits, both = {}, {}
    for idle in gains[2]:
        took = []
        for seed in range(world.seeds) if idle else ():
            world.note(f"{100 * idle:g} % idle, work waits, run {seed + 1} of {world.seeds}")
            took.append(until_done(world, idle, seed, ROUNDS // 2 if world.quick else ROUNDS))
        if took:
            waits[idle], both[idle] = (
                ratios([pair["static"][i] for pair in took], [pair["elastic"][i] for pair in took]) for i in range(2)
            )
    world.measure(
        gain=gains[2][0.5], gain_three=gains[3][0.5], gain_waits=waits[0.5], gain_both=both[0.5], none_lost=gains[2][0]
    )
    world.draw(
        lines(
            "G4: elastic against static shares",
            "programs with equal requests that pause; static: limit = request",
            Axis("part of the time in which each pauses", 0, 0.8, percent=True),
            Axis("speed against static shares", 0, 2.5),
            [
                *(
                    Line(f"{words}, late work lost", [(idle, *estimate(v)[:2]) for idle, v in gains[n].items()])
                    for n, words in ((2, "two"), (3, "three"))
                ),
                Line("two, late work waits", [(idle, *estimate(v)[:2]) for idle, v in waits.items()]),
                Line("until both are done", [(idle, *estimate(v)[:2]) for idle, v in both.items()]),
            ],
            bands=[(1, "static shares")],
        )
    )
