#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hook in programs that do not know of it: a shell without CUDA calls, a JVM, Python with
workers forked before and after its first CUDA call, programs built with sanitizers, and a program
that replaces functions of the C library. Needs the stub driver (DIVVY_DRIVER)."""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from builds import build, cuda_source, sanitized  # noqa: E402
from tap import patience  # noqa: E402

PRELOAD = os.environ.pop("LD_PRELOAD")
number = 0
failed = False


def tell(ok, name, why="", skip=""):
    global number, failed
    number += 1
    failed = failed or not ok
    print(f"{'ok' if ok else 'not ok'} {number} - {name}" + (f" # SKIP {skip}" if skip else ""))
    for line in why.splitlines():
        print(f"# {line}")


def run(command, preload=True, text=None, **more):
    env = dict(os.environ, DIVVY_SOCKET="/nowhere/at/all", **more)
    if preload:
        env["LD_PRELOAD"] = PRELOAD
    return subprocess.run(command, input=text, capture_output=True, text=True, env=env, timeout=patience(120))


def same(name, command, **more):
    bare, hooked = run(command, False, **more), run(command, **more)
    ok = (bare.returncode, bare.stdout, bare.stderr) == (hooked.returncode, hooked.stdout, hooked.stderr)
    tell(ok, name, "" if ok else f"without: {bare}\nwith: {hooked}")


# Prints fds, threads and signals after a pipeline, a subshell and a here-document. The shell reads
# its own status without a child such as cat. While the shell waits for a child, its SIGCHLD bits
# depend on how far that wait has come.
SHELL = r"""
umask 027; umask; trap 'echo usr1' USR1; kill -USR1 $$
echo a | tr a b; (exit 3); echo $?; cat <<END
text
END
fds=(/proc/$$/fd/*); echo ${fds[*]##*/}
while read -r name value; do
    case $name in Threads:|SigIgn:|SigCgt:|SigBlk:) echo "$name $value" ;; esac
done <<<"$(</proc/$$/status)"
"""

UNTOUCHED = r"""
grep -c stub-cuda /proc/self/maps; grep -c -E 'libcuda.so.1|divvy-(up|down)' /proc/$$/maps
"""

PYTHON = r"""
import ctypes, multiprocessing, os, sys

def work(n):
    cuda = ctypes.CDLL("libcuda.so.1")
    if not os.path.basename(where(cuda.cuInit)) == "libdivvy-cuda.so":
        return "another library: " + where(cuda.cuInit)
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    for r in (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
              cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 22)),
              cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None),
              cuda.cuCtxSynchronize(), cuda.cuMemFree_v2(pointer)):
        if r:
            return f"result {r}"
    return "fine"

class Info(ctypes.Structure):
    _fields_ = [("fname", ctypes.c_char_p), ("fbase", ctypes.c_void_p),
                ("sname", ctypes.c_char_p), ("saddr", ctypes.c_void_p)]

def where(function):
    info = Info()
    address = ctypes.cast(function, ctypes.c_void_p)
    ctypes.CDLL(None).dladdr(address, ctypes.byref(info))
    return info.fname.decode()

if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    environment = dict(os.environ)
    with fork.Pool(4) as pool:
        before = pool.map(work, range(16))
    own = work(0)
    with fork.Pool(4) as pool:
        after = pool.map(work, range(16))
    assert dict(os.environ) == environment
    print(sorted(set(before)), own, sorted(set(after)))
"""

JAVA = """
import java.nio.file.*;
public class Hello {
    public static void main(String[] args) throws Exception {
        Thread[] threads = new Thread[8];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> { byte[][] b = new byte[64][]; for (int k = 0; k < 20000; k++)
                b[k % 64] = new byte[4096]; });
            threads[i].start();
        }
        for (Thread t : threads) t.join();
        System.gc();
        Process p = new ProcessBuilder("echo", "from a child").redirectErrorStream(true).start();
        System.out.print(new String(p.getInputStream().readAllBytes()));
        System.out.println("done " + p.waitFor());
    }
}
"""

# The program defines every function of the C library that the hook uses. None works before dlopen
# and dlsym have answered, as at the start of a sanitizer, an allocator or a wrapper.
WRAPPER_HEAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static const char *const names[] = {%s};
void *wrapped[sizeof names / sizeof names[0]] __attribute__((visibility("hidden")));

static void begin(void)
{
	void *self = dlopen(NULL, RTLD_NOW), *found = dlsym(RTLD_DEFAULT, "cuInit");

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		wrapped[i] = dlsym(RTLD_NEXT, names[i]);
	if (!self || !found)
		wrapped[0] = NULL;
}

static void (*const begin_first)(void) __attribute__((section(".preinit_array"), used)) = begin;

"""
WRAPPER = r"""__asm__(".text\n.globl %(name)s\n.type %(name)s,@function\n%(name)s:\n"
	"	jmp *wrapped+%(at)d(%%rip)\n.size %(name)s,.-%(name)s\n");
"""


def check_cuda(program, name, text):
    """The program's calls pass through the hook, and it ends as without the hook."""
    program, why = program
    if why:
        tell(False, name, why)
        return
    r = run([program])
    tell((r.returncode, r.stdout, r.stderr) == (3, "fine\n", ""), name, f"{text}{r}")


def check_sanitizers(folder):
    for name, program, skip in sanitized(folder):
        if skip:
            tell(True, name, skip=skip)
        else:
            check_cuda(program, name, "")


def check_wrapper(folder):
    name = "dlopen and dlsym answer before any other function of the C library works"
    if platform.machine() != "x86_64":
        tell(True, name, skip="written for x86-64")
        return
    listed = [
        subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
        for library in PRELOAD.split(":")
    ]
    needed = sorted(set(re.findall(r" U (\w+)@", "".join(listed))) - {"environ", "__environ"})
    source = WRAPPER_HEAD % ", ".join(f'"{n}"' for n in needed)
    source += "".join(WRAPPER % {"name": n, "at": 8 * i} for i, n in enumerate(needed))
    # the headers of WRAPPER_HEAD would declare some functions differently
    program = build(folder, "wrapper", source + cuda_source(), ["gcc", "-fno-builtin", "-fno-stack-protector"])
    check_cuda(program, name, f"{len(needed)} functions\n")


def main():
    print("TAP version 13")
    same("bash behaves as without the hook", ["bash", "-c", SHELL])
    r = run(["bash", "-c", UNTOUCHED])
    tell(r.stdout.split() == ["0", "0"], "a bash that calls no CUDA opens no driver", f"{r.stdout}{r.stderr}")
    same("programs of every kind start", ["sh", "-c", "env -i ls / && sort --version && awk 'BEGIN {print 1}'"])
    r = run([sys.executable, "-c", PYTHON])
    tell(
        r.stdout == "['fine'] fine ['fine']\n",
        "python works with workers forked before and after CUDA calls",
        f"{r.stdout}{r.stderr}",
    )
    if shutil.which("java"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "Hello.java")
            with open(path, "w", encoding="utf-8") as f:
                f.write(JAVA)
            same("a JVM behaves as without the hook", ["java", "-XX:+UseSerialGC", path])
    else:
        tell(True, "a JVM behaves as without the hook", skip="no java here")
    with tempfile.TemporaryDirectory() as folder:
        check_sanitizers(folder)
        check_wrapper(folder)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
