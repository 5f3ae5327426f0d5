# SPDX-License-Identifier: Apache-2.0
"""The cluster of KUBECONFIG, on which tests run as the file's user, beside what else is there.

Each object that this user makes outside of the test's own namespaces is deleted at the end of the block. If the test installs
divvy, deploy/uninstall removes divvy, and the marks that divvy has put on namespaces and nodes go, too."""

import base64
import contextlib
import datetime
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

from api import Account, ApiError
from cluster import HERE, START_S, Keeper, Skip, Tools, check_version, unique, wait_for
from pki import Pki

COLLECTION = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/([^/]+)/)?([^/?]+)$")
APPLIED = re.compile(r"^(\S+)/(\S+) (?:created|serverside-applied)$", re.MULTILINE)
FIRST_REMOVED = ("webhookconfigurations", "apiservices")  # while these stay, other deletions may fail
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
HEARTBEAT_S = 5
WAIT_S = 1200  # other tests on the same cluster may take long
DIVVY = (
    "/api/v1/namespaces/divvy-system",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpunodes.divvy.gpu",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/divvy",
)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def programs():
    """Paths at which a kubectl may be."""
    for folder in os.environ.get("PATH", "").split(":"):
        yield os.path.join(folder, "kubectl")
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield from glob.glob(os.path.join(glob.escape(caches), "divvy/k8s-*/bin/kubectl"))


