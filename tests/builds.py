# SPDX-License-Identifier: Apache-2.0
"""Programs that tests compile themselves: tests/programs/cuda-thread.c under the sanitizers of the compilers that
are here."""

import os
import re
import shutil
import subprocess

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs/cuda-thread.c")
BUILDS = [
    ("clang", "address"), ("clang", "thread"), ("clang", "memory"), ("clang", "leak"), ("clang", "undefined"),
    ("gcc", "address"), ("gcc", "address -static-libasan"), ("gcc", "thread"), ("gcc", "leak"),
    ("gcc", "undefined"),
]


def cuda_source():
    with open(SOURCE, encoding="utf-8") as f:
        return f.read()


def build(folder, name, source, command):
    """(its path, what the compiler says where it makes none) of a program."""
    path = os.path.join(folder, name)
    with open(path + ".c", "w", encoding="utf-8") as f:
        f.write(source)
    r = subprocess.run(command + ["-o", path, path + ".c", "-ldl", "-lpthread"], capture_output=True,
                       text=True, timeout=120, check=False)
    return path, r.stderr if r.returncode else ""


def sanitized(folder):
    """For each way: (a name, a program as of build(), why it cannot be made here)."""
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
