# SPDX-License-Identifier: Apache-2.0
"""Helpers of the fault tests, on top of the command line's Rig with its daemon and simulated GPU:
tenants made over the socket, the device's own trace and account, and the checks after each fault.
After a fault the ledger is right, other programs continue, and nothing is left."""

import contextlib
import ctypes
import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

from rig import BUILD, DIVVYD, PATIENCE_S, Rig, SOURCE, SPIN, alive, main, patience, wait_for  # noqa: E402,F401
from tap import SKIP, Skip, fairly, skip_all, thaw  # noqa: E402,F401

DIVVYD_BEFORE = os.path.join(BUILD, "tests/component/chaos/divvyd-before")
HOOK_BEFORE = os.path.join(BUILD, "tests/component/chaos/libdivvy-cuda-before.so")
HOOKS = [os.path.join(BUILD, "src/hook/libdivvy-cuda.so"), os.path.join(BUILD, "src/hook/libdivvy-nvml.so")]
CHAOS = os.path.join(BUILD, "tests/component/chaos")
MIB = 1 << 20
SLACK = 4 * MIB  # allowed difference per process

MSG = {
    name: n
    for n, name in enumerate(
        "HELLO WELCOME REFUSED WANT RELEASE FLUSH MEM_RESERVE MEM_RELEASE MEM_REPLY MEASURE MEASURED BYE CONTROL"
        " CONTROL_REPLY YIELD SAY MEM_SHARE MEM_UNSHARE".split(),
        1,
    )
}
HEAD = struct.Struct("<IHHIi")
HELLO_AGAIN = 1

TRACE_RECORD = struct.Struct("<QQQQIIIIHBBHHQ")
ACCOUNT_RECORD = struct.Struct("<QQQIHH")
RING_HEAD = struct.Struct("<QIIQQIIQQ")
KERNEL = 0
ABORTED = 16


def run(*tests):
    """Runs all tests, or those with one of the command line's words in their names; a word after a
    minus excludes tests."""
    without = [w[1:] for w in sys.argv[1:] if w.startswith("-")]
    words = [w for w in sys.argv[1:] if not w.startswith("-")] or [""]
    tests = [t for t in tests if not any(w in t.__name__ for w in without)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the exit ends all that was started
    main(*[t for t in tests if any(w in t.__name__ for w in words)])


def seed_of(name):
    """The seed of this run: CHAOS_SEED or a random one. The printed seed repeats a failing run."""
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 31))
    print(f"# {name}: CHAOS_SEED={seed}", flush=True)
    return random.Random(seed)


def soaking():
    return os.environ.get("CHAOS_SOAK") == "1"


def subreaper():
    """Makes this process the parent of orphans of its descendants, so that it can find and reap
    them."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


class Ring:
    """A ring of records that the simulated machine writes; new() reads the records since the last
    call."""

    def __init__(self, path, record):
        with open(path, "rb") as f:
            self.map = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        self.record = record
        self.next = 0

    def head(self):
        return RING_HEAD.unpack_from(self.map, 0)

    def written(self):
        return self.head()[7]

    def new(self):
        capacity, written = self.head()[3], self.written()
        assert written - self.next <= capacity, "the ring was overwritten: look more often"
        for n in range(self.next, written):
            yield self.record.unpack_from(self.map, 4096 + n % capacity * self.record.size)
        self.next = written


class Peer:
    """A connection to the daemon's socket that sends and receives raw packets."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(patience())
        self.socket.connect(path)
        self.version = None  # of the last packet

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, body=b"", request=1, abi=1, fds=()):
        packet = HEAD.pack(HEAD.size + len(body), MSG[kind], abi, request, 0) + body
        socket.send_fds(self.socket, [packet], list(fds))

    def receive(self):
        """(type, status, body, fds); type None at the end of the connection."""
        packet, fds, _, _ = socket.recv_fds(self.socket, 1 << 16, 48)
        if not packet:
            return None, 0, b"", fds
        size, kind, self.version, _, status = HEAD.unpack_from(packet)
        assert size == len(packet)
        return next(k for k, n in MSG.items() if n == kind), status, packet[HEAD.size :], fds

    def hello(self, secret="0" * 32, flags=0, page_abi=1, devices=0, abi=1, fds=(), command=b"peer"):
        body = struct.pack("<II16sQiI32s", flags, page_abi, bytes.fromhex(secret), 0, 0, devices, command)
        self.send("HELLO", body, abi=abi, fds=fds)

    def ask(self, **request):
        self.send("CONTROL", struct.pack("<II", 0, 0) + json.dumps(request).encode())
        text = b""
        while True:
            kind, _, body, _ = self.receive()
            assert kind == "CONTROL_REPLY", f"{request}: answered with {kind}"
            more, _ = struct.unpack_from("<II", body)
            text += body[8:]
            if not more:
                return json.loads(text)


