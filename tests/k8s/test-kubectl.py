#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl divvy on a real API server: real kubectl finds it in PATH, under accounts with the shipped roles."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import ApiError, Skip, main, open_cluster, patience, skip_all, wait_for  # noqa: E402
from scheduled import BUILD, GIB, GPU, NODE_LEASES, RIGHTS, Scheduled, documents  # noqa: E402

PLUGIN = os.path.join(BUILD, "src/kubectl/kubectl-divvy")
OTHER_CLOCK = os.path.join(BUILD, "tests/programs/other-clock.so")
ROLES = "rbac.authorization.k8s.io"
TENANT = {"divvy.gpu/tenant": "true"}


def divvy(*args, who=None, stdin=None, **more):
    """Runs the plugin with an account that has the rights: (code, out, err)."""
    account = who or operator
    env = {
        **os.environ,
        **more,
        "KUBECONFIG": account.kubeconfig,
        "HOME": os.path.dirname(account.kubeconfig),
        "PATH": f"{os.path.dirname(PLUGIN)}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        [account.kubectl_path, "divvy", *args],
        input=stdin or "",
        capture_output=True,
        text=True,
        env=env,
        timeout=patience(120),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def well(*args, code=0, **kw):
    got, out, err = divvy(*args, **kw)
    assert got == code, (args, got, out, err)
    return out


def refused(*args, code=1, **kw):
    got, out, err = divvy(*args, **kw)
    assert got == code and err.startswith("kubectl divvy"), (args, got, out, err)
    return err


def as_json(*args, **kw):
    return json.loads(well(*args, "-o", "json", **kw))


def bind(account, role, namespace=None, kind="ClusterRole"):
    where = f"/namespaces/{namespace}/rolebindings" if namespace else "/clusterrolebindings"
    cluster.create(
        f"/apis/{ROLES}/v1{where}",
        {
            "metadata": {"name": f"{account}-{role}"},
            "roleRef": {"apiGroup": ROLES, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": cluster.namespace}],
        },
    )


def confirm(name, **measured):
    """Acts as the node's daemon: reports the grant as in force, with measurements."""
    pod = rig.bound(name)
    node, annotations = pod["spec"]["nodeName"], pod["metadata"]["annotations"]
    container, _, device = annotations["divvy.gpu/devices"].partition("=")
    tenants = cluster.get(f"{GPU}/gpunodes/{node}")["status"].get("tenants") or []
    share = {k: float(annotations[f"divvy.gpu/granted-{k}"].partition("=")[2]) for k in ("request", "limit")}
    tenants.append(
        {
            "podUID": pod["metadata"]["uid"],
            "namespace": cluster.namespace,
            "pod": name,
            "container": container,
            "slot": "0",
            "devices": [device],
            "request": int(share["request"] * 1000),
            "limit": int(share["limit"] * 1000),
            "memoryBytes": [4 * GIB],
            "class": "standard",
            "priority": 50,
            "mode": "local",
            "epoch": 0,
            **{k: v for k, v in measured.items() if k in ("idleSince", "note")},
        }
    )
    rig.status(node, tenants=tenants)
    lease = cluster.get(f"{NODE_LEASES}/{node}")
    was = (lease["metadata"].get("annotations") or {}).get("divvy.gpu/measured", "")
    one = f"{pod['metadata']['uid']}/{container}={measured.get('got', 0)}:{measured.get('used', 0)}"
    cluster.patch(
        f"{NODE_LEASES}/{node}", {"metadata": {"annotations": {"divvy.gpu/measured": f"{was} {one}".strip()}}}
    )
    return device


def budgets():
    return f"/apis/{cluster.api_version('PodDisruptionBudget')}/namespaces/{cluster.namespace}/poddisruptionbudgets"


def nothing_is_left():
    """Removes what an earlier test left behind."""
    names = [p["metadata"]["name"] for p in cluster.get(rig.path())["items"]]
    rig.gone(*names)
    cluster.delete(f"{budgets()}/b")
    rig.status("n1", tenants=[], accounts=[])
    cluster.patch(f"{GPU}/gpunodes/n1", {"spec": {"cordoned": []}})
    cluster.patch(f"{NODE_LEASES}/n1", {"metadata": {"annotations": {"divvy.gpu/measured": None}}})


def share():
    rig.pod("share", {"request": "0.5", "limit": "0.75"})
    return rig.devices("share").partition("=")[2]


def nothing_is_confirmed(node):
    rig.status(node, tenants=[])
    cluster.patch(f"{NODE_LEASES}/{node}", {"metadata": {"annotations": {"divvy.gpu/measured": None}}})


# ---- the commands that list


def kubectl_finds_the_plugin():
    assert "drain-gpu" in well("help")
    out = well("version")
    assert "kubectl-divvy" in out and "Kubernetes v1." in out, out
    assert "did you mean 'cordon-gpu'" in refused("cordon-gp", "x", code=2)
    done = subprocess.run(
        ["kubectl_complete-divvy", "cordon"], executable=PLUGIN, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0].startswith("cordon-gpu\t") and done.stdout.endswith(":4\n"), done.stdout


def top_shows_devices_and_tenants():
    rig.node("n1", "A100", "A100")
    rig.pod("share", {"request": "0.5", "limit": "0.75"})
    device = confirm("share", got=250, used=2 * GIB)
    out = well("top", "--once")
    line = next(text for text in out.splitlines() if device in text)
    assert f"[{10 * chr(0x2588)}{10 * chr(0x2592)}{20 * chr(0xb7)}]" in line, line
    assert "granted 0.5, used 0.25, memory 4Gi of 16Gi" in line, line
    assert f"{cluster.namespace}/share/main  standard  granted 0.5-0.75, used 0.25, memory 2Gi of 4Gi" in out, out
    rows = as_json("top", "--once")
    assert {(r["node"], r["uuid"], len(r["tenants"])) for r in rows} == {
        ("n1", "GPU-n1-0", device == "GPU-n1-0"),
        ("n1", "GPU-n1-1", device == "GPU-n1-1"),
    }, rows
    assert "--once" in refused("top"), "`top` runs without a terminal"
    assert "no such GPUNode" in refused("top", "--once", "--node", "n9")


def the_local_clock_does_not_matter():
    """kubectl's machine may be an hour late or early: the server's time counts."""
    nothing_is_left()
    rig.pod("late", {"request": "0.5", "limit": "0.75"})
    confirm("late", got=250, used=2 * GIB)
    for ahead_s in (-3600, 3600):
        other = {"LD_PRELOAD": OTHER_CLOCK, "OTHER_CLOCK_S": str(ahead_s)}
        for row in as_json("top", "--once", **other):
            assert not row.get("silent_seconds"), row
        assert "used 0.25, memory 2Gi of 4Gi" in well("top", "--once", **other)
        fit([manifest("later", {"request": "0.25"})], 0, **other)


def top_is_a_live_screen():
    ours, theirs = pty.openpty()
    env = {**os.environ, "KUBECONFIG": operator.kubeconfig, "LC_ALL": "C.UTF-8"}
    with subprocess.Popen([PLUGIN, "top"], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        seen = b""
        while seen.count(b"GPU-n1-1") < 2:  # two pictures
            seen += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        assert process.wait(patience()) == 0
    os.close(ours)


def ps_lists_tenants():
    rig.pod("waits", {"request": "0.5", "model": "H100"})
    rig.waits("waits", "with another model than H100")
    rig.pod("plain", schedulerName="nobody")
    rows = {r["pod"]: r for r in as_json("ps")}
    assert set(rows) == {"share", "waits"}, rows
    share, waits = rows["share"], rows["waits"]
    assert (share["requested"], share["granted"], share["used_permille"], share["state"]) == (
        "0.5-0.75",
        "0.5-0.75",
        250,
        "Running",
    )
    assert (waits["requested"], waits["state"], "node" in waits) == ("0.5-1", "Pending", False), waits
    assert as_json("ps", "-n", "default") == []
    assert {r["pod"] for r in as_json("ps", "-A")} == {"share", "waits"}
    assert "share" in well("ps", "--wide") and "GPU-n1-" in well("ps", "-w")
    assert "only one of them" in refused("ps", "-A", "-n", "default", code=2)
    rig.gone("plain")


# ---- kubectl divvy why


def why_shows_what_each_device_lacks():
    out = well("why", "waits")
    assert rig.says(out, "0/1 nodes: 1 with another model than H100"), out
    assert re.search(r"^n1 +devices 0-1 .*with another model than H100$", out, re.M) and "GPU-n1-0" not in out, out
    rows = as_json("why", f"{cluster.namespace}/waits")["nodes"]
    assert [(r["node"], r.get("device"), r["why"]) for r in rows] == [
        ("n1", None, "with another model than H100"),
        ("n1", "GPU-n1-0", "with another model than H100"),
        ("n1", "GPU-n1-1", "with another model than H100"),
    ], rows
    rig.gone("waits")
    rig.pod("large", {"request": "2"})
    rig.waits("large", "with fewer than 2 GPUs with 1 free")
    rows = {r["device"]: r for r in as_json("why", "large")["nodes"] if "device" in r}
    device = rig.devices("share").partition("=")[2]
    assert rows[device]["why"] == "0.5 free, 1 requested" and rows[device]["free_permille"] == 500, rows
    assert [r["why"] for d, r in rows.items() if d != device] == [""], rows
    rig.gone("large")
    assert "no pod 'large'" in refused("why", "large")
    for n in range(3):
        rig.pod(f"apart{n}", {"request": "0.1", "group": "apart", "group-size": "3", "anti-affinity": "x"})
    rig.waits("apart2", "2 of 3 pods fit")
    for n in range(3):
        rows = {r["device"]: r for r in as_json("why", f"apart{n}")["nodes"] if "device" in r}
        assert {r["why"] for r in rows.values()} == {"kept away by affinity or exclusion labels"}, rows
    rig.gone("apart0", "apart1", "apart2")
    # Without a cluster the plugin cannot know the pods.
    err = subprocess.run(
        [PLUGIN, "why", "large"],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
        env={**os.environ, "KUBECONFIG": "/nowhere/config"},
    ).stderr
    assert err == "kubectl divvy why: kubeconfig '/nowhere/config': no such file\n", err


def why_shows_the_limit_of_a_running_pod():
    nothing_is_confirmed("n1")
    device = confirm("share", got=740, used=4 * GIB)
    out = well("why", "share")
    assert (
        f"{device}: the tenant uses all of its limit, 0.75" in out and "device memory is nearly exhausted" in out
    ), out
    nothing_is_confirmed("n1")
    confirm("share", got=200)
    assert f"{device}: nothing limits the tenant: it used 0.2, and 0.8 was unused" in well("why", "share")


# ---- kubectl divvy fit, compared with the scheduler


def manifest(name, annotations, kind="Pod", labels=TENANT, **spec):
    """A manifest as the webhook would leave it; there is no webhook here."""
    pod = {
        "metadata": {"annotations": {f"divvy.gpu/{k}": v for k, v in annotations.items()}, "labels": labels},
        "spec": {"schedulerName": "divvy-scheduler", "containers": [{"name": "main", "image": "none"}], **spec},
    }
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": pod},
    }


def fit(objects, code, **more):
    text = "\n---\n".join(json.dumps(o) for o in objects)
    return as_json("fit", "-f", "-", stdin=text, code=code, **more)


CASES = [
    {"request": "0.3"},
    {"request": "0.5"},
    {"request": "0.8"},
    {"request": "1"},
    {"request": "2"},
    {"request": "0.3", "count": "2"},
    {"request": "0.2", "model": "H100"},
    {"request": "0.2", "model": "!A100"},
    {"request": "0.1", "memory": "8Gi"},
    {"request": "0.1", "memory": "20Gi"},
    {"request": "0.1", "device": "GPU-n1-1"},
    {"request": "0.9", "device": "GPU-n1-0"},
    {"request": "0.1", "class": "latency"},
    {"request": "0.1", "mode": "remote"},
    {"request": "0.2", "exclusion": "alone"},
    {"request": "0.4", "limit": "0.3"},
    {"request": "0.6", "memory-policy": "swap"},
]


def fit_predicts_the_schedulers_decision():
    """Each case alone, first by `fit`, then for real. From the sixteenth pod on the scheduler's learnt workload mix, which
    `fit` does not know, would matter: the test starts a new scheduler before that."""
    nothing_is_left()
    share()
    before = {p["metadata"]["name"] for p in cluster.get(rig.path())["items"]}
    for i, asked in enumerate(CASES):
        if i % 8 == 0:
            rig.kill(rig.processes[0])
            rig.start()
        got, out, err = divvy("fit", "-f", "-", "-o", "json", stdin=json.dumps(manifest(f"c{i}", asked)))
        assert got in (0, 3), (asked, out, err)
        answer = json.loads(out)[0]
        assert {p["metadata"]["name"] for p in cluster.get(rig.path())["items"]} == before, "`fit` has changed the pods"
        rig.pod(f"c{i}", asked)
        if got == 0:
            assert rig.bound(f"c{i}")["spec"]["nodeName"] == answer["node"], (asked, answer)
            assert rig.devices(f"c{i}") == " ".join(answer["devices"]), (asked, answer)
        else:
            said = rig.waits(f"c{i}", "")["message"]
            assert said == answer["why"], (asked, answer, said)
        rig.gone(f"c{i}")
    assert {divvy("fit", "-f", "-", stdin=json.dumps(manifest("c", c)))[0] for c in CASES} == {0, 3}


def fit_takes_templates_and_gangs():
    nothing_is_left()
    share()
    rows = fit([manifest("web", {"request": "0.6"}, "Deployment")], 3)
    assert [r["answer"] for r in rows].count("yes") == 1 and len(rows) == 3, rows
    assert any("no GPU with 0.6 free" in r["why"] for r in rows) and any("nodes" in r for r in rows), rows
    gang = {"group": "g", "group-size": "2"}
    rows = fit([manifest("m1", {"request": "0.5", **gang}), manifest("m2", {"request": "0.5", **gang})], 0)
    assert {r["answer"] for r in rows} == {"yes"}, rows
    rows = fit([manifest("m1", {"request": "0.5", **gang})], 3)
    assert "1 of 2 pods exist, 2 are needed" in rows[0]["why"], rows
    rows = fit(
        [
            {
                "apiVersion": "divvy.gpu/v1",
                "kind": "SharePod",
                "metadata": {"name": "s"},
                "spec": {
                    "request": 0.25,
                    "memoryPolicy": "swap",
                    "template": {
                        "metadata": {"labels": TENANT},
                        "spec": {"containers": [{"name": "main", "image": "none"}]},
                    },
                },
            }
        ],
        0,
    )
    assert rows[0]["from"] == "SharePod s" and rows[0]["node"] == "n1", rows
    rows = fit([manifest("past", {"request": "0.2"}, labels={})], 3)
    assert (
        "divvy's webhook did not process the pod" in rows[0]["why"] and "divvy.gpu/admission=ignore" in rows[0]["why"]
    ), rows
    assert "creates no pod" in refused("fit", "-f", "-", stdin='{"kind": "Service"}')
    assert "-f FILE" in refused("fit", code=2)


def fit_names_the_pods_to_evict():
    nothing_is_left()
    share()
    rig.pod("low", {"request": "1", "priority": "10"})
    rig.bound("low")
    rows = fit([manifest("high", {"request": "1", "priority": "90"})], 3)
    assert rows[0]["answer"] == "after evictions" and rows[0]["evicts"] == [f"{cluster.namespace}/low"], rows
    assert "deletionTimestamp" not in rig.get("low")["metadata"]
    rig.gone("low")


def fit_shows_what_the_server_refuses():
    bad = manifest("bad", {"request": "0.1"})
    bad["spec"]["containers"][0]["image"] = ""
    bad["spec"]["containers"].append({"name": "main"})
    assert "would be refused" in refused("fit", "-f", "-", stdin=json.dumps(bad))
    quotas = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas"
    cluster.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})

    def is_shown():
        got, _, err = divvy("fit", "-f", "-", stdin=json.dumps(manifest("q", {"request": "0.1"})))
        return got == 1 and "quota" in err

    try:
        # the API server learns of a quota a moment later
        wait_for(is_shown, "fit shows that the quota refuses the pod")
    finally:
        cluster.delete(f"{quotas}/none")


