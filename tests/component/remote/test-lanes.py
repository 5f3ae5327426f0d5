#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lanes of a session: each new thread has that of one that has just ended."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from rig import Rig, main  # noqa: E402

COPIER = sys.argv[2]
WISH = ("--request", "0.2", "--memory", "4Gi")


def threads_that_come_and_go():
    with Rig() as rig:
        child = rig.run("--name", "near", *WISH, "--quiet", "--remote", "local", "--", COPIER, "30", "4", "7")
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0 and out == "right\n", (out, err)


main(threads_that_come_and_go)
