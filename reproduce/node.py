# SPDX-License-Identifier: Apache-2.0
"""A node of its own: the real daemon, libraries and programs in front of a simulated device, in a folder that this module
removes at the end. All figures come from the device's trace, and from nothing else."""

import bisect
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple

DEVICE = "1xH200-141Gi"
TRACE_RECORDS = 2 << 20  # the device keeps so many; it overwrites older ones
ACCOUNT_RECORDS = 1 << 20
PATIENCE_S = 60
SETTLE_S = 1.0  # after a program starts or ends: shares are measured over windows
PAUSE_S = 0.3  # a program without a kernel for so long has paused
PHASE_S = 1.0  # shorter phases are not judged
ENDED = threading.Event()  # the user has ended the run


class Ended(Exception):
    """The user ended the run: ENDED is set."""


class TooBusy(RuntimeError):
    """Other work on the machine made the run meaningless. Another run may be good."""


def spawn(command, **options):
    """Like Popen. Raises Ended once ENDED is set, and terminates a process that started at that moment."""
    if ENDED.is_set():
        raise Ended
    child = subprocess.Popen(command, **options)
    if ENDED.is_set():
        child.terminate()
    return child


class Program(NamedTuple):
    name: str
    request: float
    limit: float


class Phase(NamedTuple):
    """A time in which the same programs worked."""

    begin: float
    end: float
    active: tuple  # names


