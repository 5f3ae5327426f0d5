#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy sim: traces, YAML and generated workloads through the real placement; messages for bad
input."""

import json
import os
import subprocess
import tempfile
import xml.etree.ElementTree

from rig import DIVVY, main, patience, refused

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{i},{32000 if i else 4000},65536,{4},{'T4' if i % 2 else 'V100'}\n" for i in range(4)
)
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "a,2000,1024,1,500,,0,600\nb,2000,1024,1,300,T4,10,100\nc,4000,1024,2,1000,,20,500\n"
    "d,1000,1024,0,0,,30,40\n"
)
SPEC = """nodes:
  - {name: a, copies: 2, devices: 1, memory: 16Gi, cpu: 8, host-memory: 32Gi}
tasks:
  - {request: 0.5, limit: 0.5, copies: 4, duration: 10s}
  - {request: 1, duration: 5s, at: 1s, priority: 90}
"""


def sim(*args, folder="."):
    return subprocess.run(
        [DIVVY, "sim", *args],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )


def sim_json(*args, folder="."):
    done = sim(*args, "--json", "-", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def figures(answer, policy):
    return next(p for p in answer["policies"] if p["policy"] == policy)["figures"]


class Files:
    """A folder with these files."""

    def __init__(self, **files):
        self.files = files

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="divvy-test-")
        for name, text in self.files.items():
            self.write(name.replace("_", "."), text)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def write(self, name, text):
        with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as f:
            f.write(text)

    def sim(self, *args):
        return sim(*args, folder=self.folder.name)


TRACE = ("--nodes", "nodes.csv", "--pods", "pods.csv")


def sim_replays_a_trace():
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        done = f.sim(*TRACE, "--policy", "best-fit,default,whole", "--seeds", "3", "--json", "out.json")
        assert done.returncode == 0 and not done.stderr, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith("simulated: pods.csv: 4 nodes, 16 devices, 3 runs of each"), lines
        assert lines[1].split()[:3] == ["POLICY", "AT", "90%"] and "AGAINST best-fit" in lines[1], lines
        assert [line.split()[0] for line in lines[2:]] == ["best-fit", "default", "whole"], lines
        with open(os.path.join(f.folder.name, "out.json"), encoding="utf-8") as made:
            answer = json.load(made)
        assert answer["simulated"] is True and answer["devices"] == 16 and answer["mode"] == "drop"
        for policy in answer["policies"]:
            assert [run["seed"] for run in policy["runs"]] == [42, 43, 44]
            for run in policy["runs"]:
                seen = [v for v in run["curves"]["allocated"] if v is not None]
                assert all(0 <= v <= 1 for v in seen) and seen == sorted(seen)
        assert (
            figures(answer, "whole")["allocated_at_130"]["mean"]
            < figures(answer, "best-fit")["allocated_at_130"]["mean"]
        )
        again = f.sim(*TRACE, "--policy", "best-fit,default,whole", "--seeds", "3")
        assert again.stdout == done.stdout


def sim_takes_orders_and_ranks():
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        for seed in (1, 2):
            f.write(f"o.{seed}.txt", "2\n2\n0\n1\n3\n")
            f.write(f"o.{seed}.perm", "3\n2\n1\n0\n")
        answer = sim_json(
            *TRACE, "--orders", "o.SEED.txt", "--seeds", "1-2", "--policy", "first-fit", folder=f.folder.name
        )
        runs = answer["policies"][0]["runs"]
        assert len(runs) == 2 and runs[0]["tasks"] == 5 and runs[0]["placed"] == 5, runs
        assert runs[0]["curves"] == runs[1]["curves"]
        refused(
            f.sim(*TRACE, "--orders", "o.SEED.txt", "--seeds", "1-3", "--svg", "never"),
            1,
            "--orders",
            "o.3.txt",
            "No such file",
        )
        assert not os.path.exists(os.path.join(f.folder.name, "never"))  # sim reads all files before it writes any
        f.write("o.1.txt", "0\n4\n")
        refused(f.sim(*TRACE, "--orders", "o.SEED.txt", "--seeds", "1-2"), 1, "o.1.txt", "line 2", "'4'", "4 rows")
        f.write("o.1.txt", "\n")
        refused(f.sim(*TRACE, "--orders", "o.1.txt", "--seeds", "1"), 1, "o.1.txt", "no row")
        f.write("o.1.txt", "0\n")
        f.write("o.1.perm", "0\n1\n1\n2\n")
        refused(f.sim(*TRACE, "--orders", "o.1.txt", "--seeds", "1"), 1, "o.1.perm", "rank 1", "twice")
        f.write("o.1.perm", "0\n")
        refused(f.sim(*TRACE, "--orders", "o.1.txt", "--seeds", "1"), 1, "o.1.perm", "1 rank for 4 nodes")


def sim_follows_a_trace_in_time():
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        answer = sim_json(*TRACE, "--mode", "queue", "--policy", "best-fit", "--seeds", "1", folder=f.folder.name)
        run = answer["policies"][0]["runs"][0]
        assert run["placed"] == 4 and run["end_s"] == 600 and run["queued_mean_s"] == 0, run
        assert abs(run["completion_mean_s"] - (600 + 90 + 480 + 10) / 4) < 1e-6
        answer = sim_json(
            *TRACE, "--mode", "queue", "--faster", "10", "--policy", "best-fit", "--seeds", "1", folder=f.folder.name
        )
        assert (
            answer["policies"][0]["runs"][0]["end_s"] == 600
            and answer["policies"][0]["runs"][0]["completion_mean_s"] == run["completion_mean_s"]
        )
        f.write("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,500\n")
        refused(f.sim(*TRACE, "--mode", "queue"), 1, "pods.csv", "deletion_time")


def sim_draws_tasks_that_arrive_and_end():
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        answer = sim_json(
            *TRACE,
            "--draw",
            "500",
            "--load",
            "1.5",
            "--duration",
            "10m",
            "--policy",
            "best-fit,worst-fit",
            "--seeds",
            "2",
            folder=f.folder.name,
        )
        assert answer["mode"] == "queue"
        for policy in answer["policies"]:
            assert [run["tasks"] for run in policy["runs"]] == [2000, 2000]
            for run in policy["runs"]:
                assert 60 < run["allocated_steady"] <= 100 and run["moves"] == 0, run
        moved = sim_json(
            *TRACE,
            "--draw",
            "500",
            "--load",
            "1.5",
            "--duration",
            "10m",
            "--defrag",
            "1m,2,5s",
            "--policy",
            "worst-fit",
            "--seeds",
            "2",
            folder=f.folder.name,
        )
        assert figures(moved, "worst-fit")["moves"]["mean"] > 0
        refused(f.sim(*TRACE, "--draw", "1000000"), 1, "--draw 1000000", "4 tasks")


def sim_reads_yaml_and_names_its_errors():
    with Files(c_yaml=SPEC) as f:
        answer = sim_json("--spec", "c.yaml", "--policy", "best-fit,whole", folder=f.folder.name)
        runs = {p["policy"]: p["runs"][0] for p in answer["policies"]}
        assert runs["best-fit"]["end_s"] == 15 and runs["whole"]["end_s"] == 25, runs
        assert runs["best-fit"]["completion_mean_s"] == (4 * 10 + 14) / 5
        for text, words in {
            "nodes: 5\ntasks: []\n": ("nodes",),
            "nodes: [\n": ("line",),
            "%YAML 1.2\n---\n" + SPEC: ("line 1", "directives"),
            "nodes:\n- {devices: 99}\ntasks: []\n": ("line 2", "devices", "99", "64"),
            "nodes:\n- {devices: 1, colour: red}\ntasks: []\n": ("line 2", "colour", "host-memory"),
            "nodes:\n- {devices: 1}\ntasks:\n- {request: 1.5, duration: 1s}\n": ("line 4", "1.5"),
            "nodes:\n- {devices: 1}\ntasks:\n- {request: 1}\n": ("line 4", "duration"),
            "nodes:\n- &a {devices: 1}\n- *a\ntasks:\n- {request: 1, duration: 1s}\n": (),
            "nodes:\n- {name: x, devices: 1}\n- {name: x}\ntasks: []\n": ("line 3", "two nodes have the name 'x'"),
            "nodes:\n- {name: x, devices: 0}\ntasks:\n- {request: 1, duration: 1s}\n": ("no node",),
            "nodes:\n- {devices: T4:1:16Gi:2}\ntasks: []\n": ("line 2", "devices", "16Gi:2"),
            "nodes:\n- {devices: 'T4:'}\ntasks: []\n": ("line 2", "devices", "''"),
            "nodes:\n- {devices: ':4'}\ntasks: []\n": ("line 2", "devices", "MODEL:COUNT:MEMORY"),
            "nodes:\n- {devices: T4:65}\ntasks: []\n": ("line 2", "devices", "65", "64"),
            "nodes:\n- {name: x, devices: T4:60|V100:5}\ntasks: []\n": ("line 2", "'x' with 65 devices", "64"),
            "nodes:\n- {devices: T4:1:280Ti}\ntasks: []\n": ("line 2", "devices", "'280Ti'", "279Ti"),
            "nodes:\n- {devices: T4:1, memory: 4Gi}\ntasks: []\n": ("line 2", "memory", "V100:2:16Gi", "host-memory"),
            "nodes:\n- {model: T4, devices: T4:1}\ntasks: []\n": ("line 2", "model", "V100:2:16Gi"),
            "nodes:\n- {devices: '" + "|".join(f"m{i}:1" for i in range(9)) + "'}\n": ("line 2", "devices", "8 kinds"),
            "nodes:\n- {devices: 1, model: A|B}\n": ("line 2", "model 'A|B'", "one model"),
            "nodes:\n- {devices: 1, memory: 9999999Ti}\n": ("line 2", "memory", "'9999999Ti'", "up to 279Ti"),
            "nodes:\n- {device: 1}\n": ("line 2", "device", "did you mean 'devices'?"),
            "nodes:\n- {devices: 1}\ntasks:\n- {}\n": ("tasks: entry 1", "request is missing"),
            "nodes:\n- {devices: 1}\ntasks:\n- []\n": ("tasks: entry 1", "expected fields"),
            "nodes:\n- {devices: 1}\ntasks: []\n": ("'tasks:' has no task",),
            "": ("the file is empty", "'nodes:' and 'tasks:'"),
            "# nothing\n": ("the file is empty", "'nodes:' and 'tasks:'"),
            SPEC + "  - {requst: 1}\n": ("line 6", "requst", "did you mean 'request'?"),
            SPEC + "  - {priorty: 1}\n": ("line 6", "priorty", "did you mean 'priority'?"),
            SPEC
            + "  - {colour: red}\n": (
                "line 6",
                "colour",
                "copies, at,",
                "request, limit, count",
                "memory-policy",
                ", anti-affinity, preferred-anti-affinity, exclusion,",
                "mode and model\n",
            ),
            SPEC + "  - {memory-policy: fail, memory_policy: fail}\n": ("line 6", "memory-policy", "twice"),
            SPEC + "  - {preferred_anti_affinity: ''}\n": ("line 6", "preferred-anti-affinity", "1 to 63"),
            SPEC + "  - {request: 1, duration: 1s, model: T4|}\n": ("line 6", "model ''"),
            SPEC + "  - {request: 1, duration: 1s, memory: 9999999Ti}\n": ("line 6", "9999999Ti", "less than 8192Pi"),
            "other: 1\n": ("line 1", "other"),
            "nodes:\n- devices: 1\n  cpu: 1\n  devices: 2\ntasks: []\n": ("line 4", "devices", "twice"),
            "nodes: []\ntasks: []\nnodes: []\n": ("line 3", "nodes", "twice"),
            "nodes:\n- {name: x-1, devices: 1}\n- {name: x, copies: 2}\ntasks: []\n": (
                "line 3",
                "two nodes have the name 'x-1'",
            ),
            "nodes:\n- {devices: 1, cpu: 1001}\n": ("line 2", "cpu", "'1001'", "cores", "up to 1000"),
            "nodes:\n- {devices: 1, cpu: x}\n": ("line 2", "cpu", "'x'", "cores such as 36 or 0.5"),
            "nodes:\n- {devices: 1, model: ''}\n": ("line 2", "model ''", "1 to 63"),
            SPEC + "  - {request: 1, duration: 5s, mode: remote}\n": ("line 6", "mode remote", "local"),
            SPEC + "  - {request: 1, duration: 5s, network: 1Gbps}\n": ("line 6", "network", "'networks:'"),
            SPEC + "  - {request: 1, duration: 5s, memory-policy: swap}\n": ("line 6", "memory-policy swap", "wait"),
            SPEC + "  - {request: 1, duration: 5s, every: 5s}\n": ("line 6", "every", "copies to 2 or more", "'at'"),
            SPEC + "  - {request: 1, duration: 5s, copies: 1, every: 0}\n": ("line 6", "every", "copies to 2 or more"),
            SPEC
            + "  - {request: 1, duration: 5s, copies: 2, gang: yes, every: 5s}\n": (
                "line 6",
                "every",
                "gang",
                "together",
            ),
            SPEC + "---\n" + SPEC: ("line 6", "second document"),
            SPEC
            + "...\n---\n": (
                "line 7",
                "second document",
            ),
            SPEC + "---\n- [\n": ("line",),
            "nodes:\n- {" + "".join(f"k{i}: 1, " for i in range(60000)) + "}\n": ("line 2", "k0"),
        }.items():
            f.write("c.yaml", text)
            refused(f.sim("--spec", "c.yaml"), 1, "device" if "no node" in words else "c.yaml", *words)


MIXED = """nodes:
  - {name: n, devices: A100:1:40Gi|A100-1g.5gb:2:4864Mi}
