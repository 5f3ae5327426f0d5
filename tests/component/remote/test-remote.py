#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`divvy run --remote local`: the worker is the tenant, and its limits hold for the program."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../cli"))

from far import Far, Shim, serve, workers  # noqa: E402
from rig import DIVVY, SPIN, Rig, alive, main, refused, wait_for  # noqa: E402
from tap import Skip, patience  # noqa: E402


def remote_tenants_get_their_shares_beside_a_local_tenant():
    with Rig() as rig:
        asked = {"a": 300, "b": 300, "c": 400}
        args = ("--kernel-us=500", "--duration=120")
        rig.spin("a", "--request", "0.3", "--memory", "10%", "--remote", "local", args=args)
        rig.spin("b", "--request", "0.3", "--memory", "10%", "--remote", "local", args=args)
        rig.spin("c", "--request", "0.4", "--memory", "10%", args=args)

        def got():
            return {t["name"]: t["devices"][0]["used_permille"] for t in rig.json("ps", "-o", "json")}

        wait_for(
            lambda: all(abs(share - asked[name]) <= 20 for name, share in got().items()),
            "each gets what it asked for, within 2 points",
        )


def a_local_latency_tenant_displaces_a_remote_opportunistic_one():
    with Rig() as rig:
        args = ("--kernel-us=500", "--duration=120")
        rig.spin(
            "fill", "--request", "0.2", "--class", "opportunistic", "--memory", "10%", "--remote", "local", args=args
        )
        wait_for(lambda: rig.got("fill") >= 900, "the only tenant gets the device")
        fast = rig.spin("fast", "--request", "0.5", "--class", "latency", "--memory", "10%", args=args)
        wait_for(lambda: rig.got("fast") >= 950 and rig.got("fill") <= 50, "the latency tenant gets the device")
        fast.terminate()
        fast.wait(patience())
        wait_for(lambda: rig.got("fill") >= 900, "the other tenant gets the device back")


def memory_is_a_quota():
    with Rig() as rig:

        def run(mib):
            return rig.divvy(
                "run",
                "--request",
                "0.2",
                "--memory",
                "2Gi",
                "--quiet",
                "--remote",
                "local",
                "--",
                SPIN,
                "--count=10",
                f"--memory={mib}",
            )

        assert run(1024).returncode == 0
        done = run(3072)
        assert done.returncode == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in done.stderr, done.stderr


def the_program_does_not_get_the_tenants_secret():
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.2", "--quiet", "--remote", "local", "--", "env")
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        assert "DIVVY_TENANT" not in env and "DIVVY_SOCKET" not in env, env
        assert [p.rpartition("/")[2] for p in env["LD_PRELOAD"].split(":")] == [
            "libdivvy-remote.so",
            "libdivvy-remote-nvml.so",
            "libdivvy-cudart-12.so",
            "libdivvy-cudart-13.so",
        ], env
        # The server removes its socket when it exits.
        wait_for(lambda: not os.path.exists(env["DIVVY_REMOTE"]), "the server has ended")


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        words = [w.partition("=") for w in f.read().decode().split("\0") if w]
    return {name: value for name, _, value in words}


def a_worker_is_confined_and_keeps_no_secret():
    """The worker's environment has none of its parent's variables, and a DIVVY_TENANT that is not the
    secret."""
    others = {"SOMEBODYS_PASSWORD": "x", "DIVVY_INVITATION_OLD": "x"}
    with Rig(env=others) as rig:
        rig.spin("near", "--request", "0.2", "--remote", "local", args=("--kernel-us=500", "--duration=120"))
        _, invitation = serve(rig, "far", "--request", "0.2")
        Far(rig, DIVVY_INVITATION=invitation, **others).run("127.0.0.1", SPIN, "--kernel-us=500", "--duration=120")
        wait_for(lambda: workers(rig, "far"), "the linked program has a worker")
        with open(os.path.join(rig.dir, "state"), encoding="utf-8") as f:
            state = f.read()
        for name in ("near", "far"):
            pid = workers(rig, name)[0]

            def status():
                with open(f"/proc/{pid}/status", encoding="ascii") as f:
                    return dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)

            wait_for(lambda: status()["Seccomp"].strip() == "2", "the worker is confined")
            assert status()["NoNewPrivs"].strip() == "1", status()
            environment = environment_of(pid)
            assert not set(environment) & {*others, "DIVVY_INVITATION", "DIVVY_REMOTE_HOOKS"}, environment
            assert len(environment["DIVVY_TENANT"]) == 32 and environment["DIVVY_TENANT"] not in state, name
            wait_for(lambda: rig.got(name) > 100, "the confined worker continues")


