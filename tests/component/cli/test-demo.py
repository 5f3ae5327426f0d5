#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/demo succeeds, fails with the gate off, and leaves nothing behind, even after an
interrupt."""

import os
import pty
import re
import signal
import subprocess
import xml.dom.minidom

from demos import Demo, tried
from rig import main, wait_for


def each_program_gets_its_requested_share():
    tried("demo", lambda out, demo: check(out, demo.out))


def check(out, folder):
    assert "simulated" in out and "OFF BY" in out and "Each got what it asked for" in out, out
    with open(os.path.join(folder, "usage.svg"), encoding="utf-8") as f:
        text = f.read()
    xml.dom.minidom.parseString(text)
    assert "(simulated)</title>" in text and text.count("stroke-dasharray") == 3
    # The last tenant's curve starts near its share. It must not start with part of a window, which
    # may be one turn with the whole device. In the picture, 100 % is at y 84, and y grows
    # downwards.
    last = re.findall(r'fill="none" stroke="#\w+" stroke-width="[\d.]+" [^>]*d="M[\d.]+,([\d.]+)', text)[-1]
    assert float(last) > 200, last


def it_fails_with_the_gate_off():
    with Demo("demo", env={"DIVVY_GATE": "off"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as demo:
        out, _ = demo.process.communicate()
        assert demo.process.returncode == 1, out
        assert "DIVVY_GATE=off" in out, out


def a_terminal_gets_a_live_view_and_an_interrupt_cleans_up():
    master, slave = pty.openpty()
    with Demo("demo", stdout=slave, stderr=slave, env={"TERM": "xterm"}) as demo:
        os.close(slave)
        seen = b""
        # Waits for overwritten frames that show the first tenant.
        while not (b"\033[J" in seen and b"train" in seen):
            seen += os.read(master, 65536)
        demo.process.send_signal(signal.SIGTERM)
        wait_for(lambda: drain(master) or demo.process.poll() is not None, "the demo ends")
        assert demo.process.returncode == 143, demo.process.returncode
    os.close(master)


def drain(fd):
    """Empties the terminal, so that the demo never blocks on it; returns False so that wait_for
    goes on."""
    os.set_blocking(fd, False)
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    return False


main(
    each_program_gets_its_requested_share,
    it_fails_with_the_gate_off,
    a_terminal_gets_a_live_view_and_an_interrupt_cleans_up,
)
