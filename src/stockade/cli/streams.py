"""Our own streams and signals: Ctrl-C as a readable descriptor, and the guest's output passed on as it arrives."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, BinaryIO

from stockade.core.errors import JobError
from stockade.core.text import whole_begin, whole_end

if TYPE_CHECKING:
    from stockade.api.stream import Controls
    from stockade.runs.events import Output
    from stockade.runs.result import Result

_AGAIN_SECONDS = 1.0
_FOR_GUEST, _FOR_US = 1, 2


def start_warden() -> None:
    """Start the warden of this process, so that it probes the host while this process continues to import.

    Until the warden has its own session, it shares our terminal. Ctrl-C is blocked for that time.
    """
    from stockade.client import warden_process

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        warden_process.current()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupt:
    """Ctrl-C as a readable descriptor, so that the run ends in order and still gets its verdict.

    A second Ctrl-C raises ``KeyboardInterrupt``, and so does one during a blocking write of our own output. With
    ``passed_on``, the guest gets the first Ctrl-C; one that follows another within a second ends the run.
    """

    def __init__(self, *, passed_on: bool = False) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        self._raising = False
        self._ending = False
        self._passed_on = passed_on
        self._last = float("-inf")
        self.fd = self._write = -1

    def __enter__(self) -> Interrupt:
        """Replace the signal handler, unless the signal is ignored, as under ``nohup``."""
        self.fd, self._write = os.pipe()
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the signal handler."""
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._before)
        os.close(self.fd)
        os.close(self._write)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let the first Ctrl-C raise too, during a call that may block without end."""
        self._raising = True
        try:
            yield
        finally:
            self._raising = False

    def act(self, run: Controls) -> None:
        """Read the pending signals and apply each to ``run``."""
        for each in os.read(self.fd, 1 << 10):
            if each == _FOR_GUEST:
                run.send_signal(signal.SIGINT)
            else:
                run.cancel()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        soon, self._last = now - self._last < _AGAIN_SECONDS, now
        if self._passed_on and not soon and not self._ending:
            os.write(self._write, bytes([_FOR_GUEST]))
            return
        again, self._ending = self._ending, True
        if not again:
            os.write(self._write, bytes([_FOR_US]))
        if again or self._raising:
            raise KeyboardInterrupt


class PassedOn:
    """Passes the guest's output on, byte for byte. Where bytes are omitted, the cut is between characters."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._closed: set[int] = set()
        self._next = {1: 0, 2: 0}
        self._begun = {1: b"", 2: b""}  # the begin of a character whose rest has not arrived
        self.passed = {1: 0, 2: 0}
        """Bytes of each stream that arrived."""
        self.lost: OSError | None = None
        """The error that closed our standard output, if any."""

    def take(self, event: Output) -> None:
        """Write a piece of output, after a marker for the bytes that were omitted before it."""
        gap = event.at - self._next[event.stream]
        self._next[event.stream] = event.at + len(event.data)
        self.passed[event.stream] += len(event.data)
        begun, data = self._begun[event.stream], event.data
        if gap:
            cut = whole_begin(data)
            data = f"\n[... {gap + len(begun) + cut} bytes omitted ...]\n".encode() + data[cut:]
        else:
            data = begun + data
        end = whole_end(data)
        self._begun[event.stream] = data[end:]
        self.write(event.stream, data[:end])

    def finish(self, result: Result) -> None:
        """Write the last incomplete character of each stream, unless it is the first half of a cut."""
        for number, cut in ((1, result.stdout_truncated), (2, result.stderr_truncated)):
            if self._begun[number] and not cut:
                self.write(number, self._begun[number])
            self._begun[number] = b""

    def write(self, fd: int, data: bytes) -> None:
        """Write ``data`` to our own stream ``fd``, or drop it if the reader is gone."""
        if fd in self._closed:
            return
        try:
            with self._interrupt.raising():
                _write_all(fd, data)
        except KeyboardInterrupt:
            self._closed.add(fd)
        except OSError as error:
            self._closed.add(fd)
            if fd == 1:
                self.lost = error


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # another process made our end non-blocking
            select.select([], [fd], [])


def own_input(*, interactive: bool = False) -> BinaryIO | None:
    """Return our standard input for the guest, or ``None`` if it is a terminal and not ``interactive``."""
    if sys.stdin is None or (sys.stdin.isatty() and not interactive):
        return None
    if stat.S_ISDIR(os.fstat(0).st_mode):
        raise JobError("standard input is a folder, which a guest cannot read")
    return sys.stdin.buffer
