"""A run that is followed as it happens: its events, and what can be done to it meanwhile."""

from __future__ import annotations

import signal as signals
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, Unpack

from stockade.api.job_arguments import Source, job_from_command, job_from_source
from stockade.client import blocking
from stockade.client.exchange import LaunchLost
from stockade.client.send_queue import SendQueue, WakeupPipe
from stockade.core.errors import JobError
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
"""Bytes of each stream that the result of a stream has where the policy sets no limit on output."""
_MOST_WAITING = 1 << 20
_LEAST_SECONDS = 0.01


class Streaming(ABC, Generic[Followed]):
    """The ways to follow a run, for the sandboxes that hand out streams of one kind."""

    def stream(
        self,
        source: Source,
        *,
        interactive: bool = False,
        report_seconds: float | None = REPORT_SECONDS,
        **options: Unpack[RunOptions],
    ) -> Followed:
        """Run source text, or a file, and return its events as they happen; see ``stockade.run`` for the options.

        ``interactive`` leaves standard input open, to be written to until it is closed; ``report_seconds`` is how
        often the run's use is told, ``None`` never. Raises what ``run`` raises, before anything is started.
        """
        job = job_from_source(source, **options)
        return self.stream_job(job, interactive=interactive, report_seconds=report_seconds)

    def stream_command(
        self,
        argv: Sequence[str],
        *,
        interactive: bool = False,
        report_seconds: float | None = REPORT_SECONDS,
        **options: Unpack[CommandOptions],
    ) -> Followed:
        """Run a command and return its events as they happen; see ``stream``."""
        job = job_from_command(argv, **options)
        return self.stream_job(job, interactive=interactive, report_seconds=report_seconds)

    @abstractmethod
    def stream_job(
        self, job: Job, *, interactive: bool = False, report_seconds: float | None = REPORT_SECONDS
    ) -> Followed:
        """Run a job and return its events as they happen; see ``stream``."""


class Controls:
    """What can be done to a run while it lasts: from any thread, and without waiting.

    A run that has ended takes no harm from any of it: nothing happens.
    """

    def __init__(self) -> None:
        self._held: list[SendQueue] = []  # one, as soon as the run begins

    def cancel(self) -> None:
        """End the run; its verdict still comes, with the outcome ``cancelled``. Works on a paused run as well."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.cancel()

    def pause(self) -> None:
        """Have the guest and all its processes stand still, and the clock of ``wall_time`` with them."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask("pause")

    def resume(self) -> None:
        """Let it go on; signals that came meanwhile are delivered."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask("resume")

    def send_signal(self, number: int) -> None:
        """Send a signal to the guest's own first process; SIGINT to its whole process group, as Ctrl-C does.

        A paused run gets it when it goes on, and SIGKILL at once. Raises ``JobError`` if there is no such signal.
        """
        if number not in signals.valid_signals():
            raise JobError(f"send_signal: there is no signal {number!r}")
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask("signal", number=int(number))

    def write(self, data: str | bytes) -> None:
        """Write to the guest's standard input. It is taken whole and goes out as the guest reads.

        Raises ``BlockingIOError``, and takes nothing, while a mebibyte or more waits for the guest (``input_waiting``);
        ``JobError`` if the run was not asked for with ``interactive=True``, or its input is closed.
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
        """End the guest's standard input, behind what was written to it."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.close_input()

    @property
    def input_waiting(self) -> int:
        """Bytes of standard input that the guest has not read yet, to some 128 KiB."""
        return self._send_queue.exchange.input_waiting

    @property
    def result(self) -> Result:
        """The verdict. Raises ``JobError`` before it is there."""
        if not self._held or self._held[0].exchange.result is None:
            raise JobError("the run has no result: it has not ended, or was left before it had")
        return self._held[0].exchange.result

    @property
    def _send_queue(self) -> SendQueue:
        if not self._held:
            raise JobError("the run has not begun: enter the stream, or take its first event")
        return self._held[0]


class Stream(Controls):
    """The events of a run, which begins when this is made: an iterator, and a context manager.

    Leaving the context, or the loop for good, ends the run. Events are taken by one thread, and ``close`` is that
    thread's as well; what ``Controls`` has is for all.
    """

    def __init__(
        self,
        open_exchange: Callable[..., OpenExchange],
        stdin: bytes | BinaryIO | None,
        *,
        attend: blocking.Attend | None = None,
    ) -> None:
        """``open_exchange`` opens the conversation; ``attend`` is for who has more descriptors to wait for."""
        super().__init__()
        self._stack = ExitStack()
        self._begin = partial(self._open, open_exchange, stdin, attend or {})
        self._begin(final=False)

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
            self._held[:] = [send_queue]
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
        except LaunchLost:  # the warden is gone, and nothing has begun
            self._stack.close()
            self._begin(final=True)
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
        """End the run, if it has not ended."""
        self.close()

    def __del__(self) -> None:
        """End the run: nobody follows it any more."""
        if hasattr(self, "_stack"):
            self.close()

    def close(self) -> None:
        """End the run, if it has not ended, and let go of it; no more events come."""
        self._stack.close()


def following(job: Job, *, interactive: bool, report_seconds: float | None) -> dict[str, Any]:
    """Return what a conversation is told of a run that is followed; refuse what makes no sense of a stream."""
    if interactive and job.stdin is not None:
        raise JobError("stdin is given, so nothing can be written to it: leave out stdin, or interactive=True")
    if report_seconds is not None and not _LEAST_SECONDS <= report_seconds < float("inf"):
        raise JobError(f"report_seconds = {report_seconds!r}: seconds between reports, at least 0.01, or None")
    return {"live": True, "interactive": interactive, "report_seconds": report_seconds, "keep": KEPT}
