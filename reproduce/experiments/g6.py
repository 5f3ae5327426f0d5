# SPDX-License-Identifier: Apache-2.0
"""Gemini's trade: a service with requests by Poisson beside a training, over requests and limits."""

import math

from draw import Axis, Line, bars, lines, matrix
from judge import estimate, ratios
from node import SETTLE_S, busy

LOAD = 0.3  # of the device, in requests of 5 ms
OTHER_LOADS = {"half": 0.15, "twice": 0.6}
MORE = 0.1  # the service requests its load and this
REQUEST_S = 0.005
REQUESTS = (0.2, 0.4, 0.6)  # of the service, standard class; the training has the rest as its request
LIMITS = (0.4, 0.8, 1.0)  # of the training; a larger request is the limit
LATENCY = ("--request", f"{LOAD + MORE:g}", "--class", "latency", "--memory", "10%")
TRAININGS = {
    "standard": ("--request", "0.6", "--memory", "10%"),
    "opportunistic": ("--request", "0.1", "--limit", "1", "--class", "opportunistic", "--memory", "10%"),
}


def perform(world, service, training, n, seed, load=LOAD):
    """(median and 99th percentile in ms, part of the time with the service's kernels, part with the training's)"""
    with world.node() as node:
        if training:
            node.start("training", training, f"--duration={n * REQUEST_S / load + 1.5:g}")
        node.launch("service", service, world.build / "bench/requests", "poisson", str(n), str(load), str(seed + 1))
        ran = node.finish()
        took = sorted(int(line.split()[1]) / 1e6 for line in node.said("service"))
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(intervals[-1][1] for intervals in ran.values())
    part = {name: busy(intervals, begin, end) / (end - begin) for name, intervals in ran.items()}
    return took[len(took) // 2], took[int(0.99 * len(took))], part["service"], part.get("training", 0.0)


def shade(p99_ms):
    """Darkness of a cell, from 10 ms to a second, by the logarithm."""
    return min(1.0, max(0.0, math.log10(p99_ms / 10) / 2))


def other_load(world, load, name, n):
    """([median against alone], [part of the left-over time that the training gets]), beside a standard training. The
    service requests MORE than its load, as with the judged load."""
    service = ("--request", f"{load + MORE:g}", *LATENCY[2:])
    training = ("--request", f"{1 - load - MORE:g}", *TRAININGS["standard"][2:])
    slower, got = [], []
    for seed in range(world.seeds):
        world.note(f"{100 * load:g} % asked for, run {seed + 1} of {world.seeds}")
        alone = perform(world, service, None, n, seed, load)
        both = perform(world, service, training, n, seed, load)
        slower.append(both[0] / alone[0])
        got.append(both[3] / (1 - both[2]))
    world.measure(**{f"p50_{name}": slower, f"kept_{name}": got})
    return slower, got


def run(world):
    n = 100 if world.quick else 400
    took = {where: [] for where in ("alone", *TRAININGS)}  # (median, 99th percentile)
    kept = {name: [] for name in TRAININGS}
    for seed in range(world.seeds):
        world.note(f"run {seed + 1} of {world.seeds}")
        took["alone"].append(perform(world, LATENCY, None, n, seed)[:2])
        for name, wish in TRAININGS.items():
            *of, service, training = perform(world, LATENCY, wish, n, seed)
            took[name].append(of)
            kept[name].append(training / (1 - service))
    p50, p99 = ({where: [of[i] for of in runs] for where, runs in took.items()} for i in (0, 1))
    for name, suffix in (("standard", ""), ("opportunistic", "_low")):
        world.measure(
            **{
                "p50" + suffix: ratios(p50[name], p50["alone"]),
                "p99" + suffix: ratios(p99[name], p99["alone"]),
                "kept" + suffix: kept[name],
            }
        )
    by_load = {
        LOAD: (ratios(p50["standard"], p50["alone"]), kept["standard"]),
        **{load: other_load(world, load, name, round(n * load / LOAD)) for name, load in OTHER_LOADS.items()},
    }
    cells = []
    for request in REQUESTS:
        cells.append([])
        for limit in LIMITS:
            world.note(f"service {request}, training at most {limit}")
            rest = round(1 - request, 3)
            training = ("--request", str(rest), "--limit", str(max(limit, rest)), "--memory", "10%")
            median, late, _, got = perform(world, ("--request", str(request), "--memory", "10%"), training, n, 0)
            cells[-1].append((f"{median:.0f}, {late:.0f} ms; {100 * got:.0f} %", shade(late), True))
    world.draw(
        bars(
            "G6: a service of class latency beside a training",
            f"requests of 5 ms by Poisson, {100 * LOAD:g} % of the device",
            Axis(
                "milliseconds", 0, 1.1 * max(sum(estimate(values)[:2]) for of in (p50, p99) for values in of.values())
            ),
            ["alone", *(f"beside one of class {name}" for name in TRAININGS)],
            ["median", "99th percentile"],
            [[estimate(of[where])[:2] for of in (p50, p99)] for where in took],
        )
    )
    loads = sorted(by_load)
    world.draw(
        lines(
            "G6: the same with half and twice the requests",
            "class latency beside a training in the standard class",
            Axis("part of the device that requests ask for", 0, 0.7, percent=True),
            Axis("part, or times alone", 0, 3),
            [
                Line(words, [(load, *estimate(by_load[load][i])[:2]) for load in loads])
                for i, words in enumerate(("median against alone", "training's of the rest"))
            ],
        ),
        "load",
    )
    world.draw(
        matrix(
            "G6: the same in the standard class",
            "median and 99th percentile of the service, which asks for 30 % in all, and the share that the training got; one run each",
            [f"limit {limit:g}" for limit in LIMITS],
            [f"service's request {request:g}" for request in REQUESTS],
            cells,
            "the training's limit, or what the service's request leaves where that is more",
        ),
        "grid",
    )
