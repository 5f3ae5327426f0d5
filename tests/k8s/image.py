#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a container image from a folder: one layer, as an archive that containerd imports.

usage: image.py OUT NAME:TAG FOLDER ENTRYPOINT...
The same folder makes the same image: owners, times and order are fixed."""
import hashlib
import io
import json
import os
import sys
import tarfile


def layer_of(folder):
    """The folder as a tar, in memory."""

    def plain(entry):
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for parent, folders, files in os.walk(folder):
            folders.sort()
            for name in sorted(files + [f for f in folders]):
                path = os.path.join(parent, name)
                tar.add(path, os.path.relpath(path, folder), recursive=False, filter=plain)
    return out.getvalue()


def make_image(out, name, folder, entrypoint, env=("PATH=/bin",)):
    layer = layer_of(folder)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "Env": list(env)},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        }
    ).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps(
        [{"Config": config_name, "RepoTags": ["docker.io/" + name], "Layers": ["layer.tar"]}]
    ).encode()
    with tarfile.open(out, "w") as tar:
        for path, data in ((config_name, config), ("layer.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__.strip().split("\n")[2])
    make_image(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
