#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the functions of libdivvy-cudart from cudart.def.

usage: gen-cudart.py --h OUT.h CUDART.DEF            prototypes of the functions rt_NAME
       gen-cudart.py --c OUT.c CUDART.DEF            the exported functions
       gen-cudart.py --map OUT.map MAJOR CUDART.DEF  the version script of the library for CUDA 12 or 13
       gen-cudart.py --docs OUT.md REMOTE.DEF SIMULATED-API.MD CUDART.DEF   docs/cudart-api.md
"""
import re
import sys
import textwrap

MADE = "/* Made by gen-cudart.py from cudart.def: do not edit. */\n"
MAJORS = {"BOTH": (12, 13), "ONLY_12": (12,), "ONLY_13": (13,)}
BEGIN = {"NONE": None, "DRIVER": "rt_begin_driver()", "DEVICE": "rt_begin_device()"}


def split_arguments(text):
    """Returns the parts between top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return parts + [text[start:].strip()]


class Function:
    """One line of cudart.def."""

    def __init__(self, fields):
        if len(fields) != 6 or fields[1] not in MAJORS or fields[3] not in BEGIN:
            raise SystemExit("gen-cudart: %s: expected six fields" % fields[0])
        self.name, libraries, self.variant, self.needs, self.params, self.answer = fields
        self.majors = MAJORS[libraries]

    def arguments(self):
        """Returns the names of the parameters."""
        text = self.params[1:-1]
        return [re.search(r"(\w+)$", p).group(1) for p in split_arguments(text) if text != "void"]

    def streams(self):
        return re.findall(r"\bCUstream (\w+)", self.params)

    def exports(self):
        """Returns the names that the library exports for this line."""
        return [self.name] + ([] if self.variant == "NONE" else [self.name + "_" + self.variant.lower()])

    def call(self):
        """Returns the C expression of the answer."""
        if self.answer == "OWN":
            return "rt_%s(%s)" % (self.name, ", ".join(self.arguments()))
        text = re.sub(r"\b(cu[A-Z]\w*\()", r"rt_driver.\1", self.answer)
        for stream in self.streams() if self.variant != "NONE" else []:
            text = re.sub(r"\b%s\b" % stream, "rt_stream(%s)" % stream, text)
        return "rt_error(%s)" % text


def read(path):
    functions = []
    for line in open(path, encoding="ascii"):
        if line.startswith("RT("):
            functions.append(Function(split_arguments(line.strip()[3:-1])))
    return functions


def guarded(function, text):
    """Returns the text between the conditions for the libraries that have the function."""
    if len(function.majors) == 2:
        return text
    return "#if CUDART_MAJOR == %d\n%s#endif\n" % (function.majors[0], text)


def write_h(out, functions):
    out.write(MADE + '#pragma once\n#include "cudart/cudart-types.h"\n\n')
    for f in functions:
        if f.answer == "OWN":
            out.write(guarded(f, "cudaError_t rt_%s%s;\n" % (f.name, f.params)))


def body(function):
    """Returns the lines of a function's plain form."""
    begin = BEGIN[function.needs]
    if not begin:
        return "\treturn rt_end(%s);\n" % function.call()
    return "\tcudaError_t error = %s;\n\n\tif (!error)\n\t\terror = %s;\n\treturn rt_end(error);\n" % (
        begin,
        function.call(),
    )


def write_function(f):
    """Returns the C code of one line of cudart.def."""
    if f.answer == "NONE":
        text = ""
        for name in f.exports():
            text += "RT_EXPORT cudaError_t %s(void);\nRT_EXPORT cudaError_t %s(void)\n{\n" % (name, name)
            text += "\treturn rt_end(cudaErrorNotSupported);\n}\n\n"
        return text
    head = "cudaError_t %s%s" % (f.name, f.params)
    text = "RT_EXPORT %s;\nRT_EXPORT %s\n{\n%s}\n\n" % (head, head, body(f))
    for name in f.exports()[1:]:
        head = "cudaError_t %s%s" % (name, f.params)
        text += "RT_EXPORT %s;\nRT_EXPORT %s\n{\n\tcudaError_t error;\n\n" % (head, head)
        text += "\trt_thread.per_thread++;\n\terror = %s(%s);\n" % (f.name, ", ".join(f.arguments()))
        text += "\trt_thread.per_thread--;\n\treturn error;\n}\n\n"
    return text


def write_c(out, functions):
    out.write(MADE + '#include "cudart/cudart.h"\n#include "cudart/cudart-entries.h"\n\n')
    for f in functions:
        if f.answer != "RAW":
            out.write(guarded(f, write_function(f)))


def write_map(out, major, functions):
    """NVIDIA's libraries give all names one version, which has the name of the library."""
    names = sorted({n for f in functions if major in f.majors for n in f.exports()})
    out.write("libcudart.so.%d {\nglobal:\n%slocal:\n\t*;\n};\n" % (major, "".join("\t%s;\n" % n for n in names)))


def paragraph(names):
    text = ", ".join("`%s`" % n for n in sorted(names))
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False) + "\n"


def read_refused(path):
    """Returns the functions of the driver that devices of --remote lack, from remote.def."""
    return set(re.findall(r"^REMOTE\((\w+), REFUSED\b", open(path, encoding="ascii").read(), re.M))


def read_stubs(path):
    """Returns the functions of the driver that simulated devices lack, from docs/simulated-api.md."""
    text = open(path, encoding="ascii").read()
    return set(re.findall(r"`(\w+)`", text[text.index("### Not supported") : text.index("## libnvidia-ml.so.1")]))


def lacking(functions, absent):
    """Returns the names whose answer calls a function of the driver that is absent."""
    return {n for f in functions for n in f.exports() if absent & set(re.findall(r"\b(cu[A-Z]\w*)\(", f.answer))}


def write_docs(out, functions, remote_def, simulated_api):
    out.write("# divvy's CUDA runtime\n\n")
    out.write(
        "divvy's runtime exports every function of NVIDIA's libcudart.so.12 and libcudart.so.13. This page\n"
        "lists the functions that return `cudaErrorNotSupported`; all others work. `ninja -C build cudart-docs`\n"
        "makes this page from src/cudart/cudart.def.\n\n"
    )
    out.write("| library | functions | of these, refused on all devices |\n|---|---|---|\n")
    for major in (12, 13):
        have = [(n, f) for f in functions if major in f.majors for n in f.exports()]
        refused = sum(f.answer == "NONE" for _, f in have)
        out.write("| libcudart.so.%d | %d | %d |\n" % (major, len(have), refused))
    refused = {n for f in functions if f.answer == "NONE" for n in f.exports()}
    out.write("\n## Refused on all devices\n\n" + paragraph(refused))
    out.write("\n## Refused on simulated devices\n\n" + paragraph(lacking(functions, read_stubs(simulated_api))))
    out.write("\n## Refused on remote devices\n\n")
    # These call functions that remote devices lack from code of their own.
    more = {"cudaMallocManaged"}
    out.write(paragraph(lacking(functions, read_refused(remote_def)) | more))


def main(argv):
    kind, path = argv[0], argv[1]
    functions = read(argv[-1])
    with open(path, "w", encoding="ascii") as out:
        if kind == "--map":
            write_map(out, int(argv[2]), functions)
        elif kind == "--docs":
            write_docs(out, functions, argv[2], argv[3])
        else:
            {"--h": write_h, "--c": write_c}[kind](out, functions)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