class Given(Tools):
    """The cluster, through `kubectl proxy`, which knows every way to log in."""

    own = False
    node = None  # no kubelet of ours
    node_name = None
    server = None  # not known yet

    def __init__(self, *parts, since=0):
        self.parts, self.since = parts, since
        self.dir = tempfile.mkdtemp(prefix="divvy-k8s-")
        self.spaces = set()  # the test's own namespaces
        self.made = []  # paths of objects outside of them
        self.applied = []  # (kind.group, name) of objects that kubectl has made
        self.marks = None  # before divvy was installed
        self.nodes = set()  # nodes without a kubelet
        self.heart = None
        self.ends = threading.Event()
        self.keeper = None  # of the parts that the test starts
        self.last_keeper = None  # of what is needed until the end
        self.kubectl_path = next((p for p in programs() if os.access(p, os.X_OK)), None)
        if not self.kubectl_path:
            raise Skip("KUBECONFIG is set, but there is no kubectl in the path")

    def __enter__(self):
        self.keeper, self.last_keeper = (Keeper(os.path.join(self.dir, name)) for name in ("keeper.log", "last.log"))
        self.last_keeper.undo("tree", self.dir)
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, _):
        keeper, self.last_keeper = self.last_keeper, None
        if not keeper:
            return
        well = not kind or kind is Skip or (kind is SystemExit and not value.code)
        try:
            self.clean_up()
        except BaseException:
            well = False
            raise
        finally:
            if not well:
                self.show_logs()
            self.ends.set()
            if self.heart:
                self.heart.join()
            keeper.end()

    # ---- the start

    def start(self):
        os.mkdir(os.path.join(self.dir, "log"))
        self.pki = Pki(os.path.join(self.dir, "pki"))  # for servers of the tests
        done = subprocess.run(
            [self.kubectl_path, "config", "view", "--raw", "--minify", "--flatten", "-o", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"KUBECONFIG={os.environ['KUBECONFIG']}: {done.stderr}"
        config = json.loads(done.stdout)
        its = config["clusters"][0]["cluster"]
        ca = None
        if its.get("certificate-authority-data"):
            ca = os.path.join(self.dir, "ca.crt")
            with open(ca, "wb") as f:
                f.write(base64.b64decode(its["certificate-authority-data"]))
        kubeconfig = self.write_private("admin.kubeconfig", done.stdout)
        proxy = os.path.join(self.dir, "proxy.sock")
        self.last_keeper.ask(
            "start",
            name="kubectl",
            env=dict(os.environ),
            log=os.path.join(self.dir, "log/kubectl.log"),
            argv=[self.kubectl_path, "proxy", "--unix-socket", proxy],
        )
        wait_for(lambda: os.path.exists(proxy), "kubectl proxy serves", START_S)
        Account.__init__(
            self,
            its["server"],
            ca=ca,
            kubeconfig=kubeconfig,
            kubectl_path=self.kubectl_path,
            proxy=proxy,
            insecure=bool(its.get("insecure-skip-tls-verify")),
        )
        version = self.get("/version")["gitVersion"]
        check_version(self.minor, self.since)
        self.namespace = self.new_namespace()
        self.token = config["users"][0]["user"].get("token") or self.administrators_token()
        print(f"# on {self.server}, Kubernetes {version}, in namespace {self.namespace}", flush=True)

    def write_private(self, name, text):
        path = os.path.join(self.dir, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def administrators_token(self):
        """For programs that cannot log in as the file's user does."""
        rules = [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]
        return self.service_account(self.namespace, "administrator", cluster_rules=rules).token

    def claim(self):
        if self.marks is not None:
            return
        self.wait_for_others()
        for path in DIVVY:
            if self.exists(path):
                raise Skip(
                    f"divvy is installed on the cluster of KUBECONFIG ({path}): use another cluster, or uninstall it"
                )
        self.marks = self.divvy_marks()

    def wait_for_others(self):
        """Only one test on this machine installs divvy on the cluster at a time."""
        name = "\0divvy-k8s-given-" + hashlib.sha256(self.server.encode()).hexdigest()[:16]
        if not self.last_keeper.ask("hold", address=name)["held"]:
            print("# another test has divvy on the cluster; waiting", flush=True)
            wait_for(lambda: self.last_keeper.ask("hold", address=name)["held"], "no other test uses divvy", WAIT_S)

    def divvy_marks(self):
        """{(path, "labels" or "annotations", key)} of divvy's keys on namespaces and nodes"""
        found = set()
        for base in ("/api/v1/namespaces", "/api/v1/nodes"):
            for obj in self.get(base)["items"]:
                for member in ("labels", "annotations"):
                    keys = [k for k in obj["metadata"].get(member) or {} if k.startswith("divvy.gpu/")]
                    found |= {(f"{base}/{obj['metadata']['name']}", member, k) for k in keys}
        return found

    # ---- what the test makes

    def request(self, method, path, body=None, **kw):
        answer = super().request(method, path, body, **kw)
        if method == "POST":
            self.note(path, answer)
        return answer

    def note(self, path, answer):
        """Remembers an object outside of the test's own namespaces. Reviews and subresources are no objects."""
        collection, _, query = path.partition("?")
        found = COLLECTION.fullmatch(collection)
        name = answer.get("metadata", {}).get("name") if isinstance(answer, dict) else None
        if not found or not name or "dryRun" in query:
            return
        namespace, resource = found.groups()
        if resource == "namespaces":
            self.spaces.add(name)
        if namespace not in self.spaces:
            self.forget_later(f"{collection}/{name}")

    def kubectl(self, *args, **kw):
        done = super().kubectl(*args, **kw)
        self.applied += APPLIED.findall(done if isinstance(done, str) else done[1])
        return done

    def forget_later(self, path):
        if path not in self.made:
            self.made.append(path)

    # ---- the end

    def clean_up(self):
        """Parts of divvy answer webhooks as long as there are some, and then end: they would make objects anew."""
        if not self.server:
            self.keeper.end()
            return
        for path in self.cluster_wide():
            self.forget_later(path)
        first = [p for p in self.made if any(word in p for word in FIRST_REMOVED)]
        for path in first:
            self.remove(path)
        self.keeper.end()
        for path in reversed(self.made):
            self.remove(path)
        if self.marks is not None:
            self.uninstall()
        for path in self.made:
            wait_for(lambda p=path: self.is_removed(p), f"{path} is deleted", START_S)

    def cluster_wide(self):
        """Paths of the cluster-wide objects that kubectl has made."""
        bases = {}
        groups = self.get("/apis")["groups"] if self.applied else []
        for root in ["/api/v1", *("/apis/" + g["preferredVersion"]["groupVersion"] for g in groups)]:
            with contextlib.suppress(ApiError):  # a group whose server is gone
                for r in self.get(root)["resources"]:
                    group = root.split("/")[2] if root != "/api/v1" else ""
                    if not r["namespaced"] and "/" not in r["name"]:
                        bases[f"{r['kind'].lower()}.{group}".rstrip(".")] = f"{root}/{r['name']}"
        return [f"{bases[kind]}/{name}" for kind, name in self.applied if kind in bases]

    def remove(self, path):
        with contextlib.suppress(ApiError, OSError):  # is_removed() tries again
            self.end_pods(path)
            self.delete(path)

    def end_pods(self, path):
        """A pod on a node without a kubelet ends only if it is deleted without its time to end."""
        if re.fullmatch("/api/v1/namespaces/[^/]+", path):
            self.delete(path + "/pods", grace_s=0)

    def is_removed(self, path):
        try:
            metadata = self.get(path)["metadata"]
        except ApiError as error:
            return error.code == 404
        if metadata.get("deletionTimestamp"):
            self.end_pods(path)
        else:
            self.remove(path)
        return False

    def uninstall(self):
        """Pods of the DaemonSet may be on nodes without a kubelet, which are gone by now."""
        self.delete("/apis/apps/v1/namespaces/divvy-system/daemonsets/divvyd")
        self.end_pods("/api/v1/namespaces/divvy-system")
        done = subprocess.run(
            [os.path.join(HERE, "../../deploy/uninstall"), "--all"],
            env={**os.environ, "KUBECTL": f"{self.kubectl_path} --kubeconfig={self.kubeconfig}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(f"# deploy/uninstall: {done.stderr.strip()}", flush=True)
        for path, member, key in self.divvy_marks() - self.marks:
            if path not in self.made:
                self.patch(path, {"metadata": {member: {key: None}}})

    # ---- accounts, nodes, images

    def user(self, name, groups=()):
        """An Account of a person: the file's user acts for that person."""
        assert len(groups) <= 1, "one group at most"
        with open(self.kubeconfig, encoding="utf-8") as f:
            config = json.load(f)
        config["users"][0]["user"] |= {"as": name, "as-groups": list(groups)}
        return Account(
            self.server,
            kubeconfig=self.write_private(unique("user") + ".kubeconfig", json.dumps(config)),
            kubectl_path=self.kubectl_path,
            proxy=self.proxy,
            headers={"Impersonate-User": name, **({"Impersonate-Group": groups[0]} if groups else {})},
        )

    def fake_node(self, name, **how):
        """The heartbeats keep the node Ready."""
        made = super().fake_node(name, **how)
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()}
        self.create_once(LEASES, {"metadata": {"name": name}, "spec": spec})
        self.nodes.add(name)
        if not self.heart:
            self.heart = threading.Thread(target=self.beat)
            self.heart.start()
        return made

    def beat(self):
        while not self.ends.wait(HEARTBEAT_S):
            for name in list(self.nodes):
                with contextlib.suppress(ApiError, OSError):  # its test has removed it
                    self.patch(f"{LEASES}/{name}", {"spec": {"renewTime": now()}})

    def shell_image(self):
        image = os.environ.get("DIVVY_TEST_IMAGE")
        if not image:
            raise Skip("pods on the cluster of KUBECONFIG need DIVVY_TEST_IMAGE, an image that has a shell")
        return image, "IfNotPresent"

    def import_image(self, *_):
        self.only_own("images made here")

    def restart(self, *_, **_how):
        self.only_own("restarting a part")
