# SPDX-License-Identifier: Apache-2.0
"""divvyd on the node of a test cluster, as its service account, with simulated devices; and pods for it.

The test itself writes what the control plane writes (Binding with assigned keys): no scheduler is needed."""

import contextlib
import copy
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess

from cluster import patience, wait_for

BUILD = os.environ["DIVVY_BUILD"]
SOURCE = os.environ["DIVVY_SOURCE"]
DIVVYD = os.environ.get("DIVVY_TEST_DIVVYD") or os.path.join(BUILD, "src/divvyd/divvyd")
DIVVY = os.path.join(BUILD, "src/cli/divvy")
SPIN = os.path.join(BUILD, "tests/programs/spin")
USAGE = os.path.join(BUILD, "tests/programs/usage-from-trace")
IMAGE = "local/spin:1"
GIB = 1 << 30


def install(cluster):
    """Installs the shipped definitions, accounts and rights. No DaemonSet starts, since no node has the label."""
    cluster.apply(
        *(
            open(os.path.join(SOURCE, "deploy/base", name), encoding="utf-8").read()
            for name in ("crds.yaml", "namespace.yaml", "divvyd.yaml")
        )
    )
    wait_for(lambda: cluster.exists("/apis/divvy.gpu/v1/gpunodes"), "GPUNode is served", 60)


def libraries_of(program):
    """The files that the loader maps for a program, the loader included; none if the file is no program."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", done.stdout)


def make_image(cluster):
    """An image of spin and the whole C library, without divvy's libraries and without a driver."""
    driver = os.path.join(BUILD, "src/simgpu/libcuda.so.1")
    image_of(cluster, IMAGE, SPIN, *libraries_of(driver), os.path.join(SOURCE, "src/simgpu/kernels.ptx"))


def image_of(cluster, name, program, *more):
    """An image of a program with its libraries, and with more files where they exist here."""
    folder = os.path.join(cluster.dir, "image")
    inside = "/bin/" + os.path.basename(program)
    os.makedirs(os.path.join(folder, "bin"))
    os.makedirs(os.path.join(folder, "tmp"))
    shutil.copy(program, folder + inside)
    for path in [*libraries_of(program), *more]:
        os.makedirs(folder + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, folder + path)
    cluster.import_image(name, folder, [inside])
    shutil.rmtree(folder)


def bound_account(cluster, name="divvyd-beside", node=None):
    """divvyd's account, with a token that names a pod on its node: the webhook accepts no other token."""
    pods = "/api/v1/namespaces/divvy-system/pods"
    pod = cluster.create(
        pods,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": "divvyd",
                "nodeName": node or cluster.node_name,
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "local/pause:1", "imagePullPolicy": "Never"}],
            },
        },
    )
    answer = cluster.create(
        "/api/v1/namespaces/divvy-system/serviceaccounts/divvyd/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": 86400,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]},
            },
        },
    )
    return cluster.account(name, token=answer["status"]["token"], namespace="divvy-system")


