# SPDX-License-Identifier: Apache-2.0
"""divvy on a test cluster's node as it ships: images with the files that this build installs, objects from deploy/.

Only deploy/overlays/test differs from another cluster. The daemon's folders are the node's own, so from outside they are below
Node.dir."""

import contextlib
import glob
import os
import shutil
import subprocess
import tempfile

from cluster import wait_for
from divvyd import BUILD, SOURCE, SPIN, Daemon, libraries_of
from manifests import overlay

SYSTEM = "divvy-system"
VERSION = subprocess.run(
    [os.path.join(SOURCE, "release/version")], check=True, capture_output=True, text=True
).stdout.strip()  # of the images that deploy/ names
PROGRAMS = f"divvy-programs:{VERSION}"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_S = 300
EXAMPLES = os.path.join(SOURCE, "deploy/examples")


def add_files(folder, files):
    """Adds {path in the image: file here}, with the libraries to which the files are linked."""
    for path, source in files.items():
        target = folder + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)
        for library in libraries_of(source):
            os.makedirs(folder + os.path.dirname(library), exist_ok=True)
            shutil.copy(library, folder + library)


def import_image(cluster, name, files, entrypoint=(), version=VERSION):
    folder = os.path.join(cluster.dir, "image-" + name)
    os.makedirs(os.path.join(folder, "tmp"))
    add_files(folder, files)
    cluster.import_image(f"library/{name}:{version}", folder, entrypoint, [PATH])
    shutil.rmtree(folder)


def installed_files(stage, *patterns):
    """{path: file} of the installed files below `stage`."""
    found = {}
    for pattern in patterns:
        below = [p for p in glob.glob(os.path.join(stage, "**", pattern), recursive=True) if os.path.isfile(p)]
        assert below, f"{pattern} is not installed"
        found |= {path[len(stage) :]: path for path in below}
    return found


@contextlib.contextmanager
def staged(cluster):
    """A folder with the files that this build installs."""
    stage = os.path.join(cluster.dir, "stage")
    subprocess.run(
        ["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", stage],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    yield stage
    shutil.rmtree(stage)


WANTED = {
    "divvy-scheduler": ["sbin/divvy-scheduler"],
    "divvy-controller": ["sbin/divvy-controller"],
    "divvyd": ["sbin/divvyd", "bin/*", "lib/**/divvy/**", "libexec/divvy/*"],
}


def make_image(cluster, stage, name, version=VERSION):
    files = installed_files(stage, *WANTED[name])
    import_image(cluster, name, files, [next(p for p in files if p.endswith("/" + name))], version)


def make_newer_divvyd(cluster, version):
    """An image whose libraries for tenants have the same code in other files."""
    with staged(cluster) as stage:
        for path in installed_files(stage, "lib/**/divvy/libdivvy-*.so").values():
            with open(path, "ab") as f:
                f.write(b"a newer version")
        make_image(cluster, stage, "divvyd", version)


def make_images(cluster):
    """The images of deploy/images/Dockerfile, from this build and this machine's libraries."""
    with staged(cluster) as stage:
        for name in WANTED:
            make_image(cluster, stage, name)
    ptx = os.path.join(SOURCE, "src/simgpu/kernels.ptx")
    driver = libraries_of(os.path.join(BUILD, "src/simgpu/libcuda.so.1"))
    import_image(
        cluster,
        "divvy-programs",
        {"/bin/spin": SPIN, "/bin/sleep": "/bin/sleep", ptx: ptx, **{path: path for path in driver}},
    )


class Shipped(Daemon):
    """divvyd of the shipped DaemonSet; Daemon's methods work from outside."""

    def __init__(self, cluster, simulate):
        super().__init__(cluster, simulate)
        self.runtime = os.path.join(cluster.node.dir, "run-divvy")
        self.sim = os.path.join(self.runtime, "sim")

    def is_ready(self):
        return self.condition("Ready").get("status") == "True"

    def await_ready(self):
        wait_for(self.is_ready, f"GPUNode is Ready: {self.status()}", START_S)

    def await_slots(self):
        slots = 64 * len(self.devices())
        wait_for(lambda: self.slots_offered() == slots, f"the kubelet offers {slots} slots", START_S)

    def change_devices(self, simulate):
        """Changes the simulated devices while no pod has a share; divvyd serves when this returns."""
        if simulate != self.simulate:
            self.simulate = simulate
            self.cluster.patch(f"/apis/divvy.gpu/v1/gpunodes/{self.node}", {"spec": {"simulate": simulate}})
            self.cluster.kubectl("-n", SYSTEM, "rollout", "restart", "daemonset/divvyd")
            await_workloads(self.cluster)
            wait_for(lambda: len(self.devices()) == int(simulate.split("x")[0]), f"the devices are {simulate}", START_S)
        self.await_ready()
        self.await_slots()


def example(name, /, **replaced):
    """The text of deploy/examples/NAME.yaml, with values that a user would put there."""
    with open(os.path.join(EXAMPLES, name + ".yaml"), encoding="utf-8") as f:
        text = f.read()
    for old, new in replaced.values():
        assert old in text, f"{name}: the example has no {old}"
        text = text.replace(old, new)
    return text


def await_workloads(cluster):
    for name in ("deployment/divvy-controller", "deployment/divvy-scheduler", "daemonset/divvyd"):
        cluster.kubectl("-n", SYSTEM, "rollout", "status", name, f"--timeout={START_S}s", timeout=START_S + 10)


def plug_in(cluster, simulate):
    """Starts devices without divvyd, like real ones: divvyd's own would end with its container."""
    folder = os.path.join(cluster.node.dir, "run-divvy/sim")
    os.makedirs(folder, exist_ok=True)
    cluster.keeper.ask(
        "start",
        name="devices",
        env={"PATH": os.environ["PATH"]},
        log=os.path.join(cluster.dir, "log", "devices.log"),
        argv=[os.path.join(BUILD, "src/simgpu/divvy-sim-engine"), "--stay", "--dir", folder, "--devices", simulate],
    )
    wait_for(
        lambda: os.path.exists(os.path.join(folder, "engine.sock")), "the engine of the simulated devices listens", 60
    )
    return folder


def apply_overlay(cluster):
    with tempfile.TemporaryDirectory(prefix="divvy-deploy-", dir=cluster.dir) as folder:
        cluster.kubectl("apply", "-k", str(overlay(cluster, folder)), timeout=START_S)


def install(cluster, simulate="2xH200-141Gi", images=make_images, objects=apply_overlay):
    """Installs as docs/kubernetes.md describes; divvyd serves when this returns. `images` imports the images, and `objects` applies
    the objects."""
    images(cluster)
    objects(cluster)
    await_workloads(cluster)
    cluster.apply(example("simulated-node", name=("node1", cluster.node_name), devices=("2xH200-141Gi", simulate)))
    cluster.kubectl("label", "node", cluster.node_name, "divvy.gpu/owner=divvy")
    daemon = Shipped(cluster, simulate)
    daemon.await_ready()
    await_workloads(cluster)
    daemon.await_slots()
    return daemon
