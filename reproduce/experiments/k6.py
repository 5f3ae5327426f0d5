# SPDX-License-Identifier: Apache-2.0
"""KubeShare's scheduling time: how long a decision takes with more and more shared pods."""

import json
import math
import subprocess

from draw import Axis, Line, lines
from judge import estimate

NODES = (10, 100, 1000)  # of eight devices, three quarters full: some 200, 2,000 and 20,000 pods

WHY = ("The engine keeps, for each kind of request, a bound of what every node offers, and looks closer only at those that may be the "
       "best; KubeShare looks at every shared device. Times are of one thread by the clock (bench/place.c): the engine and the "
       "processor are real, only the cluster is made up, and a machine that does something else meanwhile makes them longer.")


def decision_us(world, nodes):
    path = world.folder / "place.jsonl"
    path.unlink(missing_ok=True)
    subprocess.run([world.build / "bench/bench-place", "--quick", "--only", f"default, {nodes} nodes", "--out", path],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.unlink()
    return next(row["value"] for row in rows if row["metric"] == f"place.default.us_at_{nodes}")


def slope(values):
    """Of log(time) over log(nodes), by least squares."""
    x, y = [math.log(n) for n in NODES], [math.log(v) for v in values]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    return (sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y)) / sum((a - middle_x) ** 2 for a in x))


def run(world):
    runs = []
    for i in range(world.seeds):
        world.note(f"run {i + 1} of {world.seeds}")
        runs.append([decision_us(world, nodes) for nodes in NODES])
    world.measure(growth=[slope(values) for values in runs])
    points = [(nodes, *estimate([values[i] for values in runs])[:2]) for i, nodes in enumerate(NODES)]
    linear = [(nodes, points[0][1] * nodes / NODES[0]) for nodes in NODES]
    top = 10 ** math.ceil(math.log10(linear[-1][1]))
    world.draw(lines("K6: time of a decision", "nodes of eight devices, three quarters full; the clock and the processor are real",
                     Axis("nodes", 8, 1300, log=True), Axis("microseconds", 1, top, log=True),
                     [Line("divvy", points), Line("if it were linear", linear, dashed=True)]))
