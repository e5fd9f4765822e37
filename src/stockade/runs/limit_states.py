"""The state of each limit of a run, derived from its counters by pure functions."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from stockade.core.frozen import FrozenDict
from stockade.core.report import Report
from stockade.core.units import format_size
from stockade.linux import locks
from stockade.planning.plan import Plan
from stockade.policy.guarantees import LIMITS, Guarantee, Strength
from stockade.runs.result import LimitState, Met

_Counters = Mapping[str, Any]
_Reading = tuple[Met, Callable[[], str]]
"""Whether the limit was met, and a function that describes the evidence."""
_Reader = Callable[[_Counters, float], _Reading]
EXHAUSTED = 122
"""The exit status with which an agent ends a process that has used up its operations."""
_SIGNALLED = 0.95
_BATCH = 64 * 4096
"""Bytes. The kernel counts memory in batches, so a full group may read this much below its limit."""
_COUNTERS = (
    "cause",
    "cpu_seconds",
    "cpu_source",
    "disk_free",
    "forks_refused",
    "inodes_free",
    "locks",
    "oom_kills",
    "output",
    "past_soft_memory",
    "peak_memory",
    "peak_sockets",
    "wall_seconds",
)
_NO_COUNTER = LimitState(Met.UNKNOWN, "the kernel's refusal leaves no counter")


class LimitStates:
    """The counters of one run, compared with the limits of its plan. Evidence is put into words only on request."""

    def __init__(
        self, plan: Plan, report: Report, *, exit_code: int | None, signal_number: int | None, reported: Any
    ) -> None:
        """``report`` is the warden's; only figures of it are kept. ``reported`` is the agent's count of operations."""
        self._plan = plan
        counters = {name: getattr(report, name) for name in _COUNTERS}
        counters |= {"exit_code": exit_code, "signal": signal_number, "operations": reported}
        self._counters: _Counters = counters

    def is_met(self, limit: Guarantee) -> bool:
        """Return whether the run is known to have met ``limit``; ``False`` if the plan sets no such limit."""
        counted = _counted(self._plan).get(limit)
        return counted is not None and self._read(limit, *counted)[0] is Met.MET

    def all(self) -> Mapping[Guarantee, LimitState]:
        """Return the state of each limit of the plan."""
        states = dict(_asked(self._plan))
        for limit, (figure, reader) in _counted(self._plan).items():
            state, evidence = self._read(limit, figure, reader)
            states[limit] = LimitState(state, evidence())
        return FrozenDict(states)

    def soft_memory(self) -> LimitState | None:
        """Return the state of the soft limit on memory, which ends nothing; ``None`` if the policy sets none.

        The kernel's peak includes pages of files. So a peak below the figure proves that the limit was not passed, but
        a peak above it proves nothing.
        """
        soft = self._plan.policy.limits.soft
        if soft is None:
            return None
        seen, peak = self._counters["past_soft_memory"], self._counters["peak_memory"]
        counted = self._counters["oom_kills"] is not None
        figure = format_size(soft)
        if seen is not None:
            return LimitState(Met.MET, f"seen at {format_size(seen)}, past {figure}")
        if self.is_met(Guarantee.MEMORY):
            return LimitState(Met.MET, f"memory met its own limit, which is above {figure}")
        if counted and peak is not None and peak < soft:
            return LimitState(Met.NOT_MET, f"cgroup peak {format_size(peak)} of {figure}")
        return LimitState(Met.UNKNOWN, f"not seen past {figure} in samples every 20 ms; peak {format_size(peak or 0)}")

    def _read(self, limit: Guarantee, figure: float, reader: _Reader) -> _Reading:
        if limit is Guarantee.OPERATIONS and self._plan.enforcement[limit].strength is Strength.ABSENT:
            note = self._plan.enforcement[limit].note
            return Met.UNKNOWN, lambda: note  # whatever the guest reports
        state, evidence = reader(self._counters, figure)
        return Met.MET if self._counters["cause"] == limit else state, evidence


@lru_cache(maxsize=64)
def _asked(plan: Plan) -> Mapping[Guarantee, LimitState]:
    """Return the limits that ``plan`` sets, each with the state *unknown*."""
    figure = plan.policy.limits.figure
    return {limit: _NO_COUNTER for limit in LIMITS if figure(limit) is not None}


@lru_cache(maxsize=64)
def _counted(plan: Plan) -> Mapping[Guarantee, tuple[float, _Reader]]:
    """Return the limits of ``plan`` that have a counter, each with its figure and the reader of the counter."""
    figures = ((limit, plan.policy.limits.figure(limit), reader) for limit, reader in _READERS.items())
    return {limit: (figure, reader) for limit, figure, reader in figures if figure is not None}


def _met(yes: bool) -> Met:
    return Met.MET if yes else Met.NOT_MET


def _cpu_time(counters: _Counters, figure: float) -> _Reading:
    source, used = counters["cpu_source"], counters["cpu_seconds"]
    # Any process can send itself SIGXCPU, so the signal counts only if the time is spent (to rusage's precision).
    signalled = counters["signal"] == signal.SIGXCPU and used >= _SIGNALLED * figure
    return _met(
        signalled or used >= figure
    ), lambda: f"{'RLIMIT_CPU: SIGXCPU; ' if signalled else ''}{source}: {used:.3f} s of {figure:g} s"


def _wall_time(counters: _Counters, figure: float) -> _Reading:
    used = counters["wall_seconds"]
    return _met(used >= figure), lambda: f"timer: {used:.3f} s of {figure:g} s"


def _memory(counters: _Counters, figure: float) -> _Reading:
    kills, peak = counters["oom_kills"], counters["peak_memory"] or 0
    if counters["locks"] >= locks.MOST:
        return Met.MET, lambda: f"{locks.MOST} locks on files, the most that are allowed; no control group counts them"
    if kills is None:
        if_read = f"sampled peak {format_size(peak)} of {format_size(figure)}; RLIMIT_DATA leaves no counter"
        shown = "not read" if counters["peak_memory"] is None else if_read
        return Met.MET if peak >= figure else Met.UNKNOWN, lambda: shown
    sockets = counters["peak_sockets"]
    shown = f"cgroup oom_kill {kills}, peak {format_size(peak)}"
    if kills:
        return Met.MET, lambda: shown
    if sockets is None:
        return Met.UNKNOWN, lambda: f"{shown}; no control group counts socket buffers here"
    if sockets:
        shown += f", socket buffers {format_size(sockets)}"
    if peak + sockets + _BATCH < figure:
        return Met.NOT_MET, lambda: shown
    return Met.UNKNOWN, lambda: f"{shown}: the kernel freed pages of files, or refused memory of its own"


def _processes(counters: _Counters, _figure: float) -> _Reading:
    refused = counters["forks_refused"]
    if refused is None:
        return Met.UNKNOWN, lambda: "RLIMIT_NPROC leaves no counter"
    return _met(refused > 0), lambda: f"cgroup pids.events max {refused}"


def _output(counters: _Counters, figure: float) -> _Reading:
    most = max(counters["output"])
    return _met(most > figure), lambda: f"{most} bytes on one stream, {figure:.0f} kept"


def _disk(counters: _Counters, _figure: float) -> _Reading:
    free, inodes = counters["disk_free"], counters["inodes_free"]
    if free is None:
        return Met.UNKNOWN, lambda: "not read: the run was killed"
    state = Met.MET if free == 0 or inodes == 0 else Met.UNKNOWN
    return (
        state,
        lambda: f"tmpfs at the end: {free} bytes and {inodes} inodes free; files deleted before that do not show",
    )


def _file_size(counters: _Counters, _figure: float) -> _Reading:
    if counters["signal"] == signal.SIGXFSZ:
        return Met.MET, lambda: "ended by SIGXFSZ"  # the sender of the signal is unknown: waitid(2)
    return Met.UNKNOWN, lambda: _NO_COUNTER.evidence


def _operations(counters: _Counters, figure: float) -> _Reading:
    """Judge the agent's count, which is the guest's own claim.

    The claim counts only if nothing else ended the run, and only with the agent's own exit status. So a guest can use
    it to end itself, as it could by counting on, but it hides nothing that was read outside.
    """
    count = counters["operations"]
    if not isinstance(count, int) or isinstance(count, bool):
        return Met.UNKNOWN, lambda: "the agent reported nothing"
    ended_by_agent = counters["cause"] is None and counters["exit_code"] == EXHAUSTED
    shown = max(0, min(count, int(figure)))
    return _met(ended_by_agent and count >= figure), lambda: f"agent: {shown} of {figure:.0f} operations"


_READERS: Mapping[Guarantee, _Reader] = {
    Guarantee.CPU_TIME: _cpu_time,
    Guarantee.WALL_TIME: _wall_time,
    Guarantee.MEMORY: _memory,
    Guarantee.PROCESSES: _processes,
    Guarantee.OUTPUT: _output,
    Guarantee.DISK: _disk,
    Guarantee.FILE_SIZE: _file_size,
    Guarantee.OPERATIONS: _operations,
}
