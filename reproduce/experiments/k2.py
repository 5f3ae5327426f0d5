# SPDX-License-Identifier: Apache-2.0
"""KubeShare's isolation experiment: A, B and C start one after the other, and end."""

import timeline
from node import Program
from timeline import Act

WINDOW_S, SLOW_WINDOW_S = 1, 10


def run(world):
    step = (4 if world.quick else 8) * world.pace
    window = WINDOW_S if world.pace == 1 else SLOW_WINDOW_S
    acts = [
        Act(Program("A", 0.3, 0.6), 0, 3 * step),
        Act(Program("B", 0.4, 0.6), step, 3 * step),
        Act(Program("C", 0.3, 0.5), 2 * step, 3 * step),
    ]
    all_off, ran = timeline.run(world, acts, least_phases=5)
    world.measure(
        from_rule=[off.from_rule for off in all_off],
        below_request=[off.below_request for off in all_off],
        above_limit=[off.above_limit for off in all_off],
    )
    world.draw(
        timeline.picture(
            "K2: isolation and elasticity",
            f"A 0.3 to 0.6, B 0.4 to 0.6, C 0.3 to 0.5, kernels of 1 ms, windows of {window} s",
            ran,
            window,
        )
    )
