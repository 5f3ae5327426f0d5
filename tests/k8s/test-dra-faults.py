#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of divvyd as DRA driver, with a real API server and kubelet. The test allocates claims itself, and asks divvyd with the
kubelet's requests (tests/programs/dra-kubelet.c), which a kubelet would send for pods."""

import os

from cluster import NODE_OF_OURS, ApiError, Skip, main, open_cluster, own_minor, skip_all, wait_for
from divvyd import BUILD, Daemon, bound_account, install
from dra import (
    OLDEST,
    SLICES,
    checkpoint,
    checkpoint_path,
    claims_path,
    create_claim,
    install_driver,
    published,
    share,
    slices,
    tenants,
)

ASK = os.path.join(BUILD, "tests/programs/dra-kubelet")
SOCKETS = "/var/lib/kubelet/plugins/divvy.gpu"
CYCLES = int(os.environ.get("DIVVY_TEST_CYCLES", "1000"))


def device(form="share"):
    return f"{form}-{daemon.devices()[0][4:].lower()}"


def allocated(name, milli=10, memory="64Mi", asked=None, **result):
    """A claim that is allocated and reserved, as kube-scheduler leaves it: the words that name it in a request."""
    claim = create_claim(cluster, name, asked or share(milli, memory))
    if "device" not in result:
        result["device"] = device()
    if result["device"].startswith("share-"):
        result.setdefault("shareID", "5a0a9f33-0f22-4f8a-a2bd-000000000000")
        result.setdefault("consumedCapacity", {"share": str(milli), "memory": memory})
    results = [{"request": "gpu", "driver": "divvy.gpu", "pool": cluster.node_name, **result}]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": "00000000-0000-0000-0000-000000000000"}],
    }
    cluster.patch(claims_path(cluster, name) + "/status", {"status": status})
    return [cluster.namespace, name, claim["metadata"]["uid"]]


def ask(*words, patience_s=120):
    """(standard output, refusal) of a request."""
    done = cluster.node.enter(ASK, SOCKETS, *words, check=False, timeout=patience_s)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, done.stderr if done.returncode else ""


def ask_ok(*words, patience_s=120):
    out, refusal = ask(*words, patience_s=patience_s)
    assert not refusal, refusal
    return out


def delete_claim(name):
    path = claims_path(cluster, name)
    cluster.patch(path + "/status", {"status": {"reservedFor": None, "allocation": None}})
    cluster.delete(path)


def cdi_files():
    return cluster.node.enter("find", daemon.cdi_dir, "-name", "divvy.gpu-*").stdout.split()


def what_exists():
    """Numbers of what a leak would leave: tenants, CDI files, claims of the checkpoint, sockets, descriptors."""
    state = os.path.join(daemon.dir, "state/slots")
    sockets = [s for s in os.listdir(state) if os.path.exists(os.path.join(state, s, "divvyd.sock"))]
    fds = len(os.listdir(f"/proc/{cluster.pid('divvyd')}/fd"))
    return len(tenants(daemon)), len(cdi_files()), len(checkpoint(daemon)), len(sockets), fds


def nothing_more_than(before):
    """Connections to the API server come and go, so a few descriptors more or less are no leak; one in each cycle would be."""

    def is_as_before():
        *others, descriptors = what_exists()
        return (*others,) == before[:-1] and descriptors <= before[-1] + 4

    wait_for(is_as_before, f"no more exists than before the cycles: {before}; soon after them {what_exists()}")


def is_consistent():
    """Each claim of the checkpoint has its tenants and CDI files, and nothing else has any."""
    claims = checkpoint(daemon)
    slots = sorted(str(t["slot"]) for c in claims for t in c["tenants"])
    files = sorted(f.rsplit("_", 1)[1].removesuffix(".json") for f in cdi_files())
    listed = sorted(t["pod"]["slot"] for t in tenants(daemon))
    assert slots == files == listed, (slots, files, listed)


def restart():
    if cluster.pid("divvyd"):
        cluster.kill("divvyd")
    daemon.start("--dra")
    daemon.await_ready()


# ---- requests


def a_request_is_idempotent():
    claim = allocated("twice", 300, "8Gi")
    first = ask_ok("prepare", *claim)
    assert first.split()[0] == "gpu" and first.split()[2] == device() and "divvy.gpu/slot=" in first, first
    assert ask_ok("prepare", *claim) == first
    assert [t["spec"]["request_permille"] for t in tenants(daemon)] == [300], tenants(daemon)
    ask_ok("unprepare", *claim)
    ask_ok("unprepare", *claim)
    assert not tenants(daemon) and not checkpoint(daemon) and not cdi_files()
    delete_claim("twice")


