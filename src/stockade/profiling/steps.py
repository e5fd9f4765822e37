"""Where the time of a run goes: run the same small program many times with a trace, and compare the steps."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stockade.api.runner import Runner
from stockade.core import trace as _trace
from stockade.core.errors import JobError

_FIRST = 5
"""Runs that do not count, because the first ones find nothing ready."""
_AFTER = {
    _trace.STARTED: (_trace.APPLIED,),
    _trace.RELEASED: (_trace.ANSWERED,),
    _trace.REAPED: (_trace.COMPLETION_SEEN, _trace.APPLIED),
    _trace.EMPTY: (_trace.REAPED,),
    _trace.SET_UP: (_trace.EMPTY,),
}
"""The steps that a step waits for, if not for the one before it; the first of them that is in the trace counts."""
_ENDING = (_trace.REAPED, _trace.EMPTY)
"""Steps that a caller waits for, unless the guest is alone and has written its completion marker."""
_MOST = 0.8
_LAST = 0.3
"""Seconds after which all work that follows an answer is done."""
Times = Mapping[str, int]


@dataclass(frozen=True)
class Step:
    """A step of a run, in microseconds."""

    name: str
    process: str
    what: str
    since: str
    """The step before it."""
    at: float
    """Time since the public function was called; the median."""
    took: float
    """Time since the step before it; the median."""
    p90: float
    behind: bool
    """Whether the step follows the answer, so that the caller does not wait for it."""


@dataclass(frozen=True)
class Trace:
    """The common steps of many runs of one kind."""

    runs: int
    whole: float
    """Microseconds from call to return; the median."""
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the trace as JSON-compatible data."""
        return asdict(self)


def trace(
    runs: int, *, pause: float = 0.01, warm: bool = True, command: Sequence[str] = (), **options: Any
) -> Iterator[Trace | int]:
    """Run a small program ``runs`` times, ``pause`` seconds apart; yield the number of runs, and finally the trace.

    ``command`` runs in the place of the program, always cold. ``options`` are for ``Runner``. Raises ``JobError`` if a
    run does not complete.
    """
    box = Runner(warm=warm and not command, **options)
    _trace.take()
    for number in range(1, _FIRST + runs + 2):  # steps after an answer are reported with the next run
        box._launcher.trace = number
        _trace.note(number, _trace.CALLED)
        result = box.run_command(command) if command else box.run(f"print({number})")
        _trace.note(number, _trace.RETURNED)
        if not result.ok:
            raise JobError(f"a traced run did not complete: {result.summary()}")
        time.sleep(pause if number < _FIRST + runs else max(pause, _LAST))
        yield min(max(0, number - _FIRST), runs)
    found = [times for number, times in _by_run(_trace.take()) if _FIRST < number <= _FIRST + runs]
    yield combined(found)


def _by_run(notes: Sequence[_trace.Note]) -> Iterator[tuple[int, Times]]:
    """Yield number and times of each run. Of a step noted twice, the first time counts: a message sent in pieces."""
    runs: dict[int, dict[str, int]] = defaultdict(dict)
    for number, step, at in notes:
        runs[number].setdefault(step, at)
    yield from runs.items()


def combined(runs: Sequence[Times]) -> Trace:
    """Return the trace of ``runs`` of one kind: the steps that most have. A run without all of these is left out."""
    names = [name for name in _trace.STEPS if sum(name in times for times in runs) >= _MOST * len(runs)]
    runs = [times for times in runs if all(name in times for name in names)]
    at = {name: statistics.median(times[name] - times[_trace.CALLED] for times in runs) for name in names}
    names.sort(key=at.__getitem__)
    waited_for = [name for name in names if name not in _AFTER or (name in _ENDING and at[name] < at[_trace.ANSWERED])]
    steps = []
    for name in names[1:]:
        since = next((each for each in _AFTER.get(name, ()) if each in at), "") or _before(name, waited_for)
        took = [(times[name] - times[since]) / 1e3 for times in runs]
        process, what = _trace.STEPS[name]
        behind = name not in waited_for and at[name] > at[_trace.ANSWERED]
        steps.append(
            Step(name, process, what, since, at[name] / 1e3, statistics.median(took), _ninth(took), behind=behind)
        )
    return Trace(runs=len(runs), whole=at[_trace.RETURNED] / 1e3, steps=tuple(steps))


def _before(name: str, waited_for: Sequence[str]) -> str:
    """Return the step that the caller waits for before this one."""
    return waited_for[waited_for.index(name) - 1]


def _ninth(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.9)]
