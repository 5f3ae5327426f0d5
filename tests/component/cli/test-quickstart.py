#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/quickstart.md work, in order, in one shell that stops at the first
failure."""

import os
import re
import subprocess

from rig import BUILD, SOURCE, Rig, main, patience


def commands_of_the_page():
    with open(os.path.join(SOURCE, "docs/quickstart.md"), encoding="utf-8") as f:
        return re.findall(r"^```sh\n(.*?)^```$", f.read(), re.DOTALL | re.MULTILINE)


def every_command_works():
    blocks = commands_of_the_page()
    assert len(blocks) >= 8
    with Rig(daemon=False) as rig:
        path = ":".join((os.path.join(BUILD, "src/cli"), os.path.join(BUILD, "tests/programs"), os.environ["PATH"]))
        # The page uses job control; the trap ends jobs that a failure leaves.
        script = "set -em\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -v\n" + "\n".join(blocks)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=rig.dir,
            env={**rig.env, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patience(300),
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert "simulated" in done.stdout
        assert "left" in done.stdout and "CUDA_ERROR_OUT_OF_MEMORY" in done.stdout, done.stdout
        assert "limit 40%" in done.stdout, done.stdout
        assert os.path.exists(os.path.join(rig.dir, "usage.svg"))


main(every_command_works)
