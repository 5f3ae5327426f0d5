# SPDX-License-Identifier: Apache-2.0
"""What the tests in Python share: TAP, and waiting for what must come."""

import collections
import concurrent.futures
import contextlib
import os
import signal
import sys
import time
import traceback

LONG_S = 10  # what a test takes beyond this it says
PATIENCE_S = 60  # a bound for what must come on an idle machine, not a measure of how fast
SLOWEST = 10  # a bound is never longer than this many times what it is on an idle machine
SKIP = 77


class Skip(Exception):
    """Raised by a test that cannot run here; the reason is its text."""


def skip_all(why, code=0):
    """All of a test's; meson takes TAP's word for it, and the code SKIP from what does not speak TAP."""
    print(f"1..0 # SKIP {why}")
    sys.exit(code)


def patience(seconds=PATIENCE_S):
    """The bound in seconds of a wait that takes at most `seconds` on an idle machine, on this machine now.

    Every time-out of a test comes from here, or from patience.h, its twin in C: a time-out is there to end what hangs.
    The bound is twice as long on an idle machine and grows with the runnable processes per processor."""
    runnable = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(max(2, 2 * runnable), SLOWEST)


Stat = collections.namedtuple("Stat", "state parent session started")


def stat_of(pid):
    """Of proc(5): the state's letter, the parent's pid, the session, the start in ticks. OSError: there is no such process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        words = f.read().rpartition(")")[2].split()  # a name may hold blanks and parentheses
    return Stat(words[0], int(words[1]), int(words[3]), int(words[19]))


def alive(pid):
    try:
        return stat_of(pid).state not in "ZX"
    except OSError:
        return False


def thaw(pid):
    """A stopped process goes on. One that runs is left alone: SIGCONT takes back the SIGSTOP by which LeakSanitizer's
    tracer stops it as it ends, and both would wait for ever."""
    with contextlib.suppress(OSError):
        if stat_of(pid).state == "T":
            os.kill(pid, signal.SIGCONT)


def processor_ticks():
    """(idle, stolen by other machines of the same host, all) since the machine has started."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(word) for word in f.readline().split()[1:9]]
    return ticks[3] + ticks[4], ticks[7], sum(ticks)


def was_stolen_from(before):
    """Whether since those processor_ticks() other machines of the same host took processors away: then what programs
    got of a device says little about who shares it out."""
    _, stolen, ticks = (now - then for now, then in zip(processor_ticks(), before))
    return stolen > ticks / 50


def was_busy(before):
    """The same, or that there was hardly an idle processor."""
    idle, _, ticks = (now - then for now, then in zip(processor_ticks(), before))
    return idle < ticks / 5 or was_stolen_from(before)


def fairly(look, tries=1):
    """look() says what is wrong with what programs got, or nothing, which ends it: after so many looks at which the
    machine had its processors. That the test itself keeps them busy is no excuse."""
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
    """Until it is so; fails when it is not so after patience(patience_s), as long as that is by then."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() - begin < patience(patience_s), f"never: {what}"
        time.sleep(0.05)


def outcome(test):
    """(whether it went well, its name, what there is to say before it) of one test."""
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
    except Exception:  # whatever it is, the next test is to run
        return False, name, took() + "# " + traceback.format_exc().strip().replace("\n", "\n# ") + "\n"


def outcomes(tests):
    """Of tests in this order; those in a tuple run beside one another, in threads."""
    for test in tests:
        if isinstance(test, tuple):
            with concurrent.futures.ThreadPoolExecutor(len(test)) as threads:
                yield from threads.map(outcome, test)
        else:
            yield outcome(test)


def main(*tests):
    print(f"1..{sum(len(t) if isinstance(t, tuple) else 1 for t in tests)}", flush=True)
    failed = 0
    for number, (well, name, why) in enumerate(outcomes(tests), 1):
        failed += not well
        print(f"{why}{'' if well else 'not '}ok {number} - {name}", flush=True)
    sys.exit(1 if failed else 0)
