#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries in programs that do not know of them: shells, small tools, a JVM, Python. These
programs behave and print as without the libraries, and leave no file or process. A Python
program also uses the device."""

import os
import shutil
import subprocess

from machine import HOOKS, Machine, patience, run, wait_for

JAVA = shutil.which("java")


def plain(*argv, **env):
    clean = {"PATH": os.environ["PATH"], "HOME": "/", "LC_ALL": "C.UTF-8", **env}
    return subprocess.run(
        argv, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(), check=False
    )


def same(*argv):
    """The program has the same results without the libraries, with them in a tenant, and with them
    without a daemon."""
    bare = plain(*argv)
    preload = ":".join(HOOKS)
    assert plain(*argv, LD_PRELOAD=preload).__dict__ == {**bare.__dict__}, argv
    with Machine() as m:
        tenant = m.create("mine", request="0.5")
        env = {k: v for k, v in tenant.env.items() if k.startswith(("DIVVY", "LD_"))}
        got = plain(*argv, **env)
        assert (got.returncode, got.stdout, got.stderr) == (bare.returncode, bare.stdout, bare.stderr), (argv, got)
        assert tenant.pids() == [] and tenant.used() == 0, "a program that does not use the device is not registered"


def shells_and_small_tools_behave_the_same():
    same(
        "/bin/bash",
        "-c",
        "umask; ulimit -n; trap; echo $((6 * 7)) | cat; (exit 3); echo $?; set -o | sort | head; "
        "for i in 1 2 3; do /bin/true & done; wait; ls /proc/self/fd | wc -l; cat /proc/self/status | grep -E 'Sig[^Q]|Threads'",
    )
    same("/bin/true")
    same("/bin/sh", "-c", "kill -TERM $$")
    same("/usr/bin/env", "-i", "/bin/echo", "nothing")


def a_jvm_behaves_the_same():
    if not JAVA:
        print("# there is no java here")
        return
    same(JAVA, "-Xshare:auto", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XshowSettings:vm", "-version")


def a_python_program_behaves_the_same():
    same(
        "/usr/bin/python3",
        "-c",
        "import threading, os, signal, sys\n"
        "print(threading.active_count(), os.umask(0), signal.getsignal(signal.SIGINT), sys.flags)\n"
        "import subprocess, multiprocessing\n"
        "print(subprocess.check_output(['echo', 'x']))\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, 2]))\n",
    )


def a_python_with_threads_and_fork_uses_the_device():
    """Forks workers that do not use the device from a program that does, like a loader of training
    data."""
    with Machine() as m:
        tenant = m.create("python", request="0.5")
        done = tenant.run(
            "/usr/bin/python3",
            "-c",
            """
import ctypes, multiprocessing, threading
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
p = ctypes.c_uint64()
assert not cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))
errors = []
def fill():
    errors.append(cuda.cuCtxSetCurrent(context))
    for i in range(200):
        errors.append(cuda.cuMemsetD8_v2(p, ctypes.c_ubyte(i), ctypes.c_size_t(1 << 20)))
    errors.append(cuda.cuCtxSynchronize())
threads = [threading.Thread(target=fill) for _ in range(4)]
for t in threads: t.start()
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(abs, range(-50, 0)) == list(range(50, 0, -1))
for t in threads: t.join()
host = ctypes.create_string_buffer(16)
errors.append(cuda.cuMemcpyDtoH_v2(host, p, ctypes.c_size_t(16)))
print(sum(map(bool, errors)), len(set(host.raw)))
""",
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "0 1\n", ""), done
        wait_for(lambda: not tenant.pids(), "no process of the tenant is registered")
        m.books_are_right()


run(
    shells_and_small_tools_behave_the_same,
    a_jvm_behaves_the_same,
    a_python_program_behaves_the_same,
    a_python_with_threads_and_fork_uses_the_device,
)
