#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard, the alert rules, docs/monitoring.md and docs/reference/metrics.md name exactly the metrics that the
running daemons export."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import Skip, free_port, main, open_cluster, skip_all, wait_for  # noqa: E402
from controller import SYSTEM, installed  # noqa: E402

BUILD = os.path.abspath(os.environ.get("DIVVY_BUILD", "build"))
NAME = re.compile(r"\bdivvy_[a-z0-9_]+")
DCGM = re.compile(r"^(?:# (?:HELP|TYPE) )?(DCGM_[A-Z_]+)", re.M)
SAMPLE = re.compile(r'^(divvy_[a-z0-9_]+)(\{([a-z_]+="([^"\\\n]|\\.)*"(,|(?=\})))*\})? [-+]?([0-9.e+-]+|Inf|NaN)$')


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


# ---- the daemons and their metrics


def of_controller():
    return controller.get("/metrics", token=operator.token)[1]


def of_scheduler():
    port = free_port(controller.address)
    account = cluster.service_account(SYSTEM, "divvy-scheduler")
    cluster.keeper.ask(
        "start",
        name="divvy-scheduler",
        log=os.path.join(cluster.dir, "log", "divvy-scheduler.log"),
        env={"PATH": os.environ["PATH"], "POD_NAME": "scheduler"},
        argv=[
            os.path.join(BUILD, "src/scheduler/divvy-scheduler"),
            f"--kubeconfig={account.kubeconfig}",
            f"--listen={controller.address}:{port}",
        ],
    )

    def said():
        with contextlib.suppress(OSError):
            status, text = controller.get("/metrics", port=port, token=operator.token)
            return text if status == 200 else None
        return None

    return wait_for(said, "the scheduler serves its metrics")


def of_divvyd():
    """Metrics of a divvyd with a tenant that exceeds its memory quota."""
    with tempfile.TemporaryDirectory(prefix="divvy-test-") as folder, contextlib.ExitStack() as ends:
        address = os.path.join(folder, "metrics")
        env = {
            **os.environ,
            "DIVVY_RUNTIME_DIR": os.path.join(folder, "run"),
            "DIVVY_HOOKS": os.path.join(BUILD, "src/hook"),
            "DIVVY_SIM_LIBS": os.path.join(BUILD, "src/simgpu"),
            "STATE_DIRECTORY": os.path.join(folder, "state"),
        }

        def start(*argv, **kw):
            process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, **kw)
            ends.callback(process.wait, 60)
            ends.callback(process.terminate)
            return process

        def said():
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
                s.connect(address)
                s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                return b"".join(iter(lambda: s.recv(1 << 16), b"")).decode().partition("\r\n\r\n")[2]
            return ""

        start(
            os.path.join(BUILD, "src/divvyd/divvyd"),
            "--dcgm-metrics=on",
            "--simulate=2xTest-80Gi",
            "--metrics=unix:" + address,
        )
        wait_for(said, "divvyd serves its metrics")
        spin = os.path.join(BUILD, "tests/programs/spin")
        # The first three programs end with out-of-memory; their counts stay with the tenant.
        start(
            os.path.join(BUILD, "src/cli/divvy"),
            "run",
            "--request",
            "0.3",
            "--memory",
            "1Gi",
            "--",
            "sh",
            "-c",
            f"for i in 1 2 3; do {spin} --memory 2048; done; exec {spin} --quiet",
            stderr=subprocess.DEVNULL,
        )
        wait_for(
            lambda: re.search(r"^divvy_tenant_memory_denied_total\{.*\} 3$", said(), re.M),
            "three allocations beyond the quota are counted",
        )
        return said()


def without_dcgm(text):
    return "".join(line for line in text.splitlines(keepends=True) if not DCGM.search(line))


def samples(text):
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


# ---- the tests


def metrics_have_prometheus_format():
    for who, text in exported.items():
        kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        helps = set(re.findall(r"^# HELP (\S+) .+\.$", text, re.M))
        assert text.endswith("\n") and kinds, who
        for line in text.splitlines():
            assert line.startswith("# ") or SAMPLE.match(line), f"{who}: {line}"
        for name in samples(text):
            family = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
            assert kinds.get(family) in ("gauge", "counter", "histogram"), f"{who}: {name} has no type"
            assert family in helps, f"{who}: {family} has no help that is a sentence"
            assert (kinds[family] == "counter") == family.endswith("_total"), f"{who}: {family} is a {kinds[family]}"
            assert not re.search(
                r"_(ms|us|ns|mib|gib|milli|permille)(_|$)", family
            ), f"{who}: {family}: seconds, bytes, parts of 1"
    families = [f for text in exported.values() for f in re.findall(r"^# TYPE (\S+)", text, re.M)]
    assert len(families) == len(set(families)), "two daemons export a metric of the same name"


def every_metric_has_a_sample():
    """Except metrics of pods, which are absent here."""
    for who, text in exported.items():
        empty = {f for f in re.findall(r"^# TYPE (\S+)", text, re.M) if not any(s.startswith(f) for s in samples(text))}
        assert empty <= {"divvy_pod_requested_share", "divvy_pod_asked_share"}, f"{who}: {empty}"