def devices_that_reach_host_memory_are_served_only_on_request():
    """A kernel on such a device could read its worker: a server must allow this explicitly."""
    with Rig(env={"DIVVY_SIM_COSTS": "host_access=1"}) as rig:
        (note,) = [f for f in rig.json("doctor", "-o", "json") if "access all memory" in f["what"]]
        assert "device 0" in note["what"] and "HMM" in note["what"], note
        assert "--allow-host-access" in note["do"], note
        done = rig.divvy("run", "--request", "0.2", "--quiet", "--remote", "local", "--", SPIN, "--count=10")
        assert done.returncode == 0, done.stderr
        _, invitation = serve(rig, "closed", "--request", "0.2")
        child = Far(rig, DIVVY_INVITATION=invitation).run("127.0.0.1", SPIN, "--count=10")
        out, err = child.communicate()
        assert child.returncode == 1 and "HMM or ATS" in err and "--allow-host-access" in err, (out, err)
        assert "CUDA_ERROR_NOT_PERMITTED" in err, err
        _, invitation = serve(rig, "open", "--request", "0.2", "--allow-host-access")
        child = Far(rig, DIVVY_INVITATION=invitation).run("127.0.0.1", SPIN, "--count=10")
        assert child.wait(patience(120)) == 0, child.communicate()
    with Rig() as rig:
        assert not [f for f in rig.json("doctor", "-o", "json") if "access all memory" in f["what"]]


def a_killed_worker_is_an_error_of_its_own_program_only():
    with Rig() as rig:
        other = rig.spin("other", "--request", "0.3", "--remote", "local")
        child = rig.spin("victim", "--request", "0.3", "--remote", "local")
        os.kill(workers(rig, "victim")[0], signal.SIGKILL)
        assert child.wait(patience()) == 1, child.communicate()
        assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in child.stderr.read()
        assert other.poll() is None and len(workers(rig, "other")) == 1


def a_killed_program_frees_everything():
    with Rig() as rig:
        child = rig.spin("p", "--request", "0.3", "--remote", "local", args=("--memory=1024", "--duration=120"))
        worker = workers(rig, "p")[0]
        child.kill()
        child.wait()
        wait_for(lambda: not alive(worker), "the worker has ended")
        wait_for(lambda: not rig.tenant("p"), "the tenant is removed")
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "the device's memory is free")
        wait_for(lambda: not [f for f in os.listdir(rig.dir) if f.startswith("remote-")], "no socket is left")


def ps_and_top_show_the_connection():
    with Rig() as rig:
        rig.spin("near", "--request", "0.1", "--remote", "local")
        _, invitation = serve(rig, "far", "--request", "0.3")
        assert "RTT" not in rig.divvy("ps").stdout
        Far(rig).run(invitation, SPIN, "--kernel-us=500", "--duration=120", "--memory=16")

        def way():
            remote = rig.tenant("far").get("remote", {})
            return remote if remote.get("received_per_s") and remote.get("rtt_us") else None

        remote = wait_for(way, "the link reports its traffic")
        assert remote["peer"] == "127.0.0.1" and remote["processes"] == 1 and remote["sent_per_s"] >= 0, remote
        assert "remote" not in rig.tenant("near")
        assert rig.divvy("ps", "-P").stdout.count(" spin ") == 2
        head, *lines = [line for line in rig.divvy("ps").stdout.splitlines() if "simulated" not in line]
        assert head.split()[-4:] == ["FROM", "RTT", "IN", "OUT"], head
        (far,) = [line for line in lines if " far " in line]
        assert "127.0.0.1" in far and far.count("/s") == 2, far
        top = rig.divvy("top", "--once").stdout
        assert top.count("from 127.0.0.1  round trip ") == 1, top
        assert rig.json("top", "--json")["tenants"][1]["remote"]["peer"] == "127.0.0.1"


UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, LOST = 1, 2, 3, 15


def is_the_tenants(rig, said, quota):
    """Checks what NVML reports about the device and the tenant's part of it."""
    device = rig.json("devices", "-o", "json")[0]
    (one,) = said["devices"]
    assert (said["early"], said["init"], said["child"]) == (UNINITIALIZED, 0, 0), said
    assert (one["name"], one["uuid"], one["is_found"]) == (device["model"], device["uuid"], True), one
    assert one["memory"]["total"] == quota and one["memory"]["used"] + one["memory"]["free"] == quota, one
    assert one["use"]["gpu"] <= 100 and one["wrong"] == INVALID_ARGUMENT, one
    assert one["processes"] == 0 and one["temperature"] == NOT_SUPPORTED, one
    assert said["driver"] == device["driver"] and said["cuda"] >= 12000, said