tasks:
  - {mode: exclusive, request: 1, model: A100-1g.5gb, duration: 10s, copies: 4}
  - {request: 0.5, memory: 20Gi, duration: 10s, copies: 2}
  - {request: 0.5, memory: 41Gi, duration: 10s}
"""


def a_node_may_have_several_kinds_of_devices():
    """Whole devices are taken two at a time. Tasks that need 20Gi share the only large enough
    device, at half speed."""
    with Files(c_yaml=MIXED) as f:
        done = f.sim("--spec", "c.yaml", "--policy", "best-fit")
        assert (
            "1 of 7 tasks never got a place" in done.stderr and "no node has this model" not in done.stderr
        ), done.stderr
        run = sim_json("--spec", "c.yaml", "--policy", "best-fit", folder=f.folder.name)["policies"][0]["runs"][0]
        assert run["end_s"] == 20 and run["devices_in_use"] == 3 and run["queued_p99_s"] == 10, run


def a_run_beyond_the_time_limit_is_refused():
    with Files(c_yaml="nodes:\n- {devices: 1}\ntasks:\n- {request: 1, duration: 200d, copies: 1100}\n") as f:
        refused(f.sim("--spec", "c.yaml"), 1, "256 of 1100 tasks", "51200 days", "fewer")


SHARED = """queues:
  - {name: all, quota: 2}
  - {name: a, parent: all, quota: 1, limit: 2}
  - {name: b, parent: all, quota: 0.5, limit: 2, weight: 3}
nodes:
  - {name: n, devices: 2, memory: 16Gi}
tasks:
  - {request: 1, copies: 2, duration: 100s, queue: b}
  - {request: 1, duration: 10s, at: 1s, queue: a}
"""
HOPELESS = """nodes:
  - {name: n, devices: "A:2|B:1"}
tasks:
  - {request: 0.6, limit: 0.9, model: A, copies: 30, every: 20s, duration: 70s, at: 3s}
  - {request: 1, model: A, duration: 50s, at: 100s, priority: 5}
"""
NEVER = """  - {request: 3, model: A, duration: 100s}
  - {request: 2, model: B, duration: 100s, at: 300s, priority: 90}
  - {request: 2, model: B, duration: 100s, at: 3000s}
"""
LABELLED = """nodes:
  - {name: n, devices: 2}
tasks:
  - {request: 0.3, limit: 0.3, duration: 10s, exclusion: x}
  - {request: 0.3, limit: 0.3, duration: 10s, exclusion: LABEL}
"""
GANG = """nodes:
  - {name: n, devices: 2}
tasks:
  - {request: 1, duration: 10s}
  - {request: 1, duration: 5s, at: 1s, copies: 2, gang: yes, threshold: 0.5}
"""


def queues_labels_and_thresholds_decide_placement():
    def run(text):
        f.write("c.yaml", text)
        answer = sim_json("--spec", "c.yaml", "--policy", "best-fit", folder=f.folder.name)
        return answer["policies"][0]["runs"][0]

    with Files() as f:
        shared = run(SHARED)
        assert shared["evicted"] == 1 and shared["end_s"] == 110, shared
        bounded = run(SHARED.replace("weight: 3", "models: other:0|any:0.5:1"))
        assert bounded["evicted"] == 0 and bounded["end_s"] == 200, bounded
        assert run(LABELLED.replace("LABEL", "x"))["devices_in_use"] == 1
        assert run(LABELLED.replace("LABEL", "y"))["devices_in_use"] == 2
        # The empty label is a label of its own, and differs from no label.
        assert run(LABELLED.replace("LABEL", "''"))["devices_in_use"] == 2
        assert run(LABELLED.replace("exclusion: x", "exclusion: ''").replace("LABEL", "''"))["devices_in_use"] == 1
        assert run(LABELLED.replace(", exclusion: x", "").replace("LABEL", "''"))["devices_in_use"] == 2
        assert run(SHARED.replace("quota: 2}", "quota: 5000.5}"))["end_s"] == 110
        gang = run(GANG)
        assert (
            gang["queued_mean_s"] == round(5 / 3, 8) and gang["evicted"] == 0 and gang["allocated_steady"] is None
        ), gang
        for was, now, words in (
            ("quota: 2}", "quota: 1}", ("c.yaml", "line 2", "queue all", "1.5")),
            ("limit: 2}", "limit: 0.5}", ("c.yaml", "line 3", "queue a", "above the limit")),
            ("parent: all, quota: 1", "parent: some, quota: 1", ("c.yaml", "line 3", "'some' is unknown")),
            ("name: all, quota", "name: all, parent: a, quota", ("c.yaml", "line 2", "lead back")),
            ("name: b", "name: a", ("line 4", "two queues have the name 'a'")),
            ("name: b, ", "", ("line 4", "has no name")),
            ("weight: 3", "weight: 0", ("line 4", "weight", "0")),
            ("quota: 0.5", "quota: much", ("line 4", "quota", "much")),
            ("quota: 0.5", "quota: -1", ("line 4", "quota", "'-1'", "devices such as 4 or 1.5", "0 to 4294967295")),
            ("quota: 0.5", "quota: 4294967296", ("line 4", "quota", "'4294967296'", "0 to 4294967295")),
            ("quota: 0.5", "quota: 0.0005", ("line 4", "quota", "'0.0005'", "steps of 0.001")),
            ("quota: 0.5", "colour: red", ("line 4", "colour", "name, parent, quota")),
            ("weight: 3", "models: any", ("line 4", "models", "MODEL:QUOTA:LIMIT")),
            ("weight: 3", "models: any:x", ("line 4", "models", "x")),
            ("weight: 3", "models: any:1:2:3", ("line 4", "models", "2:3")),
            ("weight: 3", "models: any:0.5:0.2", ("c.yaml", "line 4", "queue b, model any", "above the limit")),
            (
                "weight: 3",
                "models: any:1:1",
                ("line 4", "queue b, model any: quota 1 is above that of all models, 0.5"),
            ),
            ("weight: 3", "models: any:0.2|any:0.2", ("c.yaml", "model any is named twice")),
            ("weight: 3", "models: " + "|".join(f"m{i}:1" for i in range(9)), ("line 4", "models", "8 models")),
            ("queue: a", "queue: c", ("line 9", "'c'", "has no queue")),
            ("queue: a", "queue: all", ("line 9", "queue: 'all'", "child queues", "'a'")),
            ("queue: a", "threshold: 0.5", ("line 9", "threshold", "gang")),
            ("queue: a", "gang: yes, threshold: 2", ("line 9", "threshold", "'2'")),
            ("queue: a", "gang: yes, copies: 65537", ("line 9", "65537", "at most 65536")),
            ("memory: 16Gi", "memory: 280Ti", ("line 6", "memory", "'280Ti'", "279Ti")),
            ("queue: a", "affinity: ''", ("line 9", "affinity", "1 to 63")),
            ("queue: a", "preferred-anti-affinity: ''", ("line 9", "preferred-anti-affinity", "1 to 63")),
        ):
            f.write("c.yaml", SHARED.replace(was, now))
            refused(f.sim("--spec", "c.yaml"), 1, *words)
        f.write(
            "c.yaml",
            "nodes:\n- {devices: 1}\ntasks:\n"
            + "".join(f"- {{request: 0.1, duration: 1s, exclusion: l{i}}}\n" for i in range(4097)),
        )
        refused(f.sim("--spec", "c.yaml"), 1, "line 4100", "exclusion", "'l4096'", "4096")


CROWDED = """nodes:
  - {name: n, devices: 2, memory: 16Gi, model: V100}
tasks:
  - {request: 0.5, duration: 10m, copies: 4}
  - {request: 0.5, duration: 1h, memory: 17Gi, copies: 100}
