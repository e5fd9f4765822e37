"""The kill switch over HTTP: the same file that ``stockade kill`` writes."""

from __future__ import annotations

import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stockade.core.errors import JobError
from stockade.observe import switch

_MOST_CHARACTERS = 1 << 14


class KillRequest(BaseModel):
    """Which runs to end: at least one of the fields."""

    model_config = ConfigDict(extra="forbid", strict=True)
    all: bool = Field(False, description="every run of the service's account on this machine, whoever started it")
    keys: list[str] = Field([], max_length=100, description="names of keys: all their runs")
    labels: dict[str, str] = Field({}, description="runs with one of these labels; run=ID is one run")
    sandboxes: list[str] = Field([], max_length=100, description="ids of living sandboxes")
    since: float | None = Field(None, ge=0, le=1e9, description="runs that began in the last so many seconds")
    reason: str | None = Field(None, max_length=200, description="a comment for those who look at the switch")


class Switch(BaseModel):
    """The kill switch as it is."""

    on: bool
    file: str
    lines: list[str]


class Order(BaseModel):
    """An order of the front to the parent, which alone reaches the file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    do: Literal["show", "add", "lift"]
    runs: KillRequest = KillRequest()


def lines_of(request: KillRequest) -> list[str]:
    """Return the lines for a request. Raises ``JobError`` for one that names no run."""
    labels = [("key", name) for name in request.keys] + [*request.labels.items()]
    since = None if request.since is None else time.time() - request.since
    lines = switch.lines_for(everything=request.all, labels=labels, sandboxes=request.sandboxes, since=since)
    if not lines:
        raise JobError("kill: give all, keys, labels, sandboxes or since")
    if sum(map(len, lines)) > _MOST_CHARACTERS:
        raise JobError(f"kill: the names have more than {_MOST_CHARACTERS} characters; name fewer runs")
    return lines


def used(text: str) -> dict[str, Any]:
    """Do what an order says, and return the switch as it is then. Raises ``JobError``."""
    order = Order.model_validate_json(text)
    if order.do == "add":
        switch.add(lines_of(order.runs), order.runs.reason)
    elif order.do == "lift":
        switch.lift()
    lines = switch.lines()
    return Switch(on=bool(lines), file=str(switch.path()), lines=lines).model_dump()
