# SPDX-License-Identifier: Apache-2.0
"""Oscar's queue of files: bursts of files start containers, on shares and on whole devices."""

import statistics

from draw import Axis, bars
from judge import estimate, ratios

BURSTS, QUICK_BURSTS = (1, 10, 100), (1, 10)
SHARE, WHOLE = "0.25", "1"  # on_cluster.py's
LENGTHS_S, FILES = (2.5, 5, 10), 32  # of the last picture
QUICK_LENGTHS_S, QUICK_FILES = (5,), 4


def other_lengths(world, lengths_s, files):
    """{seconds that a file needs: {request: seconds for a burst of `files`}}, one run each."""
    took = {}
    for length_s in lengths_s:
        world.note(f"files of {length_s:g} s")
        took[length_s] = {row["request"]: row["seconds"] for row in world.on_cluster(f"queue:{length_s}", [files], 1)}
    return took


def run(world):
    bursts = QUICK_BURSTS if world.quick else BURSTS
    rows = []
    for row in world.on_cluster("queue", bursts):
        world.note(f"{row['burst']} files at {row['request']}, run {row['round'] + 1} of {world.seeds}")
        rows.append(row)

    def seconds(request, n):
        return [r["seconds"] for r in rows if (r["request"], r["burst"]) == (request, n)]

    def in_all(request):
        return [sum(values) for values in zip(*(seconds(request, n) for n in bursts))]

    def of_shares(metric, n):
        return [r[metric] for r in rows if (r["request"], r["burst"]) == (SHARE, n)]

    world.measure(
        to_zero=[max(r["left"] for r in rows if r["round"] == i) for i in range(world.seeds)],
        of_whole=ratios(in_all(SHARE), in_all(WHOLE)),
        at_once=of_shares("at_once", bursts[-1]),
        cold_one_s=of_shares("first_s", bursts[0]),
        zero_s=[statistics.mean(values) for values in zip(*(of_shares("zero_s", n) for n in bursts))],
    )
    values = [[estimate(seconds(request, n))[:2] for request in (WHOLE, SHARE)] for n in bursts]
    top = max(mean + half for group in values for mean, half in group)
    world.draw(
        bars(
            "O: time for a burst of files",
            "eight devices of one node; a file needs a fifth of one for five seconds",
            Axis("seconds", 0, 1.1 * top),
            [f"{n} file{'s' if n > 1 else ''}" for n in bursts],
            ["whole devices", "a quarter each"],
            values,
        )
    )
    lengths_s, files = (QUICK_LENGTHS_S, QUICK_FILES) if world.quick else (LENGTHS_S, FILES)
    took = other_lengths(world, lengths_s, files)
    top = max(seconds for of in took.values() for seconds in of.values())
    world.draw(
        bars(
            "O: files that need less and more",
            f"{files} files at once, each needs a fifth of a device; one run each",
            Axis("seconds", 0, 1.1 * top),
            [f"{length_s:g} s" for length_s in took],
            ["whole devices", "a quarter each"],
            [[(of[request], 0) for request in (WHOLE, SHARE)] for of in took.values()],
        ),
        "lengths",
    )
