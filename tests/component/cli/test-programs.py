#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy run with programs that are not built as most are: each behaves as it does alone."""

import os
import tempfile

from rig import Rig, Skip, main

from builds import musl, sanitized


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
    # these two allow no memory at most addresses, and device memory has the addresses of the other side
    run_sanitized("--remote", "local", without=("thread", "memory"))


# Does what an engine does with our options, for a container that has all of this machine's files.
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
assert env["LD_PRELOAD"].count("/libdivvy-") == 2, env
os.execve(rest[1], rest[1:], env)
"""


def musl_program(folder):
    program = musl(folder)
    if not program:
        raise Skip("no musl-gcc here")
    assert not program[1], program[1]
    return program[0]


def musl_programs_are_left_alone():
    with Rig() as rig, tempfile.TemporaryDirectory() as folder:
        program = musl_program(folder)
        # with a remote device musl does not take our library for libcuda.so.1: it has another file name
        for options, found in ((), 100), (("--remote", "local"), -1):
            done = rig.divvy("run", "-q", "--request", "0.1", *options, "--", program)
            assert (done.returncode, done.stdout, done.stderr) == (5, f"cuInit: {found}\n", ""), (options, done)


def musl_programs_of_a_container_are_left_alone():
    with Rig() as rig, tempfile.TemporaryDirectory() as folder:
        program = musl_program(folder)
        engine = os.path.join(folder, "docker")
        with open(engine, "w", encoding="utf-8") as f:
            f.write(ENGINE)
        os.chmod(engine, 0o755)
        done = rig.divvy("run", "-q", "--request", "0.1", "--container", "docker", "--", "run", "image", program,
                         env={"PATH": f"{folder}:{os.environ['PATH']}"})
        assert (done.returncode, done.stdout, done.stderr) == (5, "cuInit: 100\n", ""), done


main(sanitized_programs_run, sanitized_programs_run_with_a_remote_device, musl_programs_are_left_alone,
     musl_programs_of_a_container_are_left_alone)
