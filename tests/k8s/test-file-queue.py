#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of a queue of files: as many Jobs as there are files, each once, and none is left over."""

import collections
import contextlib
import os
import random
import subprocess
import sys
import time

import shipped
from cluster import NODE_OF_OURS, Skip, main, open_cluster, patience, skip_all, wait_for
from shipped import example

QUEUE = os.path.join(shipped.EXAMPLES, "file-queue/file-queue")
ODD = ["with space", "ümlaut", 'quote\'s "two"', "$(HOME) $$x", "-begins", "a=b,c", "new\nline"]
AT_ONCE = 5  # shares of a fifth on one device
PROGRAM = 'sleep 1; printf "%s\\\\0" "$FILE" >>/files/log/handled'


def jobs():
    return cluster.get(f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs")["items"]


def pods():
    return cluster.get(f"/api/v1/namespaces/{cluster.namespace}/pods")["items"]


def names_in(folder):
    path = os.path.join(files, folder)
    return (
        {name for name in os.listdir(path) if os.path.isfile(os.path.join(path, name))}
        if os.path.isdir(path)
        else set()
    )


def handled():
    """{file: how often}"""
    path = os.path.join(files, "log/handled")
    if not os.path.exists(path):
        return collections.Counter()
    with open(path, encoding="utf-8") as f:
        return collections.Counter(f.read().split("\0")[:-1])


def write_job(script):
    """The example, with a program that prints its input, and a folder of this machine."""
    text = example(
        "file-queue/job",
        image=(f"image: {shipped.PROGRAMS}", "image: local/busybox:1\n        imagePullPolicy: Never"),
        program=("command: [spin, --duration=5]", f"command: [sh, -c, '{script}']"),
        again=("backoffLimit: 2", "backoffLimit: 1"),  # Kubernetes waits 10 s before, and 20 s more each time
        volume=("persistentVolumeClaim: {claimName: files}", f"hostPath: {{path: {files}}}"),
    )
    with open(job, "w", encoding="utf-8") as f:
        f.write(text)


@contextlib.contextmanager
def watcher(*options):
    env = {
        **os.environ,
        "KUBECONFIG": account.kubeconfig,
        "HOME": cluster.dir,
        "PATH": os.path.dirname(cluster.kubectl_path) + ":" + os.environ["PATH"],
    }
    log = open(os.path.join(cluster.dir, "log/file-queue.log"), "ab")
    with log, subprocess.Popen(
        [sys.executable, QUEUE, files, job, "--every=0.2", "--namespace", cluster.namespace, *options],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def put(*names):
    for name in names:
        hidden = os.path.join(files, "." + name[:20])
        with open(hidden, "w", encoding="utf-8") as f:
            f.write(name)
        os.rename(hidden, os.path.join(files, name))


def nothing_is_left():
    wait_for(lambda: not jobs() and not pods(), "no Job and no pod is left", 120)
    wait_for(lambda: not daemon.status().get("tenants"), "no share is held", 120)
    assert not names_in("."), names_in(".")


# ---- the tests


def nothing_runs_without_a_file():
    with watcher():
        time.sleep(3)
        assert not jobs() and not pods() and not daemon.status().get("tenants")


def one_file_is_one_job():
    with watcher():
        put("one")
        wait_for(lambda: names_in("done") == {"one"}, "it is done", 120)
        nothing_is_left()
    assert handled() == {"one": 1}, handled()


def each_file_is_handled_once_despite_kills():
    """Kills the watcher repeatedly, at random; shares bound how many Jobs run at once."""
    wanted = [f"file-{n}" for n in range(20)] + ODD
    most, draw = 0, random.Random(5)
    put(*wanted)
    kills = 0
    while not set(wanted) <= names_in("done"):
        with watcher():
            # The pauses between kills grow, because on a busy machine the watcher would otherwise never finish a file.
            time.sleep(draw.uniform(0.2, 2.5) * 1.05**kills)
            kills += 1
        most = max(most, len(daemon.status().get("tenants") or []))
        assert kills < 100, f"{names_in('.')} are left: {jobs()}"
    with watcher("--once") as process:
        assert process.wait(patience(120)) == 0
    nothing_is_left()
    assert handled() == {name: 1 for name in [*wanted, "one"]}, handled()
    assert kills > 5 and 1 < most <= AT_ONCE, (kills, most)


def a_failed_file_is_put_apart():
    write_job("exit 1")
    put("bad")
    with watcher("--once") as process:
        assert process.wait(patience(300)) == 0
    assert names_in("failed") == {"bad"} and "bad" not in names_in("done")
    nothing_is_left()


def a_file_name_may_come_again():
    write_job(PROGRAM)
    for _ in range(3):
        put("again")
        with watcher("--once") as process:
            assert process.wait(patience(120)) == 0
    # Later files do not overwrite earlier ones.
    assert handled()["again"] == 3 and {"again", "again.1", "again.2"} <= names_in("done")
    nothing_is_left()


def no_more_jobs_run_than_the_limit():
    put(*(f"many-{n}" for n in range(6)))
    with watcher("--at-most=2", "--once") as process:
        most = 0
        while process.poll() is None:
            most = max(most, len(jobs()))
            time.sleep(0.1)
        assert process.wait() == 0 and 0 < most <= 4, most  # two that have ended are being deleted
    nothing_is_left()


try:
    with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS) as cluster:
        daemon = shipped.install(cluster, "1xH200-141Gi")
        files, job = os.path.join(cluster.dir, "files"), os.path.join(cluster.dir, "job.yaml")
        os.makedirs(os.path.join(files, "log"))
        write_job(PROGRAM)
        cluster.apply(example("file-queue/rights"), namespace=cluster.namespace)
        account = cluster.service_account(cluster.namespace, "file-queue")
        main(
            nothing_runs_without_a_file,
            one_file_is_one_job,
            each_file_is_handled_once_despite_kills,
            a_failed_file_is_put_apart,
            a_file_name_may_come_again,
            no_more_jobs_run_than_the_limit,
        )
except Skip as reason:
    skip_all(reason)
