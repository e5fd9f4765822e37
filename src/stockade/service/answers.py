"""A run as the API shows it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from stockade.core.strict_json import dumps
from stockade.runs.result import Result
from stockade.service.database import FINISHED, LEASED, Row

Shape = Literal["text", "full"]


class Run(BaseModel):
    """A run, and its result if it has ended."""

    id: str
    state: Literal["queued", "running", "finished"]
    batch: str | None = Field(description="the batch that it came with")
    labels: dict[str, str]
    created_at: str = Field(description="RFC 3339, UTC")
    started_at: str | None
    finished_at: str | None
    attempts: int = Field(description="how often a worker began the run")
    cancelled: bool = Field(description="whether its owner cancelled it; the result then follows")
    outcome: str | None = Field(description="completed, failed, crashed, limit_exceeded, cancelled or sandbox_failed")
    result: dict[str, Any] | None = Field(
        description="format=text: as 'stockade run --json' prints it; format=full: all fields, bytes as base64"
    )


class Runs(BaseModel):
    """A page of runs, without their results."""

    runs: list[Run]
    next: int | None = Field(description="pass it as 'before' for the next page; null on the last one")


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    message: str


_OF_EVERY_REQUEST = (400, 401, 408, 413, 422, 503)
"""Refusals of the gate, and of a request that is not as the schema says."""


def refusals(*more: int, own: Any = None) -> dict[int | str, dict[str, Any]]:
    """Return how the schema describes refusals: those that every request may get, and ``more``.

    ``own`` is the type of an emulated API's own refusals, which then may come with the same status.
    """
    model = Problem if own is None else Problem | own
    return {status: {"model": model} for status in sorted({*_OF_EVERY_REQUEST, *more})}


def shown(row: Row, shape: Shape = "text") -> str:
    """Return a run as JSON, with its result if ``row`` has it."""
    text = getattr(row, "result", None)
    if text is not None and shape == "text":
        text = dumps(Result.from_dict(json.loads(text)).as_json(), compact=True)
    return f'{dumps(_fields(row), compact=True)[:-1]},"result":{text or "null"}}}'


def page(rows: list[Row], most: int) -> str:
    """Return a page of runs as JSON."""
    following = rows[-1].number if len(rows) == most else None
    return f'{{"runs":[{",".join(map(shown, rows))}],"next":{dumps(following)}}}'


def _fields(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": "running" if row.state == LEASED else row.state,
        "batch": row.batch,
        "labels": json.loads(row.labels),
        "created_at": moment(row.created),
        "started_at": moment(row.started),
        "finished_at": moment(row.finished) if row.state == FINISHED else None,
        "attempts": row.attempts,
        "cancelled": row.cancelled,
        "outcome": row.outcome,
    }


def moment(seconds: float | None) -> str | None:
    """Return a time of the system clock as RFC 3339 in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
