#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/demo: succeeds, fails with the gate off, leaves nothing behind, also when it is interrupted."""

import os
import pty
import re
import signal
import subprocess
import tempfile
import xml.dom.minidom

from rig import BUILD, SOURCE, main, wait_for


class Demo:
    def __init__(self, env=None, **popen):
        self.tmp = tempfile.TemporaryDirectory(prefix="divvy-test-")
        self.out = os.path.join(self.tmp.name, "out")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DIVVY_") and k != "LD_PRELOAD"}
        clean.update(DIVVY_BUILD=BUILD, DIVVY_OUT=self.out, TMPDIR=self.tmp.name, **(env or {}))
        self.process = subprocess.Popen([os.path.join(SOURCE, "scripts/demo")], env=clean, stdin=subprocess.DEVNULL,
                                        text=True, start_new_session=True, **popen)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        left = [n for n in os.listdir(self.tmp.name) if n != "out"]
        members = [p for p in os.listdir("/proc") if p.isdigit() and session(p) == self.process.pid]
        self.tmp.cleanup()
        assert not left, left
        assert not members, members


def session(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return int(f.read().rpartition(")")[2].split()[3])
    except OSError:
        return 0


TRIES = 3


def was_starved(out):
    """The device stood idle although all three had work: the machine had no processor for them."""
    return sum(float(got) for got in re.findall(r"^\w+ +[\d.]+% +([\d.]+)%", out, re.MULTILINE)) < 98


def each_gets_what_it_asked_for():
    for left in reversed(range(TRIES)):
        with Demo(stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as demo:
            out, _ = demo.process.communicate()
            if demo.process.returncode == 1 and left and was_starved(out):
                print("# the machine was too busy for a fair try:\n#", out.replace("\n", "\n# "))
                continue
            assert demo.process.returncode == 0, out
            check(out, demo.out)
            return


def check(out, folder):
    assert "simulated" in out and "OFF BY" in out and "Each got what it asked for" in out, out
    with open(os.path.join(folder, "usage.svg"), encoding="utf-8") as f:
        text = f.read()
    xml.dom.minidom.parseString(text)
    assert "(simulated)</title>" in text and text.count("stroke-dasharray") == 3
    # Who comes last has about its share from the first point on, not all of a window's part. 100% is at 84.
    last = re.findall(r'fill="none" stroke="#\w+" stroke-width="[\d.]+" [^>]*d="M[\d.]+,([\d.]+)', text)[-1]
    assert float(last) > 200, last


def with_the_gate_off_it_fails():
    with Demo(env={"DIVVY_GATE": "off"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as demo:
        out, _ = demo.process.communicate()
        assert demo.process.returncode == 1, out
        assert "DIVVY_GATE=off" in out, out


def a_terminal_gets_a_live_view_and_an_interrupt_cleans_up():
    master, slave = pty.openpty()
    with Demo(stdout=slave, stderr=slave, env={"TERM": "xterm"}) as demo:
        os.close(slave)
        seen = b""
        # Frames over one another, with the first tenant in them.
        while not (b"\033[J" in seen and b"train" in seen):
            seen += os.read(master, 65536)
        demo.process.send_signal(signal.SIGTERM)
        wait_for(lambda: drain(master) or demo.process.poll() is not None, "the demo ends")
        assert demo.process.returncode == 143, demo.process.returncode
    os.close(master)


def drain(fd):
    """So that nobody blocks on a full terminal; never says that it is enough."""
    os.set_blocking(fd, False)
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    return False


main(each_gets_what_it_asked_for, with_the_gate_off_it_fails, a_terminal_gets_a_live_view_and_an_interrupt_cleans_up)
