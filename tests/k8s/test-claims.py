#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ResourceClaims for divvy's DRA driver on a real API server: the webhook's answers, and the examples, which the real
kube-scheduler allocates on slices as divvyd writes them."""

import contextlib
import json

import kube_scheduler
from claims import API, DRA, EXAMPLES, GIB, add_node, claims_of, example, install, results_of
from cluster import ApiError, Skip, main, open_cluster, patience, skip_all, wait_for
from controller import installed

OLDEST = 36  # shared counters, consumable capacity and device taints are on
BETAS = ["v1beta1", "v1beta2"]  # of resource.k8s.io
NODES = {"h200": ("NVIDIA H200", 141 * GIB, 2), "a100": ("NVIDIA A100-SXM4-80GB", 80 * GIB, 1)}


def path(namespace, kind="resourceclaims"):
    return f"{API}/namespaces/{namespace}/{kind}"


def config(**fields):
    parameters = {"apiVersion": "divvy.gpu/v1", "kind": "ShareConfig", **fields}
    return [{"opaque": {"driver": "divvy.gpu", "parameters": parameters}}]


def devices(*configs, capacity=None, device_class="share.divvy.gpu"):
    capacity = {"share": "300", "memory": "8Gi"} if capacity is None else capacity
    exactly = {"deviceClassName": device_class, **({"capacity": {"requests": capacity}} if capacity else {})}
    return {"requests": [{"name": "gpu", "exactly": exactly}], "config": [c for one in configs for c in one]}


def claim(*configs, **how):
    return {"metadata": {"name": "c"}, "spec": {"devices": devices(*configs, **how)}}


def template(*configs, **how):
    return {"metadata": {"name": "t"}, "spec": {"spec": {"devices": devices(*configs, **how)}}}


def refusal(where, body):
    """The message of the webhook's refusal; "": accepted."""
    try:
        cluster.create(where + "?dryRun=All", body)
    except ApiError as error:
        return str(error)
    return ""


def says(where, body, *texts):
    got = refusal(where, body)
    assert got and all(t in got for t in texts), (got, texts)


# ---- the webhook


def wrong_parameters_are_refused_with_the_sentences_of_annotations():
    space = cluster.namespace
    for where, make, prefix in (
        (path(space), claim, "spec.devices: "),
        (path(space, "resourceclaimtemplates"), template, "spec.spec.devices: "),
    ):
        assert not refusal(where, make()), "a share"
        assert not refusal(where, make(config(limit=0.6, memoryPolicy="wait", **{"class": "latency"})))
        says(where, make(config(limit="2x")), prefix + "config[0].opaque.parameters: limit '2x': expected 0.001 to 1")
        says(where, make(config(memory_policy="wait")), "did you mean memoryPolicy?")
        says(where, make(config(limit=0.2)), "limit 0.2: below request 0.3")
        says(where, make(config(request=0.7)), "request 0.7: the claim's capacity share is 0.3")
        says(where, make(config(memory="80Gi")), "memory 80Gi: the claim's capacity memory is 8Gi")
        says(where, make(config(count=2)), "count: not a parameter of a claim")
        says(where, make(capacity={"share": "1500"}), "capacity share '1500': expected 1 to 1000")
        says(where, make(capacity={"shares": "300"}), "capacity 'shares': unknown; expected share or memory")
    classes = API + "/deviceclasses"
    made = {"metadata": {"name": "small.divvy.gpu"}, "spec": {"config": config(limit=0.5)}}
    assert not refusal(classes, made)
    made["spec"]["config"] = config(limit=5)
    assert not refusal(classes, made), "whole devices"
    made["spec"]["config"] = config(limit="half")
    says(classes, made, "spec: config[0].opaque.parameters: limit 'half'")


def older_versions_of_the_api_are_checked():
    for version in BETAS:
        if not cluster.own and not cluster.exists(f"/apis/resource.k8s.io/{version}"):
            raise Skip(f"the cluster of KUBECONFIG does not serve resource.k8s.io/{version}")
        where = f"/apis/resource.k8s.io/{version}/namespaces/{cluster.namespace}/resourceclaims"
        for parameters, text in (
            ({"limit": "x"}, "limit 'x': expected"),
            ({"request": 0.7}, "request 0.7: the claim's"),
        ):
            body = claim(config(**parameters))
            if version == "v1beta1":  # its requests have the fields of `exactly` themselves
                [request] = body["spec"]["devices"]["requests"]
                request.update(request.pop("exactly"))
            says(where, body, text)


