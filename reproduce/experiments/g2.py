# SPDX-License-Identifier: Apache-2.0
"""Gemini's accuracy: the share that a program got against the one that was set."""

from draw import Axis, Line, lines
from judge import estimate
from node import SETTLE_S, busy

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
LENGTHS_US = {"20 us": 20, "1 ms": 1000, "20 ms": 20000, "100 ms": 100000}
JUDGED = ("20 us", "1 ms", "20 ms")  # as the goal says

WHY = ("Each program has a device of a node to itself, up to fifteen devices at once, and its limit closes the gate whatever the kernels "
       "are. A kernel that runs cannot be interrupted, so that a turn may end one kernel late; what was too much is taken off the turns "
       "that follow. Over 10 s that leaves about one kernel: of 100 ms it is a hundredth of the device, and shown, but not part of the "
       "goal. Gaps between launches are not swept, and kernels shorter than 20 us not tried: "
       "the simulated device takes 4 us to begin one. Shares fall short where the program is late to use a gate that is open, on a machine of few processors.")


def name_of(length, share):
    return f"{LENGTHS_US[length]}us-{share}"


def shares(world, lengths, seconds):
    """{(length, set): share got of the last `seconds`}, all at once, each on a device of its own."""
    pairs = [(length, share) for length in lengths for share in SHARES]
    with world.node(devices=f"{len(pairs)}xH200-141Gi") as node:
        for i, (length, share) in enumerate(pairs):
            node.start(name_of(length, share),
                       ("--request", str(share), "--limit", str(share), "--memory", "10%", "--device", str(i)),
                       f"--kernel-us={LENGTHS_US[length]}", f"--duration={SETTLE_S + seconds + 0.5:g}")
        ran = node.finish()
    got = {}
    for length, share in pairs:
        intervals = ran[name_of(length, share)]
        begin = intervals[0][0] + SETTLE_S
        got[length, share] = busy(intervals, begin, begin + seconds) / seconds
    return got


def run(world):
    seconds = 4 if world.quick else 10
    got = {(length, share): [] for length in LENGTHS_US for share in SHARES}
    for i in range(world.seeds):
        for lengths in (("20 us",), ("1 ms", "20 ms", "100 ms")):  # short ones keep the machine busy: by themselves
            world.note(f"run {i + 1} of {world.seeds}, {' and '.join(lengths)}")
            for pair, share in shares(world, lengths, seconds).items():
                got[pair].append(share)
    world.measure(error=[max(abs(got[length, share][i] - share) for length in JUDGED for share in SHARES)
                         for i in range(world.seeds)])
    world.draw(lines("G2: share set against share got", f"request = limit, over {seconds} s; each alone on its device",
                     Axis("share that was set", 0, 1, percent=True), Axis("share of the device", 0, 1, percent=True),
                     [Line(length, [(share, *estimate(got[length, share])[:2]) for share in SHARES]) for length in LENGTHS_US]))
    world.draw(lines("G2: how far off", f"request = limit, over {seconds} s; each alone on its device",
                     Axis("share that was set", 0, 1, percent=True), Axis("got less set, in points of the device", -3, 3),
                     [Line(length, [(share, *estimate([100 * (v - share) for v in got[length, share]])[:2]) for share in SHARES])
                      for length in LENGTHS_US], bands=[(2, "holds"), (0, "as set"), (-2, "holds")]), "error")
