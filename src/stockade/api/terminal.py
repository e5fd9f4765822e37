"""``Terminal``: a command of a living sandbox at a terminal of its own."""

from __future__ import annotations

from types import TracebackType

from stockade.api.process import Process
from stockade.core.errors import JobError

_MOST_LINES = 1000
GRACE_SECONDS = 1.0


class Terminal(Process):
    """A running command at a terminal: raw bytes in and out, a size, and a hang-up. ``Sandbox.terminal`` makes it.

    What the command writes to standard output or error comes from ``read``, mixed as on a screen. Output is live: a
    command whose output nobody reads waits after a mebibyte. Leaving the context hangs up.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up."""
        self.close()

    def read(self, size: int = 1 << 16, timeout: float | None = None) -> bytes:
        """Return 1 to ``size`` bytes of the screen as soon as any are there, and empty bytes at the end.

        Raises ``TimeoutError`` after ``timeout`` seconds.
        """
        return self.stdout.read(size, timeout)

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Type ``data``. Raises ``BrokenPipeError`` if the command has ended."""
        self.stdin.write(data, timeout)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal; its foreground processes get SIGWINCH."""
        check_size(rows, columns)
        self._ask("resize", number=rows << 16 | columns)

    def close(self) -> None:
        """Hang up: the command and its foreground processes get SIGHUP. What does not end within a second is killed."""
        self._ask("hang_up")
        try:
            self.wait(GRACE_SECONDS)
        except TimeoutError:
            self.kill()


def check_size(rows: int, columns: int) -> None:
    """Raise ``JobError`` unless a terminal can have this size."""
    for name, value in (("rows", rows), ("columns", columns)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_LINES:
            raise JobError(f"{name} = {value!r}: a terminal has 1 to {_MOST_LINES} {name}")