def metrics_show_the_pods_requests():
    cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "asks", "annotations": {"divvy.gpu/request": "0.3"}},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        },
    )
    line = f'divvy_pod_requested_share{{namespace="{cluster.namespace}",pod="asks"}} 0.3\n'
    wait_for(lambda: line in of_controller(), "the pod's requested share is exported")
    wait_for(lambda: "divvy_controller_pods_waiting 1\n" in of_controller(), "the pod counts as waiting")


def names():
    found = set()
    for text in exported.values():
        found |= samples(text) | set(re.findall(r"^# TYPE (\S+)", text, re.M))
    return found


def known(text, where):
    used = set(NAME.findall(text))
    assert used, f"{where} names no metric"
    assert used <= names(), f"{where}: no daemon exports {used - names()}"


def the_dashboard_names_existing_metrics():
    dashboard = json.loads(text_of("deploy/monitoring/dashboard.json"))
    expressions = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", ())]
    assert len(expressions) > 20
    for expression in expressions:
        known(expression, expression)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            known(variable["definition"], variable["name"])
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def the_alerts_name_existing_metrics():
    rules = [r for g in yaml.safe_load(text_of("deploy/monitoring/alerts.yaml"))["groups"] for r in g["rules"]]
    assert len(rules) == len({r["alert"] for r in rules})
    for rule in rules:
        known(rule["expr"], rule["alert"])
        assert rule["labels"]["severity"] in ("info", "warning", "critical") and rule["annotations"]["summary"]
        assert rule["expr"].count("(") == rule["expr"].count(")"), rule["alert"]
    listed = set(re.findall(r"^\| `(Divvy\w+)` \|", text_of("docs/monitoring.md"), re.M))
    assert listed == {r["alert"] for r in rules}, f"docs/monitoring.md: {listed ^ {r['alert'] for r in rules}}"


def deprecated():
    """{old name: new name}"""
    return {
        old: new
        for text in exported.values()
        for old, new in re.findall(r"^# HELP (\S+) Deprecated: use (\S+)\.$", text, re.M)
    }


def old_names_are_exported_beside_the_new_ones():
    listed = dict(re.findall(r"^\| `(divvy_\w+)` \| `(divvy_\w+)` \|", text_of("docs/upgrading.md"), re.M))
    assert deprecated() == listed, f"docs/upgrading.md: {deprecated()} {listed}"
    for text in exported.values():
        for old, new in deprecated().items():
            of_old, of_new = (re.findall(rf"^{name}([{{ ].*)$", text, re.M) for name in (old, new))
            assert of_old == of_new, (old, of_old, of_new)


def the_page_of_metrics_lists_all_metrics():
    families = {f for text in exported.values() for f in re.findall(r"^# TYPE (\S+)", text, re.M)}
    families -= set(deprecated())
    listed = set(re.findall(r"^\| `(divvy_\w+)` \|", text_of("docs/reference/metrics.md"), re.M))
    assert (
        listed == families
    ), f"docs/reference/metrics.md: only there {listed - families}, not there {families - listed}"


def the_page_of_metrics_lists_the_names_of_dcgm_exporter():
    """Each name has one block of gauges, and the series of a block have distinct labels."""
    page, rules = text_of("docs/reference/metrics.md"), text_of("docs/monitoring.md")
    blocks = re.findall(r"^# HELP (DCGM_\w+) .+\.\n# TYPE \1 gauge\n((?:\1\{.+\} [0-9.]+\n)+)", with_dcgm, re.M)
    names_there = {name for name, _ in blocks}
    assert len(blocks) == len(names_there) and names_there == set(DCGM.findall(with_dcgm)), with_dcgm
    assert set(re.findall(r"^\| `(DCGM_\w+)` \| gauge", page, re.M)) == names_there, page
    for name, lines in blocks:
        labels = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines.splitlines()]
        of_tenants = [one for one in labels if "tenant" in one]
        assert len({tuple(one.items()) for one in labels}) == len(labels) and len(of_tenants) == 1, lines
        assert {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"} <= set(labels[0]), lines
        assert all(f"`{label}`" in page for one in labels for label in one), lines
        assert len(labels) == (2 if "_FB_" in name else 1), lines
    dropped = re.search(r"regex: (DCGM_\S+)", rules).group(1)
    assert all(re.fullmatch(dropped, name) for name in names_there), dropped


TESTS = [
    metrics_have_prometheus_format,
    every_metric_has_a_sample,
    metrics_show_the_pods_requests,
    the_dashboard_names_existing_metrics,
    the_alerts_name_existing_metrics,
    old_names_are_exported_beside_the_new_ones,
    the_page_of_metrics_lists_all_metrics,
    the_page_of_metrics_lists_the_names_of_dcgm_exporter,
]

try:
    with open_cluster("kcm") as cluster, installed(cluster) as controller:
        operator = cluster.service_account(
            cluster.namespace, "operator", cluster_rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        )
        wait_for(lambda: controller.get("/metrics", token=operator.token)[0] == 200, "the operator may")
        with_dcgm = of_divvyd()
        exported = {
            "divvy-controller": of_controller(),
            "divvy-scheduler": of_scheduler(),
            "divvyd": without_dcgm(with_dcgm),
        }
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