def nvml_reports_the_remote_device():
    says = [sys.executable, os.path.join(HERE, "nvml-says.py")]
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.2", "--memory", "2Gi", "--quiet", "--remote", "local", "--", *says)
        assert done.returncode == 0, done.stderr
        is_the_tenants(rig, json.loads(done.stdout.splitlines()[0]), 2 << 30)
        assert json.loads(done.stdout.splitlines()[1]) == {"shutdown": [0, UNINITIALIZED]}, done.stdout
        server, invitation = serve(rig, "far", "--request", "0.3", "--memory", "3Gi")
        child = Far(rig, DIVVY_INVITATION=invitation).run("127.0.0.1", *says, stdin=subprocess.PIPE)
        is_the_tenants(rig, json.loads(child.stdout.readline()), 3 << 30)

        def ask():
            child.stdin.write("again\n")
            child.stdin.flush()
            return json.loads(child.stdout.readline())

        assert ask() == {"count": 1, "memory": 0}
        server.kill()
        server.wait()
        wait_for(lambda: ask() == {"count": 1, "memory": LOST}, "NVML reports the device lost")
        out, err = child.communicate(timeout=patience())
        assert child.returncode == 0 and "shutdown" in out, (out, err)


LISTS = (sys.executable, os.path.join(HERE, "nvml-lists.py"))
CONTEXT = 64 << 20  # the least: memory of the script's own context


def ask_lists(child):
    child.stdin.write("again\n")
    child.stdin.flush()
    line = child.stdout.readline()
    assert line, child.communicate()
    return json.loads(line)


def are_own(child):
    """Checks that NVML lists exactly the program's own processes. Returns the lists' memory
    columns."""
    said = wait_for(
        lambda: len((s := ask_lists(child))["samples"]) == len(s["compute"][0]) == len(s["own"]) and s,
        "all of them are listed",
    )
    for of_form in said["compute"]:
        assert [pid for pid, _ in of_form] == said["own"], said
        assert all(memory >= CONTEXT for _, memory in of_form), said
    assert said["samples"] == said["used"] == said["own"], said
    assert said["graphics"] == said["mps"] == [], said
    return [[memory for _, memory in of_form] for of_form in said["compute"]]


