#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operations in random order on all kinds of streams, memory and graphs. The memory's contents must
be the same on a local device, over shared memory, and over a fast or slow network."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from far import Far, Shim, serve  # noqa: E402
from rig import DIVVY, Rig, main, patience  # noqa: E402

WANDERER = sys.argv[1]
WISH = ("--request", "0.2", "--memory", "4Gi")
STEPS, SEEDS = "400", range(1, 9)


def is_right(child, *what):
    out, err = child.communicate(timeout=patience(280))
    assert child.returncode == 0 and out == "right\n", (what, child.returncode, out, err)


def results_are_right_on_a_local_device():
    with Rig() as rig:
        for seed in SEEDS:
            is_right(rig.spawn(DIVVY, "run", "--quiet", *WISH, "--", WANDERER, STEPS, str(seed)), seed)


def results_are_right_over_shared_memory():
    with Rig() as rig:
        for seed in SEEDS:
            is_right(
                rig.spawn(DIVVY, "run", "--quiet", *WISH, "--remote", "local", "--", WANDERER, STEPS, str(seed)), seed
            )


def results_are_right_over_a_network():
    with Rig() as rig:
        for seed in SEEDS:
            server, invitation = serve(rig, f"far-{seed}", *WISH)
            is_right(Far(rig).run(invitation, WANDERER, STEPS, str(seed)), seed)
            assert server.wait(patience()) == 0


def results_are_right_over_a_slow_network():
    with Rig() as rig:
        for seed, network in enumerate((("delay=200",), ("sway=3000",), ("delay=100", "sway=2000", "lame=300"))):
            server, invitation = serve(rig, f"slow-{seed}", *WISH)
            shim = Shim(rig, invitation, *network)
            is_right(Far(rig).run(shim.invitation, WANDERER, STEPS, str(seed)), seed, network)
            assert server.wait(patience()) == 0
            shim.end()


def results_are_right_when_each_call_waits():
    with Rig() as rig:
        for seed in SEEDS:
            child = rig.talk(
                [DIVVY, "run", "--quiet", *WISH, "--remote", "local", "--", WANDERER, STEPS, str(seed)],
                {"DIVVY_REMOTE_SYNC": "1"},
            )
            is_right(child, seed)


main(
    results_are_right_on_a_local_device,
    results_are_right_over_shared_memory,
    results_are_right_over_a_network,
    results_are_right_over_a_slow_network,
    results_are_right_when_each_call_waits,
)
