#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real API server: the facts on which tests of divvy's parts rely, and that no part of a cluster is left over."""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

from cluster import HERE, Account, ApiError, Skip, alive, main, open_cluster, skip_all, unique, wait_for

GROUP = unique("t") + ".test.divvy.gpu"
CRD = {
    "metadata": {"name": "shares." + GROUP},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "shares", "singular": "share", "kind": "Share"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"milli": {"type": "integer", "minimum": 1, "maximum": 1000}},
                            },
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}


def refused(code, call, *args, **kw):
    try:
        call(*args, **kw)
    except ApiError as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"not refused with {code}")


def custom_resources_keep_their_schema():
    cluster.define(CRD)
    path = f"/apis/{GROUP}/v1/namespaces/{cluster.namespace}/shares"
    base = {"apiVersion": GROUP + "/v1", "kind": "Share"}
    made = cluster.create(
        path, {**base, "metadata": {"name": "a"}, "spec": {"milli": 250}, "status": {"phase": "dropped"}}
    )
    assert made["spec"] == {"milli": 250} and "status" not in made, made
    got = cluster.patch(path + "/a/status", {"status": {"phase": "Bound"}, "spec": {"milli": 999}})
    assert (got["spec"], got["status"]) == ({"milli": 250}, {"phase": "Bound"}), got
    got = cluster.patch(
        path + "/a?fieldManager=me&force=true",
        json.dumps({**base, "metadata": {"name": "a"}, "spec": {"milli": 300}}),
        "apply",
    )
    assert got["spec"] == {"milli": 300} and got["status"] == {"phase": "Bound"}, got
    error = refused(422, cluster.create, path, {**base, "metadata": {"name": "b"}, "spec": {"milli": 5000}})
    assert error.reason == "Invalid" and "milli" in str(error), error


def pending_pod(name, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]},
    }


