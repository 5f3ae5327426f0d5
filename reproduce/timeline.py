# SPDX-License-Identifier: Apache-2.0
"""Programs that start and end on one device, compared with the rule of requests and limits: K2 and G5."""

import time
from typing import NamedTuple

from draw import Axis, Line, lines
from node import Program, TooBusy, curve, distance, wait_until


class Act(NamedTuple):
    """One program's part: it begins begins_s after the first program, and lasts lasts_s."""

    program: Program
    begins_s: float
    lasts_s: float
    options: tuple = ()


def perform(world, acts, policy="share", seed=1):
    """{name: [(begin, end), ...]}: when each program's kernels ran. The seed sets the first pause of programs that
    pause."""
    with world.node(policy=policy) as node:
        began = time.monotonic()
        for act in acts:
            wait_until(began + act.begins_s)
            wish = ("--request", str(act.program.request), "--limit", str(act.program.limit), "--memory", "10%")
            node.start(act.program.name, wish, f"--duration={act.lasts_s:g}", f"--seed={seed}", *act.options)
        return node.finish()


def judged(ran, programs, least_phases, name):
    """The distance of that run from the rule. Raises TooBusy if it has fewer steady phases than expected."""
    off = distance(ran, programs)
    if off.n_phases < least_phases:
        raise TooBusy(
            f"only {off.n_phases} steady phases in {name}, {least_phases} are expected: "
            "the machine is too busy to tell"
        )
    return off


def run(world, acts, least_phases, policy="share"):
    """([distance of each run from the rule], when each program ran in the last run)."""
    least_phases = 1 if world.quick else least_phases
    programs = [act.program for act in acts]
    all_off = []
    for i in range(world.seeds):
        world.note(f"run {i + 1} of {world.seeds}" + (f", {policy}" if policy != "share" else ""))
        ran = perform(world, acts, policy, i + 1)
        all_off.append(judged(ran, programs, least_phases, world.name))
    return all_off, ran


def picture(title, subtitle, ran, window_s=1.0):
    begin = min(intervals[0][0] for intervals in ran.values())
    end = max(intervals[-1][1] for intervals in ran.values())
    return lines(
        title,
        subtitle,
        Axis("seconds", 0, end - begin),
        Axis("share of the device", 0, 1, percent=True),
        [
            Line(name, curve(intervals, begin, end, window_s, window_s / 4), marks=False)
            for name, intervals in ran.items()
        ],
    )
