#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulated driver loads what NVIDIA's tools write: fat binaries of every compression, PTX and machine code for several
architectures, on several models of devices. Skipped where the tools are missing."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from tap import main, skip_all  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SIM = os.path.join(os.environ["DIVVY_BUILD"], "src/simgpu")
TEXT = """.version 8.8
.target sm_{sm}
.address_size 64
.visible .entry k(.param .u64 to, .param .align 8 .b8 more[{bytes}], .param .u32 last)
{{ .reg .u64 a; ld.param.u64 a, [to]; st.global.u64 [a], a; ret; }}
"""
MODELS = {"T4": 75, "A100": 80, "L4": 89, "H100": 90, "B200": 100}
MODES = ("default", "size", "speed", "balance", "none")
SMALL, LARGE = 24, 8000  # bytes of a parameter; attribute 0x45 describes the larger one
NO_BINARY = 209

# Loads the file argv[1], and prints the result, then the offset and size of each parameter of kernel k.
LOAD = f"""
import ctypes, json, sys
cuda = ctypes.CDLL("{SIM}/libcuda.so.1")
context, module, function = (ctypes.c_void_p() for _ in range(3))
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
for path in sys.argv[1:]:
    result = cuda.cuModuleLoad(ctypes.byref(module), path.encode())
    shape = []
    if result == 0:
        assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k") == 0
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        for i in range(3):
            assert cuda.cuFuncGetParamInfo(function, ctypes.c_size_t(i), ctypes.byref(offset), ctypes.byref(size)) == 0
            shape.append([offset.value, size.value])
        assert cuda.cuFuncGetParamInfo(function, ctypes.c_size_t(3), ctypes.byref(offset), ctypes.byref(size)) == 1
    print(json.dumps([result, shape]))
"""


def tools():
    found = subprocess.run(
        [os.path.join(HERE, "../../toolkit/get"), "--check"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        skip_all(found.stderr.strip())
    return found.stdout.strip()


def tool(name, *args):
    subprocess.run([os.path.join(TOOLS, name), *args], check=True)


def path_of(name):
    return os.path.join(FOLDER, name)


def write_text(sm, size=SMALL):
    """PTX for an architecture such as 90a; returns its path."""
    path = path_of(f"{sm}-{size}.ptx")
    with open(path, "w", encoding="ascii") as f:
        f.write(TEXT.format(sm=sm, bytes=size))
    return path


def write_cubin(sm, size=SMALL):
    path = path_of(f"{sm}-{size}.cubin")
    tool("ptxas", "-arch", f"sm_{sm}", "-o", path, write_text(sm, size))
    return path


def write_fatbin(name, *members, flags=()):
    """members are pairs of kind (ptx or elf) and architecture, with the size of a parameter behind them."""
    path = path_of(name + ".fatbin")
    images = []
    for kind, sm, *size in members:
        file = write_text(sm, *size) if kind == "ptx" else write_cubin(sm, *size)
        images.append(f"--image3=kind={kind},sm={sm},file={file}")
    tool("fatbinary", "--64", "--create", path, *flags, *images)
    return path


def load(model, *paths):
    """The result and shape of each file on a device of this model."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *paths],
        env={**os.environ, "DIVVY_SIM": path_of(model), "DIVVY_SIM_DEVICES": f"1x{model}-4Gi"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def shape(size):
    return [[0, 8], [8, size], [8 + size, 4]]


def every_compression_is_read():
    paths = []
    for size in (SMALL, LARGE):
        for mode in MODES:
            for name, member in (("ptx", ("ptx", "75", size)), ("elf", ("elf", "90", size))):
                flags = (f"--compress-mode={mode}", "--compress-all", "--ident=some/file.cu")
                paths.append(write_fatbin(f"{name}-{mode}-{size}", member, flags=flags))
    results = load("H100", *paths)
    for i, (path, result) in enumerate(zip(paths, results)):
        assert result == [0, shape(SMALL if i < len(paths) / 2 else LARGE)], (path, result)


def devices_take_what_runs_on_them():
    members = [("ptx", "75"), ("ptx", "90"), ("ptx", "90a"), ("ptx", "100"), ("ptx", "100f"), ("ptx", "120")]
    members += [
        ("elf", "75"),
        ("elf", "80"),
        ("elf", "86"),
        ("elf", "90"),
        ("elf", "90a"),
        ("elf", "100f"),
        ("elf", "120"),
    ]
    runs = {
        "T4": ["ptx-75", "elf-75"],
        "A100": ["ptx-75", "elf-80"],
        "L4": ["ptx-75", "elf-80", "elf-86"],
        "H100": ["ptx-75", "ptx-90", "ptx-90a", "elf-90", "elf-90a"],
        "B200": ["ptx-75", "ptx-90", "ptx-100", "ptx-100f", "elf-100f"],
    }
    paths = {f"{kind}-{sm}": write_fatbin(f"{kind}-{sm}", (kind, sm)) for kind, sm in members}
    for model in MODELS:
        results = dict(zip(paths, load(model, *paths.values())))
        assert [name for name, result in results.items() if result == [0, shape(SMALL)]] == runs[model], (
            model,
            results,
        )
        assert {result[0] for result in results.values()} == {0, NO_BINARY}, (model, results)


def cubins_alone_are_read():
    paths = [write_cubin(sm, size) for sm in ("90", "90a") for size in (SMALL, LARGE)]
    assert load("H100", *paths) == 2 * [[0, shape(SMALL)], [0, shape(LARGE)]]
    assert load("B200", write_cubin("100", LARGE)) == [[0, shape(LARGE)]]


TOOLS = tools()
with tempfile.TemporaryDirectory(prefix="divvy-test-") as FOLDER:
    try:
        main(every_compression_is_read, devices_take_what_runs_on_them, cubins_alone_are_read)
    finally:
        for one in MODELS:
            environment = {**os.environ, "DIVVY_SIM": path_of(one)}
            subprocess.run(
                [os.path.join(SIM, "divvy-simctl"), "stop"], env=environment, capture_output=True, check=False
            )
            if os.path.exists(path_of(one)):
                subprocess.run(["flock", os.path.join(path_of(one), "engine.lock"), "true"], check=True)
