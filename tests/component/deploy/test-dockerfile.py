#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of deploy/images/Dockerfile without a container engine, on packages that the test builds. The first
stage is a Debian 12 root, which debootstrap makes from the archive of this machine's apt. RUN is a chroot in a mount
namespace. At the end each image's program runs as the image's user, and the images have the same files as those of
release/artefacts. Takes minutes, so it is a soak. DIVVY_PACKAGES names a folder with the packages, and saves their
build."""

import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../.."))

from tap import Skip, main, skip_all  # noqa: E402

SOURCE = os.environ.get("DIVVY_SOURCE") or os.path.abspath(os.path.join(HERE, "../../.."))
DOCKERFILE = os.path.join(SOURCE, "deploy/images/Dockerfile")
BASE = "debian:12-slim"
ENTER = (
    'mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"; mount --bind /etc/resolv.conf "$0/etc/resolv.conf"; '
    'exec chroot "$0" /bin/sh -c "cd $1 && $2"'
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
        elif name == "scratch":
            os.mkdir(self.root)
        else:
            self.bootstrap()

    def bootstrap(self):
        mirror = archives()
        if not mirror:
            raise Skip("apt knows no archive of Debian 12")
        argv = ["debootstrap", "--variant=minbase", "bookworm", self.root, mirror[0]]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Skip("debootstrap cannot make a root: " + (done.stdout + done.stderr).strip().rpartition("\n")[2])

    def run(self, text):
        inside = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", ENTER, self.root]
        return command(*inside, self.folder, text, env=self.env)

    def start(self, *argv):
        """Runs a program of an image without a shell, as the image's user."""
        return command("chroot", f"--userspec={self.user}", self.root, *argv, env=self.env)

    def copy(self, sources, target, stage):
        """Runs COPY; of a source that is a folder, COPY copies the contents."""
        for source in sources:
            if stage is None and source == "out/deb":
                source = PACKAGES
            else:
                source = os.path.join(stage.root if stage else SOURCE, source.lstrip("/"))
            place = os.path.normpath(self.root + "/" + os.path.join(self.folder, target))
            os.makedirs(place, exist_ok=True)
            command("cp", "-a", source + "/.", place)


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
            if of in (BASE, "scratch") and of not in stages:
                stages[of] = Stage(folder, "scratch" if of == "scratch" else "base")
            stage = stages[name] = Stage(folder, name, stages[of])
        else:
            do(stage, stages, word, rest)


def the_programs_run():
    for name in ("divvy-scheduler", "divvy-controller", "divvyd"):
        out = stages[name].start(*stages[name].entry, "--version")
        assert out.startswith(name + " "), out
    assert "usage: spin" in stages["divvy-programs"].start("/usr/bin/spin", "--help")


def files_below(root):
    """{path: hash of the file, target of the link, or nothing for a folder}"""
    found = {}
    for parent, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(parent, name)
            if os.path.islink(path):
                found[os.path.relpath(path, root)] = os.readlink(path)
            elif os.path.isdir(path):
                found[os.path.relpath(path, root)] = ""
            else:
                with open(path, "rb") as file:
                    found[os.path.relpath(path, root)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def layer_files(path):
    """As files_below, of the layers of a layout: the last one has the files of divvy's packages."""
    with tarfile.open(path) as tar:
        blobs = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}

    def blob(descriptor):
        return blobs["blobs/" + descriptor["digest"].replace(":", "/")]

    (top,) = json.loads(blobs["index.json"])["manifests"]
    (one,) = json.loads(blob(top))["manifests"]
    for layer in json.loads(blob(one))["layers"]:
        with tarfile.open(fileobj=io.BytesIO(blob(layer))) as tar:
            yield {
                m.name: m.linkname or (hashlib.sha256(tar.extractfile(m).read()).hexdigest() if m.isfile() else "")
                for m in tar
            }


def the_images_have_the_files_of_the_layouts():
    """Debian's files may be of another version, since the root has another list of archives than this machine."""
    out = os.path.join(folder, "release")
    command(os.path.join(SOURCE, "release/artefacts"), PACKAGES, out)
    for name in ("divvy-scheduler", "divvy-controller", "divvyd", "divvy-programs"):
        found = files_below(stages[name].root)
        (path,) = [p for p in os.listdir(out) if p.startswith(name + "_") and p.endswith(".oci.tar")]
        debian_files, our_files = layer_files(os.path.join(out, path))
        versions = {p for p in set(found) ^ {**debian_files, **our_files}.keys() if not p.startswith("usr/lib/")}
        assert not versions, (name, versions)
        assert our_files.items() <= found.items(), (name, set(our_files.items()) - set(found.items()))


stages = {}
if os.geteuid() != 0 or not shutil.which("debootstrap"):
    skip_all("only root, with debootstrap, can make a root")
with tempfile.TemporaryDirectory(prefix="divvy-images-") as folder:
    PACKAGES = os.environ.get("DIVVY_PACKAGES") or os.path.join(folder, "packages")
    if not os.path.exists(PACKAGES):
        command(os.path.join(SOURCE, "scripts/deb"), PACKAGES)
    main(all_steps_succeed, the_programs_run, the_images_have_the_files_of_the_layouts)
