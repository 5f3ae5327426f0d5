#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The web page of a divvy-controller on a real API server: the rights to see it, and that it follows the cluster.

With three nodes, then with a thousand devices; a test in chromium, where it is available, checks the page as people see it."""

import contextlib
import http.client
import json
import os
import queue
import socket
import ssl
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import Skip, main, open_cluster, skip_all, wait_for  # noqa: E402
from controller import installed  # noqa: E402
from tap import PATIENCE_S, patience  # noqa: E402

G = "/apis/divvy.gpu/v1/gpunodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/divvy-node-lease/leases"
GIB = 1 << 30
COOKIE = "__Host-divvy-token"
MARKUP = "<img src=x onerror=alert(1)>"


def connect(timeout=PATIENCE_S):
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(controller.address, controller.page, timeout=patience(timeout), context=tls)


def ask(method, path, token=None, cookie=None):
    """(status, headers, text)"""
    headers = {"Authorization": "Bearer " + token} if token else {}
    if cookie:
        headers["Cookie"] = f"{COOKIE}={cookie}"
    with contextlib.closing(connect()) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


class Viewer:
    """Follows the events in a thread; `seen` is the state that a page would show."""

    def __init__(self, token, after=""):
        self.seen = {"nodes": {}, "use": {}, "waiting": {}, "totals": {}}
        self.events = queue.Queue()
        self.last, self.n_all, self.bytes = after, 0, 0
        self.connection = connect()
        self.connection.request("GET", "/events/" + after, headers={"Cookie": f"{COOKIE}={token}"})
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.headers["Content-Type"] == "text/event-stream"
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        event = {}
        try:
            for line in self.answer:
                self.bytes += len(line)
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key:
                    event[key] = value
                    continue
                self.events.put(event)
                event = {}
        except (OSError, http.client.HTTPException):
            pass
        self.events.put(None)

    def take(self, patience_s=PATIENCE_S):
        event = self.events.get(timeout=patience(patience_s))
        assert event is not None, "the stream has ended"
        if event["event"] != "state":
            return event
        self.last = event["id"]
        told = json.loads(event["data"])
        if told["all"]:
            self.n_all += 1
            for kind in self.seen:
                self.seen[kind] = {}
        for kind in self.seen:
            for key, value in told.get(kind, {}).items():
                if value is None:
                    self.seen[kind].pop(key, None)
                else:
                    self.seen[kind][key] = value
        return event

    def until(self, condition, what):
        end = time.monotonic() + patience()
        while not condition(self.seen):
            assert time.monotonic() < end, f"never: {what}"
            self.take(max(0.1, end - time.monotonic()))

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.connection.close()


@contextlib.contextmanager
def viewer(after=""):
    v = Viewer(operator.token, after)
    try:
        yield v
    finally:
        v.close()


# ---- a cluster of GPUNodes


def make_node(name, devices, tenants):
    cluster.create(G, {"apiVersion": "divvy.gpu/v1", "kind": "GPUNode", "metadata": {"name": name}})
    set_status(name, devices, tenants)
    cluster.create(LEASES, lease(name, {}))


def uuid(name, i):
    return f"GPU-{name}-{i}"


def set_status(name, devices, tenants):
    cluster.patch(
        f"{G}/{name}/status",
        {
            "status": {
                "owner": "divvy",
                "deviceCount": devices,
                "devices": [
                    {
                        "uuid": uuid(name, i),
                        "index": i,
                        "model": "H200-141Gi",
                        "memoryBytes": 141 * GIB,
                        "health": "Healthy",
                        "owner": "divvy",
                        "simulated": True,
                    }
                    for i in range(devices)
                ],
                "tenants": tenants,
                "slots": {"total": 64 * devices, "used": len(tenants)},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "Serving",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            }
        },
    )


def tenant(name, i, pod, request=300, limit=600, note=None):
    t = {
        "podUID": "uid-" + pod,
        "namespace": "research",
        "pod": pod,
        "container": "main",
        "slot": "1",
        "devices": [uuid(name, i)],
        "request": request,
        "limit": limit,
        "memoryBytes": [10 * GIB],
        "class": "standard",
        "priority": 50,
        "mode": "local",
        "epoch": 1,
    }
    return {**t, "note": note} if note else t


def lease(name, uses):
    measured = " ".join(f"uid-{pod}/main={share}:{GIB}" for pod, share in uses.items())
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "divvy-node-lease", "annotations": {"divvy.gpu/measured": measured}},
        "spec": {"holderIdentity": "divvyd", "leaseDurationSeconds": 3600, "renewTime": stamp},
    }


def renew(name, uses):
    cluster.patch(f"{LEASES}/{name}", {k: v for k, v in lease(name, uses).items() if k != "kind"})


# ---- the tests


def without_rights_the_page_sends_no_data():
    for path in ("/events/", "/history/uid-a/main", "/session"):
        for kind in ({"token": "nonsense"}, {"cookie": "nonsense"}, {}):
            assert ask("GET", path, **kind)[0] == 401, (path, kind)
        for kind in ({"token": nobody.token}, {"cookie": nobody.token}):
            status, _, text = ask("GET", path, **kind)
            assert status == 403 and "{" not in text, (path, text)
    assert ask("POST", "/session", token=nobody.token)[0] == 403
    # Every browser gets these files before its user signs in.
    status, headers, text = ask("GET", "/")
    assert status == 200 and "<title>divvy</title>" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"], headers.items()


def a_token_becomes_a_cookie():
    wait_for(lambda: ask("GET", "/session", token=operator.token)[0] == 204, "the operator may")
    status, headers, _ = ask("POST", "/session", token=operator.token)
    assert status == 204, status
    for word in (f"{COOKIE}={operator.token};", "Path=/", "Secure", "HttpOnly", "SameSite=Strict"):
        assert word in headers["Set-Cookie"], headers["Set-Cookie"]
    assert ask("GET", "/session", cookie=operator.token)[0] == 204
    # A cookie alone makes no session: another site's form sends the cookie, but no header.
    assert ask("POST", "/session", cookie=operator.token)[0] == 400
    assert "Max-Age=0" in ask("DELETE", "/session")[1]["Set-Cookie"]


def three_nodes_are_followed():
    for n in (1, 2, 3):
        make_node(f"gpu-{n}", 4, [tenant(f"gpu-{n}", 0, f"train-{n}"), tenant(f"gpu-{n}", 0, f"side-{n}", 500, 1000)])
    with viewer() as v:
        v.until(
            lambda s: len(s["nodes"]) == 3 and all(n["alive"] for n in s["nodes"].values()), "three nodes are shown"
        )
        one = v.seen["nodes"]["gpu-1"]
        assert [d["uuid"] for d in one["devices"]] == [uuid("gpu-1", i) for i in range(4)], one
        assert [(t["pod"], t["request"], t["devices"]) for t in one["tenants"]] == [
            ("train-1", 300, [0]),
            ("side-1", 500, [0]),
        ]
        renew("gpu-2", {"train-2": 310, "side-2": 220})
        v.until(lambda s: s["use"].get("gpu-2") == [[310, GIB], [220, GIB]], "what is used is shown")
        status, _, text = ask("GET", "/history/uid-train-2/main", cookie=operator.token)
        # If a period of ten seconds has just ended, the next period has no value yet.
        assert status == 200 and json.loads(text)["fine"]["share"] in ([310], [310, None]), text
        set_status("gpu-2", 4, [tenant("gpu-2", 0, "side-2", 500, 1000)])
        v.until(lambda s: len(s["nodes"]["gpu-2"]["tenants"]) == 1, "a tenant has gone")
        assert v.seen["use"]["gpu-2"] == [[220, GIB]], v.seen["use"]
        assert ask("GET", "/history/uid-train-2/main", cookie=operator.token)[0] == 404
        cluster.patch(f"{G}/gpu-3", {"spec": {"cordoned": [{"uuid": uuid("gpu-3", 1), "reason": "fan"}]}})
        v.until(lambda s: s["nodes"]["gpu-3"]["devices"][1].get("cordoned") == "fan", "a device is cordoned")
        assert v.n_all == 1, "the whole state was sent more than once"


def pods_that_wait_are_shown():
    path = f"/api/v1/namespaces/{cluster.namespace}/pods"
    with viewer() as v:
        cluster.create(
            path,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "waits", "annotations": {"divvy.gpu/request": "0.5", "divvy.gpu/memory": "4Gi"}},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        )
        key = f"{cluster.namespace}/waits"
        v.until(lambda s: key in s["waiting"], "the pod is shown")
        assert v.seen["waiting"][key]["milli"] == 500 and v.seen["waiting"][key]["mib"] == 4096, v.seen["waiting"]
        scheduler = cluster.service_account("divvy-system", "divvy-scheduler")
        scheduler.patch(
            f"{path}/waits/status",
            {
                "status": {
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MARKUP}
                    ]
                }
            },
            "strategic",
        )
        v.until(lambda s: s["waiting"][key].get("why") == MARKUP, "its reason is shown")
        cluster.delete(f"{path}/waits", grace_s=0)
        v.until(lambda s: key not in s["waiting"], "it has gone")


def a_returning_viewer_gets_the_missed_events():
    with viewer() as v:
        v.until(lambda s: len(s["nodes"]) == 3, "three nodes are shown")
        last = v.last
    cluster.delete(f"{G}/gpu-3")
    with viewer(after=last) as v:
        v.until(lambda s: v.bytes > 0 and v.last != last, "the viewer gets an event")
        assert v.n_all == 0, "the whole state was sent again"
    with viewer(after="0123456789abcdef-3") as v:
        v.until(lambda s: "gpu-1" in s["nodes"] and "gpu-3" not in s["nodes"], "the viewer gets the whole state")
        assert v.n_all == 1


def after_a_restart_the_page_shows_all_nodes():
    controller.kill()
    controller.start()
    with viewer() as v:
        v.until(lambda s: set(s["nodes"]) == {"gpu-1", "gpu-2"}, "the nodes are shown again")


def browse(name, *args):
    """The page in a browser, by tests/browser/look.mjs; returns its measurements."""
    get = subprocess.run([os.path.join(HERE, "../browser/get"), "--check"], capture_output=True, text=True, check=False)
    if get.returncode:
        raise Skip(get.stderr.strip())
    env = {**os.environ, "DIVVY_BROWSER": get.stdout.strip()}
    done = subprocess.run(
        [
            "node",
            os.path.join(HERE, "../browser/look.mjs"),
            f"https://{controller.address}:{controller.page}/",
            name,
            *args,
        ],
        input=operator.token,
        capture_output=True,
        text=True,
        env=env,
        timeout=patience(300),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def a_browser_shows_three_nodes():
    set_status("gpu-1", 4, [tenant("gpu-1", 0, "train-1"), tenant("gpu-1", 1, "side-1", 500, 1000, note=MARKUP)])
    seen = browse("cluster", "8")
    assert seen["devices"] == 8 and seen["nodes"] == ["gpu-1", "gpu-2"], seen


def a_thousand_devices_are_followed():
    def make(some):
        for n in some:
            make_node(f"big-{n}", 8, [tenant(f"big-{n}", k // 4, f"job-{n}-{k}", 200, 1000) for k in range(32)])

    threads = [threading.Thread(target=make, args=(range(i, 124, 8),)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with viewer() as v:
        v.until(lambda s: sum(len(n["devices"]) for n in s["nodes"].values()) == 1000, "1,000 devices are shown")
    start = time.monotonic()
    with viewer() as v:
        v.until(lambda s: len(s["nodes"]) == 126, "all of them at once")
        took, size = time.monotonic() - start, v.bytes
        start = time.monotonic()
        renew("big-77", {f"job-77-{k}": 10 * k for k in range(32)})
        v.until(lambda s: (s["use"]["big-77"][5] or [0])[0] == 50, "a change of one of them")
        print(
            f"# 1,000 devices: {size >> 10} KiB in {took * 1e3:.0f} ms, the viewer gets a change after "
            f"{(time.monotonic() - start) * 1e3:.0f} ms, {v.bytes - size} bytes",
            flush=True,
        )
        assert v.bytes - size < 20000, "a change of one node sends too many bytes"


def a_browser_shows_a_thousand_devices():
    seen = browse("cluster-thousand", "1000")
    print(f"# 1,000 devices in chromium: {json.dumps(seen['times'])}", flush=True)


TESTS = [
    without_rights_the_page_sends_no_data,
    a_token_becomes_a_cookie,
    three_nodes_are_followed,
    pods_that_wait_are_shown,
    a_returning_viewer_gets_the_missed_events,
    after_a_restart_the_page_shows_all_nodes,
    a_browser_shows_three_nodes,
    a_thousand_devices_are_followed,
    a_browser_shows_a_thousand_devices,
]

try:
    with open_cluster("kcm") as cluster, installed(cluster) as controller:
        operator = cluster.service_account(
            cluster.namespace, "operator", cluster_rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        )
        nobody = cluster.service_account(cluster.namespace, "nobody")
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
