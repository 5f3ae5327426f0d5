#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy run with unusual programs, each of which behaves as without divvy; and libraries in folders
with unusual names."""

import os
import resource
import shutil
import sys
import tempfile

from rig import BUILD, SPIN, Rig, Skip, main, refused

from builds import module, musl, sanitized


def run_sanitized(*options, without=()):
    wrong = []
    with Rig() as rig, tempfile.TemporaryDirectory() as folder:
        for name, program, skip in sanitized(folder):
            if any(word in name for word in without):
                continue
            if skip:
                print(f"# {name}: {skip}")
                continue
            assert not program[1], program[1]
            done = rig.divvy("run", "-q", "--request", "0.1", *options, "--", program[0])
            if (done.returncode, done.stdout, done.stderr) != (3, "fine\n", ""):
                wrong.append(f"{name}: {done}")
    assert not wrong, "\n".join(wrong)


def sanitized_programs_run():
    run_sanitized()


def sanitized_programs_run_with_a_remote_device():
    # The sanitizers of threads and memory forbid most addresses, and remote memory has the same
    # addresses as in the worker.
    run_sanitized("--remote", "local", without=("thread", "memory"))


# Applies divvy's options like an engine, for a container that sees all files of this machine.
ENGINE = r"""#!/usr/bin/env python3
import os, sys
mounts, env, rest = {}, {}, sys.argv[2:]
while rest[0].startswith("--"):
    option, value, *rest = rest
    if option == "--mount":
        field = dict(f.partition("=")[::2] for f in value.split(","))
        mounts[field["target"]] = field["source"]
    elif option == "--env":
        name, _, text = value.partition("=")
        env[name] = text or os.environ.get(name, "")
for target, source in sorted(mounts.items(), reverse=True):
    env = {name: value.replace(target, source) for name, value in env.items()}
assert env["LD_PRELOAD"].count("/libdivvy-") == 4, env
os.execve(rest[1], rest[1:], env)
"""


DEEP = """
import ctypes, os, sys
module = ctypes.CDLL(sys.argv[1], os.RTLD_NOW | os.RTLD_DEEPBIND)
print(module.device_memory(sys.argv[2].encode()))
"""


def deep_bound_modules_find_the_tenants_device():
    """Such a module calls the C library's dlopen(), which divvy cannot intercept."""
    with Rig() as rig, tempfile.TemporaryDirectory() as folder:
        path = module(folder, "deep.c")
        for options in ((), ("--remote", "local")):
            for name in ("libcuda.so", "libcuda.so.1"):
                wish = ("-q", "--request", "0.1", "--memory", "2Gi", *options)
                done = rig.divvy("run", *wish, "--", sys.executable, "-c", DEEP, path, name)
                assert (done.returncode, done.stdout) == (0, "2048\n"), (options, name, done)


def the_library_path_has_each_folder_once():
    with Rig() as rig:
        for before, after in ((None, ""), ("", ""), ("/a:/x/divvy-names/:/b:/y/divvy-remote-names", ":/a:/b")):
            env = {} if before is None else {"LD_LIBRARY_PATH": before}
            for options, name in ((), "divvy-names"), (("--remote", "local"), "divvy-remote-names"):
                done = rig.divvy("run", "--request", "0.1", "--dry-run", *options, "--", "true", env=env)
                (line,) = [w for w in done.stdout.splitlines() if w.startswith("LD_LIBRARY_PATH=")]
                assert line.endswith(f"/{name}{after}") and line.count("divvy-") == 1, (before, line)


def musl_program(folder):
    program = musl(folder)
    if not program:
        raise Skip("no musl-gcc here")
    assert not program[1], program[1]
    return program[0]


def musl_programs_run_without_divvys_libraries():
    with Rig() as rig, tempfile.TemporaryDirectory() as folder:
        program = musl_program(folder)
        # With a remote device, musl does not take divvy's library for libcuda.so.1, because its
        # file name is different.
        for options, found in ((), 100), (("--remote", "local"), -1):
            done = rig.divvy("run", "-q", "--request", "0.1", *options, "--", program)
            assert (done.returncode, done.stdout, done.stderr) == (5, f"cuInit: {found}\n", ""), (options, done)


