#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make release on a copy of the repository, with a key of its own. What takes long is played by small programs in the
copy: CI, scripts/deb and release/artefacts, which have tests of their own."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from tap import main, patience, skip_all  # noqa: E402

SOURCE = os.environ["DIVVY_SOURCE"]
PRESENT = subprocess.run(
    [os.path.join(SOURCE, "release/version")], check=True, capture_output=True, text=True
).stdout.strip()
NEXT = f"{int(PRESENT.split('.')[0]) + 1}.0.0"
# The programs that the copy plays: each notes that it ran, and the last two make a file.
PLAYED = {
    ".ci/run": "echo ci >>$HOME/ran",
    "scripts/deb": 'echo deb >>$HOME/ran; mkdir -p "$1"',
    "release/artefacts": 'echo artefacts >>$HOME/ran; mkdir -p "$2"; echo "0  a" >"$2/SHA256SUMS"',
}


class Copy:
    """A copy of the repository with a home folder of its own."""

    def __init__(self, folder):
        self.folder, self.home = os.path.join(folder, "divvy"), os.path.join(folder, "home")
        os.makedirs(self.home)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": self.home,
            "GNUPGHOME": os.path.join(self.home, "gnupg"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        os.makedirs(self.env["GNUPGHOME"], mode=0o700)
        self.run("git", "clone", "--quiet", "--no-local", "--depth=20", "file://" + SOURCE, self.folder, cwd=folder)
        for name, value in (("user.name", "A Tester"), ("user.email", "tester@divvy.invalid"), ("gc.auto", "0")):
            self.git("config", name, value)
        for name, script in PLAYED.items():
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nset -e\n{script}\n")
        self.git("commit", "--quiet", "--all", "-m", "tests: play what takes long")

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run(self, *argv, check=True, cwd=None, **env):
        done = subprocess.run(
            argv,
            cwd=cwd or self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(120),
        )
        assert not check or done.returncode == 0, (argv, done.returncode, done.stdout[-1000:], done.stderr[-2000:])
        return done

    def git(self, *argv):
        return self.run("git", *argv).stdout.strip()

    def release(self, version=NEXT, **env):
        """Runs the program behind make release. Returns (status, what it printed)."""
        done = self.run("release/release", version, check=False, **env)
        return done.returncode, done.stdout + done.stderr

    def make_key(self):
        self.run(
            "gpg",
            "--batch",
            "--passphrase",
            "",
            "--quick-gen-key",
            "A Tester <tester@divvy.invalid>",
            "ed25519",
            "sign",
        )

    def ran(self):
        path = os.path.join(self.home, "ran")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().split()

    def edit(self, version=NEXT):
        """What a person does with the draft."""
        text = self.text("CHANGELOG.md")
        draft = re.search(rf"(?ms)^## {version} \(.*?(?=^## )", text).group()
        assert "<!-- draft" in draft and re.search(r"(?m)^### [a-z]+$", draft), draft
        heading = draft.splitlines()[0]
        with open(self.path("CHANGELOG.md"), "w", encoding="utf-8") as file:
            file.write(text.replace(draft, f"{heading}\n\n- A change that users notice.\n\n"))


@contextlib.contextmanager
def copied():
    with tempfile.TemporaryDirectory(prefix="divvy-test-release-") as folder:
        copy = Copy(folder)
        try:
            yield copy
        finally:
            copy.run("gpgconf", "--kill", "all", check=False)


def a_release_is_signed_and_has_one_version_everywhere():
    with copied() as copy:
        copy.make_key()
        status, said = copy.release()
        assert status == 3 and f"edit the section {NEXT}" in said and copy.ran() == [], (status, said)
        copy.edit()
        status, said = copy.release()
        assert status == 0, said
        assert copy.ran() == ["ci", "deb", "artefacts"], copy.ran()
        copy.run("git", "verify-tag", f"v{NEXT}")
        copy.run("gpg", "--verify", "out/release/SHA256SUMS.asc", "out/release/SHA256SUMS")
        assert copy.git("rev-parse", f"v{NEXT}^{{commit}}") == copy.git("rev-parse", "HEAD")
        assert copy.git("status", "--porcelain") == "" and copy.run("release/version").stdout == f"{NEXT}\n"
        assert copy.text("debian/changelog").startswith(f"divvy ({NEXT}) "), copy.text("debian/changelog")
        copy.run("release/version", "--check")
        copy.run("deploy/generate", "--check")
        assert f"image: divvyd:{NEXT}" in copy.text("deploy/overlays/test/divvy.yaml")
        assert f"helm push out/release/divvy-{NEXT}.tgz" in said and f"git push origin v{NEXT}" in said, said
        # A second release of the same version has nothing to do.
        status, said = copy.release()
        assert status == 1 and "exists already" in said, said


def a_trial_has_no_ci_and_no_tag():
    with copied() as copy:
        copy.release(SKIP_CI="1")
        copy.edit()
        status, said = copy.release(SKIP_CI="1")
        assert status == 0 and "CI DOES NOT RUN" in said and "helm push" not in said, said
        assert copy.ran() == ["deb", "artefacts"] and copy.git("tag", "--list") == "", copy.ran()
        assert not os.path.exists(copy.path("out/release/SHA256SUMS.asc"))


def a_section_that_people_have_written_needs_no_draft():
    with copied() as copy:
        text = copy.text("CHANGELOG.md")
        with open(copy.path("CHANGELOG.md"), "w", encoding="utf-8") as file:
            file.write(text.replace("\n## ", f"\n## {NEXT} (not released)\n\n- A change.\n\n## ", 1))
        copy.git("commit", "--quiet", "--all", "-m", "docs: write a section")
        status, said = copy.release(SKIP_CI="1")
        assert status == 0, said
        text = copy.text("CHANGELOG.md")
        assert re.search(rf"(?m)^## {re.escape(NEXT)} \(\d{{4}}-\d\d-\d\d\)\n\n- A change\.$", text), text[:500]


def a_release_refuses_what_is_not_ready():
    with copied() as copy:
        status, said = copy.release()
        assert status == 1 and "gpg has no secret key" in said and "SKIP_CI=1" in said, said
        for version, fault in (("0.2", "is no version"), ("0.0.9", "is older")):
            status, said = copy.release(version)
            assert status == 1 and fault in said, said
        with open(copy.path("README.md"), "a", encoding="utf-8") as file:
            file.write("changed\n")
        status, said = copy.release(SKIP_CI="1")
        assert status == 1 and "the tree is not clean" in said and "README.md" in said, said
        assert copy.ran() == [], copy.ran()


def a_failed_ci_stops_a_release():
    with copied() as copy:
        copy.make_key()
        with open(copy.path(".ci/run"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 1\n")
        copy.git("commit", "--quiet", "--all", "-m", "tests: fail")
        copy.release()
        copy.edit()
        status, said = copy.release()
        assert status == 1 and "failed: .ci/run" in said, said
        assert copy.ran() == [] and copy.git("tag", "--list") == ""


for reason in (
    "" if shutil.which("gpg") and shutil.which("git") else "gpg or git is not installed",
    "" if os.path.exists(os.path.join(SOURCE, ".git")) else "the sources are no checkout of git",
):
    if reason:
        skip_all(reason)
main(
    a_release_is_signed_and_has_one_version_everywhere,
    a_trial_has_no_ci_and_no_tag,
    a_section_that_people_have_written_needs_no_draft,
    a_release_refuses_what_is_not_ready,
    a_failed_ci_stops_a_release,
)
