# SPDX-License-Identifier: Apache-2.0
"""ConVGPU's experiment: containers of several sizes that together need more memory than there is."""

import heapq
import pathlib
import random
import sys
import time

from draw import Axis, bars
from judge import estimate, ratio_of_means
from node import wait_until

# ConVGPU had 5 GiB and containers of 128 MiB to 4 GiB, as we recall. Here all is eight times as large, since a context
# takes 400 MiB today. Its 5 s from one container to the next and 5 to 45 s of work are divided by 16.67.
DEVICE_MIB = 40 << 10
SIZES_MIB = (1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10)
CONTEXT_MIB = 404  # with what the device rounds up
GAP_S = 0.3
LASTS_S = (0.3, 0.6, 0.9, 1.5, 2.1, 2.7)  # by size
ORDERS = ("first come", "best fit", "recent use", "random")
PROGRAM = pathlib.Path(__file__).parent.parent / "program.py"


def arrivals(seed, n):
    """[kind, ...]: the size of each container, one every GAP_S."""
    return random.Random(seed).choices(range(len(SIZES_MIB)), k=n)


def perform(world, kinds, policy):
    """[{event: seconds since the container came}, ...]; with policy None without divvy."""
    with world.node(policy=policy, devices=f"1xTest-{DEVICE_MIB // 1024}Gi") as node:
        began, came = time.monotonic(), []
        for i, kind in enumerate(kinds):
            wait_until(began + i * GAP_S * world.pace)
            came.append(time.monotonic())
            node.launch(
                f"c{i}",
                ("--wait", "--request", "0.01", "--memory", f"{SIZES_MIB[kind]}Mi"),
                sys.executable,
                PROGRAM,
                "halves",
                str(SIZES_MIB[kind] - CONTEXT_MIB),
                str(LASTS_S[kind] * world.pace),
            )
        node.wait()
        return [
            {what: float(when) - came[i] for what, when in map(str.split, node.said(f"c{i}"))}
            for i in range(len(kinds))
        ]


def chosen(order, lacks, free, draw):
    """The container that the order chooses. lacks: {container: MiB that it still lacks}, in the order of arrival."""
    if order == "first come":
        return next(iter(lacks))
    if order == "recent use":
        return next(reversed(lacks))
    if order == "random":
        return draw.choice(list(lacks))
    fit = [c for c in lacks if lacks[c] <= free]
    return max(fit, key=lacks.get) if fit else min(lacks, key=lacks.get)


def suspended(order, collects, containers, seed):
    """Seconds that each container waits under an order of ConVGPU's. containers: [(came, MiB, seconds that it holds them),
    ...]. With collects the chosen container collects free memory until it has enough; otherwise only containers that fit
    are chosen."""
    free, lacks, waited, draw = DEVICE_MIB, {}, [0.0] * len(containers), random.Random(seed)
    events = [(came, 1, i) for i, (came, _, _) in enumerate(containers)]  # at equal times an exit is before an arrival
    heapq.heapify(events)
    while events:
        now, is_arrival, i = heapq.heappop(events)
        if is_arrival:
            lacks[i] = containers[i][1]
        else:
            free += containers[i][1]
        while free:
            open_ = lacks if collects else {c: lack for c, lack in lacks.items() if lack <= free}
            if not open_:
                break
            c = chosen(order, open_, free, draw)
            given = min(free, lacks[c])
            free -= given
            lacks[c] -= given
            if not lacks[c]:
                del lacks[c]
                waited[c] = now - containers[c][0]
                heapq.heappush(events, (now + containers[c][2], 0, c))
    return waited


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def run(world):
    n = 8 if world.quick else 16
    # The arrivals make more of a difference than the order, so many runs are needed.
    if not world.quick and world.pace == 1:
        world.seeds *= 3
    gap_s = GAP_S * world.pace
    finished, unshared = [], []
    measured, reckoned = [], {(order, collects): [] for order in ORDERS for collects in (True, False)}
    for seed in range(world.seeds):
        world.note(f"run {seed + 1} of {world.seeds}")
        kinds = arrivals(seed, n)
        unshared.append(mean("finished" in d for d in perform(world, kinds, None)))
        did = perform(world, kinds, "share")
        finished.append(mean("finished" in d for d in did))
        start = min(d["began"] for d in did)  # the start of the quickest container is no wait
        measured.append(mean(d["began"] - start for d in did))
        # A container without `finished` has failed, and then exited at once.
        held = [
            (i * gap_s, SIZES_MIB[kind], d.get("finished", d["began"]) - d["began"] + start)
            for i, (kind, d) in enumerate(zip(kinds, did))
        ]
        for order, collects in reckoned:
            reckoned[order, collects].append(mean(suspended(order, collects, held, seed)))
    waits = {
        "divvy": measured,
        **{order: min((reckoned[order, collects] for collects in (True, False)), key=mean) for order in ORDERS},
    }
    world.measure(finished=finished, waited=ratio_of_means(measured, min((waits[order] for order in ORDERS), key=mean)))
    world.draw(
        bars(
            "C: containers that finish",
            f"{n} containers of 1 to 32 GiB, one every {gap_s:.2g} s, on a device of 40 GiB",
            Axis("part of the containers", 0, 1, percent=True),
            ["without divvy", "divvy run --wait"],
            ["finish"],
            [[estimate(unshared)[:2]], [estimate(finished)[:2]]],
        )
    )
    top = max(sum(estimate(values)[:2]) for values in waits.values())
    world.draw(
        bars(
            "C: time suspended",
            "divvy run --wait, measured; ConVGPU's orders, reckoned for the same containers",
            Axis("mean seconds", 0, 1.1 * top),
            list(waits),
            ["suspended"],
            [[estimate(values)[:2]] for values in waits.values()],
        ),
        "waited",
    )
