# SPDX-License-Identifier: Apache-2.0
"""KubeShare's throughput experiment: the rate of arrivals, the mean of the demand and its deviation."""

from draw import Axis, Line, lines
from judge import estimate, ratios
from place import figure, shown

POLICIES = ["whole", "kubeshare", "replicas", "memory-only", "first-fit", "random", "default"]
RATE = 150  # jobs an hour, x1
RATES = (1, 2, 3, 4, 6, 8, 10, 12, 18, 24)
PAPERS, FULL = (
    12,
    24,
)  # the highest rate of the paper, as we recall it; a rate beyond all devices. The jobs need 27 and 54 of 32.
MEANS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
DEVICES = 32
USE = {
    "in use": lambda runs: figure(runs, "devices_in_use"),
    "used": lambda runs: [u * DEVICES / 100 for u in figure(runs, "used")],
}
DEVIATIONS = (0, 0.05, 0.1, 0.15, 0.2, 0.25)


def options(times=12, mean=0.3, deviation=0.1, duration="60s,300s"):
    return (
        "--generate",
        "kubeshare",
        "--rate",
        str(RATE * times),
        "--demand",
        f"{mean},{deviation}",
        "--memory",
        f"{mean},{deviation}",
        "--duration",
        duration,
    )


def rates(runs):
    return figure(runs, "throughput_per_h")


def gain(place, **how):
    runs = place.run(["whole", "default"], *options(**how))
    return ratios(rates(runs["default"]), rates(runs["whole"]))


def slowness(runs):
    """The mean time of a job from its start to its end."""
    return [run["completion_mean_s"] - run["queued_mean_s"] for run in runs]


def run(world):
    place = world.place
    by_rate = {}
    for times in sorted({*world.few(RATES), PAPERS}):
        world.note(f"rate x{times}")
        by_rate[times] = place.run(POLICIES, *options(times))
    papers, top = ({policy: rates(runs) for policy, runs in by_rate[times].items()} for times in (PAPERS, FULL))
    kubeshare = [
        ratios(rates(runs["kubeshare"]), rates(runs["whole"])) for times, runs in by_rate.items() if times <= PAPERS
    ]
    by_mean, by_deviation = {}, {}
    for mean in world.few(MEANS):
        world.note(f"demand {mean}")
        by_mean[mean] = gain(place, mean=mean)
    for deviation in world.few(DEVIATIONS):
        by_deviation[deviation] = gain(place, deviation=deviation)
    world.measure(
        kubeshare_gain=max(kubeshare, key=lambda values: estimate(values).mean),
        gain=ratios(papers["default"], papers["whole"]),
        gain_full=ratios(top["default"], top["whole"]),
        **{"gain_0.6": by_mean[0.6]},
        gain_short=gain(place, duration="30s,150s"),
        gain_long=gain(place, duration="120s,600s"),
        of_kubeshare=ratios(top["default"], top["kubeshare"]),
        of_first_fit=ratios(top["default"], top["first-fit"]),
        of_random=ratios(top["default"], top["random"]),
        of_replicas=ratios(top["default"], top["replicas"]),
        slowed_replicas=ratios(slowness(by_rate[FULL]["replicas"]), slowness(by_rate[FULL]["default"])),
        of_memory_only=ratios(top["default"], top["memory-only"]),
    )
    world.draw(
        lines(
            "K4: throughput against the rate of arrivals",
            "32 devices, demand 0.3 ±0.1, jobs of 60 to 300 s; all that share lie on one another",
            Axis("jobs that arrive in an hour", 0, RATE * FULL),
            Axis("jobs done in an hour", 0, RATE * PAPERS * 1.25),
            [
                Line(
                    shown(policy),
                    [(RATE * times, *estimate(rates(runs[policy]))[:2]) for times, runs in by_rate.items()],
                )
                for policy in POLICIES
            ],
        )
    )
    world.draw(
        lines(
            "K4: devices in use, and what is used of all",
            "the same runs, the mean of their time: devices with a job, and device time that jobs use",
            Axis("jobs that arrive in an hour", 0, RATE * FULL),
            Axis("of 32 devices", 0, 35),
            [
                Line(
                    f"{shown(policy)}, {words}",
                    [(RATE * times, *estimate(values(by_rate[times][policy]))[:2]) for times in by_rate],
                    dashed=i,
                )
                for policy in ("default", "whole")
                for i, (words, values) in enumerate(USE.items())
            ],
        ),
        "devices",
    )
    world.draw(
        lines(
            "K4: gain against whole devices by demand",
            f"32 devices, {RATE * 12} jobs an hour; deviation 0.1",
            Axis("mean demand of a job, as part of a device", 0, 0.7),
            Axis("throughput against whole devices", 0, 4),
            [Line("divvy", [(mean, *estimate(values)[:2]) for mean, values in by_mean.items()])],
            bands=[(1, "whole devices")],
        ),
        "demand",
    )
    world.draw(
        lines(
            "K4: gain against whole devices by deviation",
            f"32 devices, {RATE * 12} jobs an hour; demand 0.3",
            Axis("deviation of the demand", 0, 0.26),
            Axis("throughput against whole devices", 0, 4),
            [Line("divvy", [(x, *estimate(values)[:2]) for x, values in by_deviation.items()])],
            bands=[(1, "whole devices")],
        ),
        "deviation",
    )
