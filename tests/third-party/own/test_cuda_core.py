# SPDX-License-Identifier: Apache-2.0
"""cuda-python: kernels that NVRTC compiles, through cuda.core and cuda.bindings. Results are compared with NumPy. The projects
publish no tests of their own with their packages."""

import ctypes
import math
import os

import numpy as np
import nvidia
import pytest
from cuda.bindings import driver, nvrtc
from cuda.core import Device, EventOptions, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

N = 5000
RANDOM = np.random.default_rng(7)


@pytest.fixture(scope="module")
def device():
    device = Device()
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    stream = device.create_stream()
    yield stream
    stream.sync()
    stream.close()


def need(result):
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values


def compiled(source, *names, target="ptx", **options):
    arch = "sm_" + "".join(str(n) for n in Device().compute_capability)
    program = Program(source, code_type="c++", options=ProgramOptions(std="c++17", arch=arch, **options))
    return program.compile(target, name_expressions=names)


def include_folders():
    root = os.path.join(list(nvidia.__path__)[0], "cu13/include")
    return [root, os.path.join(root, "cccl")]


class Array:
    """Device memory with the bytes of a NumPy array."""

    def __init__(self, stream, host):
        self.stream, self.host = stream, np.ascontiguousarray(host)
        self.buffer = Device().allocate(max(1, self.host.nbytes), stream=stream)
        need((*driver.cuMemcpyHtoDAsync(self.pointer, self.host.ctypes.data, self.host.nbytes, stream.handle), None))

    @property
    def pointer(self):
        return int(self.buffer.handle)

    def numpy(self):
        out = np.empty_like(self.host)
        need((*driver.cuMemcpyDtoHAsync(out.ctypes.data, self.pointer, out.nbytes, self.stream.handle), None))
        self.stream.sync()
        return out


def go(stream, kernel, grid, block, *args, shared=0, **more):
    pointers = [a.pointer if isinstance(a, Array) else a for a in args]
    launch(stream, LaunchConfig(grid=grid, block=block, shmem_size=shared, **more), kernel, *pointers)


SAXPY = """
template <typename T> __global__ void saxpy(T a, const T *x, const T *y, T *out, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""


@pytest.mark.parametrize("name, kind", [("float", np.float32), ("double", np.float64), ("int", np.int32)])
def test_templates(stream, name, kind):
    kernel = compiled(SAXPY, f"saxpy<{name}>").get_kernel(f"saxpy<{name}>")
    x, y = (RANDOM.integers(-100, 100, N).astype(kind) for _ in range(2))
    out = Array(stream, np.zeros(N, kind))
    go(stream, kernel, (N + 127) // 128, 128, kind(3), Array(stream, x), Array(stream, y), out, np.uint64(N))
    assert (out.numpy() == kind(3) * x + y).all()


MATMUL = """
#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float s[TILE][TILE], t[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        s[threadIdx.y][threadIdx.x] = row < n && k + threadIdx.x < n ? a[row * n + k + threadIdx.x] : 0;
        t[threadIdx.y][threadIdx.x] = col < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += s[threadIdx.y][i] * t[i][threadIdx.x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}
