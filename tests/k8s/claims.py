# SPDX-License-Identifier: Apache-2.0
"""Claims of dynamic resource allocation: nodes with the ResourceSlices that divvyd would write, and what a claim was given."""

import json
import pathlib

from cluster import patience, wait_for
from manifests import DEPLOY, key, load

API = "/apis/resource.k8s.io/v1"
DRA = DEPLOY / "overlays/dra"
EXAMPLES = DEPLOY / "examples/dra"
GIB = 1 << 30
MEMORY_STEP = "2Mi"


def device(uuid, model, memory, is_share, is_mig=False):
    """One of the two devices of a GPU: its shares, or the whole GPU. Both consume its only counter."""
    amount = {"value": str(memory)}
    made = {
        "name": f"{'share' if is_share else 'gpu'}-{uuid}",
        "attributes": {
            "type": {"string": "share" if is_share else "gpu"},
            "uuid": {"string": "GPU-" + uuid},
            "model": {"string": model},
            "mig": {"bool": is_mig},
        },
        "capacity": {"memory": amount},
        "consumesCounters": [{"counterSet": "gpu-" + uuid, "counters": {"device": {"value": "1"}}}],
    }
    if is_share:
        share = {"default": "1000", "validRange": {"min": "1", "step": "1"}}
        bytes_ = {"default": str(memory), "validRange": {"min": MEMORY_STEP, "step": MEMORY_STEP}}
        made["allowMultipleAllocations"] = True
        made["capacity"] = {
            "share": {"value": "1000", "requestPolicy": share},
            "memory": {**amount, "requestPolicy": bytes_},
        }
    return made


def slices(node, model, memory, n=1, is_mig=False):
    """The ResourceSlices of a node with n GPUs or MIG instances."""
    uuids = [f"{node}-{i}" for i in range(n)]
    spec = {"driver": "divvy.gpu", "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 2}}
    counters = [{"name": "gpu-" + u, "counters": {"device": {"value": "1"}}} for u in uuids]
    devices = [device(u, model, memory, is_share, is_mig) for u in uuids for is_share in (False, True)]
    for name, what in (("counters", {"sharedCounters": counters}), ("devices", {"devices": devices})):
        yield {"metadata": {"name": f"{node}-divvy-{name}"}, "spec": {**spec, **what}}


def add_node(cluster, name, model, memory=80 * GIB, n=1, is_mig=False):
    """A node with n GPUs or MIG instances, whose divvyd is a DRA driver."""
    cluster.fake_node(name, labels={"divvy.gpu/owner": "dra"})
    for made in slices(name, model, memory, n, is_mig):
        cluster.create(API + "/resourceslices", made)


def install(cluster):
    """Adds what deploy/overlays/dra has besides an installed divvy, whose controller has the option --claims: the classes,
    the webhooks of claims, and a right of the controller."""
    changed = ("ValidatingWebhookConfiguration", "divvy"), ("ClusterRole", "divvy-controller")
    made = [o for o in load((DRA / "divvy.yaml").read_text()) if key(o)[::2] in changed]
    cluster.kubectl("apply", "--server-side", "-f", str(DRA / "classes.yaml"), timeout=patience(60))
    # the running controller owns caBundle
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=_text(made), timeout=patience(60))
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/divvy"

    def trusted():
        return all(h["clientConfig"].get("caBundle") for h in cluster.get(path)["webhooks"])

    wait_for(trusted, "the controller has completed the webhooks of claims")


def _text(objects):
    return "\n---\n".join(json.dumps(o) for o in objects)


def example(name):
    return load((EXAMPLES / f"{pathlib.Path(name).stem}.yaml").read_text())


def claims_of(cluster, namespace, pod):
    """{name in the pod: its claim}, when all are there."""
    made = cluster.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")
    status = made.get("status", {})
    names = {s["name"]: s["resourceClaimName"] for s in status.get("resourceClaimStatuses") or []}
    for claim in made["spec"].get("resourceClaims") or []:
        names.setdefault(claim["name"], claim.get("resourceClaimName"))
    extended = status.get("extendedResourceClaimStatus")
    if extended:
        names["extended"] = extended["resourceClaimName"]
    return {n: cluster.get(f"{API}/namespaces/{namespace}/resourceclaims/{c}") for n, c in names.items() if c}


def results_of(claim):
    """[(request, device, consumed share, consumed memory)] of an allocated claim."""
    found = []
    for result in claim["status"]["allocation"]["devices"]["results"]:
        consumed = result.get("consumedCapacity") or {}
        found.append((result["request"], result["device"], consumed.get("share"), consumed.get("memory")))
    return found
