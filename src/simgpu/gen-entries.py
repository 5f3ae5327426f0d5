#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completes the simulated driver: writes what cuda.def names and the sources do not define.

usage: gen-entries.py --c OUT.c CUDA.DEF SOURCE...     the missing entry points, in C
       gen-entries.py --docs CUDA.DEF NVML.DEF CU_SOURCE...   the list, Markdown

A per-thread form (_ptds, _ptsz) calls the plain one with the thread's default stream; an older or
newer form with the same parameters calls the one that is defined; the rest answers
CUDA_ERROR_NOT_SUPPORTED.
"""
import re
import sys


def split_arguments(text):
    """The parts between top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c == '(':
            depth += 1
        elif c == ')':
            depth -= 1
        elif c == ',' and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return parts


class Entry:
    def __init__(self, fields, nvml):
        self.name = fields[0]
        self.since = int(fields[1]) if not nvml and fields[1].isdigit() else 0
        self.variant = 'NONE' if nvml else fields[2]
        self.params, self.args = fields[-2], fields[-1]
        self.simgpu = fields[3] if nvml else None  # how the simulated library answers
        self.base = re.sub(r'(_v\d+)?(_pt[ds][sz])?$', '', self.name)
        self.plain = re.sub(r'_pt[ds][sz]$', '', self.name)


def read_def(path, macro):
    entries = []
    for line in open(path):
        if line.startswith(macro + '('):
            inner = line.strip()[len(macro) + 1:]
            entries.append(Entry(split_arguments(inner[:inner.rindex(')')]), macro != 'CU'))
    return entries


def read_defined(paths):
    """Names of the entry points that the sources define, macros that define two included."""
    defined = set()
    for path in paths:
        text = open(path).read()
        defined |= set(re.findall(r'^\s*CU_EXPORT CUresult (\w+)\(', text, re.M))
        for macro, args in re.findall(r'^(FILL(?:_2D)?)\((\w+),', text, re.M):
            defined |= {'cuMemset%s_v2' % args, 'cuMemset%sAsync' % args}
    return defined


def plan(entries, defined):
    """What each entry is: defined, a form of another (its name), or None for a stub."""
    by_name = {e.name: e for e in entries}
    made = {}

    def resolve(e):
        if e.name in defined:
            return 'defined'
        if e.variant != 'NONE':
            target = e.plain if e.plain in by_name else None
            return target if target and resolve(by_name[target]) else None
        for other in entries:
            if (other.base == e.base and other.variant == 'NONE' and other.name in defined and
                    other.params == e.params):
                return other.name
        return None

    for e in entries:
        made[e.name] = resolve(e)
    return made


def write_c(out, entries, made):
    w = open(out, 'w')
    w.write('/* Made by gen-entries.py from cuda.def: do not edit. */\n#include "simgpu/cu.h"\n\n')
    for e in entries:
        how = made[e.name]
        if how == 'defined':
            continue
        w.write('CU_EXPORT CUresult %s%s\n{\n' % (e.name, e.params))
        if how is None:
            w.write('\tCU_ENTER();\n\treturn CUDA_ERROR_NOT_SUPPORTED;\n')
        elif e.variant == 'NONE':
            w.write('\treturn %s%s;\n' % (how, e.args if e.args != '(void)' else '()'))
        else:
            w.write('\tCUresult r;\n\n\tcu_thread.per_thread++;\n\tr = %s%s;\n'
                    '\tcu_thread.per_thread--;\n\treturn r;\n' % (how, e.args))
        w.write('}\n\n')
    w.close()


def columns(names):
    return ''.join('- `%s`\n' % n for n in sorted(names))


def write_docs(title, entries, made):
    kinds = {'simulated': [], 'forwarded': [], 'stubbed': []}
    for e in entries:
        how = made[e.name]
        if how == 'defined':
            kinds['simulated'].append(e.name)
        elif how:
            kinds['forwarded'].append('%s` (as `%s' % (e.name, how))
        else:
            kinds['stubbed'].append(e.name)
    print('## %s\n' % title)
    print('%d entry points: %d simulated, %d other forms of these, %d answer "not supported".\n' %
          (len(entries), len(kinds['simulated']), len(kinds['forwarded']), len(kinds['stubbed'])))
    print('### Simulated\n\n' + columns(kinds['simulated']))
    if kinds['forwarded']:
        print('### Other forms\n\n' + columns(n + '`)' if '(as' in n else n
                                               for n in kinds['forwarded']).replace('`)`', '`)'))
    print('### Not supported\n\n' + columns(kinds['stubbed']))


def main(argv):
    if argv[0] == '--c':
        entries = read_def(argv[2], 'CU')
        write_c(argv[1], entries, plan(entries, read_defined(argv[3:])))
        return 0
    entries = read_def(argv[1], 'CU')
    nvml = read_def(argv[2], 'NVML')
    print('# The simulated driver\n')
    print('Made by scripts/gen-sim-docs from src/cuda/*.def and src/simgpu. What is in neither list '
          'is absent.\n')
    write_docs('libcuda.so.1', entries, plan(entries, read_defined(argv[3:])))
    write_docs('libnvidia-ml.so.1', nvml,
               {e.name: None if e.simgpu == 'NONE' else 'defined' for e in nvml})
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
