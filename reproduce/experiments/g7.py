# SPDX-License-Identifier: Apache-2.0
"""Memory under Gemini's rule: the last byte, races of allocation and release, killed processes."""

import pathlib
import sys

from draw import Axis, Line, lines

DEVICE = "1xTest-12Gi"
GIB = 1 << 30
TENANTS = {"first": (3 * GIB, 3), "second": (4 * GIB, 3), "third": (2 * GIB, 2)}  # grant, processes at a time
PROGRAM = pathlib.Path(__file__).parent.parent / "program.py"


def held(account, pids):
    """[(seconds, bytes that these processes hold together), ...]"""
    holds, out = {}, []
    for at, pid, n_bytes in account:
        if pid in pids:
            holds[pid] = n_bytes
            out.append((at, sum(holds.values())))
    return out


def storm(world, policy, seconds, seed):
    """({tenant: what it held over time}, the number of refused allocations)."""
    with world.node(policy=policy, devices=DEVICE) as node:
        for i, (name, (grant, processes)) in enumerate(TENANTS.items()):
            node.launch(
                name,
                ("--request", "0.3", "--memory", str(grant)),
                world.build / "bench/allocator",
                str(processes),
                str(seconds),
                str(10 * seed + i + 1),
            )
        for name in TENANTS:
            node.end(name, "refused")
        node.wait()  # a program fails if a refusal has another code than CUDA's own
        words = {name: [line.split() for line in node.said(name)] for name in TENANTS}
        account = node.account()
    curves = {name: held(account, {int(n) for word, n in words[name] if word == "pid"}) for name in TENANTS}
    return curves, sum(int(n) for said in words.values() for word, n in said if word == "refused")


def over(curves):
    """The largest number of bytes above a grant, of all tenants and times."""
    return max(0, max(n - TENANTS[name][0] for name, curve in curves.items() for _, n in curve))


def edge(world):
    """([(whether the allocation was above the grant, the driver's code), ...], bytes above the grant)."""
    with world.node(devices=DEVICE) as node:
        node.launch("edge", ("--request", "0.1", "--memory", str(GIB)), sys.executable, PROGRAM, "edge")
        node.wait()
        wishes = [(kind == "above", int(code)) for kind, _, code in map(str.split, node.said("edge"))]
        account = node.account()
    return wishes, max(0, max(n for _, n in held(account, {pid for _, pid, _ in account})) - GIB)


def thin(curve, begin, n=400):
    """The largest value of each of n equal times, in GiB."""
    step = (curve[-1][0] - begin) / n
    most = {}
    for at, n_bytes in curve:
        i = int((at - begin) / step)
        most[i] = max(most.get(i, 0), n_bytes)
    return [(i * step, n_bytes / GIB) for i, n_bytes in sorted(most.items())]


def picture(curves, subtitle):
    begin = min(curve[0][0] for curve in curves.values())
    end = max(curve[-1][0] for curve in curves.values())
    return lines(
        "G7: memory held",
        subtitle,
        Axis("seconds", 0, end - begin),
        Axis("GiB", 0, 8),
        [Line(name, thin(curve, begin), marks=False) for name, curve in curves.items()],
        bands=[(grant / GIB, f"granted: {name}") for name, (grant, _) in TENANTS.items()],
    )


def run(world):
    seconds = 4 if world.quick else 20
    breaches, right = [], []
    for seed in range(world.seeds):
        world.note(f"run {seed + 1} of {world.seeds}")
        wishes, above = edge(world)
        curves, refused = storm(world, "share", seconds, seed)
        breaches.append(max(above, over(curves)))
        # A refusal within the grant is wrong, whatever its code.
        told = [is_above and code == 2 for is_above, code in wishes if is_above or code]
        right.append((refused + sum(told)) / (refused + len(told)))
    world.measure(breaches=breaches, out_of_memory=right)
    world.draw(
        picture(
            curves, "three tenants whose processes allocate, free and are killed at random; the most of every moment"
        )
    )
    world.note("without divvy")
    bare, _ = storm(world, None, 4, 0)
    if not over(bare):
        raise RuntimeError("nobody was above its grant without divvy either: this would find no breach")
    world.draw(picture(bare, "the same without divvy: nobody is held to a grant"), "unlimited")