def nvml_lists_the_programs_own_processes():
    with Rig() as rig:

        def start(name, *options, before=()):
            child = subprocess.Popen(
                [
                    DIVVY,
                    "run",
                    "--name",
                    name,
                    "--request",
                    "0.1",
                    "--memory",
                    "2Gi",
                    "--quiet",
                    *options,
                    "--",
                    *before,
                    *LISTS,
                ],
                env=rig.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            rig.children.append(child)
            return child

        rig.spin("stranger", "--request", "0.1", "--remote", "local")
        rig.spin("neighbour", "--request", "0.1")
        _, invitation = serve(rig, "served", "--request", "0.1", "--memory", "2Gi")
        children = {
            "here": start("here"),
            "apart": start("apart", "--remote", "local"),
            "served": Far(rig, DIVVY_INVITATION=invitation).run("127.0.0.1", *LISTS, stdin=subprocess.PIPE),
        }
        here, *others = [are_own(child) for child in children.values()]
        assert others == [here, here], (here, others)
        for child in children.values():
            child.communicate(timeout=patience())


def nvml_lists_more_processes_than_fit_in_one_message():
    with Rig() as rig:
        _, invitation = serve(rig, "served", "--request", "0.1", "--memory", "16Gi")
        child = Far(rig, DIVVY_INVITATION=invitation).run("127.0.0.1", *LISTS, "11", stdin=subprocess.PIPE)
        assert len(are_own(child)[0]) == 12
        child.communicate(timeout=patience())


def nvml_lists_processes_by_the_pids_of_their_namespace():
    if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode:
        raise Skip("no rights to make a namespace of processes")
    with Rig() as rig:
        _, invitation = serve(rig, "served", "--request", "0.1", "--memory", "2Gi")
        child = Far(rig, DIVVY_INVITATION=invitation).run(
            "127.0.0.1", "unshare", "--pid", "--fork", *LISTS, stdin=subprocess.PIPE
        )
        are_own(child)
        assert ask_lists(child)["own"][0] == 1
        child.communicate(timeout=patience())


TABLE = """
import ctypes
cuda, table = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(1)
runtime, extra, compiler = "6bd5fb6c5bf4e74a8987d93912fd9df9", "f8cff95121468b4eb9e2fb469e7c0dd9", "da9151d33ae6cc41a5c04f26d533e328"
for id in (runtime, extra, compiler, "000102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f"):
    table.value = 1
    print(cuda.cuGetExportTable(ctypes.byref(table), bytes.fromhex(id)), table.value)
"""


def export_tables_are_refused_with_a_message():
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.2", "--quiet", "--remote", "local", "--", sys.executable, "-c", TABLE)
        assert done.stdout == "1 None\n" * 5, done
        # NVRTC asks for a table too and works without it, so it gets no message.
        first, second = done.stderr.splitlines()
        assert "contains NVIDIA's CUDA runtime" in first and "nvcc -cudart shared" in first, first
        assert "00010203-0405-0607-0809-0a0b0c0d0e0f" in second and "a program that needs this table" in second, second


NVRTC = """
import ctypes, sys
cuda, nvrtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.13")
context, program, module, function, size = (ctypes.c_void_p() for _ in range(5))
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
source = b'extern "C" __global__ void k(float *p) { p[threadIdx.x] = 1; }'
for arch, kind in ((b"compute_75", "PTX"), (b"sm_90", "CUBIN")):
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=" + arch)
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
    assert getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)) == 0
    image = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{kind}")(program, image) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0, kind
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k") == 0, kind
"""


def nvrtc_works_without_a_message():
    get = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../toolkit/get")
    found = subprocess.run([get, "--check"], capture_output=True, text=True, check=False)
    if found.returncode:
        raise Skip(found.stderr.strip())
    libraries = os.path.join(found.stdout.strip(), "../lib")
    with Rig(env={"LD_LIBRARY_PATH": libraries}) as rig:
        for place in ((), ("--remote", "local")):
            done = rig.divvy("run", "--request", "0.2", "--quiet", *place, "--", sys.executable, "-c", NVRTC)
            assert (done.returncode, done.stderr) == (0, ""), done


def no_network_is_needed():
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        raise Skip("no rights to make a network namespace")
    with Rig() as rig:
        done = rig.divvy(
            "run", "--request", "0.3", "--quiet", "--remote", "local", "--", "unshare", "--net", SPIN, "--count=10"
        )
        assert done.returncode == 0 and json.loads(done.stdout)["kernels"] == 10, done


def the_program_reports_a_server_that_cannot_start():
    with Rig() as rig:
        done = subprocess.run(
            [
                "sh",
                "-c",
                'ulimit -f 0; exec "$@"',
                "sh",
                DIVVY,
                "run",
                "--request",
                "0.2",
                "--memory",
                "4Gi",
                "--quiet",
                "--remote",
                "local",
                "--",
                "true",
            ],
            env=rig.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
        )
        refused(done, 125, "divvy-remote-server did not start", "ulimit")
        assert not [f for f in os.listdir(rig.dir) if f.startswith("remote-")]
        wait_for(lambda: not rig.json("ps", "-o", "json"), "the tenant is removed")


def an_invitation_gives_a_share_of_another_machine():
    with Rig() as rig:
        server, invitation = serve(rig, "far", "--request", "0.3", "--limit", "0.3", "--memory", "2Gi")
        place, key = invitation.split("/")
        stranger = Far(rig).run(f"{place}/{key[::-1]}", "true")
        assert stranger.wait(patience()) == 125 and "refused" in stranger.stderr.read()
        child = Far(rig).run(invitation, SPIN, "--kernel-us=500", "--duration=120")
        wait_for(lambda: workers(rig, "far"), "the worker registers")
        wait_for(lambda: 250 < rig.got("far") < 350, "the program keeps its share")
        again = Far(rig).run(invitation, "true")
        error = again.communicate(timeout=patience())[1]
        assert again.returncode == 125 and "a used one" in error and key not in error, error
        child.kill()
        child.communicate()
        assert server.wait(patience()) == 0
        wait_for(lambda: not rig.tenant("far"), "the tenant is removed")


def the_program_reports_a_port_of_another_service():
    other = "the program that answers there is not divvy serve"
    with Rig(daemon=False) as rig, socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        for says, why in (
            (b"SSH-2.0-OpenSSH_9.2\r\n", other),
            (b"HTTP/1.0 400 Bad Request\r\n\r\n", other),
            # an alert of a TLS 1.2 server: protocol_version
            (bytes((21, 3, 3, 0, 2, 2, 70)), other),
            (b"", "refused: the key belongs to no invitation"),
        ):
            child = Far(rig).run(f"{place}/{'0' * 64}", "true")
            sock, _ = listener.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(says)
            error = child.communicate(timeout=patience())[1]
            assert child.returncode == 125 and f"--remote {place}: {why}" in error, (says, error)


def a_device_that_was_not_granted_is_refused():
    with Rig(simulate="2xH200-141Gi") as rig:
        for count, device, says in (
            ("1", "1", "device 1: the tenant has device 0 only; the invitation is still valid"),
            ("2", "2", "device 2: the tenant has 2 devices, 0 to 1; the invitation is still valid"),
        ):
            server, invitation = serve(rig, "far", "--request", "0.3", "--count", count)
            far = Far(rig, DIVVY_INVITATION=invitation)
            child = far.run(f"127.0.0.1:{device}", "touch", rig.dir + "/began")
            error = child.communicate(timeout=patience())[1]
            assert child.returncode == 125 and says in error, (child.returncode, error)
            assert not os.path.exists(rig.dir + "/began")
            assert far.run("127.0.0.1:0", SPIN, "--count=1").wait(patience()) == 0
            assert server.wait(patience()) == 0
        # The server knows the program's own choice of devices when the program asks.
        server, invitation = serve(rig, "far", "--request", "0.3")
        child = Far(rig, DIVVY_INVITATION=invitation, CUDA_VISIBLE_DEVICES="2").run("127.0.0.1", SPIN, "--count=1")
        error = child.communicate(timeout=patience())[1]
        says = "divvy: no GPU on the remote machine: '2' is not a list of granted devices, which count from 0"
        assert child.returncode == 1 and says in error, (child.returncode, error)
        assert server.wait(patience()) == 0


def a_program_gets_an_error_when_its_tenant_is_removed():
    removed = "this program has lost its GPU: the tenant has been removed; restart the program\n"
    with Rig() as rig:
        near = rig.spin("near", "--request", "0.3", "--remote", "local", args=("--duration=120", "--memory=64"))
        server, invitation = serve(rig, "far", "--request", "0.3")
        far = Far(rig).run(invitation, SPIN, "--kernel-us=500", "--duration=120", "--memory=64")
        wait_for(lambda: rig.got("far") > 100, "the program uses the device")
        for name, child, says in (
            ("near", near, f"divvy: {removed}"),
            ("far", far, f"divvy: remote machine: {removed}"),
        ):
            assert rig.divvy("remove", name).returncode == 0
            error = child.communicate(timeout=patience())[1]
            assert child.returncode == 1 and error.count(says) == 1, (name, error)
            assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in error and "GPU lost" not in error, (name, error)
        assert (
            server.wait(patience()) == 1
            and server.stderr.read().count("divvy serve: exiting, since the tenant has been removed\n") == 1
        )
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["memory_used_bytes"] == 0, "the device's memory is free")


