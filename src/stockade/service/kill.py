"""The kill switch over HTTP: the same file that ``stockade kill`` writes."""

from __future__ import annotations

import time

from pydantic import BaseModel, ConfigDict, Field

from stockade.core.errors import JobError
from stockade.observe import switch


class KillRequest(BaseModel):
    """Which runs to end: at least one of the fields."""

    model_config = ConfigDict(extra="forbid", strict=True)
    all: bool = Field(False, description="every run of the service's account on this machine, whoever started it")
    keys: list[str] = Field([], max_length=100, description="names of keys: all their runs")
    labels: dict[str, str] = Field({}, description="runs with one of these labels; run=ID is one run")
    since: float | None = Field(None, ge=0, le=1e9, description="runs that began in the last so many seconds")
    reason: str | None = Field(None, max_length=200, description="a comment for those who look at the switch")


class Switch(BaseModel):
    """The kill switch as it is."""

    on: bool
    file: str
    lines: list[str]


def show() -> Switch:
    """Return the switch."""
    lines = switch.lines()
    return Switch(on=bool(lines), file=str(switch.path()), lines=lines)


def switch_on(request: KillRequest) -> Switch:
    """Add lines to the switch. Raises ``JobError`` for a request that names no run."""
    labels = [("key", name) for name in request.keys] + [*request.labels.items()]
    since = None if request.since is None else time.time() - request.since
    added = switch.lines_for(everything=request.all, labels=labels, since=since)
    if not added:
        raise JobError("kill: give all, keys, labels or since")
    switch.add(added, request.reason)
    return show()


def lift() -> Switch:
    """Remove the switch."""
    switch.lift()
    return show()
