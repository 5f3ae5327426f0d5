#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a header of macros out of text files: embed-text.py OUT.h FILE.txt...

A line "[name]" begins a section, which becomes the macro TEXT_FILE_NAME. Lines of a paragraph are
joined, and an empty line ends it. A line behind a tab stands for itself, without the tab.
{UPPER} is a macro of C; {lower} makes the section a macro with that parameter. The section
"[name: terms]" becomes {"term", "text"}, ...: each line without a tab is a term, and the lines
behind a tab that follow are its text.
"""
import pathlib
import re
import sys

HEADING = re.compile(r"\[([a-z][a-z0-9 -]*)(: terms)?\]")
PLACE = re.compile(r"\{([A-Za-z_]+)\}")


def sections_of(path):
    """(name, has terms, lines) of each section; the lines lack empty ones at both ends."""
    sections = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        heading = HEADING.fullmatch(line)
        if heading:
            sections.append((heading.group(1), bool(heading.group(2)), []))
        elif sections:
            sections[-1][2].append(line)
        elif line:
            sys.exit(f"{path}:{number}: text before the first section: begin with a line '[name]'")
    return [(name, has_terms, "\n".join(lines).strip("\n").split("\n")) for name, has_terms, lines in sections]


def join(lines):
    text = ""
    for line in lines:
        if not line:
            text += "\n\n"
        elif line[0] == "\t":
            text += "\n" * (text[-1:] not in ("", "\n")) + line[1:]
        else:
            text += " " * (text[-1:] not in ("", "\n")) + line
    return text


def literal(text):
    """The text as a C string literal; bytes that are not plain ASCII are in octal."""

    def quote(byte):
        return chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}"

    pieces = PLACE.split(text)
    for i, piece in enumerate(pieces):
        pieces[i] = f'" {piece} "' if i % 2 else "".join(map(quote, piece.encode()))
    return '"' + "".join(pieces) + '"'


def pairs(lines):
    """The C initialisers of an array of pairs (term, text)."""
    terms = []
    for line in lines:
        if line[:1] == "\t":
            terms[-1][1].append(line[1:])
        elif line:
            terms.append((line, []))
    return ", ".join(f"{{{literal(term)}, {literal(join(text))}}}" for term, text in terms)


def macro(stem, name, has_terms, lines):
    parameters = dict.fromkeys(p for p in PLACE.findall("\n".join(lines)) if p.islower())
    word = re.sub(r"[^A-Z0-9]", "_", f"TEXT_{stem}_{name}".upper())
    head = f"{word}({', '.join(parameters)})" if parameters else word
    return (
        word,
        f"#define {head} {pairs(lines) if has_terms else literal(join(lines))}\n",
    )


def main():
    out, paths = pathlib.Path(sys.argv[1]), [pathlib.Path(p) for p in sys.argv[2:]]
    macros = [macro(path.stem, *section) for path in paths for section in sections_of(path)]
    words = [word for word, _ in macros]
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice:
        sys.exit(f"{', '.join(twice)}: each section needs a name of its own")
    text = "/* Made by embed-text.py. */\n#pragma once\n\n" + "".join(define for _, define in macros)
    out.write_text(text, encoding="utf-8")


main()
