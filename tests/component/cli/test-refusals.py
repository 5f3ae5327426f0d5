#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Impossible requests and wrong options are refused before anything starts, with one sentence and
the documented exit codes."""

import os
import stat
import subprocess

from rig import DIVVY, DIVVYD, SPIN, Rig, main, patience, refused


def requests_that_no_machine_can_grant_are_refused():
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
        # None of these commands has started a daemon.
        assert not os.path.exists(os.path.join(rig.dir, "divvyd.sock"))


def requests_beyond_this_machine_are_refused():
    with Rig(simulate="2xA100-80Gi") as rig:
        for args, parts in [
            (("--request", "0.5", "--memory", "200Gi"), ("memory", "200Gi", "80")),
            (("--request", "0.5", "--count", "3"), ("count", "3", "2 devices")),
            (("--request", "0.5", "--model", "H900"), ("model", "H900", "A100")),
            (("--request", "0.5", "--device", "GPU-nowhere"), ("device", "GPU-nowhere")),
            (("--request", "3"), ("request 3", "2 devices")),
        ]:
            refused(rig.divvy("run", *args, "--", SPIN), 125, *parts)
            # --wait fails at once too, because waiting would not help.
            refused(rig.divvy("run", "--wait", *args, "--", SPIN), 125, *parts)
        assert rig.json("ps", "-o", "json") == []


def requests_that_sum_above_one_are_refused():
    with Rig() as rig:
        rig.spin("first", "--request", "0.7", "--memory", "10%")
        refused(rig.divvy("run", "--request", "0.5", "--", SPIN), 125, "request 0.5", "0.3 free", "0.7")
        refused(rig.divvy("run", "--request", "1", "--", SPIN), 125, "request 1")
        refused(rig.divvy("run", "--request", "0.2", "--memory", "95%", "--", SPIN), 125, "memory", "free")
        refused(rig.divvy("set", "first", "--request", "2"), 1, "request")
        assert len(rig.json("ps", "-o", "json")) == 1


def missing_programs_give_documented_exit_codes():
    with Rig(daemon=False) as rig:
        refused(rig.divvy("run", "--request", "0.1", "--", "no-such-program"), 127, "no-such-program")
        refused(rig.divvy("run", "--request", "0.1", "--", "./no/such"), 127, "./no/such")
        path = os.path.join(rig.dir, "plain")
        with open(path, "w", encoding="utf-8") as f:
            f.write("nothing")
        os.chmod(path, stat.S_IRUSR)
        refused(rig.divvy("run", "--request", "0.1", "--quiet", "--", path), 126, path)


def typing_errors_are_refused_with_a_hint():
    with Rig(daemon=False) as rig:
        refused(rig.divvy("reprot"), 2, "did you mean 'report'")
        refused(rig.divvy("rnu"), 2, "did you mean 'run'")
        refused(rig.divvy("qqqqqqq"), 2, "divvy help")
        refused(rig.divvy("ps", "--quite"), 2, "did you mean '--quiet'")
        refused(rig.divvy("run", "--requst", "1", "--", "true"), 125, "did you mean '--request'")
        refused(rig.divvy("ps", "-o", "xml"), 2, "xml", "table json yaml")
        refused(rig.divvy("ps", "extra"), 2, "extra")
        refused(rig.divvy("set"), 2, "TENANT")
        refused(rig.divvy("run", "--request", "0.1"), 125, "COMMAND")
        refused(rig.divvy("run", "--request", "0.1"), 125, "COMMAND is missing")
        refused(rig.divvy("set"), 2, "TENANT is missing")
        assert rig.divvy().returncode == 2
        assert rig.divvy("--help").returncode == 0
        # Options may precede the command, and an option's value is not a command.
        refused(rig.divvy("-q", "--output", "json", "ps"), 2, "--quiet and --output")
        refused(rig.divvy("--every", "top", "top"), 2, "divvy top: ", "--every", "'top'")
        refused(rig.divvy("--quite", "ps"), 2, "unknown option '--quite'")
        assert rig.divvy("top", "--help").stdout.startswith("usage: divvy top")


def invalid_values_are_refused():
    """Bad usage is reported before divvy looks for a daemon."""
    with Rig(daemon=False) as rig:
        for args, parts in [
            (("top", "--every", "x"), ("--every", "'x'")),
            (("top", "--every", "1ms"), ("--every '1ms'", "50ms to 1h")),
            (("top", "--time", "-1s"), ("--time", "-1s")),
            (("top", "--sort", "size"), ("--sort", "size", "memory")),
            (("report", "--since", "yesterday"), ("--since", "yesterday")),
            (("report", "--since", "0"), ("--since '0'", "1s to")),
            (("plot", "--last", "soon"), ("--last", "soon")),
            (("plot", "--last", "1h"), ("--last '1h'", "100ms to 15m")),
            (("plot", "--step", "1"), ("--step", "'1'")),
            (("plot", "--step", "1ms"), ("--step '1ms'", "10ms to 30s")),
            (("plot", "--last", "10s", "--step", "1m"), ("--step '1m'", "10ms to 5s")),
            (("plot", "--device", "GPU-0"), ("--device", "GPU-0")),
            (("set", "x", "--request", "1.5"), ("--request '1.5'", "whole number")),
            (("set", "x", "--request", "0.5", "--limit", "0.3"), ("--limit 0.3", "0.5 to 1")),
            (("set", "x", "--memory", "lots"), ("--memory 'lots'", "4Gi")),
            (("set", "x", "--memory", "1"), ("memory '1'", "bytes", "1Mi or 1Gi")),
            (("set", "x", "--memory", "1Mi"), ("memory '1Mi'", "context", "4Gi")),
            (("set", "x", "--memory", "4gx"), ("--memory '4gx'", "4Gi")),
            (("set", "x", "--memory", "4Gb"), ("--memory '4Gb'", "4Gi")),
            (("set", "x", "--memory", "g"), ("--memory 'g'", "4Gi")),
            (("set", "x", "--request", "."), ("--request '.'",)),
            (("set", "x", "--priority", "high"), ("--priority 'high'", "100")),
            (("set", "x", "--name", "a b"), ("name 'a b'", "A-Z")),
            (("set", "4711"), ("no change requested",)),
            (("completion", "csh"), ("csh", "bash, zsh or fish")),
            (("help", "reprot"), ("reprot", "did you mean 'report'")),
            (("ps", "-q", "-o", "json"), ("--quiet and --output",)),
            (("ps", "-q", "-P"), ("--quiet and --processes",)),
            (("apply",), ("--file", "-f")),
            (("apply", "-f", "x", "--once", "--stop"), ("--once", "--stop")),
            (("set", "x", "--name", "a\n\x1b[31m"), ("name 'a??[31m'",)),
        ]:
            refused(rig.divvy(*args), 2, *parts)
        refused(rig.divvy("run", "--request", "0.1", "--name", "a b", "--", "true"), 125, "name 'a b'")
        refused(rig.divvy("run", "--request", "0.1", "--memory", "100", "--", "true"), 125, "memory '100'", "100Gi")
        refused(rig.divvy("run", "--request", "0.1", "--wait=soon", "--", "true"), 125, "--wait", "soon")
        for spec, part in [
            ("nonsense", "expected a memory of"),
            ("0xH200", "0 devices; expected 1 to 16"),
            ("99xH200", "1 to 16"),
            ("1xTest-9Ti", "32Mi to 1Ti"),
            ("1xH200,x", "'x'"),
        ]:
            refused(
                rig.divvy("run", "--request", "0.1", "--simulate", spec, "--", "true"), 125, f"--simulate {spec}", part
            )
            done = subprocess.run(
                [DIVVYD, "--simulate", spec],
                env=rig.env,
                capture_output=True,
                text=True,
                timeout=patience(),
                check=False,
            )
            refused(done, 2, "--simulate: ", part)
        for args, parts in [
            (("--listen", ":99"), ("--listen works only together with --cluster",)),
            (("--oversubscribe", "0.5"), ("--oversubscribe: '0.5'", "1 or more")),
            (("--oversubscribe", "far"), ("--oversubscribe: 'far'", "1 or more")),
        ]:
            done = subprocess.run(
                [DIVVYD, *args], env=rig.env, capture_output=True, text=True, timeout=patience(), check=False
            )
            refused(done, 2, *parts)
        refused(rig.divvy("run", "--request", "0.1", "--wait", "1s", "--", "true"), 125, "--wait=1s")


def failed_writes_to_stdout_are_reported():
    with Rig() as rig:
        rig.spin("first", "--request", "0.5", "--memory", "10%")
        for command in (
            "ps -o json",
            "ps -q",
            "devices",
            "why first",
            "doctor",
            "version",
            "set first --limit 1",
            "report -o yaml",
            "help",
            "--help",
            "ps --help",
        ):
            for where, why in (("&-", "Bad file descriptor"), ("/dev/full", "No space left")):
                done = subprocess.run(
                    ["sh", "-c", f"{DIVVY} {command} >{where}"],
                    env=rig.env,
                    text=True,
                    capture_output=True,
                    timeout=patience(),
                    check=False,
                )
                refused(done, 1, "write to stdout", why)
        # A standard descriptor that the user has closed is closed in the program of divvy run, too.
        done = subprocess.run(
            ["sh", "-c", f"{DIVVY} run -q --request 0.1 -- sh -c 'echo x' >&- 2>&-"],
            env=rig.env,
            timeout=patience(),
            check=False,
        )
        assert done.returncode not in (0, 125), done


def errors_of_the_simulated_device_reach_the_user():
    """The simulated device's own message reaches the user, not "no device"."""
    with Rig(daemon=False) as rig:
        faults = os.path.join(rig.dir, "sim", "faults")
        for text, part in [
            ("oom\n", "line 1: fault oom: nth= is missing"),
            ("# no\nlost at=x\n", "line 2: "),
            ("ecc device=9\n", "fault ecc: device=9: no such device; expected 0 to 0"),
        ]:
            with open(faults, "w", encoding="utf-8") as f:
                f.write(text)
            refused(rig.divvy("run", "--request", "0.1", "--", "true"), 125, "divvyd exited at once", part)
        os.unlink(faults)
        obstacle = os.path.join(rig.dir, "sim", ".trace.new")
        os.mkdir(obstacle)
        refused(
            rig.divvy("run", "--request", "0.1", "--", "true"),
            125,
            "divvyd exited at once",
            f"simulated device: create '{obstacle}'",
        )
        os.rmdir(obstacle)
        refused(
            rig.divvy("run", "--request", "0.1", "--", "true", env={"DIVVY_SIM_COSTS": "garbage"}),
            125,
            "DIVVY_SIM_COSTS: cost 'garbage': expected key=value",
        )


