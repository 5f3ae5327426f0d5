#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Devices of another node: a pod on a real kubelet without a GPU uses a device that another node's daemon serves.

All of divvy runs as installed, with its own accounts. The device node has a daemon and no kubelet."""

import contextlib
import itertools
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from cluster import NODE_OF_OURS, Skip, is_chroot, main, open_cluster, skip_all, unique, wait_for  # noqa: E402
from controller import SYSTEM, installed  # noqa: E402
from divvyd import BUILD, GIB, IMAGE, Daemon, bound_account, events_of, make_image  # noqa: E402
from scheduled import PROGRAM as SCHEDULER  # noqa: E402
from tap import fairly, patience, stat_of  # noqa: E402

FAR = "gpu-node"
MAGIC, ABI, CHECK = 0x64766661, 2, 1  # src/link/node-link.h
SIGNER = "divvy.gpu/remote"


class Server(Daemon):
    """The daemon of the device node."""

    def __init__(self, simulate):
        super().__init__(
            cluster, simulate, account=bound_account(cluster, "divvyd-far", FAR), name="divvyd-far", node=FAR
        )
        self.address = (cluster.slot.address, cluster.slot.first + 11)
        self.kubelet_dir = os.path.join(self.dir, "kubelet")
        os.makedirs(os.path.join(self.kubelet_dir, "device-plugins"))

    def place(self):
        return ("[%s]:%d" if ":" in self.address[0] else "%s:%d") % self.address

    def start(self, *options, **environment):
        super().start("--remote-listen", self.place(), "--sys-dir", network(FAR), *options, **environment)

    def await_serving(self):
        wait_for(
            lambda: self.answers() and (self.status().get("remote") or {}).get("address") == self.place(),
            "the daemon serves its devices to other nodes",
            120,
        )


def network(node):
    """A folder with the node's network files, as in sysfs."""
    folder = os.path.join(cluster.dir, "sys-" + node)
    for name, text in {
        "class/net/eth0/type": "1",
        "class/net/eth0/operstate": "up",
        "class/net/eth0/speed": "10000",
        "class/net/eth0/device/vendor": "0x15b3",
    }.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="ascii") as f:
            f.write(text + "\n")
    return folder


def pods(name=""):
    return f"/api/v1/namespaces/{cluster.namespace}/pods" + (f"/{name}" if name else "")


def make(name, *args, account=None, **asked):
    """A pod that runs spin with these arguments and keys, as a user writes it."""
    keys = {"divvy.gpu/" + k.replace("_", "-"): v for k, v in asked.items()}
    return (account or cluster).create(
        pods(),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": keys},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 1000},
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "args": list(args),
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    }
                ],
            },
        },
    )


def running(*names):
    """Waits until their programs use the device."""
    for name in names:
        cluster.wait_for_pod(name, "Running")
    wait_for(lambda: all(server.listed().get(n, {}).get("processes") for n in names), f"{names} use their device", 60)


def given(name, key):
    return cluster.pod(name)["metadata"]["annotations"].get("divvy.gpu/" + key)


def remove(*names):
    for name in names:
        cluster.delete(pods(name), grace_s=0)
    gone(*names)


def gone(*names):
    """Waits until the device node has none of their tenants, and GPUNode shows that."""
    wait_for(
        lambda: not any(f"{n}/main" in server.tenants() for n in names) and not set(names) & set(server.listed()),
        f"the grants of {names} have ended",
        60,
    )


def pids_of(name):
    return [p["pid"] for p in server.listed()[name]["processes"]]


def said(name, words, reason="GrantRefused"):
    wait_for(lambda: any(words in m for m in events_of(cluster, name).get(reason, [])), f"{name}: {words}", 120)


# ---- reports of both nodes


