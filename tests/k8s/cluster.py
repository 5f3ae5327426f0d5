# SPDX-License-Identifier: Apache-2.0
"""Kubernetes for tests: a control plane of the test's own, on request with a real node, or the cluster of KUBECONFIG.

    from cluster import main, open_cluster

    with open_cluster("api", "kcm", "sched") as cluster:
        cluster.create(f"/api/v1/namespaces/{cluster.namespace}/pods", pod)
        someone = cluster.service_account(cluster.namespace, "scheduler", rules=[...])
        someone.kubectl("get", "pods")

The object is the cluster's administrator (an Account: see api.py); divvy's own parts get a service account's kubeconfig. All
started processes belong to a keeper (keeper.py), which ends them when the block ends or the test dies. Each cluster has a
loopback address of its own and ports on it, reserved by an abstract socket, so that any number of clusters run side by side. A
machine has room for two nodes at a time.

With KUBECONFIG set no cluster starts: the tests use that cluster (given.py), in a namespace of their own. They skip, by Skip,
the tests that need a cluster of their own (parts that are killed or get other arguments, images made here)."""

import contextlib
import errno
import functools
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import node as real_node  # noqa: E402
from api import Account, ApiError, write_kubeconfig  # noqa: E402
from pki import Pki  # noqa: E402
from tap import SKIP, Skip, alive, main, patience, skip_all, thaw, wait_for  # noqa: E402,F401

SLOTS = 500  # clusters on one machine at once
FIRST_PORT = 20000
OUTGOING_PORTS = 32768  # the first port that Linux gives to outgoing connections by default
PORTS = {
    "kube-apiserver": 0,
    "etcd": 1,
    "etcd-peer": 2,
    "kube-controller-manager": 3,
    "kube-scheduler": 4,
    "kubelet": 5,
    "kubelet-healthz": 6,
}
PORTS_EACH = 16
START_S = 300  # enough for any start, also on a busy machine
PARTS = {
    "api": ["etcd", "kube-apiserver"],
    "kcm": ["kube-controller-manager"],
    "sched": ["kube-scheduler"],
    "node": ["containerd", "kubelet"],
}
NODE_OF_OURS = "it uses the folders of its node, and images made here"  # a reason for open_cluster's `own`
NAME = re.compile(r"[^a-z0-9]+")
# Kinds whose first stable version is younger than the oldest server here: (minor version that has it, newer, older).
API_VERSIONS = {
    "CronJob": (21, "batch/v1", "batch/v1beta1"),
    "Eviction": (22, "policy/v1", "policy/v1beta1"),
    "HorizontalPodAutoscaler": (23, "autoscaling/v2", "autoscaling/v2beta2"),
    "PodDisruptionBudget": (21, "policy/v1", "policy/v1beta1"),
}


@functools.lru_cache
def built(which):
    """The folder of what `get WHICH` has built, or Skip with the reason."""
    done = subprocess.run(
        [os.path.join(HERE, "get"), "--check", which],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Skip(done.stderr.strip() or f"{which}: not built")
    return done.stdout.strip()


def cache():
    """The folder of the programs of Kubernetes DIVVY_K8S (`newest` by default, or `oldest`), or Skip with the reason."""
    return built(os.environ.get("DIVVY_K8S", "newest"))


def minor_of(folder):
    """The version 1.MINOR of the programs in a folder that `get` has built."""
    return int(os.path.basename(folder).split(".")[1])


def own_minor():
    """The version 1.MINOR of a cluster of the test's own, or Skip."""
    return minor_of(cache())


def check_version(minor, since):
    """Skip if the version 1.MINOR is older than 1.SINCE."""
    if minor < since:
        raise Skip(f"the test needs Kubernetes 1.{since} or later, and this is 1.{minor}")


def of_version(minor):
    """The folder of the built programs of Kubernetes 1.MINOR, or Skip."""
    for which in ("newest", "oldest"):
        with contextlib.suppress(Skip):
            if minor_of(built(which)) == minor:
                return built(which)
    raise Skip(f"tests/k8s/get builds no Kubernetes 1.{minor}, whose kube-scheduler this test runs")


def free_port(address="127.0.0.1"):
    """A port that is free now. It is below the ports of outgoing connections: one of these could take a port that the kernel
    chooses, before the program listens there."""
    while True:
        port = random.SystemRandom().randrange(FIRST_PORT + SLOTS * PORTS_EACH, OUTGOING_PORTS)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, port))
            return port