class Machine(Rig):
    """A Rig whose tenants live until they are removed, and whose programs start without `divvy
    run`."""

    def __init__(self, simulate="1xT4-16Gi", env=None, costs="context_create_us=1000", **kw):
        subreaper()
        self.rings = {}
        self.watches = {}
        super().__init__(simulate=simulate, env={"DIVVY_SIM_COSTS": costs, **(env or {})}, **kw)

    def __exit__(self, *exc):
        path = self.dir
        if exc and exc[0]:
            with contextlib.suppress(OSError):
                log = open(os.path.join(path, "test.log"), encoding="utf-8", errors="replace").read()
                print("# daemon: " + log[-4000:].strip().replace("\n", "\n# daemon: "))
            with contextlib.suppress(Exception):
                for t in self.tenants():
                    print(f"# {t['name']}: {t['processes']} {t['devices']}")
                print(f"# on the device: {self.account()} {self.kernels()}", flush=True)
            if os.environ.get("CHAOS_HOLD"):
                input(f"# held at {path}: press enter")
        for child in self.children:
            if child.poll() is None:
                thaw(child.pid)
        super().__exit__(*exc)
        self.rings.clear()
        reap()
        if not (exc and exc[0]):
            wait_for(lambda: not ours(path), f"no process is left over: {ours(path)}")
            for folder in filter(os.path.isdir, ("/dev/shm", "/run", "/run/lock", "/tmp")):
                left = [n for n in os.listdir(folder) if os.path.basename(path) in n]
                assert not left, f"left over in {folder}: {left}"

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = None

    # ---- the socket

    @property
    def socket_path(self):
        return os.path.join(self.dir, "divvyd.sock")

    def peer(self):
        return Peer(self.socket_path)

    def ask(self, **request):
        with self.peer() as peer:
            answer = peer.ask(**request)
        assert answer.get("ok"), f"{request}: {answer}"
        return answer

    def create(self, name, request="0.3", memory="2Gi", **spec):
        spec = {k.replace("_", "-"): v for k, v in spec.items()}
        answer = self.ask(cmd="create", name=name, lifetime="keep", spec={"request": request, "memory": memory, **spec})
        return Tenant(self, answer)

    def tenants(self):
        return self.ask(cmd="list")["tenants"]

    # ---- the device's own data

    @property
    def sim(self):
        return os.path.join(self.dir, "sim")

    def ring(self, name, record):
        if name not in self.rings:
            self.rings[name] = Ring(os.path.join(self.sim, name), record)
        return self.rings[name]

    def account(self):
        """{(pid, device): bytes that the process holds now}."""
        held = self.watches.setdefault("account", {})
        for _, count, _, pid, device, _ in self.ring("account", ACCOUNT_RECORD).new():
            held[pid, device] = count
        return {k: v for k, v in held.items() if v}

    def kernels(self):
        """{pid: kernels finished} so far."""
        seen = self.watches.setdefault("trace", {})
        intervals = self.watches.get("intervals")
        for r in self.ring("trace", TRACE_RECORD).new():
            if r[10] == KERNEL:
                seen[r[4]] = seen.get(r[4], 0) + (r[11] & 1)
                if intervals is not None:
                    intervals.append((r[0], r[1], r[4]))
        return seen

    def kernels_of(self, pid):
        return self.kernels().get(pid, 0)

    def goes_on(self, *pids, more=20):
        """Waits until each of these processes has completed `more` further kernels."""
        for pid in pids:
            goal = self.kernels_of(pid) + more
            wait_for(lambda p=pid, g=goal: self.kernels_of(p) >= g or not alive(p), f"pid {pid} goes on")
            assert alive(pid), f"pid {pid} has died"

    def shares(self, groups, seconds):
        """Share in 1/1000 of the device's time in which kernels of each group of pids run, over
        `seconds`."""
        self.kernels()
        start = time.monotonic_ns()
        self.watches["intervals"] = []
        while time.monotonic_ns() < start + seconds * 1e9:
            time.sleep(0.1)
            self.kernels()
        intervals = sorted(self.watches.pop("intervals"))
        # The device writes a record shortly after the kernel, so the measured interval ends with
        # the last recorded kernel.
        end = max((e for _, e, _ in intervals), default=start)
        shares = []
        for pids in groups:
            busy, reach = 0, start
            for b, e, pid in intervals:
                if pid in pids and e > reach:
                    busy += e - max(b, reach)
                    reach = e
            shares.append(1000 * busy / max(end - start, 1))
        return shares

    # ---- the ledger

    def wrong(self, but=()):
        """The first error of the ledger as a sentence, or ''. `but`: names of tenants to leave
        out."""
        tenants = [t for t in self.tenants() if t["name"] not in but]
        account = self.account()
        known = set()
        for t in tenants:
            pids = [p["pid"] for p in t["processes"]]
            known.update(pids)
            for pid in pids:
                if not alive(pid):
                    return f"{t['name']} lists pid {pid}, which is dead"
            for d in t["devices"]:
                device = sum(account.get((pid, d["index"]), 0) for pid in pids)
                # The ledger counts at least the device's memory. The ledger may count more, as a
                # small allocation may lie in a block of a module.
                if not device <= d["memory_used_bytes"] <= device + len(pids) * SLACK:
                    return (
                        f"{t['name']} on device {d['index']}: the ledger has {d['memory_used_bytes'] / MIB} MiB,"
                        f" the device {device / MIB} MiB, processes {pids}"
                    )
                if device > d["memory_quota_bytes"]:
                    return f"{t['name']} is above its quota: {device} bytes"
        strangers = {pid for pid, _ in account} - known
        dead = [pid for pid in strangers if not alive(pid)]
        if dead:
            return f"the device has memory of dead processes {dead}"
        return ""

    def books_are_right(self, but=()):
        end = time.monotonic() + patience()
        while True:
            wrong = self.wrong(but)
            if not wrong:
                return
            assert time.monotonic() < end, f"ledger: {wrong}"
            time.sleep(0.02)