"""


def tasks_that_never_fit_are_reported():
    with Files(c_yaml=CROWDED, nodes_csv=NODES, pods_csv=PODS) as f:
        args = ("--spec", "c.yaml", "--policy", "default,best-fit,replicas")
        done = f.sim(*args)
        assert done.returncode == 0
        table = [line.split() for line in done.stdout.splitlines()]
        at = table[1].index("PLACED") - len(table[1])
        assert [(row[0], row[at]) for row in table[2:]] == [
            ("default", "3.85"),
            ("best-fit", "3.85"),
            ("replicas", "100.00"),
        ], done.stdout
        assert table[3][2] == "x1.00" and table[4][2] == "-", done.stdout
        assert done.stderr.splitlines() == [
            "divvy sim: default, best-fit: 100 of 104 tasks have no place even in an empty cluster; the first, task 5 "
            "(line 5): 0 of 1 nodes have room: 1 has too little device memory"
        ] + [
            f"divvy sim: {policy}: 100 of 104 tasks never got a place; only PLACED counts them"
            for policy in ("default", "best-fit")
        ], done.stderr
        replicas = figures(sim_json(*args, folder=f.folder.name), "replicas")
        assert replicas["end_s"]["ratio_to_first"]["mean"] is None and replicas["end_s"]["mean"] > 0
        assert replicas["placed_percent"]["points_against_first"]["mean"] > 96
        assert f.sim(*args, "--svg", "pictures").returncode == 0
        picture = xml.etree.ElementTree.parse(os.path.join(f.folder.name, "pictures", "completion-time.svg"))
        curves = [
            path.get("d") for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("fill") == "none"
        ]
        highest = [min(float(point.split(",")[1]) for point in d.strip("M").split()) for d in curves]
        bottom = max(float(point.split(",")[1]) for d in curves for point in d.strip("M").split())
        assert [round(100 * (bottom - y) / (bottom - highest[2]), 1) for y in highest] == [3.8, 3.8, 100], highest
        f.write(
            "c.yaml",
            CROWDED.replace("copies: 4}", "copies: 4, model: v100}").replace("memory: 17Gi, copies: 100", "copies: 1"),
        )
        done = f.sim(*args)
        assert (
            "divvy sim: model 'v100': no node has this model, and 4 tasks can run nowhere else, the first in line 4; "
            "nodes have V100\n" in done.stderr
        ), done.stderr
        assert "default: 4 of 5 tasks never got a place" in done.stderr, done.stderr
        f.write("c.yaml", CROWDED.replace("memory: 17Gi", "count: 3").replace("copies: 4}", "count: 3}"))
        nobody = figures(sim_json("--spec", "c.yaml", "--policy", "default", folder=f.folder.name), "default")
        assert nobody["completion_mean_s"]["mean"] is None and nobody["placed_percent"]["mean"] == 0
        assert nobody["end_s"]["mean"] is None and nobody["end_s"]["runs"] == 0
        table = [line.split() for line in f.sim("--spec", "c.yaml", "--policy", "default").stdout.splitlines()]
        assert table[2][table[1].index("DONE") - len(table[1])] == "-", table
        f.write("c.yaml", SHARED.replace("weight: 3", "models: T4:0.5:1|any:0.5:1"))
        assert (
            f.sim("--spec", "c.yaml").stderr
            == "divvy sim: model 'T4': no node has this model, and 1 queue has a quota of it, the first 'b'; nodes have devices without a model\n"
        )
        f.write("pods.csv", PODS.replace(",T4,", ',"T4",') + "e,1,1,1,500,T4|A10,0,9\n")
        assert (
            f.sim(*TRACE, "--seeds", "1").stderr.splitlines(True)[0]
            == "divvy sim: model '\"T4\"': no node has this model, and 1 task can run nowhere else, the first in line 3; "
            "nodes have V100, T4\n"
        )


CELLS = """cellTypes:
  2-any:
    childCellType: any
    childCellNumber: 2
    childCellPriority: 50
    isNodeLevel: true
  rack:
    childCellType: 2-any
    childCellNumber: 2
cells:
- cellType: rack
  cellChildren:
  - cellId: node-0000
  - cellId: node-0001
"""


def figures_leave_out_tasks_that_never_fit():
    """All figures but `placed` equal those of a file without these tasks."""

    def run(text):
        f.write("c.yaml", text)
        return sim_json(
            "--spec", "c.yaml", "--policy", "first-fit,whole", "--preempt", "restart", folder=f.folder.name
        )["policies"]

    def without(run):
        return {
            key: value for key, value in run.items() if key not in ("tasks", "placed", "placed_percent", "priorities")
        }

    with Files() as f:
        for plain, crowded in zip(run(HOPELESS), run(HOPELESS + NEVER), strict=True):
            for a, b in zip(plain["runs"], crowded["runs"], strict=True):
                assert without(a) == without(b), {k: (a[k], b[k]) for k in without(a) if a[k] != b[k]}
                assert (b["tasks"] - a["tasks"], b["placed"] - a["placed"]) == (3, 0), b
                lower = [p for p in b["priorities"] if p["priority"] < 90]
                assert [p["busy_s"] for p in lower] == [p["busy_s"] for p in a["priorities"]], b["priorities"]


def sim_reads_cells():
    with Files(cells_yaml=CELLS, nodes_csv=NODES, pods_csv=PODS) as f:
        args = ("--generate", "wang", "--nodes-like", "2x2", "--policy", "kubeshare2", "--seeds", "1")
        done = f.sim(*args, "--cells", "cells.yaml")
        assert done.returncode == 0 and not done.stderr, done.stderr
        for text, words in (
            (
                CELLS.replace("node-0001", "node-9"),
                "1 of 2 cells of nodes have the name of no node, the first 'node-9'; the cluster has 2 nodes, "
                "such as 'node-0000'",
            ),
            (
                CELLS.replace("childCellType: any", "childCellType: T4"),
                "2 nodes have other devices than the file of cells says; the first, 'node-0000', has 2 of 'any', and its "
                "cells are 2 of 'T4'",
            ),
            (
                CELLS.replace(
                    "    childCellNumber: 2\n    childCellPriority", "    childCellNumber: 3\n    childCellPriority"
                ),
                "2 nodes have other devices than the file of cells says; the first, 'node-0000', has 2 of 'any', and its "
                "cells are 3 of 'any'",
            ),
            (
                CELLS + "    cellChildren: [{}]\n",
                "1 node has other devices than the file of cells says; the first, 'node-0001', has 2 of 'any', and its "
                "cells are 1 of 'any'",
            ),
        ):
            f.write("cells.yaml", text)
            done = f.sim(*args, "--cells", "cells.yaml")
            assert done.returncode == 0 and done.stderr == f"divvy sim: cells.yaml: {words}\n", done.stderr
        f.write("cells.yaml", CELLS)
        refused(f.sim(*TRACE, "--cells", "cells.yaml"), 1, "cells.yaml", "no cell is a node", "'n0'")
        refused(f.sim(*args, "--cells", "none.yaml"), 1, "none.yaml")
        f.write("cells.yaml", CELLS.replace("childCellNumber: 2\ncells", "childCellNumber: two\ncells"))
        refused(f.sim(*args, "--cells", "cells.yaml"), 1, "cells.yaml", "line", "two")
        for text, words in (
            ("", "the file is empty"),
            ("# nothing\n", "the file is empty"),
            (CELLS.split("cells:")[0] + "cells: []\n", "line 10: cells: the list is empty"),
        ):
            f.write("cells.yaml", text)
            refused(f.sim(*args, "--cells", "cells.yaml"), 1, "cells.yaml", words)


WAYS = """nodes:
  - {name: a, devices: 1, cpu: 2, rack: r}
  - {name: b, cpu: 8, rack: r}
networks:
  - {node: a, kind: overlay, bandwidth: 40Gbps, latency: 1us}
  - {node: b, kind: overlay, bandwidth: 40Gbps, latency: 1us}
  - {node: a, kind: host, bandwidth: 9Gbps, latency: 40us}
  - {node: b, kind: host, bandwidth: 10Gbps, latency: 50us}
tasks:
  - {request: 0.5, cpu: 2, duration: 1s}
  - {request: 0.2, cpu: 2, duration: 1s, network: "5Gbps,100us"}
  - {request: 0.2, cpu: 2, duration: 1s, mode: local}
  - {request: 0.2, cpu: 2, duration: 1s, mode: remote, network: 5Gbps}
"""


def tasks_beyond_every_node_are_reported():
    """sim counts the tasks that do not fit even on an empty cluster before the first run."""
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        assert not f.sim(*TRACE, "--seeds", "1").stderr
        f.write("pods.csv", PODS + "\nhuge,999999999,1,1,500,,0,9\nmore,999999999,1,1,500,,0,9\n")
        done = f.sim(*TRACE, "--seeds", "1")
        assert done.returncode == 0
        assert (
            "2 of 6 tasks have no place even in an empty cluster; the first, task 5 (line 7): "
            "0 of 4 nodes have room: 4 have too little CPU" in done.stderr
        ), done.stderr


def generated_tasks_that_never_fit_are_reported():
    made = (
        "--generate",
        "kubeshare",
        "--tasks",
        "20",
        "--nodes-like",
        "1x1",
        "--whole",
        "2",
        "--seeds",
        "2",
        "--policy",
    )
    with Files() as f:
        assert (
            f.sim(*made, "default,replicas").stderr.splitlines()[0]
            == "divvy sim: 20 of 20 tasks of seed 42 have no place even in an empty cluster; the first, task 1: "
            "0 of 1 nodes have room: 1 has too few devices"
        )
        half = f.sim(*made[:-3], "--demand", "0.5", "--gangs", "2", "--seeds", "1", "--policy", "whole,default,fgd")
        assert half.returncode == 0, half.stderr


def quotas_beyond_the_cluster_are_reported():
    text = """nodes:
  - {name: n, devices: "V100:2|T4:1"}
queues:
  - {name: a, quota: 2, models: "V100:2"}
  - {name: b, quota: 1, models: "T4:0.5"}
  - {name: c, parent: a, quota: 2}
tasks:
  - {request: 0.5, duration: 1s, queue: c}
"""
    with Files(c_yaml=text) as f:
        assert not f.sim("--spec", "c.yaml").stderr
        f.write("c.yaml", text.replace("T4:0.5", "V100:0.5").replace("b, quota: 1", "b, quota: 1.5"))
        assert f.sim("--spec", "c.yaml").stderr.splitlines() == [
            "divvy sim: c.yaml: the queues' quotas sum to 2.5 devices of V100, and the cluster has 2",
            "divvy sim: c.yaml: the queues' quotas sum to 3.5 devices, and the cluster has 3",
        ]
        f.write(
            "c.yaml",
            text.replace("V100:2|T4:1", "3")
            .replace("V100:2", "any:4")
            .replace("a, quota: 2", "a, quota: 4")
            .replace("T4:0.5", "any:0.5"),
        )
        assert (
            f.sim("--spec", "c.yaml").stderr
            == "divvy sim: c.yaml: the queues' quotas sum to 4.5 devices without a model, and the cluster has 3\n"
            "divvy sim: c.yaml: the queues' quotas sum to 5 devices, and the cluster has 3\n"
        )


def the_limit_that_blocks_a_task_is_reported():
    text = """nodes:
  - {name: n, devices: "V100:2|T4:1"}