def unique(prefix):
    return f"{prefix}-{random.SystemRandom().randrange(1 << 40):010x}"


def is_chroot():
    """Is the root of this mount namespace another one? setns(2) into the namespace leads there, so that runc does not enter the
    container's files and `kubectl exec` fails."""
    return (
        subprocess.run(
            ["nsenter", "--mount=/proc/self/ns/mnt", "test", "-e", os.path.abspath(__file__)], check=False
        ).returncode
        != 0
    )


class Keeper:
    """The test's side of keeper.py."""

    def __init__(self, log, hold=()):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(2 * START_S)
        self.lock = threading.Lock()
        with theirs, open(log, "ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "keeper.py"), str(theirs.fileno())],
                cwd="/",
                pass_fds=[theirs.fileno(), *(h.fileno() for h in hold)],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def ask(self, do, **what):
        with self.lock:
            self.ours.send(json.dumps({"do": do, **what}).encode())
            packet = self.ours.recv(1 << 16)
        assert packet, "the keeper has died"
        answer = json.loads(packet)
        assert "error" not in answer, answer["error"]
        return answer

    def undo(self, kind, *args):
        """Registers an undo; call it before the action."""
        self.ask("undo", kind=kind, args=list(args))

    def end(self):
        left = self.ask("end")["left"]
        self.ours.close()
        self.process.wait(START_S)
        assert not left, f"left over: {', '.join(left)}"


class Slot:
    """A loopback address with ports, and a range for services, reserved while a process has `lock` open."""

    def __init__(self):
        for n in range(SLOTS):
            self.lock = socket.socket(socket.AF_UNIX)
            self.address = f"127.64.{n // 250}.{n % 250 + 1}"
            self.first = FIRST_PORT + n * PORTS_EACH
            net = f"198.{18 + n // 256}.{n % 256}"  # from the range for network tests, below node.py's
            self.services = net + ".0/24"
            self.service = net + ".1"  # the API server's, as pods see it
            try:
                self.lock.bind(f"\0divvy-k8s-{n}")
                self.probe()
                return
            except OSError as error:
                self.lock.close()
                if error.errno != errno.EADDRINUSE:
                    raise Skip(f"no ports on the loopback address {self.address}: {error.strerror}") from error
        raise Skip(f"{SLOTS} clusters run here already")

    def probe(self):
        for port in PORTS.values():
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((self.address, self.first + port))

    def port(self, name):
        return self.first + PORTS[name]


def has(account, rule, namespace):
    """May the account do the first action of the rule?"""
    verb = rule["verbs"][0]
    if "nonResourceURLs" in rule:
        return account.may(verb, url=rule["nonResourceURLs"][0])
    resource, _, subresource = rule["resources"][0].partition("/")
    return account.may(
        verb,
        resource,
        subresource=subresource,
        group=rule["apiGroups"][0],
        namespace=namespace,
        name=(rule.get("resourceNames") or [""])[0],
    )


class Tools(Account):
    """Operations of tests on any cluster."""

    own = True  # the test made the cluster and may break it

    def only_own(self, what):
        if not self.own:
            raise Skip(f"{what}: not on the cluster of KUBECONFIG")

    def forget_later(self, path):
        """Registers an object outside of the test's namespaces for deletion at the end of the block."""

    def claim(self):
        """Call before divvy, or a part of it, is installed. Skips on a cluster that has divvy already. At the end of the block
        divvy is uninstalled."""

    def claim_path(self, path):
        """Call before another system is installed. Skips if the object exists, which the system's installation would change."""
        if not self.own and self.exists(path):
            raise Skip(f"the cluster of KUBECONFIG has {path} already: use another cluster")

    def administrator(self):
        """The path of a kubeconfig with all rights and no other program's login, for controllers that the test runs."""
        return self.account("administrator", token=self.token).kubeconfig

    @functools.cached_property
    def minor(self):
        """The server's version 1.MINOR."""
        return int(re.sub("[^0-9]", "", self.get("/version")["minor"]))

    def api_version(self, kind):
        """The newest apiVersion of the kind that this server has."""
        since, newer, older = API_VERSIONS[kind]
        return newer if self.minor >= since else older

    def new_namespace(self, prefix="divvy-test", **labels):
        name = unique(prefix)
        self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        self.forget_later(f"/api/v1/namespaces/{name}")
        if self.makes_accounts():
            wait_for(lambda: self.has_account(name), f"namespace {name} has its service account", START_S)
        return name

    def makes_accounts(self):
        """Does the cluster have a controller manager?"""
        return self.exists("/api/v1/namespaces/default/serviceaccounts/default")

    def has_account(self, namespace):
        """Can pods be created in the namespace? Its default service account must exist and, before 1.24, have its token."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        return self.exists(path) and (self.minor >= 24 or bool(self.get(path).get("secrets")))

    def create_once(self, path, body):
        try:
            return self.create(path, body)
        except ApiError as error:
            if error.code != 409:
                raise
            return None

    def service_account(self, namespace, name, *, rules=None, cluster_rules=None):
        """An Account with that service account's own token. A missing account is created with these rules. The server learns of
        the rules a moment later; the function returns after that."""
        base = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.create_once(base, {"metadata": {"name": name}})
        group, subjects = "rbac.authorization.k8s.io", [
            {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        ]
        for given, kind, path in (
            (rules, "Role", f"/apis/{group}/v1/namespaces/{namespace}/"),
            (cluster_rules, "ClusterRole", f"/apis/{group}/v1/"),
        ):
            if given:
                its_name = name if kind == "Role" else f"{namespace}-{name}"
                self.create(f"{path}{kind.lower()}s", {"metadata": {"name": its_name}, "rules": given})
                self.create(
                    f"{path}{kind.lower()}bindings",
                    {
                        "metadata": {"name": its_name},
                        "subjects": subjects,
                        "roleRef": {"apiGroup": group, "kind": kind, "name": its_name},
                    },
                )
                if kind == "ClusterRole":
                    self.forget_later(f"{path}clusterroles/{its_name}")
                    self.forget_later(f"{path}clusterrolebindings/{its_name}")
        answer = self.create(
            f"{base}/{name}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}},
        )
        account = self.account(f"sa-{namespace}-{name}", token=answer["status"]["token"], namespace=namespace)
        for given, where in ((rules, namespace), (cluster_rules, "")):
            for rule in given or []:
                wait_for(lambda r=rule, w=where: has(account, r, w), f"{name} has {rule}")
        return account

    def account(self, name, namespace="default", **proof):
        """proof: token, or cert"""
        path = os.path.join(self.dir, NAME.sub("-", name) + ".kubeconfig")
        write_kubeconfig(path, self.server, ca=self.ca, namespace=namespace, insecure=self.insecure, **proof)
        return Account(
            self.server, ca=self.ca, kubeconfig=path, kubectl_path=self.kubectl_path, insecure=self.insecure, **proof
        )

    def define(self, crd):
        """Defines a custom resource, established when this returns, and deletes it at the end of the block."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.create(path, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **crd})
        self.forget_later(f"{path}/{crd['metadata']['name']}")

        def established():
            status = self.get(f"{path}/{crd['metadata']['name']}").get("status") or {}
            return any(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or [])

        wait_for(established, f"{crd['metadata']['name']} is established", START_S)
        served = [v["name"] for v in crd["spec"]["versions"] if v["served"]]
        for version in served:  # established a moment later
            wait_for(
                lambda v=version: self.exists(f"/apis/{crd['spec']['group']}/{v}/{crd['spec']['names']['plural']}"),
                f"{crd['metadata']['name']} is served",
                START_S,
            )

    def shell_pod(self, name, script, *, labels=None, annotations=None, container=None, **spec):
        """A pod that runs `script` in a shell once; `container` and `spec` add fields to the container and the pod's spec."""
        image, pull = self.shell_image()
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "main",
                        "image": image,
                        "imagePullPolicy": pull,
                        "command": ["sh", "-c", script],
                        **(container or {}),
                    }
                ],
                **spec,
            },
        }

    def pod(self, name, namespace=None):
        return self.get(f"/api/v1/namespaces/{namespace or self.namespace}/pods/{name}")

    def wait_for_pod(self, name, *phases, namespace=None):
        """Waits until the pod is in one of these phases and returns it."""
        seen = {}

        def there():
            seen["pod"] = self.pod(name, namespace)
            return seen["pod"]["status"].get("phase") in phases

        try:
            wait_for(there, f"pod {name} is {' or '.join(phases)}", START_S)
        except AssertionError as error:
            events = self.get(f"/api/v1/namespaces/{namespace or self.namespace}/events")["items"]
            said = [f"{e['reason']}: {e['message']}" for e in events if e["involvedObject"].get("name") == name]
            raise AssertionError(f"{error}: {seen['pod']['status']} {said}") from None
        return seen["pod"]

    def log_of(self, name, namespace=None):
        return self.get(f"/api/v1/namespaces/{namespace or self.namespace}/pods/{name}/log")

    # ---- parts that the test has started

    def end_of_log(self, name, lines):
        with open(os.path.join(self.dir, "log", name + ".log"), encoding="utf-8", errors="replace") as f:
            return f.readlines()[-lines:]

    def show_logs(self):
        folder = os.path.join(self.dir, "log")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        for name in sorted(n.removesuffix(".log") for n in names if n.endswith(".log")):
            for line in self.end_of_log(name, 15):
                print(f"# {name}: {line.rstrip()[:400]}")
        sys.stdout.flush()

    def pid(self, name):
        """The pid of a running part, else None."""
        return self.keeper.ask("status", name=name)["pid"]

    def send_signal(self, name, sig):
        assert self.keeper.ask("signal", name=name, sig=int(sig))["pid"], f"{name} does not run"

    def kill(self, name, sig=signal.SIGKILL):
        """Kills a part, also a stopped one; it has ended when this returns."""

        def ended():
            pid = self.pid(name)
            if pid:
                thaw(pid)
            return not pid

        self.send_signal(name, sig)
        wait_for(ended, f"{name} has ended")

    def freeze(self, name):
        self.send_signal(name, signal.SIGSTOP)

    def thaw(self, name):
        self.send_signal(name, signal.SIGCONT)

    # ---- nodes

    def fake_node(self, name, *, labels=None, **resources):
        """A Ready node without a kubelet: fake_node("n1", cpu="8", memory="8Gi", **{"divvy.gpu/slot": "64"})"""
        resources = {"cpu": "8", "memory": "16Gi", "pods": "110", **resources}
        self.create(
            "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}}
        )
        conditions = [{"type": "Ready", "status": "True", "reason": "MadeUp", "message": "has no kubelet"}]
        self.patch(
            f"/api/v1/nodes/{name}/status",
            {"status": {"capacity": resources, "allocatable": resources, "conditions": conditions}},
            "strategic",
        )
        return self.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})


