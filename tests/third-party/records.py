# SPDX-License-Identifier: Apache-2.0
"""Outcomes of tests: the lines that record.py writes, and the lists of known failures in known/."""

import collections
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
CRASHED = "the process ended"
KNOWN_LINE = re.compile(r"(\S+) (.+?): (.+)")

Outcome = collections.namedtuple("Outcome", "kind reason")
Known = collections.namedtuple("Known", "setting test reason")


def read(path):
    """{test: Outcome}. A test has several lines: its start, its parts, its end. The worst outcome counts."""
    rank = {None: 0, "passed": 1, "skipped": 2, "failed": 3}
    found = {}
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        for line in map(json.loads, f):
            new = Outcome(line.get("outcome"), line.get("reason", ""))
            old = found.setdefault(line["test"], new)
            if rank[new.kind] > rank[old.kind]:
                found[line["test"]] = new
    return {test: outcome if outcome.kind else Outcome("failed", CRASHED) for test, outcome in found.items()}


def counts(outcomes):
    """(passed, all that were not skipped)."""
    kinds = collections.Counter(outcome.kind for outcome in outcomes.values())
    return kinds["passed"], kinds["passed"] + kinds["failed"]


def read_known(program):
    """The lines `SETTING TEST: reason` of known/PROGRAM.txt. The setting `all` is any, `none` says that the test is left out."""
    path = os.path.join(HERE, "known", program + ".txt")
    if not os.path.exists(path):
        return []
    known = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.strip() and not line.startswith("#"):
                match = KNOWN_LINE.fullmatch(line.strip())
                assert (
                    match
                ), f"{path}:{number}: a line is `SETTING TEST: reason`, for example `all test_a.py::f: needs SASS`"
                known.append(Known(*match.groups()))
    return known


def left_out(program):
    """Patterns of the names of tests that do not run: they say nothing about divvy, or hang."""
    return [known.test for known in read_known(program) if known.setting == "none"]


def compare(program, setting, outcomes, is_whole=True):
    """A line for each difference between the failures and the list: a new failure, or one that has vanished."""
    known = {k.test for k in read_known(program) if k.setting in ("all", setting)}
    failed = {test: o.reason for test, o in outcomes.items() if o.kind == "failed"}
    lines = [f"{program}, {setting}: {test} fails: {why}" for test, why in failed.items() if test not in known]
    for test in sorted(known - set(failed)):
        if test in outcomes or is_whole:
            what = "is skipped" if test in outcomes and outcomes[test].kind == "skipped" else "passes"
            what = what if test in outcomes else "does not exist"
            lines.append(f"{program}, {setting}: {test} {what}, but known/{program}.txt lists it as a failure")
    return lines
