"""Our own streams and signals: Ctrl-C as something to wait for, and the guest's output handed on as it comes."""

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
    """Start this process's warden: it looks at the host while we go on importing.

    Until it has a session of its own it shares our terminal, so Ctrl-C is held back from it for that long.
    """
    from stockade.client import warden_process

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        warden_process.current()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupt:
    """Ctrl-C as a descriptor that can be read: so the run ends in order, and its verdict still comes.

    A second one, and one that comes while we wait for a reader of our own output, raises ``KeyboardInterrupt``.
    Where it is ``passed_on``, the guest gets it first, and ours begins with one that follows another within a second.
    """

    def __init__(self, *, passed_on: bool = False) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        self._raising = False
        self._ending = False
        self._passed_on = passed_on
        self._last = float("-inf")
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

    def act(self, run: Controls) -> None:
        """Take what has come, and do to ``run`` what it is for."""
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
    """The guest's output on its way to ours, byte for byte; where bytes are left out, the cut is between characters."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._closed: set[int] = set()
        self._next = {1: 0, 2: 0}
        self._begun = {1: b"", 2: b""}  # a character of which the rest has not come
        self.passed = {1: 0, 2: 0}
        """Bytes of each stream that came."""
        self.lost: OSError | None = None
        """Why our standard output takes nothing more."""

    def take(self, event: Output) -> None:
        """Hand on a piece, behind a marker for what was left out before it."""
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
        """Hand on what the guest's last bytes were, unless they are the first half of a cut."""
        for number, cut in ((1, result.stdout_truncated), (2, result.stderr_truncated)):
            if self._begun[number] and not cut:
                self.write(number, self._begun[number])
            self._begun[number] = b""

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


def own_input(*, interactive: bool = False) -> BinaryIO | None:
    """Return our standard input for the guest to read, or nothing where it is a terminal and not ``interactive``."""
    if sys.stdin is None or (sys.stdin.isatty() and not interactive):
        return None
    if stat.S_ISDIR(os.fstat(0).st_mode):
        raise JobError("standard input is a folder")
    return sys.stdin.buffer
