#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy-scheduler places pods with ResourceClaims of any driver, on a real API server with the real controllers.

The test writes the ResourceSlices as drivers would. The nodes have no kubelet."""

import json
import os
import subprocess

import claims as divvys
from cluster import Skip, main, open_cluster, patience, skip_all, wait_for
from refuser import REASON, Refuser
from scheduled import BUILD, Scheduled

API = "/apis/resource.k8s.io/v1"
NIC = "nic.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"


def claims(name=""):
    return f"{API}/namespaces/{cluster.namespace}/resourceclaims" + (f"/{name}" if name else "")


def device(name, *, speed=100, capacity=None, **more):
    attributes = {"speed": {"int": speed}, "model": {"string": f"NIC-{speed}"}, "firmware": {"version": "2.1.0"}}
    return {"name": name, "attributes": attributes, **({"capacity": capacity} if capacity else {}), **more}


def slice_of(node, *devices, pool=None, driver=NIC, count=1, name=None, **spec):
    where = {"nodeName": node} if node else {}
    pool = pool or node
    body = {
        "metadata": {"name": name or f"{pool}-{driver}"},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": count},
            **({"devices": list(devices)} if devices else {}),
            **where,
            **spec,
        },
    }
    return cluster.create(f"{API}/resourceslices", body)


def drop_slices():
    for item in cluster.get(f"{API}/resourceslices")["items"]:
        cluster.delete(f"{API}/resourceslices/{item['metadata']['name']}")


def exactly(name="r", **request):
    return {"name": name, "exactly": {"deviceClassName": "nics", **request}}


def selects(expression):
    return [{"cel": {"expression": expression}}]


def claim(name, *requests, **devices):
    return cluster.create(
        claims(),
        {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests) or [exactly()], **devices}}},
    )


def with_claims(*names, **spec):
    return {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": n} for i, n in enumerate(names)], **spec}


def pod(pod_name, *names, annotations=None, **spec):
    return rig.pod(pod_name, annotations, **with_claims(*names, **spec))


def results(name):
    return cluster.get(claims(name))["status"]["allocation"]["devices"]["results"]


def devices_of(name):
    return [r["device"] for r in results(name)]


def gone(*pods, claim_names=()):
    rig.gone(*pods)
    for name in claim_names:
        cluster.delete(claims(name))
    wait_for(lambda: not any(cluster.exists(claims(n)) for n in claim_names), "the claims are deleted")


def a_claim_gets_devices_before_its_pod_is_bound():
    cluster.create(
        f"{API}/deviceclasses",
        {
            "metadata": {"name": "nics"},
            "spec": {
                "selectors": selects(f'device.driver == "{NIC}"'),
                "config": [{"opaque": {"driver": NIC, "parameters": {"mtu": 9000}}}],
            },
        },
    )
    rig.node("n1"), rig.node("n2")
    slice_of("n2", device("eth0"), device("eth1", speed=400))
    claim("one", exactly(selectors=selects(f'device.attributes["{NIC}"].speed > 100')))
    pod("p1", "one")
    bound = rig.bound("p1")
    assert bound["spec"]["nodeName"] == "n2"
    made = cluster.get(claims("one"))
    allocation = made["status"]["allocation"]
    assert allocation["devices"]["results"] == [{"request": "r", "driver": NIC, "pool": "n2", "device": "eth1"}]
    assert allocation["devices"]["config"] == [
        {"source": "FromClass", "opaque": {"driver": NIC, "parameters": {"mtu": 9000}}}
    ], allocation
    assert allocation["nodeSelector"]["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    ]
    uid = bound["metadata"]["uid"]
    assert made["status"]["reservedFor"] == [{"resource": "pods", "name": "p1", "uid": uid}]
    assert made["metadata"]["finalizers"] == [FINALIZER]


def a_pod_waits_until_a_device_is_free():
    claim("two", exactly(selectors=selects(f'device.attributes["{NIC}"].speed > 100')))
    pod("p2", "two")
    rig.waits("p2", "with devices of class nics in use")
    assert "allocation" not in cluster.get(claims("two")).get("status", {})
    gone("p1", claim_names=["one"])
    assert rig.bound("p2")["spec"]["nodeName"] == "n2"
    assert devices_of("two") == ["eth1"]
    gone("p2", claim_names=["two"])


def a_restart_forgets_no_allocation():
    claim("kept")
    pod("p3", "kept")
    rig.bound("p3")
    assert devices_of("kept") == ["eth0"]
    rig.kill(rig.processes[0])
    rig.start()
    claim("next")
    pod("p4", "next")
    rig.bound("p4")
    assert devices_of("next") == ["eth1"]
    gone("p3", "p4", claim_names=["kept", "next"])


def a_template_beside_a_share():
    """The pod needs a GPU of divvy's and a device of another driver, which only one node has both."""
    rig.node("g1", "A100"), rig.node("g2", "A100")
    slice_of("g2", device("eth0"))
    cluster.delete(f"{API}/resourceslices/n2-{NIC}")
    cluster.create(
        f"{API}/namespaces/{cluster.namespace}/resourceclaimtemplates",
        {"metadata": {"name": "nic"}, "spec": {"spec": {"devices": {"requests": [exactly()]}}}},
    )
    spec = {"resourceClaims": [{"name": "net", "resourceClaimTemplateName": "nic"}]}
    rig.pod("both", {"request": "0.5"}, **spec)
    bound = rig.bound("both")
    assert bound["spec"]["nodeName"] == "g2", bound["spec"]
    assert rig.devices("both") == "main=GPU-g2-0"
    name = bound["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    assert devices_of(name) == ["eth0"]
    rig.pod("more", {"request": "0.1"}, **spec)
    rig.waits("more", "with devices of class nics in use")
    rig.gone("both")
    assert rig.devices("more") == "main=GPU-g2-0"
    rig.gone("more")


def pods_share_a_claim():
    claim("shared")
    pod("s1", "shared"), pod("s2", "shared")
    uids = {rig.bound(n)["metadata"]["uid"] for n in ("s1", "s2")}
    assert {rig.get(n)["spec"]["nodeName"] for n in ("s1", "s2")} == {"g2"}
    assert {r["uid"] for r in cluster.get(claims("shared"))["status"]["reservedFor"]} == uids


def kube_scheduler_accepts_the_allocation():
    """Its pod uses the claim that divvy-scheduler has allocated, on the node of the devices, and gets no device twice."""
    rig.pod("s3", schedulerName="default-scheduler", **with_claims("shared"))
    assert rig.bound("s3")["spec"]["nodeName"] == "g2"
    assert len(cluster.get(claims("shared"))["status"]["reservedFor"]) == 3
    claim("other")
    rig.pod("s4", schedulerName="default-scheduler", **with_claims("other"))
    wait_for(lambda: (rig.condition("s4") or {}).get("reason") == "Unschedulable", "kube-scheduler has no device")
    rig.gone("s1", "s2", "s3")
    cluster.delete(claims("shared"))
    assert rig.bound("s4")["spec"]["nodeName"] == "g2"
    gone("s4", claim_names=["other"])


def shares_of_a_device_consume_its_capacity():
    drop_slices()
    slice_of(
        "n1",
        device(
            "big",
            capacity={
                "bandwidth": {
                    "value": "10G",
                    "requestPolicy": {"default": "1G", "validRange": {"min": "1G", "step": "1G"}},
                }
            },
            allowMultipleAllocations=True,
        ),
    )
    for name, amount in (("b1", "5500M"), ("b2", "4G"), ("b3", "1G")):
        claim(name, exactly(capacity={"requests": {"bandwidth": amount}}))
    pod("w1", "b1"), rig.bound("w1")
    pod("w2", "b2"), rig.bound("w2")
    pod("w3", "b3")
    rig.waits("w3", "without a device of class nics with bandwidth 1G free")
    shares = results("b1") + results("b2")
    assert [s["consumedCapacity"] for s in shares] == [{"bandwidth": "6G"}, {"bandwidth": "4G"}], shares
    assert len({s["shareID"] for s in shares}) == 2
    gone("w2", claim_names=["b2"])
    rig.bound("w3")
    gone("w1", "w3", claim_names=["b1", "b3"])


def lists_constraints_and_taints_decide():
    drop_slices()
    taint = {"key": "example.com/flaky", "effect": "NoSchedule"}
    slice_of("n1", device("a0", speed=100), device("a1", speed=400, taints=[taint]))
    slice_of("n2", device("b0", speed=200), device("b1", speed=200))
    fast = {"name": "fast", "deviceClassName": "nics", "selectors": selects(f'device.attributes["{NIC}"].speed >= 400')}
    pair = {"name": "pair", "deviceClassName": "nics", "count": 2}
    claim("list", {"name": "r", "firstAvailable": [fast, pair]}, constraints=[{"matchAttribute": f"{NIC}/speed"}])
    pod("l1", "list")
    assert rig.bound("l1")["spec"]["nodeName"] == "n2"
    assert [(r["request"], r["device"]) for r in results("list")] == [("r/pair", "b0"), ("r/pair", "b1")]
    claim("brave", exactly(selectors=fast["selectors"], tolerations=[{"key": taint["key"], "operator": "Exists"}]))
    pod("l2", "brave")
    assert rig.bound("l2")["spec"]["nodeName"] == "n1"
    assert devices_of("brave") == ["a1"]
    gone("l1", "l2", claim_names=["list", "brave"])


def a_taint_rule_keeps_claims_off():
    rules = f"{API}/devicetaintrules"
    if not cluster.exists(rules):
        raise Skip("this Kubernetes has no DeviceTaintRules of version v1")
    rule = {"deviceSelector": {"driver": NIC}, "taint": {"key": "example.com/off", "effect": "NoSchedule"}}
    cluster.create(rules, {"metadata": {"name": "off"}, "spec": rule})
    claim("off")
    wait_for(lambda: cluster.exists(f"{rules}/off"), "the rule is there")
    pod("t1", "off")
    rig.waits("t1", "with devices of class nics that have the taint example.com/off")
    cluster.delete(f"{rules}/off")
    rig.bound("t1")
    gone("t1", claim_names=["off"])


def what_is_missing_is_named():
    claim("odd", exactly(selectors=selects(f'isURL(device.attributes["{NIC}"].model)')))
    pod("m1", "odd")
    rig.waits("m1", "ResourceClaim odd: request r: selectors: selector 0: the function isURL() is not supported")
    claim("unknown", exactly(deviceClassName="no-such-class"))
    pod("m2", "unknown")
    rig.waits("m2", "claim unknown: device class no-such-class does not exist")
    pod("m3", "no-such-claim")
    rig.waits("m3", "ResourceClaim no-such-claim does not exist")
    claim("no-such-claim")
    rig.bound("m3")
    gone("m1", "m2", "m3", claim_names=["odd", "unknown", "no-such-claim"])


def a_refused_binding_ends_the_reservation():
    claim("refused")
    with Refuser(cluster, "f1"):
        pod("f1", "refused")
        assert rig.waits("f1", REASON)["reason"] == "SchedulerError"
        # Each try writes the devices first, and takes them back when the Binding is refused.
        wait_for(
            lambda: not (cluster.get(claims("refused")).get("status") or {}).get("allocation"),
            "the claim has no devices any more",
        )
    assert rig.bound("f1")["metadata"]["uid"] == cluster.get(claims("refused"))["status"]["reservedFor"][0]["uid"]
    gone("f1", claim_names=["refused"])


class Mover(Refuser):
    """Calls `move` while the API server handles a scheduler's write of the claim, once."""

    RULE = {
        "operations": ["UPDATE"],
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["*"],
        "resources": ["resourceclaims/status"],
    }

    def __init__(self, cluster, claim_name, move):
        super().__init__(cluster)
        self.claim_name, self.move = claim_name, move

    def review(self, review):
        request = review["request"]
        if request["name"] == self.claim_name and "scheduler" in request["userInfo"]["username"]:
            move, self.move = self.move, lambda: None
            move()
        return super().review(review)


def a_claim_that_moves_meanwhile_takes_its_pod_along():
    """Between the scheduler's choice of a node and its write, the claim is freed and gets a device of another node."""
    drop_slices()
    rig.node("v1"), rig.node("v2")
    slice_of("v1", device("a"), device("b"))
    slice_of("v2", device("c"))
    claim(
        "moved",
        exactly(
            selectors=selects('device.driver == "nic.example.com" && device.attributes["nic.example.com"].speed == 100')
        ),
    )
    pod("x1", "moved", nodeSelector={"kubernetes.io/hostname": "v1"})
    rig.bound("x1")
    allocation = cluster.get(claims("moved"))["status"]["allocation"]
    (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
    term["matchFields"][0]["values"] = ["v2"]
    allocation["devices"]["results"][0].update(pool="v2", device="c")

    def move():
        status = claims("moved") + "/status"
        cluster.patch(status, {"status": {"allocation": None, "reservedFor": None}})
        cluster.patch(status, {"status": {"allocation": allocation}})

    with Mover(cluster, "moved", move) as mover:
        pod("x2", "moved")
        bound = rig.bound("x2")
        assert mover.asked, "the webhook saw no write"
    assert bound["spec"]["nodeName"] == "v2", bound["spec"]
    gone("x1", "x2", claim_names=["moved"])
    rig.remove_node("v1"), rig.remove_node("v2")


def a_pod_waits_until_its_device_is_ready():
    if cluster.minor < 36:
        raise Skip("binding conditions are on since 1.36")
    drop_slices()
    conditions = {
        "bindingConditions": ["example.com/attached"],
        "bindingFailureConditions": ["example.com/broken"],
    }
    slice_of("n1", device("remote", **conditions))
    claim("attach")
    pod("r1", "attach")
    rig.waits("r1", "ResourceClaim attach waits until device remote is ready: example.com/attached")
    assert results("attach")[0]["bindingConditions"] == ["example.com/attached"]
    condition = {
        "type": "example.com/attached",
        "status": "True",
        "reason": "Attached",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"driver": NIC, "pool": "n1", "device": "remote", "conditions": [condition]}
    cluster.patch(claims("attach") + "/status", {"status": {"devices": [status]}})
    assert rig.bound("r1")["spec"]["nodeName"] == "n1"
    gone("r1", claim_names=["attach"])


# ---- devices of divvy.gpu


def shares(name, milli, class_name="shares"):
    capacity = {"requests": {"share": str(milli), "memory": "1Gi"}}
    return claim(name, exactly(deviceClassName=class_name, capacity=capacity))


def divvy_nodes():
    """The nodes d1 and d2 with two GPUs each, as divvyd would publish them."""
    drop_slices()
    for name in ("n1", "n2", "g1", "g2"):
        rig.remove_node(name)
    for name in ("d1", "d2"):
        divvys.add_node(cluster, name, "H200", n=2)
    for name, operator in (("shares", ""), ("wholes", "!")):
        expression = f'device.driver == "divvy.gpu" && {operator}device.allowMultipleAllocations'
        cluster.create(f"{API}/deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": selects(expression)}})


