#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same tree on Debian 13: dpkg-buildpackage makes its packages there, and a program runs with a share after their
installation. The build needs the archive and half an hour of a small machine, so it is a soak."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

import debian_root  # noqa: E402
from tap import main, skip_all  # noqa: E402

SOURCE = os.environ["DIVVY_SOURCE"]
ROOT = "debian-13"
SUITE = "trixie"
ROOT_S = 600
INSTALL_S = 900
BUILD_S = 3600
PROGRAM = "import ctypes; cu = ctypes.CDLL('libcuda.so.1'); assert cu.cuInit(0) == 0; print('a device', flush=True)"


def a_build_on_debian_13_makes_packages_that_work():
    with debian_root.Copy(ROOT) as root:
        archive = subprocess.run(
            ["git", "-C", SOURCE, "archive", "--prefix=divvy/", "HEAD"], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", root.path("/mnt")], input=archive.stdout, check=True)
        root.run("apt-get", "update", "-q", seconds=INSTALL_S)
        options = ("-y", "--no-install-recommends")
        root.run("apt-get", "install", *options, "build-essential", "python3", seconds=INSTALL_S)
        root.run("apt-get", "build-dep", *options, "/mnt/divvy", seconds=INSTALL_S)
        root.run("sh", "-c", "cd /mnt/divvy && dpkg-buildpackage --no-sign --build=binary", seconds=BUILD_S)
        packages = ("/mnt/divvy_*.deb", "/mnt/divvy-kubernetes_*.deb", "/mnt/divvy-dev_*.deb")
        root.run("sh", "-c", f"apt-get install -y {' '.join(packages)}", seconds=INSTALL_S)
        run = ("divvy", "run", "--simulate", "1xH200-141Gi", "--request", "0.5", "--")
        done = root.run(*run, "python3", "-c", PROGRAM)
        assert done.stdout == "a device\n", done
        for program in ("divvyd", "divvy-scheduler", "divvy-controller"):
            assert root.run(program, "--version").stdout, program


for reason in (
    debian_root.why_not(),
    "" if os.path.exists(os.path.join(SOURCE, ".git")) else "the sources are no checkout of git",
    debian_root.make(SUITE, ROOT, ROOT_S),
):
    if reason:
        skip_all(reason)
main(a_build_on_debian_13_makes_packages_that_work)
