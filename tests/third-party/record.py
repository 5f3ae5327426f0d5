# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: writes one line of JSON for each test, as soon as the test has ended, to the file $DIVVY_RECORD. A test that
ends the whole process leaves a line without an outcome, so that the runner knows its name. The plugin leaves out the tests that
are in the file already, those that a pattern in the lines of $DIVVY_LEFT_OUT matches, and all that the expression $DIVVY_SUBSET does
not match. With $DIVVY_SHARD, such as 0/4, about each fourth test runs."""

import fnmatch
import json
import os
import re
import zlib

import pytest

LONGEST = 300  # characters of a reason


def write(**line):
    with open(os.environ["DIVVY_RECORD"], "a", encoding="utf-8") as f:
        f.write(json.dumps(line) + "\n")


def name_of(item):
    """The module below its folder of tests, the class and the function."""
    return re.sub(r"^.*/(tests?|own)/", "", item.nodeid)


def reason_of(report):
    """The last line of the error that pytest shows."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr or "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else "")[:LONGEST]


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Numba's own conftest.py, which its package lacks, has this fixture for an option that we do not use."""
    request.cls._dump_failed_filechecks = False


def pytest_collection_modifyitems(items):
    left_out, done = os.environ.get("DIVVY_LEFT_OUT", "").splitlines(), set()
    if os.path.exists(os.environ["DIVVY_RECORD"]):
        with open(os.environ["DIVVY_RECORD"], encoding="utf-8") as f:
            done = {json.loads(line)["test"] for line in f}
    wanted = re.compile(os.environ.get("DIVVY_SUBSET", ""))
    shard, shards = map(int, os.environ.get("DIVVY_SHARD", "0/1").split("/"))

    def is_chosen(name):
        return (
            name not in done
            and wanted.search(name)
            and zlib.crc32(name.encode()) % shards == shard
            and not any(fnmatch.fnmatchcase(name, pattern) for pattern in left_out)
        )

    items[:] = [item for item in items if is_chosen(name_of(item))]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    write(test=name_of(item))
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else reason_of(report)
        write(test=name_of(item), outcome="skipped", reason=str(getattr(report, "wasxfail", reason))[:LONGEST])
    elif report.failed:
        write(test=name_of(item), outcome="failed", reason=reason_of(report))
    elif report.when == "call":
        write(test=name_of(item), outcome="passed", s=round(report.duration, 2))
