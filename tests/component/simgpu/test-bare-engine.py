#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An engine may have fewer capabilities than its clients, in a container, or run as another user.
The kernel then lets the engine reach only memory whose descriptor a client has sent."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from tap import main, skip_all  # noqa: E402

SIM = os.path.join(os.environ["DIVVY_BUILD"], "src/simgpu")
BYTES = 3 << 20  # too many bytes to travel inside a submission


def ask(function, *args):
    result = getattr(cuda, function)(*args)
    assert result == 0, f"{function}: {result}"


def capabilities(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1], 16) for line in f if line.startswith("CapPrm:"))


def it_copies_from_and_to_a_programs_memory():
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    ask("cuInit", 0)
    ask("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    status = subprocess.run(
        [os.path.join(SIM, "divvy-simctl"), "status", "--json"], capture_output=True, text=True, check=True
    )
    pid = int(status.stdout.split('"pid": ')[1].split(",")[0])
    assert capabilities(pid) == 0 and capabilities("self") != 0, "the engine has as many rights"
    there, back = ctypes.create_string_buffer(os.urandom(BYTES), BYTES), ctypes.create_string_buffer(BYTES)
    ask("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(BYTES))
    ask("cuMemcpyHtoD_v2", memory, there, ctypes.c_size_t(BYTES))
    ask("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(BYTES))
    assert back.raw == there.raw


if os.geteuid() != 0 or not shutil.which("setpriv"):
    skip_all("only root, with setpriv, can start an engine with fewer capabilities")
with tempfile.TemporaryDirectory(prefix="divvy-test-") as folder:
    os.environ["DIVVY_SIM"] = folder
    subprocess.run(
        [
            "setpriv",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "--no-new-privs",
            os.path.join(SIM, "divvy-sim-engine"),
            "--daemon",
            "--dir",
            folder,
        ],
        check=True,
    )
    cuda = ctypes.CDLL(os.path.join(SIM, "libcuda.so.1"))
    try:
        main(it_copies_from_and_to_a_programs_memory)
    finally:
        subprocess.run([os.path.join(SIM, "divvy-simctl"), "stop"], stdout=subprocess.DEVNULL, check=False)
        subprocess.run(["flock", "-w", "30", os.path.join(folder, "engine.lock"), "true"], check=True)
