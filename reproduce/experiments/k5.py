# SPDX-License-Identifier: Apache-2.0
"""KubeShare's starting times: how much later pods with a share start than ordinary ones."""

from draw import Axis, Line, lines
from judge import estimate, largest, ratios

NUMBERS, QUICK_NUMBERS = (1, 10, 100), (1, 5)

LEAD = ("In the mean a share makes the start of pods a tenth longer at most, as is claimed, and that of the slowest of those created "
        "at once some 15 %; rounds differ by as much, so that the widest intervals reach past the claim.")
WHY = ("Time is from the request that creates a pod to its program's first instruction, the median of those created at once, and the last "
       "of them; the ordinary ones are of the same image on the same node, and never meet divvy, once without any device and once, as "
       "KubeShare's were, with a whole one of an ordinary device plugin, here one that answers at once. Of each comparison the number at "
       "once whose interval reaches furthest is judged. On a device that divvy has already a share costs a look by the webhook, and the "
       "kubelet's two calls to the node's daemon before the container starts. Where the device is another plugin's, divvy has none before "
       "each measurement, and the pods wait until a placeholder holds one: the scheduler says that they wait, the controller makes a pod "
       "that asks for a whole device, Kubernetes' scheduler finds it the node, the kubelet admits it, and the node's daemon, which asks "
       "the kubelet every 50 ms, sees which device it got. That is in front of their own start, whatever their number is, and its "
       "container starts beside theirs. The node offers its slots all the time, so that nobody waits for the kubelet to tell of them. "
       "Kubernetes is real, and control plane, kubelet and containers share the machine's processors, so that many at once wait for these "
       "most of all. Ten or a hundred at once take up to a tenth longer in the mean of the rounds; a hundred keep two processors busy "
       "for some 13 s, and rounds differ by more than that. The third picture parts what is added: with shares or without pods have their "
       "node equally soon to within a hundredth, and in the mean it is after that. Looked at beside the experiment, in three rounds that "
       "are not part of it, the API server worked for 3 s more in all, since it asks the webhook about each pod and each status that the "
       "kubelet writes of it, and passes on the node's status to who watches it, the kubelet for 1.4 s, and divvy's own parts for 1.2 s, "
       "of some 40 s for all processes. With acquiring each number is against ordinary pods of its own rounds, which are not drawn; more "
       "than ten at once are left out, for a placeholder's start is in front of one pod's and is hardly seen among a hundred. Now and "
       "then a round is slower, by some tenths of a second with one ordinary pod at once and by most of a second with ten that acquire: "
       "that makes these intervals as wide as they are, and that of ten wider than what we recall of KubeShare.")


def against(kind, ms, owner, numbers):
    return {n: ratios(ms[owner, "shared", n], ms[owner, kind, n]) for n in numbers}


def parts(ms, node_ms, n):
    """What a share in the pool adds before a pod has its node, and after, as part of an ordinary pod's whole time."""
    shared, ordinary = (list(zip(ms["divvy", kind, n], node_ms["divvy", kind, n])) for kind in ("shared", "ordinary"))
    before = [(s - o) / whole for (_, s), (whole, o) in zip(shared, ordinary)]
    return before, [(s - whole) / whole - b for (s, _), (whole, _), b in zip(shared, ordinary, before)]


def run(world):
    numbers = QUICK_NUMBERS if world.quick else NUMBERS
    ms, last, node_ms = {}, {}, {}
    for row in world.on_cluster("starts", numbers):
        world.note(f"{row['owner']}, {row['n']} at once, run {row['round'] + 1} of {world.seeds}: {row['kind']}")
        of = row["owner"], row["kind"], row["n"]
        ms.setdefault(of, []).append(row["ms"])
        last.setdefault(of, []).append(row["last_ms"])
        node_ms.setdefault(of, []).append(row["node_ms"])
    few = [n for n in numbers if ("pool", "shared", n) in ms]
    slower = {"in the pool": against("ordinary", ms, "divvy", numbers), "against a plugin's": against("native", ms, "divvy", numbers),
              "with acquiring": against("ordinary", ms, "pool", few)}
    added, of_native, acquire = (largest(by_n.values()) for by_n in slower.values())
    world.measure(added=added, added_last=largest(against("ordinary", last, "divvy", numbers).values()), added_native=of_native,
                  added_native_last=largest(against("native", last, "divvy", numbers).values()), added_acquire=acquire)
    names = {("divvy", "ordinary"): "ordinary", ("divvy", "shared"): "in the pool", ("divvy", "native"): "a plugin's device",
             ("pool", "shared"): "with acquiring"}
    seconds = {key: [(n, *[v / 1000 for v in estimate(ms[(*key, n)])[:2]]) for n in numbers if (*key, n) in ms] for key in names}
    top = max(p[1] + p[2] for points in seconds.values() for p in points)
    world.draw(lines("K5: time until a pod has started", "median of those created at once, on one node; Kubernetes and its processors are real",
                     Axis("pods at once", 0.9, 1.1 * numbers[-1], log=True), Axis("seconds", 0, 1.1 * top),
                     [Line(names[key], points) for key, points in seconds.items()]))
    world.draw(lines("K5: against ordinary pods", "median of those created at once, on one node",
                     Axis("pods at once", 0.9, 1.1 * numbers[-1], log=True),
                     Axis("time against ordinary ones", 0, 1.1 * max(2.2, *(estimate(v).mean for of in slower.values() for v in of.values()))),
                     [Line(words, [(n, *estimate(v)[:2]) for n, v in of.items()]) for words, of in slower.items()],
                     bands=[(1.1, "KubeShare's claim"), (2, "as we recall, with acquiring")]), "ratio")
    added = {part: [(n, *estimate(parts(ms, node_ms, n)[i])[:2]) for n in numbers] for i, part in enumerate(("to its node", "after that"))}
    reach = 1.1 * max(0.15, *(abs(y) + half for points in added.values() for _, y, half in points))
    world.draw(lines("K5: where the time goes that a share adds", "devices in the pool: before a pod has its node, and from then to its program",
                     Axis("pods at once", 0.9, 1.1 * numbers[-1], log=True), Axis("added, of an ordinary pod's time", -reach, reach, percent=True),
                     [Line(words, points) for words, points in added.items()], bands=[(0, "as an ordinary pod")]), "parts")
