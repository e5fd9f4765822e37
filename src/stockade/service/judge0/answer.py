"""A submission as clients read it."""

from __future__ import annotations

import json
import signal
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Outcome, Result
from stockade.service.database import FINISHED, LEASED, Row
from stockade.service.errors import Refused
from stockade.service.judge0.facts import LANGUAGES, STATUSES
from stockade.service.judge0.submission import CONTENTS, Submission

_DEFAULT = ("token", "time", "memory", "stdout", "stderr", "compile_output", "message", "status", "stockade")
_OWN = (
    "token", "status", "status_id", "language", "time", "wall_time", "memory", "stdout", "stderr", "compile_output",
    "message", "exit_code", "exit_signal", "created_at", "finished_at",
)  # fmt: skip
_ALL = tuple(name for name in (*Submission.model_fields, *_OWN) if name != "additional_files")
"""The fields of Judge0 1.13.1: its official client fails at any further one."""
_FIELDS = (*_ALL, "additional_files", "started_at", "stockade")
_PROCESSING, _ACCEPTED, _WRONG, _TIME, _NON_ZERO, _OTHER, _INTERNAL = 2, 3, 4, 5, 11, 12, 13
_BY_SIGNAL: dict[int, int] = {signal.SIGSEGV: 7, signal.SIGXFSZ: 8, signal.SIGFPE: 9, signal.SIGABRT: 10}
_BY_LIMIT = {Guarantee.CPU_TIME: _TIME, Guarantee.WALL_TIME: _TIME, Guarantee.FILE_SIZE: 8}


class NotText(Exception):
    """A content is not UTF-8, so it can be shown as base64 only."""


def wanted(fields: str | None) -> Sequence[str]:
    """Return the fields that a request names. Raises ``Refused`` for unknown ones."""
    names = [name for each in (fields or "").split(",") if (name := each.strip())]
    names = [each for name in names for each in (_ALL if name == "*" else (name,))]
    if unknown := [name[:40] for name in names if name not in _FIELDS]:
        raise Refused(400, "RequestError", f"invalid fields: [{', '.join(map(ascii, unknown))}]")
    return names or _DEFAULT


def token(run: str) -> str:
    """Return the token of a run: its id, in the form of a UUID."""
    return str(UUID(run.removeprefix("run_")))


def run(of: str) -> str | None:
    """Return the id of the run with this token."""
    try:
        return f"run_{UUID(of).hex}"
    except ValueError:
        return None


def shown(row: Row, fields: Sequence[str], encoded: bool) -> dict[str, Any]:
    """Return these fields of a submission. Raises ``NotText``."""
    asked: dict[str, Any] = json.loads(row.asked)
    result = Result.from_dict(json.loads(row.result)) if row.state == FINISHED else None
    contents: dict[str, bytes | None] = {name: _decoded(asked.pop(name, None)) for name in CONTENTS}
    contents |= dict.fromkeys(("stdout", "stderr", "message", "compile_output"))
    if result is None:
        status, rest = _PROCESSING if row.state == LEASED else 1, {}
    else:
        status, rest = _status(result, contents["expected_output"]), _usage(result)
        contents |= _written(result)
    own = {
        "token": token(row.id),
        "status": {"id": status, "description": STATUSES[status]},
        "status_id": status,
        "language": LANGUAGES[asked["language_id"]].brief(),
        "created_at": _time(row.created),
        "started_at": _time(row.started),
        "finished_at": _time(row.finished),
    }
    texts = {name: _text(contents[name], encoded) for name in contents if name in fields}
    known = asked | own | rest | texts
    return {name: known.get(name) for name in fields}


def _status(result: Result, expected: bytes | None) -> int:
    if result.outcome is Outcome.COMPLETED:
        right = expected is None or (not result.stdout_truncated and _same(result.stdout_bytes, expected))
        return _ACCEPTED if right else _WRONG
    if result.outcome is Outcome.LIMIT_EXCEEDED and result.limit is not None:
        return _BY_LIMIT.get(result.limit, _OTHER)
    if result.outcome is Outcome.FAILED:
        return _NON_ZERO
    if result.outcome is Outcome.CRASHED:
        return _BY_SIGNAL.get(result.signal or 0, _OTHER)
    return _INTERNAL


def _same(one: bytes, other: bytes) -> bool:
    """Compare two outputs without white space at the end of each line, and of the whole."""
    return _stripped(one) == _stripped(other)


def _stripped(text: bytes) -> bytes:
    return b"\n".join(line.rstrip() for line in text.split(b"\n")).rstrip()


def _usage(result: Result) -> dict[str, Any]:
    usage = result.usage
    return {
        "time": f"{usage.cpu_seconds:.3f}",
        "wall_time": f"{usage.wall_seconds:.3f}",
        "memory": None if usage.peak_memory is None else usage.peak_memory // 1024,
        "exit_code": result.exit_code,
        "exit_signal": result.signal,
        "stockade": {"outcome": result.outcome.value, "limit": result.limit},
    }


def _written(result: Result) -> dict[str, bytes | None]:
    stdout = result.stdout.encode() if result.stdout_truncated else result.stdout_bytes
    stderr = result.stderr.encode() if result.stderr_truncated else result.stderr_bytes
    return {"stdout": stdout or None, "stderr": stderr or None, "message": _message(result)}


def _message(result: Result) -> bytes | None:
    if result.outcome is not Outcome.COMPLETED:
        return result.summary().encode("utf-8", "replace")
    omitted = result.stdout_omitted
    return f"{omitted} bytes of standard output are left out, past the limit".encode() if omitted else None


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _text(content: bytes | None, encoded: bool) -> str | None:
    if content is None:
        return None
    if encoded:
        return b64encode(content).decode()
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise NotText from None


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
