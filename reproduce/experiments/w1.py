# SPDX-License-Identifier: Apache-2.0
"""Wang et al.'s task set: twenty small trainings on two devices, on whole ones or on shares."""

import random

from draw import Axis, bars
from judge import estimate, ratios
from place import figure, shown

POLICIES = ["whole", "wang", "first-fit", "default"]

TRAININGS = 20
CLASSES = ("latency", "opportunistic")


def spec(seed, shortest, longest, request=0.4, limit=0.5):
    draw = random.Random(seed)
    classes = draw.sample(CLASSES * (TRAININGS // len(CLASSES)), TRAININGS)
    tasks = "".join(
        f"  - {{request: {request}, limit: {limit}, class: {of}, duration: {draw.randint(shortest, longest)}s}}\n"
        for of in classes
    )
    return f"nodes:\n  - {{name: a, devices: 2, memory: 16Gi, cpu: 64, host-memory: 256Gi}}\ntasks:\n{tasks}"


def end(world, shortest, longest, policies, **wish):
    """({policy: its runs}, {policy: when all were done, in each})"""
    runs = {
        policy: [world.place.one(policy, spec(seed, shortest, longest, **wish)) for seed in range(world.seeds)]
        for policy in policies
    }
    return runs, {policy: figure(r, "end_s") for policy, r in runs.items()}


def of_whole(world, shortest, longest, faster=1, **wish):
    """Time until all are done against whole devices. A training with a whole device is `faster` times as fast."""
    ends = {policy: end(world, shortest, longest, [policy], **wish)[1][policy] for policy in ("whole", "default")}
    return ratios(ends["default"], [seconds / faster for seconds in ends["whole"]])


def run(world):
    runs, ends = end(world, 300, 1200, POLICIES)
    used = {policy: figure(r, "used") for policy, r in runs.items()}
    world.measure(
        makespan=ratios(ends["default"], ends["whole"]),
        wang_makespan=ratios(ends["wang"], ends["whole"]),
        makespan_short=of_whole(world, 150, 600),
        makespan_long=of_whole(world, 600, 2400),
        makespan_quarter=of_whole(world, 300, 1200, request=0.2, limit=0.25),
        makespan_all=of_whole(world, 300, 1200, faster=2),
        use=[a - b for a, b in zip(used["default"], used["whole"])],
        of_wang=ratios(ends["default"], ends["wang"]),
    )
    world.draw(
        bars(
            "W1: twenty trainings on two devices",
            "request 0.4, limit 0.5, 5 to 20 minutes, all there from the start",
            Axis("minutes until all are done", 0, 160),
            ["all trainings"],
            list(map(shown, POLICIES)),
            [[tuple(v / 60 for v in estimate(ends[policy])[:2]) for policy in POLICIES]],
        )
    )