def a_claim_without_memory_is_warned_of():
    made = claim(capacity={"share": "300"})
    code, out, err = cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", "-n", cluster.namespace, stdin=as_text(made), check=False
    )
    assert code == 0 and "states no capacity memory, and takes all of its device" in err, (code, out, err)


def as_text(made, kind="ResourceClaim"):
    return json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": kind, **made})


def policies_hold_for_claims():
    space = cluster.new_namespace()
    cluster.create(
        "/apis/divvy.gpu/v1/gpupolicies",
        {
            "apiVersion": "divvy.gpu/v1",
            "kind": "GPUPolicy",
            "metadata": {"name": "claims"},
            "spec": {"namespaces": [space], "classes": ["standard"], "highestPriority": 60},
        },
    )
    fast, high = claim(config(**{"class": "latency"})), claim(config(priority=61))
    wait_for(lambda: "policy of this namespace allows standard" in refusal(path(space), fast), "the policy holds")
    says(path(space), high, "priority 61: the policy of this namespace allows 0 to 60")
    assert not refusal(path(space), claim())
    assert not refusal(path(cluster.namespace), fast), "another namespace"


@contextlib.contextmanager
def nobody_answers():
    controller.kill()
    try:
        yield
    finally:
        controller.start()


def only_claims_of_divvy_need_the_controller():
    space, old = cluster.namespace, cluster.new_namespace()
    cluster.create(path(old), claim())
    other = config()
    other[0]["opaque"] = {"driver": "nic.example.com", "parameters": {"mtu": 9000}}
    with nobody_answers():
        for body in (claim(), claim(config(limit=0.5), device_class="team-a", capacity={})):
            wait_for(lambda b=body: "webhook" in refusal(path(space), b), "the webhook is asked")
        first = {"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.divvy.gpu"}]}
        says(path(space), {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [first]}}}, "webhook")
        assert not refusal(path(space), claim(other, device_class="nic.example.com", capacity={}))
        # a claim that exists is allocated, and released again
        cluster.create(f"/api/v1/namespaces/{old}/pods", pod("p", claims=["c"]))
        assert given(old, "p")[0][2] == "300"
        cluster.delete(f"/api/v1/namespaces/{old}/pods/p?gracePeriodSeconds=0")
        cluster.delete(path(old) + "/c")
        wait_for(lambda: not cluster.exists(path(old) + "/c"), "the claim is deleted")
        # a template and a class are only checked early
        assert not refusal(path(space, "resourceclaimtemplates"), template(config(limit="x")))
        assert not refusal(API + "/deviceclasses", {"metadata": {"name": "c"}, "spec": {"config": config(limit="x")}})


# ---- the examples


def bound(space, pod):
    return wait_for(
        lambda: cluster.get(f"/api/v1/namespaces/{space}/pods/{pod}")["spec"].get("nodeName"), f"{pod} is bound"
    )


@contextlib.contextmanager
def applied(name):
    """Applies an example in a namespace of its own; yields the namespace, and deletes the example's pods, so that their
    devices are free again."""
    space = cluster.new_namespace()
    pods = [(space, o["metadata"]["name"]) for o in example(name) if o["kind"] == "Pod"]
    cluster.kubectl("-n", space, "apply", "-f", str(EXAMPLES / f"{name}.yaml"), timeout=patience(60))
    try:
        yield space
    finally:
        for _, one in pods:
            cluster.delete(f"/api/v1/namespaces/{space}/pods/{one}?gracePeriodSeconds=0")
        wait_for(lambda: not allocated(pods), f"the claims of {name} are free")


def allocated(pods):
    spaces = {space for space, _ in pods}
    items = [c for s in spaces for c in cluster.get(path(s))["items"]]
    return [c["metadata"]["name"] for c in items if (c.get("status") or {}).get("reservedFor")]


def given(space, pod):
    """[(request, device, share, memory)] of all claims of a pod that has a node."""
    bound(space, pod)
    return sorted(r for c in claims_of(cluster, space, pod).values() for r in results_of(c))


def a_share_is_allocated():
    with applied("share") as space:
        [(request, device, share, memory)] = given(space, "claim-share")
        assert (request, share, memory) == ("gpu", "300", "8Gi") and device.startswith("share-"), device
        made = claims_of(cluster, space, "claim-share")["gpu"]
        [entry] = made["status"]["allocation"]["devices"]["config"]
        assert entry["source"] == "FromClaim" and entry["opaque"]["parameters"]["limit"] == 0.6, entry


