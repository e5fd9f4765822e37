"""A run followed while it happens: its events, and the controls of the running guest."""

from __future__ import annotations

import signal as signals
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, Unpack

from stockade.api.job_arguments import Source, job_from_command, job_from_source
from stockade.client import blocking
from stockade.client.exchange import LaunchLost
from stockade.client.send_queue import SendQueue, WakeupPipe
from stockade.core.errors import JobError
from stockade.core.hints import Hinting, known_options
from stockade.policy.profiles import DEFAULT_LIMITS
from stockade.runs.events import Event, Finished

if TYPE_CHECKING:
    from stockade.api.options import CommandOptions, RunOptions
    from stockade.client.connection import Connection
    from stockade.runs.job import Job
    from stockade.runs.result import Result

    OpenExchange = AbstractContextManager[tuple[SendQueue, Connection]]

Followed = TypeVar("Followed")
REPORT_SECONDS = 1.0
KEPT = int(DEFAULT_LIMITS["output"] or 0)
"""Bytes of each stream that a stream's result keeps if the policy sets no limit on output."""
_MOST_WAITING = 1 << 20
_LEAST_SECONDS = 0.01


class Streaming(Hinting, ABC, Generic[Followed]):
    """The methods that start a stream, for runners that return one kind of stream."""

    @known_options
    def stream(
        self,
        source: Source,
        *,
        interactive: bool = False,
        report_seconds: float | None = REPORT_SECONDS,
        **options: Unpack[RunOptions],
    ) -> Followed:
        """Run source text, or a file, and return its events while they happen; see ``stockade.run`` for the options.

        ``interactive`` leaves standard input open for ``write`` until it is closed. ``report_seconds`` is the interval
        of usage reports; ``None`` means no reports. Raises what ``run`` raises, before anything starts.
        """
        job = job_from_source(source, **options)
        return self.stream_job(job, interactive=interactive, report_seconds=report_seconds)

    @known_options
    def stream_command(
        self,
        argv: Sequence[str],
        *,
        interactive: bool = False,
        report_seconds: float | None = REPORT_SECONDS,
        **options: Unpack[CommandOptions],
    ) -> Followed:
        """Run a command and return its events while they happen; see ``stream``."""
        job = job_from_command(argv, **options)
        return self.stream_job(job, interactive=interactive, report_seconds=report_seconds)

    @abstractmethod
    def stream_job(
        self, job: Job, *, interactive: bool = False, report_seconds: float | None = REPORT_SECONDS
    ) -> Followed:
        """Run a job and return its events while they happen; see ``stream``."""


class Controls:
    """Controls of a running guest. Any thread may call them, and none of them waits.

    After the end of the run, they do nothing.
    """

    def __init__(self) -> None:
        self._queue: list[SendQueue] = []  # holds one queue after the run begins

    def cancel(self) -> None:
        """End the run, even a paused one. The verdict still comes, with the outcome ``cancelled``."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.cancel()

    def pause(self) -> None:
        """Stop the guest and all its processes, and the clock of ``wall_time`` with them."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask("pause")

    def resume(self) -> None:
        """Let a paused guest continue. Signals sent during the pause are delivered."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask("resume")

    def send_signal(self, number: int) -> None:
        """Send a signal to the guest's first process; SIGINT goes to its whole process group, as with Ctrl-C.

        A paused guest receives the signal when it continues, but SIGKILL at once. Raises ``JobError`` for a number
        that is not a signal, and with a backend that hides its guests from the host: use ``cancel`` to end one.
        """
        if number not in signals.valid_signals():
            raise JobError(f"send_signal: there is no signal {number!r}")
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask("signal", number=int(number))

    def write(self, data: str | bytes) -> None:
        """Write to the guest's standard input. All of ``data`` is taken at once and sent as the guest reads.

        Raises ``BlockingIOError``, and takes nothing, while a mebibyte or more waits for the guest (``input_waiting``).
        Raises ``JobError`` if the run was not started with ``interactive=True``, or if its input is closed.
        """
        piece = data.encode() if isinstance(data, str) else data
        with self._send_queue.locked() as exchange:
            if exchange is None:
                return
            if exchange.input_waiting >= _MOST_WAITING:
                raise BlockingIOError(
                    f"{exchange.input_waiting} bytes of standard input wait for the guest to read them"
                )
            exchange.write(piece)

    def close_stdin(self) -> None:
        """End the guest's standard input after everything that was written to it."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.close_input()

    @property
    def input_waiting(self) -> int:
        """Bytes of standard input that the guest has not read yet, exact to some 128 KiB."""
        return self._send_queue.exchange.input_waiting

    @property
    def result(self) -> Result:
        """The verdict. Raises ``JobError`` before the end of the run."""
        if not self._queue or self._queue[0].exchange.result is None:
            raise JobError("the run has no result: it has not ended, or the stream was left before its end")
        return self._queue[0].exchange.result

    @property
    def _send_queue(self) -> SendQueue:
        if not self._queue:
            raise JobError("the run has not begun: enter the stream, or take its first event")
        return self._queue[0]


