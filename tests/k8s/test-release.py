#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The artefacts of a release on a real kubelet: containerd imports the images' layouts, helm's objects name them by
their digests, and the examples of deploy/examples run. DIVVY_PACKAGES names a folder with the packages; without it
the test builds them, which takes minutes, so the test is a soak. DIVVY_PREVIOUS names the folder with the artefacts
of the release before: its parts then take the place of this release's parts one after the other, and give it back,
and each time the pods of an example run."""

import glob
import json
import os
import subprocess
import tarfile
import tempfile

import shipped
from cluster import NODE_OF_OURS, Skip, main, open_cluster, patience, skip_all, wait_for
from manifests import SOURCE, changed_for_tests, load
from shipped import SYSTEM, example

BUILD_S = 900
# The examples that have nothing but pods, and need no second node.
EXAMPLES = (
    "share",
    "affinity",
    "anti-affinity",
    "exclusion",
    "latency",
    "part-of-two-gpus",
    "two-containers",
    "whole-gpus",
)
PARTS = {
    "divvyd": ("daemonset/divvyd", "divvyd"),
    "divvy-scheduler": ("deployment/divvy-scheduler", "scheduler"),
    "divvy-controller": ("deployment/divvy-controller", "controller"),
}
NAMES = ("divvyd", "divvy-scheduler", "divvy-controller", "divvy-programs")


def run(*argv, seconds=BUILD_S):
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=patience(seconds)
    )
    if done.returncode == 77:
        raise Skip(done.stderr.strip())
    assert done.returncode == 0, (argv, done.stderr[-3000:])
    return done.stdout


def make_artefacts(folder):
    packages = os.environ.get("DIVVY_PACKAGES")
    if not packages:
        packages = os.path.join(folder, "packages")
        run(str(SOURCE / "scripts/deb"), packages)
    out = os.path.join(folder, "release")
    run(str(SOURCE / "release/artefacts"), packages, out)
    return out


def layout_in(folder, name):
    (path,) = glob.glob(os.path.join(folder, f"{name}_*.oci.tar"))
    return path


def index_of(path):
    """The descriptor of the image in a layout."""
    with tarfile.open(path) as tar:
        (descriptor,) = json.load(tar.extractfile("index.json"))["manifests"]
    return descriptor


def import_layout(cluster, folder, name):
    """The layout names the image by its tag. A registry also names it by its digest, as the second name here. Returns that name."""
    path = layout_in(folder, name)
    descriptor = index_of(path)
    full = descriptor["annotations"]["io.containerd.image.name"]
    by_digest = full.rpartition(":")[0] + "@" + descriptor["digest"]
    cluster.node.ctr("images", "import", path)
    cluster.node.ctr("images", "tag", "--force", full, by_digest)
    return by_digest


def import_layouts(cluster):
    for name in NAMES:
        import_layout(cluster, artefacts, name)


def apply_chart(cluster):
    (chart,) = glob.glob(os.path.join(artefacts, "divvy-[0-9]*.tgz"))
    text = changed_for_tests(cluster, run(helm, "template", "divvy", chart))
    assert text.count("@sha256:") == 3, text.count("@sha256:")
    cluster.apply(text)


def pods_run_the_images_that_the_chart_names():
    found = cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
    images = {p["metadata"]["labels"]["app.kubernetes.io/name"]: p["spec"]["containers"][0]["image"] for p in found}
    assert set(images) == {"divvyd", "divvy-scheduler", "divvy-controller"}, images
    for name, image in images.items():
        assert image.startswith(f"{name}@sha256:"), images
    for pod in found:
        (state,) = pod["status"]["containerStatuses"]
        assert state["restartCount"] == 0, state
        assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"], pod["metadata"]["name"]


def no_shell_is_in_scheduler_and_controller():
    for name in ("divvy-scheduler", "divvy-controller"):
        code, _, said = cluster.kubectl(
            "-n", SYSTEM, "exec", f"deployment/{name}", "--", "sh", "-c", "true", check=False
        )
        assert code != 0 and "sh" in said, (name, code, said)
        code, said, _ = cluster.kubectl(
            "-n", SYSTEM, "exec", f"deployment/{name}", "--", name, "--version", check=False
        )
        assert code == 0 and said.startswith(name), (name, code, said)


def the_doctor_works_in_divvyds_image():
    said = cluster.kubectl("-n", SYSTEM, "exec", "daemonset/divvyd", "--", "divvy", "doctor")
    assert "preload: works" in said and "Sharing works here." in said, said


def start(name):
    """Creates the pods of an example, and returns their names when their programs use devices."""
    text = example(name)
    pods = [obj["metadata"]["name"] for obj in load(text)]
    cluster.apply(text, namespace=cluster.namespace)
    for pod in pods:
        cluster.wait_for_pod(pod, "Running")
    wait_for(lambda: all(daemon.listed().get(pod, {}).get("processes") for pod in pods), f"{pods} use their devices")
    return pods


def remove(pods):
    for pod in pods:
        cluster.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}", grace_s=1)
    wait_for(lambda: not any(t["pod"] in pods for t in daemon.status().get("tenants") or []), f"grants of {pods} end")


def the_examples_run():
    for name in EXAMPLES:
        remove(start(name))


def change_part(name, image):
    workload, container = PARTS[name]
    cluster.kubectl("-n", SYSTEM, "set", "image", workload, f"{container}={image}")
    shipped.await_workloads(cluster)
    wait_for(lambda: daemon.is_ready() and daemon.answers(), "divvyd serves")


def parts_of_the_previous_release_work_with_these():
    if not os.environ.get("DIVVY_PREVIOUS"):
        raise Skip("DIVVY_PREVIOUS names no folder with the artefacts of the release before")
    these = {name: f"docker.io/library/{name}@{index_of(layout_in(artefacts, name))['digest']}" for name in PARTS}
    before = {name: import_layout(cluster, os.environ["DIVVY_PREVIOUS"], name) for name in PARTS}
    assert all(before[name] != these[name] for name in PARTS), "DIVVY_PREVIOUS has other artefacts"
    for images in (before, these):
        for name in PARTS:
            change_part(name, images[name])
            daemon.await_slots()
            remove(start("share"))


try:
    helm = os.path.join(run(str(SOURCE / "tests/k8s/get"), "--check", "with-helm").strip(), "bin/helm")
    with tempfile.TemporaryDirectory(prefix="divvy-test-release-") as made:
        artefacts = make_artefacts(made)
        with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS) as cluster:
            daemon = shipped.install(cluster, "4xH200-141Gi", images=import_layouts, objects=apply_chart)
            main(
                pods_run_the_images_that_the_chart_names,
                no_shell_is_in_scheduler_and_controller,
                the_doctor_works_in_divvyds_image,
                the_examples_run,
                parts_of_the_previous_release_work_with_these,
            )
except Skip as reason:
    skip_all(reason)