def a_removed_tenant_ends_its_waiting_server():
    with Rig() as rig:
        path = os.path.join(rig.dir, "invitation")
        server = rig.spawn(
            DIVVY, "serve", "--listen", "127.0.0.1:0", "--name", "far", "--request", "0.3", f"--invite={path}"
        )
        wait_for(lambda: os.path.exists(path), "the invitation is written")
        assert rig.divvy("remove", "far").returncode == 0
        assert (
            server.wait(patience()) == 1
            and "divvy serve: exiting, since the tenant has been removed" in server.stderr.read()
        )
        assert not os.path.exists(path)


def the_program_reports_a_server_without_divvyd():
    with Rig() as rig:
        _, invitation = serve(rig, "far", "--request", "0.3")
        rig.stop(signal.SIGKILL)
        child = Far(rig).run(invitation, SPIN, "--count=1")
        error = child.communicate(timeout=patience())[1]
        assert child.returncode == 1 and "divvy: no GPU on the remote machine: divvyd does not answer" in error, error


def wrong_environment_variables_are_reported():
    with Rig() as rig:
        done = rig.divvy(
            "run",
            "--request",
            "0.2",
            "--quiet",
            "--remote",
            "local",
            "--",
            "env",
            "DIVVY_REMOTE=/no/where",
            SPIN,
            "--count=1",
        )
        assert (
            done.returncode == 1 and "divvy: no remote GPU: no link of divvy listens on '/no/where'" in done.stderr
        ), done.stderr
        done = rig.divvy(
            "run",
            "--request",
            "0.2",
            "--quiet",
            "--remote",
            "local",
            "--",
            "env",
            "DIVVY_REMOTE_SYNC=maybe",
            SPIN,
            "--count=1",
        )
        assert done.returncode == 0 and "DIVVY_REMOTE_SYNC 'maybe': expected 0 or 1" in done.stderr, done.stderr


def a_dry_run_shows_the_programs_environment():
    with Rig() as rig:
        done = rig.divvy("run", "--request", "0.2", "--remote", "local", "--dry-run", "--", "a", "program")
        *env, argv = done.stdout.splitlines()
        env = dict(line.split("=", 1) for line in env)
        assert sorted(env) == ["DIVVY_REMOTE", "LD_LIBRARY_PATH", "LD_PRELOAD"] and argv == "a program", done.stdout
        assert "libdivvy-remote.so" in env["LD_PRELOAD"] and not os.path.exists(env["DIVVY_REMOTE"]), env


def a_quota_holds_over_a_link():
    with Rig() as rig:
        _, invitation = serve(rig, "far", "--request", "0.3", "--memory", "2Gi")
        child = Far(rig).run(invitation, SPIN, "--count=10", "--memory=3072")
        assert child.wait(patience()) == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in child.stderr.read()


def worker_that_computes(rig):
    """A worker that has just registered may still be in cuInit(), which reports a cut link as no
    device."""
    wait_for(lambda: workers(rig, "far") and rig.got("far"), "the worker uses the device")
    return workers(rig, "far")[0]


