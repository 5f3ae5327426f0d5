# SPDX-License-Identifier: Apache-2.0
"""divvyd as DRA driver beside an API server in this process (stub_api.py) and a kubelet that only asks what the test wants
(tests/programs/dra-kubelet). A claim is allocated by the test, as kube-scheduler would leave it."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

from rig import BUILD, DIVVYD, Rig, alive, main, patience, wait_for  # noqa: E402,F401
from stub_api import StubApi  # noqa: E402
from tap import Skip, skip_all  # noqa: E402,F401

KUBELET = os.path.join(BUILD, "tests/programs/dra-kubelet")
STEPPER = os.path.join(BUILD, "tests/component/chaos/stepper")
SPACE = "team"
NODE = "node-a"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{SPACE}/resourceclaims"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
GPUNODE = f"/apis/divvy.gpu/v1/gpunodes/{NODE}"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SKIPPED = 77
signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the exit ends all that was started
KNOWN = ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


def checkpoint_claims(text):
    """The prepared claims of a checkpoint, as its next reader sees them."""
    claims = {}
    for line in text.splitlines(keepends=True)[1:]:
        if not line.endswith("\n"):
            break
        change = json.loads(line)
        if "unprepared" in change:
            claims.pop(change["unprepared"], None)
        else:
            claims[change["prepared"]["uid"]] = change["prepared"]
    return list(claims.values())


class DraRig(Rig):
    """A Rig whose daemon serves a node."""

    def __init__(self, simulate="1xH200-141Gi"):
        super().__init__(daemon=False, simulate=simulate)
        self.api = StubApi(self.dir)
        self.path = {
            name: os.path.join(self.dir, name)
            for name in ("node-state", "kubelet/plugins/divvy.gpu", "kubelet/plugins_registry", "log")
        }
        # As on a node: the folder of CDI files is in memory.
        self.path["cdi"] = tempfile.mkdtemp(prefix="divvy-test-", dir="/dev/shm")
        os.makedirs(self.path["kubelet/plugins/divvy.gpu"])
        os.makedirs(self.path["kubelet/plugins_registry"])
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [
                {"name": "c", "cluster": {"server": self.api.url, "certificate-authority": self.api.certificate}}
            ],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        with open(os.path.join(self.dir, "kubeconfig"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        self.api.store.create(GPUNODE, {"spec": {"simulate": simulate}})
        self.api.store.create(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"divvy.gpu/owner": "dra"}}})
        self.start()

    def __exit__(self, *exception):
        if exception[0]:
            sys.stderr.writelines(f"# {line}\n" for line in self.log().splitlines()[-40:])
        super().__exit__(*exception)
        shutil.rmtree(self.path["cdi"], ignore_errors=True)
        self.api.end()

    def spawn_daemon(self, *options):
        with open(self.path["log"], "ab") as log:
            return subprocess.Popen(
                [
                    DIVVYD,
                    "--cluster",
                    "--dra",
                    "--kubeconfig",
                    os.path.join(self.dir, "kubeconfig"),
                    "--node-name",
                    NODE,
                    "--kubelet-dir",
                    os.path.join(self.dir, "kubelet"),
                    "--runtime-dir",
                    self.dir,
                    "--state-dir",
                    self.path["node-state"],
                    "--cdi-dir",
                    self.path["cdi"],
                    "--log",
                    "debug",
                    *options,
                ],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start(self, *options):
        self.daemon = self.spawn_daemon(*options)
        wait_for(self.serves, "divvyd serves")

    def serves(self):
        assert self.daemon.poll() is None, self.log()[-4000:]
        return self.divvy("ps").returncode == 0 and self.sockets("kubelet/plugins/divvy.gpu")

    def log(self):
        with open(self.path["log"], encoding="utf-8", errors="replace") as f:
            return f.read()

    def restart(self):
        """Starts divvyd after a kill."""
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
        self.daemon.wait(patience())
        self.start()

    def sockets(self, name):
        return [s for s in os.listdir(self.path[name]) if s.endswith(".sock")]

    # ---- claims

    def uuid(self, n=0):
        return self.json("devices", "-o", "json")[n]["uuid"]

    def device(self, form="share", n=0):
        return f"{form}-{self.uuid(n)[4:].lower()}"

    def claim(self, name, milli=10, memory="64Mi", config=(), **result):
        """Makes a claim that is allocated and reserved: the words that name it in a request."""
        result.setdefault("device", self.device())
        if result["device"].startswith("share-"):
            result.setdefault("shareID", "5a0a9f33-0f22-4f8a-a2bd-000000000000")
            result.setdefault("consumedCapacity", {"share": str(milli), "memory": memory})
        results = [{"request": "gpu", "driver": "divvy.gpu", "pool": NODE, **result}]
        claim = self.api.store.create(
            f"{CLAIMS}/{name}",
            {
                "spec": {"devices": {"requests": [{"name": "gpu"}]}},
                "status": {
                    "allocation": {"devices": {"results": results, "config": list(config)}},
                    "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-of-{name}"}],
                },
            },
        )
        return [SPACE, name, claim["metadata"]["uid"]]

    def annotate(self, name, **values):
        """Changes annotations of the claim, with the label that the webhook adds: limit="0.5", or None."""
        annotations = {f"divvy.gpu/{key}": value for key, value in values.items()}
        meta = {"annotations": annotations, "labels": {"divvy.gpu/live": "true"}}
        self.api.store.update(f"{CLAIMS}/{name}", {"metadata": meta})

    # ---- the kubelet

    def register(self, *versions, at="kubelet/plugins_registry"):
        """Registers the driver as a kubelet that knows these versions of services: "DRIVER ENDPOINT VERSION"."""
        return self.ask_ok("register", *versions or KNOWN, at=at).split()

    def ask(self, *words, at="kubelet/plugins/divvy.gpu", **environment):
        """(standard output, refusal) of a request."""
        done = subprocess.run(
            [KUBELET, self.path.get(at, at), *words],
            env={**self.env, **environment},
            capture_output=True,
            text=True,
            timeout=patience(120),
            check=False,
        )
        return done.stdout, done.stderr or "failed" if done.returncode else ""

    def ask_ok(self, *words, **how):
        out, refusal = self.ask(*words, **how)
        assert not refusal, refusal
        return out

    def published(self):
        """{name: device} of the slices, if they are complete."""
        found, _ = self.api.store.list(SLICES, lambda _: True)
        if any(s["spec"]["pool"]["resourceSliceCount"] != len(found) for s in found):
            return {}
        return {d["name"]: d for s in found for d in s["spec"].get("devices") or []}

    # ---- what exists

    def tenants(self):
        return [t for t in self.json("ps", "-o", "json") if t.get("pod")]

    def cdi_files(self):
        with contextlib.suppress(FileNotFoundError):
            return sorted(f for f in os.listdir(self.path["cdi"]) if f.startswith("divvy.gpu-"))
        return []

    def checkpoint(self):
        """The prepared claims on the disk."""
        try:
            with open(os.path.join(self.path["node-state"], "claims.jsonl"), encoding="utf-8") as f:
                return checkpoint_claims(f.read())
        except FileNotFoundError:
            return []

    def is_consistent(self):
        """Each claim on the disk has its tenants and CDI files, and nothing else has any."""
        slots = sorted(str(t["slot"]) for c in self.checkpoint() for t in c["tenants"])
        files = sorted(f.rsplit("_", 1)[1].removesuffix(".json") for f in self.cdi_files())
        listed = sorted(t["pod"]["slot"] for t in self.tenants())
        assert slots == files == listed, (slots, files, listed)
        tops = (self.dir, self.path["cdi"])
        names = [f for top in tops for _, _, found in os.walk(top) for f in found if f.endswith("~")]
        left = [f for f in names if f.rsplit(".", 1)[1].split("-")[0] != f"{self.daemon.pid:x}"]
        assert not left, left

    def is_empty(self):
        return not self.tenants() and not self.checkpoint() and not self.cdi_files()

    def limit_files(self, size):
        """The daemon writes no file beyond this size; -1: any. Its log is a file, too, so it must be short."""
        infinity = resource.RLIM_INFINITY
        resource.prlimit(self.daemon.pid, resource.RLIMIT_FSIZE, (infinity if size < 0 else size, infinity))