def a_device_of_a_list_has_its_request():
    """The container names the request, whichever subrequest of its list was chosen."""
    half = {"name": "half", **share(10, "64Mi")["exactly"]}
    claim = allocated("listed", asked={"name": "gpu", "firstAvailable": [half]}, request="gpu/half")
    answer = ask_ok("prepare", *claim)
    assert answer.split()[0] == "gpu", answer
    ask_ok("unprepare", *claim)
    delete_claim("listed")


def wrong_claims_are_refused_with_a_sentence():
    good = allocated("good")
    assert "has uid" in ask("prepare", good[0], good[1], "0f0f")[1]
    assert "cannot be read" in ask("prepare", good[0], "missing", "0f0f")[1]
    create_claim(cluster, "pending", share(10))
    uid = cluster.get(claims_path(cluster, "pending"))["metadata"]["uid"]
    assert "is not allocated" in ask("prepare", cluster.namespace, "pending", uid)[1]
    strange = allocated("strange", device="share-00")
    assert "no device share-00" in ask("prepare", *strange)[1]
    greedy = allocated("greedy", memory="200Gi")
    assert "more than the whole" in ask("prepare", *greedy)[1]
    assert not tenants(daemon) and not checkpoint(daemon)
    for name in ("good", "strange", "greedy"):
        delete_claim(name)
    cluster.delete(claims_path(cluster, "pending"))


def more_than_a_device_is_refused():
    """The scheduler never allocates this; a writer of claims' status with wrong rights could."""
    most, more = allocated("most", 900), allocated("more", 200)
    ask_ok("prepare", *most)
    refusal = ask("prepare", *more)[1]
    assert "0.1 free" in refusal, refusal
    ask_ok("unprepare", *most)
    ask_ok("prepare", *more)
    ask_ok("unprepare", *more)
    is_consistent()
    delete_claim("most")
    delete_claim("more")


def an_absent_api_server_stops_no_prepared_claim():
    """Prepared claims need no API server. Another claim waits for it, and nothing of that claim is left behind."""
    known, new = allocated("known"), allocated("new")
    ask_ok("prepare", *known)
    cluster.freeze("kube-apiserver")
    try:
        ask_ok("prepare", *known)
        assert "cannot be read" in ask("prepare", *new)[1]
        ask_ok("unprepare", *known)
    finally:
        cluster.thaw("kube-apiserver")
    assert not tenants(daemon) and not checkpoint(daemon)
    wait_for(lambda: not ask("prepare", *new)[1], "the claim is prepared", 60)
    ask_ok("unprepare", *new)
    delete_claim("known")
    delete_claim("new")


# ---- leaks


def cycles_leak_nothing():
    claim = allocated("cycle")
    ask_ok("cycles", "10", *claim)
    before = what_exists()
    out = ask_ok("cycles", str(CYCLES), *claim, patience_s=1200)
    print(f"# {CYCLES} cycles: prepare takes {out.strip()} us (median, p99, most)")
    nothing_more_than(before)
    others = [allocated(f"other-{n}") for n in range(64)]
    for other in others:
        ask_ok("prepare", *other)
    out = ask_ok("cycles", "200", *claim)
    print(f"# beside 64 tenants: prepare takes {out.strip()} us (median, p99, most)")
    for other in others:
        ask_ok("unprepare", *other)
    nothing_more_than(before)
    for n in range(64):
        delete_claim(f"other-{n}")
    delete_claim("cycle")


# ---- states that do not agree


def an_unreadable_checkpoint_is_kept_aside():
    claim = allocated("lost")
    ask_ok("prepare", *claim)
    cluster.kill("divvyd")
    path = checkpoint_path(daemon)
    with open(path, "w", encoding="utf-8") as f:
        f.write("{half")
    restart()
    with open(path + ".bad", encoding="utf-8") as f:
        assert f.read() == "{half"
    assert not tenants(daemon) and not cdi_files()
    ask_ok("prepare", *claim)  # the kubelet would ask for a further pod only
    is_consistent()
    ask_ok("unprepare", *claim)
    delete_claim("lost")


def a_claim_that_the_kubelet_forgot_ends_when_it_is_gone():
    claim = allocated("forgotten")
    ask_ok("prepare", *claim)
    delete_claim("forgotten")
    wait_for(lambda: not tenants(daemon), "the tenant of the deleted claim ends", 180)
    wait_for(lambda: not checkpoint(daemon) and not cdi_files(), "its files are gone")
    ask_ok("unprepare", *claim)


