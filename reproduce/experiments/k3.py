# SPDX-License-Identifier: Apache-2.0
"""KubeShare's token: a training by bursts, alone, with divvy against without."""

from draw import Axis, Line, lines
from judge import estimate, largest, ratios

BURSTS_MS = (5, 20, 50, 100, 200)
PAUSE_MS = 10
WORK_MS = 1000  # of kernels, the same in each run
TURNS = {"turns of 29 ms": ("--memory-policy", "fail"), "turns of 2 s": ("--memory-policy", "swap")}

LEAD = ("A program alone never gives its token away, so that there is next to nothing to measure; what an exchange costs is in W2 "
        "and G8.")
WHY = ("KubeShare's token runs out after a quota and has to be asked for anew, some 2 ms each time as we recall, whether anybody waits "
       "or not. divvy's is kept until somebody else wants the device, so that a program alone asks for it once, and after each pause. "
       "The length of a turn is no setting: swept are the two that there are, of ordinary tenants and of those that swap. Time is what "
       "the training takes, its pauses included, and what is above 0 is of the size of this machine's own noise.")


def seconds(world, policy, memory, burst_ms):
    with world.node(policy=policy) as node:
        node.launch("training", ("--request", "1", "--memory", "50%", *memory), world.build / "bench/requests", "burst",
                    str(WORK_MS // burst_ms), str(burst_ms), str(PAUSE_MS))
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
    world.draw(lines("K3: what the token costs", f"a training alone: bursts, then {PAUSE_MS} ms on the processor; against no library",
                     Axis("length of a burst in ms", 4, 250, log=True), Axis("longer than without", -0.05, 0.15, percent=True),
                     [Line(turn, [(x, *estimate(v)[:2]) for x, v in of_turn.items()]) for turn, of_turn in slower.items()],
                     bands=[(0.10, "KubeShare's claim"), (0, "as without")]))