queues:
  - {name: all}
  - {name: a, parent: all, limit: 0.4}
  - {name: b, parent: all, limit: 3, models: "V100:0:0.25"}
  - {name: c, parent: all, limit: 2}
tasks:
  - {request: 0.5, duration: 1s, queue: QUEUE}
"""
    with Files() as f:
        for queue, limit in (
            ("a", "queue a may have 0.4 devices at most, 0.5 asked"),
            ("b, model: V100", "queue b may have 0.25 devices of model V100 at most, 0.5 asked"),
            ("c, gang: yes, copies: 5", "queue c has 2 of the 2 devices that it may have, 0.5 asked"),
        ):
            f.write("c.yaml", text.replace("QUEUE", queue))
            told = f.sim("--spec", "c.yaml", "--policy", "default").stderr.splitlines()[0]
            assert told.endswith(f"0 of 1 nodes have room: 1 is beyond the limits of its queue; {limit}"), told


def gangs_that_never_fit_are_reported():
    with Files(
        c_yaml="""nodes:
  - {name: n, devices: 2}
tasks:
  - {request: 0.5, duration: 1s}
  - {request: 0.5, duration: 1s, gang: yes, copies: 3, LABELS}
"""
    ) as f:
        with open(os.path.join(f.folder.name, "c.yaml"), encoding="utf-8") as made:
            text = made.read()
        for labels, reason in (
            ("affinity: x", "2 fit, and task 4 does not: 0 of 1 nodes have room: 1 has too little of its devices"),
            (
                "anti-affinity: x",
                "2 fit, and task 4 does not: 0 of 1 nodes have room: 1 is excluded by affinity or exclusion labels",
            ),
            ("count: 2, model: any", "2 fit, and task 4 does not: 0 of 1 nodes have room: 1 has too little"),
        ):
            f.write("c.yaml", text.replace("LABELS", labels))
            done = f.sim("--spec", "c.yaml")
            assert done.stderr.startswith(
                "divvy sim: 3 of 4 tasks have no place even in an empty cluster; the first, task 2 (line 5): "
                "3 of 3 tasks of the gang must start together; " + reason
            ), done.stderr
            assert "divvy sim: default: 3 of 4 tasks never got a place" in done.stderr, done.stderr
        f.write("c.yaml", text.replace("LABELS", "threshold: 0.5"))
        assert not f.sim("--spec", "c.yaml").stderr


def messages_use_the_names_of_labels():
    with Files(
        c_yaml="""nodes:
  - {name: a, devices: 1}
networks:
  - {node: a, kind: host, bandwidth: 1Gbps, latency: 1us}
tasks:
  - {request: 0.3, preferred-anti-affinity: quiet, mode: local, duration: 1s, copies: 2}
"""
    ) as f:
        run = sim_json("--spec", "c.yaml", "--policy", "default", "--mode", "drop", folder=f.folder.name)["policies"][
            0
        ]["runs"][0]
        assert "preferred-anti-affinity 'quiet' would keep apart" in run["decisions"][1]["why"], run


def sim_chooses_modes_and_networks():
    with Files(c_yaml=WAYS) as f:
        run = sim_json("--spec", "c.yaml", "--policy", "default", "--mode", "drop", folder=f.folder.name)["policies"][
            0
        ]["runs"][0]
        assert run["placed"] == 3 and run["requested_most_of_devices"] == [0.9], run
        here, there, queued, over = run["decisions"]
        nothing = {"network": None, "mbit": None, "latency_us": None}
        assert here == {"outcome": "local", "why": "local: 0.5 of 1 device on a", **nothing}, here
        assert "runs on b, device on a over the host's network, 1 hop, 90 us" in there.pop("why"), there
        assert there == {"outcome": "remote", "network": "host", "mbit": 9000, "latency_us": 90}, there
        assert queued["outcome"] == "queued" and queued["why"].startswith("queued, local was asked: "), queued
        # Only 4 Gbps are left of the network of kind host.
        assert (over["outcome"], over["network"], over["latency_us"]) == ("remote", "overlay", 2), over
        refused(f.sim("--spec", "c.yaml"), 1, "c.yaml", "networks", "--mode drop")
        f.write("c.yaml", WAYS.replace("5Gbps,100us", "5Gbps,1us"))
        run = sim_json("--spec", "c.yaml", "--policy", "default", "--mode", "drop", folder=f.folder.name)["policies"][
            0
        ]["runs"][0]
        assert "(no network of one kind at both ends, 5000 Mbit/s, 1 us)" in run["decisions"][1]["why"], run
        for was, now, words in (
            ("node: b, kind: host", "node: c, kind: host", ("line 8", "'c'", "no node")),
            ("kind: host, bandwidth: 9", "kind: fast, bandwidth: 9", ("line 7", "'fast'", "direct, host or overlay")),
            ("9Gbps", "9", ("line 7", "bandwidth", "network '9':")),
            ("9Gbps", "9us", ("line 7", "'9us'", "a bandwidth such as 9Gbps")),
            ("latency: 40us", "latency: 4Gbps", ("line 7", "'4Gbps'", "a latency such as 50us")),
            (", latency: 40us", "", ("line 7", "node, kind, bandwidth and latency")),
            ("latency: 40us", "colour: red", ("line 7", "colour", "expected node, kind")),
            ("rack: r}\n  - {name: b", "rack: ''}\n  - {name: b", ("line 2", "rack", "1 to 63")),
            ("mode: local", "gang: yes", ("line 12", "gang", "networks")),
        ):
            f.write("c.yaml", WAYS.replace(was, now))
            refused(f.sim("--spec", "c.yaml", "--mode", "drop"), 1, *words)


GRACE = """nodes:
  - {name: a, devices: 1}
tasks:
  - {request: 1, duration: 10s, priority: 10}
  - {request: 1, duration: 5s, at: 4s, priority: 90}
