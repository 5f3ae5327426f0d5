#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completes the simulated driver: writes the entry points of cuda.def that the sources lack.

usage: gen-entries.py --c OUT.c CUDA.DEF SOURCE...     the missing entry points, in C
       gen-entries.py --h OUT.h CUDA.DEF               prototypes of the sources' functions
       gen-entries.py --docs CUDA.DEF NVML.DEF CU_SOURCE...   the list, Markdown

If the line of an entry point NAME in cuda.def has needs, the entry point checks them. It then calls
the sources' simgpu_NAME with objects in place of handles. A per-thread form (_ptds, _ptsz) calls the
plain form with the thread's default stream. An older or newer form with the same parameters calls
the form that the sources define. Every other entry point returns CUDA_ERROR_NOT_SUPPORTED.
"""
import re
import sys
import textwrap


# The objects behind handles: the error for a handle without an object, the object's structure, and
# the kind for cu_handle_get() or the look-up.
HANDLES = {
    "CUcontext": ("INVALID_CONTEXT", "cu_context", "CONTEXT"),
    "CUmodule": ("INVALID_HANDLE", "cu_module", "MODULE"),
    "CUfunction": ("INVALID_HANDLE", "cu_function", "cu_function_get(%s, ctx, &%s)"),
    "CUlibrary": ("INVALID_HANDLE", "cu_library", "LIBRARY"),
    "CUkernel": ("INVALID_HANDLE", "cu_kernel", "KERNEL"),
    "CUarray": ("INVALID_HANDLE", "cu_array", "ARRAY"),
    "CUmipmappedArray": ("INVALID_HANDLE", None, None),
    "CUevent": ("INVALID_HANDLE", "cu_event", "EVENT"),
    "CUstream": ("INVALID_HANDLE", "cu_stream", "cu_stream_get(%s, ctx, &%s)"),
    "CUgraph": ("INVALID_VALUE", "cu_graph", "GRAPH"),
    "CUgraphNode": ("INVALID_VALUE", "cu_node", "NODE"),
    "CUgraphExec": ("INVALID_VALUE", "cu_exec", "EXEC"),
    "CUmemoryPool": ("INVALID_VALUE", "cu_pool", "POOL"),
    "CUlinkState": ("INVALID_HANDLE", "linker", "LINK"),
    "CUmemGenericAllocationHandle": ("INVALID_VALUE", "cu_vmm", "VMM"),
}
OBJECTS = dict(
    {k: h for k, h in HANDLES.items() if h[1]}, CUdevice=("INVALID_DEVICE", "cu_device", "cu_device_get(%s, &%s)")
)
# The C code for each need that names no handle.
NEEDS = {
    "init": "CU_ENTER();",
    "context": "CU_ENTER_CONTEXT(ctx);",
    "any_context": "CU_TRY(cu_current_any(&ctx));",
    "uncaptured": "CU_TRY(cu_capture_check_unsafe());",
}


def split_arguments(text):
    """Returns the parts between top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return parts


class Entry:
    def __init__(self, fields, nvml):
        self.name = fields[0]
        self.since = int(fields[1]) if not nvml and fields[1].isdigit() else 0
        self.variant = "NONE" if nvml else fields[2]
        if nvml:
            self.params, self.args = fields[-2:]
            self.simgpu = fields[3]  # how the simulated library answers
        else:
            self.params, self.args = fields[5:7]
        self.needs = fields[7].strip('"').split() if not nvml and len(fields) > 7 else []
        self.base = re.sub(r"(_v\d+)?(_pt[ds][sz])?$", "", self.name)
        self.plain = re.sub(r"_pt[ds][sz]$", "", self.name)

    def parameters(self):
        """Returns type and name of each parameter."""
        text = self.params[1:-1]
        return [re.match(r"(.*?)(\w+)$", p).groups() for p in split_arguments(text) if text != "void"]

    def objects(self):
        """Returns the parameters whose handles need a look-up, each with its type's tuple of OBJECTS."""
        return {
            name: OBJECTS[kind.strip()]
            for kind, name in self.parameters()
            if name in self.needs and kind.strip() in OBJECTS
        }

    def prototype(self):
        """Returns the prototype of the sources' function."""
        objects = self.objects()
        params = [
            "struct %s *%s" % (objects[name][1], name) if name in objects else kind + name
            for kind, name in self.parameters()
        ]
        if {"context", "any_context"} & set(self.needs):
            params.insert(0, "struct cu_context *ctx")
        return "CUresult simgpu_%s(%s)" % (self.name, ", ".join(params) or "void")


def read_def(path, macro):
    entries = []
    for line in open(path):
        if line.startswith(macro + "("):
            inner = line.strip()[len(macro) + 1 :]
            entries.append(Entry(split_arguments(inner[: inner.rindex(")")]), macro != "CU"))
    return entries


def read_defined(paths):
    """Returns the entry points that the sources define, also by macros that define two."""
    defined = set()
    for path in paths:
        text = open(path).read()
        defined |= set(re.findall(r"^\s*CU_EXPORT CUresult (\w+)\(", text, re.M))
        defined |= set(re.findall(r"^CUresult simgpu_(\w+)\(", text, re.M))
        for macro, args in re.findall(r"^(FILL(?:_2D)?)\((\w+),", text, re.M):
            defined |= {"cuMemset%s_v2" % args, "cuMemset%sAsync" % args}
    return defined


