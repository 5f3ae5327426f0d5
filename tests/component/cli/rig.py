# SPDX-License-Identifier: Apache-2.0
"""Helpers of the command line's tests: TAP, and a daemon with a simulated GPU in a folder of its
own. A Rig ends everything that it starts. Then the Rig waits until the simulated device has exited,
shortly after its last user, and removes the folder."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from tap import PATIENCE_S, Skip, alive, main, patience, wait_for  # noqa: E402,F401

BUILD = os.environ["DIVVY_BUILD"]
SOURCE = os.environ["DIVVY_SOURCE"]
DIVVY = os.path.join(BUILD, "src/cli/divvy")
DIVVYD = os.path.join(BUILD, "src/divvyd/divvyd")
SIMCTL = os.path.join(BUILD, "src/simgpu/divvy-simctl")
SPIN = os.path.join(BUILD, "tests/programs/spin")
USAGE = os.path.join(BUILD, "tests/programs/usage-from-trace")


class Rig:
    def __init__(self, daemon=True, simulate="1xH200-141Gi", env=None):
        self.dir = tempfile.mkdtemp(prefix="divvy-test-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DIVVY_") and k != "LD_PRELOAD"}
        self.env.update(DIVVY_RUNTIME_DIR=self.dir, LC_ALL="C.UTF-8", COLUMNS="140", **(env or {}))
        self.simulate = simulate
        self.program = DIVVYD
        self.children = []
        self.daemon = None
        os.mkdir(os.path.join(self.dir, "sim"), 0o700)
        with open(os.path.join(self.dir, "sim/config"), "w", encoding="ascii") as f:
            f.write("linger = 50ms\n")
        if daemon:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            self.end(child)
        if self.daemon:
            self.end(self.daemon)
        self.end_on_demand()
        self.await_engine()
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, *args):
        with open(os.path.join(self.dir, "test.log"), "ab") as log:
            self.daemon = subprocess.Popen(
                [self.program, "--simulate", self.simulate, *args],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(lambda: self.daemon.poll() is not None or self.divvy("devices").returncode == 0, "the daemon serves")
        assert self.daemon.poll() is None, open(os.path.join(self.dir, "test.log")).read()

    def stop(self, sig=signal.SIGTERM):
        self.daemon.send_signal(sig)
        self.daemon.wait(patience())
        self.daemon = None

    def end_on_demand(self):
        """A daemon that `divvy run` started has no parent here: `divvy version` prints its pid."""
        words = self.divvy("version").stdout.split()
        if "pid" in words:
            pid = int(words[words.index("pid") + 1].rstrip(","))
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: not alive(pid), "the daemon has ended")

    def await_engine(self):
        path = os.path.join(self.dir, "sim", "engine.lock")
        if not os.path.exists(path):
            return
        with open(path, "rb") as lock:

            def free():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                except OSError:
                    return False

            wait_for(free, "the simulated device has exited")

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(patience(10))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def divvy(self, *args, env=None, timeout=PATIENCE_S):
        return subprocess.run(
            [DIVVY, *args],
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(timeout),
            check=False,
        )

    def json(self, *args):
        done = self.divvy(*args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def set_faults(self, text):
        """Sets the faults of the simulated devices, as in a file of faults."""
        subprocess.run(
            [SIMCTL, "--dir", os.path.join(self.dir, "sim"), "faults", "-"],
            input=text + "\n",
            env=self.env,
            text=True,
            timeout=patience(),
            check=True,
        )

    def run(self, *args, env=None):
        """Starts divvy run in the background; the child becomes the program."""
        child = subprocess.Popen(
            [DIVVY, "run", *args],
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child

    def talk(self, argv, env=None):
        """Starts a child whose stdin is a pipe, like its stdout and stderr."""
        child = subprocess.Popen(
            argv,
            env={**self.env, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child

    def spawn(self, *argv):
        child = subprocess.Popen(
            argv, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.children.append(child)
        return child

    def spin(self, name, *wish, args=("--kernel-us=1000", "--duration=7000")):
        child = self.run("--name", name, *wish, "--", SPIN, *args)
        wait_for(lambda: child.poll() is not None or self.tenant(name).get("processes"), f"{name} registers")
        assert child.poll() is None, child.communicate()
        return child

    def tenant(self, name):
        for tenant in self.json("ps", "-o", "json"):
            if tenant["name"] == name:
                return tenant
        return {}

    def got(self, name):
        return self.tenant(name)["devices"][0]["used_permille"]


def refused(done, code, *parts):
    """Checks that the command failed with this exit code and one sentence that has these parts."""
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("divvy"), done.stderr
    for part in parts:
        assert part in done.stderr, (part, done.stderr)