# ---- cordon, drain, defrag


def the_xid_of_a_device_is_cleared():
    nothing_is_left()
    devices = cluster.get(f"{GPU}/gpunodes/n1")["status"]["devices"]
    uuid = devices[0]["uuid"]
    assert "n1/GPU-n1-0 has no taint: there is nothing to clear" in refused("clear-gpu", "n1/0")
    added = {"effect": "NoExecute", "timeAdded": "2026-11-29T16:45:15Z"}
    lost = {"key": "divvy.gpu/lost", **added}
    xid = {"key": "divvy.gpu/xid", "value": "48", **added}

    def taint(*taints):
        faulty = {**devices[0], "health": "Unhealthy", "reason": "had Xid 48", "taints": list(taints)}
        rig.status("n1", devices=[faulty, *devices[1:]])

    taint(lost)
    assert "has no Xid error but the taint divvy.gpu/lost" in refused("clear-gpu", "n1/0")
    taint(lost, xid)
    shown = well("top", "--once")
    assert "Unhealthy: had Xid 48; taint divvy.gpu/lost:NoExecute since 2026-11-29T16:45:15Z; taint " in shown, shown
    assert "divvy-operator" in refused("clear-gpu", "n1/0", who=viewer)
    assert well("clear-gpu", "n1/0") == f"n1/{uuid} cleared\n"
    assert well("clear-gpu", uuid) == f"n1/{uuid} was already cleared\n"
    cleared = {"uuid": uuid, "timeAdded": added["timeAdded"]}
    assert cluster.get(f"{GPU}/gpunodes/n1")["spec"]["cleared"] == [cleared]
    later = {**xid, "timeAdded": "2026-11-29T17:45:15Z"}
    taint(later)
    assert well("clear-gpu", uuid) == f"n1/{uuid} cleared\n"
    assert cluster.get(f"{GPU}/gpunodes/n1")["spec"]["cleared"] == [{**cleared, "timeAdded": later["timeAdded"]}]
    rig.status("n1", devices=devices)


