# SPDX-License-Identifier: Apache-2.0
"""Functions of 100 ms, as on serverless platforms: warm in a program that stays, cold in a new program."""

import statistics
import time

from draw import Axis, bars
from judge import estimate, ratios
from node import spin

CALL_MS = 100
PAUSE_MS = 50
WISH = ("--request", "0.5", "--memory", "10%")
PATIENCE_S = 60
IDLE, BUSY = ("--burst-on=1", "--burst-off=600000", "--kernel-us=10"), ("--kernel-us=1000",)  # neighbours


KINDS = {"warm": "warm", "cold": "cold", "warm_busy": "warm, busy neighbour"}


class Platform:
    """A node with a neighbour on it. With policy None there is no divvy."""

    def __init__(self, world, policy, neighbour=IDLE):
        self.world, self.node, self.neighbour = world, world.node(policy=policy), neighbour

    def __enter__(self):
        self.node.__enter__()
        self.node.start("neighbour", WISH, *self.neighbour)
        time.sleep(1)  # the program has its context
        return self

    def __exit__(self, *args):
        self.node.__exit__(*args)

    def call(self, name, *command):
        """(seconds until it has ended, what it printed)"""
        began = time.monotonic()
        self.node.launch(name, WISH, *command)
        child = self.node.children[name]
        words = child.communicate(timeout=PATIENCE_S)[1]
        seconds = time.monotonic() - began
        if child.returncode:
            raise RuntimeError(f"{name} ended with {child.returncode}: {words.strip()}")
        return seconds, self.node.said(name)

    def warm_ms(self, n):
        said = self.call("warm", self.world.build / "bench/requests", "burst", str(n), str(CALL_MS), str(PAUSE_MS))[1]
        return int(said[-1].split()[1]) / n / 1e6 - PAUSE_MS

    def cold_ms(self, n):
        once = spin(self.world.build, f"--kernel-us={1000 * CALL_MS}", "--count=1")
        return 1000 * statistics.median(self.call(f"cold-{i}", *once)[0] for i in range(n))


def run(world):
    n = 10 if world.quick else 30
    took = {(what, policy): [] for what in KINDS for policy in (None, "share")}
    for i in range(world.seeds):
        for policy in (None, "share") if i % 2 else ("share", None):
            world.note(f"{'on a share' if policy else 'no library'}, run {i + 1} of {world.seeds}")
            with Platform(world, policy) as platform:
                took["warm", policy].append(platform.warm_ms(n))
                took["cold", policy].append(platform.cold_ms(n))
            with Platform(world, policy, BUSY) as platform:
                took["warm_busy", policy].append(platform.warm_ms(n // 3))
    world.measure(**{what: ratios(took[what, "share"], took[what, None]) for what in KINDS})
    values = [[estimate(took[what, policy])[:2] for policy in (None, "share")] for what in KINDS]
    top = max(mean + half for group in values for mean, half in group)
    world.draw(
        bars(
            "S: a function of 100 ms",
            "beside another that is idle, or never pauses; cold: from the program's start to its end",
            Axis("milliseconds", 0, 1.2 * top),
            list(KINDS.values()),
            ["no library", "on a share"],
            values,
        )
    )
