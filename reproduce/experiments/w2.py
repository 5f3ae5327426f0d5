# SPDX-License-Identifier: Apache-2.0
"""Wang et al.'s pair: a training of high priority, alone and beside one of low priority."""

from draw import Axis, bars
from judge import estimate, ratios
from node import SETTLE_S, busy

# High priority works for 50 ms, then for 20 ms on the processor: some 70 % of the device.
WORKS_MS, PAUSES_MS = 50, 20
OTHER_WORKS_MS = {"short": WORKS_MS // 2, "long": 2 * WORKS_MS}
HIGH = ("--request", "0.8", "--class", "latency", "--memory", "10%")
STEADY = ("--kernel-us=1000",)
LOW = ("--request", "0.1", "--limit", "1", "--class", "opportunistic", "--memory", "10%")


def shares(world, who, seconds, seed, policy="share", works_ms=WORKS_MS):
    """{name: share of the time in which all were there}."""
    training = ("--kernel-us=1000", "--sync-every=5", f"--burst-on={works_ms}", f"--burst-off={PAUSES_MS}")
    with world.node(policy=policy) as node:
        for name in who:
            node.start(
                name,
                HIGH if name == "high" else LOW,
                f"--duration={seconds}",
                f"--seed={seed + 1}",
                *(training if name == "high" else STEADY),
            )
        ran = node.finish()
    begin = max(intervals[0][0] for intervals in ran.values()) + SETTLE_S
    end = min(intervals[-1][1] for intervals in ran.values())
    return {name: busy(intervals, begin, end) / (end - begin) for name, intervals in ran.items()}


def against_alone(alone, both):
    """([high's loss], [low's part of what is left over]), run by run."""
    return [1 - b["high"] / a for a, b in zip(alone, both)], [b["low"] / (1 - a) for a, b in zip(alone, both)]


def other_work(world, name, works_ms, seconds):
    """The same with steps of another length."""
    alone, both = [], []
    for i in range(world.seeds):
        world.note(f"{works_ms} ms of work, run {i + 1} of {world.seeds}")
        alone.append(shares(world, ["high"], seconds, i, works_ms=works_ms)["high"])
        both.append(shares(world, ["high", "low"], seconds, i, works_ms=works_ms))
    loss, of_rest = against_alone(alone, both)
    world.measure(**{f"loss_{name}": loss, f"low_of_rest_{name}": of_rest})
    return loss, of_rest


def run(world):
    seconds = 5 if world.quick else 12
    alone, low_alone, both, sliced = [], [], [], []
    for i in range(world.seeds):
        world.note(f"run {i + 1} of {world.seeds}")
        alone.append(shares(world, ["high"], seconds, i)["high"])
        low_alone.append(shares(world, ["low"], seconds, i)["low"])
        sliced.append(shares(world, ["high", "low"], seconds, i, None))
        both.append(shares(world, ["high", "low"], seconds, i))
    high, low, sliced_high, sliced_low = (
        [of[name] for of in runs] for runs in (both, sliced) for name in ("high", "low")
    )
    loss, of_rest = against_alone(alone, both)
    world.measure(
        loss=loss, low=[b / a for a, b in zip(low_alone, low)], low_of_rest=of_rest, of_slices=ratios(high, sliced_high)
    )
    by_work = {
        WORKS_MS: (loss, of_rest),
        **{works_ms: other_work(world, name, works_ms, seconds / 2) for name, works_ms in OTHER_WORKS_MS.items()},
    }
    world.draw(
        bars(
            "W2: high beside low priority",
            "high uses the device for 50 ms of 70, low as much as it can get",
            Axis("share of the device", 0, 1, percent=True),
            ["alone", "together", "together, without divvy"],
            ["high", "low"],
            [
                [estimate(values)[:2] for values in pair]
                for pair in ((alone, low_alone), (high, low), (sliced_high, sliced_low))
            ],
        )
    )
    works = sorted(by_work)
    world.draw(
        bars(
            "W2: with shorter and longer steps",
            f"high works for so long, then pauses for {PAUSES_MS} ms",
            Axis("part", 0, 1, percent=True),
            [f"{works_ms} ms" for works_ms in works],
            ["high's loss", "low's of the rest"],
            [[estimate(values)[:2] for values in by_work[works_ms]] for works_ms in works],
        ),
        "steps",
    )
