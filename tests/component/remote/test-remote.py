#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`divvy run --remote local`: the worker is the tenant, and what it may do holds for the program."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

from rig import BUILD, DIVVY, SPIN, Rig, alive, main, refused, wait_for  # noqa: E402
from tap import Skip  # noqa: E402


def workers(rig, name):
    return [p["pid"] for p in rig.tenant(name).get("processes", [])]


def shares_hold_beside_a_local_tenant():
    with Rig() as rig:
        asked = {"a": 300, "b": 300, "c": 400}
        args = ("--kernel-us=500", "--duration=120")
        rig.spin("a", "--request", "0.3", "--memory", "10%", "--remote", "local", args=args)
        rig.spin("b", "--request", "0.3", "--memory", "10%", "--remote", "local", args=args)
        rig.spin("c", "--request", "0.4", "--memory", "10%", args=args)

        def got():
            return {t["name"]: t["devices"][0]["got_permille"] for t in rig.json("ps", "-o", "json")}
        wait_for(lambda: all(abs(share - asked[name]) <= 20 for name, share in got().items()),
                 "each gets what it asked for, within 2 points")


def memory_is_a_quota():
    with Rig() as rig:
        def run(mib):
            return rig.divvy("run", "--request", "0.2", "--memory", "2Gi", "--quiet", "--remote", "local", "--",
                             SPIN, "--count=10", f"--memory={mib}")
        assert run(1024).returncode == 0
        done = run(3072)
        assert done.returncode == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in done.stderr, done.stderr


def the_program_holds_nothing_of_the_tenant():
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.2", "--quiet", "--remote", "local", "--", "env")
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        assert "DIVVY_TENANT" not in env and "DIVVY_SOCKET" not in env, env
        assert env["LD_PRELOAD"].endswith("/libdivvy-remote.so"), env
        # Its path is gone with the server.
        wait_for(lambda: not os.path.exists(env["DIVVY_REMOTE"]), "the server has ended")


def a_killed_worker_is_an_error_and_nobody_elses():
    with Rig() as rig:
        other = rig.spin("other", "--request", "0.3", "--remote", "local")
        child = rig.spin("victim", "--request", "0.3", "--remote", "local")
        os.kill(workers(rig, "victim")[0], signal.SIGKILL)
        assert child.wait(60) == 1, child.communicate()
        assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in child.stderr.read()
        assert other.poll() is None and len(workers(rig, "other")) == 1


def a_killed_program_frees_everything():
    with Rig() as rig:
        child = rig.spin("p", "--request", "0.3", "--remote", "local", args=("--memory=1024", "--duration=120"))
        worker = workers(rig, "p")[0]
        child.kill()
        child.wait()
        wait_for(lambda: not alive(worker), "the worker has ended")
        wait_for(lambda: not rig.tenant("p"), "the tenant is gone")
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "its memory is free")
        wait_for(lambda: not [f for f in os.listdir(rig.dir) if f.startswith("remote-")], "no socket is left")


def no_network_is_needed():
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        raise Skip("no rights to make a network namespace")
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.3", "--quiet", "--remote", "local", "--", "unshare", "--net", SPIN,
                         "--count=10")
        assert done.returncode == 0 and json.loads(done.stdout)["kernels"] == 10, done


