# SPDX-License-Identifier: Apache-2.0
"""Reads from a program or library which other files its loader needs. Knows 64-bit little-endian ELF, as all
architectures of divvy use."""

import struct

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB = 1, 5


def is_elf(data):
    return isinstance(data, bytes) and data[:6] == b"\x7fELF\x02\x01"


def text_at(data, offset):
    return data[offset : data.index(b"\0", offset)].decode()


def segments(data):
    """(type, offset, address, size in the file) of each segment."""
    begin = struct.unpack_from("<Q", data, 32)[0]
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, address, _, in_file = struct.unpack_from("<IIQQQQ", data, begin + i * size)
        yield kind, offset, address, in_file


def needed(data):
    """The names of the libraries and the path of the loader that an ELF file names."""
    if not is_elf(data):
        return []
    found, tags, loads = [], [], []
    for kind, offset, address, size in segments(data):
        if kind == PT_INTERP:
            found.append(text_at(data, offset))
        elif kind == PT_LOAD:
            loads.append((address, offset, size))
        elif kind == PT_DYNAMIC:
            tags = list(struct.iter_unpack("<QQ", data[offset : offset + size // 16 * 16]))
    strings = next((value for tag, value in tags if tag == DT_STRTAB), None)
    for address, offset, size in loads:
        if strings is not None and address <= strings < address + size:
            table = strings - address + offset
            found += [text_at(data, table + value) for tag, value in tags if tag == DT_NEEDED]
            break
    return found
