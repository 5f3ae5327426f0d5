#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fork with and without exec, from threads, before and after the first use of the device."""

import os

from machine import CHAOS, Machine, run, soaking, survived, wait_for

FORKER = os.path.join(CHAOS, "forker")
MANY = "400" if soaking() else "24"

WORKERS = """
import ctypes, multiprocessing, os, sys
def work(n):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, p = ctypes.c_void_p(), ctypes.c_uint64()
    for r in (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
              cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(n << 20)),
              cuda.cuMemsetD8_v2(p, ctypes.c_ubyte(7), ctypes.c_size_t(n << 20)), cuda.cuCtxSynchronize(),
              cuda.cuMemFree_v2(p), cuda.cuCtxDestroy_v2(context)):
        if r:
            return f"error {r}"
    return "fine"
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(3) as pool:
        print(*sorted(set(pool.map(work, range(1, 10), chunksize=1))))
"""


def ends_well(name, *args, expected):
    with Machine() as m:
        tenant = m.create("forker", request="0.5")
        other = m.create("other", request="0.4").spin(kernel_us=400)
        child = tenant.start(FORKER, *args, registered=False)
        out = survived(child)
        assert out == expected + "\n", out
        m.goes_on(other.pid)
        wait_for(lambda: not tenant.pids(), "no process of the tenant is registered")
        m.books_are_right()
        assert tenant.used() == 0


def parent_and_child_can_use_cuda_after_an_early_fork():
    # The parent has no buffered output when it forks, so the line appears once.
    ends_well("before", "before", expected="both worked")


def cuda_refuses_children_after_its_first_use():
    ends_well("after", "after", expected="children were refused")


def threads_submit_while_others_fork():
    ends_well("threads", "threads", MANY, expected="launched throughout")


def a_program_can_exec_another_program_that_uses_cuda():
    ends_well("twice", "twice", "6", expected="the last one worked")


def python_workers_can_use_cuda():
    with Machine() as m:
        tenant = m.create("python", request="0.5")
        script = os.path.join(m.dir, "workers.py")
        with open(script, "w", encoding="utf-8") as f:
            f.write(WORKERS)
        for method in ("fork", "forkserver", "spawn"):
            done = tenant.run("/usr/bin/python3", script, method)
            assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", ""), (method, done)
        wait_for(lambda: not tenant.pids(), "no process of the tenant is registered")
        m.books_are_right()


def a_surviving_child_holds_nothing_of_its_parent():
    """The parent dies, and its forked child keeps every descriptor: the parent's share and memory
    are freed."""
    with Machine() as m:
        tenant = m.create("parent", request="0.5")
        other = m.create("other", request="0.4").spin(kernel_us=400)
        script = (
            f"import ctypes, os, time\nexec({WORKERS.split('if __name__')[0]!r})\n"
            "cuda = ctypes.CDLL('libcuda.so.1'); c, p = ctypes.c_void_p(), ctypes.c_uint64()\n"
            "assert not cuda.cuInit(0) and not cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0)\n"
            "assert not cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(64 << 20))\n"
            "pid = os.fork()\n"
            "if pid: print(pid, flush=True)\n"
            "time.sleep(300)\n"
        )
        child = tenant.start("/usr/bin/python3", "-c", script)
        orphan = int(child.stdout.readline())
        m.books_are_right()
        assert tenant.used() > 64 << 20
        child.kill()
        child.wait()
        wait_for(lambda: tenant.used() == 0, "the tenant holds no memory")
        m.books_are_right()
        m.goes_on(other.pid)
        os.kill(orphan, 9)
        os.waitpid(orphan, 0)


tests = [
    parent_and_child_can_use_cuda_after_an_early_fork,
    cuda_refuses_children_after_its_first_use,
    threads_submit_while_others_fork,
    a_program_can_exec_another_program_that_uses_cuda,
    python_workers_can_use_cuda,
    a_surviving_child_holds_nothing_of_its_parent,
]
run(*tests)