def two_containers_share_a_claim():
    with applied("two-containers") as space:
        [(request, _, share, memory)] = given(space, "claim-two-containers")
        assert (request, share, memory) == ("gpu", "500", "16Gi")


def two_requests_are_on_one_device():
    with applied("two-requests") as space:
        decode, infer = given(space, "claim-two-requests")
        assert (decode[0], decode[2]) == ("decode", "100") and (infer[0], infer[2]) == ("infer", "400"), infer
        assert decode[1] == infer[1], (decode, infer)


def two_fractions_are_on_different_devices():
    with applied("two-devices") as space:
        one, two = given(space, "claim-two-devices")
        assert one[1] != two[1] and {one[2], two[2]} == {"500"} and bound(space, "claim-two-devices") == "h200"


def the_first_available_request_is_taken():
    """Half of an H200; the whole A100 while both H200s are used by others."""
    with applied("first-available") as space:
        [(request, device, share, _)] = given(space, "claim-first-available")
        assert (request, share) == ("gpu/half", "500") and device.startswith("share-h200"), device
    with whole("h200"), whole("h200"), applied("first-available") as space:
        [(request, device, share, _)] = given(space, "claim-first-available")
        assert (request, share) == ("gpu/whole", None) and device.startswith("gpu-a100"), device


