#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Certificates between nodes on a real API server: the requests that divvy-controller signs and those that it denies.

The account that a request is about makes it: divvyd's, with a token that names its pod, as the shipped rights require; or
another account that has the right to make requests."""

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import ApiError, Skip, main, open_cluster, patience, skip_all, unique, wait_for  # noqa: E402
from controller import SYSTEM, Controller, installed  # noqa: E402
from divvyd import BUILD, bind, bound_account, given  # noqa: E402
from pki import openssl  # noqa: E402

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SECRET, MAP = (f"/api/v1/namespaces/{SYSTEM}/{kind}/divvy-remote-authority" for kind in ("secrets", "configmaps"))
HOLD = os.path.join(BUILD, "tests/k8s/hold-identity")
CLIENT, BOTH = ["digital signature", "client auth"], ["digital signature", "client auth", "server auth"]
CONFIG = """\
[req]
distinguished_name = name
req_extensions = names
prompt = no
[name]
{subject}
[names]
subjectAltName = {names}
{more}
"""
P256 = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]


def node_uri(node):
    return f"divvy://node/{node}"


def tenant_uri(pod, container="main"):
    return f"divvy://tenant/{pod['metadata']['uid']}/{container}"


def csr(*names, subject="", more="", key=None):
    """A request in PEM, as anyone can write it."""
    with tempfile.TemporaryDirectory(prefix="divvy-csr-", dir=cluster.dir) as folder:
        config, out = os.path.join(folder, "cnf"), os.path.join(folder, "csr")
        with open(config, "w", encoding="ascii") as f:
            f.write(CONFIG.format(subject=subject, names=", ".join(names), more=more))
        openssl(
            "req",
            "-new",
            "-config",
            config,
            *(key or P256),
            "-nodes",
            "-keyout",
            os.path.join(folder, "key"),
            "-out",
            out,
            *([] if subject else ["-subj", "/"]),
        )
        with open(out, encoding="ascii") as f:
            return f.read()


def ask(who, pem, usages=None, signer="divvy.gpu/remote"):
    """Creates the request and returns its name."""
    name = unique("test")
    who.create(
        REQUESTS,
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(pem.encode()).decode(),
                "signerName": signer,
                "usages": usages or CLIENT,
            },
        },
    )
    return name


def condition(request, kind):
    got = cluster.get(f"{REQUESTS}/{request}").get("status") or {}
    return next((c for c in got.get("conditions", []) if c["type"] == kind), None)


def certificate(request):
    text = (cluster.get(f"{REQUESTS}/{request}").get("status") or {}).get("certificate")
    return base64.b64decode(text).decode() if text else None


def issued(request):
    wait_for(lambda: certificate(request) or condition(request, "Denied"), "an answer", 60)
    assert certificate(request), condition(request, "Denied")
    return certificate(request)


def denied(request, says):
    wait_for(lambda: certificate(request) or condition(request, "Denied"), "an answer", 90)
    assert not certificate(request), "the controller has signed the request"
    assert says in condition(request, "Denied")["message"], (says, condition(request, "Denied"))


def text_of(pem):
    return subprocess.run(
        ["openssl", "x509", "-noout", "-text"], input=pem, capture_output=True, text=True, check=True
    ).stdout


def is_believed(pem, bundle):
    """Does a client that trusts the bundle accept the certificate?"""
    with tempfile.TemporaryDirectory(prefix="divvy-crt-", dir=cluster.dir) as folder:
        ca, crt = os.path.join(folder, "ca"), os.path.join(folder, "crt")
        for path, text in ((ca, bundle), (crt, pem)):
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
        return (
            subprocess.run(["openssl", "verify", "-CAfile", ca, crt], capture_output=True, check=False).returncode == 0
        )


def bundle():
    return (cluster.get(MAP).get("data") or {}).get("ca.crt", "")


def secret():
    return {k: base64.b64decode(v).decode() for k, v in (cluster.get(SECRET).get("data") or {}).items()}


def daemon():
    """A node and its divvyd's account."""
    node = unique("node")
    cluster.fake_node(node)
    return node, bound_account(cluster, unique("divvyd"), node)


def remote_pod(node, mode="remote"):
    """A pod bound to the node, with devices of another node in its assigned keys."""
    name = unique("tenant")
    cluster.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "annotations": {"divvy.gpu/request": "0.3", "divvy.gpu/memory": "1Gi", "divvy.gpu/mode": mode},
            },
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        },
    )
    keys = given(["GPU-1"], request="0.3", memory="1Gi")
    keys["divvy.gpu/granted-mode"] = "main=" + mode
    if mode == "remote":
        keys["divvy.gpu/remote-node"] = "main=elsewhere"
    bind(scheduler, name, keys, cluster.namespace, node=node)
    return cluster.get(f"/api/v1/namespaces/{cluster.namespace}/pods/{name}")


