"""What the caller holds of one of the guest's streams: what the result will say of it, and no more."""

from __future__ import annotations

from stockade.core.launch import Watch
from stockade.warden.run.head_tail import HeadTail


class StreamBuffer:
    """Takes what comes. Where the launch limits output, the warden keeps the tail; else we keep one ourselves."""

    def __init__(self, watch: Watch, keep: int | None) -> None:
        """``keep`` is the most to hold where nothing limits output; ``None`` is all."""
        self._limited = watch.output_bytes is not None
        limit = watch.output_bytes if self._limited else keep
        self._head_tail = HeadTail(limit, head_only=self._limited and watch.kill_on_output)
        self._head = bytearray()
        self._came = 0

    def take(self, data: bytes) -> None:
        """Take the next piece."""
        self._came += len(data)
        self._head += self._head_tail.take(data)

    def rest(self, count: int, tail: bytes) -> tuple[int, bytes]:
        """Return position and bytes of what has not come, of a stream of ``count`` bytes that ends with ``tail``."""
        at = max(self._came, count - len(tail))
        return at, tail[len(tail) - (count - at) :] if at < count else b""

    def head(self) -> bytes:
        """Return the beginning."""
        return bytes(self._head)

    def tail(self, kept_tail: bytes) -> bytes:
        """Return the end, of which the warden has ``kept_tail``."""
        return kept_tail if self._limited else self._head_tail.tail()
