# SPDX-License-Identifier: Apache-2.0
"""A validating webhook that refuses the Bindings of some pods, as other systems' policies do."""

import base64
import os
import threading

from json_server import JsonServer
from pki import Pki

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "bindings.example.com"
REASON = "nodes need a ticket"


class Refuser:
    """For `with`; `refused` are names of pods, `asked` are the API server's requests: (name, whether it was allowed)."""

    RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}

    def __init__(self, cluster, *refused):
        self.cluster = cluster
        self.pki = Pki(os.path.join(cluster.dir, type(self).__name__))
        self.refused, self.asked = set(refused), []
        certificate = self.pki.sign("refuser", "refuser", alternatives="IP:127.0.0.1")
        self.server = JsonServer("127.0.0.1", self.review, certificate)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def review(self, review):
        request = review["request"]
        is_allowed = request["name"] not in self.refused
        self.asked.append((request["name"], is_allowed))
        response = {"uid": request["uid"], "allowed": is_allowed}
        if not is_allowed:
            response["status"] = {"code": 403, "message": REASON}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    def bundle(self):
        with open(self.pki.ca, "rb") as f:
            return base64.b64encode(f.read()).decode()

    def __enter__(self):
        self.thread.start()
        self.cluster.create(
            CONFIGURATIONS,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": NAME},
                "webhooks": [
                    {
                        "name": NAME,
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "failurePolicy": "Fail",
                        "clientConfig": {
                            "url": f"https://127.0.0.1:{self.server.server_port}/",
                            "caBundle": self.bundle(),
                        },
                        "rules": [self.RULE],
                    }
                ],
            },
        )
        return self

    def __exit__(self, *_):
        self.cluster.delete(f"{CONFIGURATIONS}/{NAME}")
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
