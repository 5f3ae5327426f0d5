# SPDX-License-Identifier: Apache-2.0
"""KubeShare's case for first-class devices: fractions that are counted, but bound to no device."""

import random

from draw import Axis, bars

DEVICES = 4
DEMANDS = (0.8, 0.6, 0.5, 0.4, 0.4, 0.3, 0.2, 0.2, 0.2)  # 3.6 of four devices


def spec(order):
    tasks = "".join(f"  - {{request: {d}, limit: {d}, duration: 100s}}\n" for d in order)
    return f"nodes:\n  - {{name: a, devices: {DEVICES}, memory: 16Gi, cpu: 64, host-memory: 256Gi}}\ntasks:\n{tasks}"


def run(world):
    asked = {"replicas": [], "default": []}
    for seed in range(world.seeds):
        order = random.Random(seed).sample(DEMANDS, len(DEMANDS))
        for policy, runs in asked.items():
            runs.append(world.place.one(policy, spec(order), "--mode", "drop")["requested_most_of_devices"])
    world.measure(
        most_asked=max(max(run) for run in asked["default"]),
        replicas_most_asked=[max(run) for run in asked["replicas"]],
        placed=[sum(run) / sum(DEMANDS) for run in asked["default"]],
    )
    groups = [f"order {i + 1}" for i in range(len(asked["default"]))]
    for policy, name, part in (("replicas", "given in turn", "in-turn"), ("default", "bound by divvy", "")):
        world.draw(
            bars(
                f"K8: what is asked of each device, fractions {name}",
                "four devices, demands of 0.2 to 0.8 that sum up to 3.6, in random orders",
                Axis("asked of a device", 0, 2),
                groups[:10],
                [f"device {i}" for i in range(DEVICES)],
                [[(value, 0) for value in run] for run in asked[policy][:10]],
                bands=[(1, "all there is")],
            ),
            part,
        )
