#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That tests/k8s/get takes nothing for a whole Kubernetes that is none. It builds nothing here."""

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
    """(folder, environment) of one that is whole, but for what is in its files."""
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
    return subprocess.run([GET, "--check"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)


def refused(env, why):
    done = check(env)
    assert done.returncode == 77 and done.stdout == "", done
    assert why in done.stderr and done.stderr.count("\n") == 1, done


def a_whole_one_is_named():
    with a_cache() as (folder, env):
        done = check(env)
        assert (done.returncode, done.stdout, done.stderr) == (0, folder + "\n", ""), done


def none_is_none():
    with a_cache() as (folder, env):
        shutil.rmtree(folder)
        refused(env, "not built yet")
        write(os.path.dirname(folder), os.path.basename(folder) + ".why-not", "the moon is full\n")
        refused(env, "the moon is full")


def damage_is_seen():
    with a_cache() as (folder, env):
        write(folder, "bin/kubelet", "Program")
        refused(env, "damaged")


def what_is_missing_or_too_much_is_seen():
    with a_cache() as (folder, env):
        write(folder, "bin/more", "")
        refused(env, "not the files that were put there")
        os.unlink(os.path.join(folder, "bin/more"))
        os.unlink(os.path.join(folder, "bin/kubelet"))
        refused(env, "not the files that were put there")
        os.unlink(os.path.join(folder, "SHA256SUMS"))
        refused(env, "not complete")


def another_recipe_is_another_cache():
    with a_cache() as (folder, env):
        write(folder, "VERSIONS", "recipe 0\n")
        refused(env, "another version")


main(a_whole_one_is_named, none_is_none, damage_is_seen, what_is_missing_or_too_much_is_seen,
     another_recipe_is_another_cache)
