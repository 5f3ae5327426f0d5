#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that experiments start as tenants, beside tests/programs/spin and those of bench/. They know
nothing of divvy: they open libcuda.so.1 by name and call the driver. Times are CLOCK_MONOTONIC seconds.

usage: program.py edge
         allocates what is free, to the byte; prints a line for each allocation: KIND BYTES CODE
       program.py halves MIB SECONDS
         allocates that much memory in two pieces, works, and exits; prints a line for each event: EVENT TIME
       program.py serve LOAD REQUEST_MS SECONDS SEED
         answers requests that arrive by Poisson for so long, one after the other; prints their arrival times
       program.py bursts KIND SECONDS SEED
         four equal kernels, a wait, a pause as long as one kernel; KIND is periodic, bimodal or drifting"""

import ctypes
import pathlib
import random
import sys
import time

OUT_OF_MEMORY = 2
KERNELS = pathlib.Path(__file__).parent.parent / "src/simgpu/kernels.ptx"


class Driver:
    """The device's only context, and the few calls that these programs need."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.check(self.cuda.cuInit(0), "cuInit")
        self.check(self.cuda.cuCtxCreate_v2(ctypes.byref(self.context), 0, 0), "context")

    @staticmethod
    def check(code, what):
        if code == OUT_OF_MEMORY:
            raise MemoryError(what)
        if code:
            sys.exit(f"program.py: {what}: error {code}")

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.check(self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "memory info")
        return free.value

    def take(self, n_bytes):
        """Allocates. Returns (code, address)."""
        address = ctypes.c_uint64()
        return self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(n_bytes)), address

    def spin(self):
        """A function that keeps the device busy for a number of seconds."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), KERNELS.read_bytes() + b"\0"), "kernels")
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, b"spin_ns"), "spin_ns")

        def run(seconds):
            ns = ctypes.c_uint64(round(seconds * 1e9))
            params = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
            self.check(self.cuda.cuLaunchKernel(function, 132, 1, 1, 32, 1, 1, 0, None, params, None), "launch")

        return run

    def synchronise(self):
        self.check(self.cuda.cuCtxSynchronize(), "synchronise")

    def give(self, address):
        self.check(self.cuda.cuMemFree_v2(address), "free")


def edge():
    """Allocates one byte more than is free, one byte less, and exactly what is free. Frees each but the last."""
    driver = Driver()

    def wish(kind, n_bytes):
        code, address = driver.take(n_bytes)
        print(kind, n_bytes, code)
        return None if code else address

    free = driver.free_bytes()
    for kind, n_bytes in (("above", free + 1), ("within", free - 1), ("within", free)):
        address = wish(kind, n_bytes)
        if address and n_bytes != free:
            driver.give(address)
    wish("above", driver.free_bytes() + 1)


def halves(mib, seconds):
    """Like a container that needs all of its memory before it can go on, and has taken some already."""
    print("began", time.monotonic(), flush=True)
    try:
        driver = Driver()
        for piece in ("first", "second"):
            driver.check(driver.take(int(mib) << 19)[0], piece)
            print(piece, time.monotonic(), flush=True)
            time.sleep(float(seconds) / 2)
    except MemoryError:
        print("failed", time.monotonic())
    else:
        print("finished", time.monotonic())


def serve(load, request_ms, lasts_s, seed):
    driver = Driver()
    spin = driver.spin()
    request_s, draw = float(request_ms) / 1000, random.Random(int(seed))
    came = time.monotonic()
    end = came + float(lasts_s)
    while (came := came + draw.expovariate(float(load) / request_s)) < end:
        time.sleep(max(0.0, came - time.monotonic()))
        spin(request_s)
        driver.synchronise()
        print(came)


def bursts(kind, lasts_s, seed):
    """All kernels have one function and one grid, so only the past tells how long a kernel is. They last 5 ms; or 1 or 12
    ms in random order; or from 1 to 15 ms, a little longer each time, and again from 1."""
    driver, draw = Driver(), random.Random(int(seed))
    spin = driver.spin()
    end, n = time.monotonic() + float(lasts_s), draw.randrange(100)
    while time.monotonic() < end:
        long_s = {"periodic": 0.005, "bimodal": draw.choice((0.001, 0.012)), "drifting": 0.001 + 0.00014 * (n % 100)}[
            kind
        ]
        for _ in range(4):
            spin(long_s)
        driver.synchronise()
        time.sleep(long_s)
        n += 1


PROGRAMS = {"edge": edge, "halves": halves, "serve": serve, "bursts": bursts}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.exit(__doc__)
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
