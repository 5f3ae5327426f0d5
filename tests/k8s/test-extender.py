#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler places pods with shares: divvy-scheduler is its extender."""

import http.client
import json
import os
import socket
import ssl

import kube_scheduler
from cluster import Skip, free_port, main, open_cluster, patience, skip_all, wait_for
from pki import Pki
from scheduled import Scheduled


PORT = free_port()


class Keys:
    """The server's certificate and the clients' certificates: only our client's comes from the trusted authority."""

    def __init__(self, cluster):
        ours, others = (Pki(os.path.join(cluster.dir, name)) for name in ("extender-pki", "other-pki"))
        self.ca, self.server_ca = ours.ca, cluster.pki.ca
        self.server = cluster.pki.sign("extender", "divvy-scheduler", alternatives="DNS:divvy-scheduler")
        self.client = ours.sign("client", "kube-scheduler")
        self.stranger = others.sign("client", "kube-scheduler")

    def options(self, port=PORT):
        return [
            "--listen",
            f"127.0.0.1:{port}",
            "--tls-cert",
            self.server[0],
            "--tls-key",
            self.server[1],
            "--client-ca",
            self.ca,
        ]

    def extender(self):
        """The configuration of docs/extender.md."""
        return {
            "urlPrefix": f"https://127.0.0.1:{PORT}/extender",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "weight": 10,
            "enableHTTPS": True,
            "nodeCacheCapable": True,
            "httpTimeout": "30s",
            "managedResources": [{"name": "divvy.gpu/slot", "ignoredByScheduler": False}],
            "tlsConfig": {
                "serverName": "divvy-scheduler",
                "caFile": self.server_ca,
                "certFile": self.client[0],
                "keyFile": self.client[1],
            },
        }

    def connect(self, shown, port=PORT):
        context = ssl.create_default_context(cafile=self.server_ca)
        context.check_hostname = False
        if shown:
            context.load_cert_chain(*shown)
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=patience(), context=context)

    def ask(self, path, body, shown, port=PORT):
        """Status and text of an answer."""
        connection = self.connect(shown, port)
        try:
            connection.request("POST", f"/extender/{path}", body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def node(name, *models):
    rig.node(name, *models, **{"divvy.gpu/milli": str(1000 * len(models))})


def shared(name, request, annotations=None, claims=None, **spec):
    """A pod of kube-scheduler after the webhook, which leaves its schedulerName alone."""
    milli = round(float(request) * 1000)
    return rig.pod(
        name,
        {"request": request, **(annotations or {})},
        schedulerName=kube_scheduler.name_for(cluster),
        resources={
            "limits": {"divvy.gpu/slot": "1", "divvy.gpu/milli": str(milli)},
            **({"claims": claims} if claims else {}),
        },
        **spec,
    )


def serves(port=PORT):
    try:
        return keys.ask("filter", "{}", keys.client, port)[0] == 200
    except OSError:
        return False


def start():
    process = rig.start(*keys.options())
    # The extender can answer this request only once it knows the cluster.
    wait_for(
        lambda: serves() and "is missing" in keys.ask("filter", "{}", keys.client)[1],
        "the extender knows the cluster",
        60,
    )
    return process


def is_unplaced(name, sentence):
    rig.waits(name, sentence)
    assert not rig.get(name)["spec"].get("nodeName")


def kube_scheduler_places_a_share():
    shared("first", "0.3", {"limit": "0.6"})
    pod = rig.bound("first")
    given = pod["metadata"]["annotations"]
    assert pod["spec"]["nodeName"] == "n1"
    assert given["divvy.gpu/devices"] in ("main=GPU-n1-0", "main=GPU-n1-1"), given
    assert (given["divvy.gpu/granted-request"], given["divvy.gpu/granted-limit"]) == ("main=0.3", "main=0.6"), given
    rig.gone("first")


def no_device_is_given_twice():
    """All pods at once: kube-scheduler asks for the next one while Bindings are in flight. The node's resources alone would
    admit 6 of them."""
    names = [f"many-{i}" for i in range(12)]
    for name in names:
        shared(name, "0.4", {"memory": "1Gi"})
    for name in names:
        wait_for(lambda n=name: rig.get(n)["spec"].get("nodeName") or rig.condition(n), f"{name} has been tried", 60)
    wait_for(lambda: len(placed(names)) == 4, "four have a place", 60)
    assert (
        sorted(p["metadata"]["annotations"]["divvy.gpu/devices"] for p in placed(names))
        == ["main=GPU-n1-0"] * 2 + ["main=GPU-n1-1"] * 2
    )
    left = [n for n in names if not rig.get(n)["spec"].get("nodeName")]
    is_unplaced(left[0], "no GPU with 0.4 free")
    # When one pod ends, exactly one more fits.
    rig.gone(placed(names)[0]["metadata"]["name"])
    wait_for(lambda: len(placed(left)) == 1, "one more pod is placed", 60)
    rig.gone(*[n for n in names if cluster.exists(rig.path(n))])


def placed(names):
    pods = {p["metadata"]["name"]: p for p in cluster.get(rig.path())["items"]}
    return [pods[n] for n in names if n in pods and pods[n]["spec"].get("nodeName")]


def a_waiting_pod_is_retried_when_the_pool_takes_a_device():
    """kube-scheduler knows no GPUNodes: it retries when the node's resources, which the controller writes, change."""
    rig.node("n3", "A100", labels={"taken": "later"}, **{"divvy.gpu/milli": "1k", "divvy.gpu/held": "0"})
    device = cluster.get("/apis/divvy.gpu/v1/gpunodes/n3")["status"]["devices"][0]
    rig.status("n3", owner="pool", devices=[{**device, "owner": "native"}])
    shared("waits", "0.5", nodeSelector={"taken": "later"})
    is_unplaced("waits", "GPUs still owned by another device plugin")
    rig.status("n3", devices=[{**device, "owner": "pool"}])
    cluster.patch(
        "/api/v1/nodes/n3/status",
        {"status": {"capacity": {"divvy.gpu/held": "1"}, "allocatable": {"divvy.gpu/held": "1"}}},
    )
    wait_for(lambda: rig.get("waits")["spec"].get("nodeName"), "the pod is placed", 120)
    rig.gone("waits")
    rig.remove_node("n3")


def both_schedulers_share_the_devices():
    shared("theirs", "0.7")
    rig.bound("theirs")
    rig.pod("ours", {"request": "0.7"})
    assert rig.devices("ours") != rig.devices("theirs")
    shared("third", "0.7")
    is_unplaced("third", "no GPU with 0.7 free")
    rig.gone("theirs", "ours", "third")


def a_restart_forgets_nothing():
    shared("kept", "0.6")
    device = rig.devices("kept")
    rig.kill(rig.processes[0])
    # kube-scheduler binds a pod without a share while divvy-scheduler does not run.
    rig.pod("plain", schedulerName=kube_scheduler.name_for(cluster))
    rig.bound("plain")
    shared("next", "0.6")
    wait_for(lambda: rig.condition("next"), "kube-scheduler has tried the pod", 60)
    assert not rig.get("next")["spec"].get("nodeName")
    start()
    # kube-scheduler would retry by itself only after a minute or two, so the test causes an event.
    cluster.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"something": "happens"}}})
    assert rig.devices("next") != device
    rig.gone("kept", "plain", "next")


