# SPDX-License-Identifier: Apache-2.0
"""Roots of Debian releases for tests. debootstrap makes each root once from the archive of this machine's apt, and the user's cache
keeps it. Root only."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile

from tap import patience

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "divvy")
CLEAN = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "DEBIAN_FRONTEND": "noninteractive",
}


def why_not():
    """Why this machine cannot make or enter a root, or nothing."""
    if not shutil.which("debootstrap") or not shutil.which("unshare"):
        return "debootstrap or unshare is not installed"
    return "" if os.geteuid() == 0 else "another root can be entered by root only"


def archives():
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


def make(suite, name, seconds, *options):
    """Makes the root CACHE/NAME unless it is there. Returns why it cannot be had, or ""."""
    root = os.path.join(CACHE, name)
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(root):
            return ""
        new = root + ".new"
        why = "apt knows no archive"
        for archive in archives():
            shutil.rmtree(new, ignore_errors=True)
            try:
                done = subprocess.run(
                    ["debootstrap", "--variant=minbase", *options, suite, new, archive],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=seconds,
                )
            except subprocess.TimeoutExpired:
                why = "debootstrap takes too long"
                continue
            if done.returncode == 0:
                for folder in ("mnt", "proc", "dev"):
                    # Unconfigured packages do not make these folders; in containers they may be links to the host's folders.
                    path = os.path.join(new, folder)
                    if os.path.islink(path):
                        os.unlink(path)
                    os.makedirs(path, exist_ok=True)
                os.rename(new, root)
                return ""
            why = "debootstrap cannot make a root: " + (done.stdout + done.stderr).strip().rpartition("\n")[2]
        shutil.rmtree(new, ignore_errors=True)
        return why


class Copy:
    """A throw-away copy of a root in its own namespaces of mounts and processes. What runs there, and all that was written there,
    goes with the copy."""

    SCRIPT = """
set -e
mount -t tmpfs tmpfs "$2"
mkdir "$2/up" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/root"
cd "$2/root"
mount -t proc proc proc
mount --rbind /dev dev
for folder in dev/shm tmp run; do mount -t tmpfs tmpfs $folder; done
mkdir -m 1777 run/lock
exec chroot . /bin/sh -c 'echo ready; exec sleep infinity'
"""

    def __init__(self, name):
        self.dir = tempfile.mkdtemp(prefix="divvy-test-root-")
        # The loader's own process stays outside of the new namespace of processes.
        self.process = subprocess.Popen(
            [
                *("unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child"),
                *("sh", "-c", self.SCRIPT, "sh", os.path.join(CACHE, name), self.dir),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = 0
        if self.process.stdout.readline().strip() == "ready":
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
                self.pid = int(f.read().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # --kill-child ends the first process of the namespace, and with it all others
        self.process.wait()
        self.process.stdout.close()
        os.rmdir(self.dir)

    def path(self, inside):
        """Where this machine sees a file of the copy."""
        return f"/proc/{self.pid}/root{inside}"

    def words(self, *argv, **env):
        clean = [f"{k}={v}" for k, v in {**CLEAN, **env}.items()]
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root", "--wd"]
        return [*inside, "/usr/bin/env", "-i", *clean, *argv]

    def run(self, *argv, seconds=60, check=True, **env):
        done = subprocess.run(
            self.words(*argv, **env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(seconds),
        )
        assert not check or done.returncode == 0, (argv, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done

    def start(self, *argv, stderr, **env):
        """A program whose output can be read line by line."""
        return subprocess.Popen(
            self.words(*argv, **env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            bufsize=1,
        )
