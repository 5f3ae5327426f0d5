# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes of a run (on_cluster.py): started when it is asked for the first time, and there for all that ask."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

from node import spawn

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIP = 77  # on_cluster.py's status


class Skipped(Exception):
    """It cannot be run on this machine, as has been said."""


class OneCluster:
    """Asked by one thread at a time."""

    def __init__(self, build, slowly=False):
        """slowly: at the pace of what is measured, not compressed."""
        self.build, self.slowly = build, slowly
        self.process = None

    def start(self):
        env = {**os.environ, "DIVVY_BUILD": str(self.build), "DIVVY_SOURCE": str(ROOT)}
        self.process = spawn([sys.executable, ROOT / "reproduce/on_cluster.py", *(["--slowly"] if self.slowly else [])],
                             env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rows(self, what, sizes, rounds):
        """What it measures there, row by row."""
        if not self.process or self.process.poll() is not None:  # it may have died meanwhile
            self.start()
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why by its status
            self.process.stdin.write(f"{what} {','.join(map(str, sizes))} {rounds}\n")
            self.process.stdin.flush()
        is_answered = False
        try:
            for line in self.process.stdout:
                is_answered = line == "\n"
                if is_answered:
                    return
                if line.startswith("{"):  # the rest is for people: that it waits, or its logs where it fails
                    yield json.loads(line)
                else:
                    print(line, end="", file=sys.stderr)
        finally:
            if not is_answered:  # it has ended, or whoever asked has enough
                self.process.terminate()
                status = self.end()
        if status == SKIP:
            raise Skipped
        raise RuntimeError(f"on_cluster.py {what} has ended with {status}")

    def end(self):
        """With all that it has started. Returns its status."""
        if not self.process:
            return 0
        process, self.process = self.process, None
        process.communicate()  # nothing more is asked, and what it still says is read, so that it can say it
        return process.returncode