# ---- requests that are signed


def the_controller_makes_and_publishes_an_authority():
    wait_for(bundle, "the authority is published", 60)
    assert bundle() == secret()["ca.crt"], "another is published than signs"
    assert "ca.key" in secret() and "PRIVATE" not in bundle()


def a_nodes_daemon_gets_a_certificate_for_its_node():
    node, who = daemon()
    pem = issued(ask(who, csr("URI:" + node_uri(node)), BOTH))
    text = text_of(pem)
    assert f"URI:{node_uri(node)}" in text and "CA:FALSE" in text, text
    assert "TLS Web Server Authentication" in text and "TLS Web Client Authentication" in text, text
    assert is_believed(pem, bundle())


def a_nodes_daemon_gets_a_certificate_for_its_remote_pod():
    node, who = daemon()
    pod = remote_pod(node)
    pem = issued(ask(who, csr("URI:" + tenant_uri(pod))))
    assert f"URI:{tenant_uri(pod)}" in text_of(pem)
    assert "Server" not in text_of(pem).split("Extended Key Usage")[1].split("X509v3")[0], text_of(pem)
    assert is_believed(pem, bundle())


# ---- requests that are denied


def a_certificate_for_another_node_is_denied():
    (node, _), (other, who) = daemon(), daemon()
    pod = remote_pod(node)
    denied(ask(who, csr("URI:" + node_uri(node)), BOTH), f"divvyd of node '{other}' requested")
    denied(ask(who, csr("URI:" + tenant_uri(pod))), f"is on node '{node}'")


def a_certificate_for_a_local_or_missing_pod_is_denied():
    node, who = daemon()
    denied(ask(who, csr("URI:" + tenant_uri(remote_pod(node, "local")))), "its devices on its own node")
    denied(ask(who, csr("URI:" + tenant_uri(remote_pod(node), "side"))), "has no assigned devices")
    denied(ask(who, csr("URI:divvy://tenant/5f0c8c1e-7d0e-4a55-9a53-0c4f2e1b6d10/main")), "no pod with UID")


def a_request_for_more_names_or_rights_is_denied():
    node, who = daemon()
    uri = "URI:" + node_uri(node)
    denied(ask(who, csr(uri, "URI:divvy://node/another"), BOTH), "second alternative name")
    denied(ask(who, csr(uri, "DNS:divvy-controller.divvy-system.svc"), BOTH), "second alternative name")
    denied(ask(who, csr(uri, subject="CN = system:admin"), BOTH), "the request has a subject")
    denied(ask(who, csr(uri, more="basicConstraints = CA:TRUE"), BOTH), "extension")
    denied(ask(who, csr("URI:divvy://tenant/x"), BOTH), "neither divvy://node/NAME")
    denied(ask(who, csr(uri, key=["-newkey", "rsa:1024"]), BOTH), "RSA of 1024 bits")
    denied(ask(who, csr(uri), BOTH + ["cert sign"]), "usage 'cert sign'")
    denied(ask(who, csr(uri), CLIENT), "each once")


def other_accounts_that_may_ask_are_denied():
    """Rights to make requests, which no role of users has, are not enough."""
    node, _ = daemon()
    pod = remote_pod(node)
    rule = [{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}]
    admin = cluster.service_account(cluster.namespace, unique("admin"), cluster_rules=rule)
    namesake = cluster.service_account(cluster.namespace, "divvyd", cluster_rules=rule)
    for who in (cluster, admin, namesake, cluster.user("a-user", ["system:masters"])):
        denied(ask(who, csr("URI:" + node_uri(node)), BOTH), "service account")
        denied(ask(who, csr("URI:" + tenant_uri(pod))), "service account")
    # divvyd's own account, by a token that any account with the right to make tokens can make.
    unbound = cluster.service_account(SYSTEM, "divvyd")
    denied(ask(unbound, csr("URI:" + node_uri(node)), BOTH), "names no pod")


def users_may_neither_make_nor_approve_requests():
    cluster.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{cluster.namespace}/rolebindings",
        {
            "metadata": {"name": "an-admin"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "an-admin", "namespace": cluster.namespace}],
        },
    )
    who = cluster.service_account(cluster.namespace, "an-admin")
    node, own = daemon()
    request = ask(own, csr("URI:divvy://node/another"), BOTH)
    for call in (
        lambda: ask(who, csr("URI:" + node_uri(node)), BOTH),
        lambda: who.patch(f"{REQUESTS}/{request}/approval", {"status": {"conditions": []}}),
        lambda: own.patch(f"{REQUESTS}/{request}/approval", {"status": {"conditions": []}}),
        lambda: own.patch(f"{REQUESTS}/{request}/status", {"status": {"certificate": "LS0t"}}),
        lambda: who.get(SECRET),
        lambda: own.get(SECRET),
        lambda: own.patch(MAP, {"data": {"ca.crt": ""}}),
    ):
        try:
            call()
        except ApiError as error:
            assert error.code == 403, error
        else:
            raise AssertionError("not refused")
    assert own.get(MAP)["data"]["ca.crt"] == bundle()


