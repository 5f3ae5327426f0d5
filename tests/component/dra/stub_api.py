# SPDX-License-Identifier: Apache-2.0
"""An API server in the test's process, for divvyd alone: objects in memory, lists, watches, and patches. It checks nothing, so
it shows what divvyd writes and reads, and answers within a millisecond."""

import collections
import copy
import http.server
import json
import os
import ssl
import subprocess
import threading
import urllib.parse

SUBRESOURCES = ("status",)


class Conflict(Exception):
    """The answer 409."""


def merge(old, new):
    """A JSON merge patch; lists are replaced, as server-side apply does with the atomic lists that divvyd writes."""
    if not isinstance(new, dict):
        return new
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def field(obj, path):
    for word in path.split("."):
        obj = (obj or {}).get(word)
    return obj


class Store:
    """Objects by path, such as /api/v1/nodes/n. Every change is an event that watches show."""

    def __init__(self):
        self.changed = threading.Condition()
        self.objects = {}
        self.events = []  # (version, path, type, object)
        self.version = 1
        self.requests = collections.Counter()  # "PATCH gpunodes"
        self.is_away = False

    def put(self, path, obj, kind="MODIFIED"):
        self.version += 1
        meta = obj.setdefault("metadata", {})
        meta.setdefault("name", path.rsplit("/", 1)[1])
        meta.setdefault("uid", f"00000000-0000-0000-0000-{self.version:012d}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        meta["resourceVersion"] = str(self.version)
        if "/namespaces/" in path:
            meta.setdefault("namespace", path.split("/namespaces/")[1].split("/")[0])
        self.objects[path] = obj
        self.events.append((self.version, path, kind, copy.deepcopy(obj)))
        self.changed.notify_all()
        return obj

    def create(self, path, obj):
        with self.changed:
            if path in self.objects:
                raise Conflict()
            return self.put(path, copy.deepcopy(obj), "ADDED")

    def update(self, path, patch):
        """Merges the patch; None: the object does not exist."""
        with self.changed:
            if path not in self.objects:
                return None
            return self.put(path, merge(self.objects[path], patch))

    def apply(self, path, obj):
        return self.update(path, obj) or self.create(path, obj)

    def remove(self, path):
        with self.changed:
            obj = self.objects.pop(path, None)
            if obj:
                self.version += 1
                self.events.append((self.version, path, "DELETED", obj))
                self.changed.notify_all()
            return obj

    def get(self, path):
        with self.changed:
            return copy.deepcopy(self.objects.get(path))

    def list(self, path, wanted):
        with self.changed:
            found = [o for p, o in self.objects.items() if is_in(p, path) and wanted(o)]
            return copy.deepcopy(found), self.version


def is_in(path, collection):
    """Is the object in the collection, which may be of all namespaces?"""
    if path.startswith(collection + "/"):
        return "/" not in path[len(collection) + 1 :]
    group, resource = collection.rsplit("/", 1)
    return path.startswith(group + "/namespaces/") and path.split("/")[-2] == resource


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # an answer is one packet

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.store = self.server.store

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def fail(self, status, reason):
        message = f"{reason}: {self.path}"
        self.answer(
            status,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": reason,
                "message": message,
                "code": status,
            },
        )

    def begin(self):
        """(path without subresource, query, body); counts the request."""
        if self.store.is_away:
            raise ConnectionAbortedError
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        n = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(n)) if n else None
        words = url.path.split("/")
        if words[-1] in SUBRESOURCES:
            words.pop()
        path = "/".join(words)
        resource = next((w for w in reversed(words[:-1]) if w.endswith("s")), words[-1])
        self.store.requests[f"{self.command} {resource}"] += 1
        return path, query, body

    def do_GET(self):
        path, query, _ = self.begin()
        selectors = [s.split("=", 1) for s in query.get("fieldSelector", "").split(",") if "=" in s]
        label = query.get("labelSelector")  # a label that has to be there

        def wanted(obj):
            labels = obj["metadata"].get("labels") or {}
            return all(str(field(obj, key)) == value for key, value in selectors) and (not label or label in labels)

        if query.get("watch") in ("1", "true"):
            self.watch(path, int(query.get("resourceVersion") or 0), wanted)
            return
        obj = self.store.get(path)
        if obj:
            self.answer(200, obj)
        elif path.rsplit("/", 1)[1].endswith("s"):
            items, version = self.store.list(path, wanted)
            self.answer(200, {"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": items})
        else:
            self.fail(404, "NotFound")

    def watch(self, path, since, wanted):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        at = 0
        while not self.store.is_away and not self.server.is_ending:
            with self.store.changed:
                if at == len(self.store.events):
                    self.store.changed.wait(0.2)
                new, at = self.store.events[at:], len(self.store.events)
            for version, of, kind, obj in new:
                if version > since and is_in(of, path) and wanted(obj):
                    line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.flush()
        self.close_connection = True

    def do_POST(self):
        path, _, body = self.begin()
        name = (body.get("metadata") or {}).get("name")
        if not name:  # a review, or a generated name
            self.answer(201, body)
            return
        try:
            self.answer(201, self.store.create(f"{path}/{name}", body))
        except Conflict:
            self.fail(409, "AlreadyExists")

    def do_PATCH(self):
        path, _, body = self.begin()
        is_apply = "apply" in self.headers.get("Content-Type", "")
        obj = self.store.apply(path, body) if is_apply else self.store.update(path, body)
        if obj:
            self.answer(200, obj)
        else:
            self.fail(404, "NotFound")

    def do_PUT(self):
        path, _, body = self.begin()
        obj = self.store.update(path, body)
        if obj:
            self.answer(200, obj)
        else:
            self.fail(404, "NotFound")

    def do_DELETE(self):
        path, _, _ = self.begin()
        obj = self.store.remove(path)
        if obj:
            self.answer(200, obj)
        else:
            self.fail(404, "NotFound")


def make_certificate(certificate, key):
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=stub"
    subprocess.run(
        [*words.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key],
        check=True,
        capture_output=True,
    )


class StubApi(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = Store()
        self.is_ending = False
        self.certificate = os.path.join(folder, "api.crt")
        key = os.path.join(folder, "api.key")
        make_certificate(self.certificate, key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.certificate, key)
        # The handshake is the handler's thread's, so that a killed client keeps nobody waiting.
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """A killed client is no error."""

    def end(self):
        self.is_ending = True
        self.shutdown()
        self.server_close()
