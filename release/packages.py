# SPDX-License-Identifier: Apache-2.0
"""Reads Debian packages, and fetches those of the archive that others need.

The archive's packages are those that apt of this machine would install. apt knows their hashes from signed lists. The
user's cache keeps each package, so that it is fetched once."""

import functools
import hashlib
import io
import os
import posixpath
import re
import subprocess
import tarfile
import tempfile
import typing

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "divvy", "packages")
# Folders of the root that are links into usr.
MERGED = {"bin", "sbin", "lib", "lib64"}


class Fault(Exception):
    """A fault that the user of these programs can mend; its text names the next step."""


class Unavailable(Fault):
    """The archive cannot be reached."""


class Entry(typing.NamedTuple):
    """A file, folder or link. `content` is the file's bytes or the link's target."""

    kind: str  # "file", "folder" or "link"
    mode: int
    content: typing.Union[bytes, str] = b""
    owner: int = 0


def output_of(*argv):
    """The output of a command as bytes."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise Fault(f"{' '.join(argv)[:200]}: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout


def paragraphs(text):
    """The paragraphs of a control file, as dictionaries. Continued lines keep their line ends."""
    for part in re.split(r"\n[ \t]*\n", text.strip()):
        fields, name = {}, None
        for line in part.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def merged(path):
    """The path in a root where /bin, /lib and others are links into /usr."""
    path = posixpath.normpath(path).lstrip("/")
    return "usr/" + path if path.partition("/")[0] in MERGED else path


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Package:
    """A package file. `fields` has its control fields, `entries` its files by path without the first slash."""

    def __init__(self, path):
        self.path = path
        self.control = output_of("dpkg-deb", "--field", path).decode()
        self.fields = next(paragraphs(self.control))
        self.name, self.version, self.architecture = (self.fields[f] for f in ("Package", "Version", "Architecture"))

    @functools.cached_property
    def sha256(self):
        return sha256_of(self.path)

    @property
    def source(self):
        """The name and version of the source package."""
        match = re.fullmatch(r"(\S+)(?: \((.*)\))?", self.fields.get("Source", self.name))
        return match.group(1), match.group(2) or self.version

    @functools.cached_property
    def entries(self):
        found = {}
        unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", self.path], check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
            for member in tar:
                path = merged(member.name)
                if member.isdir():
                    found[path] = Entry("folder", member.mode)
                elif member.issym():
                    found[path] = Entry("link", 0o777, member.linkname)
                elif member.islnk():
                    found[path] = found[merged(member.linkname)]
                elif member.isfile():
                    found[path] = Entry("file", member.mode, tar.extractfile(member).read())
                else:
                    raise Fault(f"{self.path}: '{member.name}' is no file, folder or link")
        return found

    def copyright(self):
        """The text of the package's copyright file."""
        path = f"usr/share/doc/{self.name}/copyright"
        for _ in range(3):
            entry = self.entries.get(path)
            if entry is None:
                # The folder may be a link to that of a package of the same source.
                folder = self.entries.get(posixpath.dirname(path))
                if not folder or folder.kind != "link":
                    return None
                path = posixpath.normpath(posixpath.join("usr/share/doc", folder.content, "copyright"))
                return fetched(path.split("/")[3], self.architecture).copyright()
            if entry.kind == "file":
                return entry.content.decode(errors="replace")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.content))
        return None


def names_of(depends):
    """The packages of a field Depends: of alternatives the first one."""
    for clause in depends.split(","):
        name = re.match(r"\s*([a-z0-9][a-z0-9.+-]+)", clause)
        if name:
            yield name.group(1)


KNOWN = {}  # control fields by name and architecture, None if apt knows no such package


def look_up(names, architecture):
    """Asks apt of this machine for the control fields of packages, all in one call."""
    new = [name for name in names if (name, architecture) not in KNOWN]
    if not new:
        return
    argv = ["apt-cache", "show", "--no-all-versions", *(f"{name}:{architecture}" for name in new)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    KNOWN.update({(name, architecture): None for name in new})
    KNOWN.update({(fields["Package"], architecture): fields for fields in paragraphs(done.stdout)})


def path_of(name, architecture):
    """Where the cache has a package of the archive, or will have it."""
    look_up([name], architecture)
    fields = KNOWN[name, architecture]
    if not fields or "SHA256" not in fields:
        raise Unavailable(f"apt has no list with the package '{name}' for {architecture}: run apt-get update")
    return os.path.join(CACHE, fields["SHA256"] + ".deb")


def fetch(names, architecture):
    """Fetches packages of the archive into the cache, all in one call of apt."""
    look_up(names, architecture)
    missing = [name for name in names if not os.path.exists(path_of(name, architecture))]
    if not missing:
        return
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=CACHE) as folder:
        os.chmod(folder, 0o777)  # apt fetches as a user of its own
        wanted = [f"{name}:{architecture}={KNOWN[name, architecture]['Version']}" for name in missing]
        argv = ["apt-get", "download", "-q", *wanted]
        done = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            text = done.stderr.strip()[-300:]
            raise Unavailable(f"packages of Debian cannot be fetched; run apt-get update: {text}")
        by_hash = {sha256_of(os.path.join(folder, file)): file for file in os.listdir(folder)}
        for name in missing:
            path = path_of(name, architecture)
            file = by_hash.get(os.path.basename(path).removesuffix(".deb"))
            if file is None:
                raise Fault(f"'{name}' has another hash than in apt's lists; run apt-get update")
            os.rename(os.path.join(folder, file), path)


@functools.cache
def fetched(name, architecture):
    """A package of the archive, from the cache if it is there."""
    fetch([name], architecture)
    return Package(path_of(name, architecture))


@functools.cache
def libraries_below(package):
    """The packages of libraries on which a package depends, directly or not, nearest first."""
    architecture, found, seen, level = package.architecture, [], {package.name}, [package.fields]
    while level:
        depends = ",".join(fields.get(f, "") for fields in level for f in ("Pre-Depends", "Depends"))
        names = [name for name in dict.fromkeys(names_of(depends)) if name not in seen]
        seen.update(names)
        look_up(names, architecture)
        level = [KNOWN[name, architecture] for name in names if KNOWN[name, architecture]]
        level = [fields for fields in level if fields.get("Section", "").split("/")[-1] == "libs"]
        found += [fields["Package"] for fields in level]
    fetch(found, architecture)
    return [fetched(name, architecture) for name in found]


def packages_in(folder):
    """divvy's packages in a folder: {(name, architecture): Package}."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if re.match(r"divvy[a-z-]*_.*\.deb$", name) and "-dbgsym_" not in name:
            package = Package(os.path.join(folder, name))
            found[package.name, package.architecture] = package
    if not found:
        raise Fault(f"'{folder}' has no package: run make deb")
    return found
