#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that list: ps, devices, why, report, top and plot, as tables, JSON and YAML; report
after a restart."""

import concurrent.futures
import fcntl
import io
import json
import os
import pty
import re
import socket
import stat
import struct
import subprocess
import tarfile
import tempfile
import termios
import xml.dom.minidom

from rig import DIVVY, DIVVYD, SPIN, Rig, main, patience, refused, wait_for


def tables_show_tenants_and_devices():
    with Rig(simulate="2xH200-141Gi") as rig:
        rig.spin("train", "--request", "0.5", "--limit", "0.75", "--memory", "20Gi", "--class", "latency")
        out = rig.divvy("ps").stdout
        assert "simulated" in out.splitlines()[0]
        row = next(line.split() for line in out.splitlines() if " train " in line)
        assert row[3:5] == ["latency", "50%"] and row[6] == "75%" and "20Gi" in row, row
        out = rig.divvy("devices").stdout
        assert "simulated" in out and "141Gi" in out and "50%" in out, out
        assert len(out.splitlines()) == 4, out
        assert rig.divvy("ps", "-q").stdout == "train\n"
        pid = str(rig.tenant("train")["pid"])
        assert any(line.split()[0] == pid for line in rig.divvy("ps", "--processes").stdout.splitlines()[2:])


def json_and_yaml_have_the_same_members():
    with Rig() as rig:
        rig.spin("one", "--request", "0.3", "--memory", "4Gi")
        for command in (("ps",), ("devices",), ("why", "one"), ("report",), ("doctor",)):
            value = json.loads(rig.divvy(*command, "-o", "json").stdout)
            text = rig.divvy(*command, "-o", "yaml").stdout
            assert names(value) == yaml_names(text), (command, text)
        tenant = rig.json("ps", "-o", "json")[0]
        assert tenant["spec"]["request_permille"] == 300
        assert tenant["devices"][0]["memory_quota_bytes"] == 4 << 30
        assert "  request_permille: 300\n" in rig.divvy("ps", "-o", "yaml").stdout


def names(value):
    """All member names, in order."""
    if isinstance(value, dict):
        return [n for k, v in value.items() for n in [k] + names(v)]
    if isinstance(value, list):
        return [n for v in value for n in names(v)]
    return []


def yaml_names(text):
    stripped = (line.lstrip("- ").split(":", 1)[0] for line in text.splitlines() if ":" in line)
    return [name for name in stripped if name.replace("_", "").isalnum()]


def why_explains_what_a_tenant_waits_for():
    with Rig() as rig:
        rig.spin("capped", "--request", "0.2", "--limit", "0.2", "--memory", "10%")
        wait_for(
            lambda: "limit" in rig.divvy("why", "capped").stdout.splitlines()[1],
            "why explains that the tenant is at its limit",
        )
        rig.spin("other", "--request", "0.2", "--memory", "10%")
        wait_for(
            lambda: any(w["why"] == "turn" for n in ("capped", "other") for w in rig.json("why", n, "-o", "json")),
            "one waits for its turn",
        )
        out = rig.divvy("why", "capped").stdout
        assert "request 20%, limit 20%" in out and "entitled to 20%" in out, out
        assert rig.divvy("why", str(rig.tenant("capped")["id"])).returncode == 0


def report_survives_a_restart():
    with Rig() as rig:
        child = rig.run(
            "--name", "worker", "--request", "0.5", "--memory", "10%", "--", SPIN, "--kernel-us=1000", "--duration=5"
        )
        assert child.wait(patience()) == 0
        wait_for(lambda: not rig.tenant("worker"), "the tenant is removed")

        def used():
            return next(t for t in rig.json("report", "-o", "json")["tenants"] if t["name"] == "worker")

        before = used()
        assert before["gpu_seconds"] > 0.5 and not before["alive"], before
        rig.stop()
        rig.start()
        # Reports are stored in whole microseconds.
        assert abs(used()["gpu_seconds"] - before["gpu_seconds"]) < 2e-6, (used(), before)
        assert "worker" in rig.divvy("report", "--since", "1h").stdout
        assert rig.divvy("report").stdout.startswith("ID")


def report_survives_a_reboot():
    """After a reboot the runtime folder is empty."""
    with tempfile.TemporaryDirectory(prefix="divvy-test-usage-") as kept:
        for round_ in range(2):
            with Rig(daemon=False) as rig:
                rig.start("--usage-dir", kept)
                assert (
                    rig.run("--name", f"boot{round_}", "--request", "0.5", "--", SPIN, "--duration=1").wait(patience())
                    == 0
                )
                wait_for(lambda: not rig.tenant(f"boot{round_}"), "the tenant is removed")
                report = rig.json("report", "-o", "json")["tenants"]
                rig.stop()
        assert sorted(t["name"] for t in report) == ["boot0", "boot1"], report
        assert len({t["id"] for t in report}) == 2 and all(t["gpu_seconds"] > 0.1 for t in report), report
    with Rig(daemon=False) as rig:
        done = subprocess.run([DIVVYD, "--usage-dir", "here"], env=rig.env, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "'here': expected an absolute path" in done.stderr, done


def top_once_prints_one_frame():
    with Rig() as rig:
        rig.spin("shown", "--request", "0.4", "--memory", "10%")
        wait_for(lambda: rig.got("shown") > 300, "the tenant uses the device")
        out = rig.divvy("top", "--once").stdout
        assert "simulated" in out and "shown" in out and "\033" not in out and "\x01" not in out, out
        assert "\u2588" in out, "a bar"
        assert "#" in rig.divvy("top", "--once", env={"LC_ALL": "C"}).stdout, "a bar without UTF-8"
        value = rig.json("top", "--json")
        assert value["simulated"] and value["tenants"][0]["name"] == "shown"
        assert {"devices", "usage", "step_ms"} <= value.keys()
        done = rig.divvy("top", "--inline", "--every", "100ms", "--time", "300ms")
        assert done.returncode == 0 and "\033[" in done.stdout
        assert rig.divvy("top").returncode == 1, "stdout is not a terminal"


def top_is_a_live_screen():
    with Rig() as rig:
        rig.spin("shown", "--request", "0.4", "--memory", "10%")
        with Screen(rig) as screen:
            screen.await_text("shown")
            screen.await_text("q quit")
            screen.send(b"s")
            screen.await_text("used)")  # top draws only the changed parts
            screen.send(b"p")
            screen.await_text("paused")
            screen.send(b"p")
            screen.resize(60, 6)
            screen.await_text("q quit")
            screen.send(b"q")
            assert screen.child.wait(patience()) == 0
        with Screen(rig, "no-such-terminal") as screen:
            screen.await_text("TERM 'no-such-terminal'")
            assert screen.child.wait(patience()) == 1


class Screen:
    """divvy top on a terminal of its own. await_text() drops the output that it has matched."""

    def __init__(self, rig, term="xterm"):
        self.master, slave = pty.openpty()
        self.resize(140, 30)
        env = {k: v for k, v in rig.env.items() if k != "COLUMNS"}
        self.child = subprocess.Popen(
            [DIVVY, "top", "--every", "100ms"],
            env={**env, "TERM": term},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        os.set_blocking(self.master, False)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        Rig.end(self.child)
        os.close(self.master)

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def send(self, keys):
        os.write(self.master, keys)

    def await_text(self, text):
        def there():
            try:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            except (BlockingIOError, OSError):
                pass
            return text in self.seen

        wait_for(there, f"'{text}' on the screen")
        self.seen = self.seen.partition(text)[2]


def usage(rig, **fields):
    """The last minute's series, read by the control protocol (docs/control-protocol.md)."""
    body = json.dumps({"cmd": "usage", "last_ms": 60000, **fields}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(os.path.join(rig.dir, "divvyd.sock"))
        s.send(struct.pack("<IHHIiII", 24 + len(body), 13, 2, 1, 0, 0, 0) + body)
        text = b""
        while not text or text.count(b"{") != text.count(b"}"):
            text += s.recv(1 << 20)[24:]
    return json.loads(text)["series"]


def plot_draws_ended_tenants():
    with Rig() as rig:
        for name in "first", "second":
            done = rig.divvy("run", "-q", "--request", "0.25", "--name", name, "--", SPIN, "--duration=0.6")
            assert done.returncode == 0, done
        wait_for(lambda: not rig.json("ps", "-o", "json"), "both tenants have ended")
        done = rig.divvy("plot", "--last", "1m", "-o", "-")
        assert done.returncode == 0, done
        for name in "first", "second":
            assert re.search(rf"{name}[^<]*</text>", done.stdout), done.stdout
        assert "requested 25%" in done.stdout, done.stdout
        # a third tenant runs now, after a time in which neither of the first two ran
        rig.spin("third", "--request", "0.5")
        wait_for(lambda: rig.got("third") > 0, "the tenant uses the device")
        svg = rig.divvy("plot", "--last", "1m", "-o", "-").stdout
        assert all(name in svg for name in ("first", "second", "third")), svg
        wait_for(
            lambda: "first" not in rig.divvy("plot", "--last", "1s", "-o", "-").stdout,
            "plot draws only tenants of the last second",
        )


def plot_keeps_the_latest_ended_tenants():
    with Rig() as rig:

        def run(i):
            done = rig.divvy(
                "run",
                "-q",
                "--request",
                "0.001",
                "--memory",
                "1Gi",
                "--name",
                f"t{i}",
                "--",
                SPIN,
                "--kernel-us=2000",
                "--duration=0.05",
            )
            assert done.returncode == 0, done

        run(-1)
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            list(threads.map(run, range(128)))
        run(128)
        wait_for(lambda: not rig.json("ps", "-o", "json"), "all have ended")
        series = usage(rig, ended=True)
        names = {s["name"] for s in series}
        assert len(series) == 128 and "t128" in names and "t-1" not in names, sorted(names)
        assert not usage(rig), "without the key ended, usage lists no ended tenant"


def default_steps_of_plot_are_no_shorter_than_turns():
    with Rig() as rig:
        rig.spin("x", "--request", "0.5")
        wait_for(lambda: rig.got("x") > 0, "the tenant uses the device")
        for last, step in ("10s", "500ms"), ("1s", "500ms"), ("5m", "1s"):
            svg = rig.divvy("plot", "--last", last, "-o", "-").stdout
            assert f"one point for each {step}" in svg, (last, svg)
        assert "one point for each 40ms" in rig.divvy("plot", "--last", "10s", "--step", "40ms", "-o", "-").stdout


def plot_writes_a_picture():
    with Rig() as rig:
        rig.spin("a-b_c", "--request", "0.4", "--memory", "10%")
        path = os.path.join(rig.dir, "usage.svg")
        wait_for(lambda: rig.divvy("plot", "--last", "5s", "-o", path).returncode == 0, "the daemon has usage to plot")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        assert "(simulated)</title>" in text and "a-b_c" in text
        xml.dom.minidom.parseString(text)
        stacked = rig.divvy("plot", "--last", "5s", "--style", "stacked", "-o", "-").stdout
        xml.dom.minidom.parseString(stacked)
        # plot makes no folders, and writes into a file that is not a regular file.
        deep = os.path.join(rig.dir, "deep", "usage.svg")
        refused(rig.divvy("plot", "-o", deep), 1, deep, "folder")
        fifo = os.path.join(rig.dir, "fifo")
        os.mkfifo(fifo)
        reader = rig.spawn("cat", fifo)
        assert rig.divvy("plot", "-o", fifo).returncode == 0
        xml.dom.minidom.parseString(reader.communicate(timeout=patience())[0])
        assert stat.S_ISFIFO(os.lstat(fifo).st_mode)


def doctor_reports_that_sharing_works():
    with Rig() as rig:
        done = rig.divvy("doctor")
        assert done.returncode == 0 and "Sharing works here." in done.stdout, done.stdout
        assert "build-id" in done.stdout and "preload: works" in done.stdout
        done = rig.divvy("doctor", env={"DIVVY_HOOKS": rig.dir})
        assert done.returncode == 1 and "problem" in done.stdout and "DIVVY_HOOKS" in done.stdout


def doctor_checks_the_container_engines():
    with Rig() as rig:
        said = [f for f in rig.json("doctor", "-o", "json") if f["what"].startswith("containers: ")]
        assert said, "doctor reports on container engines"
        for engine in "docker", "podman", "nerdctl":
            path = next(
                (
                    p
                    for p in (f"/usr/bin/{engine}", f"/usr/local/bin/{engine}", f"/bin/{engine}")
                    if os.access(p, os.X_OK)
                ),
                None,
            )
            if not path:
                assert not any(engine in f["what"] for f in said if "not installed" not in f["what"]), said
                continue
            works = (
                subprocess.run(
                    [path, "version"],
                    env=rig.env,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=patience(),
                    check=False,
                ).returncode
                == 0
            )
            fails = [f for f in said if f"`{engine} version` fails" in f["what"]]
            assert works != bool(fails), (engine, works, said)
            assert works or "start the engine's daemon" in fails[0]["do"], fails


def doctor_reports_an_unreachable_driver():
    """The daemon serves, but the driver that its programs would load or connect to does not
    answer."""
    with Rig() as rig:
        done = rig.divvy("doctor")
        assert done.returncode == 0 and "simulated driver: " in done.stdout, done.stdout
        sim = os.path.join(rig.dir, "sim")
        os.rename(os.path.join(sim, "engine.sock"), os.path.join(sim, "away"))
        done = rig.divvy("doctor")
        assert done.returncode == 1 and "programs cannot use it" in done.stdout, done.stdout
        os.rename(os.path.join(sim, "away"), os.path.join(sim, "engine.sock"))
        assert rig.divvy("doctor").returncode == 0


def a_bundle_has_diagnostics_and_no_secret():
    with Rig() as rig:
        rig.spin("train", "--request", "0.5")
        path = os.path.join(rig.dir, "bundle.tar")
        done = rig.divvy("doctor", "--bundle", path)
        assert done.returncode == 0 and "left out" in done.stderr, done
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with tarfile.open(path) as tar:
            files = {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers()}
        assert {
            "README.txt",
            "versions.txt",
            "doctor.json",
            "daemon/ping.json",
            "daemon/list.json",
            "daemon/devices.json",
        } <= set(files), files.keys()
        assert [t["name"] for t in json.loads(files["daemon/list.json"])["tenants"]] == ["train"]
        assert json.loads(files["doctor.json"])
        assert "Secrets and ConfigMaps" in files["README.txt"] and "cluster: " in files["README.txt"], files[
            "README.txt"
        ]
        # The secret that admits a program as this tenant, from the program's environment.
        with open(f"/proc/{rig.tenant('train')['pid']}/environ", encoding="utf-8") as environ:
            secrets = [v.partition("=")[2] for v in environ.read().split("\0") if v.startswith("DIVVY_T")]
        assert secrets and not any(
            s in text for s in secrets for text in files.values()
        ), "the bundle contains no secret of the tenant"
        done = subprocess.run(
            [DIVVY, "doctor", "--bundle", "-"],
            env=rig.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience(),
            check=False,
        )
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            assert set(tar.getnames()) == set(files), tar.getnames()
        assert done.returncode == 0 and len(done.stdout) % 512 == 0 and b"left out" in done.stderr, done.stderr
        done = rig.divvy("doctor", "--kubeconfig", "x")
        assert done.returncode == 2 and "only together with --bundle" in done.stderr
        done = rig.divvy("doctor", "--bundle", "/proc/no/bundle.tar")
        assert done.returncode == 1 and "/proc/no" in done.stderr, done.stderr


main(
    tables_show_tenants_and_devices,
    json_and_yaml_have_the_same_members,
    why_explains_what_a_tenant_waits_for,
    report_survives_a_restart,
    report_survives_a_reboot,
    top_once_prints_one_frame,
    top_is_a_live_screen,
    plot_draws_ended_tenants,
    plot_keeps_the_latest_ended_tenants,
    default_steps_of_plot_are_no_shorter_than_turns,
    plot_writes_a_picture,
    doctor_reports_that_sharing_works,
    doctor_checks_the_container_engines,
    doctor_reports_an_unreachable_driver,
    a_bundle_has_diagnostics_and_no_secret,
)
