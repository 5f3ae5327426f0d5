# SPDX-License-Identifier: Apache-2.0
"""Makes layers, images and layouts of the Open Container Initiative (OCI). The same content makes the same bytes:
files are sorted, owners are numbers, and every time is that of the release."""

import contextlib
import datetime
import gzip
import hashlib
import io
import json
import os
import tarfile

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
EMPTY = "application/vnd.oci.empty.v1+json"
KINDS = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def parents(path):
    """The folders above a path, the outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def add_member(tar, path, entry, epoch):
    """Adds one packages.Entry to an archive."""
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.mtime = KINDS[entry.kind], entry.mode, epoch
    member.uid = member.gid = entry.owner
    if entry.kind == "link":
        member.linkname = entry.content
    data = entry.content if entry.kind == "file" else b""
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def tar_of(entries, epoch):
    """The tar of {path: packages.Entry}. Every folder must be among the entries."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(entries):
            add_member(tar, path, entries[path], epoch)
    return out.getvalue()


def gzipped(data):
    return gzip.compress(data, compresslevel=6, mtime=0)


class Layout:
    """A layout in memory; write() puts it into one archive. `blobs` has the content by digest."""

    def __init__(self, epoch):
        self.epoch, self.blobs, self.manifests = epoch, {}, []

    def add(self, media_type, data, **more):
        """Adds a blob, and returns its descriptor."""
        data = data if isinstance(data, bytes) else json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
        digest = digest_of(data)
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data), **more}

    def name(self, descriptor, tag, full):
        """Names a descriptor: `tag` as tools for registries read it, `full` as containerd does."""
        names = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": full}
        self.manifests.append({**descriptor, "annotations": names})

    def files(self):
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests}
        yield "index.json", json.dumps(index, separators=(",", ":"), sort_keys=True).encode()
        yield "oci-layout", b'{"imageLayoutVersion":"1.0.0"}'
        for digest, data in sorted(self.blobs.items()):
            yield "blobs/" + digest.replace(":", "/"), data

    def write(self, path):
        """Writes the layout as one archive: what it holds is there completely, or not at all."""
        folders = {"blobs", "blobs/sha256"}
        new = path + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        with tarfile.open(new, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for folder in sorted(folders):
                member = tarfile.TarInfo(folder)
                member.type, member.mode, member.mtime = tarfile.DIRTYPE, 0o755, self.epoch
                tar.addfile(member)
            for name, data in self.files():
                member = tarfile.TarInfo(name)
                member.size, member.mode, member.mtime = len(data), 0o644, self.epoch
                tar.addfile(member, io.BytesIO(data))
        os.rename(new, path)


def time_of(epoch):
    """A time in seconds since 1970 as OCI and SPDX write it."""
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
