# SPDX-License-Identifier: Apache-2.0
"""The node of a test cluster: the real kubelet, containerd and runc, in a mount namespace of their own.

The fixed folders of kubelet and containerd (/var/lib/kubelet and others) are the cluster's own folders there, and so are the
kernel settings that they write. Outside, the same files are under Node.kubelet_dir, sockets included; Node.enter runs a program
inside. The keeper restores what belongs to the machine (cgroups, a bridge, mount points). A machine has two seats for nodes: a
third node waits, and so does a measuring test, which needs all seats."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

from image import make_image
from tap import PATIENCE_S, Skip, patience, wait_for

TURN = "\0divvy-k8s-node-turn"  # held while waiting for a seat, so that a test that needs all is not overtaken
LOCK_S = 1200  # other tests may take long
START_S = 300
GROUP = "divvy-k8s"  # name of our cgroup in every tree; the seats' names begin with it
HERE = os.path.dirname(os.path.abspath(__file__))
# Settings that a kubelet and its network plugins write: in the node's mount namespace, each is a file of the node's own.
SYSCTLS = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
]
NEEDED = {"cpu", "cpuacct", "cpuset", "memory"}
NEEDED_V2 = {"cpu", "cpuset", "memory", "pids"}
# Folders of the node, and the paths at which its mount namespace has them.
PLACES = {
    "kubelet": "/var/lib/kubelet",
    "cni-state": "/var/lib/cni",
    "run-containerd": "/run/containerd",
    "netns": "/run/netns",
    "log-pods": "/var/log",
    "run-divvy": "/run/divvy",
    "state-divvy": "/var/lib/divvy",
    "cdi": "/var/run/cdi",
    "lock": "/run/lock",
}
IN_MEMORY = ("run-containerd", "netns", "run-divvy", "cdi", "lock")
NAMESPACE_SCRIPT = """\
set -e
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
mount --make-rshared /
touch "$2"
exec sleep infinity
"""


@contextlib.contextmanager
def held(name):
    """Holds an abstract socket in this process, as keepers do."""
    with socket.socket(socket.AF_UNIX) as lock:

        def ours():
            try:
                lock.bind(name)
                return True
            except OSError:
                return False

        wait_for(ours, f"nobody else has {name[1:]}", LOCK_S)
        yield


class Seat:
    """Resources that a node needs for itself on a machine: each seat has its own."""

    def __init__(self, number):
        suffix = f"-{number}" if number else ""
        self.number = number
        self.lock = "\0divvy-k8s-node" + suffix
        self.group = GROUP + suffix
        self.bridge = f"divvyk8s{number}"
        self.pods = f"198.19.{244 + 2 * number}.0/24"  # from the range for network tests, above the clusters' services
        self.address = f"198.19.{244 + 2 * number}.1"


SEATS = [Seat(0), Seat(1)]


def words_of(path):
    with open(path, encoding="ascii") as f:
        return set(f.read().split())


def settings():
    """{path: value} of the kernel settings that a node would change."""
    found = {}
    for name in SYSCTLS:
        path = os.path.join("/proc/sys", name)
        with contextlib.suppress(OSError), open(path, encoding="ascii") as f:
            found[path] = f.read()
    return found


def cgroup_trees():
    """{mount point: its controllers} of version 1, and the same of version 2, which has at most one."""
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
    """{mount point: its controllers} that a node here uses; Skip says what is missing."""
    trees, unified = cgroup_trees()
    lacking = NEEDED - set().union(*trees.values())
    if not lacking:
        return trees
    for controllers in unified.values():
        if NEEDED_V2 <= controllers:
            return unified
    raise Skip(f"a kubelet needs the cgroup controllers {', '.join(sorted(lacking))}, which are not mounted")


def unshared(*argv):
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def can_be_had(programs):
    """Raises Skip with the reason if no node can run here."""
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
    def __init__(self, cluster, alone):
        """alone: no other node on the machine, for measurements."""
        self.cluster = cluster
        self.alone = alone
        self.seat = None
        self.name = cluster.node_name
        self.dir = os.path.join(cluster.dir, "node")
        self.kubelet_dir = os.path.join(self.dir, "kubelet")  # /var/lib/kubelet inside
        self.socket = os.path.join(self.dir, "c.sock")
        self.made = []  # mount points that this node made
        self.mounts = []  # the mounts inside
        self.runtime = None  # containerd's cgroup, of any tree

    # ---- the start

    def start(self):
        os.mkdir(self.dir)
        self.take_seat()
        self.make_groups()
        self.make_bridge()
        self.serve_api()
        self.make_namespace()
        self.start_containerd()
        for image in ("pause", "busybox"):
            self.import_archive(os.path.join(self.cluster.cache, "images", image + ".tar"))
        self.start_kubelet()

    def take_seat(self):
        end = time.monotonic() + LOCK_S
        self.hold_one([TURN], end)
        if self.alone:
            for seat in SEATS:
                self.hold_one([seat.lock], end)
            self.seat = SEATS[0]
        else:
            lock = self.hold_one([seat.lock for seat in SEATS], end)
            self.seat = next(seat for seat in SEATS if seat.lock == lock)
        self.cluster.keeper.ask("release", address=TURN)

    def hold_one(self, locks, end):
        """Takes the first free lock. The keeper holds its name, so that it ends with the keeper."""
        said = False
        while True:
            for lock in locks:
                if self.cluster.keeper.ask("hold", address=lock)["held"]:
                    return lock
            if not said:
                print("# other tests have the machine's nodes; waiting", flush=True)
                said = True
            if time.monotonic() > end:
                raise Skip(f"other tests have had the machine's nodes for {LOCK_S} s")
            time.sleep(0.2)

    def make_groups(self):
        trees, unified = cgroup_trees()
        for point in [*trees, *unified]:  # runc makes a cgroup in each tree
            path = os.path.join(point, self.seat.group)
            self.cluster.keeper.undo("cgroup", path)
            self.cluster.keeper.ask("tidy", kind="cgroup", args=[path])  # left by a killed keeper
        for point, controllers in cgroups_used().items():
            path = os.path.join(point, self.seat.group)
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
                    raise Skip(
                        f"a node needs the cgroup controllers {', '.join(sorted(lacking))},"
                        f" which {point} does not pass on"
                    )
                self.delegate(path)
            if point in unified or "cpuset" not in controllers:  # no process can enter a new cpuset of version 1
                self.runtime = os.path.join(path, "runtime")

        os.mkdir(self.runtime)

    @staticmethod
    def delegate(path):
        """Version 2: lets child cgroups use these controllers."""
        control = os.path.join(path, "cgroup.subtree_control")
        for name in words_of(os.path.join(path, "cgroup.controllers")) - words_of(control):
            with contextlib.suppress(OSError):
                with open(control, "w", encoding="ascii") as f:
                    f.write("+" + name)

    def make_bridge(self):
        """Makes the pods' network with the node's address, so that the node needs no other address of the machine."""
        bridge = self.seat.bridge  # a fixed MAC; by default it follows the lowest joined port
        self.cluster.keeper.undo("link", bridge)
        self.cluster.keeper.ask("tidy", kind="link", args=[bridge])
        for args in (
            ["link", "add", bridge, "address", f"02:64:76:79:00:{int(bridge[-1]):02x}", "type", "bridge"],
            ["addr", "add", f"{self.seat.address}/{self.seat.pods.partition('/')[2]}", "dev", bridge],
            ["addr", "add", f"{self.cluster.slot.service}/32", "dev", bridge],
            ["link", "set", bridge, "up"],
        ):
            done = subprocess.run(["ip", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Skip(f"a node needs a bridge: ip {' '.join(args)}: {done.stderr.strip()}")

    def serve_api(self):
        """Forwards the API server's service address, since there is no kube-proxy."""
        self.cluster.keeper.ask(
            "start",
            name="forward",
            env={},
            log=self.log("forward"),
            argv=[
                sys.executable,
                os.path.join(HERE, "forward.py"),
                self.cluster.slot.service,
                "443",
                self.cluster.slot.address,
                str(self.cluster.slot.port("kube-apiserver")),
            ],
        )

    def make_namespace(self):
        argv = []
        for name, place in PLACES.items():
            path = os.path.join(self.dir, name)
            os.mkdir(path)
            if self.cluster.keeper.ask("folder", path=place, number=self.seat.number)["made"]:
                self.made.append(place)
            argv += [path, place]
        for place, value in settings().items():
            path = os.path.join(self.dir, place.replace("/", "-"))
            with open(path, "w", encoding="ascii") as f:
                f.write(value)
            argv += [path, place]
        self.mounts = argv
        self.mount()

    def mount(self):
        ready = os.path.join(self.dir, "mounted")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(ready)
        self.cluster.keeper.ask(
            "start",
            name="mounts",
            env={"PATH": os.environ["PATH"]},
            log=self.log("mounts"),
            argv=[
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                NAMESPACE_SCRIPT,
                "sh",
                *self.mounts,
                "--",
                ready,
            ],
        )
        wait_for(lambda: os.path.exists(ready) or not self.cluster.pid("mounts"), "the node's mounts", START_S)
        if not self.cluster.pid("mounts"):
            raise Skip(f"a node needs mounts of its own: {''.join(self.cluster.end_of_log('mounts', 1)).strip()}")

    def log(self, name):
        return os.path.join(self.cluster.dir, "log", name + ".log")

    def inside(self):
        """The command prefix that shows the node's mounts to a program, from the root of this process."""
        return ["nsenter", "--mount", "--root", "--target", str(self.cluster.pid("mounts"))]

    def enter(self, *argv, check=True, timeout=PATIENCE_S, **kw):
        done = subprocess.run(
            [*self.inside(), *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(timeout),
            check=False,
            **kw,
        )
        assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done

    # ---- containerd

    def overlays(self):
        """Can layers be mounted by overlayfs here? Otherwise containerd copies them."""
        for name in ("lower", "upper", "work", "merged"):
            os.makedirs(os.path.join(self.dir, "probe", name))
        below = os.path.join(self.dir, "probe")
        options = ",".join(
            f"{k}={below}/{v}" for k, v in (("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work"))
        )
        return unshared("mount", "-t", "overlay", "-o", options, "none", below + "/merged").returncode == 0

    def start_containerd(self):
        config, networks = os.path.join(self.dir, "containerd.toml"), os.path.join(self.dir, "net.d")
        os.mkdir(networks)
        with open(os.path.join(networks, "10-test.conflist"), "w", encoding="ascii") as f:
            json.dump(
                {
                    "cniVersion": "0.4.0",
                    "name": "test",
                    "plugins": [
                        {
                            "type": "bridge",
                            "bridge": self.seat.bridge,
                            "isGateway": True,
                            "ipam": {
                                "type": "host-local",
                                "dataDir": self.dir + "/leases",
                                "ranges": [[{"subnet": self.seat.pods}]],
                                "routes": [{"dst": "0.0.0.0/0"}],
                            },
                        }
                    ],
                },
                f,
            )
        with open(config, "w", encoding="ascii") as f:
            f.write(
                f"""\
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
"""
            )
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
            json.dump(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "address": self.seat.address,
                    "port": slot.port("kubelet"),
                    "readOnlyPort": 0,
                    "healthzBindAddress": slot.address,
                    "healthzPort": slot.port("kubelet-healthz"),
                    "cgroupDriver": "cgroupfs",
                    "cgroupRoot": "/" + self.seat.group,
                    "failSwapOn": False,
                    "authentication": {
                        "anonymous": {"enabled": False},
                        "webhook": {"enabled": True},
                        "x509": {"clientCAFile": self.cluster.pki.ca},
                    },
                    "authorization": {"mode": "Webhook"},
                    "makeIPTablesUtilChains": False,
                    "resolvConf": resolv,
                    "volumePluginDir": self.dir + "/volume-plugins",
                    "imageGCHighThresholdPercent": 100,
                    "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
                    "nodeStatusUpdateFrequency": "1s",
                    "syncFrequency": "10s",
                    # Kubelets since 1.35 refuse cgroups of version 1 by default.
                    **({"failCgroupV1": False} if self.cluster.minor >= 35 else {}),
                },
                f,
            )
        self.cluster.commands["kubelet"] = [
            os.path.join(self.cluster.bin, "kubelet"),
            "--config=" + config,
            "--kubeconfig=" + self.cluster.kubeconfigs["kubelet"],
            "--root-dir=/var/lib/kubelet",
            "--hostname-override=" + self.name,
            "--node-ip=" + self.seat.address,
            "--container-runtime-endpoint=unix://" + self.socket,
            *self.old_options(),
            *self.cluster.args.get("kubelet", []),
        ]
        self.run_again("kubelet")
        self.await_ready("kubelet")

    def old_options(self):
        """Options that kubelets before 1.24 need, and newer ones lack."""
        if self.cluster.minor >= 24:
            return []
        return ["--container-runtime=remote", "--pod-infra-container-image=docker.io/local/pause:1"]

    # ---- for the cluster

    def cut_power(self):
        """Ends everything on the node at once, with its mounts and files in memory. The caller ends processes that others
        started there."""
        for name in ("kubelet", "containerd"):
            self.cluster.kill(name)
        for point in [point for trees in cgroup_trees() for point in trees]:
            self.cluster.keeper.ask("tidy", kind="cgroup", args=[os.path.join(point, self.seat.group)])
        self.cluster.kill("mounts")
        for name in IN_MEMORY:
            shutil.rmtree(os.path.join(self.dir, name))
            os.mkdir(os.path.join(self.dir, name))

    def boot(self):
        self.make_groups()
        self.mount()
        for name in ("containerd", "kubelet"):
            self.run_again(name)
            self.await_ready(name)

    def run_again(self, name):
        wrap = self.inside()
        if name == "containerd":  # with its children, in a cgroup of ours
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
        """Is the node Ready in a heartbeat of this kubelet, not of its predecessor?"""
        if not self.cluster.exists(f"/api/v1/nodes/{self.name}"):
            return False
        for c in self.cluster.get(f"/api/v1/nodes/{self.name}")["status"].get("conditions") or []:
            if c["type"] == "Ready":
                return c["status"] == "True" and c["lastHeartbeatTime"] > self.since
        return False
