#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that tests/k8s/get rejects incomplete builds of Kubernetes. It builds nothing here."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from tap import main  # noqa: E402

GET = os.path.join(HERE, "get")


def said_in_get(name):
    with open(GET, encoding="utf-8") as f:
        return re.search(rf"^{name}=(\S+)", f.read(), re.MULTILINE).group(1)


@contextlib.contextmanager
def a_cache():
    """(folder, environment) of a complete cache, except for the contents of its files."""
    caches = tempfile.mkdtemp(prefix="divvy-test-")
    try:
        folder = os.path.join(caches, "divvy", "k8s-" + said_in_get("version"))
        os.makedirs(os.path.join(folder, "bin"))
        write(folder, "VERSIONS", f"recipe {said_in_get('recipe')}\n")
        write(folder, "bin/kubelet", "program")
        lines = []
        for name in ("VERSIONS", "bin/kubelet"):
            with open(os.path.join(folder, name), "rb") as f:
                lines.append(f"{hashlib.sha256(f.read()).hexdigest()}  ./{name}\n")
        write(folder, "SHA256SUMS", "".join(lines))
        yield folder, {**os.environ, "XDG_CACHE_HOME": caches}
    finally:
        shutil.rmtree(caches)


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as f:
        f.write(text)


def check(env):
    return subprocess.run(
        [GET, "--check"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def refused(env, why):
    done = check(env)
    assert done.returncode == 77 and done.stdout == "", done
    assert why in done.stderr and done.stderr.count("\n") == 1, done


def a_complete_cache_is_printed():
    with a_cache() as (folder, env):
        done = check(env)
        assert (done.returncode, done.stdout, done.stderr) == (0, folder + "\n", ""), done


def a_missing_cache_is_reported():
    with a_cache() as (folder, env):
        shutil.rmtree(folder)
        refused(env, "not built yet")
        write(os.path.dirname(folder), os.path.basename(folder) + ".why-not", "the moon is full\n")
        refused(env, "the moon is full")


def a_damaged_file_is_found():
    with a_cache() as (folder, env):
        write(folder, "bin/kubelet", "Program")
        refused(env, "damaged")


def missing_and_extra_files_are_found():
    with a_cache() as (folder, env):
        write(folder, "bin/more", "")
        refused(env, "not the files that were put there")
        os.unlink(os.path.join(folder, "bin/more"))
        os.unlink(os.path.join(folder, "bin/kubelet"))
        refused(env, "not the files that were put there")
        os.unlink(os.path.join(folder, "SHA256SUMS"))
        refused(env, "not complete")


def a_cache_of_another_recipe_is_rejected():
    with a_cache() as (folder, env):
        write(folder, "VERSIONS", "recipe 0\n")
        refused(env, "another version")


main(
    a_complete_cache_is_printed,
    a_missing_cache_is_reported,
    a_damaged_file_is_found,
    missing_and_extra_files_are_found,
    a_cache_of_another_recipe_is_rejected,
)
