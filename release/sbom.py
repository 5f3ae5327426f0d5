# SPDX-License-Identifier: Apache-2.0
"""Makes bills of materials (SBOM, SPDX 2.3 as JSON) and lists of licences of images and packages, from the packages'
control fields and copyright files. A package's licences are those of its whole source, so the lists name more
licences than a part may have."""

import hashlib
import re
import textwrap

import oci
from packages import paragraphs

# Debian's short names of licences, and those of SPDX.
SPDX = {
    "Apache-2.0": "Apache-2.0",
    "Artistic": "Artistic-1.0-Perl",
    "BSD-2-clause": "BSD-2-Clause",
    "BSD-3-clause": "BSD-3-Clause",
    "BSD-4-clause": "BSD-4-Clause",
    "Expat": "MIT",
    "ISC": "ISC",
    "MIT": "MIT",
    "OpenSSL": "OpenSSL",
    "Zlib": "Zlib",
    "zlib": "Zlib",
    "curl": "curl",
    **{f"{kind}-{n}": f"{kind}-{n}.0-only" for kind in ("GPL", "LGPL") for n in (1, 2, 3)},
    **{f"{kind}-{n}+": f"{kind}-{n}.0-or-later" for kind in ("GPL", "LGPL") for n in (1, 2, 3)},
    "LGPL-2.1": "LGPL-2.1-only",
    "LGPL-2.1+": "LGPL-2.1-or-later",
}
# Packages whose code is in divvy's own files: meson links libzstd statically, and uthash is a header.
STATIC = {"divvy": ("libzstd-dev", "uthash-dev"), "divvy-kubernetes": ("uthash-dev",), "divvy-dev": ()}
LINKED = "usr/share/doc/{}/linked/{}/copyright"
UNKNOWN = "NOASSERTION"


def identifier(kind, name):
    return f"{kind}-" + re.sub("[^A-Za-z0-9.-]", "-", name.replace("+", "plus"))


class Licences:
    """The licences of a document: those that SPDX does not know have their text in `extracted`."""

    def __init__(self):
        self.extracted = {}

    def reference(self, name, text):
        key = identifier("LicenseRef", name)
        entry = {"licenseId": key, "name": name, "extractedText": text.strip() or f"The licence is named '{name}'."}
        self.extracted.setdefault(key, entry)
        return key

    def name_of(self, package, short, text):
        """The expression for a short name of Debian, such as 'GPL-2+ or Expat'."""
        parts = [part.strip() for part in re.split(r"\s+or\s+", short)]
        if all(part in SPDX for part in parts):
            found = " OR ".join(sorted({SPDX[part] for part in parts}))
            return f"({found})" if " OR " in found else found
        return self.reference(f"{package}-{short}", text)

    def declared(self, package, text):
        """The expression for a copyright file. Of a file that no machine can read, the whole text is the licence."""
        known = list(paragraphs(text))
        if not known or "Format" not in known[0]:
            return self.reference(f"{package}-copyright", text)
        texts = {}
        for fields in known:
            short, _, body = fields.get("License", "").partition("\n")
            if short and (body or short not in texts):
                texts[short.strip()] = body
        used = {f["License"].partition("\n")[0].strip() for f in known if "Files" in f and "License" in f}
        used = used or set(texts)
        return " AND ".join(sorted({self.name_of(package, short, texts.get(short, "")) for short in used if short}))


