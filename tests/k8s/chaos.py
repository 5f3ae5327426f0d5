#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random kills, seeded: divvy's parts, the API server, etcd and the kubelet, alone and in pairs, while pods, groups and
SharePods come and go. Then checker.py checks the history. divvy's parts run beside the cluster with their own accounts, so that
the test can kill each by itself: two schedulers and a controller with leader election, the node's daemon.
usage: chaos.py [--kills N] [--seed N]"""

import argparse
import json
import os
import random
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import divvyd  # noqa: E402
import scheduled  # noqa: E402
from checker import problems  # noqa: E402
from cluster import NODE_OF_OURS, ApiError, Skip, main, open_cluster, patience, skip_all, wait_for  # noqa: E402
from controller import SYSTEM, installed  # noqa: E402

DEVICES = "2xTest-16Gi"
SCHEDULERS = ("divvy-scheduler-1", "divvy-scheduler-2")
TARGETS = (*SCHEDULERS, "divvy-controller", "divvyd", "kube-apiserver", "etcd", "kubelet")
AT_ONCE = 8  # objects at once, besides those that stay
QUIET_S = 180
GONE = (OSError, ApiError, ValueError)  # possible errors of a request to a process that is being killed


class Watch:
    """All events of one resource, in order, also across the API server's restarts."""

    def __init__(self, path, kind, history):
        self.path, self.kind, self.history = path, kind, history
        self.known = {}
        self.ends = False
        self.version = self.list()
        threading.Thread(target=self.run, daemon=True).start()

    def say(self, what, obj):
        obj["kind"] = self.kind
        uid = obj["metadata"]["uid"]
        if what == "DELETED":
            self.known.pop(uid, None)
        else:
            self.known[uid] = obj
        self.history.append((time.monotonic(), what, obj))

    def list(self):
        """Objects that are new or deleted since the last call."""
        answer = cluster.get(self.path)
        there = {o["metadata"]["uid"]: o for o in answer["items"]}
        for uid in set(self.known) - set(there):
            self.say("DELETED", self.known[uid])
        for uid, obj in there.items():
            was = self.known.get(uid)
            if not was or was["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self.say("MODIFIED" if was else "ADDED", obj)
        return answer["metadata"]["resourceVersion"]

    def follow(self):
        with cluster.watch(self.path, timeout=patience(30), resourceVersion=self.version, timeoutSeconds="5") as events:
            for event in events:
                if event["type"] == "ERROR":
                    return
                self.version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.say(event["type"], event["object"])

    def run(self):
        while not self.ends:
            try:
                self.follow()
                self.version = self.list()
            except GONE:
                ended.wait(0.2)


class Load:
    """A user who creates objects and deletes some again."""

    def __init__(self, random_):
        self.random, self.made = random_, 0
        self.mine = []  # (path, until when it stays)
        self.thread = threading.Thread(target=self.run)
        self.stops = threading.Event()

    def run(self):
        while not self.stops.wait(self.random.uniform(0.1, 0.7)):
            try:
                self.step()
            except GONE:
                pass
        while self.mine:  # also objects whose creation got no answer
            try:
                self.remove(self.mine[0])
            except GONE:
                ended.wait(0.2)

    def step(self):
        now = time.monotonic()
        over = [one for one in self.mine if one[1] < now]
        for one in over:
            self.remove(one)
        if len(self.mine) < AT_ONCE:
            self.random.choice((self.pod, self.pod, self.group, self.share_pod))()

    def remove(self, one):
        cluster.delete(one[0], grace_s=1)
        self.mine.remove(one)

    def create(self, path, body):
        self.mine.append((f"{path}/{body['metadata']['name']}", time.monotonic() + self.random.uniform(3, 12)))
        cluster.create(path, body, timeout=patience(10))

    def name(self, what):
        self.made += 1
        return f"{what}-{self.made}"

    def request(self):
        return str(self.random.choice((0.1, 0.2, 0.3, 0.5, 0.7)))

    def pod(self, **keys):
        self.create(
            PODS(),
            tenant(
                self.name("pod"),
                {"request": self.request(), "memory": "1Gi", **keys},
                f"--duration={self.random.uniform(0.5, 5):.1f}",
            ),
        )

    def group(self):
        group = self.name("group")
        for _ in range(3):
            self.pod(group=group, group_size="3", group_threshold="0.6", request="0.2")

    def share_pod(self):
        template = tenant("x", {})["spec"]
        self.create(
            f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods",
            {
                "apiVersion": "divvy.gpu/v1",
                "kind": "SharePod",
                "metadata": {"name": self.name("sp")},
                "spec": {"request": self.request(), "memory": "1Gi", "template": {"spec": template}},
            },
        )


def PODS(name=""):
    return f"/api/v1/namespaces/{cluster.namespace}/pods" + (f"/{name}" if name else "")


def tenant(name, keys, *args, labels=None):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": labels or {},
            "annotations": {f"divvy.gpu/{k.replace('_', '-')}": v for k, v in keys.items()},
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "main", "image": divvyd.IMAGE, "imagePullPolicy": "Never", "args": ["--kernel-us=2000", *args]}
            ],
        },
    }


# ---- divvy's parts


def start_scheduler(name):
    cluster.keeper.ask(
        "start",
        name=name,
        log=os.path.join(cluster.dir, "log", name + ".log"),
        env={"PATH": os.environ["PATH"], "POD_NAME": name},
        argv=[scheduled.PROGRAM, "--kubeconfig", scheduler_account.kubeconfig, "--leader-elect", "--log", "debug"],
    )


