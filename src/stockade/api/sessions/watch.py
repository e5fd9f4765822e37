"""Changes in a folder of a living sandbox, told by an agent inside it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stockade.api.sessions import agents
from stockade.api.sessions.link import Frames, SessionEnded, frame
from stockade.api.sessions.records import decoded

if TYPE_CHECKING:
    from stockade.api.process import Process

_AGENT = "watch_agent.py"
_LONGEST_FRAME = 256 * 1024
PIECE = 64 * 1024
_LONGEST_PATH = 2 * 4096
KINDS = ("created", "written", "removed", "renamed", "attributes", "overflow")
MOST_FOLDERS = 2000


@dataclass(frozen=True)
class FileChange:
    """A change in a watched folder. The guest chooses all of it."""

    kind: str
    """``created``, ``written``, ``removed``, ``renamed``, ``attributes`` (mode, owner or times) or ``overflow``."""
    path: str
    """Relative to the watched folder. After ``overflow``, changes below this path were lost; empty means anywhere."""
    target: str = ""
    """The new path of what was renamed."""


class Watch:
    """Changes in a folder of a sandbox, in their order: ``Files.watch``. Iterate over it, or call ``read``.

    At most a mebibyte of changes waits for the caller, and what the kernel holds for the sandbox. Then changes are
    lost, and the next one is of the kind ``overflow``: look at the files again. Leaving the context ends the watch.
    """

    def __init__(self, process: Process, path: str, *, recursive: bool, max_folders: int, timeout: float) -> None:
        self._process, self._path = process, path
        self._frames = Frames(_LONGEST_FRAME)
        self._waiting: deque[FileChange] = deque()
        self.closed = False
        self._why = ""
        self._began = False
        until = time.monotonic() + timeout
        try:
            self._send({"path": path, "recursive": recursive, "most": max_folders}, timeout)
            while not self._began:
                self._take(process.stdout.read(PIECE, max(0.0, until - time.monotonic())))
        except BaseException:
            process.kill()
            raise

    def _send(self, request: dict[str, Any], timeout: float) -> None:
        try:
            self._process.stdin.write(agents.introduction(_AGENT) + frame(b"Q", request), timeout)
        except BrokenPipeError:
            raise SessionEnded(f"watch {self._path!r}: its agent did not start") from None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch."""
        self.close()

    def __iter__(self) -> Iterator[FileChange]:
        """Yield changes until the watch is closed. Raises ``SessionEnded`` if it ends by itself."""
        while not self.closed:
            yield self.read()

    def read(self, timeout: float | None = None) -> FileChange:
        """Return the next change.

        Raises ``TimeoutError`` after ``timeout`` seconds, and ``SessionEnded`` if the watch has ended: it was closed,
        the folder was removed, or the guest ended its agent.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (change := self._next()) is None:
            try:
                data = self._process.stdout.read(PIECE, None if until is None else max(0.0, until - time.monotonic()))
            except TimeoutError:
                raise self._late(timeout) from None
            self._take(data)
        return change

    def _late(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(f"watch {self._path!r}: no change within {timeout:g} s")

    def close(self) -> None:
        """End the watch."""
        self._end()
        self._process.kill()

    def _end(self) -> None:
        self.closed = True
        self._why = self._why or "the caller closed it"
        self._waiting.clear()

    def _next(self) -> FileChange | None:
        """Return the next change that is there. Raises ``SessionEnded`` if none will come."""
        if self._waiting:
            return self._waiting.popleft()
        if self._why:
            raise SessionEnded(f"watch {self._path!r}: {self._why}")
        return None

    def _take(self, data: bytes) -> None:
        """Take bytes of the agent, which are the guest's; empty ones are the end."""
        try:
            if not data:
                raise EOFError("its agent has ended; the guest may have killed it")
            self._frames.add(data)
            while found := self._frames.next():
                self._take_frame(found[0], decoded(found[1]))
        except (EOFError, ValueError) as error:
            self._why = str(error)
            if not self._began:
                raise SessionEnded(f"watch {self._path!r}: {self._why}") from error

    def _take_frame(self, kind: bytes, found: dict[str, Any]) -> None:
        if kind == b"c" and self._began and isinstance(found.get("changes"), list):
            self._waiting += map(_change, found["changes"])
        elif kind == b"=" and not self._began:
            self._began = True
        elif kind == b"x":
            raise EOFError(self._ending(found))
        else:
            raise ValueError("its agent broke the protocol")

    def _ending(self, found: dict[str, Any]) -> str:
        from stockade.api.sessions.files import error_of_answer

        error = error_of_answer("watch", self._path, found)
        if not self._began and isinstance(error, OSError):
            raise error
        return str(found.get("reason") or error)[:200]


def _change(found: Any) -> FileChange:
    if not isinstance(found, list) or len(found) != 3 or not all(isinstance(each, str) for each in found):
        raise ValueError("a change that is no list of three texts")
    if found[0] not in KINDS or max(map(len, found)) > _LONGEST_PATH:
        raise ValueError("a change of an unknown kind, or with too long a path")
    return FileChange(*found)
