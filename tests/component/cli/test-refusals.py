#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Impossible wishes and wrong words: refused before anything starts, in one sentence, with the documented
exit codes."""

import os
import stat

from rig import SPIN, Rig, main, refused


def wishes_that_no_machine_can_grant():
    with Rig(daemon=False) as rig:
        for args, parts in [
            (("--request", "1.5"), ("request", "1.5")),
            (("--request", "0.5", "--limit", "0.3"), ("limit", "0.3")),
            (("--request", "0.0005"), ("request", "0.0005")),
            (("--request", "0.5", "--priority", "101"), ("priority", "101", "100")),
            (("--request", "0.5", "--count", "17"), ("count", "17", "16")),
            (("--request", "0.5", "--memory", "much"), ("memory", "much")),
            (("--request", "0.5", "--class", "fast"), ("--class", "fast", "latency")),
            (("--request", "half"), ("request", "half")),
        ]:
            refused(rig.divvy("run", *args, "--", SPIN), 125, *parts)
        # None of them had started a daemon.
        assert not os.path.exists(os.path.join(rig.dir, "divvyd.sock"))


def wishes_that_this_machine_cannot_grant():
    with Rig(simulate="2xA100-80Gi") as rig:
        for args, parts in [
            (("--request", "0.5", "--memory", "200Gi"), ("memory", "200Gi", "80")),
            (("--request", "0.5", "--count", "3"), ("count", "3", "2 devices")),
            (("--request", "0.5", "--model", "H900"), ("model", "H900", "A100")),
            (("--request", "0.5", "--device", "GPU-nowhere"), ("device", "GPU-nowhere")),
            (("--request", "3"), ("3",)),
        ]:
            refused(rig.divvy("run", *args, "--", SPIN), 125, *parts)
            # Waiting would not help, so it is not waited for.
            refused(rig.divvy("run", "--wait", *args, "--", SPIN), 125, *parts)
        assert rig.json("ps", "-o", "json") == []


def requests_that_sum_above_one():
    with Rig() as rig:
        rig.spin("first", "--request", "0.7", "--memory", "10%")
        refused(rig.divvy("run", "--request", "0.5", "--", SPIN), 125, "request 0.5", "0.3 left", "0.7")
        refused(rig.divvy("run", "--request", "1", "--", SPIN), 125, "request 1")
        refused(rig.divvy("run", "--request", "0.2", "--memory", "95%", "--", SPIN), 125, "memory", "left")
        refused(rig.divvy("set", "first", "--request", "2"), 1, "request")
        assert len(rig.json("ps", "-o", "json")) == 1


def exit_codes_of_programs_that_are_not_there():
    with Rig(daemon=False) as rig:
        refused(rig.divvy("run", "--request", "0.1", "--", "no-such-program"), 127, "no-such-program")
        refused(rig.divvy("run", "--request", "0.1", "--", "./no/such"), 127, "./no/such")
        path = os.path.join(rig.dir, "plain")
        with open(path, "w", encoding="utf-8") as f:
            f.write("nothing")
        os.chmod(path, stat.S_IRUSR)
        refused(rig.divvy("run", "--request", "0.1", "--quiet", "--", path), 126, path)


def slips_of_the_hand():
    with Rig(daemon=False) as rig:
        refused(rig.divvy("reprot"), 2, "did you mean 'report'")
        refused(rig.divvy("qqqqqqq"), 2, "divvy help")
        refused(rig.divvy("ps", "--quite"), 2, "did you mean '--quiet'")
        refused(rig.divvy("run", "--requst", "1", "--", "true"), 125, "did you mean '--request'")
        refused(rig.divvy("ps", "-o", "xml"), 2, "xml", "table json yaml")
        refused(rig.divvy("ps", "extra"), 2, "extra")
        refused(rig.divvy("set"), 2, "TENANT")
        refused(rig.divvy("run", "--request", "0.1"), 125, "COMMAND")
        refused(rig.divvy("report", "--since", "yesterday"), 1, "--since", "yesterday")
        refused(rig.divvy("completion", "csh"), 1, "bash, zsh and fish")
        assert rig.divvy().returncode == 2
        assert rig.divvy("--help").returncode == 0
        assert rig.divvy("top", "--help").stdout.startswith("usage: divvy top")


def commands_without_a_daemon():
    with Rig(daemon=False) as rig:
        for command in (("ps",), ("devices",), ("top", "--once"), ("why", "x"), ("report",), ("plot",),
                        ("set", "x", "--limit", "1")):
            refused(rig.divvy(*command), 1, "no daemon runs", "divvy run")
        assert "divvyd does not run" in rig.divvy("version").stdout


def tenants_that_are_not_there():
    with Rig() as rig:
        refused(rig.divvy("why", "nobody"), 1, "nobody")
        refused(rig.divvy("set", "nobody", "--limit", "0.5"), 1, "nobody")
        refused(rig.divvy("set", "4711"), 1, "nothing to set")
        refused(rig.divvy("plot"), 1, "no tenant has used it")
        refused(rig.divvy("apply", "-f", os.path.join(rig.dir, "none")), 1, "none")
        refused(rig.divvy("apply"), 1, "--file")


main(wishes_that_no_machine_can_grant, wishes_that_this_machine_cannot_grant, requests_that_sum_above_one,
     exit_codes_of_programs_that_are_not_there, slips_of_the_hand, commands_without_a_daemon,
     tenants_that_are_not_there)
