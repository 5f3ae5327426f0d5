#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nvml-lists.py [CHILDREN]: a process with a context and MEMORY bytes on device 0, and CHILDREN
(default 1) equal child processes. For each line on stdin it prints NVML's lists of processes as
JSON. It exits at the end of stdin."""

import ctypes
import json
import os
import sys

MEMORY = 64 << 20
SUCCESS, INVALID_ARGUMENT, NOT_FOUND, INSUFFICIENT_SIZE, MISMATCH = 0, 2, 6, 7, 25


class Old(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong)]


class Process(ctypes.Structure):
    _fields_ = [*Old._fields_, ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class Sample(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("time", ctypes.c_ulonglong)] + [
        (name, ctypes.c_uint) for name in ("sm", "memory", "encoder", "decoder")
    ]


class Used(ctypes.Structure):
    _fields_ = [("time", ctypes.c_ulonglong)] + [
        (name, ctypes.c_uint) for name in ("pid", "sm", "memory", "encoder", "decoder", "jpeg", "ofa")
    ]


class UsedInfo(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("since", ctypes.c_ulonglong),
        ("array", ctypes.POINTER(Used)),
    ]


def take(cuda):
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    assert not cuda.cuInit(0) and not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(MEMORY))


def listed(function, kind):
    """The number of processes and the list; checks the answer for an array that is too small."""
    count = ctypes.c_uint(0)
    result = function(handle, ctypes.byref(count), None)
    n = count.value
    assert result == (INSUFFICIENT_SIZE if n else SUCCESS), (result, n)
    if n > 1:
        small = (kind * 1)()
        count.value = 1
        assert function(handle, ctypes.byref(count), small) == INSUFFICIENT_SIZE and count.value == n, count.value
        assert small[0].pid == 0
    array = (kind * (n + 8))()
    count.value = len(array)
    assert function(handle, ctypes.byref(count), array) == SUCCESS and count.value == n, count.value
    assert function(handle, None, array) == INVALID_ARGUMENT
    return sorted([p.pid, p.memory] for p in array[:n])


def samples():
    count = ctypes.c_uint(0)
    result = ml.nvmlDeviceGetProcessUtilization(handle, None, ctypes.byref(count), ctypes.c_ulonglong(0))
    if result == NOT_FOUND:
        return []
    assert result == INSUFFICIENT_SIZE, result
    array = (Sample * (count.value + 8))()
    count.value = len(array)
    assert not ml.nvmlDeviceGetProcessUtilization(handle, array, ctypes.byref(count), ctypes.c_ulonglong(0))
    assert (
        ml.nvmlDeviceGetProcessUtilization(handle, array, ctypes.byref(count), ctypes.c_ulonglong(2**63)) == NOT_FOUND
    )
    return sorted(s.pid for s in array[: count.value])


def used():
    array = (Used * 64)()
    info = UsedInfo(1, len(array), 0, array)
    assert ml.nvmlDeviceGetProcessesUtilizationInfo(handle, ctypes.byref(info)) == MISMATCH
    info.version = ctypes.sizeof(UsedInfo) | 1 << 24
    result = ml.nvmlDeviceGetProcessesUtilizationInfo(handle, ctypes.byref(info))
    assert result in (SUCCESS, NOT_FOUND), result
    return sorted(u.pid for u in array[: info.count]) if result == SUCCESS else []


def said():
    return {
        "own": sorted(pids),
        "compute": [
            listed(getattr(ml, "nvmlDeviceGetComputeRunningProcesses" + form), kind)
            for form, kind in (("", Old), ("_v2", Process), ("_v3", Process))
        ],
        "graphics": listed(ml.nvmlDeviceGetGraphicsRunningProcesses_v3, Process),
        "mps": listed(ml.nvmlDeviceGetMPSComputeRunningProcesses_v3, Process),
        "samples": samples(),
        "used": used(),
    }


def start_child():
    child = os.fork()
    if not child:
        take(ctypes.CDLL("libcuda.so.1"))
        os.close(go[1])
        os.write(ready[1], b"x")
        os.read(go[0], 1)  # until the parent exits
        os._exit(0)
    return child


ready, go = os.pipe(), os.pipe()
pids = [os.getpid()] + [start_child() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1)]
take(ctypes.CDLL("libcuda.so.1"))
for _ in pids[1:]:
    assert os.read(ready[0], 1) == b"x"
ml = ctypes.CDLL("libnvidia-ml.so.1")
handle = ctypes.c_void_p()
assert not ml.nvmlInit_v2() and not ml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
for _ in sys.stdin:
    print(json.dumps(said()), flush=True)
