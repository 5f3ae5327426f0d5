#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes both stubs of the driver API and the list for the docs, from cuda.def and remote.def.

usage: gen-remote.py client OUT.c CUDA.DEF REMOTE.DEF SOURCE...
       gen-remote.py worker OUT.c CUDA.DEF REMOTE.DEF SOURCE...
       gen-remote.py kinds  OUT.h CUDA.DEF REMOTE.DEF
       gen-remote.py docs   OUT.md CUDA.DEF REMOTE.DEF

A request consists of fields, each padded to 8 bytes. The first is a word with a bit for each pointer
that is not NULL. Then come the parameters without arrays in their order, and then the arrays, whose
sizes are among the parameters. NULL pointers have no field. The answer has a field for each
parameter that comes back.
"""
import importlib.util
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("entries", HERE.parent / "simgpu" / "gen-entries.py")
entries_module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(entries_module)

# The types of handles, and the error for a handle without an object.
KINDS = {kind: handle[0] for kind, handle in entries_module.HANDLES.items()}
# Structures with handles, addresses or pointers inside: worker.h has fix_T (in) and unfix_T (out).
FIXED = {
    "CUDA_MEMCPY3D",
    "CUDA_MEMCPY3D_PEER",
    "CUDA_RESOURCE_DESC",
    "CUDA_MEMSET_NODE_PARAMS",
    "CUDA_GRAPH_INSTANTIATE_PARAMS",
    "CUmemAllocationProp",
    "CUmemPoolProps",
    "CUstreamBatchMemOpParams",
}
UNFIXED = {
    "CUDA_MEMCPY3D",
    "CUDA_RESOURCE_DESC",
    "CUDA_GRAPH_INSTANTIATE_PARAMS",
    "CUgraphExecUpdateResultInfo",
    "CUmemAllocationProp",
}
WORDS = ("in", "inout", "gone", "again", "free", "address", "number", "text")
# Arrays that may be NULL although their count is above 0.
OPTIONAL = ("edgeData", "dependencyData")
# Actions of the worker around a call: the layout's word, and its bits of enum serve_trait.
TRAITS = {
    "ends=streams": "SERVE_ENDS_STREAMS | SERVE_ENDS_WATCHES",
    "ends=watches": "SERVE_ENDS_WATCHES",
    "changes=graphs": "SERVE_CHANGES_GRAPHS",
    "settles=all": "SERVE_SETTLES_ALL",
    "settles=modules": "SERVE_SETTLES_MODULES",
}
# Calls that return device memory: the note about the memory, and the call that frees it.
ALLOCS = {
    "alloc": ("RANGE_PLAIN", "cuMemFree_v2(held[n])"),
    "reserve": ("RANGE_RESERVED", "cuMemAddressFree(held[n], %s)"),
    "module": ("RANGE_OF_MODULE", None),
}


def inside(word, name):
    """Returns the text inside the brackets of name(...), or None."""
    return word[len(name) + 1 : -1] if word.startswith(name + "(") else None


class Param:
    """One parameter, and its fields in the request and in the answer."""

    def __init__(self, text, layout):
        match = re.match(r"(.*?)(\w+)$", text)
        self.decl, self.name = match.group(1).strip(), match.group(2)
        self.stars = self.decl.count("*")
        self.const = self.decl.startswith("const ")
        self.base = self.decl.replace("const", "").replace("*", "").strip()
        self.base = {"unsigned": "unsigned int"}.get(self.base, self.base)
        self.word = layout.get(self.name, "")
        self.count = layout.get(self.name + "[]")
        self.reach = inside(self.word, "reach")
        self.alloc, self.note, self.free = None, None, None
        for name, (note, free) in ALLOCS.items():
            if inside(self.word, name):
                self.alloc, self.note = inside(self.word, name), note
                self.free = free and free.replace("%s", self.alloc)
        if self.stars == 0:
            self.way = "value"
        elif self.word in ("address", "number"):
            self.way = "pointer"
        elif self.word == "text":
            self.way = "text"
        elif self.stars == 1 and self.const and self.base == "char" and not self.count:
            self.way = "string"
        elif self.stars == 1 and (self.base != "void" or self.count):
            self.way = self.word if self.word in ("in", "inout") else "in" if self.const else "out"
        else:
            raise SystemExit("gen-remote: %s: say how it travels" % text)
        if self.base == "CUdeviceptr" and self.way == "value" and not (self.reach or self.word in ("free", "number")):
            raise SystemExit("gen-remote: %s: say how far the driver reaches" % text)
        if self.base == "void":
            self.base = "char"
        self.kind = self.base if self.base in KINDS else None

    def size(self):
        return "(size_t)(%s) * sizeof(%s)" % (self.count, self.base) if self.count else "sizeof(%s)" % self.base


class Function:
    def __init__(self, entry, travel, layout):
        self.entry, self.name, self.travel, self.layout = entry, entry.name, travel, layout
        self.hand = layout == "hand" or travel in ("LOCAL", "DATA", "CALL")
        self.params, self.always, self.early, self.traits = [], False, False, []
        self.before, self.then, self.after, self.by, self.only = None, None, None, None, None
        if self.hand or travel == "REFUSED":
            return
        words = {}
        for item in layout.split():
            match = re.match(r"^(\w+)\[(.*)\](?:=(\w+))?$", item)
            if match:
                words[match.group(1) + "[]"] = match.group(2)
                if match.group(3):
                    words[match.group(1)] = match.group(3)
                continue
            key, value = item.split("=", 1)
            if item in TRAITS:
                self.traits.append(TRAITS[item])
            elif key == "then":
                self.then = value
            elif key == "after":
                self.after = value
            elif key == "before":
                self.before = value
            elif key == "by":
                self.by = value
            elif key == "if":
                self.only = value
            elif item == "asks=early":
                self.early = True
            elif key == "outs":
                self.always = True
            elif value in WORDS or re.match(r"(%s|reach)\(" % "|".join(ALLOCS), value):
                words[key] = value
            else:
                raise SystemExit("gen-remote: %s: what is %s?" % (self.name, item))
        text = entry.params[1:-1].strip()
        if text != "void":
            self.params = [Param(p, words) for p in entries_module.split_arguments(text)]
        names = {p.name for p in self.params}
        for word in words:
            if word.replace("[]", "") not in names:
                raise SystemExit("gen-remote: %s has no %s" % (self.name, word))


def read(cuda_def, remote_def):
    entries = entries_module.read_def(cuda_def, "CU")
    lines = {}
    for line in open(remote_def):
        match = re.match(r'REMOTE\((\w+), (\w+), "(.*)"\)$', line)
        if match:
            lines[match.group(1)] = (match.group(2), match.group(3))
    functions, same = [], {}
    plain = [e for e in entries if e.variant == "NONE"]
    for e in plain:
        newest = [o for o in plain if o.base == e.base and o.params == e.params][-1]
        if newest is not e:
            same[e.name] = newest.name
        elif e.name in lines:
            functions.append(Function(e, *lines.pop(e.name)))
        else:
            raise SystemExit("gen-remote: remote.def has no line for %s" % e.name)
    if lines:
        raise SystemExit("gen-remote: not in cuda.def, or a form of another: %s" % " ".join(lines))
    return entries, functions, same


# ---- the client's stubs ----


def client_send(f, p, w):
    if p.way == "value":
        w("\tcall_put(&c, &%s, sizeof(%s));\n" % (p.name, p.name))
    elif p.way == "pointer":
        w("\tcall_put(&c, &%s, sizeof(%s));\n" % (p.name, p.name))
    elif p.way == "string":
        w("\tif (%s)\n\t\tcall_put(&c, %s, strlen(%s) + 1);\n" % (p.name, p.name, p.name))
    elif p.way in ("in", "inout"):
        w("\tif (%s)\n\t\tcall_put(&c, %s, %s);\n" % (p.name, p.name, p.size()))


def in_order(params):
    return sorted(params, key=lambda p: p.way in ("in", "inout"))


def is_pointer(p):
    return p.way in ("string", "in", "inout", "out", "text")


def room_of(p):
    if p.way in ("value", "pointer"):
        return "FIELD(sizeof(%s))" % p.name
    if p.way == "string":
        return "(%s ? FIELD(strlen(%s) + 1) : 0)" % (p.name, p.name)
    if p.way in ("in", "inout"):
        return "(%s ? FIELD(%s) : 0)" % (p.name, p.size())
    return None


def client_receive(f, p, w):
    if p.way == "text":
        w(
            "\tif (is_there && %s) {\n\t\tconst char *text = (const char *)c.in;\n"
            "\t\tconst size_t left = (size_t)(c.in_end - c.in);\n\n"
            "\t\t*%s = text_keep(text, strnlen(text, left));\n"
            "\t\tcall_take(&c, NULL, strnlen(text, left) + 1);\n\t}\n" % (p.name, p.name)
        )
        return
    if p.way not in ("out", "inout"):
        return
    if p.count and p.count.startswith("*"):
        # The driver's count says how many elements come back; the rest has no handles.
        room = "before_" + p.count[1:]
        rest = (
            "\t\tif (is_there)\n\t\t\tmemset(%s + n, 0, (%s - n) * sizeof(%s));\n" % (p.name, room, p.base)
            if p.kind
            else ""
        )
        w(
            "\tif (is_there && %s) {\n\t\tuint64_t n = 0;\n\n"
            "\t\tis_there = call_take(&c, &n, sizeof(n)) && n <= (uint64_t)(%s);\n"
            "\t\tis_there = is_there && call_take(&c, %s, n * sizeof(%s));\n%s\t}\n"
            % (p.name, room, p.name, p.base, rest)
        )
        return
    w("\tif (is_there && %s)\n\t\tis_there = call_take(&c, %s, %s);\n" % (p.name, p.name, p.size()))


def client_function(f, w):
    args = f.params
    pointers = [p for p in args if is_pointer(p)]
    outs = [p for p in args if p.way in ("out", "inout", "text")]
    allocs = [p for p in args if p.alloc]
    storage = "static CUresult once_%s" if allocs else "REMOTE_EXPORT CUresult %s"
    w((storage + "%s\n{\n") % (f.name, f.entry.params))
    for p in args:
        if p.way == "inout" and any(o.count == "*" + p.name for o in args):
            w("\tconst %s before_%s = %s ? *%s : 0;\n" % (p.base, p.name, p.name, p.name))
    if pointers:
        w(
            "\tconst uint64_t there = %s;\n"
            % " | ".join("(uint64_t)!!%s << %d" % (p.name, i) for i, p in enumerate(pointers))
        )
    if f.travel == "CREATE":
        w("\tuint64_t handle;\n")
    if outs and f.travel != "CREATE":
        w("\tbool is_there = true;\n")
    frees = [p for p in args if p.word == "free"]
    for p in frees:
        w("\tstruct range had_%s;\n" % p.name)
    w("\tstruct call c;\n\tCUresult r;\n\n")
    if frees:
        # In a forked child, the lock's owner may be a thread that does not exist there.
        w("\tr = session_check();\n\tif (r)\n\t\treturn r;\n")
    for p in frees:
        # The client forgets the range before another thread can get the same address.
        w("\thad_%s = device_taken(%s);\n" % (p.name, p.name))
    if f.travel == "CREATE":
        w(
            "\tr = session_check();\n\tif (!r && !%s)\n\t\tr = CUDA_ERROR_INVALID_VALUE;\n"
            "\tif (r)\n\t\treturn r;\n" % outs[0].name
        )
    rooms = ["8"] * bool(pointers) + [r for r in (room_of(p) for p in args) if r]
    if f.travel == "CREATE":
        rooms.append("8")
    if f.before:
        w("\t%s;\n" % f.before)
    begin = "call_begin_early" if f.early else "call_begin"
    w("\tr = %s(&c, REMOTE_OP_%s, %s);\n\tif (r)\n\t\treturn r;\n" % (begin, f.name, " + ".join(rooms) or "0"))
    if pointers:
        w("\tcall_put(&c, &there, sizeof(there));\n")
    if f.travel == "CREATE":
        w("\thandle = handle_new(KIND_%s);\n\tcall_put(&c, &handle, sizeof(handle));\n" % outs[0].kind)
    for p in in_order(args):
        client_send(f, p, w)
    if f.travel == "CREATE":
        w("\tr = call_post(&c);\n\tif (!r)\n\t\t*%s = (%s)handle;\n\treturn r;\n}\n\n" % (outs[0].name, outs[0].base))
        return
    if f.travel == "POST":
        w("\tr = call_post(&c);\n")
    elif f.travel == "CACHED":
        w("\tr = call_wait_cached(&c);\n")
    else:
        w("\tr = call_wait(&c, %s);\n" % ("REMOTE_SYNC" if f.travel == "SYNC" else "0"))
    if f.travel != "POST":
        if outs:
            w("\tis_there = %s;\n" % ("c.frame_in" if f.always else "!r"))
        for p in outs:
            client_receive(f, p, w)
        w("\tcall_end(&c);\n")
        if outs and not f.always:
            w("\tif (!r && !is_there)\n\t\tr = CUDA_ERROR_UNKNOWN;\n")
    if f.after:
        w("\t%s;\n" % f.after)
    if f.then:
        w("\tif (!r)\n\t\t%s;\n" % (f.then if "(" in f.then else f.then + "()"))
    for p in frees:
        w("\tif (r)\n\t\tdevice_back(&had_%s);\n" % p.name)
    w("\treturn r;\n}\n\n")
    if allocs:
        client_alloc(f, allocs[0], w)


def streams_of(f):
    """Returns the stream parameters' names. Memory allocated in a stream may belong to a graph."""
    return [p.name for p in f.params if p.base == "CUstream"]


