"""Runs hostile scripts in this process under all caps, and checks after each that the host has not changed.

``python -m tests.unit.embedded.audit --runs 10000 --start 0`` prints each finding, how the scripts ended, and the slope of
the memory. A finding is an exception that is no documented one, a value that is no data, a change of the host, or a hang.
"""

import argparse
import contextlib
import faulthandler
import gc
import io
import json
import os
import random
import resource
import signal
import statistics
import sys
import threading
import time
import warnings
from collections import Counter
from datetime import date, timedelta, tzinfo
from datetime import time as clock
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path

from stockade.embedded import Caps, CrossingError, HostError, ResourceExhausted, Runtime, RuntimeDead, ScriptError
from stockade.embedded.boundary.importing import MODULES
from tests.unit.embedded.mutations import script

CAPS = Caps(fuel=30_000, heap_objects=20_000, frames=60, deadline=2.0, symbols=1000, value_bytes=200_000)
DATA = (int, float, complex, str, bytes, bool, type(None), date, clock, timedelta, tzinfo, Decimal, Fraction)
HANG = 60  # seconds
WARM = 30  # runs before the first look at the host
EVERY = 100  # runs between two looks
MOST_GROWTH = 1.05  # of the resident memory, from the highest of the first half of the runs to that of the second
MOST_BLOCKS = 500  # memory blocks for 1,000 runs, in the second half
PRIVATE = ("site-packages", "stockade", str(Path(os.__file__).parent), "0x7f")
"""What no message for a script may hold: paths and addresses of the host."""


FORESEEN = ("RecursionError", "MemoryError", "ValueError", "OverflowError", "UnicodeEncodeError")
"""What the parser and the compiler raise for a source that they cannot take. Anything else is a fault of the weave."""


def descriptors():
    """Return what each open descriptor leads to."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            found[path.name] = str(path.readlink())
    return found


def tasks():
    """Return the number of tasks, once the watchdog of the last run has left the kernel."""
    until = time.monotonic() + 1
    while (found := len([*Path("/proc/self/task").iterdir()])) > threading.active_count() and time.monotonic() < until:
        time.sleep(0.001)
    return found


def host_state():
    """Return everything of this process that no script may change, by name."""
    return {
        "threads": [thread.ident for thread in threading.enumerate()],
        "tasks": tasks(),
        "descriptors": descriptors(),
        "modules": sorted(sys.modules),
        "trace": (sys.gettrace(), sys.getprofile(), threading.gettrace()),
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "recursion limit": sys.getrecursionlimit(),
        "digits of integers": sys.get_int_max_str_digits(),
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "random": random.getstate(),
        "decimal": (repr(getcontext()), dict(getcontext().flags)),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "warnings": list(map(str, warnings.filters)),
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "limits": [resource.getrlimit(each) for each in (resource.RLIMIT_AS, resource.RLIMIT_STACK, resource.RLIMIT_NOFILE)],
    }  # fmt: skip


def changes(before):
    """Return what differs from ``before``."""
    now = host_state()
    return [
        f"{name}: {str(before[name])[:200]} became {str(now[name])[:200]}"
        for name in before
        if now[name] != before[name]
    ]


def is_data(value, depth=0):
    """Return whether a value that a run gave back is data and nothing else."""
    if (
        depth > 300
        or type(value) in DATA
        or (isinstance(value, DATA) and type(value).__module__ in ("datetime", "builtins"))
    ):
        return True
    if type(value) is dict:
        return all(is_data(each, depth + 1) for pair in value.items() for each in pair)
    return type(value) in (list, tuple, set, frozenset) and all(is_data(each, depth + 1) for each in value)


def fetch(key):
    """A host function that fails in several ways."""
    if key == "b":
        raise HostError("for scripts")
    return {"a": 1, "list": [1, 2]}[key]


def run(number):
    """Run one script. Return how it ended, and the findings."""
    runtime = Runtime(CAPS, in_process=True)
    runtime.register("fetch", fetch)
    ending, findings = "a value", []
    try:
        if not is_data(runtime.run(script(number))):
            findings.append("a value that is no data")
    except ResourceExhausted as error:
        ending = error.cap
        findings += [] if runtime.is_dead and error.cap in vars(CAPS) else ["a cap without an end"]
    except ScriptError as error:
        ending = "an error of the script"
        if "too complex" in error.message and not error.message.endswith(FORESEEN):
            findings.append(error.message)
        findings += [f"{text!r} in {error.message[:200]!r}" for text in PRIVATE if text in error.message]
        findings += (
            []
            if isinstance(error.message, str) and isinstance(error.redacted(), Exception)
            else ["a message that is no text"]
        )
    except CrossingError:
        ending = "a value that cannot cross"
    except BaseException as error:
        findings.append(f"{type(error).__name__}: {str(error)[:200]}")
    try:
        runtime.run("1 + 1")
        findings += ["alive after a cap"] if ending in vars(CAPS) else []
    except RuntimeDead:
        findings += [] if ending in vars(CAPS) else ["dead without a cap"]
    except ResourceExhausted:
        pass  # the script had used nearly all of the fuel or the heap
    except BaseException as error:
        findings.append(f"afterwards {type(error).__name__}: {str(error)[:200]}")
    return ending, findings


def memory():
    """Return the resident memory in KiB, and the number of memory blocks."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024, sys.getallocatedblocks()


def slope(readings):
    """Return by how much the figures grow in 1,000 runs, by the line through all of them."""
    return 1000 * statistics.linear_regression([at for at, _ in readings], [figure for _, figure in readings]).slope


def warm_up():
    """Import what a script can import, and fill the caches of the interpreter."""
    runtime = Runtime(CAPS, in_process=True)
    for name in MODULES:
        runtime._engine.space.importing.load(name)
    for number in range(-WARM, 0):
        run(number)


def audit(runs, start):
    """Make ``runs`` runs, and return the findings, the endings, and the readings of the memory."""
    noise = io.StringIO()
    endings, findings, readings = Counter(), [], []
    with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
        warm_up()
        before = host_state()
        for done in range(runs):
            faulthandler.dump_traceback_later(HANG, exit=True, file=sys.__stderr__)
            ending, found = run(start + done)
            faulthandler.cancel_dump_traceback_later()
            endings[ending] += 1
            findings += [f"script {start + done}: {each}" for each in found]
            if done % EVERY == 0:
                readings.append((done, memory()))
                findings += [f"script {start + done}: {each}" for each in changes(before)]
        findings += changes(before)
    if noise.getvalue():
        findings.append(f"text for the host's own output: {noise.getvalue()[:500]!r}")
    return findings, endings, readings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0)
    given = parser.parse_args()
    begun = time.monotonic()
    findings, endings, readings = audit(given.runs, given.start)
    print(f"{given.runs} runs in {time.monotonic() - begun:.0f} s: {json.dumps(dict(endings.most_common()))}")
    half = len(readings) // 2
    if half > 10:
        before, after = readings[:half], readings[half:]
        blocks = slope([(at, figures[1]) for at, figures in after])
        highest, later = (max(figures[0] for _, figures in part) for part in (before, after))
        print(
            f"memory: at most {highest} KiB in the first half and {later} in the second; {blocks:+.0f} blocks for 1,000 runs there"
        )
        if later > highest * MOST_GROWTH or blocks > MOST_BLOCKS:
            findings.append("the memory grows")
    for each in findings[:50]:
        print(each)
    print(f"{len(findings)} findings")
    raise SystemExit(bool(findings))


if __name__ == "__main__":
    main()
