# SPDX-License-Identifier: Apache-2.0
"""A server in the test that answers each POST with JSON, as the webhooks and extenders of other systems do."""

import http.server
import json
import ssl


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self.server.answer(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class JsonServer(http.server.ThreadingHTTPServer):
    """answer(request) makes the answer, in several threads; certificate: paths of certificate and key, for HTTPS."""

    daemon_threads = True

    def __init__(self, address, answer, certificate=None):
        super().__init__((address, 0), Handler)
        self.answer = answer
        if certificate:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(*certificate)
            self.socket = tls.wrap_socket(self.socket, server_side=True)