extern "C" __global__ void transpose(const float *a, float *b, int n)
{
    __shared__ float s[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < n && y < n) s[threadIdx.y][threadIdx.x] = a[y * n + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x; y = blockIdx.x * TILE + threadIdx.y;
    if (x < n && y < n) b[y * n + x] = s[threadIdx.x][threadIdx.y];
}
"""


def test_matrix_product_and_transposition(stream):
    n = 50
    module = compiled(MATMUL)
    a, b = (RANDOM.integers(-9, 9, (n, n)).astype(np.float32) for _ in range(2))
    c, t = Array(stream, np.zeros_like(a)), Array(stream, np.zeros_like(a))
    grid = ((n + 15) // 16, (n + 15) // 16)
    go(stream, module.get_kernel("matmul"), grid, (16, 16), Array(stream, a), Array(stream, b), c, np.int32(n))
    go(stream, module.get_kernel("transpose"), grid, (16, 16), Array(stream, a), t, np.int32(n))
    assert (c.numpy() == a @ b).all() and (t.numpy() == a.T).all()


SUMS = """
extern "C" __global__ void total(const int *in, unsigned long long *out, int n)
{
    __shared__ long long part[32];
    long long sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int k = 16; k; k /= 2) sum += __shfl_down_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; i++) sum += part[i];
        atomicAdd(out, (unsigned long long)sum);
    }
}
extern "C" __global__ void scan(const int *in, int *out)
{
    extern __shared__ int s[];
    int i = threadIdx.x;
    s[i] = in[i];
    __syncthreads();
    for (int k = 1; k < blockDim.x; k *= 2) {
        int v = i >= k ? s[i - k] : 0;
        __syncthreads();
        s[i] += v;
        __syncthreads();
    }
    out[i] = s[i];
}
extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n)
{
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}
"""


def test_sum_scan_and_histogram(stream):
    module = compiled(SUMS)
    values = RANDOM.integers(-1000, 1000, N).astype(np.int32)
    total, scanned = Array(stream, np.zeros(1, np.int64)), Array(stream, np.zeros(512, np.int32))
    go(stream, module.get_kernel("total"), 4, 256, Array(stream, values), total, np.int32(N))
    go(stream, module.get_kernel("scan"), 1, 512, Array(stream, values[:512]), scanned, shared=2048)
    letters = RANDOM.integers(0, 256, N).astype(np.uint8)
    bins = Array(stream, np.zeros(256, np.uint32))
    go(stream, module.get_kernel("histogram"), 3, 128, Array(stream, letters), bins, np.int32(N))
    assert total.numpy()[0] == values.sum(dtype=np.int64)
    assert (scanned.numpy() == np.cumsum(values[:512])).all()
    assert (bins.numpy() == np.bincount(letters, minlength=256)).all()


BODIES = """
extern "C" __global__ void forces(const float4 *body, float3 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float3 f = make_float3(0, 0, 0);
    if (i >= n) return;
    for (int j = 0; j < n; j++) {
        float x = body[j].x - body[i].x, y = body[j].y - body[i].y, z = body[j].z - body[i].z;
        float r = rsqrtf(x * x + y * y + z * z + 0.01f), s = body[j].w * r * r * r;
        f.x += x * s; f.y += y * s; f.z += z * s;
    }
    out[i] = f;
}
"""


def test_bodies(stream):
    n = 100
    bodies = RANDOM.random((n, 4), dtype=np.float32)
    out = Array(stream, np.zeros((n, 3), np.float32))
    go(stream, compiled(BODIES).get_kernel("forces"), 1, 128, Array(stream, bodies), out, np.int32(n))
    away = bodies[None, :, :3].astype(float) - bodies[:, None, :3]
    scale = bodies[None, :, 3] * ((away**2).sum(2) + 0.01) ** -1.5
    np.testing.assert_allclose(out.numpy(), (away * scale[:, :, None]).sum(1), rtol=1e-4, atol=1e-4)


FUNCTIONS = """
extern "C" __global__ void functions(const double *x, double *out, int n)
{
    int i = threadIdx.x;
    double v = x[i];
    out[i] = exp(v); out[n + i] = log(v); out[2 * n + i] = sin(v); out[3 * n + i] = pow(v, 1.5);
    out[4 * n + i] = erf(v); out[5 * n + i] = tgamma(v); out[6 * n + i] = cbrt(v);
}
"""


def test_mathematical_functions(stream):
    x = RANDOM.uniform(0.1, 9, 64)
    out = Array(stream, np.zeros((7, 64)))
    go(stream, compiled(FUNCTIONS).get_kernel("functions"), 1, 64, Array(stream, x), out, np.int32(64))
    cube_root = lambda v: v ** (1 / 3)  # noqa: E731
    for row, function in zip(
        out.numpy(), (math.exp, math.log, math.sin, lambda v: v**1.5, math.erf, math.gamma, cube_root)
    ):
        np.testing.assert_allclose(row, [function(v) for v in x], rtol=1e-13)


HALVES = """
#include <cuda_fp16.h>
extern "C" __global__ void halves(const __half2 *a, const __half2 *b, __half2 *out) {
    out[threadIdx.x] = __hfma2(a[threadIdx.x], b[threadIdx.x], __float2half2_rn(0.5f));
}
"""


def test_halves(stream):
    a, b = (RANDOM.random(64).astype(np.float16) for _ in range(2))
    out = Array(stream, np.zeros(64, np.float16))
    kernel = compiled(HALVES, include_path=include_folders()).get_kernel("halves")
    go(stream, kernel, 1, 32, Array(stream, a), Array(stream, b), out)
    want = (a.astype(np.float64) * b + 0.5).astype(np.float16)
    assert (out.numpy() == want).all()


def test_constants_and_variables(stream):
    module = compiled(
        'extern "C" { __constant__ int c[4]; __device__ int total = 7;'
        "__global__ void k(int *out) { out[threadIdx.x] = c[threadIdx.x] * total; } }"
    )
    kernel = module.get_kernel("k")
    library = need(driver.cuLibraryLoadData(module.code, [], [], 0, [], [], 0))
    pointer, size = need(driver.cuLibraryGetGlobal(library, b"c"))
    assert size == 16
    values = np.array([1, 2, 3, 4], np.int32)
    need((*driver.cuMemcpyHtoD(pointer, values.ctypes.data, 16), None))
    function = need(driver.cuLibraryGetKernel(library, b"k"))
    out = Array(stream, np.zeros(4, np.int32))
    args = ((out.pointer,), (ctypes.c_void_p,))
    need((*driver.cuLaunchKernel(driver.CUfunction(int(function)), 1, 1, 1, 4, 1, 1, 0, stream.handle, args, 0), None))
    assert list(out.numpy()) == [7, 14, 21, 28]
    assert kernel.attributes.max_threads_per_block > 0


def test_linker_joins_modules(stream):
    first = compiled(
        'extern __device__ int twice(int); extern "C" __global__ void k(int *p) { p[threadIdx.x] = twice(threadIdx.x); }',
        relocatable_device_code=True,
    )
    second = compiled("__device__ int twice(int x) { return 2 * x; }", relocatable_device_code=True)
    arch = "sm_" + "".join(str(n) for n in Device().compute_capability)
    kernel = Linker(first, second, options=LinkerOptions(arch=arch)).link("cubin").get_kernel("k")
    out = Array(stream, np.zeros(32, np.int32))
    go(stream, kernel, 1, 32, out)
    assert (out.numpy() == 2 * np.arange(32)).all()


def test_events_measure(device, stream):
    kernel = compiled(SAXPY, "saxpy<float>").get_kernel("saxpy<float>")
    x = Array(stream, np.ones(N, np.float32))
    begin = stream.record(options=EventOptions(timing_enabled=True))
    go(stream, kernel, (N + 127) // 128, 128, np.float32(1), x, x, x, np.uint64(N))
    end = stream.record(options=EventOptions(timing_enabled=True))
    end.sync()
    assert end - begin > 0


def test_a_stream_waits_for_another(device):
    one, two = device.create_stream(), device.create_stream()
    kernel = compiled('extern "C" __global__ void add(int *p, int v) { *p = *p * 10 + v; }').get_kernel("add")
    cell = Array(one, np.zeros(1, np.int32))
    for digit in range(1, 9):
        go(one, kernel, 1, 1, cell, np.int32(digit))
        one, two = two, one
        one.wait(two)
    one.sync()
    assert cell.numpy()[0] == 12345678


def test_graphs(device, stream):
    kernel = compiled('extern "C" __global__ void inc(int *p) { atomicAdd(p, 1); }').get_kernel("inc")
    cell = Array(stream, np.zeros(1, np.int32))
    stream.sync()
    need((*driver.cuStreamBeginCapture(stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED), None))
    for _ in range(3):
        go(stream, kernel, 1, 32, cell)
    graph = need(driver.cuStreamEndCapture(stream.handle))
    run = need(driver.cuGraphInstantiate(graph, 0))
    for _ in range(4):
        need((*driver.cuGraphLaunch(run, stream.handle), None))
    assert cell.numpy()[0] == 3 * 4 * 32


def test_cooperative_launch(device, stream):
    kernel = compiled(
        "#include <cooperative_groups.h>\n"
        'extern "C" __global__ void k(int *p, int *out) { atomicAdd(p, 1);'
        "cooperative_groups::this_grid().sync(); out[blockIdx.x] = *p; }",
        include_path=include_folders(),
    ).get_kernel("k")
    cell, out = Array(stream, np.zeros(1, np.int32)), Array(stream, np.zeros(4, np.int32))
    go(stream, kernel, 4, 64, cell, out, is_cooperative=True)
    assert list(out.numpy()) == [256] * 4


def test_errors_of_the_compiler():
    with pytest.raises(Exception, match='identifier "nonsense" is undefined'):
        compiled('extern "C" __global__ void k() { nonsense(); }')


def test_errors_of_memory(device):
    free, total = need(driver.cuMemGetInfo())
    assert total <= 8 << 30
    error, _ = driver.cuMemAlloc(9 << 30)
    assert error == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY


def test_versions():
    assert need(driver.cuDriverGetVersion()) == 13000
    assert need(nvrtc.nvrtcVersion()) == [13, 0]
