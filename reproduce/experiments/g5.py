# SPDX-License-Identifier: Apache-2.0
"""The pair of Gemini's slides: A alone, B joins, B pauses, B continues, A ends."""

import timeline
from node import Program
from timeline import Act


def run(world):
    pace = 0.5 if world.quick else 1
    acts = [
        Act(Program("A", 0.4, 0.7), 0, 20 * pace),
        # The first pause has a random length, which differs from run to run.
        Act(
            Program("B", 0.6, 0.8),
            4 * pace,
            24 * pace,
            (f"--burst-on={round(8000 * pace)}", f"--burst-off={round(4000 * pace)}"),
        ),
    ]
    all_off, ran = timeline.run(world, acts, least_phases=3)
    gemini_off, gemini = timeline.run(world, acts, least_phases=3, policy="gemini")
    world.measure(from_rule=[off.from_rule for off in all_off], gemini_from_rule=[off.from_rule for off in gemini_off])
    world.draw(
        timeline.picture("G5: Gemini's pair", "A 0.4 to 0.7, B 0.6 to 0.8, kernels of 1 ms, windows of 1 s", ran)
    )
    world.draw(
        timeline.picture(
            "G5: the same under Gemini's accounting", "its order of turns in divvy's arbiter (--policy gemini)", gemini
        ),
        "gemini",
    )
