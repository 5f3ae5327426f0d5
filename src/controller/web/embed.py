#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the page's files as C: embed.py OUT FILE... makes web_files[] of web-files.h."""
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def literal(data):
    """Returns the data as C string literals, one for each line; other bytes than plain ASCII are octal escapes."""
    lines = data.splitlines(keepends=True)
    return "\n".join(
        '\t"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in line) + '"'
        for line in lines
    )


def main():
    out, paths = sys.argv[1], [pathlib.Path(p) for p in sys.argv[2:]]
    text = '/* Made by embed.py. */\n#include "controller/web-files.h"\n\n'
    rows = []
    for path in paths:
        data = path.read_bytes()
        name = path.suffix[1:]
        text += f"static const char {name}[] =\n{literal(data)};\n\n"
        url = "/" if path.suffix == ".html" else "/" + path.name
        tag = hashlib.sha256(data).hexdigest()[:16]
        rows.append(
            f'\t{{"{url}", "{TYPES[path.suffix]}; charset=utf-8", "\\"{tag}\\"", '
            f"{{{name}, sizeof({name}) - 1}}}},\n"
        )
    text += "const struct web_file web_files[WEB_N_FILES] = {\n" + "".join(rows) + "};\n"
    pathlib.Path(out).write_text(text, encoding="utf-8")


main()