def commands_report_that_no_daemon_runs():
    with Rig(daemon=False) as rig:
        for command in (
            ("ps",),
            ("devices",),
            ("top", "--once"),
            ("why", "x"),
            ("report",),
            ("plot",),
            ("set", "x", "--limit", "1"),
        ):
            refused(rig.divvy(*command), 1, "no daemon runs", "divvy run")
        assert "divvyd does not run" in rig.divvy("version").stdout
        for args in (("ps",), ("run", "--request", "0.1", "--", "true")):
            refused(
                rig.divvy(*args, env={"DIVVY_SOCKET": "/no/such.sock"}),
                125 if args[0] == "run" else 1,
                "DIVVY_SOCKET",
                "/no/such.sock",
            )
        refused(rig.divvy("ps", env={"DIVVY_SOCKET": ""}), 1, "no daemon runs", "divvy run")
        refused(
            rig.divvy("run", "--request", "0.1", "--", "true", env={"DIVVY_RUNTIME_DIR": "here"}),
            125,
            "'here'",
            "absolute path",
        )
        assert not os.path.exists("here")
        refused(rig.divvy("apply", "-f", "gone", "--stop"), 1, "no daemon runs")


def impossible_changes_of_a_running_tenant_are_refused():
    with Rig(simulate="2xH200-141Gi") as rig:
        rig.spin("first", "--request", "0.5", "--memory", "10%")
        done = rig.divvy("set", "first", "--memory", "8Gi")
        assert done.returncode == 0 and "request 0.5, limit 1, memory 8Gi, class" in done.stdout, done
        refused(rig.divvy("set", "first", "--request", "2"), 1, "request 2 whole devices", "has 0.5 on 1 device")