def sums_of(data):
    return [
        {"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
        {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()},
    ]


def verification_code(files):
    """As SPDX defines it: the hash of the sorted hashes of all files."""
    sums = sorted(file["checksums"][0]["checksumValue"] for file in files)
    return hashlib.sha1("".join(sums).encode()).hexdigest()


class Document:
    def __init__(self, name, version, epoch):
        self.licences, self.packages, self.files, self.relations = Licences(), {}, [], []
        self.name, self.version, self.epoch = name, version, epoch
        self.rows = []  # of the list of licences

    def relate(self, element, kind, other):
        self.relations.append({"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": other})

    def add_package(self, name, version, licence, **more):
        key = identifier("SPDXRef-Package", name)
        self.packages[key] = {
            "SPDXID": key,
            "name": name,
            "versionInfo": version,
            "downloadLocation": UNKNOWN,
            "filesAnalyzed": False,
            "licenseConcluded": UNKNOWN,
            "licenseDeclared": licence,
            "copyrightText": UNKNOWN,
            **more,
        }
        return key

    def add_debian(self, name, version, architecture, source, text, sha256=None):
        """A package of Debian or of divvy, with the licences that its copyright file names."""
        licence = self.licences.declared(name, text)
        origin = "divvy" if source[0] == "divvy" else "debian"
        locator = f"pkg:deb/{origin}/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch={architecture}"
        self.rows.append((name, version, licence))
        reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}
        more = {"externalRefs": [reference], "sourceInfo": f"built from the source package {source[0]} {source[1]}"}
        if sha256:
            more["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
        return self.add_package(name, version, licence, **more)

    def add_archived(self, package):
        text = package.copyright() or ""
        return self.add_debian(
            package.name, package.version, package.architecture, package.source, text, sha256=package.sha256
        )

    def add_static(self, package, built_with):
        """The packages whose code a package of divvy contains."""
        key = identifier("SPDXRef-Package", package.name)
        for name in STATIC[package.name]:
            entry = package.entries[LINKED.format(package.name, name)]
            version, source = built_with[name]
            other = self.add_debian(name, version, package.architecture, source, entry.content.decode())
            self.relate(key, "STATIC_LINK", other)

    def add_files(self, owner, entries, origins=None):
        """The files of an image or a package, with their hashes."""
        found = []
        for path in sorted(entries):
            if entries[path].kind != "file":
                continue
            file = {
                "SPDXID": f"SPDXRef-File-{len(self.files) + len(found)}",
                "fileName": "./" + path,
                "checksums": sums_of(entries[path].content),
                "licenseConcluded": UNKNOWN,
                "licenseInfoInFiles": [UNKNOWN],
                "copyrightText": UNKNOWN,
            }
            found.append(file)
            self.relate(owner, "CONTAINS", file["SPDXID"])
            if origins and path in origins:
                self.relate(file["SPDXID"], "GENERATED_FROM", identifier("SPDXRef-Package", origins[path]))
        self.packages[owner]["filesAnalyzed"] = True
        self.packages[owner]["licenseInfoFromFiles"] = [UNKNOWN]
        self.packages[owner]["packageVerificationCode"] = {"packageVerificationCodeValue": verification_code(found)}
        self.files += found

    def written(self):
        """The document as an object for JSON."""
        content = hashlib.sha256(repr((self.packages, self.files, self.relations)).encode()).hexdigest()
        return {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"{self.name}_{self.version}",
            "documentNamespace": f"https://divvy.invalid/spdx/{self.name}-{self.version}-{content[:32]}",
            "creationInfo": {"created": oci.time_of(self.epoch), "creators": ["Tool: divvy-release-artefacts"]},
            "packages": list(self.packages.values()),
            "files": self.files,
            "hasExtractedLicensingInfos": sorted(self.licences.extracted.values(), key=lambda e: e["licenseId"]),
            "relationships": self.relations,
        }

    def licence_list(self):
        """The list of licences for readers."""
        head = [f"Licences of {self.name} {self.version}", ""]
        rows = []
        for name, version, licence in sorted(set(self.rows)):
            names = licence.replace(f"LicenseRef-{name}-", "").split(" AND ")
            names = ["see its copyright file" if n == "copyright" else n for n in names]
            indented = {"initial_indent": "    ", "subsequent_indent": "    ", "break_long_words": False}
            rows += [f"{name} {version}", textwrap.fill(", ".join(names), 100, break_on_hyphens=False, **indented)]
        tail = [
            "",
            "The names are those of SPDX, or else Debian's. /usr/share/doc/PACKAGE/copyright has the texts, in an image and on",
            "Debian. /usr/share/doc/divvy*/linked has the texts for code that is part of divvy's own files.",
        ]
        return "\n".join(head + rows + tail) + "\n"


def of_image(content, manifest, version, epoch, built_with):
    """The document of an image for one architecture; `manifest` is its digest."""
    image = content.image
    document = Document(f"{image.name}-{content.architecture}", version, epoch)
    locator = f"pkg:oci/{image.name}@{manifest.replace(':', '%3A')}?arch={content.architecture}"
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}
    checksum = {"algorithm": "SHA256", "checksumValue": manifest.partition(":")[2]}
    name = f"image-{image.name}"
    owner = document.add_package(
        name, version, "Apache-2.0", primaryPackagePurpose="CONTAINER", externalRefs=[reference], checksums=[checksum]
    )
    document.relate("SPDXRef-DOCUMENT", "DESCRIBES", owner)
    for package in content.packages.values():
        key = document.add_archived(package)
        document.relate(owner, "CONTAINS", key)
    for package in content.packages.values():
        if package.source[0] == "divvy":
            document.add_static(package, built_with)
            for linked in sorted(content.linked):
                key = identifier("SPDXRef-Package", package.name)
                document.relate(key, "DYNAMIC_LINK", identifier("SPDXRef-Package", linked))
    document.add_files(owner, content.entries(), content.origins)
    return document


def of_package(package, version, epoch, built_with, fetch):
    """The document of one of divvy's packages. `fetch` returns a package of Debian by its name."""
    document = Document(f"{package.name}-{package.architecture}", version, epoch)
    owner = document.add_archived(package)
    document.relate("SPDXRef-DOCUMENT", "DESCRIBES", owner)
    document.add_static(package, built_with)
    for name in re.findall(r"(?:^|, )(lib[a-z0-9.+-]+)", package.fields.get("Depends", "")):
        document.relate(owner, "DYNAMIC_LINK", document.add_archived(fetch(name)))
    document.add_files(owner, package.entries)
    return document
