#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries in a Debian 11 root with glibc 2.31: in its shell, and in a program that uses the
device. debootstrap makes the root once from the archive of this machine's apt, and the user's cache
keeps it. Without a root, or the right to enter it, the test is skipped."""

import os
import shutil
import subprocess

from machine import CHAOS, HOOKS, Machine, patience, run, skip_all, wait_for

import debian_root  # machine has named the folder of this module

NAME = "debian-11"
ROOT = os.path.join(debian_root.CACHE, NAME)
SUITE = "bullseye"
OLD = os.path.join(CHAOS, "old")
SIM = os.path.join(os.environ["DIVVY_BUILD"], "src/simgpu")
MAKE_S = 170


def enter(folder, *argv, env=None):
    """Runs in the root, with `folder` as its /mnt. The mounts belong to the program's namespace and
    end with it."""
    script = (
        'mount --bind "$1" "$2/mnt" && mount -t proc none "$2/proc" && mount --bind /dev "$2/dev" &&'
        ' root=$2 && shift 2 && exec chroot "$root" "$@"'
    )
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", **(env or {})}
    inside = [f"{k}={v}" for k, v in clean.items() if k != "PATH"]
    return subprocess.run(
        [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
            folder,
            ROOT,
            "/usr/bin/env",
            *inside,
            *argv,
        ],
        env={"PATH": clean["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )


def furnish(m):
    """Copies the built libraries into the folder that the root sees. Returns the environment for
    them."""
    for folder in ("lib", "sim"):
        os.makedirs(os.path.join(m.dir, "old", folder))
    for hook in HOOKS:
        shutil.copy(hook, os.path.join(m.dir, "old/lib"))
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(os.path.join(SIM, name), os.path.join(m.dir, "old/sim"))
    shutil.copy(OLD, os.path.join(m.dir, "old"))
    return {"LD_PRELOAD": ":".join("/mnt/old/lib/" + os.path.basename(h) for h in HOOKS)}


def an_old_shell_behaves_the_same():
    with Machine() as m:
        preload = furnish(m)
        script = (
            "umask; trap; echo $((6 * 7)) | cat; (exit 3); echo $?; ls /mnt/old; for i in 1 2 3; do true & done; wait"
        )
        bare = enter(m.dir, "/bin/bash", "-c", script)
        assert bare.returncode == 0 and "42" in bare.stdout, bare
        got = enter(m.dir, "/bin/bash", "-c", script, env=preload)
        assert (got.returncode, got.stdout, got.stderr) == (0, bare.stdout, bare.stderr), got
        assert "GLIBC 2.31" in enter(m.dir, "/usr/bin/ldd", "--version").stdout


def an_old_shell_behaves_the_same_with_the_remote_libraries():
    remote = os.path.join(os.environ["DIVVY_BUILD"], "src/remote")
    preload = "/mnt/libdivvy-remote.so:/mnt/libdivvy-remote-nvml.so"
    got = enter(remote, "/bin/bash", "-c", "echo $((6 * 7)) | cat", env={"LD_PRELOAD": preload})
    assert (got.returncode, got.stdout, got.stderr) == (0, "42\n", ""), got


def an_old_program_can_use_the_device():
    with Machine() as m:
        preload = furnish(m)
        tenant = m.create("old", request="0.5", memory="1Gi")
        other = m.create("other", request="0.4").spin(kernel_us=400)
        env = {
            **preload,
            "DIVVY_TENANT": tenant.env["DIVVY_TENANT"],
            "DIVVY_SOCKET": "/mnt/divvyd.sock",
            "DIVVY_SIM": "/mnt/sim",
            "DIVVY_DRIVER": "/mnt/old/sim",
            "DIVVY_ABSENT": "closed",
        }
        for _ in range(3):
            done = enter(m.dir, "/mnt/old/old", env=env)
            assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", ""), done
        m.goes_on(other.pid)
        wait_for(lambda: not tenant.pids() and tenant.used() == 0, "the tenant holds no memory and no process")
        m.books_are_right()
        assert tenant.now()["devices"][0]["used_ns"] > 0, "the tenant is charged for the program's use"
        # Without a driver, cuInit() fails with CUDA_ERROR_NO_DEVICE (100).
        done = enter(m.dir, "/mnt/old/old", env={**env, "DIVVY_DRIVER": "/nowhere"})
        assert done.returncode == 1 and "error 0100 of cuInit" in done.stderr, done


if not os.access(OLD, os.X_OK):
    skip_all("not written for this processor")
# A libc and a shell are enough: the packages that debootstrap unpacks first, unconfigured.
reason = debian_root.why_not() or debian_root.make(SUITE, NAME, MAKE_S, "--foreign")
if reason:
    skip_all(reason)
if enter("/", "/bin/true").returncode:
    skip_all("the root cannot be entered here: " + enter("/", "/bin/true").stderr.strip())
run(
    an_old_shell_behaves_the_same,
    an_old_shell_behaves_the_same_with_the_remote_libraries,
    an_old_program_can_use_the_device,
)
