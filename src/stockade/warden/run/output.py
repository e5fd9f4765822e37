"""Output capture: reads a guest's two streams and its result channel as they fill."""

from __future__ import annotations

import os

from stockade.warden import loop
from stockade.warden.protocol import COMPLETION_MARKER
from stockade.warden.run.head_tail import HeadTail
from stockade.warden.run.meter import NEAR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import partial
    from typing import Any

    from stockade.core.launch import Watch
    from stockade.warden.run.execution import Streams
else:
    from _functools import partial  # ``functools`` imports half a dozen modules

CHANNEL_LIMIT = 1 << 20
_CHUNK = 1 << 16
"""The most bytes that one turn of the loop reads from a stream, so that no guest keeps the others waiting."""
_MOST_PIECES = 257
"""More pieces than a pipe can hold: a mebibyte has 256 pages, and each may be a packet (pipe(2), O_DIRECT)."""


class OutputCapture:
    """Reads stdout, stderr and result channel of one guest. Callbacks come from the run's own loop."""

    def __init__(
        self,
        events: loop.Guarded,
        streams: Streams,
        watch: Watch,
        *,
        channel: bool,
        on_head: Callable[[int, int, bytes], None],
        on_limit: Callable[[str, int], None],
        on_end: Callable[[], None],
        on_completed: Callable[[int], None] | None = None,
        at_once: bool = True,
        window: int = 0,
    ) -> None:
        """Prepare to read; ``start`` begins.

        ``channel``: whether the guest has a result channel.
        ``on_head``: called with stream, position and bytes of the part to forward.
        ``on_limit``: called once with ``"near"`` and once with ``"met"``, and the bytes of that stream.
        ``on_end``: called when both streams have ended.
        ``on_completed``: called with the exit status behind a completion marker; ``None`` looks for no marker.
        ``at_once``: whether to read the streams from ``start`` on, or only from ``begin`` on.
        ``window``: the bytes of a live stream that may wait for the caller, see ``take_back``; 0 means bounded streams.
        """
        self._loop = events
        self._channel_fd = streams.channel
        self._channel = bytearray()
        self._overflow = False
        self._streams = {number: fd for number, fd in ((1, streams.stdout), (2, streams.stderr)) if fd >= 0}
        self._window = window
        self._taken = {1: 0, 2: 0}
        self._full: set[int] = set()
        """Live streams that are not read, because their window is used up."""
        self._buffers = {
            number: HeadTail(watch.output_bytes, head_only=watch.kill_on_output, live=watch.live) for number in (1, 2)
        }
        self._reported = ""
        self._begun = at_once
        self._paused = not at_once
        self._on_head, self._on_limit, self._on_end, self._on_completed = on_head, on_limit, on_end, on_completed
        self._completed = False
        self._has_channel = channel
        self._all: tuple[int, ...] = (streams.stdout, streams.stderr, streams.channel)

    def start(self) -> None:
        """Begin to read the result channel, and the streams unless that waits for ``begin``."""
        if self._has_channel:  # a guest without one closes it just as it starts, which must not wake the warden
            self._loop.watch(self._channel_fd, loop.READ, self._on_channel)
        if not self._paused:
            self._watch()

    @property
    def begun(self) -> bool:
        """Whether the streams are being read."""
        return self._begun

    def begin(self) -> None:
        """Read the streams from now on."""
        self._begun = True
        self.pause(False)

    def pause(self, pause: bool) -> None:
        """Stop reading the streams, or read them again."""
        if pause == self._paused or not self._begun:
            return
        self._paused = pause
        if pause:
            for fd in self._streams.values():
                self._loop.forget(fd)
        else:
            self._watch()

    def take_back(self, number: int, count: int) -> None:
        """Learn that the caller has read ``count`` bytes of a live stream."""
        self._taken[number] = max(self._taken[number], count)
        if number in self._full and self._is_open(number):
            self._full.discard(number)
            if not self._paused:
                self._watch()

    def _is_open(self, number: int) -> bool:
        return not self._window or self._buffers[number].count - self._taken[number] < self._window

    def _watch(self) -> None:
        for number, fd in self._streams.items():
            if number not in self._full:
                self._loop.watch(fd, loop.READ, partial(self._on_stream, number, fd))

    @property
    def count(self) -> int:
        """The bytes that the guest has written so far to both streams."""
        return self._buffers[1].count + self._buffers[2].count

    def take_output(self) -> None:
        """Read what the streams hold now. A process that an exec left behind may go on writing to them."""
        for number, fd in tuple(self._streams.items()):
            for _ in range(_MOST_PIECES):
                if not self._take(number, fd):
                    break

    def take_report(self) -> None:
        """Read the rest of the result channel. The guest is dead, so nothing can follow."""
        while self._has_channel and self._on_channel(0):
            pass

    def report(self) -> dict[str, Any]:
        """Return counts, tails, and the content of the channel."""
        return {
            "output": [self._buffers[1].count, self._buffers[2].count],
            "tails": [self._buffers[1].tail(), self._buffers[2].tail()],
            "channel": bytes(self._channel),
            "channel_overflow": self._overflow,
        }

    def abandon(self) -> None:
        """Stop reading for good, so that the execution can close the descriptors before the end."""
        self.close()
        self._streams, self._all, self._has_channel = {}, (), False

    def close(self) -> None:
        """Stop reading. The execution owns the descriptors, and closes them."""
        for fd in self._all:
            self._loop.forget(fd)

    def _on_stream(self, number: int, fd: int, _events: int) -> None:
        self._take(number, fd)
        if not self._is_open(number) and number in self._streams:
            self._full.add(number)
            self._loop.forget(fd)
        if not self._streams:
            self._on_end()

    def _take(self, number: int, fd: int) -> bool:
        """Read once from a stream. Return whether more may come."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: no process has the terminal open any more
            data = b""
        if not data:
            self._loop.forget(fd)
            self._streams.pop(number, None)
            return False
        buffer = self._buffers[number]
        at = buffer.count
        head = buffer.take(data)
        if head:
            self._on_head(number, at, head)
        if buffer.limit is not None and buffer.count >= NEAR * buffer.limit and self._reported != "met":
            self._note_limit("met" if buffer.exceeded else "near", buffer.count)
        return True

    def _note_limit(self, state: str, used: int) -> None:
        if state != self._reported:
            self._reported = state
            self._on_limit(state, used)

    def _on_channel(self, _events: int) -> bool:
        try:
            data = os.read(self._channel_fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.forget(self._channel_fd)
            return False
        if self._completed:
            return True  # bytes behind the marker do not belong to the result
        before = len(self._channel)
        space = CHANNEL_LIMIT - before
        self._channel += data[:space]
        self._overflow |= len(data) > space
        if self._on_completed is not None:
            self._find_marker(before, self._on_completed)
        return True

    def _find_marker(self, fresh: int, on_completed: Callable[[int], None]) -> None:
        """Look for the completion marker in the bytes from ``fresh`` on. The marker may have begun before them."""
        at = self._channel.find(COMPLETION_MARKER, max(0, fresh - len(COMPLETION_MARKER)))
        status = self._channel[at + len(COMPLETION_MARKER) : at + len(COMPLETION_MARKER) + 1]
        if at >= 0 and status:
            self._completed = True
            del self._channel[at:]
            on_completed(status[0])
