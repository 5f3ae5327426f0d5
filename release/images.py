# SPDX-License-Identifier: Apache-2.0
"""Makes the images of the cluster's parts from divvy's packages and from Debian's. An image has a program, the
libraries that the program's loader needs, and the licences of both. No container engine is needed."""

import dataclasses
import fnmatch
import os
import posixpath
import subprocess
import tempfile

import elf
import oci
from packages import Entry, Fault, fetched, libraries_below, output_of

NONROOT = 65532
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REGISTRY = "docker.io/library"  # containerd's name of an image that a manifest names without a registry
PASSWD = (
    f"root:x:0:0:root:/root:/usr/sbin/nologin\nnonroot:x:{NONROOT}:{NONROOT}:nonroot:/home/nonroot:/usr/sbin/nologin\n"
)
GROUP = f"root:x:0:\nnonroot:x:{NONROOT}:\n"
PROGRAM_SOURCES = ("spin.c", "cuda-min.c", "cuda-min.h", "spin-kernel.h", "kernels.h", "kernels.ptx")
LINKED = "usr/share/doc/divvy-kubernetes/linked/*"
KERNELS = "usr/share/divvy/kernels.ptx"


def file_of(text, mode=0o644):
    return Entry("file", mode, text.encode())


FOLDER = Entry("folder", 0o755)
# A root in which a container starts: mounts need these folders, and libc these files.
BASE = {
    **{path: FOLDER for path in ("dev", "etc", "home", "mnt", "proc", "run", "sys", "usr", "var", "var/lib")},
    **{f"usr/{name}": FOLDER for name in ("bin", "sbin", "lib", "lib64")},
    **{name: Entry("link", 0o777, f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")},
    "tmp": Entry("folder", 0o1777),
    "root": Entry("folder", 0o700),
    "home/nonroot": Entry("folder", 0o700, owner=NONROOT),
    "var/run": Entry("link", 0o777, "/run"),
    "etc/passwd": file_of(PASSWD),
    "etc/group": file_of(GROUP),
    "etc/nsswitch.conf": file_of("passwd: files\ngroup: files\nhosts: files dns\n"),
    "etc/os-release": Entry("link", 0o777, "../usr/lib/os-release"),
}


@dataclasses.dataclass(frozen=True)
class Image:
    """What an image contains: files of divvy's package by pattern, and files of other packages that no loader names."""

    name: str
    package: str
    files: tuple
    command: str
    about: str
    user: str = f"{NONROOT}:{NONROOT}"
    more: tuple = ()  # (package, pattern)


IMAGES = (
    Image(
        "divvy-scheduler",
        "divvy-kubernetes",
        ("usr/sbin/divvy-scheduler", LINKED),
        "/usr/sbin/divvy-scheduler",
        "Places pods with shares of GPUs",
    ),
    Image(
        "divvy-controller",
        "divvy-kubernetes",
        ("usr/sbin/divvy-controller", LINKED),
        "/usr/sbin/divvy-controller",
        "Admits pods with shares of GPUs, and keeps divvy's objects up to date",
    ),
    # The libraries that divvyd copies to the node, the simulated GPU, and `divvy` for checks of the node, with the descriptions of
    # terminals that `divvy top` reads.
    Image(
        "divvyd",
        "divvy",
        ("usr/sbin/divvyd", "usr/bin/*", "usr/lib/divvy/*", "usr/libexec/divvy/*", "usr/share/doc/divvy/linked/*"),
        "/usr/sbin/divvyd",
        "Shares the GPUs of a node among containers",
        user="0:0",
        more=(("ncurses-base", "usr/lib/terminfo/*"),),
    ),
    # A driver that is mounted into the container may need any library of libc.
    Image(
        "divvy-programs",
        "divvy-dev",
        (),
        "/usr/bin/spin",
        "Keeps a GPU busy, for examples",
        more=(("libc6", "usr/lib/*/lib*.so.*"),),
    ),
)


@dataclasses.dataclass
class Content:
    """The files of an image for one architecture, in two layers; `origins` has the package of each file."""

    image: Image
    architecture: str
    our_files: dict = dataclasses.field(default_factory=dict)
    debian_files: dict = dataclasses.field(default_factory=dict)
    packages: dict = dataclasses.field(default_factory=dict)
    origins: dict = dataclasses.field(default_factory=dict)
    linked: set = dataclasses.field(default_factory=set)  # names of packages whose libraries loaders map

    def entries(self):
        return {**self.debian_files, **self.our_files}


def take(content, layer, package, path):
    """Adds a file of a package, what its links lead to, and the folders above."""
    content.packages[package.name] = package
    while path not in layer:
        entry = package.entries[path]
        layer[path] = entry
        content.origins[path] = package.name
        for parent in oci.parents(path):
            layer.setdefault(parent, FOLDER)
        if entry.kind != "link":
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.content)).lstrip("/")
        if path not in package.entries:
            break


