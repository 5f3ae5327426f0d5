#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the experiments of the systems before divvy, judges them by goals.yaml, draws them, and writes
the page. usage: run.py [--out FOLDER] [--page]; ONLY=K4,G5 for some, QUICK=1 for short ones. With more than two
processors several run at once, two for each.

Each experiment is a line of reproduction.jsonl in out/reproduction, and pictures beside it. Once all that
are built have a line there, or with --page of those that have, they go to docs/reproduction/, where those
of the others stay, and docs/reproduction.md is written of all; before, and of quick ones, the page is
beside the lines."""

import argparse
import concurrent.futures
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import traceback

import judge
import page
from node import Node
from place import Place

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BUILD = pathlib.Path(os.environ.get("DIVVY_BUILD", ROOT / "build"))
# Virtual time costs little, and rare events make its intervals wide; real programs take their time.
SEEDS = {"virtual": 20}
SEEDS_OF_OTHERS = 5
QUICK_SEEDS = {"virtual": 4}
QUICK_SEEDS_OF_OTHERS = 2
# A device, its daemon and the programs before it keep two processors busy.
LANES = max(1, len(os.sched_getaffinity(0)) // 2)

SKIP = 77  # on_cluster.py's status


class Skipped(Exception):
    """It cannot be run on this machine, as has been said."""


def seeds_of(means, quick):
    if quick:
        return QUICK_SEEDS.get(means, QUICK_SEEDS_OF_OTHERS)
    return SEEDS.get(means, SEEDS_OF_OTHERS)


class World:
    """What an experiment is given: where to run, how much of it, and where its figures go."""

    def __init__(self, name, experiment, folder, quick):
        self.name = name
        self.folder = folder
        self.quick = quick
        self.seeds = seeds_of(experiment["means"], quick)
        self.build = BUILD
        self.place = Place(BUILD / "src/cli/divvy", self.seeds)
        self.measured = {}
        self.pictures = []

    def node(self, **options):
        return Node(self.build, **options)

    def on_cluster(self, what, sizes):
        """What on_cluster.py measures there, row by row, in as many rounds as there are seeds."""
        command = [sys.executable, ROOT / "reproduce/on_cluster.py", what, ",".join(map(str, sizes)), str(self.seeds)]
        env = {**os.environ, "DIVVY_BUILD": str(self.build), "DIVVY_SOURCE": str(ROOT)}
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as rows:
            try:
                for line in rows.stdout:
                    if line.startswith("{"):  # the rest is for people: that it waits, or its logs where it fails
                        yield json.loads(line)
                    else:
                        print(line, end="", file=sys.stderr)
                rows.wait()
            finally:
                rows.terminate()
        if rows.returncode == SKIP:
            raise Skipped
        if rows.returncode:
            raise RuntimeError(f"on_cluster.py {what} has ended with {rows.returncode}")

    def few(self, values):
        """All of a sweep; where it is to be quick its ends and the middle."""
        return [values[0], values[len(values) // 2], values[-1]] if self.quick else values

    def note(self, words):
        if sys.stderr.isatty():
            print(f"\r\033[K{self.name}: {words}", end="", file=sys.stderr, flush=True)

    def measure(self, **metrics):
        """A value for each seed; or a number, which is exact."""
        self.measured.update({name: judge.estimate(values) for name, values in metrics.items()})

    def draw(self, svg, part=""):
        name = f"{self.name}{'-' + part if part else ''}.svg"
        (self.folder / name).write_text(svg, encoding="utf-8")
        self.pictures.append(name)


def built():
    return sorted(p.stem.upper() for p in (ROOT / "reproduce/experiments").glob("*.py"))


def module_of(name):
    return importlib.import_module(f"experiments.{name.lower()}")


def chosen(goals):
    """Those that ONLY names, in the order of the goals, or all that are built."""
    there = built()
    wanted = [name for name in os.environ.get("ONLY", "").upper().split(",") if name]
    for name in wanted:
        if name not in goals:
            sys.exit(f"ONLY: no experiment '{name}': there are {', '.join(goals)}")
        if name not in there:
            sys.exit(f"ONLY: {name} is not built yet: {', '.join(there)} are")
    return [name for name in goals if name in (wanted or there)]


def perform(name, experiment, folder, quick):
    """The line of the experiment."""
    world = World(name, experiment, folder, quick)
    began = time.monotonic()
    module_of(name).run(world)
    world.note("")
    verdicts, verdict, failed = judge.judge(experiment, world.measured)
    provenance = subprocess.run([ROOT / "scripts/provenance"], capture_output=True, text=True, check=True)
    return {"experiment": name, "simulated": True, "quick": quick, "seeds": world.seeds, "verdict": verdict,
            "measured": {k: v._asdict() for k, v in world.measured.items()}, "verdicts": verdicts,
            "baselines_not_reproduced": failed, "pictures": world.pictures, "why": module_of(name).WHY,
            "seconds": round(time.monotonic() - began, 1), **json.loads(provenance.stdout)}


def read_lines(path):
    """{experiment: its line}; its words may have been put better since the run, figures may not."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["experiment"]: {**row, "why": module_of(row["experiment"]).WHY} for row in rows}


