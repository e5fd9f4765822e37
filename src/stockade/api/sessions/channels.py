"""Several interpreters behind one agent: each has a channel, whose number is in front of its frames."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from stockade.api.sessions.link import Link
from stockade.core.errors import JobError

_CLOSE_SECONDS = 5.0
"""The agent has this long to end one of several interpreters. Then the agent ends with all of them."""
_NUMBERS = 1 << 16
_HANDLING = 64
"""Bytes that a frame counts beside its payload: a flood of empty frames takes memory, too."""
_CLOSED = "the caller closed it"


class Channel:
    """Sends frames to one interpreter, and receives its frames. The methods are those of ``Link``."""

    def __init__(self, channels: Channels, number: int) -> None:
        self._channels = channels
        self.number = number.to_bytes(2, "big")
        self.clock = channels.link.clock
        self.frames: deque[tuple[bytes, bytes]] = deque()
        self.size = 0
        self.closing = self.closed = False

    def send(self, kind: bytes, payload: bytes | dict[str, Any] = b"") -> None:
        """Send a frame. Raises ``EOFError`` if the agent is gone, and ``TimeoutError`` if it takes nothing in time."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self._channels.link.send(kind, self.number + data)

    def receive(self, deadline: float) -> tuple[bytes, bytes]:
        """Return the next frame of the channel; see ``Link.receive``."""
        self._channels.wait(self, lambda: bool(self.frames), deadline, self.clock)
        kind, payload = self.frames.popleft()
        self.size -= len(payload) + _HANDLING
        return kind, payload

    def another(self) -> Channel:
        """Open another channel of the same agent."""
        return self._channels.open()

    def close(self) -> None:
        """End the interpreter and every process of its own, and with the last interpreter the agent."""
        self._channels.close(self)


class Channels:
    """The channels of one agent. Any thread may wait for frames: one receives for all of them at a time."""

    def __init__(self, link: Link, *, most: int) -> None:
        """``most`` bytes of frames may wait in a channel."""
        self.link, self._most = link, most
        self._changed = threading.Condition()
        self._reading = False
        self._failed: EOFError | ValueError | None = None
        self._next = 0
        self._open: dict[bytes, Channel] = {}

    def open(self) -> Channel:
        """Open a channel with a new number. Raises ``JobError`` if all numbers were used."""
        with self._changed:
            if self._next == _NUMBERS:
                raise JobError(f"fork(): {_NUMBERS} interpreters have one origin, which is the most; start another one")
            channel = Channel(self, self._next)
            self._next += 1
            self._open[channel.number] = channel
            return channel

    def wait(self, channel: Channel, is_there: Callable[[], bool], deadline: float, clock: Callable[[], float]) -> None:
        """Receive until ``is_there`` returns true. Raises what ``Link.receive`` raises."""
        while True:
            with self._changed:
                if is_there():
                    return
                if channel.closed:
                    raise EOFError(_CLOSED)
                if self._failed is not None:
                    raise type(self._failed)(*self._failed.args)
                left = deadline - clock()
                if left <= 0:
                    raise TimeoutError
                if self._reading:
                    self._changed.wait(left)
                    continue
                self._reading = True
            self._receive(deadline, clock)

    def _receive(self, deadline: float, clock: Callable[[], float]) -> None:
        """Receive one frame, for whichever channel."""
        found = failed = None
        try:
            found = self.link.receive(deadline, clock)
        except TimeoutError:
            return
        except (EOFError, ValueError) as error:
            failed = error
        finally:
            with self._changed:
                self._reading = False
                self._failed = failed or self._failed
                if found is not None:
                    self._deliver(*found)
                self._changed.notify_all()

    def _deliver(self, kind: bytes, payload: bytes) -> None:
        channel = self._open.get(payload[:2])
        if channel is None:
            return
        if kind == b"z":
            channel.closed = True
            return
        channel.frames.append((kind, payload[2:]))
        channel.size += len(payload) - 2 + _HANDLING
        if channel.size > self._most:
            self._failed = ValueError("more messages than a cell can give back")

    def close(self, channel: Channel) -> None:
        """Close one channel, and the link if it is the last."""
        with self._changed:
            channel.closing = True
            last = self._failed is not None or all(each.closing for each in self._open.values())
        try:
            if not last and not channel.closed:
                channel.send(b"C")
                if not getattr(self.link.clock, "stands_still", False):  # a paused agent obeys when it goes on
                    self.wait(channel, lambda: channel.closed, time.monotonic() + _CLOSE_SECONDS, time.monotonic)
        except (OSError, EOFError, ValueError):
            last = True
        with self._changed:
            self._open.pop(channel.number, None)
            channel.closed = True
            self._changed.notify_all()
        if last:
            self.link.close()
