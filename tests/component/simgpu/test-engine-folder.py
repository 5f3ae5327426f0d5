#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An engine whose folder is a link: it serves in the folder behind the link, or says that this folder's path is too long."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from tap import main, patience  # noqa: E402

ENGINE = os.path.join(os.environ["DIVVY_BUILD"], "src/simgpu/divvy-sim-engine")
LEVELS = 15  # of names with 250 bytes: more than an engine can store, less than the kernel allows


def a_real_path_that_is_too_long_is_refused():
    with tempfile.TemporaryDirectory(prefix="divvy-test-") as folder:
        deep = os.path.join(folder, *["d" * 250] * LEVELS)
        os.makedirs(deep)
        link = os.path.join(folder, "link")
        os.symlink(deep, link)
        done = subprocess.run([ENGINE, "--dir", link], capture_output=True, text=True, check=False, timeout=patience())
        assert done.returncode == 1 and "its real path is too long" in done.stderr, done


main(a_real_path_that_is_too_long_is_refused)
