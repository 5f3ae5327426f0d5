#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of docs/upgrading.md is true: an alias works under both names, and a renamed name only
under the new one.

The running programs show all that needs no API server. For divvy-scheduler, divvy-controller and
kubectl-divvy the test reads the names in the program; tests/k8s/test-monitoring.py and the unit
tests read their output."""

import json
import os
import re
import socket
import tempfile

import yaml

from rig import BUILD, DIVVYD, SOURCE, Rig, main, patience, wait_for

PROGRAMS = {
    "divvy": "src/cli/divvy",
    "divvyd": "src/divvyd/divvyd",
    "divvy-scheduler": "src/scheduler/divvy-scheduler",
    "divvy-controller": "src/controller/divvy-controller",
    "kubectl-divvy": "src/kubectl/kubectl-divvy",
}
ALIAS, RENAMED = "one release", "renamed"


def text_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as f:
        return f.read()


# ---- the page


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


def read_rows():
    """{heading: [(old cell, new cell, works for, how)]}"""
    made, heading = {}, None
    for line in text_of("docs/upgrading.md").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "old" and not cells[0].startswith("---"):
            made.setdefault(heading, []).append(tuple(cells))
    return made


ROWS = read_rows()


def rows(heading, works_for=None):
    found = [r for r in ROWS[heading] if works_for in (None, r[2])]
    assert found, f"{heading}: no row"
    return found


# ---- the programs


def texts_of(program):
    """Returns the program's strings, each with its NUL. A linker keeps only the longest of strings
    with a common end."""
    with open(os.path.join(BUILD, PROGRAMS[program]), "rb") as f:
        return f.read()


def assert_has(program, *names):
    for name in names:
        assert name.encode() + b"\0" in texts_of(program), f"{program} has no '{name}'"


def assert_lacks(program, *names):
    for name in names:
        assert b"\0" + name.encode() + b"\0" not in texts_of(program), f"{program} has '{name}'"


def programs_of(cells):
    return [p for p in PROGRAMS if f"`{p}`" in "".join(cells)]


# ---- metrics


def exported(address):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(patience())
        s.connect(address)
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: s.recv(1 << 16), b"")).decode().partition("\r\n\r\n")[2]


def values_of(text, name):
    return re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.M)


def metrics_of_divvyd():
    with tempfile.TemporaryDirectory(prefix="divvy-test-") as folder, Rig(daemon=False) as rig:
        address = os.path.join(folder, "metrics")
        rig.start("--metrics", "unix:" + address)
        wait_for(lambda: os.path.exists(address), "divvyd serves its metrics")
        return exported(address)


def both_names_of_metrics_are_exported():
    text = metrics_of_divvyd()
    for row in rows("Metrics", ALIAS):
        (old,), (new,) = names_in(row[0]), names_in(row[1])
        owner = next((p for p in ("divvy-scheduler", "divvy-controller") if new.startswith(p.replace("-", "_"))), None)
        if owner or new.startswith("divvy_pod_"):
            assert_has(owner or "divvy-controller", old, new)
            continue
        assert f"# HELP {old} Deprecated: use {new}.\n" in text, old
        assert values_of(text, new) and values_of(text, old) == values_of(text, new), (old, new)


def the_page_has_every_old_name_of_the_tables():
    listed = {n for r in rows("Metrics") + rows("Options") for n in names_in(r[0])}
    for folder, _, files in os.walk(os.path.join(SOURCE, "src")):
        for file in files:
            if not file.endswith(".c"):
                continue
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                for name in re.findall(r'\.old_name = "([^"]+)"', f.read()):
                    assert any(name == n or n.endswith("--" + name) for n in listed), f"{file}: {name}"


def shipped_files_use_the_new_names():
    old = {n for heading in ("Metrics",) for r in rows(heading) for n in names_in(r[0])}
    used = set(re.findall(r"\bdivvy_[a-z0-9_]+", text_of("deploy/monitoring/dashboard.json")))
    assert not used & old, used & old
    used = set(re.findall(r"\bdivvy_[a-z0-9_]+", text_of("deploy/monitoring/alerts.yaml")))
    assert used & old == {"divvy_strangers"}, used & old


# ---- objects


def crd(kind):
    for one in yaml.safe_load_all(text_of("deploy/base/crds.yaml")):
        if one["spec"]["names"]["kind"] == kind:
            return one["spec"]["versions"][0]
    raise AssertionError(kind)


def fields_below(schema, path):
    """The properties next to the last name of a path such as status.accounts.askedMilliseconds, and
    that name."""
    *above, last = path.split(".")
    for name in above:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema["properties"], last, schema.get("required", [])


def objects_have_both_fields():
    for old_cell, new_cell, _, _ in rows("Fields of objects", ALIAS):
        schema = crd(old_cell.split()[0])["schema"]["openAPIV3Schema"]
        fields, old, required = fields_below(schema, names_in(old_cell)[0])
        new = names_in(new_cell)[0].rpartition(".")[2]
        assert fields[old]["description"] == f"Deprecated: use {new}.", fields[old]
        assert {k: v for k, v in fields[old].items() if k != "description"} == {
            k: v for k, v in fields[new].items() if k != "description"
        }, (old, new)
        assert not {old, new} & set(required), "no renamed field is required, because each release writes only one name"


def objects_accept_both_values():
    for old_cell, new_cell, _, _ in rows("Fields of objects", RENAMED):
        path, old = names_in(old_cell)
        fields, last, _ = fields_below(crd(old_cell.split()[0])["schema"]["openAPIV3Schema"], path)
        (new,) = names_in(new_cell)
        assert {old, new} <= set(fields[last]["enum"]) and "deprecated" in fields[last]["description"]
        assert_has("divvyd", new)
        assert_lacks("divvyd", old)


# ---- JSON


def keys_of(value):
    if isinstance(value, list):
        return {k for v in value for k in keys_of(v)}
    if isinstance(value, dict):
        return set(value) | {k for v in value.values() for k in keys_of(v)}
    return set()


def answers_have_both_fields():
    """All answers but that of `audit`, which no command prints: test-agent-control tests it."""
    with Rig() as rig:
        rig.spin("one", "--request", "0.3", "--memory", "10%")
        found = [
            keys_of(rig.json(*words))
            for words in (("ps", "-o", "json"), ("why", "one", "-o", "json"), ("top", "--json"))
        ]
    for old_cell, new_cell, _, _ in rows("JSON", ALIAS):
        (owner, old), (new,) = names_in(old_cell), names_in(new_cell)
        if owner == "divvyd" and old != "strangers":
            assert all({old, new} <= keys for keys in found), (old, new)
        if owner in PROGRAMS:
            assert_has(owner, old, new)


def a_simulation_has_both_fields():
    with Rig(daemon=False) as rig, tempfile.TemporaryDirectory(prefix="divvy-test-") as folder:
        path = os.path.join(folder, "sim.json")
        done = rig.divvy("sim", "--generate", "kubeshare", "--tasks", "5", "--seeds", "1", "--json", path)
        assert done.returncode == 0, done.stderr
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
    run = found["policies"][0]["runs"][0]
    for old_cell, new_cell, _, _ in rows("JSON", ALIAS):
        if "`divvy sim`" in old_cell:
            assert run[names_in(old_cell)[1]] == run[names_in(new_cell)[0]]


def renamed_values_have_only_the_new_name():
    for old_cell, new_cell, _, _ in rows("JSON", RENAMED):
        owner, old = names_in(old_cell)
        owner = owner.split()[0]
        assert_has(owner, *names_in(new_cell))
        assert_lacks(owner, old)


# ---- options, reasons, alerts, columns


def options_are_accepted_under_both_names():
    with Rig(daemon=False) as rig:
        for row in rows("Options", ALIAS):
            for name in names_in(row[0]) + names_in(row[1]):
                program, *words = name.split()
                if program == "divvyd":
                    rig.start(*words)
                    assert rig.divvy("ps").returncode == 0
                    rig.stop()
                else:
                    rig.start()
                    done = rig.divvy(*words, "--once") if words[0] == "top" else rig.divvy(*words)
                    assert done.returncode == 0, done.stderr
                    rig.stop()
        done = rig.spawn(DIVVYD, "--help")
        told = done.communicate(timeout=patience())[0]
        assert "--refuse-unmanaged" in told and "--refuse-strangers" not in told, told


def reasons_have_only_the_new_names():
    for row in rows("Events, conditions and alerts", RENAMED):
        old, new = names_in(row[0])[0], names_in(row[1])[0]
        for program in programs_of(row[2:]):
            assert_has(program, new)
        for program in PROGRAMS:
            assert_lacks(program, old)


def alerts_have_only_the_new_names():
    alerts = set(re.findall(r"- alert: (\w+)", text_of("deploy/monitoring/alerts.yaml")))
    for row in rows("Events, conditions and alerts", RENAMED):
        if row[0].startswith("alert "):
            assert names_in(row[1])[0] in alerts and names_in(row[0])[0] not in alerts, alerts


def columns_have_only_the_new_names():
    shown = {c["name"].upper() for c in crd("SharePod")["additionalPrinterColumns"]}
    with Rig() as rig:
        head = next(line.split() for line in rig.divvy("ps").stdout.split("\n") if line.split()[:1] == ["ID"])
    for row in rows("Columns", RENAMED):
        (old,), (new,) = names_in(row[0]), names_in(row[1])
        assert new in head and old not in head, head
        assert new in shown and old not in shown, shown
        for program in programs_of(row[2:]):
            assert_has(program, new)
            assert_lacks(program, old)


main(
    both_names_of_metrics_are_exported,
    the_page_has_every_old_name_of_the_tables,
    shipped_files_use_the_new_names,
    objects_have_both_fields,
    objects_accept_both_values,
    answers_have_both_fields,
    a_simulation_has_both_fields,
    renamed_values_have_only_the_new_name,
    options_are_accepted_under_both_names,
    reasons_have_only_the_new_names,
    alerts_have_only_the_new_names,
    columns_have_only_the_new_names,
)
