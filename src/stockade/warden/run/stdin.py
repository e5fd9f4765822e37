"""Feeds a guest's standard input at the pace of the guest."""

from __future__ import annotations

import os

from stockade.warden import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 1 << 16
ENOUGH = 1 << 20
"""Bytes in the feeder from which on the warden asks the caller for no more."""


class StdinFeeder:
    """Holds input until the guest's pipe is open, writes it, and closes the pipe at the end."""

    def __init__(self, events: loop.Guarded, on_taken: Callable[[], None]) -> None:
        """``on_taken`` is called when the guest has taken some of the waiting input."""
        self._loop = events
        self._on_taken = on_taken
        self._pieces: list[memoryview] = []
        self._held: list[bytes] | None = []
        """All input so far, until the program begins. Another pipe may need it."""
        self._ended = False
        self._fd = -1
        self._closed = False
        self.size = 0
        self.taken = 0
        """Bytes that the guest has taken, or can never take."""

    def open(self, fd: int) -> None:
        """Write to ``fd`` from now on; the feeder owns the descriptor."""
        self._fd = fd
        self._pump()

    def take(self, data: bytes) -> None:
        """Accept the next piece of input; an empty one is the end."""
        if self._held is not None and data:
            self._held.append(data)
        if self._closed:
            self.taken += len(data)
            return
        if data:
            self._pieces.append(memoryview(data))
            self.size += len(data)
        else:
            self._ended = True
        if self._fd >= 0:
            self._pump()

    def begun(self) -> None:
        """Learn that the program has begun, so no other pipe can need the input that is written by now."""
        self._held = None

    def rewind(self) -> None:
        """Close the pipe, from which no program has read, and keep all input for another one."""
        self.close()
        self._pieces = [memoryview(data) for data in self._held or ()]
        self.size, self.taken, self._closed = sum(map(len, self._pieces)), 0, False

    def close(self) -> None:
        """Close the pipe, and drop the input that nobody has read."""
        self._closed = True
        self._pieces.clear()
        self.taken += self.size
        self.size = 0
        if self._fd >= 0:
            self._loop.forget(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _on_writable(self, _events: int) -> None:
        self._pump()
        self._on_taken()

    def _pump(self) -> None:
        try:
            while self._pieces:
                written = os.write(self._fd, self._pieces[0][:_CHUNK])
                self.size -= written
                self.taken += written
                self._pieces[0] = self._pieces[0][written:]
                if not self._pieces[0]:
                    self._pieces.pop(0)
        except BlockingIOError:
            self._loop.watch(self._fd, loop.WRITE, self._on_writable)
            return
        except OSError:  # no process reads the pipe any more
            self.close()
            return
        self._loop.forget(self._fd)
        if self._ended:
            self.close()
