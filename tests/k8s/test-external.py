#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""External metrics through a real API server: its routing, the rights to ask, the clients that divvy-controller trusts, and the
values.

Device usage is measured on a node: test-autoscale.py. Here pods wait."""

import contextlib
import http.client
import json
import os
import ssl
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import ApiError, Skip, main, open_cluster, patience, skip_all, wait_for  # noqa: E402
from controller import installed  # noqa: E402
from manifests import DEPLOY  # noqa: E402

GROUP = "/apis/external.metrics.k8s.io/v1beta1"
SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
NAMES = ["divvy_gpu_used", "divvy_gpu_utilization", "divvy_gpu_memory_bytes", "divvy_gpu_granted", "divvy_pods_waiting"]


def path_of(metric, selector="", namespace=None):
    return f"{GROUP}/namespaces/{namespace or cluster.namespace}/{metric}" + (
        f"?labelSelector={selector}" if selector else ""
    )


def value(metric, selector="", namespace=None, who=None):
    """The sum that an autoscaler would compute; None: the list is empty."""
    items = (who or cluster).get(path_of(metric, selector, namespace))["items"]
    return items[0]["value"] if items else None


def refused(code, path, who=None):
    try:
        answer = (who or cluster).get(path)
    except ApiError as error:
        assert error.code == code, error
        return str(error)
    raise AssertionError(f"not refused: {answer}")


def pod(name, namespace=None, **labels):
    cluster.create(
        f"/api/v1/namespaces/{namespace or cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "annotations": {"divvy.gpu/request": "0.3"}},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        },
    )


def directly(path, headers=None, cert=None):
    """(status, text) of a request to the controller itself."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if cert:
        tls.load_cert_chain(*cert)
    connection = http.client.HTTPSConnection(controller.address, controller.port, timeout=patience(30), context=tls)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


# ---- the tests


def no_metrics_are_served_before_the_service_is_applied():
    refused(404, GROUP)


def the_api_server_finds_the_metrics():
    cluster.kubectl("apply", "-f", str(DEPLOY / "external-metrics.yaml"))

    def conditions():
        return {c["type"]: c for c in cluster.get(SERVICE).get("status", {}).get("conditions", [])}

    wait_for(lambda: conditions().get("Available", {}).get("status") == "True", "the APIService is available", 120)
    assert cluster.get(SERVICE)["spec"]["caBundle"], "the controller's authority"

    def is_served():
        # After it reports the APIService as available, the API server still fails requests for a
        # moment.
        with contextlib.suppress(ApiError):
            return cluster.get(GROUP)

    wait_for(is_served, "the API group is served")
    listed = cluster.get(GROUP)
    assert [r["name"] for r in listed["resources"]] == NAMES and all(
        r["namespaced"] for r in listed["resources"]
    ), listed
    assert "divvy_gpu_used" in cluster.kubectl(
        "api-resources", "--api-group=external.metrics.k8s.io"
    ), "kubectl lists them"
    # Applying the manifest again keeps the controller's change of the Service.
    before = cluster.get(SERVICE)["spec"]
    cluster.kubectl("apply", "-f", str(DEPLOY / "external-metrics.yaml"))
    assert cluster.get(SERVICE)["spec"] == before


def discovery_needs_no_right():
    """API servers ask for it as a user without groups. Without an answer they list the group as stale, and the cluster can
    delete no namespace."""
    listed = json.loads(directly(GROUP)[1])
    for path, kind in (("/apis", "APIGroupList"), (GROUP.rpartition("/")[0], "APIGroup"), (GROUP, "APIResourceList")):
        code, text = directly(path)
        assert code == 200 and json.loads(text)["kind"] == kind, (path, code, text)
    for version in ("v2", "v2beta1"):
        form = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        code, text = directly("/apis", {"Accept": form + ",application/json"})
        (group,) = json.loads(text)["items"]
        assert [r["resource"] for r in group["versions"][0]["resources"]] == [
            r["name"] for r in listed["resources"]
        ], text


def a_namespace_can_be_deleted():
    namespace = cluster.new_namespace()
    cluster.delete(f"/api/v1/namespaces/{namespace}")
    wait_for(lambda: not cluster.exists(f"/api/v1/namespaces/{namespace}"), "the namespace is deleted", 120)


