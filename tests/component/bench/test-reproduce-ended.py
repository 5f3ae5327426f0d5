#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A signal ends make reproduce while programs run on a node."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(os.environ["DIVVY_SOURCE"])
sys.path[:0] = [str(SOURCE / "tests")]

from tap import main, patience, wait_for  # noqa: E402


OURS = ("divvy", "spin")  # the first letters of the names of a run's programs


def processes_with(words):
    """{pid: name} of the run's processes whose environment contains `words`. Other processes'
    environments are not read: a read waits while the process is in exec, and a container's
    processes may be frozen there."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = (folder / "comm").read_text(encoding="utf-8").strip()
            if name.startswith(OURS) and words in (folder / "environ").read_bytes():
                found[int(folder.name)] = name
    return found


def leaves_nothing(sign):
    with tempfile.TemporaryDirectory(prefix="divvy-test-") as folder:
        mark = f"TEST_MARK={folder}".encode()
        with subprocess.Popen(
            [SOURCE / "reproduce/run.py", "--out", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "ONLY": "K2", "TEST_MARK": folder},
        ) as child:
            began = time.monotonic()
            wait_for(
                lambda: child.poll() is not None or {"divvyd", "spin"} <= set(processes_with(mark).values()),
                "programs run",
            )
            seen = time.monotonic() - began
            child.send_signal(sign)
            out, err = child.communicate(timeout=patience())
        assert child.returncode == 1 and "ended before all were run" in err and "K2: " not in out, (seen, out, err)
        wait_for(lambda: not processes_with(mark), "no process of the run is left")


def a_terminated_run_leaves_no_process():
    leaves_nothing(signal.SIGTERM)


def an_interrupted_run_leaves_no_process():
    leaves_nothing(signal.SIGINT)


main(a_terminated_run_leaves_no_process, an_interrupted_run_leaves_no_process)
