# SPDX-License-Identifier: Apache-2.0
"""The table of results, and the page docs/programs.md."""

import json
import os
import textwrap

import records
from settings import DEVICE, SETTINGS

COLUMNS = {**{name: setting.title for name, setting in SETTINGS.items()}, "quota": "quota too small"}
WHERE = {"all": "every setting", "none": "not run", **COLUMNS}
NAMES_SHOWN = 4
HEAD = """# Other people's programs

`make programs` fetches fixed versions of these programs and runs them unchanged on a **simulated** device, {device}, which the
machine's processors compute. No number on this page comes from hardware. tests/third-party/run made this page.

A cell says how many tests passed, of those that were not skipped. In a cell with `(part)`, only a part of the tests ran, which
tests/third-party/programs.py names. In the column `quota too small`, the program allocates more memory than its tenant has: `its own
error` says that the program ended with the error of its own library.

"""
TESTS = """
`Tests of ours` are in tests/third-party/own. Taichi and cuda-python publish no tests with their packages.

## Tests that fail or do not run

The run fails if another test fails, or if one of these passes.

"""


def result_of(folder, program, name):
    path = os.path.join(folder, f"{program.name}-{name}.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def table(folder, programs):
    """Markdown, which is readable as text, too."""
    rows = [["program", "version", *COLUMNS.values(), "date"]]
    rows.append(["---"] * len(rows[0]))
    for program in programs:
        results = {name: result_of(folder, program, name) for name in COLUMNS}
        newest = max(results.values(), key=lambda result: result.get("date", ""))
        if newest:
            cells = [result.get("text", "-") for result in results.values()]
            rows.append([program.title, newest["version"], *cells, newest["date"]])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def reasons(program):
    """Rows of the known failures; failures with the same reason are one row."""
    found = {}
    for known in records.read_known(program.name):
        found.setdefault((known.setting, known.reason), []).append(known.test.rpartition("::")[2])
    for (setting, reason), tests in found.items():
        names = ", ".join(f"`{test}`" for test in tests[:NAMES_SHOWN])
        more = f" and {len(tests) - NAMES_SHOWN} more" if len(tests) > NAMES_SHOWN else ""
        yield f"| {program.name} | {WHERE[setting]} | {names}{more} | {reason} |\n"


def paragraphs(text):
    """Lines of at most 100 columns."""
    wrapped = (p if p.startswith("#") else textwrap.fill(p, 100, break_on_hyphens=False) for p in text.split("\n\n"))
    return "\n\n".join(wrapped).rstrip() + "\n\n"


def notes(folder, programs):
    """A result that did not come from one run alone has a note."""
    found = [(program, name, result_of(folder, program, name).get("note")) for program in programs for name in COLUMNS]
    return "".join(paragraphs(f"{program.title}, {COLUMNS[name]}: {note}") for program, name, note in found if note)


def write(path, folder, programs):
    text = paragraphs(HEAD.format(device=DEVICE)) + table(folder, programs) + "\n\n"
    text += notes(folder, programs) + paragraphs(TESTS.lstrip())
    text += "| program | where | tests | reason |\n|---|---|---|---|\n"
    text += "".join(row for program in programs for row in reasons(program))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