class Daemon:
    kubelet_dir = "/var/lib/kubelet"

    def __init__(self, cluster, simulate="1xH200-141Gi", account=None, name="divvyd", node=None):
        """simulate: "" for a node without devices; name: of the process, if there are several."""
        self.cluster = cluster
        self.account = account or cluster.service_account("divvy-system", "divvyd")
        self.name = name
        self.dir = os.path.join(cluster.dir, "divvy" if name == "divvyd" else name)
        self.runtime = os.path.join(self.dir, "run")
        self.grants = os.path.join(self.dir, "grants")
        self.health = os.path.join(self.dir, "health")
        self.simulate = simulate
        self.node = node or cluster.node_name
        # A runtime reads the files of the node's own daemon alone.
        self.cdi_dir = "/var/run/cdi" if name == "divvyd" else os.path.join(self.dir, "cdi")
        self.port = cluster.slot.first + (9 if name == "divvyd" else 10)
        self.hooks = os.path.join(BUILD, "src/hook")
        os.makedirs(self.dir, exist_ok=True)

    def beside(self, name):
        """A second process of this node's divvyd, with the same folders and ports of its own."""
        other = copy.copy(self)
        other.name, other.port = name, self.cluster.slot.first + 10
        other.health = os.path.join(self.dir, "health-" + name)
        return other

    def newer_hooks(self):
        """A folder with the libraries of another version: the same code in other files."""
        folder = os.path.join(self.dir, "hooks")
        os.makedirs(folder)
        for name in ("libdivvy-cuda.so", "libdivvy-nvml.so"):
            shutil.copy(os.path.join(BUILD, "src/hook", name), folder)
            with open(os.path.join(folder, name), "ab") as f:
                f.write(b"a newer version")
        return folder

    def libraries(self):
        """Names of the folders of all versions."""
        return set(os.listdir(os.path.join(self.dir, "state/lib")))

    def make_gpu_node(self, **spec):
        self.cluster.create(
            "/apis/divvy.gpu/v1/gpunodes",
            {
                "apiVersion": "divvy.gpu/v1",
                "kind": "GPUNode",
                "metadata": {"name": self.node},
                "spec": {**({"simulate": self.simulate} if self.simulate else {}), **spec},
            },
        )

    def start(self, *options, **environment):
        self.cluster.keeper.ask(
            "start",
            name=self.name,
            log=self.log,
            env={
                "PATH": os.environ["PATH"],
                "DIVVY_HOOKS": self.hooks,
                "DIVVY_SIM_LIBS": os.path.join(BUILD, "src/simgpu"),
                **environment,
            },
            argv=[
                *self.cluster.node.inside(),
                DIVVYD,
                "--cluster",
                "--kubeconfig",
                self.account.kubeconfig,
                "--node-name",
                self.node,
                "--kubelet-dir",
                self.kubelet_dir,
                "--runtime-dir",
                self.runtime,
                "--state-dir",
                os.path.join(self.dir, "state"),
                "--cdi-dir",
                self.cdi_dir,
                "--cgroup-root",
                "/" + self.cluster.node.seat.group,
                "--log",
                "debug",
                "--grant-log",
                self.grants,
                "--listen",
                f"{self.cluster.slot.address}:{self.port}",
                "--health-listen",
                "unix:" + self.health,
                "--dcgm-metrics=on",
                *options,
            ],
        )

    def cut_power(self):
        """After a kill of divvyd: ends its engine, and removes what is in memory alone. An engine without clients ends
        by itself a second after divvyd."""
        with contextlib.suppress(ProcessLookupError, AssertionError):
            os.kill(self.engine(), signal.SIGKILL)
        shutil.rmtree(self.runtime)

    @property
    def log(self):
        return os.path.join(self.cluster.dir, "log", self.name + ".log")

    def is_ready(self):
        if not self.cluster.pid(self.name):
            raise AssertionError("divvyd has ended: " + "".join(open(self.log, encoding="utf-8").readlines()[-20:]))
        return self.condition("Ready").get("status") == "True"

    def is_probed_ready(self):
        """divvyd says so itself up to a second after it has seen the pods of its node."""
        with contextlib.suppress(OSError, ValueError):
            return self.probe("/readyz") == (200, "ok\n")
        return False

    def await_ready(self):
        wait_for(
            lambda: self.is_ready() and self.answers() and self.is_probed_ready(),
            "GPUNode is Ready, and divvyd answers and says that it is ready",
            60,
        )

    def status(self):
        return self.cluster.get(f"/apis/divvy.gpu/v1/gpunodes/{self.node}").get("status") or {}

    def condition(self, kind):
        return next((c for c in self.status().get("conditions") or [] if c["type"] == kind), {})

    def devices(self):
        return [d["uuid"] for d in self.status()["devices"]]

    def tenants(self):
        """{pod/container: tenant} from GPUNode"""
        return {f"{t['pod']}/{t['container']}": t for t in self.status().get("tenants") or []}

    def tenant(self, name, container="main"):
        """The tenant from GPUNode, which shows it a moment after the grant."""
        wait_for(lambda: f"{name}/{container}" in self.tenants(), f"GPUNode has {name}/{container}")
        return self.tenants()[f"{name}/{container}"]

    def slots_offered(self):
        node = self.cluster.get(f"/api/v1/nodes/{self.node}")["status"]
        return int(node.get("allocatable", {}).get("divvy.gpu/slot", 0))

    def divvy(self, *args):
        done = subprocess.run(
            [DIVVY, *args, "--socket", os.path.join(self.runtime, "divvyd.sock")],
            text=True,
            capture_output=True,
            check=False,
            timeout=patience(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answers(self):
        """Does the daemon run? GPUNode may still show its predecessor's state."""
        with contextlib.suppress(AssertionError):
            self.divvy("ps")
            return True
        return False

    def listed(self):
        """{pod: tenant} from the daemon's own list"""
        return {t["pod"]["name"]: t for t in json.loads(self.divvy("ps", "-o", "json")) if t.get("pod")}

    def used(self, pod):
        return self.listed()[pod]["devices"][0]["used_ns"]

    def got(self, pod):
        return self.listed().get(pod, {"devices": [{"used_permille": -1}]})["devices"][0]["used_permille"]

    def door(self, slot):
        return os.path.join(self.dir, "state/slots", slot, "divvyd.sock")

    def spin_by(self, slot):
        """The daemon's answer to a program of the host at the socket of a slot."""
        hooks = os.path.join(BUILD, "src/hook")
        done = subprocess.run(
            [SPIN, "--count=1"],
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
            env={
                "LD_PRELOAD": os.path.join(hooks, "libdivvy-cuda.so"),
                "DIVVY_ABSENT": "closed",
                "DIVVY_SOCKET": self.door(slot),
                "DIVVY_SIM": os.path.join(self.runtime, "sim"),
                "DIVVY_DRIVER": os.path.join(BUILD, "src/simgpu"),
            },
        )
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def stranger(self, device="0"):
        """An unmanaged process: a program of the host that uses a device without the daemon."""
        process = subprocess.Popen(
            [SPIN, "--kernel-us=500"],
            stdout=subprocess.DEVNULL,
            env={
                "LD_LIBRARY_PATH": os.path.join(BUILD, "src/simgpu"),
                "DIVVY_SIM": os.path.join(self.runtime, "sim"),
                "CUDA_VISIBLE_DEVICES": device,
            },
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def http(self, path, token=None):
        """(status, text)"""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            self.cluster.slot.address, self.port, timeout=patience(30), context=tls
        )
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def probe(self, path):
        """(status, text) of a request as a kubelet's probe, at the port for probes."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(patience())
            s.connect(self.health)
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            head, text = s.makefile("rb").read().decode().split("\r\n\r\n", 1)
            return int(head.split()[1]), text

    def engine(self):
        """The pid of the engine that simulates its devices."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
                if words[0].endswith(b"divvy-sim-engine") and os.path.join(self.runtime, "sim").encode() in words:
                    return int(pid)
        raise AssertionError("there is no engine")

    def shares(self, **asked):
        """Each pod's part of the device time that was used, by the device's trace."""
        listed = self.listed()
        named = [f"{pod}:{listed[pod]['processes'][0]['pid']}:{share}" for pod, share in asked.items()]
        done = subprocess.run(
            [USAGE, "--dir", os.path.join(self.runtime, "sim"), "--json", "--tolerance=1000", *named],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        got = {t["name"]: t["got"] for t in json.loads(done.stdout)["tenants"]}
        return {name: part / sum(got.values()) for name, part in got.items()}, sum(got.values())


def given(devices, *, container="main", request="0.5", limit="1", memory="8Gi", epoch="1", **more):
    """The assigned keys, as a scheduler writes them."""
    keys = {
        "devices": ",".join(devices),
        "granted-request": request,
        "granted-limit": limit,
        "granted-memory": memory,
        **{k.replace("_", "-"): v for k, v in more.items()},
    }
    return {**{f"divvy.gpu/{k}": f"{container}={v}" for k, v in keys.items()}, "divvy.gpu/epoch": epoch}


def create_pod(cluster, name, args, labels=None, namespace=None, container=None, **spec):
    """A pod with a slot, as the webhook returns it; not bound. `container` has more fields of its container."""
    slot = {"divvy.gpu/slot": "1"}
    return cluster.create(
        f"/api/v1/namespaces/{namespace or cluster.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "schedulerName": "divvy-scheduler",
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "args": list(args),
                        "resources": {"limits": slot, "requests": slot},
                        **(container or {}),
                    }
                ],
                **spec,
            },
        },
    )


def bind(cluster, name, annotations, namespace=None, node=None):
    cluster.create(
        f"/api/v1/namespaces/{namespace or cluster.namespace}/pods/{name}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node or cluster.node_name},
        },
    )


def run_pod(cluster, name, args, annotations, namespace=None, **spec):
    create_pod(cluster, name, args, namespace=namespace, **spec)
    bind(cluster, name, annotations, namespace)


def wait_for_pod(cluster, name, *phases):
    try:
        return cluster.wait_for_pod(name, *phases)
    except AssertionError as error:
        raise AssertionError(f"{error}; it has printed: {cluster.log_of(name)}") from None


def delete_pod(cluster, name, grace_s=None, namespace=None):
    cluster.delete(f"/api/v1/namespaces/{namespace or cluster.namespace}/pods/{name}", grace_s=grace_s)


def events_of(cluster, name):
    """{reason: [messages]} of a pod or a GPUNode"""
    found = {}
    for namespace in (cluster.namespace, "default"):
        for e in cluster.get(f"/api/v1/namespaces/{namespace}/events")["items"]:
            if e["involvedObject"].get("name") == name:
                found.setdefault(e["reason"], []).append(e["message"])
    return found
