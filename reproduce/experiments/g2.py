# SPDX-License-Identifier: Apache-2.0
"""Gemini's accuracy: the share that a program receives against the share that is set."""

from draw import Axis, Line, lines
from judge import estimate
from node import SETTLE_S, busy

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
LENGTHS_US = {"20 us": 20, "1 ms": 1000, "20 ms": 20000, "100 ms": 100000, "500 ms": 500000}
GAPS = "1 ms, gaps of 1 ms"
KINDS = {
    **{length: (f"--kernel-us={us}",) for length, us in LENGTHS_US.items()},
    GAPS: ("--kernel-us=1000", "--sync-every=1", "--batch=1", "--burst-on=1", "--burst-off=1"),
}
JUDGED = ("20 us", "1 ms", "20 ms")  # as the goal says
GAPS_ASK = 0.5  # of the device: the program with gaps wants no more


def batches():
    """[(kind, set), ...] that run at once. Short kernels keep the machine busy: it bears five such programs."""
    short = [("20 us", share) for share in SHARES]
    middle, long, gaps = (
        [(kind, share) for kind in kinds for share in SHARES]
        for kinds in (("1 ms", "20 ms"), ("100 ms", "500 ms"), (GAPS,))
    )
    return short[:-1], middle, long + short[-1:], gaps


def name_of(kind, share):
    return f"kind-{list(KINDS).index(kind)}-{share}"


def shares(world, pairs, seconds):
    """{(kind, set): share received in `seconds`}. All programs run at once, each on a device of its own."""
    with world.node(devices=f"{len(pairs)}xH200-141Gi") as node:
        for i, (kind, share) in enumerate(pairs):
            node.start(
                name_of(kind, share),
                ("--request", str(share), "--limit", str(share), "--memory", "10%", "--device", str(i)),
                *KINDS[kind],
                f"--duration={SETTLE_S + seconds + 0.5:g}",
            )
        ran = node.finish()
    got = {}
    for kind, share in pairs:
        intervals = ran[name_of(kind, share)]
        begin = intervals[0][0] + SETTLE_S
        got[kind, share] = busy(intervals, begin, begin + seconds) / seconds
    return got


def run(world):
    seconds = 4 if world.quick else 10
    got = {(kind, share): [] for kind in KINDS for share in SHARES}
    for i in range(world.seeds):
        for pairs in batches():
            world.note(f"run {i + 1} of {world.seeds}, {' and '.join(sorted({kind for kind, _ in pairs}))}")
            for pair, share in shares(world, pairs, seconds).items():
                got[pair].append(share)
    world.measure(
        error=[
            max(abs(got[length, share][i] - share) for length in JUDGED for share in SHARES) for i in range(world.seeds)
        ],
        error_gaps=[
            max(abs(got[GAPS, share][i] - share) for share in SHARES if share < GAPS_ASK) for i in range(world.seeds)
        ],
    )
    world.draw(
        lines(
            "G2: share set against share got",
            f"request = limit, over {seconds} s; each alone on its device",
            Axis("share that was set", 0, 1, percent=True),
            Axis("share of the device", 0, 1, percent=True),
            [Line(kind, [(share, *estimate(got[kind, share])[:2]) for share in SHARES]) for kind in KINDS],
        )
    )
    world.draw(
        lines(
            "G2: how far off",
            f"request = limit, over {seconds} s; each alone on its device",
            Axis("share that was set", 0, 1, percent=True),
            Axis("got less set, in points of the device", -6, 6),
            [
                Line(
                    kind,
                    [
                        (share, *estimate([100 * (v - share) for v in got[kind, share]])[:2])
                        for share in SHARES
                        if kind != GAPS or share < GAPS_ASK
                    ],
                )
                for kind in KINDS
            ],
            bands=[(2, "holds"), (0, "as set"), (-2, "holds")],
        ),
        "error",
    )
