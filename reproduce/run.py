#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the experiments of the systems before divvy, judges them by goals.yaml, draws them, and writes the pages.
usage: run.py [--out FOLDER] [--page | --needs-kubernetes]. ONLY=K4,G5 runs some, QUICK=1 short ones once each. PACED=1
runs each experiment that is compressed (goals.yaml) once, at the slower pace of its original.

Experiments on a node run beside one another, since they wait most of the time. Quiet ones (goals.yaml) have two processors
each and nothing beside them there. Those on a cluster come last. With four processors or more they run beside all others,
and each side has half of the processors.

Each experiment is a line of reproduction.jsonl in out/reproduction (PACED=1: of paced.jsonl), with pictures beside it;
out/reproduction.jsonl is a link to the lines of the last run. Once all experiments that exist have a line there or were
skipped, lines and pictures go to docs/reproduction/, where those of other experiments stay. run.py then writes
docs/reproduction.md and the page of each experiment. With --page it does so for the experiments that have run. Before
that, and for quick runs, the pages are beside the lines."""

import argparse
import concurrent.futures
import contextlib
import importlib
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

import judge
import page
from node import ENDED, Ended, Node, TooBusy
from one_cluster import OneCluster, Skipped
from place import Place

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINES, PACED_LINES = "reproduction.jsonl", "paced.jsonl"
BUILD = pathlib.Path(os.environ.get("DIVVY_BUILD", ROOT / "build"))
# Experiments in virtual time get many seeds: runs are cheap, and rare events widen the intervals.
# Runs of real programs take real time.
SEEDS = {"virtual": 20, "clock": 20}
SEEDS_OF_OTHERS = 5
QUICK_SEEDS = {"virtual": 4, "clock": 2}
QUICK_SEEDS_OF_OTHERS = 1
TRIES = 3  # runs of an experiment while the machine is too busy
OLD_KEYS = ("verdict", "verdicts")  # of lines that were written before each experiment had two verdicts
HALF = 2  # processors that the experiments on a node need, and as many those on a cluster
PER_PROCESSOR = 2  # experiments on a node at once: each uses a processor for a tenth of the time, a third at most


def seeds_of(means, quick):
    if quick:
        return QUICK_SEEDS.get(means, QUICK_SEEDS_OF_OTHERS)
    return SEEDS.get(means, SEEDS_OF_OTHERS)


def core_of(processor):
    """[package, core] of the processor. Two processors may have the same core."""
    folder = pathlib.Path(f"/sys/devices/system/cpu/cpu{processor}/topology")
    return [
        int(path.read_text(encoding="utf-8")) if path.exists() else 0
        for path in (folder / "physical_package_id", folder / "core_id")
    ]


def divided(processors):
    """(processors for experiments on a node, processors for one on a cluster). Both get all if there are too few for both
    at once."""
    if len(processors) < 2 * HALF:
        return processors, processors
    by_core = sorted(processors, key=lambda p: (core_of(p), p))
    half = len(by_core) // 2 // HALF * HALF
    return by_core[:half], by_core[half:]


def pairs(processors):
    """The processors in lists of HALF; the last list also has the rest."""
    n = max(1, len(processors) // HALF)
    return [processors[i * HALF : (i + 1) * HALF if i < n - 1 else None] for i in range(n)]


def is_quiet(experiment, quick):
    """Whether the experiment runs alone: it keeps a processor busy, or measures smaller differences than others beside it
    cause. A quick run does not measure these anyhow."""
    quiet = experiment.get("quiet", False)
    return experiment["means"] in ("virtual", "clock") or (quiet if not quick else quiet == "always")


class World:
    """What run(world) of an experiment needs: where to run, how much, and where its figures go."""

    def __init__(self, name, experiment, folder, cluster, quick, is_paced=False):
        self.name = name
        self.cluster = cluster
        self.folder = folder
        self.quick = quick
        self.pace = experiment["compressed"]["by"] if is_paced else 1  # everything takes so many times as long
        self.seeds = 1 if is_paced else seeds_of(experiment["means"], quick)
        self.build = BUILD
        self.place = Place(BUILD / "src/cli/divvy", self.seeds)
        self.measured = {}
        self.pictures = []

    def node(self, **options):
        if ENDED.is_set():
            raise Ended
        return Node(self.build, **options)

    def on_cluster(self, what, sizes, rounds=None):
        """The rows that on_cluster.py measures, in `rounds` rounds, or as many as there are seeds."""
        if ENDED.is_set():
            raise Ended
        return self.cluster.rows(what, sizes, rounds or self.seeds)

    def few(self, values):
        """All values of a sweep; in a quick run its ends and the middle."""
        return [values[0], values[len(values) // 2], values[-1]] if self.quick else values

    def note(self, words):
        if ENDED.is_set():
            raise Ended
        if sys.stderr.isatty():
            print(f"\r\033[K{self.name}: {words}", end="", file=sys.stderr, flush=True)

    def measure(self, **metrics):
        """Stores figures: a list has a value for each seed, and a single number is exact."""
        self.measured.update({name: judge.estimate(values) for name, values in metrics.items()})

    def draw(self, svg, part=""):
        name = f"{self.name}{'-' + part if part else ''}{'-paced' if self.pace != 1 else ''}.svg"
        (self.folder / name).write_text(svg, encoding="utf-8")
        self.pictures.append(name)


def built():
    return sorted(p.stem.upper() for p in (ROOT / "reproduce/experiments").glob("*.py"))


def module_of(name):
    return importlib.import_module(f"experiments.{name.lower()}")


def chosen(goals, is_paced=False):
    """The experiments that ONLY names, or all that exist, in the order of the goals. With is_paced only those that are
    compressed."""
    there = built()
    wanted = [name.strip() for name in os.environ.get("ONLY", "").upper().split(",") if name.strip()]
    for name in wanted:
        if name not in goals:
            sys.exit(f"ONLY: no experiment '{name}': there are {', '.join(goals)}")
        if name not in there:
            sys.exit(f"ONLY: {name} is not built yet: {', '.join(there)} are")
    if is_paced:
        there = [name for name in there if "compressed" in goals[name]]
        for name in wanted:
            if name not in there:
                sys.exit(f"PACED: {name} is not compressed in time: {', '.join(there)} are")
    return [name for name in goals if name in (wanted or there)]


def run_module(name, world):
    """Runs the experiment. If the machine is too busy for a fair run, it runs again, TRIES times in all."""
    for left in reversed(range(TRIES)):
        try:
            return module_of(name).run(world)
        except TooBusy as error:
            if not left:
                raise
            print(f"{name}: {error}; once more", flush=True)


def perform(name, experiment, folder, cluster, quick, is_paced):
    """Runs the experiment and returns its line."""
    world = World(name, experiment, folder, cluster, quick, is_paced)
    began = time.monotonic()
    run_module(name, world)
    world.note("")
    provenance = subprocess.run([ROOT / "scripts/provenance"], capture_output=True, text=True, check=True)
    return judged(
        {
            "experiment": name,
            "simulated": True,
            "quick": quick,
            "seeds": world.seeds,
            "measured": {k: v._asdict() for k, v in world.measured.items()},
            "pictures": world.pictures,
            "seconds": round(time.monotonic() - began, 1),
            **json.loads(provenance.stdout),
        },
        experiment,
    )


def text_of(name):
    """(the result, the explanation) out of experiments/NAME.md."""
    lead, why = (ROOT / f"reproduce/experiments/{name.lower()}.md").read_text(encoding="utf-8").split("\n\n", 1)
    return " ".join(lead.split()), why.strip()


def judged(row, experiment):
    """The line, with the verdicts on its figures by today's goals, and with today's text."""
    measured = {metric: judge.Estimate(**value) for metric, value in row["measured"].items()}
    verdicts = judge.judge(experiment, measured)
    lead, why = text_of(row["experiment"])
    figures = {key: value for key, value in row.items() if key not in OLD_KEYS}
    return {
        **figures,
        "claim": verdicts.claim,
        "ours": verdicts.ours,
        "of_claim": verdicts.of_claim,
        "of_ours": verdicts.of_ours,
        "baselines_not_reproduced": verdicts.failed,
        "lead": lead,
        "why": why,
    }


def read_lines(path, goals):
    """{experiment: its line}, if the file exists. Verdicts and texts are today's; figures are those of the run."""
    if not path.exists():
        return {}
    rows = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            row = json.loads(line)
            rows[row["experiment"]] = judged(row, goals[row["experiment"]])
        except (ValueError, KeyError, TypeError):
            sys.exit(
                f"{path}:{number}: no line of an experiment that there is; take it out, or the file away, and run that again"
            )
    return rows


