# SPDX-License-Identifier: Apache-2.0
"""The settings in which each program runs, on a simulated device. A setting is a function that takes a Rig and a folder for
invitations, and gives a function that starts the program: start(memory, argv, env) -> process. The runner has namespaces of its own
for network, mounts and processes (run), so that nothing outlives it."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../component/cli"), os.path.join(HERE, "../component/remote")]

from far import Far, serve  # noqa: E402
from rig import BUILD, DIVVY, SPIN, Rig, patience, wait_for  # noqa: E402,F401

DEVICE = "1xH100-80Gi"
NAME = "program"
REMOTE_DRIVER = os.path.join(BUILD, "src/remote/divvy-remote-names/libcuda.so")
GPU, APP = "192.0.2.1", "192.0.2.2"


class Alone:
    """The program has the device for itself."""

    name, title = "alone", "alone"
    options = ("--request", "1.0")
    can_repeat = True  # several at once, each with a device of its own
    driver = os.path.join(BUILD, "src/hook/divvy-names/libcuda.so")

    def __init__(self, rig):
        self.rig = rig

    def prepare(self):
        pass

    def start(self, memory, argv, env):
        argv = [DIVVY, "run", "--quiet", "--name", NAME, *self.options, "--memory", memory, "--", *argv]
        return spawn(self.rig, argv, {**self.rig.env, **env})


class Share(Alone):
    """A share of 0.3, beside a program that keeps the device busy at 0.7."""

    name, title = "share", "share 0.3 beside a neighbour"
    options = ("--request", "0.3")

    def prepare(self):
        self.rig.spin("neighbour", "--request", "0.7", "--memory", "10%")


class Local(Alone):
    """A remote device of the same machine."""

    name, title = "remote", "--remote local"
    options = ("--request", "0.5", "--remote", "local")
    driver = REMOTE_DRIVER


class Network(Alone):
    """A remote device of another machine: both are network namespaces, and the program's has none of the device's files."""

    name, title = "network", "--remote over a network"
    can_repeat = False  # the network's names
    driver = REMOTE_DRIVER

    def prepare(self):
        run("ip", "link", "set", "lo", "up")
        self.holder = spawn(
            self.rig, ["unshare", "--net", "--mount", "--propagation", "private", "sleep", "infinity"], None
        )
        own = os.readlink("/proc/self/ns/net")
        wait_for(
            lambda: namespace_of(self.holder.pid) not in (None, own) and is_sleep(self.holder.pid), "the other machine"
        )
        run("ip", "link", "add", "gpu", "type", "veth", "peer", "name", "app", "netns", str(self.holder.pid))
        run("ip", "address", "add", GPU + "/30", "dev", "gpu")
        run("ip", "link", "set", "gpu", "up")
        self.there = ["nsenter", "--target", str(self.holder.pid), "--net", "--mount", "--root", "--wd=" + os.getcwd()]
        run(*self.there, "ip", "address", "add", APP + "/30", "dev", "app")
        run(*self.there, "ip", "link", "set", "app", "up")
        run(*self.there, "ip", "link", "set", "lo", "up")
        for hidden in (self.rig.dir, os.path.join(BUILD, "src/simgpu"), os.path.join(BUILD, "src/divvyd")):
            run(*self.there, "mount", "-t", "tmpfs", "none", hidden)

    def start(self, memory, argv, env):
        _, invitation = serve(self.rig, NAME, "--request", "0.5", "--memory", memory, listen=GPU + ":0")
        far = {**Far(self.rig, DIVVY_INVITATION=invitation).env, **env}
        return spawn(self.rig, [*self.there, DIVVY, "run", "--quiet", "--remote", GPU, "--", *argv], far)


SETTINGS = {setting.name: setting for setting in (Alone, Share, Local, Network)}


def run(*argv):
    subprocess.run(argv, check=True)


def spawn(rig, argv, env):
    child = subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    rig.children.append(child)
    return child


def namespace_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def is_sleep(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().strip() == "sleep"
