#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/soak reports success only after all has run, and records what ran."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from rig import SOURCE, main  # noqa: E402

MESON = """#!/bin/sh
while [ $# -gt 0 ]; do
	[ "$1" = --logbase ] && base=$2
	shift
done
[ ! -e said.json ] || cp said.json "build/meson-logs/${base:-testlog}.json"
"""
FUZZ = """#!/bin/sh
echo "fuzz: fuzz-str for 600 s"
[ ! -e broken ] || { echo "fuzz: fuzz-str FAILED: the input is in out/fuzz"; exit 1; }
"""
WELL = {
    "name": "divvy:soak / chaos-soak",
    "result": "OK",
    "duration": 83.4,
    "stdout": "ok 1 - killed at random\nok 2 - killed in order\n1..2\n",
}


def soak(log=None, fuzz_fails=False):
    """Returns the exit status and the page (or None), with fake programs and fuzz targets."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        shutil.copytree(os.path.join(SOURCE, "scripts"), root / "scripts")
        for path in ("build/meson-logs", "docs", "bin"):
            (root / path).mkdir(parents=True)
        for path, text in ((root / "bin/meson", MESON), (root / "scripts/fuzz", FUZZ)):
            path.write_text(text)
            path.chmod(0o755)
        if log:
            (root / "said.json").write_text("".join(json.dumps(test) + "\n" for test in log))
        if fuzz_fails:
            (root / "broken").touch()
        done = subprocess.run(
            [root / "scripts/soak"],
            cwd=root,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"},
        )
        page = root / "docs/soak.md"
        return done.returncode, page.read_text() if page.exists() else None


def the_page_lists_what_ran():
    status, page = soak([WELL])
    assert status == 0
    assert "| chaos-soak | 0:01:23 | 2 | 0 | 0 |" in page, page
    assert "- killed at random\n" in page and "1 targets under ASan and UBSan, 600 s each, 0 of them failed" in page
    assert "commit unknown" in page, page


def without_results_the_soak_fails():
    status, page = soak()
    assert status != 0 and page is None


def the_page_shows_failures():
    bad = {**WELL, "result": "FAIL", "stdout": "ok 1 - killed at random\nnot ok 2 - killed in order\n1..2\n"}
    status, page = soak([WELL, bad])
    assert status != 0
    assert "| chaos-soak | 0:01:23 | 1 | 1 | 0 |" in page and "- killed in order: **failed**" in page, page
    status, page = soak([WELL], fuzz_fails=True)
    assert status != 0 and "str **failed**" in page, page


main(the_page_lists_what_ran, without_results_the_soak_fails, the_page_shows_failures)
