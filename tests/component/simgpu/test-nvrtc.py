#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels that NVRTC compiles give the results of Python on the simulated device. NVRTC compiles without a GPU. Skipped where
NVRTC is missing."""

import ctypes
import math
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from tap import main, skip_all  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SIM = os.path.join(os.environ["DIVVY_BUILD"], "src/simgpu")


def toolkit():
    found = subprocess.run(
        [os.path.join(HERE, "../../toolkit/get"), "--check"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        skip_all(found.stderr.strip())
    return os.path.join(os.path.dirname(found.stdout.strip()), "lib/libnvrtc.so.13")


def need(result, what):
    assert result == 0, (what, result)


def compile_text(library, source):
    """The PTX of CUDA C++."""
    # NVRTC opens its second library by name, and finds it when it is loaded already.
    ctypes.CDLL(library.replace("nvrtc.so.13", "nvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
    nvrtc, program, size = ctypes.CDLL(library), ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_80")
    need(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"nvrtc.cu", 0, None, None), "create")
    need(nvrtc.nvrtcCompileProgram(program, 1, options), "compile")
    need(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)), "size")
    text = ctypes.create_string_buffer(size.value)
    need(nvrtc.nvrtcGetPTX(program, text), "text")
    return text


def start():
    context, module = ctypes.c_void_p(), ctypes.c_void_p()
    need(CUDA.cuInit(0), "cuInit")
    need(CUDA.cuCtxCreate_v2(ctypes.byref(context), 0, 0), "cuCtxCreate")
    need(CUDA.cuModuleLoadData(ctypes.byref(module), PTX), "cuModuleLoadData")
    return module


def upload(values):
    """Device memory with a copy of a ctypes array."""
    address = ctypes.c_uint64()
    need(CUDA.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(ctypes.sizeof(values))), "cuMemAlloc")
    need(CUDA.cuMemcpyHtoD_v2(address, values, ctypes.c_size_t(ctypes.sizeof(values))), "cuMemcpyHtoD")
    return address


def download(address, kind, n):
    values = (kind * n)()
    need(CUDA.cuMemcpyDtoH_v2(values, address, ctypes.c_size_t(ctypes.sizeof(values))), "cuMemcpyDtoH")
    return list(values)


def launch(name, grid, block, *args):
    function = ctypes.c_void_p()
    need(CUDA.cuModuleGetFunction(ctypes.byref(function), MODULE, name.encode()), name)
    pointers = (ctypes.c_void_p * len(args))(*[ctypes.cast(ctypes.pointer(a), ctypes.c_void_p) for a in args])
    need(CUDA.cuLaunchKernel(function, *grid, 1, *block, 1, 0, None, pointers, None), name)
    need(CUDA.cuCtxSynchronize(), name)


def sums_are_right():
    values = [RANDOM.randrange(100) for _ in range(1 << 14)]
    out = upload((ctypes.c_float * 1)())
    launch("sum", (8, 1), (256, 1), out, upload((ctypes.c_float * len(values))(*values)), ctypes.c_int(len(values)))
    assert download(out, ctypes.c_float, 1) == [sum(values)]
    out = upload((ctypes.c_int * 1)())
    launch("warp_sum", (len(values) // 128, 1), (128, 1), out, upload((ctypes.c_int * len(values))(*values)))
    assert download(out, ctypes.c_int, 1) == [sum(values)]


def a_tiled_product_is_right():
    n = 48
    a, b = ([RANDOM.randrange(-8, 8) for _ in range(n * n)] for _ in range(2))
    floats = ctypes.c_float * (n * n)
    c = upload(floats())
    launch("matmul", (n // 16, n // 16), (16, 16), c, upload(floats(*a)), upload(floats(*b)), ctypes.c_int(n))
    want = [sum(a[i * n + k] * b[k * n + j] for k in range(n)) for i in range(n) for j in range(n)]
    assert download(c, ctypes.c_float, n * n) == want


def functions_recurse_and_are_virtual():
    fib = [0, 1]
    while len(fib) < 12:
        fib.append(fib[-1] + fib[-2])
    out = upload((ctypes.c_int * 64)())
    launch("recurse", (1, 1), (64, 1), out)
    assert download(out, ctypes.c_int, 64) == [fib[i % 12] for i in range(64)]
    launch("virtuals", (1, 1), (64, 1), out)
    assert download(out, ctypes.c_int, 64) == [3 * i if i % 2 else i * i for i in range(64)]


def the_mathematical_library_is_exact():
    values = [RANDOM.uniform(0.1, 10) for _ in range(64)]
    out = upload((ctypes.c_double * (6 * 64))())
    launch("functions", (1, 1), (64, 1), out, upload((ctypes.c_double * 64)(*values)))
    have = download(out, ctypes.c_double, 6 * 64)
    for i, v in enumerate(values):
        want = [math.exp(v), math.log(v), math.sin(1000 * v), v**1.5, math.sqrt(v), math.tanh(v)]
        for got, right in zip(have[6 * i :], want):
            assert math.isclose(got, right, rel_tol=1e-14, abs_tol=1e-15), (v, got, right)


def variables_have_their_values():
    out = upload((ctypes.c_int * 8)())
    launch("variables", (1, 1), (8, 1), out)
    assert download(out, ctypes.c_int, 8) == [(i % 4 + 1) * 10 + ord("bd"[i % 2]) for i in range(8)]


def a_lock_is_passed_on():
    words = upload((ctypes.c_int * 2)())
    launch("lock", (2, 1), (64, 1), words, ctypes.c_uint64(words.value + 4))
    assert download(words, ctypes.c_int, 2) == [0, 512]


def kernels_print():
    read_end, write_end = os.pipe()
    saved = os.dup(1)
    os.dup2(write_end, 1)
    launch("print", (1, 1), (32, 1), ctypes.c_int(42))
    os.dup2(saved, 1)
    os.close(write_end)
    assert os.read(read_end, 4096) == b"42 text  1.50 from 0\n42 text  1.50 from 1\n"


NVRTC = toolkit()
RANDOM = random.Random(7)
with open(os.path.join(HERE, "nvrtc.cu"), "rb") as f:
    PTX = compile_text(NVRTC, f.read())
with tempfile.TemporaryDirectory(prefix="divvy-test-") as FOLDER:
    os.environ.update(DIVVY_SIM=os.path.join(FOLDER, "sim"), DIVVY_SIM_DEVICES="1xH100-4Gi")
    CUDA = ctypes.CDLL(os.path.join(SIM, "libcuda.so.1"))
    MODULE = start()
    try:
        main(
            sums_are_right,
            a_tiled_product_is_right,
            functions_recurse_and_are_virtual,
            the_mathematical_library_is_exact,
            variables_have_their_values,
            a_lock_is_passed_on,
            kernels_print,
        )
    finally:
        subprocess.run([os.path.join(SIM, "divvy-simctl"), "stop"], capture_output=True, check=False)
        lock = os.path.join(FOLDER, "sim/engine.lock")
        if os.path.exists(lock):
            subprocess.run(["flock", lock, "true"], check=True)
