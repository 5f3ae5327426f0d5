#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that outlives its handle or its process: exported descriptors, imports and IPC handles.
Whichever process holds the memory, the tenant is charged once, as long as the device has it."""

import contextlib
import os
import socket
import subprocess

from machine import CHAOS, MIB, Machine, Tenant, alive, kill, patience, run, wait_for

SHARER = os.path.join(CHAOS, "sharer")
OUT_OF_MEMORY = 2
CONTEXT_MIB = 700  # more than a context needs


class Sharer:
    """A sharer program of the tenant, controlled line by line."""

    def __init__(self, tenant, channel):
        self.child = subprocess.Popen(
            [SHARER, str(channel.fileno())],
            env=tenant.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[channel.fileno()],
        )
        tenant.machine.children.append(self.child)
        assert self.tell("begin") == 0

    def tell(self, *words):
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline())

    def ok(self, *words):
        assert self.tell(*words) == 0, words

    def end(self):
        self.child.stdin.close()
        self.child.wait(patience())
        self.child.stdout.close()


def pair(first, second):
    """A sharer of each tenant, with a socket between both."""
    a, b = socket.socketpair()
    with a, b:
        return Sharer(first, a), Sharer(second, b)


def held(m, tenant):
    """Bytes that the device has for the tenant's processes."""
    pids = tenant.pids()
    return sum(count for (pid, _), count in m.account().items() if pid in pids)


def is_charged(m, tenant, mib, base, but=()):
    """Waits until the tenant is charged base + mib, and checks that the device holds no more than
    that."""
    with contextlib.suppress(AssertionError):
        wait_for(lambda: tenant.used() == base + mib * MIB, "the counter follows")
    assert tenant.used() == base + mib * MIB, f"{(tenant.used() - base) / MIB} MiB are charged, not {mib}"
    m.books_are_right(but)


def a_loop_of_export_and_import_stays_in_its_quota():
    with Machine() as m:
        tenant = m.create("hoarder", memory="2Gi")
        one, other = pair(tenant, tenant)
        assert one.tell("hoard", 40, 128) < 16
        m.books_are_right()
        assert held(m, tenant) <= 2048 * MIB
        other.end()
        one.end()
        wait_for(lambda: tenant.used() == 0, "an exited process leaves no memory charged")


def descriptors_that_nobody_imports_are_charged():
    with Machine() as m:
        tenant = m.create("piler", memory="2Gi")
        one, other = pair(tenant, tenant)
        assert one.tell("pile", 40, 128) < 16
        m.books_are_right()
        other.end()
        one.end()


def memory_exported_within_a_tenant_is_charged_once():
    """The exporter sends memory to the importer and releases it at once. The importer keeps the
    memory, and frees it later."""
    with Machine() as m:
        tenant = m.create("pair", memory="4Gi")
        one, other = pair(tenant, tenant)
        base = tenant.used()
        one.ok("create", 1024)
        is_charged(m, tenant, 1024, base)
        one.ok("export")
        is_charged(m, tenant, 1024, base)
        one.ok("release")  # the descriptor is sent, and not yet imported
        is_charged(m, tenant, 1024, base)
        other.ok("import")
        is_charged(m, tenant, 1024, base)
        other.ok("release")
        is_charged(m, tenant, 0, base)
        for _ in range(8):  # the charge counts present memory and not earlier memory
            one.ok("create", 1024)
            one.ok("export")
            other.ok("import")
            one.ok("release")
            is_charged(m, tenant, 1024, base)
            other.ok("release")
            is_charged(m, tenant, 0, base)
        one.end()
        other.end()


