# SPDX-License-Identifier: Apache-2.0
"""DynamoML's mix: a day of services, trainings and modelling, with divvy and with parts of it switched off."""

import math
import random
from typing import NamedTuple

from draw import Axis, Line, bars, lines
from judge import estimate, ratios

DAY_S = 24 * 3600
STEP_S = 900  # seconds between two changes of the number of replicas
REPLICAS = 24  # at the peak
MODELLING_PER_H = 12.8
TRAINING_PER_H = 11.7
URGENT, TRAINING, MODELLING = 90, 50, 10
BUSY = 0.99  # part of the jobs that are done at the end of busy_s
NODES = "nodes:\n  - {name: n, copies: 8, devices: 4, memory: 16Gi, cpu: 64, host-memory: 256Gi}\ntasks:\n"
LOADS = (0.25, 0.5, 0.75, 1, 1.25)
LENGTHS = (0.5, 1, 2)


class Way(NamedTuple):
    name: str
    policy: str = "default"
    preempts: bool = True
    scales: bool = True


ALL = Way("divvy")
WHOLE = Way("whole devices", "whole", False, False)
ORDERED = Way("no sharing", "whole")
WAYS = (ALL, Way("no preemption", preempts=False), Way("no scaling", scales=False), ORDERED, WHOLE)


def curve(second):
    """The requests at that time of the day, as part of their peak: 20 % at night, all of them at noon."""
    return 0.6 - 0.4 * math.cos(2 * math.pi * second / DAY_S)


def replicas(scales):
    """[(begin, end)] of each replica, in seconds."""
    steps = range(0, DAY_S, STEP_S)
    out = []
    for i in range(REPLICAS):
        needed = [t for t in steps if max(curve(t), curve(t + STEP_S)) * REPLICAS > i]
        out.append((needed[0], needed[-1] + STEP_S) if scales else (0, DAY_S))
    return out


def arrivals(rand, per_h, share):
    """[seconds, ...]: Poisson arrivals, per_h of them an hour in the mean. share(second) is the part of them that comes;
    its mean is 0.6."""
    at, out = 0.0, []
    while True:
        at += rand.expovariate(per_h / 0.6 / 3600)
        if at >= DAY_S:
            return out
        if rand.random() < share(at):
            out.append(at)


def spec(seed, scales, load=1.0, length=1.0):
    rand = random.Random(seed)
    tasks = [
        f"at: {begin}s, duration: {end - begin}s, request: 0.3, limit: 0.3, priority: {URGENT}"
        for begin, end in replicas(scales)
    ]
    for at in arrivals(rand, TRAINING_PER_H * load, lambda _: 0.6):
        tasks.append(
            f"at: {at:.3f}s, duration: {length * rand.uniform(1800, 9000):.3f}s, request: 0.5, limit: 1, priority: {TRAINING}"
        )
    for at in arrivals(rand, MODELLING_PER_H * load, curve):
        tasks.append(
            f"at: {at:.3f}s, duration: {rand.uniform(3600, 14400):.3f}s, request: 0.2, limit: 0.2, priority: {MODELLING}"
        )
    return NODES + "".join(f"  - {{{task}}}\n" for task in tasks)


class Figures(NamedTuple):
    throughput: float  # trainings and modelling done in an hour
    training: float  # hours until one is done, in the mean
    violations: float  # part of the time in which a replica was needed and had no device


def day(place, way, seed, **how):
    options = ("--queue", "priority", "--preempt", "resume") if way.preempts else ("--queue", "fifo")
    run = place.one(way.policy, spec(seed, way.scales, **how), *options)
    if run["placed"] < run["tasks"]:
        raise RuntimeError(f"{way.name}: {run['placed']} of {run['tasks']} have had a place")
    by = {p["priority"]: p for p in run["priorities"]}
    needed = sum(end - begin for begin, end in replicas(way.scales))
    n = by[TRAINING]["tasks"] + by[MODELLING]["tasks"]
    busy_s = max(by[TRAINING]["busy_s"], by[MODELLING]["busy_s"])
    return Figures(
        BUSY * n / busy_s * 3600,
        by[TRAINING]["completion_mean_s"] / 3600,
        by[URGENT]["queued_mean_s"] * by[URGENT]["tasks"] / needed,
    )


def days(world, way, **how):
    world.note(f"{way.name} {how or ''}")
    return [day(world.place, way, seed, **how) for seed in range(world.seeds)]


def against(some, base, name):
    return ratios([getattr(f, name) for f in some], [getattr(f, name) for f in base])


def sweep(world, name, values):
    """{value: (days with divvy, days with whole devices)}"""
    return {v: (days(world, ALL, **{name: v}), days(world, WHOLE, **{name: v})) for v in world.few(values)}


def gains(title, subtitle, x, swept):
    return lines(
        title,
        subtitle,
        x,
        Axis("against whole devices", 0, 3),
        [
            Line(shown, [(v, *estimate(against(*both, name))[:2]) for v, both in swept.items()])
            for shown, name in (("throughput", "throughput"), ("trainings' time", "training"))
        ],
        bands=[(1, "whole devices")],
    )


def run(world):
    by_way = {way.name: days(world, way) for way in WAYS}
    divvy, whole, ordered = (by_way[way.name] for way in (ALL, WHOLE, ORDERED))
    world.measure(
        throughput=against(divvy, whole, "throughput"),
        training=against(divvy, whole, "training"),
        throughput_of_ordered=against(divvy, ordered, "throughput"),
        training_of_ordered=against(divvy, ordered, "training"),
        violations=[f.violations for f in divvy],
    )
    names = [way.name for way in WAYS]
    world.draw(
        bars(
            "D: a day of services, trainings and modelling",
            "32 devices; whole devices: in the order of arrival, replicas for the peak all day",
            Axis("against whole devices", 0, 2.5),
            names,
            ["throughput", "trainings' time"],
            [[estimate(against(by_way[name], whole, of))[:2] for of in ("throughput", "training")] for name in names],
        )
    )
    world.draw(
        bars(
            "D: replicas that are missing",
            "a replica that is needed, and waits for a device",
            Axis("part of the time", 0, 0.006, percent=True),
            names,
            ["missing"],
            [[estimate([f.violations for f in by_way[name]])[:2]] for name in names],
        ),
        "missing",
    )
    world.draw(
        gains(
            "D: with fewer and more trainings and sessions",
            "services as they are; 1 is what was measured",
            Axis("arrivals, as part of those measured", 0, 1.3),
            sweep(world, "load", LOADS),
        ),
        "load",
    )
    world.draw(
        gains(
            "D: with shorter and longer trainings",
            "as many of them",
            Axis("length of trainings, as part of that measured", 0.4, 2.1),
            sweep(world, "length", LENGTHS),
        ),
        "length",
    )
