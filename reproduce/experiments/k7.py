# SPDX-License-Identifier: Apache-2.0
"""KubeShare's interference experiment: some of the jobs slow their like, and labels keep these apart."""

from draw import Axis, Line, lines
from judge import estimate, ratios
from place import figure

PARTS = (0, 12, 25, 37, 50, 62, 75, 87, 100)  # % of the jobs that interfere
UNLABELLED = ["whole", "first-fit", "random", "default"]
PROMISED, PREFERRED = "--apart", "--prefer-apart"
LASTS, SHORT, LONG = "60s,300s", "30s,150s", "120s,600s"
WORK_S = 180  # mean duration


def options(percent, factor, apart=None, demand=0.3, duration=LASTS):
    """apart: the option that keeps jobs of a kind apart, if any."""
    kinds = f"0:{100 - percent},1:{percent}" if 0 < percent < 100 else f"{int(percent == 100)}:1"
    # The generated workload asks for three times what whole devices can take.
    return (
        "--generate",
        "kubeshare",
        "--demand",
        f"{demand},0.1",
        "--memory",
        f"{demand},0.1",
        "--duration",
        duration,
        "--kinds",
        kinds,
        "--slowdown",
        str(factor),
        *([apart] if apart else []),
    )


def rates(runs):
    return figure(runs, "throughput_per_h")


def gain(place, factor, **how):
    """Throughput of anti-affinity against no labels, where half of the jobs interfere: (as a promise, as a preference)."""
    without, promised, preferred = (
        rates(place.run(["default"], *options(50, factor, apart, **how))["default"])
        for apart in (None, PROMISED, PREFERRED)
    )
    return ratios(promised, without), ratios(preferred, without)


def sweep(world, demand):
    """({how: {percent: a throughput for each seed}}, {percent: time of a job against its time alone})."""
    throughput = {name: {} for name in (*UNLABELLED, "apart", "preferred")}
    slowed = {}
    for percent in world.few(PARTS):
        world.note(f"demand {demand}, {percent} % interfere")
        for policy, runs in world.place.run(UNLABELLED, *options(percent, 1.5, None, demand)).items():
            throughput[policy][percent] = rates(runs)
        apart = world.place.run(["default"], *options(percent, 1.5, PROMISED, demand))["default"]
        throughput["apart"][percent] = rates(apart)
        throughput["preferred"][percent] = rates(
            world.place.run(["default"], *options(percent, 1.5, PREFERRED, demand))["default"]
        )
        slowed[percent] = [(r["completion_mean_s"] - r["queued_mean_s"]) / WORK_S for r in apart]
    return throughput, slowed


def picture(throughput, demand):
    names = {"apart": "anti-affinity", "preferred": "preferred", "default": "no labels", "whole": "whole devices"}
    return lines(
        f"K7: throughput with neighbours that interfere, demand {demand}",
        "32 devices, three times what whole ones can take; 1.5 times as long beside one's like",
        Axis("% of the jobs that interfere", 0, 100),
        Axis("jobs done in an hour", 0, 2000),
        [
            Line(names.get(name, name), [(x, *estimate(v)[:2]) for x, v in points.items()])
            for name, points in throughput.items()
        ],
    )


def run(world):
    throughput, slowed = sweep(world, 0.3)
    half, half_preferred = gain(world.place, 1.25)
    twice, twice_preferred = gain(world.place, 2)
    short, long = (gain(world.place, 1.5, duration=duration)[0] for duration in (SHORT, LONG))
    world.measure(
        gain_mid=ratios(throughput["apart"][50], throughput["default"][50]),
        gain_mid_half=half,
        gain_mid_twice=twice,
        gain_mid_short=short,
        gain_mid_long=long,
        of_whole_mid=ratios(throughput["apart"][50], throughput["whole"][50]),
        of_whole_all=ratios(throughput["apart"][100], throughput["whole"][100]),
        slowed=slowed[50],
        gain_mid_preferred=ratios(throughput["preferred"][50], throughput["default"][50]),
        gain_mid_half_preferred=half_preferred,
        gain_mid_twice_preferred=twice_preferred,
        of_whole_all_preferred=ratios(throughput["preferred"][100], throughput["whole"][100]),
    )
    world.draw(picture(throughput, 0.3))
    world.draw(picture(sweep(world, 0.5)[0], 0.5), "half")
