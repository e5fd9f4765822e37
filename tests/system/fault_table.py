"""The table of faults: the outcome of a run when one process that serves it, or one side of its sockets, fails.

``python -m tests.system.fault_table KIND ROLE`` tries the cases of one row in this process, each with a supervisor of
its own, and prints each outcome. ``python -m tests.system.fault_table`` tries all and writes docs/faults.md.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support import faults, host

import stockade

WALL = 1.5
MARGIN = 2.0
TREE = Path(__file__).parents[2]
PAGE = TREE / "docs" / "faults.md"
MOMENTS = ("before", "during", "after")
WAYS = (*faults.WAYS, faults.FREEZE)
_COLD = ("caller", "warden", "spawner", "init", "first process")
ROWS = [
    *(("cold", role) for role in _COLD),
    *(("streaming", role) for role in _COLD),
    *(("warm", role) for role in ("caller", "warden", "spawner of the zygote", "init of the zygote", "zygote", "worker", "warm guest")),
    ("collecting", "collector"),
    ("without namespaces", "reaper"),
]  # fmt: skip
_AT_ONCE = 6
_SHARED_HOST = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
_PYTHON = "/usr/bin/python3"  # that a guest of another uid can start
_SLEEPS = "import time\nprint(1, flush=True)\ntime.sleep(0.8)"
WRITES = "for n in range(900):\n    open(f'{n}.txt', 'w').write('x' * 4000)"
DONE, FAILED = "completed", "sandbox_failed"


@dataclass(frozen=True)
class Case:
    """A fault that hits ``role`` in one ``way``, at one ``moment`` of a run of one ``kind``."""

    kind: str
    role: str
    way: str
    moment: str

    @property
    def expected(self) -> set[str]:
        """Return the outcomes that the hit run may have. The run after it always completes."""
        if self.way == "stop and continue":
            return {DONE}
        if self.way == faults.FREEZE:
            return Case(self.kind, self.role, "stop", self.moment).expected
        if self.moment == "after":  # the helper may be the next run's by now, or may have nothing to do with it
            return {DONE, FAILED}
        if self.moment == "before":
            return {_BEFORE.get((self.role, self.way), DONE)}
        if self.role == "caller":  # a caller that shuts down its side of a run's socket cancels the run
            return {FAILED, "cancelled"}
        return {_DURING.get((self.role, self.way), DONE)}


_BEFORE = {
    ("init", "stop"): FAILED,
    ("reaper", "stop"): FAILED,
    ("first process", "stop"): FAILED,
    ("warm guest", "stop"): FAILED,
    ("warm guest", "cut its sockets"): FAILED,
}
_DURING = {
    **dict.fromkeys(itertools.product(("warden", "init", "reaper"), ("kill", "stop", "cut its sockets")), FAILED),
    **dict.fromkeys(itertools.product(("spawner", "worker"), ("kill", "cut its sockets")), FAILED),
    **{(role, "kill"): FAILED for role in ("spawner of the zygote", "init of the zygote", "zygote")},
    # The guest may do the same to its own process, and the kernel shows no difference.
    **{(role, "kill"): "crashed" for role in ("first process", "warm guest")},
    **{(role, "stop"): "limit_exceeded" for role in ("first process", "warm guest")},
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The outcome of one case, and of the run after it."""

    case: Case
    outcome: str
    reason: str
    seconds: float
    next_outcome: str
    next_seconds: float
    left: list[str]


def cases(kind: str, role: str) -> Iterator[Case]:
    """Yield the cases of one row."""
    for way, moment in itertools.product(WAYS, MOMENTS):
        if role == "collector" and (moment != "during" or way == "cut its sockets"):
            continue  # a collector lives for one run, and has no socket
        if way == faults.FREEZE and (kind == "streaming" or moment == "after"):
            continue  # as for "stop"
        if role != "caller" or way == "cut its sockets":  # other faults of a caller end all of its runs
            yield Case(kind, role, way, moment)


def all_cases() -> list[Case]:
    """Return every case of the table."""
    return [case for row in ROWS for case in cases(*row)]


def _run(box: stockade.Runner, case: Case, source: str) -> tuple[stockade.Result, float]:
    begin = time.monotonic()
    if case.kind == "streaming":
        with box.stream(source) as run:
            for _ in run:
                pass
        result = run.result
    else:
        more = {"artifacts": ["*.txt"]} if case.kind == "collecting" else {}
        result = box.run(source, **more, interpreter=_PYTHON if case.kind == "without namespaces" else None)
    return result, time.monotonic() - begin


