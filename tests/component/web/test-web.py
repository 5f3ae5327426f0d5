#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test-web.mjs, which drives the page in Debian's chromium, or says what is missing."""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "../..")
sys.path.insert(0, TESTS)

from tap import skip_all  # noqa: E402

found = subprocess.run(
    [os.path.join(TESTS, "browser/get"), "--check"],
    stdin=subprocess.DEVNULL,
    capture_output=True,
    text=True,
    check=False,
)
if found.returncode:
    skip_all(found.stderr.strip())
os.environ["DIVVY_BROWSER"] = found.stdout.strip()
# Interfaces of other tests' nodes appear and disappear, and that breaks a browser's connections:
# the browser gets its own network namespace where possible.
argv, own = ["node", os.path.join(HERE, "test-web.mjs")], [
    "unshare",
    "--net",
    "sh",
    "-c",
    'ip link set lo up && exec "$@"',
    "sh",
]
if (
    shutil.which("unshare")
    and subprocess.run([*own, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
):
    argv = own + argv
os.execvp(argv[0], argv)