def client_alloc(f, p, w):
    """Writes a call that asks for another address if the program already uses the first one."""
    w("REMOTE_EXPORT CUresult %s%s\n{\n" % (f.name, f.entry.params))
    call = "once_%s%s" % (f.name, f.entry.args)
    if not p.free:
        # The client needs the size even if the program passes NULL for it.
        size = p.alloc.lstrip("*")
        w("\tsize_t own = 0, *const size = %s ? %s : &own;\n" % (size, size))
        w(
            "\tCUresult r = %s;\n\n\tif (!r && %s && !device_given(*%s, *size, %s))\n"
            "\t\tr = CUDA_ERROR_OUT_OF_MEMORY;\n\treturn r;\n}\n\n"
            % (re.sub(r"\b%s\b" % size, "size", call), p.name, p.name, p.note)
        )
        return
    w(
        "\tCUdeviceptr held[8];\n\tsize_t n = 0;\n\tCUresult r;\n\n"
        "\tfor (;;) {\n\t\tr = %s;\n\t\tif (r || device_given(*%s, %s, %s))\n\t\t\tbreak;\n"
        "\t\theld[n++] = *%s;\n\t\tif (n == sizeof(held) / sizeof(held[0])) {\n"
        "\t\t\tr = CUDA_ERROR_OUT_OF_MEMORY;\n\t\t\tbreak;\n\t\t}\n\t}\n"
        "\twhile (n-- > 0)\n\t\t%s;\n" % (call, p.name, p.alloc, p.note, p.name, p.free)
    )
    if streams_of(f):
        w("\tif (!r && is_capturing())\n\t\tdevice_of_graph(*%s);\n" % p.name)
    w("\treturn r;\n}\n\n")


