# SPDX-License-Identifier: Apache-2.0
"""Wang et al.'s task set: twenty small trainings on two devices, whole or in parts."""

from draw import Axis, bars
from judge import estimate, ratios
from place import figure, shown

POLICIES = ["whole", "wang", "first-fit", "default"]

WHY = ("Trainings that make use of half a device are done two at a time on one, which is also why Wang's own placement is better "
       "here than their headline: nothing else is lost in virtual time. All of one class, Wang's rules and divvy's place alike.")


def end(place, shortest, longest, policies):
    runs = place.run(policies, "--generate", "wang", "--rate", "3600000", "--duration", f"{shortest}s,{longest}s")
    return runs, {policy: figure(r, "end_s") for policy, r in runs.items()}


def of_whole(place, shortest, longest):
    ends = end(place, shortest, longest, ["whole", "default"])[1]
    return ratios(ends["default"], ends["whole"])


def run(world):
    place = world.place
    runs, ends = end(place, 300, 1200, POLICIES)
    used = {policy: figure(r, "used") for policy, r in runs.items()}
    world.measure(
        makespan=ratios(ends["default"], ends["whole"]),
        wang_makespan=ratios(ends["wang"], ends["whole"]),
        makespan_short=of_whole(place, 150, 600),
        makespan_long=of_whole(place, 600, 2400),
        use=[a - b for a, b in zip(used["default"], used["whole"])],
        of_wang=ratios(ends["default"], ends["wang"]))
    world.draw(bars(
        "W1: twenty trainings on two devices", "request 0.4, limit 0.5, 5 to 20 minutes, all there from the start",
        Axis("minutes until all are done", 0, 160), ["all trainings"], list(map(shown, POLICIES)),
        [[tuple(v / 60 for v in estimate(ends[policy])[:2]) for policy in POLICIES]]))
