# SPDX-License-Identifier: Apache-2.0
"""Small programs of other people's libraries that tests/gpu/run starts as tenants: `program-jobs.py NAME`.

Each checks its results with NumPy or with the processor, and prints one JSON line: {"job": NAME, "version": v, "seconds": s}. The
exit status is 77 if the library is missing. They use nothing of divvy, as any user's program."""

import importlib.metadata
import json
import os
import sys
import time

MISSING = 77


def numba():
    import numpy as np
    from numba import cuda

    @cuda.jit
    def scale(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = x[i] * 2 + 1

    x = cuda.to_device(np.arange(1 << 16, dtype=np.float32))
    scale[256, 256](x)
    assert (x.copy_to_host() == np.arange(1 << 16) * 2 + 1).all()
    return "numba-cuda"


def nvrtc():
    import numpy as np
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    arch = "sm_" + "".join(str(n) for n in device.compute_capability)
    source = 'extern "C" __global__ void k(int *p) { p[threadIdx.x] = threadIdx.x; }'
    kernel = Program(source, code_type="c++", options=ProgramOptions(arch=arch)).compile("ptx").get_kernel("k")
    from cuda.bindings import driver

    memory = device.allocate(128, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=32), kernel, int(memory.handle))
    stream.sync()
    out = np.zeros(32, np.int32)
    assert int(driver.cuMemcpyDtoH(out.ctypes.data, int(memory.handle), 128)[0]) == 0
    assert (out == np.arange(32)).all()
    return "cuda-core"


def cublas():
    import torch

    a, b = torch.randn(2, 512, 512, dtype=torch.float64)
    torch.testing.assert_close((a.cuda() @ b.cuda()).cpu(), a @ b)
    return "torch"


def cudnn():
    import torch

    x, w = torch.randn(4, 8, 32, 32), torch.randn(16, 8, 3, 3)
    assert torch.backends.cudnn.is_available()
    have = torch.nn.functional.conv2d(x.cuda(), w.cuda()).cpu()
    torch.testing.assert_close(have, torch.nn.functional.conv2d(x, w), rtol=1e-2, atol=1e-2)
    return "torch"


def nccl():
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl")
    x = torch.ones(1000, device="cuda")
    dist.all_reduce(x)
    assert (x == 1).all().item()
    dist.destroy_process_group()
    return "torch"


def compiled():
    import torch

    f = torch.compile(lambda x: (x.sin() * x.cos()).sum())
    x = torch.randn(1 << 16, dtype=torch.float64)
    torch.testing.assert_close(f(x.cuda()).cpu(), (x.sin() * x.cos()).sum())
    return "torch"


def triton():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def add(a, b, out, n, block: tl.constexpr):
        i = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(out + i, tl.load(a + i, i < n) + tl.load(b + i, i < n), i < n)

    a, b = torch.randn(2, 10000, device="cuda")
    out = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), 1024),)](a, b, out, a.numel(), block=1024)
    torch.testing.assert_close(out, a + b)
    return "triton"


def cupy():
    import cupy
    import numpy as np

    x = np.random.default_rng(7).random((256, 256))
    np.testing.assert_allclose(cupy.asnumpy(cupy.asarray(x) @ cupy.asarray(x)), x @ x)
    return "cupy-cuda13x"


def jax():
    import jax
    import numpy as np

    assert jax.devices()[0].platform == "gpu"
    x = np.random.default_rng(7).random((256, 256), dtype=np.float32)
    np.testing.assert_allclose(np.asarray(jax.jit(lambda a: a @ a)(x)), x @ x, rtol=1e-2)
    return "jax"


def vllm():
    """A model of random weights: nothing is fetched but the configuration that DIVVY_VLLM_MODEL names."""
    from vllm import LLM, SamplingParams

    model = LLM(os.environ["DIVVY_VLLM_MODEL"], load_format="dummy", gpu_memory_utilization=0.5, enforce_eager=True)
    (answer,) = model.generate(["one two"], SamplingParams(max_tokens=8))
    assert len(answer.outputs[0].token_ids) == 8
    return "vllm"


JOBS = (numba, nvrtc, cublas, cudnn, nccl, compiled, triton, cupy, jax, vllm)


def main():
    job = {job.__name__: job for job in JOBS}[sys.argv[1]]
    begin = time.monotonic()
    try:
        package = job()
    except (ModuleNotFoundError, KeyError) as missing:
        print(f"{sys.argv[1]}: {missing} is missing", file=sys.stderr)
        sys.exit(MISSING)
    version, seconds = importlib.metadata.version(package), round(time.monotonic() - begin, 1)
    print(json.dumps({"job": sys.argv[1], "version": version, "seconds": seconds}))


if __name__ == "__main__":
    main()
