"""Measure the cost of a run in every way that this machine offers, compared with a bare interpreter."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stockade.api.runner import Runner
from stockade.backends import registry
from stockade.client import warden_process
from stockade.core import errors
from stockade.languages import registry as languages
from stockade.policy.model import Policy

BARE = "bare interpreter"
_FIRST = 3
"""Calls of each case that do not count."""
_PAUSE = 0.01
"""Seconds before each call, so that no call pays for the clean-up after another."""
_ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor", "memory": "supervisor"}
Call = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A way to run a program: its milliseconds, or why it is not possible here."""

    name: str
    median: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    missing: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the case as JSON-compatible data."""
        return {"name": self.name, "missing": self.missing} if self.missing else asdict(self)


def measure(runs: int, interpreter: str | None = None) -> Iterator[int | list[Case]]:
    """Yield the number of finished rounds, and finally all cases. Each call runs a different small program."""
    calls, missing = _ready(_calls(interpreter))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for done in range(runs):
        yield done
        for name, call in calls.items():
            time.sleep(_PAUSE)
            begin = time.perf_counter()
            call(f"print({done})")
            times[name].append((time.perf_counter() - begin) * 1e3)
    yield [*(_case(name, each) for name, each in times.items()), *missing]


def _case(name: str, times: Sequence[float]) -> Case:
    ordered = sorted(times)
    last = len(ordered) - 1
    return Case(
        name, statistics.median(ordered), ordered[min(last, len(ordered) * 9 // 10)], ordered[len(ordered) * 99 // 100]
    )


def _ready(calls: dict[str, Call | str]) -> tuple[dict[str, Call], list[Case]]:
    """Try each call; return the calls that work, and a case with the reason for each other one."""
    working: dict[str, Call] = {}
    missing: list[Case] = []
    for name, call in calls.items():
        try:
            if isinstance(call, str):
                raise errors.BackendUnavailable(call)
            for number in range(_FIRST):
                call(f"print({number})")
            working[name] = call
        except errors.StockadeError as error:
            missing.append(Case(name, missing=str(error)))
    return working, missing


def _calls(interpreter: str | None) -> dict[str, Call | str]:
    """Return a call for each case, or the reason why this host cannot make it."""
    facts = warden_process.host_facts()
    found: dict[str, Call | str] = {BARE: _bare(interpreter)}
    for name in (*registry.BUILT_IN, *registry.others()):
        available = registry.find(name).availability(facts)
        if name == "native":
            found["native, warm"] = _sandboxed(name, interpreter, warm=True) if available.usable else available.reason
        label = "native, cold" if name == "native" else name
        found[label] = _sandboxed(name, interpreter, warm=False) if available.usable else available.reason
    return found


def _sandboxed(backend: str, interpreter: str | None, *, warm: bool) -> Call:
    made: list[Runner] = []

    def call(source: str) -> None:
        if not made:
            made.append(Runner(Policy(accept=_ACCEPT), backend=backend, warm=warm))
        made[0].run(source, interpreter=interpreter).check()

    return call


def _bare(interpreter: str | None) -> Call:
    executable = languages.find("python").interpreter(interpreter).executable
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]

    def call(source: str) -> None:
        words = [executable, "-I", "-S", "-c", source]
        _, status = os.waitpid(os.posix_spawn(executable, words, {}, file_actions=nowhere), 0)
        if status:
            raise errors.JobError(f"{executable} ended with status {os.waitstatus_to_exitcode(status)}")

    return call
