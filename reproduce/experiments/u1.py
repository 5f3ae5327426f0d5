# SPDX-License-Identifier: Apache-2.0
"""KubeGPU's modes: programs with a device of their own, with a share, over a network, and as placement chooses."""

import random
import time
from contextlib import ExitStack

from draw import Axis, Line, bars, lines
from far import CORES, NETWORKS, WISH, Far, decided, launched, said, seconds
from judge import estimate, largest, ratios

HOST = next(network for network in NETWORKS if network.kind == "host")
EXCLUSIVE = ("--request", "1", "--memory", "10%")
FIXED = ("exclusive", "local", "remote")

# The kind of program gives the length of its kernels, and how often it waits for the device.
PROGRAMS = {
    "GEMM": ("--kernel-us=5000", "--sync-every=20", "--count=60"),
    "stencil": ("--kernel-us=1000", "--sync-every=1", "--count=200"),
    "n-body": ("--kernel-us=2000", "--sync-every=5", "--count=120"),
    "FFT": ("--kernel-us=300", "--sync-every=4", "--count=600"),
    "LeNet train": ("--kernel-us=200", "--sync-every=20", "--count=1000"),
    "LeNet infer": ("--kernel-us=200", "--sync-every=2", "--count=600"),
    "ResNet train": ("--kernel-us=1000", "--sync-every=50", "--count=250"),
    "ResNet infer": ("--kernel-us=2000", "--sync-every=5", "--count=120"),
}

# Each number of ms in SET is a program: it works for that time, then pauses PAUSES times as long,
# until it has worked for SET_MS in all.
SET = (5, 10, 20, 40, 5, 10, 20, 40)
SET_MS, PAUSES = 200, 4
OTHER_PAUSES = {"busy": 2, "idle": 9}  # a program works for a third or a tenth of its time
QUARTER = ("--request", "0.25", "--limit", "1", "--memory", "10%")
SIZES, QUICK_SIZES = (1, 4, 8), (8,)
FREE = 2 * CORES  # cores of either node
HALVES = ("local", "remote")  # of the programs of a set, in turn, fixed beforehand
SETS = (*FIXED, "halves")
SHARED = SETS[1:]


def took(world, mode, options):
    with ExitStack() as stack:
        node = stack.enter_context(world.node())
        wish = {"exclusive": EXCLUSIVE, "local": WISH}.get(mode)
        if mode == "remote":
            wish = stack.enter_context(Far(node, HOST)).wish
        return seconds(node, wish, options)