def write_client(out, entries, functions, same, sources):
    by_name = {f.name: f for f in functions}
    defined = set()
    for path in sources:
        text = open(path).read()
        defined |= set(re.findall(r"^REMOTE_EXPORT CUresult (\w+)\(", text, re.M))
        for names in re.findall(r"^NODES\((\w+),\s+(\w+),\s+(\w+),", text, re.M):
            defined |= set(names)
        defined |= set(re.findall(r"^LOAD_LIBRARY\((\w+),", text, re.M))
        for name in re.findall(r"^COPY\((\w+),", text, re.M):
            defined |= {name, name + "_ptds"}
        for name in re.findall(r"^COPY_ASYNC\((\w+),", text, re.M):
            defined |= {name, name + "_ptsz"}
    with open(out, "w") as file:
        w = file.write
        w('/* Made by gen-remote.py: do not edit. */\n#include "remote/client.h"\n\n')
        for f in functions:
            if f.travel == "REFUSED" and f.name not in defined:
                w(
                    "REMOTE_EXPORT CUresult %s%s\n{\n\tconst CUresult r = session_check();\n\n"
                    "\treturn r ? r : CUDA_ERROR_NOT_SUPPORTED;\n}\n\n" % (f.name, f.entry.params)
                )
            elif f.hand and f.name not in defined:
                raise SystemExit("gen-remote: nobody defines %s" % f.name)
            elif not f.hand and f.travel != "REFUSED":
                client_function(f, w)
        for e in entries:
            if e.name in defined or e.name in by_name:
                continue
            args = e.args if e.args != "(void)" else "()"
            target = same.get(e.name)
            if e.variant == "PTSZ":
                target = same.get(e.plain, e.plain)
                # Without a stream parameter, the form equals the plain form.
                stream = re.search(r"CUstream (\w+)(?=[,)])", e.params)
                if stream:
                    args = re.sub(
                        r"\b%s\b" % stream.group(1),
                        "%s ? %s : CU_STREAM_PER_THREAD" % (stream.group(1), stream.group(1)),
                        args,
                    )
            elif e.variant == "PTDS":
                plain = same.get(e.plain, e.plain)
                target = re.sub(r"(_v2)?$", r"Async\1", plain, count=1)
                if target not in by_name:
                    target = plain.replace("_v2", "") + "Async"
                args = args[:-1] + ", CU_STREAM_PER_THREAD)"
                if target not in by_name or by_name[plain].travel == "REFUSED":
                    w(
                        "REMOTE_EXPORT CUresult %s%s\n{\n\tconst CUresult r = session_check();\n\n"
                        "\treturn r ? r : CUDA_ERROR_NOT_SUPPORTED;\n}\n\n" % (e.name, e.params)
                    )
                    continue
            w("REMOTE_EXPORT CUresult %s%s\n{\n\treturn %s%s;\n}\n\n" % (e.name, e.params, target, args))