def the_pods_condition_shows_the_extenders_refusal():
    shared("large", "0.5", {"model": "H100"})
    is_unplaced("large", " nodes are available: ")
    is_unplaced("large", "1 with another model than H100")
    wait_for(lambda: rig.condition("large", "divvy.gpu/NeedsDevice"), "the pool knows that the pod needs a device", 60)
    shared("member", "0.5", {"group": "g", "group-size": "2"})
    is_unplaced("member", "an extender places no groups; give its pods the schedulerName divvy-scheduler")
    rig.gone("large", "member")


def a_pod_has_a_share_and_a_claim_of_another_driver():
    """kube-scheduler allocates the claim itself. The driver's only device is on the second node."""
    if cluster.minor < 34:
        raise Skip("dynamic resource allocation is on since 1.34")
    dra = "/apis/resource.k8s.io/v1"
    node("n2", "A100")
    selector = {"cel": {"expression": "device.driver == 'nic.example'"}}
    cluster.create(f"{dra}/deviceclasses", {"metadata": {"name": "nic"}, "spec": {"selectors": [selector]}})
    pool = {"name": "n2", "generation": 1, "resourceSliceCount": 1}
    nics = {"driver": "nic.example", "nodeName": "n2", "pool": pool, "devices": [{"name": "nic-0"}]}
    cluster.create(f"{dra}/resourceslices", {"metadata": {"name": "n2-nics"}, "spec": nics})
    claims = f"{dra}/namespaces/{rig.namespace}/resourceclaims"
    request = {"name": "one", "exactly": {"deviceClassName": "nic"}}
    cluster.create(claims, {"metadata": {"name": "nic"}, "spec": {"devices": {"requests": [request]}}})
    shared("with-claim", "0.5", claims=[{"name": "nic"}], resourceClaims=[{"name": "nic", "resourceClaimName": "nic"}])
    pod = rig.bound("with-claim")
    assert pod["spec"]["nodeName"] == "n2" and rig.devices("with-claim") == "main=GPU-n2-0", pod
    status = cluster.get(f"{claims}/nic")["status"]
    assert [d["device"] for d in status["allocation"]["devices"]["results"]] == ["nic-0"], status
    assert [p["name"] for p in status["reservedFor"]] == ["with-claim"], status
    rig.gone("with-claim")
    cluster.delete(f"{dra}/resourceslices/n2-nics")
    cluster.delete(f"{dra}/deviceclasses/nic")
    rig.remove_node("n2")


