"""The caller's end of an agent: frames with deadlines. Every byte that comes in is the guest's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from stockade.api.sessions import agents
from stockade.api.sessions.agents import AgentProcess
from stockade.core.errors import StockadeError

_PIECE = 256 * 1024
_WRITE_SECONDS = 30.0
_END_SECONDS = 5.0


class SessionEnded(StockadeError):
    """The interpreter, shell or file access is gone. The message says why, and what to do."""


class Frames:
    """Cuts a stream of bytes into frames, of at most ``longest`` bytes each."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = bytearray()

    def add(self, data: bytes) -> None:
        """Take bytes of the stream."""
        self._buffer += data

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next frame's kind and payload if it is complete. Raises ``ValueError`` if it is too long."""
        if len(self._buffer) < 5:
            return None
        length = int.from_bytes(self._buffer[1:5], "big")
        if length > self._longest:
            raise ValueError(f"a message of {length} bytes, and {self._longest} is the most")
        if len(self._buffer) < 5 + length:
            return None
        kind, payload = bytes(self._buffer[:1]), bytes(self._buffer[5 : 5 + length])
        del self._buffer[: 5 + length]
        return kind, payload


def frame(kind: bytes, payload: bytes | dict[str, Any] = b"") -> bytes:
    """Return a frame."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return kind + len(data).to_bytes(4, "big") + data


class Link:
    """Sends frames to one agent, and receives its frames. One thread receives; any thread may send."""

    def __init__(self, process: AgentProcess, agent: str, *, longest: int) -> None:
        self._process = process
        self._frames = Frames(longest)
        self.clock: Callable[[], float] = getattr(process, "_clock", time.monotonic)
        """The clock of all deadlines. It stands still while the sandbox is paused."""
        self._sending = threading.Lock()
        self._send(agents.introduction(agent))

    def send(self, kind: bytes, payload: bytes | dict[str, Any] = b"", *, seconds: float = _WRITE_SECONDS) -> None:
        """Send a frame. Raises ``EOFError`` if the agent is gone, and ``TimeoutError`` if it takes nothing in time."""
        self._send(frame(kind, payload), seconds)

    def _send(self, data: bytes, seconds: float = _WRITE_SECONDS) -> None:
        with self._sending:
            try:
                self._process.stdin.write(data, timeout=seconds)
            except BrokenPipeError:
                raise EOFError(self._ending()) from None

    def _ending(self) -> str:
        result = self._process.wait(_END_SECONDS)
        refused = (
            f"; the limit on {name} was met ({state.evidence}): create the sandbox with more"
            for name, state in result.limits_met.items()
            if state.state == "met" and name != result.limit
        )
        return f"its agent has ended: {result.summary()}{''.join(refused)}"

    def receive(self, deadline: float, clock: Callable[[], float] | None = None) -> tuple[bytes, bytes]:
        """Return the next frame.

        Raises ``TimeoutError`` after ``deadline`` (of ``self.clock``, if no other is given), ``EOFError`` if the agent
        is gone, and ``ValueError`` for a frame that is too long.
        """
        while True:
            if found := self._frames.next():
                return found
            left = deadline - (clock or self.clock)()
            if left <= 0:
                raise TimeoutError
            try:
                data = self._process.stdout.read(_PIECE, timeout=left)
            except TimeoutError:
                continue  # the clock may have stood still meanwhile
            if not data:
                raise EOFError(self._ending())
            self._frames.add(data)

    def close(self) -> None:
        """End the agent and everything below it."""
        self._process.kill()