def compiled_programs(package, architecture):
    """The example program, which users compile from divvy-dev themselves: {path: entry}."""
    examples = f"usr/share/doc/{package.name}/examples/"
    triplet = output_of("dpkg-architecture", "-a", architecture, "-q", "DEB_HOST_GNU_TYPE").decode().strip()
    with tempfile.TemporaryDirectory(prefix="divvy-programs-") as folder:
        for name in PROGRAM_SOURCES:
            if examples + name not in package.entries:
                raise Fault(f"{package.path}: has no '{examples}{name}'; build the package again")
            with open(os.path.join(folder, name), "wb") as file:
                file.write(package.entries[examples + name].content)
        flags = [
            "-std=gnu17",
            "-D_GNU_SOURCE",
            "-O2",
            "-s",
            f'-DKERNELS_PTX="/{KERNELS}"',
            "-Wl,-z,relro",
            "-Wl,-z,now",
        ]
        argv = [f"{triplet}-gcc", *flags, "-o", "spin", "spin.c", "cuda-min.c", "-ldl"]
        done = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Fault(f"spin.c of {package.path} does not compile: {done.stderr[-500:]}")
        with open(os.path.join(folder, "spin"), "rb") as file:
            spin = Entry("file", 0o755, file.read())
    return {"usr/bin/spin": spin, KERNELS: package.entries[examples + "kernels.ptx"]}


def add_libraries(content, program_package):
    """Adds the libraries that the loader maps for the files of the image, from the packages on which their package depends."""
    multiarch = output_of("dpkg-architecture", "-a", content.architecture, "-q", "DEB_HOST_MULTIARCH").decode().strip()
    provided = {path: package for package in reversed(libraries_below(program_package)) for path in package.entries}
    queue = [entry.content for entry in content.entries().values() if entry.kind == "file"]
    own = {posixpath.basename(path) for path in content.our_files}
    while queue:
        for name in elf.needed(queue.pop()):
            places = [name.lstrip("/")] if "/" in name else [f"usr/lib/{multiarch}/{name}", f"usr/lib/{name}"]
            places = [place if place.startswith("usr/") else "usr/" + place for place in places]
            path = next((place for place in places if place in provided), None)
            if path is None and name in own:
                continue
            if path is None:
                raise Fault(f"{content.image.name}: no package on which '{program_package.name}' depends has '{name}'")
            content.linked.add(provided[path].name)
            if path not in content.debian_files:
                before = set(content.debian_files)
                take(content, content.debian_files, provided[path], path)
                added = (content.debian_files[p] for p in set(content.debian_files) - before)
                queue += [entry.content for entry in added if entry.kind == "file"]


def add_records(content, package):
    """Adds for scanners and readers: the package's control fields and its licence."""
    layer = content.our_files if package.source[0] == "divvy" else content.debian_files
    layer[f"var/lib/dpkg/status.d/{package.name}"] = file_of(package.control)
    text = package.copyright()
    if text is None:
        raise Fault(f"{package.path}: has no copyright file")
    layer[f"usr/share/doc/{package.name}/copyright"] = file_of(text)
    for path in (f"var/lib/dpkg/status.d/{package.name}", f"usr/share/doc/{package.name}/copyright"):
        content.origins[path] = package.name
        for parent in oci.parents(path):
            layer.setdefault(parent, FOLDER)


