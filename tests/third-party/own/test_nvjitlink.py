# SPDX-License-Identifier: Apache-2.0
"""nvJitLink: machine code that it makes takes time and changes no memory, and PTX that it makes is computed."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from cuda.bindings import driver, nvjitlink, nvrtc

FIRST = b"""
extern __device__ int twice(int);
extern "C" __global__ void k(int *p) { p[threadIdx.x] = twice(threadIdx.x); }
"""
SECOND = b"__device__ int twice(int x) { return 2 * x; }"
RUN = "import test_nvjitlink as t; t.begin(); print(list(t.run(t.linked('cubin'))))"


def need(result):
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values


def compiled(source, *options, ltoir=False):
    program = need(nvrtc.nvrtcCreateProgram(source, b"source.cu", 0, [], []))
    options = [b"--gpu-architecture=compute_90", b"--relocatable-device-code=true", *options]
    need((*nvrtc.nvrtcCompileProgram(program, len(options), options), None))
    size_of, copy = (
        (nvrtc.nvrtcGetLTOIRSize, nvrtc.nvrtcGetLTOIR) if ltoir else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    )
    out = b" " * need(size_of(program))
    need((*copy(program, out), None))
    return out


def linked(kind):
    """The two sources as `cubin`, by way of PTX, or as `ptx`, by way of the compiler's own form."""
    is_ptx = kind == "ptx"
    options = ["-arch=sm_90", *(["-lto", "-ptx"] if is_ptx else [])]
    handle = nvjitlink.create(len(options), options)
    input_type = nvjitlink.InputType.LTOIR if is_ptx else nvjitlink.InputType.PTX
    for source in (FIRST, SECOND):
        code = compiled(source, *([b"-dlto"] if is_ptx else []), ltoir=is_ptx)
        nvjitlink.add_data(handle, input_type, code, len(code), "source")
    nvjitlink.complete(handle)
    size_of, copy = (
        (nvjitlink.get_linked_ptx_size, nvjitlink.get_linked_ptx)
        if is_ptx
        else (nvjitlink.get_linked_cubin_size, nvjitlink.get_linked_cubin)
    )
    out = bytearray(size_of(handle))
    copy(handle, out)
    nvjitlink.destroy(handle)
    return bytes(out)


def begin():
    need((*driver.cuInit(0), None))
    need((*driver.cuCtxSetCurrent(need(driver.cuDevicePrimaryCtxRetain(0))), None))


def run(image):
    module = need(driver.cuModuleLoadData(image))
    kernel = need(driver.cuModuleGetFunction(module, b"k"))
    memory = need(driver.cuMemAlloc(128))
    need((*driver.cuMemsetD8(memory, 0, 128), None))
    args = ((int(memory),), (ctypes.c_void_p,))
    need((*driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, args, 0), None))
    out = np.empty(32, np.int32)
    need((*driver.cuMemcpyDtoH(out.ctypes.data, memory, 128), None))
    return out


@pytest.fixture(scope="module", autouse=True)
def context():
    begin()


def test_linked_ptx_is_computed():
    assert (run(linked("ptx")) == 2 * np.arange(32)).all()


def test_machine_code_changes_nothing_and_says_so():
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
    done = subprocess.run([sys.executable, "-c", RUN], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and eval(done.stdout.replace("np.int32", "")) == [0] * 32, done
    assert "does not compute kernel 'k'" in done.stderr, done.stderr


def test_faults_have_a_log():
    handle = nvjitlink.create(1, ["-arch=sm_90"])
    code = compiled(FIRST)
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), "first")
    with pytest.raises(nvjitlink.nvJitLinkError):
        nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_error_log_size(handle))
    nvjitlink.get_error_log(handle, log)
    assert b"twice" in log, log