def pod(name, *, claims=(), node=None, **limits):
    container = {"name": "c", "image": "none", "resources": {"limits": limits}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if claims:
        spec["resourceClaims"] = [{"name": c, "resourceClaimName": c} for c in claims]
        container["resources"]["claims"] = [{"name": c} for c in claims]
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def running(name, body, *, node=None):
    """A pod with that claim in a namespace of its own; yields the namespace."""
    space = cluster.new_namespace()
    if body:
        cluster.create(path(space), {**body, "metadata": {"name": "c"}})
    cluster.create(f"/api/v1/namespaces/{space}/pods", pod(name, claims=["c"] if body else (), node=node))
    try:
        yield space
    finally:
        cluster.delete(f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=0")
        wait_for(lambda: not allocated([(space, name)]), f"the claim of {name} is free")


@contextlib.contextmanager
def whole(node):
    """Somebody uses a whole GPU of the node."""
    with running("whole", claim(device_class="gpu.divvy.gpu", capacity={}), node=node) as space:
        [(_, device, _, _)] = given(space, "whole")
        assert device.startswith("gpu-" + node), device
        yield


def waits(space, name):
    """Waits until kube-scheduler has said that the pod has no place."""

    def unschedulable():
        conditions = cluster.get(f"/api/v1/namespaces/{space}/pods/{name}")["status"].get("conditions") or []
        return [c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]

    return wait_for(unschedulable, f"{name} waits")[0]


def shares_and_whole_devices_never_meet():
    on = {"node": "a100"}
    with running("a", claim(capacity={"share": "300", "memory": "20Gi"}), **on) as space:
        given(space, "a")
        with running("b", claim(capacity={"share": "700", "memory": "20Gi"}), **on) as other:
            assert given(other, "b")[0][1] == given(space, "a")[0][1], "both on the only device"
        with running("w", claim(device_class="gpu.divvy.gpu", capacity={}), **on) as other:
            waits(other, "w")
        with running("m", claim(capacity={"share": "100", "memory": "61Gi"}), **on) as other:
            waits(other, "m")
        with running("s", claim(capacity={"share": "701", "memory": "1Gi"}), **on) as other:
            waits(other, "s")
        with running("none", claim(capacity={"share": "100"}), **on) as other:
            waits(other, "none")  # without memory in its request, it takes all
    with whole("a100"), running("s", claim(capacity={"share": "1", "memory": "2Mi"}), **on) as other:
        waits(other, "s")


def whole_gpus_are_extended_resources():
    with applied("whole-gpu") as space:
        [(_, one, share, _)] = given(space, "claim-whole")
        [(request, other, _, _)] = given(space, "resource-whole")
        assert one.startswith("gpu-") and other.startswith("gpu-") and one != other and not share, (one, other)
        assert request == "container-0-request-0", request


def a_share_by_resources_becomes_a_claim():
    space = cluster.new_namespace()
    text = (EXAMPLES / "share-resource.yaml").read_text()
    cluster.kubectl("-n", space, "create", "--dry-run=server", "-f", "-", stdin=text, timeout=patience(60))
    with applied("share-resource") as other:
        [(request, _, share, memory)] = given(other, "resource-share")
        assert (request, share, memory) == ("gpu", "500", "8Gi")
        made = cluster.get(f"/api/v1/namespaces/{other}/pods/resource-share")["spec"]
        assert not any(n.startswith("divvy.gpu/") for n in made["containers"][0]["resources"].get("limits", {}))
        assert made["schedulerName"] == "default-scheduler"
        # a second pod uses the same template
        cluster.kubectl("-n", other, "create", "-f", "-", stdin=text.replace("name: resource-share", "name: second"))
        [(_, _, share, _)] = given(other, "second")
        assert share == "500"
        assert len(cluster.get(path(other, "resourceclaimtemplates"))["items"]) == 1
        cluster.delete(f"/api/v1/namespaces/{other}/pods/second?gracePeriodSeconds=0")
        # an unused template goes, and comes again for a further pod
        templates = path(other, "resourceclaimtemplates")
        made = {"app.kubernetes.io/managed-by": "divvy-controller"}
        cluster.create(templates, {**template(), "metadata": {"name": "of-a-user", "labels": made}})
        wait_for(lambda: len(cluster.get(templates)["items"]) == 1, "the unused template is removed", 150)
        assert cluster.exists(templates + "/of-a-user")
        cluster.kubectl("-n", other, "create", "-f", "-", stdin=text.replace("name: resource-share", "name: third"))
        assert given(other, "third")[0][2] == "500"
        cluster.delete(f"/api/v1/namespaces/{other}/pods/third?gracePeriodSeconds=0")
    assert not cluster.get(path(space, "resourceclaimtemplates"))["items"], "a dry run"
    body = pod("p", **{"divvy.gpu/share": "1500", "divvy.gpu/memory": "1Gi"})
    says(f"/api/v1/namespaces/{space}/pods", body, "'1500': expected 1 to 1000", "for whole devices use divvy.gpu/gpu")
    body = pod("p", **{"divvy.gpu/share": "500"})
    says(f"/api/v1/namespaces/{space}/pods", body, "resource divvy.gpu/share without divvy.gpu/memory")


def a_mig_instance_is_no_whole_gpu():
    with running("w", claim(device_class="gpu.divvy.gpu", capacity={}), node="mig") as space:
        waits(space, "w")
    with running("m", claim(device_class="mig.divvy.gpu", capacity={})) as space:
        assert given(space, "m")[0][1].startswith("gpu-mig"), given(space, "m")


def admin_access_is_refused():
    """... with the label of the namespace, too."""
    body = claim(device_class="gpu.divvy.gpu", capacity={})
    body["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    says(path(cluster.namespace), body, "resource.kubernetes.io/admin-access")
    space = cluster.new_namespace(**{"resource.kubernetes.io/admin-access": "true"})
    says(path(space), body, "request 'gpu': adminAccess: divvy's driver gives no access to devices beside tenants")


def every_example_has_a_test():
    tested = [
        "first-available",
        "share",
        "share-resource",
        "two-containers",
        "two-devices",
        "two-requests",
        "whole-gpu",
    ]
    assert sorted(p.stem for p in EXAMPLES.glob("*.yaml")) == tested


def the_overlay_is_complete():
    made = cluster.kubectl("kustomize", str(DRA))
    cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=made, timeout=patience(120))


TESTS = [
    wrong_parameters_are_refused_with_the_sentences_of_annotations,
    older_versions_of_the_api_are_checked,
    a_claim_without_memory_is_warned_of,
    policies_hold_for_claims,
    a_share_is_allocated,
    two_containers_share_a_claim,
    two_requests_are_on_one_device,
    two_fractions_are_on_different_devices,
    the_first_available_request_is_taken,
    shares_and_whole_devices_never_meet,
    whole_gpus_are_extended_resources,
    a_share_by_resources_becomes_a_claim,
    a_mig_instance_is_no_whole_gpu,
    admin_access_is_refused,
    every_example_has_a_test,
    the_overlay_is_complete,
    only_claims_of_divvy_need_the_controller,
]

served = ",".join(f"resource.k8s.io/{version}=true" for version in BETAS)
try:
    with open_cluster(
        "kcm", since=OLDEST, optional=(OLDEST, {"kube-apiserver": [f"--runtime-config={served}"]})
    ) as cluster, installed(cluster, args=["--claims"]) as controller:
        install(cluster)
        if cluster.own:  # a given cluster has a kube-scheduler
            kube_scheduler.start(cluster)
        for name, (model, memory, n) in NODES.items():
            add_node(cluster, name, model, memory, n)
        add_node(cluster, "mig", "NVIDIA H200 MIG 1g.18gb", 16 * GIB, is_mig=True)
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
