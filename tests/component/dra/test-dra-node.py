#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvyd as DRA driver, with claims that a stub of the API server has and requests as a kubelet sends them."""

import json
import os

from dra_rig import CLAIMS, SLICES, DraRig, main, wait_for

MANY = 64  # claims on the node


def checkpoint_size(rig):
    return os.path.getsize(os.path.join(rig.path["node-state"], "claims.jsonl"))


def a_repeated_request_changes_nothing():
    with DraRig() as rig:
        claim = rig.claim("twice", 300, "8Gi")
        first = rig.ask_ok("prepare", *claim)
        assert first.split()[0] == "gpu" and first.split()[2] == rig.device() and "divvy.gpu/slot=" in first, first
        before = rig.tenants()[0]["id"]
        assert rig.ask_ok("prepare", *claim) == first
        assert [t["id"] for t in rig.tenants()] == [before], rig.tenants()
        rig.is_consistent()
        rig.ask_ok("unprepare", *claim)
        rig.ask_ok("unprepare", *claim)
        assert rig.is_empty()


def a_claim_writes_its_own_line():
    """Whatever the number of claims on the node, the checkpoint grows by the lines of this claim."""
    with DraRig() as rig:
        claim = rig.claim("one")
        rig.ask_ok("cycles", "1", *claim)
        began = checkpoint_size(rig)
        rig.ask_ok("cycles", "1", *claim)
        alone = checkpoint_size(rig) - began
        for n in range(MANY):
            rig.ask_ok("prepare", *rig.claim(f"other-{n:02}"))
        began = checkpoint_size(rig)
        rig.ask_ok("cycles", "1", *claim)
        assert checkpoint_size(rig) - began <= alone + 8, (checkpoint_size(rig) - began, alone)  # a longer slot number
        rig.is_consistent()
        rig.restart()
        assert len(rig.tenants()) == MANY, rig.tenants()
        rig.is_consistent()


def the_checkpoint_does_not_grow_for_ever():
    with DraRig() as rig:
        claim = rig.claim("again")
        largest = 0
        for _ in range(15):
            rig.ask_ok("cycles", "100", *claim)
            largest = max(largest, checkpoint_size(rig))
        assert largest < 300 << 10, largest
        assert not rig.checkpoint(), rig.checkpoint()


def a_claim_of_other_devices_is_prepared_anew():
    """A kubelet that has lost its state does not unprepare a claim, which the scheduler then allocates again."""
    with DraRig("2xH200-141Gi") as rig:
        claim = rig.claim("moved", 300, "8Gi")
        rig.ask_ok("prepare", *claim)
        result = {
            "request": "gpu",
            "driver": "divvy.gpu",
            "pool": "node-a",
            "device": rig.device(n=1),
            "shareID": "11111111-0f22-4f8a-a2bd-000000000000",
            "consumedCapacity": {"share": "200", "memory": "4Gi"},
        }
        rig.api.store.update(f"{CLAIMS}/moved", {"status": {"allocation": {"devices": {"results": [result]}}}})
        answer = rig.ask_ok("prepare", *claim)
        assert rig.device(n=1) in answer and result["shareID"] in answer, answer
        (tenant,) = rig.tenants()
        assert tenant["spec"]["request_permille"] == 200, tenant
        assert [d["uuid"] for d in tenant["devices"]] == [rig.uuid(1)], tenant
        rig.is_consistent()
        rig.restart()
        assert rig.ask_ok("prepare", *claim).split()[2] == rig.device(n=1)
        rig.ask_ok("unprepare", *claim)
        assert rig.is_empty()


def a_claim_that_is_no_longer_allocated_is_refused():
    with DraRig() as rig:
        claim = rig.claim("free", 300, "8Gi")
        rig.ask_ok("prepare", *claim)
        rig.api.store.update(f"{CLAIMS}/free", {"status": {"allocation": None, "reservedFor": None}})
        assert "is not allocated" in rig.ask("prepare", *claim)[1]
        rig.api.store.remove(f"{CLAIMS}/free")
        assert "cannot be read" in rig.ask("prepare", *claim)[1]
        rig.ask_ok("unprepare", *claim)
        assert rig.is_empty()


def a_prepared_claim_needs_no_api_server():
    with DraRig() as rig:
        claim, new = rig.claim("known"), rig.claim("new")
        rig.ask_ok("prepare", *claim)
        rig.api.store.is_away = True
        rig.ask_ok("prepare", *claim)
        assert "cannot be read" in rig.ask("prepare", *new)[1]
        rig.ask_ok("unprepare", *claim)
        assert rig.is_empty()
        rig.api.store.is_away = False
        wait_for(lambda: not rig.ask("prepare", *new)[1], "the new claim is prepared")