def write_lines(path, rows, goals):
    path.write_text("".join(json.dumps(rows[name]) + "\n" for name in goals if name in rows), encoding="utf-8")


def write_page(goals, rows, out, in_docs):
    """Into docs, or beside the lines."""
    if not in_docs:
        path = out / "reproduction.md"
        path.write_text(page.page(goals, rows, "."), encoding="utf-8")
        return path
    kept = DOCS / "reproduction"
    kept.mkdir(exist_ok=True)
    lines = kept / "reproduction.jsonl"
    all_rows = {**read_lines(lines), **rows}
    for row in rows.values():
        for name in row["pictures"]:
            shutil.copy(out / name, kept)
    shown = {name for row in all_rows.values() for name in row["pictures"]}
    for picture in kept.glob("*.svg"):
        if picture.name not in shown:
            picture.unlink()
    write_lines(lines, all_rows, goals)
    path = DOCS / "reproduction.md"
    path.write_text(page.page(goals, all_rows, "reproduction"), encoding="utf-8")
    return path


def say(row):
    print(f"{row['experiment']}: {row['verdict']} ({row['seconds']:.0f} s)")
    for metric, verdict in row["verdicts"].items():
        print(f"    {metric} {judge.Estimate(**row['measured'][metric])}: {verdict}")
    for name, words in row["baselines_not_reproduced"].items():
        print(f"    baseline {name} not reproduced: {words}")
    sys.stdout.flush()


class Runs:
    """All that were chosen, several beside one another where the machine has the processors for that."""

    def __init__(self, names, goals, out, quick):
        self.names, self.goals, self.out, self.quick = names, goals, out, quick
        self.rows = read_lines(out / "reproduction.jsonl")
        self.failed = self.skipped = 0
        self.lock = threading.Lock()  # of all above, and of what is printed

    def perform_all(self):
        """A cluster takes the whole machine: those that need one come last, one after the other."""
        on_node = [name for name in self.names if self.goals[name]["means"] != "cluster"]
        with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
            list(lanes.map(self.perform_one, on_node))
        for name in self.names:
            if name not in on_node:
                self.perform_one(name)

    def perform_one(self, name):
        with self.lock:
            print(f"== {self.names.index(name) + 1} of {len(self.names)}: {name}, {self.goals[name]['title']} (simulated)", flush=True)
        try:
            row = perform(name, self.goals[name], self.out, self.quick)
        except Skipped:
            with self.lock:
                print(f"{name}: skipped")
                self.skipped += 1
            return
        except Exception:  # whatever it is, the others are to run
            with self.lock:
                traceback.print_exc()
                self.failed += 1
            return
        with self.lock:
            self.rows[name] = row
            say(row)
            write_lines(self.out / "reproduction.jsonl", self.rows, self.goals)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--page", action="store_true", help="write the page of what was run before")
    args = parser.parse_args()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    out = args.out or ROOT / "out" / ("reproduction-quick" if quick else "reproduction")
    out.mkdir(parents=True, exist_ok=True)
    goals = judge.read_goals()
    names = [] if args.page else chosen(goals)
    runs = Runs(names, goals, out, quick)
    runs.perform_all()
    in_docs = not quick and (args.page or set(runs.rows) == set(built()))
    print(f"the page: {os.path.relpath(write_page(goals, runs.rows, out, in_docs))}")
    # What falls short is a result; what could not be run is none.
    if names:
        print(f"{len(names) - runs.failed - runs.skipped} passed, {runs.failed} failed, {runs.skipped} skipped")
    return 1 if runs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