def plan(entries, defined):
    """Returns for each entry "defined", the name of the form that it calls, or None for a stub."""
    by_name = {e.name: e for e in entries}
    made = {}

    def resolve(e):
        if e.name in defined:
            return "defined"
        if e.variant != "NONE":
            target = e.plain if e.plain in by_name else None
            return target if target and resolve(by_name[target]) else None
        for other in entries:
            if other.base == e.base and other.variant == "NONE" and other.name in defined and other.params == e.params:
                return other.name
        return None

    for e in entries:
        made[e.name] = resolve(e)
    return made


def write_checked(w, e):
    """Writes an entry point that checks its needs and then calls the sources' function."""
    objects = e.objects()
    names = {name for _, name in e.parameters()}
    args = [name + "_" if name in objects else name for _, name in e.parameters()]
    if {"context", "any_context"} & set(e.needs):
        args.insert(0, "ctx")
    w("CU_EXPORT CUresult %s%s\n{\n" % (e.name, e.params))
    for name, (_, struct, _) in objects.items():
        w("\tstruct %s *%s_;\n" % (struct, name))
    if "any_context" in e.needs:
        w("\tstruct cu_context *ctx;\n")
    for word in e.needs:
        if word in objects:
            error, _, how = objects[word]
            if "(" in how:
                w("\tCU_TRY(%s);\n" % (how.replace("&%s", "&%s_") % (word, word)))
            else:
                w(
                    "\t%s_ = cu_handle_get((void *)(uintptr_t)%s, CU_KIND_%s);\n"
                    "\tCU_CHECK(%s_, CUDA_ERROR_%s);\n" % (word, word, how, word, error)
                )
        elif word not in NEEDS and not set(re.findall(r"\w+", word)) & names:
            raise SystemExit("gen-entries: %s: what is %s?" % (e.name, word))
        else:
            w("\t%s\n" % NEEDS.get(word, "CU_CHECK(%s, CUDA_ERROR_INVALID_VALUE);" % word))
    w("\treturn simgpu_%s(%s);\n}\n\n" % (e.name, ", ".join(args)))


def write_h(out, entries):
    with open(out, "w") as file:
        w = file.write
        w("/* Made by gen-entries.py from cuda.def: do not edit. */\n#pragma once\n" '#include "cuda/types.h"\n\n')
        for struct in sorted({h[1] for h in OBJECTS.values()}):
            w("struct %s;\n" % struct)
        for e in entries:
            if e.needs:
                w(e.prototype() + ";\n")


def write_c(out, entries, made):
    w = open(out, "w")
    w.write('/* Made by gen-entries.py from cuda.def: do not edit. */\n#include "simgpu/cu.h"\n\n')
    for e in entries:
        how = made[e.name]
        if e.needs:
            if how != "defined" or e.needs[0] not in ("init", "context"):
                raise SystemExit("gen-entries: %s: %s" % (e.name, " ".join(e.needs)))
            write_checked(w.write, e)
            continue
        if how == "defined":
            continue
        w.write("CU_EXPORT CUresult %s%s\n{\n" % (e.name, e.params))
        if how is None:
            w.write("\tCU_ENTER();\n\treturn CUDA_ERROR_NOT_SUPPORTED;\n")
        elif e.variant == "NONE":
            w.write("\treturn %s%s;\n" % (how, e.args if e.args != "(void)" else "()"))
        else:
            w.write(
                "\tCUresult r;\n\n\tcu_thread.per_thread++;\n\tr = %s%s;\n"
                "\tcu_thread.per_thread--;\n\treturn r;\n" % (how, e.args)
            )
        w.write("}\n\n")
    w.close()


def columns(names):
    return (
        textwrap.fill(", ".join("`%s`" % n for n in sorted(names)), 100, break_on_hyphens=False, break_long_words=False)
        + "\n"
    )


def write_docs(title, entries, made):
    kinds = {"simulated": [], "forwarded": [], "stubbed": []}
    for e in entries:
        how = made[e.name]
        if how == "defined":
            kinds["simulated"].append(e.name)
        elif how:
            kinds["forwarded"].append("%s` (as `%s" % (e.name, how))
        else:
            kinds["stubbed"].append(e.name)
    print("## %s\n" % title)
    print(
        '%d entry points: %d are simulated, %d are other forms of these, %d return "not supported".\n'
        % (len(entries), len(kinds["simulated"]), len(kinds["forwarded"]), len(kinds["stubbed"]))
    )
    print("### Simulated\n\n" + columns(kinds["simulated"]))
    if kinds["forwarded"]:
        print(
            "### Other forms\n\n"
            + columns(n + "`)" if "(as" in n else n for n in kinds["forwarded"]).replace("`)`", "`)")
        )
    print("### Not supported\n\n" + columns(kinds["stubbed"]))


def main(argv):
    if argv[0] == "--h":
        write_h(argv[1], read_def(argv[2], "CU"))
        return 0
    if argv[0] == "--c":
        entries = read_def(argv[2], "CU")
        write_c(argv[1], entries, plan(entries, read_defined(argv[3:])))
        return 0
    entries = read_def(argv[1], "CU")
    nvml = read_def(argv[2], "NVML")
    print("# The simulated driver\n")
    print(
        "The simulated GPU has these entry points of the two driver libraries; all others are absent.\n"
        "scripts/gen-sim-docs makes this page from src/cuda/*.def and src/simgpu.\n"
    )
    write_docs("libcuda.so.1", entries, plan(entries, read_defined(argv[3:])))
    write_docs("libnvidia-ml.so.1", nvml, {e.name: None if e.simgpu == "NONE" else "defined" for e in nvml})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
