# SPDX-License-Identifier: Apache-2.0
"""KubeGPU's elastic shares: three programs start and end, and one pauses. Idle time is lent and given back."""

import timeline
from experiments import g7
from node import Program, TooBusy, busy, spells
from timeline import Act

A, B, C = Program("A", 0.5, 1.0), Program("B", 0.3, 1.0), Program("C", 0.2, 1.0)
WINDOW_S = 1.0
STEP_S = 0.05
NEAR = 0.02


def returns(ran, program):
    """Seconds from each return of the program, with the others at work, until it has its share again."""
    out = []
    others = [spells(ran[name]) for name in ran if name != program.name]
    for begin, end in spells(ran[program.name])[1:]:
        if (
            not all(any(b <= begin and begin + 2 * WINDOW_S <= e for b, e in of) for of in others)
            or end - begin < 2 * WINDOW_S
        ):
            continue
        at = begin
        while at + WINDOW_S <= end and busy(ran[program.name], at, at + WINDOW_S) / WINDOW_S < program.request - NEAR:
            at += STEP_S
        out.append(at - begin)
    return out


def run(world):
    pace = 0.5 if world.quick else 1
    bursts = (f"--burst-on={round(6000 * pace)}", f"--burst-off={round(4000 * pace)}")
    acts = [Act(A, 0, 30 * pace), Act(B, 4 * pace, 26 * pace, bursts), Act(C, 8 * pace, 20 * pace)]
    all_off, back, lent, ran = [], [], [], {}
    for i in range(world.seeds):
        world.note(f"run {i + 1} of {world.seeds}")
        ran = timeline.perform(world, acts, seed=i + 1)
        all_off.append(timeline.judged(ran, [A, B, C], 1 if world.quick else 4, world.name).from_rule)
        times = returns(ran, B)
        if not times:
            raise TooBusy("B has not come back beside both others: the machine is too busy to tell")
        back.append(max(times))
        lent.append(g7.edge(world)[1])
    world.measure(from_rule=all_off, given_back_s=back, memory_lent=lent)
    world.draw(
        timeline.picture(
            "U5: shares that are lent and given back", "gucore 50, 30 and 20, limits 100; B pauses; windows of 1 s", ran
        )
    )