class Tenant:
    def __init__(self, machine, answer):
        self.machine = machine
        self.id = answer["tenant"]
        self.name = answer["name"]
        self.secret = answer["secret"]
        self.env = {
            **answer["env"],
            "LD_PRELOAD": ":".join(h for h in HOOKS if os.path.exists(h)),
            "DIVVY_ABSENT": "closed",
        }

    def environment(self, env=None):
        return {**self.machine.env, **self.env, **(env or {})}

    def start(self, *argv, env=None, registered=True, **kw):
        kw = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kw}
        child = subprocess.Popen(argv, env=self.environment(env), **kw)
        self.machine.children.append(child)
        if registered:
            wait_for(lambda: child.poll() is not None or child.pid in self.pids(), f"{self.name}: {argv[0]} registers")
            assert child.poll() is None, f"{argv}: {child.returncode}: {child.communicate()}"
        return child

    def spin(self, *args, kernel_us=500, **kw):
        return self.start(SPIN, f"--kernel-us={kernel_us}", "--duration=7000", *args, **kw)

    def run(self, *argv, env=None, timeout=PATIENCE_S, **kw):
        return subprocess.run(
            argv,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(timeout),
            check=False,
            **kw,
        )

    def now(self):
        return next(t for t in self.machine.tenants() if t["id"] == self.id)

    def pids(self):
        return [p["pid"] for p in self.now()["processes"]]

    def used(self, device=0):
        return self.now()["devices"][device]["memory_used_bytes"]

    def set(self, **spec):
        return self.machine.ask(cmd="set", tenant=self.id, spec=spec)

    def remove(self):
        self.machine.ask(cmd="remove", tenant=self.id)


def reap():
    """Reaps children that came from a dead parent."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def ours(path):
    """Processes that use this runtime folder."""
    needle = f"DIVVY_RUNTIME_DIR={path}".encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as f:
                if needle in f.read().split(b"\0") and alive(int(pid)):
                    found.append(int(pid))
    return found


def kill(child, sig=signal.SIGKILL):
    child.send_signal(sig)
    if sig == signal.SIGKILL:
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()


def survived(child, code=0):
    """Checks that the child exits by itself, with this code; returns its output."""
    out, err = child.communicate(timeout=patience())
    assert child.returncode == code, f"{child.args[0]}: exit {child.returncode}: {out[-500:]}{err[-2000:]}"
    return out
