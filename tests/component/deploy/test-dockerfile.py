#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of deploy/images/Dockerfile without a container engine. Each stage is a Debian 12
root, which debootstrap makes from the archive of this machine's apt. RUN is a chroot in a mount
namespace. At the end each image's program prints its version as the image's user. Takes minutes and
4 GB, so it is a soak."""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../.."))

from tap import Skip, main, skip_all  # noqa: E402

SOURCE = os.environ.get("DIVVY_SOURCE") or os.path.abspath(os.path.join(HERE, "../../.."))
DOCKERFILE = os.path.join(SOURCE, "deploy/images/Dockerfile")
BASE = "debian:12-slim"
ENTER = (
    'mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"; mount --bind /etc/resolv.conf "$0/etc/resolv.conf"; '
    'exec chroot $1 "$0" /bin/sh -c "cd $2 && $3"'
)


def command(*argv, **kw):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **kw)
    assert done.returncode == 0, f"{' '.join(argv)[:200]}: {(done.stdout + done.stderr)[-2000:]}"
    return done.stdout


def archives():
    out = command("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages")
    return list(dict.fromkeys(line.split()[0] for line in out.splitlines() if line.endswith(" bookworm")))


def steps():
    """Returns (instruction, rest) of each step, without comments and with continued lines joined."""
    text = ""
    with open(DOCKERFILE, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            text += line.rstrip("\n").removesuffix("\\")
            if not line.rstrip("\n").endswith("\\"):
                word, _, rest = text.strip().partition(" ")
                yield word, rest.strip()
                text = ""


class Stage:
    def __init__(self, root, name, parent=None):
        self.root = os.path.join(root, name)
        self.env = (
            dict(parent.env) if parent else {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        )
        self.folder, self.user, self.entry = "/", "0:0", []
        if parent:
            command("cp", "-a", parent.root, self.root)
        else:
            mirror = archives()
            if not mirror:
                raise Skip("apt knows no archive of Debian 12")
            done = subprocess.run(
                ["debootstrap", "--variant=minbase", "bookworm", self.root, mirror[0]],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise Skip("debootstrap cannot make a root: " + (done.stdout + done.stderr).strip().rpartition("\n")[2])

    def run(self, text, user=None):
        who = [f"--userspec={user}"] if user else []
        return command(
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            ENTER,
            self.root,
            *(who or [""]),
            self.folder,
            text,
            env=self.env,
        )

    def place(self, path, is_folder):
        path = os.path.normpath(self.root + "/" + os.path.join(self.folder, path))
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        return path

    def copy(self, sources, target, stage):
        """Runs COPY; of a source that is a folder, COPY copies the contents."""
        for source in sources:
            if stage is None and source == ".":
                self.copy_tree(self.place(target, True))
                continue
            source = os.path.join(stage.root if stage else SOURCE, source.lstrip("/"))
            place = self.place(target, target.endswith("/"))
            if os.path.isdir(source):
                shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(source, place)

    @staticmethod
    def copy_tree(place):
        """Copies the repository, without built and ignored files."""
        for name in command("git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard").splitlines():
            target = os.path.join(place, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # deleted, but not yet committed
                shutil.copy(os.path.join(SOURCE, name), target)


def do(stage, stages, word, rest):
    if word == "ENV":
        stage.env |= dict(part.split("=", 1) for part in shlex.split(rest))
    elif word == "RUN":
        print(f"# RUN {rest[:100]}", flush=True)
        stage.run(rest)
    elif word == "COPY":
        words = rest.split()
        origin = stages[words.pop(0).removeprefix("--from=")] if words[0].startswith("--from=") else None
        stage.copy(words[:-1], words[-1], origin)
    elif word == "WORKDIR":
        stage.folder = rest
        stage.place(rest, True)
    elif word == "USER":
        stage.user = rest
    elif word in ("ENTRYPOINT", "CMD"):
        stage.entry = json.loads(rest)
    else:
        raise AssertionError(f"{word}: no step that this test knows")


def all_steps_succeed():
    args, stage = {}, None
    for word, rest in steps():
        if word == "ARG":
            args.update([rest.split("=", 1)])
        elif word == "FROM":
            of, _, name = rest.partition(" AS ")
            of = of.replace("${DEBIAN}", args["DEBIAN"])
            if of == BASE and of not in stages:
                stages[of] = Stage(folder, "base")
            stage = stages[name] = Stage(folder, name, stages[of])
        else:
            do(stage, stages, word, rest)


def the_programs_run():
    for name in ("divvy-scheduler", "divvy-controller", "divvyd"):
        out = stages[name].run(f"{stages[name].entry[0]} --version", user=stages[name].user)
        assert out.startswith(name + " "), out
    assert "usage: spin" in stages["divvy-programs"].run("spin --help", user=stages["divvy-programs"].user)


def divvyds_image_has_its_tenants_libraries():
    found = stages["divvyd"].run("ls /usr/lib/divvy /usr/lib/divvy/sim /usr/libexec/divvy; divvy version")
    for name in ("libdivvy-cuda.so", "libdivvy-nvml.so", "libcuda.so.1", "libnvidia-ml.so.1", "divvy-sim-engine"):
        assert name in found, found


stages = {}
if os.geteuid() != 0 or not shutil.which("debootstrap"):
    skip_all("only root, with debootstrap, can make a root")
with tempfile.TemporaryDirectory(prefix="divvy-images-") as folder:
    main(all_steps_succeed, the_programs_run, divvyds_image_has_its_tenants_libraries)
