# SPDX-License-Identifier: Apache-2.0
"""What divvy costs programs that have the device to themselves."""

from judge import ratios
from node import spin


def seconds(world, policy, command):
    """Seconds from the start of the first kernel to the end of the last."""
    with world.node(policy=policy) as node:
        node.launch("it", ("--request", "1", "--memory", "50%"), *command)
        ran = node.finish()["it"]
    return ran[-1][1] - ran[0][0]


def spinning(world, kinds):
    """{kind: options of spin} as {kind: command}."""
    return {kind: spin(world.build, *options) for kind, options in kinds.items()}


def overheads(world, commands, times=()):
    """{kind: [overhead, ...]} of {kind: command}. An overhead is the time with divvy over that without, less one. Each time
    is the sum of `times`[kind] runs, or of one run."""
    out = {}
    for kind, command in commands.items():
        bare, shared = [], []
        for i in range(world.seeds):
            world.note(f"{kind}, pair {i + 1} of {world.seeds}")
            took = {None: 0.0, "share": 0.0}
            for k in range(dict(times).get(kind, 1)):
                for policy in list(took)[:: 1 if (i + k) % 2 else -1]:
                    took[policy] += seconds(world, policy, command)
            bare.append(took[None])
            shared.append(took["share"])
        out[kind] = [r - 1 for r in ratios(shared, bare)]
    return out