# ---- the worker's stubs ----


def worker_function(f, w):
    args = f.params
    pointers = [p for p in args if is_pointer(p)]
    bit = {p.name: i for i, p in enumerate(pointers)}
    w("CUresult serve_%s(struct serve *s)\n{\n" % f.name)
    if pointers:
        w("\tconst uint64_t there = take_u64(s);\n")
    if f.travel == "CREATE":
        w("\tconst uint64_t handle = take_u64(s);\n")
    for p in in_order(args):
        there = "there >> %d & 1" % bit.get(p.name, 0)
        if p.way == "value" and p.kind:
            w(
                "\tconst uint64_t named_%s = take_u64(s);\n"
                "\t%s %s = (%s)handle_real(s, KIND_%s, named_%s);\n" % (p.name, p.base, p.name, p.base, p.kind, p.name)
            )
        elif p.word == "free":
            w("\tCUdeviceptr %s = take_address(s);\n" % p.name)
        elif p.way == "value":
            w("\t%s %s = TAKE_VALUE(s, %s);\n" % (p.base, p.name, p.base))
        elif p.way == "pointer":
            w(
                "\t%s%s = (%s)(uintptr_t)%s(s);\n"
                % (
                    p.decl + ("" if p.decl.endswith("*") else " "),
                    p.name,
                    p.decl,
                    "take_address" if p.word == "address" else "take_u64",
                )
            )
        elif p.way == "string":
            w("\tconst char *%s = %s ? take_string(s) : NULL;\n" % (p.name, there))
        elif p.way in ("in", "inout"):
            w("\t%s *%s = %s ? TAKE_ARRAY(s, %s, %s) : NULL;\n" % (p.base, p.name, there, p.base, p.count or "1"))
            if p.count and p.count.startswith("*"):
                raise SystemExit("gen-remote: %s of %s" % (p.name, f.name))
        elif p.way == "text":
            w("\tconst char *text_%s = NULL, **%s = %s ? &text_%s : NULL;\n" % (p.name, p.name, there, p.name))
    # The sizes of these arrays are known only after the whole request has been read.
    for p in args:
        there = "there >> %d & 1" % bit.get(p.name, 0)
        if p.way == "out":
            count = p.count or "1"
            if count.startswith("*"):
                count = "%s ? %s : 0" % (count[1:], count)
            w("\t%s *%s = %s ? GIVE_ARRAY(s, %s, %s) : NULL;\n" % (p.base, p.name, there, p.base, count))
    counts = {p.count[1:] for p in args if p.count and p.count.startswith("*")}
    for name in sorted(counts):
        w("\tconst uint64_t room_%s = %s ? *%s : 0;\n" % (name, name, name))
    w("\tCUresult r;\n\n")
    w("\tif (s->error)\n\t\treturn s->error;\n")
    if f.only:
        w("\tif (!(%s))\n\t\treturn CUDA_ERROR_NOT_SUPPORTED;\n" % f.only)
    for p in args:
        # The driver may not check for a NULL array with a count above 0.
        is_counted = p.count and not p.count.startswith("*") and not p.count.isdigit()
        if p.way == "in" and is_counted and p.name not in OPTIONAL:
            w("\tif (!%s && (%s))\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n" % (p.name, p.count))
    for p in args:
        if p.reach:
            w("\tif (!address_reaches(%s, %s))\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n" % (p.name, p.reach))
    for p in args:
        if p.way in ("in", "inout"):
            many = "(uint64_t)(%s)" % p.count if p.count else "1"
            if p.kind:
                w("\tif (!handles_real(s, KIND_%s, %s, %s))\n\t\treturn s->error;\n" % (p.kind, p.name, many))
            elif p.base in FIXED:
                w(
                    "\tfor (uint64_t i = 0; %s && i < %s; i++)\n\t\tif (!fix_%s(s, &%s[i]))\n"
                    "\t\t\treturn s->error;\n" % (p.name, many, p.base, p.name)
                )
    for p in args:
        if p.word == "free":
            w("\tconst struct range had_%s = address_freed(%s);\n" % (p.name, p.name))
    w("\tr = %s(%s);\n" % (f.by or "CALL(s, %s)" % f.name, ", ".join(p.name for p in args)))
    for p in args:
        if p.word == "free":
            w("\tif (r)\n\t\taddress_back(&had_%s);\n" % p.name)
    if f.travel == "CREATE":
        w(
            "\tif (!r && %s)\n\t\thandle_put(s, KIND_%s, handle, (uint64_t)*%s);\n\treturn r;\n}\n\n"
            % (args[0].name, args[0].kind, args[0].name)
        )
        return
    w("\tif (r%s)\n\t\treturn r;\n" % (" && !s->answers" if f.always else ""))
    for p in args:
        if p.word == "gone":
            w("\thandle_destroyed(s, KIND_%s, named_%s);\n" % (p.kind, p.name))
        elif p.alloc:
            size = re.sub(r"^\*(\w+)", r"(\1 ? *\1 : 1)", p.alloc)
            w("\tif (%s)\n\t\taddress_given(*%s, %s, %s);\n" % (p.name, p.name, size, p.note))
            for stream in streams_of(f):
                w("\tif (%s)\n\t\taddress_of_stream(*%s, %s);\n" % (p.name, p.name, stream))
    for p in args:
        if p.way == "text":
            w("\tif (%s)\n\t\tgive_string(s, text_%s);\n" % (p.name, p.name))
        if p.way not in ("out", "inout"):
            continue
        many = "(uint64_t)(%s)" % p.count if p.count else "1"
        if p.count and p.count.startswith("*"):
            n = p.count[1:]
            w(
                "\tif (%s) {\n\t\tconst uint64_t n = %s && *%s < room_%s ? *%s : room_%s;\n\n"
                "\t\tgive(s, &n, sizeof(n));\n" % (p.name, n, n, n, n, n)
            )
            if p.kind:
                w("\t\thandles_named(s, KIND_%s, %s, n);\n" % (p.kind, p.name))
            w("\t\tgive(s, %s, n * sizeof(*%s));\n\t}\n" % (p.name, p.name))
            continue
        if p.word == "again":
            w(
                "\tif (%s)\n\t\t*%s = (%s)handle_again(s, KIND_%s, (uint64_t)*%s);\n"
                % (p.name, p.name, p.base, p.kind, p.name)
            )
        elif p.kind:
            w("\tif (%s)\n\t\thandles_named(s, KIND_%s, %s, %s);\n" % (p.name, p.kind, p.name, many))
        elif p.base in UNFIXED:
            w("\tif (%s)\n\t\tunfix_%s(s, %s);\n" % (p.name, p.base, p.name))
        w("\tif (%s)\n\t\tgive(s, %s, %s * sizeof(*%s));\n" % (p.name, p.name, many, p.name))
    w("\treturn r;\n}\n\n")


