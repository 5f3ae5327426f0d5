# SPDX-License-Identifier: Apache-2.0
"""Gemini's comparison with static shares: pairs that idle for part of their time."""

import random
import time

from draw import Axis, Line, lines
from judge import estimate, ratios
from node import SETTLE_S, busy

IDLE = (0, 0.25, 0.5, 0.75)
PERIODS_MS = (2000, 1400)  # not the same, so that they meet in every phase
STATIC, ELASTIC = 0.5, 1   # limits

ROUNDS = 5                 # of work and pause, where work waits

WHY = ("What one leaves idle the other uses, up to its limit; a static share stays idle. Nothing is known of the programs beforehand. Of "
       "those that have nothing to do outside their bursts, as a service has, what one did not get to in its burst is lost: the work done "
       "is the time in which somebody has some, and the gain would be 1 and the idle part if the two met at random: here it is 1.26, 1.47 "
       "and 1.59 where each pauses for 25, 50 and 75 % of its time. Where work waits for its program, as a training's does, a static "
       "share makes it late and loses none of it, and there is less to be gained: about a fifth, the least of what was published, where "
       "each pauses as long as it works, and less where it pauses less or more. A static pair and one that is not run side by side, each "
       "on a device of its own.")


def work(world, idle, seed, seconds):
    """{limit: the part of the time in which its device worked}, for pairs that pause for that part of theirs."""
    with world.node(devices="2xH200-141Gi") as node:
        for device, limit in enumerate((STATIC, ELASTIC)):
            for i, period_ms in enumerate(PERIODS_MS):
                on, off = round(period_ms * (1 - idle)), round(period_ms * idle)
                bursts = (f"--burst-on={on}", f"--burst-off={off}") if idle else ()
                node.start(f"{limit}-{i}", ("--request", "0.5", "--limit", str(limit), "--memory", "10%", "--device", str(device)),
                           f"--duration={seconds}", f"--seed={2 * seed + i + 1}", *bursts)
        ran = node.finish()
    worked = {}
    for limit in (STATIC, ELASTIC):
        pair = [ran[f"{limit}-{i}"] for i in range(len(PERIODS_MS))]
        begin = max(intervals[0][0] for intervals in pair) + SETTLE_S
        end = begin + seconds - 2 * PERIODS_MS[0] / 1000 - 2 * SETTLE_S
        worked[limit] = sum(busy(intervals, begin, end) for intervals in pair) / (end - begin)
    return worked


def until_done(world, idle, seed, rounds):
    """{limit: seconds until the work of each was done, of both together}, where it waits for them."""
    between = random.Random(seed).uniform(0, PERIODS_MS[0] / 1000)
    with world.node(devices="2xH200-141Gi") as node:
        for i, period_ms in enumerate(PERIODS_MS):
            time.sleep(i * between)
            n = round(rounds * PERIODS_MS[0] / period_ms)  # about as much work for either
            for device, limit in enumerate((STATIC, ELASTIC)):
                node.launch(f"{limit}-{i}", ("--request", "0.5", "--limit", str(limit), "--memory", "10%", "--device", str(device)),
                            world.build / "bench/requests", "burst", str(n), str(round(period_ms * (1 - idle))), str(round(period_ms * idle)))
        node.wait()
        return {limit: sum(int(node.said(f"{limit}-{i}")[-1].split()[1]) for i in range(len(PERIODS_MS))) / 1e9 for limit in (STATIC, ELASTIC)}


def run(world):
    seconds = 7 if world.quick else 14
    gains = {}
    for idle in world.few(IDLE):
        worked = []
        for seed in range(world.seeds):
            world.note(f"{100 * idle:g} % idle, run {seed + 1} of {world.seeds}")
            worked.append(work(world, idle, seed, seconds))
        gains[idle] = ratios([pair[ELASTIC] for pair in worked], [pair[STATIC] for pair in worked])
    waits = {}
    for idle in gains:
        took = []
        for seed in range(world.seeds) if idle else ():
            world.note(f"{100 * idle:g} % idle, work waits, run {seed + 1} of {world.seeds}")
            took.append(until_done(world, idle, seed, ROUNDS // 2 if world.quick else ROUNDS))
        if took:
            waits[idle] = ratios([pair[STATIC] for pair in took], [pair[ELASTIC] for pair in took])
    world.measure(gain=gains[0.5], gain_waits=waits[0.5], none_lost=gains[0])
    world.draw(lines("G4: elastic against static shares", "two programs of request 0.5 that pause; static: limit 0.5",
                     Axis("part of the time in which each pauses", 0, 0.8, percent=True),
                     Axis("speed against static shares", 0, 2.2),
                     [Line("late work is lost", [(idle, *estimate(v)[:2]) for idle, v in gains.items()]),
                      Line("late work waits", [(idle, *estimate(v)[:2]) for idle, v in waits.items()])],
                     bands=[(1, "static shares")]))