def a_cut_link_is_an_error():
    with Rig() as rig:
        server, invitation = serve(rig, "far", "--request", "0.3")
        child = Far(rig).run(invitation, SPIN, "--kernel-us=500", "--duration=120")
        worker = worker_that_computes(rig)
        server.kill()
        error = child.communicate(timeout=patience())[1]
        assert child.returncode == 1 and "CUDA_ERROR_DEVICE_UNAVAILABLE" in error, (child.returncode, error)
        wait_for(lambda: not alive(worker), "the worker has ended")


def a_late_and_narrow_network_is_only_slower():
    with Rig() as rig:
        _, invitation = serve(rig, "far", "--request", "0.3")
        shim = Shim(rig, invitation, "delay=2000", "skew=3000", "rate=400")
        child = Far(rig).run(shim.invitation, SPIN, "--count=50", "--memory=64")
        wait_for(lambda: child.poll() is not None or workers(rig, "far"), "the worker registers")
        shim.say("rate=200")
        said, error = child.communicate(timeout=patience())
        assert child.returncode == 0 and json.loads(said)["kernels"] == 50, error


def a_network_that_ends_is_an_error():
    with Rig() as rig:
        _, invitation = serve(rig, "far", "--request", "0.3")
        shim = Shim(rig, invitation, "delay=200")
        child = Far(rig).run(shim.invitation, SPIN, "--kernel-us=500", "--duration=120")
        worker = worker_that_computes(rig)
        shim.say("cut")
        error = child.communicate(timeout=patience())[1]
        assert child.returncode == 1 and "CUDA_ERROR_DEVICE_UNAVAILABLE" in error, (child.returncode, error)
        wait_for(lambda: not alive(worker), "the worker has ended")