def program(world, works_ms, pauses):
    """The command of one program of a set. Its pauses are `pauses` times as long as its work."""
    return world.build / "bench/requests", "burst", str(SET_MS // works_ms), str(works_ms), str(pauses * works_ms)


def mode_of_next(world, mode, running):
    """Where the next program goes beside the running ones, whose modes are in `running`. None: it waits."""
    cores = {where: FREE - CORES * running.count(where) for where in HALVES}
    if mode == "adaptive":
        outcome = decided(world.place, (HOST,), cpu=cores["local"], request=QUARTER[1], far_cpu=cores["remote"])[
            "outcome"
        ]
        return outcome if outcome in FIXED else None
    if mode == "exclusive":
        return None if running else mode
    return mode if cores[mode] >= CORES else None


def next_of(world, mode, waiting, running):
    """(index of the waiting program that goes next, where). None: all wait."""
    for i, (_, half) in enumerate(waiting if mode == "halves" else waiting[:1]):
        where = mode_of_next(world, half if mode == "halves" else mode, running)
        if where:
            return i, where
    return None


def set_took(world, mode, works_ms, pauses=PAUSES):
    """Seconds until all of these programs are done. They come at once, in this order."""
    with ExitStack() as stack:
        node = stack.enter_context(world.node())
        began, running, is_full = time.monotonic(), {}, False
        waiting = [(ms, HALVES[i % 2]) for i, ms in enumerate(works_ms)]
        while waiting or running:
            for child in [child for child in running if child.poll() is not None]:
                said(child)
                running.pop(child)[1].close()
                is_full = False
            found = None if is_full else next_of(world, mode, waiting, [where for where, _ in running.values()])
            if not found:
                is_full = True  # until a program ends
                time.sleep(0.01)
                continue
            i, where = found
            own = stack.enter_context(ExitStack())
            wish = {"exclusive": EXCLUSIVE, "local": QUARTER}.get(where) or own.enter_context(
                Far(node, HOST, QUARTER)
            ).wish
            running[launched(node, wish, *program(world, waiting.pop(i)[0], pauses))] = where, own
        return time.monotonic() - began


def sets(world, modes, sizes, pauses=PAUSES):
    """{mode: {size: [seconds, ...]}}, for those modes and for placement's choice."""
    ran = {mode: {n: [] for n in sizes} for mode in (*modes, "adaptive")}
    for seed in range(world.seeds):
        order = random.Random(seed).sample(SET, len(SET))
        for mode, by_size in ran.items():
            for n, took_s in by_size.items():
                world.note(f"run {seed + 1} of {world.seeds}, {n} at once, pauses of {pauses} times the work, {mode}")
                took_s.append(set_took(world, mode, order[:n], pauses))
    return ran


def against_best(took_s, modes):
    """The time of placement's choice against that of the mode which is best over all runs. took_s: {mode: [seconds,
    ...]}"""
    best = min(modes, key=lambda mode: estimate(took_s[mode]).mean)
    return ratios(took_s["adaptive"], took_s[best])


def other_set(world, name, pauses):
    """The whole set with other pauses, in all modes but exclusive, which is never the best."""
    took_s = {mode: by_size[len(SET)] for mode, by_size in sets(world, SHARED, [len(SET)], pauses).items()}
    world.measure(**{f"set_of_best_{name}": against_best(took_s, SHARED)})
    return took_s


def run(world):
    chosen = decided(world.place, (HOST,), cpu=8)["outcome"]
    by_mode = {mode: [] for mode in (*FIXED, "adaptive")}
    for seed in range(world.seeds):
        for mode, runs in by_mode.items():
            world.note(f"run {seed + 1} of {world.seeds}, {mode}")
            runs.append(
                {
                    name: took(world, chosen if mode == "adaptive" else mode, options)
                    for name, options in PROGRAMS.items()
                }
            )
    total = {mode: [sum(of.values()) for of in runs] for mode, runs in by_mode.items()}
    best = min(FIXED, key=lambda mode: estimate(total[mode]).mean)
    slower = {
        name: ratios(*([of[name] for of in by_mode[mode]] for mode in ("remote", "exclusive"))) for name in PROGRAMS
    }
    of_set = sets(world, SETS, QUICK_SIZES if world.quick else SIZES)
    most = max(of_set["adaptive"])
    whole_set = {mode: by_size[most] for mode, by_size in of_set.items()}
    other = {pauses: other_set(world, name, pauses) for name, pauses in OTHER_PAUSES.items()}
    world.measure(
        set_of_best=against_best(whole_set, SETS),
        set_of_named=against_best(whole_set, FIXED),
        set_of_exclusive=ratios(whole_set["adaptive"], whole_set["exclusive"]),
        of_best=ratios(total["adaptive"], total[best]),
        remote=ratios(total["remote"], total["exclusive"]),
        remote_worst=largest(slower.values()),
    )
    world.draw(
        bars(
            "U1: programs in each mode",
            f"alone on the device; adaptive: {chosen}; remote: 50 us each way, 9 Gbit/s, shaped on one machine",
            Axis("seconds", 0, 0.5),
            list(PROGRAMS),
            list(by_mode),
            [[estimate([of[name] for of in runs])[:2] for runs in by_mode.values()] for name in PROGRAMS],
        )
    )
    top = max(
        estimate(took_s).mean + estimate(took_s).half for by_size in of_set.values() for took_s in by_size.values()
    )
    world.draw(
        lines(
            "U1: a set of programs in each mode",
            "until all that came at once are done; cores for two beside the device, and for two on a node without one",
            Axis("programs that come at once", 0, most + 0.5),
            Axis("seconds until all are done", 0, 1.1 * top),
            [
                Line(mode, [(n, *estimate(took_s)[:2]) for n, took_s in by_size.items()])
                for mode, by_size in of_set.items()
            ],
        ),
        "set",
    )
    by_pauses = dict(sorted({PAUSES: whole_set, **other}.items()))
    top = max(sum(estimate(by_mode[mode])[:2]) for by_mode in by_pauses.values() for mode in (*SHARED, "adaptive"))
    world.draw(
        bars(
            "U1: the set with shorter and longer pauses",
            "until all eight are done",
            Axis("seconds until all are done", 0, 1.1 * top),
            [f"at work 1/{pauses + 1} of the time" for pauses in by_pauses],
            [*SHARED, "adaptive"],
            [[estimate(of[mode])[:2] for mode in (*SHARED, "adaptive")] for of in by_pauses.values()],
        ),
        "pauses",
    )
