#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy run with programs that are not built as most are: each behaves as it does alone."""

import tempfile

from rig import Rig, main

from builds import sanitized


def run_sanitized(*options, without=()):
    wrong = []
    with Rig() as rig, tempfile.TemporaryDirectory() as folder:
        for name, program, skip in sanitized(folder):
            if any(word in name for word in without):
                continue
            if skip:
                print(f"# {name}: {skip}")
                continue
            assert not program[1], program[1]
            done = rig.divvy("run", "-q", "--request", "0.1", *options, "--", program[0])
            if (done.returncode, done.stdout, done.stderr) != (3, "fine\n", ""):
                wrong.append(f"{name}: {done}")
    assert not wrong, "\n".join(wrong)


def sanitized_programs_run():
    run_sanitized()


def sanitized_programs_run_with_a_remote_device():
    # these two allow no memory at most addresses, and device memory has the addresses of the other side
    run_sanitized("--remote", "local", without=("thread", "memory"))


main(sanitized_programs_run, sanitized_programs_run_with_a_remote_device)