def write_worker(out, functions, sources):
    served = {name for path in sources for name in re.findall(r"^CUresult serve_(\w+)\(", open(path).read(), re.M)}
    carried = [f for f in functions if f.name in served or not (f.hand or f.travel == "REFUSED")]
    with open(out, "w") as file:
        w = file.write
        w('/* Made by gen-remote.py: do not edit. */\n#include "remote/worker.h"\n\n')
        for f in carried:
            if not f.hand:
                worker_function(f, w)
        w("const serve_fn serve_table[REMOTE_OPS] = {\n")
        for f in carried:
            w("\t[REMOTE_OP_%s] = serve_%s,\n" % (f.name, f.name))
        w("};\n\nconst uint8_t serve_traits[REMOTE_OPS] = {\n")
        for f in functions:
            if f.traits:
                w("\t[REMOTE_OP_%s] = %s,\n" % (f.name, " | ".join(f.traits)))
        w("};\n")


def write_kinds(out, functions):
    with open(out, "w") as file:
        w = file.write
        w(
            "/* Made by gen-remote.py: do not edit. */\n#pragma once\n#include <stdint.h>\n\n"
            "/* What a handle stands for. 0 is none. */\nenum kind {\n"
        )
        for i, kind in enumerate(KINDS):
            w("\tKIND_%s%s,\n" % (kind, " = 1" if i == 0 else ""))
        w("\tKINDS\n};\n\n/* What is wrong with one that there is not. */\n" "#define KIND_ERRORS \\\n\t{ \\\n")
        for kind, error in KINDS.items():
            w("\t\t[KIND_%s] = CUDA_ERROR_%s, \\\n" % (kind, error))
        w(
            "\t}\n\n/* A handle as the program sees it: no address of anything. */\n"
            "#define HANDLE_CLIENT (1ull << 39)\n"
            "static inline uint64_t handle_make(enum kind kind, uint64_t index)\n{\n"
            "\treturn 0xd1ull << 48 | (uint64_t)kind << 40 | index;\n}\n\n"
            "enum remote_function {\n"
        )
        for f in functions:
            w("\tREMOTE_OP_%s,\n" % f.name)
        w("\tREMOTE_OPS\n};\n")


