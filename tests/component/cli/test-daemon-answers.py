#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever answers on the socket, divvy ends with one sentence: other versions, answers in parts,
garbage, a closed connection, missing members. The same holds for a daemon that cannot start."""

import json
import os
import resource
import subprocess

from fake_daemon import Fake, part
from rig import DIVVY, Rig, main, patience, refused


def answers_in_several_parts_are_joined():
    with Rig(daemon=False) as rig:
        text = json.dumps({"ok": True, "tenants": [{"id": i, "name": f"t{i}"} for i in range(4000)]})

        def reply(request, _):
            return [part(request, text[i : i + 30000], i + 30000 < len(text)) for i in range(0, len(text), 30000)]

        with Fake(rig, reply):
            assert rig.divvy("ps", "-q").stdout.split()[-1] == "t3999"


def refusals_are_shown_unchanged():
    with Rig(daemon=False) as rig:

        def reply(request, _):
            return [part(request, '{"ok": false, "code": "ENOENT", "error": "tenant x: there is none"}')]

        with Fake(rig, reply):
            refused(rig.divvy("why", "x"), 1, "divvy why: tenant x: there is none")


def invalid_answers_end_with_one_sentence():
    for text in ("", "{", "[]", "null", '{"ok": 1}', '{"ok": true', "\0\1\2", '{"ok": true, "ok": false}'):
        with Rig(daemon=False) as rig:
            with Fake(rig, lambda request, _: [part(request, text)]):
                done = rig.divvy("devices")
                assert done.returncode == 1 and done.stderr.startswith("divvy devices: "), (text, done)


def another_program_at_the_socket_is_reported():
    with Rig(daemon=False) as rig:
        with Fake(rig, lambda request, _: [part(request, "{}", kind=3)]):
            refused(rig.divvy("ps"), 1, "not a divvyd of this version")
    with Rig(daemon=False) as rig:
        with Fake(rig, lambda request, _: [part(request, "{}", abi=99)]):
            refused(rig.divvy("ps"), 1, "not a divvyd of this version")
    with Rig(daemon=False) as rig:
        with Fake(rig, lambda request, _: [b""]):
            refused(rig.divvy("ps"), 1, "closed the connection")


def members_may_be_missing_or_have_a_wrong_type():
    with Rig(daemon=False) as rig:

        def reply(request, _):
            return [
                part(
                    request,
                    '{"ok": true, "tenants": [{}, {"devices": [{}]}, 5, {"spec": 7, "name": 3, '
                    '"devices": [{"index": "x"}]}], "devices": [{}, null], "series": [{}], '
                    '"why": [{}], "findings": [{}], "step_ms": 1000}',
                )
            ]

        with Fake(rig, reply):
            for command in (
                ("ps",),
                ("ps", "--processes"),
                ("devices",),
                ("why", "x"),
                ("report",),
                ("top", "--once"),
                ("top", "--json"),
                ("version",),
            ):
                done = rig.divvy(*command)
                assert done.returncode in (0, 1), (command, done)


def a_path_without_a_socket_is_reported():
    with Rig(daemon=False) as rig:
        path = os.path.join(rig.dir, "divvyd.sock")
        with open(path, "w", encoding="utf-8"):
            pass
        assert rig.divvy("ps").returncode == 1
        assert rig.divvy("doctor").returncode == 1
        assert "is not a socket" in rig.divvy("doctor").stdout
        os.unlink(path)
        refused(rig.divvy("ps", "--socket", "/x" * 80), 1, "at most 107 bytes")


def a_dry_runs_tenant_ends_with_its_command():
    """The dry run's tenant has the lifetime of its command, since no container's processes will
    come."""
    with Rig(daemon=False) as rig:
        asked = []

        def reply(request, json_request):
            if json_request["cmd"] == "create":
                asked.append(json_request)
            return [part(request, '{"ok": true, "env": {}, "programs": "/p", "devices": [{"uuid": "GPU-1"}]}')]

        with Fake(rig, reply):
            for args in ((), ("-d",)):
                done = rig.divvy(
                    "run", "--request", "0.1", "--container", "docker", "--dry-run", "--", "run", *args, "x"
                )
                assert done.returncode == 0, done
        assert [(r.get("container"), r["lifetime"]) for r in asked] == 2 * [(None, "process")], asked


def names_that_are_not_utf_8_are_refused():
    with Rig(daemon=False) as rig:
        path = os.path.join(rig.dir, "\udcff.txt")
        with open(path, "w", encoding="utf-8"):
            pass
        with Fake(rig, lambda request, _: [part(request, '{"ok": true}')]):
            refused(rig.divvy("apply", "-f", path), 1, "names and paths in UTF-8")
            refused(rig.divvy("why", "\udcff"), 1, "names and paths in UTF-8")


def the_end_of_a_long_log_explains_an_exit():
    """All daemons append to one log, and only what the new one wrote explains its exit."""
    with Rig(daemon=False) as rig:
        program = os.path.join(rig.dir, "divvyd")
        with open(program, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\necho 'divvyd: error: no room today' >&2\nexit 1\n")
        os.chmod(program, 0o755)
        with open(os.path.join(rig.dir, "divvyd.log"), "w", encoding="utf-8") as f:
            f.write(20000 * "divvyd: a line of an earlier daemon, as long as such a line usually is\n")
        refused(rig.divvy("apply", "-f", program, env={"DIVVYD": program}), 1, "divvyd exited at once: no room today")


def a_process_limit_that_excludes_the_daemon_is_reported():
    """The command starts the daemon by two forks, and the limit permits only the first."""
    other = 54321
    if os.getuid() != 0 or subprocess.run([DIVVY, "version"], user=other, capture_output=True, check=False).returncode:
        print("# needs root, and a build folder that others may read")
        return
    with Rig(daemon=False) as rig:
        os.chmod(rig.dir, 0o755)
        rig.env.update(DIVVYD="/bin/true", DIVVY_RUNTIME_DIR=os.path.join(rig.dir, "user"))
        os.mkdir(rig.env["DIVVY_RUNTIME_DIR"])
        os.chown(rig.env["DIVVY_RUNTIME_DIR"], other, other)
        done = subprocess.run(
            [DIVVY, "apply", "-f", "/etc/passwd"],
            user=other,
            env=rig.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (2, 2)),
        )
        refused(done, 1, "cannot start divvyd: fork failed", "ulimit -u")


main(
    answers_in_several_parts_are_joined,
    refusals_are_shown_unchanged,
    invalid_answers_end_with_one_sentence,
    another_program_at_the_socket_is_reported,
    members_may_be_missing_or_have_a_wrong_type,
    a_path_without_a_socket_is_reported,
    names_that_are_not_utf_8_are_refused,
    the_end_of_a_long_log_explains_an_exit,
    a_process_limit_that_excludes_the_daemon_is_reported,
    a_dry_runs_tenant_ends_with_its_command,
)
