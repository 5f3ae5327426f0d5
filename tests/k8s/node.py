# SPDX-License-Identifier: Apache-2.0
"""The node of a test cluster: the real kubelet, containerd and runc, in a mount namespace of their own.

The folders that the kubelet and containerd insist on (/var/lib/kubelet and others) are folders of the
cluster's own there. Outside, the same files are under Node.kubelet_dir, sockets included; Node.enter runs a
program inside. What is the machine's (cgroups, a bridge, settings of the kernel) the keeper puts back.
One node at a time on a machine: the next one waits.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

from image import make_image
from tap import Skip, wait_for

LOCK = "\0divvy-k8s-node"
LOCK_S = 1200  # another's tests may take long
START_S = 300
GROUP = "divvy-k8s"  # our part of every cgroup tree
BRIDGE = "divvyk8s0"
ADDRESS = "198.19.244.1"  # of a range for tests of networks
PODS = "198.19.244.0/24"
SERVICE = "198.19.245.1"  # the API server's, as pods see it
HERE = os.path.dirname(os.path.abspath(__file__))
SYSCTLS = ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
           "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward"]
NEEDED = {"cpu", "cpuacct", "cpuset", "memory"}
NEEDED_V2 = {"cpu", "cpuset", "memory", "pids"}
# What is found at these places inside, and whether the place must be made outside.
PLACES = {"kubelet": "/var/lib/kubelet", "cni-state": "/var/lib/cni", "run-containerd": "/run/containerd",
          "netns": "/run/netns", "log-pods": "/var/log", "run-divvy": "/run/divvy", "state-divvy": "/var/lib/divvy",
          "cdi": "/var/run/cdi", "lock": "/run/lock"}
NAMESPACE_SCRIPT = """\
set -e
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
mount --make-rshared /
touch "$2"
exec sleep infinity
"""


def words_of(path):
    with open(path, encoding="ascii") as f:
        return set(f.read().split())


def cgroup_trees():
    """{mount point: its controllers} of version 1, and the same of version 2, which there is one of at most."""
    trees, unified = {}, {}
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for line in f:
            before, _, after = line.partition(" - ")
            point, (kind, _, options) = before.split()[4], after.split()
            if kind == "cgroup":
                trees[point] = set(options.split(","))
            elif kind == "cgroup2":
                unified[point] = words_of(os.path.join(point, "cgroup.controllers"))
    return trees, unified


def cgroups_used():
    """{mount point: its controllers} of what a node here uses; Skip says what is missing."""
    trees, unified = cgroup_trees()
    lacking = NEEDED - set().union(*trees.values())
    if not lacking:
        return trees
    for controllers in unified.values():
        if NEEDED_V2 <= controllers:
            return unified
    raise Skip(f"a kubelet needs the cgroup controllers {', '.join(sorted(lacking))}, which are not mounted")


def unshared(*argv):
    return subprocess.run(["unshare", "--mount", "--propagation", "private", *argv], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)


def can_be_had(programs):
    """Skip says why no node can run here."""
    if os.geteuid() != 0:
        raise Skip("only root can run a kubelet")
    for program in ("unshare", "nsenter", "ip"):
        if not shutil.which(program):
            raise Skip(f"a node needs {program}")
    done = unshared("mount", "-t", "tmpfs", "none", "/mnt")
    if done.returncode:
        raise Skip(f"a node needs mounts of its own: {done.stderr.strip()}")
    done = subprocess.run([os.path.join(programs, "runc"), "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"runc does not run: {done.stderr.strip()}")
    try:
        with open("/dev/kmsg", "rb"):
            pass
    except OSError as error:
        raise Skip(f"a kubelet reads /dev/kmsg: {error.strerror}") from error
    cgroups_can_be_had()


def cgroups_can_be_had():
    for point in cgroups_used():
        path = os.path.join(point, f"{GROUP}-probe-{os.getpid()}")
        try:
            os.mkdir(path)
            os.rmdir(path)
        except OSError as error:
            raise Skip(f"a node needs cgroups of its own: {point}: {error.strerror}") from error


class Node:
    def __init__(self, cluster):
        self.cluster = cluster
        self.name = cluster.node_name
        self.dir = os.path.join(cluster.dir, "node")
        self.kubelet_dir = os.path.join(self.dir, "kubelet")  # /var/lib/kubelet inside
        self.socket = os.path.join(self.dir, "c.sock")
        self.saved = {}      # settings of the kernel as they were
        self.made = []       # mount points that were not there
        self.runtime = None  # containerd's cgroup, of any tree

    # ---- the start

    def start(self):
        os.mkdir(self.dir)
        self.take_lock()
        self.make_groups()
        self.save_settings()
        self.make_bridge()
        self.serve_api()
        self.make_namespace()
        self.start_containerd()
        for image in ("pause", "busybox"):
            self.import_archive(os.path.join(self.cluster.cache, "images", image + ".tar"))
        self.start_kubelet()

    def take_lock(self):
        """The keeper listens on nothing: it holds the name, which goes with it."""
        end = time.monotonic() + LOCK_S
        said = False
        while True:
            answer = self.cluster.keeper.ask("hold", address=LOCK)
            if answer["held"]:
                return
            if not said:
                print("# another test has the node; waiting", flush=True)
                said = True
            if time.monotonic() > end:
                raise Skip(f"another test has had the node for {LOCK_S} s")
            time.sleep(0.2)

    def make_groups(self):
        trees, unified = cgroup_trees()
        for point in [*trees, *unified]:  # runc makes one in each
            path = os.path.join(point, GROUP)
            self.cluster.keeper.undo("cgroup", path)
            self.cluster.keeper.ask("tidy", kind="cgroup", args=[path])  # of one whose keeper was killed
        for point, controllers in cgroups_used().items():
            path = os.path.join(point, GROUP)
            if point in unified:
                control = os.path.join(point, "cgroup.subtree_control")
                before = words_of(control)
                self.delegate(point)
                new = sorted(words_of(control) - before)
                self.cluster.keeper.undo("controllers", control, " ".join("-" + name for name in new))
            os.mkdir(path)
            if point in unified:
                lacking = NEEDED_V2 - words_of(os.path.join(path, "cgroup.controllers"))
                if lacking:
                    raise Skip(f"a node needs the cgroup controllers {', '.join(sorted(lacking))},"
                               f" which {point} does not pass on")
                self.delegate(path)
            if point in unified or "cpuset" not in controllers:  # a new one of version 1 cannot be entered
                self.runtime = os.path.join(path, "runtime")

        os.mkdir(self.runtime)

    @staticmethod
    def delegate(path):
        """Version 2: what is below may limit these."""
        control = os.path.join(path, "cgroup.subtree_control")
        for name in words_of(os.path.join(path, "cgroup.controllers")) - words_of(control):
            with contextlib.suppress(OSError):
                with open(control, "w", encoding="ascii") as f:
                    f.write("+" + name)

    def save_settings(self):
        for name in SYSCTLS:
            path = os.path.join("/proc/sys", name)
            with contextlib.suppress(OSError):
                with open(path, encoding="ascii") as f:
                    self.saved[path] = f.read()
                self.cluster.keeper.undo("setting", path, self.saved[path])

    def make_bridge(self):
        """Pods' network, and the node's address, so that no other of the machine's is needed."""
        self.cluster.keeper.undo("link", BRIDGE)
        self.cluster.keeper.ask("tidy", kind="link", args=[BRIDGE])
        for args in (["link", "add", BRIDGE, "type", "bridge"],
                     ["addr", "add", f"{ADDRESS}/{PODS.partition('/')[2]}", "dev", BRIDGE],
                     ["addr", "add", f"{SERVICE}/32", "dev", BRIDGE],
                     ["link", "set", BRIDGE, "up"]):
            done = subprocess.run(["ip", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Skip(f"a node needs a bridge: ip {' '.join(args)}: {done.stderr.strip()}")

    def serve_api(self):
        """At the address that pods are told: there is no kube-proxy."""
        self.cluster.keeper.ask("start", name="forward", env={}, log=self.log("forward"), argv=[
            sys.executable, os.path.join(HERE, "forward.py"), SERVICE, "443", self.cluster.slot.address,
            str(self.cluster.slot.port("kube-apiserver"))])

    def make_namespace(self):
        argv = []
        for name, place in PLACES.items():
            path = os.path.join(self.dir, name)
            os.mkdir(path)
            if not os.path.isdir(place):
                self.made.append(place)
                self.cluster.keeper.undo("folder", place)
                os.makedirs(place)
            argv += [path, place]
        ready = os.path.join(self.dir, "mounted")
        self.cluster.keeper.ask("start", name="mounts", env={"PATH": os.environ["PATH"]}, log=self.log("mounts"),
                                argv=["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                      NAMESPACE_SCRIPT, "sh", *argv, "--", ready])
        wait_for(lambda: os.path.exists(ready) or not self.cluster.pid("mounts"), "the node's mounts", START_S)
        if not self.cluster.pid("mounts"):
            raise Skip(f"a node needs mounts of its own: {''.join(self.cluster.end_of_log('mounts', 1)).strip()}")

    def log(self, name):
        return os.path.join(self.cluster.dir, "log", name + ".log")

    def inside(self):
        """What to put before a command so that it sees the node's mounts, from the root that we have."""
        return ["nsenter", "--mount", "--root", "--target", str(self.cluster.pid("mounts"))]

    def enter(self, *argv, check=True, timeout=60, **kw):
        done = subprocess.run([*self.inside(), *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, check=False, **kw)
        assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done

    # ---- containerd

    def overlays(self):
        """Whether layers can be mounted on one another here; else they are copied."""
        for name in ("lower", "upper", "work", "merged"):
            os.makedirs(os.path.join(self.dir, "probe", name))
        below = os.path.join(self.dir, "probe")
        options = ",".join(f"{k}={below}/{v}" for k, v in
                           (("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work")))
        return unshared("mount", "-t", "overlay", "-o", options, "none", below + "/merged").returncode == 0

    def start_containerd(self):
        config, networks = os.path.join(self.dir, "containerd.toml"), os.path.join(self.dir, "net.d")
        os.mkdir(networks)
        with open(os.path.join(networks, "10-test.conflist"), "w", encoding="ascii") as f:
            json.dump({"cniVersion": "0.4.0", "name": "test", "plugins": [
                {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipam": {
                    "type": "host-local", "dataDir": self.dir + "/leases",
                    "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}, f)
        with open(config, "w", encoding="ascii") as f:
            f.write(f"""\
version = 2
root = "{self.dir}/containerd"
state = "/run/containerd"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/local/pause:1"
  stream_server_address = "127.0.0.1"
  disable_apparmor = true # its profile would stay in the kernel
  restrict_oom_score_adj = true # a kubelet's -998 is refused without CAP_SYS_RESOURCE
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{'overlayfs' if self.overlays() else 'native'}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{self.cluster.bin}/runc"
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.cluster.cache}/cni"
    conf_dir = "{networks}"
""")
        self.cluster.commands["containerd"] = [os.path.join(self.cluster.bin, "containerd"), "-c", config]
        self.run_again("containerd")
        self.await_ready("containerd")

    def ctr(self, *args, check=True):
        return self.enter(os.path.join(self.cluster.bin, "ctr"), "-a", self.socket, "-n", "k8s.io", *args, check=check)

    def import_archive(self, path):
        self.ctr("images", "import", path)

    def import_image(self, name, folder, entrypoint, env=("PATH=/bin",)):
        path = os.path.join(self.dir, re.sub("[^a-z0-9]", "-", name) + ".tar")
        make_image(path, name, folder, entrypoint, env)
        self.import_archive(path)
        os.unlink(path)

    # ---- kubelet

    def start_kubelet(self):
        resolv, config = os.path.join(self.dir, "resolv.conf"), os.path.join(self.dir, "kubelet.json")
        slot = self.cluster.slot
        with open(resolv, "w", encoding="ascii"):
            pass
        with open(config, "w", encoding="ascii") as f:
            json.dump({
                "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
                "address": ADDRESS, "port": slot.port("kubelet"), "readOnlyPort": 0,
                "healthzBindAddress": slot.address, "healthzPort": slot.port("kubelet-healthz"),
                "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + GROUP, "failSwapOn": False,
                "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                                   "x509": {"clientCAFile": self.cluster.pki.ca}},
                "authorization": {"mode": "Webhook"}, "makeIPTablesUtilChains": False, "resolvConf": resolv,
                "volumePluginDir": self.dir + "/volume-plugins", "imageGCHighThresholdPercent": 100,
                "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
                "nodeStatusUpdateFrequency": "1s", "syncFrequency": "10s",
            }, f)
        self.cluster.commands["kubelet"] = [
            os.path.join(self.cluster.bin, "kubelet"), "--config=" + config,
            "--kubeconfig=" + self.cluster.kubeconfigs["kubelet"], "--root-dir=/var/lib/kubelet",
            "--hostname-override=" + self.name, "--node-ip=" + ADDRESS, "--container-runtime=remote",
            "--container-runtime-endpoint=unix://" + self.socket,
            "--pod-infra-container-image=docker.io/local/pause:1", *self.cluster.args.get("kubelet", [])]
        self.run_again("kubelet")
        self.await_ready("kubelet")

    # ---- for the cluster

    def run_again(self, name):
        wrap = self.inside()
        if name == "containerd":  # with all that it starts, into a cgroup of ours
            script = 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"'
            wrap += ["sh", "-c", script, "sh", self.runtime]
        self.since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.cluster.run_again(name, wrap)

    def await_ready(self, name):
        if name == "containerd":
            self.cluster.await_part(name, lambda: self.ctr("version", check=False).returncode == 0)
        else:
            self.cluster.await_part(name, self.is_ready)

    def is_ready(self):
        """In a heartbeat of this kubelet, not of the one before."""
        if not self.cluster.exists(f"/api/v1/nodes/{self.name}"):
            return False
        for c in self.cluster.get(f"/api/v1/nodes/{self.name}")["status"].get("conditions") or []:
            if c["type"] == "Ready":
                return c["status"] == "True" and c["lastHeartbeatTime"] > self.since
        return False
