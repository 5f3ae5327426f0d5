# SPDX-License-Identifier: Apache-2.0
"""KubeShare's token: a training by bursts, alone, with divvy against without."""

from draw import Axis, Line, lines
from judge import estimate, largest, ratios

BURSTS_MS = (5, 20, 50, 100, 200)
PAUSE_MS = 10
WORK_MS = 1000  # of kernels, equal in each run
TURNS = {"turns of 29 ms": ("--memory-policy", "fail"), "turns of 2 s": ("--memory-policy", "swap")}


def seconds(world, policy, memory, burst_ms):
    with world.node(policy=policy) as node:
        node.launch(
            "training",
            ("--request", "1", "--memory", "50%", *memory),
            world.build / "bench/requests",
            "burst",
            str(WORK_MS // burst_ms),
            str(burst_ms),
            str(PAUSE_MS),
        )
        node.wait()
        return int(node.said("training")[-1].split()[1]) / 1e9


def run(world):
    slower = {turn: {} for turn in TURNS}
    for burst_ms in world.few(BURSTS_MS):
        bare, shared = [], {turn: [] for turn in TURNS}
        for i in range(world.seeds):
            world.note(f"bursts of {burst_ms} ms, run {i + 1} of {world.seeds}")
            bare.append(seconds(world, None, (), burst_ms))
            for turn, memory in TURNS.items():
                shared[turn].append(seconds(world, "share", memory, burst_ms))
        for turn in TURNS:
            slower[turn][burst_ms] = [r - 1 for r in ratios(shared[turn], bare)]
    world.measure(slowdown=largest(v for of_turn in slower.values() for v in of_turn.values()))
    world.draw(
        lines(
            "K3: what the token costs",
            f"a training alone: bursts, then {PAUSE_MS} ms on the processor; against no library",
            Axis("length of a burst in ms", 4, 250, log=True),
            Axis("longer than without", -0.05, 0.15, percent=True),
            [Line(turn, [(x, *estimate(v)[:2]) for x, v in of_turn.items()]) for turn, of_turn in slower.items()],
            bands=[(0.10, "KubeShare's claim"), (0, "as without")],
        )
    )