def write_lines(path, rows, goals):
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(rows[name]) + "\n" for name in goals if name in rows), encoding="utf-8")
    new.replace(path)


def keep(file, out, kept, goals):
    """Copies the lines of that file in `out`, and their pictures, to the kept ones. Returns all kept lines."""
    rows = read_lines(out / file, goals)
    all_rows = {**read_lines(kept / file, goals), **rows}
    for row in rows.values():
        for name in row["pictures"]:
            shutil.copy(out / name, kept)
    write_lines(kept / file, all_rows, goals)
    return all_rows


def write_pages(goals, rows, paced, verdicts, folder):
    """Writes the page of verdicts, and into the folder the page of each experiment that has a line."""
    to_verdicts = os.path.relpath(verdicts, folder)
    for name, row in rows.items():
        text = page.experiment(name, goals[name], row, paced.get(name), to_verdicts)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    verdicts.write_text(page.verdicts(goals, rows, os.path.relpath(folder, verdicts.parent)), encoding="utf-8")


def write_page(goals, out, in_docs):
    """Writes the pages into docs, or beside the lines. Returns the path of the page of verdicts."""
    if not in_docs:
        rows, paced = (read_lines(out / file, goals) for file in (LINES, PACED_LINES))
        write_pages(goals, rows, paced, out / "reproduction.md", out)
        return out / "reproduction.md"
    kept = DOCS / "reproduction"
    kept.mkdir(exist_ok=True)
    rows, paced = (keep(file, out, kept, goals) for file in (LINES, PACED_LINES))
    shown = {name for row in (*rows.values(), *paced.values()) for name in row["pictures"]} | {
        f"{name}.md" for name in rows
    }
    for path in (*kept.glob("*.svg"), *kept.glob("*.md")):
        if path.name not in shown:
            path.unlink()
    write_pages(goals, rows, paced, DOCS / "reproduction.md", kept)
    return DOCS / "reproduction.md"