"""


def preemption_frees_capacity_for_higher_priorities():
    args = ("--generate", "kubeshare", "--priorities", "10:4,90:1", "--policy", "default", "--seeds", "2")
    kept, resumed, restarted = (
        sim_json(*args, *more)["policies"][0]["figures"]
        for more in ((), ("--preempt", "resume"), ("--preempt", "restart"))
    )
    assert kept["evicted"]["mean"] == 0 and resumed["evicted"]["mean"] > 0 and restarted["evicted"]["mean"] > 0
    assert kept["end_s"]["mean"] <= restarted["end_s"]["mean"]
    at_once, later = (sim_json(*args, "--preempt", "resume", "--grace", time) for time in ("0", "30s"))
    assert at_once == sim_json(*args, "--preempt", "resume")
    later = later["policies"][0]["figures"]
    assert (
        resumed["queued_urgent_mean_s"]["mean"]
        < later["queued_urgent_mean_s"]["mean"]
        < (resumed["queued_urgent_mean_s"]["mean"] + 30)
    ), (resumed, later)
    assert later["placed_percent"]["mean"] == 100 and later["evicted"]["mean"] > 0
    labelled = sim_json(
        *args,
        "--affinity",
        "0:8,1:1,2:1",
        "--anti-affinity",
        "0:1,7:1",
        "--exclusion",
        "0:9,3:1",
        "--gangs",
        "1:3,4:1",
        "--threshold",
        "0.5",
        "--preempt",
        "resume",
    )
    assert labelled["policies"][0]["figures"]["placed_percent"]["mean"] == 100
    labelled = sim_json(
        *args,
        "--affinity",
        "0:8,1:1,2:1",
        "--anti-affinity",
        "0:1,7:1",
        "--exclusion",
        "0:9,3:1",
        "--preferred-anti-affinity",
        "0:1,7:2,8:1",
        "--gangs",
        "1:3,4:1",
        "--threshold",
        "0.5",
        "--preempt",
        "restart",
        "--grace",
        "30s",
        "--defrag",
        "1m",
    )
    assert labelled["policies"][0]["figures"]["placed_percent"]["mean"] == 100
    # The first task is evicted at 4 s and has a grace of 3 s. Then the second task runs for 5 s,
    # and the first has 3 s left.
    with Files(spec_yaml=GRACE) as f:
        answer = json.loads(
            f.sim(
                "--spec",
                "spec.yaml",
                "--policy",
                "default",
                "--seeds",
                "1",
                "--json",
                "-",
                "--preempt",
                "resume",
                "--grace",
                "3s",
            ).stdout
        )
    told = {name: figure["mean"] for name, figure in answer["policies"][0]["figures"].items()}
    low, high = answer["policies"][0]["runs"][0]["priorities"]
    assert low == {
        "priority": 10,
        "tasks": 1,
        "placed": 1,
        "queued_mean_s": 5,
        "completion_mean_s": 15,
        "busy_s": 15,
    }, low
    assert (high["priority"], high["queued_mean_s"], high["completion_mean_s"], high["busy_s"]) == (90, 3, 8, 12), high
    assert (told["end_s"], told["queued_urgent_mean_s"], told["queued_mean_s"], told["evicted"]) == (15, 3, 4, 1), told


def sim_generates_the_named_shapes():
    for shape in ("kubeshare", "trace-like", "wang"):
        answer = sim_json("--generate", shape, "--policy", "whole,default,replicas,memory-only", "--seeds", "2")
        assert all(run["placed"] == run["tasks"] for p in answer["policies"] for run in p["runs"])
        assert figures(answer, "default")["throughput_per_h"]["ratio_to_first"]["mean"] > 1
    answer = sim_json(
        "--generate",
        "kubeshare",
        "--policy",
        "default",
        "--seeds",
        "1",
        "--tasks",
        "60",
        "--nodes-like",
        "2x2",
        "--rate",
        "3600",
        "--demand",
        "uniform",
        "--limit",
        "1",
        "--memory",
        "0.2,0.1",
        "--duration",
        "30s",
        "--whole",
        "0:9,2:1",
        "--gangs",
        "1:3,2:1",
        "--priorities",
        "0:1,90:1",
        "--queue",
        "fifo",
    )
    assert answer["devices"] == 4 and answer["policies"][0]["runs"][0]["tasks"] == 60
    assert answer["queue"] == "fifo"
    hours = sim_json("--generate", "kubeshare", "--hours", "1", "--rate", "200", "--policy", "default", "--seeds", "1")
    assert 120 < hours["policies"][0]["runs"][0]["tasks"] < 280


def a_mean_alone_is_without_deviation():
    for option in ("--demand", "--memory"):
        one, zero, other = (
            sim_json("--generate", "wang", "--policy", "default", "--seeds", "1", option, part)
            for part in ("0.4", "0.4,0", "0.4,0.2")
        )
        assert one == zero, option
        assert one != other, option
    assert "MEAN alone: the same for all (SIGMA 0)" in " ".join(sim("--help").stdout.split())


def tasks_of_a_kind_slow_each_other_and_can_be_kept_apart():
    args = (
        "--generate",
        "wang",
        "--nodes-like",
        "1x4",
        "--tasks",
        "4",
        "--duration",
        "100s,100s",
        "--rate",
        "3600000",
        "--demand",
        "0.5,0",
        "--limit",
        "0.5",
        "--policy",
        "default",
        "--seeds",
        "1",
    )

    def run(*more):
        return sim_json(*args, *more)["policies"][0]["runs"][0]

    alone, slow = run(), run("--kinds", "1", "--slowdown", "1.5")
    assert alone["completion_s_hundredths"][-1] == 100 and max(alone["requested_most_of_devices"]) == 1
    assert round(slow["completion_s_hundredths"][0], 1) == 150
    preferred = run("--kinds", "1", "--slowdown", "1.5", "--prefer-apart")
    assert preferred["completion_s_hundredths"][-1] == 100 and preferred["requested_most_of_devices"] == [0.5] * 4
    apart = run("--kinds", "1", "--slowdown", "1.5", "--apart")
    assert apart["completion_s_hundredths"][-1] == 100 and apart["requested_most_of_devices"] == [0.5] * 4


def too_few_tasks_give_no_figure():
    few = ("--generate", "kubeshare", "--tasks", "20", "--mode", "drop", "--policy", "default,best-fit", "--seeds", "2")
    lines = [line.replace(" ±", "±") for line in sim(*few).stdout.splitlines()]
    assert lines[1].split("  ")[0] == "POLICY" and "AT END  AGAINST default  IN USE AT 100%" in lines[1], lines
    rows = [line.split() for line in lines[2:]]
    # So few tasks request less than 90% of the cluster, so the figures at that point and later
    # points are missing. The columns at the end compare the policies.
    assert [[row[0], *row[1:6], row[8], row[10]] for row in rows] == [
        [policy, "-", "-", "-", "-", "-", "-", "100.00±0.00"] for policy in ("default", "best-fit")
    ], rows
    assert rows[0][6] == rows[1][6] == "19.05±11.02" and [row[7] for row in rows] == ["-", "+0.00±0.00"], rows
    assert [row[9] for row in rows] == ["8.00±0.00", "8.5±6.4"], rows
    answer = sim_json(*few)
    for run in answer["policies"][0]["runs"]:  # no task has ended, so all requests are still placed
        asked = run["requested_most_of_devices"]
        assert abs(run["allocated_at_end"] - 100 * sum(asked) / len(asked)) < 1e-6, run
        assert run["devices_in_use_at_end"] == sum(one > 0 for one in asked), run
    assert all(
        figures(answer, "best-fit")[name]["mean"] is None
        for name in ("allocated_at_90", "allocated_at_130", "fragmentation_at_100", "devices_in_use_at_100")
    )
    assert figures(answer, "best-fit")["allocated_at_90"]["points_against_first"]["mean"] is None
    enough = sim_json(
        "--generate", "kubeshare", "--tasks", "105", "--mode", "drop", "--policy", "default", "--seeds", "1"
    )
    shown = {name: figure["mean"] for name, figure in figures(enough, "default").items()}
    assert shown["allocated_at_90"] > 80 and shown["allocated_at_130"] is None, shown
    # A run has no figure at 100% if its tasks request less than 100% of the cluster. The mean then
    # covers the other runs.
    some = sim_json(
        "--generate", "kubeshare", "--tasks", "105", "--mode", "drop", "--policy", "best-fit,default", "--seeds", "5"
    )
    there = [run["allocated_at_100"] for run in some["policies"][1]["runs"] if run["allocated_at_100"] is not None]
    first = [run["allocated_at_100"] for run in some["policies"][0]["runs"] if run["allocated_at_100"] is not None]
    told = figures(some, "default")["allocated_at_100"]
    assert 0 < len(there) < 5 and abs(told["mean"] - sum(there) / len(there)) < 1e-6, (there, told)
    assert abs(told["points_against_first"]["mean"] - (sum(there) - sum(first)) / len(there)) < 1e-6, (first, told)
    all_of_it = sim(
        "--generate", "kubeshare", "--tasks", "160", "--mode", "drop", "--policy", "default,whole", "--seeds", "2"
    )
    assert "AT 100%  AGAINST default" in all_of_it.stdout and "END" not in all_of_it.stdout, all_of_it.stdout


def columns_have_different_names():
    """Each figure of several runs has its interval, even an interval of 0."""
    for args in (("--mode", "drop"), (), ("--tasks", "20", "--mode", "drop")):
        lines = sim(
            "--generate", "kubeshare", "--policy", "default,replicas", "--seeds", "2", *args
        ).stdout.splitlines()
        names = [name.strip() for name in lines[1].split("  ") if name.strip()]
        assert len(set(names)) == len(names), names
        for line in lines[2:]:
            cells = [cell.strip() for cell in line.split("  ") if cell.strip()][1:]
            assert len(cells) == len(names) - 1 and all("±" in cell or cell == "-" for cell in cells), cells
        assert ("requests of placed" in lines[0]) == ("drop" in args), lines[0]
        assert "±" not in sim("--generate", "kubeshare", "--policy", "default", "--seeds", "1", *args).stdout


def unknown_ratios_and_intervals_are_null():
    """A figure of 0 for the first policy allows no ratio, and one run has no interval."""
    with Files(w_yaml="nodes:\n- {devices: 1}\ntasks:\n- {copies: 2, request: 0.5, limit: 0.5, duration: 1m}\n") as f:
        answer = json.loads(f.sim("--spec", "w.yaml", "--policy", "default,whole", "--json", "-").stdout)
    shared, whole = (policy["figures"]["queued_mean_s"] for policy in answer["policies"])
    assert shared == {"mean": 0, "interval": None, "runs": 1}, shared
    assert whole["mean"] > 0 and whole["ratio_to_first"] == {"mean": None, "interval": None, "runs": 0}, whole


def in_drop_mode_tasks_need_no_duration():
    with Files(w_yaml="nodes:\n- {devices: 2}\ntasks:\n- {request: 0.5, duration: 1s}\n- {request: 0.5}\n") as f:
        refused(f.sim("--spec", "w.yaml"), 1, "w.yaml", "line 5", "duration", "--mode drop")
        done = f.sim("--spec", "w.yaml", "--mode", "drop", "--policy", "default", "--json", "-")
        assert json.loads(done.stdout)["policies"][0]["runs"][0]["placed"] == 2, done


def earlier_tasks_are_placed_first():
    """--mode drop places tasks in the order of `at`, and tasks with the same `at` in the order of
    the file."""
    tasks = "nodes:\n- {devices: 1}\ntasks:\n- {request: 1, at: 10m}\n- {request: 0.4, copies: 2}\n"
    with Files(w_yaml=tasks, v_yaml=tasks.replace(", at: 10m", "")) as f:
        for name, placed in (("w.yaml", 2), ("v.yaml", 1)):
            done = f.sim("--spec", name, "--mode", "drop", "--policy", "default", "--json", "-")
            assert json.loads(done.stdout)["policies"][0]["runs"][0]["placed"] == placed, done
        for option in (("--queue", "fifo"), ("--faster", "2")):
            refused(f.sim("--spec", "w.yaml", "--mode", "drop", *option), 2, option[0], "--mode drop ignores")


def whole_devices_need_the_memory():
    """A policy without whole devices places parts of devices instead, also over networks."""
    with Files(
        w_yaml="nodes:\n- {devices: 1, memory: 40Gi}\ntasks:\n- {request: 1, memory: 80Gi, duration: 1m}\n",
        n_yaml="nodes:\n- {name: n, devices: 1}\nnetworks:\n- {node: n, kind: direct, bandwidth: 9Gbps, latency: 5us}\n"
        "tasks:\n- {request: 1, mode: exclusive}\n",
    ) as f:
        done = f.sim("--spec", "w.yaml", "--policy", "whole", "--json", "-")
        assert json.loads(done.stdout)["policies"][0]["runs"][0]["placed"] == 0, done
        assert "too little device memory" in done.stderr, done.stderr
        done = f.sim("--spec", "n.yaml", "--mode", "drop", "--policy", "default,replicas,memory-only", "--json", "-")
        assert [policy["runs"][0]["placed"] for policy in json.loads(done.stdout)["policies"]] == [1, 1, 1], done


def errors_name_the_file_and_its_fault():
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        for option in (
            ("--spec",),
            ("--nodes", "nodes.csv", "--pods"),
            ("--pods", "pods.csv", "--nodes"),
            (*TRACE, "--cells"),
        ):
            refused(f.sim(*option, "none"), 1, option[-1], "'none'", "No such file")
        refused(f.sim(*TRACE, "--svg", "nodes.csv/in"), 1, "--svg", "'nodes.csv/in'")
        f.write("bare.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1000,1000,0,\n")
        refused(f.sim("--nodes", "bare.csv", "--pods", "pods.csv"), 1, "bare.csv", "no node has a device")
        f.write("bare.yaml", "nodes:\n- {cpu: 4}\ntasks:\n- {request: 1, duration: 1s}\n")
        refused(f.sim("--spec", "bare.yaml"), 1, "bare.yaml", "no node has a device")
        f.write("idle.csv", PODS.splitlines()[0] + "\na,1,1,0,0,,0,1\n")
        refused(
            f.sim("--nodes", "nodes.csv", "--pods", "idle.csv"), 1, "idle.csv", "no pod requests a device", "num_gpu"
        )
        f.write("odd.csv", PODS + '"e,1000,1024,1,500,,0,1\n')
        refused(f.sim("--nodes", "nodes.csv", "--pods", "odd.csv"), 1, "odd.csv: line 6", "quote")
        f.write("odd.csv", NODES + '"e,1000,1024,1,T4\n')
        refused(
            f.sim("--nodes", "odd.csv", "--pods", "pods.csv"), 1, f"odd.csv: line {NODES.count(chr(10)) + 1}", "quote"
        )
        for row, words in (
            (",1,1,1,T4", ("sn ''", "1 to 63")),
            ("x" * 64 + ",1,1,1,T4", ("sn 'xxx", "1 to 63")),
            ("a,1,1,1," + "y" * 64, ("model 'yyy", "at most 63")),
        ):
            f.write("odd.csv", "sn,cpu_milli,memory_mib,gpu,model\n" + row + "\n")
            refused(f.sim("--nodes", "odd.csv", "--pods", "pods.csv"), 1, "odd.csv: line 2", *words)
        f.write("none.yaml", "nodes:\n- {devices: 1}\ntasks:\n- {request: 1, memory: 0, duration: 1s}\n")
        refused(f.sim("--spec", "none.yaml"), 1, "line 4: memory: '0': expected")


def tables_round_and_json_is_the_same_in_file_and_output():
    with Files(
        c_yaml="nodes:\n- {devices: 1}\ntasks:\n- {request: 1, duration: 119.7s}\n"
        "- {request: 1, duration: 0.1s, at: 119.7s}\n"
    ) as f:
        printed = f.sim("--spec", "c.yaml", "--policy", "default", "--json", "-").stdout
        table = f.sim("--spec", "c.yaml", "--policy", "default", "--json", "out.json").stdout
        with open(os.path.join(f.folder.name, "out.json"), encoding="utf-8") as made:
            assert made.read().strip() == printed.strip()
        assert json.loads(printed)["policies"][0]["runs"][0]["end_s"] == 119.8
        # These are 118.504 s and 119.8 s, rounded.
        names = [name.strip() for name in table.splitlines()[1].split("  ") if name.strip()]
        cells = dict(zip(names, table.splitlines()[2].split()))
        assert (cells["COMPLETION P99"], cells["ALL DONE"], cells["QUEUED P99"]) == ("1m59s", "2m", "0"), cells


def the_events_file_has_the_fate_of_each_task():
    with Files(
        spec_yaml=SPEC + "  - {request: 2, at: 1s, duration: 1s}\n"
        "  - {request: 0.4, model: none, at: 1s, duration: 1s}\n"
    ) as files:

        def told(*args):
            done = files.sim("--spec", "spec.yaml", "--policy", "best-fit,whole", "--events", "events", *args)
            assert done.returncode == 0, done.stderr
            with open(os.path.join(files.folder.name, "events"), encoding="utf-8") as f:
                lines = [json.loads(line) for line in f]
            assert [e for e in lines if e["policy"] == "whole"] == lines[-len(lines) // 2 :] or args, lines
            return [
                {k: v for k, v in e.items() if k not in ("policy", "seed")} for e in lines if e["policy"] == "best-fit"
            ]

        events = told("--preempt", "resume")
        first = [e for e in events if e["task"] == 1]
        assert first[0] == {
            "task": 1,
            "event": "placed",
            "at_s": 0.0,
            "node": "a-0",
            "devices": [0],
            "why": "node a-0, a-0-gpu0 (1 of it free, 0.5 when it has come): best of 2 nodes with room by best-fit",
        }, first
        assert first[-1]["event"] == "ended", first
        urgent = [e for e in events if e["task"] == 5]
        assert [e["event"] for e in urgent] == ["placed", "ended"] and urgent[0]["at_s"] == 1, urgent
        assert len([e for e in events if e["event"] == "evicted"]) == 2, events
        never = [e for e in events if e["task"] == 7]
        assert [e["event"] for e in never] == ["waits"] and "model" in never[0]["why"], never
        dropped = [e for e in told("--mode", "drop") if e["event"] == "dropped"]
        assert {e["task"] for e in dropped} == {5, 6, 7} and all(
            e["why"].startswith("0 of 2 nodes have room: 2 have ") and "at_s" not in e for e in dropped
        ), dropped
        files.write("spec.yaml", SPEC)
        refused(files.sim("--spec", "spec.yaml", "--events", "/dev/full"), 1, "--events '/dev/full'", "No space")
        refused(files.sim("--spec", "spec.yaml", "--events", "none/such"), 1, "--events 'none/such'")
        refused(files.sim("--spec", "spec.yaml", "--events", "-"), 1, "--events -", "name a file")


# {property: (nodes, tasks, options, expected events at each time, except that tasks end)}
TURNS = {
    "an evicted task that fits elsewhere is placed before an earlier task that fits nowhere": (
        """
  - {name: a, devices: 2}
  - {name: b, devices: 1}
