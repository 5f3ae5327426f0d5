# SPDX-License-Identifier: Apache-2.0
"""Finds the sentences that people wrote: in Markdown, and in comments of C, assembly, shell and Python."""
import re

from ours import ROOT, ours

# Pages that programs write, from texts in other files.
GENERATED = re.compile(
    r"docs/(?:reproduction|benchmarks|soak|remote-api|simulated-api|cudart-api|dialects)\.md|docs/reproduction/|docs/man/"
)
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*\[]|divvy|kube|simgpu|cgroup)")
C_COMMENT = re.compile(r"/\*(.*?)\*/|//([^\n]*)", re.DOTALL)
HASH_COMMENT = re.compile(r"^[ \t]*#(?!!)(.*)$", re.MULTILINE)


def files():
    """The names of the files with prose that people wrote."""
    return [name for name in ours() if not GENERATED.match(name) and not name.startswith("tests/fuzz/corpus/")]


def paragraphs_of_markdown(text):
    """(first line, text) of prose: neither code nor tables, each item of a list by itself."""
    begun, words, is_code = 0, [], False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        is_fence = stripped.startswith("```")
        is_code ^= is_fence
        is_break = (
            is_fence or is_code or not stripped or stripped[0] in "|#<" or (not words and line.startswith("    "))
        )
        if (is_break or re.match(r"[-*] |\d+\. ", stripped)) and words:
            yield begun, " ".join(words)
            words = []
        if not is_break:
            begun = begun if words else number
            words.append(re.sub(r"^([-*]|\d+\.) +", "", stripped))
    if words:
        yield begun, " ".join(words)


def paragraphs_of_comments(text, pattern):
    for match in pattern.finditer(text):
        said = next(group for group in match.groups() if group is not None)
        for paragraph in re.split(r"\n[ \t*]*\n", said):
            words = " ".join(re.sub(r"^[ \t]*\*+ ?", "", line).strip() for line in paragraph.split("\n")).strip()
            if words:
                yield text.count("\n", 0, match.start()) + 1, words


def sentences(paragraph):
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    return [s.strip("*_ ") for s in SENTENCE_END.split(plain) if s.strip()]


def prose_of(name):
    """(line, paragraph) of the file's prose."""
    text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
    if name.endswith(".md"):
        return list(paragraphs_of_markdown(text))
    if name.endswith((".c", ".h", ".def", ".S")):
        return list(paragraphs_of_comments(text, C_COMMENT))
    if name.endswith((".py", ".sh", ".yaml", "meson.build")) or text.startswith("#!"):
        return list(paragraphs_of_comments(text, HASH_COMMENT))
    return []
