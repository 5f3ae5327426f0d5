# SPDX-License-Identifier: Apache-2.0
"""Programs that tests compile themselves: tests/programs/cuda-thread.c under each sanitizer of the machine's compilers,
tests/programs/other-libc.c for musl, and modules."""

import os
import re
import shutil
import subprocess

from tap import patience

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
BUILDS = [
    ("clang", "address"),
    ("clang", "thread"),
    ("clang", "memory"),
    ("clang", "leak"),
    ("clang", "undefined"),
    ("gcc", "address"),
    ("gcc", "address -static-libasan"),
    ("gcc", "thread"),
    ("gcc", "leak"),
    ("gcc", "undefined"),
]


def source_of(name):
    with open(os.path.join(PROGRAMS, name), encoding="utf-8") as f:
        return f.read()


def cuda_source():
    return source_of("cuda-thread.c")


def build(folder, name, source, command):
    """Compiles a program. Returns (its path, the compiler's messages on failure or "")."""
    path = os.path.join(folder, name)
    with open(path + ".c", "w", encoding="utf-8") as f:
        f.write(source)
    r = subprocess.run(
        command + ["-o", path, path + ".c", "-ldl", "-lpthread"],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    return path, r.stderr if r.returncode else ""


def sanitized(folder):
    """Yields for each sanitizer (name, result of build() or None, why it cannot be built or "")."""
    for compiler, options in BUILDS:
        name = f"a program of {compiler} -fsanitize={options}"
        command = [compiler, *f"-fsanitize={options}".split()]
        file = re.sub(r"\W", "-", f"{compiler}-{options}")
        if not shutil.which(compiler):
            yield name, None, f"no {compiler} here"
        elif build(folder, file, "int main(void) { return 0; }", command)[1]:
            yield name, None, f"this {compiler} has no such run time"
        else:
            yield name, build(folder, file, cuda_source(), command), ""


def musl(folder):
    """A dynamic program of musl's, as of build(); None without musl's compiler."""
    return build(folder, "musl", source_of("other-libc.c"), ["musl-gcc"]) if shutil.which("musl-gcc") else None


def module(folder, name):
    """A shared library of a source in tests/programs."""
    path, fault = build(folder, "module", source_of(name), ["gcc", "-shared", "-fPIC"])
    assert not fault, fault
    return path
