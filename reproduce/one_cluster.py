# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes of a run (on_cluster.py). It starts at the first request, and all experiments share it."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

from node import spawn

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIP = 77  # on_cluster.py's exit status


class Skipped(Exception):
    """The experiment cannot run on this machine; on_cluster.py has printed the reason."""


class OneCluster:
    """For one thread at a time."""

    def __init__(self, build, slowly=False):
        """slowly: at the original pace, not compressed."""
        self.build, self.slowly = build, slowly
        self.process = None

    def start(self):
        env = {**os.environ, "DIVVY_BUILD": str(self.build), "DIVVY_SOURCE": str(ROOT)}
        self.process = spawn(
            [sys.executable, ROOT / "reproduce/on_cluster.py", *(["--slowly"] if self.slowly else [])],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rows(self, what, sizes, rounds):
        """What on_cluster.py measures, one row at a time."""
        if not self.process or self.process.poll() is not None:  # on_cluster.py may have exited meanwhile
            self.start()
        with contextlib.suppress(BrokenPipeError):  # on_cluster.py has exited; its status gives the reason
            self.process.stdin.write(f"{what} {','.join(map(str, sizes))} {rounds}\n")
            self.process.stdin.flush()
        is_answered = False
        try:
            for line in self.process.stdout:
                is_answered = line == "\n"
                if is_answered:
                    return
                if line.startswith("{"):  # other lines are for people: that it waits, or logs of a failure
                    yield json.loads(line)
                else:
                    print(line, end="", file=sys.stderr)
        finally:
            if not is_answered:  # on_cluster.py has exited, or the caller reads no further
                self.process.terminate()
                status = self.end()
        if status == SKIP:
            raise Skipped
        raise RuntimeError(f"on_cluster.py {what} has ended with {status}")

    def end(self):
        """Ends the cluster and all that it has started. Returns on_cluster.py's exit status."""
        if not self.process:
            return 0
        process, self.process = self.process, None
        process.communicate()  # closes its input, and reads its last lines so that it does not block
        return process.returncode