def shares_are_packed():
    divvy_nodes()
    for i, (milli, expected) in enumerate([(600, "share-d1-0"), (600, "share-d1-1"), (400, "share-d1-0")]):
        shares(f"k{i}", milli), pod(f"k{i}", f"k{i}"), rig.bound(f"k{i}")
        assert devices_of(f"k{i}") == [expected], (i, devices_of(f"k{i}"))
    claim("whole", exactly(deviceClassName="wholes", count=2))
    pod("whole", "whole"), rig.bound("whole")
    assert sorted(devices_of("whole")) == ["gpu-d2-0", "gpu-d2-1"]


def why(*args):
    done = subprocess.run(
        [os.path.join(BUILD, "src/kubectl/kubectl-divvy"), "why", "-n", cluster.namespace, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "KUBECONFIG": cluster.kubeconfig},
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def why_names_the_claims_that_have_the_devices():
    """For pods of both schedulers, and for claims by their names."""
    shares("w5", 500)
    pod("w5", "w5", schedulerName="default-scheduler")
    wait_for(lambda: (rig.condition("w5") or {}).get("reason") == "Unschedulable", "kube-scheduler finds no device")
    shares("w6", 500)
    pod("w6", "w6")
    rig.waits("w6", "with share 500 free")
    for name in ("w5", "w6"):
        rows = {r.get("device"): r for r in json.loads(why(name, "-o", "json"))["nodes"] if r["node"] == "d1"}
        assert rows[None]["why"] == "without a device of class shares with share 500 free", rows
        full = rows["share-d1-0"]
        assert full["why"].startswith("share 0 free, 500 requested: claim "), full
        assert f"claim {cluster.namespace}/k2 of pod k2 (memory 1Gi, share 400)" in full["why"], full
        assert (full["model"], full["free_permille"]) == ("H200", 0), full
    out = why("claim/w6")
    assert out.startswith(f"{cluster.namespace}/w6: Pending\n") and "claim w6: Pending\n" in out, out
    assert "share 400 free, 500 requested" in out, out
    assert "in use by claim" in why("w6") and "of pod whole" in why("w6"), why("w6")
    out = why("claim/k2")
    assert "claim k2: Allocated: share-d1-0 on d1 (" in out and "share 400" in out, out
    shares("lone", 100)
    assert "no pod uses the claim" in why("claim/lone"), why("claim/lone")
    gone("w5", "w6", claim_names=["w5", "w6", "lone"])


def a_selector_and_a_class_are_named():
    claim("v1", exactly(deviceClassName="wholes", selectors=selects('device.attributes["divvy.gpu"].model == "T4"')))
    pod("v1", "v1")
    rig.waits("v1", "without a device of class wholes that request r selects")
    assert "the selectors of request r do not match" in why("v1"), why("v1")
    gone("v1", claim_names=["v1"])


def an_important_pod_evicts_for_its_claim():
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "important"}, "value": 1000})
    claim("urgent", exactly(deviceClassName="wholes", count=2))
    pod("urgent", "urgent", priorityClassName="important")
    wait_for(lambda: "deletionTimestamp" in rig.get("whole")["metadata"], "the pod with the devices is evicted")
    rig.gone("whole")
    assert rig.bound("urgent")["spec"]["nodeName"] == "d2"
    assert sorted(devices_of("urgent")) == ["gpu-d2-0", "gpu-d2-1"]
    assert not any("deletionTimestamp" in rig.get(f"k{i}")["metadata"] for i in range(3))
    gone("urgent", claim_names=["urgent", "whole"])


TESTS = [
    a_claim_gets_devices_before_its_pod_is_bound,
    a_pod_waits_until_a_device_is_free,
    a_restart_forgets_no_allocation,
    a_template_beside_a_share,
    pods_share_a_claim,
    kube_scheduler_accepts_the_allocation,
    shares_of_a_device_consume_its_capacity,
    lists_constraints_and_taints_decide,
    a_taint_rule_keeps_claims_off,
    what_is_missing_is_named,
    a_refused_binding_ends_the_reservation,
    a_claim_that_moves_meanwhile_takes_its_pod_along,
    a_pod_waits_until_its_device_is_ready,
    shares_are_packed,
    why_names_the_claims_that_have_the_devices,
    a_selector_and_a_class_are_named,
    an_important_pod_evicts_for_its_claim,
]

try:
    # Kubernetes serves resource.k8s.io/v1 since 1.34.
    with open_cluster("kcm", "sched", since=34) as cluster, Scheduled(cluster) as rig:
        rig.start()
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
