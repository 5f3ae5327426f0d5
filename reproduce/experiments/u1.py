# SPDX-License-Identifier: Apache-2.0
"""KubeGPU's modes: programs with a device of their own, with a share, over a network, and as placement chooses."""

from contextlib import ExitStack

from draw import Axis, bars
from far import NETWORKS, WISH, Far, decided, seconds
from judge import estimate, largest, ratios

HOST = next(network for network in NETWORKS if network.kind == "host")
EXCLUSIVE = ("--request", "1", "--memory", "10%")
FIXED = ("exclusive", "local", "remote")

# How long their kernels are and how often they wait for the device is taken from the kind of program.
PROGRAMS = {"GEMM": ("--kernel-us=5000", "--sync-every=20", "--count=60"),
            "stencil": ("--kernel-us=1000", "--sync-every=1", "--count=200"),
            "n-body": ("--kernel-us=2000", "--sync-every=5", "--count=120"),
            "FFT": ("--kernel-us=300", "--sync-every=4", "--count=600"),
            "LeNet train": ("--kernel-us=200", "--sync-every=20", "--count=1000"),
            "LeNet infer": ("--kernel-us=200", "--sync-every=2", "--count=600"),
            "ResNet train": ("--kernel-us=1000", "--sync-every=50", "--count=250"),
            "ResNet infer": ("--kernel-us=2000", "--sync-every=5", "--count=120")}

WHY = ("A share beside nobody is as fast as a device alone, so that local costs nothing and leaves the rest to others; over the host's "
       "network a program loses what its synchronisations wait, and most of it where it waits for each short kernel or two. Placement takes local where the program and its device fit on one node, "
       "as here, and so is as good as the best up to what two runs of the same differ. That it goes over the network where nothing else "
       "is left is U2's; where devices are scarce the choice is not tested here. What a whole set of programs takes in each mode was not run.")


def took(world, mode, options):
    with ExitStack() as stack:
        node = stack.enter_context(world.node())
        wish = {"exclusive": EXCLUSIVE, "local": WISH}.get(mode)
        if mode == "remote":
            wish = stack.enter_context(Far(node, HOST)).wish
        return seconds(node, wish, options)


def run(world):
    chosen = decided(world.place, (HOST,), cpu=8)["outcome"]
    by_mode = {mode: [] for mode in (*FIXED, "adaptive")}
    for seed in range(world.seeds):
        for mode, runs in by_mode.items():
            world.note(f"run {seed + 1} of {world.seeds}, {mode}")
            runs.append({name: took(world, chosen if mode == "adaptive" else mode, options) for name, options in PROGRAMS.items()})
    total = {mode: [sum(of.values()) for of in runs] for mode, runs in by_mode.items()}
    best = min(FIXED, key=lambda mode: estimate(total[mode]).mean)
    slower = {name: ratios(*([of[name] for of in by_mode[mode]] for mode in ("remote", "exclusive"))) for name in PROGRAMS}
    world.measure(of_best=ratios(total["adaptive"], total[best]), remote=ratios(total["remote"], total["exclusive"]),
                  remote_worst=largest(slower.values()))
    world.draw(bars("U1: programs in each mode", f"alone on the device; adaptive: {chosen}; remote: 50 us each way, 9 Gbit/s, shaped on one machine",
                    Axis("seconds", 0, 0.5), list(PROGRAMS), list(by_mode),
                    [[estimate([of[name] for of in runs])[:2] for runs in by_mode.values()] for name in PROGRAMS]))