def a_watch_shows_each_change_in_its_order():
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    version = cluster.get(path)["metadata"]["resourceVersion"]
    with cluster.watch(path, resourceVersion=version) as events:
        cluster.create(path, {"metadata": {"name": "seen"}, "data": {"n": "0"}})
        for n in (1, 2):
            cluster.patch(path + "/seen", {"data": {"n": str(n)}})
        cluster.delete(path + "/seen")
        got = []
        while len(got) < 4:
            event = next(events)
            if event["object"]["metadata"].get("name") == "seen":
                got.append((event["type"], event["object"]["data"]["n"]))
    assert got == [("ADDED", "0"), ("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], got


def a_binding_writes_its_annotations_into_the_pod():
    node = unique("node")
    cluster.fake_node(node, **{"divvy.gpu/slot": "64"})
    path = f"/api/v1/namespaces/{cluster.namespace}/pods"
    cluster.create(path, pending_pod("bound", annotations={"mine": "stays", "given": "old"}))
    before = cluster.pod("bound")["metadata"]["resourceVersion"]
    with cluster.watch(path, resourceVersion=before) as events:
        cluster.create(
            path + "/bound/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "bound", "annotations": {"divvy.gpu/devices": "GPU-0", "given": "new"}},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            },
        )
        first = next(e for e in events if e["type"] == "MODIFIED")["object"]
    # The API server stores node and annotations in one write, so no watch sees the node without the annotations.
    assert first["spec"]["nodeName"] == node, first
    annotations = first["metadata"]["annotations"]
    assert annotations == {"mine": "stays", "given": "new", "divvy.gpu/devices": "GPU-0"}, annotations
    refused(
        409,
        cluster.create,
        path + "/bound/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "bound"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        },
    )
    cluster.delete(path + "/bound", grace_s=0)


def a_service_account_has_the_rights_of_its_rules():
    who = cluster.service_account(
        cluster.namespace, "reader", rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    )
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    assert "items" in who.get(path)
    refused(403, who.create, path, {"metadata": {"name": "no"}})
    refused(403, who.get, "/api/v1/nodes")
    # Any program with the account's kubeconfig has the same rights.
    assert "yes" in who.kubectl("auth", "can-i", "list", "configmaps")
    code, _, err = who.kubectl("get", "secrets", check=False)
    assert code == 1 and f"system:serviceaccount:{cluster.namespace}:reader" in err, err
    refused(401, Account(cluster.server, ca=cluster.ca, token="nonsense", insecure=cluster.insecure).get, path)


class Busy(http.server.BaseHTTPRequestHandler):
    """A server that answers "later" twice before it answers, and to DELETE always."""

    def answer(self):
        self.server.n += 1
        later = self.server.n < 3 or self.command == "DELETE"
        self.send_response((429, 503)[self.server.n % 2] if later else 200)
        if later and self.path != "/no-time":
            self.send_header("Retry-After", "0" if self.command == "GET" else "3600")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"message": "later"}' if later else b"{}")

    do_GET = do_DELETE = answer

    def log_message(self, *_):
        pass


def a_request_is_repeated_when_the_server_asks_for_that():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        server.n = 0
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        busy = Account(f"http://127.0.0.1:{server.server_port}")
        try:
            assert busy.get("/apis") == {} and server.n == 3, server.n
            # The server names no time, or one after the request's own time-out.
            server.n = 0
            refused(503, busy.get, "/no-time")
            refused(429, busy.delete, "/apis")
            assert server.n == 2, server.n
        finally:
            server.shutdown()
            thread.join()


def a_user_is_known_by_a_certificate():
    alice = cluster.user("alice", ["team/a"])
    error = refused(403, alice.get, "/api/v1/nodes")
    assert '"alice"' in str(error), error


def clusters_stand_side_by_side():
    cluster.only_own("two clusters")
    path = f"/api/v1/namespaces/{cluster.namespace}"
    others, errors = [], []

    def use_another():
        try:
            with open_cluster() as other:
                others.append((other.server, other.exists(path), other.namespace))
                refused(401, Account(other.server, ca=other.ca, token=cluster.token).get, path)
        except Exception as error:  # pylint: disable=broad-exception-caught
            errors.append(error)

    threads = [threading.Thread(target=use_another) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    servers = {server for server, _, _ in others} | {cluster.server}
    assert len(servers) == 3 and not any(found for _, found, _ in others), others


def a_clusters_parts_survive_kill_and_stop():
    cluster.only_own("killing the API server")
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    cluster.create(path, {"metadata": {"name": "kept"}})
    for name in ("kube-apiserver", "etcd"):
        old = cluster.pid(name)
        cluster.kill(name)
        assert not cluster.pid(name) and not alive(old)
        cluster.restart(name)
        assert cluster.pid(name) != old and cluster.exists(path + "/kept")
    cluster.freeze("kube-apiserver")
    try:
        cluster.get(path, timeout=0.5)
        raise AssertionError("a stopped server has answered")
    except TimeoutError:
        cluster.thaw("kube-apiserver")
    assert cluster.exists(path + "/kept")


def started_by_a_child():
    """A test with a cluster: the process, the cluster's folder, and the keeper's and its parts' pids."""
    script = f"""
import sys
sys.path.insert(0, {HERE!r})
from cluster import Cluster
with Cluster() as c:
    print(c.dir, c.keeper.process.pid, c.pid("etcd"), c.pid("kube-apiserver"), flush=True)
    sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    words = child.stdout.readline().split()
    folder, pids = words[0], [int(w) for w in words[1:]]
    assert os.path.isdir(folder) and all(alive(p) for p in pids)
    return child, folder, pids


def end(child):
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()


def nothing_survives_a_killed_test():
    cluster.only_own("killing a test")
    child, folder, pids = started_by_a_child()
    end(child)
    wait_for(lambda: not os.path.exists(folder) and not any(alive(p) for p in pids), f"{folder} and {pids} go")


def no_part_survives_a_killed_keeper():
    cluster.only_own("killing a keeper")
    child, folder, pids = started_by_a_child()
    os.kill(pids[0], signal.SIGKILL)
    wait_for(lambda: not any(alive(p) for p in pids), f"{pids} go")
    end(child)
    shutil.rmtree(folder)


def an_interactive_cluster_prints_no_logs_at_its_end():
    cluster.only_own("a cluster's end")
    script = f"""
import signal, sys
sys.path.insert(0, {HERE!r})
from cluster import Cluster
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
c = Cluster()
c.is_interactive = sys.argv[1] == "True"
with c:
    print("ready", flush=True)
    signal.pause()
"""
    for is_interactive in True, False:
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(is_interactive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        said = child.communicate()[0]
        assert child.returncode == 128 + signal.SIGTERM, child.returncode
        assert ("# kube-apiserver: " in said) != is_interactive, (is_interactive, said)


TESTS = [
    custom_resources_keep_their_schema,
    a_watch_shows_each_change_in_its_order,
    a_binding_writes_its_annotations_into_the_pod,
    a_service_account_has_the_rights_of_its_rules,
    a_request_is_repeated_when_the_server_asks_for_that,
    a_user_is_known_by_a_certificate,
    clusters_stand_side_by_side,
    a_clusters_parts_survive_kill_and_stop,
    nothing_survives_a_killed_test,
    no_part_survives_a_killed_keeper,
    an_interactive_cluster_prints_no_logs_at_its_end,
]

try:
    with open_cluster() as cluster:
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