def a_device_is_cordoned():
    nothing_is_left()
    share()
    device = rig.devices("share").partition("=")[2]
    assert well("cordon-gpu", f"n1/{device}", "--reason", "ECC errors") == f"n1/{device} cordoned\n"
    assert "was already cordoned" in well("cordon-gpu", device)
    assert cluster.get(f"{GPU}/gpunodes/n1")["spec"]["cordoned"] == [{"uuid": device, "reason": "ECC errors"}]
    assert "cordoned: ECC errors" in well("top", "--once")
    other = {"GPU-n1-0": "GPU-n1-1", "GPU-n1-1": "GPU-n1-0"}[device]
    rig.pod("fresh", {"request": "0.4"})
    assert rig.devices("fresh") == f"main={other}"
    rows = {r["device"]: r["why"] for r in fit([manifest("x", {"request": "0.9"})], 3)[0]["nodes"] if "device" in r}
    assert rows == {device: "cordoned", other: "0.6 free, 0.9 requested"}, rows
    well("uncordon-gpu", f"n1/{device[-1]}")
    assert cluster.get(f"{GPU}/gpunodes/n1")["spec"]["cordoned"] == []
    assert "no such device" in refused("cordon-gpu", "n1/GPU-9")
    assert "no GPUNode 'n9'" in refused("cordon-gpu", "n9/0")
    assert "divvy-operator" in refused("cordon-gpu", f"n1/{device}", who=viewer)
    rig.gone("fresh")


