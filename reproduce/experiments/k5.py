# SPDX-License-Identifier: Apache-2.0
"""KubeShare's starting times: how much later pods with a share start than ordinary pods."""

from draw import Axis, Line, lines
from judge import estimate, largest, ratios

NUMBERS, QUICK_NUMBERS = (1, 10, 100), (1, 5)


def against(kind, ms, owner, numbers):
    return {n: ratios(ms[owner, "shared", n], ms[owner, kind, n]) for n in numbers}


def parts(ms, node_ms, n):
    """What a share of a present device adds, as part of an ordinary pod's whole time: (before the pod has its node, after
    that)."""
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
    slower = {
        "in the pool": against("ordinary", ms, "divvy", numbers),
        "against a plugin's": against("native", ms, "divvy", numbers),
        "with acquiring": against("ordinary", ms, "pool", few),
    }
    added, of_native, acquire = (largest(by_n.values()) for by_n in slower.values())
    world.measure(
        added=added,
        added_last=largest(against("ordinary", last, "divvy", numbers).values()),
        added_native=of_native,
        added_native_last=largest(against("native", last, "divvy", numbers).values()),
        added_acquire=acquire,
    )
    names = {
        ("divvy", "ordinary"): "ordinary",
        ("divvy", "shared"): "in the pool",
        ("divvy", "native"): "a plugin's device",
        ("pool", "shared"): "with acquiring",
    }
    seconds = {
        key: [(n, *[v / 1000 for v in estimate(ms[(*key, n)])[:2]]) for n in numbers if (*key, n) in ms]
        for key in names
    }
    top = max(p[1] + p[2] for points in seconds.values() for p in points)
    world.draw(
        lines(
            "K5: time until a pod has started",
            "median of those created at once, on one node; Kubernetes and its processors are real",
            Axis("pods at once", 0.9, 1.1 * numbers[-1], log=True),
            Axis("seconds", 0, 1.1 * top),
            [Line(names[key], points) for key, points in seconds.items()],
        )
    )
    world.draw(
        lines(
            "K5: against ordinary pods",
            "median of those created at once, on one node",
            Axis("pods at once", 0.9, 1.1 * numbers[-1], log=True),
            Axis(
                "time against ordinary ones",
                0,
                1.1 * max(2.2, *(estimate(v).mean for of in slower.values() for v in of.values())),
            ),
            [Line(words, [(n, *estimate(v)[:2]) for n, v in of.items()]) for words, of in slower.items()],
            bands=[(1.1, "KubeShare's claim"), (2, "as we recall, with acquiring")],
        ),
        "ratio",
    )
    added = {
        part: [(n, *estimate(parts(ms, node_ms, n)[i])[:2]) for n in numbers]
        for i, part in enumerate(("to its node", "after that"))
    }
    reach = 1.1 * max(0.15, *(abs(y) + half for points in added.values() for _, y, half in points))
    world.draw(
        lines(
            "K5: where the time goes that a share adds",
            "devices in the pool: before a pod has its node, and from then to its program",
            Axis("pods at once", 0.9, 1.1 * numbers[-1], log=True),
            Axis("added, of an ordinary pod's time", -reach, reach, percent=True),
            [Line(words, points) for words, points in added.items()],
            bands=[(0, "as an ordinary pod")],
        ),
        "parts",
    )
