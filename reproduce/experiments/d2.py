# SPDX-License-Identifier: Apache-2.0
"""DynamoML's services, whose replicas follow their load, by Kubernetes' autoscaler and divvy's metrics."""

import statistics

from draw import Axis, Line, lines
from judge import ratios

LOAD_S, QUICK_LOAD_S = 60, 45
SHARES, WHOLE, STATIC = "on-shares", "on-whole", "static"  # on_cluster.py's
NAMES = {SHARES: "a fifth each", WHOLE: "whole devices", STATIC: "four of a fifth"}


def mean_curve(runs, step=1.0):
    """[(second, mean of the devices granted in all runs)]"""
    first, last = max(run[0][0] for run in runs), min(run[-1][0] for run in runs)
    times = [first + i * step for i in range(int((last - first) / step) + 1)]
    return [(at, statistics.mean([value for t, value in run if t <= at][-1] for run in runs)) for at in times]


def run(world):
    load_s = world.pace * (QUICK_LOAD_S if world.quick else LOAD_S)
    rows = {service: [] for service in NAMES}
    for row in world.on_cluster("service", [load_s]):
        world.note(f"run {row['round'] + 1} of {world.seeds}, {NAMES[row['service']]}")
        rows[row["service"]].append(row)

    def of(service, metric, per=None):
        return [row[metric] / row[per] if per else row[metric] for row in rows[service]]

    def against(service, *metric):
        return ratios(of(SHARES, *metric), of(service, *metric))

    world.measure(
        of_whole=against(WHOLE, "granted_s", "answers"),
        of_static=against(STATIC, "granted_s", "answers"),
        of_static_loaded=against(STATIC, "loaded_s", "answers"),
        p99_of_whole=against(WHOLE, "p99_s"),
        answered_of_whole=against(WHOLE, "answered_all"),
        answered_of_static=against(STATIC, "answered_all"),
        **{metric: of(SHARES, metric) for metric in ("answered", "answered_all", "left", "grow_s", "shrink_s")},
    )
    curves = {service: mean_curve(of(service, "granted")) for service in rows}
    first, last = curves[SHARES][0][0], curves[SHARES][-1][0]
    world.draw(
        lines(
            "D2: a service under an autoscaler",
            f"what is granted, {f'mean of {world.seeds} runs' if world.seeds > 1 else 'one run'}; Kubernetes is real",
            Axis("seconds since the load began", first, last),
            Axis("devices", 0, 1.2),
            [
                *(Line(NAMES[service], curve, marks=False) for service, curve in curves.items()),
                Line(
                    "load",
                    [(first, 0), (0, 0), (0, 0.5), (load_s, 0.5), (load_s, 0), (last, 0)],
                    dashed=True,
                    marks=False,
                ),
            ],
        )
    )