def content_of(image, divvys, architecture):
    """The files of an image. `divvys` has divvy's packages by name and architecture."""
    package = divvys.get((image.package, architecture)) or divvys.get((image.package, "all"))
    if package is None:
        raise Fault(f"there is no package '{image.package}' for {architecture}: run make deb")
    content = Content(image, architecture, debian_files=dict(BASE))
    for path in package.entries:
        if package.entries[path].kind != "folder" and any(fnmatch.fnmatchcase(path, p) for p in image.files):
            take(content, content.our_files, package, path)
    if not image.files:
        content.packages[package.name] = package
        for path, entry in compiled_programs(package, architecture).items():
            content.our_files[path], content.origins[path] = entry, package.name
            for parent in oci.parents(path):
                content.our_files.setdefault(parent, FOLDER)
        package = divvys["divvy", architecture]  # depends on libc as the compiled program does
    for name, pattern in (*image.more, ("base-files", "usr/lib/os-release")):
        debian = fetched(name, architecture)
        for path in debian.entries:
            if debian.entries[path].kind != "folder" and fnmatch.fnmatchcase(path, pattern):
                take(content, content.debian_files, debian, path)
    add_libraries(content, package)
    for found in content.packages.values():
        add_records(content, found)
    return content


def add_image(layout, content, version):
    """Adds the image of one architecture to a layout; returns its descriptor."""
    image, layers, ids = content.image, [], []
    for entries in (content.debian_files, content.our_files):
        tar = oci.tar_of(entries, layout.epoch)
        ids.append(oci.digest_of(tar))
        layers.append(layout.add(oci.LAYER, oci.gzipped(tar)))
    created = oci.time_of(layout.epoch)
    labels = {
        "org.opencontainers.image.title": image.name,
        "org.opencontainers.image.description": image.about,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    process = {"User": image.user, "Entrypoint": [image.command], "Env": ["PATH=" + PATH], "WorkingDir": "/"}
    history = [{"created": created, "created_by": f"release/images.py: {what}"} for what in ("Debian", "divvy")]
    config = {
        "created": created,
        "architecture": content.architecture,
        "os": "linux",
        "config": {**process, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": ids},
        "history": history,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": oci.MANIFEST,
        "config": layout.add(oci.CONFIG, config),
        "layers": layers,
        "annotations": labels,
    }
    platform = {"os": "linux", "architecture": content.architecture}
    return layout.add(oci.MANIFEST, manifest, platform=platform)


def layout_of(contents, version, epoch):
    """A layout with an image's index, which has a manifest for each architecture. Returns the layout and the index's digest."""
    layout = oci.Layout(epoch)
    manifests = [add_image(layout, content, version) for content in contents]
    index = layout.add(oci.INDEX, {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": manifests})
    layout.name(index, version, f"{REGISTRY}/{contents[0].image.name}:{version}")
    return layout, index["digest"]


def write_folder(content, folder):
    """Writes the image's root into a folder, as deploy/images/Dockerfile copies it."""
    os.makedirs(folder)
    for path, entry in sorted(content.entries().items()):
        place = os.path.join(folder, path)
        if entry.kind == "folder":
            os.makedirs(place, exist_ok=True)
        elif entry.kind == "link":
            os.symlink(entry.content, place)
        else:
            with open(place, "wb") as file:
                file.write(entry.content)
        if entry.kind != "link":
            os.chmod(place, entry.mode)
        if entry.owner:
            os.chown(place, entry.owner, entry.owner)


def size_of(content):
    """The bytes of the image's files."""
    return sum(len(entry.content) for entry in content.entries().values() if entry.kind == "file")