def slices_of_another_writer_go():
    """Two drivers with one name, or an old divvyd that still writes: the pool is complete again in a newer generation."""
    wait_for(lambda: len(published(cluster)) == 2, "the pool is complete")
    pool = {"name": cluster.node_name, "generation": 99, "resourceSliceCount": 1}
    spec = {"driver": "divvy.gpu", "nodeName": cluster.node_name, "pool": pool, "devices": [{"name": "impostor"}]}
    cluster.create(SLICES, {"metadata": {"name": "impostor"}, "spec": spec})
    wait_for(lambda: not cluster.exists(SLICES + "/impostor"), "the other slice is gone", 60)
    wait_for(lambda: len(published(cluster)) == 2, "the pool is complete again", 60)
    newest = {s["spec"]["pool"]["generation"] for s in cluster.get(SLICES)["items"]}
    assert newest == {100}, newest
    name = cluster.get(SLICES)["items"][0]["metadata"]["name"]
    cluster.patch(f"{SLICES}/{name}", {"spec": {"pool": {"generation": 7}}})
    wait_for(lambda: len(published(cluster)) == 2, "a changed slice is written again", 60)


def divvyd_writes_slices_of_its_own_node_alone():
    """divvyd's token may write slices by its right, and only its own by the policy."""
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    mine = slices(cluster)[0]["metadata"]["name"]
    for driver, node in (("divvy.gpu", "another"), ("nic.example", cluster.node_name)):
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "d"}]}
        body = {"metadata": {"name": "foreign"}, "spec": spec}
        answer = refusal(daemon.account.create, SLICES, body)
        assert "Policy 'divvyd-slices'" in answer, (spec, answer)
        cluster.create(SLICES, body)
        answer = refusal(daemon.account.delete, SLICES + "/foreign")
        assert "Policy 'divvyd-slices'" in answer, (spec, answer)
        cluster.delete(SLICES + "/foreign")
    # of its own node, but in another node's pool, or under a name that another node's slice may have
    node = cluster.node_name
    for of, name in (("another", f"{node}-divvy.gpu-9"), (node, "another-divvy.gpu-0")):
        pool = {"name": of, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "divvy.gpu", "nodeName": node, "pool": pool, "devices": [{"name": "d"}]}
        answer = refusal(daemon.account.create, SLICES, {"metadata": {"name": name}, "spec": spec})
        assert "Policy 'divvyd-slices'" in answer, (name, spec, answer)
    assert not refusal(daemon.account.delete, f"{SLICES}/{mine}")
    wait_for(lambda: len(published(cluster)) == 2, "the slice is back", 60)


def refusal(call, *words):
    """The API server's answer; "": it agrees."""
    try:
        call(*words)
    except ApiError as error:
        return str(error)
    return ""


def devices_of_another_driver_are_left_alone():
    """Another system's driver publishes a GPU of this node, which it knows by the UUID: divvy hands out nothing here."""
    uuid = daemon.devices()[0]
    pool = {"name": cluster.node_name, "generation": 1, "resourceSliceCount": 1}
    found = {"name": "gpu-0", "attributes": {"uuid": {"string": uuid}}}
    spec = {"driver": "gpu.other.example", "nodeName": cluster.node_name, "pool": pool, "devices": [found]}
    cluster.create(SLICES, {"metadata": {"name": "theirs"}, "spec": spec})
    cluster.kill("divvyd")  # a running divvyd looks again within two minutes
    daemon.start("--dra")
    wait_for(lambda: daemon.condition("OwnerConflict").get("reason") == "OtherDriver", "the conflict is reported", 120)
    wait_for(lambda: [s["metadata"]["name"] for s in slices(cluster)] == ["theirs"], "divvy's slices are gone", 60)
    assert "gpu.other.example hands out" in ask("prepare", *allocated("late"))[1]
    cluster.delete(SLICES + "/theirs")
    wait_for(lambda: len(published(cluster)) == 2, "divvy hands out the device again", 120)
    assert daemon.condition("OwnerConflict")["status"] == "False", daemon.status()
    delete_claim("late")


try:
    if own_minor() < OLDEST:
        raise Skip(f"needs Kubernetes 1.{OLDEST}")
    # This controller would take back reservations for pods that do not exist.
    without = {"kube-controller-manager": ["--controllers=*,-resourceclaim-controller"]}
    with open_cluster("kcm", "node", args=without, own=NODE_OF_OURS) as cluster:
        install(cluster)
        install_driver(cluster)
        daemon = Daemon(cluster, simulate="1xH200-141Gi", account=bound_account(cluster))
        daemon.make_gpu_node()
        daemon.start("--dra")
        daemon.await_ready()
        main(
            a_request_is_idempotent,
            a_device_of_a_list_has_its_request,
            wrong_claims_are_refused_with_a_sentence,
            more_than_a_device_is_refused,
            cycles_leak_nothing,
            an_unreadable_checkpoint_is_kept_aside,
            slices_of_another_writer_go,
            divvyd_writes_slices_of_its_own_node_alone,
            devices_of_another_driver_are_left_alone,
            a_claim_that_the_kubelet_forgot_ends_when_it_is_gone,
            an_absent_api_server_stops_no_prepared_claim,
        )
except Skip as reason:
    skip_all(reason)
