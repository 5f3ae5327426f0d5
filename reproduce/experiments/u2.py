# SPDX-License-Identifier: Apache-2.0
"""KubeGPU's growing number of containers: placement uses up local devices, then devices over the network."""

import random
import re

from draw import Axis, Line, lines
from judge import estimate

MOST = 16
SHARE = 0.5  # of a device; with halves the sum of a node's free shares tells how many fit
NODES = {"a": (2, 8), "b": (2, 4), "c": (0, 32)}  # devices, cores
OUTCOMES = ("local", "remote", "queued")


def spec(cores):
    out = [
        "nodes:",
        *(f"  - {{name: {name}, devices: {n}, cpu: {cpu}}}" for name, (n, cpu) in NODES.items()),
        "networks:",
        *(f"  - {{node: {name}, kind: host, bandwidth: 9Gbps, latency: 50us}}" for name in NODES),
        "tasks:",
        *(f"  - {{request: {SHARE}, cpu: {n}, duration: 100s}}" for n in cores),
    ]
    return "\n".join(out) + "\n"


def follow(cores, decisions):
    """(whether no container with room on one node went over the network, the outcomes, the curve of outcomes)."""
    free = {name: [n / SHARE, cpu] for name, (n, cpu) in NODES.items()}
    counts, is_kept, curve = dict.fromkeys(OUTCOMES, 0), True, []
    for wanted, decision in zip(cores, decisions):
        has_room = any(halves >= 1 and left >= wanted for halves, left in free.values())
        is_kept &= (decision["outcome"] == "local") == has_room
        if decision["outcome"] == "local":
            device = tenant = re.search(r" on (\w+)$", decision["why"])[1]
        elif decision["outcome"] == "remote":
            tenant, device = re.search(r"runs on (\w+), device on (\w+) ", decision["why"]).groups()
        if decision["outcome"] != "queued":
            free[device][0] -= 1
            free[tenant][1] -= wanted
        if min(min(of) for of in free.values()) < 0:
            raise RuntimeError(f"more was given away than there is: {free} after {decision}")
        counts[decision["outcome"]] += 1
        curve.append(dict(counts))
    return is_kept, curve


def run(world):
    kept, curves = [], []
    for seed in range(world.seeds):
        rand = random.Random(seed)
        cores = [rand.randint(1, 4) for _ in range(MOST)]
        is_kept, curve = follow(cores, world.place.one("default", spec(cores), "--mode", "drop")["decisions"])
        if not any(counts["remote"] for counts in curve):
            raise RuntimeError(f"seed {seed}: nobody was sent over the network, nothing is told of the order")
        kept.append(float(is_kept))
        curves.append(curve)
    world.measure(local_first=kept)
    world.draw(
        lines(
            "U2: containers and where their devices are",
            "four devices on two nodes, half a device and 1 to 4 cores each; means",
            Axis("containers", 0, MOST),
            Axis("containers with that outcome", 0, 10),
            [
                Line(name, [(n + 1, *estimate([curve[n][name] for curve in curves])[:2]) for n in range(MOST)])
                for name in OUTCOMES
            ],
        )
    )