def an_unreadable_checkpoint_is_kept_aside():
    with DraRig() as rig:
        claim, other = rig.claim("lost"), rig.claim("kept")
        rig.ask_ok("prepare", *other)
        rig.ask_ok("prepare", *claim)
        rig.daemon.kill()
        path = os.path.join(rig.path["node-state"], "claims.jsonl")
        with open(path, "r+", encoding="utf-8") as f:
            lines = f.readlines()
            lines[2] = lines[2].replace('"uid"', '"uiD"')
            f.seek(0)
            f.writelines(lines)
        rig.restart()
        with open(path + ".bad", encoding="utf-8") as f:
            assert f.readlines() == lines
        assert [t["pod"]["claim"] for t in rig.tenants()] == ["kept"], rig.tenants()
        rig.ask_ok("prepare", *claim)
        rig.is_consistent()
        assert sorted(c["name"] for c in rig.checkpoint()) == ["kept", "lost"], rig.checkpoint()


def a_full_disk_refuses_claims_and_harms_none():
    """The checkpoint cannot be written: here by a limit of the daemon's file sizes, which its other files are far from."""
    with DraRig() as rig:
        first, second = rig.claim("first"), rig.claim("second")
        rig.ask_ok("cycles", "100", *first)
        rig.restart()
        rig.ask_ok("prepare", *first)
        size = checkpoint_size(rig)
        rig.limit_files(size + 10)
        assert "claims.jsonl" in rig.ask("prepare", *second)[1]
        rig.ask_ok("prepare", *second)  # a new file without old lines is small enough
        rig.limit_files(-1)
        assert sorted(c["name"] for c in rig.checkpoint()) == ["first", "second"], rig.checkpoint()
        rig.is_consistent()
        rig.restart()
        rig.is_consistent()
        assert len(rig.tenants()) == 2, json.dumps(rig.tenants())


def a_kubelet_without_v1_is_served():
    """An older kubelet knows v1beta1 alone, and no service of health."""
    with DraRig() as rig:
        name, endpoint, version = rig.register("v1beta1.DRAPlugin")
        assert (name, version) == ("divvy.gpu", "v1beta1.DRAPlugin"), (name, version)
        assert endpoint.startswith(rig.path["kubelet/plugins/divvy.gpu"]), endpoint
        wait_for(lambda: len(rig.published()) == 2, "the slices of the registered driver")
        claim = rig.claim("old", 300, "8Gi")
        old = {"DRA_KUBELET_VERSION": "v1beta1"}
        assert rig.ask_ok("prepare", *claim, **old) == rig.ask_ok("prepare", *claim)
        rig.ask_ok("unprepare", *claim, **old)
        assert rig.is_empty()
        assert rig.register()[2] == "v1.DRAPlugin"  # the kubelet was upgraded


def a_kubelet_of_another_version_is_reported():
    with DraRig() as rig:
        assert rig.register("v9.DRAPlugin")[2] == "-"
        wait_for(lambda: "knows none of the versions" in rig.log(), "divvyd logs the kubelet's reason")
        assert not rig.published(), rig.published()


def a_lost_device_has_taints_until_it_is_back():
    """Both forms of the device have the taint. divvyd looks for the device after pauses that double up to 5 minutes."""
    with DraRig("2xH200-141Gi") as rig:
        rig.register()
        wait_for(lambda: len(rig.published()) == 4, "the devices are published")
        both = {rig.device("share", 1), rig.device("gpu", 1)}

        def lost(slices):
            devices = [d for s in slices for d in s["spec"].get("devices") or []]
            return {d["name"] for d in devices if "divvy.gpu/lost" in str(d.get("taints"))}

        def was_lost():
            """All slices so far: without other users, the simulated driver may start anew, and the device is back early."""
            with rig.api.store.changed:
                return lost(slice for _, path, _, slice in rig.api.store.events if path.startswith(SLICES + "/"))

        rig.set_faults("lost device=1 at=1ms")
        wait_for(lambda: was_lost() == both, "both forms have the taint")
        rig.set_faults("reset device=1 at=1ms")
        wait_for(lambda: len(rig.published()) == 4 and not lost(rig.api.store.list(SLICES, bool)[0]), "no taint", 330)
        assert was_lost() == both, "another device had the taint"
        rig.ask_ok("prepare", *rig.claim("back", device=rig.device(n=1)))