def a_request_that_another_account_approved_is_not_signed():
    controller.kill()
    try:
        _, who = daemon()
        request = ask(who, csr("URI:divvy://node/another"), BOTH)
        cluster.patch(
            f"{REQUESTS}/{request}/approval",
            {
                "status": {
                    "conditions": [
                        {
                            "type": "Approved",
                            "status": "True",
                            "reason": "Test",
                            "message": "an administrator's mistake",
                        }
                    ]
                }
            },
        )
    finally:
        controller.start()
    wait_for(lambda: condition(request, "Failed"), "the request has failed", 60)
    assert "requested" in condition(request, "Failed")["message"] and not certificate(request)


def issued_and_denied_certificates_are_counted():
    def counts():
        text = controller.get("/metrics", token=operator.token)[1]
        return [
            int(re.search(rf"^divvy_controller_certificates_{what}_total (\d+)$", text, re.M)[1])
            for what in ("issued", "refused")
        ]

    wait_for(lambda: controller.get("/metrics", token=operator.token)[0] == 200, "the operator may")
    were = counts()
    node, who = daemon()
    issued(ask(who, csr("URI:" + node_uri(node)), BOTH))
    denied(ask(who, csr("URI:divvy://node/another"), BOTH), "requested")
    wait_for(lambda: counts() == [n + 1 for n in were], f"each counter is one more than in {were}")


# ---- identities that a daemon holds


