# SPDX-License-Identifier: Apache-2.0
"""Claims for divvyd as DRA driver, and what a cluster needs for the driver."""

import contextlib
import json
import os

from claims import API, DRA
from cluster import patience

OLDEST = 36  # shared counters, consumable capacity and device taints are on
SLICES = API + "/resourceslices"


def install_driver(cluster):
    """What deploy/overlays/dra has for the node: the classes, and divvyd's rights with their limits."""
    for name in ("classes.yaml", "driver.yaml"):
        cluster.kubectl("apply", "--server-side", "-f", str(DRA / name), timeout=patience(60))


def share(milli, memory="8Gi", name="gpu", **more):
    """A request for a share of a device."""
    capacity = {"requests": {"share": str(milli), "memory": memory}}
    return {"name": name, "exactly": {"deviceClassName": "share.divvy.gpu", "capacity": capacity, **more}}


def whole(name="gpu"):
    return {"name": name, "exactly": {"deviceClassName": "gpu.divvy.gpu"}}


def claims_path(cluster, name=""):
    return f"{API}/namespaces/{cluster.namespace}/resourceclaims" + (f"/{name}" if name else "")


def create_claim(cluster, name, *requests, **devices):
    return cluster.create(
        claims_path(cluster),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": list(requests), **devices}},
        },
    )


def tenants(daemon):
    """divvyd's own list of the tenants of pods."""
    return [t for t in json.loads(daemon.divvy("ps", "-o", "json")) if t.get("pod")]


def slices(cluster):
    """The slices of all nodes, sorted by name."""
    return sorted(cluster.get(SLICES)["items"], key=lambda s: s["metadata"]["name"])


def published(cluster):
    """{name: device} of the pool, if its slices are complete and of one generation; else {}."""
    found = slices(cluster)
    generations = {s["spec"]["pool"]["generation"] for s in found}
    if len(generations) != 1 or any(s["spec"]["pool"]["resourceSliceCount"] != len(found) for s in found):
        return {}
    return {d["name"]: d for s in found for d in s["spec"].get("devices") or []}


def checkpoint(daemon):
    """The claims of divvyd's checkpoint: those that a line prepares and no later line unprepares."""
    claims = {}
    with contextlib.suppress(FileNotFoundError), open(checkpoint_path(daemon), encoding="utf-8") as f:
        for line in list(f)[1:]:
            change = json.loads(line)
            if "unprepared" in change:
                claims.pop(change["unprepared"], None)
            else:
                claims[change["prepared"]["uid"]] = change["prepared"]
    return list(claims.values())


def checkpoint_path(daemon):
    return os.path.join(daemon.dir, "state/claims.jsonl")
