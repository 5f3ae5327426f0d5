#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy as deploy/overlays/dra ships it, on a real node: each example of deploy/examples/dra runs, and its pods are the tenants
that its claims describe."""

import contextlib
import tempfile

from claims import EXAMPLES, GIB, example
from cluster import NODE_OF_OURS, main, open_cluster, own_minor, patience, skip_all, wait_for
from dra import OLDEST, published, slices, tenants
from manifests import overlay_of_claims
from shipped import START_S, Shipped, await_workloads, example as example_of, make_images

DEVICES = "2xH200-141Gi,1xA100-80Gi"


def install():
    """Installs as docs/dra.md describes; kube-scheduler knows the devices when this returns."""
    make_images(cluster)
    with tempfile.TemporaryDirectory(prefix="divvy-deploy-", dir=cluster.dir) as folder:
        cluster.kubectl("apply", "--server-side", "-k", str(overlay_of_claims(cluster, folder)), timeout=START_S)
    await_workloads(cluster)
    cluster.apply(example_of("simulated-node", name=("node1", cluster.node_name), devices=("2xH200-141Gi", DEVICES)))
    cluster.kubectl("label", "node", cluster.node_name, "divvy.gpu/owner=dra")
    wait_for(lambda: len(published(cluster)) == 6, "the node's pool has two devices for each GPU", START_S)
    return Shipped(cluster, DEVICES)


def pods_of(space):
    return cluster.get(f"/api/v1/namespaces/{space}/pods")["items"]


def phases_of(space):
    return {p["metadata"]["name"]: p["status"].get("phase") for p in pods_of(space)}


@contextlib.contextmanager
def applied(name):
    """Applies an example in a namespace of its own and yields the tenants of its pods, whose programs all run."""
    space = cluster.new_namespace()
    n = sum(len(o["spec"]["containers"]) for o in example(name) if o["kind"] == "Pod")
    cluster.kubectl("-n", space, "apply", "-f", str(EXAMPLES / f"{name}.yaml"), timeout=patience(60))
    try:
        wait_for(lambda: set(phases_of(space).values()) == {"Running"}, f"the pods of {name} run", START_S)
        wait_for(lambda: processes(space) == n, f"{n} programs of {name} have registered", START_S)
        yield {(t["pod"]["name"], t["pod"]["container"]): t for t in mine(space)}
    finally:
        cluster.kubectl("-n", space, "delete", "pods", "--all", "--grace-period=1", "--wait=false")
        wait_for(lambda: not pods_of(space) and not mine(space), f"the pods and tenants of {name} have ended", START_S)


def mine(space):
    return [t for t in tenants(daemon) if t["pod"]["namespace"] == space]


def processes(space):
    return sum(len(t["processes"]) for t in mine(space))


def models(tenant):
    """The models of the tenant's devices."""
    model = {d["uuid"]: d["model"] for d in daemon.status()["devices"]}
    return [model[d["uuid"]] for d in tenant["devices"]]


def a_share_has_its_parameters():
    with applied("share") as found:
        [tenant] = found.values()
        spec = tenant["spec"]
        assert (spec["request_permille"], spec["limit_permille"]) == (300, 600), spec
        assert (spec["class"], spec["memory_policy"], spec["priority"]) == ("latency", "wait", 70), spec
        assert daemon.tenant("claim-share", "gpu")["memoryBytes"] == [8 * GIB], daemon.tenants()


def annotations_change_a_running_claim():
    """By the commands of docs/dra.md, as the webhook and divvyd's rights allow it."""
    with applied("share") as found:
        [tenant] = found.values()
        space = tenant["pod"]["namespace"]
        name = tenant["pod"]["claim"]

        def annotate(*values, check=True):
            return cluster.kubectl("-n", space, "annotate", "--overwrite", "resourceclaim", name, *values, check=check)

        def becomes(**wanted):
            def is_so():
                (spec,) = [t["spec"] for t in mine(space)]
                return all(spec[key] == value for key, value in wanted.items())

            wait_for(is_so, f"the tenant has {wanted}", 60)

        annotate("divvy.gpu/limit=0.4", "divvy.gpu/class=standard")
        becomes(limit_permille=400, **{"class": "standard"})
        assert [t["id"] for t in mine(space)] == [tenant["id"]], "the same tenant"
        assert tenant["processes"] and processes(space) == 1, "its program runs on"
        wait_for(lambda: "ResizeAccepted" in events_of_pods(space), "the pod has an Event")
        for wrong, why in (
            ("divvy.gpu/limit=0.2", "limit"),
            ("divvy.gpu/memory=1Gi", "stays as long as the claim is allocated"),
            ("divvy.gpu/priority=101", "expected 0 (opportunistic) to 100"),
        ):
            code, _, refusal = annotate(wrong, check=False)
            assert code and why in refusal, (wrong, refusal)
        annotate("divvy.gpu/limit-", "divvy.gpu/class-")
        becomes(limit_permille=600, **{"class": "latency"})


