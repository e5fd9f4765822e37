"""The verdict: outcome and limits met, from what the kernel and the supervisor have read. Pure functions.

What the guest says about itself is carried along, bounded and parsed with care, and decides nothing.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

from stockade._frozen import FrozenDict
from stockade._guarantees import LIMITS, Enforcement, Guarantee, Strength
from stockade._plan import Plan
from stockade._result import Denial, GuestError, LimitState, Met, Outcome, Result, Usage
from stockade._units import format_size

_Report = Mapping[str, Any]
_Reader = Callable[[_Report, float], tuple[Met, str]]
_SIGNALLED = 0.95
EXHAUSTED = 122
"""The exit status with which an agent ends a process that has used up its operations."""
_MOST_WORDS = 8
_DEEPEST = 1000
"""Brackets within brackets that are followed: a caller may have set its recursion limit past what its stack holds."""
_SHARED = (
    "a copy of an interpreter that is kept warm: hash seed, address layout and the modules that it had imported are "
    "those of other runs of this kind"
)
_PENDING = "pending: its only process was killed before the answer, and is reaped behind it"
_NO_COUNTER = LimitState(Met.UNKNOWN, "the kernel's refusal leaves no counter")


def sandbox_failed(plan: Plan, message: str, **streams: Any) -> Result:
    """Return the result of a run whose sandbox failed."""
    return Result(
        Outcome.SANDBOX_FAILED,
        error=GuestError("SetupError", message),
        backend=plan.backend,
        enforcement=plan.enforcement,
        **streams,
    )


def cancelled(plan: Plan, **streams: Any) -> Result:
    """Return the result of a run that was called off before it began."""
    return Result(Outcome.CANCELLED, backend=plan.backend, enforcement=plan.enforcement, **streams)


def verdict(plan: Plan, report: _Report, stdout: bytes, stderr: bytes, denials: tuple[Denial, ...] = ()) -> Result:
    """Return the result. ``stdout`` and ``stderr`` are the heads that were kept; the tails are in the report."""
    streams = _streams(report, stdout, stderr)
    failure = report["failure"]
    cause = report["cause"]
    unstarted = cause == "setup" or (failure and failure["kind"] != "exec") or not report["started"]
    if unstarted and cause != "cancelled" and not report["oom_kills"]:
        return sandbox_failed(plan, failure["message"] if failure else "ended before the program began", **streams)
    read = {limit: _limit_state(limit, figure, reader, report, plan) for limit, figure, reader in _counted(plan)}
    met = FrozenDict({**_asked(plan), **read})
    exit_code, signal_number = _status(report["status"])
    limit = _ended_by(met, cause, signal_number, plan)
    value, value_repr, error = _said(report)
    if failure and failure["kind"] == "exec":
        error = GuestError("CommandNotFound" if exit_code == 127 else "NotExecutable", failure["message"])
    return Result(
        outcome=_outcome(cause, limit, exit_code),
        exit_code=exit_code,
        signal=signal_number,
        limit=limit,
        limits_met=met,
        soft_memory=_soft_memory(plan.policy.limits.soft, report, met.get(Guarantee.MEMORY)),
        value=value,
        value_repr=value_repr,
        error=error,
        usage=Usage(
            cpu_seconds=report["cpu_seconds"],
            wall_seconds=report["wall_seconds"],
            peak_memory=report["peak_memory"],
            processes=report["peak_processes"],
            output=sum(report["output"]),
        ),
        backend=plan.backend,
        enforcement=_while_reaped(plan) if report.get("pending") else plan.enforcement,
        shared=_SHARED if report.get("warm") else "",
        denials=denials,
        denials_truncated=report["denials_truncated"],
        **streams,
    )


@lru_cache(maxsize=64)
def _while_reaped(plan: Plan) -> Mapping[Guarantee, Enforcement]:
    """Return the receipt of a run that was answered when its only process was killed, and not reaped yet."""
    held = plan.enforcement[Guarantee.NO_SURVIVORS]
    return FrozenDict({**plan.enforcement, Guarantee.NO_SURVIVORS: replace(held, note=_PENDING)})


def _outcome(cause: str | None, limit: Guarantee | None, exit_code: int | None) -> Outcome:
    if limit is not None:
        return Outcome.LIMIT_EXCEEDED
    if cause in ("cancelled", "caller_gone"):
        return Outcome.CANCELLED
    if exit_code is None:
        return Outcome.CRASHED
    return Outcome.COMPLETED if exit_code == 0 else Outcome.FAILED


def _ended_by(
    met: Mapping[Guarantee, LimitState], cause: str | None, signal_number: int | None, plan: Plan
) -> Guarantee | None:
    """Return the limit that ended the run, or that no program may outlive: the guest cannot deny it."""
    if cause in LIMITS:
        return Guarantee(cause)
    for limit in (Guarantee.MEMORY, Guarantee.CPU_TIME, Guarantee.WALL_TIME):
        if limit in met and met[limit].state is Met.MET:
            return limit
    if Guarantee.OPERATIONS in met and met[Guarantee.OPERATIONS].state is Met.MET:
        return Guarantee.OPERATIONS
    if signal_number == signal.SIGXFSZ and plan.policy.asks(Guarantee.FILE_SIZE):
        return Guarantee.FILE_SIZE
    return None


def _status(status: int | None) -> tuple[int | None, int | None]:
    if status is None:  # the init was killed with its namespace
        return None, int(signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


@lru_cache(maxsize=64)
def _asked(plan: Plan) -> Mapping[Guarantee, LimitState]:
    """Return the limits that ``plan`` sets, each as nobody knows of it."""
    figure = plan.policy.limits.figure
    return {limit: _NO_COUNTER for limit in LIMITS if figure(limit) is not None}


@lru_cache(maxsize=64)
def _counted(plan: Plan) -> tuple[tuple[Guarantee, float, _Reader], ...]:
    """Return those of them that something tells of, with their figures."""
    figures = ((limit, plan.policy.limits.figure(limit), reader) for limit, reader in _READERS.items())
    return tuple((limit, figure, reader) for limit, figure, reader in figures if figure is not None)


def _limit_state(limit: Guarantee, figure: float, reader: _Reader, report: _Report, plan: Plan) -> LimitState:
    if limit is Guarantee.OPERATIONS and plan.enforcement[limit].strength is Strength.ABSENT:
        return LimitState(Met.UNKNOWN, plan.enforcement[limit].note)  # whatever the guest says of it
    state, evidence = reader(report, figure)
    if report["cause"] == limit:
        state = Met.MET
    return LimitState(state, evidence)


def _compared(used: float, figure: float, evidence: str) -> tuple[Met, str]:
    return (Met.MET if used >= figure else Met.NOT_MET), evidence


def _cpu_time(report: _Report, figure: float) -> tuple[Met, str]:
    evidence = f"{report['cpu_source']}: {report['cpu_seconds']:.3f} s of {figure:g} s"
    # Anyone may send himself SIGXCPU, so the signal counts only where the time is spent (to rusage's precision).
    if (
        report["status"] is not None
        and _status(report["status"])[1] == signal.SIGXCPU
        and report["cpu_seconds"] >= _SIGNALLED * figure
    ):
        return Met.MET, f"RLIMIT_CPU: SIGXCPU; {evidence}"
    return _compared(report["cpu_seconds"], figure, evidence)


def _wall_time(report: _Report, figure: float) -> tuple[Met, str]:
    used = report["wall_seconds"]
    return _compared(used, figure, f"timer: {used:.3f} s of {figure:g} s")


def _memory(report: _Report, figure: float) -> tuple[Met, str]:
    kills, peak = report["oom_kills"], report["peak_memory"]
    if kills is not None:
        return (Met.MET if kills else Met.NOT_MET), f"cgroup oom_kill {kills}, peak {format_size(peak or 0)}"
    sampled = f"sampled peak {format_size(peak or 0)} of {format_size(figure)}"
    return (Met.MET if (peak or 0) >= figure else Met.UNKNOWN), f"{sampled}; RLIMIT_DATA leaves no counter"


def _soft_memory(soft: int | None, report: _Report, hard: LimitState | None) -> LimitState | None:
    """Judge what is no guarantee: nothing ends at it. The kernel's peak proves that it was not passed, and no more:
    pages of files count in it."""
    if soft is None:
        return None
    seen, peak, counted = report["past_soft_memory"], report["peak_memory"], report["oom_kills"] is not None
    figure = format_size(soft)
    if seen is not None:
        return LimitState(Met.MET, f"seen at {format_size(seen)}, past {figure}")
    if hard is not None and hard.state is Met.MET:
        return LimitState(Met.MET, f"memory met its own limit, which is above {figure}")
    if counted and peak is not None and peak < soft:
        return LimitState(Met.NOT_MET, f"cgroup peak {format_size(peak)} of {figure}")
    return LimitState(Met.UNKNOWN, f"never seen past {figure}, looked at every 20 ms; peak {format_size(peak or 0)}")


def _processes(report: _Report, _figure: float) -> tuple[Met, str]:
    refused = report["forks_refused"]
    if refused is None:
        return Met.UNKNOWN, "RLIMIT_NPROC leaves no counter"
    return (Met.MET if refused else Met.NOT_MET), f"cgroup pids.events max {refused}"


def _output(report: _Report, figure: float) -> tuple[Met, str]:
    most = max(report["output"])
    return (Met.MET if most > figure else Met.NOT_MET), f"{most} bytes on one stream, {figure:.0f} kept"


def _disk(report: _Report, _figure: float) -> tuple[Met, str]:
    free, inodes = report["disk_free"], report["inodes_free"]
    if free is None:
        return Met.UNKNOWN, "not read: the run was killed"
    state = Met.MET if free == 0 or inodes == 0 else Met.UNKNOWN
    return state, f"tmpfs at the end: {free} bytes and {inodes} inodes free; what was deleted before is not seen"


def _file_size(report: _Report, _figure: float) -> tuple[Met, str]:
    if report["status"] is not None and _status(report["status"])[1] == signal.SIGXFSZ:
        return Met.MET, "ended by SIGXFSZ"  # sent by whom is not told: waitid(2)
    return Met.UNKNOWN, _NO_COUNTER.evidence


def _operations(report: _Report, figure: float) -> tuple[Met, str]:
    """The guest's own word, since its agent counts. It is taken only where nothing else ended the run, and only
    with the exit status that the agent gives: so a guest can end itself by it, as it could by counting on, and hide
    nothing that was read outside."""
    count = words(report).get("operations")
    if not isinstance(count, int) or isinstance(count, bool):
        return Met.UNKNOWN, "the agent said nothing"
    ended_by_agent = report["cause"] is None and _status(report["status"])[0] == EXHAUSTED
    evidence = f"agent: {max(0, min(count, int(figure)))} of {figure:.0f} lines and loop turns"
    return (Met.MET if ended_by_agent and count >= figure else Met.NOT_MET), evidence


_READERS = {
    Guarantee.CPU_TIME: _cpu_time,
    Guarantee.WALL_TIME: _wall_time,
    Guarantee.MEMORY: _memory,
    Guarantee.PROCESSES: _processes,
    Guarantee.OUTPUT: _output,
    Guarantee.DISK: _disk,
    Guarantee.FILE_SIZE: _file_size,
    Guarantee.OPERATIONS: _operations,
}


def _streams(report: _Report, stdout: bytes, stderr: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, head, tail, count in zip(
        ("stdout", "stderr"), (stdout, stderr), report["tails"], report["output"], strict=True
    ):
        fields[f"{name}_bytes"] = head + tail
        fields[f"{name}_head"] = len(head)
        fields[f"{name}_omitted"] = max(0, count - len(head) - len(tail))
    return fields


def _said(report: _Report) -> tuple[Any, str | None, GuestError | None]:
    said = words(report)
    value_repr = said.get("repr")
    return said.get("value"), value_repr if isinstance(value_repr, str) else None, _guest_error(said.get("error"))


def words(report: _Report) -> dict[str, Any]:
    """Parse what came over the result channel, an object a line: untrusted, at most a mebibyte, what is odd dropped."""
    all_said: dict[str, Any] = {}
    if report["channel_overflow"]:
        return all_said
    for line in filter(None, report["channel"].split(b"\n", _MOST_WORDS)):
        if _nests_deeper(line, _DEEPEST):
            continue
        try:
            said = _WORDS.decode(line.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            all_said |= said
    return all_said


def _nests_deeper(line: bytes, most: int) -> bool:
    if line.count(b"[") + line.count(b"{") <= most:
        return False
    bare = b"".join(line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])  # without what stands in strings
    steps = ((byte in b"[{") - (byte in b"]}") for byte in bare)
    return max(accumulate(steps), default=0) > most


def _guest_error(said: Any) -> GuestError | None:
    if not isinstance(said, dict):
        return None
    kind, message, traceback = (said.get(key) for key in ("type", "message", "traceback"))
    if not (isinstance(kind, str) and isinstance(message, str) and isinstance(traceback, str)):
        return None
    return GuestError(kind, message, traceback)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_WORDS = json.JSONDecoder(parse_constant=_refuse_constant)
