#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages in docs/man match the option tables, completions complete, and --help fits the
terminal."""

import filecmp
import os
import shutil
import subprocess
import tempfile

from rig import BUILD, DIVVY, DIVVYD, SOURCE, main

SIMCTL = os.path.join(BUILD, "src/simgpu/divvy-simctl")
ENGINE = os.path.join(BUILD, "src/simgpu/divvy-sim-engine")
SCHEDULER = os.path.join(BUILD, "src/scheduler/divvy-scheduler")
CONTROLLER = os.path.join(BUILD, "src/controller/divvy-controller")
KUBECTL = os.path.join(BUILD, "src/kubectl/kubectl-divvy")


def commands_of(program):
    done = subprocess.run([program, "help"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line[:2] == "  " and line[2:3].isalpha()]


COMMANDS, KUBECTL_COMMANDS = commands_of(DIVVY), commands_of(KUBECTL)


def man_pages_are_current():
    with tempfile.TemporaryDirectory() as made:
        makers = [DIVVY, SIMCTL, SCHEDULER, KUBECTL] + ([DIVVYD, CONTROLLER] if os.path.exists(DIVVYD) else [])
        for maker in makers:
            subprocess.run([maker, "--dump-man", made], check=True)
        kept = os.path.join(SOURCE, "docs/man")
        names = sorted(n for n in os.listdir(kept) if DIVVYD in makers or n.endswith(".1") or n == "divvy-scheduler.8")
        assert sorted(os.listdir(made)) == names, "docs/man has exactly the pages of --dump-man"
        same, different, odd = filecmp.cmpfiles(made, kept, names, shallow=False)
        assert not different and not odd, (different, "--dump-man docs/man updates these pages")
        assert len(same) == len(COMMANDS) + 3 + len(KUBECTL_COMMANDS) + 1 + 3 * (DIVVYD in makers)


def man_shows_the_pages_without_warnings():
    if not shutil.which("man"):
        return
    for name in sorted(os.listdir(os.path.join(SOURCE, "docs/man"))):
        page = os.path.join(SOURCE, "docs/man", name)
        done = subprocess.run(
            ["man", "--warnings", "-l", page],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat"},
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert name.rpartition(".")[0] in done.stdout


def help_fits_the_terminal():
    assert "faults" in subprocess.run([DIVVY, "run", "--help"], capture_output=True, text=True, check=True).stdout
    for program, command in [(DIVVY, c) for c in COMMANDS] + [(KUBECTL, c) for c in KUBECTL_COMMANDS]:
        done = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True)
        assert all(len(line) <= 100 for line in done.stdout.splitlines()), command
        assert (
            subprocess.run([program, "help", command], capture_output=True, text=True, check=True).stdout == done.stdout
        )


def pages_name_every_option_of_divvyd():
    if not os.path.exists(DIVVYD):
        return
    listed = subprocess.run([DIVVYD, "--help"], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(SOURCE, "docs/man/divvyd.8"), encoding="utf-8") as f:
        page = f.read().replace("\\-", "-")
    options = [line.split()[0].split("[")[0] for line in listed.splitlines() if line.startswith("  --")]
    assert len(options) > 10 and all(option in page for option in options)
    assert "faults" in listed and all(kind in page for kind in ("oom", "ecc", "lost", "hang", "slow"))
    with open(os.path.join(SOURCE, "docs/man/tenants.conf.5"), encoding="utf-8") as f:
        page = f.read()
    assert all(word in page for word in ("uid", "gid", "cgroup", "default", "request", "memory", "class"))


def tools_describe_themselves():
    for tool in (SIMCTL, ENGINE):
        for option in ("--help", "-h"):
            done = subprocess.run([tool, option], capture_output=True, text=True, check=True)
            assert "  -h, --help " in done.stdout and "  --dir DIR " in done.stdout, done.stdout
        done = subprocess.run([tool, "--nonsense"], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "--nonsense: unknown" in done.stderr, done


def complete(*words):
    script = (
        'eval "$("$DIVVY" completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _divvy; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("divvy-pro", "divvy-file"):
            with open(os.path.join(folder, name), "w", encoding="utf-8"):
                pass
        os.chmod(os.path.join(folder, "divvy-pro"), 0o755)
        env = {**os.environ, "DIVVY": DIVVY, "PATH": folder + ":" + os.environ["PATH"]}
        done = subprocess.run(
            ["bash", "-c", script, "bash", *words], env=env, cwd=folder, capture_output=True, text=True, check=True
        )
    assert not done.stderr, done.stderr
    return done.stdout.split()


def bash_completes():
    assert complete("divvy", "de") == ["devices"]
    assert set(COMMANDS) == set(complete("divvy", ""))
    assert complete("divvy", "run", "--mem") == ["--memory", "--memory-policy"]
    assert complete("divvy", "run", "--class", "la") == ["latency"]
    # bash splits words at =
    assert complete("divvy", "run", "--class", "=") == ["latency", "standard", "opportunistic"]
    assert complete("divvy", "run", "--class", "=", "la") == ["latency"]
    # The completion finds the program after any options, and offers no divvy options among the
    # program's arguments.
    for before in ((), ("--",), ("-q", "--request", "0.5", "--class", "=", "latency", "--wait", "=", "1m", "--")):
        assert "divvy-pro" in complete("divvy", "run", *before, "divvy-p")
        assert complete("divvy", "run", *before, "divvy-pro", "--m") == []
        assert complete("divvy", "run", *before, "divvy-pro", "divvy-f") == ["divvy-file"]
        assert complete("divvy", "run", *before, "divvy-pro", "--class", "=", "divvy-f") == ["divvy-file"]
    assert "divvy-pro" in complete("divvy", "run", "--", "")
    assert complete("divvy", "run", "--request", "0.5", "--mem") == ["--memory", "--memory-policy"]
    assert complete("divvy", "ps", "-o", "j") == ["json"]
    assert complete("divvy", "completion", "z") == ["zsh"]
    assert "report" in complete("divvy", "help", "rep")


def zsh_and_fish_name_everything():
    for shell in ("zsh", "fish"):
        text = subprocess.run([DIVVY, "completion", shell], capture_output=True, text=True, check=True).stdout
        assert all(command in text for command in COMMANDS)
        assert "memory-policy" in text and "opportunistic" in text
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=text, text=True, check=True)


main(
    man_pages_are_current,
    man_shows_the_pages_without_warnings,
    pages_name_every_option_of_divvyd,
    help_fits_the_terminal,
    tools_describe_themselves,
    bash_completes,
    zsh_and_fish_name_everything,
)