def musl_programs_in_containers_run_without_divvys_libraries():
    with Rig() as rig, tempfile.TemporaryDirectory() as folder:
        program = musl_program(folder)
        engine = os.path.join(folder, "docker")
        with open(engine, "w", encoding="utf-8") as f:
            f.write(ENGINE)
        os.chmod(engine, 0o755)
        done = rig.divvy(
            "run",
            "-q",
            "--request",
            "0.1",
            "--container",
            "docker",
            "--",
            "run",
            "image",
            program,
            env={"PATH": f"{folder}:{os.environ['PATH']}"},
        )
        assert (done.returncode, done.stdout, done.stderr) == (5, "cuInit: 100\n", ""), done


def libraries_in(folder):
    """Copies the libraries into `folder`."""
    os.makedirs(folder)
    for part in "hook", "cudart":
        for name in os.listdir(os.path.join(BUILD, "src", part)):
            if name.startswith("libdivvy-") and name.endswith(".so"):
                shutil.copy(os.path.join(BUILD, "src", part, name), folder)
    return {"DIVVY_HOOKS": folder}


def a_path_that_the_loader_would_cut_is_refused():
    with Rig() as rig:
        for word, name in ("space", "my hooks"), ("colon", "my:hooks"):
            env = libraries_in(os.path.join(rig.dir, name))
            for options in (), ("--dry-run",), ("--remote", "local"):
                done = rig.divvy("run", "--request", "0.1", *options, "--", "true", env=env)
                refused(
                    done, 125, f"my{name[2]}hooks/libdivvy-cuda.so", f"a {word}", "LD_PRELOAD", "ln -s", "DIVVY_HOOKS="
                )
            assert not rig.json("ps", "-o", "json"), "the refused command makes no tenant"
            done = rig.divvy("doctor", env=env)
            assert done.returncode == 1 and f"a {word}" in done.stdout and "ln -s" in done.stdout, done
            assert "architecture" not in done.stdout, done
            os.symlink(env["DIVVY_HOOKS"], os.path.join(rig.dir, word))
            done = rig.divvy(
                "run",
                "-q",
                "--request",
                "0.1",
                "--",
                SPIN,
                "--duration=0.1",
                env={"DIVVY_HOOKS": os.path.join(rig.dir, word)},
            )
            assert done.returncode == 0 and not done.stderr, done


def a_path_that_an_engine_would_cut_is_refused():
    with Rig() as rig:
        env = libraries_in(os.path.join(rig.dir, "a,b"))
        done = rig.divvy("run", "--request", "0.1", "--container", "docker", "--dry-run", "--", "run", "image", env=env)
        refused(done, 125, "a,b/libdivvy-cuda.so", "comma", "--mount")
        env = libraries_in(os.path.join(rig.dir, "a b:c"))
        done = rig.divvy(
            "run", "-q", "--request", "0.1", "--container", "docker", "--dry-run", "--", "run", "image", env=env
        )
        for name in "libdivvy-cuda.so", "libdivvy-cudart-13.so":
            assert done.returncode == 0 and f"a b:c/{name},target=" in done.stdout, done


def a_runtime_folder_may_have_any_name():
    with Rig(daemon=False) as rig:
        folder = os.path.join(rig.dir, "my run:time,folder")
        os.mkdir(folder, 0o700)
        rig.env["DIVVY_RUNTIME_DIR"] = folder
        rig.start()
        done = rig.divvy("run", "-q", "--request", "0.1", "--", SPIN, "--duration=0.1")
        assert done.returncode == 0 and not done.stderr, done


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spin_uses_processor_time_for_its_kernels():
    """A batch is ten kernels of 1 ms; the program ends after the 20th batch."""
    with Rig() as rig:
        before_s = processor_s()
        done = rig.divvy("run", "-q", "--request", "0.1", "--", SPIN, "--count=200", "--host-us=1000")
        assert done.returncode == 0 and '"kernels": 200' in done.stdout, done
        assert processor_s() - before_s > 0.18, processor_s() - before_s


main(
    a_path_that_the_loader_would_cut_is_refused,
    a_path_that_an_engine_would_cut_is_refused,
    a_runtime_folder_may_have_any_name,
    spin_uses_processor_time_for_its_kernels,
    sanitized_programs_run,
    sanitized_programs_run_with_a_remote_device,
    deep_bound_modules_find_the_tenants_device,
    the_library_path_has_each_folder_once,
    musl_programs_run_without_divvys_libraries,
    musl_programs_in_containers_run_without_divvys_libraries,
)
