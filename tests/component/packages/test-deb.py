#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages as their user meets them, in a bare Debian 12: a program runs with a share right after the installation, a
tenant keeps its share through an upgrade, and a purge leaves nothing. The system's daemon is out of reach, because no systemd
runs in the root. Then what release/artefacts makes of the packages (artefacts.py)."""

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

import artefacts  # noqa: E402
import debian_root  # noqa: E402
from tap import main, patience, skip_all, wait_for  # noqa: E402

SOURCE = os.environ["DIVVY_SOURCE"]
ROOT = "debian-12"
SUITE = "bookworm"
ROOT_S = 300
BUILD_S = 900
# The packages that divvy's packages depend on, and the interpreter of the program.
NEEDED = "libcurl4,libfyaml0,libgnutls30,libjansson4,libmicrohttpd12,libncursesw6,libnghttp2-14,libprotobuf-c1,libsystemd0,libtinfo6,python3"
RUN = ("divvy", "run", "--simulate", "1xH200-141Gi", "--request", "0.5", "--memory", "8Gi", "--")
# Folders in which apt and dpkg keep books.
BOOKS = ("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log", "/etc/ld.so.cache", "/etc/systemd")
PROGRAM = """
import ctypes, os
cu = ctypes.CDLL("libcuda.so.1")
def call(name, *args):
    result = getattr(cu, name)(*args)
    assert result == 0, f"{name}: {result}"
context, free, total, memory = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 30))
assert cu.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(8 << 30)) == 2, "the quota holds"
for version in (12, 13):
    count = ctypes.c_int()
    assert ctypes.CDLL(f"libcudart.so.{version}").cudaGetDeviceCount(ctypes.byref(count)) == 0 and count.value == 1
names = os.environ["LD_LIBRARY_PATH"].split(":")[0]
for name, library in (("libcuda.so", "cuda"), ("libnvidia-ml.so", "nvml")):
    assert os.path.samefile(f"{names}/{name}", f"/usr/lib/divvy/libdivvy-{library}.so"), names
