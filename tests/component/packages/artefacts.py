# SPDX-License-Identifier: Apache-2.0
"""What release/artefacts makes of the Debian packages, as its users meet it: images run, the chart installs from a
registry, and bills of materials name what is in them. For test-deb.py, which has built the packages."""

import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
import threading

import debian_root
from tap import Skip, patience

SOURCE = os.environ["DIVVY_SOURCE"]
MAKE_S = 300
NONROOT = "65532:65532"
PROGRAMS = {"divvyd": "0:0", "divvy-scheduler": NONROOT, "divvy-controller": NONROOT, "divvy-programs": NONROOT}
SHELLS = {"sh", "bash", "dash", "busybox", "perl", "python3", "apt", "dpkg"}


def make(packages, out, **env):
    """Makes the artefacts. Skips if the Debian archive cannot be reached, and the cache does not have what is needed."""
    done = subprocess.run(
        [os.path.join(SOURCE, "release/artefacts"), packages, out],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
        timeout=patience(MAKE_S),
    )
    if done.returncode == 77:
        raise Skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-3000:]
    print("".join(f"# {line}\n" for line in done.stdout.splitlines()), end="")


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Layout:
    """An OCI layout. Each blob is checked when it is read."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        assert json.loads(self.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
        (self.top,) = json.loads(self.files["index.json"])["manifests"]

    def blob(self, descriptor):
        data = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert descriptor["digest"] == "sha256:" + hashlib.sha256(data).hexdigest(), descriptor
        assert descriptor["size"] == len(data), descriptor
        return data

    def image(self, architecture="amd64"):
        """(manifest descriptor, config, tars of the layers)"""
        found = json.loads(self.blob(self.top))["manifests"]
        (one,) = [m for m in found if m["platform"] == {"os": "linux", "architecture": architecture}]
        manifest = json.loads(self.blob(one))
        config = json.loads(self.blob(manifest["config"]))
        tars = [gzip.decompress(self.blob(layer)) for layer in manifest["layers"]]
        assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(tar).hexdigest() for tar in tars]
        return one, config, tars


class Artefacts:
    """The tests, on one set of artefacts. `packages` is a function that returns the folder of the packages."""

    def __init__(self, packages):
        self.packages = packages
        self.folder = tempfile.TemporaryDirectory(prefix="divvy-test-artefacts-")
        self.out = os.path.join(self.folder.name, "release")

    def close(self):
        self.folder.cleanup()

    def path(self, pattern):
        """The only artefact whose name matches."""
        if not os.path.exists(self.out):
            raise Skip("there are no artefacts")
        (found,) = [name for name in os.listdir(self.out) if re.fullmatch(pattern, name)]
        return os.path.join(self.out, found)

    def layout(self, name):
        return Layout(self.path(name + r"_[0-9.]+\.oci\.tar"))

    def same_packages_make_same_artefacts(self):
        again = os.path.join(self.folder.name, "again")
        make(self.packages(), self.out)
        make(self.packages(), again, TZ="Asia/Tokyo", LC_ALL="C.UTF-8", HOME=self.folder.name, XDG_CACHE_HOME=cache())
        sums = read(os.path.join(self.out, "SHA256SUMS"))
        assert sums == read(os.path.join(again, "SHA256SUMS")), "two runs made different files"
        subprocess.run(["sha256sum", "--quiet", "--strict", "--check", "SHA256SUMS"], cwd=self.out, check=True)
        listed = {line.split("  ")[1] for line in sums.decode().splitlines()}
        assert listed == set(os.listdir(self.out)) - {"SHA256SUMS"}, listed

    def images_have_only_what_their_programs_need(self):
        for name, user in PROGRAMS.items():
            layout = self.layout(name)
            _, config, tars = layout.image()
            assert config["config"]["User"] == user, (name, config)
            names = layout.top["annotations"]
            version = names["org.opencontainers.image.ref.name"]
            assert names["io.containerd.image.name"] == f"docker.io/library/{name}:{version}", names
            members = [m for tar in tars for m in tarfile.open(fileobj=io.BytesIO(tar))]
            assert len({m.mtime for m in members}) == 1, name
            for member in members:
                assert member.isdir() or os.path.basename(member.name) not in SHELLS, (name, member.name)
                assert not member.mode & 0o6000, (name, member.name)
                assert not member.uname and not member.gname and member.uid in (0, 65532), (name, member.name)
            paths = [m.name for m in members]
            assert paths.count("usr/lib/os-release") == 1 and "etc/passwd" in paths, name

    def images_run_their_programs_with_a_read_only_root(self):
        if debian_root.why_not():
            raise Skip(debian_root.why_not())
        for name, user in PROGRAMS.items():
            _, config, tars = self.layout(name).image()
            with tempfile.TemporaryDirectory(prefix="divvy-test-image-", dir=self.folder.name) as root:
                os.chmod(root, 0o755)
                for tar in tars:
                    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
                        opened.extractall(root, filter="fully_trusted")
                option = "--help" if name == "divvy-programs" else "--version"
                enter = (
                    'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; exec chroot --userspec="$1" "$0" "$2" "$3"'
                )
                argv = ["unshare", "--mount", "--propagation=private", "sh", "-ec", enter, root, user]
                done = subprocess.run(
                    [*argv, config["config"]["Entrypoint"][0], option],
                    env={"PATH": os.environ["PATH"]},
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=patience(),
                )
                assert done.returncode == 0 and (name in done.stdout or "usage: spin" in done.stdout), (name, done)

    def bills_of_materials_name_what_there_is(self):
        documents = [n for n in os.listdir(self.out)] if os.path.exists(self.out) else []
        documents = [n for n in documents if n.endswith(".spdx.json")]
        assert len(documents) == len(PROGRAMS) + 3, documents
        for name in documents:
            document = json.loads(read(os.path.join(self.out, name)))
            check_document(name, document)
            licences = read(os.path.join(self.out, name.replace(".spdx.json", ".licences.txt"))).decode()
            for package in document["packages"]:
                assert package["name"] in licences or package["name"].startswith("image-"), (name, package["name"])
        for name in PROGRAMS:
            descriptor, _, tars = self.layout(name).image()
            document = json.loads(read(self.path(name + r"_[0-9.]+_amd64_image\.spdx\.json")))
            files = {f["fileName"]: f["checksums"][1]["checksumValue"] for f in document["files"]}
            assert files == files_of(tars), name
            (image,) = [p for p in document["packages"] if p["name"] == "image-" + name]
            assert image["checksums"][0]["checksumValue"] == descriptor["digest"].partition(":")[2], name
        zstd = json.loads(read(self.path(r"divvy_[0-9.]+_amd64_package\.spdx\.json")))
        linked = {r["relatedSpdxElement"] for r in zstd["relationships"] if r["relationshipType"] == "STATIC_LINK"}
        assert linked == {"SPDXRef-Package-libzstd-dev", "SPDXRef-Package-uthash-dev"}, linked

    def the_chart_installs_from_a_registry(self):
        helm = os.path.join(built("with-helm"), "bin/helm")
        digests = {name: self.layout(name).top["digest"] for name in PROGRAMS}
        version = self.layout("divvyd").top["annotations"]["org.opencontainers.image.ref.name"]
        layout = self.layout("divvy-chart")
        made = subprocess.run(
            [helm, "lint", self.path(r"divvy-[0-9.]+\.tgz")], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made
        with registry(layout, "charts/divvy", version) as address:
            argv = [helm, "template", "divvy", f"oci://{address}/charts/divvy", "--version", version, "--plain-http"]
            with tempfile.TemporaryDirectory(prefix="divvy-test-helm-") as home:
                env = {"PATH": os.environ["PATH"], "HOME": home}
                done = subprocess.run(
                    [*argv, "--set", "registry=registry.example.com/team"],
                    env=env,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=patience(),
                )
        assert done.returncode == 0, done.stderr
        found = set(re.findall(r"image: (\S+)", done.stdout))
        assert found == {
            f"registry.example.com/team/{n}@{digests[n]}" for n in PROGRAMS if n != "divvy-programs"
        }, found

    def the_kustomization_names_the_images_of_the_manifests(self):
        kubectl = os.path.join(built("newest"), "bin/kubectl")
        digests = {name: self.layout(name).top["digest"] for name in PROGRAMS if name != "divvy-programs"}
        with tempfile.TemporaryDirectory(prefix="divvy-test-kustomize-") as folder:
            package = self.path(r"divvy-kubernetes_[0-9.]+_amd64\.deb")
            subprocess.run(["dpkg-deb", "-x", package, os.path.join(folder, "root")], check=True)
            os.rename(os.path.join(folder, "root/usr/share/divvy-kubernetes"), os.path.join(folder, "divvy-kubernetes"))
            text = read(self.path(r"divvy-kustomization_[0-9.]+\.yaml")).decode()
            with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
                file.write(text.replace("REGISTRY/", "registry.example.com/team/"))
            argv = [kubectl, "kustomize", folder]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=patience())
        assert done.returncode == 0, done.stderr
        found = set(re.findall(r"image: (\S+)", done.stdout))
        assert found == {f"registry.example.com/team/{name}@{digest}" for name, digest in digests.items()}, found

    def tests(self):
        return [
            self.same_packages_make_same_artefacts,
            self.images_have_only_what_their_programs_need,
            self.images_run_their_programs_with_a_read_only_root,
            self.bills_of_materials_name_what_there_is,
            self.the_chart_installs_from_a_registry,
            self.the_kustomization_names_the_images_of_the_manifests,
        ]


def cache():
    return os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def built(name):
    """The folder with programs that tests/k8s/get has built."""
    get = os.path.join(SOURCE, "tests/k8s/get")
    done = subprocess.run([get, "--check", name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(done.stderr.strip())
    return done.stdout.strip()


def files_of(tars):
    """{./path: SHA256} of the files in the layers."""
    found = {}
    for tar in tars:
        with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
            for member in opened:
                if member.isfile():
                    found["./" + member.name] = hashlib.sha256(opened.extractfile(member).read()).hexdigest()
    return found


def check_document(name, document):
    """What SPDX 2.3 requires of a document."""
    assert (document["spdxVersion"], document["dataLicense"]) == ("SPDX-2.3", "CC0-1.0"), name
    assert re.fullmatch(r"https://\S+", document["documentNamespace"]) and document["creationInfo"]["creators"], name
    elements = {document["SPDXID"]: document}
    for element in document["packages"] + document["files"]:
        assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", element["SPDXID"]) and element["SPDXID"] not in elements, element
        assert element["licenseConcluded"] and element["copyrightText"], (name, element)
        elements[element["SPDXID"]] = element
    for relation in document["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= set(elements), (name, relation)
    described = [r for r in document["relationships"] if r["relationshipType"] == "DESCRIBES"]
    assert len(described) == 1, (name, described)
    texts = {e["licenseId"] for e in document["hasExtractedLicensingInfos"] if e["extractedText"]}
    used = set(re.findall(r"LicenseRef-[A-Za-z0-9.-]+", json.dumps(document["packages"])))
    assert used == texts, (name, used ^ texts)
    for package in document["packages"]:
        assert package["versionInfo"] and package["downloadLocation"], package
        assert re.fullmatch(r"[A-Za-z0-9.() -]+", package["licenseDeclared"]), package
        if package["filesAnalyzed"]:
            sums = sorted(f["checksums"][0]["checksumValue"] for f in document["files"])
            code = hashlib.sha1("".join(sums).encode()).hexdigest()
            assert package["packageVerificationCode"]["packageVerificationCodeValue"] == code, name


@contextlib.contextmanager
def registry(layout, repository, tag):
    """Serves a layout as a registry does, on loopback; gives its address."""
    data, top = layout.files, layout.top
    paths = {f"/v2/{repository}/manifests/{tag}": (top["mediaType"], layout.blob(top))}
    for name, content in data.items():
        if name.startswith("blobs/"):
            digest = name.removeprefix("blobs/").replace("/", ":")
            kind = top["mediaType"] if digest == top["digest"] else "application/octet-stream"
            paths[f"/v2/{repository}/blobs/{digest}"] = (kind, content)
            paths[f"/v2/{repository}/manifests/{digest}"] = (kind, content)
    paths["/v2/"] = ("application/json", b"{}")
    tags = json.dumps({"name": repository, "tags": [tag]}).encode()
    paths[f"/v2/{repository}/tags/list"] = ("application/json", tags)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            kind, content = paths.get(self.path.partition("?")[0], ("text/plain", None))
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content or b"")))
            self.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(content or b"").hexdigest())
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