class Far:
    """A program's side: a runtime folder of its own, and no daemon."""

    def __init__(self, rig):
        self.env = {**rig.env, "DIVVY_RUNTIME_DIR": os.path.join(rig.dir, "far")}

    def run(self, invitation, *argv):
        return subprocess.Popen([DIVVY, "run", "--remote", invitation, "--", *argv], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def serve(rig, *wish):
    child = rig.spawn(DIVVY, "serve", "--listen", "127.0.0.1:0", "--name", "far", *wish)
    return child, child.stdout.readline().strip()


def an_invitation_is_a_share_somewhere_else():
    with Rig() as rig:
        server, invitation = serve(rig, "--request", "0.3", "--limit", "0.3", "--memory", "2Gi")
        place, key = invitation.split("/")
        stranger = Far(rig).run(f"{place}/{key[::-1]}", "true")
        assert stranger.wait(60) == 125 and "Permission denied" in stranger.stderr.read()
        child = Far(rig).run(invitation, SPIN, "--kernel-us=500", "--duration=120")
        wait_for(lambda: workers(rig, "far"), "its worker registers")
        wait_for(lambda: 250 < rig.got("far") < 350, "its share is held")
        again = Far(rig).run(invitation, "true")
        error = again.communicate(timeout=60)[1]
        assert again.returncode == 125 and "good once" in error and key not in error, error
        child.kill()
        child.communicate()
        assert server.wait(60) == 0
        wait_for(lambda: not rig.tenant("far"), "the tenant is gone")


def a_quota_holds_over_a_link():
    with Rig() as rig:
        _, invitation = serve(rig, "--request", "0.3", "--memory", "2Gi")
        child = Far(rig).run(invitation, SPIN, "--count=10", "--memory=3072")
        assert child.wait(60) == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in child.stderr.read()


def a_cut_link_is_an_error():
    with Rig() as rig:
        server, invitation = serve(rig, "--request", "0.3")
        child = Far(rig).run(invitation, SPIN, "--kernel-us=500", "--duration=120")
        worker = wait_for(lambda: workers(rig, "far"), "its worker registers")[0]
        server.kill()
        error = child.communicate(timeout=60)[1]
        assert child.returncode == 1 and "CUDA_ERROR_DEVICE_UNAVAILABLE" in error, (child.returncode, error)
        wait_for(lambda: not alive(worker), "the worker has ended")


class Shim:
    """A network between the two that can be made worse: tests/programs/link-shim."""

    def __init__(self, rig, invitation, *words):
        place, key = invitation.split("/")
        self.child = subprocess.Popen([os.path.join(BUILD, "tests/programs/link-shim"), place, *words],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        rig.children.append(self.child)
        self.invitation = f"127.0.0.1:{self.child.stdout.readline().strip()}/{key}"

    def say(self, word):
        self.child.stdin.write(word + "\n")
        self.child.stdin.flush()


def a_late_and_narrow_network_is_only_slower():
    with Rig() as rig:
        _, invitation = serve(rig, "--request", "0.3")
        shim = Shim(rig, invitation, "delay=2000", "skew=3000", "rate=400")
        child = Far(rig).run(shim.invitation, SPIN, "--count=50", "--memory=64")
        wait_for(lambda: child.poll() is not None or workers(rig, "far"), "its worker registers")
        shim.say("rate=200")
        said, error = child.communicate(timeout=60)
        assert child.returncode == 0 and json.loads(said)["kernels"] == 50, error


def a_network_that_ends_is_an_error():
    with Rig() as rig:
        _, invitation = serve(rig, "--request", "0.3")
        shim = Shim(rig, invitation, "delay=200")
        child = Far(rig).run(shim.invitation, SPIN, "--kernel-us=500", "--duration=120")
        worker = wait_for(lambda: workers(rig, "far"), "its worker registers")[0]
        shim.say("cut")
        error = child.communicate(timeout=60)[1]
        assert child.returncode == 1 and "CUDA_ERROR_DEVICE_UNAVAILABLE" in error, (child.returncode, error)
        wait_for(lambda: not alive(worker), "the worker has ended")


def a_wish_beside_an_invitation_is_refused():
    with Rig(daemon=False) as rig:
        refused(rig.divvy("run", "--request", "0.2", "--remote", f"127.0.0.1:1/{'0' * 64}", "--", "true"), 125,
                "--request", "invitation")
        refused(rig.divvy("serve", "--request", "0.2"), 125, "--listen")
        refused(rig.divvy("serve", "--request", "0.2", "--listen", "here"), 125, "--listen 'here'")


def another_place_is_refused_in_words():
    with Rig(daemon=False) as rig:
        refused(rig.divvy("run", "--request", "0.2", "--remote", "far.example", "--", "true"), 125,
                "--remote 'far.example'", "local")
        refused(rig.divvy("run", "--request", "0.2", "--remote", "local", "--container", "docker", "--", "run",
                          "image"), 125, "--remote", "--container")


main(shares_hold_beside_a_local_tenant, memory_is_a_quota, the_program_holds_nothing_of_the_tenant,
     a_killed_worker_is_an_error_and_nobody_elses, a_killed_program_frees_everything,
     an_invitation_is_a_share_somewhere_else, a_quota_holds_over_a_link, a_cut_link_is_an_error,
     a_late_and_narrow_network_is_only_slower, a_network_that_ends_is_an_error,
     a_wish_beside_an_invitation_is_refused, no_network_is_needed, another_place_is_refused_in_words)
