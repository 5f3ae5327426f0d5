# SPDX-License-Identifier: Apache-2.0
"""Helpers of the demos' tests: a demo in its own folder that leaves no file and no process, and a
second try if the machine was too busy."""

import os
import re
import subprocess
import tempfile

from rig import BUILD, SOURCE
from tap import Skip, processor_ticks, stat_of, was_busy

TRIES = 3


class Demo:
    def __init__(self, script, env=None, **popen):
        self.tmp = tempfile.TemporaryDirectory(prefix="divvy-test-")
        os.chmod(self.tmp.name, 0o1777)
        self.out = os.path.join(self.tmp.name, "out")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DIVVY_") and k != "LD_PRELOAD"}
        clean.update(DIVVY_BUILD=BUILD, DIVVY_OUT=self.out, TMPDIR=self.tmp.name, **(env or {}))
        self.process = subprocess.Popen(
            [os.path.join(SOURCE, "scripts", script)],
            env=clean,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            **popen,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        left = [n for n in os.listdir(self.tmp.name) if n != "out"]
        members = [p for p in os.listdir("/proc") if p.isdigit() and session(p) == self.process.pid]
        self.tmp.cleanup()
        assert not left, left
        assert not members, members


def session(pid):
    try:
        return stat_of(pid).session
    except OSError:
        return 0


def was_starved(out):
    """The device idled although all three programs had work: the machine had no free processor."""
    return sum(float(got) for got in re.findall(r"^[\w-]+ +[\d.]+% +([\d.]+)%", out, re.MULTILINE)) < 98


def tried(script, check, **popen):
    """Runs the demo until it succeeds and `check` accepts its output. Without an idle processor a
    program may wait for half a second, and other programs get its share; then the demo has another
    try."""
    for left in reversed(range(TRIES)):
        before = processor_ticks()
        with Demo(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **popen) as demo:
            out, _ = demo.process.communicate()
            if demo.process.returncode == 1 and (was_starved(out) or was_busy(before)):
                print("# the machine was too busy for a fair try:\n#", out.replace("\n", "\n# "))
                if left:
                    continue
                if was_busy(before):
                    raise Skip(f"the machine was too busy, {TRIES} times")
            assert demo.process.returncode == 0, (demo.process.returncode, out)
            check(out, demo)
            return