@contextlib.contextmanager
def a_kubelet():
    """A minimal kubelet: pods run, and deleted pods are removed a moment later."""
    ends = threading.Event()

    def work():
        while not ends.wait(0.1):
            for pod in cluster.get(rig.path())["items"]:
                name = pod["metadata"]["name"]
                with contextlib.suppress(ApiError):  # the pod is deleted already
                    if pod["metadata"].get("deletionTimestamp"):
                        cluster.delete(rig.path(name), grace_s=0)
                    elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                        cluster.patch(rig.path(name) + "/status", {"status": {"phase": "Running"}})

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def runs(*names):
    wait_for(lambda: all(rig.get(n)["status"]["phase"] == "Running" for n in names), f"{names} run")


def owned(name, request, app="web", **keys):
    """A pod with an owner that makes it again: the test itself."""
    owners = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    cluster.create_once(owners, {"metadata": {"name": app}})
    pod = rig.pod(name, {"request": request, **keys}, labels={"app": app})
    return (
        cluster.patch(
            rig.path(name),
            {
                "metadata": {
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "ConfigMap",
                            "name": app,
                            "controller": True,
                            "uid": cluster.get(f"{owners}/{app}")["metadata"]["uid"],
                        }
                    ]
                }
            },
        )
        and pod
    )


