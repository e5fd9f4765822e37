"""The caller's buffer of one output stream: exactly the bytes that the result needs."""

from __future__ import annotations

from stockade.core.launch import Watch
from stockade.warden.run.head_tail import HeadTail


class StreamBuffer:
    """Keeps head and tail of a stream. If the launch limits output, the warden keeps the tail instead."""

    def __init__(self, watch: Watch, keep: int | None) -> None:
        """``keep`` bounds the bytes kept if nothing limits output; ``None`` keeps all."""
        self._limited = watch.output_bytes is not None
        limit = watch.output_bytes if self._limited else keep
        self._head_tail = HeadTail(limit, head_only=self._limited and watch.kill_on_output)
        self._head = bytearray()
        self._came = 0

    def take(self, data: bytes) -> None:
        """Add the next piece."""
        self._came += len(data)
        self._head += self._head_tail.take(data)

    def rest(self, count: int, tail: bytes) -> tuple[int, bytes]:
        """Return offset and bytes of the part not received yet, of ``count`` bytes that end with ``tail``."""
        at = max(self._came, count - len(tail))
        return at, tail[len(tail) - (count - at) :] if at < count else b""

    def head(self) -> bytes:
        """Return the head of the stream."""
        return bytes(self._head)

    def tail(self, kept_tail: bytes) -> bytes:
        """Return the tail of the stream; ``kept_tail`` is the warden's."""
        return kept_tail if self._limited else self._head_tail.tail()