def each_node_reports_its_roles():
    client.await_ready()
    server.await_serving()
    ready = client.condition("Ready")
    assert (ready["reason"], ready["message"]) == (
        "Serving",
        "the node has no device; its pods get devices of other nodes over the network",
    ), ready
    status = client.status()
    assert status["deviceCount"] == 0 and status["slots"] == {"total": 64, "used": 0} and "remote" not in status, status
    wait_for(lambda: client.slots_offered() == 64, "the kubelet offers slots")
    # The device node's kubelet would refuse a pod without its resource sums.
    node = cluster.get(f"/api/v1/nodes/{cluster.node_name}")["status"]
    assert not {"divvy.gpu/milli", "divvy.gpu/memory-mib"} & set(node["capacity"]), node["capacity"]
    assert len(server.devices()) == 2, server.status()


def the_network_between_nodes_is_measured():
    """Only daemons that serve are measured, and the measuring daemon reports the result."""
    wait_for(
        lambda: [p["name"] for p in client.status()["network"].get("peers", [])] == [FAR],
        "the client node has measured the device node",
        180,
    )
    (peer,) = client.status()["network"]["peers"]
    print(f"# {peer}")
    assert peer["roundTripMicroseconds"] >= 1 and peer["bitsPerSecond"] >= 1 and peer["measuredAt"], peer
    assert server.status()["network"]["peers"] == [], server.status()["network"]


# ---- grants are enforced


def two_pods_have_their_shares():
    uuid = server.devices()[0]
    looks = itertools.count(1)

    def look():
        nth = next(looks)
        low, high = f"low-{nth}", f"high-{nth}"
        for name, share in ((low, "0.3"), (high, "0.7")):
            # Long kernels: the tenants keep their shares on a busy machine, which delays short kernels.
            make(name, "--kernel-us=2000", "--duration=26", mode="remote", request=share, memory="8Gi", device=uuid)
        running(low, high)
        assert given(low, "granted-mode") == "main=remote" and given(low, "remote-node") == f"main={FAR}"
        of_low, of_high = server.tenant(low), server.tenant(high)
        assert of_low["request"] == 300 and of_low["mode"] == "remote", of_low
        assert of_high["memoryBytes"] == [8 * GIB] and of_high["devices"] == [uuid], of_high
        assert not client.tenants() and client.status()["slots"]["used"] == 2, client.status()
        time.sleep(11)
        shares, ran = server.shares(**{low: 0.3, high: 0.7})
        print(f"# of {ran:.2f}: {shares}")
        for name in (low, high):
            cluster.wait_for_pod(name, "Succeeded")
        gone(low, high)
        wait_for(lambda: client.status()["slots"]["used"] == 0, "the client node's slots are free")
        # If other tests keep one tenant off the processor, the other tenant uses its device time. The
        # tolerance includes that.
        return None if ran > 0.5 and abs(shares[low] - 0.3) < 0.02 + 0.3 * (1 - min(ran, 1)) else (shares, ran)

    fairly(look, 2)