def events_of_pods(space):
    return {e["reason"] for e in cluster.get(f"/api/v1/namespaces/{space}/events")["items"]}


def two_containers_are_one_tenant():
    with applied("two-containers") as found:
        [tenant] = found.values()
        assert tenant["spec"]["request_permille"] == 500 and len(tenant["processes"]) == 2, tenant


def two_requests_are_two_tenants():
    with applied("two-requests") as found:
        decode, infer = found["claim-two-requests", "decode"], found["claim-two-requests", "infer"]
        assert (decode["spec"]["request_permille"], infer["spec"]["request_permille"]) == (100, 400), found
        assert (decode["spec"]["class"], infer["spec"]["class"]) == ("standard", "latency"), found
        assert decode["devices"][0]["uuid"] == infer["devices"][0]["uuid"], found


def two_halves_are_one_tenant():
    with applied("two-devices") as found:
        [tenant] = found.values()
        assert len({d["uuid"] for d in tenant["devices"]}) == 2 and tenant["spec"]["request_permille"] == 500, tenant
        assert len(set(models(tenant))) == 1, models(tenant)


def the_first_available_device_is_half_an_h200():
    with applied("first-available") as found:
        [tenant] = found.values()
        assert tenant["spec"]["request_permille"] == tenant["spec"]["limit_permille"] == 500, tenant
        assert "H200" in models(tenant)[0], models(tenant)


def whole_gpus_are_exclusive():
    with applied("whole-gpu") as found:
        assert {pod for pod, _ in found} == {"claim-whole", "resource-whole"}, found
        assert all(t["spec"]["request_permille"] == 1000 for t in found.values()), found
        assert len({t["devices"][0]["uuid"] for t in found.values()}) == 2, found


def a_resource_is_a_share():
    with applied("share-resource") as found:
        [tenant] = found.values()
        assert tenant["spec"]["request_permille"] == 500, tenant
        assert daemon.tenant("resource-share", "gpu")["memoryBytes"] == [8 * GIB], daemon.tenants()


def the_node_moves_to_the_device_plugin_and_back():
    """By the commands of docs/dra.md."""
    node, drain = cluster.node_name, ["--ignore-daemonsets", "--delete-emptydir-data"]
    cluster.kubectl("cordon", node)
    cluster.kubectl("label", "node", node, "divvy.gpu/owner=divvy", "--overwrite")
    wait_for(lambda: not slices(cluster), "the slices of the driver are gone", START_S)
    daemon.await_ready()
    daemon.await_slots()
    cluster.kubectl("uncordon", node)
    space = cluster.new_namespace()
    cluster.kubectl("-n", space, "apply", "-f", "-", stdin=example_of("share"))
    wait_for(lambda: set(phases_of(space).values()) == {"Running"}, "pods with shares by annotations run", START_S)
    cluster.kubectl("cordon", node)
    cluster.kubectl(
        "drain", node, "--pod-selector=divvy.gpu/tenant=true", "--force", *drain, timeout=START_S
    )  # --force: the example's pods have no controller
    cluster.kubectl("label", "node", node, "divvy.gpu/owner=dra", "--overwrite")
    wait_for(lambda: len(published(cluster)) == 6, "the driver publishes the devices again", START_S)
    wait_for(lambda: not daemon.slots_offered(), "the kubelet offers no slots", START_S)
    cluster.kubectl("uncordon", node)
    a_share_has_its_parameters()


TESTS = [
    a_share_has_its_parameters,
    annotations_change_a_running_claim,
    two_containers_are_one_tenant,
    two_requests_are_two_tenants,
    two_halves_are_one_tenant,
    the_first_available_device_is_half_an_h200,
    whole_gpus_are_exclusive,
    a_resource_is_a_share,
    the_node_moves_to_the_device_plugin_and_back,
]

if own_minor() < OLDEST:
    skip_all(f"Kubernetes 1.{own_minor()} has no consumable capacity")
assert len(TESTS) == 2 + len(list(EXAMPLES.glob("*.yaml"))), "each example has a test"
with open_cluster("kcm", "sched", "node", own=NODE_OF_OURS) as cluster:
    daemon = install()
    main(*TESTS)
