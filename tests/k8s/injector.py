# SPDX-License-Identifier: Apache-2.0
"""A mutating webhook like those of sidecar injectors: it adds a container to each pod of its namespaces."""

import base64
import contextlib
import json
import threading

from json_server import JsonServer

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SIDECAR = {"name": "proxy", "image": "none"}


def in_front(pod):
    """JSON Patch that puts the sidecar in front, once."""
    if any(c["name"] == SIDECAR["name"] for c in pod["spec"]["containers"]):
        return []
    return [{"op": "add", "path": "/spec/containers/0", "value": SIDECAR}]


class Server(JsonServer):
    def __init__(self, address, certificate, patch):
        super().__init__(address, self.review, certificate)
        self.make_patch = patch
        self.denial = None  # if set, the message with which it refuses every pod

    def review(self, review):
        patch = self.make_patch(review["request"]["object"])
        response = {"uid": review["request"]["uid"], "allowed": True}
        if self.denial:
            response |= {"allowed": False, "status": {"message": self.denial}}
        elif patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return {**review, "request": None, "response": response}


@contextlib.contextmanager
def injector(cluster, name, address, patch=in_front, reinvocation="Never"):
    """Starts the webhook for namespaces labelled NAME=on. API servers call webhooks in the order of the configurations'
    names."""
    server = Server(address, cluster.pki.sign(name, name, alternatives=f"IP:{address}"), patch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(cluster.pki.ca, "rb") as f:
        authority = base64.b64encode(f.read()).decode()
    cluster.create(
        CONFIGURATIONS,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": f"{name}.example.com",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "reinvocationPolicy": reinvocation,
                    "namespaceSelector": {"matchLabels": {name: "on"}},
                    "clientConfig": {"url": f"https://{address}:{server.server_port}/", "caBundle": authority},
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ],
                }
            ],
        },
    )
    try:
        yield
    finally:
        cluster.delete(f"{CONFIGURATIONS}/{name}")
        server.shutdown()
        server.server_close()
