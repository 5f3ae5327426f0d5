#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`divvy run` and `divvy doctor` recognise a program that contains NVIDIA's CUDA runtime, which accepts
no simulated or remote device, and a program that loads a runtime of a version that divvy's own does not
have. The programs are stand-ins: they have the sections and names by which divvy recognises the runtime."""

import json
import os
import subprocess

from rig import BUILD, Rig, main, refused

PLAIN = "int main(void) { return 0; }"
STATIC = PLAIN + '__asm__(".section .nv_fatbin, \\"a\\"\\n.quad 0\\n.text");'


def compile_one(rig, name, source, *options):
    path = os.path.join(rig.dir, name)
    with open(path + ".c", "w", encoding="ascii") as f:
        f.write(source + "\n")
    subprocess.run(["cc", "-o", path, path + ".c", *options], check=True)
    return path


def compile_shared(rig, major):
    """The program calls nothing of the stand-in library, because divvy's runtime replaces the library."""
    soname = f"libcudart.so.{major}"
    library = compile_one(rig, soname, "int cudart_answer(void) { return 0; }", "-shared", f"-Wl,-soname,{soname}")
    return compile_one(
        rig,
        f"shared-{major}",
        PLAIN,
        "-Wl,--push-state,--no-as-needed",
        library,
        "-Wl,--pop-state",
        f"-Wl,-rpath,{rig.dir}",
    )


def programs(rig):
    return {
        "plain": compile_one(rig, "plain", PLAIN),
        "static": compile_one(rig, "static", STATIC),
        "old": compile_shared(rig, "11.0"),
        "shared": compile_shared(rig, "13"),
    }


def run_names_the_runtime_in_one_sentence():
    with Rig() as rig:
        for kind, path in programs(rig).items():
            for place, options in [("simulated", ()), ("remote", ("--remote", "local"))]:
                done = rig.divvy("run", "--request", "0.1", *options, "--", path)
                assert done.returncode == 0, done
                said = [line for line in done.stderr.splitlines() if "CUDA runtime" in line]
                assert len(said) == (kind in ("static", "old")), (kind, done)
                for line in said:
                    assert path in line and f"refuses {place} devices" in line, line
                    assert ("nvcc -cudart shared" in line) == (kind == "static"), line
                    assert ("CUDA 12 or 13" in line) == (kind == "old"), line
            quiet = rig.divvy("run", "--request", "0.1", "--quiet", "--", path)
            assert (quiet.returncode, quiet.stderr) == (0, ""), quiet


def doctor_explains_a_program():
    with Rig() as rig:
        paths = programs(rig)

        def finding(*words):
            found = [one for one in rig.json("doctor", "-o", "json", *words) if one["what"].startswith("program:")]
            assert len(found) == 1, found
            return found[0]

        plain = finding("--", paths["plain"])
        assert plain["level"] == "ok" and "contains no CUDA runtime" in plain["what"], plain
        static = finding("--", paths["static"], "--some", "argument")
        assert static["level"] == "warning" and "contains NVIDIA's CUDA runtime" in static["what"], static
        assert "nvcc -cudart shared" in static["do"], static
        shared = finding(paths["shared"])
        assert shared["level"] == "ok" and "libcudart.so.13" in shared["what"], shared
        old = finding(paths["old"])
        assert old["level"] == "warning" and "libcudart.so.11.0" in old["what"], old
        script = os.path.join(rig.dir, "script")
        with open(script, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n")
        assert finding(script)["level"] == "ok"


def doctor_reports_a_missing_runtime():
    with Rig() as rig:
        path, hooks = programs(rig)["shared"], os.path.join(rig.dir, "hooks")
        os.mkdir(hooks)
        for name in ("cuda", "nvml"):
            os.symlink(os.path.join(BUILD, f"src/hook/libdivvy-{name}.so"), os.path.join(hooks, f"libdivvy-{name}.so"))
        done = rig.divvy("doctor", "-o", "json", path, env={"DIVVY_HOOKS": hooks})
        (one,) = [one for one in json.loads(done.stdout) if one["what"].startswith("program:")]
        assert one["level"] == "warning" and "libdivvy-cudart-13.so" in one["what"], one
        assert "DIVVY_HOOKS" in one["do"], one


def doctor_reports_a_missing_program():
    with Rig() as rig:
        done = rig.divvy("doctor", "--", "no-such-program")
        assert done.returncode == 1 and "no program 'no-such-program' in PATH" in done.stdout, done
        refused(rig.divvy("run", "--request", "0.1", "--", "no-such-program"), 127, "no-such-program")


main(
    run_names_the_runtime_in_one_sentence,
    doctor_explains_a_program,
    doctor_reports_a_missing_runtime,
    doctor_reports_a_missing_program,
)
