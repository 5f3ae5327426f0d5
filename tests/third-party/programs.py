# SPDX-License-Identifier: Apache-2.0
"""The programs, and how each one's tests start."""

import collections
import glob
import os

HERE = os.path.dirname(os.path.abspath(__file__))

# packages: the set of packages in requirements/. package: the one whose version the table shows. tests: arguments of pytest.
# quota: a program of quota/ that allocates until the quota ends, and the error that it must print; None for programs that allocate
# nothing. part: an expression for the names of the tests that QUICK=1 runs in other settings than alone. bounded: the same for
# `make check`. is_long: several processes share the tests. In texts, {site} is the packages' folder, {sources} the folder of unpacked source packages, {here} this folder, and
# {driver} the setting's library by the name libcuda.so.
Program = collections.namedtuple(
    "Program",
    "name title packages package tests env quota error part bounded is_long",
    defaults=({}, None, "", "", None, False),
)

NUMBA = "{site}/numba_cuda/numba/cuda/tests"
TINYGRAD_TESTS = ("{sources}/test/test_tiny.py", "{sources}/test/test_ops.py", "{here}/own/test_tinygrad_training.py")
TINYGRAD_PART = r"test_tiny|training|test_ops.py::TestOps::test_(add|mul|div|sum|mean|max|relu|softmax|matmul|gemm|cat|exp|log|pow|where)$"
TINYGRAD = {
    "PYTHONPATH": "{sources}",
    "DEV": "CUDA",
    "CUDA": "1",
    "CUDA_PATH": "{driver}",
    "NVRTC_PATH": "{site}/nvidia/cu13/lib/libnvrtc.so.13",
    "LD_LIBRARY_PATH": "{site}/nvidia/cu13/lib",
}

PROGRAMS = (
    Program(
        name="numba",
        title="numba-cuda: its own tests",
        packages="numba",
        package="numba-cuda",
        tests=("-o", "consider_namespace_packages=true", NUMBA, "--ignore", NUMBA + "/benchmarks"),
        env={"PYTHONPATH": "{site}/numba_cuda"},
        quota="numba_fills.py",
        error="CUDA_ERROR_OUT_OF_MEMORY",
        part=r"cudadrv/test_(cuda_|events|streams|pinned|linker|host)|cudapy/test_(matmul|sync|transpose|blackscholes|reduction|coop|print)",
        bounded=r"cudapy/test_(matmul|sync|transpose|blackscholes|reduction)|cudadrv/test_(events|streams)",
        is_long=True,
    ),
    Program(
        name="cuda-core",
        title="cuda-core, cuda-python, NVRTC: tests of ours",
        packages="numba",
        package="cuda-core",
        tests=("{here}/own/test_cuda_core.py",),
        quota="cuda_core_fills.py",
        error="CUDA_ERROR_OUT_OF_MEMORY",
        bounded=r"test_templates|test_matrix|test_linker",
    ),
    Program(
        name="nvjitlink",
        title="nvJitLink: tests of ours",
        packages="nvjitlink",
        package="nvidia-nvjitlink",
        tests=("{here}/own/test_nvjitlink.py",),
    ),
    Program(
        name="tinygrad",
        title="tinygrad with NVRTC: its operator tests, and a training",
        packages="torch",
        package="tinygrad",
        tests=TINYGRAD_TESTS,
        env=TINYGRAD,
        quota="tinygrad_fills.py",
        error="CUDA_ERROR_OUT_OF_MEMORY",
        part=TINYGRAD_PART,
        is_long=True,
    ),
    Program(
        name="tinygrad-ptx",
        title="tinygrad with its PTX renderer: the same",
        packages="torch",
        package="tinygrad",
        tests=TINYGRAD_TESTS,
        env={**TINYGRAD, "CUDA_PTX": "1"},
        quota="tinygrad_fills.py",
        error="CUDA_ERROR_OUT_OF_MEMORY",
        part=TINYGRAD_PART,
        is_long=True,
    ),
    Program(
        name="taichi",
        title="Taichi: tests of ours, three of its examples",
        packages="taichi",
        package="taichi",
        tests=("{here}/own/test_taichi.py",),
        quota="taichi_fills.py",
        error="CUDA_ERROR_OUT_OF_MEMORY|out of memory",
        bounded=r"test_arrays_of_numpy",
    ),
    Program(
        name="monitors",
        title="nvidia-ml-py, nvitop, gpustat: tests of ours",
        packages="monitors",
        package="nvidia-ml-py",
        tests=("{here}/own/test_monitors.py",),
        env={"PYTHONPATH": "{sources}"},
        bounded=r"",
    ),
    Program(
        name="torch",
        title="PyTorch: tests of ours",
        packages="torch",
        package="torch",
        tests=("{here}/own/test_torch.py",),
    ),
)


class Place:
    """Where a program's packages are, as tests/third-party/get printed it."""

    def __init__(self, folder):
        self.folder = folder
        self.python = os.path.join(folder, "env/bin/python")
        (self.site,) = glob.glob(os.path.join(folder, "env/lib/python3*/site-packages"))
        self.sources = os.path.join(folder, "sources")

    def fill(self, text, driver=""):
        return text.format(site=self.site, sources=self.sources, here=HERE, driver=driver)

    def version(self, package):
        """Of an installed package, or of unpacked sources."""
        found = glob.glob(os.path.join(self.site, package.replace("-", "_") + "-*.dist-info"))
        if found:
            return os.path.basename(found[0]).removesuffix(".dist-info").rpartition("-")[2]
        with open(os.path.join(self.sources, "PKG-INFO"), encoding="utf-8") as f:
            return next(line.split()[1] for line in f if line.startswith("Version:"))
