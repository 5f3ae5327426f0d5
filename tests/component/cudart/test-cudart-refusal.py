#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy's CUDA runtime never stands before a real driver: it refuses one, and `divvy run` puts it in front for simulated and
remote devices alone. The stub driver of the hook's tests is a stranger to divvy, as a real driver is."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../cli"))

from fake_daemon import Fake, part  # noqa: E402
from rig import BUILD, Rig, main  # noqa: E402

FILES = [os.path.join(BUILD, f"src/cudart/libdivvy-cudart-{major}.so") for major in (12, 13)]
OLD_DRIVER = """
static const struct { unsigned long size; const char *kind; } own = {sizeof(own), "simulated"};
int cuGetExportTable(const void **table, const void *id) { *table = &own; return 0; }
"""
CALL = """
import ctypes, sys
runtime, n = ctypes.CDLL(sys.argv[1]), ctypes.c_int(-1)
for _ in range(2):
    print(runtime.cudaGetDeviceCount(ctypes.byref(n)), n.value, runtime.cudaGetLastError())
"""
INSUFFICIENT_DRIVER, MISMATCH = 35, 803


def call(library, folder, **env):
    return subprocess.run(
        [sys.executable, "-c", CALL, library],
        env={**os.environ, "LD_LIBRARY_PATH": folder, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def another_driver_is_refused():
    for library in FILES:
        done = call(library, os.path.join(BUILD, "tests/component/hook"))
        assert done.stdout == 2 * f"{MISMATCH} 0 {MISMATCH}\n", done
        said = done.stderr.splitlines()
        assert len(said) == 1 and os.path.basename(library) in said[0] and "LD_PRELOAD" in said[0], done


def a_missing_driver_is_named():
    for library in FILES:
        done = call(library, "/nowhere/at/all")
        assert done.stdout == 2 * f"{INSUFFICIENT_DRIVER} 0 {INSUFFICIENT_DRIVER}\n", done
        assert "libcuda.so.1" in done.stderr and "divvy run --simulate" in done.stderr, done


def an_interception_library_without_a_driver_is_named():
    for library in FILES:
        done = call(
            library,
            "",
            LD_PRELOAD=os.path.join(BUILD, "src/hook/libdivvy-cuda.so"),
            DIVVY_DRIVER="/nowhere/at/all",
        )
        assert done.stdout == 2 * f"{INSUFFICIENT_DRIVER} 0 {INSUFFICIENT_DRIVER}\n", done
        assert "found no driver" in done.stderr and "divvy run --simulate" in done.stderr, done


def a_driver_of_another_version_is_named():
    with tempfile.TemporaryDirectory(prefix="divvy-test-") as folder:
        source = os.path.join(folder, "old.c")
        with open(source, "w", encoding="ascii") as f:
            f.write(OLD_DRIVER)
        driver = os.path.join(folder, "libcuda.so.1")
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", driver, source], check=True)
        for library in FILES:
            done = call(library, folder)
            assert done.stdout == 2 * f"{INSUFFICIENT_DRIVER} 0 {INSUFFICIENT_DRIVER}\n", done
            said = done.stderr.splitlines()
            assert len(said) == 1 and "needs cu" in said[0] and "same version" in said[0], done


def preloaded(rig, *options):
    done = rig.divvy("run", "--request", "0.1", "--quiet", *options, "--", "env")
    assert done.returncode == 0, done
    found = [line for line in done.stdout.splitlines() if line.startswith("LD_PRELOAD=")]
    return found[0].partition("=")[2].split(":")


def simulated_and_remote_devices_get_the_runtime():
    with Rig() as rig:
        for options in [(), ("--remote", "local")]:
            assert set(FILES) <= set(preloaded(rig, *options)), options


def real_devices_get_none():
    for is_simulated in (True, False):
        with Rig(daemon=False) as rig:
            device = {"uuid": "GPU-1", "model": "a device", "index": 0}
            text = json.dumps(
                {"ok": True, "simulated": is_simulated, "user": os.geteuid(), "env": {}, "id": 1, "devices": [device]}
            )
            with Fake(rig, lambda request, _, text=text: [part(request, text)]):
                assert bool(set(FILES) & set(preloaded(rig))) == is_simulated


main(
    another_driver_is_refused,
    a_missing_driver_is_named,
    an_interception_library_without_a_driver_is_named,
    a_driver_of_another_version_is_named,
    simulated_and_remote_devices_get_the_runtime,
    real_devices_get_none,
)