def say(row, experiment):
    print(f"{row['experiment']}: the claim: {row['claim']}; our goals: {row['ours']} ({row['seconds']:.0f} s)")
    goals = experiment["goals"]
    for which, verdicts in (("claim", row["of_claim"]), ("ours", row["of_ours"])):
        for name, verdict in verdicts.items():
            value = row["measured"].get(judge.metric_of(name, goals[name]))
            print(f"    {which}: {name} {judge.Estimate(**value) if value else ''}: {verdict}")
    for name, words in row["baselines_not_reproduced"].items():
        print(f"    baseline {name} not reproduced: {words}")
    sys.stdout.flush()


def link_to(lines):
    """Makes out/reproduction.jsonl a link to the lines of this run."""
    link = ROOT / "out" / LINES
    link.unlink(missing_ok=True)
    link.symlink_to(lines.relative_to(link.parent))


def children():
    """The processes that any of our threads has started. A thread may end meanwhile."""
    found = []
    for path in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text(encoding="ascii").split())
    return found


class Runs:
    """All chosen experiments."""

    def __init__(self, names, goals, out, quick, is_paced):
        self.names, self.goals, self.out, self.quick, self.is_paced = names, goals, out, quick, is_paced
        self.lines = out / (PACED_LINES if is_paced else LINES)
        self.cluster = OneCluster(BUILD, slowly=is_paced)
        self.rows = read_lines(self.lines, goals)
        self.passed = self.failed = self.skipped = 0
        self.lock = threading.Lock()  # protects all above, and printed lines

    def perform_all(self):
        of_node, of_cluster = divided(sorted(os.sched_getaffinity(0)))
        with concurrent.futures.ThreadPoolExecutor(2) as halves:
            on_node = halves.submit(self.perform_on_node, of_node)
            if of_node == of_cluster:
                on_node.result()
            halves.submit(self.perform_on_cluster, of_cluster).result()
            on_node.result()

    def perform_on_node(self, processors):
        names = [name for name in self.names if self.goals[name]["means"] != "cluster"]
        quiet = [name for name in names if is_quiet(self.goals[name], self.quick)]
        self.perform_beside(
            [name for name in names if name not in quiet], [processors] * PER_PROCESSOR * len(processors)
        )
        self.perform_beside(quiet, pairs(processors))

    def perform_on_cluster(self, processors):
        self.perform_beside([name for name in self.names if self.goals[name]["means"] == "cluster"], [processors])
        status = self.cluster.end()
        if status and not ENDED.is_set():
            with self.lock:
                print(f"the cluster did not end as it should: {status}")
                self.failed += 1

    def perform_beside(self, names, lanes):
        """Runs as many experiments at once as there are lanes. Each has the processors of its lane, and so have its
        processes."""
        free = queue.SimpleQueue()
        for processors in lanes:
            free.put(processors)
        with concurrent.futures.ThreadPoolExecutor(
            len(lanes), initializer=lambda: os.sched_setaffinity(0, free.get())
        ) as threads:
            list(threads.map(self.perform_one, names))

    def end(self, *_):
        """On a signal: running experiments fail because their programs end, and clean up as always. No other one begins."""
        ENDED.set()
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def perform_one(self, name):
        if ENDED.is_set():
            return
        with self.lock:
            print(
                f"== {self.names.index(name) + 1} of {len(self.names)}: {name}, {self.goals[name]['title']} (simulated)",
                flush=True,
            )
        try:
            row = perform(name, self.goals[name], self.out, self.cluster, self.quick, self.is_paced)
        except Skipped:
            with self.lock:
                print(f"{name}: skipped")
                self.skipped += 1
            return
        except Ended:
            return
        except TooBusy as error:
            with self.lock:
                print(f"{name}: {'skipped' if self.quick else 'failed'}: {error}")
                self.skipped += self.quick  # a short run only shows that the experiment can run
                self.failed += not self.quick
            return
        except Exception:  # the others run, whatever it is
            with self.lock:
                if not ENDED.is_set():
                    traceback.print_exc()
                self.failed += 1
            return
        with self.lock:
            self.passed += 1
            self.rows[name] = row
            say(row, self.goals[name])
            write_lines(self.lines, self.rows, self.goals)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument(
        "--needs-kubernetes",
        action="store_true",
        help="run nothing: whether what is chosen needs one is the exit status",
    )
    parser.add_argument("--page", action="store_true", help="write the pages of what was run before")
    args = parser.parse_args()
    quick, is_paced = (os.environ.get(name, "") not in ("", "0") for name in ("QUICK", "PACED"))
    if quick and is_paced:
        sys.exit("QUICK and PACED: either is expected, short runs or slow ones")
    goals = judge.read_goals()
    names = [] if args.page else chosen(goals, is_paced)
    if args.needs_kubernetes:
        return 0 if any(goals[name]["means"] == "cluster" for name in names) else 1
    out = args.out or ROOT / "out" / ("reproduction-quick" if quick else "reproduction")
    try:
        out.mkdir(parents=True, exist_ok=True)
        runs = Runs(names, goals, out, quick, is_paced)
        if names:
            write_lines(runs.lines, runs.rows, goals)  # a folder that cannot be written fails now, not after hours
            if not args.out:
                link_to(runs.lines)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}; the lines of the experiments are kept there")
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, runs.end)
    runs.perform_all()
    if ENDED.is_set():
        sys.exit("ended before all were run: those that were have their lines in " + os.path.relpath(runs.lines))
    all_there = set(runs.rows) == set(built()) or (set(names) == set(built()) and not runs.failed)
    in_docs = not quick and (args.page or (all_there and not is_paced))
    print(f"the page: {os.path.relpath(write_page(goals, out, in_docs))}")
    # A missed bound is a result: only experiments that could not run count as failed.
    if names:
        print(f"{runs.passed} passed, {runs.failed} failed, {runs.skipped} skipped")
    return 1 if runs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
