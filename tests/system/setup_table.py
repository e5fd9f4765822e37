"""The table of set-up failures: the outcome of a run when one system call of its set-up fails.

``python -m tests.system.setup_table KIND`` prints one line of JSON for each case of a kind of run.
``python -m tests.system.setup_table`` prints the table of all: step, call, errno, outcome.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support import host
from tests.support.failing_calls import Call, FailingCalls

import stockade

TREE = Path(__file__).parents[2]
KINDS = ("cold", "copy", "overlay", "warm")
_CODES = (errno.EPERM, errno.ENOMEM, errno.ENOSPC)
_PROGRAM = "print(open('/proc/self/status').read())"
_CONFINED = ("Cap", "NoNewPrivs", "Seccomp", "Groups")
_OF_PROJECTS = {"mount": (0,), "mkdir": (0, 1, 2), "openat2": (0, 2), "memfd_create": (0,)}
"""For each call, how many calls from the last one to fail."""
_WARM = ("clone", "mount", "unshare", "landlock_restrict_self", "seccomp", "setresuid", "capset", "chdir", "setns")


@dataclass(frozen=True)
class Found:
    """The outcome of a run whose ``call`` failed."""

    role: str
    call: str
    nth: int
    errno: str
    outcome: str
    message: str
    seconds: float
    as_confined: bool
    """Whether the guest saw the same confinement as in a run without a failure."""

    @property
    def step(self) -> str:
        """Return the step that the message names, or its first words."""
        found = re.search(r"step (\w+)", self.message)
        return found[1] if found else self.message.partition(": ")[0]


class _Runs:
    """Makes runs of one kind, each with a base of its own, so that no instance waits for it."""

    def __init__(self, kind: str, folder: str) -> None:
        self._kind, self._folder, self._count = kind, folder, 0

    def __call__(self) -> stockade.Result | stockade.StockadeError:
        self._count += 1
        policy: dict[str, Any] = {"limits": {"disk": (64 << 20) + 4096 * self._count}}
        if self._kind in ("copy", "overlay"):
            host.stop_warden()  # here the base does not depend on the policy, and an instance may wait for the run
            stockade.plan(policy)  # starts a warden
            policy["filesystem"] = {"workspace": self._folder, "access": self._kind}
        try:
            box = stockade.Runner(policy, backend="native", warm=self._kind == "warm")
            if self._kind == "warm":
                return box.run(_PROGRAM)
            return box.run_command(["cat", "/proc/self/status"])
        except stockade.StockadeError as error:
            return error


def _confinement(result: stockade.Result | stockade.StockadeError) -> list[str]:
    text = result.stdout if isinstance(result, stockade.Result) else ""
    return [line for line in text.splitlines() if line.startswith(_CONFINED)]


def _cases(kind: str, made: list[Call]) -> Iterator[Call]:
    """Yield first, middle and last call of each role and name; fewer where the first steps are those of other kinds."""
    last: dict[tuple[str, str], int] = {}
    for call in made:
        last[call.role, call.name] = max(call.nth, last.get((call.role, call.name), 0))
    for (role, name), count in sorted(last.items()):
        if kind == "warm":
            if role in ("worker", "warm guest") and name in _WARM:
                yield Call(role, name, count)
        elif kind == "cold":
            yield from (Call(role, name, nth) for nth in sorted({1, (count + 1) // 2, count}))
        elif role == "first process" and name in _OF_PROJECTS:
            yield from (Call(role, name, nth) for nth in sorted({max(1, count - back) for back in _OF_PROJECTS[name]}))


def try_kind(kind: str, say: Callable[[Found], object]) -> None:
    """Try each case of one kind in this process."""
    host.adopt_orphans()
    calls = FailingCalls()
    with tempfile.TemporaryDirectory(prefix="stockade-test-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "a.txt").write_text("a")
        Path(folder, ".env").write_text("secret")  # to hide
        run = _Runs(kind, folder)
        run()
        result, _, made = calls.during(run)
        usual = _confinement(result)
        assert usual, result
        for number, call in enumerate(_cases(kind, made)):
            code = _CODES[number % len(_CODES)]
            begin = time.monotonic()
            result, hit, _ = calls.during(run, call, code)
            if hit:
                say(_found(call, code, result, usual, time.monotonic() - begin))
        assert _confinement(run()) == usual  # the next run is as ever
        host.stop_warden()


def _found(
    call: Call, code: int, result: stockade.Result | stockade.StockadeError, usual: list[str], seconds: float
) -> Found:
    if isinstance(result, stockade.Result):
        outcome, message = result.outcome.value, result.error.message if result.error else ""
    else:
        outcome, message = type(result).__name__, str(result)
    same = _confinement(result) == usual
    return Found(call.role, call.name, call.nth, errno.errorcode[code], outcome, message, seconds, same)


def try_all(kinds: tuple[str, ...] = KINDS) -> list[Found]:
    """Try every case of ``kinds``, each kind in a process of its own."""
    with ThreadPoolExecutor(len(kinds)) as pool:
        return [found for each in pool.map(_try_apart, kinds) for found in each]


def _try_apart(kind: str) -> list[Found]:
    command = [sys.executable, "-m", "tests.system.setup_table", kind]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [Found(**json.loads(line)) for line in done.stdout.splitlines()]


def main() -> None:
    """Try the kind that the command line names, or print the table."""
    if len(sys.argv) > 1:
        try_kind(sys.argv[1], lambda found: print(json.dumps(asdict(found)), flush=True))
        os._exit(0)  # the supervisor of the calls ends with this process
    for each in sorted(try_all(), key=lambda found: (found.step, found.call)):
        print(f"{each.step:28} {each.role:14} {each.call:24} {each.errno:7} {each.outcome}")


if __name__ == "__main__":
    main()
