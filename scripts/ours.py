# SPDX-License-Identifier: Apache-2.0
"""Lists the files that are part of the project, for the checks in this folder."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def ours():
    """The sorted names of all files that git tracks, from ROOT, without links. In a copy without git: all files that the build
    did not make."""
    try:
        out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
        names = out.stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        names = [n for n in names if not re.match(r"(build|out|\.git)", n)]
    return [n for n in sorted(names) if n and (ROOT / n).is_file() and not (ROOT / n).is_symlink()]
