# SPDX-License-Identifier: Apache-2.0
"""divvy installed from deploy/ on a test's cluster, with a divvy-controller that runs beside it.

The program is from this build, and has exactly the rights of the manifests' service account. API servers reach it as a pod:
through the Service, at an address of this machine."""

import contextlib
import http.client
import os
import socket
import ssl
import tempfile

from cluster import ApiError, Skip, free_port, patience, wait_for
from manifests import overlay

SYSTEM = "divvy-system"
PROGRAM = os.path.join(os.environ.get("DIVVY_BUILD", "build"), "src/controller/divvy-controller")


def own_address():
    """An address for an Endpoints object, which may not have a loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.77", 9))
        except OSError as error:
            raise Skip(f"no address but loopback: {error.strerror}") from error
        return s.getsockname()[0]


class Controller:
    def __init__(self, cluster, name="divvy-controller", args=(), system=SYSTEM):
        self.cluster, self.name, self.args, self.system = cluster, name, [f"--namespace={system}", *args], system
        self.address = own_address()
        self.port, self.page = free_port(self.address), free_port(self.address)
        self.log = os.path.join(cluster.dir, "log", name + ".log")
        self.account = cluster.service_account(system, "divvy-controller")

    def start(self, wait=True):
        argv = [
            os.path.abspath(PROGRAM),
            f"--kubeconfig={self.account.kubeconfig}",
            "--leader-elect",
            f"--webhook-listen={self.address}:{self.port}",
            f"--listen={self.address}:{self.page}",
            "--log=debug",
            *self.args,
        ]
        self.cluster.keeper.ask(
            "start", name=self.name, argv=argv, log=self.log, env={"POD_NAME": self.name, "PATH": os.environ["PATH"]}
        )
        if wait:
            wait_for(self.ready, f"{self.name} is ready", 120)

    def kill(self):
        self.cluster.kill(self.name)

    def get(self, path, port=None, token=None):
        """(status, text) of a request, as API servers and Prometheus send it."""
        return self.ask("GET", path, port or self.page, headers={"Authorization": "Bearer " + token} if token else {})

    def ask(self, method, path, port, body=None, headers=None):
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(self.address, port, timeout=patience(10), context=tls)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def ready(self):
        assert self.cluster.pid(self.name), f"{self.name} has ended: {self.tail()}"
        try:
            return self.get("/healthz", self.port)[0] == 200
        except OSError:
            return False

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()[-2000:]

    def serve_here(self, *others):
        """Points the Service to this controller (and `others`) alone."""
        services = f"/api/v1/namespaces/{self.system}/services/divvy-controller"
        self.cluster.patch(services, {"spec": {"selector": None}})
        subsets = [
            {
                "addresses": [{"ip": c.address}],
                "ports": [{"name": "webhook", "port": c.port}, {"name": "https", "port": c.page}],
            }
            for c in (self, *others)
        ]
        path = f"/api/v1/namespaces/{self.system}/endpoints"
        body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "divvy-controller"}, "subsets": subsets}

        def led():
            try:
                if not self.cluster.create_once(path, body):
                    self.cluster.patch(path + "/divvy-controller", {"subsets": subsets})
            except ApiError:
                return False
            got = self.cluster.get(path + "/divvy-controller").get("subsets") or []
            return {p["port"] for s in got for p in s["ports"]} == {p["port"] for s in subsets for p in s["ports"]}

        wait_for(led, "the Service leads to the controller")


@contextlib.contextmanager
def installed(cluster, args=()):
    """Applies deploy/ and runs its controller, with more arguments."""
    with tempfile.TemporaryDirectory(prefix="divvy-deploy-", dir=cluster.dir) as temporary:
        cluster.claim()
        cluster.kubectl("apply", "--server-side", "-k", str(overlay(cluster, temporary)), timeout=patience(120))
        for name in ("sharepods", "gpunodes", "gpupolicies"):
            wait_for(lambda n=name: cluster.exists(f"/apis/divvy.gpu/v1/{n}"), f"{name} are served", 60)
        if not cluster.own:  # no pod of the manifests may run beside the test's own parts
            for name in ("divvy-controller", "divvy-scheduler"):
                path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{name}"
                cluster.patch(path, {"spec": {"replicas": 0}})
        controller = Controller(cluster, args=args)
        controller.serve_here()
        controller.start()
        yield controller
