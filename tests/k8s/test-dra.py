#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvyd as DRA driver on a real kubelet: kube-scheduler allocates claims, and divvyd gives their pods exactly these shares."""

import itertools
import json
import os
import time

import kube_scheduler
from claims import API, DRA, GIB
from cluster import NODE_OF_OURS, main, open_cluster, own_minor, patience, skip_all, wait_for, Skip
from divvyd import DIVVY, IMAGE, Daemon, delete_pod, events_of, install, make_image, wait_for_pod
from manifests import load
from tap import fairly

OLDEST = 36  # shared counters, consumable capacity and device taints are on
SLICES = API + "/resourceslices"


def path(kind="resourceclaims", name=""):
    return f"{API}/namespaces/{cluster.namespace}/{kind}" + (f"/{name}" if name else "")


def install_driver():
    """What deploy/overlays/dra has for the node: the classes, and divvyd's rights."""
    cluster.kubectl("apply", "--server-side", "-f", str(DRA / "classes.yaml"), timeout=patience(60))
    rights = [o for o in load((DRA / "driver.yaml").read_text()) if o["kind"].startswith("ClusterRole")]
    assert len(rights) == 2, rights
    cluster.apply(*(json.dumps(o) for o in rights))


def share(milli, memory="8Gi", name="gpu", **more):
    """A request for a share of a device."""
    requests = {"share": str(milli), "memory": memory}
    return {
        "name": name,
        "exactly": {"deviceClassName": "share.divvy.gpu", "capacity": {"requests": requests}, **more},
    }


def whole(name="gpu"):
    return {"name": name, "exactly": {"deviceClassName": "gpu.divvy.gpu"}}


def create_claim(name, *requests, **devices):
    return cluster.create(
        path(),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": list(requests), **devices}},
        },
    )


def container(args, name="main", claims=({"name": "gpu"},)):
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": list(args),
        "resources": {"claims": list(claims)},
    }


def run_pod(name, args, claim=None, containers=None, **spec):
    """A pod of kube-scheduler with that claim, by default the claim of its own name."""
    return cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "resourceClaims": [{"name": "gpu", "resourceClaimName": claim or name}],
                "containers": containers or [container(args)],
                **spec,
            },
        },
    )


def remove(*names):
    """Deletes pods with the claims of their names, and waits until divvyd has no tenant of theirs."""
    for name in names:
        delete_pod(cluster, name)
    for name in names:
        wait_for(
            lambda n=name: not cluster.exists(f"/api/v1/namespaces/{cluster.namespace}/pods/{n}"), f"{name} is gone"
        )
        if cluster.exists(path(name=name)):
            cluster.delete(path(name=name))
    wait_for(lambda: not tenants_of(*names), "their tenants have ended")


def tenants():
    """divvyd's own list of the tenants of pods."""
    return [t for t in json.loads(daemon.divvy("ps", "-o", "json")) if t.get("pod")]


def tenants_of(*names):
    return [t for t in tenants() if t["pod"]["name"] in names]


def slices():
    """The node's slices, sorted by name."""
    return sorted(cluster.get(SLICES)["items"], key=lambda s: s["metadata"]["name"])


def published():
    """{name: device} of the pool, if its slices are complete and of one generation; else {}."""
    found = slices()
    generations = {s["spec"]["pool"]["generation"] for s in found}
    if len(generations) != 1 or any(s["spec"]["pool"]["resourceSliceCount"] != len(found) for s in found):
        return {}
    return {d["name"]: d for s in found for d in s["spec"].get("devices") or []}


def checkpoint():
    with open(os.path.join(daemon.dir, "state/claims.json"), encoding="utf-8") as f:
        return json.load(f)["claims"]


# ---- slices


def the_node_publishes_its_devices():
    wait_for(lambda: len(published()) == 4, "the pool has two devices for each GPU", 60)
    daemon.await_ready()
    uuid = daemon.devices()[0][4:].lower()
    device = published()["share-" + uuid]
    assert device["allowMultipleAllocations"] and device["attributes"]["model"]["string"] == "NVIDIA H200", device
    assert device["attributes"]["simulated"]["bool"], device
    assert device["capacity"]["share"]["value"] == "1k", device
    assert published()["gpu-" + uuid]["consumesCounters"] == device["consumesCounters"], device
    status = daemon.status()
    assert status["owner"] == "dra" and status["slots"] == {"total": 0, "used": 0}, status
    owner = slices()[0]["metadata"]["ownerReferences"][0]
    assert owner["kind"] == "Node" and owner["name"] == cluster.node_name, owner


def removed_slices_come_back():
    generation = slices()[0]["spec"]["pool"]["generation"]
    cluster.delete(SLICES + "/" + slices()[1]["metadata"]["name"])
    wait_for(
        lambda: len(published()) == 4 and slices()[0]["spec"]["pool"]["generation"] > generation,
        "the slices are complete in a new generation",
        60,
    )


# ---- shares


def two_claims_have_their_shares():
    """kube-scheduler places claims of 300 and 700 milli on one device, and divvyd enforces both."""
    args = ("--kernel-us=2000", "--duration=25")
    looks = itertools.count(1)

    def look():
        nth = next(looks)
        low, high = f"low-{nth}", f"high-{nth}"
        for name, milli in ((low, 300), (high, 700)):
            create_claim(name, share(milli))
            run_pod(name, args)
        for name in (low, high):
            wait_for_pod(cluster, name, "Running")
        wait_for(
            lambda: len(tenants()) == 2 and all(t["processes"] for t in tenants()), "both programs have registered"
        )
        found = {t["pod"]["name"]: t for t in tenants()}
        assert found[low]["devices"][0]["uuid"] == found[high]["devices"][0]["uuid"], found
        assert found[low]["spec"]["request_permille"] == 300 and found[low]["pod"]["claim"] == low, found
        told = daemon.tenant(high, "gpu")
        assert told["memoryBytes"] == [8 * GIB] and told["claim"] == high, told
        time.sleep(11)
        shares, ran = daemon.shares(**{low: 0.3, high: 0.7})
        print(f"# of {ran:.2f}: {shares}")
        for name in (low, high):
            wait_for_pod(cluster, name, "Succeeded")
        assert "Granted" in events_of(cluster, low)
        remove(low, high)
        # As in test-divvyd.py: what one tenant cannot use for want of a processor, the other one uses.
        return None if ran > 0.5 and abs(shares[low] - 0.3) < 0.02 + 0.3 * (1 - min(ran, 1)) else (shares, ran)

    fairly(look, 2)


try:
    if own_minor() < OLDEST:
        raise Skip(f"needs Kubernetes 1.{OLDEST}")
    with open_cluster("kcm", "node", own=NODE_OF_OURS) as cluster:
        install(cluster)
        make_image(cluster)
        install_driver()
        kube_scheduler.start(cluster)
        daemon = Daemon(cluster, simulate="2xH200-141Gi")
        daemon.make_gpu_node()
        daemon.start("--dra")
        main(
            the_node_publishes_its_devices,
            removed_slices_come_back,
            two_claims_have_their_shares,
        )
except Skip as reason:
    skip_all(reason)