def a_container_sees_only_a_socket_and_divvys_libraries():
    """A socket and divvy's libraries; no key, no certificate, no driver, and no writable path."""
    make("seen", "--kernel-us=500", mode="remote", request="0.1", memory="1Gi")
    running("seen")
    (worker,) = pids_of("seen")
    pid = next(p for p in spinning() if p != worker)
    root = f"/proc/{pid}/root"
    assert os.listdir(root + "/run/divvy") == ["remote.sock"], os.listdir(root + "/run/divvy")
    with open(root + "/etc/ld.so.preload", encoding="ascii") as f:
        names = ("remote", "remote-nvml", "cudart-12", "cudart-13")
        assert f.read().split() == [f"/opt/divvy/libdivvy-{name}.so" for name in names]
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        maps = f.read()
    assert "libdivvy-remote.so" in maps and "libdivvy-cuda.so" not in maps and "/driver/" not in maps, maps
    with open(f"/proc/{pid}/environ", encoding="utf-8") as f:
        assert "DIVVY_TENANT" not in f.read()
    # The worker runs under a user id that no other process has, and in no group.
    with open(f"/proc/{worker}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f.read().splitlines())
    assert len(set(status["Uid"].split())) == 1 and int(status["Uid"].split()[0]) >= 0x7FF00000, status["Uid"]
    assert status["Groups"].strip() == "" and status["NoNewPrivs"].strip() == "1", status
    assert int(status["CapEff"].strip(), 16) == 0, status["CapEff"]
    remove("seen")


def spinning():
    """spin processes in pods of this node, as this machine sees them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/comm", encoding="utf-8") as comm, open(
                f"/proc/{pid}/cgroup", encoding="utf-8"
            ) as cgroup:
                is_ours = comm.read() == "spin\n" and f"/{cluster.node.seat.group}/" in cgroup.read()
            if is_ours and os.path.exists(f"/proc/{pid}/root/run/divvy/remote.sock"):
                found.append(int(pid))
    return found


def a_remote_pod_cannot_exceed_its_memory_quota():
    make("good", "--kernel-us=500", "--memory=4096", mode="remote", request="0.3", memory="6Gi")
    running("good")
    make(
        "greedy",
        "--kernel-us=500",
        "--memory=4096",
        mode="remote",
        request="0.3",
        memory="2Gi",
        device=server.tenant("good")["devices"][0],
    )
    cluster.wait_for_pod("greedy", "Failed")
    assert "CUDA_ERROR_OUT_OF_MEMORY" in cluster.log_of("greedy"), cluster.log_of("greedy")
    said("greedy", "allocation refused: quota 2", reason="OverMemory")
    before = server.used("good")
    wait_for(lambda: server.used("good") > before, "the program of good continues")
    gone("greedy")
    remove("good", "greedy")


def auto_chooses_a_node_with_free_capacity():
    make("auto", "--kernel-us=500", request="0.4", memory="1Gi")
    running("auto")
    assert given("auto", "granted-mode") == "main=remote", given("auto", "granted-mode")
    remove("auto")


def why(name):
    """kubectl divvy why, as a user calls it."""
    done = subprocess.run(
        [cluster.kubectl_path, "divvy", "why", name, "-n", cluster.namespace],
        text=True,
        capture_output=True,
        check=False,
        env={
            **os.environ,
            "KUBECONFIG": cluster.kubeconfig,
            "HOME": cluster.dir,
            "PATH": f"{os.path.join(BUILD, 'src/kubectl')}:{os.environ['PATH']}",
        },
    )
    return done.stdout + done.stderr


def why_explains_a_remote_pod_that_does_not_fit():
    make("most", "--kernel-us=500", mode="remote", request="0.8", memory="1Gi", device=server.devices()[0])
    running("most")
    make("more", mode="remote", request="0.5", device=server.devices()[0])
    wait_for(lambda: "over the network 0/1 nodes that serve" in why("more"), "kubectl divvy why gives the reason", 60)
    remove("more", "most")


def a_pod_with_an_impossible_latency_waits():
    make("nearer", mode="remote", request="0.1", network="1us")
    said("nearer", f"us to node {cluster.node_name}, at most 1 us requested", reason="FailedScheduling")
    rows = [line for line in why("nearer").splitlines() if line.startswith(FAR)]
    assert any(f"us to node {cluster.node_name}, at most 1 us requested" in row for row in rows), why("nearer")
    # The scheduler grants the requested bandwidth of 1 Mbps, and no more.
    make("near-enough", "--kernel-us=500", mode="remote", request="0.1", memory="1Gi", network="1Mbps,900000us")
    running("near-enough")
    assert given("near-enough", "granted-network") == "main=eth0,eth0,1Mbps", given("near-enough", "granted-network")
    (scheduled,) = events_of(cluster, "near-enough")["Scheduled"]
    assert " us" in scheduled, scheduled
    remove("nearer", "near-enough")


def a_resize_takes_effect_on_the_device_node():
    make("changes", "--kernel-us=2000", mode="remote", request="0.2", memory="1Gi", limit="1")
    running("changes")
    wait_for(lambda: server.got("changes") > 900, "the only tenant gets the whole device", 300)
    began = time.monotonic()
    cluster.patch(pods("changes"), {"metadata": {"annotations": {"divvy.gpu/limit": "0.4"}}})
    wait_for(lambda: server.listed()["changes"]["spec"]["limit_permille"] == 400, "the limit is in force", 30)
    print(f"# in force after {time.monotonic() - began:.2f} s")
    wait_for(lambda: abs(server.got("changes") - 400) < 60, "the tenant gets its limit", 60)
    wait_for(lambda: server.tenant("changes")["limit"] == 400, "GPUNode shows the limit")
    remove("changes")


def several_processes_have_one_share():
    """Each has a worker of its own; all belong to one tenant."""
    if is_chroot():
        raise Skip("kubectl exec is not to be had in a chroot")
    make("many", "--kernel-us=500", mode="remote", request="0.5", memory="8Gi", limit="0.5")
    running("many")
    cluster.kubectl("-n", cluster.namespace, "exec", "many", "--", "/bin/spin", "--kernel-us=500", "--duration=4")
    assert len(pids_of("many")) == 1, server.listed()["many"]
    remove("many")


# ---- refused requests


def hello(space, pod):
    return struct.pack("<IHH64s254s2s", MAGIC, ABI, CHECK, space.encode(), pod.encode(), b"")


def ask(space, pod, cert=None, key=None):
    """(status, text) from the device node; None: it closed the connection."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if cert:
        tls.load_cert_chain(cert, key)
    with socket.create_connection(server.address, timeout=patience(30)) as plain:
        try:
            with tls.wrap_socket(plain) as s:
                s.sendall(hello(space, pod))
                answer = b""
                while len(answer) < 264:
                    piece = s.recv(264 - len(answer))
                    if not piece:
                        return None
                    answer += piece
        except (ssl.SSLError, ConnectionError):
            return None
    _, status, text = struct.unpack("<Ii256s", answer)
    return status, text.split(b"\0")[0].decode()


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True, stdin=subprocess.DEVNULL)


