#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the same commit make the same packages, in folders of other names, at other times, and with another
time zone, umask and home folder. The file .buildinfo records when it was made, so .buildinfo and .changes differ by
design. A soak, because it compiles divvy twice."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from tap import main, patience, skip_all  # noqa: E402

SOURCE = os.environ["DIVVY_SOURCE"]
BUILD_S = 1800


def built(folder, umask, **env):
    """{name: hash} of the packages that a copy of the repository in this folder makes."""
    copy, out = os.path.join(folder, "divvy"), os.path.join(folder, "packages")
    subprocess.run(["git", "clone", "--quiet", "--no-local", "--depth=1", "file://" + SOURCE, copy], check=True)
    done = subprocess.run(
        [os.path.join(copy, "scripts/deb"), out],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
        env={"PATH": os.environ["PATH"], "CCACHE_DISABLE": "1", "HOME": folder, **env},
        timeout=patience(BUILD_S),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for name in os.listdir(out):
        if name.endswith((".deb", ".dsc", ".tar.xz")):
            with open(os.path.join(out, name), "rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def two_builds_make_the_same_packages():
    with tempfile.TemporaryDirectory(prefix="divvy-test-bits-") as folder:
        other = os.path.join(folder, "a-folder-with-a-longer-name")
        os.makedirs(os.path.join(folder, "a"))
        os.makedirs(other)
        first = built(os.path.join(folder, "a"), 0o022, TZ="UTC", LC_ALL="C")
        second = built(other, 0o027, TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
        assert len(first) >= 5 and first == second, (first, second)


for reason in (
    "" if shutil.which("dh") and shutil.which("lintian") else "debhelper or lintian is not installed",
    "" if os.path.exists(os.path.join(SOURCE, ".git")) else "the sources are no checkout of git",
):
    if reason:
        skip_all(reason)
main(two_builds_make_the_same_packages)