def a_pod_preempts_through_the_extender():
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    for name in ("low-0", "low-1"):
        shared(name, "0.8")
        rig.bound(name)
    shared("high", "0.8", priorityClassName="high")
    wait_for(lambda: rig.get("high")["status"].get("nominatedNodeName") == "n1", "a nomination", 60)
    leaving = [p for p in placed(["low-0", "low-1"]) if p["metadata"].get("deletionTimestamp")]
    assert len(leaving) == 1, leaving
    rig.gone(leaving[0]["metadata"]["name"])
    assert rig.devices("high") == leaving[0]["metadata"]["annotations"]["divvy.gpu/devices"]
    rig.gone("high", *[p["metadata"]["name"] for p in placed(["low-0", "low-1"])])


def only_the_authoritys_clients_may_ask():
    shared("mine", "0.1")
    rig.bound("mine")
    body = json.dumps(
        {"PodName": "mine", "PodNamespace": rig.namespace, "PodUID": rig.get("mine")["metadata"]["uid"], "Node": "n1"}
    )
    for verb in ("filter", "prioritize", "preempt", "bind"):
        for shown in (None, keys.stranger):
            status, text = keys.ask(verb, body, shown)
            assert status == 403 and "client certificate" in text, (verb, shown, status, text)
    assert keys.ask("bind", body, keys.client) == (200, '{"Error":""}'), "a repeated bind is no success"
    assert keys.ask("bind", "{", keys.client)[0] == 400
    assert "is missing" in keys.ask("bind", "{}", keys.client)[1]
    # A client certificate gives access to the extender's requests only, not to /metrics.
    connection = keys.connect(keys.client)
    connection.request("GET", "/metrics")
    assert connection.getresponse().status == 401
    connection.close()
    rig.gone("mine")


def large_requests_and_slow_clients_do_no_harm():
    for shown, size, status in ((keys.client, (16 << 20) + 1, 413), (None, 1 << 30, 403)):
        connection = keys.connect(shown)
        connection.putrequest("POST", "/extender/filter")
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()
    # A request may name as many nodes as a large cluster has.
    shared("among-many", "0.1")
    pod = rig.bound("among-many")
    names = [f"node-{i:05}.some.where.example" for i in range(20000)]
    status, text = keys.ask("prioritize", json.dumps({"Pod": pod, "NodeNames": names}), keys.client)
    assert status == 200 and len(json.loads(text)) == len(names), (status, text[:200])
    # More clients than the extender accepts, all silent.
    slow = []
    for _ in range(100):
        s = socket.socket()
        s.settimeout(0.01)
        slow.append(s)
        try:
            s.connect(("127.0.0.1", PORT))
            s.sendall(b"\x16\x03\x01")
        except OSError:
            pass
    shared("beside-the-slow", "0.1")
    rig.bound("beside-the-slow")
    for s in slow:
        s.close()
    rig.gone("among-many", "beside-the-slow")


def a_scheduler_that_does_not_lead_refuses():
    """It also closes the connection, so that the next request can reach the leader."""
    for process in list(rig.processes):
        rig.stop(process)
    other = free_port()
    rig.start("--leader-elect", *keys.options())
    rig.pod("elected", {"request": "0.1"})
    rig.bound("elected")
    rig.start("--leader-elect", *keys.options(other))
    wait_for(lambda: serves(other), "the second scheduler serves", 60)
    wait_for(
        lambda: "this replica is not the leader" in keys.ask("filter", "{}", keys.client, other)[1],
        "the second scheduler does not lead",
    )
    connection = keys.connect(keys.client, other)
    connection.request("POST", "/extender/preempt", "{}")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (503, "close")
    connection.close()
    shared("by-the-leader", "0.1")
    rig.bound("by-the-leader")
    rig.gone("elected", "by-the-leader")


def without_an_authority_every_client_is_refused():
    for process in list(rig.processes):
        rig.stop(process)
    rig.start(*keys.options()[:-2])
    wait_for(refused_by_all, "the scheduler serves again", 60)


def refused_by_all():
    try:
        return all(keys.ask("filter", "{}", shown)[0] == 403 for shown in (None, keys.client))
    except OSError:
        return False


TESTS = [
    kube_scheduler_places_a_share,
    no_device_is_given_twice,
    a_waiting_pod_is_retried_when_the_pool_takes_a_device,
    both_schedulers_share_the_devices,
    a_restart_forgets_nothing,
    the_pods_condition_shows_the_extenders_refusal,
    a_pod_has_a_share_and_a_claim_of_another_driver,
    a_pod_preempts_through_the_extender,
    only_the_authoritys_clients_may_ask,
    large_requests_and_slow_clients_do_no_harm,
    a_scheduler_that_does_not_lead_refuses,
    without_an_authority_every_client_is_refused,
]

try:
    with open_cluster() as cluster:
        keys = Keys(cluster)
        with Scheduled(cluster) as rig:
            start()
            node("n1", "A100", "A100")
            kube_scheduler.start(cluster, keys.extender())
            main(*TESTS)
except Skip as reason:
    skip_all(reason)
