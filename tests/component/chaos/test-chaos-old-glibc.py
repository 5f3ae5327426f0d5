#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries in a Debian 11 root with glibc 2.31: in its shell, and in a program that uses the
device. debootstrap makes the root once from the archive of this machine's apt, and the user's cache
keeps it. Without a root, or the right to enter it, the test is skipped."""

import contextlib
import fcntl
import os
import shutil
import subprocess

from machine import CHAOS, HOOKS, Machine, patience, run, skip_all, wait_for

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "divvy")
ROOT = os.path.join(CACHE, "debian-11")
SUITE = "bullseye"
OLD = os.path.join(CHAOS, "old")
SIM = os.path.join(os.environ["DIVVY_BUILD"], "src/simgpu")
MAKE_S = 170


def mirrors():
    """The archives that apt knows, without those of security updates."""
    with contextlib.suppress(OSError):
        done = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(),
        )
        return list(dict.fromkeys(line.split()[0] for line in done.stdout.splitlines() if "security" not in line))
    return []


def make_root():
    """Makes a root with only the packages that debootstrap unpacks first: a libc and a shell,
    unconfigured."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(ROOT):
            return ""
        new = ROOT + ".new"
        why = "apt knows no archive"
        for mirror in mirrors():
            shutil.rmtree(new, ignore_errors=True)
            try:
                done = subprocess.run(
                    ["debootstrap", "--foreign", "--variant=minbase", SUITE, new, mirror],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=MAKE_S,
                )
            except subprocess.TimeoutExpired:
                why = "debootstrap takes too long"
                continue
            if done.returncode == 0:
                for folder in ("mnt", "proc", "dev"):
                    # Unconfigured packages do not make these folders; in containers they may be
                    # links to the host's folders.
                    path = os.path.join(new, folder)
                    if os.path.islink(path):
                        os.unlink(path)
                    os.makedirs(path, exist_ok=True)
                os.rename(new, ROOT)
                return ""
            why = "debootstrap cannot make a root: " + (done.stdout + done.stderr).strip().rpartition("\n")[2]
        shutil.rmtree(new, ignore_errors=True)
        return why


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
if not shutil.which("debootstrap") or not shutil.which("unshare"):
    skip_all("debootstrap or unshare is not installed")
if os.geteuid() != 0:
    skip_all("another root can be entered by root only")
reason = make_root()
if reason:
    skip_all(reason)
if enter("/", "/bin/true").returncode:
    skip_all("the root cannot be entered here: " + enter("/", "/bin/true").stderr.strip())
run(
    an_old_shell_behaves_the_same,
    an_old_shell_behaves_the_same_with_the_remote_libraries,
    an_old_program_can_use_the_device,
)
