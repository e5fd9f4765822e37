"""Head-tail buffer of a guest's stream: counts every byte, and keeps the two ends within the limit."""

from __future__ import annotations


class HeadTail:
    """Keeps head and tail of one stream, together at most ``limit`` bytes; ``None`` keeps all.

    The head is forwarded at once. The tail is known only at the end.
    """

    def __init__(self, limit: int | None, *, head_only: bool, live: bool = False) -> None:
        """``head_only`` gives the whole limit to the head, for a run that ends when it meets the limit.

        ``live`` forwards everything up to the limit at once, and keeps the tail besides.
        """
        self.count = 0
        self.limit = limit
        self.head = limit if limit is None or head_only else limit - limit // 2
        self._forwarded = limit if live else self.head
        self._tail_limit = 0 if limit is None or head_only else limit // 2
        self._tail: list[bytes] = []
        self._tail_size = 0

    @property
    def exceeded(self) -> bool:
        """Return whether the stream is longer than its limit."""
        return self.limit is not None and self.count > self.limit

    def take(self, data: bytes) -> bytes:
        """Count ``data``, and return the part to forward now."""
        begin = self.count
        self.count += len(data)
        if self.head is None or self._forwarded is None:
            return data
        if self.count > self.head and self._tail_limit:
            self._keep_tail(data[max(0, self.head - begin) :])
        return data[: max(0, self._forwarded - begin)]

    def tail(self) -> bytes:
        """Return the last bytes within the limit."""
        return b"".join(self._tail)[-self._tail_limit :] if self._tail_limit else b""

    def _keep_tail(self, data: bytes) -> None:
        self._tail.append(data[-self._tail_limit :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.pop(0))
