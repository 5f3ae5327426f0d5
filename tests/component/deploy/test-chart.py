#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chart as helm itself reads it: lint, the objects of deploy/base, an effect of each value, and values that the
schema refuses."""

import copy
import json
import os
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from manifests import DEPLOY, SOURCE, base, chart, index, leaves, load, values  # noqa: E402
from tap import main, patience, skip_all  # noqa: E402

CHART = DEPLOY / "chart"
DIGEST = "sha256:" + "0123456789abcdef" * 4
# A value that the schema accepts and that is not the default one, by the last part of the value's name.
OTHERS = {
    "image": "registry.example.com/another:2",
    "digest": DIGEST,
    "registry": "registry.example.com/team",
    "tag": "2.0.0",
    "namespace": "another",
    "replicas": 3,
    "dcgmMetrics": "on",
    "imagePullPolicy": "Always",
    "log": "debug",
    "kubeletDir": "/elsewhere",
}
# Values that the schema refuses.
REFUSED = {
    "log": "loud",
    "imagePullPolicy": "Sometimes",
    "divvyd.dcgmMetrics": "maybe",
    "dra": "maybe",
    "scheduler.replicas": 0,
    "controller.replicas": 17,
    "divvyd.digest": "sha256:12",
    "namespace": "divvy-node-lease",
    "kubeletDir": "var/lib/kubelet",
    "registry": "a b",
    "tag": "a/b",
    "scheduler.image": "a b",
    "schedular": {"replicas": 1},
    "divvyd.replicas": 1,
}


def helm(*argv, given=None):
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".yaml") as file:
        more = []
        if given is not None:
            json.dump(given, file)
            file.flush()
            more = ["--values", file.name]
        return subprocess.run(
            [HELM, *argv, *more],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(),
        )


def put(tree, path, value):
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def template(given=None):
    done = helm("template", "divvy", CHART, given=given)
    assert done.returncode == 0, (given, done.stderr)
    return index(load(done.stdout))


def lint_finds_nothing():
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout + done.stderr
    assert helm("lint", DEPLOY / "chart-kubeshare").returncode == 0


def helm_makes_the_objects_of_base():
    made, wanted = template(), base()
    assert made == chart(values()), "tests/manifests.py reads the chart as helm does"
    assert set(made) == set(wanted)


def each_value_has_the_effect_that_tests_expect():
    for dra in (False, True):
        start = {**values(), "dra": dra}
        plain = template(start)
        for path in leaves(start):
            given = copy.deepcopy(start)
            put(given, path, not dra if path == ("dra",) else OTHERS[path[-1]])
            made = template(given)
            assert made != plain, (".".join(path), dra)
            assert made == chart(given), (".".join(path), dra)


def the_schema_describes_all_values_and_no_others():
    schema = json.loads((CHART / "values.schema.json").read_text())

    def described(node, path=()):
        node = schema["definitions"][node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node
        assert node["description"] if path else node["title"], path
        if "properties" not in node:
            yield path
            return
        assert node["additionalProperties"] is False, path
        for name, below in node["properties"].items():
            yield from described(below, (*path, name))

    assert set(described(schema)) == {*leaves(values()), ("global",)}


def the_schema_refuses_wrong_values():
    for name, value in REFUSED.items():
        given = {}
        put(given, name.split("."), value)
        done = helm("template", "divvy", CHART, given=given)
        assert done.returncode != 0 and name.split(".")[-1].split(" ")[0] in done.stderr, (name, value, done.stderr)


found = subprocess.run([SOURCE / "tests/k8s/get", "--check", "with-helm"], capture_output=True, text=True, check=False)
if found.returncode:
    skip_all(found.stderr.strip())
HELM = os.path.join(found.stdout.strip(), "bin/helm")
assert yaml.safe_load((CHART / "Chart.yaml").read_text())["name"] == "divvy"
main(
    lint_finds_nothing,
    helm_makes_the_objects_of_base,
    each_value_has_the_effect_that_tests_expect,
    the_schema_describes_all_values_and_no_others,
    the_schema_refuses_wrong_values,
)
