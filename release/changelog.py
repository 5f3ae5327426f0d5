# SPDX-License-Identifier: Apache-2.0
"""Writes the section of a release into CHANGELOG.md, from the subjects of the commits since the release before. A
person then writes the section for users: a draft is marked as one until that is done."""

import collections
import datetime
import re
import subprocess

DRAFT = "<!-- draft: write this section for users, then delete this line -->\n"
HEADING = re.compile(r"(?m)^## (\d+\.\d+\.\d+)(?: \(([^)]*)\))?$")
SUBJECT = re.compile(r"([a-z0-9][a-z0-9./-]*)(?:, [a-z0-9./-]+)*: (.*)")
# Areas whose commits no user notices.
INTERNAL = {"adr", "docs", "tests", "bench", "ci", "scripts", "lint", "reproduce", "fuzz", "release"}
MOST_ROWS = 2000


def subjects_since(root, tag):
    """The subjects of the commits since a tag, or of all commits, oldest first."""
    span = [f"{tag}..HEAD"] if tag else ["HEAD"]
    argv = ["git", "-C", root, "log", "--reverse", "--no-merges", "--format=%s", f"--max-count={MOST_ROWS}", *span]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


def drafted(version, subjects):
    """The draft of a section: the commits of each area."""
    areas = collections.defaultdict(list)
    for subject in subjects:
        match = SUBJECT.fullmatch(subject)
        area = match.group(1).partition("/")[0] if match else "other"
        if area not in INTERNAL:
            areas[area].append(match.group(2) if match else subject)
    today = datetime.date.today().isoformat()
    text = f"## {version} ({today})\n\n{DRAFT}"
    for area in sorted(areas):
        text += f"\n### {area}\n" + "".join(f"- {row}\n" for row in areas[area])
    return text + "\n"


def state_of(text, version):
    """What the text has of a version: "absent", "draft", "not released" or "ready"."""
    sections = {match.group(1): match for match in HEADING.finditer(text)}
    if version not in sections:
        return "absent"
    begin = sections[version].end()
    following = HEADING.search(text, begin)
    if DRAFT in text[begin : following.start() if following else len(text)]:
        return "draft"
    return "not released" if sections[version].group(2) == "not released" else "ready"


def with_draft(text, version, subjects):
    """The text with a new first section."""
    first = HEADING.search(text)
    begin = first.start() if first else len(text)
    return text[:begin] + drafted(version, subjects) + text[begin:]


def dated(text, version):
    """The text, in which the section of a version has today's date instead of "not released"."""
    today = datetime.date.today().isoformat()
    return text.replace(f"## {version} (not released)\n", f"## {version} ({today})\n")
