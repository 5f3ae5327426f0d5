#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs with a habit that a driver must bear; each prints the same with a local and a remote
device."""

import ctypes as C
import os
import sys
import threading
import time

MIB = 1 << 20
CHILD_S = 60


def driver():
    lib = C.CDLL("libcuda.so.1")
    device, context = C.c_int(), C.c_void_p()
    for error in (lib.cuInit(0), lib.cuDeviceGet(C.byref(device), 0), lib.cuCtxCreate_v2(C.byref(context), 0, device)):
        assert error == 0, name(lib, error)
    return lib, context


def name(lib, error):
    text = C.c_char_p()
    lib.cuGetErrorName(error, C.byref(text))
    return text.value.decode()


def memory(lib, n):
    at = C.c_uint64()
    error = lib.cuMemAlloc_v2(C.byref(at), C.c_size_t(n))
    return at if error == 0 else name(lib, error)


def say(*words):
    print(*words, flush=True)


def threads(n):
    """Starts n threads whose calls run at the same time."""
    lib, context = driver()
    together, failed = threading.Barrier(n), []

    def use():
        error = lib.cuCtxSetCurrent(context)
        at = memory(lib, 1024)
        together.wait()
        if error or isinstance(at, str) or lib.cuMemFree_v2(at):
            failed.append((error, at))

    started = [threading.Thread(target=use) for _ in range(n)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    say(len(failed), "of", n, "failed")


def captures(n):
    """Makes a graph in each round, as programs do for each new shape of their data. Each second graph
    runs once; each other graph updates the kept executable graph."""
    lib, _ = driver()
    size = 8 * MIB
    stream, host, at = C.c_void_p(), C.create_string_buffer(size), memory(lib, size)
    lib.cuStreamCreate(C.byref(stream), 1)
    kept = C.c_void_p()

    def one(i):
        graph, made = C.c_void_p(), C.c_void_p()
        once = i % 2 == 0 and bool(kept)
        C.memset(host, i % 251, size)
        back = C.create_string_buffer(size)
        for error in (
            lib.cuStreamBeginCapture_v2(stream, 0),
            lib.cuMemcpyHtoDAsync_v2(at, host, C.c_size_t(size), stream),
            lib.cuMemcpyDtoHAsync_v2(back, at, C.c_size_t(size), stream),
            lib.cuStreamEndCapture(stream, C.byref(graph)),
            lib.cuGraphInstantiateWithFlags(C.byref(made if once else kept), graph, C.c_uint64(0))
            if once or not kept
            else lib.cuGraphExecUpdate_v2(kept, graph, C.create_string_buffer(24)),
            lib.cuGraphDestroy(graph),
            lib.cuGraphLaunch(made if once else kept, stream),
            # Destroyed before its launch has run: the driver keeps what the launch needs.
            lib.cuGraphExecDestroy(made) if once else 0,
            lib.cuStreamSynchronize(stream),
        ):
            assert error == 0, name(lib, error)
        assert back.raw == host.raw, i

    for half in ("warm", "done"):
        for i in range(n):
            one(i)
        say(half)
        sys.stdin.readline()


def parts(of, n):
    """Makes objects with many parts each. Destroying an object ends its parts."""
    lib, _ = driver()
    many = 200
    entries = "".join(f".visible .entry k{i}()\n{{\n\tret;\n}}\n" for i in range(many))
    image = (".version 6.4\n.target sm_70\n.address_size 64\n" + entries).encode()
    whole, inner, first, got = C.c_void_p(), C.c_void_p(), C.c_void_p(), (C.c_void_p * many)()
    count, child = C.c_size_t(many), C.c_void_p()
    lib.cuGraphCreate(C.byref(child), 0)
    for _ in range(many):
        lib.cuGraphAddEmptyNode(C.byref(first), child, None, C.c_size_t(0))

    def graph():
        return (
            lib.cuGraphCreate(C.byref(whole), 0),
            lib.cuGraphAddChildGraphNode(C.byref(first), whole, None, C.c_size_t(0), child),
            lib.cuGraphChildGraphNodeGetGraph(first, C.byref(inner)),
            lib.cuGraphGetNodes(inner, got, C.byref(count)),
            lib.cuGraphDestroy(whole),
        )

    def library():
        return (
            lib.cuLibraryLoadData(C.byref(whole), image, None, None, 0, None, None, 0),
            lib.cuLibraryEnumerateKernels(got, many, whole),
            lib.cuKernelGetFunction(C.byref(first), C.c_void_p(got[0])),
            lib.cuFuncGetModule(C.byref(inner), first),
            lib.cuModuleEnumerateFunctions(got, many, inner),
            lib.cuLibraryUnload(whole),
        )

    def module():
        return (
            lib.cuModuleLoadData(C.byref(whole), image),
            lib.cuModuleEnumerateFunctions(got, many, whole),
            lib.cuModuleUnload(whole),
        )

    for half in ("warm", "done"):
        for _ in range(n):
            for error in {"graph": graph, "library": library, "module": module}[of]():
                assert error == 0, name(lib, error)
        say(half)
        sys.stdin.readline()


def hoards(n):
    """Puts copies into one graph. Each copy needs 64 MiB of host memory on the device's machine."""
    lib, _ = driver()
    size = 64 * MIB
    stream, host, at, graph = C.c_void_p(), C.create_string_buffer(size), memory(lib, size), C.c_void_p()
    lib.cuStreamCreate(C.byref(stream), 1)
    lib.cuStreamBeginCapture_v2(stream, 0)
    for i in range(n):
        error = lib.cuMemcpyHtoDAsync_v2(at, host, C.c_size_t(size), stream)
        if error:
            say(i, name(lib, error))
            break
    lib.cuStreamEndCapture(stream, C.byref(graph))
    lib.cuGraphDestroy(graph)
    say(name(lib, lib.cuMemcpyHtoD_v2(at, host, C.c_size_t(size))))


