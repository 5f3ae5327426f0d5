#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the devices that src/claims chooses with those that Kubernetes' own allocator chooses.

The worlds are random slices, classes and claims (allocator_world.py), and the expressions are random CEL. Kubernetes'
allocator (modules/with/allocator) and divvy's (tests/programs/allocate.c) answer the same questions. Both must choose the
same devices, with the same configuration, nodes and consumed capacity, or none.

Known differences, which the comparison leaves out:
- Kubernetes checks the types of an expression before any evaluation, and the API server refuses an expression with wrong
  types. divvy evaluates such an expression.
- divvy's search for devices ends after a number of steps, kube-scheduler's after 10 seconds.
- If no devices are found and a pool is invalid, Kubernetes reports an error, and divvy that there are no devices.
- Kubernetes does not recognise some whole numbers as such in isInteger() and asInteger(): 0.5Ki, and sums of fractions.

ALLOCATOR_SEED, ALLOCATOR_WORLDS, ALLOCATOR_EXPRESSIONS: seed, and numbers of questions.
"""

import collections
import json
import os
import subprocess

from cluster import Skip, built, main, patience, skip_all

from allocator_world import questions

BUILD = os.environ["DIVVY_BUILD"]
SEED = int(os.environ.get("ALLOCATOR_SEED", "1"))
WORLDS = int(os.environ.get("ALLOCATOR_WORLDS", "6000"))
EXPRESSIONS = int(os.environ.get("ALLOCATOR_EXPRESSIONS", "20000"))
INVALID = "invalid resource pools were encountered"
LONG = "too many steps"


def answers(program, asked):
    text = "".join(json.dumps(question) + "\n" for question in asked)
    run = subprocess.run([program], input=text, capture_output=True, text=True, timeout=patience(600), check=False)
    assert run.returncode == 0, f"{program} ended with {run.returncode}: {run.stderr[-2000:]}"
    lines = run.stdout.splitlines()
    assert len(lines) == len(asked), f"{program}: {len(lines)} answers to {len(asked)} questions"
    return [json.loads(line) for line in lines]


def without_ids(value):
    """The value without the random identifiers of shares."""
    if isinstance(value, dict):
        return {k: "some" if k == "shareID" else without_ids(v) for k, v in value.items()}
    return [without_ids(v) for v in value] if isinstance(value, list) else value


def compare(asked, verdict, is_known):
    """Compares the verdicts on both answers to each question, and returns how often each verdict occurred."""
    counts = collections.Counter()
    for question, theirs, ours in zip(asked, answers(KUBERNETES, asked), answers(DIVVY, asked), strict=True):
        if is_known(theirs, ours):
            counts["left out"] += 1
            continue
        expected, found = verdict(theirs), verdict(ours)
        assert expected == found, f"{json.dumps(question)}\nKubernetes: {theirs}\ndivvy: {ours}"
        counts["error" if isinstance(expected, str) else "devices" if expected else "none"] += 1
    print(f"# {dict(counts)}", flush=True)
    return counts


def expressions_have_the_same_results():
    asked = questions(SEED, EXPRESSIONS, 0)
    counts = compare(
        asked,
        lambda answer: f"error at {answer['stage']}" if answer.get("error") else answer["matches"],
        lambda theirs, ours: theirs.get("stage") == "compile",
    )
    for result in ("devices", "none", "error"):
        assert counts[result] > len(asked) / 20, f"too few results of each kind: {counts}"


def claims_get_the_same_devices():
    asked = questions(SEED, 0, WORLDS)
    counts = compare(
        asked,
        lambda answer: (
            "error"
            if answer.get("error") and INVALID not in answer["error"]
            else without_ids(answer["allocations"] if "allocations" in answer else None)
        ),
        lambda theirs, ours: LONG in ours.get("error", ""),
    )
    assert counts["devices"] > len(asked) / 10 and counts["none"] > len(asked) / 10, f"too few of each kind: {counts}"
    assert counts["left out"] < len(asked) / 100, f"too many searches were not finished: {counts}"


try:
    KUBERNETES = os.path.join(built("with-allocator"), "bin", "allocator")
    DIVVY = os.path.join(BUILD, "tests/programs/allocate")
    main(expressions_have_the_same_results, claims_get_the_same_devices)
except Skip as reason:
    skip_all(reason)