def an_importer_outlives_its_exporter(sig):
    with Machine() as m:
        tenant = m.create("pair", memory="4Gi")
        one, other = pair(tenant, tenant)
        one.ok("create", 1024)
        one.ok("export")
        other.ok("import")
        if sig:
            kill(one.child)
        else:
            one.end()
        wait_for(lambda: not alive(one.child.pid) and len(tenant.pids()) == 1, "the exporter has exited")
        m.books_are_right()
        wait_for(lambda: tenant.used() <= (1024 + CONTEXT_MIB) * MIB, "the exporter's own memory is free")
        assert tenant.used() >= 1024 * MIB
        assert other.tell("create", 3072) == OUT_OF_MEMORY
        kill(other.child)
        wait_for(lambda: tenant.used() == 0, "no memory is charged")


def an_importer_outlives_an_exporter_that_ends():
    an_importer_outlives_its_exporter(False)


def an_importer_outlives_an_exporter_that_is_killed():
    an_importer_outlives_its_exporter(True)


def an_importer_of_another_tenant_pays_too():
    with Machine() as m:
        first, second = m.create("first", memory="4Gi"), m.create("second", memory="2Gi")
        one, other = pair(first, second)
        base = second.used()
        one.ok("create", 1024)
        one.ok("export")
        other.ok("import")
        is_charged(m, second, 1024, base, but=["second"])  # the device counts the memory for the exporter's process
        one.end()
        wait_for(lambda: first.used() == 0, "the exporter's tenant is charged nothing")
        is_charged(m, second, 1024, base)
        other.ok("release")
        is_charged(m, second, 0, base)
        other.end()


def an_import_above_the_quota_is_refused():
    with Machine() as m:
        first, second = m.create("first", memory="4Gi"), m.create("second", memory="1Gi")
        one, other = pair(first, second)
        base = second.used()
        one.ok("create", 1024)
        one.ok("export")
        assert other.tell("import") == OUT_OF_MEMORY
        is_charged(m, second, 0, base)
        one.end()
        other.end()


def export_to_us(tenant, mib):
    """The descriptor that a sharer of the tenant has exported, or None. Kills the sharer."""
    ours, its = socket.socketpair()
    with ours, its:
        sharer = Sharer(tenant, its)
        fds = []
        if sharer.tell("create", mib) == 0:
            sharer.ok("export")
            fds = socket.recv_fds(ours, 1, 1)[1]
        kill(sharer.child)
    return fds[0] if fds else None


def descriptors_that_outlive_their_exporters_are_charged():
    """Three exporters, one after the other; a process without CUDA keeps their descriptors."""
    with Machine() as m:
        tenant = m.create("piler", memory="2560Mi")
        fds = [export_to_us(tenant, 1024) for _ in range(3)]
        assert [fd is None for fd in fds] == [False, False, True]
        wait_for(lambda: tenant.used() == 2048 * MIB, "the tenant is charged the memory that descriptors keep")
        os.close(fds[0])
        wait_for(lambda: tenant.used() == 1024 * MIB, "a descriptor that is closed keeps nothing")
        note = m.ask(cmd="why", tenant=tenant.id)["note"]
        assert note.startswith("only exported descriptors still hold 1Gi of its memory"), note
        os.close(fds[1])
        wait_for(lambda: tenant.used() == 0, "no memory is charged")


def a_descriptor_can_be_imported_after_its_exporters_death():
    with Machine() as m:
        tenant = m.create("heir", memory="2Gi", memory_policy="wait")
        fd = export_to_us(tenant, 1024)
        ours, its = socket.socketpair()
        with ours, its:
            other = Sharer(tenant, its)
            base = tenant.used()
            socket.send_fds(ours, [b"x"], [fd])
        other.ok("import")
        os.close(fd)
        is_charged(m, tenant, 0, base)
        assert base >= 1024 * MIB
        other.ok("release")
        wait_for(lambda: tenant.used() == base - 1024 * MIB, "the importer's memory is free")
        other.end()


def a_tenant_lasts_as_long_as_its_descriptors():
    with Machine() as m:
        with subprocess.Popen(["sleep", "infinity"]) as owner:
            tenant = Tenant(
                m,
                m.ask(
                    cmd="create",
                    name="piler",
                    lifetime="process",
                    pid=owner.pid,
                    spec={"request": "0.3", "memory": "2Gi"},
                ),
            )
            fd = export_to_us(tenant, 1024)
            owner.kill()
        wait_for(lambda: tenant.used() == 1024 * MIB, "only the descriptor's memory is charged")
        os.close(fd)
        wait_for(lambda: not m.tenants(), "the tenant is removed after its last descriptor")