def spec_of(rig, name):
    """(limit, class, priority) of the claim's only tenant."""
    (spec,) = [t["spec"] for t in rig.tenants() if t["pod"]["claim"] == name]
    return spec["limit_permille"], spec["class"], spec["priority"]


def becomes(rig, name, *values):
    wait_for(lambda: spec_of(rig, name) == values, f"{name} has {values}")


def annotations_change_a_running_tenant():
    with DraRig() as rig:
        bound = {"apiVersion": "divvy.gpu/v1", "kind": "ShareConfig", "limit": 0.8}
        opaque = {"source": "FromClass", "opaque": {"driver": "divvy.gpu", "parameters": bound}}
        claim = rig.claim("live", 300, "8Gi", config=[opaque])
        rig.ask_ok("prepare", *claim)
        tenant = rig.tenants()[0]["id"]
        becomes(rig, "live", 800, "standard", 50)
        rig.annotate("live", limit="0.5", priority="70")
        becomes(rig, "live", 500, "standard", 70)
        rig.annotate("live", **{"class": "latency"})
        becomes(rig, "live", 500, "latency", 70)
        # beyond what the class allows, below the request, and what no change can give
        for wrong, why in (
            ({"limit": "0.9"}, "at most 0.8"),
            ({"limit": "0.2"}, "limit"),
            ({"memory": "9Gi"}, "stays"),
        ):
            rig.annotate("live", **wrong)
            wait_for(lambda w=why: "is not changed" in rig.log() and w in rig.log(), f"a refusal with {why}")
            assert spec_of(rig, "live") == (500, "latency", 70), rig.tenants()
            rig.annotate("live", limit="0.5", memory=None)
        rig.daemon.kill()
        rig.daemon.wait()
        rig.annotate("live", limit="0.6")  # while no divvyd runs
        rig.restart()
        becomes(rig, "live", 600, "latency", 70)
        assert [t["id"] for t in rig.tenants()] == [tenant], rig.tenants()
        rig.annotate("live", limit=None, priority=None, **{"class": None})
        becomes(rig, "live", 800, "standard", 50)
        assert rig.checkpoint()[0]["tenants"][0]["spec"], rig.checkpoint()
        rig.ask_ok("unprepare", *claim)
        rig.annotate("live", limit="0.4")  # nobody has the claim
        rig.ask_ok("prepare", *claim)
        becomes(rig, "live", 400, "standard", 50)


def a_change_outlives_a_restart_without_the_api_server():
    with DraRig() as rig:
        rig.ask_ok("prepare", *rig.claim("live", 300, "8Gi"))
        rig.annotate("live", limit="0.4")
        # The tenant has the limit before the checkpoint has it.
        wait_for(
            lambda: rig.checkpoint()[0]["tenants"][0]["spec"]["limit_permille"] == 400, "the checkpoint has the limit"
        )
        rig.daemon.kill()
        rig.daemon.wait()
        os.unlink(os.path.join(rig.dir, "state"))  # as after a reboot: the checkpoint alone has the tenant
        rig.api.store.is_away = True
        rig.start("--simulate", "1xH200-141Gi")
        becomes(rig, "live", 400, "standard", 50)


def no_more_shares_than_slots_are_offered():
    """A node has 4,096 slots. With more than four devices, the smallest share grows, so that claims never need more slots."""
    for n, smallest in ((4, "1"), (8, "2")):
        with DraRig(f"{n}xH200-141Gi") as rig:
            rig.register()
            wait_for(lambda r=rig, m=2 * n: len(r.published()) == m, f"{n} devices are published")
            policy = rig.published()[rig.device()]["capacity"]["share"]["requestPolicy"]
            assert policy["validRange"] == {"min": smallest, "step": "1"}, policy


main(
    a_repeated_request_changes_nothing,
    a_claim_writes_its_own_line,
    the_checkpoint_does_not_grow_for_ever,
    a_claim_of_other_devices_is_prepared_anew,
    a_claim_that_is_no_longer_allocated_is_refused,
    a_prepared_claim_needs_no_api_server,
    an_unreadable_checkpoint_is_kept_aside,
    a_full_disk_refuses_claims_and_harms_none,
    a_kubelet_without_v1_is_served,
    a_kubelet_of_another_version_is_reported,
    no_more_shares_than_slots_are_offered,
    a_lost_device_has_taints_until_it_is_back,
    annotations_change_a_running_tenant,
    a_change_outlives_a_restart_without_the_api_server,
)
