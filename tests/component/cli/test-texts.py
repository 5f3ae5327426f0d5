#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages in docs/man are those of the tables; completions complete; --help fits the terminal."""

import filecmp
import os
import shutil
import subprocess
import tempfile

from rig import DIVVY, SOURCE, main

COMMANDS = [line.split()[0] for line in subprocess.run([DIVVY, "help"], capture_output=True, text=True,
            check=True).stdout.splitlines() if line[:2] == "  " and line[2:3].isalpha()]


def man_pages_are_current():
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([DIVVY, "--dump-man", made], check=True)
        kept = os.path.join(SOURCE, "docs/man")
        names = sorted(n for n in os.listdir(kept) if n.startswith("divvy") and not n.startswith("divvyd"))
        assert sorted(os.listdir(made)) == names, "divvy --dump-man docs/man makes them"
        same, different, odd = filecmp.cmpfiles(made, kept, names, shallow=False)
        assert not different and not odd, (different, "divvy --dump-man docs/man makes them anew")
        assert len(same) == len(COMMANDS) + 1


def man_accepts_them():
    if not shutil.which("man"):
        return
    for command in COMMANDS:
        page = os.path.join(SOURCE, f"docs/man/divvy-{command}.1")
        done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat"})
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert f"divvy-{command}" in done.stdout


def help_fits():
    for command in COMMANDS:
        done = subprocess.run([DIVVY, command, "--help"], capture_output=True, text=True, check=True)
        assert all(len(line) <= 100 for line in done.stdout.splitlines()), command
        assert subprocess.run([DIVVY, "help", command], capture_output=True, text=True,
                              check=True).stdout == done.stdout


def complete(*words):
    script = ('eval "$("$DIVVY" completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _divvy; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script, "bash", *words], env={**os.environ, "DIVVY": DIVVY},
                          capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    return done.stdout.split()


def bash_completes():
    assert complete("divvy", "de") == ["devices"]
    assert set(COMMANDS) == set(complete("divvy", ""))
    assert complete("divvy", "run", "--mem") == ["--memory", "--memory-policy"]
    assert complete("divvy", "run", "--class", "la") == ["latency"]
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


main(man_pages_are_current, man_accepts_them, help_fits, bash_completes, zsh_and_fish_name_everything)
