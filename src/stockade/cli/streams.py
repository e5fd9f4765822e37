"""Our own streams and signals: Ctrl-C as something to wait for, and the guest's output handed on as it comes."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import BinaryIO

from stockade._errors import JobError


def start_warden() -> None:
    """Start this process's warden: it looks at the host while we go on importing.

    Until it has a session of its own it shares our terminal, so Ctrl-C is held back from it for that long.
    """
    from stockade.client import wardens

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        wardens.current()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupt:
    """Ctrl-C as a descriptor that can be read: so the run ends in order, and its verdict still comes.

    A second one, and one that comes while we wait for a reader of our own output, raises ``KeyboardInterrupt``.
    """

    def __init__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        self._raising = False
        self._happened = False
        self.fd = self._write = -1

    def __enter__(self) -> Interrupt:
        """Take over from the usual handler, unless the signal is ignored, as it is behind ``nohup``."""
        self.fd, self._write = os.pipe()
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signal back."""
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._before)
        os.close(self.fd)
        os.close(self._write)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let the first Ctrl-C raise as well, for as long as something may block for ever."""
        self._raising = True
        try:
            yield
        finally:
            self._raising = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        again, self._happened = self._happened, True
        if not again:
            os.write(self._write, b"!")
        if again or self._raising:
            raise KeyboardInterrupt


class PassedOn:
    """The guest's output on its way to ours, byte for byte."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._closed: set[int] = set()
        self.lost: OSError | None = None
        """Why our standard output takes nothing more."""

    def write(self, fd: int, data: bytes) -> None:
        """Write ``data`` to our own stream ``fd``, or drop it when nobody reads that any more."""
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
        except BlockingIOError:  # somebody has set our own end to be non-blocking
            select.select([], [fd], [])


def own_input() -> BinaryIO | None:
    """Return our standard input for the guest to read, or nothing where it is a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    if stat.S_ISDIR(os.fstat(0).st_mode):
        raise JobError("standard input is a folder")
    return sys.stdin.buffer