def new_key(folder, name, uri):
    """A key and a request for a certificate of that name: paths."""
    os.makedirs(folder, exist_ok=True)
    key, request = (os.path.join(folder, f"{name}.{end}") for end in ("key", "csr"))
    openssl(
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        key,
        "-out",
        request,
        "-subj",
        "/",
        "-addext",
        "subjectAltName=URI:" + uri,
    )
    return key, request


def self_made(folder, name, uri):
    key = os.path.join(folder, name + ".key")
    cert = os.path.join(folder, name + ".crt")
    os.makedirs(folder, exist_ok=True)
    openssl(
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        key,
        "-out",
        cert,
        "-subj",
        "/CN=" + name,
        "-addext",
        "subjectAltName=URI:" + uri,
        "-days",
        "1",
    )
    return cert, key


def signed(name, uri, account):
    """A certificate, requested as the daemon of the pod's node does; the controller signs it."""
    import base64

    key, request = new_key(os.path.join(cluster.dir, "intruder"), name, uri)
    with open(request, "rb") as f:
        text = base64.b64encode(f.read()).decode()
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    its_name = unique(name)
    account.create(
        path,
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": its_name},
            "spec": {
                "request": text,
                "signerName": SIGNER,
                "usages": ["digital signature", "client auth", *(["server auth"] if "//node/" in uri else [])],
            },
        },
    )
    found = {}

    def there():
        found["status"] = cluster.get(f"{path}/{its_name}").get("status") or {}
        return found["status"].get("certificate")

    wait_for(there, f"the request {its_name} is signed: {found}", 60)
    cert = key.replace(".key", ".crt")
    with open(cert, "wb") as f:
        f.write(base64.b64decode(found["status"]["certificate"]))
    return cert, key


