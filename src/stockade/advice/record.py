"""A piece of advice, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AdviceKind(StrEnum):
    """The subject of a piece of advice."""

    SYNTAX = "syntax"
    LOOP = "loop"
    PATTERN = "pattern"
    CALL = "call"
    IMPORT = "import"


@dataclass(frozen=True, order=True)
class Advice:
    """A place in source text that deserves a look before it runs. ``line`` and ``column`` count from 1.

    ``message`` may quote the source, so escape it before you show it on a terminal or a page.
    """

    line: int
    column: int
    kind: AdviceKind
    message: str

    def __str__(self) -> str:
        """Return ``line:column: kind: message``, a form that editors understand."""
        return f"{self.line}:{self.column}: {self.kind}: {self.message}"

    def to_dict(self) -> dict[str, int | str]:
        """Return the advice as JSON-compatible data."""
        return {"line": self.line, "column": self.column, "kind": self.kind.value, "message": self.message}
