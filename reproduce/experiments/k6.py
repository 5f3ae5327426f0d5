# SPDX-License-Identifier: Apache-2.0
"""KubeShare's scheduling time: how long a decision takes with more and more shared pods."""

import json
import math
import re
import subprocess
from typing import NamedTuple

from draw import Axis, Line, lines
from judge import estimate

NODES = (10, 100, 1000)  # nodes of eight devices, three quarters full


class Decision(NamedTuple):
    us: float  # the mean
    median_us: float
    p99_us: float
    tenants: int  # tenants in the cluster


def decision(world, nodes):
    path = world.folder / "place.jsonl"
    path.unlink(missing_ok=True)
    subprocess.run(
        [world.build / "bench/bench-place", "--quick", "--only", f"default, {nodes} nodes", "--out", path],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.unlink()
    row = next(row for row in rows if row["metric"] == f"place.default.us_at_{nodes}")
    tenants, median_us, p99_us = map(
        float, re.match(r"(\d+) tenants, .* median ([\d.]+) us, p99 (\d+) us", row["detail"]).groups()
    )
    return Decision(row["value"], median_us, p99_us, tenants)


def slope(decisions, metric):
    """The exponent: least squares of log(time) over log(tenants)."""
    x, y = [math.log(d.tenants) for d in decisions], [math.log(getattr(d, metric)) for d in decisions]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y)) / sum((a - middle_x) ** 2 for a in x)


def run(world):
    runs = []
    for i in range(world.seeds):
        world.note(f"run {i + 1} of {world.seeds}")
        runs.append([decision(world, nodes) for nodes in NODES])
    world.measure(
        growth=[slope(decisions, "us") for decisions in runs],
        growth_median=[slope(decisions, "median_us") for decisions in runs],
    )
    by_size = [[decisions[i] for decisions in runs] for i in range(len(NODES))]
    tenants = [estimate([d.tenants for d in of]).mean for of in by_size]
    points, middle, late = (
        [(n, *estimate([getattr(d, metric) for d in of])[:2]) for n, of in zip(tenants, by_size)]
        for metric in ("us", "median_us", "p99_us")
    )
    linear = [(n, points[0][1] * n / tenants[0]) for n in tenants]
    top = 10 ** math.ceil(math.log10(max(linear[-1][1], *(y for _, y, _ in late))))
    world.draw(
        lines(
            "K6: time of a decision",
            "nodes of eight devices, three quarters full; the clock and the processor are real",
            Axis("tenants", 0.8 * points[0][0], 1.3 * points[-1][0], log=True),
            Axis("microseconds", 1, top, log=True),
            [
                Line("mean", points),
                Line("median", middle),
                Line("99th percentile", late),
                Line("if it were linear", linear, dashed=True),
            ],
        )
    )
