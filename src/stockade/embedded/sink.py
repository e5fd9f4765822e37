"""Where a script's output goes: a bounded buffer that never blocks, and keeps the start."""

from __future__ import annotations

MOST_OUTPUT = 1_048_576


class Sink:
    """Text that scripts printed. What exceeds the bound is counted and dropped."""

    def __init__(self, most: int = MOST_OUTPUT) -> None:
        self._parts: list[str] = []
        self._size, self._most = 0, most
        self.dropped = 0

    def write(self, text: str) -> None:
        """Keep ``text``, or as much of it as there is room for."""
        kept = text[: max(0, self._most - self._size)]
        self.dropped += len(text) - len(kept)
        if kept:
            self._parts.append(kept)
            self._size += len(kept)
            if len(self._parts) > 1000:
                self._parts = ["".join(self._parts)]

    @property
    def text(self) -> str:
        """Return what was kept."""
        return "".join(self._parts)
