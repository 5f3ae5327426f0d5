# SPDX-License-Identifier: Apache-2.0
"""Controllers of other systems on a test's cluster, as `get with-NAME` has built them.

Their manifests, with definitions and webhooks, are those of the built version. The controllers run as the cluster's
administrator, since their own rights are not tested here. Nodes have no kubelet, so a Finisher takes its place: it removes
pods that terminate."""

import base64
import contextlib
import os
import shutil
import threading

import yaml
from cluster import ApiError, Skip, built, free_port, wait_for
from controller import own_address

ARGO = "github.com/argoproj/argo-workflows/v4/manifests/base/crds/minimal"
KSERVE = "github.com/kserve/kserve/config"
SERVING = "/apis/serving.kserve.io/v1alpha1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


class Systems:
    """The programs and sources of one `with-NAME`."""

    def __init__(self, cluster, name):
        if cluster.minor < 34:
            raise Skip("these systems need Kubernetes 1.34 or later: DIVVY_K8S=newest")
        self.cluster, self.folder = cluster, built("with-" + name)
        self.address = cluster.slot.address if cluster.own else own_address()
        self.kubeconfig = cluster.administrator()
        self.commands, self.environments = {}, {}

    def source(self, *path):
        return os.path.join(self.folder, "source", *path)

    def documents(self, *path):
        with open(self.source(*path), encoding="utf-8") as f:
            return [d for d in yaml.safe_load_all(f) if d]

    def define(self, *folder):
        """Creates the custom resource definitions of the folder."""
        for name in sorted(os.listdir(self.source(*folder))):
            if not name.endswith(".yaml"):
                continue
            for document in self.documents(*folder, name):
                if document["kind"] == "CustomResourceDefinition":
                    self.cluster.claim_path(f"{DEFINITIONS}/{document['metadata']['name']}")
                    self.cluster.define(document)

    def space(self, name):
        """Makes the namespace of a system."""
        self.cluster.claim_path(f"/api/v1/namespaces/{name}")
        self.cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def temporary(self, name):
        return os.path.join(self.cluster.dir, "with-" + name)

    def certificates(self, name):
        """Where most controllers look for their certificate, below the temporary folder."""
        return os.path.join(self.temporary(name), "k8s-webhook-server/serving-certs")

    def start(self, name, program, *argv, env=None):
        """Starts the controller with a temporary folder that has a certificate for its webhooks."""
        temporary, certificates = self.temporary(name), self.certificates(name)
        os.makedirs(certificates)
        files = self.cluster.pki.sign("with-" + name, name, alternatives=f"IP:{self.address}")
        for file, end in zip(files, ("crt", "key"), strict=True):
            shutil.copy(file, os.path.join(certificates, "tls." + end))
        own = {"KUBECONFIG": self.kubeconfig, "TMPDIR": temporary, "HOME": temporary}
        self.commands[name] = [os.path.join(self.folder, "bin", program), *argv]
        self.environments[name] = {**own, "PATH": os.environ["PATH"], **(env or {})}
        self.again(name)

    def again(self, name, *more):
        """Starts the controller again after its end, with more options."""
        self.cluster.keeper.ask(
            "start",
            name=name,
            argv=[*self.commands[name], *more],
            log=os.path.join(self.cluster.dir, "log", name + ".log"),
            env=self.environments[name],
        )

    def write(self, name, body):
        """The path of a configuration file of a controller."""
        path = os.path.join(self.cluster.dir, name + ".yaml")
        with open(path, "w", encoding="utf-8") as f:
            yaml.safe_dump(body, f)
        return path

    def port(self):
        return free_port(self.address)

    def webhooks(self, prefix, port, *path, pods_with=None):
        """Creates the webhooks of the manifest, which the controller serves at the port. `pods_with`: only pods with that label,
        by the patches of the system's own installation."""
        with open(self.cluster.pki.ca, "rb") as f:
            authority = base64.b64encode(f.read()).decode()
        for body in self.documents(*path):
            body["metadata"] = {"name": prefix + body["metadata"]["name"]}
            for webhook in body["webhooks"]:
                service = webhook["clientConfig"]["service"]
                url = f"https://{self.address}:{port}{service['path']}"
                webhook["clientConfig"] = {"url": url, "caBundle": authority}
                if pods_with and webhook["rules"][0]["resources"] == ["pods"]:
                    webhook["objectSelector"] = {"matchExpressions": [{"key": pods_with, "operator": "Exists"}]}
            self.cluster.create(f"{ADMISSION}/{WEBHOOKS[body['kind']]}", body)

    def apply(self, path, body, what):
        """Creates an object once the controller's webhooks answer."""

        def done():
            try:
                self.cluster.create(path, body)
            except ApiError as error:
                if "failed calling webhook" not in str(error):
                    raise
                return False
            return True

        wait_for(done, f"{what} is created", 120)


def start_argo(cluster, executor="none"):
    """Starts the controller of Argo Workflows, which adds containers of the image `executor` to its pods.

    The controller reads its ConfigMap in the namespace of its option, and serves all namespaces."""
    argo = Systems(cluster, "argo")
    argo.define(ARGO)
    argo.space("argo")
    name = "workflow-controller-configmap"
    metrics = {"metricsConfig": "{enabled: false}", "telemetryConfig": "{enabled: false}"}
    cluster.create("/api/v1/namespaces/argo/configmaps", {"metadata": {"name": name}, "data": metrics})
    options = ("--namespace=argo", f"--executor-image={executor}")
    argo.start(
        "argo", "workflow-controller", *options, env={"LEADER_ELECTION_DISABLE": "true", "DEFAULT_REQUEUE_TIME": "1s"}
    )
    return argo


def start_kserve(cluster):
    """Starts the controller of KServe with the configuration that KServe ships, and one runtime for models."""
    kserve = Systems(cluster, "kserve")
    port = kserve.port()
    kserve.define(KSERVE, "crd/full")
    kserve.space("kserve")
    (configuration,) = kserve.documents(KSERVE, "configmap/inferenceservice.yaml")
    cluster.create("/api/v1/namespaces/kserve/configmaps", configuration)
    kserve.start("kserve", "manager", "--metrics-addr=0", "--health-probe-addr=0", f"--webhook-port={port}")
    kserve.webhooks("kserve-", port, KSERVE, "webhook/manifests.yaml")
    for kind, file in (
        ("clusterservingruntimes", "runtimes/kserve-sklearnserver.yaml"),
        ("clusterstoragecontainers", "storagecontainers/default.yaml"),
    ):
        (body,) = kserve.documents(KSERVE, file)
        kserve.apply(f"{SERVING}/{kind}", body, file)
    return kserve


class Finisher:
    """Removes terminating pods of a namespace, as a kubelet does after their containers have ended."""

    def __init__(self, cluster, namespace):
        self.cluster, self.path = cluster, f"/api/v1/namespaces/{namespace}/pods"
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def run(self):
        while not self.ends.wait(0.2):
            with contextlib.suppress(ApiError, OSError):  # the pod is already gone
                for pod in self.cluster.get(self.path)["items"]:
                    if pod["metadata"].get("deletionTimestamp"):
                        self.cluster.delete(f"{self.path}/{pod['metadata']['name']}", grace_s=0)