""",
        """
  - {request: 1, duration: 100s, priority: 10}
  - {request: 1, at: 1s, duration: 49s, priority: 90}
  - {request: 2, at: 10s, copies: 2, duration: 1000s, priority: 50}
""",
        (),
        """
0 1 placed a best of 2 nodes
1 2 placed a best of 2 nodes
10 3 waits 2 unused requested
10 4 waits 2 unused requested
50 1 evicted for task 3 of priority 50
50 3 placed a the only node
50 1 placed b the only node
1050 4 placed a the only node
""",
    ),
    "tasks preempt although a waiting task before them can preempt nobody": (
        """
  - {name: a, devices: 3}
  - {name: b, devices: 1}
""",
        """
  - {request: 1, copies: 3, at: 4s, duration: 100s, priority: 50}
  - {request: 0.5, limit: 0.5, copies: 2, at: 25s, duration: 100s, priority: 0}
  - {request: 2, copies: 2, at: 34s, duration: 20s, priority: 90, gang: yes, threshold: 0.5}
""",
        (),
        """
4 1 placed a best of 2 nodes
4 2 placed a best of 2 nodes
4 3 placed a best of 2 nodes
25 4 placed b the only node
25 5 placed b the only node
34 1 evicted for task 6 of priority 90
34 2 evicted for task 6 of priority 90
34 6 placed a the only node
34 7 waits 2 unused requested
34 4 evicted for task 1 of priority 50
34 5 evicted for task 1 of priority 50
34 1 placed b the only node
34 2 waits 1 unused requested
34 4 waits too little of their devices left
34 5 waits too little of their devices left
54 7 placed a the only node
74 2 placed a the only node
74 4 placed a the only node
74 5 placed a the only node
""",
    ),
    "events report the terminating task and the task that waits for its place": (
        """
  - {name: a, devices: 2}
""",
        """
  - {request: 1, duration: 1000s, priority: 10}
  - {request: 1, duration: 70s, priority: 95}
  - {request: 1, at: 50s, duration: 500s, priority: 10}
  - {request: 1, at: 60s, duration: 100s, priority: 90}
""",
        ("--grace", "60s"),
        """
0 2 placed a the only node
0 1 placed a the only node
50 3 waits 1 unused requested
60 1 terminating within 60 s for task 4 of priority 90
60 4 waits the place on a is reserved until 1 task has terminated
70 3 placed a the only node
120 1 evicted for task 4 of priority 90
120 4 placed a the only node
120 1 waits 1 unused requested
220 1 placed a the only node
""",
    ),
    "priorities decide within a queue, and guarantees between queues": (
        """
  - {name: n, devices: 2}
queues:
  - {name: a, quota: 1}
  - {name: b, quota: 1}
""",
        """
  - {request: 1, queue: a, duration: 1000s, priority: 10}
  - {request: 1, queue: a, duration: 500s, priority: 20}
  - {request: 1, queue: a, at: 50s, duration: 100s, priority: 90}
  - {request: 1, queue: b, at: 60s, duration: 100s, priority: 5}
  - {request: 1, queue: b, at: 70s, duration: 100s, priority: 1}
""",
        (),
        """
0 2 placed n the only node
0 1 placed n the only node
50 1 evicted for task 3 of priority 90
50 3 placed n the only node
50 1 waits queue a has 2 devices, 1 of them borrowed
60 2 evicted for task 4, whose queue reclaims its quota
60 4 placed n the only node
60 2 waits queue a has 1 of its guaranteed 1 devices
70 5 waits queue b has 1 of its guaranteed 1 devices
150 2 placed n the only node
160 5 placed n the only node
260 1 placed n the only node
""",
    ),
    "a task whose queue is at its limit preempts within the queue": (
        """
  - {name: n, devices: 2}
queues:
  - {name: a, quota: 1, limit: 1}
  - {name: b}
""",
        """
  - {request: 1, queue: a, duration: 100s, priority: 10}
  - {request: 1, queue: a, at: 10s, duration: 100s, priority: 10}
  - {request: 1, queue: a, at: 20s, duration: 100s, priority: 90}
""",
        (),
        """
0 1 placed n the only node
10 2 waits queue a has 1 of the 1 devices that it may have, 1 asked
20 1 evicted for task 3 of priority 90
20 3 placed n the only node
20 1 waits queue a has 1 of the 1 devices that it may have, 1 asked
120 1 placed n the only node
200 2 placed n the only node
""",
    ),
    "tasks without a queue and tasks of queues do not preempt each other, so evictions end": (
        """
  - {name: n, devices: 1}
queues:
  - {name: a, quota: 1}
  - {name: b}
""",
        """
  - {request: 1, queue: b, duration: 100s, priority: 90}
  - {request: 1, at: 10s, duration: 100s, priority: 50}
  - {request: 1, queue: a, at: 20s, duration: 100s, priority: 10}
""",
        (),
        """
0 1 placed n the only node
10 2 waits 1 unused requested
20 1 evicted for task 3, whose queue reclaims its quota
20 3 placed n the only node
20 1 waits queue b has 0 of its guaranteed 0 devices
120 2 placed n the only node
220 1 placed n the only node
""",
    ),
    "an evicted task is back in its queue before other tasks of the queue are placed": (
        """
  - {name: n, devices: 2}
  - {name: m, devices: 1}
queues:
  - {name: a, quota: 2}
  - {name: b, limit: 1}
""",
        """
  - {request: 0.6, limit: 0.6, duration: 1000s, priority: 90, queue: b}
  - {request: 1, duration: 100s}
  - {request: 0.6, limit: 0.6, at: 10s, duration: 1000s, priority: 10, queue: b}
  - {request: 2, at: 20s, duration: 5000s, queue: a}
""",
        (),
        """
0 2 placed n best of 2 nodes
0 1 placed n best of 2 nodes
10 3 waits queue b has 0.6 of the 1 devices that it may have
20 4 waits 2 unused requested
100 1 evicted for task 4, whose queue reclaims its quota
100 4 placed n the only node
100 1 placed m the only node
1000 3 placed m the only node
""",
    ),
    "the rest of a gang waits until the gang's reserved places are free": (
        """
  - {name: n, devices: 3}
""",
        """
  - {request: 1, copies: 2, duration: 1000s, priority: 10}
  - {request: 1, duration: 25s, priority: 99}
  - {request: 1, at: 20s, duration: 100s, priority: 50, gang: yes, copies: 4, threshold: 0.5}
""",
        ("--grace", "30s"),
        """
0 3 placed n the only node
0 1 placed n the only node
0 2 placed n the only node
20 1 terminating within 30 s for task 4 of priority 50
20 2 terminating within 30 s for task 4 of priority 50
20 4 waits the place on n is reserved until 2 tasks have terminated
20 5 waits the place on n is reserved until 2 tasks have terminated
20 6 waits the places of the gang are reserved until 2 tasks have terminated
20 7 waits the places of the gang are reserved until 2 tasks have terminated
50 1 evicted for task 4 of priority 50
50 2 evicted for task 4 of priority 50
50 4 placed n the only node
50 5 placed n the only node
50 6 placed n the only node
50 7 waits 1 unused requested
50 1 waits 1 unused requested
50 2 waits 1 unused requested
150 7 placed n the only node
150 1 placed n the only node
150 2 placed n the only node
""",
    ),
    "a victim for a queue's limit need not be on the node with free capacity": (
        """
  - {name: a, devices: 1}
  - {name: b, devices: 1}
queues:
  - {name: q, quota: 1, limit: 1.5}
