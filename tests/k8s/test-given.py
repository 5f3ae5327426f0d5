#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests on the cluster of KUBECONFIG: they run there, leave nothing behind, and spare a divvy that is installed already."""

import glob
import os
import re
import subprocess
import sys

from cluster import HERE, Skip, main, open_cluster, patience, skip_all, wait_for

SYSTEM = "/api/v1/namespaces/divvy-system"
# A part of the cluster, divvy's definitions alone, and divvy with its webhooks and nodes without a kubelet.
FILES = ("cluster", "objects", "nodegroup")


def run(name):
    """The output of a file of tests, which has run as the administrator of our cluster."""
    env = {k: v for k, v in os.environ.items() if k != "DIVVY_K8S"}
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, f"test-{name}.py")],
        env={**env, "KUBECONFIG": cluster.kubeconfig, "PATH": f"{cluster.bin}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(600),
        check=False,
    )
    assert done.returncode == 0, f"test-{name}.py: {done.returncode}: {done.stdout[-3000:]}{done.stderr[-2000:]}"
    return done.stdout


def collections():
    """Paths of all collections: cluster-wide ones, and those of the namespaces that tests do not make."""
    for root in [
        "/api/v1",
        *("/apis/" + g["preferredVersion"]["groupVersion"] for g in cluster.get("/apis")["groups"]),
    ]:
        for r in cluster.get(root)["resources"]:
            if "/" in r["name"] or "list" not in r["verbs"] or r["name"] in ("events", "leases", "componentstatuses"):
                continue
            yield from [f"{root}/{r['name']}"] if not r["namespaced"] else [
                f"{root}/namespaces/{space}/{r['name']}" for space in ("default", "kube-system")
            ]


def objects():
    """{path: divvy's labels and annotations}"""
    found = {}
    for path in collections():
        for obj in cluster.get(path).get("items") or []:
            keys = {**(obj["metadata"].get("labels") or {}), **(obj["metadata"].get("annotations") or {})}
            found[f"{path}/{obj['metadata']['name']}"] = sorted(k for k in keys if "divvy" in k)
    return found


def files_run_and_leave_nothing_behind():
    before = objects()
    for name in FILES:
        out = run(name)
        ran = [line for line in out.splitlines() if line.startswith("ok ") and "# SKIP" not in line]
        assert len(ran) > 4, out
        wait_for(lambda: objects() == before, f"test-{name}.py leaves the cluster as it was")


def a_file_that_breaks_the_cluster_skips():
    out = run("autoscale")
    assert out.startswith(
        "1..0 # SKIP not on the cluster of KUBECONFIG: it changes the controller manager's options"
    ), out


def the_readme_names_each_file_that_skips():
    """A test file asks for a cluster of its own by the parameter `own`; the README has the reason."""
    skipped = set()
    for path in glob.glob(os.path.join(HERE, "test-*.py")) + [os.path.join(HERE, "chaos.py")]:
        with open(path, encoding="utf-8") as f:
            if re.search(r"\bown=", f.read()):
                skipped.add(os.path.basename(path).removeprefix("test-").removesuffix(".py"))
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
        table = f.read().split("These files are skipped whole:")[1].split("\n\n")[1]
    named = {
        n.removesuffix(".py") for row in table.splitlines()[2:] for n in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    assert named == skipped, f"only the README: {named - skipped}; only the files: {skipped - named}"


def an_installed_divvy_is_spared():
    cluster.create("/api/v1/namespaces", {"metadata": {"name": "divvy-system"}})
    for name in FILES[1:]:
        out = run(name)
        assert "# SKIP divvy is installed on the cluster of KUBECONFIG" in out, out
        assert cluster.get(SYSTEM)["status"]["phase"] == "Active"


try:
    with open_cluster("kcm", own="it examines what tests leave behind") as cluster:
        main(
            files_run_and_leave_nothing_behind,
            a_file_that_breaks_the_cluster_skips,
            the_readme_names_each_file_that_skips,
            an_installed_divvy_is_spared,
        )
except Skip as reason:
    skip_all(reason)
