# SPDX-License-Identifier: Apache-2.0
"""Oscar's queue of files: bursts that start containers, on shares against on whole devices."""

from draw import Axis, bars
from judge import estimate, ratios

BURSTS, QUICK_BURSTS = (1, 10, 100), (1, 10)
SHARE, WHOLE = "0.25", "1"  # on_cluster.py's

WHY = ("The queue is the example deploy/examples/file-queue: a Job for each file, Kubernetes' Jobs and divvy's placement do the rest, and "
       "nothing that holds a device runs between bursts. Each file needs a fifth of a device for five seconds, and asks for a quarter or for "
       "a whole one; of the eight devices 32 such containers have their share at once, or eight. The time of a burst is from its first file "
       "until the last one is put away as done, and all bursts together are compared: where there are no more files than devices nothing is "
       "gained. Seconds until the first has its device are from the first file until the daemon sees a process of a container with a quarter. "
       "What is left is pods and shares, looked for until there are none, for a minute at most. Kubernetes is real, and its parts share the "
       "machine's processors with the containers that they start: what a burst takes beyond the five seconds grows with its files. A Job's "
       "pod from its creation to its removal takes most of a second of two processors, whatever it asks for, and that is what a hundred "
       "files with a share wait for: twenty seconds of their time are the work. Whole devices hide it behind theirs.")


def run(world):
    bursts = QUICK_BURSTS if world.quick else BURSTS
    rows = []
    for row in world.on_cluster("queue", bursts):
        world.note(f"{row['burst']} files at {row['request']}, run {row['round'] + 1} of {world.seeds}")
        rows.append(row)

    def seconds(request, n):
        return [r["seconds"] for r in rows if (r["request"], r["burst"]) == (request, n)]

    def in_all(request):
        return [sum(values) for values in zip(*(seconds(request, n) for n in bursts))]
    world.measure(to_zero=[max(r["left"] for r in rows if r["round"] == i) for i in range(world.seeds)],
                  of_whole=ratios(in_all(SHARE), in_all(WHOLE)),
                  cold_s=[sum(v) / len(v) for v in ([r["first_s"] for r in rows if r["round"] == i and r["request"] == SHARE]
                                                    for i in range(world.seeds))])
    values = [[estimate(seconds(request, n))[:2] for request in (WHOLE, SHARE)] for n in bursts]
    top = max(mean + half for group in values for mean, half in group)
    world.draw(bars("O: time for a burst of files", "eight devices of one node; a file needs a fifth of one for five seconds",
                    Axis("seconds", 0, 1.1 * top), [f"{n} file{'s' if n > 1 else ''}" for n in bursts],
                    ["whole devices", "a quarter each"], values))