def invalid_lines_of_tenants_conf_are_refused():
    with Rig(daemon=False) as rig:
        for line, parts in [
            ("default maybe", ("line 2", "default 'maybe'", "allow or refuse")),
            ("default", ("default ''", "allow or refuse")),
            ("uid", ("uid has no value", "name or a number")),
            ("uid nobody-here request=0.5", ("uid 'nobody-here'",)),
            ("cgroup /" + 200 * "x" + " request=0.5", ("cgroup '/xxx", "201 characters", "at most 199")),
            ("cgroup batch.slice request=0.5", ("cgroup 'batch.slice'", "begins with / or *")),
            ("cgroup /a request", ("'request'", "field=value")),
            ("user 0 request=0.5", ("'user'", "uid, gid, cgroup or default")),
            ("uid 0 request=1.5", ("request '1.5'",)),
            ("uid 0 request=0.5 memory-policy=wait request=0.6", ("request", "twice")),
            ("uid 0 request=0.5 memory-policy=wait memory_policy=wait", ("memory_policy", "twice")),
            ("default allow\ndefault refuse", ("line 3", "default refuse", "sets the default already")),
        ]:
            path = os.path.join(rig.dir, "tenants.conf")
            with open(path, "w", encoding="utf-8") as f:
                f.write("# rules\n" + line + "\n")
            done = subprocess.run(
                [DIVVYD, "--simulate", "1xTest-1Gi", "--tenants", path],
                env=rig.env,
                capture_output=True,
                text=True,
                timeout=patience(),
                check=False,
            )
            refused(done, 2, path, *parts)
        with open(path, "w", encoding="utf-8") as f:
            f.write("#" * (2 << 20))
        field = os.path.join(rig.dir, "field.conf")
        with open(field, "w", encoding="utf-8") as f:
            f.write("uid 0 requests=0.5\n")
        for path, part in (
            (path, "too large"),
            (rig.dir, "Is a directory"),
            (field, "requests"),
            (os.path.join(rig.dir, "gone.conf"), "No such file"),
        ):
            done = subprocess.run(
                [DIVVYD, "--simulate", "1xTest-1Gi", "--tenants", path],
                env=rig.env,
                capture_output=True,
                text=True,
                timeout=patience(),
                check=False,
            )
            refused(done, 2, path, part)