def a_device_is_drained():
    nothing_is_left()
    owned("d1", "0.2", device="GPU-n1-0"), owned("d2", "0.2", device="GPU-n1-0"), owned("d3", "0.2", device="GPU-n1-1")
    cluster.create(
        budgets(),
        {
            "apiVersion": cluster.api_version("PodDisruptionBudget"),
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
    )
    with a_kubelet():
        runs("d1", "d2", "d3")
        out = well("drain-gpu", "n1/0", "--dry-run")
        # The hexadecimal name of a namespace may contain "d3".
        pods = [f"{cluster.namespace}/{n}:" in out for n in ("d1", "d2", "d3")]
        assert pods == [True, True, False], out
        assert not cluster.get(f"{GPU}/gpunodes/n1")["spec"].get("cordoned")
        out = well("drain-gpu", "n1/0", "--timeout", "3s", code=3)
        assert out.count("its PodDisruptionBudget blocks the eviction") == 2 and "d1: still there after 3s" in out, out
        assert cluster.get(f"{GPU}/gpunodes/n1")["spec"]["cordoned"] == [{"uuid": "GPU-n1-0", "reason": "drained"}]
        cluster.delete(f"{budgets()}/b")
        out = well("drain-gpu", "n1/0")
        assert all(
            f"{cluster.namespace}/{n}: {what}" in out for n in ("d1", "d2") for what in ("evicted", "deleted")
        ), out
        assert out.endswith("n1/GPU-n1-0 drained\n"), out
        assert rig.get("d3")["spec"]["nodeName"] == "n1"
        well("uncordon-gpu", "n1/0")
        rig.pod("bare", {"request": "0.2", "device": "GPU-n1-0"})
        runs("bare")
        owned("d4", "0.2", device="GPU-n1-0")
        runs("d4")
        assert f"pod {cluster.namespace}/bare: no controller would recreate it" in refused("drain-gpu", "n1/0")
        assert not cluster.get(f"{GPU}/gpunodes/n1")["spec"].get("cordoned")
        out = well("drain-gpu", "n1/0", "--dry-run", code=3)
        assert "/bare: no controller would recreate it; --force evicts it" in out and "/d4: " in out, out
        assert out.endswith("would not be drained without --force\n"), out
        assert "bare: deleted" in well("drain-gpu", "n1/0", "--force", "--grace-period", "0")


def apart(first, second):
    """Two pods on a device each, where one device has room for both."""
    owned(first, "0.3")
    device = rig.devices(first).partition("=")[2]
    well("cordon-gpu", device)
    owned(second, "0.3")
    runs(first, second)
    well("uncordon-gpu", device)


def an_interrupted_defrag_uncordons_the_devices():
    """Evicted pods stay until their kubelet has ended them; here there is no kubelet."""
    nothing_is_left()
    with a_kubelet():
        apart("e1", "e2")
    child = subprocess.Popen(
        [PLUGIN, "defrag"],
        env={**os.environ, "KUBECONFIG": operator.kubeconfig},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(lambda: cluster.get(f"{GPU}/gpunodes/n1")["spec"].get("cordoned"), "a device is closed")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=patience())
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 1 and "stopped by a signal; the devices are uncordoned" in err, (
        child.returncode,
        out,
        err,
    )
    assert not cluster.get(f"{GPU}/gpunodes/n1")["spec"].get("cordoned")


def defrag_makes_whole_devices():
    nothing_is_left()
    with a_kubelet():
        apart("f1", "f2")
        plan = as_json("defrag", "--dry-run")
        assert (plan["whole_before"], plan["whole_after"], len(plan["moves"])) == (0, 1, 1), plan
        move = plan["moves"][0]
        assert move["device"] != move["to_device"] and move["pod"] in ("f1", "f2"), plan
        assert "1 pod is to move, which leaves 1 instead of 0 devices unused" in well("defrag", "--dry-run")
        out = well("defrag", "--timeout", "60s")
        assert f"{cluster.namespace}/{move['pod']}: deleted" in out, out
        assert not cluster.get(f"{GPU}/gpunodes/n1")["spec"].get("cordoned")
        assert rig.get({"f1": "f2", "f2": "f1"}[move["pod"]])["spec"]["nodeName"] == "n1"
        assert "no move would free" in well("defrag", "--dry-run")


# ---- accounts


def usage_and_idle_show_the_accounts():
    nothing_is_left()
    account = {
        "requestedMilliseconds": 5000,
        "askedMilliseconds": 5000,
        "grantedMilliseconds": 4000,
        "usedMilliseconds": 1500,
    }
    rig.status(
        "n1",
        accounts=[
            {"day": "2026-01-01", "namespace": "a", **account},
            {"day": "2026-01-02", "namespace": "a", **account},
            {"day": "2026-01-02", "namespace": "b", **account},
        ],
    )
    assert well("usage", "--csv").splitlines() == [
        "namespace,requested_gpu_seconds,granted_gpu_seconds,used_gpu_seconds,asked_gpu_seconds",
        "a,10.000,8.000,3.000,10.000",
        "b,5.000,4.000,1.500,5.000",
    ]
    rows = as_json("usage", "--since", "2026-01-02")
    assert [(r["namespace"], r["used_gpu_seconds"]) for r in rows] == [("a", 1.5), ("b", 1.5)], rows
    assert as_json("usage", "--since", "1d") == []
    assert "2026-11-01 or a time such as 7d" in refused("usage", "--since", "yesterday", code=2)
    rig.pod("sleeps", {"request": "0.3"})
    device = confirm("sleeps", idleSince="2026-01-01T00:00:00Z")
    rows = as_json("idle")
    assert [(r["uuid"], r["why"], r.get("pod")) for r in rows] == sorted(
        [
            (device, "reserved but unused", "sleeps"),
            ({"GPU-n1-0": "GPU-n1-1", "GPU-n1-1": "GPU-n1-0"}[device], "no tenant", None),
        ]
    ), rows
    assert "sleeps" in well("idle") and "sleeps" not in well("idle", "--for", "360d")
    rig.gone("sleeps")


def without_rights_the_message_names_the_role():
    nobody = cluster.service_account(cluster.namespace, "nobody")
    err = refused("top", "--once", who=nobody)
    assert "403" in err and "divvy-viewer" in err, err
    assert "GPU-n1-0" in well("top", "--once", who=viewer)
    err = refused("ps", "--context", "elsewhere")
    assert "elsewhere" in err, err


def an_administrator_may_impersonate_an_account():
    """The test's administrator may impersonate any account; the operator may not."""
    account = ("--as", f"system:serviceaccount:{cluster.namespace}:nobody")
    err = refused("top", "--once", *account, who=cluster)
    assert "403" in err and "divvy-viewer" in err, err
    assert "GPU-n1-0" in well(
        "top", "--once", *account, "--as-group", "system:authenticated,system:masters", who=cluster
    )
    assert "impersonate" in refused("top", "--once", *account)
    assert "--as-group needs --as" in refused("top", "--once", "--as-group", "a")


TESTS = [
    kubectl_finds_the_plugin,
    top_shows_devices_and_tenants,
    top_is_a_live_screen,
    ps_lists_tenants,
    why_shows_what_each_device_lacks,
    why_shows_the_limit_of_a_running_pod,
    the_local_clock_does_not_matter,
    fit_predicts_the_schedulers_decision,
    fit_takes_templates_and_gangs,
    fit_names_the_pods_to_evict,
    fit_shows_what_the_server_refuses,
    the_xid_of_a_device_is_cleared,
    a_device_is_cordoned,
    a_device_is_drained,
    an_interrupted_defrag_uncordons_the_devices,
    defrag_makes_whole_devices,
    usage_and_idle_show_the_accounts,
    without_rights_the_message_names_the_role,
    an_administrator_may_impersonate_an_account,
]

try:
    with open_cluster("kcm") as cluster:
        with Scheduled(cluster) as rig:
            cluster.apply(
                *[d for d in documents("controller.yaml", *RIGHTS) if "divvy-viewer" in d or "divvy-operator" in d]
            )
            # `fit` sends a dry run of the pod's creation, so it needs the right to create pods.
            own = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
            viewer = cluster.service_account(cluster.namespace, "viewer")
            operator = cluster.service_account(cluster.namespace, "operator", rules=own)
            for account in ("viewer", "operator"):
                bind(account, "divvy-viewer")
                bind(account, "divvy-viewer", "divvy-node-lease", "Role")
            bind("operator", "divvy-operator")
            rig.start()
            main(*TESTS)
except Skip as reason:
    skip_all(reason)