""",
        """
  - {request: 0.5, queue: q, priority: 10, duration: 1000s, copies: 2}
  - {request: 0.7, queue: q, priority: 90, duration: 100s, at: 90s}
""",
        (),
        """
0 1 placed a best of 2 nodes
0 2 placed a best of 2 nodes
90 1 evicted for task 3 of priority 90
90 3 placed b the only node
90 1 waits queue q has 1.2 of the 1.5 devices that it may have
190 1 placed a best of 2 nodes
""",
    ),
    "a gang evicts no more tasks than it needs": (
        """
  - {name: a, devices: 1}
queues:
  - {name: q, quota: 1}
""",
        """
  - {request: 0.7, queue: q, priority: 10, duration: 1000s}
  - {request: 0.25, queue: q, priority: 10, duration: 1000s}
  - {request: 0.3, queue: q, priority: 90, duration: 100s, at: 90s, copies: 2, gang: yes}
""",
        (),
        """
0 1 placed a the only node
0 2 placed a the only node
90 1 evicted for task 3 of priority 90
90 3 placed a the only node
90 4 placed a the only node
90 1 waits queue q has 0.85 of its guaranteed 1 devices
390.300300301 1 placed a the only node
""",
    ),
    "a queue reclaims its guarantee as soon as another queue borrows": (
        """
  - {name: n, devices: "A:2"}
  - {name: m, devices: "B:1"}
  - {name: o, devices: "C:1"}
queues:
  - {name: a, quota: 2}
  - {name: b, quota: 1}
""",
        """
  - {request: 1, queue: b, model: A, duration: 1000s}
  - {request: 2, queue: a, model: A, duration: 100s, at: 10s}
  - {request: 1, queue: b, model: B, duration: 1000s, at: 20s}
""",
        (),
        """
0 1 placed n the only node
10 2 waits (2 unused requested)
20 3 placed m the only node
20 1 evicted for task 2, whose queue reclaims its quota
20 2 placed n the only node
20 1 waits 0 of model A are idle to borrow
120 1 placed n the only node
""",
    ),
    "of tasks that arrive at once, the task of the highest priority is placed first": (
        """
  - {name: n, devices: 1}
""",
        """
  - {request: 1, duration: 10s, priority: 10}
  - {request: 1, duration: 10s, priority: 90}
  - {request: 1, duration: 10s, priority: 10, at: 15s}
  - {request: 1, duration: 10s, priority: 90, at: 20s}
""",
        (),
        """