class Stream(Controls):
    """The events of a run: an iterator and a context manager. The run begins when the stream is made.

    Leaving the context or the loop ends the run. One thread takes the events, and only that thread may call ``close``.
    Any thread may call the methods of ``Controls``.
    """

    def __init__(
        self,
        open_exchange: Callable[..., OpenExchange],
        stdin: bytes | BinaryIO | None,
        *,
        attend: blocking.Attend | None = None,
    ) -> None:
        """``open_exchange`` opens the exchange. ``attend`` maps further descriptors to their actions."""
        super().__init__()
        self._stack = ExitStack()
        # Not a bound method: a reference cycle would delay ``__del__`` until the garbage collector runs.
        self._open_arguments = (open_exchange, stdin, attend or {})
        self._open(*self._open_arguments, final=False)

    def _open(
        self,
        open_exchange: Callable[..., OpenExchange],
        stdin: bytes | BinaryIO | None,
        attend: blocking.Attend,
        *,
        final: bool,
    ) -> None:
        wakeup = WakeupPipe()
        self._stack.callback(wakeup.close)
        try:
            send_queue, connection = self._stack.enter_context(open_exchange(final=final))
            send_queue.wake = wakeup.ring
            self._queue[:] = [send_queue]
            watched = {wakeup.fd: wakeup.clear, **attend}
            self._events = blocking.events(send_queue, connection, stdin, attend=watched)
            self._stack.callback(self._events.close)
            self._stack.callback(send_queue.close)
            send_queue.flush()
        except BaseException:
            self._stack.close()
            raise

    def __iter__(self) -> Iterator[Event]:
        """Return itself."""
        return self

    def __next__(self) -> Event:
        """Wait for the next event."""
        try:
            event = next(self._events)
        except LaunchLost:  # the warden is gone before the run began
            self._stack.close()
            self._open(*self._open_arguments, final=True)
            event = next(self._events)
        if isinstance(event, Finished):
            self.close()
        return event

    def __enter__(self) -> Stream:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run if it has not ended."""
        self.close()

    def __del__(self) -> None:
        """End the run, because nothing can follow it any more."""
        if hasattr(self, "_stack"):
            self.close()

    def close(self) -> None:
        """End the run if it has not ended, and release its resources. No more events come."""
        self._stack.close()


def stream_options(job: Job, *, interactive: bool, report_seconds: float | None) -> dict[str, Any]:
    """Return the options of an exchange that is followed. Raises ``JobError`` for a contradiction in them."""
    if interactive and job.stdin is not None:
        raise JobError("stdin is given, so nothing can be written to it: leave out stdin, or interactive=True")
    if report_seconds is not None and not _LEAST_SECONDS <= report_seconds < float("inf"):
        raise JobError(f"report_seconds = {report_seconds!r}: seconds between reports, at least 0.01, or None")
    return {"live": True, "interactive": interactive, "report_seconds": report_seconds, "keep": KEPT}