def unauthenticated_connections_get_nothing():
    make("owner", "--kernel-us=500", mode="remote", request="0.2", memory="1Gi")
    running("owner")
    uid = cluster.pod("owner")["metadata"]["uid"]
    folder = os.path.join(cluster.dir, "intruder")
    # The device node closes connections with no certificate, with garbage, or with a self-signed certificate for this
    # container.
    assert ask(cluster.namespace, "owner") is None
    with socket.create_connection(server.address, timeout=patience(30)) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while s.recv(4096):
                pass
    assert ask(cluster.namespace, "owner", *self_made(folder, "forged", f"divvy://tenant/{uid}/main")) is None
    # The pod's own certificate shows that the tenant exists.
    cert = signed("own", f"divvy://tenant/{uid}/main", client.account)
    assert ask(cluster.namespace, "owner", *cert) == (0, "")
    before = server.tenant("owner")
    assert server.tenant("owner") == before
    # A pod's certificate gives no access to another pod's tenant.
    make("other", "--kernel-us=500", mode="remote", request="0.2", memory="1Gi")
    running("other")
    other = cluster.pod("other")["metadata"]["uid"]
    cert = signed("other", f"divvy://tenant/{other}/main", client.account)
    assert ask(cluster.namespace, "owner", *cert) == (
        0,
        "",
    ), "the certificate of the other pod does not open its own tenant"
    remove("other")
    for space, pod in ((cluster.namespace, "owner"), ("../../x", "owner"), ("x" * 63, "y" * 253)):
        status, text = ask(space, pod, *cert)
        assert status < 0 and f"of UID {other}" in text, (status, text)
    # A node's certificate names no container, so it opens no session.
    cert = signed("node", f"divvy://node/{cluster.node_name}", client.account)
    status, text = ask(cluster.namespace, "owner", *cert)
    assert status < 0 and "expected one of a container" in text, (status, text)
    assert set(server.tenants()) == {"owner/main"}, server.tenants()
    wait_for(lambda: len(pids_of("owner")) == 1, "the owner goes on")
    remove("owner")


def silent_connections_delay_no_program():
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(server.address, timeout=patience(30)))
        make("through", "--kernel-us=500", "--duration=1", mode="remote", request="0.2", memory="1Gi")
        cluster.wait_for_pod("through", "Succeeded")
    remove("through")


def bind_by_hand(name, keys):
    """Writes the keys with the scheduler's own account, right or wrong."""
    scheduler.create(
        pods(name) + "/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": keys},
            "target": {"apiVersion": "v1", "kind": "Node", "name": cluster.node_name},
        },
    )


def the_device_node_refuses_wrong_keys():
    """Keys with devices that the node lacks, of another node, or of an older epoch."""
    running_epoch = server.status()["epoch"]
    right = {
        "devices": server.devices()[0],
        "granted-request": "0.1",
        "granted-limit": "1",
        "granted-memory": "1Gi",
        "granted-mode": "remote",
        "remote-node": FAR,
    }
    cluster.kill("divvy-scheduler")
    try:
        for name, wrong, words in (
            ("device", {"devices": "GPU-0"}, f"node {FAR}: divvy.gpu/devices: this node has no device GPU-0"),
            ("nowhere", {"remote-node": "nobody"}, "node nobody does not serve its devices to other nodes"),
            ("large", {"granted-memory": "150Gi"}, f"node {FAR}: "),
        ):
            make(name, "--count=1", request="0.1", mode="remote")
            keys = {f"divvy.gpu/{k}": f"main={v}" for k, v in {**right, **wrong}.items()}
            bind_by_hand(name, {**keys, "divvy.gpu/epoch": str(running_epoch)})
        for name, words in (
            ("device", f"node {FAR}: divvy.gpu/devices: this node has no device GPU-0"),
            ("nowhere", "node nobody does not serve its devices to other nodes"),
            ("large", f"node {FAR}: "),
        ):
            said(name, words)
            assert f"{name}/main" not in server.tenants()
        remove("device", "nowhere", "large")
    finally:
        start_scheduler()