def write_private(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
        f.write(text + "\n")


def an_invitation_in_a_file_or_in_the_environment():
    with Rig() as rig:
        path = os.path.join(rig.dir, "invitation")

        def invited():
            server = rig.spawn(DIVVY, "serve", "--listen", "127.0.0.1:0", f"--invite={path}", "--request", "0.3")
            wait_for(lambda: os.path.exists(path) and os.stat(path).st_size, "the invitation is written")
            return server

        # A refused `divvy serve` leaves no invitation file.
        refused(
            rig.divvy("serve", "--listen", "127.0.0.1:0", f"--invite={path}", "--request", "0.3", "--memory", "200Gi"),
            1,
            "divvy serve: memory 200Gi",
        )
        assert not os.path.exists(path)
        server = invited()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        refused(
            rig.divvy("serve", "--listen", "127.0.0.1:0", f"--invite={path}", "--request", "0.1"),
            2,
            "--invite",
            "the file exists",
        )
        os.chmod(path, 0o640)
        refused(rig.divvy("run", "--remote", "localhost", "--invitation", path, "--", "true"), 125, "0640", "chmod 600")
        os.chmod(path, 0o600)
        with open(path, encoding="ascii") as f:
            invitation = f.read().strip()
        child = Far(rig).run("localhost", "env", options=("--invitation", path))
        out, err = child.communicate(timeout=patience())
        assert child.returncode == 0 and invitation.split("/")[1] not in out + err, err
        assert server.wait(patience()) == 0 and not os.path.exists(path)
        server = invited()
        with open(path, encoding="ascii") as f:
            child = Far(rig, DIVVY_INVITATION=f.read().strip()).run("localhost", "env")
        out, err = child.communicate(timeout=patience())
        assert child.returncode == 0 and "DIVVY_INVITATION" not in out, (out, err)
        assert server.wait(patience()) == 0
        server = invited()
        server.terminate()
        assert server.wait(patience()) and not os.path.exists(path)
        for text, why in (
            (invitation, "no program listens"),
            (invitation + " \r", "no program listens"),
            ("", "empty first line"),
            (invitation.upper(), "expected HOST:PORT/KEY"),
        ):
            write_private(path, text)
            refused(rig.divvy("run", "--remote", "localhost", "--invitation", path, "--", "true"), 125, why)
        refused(rig.divvy("run", "--remote", "localhost", "--invitation", rig.dir, "--", "true"), 125, "is a folder")


def the_runtime_folder_gets_the_daemons_mode():
    """The first program makes the folder: root's is for all users, any other user's only for that
    user."""
    with Rig() as rig:
        folder = os.path.join(rig.dir, "fresh")
        env = {**os.environ, "DIVVY_RUNTIME_DIR": folder, "DIVVY_INVITATION": "localhost:1/" + 64 * "a"}
        refused(
            subprocess.run(
                [DIVVY, "run", "--remote", "localhost", "--", "true"],
                env=env,
                capture_output=True,
                text=True,
                timeout=patience(),
                check=False,
            ),
            125,
            "no program listens",
        )
        assert stat.S_IMODE(os.stat(folder).st_mode) == (0o700 if os.getuid() else 0o755)


def an_invitation_on_stdin_leaves_the_rest_to_the_program():
    with Rig() as rig:
        path = os.path.join(rig.dir, "said")
        for kind in ("pipe", "file"):
            server, invitation = serve(rig, "far", "--request", "0.3")
            write_private(path, invitation + "\r\nsome\ndata")
            with open(path, encoding="ascii") as f:
                child = Far(rig).run(
                    "127.0.0.1", "cat", options=("--invitation", "-"), stdin=f if kind == "file" else subprocess.PIPE
                )
                out, err = child.communicate(f.read() if kind == "pipe" else None, timeout=patience())
            assert child.returncode == 0 and out == "some\ndata\n", (kind, out, err)
            assert server.wait(patience()) == 0


def a_program_selects_one_device_of_two():
    with Rig(simulate="2xH200-141Gi") as rig:
        for device, code in (("0", 0), ("1", 1)):
            server, invitation = serve(rig, "far", "--request", "0.2", "--count", "2")
            child = Far(rig, DIVVY_INVITATION=invitation).run("127.0.0.1:1", SPIN, "--count=3", f"--device={device}")
            assert child.wait(patience()) == code, child.communicate()
            child.communicate()
            assert server.wait(patience()) == 0


def needs_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        raise Skip(f"no IPv6 on this machine: {error.strerror}") from error


def comes_from(rig, far, place, peer):
    """Starts a program that uses the device, and checks that `ps` shows it."""
    child = far.run(place, SPIN, "--kernel-us=500", "--duration=120")

    def seen():
        assert child.poll() is None, child.communicate()
        return (rig.tenant("far") or {}).get("remote", {}).get("peer")

    assert wait_for(seen, "the link reports its peer") == peer
    wait_for(lambda: workers(rig, "far"), "the worker registers")
    assert peer in rig.divvy("ps").stdout
    child.kill()
    child.communicate()


def a_server_can_listen_on_an_ipv6_address():
    needs_ipv6()
    with Rig(simulate="2xH200-141Gi") as rig:
        server, invitation = serve(rig, "far", "--request", "0.2", "--count", "2", listen="[::1]:0")
        assert re.fullmatch(r"\[::1\]:[0-9]+/[0-9a-f]{64}", invitation), invitation
        comes_from(rig, Far(rig), invitation, "::1")
        assert server.wait(patience()) == 0
        for device, code in (("0", 0), ("1", 1)):
            server, invitation = serve(rig, "far", "--request", "0.2", "--count", "2", listen="[::1]:0")
            child = Far(rig, DIVVY_INVITATION=invitation).run("[::1]:1", SPIN, "--count=3", f"--device={device}")
            assert child.wait(patience()) == code, child.communicate()
            child.communicate()
            assert server.wait(patience()) == 0
        stranger = Far(rig).run(f"[::1]:1/{'0' * 64}", "true")
        error = stranger.communicate(timeout=patience())[1]
        assert stranger.returncode == 125 and "--remote [::1]:1: no program listens there" in error, error


def the_ipv6_wildcard_also_accepts_ipv4():
    needs_ipv6()
    with Rig() as rig:
        for place, peer in (("[::1]", "::1"), ("127.0.0.1", "127.0.0.1")):
            server, invitation = serve(rig, "far", "--request", "0.2", listen="[::]:0")
            assert invitation.startswith(socket.gethostname() + ":"), invitation
            comes_from(rig, Far(rig, DIVVY_INVITATION=invitation), place, peer)
            assert server.wait(patience()) == 0


NETWORK = """ip link set lo up
ip link add near type veth peer name other
ip link set near up
ip link set other up
ip -6 address add fe80::7/64 dev near nodad
echo up
exec sleep infinity
"""


def a_server_can_listen_on_an_address_with_a_scope():
    needs_ipv6()
    if (
        not shutil.which("ip")
        or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode
    ):
        raise Skip("no ip, or no rights to make a network namespace")
    with Rig() as rig:
        network = rig.spawn("unshare", "--net", "sh", "-ec", NETWORK)
        if network.stdout.readline() != "up\n":
            raise Skip(
                "no veth with an address of IPv6 can be made here: "
                + network.communicate(timeout=patience())[1].strip()
            )
        there = ("nsenter", f"--net=/proc/{network.pid}/ns/net")
        _, invitation = serve(rig, "far", "--request", "0.2", listen="[fe80::7%near]:0", before=there)
        assert invitation.startswith("[fe80::7%near]:"), invitation
        far = Far(rig, DIVVY_INVITATION=invitation)
        child = far.run("[fe80::7%near]", SPIN, "--count=10", before=there)
        out, err = child.communicate(timeout=patience())
        assert child.returncode == 0 and json.loads(out)["kernels"] == 10, (out, err)
        network.kill()
        network.wait(patience())


def a_request_beside_an_invitation_is_refused():
    with Rig(daemon=False) as rig:
        refused(
            rig.divvy("run", "--request", "0.2", "--remote", f"127.0.0.1:1/{'0' * 64}", "--", "true"),
            125,
            "--request",
            "divvy serve",
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            refused(
                rig.divvy("serve", "--request", "0.2", "--listen", f"127.0.0.1:{port}"),
                1,
                f"--listen: another program uses port {port}",
                "HOST:0",
            )
        refused(
            rig.divvy("serve", "--request", "0.2", "--listen", f"{300 * 'a'}:7007"),
            2,
            "the host name has 300 characters",
            "HOST:PORT",
        )
        for where, why in (
            ("here", "port is missing"),
            ("2001:db8::7:7007", "IPv6 address in brackets"),
            ("[::1:7007", "no ']' ends the address"),
            ("[gpu7]:7007", "is not an IPv6 address"),
            ("[fe80::7%]:7007", "is not an IPv6 address"),
        ):
            refused(
                rig.divvy("serve", "--request", "0.2", "--listen", where), 2, f"--listen: '{where}'", why, "HOST:PORT"
            )


def a_malformed_place_is_refused_with_a_message():
    with Rig(daemon=False) as rig:
        for args, parts in [
            (("--remote", "far.example/x"), ("--remote 'far.example': the port is missing", "local", "HOST[:DEVICE]")),
            (("--remote", "far.example:7/abc"), ("'far.example:7': the key after it has 3 characters; expected 64",)),
            (("--remote", "far.example:7007"), ("'7007' is not a device", "0 to 15")),
            (("--remote", "2001:db8::7"), ("--remote '2001:db8::7'", "IPv6 address in brackets", "[2001:db8::7]")),
            (("--remote", "[2001:db8::7]:7007"), ("'7007' is not a device", "0 to 15")),
            (("--remote", "[far.example]"), ("'far.example' is not an IPv6 address", "HOST[:DEVICE]")),
            (("--remote", "far.example"), ("--remote far.example", "divvy serve --invite", "DIVVY_INVITATION")),
            (("--remote", "far", "--invitation", "/nowhere/at/all"), ("/nowhere/at/all", "No such file")),
            (("--remote", "far", "--invitation", "/dev/null"), ("/dev/null", "empty")),
            (("--request", "0.2", "--remote", "local", "--invitation", "x"), ("--invitation", "local")),
            (("--request", "0.2", "--invitation", "x"), ("--invitation", "--remote HOST")),
            (("--request", "0.2", "--remote", "local:1"), ("--remote 'local:1'", "--device")),
        ]:
            refused(rig.divvy("run", *args, "--", "true"), 125, *parts)
        refused(
            rig.divvy("run", "--remote", "far", "--", "true", env={"DIVVY_INVITATION": "x"}),
            125,
            "DIVVY_INVITATION",
            "HOST:PORT/KEY",
        )
        refused(
            rig.divvy("run", "--request", "0.2", "--remote", "local", "--container", "docker", "--", "run", "image"),
            125,
            "--remote",
            "--container",
        )


main(
    remote_tenants_get_their_shares_beside_a_local_tenant,
    a_local_latency_tenant_displaces_a_remote_opportunistic_one,
    memory_is_a_quota,
    the_program_does_not_get_the_tenants_secret,
    a_worker_is_confined_and_keeps_no_secret,
    devices_that_reach_host_memory_are_served_only_on_request,
    a_killed_worker_is_an_error_of_its_own_program_only,
    a_killed_program_frees_everything,
    the_program_reports_a_server_that_cannot_start,
    an_invitation_gives_a_share_of_another_machine,
    the_program_reports_a_port_of_another_service,
    a_device_that_was_not_granted_is_refused,
    a_program_gets_an_error_when_its_tenant_is_removed,
    a_removed_tenant_ends_its_waiting_server,
    the_program_reports_a_server_without_divvyd,
    wrong_environment_variables_are_reported,
    a_dry_run_shows_the_programs_environment,
    a_quota_holds_over_a_link,
    a_cut_link_is_an_error,
    a_late_and_narrow_network_is_only_slower,
    a_network_that_ends_is_an_error,
    ps_and_top_show_the_connection,
    nvml_reports_the_remote_device,
    nvml_lists_the_programs_own_processes,
    nvml_lists_more_processes_than_fit_in_one_message,
    nvml_lists_processes_by_the_pids_of_their_namespace,
    export_tables_are_refused_with_a_message,
    nvrtc_works_without_a_message,
    the_runtime_folder_gets_the_daemons_mode,
    an_invitation_in_a_file_or_in_the_environment,
    an_invitation_on_stdin_leaves_the_rest_to_the_program,
    a_program_selects_one_device_of_two,
    a_server_can_listen_on_an_ipv6_address,
    the_ipv6_wildcard_also_accepts_ipv4,
    a_server_can_listen_on_an_address_with_a_scope,
    a_request_beside_an_invitation_is_refused,
    no_network_is_needed,
    a_malformed_place_is_refused_with_a_message,
)