def posts(what):
    """Makes calls that need no answer until one fails. They are so slow that no ring ever fills."""
    lib, _ = driver()
    at = memory(lib, MIB)
    say("begun")
    while True:
        host = C.c_void_p()
        error = {
            "memset": lambda: lib.cuMemsetD8Async(at, C.c_ubyte(1), C.c_size_t(64), None),
            "host": lambda: lib.cuMemHostAlloc(C.byref(host), C.c_size_t(4096), 0) or lib.cuMemFreeHost(host),
        }[what]()
        if error:
            break
        time.sleep(0.01)
    say(name(lib, error))


def closes():
    """Closes all descriptors except its own, like a program that becomes a daemon."""
    lib, _ = driver()
    os.closerange(3, 4096)
    at = C.c_uint64()
    while not lib.cuMemAlloc_v2(C.byref(at), C.c_size_t(4096)):
        time.sleep(0.01)
    say("failed")


def forks_after_closing():
    """Checks that files which reuse the numbers of closed descriptors stay open after a fork."""
    driver()
    os.closerange(3, 4096)
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(40)]
    pid = os.fork()
    if pid == 0:
        for f in files:
            os.fstat(f)
        os._exit(0)
    say(os.waitpid(pid, 0)[1])


def late_threads():
    """Starts threads whose first calls come just after the worker's death."""
    lib, context = driver()
    told = []

    def use():
        lib.cuCtxSetCurrent(context)
        told.append(memory(lib, 1024))

    say("begun")
    sys.stdin.readline()
    for _ in range(3):
        t = threading.Thread(target=use)
        t.start()
        t.join()
    say(*told)


def cycles(n):
    """Freed memory and its addresses can be allocated again. Prints the address space used, in
    GiB."""
    lib, _ = driver()
    for _ in range(n):
        assert lib.cuMemFree_v2(memory(lib, 3 * MIB)) == 0
    with open("/proc/self/statm", encoding="ascii") as f:
        say(int(f.read().split()[0]) * 4096 >> 30)


def total():
    """Prints the device's total memory before and after a line on stdin."""
    lib, _ = driver()
    for _ in range(2):
        size = C.c_size_t()
        lib.cuDeviceTotalMem_v2(C.byref(size), 0)
        say(size.value // MIB)
        sys.stdin.readline()


def forks(n):
    """Each child calls NVML, while threads of the parent do so too."""
    lib, ended = C.CDLL("libnvidia-ml.so.1"), threading.Event()
    handle = C.c_void_p()
    lib.nvmlInit_v2()
    lib.nvmlDeviceGetHandleByIndex_v2(0, C.byref(handle))

    def ask():
        return lib.nvmlDeviceGetMemoryInfo(handle, (C.c_ulonglong * 3)())

    def ask_on():
        while not ended.is_set():
            ask()

    asking = [threading.Thread(target=ask_on) for _ in range(4)]
    for t in asking:
        t.start()
    hung = 0
    for _ in range(n):
        pid = os.fork()
        if pid == 0:
            os._exit(ask() != 0)
        end = time.monotonic() + CHILD_S
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                hung += 1
                break
            time.sleep(0.005)
    ended.set()
    for t in asking:
        t.join()
    say(hung, "of", n, "hung")


if __name__ == "__main__":
    HABITS = {
        "threads": threads,
        "captures": captures,
        "parts": parts,
        "hoards": hoards,
        "posts": posts,
        "closes": closes,
        "total": total,
        "forks": forks,
        "forks_after_closing": forks_after_closing,
        "late_threads": late_threads,
        "cycles": cycles,
    }
    HABITS[sys.argv[1]](*[int(a) if a.isdigit() else a for a in sys.argv[2:]])