# ---- faults


def ends_with_an_error(name):
    """Its program gets an error at its next call, and its tenant ends."""
    began = time.monotonic()
    cluster.wait_for_pod(name, "Failed")
    print(f"# {name} has ended after {time.monotonic() - began:.1f} s")
    assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in cluster.log_of(name), cluster.log_of(name)
    gone(name)
    remove(name)


def start_one(name):
    make(name, "--kernel-us=500", "--memory=1024", mode="remote", request="0.3", memory="2Gi")
    running(name)


def a_killed_worker_is_an_error():
    start_one("worker")
    os.kill(pids_of("worker")[0], signal.SIGKILL)
    ends_with_an_error("worker")


def links_of(what, name):
    """The processes that carry that pod's sessions on one side."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().decode().split("\0")
            if words[0] == "divvy-remote-far" and words[1] == what and (what == "serve" or name in words):
                found.append(int(pid))
    return found


def link_of(name):
    """The process that joins the tenant's worker with its program."""
    link = stat_of(pids_of(name)[0]).parent
    assert link in links_of("serve", ""), link
    return link


def a_cut_link_is_an_error():
    start_one("link")
    os.kill(link_of("link"), signal.SIGKILL)
    ends_with_an_error("link")


def a_stopped_link_is_an_error():
    """Its connections stay open without data: both sides notice, and release everything."""
    start_one("silent")
    link = link_of("silent")
    os.kill(link, signal.SIGSTOP)
    ends_with_an_error("silent")
    wait_for(lambda: link not in links_of("serve", ""), "the stopped link has been ended", 30)


def a_killed_program_leaves_nothing():
    start_one("victim")
    used = json.loads(server.divvy("ps", "-o", "json"))
    assert used
    for pid in spinning():
        os.kill(pid, signal.SIGKILL)
    cluster.wait_for_pod("victim", "Failed")
    gone("victim")
    wait_for(lambda: not links_of("reach", "victim"), "its link has ended", 30)
    remove("victim")


def a_killed_daemon_comes_back():
    """The device node's daemon: running programs get errors; grants stay, and new programs use them."""
    start_one("killed")
    cluster.kill("divvyd-far")
    cluster.wait_for_pod("killed", "Failed")
    assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in cluster.log_of("killed"), cluster.log_of("killed")
    server.start()
    server.await_serving()
    gone("killed")
    remove("killed")
    start_one("again")
    remove("again")


def devices_that_reach_host_memory_need_permission():
    """A program's kernels could read its worker's memory there, so an administrator must allow it."""

    def again(*options, **environment):
        cluster.kill("divvyd-far")
        server.cut_power()
        server.start(*options, **environment)

    def reaches(status, reason, words):
        condition = server.condition("HostMemoryReachable")
        return (condition.get("status"), condition.get("reason")) == (status, reason) and words in condition.get(
            "message", ""
        )

    assert reaches("False", "None", ""), server.condition("HostMemoryReachable")
    again(DIVVY_SIM_COSTS="host_access=1")
    wait_for(
        lambda: server.answers() and reaches("True", "HMM", "on 2 of 2 devices"),
        "the condition reports the reachable host memory",
        120,
    )
    wait_for(lambda: not server.status().get("remote"), "the node serves no other node", 60)
    assert reaches("True", "HMM", "do not get these devices"), server.condition("HostMemoryReachable")
    again("--remote-host-access", DIVVY_SIM_COSTS="host_access=2")
    server.await_serving()
    wait_for(
        lambda: reaches("True", "ATS", "--remote-host-access"), "the condition names the option that allows it", 60
    )
    start_one("trusted")
    remove("trusted")
    again()
    server.await_serving()