print("total", total.value, flush=True)
"""


def built(name):
    found = glob.glob(os.path.join(OUT, name))
    assert len(found) == 1, (name, os.listdir(OUT))
    return found[0]


def a_commit_makes_packages():
    done = subprocess.run(
        [os.path.join(SOURCE, "scripts/deb"), OUT],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "CC": "gcc"},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(BUILD_S),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("divvy_*.deb", "divvy-kubernetes_*.deb", "divvy-dev_*_all.deb", "divvy_*.dsc", "divvy_*.tar.xz"):
        built(name)
    with open(built("*.buildinfo"), encoding="utf-8") as f:
        assert "CC=" not in f.read(), "the environment of the build is that of any other machine"


def next_version(path):
    """The package with a later version: its libraries lie in another folder, and its tenants.conf has another line."""
    folder = os.path.join(OUT, "next")
    subprocess.run(["dpkg-deb", "-R", path, folder], check=True)
    control = os.path.join(folder, "DEBIAN/control")
    with open(control, encoding="utf-8") as f:
        text = f.read()
    version = next(line.split()[1] for line in text.splitlines() if line.startswith("Version:"))
    with open(control, "w", encoding="utf-8") as f:
        f.write(text.replace(f"Version: {version}", "Version: 9.9"))
    libraries = os.path.join(folder, "usr/lib/divvy")
    os.rename(os.path.join(libraries, version), os.path.join(libraries, "9.9"))
    for name in os.listdir(os.path.join(libraries, "9.9")):
        link = os.path.join(libraries, name)
        assert os.readlink(link) == f"{version}/{name}", os.readlink(link)
        os.unlink(link)
        os.symlink(f"9.9/{name}", link)
    with open(os.path.join(folder, "etc/divvy/tenants.conf"), "a", encoding="utf-8") as f:
        f.write("# a line of the later version\n")
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-b", folder, os.path.join(OUT, "next.deb")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(folder)
    return os.path.join(OUT, "next.deb")


def files(root):
    found = root.run(
        "find", "/", "-path", "/proc", "-prune", "-o", "-path", "/dev", "-prune", "-o", "-print"
    ).stdout.splitlines()
    return {path for path in found if not path.startswith(BOOKS) and not path.startswith("/mnt")}


def install(root, *paths):
    inside = []
    for path in paths:
        shutil.copy(path, root.path("/mnt"))
        inside.append("/mnt/" + os.path.basename(path))
    root.run("apt-get", "install", "-y", "-o", "Dpkg::Options::=--force-confold", *inside, seconds=120)


@contextlib.contextmanager
def installed():
    with debian_root.Copy(ROOT) as root:
        before = files(root)
        install(root, built("divvy_*.deb"), built("divvy-kubernetes_*.deb"), built("divvy-dev_*.deb"))
        with open(root.path("/mnt/program.py"), "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        yield root, before


def an_installed_divvy_runs_a_program_with_a_share():
    begin = time.monotonic()
    with installed() as (root, _):
        done = root.run(*RUN, "python3", "/mnt/program.py")
        print(f"# {time.monotonic() - begin:.1f} s from the packages to the end of the program")
        assert done.stdout == f"total {8 << 30}\n", done
        assert "simulated" in root.run("divvy", "devices").stdout.lower()
        for program in ("divvyd", "divvy-scheduler", "divvy-controller", "divvy-simctl"):
            assert root.run(program, "--help").stdout, program
        for program in ("divvy", "kubectl-divvy"):
            assert root.run(program, "help").stdout, program


def the_doctor_names_the_package_of_a_missing_file():
    with installed() as (root, _):
        root.run("rm", "/usr/lib/divvy/libdivvy-nvml.so")
        done = root.run("divvy", "doctor", check=False)
        assert done.returncode != 0 and "apt install --reinstall divvy" in done.stdout + done.stderr, done


def a_tenant_notices_no_upgrade():
    with installed() as (root, _), tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        shell = root.start(*RUN, "sh", "-c", "while read word; do python3 /mnt/program.py; done", stderr=said)

        def ask():
            shell.stdin.write("again\n")
            shell.stdin.flush()
            return shell.stdout.readline()

        try:
            assert ask() == f"total {8 << 30}\n"
            before = root.run("divvy", "ps").stdout
            with open(root.path("/etc/divvy/tenants.conf"), "a", encoding="utf-8") as f:
                f.write("# the administrator's line\n")
            install(root, next_version(built("divvy_*.deb")))
            folders = [n for n in os.listdir(root.path("/usr/lib/divvy")) if n[0].isdigit()]
            assert folders == ["9.9"], "the old version's folder is gone"
            # The shell's environment still names the libraries; its next child loads those of the later version.
            assert ask() == f"total {8 << 30}\n"
            assert root.run("divvy", "ps").stdout.split()[:20] == before.split()[:20], before
            with open(root.path("/etc/divvy/tenants.conf"), encoding="utf-8") as f:
                text = f.read()
            assert "the administrator's line" in text and "later version" not in text, text
        finally:
            shell.stdin.close()
            ended = shell.wait(patience())
            shell.stdout.close()
        said.seek(0)
        said = said.read()
        assert ended == 0 and "ld.so" not in said, (ended, said)


def a_purge_leaves_nothing():
    with installed() as (root, before):
        root.run(*RUN, "python3", "/mnt/program.py")
        root.run("apt-get", "remove", "-y", "divvy", "divvy-kubernetes", "divvy-dev", seconds=120)
        assert os.path.exists(root.path("/etc/divvy/tenants.conf")), "a removal keeps the configuration"
        root.run("dpkg", "--purge", "divvy", "divvy-kubernetes", "divvy-dev", seconds=120)
        wait_for(lambda: not files(root) - before, f"nothing is left: {sorted(files(root) - before)[:20]}", 90)
        assert not before - files(root)


def a_purge_spares_what_others_use():
    with installed() as (root, _):
        root.run("mkdir", "-p", "/run/divvy")
        root.run("touch", "/run/divvy/divvy-GPU-1.lock", "/run/divvy/state", "/tmp/divvy-GPU-1.lock")
        root.run("mkfifo", "/run/lock/divvy-pipe.lock")
        root.run("ln", "-s", "/run/divvy/state", "/run/lock/divvy-link.lock")
        # The daemon of a cluster's pod holds its devices' locks in the machine's folder.
        daemon = root.start(
            *("flock", "/run/divvy/divvy-GPU-1.lock", "sh", "-c", "echo held; read line"), stderr=subprocess.DEVNULL
        )
        try:
            assert daemon.stdout.readline() == "held\n"
            root.run("apt-get", "purge", "-y", "divvy", seconds=120)
            assert os.path.exists(root.path("/run/divvy/state")), "the other daemon's files stay"
            assert not os.path.exists(root.path("/tmp/divvy-GPU-1.lock")), "nobody holds this lock"
            assert os.path.lexists(root.path("/run/lock/divvy-link.lock"))
        finally:
            daemon.stdin.close()
            daemon.wait(patience())
            daemon.stdout.close()


OUT = tempfile.mkdtemp(prefix="divvy-test-deb-")
ARTEFACTS = artefacts.Artefacts(lambda: OUT)
try:
    for reason in (
        debian_root.why_not(),
        "" if shutil.which("dh") and shutil.which("lintian") else "debhelper or lintian is not installed",
        "" if os.path.exists(os.path.join(SOURCE, ".git")) else "the sources are no checkout of git",
        debian_root.make(SUITE, ROOT, ROOT_S, "--include=" + NEEDED),
    ):
        if reason:
            skip_all(reason)
    main(
        a_commit_makes_packages,
        an_installed_divvy_runs_a_program_with_a_share,
        the_doctor_names_the_package_of_a_missing_file,
        a_tenant_notices_no_upgrade,
        a_purge_leaves_nothing,
        a_purge_spares_what_others_use,
        *ARTEFACTS.tests(),
    )
finally:
    ARTEFACTS.close()
    shutil.rmtree(OUT)
