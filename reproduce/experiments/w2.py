# SPDX-License-Identifier: Apache-2.0
"""Wang et al.'s pair: a training of high priority, alone and beside one of low priority."""

from draw import Axis, bars
from judge import estimate, ratios
from node import SETTLE_S, busy

# High works for 50 ms, then 20 ms on the processor: some 70 % of the device.
TRAINING = ("--kernel-us=1000", "--sync-every=5", "--burst-on=50", "--burst-off=20")
HIGH = ("--request", "0.8", "--class", "latency", "--memory", "10%")
STEADY = ("--kernel-us=1000",)
LOW = ("--request", "0.1", "--limit", "1", "--class", "opportunistic", "--memory", "10%")

WHY = ("Who has the higher class gets the device at its next kernel's end, and keeps it for half a millisecond after its last kernel, "
       "where Wang's scheduler waits 50 to 200 ms for it; low priority has what is left, less a kernel that is already running "
       "and two changes of context (150 us each in the simulated device) a step. Those changes and that kernel are what high loses; a "
       "hundredth, our own goal, is less than they are for steps of 70 ms, and is missed. Without divvy the device gives each program slices of 2 ms in turn.")


def shares(world, who, seconds, seed, policy="share"):
    """{name: share of the time in which all were there}."""
    with world.node(policy=policy) as node:
        for name in who:
            node.start(name, HIGH if name == "high" else LOW, f"--duration={seconds}",
                       f"--seed={seed + 1}", *(TRAINING if name == "high" else STEADY))
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(intervals[-1][1] for intervals in ran.values())
    return {name: busy(intervals, begin, end) / (end - begin) for name, intervals in ran.items()}


def run(world):
    seconds = 5 if world.quick else 12
    alone, low_alone, high, low, sliced = [], [], [], [], []
    for i in range(world.seeds):
        world.note(f"run {i + 1} of {world.seeds}")
        alone.append(shares(world, ["high"], seconds, i)["high"])
        low_alone.append(shares(world, ["low"], seconds, i)["low"])
        sliced.append(shares(world, ["high", "low"], seconds, i, None))
        both = shares(world, ["high", "low"], seconds, i)
        high.append(both["high"])
        low.append(both["low"])
    world.measure(loss=[1 - b / a for a, b in zip(alone, high)],
                  low=[b / a for a, b in zip(low_alone, low)],
                  low_of_rest=[b / (1 - a) for a, b in zip(alone, low)],
                  of_slices=ratios(high, [both["high"] for both in sliced]))
    world.draw(bars("W2: high beside low priority", "high uses the device for 50 ms of 70, low as much as it can get",
                    Axis("share of the device", 0, 1, percent=True), ["alone", "together", "together, without divvy"], ["high", "low"],
                    [[estimate(alone)[:2], estimate(low_alone)[:2]], [estimate(high)[:2], estimate(low)[:2]],
                     [estimate([both[name] for both in sliced])[:2] for name in ("high", "low")]]))
