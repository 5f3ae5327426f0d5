#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several devices, the visible devices of a tenant, two daemons for the same devices, and no daemon
at all."""

import json
import os
import subprocess

from machine import DIVVYD, Machine, SPIN, patience, run, survived, wait_for

# Devices that CUDA and NVML show: UUIDs in CUDA's order, memory, UUIDs in NVML's order.
PROBE = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
nvml = ctypes.CDLL("libnvidia-ml.so.1")
out = {"init": cuda.cuInit(0), "cuda": [], "total": [], "nvml": []}
n = ctypes.c_int()
if not out["init"] and not cuda.cuDeviceGetCount(ctypes.byref(n)):
    for i in range(n.value):
        u, total = (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
        assert not cuda.cuDeviceGetUuid_v2(u, i) and not cuda.cuDeviceTotalMem_v2(ctypes.byref(total), i)
        h = bytes(u).hex()
        out["cuda"].append("GPU-" + "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])))
        out["total"].append(total.value)
out["nvml_init"] = nvml.nvmlInit_v2()
m = ctypes.c_uint()
if not nvml.nvmlDeviceGetCount_v2(ctypes.byref(m)):
    for i in range(m.value):
        h, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        assert not nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(h))
        assert not nvml.nvmlDeviceGetUUID(h, text, 96)
        out["nvml"].append(text.value.decode())
print(json.dumps(out))
"""


