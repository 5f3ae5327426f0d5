#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the devices that src/claims chooses with those that Kubernetes' own allocator chooses.

divvy packs the devices of its own driver, so it may choose other devices there. Such a choice must be valid:
Kubernetes' allocator makes the same one when each request may only have the devices that divvy chose for it. Besides,
divvy must find devices exactly where Kubernetes finds some.

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
import copy
import json
import os
import subprocess

from cluster import Skip, built, main, patience, skip_all

from allocator_world import DRIVERS, questions

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


CHOSEN = "chosen.example.com"


def mark(question, allocations):
    """Gives each chosen device an attribute for the request that has it, and returns the names of the requests."""
    chosen = {}
    for number, allocation in enumerate(allocations):
        for result in allocation["devices"]["results"]:
            device = (result["driver"], result["pool"], result["device"])
            chosen.setdefault((number, result["request"]), set()).add(device)
    for made in question["slices"]:
        spec = made["spec"]
        for device in spec.get("devices", []):
            names = [k for k, v in chosen.items() if (spec["driver"], spec["pool"]["name"], device["name"]) in v]
            for number, request in names:
                device["attributes"][f"{CHOSEN}/{name_of(number, request)}"] = {"bool": True}
    return {k for k in chosen}


def name_of(number, request):
    return f"c{number}{request.replace('/', '')}"


def narrow(number, request, full_name):
    """Lets the request have only the devices that divvy chose for it. All devices are what they are."""
    if request.get("allocationMode") != "All":
        own = {"cel": {"expression": f"'{name_of(number, full_name)}' in device.attributes['{CHOSEN}']"}}
        request["selectors"] = [own, *request.get("selectors", [])]


def narrowed(question, allocations):
    """The question with the devices and alternatives that divvy chose, and no others."""
    question = copy.deepcopy(question)
    names = mark(question, allocations)
    for number, claim in enumerate(question["claims"]):
        devices = claim["spec"]["devices"]
        dropped = set()
        for request in devices["requests"]:
            subs = request.get("firstAvailable")
            if not subs:
                narrow(number, request["exactly"], request["name"])
                continue
            full = {s["name"]: f"{request['name']}/{s['name']}" for s in subs}
            request["firstAvailable"] = [s for s in subs if (number, full[s["name"]]) in names]
            dropped |= {f for f in full.values() if (number, f) not in names}
            for sub in request["firstAvailable"]:
                narrow(number, sub, full[sub["name"]])
        devices["constraints"] = [
            {**c, "requests": [r for r in c["requests"] if r not in dropped]} if "requests" in c else c
            for c in devices.get("constraints", [])
            if "requests" not in c or set(c["requests"]) - dropped
        ]
    return question


def in_any_order(allocations):
    made = without_ids(allocations)
    for allocation in made:
        allocation["devices"]["results"].sort(key=lambda r: json.dumps(r, sort_keys=True))
    return made


def packed_claims_are_valid():
    asked = questions(SEED + 1, 0, WORLDS)
    packing = {"driver": DRIVERS[0], "group": f"{DRIVERS[0]}/numa"}
    ours = answers(DIVVY, [{**q, "packed": packing} for q in asked])
    first = answers(DIVVY, asked)
    counts = collections.Counter()
    made = []
    for question, theirs, own, unpacked in zip(asked, answers(KUBERNETES, asked), ours, first, strict=True):
        if theirs.get("error") or own.get("error"):
            continue
        assert bool(theirs["allocations"]) == bool(own["allocations"]), f"{question}\n{theirs}\ndivvy: {own}"
        if own["allocations"]:
            counts["devices"] += 1
            counts["others"] += without_ids(own["allocations"]) != without_ids(unpacked["allocations"])
            made.append((narrowed(question, own["allocations"]), own["allocations"]))
    for (question, own), theirs in zip(made, answers(KUBERNETES, [q for q, _ in made]), strict=True):
        said = f"{json.dumps(question)}\nKubernetes: {theirs}\ndivvy: {own}"
        assert theirs.get("allocations"), said
        assert in_any_order(theirs["allocations"]) == in_any_order(own), said
    print(f"# {dict(counts)}", flush=True)
    assert counts["devices"] > len(asked) / 10 and counts["others"] > len(asked) / 100, f"too few choices: {counts}"


try:
    KUBERNETES = os.path.join(built("with-allocator"), "bin", "allocator")
    DIVVY = os.path.join(BUILD, "tests/programs/allocate")
    main(expressions_have_the_same_results, claims_get_the_same_devices, packed_claims_are_valid)
except Skip as reason:
    skip_all(reason)
