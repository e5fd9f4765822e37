"""Errors of a call in a sandbox as answers."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from stockade.api.sessions.files import FileRefused
from stockade.api.sessions.link import SessionEnded
from stockade.api.snapshots.stream import SnapshotRefused
from stockade.core.errors import BackendUnavailable, JobError, PlanError, PolicyError, SandboxClosed, StockadeError
from stockade.service.errors import Refused
from stockade.service.living.channel import TooLongError
from stockade.service.living.requests import Answer, compact

_NOT_HERE = 501
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (JobError, 422),
    (PolicyError, 422),
    (SandboxClosed, 410),
    (SessionEnded, 409),
    (FileRefused, 409),
    (SnapshotRefused, 409),
    (PlanError, _NOT_HERE),
    (BackendUnavailable, _NOT_HERE),
    (StockadeError, 503),
    (FileNotFoundError, 404),
    (TimeoutError, 504),
    (PermissionError, 403),
    (OSError, 409),
    (TooLongError, 409),
    (RecursionError, 409),
)
"""The status of each kind of error; the first that fits."""
EXPECTED: tuple[type[Exception], ...] = (Refused, ValidationError, DBAPIError, *(kind for kind, _ in _STATUSES))


def answered(error: Exception) -> tuple[Answer, bytes]:
    """Return the answer for an error, one of ``EXPECTED``."""
    if isinstance(error, Refused):
        return _problem(error.status, {"error": error.error, "message": str(error)}, error.retry)
    if isinstance(error, ValidationError):
        return _problem(422, {"error": "RequestError", "message": str(error)})
    if isinstance(error, DBAPIError):
        message = f"the service's database cannot be used now: {error.orig}"
        return _problem(503, {"error": "DatabaseError", "message": message}, 5)
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    if isinstance(error, RecursionError):
        return _problem(status, {"error": "AnswerRefused", "message": "the displays are nested too deeply for JSON"})
    if isinstance(error, StockadeError):
        return _problem(status, error.as_json())
    name = errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
    path = error.filename if isinstance(error, OSError) else None
    return _problem(status, {"error": type(error).__name__, "message": str(error), "errno": name, "path": path})


def _problem(status: int, body: Mapping[str, Any], retry: int | None = None) -> tuple[Answer, bytes]:
    return Answer(status=status, retry=retry), compact(dict(body))