0 2 placed n the only node
0 1 waits 1 unused requested
10 1 placed n the only node
15 3 waits 1 unused requested
20 4 placed n the only node
30 3 placed n the only node
""",
    ),
}


def evicted_tasks_wait_their_turn():
    with Files() as files:
        for name, (nodes, tasks, options, expected) in TURNS.items():
            files.write("c.yaml", f"nodes:{nodes}tasks:{tasks}")
            done = files.sim(
                "--spec", "c.yaml", "--policy", "first-fit", "--preempt", "resume", "--events", "events", *options
            )
            assert done.returncode == 0, (name, done.stderr)
            with open(os.path.join(files.folder.name, "events"), encoding="utf-8") as f:
                events = [e for e in map(json.loads, f) if e["event"] != "ended"]
            lines = expected.strip().splitlines()
            assert len(events) == len(lines), (name, events)
            for event, line in zip(events, lines, strict=True):
                at, task, what, why = line.split(" ", 3)
                if what == "placed":
                    node, why = why.split(" ", 1)
                    assert event["node"] == node, (name, line, event)
                assert (event["at_s"], event["task"], event["event"]) == (float(at), int(task), what), (
                    name,
                    line,
                    event,
                )
                assert why in event["why"], (name, line, event)


def the_rest_of_a_gang_is_dropped_with_its_own_reason():
    with Files() as files:
        files.write(
            "c.yaml",
            "nodes:\n- {devices: 1}\ntasks:\n- {request: 1, copies: 2, duration: 1s, gang: yes, threshold: 0.5}\n",
        )
        done = files.sim("--spec", "c.yaml", "--policy", "first-fit", "--mode", "drop", "--events", "events")
        assert done.returncode == 0, done.stderr
        with open(os.path.join(files.folder.name, "events"), encoding="utf-8") as f:
            placed, dropped = map(json.loads, f)
        assert placed["event"] == "placed" and dropped["event"] == "dropped", (placed, dropped)
        assert "1 unused requested" in dropped["why"] and "gang" not in dropped["why"], dropped


def sim_draws_pictures():
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        drop, queue = (os.path.join(f.folder.name, name) for name in ("made/drop", "queue"))
        assert f.sim(*TRACE, "--svg", drop, "--policy", "fgd,best-fit").returncode == 0
        assert f.sim("--generate", "wang", "--svg", queue, "--policy", "default").returncode == 0
        assert sorted(os.listdir(drop)) == [
            "allocated.svg",
            "cluster-best-fit.svg",
            "cluster-fgd.svg",
            "fragmentation.svg",
            "idle-best-fit.svg",
            "idle-fgd.svg",
        ]
        assert sorted(os.listdir(queue)) == [
            "allocated.svg",
            "cluster-default.svg",
            "completion-time.svg",
            "fragmentation.svg",
            "idle-default.svg",
            "in-use.svg",
            "queueing-time.svg",
            "utilisation.svg",
            "waiting.svg",
        ]
        for folder in (drop, queue):
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8") as svg:
                    text = svg.read()
                xml.etree.ElementTree.fromstring(text)
                assert "(simulated)</title>" in text and "nan" not in text and "inf" not in text, name
        # With more policies, the bands of confidence would overlap to grey.
        for policies, has_bands in (
            ("default,fgd,best-fit,worst-fit,first-fit,random", True),
            ("default,fgd,best-fit,worst-fit,first-fit,random,whole", False),
        ):
            assert f.sim("--generate", "wang", "--seeds", "2", "--svg", "bands", "--policy", policies).returncode == 0
            with open(os.path.join(f.folder.name, "bands", "waiting.svg"), encoding="utf-8") as svg:
                text = svg.read()
            assert ("fill-opacity" in text) == ("95% interval" in text) == has_bands, policies
            assert ("without bands" in text) != has_bands, policies


def points(path):
    return [tuple(map(float, point.split(","))) for point in path.get("d").strip("MZ").split()]


def curves_end_with_the_slowest_run():
    with Files() as f:
        assert (
            f.sim(
                "--generate",
                "kubeshare",
                "--tasks",
                "400",
                "--seeds",
                "1",
                "--policy",
                "whole,default",
                "--svg",
                "made",
            ).returncode
            == 0
        )
        paths = {
            name: list(
                xml.etree.ElementTree.parse(os.path.join(f.folder.name, "made", name + ".svg")).iter(
                    "{http://www.w3.org/2000/svg}path"
                )
            )
            for name in ("idle-whole", "idle-default", "queueing-time")
        }
    ends = [points(path)[-1][0] for path in paths["queueing-time"] if path.get("fill") == "none"]
    assert len(ends) == 2 and ends[0] == ends[1], ends
    # After a policy's run the whole cluster is idle, up to the end of the slowest run.
    right = ends[0]
    for name, is_first in (("idle-whole", False), ("idle-default", True)):
        stacked = [points(path) for path in paths[name] if path.get("fill-opacity")]
        bottom, top = max(y for _, y in stacked[0]), min(y for path in stacked for _, y in path)
        assert max(x for x, _ in stacked[-1]) == right, (name, stacked[-1])
        assert min(y for x, y in stacked[-1] if x == right) < bottom - 1, (name, stacked[-1])
        late = [y for x, y in stacked[-1] if x > right - 200]
        assert not is_first or min(late) == top == 84 and sorted(late)[len(late) // 2 - 1] == top, (name, late)


def json_has_the_same_keys_whatever_the_data():
    def keys(*args):
        policies = sim_json(*args, "--policy", "default,whole", folder=f.folder.name)["policies"]
        return [
            (
                sorted(p["figures"]),
                [sorted(sample) for sample in p["figures"].values()],
                [sorted(run) for run in p["runs"]],
                sorted(p["runs"][0]["curves"]),
            )
            for p in policies
        ]

    with Files(c_yaml=SPEC, ways_yaml=WAYS, nodes_csv=NODES, pods_csv=PODS) as f:
        timed = keys("--spec", "c.yaml")
        f.write("c.yaml", SPEC.replace("limit: 0.5", "count: 9").replace("request: 1", "request: 9"))
        for args in (
            ("--spec", "c.yaml"),
            ("--generate", "wang", "--seeds", "1", "--preempt", "resume", "--defrag", "1m"),
            (*TRACE, "--draw", "2", "--seeds", "1"),
        ):
            assert keys(*args) == timed, args
        dropped = keys(*TRACE, "--seeds", "1")
        for args in (("--spec", "c.yaml", "--mode", "drop"), ("--spec", "ways.yaml", "--mode", "drop")):
            assert keys(*args) == dropped, args


def file_names_are_printed_as_valid_text():
    few = ("--policy", "best-fit", "--svg", "pictures", "--json", "out.json")
    for name, shown in (
        ("a" + "é" * 40, "a" + "é" * 29 + ": "),
        ("b" * 58 + "€€", "b" * 58 + ": "),
        (b"\x1b[31m\xff\xc0\xaf\xed\xa0\x80 \xc2\x9b\xef\xbf\xbf<\xf0\x9f\x98\x80>", "?[31m?????? ?????<\U0001f600>: "),
        ("c\n\x7f", "c??: "),
    ):
        with Files() as f:
            path = os.path.join(os.fsencode(f.folder.name), os.fsencode(name))
            with open(path, "w", encoding="utf-8") as file:
                file.write(SPEC)
            done = f.sim("--spec", os.fsdecode(path), *few)
            assert done.returncode == 0 and done.stdout.startswith(f"simulated: {shown}2 nodes"), done
            with open(os.path.join(f.folder.name, "out.json"), encoding="utf-8") as made:
                assert json.load(made)["workload"].startswith(shown)
            xml.etree.ElementTree.parse(os.path.join(f.folder.name, "pictures", "allocated.svg"))


def wrong_usage_is_refused():
    for args, words in {
        (): ("--pods", "--spec", "--generate"),
        ("--pods", "p"): ("--nodes",),
        ("--spec", "s", "--nodes", "n"): ("--nodes",),
        ("--generate", "star"): ("star", "kubeshare"),
        ("--spec", "s", "--rate", "5"): ("--rate", "--generate"),
        ("--generate", "wang", "--policy", "nearest"): ("nearest", "memory-only"),
        ("--generate", "wang", "--policy", "fgd,fgd"): ("fgd", "twice"),
        ("--generate", "wang", "--seeds", "5-1"): ("5-1",),
        ("--generate", "wang", "--seeds", "0"): ("0", "range"),
        ("--generate", "wang", "--seeds", "9999"): ("9999", "1000"),
        ("--generate", "wang", "--demand", "0.01"): ("--demand '0.01'", "from 0.05 to 1"),
        ("--generate", "wang", "--demand", "2,0.1"): ("--demand '2,0.1'", "from 0.05 to 1"),
        ("--generate", "wang", "--memory", "0.3,2"): ("--memory '0.3,2'", "SIGMA up to 1"),
        ("--generate", "wang", "--demand", "x"): ("demand", "x"),
        ("--generate", "wang", "--duration", "5m,1m"): ("duration", "5m,1m"),
        ("--generate", "wang", "--duration", "90h"): ("--duration", "'90h'", "at most 3d3h"),
        ("--generate", "wang", "--duration", "1m,90h"): ("duration", "'90h'", "at most 3d3h"),
        ("--generate", "wang", "--duration", "0"): ("duration", "mean 0", "above 0"),
        ("--nodes", "n", "--pods", "p", "--draw", "2", "--duration", "90h"): ("--duration", "at most 3d3h"),
        ("--generate", "wang", "--limit", "0"): ("--limit", "'0'", "above 0"),
        ("--generate", "wang", "--gangs", "1:3,1024", "--tasks", "20"): ("--generate wang: gangs 1024", "20 tasks"),
        ("--generate", "wang", "--gangs", "4:0"): ("gangs", "4:0"),
        ("--generate", "wang", "--nodes-like", "8"): ("nodes-like", "8x4"),
        ("--generate", "wang", "--nodes-like", "1048576x64"): ("nodes-like", "67108864", "12.5Gi", "at most 4194304"),
        ("--generate", "wang", "--whole", "17"): ("whole", "17"),
        ("--generate", "wang", "--orders", "o"): ("--orders",),
        ("--generate", "wang", "--faster", "2"): ("--faster",),
        ("--spec", "s", "--faster", "0"): ("--faster", "0"),
        ("--spec", "s", "--draw", "2"): ("--draw", "--pods"),
        ("--nodes", "n", "--pods", "p", "--draw", "0"): ("--draw", "0"),
        ("--nodes", "n", "--pods", "p", "--draw", "2", "--mode", "drop"): ("--draw", "--mode drop"),
        ("--nodes", "n", "--pods", "p", "--draw", "2", "--load", "0"): ("--load", "above 0"),
        ("--nodes", "n", "--pods", "p", "--draw", "2", "--load", "1001"): ("--load '1001'", "above 0 and up to 100,"),
        ("--nodes", "n", "--pods", "p", "--draw", "2", "--load", "101"): ("--load '101'", "above 0 and up to 100,"),
        ("--nodes", "n", "--pods", "p", "--load", "1"): ("--load", "--draw"),
        ("--nodes", "n", "--pods", "p", "--duration", "1h"): ("--duration", "--draw"),
        ("--nodes", "n", "--pods", "p", "--defrag", "1m"): ("--defrag", "--mode drop"),
        ("--nodes", "n", "--pods", "p", "--preempt", "resume"): ("--preempt", "--mode drop"),
        ("--generate", "wang", "--preempt", "kill"): ("kill", "restart"),
        ("--generate", "wang", "--grace", "3s"): ("--grace", "--preempt"),
        ("--generate", "wang", "--preempt", "resume", "--grace", "soon"): ("--grace", "soon"),
        ("--generate", "wang", "--preempt", "resume", "--grace", "201d"): ("--grace", "201d", "200d"),
        ("--generate", "wang", "--threshold", "0"): ("--threshold", "above 0"),
        ("--generate", "wang", "--threshold", "1.5"): ("--threshold", "1.5", "up to 1"),
        ("--generate", "wang", "--threshold", "0.5"): ("--threshold", "--gangs"),
        ("--generate", "wang", "--spec", "s"): ("too many inputs", "--spec FILE"),
        ("--generate", "wang", "--affinity", "5000"): ("--affinity", "5000", "4096"),
        ("--generate", "wang", "--affinity", ",".join(map(str, range(200)))): (
            "--affinity",
            "more than",
            "first above",
        ),
        ("--generate", "wang", "--slowdown", "1.5"): ("--slowdown", "--kinds"),
        ("--generate", "wang", "--kinds", "0:1,1:1", "--slowdown", "0.5"): ("--slowdown", "0.5", "from 1 up to 10"),
        ("--generate", "wang", "--kinds", "1", "--slowdown", "nan"): (
            "--slowdown 'nan'",
            "from 1 up to 10",
            "up to 10",
        ),
        ("--generate", "wang", "--kinds", "0:1,1:1", "--slowdown", "11"): ("--slowdown", "11", "up to 10"),
        ("--generate", "wang", "--kinds", "1", "--apart", "--anti-affinity", "1"): ("--apart", "--anti-affinity"),
        ("--generate", "wang", "--prefer-apart"): ("--prefer-apart", "--kinds"),
        ("--generate", "wang", "--kinds", "1", "--apart", "--prefer-apart"): ("--apart", "--prefer-apart"),
        ("--generate", "wang", "--kinds", "1", "--prefer-apart", "--preferred-anti-affinity", "1"): (
            "--prefer-apart",
            "--preferred-anti-affinity",
        ),
        ("--spec", "s", "--preferred-anti-affinity", "1"): ("--preferred-anti-affinity", "--generate"),
        ("--spec", "s", "--exclusion", "1"): ("--exclusion", "--generate"),
        ("--generate", "wang", "--defrag", "0"): ("--defrag", "above 0"),
        ("--generate", "wang", "--defrag", "ten"): ("--defrag", "ten"),
        ("--generate", "wang", "--defrag", "1m,0"): ("--defrag", "0", "65536"),
        ("--generate", "wang", "--defrag", "1m,5,900d"): ("--defrag", "cost"),
    }.items():
        refused(sim(*args), 2, *words)


def help_lists_every_policy():
    text = sim("--help").stdout.split("\nPolicies:\n")[1].split("\n\n")[0]
    listed = [line.split()[0] for line in text.splitlines() if line[2] != " "]
    unknown = sim("--generate", "wang", "--policy", "none")
    assert unknown.stderr.strip().endswith(" ".join(["default", *listed])), unknown.stderr
    for name in listed:
        assert sim("--generate", "wang", "--seeds", "1", "--policy", name).returncode == 0, name


def invalid_files_are_refused_before_anything_is_written():
    with Files(nodes_csv=NODES, pods_csv=PODS) as f:
        outputs = ("--json", "out.json")
        refused(f.sim("--nodes", "none.csv", "--pods", "pods.csv", *outputs), 1, "none.csv")
        f.write("bad.csv", PODS + "e,1000,1024,1,-5,,0,1\n")
        refused(f.sim("--nodes", "nodes.csv", "--pods", "bad.csv", *outputs), 1, "bad.csv", "line 6", "'-5'")
        f.write("bad.csv", "name,cpu\n1,2\n")
        refused(f.sim("--nodes", "nodes.csv", "--pods", "bad.csv", *outputs), 1, "bad.csv", "cpu_milli")
        assert not os.path.exists(os.path.join(f.folder.name, "out.json"))
        f.write("out.json", "old")
        refused(f.sim("--nodes", "bad.csv", "--pods", "pods.csv", *outputs), 1, "bad.csv")
        with open(os.path.join(f.folder.name, "out.json"), encoding="utf-8") as kept:
            assert kept.read() == "old"
        os.mkdir(os.path.join(f.folder.name, "made"))
        for path, words in (
            ("none/out.json", "No such file"),
            ("nodes.csv/out.json", "Not a directory"),
            ("made", "is a folder"),
            ("made/", "is a folder"),
            ("new/", "No such file"),
        ):
            # sim reports an unusable path before the first run, which would draw a million tasks.
            late = f.sim(*TRACE, "--draw", "1000000", "--json", path)
            refused(late, 1, "--json", f"'{path}'", words)
            assert "~" not in late.stderr, late.stderr
        assert f.sim(*TRACE, "--json", "./made/out.json", "--seeds", "1").returncode == 0
        late = f.sim(*TRACE, "--draw", "1000000", "--svg", "nodes.csv")
        refused(late, 1, "--svg 'nodes.csv'", "Not a directory")
        # Root may write here by the file's mode, but no user can.
        refused(f.sim(*TRACE, "--draw", "1000000", "--svg", "/proc/self"), 1, "--svg '/proc/self'")
        refused(f.sim(*TRACE, "--draw", "1000000", "--json", "/proc/self/x.json"), 1, "--json '/proc/self/x.json'")
        # A late failure leaves no figures, because sim writes them last.
        os.makedirs(os.path.join(f.folder.name, "pictures", "cluster-fgd.svg"))
        late = f.sim(*TRACE, "--policy", "fgd", "--seeds", "1", "--svg", "pictures", "--json", "late.json")
        refused(late, 1, "cluster-fgd.svg", "Is a directory")
        assert not late.stdout and not os.path.exists(os.path.join(f.folder.name, "late.json"))
        assert not [name for name in os.listdir(f.folder.name) if name.startswith(".divvy")]


main(
    sim_replays_a_trace,
    sim_takes_orders_and_ranks,
    sim_follows_a_trace_in_time,
    sim_draws_tasks_that_arrive_and_end,
    sim_reads_yaml_and_names_its_errors,
    a_node_may_have_several_kinds_of_devices,
    a_run_beyond_the_time_limit_is_refused,
    queues_labels_and_thresholds_decide_placement,
    tasks_that_never_fit_are_reported,
    figures_leave_out_tasks_that_never_fit,
    sim_reads_cells,
    tasks_beyond_every_node_are_reported,
    generated_tasks_that_never_fit_are_reported,
    quotas_beyond_the_cluster_are_reported,
    the_limit_that_blocks_a_task_is_reported,
    gangs_that_never_fit_are_reported,
    messages_use_the_names_of_labels,
    sim_chooses_modes_and_networks,
    preemption_frees_capacity_for_higher_priorities,
    sim_generates_the_named_shapes,
    a_mean_alone_is_without_deviation,
    tasks_of_a_kind_slow_each_other_and_can_be_kept_apart,
    too_few_tasks_give_no_figure,
    columns_have_different_names,
    unknown_ratios_and_intervals_are_null,
    in_drop_mode_tasks_need_no_duration,
    earlier_tasks_are_placed_first,
    whole_devices_need_the_memory,
    errors_name_the_file_and_its_fault,
    tables_round_and_json_is_the_same_in_file_and_output,
    the_events_file_has_the_fate_of_each_task,
    evicted_tasks_wait_their_turn,
    the_rest_of_a_gang_is_dropped_with_its_own_reason,
    sim_draws_pictures,
    curves_end_with_the_slowest_run,
    json_has_the_same_keys_whatever_the_data,
    file_names_are_printed_as_valid_text,
    wrong_usage_is_refused,
    help_lists_every_policy,
    invalid_files_are_refused_before_anything_is_written,
)