class Node:
    """policy: that of the daemon's arbiter. With None there is no divvy, and programs talk to the device's own driver."""

    def __init__(self, build, policy="share", devices=DEVICE):
        self.build = build
        self.policy = policy
        self.devices = devices

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="divvy-reproduce-")
        self.sim = os.path.join(self.folder, "sim")
        self.children = {}
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DIVVY_") and k != "LD_PRELOAD"}
        self.env["DIVVY_RUNTIME_DIR"] = self.folder
        os.mkdir(self.sim, 0o700)
        with open(os.path.join(self.sim, "config"), "w", encoding="ascii") as file:
            file.write(f"linger = 50ms\ntrace.records = {TRACE_RECORDS}\naccount.records = {ACCOUNT_RECORDS}\n")
        self.daemon = None
        if self.policy:
            try:
                self.start_daemon()
            except BaseException:
                self.__exit__()
                raise
        else:
            self.env.update(
                DIVVY_SIM=self.sim,
                DIVVY_SIM_DEVICES=self.devices,
                LD_LIBRARY_PATH=str(self.build / "src/simgpu"),
                DIVVY_SIM_ENGINE=str(self.build / "src/simgpu/divvy-sim-engine"),
            )
        return self

    def start_daemon(self):
        ready, write = os.pipe()
        try:
            with open(os.path.join(self.folder, "log"), "wb") as log:
                self.daemon = spawn(
                    [
                        self.build / "src/divvyd/divvyd",
                        "--simulate",
                        self.devices,
                        "--policy",
                        self.policy,
                        "--ready-fd",
                        str(write),
                    ],
                    env=self.env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[write],
                )
        finally:
            os.close(write)
        with os.fdopen(ready) as pipe:  # a daemon that exits closes the pipe without a line
            if not pipe.readline():
                with open(os.path.join(self.folder, "log"), encoding="utf-8") as log:
                    raise RuntimeError(f"divvyd does not serve: {log.read()}")

    def __exit__(self, *_):
        for child in (*self.children.values(), *([self.daemon] if self.daemon else [])):
            if child.poll() is None:
                child.terminate()
            child.wait(PATIENCE_S)
        path = os.path.join(self.sim, "engine.lock")
        if os.path.exists(path):
            with open(path, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # waits until the device's engine has exited
        shutil.rmtree(self.folder, onerror=unless_gone)

    def start(self, name, wish, *options):
        """Starts a program that keeps the device busy (tests/programs/spin). `wish` has its options of `divvy run`."""
        self.launch(name, wish, *spin(self.build, *options))

    def launch(self, name, wish, *command):
        """Starts any program. `wish` has its options of `divvy run`; said() returns what the program prints."""
        if self.policy:
            command = [self.build / "src/cli/divvy", "run", "--quiet", "--name", name, *wish, "--", *command]
        with open(os.path.join(self.folder, name + ".out"), "wb") as out:
            self.children[name] = spawn(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True
            )

    def said(self, name):
        """The lines that the program printed."""
        with open(os.path.join(self.folder, name + ".out"), encoding="utf-8") as out:
            return out.read().splitlines()

    def end(self, name, last_words):
        """Terminates a program that does not exit by itself, once it has printed a line that begins with last_words."""
        while not any(line.startswith(last_words) for line in self.said(name)):
            if self.children[name].poll() is not None:
                break  # wait() reports its stderr
            time.sleep(0.05)
        self.children[name].terminate()

    def wait(self):
        """Waits until all programs have exited. Raises RuntimeError if one failed."""
        for name, child in self.children.items():
            words = child.communicate(timeout=10 * PATIENCE_S)[1]
            if child.returncode:
                raise RuntimeError(f"{name} ended with {child.returncode}: {words.strip()}")

    def finish(self):
        """Waits for all programs. Returns {name: [(begin, end), ...]}: when each kernel ran, in seconds."""
        self.wait()
        return self.trace()

    def trace(self):
        names = {child.pid: name for name, child in self.children.items()}
        ran = {name: [] for name in names.values()}
        for record in self.records("trace", TRACE_RECORDS):
            if record["engine"] == "compute" and record["kind"] == "kernel":
                ran[names[record["pid"]]].append((record["start_ns"] / 1e9, record["end_ns"] / 1e9))
        return {name: union(intervals) for name, intervals in ran.items()}

    def account(self):
        """[(seconds, process, bytes that the process holds from then on), ...]"""
        return [
            (record["t_ns"] / 1e9, record["pid"], record["bytes"])
            for record in self.records("account", ACCOUNT_RECORDS)
        ]

    def records(self, what, most):
        """All records of that kind that the device has written. Raises RuntimeError if there are `most`: older ones may be
        lost."""
        command = [self.build / "src/simgpu/divvy-simctl", f"--dir={self.sim}", "--json", what]
        n = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lines:
            for n, line in enumerate(lines.stdout, 1):
                yield json.loads(line)
        if lines.returncode:
            raise RuntimeError(f"divvy-simctl ended with {lines.returncode}")
        if n >= most:
            raise RuntimeError(f"the device's {what} has lost records: {most} are kept")


def spin(build, *options):
    """The command of a program that keeps a device busy."""
    return (build / "tests/programs/spin", "--quiet", *options)


def unless_gone(_, __, info):
    """For rmtree: the server of a program removes its socket by itself, a little after the program's end."""
    if not issubclass(info[0], FileNotFoundError):
        raise info[1]


def union(intervals):
    out = []
    for begin, end in sorted(intervals):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def busy(intervals, begin, end):
    """Seconds of [begin, end) that the intervals cover. They are in order, and none is within another."""
    ran = 0.0
    for i in range(max(0, bisect.bisect_left(intervals, (begin,)) - 1), len(intervals)):
        b, e = intervals[i]
        if b >= end:
            break
        ran += max(0.0, min(e, end) - max(b, begin))
    return ran


def spells(intervals):
    """[[begin, end], ...]: the times in which the program worked. A pause of PAUSE_S ends one."""
    out = []
    for begin, end in intervals:
        if out and begin - out[-1][1] < PAUSE_S:
            out[-1][1] = end
        else:
            out.append([begin, end])
    return out


def phases(ran):
    """All phases. Each begins SETTLE_S after a program has started, paused, continued or ended."""
    at_work = {name: spells(intervals) for name, intervals in ran.items()}
    edges = sorted({t for all_spells in at_work.values() for spell in all_spells for t in spell})
    out = []
    for begin, end in zip(edges, edges[1:]):
        active = tuple(
            name for name, all_spells in at_work.items() if any(b <= begin and end <= e for b, e in all_spells)
        )
        if active and end - begin >= SETTLE_S + PHASE_S:
            out.append(Phase(begin + SETTLE_S, end, active))
    return out


def rule(programs):
    """{name: share}: first the requests are met. What is left over goes to the programs with the smallest share, up to the
    limits."""
    share = {p.name: p.request for p in programs}
    limit = {p.name: p.limit for p in programs}
    left = 1 - sum(share.values())
    while left > 1e-9:
        open_ = [name for name in share if share[name] < limit[name] - 1e-9]
        if not open_:
            break
        least = min(share[name] for name in open_)
        lowest = [name for name in open_ if share[name] <= least + 1e-9]
        # Raise the lowest shares up to the next share, to a limit, or until nothing is left over.
        steps = [share[name] - least for name in open_ if share[name] > least + 1e-9]
        step = min(steps + [limit[name] - share[name] for name in lowest] + [left / len(lowest)])
        for name in lowest:
            share[name] += step
        left -= step * len(lowest)
    return share


class Distance(NamedTuple):
    """The largest distances over all phases and programs, in parts of the device; 0 if there was no program."""

    from_rule: float
    below_request: float
    above_limit: float
    n_phases: int


def distance(ran, programs):
    """How far shares were from the rule. In each phase the rule counts the programs that worked."""
    worst = [0.0, 0.0, 0.0]
    all_phases = phases(ran)
    for phase in all_phases:
        active = [p for p in programs if p.name in phase.active]
        expected = rule(active)
        for p in active:
            got = busy(ran[p.name], phase.begin, phase.end) / (phase.end - phase.begin)
            for i, off in enumerate((abs(got - expected[p.name]), p.request - got, got - p.limit)):
                worst[i] = max(worst[i], off)
    return Distance(*worst, len(all_phases))


def curve(intervals, begin, end, window=1.0, step=0.25):
    """[(seconds since begin, share in the window around that time), ...]"""
    n = int((end - begin - window) / step) + 1
    return [
        (i * step + window / 2, busy(intervals, begin + i * step, begin + i * step + window) / window)
        for i in range(max(n, 0))
    ]


def wait_until(moment):
    if ENDED.wait(max(0.0, moment - time.monotonic())):
        raise Ended
