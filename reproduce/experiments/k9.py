# SPDX-License-Identifier: Apache-2.0
"""A day as in KubeShare 2.0's trace: 989 jobs of 51 minutes in the mean, three in ten of them shares."""

from draw import Axis, Line, lines
from judge import estimate, ratios
from place import figure, shown

POLICIES = ["whole", "kubeshare2", "random", "default"]
DEVICES = 32
FASTER = (1, 1.25, 1.5, 1.75)  # factors of the trace's rate
DAY_JOBS_PER_H = 41.3  # 989 jobs in 86,217 s


# Two devices. Tasks that stay leave room for one member of the gang, or for two.
GANG = """nodes:
  - {{name: a, devices: 2, memory: 16Gi, cpu: 64, host-memory: 256Gi}}
tasks:
  - {{request: 1, limit: 1, duration: 100s}}
{stays}  - {{request: 0.5, limit: 0.5, copies: {n}, gang: true, threshold: 0.2, at: 1s, duration: 10s}}
"""
STAYS = "  - {request: 0.5, limit: 0.5, duration: 100s}\n"


def options(faster=1.0, minutes=51.0, more=()):
    return (
        "--generate",
        "trace-like",
        "--rate",
        str(round(DAY_JOBS_PER_H * faster)),
        "--duration",
        f"{round(minutes * 60)}s",
        *more,
    )


def done_of_whole(place, minutes):
    """Mean completion time against whole devices, at the trace's own rate."""
    runs = place.run(["whole", "default"], *options(minutes=minutes))
    return ratios(*(figure(runs[policy], "completion_mean_s") for policy in ("default", "whole")))


def filled(runs):
    """The allocated part of the devices in use. The rest is free, in pieces."""
    return [run["allocated"] / 100 * DEVICES / run["devices_in_use"] for run in runs]


def started(place, n, room):
    """The number of members of a gang of n that start at once, with room for `room` of them."""
    stays = STAYS * (2 - room)
    placed = place.one("default", GANG.format(n=n, stays=stays), "--mode", "drop")["placed"]
    return placed - 1 - (2 - room)


def run(world):
    place = world.place
    by_rate = {}
    for faster in world.few(FASTER):
        world.note(f"rate x{faster}")
        by_rate[faster] = place.run(POLICIES, *options(faster))
    day = by_rate[FASTER[0]]
    done = {policy: figure(runs, "completion_mean_s") for policy, runs in day.items()}
    waited = {policy: figure(runs, "queued_mean_s") for policy, runs in day.items()}
    # Half of the pods are guaranteed. `queued_urgent_mean_s` is of this half, `queued_mean_s` of all.
    both = place.run(["default"], *options(more=("--priorities", "0:1,100:1")))["default"]
    use = {policy: figure(runs, "used") for policy, runs in day.items()}
    world.measure(
        use_of_whole=ratios(use["default"], use["whole"]),
        filled=filled(day["default"]),
        filled_of_kubeshare2=ratios(filled(day["default"]), filled(day["kubeshare2"])),
        wait_of_whole=ratios(waited["default"], waited["whole"]),
        done_of_whole=ratios(done["default"], done["whole"]),
        done_of_whole_short=done_of_whole(place, 25.5),
        done_of_whole_long=done_of_whole(place, 102),
        jct_of_kubeshare2=ratios(done["default"], done["kubeshare2"]),
        jct_of_random=ratios(done["default"], done["random"]),
        guaranteed_wait=ratios(figure(both, "queued_urgent_mean_s"), figure(both, "queued_mean_s")),
        gang_5=started(place, 5, 1),
        gang_10=started(place, 10, 1),
        gang_10_two=started(place, 10, 2),
    )
    top = max(estimate(figure(runs["whole"], "queued_mean_s")).mean for runs in by_rate.values())
    world.draw(
        lines(
            "K9: waiting in a day as KubeShare 2.0's trace",
            "32 devices; jobs of 51 minutes in the mean, three in ten are shares",
            Axis("jobs that arrive in an hour", 40, 75),
            Axis("mean wait in minutes", 0, top / 60 * 1.1),
            [
                Line(
                    shown(policy),
                    [
                        (
                            DAY_JOBS_PER_H * faster,
                            *(v / 60 for v in estimate(figure(runs[policy], "queued_mean_s"))[:2]),
                        )
                        for faster, runs in by_rate.items()
                    ],
                )
                for policy in POLICIES
            ],
        )
    )
