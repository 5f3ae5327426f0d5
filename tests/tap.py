# SPDX-License-Identifier: Apache-2.0
"""Common parts of the Python tests: TAP, and bounded waiting."""

import collections
import concurrent.futures
import contextlib
import os
import signal
import sys
import time
import traceback

LONG_S = 10  # a slower test prints its time
PATIENCE_S = 60  # enough for any wait on an idle machine, not a measure of speed
SLOWEST = 10  # largest factor by which load lengthens a bound
SKIP = 77


class Skip(Exception):
    """Raised by a test that cannot run here; the reason is its text."""


def skip_all(why, code=0):
    """Skips a whole program. meson obeys TAP's line; a caller without TAP needs the exit status `code`."""
    print(f"1..0 # SKIP {why}")
    sys.exit(code)


def patience(seconds=PATIENCE_S):
    """The bound in seconds, on this machine now, of a wait that takes at most `seconds` on an idle machine.

    Every time-out of a test comes from here, or from patience.h, its twin in C: a time-out ends a hanging test. The bound is
    twice `seconds` on an idle machine and grows with the runnable processes per processor."""
    runnable = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(max(2, 2 * runnable), SLOWEST)


Stat = collections.namedtuple("Stat", "state parent session started")


def stat_of(pid):
    """From proc(5): the state's letter, the parent's pid, the session, the start in ticks. OSError: no such process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        words = f.read().rpartition(")")[2].split()  # a name may hold blanks and parentheses
    return Stat(words[0], int(words[1]), int(words[3]), int(words[19]))


def alive(pid):
    try:
        return stat_of(pid).state not in "ZX"
    except OSError:
        return False


def thaw(pid):
    """Continues a stopped process, and only that. At its end LeakSanitizer's tracer stops a process by SIGSTOP; a SIGCONT would
    cancel that stop, and both would wait for ever."""
    with contextlib.suppress(OSError):
        if stat_of(pid).state == "T":
            os.kill(pid, signal.SIGCONT)


def processor_ticks():
    """(idle, stolen by other machines of the same host, all) since the machine started."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(word) for word in f.readline().split()[1:9]]
    return ticks[3] + ticks[4], ticks[7], sum(ticks)


def was_stolen_from(before):
    """Did other machines of the same host take processors since processor_ticks() returned `before`? Then shares of a device
    say little about divvy."""
    _, stolen, ticks = (now - then for now, then in zip(processor_ticks(), before))
    return stolen > ticks / 50


def was_busy(before):
    """Did other machines of the same host take processors, or was hardly any processor idle?"""
    idle, _, ticks = (now - then for now, then in zip(processor_ticks(), before))
    return idle < ticks / 5 or was_stolen_from(before)


def fairly(look, tries=1):
    """Calls look(), which returns the fault of measured shares or nothing, until it finds none. Fails after `tries` looks at
    which the host took no processor away. Load by the test itself is no excuse."""
    wrong = None
    for _ in range(2 * tries):
        before = processor_ticks()
        wrong = look()
        if not wrong:
            return
        tries -= not was_stolen_from(before)
        if not tries:
            raise AssertionError(wrong)
    raise Skip(f"the machine's processors were taken away: {wrong}")


def wait_for(condition, what, patience_s=PATIENCE_S):
    """Waits until condition() is true and returns its value; fails after patience(patience_s), taken anew at each look."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() - begin < patience(patience_s), f"never: {what}"
        time.sleep(0.05)


def outcome(test):
    """Runs a test. Returns (whether it succeeded, its name, the output before its line)."""
    name = test.__name__.replace("_", " ")
    begin = time.monotonic()

    def took():
        s = time.monotonic() - begin
        return f"# {s:.0f} s:\n" if s > LONG_S else ""

    try:
        test()
        return True, name, took()
    except Skip as why:
        return True, f"{name} # SKIP {why}", ""
    except Exception:  # the next test must run in any case
        return False, name, took() + "# " + traceback.format_exc().strip().replace("\n", "\n# ") + "\n"


def outcomes(step):
    """Runs a test, or the tests of a tuple at once, in threads."""
    if isinstance(step, tuple):
        with concurrent.futures.ThreadPoolExecutor(len(step)) as threads:
            yield from threads.map(outcome, step)
    else:
        yield outcome(step)


def main(*tests, after_failure=None):
    """Runs tests in this order. after_failure() removes what a failed test has left, so that the next ones do not fail, too."""
    print(f"1..{sum(len(t) if isinstance(t, tuple) else 1 for t in tests)}", flush=True)
    failed = number = 0
    for step in tests:
        before = failed
        for well, name, why in outcomes(step):
            number += 1
            failed += not well
            print(f"{why}{'' if well else 'not '}ok {number} - {name}", flush=True)
        if failed > before and after_failure:
            try:
                after_failure()
            except Exception:  # the next test must run in any case
                print("# after the failure: " + traceback.format_exc().strip().replace("\n", "\n# "), flush=True)
    sys.exit(1 if failed else 0)
