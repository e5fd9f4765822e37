"""Follow one run at the caller's end: bytes to send, bytes received, events. This module does no I/O."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from stockade.client.collected_files import CollectedFiles
from stockade.client.stream_buffer import StreamBuffer
from stockade.core import log
from stockade.core import trace as _trace
from stockade.core.errors import JobError, ProtocolError
from stockade.core.launch import Launch, changed_fields
from stockade.core.report import Report
from stockade.planning import syscall_filter
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Guarantee
from stockade.runs.events import Event, Finished, LimitReached, Output, Started, UsageReport
from stockade.runs.result import Result
from stockade.runs.verdict import cancelled, reported_fields, sandbox_failed, verdict
from stockade.warden import protocol
from stockade.warden.run.stdin import ENOUGH

Ask = Literal["signal", "pause", "resume", "resize", "hang_up", "taken", "usage", "touch"]
"""A control request."""
Translate = Callable[[Report, bytes], Report]
Finish = Callable[[Result, Launch, "CollectedFiles | None"], Result]
_WINDOW = ENOUGH // 2  # bytes of unacknowledged input: below the warden's limit, so it keeps reading other messages
_PIECE = 1 << 16
_numbers = itertools.count(1)


def introduction(
    launch: Launch,
    before: Mapping[str, Any],
    *,
    caller: int = 0,
    trace: int = 0,
    live: bool = False,
    report_seconds: float | None = None,
    silent: bool = False,
) -> tuple[bytes, Mapping[str, Any]]:
    """Return the message that begins a run, and the fields that the warden then remembers for the next one.

    ``before`` are the fields that it remembers already, which the message leaves out. ``caller`` and ``trace`` are
    numbers: see ``Launch``. ``live`` and ``report_seconds`` are for callers that follow the run: see ``Watch``.
    ``silent`` means that standard input stays empty.
    """
    fields = launch.as_wire() | {"caller": caller, "stdin": not silent}
    if live or report_seconds is not None:
        fields["watch"] |= {"live": live, "report_seconds": report_seconds}
    own = {"source": launch.source} if launch.repeats else {"steps": launch.steps}
    return _beginning(own, fields, before, trace), fields


def repetition(source: bytes, fields: Mapping[str, Any], before: Mapping[str, Any], trace: int) -> bytes:
    """Return the message that begins a run with a new ``source`` and the launch ``fields`` of an earlier run."""
    return _beginning({"source": source}, fields, before, trace)


def _beginning(own: Mapping[str, Any], fields: Mapping[str, Any], before: Mapping[str, Any], trace: int) -> bytes:
    """Return the message that begins any run: what is its own, and how its template differs from the one before."""
    traced = {"trace": trace} if trace else {}
    return protocol.encode("launch", **own, **traced, **changed_fields(fields, before))


class LaunchLost(Exception):
    """The warden is gone before the run began, so the launch can be sent again."""


class Exchange:
    """The protocol of one run at the caller's end: what to send, and what each message means."""

    def __init__(
        self,
        launch: Launch,
        plan: Plan,
        translate: Translate | None = None,
        *,
        outgoing: bytes = b"",
        finish: Finish | None = None,
        interactive: bool = False,
        silent: bool = False,
        keep: int | None = None,
        trace: int = 0,
        final: bool = True,
        replays: bool = True,
        no_signals_because: str = "",
    ) -> None:
        """``outgoing`` is the unsent rest of the message that begins the run (see ``introduction``).

        ``translate`` merges an engine's own report, and ``finish`` adds the collected files. ``interactive`` takes
        standard input through ``write``; ``silent`` means that the run has none. ``keep`` bounds the bytes kept of each
        stream if the launch sets no limit on output; ``None`` keeps all. ``trace`` is the number under which steps
        are noted: see ``core.trace``. An exchange that is not ``final`` raises ``LaunchLost`` if the warden is gone
        before the run began; ``replays`` means that its standard input can be sent again. ``no_signals_because`` is why
        no signal can reach the guest, or empty.
        """
        self._final, self._replays, self._no_signals_because = final, replays, no_signals_because
        self._unsent = bool(outgoing)
        self._waits = self._beyond = self._asked = False
        self._plan, self._translate, self._finish = plan, translate, finish
        self._outgoing = bytearray(outgoing)
        self._decoder = protocol.Decoder()
        self._streams = {number: StreamBuffer(launch.watch, keep) for number in (1, 2)}
        self._interactive = interactive
        self._written = bytearray()
        self._closing = False
        self._stdin_open = not silent
        self._sent = self._fed = 0
        self._ended_in_order = False
        self._begin = time.monotonic()
        self._number = next(_numbers)
        self.launch = launch
        self.trace = trace
        self.collected = CollectedFiles(launch.collect) if launch.collect else None
        self.cancelled = False
        self.pid = 0
        """The number of an exec's first process, as its sandbox sees it, once it has begun."""
        self.result: Result | None = None
        """The verdict, after the end of the run."""
        log.info("run %d started on %s", self._number, plan.backend)

    @property
    def outgoing(self) -> bytearray:
        """The bytes to send; the sender deletes those that it has sent."""
        return self._outgoing

    @property
    def wants_input(self) -> bool:
        """Whether the driver should read more of the guest's standard input and pass it on."""
        return self._stdin_open and not self._interactive and self._window_open

    @property
    def finished(self) -> bool:
        """Whether the last message was received."""
        return self.result is not None

    @property
    def reusable(self) -> bool:
        """Whether the run ended by itself and the exchange is complete, so that its socket can be used again."""
        return self._ended_in_order and not (self.cancelled or self._outgoing)

    @property
    def seconds(self) -> float:
        """The time since the exchange began."""
        return time.monotonic() - self._begin

    # -- requests of the caller ----------------------------------------------------------------------------------

    def send_input(self, data: bytes | None) -> None:
        """Send a piece of standard input. An empty piece ends it, and ``None`` means that nothing is ready."""
        if self._stdin_open and data is not None:
            self._stdin_open = bool(data)
            self._sent += len(data)
            self._beyond = True
            self._outgoing += protocol.encode("stdin", data=data)

    @property
    def input_waiting(self) -> int:
        """Bytes of standard input that the warden has not reported as taken by the guest."""
        return len(self._written) + self._sent - self._fed

    def write(self, data: bytes) -> None:
        """Queue a piece of standard input. It is sent when the guest has taken the input before it."""
        if not self._interactive:
            raise JobError("standard input is not open for writing: ask for it with interactive=True")
        if self._closing:
            raise JobError("standard input was closed, so nothing more can be written to it")
        self._written += data
        self._pump()

    def close_input(self) -> None:
        """End standard input after everything that was written."""
        self._closing = True
        if self._interactive:
            self._pump()

    def ask(self, kind: Ask, **fields: int) -> None:
        """Send a control request to the warden. Raises ``JobError`` for a signal if none can reach the guest."""
        if kind == "signal" and self._no_signals_because:
            raise JobError(f"send_signal: no signal reaches this guest: {self._no_signals_because}")
        if not self.cancelled:
            self._beyond = self._asked = True
            self._outgoing += protocol.encode(kind, **fields)

    def ping(self) -> None:
        """Ask the warden for a sign of life."""
        if not (self.cancelled or self._outgoing):  # reading those bytes is a sign of life as well
            self._beyond = True
            self._outgoing += protocol.encode("ping")

    def all_sent(self) -> None:
        """Note that everything was sent."""
        self._unsent = False

    def cut_off(self) -> None:
        """Note that nothing more can be sent."""
        self._unsent = self._unsent and not self._beyond
        self._outgoing.clear()

    def is_accepted(self, *, reset: bool) -> bool:
        """Return whether the warden, which is gone now, may have begun the run.

        A launch is accepted when the warden has read all of it. If the warden answered ``waiting``, the launch is
        accepted at ``accepted``. ``reset`` means that the warden left bytes unread, as the kernel reports: they are the
        launch if nothing else was sent.
        """
        return not (self._waits or self._unsent or (reset and not self._beyond))

    def cancel(self) -> None:
        """Cancel the run: the sender shuts down its direction of the socket, and the verdict still arrives."""
        self.cancelled = True
        self._stdin_open = False
        self._written.clear()
        self._outgoing.clear()

    @property
    def _window_open(self) -> bool:
        return self._sent - self._fed < _WINDOW

    def _pump(self) -> None:
        while self._written and self._stdin_open and self._window_open:
            self.send_input(bytes(self._written[:_PIECE]))
            del self._written[:_PIECE]
        if self._closing and not self._written:
            self.send_input(b"")

    # -- messages of the warden ----------------------------------------------------------------------------------

    def feed(self, data: bytes, *, reset: bool = False, why: str = "") -> Iterator[Event]:
        """Take bytes from the warden, none at its end, and yield the events in them.

        ``why`` is the reason for its end, for the verdict. ``reset`` has the meaning of ``is_accepted``.
        """
        if not data and not self.finished:
            why = why or "the warden ended in the middle of the run"
            repeats = not (self._final or self.cancelled or self._asked or self._written or self._closing)
            if repeats and (self._replays or not self._sent) and not self.is_accepted(reset=reset):
                raise LaunchLost(why)
            yield from self._refused(why)
        try:
            for kind, fields in self._decoder.feed(data):
                if not self.finished:
                    yield from self._take(kind, fields)
        except (protocol.WireError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"the warden sent malformed data: {error!r}") from error

    def _take(self, kind: str, fields: dict[str, Any]) -> Iterator[Event]:
        match kind:
            case "output":
                self._streams[fields["stream"]].take(fields["data"])
                yield Output(fields["stream"], fields["at"], fields["data"])
            case "fed":
                self._fed = fields["count"]
                self._pump()
            case "started":
                self.pid = fields.get("pid", 0)
                yield Started()
            case "waiting" | "accepted":
                self._waits = kind == "waiting"
                if fields.get("short_of"):
                    log.info("run %d waits: the host is short of %s", self._number, fields["short_of"])
            case "pong":
                pass
            case "limit":
                yield LimitReached(Guarantee(fields.pop("guarantee")), **fields)
            case "usage":
                yield UsageReport(**fields)
            case "collected" if self.collected is not None:
                self.collected.feed(fields["data"])
            case "exited":
                report = Report.from_wire(fields["report"])
                self._collect_notes(report, fields)
                yield from self._exited(report)
            case "refused":
                yield from self._refused(fields["message"])
            case _:
                raise ProtocolError(f"the warden sent an unknown message: {kind!r}")

    def _collect_notes(self, report: Report, fields: Mapping[str, Any]) -> None:
        if self.trace:
            _trace.note(self.trace, _trace.RECEIVED)
            _trace.notes.extend(fields["notes"])
            _trace.notes.extend(_trace.reported_notes(self.trace, reported_fields(report).get("trace")))

    def _exited(self, report: Report) -> Iterator[Event]:
        """Yield the kept end of the output, and then the verdict."""
        for number, count, tail in zip((1, 2), report.output, report.tails, strict=True):
            at, rest = self._streams[number].rest(count, tail)
            if rest:
                yield Output(1 if number == 1 else 2, at, rest)
        ends = [self._streams[number].tail(tail) for number, tail in zip((1, 2), report.tails, strict=True)]
        report = report.adding(tails=ends, cold=report.cold or self.launch.cold)
        stdout, stderr = self._heads()
        if self._translate is not None:
            report = self._translate(report, stderr)
        denials = syscall_filter.denials(self._plan, report.denials) if report.denials else ()
        self._ended_in_order = True
        self.result = self._finished_with(verdict(self._plan, report, stdout, stderr, denials), report.collect_trouble)
        yield Finished(self.result)

    def _refused(self, message: str) -> Iterator[Event]:
        stdout, stderr = self._heads()
        if self.cancelled:
            self.result = cancelled(self._plan, stdout_bytes=stdout, stderr_bytes=stderr)
        else:
            self.result = sandbox_failed(self._plan, message, stdout_bytes=stdout, stderr_bytes=stderr)
        self.result = self._finished_with(self.result, "the run ended before its files were collected")
        yield Finished(self.result)

    def _finished_with(self, result: Result, trouble: str) -> Result:
        if self.collected is not None:
            self.collected.close(trouble)
        ended = result.outcome.value if result.limit is None else f"{result.outcome.value} {result.limit}"
        log.info("run %d ended: %s after %.3g s", self._number, ended, self.seconds)
        return result if self._finish is None else self._finish(result, self.launch, self.collected)

    def _heads(self) -> tuple[bytes, bytes]:
        return self._streams[1].head(), self._streams[2].head()
