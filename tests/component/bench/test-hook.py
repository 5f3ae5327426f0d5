#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With --hook and --env, the benches measure the shared runs with another project's library."""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from rig import BUILD, main, patience  # noqa: E402

LIBRARY = os.path.join(BUILD, "tests/component/bench/libtrivial.so")


def bench(name, *args):
    with tempfile.TemporaryDirectory() as folder:  # the bench makes a folder `out` in its current folder
        return subprocess.run(
            [os.path.join(BUILD, "bench/bench-" + name), "--quick", *args],
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=patience(150),
        )


def shared_runs_preload_the_library():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        done = bench(
            "busy",
            "--only",
            "1 ms kernels, switch 0 us",
            "--hook",
            LIBRARY,
            "--env",
            f"TRIVIAL_LOG={log}",
            "--out",
            os.path.join(folder, "some"),
            "--env",
            "TRIVIAL_TOLD=share {request} of {limit}, {memory} MiB",
        )
        assert done.returncode == 0 and "busy.fraction" in done.stdout, done
        assert "busy.fraction" in pathlib.Path(folder, "some").read_text(), "--only leaves --out alone"
        told = sorted(pathlib.Path(log).read_text().splitlines())
        # The runs for comparison (alone, and side by side without the library) do not load the
        # library.
        assert told == [f"share {share} of 100, 0 MiB" for share in (20, 30, 50)], told


def a_missing_library_is_refused():
    done = bench("busy", "--hook", "/nonexistent.so")
    assert done.returncode == 2 and "/nonexistent.so" in done.stderr, done


def benches_of_divvyd_are_skipped_with_another_library():
    done = bench("daemon", "--hook", LIBRARY)
    assert done.returncode == 0 and "nothing to measure" in done.stderr and "daemon." not in done.stdout, done


main(a_missing_library_is_refused, benches_of_divvyd_are_skipped_with_another_library, shared_runs_preload_the_library)
