# SPDX-License-Identifier: Apache-2.0
"""Gemini's idle holder: a program that pauses beside one that never does."""

from draw import Axis, Line, lines
from judge import estimate
from node import SETTLE_S, busy

WORKS_MS = (10, 30, 100, 300)  # before each pause: the turn that it would like
PAUSE_MS = 60
POLICIES = {"share": "divvy", "gemini": "Gemini's order"}

WHY = ("A holder that runs nothing for half a millisecond loses the token to whoever waits; Gemini's keeps it to the end of its quota, up to "
       "300 ms. The length of divvy's turns is no setting (about 29 ms while somebody waits), so that what is swept here is how long the "
       "program works before it pauses. What is counted is all time without a kernel, and so the changes of context too, 150 us each in the "
       "simulated device. Gemini's order of turns is that of divvy's arbiter (--policy gemini), which takes idle tokens back as well; one run.")


def idle(world, policy, works_ms, seconds):
    """The part of the time in which no kernel ran, while one of the two always had some to run."""
    with world.node(policy=policy) as node:
        node.start("steady", ("--request", "0.5", "--memory", "10%"), f"--duration={seconds}")
        rounds = int(1000 * seconds / (2 * works_ms + PAUSE_MS))  # works half as fast, since it is not alone
        node.launch("pauses", ("--request", "0.5", "--memory", "10%"), world.build / "bench/requests", "burst", str(rounds),
                    str(works_ms), str(PAUSE_MS))
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(ran["steady"][-1][1], ran["pauses"][-1][1])
    return 1 - sum(busy(intervals, begin, end) for intervals in ran.values()) / (end - begin)


def run(world):
    seconds = 4 if world.quick else 5
    got = {policy: {} for policy in POLICIES}
    for policy in POLICIES:
        for works_ms in world.few(WORKS_MS):
            world.note(f"{policy}, {works_ms} ms")
            got[policy][works_ms] = [idle(world, policy, works_ms, seconds) for _ in range(world.seeds if policy == "share" else 1)]
    world.measure(idle=max(got["share"].values(), key=lambda values: estimate(values).mean))
    world.draw(lines("G8: idle though somebody waits", f"one works, then pauses {PAUSE_MS} ms, again and again; the other never pauses",
                     Axis("ms of work before each pause", 8, 400, log=True), Axis("part of the time without a kernel", 0, 0.1, percent=True),
                     [Line(words, [(x, *estimate(v)[:2]) for x, v in got[policy].items()], dashed=policy != "share")
                      for policy, words in POLICIES.items()],
                     bands=[(0.05, "holds"), (0.02, "better")]))