def the_capacity_of_a_removed_sharer_is_free_at_once():
    """The next tenant fits even while the daemon asks the device for the last one's memory."""
    with Machine() as m:
        for _ in range(5):
            with subprocess.Popen(["sleep", "infinity"]) as owner:
                tenant = Tenant(
                    m,
                    m.ask(
                        cmd="create",
                        name="all",
                        lifetime="process",
                        pid=owner.pid,
                        spec={"request": "0.9", "memory": "2Gi"},
                    ),
                )
                os.close(export_to_us(tenant, 256))
                owner.kill()


def memory_by_ipc_handle_is_charged_until_closed():
    """Memory that its exporter has freed exists until the importer closes it, even after the
    exporter's exit."""
    with Machine() as m:
        tenant = m.create("pair", memory="4Gi")
        one, other = pair(tenant, tenant)
        base = tenant.used()
        one.ok("alloc", 1024)
        one.ok("get")
        other.ok("open")
        is_charged(m, tenant, 1024, base)
        one.ok("free")
        is_charged(m, tenant, 1024, base)
        other.ok("shut")
        is_charged(m, tenant, 0, base)
        one.ok("alloc", 512)
        one.ok("get")
        other.ok("open")
        kill(one.child)
        wait_for(lambda: len(tenant.pids()) == 1, "the exporter has exited")
        m.books_are_right()
        assert tenant.used() >= 512 * MIB
        other.ok("shut")
        wait_for(lambda: tenant.used() < 512 * MIB, "the memory is free")
        other.end()


def a_restarted_daemon_learns_of_shared_memory_again():
    with Machine() as m:
        tenant = m.create("pair", memory="4Gi")
        one, other = pair(tenant, tenant)
        base = tenant.used()
        one.ok("create", 1024)
        one.ok("export")
        other.ok("import")
        m.kill_daemon()
        m.start()
        wait_for(lambda: len(tenant.pids()) == 2, "both programs have registered again")
        is_charged(m, tenant, 1024, base)
        one.ok("release")
        other.ok("release")
        is_charged(m, tenant, 0, base)
        one.end()
        other.end()


def waiting_tenants_get_freed_shared_memory():
    """A waiting tenant gets the shared memory of another tenant when its last holder has exited."""
    with Machine() as m:
        first = m.create("first", memory="10Gi", memory_policy="wait")
        second = m.create("second", memory="10Gi", memory_policy="wait")
        one, other = pair(first, first)
        one.ok("create", 8192)
        one.ok("export")
        other.ok("import")
        kill(one.child)
        waiter = second.spin("--memory=9000", registered=False)
        wait_for(lambda: second.pids(), "the waiting program registers")
        assert m.kernels_of(waiter.pid) == 0
        kill(other.child)
        m.goes_on(waiter.pid, more=3)
        kill(waiter)


run(
    a_loop_of_export_and_import_stays_in_its_quota,
    descriptors_that_nobody_imports_are_charged,
    memory_exported_within_a_tenant_is_charged_once,
    an_importer_outlives_an_exporter_that_ends,
    an_importer_outlives_an_exporter_that_is_killed,
    an_importer_of_another_tenant_pays_too,
    an_import_above_the_quota_is_refused,
    descriptors_that_outlive_their_exporters_are_charged,
    a_descriptor_can_be_imported_after_its_exporters_death,
    a_tenant_lasts_as_long_as_its_descriptors,
    the_capacity_of_a_removed_sharer_is_free_at_once,
    memory_by_ipc_handle_is_charged_until_closed,
    a_restarted_daemon_learns_of_shared_memory_again,
    waiting_tenants_get_freed_shared_memory,
)
