# SPDX-License-Identifier: Apache-2.0
"""What divvy costs programs that have the device for themselves."""

from judge import ratios


def seconds(world, policy, options):
    """From the first kernel's start to the last one's end."""
    with world.node(policy=policy) as node:
        node.start("it", ("--request", "1", "--memory", "50%"), *options)
        ran = node.finish()["it"]
    return ran[-1][1] - ran[0][0]


def overheads(world, kinds):
    """{kind: [time against that without divvy, less one]}, of {kind: a program's options}."""
    out = {}
    for kind, options in kinds.items():
        bare, shared = [], []
        for i in range(world.seeds):
            world.note(f"{kind}, pair {i + 1} of {world.seeds}")
            bare.append(seconds(world, None, options))
            shared.append(seconds(world, "share", options))
        out[kind] = [r - 1 for r in ratios(shared, bare)]
    return out