def start(name):
    if name in SCHEDULERS:
        start_scheduler(name)
    elif name == "divvy-controller":
        controller.start(wait=False)
    elif name == "divvyd":
        daemon.start()
    else:
        cluster.restart(name, wait=False)


def await_all():
    for name in ("etcd", "kubelet"):
        cluster.await_ready(name)
    wait_for(controller.ready, "the controller serves", 120)
    wait_for(settled(daemon.is_ready), "the daemon is ready", 120)


def settled(question):
    """Repeats a question until it has an answer."""

    def asked():
        try:
            return question()
        except GONE:
            return False

    return asked


def kill_some(random_):
    names = random_.sample(TARGETS, random_.choice((1, 1, 2)))
    print(f"# {time.monotonic() - began:.1f} s: kill {' and '.join(names)}", flush=True)
    began_away = time.monotonic()
    for name in names:
        cluster.kill(name)
    ended.wait(random_.uniform(0, 2))
    for name in names:
        start(name)
    if {"etcd", "kube-apiserver"} & set(names):
        cluster.await_ready("kube-apiserver")
        away.append((began_away, time.monotonic()))
    await_all()
    ended.wait(random_.uniform(0, 2))
    return len(names)


# ---- the run


def steady():
    for i in range(2):
        cluster.create(PODS(), tenant(f"steady-{i}", {"request": "0.1", "memory": "1Gi"}, labels={"chaos": "steady"}))
    for i in range(2):
        divvyd.wait_for_pod(cluster, f"steady-{i}", "Running")
    wait_for(lambda: all(daemon.listed()[f"steady-{i}"]["processes"] for i in range(2)), "they use the devices")


def is_quiet():
    """Do only the steady pods remain, and do they work?"""
    names = {p["metadata"]["name"] for p in cluster.get(PODS())["items"]}
    tenants = {t["pod"] for t in daemon.status().get("tenants") or []}
    return names == tenants == {"steady-0", "steady-1"}


def last_share_pods():
    """SharePods after the last fault: each must still get one pod."""
    path = f"/apis/divvy.gpu/v1/namespaces/{cluster.namespace}/sharepods"
    for i in range(2):
        cluster.create(
            path,
            {
                "apiVersion": "divvy.gpu/v1",
                "kind": "SharePod",
                "metadata": {"name": f"last-{i}"},
                "spec": {"request": "0.1", "memory": "1Gi", "template": {"spec": tenant("x", {})["spec"]}},
            },
        )
    wait_for(
        settled(lambda: {f"last-{i}/main" for i in range(2)} <= set(daemon.tenants())), "they are granted", QUIET_S
    )


def read_grants():
    with open(daemon.grants, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def nothing_is_promised_twice_or_lost():
    random_ = random.Random(ARGS.seed)
    steady()
    load = Load(random.Random(ARGS.seed + 1))
    load.thread.start()
    kills = 0
    try:
        while kills < ARGS.kills:
            kills += kill_some(random_)
    finally:
        load.stops.set()
        load.thread.join(QUIET_S)
    wait_for(settled(is_quiet), "the load's objects are deleted and their grants have ended", QUIET_S)
    used = [daemon.used(f"steady-{i}") for i in range(2)]
    wait_for(lambda: all(daemon.used(f"steady-{i}") > used[i] for i in range(2)), "the steady pods continue")
    last_share_pods()
    versions = [cluster.get(w.path)["metadata"]["resourceVersion"] for w in watches]
    wait_for(
        lambda: all(int(w.version) >= int(v) for w, v in zip(watches, versions)), "the watches have shown all changes"
    )
    devices = {d["uuid"]: d["memoryBytes"] for d in daemon.status()["devices"]}
    grants = read_grants()
    found = problems(sorted(history, key=lambda e: e[0]), grants, devices, time.monotonic(), away)
    bound = {o["metadata"]["uid"] for _, _, o in history if o["kind"] == "Pod" and o["spec"].get("nodeName")}
    print(
        f"# {kills} kills, {load.made} things asked for, {len(bound)} pods bound, {len(grants)} lines of grants",
        flush=True,
    )
    assert not found, "\n".join(found)
    assert len(bound) > 4, "there was no load"


PARSER = argparse.ArgumentParser()
PARSER.add_argument("--kills", type=int, default=6)
PARSER.add_argument("--seed", type=int, default=1)
ARGS = PARSER.parse_args()
began, ended, history = time.monotonic(), threading.Event(), []
away = []  # (from, until) without an API server

try:
    with open_cluster("kcm", "node", own=NODE_OF_OURS) as cluster, installed(cluster) as controller:
        print(f"# seed {ARGS.seed}", flush=True)
        divvyd.make_image(cluster)
        scheduler_account = cluster.service_account(SYSTEM, "divvy-scheduler")
        for each in SCHEDULERS:
            start_scheduler(each)
        daemon = divvyd.Daemon(cluster, DEVICES, account=divvyd.bound_account(cluster))
        daemon.make_gpu_node()
        daemon.start()
        daemon.await_ready()
        cluster.kubectl("label", "node", cluster.node_name, "divvy.gpu/owner=divvy")
        wait_for(
            lambda: "divvy.gpu/milli" in cluster.get(f"/api/v1/nodes/{cluster.node_name}")["status"]["allocatable"],
            "the node has its capacity",
        )
        watches = [Watch("/api/v1/pods", "Pod", history), Watch("/apis/divvy.gpu/v1/sharepods", "SharePod", history)]
        main(nothing_is_promised_twice_or_lost)
except Skip as reason:
    skip_all(reason)