def a_restarted_container_finds_its_device_again():
    cluster.create(
        pods(),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "restarts",
                "annotations": {"divvy.gpu/mode": "remote", "divvy.gpu/request": "0.3", "divvy.gpu/memory": "2Gi"},
            },
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "args": ["--kernel-us=500"]}
                ],
            },
        },
    )
    running("restarts")
    tenant = server.listed()["restarts"]["id"]
    cluster.kill("divvyd-far")
    server.start()
    server.await_serving()
    wait_for(
        lambda: cluster.pod("restarts")["status"]["containerStatuses"][0]["restartCount"] >= 1,
        "the container has restarted",
        120,
    )
    running("restarts")
    assert server.listed()["restarts"]["id"] == tenant, server.listed()
    # The daemon of the pod's node restarts: a running program continues, and a new program connects.
    cluster.kill("divvyd")
    before = server.used("restarts")
    wait_for(lambda: server.used("restarts") > before, "the program continues")
    client.start("--sys-dir", network(cluster.node_name))
    client.await_ready()
    wait_for(lambda: client.status()["slots"]["used"] == 1, "divvyd knows the slot again", 60)
    if not is_chroot():
        wait_for(
            lambda: cluster.kubectl(
                "-n", cluster.namespace, "exec", "restarts", "--", "/bin/spin", "--count=10", check=False
            )[0]
            == 0,
            "another program of it finds the device",
            60,
        )
    remove("restarts")
    wait_for(lambda: client.status()["slots"]["used"] == 0, "the slot is free")


def a_deleted_pod_frees_its_share():
    start_one("deleted")
    cluster.delete(pods("deleted"))
    gone("deleted")
    wait_for(lambda: not cluster.exists(pods("deleted")), "the pod is deleted")
    device = next(d for d in json.loads(server.divvy("ps", "-o", "json"))) if server.listed() else None
    assert device is None, device


def a_vanished_node_frees_its_pods_shares():
    """Its kubelet and daemon fall silent, and its program is cut off: 30 s after the pod should have ended."""
    start_one("vanished")
    (worker,) = pids_of("vanished")
    cluster.freeze("kubelet")
    try:
        cluster.kill("divvyd")
        for pid in spinning():
            if pid != worker:
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not server.listed()["vanished"].get("processes"), "no process of the pod is connected", 60)
        assert "vanished/main" in server.tenants(), server.tenants()
        cluster.delete(pods("vanished"))
        gone("vanished")
        # The API server still has the pod, so divvyd has not ended the tenant because of a deleted
        # pod.
        pod = cluster.pod("vanished")
        assert pod["metadata"]["deletionTimestamp"] and pod["status"]["phase"] == "Running", pod["status"]
    finally:
        cluster.thaw("kubelet")
        client.start("--sys-dir", network(cluster.node_name))
        client.await_ready()
    wait_for(lambda: not cluster.exists(pods("vanished")), "the kubelet has deleted the pod", 60)


