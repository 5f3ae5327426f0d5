#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints as JSON what libnvidia-ml.so.1 reports for each device, and the results of calls that
fail. After that, prints a further report for each line on stdin."""

import ctypes
import json
import os
import sys

ml = ctypes.CDLL("libnvidia-ml.so.1")


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Use(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("gpu", "memory")]


def text(function, *args):
    room = ctypes.create_string_buffer(96)
    assert not getattr(ml, function)(*args, room, len(room)), function
    return room.value.decode()


def value(of, function, *args):
    given = of()
    result = getattr(ml, function)(*args, ctypes.byref(given))
    return given if not result else None


def fields(structure):
    return structure and {name: getattr(structure, name) for name, _ in structure._fields_}


def device(index):
    handle = value(ctypes.c_void_p, "nvmlDeviceGetHandleByIndex_v2", index)
    uuid = text("nvmlDeviceGetUUID", handle)
    again = value(ctypes.c_void_p, "nvmlDeviceGetHandleByUUID", uuid.encode())
    number, none = ctypes.c_uint(16), ctypes.c_uint(0)
    return {
        "name": text("nvmlDeviceGetName", handle),
        "uuid": uuid,
        "is_found": again.value == handle.value,
        "memory": fields(value(Memory, "nvmlDeviceGetMemoryInfo", handle)),
        "use": fields(value(Use, "nvmlDeviceGetUtilizationRates", handle)),
        "processes": ml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(none), None),
        "temperature": ml.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(number)),
        "wrong": ml.nvmlDeviceGetName(ctypes.c_void_p(1), ctypes.create_string_buffer(96), 96),
    }


def look():
    count = value(ctypes.c_uint, "nvmlDeviceGetCount_v2")
    return [device(i) for i in range(count.value)] if count else []


number = ctypes.c_uint()
said = {
    "early": ml.nvmlDeviceGetCount_v2(ctypes.byref(number)),
    "init": ml.nvmlInit_v2(),
    "driver": text("nvmlSystemGetDriverVersion"),
    "cuda": value(ctypes.c_int, "nvmlSystemGetCudaDriverVersion").value,
    "devices": look(),
}
child = os.fork()
if not child:
    os._exit(0 if look() == said["devices"] else 1)
said["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(said), flush=True)
for _ in sys.stdin:
    lost = value(ctypes.c_uint, "nvmlDeviceGetCount_v2")
    memory = Memory()
    handle = value(ctypes.c_void_p, "nvmlDeviceGetHandleByIndex_v2", 0)
    print(
        json.dumps({"count": lost.value, "memory": ml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))}),
        flush=True,
    )
print(json.dumps({"shutdown": [ml.nvmlShutdown(), ml.nvmlShutdown()]}))
