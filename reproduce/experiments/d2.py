# SPDX-License-Identifier: Apache-2.0
"""DynamoML's services, whose replicas follow their load: Kubernetes' autoscaler, and what divvy measures."""

import statistics

from draw import Axis, Line, lines
from judge import ratios

LOAD_S, QUICK_LOAD_S = 60, 45
SHARE, WHOLE = "0.2", "1"  # on_cluster.py's
PEAK = 0.8  # four replicas: half a device at seven tenths of what is granted

WHY = ("A request takes 20 ms of the device; a replica takes the next one as soon as it has answered, up to four wait, and what comes then is "
       "lost. The autoscaler holds use at seven tenths of what is granted: half a device needs four replicas of a fifth, and one of a whole "
       "one, which so has no reason to grow, loses hardly any, and is paid for all the time. On shares a service pays for what its load needs and "
       "loses requests while it grows. Growing takes several steps: a replica cannot use more than its fifth, so that what is measured is at "
       "most all that is granted, and the autoscaler adds at most three sevenths at a look; and divvy measures over 10 s. A request on a fifth "
       "also takes longer: who has had 20 ms of the device waits until they are a fifth of the time again. How much is saved depends on how "
       "long the load is, here one minute of a little more than two. None is asked for below one replica: of a service without any there is "
       "nothing to be measured; from nothing to work and back is O.")


def mean_curve(runs, step=1.0):
    """[(second, what was granted in the mean of runs)]"""
    first, last = max(run[0][0] for run in runs), min(run[-1][0] for run in runs)
    times = [first + i * step for i in range(int((last - first) / step) + 1)]
    return [(at, statistics.mean([value for t, value in run if t <= at][-1] for run in runs)) for at in times]


def run(world):
    load_s = world.pace * (QUICK_LOAD_S if world.quick else LOAD_S)
    rows = {SHARE: [], WHOLE: []}
    for row in world.on_cluster("service" if world.pace == 1 else "slow-service", [load_s]):
        world.note(f"run {row['round'] + 1} of {world.seeds}, replicas of {row['share']}")
        rows[row["share"]].append(row)

    def of(share, metric):
        return [row[metric] for row in rows[share]]

    def against_whole(metric):
        return ratios(of(SHARE, metric), of(WHOLE, metric))
    each = {share: ratios(of(share, "granted_s"), of(share, "answers")) for share in rows}
    world.measure(of_whole=ratios(each[SHARE], each[WHOLE]), p99_of_whole=against_whole("p99_s"),
                  of_static=[row["granted_s"] / (PEAK * row["looked_s"]) for row in rows[SHARE]],
                  **{metric: of(SHARE, metric) for metric in ("answered", "answered_all", "left", "grow_s", "shrink_s")})
    curves = {share: mean_curve(of(share, "granted")) for share in rows}
    first, last = curves[SHARE][0][0], curves[SHARE][-1][0]
    world.draw(lines("D2: a service under an autoscaler", f"what is granted, {f'mean of {world.seeds} runs' if world.seeds > 1 else 'one run'}; Kubernetes is real",
                     Axis("seconds since the load began", first, last), Axis("devices", 0, 1.2),
                     [Line("a fifth each", curves[SHARE], marks=False), Line("whole devices", curves[WHOLE], marks=False),
                      Line("load", [(first, 0), (0, 0), (0, 0.5), (load_s, 0.5), (load_s, 0), (last, 0)], dashed=True, marks=False)]))
