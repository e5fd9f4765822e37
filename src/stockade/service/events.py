"""Events of runs as server-sent events: one name and one JSON object for each kind of event."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from stockade.core.strict_json import dumps
from stockade.policy.guarantees import Guarantee
from stockade.runs.events import Event, LimitReached, Output, Started, UsageReport
from stockade.service.client_steps import content

TYPE = "text/event-stream"
STARTED, OUTPUT, USAGE, LIMIT, FINISHED = "started", "output", "usage", "limit", "finished"
QUIET = b": \n\n"
"""A comment, which shows that the connection lives."""


def dumped(event: Event) -> tuple[str, dict[str, Any]]:
    """Return the name and the data of an event that is not the last one."""
    match event:
        case Output():
            return OUTPUT, {"stream": event.stream, "at": event.at, "data": _text(event.data)}
        case UsageReport():
            return USAGE, asdict(event)
        case LimitReached():
            return LIMIT, asdict(event) | {"guarantee": event.guarantee.value}
    return STARTED, {}


def loaded(name: str, data: Mapping[str, Any]) -> Event | None:
    """Return the event of which ``dumped`` made this, and ``None`` for a name that is unknown.

    Raises ``ValueError``, ``TypeError`` or ``KeyError`` for data that makes no sense.
    """
    match name:
        case "started":
            return Started()
        case "output":
            return Output(data["stream"], int(data["at"]), _bytes(data["data"]))
        case "usage":
            return UsageReport(**data)
        case "limit":
            return LimitReached(**{**data, "guarantee": Guarantee(data["guarantee"])})
    return None


def message(name: str, text: str, number: str) -> bytes:
    """Return a server-sent event with JSON, which has no line break in it."""
    return f"id: {number}\nevent: {name}\ndata: {text}\n\n".encode()


def as_message(event: Event, number: str) -> bytes:
    """Return an event as a server-sent event."""
    name, data = dumped(event)
    return message(name, dumps(data, compact=True), number)


def _text(data: bytes) -> Any:
    """Return bytes as requests have them: a text if they are one, and base64 otherwise."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return content(data)


def _bytes(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else base64.b64decode(data["base64"])