@contextlib.contextmanager
def held(who, *uris):
    """Runs divvyd's code that holds identities; for each URI the last line of its output."""
    last = {}
    with open(os.path.join(cluster.dir, "log/hold-identity.log"), "ab") as log, subprocess.Popen(
        [HOLD, who.kubeconfig, SYSTEM, *uris], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:

        def read():
            for line in process.stdout:
                got = json.loads(line)
                last[got["uri"]] = got

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield last
        finally:
            process.stdin.close()
            code = process.wait(patience())
            reader.join()
        assert code == 0, code


def has(last, uri):
    return (last.get(uri) or {}).get("crt")


def a_daemon_holds_its_own_and_its_tenants():
    node, who = daemon()
    pod = remote_pod(node)
    mine, its, wrong = node_uri(node), tenant_uri(pod), node_uri("another")
    with held(who, mine, its, wrong) as last:
        wait_for(lambda: has(last, mine) and has(last, its) and wrong in last, "both identities have certificates", 60)
        assert "requested" in last[wrong]["why"] and not has(last, wrong), last[wrong]
        for uri in (mine, its):
            assert last[uri]["why"] == "" and f"URI:{uri}" in text_of(last[uri]["crt"])
            assert last[uri]["authority"] == bundle()


def a_daemon_waits_for_an_absent_controller():
    controller.kill()
    node, who = daemon()
    uri = node_uri(node)
    try:
        with held(who, uri) as last:
            time.sleep(1)
            assert not has(last, uri)
            controller.start()
            wait_for(lambda: has(last, uri), "the daemon has its certificate", 60)
    finally:
        if not cluster.pid("divvy-controller"):
            controller.start()


def another_leader_signs():
    other = Controller(cluster, name="divvy-controller-2")
    other.start()
    wait_for(other.ready, "the second controller is ready", 60)
    controller.kill()
    try:
        node, who = daemon()
        issued(ask(who, csr("URI:" + node_uri(node)), BOTH))
    finally:
        other.kill()
        controller.start()


# ---- how the authority changes


def made_authority(begins_h, ends_h):
    """(certificate, key) as the controller makes them; hours from now."""
    with tempfile.TemporaryDirectory(prefix="divvy-ca-", dir=cluster.dir) as folder:
        config = os.path.join(folder, "cnf")
        with open(config, "w", encoding="ascii") as f:
            f.write(
                "[ca]\ndefault_ca = a\n[a]\ndatabase = db\nserial = serial\nnew_certs_dir = .\ndefault_md = sha256\n"
                "policy = p\nx509_extensions = e\n[p]\ncommonName = supplied\n[e]\nbasicConstraints = critical, CA:TRUE\n"
                "keyUsage = critical, keyCertSign, cRLSign\nsubjectKeyIdentifier = hash\n"
                "[req]\ndistinguished_name = n\nprompt = no\n[n]\nCN = a test's authority\n"
            )
        at = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + h * 3600)) for h in (begins_h, ends_h)]
        for name, text in (("db", ""), ("serial", f"{os.getpid():06x}01\n")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as f:
                f.write(text)
        done = subprocess.run(
            f"openssl req -new -config cnf {' '.join(P256)} -nodes -keyout key -out csr && "
            f"openssl ca -batch -selfsign -notext -config cnf -keyfile key -in csr -out crt -startdate {at[0]} -enddate {at[1]}",
            shell=True,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        got = []
        for name in ("crt", "key"):
            with open(os.path.join(folder, name), encoding="ascii") as f:
                got.append(f.read())
        return got


def put(**texts):
    cluster.patch(
        SECRET, {"data": {k.replace("_", "."): v and base64.b64encode(v.encode()).decode() for k, v in texts.items()}}
    )


def both_authorities_are_trusted_during_a_change():
    node, who = daemon()
    uri = node_uri(node)
    first, first_key = made_authority(-24, 24 * 300)
    put(ca_crt=first, ca_key=first_key, old_crt=None, old_key=None)
    wait_for(
        lambda: is_believed(first, bundle()) and bundle().count("BEGIN") == 1,
        "the bundle has only the first authority",
        60,
    )
    with held(who, uri) as last:
        wait_for(lambda: has(last, uri), "the daemon has its certificate", 60)
        mine = last[uri]["crt"]
        assert is_believed(mine, first)
        # Shortly before the authority expires, the controller makes a successor, which does not
        # sign yet.
        near, near_key = made_authority(-24, 24 * 60)
        put(ca_crt=near, ca_key=near_key, old_crt=first, old_key=first_key)
        wait_for(
            lambda: bundle().count("BEGIN") == 2 and not is_believed(near, secret()["ca.crt"]),
            "the controller has made a successor",
            60,
        )
        new = secret()["ca.crt"]
        assert secret()["old.crt"] == near
        pem = issued(ask(who, csr("URI:" + uri), BOTH))
        assert is_believed(pem, near) and not is_believed(pem, new), "the successor signs before all daemons know it"
    # After all daemons know the successor, it signs; certificates of the old authority remain valid.
    second, second_key = made_authority(-2, 24 * 300)
    put(ca_crt=second, ca_key=second_key, old_crt=first, old_key=first_key)
    wait_for(
        lambda: is_believed(mine, bundle()) and is_believed(second, bundle()), "both authorities are published", 60
    )
    pem = issued(ask(who, csr("URI:" + uri), BOTH))
    assert is_believed(pem, second) and is_believed(pem, bundle()) and is_believed(mine, bundle())
    # The old authority is removed after its last certificate has expired.
    third, third_key = made_authority(-26, 24 * 300)
    put(ca_crt=third, ca_key=third_key, old_crt=second, old_key=second_key)
    wait_for(
        lambda: bundle().count("BEGIN") == 1 and is_believed(third, bundle()), "only the new authority is published", 60
    )
    assert "old.key" not in secret()


def after_a_lost_authority_all_daemons_ask_again():
    node, who = daemon()
    uri = node_uri(node)
    with held(who, uri) as last:
        wait_for(lambda: has(last, uri), "the daemon has its certificate", 60)
        before = last[uri]["crt"]
        put(ca_crt=None, ca_key=None, old_crt=None, old_key=None)
        wait_for(lambda: has(last, uri) not in (None, before), "the daemon has another certificate", 60)
        assert is_believed(last[uri]["crt"], bundle()) and not is_believed(before, bundle())


TESTS = [
    the_controller_makes_and_publishes_an_authority,
    a_nodes_daemon_gets_a_certificate_for_its_node,
    a_nodes_daemon_gets_a_certificate_for_its_remote_pod,
    a_certificate_for_another_node_is_denied,
    a_certificate_for_a_local_or_missing_pod_is_denied,
    a_request_for_more_names_or_rights_is_denied,
    other_accounts_that_may_ask_are_denied,
    users_may_neither_make_nor_approve_requests,
    a_request_that_another_account_approved_is_not_signed,
    issued_and_denied_certificates_are_counted,
    a_daemon_holds_its_own_and_its_tenants,
    a_daemon_waits_for_an_absent_controller,
    another_leader_signs,
    both_authorities_are_trusted_during_a_change,
    after_a_lost_authority_all_daemons_ask_again,
]

try:
    with open_cluster("kcm") as cluster, installed(cluster) as controller:
        scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
        operator = cluster.service_account(
            cluster.namespace, "operator", cluster_rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        )
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