def waiting_pods_are_counted():
    for metric in NAMES:
        assert value(metric) is None, f"{metric} has a value without any pod"
    pod("one", app="web")
    pod("two", app="web", tier="back")
    pod("other", app="db")
    wait_for(lambda: value("divvy_pods_waiting") == "3", "three wait")
    assert value("divvy_pods_waiting", "app%3Dweb") == "2"
    assert value("divvy_pods_waiting", "app%20in%20(web,db),%21tier") == "2"
    assert value("divvy_pods_waiting", "app%3Dnone") is None
    assert value("divvy_pods_waiting", namespace="default") is None
    assert value("divvy_gpu_granted") == "0" and value("divvy_gpu_used") is None
    cluster.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/two")
    wait_for(lambda: value("divvy_pods_waiting", "app=web") == "1", "only one pod waits")
    listed = cluster.get(path_of("divvy_pods_waiting"))
    assert (
        listed["kind"] == "ExternalMetricValueList" and listed["items"][0]["metricName"] == "divvy_pods_waiting"
    ), listed


def unknown_metrics_are_refused_with_a_message():
    said = refused(404, path_of("divvy_gpu"))
    assert "no metric 'divvy_gpu': there are divvy_gpu_used, " in said, said
    said = refused(400, path_of("divvy_gpu_used", "a%3E1"))
    assert "labelSelector: 'a>1': expected KEY=VALUE" in said, said
    refused(404, path_of("divvy_gpu_used") + "/more")


def the_clusters_rights_apply():
    """Through the API server and directly: the rights of the asking account count, not of the proxy."""
    rules = [{"apiGroups": ["external.metrics.k8s.io"], "resources": ["divvy_gpu_used"], "verbs": ["list"]}]
    may = cluster.service_account(cluster.namespace, "may", rules=rules)
    may_not = cluster.service_account(cluster.namespace, "may-not")
    wait_for(lambda: not is_refused(may), "the right is known")
    refused(403, path_of("divvy_gpu_used"), may_not)
    refused(403, path_of("divvy_gpu_granted"), may)
    refused(403, path_of("divvy_gpu_used", namespace="default"), may)
    for who, path, status in (
        (may, path_of("divvy_gpu_used"), 200),
        (may_not, path_of("divvy_gpu_used"), 403),
        (may, path_of("divvy_gpu_granted"), 403),
        (may, path_of("divvy_gpu_used", namespace="default"), 403),
    ):
        got = directly(path, {"Authorization": "Bearer " + who.token})
        assert got[0] == status, (path, got)
        if status == 200:
            assert json.loads(got[1])["kind"] == "ExternalMetricValueList", got


def is_refused(who):
    try:
        who.get(path_of("divvy_gpu_used"))
        return False
    except ApiError:
        return True


def only_the_front_proxy_may_act_for_other_users():
    lie = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    path = path_of("divvy_gpu_used")
    assert directly(path)[0] == 401
    assert directly(path, lie)[0] == 401
    cluster.only_own("certificates of the cluster's authorities")
    # The controller trusts no certificate of the cluster's own authority, whatever its name.
    for name in ("front-proxy-client", "admin"):
        cert = cluster.pki.sign("liar-" + name, name, ["system:masters"])
        assert directly(path, lie, cert)[0] == 401, name
    # The controller trusts the front proxy's certificate, which only the API server has.
    front = os.path.join(cluster.dir, "front")
    cert = tuple(os.path.join(front, "front." + end) for end in ("crt", "key"))
    assert directly(path, lie, cert)[0] == 200
    assert directly(path, {"X-Remote-User": "nobody-in-particular"}, cert)[0] == 403
    assert directly(path, {}, cert)[0] == 401


def the_webhook_needs_no_certificate():
    """The webhook requests a client certificate, and does not require one."""
    assert directly("/healthz")[0] == 200
    assert directly("/openapi/v2")[0] == 404


def another_systems_service_is_left_alone():
    cluster.patch(SERVICE, {"spec": {"caBundle": None, "service": {"name": "another", "namespace": "default"}}})
    controller.kill()
    controller.start()
    assert not cluster.get(SERVICE)["spec"].get("caBundle"), cluster.get(SERVICE)["spec"]
    cluster.patch(SERVICE, {"spec": {"service": {"name": "divvy-controller", "namespace": "divvy-system"}}})
    wait_for(lambda: cluster.get(SERVICE)["spec"].get("caBundle"), "ours is filled in")


try:
    with open_cluster("kcm") as cluster, installed(cluster) as controller:
        main(
            no_metrics_are_served_before_the_service_is_applied,
            the_api_server_finds_the_metrics,
            discovery_needs_no_right,
            a_namespace_can_be_deleted,
            waiting_pods_are_counted,
            unknown_metrics_are_refused_with_a_message,
            the_clusters_rights_apply,
            only_the_front_proxy_may_act_for_other_users,
            the_webhook_needs_no_certificate,
            another_systems_service_is_left_alone,
        )
except Skip as reason:
    skip_all(reason)