def nodes_connect_over_ipv6():
    """The other node finds its new address in GPUNode, with brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        raise Skip(f"no IPv6 on this machine: {error.strerror}") from error
    cluster.kill("divvyd-far")
    server.address = ("::1", server.address[1])
    server.start()
    server.await_serving()
    start_one("ipv6")
    wait_for(lambda: server.listed()["ipv6"].get("remote", {}).get("peer") == "::1", "the tenant's peer is ::1", 60)
    remove("ipv6")


def a_node_serves_its_own_pod():
    """The node serves its own device, over shared memory: the program cannot reach the driver."""
    cluster.kill("divvyd-far")
    for path in ("/apis/divvy.gpu/v1/gpunodes/" + FAR, "/api/v1/nodes/" + FAR):
        cluster.delete(path)
    cluster.kill("divvyd")
    cluster.patch(f"/apis/divvy.gpu/v1/gpunodes/{client.node}", {"spec": {"simulate": "1xH200-141Gi"}})
    address = "%s:%d" % (cluster.slot.address, cluster.slot.first + 12)
    client.start("--sys-dir", network(client.node), "--remote-listen", address)
    wait_for(
        lambda: (client.status().get("remote") or {}).get("address") == address, "the node serves its own devices", 60
    )
    make("near", "--kernel-us=500", "--memory=1024", mode="remote", request="0.3", memory="2Gi", limit="0.5")
    cluster.wait_for_pod("near", "Running")
    wait_for(lambda: client.listed().get("near", {}).get("processes"), "its worker has registered", 60)
    assert given("near", "remote-node") == f"main={client.node}" and given("near", "granted-network") is None
    assert client.tenant("near")["mode"] == "remote", client.tenants()
    assert client.status()["slots"] == {"total": 64, "used": 1}, client.status()["slots"]
    worker = client.listed()["near"]["processes"][0]["pid"]
    (pid,) = [p for p in spinning() if p != worker]
    assert len(os.listdir(f"/proc/{pid}/root/run/divvy")) == 1, os.listdir(f"/proc/{pid}/root/run/divvy")
    wait_for(lambda: abs(client.got("near") - 500) < 60, "the tenant gets its limit", 60)
    os.kill(pid, signal.SIGKILL)
    cluster.wait_for_pod("near", "Failed")
    wait_for(lambda: not client.tenants() and not os.path.exists(f"/proc/{worker}"), "tenant and worker have ended", 60)
    cluster.delete(pods("near"), grace_s=0)


def start_scheduler():
    cluster.keeper.ask(
        "start",
        name="divvy-scheduler",
        env={"PATH": os.environ["PATH"]},
        argv=[SCHEDULER, "--kubeconfig", scheduler.kubeconfig, "--log", "debug"],
        log=os.path.join(cluster.dir, "log", "divvy-scheduler.log"),
    )


def own_node(name):
    cluster.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"divvy.gpu/owner": "divvy"}}})


TESTS = [
    each_node_reports_its_roles,
    the_network_between_nodes_is_measured,
    two_pods_have_their_shares,
    a_container_sees_only_a_socket_and_divvys_libraries,
    a_remote_pod_cannot_exceed_its_memory_quota,
    auto_chooses_a_node_with_free_capacity,
    why_explains_a_remote_pod_that_does_not_fit,
    a_pod_with_an_impossible_latency_waits,
    a_resize_takes_effect_on_the_device_node,
    several_processes_have_one_share,
    unauthenticated_connections_get_nothing,
    silent_connections_delay_no_program,
    the_device_node_refuses_wrong_keys,
    a_killed_worker_is_an_error,
    a_cut_link_is_an_error,
    a_stopped_link_is_an_error,
    a_killed_program_leaves_nothing,
    a_killed_daemon_comes_back,
    devices_that_reach_host_memory_need_permission,
    a_restarted_container_finds_its_device_again,
    a_deleted_pod_frees_its_share,
    a_vanished_node_frees_its_pods_shares,
    nodes_connect_over_ipv6,
    a_node_serves_its_own_pod,
]

try:
    with open_cluster("kcm", "node", own=NODE_OF_OURS) as cluster, installed(cluster) as controller:
        os.chmod(cluster.dir, 0o711)  # workers have users of their own
        make_image(cluster)
        cluster.fake_node(FAR)
        client = Daemon(cluster, simulate="", account=bound_account(cluster))
        server = Server("2xH200-141Gi")
        for daemon in (client, server):
            daemon.make_gpu_node()
            own_node(daemon.node)
        client.start("--sys-dir", network(cluster.node_name))
        server.start()
        scheduler = cluster.service_account(SYSTEM, "divvy-scheduler")
        start_scheduler()
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
