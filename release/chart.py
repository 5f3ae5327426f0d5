# SPDX-License-Identifier: Apache-2.0
"""Packages deploy/chart with the digests of a release's images: as the archive that helm writes, and as an OCI
layout, as registries keep charts."""

import io
import os
import re
import tarfile

import yaml

import oci
from packages import Entry, Fault

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
PARTS = {"scheduler": "divvy-scheduler", "controller": "divvy-controller", "divvyd": "divvyd"}


def with_digests(text, digests):
    """values.yaml with the digest of each part's image. `digests` is by the image's name."""
    for part, image in PARTS.items():
        text, count = re.subn(rf'(?m)^({part}:\n(?:  .*\n)*?  digest: )""$', rf'\g<1>"{digests[image]}"', text)
        if count != 1:
            raise Fault(f"deploy/chart/values.yaml: '{part}.digest' is not there once, with an empty value")
    return text


def archive_of(folder, digests, epoch):
    """(the chart's description, its archive): all files below a folder of the chart's name."""
    with open(os.path.join(folder, "Chart.yaml"), encoding="utf-8") as file:
        about = yaml.safe_load(file)
    out = io.BytesIO()
    paths = sorted(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)
    # helm reads Chart.yaml before the other files.
    paths.sort(key=lambda path: os.path.basename(path) != "Chart.yaml")
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in paths:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if path == os.path.join(folder, "values.yaml"):
                text = with_digests(text, digests)
            name = os.path.join(about["name"], os.path.relpath(path, folder))
            oci.add_member(tar, name, Entry("file", 0o644, text.encode()), epoch)
    return about, oci.gzipped(out.getvalue())


def layout_of(about, archive, epoch):
    """The layout that a registry needs for `helm install oci://...`."""
    layout = oci.Layout(epoch)
    config = layout.add(CONFIG, about)
    layer = layout.add(CONTENT, archive)
    annotations = {
        "org.opencontainers.image.title": about["name"],
        "org.opencontainers.image.description": about["description"],
        "org.opencontainers.image.version": about["version"],
        "org.opencontainers.image.created": oci.time_of(epoch),
    }
    content = {"config": config, "layers": [layer], "annotations": annotations}
    manifest = layout.add(oci.MANIFEST, {"schemaVersion": 2, "mediaType": oci.MANIFEST, **content})
    layout.manifests.append({**manifest, "annotations": {"org.opencontainers.image.ref.name": about["version"]}})
    return layout