def attempt(case: Case) -> Found:
    """Try the case with a supervisor of its own, and look for leftovers when that is gone."""
    freezer = faults.Freezer(version=2) if case.way == faults.FREEZE else None
    strike = faults.WAYS[case.way] if freezer is None else freezer.freeze
    before = host.Snapshot.take()
    shared = case.kind == "without namespaces"
    policy = stockade.Policy(limits={"wall_time": WALL}, accept=_SHARED_HOST if shared else {})
    box = stockade.Runner(policy, backend="process" if shared else "native", warm=case.kind == "warm")
    assert _run(box, case, "print(0)")[0].ok
    time.sleep(0.2)  # the helpers of the next run exist by then
    if case.moment == "during":
        striker = threading.Thread(
            target=lambda: (time.sleep(0.0 if case.role == "collector" else 0.4), strike(faults.wait_for(case.role)))
        )
        striker.start()
        result, seconds = _run(box, case, WRITES if case.role == "collector" else _SLEEPS)
        striker.join()
    else:
        if case.moment == "after":
            _run(box, case, "print(1)")
        strike(faults.wait_for(case.role))
        time.sleep(0.1 if case.moment == "before" else 0)
        result, seconds = _run(box, case, "print(2)")
    following, next_seconds = _run(box, case, "print(3)")
    reason = result.error.message if result.error else result.artifacts_error or ""
    host.stop_warden()
    host.eventually(lambda: not _left(before), MARGIN)
    left = _left(before)
    if freezer is not None:
        freezer.close()
    return Found(
        case, result.outcome.value, reason, seconds, following.outcome.value, next_seconds, left
    )  # fmt: skip


def _left(before: host.Snapshot) -> list[str]:
    new = host.Snapshot.take().more_than(before)
    return [f"{kind}: {each}" for kind in ("processes", "mounts", "networks") for each in new.get(kind, ())]


def try_row(row: tuple[str, str], case: Case | None = None) -> list[Found]:
    """Try one row, or one case of it, in a process of its own."""
    command = [sys.executable, "-m", "tests.system.fault_table", *row, *((case.way, case.moment) if case else ())]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [Found(**each | {"case": Case(**each["case"])}) for each in found]


def try_all() -> dict[Case, Found]:
    """Try every case, some rows at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {found.case: found for row in pool.map(try_row, ROWS) for found in row}


def _entry(case: Case, found: Found) -> str:
    if len(case.expected) > 1:
        return " or ".join(sorted(case.expected))
    return f"{found.outcome}, {found.seconds:.1f} s"


def page(found: dict[Case, Found]) -> str:
    """Return docs/faults.md."""
    rows = []
    for kind, role in ROWS:
        for way in WAYS:
            row = [Case(kind, role, way, moment) for moment in MOMENTS]
            if any(case in found for case in row):
                absent = "has no such moment" if role == "collector" else "as stop"
                entries = [_entry(case, found[case]) if case in found else absent for case in row]
                rows.append(f"| {kind} | {role} | {way} | {' | '.join(entries)} |")
    reasons = sorted({_plain(each.reason) for each in found.values() if each.reason})
    listed = "\n".join(f"- {each}" for each in reasons)
    return _TEXT.format(rows="\n".join(rows), reasons=listed, wall=WALL, bound=WALL + MARGIN, count=len(found))


def _plain(reason: str) -> str:
    return re.sub(r"(?<=pid )\d+", "N", reason)


_TEXT = """# Faults of stockade's own processes

This page shows the outcome of a run when a process that serves it is killed, stopped or frozen from outside, or when its sockets fail. `make faults` tries each of the
{count} cases on a real sandbox and writes this page. `tests/system/test_faults.py` requires the outcome shown here.

Each run has {wall} s of wall time. Each case asserts three things: the outcome, an answer within {bound} s, and that no process, mount or network is
left. A fault costs one run at most: the next run of the same runner completes.

- *before*: the helper is hit while it is idle, and a run follows. *during*: it is hit 0.4 s after the run began. *after*: it is hit as soon as
  a run has its answer, and another run follows.
- *stop* is `SIGSTOP`. *stop and continue* is `SIGSTOP`, and `SIGCONT` 0.15 s later. *freeze* moves the process into a frozen control group (`cgroup.freeze`
  of v2). *cut its sockets* shuts down the sending side of every Unix
  socket that the process holds, so the process on the other side reads end-of-file.
  The caller's side and the helper's side of each socket have a row each.
- The *warden* is the supervisor. A *spawner* makes sandboxes in a cgroup slot. An *init* is PID 1 of a sandbox. The *first process* is the one that
  becomes the guest. A *zygote* is a warm interpreter. A *worker* is a fork of it that makes warm guests. The *collector* reads files out of a run.
  A *reaper* takes the place of init for the backends without namespaces and for engines; here it serves `process`.
- Once the guest's program runs, a signal from outside to its process looks like the guest's own signal: *crashed* and *limit_exceeded*.
- The caller sends a launch that a lost warden had not accepted to a new one, once, so the call completes. In the same way, the warden gives a run another
  sandbox if the first one was killed before the program began. See [ADR 36](adr/0036-deadlines-and-repeats.md).

`tests/system/test_setup_steps.py` does the same inside the set-up: a system-call filter makes one call of one process fail, some 90 calls in all. The run then
ends as a failed sandbox with the step, the call, the errno and the remedy, or it is as confined as ever. `python -m tests.system.setup_table` prints the table.

| run | process | fault | before | during | after |
| --- | --- | --- | --- | --- | --- |
{rows}

The results of these runs have these reasons:

{reasons}
"""


def main() -> None:
    """Try the cases that the command line names."""
    if len(sys.argv) < 3:
        found = try_all()
        PAGE.write_text(page(found), encoding="utf-8")
        return
    host.adopt_orphans()
    kind, role, *only = sys.argv[1:]
    for case in cases(kind, role):
        if not only or only == [case.way, case.moment]:
            print(json.dumps(asdict(attempt(case))), flush=True)


if __name__ == "__main__":
    main()
