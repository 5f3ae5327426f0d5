# SPDX-License-Identifier: Apache-2.0
"""KubeGPU's choice of the network: placement chooses among three, and programs run over each of them."""

from functools import partial

from draw import Axis, bars
from far import NETWORKS, Far, decided, loop_seconds, seconds
from judge import estimate

# The programs wait for the device often, now and then, or hardly ever: a link with high latency
# slows these waits. A narrow link slows copies.
PROGRAMS = {
    "inference": partial(seconds, options=("--kernel-us=200", "--sync-every=2", "--count=600")),
    "stencil": partial(seconds, options=("--kernel-us=500", "--sync-every=5", "--count=500")),
    "training": partial(loop_seconds, steps=5),
}
FACTORS = (0.5, 1, 2)  # of the latency


def times(world, factor):
    """({program: {network: seconds}}, {program: bytes to the device's node and back}), of one run."""
    out, sent = {program: {} for program in PROGRAMS}, {}
    for network in NETWORKS:
        late = network._replace(latency_us=network.latency_us * factor)
        for program, took in PROGRAMS.items():
            with world.node() as node, Far(node, late) as far:
                out[program][network.name] = took(node, far.wish)
                sent[program] = far.sent_bytes()
    return out, sent


def gain(taken, by_program):
    """The mean over the programs of the speed on that network against a random one."""
    gains = [sum(of.values()) / len(of) / of[taken] for of in by_program.values()]
    return sum(gains) / len(gains)


def run(world):
    kind = decided(world.place, NETWORKS)["network"]
    taken = next(network.name for network in NETWORKS if network.kind == kind)
    by_factor, sent = {}, []
    for factor in (1,) if world.quick else FACTORS:
        by_factor[factor] = []
        for seed in range(world.seeds):
            world.note(f"latency x{factor}, run {seed + 1} of {world.seeds}")
            took, of_each = times(world, factor)
            by_factor[factor].append(took)
            sent.append(of_each)
    world.measure(gain=[gain(taken, run_) for run_ in by_factor[1]])
    names = [network.name for network in NETWORKS]
    world.draw(
        bars(
            "U3: programs over each network",
            "200 us and 3 Gbit/s, 50 us and 9, 5 us and 40, each way; shaped on one machine",
            Axis("seconds", 0, 0.6),
            list(PROGRAMS),
            names,
            [[estimate([run_[program][name] for run_ in by_factor[1]])[:2] for name in names] for program in PROGRAMS],
        )
    )
    world.draw(
        bars(
            "U3: gain of the chosen network against a random one",
            "with half and twice the latency",
            Axis("speed against random", 0, 2),
            [f"latency x{factor}" for factor in by_factor],
            ["gain"],
            [[estimate([gain(taken, run_) for run_ in runs])[:2]] for runs in by_factor.values()],
            bands=[(1, "random")],
        ),
        "gain",
    )
    mib = {program: [[of_each[program][way] / (1 << 20) for of_each in sent] for way in (0, 1)] for program in PROGRAMS}
    world.draw(
        bars(
            "U3: what goes over the link",
            "of one program from its start to its end, over the fastest of the networks",
            Axis("MiB", 0, 1.2 * max(estimate(values).mean for ways in mib.values() for values in ways)),
            list(PROGRAMS),
            ["to the device's node", "back"],
            [[estimate(values)[:2] for values in ways] for ways in mib.values()],
        ),
        "bytes",
    )