def a_simulated_gpu_of_another_user_is_refused():
    """Root's daemon serves all users, but a simulated GPU reads and writes its programs' memory."""
    other = 65534
    if os.getuid() != 0 or subprocess.run([DIVVY, "version"], user=other, capture_output=True, check=False).returncode:
        print("# needs root, and a build folder that others may read")
        return
    with Rig(daemon=False) as rig:
        os.chmod(rig.dir, 0o755)
        rig.start()
        rig.env["DIVVY_SOCKET"] = os.path.join(rig.dir, "divvyd.sock")

        def divvy(*args):
            return subprocess.run(
                [DIVVY, *args],
                user=other,
                env=rig.env,
                capture_output=True,
                text=True,
                cwd="/",
                timeout=patience(),
                check=False,
            )

        refused(divvy("run", "--request", "0.2", "--", "true"), 125, "user 0 only", "simulates", "DIVVY_RUNTIME_DIR")
        assert "simulates a GPU for user 0 only" in divvy("doctor").stdout
        assert rig.divvy("run", "--request", "0.2", "--memory", "10%", "-q", "--", "true").returncode == 0


def a_new_daemon_checks_its_values_before_taking_over():
    """divvyd checks its values before it asks the running daemon to exit, or reports that one runs."""
    with Rig() as rig:
        bad = os.path.join(rig.dir, "bad.conf")
        with open(bad, "w", encoding="utf-8") as f:
            f.write("nonsense\n")
        for option, code, *parts in [
            ("--policy=foo", 2, "foo", "share"),
            ("--metrics=unix:", 2, "unix:", "1 to 107"),
            ("--metrics=0.0.0.0:80", 2, "loopback"),
            ("--metrics=:0", 2, "1 to 65535"),
            ("--dcgm-metrics=yes", 2, "on or off"),
            ("--simulate=", 2, "--simulate: the value is empty"),
            ("--runtime-dir=", 2, "--runtime-dir: the value is empty"),
            ("--usage-dir=", 2, "--usage-dir: the value is empty"),
            ("--simulate=3xNothing", 2, "3xNothing"),
            ("--tenants=" + bad, 2, "nonsense"),
            ("--tenants=" + bad + "2", 2, "bad.conf2"),
            ("--apply=" + bad + "2", 1, "bad.conf2"),
        ]:
            for also in ((), ("--replace",)):
                done = subprocess.run(
                    [DIVVYD, option, *also],
                    env=rig.env,
                    capture_output=True,
                    text=True,
                    timeout=patience(),
                    check=False,
                )
                refused(done, code, *parts)
        assert rig.daemon.poll() is None and rig.divvy("ps").returncode == 0


def a_state_folder_that_the_loader_would_cut_is_refused():
    with Rig(daemon=False) as rig:
        for name in "my state", "my:state":
            done = subprocess.run(
                [DIVVYD, "--cluster", "--node-name=n", f"--state-dir={rig.dir}/{name}"],
                env=rig.env,
                capture_output=True,
                text=True,
                timeout=patience(),
                check=False,
            )
            refused(done, 2, name, "LD_PRELOAD")


def missing_tenants_are_reported():
    with Rig() as rig:
        refused(rig.divvy("why", "nobody"), 1, "nobody")
        refused(rig.divvy("set", "nobody", "--limit", "0.5"), 1, "nobody")
        refused(rig.divvy("plot"), 1, "no tenant used the device")
        refused(rig.divvy("plot", "-d", "7"), 1, "--device 7", "device 0 only")
        refused(rig.divvy("apply", "-f", os.path.join(rig.dir, "none")), 1, "none")


main(
    errors_of_the_simulated_device_reach_the_user,
    requests_that_no_machine_can_grant_are_refused,
    requests_beyond_this_machine_are_refused,
    requests_that_sum_above_one_are_refused,
    missing_programs_give_documented_exit_codes,
    typing_errors_are_refused_with_a_hint,
    invalid_values_are_refused,
    failed_writes_to_stdout_are_reported,
    commands_report_that_no_daemon_runs,
    impossible_changes_of_a_running_tenant_are_refused,
    invalid_lines_of_tenants_conf_are_refused,
    a_simulated_gpu_of_another_user_is_refused,
    a_new_daemon_checks_its_values_before_taking_over,
    a_state_folder_that_the_loader_would_cut_is_refused,
    missing_tenants_are_reported,
)
