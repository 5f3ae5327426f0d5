# SPDX-License-Identifier: Apache-2.0
"""A validating webhook that refuses the Bindings of some pods, as other systems' policies do."""

import base64
import http.server
import json
import os
import ssl
import threading

from pki import Pki

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "bindings.example.com"
REASON = "nodes need a ticket"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        is_allowed = request["name"] not in self.server.refused
        self.server.asked.append((request["name"], is_allowed))
        answer = {"uid": request["uid"], "allowed": is_allowed}
        if not is_allowed:
            answer["status"] = {"code": 403, "message": REASON}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Refuser:
    """For `with`; `refused` are names of pods, `asked` is what the API server asked: (name, whether it was allowed)."""

    def __init__(self, cluster, *refused):
        self.cluster = cluster
        self.pki = Pki(os.path.join(cluster.dir, "refuser"))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.refused, self.server.asked = set(refused), []
        self.refused, self.asked = self.server.refused, self.server.asked
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.pki.sign("refuser", "refuser", alternatives="IP:127.0.0.1"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def bundle(self):
        with open(self.pki.ca, "rb") as f:
            return base64.b64encode(f.read()).decode()

    def __enter__(self):
        self.thread.start()
        self.cluster.create(CONFIGURATIONS, {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAME}, "webhooks": [{
                "name": NAME, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
                "clientConfig": {"url": f"https://127.0.0.1:{self.server.server_port}/", "caBundle": self.bundle()},
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                           "resources": ["pods/binding"]}]}]})
        return self

    def __exit__(self, *_):
        self.cluster.delete(f"{CONFIGURATIONS}/{NAME}")
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
