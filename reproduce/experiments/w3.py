# SPDX-License-Identifier: Apache-2.0
"""Wang et al.'s classes: which may share a device, one request to the engine for each cell."""

from draw import matrix

CLASSES = ("latency", "standard", "opportunistic")  # 0, 1, 2
SMALL, HALF, MOST = 0.05, 0.5, 0.85

# All sets of present tenants that the rules allow: (class, request), in the order of arrival.
COMPANIES = {
    "nobody": (),
    "0": ((0, SMALL),),
    "2": ((2, SMALL),),
    "2, 2": ((2, SMALL), (2, SMALL)),
    "0, 2": ((0, SMALL), (2, SMALL)),
    "2, 2, 0": ((2, SMALL), (2, SMALL), (0, SMALL)),
    "1 of 0.5": ((1, HALF),),
    "1 of 0.85": ((1, MOST),),
    "1, 1": ((1, SMALL), (1, HALF)),
    "1 of 0.5, 2": ((1, HALF), (2, SMALL)),
    "2, 2, 1": ((2, SMALL), (2, SMALL), (1, SMALL)),
}


def prototypes(company, newcomer):
    """Whether the rules of the prototype let it join."""
    n = [sum(c == kind for c, _ in company) for kind in range(3)]
    free = 1 - sum(request for _, request in company)
    if newcomer == 0:
        return n[0] == 0 and n[1] == 0
    if newcomer == 1:
        return n[0] == 0
    return not (n[2] >= 2 or (n[0] and n[2]) or (n[1] and free < 0.2))


def spec(tasks):
    lines = "".join(
        f"  - {{class: {CLASSES[kind]}, request: {request}, limit: {request}, duration: 100s}}\n"
        for kind, request in tasks
    )
    return f"nodes:\n  - {{name: a, devices: 1, memory: 16Gi, cpu: 64, host-memory: 256Gi}}\ntasks:\n{lines}"


def joins(place, company, newcomer):
    placed = place.one("wang", spec((*company, (newcomer, SMALL))), "--mode", "drop")["placed"]
    if placed < len(company):
        raise RuntimeError(f"of {company} only {placed} have a place: no company to join")
    return placed == len(company) + 1


def run(world):
    cells, agreed = [], 0
    for company in COMPANIES.values():
        row = []
        for newcomer in range(3):
            got, expected = joins(world.place, company, newcomer), prototypes(company, newcomer)
            agreed += got == expected
            row.append(("joins" if got else "may not", 1.0 if got else 0.0, got == expected))
        cells.append(row)
    world.measure(agree=agreed / (3 * len(COMPANIES)))
    world.draw(
        matrix(
            "W3: who may join whom",
            "one device, Wang et al.'s classes; framed where not as in the prototype",
            [f"class {i}" for i in range(3)],
            list(COMPANIES),
            cells,
            "who comes",
        )
    )
