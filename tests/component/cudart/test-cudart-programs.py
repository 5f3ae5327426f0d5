#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of nvcc with divvy's CUDA runtime: tests/programs/cuda, compiled for CUDA 13 and 12, run on the simulated device: alone,
under a share beside another tenant, with little memory, and with a remote device. Each program compares its results with the
host's. Skipped where the compiler is missing."""

import concurrent.futures
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../cli"), os.path.join(HERE, "../remote")]

from far import Far, serve  # noqa: E402
from rig import Rig, main, wait_for  # noqa: E402
from tap import patience, skip_all  # noqa: E402

SOURCES = os.path.join(HERE, "../../programs/cuda")
# The compiler of CUDA 13 makes calls for the runtime of CUDA 12 with these options.
OPTIONS = {"13": [], "12": ["-static-global-template-stub=false", "-Xcompiler", "-D__NV_LEGACY_LAUNCH"]}
EXTRA = {
    "per-thread": ["--default-stream", "per-thread"],
    "nested": ["-rdc=true", "-lcudadevrt"],
    "parts": ["-rdc=true", os.path.join(SOURCES, "parts-other.cu")],
}
PRINTED = [f"thread {i} of 3: text  1.25 1099511627776" for i in range(3)]


def toolkit():
    get = os.path.join(HERE, "../../toolkit/get")
    found = subprocess.run([get, "--check"], capture_output=True, text=True, check=False)
    if found.returncode:
        skip_all(found.stderr.strip())
    return found.stdout.strip()


def names():
    return sorted(f[:-3] for f in os.listdir(SOURCES) if f.endswith(".cu") and f != "parts-other.cu")


def compile_one(major, name, runtime="shared"):
    """Compiles a program; returns its path. The toolkit's folder for CUDA 12 is beside the one for 13."""
    tree = os.path.join(TOOLS, "..") if major == "13" else os.path.join(TOOLS, "../../cu12")
    path = os.path.join(FOLDER, f"{name}-{major}" + ("" if runtime == "shared" else "-" + runtime))
    command = [
        os.path.join(tree, "bin/nvcc"),
        "-cudart",
        runtime,
        "-std=c++17",
        "-I",
        SOURCES,
        "-L",
        os.path.join(tree, "lib"),
    ]
    command += [*OPTIONS[major], *EXTRA.get(name, []), "-o", path, os.path.join(SOURCES, name + ".cu")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(300), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def compile_all():
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(major, name): pool.submit(compile_one, major, name) for major in OPTIONS for name in names()}
        return {key: job.result() for key, job in jobs.items()}


def is_right(done, name):
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [f"{name}: right"]), (name, done)
    if name == "print":
        assert done.stdout.splitlines()[:-1] == PRINTED, done


def is_refused_by_name(done, options):
    """The simulated driver writes the name to the standard error of its own process, which is a remote program's worker."""
    assert done.returncode == 1 and "cudaErrorNotSupported" in done.stdout, done
    assert "__cudaCDP2" in done.stderr or "--remote" in options, done


def run_all(rig, *options, without=(), env=None):
    for (_, name), path in PROGRAMS.items():
        if name in without:
            continue
        done = rig.divvy("run", "--quiet", *options, "--", path, env=env)
        if name == "nested":
            is_refused_by_name(done, options)
        else:
            is_right(done, name)


def programs_are_right_alone():
    with Rig() as rig:
        run_all(rig, "--request", "1")


def programs_are_right_under_a_share():
    with Rig() as rig:
        rig.spin("neighbour", "--request", "0.6")
        wait_for(lambda: rig.tenant("neighbour").get("processes"), "the neighbour runs")
        run_all(rig, "--request", "0.3", "--memory", "8Gi")


def a_quota_ends_in_the_programs_own_error():
    with Rig() as rig:
        for major in OPTIONS:
            done = rig.divvy("run", "--quiet", "--request", "0.3", "--memory", "1Gi", "--", PROGRAMS[major, "quota"])
            is_right(done, "quota")
            got, of = done.stdout.split()[1:4:2]
            assert 0 < int(got) <= int(of) <= 1024, done


def programs_are_right_with_a_remote_device():
    """Errors of single calls come at once with DIVVY_REMOTE_SYNC. A remote device has no managed memory, and what its kernels print
    stays on its machine."""
    with Rig() as rig:
        options = ("--request", "0.3", "--memory", "8Gi", "--remote", "local")
        run_all(rig, *options, without=("managed", "print"), env={"DIVVY_REMOTE_SYNC": "1"})
        done = rig.divvy("run", "--quiet", *options, "--", PROGRAMS["13", "managed"])
        assert done.returncode != 0 and "devices of --remote have no managed memory" in done.stderr, done


def programs_are_right_over_a_network():
    with Rig() as rig:
        for (major, name), path in PROGRAMS.items():
            if major == "12" or name in ("managed", "print", "nested"):
                continue
            # The tenant of the former program may still exist.
            server, invitation = serve(rig, f"served-{name}", "--request", "0.3", "--memory", "8Gi")
            assert invitation, server.communicate(timeout=patience())
            child = Far(rig, DIVVY_INVITATION=invitation, DIVVY_REMOTE_SYNC="1").run("127.0.0.1", path)
            out, _ = child.communicate(timeout=patience())
            server.terminate()
            server.communicate(timeout=patience())
            assert (child.returncode, out.splitlines()[-1:]) == (0, [f"{name}: right"]), (name, child.returncode, out)


def another_runtime_is_explained():
    with Rig() as rig:
        static = compile_one("13", "vector-add", "static")
        done = rig.divvy("run", "--request", "0.3", "--", static)
        assert done.returncode == 1, done
        hint = [line for line in done.stderr.splitlines() if "nvcc -cudart shared" in line]
        assert len(hint) == 2 and "refuses simulated devices" in hint[0] and "contains NVIDIA's" in hint[1], done
        library = os.path.join(TOOLS, "../lib/libcudart.so.13")
        code = f"import ctypes; print(ctypes.CDLL({library!r}).cudaDeviceSynchronize())"
        done = rig.divvy("run", "--quiet", "--request", "0.3", "--", sys.executable, "-c", code)
        assert "lib/libcudart.so.13' is NVIDIA's CUDA runtime" in done.stderr and "by its name" in done.stderr, done


TOOLS = toolkit()
with tempfile.TemporaryDirectory(prefix="divvy-test-") as FOLDER:
    PROGRAMS = compile_all()
    main(
        programs_are_right_alone,
        programs_are_right_under_a_share,
        a_quota_ends_in_the_programs_own_error,
        programs_are_right_with_a_remote_device,
        programs_are_right_over_a_network,
        another_runtime_is_explained,
    )