def wrap(text):
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False) + "\n"


def listed(names):
    return ", ".join("`%s`" % n for n in names)


def write_docs(out, entries, functions, same):
    travels = [
        ("LOCAL", "the client library answers by itself"),
        ("CACHED", "one round trip for the first call, none afterwards"),
        ("CREATE", "returns at once; the client chooses the handle"),
        ("POST", "returns at once; the next synchronisation reports an error"),
        ("WAIT", "one round trip"),
        ("SYNC", "one round trip, which reports earlier errors too"),
        ("DATA", "copies to or from the program's memory"),
        ("CALL", "functions of the program that a stream or a graph calls"),
    ]
    with open(out, "w") as file:
        w = file.write
        refused = [f for f in functions if f.travel == "REFUSED"]
        w(
            "# The remote driver API\n\n"
            + wrap(
                "A program with a remote device can call %d of the %d functions of the driver API. "
                "The per-thread forms (`_ptds`, `_ptsz`) and the older forms with the same parameters "
                "behave like the function itself. [remote.md](remote.md) describes the consequences "
                "for programs. `ninja -C build remote-docs` makes this page from src/cuda/cuda.def "
                "and src/cuda/remote.def." % (len(functions) - len(refused), len(functions))
            )
        )
        for travel, about in travels:
            names = [f.name for f in functions if f.travel == travel]
            w("\n## %s: %s\n\n%s" % (travel, about, wrap(listed(names))))
        w("\n## Refused with CUDA_ERROR_NOT_SUPPORTED\n")
        for why in sorted({f.layout for f in refused}):
            names = [f.name for f in refused if f.layout == why]
            w("\n" + wrap("%s: %s" % (why[0].upper() + why[1:], listed(names))))


def main(argv):
    what, out, cuda_def, remote_def = argv[:4]
    entries, functions, same = read(cuda_def, remote_def)
    if what == "client":
        write_client(out, entries, functions, same, argv[4:])
    elif what == "worker":
        write_worker(out, functions, argv[4:])
    elif what == "kinds":
        write_kinds(out, functions)
    elif what == "docs":
        write_docs(out, entries, functions, same)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