def probe(tenant, **env):
    done = tenant.run("/usr/bin/python3", "-c", PROBE, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def uuids(m):
    return [d["uuid"] for d in m.ask(cmd="devices")["devices"]]


def a_tenant_sees_only_its_devices():
    with Machine(simulate="1xT4-16Gi,1xA10-24Gi,1xT4-16Gi") as m:
        u = uuids(m)
        for device in u:
            tenant = m.create("one", request="0.2", memory="1Gi", device=device)
            seen = probe(tenant)
            assert seen["cuda"] == seen["nvml"] == [device], (device, seen)
            assert seen["total"] == [1 << 30], seen
            tenant.remove()
        tenant = m.create("two", request="0.2", memory="1Gi", count="2", model="T4")
        seen = probe(tenant)
        assert sorted(seen["cuda"]) == sorted([u[0], u[2]]) and sorted(seen["nvml"]) == sorted(seen["cuda"]), seen


def cuda_visible_devices_selects_from_the_tenants_devices():
    with Machine(simulate="3xT4-16Gi") as m:
        tenant = m.create("two", request="0.2", memory="1Gi", count="2")
        first, second = both = probe(tenant)["cuda"]
        stranger = next(u for u in uuids(m) if u not in both)
        for setting, expected in {
            "0": [first],
            "1": [second],
            "1,0": [second, first],
            "0,1": both,
            second: [second],
            f"{second},{first}": [second, first],
            second[:12]: [second] if second[:12] != first[:12] else None,
            "2": [],
            "-1": [],
            "": [],
            "1,-1,0": [second],
            "1,7,0": [second],
            stranger: [],
            f"{first},{stranger}": [first],
            "0,0": [],
            "nonsense": [],
        }.items():
            if expected is None:
                continue
            seen = probe(tenant, CUDA_VISIBLE_DEVICES=setting)
            assert seen["cuda"] == expected, (setting, expected, seen)
            assert bool(seen["init"]) == (not expected), (setting, seen)
            # NVML ignores CUDA_VISIBLE_DEVICES and shows the tenant's devices.
            assert sorted(seen["nvml"]) == sorted(both), (setting, seen)


def two_devices_are_shared_independently():
    with Machine(simulate="2xT4-16Gi") as m:
        both = m.create("both", request="0.3", memory="1Gi", count="2")
        singles = [m.create(f"on{i}", request="0.6", memory="1Gi", device=u) for i, u in enumerate(uuids(m))]
        spins = [
            both.spin("--device=0", "--memory=30", kernel_us=300),
            both.spin("--device=1", "--memory=60", kernel_us=300),
        ]
        spins += [t.spin("--memory=10", kernel_us=700) for t in singles]
        m.goes_on(*[s.pid for s in spins])
        m.books_are_right()
        assert min(both.used(0), both.used(1)) > 30 << 20
        spins.pop(0).kill()
        m.goes_on(*[s.pid for s in spins])
        m.books_are_right()
        assert both.used(0) == 0 < both.used(1)


def each_device_has_its_own_quota():
    with Machine(simulate="2xT4-16Gi") as m:
        tenant = m.create("both", request="0.3", memory="1Gi", count="2")
        for device in "01":
            done = tenant.run(SPIN, f"--device={device}", "--memory=1100", "--count=1")
            assert done.returncode == 1 and "OUT_OF_MEMORY" in done.stderr, done
        survived(tenant.start(SPIN, "--device=1", "--memory=300", "--count=3", registered=False))
        m.books_are_right()


def a_second_daemon_for_a_device_is_refused():
    """A second daemon with another runtime folder fails, and names the daemon that has the
    device."""
    with Machine() as m:
        spin = m.create("mine", request="0.5").spin()
        m.goes_on(spin.pid)
        second = os.path.join(m.dir, "second")
        os.mkdir(second, 0o700)
        env = {**m.env, "DIVVY_RUNTIME_DIR": second, "DIVVY_SIM": m.sim}
        for _ in range(3):
            done = subprocess.run(
                [DIVVYD, "--simulate", m.simulate],
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=patience(),
                check=False,
            )
            assert done.returncode != 0, done
            assert f"pid {m.daemon.pid}" in done.stderr and m.socket_path in done.stderr, done.stderr
        # A second daemon in the same folder fails, too.
        done = subprocess.run(
            [DIVVYD, "--simulate", m.simulate],
            env=m.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
        )
        assert done.returncode != 0 and str(m.daemon.pid) in done.stderr, done.stderr
        m.goes_on(spin.pid)
        m.books_are_right()
        # A killed daemon holds no lock, so the next daemon can start.
        m.kill_daemon()
        m.start()
        m.goes_on(spin.pid)
        m.books_are_right()


def divvy_absent_decides_without_a_daemon():
    with Machine() as m:
        tenant = m.create("mine", request="0.5")
        m.stop()
        nowhere = os.path.join(m.dir, "nowhere.sock")
        # With DIVVY_ABSENT=open (the default) the program runs as without divvy.
        env = {"DIVVY_SOCKET": nowhere, "DIVVY_ABSENT": "open"}
        done = tenant.run(SPIN, "--count=20", "--kernel-us=100", env=env)
        assert (done.returncode, done.stderr) == (0, ""), done
        # With DIVVY_ABSENT=closed the program finds no device, and stderr has one line with the
        # reason and the program's own message.
        env["DIVVY_ABSENT"] = "closed"
        done = tenant.run(SPIN, "--count=20", "--kernel-us=100", env=env)
        assert done.returncode == 1, done
        lines = [line for line in done.stderr.splitlines() if line.startswith("divvy: ")]
        assert len(lines) == 1 and "does not answer" in lines[0], done.stderr
        assert "NO_DEVICE" in done.stderr, done.stderr
        m.start()
        survived(tenant.start(SPIN, "--count=20", "--kernel-us=100", registered=False))


def a_removed_tenants_secret_is_refused():
    with Machine() as m:
        tenant = m.create("gone", request="0.5")
        tenant.remove()
        for absent in ("open", "closed"):
            done = tenant.run(SPIN, "--count=5", env={"DIVVY_ABSENT": absent})
            assert done.returncode == 1 and "no tenant has the secret in DIVVY_TENANT" in done.stderr, done.stderr
        wait_for(lambda: not m.tenants(), "no tenant is left")


tests = [
    a_tenant_sees_only_its_devices,
    cuda_visible_devices_selects_from_the_tenants_devices,
    two_devices_are_shared_independently,
    each_device_has_its_own_quota,
    a_second_daemon_for_a_device_is_refused,
    divvy_absent_decides_without_a_daemon,
    a_removed_tenants_secret_is_refused,
]
run(*tests)
