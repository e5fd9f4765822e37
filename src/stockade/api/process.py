"""``Process``: a command that runs in a living sandbox while its caller goes on, with live streams."""

from __future__ import annotations

import signal as signals
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from stockade.client import blocking
from stockade.client.liveness import Liveness
from stockade.client.send_queue import WakeupPipe
from stockade.core.errors import JobError
from stockade.core.hints import Hinting
from stockade.runs.events import Finished, Output, Started

if TYPE_CHECKING:
    from contextlib import ExitStack

    from stockade.client.connection import Connection
    from stockade.client.send_queue import SendQueue
    from stockade.runs.events import Event
    from stockade.runs.result import Result

WINDOW = 1 << 20
"""Bytes of each stream that wait for the caller; then the process waits when it writes more."""
_TAKEN_EVERY = WINDOW // 8
_LONG = 3600.0


class Process(Hinting):
    """A running command of a sandbox, with the methods of ``subprocess.Popen``. ``Sandbox.start_command`` makes it.

    ``stdin``, ``stdout`` and ``stderr`` are its streams. They are live: a process whose output nobody reads waits after
    a mebibyte. Different threads may use different streams at the same time.

    Leaving the context ends the process with everything that it started. Without that it goes on until the sandbox
    ends.
    """

    _clock: Callable[[], float] = staticmethod(time.monotonic)
    """Seconds that stand still while the sandbox is paused."""

    def __init__(self, argv: tuple[str, ...], opened: tuple[SendQueue, Connection], stack: ExitStack) -> None:
        """``stack`` holds what the process takes, until its end."""
        self.argv = argv
        self._send_queue, self._connection = opened
        self._stack = stack
        self._changed = threading.Condition()
        self._reading = False
        self._liveness = Liveness(self._connection.warden, self._send_queue)
        self._wakeup = WakeupPipe()
        stack.callback(self._wakeup.close)
        self._send_queue.wake = self._wakeup.ring
        self._result: Result | None = None
        self._started = False
        self.stdin = ProcessInput(self)
        self.stdout = ProcessOutput(self, 1)
        self.stderr = ProcessOutput(self, 2)
        self._wait_for(lambda: self._started, None)

    def __repr__(self) -> str:
        """Return one line."""
        how = "running" if self._result is None else self._result.summary()
        return f"<{type(self).__name__} {' '.join(self.argv)!r:.60}: {how}>"

    @property
    def pid(self) -> int:
        """The number of the first process, as the sandbox sees it; 0 if it could not start."""
        return self._send_queue.exchange.pid

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process if it has not ended."""
        self.kill()

    # -- the end -----------------------------------------------------------------------------------------------

    @property
    def returncode(self) -> int | None:
        """The exit status; minus a signal's number if a signal ended it, and ``None`` if no end is known yet.

        A process that has no status of its own, since its sandbox failed or never started it, has that of SIGKILL.
        """
        return returncode_of(self._result)

    def poll(self) -> int | None:
        """Look whether the process has ended, and return ``returncode``."""
        self._wait_for(lambda: self._result is not None, 0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end and return the verdict, which holds no output. Raises ``TimeoutError`` after ``timeout``."""
        if not self._wait_for(lambda: self._result is not None, timeout):
            raise TimeoutError(f"{self.argv[0]} has not ended within {timeout:g} s")
        assert self._result is not None
        return self._result

    def send_signal(self, number: int) -> None:
        """Send a signal to the first process; SIGINT goes to its whole process group, as with Ctrl-C."""
        check_signal(number)
        self._ask("signal", number=int(number))

    def terminate(self) -> None:
        """Send SIGTERM to the first process."""
        self.send_signal(signals.SIGTERM)

    def kill(self) -> None:
        """End the process with everything that it started, and wait for that."""
        self._cancel()
        self.wait()

    def _cancel(self) -> None:
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.cancel()

    def _ask(self, kind: Literal["signal", "taken", "resize", "hang_up"], **fields: int) -> None:
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask(kind, **fields)

    # -- the connection ----------------------------------------------------------------------------------------

    def _wait_for(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Receive until ``is_done`` returns true, or for ``timeout`` seconds; return what it returns.

        One thread receives at a time, for all others as well.
        """
        until = time.monotonic() + (_LONG * 24 * 365 if timeout is None else timeout)
        looked = False
        while True:
            with self._changed:
                left = until - time.monotonic()
                if is_done() or self._result is not None or (left <= 0 and looked):
                    return is_done()
                if self._reading:
                    looked = not self._changed.wait(max(0.0, left)) or looked
                    continue
                self._reading = True
            events: list[Event] = []
            try:
                events = blocking.turn(self._send_queue, self._connection, self._wakeup, self._liveness, max(0.0, left))
            finally:
                looked = True
                with self._changed:
                    self._reading = False
                    for event in events:
                        self._on_event(event)
                    self._changed.notify_all()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Output):
            (self.stdout if event.stream == 1 else self.stderr)._add(event.data)
        elif isinstance(event, Started):
            self._started = True
        elif isinstance(event, Finished):
            self._result = event.result
            self.stdout._end()
            self.stderr._end()
            self._send_queue.close()
            self._connection.reusable = self._send_queue.exchange.reusable
            self._stack.close()


class ProcessInput:
    """Standard input of a process. One thread may write at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Write all of ``data``; wait while a mebibyte of earlier input is unread.

        Raises ``BrokenPipeError`` if the process has ended, and ``TimeoutError`` after ``timeout`` seconds.
        """
        process = self._process
        if not process._wait_for(self._takes_more, timeout) and process._result is None:
            raise TimeoutError(f"{process.argv[0]} has not read its standard input within {timeout:g} s")
        with process._send_queue.locked() as exchange:
            if exchange is None or process._result is not None:
                raise BrokenPipeError(f"{process.argv[0]} has ended, so it reads no standard input")
            exchange.write(data)

    def close(self) -> None:
        """End standard input after everything that was written."""
        with self._process._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.close_input()

    def _takes_more(self) -> bool:
        return self._process._send_queue.exchange.input_waiting < WINDOW


class ProcessOutput:
    """Standard output or error of a process, as bytes. One thread may read at a time."""

    def __init__(self, process: Process, number: int) -> None:
        self._process, self._number = process, number
        self._waiting = bytearray()
        self._ended = False
        self._taken = self._reported = 0

    def read(self, size: int = -1, timeout: float | None = None) -> bytes:
        """Return 1 to ``size`` bytes as soon as any are there, or everything up to the end for -1.

        Returns empty bytes at the end. Raises ``TimeoutError`` after ``timeout`` seconds; nothing is lost then.
        """
        if size < 0:
            return self._read_all(timeout)
        self._expect(lambda: self._has(min(size, 1)), timeout)
        return self._take(size)

    def read_exactly(self, size: int, timeout: float | None = None) -> bytes:
        """Return ``size`` bytes, at most a mebibyte at a time. Raises ``EOFError`` if the stream ends before."""
        parts: list[bytes] = []
        until = None if timeout is None else time.monotonic() + timeout
        for wanted in pieces(size):
            self._expect(partial(self._has, wanted), _left(until))
            if not self._has(wanted):
                there = len(b"".join(parts)) + len(self._waiting)
                raise EOFError(f"the stream ended {size - there} bytes too early")
            parts.append(self._take(wanted))
        return b"".join(parts)

    def readline(self, timeout: float | None = None) -> bytes:
        """Return the next line with its newline; the last one may lack it, and empty bytes mean the end.

        A line is cut where it exceeds half a mebibyte.
        """
        self._expect(self._has_line, timeout)
        at = self._waiting.find(b"\n") + 1
        return self._take(at or min(len(self._waiting), WINDOW // 2))

    def __iter__(self) -> Iterator[bytes]:
        """Return the lines up to the end."""
        return iter(self.readline, b"")

    def _read_all(self, timeout: float | None) -> bytes:
        parts = []
        until = None if timeout is None else time.monotonic() + timeout
        while part := self.read(WINDOW, _left(until)):
            parts.append(part)
        return b"".join(parts)

    def _has(self, size: int) -> bool:
        return len(self._waiting) >= size

    def _has_line(self) -> bool:
        return b"\n" in self._waiting or self._has(WINDOW // 2)

    def _expect(self, is_there: Callable[[], bool], timeout: float | None) -> None:
        self._process._wait_for(lambda: is_there() or self._ended, timeout)
        if not (is_there() or self._ended):
            raise TimeoutError(f"{self._process.argv[0]} has not written that within {timeout:g} s")

    def _take(self, size: int) -> bytes:
        """Remove bytes from the buffer, and report every part of the window that is free again."""
        with self._process._changed:
            data = bytes(self._waiting[:size])
            del self._waiting[:size]
        self._taken += len(data)
        if self._taken - self._reported >= _TAKEN_EVERY:
            self._reported = self._taken
            self._process._ask("taken", stream=self._number, count=self._taken)
        return data

    def _add(self, data: bytes) -> None:
        self._waiting += data

    def _end(self) -> None:
        self._ended = True


def returncode_of(result: Result | None) -> int | None:
    """Return the exit status in a result as ``Process.returncode`` has it."""
    if result is None:
        return None
    if result.exit_code is not None:
        return result.exit_code
    return -int(result.signal or signals.SIGKILL)


def check_signal(number: int) -> None:
    """Raise ``JobError`` unless ``number`` is a signal."""
    if number not in signals.valid_signals():
        raise JobError(f"send_signal: there is no signal {number!r}")


def pieces(size: int) -> Iterator[int]:
    """Split a number of bytes into pieces that the window of a stream can hold."""
    for at in range(0, size, WINDOW // 2):
        yield min(WINDOW // 2, size - at)


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())
