"""The verdict: pure functions that compute outcome and limits from the readings of kernel and warden.

What the guest reports about itself is bounded, parsed with care and passed on. It decides nothing.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

from stockade.core import strict_json
from stockade.core.frozen import FrozenDict
from stockade.core.report import Report
from stockade.core.units import format_size
from stockade.linux.kill_switch import ENDED
from stockade.planning.denial import Denial
from stockade.planning.plan import Plan
from stockade.policy.guarantees import LIMITS, Enforcement, Guarantee
from stockade.runs import network_account
from stockade.runs.limit_states import LimitStates
from stockade.runs.result import GuestError, Outcome, Result, Usage, deferring

_MOST_WORDS = 8
_RAW_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 1000
"""The most levels of brackets that are parsed. A caller may have set a recursion limit that its stack does not hold."""
_DEEPEST_VALUE = 100
"""The most levels of a value that is kept, so that copies, pickles and JSON of a result can handle it."""
_SHARED = (
    "a copy of an interpreter that is kept warm: other runs of this kind have the same hash seed, address layout and "
    "imported modules"
)
_ENDING = (Guarantee.MEMORY, Guarantee.CPU_TIME, Guarantee.WALL_TIME, Guarantee.OPERATIONS)
KILL_SWITCH = "kill_switch"
_PENDING = "pending: the only process was killed before the answer, and is reaped after it"


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
    """Return the result of a run that was cancelled before it began."""
    return Result(Outcome.CANCELLED, backend=plan.backend, enforcement=plan.enforcement, **streams)


def verdict(plan: Plan, report: Report, stdout: bytes, stderr: bytes, denials: tuple[Denial, ...] = ()) -> Result:
    """Return the result. ``stdout`` and ``stderr`` are the heads that were kept; the tails are in the report."""
    streams = _streams(report, stdout, stderr)
    failure = report.failure
    cause = report.cause
    if report.oom_outside and cause not in ("cancelled", "caller_gone"):
        return sandbox_failed(plan, _starved(plan, report), **streams)
    unstarted = cause == "setup" or (failure and failure.kind != "exec") or not report.started
    if unstarted and cause != "cancelled" and not report.oom_kills:
        known = ENDED if cause == KILL_SWITCH else "ended before the program began"
        return sandbox_failed(plan, failure.message if failure else known, **streams)
    reported = reported_fields(report)
    exit_code, signal_number = _status(report.status)
    states = LimitStates(
        plan, report, exit_code=exit_code, signal_number=signal_number, reported=reported.get("operations")
    )
    limit = _ended_by(states, cause, signal_number, plan)
    value_repr, error = reported.get("repr"), _guest_error(reported.get("error"))
    if failure and failure.kind == "exec":
        error = GuestError("CommandNotFound" if exit_code == 127 else "NotExecutable", failure.message)
    if cause == KILL_SWITCH:
        error = GuestError("KillSwitch", ENDED)
    network = network_account.read(report.proxy, report.proxy_trouble)
    return deferring(
        states.all,
        outcome=_outcome(cause, limit, exit_code),
        exit_code=exit_code,
        signal=signal_number,
        limit=limit,
        soft_memory=states.soft_memory(),
        value=reported.get("value"),
        value_repr=value_repr if isinstance(value_repr, str) else None,
        error=error,
        usage=Usage(
            cpu_seconds=report.cpu_seconds,
            wall_seconds=report.wall_seconds,
            peak_memory=report.peak_memory,
            processes=report.peak_processes,
            output=sum(report.output),
            **network_account.counted(network),
        ),
        backend=plan.backend,
        enforcement=_while_reaped(plan) if report.pending else plan.enforcement,
        network=network,
        **_beginning(report),
        denials=denials,
        denials_truncated=report.denials_truncated,
        **streams,
    )


def _beginning(report: Report) -> dict[str, str]:
    """Return what was ready before the run, and what it shares with others."""
    start = "warm" if report.warm else "prewarmed" if report.prewarmed else "cold"
    return {"start": start, "shared": _SHARED if report.warm else "", "cold": report.cold}


@lru_cache(maxsize=64)
def _while_reaped(plan: Plan) -> Mapping[Guarantee, Enforcement]:
    """Return the receipt of a run whose answer was sent after its only process was killed, but before it was reaped."""
    held = plan.enforcement[Guarantee.NO_SURVIVORS]
    return FrozenDict({**plan.enforcement, Guarantee.NO_SURVIVORS: replace(held, note=_PENDING)})


def _starved(plan: Plan, report: Report) -> str:
    limit = plan.policy.limits.figure(Guarantee.MEMORY)
    peak = format_size(report.peak_memory or 0)
    own = f"its peak was {peak} of its own limit of {format_size(limit)}" if limit else f"its peak was {peak}"
    return (
        f"the kernel killed a process of the run because memory ran short outside of the sandbox: {own}; give the "
        f"control group of the calling process, or the host, more memory, or run less at a time"
    )


def _outcome(cause: str | None, limit: Guarantee | None, exit_code: int | None) -> Outcome:
    if limit is not None:
        return Outcome.LIMIT_EXCEEDED
    if cause in ("cancelled", "caller_gone", "idle", KILL_SWITCH):
        return Outcome.CANCELLED
    if exit_code is None:
        return Outcome.CRASHED
    return Outcome.COMPLETED if exit_code == 0 else Outcome.FAILED


def _ended_by(states: LimitStates, cause: str | None, signal_number: int | None, plan: Plan) -> Guarantee | None:
    """Return the limit that ended the run, or that no program outlives. The guest cannot hide such a limit."""
    if cause in LIMITS:
        return Guarantee(cause)
    for limit in _ENDING:
        if states.is_met(limit):
            return limit
    if signal_number == signal.SIGXFSZ and plan.policy.asks(Guarantee.FILE_SIZE):
        return Guarantee.FILE_SIZE
    return None


def _status(status: int | None) -> tuple[int | None, int | None]:
    if status is None:  # init was killed together with its namespace
        return None, int(signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


def _streams(report: Report, stdout: bytes, stderr: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, head, tail, count in zip(
        ("stdout", "stderr"), (stdout, stderr), report.tails, report.output, strict=True
    ):
        fields[f"{name}_bytes"] = head + tail
        fields[f"{name}_head"] = len(head)
        fields[f"{name}_omitted"] = max(0, count - len(head) - len(tail))
    return fields


def reported_fields(report: Report) -> dict[str, Any]:
    """Parse the result channel: untrusted, at most a mebibyte, one object on each line. Malformed lines are dropped."""
    everything: dict[str, Any] = {}
    if report.channel_overflow:
        return everything
    for line in filter(None, report.channel.split(b"\n", _MOST_WORDS)):
        if _nests_deeper(line, _DEEPEST):
            continue
        try:
            reported = _decoded(_RAW_SURROGATE.sub(_escaped, line.decode("utf-8", "surrogatepass")))
        except (ValueError, RecursionError):
            continue
        if isinstance(reported, dict):
            if isinstance(reported.get("value"), float | list | dict) and not _is_plain(reported["value"]):
                del reported["value"]
            everything |= reported
    return everything


def _escaped(surrogate: re.Match[str]) -> str:
    """Return half of a surrogate pair as a JSON escape. The parser then joins two halves, as JSON readers do."""
    return f"\\u{ord(surrogate[0]):04x}"


def _decoded(text: str) -> Any:
    """Return the JSON value of ``text``. Numbers that are invalid or too long become infinite."""
    try:
        return _WORDS.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return _ODD_WORDS.decode(text)


def _is_plain(value: Any) -> bool:
    """Return whether strict JSON can hold ``value``, and its nesting is within bounds."""
    level = [value]
    for _ in range(_DEEPEST_VALUE + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            break
    else:
        return False
    try:
        strict_json.dumps(value)
    except ValueError:
        return False
    return True


def _whole_number(text: str) -> float:
    try:
        return int(text)
    except ValueError:  # more digits than the interpreter parses
        return math.inf


def _nests_deeper(line: bytes, most: int) -> bool:
    if line.count(b"[") + line.count(b"{") <= most:
        return False
    unquoted = b"".join(
        line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    )  # without the contents of strings
    steps = ((byte in b"[{") - (byte in b"]}") for byte in unquoted)
    return max(accumulate(steps), default=0) > most


def _guest_error(reported: Any) -> GuestError | None:
    if not isinstance(reported, dict):
        return None
    kind, message, traceback = (reported.get(key) for key in ("type", "message", "traceback"))
    if not (isinstance(kind, str) and isinstance(message, str) and isinstance(traceback, str)):
        return None
    return GuestError(kind, message, traceback)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_WORDS = json.JSONDecoder(parse_constant=_refuse_constant)
_ODD_WORDS = json.JSONDecoder(parse_constant=lambda _: math.inf, parse_int=_whole_number)
