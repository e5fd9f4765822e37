"""One run as the caller sees it: bytes to send, bytes that came, events. No I/O here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stockade import _filter
from stockade._errors import ProtocolError
from stockade._events import Event, Exited, LimitReached, Output, Refused, Started
from stockade._guarantees import Guarantee
from stockade._launch import Launch
from stockade._plan import Plan
from stockade._result import Result
from stockade._verdict import cancelled, sandbox_failed, verdict
from stockade.client.bundle import Bundle
from stockade.warden import wire

Translate = Callable[[Mapping[str, Any], bytes], Mapping[str, Any]]
_SEND_AHEAD = 1 << 18


class Conversation:
    """Says what to send and takes what comes, for one run."""

    def __init__(self, launch: Launch) -> None:
        self._outgoing = bytearray(wire.encode("launch", **launch.as_wire()))
        self._decoder = wire.Decoder()
        self._stdin_open = True
        self._streams = {1: bytearray(), 2: bytearray()}
        self._last: Exited | Refused | None = None
        self._begin = time.monotonic()
        self.launch = launch
        self.bundle = Bundle(launch.collect) if launch.collect else None
        self.cancelled = False

    @property
    def outgoing(self) -> bytearray:
        """The bytes to send; the sender deletes what is sent."""
        return self._outgoing

    @property
    def wants_input(self) -> bool:
        """Whether more of the guest's standard input should be handed over now."""
        return self._stdin_open and len(self._outgoing) < _SEND_AHEAD

    @property
    def finished(self) -> bool:
        """Whether the last message has come."""
        return self._last is not None

    @property
    def settled(self) -> bool:
        """Whether the run has ended by itself and all was said, so that its socket can be used again."""
        return isinstance(self._last, Exited) and not (self.cancelled or self._outgoing)

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._begin

    def send_input(self, data: bytes | None) -> None:
        """Hand over a piece of standard input; an empty one ends it, ``None`` is nothing yet."""
        if self._stdin_open and data is not None:
            self._stdin_open = bool(data)
            self._outgoing += wire.encode("stdin", data=data)

    def cancel(self) -> None:
        """Ask for the run to be ended: whoever sends shuts down that direction, and the verdict still comes."""
        self.cancelled = True
        self._stdin_open = False
        self._outgoing.clear()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take bytes from the warden (none at its end) and yield what happened."""
        if not data and self._last is None:
            self._last = Refused("the warden ended in the middle of the run")
            self._close_bundle()
            yield self._last
        try:
            for kind, fields in self._decoder.feed(data):
                if kind == "collected" and self.bundle is not None:
                    self.bundle.feed(fields["data"])
                    continue
                event = _event(kind, fields)
                if isinstance(event, Output):
                    self._streams[event.stream] += event.data
                elif isinstance(event, Exited | Refused):
                    self._last = event
                    self._close_bundle()
                yield event
        except (wire.WireError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"the warden sent nonsense: {error!r}") from error

    def result(self, plan: Plan, translate: Translate | None = None) -> Result:
        """Return the verdict, once ``finished``; ``translate`` works in what an engine says of the guest's end."""
        stdout, stderr = bytes(self._streams[1]), bytes(self._streams[2])
        if isinstance(self._last, Exited):
            report = self._last.report
            if translate is not None:
                report = translate(report, stderr)
            denials = _filter.denials(plan, report["denials"]) if report["denials"] else ()
            return verdict(plan, report, stdout, stderr, denials)
        if self.cancelled:
            return cancelled(plan, stdout_bytes=stdout, stderr_bytes=stderr)
        message = self._last.message if self._last else "the run has not ended"
        return sandbox_failed(plan, message, stdout_bytes=stdout, stderr_bytes=stderr)

    def _close_bundle(self) -> None:
        if self.bundle is not None:
            last = self._last
            self.bundle.close(last.report["collect_trouble"] if isinstance(last, Exited) else "the run did not end")


def _event(kind: str, fields: dict[str, Any]) -> Event:
    match kind:
        case "started":
            return Started()
        case "output":
            return Output(fields["stream"], fields["at"], fields["data"])
        case "limit":
            return LimitReached(Guarantee(fields["guarantee"]), fields["state"])
        case "exited":
            return Exited(fields["report"])
        case "refused":
            return Refused(fields["message"])
    raise ProtocolError(f"no such message: {kind!r}")
