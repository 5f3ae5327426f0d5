# SPDX-License-Identifier: Apache-2.0
"""Requests to an API server with an account's token, client certificate, or through `kubectl proxy`."""

import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.parse

REQUEST_S = 60
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """A refusal by the server, with its own Status."""

    def __init__(self, method, path, code, body):
        self.code = code
        self.body = body
        self.reason = body.get("reason", "") if isinstance(body, dict) else ""
        text = body.get("message", "") if isinstance(body, dict) else str(body)[:500]
        super().__init__(f"{method} {path}: {code} {self.reason}: {text}")


def retry_after_s(response):
    """The seconds after which the server wants the request again: it has not acted on the request yet. Else None."""
    wait = response.headers.get("Retry-After", "")
    return int(wait) if response.status in (429, 503) and wait.isdecimal() else None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Account:
    """An account for requests. `kubeconfig` is the path of its kubeconfig, for any other program."""

    def __init__(
        self,
        server,
        *,
        ca=None,
        token=None,
        cert=None,
        kubeconfig=None,
        kubectl_path="kubectl",
        proxy=None,
        insecure=False,
        headers=None,
    ):
        self.server = server
        self.ca = ca
        self.token = token
        self.kubeconfig = kubeconfig
        self.kubectl_path = kubectl_path
        self.proxy = proxy
        self.insecure = insecure
        self.headers = headers or {}
        self.tls = None
        if not proxy and server.startswith("https"):
            self.tls = ssl.create_default_context(cafile=ca)
            if insecure:
                self.tls.check_hostname = False
                self.tls.verify_mode = ssl.CERT_NONE
            if cert:
                self.tls.load_cert_chain(*cert)

    def connect(self, timeout=REQUEST_S):
        if self.proxy:
            return UnixConnection(self.proxy, timeout)
        url = urllib.parse.urlsplit(self.server)
        if self.tls:
            return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(url.hostname, url.port or 80, timeout=timeout)

    def send(self, connection, method, path, body=None, content=None, headers=None):
        headers = {"Accept": "application/json", **self.headers, **(headers or {})}
        if body is not None:
            headers["Content-Type"] = content or "application/json"
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        if self.token and not self.proxy:
            headers["Authorization"] = "Bearer " + self.token
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def send_until_taken(self, timeout, *request):
        """(connection, response), after the tries that the server asks for within the time-out. Newer servers answer 429
        for some seconds after a custom resource was defined."""
        end = time.monotonic() + timeout
        while True:
            with contextlib.ExitStack() as stack:
                connection = stack.enter_context(contextlib.closing(self.connect(timeout)))
                response = self.send(connection, *request)
                wait_s = retry_after_s(response)
                if wait_s is None or time.monotonic() + wait_s > end:
                    stack.pop_all()
                    return connection, response
            time.sleep(wait_s)

    def request(self, method, path, body=None, *, content=None, headers=None, timeout=REQUEST_S):
        """Sends a request and returns the decoded answer; ApiError when the server refuses."""
        connection, response = self.send_until_taken(timeout, method, path, body, content, headers)
        with contextlib.closing(connection):
            answer = response.read()
        if "json" in response.headers.get("Content-Type", ""):
            answer = json.loads(answer)
        else:
            answer = answer.decode("utf-8", "replace")
        if response.status >= 400:
            raise ApiError(method, path, response.status, answer)
        return answer

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def create(self, path, body, **kw):
        return self.request("POST", path, body, **kw)

    def patch(self, path, body, kind="merge", **kw):
        """kind: a key of PATCHES."""
        return self.request("PATCH", path, body, content=PATCHES[kind], **kw)

    def delete(self, path, grace_s=None, **kw):
        """Deletes an object; succeeds too if the object does not exist."""
        body = None if grace_s is None else {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_s}
        try:
            return self.request("DELETE", path, body, **kw)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def exists(self, path):
        try:
            self.get(path)
            return True
        except ApiError as error:
            if error.code != 404:
                raise
            return False

    def may(self, verb, resource="", *, url="", **attributes):
        """Asks the API server for this account's right; attributes: group, namespace, name, subresource."""
        spec = (
            {"nonResourceAttributes": {"verb": verb, "path": url}}
            if url
            else {"resourceAttributes": {"verb": verb, "resource": resource, **attributes}}
        )
        return self.create(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec},
        )["status"]["allowed"]

    @contextlib.contextmanager
    def watch(self, path, timeout=REQUEST_S, **query):
        """Returns an iterator over the events, after the server has begun to watch."""
        query = {"watch": "1", "allowWatchBookmarks": "true", **query}
        path += "?" + urllib.parse.urlencode(query)
        connection, response = self.send_until_taken(timeout, "GET", path)
        try:
            if response.status >= 400:
                raise ApiError("GET", path, response.status, json.loads(response.read()))
            yield (json.loads(line) for line in response)
        finally:
            connection.close()

    def kubectl(self, *args, stdin=None, check=True, timeout=REQUEST_S):
        """Runs kubectl as this account; returns its output, or (code, out, err) without check."""
        env = {**os.environ, "KUBECONFIG": self.kubeconfig, "LC_ALL": "C.UTF-8"}
        env["HOME"] = os.path.dirname(self.kubeconfig)  # kubectl keeps its discovery cache there
        done = subprocess.run(
            [self.kubectl_path, *args],
            input=stdin or "",
            capture_output=True,
            text=True,
            env=env,
            timeout=timeout,
            check=False,
        )
        if not check:
            return done.returncode, done.stdout, done.stderr
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    def apply(self, *manifests, namespace=None):
        """Applies manifests, each YAML or JSON text, or an object."""
        where = ["-n", namespace] if namespace else []
        text = "\n---\n".join(m if isinstance(m, str) else json.dumps(m) for m in manifests)
        return self.kubectl(*where, "apply", "-f", "-", stdin=text)


def write_kubeconfig(path, server, *, ca=None, token=None, cert=None, namespace="default", insecure=False):
    """Writes JSON, which is YAML too."""
    cluster = {"server": server}
    if ca:
        cluster["certificate-authority"] = ca
    if insecure:
        cluster["insecure-skip-tls-verify"] = True
    user = {}
    if token:
        user["token"] = token
    if cert:
        user["client-certificate"], user["client-key"] = cert
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
        json.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": user}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            },
            f,
            indent=1,
        )
