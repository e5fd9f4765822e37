"""The steps of following a run on a service, which both clients carry out."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from stockade.core.errors import JobError, StockadeError
from stockade.runs.events import Event, Finished
from stockade.runs.result import Result
from stockade.service.client_steps import (
    RETRIED,
    Ask,
    Follow,
    Line,
    Pause,
    Service,
    ServiceError,
    Steps,
    error_of,
    place_of,
    request_of,
)
from stockade.service.events import FINISHED, loaded

_QUIET_SECONDS = 60.0
"""The service sends something every 15 seconds."""
_END_SECONDS = 5.0


class StreamSteps:
    """A live run as its client knows it: its id, the event that came last, and the steps of each call."""

    def __init__(self, service: Service, what: dict[str, Any], options: Mapping[str, Any]) -> None:
        """Raises ``TypeError`` for an unknown option."""
        self._service, self._request = service, request_of(what, options) | {"live": True}
        self._found: Any = None
        self._result: Result | None = None
        self._lines: Any = None
        self._last = ""
        self._closed = False

    @property
    def result(self) -> Result:
        """The verdict. Raises ``JobError`` before the end of the run."""
        if self._result is None:
            raise JobError("the run has no result: it has not ended, or the stream was left before its end")
        return self._result

    def begin(self) -> Steps[None]:
        """Have the service accept the run."""
        if self._found is None:
            self._found = yield from self._service.followed("runs", "", self._request, _kept)

    def next(self) -> Steps[Event | None]:
        """Return the next event, and ``None`` after the last one."""
        if self._closed or self._result is not None:
            return None
        yield from self.begin()
        while True:
            name, data = yield from self._message()
            if name == FINISHED:
                self._result = yield from self._service.result(self._found)
                self.drop()
                return Finished(self._result)
            try:
                event = loaded(name, data)
            except (ValueError, TypeError, KeyError) as error:
                raise ServiceError(f"the service's event {name[:40]!r} makes no sense: {error}") from None
            if event is not None:
                return event

    def cancel(self) -> Steps[None]:
        """End the run; its events go on to the end."""
        yield from self.begin()
        yield Ask("DELETE", place_of("runs", self._found), seconds=_END_SECONDS)

    def close(self) -> Steps[None]:
        """End the run if it has not ended."""
        self.drop()
        if not self._closed and self._found is not None and self._result is None:
            self._closed = True
            with suppress(StockadeError, OSError, http.client.HTTPException):
                yield from self.cancel()
        self._closed = True

    def drop(self) -> None:
        """Close the connection of the events."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def _message(self) -> Steps[tuple[str, Any]]:
        """Return the name and the data of the next message. A lost connection is opened again, after the last one."""
        until, pause = None, 0.0
        while True:
            try:
                if self._lines is None:
                    path = f"{place_of('runs', self._found)}/events"
                    status, found, _ = yield Follow(path, {"Last-Event-ID": self._last}, _QUIET_SECONDS)
                    if status >= 400:
                        raise error_of(status, found)
                    self._lines = found
                return (yield from self._read())
            except (OSError, http.client.HTTPException) as error:
                problem: StockadeError = self._service.unreachable(error)
            except ServiceError as error:
                if error.status not in RETRIED:
                    raise
                problem = error
            except BaseException:
                self.drop()  # a wait that was cancelled may have taken a part of a message
                raise
            self.drop()
            until = until or time.monotonic() + self._service.patience
            if time.monotonic() + pause > until:
                raise problem
            yield Pause(pause)
            pause = min(2 * pause or 0.1, 5.0)

    def _read(self) -> Steps[tuple[str, Any]]:
        fields: dict[str, str] = {}
        while True:
            line = yield Line(self._lines, _QUIET_SECONDS)
            if not line.endswith(b"\n"):
                raise http.client.IncompleteRead(line)
            name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(": ")
            if name in ("id", "event", "data"):
                fields[name] = value
            elif not name and "data" in fields:
                break
        self._last = fields.get("id", "")
        try:
            return fields.get("event", ""), json.loads(fields["data"])
        except ValueError:
            raise ServiceError(f"{self._service.address}: an event is not JSON: {fields['data'][:80]!r}") from None


def _kept(found: Any) -> Steps[Any]:
    """Return the run that was accepted, without a wait for its result."""
    return found
    yield
