#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""src/kube against a real API server: directly, and through a proxy that disturbs the connection as networks do.

usage: test-kube.py [--seconds N] [--seed N]: duration and seed of each proxy's faults"""

import argparse
import json
import os
import random
import subprocess
import threading
import time

from cluster import ApiError, Skip, main, open_cluster, patience, skip_all, wait_for
from fault_proxy import CutProxy, FaultProxy

BUILD = os.environ["DIVVY_BUILD"]
LIVE = os.path.join(BUILD, "tests/k8s/kube/test-kube-live")
MIRROR = os.path.join(BUILD, "tests/k8s/kube/kube-mirror")


class Mirror:
    """kube-mirror of the config maps of our namespace."""

    def __init__(self, kubeconfig, *options):
        self.path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
        self.process = subprocess.Popen(
            [MIRROR, *options, self.path],
            env={**os.environ, "KUBECONFIG": kubeconfig},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(os.path.join(cluster.dir, "log", "kube-mirror.log"), "ab"),
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(patience()) == 0, self.process.returncode

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def line(self):
        line = self.process.stdout.readline()
        if line == "synced\n":
            line = self.process.stdout.readline()
        return line.strip()

    def counts(self):
        self.ask("counts")
        return json.loads(self.line())

    def objects(self):
        self.ask("dump")
        return by_name(json.loads(line) for line in iter(self.line, ""))


def by_name(objects):
    """Objects by name, without fields that differ between lists and watches, or that a cache leaves out."""
    result = {}
    for o in objects:
        o.pop("kind", None)
        o.pop("apiVersion", None)
        o["metadata"].pop("managedFields", None)
        assert o["metadata"]["name"] not in result
        result[o["metadata"]["name"]] = o
    return result


def listed(mirror):
    return by_name(cluster.get(mirror.path)["items"])


def wait_until_equal(mirror, patience_s=120):
    """Waits until cache and server agree; prints the differences on failure."""
    seen = {}

    def equal():
        seen["here"], seen["there"] = mirror.objects(), listed(mirror)
        return seen["here"] == seen["there"]

    try:
        wait_for(equal, "the cache is equal to the server's state", patience_s)
    except AssertionError as error:
        names = [n for n in {*seen["here"], *seen["there"]} if seen["here"].get(n) != seen["there"].get(n)]
        raise AssertionError(f"{error}: {sorted(names)[:10]}: {mirror.counts()}") from None


class Churn:
    """Creates, changes and deletes config maps, and recreates some of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.n = 0
        self.failure = None

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        assert not self.failure, self.failure

    def run(self):
        path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
        try:
            while not self.ends.is_set():
                name = f"churn-{self.random.randrange(150)}"
                try:
                    self.one(path, name)
                except ApiError as error:
                    if error.code not in (404, 409):
                        raise
                self.n += 1
                time.sleep(0.005)
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.failure = error

    def one(self, path, name):
        kind = self.random.randrange(4)
        data = {"text": '"}]{[\\' * self.random.randrange(60), "n": str(self.n)}
        if kind == 0:
            cluster.create(path, {"metadata": {"name": name}, "data": data})
        elif kind == 1:
            cluster.delete(f"{path}/{name}")
        else:
            cluster.patch(f"{path}/{name}", {"data": data, "metadata": {"labels": {"odd": str(self.n % 2)}}})


def the_client_works_without_a_proxy():
    env = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "DIVVY_TEST_NAMESPACE": cluster.namespace}
    done = subprocess.run([LIVE], env=env, capture_output=True, text=True, timeout=patience(300), check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def a_cache_follows_the_server():
    with Mirror(cluster.kubeconfig, "--limit", "10") as mirror, Churn(ARGS.seed) as churn:
        wait_for(lambda: churn.n > 300, "churn", 300)
        churn.ends.set()
        churn.thread.join()
        wait_until_equal(mirror)
        counts = mirror.counts()
        assert counts["lists"] == 1 and not counts["garbled"] and not counts["lost"], counts


def the_server_evaluates_a_selector():
    with Mirror(cluster.kubeconfig, "--labels", "odd=1") as mirror:
        wait_for(lambda: mirror.counts()["synced"], "a list")
        path = f"{mirror.path}/selected"
        cluster.create(mirror.path, {"metadata": {"name": "selected", "labels": {"odd": "1"}}})
        wait_for(lambda: "selected" in mirror.objects(), "the cache has the newly selected object")
        cluster.patch(path, {"metadata": {"labels": {"odd": "0"}}})
        wait_for(
            lambda: "selected" not in mirror.objects(), "the cache has lost the object that is not selected any more"
        )


def survives(proxy, *options):
    """The cache is correct in the end, after faults did occur."""
    # The objects fill a page or two of a list.
    for n in range(200):
        name = f"{cluster.namespace}-bulk-{n}"
        cluster.create_once(
            f"/api/v1/namespaces/{cluster.namespace}/configmaps",
            {"metadata": {"name": name}, "data": {"text": "x" * 1000}},
        )
    with Mirror(proxy.kubeconfig, "--limit", "50", "--idle", "3", "--watch", "5", "--pause", "400", *options) as mirror:

        def disturbed():
            c = mirror.counts()
            return c["watches"] > 2 and c["lost"] + c["garbled"] + c["expired"] + c["refused"] > 4

        with Churn(ARGS.seed):
            time.sleep(ARGS.seconds)
            wait_for(disturbed, "disturbances", 300)
        proxy.level = 0
        wait_until_equal(mirror)
        print(f"# {proxy.done} {mirror.counts()}")


def a_cache_survives_corrupt_answers():
    with FaultProxy(cluster, os.path.join(cluster.dir, "fault"), ARGS.seed) as proxy:
        survives(proxy, "--seed", str(ARGS.seed))


def a_cache_survives_cut_connections():
    with CutProxy(cluster, os.path.join(cluster.dir, "cut"), ARGS.seed) as proxy:
        survives(proxy, "--seed", str(ARGS.seed))


def an_idle_watch_logs_no_warning():
    """A watch without changes starts anew, and no warning is logged."""
    with Mirror(cluster.kubeconfig, "--labels", "of=nothing", "--idle", "1") as mirror:
        wait_for(lambda: mirror.counts()["lost"] >= 3, "the idle watch has restarted three times", 60)
        assert not mirror.counts()["troubles"], mirror.counts()
        cluster.create(mirror.path, {"metadata": {"name": "something", "labels": {"of": "nothing"}}})
        wait_for(
            lambda: "something" in mirror.objects(), "the watch shows an object that was created after the restarts"
        )


def a_cache_survives_a_restart_of_the_server():
    cluster.only_own("killing the API server")
    with Mirror(cluster.kubeconfig, "--idle", "10") as mirror:
        wait_for(lambda: mirror.counts()["synced"], "a list")
        cluster.kill("kube-apiserver")
        cluster.restart("kube-apiserver")
        cluster.create_once(mirror.path, {"metadata": {"name": "after"}})
        wait_until_equal(mirror)
        assert "after" in mirror.objects()


PARSER = argparse.ArgumentParser()
PARSER.add_argument("--seconds", type=float, default=40)
PARSER.add_argument("--seed", type=int, default=1)
ARGS = PARSER.parse_args()
TESTS = [
    the_client_works_without_a_proxy,
    a_cache_follows_the_server,
    the_server_evaluates_a_selector,
    a_cache_survives_corrupt_answers,
    a_cache_survives_cut_connections,
    an_idle_watch_logs_no_warning,
    a_cache_survives_a_restart_of_the_server,
]

try:
    with open_cluster("kcm") as cluster:
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