class Cluster(Tools):
    """A cluster of the test's own. `args`: {program: more arguments}; `parts`: keys of PARTS, "api" is always there; `alone`:
    no other node runs on the machine."""

    def __init__(self, *parts, args=None, alone=False):
        unknown = set(parts) - set(PARTS)
        assert not unknown, f"parts {unknown}: of {', '.join(PARTS)}"
        self.parts = ("api", *(p for p in PARTS if p in parts and p != "api"))
        self.args = args or {}
        self.alone = alone
        self.cache = cache()
        self.bin = os.path.join(self.cache, "bin")
        self.minor = own_minor()
        self.commands = {}  # how a part was started
        self.keeper = None
        self.node = None
        self.is_interactive = False  # True: a signal ends the program without showing logs

    def __enter__(self):
        if "node" in self.parts:
            real_node.can_be_had(self.bin)
        self.slot = Slot()
        self.dir = tempfile.mkdtemp(prefix="divvy-k8s-")
        self.keeper = Keeper(os.path.join(self.dir, "keeper.log"), hold=[self.slot.lock])
        self.slot.lock.close()
        self.keeper.undo("tree", self.dir)
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, _):
        keeper, self.keeper = self.keeper, None
        if not keeper:
            return
        well = not kind or kind is Skip or (kind is SystemExit and not value.code)
        is_ended = kind is KeyboardInterrupt or (kind is SystemExit and value.code == 128 + signal.SIGTERM)
        if not well and not (is_ended and self.is_interactive):
            self.show_logs()
            if os.environ.get("DIVVY_TEST_HOLD"):
                input(f"# held at {self.dir}: press enter")
        try:
            keeper.end()
        except AssertionError:
            if well:  # otherwise the test's own error matters more
                raise

    # ---- the start

    def start(self):
        for folder in ("log", "etcd"):
            os.mkdir(os.path.join(self.dir, folder), 0o700)
        self.pki = Pki(os.path.join(self.dir, "pki"))
        self.make_accounts()
        for part in self.parts:
            getattr(self, "start_" + part)()
        self.namespace = self.new_namespace()

    def make_accounts(self):
        server = f"https://{self.slot.address}:{self.slot.port('kube-apiserver')}"
        self.kubeconfigs = {}
        with open(os.path.join(self.dir, "pki/tokens.csv"), "w", encoding="ascii") as f:
            for name, user, group in (
                ("admin", "admin", "system:masters"),
                ("kube-controller-manager", "system:kube-controller-manager", ""),
                ("kube-scheduler", "system:kube-scheduler", ""),
                ("kubelet", "system:node:" + self.node_name, "system:nodes"),
            ):
                token = f"{random.SystemRandom().getrandbits(128):032x}"
                f.write(f'{token},{user},{name},"{group}"\n')
                self.kubeconfigs[name] = os.path.join(self.dir, name + ".kubeconfig")
                write_kubeconfig(self.kubeconfigs[name], server, ca=self.pki.ca, token=token)
                if name == "admin":
                    Account.__init__(
                        self,
                        server,
                        ca=self.pki.ca,
                        token=token,
                        kubeconfig=self.kubeconfigs[name],
                        kubectl_path=os.path.join(self.bin, "kubectl"),
                    )

    node_name = "divvy-node"

    def run(self, name, *argv, program=None):
        """Starts a part; its log is log/NAME.log."""
        self.commands[name] = [os.path.join(self.bin, program or name), *argv, *self.args.get(name, [])]
        self.run_again(name)

    def run_again(self, name, wrap=()):
        env = {
            "PATH": f"{self.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
            "HOME": self.dir,
        }
        self.keeper.ask(
            "start",
            name=name,
            argv=[*wrap, *self.commands[name]],
            env=env,
            log=os.path.join(self.dir, "log", name + ".log"),
        )

    def await_part(self, name, ready):
        def there():
            if not self.pid(name):
                code = self.keeper.ask("status", name=name)["exit"]
                raise AssertionError(f"{name} has ended with {code}: {''.join(self.end_of_log(name, 3))}")
            try:
                return ready()
            except (OSError, ApiError):
                return False

        wait_for(there, f"{name} is ready", START_S)

    def start_api(self):
        etcd, peer = (f"http://{self.slot.address}:{self.slot.port(p)}" for p in ("etcd", "etcd-peer"))
        self.run(
            "etcd",
            "--data-dir",
            os.path.join(self.dir, "etcd"),
            "--listen-client-urls",
            etcd,
            "--advertise-client-urls",
            etcd,
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            "default=" + peer,
            "--unsafe-no-fsync",
            # A single etcd need not wait for other members.
            "--heartbeat-interval=20",
            "--election-timeout=200",
        )
        names = [f"IP:{self.slot.address}", f"IP:{self.slot.service}", "DNS:localhost"]
        names += ["DNS:" + ".".join(["kubernetes", "default", "svc"][:n]) for n in (1, 2, 3)]
        cert, key = self.pki.sign("apiserver", "kube-apiserver", alternatives=",".join(names))
        client_cert, client_key = self.pki.sign("kubelet-client", "apiserver-kubelet-client", ["system:masters"])
        front = Pki(os.path.join(self.dir, "front"))  # an authority of its own: its owner may impersonate any user
        front_cert, front_key = front.sign("front", "front-proxy-client")
        private, public = self.pki.key_pair("sa")
        self.run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--bind-address={self.slot.address}",
            f"--secure-port={self.slot.port('kube-apiserver')}",
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={cert}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.pki.ca}",
            f"--token-auth-file={self.dir}/pki/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # This plugin needs tokens that the controller manager makes.
            *([] if "kcm" in self.parts else ["--disable-admission-plugins=ServiceAccount"]),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={private}",
            f"--service-cluster-ip-range={self.slot.services}",
            "--allow-privileged=true",
            # Without a kube-proxy the server calls webhooks at their endpoints.
            "--enable-aggregator-routing=true",
            f"--requestheader-client-ca-file={front.ca}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={front_cert}",
            f"--proxy-client-key-file={front_key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={client_cert}",
            f"--kubelet-client-key={client_key}",
        )
        self.await_api()

    def await_api(self):
        self.await_part(
            "kube-apiserver", lambda: self.get("/readyz") == "ok" and self.exists("/api/v1/namespaces/default")
        )

    def start_kcm(self):
        # A fake node sends no heartbeats: without a real node, nodelifecycle must not mark it as lost.
        own = self.args.get("kube-controller-manager", [])
        quiet = "node" in self.parts or any(a.startswith("--controllers") for a in own)
        self.run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfigs['kube-controller-manager']}",
            "--leader-elect=false",
            f"--bind-address={self.slot.address}",
            f"--secure-port={self.slot.port('kube-controller-manager')}",
            *self.no_insecure_port(),
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.pki.folder}/sa.key",
            f"--root-ca-file={self.pki.ca}",
            *([] if quiet else ["--controllers=*,-nodelifecycle"]),
        )
        self.await_kcm()

    def no_insecure_port(self):
        """The option that closes the insecure port, which servers since 1.24 lack."""
        return ["--port=0"] if self.minor < 24 else []

    def await_kcm(self):
        self.await_part(
            "kube-controller-manager", lambda: self.healthy("kube-controller-manager") and self.has_account("default")
        )

    def start_sched(self):
        self.run(
            "kube-scheduler",
            f"--kubeconfig={self.kubeconfigs['kube-scheduler']}",
            "--leader-elect=false",
            f"--bind-address={self.slot.address}",
            f"--secure-port={self.slot.port('kube-scheduler')}",
            *self.no_insecure_port(),
        )
        self.await_sched()

    def await_sched(self):
        self.await_part("kube-scheduler", lambda: self.healthy("kube-scheduler"))

    def healthy(self, name):
        """Is a part with a self-signed certificate healthy?"""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(
            f"https://{self.slot.address}:{self.slot.port(name)}/healthz", timeout=patience(10), context=tls
        ) as response:
            return response.read() == b"ok"

    def start_node(self):
        self.node = real_node.Node(self, self.alone)
        self.node.start()

    # ---- faults

    def restart(self, name, sig=signal.SIGKILL, wait=True):
        """Kills a running part, and starts it with its former arguments; ready when this returns, unless wait is false."""
        if self.pid(name):
            self.kill(name, sig)
        if self.node and name in PARTS["node"]:
            self.node.run_again(name)
        else:
            self.run_again(name)
        if wait:
            self.await_ready(name)

    def await_ready(self, name):
        if self.node and name in PARTS["node"]:
            self.node.await_ready(name)
        else:
            {
                "etcd": self.await_api,
                "kube-apiserver": self.await_api,
                "kube-controller-manager": self.await_kcm,
                "kube-scheduler": self.await_sched,
            }[name]()

    # ---- accounts, nodes, images

    def user(self, name, groups=()):
        """An Account of a person, by a client certificate."""
        file_name = unique(NAME.sub("-", name))
        return self.account(f"user-{file_name}", cert=self.pki.sign(file_name, name, groups))

    def shell_image(self):
        return "local/busybox:1", "Never"

    def import_image(self, name, folder, entrypoint, env=("PATH=/bin",)):
        """Makes an image from a folder on the node; pods name it with imagePullPolicy Never."""
        self.node.import_image(name, folder, entrypoint, env)


def open_cluster(*parts, args=None, optional=None, own="", alone=False, since=0):
    """For a with statement. own: the reason for which the test needs a cluster made by us, such as parts that the test kills;
    optional: (MINOR, args) of a cluster of ours that is at least 1.MINOR, such as feature gates, without which some tests of the
    file skip; alone: the test measures, so no other node runs on the machine; since: oldest version 1.SINCE for the test.
    """
    if not os.environ.get("KUBECONFIG"):
        check_version(own_minor(), since)
        if optional and own_minor() >= optional[0]:
            args = {**(args or {}), **optional[1]}
        return Cluster(*parts, args=args, alone=alone)
    if os.environ.get("DIVVY_K8S"):
        raise Skip(f"DIVVY_K8S={os.environ['DIVVY_K8S']} has no effect on the cluster of KUBECONFIG")
    changed = [name for name, values in (args or {}).items() if values]
    if own or changed:
        raise Skip(f"not on the cluster of KUBECONFIG: {own or 'it gives other arguments to ' + ', '.join(changed)}")
    from given import Given  # given.py needs this file

    return Given(*parts, since=since)
