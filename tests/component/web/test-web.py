#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page in Debian's chromium, driven by test-web.mjs; here is only what that needs, or why not."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "../..")
sys.path.insert(0, TESTS)

from tap import skip_all  # noqa: E402

found = subprocess.run([os.path.join(TESTS, "browser/get"), "--check"], stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, check=False)
if found.returncode:
    skip_all(found.stderr.strip())
os.environ["DIVVY_BROWSER"] = found.stdout.strip()
os.execvp("node", ["node", os.path.join(HERE, "test-web.mjs")])
