# SPDX-License-Identifier: Apache-2.0
"""DynamoML's services, whose replicas follow their load: Kubernetes' autoscaler, and what divvy measures."""

import statistics

from draw import Axis, Line, lines
from judge import ratios

LOAD_S, QUICK_LOAD_S = 60, 45
SHARES, WHOLE, STATIC = "on-shares", "on-whole", "static"  # on_cluster.py's
NAMES = {SHARES: "a fifth each", WHOLE: "whole devices", STATIC: "four of a fifth"}

LEAD = ("One request in six is lost, by the interval one in five to one in ten, nearly all of them while the service grows, where "
        "whole devices and fixed replicas lose next to none: what is saved is paid for with that.")
WHY = ("That no service level is violated, as DynamoML claims, does not hold under an autoscaler that looks at use; the bound of three "
       "quarters, by which it is judged besides, is ours. A request takes 20 ms of the device; a replica takes the next one as soon as "
       "it has answered, up to four wait, and what comes then is lost. The autoscaler holds use at seven tenths of what is granted: half "
       "a device needs four replicas of a fifth, and one of a whole one, which so has no reason to grow, loses hardly any, and is paid "
       "for all the time. On shares a service pays for about what its load needs, half a minute longer than it needs it, and loses "
       "requests while it grows. Growing takes several steps: a replica cannot use more than its fifth, so that what is measured is at "
       "most all that is granted, and the autoscaler adds at most three sevenths at a look; and divvy measures over 10 s, so that a load "
       "shows bit by bit, and reports a change within a second. In the runs shown here it still reported every 10 s, at another point of "
       "which each run's load began, for where it did decided how much was lost; what the newer reports save has not been measured. What "
       "is saved against "
       "four replicas all the time is, in the mean, all of the minute without load; the half minute in which it shrinks is not saved, "
       "nor is what is granted beyond four, which at this pace it is for some 25 s of the load's minute, and at Kubernetes' own is not: "
       "of a load that comes and goes by the minute about as much is saved as our goal asks, by the interval perhaps less, and what is "
       "lost while it grows is the price. A request on a fifth also takes longer: who has had 20 ms of the device waits until they are a "
       "fifth of the time again. How much is saved depends on how long the load is, here one minute, and a minute without. The ten "
       "seconds that divvy measures over are not compressed: at Kubernetes' own pace they are a smaller part of the autoscaler's period, "
       "and in the one run at that pace less was lost and more saved, though by no more than one run of ours may differ. None is asked "
       "for below one replica: of a service without any there is nothing to be measured; from nothing to work and back is O.")


def mean_curve(runs, step=1.0):
    """[(second, what was granted in the mean of runs)]"""
    first, last = max(run[0][0] for run in runs), min(run[-1][0] for run in runs)
    times = [first + i * step for i in range(int((last - first) / step) + 1)]
    return [(at, statistics.mean([value for t, value in run if t <= at][-1] for run in runs)) for at in times]


def run(world):
    load_s = world.pace * (QUICK_LOAD_S if world.quick else LOAD_S)
    rows = {service: [] for service in NAMES}
    for row in world.on_cluster("service", [load_s]):
        world.note(f"run {row['round'] + 1} of {world.seeds}, {NAMES[row['service']]}")
        rows[row["service"]].append(row)

    def of(service, metric, per=None):
        return [row[metric] / row[per] if per else row[metric] for row in rows[service]]

    def against(service, *metric):
        return ratios(of(SHARES, *metric), of(service, *metric))
    world.measure(of_whole=against(WHOLE, "granted_s", "answers"), of_static=against(STATIC, "granted_s", "answers"),
                  of_static_loaded=against(STATIC, "loaded_s", "answers"), p99_of_whole=against(WHOLE, "p99_s"),
                  answered_of_whole=against(WHOLE, "answered_all"), answered_of_static=against(STATIC, "answered_all"),
                  **{metric: of(SHARES, metric) for metric in ("answered", "answered_all", "left", "grow_s", "shrink_s")})
    curves = {service: mean_curve(of(service, "granted")) for service in rows}
    first, last = curves[SHARES][0][0], curves[SHARES][-1][0]
    world.draw(lines("D2: a service under an autoscaler", f"what is granted, {f'mean of {world.seeds} runs' if world.seeds > 1 else 'one run'}; Kubernetes is real",
                     Axis("seconds since the load began", first, last), Axis("devices", 0, 1.2),
                     [*(Line(NAMES[service], curve, marks=False) for service, curve in curves.items()),
                      Line("load", [(first, 0), (0, 0), (0, 0.5), (load_s, 0.5), (load_s, 0), (last, 0)], dashed=True, marks=False)]))
