# SPDX-License-Identifier: Apache-2.0
"""nvidia-ml-py, gpustat and nvitop show the tenant's device, memory and processes, while a program of the tenant uses the device."""

import json
import os
import subprocess
import sys
import time

import pynvml
import pytest

MIB = 1 << 20
QUOTA_MIB = 8192
HELD_MIB = 512
TRIES = 1200  # of 0.1 s; a busy machine starts programs slowly


def show(name, *options):
    done = subprocess.run([sys.executable, "-m", name, *options], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in text, text
    return text


def processes():
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return {p.pid: p.usedGpuMemory or 0 for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}


@pytest.fixture(scope="module")
def load():
    """The pid of a program that holds memory and launches kernels."""
    pynvml.nvmlInit()
    argv = [os.environ["DIVVY_SPIN"], "--kernel-us=1000", "--duration=3600", "--quiet", f"--memory={HELD_MIB}"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as child:
        for _ in range(TRIES):
            if processes().get(child.pid, 0) >= HELD_MIB * MIB or child.poll() is not None:
                break
            time.sleep(0.1)
        assert child.poll() is None, child.returncode
        yield child.pid
        child.terminate()
    pynvml.nvmlShutdown()


def test_nvidia_ml_py(load):
    assert pynvml.nvmlDeviceGetCount() == 1
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert "H100" in pynvml.nvmlDeviceGetName(handle)
    assert pynvml.nvmlDeviceGetUUID(handle).startswith("GPU-")
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    assert memory.total == QUOTA_MIB * MIB
    assert HELD_MIB * MIB <= memory.used < memory.total and memory.used + memory.free == memory.total
    assert processes()[load] >= HELD_MIB * MIB
    assert 0 <= pynvml.nvmlDeviceGetUtilizationRates(handle).gpu <= 100


def test_the_driver_says_that_it_is_simulated(load):
    assert "simulated" in pynvml.nvmlSystemGetDriverVersion()


def test_errors_are_nvmls_own(load):
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(7)


def test_gpustat_json(load):
    (gpu,) = json.loads(show("gpustat", "--json", "--show-all"))["gpus"]
    assert "H100" in gpu["name"] and gpu["memory.total"] == QUOTA_MIB and gpu["memory.used"] >= HELD_MIB
    (process,) = [p for p in gpu["processes"] if p["pid"] == load]
    assert process["command"] == "spin" and process["gpu_memory_usage"] >= HELD_MIB


def test_gpustat_text(load):
    text = show("gpustat", "--no-color", "--show-pid", "--show-cmd", "--show-user")
    assert "H100" in text and f"{QUOTA_MIB} MB" in text and f"spin/{load}" in text, text


def test_nvitop_once(load):
    text = show("nvitop", "--once", "--ascii")
    assert "H100" in text and f"{QUOTA_MIB}MiB" in text and str(load) in text, text
