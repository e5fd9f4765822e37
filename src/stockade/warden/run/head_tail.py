"""The guest's output: counted to the byte, kept at both ends, and never more held than the limit says."""

from __future__ import annotations


class HeadTail:
    """Keeps the head and the tail of one stream within ``limit`` bytes together; ``None`` keeps all.

    The head leaves as it comes; the tail is only known at the end.
    """

    def __init__(self, limit: int | None, *, head_only: bool, live: bool = False) -> None:
        """``head_only`` gives the whole limit to the head: for a run that ends where the limit is met.

        ``live`` lets everything up to the limit leave as it comes, and keeps the tail besides.
        """
        self.count = 0
        self.limit = limit
        self.head = limit if limit is None or head_only else limit - limit // 2
        self._leaves = limit if live else self.head
        self._tail_limit = 0 if limit is None or head_only else limit // 2
        self._tail: list[bytes] = []
        self._tail_size = 0

    @property
    def exceeded(self) -> bool:
        """Return whether more came than may be kept."""
        return self.limit is not None and self.count > self.limit

    def take(self, data: bytes) -> bytes:
        """Count ``data`` and return the part of it that leaves now."""
        begin = self.count
        self.count += len(data)
        if self.head is None or self._leaves is None:
            return data
        if self.count > self.head and self._tail_limit:
            self._keep_tail(data[max(0, self.head - begin) :])
        return data[: max(0, self._leaves - begin)]

    def tail(self) -> bytes:
        """Return the last bytes, as many as the limit has room for."""
        return b"".join(self._tail)[-self._tail_limit :] if self._tail_limit else b""

    def _keep_tail(self, data: bytes) -> None:
        self._tail.append(data[-self._tail_limit :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.pop(0))
